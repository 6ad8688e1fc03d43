//! Table of nodes that have moved since their parents were written: the mapping table of the VMTree.
//!
//! An entry maps the address that a parent names to the page with the node now. It takes 4 bytes on a chip of
//! fewer than 65,535 pages, otherwise 8. The table uses open addressing with at most five places per address:
//! the first by the remainder, the next ones in steps of 1 to 7. If all five are taken, the move cannot be
//! entered, and the parent must be written. An address in the table is not allocated (`Tape::hold`): a page
//! there would be taken for the node that moved.

use super::places::Table;
use super::{Nodes, Path, RawScheme, address};
use crate::bits::{self, Word};
use crate::blocks::BlockTable;
use crate::blocks::checkpoint::{Contents, Window};
use crate::check::{CheckReport, IndexError, Invariant, message, words};
use crate::codec::get_u32;
use crate::fault::IndexFault;
use crate::nand::{Cause, Differs, Geometry, Nand};
use crate::ordered::Metric;
use crate::rng::split_mix;
use crate::units::Ppn;
use alloc::vec;
use alloc::vec::Vec;

/// Number of places that an address may have in the table.
const PROBES: usize = 5;
/// Bytes of an entry in a checkpoint.
const ENTRY_BYTES: usize = 8;
/// Largest step from one place to the next.
const STEP_MAX: usize = 7;

fn hash(named: u32, now: u32) -> u32 {
    (split_mix(u64::from(named) << 32 | u64::from(now)) >> 32) as u32
}

/// Nodes that a tree may reuse from the path of the operation before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Keep {
    /// Every node of the path.
    #[default]
    Path,
    /// The contents of three page buffers, as published: one has the root until it is rewritten, one the
    /// inner node read last, and one is for work. So a parent is read again before it is changed.
    ThreeBuffers,
}

/// Treatment of an entry if its address may get a second place in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Duplicates {
    /// An address in the table keeps its place, so there are no duplicates.
    #[default]
    Never,
    /// The authors' program enters a move at the first free place without looking further, so an older entry
    /// of the same address may be left behind it. Nothing leads there any more, but it is never freed: the
    /// table fills up with such entries, and they cause most of the cost in the published figures of small
    /// tables.
    AsPublished,
}

/// Table of moved nodes and its state. The default is no table.
#[derive(Clone, Debug)]
pub struct Moves {
    table: Table,
    used: usize,
    /// Entries without a place after a mount, which finds the entries in another order.
    surplus: Vec<(u32, u32)>,
    keep: Keep,
    duplicates: Duplicates,
    /// Hash of the entries, independent of their order.
    digest: u32,
    /// True while several updates are one operation and the current one is not the last.
    pub(crate) goes_on: bool,
    /// Number of times that the table may still be emptied for the next update.
    emptyings_left: u8,
    /// Number of pages that emptying the table must leave free.
    emptying_floor: u32,
    parent_rewrites: u64,
    parents_resolved: u64,
}

impl Default for Moves {
    fn default() -> Moves {
        Moves {
            table: Table::Narrow(Vec::new()),
            used: 0,
            surplus: Vec::new(),
            keep: Keep::Path,
            duplicates: Duplicates::Never,
            digest: 0,
            goes_on: false,
            emptyings_left: 0,
            emptying_floor: 0,
            parent_rewrites: 0,
            parents_resolved: 0,
        }
    }
}

impl Moves {
    /// Makes an empty table of `bytes` bytes.
    pub fn new(geometry: Geometry, bytes: usize, keep: Keep, duplicates: Duplicates) -> Moves {
        let table = if geometry.pages() < u32::from(u16::MAX) {
            Table::Narrow(vec![(u16::MAX, 0); bytes / size_of::<(u16, u16)>()])
        } else {
            Table::Wide(vec![(u32::MAX, 0); bytes / size_of::<(u32, u32)>()])
        };
        Moves { table, keep, duplicates, ..Moves::default() }
    }

    pub(super) fn clear(&mut self) {
        (0..self.table.len()).for_each(|at| self.table.set(at, None));
        debug_assert!(
            (0..self.table.len()).all(|at| self.table.get(at).is_none()),
            "R9: a move outlived the table"
        );
        self.surplus.clear();
        (self.used, self.digest, self.goes_on) = (0, 0, false);
    }

