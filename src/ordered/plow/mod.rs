//! plow: an ordered index for raw NAND with little RAM. Our own design.
//!
//! Changes gather in a sorted table in RAM, the *memtable*. Below it are up to three *levels* on flash. Each
//! level is a row of packed pages in key order that is rewritten round after round. There is one primitive,
//! the *step* (`step`). It merges the records under a level's cursor with those of the level above in the
//! same range into one page at the level's frontier, and the cursor moves behind them. When a cursor comes
//! back to a key after a whole round, the level above is fullest there: it has twice its mean density. So few
//! pages are written for many records.
//!
//! ```text
//! memtable         . . .:..::|          .   .  . .:   RAM; the first sweep stands at |
//! level 0          === == = =|== == = = =           its pages; filters in RAM
//! level 1   ===== ===== ==== |==== ===== ===== =====
//! level 2   ================|========================  most of the records
//! ```
//!
//! * **Change**: does at most one step, if the memtable or a level is full. Then the record is added to the
//!   memtable. In the class *every operation* a commit page follows, or the page of the step carries the
//!   change (`carry`), or the change is appended behind the newest commit page (`append`). With `answers =
//!   exact` the key is looked up first; with `pool` the answer is that of the memtable.
//! * **Look-up**: in the memtable, then on each level in the one page that the fences give (`fences`).
//!   Filters exclude most pages of level 0.
//! * **Sync**: writes a *commit page* (`commit`) with the root and the memtable. The newest commit page is
//!   the state of the index. There is no log to replay or to clean.
//! * **Mix**: if there are far more look-ups than changes, the level above the last is merged into the last
//!   and left out (`drain`).
//! * **Ascending keys**: keys above all others go to the last level at once (`sink`).
//! * **Local keys**: the first sweep passes pages in which nothing waits (`pass`).
//! * **Space**: a block dies when the sweeps have passed its pages, so nothing is ever moved to free a block.
//!   If blocks are short, steps are made earlier than needed (`room`).
//! * **Scrubbing**: if a page could not be read at once, the sweep of its level goes on until it has passed
//!   the page.
//! * **Mount**: reads the newest commit page, the changes behind it, and then the pages of all levels, from
//!   which fences and filters are built.
//!
//! Invariants (`check`, and tests with power cuts):
//!
//! * I1: the newest whole commit page is the state.
//! * I2: no page that it refers to is erased or programmed before a newer commit page is durable.
//! * I3: the pages of a level are in key order. Each is whole, and was programmed since the last erase of its
//!   block.
//! * I4: of all versions of a key on the levels the one in the smallest level is the newest. A version in the
//!   memtable is newer still.
//! * I5: memtable and levels of a commit page are the history up to it, with the changes behind it all.
//! * I6: other pages programmed after the newest commit page do not count.
//! * I7: after a mount no page is programmed in a block that was open before it, and a block is erased before
//!   use.
//! * I8: program numbers grow and are never used twice.
//! * I9: fences, filters and the use of blocks follow from the pages to which the commit page refers.
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
//! `Core` has these parts, and the functions that need several of them. Reads use `Sight`, which changes only
//! the buffers of the medium. `Stock` tells if there is room, and changes nothing. A mount first reads the
//! chip (`Survey`), then takes over the root (`Taking`). [`Plow`] is a thin shell around the core, so the
//! code of the core exists once for all chips.

mod above;
mod anchor;
mod append;
mod behind;
mod bits;
mod blocks;
mod budget;
mod carry;
mod change;
mod check;
mod chunks;
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
mod give;
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
mod pass;
mod planner;
mod room;
mod root;
mod row;
mod scratch;
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
use crate::units::Ppn;
use alloc::vec::Vec;
use commit::Commits;
pub use config::PlowConfig;
use config::Shares;
use core::ops::Bound;
pub use forecast::Forecast;
use levels::Levels;
use medium::Medium;
use memtable::Memtable;
use planner::Planner;
use sight::Sight;
use space::{Space, Stock};

/// A plow on a chip.
///
/// ```
/// # use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
/// # let chip = SimChip::new(&mlc_64m().with_blocks(64))?;
/// use nandex::{OrderedIndex, RecordFormat, Plow, PlowConfig};
///
/// let config = PlowConfig::new(RecordFormat::new(2, 4)).with_ram_bytes(Some(64 << 10));
/// let mut tree = Plow::format(chip, &config)?;
/// tree.insert(&[0, 7], &[1; 4])?;
/// tree.close()?;
/// let mut tree = Plow::mount(tree.into_nand(), &config)?;
/// assert!(tree.get(&[0, 7], &mut [0; 4])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Plow<N> {
    core: Core<N>,
    interrupted: bool,
}

type Begin<N> = fn(&mut Core<N>) -> Result<(), IndexFault>;

/// The parts of the index. Each owns its fields.
struct Core<N> {
    stock: Stock,
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
    passed: u32,
    scrubbed: u32,
}

