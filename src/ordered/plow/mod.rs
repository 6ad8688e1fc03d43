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

mod above;
mod ahead;
mod behind;
mod bits;
mod blocks;
mod carry;
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
mod forecast;
mod io;
mod lend;
mod level;
mod load;
mod map;
mod memtable;
mod mount;
mod narrow;
mod numbers;
mod page;
mod room;
mod root;
mod sink;
mod step;
mod summary;
#[cfg(test)]
mod tests;
mod walk;

use crate::check::{CheckReport, IndexError};
use crate::fault::IndexFault;
use crate::nand::{Cause, Geometry, Nand};
use crate::ordered::buffered::Answers;
use crate::ordered::{
    Change, Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Records, Room, Visit,
};
use crate::units::Ppn;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use blocks::{Blocks, State};
use coder::Known;
use commit::Commits;
pub use config::PlowConfig;
use config::Shares;
use core::cell::Cell;
use core::ops::{Bound, Range};
use cost::{Mix, Plan};
use drain::Drain;
use filter::Filters;
pub use forecast::Forecast;
use io::Loaded;
use lend::Lending;
use level::Level;
use map::Map;
use memtable::Memtable;

/// Where the newer records of a step come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Memtable,
    Level(usize),
}

/// A plow on a chip.
pub struct Plow<N> {
    nand: N,
    geometry: Geometry,
    record: RecordFormat,
    shares: Shares,
    durability: Durability,
    memtable: Memtable,
    levels: Vec<Level>,
    filters: Filters,
    blocks: Blocks,
    commits: Commits,
    map: Option<Box<Map>>,
    /// The page read last.
    input: Vec<u8>,
    loaded: Option<Loaded>,
    /// A place in it.
    known: Cell<Known>,
    /// The page being written, or records of a range.
    output: Vec<u8>,
    /// The newest program.
    sequence: u64,
    /// The change under way, where a step may carry it: key and value.
    under_way: Vec<u8>,
    /// Whether something is not in the newest commit page.
    dirty: bool,
    /// Whether that was written by a close.
    clean: bool,
    /// Why pages are read now.
    cause: Cause,
    plan: Plan,
    /// Pages of the last level that the plan was made for.
    planned_for: usize,
    /// The highest key of any level or sealed page; none if it is not known.
    top: Option<Vec<u8>>,
    /// Pages of a block of which one was hard to read: they are written anew.
    weak: Option<Range<Ppn>>,
    /// Pages of the chip that the round of scrubbing has passed.
    scrubbed: u32,
    /// A page of the first level with keys above all others, to which more are added.
    tail: Option<Ppn>,
    /// Operations of late, and those that the plan was made for.
    mix: Mix,
    planned_mix: Mix,
    lending: Lending,
    /// Whether the level above the last is to go, and how far that is.
    drain: Drain,
    /// Reads of look-ups in vain, in shares of a program: it pays for steps that make look-ups cheaper.
    credit: u32,
    /// Records of a full page of the last level.
    page_records: u64,
    /// Changes since all was swept for want of room.
    changes: u64,
    /// The count when steps for room were last of no use; the highest if they never were.
    relieved_in_vain: u64,
    /// Whether all is being swept for want of room.
    sweeping: bool,
    interrupted: bool,
    counters: Counters,
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
    failed: u32,
    drained: u32,
    sunk: u32,
    scrubbed: u32,
}

impl<N: Nand> Plow<N> {
    fn assemble(nand: N, config: &PlowConfig) -> Result<Plow<N>, IndexFault> {
        let (geometry, record) = (nand.geometry(), config.record);
        let own = size_of::<Plow<N>>() - size_of::<N>() + 3 * size_of::<Level>();
        let shares = Shares::new(config, geometry, own)?;
        let page = geometry.page_bytes as usize;
        Ok(Plow {
            nand,
            geometry,
            record,
            shares,
            durability: config.durability,
            memtable: Memtable::new(record, shares.memtable),
            levels: Vec::with_capacity(cost::LEVELS_MAX),
            filters: Filters::new(shares.filter),
            blocks: Blocks::new(geometry.blocks),
            commits: Commits::default(),
            map: Map::none(geometry, shares.maps),
            input: vec![0xff; page],
            loaded: None,
            known: Cell::default(),
            output: vec![0xff; page],
            sequence: numbers::none(),
            under_way: Vec::with_capacity(record.entry_bytes()),
            dirty: false,
            clean: false,
            cause: Cause::Host,
            plan: Plan::default(),
            planned_for: 0,
            top: None,
            tail: None,
            weak: None,
            scrubbed: 0,
            mix: Mix::usual(),
            planned_mix: Mix::usual(),
            lending: Lending::default(),
            drain: Drain::Off,
            credit: 0,
            page_records: 1,
            changes: 0,
            relieved_in_vain: u64::MAX,
            sweeping: false,
            interrupted: false,
            counters: Counters::default(),
        })
    }

