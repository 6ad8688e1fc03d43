//! A sorted row of records of equal length with two flags each, in which an insertion moves few of them.
//!
//! The row is cut into *leaves* of `1 << bits` records. All but the last are full. Each leaf but the first is
//! a ring: its first record may lie in any of its places.
//!
//! ```text
//! | a b c d | h e f g | k i j . |     leaf 1 begins at its second place, leaf 2 as well
//! | a b B c | g d e f | . h i j k ..  B inserted: each later leaf takes the last record of the one before
//! ```
//!
//! An insertion moves records of its own leaf up, and one record of each later leaf: with n records and
//! leaves of some multiple of the square root of n, about that many. A short row is one leaf and has no
//! table. The number of records that fit is that of the places: leaves leave none empty.

use super::bits::{exchange_bits, get_bits};
use super::commit::SEALS;
use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

/// The flag of a record that no sealed page holds. Free places do not have it.
pub(super) const UNSEALED: u8 = 2;
const UNSEALED_FIELDS: u64 = u64::MAX / 3 * UNSEALED as u64;
/// True if this build has rows of many leaves. Without sealed pages a memtable is no larger than a page.
const LEAVES: bool = SEALS;
/// A row of at most so many records is one leaf: to move half of it takes less than to pack a commit page.
const SHORT: usize = 4_096;
/// The leaves of a longer row have at least so many records.
const LEAF_BITS_MIN: u32 = 10;
/// Leaves have at most so many records: places within them are numbers of two bytes.
const LEAF_BITS_MAX: u32 = 15;
/// Bytes of the table for each leaf but the first: where it begins, and its number of unsealed records.
const ENTRY_BYTES: usize = 4;
/// Flags are moved so many records at a time: with what is beside them in their first byte, 64 bits.
const FIELDS: usize = 28;
/// Bytes of flags without an unsealed record that are skipped at once.
const SKIPPED: usize = 64;

/// Records and flags. Records are told by their number in the row, places by their number in the arena.
#[derive(Debug)]
pub(super) struct Row {
    /// The records, and behind them room that others may use.
    pub(super) bytes: Box<[u8]>,
    /// The flags of four places to a byte, and the table of leaves, from its end on.
    flags: Box<[u8]>,
    count: u32,
    /// Number of places.
    places: u32,
    unsealed: u32,
    stride: u16,
    bits: u8,
}

/// The binary logarithm of the records in a leaf, for a row of `places`. Eight records moved up in a leaf
/// take as long as one that goes from leaf to leaf.
fn leaf_bits(stride: usize, places: usize) -> u32 {
    match places {
        _ if !LEAVES || stride == 0 => return u32::BITS - 1,
        ..=SHORT => return SHORT.trailing_zeros(),
        _ => {}
    }
    let root = (places as u64 * 8).next_power_of_two().trailing_zeros().div_ceil(2);
    root.clamp(LEAF_BITS_MIN, LEAF_BITS_MAX)
}

impl Row {
    /// An empty row of `places` records of `stride` bytes. A row of records without bytes, whose flags alone
    /// are here, is a single leaf.
    pub(super) fn new(stride: usize, places: usize) -> Row {
        Row::of_leaves(stride, places, leaf_bits(stride, places))
    }

    fn of_leaves(stride: usize, places: usize, bits: u32) -> Row {
        Row {
            bytes: vec![0; places * stride].into_boxed_slice(),
            flags: vec![0; Row::flags_bytes(places, bits)].into_boxed_slice(),
            count: 0,
            places: places as u32,
            unsealed: 0,
            stride: stride as u16,
            bits: bits as u8,
        }
    }

    /// Bytes of the flags and of the table.
    fn flags_bytes(places: usize, bits: u32) -> usize {
        places.div_ceil(4) + places.div_ceil(1 << bits).saturating_sub(1) * ENTRY_BYTES
    }

    /// Bytes of a row besides the records.
    pub(super) fn besides(stride: usize, places: usize) -> usize {
        Row::flags_bytes(places, leaf_bits(stride, places))
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.bytes.len() + self.flags.len()
    }

    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    pub(super) fn places(&self) -> usize {
        self.places as usize
    }

    pub(super) fn unsealed(&self) -> usize {
        self.unsealed as usize
    }

