//! The search, stage by stage.

use super::answer::{Ranked, choose, contender, ranked, turns_of_chip, turns_of_load};
use super::halving::{Plan, halve};
use super::peer::peer;
use super::space::{Candidate, candidates};
use super::trial::{Bench, Parts, Tried};
use super::{ADVICE_SCHEMA, Advice, AtRam, Request, Turn, Want, config};
use crate::LabError;
use crate::compare::{Comparison, Ordered};
use crate::machine::shown;
use crate::parallel::cores;
use crate::results::ChipFacts;
use crate::runner::{Control, Prepared};
use crate::stats::NOISE;
use crate::workload::Workload;
use nandex::nand::Part;
use nandex_stacks::options::{Options, Settings};
use std::collections::{BTreeMap, BTreeSet};

/// The rules of the screening. A stack that costs more than four times the best on a beginning is not
/// expected to catch up.
const SCREENING: Plan = Plan { kept_least: 12, one_of: 4, of_family: 2, in_reach: 4.0 };

const FINALISTS: usize = 10;

/// Number of the best stacks on which options are tried.
const TUNED: usize = 4;

/// Fractions of the given RAM for which the answer is searched too.
const OTHER_RAM: [(u64, u64); 4] = [(1, 4), (1, 2), (2, 1), (4, 1)];

/// Least and most RAM, in bytes, in the search for neighbouring answers.
const RAM_ASKED: (u64, u64) = (4 << 10, 64 << 20);

pub(super) struct Search<'a> {
    pub(super) request: &'a Request,
    pub(super) comparison: &'a Comparison<Ordered>,
    pub(super) control: &'a Control,
    pub(super) tell: &'a (dyn Fn(&str) + Sync),
}

/// Parts of the workload, prepared for runs.
struct Ready<'w> {
    beginnings: Vec<Vec<Prepared<'w>>>,
    whole: Vec<Prepared<'w>>,
}

impl<'w> Ready<'w> {
    /// The shortest part, or the whole if there are no parts.
    fn shortest(&self) -> &[Prepared<'w>] {
        self.beginnings.first().unwrap_or(&self.whole)
    }

    /// The longest part, or the whole if there are no parts.
    fn longer(&self) -> &[Prepared<'w>] {
        self.beginnings.last().unwrap_or(&self.whole)
    }
}

/// The result of the screening.
struct Screened {
    /// Candidates left, the best first, each with its cost on the last part.
    left: Vec<(Candidate, f64)>,
    /// The best stack of each index. Of an index whose stacks did not run, the first.
    leaders: Vec<Candidate>,
    /// Indexes whose stacks all failed to run, with the reason.
    refused: BTreeMap<String, String>,
    stacks: usize,
}

