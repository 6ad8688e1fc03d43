//! Abstract keys become key bytes of a tree.
//!
//! Every distinct key of a workload has a *slot*, its rank among all of them in the order (tree, key). If the keys fit into
//! the tree's keys they are stored as they are, big-endian; else the slot is stored instead. Either way the order of
//! keys is the order of slots. Keys of a trace that addresses several trees get one byte with the tree's number in
//! front; when they are ranked the number is part of the rank already.

use crate::error::LabError;
use crate::workload::{Op, OpKind, Workload};

/// The distinct keys of a workload, and how they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTable {
    /// Distinct (tree, key), ascending.
    keys: Vec<(u8, u64)>,
    /// First slot of each tree, in tree order, and one past the last slot.
    tree_starts: Vec<usize>,
    key_bytes: usize,
    ranked: bool,
}

impl KeyTable {
    /// The keys of a workload for trees with keys of this width; refused when not even their ranks fit.
    pub fn new(workload: &Workload, key_bytes: u8) -> Result<KeyTable, LabError> {
        let keyed = workload.ops().filter(|op| op.kind != OpKind::Sync);
        let mut keys: Vec<(u8, u64)> = keyed.map(|op| (op.tree, op.key)).collect();
        keys.sort_unstable();
        keys.dedup();
        let starts = |i: &usize| *i == 0 || keys[i - 1].0 != keys[*i].0;
        let mut tree_starts: Vec<usize> = (0..keys.len()).filter(starts).collect();
        tree_starts.push(keys.len());
        let several = tree_starts.len() > 2;
        let largest = keys.iter().map(|k| k.1).max().unwrap_or(0);
        let width = usize::from(key_bytes);
        let fits = fits(largest, width.saturating_sub(usize::from(several)));
        if keys.len() >= u32::MAX as usize || (!fits && !fits_count(keys.len(), width)) {
            return Err(LabError::TooManyKeys { keys: keys.len() as u64, key_bytes });
        }
        Ok(KeyTable { keys, tree_starts, key_bytes: width, ranked: !fits })
    }

    /// Distinct keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether the workload has no keys at all.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether keys are stored as their ranks.
    pub fn is_ranked(&self) -> bool {
        self.ranked
    }

    /// The slot of the key of an operation of this workload; 0 for a sync.
    pub fn slot(&self, op: &Op) -> u32 {
        self.keys.binary_search(&(op.tree, op.key)).unwrap_or(0) as u32
    }

    /// The abstract key of a slot, with its tree.
    pub fn key(&self, slot: u32) -> (u8, u64) {
        self.keys[slot as usize]
    }

    /// The slots of the tree that `slot` belongs to.
    pub fn tree_of(&self, slot: u32) -> std::ops::Range<u32> {
        let next = self.tree_starts.partition_point(|&start| start <= slot as usize);
        self.tree_starts[next - 1] as u32..self.tree_starts[next] as u32
    }

    /// Writes the key of a slot.
    pub fn encode(&self, slot: u32, out: &mut [u8]) {
        assert_eq!(out.len(), self.key_bytes, "a key buffer of another width");
        let (tree, key) = self.keys[slot as usize];
        let (prefix, number) = match (self.ranked, self.tree_starts.len() > 2) {
            (true, _) => (None, u64::from(slot)),
            (false, false) => (None, key),
            (false, true) => (Some(tree), key),
        };
        out.fill(0);
        let bytes = number.to_be_bytes();
        let low = bytes.len().min(out.len());
        let at = out.len() - low;
        out[at..].copy_from_slice(&bytes[bytes.len() - low..]);
        if let Some(tree) = prefix {
            out[0] = tree;
        }
    }
}

fn fits(number: u64, bytes: usize) -> bool {
    bytes >= 8 || number < 1 << (8 * bytes)
}

fn fits_count(count: usize, bytes: usize) -> bool {
    count == 0 || fits(count as u64 - 1, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::PhaseOps;
    use std::collections::BTreeMap;

    fn workload(keys: &[(u8, u64)]) -> Workload {
        let op = |&(tree, key): &(u8, u64)| Op { tree, ..Op::new(OpKind::Insert, key) };
        let phases = vec![PhaseOps::measured("w", keys.iter().map(op).collect())];
        Workload { name: String::new(), seed: 0, options: BTreeMap::new(), phases }
    }

    fn encoded(table: &KeyTable, key_bytes: usize) -> Vec<Vec<u8>> {
        let encode = |slot| {
            let mut out = vec![0; key_bytes];
            table.encode(slot, &mut out);
            out
        };
        (0..table.len() as u32).map(encode).collect()
    }

    #[test]
    fn ranking_keeps_the_order() {
        let keys = [(0, 1 << 40), (0, 3), (0, u64::MAX), (0, 1 << 39), (0, 3)];
        for width in [1, 2, 4, 7] {
            let table = KeyTable::new(&workload(&keys), width).unwrap();
            assert!(table.is_ranked() && table.len() == 4);
            assert!(encoded(&table, width.into()).is_sorted_by(|a, b| a < b));
            assert_eq!(table.key(table.slot(&Op::new(OpKind::Get, 1 << 39))), (0, 1 << 39));
        }
        let wide = KeyTable::new(&workload(&keys), 12).unwrap();
        assert!(!wide.is_ranked());
        assert_eq!(encoded(&wide, 12)[3], [&[0; 4][..], &[0xff; 8]].concat());
    }

    #[test]
    fn keys_that_fit_are_stored_as_they_are() {
        let table = KeyTable::new(&workload(&[(0, 0xaa_bbcc), (0, 5)]), 4).unwrap();
        assert_eq!(encoded(&table, 4), [[0, 0, 0, 5], [0, 0xaa, 0xbb, 0xcc]]);
    }

    #[test]
    fn several_trees_share_one_by_the_number_in_front() {
        let keys = [(2, 7), (0, 9), (2, 1), (7, 0)];
        let table = KeyTable::new(&workload(&keys), 4).unwrap();
        assert_eq!(encoded(&table, 4), [[0, 0, 0, 9], [2, 0, 0, 1], [2, 0, 0, 7], [7, 0, 0, 0]]);
        assert_eq!(
            (table.tree_of(0), table.tree_of(1), table.tree_of(2), table.tree_of(3)),
            (0..1, 1..3, 1..3, 3..4)
        );
        let narrow = KeyTable::new(&workload(&keys), 1).unwrap();
        assert!(narrow.is_ranked());
        assert_eq!(encoded(&narrow, 1), [[0], [1], [2], [3]]);
    }

    #[test]
    fn more_keys_than_the_width_can_tell_apart_are_refused() {
        let keys: Vec<(u8, u64)> = (0..257).map(|k| (0, k)).collect();
        assert!(KeyTable::new(&workload(&keys[..256]), 1).is_ok());
        assert!(KeyTable::new(&workload(&keys), 1).unwrap_err().to_string().contains("257 distinct keys"));
    }
}
