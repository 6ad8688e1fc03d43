//! The dirty parts: the changes that wait for a leaf, sorted by key, in chains of cells.
//!
//! A cell holds a few entries, in a page-sized slab with as many cells as fit. All cells of a chain are full
//! but the last, and the cells in use are the first ones of the slabs: a cell that becomes free is filled
//! with the last one in use. So a dirty part takes its entries, 12 bytes per cell and less than one cell of
//! air, and slabs that are no longer needed can go back at once.
//!
//! A cell that holds entries of 4 + 4 bytes has four; larger cells waste more on units with few changes,
//! smaller ones more on their headers.
//!
//! ```text
//! bytes  0..4   next cell of the chain
//!        4..8   the cell before; in the first cell of a chain, the unit and the top bit
//!        8..12  three bits per entry: puts a value or removes the key; what the tree holds of the key.
//!               Then one bit for a post, and in the bits left the post after it and 1
//!       12..    entries: key and value
//! ```
//!
//! A large buffer has chains of hundreds of cells. Every 16th cell of a chain is a *post*, the first one too,
//! and names the next post, so that a search goes from post to post and then from cell to cell. Entries move
//! from cell to cell, but a chain gains and loses cells at its end alone, so a post stays one. Where the
//! number of the next post does not fit into the bits left, as with records of three bytes, a post names
//! none, and a search goes through the cells between.

use super::units::{NONE, Part, Units};
use crate::ordered::buffered::Below;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;
use nandex::codec::{get_u32, put_u32};
use nandex::ordered::RecordFormat;
use nandex::ordered::change::Change;

const HEADER_BYTES: usize = 12;
/// Size that the entries of a cell fill as far as possible. A cell has at least two entries.
const CELL_BYTES: usize = 48;
/// Largest number of entries in a cell: each takes three bits of a 32-bit word.
const ENTRIES_MAX: usize = 10;
/// Number of cells from one post to the next.
const POST_CELLS: usize = 16;
/// Flag of a number that stands for a unit, stored where a cell's predecessor is expected.
const IS_UNIT: u32 = 1 << 31;

/// A place in a chain: a cell and an index in it, which may be one past its last entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    cell: u32,
    entry: usize,
}

/// A change that waits in a dirty part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) change: Change<'a>,
    pub(super) below: Below,
}

impl Entry<'_> {
    /// Whether the change adds an entry to the leaf.
    pub(super) fn adds(&self) -> bool {
        self.change.value.is_some() && self.below != Below::Present
    }

    const fn bits(&self) -> u32 {
        let below = match self.below {
            Below::Absent => 0,
            Below::Present => 1,
            Below::Unknown => 2,
        };
        below << 1 | self.change.value.is_some() as u32
    }
}

/// All cells in their slabs.
#[derive(Debug)]
pub(super) struct Cells {
    record: RecordFormat,
    cell_entries: usize,
    cell_bytes: usize,
    slab_cells: usize,
    slabs: Vec<Box<[u8]>>,
    used: usize,
}

/// The layout of the third word of a cell, after the bits of its entries.
#[derive(Clone, Copy, Debug)]
struct Posts {
    /// Mask of the bits of the entries.
    entry_bits: u32,
    shift: u32,
}

impl Posts {
    /// The layout for cells of `entries` entries.
    const fn beside(entries: usize) -> Posts {
        let shift = 3 * entries as u32;
        Posts { entry_bits: (1 << shift) - 1, shift }
    }

    const fn mark(self) -> u32 {
        1 << self.shift
    }

    const fn is_post(self, word: u32) -> bool {
        word & self.mark() != 0
    }

    /// The next post, if the word has its number.
    fn next(self, word: u32) -> Option<u32> {
        (word >> self.shift >> 1).checked_sub(1)
    }

    /// The word with this next post. A number that does not fit is left out, as if there were no next post.
    fn with_next(self, word: u32, next: Option<u32>) -> u32 {
        let named = next.map_or(0, |next| next + 1);
        let fits = named <= u32::MAX >> self.shift >> 1;
        word & (self.entry_bits | self.mark()) | if fits { named << self.shift << 1 } else { 0 }
    }
}

impl Cells {
    /// Makes an empty table, for up to `slabs_max` slabs of a page each.
    pub(super) fn new(record: RecordFormat, page_bytes: usize, slabs_max: usize) -> Cells {
        let cell_entries = cell_entries(record);
        let cell_bytes = cell_bytes(record);
        let slab_cells = page_bytes / cell_bytes;
        assert!(slab_cells > 0, "a page that holds a leaf of two entries holds a cell of two");
        Cells { record, cell_entries, cell_bytes, slab_cells, slabs: Vec::with_capacity(slabs_max), used: 0 }
    }

