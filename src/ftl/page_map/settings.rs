//! Settings of the FTL, and the limits that follow from them for a chip.

use super::state;
use crate::blocks::checkpoint::{CheckpointArea, anchor_count};
use crate::blocks::hot::HotSettings;
use crate::blocks::victim::{LEFT_OUT, VictimPolicy};
use crate::blocks::wear::WearLevelling;
use crate::check::{message, words};
use crate::fault::StoreFault;
use crate::nand::Geometry;
use crate::ratio::share;
use crate::store::StoreError;

/// Most pages of one atomic group: the number still to come has one byte.
const GROUP_PAGES_MAX: u32 = 256;

/// Free blocks that only relocation may use: one for its frontier, one for a block that fails meanwhile.
const RELOCATION_BLOCKS: u32 = 2;

/// Which pages are kept apart from which: those in one block should die together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Separation {
    /// Pages the host writes and pages that move go to one frontier.
    None,
    /// Pages that move have a frontier of their own: they have proved cold.
    #[default]
    TwoFrontiers,
    /// Pages that the host writes often have a frontier of their own; the others go to that of the pages that
    /// move.
    HotFilter(HotSettings),
}

impl Separation {
    /// Every separation, the filter with its default numbers.
    pub const ALL: [Separation; 3] =
        [Separation::None, Separation::TwoFrontiers, Separation::HotFilter(HotSettings::DEFAULT)];

    /// The name used in settings and results.
    pub const fn name(self) -> &'static str {
        match self {
            Separation::None => "none",
            Separation::TwoFrontiers => "two-frontiers",
            Separation::HotFilter(_) => "hot-filter",
        }
    }

    pub(super) const fn layout(self) -> Layout {
        match self {
            Separation::None => Layout::Mixed,
            Separation::TwoFrontiers => Layout::Apart,
            Separation::HotFilter(_) => Layout::Spread,
        }
    }
}

/// The conclusion that a mount may draw of an unreadable page from the others of its block. Saved with a
/// checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Layout {
    /// A block has host pages only, of consecutive versions, or moved pages only.
    Apart,
    /// Host pages of consecutive versions, moved pages between them.
    Mixed,
    /// Host pages of ascending versions, moved pages between them; the versions that are missing lie
    /// elsewhere.
    Spread,
}

impl Layout {
    pub(super) const fn from_number(number: u32) -> Option<Layout> {
        Some(match number {
            0 => Layout::Apart,
            1 => Layout::Mixed,
            2 => Layout::Spread,
            _ => return None,
        })
    }
}

/// How the FTL is set up. The first three take effect when a chip is formatted, the others also when it is
/// mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FtlSettings {
    /// Physical pages beyond the logical ones, in a million of the logical ones. Small chips keep more back,
    /// as much as it takes to work.
    pub over_provisioning_ppm: u32,
    /// Blocks set aside for those that will fail, in a million.
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

impl FtlSettings {
    /// Refuses what was left out when the engine was built (feature `policies`).
    pub(super) fn require_built(&self) -> Result<(), StoreFault> {
        if matches!(self.separation, Separation::HotFilter(_)) && !cfg!(feature = "policies") {
            return Err(StoreError::Unsupported(words(LEFT_OUT).into()).into());
        }
        self.victim.require_built()?;
        self.wear_levelling.require_built()
    }
}

impl Default for FtlSettings {
    fn default() -> FtlSettings {
        FtlSettings {
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

/// Limits of an FTL with some number of logical pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) page_count: u32,
    pub(super) atomic_pages: u32,
    /// The host takes a block only while more than these are free: for relocation, and for the next
    /// checkpoint.
    pub(super) floor_blocks: u32,
    /// Live pages of the trim log before a checkpoint is due.
    pub(super) trim_pages_max: u32,
    pub(super) checkpoint_interval: u32,
}

/// The whole of which settings name parts.
const MILLION: u64 = 1_000_000;

impl Limits {
    pub(super) fn new(
        geometry: Geometry,
        settings: &FtlSettings,
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
            trim_pages_max: pages.min(geometry.pages() / 32).max(2),
            checkpoint_interval: interval.max(1),
        }
    }

    /// The limits for a chip about to be formatted, given the number of its good blocks.
    pub(super) fn for_chip(
        geometry: Geometry,
        settings: &FtlSettings,
        good_blocks: u32,
    ) -> Result<Limits, StoreFault> {
        let (good, block_pages) = (u64::from(good_blocks), u64::from(geometry.pages_per_block));
        let wanted = share(good * block_pages, MILLION, MILLION + u64::from(settings.over_provisioning_ppm));
        let granted = settings.atomic_pages.min(GROUP_PAGES_MAX).min(geometry.pages() / 16).max(1);
        let limits = Limits::new(geometry, settings, wanted as u32, granted);
        // Besides the live pages there are: the anchors, old and new checkpoint, blocks for relocation, two
        // frontiers, blocks that will fail, the pages of a group before their old versions die, and the trim
        // log.
        let checkpoints = 2 * (limits.floor_blocks - RELOCATION_BLOCKS);
        // Rounded up.
        let failing = share(good * u64::from(settings.bad_blocks_ppm) + MILLION - 1, 1, MILLION);
        let kept_blocks = u64::from(anchor_count(geometry) + checkpoints + RELOCATION_BLOCKS + 2) + failing;
        let kept_pages = u64::from(granted + limits.trim_pages_max + 1);
        let usable = good.saturating_sub(kept_blocks) * block_pages;
        let page_count = wanted.min(usable.saturating_sub(kept_pages)) as u32;
        if page_count == 0 {
            let what =
                message!("the FTL needs {kept_blocks} blocks for itself, the chip has {good} good ones");
            return Err(StoreError::Unsupported(what.into()).into());
        }
        Ok(Limits { page_count, ..limits })
    }
}
