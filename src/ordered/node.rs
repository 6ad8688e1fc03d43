//! The layout of a tree node, the same for all trees here: an array of sorted keys, then an array of their
//! values.
//!
//! ```text
//! | key 0 | key 1 | ... | key c-1 | value 0 | value 1 | ... | value c-1 |      c = capacity
//! ```
//!
//! The keys lie together, so that a binary search touches few cache lines. The owner of the node stores the
//! number of entries in use, in the spare area of the page or in a header. So a node of `c` entries takes
//! exactly `c * entry_bytes`. In an internal node the value is the address of a child, and key `i` is a lower
//! bound of all keys below child `i`. The bound of child 0 is not used.

use crate::sort;
use core::cmp::Ordering;
use core::ops::Range;

/// True if the processor compares keys of 8 bytes faster as numbers than byte by byte.
const WIDE: bool = usize::BITS >= 64;

/// Move of a node within a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Old start, as an offset in the buffer.
    pub from: usize,
    /// New start, as an offset in the buffer.
    pub to: usize,
}

/// How many entries a node holds and how wide they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeShape {
    /// Most entries.
    pub capacity: usize,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value or of a child's address.
    pub value_bytes: usize,
}

impl NodeShape {
    /// Returns the shape of the largest node that fits in `area_bytes` bytes.
    pub const fn fitting(area_bytes: usize, key_bytes: usize, value_bytes: usize) -> NodeShape {
        assert!(key_bytes > 0, "a node without keys has no order");
        NodeShape { capacity: area_bytes / (key_bytes + value_bytes), key_bytes, value_bytes }
    }

    /// Bytes of the node.
    pub const fn bytes(&self) -> usize {
        self.capacity * (self.key_bytes + self.value_bytes)
    }

    #[inline]
    fn value_at(&self, i: usize) -> usize {
        self.capacity * self.key_bytes + i * self.value_bytes
    }