impl Search<'_> {
    fn want(&self) -> Want {
        self.request.want
    }

    fn part(&self) -> &Part {
        &self.comparison.part
    }

    fn bench(&self, ram_bytes: u64) -> Bench<'_> {
        let class = self.comparison.classes[0];
        Bench {
            part: self.part(),
            settings: Settings {
                ram_bytes: Some(ram_bytes as usize),
                options: Options::default(),
                ..self.comparison.settings.clone()
            },
            sync_every: class.sync_every,
            wants_boot: self.want() == Want::Boot,
            threads: self.request.threads.unwrap_or_else(cores),
            control: self.control,
        }
    }

    /// The number by which a candidate is ranked: the cost by the aim, then the second cost.
    fn cost(&self, tried: &Tried) -> Option<f64> {
        let figures = tried.figures.as_ref().ok()?;
        let sum: f64 = figures
            .iter()
            .map(|f| f.cost(self.want(), self.part()) * (1.0 + f.second_cost(self.want()) * 1e-12))
            .sum();
        Some(sum / figures.len().max(1) as f64)
    }

    pub(super) fn run(&self, workloads: Vec<Workload>) -> Result<Advice, LabError> {
        let parts = Parts::of(workloads);
        let ram = self.request.ram_bytes();
        let bench = self.bench(ram);
        let beginnings = parts.beginnings.iter().map(|w| bench.prepare(std::slice::from_ref(w)));
        let ready =
            Ready { beginnings: beginnings.collect::<Result<_, _>>()?, whole: bench.prepare(&parts.whole)? };
        let screened = self.screen(&bench, &ready);
        let finalists = self.finalists(&bench, &ready, &screened);
        (self.tell)(&format!("{} finalists on the whole, every answer checked", finalists.len()));
        let mut ranked = ranked(&bench.try_all(&finalists, &ready.whole, true), self.want(), self.part());
        if ranked.is_empty() && !screened.left.is_empty() {
            // What ran on a beginning and failed later: then everything runs on the whole.
            let all = candidates(self.comparison.settings.durability);
            ranked = self::ranked(&bench.try_all(&all, &ready.whole, true), self.want(), self.part());
        }
        let taken = choose(&ranked, self.want(), self.part());
        let by_ram = self.by_ram(&ready, &screened, taken.map(|place| &ranked[place]));
        Ok(self.advice(&parts.whole, screened, &ranked, by_ram))
    }

    /// Runs all stacks on growing parts of the operations.
    fn screen(&self, bench: &Bench<'_>, ready: &Ready<'_>) -> Screened {
        let mut field = candidates(bench.settings.durability);
        let mut refused: BTreeMap<String, String> = BTreeMap::new();
        let records = ready.whole.iter().map(Prepared::records_max).max().unwrap_or(0);
        field.retain(|candidate| {
            let room = bench.require_room(candidate, records);
            if let Err(why) = &room {
                refused.entry(candidate.index.name.to_string()).or_insert_with(|| why.clone());
            }
            room.is_ok()
        });
        (self.tell)(&format!("{} stacks on the first operations", field.len()));
        let mut first: Option<Vec<(Candidate, Option<f64>)>> = None;
        let parts = ready.beginnings.len().max(1);
        let left = halve(
            field.clone(),
            parts,
            SCREENING,
            |c| c.index.name,
            |part, candidates| {
                if part > 0 {
                    (self.tell)(&format!("{} of them on more", candidates.len()));
                }
                let prepared = ready.beginnings.get(part).unwrap_or(&ready.whole);
                let tried = bench.try_all(candidates, prepared, false);
                for one in &tried {
                    if let Err(why) = &one.figures {
                        refused.entry(one.candidate.index.name.to_string()).or_insert_with(|| why.clone());
                    }
                }
                let costs: Vec<Option<f64>> = tried.iter().map(|one| self.cost(one)).collect();
                first.get_or_insert_with(|| candidates.iter().cloned().zip(costs.iter().copied()).collect());
                costs
            },
        );
        let ran: BTreeSet<&str> = first
            .iter()
            .flatten()
            .filter(|(_, cost)| cost.is_some())
            .map(|(candidate, _)| candidate.index.name)
            .collect();
        refused.retain(|index, _| !ran.contains(index.as_str()));
        let leaders = leaders(first.unwrap_or_default());
        Screened { left, leaders, refused, stacks: field.len() }
    }

    /// The best candidates left, with variants whose options were better on a part.
    fn finalists(&self, bench: &Bench<'_>, ready: &Ready<'_>, screened: &Screened) -> Vec<Candidate> {
        let mut finalists: Vec<Candidate> =
            screened.left.iter().take(FINALISTS).map(|(candidate, _)| candidate.clone()).collect();
        let bases: Vec<&(Candidate, f64)> = screened.left.iter().take(TUNED).collect();
        let varied = |(place, base): (usize, &&(Candidate, f64))| {
            base.0.variations().into_iter().map(move |option| (place, option)).collect::<Vec<_>>()
        };
        let variations: Vec<(usize, (&str, &str))> = bases.iter().enumerate().flat_map(varied).collect();
        if variations.is_empty() {
            return finalists;
        }
        (self.tell)(&format!("{} other options on the best {}", variations.len(), bases.len()));
        let with = |(place, (name, value)): &(usize, (&str, &str))| bases[*place].0.with(name, value);
        let tried =
            bench.try_all(&variations.iter().map(with).collect::<Vec<_>>(), &ready.longer()[..1], false);
        for (place, base) in bases.iter().enumerate() {
            let own = variations.iter().zip(&tried).filter(|((of, _), _)| *of == place);
            let better = own.filter_map(|((_, option), one)| {
                let cost = self.cost(one)?;
                (cost < base.1 * (1.0 - NOISE)).then_some((cost, *option))
            });
            finalists.extend(tuned(&base.0, better.collect()));
        }
        finalists
    }

    /// Answers with other RAM: the best stack of each index on the shortest part, the best of these on a
    /// longer one. If nothing runs with the given RAM, larger amounts are tried until something does.
    fn by_ram(&self, ready: &Ready<'_>, screened: &Screened, taken: Option<&Ranked>) -> Vec<AtRam> {
        let given = self.request.ram_bytes();
        let rams: Vec<u64> = match taken {
            Some(_) => OTHER_RAM.iter().map(|(times, over)| given * times / over).collect(),
            None => (1..=14).map(|doublings| given << doublings).collect(),
        };
        let asked = |ram: &u64| (RAM_ASKED.0..=RAM_ASKED.1).contains(ram);
        let mut found = Vec::new();
        for ram in rams.into_iter().filter(asked) {
            (self.tell)(&format!("the answer with {} of RAM", shown(ram.into())));
            let at = self.at_ram(ready, screened, taken, ram);
            let ends = at.is_some() && taken.is_none();
            found.extend(at);
            if ends || self.control.is_cancelled() {
                break;
            }
        }
        found
    }

    fn at_ram(
        &self,
        ready: &Ready<'_>,
        screened: &Screened,
        taken: Option<&Ranked>,
        ram: u64,
    ) -> Option<AtRam> {
        let bench = self.bench(ram);
        let mut field = screened.leaders.clone();
        field.extend(taken.map(|taken| taken.candidate.clone()));
        // What leads with much RAM may not fit in little.
        let on_dftl = field
            .iter()
            .filter(|c| c.ftl().is_some())
            .map(|c| Candidate { index: c.index, options: Options::default() });
        let on_dftl: Vec<Candidate> = on_dftl.map(|c| c.with("ftl", "dftl")).collect();
        field.extend(on_dftl);
        let mut seen = BTreeSet::new();
        field.retain(|c| {
            let options: Vec<String> =
                c.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
            seen.insert((c.index.name, options))
        });
        let first = ranked(&bench.try_all(&field, &ready.shortest()[..1], false), self.want(), self.part());
        let mut best: Vec<Candidate> = first.iter().take(6).map(|one| one.candidate.clone()).collect();
        best.extend(taken.map(|taken| taken.candidate.clone()));
        let second = ranked(&bench.try_all(&best, &ready.longer()[..1], false), self.want(), self.part());
        let chosen = &second[choose(&second, self.want(), self.part())?];
        let cost = |one: &Ranked| one.mean.cost(self.want(), self.part());
        let is_taken = |one: &&Ranked| {
            taken.is_some_and(|taken| {
                one.candidate.name() == taken.candidate.name()
                    && one.candidate.options == taken.candidate.options
            })
        };
        Some(AtRam {
            ram_bytes: ram,
            name: chosen.candidate.name(),
            cost: cost(chosen),
            cost_of_answer: second.iter().find(is_taken).map(cost),
        })
    }

    fn advice(
        &self,
        whole: &[Workload],
        screened: Screened,
        ranked: &[Ranked],
        by_ram: Vec<AtRam>,
    ) -> Advice {
        let ram = self.request.ram_bytes();
        let mut advice = Advice {
            schema: ADVICE_SCHEMA,
            nandex_version: env!("CARGO_PKG_VERSION"),
            request: self.request.clone(),
            ram_bytes: ram,
            chip: ChipFacts::of(self.part()),
            workload: whole[0].name.clone(),
            operations: whole[0].operations(),
            seeds: whole.iter().map(|w| w.seed).collect(),
            stacks: screened.stacks,
            answer: None,
            others: Vec::new(),
            turns: Vec::new(),
            refused: screened.refused,
            config: String::new(),
            rust: String::new(),
            c: None,
            by_ram,
            peer: peer(self.part(), ram),
        };
        let Some(place) = choose(ranked, self.want(), self.part()) else { return advice };
        let (best, chosen) = (&ranked[0], &ranked[place]);
        let tell = |one: &Ranked| contender(self.request, self.part(), one, chosen, best);
        let others: Vec<Ranked> =
            ranked.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, one)| one.clone()).collect();
        if self.want() == Want::Time {
            advice.turns.extend(turns_of_load(chosen, &others));
            advice.turns.extend(turns_of_chip(chosen, &others, self.part()));
        }
        advice.turns.extend(turns_of_ram(&chosen.candidate.name(), ram, &advice.by_ram));
        advice.answer = Some(tell(chosen));
        advice.others = others.iter().map(tell).collect();
        advice.config = config::toml(self.request, ram, &chosen.candidate);
        advice.rust = config::rust(self.request, ram, &chosen.candidate);
        advice.c = config::c(self.request, ram, &chosen.candidate);
        advice
    }
}

