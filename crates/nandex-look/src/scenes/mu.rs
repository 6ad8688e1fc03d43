//! mu-Tree: an insert reads a path from three pages and writes it into one.

use super::{Played, Stop, after, list, other, pages, prefix, programs_of, seen_after};
use crate::scan::Life;
use crate::session::{Session, Setup, What};

/// Finds the last insertion that reads its path from three pages and writes the path to one.
fn find(session: &Session) -> Result<usize, String> {
    let mut steps = (1..session.steps().len()).rev();
    let found = steps.find(|&step| {
        let now = &session.steps()[step];
        let (reads, programs) = (now.count(What::Read), now.count(What::Program));
        now.height == 3 && now.events.len() == 4 && (reads, programs) == (3, 1)
    });
    found.ok_or_else(|| "no insertion read three pages and programmed one".to_string())
}

pub(super) fn play() -> Played {
    let setup = Setup { operations: 760, seed: 3, ..Setup::new("mu") };
    let session = Session::run(setup.clone())?;
    let step = find(&session)?;
    let mut stops = the_move(&session, step)?;
    let wandering = other(&setup, "wandering")?;
    let there = wandering.steps()[step].count(What::Program);
    stops.push(Stop {
        at: after(&session, session.steps().len() - 1),
        title: "Against a tree that rewrites each node".into(),
        text: format!(
            "A wandering B+-tree with the same operations programmed {there} pages for that insertion. Over the whole \
             run: {} programs against {} here.",
            programs_of(&wandering),
            programs_of(&session)
        ),
        pages: Vec::new(),
    });
    Ok((session, stops))
}

fn the_move(session: &Session, step: usize) -> Result<Vec<Stop>, String> {
    let read = pages(session, step, What::Read);
    let new = pages(session, step, What::Program)[0];
    let (before, behind) = (seen_after(session, step - 1)?, seen_after(session, step)?);
    let what = &session.steps()[step].what;
    let of = |life: Life| {
        read.iter().copied().filter(|&page| behind.lives[page as usize] == life).collect::<Vec<_>>()
    };
    let leaves = before.tree.nodes.iter().filter(|node| node.level == 1).count();
    let stop = |at, title: &str, text: String, pages: Vec<u32>| Stop { at, title: title.into(), text, pages };
    Ok(vec![
        stop(
            after(session, step - 1),
            "Three levels, three pages",
            format!(
                "The path to the leaf that is about to change lies in pages {}: root, level 2 and leaf were written at \
                 different times. Height {}, {leaves} leaves.",
                list(&read),
                before.tree.height()
            ),
            read.clone(),
        ),
        stop(
            prefix(session, step, |event| event.what == What::Read),
            "The way down",
            format!(
                "{what}: one read a level, from the root in page {} to the leaf in page {}.",
                read[0], read[2]
            ),
            read.clone(),
        ),
        stop(
            after(session, step),
            "The path moves into one page",
            format!(
                "One program: page {new} now holds root, level 2 and leaf together. Look at its bytes: the leaf takes \
                 the second half, level 2 the quarter before it, the root the first quarter."
            ),
            vec![new],
        ),
        stop(
            after(session, step),
            "What became of the old pages",
            format!(
                "No longer counting: {}. Still counting: {}. A page lives as long as its lowest node is reached from \
                 the new path, so one bit a page is enough.",
                list(&of(Life::Dead)),
                list(&of(Life::Live))
            ),
            read,
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_page_holds_the_path_of_the_three_old_ones() {
        let (session, stops) = play().unwrap();
        let new = stops[2].pages[0];
        let step = stops[2].at.step;
        let before = seen_after(&session, step - 1).unwrap();
        let behind = seen_after(&session, step).unwrap();
        let levels: Vec<u8> = behind.pages[new as usize].nodes.iter().map(|node| node.level).collect();
        assert_eq!(levels, [1, 2, 3], "{}", behind.pages[new as usize].title);
        assert_eq!(before.lives[new as usize], Life::Free);
        assert!(stops[0].pages.iter().all(|&page| before.tree.holds(page)));
        assert_eq!(behind.tree.nodes[0].page, new);
    }
}
