//! A comparison: some indexes on one chip over one workload, at the same RAM, for one seed or several.
//!
//! [`Comparison`] is the same for every kind of index: it deals the options, makes the workload of each seed,
//! does the runs and puts the results together. Who takes part and in what says its [`Contest`]: [`Ordered`]
//! here, [`Spatial`](crate::spatial::compare::Spatial) for spatial indexes.
//!
//! Runs are independent of each other and share the workload of their seed; they go in parallel over the
//! cores, and the results are the same whatever the number of threads. A trace has no seed and is run once.

pub use crate::bundle::{BUNDLES, Bundle};
use crate::error::LabError;
use crate::keys::Trees;
use crate::names::{OptionInfo, option};
use crate::parallel;
use crate::registry::IndexEntry;
use crate::results::{AS_NOR, ChipFacts, Results, Run, SCHEMA, WorkloadFacts};
use crate::runner::{self, Control, Job, Prepared, RunOptions};
use crate::trace::{Trace, TraceOptions};
use crate::workload::{Workload, WorkloadEntry};
use nandex::nand::Part;
use nandex::ordered::Durability;
use nandex_stacks::options::sharing::deal;
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

/// A chip, who competes on it, and how.
#[derive(Clone, Debug)]
pub struct Comparison<C> {
    /// The chip each index gets a fresh one of.
    pub part: Part,
    /// The indexes, and what they do.
    pub contest: C,
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

/// Who takes part in a comparison, and in what.
pub trait Contest: Sync {
    /// The operations of one seed, made ready for all runs.
    type Work: Sync;

    /// The remains of a run besides its figures.
    type Kept: Send;

    /// The options that the operations know.
    fn work_options(&self) -> &'static [OptionInfo];

    /// The options that each index knows, given those that were set, in the order of the rows.
    fn index_options(&self, set: &Options) -> Vec<&'static [OptionInfo]>;

    /// The operations of each seed.
    fn work(
        &self,
        seeds: &[u64],
        options: &Options,
        settings: &Settings,
    ) -> Result<Vec<Self::Work>, LabError>;

    /// The number of operations.
    fn operations(&self, work: &Self::Work) -> u64;

    /// The facts of the operations, for the results.
    fn facts(&self, work: &Self::Work, settings: &Settings) -> WorkloadFacts;

    /// The chip of an index, where that is another one.
    fn other_part(&self, _index: usize, _part: &Part) -> Option<Part> {
        None
    }

    /// Does a run. A failure is told in [`Run::error`].
    fn run(&self, turn: &Turn<'_, Self::Work>, control: &Control) -> (Run, Self::Kept);
}

/// One run of a comparison.
#[derive(Debug)]
pub struct Turn<'a, W> {
    /// The index, by its place in the contest.
    pub index: usize,
    /// The chip.
    pub part: &'a Part,
    /// Whether the chip is another one than the comparison's.
    pub is_other_part: bool,
    /// The operations.
    pub work: &'a W,
    /// Whether they are those of the first seed.
    pub is_first: bool,
    /// Record sizes, RAM, durability, options of the index.
    pub settings: Settings,
    /// How to carry it out.
    pub options: RunOptions,
}

impl<C: Contest> Comparison<C> {
    /// Does every run. What cannot run is a row with its reason; an error is something wrong with the request
    /// itself.
    pub fn run(&self, control: &Control, watch: &dyn Watch) -> Result<Results, LabError> {
        self.run_and_keep(control, watch).map(|(results, _)| results)
    }

    /// Does every run; beside the results stands what the runs left.
    pub fn run_and_keep(
        &self,
        control: &Control,
        watch: &dyn Watch,
    ) -> Result<(Results, Vec<C::Kept>), LabError> {
        let mut takers = vec![self.contest.work_options()];
        takers.extend(self.contest.index_options(&self.settings.options));
        let mut options = deal(&self.settings.options, &takers)?;
        let of_work = options.remove(0);
        let works = self.contest.work(&self.seeds, &of_work, &self.settings)?;
        let parts: Vec<Option<Part>> =
            (0..options.len()).map(|index| self.contest.other_part(index, &self.part)).collect();
        let turns = self.turns(&works, &options, &parts);
        watch.start(turns.iter().map(|turn| self.contest.operations(turn.work)).sum());
        let done = parallel::map(&turns, self.threads, |turn| {
            let done = self.contest.run(turn, control);
            watch.finished(&done.0);
            done
        });
        let (mut runs, kept): (Vec<Run>, Vec<C::Kept>) = done.into_iter().unzip();
        for (run, _) in runs.iter_mut().zip(&turns).filter(|(_, turn)| turn.is_other_part) {
            run.storage.push_str(AS_NOR);
        }
        let results = Results {
            schema: SCHEMA,
            nandex_version: env!("CARGO_PKG_VERSION"),
            commit: None,
            command: self.command.clone(),
            chip: ChipFacts::of(&self.part),
            workload: works.first().map(|work| self.facts(work)).unwrap_or_default(),
            runs: once_in_a_class(runs, &turns),
            conclusion: String::new(),
        };
        Ok((results, kept))
    }

