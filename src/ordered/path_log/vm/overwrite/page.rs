//! The bytes of a page: header, marks, slots. Its state is recorded by bits that are only ever cleared.
//!
//! ```text
//! at  bytes  field
//!  0    4    magic
//!  4    4    sequence, rising from page to page as they are born
//!  8    1    level, 0 for the page of the settings, 0x40 and more for changes (`batch`); plus 0x80 for a root
//!  9    1    0xFF; cleared when another root has taken the place of this one, or the changes are entered
//! 10    2    slots filled when the page was born
//! 12    4    CRC-32 of the page's number on the chip (u32), bytes 0 to 8, 10 to 11, and of those slots
//! 16         marks, a byte a slot: the low half says used, the high half dead; slots of key, value and a check byte
//!            bare: used marks, a bit a slot; dead marks, a bit a slot; slots of key and value
//! ```
//!
//! The slots in use are those up to the highest one whose used mark is cleared: one mark commits all slots
//! appended together. A mark is four bits, of which one may be wrong: with none or one cleared it does not
//! count, with three or four it does. Two cleared bits are half a mark, which a power cut may leave; a mount
//! completes it, which is as good as having done it before.

use crate::check::{IndexError, Invariant, words};
use crate::codec::{crc32, get_u16, get_u32, is_blank, put_u16, put_u32};
use crate::fault::IndexFault;
use crate::nand::{Differs, Geometry, Unfit};
use crate::ordered::RecordFormat;
use crate::sort;
use alloc::vec::Vec;

pub(super) const HEADER_BYTES: usize = 16;
const MAGIC: u32 = u32::from_le_bytes(*b"VMOW");
const ROOT: u8 = 0x80;
const LEVEL_AT: usize = 8;
const RETIRED_AT: usize = 9;
const BORN_AT: usize = 10;
const CRC_AT: usize = 12;
const USED: u8 = 0x0f;
const DEAD: u8 = 0xf0;

/// Whether slots have a check and a byte to mark them dead, or are as published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Marks {
    /// Marks and slots have check bytes, so that flipped bits are noticed.
    Checked,
    /// The published page, in which flipped bits are not noticed.
    Bare,
}

/// Offsets and sizes in the pages of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) key_bytes: usize,
    pub(super) entry_bytes: usize,
    pub(super) capacity: usize,
    slot_bytes: usize,
    marks_at: usize,
    /// The place of the dead marks of bare slots.
    dead_at: usize,
    slots_at: usize,
    pub(super) marks: Marks,
}

/// The state of a slot, by its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    Live,
    Dead,
    /// Only part of its bits are cleared.
    Halfway,
}

/// The state of the bytes beyond the slots in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frontier {
    /// Number of slots in use.
    pub(super) used: usize,
    /// One past the last slot that is not blank; more than `used` when a program was torn.
    pub(super) soiled: usize,
    /// Whether a mark was cleared in part.
    pub(super) is_halfway: bool,
}

impl Frontier {
    /// Whether nothing was torn.
    pub(super) fn is_sound(&self) -> bool {
        self.soiled <= self.used && !self.is_halfway
    }
}

/// Bits of the mask that are cleared in a mark.
#[inline]
fn cleared(mark: u8, mask: u8) -> u32 {
    (!mark & mask).count_ones()
}

impl Shape {
    pub(super) fn new(page_bytes: usize, key_bytes: usize, value_bytes: usize, marks: Marks) -> Shape {
        let entry_bytes = key_bytes + value_bytes;
        let slot_bytes = entry_bytes + usize::from(marks == Marks::Checked);
        let mark_bytes = |n: usize| if marks == Marks::Checked { n } else { 2 * n.div_ceil(8) };
        let needed = |n: usize| HEADER_BYTES + mark_bytes(n) + n * slot_bytes;
        let mut capacity = (page_bytes - HEADER_BYTES) / slot_bytes;
        while capacity > 0 && needed(capacity) > page_bytes {
            capacity -= 1;
        }
        let (marks_at, dead_at) = (HEADER_BYTES, HEADER_BYTES + capacity.div_ceil(8));
        let slots_at = marks_at + mark_bytes(capacity);
        debug_assert!(
            slots_at + capacity * slot_bytes <= page_bytes.max(slots_at),
            "O1: slots beyond the page"
        );
        Shape { key_bytes, entry_bytes, capacity, slot_bytes, marks_at, dead_at, slots_at, marks }
    }

