//! The nodes of a B+-tree for a node layer: how a unit describes an entry.
//!
//! ```text
//! body | 1 for the first entry of an internal node, else 0 | key or bound | value, or page of the child (4) |
//! ```
//!
//! The first entry of an internal node is known by its position: its bound may mean nothing (B3), so it does
//! not take part in the order. The mark of a node is its level.

use crate::unit_layer::{BODY_BYTES_MAX, Identity, NodeCodec, Op};
use core::cmp::Ordering;
use nandex::codec::{crc32, get_u32, put_u16, put_u32};
use nandex::fault::IndexFault;
use nandex::ordered::bplus::BPlusConfig;
use nandex::ordered::bplus::ground::{CHILD_BYTES, HEADER_BYTES, Layout, level_and_entries, put_head};
use nandex::ordered::node::NodeShape;
use nandex::sort;
use nandex::units::Lpn;

/// The codec of B+-tree nodes with these capacities, for a node layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct BPlusNodes {
    leaf: NodeShape,
    internal: NodeShape,
}

const OTHER: u8 = 0;
const FIRST: u8 = 1;

impl BPlusNodes {
    pub(super) fn new(config: &BPlusConfig, page_bytes: usize) -> Result<BPlusNodes, IndexFault> {
        // As many pages as there can be: capacities do not depend on it.
        let Layout { leaf, internal, .. } = Layout::new(config, page_bytes, u32::MAX)?;
        Ok(BPlusNodes { leaf, internal })
    }

    #[inline]
    fn shape(&self, level: u8) -> &NodeShape {
        if level == 1 { &self.leaf } else { &self.internal }
    }

    /// The number of entries that two nodes share at the beginning, and the number at the end. If the nodes
    /// are nearly equal the two may overlap.
    fn common(shape: &NodeShape, old: &[u8], olds: usize, new: &[u8], news: usize) -> (usize, usize) {
        let ((old_keys, old_values), (new_keys, new_values)) =
            (parts(shape, old, olds), parts(shape, new, news));
        let entries = |keys: usize, values: usize| {
            (keys / shape.key_bytes).min(values.checked_div(shape.value_bytes).unwrap_or(usize::MAX))
        };
        let start = entries(common_start(old_keys, new_keys), common_start(old_values, new_values));
        let end = entries(common_end(old_keys, new_keys), common_end(old_values, new_values));
        (start, end)
    }

    /// Appends an entry if it belongs behind all others. Returns whether it does, as in most cases: compacted
    /// nodes are sorted.
    #[inline]
    fn append(&self, page: &mut [u8], body: &[u8]) -> bool {
        debug_assert_eq!(body.len(), self.body_bytes(), "N2: a unit of another size");
        let Some((level, count)) = level_and_entries(page) else { return false };
        let (shape, count) = (self.shape(level), usize::from(count));
        let (key, value) = body[1..].split_at(shape.key_bytes);
        let area = &mut page[HEADER_BYTES..];
        let comes_last = match count.checked_sub(1) {
            // The bound of an internal node's first entry has no place in the order.
            Some(0) if level > 1 => true,
            Some(last) => count < shape.capacity && shape.compare(area, last, key) == Ordering::Less,
            None => level == 1,
        };
        if comes_last {
            debug_assert!(count < shape.capacity, "B4: a full node takes one entry more");
            shape.set_key(area, count, key);
            shape.set_value(area, count, &value[..shape.value_bytes]);
            put_u16(page, 10, count as u16 + 1);
        }
        comes_last
    }

    /// Applies a unit to an entry anywhere in the node.
    fn change(&self, page: &mut [u8], op: Op, body: &[u8]) -> Result<(), &'static str> {
        debug_assert_eq!(body.len(), self.body_bytes(), "N2: a unit of another size");
        let Some((level, count)) = level_and_entries(page) else { return Err("N2: a unit of no node") };
        let (shape, count) = (self.shape(level), usize::from(count));
        let (key, value) = body[1..].split_at(shape.key_bytes);
        let (entry, area) = ((key, &value[..shape.value_bytes]), &mut page[HEADER_BYTES..]);
        let found = match body[0] {
            OTHER => search(shape, area, (usize::from(level > 1), count), key),
            FIRST if level > 1 && count > 0 => Ok(0),
            FIRST if level > 1 => Err(0),
            _ => return Err("N2: a unit of no entry"),
        };
        let count = match (op, found) {
            (Op::Insert, Err(at)) if count < shape.capacity => {
                shape.insert(area, count, at, entry);
                count + 1
            }
            (Op::Delete, Ok(at)) => {
                shape.remove(area, count, at);
                count - 1
            }
            (Op::Update, Ok(at)) => {
                shape.set_key(area, at, entry.0);
                shape.set_value(area, at, entry.1);
                count
            }
            (Op::Insert, Err(_)) => return Err("N2: a unit for which the node has no room"),
            _ => return Err("N2: a unit that contradicts its node"),
        };
        debug_assert!(count <= shape.capacity, "B4: {count} entries in a node of {}", shape.capacity);
        put_u16(page, 10, count as u16);
        Ok(())
    }
}

