//! Operations and keys as a table: `get,42`, with a header that names the columns or without one.

use super::Sink;
use crate::input::{BoundedLines, WrongLine};
use crate::trace::build::{Key, Span};
use std::io::BufRead;
use std::ops::Bound;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Operation,
    Key,
    Count,
    Table,
}

/// Column names that a header may use, with their meanings.
const COLUMNS: [(&str, Column); 16] = [
    ("op", Column::Operation),
    ("operation", Column::Operation),
    ("command", Column::Operation),
    ("cmd", Column::Operation),
    ("type", Column::Operation),
    ("key", Column::Key),
    ("key_id", Column::Key),
    ("anonymized_key", Column::Key),
    ("id", Column::Key),
    ("count", Column::Count),
    ("length", Column::Count),
    ("records", Column::Count),
    ("limit", Column::Count),
    ("table", Column::Table),
    ("index", Column::Table),
    ("namespace", Column::Table),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Get,
    Put,
    Update,
    Remove,
    Range,
    Sync,
}

const WORDS: [(&[&str], Word); 6] = [
    (&["get", "gets", "read", "lookup", "select", "search", "find", "hit", "miss", "r"], Word::Get),
    (&["put", "set", "insert", "write", "add", "w", "i"], Word::Put),
    (
        &["update", "replace", "modify", "cas", "append", "prepend", "incr", "decr", "merge", "u"],
        Word::Update,
    ),
    (&["delete", "del", "remove", "d"], Word::Remove),
    (&["scan", "range", "seek", "iterate"], Word::Range),
    (&["sync", "commit", "flush", "fsync"], Word::Sync),
];

fn word(text: &str) -> Option<Word> {
    let text = text.trim().to_ascii_lowercase();
    WORDS.iter().find(|(words, _)| words.contains(&text.as_str())).map(|(_, word)| *word)
}

fn columns<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Option<Column>> {
    let column = |name: &str| {
        let name = name.trim().to_ascii_lowercase().replace([' ', '-'], "_");
        COLUMNS.iter().find(|(known, _)| *known == name).map(|(_, column)| *column)
    };
    names.map(column).collect()
}

fn is_complete(columns: &[Option<Column>]) -> bool {
    [Column::Operation, Column::Key].iter().all(|wanted| columns.contains(&Some(*wanted)))
}

pub(super) fn is_entry(line: &str) -> bool {
    let mut fields = line.split(',');
    is_complete(&columns(line.split(',')))
        || fields.next().and_then(word).is_some() && fields.next().is_some()
}

pub(super) fn read(log: impl BufRead, sink: &mut Sink<'_>) -> Result<(), WrongLine> {
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(BoundedLines::new(log));
    let mut meaning = match &sink.options.columns {
        Some(given) => {
            let given = columns(given.split(','));
            if !is_complete(&given) {
                return Err((0, "--columns names no op or no key, such as op,key or _,key,_,op".to_string()));
            }
            Some(given)
        }
        None => None,
    };
    for record in reader.records() {
        let record =
            record.map_err(|error| (error.position().map_or(0, csv::Position::line), error.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        let Some(meaning) = &meaning else {
            let named = columns(record.iter());
            let is_header = is_complete(&named);
            let usual =
                vec![Some(Column::Operation), Some(Column::Key), Some(Column::Count), Some(Column::Table)];
            meaning = Some(if is_header { named } else { usual });
            if !is_header {
                row(&record, line, meaning.as_deref().unwrap_or_default(), sink)?;
            }
            continue;
        };
        row(&record, line, meaning, sink)?;
    }
    Ok(())
}

fn row(
    record: &csv::StringRecord,
    line: u64,
    meaning: &[Option<Column>],
    sink: &mut Sink<'_>,
) -> Result<(), WrongLine> {
    let field = |wanted: Column| {
        let place = meaning.iter().position(|column| *column == Some(wanted))?;
        record.get(place).map(str::trim).filter(|field| !field.is_empty())
    };
    let name = field(Column::Operation).unwrap_or_default();
    let Some(word) = word(name) else {
        return Err((
            line,
            format!("'{name}' is no operation; known are get, put, update, remove, range, sync"),
        ));
    };
    sink.followed += 1;
    if word == Word::Sync {
        sink.sync();
        return Ok(());
    }
    let table = field(Column::Table).unwrap_or("keys");
    let table = sink.builder.table(table).map_err(|reason| (line, reason))?;
    let key = Key::of_word(field(Column::Key).ok_or((line, format!("a {name} has a key")))?);
    match word {
        Word::Get => sink.builder.look_up(table, key, None),
        Word::Put => {
            sink.builder.put(table, key);
        }
        Word::Update => {
            sink.builder.update(table, key);
        }
        Word::Remove => {
            sink.builder.remove(table, key);
        }
        Word::Range | Word::Sync => {
            let count = field(Column::Count).unwrap_or("1");
            let limit = count.parse().ok().filter(|count| *count > 0);
            let limit = Some(limit.ok_or((line, format!("'{count}' is no count of records")))?);
            let (low, high) = (Bound::Included(key), Bound::Unbounded);
            sink.builder.range(table, Span { low, high, limit, descending: false });
        }
    }
    Ok(())
}
