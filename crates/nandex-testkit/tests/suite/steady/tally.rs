//! How often operations ask the heap for memory, kind by kind.

use nandex_testkit::heap;
use std::collections::BTreeMap;
use std::fmt;

/// Calls of an operation, and how often all of them asked.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    calls: usize,
    requests: usize,
}

/// The operations of a subject by name.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    rows: BTreeMap<&'static str, Asked>,
}

impl Tally {
    /// Runs an operation, which must not fail, and counts what it asks.
    pub(crate) fn count<T, E: fmt::Display>(
        &mut self,
        name: &'static str,
        run: impl FnOnce() -> Result<T, E>,
    ) -> T {
        let (done, held) = heap::measure(run);
        let row = self.rows.entry(name).or_default();
        *row = Asked { calls: row.calls + 1, requests: row.requests + held.requests };
        done.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Requests in a hundred calls of each operation, rounded up.
    pub(crate) fn in_hundred(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.rows.iter().map(|(name, row)| (*name, (row.requests * 100).div_ceil(row.calls)))
    }
}
