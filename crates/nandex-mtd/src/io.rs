//! The requests of an MTD device as a trait, so that a model answers them in tests.

use crate::geometry::RawGeometry;
use crate::layout::SpareLayout;
use rustix::io::Errno;

/// How Linux places out-of-band bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OobMode {
    /// All out-of-band bytes in the order of the chip; data are corrected.
    Place = 0,
    /// The free bytes only, in a row; data are corrected.
    Auto = 1,
    /// All out-of-band bytes in the order of the chip; nothing is corrected.
    Raw = 2,
}

/// The facts that a device tells about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Geometry of the pages and blocks.
    pub raw: RawGeometry,
    /// Blocks of the device or partition.
    pub blocks: u32,
    /// The free bytes of an out-of-band area, by its driver.
    pub layout: SpareLayout,
    /// Bit errors of a step that the ECC corrects; 0 where the driver does not tell.
    pub ecc_strength: u32,
    /// The name of the partition.
    pub name: String,
}

/// The findings of the ECC in one read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// Number of corrected bits.
    pub corrected: u32,
    /// Steps that could not be corrected.
    pub uncorrectable: u32,
}

/// Requests to an MTD device. An offset counts bytes of data areas from the start of the device. Buffers hold
/// whole pages; out-of-band buffers hold at most the bytes that the mode has. Errors are those of the system.
/// After [`Errno::UCLEAN`] and [`Errno::BADMSG`] of a read the buffers hold the bytes read.
pub trait MtdIo: Send {
    /// The facts of the device.
    fn facts(&self) -> &Facts;

    /// Reads a page (MEMREAD). Returns the result of the ECC, together with the error if there is one.
    fn read(
        &mut self,
        at: u64,
        mode: OobMode,
        page: (&mut [u8], &mut [u8]),
    ) -> (ReadStats, Result<(), Errno>);

    /// Programs a page, out-of-band bytes with it (MEMWRITE).
    fn write(&mut self, at: u64, mode: OobMode, page: (&[u8], &[u8])) -> Result<(), Errno>;

    /// Erases a block (MEMERASE64).
    fn erase(&mut self, at: u64) -> Result<(), Errno>;

    /// Whether a block is marked bad (MEMGETBADBLOCK).
    fn is_bad(&mut self, at: u64) -> Result<bool, Errno>;

    /// Marks a block bad (MEMSETBADBLOCK).
    fn mark_bad(&mut self, at: u64) -> Result<(), Errno>;

    /// Corrected and uncorrectable errors since the driver was loaded, by all users (ECCGETSTATS).
    fn ecc_totals(&mut self) -> Result<ReadStats, Errno>;
}