    /// Gives the chip back.
    pub fn into_nand(self) -> N {
        self.nand
    }

    fn source(&self, level: usize) -> Source {
        level.checked_sub(1).map_or(Source::Memtable, Source::Level)
    }

    /// Whether every operation is durable.
    fn is_durable(&self) -> bool {
        self.durability == Durability::EveryOperation
    }

    fn usable(&self) -> Result<(), IndexFault> {
        if self.interrupted { Err(IndexError::Interrupted.into()) } else { Ok(()) }
    }

    /// After an error that is neither a refusal nor damage, what is on the chip is not known: only a mount
    /// finds out.
    fn judged<T>(&mut self, done: Result<T, IndexFault>) -> Result<T, IndexFault> {
        self.interrupted = match &done {
            Err(error) => {
                // Refused before anything was done.
                let is_refused = matches!(
                    **error,
                    IndexError::NotSorted { .. }
                        | IndexError::BatchTooLarge { .. }
                        | IndexError::WrongLength { .. }
                );
                !(is_refused || error.is_refusal() || error.is_loss())
            }
            Ok(_) => false,
        };
        done
    }

    /// Puts a value, or a tombstone.
    fn change(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), IndexFault> {
        let done = self.change_inner(key, value);
        self.judged(done)
    }

    fn change_inner(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), IndexFault> {
        self.admit_change()?;
        self.make_room(value.is_some(), 1)?;
        if self.mix.count(0, 1) {
            self.replan_for_mix();
        }
        self.note_changed(key);
        self.begin_change(key, value);
        let worked = self.work();
        self.under_way.clear();
        worked?;
        let before = self.memtable.put(key, value, false);
        self.changes += 1;
        if cfg!(feature = "full") && self.commits.carried {
            (self.dirty, self.clean) = (false, false);
            self.counters.carried += 1;
            return Ok(());
        }
        let was_dirty = core::mem::replace(&mut self.dirty, true);
        if self.is_durable()
            && let Err(error) = self.commit(false)
        {
            self.memtable.restore(key, &before);
            self.dirty = was_dirty;
            return Err(error);
        }
        Ok(())
    }

    /// The state of a key in the memtable: none if nothing, else whether it is a value.
    fn pooled(&self, key: &[u8]) -> Option<bool> {
        self.memtable.find(key).ok().map(|i| self.memtable.value(i).is_some())
    }

    /// Whether a key exists, as far as the setting asks.
    fn exists(&mut self, key: &[u8]) -> Result<bool, IndexFault> {
        match (self.pooled(key), self.shares.answers) {
            (Some(known), _) => Ok(known),
            (None, Answers::Pool) => Ok(false),
            (None, Answers::Exact) => {
                let mut value = vec![0; self.record.value_bytes.into()];
                if self.clean_value(key, &mut value) {
                    return Ok(true);
                }
                self.mix.count(1, 0);
                let found = self.look_up(key, &mut value);
                let found = self.judged(found)?;
                if found {
                    self.note_found(key);
                }
                Ok(found)
            }
        }
    }
}

