//! Draws the steps of a life: filled until refused, long at the edge of full, drained and filled again, with
//! cuts and power-offs all along; or with failures that rise until the end.

use super::body::Body;
use super::step::{Aside, Cut, Rates, Step, WHENS};
use crate::crash::ops::HostOp;
use nandex::nand::sim::TornModel;
use nandex::ordered::Durability;
use nandex::rng::Rng;
use serde::Serialize;
use std::collections::VecDeque;

/// Properties drawn for a life: its failures and its mix of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fate {
    /// Whether failures of programs and erases become more frequent until nothing can be written. Otherwise
    /// the life goes on at the edge of full.
    pub until_death: bool,
    /// Whether no read fails.
    pub reads_well: bool,
    /// Whether chip and records have any shape and the life is short.
    pub any_geometry: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Fill,
    Edge,
    Drain,
    Over,
}

/// Most cuts in a row, each in the mount after the previous one.
const CUTS_DEEP: u32 = 4;
/// Number of writes refused in a row after which a chip counts as dead.
const REFUSED_MAX: u64 = 60;
/// Number of steps after which every life ends.
const STEPS_MAX: u64 = 30_000;

pub(crate) struct Script {
    rng: Rng,
    fate: Fate,
    phase: Phase,
    /// Number of steps left in the phase.
    left: u64,
    steps: u64,
    steps_max: u64,
    /// Per thousand of the steps: power cuts.
    cuts: u64,
    offs: u64,
    syncs: u64,
    /// The slot at which ascending puts and removals continue; `None` for random ones.
    cursor: Option<u32>,
    rates: Rates,
    depth: u32,
    pending: VecDeque<Step>,
    is_dead: bool,
}

impl Script {
    pub(crate) fn new(mut rng: Rng, fate: Fate) -> Script {
        let rates = draw_rates(&mut rng, fate);
        let mut draw = |items: &[u64]| items[rng.below(items.len() as u64) as usize];
        let (cuts, offs, syncs) = (draw(&[0, 4, 10, 30]), draw(&[0, 2, 6]), draw(&[4, 20, 80]));
        let (left, steps_max) = (draw(&[800, 2000, 5000]), draw(&[800, 2000, 4500]));
        let mut script = Script {
            rng,
            fate,
            phase: Phase::Fill,
            left: if fate.until_death { left / 2 } else { STEPS_MAX },
            steps: 0,
            steps_max: if fate.until_death { STEPS_MAX } else { left + steps_max },
            cuts,
            offs,
            syncs,
            cursor: None,
            rates,
            depth: 0,
            pending: VecDeque::new(),
            is_dead: false,
        };
        script.turn();
        if script.rates != Rates::default() {
            script.pending.push_back(Step::Fail(script.rates));
        }
        if script.rng.chance(1, 4) {
            script.load();
        }
        script
    }

    /// Loads an index that is new or without records. The load may be cut, or followed by a power-off.
    fn load(&mut self) {
        let slots = [1, 12, 60][self.rng.below(3) as usize];
        if self.rng.chance(1, 3) {
            let gone = 1 + self.rng.below(40) as u32;
            self.pending.extend((0..gone).map(|slot| Step::Op(HostOp::Put(slot))));
            self.pending.extend((0..gone).map(|slot| Step::Op(HostOp::Remove(slot))));
        }
        if self.cuts > 0 && self.rng.chance(1, 3) {
            let most = [4, 20, 80][self.rng.below(3) as usize];
            let after = self.rng.below(most);
            let cut = self.cut(after);
            self.pending.push_back(cut);
        }
        self.pending.push_back(Step::Op(HostOp::Load(slots)));
        if self.rng.chance(1, 3) {
            self.pending.push_back(Step::Off);
        }
    }

    /// Whether nothing could be written any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// The next step; `None` at the end.
    pub(crate) fn next(&mut self, body: &Body<'_>) -> Option<Step> {
        self.steps += 1;
        if let Some(step) = self.pending.pop_front() {
            return Some(step);
        }
        self.change_phase(body);
        if self.phase == Phase::Over {
            return None;
        }
        self.left = self.left.saturating_sub(1);
        if body.is_off() {
            return Some(self.wake(body));
        }
        if let Some(step) = self.worsen() {
            return Some(step);
        }
        self.depth = 0;
        Some(self.interruption(body).unwrap_or_else(|| self.work(body)))
    }

    /// Draws a new order of the keys.
    fn turn(&mut self) {
        self.cursor = match self.rng.below(3) {
            0 => Some(0),
            1 => Some(self.rng.below(1 << 30) as u32),
            _ => None,
        };
    }

