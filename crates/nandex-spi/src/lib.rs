//! SPI NAND for microcontrollers: a chip of Nandex behind a serial bus.
//!
//! ```
//! # #[cfg(feature = "model")] fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use nandex::nand::LentSpare;
//! use nandex::ordered::mu::MuTree;
//! use nandex::ordered::{RawConfig, RecordFormat, spare_bytes_needed};
//! use nandex::{Nand, OrderedIndex};
//! use nandex_spi::SpiNand;
//! # let (bus, delay) = nandex_spi::model::Model::new(&nandex_spi::parts::W25N01GV).handles();
//!
//! // `bus` is any `embedded_hal::spi::SpiDevice`, `delay` any `DelayNs`.
//! let chip = SpiNand::open(bus, delay)?;
//! assert_eq!(chip.part().name, "W25N01GV");
//!
//! // The ECC of the part leaves 16 spare bytes, and the tree wants 45: the data area lends the rest.
//! let needed = spare_bytes_needed(&chip.geometry());
//! let mut index = MuTree::format(LentSpare::new(chip, needed), &RawConfig::new(RecordFormat::new(8, 8)))?;
//! index.insert(&7u64.to_be_bytes(), &700u64.to_be_bytes())?;      // on the chip when it returns
//! # Ok(()) }
//! # #[cfg(not(feature = "model"))] fn main() {}
//! ```
//!
//! [`SpiNand::open`] resets the chip, knows it by its identification ([`parts`]) or by its ONFI parameter
//! page, takes the write protection away and turns the ECC on. From then on it is a [`Nand`](nandex::Nand).
//! Each operation waits until the part is ready; nothing is allocated, and the driver holds some 100 bytes.
//!
//! - **ECC**: the part corrects; the driver decodes how many bits, each maker's way ([`Ecc`]). More than can
//!   be corrected is an unreadable page to the index. A read tells how many were; a page near the limit is
//!   moved by the index, and named by [`SpiNand::take_weak`].
//! - **Four lines**: [`FourLines`] around a bus that has them reads, and on most parts writes, the data of a
//!   page four times as fast.
//! - **Spare area**: only bytes that the ECC covers are used. Byte 0 of the engine's spare area is the place
//!   of the bad-block mark and is kept nowhere else.
//! - **Bad blocks**: the mark is the first spare byte of a block's first page. It is read before a block is
//!   erased, so that a mark of the factory is never lost.
//! - **Faults of bus and part** (no answer in time, a protection pin held, a part that lost its power for a
//!   moment and protects its blocks again): the operation answers `NandError::Device` with [`Fault::code`],
//!   so that no index takes a chip that is gone for one with torn pages or worn blocks;
//!   [`SpiNand::last_fault`] says what happened. After a reset of the part the driver is opened again.
//!
//! How to wire a part, bring it up and write a driver for another bus: `docs/porting.md`.

#![cfg_attr(not(feature = "std"), no_std)]

mod bus;
mod driver;
mod ecc;
mod fault;
#[cfg(feature = "model")]
pub mod model;
mod nand;
mod onfi;
pub mod parts;

pub use bus::{FourLines, QuadDevice, SerialBus};
pub use driver::{Counts, SpiNand};
pub use ecc::Ecc;
pub use fault::{Fault, OpenError, Wait};
pub use parts::SpiPart;

/// Commands that the parts have in common.
pub(crate) mod command {
    pub(crate) const RESET: u8 = 0xff;
    pub(crate) const READ_ID: u8 = 0x9f;
    pub(crate) const GET_FEATURE: u8 = 0x0f;
    pub(crate) const SET_FEATURE: u8 = 0x1f;
    pub(crate) const WRITE_ENABLE: u8 = 0x06;
    pub(crate) const PAGE_READ: u8 = 0x13;
    pub(crate) const READ_CACHE: u8 = 0x03;
    pub(crate) const PROGRAM_LOAD: u8 = 0x02;
    pub(crate) const PROGRAM_LOAD_MORE: u8 = 0x84;
    /// Read from the buffer and load into it on four lines.
    pub(crate) const READ_CACHE_X4: u8 = 0x6b;
    pub(crate) const PROGRAM_LOAD_X4: u8 = 0x32;
    pub(crate) const PROGRAM_LOAD_MORE_X4: u8 = 0x34;
    pub(crate) const PROGRAM_EXECUTE: u8 = 0x10;
    pub(crate) const BLOCK_ERASE: u8 = 0xd8;
    /// Winbond: the die that listens.
    pub(crate) const SELECT_DIE: u8 = 0xc2;
    /// Macronix: bits corrected in the page read last.
    pub(crate) const READ_CORRECTED: u8 = 0x7c;
}

/// Registers of features, and their bits.
pub(crate) mod feature {
    pub(crate) const PROTECTION: u8 = 0xa0;
    pub(crate) const CONFIGURATION: u8 = 0xb0;
    pub(crate) const STATUS: u8 = 0xc0;
    /// Micron: bit 6 selects the die.
    pub(crate) const DIE: u8 = 0xd0;
    /// GigaDevice: a second status.
    pub(crate) const STATUS_2: u8 = 0xf0;
    /// Winbond and Kioxia: bits corrected, in the upper half.
    pub(crate) const CORRECTED: u8 = 0x30;

    pub(crate) const BUSY: u8 = 0x01;
    pub(crate) const WRITE_ENABLED: u8 = 0x02;
    pub(crate) const ERASE_FAILED: u8 = 0x04;
    pub(crate) const PROGRAM_FAILED: u8 = 0x08;
    pub(crate) const ECC_ON: u8 = 0x10;
    pub(crate) const PARAMETER_PAGES: u8 = 0x40;
    pub(crate) const QUAD_ENABLED: u8 = 0x01;
}
