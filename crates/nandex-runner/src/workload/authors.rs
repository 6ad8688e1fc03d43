//! The workloads of the lazy-update paper (On, Hu, Li and Xu 2009, Section IV): an index on the names of
//! authors.
//!
//! The names known by some year are the initial contents, inserted in the order in which they appeared or
//! handed over sorted (the paper does not say how it built its tree); then queries and updates mix. *W-Query*
//! has 80 % queries, *W-Update* 20 %. The updates are insertions of the names that appeared later, in their
//! order (*insert-only*), or 60 % such insertions and 40 % deletions (*mix*). The run ends when every name
//! has appeared.
//!
//! The paper does not say which keys are queried and deleted: here any that is present, each alike; or, with
//! `queries=recent`, queries of which a share asks for one of the keys updated last, inserted or deleted. Nor
//! how many operations a workload has; told to run for more than there are new names (`operations`,
//! `length_percent`), deleted names come back, the one deleted first before the others.

use super::strings::Source;
use super::{Op, OpKind, Parameters, PhaseOps, RECORDS_MAX, WorkloadEntry};
use crate::error::LabError;
use crate::names::option;
use std::collections::VecDeque;

pub(super) const ENTRY: WorkloadEntry = WorkloadEntry {
    name: "authors",
    summary: "the lazy-update paper's workloads: an index on names in their order of appearance",
    options: &[
        option(
            "source",
            "auto",
            "authors: authors.tsv; words: the bundled words; auto: words if there is no authors.tsv",
        ),
        option("keys", "rank", "8 bytes for a name: rank (its place in the alphabet) or hash"),
        option("profile", "w-query", "w-query: 80 % queries; w-update: 20 %"),
        option("updates", "mix", "insert-only, or mix: 60 % insertions and 40 % deletions"),
        option(
            "queries",
            "uniform",
            "uniform: any key that is present; recent: a share of them one of the keys updated last",
        ),
        option(
            "recent_share",
            "70",
            "with queries=recent, percent of the queries that ask for one updated last",
        ),
        option("recent_window", "5", "with queries=recent, how many of the last updates they choose from"),
        option("records", "0", "names used, the first ones; 0: all"),
        option("initial_percent", "88.5464", "share of the names inserted by the load"),
        option(
            "load",
            "inserts",
            "inserts: in order of appearance; sorted: at once, in key order, nodes packed full",
        ),
        option("operations", "0", "operations of the run; 0: until every name has appeared"),
        option(
            "length_percent",
            "100",
            "with operations=0, the length of the run in percent of what lets every name appear, 100 to 1000",
        ),
    ],
    generate,
};

fn generate(parameters: &Parameters) -> Result<Vec<PhaseOps>, LabError> {
    let keys = keys(parameters)?;
    let percent = parameters.decimal_in("initial_percent", 0.0, 100.0)?;
    let initial = ((keys.len() as f64 * percent / 100.0).round() as usize).clamp(1, keys.len());
    let (load, later) = keys.split_at(initial);
    let mix = Mix {
        query_percent: if parameters.choice("profile", &["w-query", "w-update"])? == "w-query" {
            80
        } else {
            20
        },
        delete_percent: if parameters.choice("updates", &["insert-only", "mix"])? == "mix" { 40 } else { 0 },
        recent: Recent::of(parameters)?,
    };
    let run = mix.draw(parameters, load, later, Length::of(parameters)?)?;
    let load = load.iter().map(|&key| Op::new(OpKind::Insert, key)).collect();
    let load = match parameters.choice("load", &["inserts", "sorted"])? {
        "sorted" => PhaseOps::sorted("load", load),
        _ => PhaseOps::unmeasured("load", load),
    };
    Ok(vec![load, PhaseOps::measured("run", run)])
}

