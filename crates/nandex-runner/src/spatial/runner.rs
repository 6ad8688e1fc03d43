//! Runs one spatial index on one chip or disk over one workload: measures every operation and checks every
//! answer.
//!
//! This is [`crate::runner`] for spatial indexes, with the same meter and the same results. Every answer is
//! compared with a scan of all entries (`model.rs`). The first wrong answer ends the run, and so does the
//! first error of the index.
//!
//! The B+-tree can take part in workloads without windows, for the study that compares all indexes. An entry
//! is then a record whose key follows from the entry's number.

use super::map::{MapQuery, TreeMap};
use super::model::{SpatialModel, in_order};
use super::registry::{self, Space, SpatialEntry};
use super::subject::{Opened, found_in, found_near, open_subject};
use super::workload::{SpatialOp, SpatialWorkload};
use crate::registry::IndexEntry;
use crate::results::Run;
pub use crate::runner::Medium;
use crate::runner::session::{Desk, Sizes, Task, carry_out};
use crate::runner::subject::{At, PhaseOf, SYNC, Subject};
use crate::runner::{Control, Device, Done, Failure, RunOptions};
use nandex::ordered::{Durability, IndexStats, RecordFormat};
use nandex::spatial::Rect;
use nandex::{CheckReport, IndexError};
use nandex_stacks::options::Settings;

/// An index that takes part in a spatial run.
#[derive(Clone, Copy, Debug)]
pub enum Contestant {
    /// A spatial index.
    Spatial(&'static SpatialEntry),
    /// The B+-tree with a key for each entry.
    BPlus(&'static IndexEntry),
}

impl Contestant {
    /// The contestant's name in results.
    pub fn name(&self) -> &'static str {
        match self {
            Contestant::Spatial(entry) => entry.name,
            Contestant::BPlus(entry) => entry.name,
        }
    }
}

/// A run to do.
#[derive(Clone, Debug)]
pub struct SpatialJob<'a, C, const D: usize> {
    /// The index to run.
    pub contestant: Contestant,
    /// The medium below the index.
    pub medium: Medium<'a>,
    /// The workload to run.
    pub workload: &'a SpatialWorkload<C, D>,
    /// RAM, durability, and options of the index.
    pub settings: Settings,
    /// The settings that do not concern the index.
    pub options: RunOptions,
    /// Whether to draw a map of the tree as it is before the first query.
    pub wants_map: bool,
}

#[derive(Clone, Debug, Default)]
pub struct SpatialRun {
    /// The figures of the run.
    pub run: Run,
    /// The map of the tree, if one was wanted.
    pub map: Option<TreeMap>,
}

/// The record sizes of an entry in a leaf: its rectangle as key and its number as value.
pub fn record_format<C: Space<D>, const D: usize>() -> RecordFormat {
    RecordFormat::new((2 * D * C::BYTES) as u8, 8)
}

/// Does one run. A failure is stored in [`Run::error`], next to the figures until then.
pub fn run<C: Space<D>, const D: usize>(job: &SpatialJob<'_, C, D>, control: &Control) -> SpatialRun {
    let (run, boxes) = carry_out(job, control);
    SpatialRun { run, map: boxes.and_then(|boxes| boxes.map) }
}

impl<C: Space<D>, const D: usize> Task for SpatialJob<'_, C, D> {
    type Subject<'s>
        = Boxes<'s, C, D>
    where
        Self: 's;

    fn row(&self) -> Run {
        Run {
            index: self.contestant.name().to_string(),
            storage: match self.medium {
                Medium::Chip(_) => registry::storage(&self.settings.options),
                Medium::Disk(disk, _) => disk.name.to_string(),
            },
            seed: self.workload.seed,
            ..Run::default()
        }
    }

    fn operations(&self) -> u64 {
        self.workload.operations()
    }

    fn options(&self) -> RunOptions {
        self.options
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            page_bytes: self.medium.part().geometry.page_bytes.into(),
            record_bytes: self.settings.record.entry_bytes() as u64,
        }
    }

    fn open(&self) -> Result<(Device, Boxes<'_, C, D>), Failure> {
        let (device, ground) = self.medium.open(&self.options)?;
        let index = open_subject(self, ground)?;
        Ok((device, Boxes { job: self, index, model: SpatialModel::new(&self.workload.entries), map: None }))
    }
}

pub(crate) struct Boxes<'a, C: Space<D>, const D: usize> {
    job: &'a SpatialJob<'a, C, D>,
    index: Opened<C, D>,
    model: SpatialModel<'a, C, D>,
    map: Option<TreeMap>,
}

