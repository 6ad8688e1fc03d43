//! Imports traces from the logs of other systems: SQL statements, YCSB, RocksDB, tables of operations and
//! keys.
//!
//! Each format has a file that turns lines into operations of a [`Builder`]. Lines that are not understood
//! are skipped and counted; the first of them is shown.

mod mysql;
mod postgres;
mod rocksdb;
mod sql;
mod table;
#[cfg(test)]
mod tests;
mod ycsb;

use crate::LabError;
use crate::input::{self, Lines, WrongLine};
use crate::trace::Trace;
use crate::trace::build::{Builder, Numbering};
use std::io::BufRead;
use std::path::Path;
use std::str::FromStr;

/// A log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The general query log of MySQL or MariaDB.
    Mysql,
    /// The statement log of PostgreSQL (`log_statement = all`, or durations).
    Postgres,
    /// The lines that YCSB prints with its `basic` binding.
    Ycsb,
    /// Operations of RocksDB as `trace_analyzer -convert_to_human_readable_trace` writes them.
    Rocksdb,
    /// The block cache of RocksDB as `block_cache_trace_analyzer -human_readable_trace_file_path` writes it.
    RocksdbBlocks,
    /// Operations and keys, separated by commas.
    Csv,
}

/// All formats with their names.
pub const FORMATS: [(&str, Format); 6] = [
    ("mysql", Format::Mysql),
    ("postgres", Format::Postgres),
    ("ycsb", Format::Ycsb),
    ("rocksdb", Format::Rocksdb),
    ("rocksdb-blocks", Format::RocksdbBlocks),
    ("csv", Format::Csv),
];

impl FromStr for Format {
    type Err = LabError;

    fn from_str(name: &str) -> Result<Format, LabError> {
        let found = FORMATS.iter().find(|(known, _)| *known == name);
        let unknown = || LabError::unknown("format", name, FORMATS.iter().map(|(known, _)| *known));
        found.map(|(_, format)| *format).ok_or_else(unknown)
    }
}

impl Format {
    /// Name of the format.
    pub fn name(self) -> &'static str {
        FORMATS.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }
}

/// The options for reading a log.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The format. Absent means that it is guessed from the first lines.
    pub format: Option<Format>,
    /// The key column of each table, for SQL statements.
    pub keys: Vec<(String, String)>,
    /// The meaning of the columns of a table of operations without a header.
    pub columns: Option<String>,
    /// The way in which keys become numbers.
    pub numbering: Numbering,
    /// Whether the index was empty before. If so, a key that was not inserted is absent.
    pub starts_empty: bool,
    /// Whether to leave out the syncs at commits of transactions.
    pub without_syncs: bool,
}

/// The trace read from a log.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The operations.
    pub trace: Trace,
    /// The format.
    pub format: Format,
    /// Tables with their key columns, in the order of their numbers. The column is empty if the format has
    /// no columns.
    pub tables: Vec<(String, String)>,
    /// Number of lines or statements that were understood.
    pub followed: u64,
    /// Number of lines that were skipped.
    pub passed_over: u64,
    /// The first skipped line: its number and its text.
    pub first_passed: Option<(u64, String)>,
}

struct Sink<'a> {
    builder: Builder,
    options: &'a ImportOptions,
    columns: Vec<(String, String)>,
    followed: u64,
    passed_over: u64,
    first_passed: Option<(u64, String)>,
}

const SHOWN: usize = 120;

impl Sink<'_> {
    fn pass_over(&mut self, line: u64, text: &str) {
        self.passed_over += 1;
        if self.first_passed.is_none() {
            self.first_passed = Some((line, text.trim().chars().take(SHOWN).collect()));
        }
    }

    fn sync(&mut self) {
        if !self.options.without_syncs {
            self.builder.sync();
        }
    }
}

/// Reads a log, which may be packed with zstd.
pub fn import(path: &Path, options: &ImportOptions) -> Result<Imported, LabError> {
    let refused = |(line, reason): WrongLine| LabError::Trace {
        file: path.display().to_string(),
        place: (line > 0).then(|| format!("line {line}")),
        reason,
    };
    let format = match options.format {
        Some(format) => format,
        None => detect(input::open(path)?).map_err(refused)?,
    };
    let mut sink = Sink {
        builder: Builder::new(options.starts_empty),
        options,
        columns: Vec::new(),
        followed: 0,
        passed_over: 0,
        first_passed: None,
    };
    let log = input::open(path)?;
    let read = match format {
        Format::Mysql => mysql::read(log, &mut sink),
        Format::Postgres => postgres::read(log, &mut sink),
        Format::Ycsb => ycsb::read(log, &mut sink),
        Format::Rocksdb => rocksdb::read(log, &mut sink),
        Format::RocksdbBlocks => rocksdb::read_blocks(log, &mut sink),
        Format::Csv => table::read(log, &mut sink),
    };
    read.map_err(refused)?;
    if sink.builder.operations() == 0 {
        let seen =
            sink.first_passed.map_or_else(String::new, |(line, text)| format!("; line {line}: {text}"));
        return Err(refused((0, format!("as {} it has no operation on a key{seen}", format.name()))));
    }
    let column = |table: &str| sink.columns.iter().find(|(name, _)| name == table).map(|(_, c)| c.clone());
    let tables = sink.builder.tables().map(|name| (name.to_string(), column(name).unwrap_or_default()));
    let tables = tables.collect();
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    Ok(Imported {
        trace: sink.builder.finish(&name, options.numbering),
        format,
        tables,
        followed: sink.followed,
        passed_over: sink.passed_over,
        first_passed: sink.first_passed,
    })
}

/// Number of lines by which the format is guessed.
const LOOKED_AT: u64 = 200;

fn detect(log: impl BufRead) -> Result<Format, WrongLine> {
    let mut lines = Lines::new(log);
    while let Some((number, line)) = lines.next_line()? {
        let found = if mysql::is_entry(line) {
            Some(Format::Mysql)
        } else if postgres::is_entry(line) {
            Some(Format::Postgres)
        } else if ycsb::is_entry(line) {
            Some(Format::Ycsb)
        } else if rocksdb::is_entry(line) {
            Some(Format::Rocksdb)
        } else if rocksdb::is_block(line) {
            Some(Format::RocksdbBlocks)
        } else if table::is_entry(line) {
            Some(Format::Csv)
        } else {
            None
        };
        if let Some(found) = found {
            return Ok(found);
        }
        if number == LOOKED_AT {
            break;
        }
    }
    let names: Vec<&str> = FORMATS.iter().map(|(name, _)| *name).collect();
    Err((0, format!("is of no known format; say which it is of {}", names.join(", "))))
}
