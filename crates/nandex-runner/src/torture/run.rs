//! Many lives: victims take turns, so that all get the same time.

use super::body::{Body, Flow};
use super::case::Case;
use super::counts::Counts;
use super::fault::{Fault, Kind};
use super::geometry::Rounds;
use super::script::{self, Fate, Script};
use super::setup::{Setup, Tried};
use super::step::Step;
use super::subject::Victim;
use crate::parallel;
use crate::runner::Control;
use nandex::rng::{Rng, split_mix};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The limit of a run.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// This number of lives of each victim.
    Lives(u64),
    /// Run for this time in total.
    Time(Duration),
}

/// A run over many lives.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The victims.
    pub victims: Vec<Victim>,
    /// The limit of the run.
    pub order: Order,
    /// The fate of every life.
    pub fate: Fate,
    /// Seed of the first life of each victim.
    pub seed: u64,
    /// Number of lives at a time.
    pub threads: usize,
}

/// A fault with everything needed to repeat it.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The victim's name.
    pub victim: String,
    /// The fate of the life.
    #[serde(flatten)]
    pub fate: Fate,
    /// The seed of the life.
    pub seed: u64,
    /// The kind of the fault.
    pub kind: Kind,
    /// The fault in words.
    pub what: String,
    /// Number of steps until the fault.
    pub steps: u64,
    /// Number of lives that ended with the same fault.
    pub times: u64,
    /// The command that repeats the life.
    pub replay: String,
    /// The recorded life; `None` if the victim could not be made on the chip.
    #[serde(skip)]
    pub case: Option<Case>,
}

fn replay_command(victim: &Victim, fate: Fate, seed: u64) -> String {
    let death = if fate.until_death { " --until-death" } else { "" };
    let reads = if fate.reads_well { " --reads-well" } else { "" };
    let geometry = if fate.any_geometry { " --geometry" } else { "" };
    format!("nandex torture --replay {victim}:{seed}{death}{reads}{geometry}")
}

/// The counts of one victim's lives.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// The victim's name.
    pub victim: String,
    /// The counts of the lives.
    #[serde(flatten)]
    pub counts: Counts,
    /// Number of lives that ended with a fault.
    pub found: u64,
}

/// The report on all lives.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The counts of each victim.
    pub rows: Vec<Row>,
    /// The findings, one for each victim and class of fault.
    pub findings: Vec<Finding>,
}

pub(crate) struct Ended {
    pub(crate) counts: Counts,
    pub(crate) fault: Option<Fault>,
    /// All steps, with the one that failed as the last.
    pub(crate) steps: Vec<Step>,
    pub(crate) setup: Option<Setup>,
}

pub(crate) fn live(victim: Victim, fate: Fate, seed: u64) -> Ended {
    let origin = split_mix(
        seed ^ victim.fingerprint() ^ u64::from(fate.until_death) ^ u64::from(fate.any_geometry) << 1,
    );
    let (mut rng, script_rng) = (Rng::new(origin), Rng::new(split_mix(origin)));
    let with_failures = script::fails(&mut script_rng.clone(), fate);
    let mut ended = Ended { counts: Counts::default(), fault: None, steps: Vec::new(), setup: None };
    let mut tried = Tried::default();
    let drawn = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Setup::draw(victim, &mut rng, (fate, with_failures), &mut tried)
    }));
    ended.counts.setups_refused = tried.times.saturating_sub(1);
    let setup = match drawn {
        Ok(Ok(Some(setup))) => setup,
        Ok(Ok(None)) => {
            ended.counts.skipped = 1;
            return ended;
        }
        Ok(Err(error)) => {
            ended.fault = Some(Fault::new(Kind::Error, format!("format: {error}")));
            ended.setup = tried.last;
            return ended;
        }
        Err(panic) => {
            let place = super::last_panic().unwrap_or_default();
            let what = format!("format: {}{place}", crate::crash::trial::panic_text(&*panic));
            ended.setup = tried.last;
            ended.fault = Some(Fault::new(Kind::Panicked, what));
            return ended;
        }
    };
    let script = match fate.any_geometry {
        true => Steps::Rounds(Rounds::new(script_rng)),
        false => Steps::Script(Box::new(Script::new(script_rng, fate))),
    };
    play(&setup, script, &mut ended);
    ended.setup = Some(setup);
    ended
}

enum Steps {
    Script(Box<Script>),
    Rounds(Rounds),
}

