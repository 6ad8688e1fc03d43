//! The shape of a chip as Linux counts it, and parts of a chip.

use crate::error::MtdError;
use crate::layout::{Packing, SpareLayout};
use nandex::nand::BlockRange;
use nandex::{Geometry, Nand, Pbn};
use std::fmt;
use std::str::FromStr;

/// Bytes of pages and out-of-band areas, and pages of a block, as in `2048+64x64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawGeometry {
    /// Bytes of a page's data area.
    pub page_bytes: u32,
    /// Bytes of its whole out-of-band area, mark and ECC included.
    pub oob_bytes: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
}

impl RawGeometry {
    /// Bytes of a page in a dump.
    pub fn raw_page_bytes(&self) -> u64 {
        u64::from(self.page_bytes) + u64::from(self.oob_bytes)
    }

    /// Bytes of a block in a dump.
    pub fn raw_block_bytes(&self) -> u64 {
        self.raw_page_bytes() * u64::from(self.pages_per_block)
    }

    /// Bytes of a block's data areas.
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.page_bytes) * u64::from(self.pages_per_block)
    }

    /// The byte of the out-of-band area that marks a block bad: the sixth of small pages, the first of
    /// others.
    pub fn mark_at(&self) -> usize {
        if self.page_bytes <= 512 && self.oob_bytes > 5 { 5 } else { 0 }
    }

    /// The chip that the engine sees.
    pub(crate) fn engine(&self, packing: Packing, blocks: u32, name: &str) -> Result<Geometry, MtdError> {
        let geometry = Geometry::new(packing.page_bytes, packing.spare_bytes(), self.pages_per_block, blocks);
        geometry.validate().map_err(|e| MtdError::unsupported(name, e.to_string()))?;
        Ok(geometry)
    }

    /// Refuses a layout that exceeds the out-of-band area.
    pub(crate) fn check_layout(&self, layout: &SpareLayout, name: &str) -> Result<(), MtdError> {
        if layout.end() > u64::from(self.oob_bytes) {
            let why =
                format!("free bytes {layout} end beyond the out-of-band area of {} bytes", self.oob_bytes);
            return Err(MtdError::unsupported(name, why));
        }
        if layout.holds(self.mark_at() as u32) {
            let why = format!("free bytes {layout} include byte {}, the bad-block mark", self.mark_at());
            return Err(MtdError::unsupported(name, why));
        }
        Ok(())
    }
}

impl fmt::Display for RawGeometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}x{}", self.page_bytes, self.oob_bytes, self.pages_per_block)
    }
}

impl FromStr for RawGeometry {
    type Err = String;

    fn from_str(text: &str) -> Result<RawGeometry, String> {
        let parts = text.split_once('+').and_then(|(page, rest)| {
            let (oob, pages) = rest.split_once('x')?;
            let number = |text: &str| text.parse::<u32>().ok();
            Some((number(page)?, number(oob)?, number(pages)?))
        });
        let (page_bytes, oob_bytes, pages_per_block) =
            parts.ok_or_else(|| format!("'{text}': give PAGE+OOBxPAGES, such as 2048+64x64"))?;
        let one_of = |what, value, low: u32, high: u32| match (low..=high).contains(&value) {
            true => Ok(()),
            false => Err(format!("'{text}': {what} is {value}, not between {low} and {high}")),
        };
        one_of("the page", page_bytes, 64, 65_536)?;
        one_of("the out-of-band area", oob_bytes, 1, 65_536)?;
        one_of("the pages of a block", pages_per_block, 2, 4096)?;
        Ok(RawGeometry { page_bytes, oob_bytes, pages_per_block })
    }
}

/// A range of blocks of a chip: a part of a device, for an index that shares it.
///
/// # Errors
///
/// [`MtdError::Unsupported`] where the chip has no such blocks, or they are fewer than four.
pub fn range<N: Nand>(nand: N, name: &str, (first, blocks): (u32, u32)) -> Result<BlockRange<N>, MtdError> {
    let there = nand.geometry().blocks;
    if first.checked_add(blocks).is_none_or(|end| end > there) {
        let end = u64::from(first) + u64::from(blocks);
        let why = format!("blocks {first} to {end} were asked for, and it has {there}");
        return Err(MtdError::unsupported(name, why));
    }
    if blocks < 4 {
        let why = format!("{blocks} blocks are too few: an index needs 4 and more");
        return Err(MtdError::unsupported(name, why));
    }
    Ok(BlockRange::new(nand, Pbn(first), blocks))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use nandex::nand::catalogue::mlc_64m;
    use nandex::nand::sim::SimChip;

    #[test]
    fn a_geometry_is_text_and_back() {
        let geometry: RawGeometry = "2048+64x64".parse().unwrap();
        assert_eq!(geometry.to_string(), "2048+64x64");
        assert_eq!((geometry.raw_block_bytes(), geometry.block_bytes()), (135_168, 131_072));
        assert_eq!((geometry.mark_at(), "512+16x32".parse::<RawGeometry>().unwrap().mark_at()), (0, 5));
        for (text, word) in
            [("2048", "PAGE+OOB"), ("2048+64", "such as"), ("1+1x64", "page is 1"), ("2048+64x1", "block")]
        {
            assert!(text.parse::<RawGeometry>().unwrap_err().contains(word), "{text}");
        }
    }

    #[test]
    fn a_range_that_is_not_there_is_refused() {
        let chip = || SimChip::new(&mlc_64m()).unwrap();
        let blocks = chip().geometry().blocks;
        assert_eq!(range(chip(), "chip", (4, 8)).unwrap().geometry().blocks, 8);
        for place in [(0, blocks + 1), (blocks, 4), (u32::MAX, 4), (0, 3)] {
            let refused = range(chip(), "chip", place).err().unwrap().to_string();
            assert!(refused.starts_with("chip: "), "{refused}");
        }
    }
}
