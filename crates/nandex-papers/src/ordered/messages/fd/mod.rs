//! FD-tree: a head in RAM above sorted runs on the medium, each k times the one above, with fences from run
//! to run.
//!
//! Y. Li, B. He, Q. Luo, K. Yi, "Tree Indexing on Flash Disks", ICDE 2009; Y. Li, B. He, J. Yang, Q. Luo, K.
//! Yi, "Tree Indexing on Solid State Drives", PVLDB 3(1), 2010, and the authors' reference code. Random
//! writes become sequential ones: updates gather in the head, and a full head is merged with the first run, a
//! run that got too large with the next. *Fences* save the search in a run: an entry of a run that names a
//! page of the run below, so a look-up reads one page of each.
//!
//! # State
//!
//! In RAM: the head, and the fences of the first run. Each run is a chain of pages (`run.rs` has every byte),
//! written one after the other: contiguous as far as the free pages are. An *external* fence for each page of
//! the run below has that page's first key; a page of a run that is not the last begins with a fence, an
//! *internal* one if no external one falls there, which repeats the last external one before. The first page
//! of a run is announced with the least of all keys.
//!
//! # Operations
//!
//! - *insert, remove*: an entry of the head, in the place of an older one of its key. A removal is a *filter*
//!   (tombstone). If the head is full, a merge first.
//! - *merge into level i*: (1) All that is above (records of the head, of the run before it; others have only
//!   fences) is merged with run i; of two records of a key the upper one stays; no fence of the runs merged
//!   goes along but the external ones of run i.
//!   (2) Each page written is announced to the run above, and so up to the head: the upper levels are built
//!   anew, of fences only. (3) Filters go no further than the last run. (4) If run i has more pages than k^i
//!   heads, it is merged into level i + 1 in turn; the last run of all has no limit.
//! - *get*: the head, then in each run the page that the fence before the key names; the first record found
//!   is the newest.
//! - *range*: one cursor in each run, found in the same way, and the head, merged.
//! - *sync*: the head's records, as they lie in RAM, and where the runs begin go to fresh pages, then the
//!   manifest.
//!
//! Old runs are trimmed once a commit does without them. k is chosen by the cost model of the paper
//! (`model.rs`) unless it is given.
//!
//! # Invariants
//!
//! Those of [`messages`](crate::ordered::messages), and
//!
//! - F1 Entries of a run ascend: keys strictly, a fence before the record of its key; the last run has no
//!   filters and no fences.
//! - F2 A run has as many pages and records as its level says, chained both ways.
//! - F3 Every page of a run that is not the last begins with a fence. Its external fences are the pages of
//!   the run below, one each and in order, with their first keys; those of the head are the pages of the
//!   first run.
//! - F4 The pages that remain after a commit suffice to merge all runs and a full head into one. An insertion
//!   after which they might not has all merged first, and is refused if that is not enough. So removals
//!   always find room.
//!
//! # Deviations and confidence
//!
//! Very high: layout and algorithm, from the authors' code. Ours: keys are unique, so a record speaks for its
//! key and a filter stays until the last run, where theirs cancels one entry of equal key and pointer; fences
//! stand first in a page (the paper's form; the code's stand last) and name pages outright; F4 and the merge
//! of everything that it may call for. The de-amortised mode is not built.

mod head;
mod merge;
mod model;
mod run;
mod settings;
#[cfg(test)]
mod tests;

use crate::ordered::messages::ground::{
    Ascending, Bounds, CommittedState, Common, Identity, MessageScheme, MessageTree, PUT, REMOVE, Shadow,
    ShadowOn, StorePages, Tour, corrupted,
};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Bound;
use head::Head;
pub use model::best_ratio;
use nandex::check::{CheckReport, IndexError, Invariant, message};
use nandex::codec::{get_u32, get_u64, put_u32};
use nandex::nand::Cause;
use nandex::ordered::Direction;
use nandex::ordered::change::Change;
use nandex::units::Lpn;
use run::{Cursor, EXTERNAL, Level, RunPage};
pub use settings::FdConfig;
use settings::{FdSizes, LEVELS_MAX};

/// The FD-tree: a head in RAM above sorted runs, with fences from run to run.
pub type FdTree<S> = MessageTree<S, Fd>;