impl<N: Nand> OrderedIndex for Plow<N> {
    fn record(&self) -> RecordFormat {
        self.record
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.usable()?;
        self.record.check_key(key)?;
        self.record.check_value(value)?;
        if let Ok(i) = self.memtable.find(key) {
            return Ok(self.memtable.copy_value(i, value));
        }
        if self.clean_value(key, value) {
            return Ok(true);
        }
        let found = self.look_up(key, value).and_then(|found| self.drain_when_paid().map(|()| found));
        let found = self.judged(found)?;
        if found {
            self.keep_clean(key, value);
        }
        Ok(found)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.usable()?;
        self.record.check_key(key)?;
        self.record.check_value(value)?;
        let existed = self.exists(key)?;
        self.change(key, Some(value))?;
        Ok(existed)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.usable()?;
        self.record.check_key(key)?;
        let existed = self.exists(key)?;
        if existed || self.shares.answers == Answers::Pool {
            self.change(key, None)?;
        }
        Ok(existed)
    }

    /// No level is asked.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.usable()?;
        self.record.check_key(key)?;
        self.record.check_value(value)?;
        Ok(self.change(key, Some(value))?)
    }

    fn batch_max(&self) -> usize {
        self.changes_max()
    }

    fn takes_batch(&self, changes: usize) -> Option<bool> {
        Some(changes <= self.changes_max() && self.has_room_for(changes))
    }

    /// Each page is named with its number, and the zeros that end a record are left out.
    fn tells_older(&self) -> bool {
        true
    }

    fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        self.usable()?;
        let done = self.apply_all(batch);
        Ok(self.judged(done)?)
    }

    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.usable()?;
        let done = self.work_ahead(budget);
        Ok(self.judged(done)?)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.usable()?;
        let done = self.look_on(budget);
        Ok(self.judged(done)?)
    }

    fn free(&self) -> Option<Room> {
        Some(self.room())
    }

    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        self.usable()?;
        let loaded = self.load_all(records);
        Ok(self.judged(loaded)?)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.usable()?;
        let walked = self.walk((low, high), direction, visit);
        Ok(self.judged(walked)?)
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.usable()?;
        if !self.dirty && !self.commits.followed {
            return Ok(());
        }
        let done = self.commit_last(false);
        Ok(self.judged(done)?)
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.usable()?;
        if self.clean && !self.dirty && !self.commits.followed {
            return Ok(());
        }
        let done = self.close_inner();
        Ok(self.judged(done)?)
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.usable()?;
        self.cause = Cause::Check;
        let report = self.check_all();
        self.cause = Cause::Host;
        Ok(self.judged(report)?)
    }

    fn stats(&self) -> IndexStats {
        let counters = self.counters;
        let metrics = [
            ("memtable_records", self.memtable.len() as u64),
            ("steps_level_0", counters.steps[0]),
            ("steps_level_1", counters.steps[1]),
            ("steps_level_2", counters.steps[2]),
            ("commit_pages", counters.commits),
            ("commits_carried", counters.carried),
            ("sealed_pages", self.commits.sealed_pages() as u64),
            ("level_lookups", counters.level_lookups),
            ("level_lookups_filtered", counters.filtered),
            ("steps_for_room", counters.relieved.into()),
            ("sweeps_for_room", counters.sweeps.into()),
            ("look_ups_clean", self.lending.served.into()),
            ("levels_drained", counters.drained.into()),
            ("pages_sunk", counters.sunk.into()),
            ("maps_written", self.map().map_or(0, |map| map.written)),
            ("steps_to_scrub", counters.scrubbed.into()),
            ("blocks_free", (self.blocks.free() + self.blocks.left()) as u64),
            ("blocks_retired", self.blocks.retired),
        ];
        IndexStats {
            height: self.levels.len() as u32,
            live_pages: self.levels.iter().map(|level| level.pages() as u64).sum(),
            collections: self.blocks.erased,
            metrics: metrics.map(|(name, value)| Metric { name, value }).to_vec(),
            ..IndexStats::default()
        }
    }

    fn ram_bytes(&self) -> usize {
        let buffers = self.input.capacity() + self.output.capacity();
        let levels: usize = self.levels.iter().map(Level::ram_bytes).sum();
        size_of::<Self>() - size_of::<N>()
            + buffers
            + self.memtable.ram_bytes()
            + self.levels.capacity() * size_of::<Level>()
            + levels
            + self.filters.ram_bytes()
            + self.blocks.ram_bytes()
            + self.commits.ram_bytes()
            + self.map().map_or(0, Map::ram_bytes)
            + self.top.as_ref().map_or(0, Vec::capacity)
    }
}