    fn leaf_of(&self, i: usize) -> usize {
        if LEAVES { i >> self.bits } else { 0 }
    }

    /// Number of the first record, and place, of a leaf.
    fn start(&self, leaf: usize) -> usize {
        leaf << self.bits
    }

    /// Number of places of a leaf.
    fn ring(&self, leaf: usize) -> usize {
        self.places().saturating_sub(self.start(leaf)).min(1 << self.bits)
    }

    fn entry_of(&self, leaf: usize) -> usize {
        self.flags.len() - leaf * ENTRY_BYTES
    }

    /// One of the two numbers of a leaf in the table, the first leaf excepted.
    fn told(&self, leaf: usize, number: usize) -> usize {
        let at = self.entry_of(leaf) + 2 * number;
        u16::from_le_bytes([self.flags[at], self.flags[at + 1]]).into()
    }

    fn tell(&mut self, leaf: usize, number: usize, value: usize) {
        let at = self.entry_of(leaf) + 2 * number;
        self.flags[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }

    /// Place, within its leaf, of a leaf's first record.
    fn head(&self, leaf: usize) -> usize {
        if leaf == 0 { 0 } else { self.told(leaf, 0) }
    }

    /// Makes a leaf begin `by` places later.
    fn turn(&mut self, leaf: usize, by: usize) {
        let head = (self.head(leaf) + by) % self.ring(leaf);
        self.tell(leaf, 0, head);
    }

    /// Place of a record, and the number of places from there to the end of its leaf or of the ring.
    #[inline]
    fn place(&self, i: usize) -> (usize, usize) {
        let leaf = self.leaf_of(i);
        let start = self.start(leaf);
        if leaf == 0 {
            return (i, self.ring(0) - i);
        }
        let (ring, at) = (self.ring(leaf), i - start + self.told(leaf, 0));
        if at < ring { (start + at, ring - at) } else { (start + at - ring, ring - (i - start)) }
    }

    fn bytes_at(&self, place: usize) -> Range<usize> {
        let stride = usize::from(self.stride);
        place * stride..(place + 1) * stride
    }

    #[inline]
    pub(super) fn entry(&self, i: usize) -> &[u8] {
        &self.bytes[self.bytes_at(self.place(i).0)]
    }

    pub(super) fn entry_mut(&mut self, i: usize) -> &mut [u8] {
        let at = self.bytes_at(self.place(i).0);
        &mut self.bytes[at]
    }

    /// Record and flags.
    pub(super) fn get(&self, i: usize) -> (&[u8], u8) {
        let place = self.place(i).0;
        (&self.bytes[self.bytes_at(place)], self.fields(place, 1) as u8)
    }

    pub(super) fn flags(&self, i: usize) -> u8 {
        self.fields(self.place(i).0, 1) as u8
    }

    pub(super) fn set_flags(&mut self, i: usize, flags: u8) {
        self.put_fields(self.place(i).0, 1, flags.into());
    }

    /// Flags of at most [`FIELDS`] places.
    fn fields(&self, place: usize, count: usize) -> u64 {
        get_bits(&self.flags, 2 * place, 2 * count as u32)
    }

    fn put_fields(&mut self, place: usize, count: usize, fields: u64) {
        let before = exchange_bits(&mut self.flags, 2 * place, 2 * count as u32, fields);
        let more =
            (fields & UNSEALED_FIELDS).count_ones().wrapping_sub((before & UNSEALED_FIELDS).count_ones());
        if more != 0 {
            self.count_unsealed(self.leaf_of(place), more as i32);
        }
    }

    fn count_unsealed(&mut self, leaf: usize, more: i32) {
        self.unsealed = self.unsealed.wrapping_add_signed(more);
        if leaf > 0 {
            let told = self.told(leaf, 1).wrapping_add_signed(more as isize);
            self.tell(leaf, 1, told);
        }
    }

    /// Copies records and flags of places in a row over those of others of one leaf.
    fn copy(&mut self, from: usize, to: usize, count: usize) {
        let (first, end) = (self.bytes_at(from).start, self.bytes_at(from + count).start);
        self.bytes.copy_within(first..end, self.bytes_at(to).start);
        let pieces = count.div_ceil(FIELDS);
        for piece in 0..pieces {
            // Places are read before they are written to.
            let at = if from < to { pieces - 1 - piece } else { piece } * FIELDS;
            let some = FIELDS.min(count - at);
            let fields = self.fields(from + at, some);
            self.put_fields(to + at, some, fields);
        }
    }

    /// Makes room for a record with number `i`, without flags. There must be a free place.
    pub(super) fn insert(&mut self, i: usize) {
        let (leaf, last) = (self.leaf_of(i), self.leaf_of(self.len()));
        self.count += 1;
        for next in (leaf + 1..=last).rev() {
            let first = self.start(next);
            self.turn(next, self.ring(next) - 1);
            self.copy(self.place(first - 1).0, self.place(first).0, 1);
        }
        let end = self.start(leaf + 1).min(self.len()) - 1;
        let ((from, _), (to, _), ring) = (self.place(i), self.place(end), self.start(leaf));
        if from <= to {
            self.copy(from, from + 1, to - from);
        } else {
            let top = ring + self.ring(leaf) - 1;
            self.copy(ring, ring + 1, to - ring);
            self.copy(top, ring, 1);
            self.copy(from, from + 1, top - from);
        }
        self.set_flags(i, 0);
    }

    /// Removes records.
    pub(super) fn remove(&mut self, records: Range<usize>) {
        let Range { start: low, end: mut high } = records;
        while low < high && high < self.len() {
            let some = (high - low).min(self.start(self.leaf_of(low) + 1) - low);
            self.remove_of_leaf(low, some);
            high -= some;
        }
        (low..high).for_each(|i| self.set_flags(i, 0));
        self.count -= (high - low) as u32;
    }

    /// Removes `gone` records that are in one leaf.
    fn remove_of_leaf(&mut self, low: usize, gone: usize) {
        let mut end = self.start(self.leaf_of(low) + 1).min(self.len());
        self.move_down(low + gone, low, end - low - gone);
        // The last places of the leaf that ends at `end` are free, and the next leaf fills them.
        loop {
            let next = self.leaf_of(end);
            let some = gone.min(self.len() - end);
            self.move_down(end, end - gone, some);
            (end - gone + some..end).for_each(|i| self.set_flags(i, 0));
            let is_last = self.len() <= self.start(next + 1);
            if is_last {
                (end..end + some).for_each(|i| self.set_flags(i, 0));
            }
            if LEAVES && some > 0 {
                self.turn(next, gone);
            }
            if is_last {
                break;
            }
            end = self.start(next + 1);
        }
        self.count -= gone as u32;
    }

    /// Copies records over earlier ones.
    fn move_down(&mut self, mut from: usize, mut to: usize, mut count: usize) {
        while count > 0 {
            let ((source, row), (target, room)) = (self.place(from), self.place(to));
            let some = count.min(row).min(room);
            self.copy(source, target, some);
            (from, to, count) = (from + some, to + some, count - some);
        }
    }

    /// Changes the number of places; all records must have one.
    pub(super) fn set_places(&mut self, places: usize) {
        // Rings whose length changes begin at their first place.
        for places in [self.places(), places] {
            self.straighten(self.leaf_of(places.saturating_sub(1)));
        }
        self.places = places as u32;
    }

    fn straighten(&mut self, leaf: usize) {
        let (start, ring, head) = (self.start(leaf), self.ring(leaf), self.head(leaf));
        if head == 0 {
            return;
        }
        self.tell(leaf, 0, 0);
        if ring == 0 {
            return;
        }
        let of_ring = self.bytes_at(start).start..self.bytes_at(start + ring).start;
        self.bytes[of_ring].rotate_left(head * usize::from(self.stride));
        for part in [0..head, head..ring, 0..ring] {
            for i in 0..part.len() / 2 {
                let (one, other) = (start + part.start + i, start + part.end - 1 - i);
                let flags = (self.fields(one, 1), self.fields(other, 1));
                self.put_fields(one, 1, flags.1);
                self.put_fields(other, 1, flags.0);
            }
        }
    }

    /// Number of the first unsealed record from `i` on.
    pub(super) fn next_unsealed(&self, mut i: usize) -> Option<usize> {
        while i < self.len() {
            let leaf = self.leaf_of(i);
            if leaf > 0 && self.told(leaf, 1) == 0 {
                i = self.start(leaf + 1);
                continue;
            }
            let (place, row) = self.place(i);
            let row = row.min(self.len() - i);
            match self.unsealed_place(place..place + row) {
                Some(found) => return Some(i + found - place),
                None => i += row,
            }
        }
        None
    }

    fn unsealed_of(&self, places: Range<usize>) -> u64 {
        self.fields(places.start, places.len()) & UNSEALED_FIELDS
    }

    /// The first unsealed of places in a row.
    fn unsealed_place(&self, places: Range<usize>) -> Option<usize> {
        let Range { start, end } = places;
        let first = end.min((start + FIELDS) / 4 * 4);
        let found = self.unsealed_of(start..first);
        if found != 0 || first == end {
            return (found != 0).then(|| start + found.trailing_zeros() as usize / 2);
        }
        let flags = &self.flags[first / 4..end.div_ceil(4)];
        let is_clear = |many: &&[u8; SKIPPED]| many.iter().fold(0, |all, flags| all | flags) & 0xaa == 0;
        let many = flags.as_chunks().0.iter().take_while(is_clear).count() * SKIPPED;
        let is_clear = |word: &&[u8; 8]| u64::from_le_bytes(**word) & UNSEALED_FIELDS == 0;
        let words = flags[many..].as_chunks().0.iter().take_while(is_clear).count() * 8;
        let at = first + 4 * (many + words);
        let found = self.unsealed_of(at..end.min(at + 32));
        (found != 0).then(|| at + found.trailing_zeros() as usize / 2)
    }

    /// The last unsealed of places in a row.
    fn last_unsealed_place(&self, places: Range<usize>) -> Option<usize> {
        let mut end = places.end;
        while end > places.start {
            let from = end.saturating_sub(FIELDS).max(places.start);
            let found = self.unsealed_of(from..end);
            if found != 0 {
                return Some(from + found.ilog2() as usize / 2);
            }
            end = from;
        }
        None
    }

    /// Number of the last unsealed record.
    pub(super) fn last_unsealed(&self) -> Option<usize> {
        let mut end = self.len();
        while end > 0 {
            let leaf = self.leaf_of(end - 1);
            let start = self.start(leaf);
            if leaf == 0 || self.told(leaf, 1) > 0 {
                let (place, row) = self.place(start);
                // The end of a leaf that is turned lies at the ring's first places.
                let (row, around) = (row.min(end - start), (end - start).saturating_sub(row));
                let found = match self.last_unsealed_place(start..start + around) {
                    Some(at) => Some(at + row),
                    None => self.last_unsealed_place(place..place + row).map(|at| at + start - place),
                };
                if found.is_some() {
                    return found;
                }
            }
            end = start;
        }
        None
    }
}

#[cfg(test)]
#[cfg(feature = "full")]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::vec::Vec;