    fn facts(&self, work: &C::Work) -> WorkloadFacts {
        let names: Vec<&str> = self.classes.iter().map(|class| class.durability.name()).collect();
        WorkloadFacts { durability: names.join(", "), ..self.contest.facts(work, &self.settings) }
    }

    /// A turn for each class, index and seed, class by class and index by index.
    fn turns<'a>(
        &'a self,
        works: &'a [C::Work],
        options: &[Options],
        parts: &'a [Option<Part>],
    ) -> Vec<Turn<'a, C::Work>> {
        let mut turns = Vec::new();
        for Class { durability, sync_every } in &self.classes {
            for (index, (options, other)) in options.iter().zip(parts).enumerate() {
                let settings =
                    Settings { options: options.clone(), durability: *durability, ..self.settings.clone() };
                turns.extend(works.iter().enumerate().map(|(seed, work)| Turn {
                    index,
                    part: other.as_ref().unwrap_or(&self.part),
                    is_other_part: other.is_some(),
                    work,
                    is_first: seed == 0,
                    settings: settings.clone(),
                    options: RunOptions { sync_every: *sync_every, ..self.run },
                }));
            }
        }
        turns
    }
}

/// The runs without those of an index that promise, or fail, just as another one of it does already.
fn once_in_a_class<W>(runs: Vec<Run>, turns: &[Turn<'_, W>]) -> Vec<Run> {
    let asked = |i: usize| turns[i].settings.durability.name();
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

/// Ordered indexes over a workload, or over the workload of a trace.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// The operations.
    pub source: Source,
    /// The indexes, in the order of the rows.
    pub indexes: Vec<&'static IndexEntry>,
    /// Whether an index that needs other pages than the chip has runs on the same chip with such pages, and
    /// its row says so; else it cannot run.
    pub suits_chip: bool,
    /// Whether a load is handed over at once, in key order: a fraction of the time, for an index as dense as
    /// can be.
    pub loads_at_once: bool,
}

impl Contest for Ordered {
    type Work = Prepared<'static>;
    type Kept = ();

    fn work_options(&self) -> &'static [OptionInfo] {
        match &self.source {
            Source::Generator(entry) => entry.options,
            Source::Trace(..) | Source::Bundled(..) => TRACE_OPTIONS,
        }
    }

    fn index_options(&self, set: &Options) -> Vec<&'static [OptionInfo]> {
        self.indexes.iter().map(|index| index.known(set)).collect()
    }

    fn work(
        &self,
        seeds: &[u64],
        options: &Options,
        settings: &Settings,
    ) -> Result<Vec<Prepared<'static>>, LabError> {
        let workloads: Vec<Workload> = match &self.source {
            Source::Generator(entry) => {
                seeds.iter().map(|seed| entry.build(*seed, options)).collect::<Result<_, _>>()?
            }
            Source::Trace(path, of_trace) => vec![Trace::read(path, of_trace)?.workload(of_trace)],
            Source::Bundled(bundle, of_trace) => vec![bundle.workload(of_trace)?],
        };
        let trees = trees(options)?;
        let at_once = |workload: Workload| match self.loads_at_once {
            true => workload.loaded_at_once(),
            false => workload,
        };
        let prepare = |workload| Prepared::owned(at_once(workload), settings.record.key_bytes, trees);
        workloads.into_iter().map(prepare).collect()
    }

    fn operations(&self, work: &Prepared<'static>) -> u64 {
        work.workload().operations()
    }

    fn facts(&self, work: &Prepared<'static>, settings: &Settings) -> WorkloadFacts {
        WorkloadFacts::of(work.workload(), settings)
    }

    fn other_part(&self, index: usize, part: &Part) -> Option<Part> {
        let suited = self.suits_chip.then(|| self.indexes[index].suited(part.clone()));
        suited.filter(|suited| suited != part)
    }

    fn run(&self, turn: &Turn<'_, Prepared<'static>>, control: &Control) -> (Run, ()) {
        let Turn { part, work: prepared, options, .. } = *turn;
        let (index, settings) = (self.indexes[turn.index], turn.settings.clone());
        (runner::run(&Job { index, part, prepared, settings, options }, control), ())
    }
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

    fn comparison(threads: usize) -> Comparison<Ordered> {
        let settings = Settings::new(RecordFormat::new(4, 4)).with("records", 3000).with("operations", 300);
        Comparison {
            part: chip::find("mlc-64m").unwrap(),
            contest: Ordered {
                loads_at_once: false,
                source: Source::Generator(workload::workload("mu").unwrap()),
                indexes: vec![registry::index("mu").unwrap(), registry::index("wandering").unwrap()],
                suits_chip: false,
            },
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
    }
}
