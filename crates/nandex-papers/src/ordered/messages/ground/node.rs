//! Nodes of one or several pages, and how they are split and written.
//!
//! A node is a unit of pages, of which only those in use are written. An inner node has children and may have
//! records that wait for them; a leaf has records only. The bytes of its first page:
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's own number
//!        8      level: 1 for a leaf             9      0xB5, the mark of a node
//!       10..12  children                       12..14  records
//!       14..16  0
//!       16..    first keys of the records in pages 1, 2, ... of the unit, as many as it has; unused ones 0
//!       ...     children: a lower bound of the keys below (that of child 0 is not relied upon), unit (4)
//!       ...     records
//! ```
//!
//! Each further page: CRC-32 (4), own number (4), 0xB6, place in the unit, records in it (2), records.

use super::children::{CHILD_BYTES, Children};
use super::record::{PUT, REMOVE, Records, Run, Shape};
use super::shadow::{NONE, Shadow, corrupted};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use nandex::check::{IndexError, Invariant, message};
use nandex::codec::{get_u16, put_u16};
use nandex::nand::Cause;
use nandex::ordered::Room;

const HEAD_BYTES: usize = 16;
const MORE_HEAD_BYTES: usize = 12;
const NODE_MARK: u8 = 0xB5;
const MORE_MARK: u8 = 0xB6;

#[derive(Clone, Debug)]
pub(in crate::ordered) struct Node {
    pub(in crate::ordered) level: u8,
    pub(in crate::ordered) children: Children,
    pub(in crate::ordered) records: Run,
}

impl Node {
    pub(in crate::ordered) const fn leaf(shape: Shape) -> Node {
        Node { level: 1, children: Children::new(shape.key), records: Run::new(shape) }
    }

    /// Replaces a child by the nodes written for it. A child with no records left is removed, unless it is
    /// the only one.
    pub(in crate::ordered) fn replace(
        &mut self,
        slot: usize,
        written: &Written,
        shadow: &mut Shadow<'_>,
        tally: &mut Tally,
    ) {
        debug_assert!(
            self.level > 1 && slot < self.children.len(),
            "child {slot} of {}",
            self.children.len()
        );
        if !written.is_vacant || self.children.len() == 1 {
            self.children.replace(slot, &written.children);
            return;
        }
        // A vacant child is a leaf, or inner nodes each with one child down to a leaf; those below the first
        // were counted and are released by who knows them.
        for unit in &written.vacant_units {
            shadow.units.release(*unit);
        }
        tally.leaves -= 1;
        tally.inner -= written.vacant_units.len() as i64 - 1;
        tally.expelled += written.vacant_units.len() as u64;
        self.children.replace(slot, &Children::new(self.children.key));
    }

    /// Index of the child with the most waiting records, and the range of these records.
    pub(in crate::ordered) fn heaviest(&self) -> (usize, Range<usize>) {
        debug_assert!(self.level > 1 && self.children.len() > 0, "a leaf sends nothing down");
        let mut best = (0, 0..0);
        for slot in 0..self.children.len() {
            let range = self.children.records_of(slot, self.records.all());
            if range.len() > best.1.len() {
                best = (slot, range);
            }
        }
        best
    }
}

/// The nodes that replace a node that was rewritten.
#[derive(Debug)]
pub(in crate::ordered) struct Written {
    pub(in crate::ordered) children: Children,
    /// Whether no record is left in the node's place.
    pub(in crate::ordered) is_vacant: bool,
    /// For a vacant place: its units from the top to the leaf.
    pub(in crate::ordered) vacant_units: Vec<u32>,
}

