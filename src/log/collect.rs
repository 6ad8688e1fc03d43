//! Garbage collection: the log picks a victim block, and the tree moves its valid pages.

use crate::blocks::weak::LOOKS;
use crate::fault::IndexFault;
use crate::log::counted::know_pages;
use crate::log::level::level_wear;
use crate::log::settle::{drop_unreached, is_mount_behind, note_pages};
use crate::log::{Log, Note, parts};
use crate::nand::{Cause, Nand};
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// Called with each page to which a tree leads.
pub type Visit<'v, N> = &'v mut dyn FnMut(&mut Log<N>, Ppn) -> Result<(), IndexFault>;

/// A tree whose pages the log may ask it to move.
pub trait Relocate<N: Nand>: Sized {
    /// Returns the log on which the tree lives, and what it gets from the tree.
    fn lend(&mut self) -> Lent<'_, N>;

    /// Writes the nodes of a page that can be reached elsewhere. If none can be reached from the root, only
    /// invalidates the page. The page is invalid afterwards.
    fn relocate(&mut self, ppn: Ppn) -> Result<(), IndexFault>;

    /// Visits every page to which the tree leads, once each. Returns the first damage met: the pages below it
    /// were not visited.
    fn visit_pages(&mut self, cause: Cause, visit: Visit<'_, N>) -> Result<Option<IndexFault>, IndexFault>;

    /// Writes the nodes above those that have moved, so far as that was put off. False if it achieved
    /// nothing.
    fn write_owed(&mut self) -> Result<bool, IndexFault>;

    /// Current cost of moves.
    fn move_cost(&self) -> MoveCost;

    /// Returns the log on which the tree lives.
    fn log(&mut self) -> &mut Log<N> {
        self.lend().log
    }
}

/// Log of a tree, and what it gets from the tree.
pub struct Lent<'a, N> {
    /// Log on which the tree lives.
    pub log: &'a mut Log<N>,
    /// Note of the next checkpoint.
    pub note: Note<'a>,
    /// Bytes of a page, which hold nothing between two operations.
    pub page: &'a mut Vec<u8>,
}

/// Cost of moving pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveCost {
    /// Largest number of programs to move one page.
    pub programs: u32,
    /// Pages still to be written for pages already moved.
    pub owed: u32,
    /// Pages that a collection leaves free, because the exact cost of its moves is not known.
    pub slack: u32,
    /// Programs after which the nodes above the moved ones are written; 0 if that is due.
    pub moves: u64,
    /// Number of those nodes.
    pub parents: u64,
}

impl MoveCost {
    /// True if collecting a block of which so many pages are valid gains. A move costs a program, and its
    /// share of the nodes above.
    fn is_worth(&self, valid: u32, pages: u32) -> bool {
        let (valid, pages) = (u64::from(valid), u64::from(pages));
        2 * valid < pages || valid * (self.moves + self.parents) < pages * self.moves
    }
}

/// Need of an operation before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Pages that must be free: those to be programmed and those to be left free.
    pub pages: u32,
    /// Pages that are made free if possible, so that repeated power cuts do not use up the reserve.
    pub wanted: u32,
    /// Largest number of valid pages before the operation, if it adds some: see `log::room`.
    pub live_max: Option<u32>,
}

/// Writes a checkpoint. If its note does not hold what the tree has put off, that is written before.
pub fn checkpoint<N: Nand, T: Relocate<N>>(tree: &mut T) -> Result<(), IndexFault> {
    if !is_mount_behind(tree)? {
        return Ok(());
    }
    if !tree.log().config().holds {
        tree.write_owed()?;
    }
    let Lent { log, note, .. } = tree.lend();
    log.checkpoint(note)
}

/// Makes sure that a mount does not need a block that is about to be erased. Returns false if that is
/// impossible.
pub(super) fn let_go<N: Nand, T: Relocate<N>>(tree: &mut T, victim: Pbn) -> Result<bool, IndexFault> {
    let log = tree.log();
    // A tree whose moves are in the note does not rely on the order of pages, so a mount misses none.
    if log.config().holds || !log.tape.is_needed(victim) {
        return Ok(true);
    }
    if log.config().write_pages == 0 {
        tree.write_owed()?;
    } else {
        checkpoint(tree)?;
    }
    Ok(!tree.log().tape.is_needed(victim))
}

/// Invalidates pages that count as valid after a power cut and cannot be reached. False if nothing was in
/// doubt, or an earlier try failed.
pub(crate) fn settle_valid_bits<N: Nand, T: Relocate<N>>(tree: &mut T) -> Result<bool, IndexFault> {
    if !core::mem::take(&mut tree.log().tape.addresses.is_unsettled) {
        return Ok(false);
    }
    if tree.log().config().counts() {
        tree.log().begin_count();
        let counted = note_pages(tree);
        tree.log().end_count(counted.is_ok());
        tree.log().tape.addresses.is_unsettled = counted.is_err();
        counted?;
    } else {
        drop_unreached(tree)?;
    }
    tree.log().tape.trust_bits();
    Ok(true)
}

