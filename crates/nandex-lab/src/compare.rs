//! A comparison: some indexes on one chip over one workload, at the same RAM, for one seed or several.
//!
//! Runs are independent of each other and share the workload of their seed; they go in parallel over the
//! cores, and the results are the same whatever the number of threads. A trace has no seed and is run once.

pub use crate::bundle::{BUNDLES, Bundle};
use crate::error::LabError;
use crate::keys::Trees;
use crate::names::{OptionInfo, option};
use crate::parallel::run_all;
use crate::registry::IndexEntry;
use crate::results::{AS_NOR, ChipFacts, Results, Run, SCHEMA, WorkloadFacts};
use crate::runner::{Control, Job, Prepared, RunOptions};
use crate::summary::conclusion::conclusion;
use crate::trace::{Trace, TraceOptions};
use crate::workload::{Workload, WorkloadEntry};
use nandex::nand::Part;
use nandex::ordered::Durability;
use nandex_stacks::options::{Options, Settings};
use std::path::PathBuf;

/// Where the operations come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A generator; a workload for each seed.
    Generator(&'static WorkloadEntry),
    /// A trace; one workload.
    Trace(PathBuf, TraceOptions),
    /// A trace that comes with the program; one workload.
    Bundled(&'static Bundle, TraceOptions),
}

/// A durability class to compare in.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// The promise that an index has to make at least.
    pub durability: Durability,
    /// Sync after so many changes, see [`RunOptions::sync_every`].
    pub sync_every: Option<u64>,
}

/// Options of a trace.
pub const TRACE_OPTIONS: &[OptionInfo] = &[option(
    "trees",
    "one",
    "a trace of several indexes runs as one tree, or as a tree each (per-index) on one store",
)];

/// The indexes, the chip and the operations of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The chip each index gets a fresh one of.
    pub part: Part,
    /// The operations.
    pub source: Source,
    /// The indexes, in the order of the rows.
    pub indexes: Vec<&'static IndexEntry>,
    /// Whether an index that needs other pages than the chip has runs on the same chip with such pages, and
    /// its row says so; else it cannot run.
    pub suits_chip: bool,
    /// The classes, each of which every index runs in. One that promises more than it is asked for is a row
    /// of the class that it declares, and of that only once.
    pub classes: Vec<Class>,
    /// Record sizes and RAM for all of them; options for the workload and for those that know them. The
    /// classes say the durability.
    pub settings: Settings,
    /// The seeds of a generator.
    pub seeds: Vec<u64>,
    /// How each run is carried out.
    pub run: RunOptions,
    /// Runs at a time.
    pub threads: usize,
    /// The command that does the same again, for the results.
    pub command: String,
}

/// Looks on while runs are under way, from any thread.
pub trait Watch: Sync {
    /// All is prepared: so many operations will be done in all, told by [`Control::done`].
    fn start(&self, operations: u64);

    /// A run is over.
    fn finished(&self, run: &Run);
}

impl Comparison {
    /// Does every run. What cannot run is a row with its reason; an error is something wrong with the request
    /// itself.
    pub fn run(&self, control: &Control, watch: &dyn Watch) -> Result<Results, LabError> {
        let mut options = self.deal()?;
        let of_workload = options.remove(0);
        let workloads = self.workloads(&of_workload)?;
        let trees = trees(&of_workload)?;
        let key_bytes = self.settings.record.key_bytes;
        let prepared = workloads.iter().map(|w| Prepared::with_trees(w, key_bytes, trees));
        let prepared = prepared.collect::<Result<Vec<_>, _>>()?;
        let parts: Vec<Part> = self.indexes.iter().map(|index| self.part_for(index)).collect();
        let jobs = self.jobs(&prepared, &options, &parts);
        watch.start(jobs.iter().map(|job| job.prepared.workload().operations()).sum());
        let mut runs = run_all(&jobs, self.threads, control, |_, run| watch.finished(run));
        for (run, job) in runs.iter_mut().zip(&jobs).filter(|(_, job)| *job.part != self.part) {
            run.storage = format!("{}{AS_NOR}", job.index.storage(&job.settings.options));
        }
        let mut results = Results {
            schema: SCHEMA,
            nandex_version: env!("CARGO_PKG_VERSION"),
            commit: None,
            command: self.command.clone(),
            chip: ChipFacts::of(&self.part),
            workload: self.facts(&workloads),
            runs: once_in_a_class(runs, &jobs),
            conclusion: String::new(),
        };
        results.conclusion = conclusion(&results);
        Ok(results)
    }

    /// The options that were set, dealt to the workload first and then to each index.
    fn deal(&self) -> Result<Vec<Options>, LabError> {
        let of_workload = match &self.source {
            Source::Generator(entry) => entry.options,
            Source::Trace(..) | Source::Bundled(..) => TRACE_OPTIONS,
        };
        let mut takers = vec![of_workload];
        takers.extend(self.indexes.iter().map(|index| index.known(&self.settings.options)));
        Ok(nandex_stacks::options::sharing::deal(&self.settings.options, &takers)?)
    }

    fn workloads(&self, options: &Options) -> Result<Vec<Workload>, LabError> {
        let read: Result<Vec<Workload>, LabError> = match &self.source {
            Source::Generator(entry) => self.seeds.iter().map(|seed| entry.build(*seed, options)).collect(),
            Source::Trace(path, options) => Ok(vec![Trace::read(path, options)?.workload(options)]),
            Source::Bundled(bundle, options) => Ok(vec![bundle.workload(options)?]),
        };
        let at_once = |workload: Workload| match self.run.load_at_once {
            true => workload.loaded_at_once(),
            false => workload,
        };
        read.map(|workloads| workloads.into_iter().map(at_once).collect())
    }

