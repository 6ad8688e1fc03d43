//! The workload without any cut: the run that is recorded, and the run by which a refusal after a cut is
//! judged.

use super::CrashPlan;
use super::history::{History, Wrong};
use super::ops::{HostOp, Mix, Source};
use super::subject::{Applied, SharedChip, Subject};
use crate::error::LabError;
use nandex::Shared;
use nandex::nand::sim::{Faults, SimChip};

/// Percentage of the keys whose records are loaded before the workload.
const LOADED_PERCENT: u64 = 60;

/// A workload on a chip whose power stays on.
pub(super) struct Uncut<'a> {
    plan: &'a CrashPlan,
    pub(super) mix: Mix,
    pub(super) chip: SharedChip,
    pub(super) history: History,
    /// Number of operations refused because the chip was full or worn out.
    pub(super) refused: u64,
}

impl<'a> Uncut<'a> {
    /// Formats a chip of the plan, and loads the records with which a run starts.
    pub(super) fn begin(plan: &'a CrashPlan) -> Result<(Uncut<'a>, Subject), LabError> {
        let chip = SimChip::new(&plan.part).map_err(|error| LabError::Chip {
            file: plan.part.name.to_string(),
            reason: error.to_string(),
        })?;
        let chip = Shared::new(chip.with_factory_bad_blocks(plan.failures.bad_blocks_ppm, plan.seed));
        let mut subject = Subject::format(plan.target, &plan.settings, Box::new(chip.clone()))?;
        let mix = subject.mix(plan.target, (plan.slots, plan.operations as u32 + 2));
        let history = subject.load(mix, LOADED_PERCENT).map_err(|why| {
            LabError::bad_option("keys", &plan.slots.to_string(), format!("with this chip: {why}"))
        })?;
        Ok((Uncut { plan, mix, chip, history, refused: 0 }, subject))
    }

    /// Runs the whole workload, and reads out its end.
    pub(super) fn run_whole(&mut self, subject: Subject) -> Result<(), String> {
        let mut subject = self.run(subject, self.plan.operations)?;
        let found = subject.contents(self.mix.slots as usize)?;
        if found != self.history.contents() {
            return Err(format!(
                "at the end, without any cut: {}",
                Wrong::between(self.history.contents(), &found)
            ));
        }
        Ok(())
    }

    /// Runs the first `operations` operations of the workload.
    pub(super) fn run(&mut self, mut subject: Subject, operations: u64) -> Result<Subject, String> {
        let failures = self.plan.failures;
        self.chip.lock().set_faults(Faults {
            seed: self.plan.seed,
            program_failures_ppm: failures.program_failures_ppm,
            erase_failures_ppm: failures.erase_failures_ppm,
            ..Faults::default()
        });
        let mut source = Source::new(self.plan.seed, self.mix);
        for number in 0..operations {
            self.chip.lock().mark(number);
            let op = source.next(self.history.contents());
            let at = |why: String| format!("operation {number}, without any cut: {why}");
            let applied = self.apply(&mut subject, &op, number as u32 + 1).map_err(at)?;
            self.refused += u64::from(matches!(applied, Applied::Full | Applied::WornOut));
            if matches!(op, HostOp::Remount { .. }) {
                self.chip.lock().mark(number + 1);
                drop(subject);
                let mounted = self.plan.mount(&self.chip);
                subject = mounted.map_err(|error| at(format!("mount: {error}")))?;
            }
        }
        self.chip.lock().mark(operations);
        Ok(subject)
    }

    /// Carries out an operation and notes what came of it.
    pub(super) fn apply(
        &mut self,
        subject: &mut Subject,
        op: &HostOp,
        version: u32,
    ) -> Result<Applied, String> {
        let applied = subject.apply(op, version, self.history.contents())?;
        match applied {
            Applied::Done => {
                let trims = matches!(subject, Subject::Store(_));
                self.history.note(op, version, subject.value_bytes(), trims);
            }
            _ => self.history.note_nothing(false),
        }
        Ok(applied)
    }
}