/// The scheme of the FD-tree.
pub struct Fd {
    plan: FdSizes,
    value_bytes: usize,
    head: Head,
    /// Fences of the first run: key and unit of each page.
    fences: Vec<u8>,
    levels: Vec<Level>,
    /// An upper bound of the records with a value, in head and runs.
    puts: u64,
    /// Whether everything is in one run and the head is empty.
    is_merged: bool,
    counts: FdCounts,
}

#[derive(Clone, Copy, Debug, Default)]
struct FdCounts {
    merges: u64,
    merge_page_writes: u64,
    whole_merges: u64,
}

impl Fd {
    fn over(config: &FdConfig, plan: FdSizes) -> Fd {
        Fd {
            plan,
            value_bytes: config.common.record.value_bytes.into(),
            head: Head::new(plan.shape, plan.head_entries),
            fences: Vec::new(),
            levels: Vec::new(),
            puts: 0,
            is_merged: true,
            counts: FdCounts::default(),
        }
    }

    fn page(&self) -> RunPage {
        RunPage::new(self.plan.shape, self.plan.page_bytes)
    }

    /// The page of the first run that a key belongs to.
    fn first_page(&self, key: &[u8]) -> Option<u32> {
        let width = self.plan.shape.key + 4;
        debug_assert!(self.fences.len().is_multiple_of(width), "F3: a fence is cut short");
        let (mut low, mut high) = (0, self.fences.len() / width);
        while low < high {
            let middle = usize::midpoint(low, high);
            if &self.fences[middle * width..][..self.plan.shape.key] <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let fence = low.checked_sub(1)?;
        Some(get_u32(&self.fences, fence * width + self.plan.shape.key))
    }

    /// Shows the page of each run that a key belongs to, from the top. Ends when `show` says so.
    fn descend(
        &self,
        shadow: &mut Shadow<'_>,
        key: &[u8],
        show: &mut dyn FnMut(usize, &RunPage) -> bool,
    ) -> Result<(), IndexError> {
        let mut page = self.page();
        let mut next = self.first_page(key);
        for level in 0..self.levels.len() {
            let Some(unit) = next else {
                return Err(corrupted(Invariant::F3, "no fence before a key", shadow.lpn(0, 0)));
            };
            page.read(shadow, unit, Cause::Host)?;
            if show(level, &page) {
                break;
            }
            next = page.fence_before(page.up_to(key));
        }
        Ok(())
    }

    /// A cursor for each run, at the first record within the bounds.
    fn cursors(
        &self,
        shadow: &mut Shadow<'_>,
        (low, high): Bounds<'_>,
        direction: Direction,
    ) -> Result<Vec<Cursor>, IndexError> {
        let bound = if direction == Direction::Ascending { low } else { high };
        let end = vec![if direction == Direction::Ascending { 0 } else { 0xFF }; self.plan.shape.key];
        let key = match bound {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &end,
        };
        let mut pages = Vec::new();
        self.descend(shadow, key, &mut |_, page| {
            pages.push((page.clone(), page.up_to(key)));
            false
        })?;
        let mut cursors = Vec::with_capacity(pages.len());
        for (level, (page, up_to)) in pages.into_iter().enumerate() {
            let count = page.count;
            // A few entries before the bound are passed below.
            let at = match direction {
                Direction::Ascending => up_to.saturating_sub(2),
                Direction::Descending => count - up_to,
            };
            let mut cursor = Cursor::new(page, direction, at, self.levels[level].pages);
            cursor.turn(shadow)?;
            cursor.skip_fences(shadow, false)?;
            while cursor.peek().is_some_and(|entry| is_before(&entry[1..=key.len()], bound, direction)) {
                cursor.advance(shadow)?;
                cursor.skip_fences(shadow, false)?;
            }
            cursors.push(cursor);
        }
        Ok(cursors)
    }
}

/// True if a key comes before the bound at which a walk in this direction starts.
fn is_before(key: &[u8], bound: Bound<&[u8]>, direction: Direction) -> bool {
    let order = |bound: &[u8]| {
        let order = key.cmp(bound);
        if direction == Direction::Ascending { order } else { order.reverse() }
    };
    match bound {
        Bound::Included(bound) => order(bound) == Ordering::Less,
        Bound::Excluded(bound) => order(bound) != Ordering::Greater,
        Bound::Unbounded => false,
    }
}

impl MessageScheme for Fd {
    type Config = FdConfig;

    fn common(config: &FdConfig) -> Common {
        config.common
    }

