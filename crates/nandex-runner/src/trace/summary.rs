//! The summary of a trace: operations by kind, sizes of its trees, contradictions, and the mu-Tree paper's
//! way of counting.

use super::{Record, RecordKind, Trace};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};

/// The counts of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TraceSummary {
    /// Number of operations without the initial contents.
    pub operations: u64,
    /// Number of records before the trace.
    pub init_records: u64,
    /// Number of look-ups that found their key.
    pub hits: u64,
    /// Number of look-ups that did not find their key.
    pub misses: u64,
    /// Number of look-ups with unknown outcome.
    pub gets: u64,
    /// Number of insertions.
    pub inserts: u64,
    /// Number of deletions.
    pub deletes: u64,
    /// Number of updates.
    pub modifies: u64,
    /// Number of range searches.
    pub ranges: u64,
    /// Number of syncs.
    pub syncs: u64,
    /// Number of operations that contradict those before them.
    pub contradictions: u64,
    /// The counts of each index.
    pub trees: BTreeMap<u8, TreeSummary>,
    /// Number of operations by the letter in the high byte of the flags, if there is one. The instrumented
    /// ReiserFS logged these letters (R look-up, I insert item, P paste into item, D delete item, C cut
    /// from item).
    pub letters: BTreeMap<char, u64>,
}

/// The counts of one index of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TreeSummary {
    /// Number of operations without the initial contents.
    pub operations: u64,
    /// Most records at one time.
    pub records_max: u64,
    /// Number of records at the end.
    pub records_end: u64,
    /// Smallest accessed key.
    pub key_min: u64,
    /// Largest accessed key.
    pub key_max: u64,
}

impl TraceSummary {
    pub(super) fn of(trace: &Trace) -> TraceSummary {
        let mut summary = TraceSummary { init_records: trace.init.len() as u64, ..TraceSummary::default() };
        let mut contents = Contents::default();
        for record in &trace.init {
            summary.contradictions += u64::from(contents.apply(record).is_err());
            summary.note_tree(record, &contents);
        }
        for record in &trace.records {
            summary.contradictions += u64::from(contents.apply(record).is_err());
            summary.note_tree(record, &contents);
            summary.note_kind(record);
        }
        summary
    }

    fn note_kind(&mut self, record: &Record) {
        self.operations += 1;
        *match record.kind {
            RecordKind::Hit => &mut self.hits,
            RecordKind::Miss => &mut self.misses,
            RecordKind::Get => &mut self.gets,
            RecordKind::Insert => &mut self.inserts,
            RecordKind::Delete => &mut self.deletes,
            RecordKind::Modify => &mut self.modifies,
            RecordKind::Range => &mut self.ranges,
            RecordKind::Sync => &mut self.syncs,
        } += 1;
        if record.kind != RecordKind::Sync {
            self.trees.entry(record.tree).or_default().operations += 1;
        }
        let letter = char::from((record.flags >> 8) as u8);
        if letter.is_ascii_uppercase() {
            *self.letters.entry(letter).or_default() += 1;
        }
    }

    fn note_tree(&mut self, record: &Record, contents: &Contents) {
        if record.kind == RecordKind::Sync {
            return;
        }
        let fresh = TreeSummary { key_min: u64::MAX, ..TreeSummary::default() };
        let tree = self.trees.entry(record.tree).or_insert(fresh);
        tree.key_min = tree.key_min.min(record.key);
        tree.key_max = tree.key_max.max(record.key);
        tree.records_end = contents.records(record.tree);
        tree.records_max = tree.records_max.max(tree.records_end);
    }

    /// Number of retrievals, insertions and deletions as counted in Table 4 of the mu-Tree paper: R, I + P
    /// and D + C of the log. `None` for a trace without letters.
    pub fn paper_counts(&self) -> Option<(u64, u64, u64)> {
        let of = |letter| self.letters.get(&letter).copied().unwrap_or(0);
        (!self.letters.is_empty()).then(|| (of('R'), of('I') + of('P'), of('D') + of('C')))
    }
}

#[derive(Clone, Debug, Default)]
struct Contents {
    trees: BTreeMap<u8, HashSet<u64>>,
}

impl Contents {
    fn records(&self, tree: u8) -> u64 {
        self.trees.get(&tree).map_or(0, |keys| keys.len() as u64)
    }

    /// Applies a record; the error names the contradiction.
    fn apply(&mut self, record: &Record) -> Result<(), &'static str> {
        let keys = self.trees.entry(record.tree).or_default();
        let sound = match record.kind {
            RecordKind::Insert => keys.insert(record.key),
            RecordKind::Delete => keys.remove(&record.key),
            RecordKind::Hit | RecordKind::Modify => keys.contains(&record.key),
            RecordKind::Miss => !keys.contains(&record.key),
            RecordKind::Get | RecordKind::Range | RecordKind::Sync => true,
        };
        match (sound, record.kind) {
            (true, _) => Ok(()),
            (false, RecordKind::Insert) => Err("inserts a key that is present"),
            (false, RecordKind::Delete) => Err("deletes a key that is absent"),
            (false, RecordKind::Modify) => Err("updates a key that is absent"),
            (false, RecordKind::Miss) => Err("misses a key that is present"),
            (false, _) => Err("finds a key that is absent"),
        }
    }
}

/// Finds the first record that contradicts those before it. The error tells whether it is one of the
/// initial contents, its number from 1, and the reason.
pub(super) fn check(trace: &Trace) -> Result<(), (bool, u64, String)> {
    let mut contents = Contents::default();
    for (in_init, records) in [(true, &trace.init), (false, &trace.records)] {
        for (i, record) in records.iter().enumerate() {
            let explain =
                |what| (in_init, i as u64 + 1, format!("{what} (index {}, key {})", record.tree, record.key));
            contents.apply(record).map_err(explain)?;
        }
    }
    Ok(())
}
