//! Shortens a life to the fewest steps that still go wrong in the same way.

use super::case::Case;
use super::fault::Kind;
use super::step::{Cut, Step};
use nandex::nand::sim::CutWhen;

/// Most steps that are run to shrink a life.
const STEPS_MAX: usize = 300_000;

struct Shrinker {
    least: Case,
    kind: Kind,
    /// Number of steps that may still be run.
    left: usize,
}

/// The case with steps left out and cuts made simpler as long as it fails in the same way. A case without a
/// fault is returned unchanged.
pub(super) fn shrunk(case: &Case) -> Case {
    let Err((fault, steps)) = case.play() else { return case.clone() };
    let mut least = case.clone();
    least.steps.truncate(steps);
    let mut shrinker = Shrinker { least, kind: fault.kind, left: STEPS_MAX };
    loop {
        let before = shrinker.least.steps.len();
        shrinker.leave_out();
        shrinker.simplify_cuts();
        if shrinker.least.steps.len() == before || shrinker.left == 0 {
            return shrinker.least;
        }
    }
}

impl Shrinker {
    /// Keeps the steps if they still fail in the same way, without those after the fault.
    fn take(&mut self, steps: Vec<Step>) -> bool {
        self.left = self.left.saturating_sub(steps.len().max(1));
        let mut case = Case { setup: self.least.setup.clone(), steps };
        match case.play() {
            Err((fault, steps)) if fault.kind == self.kind => {
                case.steps.truncate(steps);
                self.least = case;
                true
            }
            _ => false,
        }
    }

    /// Leaves out halves of the steps, then ever shorter stretches, down to single steps.
    fn leave_out(&mut self) {
        let mut stretch = self.least.steps.len().div_ceil(2).max(1);
        loop {
            let mut from = 0;
            while from < self.least.steps.len() && self.left > 0 {
                let until = (from + stretch).min(self.least.steps.len());
                let mut steps = self.least.steps.clone();
                steps.drain(from..until);
                if !self.take(steps) {
                    from = until;
                }
            }
            if stretch == 1 || self.left == 0 {
                return;
            }
            stretch = stretch.div_ceil(2);
        }
    }

    /// Replaces each cut by a simpler step if the fault stays: a power-off, a cut before an operation
    /// instead of within it, or an earlier one.
    fn simplify_cuts(&mut self) {
        let mut place = 0;
        while place < self.least.steps.len() {
            if let Step::Cut(cut) = self.least.steps[place] {
                let simpler = [
                    Step::Off,
                    Step::Cut(Cut { when: CutWhen::Before, after: 0, ..cut }),
                    Step::Cut(Cut { when: CutWhen::Before, ..cut }),
                    Step::Cut(Cut { after: cut.after / 2, ..cut }),
                ];
                for step in simpler.into_iter().filter(|step| *step != Step::Cut(cut)) {
                    let mut steps = self.least.steps.clone();
                    if let Some(at) = steps.get_mut(place) {
                        *at = step;
                    }
                    if self.left > 0 && self.take(steps) {
                        break;
                    }
                }
            }
            place += 1;
        }
    }
}