    fn identity(config: &FdConfig, pages: StorePages) -> Result<Identity, IndexError> {
        config.plan(pages)?;
        let mut parameters = [0; 16];
        put_u32(&mut parameters, 0, config.k);
        Ok(Identity { name: *b"NXFDTR01", record: config.common.record, unit_pages: 1, parameters })
    }

    fn new(config: &FdConfig, shadow: &mut Shadow<'_>) -> Result<Fd, IndexError> {
        let plan = config.plan(StorePages { bytes: shadow.page_bytes(), count: shadow.units.count() + 1 })?;
        let state = 5 + LEVELS_MAX * LEVEL_BYTES + plan.head_entries as usize * plan.shape.bytes();
        shadow.set_reserve(shadow.units_for_state(state))?;
        let tree = Fd::over(config, plan);
        if !tree.fits(shadow, 1) {
            return Err(IndexError::unsupported(message!(
                "{} pages are too few for a head of {} records and one more",
                shadow.units.count(),
                plan.head_entries
            )));
        }
        Ok(tree)
    }

    fn restore(
        config: &FdConfig,
        shadow: &mut Shadow<'_>,
        mut state: CommittedState,
    ) -> Result<Fd, IndexError> {
        let wrong = || corrupted(Invariant::S1, "the state is no head", Lpn(0));
        let (mut start, mut row) = ([0; 5], [0; LEVEL_BYTES]);
        state.take(shadow, &mut start)?;
        let (levels, held) = (usize::from(start[0]), get_u32(&start, 1));
        // Less RAM than when it was written: the head is as large as what it holds.
        let config = &FdConfig { head_entries: config.head_entries.max(held), ..*config };
        let width = settings::shape_of(config.common.record).bytes();
        let expected = (levels * LEVEL_BYTES) as u64 + u64::from(held) * width as u64;
        if levels > LEVELS_MAX || state.len() as u64 != expected {
            return Err(wrong());
        }
        let mut tree = Fd::new(config, shadow)?;
        for _ in 0..levels {
            state.take(shadow, &mut row)?;
            tree.levels.push(Level {
                first: get_u32(&row, 0),
                last: get_u32(&row, 4),
                pages: get_u32(&row, 8),
                records: get_u64(&row, 12),
            });
            tree.puts = tree.puts.saturating_add(get_u64(&row, 12));
        }
        let mut record = vec![0; width];
        for _ in 0..held {
            state.take(shadow, &mut record)?;
            if record[0] != PUT && record[0] != REMOVE {
                return Err(wrong());
            }
            tree.puts += u64::from(record[0] == PUT);
            tree.head.put(record[0], &record[1..=tree.plan.shape.key], &record[1 + tree.plan.shape.key..]);
        }
        tree.is_merged = false;
        tree.claim(shadow)?;
        Ok(tree)
    }

    fn state_bytes(&self) -> usize {
        5 + self.levels.len() * LEVEL_BYTES + self.head.len() as usize * self.plan.shape.bytes()
    }

    fn save(&self, put: &mut dyn FnMut(&[u8]) -> Result<(), IndexError>) -> Result<(), IndexError> {
        put(&[self.levels.len() as u8])?;
        put(&self.head.len().to_le_bytes())?;
        for level in &self.levels {
            for field in [level.first, level.last, level.pages] {
                put(&field.to_le_bytes())?;
            }
            put(&level.records.to_le_bytes())?;
        }
        self.head.records().try_for_each(put)
    }

    fn known(&self, key: &[u8]) -> Option<bool> {
        let found = self.head.find(key).map(|record| record[0] == PUT);
        found.or(self.levels.is_empty().then_some(false))
    }

    fn find(&mut self, shadow: &mut Shadow<'_>, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        let mut copy = |record: &[u8]| {
            value.copy_from_slice(&record[1 + key.len()..][..value.len()]);
            record[0] == PUT
        };
        if let Some(record) = self.head.find(key) {
            return Ok(copy(record));
        }
        let mut found = false;
        self.descend(shadow, key, &mut |_, page| {
            let Some(at) = page.up_to(key).checked_sub(1) else { return false };
            let entry = page.entries().at(at);
            let is_it = entry[0] < EXTERNAL && entry[1..=key.len()] == *key;
            found = is_it && copy(entry);
            is_it
        })?;
        Ok(found)
    }