/// Collects garbage until more blocks are free than the threshold, or nothing can be gained. `Full` or
/// `WornOut` if even `need` is not met; then nothing is changed but the places of some pages.
pub fn make_room<N: Nand, T: Relocate<N>>(tree: &mut T, need: Need) -> Result<(), IndexFault> {
    debug_assert!(need.pages <= need.wanted, "{} pages are needed, {} are wanted", need.pages, need.wanted);
    tree.log().tape.require_numbers()?;
    if tree.log().tape.needs_checkpoint() {
        checkpoint(tree)?;
        if tree.log().tape.needs_checkpoint() {
            return Err(refusal(tree, need));
        }
    }
    // Collection spends blocks, and the last of them only if it knows what it gains.
    if tree.log().tape.is_tight() {
        settle_valid_bits(tree)?;
    }
    loop {
        if tree.log().tape.wants_collection() && tree.log().tape.checkpoints.is_closed() {
            checkpoint(tree)?;
            if tree.log().tape.checkpoints.is_closed() {
                return Err(refusal(tree, need));
            }
        }
        collect_while_it_pays(tree)?;
        dig(tree, need.wanted)?;
        // Pages that only seem valid since a cut may be why collection ends before its aim.
        let is_short = tree.log().tape.wants_collection();
        if is_met(tree, need) && !(is_short && settle_valid_bits(tree)?) {
            level_wear(tree, need)?;
            return empty_weak(tree, need);
        }
        let is_eased = settle_valid_bits(tree)? || tree.log().config().holds && tree.write_owed()?;
        if !is_eased {
            return Err(refusal(tree, need));
        }
    }
}

/// Looks at pages of the block of a weak page, and writes those that needed a correction elsewhere, if there
/// is room in addition to `need`. A failed move undoes nothing.
fn empty_weak<N: Nand, T: Relocate<N>>(tree: &mut T, need: Need) -> Result<(), IndexFault> {
    for _ in 0..LOOKS {
        let Some(ppn) = tree.log().tape.medium.scrubbing.weak.take() else { break };
        let moved = look_at_weak(tree, need, ppn);
        tree.log().tape.medium.scrubbing.weak.rest();
        moved?;
    }
    Ok(())
}

fn look_at_weak<N: Nand, T: Relocate<N>>(tree: &mut T, need: Need, ppn: Ppn) -> Result<(), IndexFault> {
    let block = tree.log().geometry().block_of(ppn);
    know_pages(tree, block)?;
    if !tree.log().is_worn(ppn)? {
        return Ok(());
    }
    let cost = tree.move_cost();
    let programs = cost.programs + cost.slack;
    debug_assert!(programs > 0, "a move takes a program");
    if has_free(tree, need.pages + 2 * programs) {
        tree.relocate(ppn)
    } else {
        tree.log().tape.medium.scrubbing.weak.give_up();
        Ok(())
    }
}

fn is_met<N: Nand, T: Relocate<N>>(tree: &mut T, need: Need) -> bool {
    let is_free = has_free(tree, need.pages);
    is_free && need.live_max.is_none_or(|most| tree.log().live_pages() <= u64::from(most))
}

pub(super) fn has_free<N: Nand, T: Relocate<N>>(tree: &mut T, pages: u32) -> bool {
    let owed = tree.move_cost().owed;
    tree.log().free_pages() >= pages.saturating_add(owed)
}

fn refusal<N: Nand, T: Relocate<N>>(tree: &mut T, need: Need) -> IndexFault {
    let (live, cost) = (tree.log().live_pages() as u32, tree.move_cost().programs);
    tree.log().tape.refusal(live, need.pages, cost)
}

/// Reclaims the blocks with the fewest valid pages until `wanted` pages are free. It goes on as long as each
/// block gains, or one of a few does if the exact cost of a move is not known. The log is short of blocks
/// here, so the configured victim policy is ignored.
pub(super) fn dig<N: Nand, T: Relocate<N>>(tree: &mut T, wanted: u32) -> Result<(), IndexFault> {
    let (mut futile_rounds, mut most_free) = (0, tree.log().free_pages());
    while futile_rounds < 8 && !has_free(tree, wanted) {
        if tree.log().tape.checkpoints.is_closed() {
            checkpoint(tree)?;
        }
        let MoveCost { programs: programs_per_move, owed, slack, .. } = tree.move_cost();
        let log = tree.log();
        let pages = log.geometry().pages_per_block;
        let Some(victim) = log.fewest_valid()? else { return Ok(()) };
        let programs = log.tape.valid_in(victim) * programs_per_move;
        let left = log.free_pages().saturating_sub(log.tape.checkpoint_pages());
        // If cuts used up everything else, even a checkpoint's block is lent for as long as this takes.
        let fits = programs == 0 || programs + owed + slack <= left || programs <= log.free_pages();
        if programs >= pages || !fits || log.tape.checkpoints.is_closed() {
            return Ok(());
        }
        relocate_all(tree, victim)?;
        if !let_go(tree, victim)? {
            return Ok(());
        }
        tree.log().reclaim(victim)?;
        let free = tree.log().free_pages();
        futile_rounds = if free > most_free { 0 } else { futile_rounds + 1 };
        most_free = most_free.max(free);
    }
    Ok(())
}