    fn change_phase(&mut self, body: &Body<'_>) {
        let is_dead = self.fate.until_death && body.refusals.writes_in_row >= REFUSED_MAX;
        self.is_dead |= is_dead;
        if is_dead || self.steps >= self.steps_max || self.steps >= STEPS_MAX {
            return self.end();
        }
        let held = body.expected.held();
        let is_full = body.refusals.in_row > 0 || held == body.expected.contents().len();
        match self.phase {
            Phase::Fill if is_full || self.left == 0 => self.enter(Phase::Edge, &[100, 400, 1000]),
            Phase::Edge if self.left == 0 => self.enter(Phase::Drain, &[50, 400, 3000]),
            Phase::Drain if self.left == 0 || held == 0 => self.enter(Phase::Fill, &[STEPS_MAX]),
            _ => {}
        }
    }

    fn enter(&mut self, phase: Phase, steps: &[u64]) {
        self.phase = phase;
        self.left = steps[self.rng.below(steps.len() as u64) as usize];
        self.turn();
    }

    /// Ends the life with three looks at the contents: at once, after a mount on the failing chip, and on a
    /// chip that no longer fails.
    fn end(&mut self) {
        if self.phase == Phase::Over {
            return;
        }
        self.phase = Phase::Over;
        self.pending.push_back(Step::Look);
        if !self.fate.until_death && self.rng.chance(1, 2) {
            self.pending.push_back(Step::Op(HostOp::Remount { close: true }));
        }
        let rest = [Step::Off, Step::Look, Step::Fail(Rates::default()), Step::Off, Step::Look];
        self.pending.extend(rest);
        let slot = self.rng.below(64) as u32;
        self.pending.extend([HostOp::Put(slot), HostOp::Remove(slot)].map(Step::Op));
        self.pending.extend([Step::Off, Step::Look]);
    }

    /// The step after a power-off: a cut in the mount, another power-off, or a trial with an insertion and
    /// a removal.
    fn wake(&mut self, body: &Body<'_>) -> Step {
        if self.depth < CUTS_DEEP && self.cuts > 0 && self.rng.chance(2, 5) {
            self.depth += 1;
            let most = [2, 8, 40][self.rng.below(3) as usize];
            let after = self.rng.below(most);
            return self.cut(after);
        }
        self.depth = 0;
        if body.expected.mix.gives_up {
            return append(body.expected.contents());
        }
        let slot = self.rng.below(body.expected.contents().len() as u64) as u32;
        let present = next_held(body.expected.contents(), slot, true).unwrap_or(slot);
        self.pending.push_back(Step::Op(HostOp::Remove(present)));
        Step::Op(HostOp::Put(next_held(body.expected.contents(), slot, false).unwrap_or(slot)))
    }

    fn cut(&mut self, after: u64) -> Step {
        let when = WHENS[self.rng.below(3) as usize].0;
        let torn = TornModel::ALL[self.rng.below(TornModel::ALL.len() as u64) as usize];
        Step::Cut(Cut { after, when, torn, seed: self.rng.below(1 << 32) })
    }

    /// Makes a dying chip fail more often.
    fn worsen(&mut self) -> Option<Step> {
        if !self.fate.until_death || self.phase == Phase::Fill || !self.steps.is_multiple_of(120) {
            return None;
        }
        let worse = |rate: u32| (rate + rate / 3 + 200).min(600_000);
        let seed = self.rng.next_u64();
        let (programs, erases) = (worse(self.rates.programs), worse(self.rates.erases));
        self.rates = Rates { programs, erases, seed, ..self.rates };
        Some(Step::Fail(self.rates))
    }

    fn interruption(&mut self, body: &Body<'_>) -> Option<Step> {
        let slower = if self.phase == Phase::Fill { 3 } else { 1 };
        let draw = self.rng.below(1000 * slower);
        let (cuts, offs) = (self.cuts, self.cuts + self.offs);
        let syncs = offs + self.syncs;
        if draw < cuts {
            let most = [3, 20, 120][self.rng.below(3) as usize];
            let after = self.rng.below(most);
            return Some(self.cut(after));
        }
        // What promises nothing is mostly closed, else it would be made anew all the time.
        let closes = body.class == Durability::None && self.rng.chance(4, 5);
        if draw < offs {
            return Some(if closes { Step::Op(HostOp::Remount { close: true }) } else { Step::Off });
        }
        if draw < syncs {
            return Some(Step::Op(HostOp::Sync));
        }
        (draw < syncs + 2).then_some(Step::Op(HostOp::Remount { close: true }))
    }