    #[inline]
    pub(super) fn entry<'a>(&self, page: &'a [u8], slot: usize) -> &'a [u8] {
        debug_assert!(slot < self.capacity, "O1: slot {slot} of {}", self.capacity);
        let at = self.slots_at + slot * self.slot_bytes;
        &page[at..at + self.entry_bytes]
    }

    #[inline]
    pub(super) fn key<'a>(&self, page: &'a [u8], slot: usize) -> &'a [u8] {
        &self.entry(page, slot)[..self.key_bytes]
    }

    pub(super) fn value<'a>(&self, page: &'a [u8], slot: usize) -> &'a [u8] {
        &self.entry(page, slot)[self.key_bytes..]
    }

    #[inline]
    pub(super) fn state(&self, page: &[u8], slot: usize) -> SlotState {
        debug_assert!(slot < self.capacity, "O1: slot {slot} of {}", self.capacity);
        if self.marks == Marks::Bare {
            let dead = page[self.dead_at + slot / 8] & (1 << (slot % 8)) == 0;
            return if dead { SlotState::Dead } else { SlotState::Live };
        }
        match cleared(page[self.marks_at + slot], DEAD) {
            0 | 1 => SlotState::Live,
            2 => SlotState::Halfway,
            _ => SlotState::Dead,
        }
    }

    pub(super) fn is_live(&self, page: &[u8], slot: usize) -> bool {
        self.state(page, slot) != SlotState::Dead
    }

    pub(super) fn mark_dead(&self, page: &mut [u8], slot: usize) {
        debug_assert!(slot < self.capacity, "O1: slot {slot} of {}", self.capacity);
        match self.marks {
            Marks::Checked => page[self.marks_at + slot] &= !DEAD,
            Marks::Bare => page[self.dead_at + slot / 8] &= !(1 << (slot % 8)),
        }
    }

    /// Marks the slots before `end` used, by the mark of the last of them.
    pub(super) fn mark_used(&self, page: &mut [u8], end: usize) {
        debug_assert!(0 < end && end <= self.capacity, "O1: {end} slots of {}", self.capacity);
        let last = end - 1;
        match self.marks {
            Marks::Checked => page[self.marks_at + last] &= !USED,
            Marks::Bare => page[self.marks_at + last / 8] &= !(1 << (last % 8)),
        }
    }

    pub(super) fn fill(&self, page: &mut [u8], slot: usize, entry: &[u8]) {
        debug_assert_eq!(entry.len(), self.entry_bytes, "O1: an entry of another size");
        assert!(is_blank(self.slot(page, slot)), "O6: slot {slot} is not blank");
        let at = self.slots_at + slot * self.slot_bytes;
        page[at..at + entry.len()].copy_from_slice(entry);
        if self.marks == Marks::Checked {
            page[at + entry.len()] = check(entry);
        }
    }

    #[inline]
    fn slot<'a>(&self, page: &'a [u8], slot: usize) -> &'a [u8] {
        debug_assert!(slot < self.capacity, "O1: slot {slot} of {}", self.capacity);
        let at = self.slots_at + slot * self.slot_bytes;
        &page[at..at + self.slot_bytes]
    }

    /// Whether a later live slot has the key of this one.
    pub(super) fn is_superseded(&self, bytes: &[u8], slot: usize, used: usize) -> bool {
        let key = self.key(bytes, slot);
        let is_later = |later| self.state(bytes, later) == SlotState::Live && self.key(bytes, later) == key;
        self.is_live(bytes, slot) && (slot + 1..used).any(is_later)
    }

    /// Whether the check of a slot holds.
    fn is_sound(&self, page: &[u8], slot: usize) -> bool {
        let (entry, given) = self.slot(page, slot).split_at(self.entry_bytes);
        self.marks == Marks::Bare || given[0] == check(entry)
    }

    /// How far the used mark of a slot is cleared, if at all.
    #[inline]
    fn used_mark(&self, page: &[u8], slot: usize) -> Option<SlotState> {
        if self.marks == Marks::Bare {
            let is_clear = page[self.marks_at + slot / 8] & (1 << (slot % 8)) == 0;
            return is_clear.then_some(SlotState::Live);
        }
        match cleared(page[self.marks_at + slot], USED) {
            0 | 1 => None,
            2 => Some(SlotState::Halfway),
            _ => Some(SlotState::Live),
        }
    }

    /// Checks a page whose first contents are sound, and finds the end of its slots in use.
    pub(super) fn frontier(&self, page: &[u8], at: u64) -> Result<Frontier, IndexFault> {
        let born = born(page);
        if born > self.capacity {
            return Err(IndexError::broken(Invariant::O1, "a page born with more than it holds", at).into());
        }
        let marked = (0..self.capacity).rev().find_map(|slot| Some((slot, self.used_mark(page, slot)?)));
        let (end, mark) = marked.map_or((0, SlotState::Live), |(slot, mark)| (slot + 1, mark));
        let used = end.max(born);
        if (0..used).any(|slot| self.state(page, slot) != SlotState::Dead && !self.is_sound(page, slot)) {
            return Err(IndexError::broken(Invariant::O1, "the check of a slot does not hold", at).into());
        }
        let rest = &page[self.slots_at..][..self.capacity * self.slot_bytes][used * self.slot_bytes..];
        let soiled = used + soiled_bytes(rest).div_ceil(self.slot_bytes);
        let is_halfway =
            mark == SlotState::Halfway || (0..used).any(|slot| self.state(page, slot) == SlotState::Halfway);
        debug_assert!(used <= soiled && soiled <= self.capacity, "O1: {used} slots used, {soiled} soiled");
        Ok(Frontier { used, soiled, is_halfway })
    }

    /// Completes in RAM a torn overwrite: torn slots become dead, half marks become marks. Returns the slots
    /// in use then.
    pub(super) fn complete(&self, page: &mut [u8], frontier: Frontier) -> usize {
        debug_assert!(frontier.soiled <= self.capacity, "O1: {} slots of {}", frontier.soiled, self.capacity);
        (frontier.used..frontier.soiled).for_each(|slot| self.mark_dead(page, slot));
        if frontier.soiled > 0 {
            self.mark_used(page, frontier.soiled);
        }
        for slot in 0..frontier.soiled {
            if self.state(page, slot) == SlotState::Halfway {
                self.mark_dead(page, slot);
            }
        }
        frontier.soiled
    }

    /// Builds a new page of these entries, given one after the other.
    pub(super) fn birth(&self, page: &mut [u8], (sequence, level): (u32, u8), is_root: bool, entries: &[u8]) {
        debug_assert!(entries.len().is_multiple_of(self.entry_bytes), "O1: an entry is cut short");
        page.fill(0xff);
        let born = entries.len() / self.entry_bytes.max(1);
        assert!(born <= self.capacity, "{born} entries in a page of {}", self.capacity);
        put_u32(page, 0, MAGIC);
        put_u32(page, 4, sequence);
        page[LEVEL_AT] = level | if is_root { ROOT } else { 0 };
        put_u16(page, BORN_AT, born as u16);
        for (slot, entry) in entries.chunks_exact(self.entry_bytes).enumerate() {
            self.fill(page, slot, entry);
            self.mark_used(page, slot + 1);
        }
    }

    /// Adds the checksum to a new page, which may then be programmed at this page number only.
    pub(super) fn seal(&self, page: &mut [u8], ppn: u32) {
        let crc = self.birth_crc(page, ppn, born(page));
        put_u32(page, CRC_AT, crc);
    }

    fn birth_crc(&self, page: &[u8], ppn: u32, born: usize) -> u32 {
        let slots = &page[self.slots_at..self.slots_at + born * self.slot_bytes];
        crc32(&[&ppn.to_le_bytes(), &page[..RETIRED_AT], &page[BORN_AT..CRC_AT], slots])
    }

    /// Whether the page was born whole, at this place, and with this shape.
    pub(super) fn is_born(&self, page: &[u8], ppn: u32) -> bool {
        let born = born(page);
        has_magic(page) && born <= self.capacity && self.birth_crc(page, ppn, born) == get_u32(page, CRC_AT)
    }

    /// The live entries of a page in key order, one after the other; of equal keys the latest.
    pub(super) fn sorted(&self, page: &[u8], used: usize, but: &[usize]) -> Vec<u8> {
        let mut order: Vec<usize> =
            (0..used).filter(|&slot| !but.contains(&slot) && self.is_live(page, slot)).collect();
        sort::by(&mut order, |&a, &b| self.key(page, a).cmp(self.key(page, b)));
        let mut entries = Vec::with_capacity((order.len() + 2) * self.entry_bytes);
        for (i, &slot) in order.iter().enumerate() {
            let is_last = order.get(i + 1).is_none_or(|&next| self.key(page, next) != self.key(page, slot));
            if is_last {
                entries.extend_from_slice(self.entry(page, slot));
            }
        }
        debug_assert!(self.ascends(&entries), "O3: entries are not in order");
        entries
    }

    /// Whether entries are in the strict order of their keys.
    fn ascends(&self, entries: &[u8]) -> bool {
        entries
            .chunks_exact(self.entry_bytes)
            .is_sorted_by(|a: &&[u8], b: &&[u8]| a[..self.key_bytes] < b[..self.key_bytes])
    }

    /// Inserts an entry among sorted ones, or replaces that of the same key.
    pub(super) fn enter(&self, entries: &mut Vec<u8>, entry: &[u8]) {
        debug_assert_eq!(entry.len(), self.entry_bytes, "O1: an entry of another size");
        let key = &entry[..self.key_bytes];
        let at = entries.chunks_exact(self.entry_bytes).position(|e| &e[..self.key_bytes] >= key);
        let at = at.map_or(entries.len(), |i| i * self.entry_bytes);
        let same = entries.get(at..at + self.key_bytes).is_some_and(|there| there == key);
        let end = if same { at + self.entry_bytes } else { at };
        entries.splice(at..end, entry.iter().copied());
        debug_assert!(self.ascends(entries), "O3: entries are not in order");
    }
}

