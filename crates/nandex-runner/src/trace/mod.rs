//! Traces: recorded operations of real index trees, read from files.
//!
//! Two forms, both plain or compressed with zstd (known by its magic number): OPS1, the binary form
//! ([`ops1`]), and a text form ([`text`]). A name ending in `.ops` (before `.zst`) is OPS1; of other files
//! the first byte decides.
//!
//! A trace may have a second file with the contents before it began: `NAME.init.ops` beside `NAME.ops`, each
//! plain or `.zst`. It is found by its name and becomes an unmeasured phase "init".
//!
//! Decompression is by the `zstd` crate, the reference implementation: it reads the long windows these files
//! are packed with, is several times faster than the pure-Rust decoder, and can also pack well, which cutting
//! needs.

pub mod build;
mod cut;
pub mod ops1;
pub mod stats;
mod summary;
pub mod text;
mod write;

pub use cut::{cut, ranked};
pub use summary::{TraceSummary, TreeSummary};
pub use write::{write, write_text};

use crate::error::LabError;
use crate::input;
use crate::workload::{Op, OpKind, PhaseOps, Values, Workload};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The kind of a recorded operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum RecordKind {
    /// A look-up that found its key.
    Hit = 0,
    /// A look-up whose key was absent.
    Miss = 1,
    /// An insertion of an absent key.
    Insert = 2,
    /// A deletion of a present key.
    Delete = 3,
    /// An update of a present key.
    Modify = 4,
    /// A range search of `count` keys.
    Range = 5,
    /// A look-up with unknown outcome (only in the text form).
    Get = 6,
    /// A durability barrier (only in the text form).
    Sync = 7,
}

/// One recorded operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The kind of the operation.
    pub kind: RecordKind,
    /// The number of its index; 0 if there is only one.
    pub tree: u8,
    /// Notes of the capture; their meaning depends on the trace.
    pub flags: u16,
    /// Number of keys that a range search scans; otherwise 1.
    pub count: u32,
    /// The key, or the start of a range.
    pub key: u64,
}

/// How a trace is read.
#[derive(Clone, Debug, Default)]
pub struct TraceOptions {
    /// The file with the contents before the trace. If absent, the file beside the trace is used if there
    /// is one.
    pub init: Option<PathBuf>,
    /// Whether to refuse a record that contradicts those before it, such as an insertion of a present key
    /// or a hit of an absent one.
    pub strict: bool,
    /// Number of operations to read; absent means all.
    pub operations: Option<u64>,
    /// Whether bit 0 of a range's flags means that it runs downwards, as in the captures OLTP-A and OLAP-B.
    pub descending_flag: bool,
}

/// A trace in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The file's name without folder and extensions.
    pub name: String,
    /// The contents before the trace, as insertions.
    pub init: Vec<Record>,
    /// The operations.
    pub records: Vec<Record>,
}

impl Trace {
    /// Reads a trace with its initial contents, if it has some.
    pub fn read(path: &Path, options: &TraceOptions) -> Result<Trace, LabError> {
        let init_path = options.init.clone().or_else(|| init_of(path));
        let init = match &init_path {
            Some(init) => read_records(init, None)?,
            None => Vec::new(),
        };
        let trace = Trace { name: stem(path), init, records: read_records(path, options.operations)? };
        if options.strict {
            summary::check(&trace).map_err(|(in_init, number, reason)| LabError::Trace {
                file: if in_init { init_path.as_deref().unwrap_or(path) } else { path }.display().to_string(),
                place: Some(format!("operation {number}")),
                reason,
            })?;
        }
        Ok(trace)
    }

    /// The counts of the trace, including those by the paper's way of counting.
    pub fn summary(&self) -> TraceSummary {
        TraceSummary::of(self)
    }

    /// The trace as a workload: an unmeasured phase with the initial contents, if any, and a measured
    /// phase.
    pub fn workload(&self, options: &TraceOptions) -> Workload {
        let ops = |records: &[Record]| records.iter().map(|r| r.op(options.descending_flag)).collect();
        let mut phases = Vec::new();
        if !self.init.is_empty() {
            phases.push(PhaseOps::unmeasured("init", ops(&self.init)));
        }
        phases.push(PhaseOps::measured("trace", ops(&self.records)));
        let mut used = BTreeMap::new();
        if let Some(n) = options.operations {
            used.insert("operations".to_string(), n.to_string());
        }
        Workload { name: self.name.clone(), seed: 0, options: used, values: Values::default(), phases }
    }
}

impl Record {
    /// The operation on the index.
    pub fn op(&self, descending_flag: bool) -> Op {
        let kind = match self.kind {
            RecordKind::Hit | RecordKind::Miss | RecordKind::Get => OpKind::Get,
            RecordKind::Insert => OpKind::Insert,
            RecordKind::Delete => OpKind::Remove,
            RecordKind::Modify => OpKind::Update,
            RecordKind::Range if descending_flag && self.flags & 1 == 1 => OpKind::RangeDown,
            RecordKind::Range => OpKind::Range,
            RecordKind::Sync => OpKind::Sync,
        };
        Op { kind, tree: self.tree, count: self.count, key: self.key }
    }
}

/// The file's name without folder, `.zst`, `.ops`, `.txt` and `.init`.
fn stem(path: &Path) -> String {
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let without = |name: &str, end: &str| name.strip_suffix(end).unwrap_or(name).to_string();
    [".zst", ".ops", ".txt", ".init"].iter().fold(name, |name, end| without(&name, end))
}

/// The file `DIR/NAME.init.EXT` of `DIR/NAME.EXT`, plain or compressed, if it exists.
pub fn init_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let plain = name.strip_suffix(".zst").unwrap_or(name);
    let (base, extension) = plain.rsplit_once('.')?;
    [".zst", ""]
        .iter()
        .map(|packed| path.with_file_name(format!("{base}.init.{extension}{packed}")))
        .find(|beside| beside.is_file())
}

fn is_ops1_name(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.strip_suffix(".zst").unwrap_or(&name).ends_with(".ops")
}

fn read_records(path: &Path, limit: Option<u64>) -> Result<Vec<Record>, LabError> {
    let mut input = input::open(path)?;
    let damaged = |place: Option<String>, reason: String| LabError::Trace {
        file: path.display().to_string(),
        place,
        reason,
    };
    let limit = limit.unwrap_or(u64::MAX);
    let is_ops1 = is_ops1_name(path)
        || input.fill_buf().map_err(|e| damaged(None, e.to_string()))?.first().is_some_and(|&b| b < b'\t');
    if is_ops1 {
        let mut reader = ops1::Reader::new(input);
        let mut records = Vec::new();
        while (records.len() as u64) < limit {
            let read = reader.next().transpose().and_then(|read| {
                input::require_room(&records, "records")?;
                Ok(read)
            });
            match read.map_err(|reason| damaged(Some(reader.place()), reason))? {
                Some(record) => records.push(record),
                None => break,
            }
        }
        Ok(records)
    } else {
        text::read(input, limit).map_err(|(line, reason)| damaged(Some(format!("line {line}")), reason))
    }
}

fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests;
