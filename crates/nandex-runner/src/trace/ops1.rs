//! OPS1: a bare sequence of 16-byte little-endian records, no header.
//!
//! | offset | type | field |
//! |---|---|---|
//! | 0 | u8 | operation: 0 hit, 1 miss, 2 insert, 3 delete, 4 modify, 5 range |
//! | 1 | u8 | which index |
//! | 2 | u16 | flags, their meaning depends on the trace |
//! | 4 | u32 | keys scanned by a range, at least 1; 1 otherwise |
//! | 8 | u64 | key |
//!
//! An insertion of a count above 1 stands for so many insertions, of the key and the numbers after it:
//! initial contents whose keys are dense ([`runs`]) take few records.

use super::{Record, RecordKind, read_full};
use crate::error::LabError;
use nandex::codec::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// Size of a record, in bytes.
pub const RECORD_BYTES: usize = 16;

/// Most keys of a run of insertions, so that one record of a bad file cannot ask for all memory.
const RUN_MAX: u32 = 1 << 20;

/// Reads records one after the other and splits runs of insertions into single ones. It ends after the
/// first bad record.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    read: u64,
    ended: bool,
    /// The rest of the current run of insertions.
    run: Option<Record>,
}

impl<R: Read> Reader<R> {
    /// Reads plain records, which are not compressed.
    pub fn new(input: R) -> Reader<R> {
        Reader { input, read: 0, ended: false, run: None }
    }

    /// The position of the last record read, in words; records are numbered from 1.
    pub fn place(&self) -> String {
        let number = self.read.max(1);
        format!("record {number} (byte {})", (number - 1) * RECORD_BYTES as u64)
    }

    /// The next record; a run of insertions yields one at a time.
    fn next_single(&mut self) -> Result<Option<Record>, String> {
        let record = match self.run.take() {
            Some(left) => left,
            None => match self.next_record()? {
                Some(record) => record,
                None => return Ok(None),
            },
        };
        if record.kind != RecordKind::Insert || record.count == 1 {
            return Ok(Some(record));
        }
        self.run = Some(Record { count: record.count - 1, key: record.key + 1, ..record });
        Ok(Some(Record { count: 1, ..record }))
    }

    fn next_record(&mut self) -> Result<Option<Record>, String> {
        let mut bytes = [0; RECORD_BYTES];
        self.read += 1;
        match read_full(&mut self.input, &mut bytes).map_err(|e| format!("cannot be read: {e}"))? {
            0 => {
                self.read -= 1;
                Ok(None)
            }
            RECORD_BYTES => decode(&bytes).map(Some),
            got => Err(format!("is cut off after {got} of {RECORD_BYTES} bytes")),
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, String>;

    fn next(&mut self) -> Option<Result<Record, String>> {
        if self.ended {
            return None;
        }
        let record = self.next_single().transpose();
        self.ended = !matches!(record, Some(Ok(_)));
        record
    }
}

/// Decodes a record of 16 bytes; the error names the fault.
pub fn decode(bytes: &[u8; RECORD_BYTES]) -> Result<Record, String> {
    let kind = match bytes[0] {
        0 => RecordKind::Hit,
        1 => RecordKind::Miss,
        2 => RecordKind::Insert,
        3 => RecordKind::Delete,
        4 => RecordKind::Modify,
        5 => RecordKind::Range,
        unknown => return Err(format!("has the unknown operation {unknown}; known are 0 to 5")),
    };
    let count = get_u32(bytes, 4);
    if count == 0 {
        return Err(String::from("has a count of 0"));
    }
    let key = get_u64(bytes, 8);
    let is_run = kind == RecordKind::Insert && count > 1;
    if is_run && (count > RUN_MAX || key.checked_add(u64::from(count) - 1).is_none()) {
        return Err(format!(
            "has a run of {count} insertions; at most {RUN_MAX} up to the largest key are possible"
        ));
    }
    Ok(Record { kind, tree: bytes[1], flags: get_u16(bytes, 2), count, key })
}

/// Joins insertions of consecutive keys, in this order, to runs.
pub fn runs(records: &[Record]) -> Vec<Record> {
    let mut runs: Vec<Record> = Vec::new();
    for &record in records {
        match runs.last_mut() {
            Some(run) if follows(run, &record) => run.count += 1,
            _ => runs.push(record),
        }
    }
    runs
}

fn follows(run: &Record, record: &Record) -> bool {
    let next = Record { count: 1, key: run.key.wrapping_add(u64::from(run.count)), ..*run };
    run.kind == RecordKind::Insert && run.count < RUN_MAX && next == *record && record.key > run.key
}

/// Encodes a record in 16 bytes. A look-up with unknown outcome and a sync have no code in OPS1 and yield
/// `None`.
pub fn encode(record: &Record) -> Option<[u8; RECORD_BYTES]> {
    if matches!(record.kind, RecordKind::Get | RecordKind::Sync) {
        return None;
    }
    let mut bytes = [0; RECORD_BYTES];
    bytes[0] = record.kind as u8;
    bytes[1] = record.tree;
    put_u16(&mut bytes, 2, record.flags);
    put_u32(&mut bytes, 4, record.count);
    put_u64(&mut bytes, 8, record.key);
    Some(bytes)
}

/// Writes records; if the file name ends in `.zst`, they are compressed with zstd (level 19).
pub fn write(path: &Path, records: &[Record]) -> Result<(), LabError> {
    let failed = |error| LabError::io(path.display(), error);
    let mut bytes = Vec::with_capacity(records.len() * RECORD_BYTES);
    for (i, record) in records.iter().enumerate() {
        bytes.extend_from_slice(&encode(record).ok_or_else(|| LabError::Trace {
            file: path.display().to_string(),
            place: Some(format!("record {}", i + 1)),
            reason: format!("{:?} has no code in OPS1", record.kind),
        })?);
    }
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    if path.extension().is_some_and(|e| e == "zst") {
        zstd::stream::copy_encode(&bytes[..], &mut file, 19).map_err(failed)?;
    } else {
        file.write_all(&bytes).map_err(failed)?;
    }
    file.flush().map_err(failed)
}
