//! Settings of the FTL, and the limits that follow from them for a chip.

use super::note::{changes_max, full_pages};
use super::state::{self, State};
use crate::blocks::checkpoint::{CheckpointArea, anchor_count};
use crate::blocks::hot::HotConfig;
use crate::blocks::victim::{LEFT_OUT, VictimPolicy};
use crate::blocks::wear::WearLevelling;
use crate::check::{message, words};
use crate::fault::StoreFault;
use crate::nand::Geometry;
use crate::ratio::share;
use crate::store::StoreError;

/// Largest number of pages of one atomic group.
const GROUP_PAGES_MAX: u32 = 256;

/// Free blocks that only relocation may use: one for its frontier, one for a block that fails meanwhile.
const RELOCATION_BLOCKS: u32 = 2;

/// Rule that keeps pages apart: pages in one block should die together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Separation {
    /// Pages that the host writes and pages that move go to one frontier.
    None,
    /// Pages that move have a frontier of their own: they have proved cold.
    #[default]
    TwoFrontiers,
    /// Pages that the host writes often have a frontier of their own. All others share that of the moved
    /// pages.
    HotFilter(HotConfig),
}

impl Separation {
    /// Every separation; the filter has its default numbers.
    pub const ALL: [Separation; 3] =
        [Separation::None, Separation::TwoFrontiers, Separation::HotFilter(HotConfig::DEFAULT)];

    /// Name in configurations and results.
    pub const fn name(self) -> &'static str {
        match self {
            Separation::None => "none",
            Separation::TwoFrontiers => "two-frontiers",
            Separation::HotFilter(_) => "hot-filter",
        }
    }
}

/// How the FTL is set up. The first three take effect when a chip is formatted, the others also when it is
/// mounted.
///
/// An example stands at [`PageMapFtl`](super::PageMapFtl).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct FtlConfig {
    /// Physical pages beyond the logical ones, in a million of the logical ones. Small chips keep more back,
    /// as much as it takes to work.
    pub over_provisioning_ppm: u32,
    /// Blocks reserved for failures, in millionths of all blocks.
    pub bad_blocks_ppm: u32,
    /// Most pages of an atomic group, up to 256; not more than a sixteenth of the chip is granted.
    pub atomic_pages: u32,
    /// Which block is collected.
    pub victim: VictimPolicy,
    /// A checkpoint is written after this many blocks were opened; `None` bounds its cost to one page in 32.
    pub checkpoint_blocks: Option<u32>,
    /// Which pages share a block.
    pub separation: Separation,
    /// Static wear levelling: whether and when blocks with cold data move.
    pub wear_levelling: WearLevelling,
}

impl FtlConfig {
    /// Refuses settings that were left out when the engine was built (feature `full`).
    pub(super) fn require_built(&self) -> Result<(), StoreFault> {
        if matches!(self.separation, Separation::HotFilter(_)) && !cfg!(feature = "full") {
            return Err(StoreError::Unsupported(words(LEFT_OUT).into()).into());
        }
        self.victim.require_built()?;
        self.wear_levelling.require_built()
    }
}

impl Default for FtlConfig {
    fn default() -> FtlConfig {
        FtlConfig {
            over_provisioning_ppm: 125_000,
            bad_blocks_ppm: 20_000,
            atomic_pages: 64,
            victim: VictimPolicy::Greedy,
            checkpoint_blocks: None,
            separation: Separation::TwoFrontiers,
            wear_levelling: WearLevelling::None,
        }
    }
}

/// Limits of an FTL with a given number of logical pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) page_count: u32,
    pub(super) atomic_pages: u32,
    /// The host takes a block only while more than this many are free: the others are for relocation, and for
    /// the next checkpoint.
    pub(super) floor_blocks: u32,
    /// Number of pages that checkpoint blocks keep for notes.
    pub(super) note_pages: u32,
    pub(super) checkpoint_interval: u32,
}

/// Unit of the parts in the settings.
const MILLION: u64 = 1_000_000;