/// Collects as long as that gains free pages. Stops after a few rounds that do not exceed the highest number
/// of free pages so far: one round may gain what the next spends, for example if a journal is committed.
fn collect_while_it_pays<N: Nand, T: Relocate<N>>(tree: &mut T) -> Result<(), IndexFault> {
    let (mut futile_rounds, mut most_free) = (0, tree.log().free_pages());
    while tree.log().tape.wants_collection() && futile_rounds < 8 && collect_one(tree)? {
        let free = tree.log().free_pages();
        futile_rounds = if free > most_free { 0 } else { futile_rounds + 1 };
        most_free = most_free.max(free);
    }
    Ok(())
}

/// Reclaims one block. False if no victim is worth it, or if there is no room for its pages.
pub(super) fn collect_one<N: Nand, T: Relocate<N>>(tree: &mut T) -> Result<bool, IndexFault> {
    let cost = tree.move_cost();
    debug_assert!(cost.programs > 0, "a move takes a program");
    let Some(victim) = tree.log().victim()? else { return Ok(false) };
    let valid = tree.log().tape.valid_in(victim);
    let left = tree.log().free_pages().saturating_sub(tree.log().tape.checkpoint_pages());
    if valid * cost.programs > left || !cost.is_worth(valid, tree.log().geometry().pages_per_block) {
        return Ok(false);
    }
    relocate_all(tree, victim)?;
    if !let_go(tree, victim)? {
        return Ok(false);
    }
    tree.log().reclaim(victim)?;
    Ok(true)
}

pub(super) fn relocate_all<N: Nand, T: Relocate<N>>(tree: &mut T, victim: Pbn) -> Result<(), IndexFault> {
    let geometry = tree.log().geometry();
    know_pages(tree, victim)?;
    for page in 0..geometry.pages_per_block {
        let ppn = geometry.page_at(victim, page);
        if tree.log().is_valid(ppn) {
            tree.relocate(ppn)?;
            assert!(!tree.log().is_valid(ppn), "{ppn} was moved and is still valid");
        }
    }
    Ok(())
}

impl<N: Nand> Log<N> {
    /// Chooses the victim by the policy. Pages that wait for that block are programmed first.
    pub(super) fn victim(&mut self) -> Result<Option<Pbn>, IndexFault> {
        let victim = self.tape.blocks.victim(self.tape.config.victim);
        self.ready_to_collect(victim)
    }

    /// Chooses the full block with the fewest valid pages, whatever the policy. Pages that wait for it are
    /// programmed first.
    fn fewest_valid(&mut self) -> Result<Option<Pbn>, IndexFault> {
        let victim = self.tape.blocks.fewest_valid();
        self.ready_to_collect(victim)
    }

    pub(super) fn ready_to_collect(&mut self, victim: Option<Pbn>) -> Result<Option<Pbn>, IndexFault> {
        let open = self.tape.head.frontier.block;
        debug_assert!(victim.is_none() || victim != open, "{victim:?} is open and a victim");
        let geometry = self.geometry();
        let waits = |slot: &parts::Slot| Some(geometry.block_of(slot.ppn)) == victim;
        if self.writes.len() > 0 && self.writes.slots.iter().any(waits) {
            self.flush(Cause::CacheEviction)?;
        }
        Ok(victim)
    }

    /// Erases a victim whose pages have moved. The moved pages are programmed first, or a cut might find them
    /// in neither place.
    pub(super) fn reclaim(&mut self, home: Pbn) -> Result<(), IndexFault> {
        assert_eq!(self.tape.valid_in(home), 0, "{home} still holds valid pages");
        assert!(
            !self.tape.checkpoints.is_closed(),
            "{home} is reclaimed while the newest checkpoint is a closing one"
        );
        debug_assert_ne!(self.tape.head.frontier.block, Some(home), "the open block {home} is reclaimed");
        self.flush(Cause::CacheEviction)?;
        // Cached pages of the block must not answer for the pages that will take its addresses.
        self.tape.medium.loaded = None;
        let geometry = self.geometry();
        for page in 0..geometry.pages_per_block {
            self.reads.remove(geometry.page_at(home, page));
        }
        self.tape.reclaim(home)
    }
}
