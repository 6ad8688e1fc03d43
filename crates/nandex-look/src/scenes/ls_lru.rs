//! LS-LRU: a full buffer first drops copies, and then commits the changes that free most entries per write.

use super::{Played, Stop, after, figure, list, other, pages, programs_of, rise, seen_after};
use crate::session::{Session, Setup, What};

fn setup() -> Setup {
    let mut setup = Setup { operations: 1200, durability: "none".into(), seed: 4, ..Setup::new("ls-lru") };
    setup.options = vec![("buffer_bytes".into(), "6144".into())];
    setup
}

/// A clean-part-only commit that programs nothing, and after it the write-minimized commit that served the
/// most changes.
fn find(session: &Session) -> Result<(usize, usize), String> {
    let steps = 1..session.steps().len();
    let committed = steps.clone().filter(|&step| rise(session, step, "write_minimized_commits") > 0);
    let commit = committed
        .filter(|&step| session.steps()[step].count(What::Program) > 0)
        .max_by_key(|&step| (rise(session, step, "committed_entries"), step))
        .ok_or("no write-minimized commit happened")?;
    let mut dropped = (1..commit).rev().filter(|&step| {
        rise(session, step, "clean_part_commits") > 0 && session.steps()[step].count(What::Program) == 0
    });
    let clean = dropped.next().ok_or("no copy was given up without a write")?;
    Ok((clean, commit))
}

fn units(session: &Session, step: usize) -> String {
    let of = |name: &str| figure(session, step, name);
    format!(
        "{} clean, {} semi-clean and {} dirty units, {} changes waiting",
        of("units_clean"),
        of("units_semi_clean"),
        of("units_dirty"),
        of("waiting_entries")
    )
}

pub(super) fn play() -> Played {
    let session = Session::run(setup())?;
    let (clean, commit) = find(&session)?;
    let written = pages(&session, commit, What::Program);
    let behind = seen_after(&session, commit)?;
    let titles: Vec<&str> = written.iter().map(|&page| behind.pages[page as usize].title.as_str()).collect();
    let bplus = other(&setup(), "bplus")?;
    let last = session.steps().len() - 1;
    let stop = |at, title: &str, text: String, pages: Vec<u32>| Stop { at, title: title.into(), text, pages };
    let stops = vec![
        stop(
            after(&session, clean - 1),
            "Copies and changes share the buffer",
            format!(
                "In RAM: {}. A copy takes a page, a change a few bytes; they are kept apart.",
                units(&session, clean - 1)
            ),
            Vec::new(),
        ),
        stop(
            after(&session, clean),
            "A copy goes, its changes stay",
            format!(
                "{}: room was wanted, and the copy used least recently was dropped. Nothing was programmed, as its \
                 changes stay in the buffer: {}.",
                session.steps()[clean].what,
                units(&session, clean)
            ),
            Vec::new(),
        ),
        stop(
            after(&session, commit - 1),
            "No copies are left to give",
            format!("{}. The next one that wants room makes a commit.", units(&session, commit - 1)),
            Vec::new(),
        ),
        stop(
            after(&session, commit),
            "The fewest writes for the room that is wanted",
            format!(
                "The commit freed {} changes of {} leaves with {} programs: {}. Which leaves: those that free enough \
                 entries with the fewest writes.",
                rise(&session, commit, "committed_entries"),
                rise(&session, commit, "victims"),
                written.len(),
                if titles.len() == 1 { titles[0].to_string() } else { format!("pages {}", list(&written)) }
            ),
            written,
        ),
        stop(
            after(&session, last),
            "What it was for",
            format!(
                "{} programs for {last} operations; a B+-tree without a buffer made {}. What waits is lost when the \
                 power fails, unless there is a journal.",
                programs_of(&session),
                programs_of(&bplus)
            ),
            Vec::new(),
        ),
    ];
    Ok((session, stops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_goes_without_a_write_and_a_commit_serves_many() {
        let (session, _) = play().unwrap();
        let (clean, commit) = find(&session).unwrap();
        assert_eq!(session.steps()[clean].count(What::Program), 0);
        let programs = session.steps()[commit].count(What::Program) as u64;
        assert!(rise(&session, commit, "committed_entries") > programs && programs > 0);
        assert!(programs_of(&session) < programs_of(&other(&setup(), "bplus").unwrap()));
    }
}
