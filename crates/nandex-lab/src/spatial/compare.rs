//! A comparison of spatial indexes: each on a chip of its own over the same data and queries, for one seed or
//! several.

use super::data::Dataset;
use super::map::TreeMap;
use super::registry::SpatialEntry;
use super::runner::{self, Contestant, Medium, SpatialJob, SpatialRun};
use super::workload::{self, Queries, SpatialWorkload};
use crate::compare::Watch;
use crate::error::LabError;
use crate::parallel;
use crate::results::{ChipFacts, Results, SCHEMA, WorkloadFacts};
use crate::runner::{Control, RunOptions};
use crate::summary::conclusion::conclusion;
use nandex::nand::Part;
use nandex_stacks::options::{Options, Settings};

/// The plan of a comparison.
#[derive(Clone, Debug)]
pub struct SpatialComparison {
    /// The chip each index gets a fresh one of.
    pub part: Part,
    /// The data.
    pub data: Dataset<f64, 2>,
    /// The queries.
    pub queries: Queries,
    /// The indexes, in the order of the rows.
    pub indexes: Vec<&'static SpatialEntry>,
    /// RAM and durability for all of them; options for the workload and for those that know them.
    pub settings: Settings,
    /// The seeds of the operations.
    pub seeds: Vec<u64>,
    /// How each run is carried out.
    pub run: RunOptions,
    /// Runs at a time.
    pub threads: usize,
    /// The command that does the same again, for the results.
    pub command: String,
}

impl SpatialComparison {
    /// Does every run; the maps are of the first seed. What cannot run is a row with its reason; an error is
    /// something wrong with the request itself.
    pub fn run(&self, control: &Control, watch: &dyn Watch) -> Result<(Results, Vec<TreeMap>), LabError> {
        let mut takers = vec![workload::OPTIONS];
        takers.extend(self.indexes.iter().map(|index| index.options));
        let mut options = nandex_stacks::options::sharing::deal(&self.settings.options, &takers)?;
        let of_workload = options.remove(0);
        let build = |seed: &u64| workload::general(&self.data, self.queries, *seed, &of_workload);
        let workloads = self.seeds.iter().map(build).collect::<Result<Vec<_>, _>>()?;
        let jobs = self.jobs(&workloads, &options);
        watch.start(jobs.iter().map(|job| job.workload.operations()).sum());
        let done = parallel::map(&jobs, self.threads, |job| {
            let done = runner::run(job, control);
            watch.finished(&done.run);
            done
        });
        let (runs, maps): (Vec<_>, Vec<_>) =
            done.into_iter().map(|SpatialRun { run, map }| (run, map)).unzip();
        let settings = Settings { record: runner::record_format::<f64, 2>(), ..self.settings.clone() };
        let mut results = Results {
            schema: SCHEMA,
            nandex_version: env!("CARGO_PKG_VERSION"),
            commit: None,
            command: self.command.clone(),
            chip: ChipFacts::of(&self.part),
            workload: workloads.first().map(|w| facts(w, &settings)).unwrap_or_default(),
            runs,
            conclusion: String::new(),
        };
        results.conclusion = conclusion(&results);
        Ok((results, maps.into_iter().flatten().collect()))
    }

    /// A job for each index and seed, index by index.
    fn jobs<'a>(
        &'a self,
        workloads: &'a [SpatialWorkload<f64, 2>],
        options: &[Options],
    ) -> Vec<SpatialJob<'a, f64, 2>> {
        let with_options = self.indexes.iter().zip(options);
        let job = |(&index, options): (&&'static SpatialEntry, &Options), seed: usize| SpatialJob {
            contestant: Contestant::Spatial(index),
            medium: Medium::Chip(&self.part),
            workload: &workloads[seed],
            settings: Settings {
                record: runner::record_format::<f64, 2>(),
                options: options.clone(),
                ..self.settings.clone()
            },
            options: self.run,
            wants_map: seed == 0,
        };
        with_options.flat_map(|pair| (0..workloads.len()).map(move |seed| job(pair, seed))).collect()
    }
}

/// The facts of a spatial workload; the bytes of a key are those of a rectangle, the bytes of a value those
/// of its number.
pub fn facts<C: super::registry::Number, const D: usize>(
    workload: &SpatialWorkload<C, D>,
    settings: &Settings,
) -> WorkloadFacts {
    let set = settings.options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    WorkloadFacts {
        name: workload.name.clone(),
        key_bytes: settings.record.key_bytes,
        value_bytes: settings.record.value_bytes,
        operations: workload.operations(),
        ram_bytes: settings.ram_bytes.map(|bytes| bytes as u64),
        durability: settings.durability.name().to_string(),
        options: workload.options.clone().into_iter().chain(set).collect(),
    }
}
