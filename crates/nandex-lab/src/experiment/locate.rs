//! Finds the line of a key in an experiment file, for errors.

use toml::de::{DeTable, DeValue};

/// A path to a value: keys, and indexes in lists.
pub(super) type Path = Vec<String>;

pub(super) fn path(keys: &[&str]) -> Path {
    keys.iter().map(|key| (*key).to_string()).collect()
}

pub(super) fn line_of_byte(text: &str, byte: usize) -> usize {
    text.as_bytes().iter().take(byte).filter(|byte| **byte == b'\n').count() + 1
}

/// The line of a key, or of the last existing key on its path. `None` if even the first key is missing.
pub(super) fn line_of(text: &str, path: &[String]) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut found = None;
    let mut here = Some(Here::Table(table.get_ref()));
    for step in path {
        here = match here? {
            Here::Table(table) => {
                let entry = table.iter().find(|(key, _)| key.get_ref().as_ref() == step.as_str());
                entry.map(|(key, value)| {
                    found = Some(key.span().start);
                    Here::of(value.get_ref())
                })
            }
            Here::Value(DeValue::Array(list)) => {
                let element = step.parse::<usize>().ok().and_then(|at| list.get(at));
                element.map(|value| {
                    found = Some(value.span().start);
                    Here::of(value.get_ref())
                })
            }
            Here::Value(_) => None,
        };
        if here.is_none() {
            break;
        }
    }
    found.map(|byte| line_of_byte(text, byte))
}

enum Here<'a> {
    Table(&'a DeTable<'a>),
    Value(&'a DeValue<'a>),
}

impl<'a> Here<'a> {
    fn of(value: &'a DeValue<'a>) -> Here<'a> {
        match value {
            DeValue::Table(table) => Here::Table(table),
            other => Here::Value(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_tables_and_lists() {
        let text = "chip = 'x'\nindexes = [\n 'mu',\n 'ipl']\n[[input]]\nname = 'a'\n[[input]]\nname = 'b'\n\
                    options = { records = 1 }\n";
        let line = |keys: &[&str]| line_of(text, &path(keys));
        assert_eq!(line(&["chip"]), Some(1));
        assert_eq!(line(&["indexes", "1"]), Some(4));
        assert_eq!(line(&["input", "1", "options", "records"]), Some(9));
        assert_eq!(line(&["input", "1", "options", "theta"]), Some(9));
        assert_eq!(line(&["input", "0", "workload"]), Some(5));
        assert_eq!(line(&["variant"]), None);
        assert_eq!(line_of("a = [", &path(&["a"])), None);
    }
}