    /// Keys and flags of a row, in order.
    type Model = Vec<(u16, u8)>;

    fn key_of(entry: &[u8]) -> u16 {
        u16::from_be_bytes([entry[0], entry[1]])
    }

    fn put(row: &mut Row, model: &mut Model, i: usize, (key, flags): (u16, u8)) {
        row.insert(i);
        assert_eq!(row.flags(i), 0);
        row.entry_mut(i)[..2].copy_from_slice(&key.to_be_bytes());
        row.set_flags(i, flags);
        model.insert(i, (key, flags));
    }

    fn require_same(row: &Row, model: &Model, rng: &mut Rng) {
        assert_eq!(row.len(), model.len());
        let held = (0..row.len()).map(|i| (key_of(row.entry(i)), row.flags(i)));
        assert!(held.eq(model.iter().copied()));
        let is_unsealed = |i: &usize| model[*i].1 & UNSEALED != 0;
        assert_eq!(row.unsealed(), (0..model.len()).filter(is_unsealed).count());
        assert_eq!(row.last_unsealed(), (0..model.len()).rfind(is_unsealed));
        let from = rng.below(model.len() as u64 + 2) as usize;
        assert_eq!(row.next_unsealed(from), (from..model.len()).find(is_unsealed), "from {from}");
        // Each leaf knows how many of its places are unsealed.
        for leaf in 1..row.places().div_ceil(1 << row.bits) {
            let places = row.start(leaf)..row.start(leaf) + row.ring(leaf);
            let unsealed = places.filter(|&place| row.fields(place, 1) as u8 & UNSEALED != 0).count();
            assert_eq!(row.told(leaf, 1), unsealed, "leaf {leaf}");
        }
    }