    fn admit(&mut self, shadow: &mut Shadow<'_>, key: &[u8]) -> Result<(), IndexError> {
        let is_put = self.head.find(key).is_some_and(|record| record[0] == PUT);
        if is_put { Ok(()) } else { self.make_room_to_put(shadow) }
    }

    /// A full head merges into the runs whatever it holds (F4), and the runs do not become longer by this.
    fn admit_in_leaf(&mut self, _shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        Ok(())
    }

    fn update(&mut self, shadow: &mut Shadow<'_>, change: Change<'_>) -> Result<(), IndexError> {
        let Change { key, value } = change;
        let found = self.head.find(key).map(|record| record[0]);
        if self.levels.is_empty() && value.is_none() {
            self.puts -= u64::from(found == Some(PUT));
            self.head.remove(key);
            return Ok(());
        }
        if self.head.is_full() && self.head.find(key).is_none() {
            self.merge_head(shadow)?;
            if self.levels.is_empty() && value.is_none() {
                return Ok(());
            }
        }
        // A merge may have emptied the head.
        debug_assert!(!self.head.is_full() || self.head.find(key).is_some(), "a full head takes a record");
        let was_put = self.head.find(key).is_some_and(|record| record[0] == PUT);
        self.puts += u64::from(value.is_some());
        self.puts -= u64::from(was_put);
        self.is_merged = false;
        self.head.put(if value.is_some() { PUT } else { REMOVE }, key, value.unwrap_or(&[]));
        Ok(())
    }

    fn range(&mut self, shadow: &mut Shadow<'_>, tour: Tour<'_, '_>) -> Result<(), IndexError> {
        self.walk(shadow, tour)
    }

    fn load(&mut self, shadow: &mut Shadow<'_>, records: &mut Ascending<'_, '_>) -> Result<(), IndexError> {
        self.build(shadow, records)
    }

    fn check(&mut self, shadow: &mut Shadow<'_>, report: &mut CheckReport) -> Result<u32, IndexError> {
        self.check_runs(shadow, report)
    }

    fn is_empty(&self) -> bool {
        self.levels.is_empty() && self.head.len() == 0
    }

    /// Records with which the run of all, and another one with a full head merged in, fit on all units.
    fn records_left(&self, free: u64, used: u64) -> u64 {
        let fits = |puts: u64| self.plan.fits(puts + puts / 64, free + used);
        let (mut low, mut high) = (self.puts, (free + used) * u64::from(self.plan.page_entries));
        while low < high {
            let middle = low.midpoint(high) + 1;
            (low, high) = if fits(middle) { (middle, high) } else { (low, middle - 1) };
        }
        low - self.puts
    }

    fn height(&self) -> u32 {
        1 + self.levels.len() as u32
    }

    fn metrics(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("k", self.plan.k.into()),
            ("head_entries_max", self.plan.head_entries.into()),
            ("head_entries", self.head.len().into()),
            ("run_pages", self.levels.iter().map(|level| u64::from(level.pages)).sum()),
            ("run_records", self.levels.iter().map(|level| level.records).sum()),
            ("run_merges", self.counts.merges),
            ("merge_page_writes", self.counts.merge_page_writes),
            ("whole_merges", self.counts.whole_merges),
        ]
    }

    fn waiting_records_max(config: &FdConfig) -> u64 {
        config.head_entries.into()
    }

    /// Bytes of RAM: the head, the fences of the largest first run twice, and two pages for each level of a
    /// merge and one more.
    fn ram_bytes(config: &FdConfig, store: StorePages) -> Result<usize, IndexError> {
        let (plan, StorePages { bytes: page_bytes, count: pages }) = (config.plan(store)?, store);
        // Those of the first run before a merge, and those of the one that it writes.
        let fences = 2 * plan.first_pages(pages) * (plan.shape.key + 4);
        // What cursors and runs take beside their pages, where a page is less than that.
        let runs =
            (plan.levels * 2 * (size_of::<Cursor>() + plan.shape.bytes())).saturating_sub(2 * page_bytes);
        let state = plan.head_entries as usize * plan.shape.bytes() / page_bytes + 2;
        Ok(plan.head_entries as usize * Head::record_bytes(plan.shape)
            + fences
            + runs
            + (2 * plan.levels + 3) * page_bytes
            + ShadowOn::<()>::ram_bytes_for(pages, 1, state as u32))
    }
}

/// Bytes of a level in the state: first unit (4), last unit (4), pages (4), records (8).
const LEVEL_BYTES: usize = 20;