    /// Returns key `i`.
    #[inline]
    pub fn key<'a>(&self, node: &'a [u8], i: usize) -> &'a [u8] {
        debug_assert!(i < self.capacity, "key {i} of {}", self.capacity);
        &node[i * self.key_bytes..(i + 1) * self.key_bytes]
    }

    /// Returns value `i`.
    #[inline]
    pub fn value<'a>(&self, node: &'a [u8], i: usize) -> &'a [u8] {
        debug_assert!(i < self.capacity, "value {i} of {}", self.capacity);
        let at = self.value_at(i);
        &node[at..at + self.value_bytes]
    }

    /// Overwrites key `i`.
    #[inline]
    pub fn set_key(&self, node: &mut [u8], i: usize, key: &[u8]) {
        // A key beyond the last one would overwrite the first value.
        debug_assert!(i < self.capacity && key.len() == self.key_bytes, "key {i} of {}", self.capacity);
        copy_field(&mut node[i * self.key_bytes..(i + 1) * self.key_bytes], key);
    }

    /// Overwrites value `i`.
    #[inline]
    pub fn set_value(&self, node: &mut [u8], i: usize, value: &[u8]) {
        // A value beyond the last one would overwrite another node of the same page.
        debug_assert!(i < self.capacity && value.len() == self.value_bytes, "value {i} of {}", self.capacity);
        let at = self.value_at(i);
        copy_field(&mut node[at..at + self.value_bytes], value);
    }

    /// Compares key `i` with `key`.
    #[inline]
    pub fn compare(&self, node: &[u8], i: usize, key: &[u8]) -> Ordering {
        debug_assert_eq!(key.len(), self.key_bytes, "a key of another width");
        match self.key_bytes {
            4 => be_u32(self.key(node, i)).cmp(&be_u32(key)),
            8 if WIDE => be_u64(self.key(node, i)).cmp(&be_u64(key)),
            _ => self.key(node, i).cmp(key),
        }
    }

    /// Searches `key` among the first `count` entries. Returns its place, or the place where it belongs as
    /// the error.
    #[inline]
    pub fn search(&self, node: &[u8], count: usize, key: &[u8]) -> Result<usize, usize> {
        assert!(count <= self.capacity && key.len() == self.key_bytes);
        match self.key_bytes {
            4 => search_by(count, be_u32(key), |i| be_u32(self.key(node, i))),
            8 if WIDE => search_by(count, be_u64(key), |i| be_u64(self.key(node, i))),
            _ => search_by(count, key, |i| self.key(node, i)),
        }
    }

    /// Returns the number of the child below which `key` belongs: the last child whose bound is not above
    /// `key`, else the first.
    #[inline]
    pub fn child_slot(&self, node: &[u8], count: usize, key: &[u8]) -> usize {
        match self.search(node, count, key) {
            Ok(i) => i,
            Err(i) => i.saturating_sub(1),
        }
    }

    /// Inserts an entry at place `i`. The later entries move up.
    pub fn insert(&self, node: &mut [u8], count: usize, i: usize, entry: (&[u8], &[u8])) {
        assert!(i <= count && count < self.capacity, "no room for entry {i} of {count}");
        let (k, v) = (self.key_bytes, self.value_at(i));
        node.copy_within(i * k..count * k, (i + 1) * k);
        node.copy_within(v..self.value_at(count), v + self.value_bytes);
        self.set_key(node, i, entry.0);
        self.set_value(node, i, entry.1);
        debug_assert!(
            self.key(node, i) == entry.0 && self.value(node, i) == entry.1,
            "entry {i} is not there"
        );
    }

    /// Removes entry `i`. The later entries move down.
    pub fn remove(&self, node: &mut [u8], count: usize, i: usize) {
        assert!(i < count && count <= self.capacity, "no entry {i} of {count}");
        let (k, v) = (self.key_bytes, self.value_at(i));
        node.copy_within((i + 1) * k..count * k, i * k);
        node.copy_within(v + self.value_bytes..self.value_at(count), v);
    }

    /// Removes the first `n` entries. The later entries move down.
    pub fn remove_first(&self, node: &mut [u8], count: usize, n: usize) {
        assert!(n <= count && count <= self.capacity, "no {n} entries of {count}");
        node.copy_within(n * self.key_bytes..count * self.key_bytes, 0);
        node.copy_within(self.value_at(n)..self.value_at(count), self.value_at(0));
    }

    /// Moves every entry up by `n` places. The caller overwrites the first `n` entries.
    pub fn open_first(&self, node: &mut [u8], count: usize, n: usize) {
        assert!(count + n <= self.capacity, "no room for {n} entries before {count}");
        node.copy_within(..count * self.key_bytes, n * self.key_bytes);
        node.copy_within(self.value_at(0)..self.value_at(count), self.value_at(n));
    }

    /// Copies `count` entries from place `from` of a node to place `to` of another node, whose capacity may
    /// differ.
    pub fn copy_entries(&self, source: (&[u8], usize), count: usize, into: (&NodeShape, &mut [u8], usize)) {
        let ((node, from), (shape, target, to)) = (source, into);
        assert!(from + count <= self.capacity && to + count <= shape.capacity);
        assert!((shape.key_bytes, shape.value_bytes) == (self.key_bytes, self.value_bytes), "other entries");
        let k = self.key_bytes;
        target[to * k..(to + count) * k].copy_from_slice(&node[from * k..(from + count) * k]);
        let (s, t) = (self.value_at(from), shape.value_at(to));
        let bytes = count * self.value_bytes;
        target[t..t + bytes].copy_from_slice(&node[s..s + bytes]);
    }

    /// Moves entries of a node to the beginning of another, which may have another capacity. Both nodes are
    /// in one buffer and may overlap.
    pub fn move_entries(&self, buffer: &mut [u8], way: Move, entries: Range<usize>, shape: &NodeShape) {
        let (Move { from: node, to: target }, first, count) = (way, entries.start, entries.len());
        assert!(first + count <= self.capacity && count <= shape.capacity);
        assert!((shape.key_bytes, shape.value_bytes) == (self.key_bytes, self.value_bytes), "other entries");
        let (keys, values) = (count * self.key_bytes, count * self.value_bytes);
        let (key, value) = (node + first * self.key_bytes, node + self.value_at(first));
        // Keys and values are first moved together, so that one move takes both, and then apart.
        buffer.copy_within(value..value + values, key + keys);
        buffer.copy_within(key..key + keys + values, target);
        buffer.copy_within(target + keys..target + keys + values, target + shape.value_at(0));
    }

    /// Returns the first place whose key is not above the key before it; `None` if the keys ascend.
    pub fn first_unsorted(&self, node: &[u8], count: usize) -> Option<usize> {
        assert!(count <= self.capacity, "{count} entries of {}", self.capacity);
        (1..count).find(|&i| self.compare(node, i - 1, self.key(node, i)) != Ordering::Less)
    }
}

/// Copies a key or a value. The common widths need no call of a copy routine.
#[inline]
fn copy_field(to: &mut [u8], from: &[u8]) {
    match (to.len(), from.len()) {
        (4, 4) => to[..4].copy_from_slice(&from[..4]),
        (8, 8) => to[..8].copy_from_slice(&from[..8]),
        _ => to.copy_from_slice(from),
    }
}