/// Number of nodes on the medium, and of records with a value that wait in inner nodes or buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::ordered) struct Tally {
    pub(in crate::ordered) leaves: i64,
    pub(in crate::ordered) inner: i64,
    pub(in crate::ordered) puts: i64,
    pub(in crate::ordered) leaf_writes: u64,
    pub(in crate::ordered) inner_writes: u64,
    pub(in crate::ordered) splits: u64,
    /// Nodes that became empty and left the tree.
    pub(in crate::ordered) expelled: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ordered) struct NodeAt {
    pub(in crate::ordered) unit: u32,
    pub(in crate::ordered) level: u8,
}

/// The layout of nodes in their units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ordered) struct Layout {
    pub(in crate::ordered) shape: Shape,
    page_bytes: usize,
    unit_pages: usize,
    /// Largest number of children of an inner node.
    pub(in crate::ordered) fanout: usize,
    /// Largest number of records that wait in an inner node.
    pub(in crate::ordered) inner_records: usize,
    /// Largest number of records in a leaf.
    pub(in crate::ordered) leaf_records: usize,
}

impl Layout {
    /// The layout of nodes of `unit_pages` pages, with up to `fanout` children in an inner node.
    pub(in crate::ordered) fn new(
        shape: Shape,
        page_bytes: usize,
        unit_pages: usize,
        fanout: Option<usize>,
    ) -> Result<Layout, IndexError> {
        let heads = HEAD_BYTES + (unit_pages - 1) * shape.key;
        let area = page_bytes.saturating_sub(heads);
        let possible = area / (shape.key + CHILD_BYTES);
        let fanout = fanout.unwrap_or(possible).min(possible).min(usize::from(u16::MAX));
        let mut layout = Layout { shape, page_bytes, unit_pages, fanout, inner_records: 0, leaf_records: 0 };
        layout.leaf_records = layout.capacity(0).min(usize::from(u16::MAX));
        layout.inner_records = layout.capacity(fanout).min(usize::from(u16::MAX));
        if fanout < 4 || layout.leaf_records < 4 {
            return Err(IndexError::unsupported(message!(
                "nodes of {unit_pages} pages of {page_bytes} bytes hold {fanout} children or {} records: 4 are the least",
                layout.leaf_records
            )));
        }
        debug_assert!(layout.start(fanout) <= page_bytes, "the children of a node exceed its first page");
        Ok(layout)
    }

    fn start(&self, children: usize) -> usize {
        HEAD_BYTES + (self.unit_pages - 1) * self.shape.key + children * (self.shape.key + CHILD_BYTES)
    }

    fn first_records(&self, children: usize) -> usize {
        self.page_bytes.saturating_sub(self.start(children)) / self.shape.bytes()
    }

    fn more_records(&self) -> usize {
        (self.page_bytes - MORE_HEAD_BYTES) / self.shape.bytes()
    }

    fn capacity(&self, children: usize) -> usize {
        self.first_records(children) + (self.unit_pages - 1) * self.more_records()
    }

    /// Range of a node's records in one page of its unit.
    fn records_in(&self, children: usize, records: usize, page: usize) -> Range<usize> {
        debug_assert!(page < self.unit_pages, "page {page} of a node of {}", self.unit_pages);
        let first = self.first_records(children);
        let (from, to) = match page {
            0 => (0, first),
            _ => (first + (page - 1) * self.more_records(), first + page * self.more_records()),
        };
        from.min(records)..to.min(records)
    }

    pub(in crate::ordered) const fn node_bytes(&self) -> usize {
        self.unit_pages * self.page_bytes
    }

    /// Largest number of levels of a tree of `units` units, in which every inner node but the root has half
    /// its children.
    pub(in crate::ordered) fn height_max(&self, units: u32) -> u32 {
        let (mut height, mut bottom) = (2, 2u64);
        while bottom < u64::from(units) {
            bottom *= (self.fanout as u64 / 2).max(2);
            height += 1;
        }
        height
    }

    /// True if the root may split, or get children if it is a leaf, while `puts` records reach the leaves.
    /// Each record makes at most one more child. If false, the root does not rise until they have arrived.
    pub(in crate::ordered) fn may_rise(&self, puts: i64, root: &Node) -> bool {
        root.level == 1 || root.children.len() as i64 + puts > self.fanout as i64
    }