    fn part_for(&self, index: &IndexEntry) -> Part {
        if self.suits_chip { index.suited(self.part.clone()) } else { self.part.clone() }
    }

    fn facts(&self, workloads: &[Workload]) -> WorkloadFacts {
        let Some(workload) = workloads.first() else { return WorkloadFacts::default() };
        let names: Vec<&str> = self.classes.iter().map(|class| class.durability.name()).collect();
        WorkloadFacts { durability: names.join(", "), ..WorkloadFacts::of(workload, &self.settings) }
    }

    /// A job for each class, index and seed, class by class and index by index.
    fn jobs<'a>(
        &'a self,
        prepared: &'a [Prepared<'a>],
        options: &[Options],
        parts: &'a [Part],
    ) -> Vec<Job<'a>> {
        let mut jobs = Vec::new();
        for Class { durability, sync_every } in &self.classes {
            for ((index, options), part) in self.indexes.iter().zip(options).zip(parts) {
                let settings =
                    Settings { options: options.clone(), durability: *durability, ..self.settings.clone() };
                let run = RunOptions { sync_every: *sync_every, ..self.run };
                jobs.extend(prepared.iter().map(|prepared| Job {
                    index,
                    part,
                    prepared,
                    settings: settings.clone(),
                    options: run,
                }));
            }
        }
        jobs
    }
}

/// The runs without those of an index that promise, or fail, just as another one of it does already.
fn once_in_a_class(runs: Vec<Run>, jobs: &[Job<'_>]) -> Vec<Run> {
    let asked = |i: usize| jobs[i].settings.durability.name();
    let is_same = |a: &Run, b: &Run| {
        let of = |run: &Run| (run.seed, run.durability.clone(), run.error.clone());
        a.index == b.index && of(a) == of(b)
    };
    let is_kept = |i: usize| {
        let as_asked = |j: &usize| asked(*j) == runs[*j].durability;
        let others = || (0..runs.len()).filter(|j| *j != i && is_same(&runs[*j], &runs[i]));
        as_asked(&i) || !others().any(|j| as_asked(&j) || j < i)
    };
    let kept: Vec<bool> = (0..runs.len()).map(is_kept).collect();
    runs.into_iter().zip(kept).filter_map(|(run, kept)| kept.then_some(run)).collect()
}

fn trees(options: &Options) -> Result<Trees, LabError> {
    match options.text("trees") {
        None | Some("one") => Ok(Trees::One),
        Some("per-index") => Ok(Trees::PerIndex),
        Some(other) => Err(LabError::bad_option("trees", other, "is none of one, per-index")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chip, registry, workload};
    use nandex::ordered::RecordFormat;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Counting {
        operations: AtomicU64,
        finished: AtomicU64,
    }

    impl Watch for Counting {
        fn start(&self, operations: u64) {
            self.operations.store(operations, Ordering::Relaxed);
        }

        fn finished(&self, _: &Run) {
            self.finished.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn comparison(threads: usize) -> Comparison {
        let settings = Settings::new(RecordFormat::new(4, 4)).with("records", 3000).with("operations", 300);
        Comparison {
            part: chip::find("mlc-64m").unwrap(),
            source: Source::Generator(workload::workload("mu").unwrap()),
            indexes: vec![registry::index("mu").unwrap(), registry::index("wandering").unwrap()],
            suits_chip: false,
            classes: vec![Class { durability: Durability::EveryOperation, sync_every: None }],
            settings,
            seeds: vec![1, 2],
            run: RunOptions::default(),
            threads,
            command: String::new(),
        }
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let watch = Counting::default();
        let alone = comparison(1).run(&Control::default(), &watch).unwrap().without_cpu_time();
        let (operations, finished) = (watch.operations.into_inner(), watch.finished.into_inner());
        assert_eq!((operations, finished), (4 * (3000 + 3 * 300), 4));
        let rows: Vec<_> =
            alone.runs.iter().map(|r| (r.index.as_str(), r.seed, r.error.as_deref())).collect();
        assert_eq!(rows, [("mu", 1, None), ("mu", 2, None), ("wandering", 1, None), ("wandering", 2, None)]);
        let four = comparison(4).run(&Control::default(), &Counting::default()).unwrap().without_cpu_time();
        assert_eq!(serde_json::to_string(&four).unwrap(), serde_json::to_string(&alone).unwrap());
        assert!(alone.conclusion.starts_with("mu took the least flash time"), "{}", alone.conclusion);
    }

    #[test]
    fn an_option_nobody_knows_is_refused() {
        let mut wrong = comparison(1);
        wrong.settings.options.set("victm", "greedy");
        let error = wrong.run(&Control::default(), &Counting::default()).unwrap_err().to_string();
        assert_eq!(error, "there is no option 'victm'; did you mean 'victim'?");
    }

    #[test]
    fn what_does_not_fit_the_ram_is_a_row_that_says_so() {
        let mut tight = comparison(2);
        tight.settings.ram_bytes = Some(100);
        let results = tight.run(&Control::default(), &Counting::default()).unwrap();
        assert!(results.runs.iter().all(|r| r.error.as_ref().is_some_and(|e| e.contains("RAM"))));
        assert_eq!(results.conclusion, "mu and wandering could not run.");
    }
}
