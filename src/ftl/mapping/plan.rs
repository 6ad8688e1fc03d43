//! Plan of a chip: the number of logical pages that it gets under a scheme.

use super::{base, note_pages};
use crate::blocks::Validity;
use crate::blocks::checkpoint::{CheckpointArea, anchor_count};
use crate::blocks::wear::WearLevelling;
use crate::check::words;
use crate::fault::StoreFault;
use crate::nand::Geometry;
use crate::store::StoreError;

/// A base has room for this many lost pages.
const LOST_PAGES: usize = 64;

/// The settings of any scheme; takes effect when a chip is formatted.
///
/// An example stands at [`DftlFtl`](crate::DftlFtl).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct FlashConfig {
    /// Physical pages beyond the logical ones, in a million of the logical ones. Small chips keep more back,
    /// as much as it takes to work.
    pub over_provisioning_ppm: u32,
    /// Blocks reserved for failures, in millionths of all blocks.
    pub bad_blocks_ppm: u32,
    /// Static wear levelling: whether and when blocks with cold data move. Takes effect at a mount, too.
    pub wear_levelling: WearLevelling,
}

impl Default for FlashConfig {
    fn default() -> FlashConfig {
        FlashConfig {
            over_provisioning_ppm: 125_000,
            bad_blocks_ppm: 20_000,
            wear_levelling: WearLevelling::None,
        }
    }
}

/// Needs of a scheme besides its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// Log blocks, frontiers, and blocks for merges and collection.
    pub(crate) blocks: u32,
    /// Form of validity.
    pub(crate) validity: Validity,
    /// Largest number of bytes of the scheme's own in a base.
    pub(crate) extra_bytes: usize,
    /// True if logical pages come in whole logical blocks.
    pub(crate) whole_blocks: bool,
}

/// Division of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChipPlan {
    pub(crate) page_count: u32,
    /// Blocks that the next base takes: never used for anything else.
    pub(crate) base_blocks: u32,
}

impl ChipPlan {
    /// Number of blocks that a base with a bit for each page takes.
    pub fn base_blocks(geometry: Geometry, extra_bytes: usize) -> u32 {
        ChipPlan::base_blocks_with(geometry, Validity::Bits, extra_bytes)
    }

    /// Number of blocks that a base with this form of validity takes.
    pub(crate) fn base_blocks_with(geometry: Geometry, validity: Validity, extra_bytes: usize) -> u32 {
        let bytes = base::encoded_bytes(geometry, validity, extra_bytes) + 4 * LOST_PAGES;
        let pages = CheckpointArea::pages_needed(geometry, bytes) as u32 + note_pages(geometry);
        pages.div_ceil(geometry.pages_per_block)
    }

    /// Plan for a chip about to be formatted, from the number of its good blocks.
    pub(crate) fn new(
        geometry: Geometry,
        settings: &FlashConfig,
        good_blocks: u32,
        needs: Needs,
    ) -> Result<ChipPlan, StoreFault> {
        let (good, block_pages) = (u64::from(good_blocks), u64::from(geometry.pages_per_block));
        let base_blocks = ChipPlan::base_blocks_with(geometry, needs.validity, needs.extra_bytes);
        let failing = (good * u64::from(settings.bad_blocks_ppm)).div_ceil(1_000_000);
        let kept = u64::from(anchor_count(geometry) + 2 * base_blocks + needs.blocks) + failing;
        let wanted = good * block_pages * 1_000_000 / (1_000_000 + u64::from(settings.over_provisioning_ppm));
        let mut pages = wanted.min(good.saturating_sub(kept) * block_pages);
        if needs.whole_blocks {
            pages -= pages % block_pages;
        }
        if pages == 0 {
            let needs = u32::try_from(kept).unwrap_or(u32::MAX);
            return Err(
                StoreError::ChipTooSmall { who: words("the FTL alone"), needs, has: good_blocks }.into()
            );
        }
        debug_assert!(pages <= u64::from(geometry.pages()), "more logical pages than the chip has");
        Ok(ChipPlan { page_count: pages as u32, base_blocks })
    }
}
