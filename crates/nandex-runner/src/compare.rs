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

/// The source of a workload.
#[derive(Clone, Debug)]
pub enum Source {
    /// A generator. Each seed gives a workload.
    Generator(&'static WorkloadEntry),
    /// A trace from a file. It is one workload.
    Trace(PathBuf, TraceOptions),
    /// A trace that comes with the program. It is one workload.
    Bundled(&'static Bundle, TraceOptions),
}

/// A durability class in which indexes are compared.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// The weakest promise that is allowed.
    pub durability: Durability,
    /// Number of changes between two syncs, see [`RunOptions::sync_every`].
    pub sync_every: Option<u64>,
}

/// The options of a trace.
pub const TRACE_OPTIONS: &[OptionInfo] = &[option(
    "trees",
    "one",
    "a trace of several indexes runs as one tree, or as a tree each (per-index) on one store",
)];

/// A comparison: a chip, the contest on it, and the way to run it.
#[derive(Clone, Debug)]
pub struct Comparison<C> {
    /// The chip. Each run gets a fresh one.
    pub part: Part,
    /// The indexes and their operations.
    pub contest: C,
    /// Durability classes. Every index runs in each of them. An index that gives a higher class than asked
    /// for has one row only, in the class that it declares.
    pub classes: Vec<Class>,
    /// Record sizes, RAM and options for all. The durability comes from the classes.
    pub settings: Settings,
    /// The seeds of a generator.
    pub seeds: Vec<u64>,
    /// How each run is done.
    pub run: RunOptions,
    /// Number of runs at the same time.
    pub threads: usize,
    /// The command that repeats the comparison, for the results.
    pub command: String,
}

/// An observer of runs, called from any thread.
pub trait Watch: Sync {
    /// Called when everything is prepared. `operations` is the number that [`Control::done`] will reach.
    fn start(&self, operations: u64);

    /// Called after each run.
    fn finished(&self, run: &Run);
}

/// The participants of a comparison and their operations.
pub trait Contest: Sync {
    /// The operations of one seed, prepared for all runs.
    type Work: Sync;

    /// The data that a run leaves besides its figures.
    type Kept: Send;

    /// The options that the operations know.
    fn work_options(&self) -> &'static [OptionInfo];

    /// Options known to each index, in the order of the rows. `set` are the options set.
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

    /// The chip for an index, if it needs another.
    fn other_part(&self, _index: usize, _part: &Part) -> Option<Part> {
        None
    }

    /// Carries out a run. A failure is in [`Run::error`].
    fn run(&self, turn: &Turn<'_, Self::Work>, control: &Control) -> (Run, Self::Kept);
}

/// A run of a comparison.
#[derive(Debug)]
pub struct Turn<'a, W> {
    /// The index, by its position in the contest.
    pub index: usize,
    /// The chip.
    pub part: &'a Part,
    /// True if the chip differs from that of the comparison.
    pub is_other_part: bool,
    /// The operations.
    pub work: &'a W,
    /// Whether the operations are those of the first seed.
    pub is_first: bool,
    /// Record sizes, RAM, durability, options of the index.
    pub settings: Settings,
    /// How the run is done.
    pub options: RunOptions,
}

impl<C: Contest> Comparison<C> {
    /// Carries out every run. An index that cannot run has a row with the reason; an error means that the
    /// request is wrong.
    pub fn run(&self, control: &Control, watch: &dyn Watch) -> Result<Results, LabError> {
        self.run_and_keep(control, watch).map(|(results, _)| results)
    }

    /// Does all runs. Returns the results and the chips that the runs left.
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

/// Removes runs of an index that repeat another of its runs: with the same promise, or the same failure.
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

/// A contest of ordered indexes over a workload.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// The operations.
    pub source: Source,
    /// The indexes, in the order of the rows.
    pub indexes: Vec<&'static IndexEntry>,
    /// Whether an index that needs pages of another size gets them on the same chip, which its row tells.
    /// If not, it cannot run.
    pub suits_chip: bool,
    /// Whether a load is done in bulk, in the order of keys. That takes a fraction of the time and makes an
    /// index as dense as possible.
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
