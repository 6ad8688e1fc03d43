//! The table of `docs/guarantees.md`: for each index, spatial index and FTL the effects that a damage may
//! have besides being reported.

use super::allowed::{EXCEPTIONS, Ends, Exception, May};
use super::kinds::Kind;
use super::subject::on_page_mapping;
use crate::crash::Target;
use crate::registry::{STORES, subjects};
use crate::spatial::SPATIAL;
use crate::torture::Victim;
use std::fmt::Write as _;

/// Marker before the table in the page.
const BEGIN: &str = "<!-- begin: nandex torture --damage --guarantees -->";
const END: &str = "<!-- end -->";

/// The columns of the table with their kinds of damage.
const COLUMNS: [(&str, &[Kind]); 7] = [
    (
        "a page: bits, zeros, random, unreadable",
        &[Kind::Flip, Kind::Flips, Kind::Zero, Kind::Random, Kind::Unreadable],
    ),
    ("a page looks erased", &[Kind::Ones]),
    ("two pages exchanged", &[Kind::Exchange]),
    ("a page is an older one", &[Kind::Older, Kind::Twin]),
    ("a block: bits, zeros, unreadable", &[Kind::BlockFlip, Kind::BlockZero, Kind::BlockUnreadable]),
    ("a block looks erased", &[Kind::BlockOnes]),
    ("two blocks exchanged", &[Kind::BlockExchange]),
];

/// The table of guarantees as Markdown, followed by the list of exceptions.
pub fn table() -> String {
    let mut out = String::from("| |");
    COLUMNS.iter().for_each(|(name, _)| out.push_str(&format!(" {name} |")));
    out.push_str("\n|---|");
    COLUMNS.iter().for_each(|_| out.push_str("---|"));
    out.push('\n');
    for (cells, names) in rows() {
        let _ = writeln!(out, "| {} |{cells}", names.join(", "));
    }
    for (number, exception) in EXCEPTIONS.iter().enumerate() {
        let _ = write!(out, "\n{}. {}", number + 1, in_words(exception));
    }
    if !EXCEPTIONS.is_empty() {
        out.push('\n');
    }
    out
}

/// Rows of the table, equal ones merged.
fn rows() -> Vec<(String, Vec<&'static str>)> {
    let indexes = subjects().map(Target::Index);
    let indexes = indexes.chain(SPATIAL.iter().map(Target::Spatial));
    let all = STORES.iter().map(Target::Store).chain(indexes);
    let mut rows: Vec<(String, Vec<&'static str>)> = Vec::new();
    for target in all {
        let cells = cells(&on_page_mapping(Victim { target, ftl: None }));
        match rows.iter_mut().find(|(known, _)| *known == cells) {
            Some((_, names)) => names.push(target.name()),
            None => rows.push((cells, vec![target.name()])),
        }
    }
    rows
}

fn cells(victim: &Victim) -> String {
    let cell = |kinds: &[Kind]| {
        let numbered = EXCEPTIONS.iter().enumerate();
        let here = numbered.filter(|(_, exception)| {
            exception.who.is_about(victim) && exception.damages.iter().any(|kind| kinds.contains(kind))
        });
        let numbers: Vec<String> = here.map(|(number, _)| (number + 1).to_string()).collect();
        if numbers.is_empty() { String::from(" told |") } else { format!(" but {} |", numbers.join(", ")) }
    };
    COLUMNS.iter().map(|(_, kinds)| cell(kinds)).collect()
}

fn in_words(exception: &Exception) -> String {
    let when = match exception.ends {
        Ends::Any => String::new(),
        Ends::Cut => String::from("After a power cut: "),
        Ends::CutRecord => {
            String::from("After a power cut, where an anchor, a checkpoint or a note is struck: ")
        }
        Ends::CutEndOfBlock => {
            String::from("After a power cut, where the page programmed last in its block is struck: ")
        }
        Ends::RecordAndAnother => String::from("Two at once: "),
        Ends::Newest(0) => String::from("After a power cut, in what was programmed last: "),
        Ends::NewestOfTwo(_) => {
            String::from("Where two are damaged at once, one of them by the last operations programmed: ")
        }
        Ends::Newest(_) => String::from("After a power cut, in what the last operations programmed: "),
    };
    let what = match exception.may {
        May::BeOlder(u64::MAX) => String::from("the newest changes may be gone"),
        May::BeOlder(1) => String::from("the newest change may be gone"),
        May::BeOlder(most) => {
            format!(
                "the newest {most} changes may be gone, or, of an index that commits with syncs, those of the last one; twice as many where \
                 two are damaged at once"
            )
        }
        May::BeStale => String::from("some records may be older ones, or missing"),
    };
    let words = format!("{when}{what}. {}", exception.reason);
    // A sentence begins with a capital.
    words[..1].to_uppercase() + &words[1..]
}

/// Replaces the table in the page by the current one; `None` if the page has no markers.
pub fn rewrite(page: &str) -> Option<String> {
    let begin = page.find(BEGIN)? + BEGIN.len();
    let end = begin + page[begin..].find(END)?;
    Some(format!("{}\n\n{}\n{}", &page[..begin], table(), &page[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damage_and_everybody_stands_in_the_table() {
        for kind in Kind::ALL {
            assert_eq!(COLUMNS.iter().filter(|(_, kinds)| kinds.contains(&kind)).count(), 1, "{kind:?}");
        }
        let table = table();
        let names = subjects().map(|e| e.name).chain(SPATIAL.iter().map(|e| e.name));
        for name in names.chain(STORES.iter().map(|e| e.name)) {
            assert!(table.contains(name), "{name}");
        }
        let page = format!("before\n{BEGIN}\nwhat stood here\n{END}\nafter\n");
        let written = rewrite(&page).unwrap();
        assert!(
            written.contains(&table) && !written.contains("what stood here") && written.ends_with("after\n")
        );
        assert_eq!(rewrite(&written), Some(written.clone()));
        assert_eq!(rewrite("no place"), None);
    }
}