    const fn posts(&self) -> Posts {
        Posts::beside(self.cell_entries)
    }

    pub(super) fn entry_bytes(&self) -> usize {
        self.record.entry_bytes()
    }

    /// Cells that a dirty part of `entries` entries takes.
    pub(super) const fn cells_for(&self, entries: usize) -> usize {
        entries.div_ceil(self.cell_entries)
    }

    pub(super) fn slab_entries(&self) -> usize {
        self.slab_cells * self.cell_entries
    }

    pub(super) fn has_room(&self) -> bool {
        self.used < self.slabs.len() * self.slab_cells
    }

    /// Slabs needed for `more` more cells.
    pub(super) fn slabs_for(&self, more: usize) -> usize {
        let free = self.slabs.len() * self.slab_cells - self.used;
        more.saturating_sub(free).div_ceil(self.slab_cells)
    }

    pub(super) fn give(&mut self, slab: Box<[u8]>) {
        self.slabs.push(slab);
    }

    /// Takes out a slab that has no cell in use, if there is one.
    pub(super) fn take_spare(&mut self) -> Option<Box<[u8]>> {
        let is_spare = !self.slabs.is_empty() && self.used <= (self.slabs.len() - 1) * self.slab_cells;
        if is_spare { self.slabs.pop() } else { None }
    }

    pub(super) fn used_cells(&self) -> usize {
        self.used
    }

    pub(super) fn slab_count(&self) -> usize {
        self.slabs.len()
    }

    fn cell(&self, cell: u32) -> &[u8] {
        let (slab, at) = (cell as usize / self.slab_cells, cell as usize % self.slab_cells);
        &self.slabs[slab][at * self.cell_bytes..][..self.cell_bytes]
    }

    fn cell_mut(&mut self, cell: u32) -> &mut [u8] {
        let (slab, at) = (cell as usize / self.slab_cells, cell as usize % self.slab_cells);
        &mut self.slabs[slab][at * self.cell_bytes..][..self.cell_bytes]
    }

    fn next(&self, cell: u32) -> u32 {
        get_u32(self.cell(cell), 0)
    }

    fn before(&self, cell: u32) -> u32 {
        get_u32(self.cell(cell), 4)
    }

    fn bytes(&self, spot: Spot) -> &[u8] {
        let entry = self.entry_bytes();
        &self.cell(spot.cell)[HEADER_BYTES + spot.entry * entry..][..entry]
    }

    pub(super) fn key(&self, spot: Spot) -> &[u8] {
        &self.bytes(spot)[..usize::from(self.record.key_bytes)]
    }

    fn bits(&self, spot: Spot) -> u32 {
        get_u32(self.cell(spot.cell), 8) >> (3 * spot.entry) & 7
    }

