//! The tree as an index: look-ups, ranges, and the walk that checks the invariants.

use super::page;
use super::{InPlace, NONE};
use crate::check::{CheckReport, IndexError, Invariant, message};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::ordered::{
    Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Room, Tour, Visit,
    outcome_of_undone,
};
use crate::sort;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Bound;

impl<N: Nand> InPlace<N> {
    fn check_node(
        &mut self,
        place: (u32, u8),
        bounds: (&[u8], &[u8]),
        walk: &mut Walk,
    ) -> Result<(), IndexFault> {
        let ((ppn, level), (low, high)) = (place, bounds);
        let (at, shape) = (u64::from(ppn), self.pages.shapes.at(level));
        let mut bytes = vec![0xff; self.pages.birth.len()];
        let used = match self.pages.read_node(ppn, level, Cause::Check, &mut bytes) {
            Ok(used) => used,
            Err(error) => {
                let IndexError::Corrupted { invariant, what, at } = *error else { return Err(error) };
                walk.report.violation(invariant.unwrap_or(Invariant::O1), at, what.into());
                return Ok(());
            }
        };
        walk.report.nodes += 1;
        walk.pages.push(ppn);
        if page::is_root(&bytes) != (ppn == self.path.root) || page::is_retired(&bytes) {
            walk.report.violation(Invariant::O2, at, message!("marks of a root at level {level}"));
        }
        let entries = shape.sorted(&bytes, used, &[]);
        let keys: Vec<&[u8]> =
            entries.chunks_exact(shape.entry_bytes).map(|e| &e[..shape.key_bytes]).collect();
        let live = (0..used).filter(|&slot| shape.is_live(&bytes, slot)).count();
        if keys.len() != live {
            walk.report.violation(Invariant::O4, at, message!("{live} live slots of {} keys", keys.len()));
        }
        // Nothing is below the first bound, not even a key of zeros.
        let is_low = |key: &&&[u8]| !low.is_empty() && **key <= low;
        if keys.first().is_some_and(|key| is_low(&key)) || keys.last().is_some_and(|key| *key > high) {
            walk.report.violation(Invariant::O3, at, message!("keys beyond {low:02x?} to {high:02x?}"));
        }
        if level == 1 {
            walk.leaves += 1;
            walk.report.records += keys.len() as u64;
            return Ok(());
        }
        if keys.last().is_none_or(|last| *last != high) {
            walk.report.violation(Invariant::O3, at, message!("the last bound is not {high:02x?}"));
        }
        let mut low = low.to_vec();
        for entry in entries.chunks_exact(shape.entry_bytes) {
            let (bound, address) = entry.split_at(shape.key_bytes);
            self.check_node((crate::codec::get_u32(address, 0), level - 1), (&low, bound), walk)?;
            low = bound.to_vec();
        }
        Ok(())
    }
}

/// Bytes of the largest record.
const ENTRY_MAX: usize = 2 * u8::MAX as usize;

struct Walk {
    report: CheckReport,
    pages: Vec<u32>,
    leaves: u64,
}

/// Changes of one record.
impl<N: Nand> InPlace<N> {
    fn change(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<bool, IndexFault> {
        self.pages.usable()?;
        let mut existed = None;
        let outcome = self.change_record(key, value, &mut existed);
        let was_begun = self.pages.interrupted;
        match outcome.map_err(|error| self.given_up(error)) {
            // All of it may have reached the chip.
            Err(error) if was_begun && error.is_refusal() => {
                outcome_of_undone(self, (key, value), existed, error)
            }
            outcome => outcome,
        }
    }

    fn change_record(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        existed: &mut Option<bool>,
    ) -> Result<bool, IndexFault> {
        self.make_room_for_change(0, value.is_none())?;
        self.path.descend(&mut self.pages, key, false, 1)?;
        let old = self.path.leaf_slot(&self.pages.shapes, key);
        *existed = Some(old.is_some());
        self.pages.interrupted = true;
        match value {
            Some(value) => {
                let mut entry = [0; ENTRY_MAX];
                let (of_key, rest) = entry.split_at_mut(key.len());
                of_key.copy_from_slice(key);
                rest[..value.len()].copy_from_slice(value);
                self.put(&entry[..key.len() + value.len()], old)?;
            }
            None => self.change_leaf(&[], old.as_slice())?,
        }
        self.free_replaced();
        self.pages.interrupted = false;
        Ok(old.is_some())
    }
}

impl<N: Nand> OrderedIndex for InPlace<N> {
    fn record(&self) -> RecordFormat {
        self.pages.shapes.record()
    }

    fn durability(&self) -> Durability {
        Self::DURABILITY
    }

