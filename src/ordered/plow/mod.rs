//! plow: an ordered index for raw NAND with little RAM. Our own design.
//!
//! Changes gather in a sorted table in RAM, the *memtable*, above up to three *levels* on flash, each a row
//! of packed pages in key order that is rewritten round and round. There is one primitive, the *step*
//! (`step`): the records under a level's cursor and those of the level above in the same range become one
//! page at the level's frontier, and the cursor moves behind them. As a cursor comes back to a key after a
//! whole round, the level above is fullest there: twice its mean, so few pages are written for many records.
//!
//! ```text
//! memtable         . . .:..::|          .   .  . .:   RAM; the first sweep stands at |
//! level 0          === == = =|== == = = =           its pages; filters in RAM
//! level 1   ===== ===== ==== |==== ===== ===== =====
//! level 2   ================|========================  most of the records
//! ```
//!
//! * **Change**: at most one step where the memtable or a level is full, then the record joins the memtable.
//!   In the class *every operation* a commit page follows, or the page of the step carries the change
//!   (`carry`). `answers = exact` looks the key up first, `pool`
//!   says what the memtable knows.
//! * **Look-up**: memtable, then level by level the one page that the fences name (`fences`); of level 0
//!   filters rule most out.
//! * **Sync**: a *commit page* (`commit`): the root and the memtable. The newest one is the index; there is
//!   no log to be replayed and none to be cleaned.
//! * **Mix**: where look-ups prevail, the level above the last is merged into it and left out (`drain`).
//! * **Ascending keys**: what lies above all others goes to the last level at once (`sink`).
//! * **Space**: a block dies when sweeps have passed it, so nothing is ever moved to free one. Where blocks
//!   are short, steps are made ahead of need (`room`).
//! * **Scrubbing**: the sweep of the level of a page that could not be read at once goes on until it has
//!   passed that page.
//! * **Mount**: the newest commit page, then the pages of all levels, from which fences and filters are
//!   built.
//!
//! Invariants (`check`, and tests with power cuts):
//!
//! * I1: the newest whole commit page is the state.
//! * I2: no page that it refers to is erased or programmed before a newer one is durable.
//! * I3: the pages of a level are in key order, and each is whole and of this life of its block.
//! * I4: of all versions of a key the one in the smallest level is the newest, and the memtable's is newer
//!   still.
//! * I5: memtable and levels of a commit page are the history up to it.
//! * I6: pages programmed after it do not exist.
//! * I7: no page of a block that was open before a mount is programmed after it, and a block is erased before
//!   use.
//! * I8: program numbers grow and are never used twice.
//! * I9: fences, filters and the use of blocks are functions of what the commit page refers to.
//! * I10: a clean record is the newest version of its key.
//!
//! # Parts
//!
//! | part | owns | file |
//! |---|---|---|
//! | `Medium` | the chip, a page read and one written, the numbers of programs, who pays | `medium` |
//! | `Space` | the use of blocks, the map, what was last done for room | `space` |
//! | `Levels` | the levels, their filters, their highest key, the level that goes | `levels` |
//! | `Memtable` | the records in RAM | `memtable` |
//! | `Commits` | commit pages and sealed ones, and what the newest does not hold | `commit` |
//! | `Planner` | shares of the RAM, the plan, the mix of operations, what is lent | `planner` |
//!
//! `Core` is these parts, and what takes several of them. Reads are those of `Sight`, which changes nothing
//! but the medium's buffers. Whether there is room is asked of `Stock`, which changes nothing. A mount looks
//! at the chip by `Survey`, then takes the root by `Taking`. [`Plow`] is a thin shell around the core, whose
//! code is there once, whatever the chip.

mod above;
mod behind;
mod bits;
mod blocks;
mod carry;
mod change;
mod check;
mod clean;
mod coder;
mod commit;
mod config;
mod cost;
mod damaged;
mod drain;
mod fences;
mod filter;
mod first;
mod fit;
mod forecast;
mod io;
mod lend;
mod level;
mod levels;
mod load;
mod map;
mod medium;
mod memtable;
mod merge;
mod mount;
mod narrow;
mod numbers;
mod page;
mod planner;
mod room;
mod root;
mod sight;
mod sink;
mod space;
mod step;
mod summary;
mod survey;
#[cfg(test)]
mod tests;
mod walk;

