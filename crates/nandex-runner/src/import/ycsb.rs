//! YCSB's `basic` binding, which prints each operation: `READ usertable user123 [ <all fields>]`.

use super::Sink;
use crate::input::{Lines, WrongLine};
use crate::trace::build::{Key, Span};
use std::io::BufRead;
use std::ops::Bound;

const WORDS: [&str; 5] = ["READ", "SCAN", "UPDATE", "INSERT", "DELETE"];

pub(super) fn is_entry(line: &str) -> bool {
    let mut words = line.split(' ');
    words.next().is_some_and(|word| WORDS.contains(&word)) && words.count() >= 2
}

pub(super) fn read(log: impl BufRead, sink: &mut Sink<'_>) -> Result<(), WrongLine> {
    let mut lines = Lines::new(log);
    while let Some((number, line)) = lines.next_line()? {
        // Besides there are settings, the progress and the summary.
        if !is_entry(line) {
            continue;
        }
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        let table = sink.builder.table(words[1]).map_err(|reason| (number, reason))?;
        let key = Key::Text(words[2].as_bytes().to_vec());
        match words[0] {
            "READ" => sink.builder.look_up(table, key, None),
            "UPDATE" => {
                sink.builder.update(table, key);
            }
            "INSERT" => {
                sink.builder.put(table, key);
            }
            "DELETE" => {
                sink.builder.remove(table, key);
            }
            _ => {
                let limit = words.get(3).and_then(|word| word.parse().ok());
                let Some(limit) = limit.filter(|limit| *limit > 0) else {
                    return Err((number, "a SCAN has a key and a count".to_string()));
                };
                let low = Bound::Included(key);
                let span = Span { low, high: Bound::Unbounded, limit: Some(limit), descending: false };
                sink.builder.range(table, span);
            }
        }
        sink.followed += 1;
    }
    Ok(())
}
