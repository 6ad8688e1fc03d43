//! A log that counts the valid pages of each block and keeps no bit for each page ([`Validity::Counts`]).
//! That takes a sixteenth of the RAM or less. The tree tells which pages of a victim are valid: it walks over
//! its inner nodes, and answers for the likeliest next victims too.
//!
//! Counts are never too low: a page counts from its programming until the operation that replaces it is
//! complete. After a mount they may be too high, until the tree is asked about all blocks
//! ([`Log::begin_count`]). A checkpoint holds the counts instead of the bits; a log with bits makes new bits
//! from them by the same walk ([`Log::begin_keeping`]).

use crate::blocks::Validity;
use crate::fault::IndexFault;
use crate::log::collect::Relocate;
use crate::log::settle::note_pages;
use crate::log::{Log, LogConfig};
use crate::nand::Nand;
use crate::units::{Pbn, Ppn};

impl LogConfig {
    /// True if valid pages are counted by block.
    pub(crate) fn counts(&self) -> bool {
        cfg!(feature = "in-parts") && self.validity == Validity::Counts
    }
}

impl<N: Nand> Log<N> {
    /// Drops a page that the tree no longer refers to, whether or not it counts as valid.
    pub fn drop_unreached(&mut self, ppn: Ppn) {
        // In a block whose pages are not known, this one may never have counted.
        let block = self.geometry().block_of(ppn);
        if self.tape.config.counts() && !self.tape.blocks.knows_pages_of(block) {
            return;
        }
        self.invalidate(ppn);
        self.finish();
    }

    /// Starts a new count of the valid pages of all blocks.
    pub fn begin_count(&mut self) {
        self.tape.blocks.begin_count();
    }

    /// Notes that the tree refers to this page. The tree calls this once for each page.
    pub fn note_valid(&mut self, ppn: Ppn) {
        self.tape.blocks.note_valid(ppn);
    }

    /// Ends a count. `is_whole` tells whether the tree noted every page that it leads to; if not, it could
    /// not read all of itself.
    pub fn end_count(&mut self, is_whole: bool) {
        let is_more = self.tape.blocks.end_count(is_whole);
        debug_assert!(
            !is_more || self.tape.checkpoints.in_doubt,
            "T4: more pages are valid than were counted"
        );
    }

    /// Prepares for the tree to [keep](Log::keep) every page that it leads to: guessed bits are forgotten,
    /// and counts begin anew.
    pub fn begin_keeping(&mut self) {
        self.begin_count();
        if core::mem::take(&mut self.tape.checkpoints.is_guessed) {
            (0..self.geometry().blocks).map(Pbn).for_each(|block| self.tape.blocks.clear_valid(block));
        }
    }
}

/// Finds out which pages of a victim are valid, if that is not known.
pub(super) fn know_pages<N: Nand, T: Relocate<N>>(tree: &mut T, victim: Pbn) -> Result<(), IndexFault> {
    let log = tree.log();
    if !log.tape.config.counts() || log.tape.blocks.knows_pages_of(victim) {
        return Ok(());
    }
    log.tape.blocks.ask_about(victim);
    let answered = note_pages(tree);
    tree.log().tape.blocks.end_asking(answered.is_ok());
    answered
}