use crate::check::{CheckReport, IndexError};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::ordered::buffered::Answers;
use crate::ordered::change::load_one_by_one;
use crate::ordered::{
    Change, Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Records, Room, Visit,
};
use commit::Commits;
pub use config::PlowConfig;
use config::Shares;
use core::ops::Bound;
pub use forecast::Forecast;
use level::Level;
use levels::Levels;
use medium::Medium;
use memtable::Memtable;
use planner::Planner;
use sight::Sight;
use space::{Space, Stock};

/// A plow on a chip.
pub struct Plow<N> {
    core: Core<N>,
    interrupted: bool,
}

/// The beginning of an index on a chip.
type Begin = fn(&mut Core<dyn Nand + '_>) -> Result<(), IndexFault>;

/// The parts, each of which owns its fields.
struct Core<N: ?Sized> {
    space: Space,
    levels: Levels,
    memtable: Memtable,
    commits: Commits,
    planner: Planner,
    counters: Counters,
    medium: Medium<N>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    steps: [u64; cost::LEVELS_MAX],
    commits: u64,
    carried: u64,
    filtered: u64,
    level_lookups: u64,
    sweeps: u32,
    relieved: u32,
    drained: u32,
    sunk: u32,
    scrubbed: u32,
}

impl<N: Nand> Core<N> {
    fn new(nand: N, config: &PlowConfig) -> Result<Core<N>, IndexFault> {
        let (geometry, record) = (nand.geometry(), config.record);
        let own = size_of::<Plow<N>>() - size_of::<N>() + 3 * size_of::<Level>();
        let shares = Shares::new(config, geometry, own)?;
        Ok(Core {
            space: Space::new(geometry, shares.maps),
            levels: Levels::none(geometry.pages_per_block, shares.filter),
            memtable: Memtable::new(record, shares.memtable),
            commits: Commits::none(config.durability, record),
            planner: Planner::new(shares),
            counters: Counters::default(),
            medium: Medium::new(nand, record),
        })
    }
}

impl Core<dyn Nand + '_> {
    /// The parts that answers about room follow from.
    fn stock(&self) -> Stock<'_> {
        let Core { space, levels, commits, memtable, .. } = self;
        Stock { geometry: self.medium.geometry, space, levels, commits, memtable }
    }

    /// The parts that reads of levels go by.
    fn sight(&mut self) -> Sight<'_> {
        let Core { medium, levels, space, memtable, .. } = self;
        Sight { medium, levels, blocks: &space.blocks, memtable }
    }
}

impl<N: Nand> Plow<N> {
    /// Erases the chip and makes an empty index on it.
    pub fn format(nand: N, config: &PlowConfig) -> Result<Plow<N>, IndexError> {
        Plow::begun(nand, config, |core| core.set_up())
    }

    /// Finds the index on the chip again.
    pub fn mount(nand: N, config: &PlowConfig) -> Result<Plow<N>, IndexError> {
        Plow::begun(nand, config, |core| core.recover())
    }

    fn begun(nand: N, config: &PlowConfig, begin: Begin) -> Result<Plow<N>, IndexError> {
        let mut core = Core::new(nand, config)?;
        begin(&mut core)?;
        Ok(Plow { core, interrupted: false })
    }

    /// Gives the chip back.
    pub fn into_nand(self) -> N {
        self.core.medium.nand
    }

    /// The core, whatever its chip: its code is there once.
    fn core(&self) -> &Core<dyn Nand + '_> {
        &self.core
    }

    /// Runs an operation. After an error that is neither a refusal nor damage, what is on the chip is not
    /// known: only a mount finds out.
    fn run<T>(
        &mut self,
        operation: impl FnOnce(&mut Core<dyn Nand + '_>) -> Result<T, IndexFault>,
    ) -> Result<T, IndexError> {
        if self.interrupted {
            return Err(IndexError::Interrupted);
        }
        let done = operation(&mut self.core);
        self.interrupted = done.as_ref().is_err_and(|error| {
            // Refused before anything was done.
            let is_refused = matches!(
                **error,
                IndexError::NotSorted { .. }
                    | IndexError::BatchTooLarge { .. }
                    | IndexError::WrongLength { .. }
            );
            !(is_refused || error.is_refusal() || error.is_loss())
        });
        Ok(done?)
    }
}

