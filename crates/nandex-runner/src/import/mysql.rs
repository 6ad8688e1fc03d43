//! The general query log of MySQL and MariaDB.
//!
//! An entry is a time or nothing, the number of the connection with a command, and its argument, separated by
//! tabs; the lines of a statement follow as they are.

use super::Sink;
use super::sql::{self, Logged};
use crate::input::{Lines, WrongLine, require_room};
use std::io::BufRead;

fn entry(line: &str) -> Option<(u64, &str, &str)> {
    let mut begin = 0;
    for field in line.splitn(4, '\t').take(3) {
        let end = begin + field.len();
        let words = field.trim_start().split_once(' ');
        if let Some((number, command)) = words
            && let Ok(connection) = number.parse()
            && command.starts_with(|c: char| c.is_ascii_uppercase())
            && command.chars().all(|c| c.is_ascii_alphabetic() || c == ' ')
        {
            return Some((connection, command, line.get(end + 1..).unwrap_or_default()));
        }
        begin = end + 1;
    }
    None
}

pub(super) fn is_entry(line: &str) -> bool {
    entry(line).is_some()
}

pub(super) fn read(log: impl BufRead, sink: &mut Sink<'_>) -> Result<(), WrongLine> {
    let mut lines = Lines::new(log);
    let mut statements: Vec<Logged> = Vec::new();
    let mut is_open = false;
    while let Some((number, line)) = lines.next_line()? {
        require_room(&statements, "statements").map_err(|why| (number, why))?;
        match entry(line) {
            Some((connection, "Query" | "Execute", text)) => {
                statements.push(Logged::new(number, connection, text));
                is_open = true;
            }
            Some((connection, "Quit", _)) => {
                statements.push(Logged::new(number, connection, "rollback"));
                is_open = false;
            }
            Some(_) => is_open = false,
            None if is_open => {
                if let Some(last) = statements.last_mut() {
                    last.text.push('\n');
                    last.text.push_str(line);
                }
            }
            None => {}
        }
    }
    sql::follow(&statements, true, sink)
}