/// The best stack of each index. Of an index whose stacks did not run, the first.
fn leaders(first: Vec<(Candidate, Option<f64>)>) -> Vec<Candidate> {
    let mut leaders: Vec<(Candidate, Option<f64>)> = Vec::new();
    for (candidate, cost) in first {
        match leaders.iter_mut().find(|(known, _)| known.index.name == candidate.index.name) {
            None => leaders.push((candidate, cost)),
            Some(leader) if cost.is_some_and(|cost| leader.1.is_none_or(|known| cost < known)) => {
                *leader = (candidate, cost);
            }
            Some(_) => {}
        }
    }
    leaders.into_iter().map(|(candidate, _)| candidate).collect()
}

/// Variants of a stack: one with the best value of the option that helps most, and one with all options
/// that help.
fn tuned(base: &Candidate, mut better: Vec<(f64, (&str, &str))>) -> Vec<Candidate> {
    better.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((_, (name, value))) = better.first() else { return Vec::new() };
    let mut tuned = vec![base.with(name, value)];
    let (mut all, mut set) = (base.clone(), BTreeSet::new());
    for (_, (name, value)) in &better {
        if set.insert(*name) {
            all = all.with(name, value);
        }
    }
    if set.len() > 1 {
        tuned.push(all);
    }
    tuned
}

