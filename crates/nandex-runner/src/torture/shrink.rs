//! The least of a life that still goes wrong in the same way.

use super::case::Case;
use super::fault::Kind;
use super::step::{Cut, Step};
use nandex::nand::sim::CutWhen;

/// Steps taken at most to shrink a life.
const STEPS_MAX: usize = 300_000;

struct Shrinker {
    least: Case,
    kind: Kind,
    /// Steps left to be taken.
    left: usize,
}

/// The case with steps left out and cuts made simpler, as long as it goes wrong in the same way; as it is
/// where nothing goes wrong.
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
    /// Takes the steps over if they still go wrong; also what came after the fault goes.
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

    /// Leaves out halves, then ever smaller stretches, down to single steps.
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

    /// A plain power-off instead of a cut, a cut before an operation instead of one inside, an earlier one
    /// instead of a later one.
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
