//! Room for an update. An insertion leaves so many pages free that removals always find room, and so do
//! changes that add no node. A tree grows only if the higher tree can take another record.

use super::{Nodes, RawScheme, RawTree};
use crate::check::{IndexError, message};
use crate::fault::IndexFault;
use crate::log::collect::{Need, make_room, settle_valid_bits};
use crate::log::settle::keep_pages;
use crate::nand::{Cause, Nand};

/// Blocks that insertions leave free, beyond those needed by removals and collection.
pub(crate) const INSERT_RESERVE_BLOCKS: u32 = 1;

/// Number of times that a table of moves is emptied to make room for one update.
pub(crate) const EMPTYINGS_MAX: u8 = 3;

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// Largest number of pages that an update and the commit of a full journal write.
    pub(super) fn pages_at_once(&self) -> u32 {
        self.path.scheme.pages_per_update(self.path.height + 1) + self.journal_pages(self.path.height + 1)
    }

    pub(super) fn pages_to_remove(&self) -> u32 {
        self.log.tape.kept_pages() + self.path.scheme.pages_per_update(self.path.height)
    }

    /// Free pages before an insertion may begin: the pages that it may take, and those of a later removal.
    pub(crate) fn pages_to_insert(&self) -> u32 {
        let pages = self.pages_to_remove() + self.path.scheme.pages_per_update(self.path.height);
        pages.max(self.log.tape.kept_pages() + self.log.geometry().pages_per_block)
    }

    /// Largest number of valid pages before an insertion into a tree of this height.
    pub(crate) fn live_max(&self, height: u8) -> u32 {
        let pages = self.pages_to_insert() + self.journal_pages(height);
        let most = self.log.tape.live_limit(pages, self.path.scheme.programs_per_move(height));
        // A page for each half and a root.
        most.saturating_sub(u32::from(height) + 1)
    }

    /// Number of free pages that an insertion into a tree of this height wants, if moves are mapped.
    pub(super) fn mapped_pages(&self, height: u8) -> u32 {
        self.log.tape.kept_pages() + 3 * self.path.scheme.pages_per_update(height) + self.moves.pages_kept()
    }

    /// Number of parents of all valid pages, if each is half full.
    pub(super) fn parents(&self) -> u64 {
        self.log.live_pages() / (self.path.scheme.shape(0, 2, 3).capacity as u64 / 2) + 1
    }

    /// Largest number of valid pages before an insertion, if moves are mapped. Each page costs a program and
    /// its share of the parents that are written to empty the table for it, or at worst the path.
    pub(super) fn mapped_live_max(&self, wanted: u32, height: u8) -> u32 {
        let (entries, height) = (self.moves.entries_max() as u64, u64::from(height));
        let parents = self.parents();
        let by_table = u64::from(self.log.tape.live_limit(wanted, 1)) * entries / (entries + parents);
        let by_path = u64::from(self.log.tape.live_limit(wanted, 1)) / height;
        by_table.max(by_path).saturating_sub(height + 1) as u32
    }

    /// Returns an error if the chip is too small for a single record.
    pub(super) fn require_room_for_a_record(&self) -> Result<(), IndexFault> {
        let (pages, live_max) = if S::MAPS_MOVES {
            let pages = self.mapped_pages(self.path.height);
            (pages, self.mapped_live_max(pages, self.path.height))
        } else {
            (self.pages_to_insert(), self.live_max(self.path.height))
        };
        if self.log.free_pages() >= pages && self.log.live_pages() <= u64::from(live_max) {
            return Ok(());
        }
        let blocks = self.log.geometry().blocks;
        Err(IndexError::unsupported(message!(
            "{blocks} blocks have no room for a record: an insertion leaves {pages} pages free, and pages to collect"
        )).into())
    }

    /// Refuses an insertion that would make a nearly full tree higher. A higher tree may have fewer valid
    /// pages, and only a removal that empties a leaf gives one back: so another insertion must find room once
    /// the tree has grown.
    pub(super) fn require_room_to_grow(&self) -> Result<(), IndexFault> {
        let (height, programs) = (self.path.height, |height| self.path.scheme.programs_per_move(height));
        let grows = self.path.count(height) >= self.path.root_limit()
            && (1..height).all(|level| self.path.count(level) == self.path.limit(level));
        if !grows {
            return Ok(());
        }
        if S::MAPS_MOVES {
            let wanted = self.mapped_pages(height + 1);
            return self.require_room_when_higher(self.mapped_live_max(wanted, height + 1), wanted);
        }
        if programs(height + 1) == programs(height) {
            return Ok(());
        }
        self.require_room_when_higher(self.live_max(height + 1), self.pages_to_insert())
    }

    /// True if the tree may become higher, given the largest number of valid pages it may have then: half of
    /// each node on the path, and the root, are added.
    fn fits_when_higher(&self, live_max: u32) -> bool {
        self.log.live_pages() as u32 + u32::from(self.path.height) < live_max
    }

    /// Refuses to let the tree become higher if it would exceed `live_max` valid pages with `free_pages` free
    /// ones.
    pub(super) fn require_room_when_higher(&self, live_max: u32, free_pages: u32) -> Result<(), IndexFault> {
        if self.fits_when_higher(live_max) {
            return Ok(());
        }
        let programs = self.path.scheme.programs_per_move(self.path.height + 1);
        Err(self.log.tape.refusal(self.log.live_pages() as u32, free_pages, programs))
    }

    /// True if updates go to a journal, or one is left from before. For a tree without a journal the compiler
    /// knows the answer.
    pub(super) fn is_journaled(&self) -> bool {
        S::TAKES_JOURNAL && self.journal.is_on()
    }

    /// Largest number of pages owed for a full journal in a tree of this height.
    pub(super) fn journal_pages(&self, height: u8) -> u32 {
        if S::TAKES_JOURNAL { self.journal.owed_at_most(height) } else { 0 }
    }
}