pub(super) fn has_magic(page: &[u8]) -> bool {
    get_u32(page, 0) == MAGIC
}

pub(super) fn sequence(page: &[u8]) -> u32 {
    get_u32(page, 4)
}

pub(super) fn level(page: &[u8]) -> u8 {
    page[LEVEL_AT] & !ROOT
}

/// Slots filled at birth.
pub(super) fn born(page: &[u8]) -> usize {
    usize::from(get_u16(page, BORN_AT))
}

pub(super) fn is_root(page: &[u8]) -> bool {
    page[LEVEL_AT] & ROOT != 0
}

/// True if another root has replaced this one; a single flipped bit does not count.
pub(super) fn is_retired(page: &[u8]) -> bool {
    page[RETIRED_AT].count_zeros() >= 2
}

pub(super) fn retire(page: &mut [u8]) {
    page[RETIRED_AT] = 0;
}

/// Refuses a page that is not the one which the slot of its parent was filled for: it is younger than the
/// parent exactly if the slot was filled after the parent's birth.
pub(super) fn require_child(parent: &[u8], slot: usize, child: &[u8], ppn: u32) -> Result<(), IndexFault> {
    let is_younger = sequence(child) > sequence(parent);
    if is_younger == (slot >= born(parent)) {
        return Ok(());
    }
    Err(IndexError::broken(Invariant::O8, "another version of the page that its parent names", ppn.into())
        .into())
}