    fn work(&mut self, body: &Body<'_>) -> Step {
        let slots = body.expected.contents().len() as u32;
        if self.rng.chance(1, 16) {
            return Step::Aside(self.aside(slots));
        }
        let removes = match self.phase {
            Phase::Fill => self.rng.chance(1, 40),
            Phase::Drain => self.rng.chance(19, 20),
            _ => self.rng.chance(9, 20),
        };
        let mix = body.expected.mix;
        if mix.group_max > 1 && self.rng.chance(1, 24) {
            return Step::Op(HostOp::Mixed(self.mixed(slots, mix.group_max, removes)));
        }
        if !removes && mix.group_max > 1 && self.rng.chance(1, 12) {
            return Step::Op(HostOp::Group(self.group(slots, mix.group_max)));
        }
        let from = match self.cursor {
            Some(cursor) => cursor % slots,
            None => self.rng.below(u64::from(slots)) as u32,
        };
        if mix.appends {
            return match append(body.expected.contents()) {
                Step::Op(HostOp::Put(next)) => self.put(next),
                other => other,
            };
        }
        if removes {
            // Now and then of a key that is not there.
            let present = next_held(body.expected.contents(), from, true).filter(|_| !self.rng.chance(1, 30));
            let slot = present.unwrap_or(from);
            self.cursor = self.cursor.map(|_| slot + 1);
            return Step::Op(HostOp::Remove(slot));
        }
        let updates = self.rng.chance(if self.phase == Phase::Fill { 1 } else { 4 }, 12);
        let slot = next_held(body.expected.contents(), from, updates).unwrap_or(from);
        self.cursor = self.cursor.map(|_| slot + 1);
        self.put(slot)
    }

    /// Puts a value; one put in three does not ask whether the key existed.
    fn put(&mut self, slot: u32) -> Step {
        Step::Op(if self.rng.chance(1, 3) { HostOp::Blind(slot) } else { HostOp::Put(slot) })
    }

    fn aside(&mut self, slots: u32) -> Aside {
        let budget = [1, 4, 40][self.rng.below(3) as usize];
        match self.rng.below(8) {
            0 => Aside::Scrub(budget),
            1 => Aside::Maintain(budget),
            2 => Aside::Free,
            3 | 4 => Aside::Seek(self.rng.below(u64::from(slots)) as u32),
            _ => Aside::Walk { records: budget.min(20), on: self.rng.chance(2, 3) },
        }
    }

    fn mixed(&mut self, slots: u32, most: usize, removes: bool) -> Vec<(u32, bool)> {
        let wanted = 1 + self.rng.below(most.min(8) as u64);
        // Few slots, so that some come twice.
        let (from, width) = (self.rng.below(u64::from(slots)), 1 + self.rng.below(40));
        let slot = |rng: &mut Rng| ((from + rng.below(width)) % u64::from(slots)) as u32;
        let puts = if removes { 1 } else { 3 };
        (0..wanted).map(|_| (slot(&mut self.rng), self.rng.chance(puts, 4))).collect()
    }

    fn group(&mut self, slots: u32, most: usize) -> Vec<u32> {
        let wanted = 2 + self.rng.below(most.min(8) as u64 - 1);
        let mut group: Vec<u32> = Vec::new();
        for _ in 0..wanted {
            let slot = self.rng.below(u64::from(slots)) as u32;
            if !group.contains(&slot) {
                group.push(slot);
            }
        }
        group
    }
}

fn draw_rates(rng: &mut Rng, fate: Fate) -> Rates {
    let seed = rng.next_u64();
    let (reads, failures) = ([0, 0, 1000, 4000][rng.below(4) as usize], rng.below(4));
    let reads = if fate.reads_well { 0 } else { reads };
    let rate = [200, 1000, 3000][rng.below(3) as usize];
    let (programs, erases) = match (fate.until_death, failures) {
        (true, 0) => (rate, 0),
        (true, 1) => (0, rate),
        (true, _) => (rate, rate),
        (false, 3) => (rate / 2, rate / 2),
        (false, _) => (0, 0),
    };
    let weak = if fate.reads_well { 0 } else { [0, 0, 0, 2000][rng.below(4) as usize] };
    if programs + erases + reads + weak == 0 {
        Rates::default()
    } else {
        Rates { programs, erases, reads, weak, seed }
    }
}

/// Whether a life has failures of programs or erases.
pub(crate) fn fails(rng: &mut Rng, fate: Fate) -> bool {
    let rates = draw_rates(rng, fate);
    rates.programs + rates.erases > 0
}

/// A put after the last slot in use, or a sync if no slot is left.
fn append(contents: &[u64]) -> Step {
    Step::Op(crate::crash::ops::append(contents))
}

/// The next slot from `from` on, continued at the start, that holds a value or not, as `held` says.
fn next_held(contents: &[u64], from: u32, held: bool) -> Option<u32> {
    let slots = contents.len();
    (0..slots)
        .map(|i| (from as usize + i) % slots)
        .find(|&slot| (contents[slot] != 0) == held)
        .map(|s| s as u32)
}