impl<C: Space<D>, const D: usize> Subject for Boxes<'_, C, D> {
    fn phases(&self) -> usize {
        self.job.workload.phases.len()
    }

    fn phase(&self, place: usize) -> PhaseOf<'_> {
        let phase = &self.job.workload.phases[place];
        PhaseOf {
            name: &phase.name,
            measured: phase.measured,
            is_bulk: phase.is_bulk,
            operations: phase.ops.len(),
        }
    }

    fn changes(&self, at: At) -> bool {
        self.op(at).changes()
    }

    fn describe(&self, at: At) -> String {
        self.op(at).name().to_string()
    }

    fn apply(&mut self, desk: &mut Desk<'_>, at: At) -> Result<(), Failure> {
        let op = *self.op(at);
        let done = Done {
            kind: op.name(),
            operations: 1,
            written: if op.changes() { self.entry_bytes() } else { 0 },
        };
        let verify = desk.options.verify;
        let index = &mut self.index;
        match op {
            SpatialOp::Insert(at) => {
                let entry = self.model.entry(at);
                desk.call(done, || index.insert(entry))?;
                self.model.set(at, true);
            }
            SpatialOp::Remove(at) => {
                let entry = self.model.entry(at);
                let was_there = desk.call(done, || index.remove(entry))?;
                self.expect_presence(at, was_there)?;
                self.model.set(at, false);
            }
            SpatialOp::Search(at) => {
                let entry = self.model.entry(at);
                let is_found = desk.call(done, || index.search(entry))?;
                self.expect_presence(at, is_found)?;
            }
            SpatialOp::Window(window, relation) => {
                let found = desk.call(done, || found_in(index.spatial()?, &window, relation))?;
                if verify {
                    compare(&in_order(found), &self.model.window(&window, relation))?;
                }
            }
            SpatialOp::Nearest(point, count) => {
                let found = desk.call(done, || found_near(index.spatial()?, &point, count))?;
                if verify {
                    compare(&found, &self.model.nearest(&point, count as usize))?;
                }
            }
            SpatialOp::Sync => self.sync(desk)?,
        }
        Ok(())
    }

    fn load(&mut self, desk: &mut Desk<'_>, phase: usize) -> Result<u64, Failure> {
        let ops = &self.job.workload.phases[phase].ops;
        let mut entries = Vec::with_capacity(ops.len());
        for op in ops {
            let SpatialOp::Insert(at) = *op else {
                return Err(Failure::Refused("a bulk load takes insertions only".to_string()));
            };
            entries.push(*self.model.entry(at));
            self.model.set(at, true);
        }
        let done = Done {
            kind: "insert",
            operations: entries.len() as u64,
            written: entries.len() as u64 * self.entry_bytes(),
        };
        desk.call(done, || self.index.load(&entries))
    }

    fn sync(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        desk.call(SYNC, || self.index.sync())
    }

    fn phase_done(&mut self, phase: usize) -> Result<(), Failure> {
        if phase == 0 && self.job.wants_map {
            let map = self.draw().map_err(|error| Failure::from(error).at("the map: "))?;
            self.map = Some(map);
        }
        Ok(())
    }

    fn stats(&self) -> IndexStats {
        self.index.stats()
    }

    fn durability(&self) -> Durability {
        self.index.durability()
    }

    fn ram_bytes(&self) -> usize {
        self.index.ram_bytes()
    }

    fn ram_given(&self) -> Option<usize> {
        self.job.settings.ram_bytes
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.index.check()
    }

    fn records(&self) -> u64 {
        self.model.records()
    }

    fn noun(&self) -> &'static str {
        "entries"
    }
}

impl<C: Space<D>, const D: usize> Boxes<'_, C, D> {
    fn entry_bytes(&self) -> u64 {
        self.job.settings.record.entry_bytes() as u64
    }

    fn op(&self, at: At) -> &SpatialOp<C, D> {
        &self.job.workload.phases[at.phase].ops[at.op]
    }

    fn expect_presence(&self, at: u32, said: bool) -> Result<(), Failure> {
        if said == self.model.contains(at) || !self.job.options.verify {
            return Ok(());
        }
        let word = |present| if present { "present" } else { "absent" };
        let id = self.model.entry(at).1;
        let what = format!("entry {id} is said to be {}, but is {}", word(said), word(!said));
        Err(Failure::WrongAnswer(what))
    }

    /// The tree's nodes, and for some of the coming queries the nodes that they read. This is not counted.
    fn draw(&mut self) -> Result<TreeMap, IndexError> {
        let mut map = TreeMap::of(self.job.contestant.name(), self.index.spatial()?)?;
        for op in self.job.workload.phases.iter().flat_map(|phase| &phase.ops) {
            match *op {
                SpatialOp::Window(window, relation) if map.has_room(true) => {
                    let found = self.model.window(&window, relation).len();
                    map.add(MapQuery::window(&window, relation, found));
                }
                SpatialOp::Nearest(point, count) if map.has_room(false) => {
                    let found = self.model.nearest(&point, count as usize);
                    map.add(MapQuery::nearest(&point, &found));
                }
                _ => {}
            }
        }
        Ok(map)
    }
}

/// Fails if an answer differs from the model's.
fn compare<C: Space<D>, const D: usize>(
    found: &[(Rect<C, D>, u64)],
    expected: &[(Rect<C, D>, u64)],
) -> Result<(), Failure> {
    let differing = found.iter().zip(expected).position(|(found, expected)| found != expected);
    match differing {
        Some(at) => Err(Failure::WrongAnswer(format!(
            "entry {} of it is {} at {:?}, not {} at {:?}",
            at + 1,
            found[at].1,
            found[at].0,
            expected[at].1,
            expected[at].0
        ))),
        None if found.len() == expected.len() => Ok(()),
        None => {
            let what = format!("{} entries instead of {}", found.len(), expected.len());
            Err(Failure::WrongAnswer(what))
        }
    }
}
