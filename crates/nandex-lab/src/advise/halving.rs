//! Successive halving: all candidates run a small part of the operations, the better half runs a larger part,
//! and so on. Bad candidates are given up early, and most of the time goes to the likely winners.
//!
//! Each family (an index with its FTLs and options) keeps at least one candidate for longer than its rank
//! alone would allow. So an index is not dropped for effects that a small part is too short to show, such as
//! a cache that fills, or garbage collection.

/// Rules by which candidates are dropped.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Least number of candidates kept.
    pub kept_least: usize,
    /// In addition, one candidate in `one_of` is kept.
    pub one_of: usize,
    /// Largest number of candidates kept of one family.
    pub of_family: usize,
    /// The best of a family is kept while it costs at most `in_reach` times as much as the best of all.
    pub in_reach: f64,
}

/// Runs candidates on parts of growing size, numbered from 0, and gives up the worse ones after each part.
/// Returns those left, the best first, each with its cost on the last part.
///
/// `costs` runs candidates on a part. A candidate without a cost cannot run and is dropped. Candidates of
/// equal cost keep their order.
pub fn halve<C: Clone>(
    candidates: Vec<C>,
    parts: usize,
    plan: Plan,
    family: impl Fn(&C) -> &str,
    mut costs: impl FnMut(usize, &[C]) -> Vec<Option<f64>>,
) -> Vec<(C, f64)> {
    let mut left = candidates;
    let mut ranked: Vec<(C, f64)> = Vec::new();
    for part in 0..parts {
        let found = costs(part, &left);
        let with_cost = left.into_iter().zip(found).filter_map(|(c, cost)| Some((c, cost?)));
        ranked = with_cost.filter(|(_, cost)| cost.is_finite()).collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        ranked = kept(&ranked, plan, &family);
        left = ranked.iter().map(|(c, _)| c.clone()).collect();
    }
    ranked
}

fn kept<C: Clone>(ranked: &[(C, f64)], plan: Plan, family: &impl Fn(&C) -> &str) -> Vec<(C, f64)> {
    let best = ranked.first().map_or(0.0, |(_, cost)| *cost);
    let places = plan.kept_least.max(ranked.len().div_ceil(plan.one_of.max(1)));
    let mut stays: Vec<(C, f64)> = Vec::new();
    for (candidate, cost) in ranked {
        let kin = stays.iter().filter(|(other, _)| family(other) == family(candidate)).count();
        let in_reach = kin == 0 && *cost <= best * plan.in_reach;
        if kin < plan.of_family && (stays.len() < places || in_reach) {
            stays.push((candidate.clone(), *cost));
        }
    }
    stays
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::rng::Rng;

    const PLAN: Plan = Plan { kept_least: 4, one_of: 3, of_family: 2, in_reach: 1.2 };

    /// A candidate of the test: its family, and its true cost in thousandths.
    type Made = (String, u64);

    #[test]
    fn the_best_is_found_with_a_third_of_the_work() {
        let mut rng = Rng::new(3);
        for _ in 0..50 {
            let made: Vec<Made> = (0..90).map(|i| (format!("f{}", i / 4), 1000 + rng.below(4000))).collect();
            let best = made.iter().map(|(_, cost)| *cost).min().unwrap();
            let mut work = 0.0;
            let sizes = [1.0 / 16.0, 0.25, 1.0];
            let found = halve(
                made,
                3,
                PLAN,
                |c| c.0.as_str(),
                |part, candidates| {
                    work += candidates.len() as f64 * sizes[part];
                    // A part shows the cost within 8, 4 and 0 percent.
                    let error = [80, 40, 1][part];
                    let mut cost =
                        |c: &Made| c.1 as f64 * (1000 - error + rng.below(2 * error)) as f64 / 1000.0;
                    candidates.iter().map(|c| Some(cost(c))).collect()
                },
            );
            assert!(found[0].0.1 as f64 <= best as f64 * 1.01, "{:?} is not {best}", found[0]);
            assert!(work < 30.0, "{work}");
        }
    }

    #[test]
    fn what_cannot_run_is_dropped_and_ties_keep_their_order() {
        let made: Vec<Made> = (0..6).map(|i| (format!("f{i}"), i)).collect();
        let cost = |_: usize, candidates: &[Made]| {
            candidates.iter().map(|c| (c.1 != 2).then_some(if c.1 == 5 { f64::NAN } else { 7.0 })).collect()
        };
        let found = halve(made, 2, PLAN, |c| c.0.as_str(), cost);
        let numbers: Vec<u64> = found.iter().map(|(c, _)| c.1).collect();
        assert_eq!(numbers, [0, 1, 3, 4]);
    }

    #[test]
    fn a_family_keeps_few_places_and_one_within_reach() {
        let mut made: Vec<Made> = (0..12).map(|i| ("same".to_string(), 1000 + i)).collect();
        made.push(("other".to_string(), 1150));
        made.push(("far".to_string(), 9000));
        let plan = Plan { kept_least: 1, one_of: 100, ..PLAN };
        let exact = |_: usize, candidates: &[Made]| candidates.iter().map(|c| Some(c.1 as f64)).collect();
        let found = halve(made, 1, plan, |c| c.0.as_str(), exact);
        let costs: Vec<u64> = found.iter().map(|(c, _)| c.1).collect();
        assert_eq!(costs, [1000, 1150]);
    }
}
