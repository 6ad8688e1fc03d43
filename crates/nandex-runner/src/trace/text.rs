//! The text form of a trace: one operation a line.
//!
//! ```text
//! # a comment, also after an operation; empty lines mean nothing
//! insert 42            the key 42 is new
//! get 42               looked up; `hit` and `miss` say also what came of it, for --strict
//! update 0x2a          the key gets a new value; numbers may be hexadecimal and have _ between digits
//! range 10 100         100 records from 10 upwards
//! range 10 -100        100 records from 10 downwards
//! remove 3:42          the key 42 of index 3; without `INDEX:` it is index 0
//! sync                 everything before is made durable
//! ```

use super::{Record, RecordKind};
use crate::input::{Lines, WrongLine, require_room};
use std::io::BufRead;

/// Bit 0 of a range's flags: the range runs downwards.
pub const DESCENDING: u16 = 1;

/// Reads at most `limit` operations. An error gives the number of the line, counted from 1.
pub fn read(input: impl BufRead, limit: u64) -> Result<Vec<Record>, WrongLine> {
    let mut records = Vec::new();
    let mut lines = Lines::new(input);
    while (records.len() as u64) < limit {
        let Some((number, text)) = lines.next_line()? else { break };
        require_room(&records, "operations").map_err(|why| (number, why))?;
        records.extend(parse(text).map_err(|reason| (number, reason))?);
    }
    Ok(records)
}

/// Parses the operation of a line; `None` if the line has none.
pub fn parse(line: &str) -> Result<Option<Record>, String> {
    let line = line.split_once('#').map_or(line, |(before, _)| before);
    let words: Vec<&str> = line.split_whitespace().collect();
    let (kind, arguments) = match words.first() {
        None => return Ok(None),
        Some(&word) => (kind(word)?, &words[1..]),
    };
    let mut record = Record { kind, tree: 0, flags: 0, count: 1, key: 0 };
    match (kind, arguments) {
        (RecordKind::Sync, []) => {}
        (RecordKind::Range, [key, count]) => {
            (record.tree, record.key) = tree_and_key(key)?;
            let (digits, down) = count.strip_prefix('-').map_or((*count, 0), |rest| (rest, DESCENDING));
            record.flags = down;
            record.count = u32::try_from(number(digits)?).unwrap_or(0);
            if record.count == 0 {
                return Err(format!("'{count}' is no count of records"));
            }
        }
        (RecordKind::Range, _) => return Err(String::from("a range has a key and a count")),
        (RecordKind::Sync, _) => return Err(String::from("a sync has no key")),
        (_, [key]) => (record.tree, record.key) = tree_and_key(key)?,
        _ => return Err(format!("'{}' has one key", words[0])),
    }
    Ok(Some(record))
}

fn kind(word: &str) -> Result<RecordKind, String> {
    Ok(match word {
        "get" => RecordKind::Get,
        "hit" => RecordKind::Hit,
        "miss" => RecordKind::Miss,
        "insert" => RecordKind::Insert,
        "remove" => RecordKind::Delete,
        "update" => RecordKind::Modify,
        "range" => RecordKind::Range,
        "sync" => RecordKind::Sync,
        _ => {
            return Err(format!(
                "there is no operation '{word}'; known: get, hit, miss, insert, remove, update, range, sync"
            ));
        }
    })
}

fn tree_and_key(word: &str) -> Result<(u8, u64), String> {
    let (tree, key) = word.split_once(':').unwrap_or(("0", word));
    let tree = u8::try_from(number(tree)?).map_err(|_| format!("'{tree}' is no index number below 256"))?;
    Ok((tree, number(key)?))
}

fn number(word: &str) -> Result<u64, String> {
    let digits = word.replace('_', "");
    let parsed = match digits.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
        None => digits.parse(),
    };
    parsed.map_err(|_| format!("'{word}' is no number below 2^64"))
}
