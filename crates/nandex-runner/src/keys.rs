//! Abstract keys become key bytes of a tree.
//!
//! Every distinct key of a workload has a *slot*, its rank among all of them in the order (tree, key). If the
//! keys fit into the tree's keys they are stored as they are, big-endian; else the slot is stored instead.
//! Either way the order of keys is the order of slots.
//!
//! A trace that addresses several trees runs as one tree ([`Trees::One`]): the tree's number is the first
//! byte of the tree's keys, or part of the rank where keys are ranked. Or it runs as a forest
//! ([`Trees::PerIndex`]): the number is one byte in front of the tree's keys, and keys are ranked within
//! their tree.

use crate::error::LabError;
use crate::forest::TreeShare;
use crate::workload::{Op, OpKind, Workload};
use serde::{Deserialize, Serialize};

/// How a workload that addresses several indexes runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trees {
    /// All indexes run as one tree, whose keys start with the number of the index.
    #[default]
    One,
    /// Each index is a tree of its own; the trees share one store.
    PerIndex,
}

/// The distinct keys of a workload and their encoding as key bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTable {
    /// The distinct pairs of tree and key, ascending.
    keys: Vec<(u8, u64)>,
    /// First slot of each tree in tree order, and then the number of all slots.
    tree_starts: Vec<usize>,
    /// Size of an encoded key, in bytes.
    width: usize,
    /// Whether the first byte of an encoded key is the number of its tree.
    numbered: bool,
    ranked: bool,
    trees: Trees,
}

impl KeyTable {
    /// Makes the table of the workload's keys for trees with keys of `key_bytes`. Fails if not even the
    /// ranks of the keys fit.
    pub fn new(workload: &Workload, key_bytes: u8, trees: Trees) -> Result<KeyTable, LabError> {
        let keyed = workload.ops().filter(|op| op.kind != OpKind::Sync);
        let mut keys: Vec<(u8, u64)> = keyed.map(|op| (op.tree, op.key)).collect();
        keys.sort_unstable();
        keys.dedup();
        let starts = |i: &usize| *i == 0 || keys[i - 1].0 != keys[*i].0;
        let mut tree_starts: Vec<usize> = (0..keys.len()).filter(starts).collect();
        tree_starts.push(keys.len());

        let per_index = trees == Trees::PerIndex;
        let several = tree_starts.len() > 2;
        let inner = usize::from(key_bytes);
        let largest = keys.iter().map(|k| k.1).max().unwrap_or(0);
        let ranked = !fits(largest, inner - usize::from(several && !per_index));
        let most = if per_index { tree_starts.windows(2).map(|w| w[1] - w[0]).max() } else { None };
        let ranks = most.unwrap_or(keys.len());
        if keys.len() >= u32::MAX as usize || (ranked && ranks > 0 && !fits(ranks as u64 - 1, inner)) {
            return Err(LabError::TooManyKeys { keys: ranks as u64, key_bytes });
        }
        let (width, numbered) = (inner + usize::from(per_index), per_index || (several && !ranked));
        Ok(KeyTable { keys, tree_starts, width, numbered, ranked, trees })
    }

    /// How several indexes run.
    pub fn trees(&self) -> Trees {
        self.trees
    }

    /// Number of distinct keys in each tree.
    pub fn shares(&self) -> Vec<TreeShare> {
        let share = |w: &[usize]| TreeShare { tree: self.keys[w[0]].0, records: (w[1] - w[0]) as u64 };
        self.tree_starts.windows(2).map(share).collect()
    }

    /// Number of distinct keys.
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

    /// The slot of an operation's key; 0 for a sync.
    pub fn slot(&self, op: &Op) -> u32 {
        self.keys.binary_search(&(op.tree, op.key)).unwrap_or(0) as u32
    }

    /// The tree and the abstract key of a slot.
    pub fn key(&self, slot: u32) -> (u8, u64) {
        self.keys[slot as usize]
    }

    /// All slots of the tree that `slot` belongs to.
    pub fn tree_of(&self, slot: u32) -> std::ops::Range<u32> {
        let next = self.tree_starts.partition_point(|&start| start <= slot as usize);
        self.tree_starts[next - 1] as u32..self.tree_starts[next] as u32
    }

