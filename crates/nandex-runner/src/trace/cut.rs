//! Cuts a window out of a trace, with the contents at its start.

use super::{Record, RecordKind, Trace};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// The records with the indices of `window`. The contents that the trace had by then become the initial
/// contents. A window beyond the end is shortened.
///
/// The initial contents are in the order of their insertion, so that a tree that replays them has nearly
/// the same shape. In key order its leaves would be half full.
pub fn cut(trace: &Trace, window: Range<usize>) -> Trace {
    let end = window.end.min(trace.records.len());
    let start = window.start.min(end);
    // The time of insertion of every key present.
    let mut present = HashMap::new();
    for (time, record) in trace.init.iter().chain(&trace.records[..start]).enumerate() {
        let key = (record.tree, record.key);
        match record.kind {
            RecordKind::Insert => drop(present.entry(key).or_insert(time)),
            RecordKind::Delete => drop(present.remove(&key)),
            _ => {}
        }
    }
    let mut contents: Vec<(usize, (u8, u64))> = present.into_iter().map(|(key, time)| (time, key)).collect();
    contents.sort_unstable();
    let insert = |(_, (tree, key))| Record { kind: RecordKind::Insert, tree, flags: 0, count: 1, key };
    let init = contents.into_iter().map(insert).collect();
    Trace { name: trace.name.clone(), init, records: trace.records[start..end].to_vec() }
}

/// The trace with each key replaced by its rank among the keys of its index. Trees do not change as long as
/// they only compare keys. Ranks are small and dense, so the file becomes small.
pub fn ranked(trace: &Trace) -> Trace {
    let mut keys: BTreeMap<u8, BTreeSet<u64>> = BTreeMap::new();
    for record in trace.init.iter().chain(&trace.records) {
        keys.entry(record.tree).or_default().insert(record.key);
    }
    let number = |keys: BTreeSet<u64>| keys.into_iter().zip(0..).collect();
    let ranks: BTreeMap<u8, HashMap<u64, u64>> =
        keys.into_iter().map(|(tree, keys)| (tree, number(keys))).collect();
    let rank = |record: &Record| Record { key: ranks[&record.tree][&record.key], ..*record };
    let [init, records] = [&trace.init, &trace.records].map(|records| records.iter().map(rank).collect());
    Trace { name: trace.name.clone(), init, records }
}