/// The keys of the names, in order of appearance.
fn keys(parameters: &Parameters) -> Result<Vec<u64>, LabError> {
    let source = Source::find(parameters.text("source"), parameters.data())?;
    let mut keys = match parameters.choice("keys", &["rank", "hash"])? {
        "hash" => source.hashes()?,
        _ => source.ranks()?,
    };
    let records = parameters.number_in("records", 0, keys.len() as u64)? as usize;
    if records > 0 {
        keys.truncate(records);
    }
    let mut distinct = keys.clone();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() < keys.len() || keys.is_empty() {
        let reason = format!("leaves {} keys for {} names", distinct.len(), keys.len());
        return Err(LabError::bad_option("keys", parameters.text("keys"), reason));
    }
    Ok(keys)
}

#[derive(Clone, Copy)]
enum Length {
    Operations(usize),
    /// The length in percent of the operations after which every name has appeared.
    Percent(usize),
}

impl Length {
    fn of(parameters: &Parameters) -> Result<Length, LabError> {
        let operations = parameters.number_in("operations", 0, RECORDS_MAX)? as usize;
        let percent = parameters.number_in("length_percent", 100, 1000)? as usize;
        Ok(if operations > 0 { Length::Operations(operations) } else { Length::Percent(percent) })
    }
}

struct Mix {
    query_percent: u64,
    delete_percent: u64,
    recent: Option<Recent>,
}

/// The settings of queries for recently updated keys.
struct Recent {
    share_percent: u64,
    window: usize,
}

impl Recent {
    fn of(parameters: &Parameters) -> Result<Option<Recent>, LabError> {
        let share_percent = parameters.number_in("recent_share", 0, 100)?;
        let window = parameters.number_in("recent_window", 1, 1_000_000)? as usize;
        let follows = parameters.choice("queries", &["uniform", "recent"])? == "recent";
        Ok(follows.then_some(Recent { share_percent, window }))
    }
}

impl Mix {
    /// Draws the operations of a run of this length, or as many as insert all of `later`.
    fn draw(
        &self,
        parameters: &Parameters,
        load: &[u64],
        later: &[u64],
        length: Length,
    ) -> Result<Vec<Op>, LabError> {
        let mut rng = parameters.rng(1);
        let mut present = load.to_vec();
        let mut new: VecDeque<u64> = later.iter().copied().collect();
        let mut unseen = later.len();
        let mut ops = Vec::new();
        // Drawn apart, so that the updates are the same whatever the queries are.
        let mut follow = parameters.rng(2);
        let mut updated: VecDeque<u64> = VecDeque::new();
        let window = self.recent.as_ref().map_or(0, |recent| recent.window);
        let mut end = match length {
            Length::Operations(operations) => Some(operations),
            Length::Percent(_) => None,
        };
        loop {
            if let (Length::Percent(percent), None, 0) = (length, end, unseen) {
                end = Some((ops.len() * percent).div_ceil(100));
            }
            if end.is_some_and(|end| ops.len() >= end) {
                return Ok(ops);
            }
            let is_query = rng.chance(self.query_percent, 100);
            let place = |rng: &mut nandex::rng::Rng| rng.below(present.len() as u64) as usize;
            if is_query {
                let anywhere = present[place(&mut rng)];
                let follows = !updated.is_empty()
                    && self.recent.as_ref().is_some_and(|recent| follow.chance(recent.share_percent, 100));
                let key =
                    if follows { updated[follow.below(updated.len() as u64) as usize] } else { anywhere };
                ops.push(Op::new(OpKind::Get, key));
                continue;
            }
            if rng.chance(self.delete_percent, 100) && present.len() > 1 {
                let place = place(&mut rng);
                let key = present.swap_remove(place);
                new.push_back(key);
                ops.push(Op::new(OpKind::Remove, key));
            } else {
                let key = new.pop_front().ok_or_else(|| used_up(parameters, later.len()))?;
                unseen = unseen.saturating_sub(1);
                present.push(key);
                ops.push(Op::new(OpKind::Insert, key));
            }
            updated.extend(ops.last().map(|op| op.key));
            updated.drain(..updated.len().saturating_sub(window));
        }
    }
}