    /// Writes the encoded key of a slot.
    pub fn encode(&self, slot: u32, out: &mut [u8]) {
        assert_eq!(out.len(), self.width, "a key buffer of another width");
        let (tree, key) = self.keys[slot as usize];
        let number = match (self.ranked, self.trees) {
            (false, _) => key,
            (true, Trees::One) => u64::from(slot),
            (true, Trees::PerIndex) => u64::from(slot - self.tree_of(slot).start),
        };
        out.fill(0);
        let bytes = number.to_be_bytes();
        let low = bytes.len().min(out.len());
        let at = out.len() - low;
        out[at..].copy_from_slice(&bytes[bytes.len() - low..]);
        if self.numbered {
            out[0] = tree;
        }
    }
}

fn fits(number: u64, bytes: usize) -> bool {
    bytes >= 8 || number < 1 << (8 * bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{PhaseOps, Values};
    use std::collections::BTreeMap;

    fn workload(keys: &[(u8, u64)]) -> Workload {
        let op = |&(tree, key): &(u8, u64)| Op { tree, ..Op::new(OpKind::Insert, key) };
        let phases = vec![PhaseOps::measured("w", keys.iter().map(op).collect())];
        Workload { name: String::new(), seed: 0, options: BTreeMap::new(), values: Values::default(), phases }
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
            let table = KeyTable::new(&workload(&keys), width, Trees::One).unwrap();
            assert!(table.is_ranked() && table.len() == 4);
            assert!(encoded(&table, width.into()).is_sorted_by(|a, b| a < b));
            assert_eq!(table.key(table.slot(&Op::new(OpKind::Get, 1 << 39))), (0, 1 << 39));
        }
        let wide = KeyTable::new(&workload(&keys), 12, Trees::One).unwrap();
        assert!(!wide.is_ranked());
        assert_eq!(encoded(&wide, 12)[3], [&[0; 4][..], &[0xff; 8]].concat());
    }

    #[test]
    fn keys_that_fit_are_stored_as_they_are() {
        let table = KeyTable::new(&workload(&[(0, 0xaa_bbcc), (0, 5)]), 4, Trees::One).unwrap();
        assert_eq!(encoded(&table, 4), [[0, 0, 0, 5], [0, 0xaa, 0xbb, 0xcc]]);
    }

    #[test]
    fn several_trees_share_one_by_the_number_in_front() {
        let keys = [(2, 7), (0, 9), (2, 1), (7, 0)];
        let table = KeyTable::new(&workload(&keys), 4, Trees::One).unwrap();
        assert_eq!(encoded(&table, 4), [[0, 0, 0, 9], [2, 0, 0, 1], [2, 0, 0, 7], [7, 0, 0, 0]]);
        assert_eq!(
            (table.tree_of(0), table.tree_of(1), table.tree_of(2), table.tree_of(3)),
            (0..1, 1..3, 1..3, 3..4)
        );
        let narrow = KeyTable::new(&workload(&keys), 1, Trees::One).unwrap();
        assert!(narrow.is_ranked());
        assert_eq!(encoded(&narrow, 1), [[0], [1], [2], [3]]);
    }

    #[test]
    fn a_forest_has_the_number_in_front_and_ranks_within_each_tree() {
        let keys = [(2, 700), (0, 9), (2, 1), (7, 0)];
        let whole = KeyTable::new(&workload(&keys), 2, Trees::PerIndex).unwrap();
        assert_eq!(encoded(&whole, 3), [[0, 0, 9], [2, 0, 1], [2, 700u16.to_be_bytes()[0], 188], [7, 0, 0]]);
        let ranked = KeyTable::new(&workload(&keys), 1, Trees::PerIndex).unwrap();
        assert_eq!(encoded(&ranked, 2), [[0, 0], [2, 0], [2, 1], [7, 0]]);
        let shares: Vec<_> = ranked.shares().iter().map(|s| (s.tree, s.records)).collect();
        assert_eq!(shares, [(0, 1), (2, 2), (7, 1)]);
        let two_hundred: Vec<(u8, u64)> = (0..400).map(|k| ((k % 2) as u8, k << 20)).collect();
        assert!(KeyTable::new(&workload(&two_hundred), 1, Trees::PerIndex).is_ok());
        assert!(KeyTable::new(&workload(&two_hundred), 1, Trees::One).is_err());
    }

    #[test]
    fn more_keys_than_the_width_can_tell_apart_are_refused() {
        let keys: Vec<(u8, u64)> = (0..257).map(|k| (0, k)).collect();
        assert!(KeyTable::new(&workload(&keys[..256]), 1, Trees::One).is_ok());
        assert!(
            KeyTable::new(&workload(&keys), 1, Trees::One)
                .unwrap_err()
                .to_string()
                .contains("257 distinct keys")
        );
    }
}
