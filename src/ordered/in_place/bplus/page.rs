//! The bytes of the B+-tree's pages, and the edits of nodes as pure functions on them.
//!
//! Integers are little-endian, keys are byte strings. Page 0 is the superblock, written when the tree is
//! formatted (and, in the durability class *none*, when its clean mark changes):
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's own number, 0
//!        8..16  the characters "NXBPLUS1"
//!       16..20  bytes of a page
//!       20..24  pages of the store when it was formatted
//!       24..28  entries of a leaf at most
//!       28..32  entries of an internal node at most
//!       32      bytes of a key          33   bytes of a value
//!       34      1 = clean: every change before the last sync is here; 0 = changes are under way
//!       35      what a full leaf does: 0 splits, 1 stays whole if contiguous, 2 stays whole if ascending
//!       36      what an empty node does: 0 merges when half empty, 1 is expelled when empty
//!       37..41  what stands above, where the records name the leaves of another tree: its letters and two numbers; else 0
//!       41..    0
//! ```
//!
//! Page 1 is the root, whatever its level; every other page in use is a node too:
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's own number
//!        8      level: 1 for a leaf, one more than its children for an internal node
//!        9      0xB1, the mark of a node
//!       10..12  entries in use
//!       12..    the node as laid out by NodeShape: keys, then values (leaf) or page numbers of children (internal);
//!               what lies beyond the entries in use is unspecified
//! ```

use super::rules::{Overflow, Underflow};
use super::{Above, BPlusConfig};
use crate::check::{IndexError, Invariant, message, words};
use crate::codec::{crc32, get_u16, get_u32, put_u16, put_u32};
use crate::fault::IndexFault;
use crate::nand::{Differs, Unfit};
use crate::ordered::RecordFormat;
use crate::ordered::node::NodeShape;
use crate::units::Lpn;
use alloc::boxed::Box;
use alloc::vec;

pub(crate) const SUPERBLOCK: Lpn = Lpn(0);
pub(crate) const ROOT: Lpn = Lpn(1);

const MAGIC: &[u8; 8] = b"NXBPLUS1";
const SUPERBLOCK_BYTES: usize = 41;
const NODE_MARK: u8 = 0xB1;
/// Smallest capacity of an internal node in a tree with the least RAM.
pub(crate) const LEAST_CAPACITY: usize = 8;
/// Bytes of a page before its entries.
pub const HEADER_BYTES: usize = 12;
/// Bytes of the page number of a child.
pub const CHILD_BYTES: usize = 4;

/// Upper bound of the height: no store has more than 2^32 pages, and no internal node fewer than two
/// children.
pub(crate) const HEIGHT_MAX: usize = 32;

/// Layout of the pages of one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(crate) record: RecordFormat,
    pub(crate) page_bytes: usize,
    pub(crate) page_count: u32,
    /// Layout of the entries in a leaf.
    pub leaf: NodeShape,
    /// Layout of the entries in an internal node.
    pub internal: NodeShape,
    /// Rule for a full node.
    pub(crate) overflow: Overflow,
    /// Rule for a node that lost an entry.
    pub(crate) underflow: Underflow,
    /// The index above, if the records name its leaves.
    pub(crate) above: Above,
}

impl Layout {
    /// Layout on pages of this size. Refused if a node would hold too little.
    pub fn new(config: &BPlusConfig, page_bytes: usize, pages: u32) -> Result<Layout, IndexFault> {
        let area = page_bytes.saturating_sub(HEADER_BYTES);
        let (key, value) = (usize::from(config.record.key_bytes), usize::from(config.record.value_bytes));
        let shape = |name: &str, value: usize, wanted: Option<usize>, least: usize| {
            let mut shape = NodeShape::fitting(area, key, value);
            shape.capacity = shape.capacity.min(usize::from(u16::MAX));
            let possible = shape.capacity;
            shape.capacity = wanted.unwrap_or(possible);
            if shape.capacity < least || shape.capacity > possible {
                return Err(IndexError::unsupported(message!(
                    "{name} of {} entries on pages of {page_bytes} bytes: {least} to {possible} entries of {} bytes \
                     are possible",
                    shape.capacity,
                    key + value,
                )));
            }
            Ok(shape)
        };
        let leaf = shape("a leaf", value, config.leaf_capacity, 2)?;
        let internal = shape("an internal node", CHILD_BYTES, config.internal_capacity, 3)?;
        if page_bytes < SUPERBLOCK_BYTES || pages < 2 {
            return Err(IndexError::unsupported(message!(
                "{pages} pages of {page_bytes} bytes: a B+-tree needs 2 pages of {SUPERBLOCK_BYTES} bytes at least"
            )).into());
        }
        if config.overflow != Overflow::Split && config.underflow == Underflow::Merge {
            return Err(IndexError::Unsupported(
                words("full leaves that stay whole leave others less than half full: nodes must be expelled, not merged").into()).into());
        }
        debug_assert!(
            leaf.bytes().max(internal.bytes()) + HEADER_BYTES <= page_bytes,
            "B4: a node is larger than its page"
        );
        Ok(Layout {
            record: config.record,
            page_bytes,
            page_count: pages,
            leaf,
            internal,
            overflow: config.overflow,
            underflow: config.underflow,
            above: config.above,
        })
    }