    /// Bytes of RAM, with the bits of the addresses held.
    pub fn ram_bytes(&self, geometry: Geometry) -> usize {
        if self.table.len() == 0 {
            0
        } else {
            self.table_bytes() + geometry.pages().div_ceil(64) as usize * 8
        }
    }

    pub(super) fn table_bytes(&self) -> usize {
        let entry_bytes = match self.table {
            Table::Narrow(_) => size_of::<(u16, u16)>(),
            Table::Wide(_) => size_of::<(u32, u32)>(),
        };
        self.table.len() * entry_bytes + self.surplus.len() * size_of::<(u32, u32)>()
    }

    /// True if the copy of a node at `level` outlasts the operation.
    pub(super) fn keeps(&self, level: u8, height: u8) -> bool {
        self.keep == Keep::Path || level == height || (level == 2 && height == 3)
    }

    fn len(&self) -> usize {
        self.used + self.surplus.len()
    }

    /// Number of pages that insertions leave free for the addresses that the table may hold.
    pub(crate) fn pages_kept(&self) -> u32 {
        // The authors' program leaves none.
        if self.duplicates == Duplicates::AsPublished { 0 } else { self.table.len() as u32 / 4 }
    }

    /// Allows the table to be emptied `times` times for the next update, as long as `floor` pages are left.
    pub(super) fn allow_emptyings(&mut self, times: u8, floor: u32) {
        (self.emptyings_left, self.emptying_floor) = (times, floor);
    }

    pub(super) fn entries_max(&self) -> usize {
        self.table.len()
    }

    /// True if a move is likely to find a place.
    pub(super) fn has_room(&self) -> bool {
        self.used * 4 < self.table.len() * 3
    }

    pub(crate) fn keep(&self) -> Keep {
        self.keep
    }

    /// Hash of table and root.
    pub(crate) fn digest(&self, root: Ppn) -> u32 {
        self.digest ^ hash(u32::MAX, root.0)
    }

    fn places(&self, named: u32) -> impl Iterator<Item = usize> + use<> {
        let (entries, named) = (self.table.len(), named as usize);
        let probes = if entries == 0 { 0 } else { PROBES };
        (0..probes).map(move |i| (named % entries + i * (STEP_MAX - named % STEP_MAX)) % entries)
    }

    fn place_of(&self, named: u32) -> Option<(usize, u32)> {
        self.places(named).find_map(|at| match self.table.get(at) {
            Some((key, now)) if key == named => Some((at, now)),
            _ => None,
        })
    }

    /// Page of the node that its parent names as `named`.
    #[inline]
    pub(super) fn resolve(&self, named: Ppn) -> Ppn {
        if self.used == 0 && self.surplus.is_empty() {
            return named;
        }
        self.entry(named.0).map_or(named, Ppn)
    }

    /// Enters a move. False if the table has no place for it.
    fn insert(&mut self, named: u32, now: u32) -> bool {
        let before = self.entry(named);
        let entered = self.enter(named, now);
        if entered {
            self.digest ^= before.map_or(0, |before| hash(named, before)) ^ hash(named, now);
        }
        entered
    }

    fn entry(&self, named: u32) -> Option<u32> {
        let in_table = self.place_of(named).map(|(_, now)| now);
        in_table.or_else(|| self.surplus.iter().find(|entry| entry.0 == named).map(|entry| entry.1))
    }

    fn enter(&mut self, named: u32, now: u32) -> bool {
        let free = self.places(named).find(|&at| self.table.get(at).is_none());
        let place = self.place_of(named).map(|(at, _)| at);
        if let Some(at) = place
            && (self.duplicates == Duplicates::Never
                || free.is_none_or(|free| self.is_before(named, at, free)))
        {
            self.table.set(at, Some((named, now)));
            return true;
        }
        if let Some(entry) = self.surplus.iter_mut().find(|entry| entry.0 == named) {
            entry.1 = now;
            return true;
        }
        if let Some(at) = free {
            self.table.set(at, Some((named, now)));
            self.used += 1;
            debug_assert!(
                self.used <= self.table.len(),
                "R9: {} moves in {} places",
                self.used,
                self.table.len()
            );
        }
        free.is_some()
    }