impl<N: Nand> Core<N> {
    fn new(nand: N, config: &PlowConfig) -> Result<Core<N>, IndexFault> {
        let (geometry, record) = (nand.geometry(), config.record);
        let commits = Commits::none(config.durability, record, geometry);
        // The list of pages that a step has passed is among the others.
        let own = size_of::<Plow<N>>() - size_of::<N>() - size_of::<Vec<(level::Part, Ppn)>>();
        let own = own + level::BYTES + commits.ram_bytes();
        let shares = Shares::new(config, geometry, own)?;
        let stock = Stock {
            geometry,
            space: Space::new(geometry, shares.maps),
            levels: Levels::none(geometry.pages_per_block, shares.extents_max),
            memtable: Memtable::new(record, 0),
            commits,
        };
        Ok(Core {
            stock,
            planner: Planner::new(shares),
            counters: Counters::default(),
            medium: Medium::new(nand, record),
        })
    }
}

impl<N: Nand> Core<N> {
    /// View of the parts that reads of levels need.
    fn sight(&mut self) -> Sight<'_, N> {
        Sight { medium: &mut self.medium, stock: &self.stock }
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

    fn begun(nand: N, config: &PlowConfig, begin: Begin<N>) -> Result<Plow<N>, IndexError> {
        let mut core = Core::new(nand, config)?;
        begin(&mut core)?;
        Ok(Plow { core, interrupted: false })
    }

    /// Ends the index and gives the chip back.
    pub fn into_nand(self) -> N {
        self.core.medium.nand
    }

    /// Runs an operation, if no earlier one left the chip unknown.
    fn run<T>(
        &mut self,
        operation: impl FnOnce(&mut Core<N>) -> Result<T, IndexFault>,
    ) -> Result<T, IndexError> {
        if self.interrupted {
            return Err(IndexError::Interrupted);
        }
        let done = operation(&mut self.core);
        self.interrupted = done.as_ref().is_err_and(leaves_unknown);
        Ok(done?)
    }
}

/// True for an error after which only a mount finds out what is on the chip.
fn leaves_unknown(error: &IndexFault) -> bool {
    // Refused before anything was done.
    let is_refused = matches!(
        **error,
        IndexError::NotSorted { .. } | IndexError::BatchTooLarge { .. } | IndexError::WrongLength { .. }
    );
    !(is_refused || error.is_refusal() || error.is_loss())
}

impl<N: Nand> OrderedIndex for Plow<N> {
    fn record(&self) -> RecordFormat {
        self.core.medium.record
    }

    fn durability(&self) -> Durability {
        self.core.stock.commits.durability
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.run(|core| {
            core.medium.record.check(key, value)?;
            match core.stock.memtable.find(key) {
                Ok(i) => Ok(core.stock.memtable.copy_value(i, value)),
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

    /// Reads no level, since it does not tell if the key existed.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.run(|core| {
            core.medium.record.check(key, value)?;
            core.change(key, Some(value))
        })
    }

    fn batch_max(&self) -> usize {
        self.core.planner.shares.changes_max(self.core.stock.memtable.capacity())
    }

    fn takes_batch(&self, changes: usize) -> Option<bool> {
        Some(changes <= self.batch_max() && self.core.fits(changes))
    }

    /// An older version of a page is told: each page names its number, and zeros that end a record are left
    /// out. But a page of changes has one number, however many changes it holds.
    fn tells_older(&self) -> bool {
        self.core.stock.commits.tail.is_none()
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
        let core = &self.core;
        Some(core.stock.room(core.medium.changes_numbered()))
    }

    fn records_max(&self) -> Option<u64> {
        Some(self.core.stock.records_max())
    }

    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        self.run(|core| core.medium.require_numbers())?;
        if !self.core.is_fresh() {
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
        self.run(|core| if core.stock.commits.is_done() { Ok(()) } else { core.commit_last(false) })
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.run(|core| match core.stock.commits.clean && core.stock.commits.is_done() {
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
        let Core { stock, planner, counters, .. } = &self.core;
        let Stock { space, levels, memtable, commits, .. } = stock;
        let metrics = [
            ("memtable_records", memtable.len() as u64),
            ("steps_level_0", counters.steps[0]),
            ("steps_level_1", counters.steps[1]),
            ("steps_level_2", counters.steps[2]),
            ("commit_pages", counters.commits),
            ("commits_carried", counters.carried),
            ("changes_appended", commits.tail.as_ref().map_or(0, |tail| tail.appended)),
            ("sealed_pages", commits.sealed_pages() as u64),
            ("level_lookups", counters.level_lookups),
            ("level_lookups_filtered", counters.filtered),
            ("steps_for_room", counters.relieved.into()),
            ("sweeps_for_room", counters.sweeps.into()),
            ("look_ups_clean", planner.lending.served.into()),
            ("levels_drained", counters.drained.into()),
            ("pages_sunk", counters.sunk.into()),
            ("pages_passed", counters.passed.into()),
            ("maps_written", space.map().map_or(0, |map| map.written)),
            ("steps_to_scrub", counters.scrubbed.into()),
            ("blocks_free", space.available() as u64),
            ("blocks_retired", space.blocks.retired.into()),
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
        let Core { stock, medium, .. } = &self.core;
        let Stock { space, levels, memtable, commits, .. } = stock;
        let held = [space.ram_bytes(), levels.ram_bytes(), memtable.ram_bytes(), commits.ram_bytes()];
        size_of::<Self>() - size_of::<N>() + medium.ram_bytes() + held.into_iter().sum::<usize>()
    }
}
