//! The key idea of each of the five papers as a scene: a recorded run of the real index with places to stop
//! at and what to look at there.
//!
//! Nothing is drawn by hand. A scene runs the index, looks for the step that shows the idea, and puts the
//! numbers of that run into its words; where the run has no such step, the scene fails and says so.

mod access;
mod lazy;
mod ls_lru;
mod mu;
mod wpcb;

use crate::scan::Scan;
use crate::session::{At, Event, Session, Setup, What};
use crate::show;
use serde::Serialize;

/// A scene: a recorded run that shows an idea.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// The scene's name in commands.
    pub name: &'static str,
    /// The idea that the scene shows.
    pub title: &'static str,
    /// The paper of the idea.
    pub paper: &'static str,
    /// The page of the docs that explains the idea.
    pub page: &'static str,
    play: fn() -> Played,
}

/// A recorded run with its stops, or the reason why it failed.
pub type Played = Result<(Session, Vec<Stop>), String>;

/// A place in the run at which the scene stops.
#[derive(Clone, Debug, Serialize)]
pub struct Stop {
    /// The place in the run.
    pub at: At,
    /// The title, in a few words.
    pub title: String,
    /// Text that tells what to look at.
    pub text: String,
    /// The pages that the text is about.
    pub pages: Vec<u32>,
}

/// All scenes, in the order of the papers.
pub const SCENES: [Scene; 6] = [
    Scene {
        name: "mu",
        title: "A path moves into one page",
        paper: "mu-Tree (Kang, Jung, Kang, Kim 2007)",
        page: "docs/indexes/mu.md",
        play: mu::play,
    },
    Scene {
        name: "wpcb",
        title: "Scattered writes are converted into ascending ones",
        paper: "WPCB-tree (Ho, Park 2018)",
        page: "docs/indexes/wpcb.md",
        play: wpcb::play,
    },
    Scene {
        name: "ls-lru",
        title: "Copies go, changes stay, until one write serves many",
        paper: "LS-LRU (Jin and others)",
        page: "docs/indexes/ls-lru.md",
        play: ls_lru::play,
    },
    Scene {
        name: "lazy-update",
        title: "The updates of one leaf leave together",
        paper: "Lazy-update B+-tree (On, Hu, Li, Xu 2009)",
        page: "docs/indexes/lazy-update.md",
        play: lazy::play,
    },
    Scene {
        name: "access-r",
        title: "An R-tree grows: every split goes up",
        paper: "Access times of index trees on flash: R-tree",
        page: "docs/indexes/r-tree.md",
        play: access::r_tree,
    },
    Scene {
        name: "access-mr",
        title: "An MR-tree puts growing off",
        paper: "Access times of index trees on flash: MR-tree",
        page: "docs/indexes/mr-tree.md",
        play: access::mr_tree,
    },
];

/// The scene with this name.
pub fn find(name: &str) -> Result<&'static Scene, String> {
    let known: Vec<&str> = SCENES.iter().map(|scene| scene.name).collect();
    SCENES
        .iter()
        .find(|scene| scene.name == name)
        .ok_or_else(|| format!("there is no scene '{name}'; known: {}", known.join(", ")))
}

/// Runs the scene with this name.
pub fn play(name: &str) -> Played {
    (find(name)?.play)()
}

/// The place at the end of a step.
fn after(session: &Session, step: usize) -> At {
    At { step, event: session.steps()[step].events.len() }
}

/// A scan of the chip after a step.
fn seen_after(session: &Session, step: usize) -> Result<Scan, String> {
    show::look(session, after(session, step))
}

/// The rise of a figure in a step.
fn rise(session: &Session, step: usize, name: &str) -> u64 {
    let value = |step: usize| session.steps()[step].metric(name).unwrap_or(0);
    value(step).saturating_sub(step.checked_sub(1).map_or(0, value))
}

fn figure(session: &Session, step: usize, name: &str) -> u64 {
    session.steps()[step].metric(name).unwrap_or(0)
}

/// The pages that a step read or programmed, in order.
fn pages(session: &Session, step: usize, what: What) -> Vec<u32> {
    let events = session.steps()[step].events.iter();
    events.filter(|event| event.what == what && !event.failed).map(|event| event.at).collect()
}

/// The place after the leading events of a step that satisfy a condition.
fn prefix(session: &Session, step: usize, is_like: impl Fn(&Event) -> bool) -> At {
    let event = session.steps()[step].events.iter().take_while(|event| is_like(event)).count();
    At { step, event }
}

fn list(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    match words.split_last() {
        None => "none".into(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// Number of page programs in the run after the format.
fn programs_of(session: &Session) -> usize {
    session.steps()[1..].iter().map(|step| step.count(What::Program)).sum()
}

/// Runs the same set-up with another index.
fn other(setup: &Setup, index: &str) -> Result<Session, String> {
    Session::run(Setup { index: index.into(), options: Vec::new(), ..setup.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_finds_its_step_and_stops_in_order() {
        for scene in SCENES {
            let (session, stops) = play(scene.name).unwrap_or_else(|why| panic!("{}: {why}", scene.name));
            assert!(stops.len() >= 3, "{}", scene.name);
            assert!(stops.windows(2).all(|pair| pair[0].at <= pair[1].at), "{}", scene.name);
            let pages = session.part().geometry.pages();
            for stop in &stops {
                assert!(session.place(stop.at).is_ok() && stop.pages.iter().all(|&page| page < pages));
                assert!(!stop.text.is_empty() && !stop.title.is_empty());
            }
        }
    }
}
