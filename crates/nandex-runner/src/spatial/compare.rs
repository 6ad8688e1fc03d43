//! Spatial indexes in a [comparison](crate::compare): each on a chip of its own over the same data and
//! queries.

use super::data::Dataset;
use super::map::TreeMap;
use super::registry::SpatialEntry;
use super::runner::{self, Contestant, Medium, SpatialJob, SpatialRun};
use super::workload::{self, Queries, SpatialWorkload};
use crate::compare::{Contest, Turn};
use crate::error::LabError;
use crate::names::OptionInfo;
use crate::results::{Run, WorkloadFacts};
use crate::runner::Control;
use nandex_stacks::options::{Options, Settings};

/// Spatial indexes over the same data and queries. The run with the first seed also yields a map of the
/// tree.
#[derive(Clone, Debug)]
pub struct Spatial {
    /// The data of all runs.
    pub data: Dataset<f64, 2>,
    /// The queries of all runs.
    pub queries: Queries,
    /// The indexes, in the order of the results.
    pub indexes: Vec<&'static SpatialEntry>,
}

impl Contest for Spatial {
    type Work = SpatialWorkload<f64, 2>;
    type Kept = Option<TreeMap>;

    fn work_options(&self) -> &'static [OptionInfo] {
        workload::OPTIONS
    }

    fn index_options(&self, _: &Options) -> Vec<&'static [OptionInfo]> {
        self.indexes.iter().map(|index| index.options).collect()
    }

    fn work(
        &self,
        seeds: &[u64],
        options: &Options,
        _: &Settings,
    ) -> Result<Vec<SpatialWorkload<f64, 2>>, LabError> {
        seeds.iter().map(|seed| workload::general(&self.data, self.queries, *seed, options)).collect()
    }

    fn operations(&self, work: &SpatialWorkload<f64, 2>) -> u64 {
        work.operations()
    }

    fn facts(&self, work: &SpatialWorkload<f64, 2>, settings: &Settings) -> WorkloadFacts {
        facts(work, &sized(settings))
    }

    fn run(&self, turn: &Turn<'_, SpatialWorkload<f64, 2>>, control: &Control) -> (Run, Option<TreeMap>) {
        let job = SpatialJob {
            contestant: Contestant::Spatial(self.indexes[turn.index]),
            medium: Medium::Chip(turn.part),
            workload: turn.work,
            settings: sized(&turn.settings),
            options: turn.options,
            wants_map: turn.is_first,
        };
        let SpatialRun { run, map } = runner::run(&job, control);
        (run, map)
    }
}

/// The settings with the record sizes of an entry, which follow from its coordinates.
fn sized(settings: &Settings) -> Settings {
    Settings { record: runner::record_format::<f64, 2>(), ..settings.clone() }
}

/// Facts about a spatial workload. The key size is that of a rectangle, the value size that of an entry's
/// number.
pub fn facts<C: super::registry::Number, const D: usize>(
    workload: &SpatialWorkload<C, D>,
    settings: &Settings,
) -> WorkloadFacts {
    WorkloadFacts::with(settings, &workload.name, workload.operations(), &workload.options)
}