fn used_up(parameters: &Parameters, later: usize) -> LabError {
    let reason = format!("needs more names to insert than the {later} there are");
    let name = if parameters.text("operations") == "0" { "length_percent" } else { "operations" };
    LabError::bad_option(name, parameters.text(name), reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Workload, workload};
    use nandex_stacks::options::Options;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn build(set: &[(&str, &str)], data: Option<&Path>) -> Result<Workload, LabError> {
        let mut options = Options::default();
        set.iter().for_each(|(name, value)| options.set(name, value));
        workload("authors").unwrap().build_from(1, &options, data)
    }

    fn words(set: &[(&str, &str)]) -> Workload {
        build(&[&[("source", "words")], set].concat(), None).unwrap()
    }

    fn percent(ops: &[Op], kinds: &[OpKind]) -> usize {
        ops.iter().filter(|op| kinds.contains(&op.kind)).count() * 100 / ops.len()
    }

    #[test]
    fn the_words_are_as_many_as_the_papers_authors() {
        let w = words(&[("profile", "w-update"), ("updates", "insert-only")]);
        let [load, run] = &w.phases[..] else { panic!("two phases") };
        assert_eq!((load.ops.len(), load.measured, run.measured), (540_936, false, true));
        let inserts: Vec<u64> =
            run.ops.iter().filter(|op| op.kind == OpKind::Insert).map(|op| op.key).collect();
        assert_eq!(inserts.len(), 610_907 - 540_936);
        // Every rank once, and in no order.
        let all: BTreeSet<u64> = load.ops.iter().map(|op| op.key).chain(inserts.iter().copied()).collect();
        assert_eq!((all.len(), all.first(), all.last()), (610_907, Some(&0), Some(&610_906)));
        let ascents = inserts.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((49..=51).contains(&(100 * ascents / inserts.len())), "{ascents}");
    }

    #[test]
    fn the_profiles_have_the_papers_shares() {
        let shares = |profile, updates| {
            let run = words(&[("records", "60000"), ("profile", profile), ("updates", updates)])
                .phases
                .remove(1)
                .ops;
            assert_eq!(run.last().unwrap().kind, OpKind::Insert);
            [&[OpKind::Get][..], &[OpKind::Insert], &[OpKind::Remove]].map(|kinds| percent(&run, kinds))
        };
        let near = |found: [usize; 3], expected: [usize; 3]| {
            assert!(found.iter().zip(expected).all(|(f, e)| f.abs_diff(e) <= 1), "{found:?} {expected:?}");
        };
        near(shares("w-query", "insert-only"), [80, 20, 0]);
        near(shares("w-update", "insert-only"), [20, 80, 0]);
        near(shares("w-query", "mix"), [80, 12, 8]);
        near(shares("w-update", "mix"), [20, 48, 32]);
    }

    #[test]
    fn recent_queries_ask_for_what_was_updated_last_and_leave_the_updates_as_they_are() {
        let ops = |set: &[(&str, &str)]| {
            let all = [&[("records", "60000"), ("profile", "w-query")], set].concat();
            words(&all).phases.remove(1).ops
        };
        let updates =
            |ops: &[Op]| ops.iter().filter(|op| op.kind != OpKind::Get).copied().collect::<Vec<Op>>();
        let uniform = ops(&[]);
        assert_eq!(ops(&[("queries", "recent"), ("recent_share", "0")]), uniform);
        for (share, window) in [(30, 5), (70, 5), (90, 2)] {
            let (share_text, window_text) = (share.to_string(), window.to_string());
            let recent =
                ops(&[("queries", "recent"), ("recent_share", &share_text), ("recent_window", &window_text)]);
            assert_eq!(updates(&recent), updates(&uniform));
            let (mut last, mut hits, mut queries) = (VecDeque::new(), 0, 0);
            for op in &recent {
                if op.kind == OpKind::Get {
                    queries += usize::from(!last.is_empty());
                    hits += usize::from(last.contains(&op.key));
                } else {
                    last.push_back(op.key);
                    last.drain(..last.len().saturating_sub(window));
                }
            }
            // One in thousands hits by chance.
            assert!((100 * hits / queries).abs_diff(share) <= 1, "{hits} of {queries}, {share} % are due");
        }
    }

    #[test]
    fn names_appear_in_their_order_and_deleted_ones_come_back_after_them() {
        let small = [("records", "1000"), ("profile", "w-update")];
        let w = words(&[&small[..], &[("operations", "450")]].concat());
        let appeared: Vec<u64> = w.phases[1]
            .ops
            .iter()
            .filter(|op| op.kind == OpKind::Insert)
            .map(|op| op.key)
            .take(115)
            .collect();
        let only = words(&[&small[..], &[("updates", "insert-only")]].concat());
        let expected: Vec<u64> =
            only.phases[1].ops.iter().filter(|op| op.kind == OpKind::Insert).map(|op| op.key).collect();
        assert_eq!((w.phases[1].ops.len(), appeared.len()), (450, expected.len()));
        assert_eq!(appeared, expected);
        let short = build(
            &[&small[..], &[("source", "words"), ("updates", "insert-only"), ("operations", "999")]].concat(),
            None,
        );
        assert!(short.unwrap_err().to_string().contains("more names to insert than the 115"));
    }

    #[test]
    fn a_longer_run_goes_on_where_every_name_has_appeared() {
        let run = |set: &[(&str, &str)]| {
            words(&[&[("records", "4000"), ("profile", "w-update")], set].concat()).phases.remove(1).ops
        };
        let (once, twice) = (run(&[]), run(&[("length_percent", "200")]));
        assert_eq!((twice.len(), &twice[..once.len()]), (2 * once.len(), &once[..]));
        let inserted = |ops: &[Op]| ops.iter().filter(|op| op.kind == OpKind::Insert).count();
        assert!(inserted(&twice[once.len()..]) > inserted(&once) / 2, "deleted names come back");
        let refused =
            [("records", "4000"), ("updates", "insert-only"), ("length_percent", "101"), ("source", "words")];
        let error = build(&refused, None).unwrap_err().to_string();
        assert!(error.contains("length_percent") && error.contains("more names"), "{error}");
    }

    #[test]
    fn the_file_of_the_authors_comes_first_and_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["Zoe Zorn", "Ada Abel", "Mia M\u{fc}ller", "Ada Abel-Ito", "Bo Bach"];
        let lines: String = names.map(|name| format!("1999-01-01\t{name}\n")).concat();
        std::fs::write(folder.path().join("authors.tsv"), lines).unwrap();
        let set = [("initial_percent", "60"), ("updates", "insert-only")];
        let w = build(&set, Some(folder.path())).unwrap();
        assert_eq!(w.options["source"], "authors");
        let inserts: Vec<u64> = w.ops().filter(|op| op.kind == OpKind::Insert).map(|op| op.key).collect();
        assert_eq!(inserts, [4, 0, 3, 1, 2]);
        let hashed = build(&[&set[..], &[("keys", "hash")]].concat(), Some(folder.path())).unwrap();
        let hashed: BTreeSet<u64> =
            hashed.ops().filter(|op| op.kind == OpKind::Insert).map(|op| op.key).collect();
        assert!(hashed.len() == 5 && hashed.iter().all(|&key| key > 1 << 40));
        let empty = tempfile::tempdir().unwrap();
        let substituted = build(&[("records", "100")], Some(empty.path())).unwrap();
        assert_eq!(substituted.options["source"], "words");
        let error = build(&[("source", "authors")], Some(empty.path())).unwrap_err().to_string();
        assert!(error.contains("authors.tsv is not in"), "{error}");
        std::fs::write(folder.path().join("authors.tsv"), "no tab\n").unwrap();
        assert!(build(&set, Some(folder.path())).unwrap_err().to_string().contains("line 1"));
    }
}