    /// True if the root has room for all leaves that `puts` records reaching the leaves can make.
    pub(in crate::ordered) fn is_flat(&self, puts: i64, root: &Node) -> bool {
        root.level == 2 && !self.may_rise(puts, root)
    }

    /// Largest number of units by which the tree below a root grows while `puts` records reach its leaves.
    pub(in crate::ordered) fn growth(&self, tally: &Tally, puts: i64, root: &Node) -> u32 {
        if puts <= 0 {
            return 0;
        }
        // A leaf that is full splits for one record; what comes of it is less than 0.6 full.
        let split = tally.leaves * 3 / 2 + 5 * puts / self.leaf_records as i64 + 3;
        let (leaves, height) = (puts.min(split), i64::from(root.level));
        let inner = match self.is_flat(puts, root) {
            true => 0,
            false => (leaves * height).min(tally.inner + leaves / 2 + height + 1),
        };
        u32::try_from(leaves + inner).unwrap_or(u32::MAX)
    }

    /// Records with random keys for which so many units become leaves and the nodes above them. Those that
    /// wait to be entered are among them.
    pub(in crate::ordered) fn records_on(&self, units: u64, tally: &Tally) -> u64 {
        let leaves = units.saturating_sub(units / (self.fanout as u64 / 2).max(2) + 1);
        let (used, half) = (tally.leaves.max(0) as u64, self.leaf_records as u64 / 2);
        Room::records_of(leaves, used, half).saturating_sub(tally.puts.max(0) as u64)
    }

    pub(in crate::ordered) const fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Makes a node of this level from encoded children and records. `None` if there can be no such node.
    pub(in crate::ordered) fn node_of(
        &self,
        level: u8,
        (children, records): (usize, usize),
        bytes: &[u8],
    ) -> Option<Node> {
        let head = children * (self.shape.key + CHILD_BYTES);
        let fits = match level {
            0 => false,
            1 => children == 0 && records <= self.leaf_records,
            _ => (1..=self.fanout).contains(&children) && records <= self.inner_records,
        };
        if !fits || bytes.len() != head + records * self.shape.bytes() {
            return None;
        }
        let mut node = Node { level, ..Node::leaf(self.shape) };
        node.children.bytes.extend_from_slice(&bytes[..head]);
        node.records.bytes.extend_from_slice(&bytes[head..]);
        let kinds: &[u8] = if level == 1 { &[PUT] } else { &[PUT, REMOVE] };
        let ascend = (2..children).all(|i| node.children.key(i - 1) < node.children.key(i));
        (ascend && node.records.all().are_sorted_of(kinds)).then_some(node)
    }

    /// Reads the first page of a node and checks its head. Returns the numbers of children and records.
    fn read_first(
        &self,
        shadow: &mut Shadow<'_>,
        NodeAt { unit, level }: NodeAt,
        cause: Cause,
        page: &mut [u8],
    ) -> Result<(usize, usize), IndexError> {
        if unit >= shadow.units.count() {
            return Err(corrupted(Invariant::S3, "a node lies beyond the store", nandex::units::Lpn(unit)));
        }
        let lpn = shadow.lpn(unit, 0);
        shadow.read(lpn, cause, page)?;
        let (children, records) = (get_u16(page, 10).into(), get_u16(page, 12).into());
        let fits = if level == 1 {
            children == 0 && records <= self.leaf_records
        } else {
            (1..=self.fanout).contains(&children) && records <= self.inner_records
        };
        if page[8] != level || page[9] != NODE_MARK || !fits {
            return Err(corrupted(Invariant::S2, "the page is no such node", lpn));
        }
        Ok((children, records))
    }