    /// Rows of one leaf and of many, full ones most of the time, and with room that comes and goes.
    #[test]
    fn it_is_a_list() {
        let mut rng = Rng::new(11);
        let (mut full, mut turned, mut lent) = (0, 0, 0);
        for life in 0..60u32 {
            let stride = 2 + rng.below(9) as usize;
            let places = 1 + rng.below([20, 100, 700, 3_000][life as usize % 4]) as usize;
            let bits = 1 + rng.below(8) as u32;
            let (mut row, mut model) = (Row::of_leaves(stride, places, bits), Model::new());
            for round in 0..400u16 {
                let i = rng.below(model.len() as u64 + 1) as usize;
                // Few unsealed records, or many.
                let flags = if rng.chance(1, 1 + u64::from(life % 50)) { rng.below(4) as u8 } else { 1 };
                match rng.below(8) {
                    0 if !model.is_empty() => {
                        let most = if rng.chance(1, 8) { model.len() } else { 1 << rng.below(7) };
                        let end = (i + rng.below(most as u64 + 1) as usize).min(model.len());
                        row.remove(i..end);
                        model.drain(i..end);
                    }
                    1 if i < model.len() => {
                        row.set_flags(i, flags);
                        model[i].1 = flags;
                    }
                    2 if rng.chance(1, 4) => {
                        let kept = model.len() + rng.below((places - model.len()) as u64 + 1) as usize;
                        row.set_places(kept);
                        let free = kept * stride..places * stride;
                        row.bytes[free.clone()].fill(0xee);
                        assert!(model.len() <= kept && free.len() == (places - kept) * stride);
                        lent += u32::from(kept < places);
                    }
                    _ => {
                        for more in 0..rng.below(1 + places as u64 / 8) as usize + 1 {
                            if model.len() < row.places() {
                                let at = (i + more * 7) % (model.len() + 1);
                                put(&mut row, &mut model, at, (round << 6 | more as u16, flags));
                            }
                        }
                    }
                }
                full += u32::from(model.len() == row.places() && places > 64);
                turned += u32::from((1..=row.leaf_of(places - 1)).any(|leaf| row.head(leaf) > 0));
                require_same(&row, &model, &mut rng);
            }
        }
        assert!(full > 1_000 && turned > 5_000 && lent > 100, "{full}, {turned}, {lent}");
    }

