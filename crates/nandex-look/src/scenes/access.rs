//! The study of access times: how an R-tree grows, and how an MR-tree puts it off, on the same points.

use super::{Played, Stop, after, figure, list, pages, programs_of, rise, seen_after};
use crate::session::{Session, Setup, What};

fn setup(index: &str) -> Setup {
    // Nodes of 512 bytes, as in the study.
    Setup { operations: 420, blocks: 48, seed: 6, ..Setup::new(index) }
}

fn stop(session: &Session, step: usize, title: &str, text: String, pages: Vec<u32>) -> Stop {
    Stop { at: after(session, step), title: title.into(), text, pages }
}

/// The first step from `from` on in which a figure rises.
fn first(session: &Session, from: usize, name: &str) -> Result<usize, String> {
    let mut steps = (from..session.steps().len()).filter(|&step| rise(session, step, name) > 0);
    steps.next().ok_or_else(|| format!("'{name}' did not rise"))
}

/// First step at which the tree has this height.
fn grown(session: &Session, height: u32) -> Result<usize, String> {
    let found = session.steps().iter().position(|step| step.height >= height);
    found.ok_or_else(|| format!("the tree did not reach height {height}"))
}

/// Numbers of nodes and of leaves in the tree after a step.
fn nodes(session: &Session, step: usize) -> Result<(usize, usize), String> {
    let scan = seen_after(session, step)?;
    let leaves = scan.tree.nodes.iter().filter(|node| node.level == 1).count();
    Ok((scan.tree.nodes.len(), leaves))
}

pub(super) fn r_tree() -> Played {
    let session = Session::run(setup("r-tree"))?;
    let two = grown(&session, 2)?;
    let split = first(&session, two + 1, "splits")?;
    let three = grown(&session, 3)?;
    let last = session.steps().len() - 1;
    let mr = Session::run(setup("mr-tree"))?;
    let mr_three = grown(&mr, 3).map_or("not at all".to_string(), |step| format!("at point {step}"));
    let written = |step: usize| pages(&session, step, What::Program);
    let stops = vec![
        stop(
            &session,
            two - 1,
            "One leaf, full",
            format!("A node is a page of 512 bytes. After {} points the root, a leaf, is full.", two - 1),
            Vec::new(),
        ),
        stop(
            &session,
            two,
            "The root splits",
            format!(
                "One point more: two leaves and a root above them, {} programs where an ordinary insertion makes one.",
                written(two).len()
            ),
            written(two),
        ),
        stop(
            &session,
            split,
            "A leaf splits, and says so above",
            format!(
                "At point {split}: the two halves and their parent are written, pages {}. Every split is handed up.",
                list(&written(split))
            ),
            written(split),
        ),
        stop(
            &session,
            three,
            "The tree gets higher",
            format!(
                "At point {three} the root has no room for another child: {} programs, and every search reads one page \
                 more from now on. The MR-tree reaches three levels {mr_three}.",
                written(three).len()
            ),
            written(three),
        ),
        stop(
            &session,
            last,
            "In all",
            format!(
                "{} programs for {last} points, {} nodes; the MR-tree made {} with {} nodes.",
                programs_of(&session),
                nodes(&session, last)?.0,
                programs_of(&mr),
                nodes(&mr, mr.steps().len() - 1)?.0
            ),
            Vec::new(),
        ),
    ];
    Ok((session, stops))
}

pub(super) fn mr_tree() -> Played {
    let session = Session::run(setup("mr-tree"))?;
    let half = first(&session, 1, "half_leaf_moves")?;
    let converted = first(&session, half + 1, "conversions")?;
    let handed = first(&session, half + 1, "propagations")?;
    let last = session.steps().len() - 1;
    let r = Session::run(setup("r-tree"))?;
    let written = |step: usize| pages(&session, step, What::Program);
    let mut stops = vec![
        stop(
            &session,
            half - 1,
            "One leaf, full",
            format!(
                "The same points as in the R-tree. After {} of them the root, a leaf, is full.",
                half - 1
            ),
            Vec::new(),
        ),
        stop(
            &session,
            half,
            "A half-leaf instead of a split",
            format!(
                "The full leaf keeps half of its points and becomes the parent of the other half: {} programs here, {} \
                 in the R-tree. Data and a child stand in one node.",
                written(half).len(),
                r.steps()[half].count(What::Program)
            ),
            written(half),
        ),
        stop(
            &session,
            handed,
            "A split goes up where there is room",
            format!(
                "At point {handed} a full leaf is split and handed up, as a node on the way has a free entry: pages {}. \
                 Where none has, the leaf becomes a half-leaf, and the tree gets no higher.",
                list(&written(handed))
            ),
            written(handed),
        ),
        stop(
            &session,
            converted,
            "The half-leaf fills and becomes an internal node",
            format!(
                "At point {converted} its own points leave as a leaf: {} programs, one conversion of {} in this run.",
                written(converted).len(),
                figure(&session, last, "conversions")
            ),
            written(converted),
        ),
        stop(
            &session,
            last,
            "In all",
            format!(
                "{} programs for {last} points; the R-tree made {}. Leaves lie on neighbouring levels, never further \
                 apart.",
                programs_of(&session),
                programs_of(&r)
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
    fn a_half_leaf_holds_points_and_a_child() {
        let (session, _) = mr_tree().unwrap();
        let half = first(&session, 1, "half_leaf_moves").unwrap();
        let scan = seen_after(&session, half).unwrap();
        let root = &scan.tree.nodes[0];
        assert!(root.mixed && root.own_records > 0 && root.entries > root.own_records);
        assert_eq!(scan.records(), session.steps()[half].records() as u64);
        let steps = ["half_leaf_moves", "conversions", "propagations"]
            .map(|name| first(&session, half, name).unwrap());
        assert!(steps[0] < steps[1] && steps[1] != steps[2], "{steps:?}");
    }

    #[test]
    fn an_r_tree_and_an_mr_tree_hold_what_was_put_in() {
        for index in ["r-tree", "mr-tree"] {
            let session = Session::run(setup(index)).unwrap();
            let last = session.steps().len() - 1;
            let scan = seen_after(&session, last).unwrap();
            assert_eq!(scan.records(), session.steps()[last].records() as u64, "{index}");
            assert!(scan.tree.is_complete && scan.tree.height() == session.steps()[last].height);
        }
    }
}
