//! Loads data into an index on a new chip, and measures single queries.

use super::data::Dataset;
use super::model::Answer;
use super::registry::SpatialEntry;
use super::subject::{found_in, found_near, load, with_domain};
use crate::error::LabError;
use crate::runner::meter::Reading;
use nandex::Shared;
use nandex::nand::Part;
use nandex::nand::sim::SimChip;
use nandex::spatial::{Rect, Relation, SpatialIndex};
use nandex::{IndexError, Nand};
use nandex_stacks::options::Settings;

/// An index that the data were loaded into.
pub struct Loaded {
    chip: Shared<SimChip>,
    index: Box<dyn SpatialIndex<f64, 2>>,
    /// The costs of the load.
    pub load: Asked,
}

/// The answer to a query and its costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// The entries found: nearest first for a nearest search, by number for a window.
    pub found: Answer<f64, 2>,
    /// Number of pages read.
    pub page_reads: u64,
    /// Number of pages programmed.
    pub page_programs: u64,
    /// Simulated time of the chip, in ns.
    pub flash_time_ns: u64,
}

impl Loaded {
    /// Formats an index and loads all data at once.
    pub fn new(
        entry: &SpatialEntry,
        part: &Part,
        settings: &Settings,
        data: &Dataset<f64, 2>,
    ) -> Result<Loaded, LabError> {
        let chip = SimChip::new(part)
            .map_err(|error| LabError::Chip { file: part.name.to_string(), reason: error.to_string() })?;
        let chip = Shared::new(chip);
        let nand: Box<dyn Nand> = Box::new(chip.clone());
        let extent = Rect::around(data.entries.iter().map(|(rect, _)| rect));
        let settings = with_domain(entry, settings, extent.as_ref());
        let index = entry.format::<f64, 2>(nand, &settings)?;
        let mut loaded = Loaded { chip, index, load: Asked::default() };
        loaded.load = loaded.ask(|index| load(index, &data.entries).map(|_| Vec::new()))?;
        Ok(loaded)
    }

    /// Finds the entries of a window.
    pub fn window(&mut self, window: &Rect<f64, 2>, relation: Relation) -> Result<Asked, LabError> {
        let mut asked = self.ask(|index| found_in(index, window, relation))?;
        asked.found.sort_by_key(|(_, id)| *id);
        Ok(asked)
    }

    /// Finds the `count` entries nearest to a point, nearest first.
    pub fn nearest(&mut self, point: &[f64; 2], count: u32) -> Result<Asked, LabError> {
        self.ask(|index| found_near(index, point, count))
    }

    /// The index with the data.
    pub fn index(&mut self) -> &mut dyn SpatialIndex<f64, 2> {
        &mut *self.index
    }

    fn ask(
        &mut self,
        query: impl FnOnce(&mut dyn SpatialIndex<f64, 2>) -> Result<Answer<f64, 2>, IndexError>,
    ) -> Result<Asked, LabError> {
        let before = Reading::of(&self.chip.lock());
        let found = query(&mut *self.index)?;
        let after = Reading::of(&self.chip.lock());
        let done = after.counters.since(&before.counters);
        Ok(Asked {
            found,
            page_reads: done.page_reads_total(),
            page_programs: done.page_programs_total(),
            flash_time_ns: after.time_ns - before.time_ns,
        })
    }
}
