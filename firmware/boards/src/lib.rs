//! What both boards share: a bus made of bytes that are exchanged, a delay, a heap, and an index that counts
//! the starts of the board.
#![no_std]

extern crate alloc;

use core::convert::Infallible;
use core::mem::MaybeUninit;
use core::ptr::{addr_of_mut, read_volatile, write_volatile};
use embedded_alloc::LlffHeap;
use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{ErrorType, Operation, SpiDevice};
use nandex::nand::LentSpare;
use nandex::ordered::mu::MuTree;
use nandex::ordered::{RawConfig, RecordFormat, spare_bytes_needed};
use nandex::{IndexError, Nand, OrderedIndex};
use nandex_spi::{OpenError, SpiNand};

#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();

/// Bytes of the heap: a tree on a part of 1,024 blocks takes less than 40 KiB, mounts included.
const HEAP_BYTES: usize = 48 << 10;

/// Gives the heap its room. Once, before anything is allocated.
pub fn start_heap() {
    static mut ROOM: [MaybeUninit<u8>; HEAP_BYTES] = [MaybeUninit::uninit(); HEAP_BYTES];
    // SAFETY: called once, and nobody else knows the room.
    unsafe { HEAP.init(addr_of_mut!(ROOM) as usize, HEAP_BYTES) }
}

/// An SPI block and its chip select.
pub trait Exchange {
    /// Sends a byte and returns the one that came back.
    fn exchange(&mut self, byte: u8) -> u8;
    /// Drives the chip select: low selects.
    fn select(&mut self, is_low: bool);
}

/// A device of its own on a bus.
pub struct Device<E>(pub E);

impl<E> ErrorType for Device<E> {
    type Error = Infallible;
}

impl<E: Exchange> SpiDevice for Device<E> {
    fn transaction(&mut self, steps: &mut [Operation<'_, u8>]) -> Result<(), Infallible> {
        self.0.select(true);
        for step in steps {
            match step {
                Operation::Write(bytes) => bytes.iter().for_each(|byte| {
                    self.0.exchange(*byte);
                }),
                Operation::Read(bytes) => bytes.iter_mut().for_each(|byte| *byte = self.0.exchange(0)),
                Operation::Transfer(read, write) => {
                    for at in 0..read.len().max(write.len()) {
                        let byte = self.0.exchange(write.get(at).copied().unwrap_or(0));
                        if let Some(place) = read.get_mut(at) {
                            *place = byte;
                        }
                    }
                }
                Operation::TransferInPlace(bytes) => {
                    bytes.iter_mut().for_each(|byte| *byte = self.0.exchange(*byte));
                }
                Operation::DelayNs(ns) => cortex_m::asm::delay(*ns / 8 + 1),
            }
        }
        self.0.select(false);
        Ok(())
    }
}

/// A delay that counts cycles, for a core of at most 125 MHz: slower cores wait longer.
pub struct Cycles;

impl DelayNs for Cycles {
    fn delay_ns(&mut self, ns: u32) {
        cortex_m::asm::delay(ns / 8 + 1);
    }
}

/// Why the board stopped.
#[derive(Debug)]
pub enum Stopped {
    /// The part could not be opened.
    Part(OpenError),
    /// The index failed.
    Index(IndexError),
}

impl From<IndexError> for Stopped {
    fn from(error: IndexError) -> Stopped {
        Stopped::Index(error)
    }
}

/// Finds the index on the part, or makes one on a blank part, and counts this start of the board in
/// it. Cut the power whenever you like: the count is that of the last start that was acknowledged, or one
/// more.
pub fn count_starts<S: SpiDevice, D: DelayNs>(bus: S, delay: D) -> Result<u64, Stopped> {
    let chip = SpiNand::open(bus, delay).map_err(Stopped::Part)?;
    let needed = spare_bytes_needed(&chip.geometry());
    let config = RawConfig::new(RecordFormat::new(8, 8));
    let chip = LentSpare::new(chip, needed);
    count(nandex::open(chip, &config, MuTree::mount, MuTree::format).map_err(IndexError::from)?)
}

fn count(mut index: impl OrderedIndex) -> Result<u64, Stopped> {
    let (key, mut value) = (1u64.to_be_bytes(), [0; 8]);
    index.get(&key, &mut value)?;
    let starts = u64::from_be_bytes(value) + 1;
    index.insert(&key, &starts.to_be_bytes())?;
    index.close()?;
    Ok(starts)
}

/// The result where a debugger finds it: 1 and the starts, or 2.
pub static mut OUTCOME: [u32; 2] = [0; 2];

/// Leaves the result for a debugger, and stops.
pub fn stop(outcome: &Result<u64, Stopped>) -> ! {
    let words = match outcome {
        Ok(starts) => [1, *starts as u32],
        Err(_) => [2, 0],
    };
    // SAFETY: nothing else runs.
    unsafe { write_volatile(addr_of_mut!(OUTCOME), words) };
    loop {
        cortex_m::asm::wfi();
    }
}

/// Reads a register.
///
/// # Safety
///
/// `address` is that of a register of this part.
pub unsafe fn read(address: u32) -> u32 {
    // SAFETY: the caller's.
    unsafe { read_volatile(address as *const u32) }
}

/// Writes a register.
///
/// # Safety
///
/// `address` is that of a register of this part, and the value does what is wanted.
pub unsafe fn write(address: u32, value: u32) {
    // SAFETY: the caller's.
    unsafe { write_volatile(address as *mut u32, value) }
}
