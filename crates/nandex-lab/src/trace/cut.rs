//! Cutting a window out of a trace so that it stands alone.

use super::{Record, RecordKind, Trace};
use std::collections::HashMap;
use std::ops::Range;

/// The records at places `window`, with the contents that the trace had reached by then as initial contents. A
/// window beyond the end is shortened.
///
/// The initial contents are in the order in which they were inserted, so that a tree that replays them gets much the
/// shape it had: inserted in key order instead, it would be left with half-full leaves.
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