impl Steps {
    fn next(&mut self, body: &Body<'_>) -> Option<Step> {
        match self {
            Steps::Script(script) => script.next(body),
            Steps::Rounds(rounds) => rounds.next(body),
        }
    }

    fn is_dead(&self) -> bool {
        matches!(self, Steps::Script(script) if script.is_dead())
    }
}

fn play(setup: &Setup, mut script: Steps, ended: &mut Ended) {
    let mut body = match Body::born(setup) {
        Ok(body) => body,
        Err(fault) => {
            ended.fault = Some(fault);
            return;
        }
    };
    while let Some(step) = script.next(&body) {
        let flow = body.step(&step);
        ended.steps.push(step);
        match flow {
            Ok(Flow::Goes) => {}
            Ok(Flow::Ends) => break,
            Err(fault) => {
                ended.fault = Some(fault);
                break;
            }
        }
    }
    body.counts.setups_refused = ended.counts.setups_refused;
    body.counts.deaths = u64::from(script.is_dead());
    ended.counts = body.counts;
}

/// The shared state of the threads: the use of each victim, and the findings.
struct Board {
    /// For each victim, the time used and the number of lives begun.
    taken: Vec<(Duration, u64)>,
    rows: Vec<Row>,
    findings: BTreeMap<(usize, String), Finding>,
}

/// Runs all lives. Progress is counted in lives, or in seconds if the time is limited. `found` is called
/// with each finding of a new kind.
pub fn run(plan: &Plan, control: &Control, found: &(dyn Fn(&Finding) + Sync)) -> Report {
    let rows = plan.victims.iter().map(|victim| Row { victim: victim.to_string(), ..Row::default() });
    let board = Board {
        taken: vec![(Duration::ZERO, 0); plan.victims.len()],
        rows: rows.collect(),
        findings: BTreeMap::new(),
    };
    let board = Mutex::new(board);
    let began = Instant::now();
    let threads: Vec<usize> = (0..plan.threads.max(1)).collect();
    parallel::map(&threads, threads.len(), |_| {
        while let Some((place, number)) = next_of(plan, &board, began, control) {
            let life_began = Instant::now();
            let seed = plan.seed.wrapping_add(number);
            let ended = live(plan.victims[place], plan.fate, seed);
            book(plan, &board, (place, seed), (ended, life_began.elapsed()), found);
            match plan.order {
                Order::Lives(_) => control.add_done(1),
                Order::Time(_) => control.add_done(began.elapsed().as_secs().saturating_sub(control.done())),
            }
        }
    });
    let board = board.into_inner().unwrap_or_else(PoisonError::into_inner);
    Report { rows: board.rows, findings: board.findings.into_values().collect() }
}

/// The victim that had the least time, and the number of its next life; `None` if the run ends.
fn next_of(plan: &Plan, board: &Mutex<Board>, began: Instant, control: &Control) -> Option<(usize, u64)> {
    if control.is_cancelled() {
        return None;
    }
    let mut board = board.lock().unwrap_or_else(PoisonError::into_inner);
    let most = match plan.order {
        Order::Lives(lives) => lives,
        Order::Time(time) if began.elapsed() >= time => return None,
        Order::Time(_) => u64::MAX,
    };
    let places = (0..board.taken.len()).filter(|&place| board.taken[place].1 < most);
    let place = places.min_by_key(|&place| board.taken[place])?;
    let number = board.taken[place].1;
    board.taken[place].1 += 1;
    Some((place, number))
}

fn book(
    plan: &Plan,
    board: &Mutex<Board>,
    (place, seed): (usize, u64),
    (ended, time): (Ended, Duration),
    found: &(dyn Fn(&Finding) + Sync),
) {
    let mut board = board.lock().unwrap_or_else(PoisonError::into_inner);
    board.taken[place].0 += time;
    board.rows[place].counts.add(&ended.counts);
    let Some(fault) = ended.fault else { return };
    board.rows[place].found += 1;
    let key = (place, fault.class());
    if let Some(known) = board.findings.get_mut(&key) {
        known.times += 1;
        return;
    }
    let (setup, steps) = (ended.setup, ended.steps);
    let finding = Finding {
        victim: plan.victims[place].to_string(),
        fate: plan.fate,
        seed,
        kind: fault.kind,
        what: fault.what,
        steps: steps.len() as u64,
        times: 1,
        replay: replay_command(&plan.victims[place], plan.fate, seed),
        case: setup.map(|setup| Case { setup, steps }),
    };
    found(&finding);
    board.findings.insert(key, finding);
}
