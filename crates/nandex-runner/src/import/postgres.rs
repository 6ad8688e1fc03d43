//! The statement log of PostgreSQL, as it goes to stderr.
//!
//! `LOG:  statement: ...`, `LOG:  execute NAME: ...` with its parameters in the `DETAIL:` after it, each with
//! a duration before it or not; lines that go on begin with a tab. The number in the first `[...]` of the
//! prefix is the connection. An `ERROR:` undoes the statement before it and its transaction.

use super::Sink;
use super::sql::{self, Logged};
use crate::input::{Lines, WrongLine, require_room};
use crate::trace::build::Key;
use std::io::BufRead;

const KINDS: [&str; 11] = [
    "LOG:  ",
    "DETAIL:  ",
    "ERROR:  ",
    "STATEMENT:  ",
    "FATAL:  ",
    "PANIC:  ",
    "WARNING:  ",
    "HINT:  ",
    "CONTEXT:  ",
    "NOTICE:  ",
    "QUERY:  ",
];

fn message(line: &str) -> Option<(u64, &'static str, &str)> {
    let found = KINDS.iter().filter_map(|kind| line.find(kind).map(|at| (at, *kind))).min()?;
    let (prefix, text) = (&line[..found.0], &line[found.0 + found.1.len()..]);
    let number = prefix.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let connection = number.and_then(|(number, _)| number.parse().ok()).unwrap_or(0);
    Some((connection, found.1.trim_end_matches([':', ' ']), text))
}

fn statement(text: &str) -> Option<&str> {
    let text = match text.strip_prefix("duration: ") {
        Some(rest) => rest.split_once(" ms  ")?.1,
        None => text,
    };
    match text.strip_prefix("statement: ") {
        Some(statement) => Some(statement),
        None => text.strip_prefix("execute ")?.split_once(": ").map(|(_, statement)| statement),
    }
}

pub(super) fn is_entry(line: &str) -> bool {
    matches!(message(line), Some((_, "LOG", text)) if statement(text).is_some())
}

pub(super) fn read(log: impl BufRead, sink: &mut Sink<'_>) -> Result<(), WrongLine> {
    let mut lines = Lines::new(log);
    let mut statements: Vec<Logged> = Vec::new();
    let mut is_open = false;
    while let Some((number, line)) = lines.next_line()? {
        require_room(&statements, "statements").map_err(|why| (number, why))?;
        if let Some(more) = line.strip_prefix('\t') {
            if let Some(last) = statements.last_mut().filter(|_| is_open) {
                last.text.push('\n');
                last.text.push_str(more);
            }
            continue;
        }
        is_open = false;
        let Some((connection, kind, text)) = message(line) else { continue };
        let mut before = statements.iter_mut().rev().take(64).filter(|last| last.connection == connection);
        match (kind, statement(text)) {
            ("LOG", Some(text)) => {
                statements.push(Logged::new(number, connection, text));
                is_open = true;
            }
            ("DETAIL", _) => {
                let list = text.split_once("arameters: ").map(|(_, list)| parameters(list));
                if let (Some(list), Some(last)) = (list, before.next()) {
                    last.parameters = list;
                }
            }
            ("ERROR" | "FATAL", _) => before.next().into_iter().for_each(|last| last.failed = true),
            _ => {}
        }
    }
    sql::follow(&statements, false, sink)
}

/// Parses parameters such as `$1 = '5', $2 = NULL`.
fn parameters(text: &str) -> Vec<Option<Key>> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some((_, value)) = rest.split_once(" = ") {
        let Some(quoted) = value.strip_prefix('\'') else {
            found.push(None);
            rest = value;
            continue;
        };
        let (mut word, mut chars) = (String::new(), quoted.char_indices().peekable());
        rest = "";
        while let Some((at, c)) = chars.next() {
            if c == '\'' {
                if chars.peek().is_none_or(|(_, next)| *next != '\'') {
                    rest = &quoted[at + 1..];
                    break;
                }
                chars.next();
            }
            word.push(c);
        }
        found.push(Some(Key::of_word(&word)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_in_quotes_or_null() {
        let number = |n| Some(Key::Number(n));
        let list = "$1 = '5', $2 = NULL, $3 = 'it''s = ''x'', y', $4 = '-3'";
        let text = Some(Key::Text(b"it's = 'x', y".to_vec()));
        assert_eq!(parameters(list), [number(5), None, text, number(-3)]);
        assert_eq!(parameters("$1 = 'open"), [Some(Key::Text(b"open".to_vec()))]);
    }
}