    fn is_before(&self, named: u32, at: usize, other: usize) -> bool {
        self.places(named).find(|place| [at, other].contains(place)) == Some(at)
    }

    pub(crate) fn take(&mut self, named: u32) -> Option<u32> {
        if let Some((at, now)) = self.place_of(named) {
            debug_assert!(self.used > 0, "R9: a move in an empty table");
            self.table.set(at, None);
            self.used -= 1;
            self.digest ^= hash(named, now);
            return Some(now);
        }
        let at = self.surplus.iter().position(|entry| entry.0 == named)?;
        let (_, now) = self.surplus.swap_remove(at);
        self.digest ^= hash(named, now);
        Some(now)
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let first = |&(at, (named, _)): &(usize, (u32, u32))| {
            self.duplicates == Duplicates::Never || self.place_of(named).is_some_and(|place| place.0 == at)
        };
        let entries = (0..self.table.len()).filter_map(|at| Some((at, self.table.get(at)?))).filter(first);
        entries.map(|(_, entry)| entry).chain(self.surplus.iter().copied())
    }

    /// Enters the moves that a checkpoint kept.
    pub(super) fn load(&mut self, note: &[u8], pages: u32) -> Result<(), IndexFault> {
        let rows = note.chunks_exact(ENTRY_BYTES);
        let mut is_table = rows.remainder().is_empty();
        for row in rows {
            let (named, now) = (get_u32(row, 0), get_u32(row, 4));
            is_table &= named < pages && now < pages && self.entry(named).is_none();
            if !is_table {
                break;
            }
            self.restore(named, now, usize::MAX);
        }
        let what = words("the newest checkpoint keeps no table of moved nodes");
        if is_table { Ok(()) } else { Err(IndexError::other(Differs::Settings, what).into()) }
    }

    /// Enters a move at a mount, even without a place in the table. False if `most` others have no place
    /// either: then the move is left out.
    pub(crate) fn restore(&mut self, named: u32, now: u32, most: usize) -> bool {
        self.take(named);
        if self.insert(named, now) {
            return true;
        }
        let is_taken = self.surplus.len() < most;
        if is_taken {
            // The list gets its largest size at once if it may have many entries, so that it is never copied.
            self.surplus.reserve_exact(if most == usize::MAX { 1 } else { most - self.surplus.len() });
            self.surplus.push((named, now));
            self.digest ^= hash(named, now);
        }
        is_taken
    }

    /// Number of an entry, and the page to which it maps.
    fn find(&self, named: u32) -> Option<(usize, u32)> {
        self.place_of(named).or_else(|| {
            let at = self.surplus.iter().position(|entry| entry.0 == named)?;
            Some((self.table.len() + at, self.surplus[at].1))
        })
    }

    /// Numbers of all entries, as bits.
    fn numbers(&self) -> Vec<Word> {
        let (table, all) = (self.table.len(), self.table.len() + self.surplus.len());
        let mut numbers = bits::clear(all);
        let in_table = (0..table).filter(|&at| self.table.get(at).is_some());
        in_table.chain(table..all).for_each(|at| bits::set(&mut numbers, at));
        numbers
    }

    /// Takes the first of these entry numbers out, and returns the entry.
    fn next_of(&self, numbers: &mut [Word]) -> Option<(u32, u32)> {
        for (at, word) in numbers.iter_mut().enumerate() {
            while *word != 0 {
                let number = at * bits::WORD_BITS + word.trailing_zeros() as usize;
                *word &= *word - 1;
                let entry = match number.checked_sub(self.table.len()) {
                    None => self.table.get(number),
                    Some(surplus) => self.surplus.get(surplus).copied(),
                };
                if entry.is_some() {
                    return entry;
                }
            }
        }
        None
    }