impl Limits {
    pub(super) fn new(
        geometry: Geometry,
        settings: &FtlConfig,
        page_count: u32,
        atomic_pages: u32,
    ) -> Limits {
        let bytes = state::encoded_bytes(geometry, page_count);
        let pages = CheckpointArea::pages_needed(geometry, bytes) as u32;
        let blocks = pages.div_ceil(geometry.pages_per_block);
        let interval = settings.checkpoint_blocks.unwrap_or((32 * blocks).max(64));
        Limits {
            page_count,
            atomic_pages,
            floor_blocks: RELOCATION_BLOCKS + blocks,
            note_pages: 0,
            checkpoint_interval: interval.max(1),
        }
    }

    /// Returns these limits with `note_pages` pages for notes after a checkpoint.
    pub(super) fn keeping(self, geometry: Geometry, note_pages: u32) -> Limits {
        let bytes = state::encoded_bytes(geometry, self.page_count);
        let pages = (CheckpointArea::pages_needed(geometry, bytes) as u32).saturating_add(note_pages);
        let floor_blocks = RELOCATION_BLOCKS + pages.div_ceil(geometry.pages_per_block);
        Limits { floor_blocks, note_pages, ..self }
    }

    /// Returns these limits with room for as many full notes as make the cost of a checkpoint one page in 32.
    /// The room is smaller if that would take more than a 64th of the blocks.
    fn with_notes(self, geometry: Geometry) -> Limits {
        let bytes = state::encoded_bytes(geometry, self.page_count);
        let (pages, block) = (CheckpointArea::pages_needed(geometry, bytes) as u32, geometry.pages_per_block);
        let changes = changes_max(geometry, self.atomic_pages) as u32;
        let wanted = pages.saturating_mul(32).div_ceil(changes).saturating_mul(full_pages(geometry));
        let rest = pages.next_multiple_of(block) - pages;
        self.keeping(geometry, wanted.min(rest + geometry.blocks / 64 * block))
    }

    /// Number of logical pages for which a chip with `good` good blocks has room.
    fn room(self, geometry: Geometry, settings: &FtlConfig, good: u64) -> u64 {
        // Kept besides the live pages: the anchors, old and new checkpoint, blocks for relocation, two
        // frontiers, blocks that will fail, and the pages of a group before their old versions die.
        let checkpoints = 2 * self.blocks_of_checkpoint();
        // Rounded up.
        let failing = share(good * u64::from(settings.bad_blocks_ppm) + MILLION - 1, 1, MILLION);
        let kept_blocks = u64::from(anchor_count(geometry) + checkpoints + RELOCATION_BLOCKS + 2) + failing;
        let usable = good.saturating_sub(kept_blocks) * u64::from(geometry.pages_per_block);
        usable.saturating_sub(u64::from(self.atomic_pages) + 1)
    }

    /// Number of blocks of a checkpoint and its notes.
    pub(super) fn blocks_of_checkpoint(self) -> u32 {
        self.floor_blocks - RELOCATION_BLOCKS
    }

    /// Pages for notes on a chip formatted by an earlier release, which had no notes: as many as there is
    /// room for.
    pub(super) fn note_pages_of(state: &State, settings: &FtlConfig) -> u32 {
        let geometry = state.blocks.geometry();
        let plain = Limits::new(geometry, settings, state.map.len() as u32, state.atomic_pages);
        let wanted = plain.with_notes(geometry);
        let room = wanted.room(geometry, settings, state.blocks.good_count().into());
        if room >= u64::from(plain.page_count) { wanted.note_pages } else { 0 }
    }

    /// Limits for a chip about to be formatted, from the number of its good blocks.
    pub(super) fn for_chip(
        geometry: Geometry,
        settings: &FtlConfig,
        good_blocks: u32,
    ) -> Result<Limits, StoreFault> {
        let (good, block_pages) = (u64::from(good_blocks), u64::from(geometry.pages_per_block));
        let wanted = share(good * block_pages, MILLION, MILLION + u64::from(settings.over_provisioning_ppm));
        let granted = settings.atomic_pages.min(GROUP_PAGES_MAX).min(geometry.pages() / 16).max(1);
        let limits = Limits::new(geometry, settings, wanted as u32, granted).with_notes(geometry);
        let page_count = wanted.min(limits.room(geometry, settings, good)) as u32;
        if page_count == 0 {
            let what = message!("the FTL needs more blocks for itself than the {good} good ones of the chip");
            return Err(StoreError::Unsupported(what.into()).into());
        }
        Ok(Limits { page_count, ..limits })
    }
}