    fn read_more(
        &self,
        shadow: &mut Shadow<'_>,
        (unit, place): (u32, usize),
        (cause, count): (Cause, usize),
        page: &mut [u8],
    ) -> Result<(), IndexError> {
        let lpn = shadow.lpn(unit, place as u32);
        shadow.read(lpn, cause, page)?;
        if page[8] != MORE_MARK || usize::from(page[9]) != place || usize::from(get_u16(page, 10)) != count {
            return Err(corrupted(Invariant::S2, "the page does not belong to its node", lpn));
        }
        Ok(())
    }

    pub(in crate::ordered) fn read(
        &self,
        shadow: &mut Shadow<'_>,
        unit: u32,
        level: u8,
        cause: Cause,
    ) -> Result<Node, IndexError> {
        let mut page = vec![0; self.page_bytes];
        let (children, records) = self.read_first(shadow, NodeAt { unit, level }, cause, &mut page)?;
        let (start, width) = (self.start(children), self.shape.bytes());
        let head = children * (self.shape.key + CHILD_BYTES);
        let mut bytes = Vec::with_capacity(head + records * width);
        bytes.extend_from_slice(&page[start - head..start]);
        for place in 0..self.unit_pages {
            let count = self.records_in(children, records, place).len();
            let area = match place {
                0 => start,
                _ if count == 0 => break,
                _ => {
                    self.read_more(shadow, (unit, place), (cause, count), &mut page)?;
                    MORE_HEAD_BYTES
                }
            };
            bytes.extend_from_slice(&page[area..area + count * width]);
        }
        let node = self.node_of(level, (children, records), &bytes);
        node.ok_or(corrupted(
            Invariant::T1,
            "keys do not ascend, or a leaf has a tombstone",
            shadow.lpn(unit, 0),
        ))
    }

    /// Number of records for which the leaf of a key has room.
    pub(in crate::ordered) fn room_in_leaf(
        &self,
        shadow: &mut Shadow<'_>,
        root: &Node,
        key: &[u8],
    ) -> Result<i64, IndexError> {
        let mut below = None;
        loop {
            let node = below.as_ref().unwrap_or(root);
            if node.level == 1 {
                return Ok(self.leaf_records as i64 - node.records.len() as i64);
            }
            let (unit, level) = (node.children.unit(node.children.slot(key)), node.level - 1);
            below = Some(self.read(shadow, unit, level, Cause::Host)?);
        }
    }

    /// Copies a key's value in a node to `value`, if it has one. Also returns the child to continue with,
    /// unless the node is a leaf.
    pub(in crate::ordered) fn find(
        &self,
        shadow: &mut Shadow<'_>,
        NodeAt { unit, level }: NodeAt,
        key: &[u8],
        value: &mut [u8],
    ) -> Result<(Option<u8>, u32), IndexError> {
        let mut page = vec![0; self.page_bytes];
        let (children, records) = self.read_first(shadow, NodeAt { unit, level }, Cause::Host, &mut page)?;
        let start = self.start(children);
        let mut child = NONE;
        if children > 0 {
            let bytes = children * (self.shape.key + CHILD_BYTES);
            let all = Children { key: self.shape.key, bytes: page[start - bytes..start].to_vec() };
            child = all.unit(all.slot(key));
        }
        let pages = (1..self.unit_pages).take_while(|&p| !self.records_in(children, records, p).is_empty());
        let first_key = |p: usize| &page[HEAD_BYTES + (p - 1) * self.shape.key..][..self.shape.key];
        let place = pages.take_while(|&p| first_key(p) <= key).last().unwrap_or(0);
        let count = self.records_in(children, records, place).len();
        let mut area = start;
        if place > 0 {
            self.read_more(shadow, (unit, place), (Cause::Host, count), &mut page)?;
            area = MORE_HEAD_BYTES;
        }
        let found =
            Records { shape: self.shape, bytes: &page[area..area + count * self.shape.bytes()] }.find(key);
        let found = found.map(|(kind, found)| {
            value.copy_from_slice(&found[..value.len()]);
            kind
        });
        Ok((found, child))
    }