/// Version of settings that name the chip of the tree.
const VERSION: u8 = 3;
/// Version of the settings before they said on which chip the tree stands.
const VERSION_BEFORE: u8 = 2;

/// The shape of the page that holds the settings: three slots.
pub(super) fn settings_shape(page_bytes: usize) -> Shape {
    Shape { capacity: 3, ..Shape::new(page_bytes, 3, 1, Marks::Checked) }
}

/// Settings of the formatted tree, encoded as the entries of the settings page.
pub(super) fn settings(record: RecordFormat, marks: Marks, geometry: Geometry) -> [u8; 12] {
    let mut entries = [0; 12];
    entries[..4].copy_from_slice(&[
        record.key_bytes,
        record.value_bytes,
        u8::from(marks == Marks::Bare),
        VERSION,
    ]);
    put_u32(&mut entries, 4, geometry.pages_per_block);
    put_u32(&mut entries, 8, geometry.blocks);
    entries
}

/// Refuses settings of another tree. The settings of [`VERSION_BEFORE`] are a single entry.
pub(super) fn require_settings(found: &[u8], wanted: &[u8; 12]) -> Result<(), Unfit> {
    let version = found[3];
    if version > VERSION {
        return Err(Unfit::Newer { version: version.into() });
    }
    let differs = if found[..2] != wanted[..2] {
        Differs::Record
    } else if found[2] != wanted[2] {
        Differs::Settings
    } else if version != VERSION_BEFORE && found[4..] != wanted[4..] {
        Differs::Geometry
    } else {
        return Ok(());
    };
    Err(Unfit::other(differs, words("a VMTree-OW with other records, another option slots or another chip")))
}

/// CRC-8 of an entry, polynomial x^8 + x^2 + x + 1, such that blank bytes do not pass: every one or two wrong
/// bits of up to 15 bytes are noticed, and every odd number of them in any.
fn check(entry: &[u8]) -> u8 {
    // Linear: the exclusive or with the same of a blank entry makes that 0, whose check would have to be 0 as
    // well.
    entry.iter().fold(0, |crc, &byte| CRC_8[usize::from(crc ^ byte ^ 0xff)])
}

/// The table of [`check`]: the remainder of each byte by its polynomial.
const CRC_8: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u8, 0);
        while bit < 8 {
            crc = if crc & 0x80 != 0 { (crc << 1) ^ 0x07 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Bytes up to the last one that is not blank.
fn soiled_bytes(bytes: &[u8]) -> usize {
    const CHUNK: usize = 64;
    let blank = bytes.rchunks_exact(CHUNK).take_while(|chunk| **chunk == [0xff; CHUNK]).count() * CHUNK;
    bytes[..bytes.len() - blank].iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last + 1)
}
