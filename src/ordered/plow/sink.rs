//! Records above all others: ascending keys go to the end of the last level at once, not through every level.
//!
//! If at least half of the memtable is above every key on flash, those records become a page. While the page
//! is not full it belongs to the first level, and each new version replaces it (the *tail*). A full page goes
//! to the end of the last level, so that full pages are consecutive there. No level has another record in
//! that range of keys.

use super::Core;
use super::coder::{Builder, Expected};
use super::io::Target;
use super::level::Part;
use super::page::{HEADER_BYTES, Header};
use super::sight::Sight;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::ordered::key::Key;
use alloc::vec::Vec;

impl<N: Nand> Core<N> {
    /// Finds the highest key of any level, empty if there is none. It is read once after a mount. While there
    /// are sealed pages it stays unknown, since a mount does not note their keys.
    fn find_top(&mut self) -> Result<(), IndexFault> {
        if self.stock.levels.top.is_some() || self.stock.commits.sealed_pages() > 0 {
            return Ok(());
        }
        let mut top = Vec::with_capacity(self.medium.record.key_bytes.into());
        for level in 0..self.stock.levels.len() {
            if let Some(place) = self.stock.levels[level].last() {
                self.sight().load_place(level, place)?;
                let view = self.medium.view()?;
                let last = view.key_at(view.count() - 1);
                if *last > top[..] {
                    top.clear();
                    top.extend_from_slice(&last);
                }
            }
        }
        self.stock.levels.top = Some(top);
        Ok(())
    }

    /// Moves the records of the memtable that are above all others to the tail or to the last level, as many
    /// as fit a page. Does so only if they are many and no sealed page has a version of one of them, which a
    /// mount would take again. Returns true if records were moved.
    pub(super) fn sink(&mut self) -> Result<bool, IndexFault> {
        let last = self.stock.levels.len() - 1;
        if !cfg!(feature = "full")
            || last == 0
            || !self.stock.has_place(Target::Level(0))
            || !self.stock.has_place(Target::Level(last))
        {
            return Ok(false);
        }
        self.find_top()?;
        let Some(top) = &self.stock.levels.top else { return Ok(false) };
        let mut from = self.stock.memtable.lower_bound(top);
        from += usize::from(from < self.stock.memtable.len() && self.stock.memtable.key(from) == &top[..]);
        let count = self.stock.memtable.len() - from;
        let is_free = |i: usize| self.stock.memtable.is_unsealed(i);
        if count == 0
            || count * 2 < self.stock.memtable.len()
            || !(from..self.stock.memtable.len()).all(is_free)
        {
            return Ok(false);
        }
        let first = self.stock.memtable.key(from);
        if [0, last].iter().any(|&level| first < &self.stock.levels[level].cursor[..]) {
            return Ok(false);
        }
        let cause = self.medium.begin_merging();
        let done = self.sink_from(from);
        self.medium.cause = cause;
        done
    }

    fn sink_from(&mut self, from: usize) -> Result<bool, IndexFault> {
        let last = self.stock.levels.len() - 1;
        let place = self.stock.levels.tail_place();
        if let Some(place) = place {
            self.sight().load_place(0, place)?;
        }
        let Some((held, count, taken)) = self.sight().fill_sunk(from, place.is_some())? else {
            self.stock.levels.tail = None;
            return Ok(false);
        };
        let is_full = from + taken < self.stock.memtable.len();
        let level = if is_full { last } else { 0 };
        if count > 0 {
            let written = self.program(Target::Level(level), Header::run(count, true))?;
            if let Some(old) = self.stock.levels.tail.filter(|_| place.is_some()) {
                self.stock.levels[0].old.remove(old);
                self.stock.levels.filters.remove(old);
            }
            self.adopt((level, Part::Old), written, count, true);
            if let Some(old) = self.stock.levels.tail.filter(|_| place.is_some()) {
                self.stock.space.leave_if_dead(self.stock.geometry.block_of(old), &self.stock.levels);
            }
            self.stock.levels.tail = Some(written).filter(|_| !is_full);
            self.summarise_full(level)?;
        }
        self.stock.levels[0].records = self.stock.levels[0].records.saturating_sub(held);
        self.stock.levels[level].records += count;
        self.counters.sunk += 1;
        self.counters.steps[level] += 1;
        self.stock.commits.dirty = true;
        self.stock.memtable.drain(from, from + taken);
        self.stock.levels.keep_short(&self.planner.shares);
        Ok(true)
    }
}

impl<N: Nand> Sight<'_, N> {
    /// Fills the page in the output buffer with the live records of the tail, which is in the input buffer if
    /// `has_tail`, and with records of the memtable. Returns the number of the tail's records, of all
    /// records, and of the memtable's records dealt with. `None` if the tail's do not fit.
    fn fill_sunk(
        &mut self,
        from: usize,
        has_tail: bool,
    ) -> Result<Option<(usize, usize, usize)>, IndexFault> {
        let record = self.medium.record;
        let wanted = self.stock.memtable.len() - from;
        let (mut key, mut value) =
            (Key::zeros(record.key_bytes.into()), Key::zeros(record.value_bytes.into()));
        let (view, body) = match has_tail {
            true => self.medium.view_and_output().map(|(view, output)| (Some(view), output))?,
            false => (None, &mut self.medium.output[..]),
        };
        let body = &mut body[HEADER_BYTES..];
        // Records below a cursor are dead.
        let cursor = (&self.stock.levels[0].cursor).max(&self.stock.levels[1].cursor);
        let (live, count) = match view {
            Some(view) => (view.find(cursor).0, view.count()),
            None => (0, 0),
        };
        match view.filter(|_| live < count) {
            Some(view) => view.key(live, &mut key),
            None => key.copy_from_slice(self.stock.memtable.key(from)),
        }
        let (first, last) = (key, self.stock.memtable.key(self.stock.memtable.len() - 1));
        let expected =
            Expected { first: &first, low: &first, last, count: count - live + wanted, tombstones: true };
        let mut builder = Builder::begin(body, record, expected);
        if let Some(view) = view {
            for i in live..count {
                view.key(i, &mut key);
                view.value(i, &mut value);
                if !builder.append(body, &key, Some(&value)) {
                    return Ok(None);
                }
            }
        }
        let mut taken = 0;
        while taken < wanted {
            let value = self.stock.memtable.value(from + taken);
            // A tombstone hides nothing here.
            if value.is_some() && !builder.append(body, self.stock.memtable.key(from + taken), value) {
                break;
            }
            taken += 1;
        }
        Ok(Some((count - live, builder.count(), taken)))
    }
}