/// True if the root may overflow in these insertions, each of which adds at most one entry to it. A path
/// that changes its layout may divide more nodes.
fn may_grow<N: Nand, S: RawScheme>(nodes: &mut Nodes<N, S>, insertions: usize) -> Result<bool, IndexFault> {
    let (scheme, height) = (nodes.path.scheme, nodes.path.height);
    let tag = nodes.log.read(nodes.root, Cause::Host)?.tag;
    let most = usize::from(tag.counts[usize::from(height) - 1]) + insertions;
    Ok(scheme.layouts() > 1 || most > scheme.root_entries_max(0, height))
}

impl<N: Nand, S: RawScheme> RawTree<N, S> {
    /// Makes room for an update. An insertion leaves the room that a removal needs, so removals always find
    /// it (see [`crate::log::room`]).
    pub(super) fn make_room_for_update(&mut self, is_insertion: bool) -> Result<(), IndexFault> {
        if self.nodes.log.is_placed() {
            return self.require_free_places(is_insertion);
        }
        if S::MAPS_MOVES {
            return self.make_room_for_mapped_update(is_insertion);
        }
        let (pages, wanted) = (self.nodes.pages_to_remove(), self.nodes.pages_to_insert());
        if is_insertion {
            self.settle_before_growth(1, self.nodes.live_max(self.nodes.path.height + 1))?;
        }
        let live_max = is_insertion.then(|| self.nodes.live_max(self.nodes.path.height));
        make_room(self, Need { pages: if is_insertion { wanted } else { pages }, wanted, live_max })
    }

    /// Requires free places, in a log in which pages keep their places and nothing is collected. A removal
    /// takes no new page: the path is written over a page that dies.
    fn require_free_places(&mut self, is_insertion: bool) -> Result<(), IndexFault> {
        self.nodes.log.tape.require_numbers()?;
        keep_pages(self)?.map_or(Ok(()), Err)?;
        let nodes = &self.nodes;
        let pages = if is_insertion { nodes.pages_to_insert() } else { 0 };
        if nodes.log.free_pages() >= pages { Ok(()) } else { Err(IndexError::NO_BLOCK.into()) }
    }

    fn make_room_for_mapped_update(&mut self, is_insertion: bool) -> Result<(), IndexFault> {
        let nodes = &mut self.nodes;
        let height = nodes.path.height;
        let update = nodes.path.scheme.pages_per_update(height);
        // The room left by a failed insertion must suffice for removals.
        nodes.moves.allow_emptyings(EMPTYINGS_MAX, nodes.log.tape.checkpoint_pages() + update);
        if is_insertion {
            let pages = nodes.mapped_pages(height + 1);
            let live_max = nodes.mapped_live_max(pages, height + 1);
            self.settle_before_growth(1, live_max)?;
        }
        let nodes = &self.nodes;
        let wanted = nodes.mapped_pages(height);
        let live_max = is_insertion.then(|| nodes.mapped_live_max(wanted, height));
        // Moving pages may cost parents too: the room left by insertions must suffice for both.
        let pages = if is_insertion { wanted } else { nodes.pages_to_remove() };
        let need = Need { pages, wanted, live_max };
        make_room(self, need)?;
        // Collection lacks room in the table, or is short of held addresses: it is helped while there are
        // pages to do so.
        let nodes = &mut self.nodes;
        if nodes.log.tape.wants_collection()
            && (!nodes.moves.has_room() || nodes.log.tape.held_ahead() > nodes.log.free_pages())
            && nodes.empty_table()?
        {
            make_room(self, need)?;
        }
        Ok(())
    }

    /// Invalidates pages that only seem valid since a power cut, before they could keep the tree from
    /// becoming higher in these insertions.
    pub(super) fn settle_before_growth(
        &mut self,
        insertions: usize,
        live_max: u32,
    ) -> Result<(), IndexFault> {
        let is_tight = self.nodes.log.tape.may_settle_bits() && !self.nodes.fits_when_higher(live_max);
        if is_tight && may_grow(&mut self.nodes, insertions)? {
            settle_valid_bits(self)?;
        }
        Ok(())
    }
}

/// Makes room for an insertion. If there is none, makes that of a removal and returns the refusal. It
/// stands unless the entry replaces another one or goes to a free place of its leaf.
///
/// A removal that leaves its leaf in the tree writes the copied path in place of the old one: as many
/// valid pages as before, and at most [`Nodes::pages_to_remove`] pages less free. Such removals may
/// follow each other without end, and each finds its room, since collection gains as long as the number
/// of valid pages does not rise (see [`crate::log::room`]). These changes write the same path and
/// replace the same pages, so they leave what they find: the room of a removal.
pub(super) fn make_room_to_put<N: Nand, S: RawScheme>(
    tree: &mut RawTree<N, S>,
) -> Result<Option<IndexFault>, IndexFault> {
    match tree.make_room_for_update(true) {
        Err(refused) if refused.is_refusal() && !tree.nodes.is_half_done() => {
            tree.make_room_for_update(false)?;
            Ok(Some(refused))
        }
        made => made.map(|()| None),
    }
}