impl BPlusNodes {
    /// The level of a node, if the page is one and its count fits the capacity.
    pub(in crate::ordered) fn level_of(&self, page: &[u8]) -> Option<u8> {
        self.mark(page)
    }

    pub(in crate::ordered) fn children<'a>(&self, page: &'a [u8]) -> impl Iterator<Item = Lpn> + 'a {
        let (internal, is_leaf) = (self.internal, page[8] <= 1);
        let count = if is_leaf { 0 } else { self.entries(page) };
        (0..count).map(move |at| Lpn(get_u32(internal.value(&page[HEADER_BYTES..], at), 0)))
    }

    /// Replaces the number of a child. Returns false if the node has no such child.
    pub(in crate::ordered) fn rename_child(&self, page: &mut [u8], old: Lpn, new: Lpn) -> bool {
        let Some(at) = self.children(page).position(|child| child == old) else { return false };
        self.internal.set_value(&mut page[HEADER_BYTES..], at, &new.0.to_le_bytes());
        true
    }

    pub(in crate::ordered) fn number(page: &[u8]) -> Lpn {
        Lpn(get_u32(page, 4))
    }

    /// Sets the number that a node carries, and its page's checksum.
    pub(in crate::ordered) fn renumber(page: &mut [u8], number: Lpn) {
        put_u32(page, 4, number.0);
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
    }
}

struct Shown<'a> {
    shape: &'a NodeShape,
    body: [u8; BODY_BYTES_MAX],
    body_bytes: usize,
    show: &'a mut dyn FnMut(Op, &[u8]),
}

impl Shown<'_> {
    fn unit(&mut self, page: &[u8], at: usize, op: Op) {
        debug_assert!(self.body_bytes <= BODY_BYTES_MAX, "N2: a unit larger than any");
        let (shape, body, area) = (self.shape, &mut self.body, &page[HEADER_BYTES..]);
        let (key, value) = body[1..].split_at_mut(shape.key_bytes);
        key.copy_from_slice(shape.key(area, at));
        value[..shape.value_bytes].copy_from_slice(shape.value(area, at));
        body[0] = if at == 0 && page[8] > 1 { FIRST } else { OTHER };
        (self.show)(op, &body[..self.body_bytes]);
    }
}

fn parts<'a>(shape: &NodeShape, page: &'a [u8], count: usize) -> (&'a [u8], &'a [u8]) {
    debug_assert!(count <= shape.capacity, "B4: {count} entries of {}", shape.capacity);
    let (keys, values) = page[HEADER_BYTES..].split_at(shape.capacity * shape.key_bytes);
    (&keys[..count * shape.key_bytes], &values[..count * shape.value_bytes])
}

const CHUNK: usize = 64;

/// Length of the common start of two strings, compared in chunks and then byte by byte.
fn common_start(a: &[u8], b: &[u8]) -> usize {
    let chunks = a.chunks_exact(CHUNK).zip(b.chunks_exact(CHUNK)).take_while(|(a, b)| a == b).count() * CHUNK;
    chunks + a[chunks..].iter().zip(&b[chunks..]).take_while(|(a, b)| a == b).count()
}

