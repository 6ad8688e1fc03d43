//! One cut: mounts the chip, checks the index, compares its whole contents, and sometimes goes on working.

use super::CrashPlan;
use super::history::{History, Moment, Wrong};
use super::ops::{HostOp, Mix, Source};
use super::point::{Cut, CutPoint, WAYS};
use super::report::{CrashFailure, Failure, Tally};
use super::subject::{Applied, Promise, SharedChip, Subject, spots};
use nandex::Shared;
use nandex::nand::sim::{Recorded, SimChip};
use nandex::ordered::Durability;
use nandex::rng::{Rng, split_mix};
use nandex::{IndexError, Nand, Pbn};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The context that all trials of a test share.
pub(super) struct Context<'a> {
    pub(super) plan: &'a CrashPlan,
    pub(super) mix: Mix,
    pub(super) promise: Promise,
    pub(super) durability: Durability,
    /// Whether the workload ever found the chip full. If not, no recovered chip may be full.
    pub(super) may_be_full: bool,
}

/// A recording with its history, and a chip that is moved along the recording.
pub(super) struct Walk<'a> {
    pub(super) history: &'a History,
    pub(super) recording: &'a [Recorded],
    pub(super) chip: SimChip,
    pub(super) moment: Moment,
    /// Physical operations that the chip has seen.
    pub(super) at: usize,
}

/// Counts, and the first failure, of some trials.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    pub(super) first_failure: Option<CrashFailure>,
}

/// The extent of a trial beyond the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Compare,
    GoOn,
    CutAgain,
}

/// Number of operations done on a recovered chip.
const OPERATIONS_AFTER: usize = 40;
/// One in this many recovered chips is used further.
const GO_ON_EVERY: u64 = 6;
/// Every how many of the chips that go on are cut again, and at how many places.
const CUT_AGAIN_EVERY: u64 = 12;
const SECOND_CUTS: u64 = 8;

/// One in this many blocks must have failed before a write may be refused for that reason. FTLs reserve this
/// share in these tests.
const FAILED_PER_WORN: u32 = 8;

/// Whether enough blocks have failed that writes may be refused.
fn is_worn(chip: &mut SimChip) -> bool {
    let blocks = chip.geometry().blocks;
    let bad = (0..blocks).filter(|&pbn| chip.is_bad(Pbn(pbn)) == Ok(true)).count() as u32;
    bad * FAILED_PER_WORN >= blocks
}

impl Walk<'_> {
    /// Moves the chip to the moment before the operation.
    pub(super) fn advance(&mut self, operation: usize) {
        for recorded in &self.recording[self.at..operation] {
            let repeated = self.chip.replay(recorded);
            assert!(repeated.is_ok(), "a recorded operation is repeated on the same chip: {repeated:?}");
        }
        self.at = operation;
        let acknowledged = self.recording.get(operation).map_or(self.history.len(), |op| op.mark as usize);
        self.history.advance(&mut self.moment, acknowledged);
    }

    fn cut(&mut self, cut: Cut, seed: u64) -> SimChip {
        self.advance(cut.operation as usize);
        let mut chip = self.chip.clone();
        if let (Some(torn), Some(recorded)) = (cut.torn, self.recording.get(self.at)) {
            let applied = chip.apply_torn(&recorded.op, torn, split_mix(seed ^ cut.number()));
            assert!(applied.is_ok(), "a recorded operation is possible on the same chip: {applied:?}");
        }
        chip
    }
}

impl Context<'_> {
    /// Tries the cuts with these numbers, in ascending order.
    pub(super) fn try_cuts(&self, walk: &mut Walk<'_>, numbers: &[u64], tick: &dyn Fn() -> bool) -> Outcome {
        let mut outcome = Outcome::default();
        for &number in numbers {
            let cut = Cut::numbered(number);
            let chip = walk.cut(cut, self.plan.seed);
            let trial = Trial { context: self, history: walk.history, moment: &walk.moment, cut };
            trial.run(chip, &mut outcome);
            if !tick() {
                break;
            }
        }
        outcome
    }

    /// Tries the cut of a replay. If it has no second cut, several second cuts are tried.
    pub(super) fn try_point(&self, walk: &mut Walk<'_>, point: CutPoint) -> Outcome {
        let mut outcome = Outcome::default();
        let chip = walk.cut(point.first, self.plan.seed);
        let trial = Trial { context: self, history: walk.history, moment: &walk.moment, cut: point.first };
        trial.guarded(&mut outcome, |trial, outcome| {
            trial.examine(chip, Depth::CutAgain, point.second, outcome)
        });
        outcome
    }
}

