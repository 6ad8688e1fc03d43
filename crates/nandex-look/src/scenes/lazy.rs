//! Lazy-update: requests wait in RAM by leaf, and the largest group leaves with one write.

use super::{Played, Stop, after, figure, list, other, pages, programs_of, rise, seen_after};
use crate::decode::Role;
use crate::session::{At, Session, Setup, What};

fn stop(at: At, title: &str, text: String, pages: Vec<u32>) -> Stop {
    Stop { at, title: title.into(), text, pages }
}

/// The commit that served the most requests with one page.
fn find(session: &Session) -> Result<(usize, u64), String> {
    let steps = (1..session.steps().len()).filter(|&step| {
        rise(session, step, "commits") == 1 && session.steps()[step].count(What::Program) == 1
    });
    let counted = steps.map(|step| (step, rise(session, step, "committed_requests")));
    let best =
        counted.max_by_key(|&(step, requests)| (requests, step)).filter(|&(_, requests)| requests >= 3);
    best.ok_or_else(|| "no commit served three requests with one page".to_string())
}

fn setup() -> Setup {
    let mut setup =
        Setup { operations: 700, durability: "none".into(), seed: 5, ..Setup::new("lazy-update") };
    setup.options = vec![("pool_requests".into(), "32".into()), ("commit_policy".into(), "biggest".into())];
    setup
}

pub(super) fn play() -> Played {
    let session = Session::run(setup())?;
    let (step, requests) = find(&session)?;
    let behind = seen_after(&session, step)?;
    let leaf = pages(&session, step, What::Program);
    let what = behind.pages[leaf[0] as usize].title.clone();
    let number = behind.pages[leaf[0] as usize].logical;
    let before = seen_after(&session, step - 1)?;
    let old: Vec<u32> = (0..before.pages.len() as u32)
        .filter(|&page| {
            let of_old = &before.pages[page as usize];
            of_old.logical == number && of_old.role == Role::Leaf && before.tree.holds(page)
        })
        .collect();
    let bplus = other(&setup(), "bplus")?;
    let quiet = (1..step).rev().find(|&step| {
        rise(&session, step, "pool_requests") == 1 && session.steps()[step].count(What::Program) == 0
    });
    let quiet = quiet.ok_or("no update waited without a program")?;
    let last = session.steps().len() - 1;
    let mut stops = vec![
        stop(
            after(&session, quiet),
            "An update waits",
            format!(
                "{}: nothing is programmed. The request joins the group of its leaf in RAM: {} requests in {} groups now.",
                session.steps()[quiet].what,
                figure(&session, quiet, "pool_requests"),
                figure(&session, quiet, "pool_groups")
            ),
            Vec::new(),
        ),
        stop(
            after(&session, step - 1),
            "The pool is full",
            format!(
                "{} requests wait in {} groups. The next one needs room, so the largest group will leave: that of the \
                 leaf in page {}.",
                figure(&session, step - 1, "pool_requests"),
                figure(&session, step - 1, "pool_groups"),
                list(&old)
            ),
            old,
        ),
        stop(
            after(&session, step),
            "The group leaves with one write",
            format!(
                "{requests} requests became one program, page {}: {what}. In a plain B+-tree each of them writes its \
                 leaf.",
                leaf[0]
            ),
            leaf,
        ),
        stop(
            after(&session, last),
            "What it was for",
            format!(
                "{} programs for {} operations; a B+-tree with the same operations made {}. The price: what waits is \
                 lost when the power fails. Cut it here and see, or choose the class every sync, which adds a journal.",
                programs_of(&session),
                last,
                programs_of(&bplus)
            ),
            Vec::new(),
        ),
    ];
    stops.sort_by_key(|stop| stop.at);
    Ok((session, stops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_leaves_together() {
        let (session, stops) = play().unwrap();
        let (step, requests) = find(&session).unwrap();
        // The group leaves and the request that waited for room joins.
        assert_eq!(
            figure(&session, step, "pool_requests"),
            figure(&session, step - 1, "pool_requests") + 1 - requests
        );
        let bplus = other(&setup(), "bplus").unwrap();
        assert!(2 * programs_of(&session) < programs_of(&bplus));
        assert!(stops.iter().any(|stop| stop.pages.len() == 1));
    }
}