    /// A row of records without bytes is one leaf, whatever its length.
    #[test]
    fn flags_alone_are_a_row() {
        let (mut rng, mut row, mut flags) = (Rng::new(12), Row::new(0, 700), Vec::new());
        for _ in 0..2_000 {
            let i = rng.below(flags.len() as u64 + 1) as usize;
            if flags.len() < 700 && rng.chance(4, 5) {
                let flag = rng.below(4) as u8;
                row.insert(i);
                row.set_flags(i, flag);
                flags.insert(i, flag);
            } else {
                let end = (i + rng.below(9) as usize).min(flags.len());
                row.remove(i..end);
                flags.drain(i..end);
            }
            assert!((0..row.len()).map(|i| row.flags(i)).eq(flags.iter().copied()));
        }
        assert_eq!(row.ram_bytes(), Row::besides(0, 700));
    }

    #[test]
    fn leaves_take_less_than_a_thousandth() {
        for places in [1, 4_096, 4_097, 20_000, 180_000, 2_900_000] {
            let row = Row::new(16, places);
            let of_leaves = row.ram_bytes() - places * 16 - places.div_ceil(4);
            assert_eq!(of_leaves == 0, places <= SHORT);
            assert!(of_leaves * 1_000 < places * 16, "{of_leaves} of {places}");
            let leaf = 1 << row.bits;
            assert!(places.div_ceil(leaf) <= leaf, "{places} in leaves of {leaf}");
        }
    }
}