/// The nearest RAM above and the nearest below with another answer.
fn turns_of_ram(taken: &str, ram: u64, by_ram: &[AtRam]) -> Vec<Turn> {
    let others = || by_ram.iter().filter(|at| at.name != taken);
    let clearly = |at: &&AtRam| at.cost_of_answer.is_none_or(|cost| cost > at.cost * (1.0 + NOISE));
    let above = others().filter(clearly).filter(|at| at.ram_bytes > ram).min_by_key(|at| at.ram_bytes);
    let below = others().filter(clearly).filter(|at| at.ram_bytes < ram).max_by_key(|at| at.ram_bytes);
    let turn = |at: &AtRam| {
        let there = shown(at.ram_bytes.into());
        let how = match at.cost_of_answer {
            None => format!("{taken} does not fit, take {}", at.name),
            Some(cost) => format!("{} costs {:.2} times less", at.name, cost / at.cost),
        };
        Turn {
            what: "ram".to_string(),
            at: at.ram_bytes as f64,
            is_above: at.ram_bytes > ram,
            now: ram as f64,
            name: at.name.clone(),
            words: format!("with {there} of RAM {how}"),
        }
    };
    above.into_iter().chain(below).map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::ordered::Durability;

    #[test]
    fn options_that_help_are_tried_together() {
        let base = candidates(Durability::None).remove(0);
        let set = |c: &Candidate| c.options.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>();
        let better = vec![(3.0, ("a", "1")), (1.0, ("a", "2")), (2.0, ("b", "x"))];
        let found: Vec<_> = tuned(&base, better).iter().map(set).collect();
        assert_eq!(found, [vec!["a=2"], vec!["a=2", "b=x"]]);
        assert!(tuned(&base, Vec::new()).is_empty());
    }

    #[test]
    fn the_nearest_ram_with_another_answer_is_told() {
        let at = |kib: u64, name: &str, cost, cost_of_answer| AtRam {
            ram_bytes: kib << 10,
            name: name.to_string(),
            cost,
            cost_of_answer,
        };
        let points = [
            at(8, "plow", 5.0, None),
            at(16, "mu", 4.0, Some(4.01)),
            at(64, "bplus", 2.0, Some(3.0)),
            at(128, "fd", 1.0, Some(3.0)),
        ];
        let words: Vec<String> =
            turns_of_ram("vmtree", 32 << 10, &points).into_iter().map(|t| t.words).collect();
        assert_eq!(
            words,
            [
                "with 64 KiB of RAM bplus costs 1.50 times less",
                "with 8 KiB of RAM vmtree does not fit, take plow"
            ]
        );
    }
}