    /// Layout of the entries in nodes of a level.
    pub(crate) fn shape(&self, level: usize) -> NodeShape {
        debug_assert!(level > 0, "B5: leaves have level 1");
        if level == 1 { self.leaf } else { self.internal }
    }

    /// Smallest number of entries in a node of this level, unless it is the root.
    pub(crate) fn fill_min(&self, level: usize) -> usize {
        match self.underflow {
            // A node that was split before it had one entry too many leaves, if their number is odd, one part
            // with an entry less than half.
            Underflow::Merge if level > 1 && self.internal.capacity >= LEAST_CAPACITY => {
                self.internal.capacity / 2
            }
            Underflow::Merge => self.half(level),
            Underflow::ExpelLeaves if level > 1 => self.half(level),
            Underflow::Expel | Underflow::ExpelLeaves => 1,
        }
    }

    /// Number of entries in a node of this level that is half full.
    pub(crate) fn half(&self, level: usize) -> usize {
        self.shape(level).capacity.div_ceil(2)
    }

    /// Height of the highest tree that fits the store: a root of two children, every other node half full. If
    /// nodes may shrink, a tree may be one level higher.
    pub(crate) fn height_max(&self) -> usize {
        let nodes_max = u64::from(self.page_count) - 1;
        let half = self.half(2) as u64;
        let (mut height, mut bottom, mut nodes) = (1, 1, 1);
        loop {
            bottom = if height == 1 { 2 } else { bottom * half };
            nodes += bottom;
            if nodes > nodes_max {
                debug_assert!(height <= HEIGHT_MAX, "B5: a height of {height}");
                return height + usize::from(self.underflow == Underflow::Expel);
            }
            height += 1;
        }
    }

    /// Most records in a tree of full nodes on all pages. The height of the tree never ends first.
    pub(crate) fn records_max(&self) -> u64 {
        let nodes = u64::from(self.page_count) - 1;
        let parents = if nodes > 1 { nodes.div_ceil(self.internal.capacity as u64 + 1) } else { 0 };
        (nodes - parents) * self.leaf.capacity as u64
    }

    /// Largest number of pages that one operation writes: a split of every node of the path but the root. The
    /// root is either split too (and the tree is then lower than it can be), or only takes the new entry.
    pub(crate) fn group_pages_max(&self) -> usize {
        2 * self.height_max() - 1
    }

    pub(crate) fn frame(&self) -> Frame {
        Frame { bytes: vec![0; self.page_bytes].into_boxed_slice(), slot: 0, is_dirty: false }
    }

    pub(crate) fn put_superblock(&self, is_clean: bool, page: &mut [u8]) {
        debug_assert_eq!(page.len(), self.page_bytes, "B7: a superblock of another size");
        page.fill(0);
        put_u32(page, 4, SUPERBLOCK.0);
        page[8..16].copy_from_slice(MAGIC);
        put_u32(page, 16, self.page_bytes as u32);
        put_u32(page, 20, self.page_count);
        put_u32(page, 24, self.leaf.capacity as u32);
        put_u32(page, 28, self.internal.capacity as u32);
        page[32] = self.record.key_bytes;
        page[33] = self.record.value_bytes;
        page[34] = u8::from(is_clean);
        page[35] = self.overflow as u8;
        page[36] = self.underflow as u8;
        page[37..41].copy_from_slice(&self.above);
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
    }