#[inline]
fn be_u32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[inline]
fn be_u64(bytes: &[u8]) -> u64 {
    u64::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]])
}

#[inline]
fn search_by<K: Ord>(count: usize, wanted: K, key: impl Fn(usize) -> K) -> Result<usize, usize> {
    let found = sort::search(0..count, |place| key(place).cmp(&wanted));
    let Err(place) = found else { return found };
    debug_assert!(place == 0 || key(place - 1) < wanted, "the key before place {place} is not below");
    debug_assert!(place == count || key(place) > wanted, "the key at place {place} is not above");
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeMap;
    use alloc::vec;
    use alloc::vec::Vec;

    fn random_walk(key_bytes: usize, value_bytes: usize, seed: u64) {
        let shape = NodeShape::fitting(512, key_bytes, value_bytes);
        let mut node = vec![0xff; 512];
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut rng = Rng::new(seed);
        for _ in 0..2_000 {
            let (mut key, mut value) = (vec![0; key_bytes], vec![0; value_bytes]);
            rng.fill(&mut key);
            key[0] &= 7;
            rng.fill(&mut value);
            let count = model.len();
            match shape.search(&node, count, &key) {
                Ok(i) => {
                    assert_eq!(shape.value(&node, i), &model[&key][..]);
                    shape.remove(&mut node, count, i);
                    model.remove(&key);
                }
                Err(i) if count < shape.capacity => {
                    shape.insert(&mut node, count, i, (&key, &value));
                    model.insert(key, value);
                }
                Err(_) => shape.remove(&mut node, count, 0),
            }
            if model.len() == count && count == shape.capacity {
                model.pop_first();
            }
            assert_eq!(shape.first_unsorted(&node, model.len()), None);
            assert!(model.keys().enumerate().all(|(i, k)| shape.key(&node, i) == &k[..]));
        }
    }

    #[test]
    fn a_node_is_a_sorted_map() {
        for (k, v) in [(4, 4), (8, 4), (8, 8), (16, 8), (1, 0), (3, 5)] {
            random_walk(k, v, 11);
        }
    }

    #[test]
    fn entries_move_within_a_buffer_as_they_are_copied_to_another() {
        let mut rng = Rng::new(5);
        for _ in 0..2_000 {
            let (key, value) = (1 + rng.below(9) as usize, rng.below(12) as usize);
            let shape = |capacity| NodeShape { capacity, key_bytes: key, value_bytes: value };
            let (wide, half) = (shape(2 + rng.below(20) as usize), shape(1 + rng.below(20) as usize));
            let count = rng.below(wide.capacity.min(half.capacity) as u64 + 1) as usize;
            let from = rng.below((wide.capacity - count) as u64 + 1) as usize;
            let mut buffer = vec![0; wide.bytes().max(half.bytes()) + 40];
            rng.fill(&mut buffer);
            let start = |rng: &mut Rng, bytes| rng.below((buffer.len() - bytes) as u64 + 1) as usize;
            let (node, target) = (start(&mut rng, wide.bytes()), start(&mut rng, half.bytes()));
            let mut copied = vec![0; half.bytes()];
            wide.copy_entries((&buffer[node..], from), count, (&half, &mut copied, 0));
            wide.move_entries(&mut buffer, Move { from: node, to: target }, from..from + count, &half);
            for i in 0..count {
                assert_eq!(half.key(&buffer[target..], i), half.key(&copied, i));
                assert_eq!(half.value(&buffer[target..], i), half.value(&copied, i));
            }
        }
    }

    #[test]
    fn entries_move_between_nodes_of_different_capacity() {
        let (wide, narrow) = (NodeShape::fitting(64, 4, 4), NodeShape::fitting(32, 4, 4));
        let mut from = vec![0; 64];
        for i in 0..8u32 {
            wide.insert(&mut from, i as usize, i as usize, (&i.to_be_bytes(), &(i * 10).to_le_bytes()));
        }
        let mut to = vec![0; 32];
        wide.copy_entries((&from, 4), 4, (&narrow, &mut to, 0));
        assert_eq!(narrow.key(&to, 0), 4u32.to_be_bytes());
        assert_eq!(narrow.value(&to, 3), 70u32.to_le_bytes());
        assert_eq!(narrow.child_slot(&to, 4, &6u32.to_be_bytes()), 2);
        assert_eq!(narrow.child_slot(&to, 4, &1u32.to_be_bytes()), 0);
    }
}
