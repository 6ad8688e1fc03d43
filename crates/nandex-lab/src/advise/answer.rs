//! Finds the answer from the figures: the finalists that are as good as the best, the simplest of them, and
//! the conditions under which another would win.

use super::figures::Figures;
use super::space::Candidate;
use super::trial::Tried;
use super::{Contender, Request, Turn, Want};
use crate::stats::{self, Summary};
use nandex::nand::Part;

#[derive(Clone, Debug)]
pub(super) struct Ranked {
    pub(super) candidate: Candidate,
    /// Figures seed by seed.
    pub(super) each: Vec<Figures>,
    pub(super) mean: Figures,
}

pub(super) fn ranked(tried: &[Tried], want: Want, part: &Part) -> Vec<Ranked> {
    let done = tried.iter().filter_map(|t| {
        let each = t.figures.as_ref().ok()?.clone();
        Some(Ranked { candidate: t.candidate.clone(), mean: Figures::mean(&each), each })
    });
    let mut all: Vec<Ranked> = done.collect();
    let costs = |r: &Ranked| (r.mean.cost(want, part), r.mean.second_cost(want));
    all.sort_by(|a, b| {
        let (a, b) = (costs(a), costs(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    all
}

/// Whether a finalist is as good as the best: it costs no more than the noise allows, or over several seeds
/// it is not shown to cost more.
pub(super) fn is_as_good(one: &Ranked, best: &Ranked, want: Want, part: &Part) -> bool {
    let pairs = one.each.iter().zip(&best.each);
    let ratio = |(one, best): (&Figures, &Figures)| {
        let (one, best) = (one.cost(want, part), best.cost(want, part));
        if best > 0.0 {
            one / best
        } else if one > 0.0 {
            f64::INFINITY
        } else {
            1.0
        }
    };
    let Some(ratios) = Summary::of(&pairs.map(ratio).collect::<Vec<_>>()) else { return false };
    stats::is_as_good(&ratios)
}

/// The index of the answer among the finalists. Of those as good as the best it has the fewest parts; of
/// equals, the least RAM.
pub(super) fn choose(ranked: &[Ranked], want: Want, part: &Part) -> Option<usize> {
    let best = ranked.first()?;
    let good = |place: &usize| is_as_good(&ranked[*place], best, want, part);
    let simple = |place: &usize| (ranked[*place].candidate.parts(), ranked[*place].mean.ram_bytes as u64);
    (0..ranked.len()).filter(good).min_by_key(simple)
}

pub(super) fn contender(
    request: &Request,
    part: &Part,
    one: &Ranked,
    taken: &Ranked,
    best: &Ranked,
) -> Contender {
    let (want, rate) = (request.want, request.rate.unwrap_or(1.0));
    let base = taken.mean.cost(want, part);
    Contender {
        name: one.candidate.name(),
        index: one.candidate.index.name.to_string(),
        storage: one.candidate.index.storage(&one.candidate.options),
        options: one.candidate.options.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
        parts: one.candidate.parts(),
        costs_times: if base > 0.0 { one.mean.cost(want, part) / base } else { 1.0 },
        is_equivalent: is_as_good(one, best, want, part),
        life: one.mean.life(part, rate),
        figures: one.mean.clone(),
    }
}

/// The shares of reads at which another finalist would become the faster one: the nearest above and the
/// nearest below. Only time is linear in the share.
pub(super) fn turns_of_load(taken: &Ranked, others: &[Ranked]) -> Vec<Turn> {
    let now = taken.mean.read_share;
    let crossings = others.iter().filter_map(|other| {
        let share = crossing(taken.mean.per_kind()?, other.mean.per_kind()?)?;
        Some((share, other))
    });
    let all: Vec<(f64, &Ranked)> = crossings.filter(|(share, _)| (0.0..=1.0).contains(share)).collect();
    let above = all.iter().filter(|(s, _)| *s > now).min_by(|a, b| a.0.total_cmp(&b.0));
    let below = all.iter().filter(|(s, _)| *s < now).max_by(|a, b| a.0.total_cmp(&b.0));
    let turn = |(share, other): &(f64, &Ranked)| Turn {
        what: "load".to_string(),
        at: *share,
        is_above: *share > now,
        now,
        name: other.candidate.name(),
        words: format!(
            "with {} than {:.1} % reads (here {:.1} %), {} is faster",
            if *share > now { "more" } else { "fewer" },
            share * 100.0,
            now * 100.0,
            other.candidate.name()
        ),
    };
    above.into_iter().chain(below).map(turn).collect()
}

/// The prices of a program, in reads, at which another finalist would become the faster one. An erase keeps
/// its price in programs.
pub(super) fn turns_of_chip(taken: &Ranked, others: &[Ranked], part: &Part) -> Vec<Turn> {
    let (read, program) = (part.page_read_ns() as f64, part.page_program_ns() as f64);
    let erase = part.timing.erase_ns as f64 / program;
    let now = program / read;
    let weights = |r: &Ranked| (r.mean.page_reads, r.mean.page_programs + erase * r.mean.block_erases);
    let crossings = others.iter().filter_map(|other| {
        let ((reads, writes), (other_reads, other_writes)) = (weights(taken), weights(other));
        let ratio = (other_reads - reads) / (writes - other_writes);
        (ratio.is_finite() && ratio > 0.05 && ratio < 1000.0).then_some((ratio, other))
    });
    let all: Vec<(f64, &Ranked)> = crossings.collect();
    let above = all.iter().filter(|(r, _)| *r > now).min_by(|a, b| a.0.total_cmp(&b.0));
    let below = all.iter().filter(|(r, _)| *r < now).max_by(|a, b| a.0.total_cmp(&b.0));
    let turn = |(ratio, other): &(f64, &Ranked)| Turn {
        what: "chip".to_string(),
        at: *ratio,
        is_above: *ratio > now,
        now,
        name: other.candidate.name(),
        words: format!(
            "where a program takes {} than {ratio:.1} times a read (here {now:.1}), {} is faster",
            if *ratio > now { "more" } else { "less" },
            other.candidate.name()
        ),
    };
    above.into_iter().chain(below).map(turn).collect()
}

/// The share of reads at which two finalists cost the same, given what each costs per read and per change.
fn crossing((read, change): (f64, f64), (other_read, other_change): (f64, f64)) -> Option<f64> {
    let share = (other_change - change) / ((other_change - change) + (read - other_read));
    share.is_finite().then_some(share)
}

impl Figures {
    /// Time per read and per change, if there were both.
    fn per_kind(&self) -> Option<(f64, f64)> {
        Some((self.read_ns?, self.change_ns?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::space::candidates;
    use super::*;
    use crate::chip;
    use nandex::ordered::Durability;

    fn finalist(name: &str, means: &[f64]) -> Ranked {
        let field = candidates(Durability::EveryOperation);
        let candidate = field.into_iter().find(|c| c.name() == name).unwrap();
        let each: Vec<Figures> =
            means.iter().map(|m| Figures { mean_ns: *m, ..Figures::default() }).collect();
        Ranked { candidate, mean: Figures::mean(&each), each }
    }

    #[test]
    fn the_simplest_of_those_as_good_is_taken() {
        let part = chip::find("mlc-64m").unwrap();
        let chosen = |all: &[Ranked]| choose(all, Want::Time, &part).map(|place| all[place].candidate.name());
        let lazy = finalist("lazy-update on page-map", &[100.0]);
        let plain = |mean| finalist("bplus on page-map", &[mean]);
        assert_eq!(chosen(&[lazy.clone(), plain(101.9)]), Some("bplus on page-map".to_string()));
        assert_eq!(chosen(&[lazy, plain(102.1)]), Some("lazy-update on page-map".to_string()));
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn over_seeds_what_is_not_shown_to_be_worse_is_as_good() {
        let part = chip::find("mlc-64m").unwrap();
        let best = finalist("mu", &[100.0, 100.0, 100.0]);
        let as_good = |means: &[f64]| is_as_good(&finalist("wandering", means), &best, Want::Time, &part);
        assert!(as_good(&[99.0, 109.0, 103.0]));
        assert!(!as_good(&[104.0, 104.1, 104.0]));
        assert!(!as_good(&[90.0, 190.0, 103.0]), "what is so much worse in the mean is no answer");
    }

    #[test]
    fn the_answer_turns_where_costs_cross() {
        let of = |name: &str, read, change, share| {
            let mut one = finalist(name, &[0.0]);
            let mean_ns = share * read + (1.0 - share) * change;
            one.mean = Figures {
                mean_ns,
                read_ns: Some(read),
                change_ns: Some(change),
                read_share: share,
                page_reads: read / 100.0,
                page_programs: change / 100.0,
                ..Figures::default()
            };
            one
        };
        let (taken, other) = (of("mu", 10.0, 100.0, 0.5), of("bplus on page-map", 5.0, 300.0, 0.5));
        let turns = turns_of_load(&taken, std::slice::from_ref(&other));
        // 10 s + 100 (1 - s) = 5 s + 300 (1 - s) at s = 200/205.
        assert_eq!(turns.len(), 1);
        assert!((turns[0].at - 200.0 / 205.0).abs() < 1e-12 && turns[0].is_above, "{turns:?}");
        assert_eq!(turns[0].words, "with more than 97.6 % reads (here 50.0 %), bplus on page-map is faster");
        let part = chip::find("mlc-64m").unwrap();
        let turns = turns_of_chip(&taken, &[other], &part);
        assert!(turns.is_empty(), "reads 0.05 fewer for 2 programs more pay nowhere: {turns:?}");
        let frugal = of("wandering", 500.0, 90.0, 0.5);
        let turns = turns_of_chip(&taken, &[frugal], &part);
        assert!((turns[0].at - 49.0).abs() < 1e-9 && turns[0].is_above, "{turns:?}");
    }
}