    /// Keeps the entries whose bits are set in `numbers`.
    fn keep_only(&mut self, numbers: &[Word]) {
        let is_kept = |at: usize| bits::is_set(numbers, at);
        for at in 0..self.table.len() {
            if let Some((named, now)) = self.table.get(at).filter(|_| !is_kept(at)) {
                self.table.set(at, None);
                self.used -= 1;
                self.digest ^= hash(named, now);
            }
        }
        let (mut at, mut dropped) = (self.table.len(), 0);
        self.surplus.retain(|&(named, now)| {
            let keeps = is_kept(at);
            at += 1;
            dropped ^= if keeps { 0 } else { hash(named, now) };
            keeps
        });
        self.digest ^= dropped;
        // Most of the entries without a place find one now.
        let mut surplus = core::mem::take(&mut self.surplus);
        surplus.retain(|&(named, now)| !self.enter(named, now));
        self.surplus = surplus;
    }

    /// Gives back RAM that a mount took for moves without a place.
    pub(crate) fn end_mount(&mut self) {
        self.surplus.shrink_to_fit();
    }

    pub(super) fn add_metrics(&self, metrics: &mut Vec<Metric>) {
        if self.table.len() > 0 {
            metrics.extend([
                Metric { name: "mapping_entries", value: self.len() as u64 },
                Metric { name: "mapping_entries_max", value: self.table.len() as u64 },
                Metric { name: "parent_rewrites", value: self.parent_rewrites },
                Metric { name: "parents_resolved", value: self.parents_resolved },
            ]);
        }
    }
}

/// Encodes the entries for a checkpoint.
impl Contents for Moves {
    fn byte_count(&self) -> usize {
        self.iter().count() * ENTRY_BYTES
    }

    fn put(&self, _: &BlockTable, page: &mut Window<'_>) {
        for (named, now) in self.iter() {
            page.bytes(&(u64::from(now) << 32 | u64::from(named)).to_le_bytes());
        }
    }
}

impl<S: RawScheme> Path<S> {
    /// Place that the path's parent of `level` names.
    fn named_at(&self, level: u8) -> Ppn {
        debug_assert!(level < self.height, "R2: nothing names the root at level {level}");
        self.named_child(level + 1)
    }