/// Length of the common end of two strings, compared in chunks and then byte by byte.
fn common_end(a: &[u8], b: &[u8]) -> usize {
    let chunks =
        a.rchunks_exact(CHUNK).zip(b.rchunks_exact(CHUNK)).take_while(|(a, b)| a == b).count() * CHUNK;
    let (a, b) = (&a[..a.len() - chunks], &b[..b.len() - chunks]);
    chunks + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

fn search(
    shape: &NodeShape,
    area: &[u8],
    (first, count): (usize, usize),
    key: &[u8],
) -> Result<usize, usize> {
    if first == 0 {
        return shape.search(area, count, key);
    }
    let found = sort::search(first.min(count)..count, |place| shape.key(area, place).cmp(key));
    let Err(low) = found else { return found };
    debug_assert!(low >= first.min(count) && low <= count, "place {low} of {count}");
    debug_assert!(low == count || shape.key(area, low) > key, "B2: the key at place {low} is not above");
    Err(low)
}

impl NodeCodec for BPlusNodes {
    fn body_bytes(&self) -> usize {
        1 + self.leaf.key_bytes + self.leaf.value_bytes.max(CHILD_BYTES)
    }

    fn identity(&self) -> Identity {
        // The first entry of an internal node stays it, whatever its bound becomes.
        Identity { bytes: 1 + self.leaf.key_bytes, only: Some(FIRST) }
    }

    fn entries_max(&self) -> usize {
        self.leaf.capacity.max(self.internal.capacity)
    }

    #[inline]
    fn mark(&self, page: &[u8]) -> Option<u8> {
        let (level, entries) = level_and_entries(page)?;
        (level > 0 && usize::from(entries) <= self.shape(level).capacity).then_some(level)
    }

    fn entries(&self, page: &[u8]) -> usize {
        level_and_entries(page).map_or(0, |(_, entries)| entries.into())
    }

    fn reset(&self, page: &mut [u8], node: Lpn, mark: u8) {
        page.fill(0);
        put_head(page, node, mark);
    }

    fn differences(&self, old: Option<&[u8]>, new: &[u8], show: &mut dyn FnMut(Op, &[u8])) {
        let level = new[8];
        let (shape, news) = (self.shape(level), self.entries(new));
        let (old, olds) = (old.unwrap_or(new), old.map_or(0, |old| self.entries(old)));
        let same = |i: usize, j: usize| {
            let (old, new) = (&old[HEADER_BYTES..], &new[HEADER_BYTES..]);
            shape.key(old, i) == shape.key(new, j) && shape.value(old, i) == shape.value(new, j)
        };
        let mut shown = Shown { shape, body: [0; BODY_BYTES_MAX], body_bytes: self.body_bytes(), show };
        let first = usize::from(level > 1);
        if first == 1 {
            match (olds, news) {
                (0, 0) => {}
                (0, _) => shown.unit(new, 0, Op::Insert),
                (_, 0) => shown.unit(old, 0, Op::Delete),
                _ if same(0, 0) => {}
                _ => shown.unit(new, 0, Op::Update),
            }
        }
        let (start, end) = BPlusNodes::common(shape, old, olds, new, news);
        let start = start.max(first);
        // The first entry of an internal node is common to no other place.
        let end = end.min(olds.min(news).saturating_sub(start));
        let (olds, news) = (olds - end, news - end);
        // Those that leave go first: a full node has no room for others before.
        for leaves in [true, false] {
            let (mut i, mut j) = (start, start);
            while i < olds || j < news {
                let order = match (i < olds, j < news) {
                    (true, true) => {
                        shape.compare(&old[HEADER_BYTES..], i, shape.key(&new[HEADER_BYTES..], j))
                    }
                    (true, false) => Ordering::Less,
                    _ => Ordering::Greater,
                };
                match order {
                    Ordering::Less if leaves => shown.unit(old, i, Op::Delete),
                    Ordering::Greater if !leaves => shown.unit(new, j, Op::Insert),
                    Ordering::Equal if !leaves && !same(i, j) => shown.unit(new, j, Op::Update),
                    _ => {}
                }
                i += usize::from(order != Ordering::Greater);
                j += usize::from(order != Ordering::Less);
            }
        }
    }

    #[inline]
    fn apply(&self, page: &mut [u8], op: Op, body: &[u8]) -> Result<(), &'static str> {
        if op == Op::Insert && body[0] == OTHER && self.append(page, body) {
            return Ok(());
        }
        self.change(page, op, body)
    }

    fn seal(&self, page: &mut [u8]) {
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit_layer::{ReservationBuffer, Unit};
    use alloc::vec;
    use alloc::vec::Vec;
    use nandex::ordered::RecordFormat;
    use nandex::ordered::bplus::ground::Frame;
    use nandex::rng::Rng;

    /// A node of this level with some entries. In an internal node the bound of the first entry is
    /// arbitrary.
    fn node(nodes: &BPlusNodes, level: u8, rng: &mut Rng) -> Vec<u8> {
        let mut page = vec![0; 128];
        nodes.reset(&mut page, Lpn(9), level);
        let mut frame = Frame { bytes: page.into_boxed_slice(), slot: 0, is_dirty: false };
        let shape = *nodes.shape(level);
        for n in 0..20u16 {
            if rng.chance(1, 2) && frame.count() < shape.capacity {
                let value = [rng.below(3) as u8; 4];
                frame.insert(&shape, frame.count(), (&n.to_be_bytes(), &value[..shape.value_bytes]));
            }
        }
        if level > 1 && frame.count() > 0 {
            let bound = (rng.below(30) as u16).to_be_bytes();
            shape.set_key(frame.area_mut(), 0, &bound);
        }
        frame.seal();
        frame.bytes.into_vec()
    }

    fn entries(nodes: &BPlusNodes, page: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let (shape, area) = (nodes.shape(page[8]), &page[HEADER_BYTES..]);
        (0..nodes.entries(page)).map(|i| (shape.key(area, i).into(), shape.value(area, i).into())).collect()
    }

    #[test]
    fn the_differences_of_two_images_lead_from_one_to_the_other() {
        let nodes = BPlusNodes::new(&BPlusConfig::new(RecordFormat::new(2, 2)), 128).unwrap();
        let mut rng = Rng::new(6);
        for _ in 0..2_000 {
            let level = 1 + rng.below(2) as u8;
            let (old, new) = (node(&nodes, level, &mut rng), node(&nodes, level, &mut rng));
            let mut units = Vec::new();
            nodes.differences(Some(&old), &new, &mut |op, body| units.push((op, body.to_vec())));
            let mut page = old.clone();
            for (op, body) in &units {
                assert_eq!(body.len(), nodes.body_bytes());
                nodes.apply(&mut page, *op, body).unwrap();
            }
            nodes.seal(&mut page);
            assert_eq!(entries(&nodes, &page), entries(&nodes, &new));
            assert_eq!((nodes.mark(&page), page[..12] == new[..12]), (Some(level), page == new));
            let same = entries(&nodes, &old) == entries(&nodes, &new);
            assert_eq!(units.is_empty(), same);
        }
    }

    #[test]
    fn an_entry_that_becomes_the_first_leaves_its_place() {
        let nodes = BPlusNodes::new(&BPlusConfig::new(RecordFormat::new(2, 2)), 128).unwrap();
        let page = |keys: &[u8]| {
            let mut page = vec![0; 128];
            nodes.reset(&mut page, Lpn(9), 2);
            for (at, key) in keys.iter().enumerate() {
                let body = [u8::from(at == 0), 0, *key, *key, 0, 0, 0];
                nodes.apply(&mut page, Op::Insert, &body).unwrap();
            }
            page
        };
        let mut units = Vec::new();
        nodes.differences(Some(&page(&[1, 2, 3])), &page(&[2, 3]), &mut |op, body| units.push((op, body[2])));
        assert_eq!(units, [(Op::Update, 2), (Op::Delete, 2)]);
    }

    #[test]
    fn a_first_entry_whose_bound_goes_back_and_forth_keeps_the_last_one() {
        let nodes = BPlusNodes::new(&BPlusConfig::new(RecordFormat::new(2, 2)), 128).unwrap();
        let mut page = vec![0; 128];
        nodes.reset(&mut page, Lpn(9), 2);
        nodes.apply(&mut page, Op::Insert, &[FIRST, 0, 1, 7, 0, 0, 0]).unwrap();
        let mut buffer = ReservationBuffer::new(4, nodes.body_bytes(), nodes.identity(), true);
        for bound in [2, 3, 2] {
            let body = [FIRST, 0, bound, 7, 0, 0, 0];
            buffer.push(Unit { node: 9, op: Op::Update, mark: 2, body: &body });
        }
        buffer.units_of(9).for_each(|unit| nodes.apply(&mut page, unit.op, unit.body).unwrap());
        assert_eq!(entries(&nodes, &page)[0].0, [0, 2]);
        assert_eq!(buffer.len(), 1);
    }

    #[test]
    fn a_unit_that_contradicts_its_node_is_refused() {
        let nodes = BPlusNodes::new(&BPlusConfig::new(RecordFormat::new(2, 2)), 128).unwrap();
        let mut page = vec![0; 128];
        assert!(nodes.apply(&mut page, Op::Insert, &[0; 7]).is_err() && nodes.mark(&page).is_none());
        nodes.reset(&mut page, Lpn(3), 1);
        assert!(nodes.apply(&mut page, Op::Delete, &[0; 7]).is_err());
        nodes.apply(&mut page, Op::Insert, &[0; 7]).unwrap();
        assert!(nodes.apply(&mut page, Op::Insert, &[0; 7]).is_err());
        assert!(nodes.apply(&mut page, Op::Update, &[FIRST, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(nodes.apply(&mut page, Op::Update, &[9; 7]).is_err());
    }
}