    fn takes_batch(&self, changes: usize) -> Option<bool> {
        Some(self.has_free_for_batch(changes))
    }

    /// Each page that may still be live may be a leaf, without those above it.
    fn free(&self) -> Option<Room> {
        let (space, shapes) = (&self.pages.space, &self.pages.shapes);
        let live = space.live_pages();
        let kept = self.wanted_for(0) + space.geometry.pages_per_block;
        let pages = space.usable_pages().saturating_sub(live + u64::from(kept));
        let leaves = pages.saturating_sub(pages / (shapes.inner.capacity as u64 / 2) + 1);
        let records = Room::records_of(leaves, live, shapes.leaf.capacity as u64 / 2);
        Some(Room { pages, records, surely: 0 })
    }

    fn records_max(&self) -> Option<u64> {
        let space = &self.pages.space;
        let pages = u64::from(space.geometry.pages() - space.geometry.pages_per_block);
        let parents = pages.div_ceil(self.pages.shapes.inner.capacity as u64 + 1);
        Some((pages - parents) * self.pages.shapes.leaf.capacity as u64)
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.pages.shapes.record().check(key, value)?;
        self.pages.usable()?;
        self.path.descend(&mut self.pages, key, false, 1)?;
        let slot = self.path.leaf_slot(&self.pages.shapes, key);
        if let Some(slot) = slot {
            value.copy_from_slice(self.pages.shapes.leaf.value(&self.path.node(1).bytes, slot));
        }
        Ok(slot.is_some())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.pages.shapes.record().check(key, value)?;
        Ok(self.change(key, Some(value))?)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.pages.shapes.record().check_key(key)?;
        Ok(self.change(key, None)?)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.pages.usable()?;
        let ones = [0xff; u8::MAX as usize];
        let mut tour = Tour { bounds: (low, high), direction, visit };
        let start = match (tour.start(), direction) {
            (Bound::Included(key) | Bound::Excluded(key), _) => key,
            (Bound::Unbounded, Direction::Ascending) => &[],
            (Bound::Unbounded, Direction::Descending) => &ones[..self.pages.shapes.leaf.key_bytes],
        };
        self.path.descend(&mut self.pages, start, false, 1)?;
        while self.pages.shapes.show(self.path.node(1), &mut tour).is_continue() {
            let next = match direction {
                Direction::Ascending => self.path.leaf_bound(&self.pages.shapes.inner),
                Direction::Descending => self.path.bound_before(&self.pages.shapes.inner),
            };
            let Some(bound) = next else { break };
            self.path.descend(&mut self.pages, &bound, direction == Direction::Ascending, 1)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        Ok(self.pages.usable()?)
    }

    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.pages.usable()?;
        Ok(self.ahead(budget, false)?)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.pages.usable()?;
        Ok(self.ahead(budget, true)?)
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.pages.usable()?;
        let mut walk = Walk { report: CheckReport::default(), pages: Vec::new(), leaves: 0 };
        let ones = vec![0xff; self.pages.shapes.leaf.key_bytes];
        self.check_node((self.path.root, self.path.height), (&[], &ones), &mut walk)?;
        if walk.leaves + u64::from(self.inner_nodes) != walk.report.nodes {
            let found = message!("{} nodes, {} leaves", walk.report.nodes, walk.leaves);
            walk.report.violation(Invariant::O5, u64::from(NONE), found);
        }
        walk.pages.push(self.settings_page);
        sort::total(&mut walk.pages);
        let live: Vec<u32> =
            (0..self.pages.space.geometry.pages()).filter(|&ppn| self.pages.space.is_live(ppn)).collect();
        if live != walk.pages {
            let found = message!("{} live pages, {} in the tree", live.len(), walk.pages.len());
            walk.report.violation(Invariant::O5, u64::from(NONE), found);
        }
        Ok(walk.report)
    }

    fn stats(&self) -> IndexStats {
        let metric = |name, value| Metric { name, value };
        let counters = &self.counters;
        IndexStats {
            height: u32::from(self.path.height),
            live_pages: self.pages.space.live_pages(),
            collections: counters.collections,
            metrics: vec![
                metric("overwrites", counters.overwrites),
                metric("new_pages", counters.new_pages),
                metric("splits", counters.splits),
                metric("moved_pages", counters.moved_pages),
                metric("log_programs", counters.log_programs),
                metric("blocks_retired", self.pages.retired.into()),
                metric("free_pages", u64::from(self.pages.space.free_pages())),
            ],
            ..IndexStats::default()
        }
    }

    fn ram_bytes(&self) -> usize {
        self.ram_bytes_at(self.path.nodes.len() as u8)
    }
}
