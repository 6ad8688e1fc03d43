//! Candidates on parts of a workload.

use super::figures::Figures;
use super::space::Candidate;
use crate::LabError;
use crate::keys::Trees;
use crate::parallel;
use crate::quantities::CLASSES;
use crate::results::Run;
use crate::runner::{Control, Job, Prepared, RunOptions, run};
use crate::workload::{PhaseOps, Workload};
use nandex::nand::Part;
use nandex_stacks::needed;
use nandex_stacks::options::Settings;

/// Sizes of the parts, in thousandths of the measured operations.
const PARTS: [usize; 2] = [60, 250];

/// Least number of operations in a part. A workload with no more than that is run whole from the start.
const PART_LEAST: usize = 1500;

/// The workload in parts of growing size, and the whole.
pub(super) struct Parts {
    /// Parts of the first seed's workload, from its beginning.
    pub(super) beginnings: Vec<Workload>,
    /// The whole workload of each seed.
    pub(super) whole: Vec<Workload>,
}

impl Parts {
    pub(super) fn of(whole: Vec<Workload>) -> Parts {
        let first = &whole[0];
        let measured: usize = first.phases.iter().filter(|p| p.measured).map(|p| p.ops.len()).sum();
        let is_enough = |share: &&usize| measured * **share / 1000 >= PART_LEAST;
        let beginnings = PARTS.iter().filter(is_enough).map(|share| beginning(first, *share)).collect();
        Parts { beginnings, whole }
    }
}

/// A part of a workload: the first `share` thousandths of every measured phase. The records before are
/// loaded at once, which is much faster and gives an index with the same records.
fn beginning(whole: &Workload, share: usize) -> Workload {
    let phase = |phase: &PhaseOps| {
        let kept = if phase.measured { (phase.ops.len() * share).div_ceil(1000) } else { phase.ops.len() };
        PhaseOps { ops: phase.ops[..kept].to_vec(), name: phase.name.clone(), ..*phase }
    };
    let phases = whole.phases.iter().map(phase).collect();
    Workload { phases, name: whole.name.clone(), options: whole.options.clone(), ..*whole }.loaded_at_once()
}

/// The conditions under which candidates are tried.
pub(super) struct Bench<'a> {
    pub(super) part: &'a Part,
    /// RAM, record sizes and promise, without options.
    pub(super) settings: Settings,
    pub(super) sync_every: Option<u64>,
    /// True if the request wants a short mount, so that shortened runs end with one too.
    pub(super) wants_boot: bool,
    pub(super) threads: usize,
    pub(super) control: &'a Control,
}

/// A candidate with its results.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    pub(super) candidate: Candidate,
    /// Figures of each seed, or the reason why it cannot or must not run.
    pub(super) figures: Result<Vec<Figures>, String>,
}