    pub(super) fn entry(&self, spot: Spot) -> Entry<'_> {
        let bits = self.bits(spot);
        let (key, value) = self.bytes(spot).split_at(usize::from(self.record.key_bytes));
        let below = match bits >> 1 {
            0 => Below::Absent,
            1 => Below::Present,
            _ => Below::Unknown,
        };
        Entry { change: Change { key, value: (bits & 1 == 1).then_some(value) }, below }
    }

    /// Copies an entry into the caller's buffer.
    pub(super) fn copy_out<'a>(&self, spot: Spot, bytes: &'a mut [u8; 510]) -> Entry<'a> {
        let (size, key) = (self.entry_bytes(), usize::from(self.record.key_bytes));
        let Entry { change, below } = self.entry(spot);
        let is_put = change.value.is_some();
        bytes[..size].copy_from_slice(self.bytes(spot));
        let (key, value) = bytes[..size].split_at(key);
        Entry { change: Change { key, value: is_put.then_some(value) }, below }
    }

    fn set_bits(&mut self, spot: Spot, bits: u32) {
        let cell = self.cell_mut(spot.cell);
        let all = get_u32(cell, 8) & !(7 << (3 * spot.entry)) | bits << (3 * spot.entry);
        put_u32(cell, 8, all);
    }

    /// Overwrites an entry. A removal leaves the bytes of the value as they are.
    pub(super) fn set(&mut self, spot: Spot, entry: &Entry<'_>) {
        let (size, key) = (self.entry_bytes(), usize::from(self.record.key_bytes));
        let bytes = &mut self.cell_mut(spot.cell)[HEADER_BYTES + spot.entry * size..][..size];
        bytes[..key].copy_from_slice(entry.change.key);
        if let Some(value) = entry.change.value {
            bytes[key..].copy_from_slice(value);
        }
        self.set_bits(spot, entry.bits());
    }

    /// Gives an entry a new value, or makes it a removal.
    pub(super) fn set_value(&mut self, spot: Spot, value: Option<&[u8]>) {
        let (size, key) = (self.entry_bytes(), usize::from(self.record.key_bytes));
        if let Some(value) = value {
            self.cell_mut(spot.cell)[HEADER_BYTES + spot.entry * size + key..][..value.len()]
                .copy_from_slice(value);
        }
        let bits = self.bits(spot) & !1 | u32::from(value.is_some());
        self.set_bits(spot, bits);
    }

    pub(super) fn first(&self, part: Part) -> Spot {
        Spot { cell: part.head, entry: 0 }
    }

    /// Entry `at` of a part, or the place after its last.
    pub(super) fn nth(&self, part: Part, at: usize) -> Spot {
        let hops = if at == part.len as usize { at.saturating_sub(1) } else { at } / self.cell_entries;
        let (mut cell, mut done) = (part.head, 0);
        while done < hops {
            let post = if hops - done >= POST_CELLS { self.posts().next(self.word(cell)) } else { None };
            done += if post.is_some() { POST_CELLS } else { 1 };
            cell = post.unwrap_or_else(|| self.next(cell));
        }
        Spot { cell, entry: at - hops * self.cell_entries }
    }

    pub(super) fn after(&self, spot: Spot) -> Spot {
        if spot.entry + 1 < self.cell_entries {
            return Spot { entry: spot.entry + 1, ..spot };
        }
        Spot { cell: self.next(spot.cell), entry: 0 }
    }

    /// The entry before a place, which must not be the first.
    pub(super) fn previous(&self, spot: Spot) -> Spot {
        if spot.entry > 0 {
            return Spot { entry: spot.entry - 1, ..spot };
        }
        Spot { cell: self.before(spot.cell), entry: self.cell_entries - 1 }
    }

    /// Searches a part for a key. Returns how many entries are below it, the place of the first that is
    /// not, and that entry's order to the key.
    pub(super) fn search(&self, part: Part, key: &[u8]) -> (usize, Spot, Ordering) {
        let (mut spot, mut below) = (self.first(part), 0);
        let (len, size, posts) = (part.len as usize, self.entry_bytes(), self.posts());
        while below < len {
            let cell = self.cell(spot.cell);
            let key_at = |entry: usize| &cell[HEADER_BYTES + entry * size..][..key.len()];
            let post = posts.next(get_u32(cell, 8));
            if let Some(post) = post.filter(|&post| self.key(Spot { cell: post, entry: 0 }) <= key) {
                below += POST_CELLS * self.cell_entries;
                spot.cell = post;
                continue;
            }
            let count = self.cell_entries.min(len - below);
            if below + count == len || key_at(count - 1) >= key {
                for entry in 0..count {
                    let order = key_at(entry).cmp(key);
                    if order != Ordering::Less {
                        return (below + entry, Spot { entry, ..spot }, order);
                    }
                }
                return (len, Spot { entry: count, ..spot }, Ordering::Greater);
            }
            below += count;
            spot.cell = get_u32(cell, 0);
        }
        (len, spot, Ordering::Greater)
    }

    pub(super) fn find(&self, part: Part, key: &[u8]) -> Option<Spot> {
        let (_, spot, order) = self.search(part, key);
        (order == Ordering::Equal).then_some(spot)
    }

    /// The entries of a part as changes for the tree, in the order of keys.
    pub(super) fn changes(&self, part: Part) -> impl Iterator<Item = Change<'_>> + Clone {
        self.entries(part).map(|entry| entry.change)
    }

    pub(super) fn entries(&self, part: Part) -> impl Iterator<Item = Entry<'_>> + Clone {
        let mut spot = self.first(part);
        (0..part.len).map(move |_| {
            let at = spot;
            spot = self.after(spot);
            self.entry(at)
        })
    }

    /// Inserts an entry into the part of a unit. A cell must be free.
    pub(super) fn insert(&mut self, units: &mut Units, unit: u32, entry: &Entry<'_>) {
        let part = units.part(unit);
        let (below, mut spot, order) = self.search(part, entry.change.key);
        assert!(order != Ordering::Equal, "U2: the key has an entry already");
        if (part.len as usize).is_multiple_of(self.cell_entries) {
            // The chain gets a cell; the place of the entry may be its first.
            let last = if part.len == 0 { NONE } else { self.nth(part, part.len as usize - 1).cell };
            let cell = self.append(units, unit, last);
            if (part.len as usize / self.cell_entries).is_multiple_of(POST_CELLS) {
                self.set_post(cell, last);
            }
            if spot.cell == NONE || spot.entry == self.cell_entries {
                spot = Spot { cell, entry: 0 };
            }
        }
        self.open(spot, part.len as usize - below);
        self.set(spot, entry);
        units.resize(unit, 1, i32::from(entry.adds()));
    }

    /// Moves `left` entries up by one, beginning at `spot`.
    fn open(&mut self, mut spot: Spot, mut left: usize) {
        let (size, entries, mask) = (self.entry_bytes(), self.cell_entries, self.posts().entry_bits);
        // The entry that left the cell before, and the one that leaves this.
        let mut carry = [[0u8; 510]; 2];
        let (mut carried, mut turn): (Option<u32>, usize) = (None, 0);
        loop {
            let here = left.min(entries - spot.entry);
            let is_full = spot.entry + here == entries;
            let cell = self.cell_mut(spot.cell);
            let (next, word) = (get_u32(cell, 0), get_u32(cell, 8));
            if is_full {
                carry[1 - turn][..size].copy_from_slice(&cell[HEADER_BYTES + (entries - 1) * size..][..size]);
            }
            let (start, moved) = (HEADER_BYTES + spot.entry * size, here - usize::from(is_full));
            cell.copy_within(start..start + moved * size, start + size);
            let low = word & ((1 << (3 * spot.entry)) - 1);
            let mut bits = (low | (word & mask & !low) << 3) & mask;
            if let Some(carried) = carried {
                cell[start..start + size].copy_from_slice(&carry[turn][..size]);
                bits = bits & !(7 << (3 * spot.entry)) | carried << (3 * spot.entry);
            }
            put_u32(cell, 8, bits | word & !mask);
            if !is_full {
                return;
            }
            left -= here;
            (carried, turn) = (Some(word >> (3 * (entries - 1)) & 7), 1 - turn);
            spot = Spot { cell: next, entry: 0 };
        }
    }

    /// Appends a new cell after the last one of a unit's chain.
    fn append(&mut self, units: &mut Units, unit: u32, last: u32) -> u32 {
        assert!(self.has_room(), "U5: a cell is free");
        let cell = self.used as u32;
        self.used += 1;
        let bytes = self.cell_mut(cell);
        put_u32(bytes, 0, NONE);
        put_u32(bytes, 4, if last == NONE { unit | IS_UNIT } else { last });
        put_u32(bytes, 8, 0);
        if last == NONE {
            units.set_head(unit, cell);
        } else {
            put_u32(self.cell_mut(last), 0, cell);
        }
        cell
    }

    pub(super) fn remove_first(&mut self, units: &mut Units, unit: u32, count: usize) {
        let part = units.part(unit);
        let adds = self.entries(part).take(count).filter(Entry::adds).count();
        let (mut to, mut from) = (self.first(part), self.nth(part, count));
        for _ in count..part.len as usize {
            self.copy(from, to);
            (to, from) = (self.after(to), self.after(from));
        }
        self.shorten(units, unit, count, adds);
    }

    pub(super) fn remove(&mut self, units: &mut Units, unit: u32, key: &[u8]) {
        let part = units.part(unit);
        let (below, mut to, order) = self.search(part, key);
        assert!(order == Ordering::Equal, "U2: the key has an entry");
        let adds = usize::from(self.entry(to).adds());
        for _ in below + 1..part.len as usize {
            let from = self.after(to);
            self.copy(from, to);
            to = from;
        }
        self.shorten(units, unit, 1, adds);
    }

    fn copy(&mut self, from: Spot, to: Spot) {
        let size = self.entry_bytes();
        let mut bytes = [0u8; 510];
        bytes[..size].copy_from_slice(self.bytes(from));
        let bits = self.bits(from);
        self.cell_mut(to.cell)[HEADER_BYTES + to.entry * size..][..size].copy_from_slice(&bytes[..size]);
        self.set_bits(to, bits);
    }

    /// Drops the last `count` entries of a part, and the cells that held nothing else.
    fn shorten(&mut self, units: &mut Units, unit: u32, count: usize, adds: usize) {
        let part = units.part(unit);
        let len = part.len as usize;
        let mut cells = self.cells_for(len);
        let mut last = if cells > self.cells_for(len - count) { self.nth(part, len - 1).cell } else { NONE };
        while cells > self.cells_for(len - count) {
            cells -= 1;
            if cells.is_multiple_of(POST_CELLS) {
                self.point_post_before(last, None);
            }
            let before = self.before(last);
            let moved = self.free(units, last);
            // The cell before may be the one that filled the hole.
            last = if before == moved { last } else { before };
        }
        units.resize(unit, -(count as i32), -(adds as i32));
    }

    /// Frees the last cell of a chain. The last cell in use moves into its place. Returns that cell's old
    /// number.
    fn free(&mut self, units: &mut Units, cell: u32) -> u32 {
        self.link(units, self.before(cell), NONE);
        self.used -= 1;
        let moved = self.used as u32;
        if moved == cell {
            return moved;
        }
        let (next, before) = (self.next(moved), self.before(moved));
        if self.posts().is_post(self.word(moved)) {
            self.point_post_before(moved, Some(cell));
        }
        self.copy_cell(moved, cell);
        self.link(units, before, cell);
        if next != NONE {
            put_u32(self.cell_mut(next), 4, cell);
        }
        moved
    }

    fn word(&self, cell: u32) -> u32 {
        get_u32(self.cell(cell), 8)
    }

    /// Makes a cell a post. `last` is the cell before it in the chain.
    fn set_post(&mut self, cell: u32, last: u32) {
        let word = self.word(cell) | self.posts().mark();
        put_u32(self.cell_mut(cell), 8, word);
        if last != NONE {
            self.point_post_before(cell, Some(cell));
        }
    }

    /// Sets or clears the next post in the post before `post`. The first post of a chain has none before
    /// it.
    fn point_post_before(&mut self, post: u32, next: Option<u32>) {
        let mut cell = post;
        for _ in 0..POST_CELLS {
            cell = self.before(cell);
            if cell & IS_UNIT != 0 {
                return;
            }
        }
        let word = self.posts().with_next(self.word(cell), next);
        put_u32(self.cell_mut(cell), 8, word);
    }

    fn copy_cell(&mut self, from: u32, to: u32) {
        let (bytes, cells) = (self.cell_bytes, self.slab_cells);
        let place = |cell: u32| (cell as usize / cells, cell as usize % cells * bytes);
        let ((slab, at), (target, to)) = (place(from), place(to));
        if slab == target {
            self.slabs[slab].copy_within(at..at + bytes, to);
        } else {
            // The hole lies before the last cell in use.
            let (head, tail) = self.slabs.split_at_mut(slab);
            head[target][to..to + bytes].copy_from_slice(&tail[0][at..at + bytes]);
        }
    }

    /// Makes `cell` the successor of `before`: a cell, or the unit itself if `cell` is the first of its
    /// chain.
    fn link(&mut self, units: &mut Units, before: u32, cell: u32) {
        if before & IS_UNIT == 0 {
            put_u32(self.cell_mut(before), 0, cell);
        } else {
            units.set_head(before & !IS_UNIT, cell);
        }
    }

    /// Whether the chain of a unit is complete, its keys ascend, and its cells name the unit.
    pub(super) fn is_sound(&self, unit: u32, part: Part) -> bool {
        let (mut cell, mut before) = (part.head, unit | IS_UNIT);
        let mut announced = None;
        for at in 0..self.cells_for(part.len as usize) {
            if cell as usize >= self.used || self.before(cell) != before {
                return false;
            }
            let (word, is_post) = (self.word(cell), at.is_multiple_of(POST_CELLS));
            if self.posts().is_post(word) != is_post || is_post && announced.is_some_and(|post| post != cell)
            {
                return false;
            }
            announced = if is_post { self.posts().next(word) } else { announced };
            (before, cell) = (cell, self.next(cell));
        }
        let keys = || self.changes(part).map(|change| change.key);
        cell == NONE && announced.is_none() && keys().zip(keys().skip(1)).all(|(a, b)| a < b)
    }
}

/// Number of entries in a cell.
pub(super) const fn cell_entries(record: RecordFormat) -> usize {
    match (CELL_BYTES - HEADER_BYTES) / record.entry_bytes() {
        0 | 1 => 2,
        ENTRIES_MAX.. => ENTRIES_MAX,
        entries => entries,
    }
}

pub(super) const fn cell_bytes(record: RecordFormat) -> usize {
    HEADER_BYTES + cell_entries(record) * record.entry_bytes()
}

#[cfg(test)]
mod tests;