    /// Reads the superblock. Returns the layout, and whether it is marked clean.
    pub(crate) fn of_superblock(page: &[u8], page_count: u32) -> Result<(Layout, bool), IndexFault> {
        let what = words("page 0 is no superblock of a B+-tree");
        if page.len() < SUPERBLOCK_BYTES {
            return Err(IndexError::other(Differs::Kind, what).into());
        }
        if page[8..16] != *MAGIC {
            return Err(IndexError::NotFormatted(Unfit::named(&page[8..16], MAGIC, what)).into());
        }
        if get_u32(page, 0) != crc32(&[&page[4..]]) || get_u32(page, 4) != SUPERBLOCK.0 || page[32] == 0 {
            return Err(corrupted(Invariant::B7, "the superblock's checksum is wrong", SUPERBLOCK));
        }
        if get_u32(page, 16) as usize != page.len() || get_u32(page, 20) > page_count {
            return Err(IndexError::other(
                Differs::Geometry,
                words("the tree was formatted on other or more pages"),
            )
            .into());
        }
        let (Some(overflow), Some(underflow)) =
            (Overflow::from_byte(page[35]), Underflow::from_byte(page[36]))
        else {
            return Err(corrupted(Invariant::B7, "the superblock names unknown rules", SUPERBLOCK));
        };
        let config = BPlusConfig {
            overflow,
            underflow,
            above: [page[37], page[38], page[39], page[40]],
            leaf_capacity: Some(get_u32(page, 24) as usize),
            internal_capacity: Some(get_u32(page, 28) as usize),
            ..BPlusConfig::new(RecordFormat::new(page[32], page[33]))
        };
        let layout = Layout::new(&config, page.len(), get_u32(page, 20)).map_err(|_| {
            corrupted(Invariant::B7, "the superblock's capacities are impossible", SUPERBLOCK)
        })?;
        Ok((layout, page[34] == 1))
    }

    /// Checks that a page is the node of this number and level. `None` stands for a root of unknown level.
    pub(crate) fn verify(&self, frame: &Frame, lpn: Lpn, level: Option<usize>) -> Result<(), IndexFault> {
        let bytes = &frame.bytes;
        if get_u32(bytes, 0) != crc32(&[&bytes[4..]]) {
            return Err(corrupted(Invariant::B1, "the checksum of the node is wrong", lpn));
        }
        if frame.lpn() != lpn || bytes[9] != NODE_MARK {
            return Err(corrupted(Invariant::B1, "another page stands in the node's place", lpn));
        }
        let found = frame.level();
        let is_right = match level {
            Some(level) => level == found,
            None => (1..=self.height_max()).contains(&found),
        };
        if !is_right {
            return Err(corrupted(Invariant::B5, "the node has another level than its parent says", lpn));
        }
        let least = match (lpn, found) {
            (ROOT, 1) => 0,
            (ROOT, _) => 2,
            _ => self.fill_min(found),
        };
        if (least..=self.shape(found).capacity).contains(&frame.count()) {
            Ok(())
        } else {
            Err(corrupted(Invariant::B4, "the node holds too few or too many entries", lpn))
        }
    }

    /// Page of child `slot` of an internal node.
    pub(crate) fn child(&self, frame: &Frame, slot: usize) -> Result<Lpn, IndexFault> {
        debug_assert!(frame.level() > 1, "B5: a leaf has no children");
        debug_assert!(slot < frame.count(), "B4: child {slot} of {}", frame.count());
        let lpn = get_u32(self.internal.value(frame.area(), slot), 0);
        if lpn > ROOT.0 && lpn < self.page_count {
            Ok(Lpn(lpn))
        } else {
            Err(corrupted(Invariant::B6, "the page of a child cannot be one", frame.lpn()))
        }
    }
}

/// Tells whether a superblock is marked clean. `None` if the page is no sound superblock.
pub fn is_marked_clean(page: &[u8]) -> Option<bool> {
    Layout::of_superblock(page, u32::MAX).ok().map(|(_, is_clean)| is_clean)
}

/// Level of a node and number of its entries, read from its page. `None` if the page has no mark of a node.
#[inline]
pub fn level_and_entries(page: &[u8]) -> Option<(u8, u16)> {
    (page.get(9) == Some(&NODE_MARK)).then(|| (page[8], get_u16(page, 10)))
}

/// Writes the head of a node without entries into a page of zeros. The checksum is left out.
pub fn put_head(page: &mut [u8], lpn: Lpn, level: u8) {
    put_u32(page, 4, lpn.0);
    (page[8], page[9]) = (level, NODE_MARK);
}

pub(crate) fn corrupted(invariant: Invariant, what: &'static str, at: Lpn) -> IndexFault {
    IndexFault::broken(invariant, what, at.0)
}

/// Page in RAM that holds a node.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Bytes of the page; empty while lent.
    pub bytes: Box<[u8]>,
    /// Entry taken by the current walk.
    pub slot: usize,
    /// True if the current operation changed the node.
    pub is_dirty: bool,
}

impl Frame {
    /// Makes the frame an empty node.
    pub(crate) fn reset(&mut self, lpn: Lpn, level: usize) {
        debug_assert!((1..=HEIGHT_MAX).contains(&level), "B5: a node at level {level}");
        self.bytes.fill(0);
        put_head(&mut self.bytes, lpn, level as u8);
        self.is_dirty = true;
    }