    fn write(
        &self,
        shadow: &mut Shadow<'_>,
        (level, children): (u8, &Children),
        records: Records<'_>,
    ) -> Result<u32, IndexError> {
        debug_assert!(
            level > 0 && (level == 1) == (children.len() == 0),
            "a node at level {level} is written"
        );
        let unit = shadow.units.take()?;
        let (mut page, count) = (vec![0; self.page_bytes], children.len());
        debug_assert!(count <= self.fanout, "{count} children of {}", self.fanout);
        assert!(records.len() <= if level == 1 { self.leaf_records } else { self.inner_records });
        debug_assert!(
            (2..count).all(|i| children.key(i - 1) < children.key(i))
                && records.are_sorted_of(if level == 1 { &[PUT] } else { &[PUT, REMOVE] }),
            "T1: keys do not ascend, or a leaf has a tombstone"
        );
        page[8] = level;
        page[9] = NODE_MARK;
        put_u16(&mut page, 10, count as u16);
        put_u16(&mut page, 12, records.len() as u16);
        let start = self.start(count);
        page[start - children.bytes.len()..start].copy_from_slice(&children.bytes);
        for place in 0..self.unit_pages {
            let range = self.records_in(count, records.len(), place);
            if place > 0 && range.is_empty() {
                break;
            }
            if place > 0 {
                let at = HEAD_BYTES + (place - 1) * self.shape.key;
                page[at..at + self.shape.key].copy_from_slice(records.key(range.start));
            }
        }
        for place in 0..self.unit_pages {
            let part = records.slice(self.records_in(count, records.len(), place));
            let area = if place == 0 { start } else { MORE_HEAD_BYTES };
            if place > 0 {
                if part.is_empty() {
                    break;
                }
                page.fill(0);
                page[8] = MORE_MARK;
                page[9] = place as u8;
                put_u16(&mut page, 10, part.len() as u16);
            }
            page[area..area + part.bytes.len()].copy_from_slice(part.bytes);
            let lpn = shadow.lpn(unit, place as u32);
            shadow.write(lpn, Cause::Merge, &mut page)?;
        }
        Ok(unit)
    }

    /// Writes the records of a leaf as one leaf. If they are too many, as several, each about half full.
    pub(in crate::ordered) fn write_leaves(
        &self,
        shadow: &mut Shadow<'_>,
        tally: &mut Tally,
        records: Records<'_>,
    ) -> Result<Written, IndexError> {
        let count = records.len();
        let parts =
            if count <= self.leaf_records { 1 } else { (count * 24 / (10 * self.leaf_records)).max(2) };
        self.write_parts(shadow, tally, (1, &Children::new(self.shape.key)), (records, parts))
    }

    /// Writes an inner node as one node, or as several if it has too many children.
    pub(in crate::ordered) fn write_inner(
        &self,
        shadow: &mut Shadow<'_>,
        tally: &mut Tally,
        node: &Node,
    ) -> Result<Written, IndexError> {
        debug_assert!(node.level > 1 && node.children.len() > 0, "an inner node without children");
        let parts = node.children.len().div_ceil(self.fanout);
        self.write_parts(shadow, tally, (node.level, &node.children), (node.records.all(), parts))
    }

    /// Writes an inner node. If all that is left of it is one vacant child with the units `vacant_below`,
    /// the node is vacant too.
    pub(in crate::ordered) fn write_above(
        &self,
        shadow: &mut Shadow<'_>,
        tally: &mut Tally,
        node: &Node,
        vacant_below: Option<Vec<u32>>,
    ) -> Result<Written, IndexError> {
        let mut written = self.write_inner(shadow, tally, node)?;
        // The vacant child may have gone, and another be the only one.
        let is_it = |units: &Vec<u32>| units.first() == Some(&node.children.unit(0));
        if let Some(below) = vacant_below.filter(|units| node.records.is_empty() && is_it(units)) {
            written.is_vacant = true;
            written.vacant_units = core::iter::once(written.children.unit(0)).chain(below).collect();
        }
        Ok(written)
    }

