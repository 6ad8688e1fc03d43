//! Cutting a window out of a trace so that it stands alone.

use super::summary::Contents;
use super::{Record, RecordKind, Trace};
use std::ops::Range;

/// The records at places `window`, with the contents that the trace had reached by then as initial contents. A
/// window beyond the end is shortened.
pub fn cut(trace: &Trace, window: Range<usize>) -> Trace {
    let end = window.end.min(trace.records.len());
    let start = window.start.min(end);
    let mut contents = Contents::default();
    for record in trace.init.iter().chain(&trace.records[..start]) {
        // A contradiction in the full trace is none of the cut's business: the contents follow the operations.
        let _ = contents.apply(record);
    }
    let insert = |(tree, key)| Record { kind: RecordKind::Insert, tree, flags: 0, count: 1, key };
    let init = contents.sorted().into_iter().map(insert).collect();
    Trace { name: trace.name.clone(), init, records: trace.records[start..end].to_vec() }
}
