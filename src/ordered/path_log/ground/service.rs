//! Batches of changes, and work ahead of time.
//!
//! A batch is one operation with many paths: each change writes its path, and only the page of the last one
//! counts as a root for a mount ([`Log::set_goes_on`](crate::log::Log::set_goes_on)). Nothing is collected
//! meanwhile and no page dies, so the tree from before the batch is whole until that page is there. The room
//! for all changes is made beforehand.

use super::{Nodes, RawScheme, RawTree, height_bound, limits};
use crate::blocks::weak::LOOKS;
use crate::fault::IndexFault;
use crate::log::collect::{Need, make_room};
use crate::nand::{Cause, Nand};
use crate::ordered::change::{Change, check_batch, newest_places};
use crate::ordered::{Room, holds_change};
use crate::store::patrol::LOOKS_OF_SCRUB;
use alloc::vec;
use alloc::vec::Vec;

/// Most changes of a batch. The pages that they replace stay until the batch ends, so room is needed for all
/// of them.
const CHANGES_MAX: usize = 256;

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// Most changes of a batch. Batches of a tree that maps moves go through its log buffer.
    pub(super) fn changes_max(&self) -> usize {
        if S::MAPS_MOVES || self.is_journaled() || self.log.is_placed() { 1 } else { CHANGES_MAX }
    }

    /// Needs of a batch of `changes` changes: the pages it takes, the pages that must be free before it if it
    /// inserts, and the largest number of valid pages before it.
    fn need_of_changes(&self, changes: u32) -> (u32, u32, u32) {
        let height = self.path.height + 1;
        let more = (changes - 1) * self.path.scheme.pages_per_update(height);
        let grown = (changes - 1) * (u32::from(height) + 1);
        let (pages, wanted) = (self.pages_to_remove() + more, self.pages_to_insert() + more);
        (pages, wanted, self.live_max(height).saturating_sub(grown))
    }

    pub(super) fn takes_changes(&self, changes: usize) -> Option<bool> {
        if self.log.is_placed() || changes < 2 {
            return None;
        }
        let few = changes.min(CHANGES_MAX);
        let (wanted, live_max) = if S::MAPS_MOVES {
            self.batch_room(few, self.path.height)
        } else {
            let (_, wanted, live_max) = self.need_of_changes(few as u32);
            (wanted, live_max)
        };
        let has_room = self.log.free_pages() >= wanted && self.log.live_pages() <= u64::from(live_max);
        let most = if S::MAPS_MOVES { CHANGES_MAX } else { self.changes_max() };
        Some(changes <= most && has_room)
    }
}

/// Largest number of valid pages that records may take, and the height of such a tree.
fn pages_of_records<N: Nand, S: RawScheme>(nodes: &Nodes<N, S>) -> (u64, u8) {
    let live_max = |height| match S::MAPS_MOVES {
        true => nodes.mapped_live_max(nodes.mapped_pages(height), height),
        false => nodes.live_max(height),
    };
    // The higher the tree, the more pages it leaves for its own moves.
    let bound = height_bound(&nodes.path.scheme, live_max(nodes.path.height + 1));
    let height = bound.max(nodes.path.height + 1);
    (live_max(height).into(), height)
}

/// Room for more records: each page that may still become valid may hold a leaf, except those for its
/// ancestors, as long as the tree can name it.
pub(super) fn room_left<N: Nand, S: RawScheme>(nodes: &Nodes<N, S>) -> Room {
    let (most, height) = pages_of_records(nodes);
    let live = nodes.log.live_pages();
    let pages = most.saturating_sub(live);
    // Each change takes one page number for each page of its path, and more for collections meanwhile.
    let pages = pages.min(nodes.log.tape.numbers_left() / (4 * u64::from(height)));
    let half = |level| (nodes.path.scheme.shape(0, level, height).capacity / 2).max(1) as u64;
    let leaves = pages.saturating_sub(pages / half(2) + u64::from(height));
    let named = limits::usual_leaves(&nodes.path.scheme).saturating_sub(live);
    let records = Room::records_of(leaves.min(named), live, half(1));
    Room { pages, records, surely: records.min(nodes.path.room_below_root()) }
}

/// Most records that the tree can hold on this chip.
pub(super) fn records_max<N: Nand, S: RawScheme>(nodes: &Nodes<N, S>) -> u64 {
    let geometry = nodes.log.geometry();
    limits::records_max(&nodes.path.scheme, |height| {
        let programs = if S::MAPS_MOVES { 1 } else { nodes.path.scheme.programs_per_move(height) };
        match nodes.log.is_placed() {
            true => geometry.pages().into(),
            false => nodes.log.tape.live_limit(geometry.pages_per_block, programs).into(),
        }
    })
}