    /// Makes the first bound of the path's node at `level` the least of all keys, as a root's is.
    pub(crate) fn zero_bound(&mut self, level: u8) {
        debug_assert!(level > 1 && self.count(level) > 0, "R1: no bound at level {level}");
        let shape = self.shape(level);
        shape.set_key(self.node_mut(level), 0, &vec![0; shape.key_bytes]);
    }
}

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// Notes that the path's node at `level` has moved to `page`. `None` if its parent must be written
    /// instead.
    pub(crate) fn map_move(&mut self, level: u8, page: Ppn) -> Option<Ppn> {
        let named = self.path.named_at(level);
        debug_assert_ne!(named, page, "R9: a node moves to its own place");
        if !self.moves.insert(named.0, page.0) {
            self.moves.parent_rewrites += 1;
            return None;
        }
        self.log.tape.hold(named);
        Some(named)
    }

    /// Removes the entry of a place that nothing names any more. Returns the page of the node that had moved
    /// from there, if one had.
    pub(super) fn take_move(&mut self, named: Ppn) -> Option<u32> {
        if !S::MAPS_MOVES {
            return None;
        }
        let now = self.moves.take(named.0)?;
        if self.moves.place_of(named.0).is_none() {
            self.log.tape.release(named);
        }
        Some(now)
    }

    /// Makes the path's node at `level` name the pages where its children are now, before it is written.
    pub(crate) fn resolve_children(&mut self, level: u8) {
        self.moves.parents_resolved += 1;
        debug_assert!(level > 1, "R2: a leaf has no children");
        let (shape, count) = (self.path.shape(level), self.path.count(level));
        for i in 0..count {
            let named = self.path.named(level, i);
            if let Some(now) = self.take_move(named) {
                shape.set_value(self.path.node_mut(level), i, &now.to_le_bytes());
            }
        }
    }

    /// Writes the parents of moved nodes, so that moves find room in the table again and held addresses
    /// become free: a collection that is short of pages needs that. False if it achieved nothing.
    pub(super) fn empty_table(&mut self) -> Result<bool, IndexFault> {
        let before = self.moves.len();
        if self.moves.emptyings_left == 0 || before == 0 {
            return Ok(false);
        }
        self.moves.emptyings_left -= 1;
        // Entries that come meanwhile wait for the next time.
        let mut left = self.moves.numbers();
        while let Some((named, now)) = self.moves.next_of(&mut left) {
            if self.log.free_pages() < self.moves.emptying_floor + u32::from(self.path.height) {
                break;
            }
            if self.moves.entry(named) != Some(now) {
                continue;
            }
            let page = self.log.read(Ppn(now), Cause::GarbageCollection)?;
            let level = page.tag.lowest_level;
            if !(1..self.path.height).contains(&level) {
                continue;
            }
            let shape = self.path.scheme.shape(0, level, self.path.height);
            let key =
                shape.key(&page.data[self.path.scheme.page_area(0, level, self.path.height)], 0).to_vec();
            self.copy_path(&key, level + 1, Cause::GarbageCollection)?;
            self.log.tape.half_done = true;
            S::write_path(self, level + 1, None, Cause::GarbageCollection)?;
            self.log.finish();
        }
        Ok(self.moves.len() < before)
    }

    pub(crate) fn get_by_path(&mut self, key: &[u8], value: Option<&mut [u8]>) -> Result<bool, IndexFault> {
        self.copy_path(key, 1, Cause::Host)?;
        let found = self.path.search(key);
        if let (Ok(i), Some(value)) = (found, value) {
            value.copy_from_slice(self.path.shape(1).value(self.path.node(1), i));
        }
        Ok(found.is_ok())
    }

    /// Holds the addresses of all entries.
    pub(crate) fn hold_moved(&mut self) {
        for (named, _) in self.moves.iter() {
            self.log.tape.hold(Ppn(named));
            // A mount may have taken the page for valid because nothing told otherwise.
            if self.log.is_valid(Ppn(named)) {
                self.log.invalidate(Ppn(named));
            }
        }
        self.log.finish();
    }

    /// Removes the entries whose place no node in the tree names. `all` gets a bit for each place that is
    /// named.
    pub(crate) fn keep_moves_in_use(&mut self, mut all: Option<&mut [Word]>) -> Result<(), IndexFault> {
        let height = self.path.height;
        let pages = self.log.geometry().pages();
        let mut in_use = bits::clear(self.moves.table.len() + self.moves.surplus.len());
        let mut todo = Vec::from([(self.root, height)]);
        while let Some((ppn, level)) = todo.pop() {
            if level == 1 {
                continue;
            }
            let page = self.log.read(ppn, Cause::Recovery)?;
            let (shape, count, node) = self.path.node_in(page, level, ppn)?;
            for i in 0..count {
                let named = address::<S>(shape.value(node, i));
                if let Some(all) = all.as_deref_mut().filter(|_| named.0 < pages) {
                    bits::set(all, named.0 as usize);
                }
                let found = self.moves.find(named.0);
                if let Some((at, _)) = found {
                    if bits::is_set(&in_use, at) {
                        return Err(IndexFault::broken(Invariant::R9, "two nodes name one place", ppn.0));
                    }
                    bits::set(&mut in_use, at);
                }
                if level > 2 {
                    todo.push((found.map_or(named, |(_, now)| Ppn(now)), level - 1));
                }
            }
        }
        self.moves.keep_only(&in_use);
        Ok(())
    }

    /// Checks R9, given the number of entries that the walk over the tree met.
    pub(super) fn check_moves(&self, named: usize, report: &mut CheckReport) {
        if self.moves.duplicates == Duplicates::AsPublished {
            return;
        }
        let entries = self.moves.len();
        if entries != named {
            let found = message!("{entries} moves in the table, {named} places that nodes name");
            report.violation(Invariant::R9, 0, found);
        }
        for (named, now) in self.moves.iter() {
            if self.log.is_valid(Ppn(named)) || !self.log.is_valid(Ppn(now)) {
                report.violation(Invariant::R9, u64::from(named), message!("leads to page {now}"));
            }
            if self.moves.resolve(Ppn(now)) != Ppn(now) {
                report.violation(Invariant::R9, u64::from(named), message!("leads to {now}, which leads on"));
            }
        }
    }
}