struct Trial<'a> {
    context: &'a Context<'a>,
    history: &'a History,
    moment: &'a Moment,
    cut: Cut,
}

impl Trial<'_> {
    fn run(&self, chip: SimChip, outcome: &mut Outcome) {
        let draw = split_mix(self.context.plan.seed ^ self.cut.number().wrapping_mul(0x9e37));
        let depth = match () {
            () if !draw.is_multiple_of(GO_ON_EVERY) => Depth::Compare,
            () if !draw.is_multiple_of(GO_ON_EVERY * CUT_AGAIN_EVERY) => Depth::GoOn,
            () => Depth::CutAgain,
        };
        self.guarded(outcome, |trial, outcome| trial.examine(chip, depth, None, outcome));
    }

    /// Records a failure or panic with the place of the cut.
    fn guarded(
        &self,
        outcome: &mut Outcome,
        examine: impl FnOnce(&Self, &mut Outcome) -> Result<(), (Option<Cut>, Failure)>,
    ) {
        outcome.tally.cuts_tried += 1;
        let mut inner = Outcome::default();
        let end = catch_unwind(AssertUnwindSafe(|| examine(self, &mut inner)));
        outcome.tally.add(&inner.tally);
        let failed = match end {
            Ok(Ok(())) => return,
            Ok(Err(failed)) => failed,
            Err(panic) => (None, Failure::Panicked(panic_text(&*panic))),
        };
        outcome.tally.failed(&failed.1);
        let point = CutPoint { first: self.cut, second: failed.0 };
        let failure = CrashFailure::new(point, self.moment.acknowledged, &failed.1);
        outcome.first_failure.get_or_insert(failure);
    }

    fn examine(
        &self,
        chip: SimChip,
        depth: Depth,
        second: Option<Cut>,
        outcome: &mut Outcome,
    ) -> Result<(), (Option<Cut>, Failure)> {
        let origin = (depth == Depth::CutAgain).then(|| chip.clone());
        let chip = Shared::new(chip);
        if depth == Depth::CutAgain {
            chip.lock().start_recording();
        }
        let Some((mut subject, found)) = self.recover(&chip, outcome).map_err(|failure| (None, failure))?
        else {
            return Ok(());
        };
        if depth == Depth::Compare {
            return Ok(());
        }
        let history =
            self.go_on(&mut subject, &chip, found).map_err(|why| (None, Failure::WentWrong(why)))?;
        outcome.tally.continued += 1;
        drop(subject);
        let recording = chip.lock().take_recording();
        self.mount_again(&chip, &history).map_err(|failure| (None, failure))?;
        let Some(origin) = origin else { return Ok(()) };
        let recording = &recording.operations[..];
        let walk = Walk { moment: history.start(), history: &history, recording, chip: origin, at: 0 };
        self.cut_again(walk, second, outcome)
    }

    /// Mounts the chip and finds its state in the history. Returns `None` if the mount was refused and may
    /// be.
    fn recover(
        &self,
        chip: &SharedChip,
        outcome: &mut Outcome,
    ) -> Result<Option<(Subject, Vec<u64>)>, Failure> {
        let context = self.context;
        let mut subject = match context.plan.mount(chip) {
            Ok(subject) => subject,
            Err(IndexError::NotCleanlyClosed) if context.durability == Durability::None => {
                outcome.tally.refused += 1;
                self.salvage(chip, outcome)?;
                return Ok(None);
            }
            Err(error) => return Err(Failure::Unmountable(format!("mount: {error}"))),
        };
        let found = self.read(&mut subject)?;
        let survivor = self.history.survivor(self.moment, &found, context.promise);
        let survivor = survivor.map_err(|wrong: Wrong| Failure::Lost(wrong.to_string()))?;
        subject.spot_check(&found, spots(self.cut.number() as usize, found.len())).map_err(Failure::Lost)?;
        outcome.tally.survived(survivor);
        outcome.tally.lost_operations(self.history.lost(self.moment, &found));
        Ok(Some((subject, found)))
    }

    fn read(&self, subject: &mut Subject) -> Result<Vec<u64>, Failure> {
        let records = subject.check().map_err(Failure::Unsound)?;
        let found = subject.contents(self.context.mix.slots as usize).map_err(Failure::Unmountable)?;
        let present = found.iter().filter(|&&value| value != 0).count() as u64;
        if records.is_some_and(|records| records != present) {
            return Err(Failure::Unsound(format!("check counts {records:?} records, a range {present}")));
        }
        Ok(found)
    }

    /// Opens a subject that refused to mount, if that is possible. It must be whole, and no key may be
    /// older than the last sync.
    fn salvage(&self, chip: &SharedChip, outcome: &mut Outcome) -> Result<(), Failure> {
        let plan = self.context.plan;
        let opened = Subject::mount_after_cut(plan.target, &plan.settings, Box::new(chip.clone()));
        let opened = opened.map_err(|error| Failure::Unmountable(format!("mount after the cut: {error}")))?;
        let Some(mut subject) = opened else {
            outcome.tally.lost_operations(self.history.changes_before(self.moment));
            return Ok(());
        };
        let found = self.read(&mut subject)?;
        let survivor = self.history.survivor(self.moment, &found, Promise::EachSlot);
        survivor.map_err(|wrong| Failure::Lost(wrong.to_string()))?;
        outcome.tally.salvaged += 1;
        outcome.tally.lost_operations(self.history.lost(self.moment, &found));
        Ok(())
    }

    /// Continues with the recovered contents, and syncs.
    fn go_on(&self, subject: &mut Subject, chip: &SharedChip, found: Vec<u64>) -> Result<History, String> {
        let context = self.context;
        let mut history = History::new(found);
        let mut source = Source::new(split_mix(self.cut.number()), context.mix);
        let mut ops: Vec<HostOp> = Vec::new();
        while ops.len() < OPERATIONS_AFTER {
            let op = match source.next(history.contents()) {
                HostOp::Remount { .. } => HostOp::Sync,
                op => op,
            };
            // Values that the workload before the cut never wrote.
            let version = (1 << 30) + ops.len() as u32;
            chip.lock().mark(ops.len() as u64);
            match subject.apply(&op, version, history.contents())? {
                Applied::Done => {
                    history.note(&op, version, subject.value_bytes(), matches!(subject, Subject::Store(_)));
                }
                Applied::TooMany => history.note_nothing(false),
                _ if context.may_be_full => history.note_nothing(false),
                Applied::WornOut if is_worn(&mut chip.lock()) => history.note_nothing(false),
                refusal => {
                    return Err(format!(
                        "{op:?} after the recovery: {refusal:?}, though there was room before"
                    ));
                }
            }
            ops.push(op);
        }
        chip.lock().mark(ops.len() as u64);
        subject.end(context.mix.always_close || self.cut.number().is_multiple_of(2))?;
        history.note_nothing(true);
        Ok(history)
    }

    fn mount_again(&self, chip: &SharedChip, history: &History) -> Result<(), Failure> {
        let wrong = |why: String| Failure::WentWrong(format!("mounted once more: {why}"));
        let mut subject = self.context.plan.mount(chip).map_err(|error| wrong(error.to_string()))?;
        subject.check().map_err(wrong)?;
        let found = subject.contents(history.contents().len()).map_err(wrong)?;
        if found != history.contents() {
            return Err(wrong(Wrong::between(history.contents(), &found).to_string()));
        }
        Ok(())
    }

    /// Cuts the power during the recovery and the work after it.
    fn cut_again(
        &self,
        mut walk: Walk<'_>,
        second: Option<Cut>,
        outcome: &mut Outcome,
    ) -> Result<(), (Option<Cut>, Failure)> {
        let mut rng = Rng::new(split_mix(self.cut.number() ^ self.context.plan.seed));
        let ways = walk.recording.len() as u64 * WAYS + 1;
        let mut numbers: Vec<u64> = (0..SECOND_CUTS).map(|_| rng.below(ways)).collect();
        if let Some(second) = second {
            numbers = vec![second.number().min(ways - 1)];
        }
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let cut = Cut::numbered(number);
            let chip = Shared::new(walk.cut(cut, self.context.plan.seed));
            let trial = Trial { context: self.context, history: walk.history, moment: &walk.moment, cut };
            outcome.tally.cuts_tried += 1;
            outcome.tally.second_cuts_tried += 1;
            let recovered = catch_unwind(AssertUnwindSafe(|| trial.recover(&chip, outcome).map(drop)));
            match recovered {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => return Err((Some(cut), failure)),
                Err(panic) => return Err((Some(cut), Failure::Panicked(panic_text(&*panic)))),
            }
        }
        Ok(())
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_string()
}