impl Bench<'_> {
    pub(super) fn prepare<'w>(&self, workloads: &'w [Workload]) -> Result<Vec<Prepared<'w>>, LabError> {
        let key_bytes = self.settings.record.key_bytes;
        workloads.iter().map(|w| Prepared::with_trees(w, key_bytes, Trees::One)).collect()
    }

    /// Refuses a candidate that can never hold so many records on this chip.
    pub(super) fn require_room(&self, candidate: &Candidate, records: u64) -> Result<(), String> {
        let settings = Settings { options: candidate.options.clone(), ..self.settings.clone() };
        match needed::records_max(candidate.index, self.part, &settings) {
            Some(most) if most < records => {
                Err(format!("it holds {most} records at most on this chip, and there are {records}"))
            }
            _ => Ok(()),
        }
    }

    /// Runs every candidate on all these workloads. If `in_full`, answers and index are checked and a mount
    /// follows. A mount also follows if the request wants it to be short.
    pub(super) fn try_all(
        &self,
        candidates: &[Candidate],
        prepared: &[Prepared<'_>],
        in_full: bool,
    ) -> Vec<Tried> {
        let options = RunOptions {
            verify: in_full,
            check: in_full,
            mount: in_full || self.wants_boot,
            cpu_time: false,
            sync_every: self.sync_every,
            sync_at_end: true,
            ..RunOptions::default()
        };
        let mut jobs = Vec::new();
        for candidate in candidates {
            jobs.extend(prepared.iter().map(|prepared| Job {
                index: candidate.index,
                part: self.part,
                prepared,
                settings: Settings { options: candidate.options.clone(), ..self.settings.clone() },
                options,
            }));
        }
        self.control.plan(jobs.iter().map(|job| job.prepared.workload().operations()).sum());
        let runs = parallel::map(&jobs, self.threads, |job| run(job, self.control));
        let of_each = runs.chunks(prepared.len().max(1));
        let tried = |(candidate, runs): (&Candidate, &[Run])| Tried {
            candidate: candidate.clone(),
            figures: runs.iter().map(|run| self.judge(run)).collect(),
        };
        candidates.iter().zip(of_each).map(tried).collect()
    }

    /// The figures of a run, or the reason for rejecting it: it failed, took too much RAM, or broke the
    /// promise.
    fn judge(&self, run: &Run) -> Result<Figures, String> {
        if let Some(error) = &run.error {
            return Err(error.clone());
        }
        let given = self.settings.ram_bytes.map_or(u64::MAX, |bytes| bytes as u64);
        if run.ram_bytes > given {
            return Err(format!("it held {} bytes of RAM, more than the {given} given", run.ram_bytes));
        }
        let place = |name: &str| CLASSES.iter().position(|class| class.name() == name);
        if place(&run.durability) > place(self.settings.durability.name()) {
            return Err(format!("it promises {} only", run.durability));
        }
        Ok(Figures::of(run, self.part))
    }
}

#[cfg(test)]
mod tests {
    use super::super::space::candidates;
    use super::*;
    use crate::workload::workload;
    use nandex::nand::{Geometry, catalogue};
    use nandex::ordered::{Durability, RecordFormat};
    use nandex_stacks::options::Options;

    #[test]
    fn who_cannot_hold_the_records_is_told_why() {
        let part = Part { geometry: Geometry::new(512, 16, 32, 1024), ..catalogue::mlc_64m() };
        let settings = Settings::new(RecordFormat::new(8, 8));
        let bench = Bench {
            part: &part,
            settings,
            sync_every: None,
            wants_boot: false,
            threads: 1,
            control: &Control::default(),
        };
        let room = |name: &str, records| {
            let field = candidates(Durability::EveryOperation);
            bench.require_room(field.iter().find(|one| one.name() == name).unwrap(), records)
        };
        let why = "it holds 2250 records at most on this chip, and there are 2251";
        assert_eq!((room("mu", 2250), room("mu", 2251)), (Ok(()), Err(why.to_string())));
        for name in ["vmtree", "plow", "bplus on page-map"] {
            assert_eq!((room(name, 30_000), room(name, 1 << 21).is_err()), (Ok(()), true), "{name}");
        }
    }

    #[test]
    fn a_part_has_the_same_records_and_the_first_operations() {
        let mut options = Options::default();
        [("records", "500"), ("operations", "8000")]
            .iter()
            .for_each(|(name, value)| options.set(name, value));
        let whole = workload("uniform").unwrap().build(3, &options).unwrap();
        let parts = Parts::of(vec![whole.clone()]);
        assert_eq!(parts.beginnings.len(), 1);
        let [small] = &parts.beginnings[..] else { panic!() };
        for (part, all) in small.phases.iter().zip(&whole.phases) {
            if all.measured {
                assert_eq!(part.ops[..], all.ops[..all.ops.len() / 4]);
            } else {
                assert_eq!(part.ops, all.ops);
                assert!(part.is_sorted);
            }
        }
        let short =
            Workload { phases: vec![PhaseOps::measured("all", whole.phases[0].ops[..9].to_vec())], ..whole };
        assert!(Parts::of(vec![short]).beginnings.is_empty());
    }
}