/// True if a batch was refused for want of room and its records are all there. It then takes no more
/// pages than as many removals.
fn are_there<'a, N: Nand, S: RawScheme>(
    nodes: &mut Nodes<N, S>,
    error: &IndexFault,
    changes: impl Iterator<Item = Change<'a>>,
) -> Result<bool, IndexFault> {
    if !error.is_refusal() || nodes.is_half_done() {
        return Ok(false);
    }
    for Change { key, .. } in changes.filter(|change| change.value.is_some()) {
        if !nodes.look_up(key, None, Cause::Host)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl<N: Nand, S: RawScheme> RawTree<N, S> {
    pub(super) fn apply_as_one(&mut self, batch: &[Change<'_>]) -> Result<(), IndexFault> {
        self.nodes.usable()?;
        check_batch(self.nodes.record, batch, self.nodes.changes_max())?;
        let places = self.effective(batch)?;
        let Some(last) = places.len().checked_sub(1) else { return Ok(()) };
        let changes = || places.iter().map(|&place| batch[place as usize]);
        let has_inserts = changes().any(|change| change.value.is_some());
        // Pages that wait in a write part do not belong to the batch.
        self.nodes.log.flush(Cause::CacheEviction)?;
        let room = match self.make_room_for_changes(places.len() as u32, has_inserts) {
            Err(error) if are_there(&mut self.nodes, &error, changes())? => {
                self.make_room_for_changes(places.len() as u32, false)
            }
            made => made,
        };
        let done = room.and_then(|()| self.write_paths(changes(), last));
        self.nodes.log.set_goes_on(false);
        let error = match done {
            Err(error) if self.nodes.is_half_done() && error.is_refusal() => error,
            other => return other,
        };
        self.undo_batch()?;
        for change in changes() {
            if self.nodes.is_half_done() || !holds_change(self, (change.key, change.value))? {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Indexes of the changes that matter, in key order: the last change of each key, without removals of
    /// absent keys.
    fn effective(&mut self, batch: &[Change<'_>]) -> Result<Vec<u32>, IndexFault> {
        let mut places = newest_places(batch);
        let mut value = vec![0; self.nodes.record.value_bytes.into()];
        let mut kept = 0;
        for at in 0..places.len() {
            let change = batch[places[at] as usize];
            if change.value.is_some() || crate::ordered::OrderedIndex::get(self, change.key, &mut value)? {
                places[kept] = places[at];
                kept += 1;
            }
        }
        places.truncate(kept);
        Ok(places)
    }

    fn make_room_for_changes(&mut self, changes: u32, has_inserts: bool) -> Result<(), IndexFault> {
        let (pages, wanted, live_max) = self.nodes.need_of_changes(changes);
        if has_inserts {
            self.settle_before_growth(changes as usize, live_max)?;
        }
        let pages = if has_inserts { wanted } else { pages };
        make_room(self, Need { pages, wanted, live_max: has_inserts.then_some(live_max) })
    }

    fn write_paths<'a>(
        &mut self,
        changes: impl Iterator<Item = Change<'a>>,
        last: usize,
    ) -> Result<(), IndexFault> {
        let nodes = &mut self.nodes;
        S::before_update(nodes);
        let most = nodes.path.scheme.pages_per_update(nodes.path.height + 1);
        nodes.log.begin((last + 1) as u32 * most)?;
        for (i, change) in changes.enumerate() {
            nodes.log.set_goes_on(i < last);
            if i > 0 && i < last {
                nodes.log.relieve()?;
            }
            nodes.path.make_room_to_grow();
            match change.value {
                Some(value) => nodes.put_in_room(change.key, value)?,
                None => nodes.remove_in_room(change.key)?,
            }
        }
        self.end_update()
    }

    /// Does maintenance ahead of need. If it is refused for want of room, it is left undone without an error.
    pub(super) fn ahead(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<u32, IndexFault>,
    ) -> Result<u32, IndexFault> {
        self.nodes.usable()?;
        match work(self) {
            Err(error) if error.is_refusal() => {
                if self.nodes.is_half_done() {
                    self.undo()?;
                }
                Ok(0)
            }
            done => done,
        }
    }
}

/// Moves pages of the block of one that was hard to read, if nodes may move. About `budget` pages are looked
/// at. Returns the number of those that are left.
pub(super) fn move_weak<N: Nand, S: RawScheme>(
    tree: &mut RawTree<N, S>,
    budget: u32,
) -> Result<u32, IndexFault> {
    if tree.nodes.log.is_placed() {
        return Ok(0);
    }
    for _ in 0..budget.div_ceil(LOOKS) {
        if tree.nodes.log.weak_pages() == 0 {
            break;
        }
        tree.make_room_for_update(false)?;
    }
    Ok(tree.nodes.log.weak_pages())
}

/// Reads pages, and moves the weak ones.
pub(super) fn scrub_log<N: Nand, S: RawScheme>(
    tree: &mut RawTree<N, S>,
    budget: u32,
) -> Result<u32, IndexFault> {
    if tree.nodes.log.is_placed() {
        return Ok(0);
    }
    tree.ahead(|tree| {
        for _ in 0..budget {
            if tree.nodes.log.look_on()?.is_none() {
                return move_weak(tree, budget);
            }
            move_weak(tree, LOOKS_OF_SCRUB)?;
        }
        Ok(tree.nodes.log.left_to_look_at())
    })
}