    /// True if another frame has this frame's page of RAM for a while.
    pub(crate) fn is_lent(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Number of the node's page, as the page tells it.
    pub(crate) fn lpn(&self) -> Lpn {
        Lpn(get_u32(&self.bytes, 4))
    }

    pub(crate) fn set_lpn(&mut self, lpn: Lpn) {
        put_u32(&mut self.bytes, 4, lpn.0);
    }

    /// Level of the node; leaves have level 1.
    pub(crate) fn level(&self) -> usize {
        usize::from(self.bytes[8])
    }

    /// Number of entries in the node.
    pub fn count(&self) -> usize {
        usize::from(get_u16(&self.bytes, 10))
    }

    pub(crate) fn set_count(&mut self, count: usize) {
        debug_assert!(count <= usize::from(u16::MAX), "B4: {count} entries do not fit the header");
        put_u16(&mut self.bytes, 10, count as u16);
        self.is_dirty = true;
    }

    pub(crate) fn area(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// Bytes of the entries, for changes.
    pub fn area_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[HEADER_BYTES..]
    }

    /// Writes the checksum of the finished page.
    pub fn seal(&mut self) {
        let crc = crc32(&[&self.bytes[4..]]);
        put_u32(&mut self.bytes, 0, crc);
    }

    /// Copies level and entries of another node, and keeps its own number.
    pub(crate) fn copy_node(&mut self, source: &Frame) {
        self.bytes[8..].copy_from_slice(&source.bytes[8..]);
        self.is_dirty = true;
    }

    /// Inserts an entry at place `at` of a node that is not full.
    pub fn insert(&mut self, shape: &NodeShape, at: usize, entry: (&[u8], &[u8])) {
        let count = self.count();
        debug_assert!(count < shape.capacity, "B4: a full node takes one entry more");
        shape.insert(self.area_mut(), count, at, entry);
        self.set_count(count + 1);
    }

    /// Removes the entry at place `at`.
    pub(crate) fn remove(&mut self, shape: &NodeShape, at: usize) {
        let count = self.count();
        debug_assert!(at < count, "B4: entry {at} of {count} is taken out");
        shape.remove(self.area_mut(), count, at);
        self.set_count(count - 1);
    }
}

/// Moves the first `count` entries of `right` to the end of `left`.
pub(crate) fn move_left(shape: &NodeShape, left: &mut Frame, right: &mut Frame, count: usize) {
    let (to, have) = (left.count(), right.count());
    debug_assert!(
        left.level() == right.level() && count <= have,
        "B5: {count} of {have} entries to another level"
    );
    shape.copy_entries((right.area(), 0), count, (shape, left.area_mut(), to));
    shape.remove_first(right.area_mut(), have, count);
    left.set_count(to + count);
    right.set_count(have - count);
    debug_assert!(left.count() <= shape.capacity, "B4: an overfull left node");
}

/// Moves the last `count` entries of `left` to the front of `right`.
pub(crate) fn move_right(shape: &NodeShape, left: &mut Frame, right: &mut Frame, count: usize) {
    debug_assert!(
        left.level() == right.level() && count <= left.count(),
        "B5: {count} entries to another level"
    );
    let (from, have) = (left.count() - count, right.count());
    shape.open_first(right.area_mut(), have, count);
    shape.copy_entries((left.area(), from), count, (shape, right.area_mut(), 0));
    left.set_count(from);
    right.set_count(have + count);
    debug_assert!(right.count() <= shape.capacity, "B4: an overfull right node");
}

/// Shares out the entries of two neighbours evenly; of an odd number the left one has one more.
pub(crate) fn even_out(shape: &NodeShape, left: &mut Frame, right: &mut Frame) {
    let share = (left.count() + right.count()).div_ceil(2);
    share_out(shape, left, right, share);
}

/// Shares out the entries of two neighbours: `share` to the left one, the others to the right one.
pub(crate) fn share_out(shape: &NodeShape, left: &mut Frame, right: &mut Frame, share: usize) {
    if left.count() < share {
        move_left(shape, left, right, share - left.count());
    } else {
        move_right(shape, left, right, left.count() - share);
    }
    debug_assert!(left.count().abs_diff(right.count()) <= 1, "B4: not shared out evenly");
}

/// Splits a full node that is to take one more entry at place `at`. The upper half goes to the empty `right`.
pub(crate) fn split(
    shape: &NodeShape,
    left: &mut Frame,
    right: &mut Frame,
    at: usize,
    entry: (&[u8], &[u8]),
) {
    debug_assert!(at <= left.count() && right.count() == 0, "B4: a split at {at} of {}", left.count());
    let (full, share) = (left.count(), (left.count() + 1).div_ceil(2));
    if at < share {
        move_right(shape, left, right, full + 1 - share);
        left.insert(shape, at, entry);
    } else {
        move_right(shape, left, right, full - share);
        right.insert(shape, at - share, entry);
    }
    debug_assert!(left.count() == share && right.count() == full + 1 - share, "B4: the halves are not even");
}