impl<N: Nand> OrderedIndex for Plow<N> {
    fn record(&self) -> RecordFormat {
        self.core.medium.record
    }

    fn durability(&self) -> Durability {
        self.core.commits.durability
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.run(|core| {
            core.medium.record.check(key, value)?;
            match core.memtable.find(key) {
                Ok(i) => Ok(core.memtable.copy_value(i, value)),
                Err(_) => core.get(key, value),
            }
        })
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.run(|core| {
            core.medium.record.check(key, value)?;
            let existed = core.exists(key)?;
            core.change(key, Some(value)).map(|()| existed)
        })
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.run(|core| {
            core.medium.record.check_key(key)?;
            let existed = core.exists(key)?;
            if existed || core.planner.shares.answers == Answers::Pool {
                core.change(key, None)?;
            }
            Ok(existed)
        })
    }

    /// No level is asked.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.run(|core| {
            core.medium.record.check(key, value)?;
            core.change(key, Some(value))
        })
    }

    fn batch_max(&self) -> usize {
        self.core.memtable.changes_max()
    }

    fn takes_batch(&self, changes: usize) -> Option<bool> {
        Some(changes <= self.core.memtable.changes_max() && self.core().fits(changes))
    }

    /// Each page is named with its number, and the zeros that end a record are left out.
    fn tells_older(&self) -> bool {
        true
    }

    fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        self.run(|core| core.apply_all(batch))
    }

    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.run(|core| core.work_ahead(budget))
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.run(|core| core.look_on(budget))
    }

    fn free(&self) -> Option<Room> {
        let core = self.core();
        Some(core.stock().room(core.medium.changes_numbered()))
    }

    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        self.run(|core| core.medium.require_numbers())?;
        if !self.core().is_fresh() {
            return load_one_by_one(self, records);
        }
        self.run(|core| core.load_all(records))
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.run(|core| core.sight().walk((low, high), direction, visit))
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.run(|core| if core.commits.is_done() { Ok(()) } else { core.commit_last(false) })
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.run(|core| match core.commits.clean && core.commits.is_done() {
            true => Ok(()),
            false => core.close(),
        })
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.run(|core| {
            core.medium.cause = Cause::Check;
            let report = core.check_all();
            core.medium.cause = Cause::Host;
            report
        })
    }

    fn stats(&self) -> IndexStats {
        let Core { space, levels, memtable, commits, planner, counters, .. } = &self.core;
        let metrics = [
            ("memtable_records", memtable.len() as u64),
            ("steps_level_0", counters.steps[0]),
            ("steps_level_1", counters.steps[1]),
            ("steps_level_2", counters.steps[2]),
            ("commit_pages", counters.commits),
            ("commits_carried", counters.carried),
            ("sealed_pages", commits.sealed_pages() as u64),
            ("level_lookups", counters.level_lookups),
            ("level_lookups_filtered", counters.filtered),
            ("steps_for_room", counters.relieved.into()),
            ("sweeps_for_room", counters.sweeps.into()),
            ("look_ups_clean", planner.lending.served.into()),
            ("levels_drained", counters.drained.into()),
            ("pages_sunk", counters.sunk.into()),
            ("maps_written", space.map().map_or(0, |map| map.written)),
            ("steps_to_scrub", counters.scrubbed.into()),
            ("blocks_free", space.available() as u64),
            ("blocks_retired", space.blocks.retired),
        ];
        IndexStats {
            height: levels.len() as u32,
            live_pages: levels.iter().map(|level| level.pages() as u64).sum(),
            collections: space.blocks.erased,
            metrics: metrics.map(|(name, value)| Metric { name, value }).to_vec(),
            ..IndexStats::default()
        }
    }

    fn ram_bytes(&self) -> usize {
        let Core { space, levels, memtable, commits, medium, .. } = self.core();
        let held = [space.ram_bytes(), levels.ram_bytes(), memtable.ram_bytes(), commits.ram_bytes()];
        size_of::<Self>() - size_of::<N>() + medium.ram_bytes() + held.into_iter().sum::<usize>()
    }
}
