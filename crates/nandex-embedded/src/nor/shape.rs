//! The pages and blocks of a NOR part, which are ours to cut.

use nandex::nand::PartError;

/// Most blocks of a chip unless more are asked for. An index keeps some bytes of RAM for each.
const BLOCKS_MOST: u32 = 512;

/// How pages lie in the erase units of a NOR part, and how many units make a block.
///
/// A block is erased unit by unit, in one call of the driver, which may take a larger erase of the part for
/// it (64 KiB on many serial parts).
///
/// ```
/// use nandex_embedded::Shape;
///
/// let internal = Shape::new(448, 64);                           // each word is written once
/// let serial = Shape::new(448, 64).with_overwrites(true);       // W25Q: bits are cleared at any time
/// assert!(serial.overwrites && !internal.overwrites);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// Bytes of a page's data area.
    pub page_bytes: u32,
    /// Bytes of the spare area: 16 for an FTL. An index whose chip has too few names the number that it
    /// needs.
    pub spare_bytes: u32,
    /// True if the part clears bits of written words, any number of times between two erases, as serial NOR
    /// does. The flash of a microcontroller mostly does not: it has an ECC, or allows two writes of a word.
    pub overwrites: bool,
    /// Erase units of a block; `None` for as few as make at most 512 blocks of the part. An index keeps RAM
    /// for each block, and chips of fewer blocks need less; a store of few units wants blocks of one.
    pub units_per_block: Option<u32>,
}

impl Shape {
    /// Pages of these bytes, on a part whose words are written once between two erases.
    pub const fn new(page_bytes: u32, spare_bytes: u32) -> Shape {
        Shape { page_bytes, spare_bytes, overwrites: false, units_per_block: None }
    }

    /// This on a part that clears bits of written words, or does not.
    #[must_use]
    pub const fn with_overwrites(mut self, overwrites: bool) -> Shape {
        self.overwrites = overwrites;
        self
    }

    /// This with so many erase units a block.
    #[must_use]
    pub const fn with_units_per_block(mut self, units: u32) -> Shape {
        self.units_per_block = Some(units);
        self
    }

    /// The erase units of a block on a part of so many bytes. A block has two pages at least.
    pub(super) fn units(&self, unit_bytes: u32, capacity: u32) -> Result<u64, PartError> {
        let block_bytes = 2 * (u64::from(self.page_bytes) + u64::from(self.spare_bytes));
        let least = block_bytes.div_ceil(u64::from(unit_bytes));
        match self.units_per_block.map(u64::from) {
            None => Ok(least.max(u64::from((capacity / unit_bytes).div_ceil(BLOCKS_MOST)))),
            Some(units) if units >= least.max(1) => Ok(units),
            Some(units) => {
                Err(PartError::new("units_per_block", "the erase units of a block hold two pages", units))
            }
        }
    }
}