    /// Replaces a child of the root by the nodes written for it. Then the root may split, or be replaced by
    /// its only child.
    pub(in crate::ordered) fn settle(
        &self,
        (shadow, tally): (&mut Shadow<'_>, &mut Tally),
        root: &mut Node,
        slot: usize,
        written: &Written,
    ) -> Result<(), IndexError> {
        debug_assert!(slot < root.children.len(), "child {slot} of the root's {}", root.children.len());
        root.replace(slot, written, shadow, tally);
        self.settle_root(shadow, tally, root)
    }

    /// Splits a root with too many children. A root with one child is replaced by that child.
    pub(in crate::ordered) fn settle_root(
        &self,
        shadow: &mut Shadow<'_>,
        tally: &mut Tally,
        root: &mut Node,
    ) -> Result<(), IndexError> {
        while root.children.len() > self.fanout {
            let children = self.write_inner(shadow, tally, root)?.children;
            *root = Node { level: root.level + 1, children, records: Run::new(self.shape) };
        }
        while root.level > 1 && root.children.len() == 1 && root.records.is_empty() {
            let (unit, level) = (root.children.unit(0), root.level - 1);
            *root = self.read(shadow, unit, level, Cause::Merge)?;
            Layout::release(shadow, tally, NodeAt { unit, level });
        }
        debug_assert!(root.children.len() <= self.fanout, "the root has {} children", root.children.len());
        Ok(())
    }

    fn write_parts(
        &self,
        shadow: &mut Shadow<'_>,
        tally: &mut Tally,
        (level, children): (u8, &Children),
        (records, parts): (Records<'_>, usize),
    ) -> Result<Written, IndexError> {
        debug_assert!(parts > 0 && (level == 1 || parts <= children.len()), "{parts} parts of a node");
        let mut written =
            Written { children: Children::new(self.shape.key), is_vacant: false, vacant_units: Vec::new() };
        let all = if level == 1 { records.len() } else { children.len() };
        let zero = vec![0; self.shape.key];
        for part in 0..parts {
            let range = all * part / parts..all * (part + 1) / parts;
            let (below, own, key) = if level == 1 {
                let key = if range.is_empty() { &zero[..] } else { records.key(range.start) };
                (Children::new(self.shape.key), records.slice(range), key)
            } else {
                let from = if part == 0 { 0 } else { records.lower_bound(children.key(range.start)) };
                let is_last = range.end == all;
                let to = if is_last { records.len() } else { records.lower_bound(children.key(range.end)) };
                (children.slice(range.clone()), records.slice(from..to.max(from)), children.key(range.start))
            };
            let unit = self.write(shadow, (level, &below), own)?;
            written.children.push(key, unit);
        }
        let (nodes, writes) = if level == 1 {
            (&mut tally.leaves, &mut tally.leaf_writes)
        } else {
            (&mut tally.inner, &mut tally.inner_writes)
        };
        *nodes += parts as i64;
        *writes += parts as u64;
        tally.splits += parts as u64 - 1;
        if level == 1 && records.is_empty() {
            written.is_vacant = true;
            written.vacant_units.push(written.children.unit(0));
        }
        debug_assert_eq!(written.children.len(), parts, "a part was not written");
        Ok(written)
    }

    /// Frees the unit of a node that is rewritten elsewhere.
    pub(in crate::ordered) fn release(
        shadow: &mut Shadow<'_>,
        tally: &mut Tally,
        NodeAt { unit, level }: NodeAt,
    ) {
        shadow.units.release(unit);
        *(if level == 1 { &mut tally.leaves } else { &mut tally.inner }) -= 1;
    }
}
