//! Traces of RocksDB as its tools write them in words.
//!
//! Operations (`trace_analyzer -convert_to_human_readable_trace`): the key in hexadecimal and the numbers of
//! the operation and of the column family, the bytes of the value, the time; older tools have the key last.
//! Accesses of the block cache (`block_cache_trace_analyzer -human_readable_trace_file_path`): each look-up
//! of a key once. The tool numbers keys in the order in which it meets them, so theirs is lost.

use super::Sink;
use crate::input::{Lines, WrongLine};
use crate::trace::build::{Key, Span};
use std::collections::BTreeSet;
use std::io::BufRead;
use std::ops::Bound;

fn entry(line: &str) -> Option<(Vec<u8>, u32, u32)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.len() != 5 {
        return None;
    }
    let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    let (key, numbers) = match words[4] {
        last if !is_number(&last) => (last, &words[..4]),
        _ => (words[0], &words[1..]),
    };
    if !numbers.iter().all(is_number) {
        return None;
    }
    let digits = key.strip_prefix("0x").or_else(|| key.strip_prefix("0X")).unwrap_or(key);
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(pair).collect();
    let is_even = digits.len().is_multiple_of(2) && !digits.starts_with(['+', '-']);
    Some((bytes.filter(|_| is_even)?, numbers[0].parse().ok()?, numbers[1].parse().ok()?))
}

pub(super) fn is_entry(line: &str) -> bool {
    entry(line).is_some()
}

pub(super) fn read(log: impl BufRead, sink: &mut Sink<'_>) -> Result<(), WrongLine> {
    let mut lines = Lines::new(log);
    while let Some((number, line)) = lines.next_line()? {
        if line.trim().is_empty() {
            continue;
        }
        let Some((key, operation, family)) = entry(line) else {
            let why = "has not a key in hexadecimal and four numbers; was it written with -no_key?";
            return Err((number, why.to_string()));
        };
        let table = sink.builder.table(&format!("family {family}")).map_err(|reason| (number, reason))?;
        let key = Key::Text(key);
        match operation {
            0 | 8 => sink.builder.look_up(table, key, None),
            1 | 5 => {
                sink.builder.put(table, key);
            }
            2 | 3 => {
                sink.builder.remove(table, key);
            }
            // How far an iterator went the trace does not tell.
            6 => sink.builder.range(table, one(Bound::Included(key), Bound::Unbounded, false)),
            7 => sink.builder.range(table, one(Bound::Unbounded, Bound::Included(key), true)),
            _ => {
                sink.pass_over(number, line);
                continue;
            }
        }
        sink.followed += 1;
    }
    Ok(())
}

fn one(low: Bound<Key>, high: Bound<Key>, descending: bool) -> Span {
    Span { low, high, limit: Some(1), descending }
}

/// Number of columns of a block cache access.
const BLOCK_COLUMNS: std::ops::RangeInclusive<usize> = 16..=24;

/// Callers that look up a user's key: Get and MultiGet.
const GETS: [&str; 2] = ["1", "2"];

fn block(line: &str) -> Option<Vec<&str>> {
    let columns: Vec<&str> = line.split(',').collect();
    let numbers = [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11];
    let is_number = |at: &usize| columns[*at].parse::<u64>().is_ok();
    (BLOCK_COLUMNS.contains(&columns.len()) && numbers.iter().all(is_number)).then_some(columns)
}

pub(super) fn is_block(line: &str) -> bool {
    block(line).is_some()
}

pub(super) fn read_blocks(log: impl BufRead, sink: &mut Sink<'_>) -> Result<(), WrongLine> {
    let mut lines = Lines::new(log);
    // A look-up touches several blocks.
    let mut seen: BTreeSet<(u64, u64)> = BTreeSet::new();
    while let Some((number, line)) = lines.next_line()? {
        let Some(columns) = block(line) else {
            return Err((number, "is no access of a block cache".to_string()));
        };
        let (get, key) = (columns[10].parse().unwrap_or(0), columns[11].parse().unwrap_or(0));
        if !GETS.contains(&columns[8]) || get == 0 {
            sink.pass_over(number, line);
            continue;
        }
        sink.followed += 1;
        if seen.insert((get, key)) {
            let table = sink.builder.table(columns[5]).map_err(|reason| (number, reason))?;
            sink.builder.look_up(table, Key::Number(key.into()), None);
        }
    }
    Ok(())
}
