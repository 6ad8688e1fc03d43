//! Configuration of a log.

use crate::blocks::Validity;
use crate::blocks::victim::VictimPolicy;
use crate::blocks::wear::WearLevelling;
use crate::check::{IndexError, message, words};
use crate::fault::IndexFault;
use crate::log::cached::HAS_READ_PART;
use crate::log::held::HAS_HOLDS;
use crate::log::parts::HAS_WRITE_PART;
use crate::log::placed::Placement;

/// Cost of a step to a child in the same page as its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum SamePage {
    /// Free: the page is in RAM.
    #[default]
    Free,
    /// A read, as for every other level.
    Read,
}

/// When the write part is programmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum WritePartLimit {
    /// Before an operation, if the part has more pages than its size: an operation is never divided.
    #[default]
    Operation,
    /// Before a page is added to a part with one page more than its size, even in the middle of an operation.
    Lenient,
    /// Before a page is added to a full part, even in the middle of an operation: the part never exceeds its
    /// size.
    Strict,
}

/// Configuration of a log; none of it is stored on the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Pages of the read part; 0 for no read part.
    pub read_pages: usize,
    /// Pages of the write part, at most 200; 0 for none.
    pub write_pages: usize,
    /// When the write part is programmed.
    pub write_part: WritePartLimit,
    /// Which block is collected.
    pub victim: VictimPolicy,
    /// Garbage is collected while at most this many blocks are free.
    pub collect_at_blocks: u32,
    /// A checkpoint is written after this many blocks were opened.
    pub checkpoint_blocks: u32,
    /// Whether its owner has addresses held (`Tape::hold`).
    pub holds: bool,
    /// Price of the next level if it is in the page at hand.
    pub same_page: SamePage,
    /// Where a written page goes.
    pub placement: Placement,
    /// How it is known which pages are valid.
    pub validity: Validity,
    /// Whether and when the data of a block that lags behind a worn one move.
    pub wear_levelling: WearLevelling,
}

impl LogConfig {
    /// True if pages keep their places. Never true without the feature `full`.
    pub(crate) fn is_placed(&self) -> bool {
        cfg!(feature = "full") && self.placement == Placement::InPlace
    }

    /// Refuses options that were left out when the engine was built.
    pub(super) fn require_built(&self) -> Result<(), IndexFault> {
        if !HAS_READ_PART && self.read_pages > 0 {
            return Err(left_out("a read part: feature 'embedded'"));
        }
        if self.holds && !HAS_HOLDS {
            return Err(left_out("nodes that move without their parents: feature 'moved-nodes'"));
        }
        if !HAS_WRITE_PART && self.write_pages > 0 {
            return Err(left_out("a write part: feature 'embedded'"));
        }
        if self.placement == Placement::InPlace && !self.is_placed() {
            return Err(left_out("pages in place: feature 'full'"));
        }
        if !self.validity.is_built() {
            return Err(left_out(COUNTS_LEFT_OUT));
        }
        if self.validity == Validity::Counts && (self.write_pages > 0 || self.holds || self.is_placed()) {
            let what = words("pages counted by block, with a write part, pages in place or a table of moves");
            return Err(IndexError::Unsupported(what.into()).into());
        }
        if self.wear_levelling.asks_for_ages() {
            return Err(IndexError::Unsupported(words("dual pools below a tree on raw NAND").into()).into());
        }
        Ok(self.victim.require_built()?)
    }
}

/// Name of counted validity, in the refusal of a build that lacks it.
pub(super) const COUNTS_LEFT_OUT: &str = "valid pages counted by block: feature 'in-parts'";

/// Name of journals and notes of moved nodes, in the refusal of a build that lacks them.
pub(super) const NOTES_LEFT_OUT: &str = "moved leaves or nodes: feature 'full' or 'moved-nodes'";

pub(crate) fn left_out(what: &'static str) -> IndexFault {
    IndexError::unsupported(message!("left out when the engine was built: {what}")).into()
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            read_pages: 0,
            write_pages: 0,
            write_part: WritePartLimit::Operation,
            victim: VictimPolicy::Greedy,
            collect_at_blocks: 2,
            checkpoint_blocks: 16,
            holds: false,
            same_page: SamePage::Free,
            placement: Placement::OutOfPlace,
            validity: Validity::Bits,
            wear_levelling: WearLevelling::Relative,
        }
    }
}
