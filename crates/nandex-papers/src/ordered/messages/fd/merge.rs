//! Merges of the head and runs, the walk over all of them, claims at mount, checks.

use super::Fd;
use super::run::{Cursor, EXTERNAL, INTERNAL, Level, Writer};
use crate::ordered::messages::ground::{
    Ascending, Bounds, NONE, PUT, REMOVE, Run, Shadow, Tour, commit, corrupted, make_room,
};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Bound;
use nandex::check::{CheckReport, IndexError, Invariant, message};
use nandex::codec::get_u32;
use nandex::nand::Cause;
use nandex::ordered::{Direction, within};

/// The sort key of an entry in a run. The fences of a key come before its record.
fn place(entry: &[u8], key_bytes: usize) -> (&[u8], bool) {
    (&entry[1..=key_bytes], entry[0] < EXTERNAL)
}

impl Fd {
    fn records(&self) -> u64 {
        self.levels.iter().map(|level| level.records).sum()
    }

    /// Largest number of pages that a merge into a level writes.
    fn merge_pages(&self, level: usize) -> u64 {
        let above: u64 = self.levels.iter().take(level + 1).map(|level| level.records).sum();
        let fences = self.levels.get(level + 1).map_or(0, |below| u64::from(below.pages));
        self.plan.pages_for(above + u64::from(self.head.len()) + fences)
    }

    /// Pages that a merge of everything into one run takes, with a head of `head` records.
    fn whole_pages(&self, records: u64, head: u64) -> u64 {
        self.plan.pages_for(records + head)
    }

    /// Makes sure that one more value has room (F4), by merging everything if needed.
    pub(super) fn make_room_to_put(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        if self.fits(shadow, self.puts + 1) {
            return Ok(());
        }
        if self.is_merged {
            return Err(IndexError::NO_BLOCK);
        }
        self.merge_whole(shadow)?;
        // So that what a merge gains lasts for more than one record.
        let spare = self.puts / 64;
        if self.fits(shadow, self.puts + 1 + spare) { Ok(()) } else { Err(IndexError::NO_BLOCK) }
    }

    /// Whether a run of `puts` records leaves room for a second one with a full head merged in.
    pub(super) fn fits(&self, shadow: &Shadow<'_>, puts: u64) -> bool {
        self.plan.fits(puts, shadow.units.for_tree().into())
    }

    /// Empties the head by a merge with the first levels.
    pub(super) fn merge_head(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        let mut level = 0;
        loop {
            // Afterwards the merge of everything must be possible still.
            let (records, head) = (self.records() + u64::from(self.head.len()), self.plan.head_entries);
            let after = self.merge_pages(level) + self.whole_pages(records, head.into());
            let old: u64 = self.levels.iter().take(level + 1).map(|level| u64::from(level.pages)).sum();
            let room = u64::from(shadow.units.free_after_commit()) + old;
            if after > room || self.merge_pages(level) > u64::from(shadow.units.free_after_commit()) {
                return self.merge_whole(shadow);
            }
            make_room(shadow, self, self.merge_pages(level) as u32)?;
            self.merge_into(shadow, level)?;
            let is_large =
                self.levels.get(level).is_some_and(|run| u64::from(run.pages) > self.plan.level_pages(level));
            if !is_large || level + 1 == self.plan.levels {
                return Ok(());
            }
            level += 1;
        }
    }

    /// Merges everything into one run.
    fn merge_whole(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        let pages = self.merge_pages(self.levels.len().saturating_sub(1));
        // Deep enough that the first run, whose fences are in RAM, is no longer than it may be.
        let fits = |level: &usize| self.plan.level_pages(*level) >= pages || level + 1 == self.plan.levels;
        let last = (self.levels.len().saturating_sub(1)..self.plan.levels).find(fits).unwrap_or(0);
        if u64::from(shadow.units.free_now()) < pages {
            commit(shadow, self)?;
        }
        self.merge_into(shadow, last)?;
        self.counts.whole_merges += 1;
        self.puts = self.records();
        self.is_merged = true;
        Ok(())
    }

    /// Merges the head and the runs down to `level` into the run of that level.
    fn merge_into(&mut self, shadow: &mut Shadow<'_>, level: usize) -> Result<(), IndexError> {
        let has_lower = level + 1 < self.levels.len();
        let first = self.plan.first_pages(shadow.units.count());
        let mut writer = Writer::new((self.plan.shape, self.plan.page_bytes), level + 1, has_lower, first);
        let written = shadow.attempt(|shadow| {
            self.merge_entries(shadow, level, &mut writer)?;
            for old in 0..self.levels.len().min(level + 1) {
                self.release_run(shadow, old)?;
            }
            writer.finish(shadow)
        })?;
        self.counts.merges += 1;
        self.counts.merge_page_writes += writer.page_writes;
        let lower = self.levels.split_off(self.levels.len().min(level + 1));
        assert!(written.len() == level + 1 || written.is_empty() && lower.is_empty());
        self.levels = written;
        self.levels.extend(lower);
        self.fences = core::mem::take(&mut writer.fences);
        self.head.clear();
        debug_assert_eq!(self.head.len(), 0, "a record is in the head and in a run");
        Ok(())
    }

    /// Shows the writer all entries of the head and of the runs down to `level` that remain after a merge.
    fn merge_entries(
        &self,
        shadow: &mut Shadow<'_>,
        level: usize,
        writer: &mut Writer,
    ) -> Result<(), IndexError> {
        let (key_bytes, has_lower) = (self.plan.shape.key, level + 1 < self.levels.len());
        let mut runs = Vec::new();
        for (i, run) in self.levels.iter().enumerate().take(level + 1) {
            let mut cursor = Cursor::first(shadow, self.plan.shape, run)?;
            cursor.skip_fences(shadow, has_lower && i == level)?;
            runs.push(cursor);
        }
        let mut records = self.head.ascending();
        let mut head = records.next();
        loop {
            let all = core::iter::once(head).chain(runs.iter().map(Cursor::peek));
            // The first of equal ones is the newest.
            let Some(next) = all.flatten().min_by_key(|entry| place(entry, key_bytes)) else { return Ok(()) };
            if has_lower || next[0] != REMOVE {
                writer.put(shadow, level, next)?;
            }
            let next = next.to_vec();
            let next = place(&next, key_bytes);
            if head.is_some_and(|record| place(record, key_bytes) == next) {
                head = records.next();
            }
            for (i, run) in runs.iter_mut().enumerate() {
                if run.peek().is_some_and(|entry| place(entry, key_bytes) == next) {
                    run.advance(shadow)?;
                    run.skip_fences(shadow, has_lower && i == level)?;
                }
            }
        }
    }

    /// Gives up the pages of a run. The fences of the run above tell which pages these are; for the first run
    /// it is the fences of the head.
    fn release_run(&self, shadow: &mut Shadow<'_>, level: usize) -> Result<(), IndexError> {
        if level == 0 {
            for fence in self.fences.chunks(self.plan.shape.key + 4) {
                shadow.units.release(get_u32(fence, self.plan.shape.key));
            }
            return Ok(());
        }
        let mut above = Cursor::first(shadow, self.plan.shape, &self.levels[level - 1])?;
        above.skip_to_external(shadow)?;
        while let Some(fence) = above.peek() {
            let unit = get_u32(fence, 1 + self.plan.shape.key);
            shadow.units.release(unit);
            above.advance(shadow)?;
            above.skip_to_external(shadow)?;
        }
        Ok(())
    }

    /// Claims the pages of all runs at a mount, and builds the fences of the head.
    pub(super) fn claim(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        let (key_bytes, levels) = (self.plan.shape.key, self.levels.len());
        let first = self.levels.first().map_or(0, |run| run.pages).min(shadow.units.count());
        self.fences.reserve_exact(first as usize * (key_bytes + 4));
        for level in 0..levels {
            let run = self.levels[level];
            let mut page = self.page();
            let mut below = 0;
            let (mut unit, mut pages) = (run.first, 0);
            // The last run is known from the fences above it.
            while unit != NONE && (level == 0 || level + 1 < levels) {
                pages += 1;
                if pages > run.pages {
                    return Err(corrupted(
                        Invariant::F2,
                        "a run is longer than it should be",
                        shadow.lpn(0, 0),
                    ));
                }
                page.read(shadow, unit, Cause::Recovery)?;
                if level == 0 {
                    shadow.units.claim(unit)?;
                    let first = if pages == 1 {
                        &vec![0; key_bytes][..]
                    } else {
                        &page.entries().key(0).to_vec()[..]
                    };
                    self.fences.extend_from_slice(first);
                    self.fences.extend_from_slice(&unit.to_le_bytes());
                }
                let entries = page.entries();
                for i in (0..page.count).filter(|&i| level + 1 < levels && entries.kind(i) == EXTERNAL) {
                    shadow.units.claim(get_u32(entries.value(i), 0))?;
                    below += 1;
                }
                unit = page.neighbour(Direction::Ascending);
            }
            let wrong = (pages != run.pages && (level == 0 || level + 1 < levels))
                || level + 1 < levels && below != self.levels[level + 1].pages;
            if wrong {
                return Err(corrupted(
                    Invariant::F2,
                    "a run has another number of pages than its level says",
                    shadow.lpn(0, 0),
                ));
            }
        }
        Ok(())
    }

    /// Visits the records of the head and of all runs.
    pub(super) fn walk(
        &self,
        shadow: &mut Shadow<'_>,
        Tour { bounds, direction, visit }: Tour<'_, '_>,
    ) -> Result<(), IndexError> {
        let (key_bytes, value_bytes) = (self.plan.shape.key, self.value_bytes);
        let mut runs = self.cursors(shadow, bounds, direction)?;
        let mut head = self.head_from(bounds, direction);
        let end = if direction == Direction::Ascending { Ordering::Greater } else { Ordering::Less };
        loop {
            let all = core::iter::once(head).chain(runs.iter().map(Cursor::peek)).flatten();
            let next = all.reduce(|best, entry| {
                let order = entry[1..=key_bytes].cmp(&best[1..=key_bytes]);
                let order = if direction == Direction::Ascending { order } else { order.reverse() };
                if order == Ordering::Less { entry } else { best }
            });
            let Some(next) = next.filter(|entry| within(&entry[1..=key_bytes], bounds) != end) else {
                return Ok(());
            };
            let (key, value) = next[1..].split_at(key_bytes);
            if next[0] == PUT && visit(key, &value[..value_bytes]).is_break() {
                return Ok(());
            }
            let key = key.to_vec();
            if head.is_some_and(|record| record[1..=key_bytes] == key) {
                head = self.head.from(&key, true, direction);
            }
            for run in &mut runs {
                if run.peek().is_some_and(|entry| entry[1..=key_bytes] == key) {
                    run.advance(shadow)?;
                    run.skip_fences(shadow, false)?;
                }
            }
        }
    }

    /// Builds the last run from sorted records.
    pub(super) fn build(
        &mut self,
        shadow: &mut Shadow<'_>,
        records: &mut Ascending<'_, '_>,
    ) -> Result<(), IndexError> {
        // As many levels as there can be; those that would have few fences go again.
        let levels = self.plan.levels;
        let first = self.plan.first_pages(shadow.units.count());
        let mut writer = Writer::new((self.plan.shape, self.plan.page_bytes), levels, false, first);
        let mut run = Run::new(self.plan.shape);
        let mut count = 0u64;
        let written = shadow.attempt(|shadow| {
            while records.next_into(&mut run)? {
                writer.put(shadow, levels - 1, &run.bytes)?;
                run.bytes.clear();
                count += 1;
            }
            let mut written = writer.finish(shadow)?;
            while written.len() > 1 && u64::from(written[1].pages) <= self.plan.level_pages(0) {
                let top = written.remove(0);
                self.lift_fences(shadow, &top, &mut writer.fences)?;
            }
            if self.fits(shadow, count) { Ok(written) } else { Err(IndexError::NO_BLOCK) }
        })?;
        (self.levels, self.fences) = (written, writer.fences);
        (self.puts, self.is_merged) = (count, true);
        Ok(())
    }

    /// Frees a run that has only fences. Its fences become those of the head.
    fn lift_fences(
        &self,
        shadow: &mut Shadow<'_>,
        run: &Level,
        fences: &mut Vec<u8>,
    ) -> Result<(), IndexError> {
        let key_bytes = self.plan.shape.key;
        for fence in fences.chunks(key_bytes + 4) {
            shadow.units.release(get_u32(fence, key_bytes));
        }
        fences.clear();
        let mut cursor = Cursor::first(shadow, self.plan.shape, run)?;
        cursor.skip_to_external(shadow)?;
        while let Some(fence) = cursor.peek() {
            fences.extend_from_slice(&fence[1..1 + key_bytes + 4]);
            cursor.advance(shadow)?;
            cursor.skip_to_external(shadow)?;
        }
        Ok(())
    }

    /// Checks F1 to F3 of every run. Returns the number of pages.
    pub(super) fn check_runs(
        &self,
        shadow: &mut Shadow<'_>,
        report: &mut CheckReport,
    ) -> Result<u32, IndexError> {
        let width = self.plan.shape.key + 4;
        let mut announced: Vec<Vec<u8>> = self.fences.chunks(width).map(<[u8]>::to_vec).collect();
        let mut all = 0;
        for level in 0..self.levels.len() {
            announced = self.check_run(shadow, report, level, &announced)?;
            all += self.levels[level].pages;
        }
        let whole = self.whole_pages(self.records(), self.plan.head_entries.into());
        if whole > u64::from(shadow.units.free_after_commit()) {
            report.violation(Invariant::F4, 0, message!("{whole} pages are wanted to merge everything"));
        }
        Ok(all)
    }

    /// Checks a run against the fences that announce its pages. Returns the fences in the run.
    fn check_run(
        &self,
        shadow: &mut Shadow<'_>,
        report: &mut CheckReport,
        level: usize,
        announced: &[Vec<u8>],
    ) -> Result<Vec<Vec<u8>>, IndexError> {
        let (run, key_bytes, is_last) =
            (self.levels[level], self.plan.shape.key, level + 1 == self.levels.len());
        let (mut page, mut before, mut last) = (self.page(), NONE, Vec::<u8>::new());
        let (mut fences, mut records, mut target) = (Vec::new(), 0, NONE);
        let mut wrong =
            |invariant, unit: u32, what: &str| report.violation(invariant, unit.into(), what.to_string());
        for (i, fence) in announced.iter().enumerate() {
            let unit = get_u32(fence, key_bytes);
            page.read(shadow, unit, Cause::Check)?;
            let entries = page.entries();
            let next = announced.get(i + 1).map_or(NONE, |fence| get_u32(fence, key_bytes));
            if page.neighbour(Direction::Descending) != before || page.neighbour(Direction::Ascending) != next
            {
                wrong(Invariant::F2, unit, "a page has other neighbours than the fences say");
            }
            if i > 0 && entries.key(0) != &fence[..key_bytes] {
                wrong(Invariant::F3, unit, "the fence of a page has another key");
            }
            if !is_last && entries.kind(0) < EXTERNAL {
                wrong(Invariant::F3, unit, "a page begins with no fence");
            }
            for at in 0..page.count {
                let entry = entries.at(at);
                let (kind, key, is_record) = (entry[0], &entry[1..=key_bytes], entry[0] < EXTERNAL);
                let is_repeated = kind == INTERNAL && get_u32(entries.value(at), 0) == target;
                if is_last && kind != PUT || kind == INTERNAL && !(is_repeated && at == 0) {
                    wrong(Invariant::F1, unit, "an entry that does not belong there");
                }
                if kind == EXTERNAL {
                    target = get_u32(entries.value(at), 0);
                    fences.push([key, &target.to_le_bytes()].concat());
                }
                // A page may end with the external fence of the key that the next one begins with.
                let ascends = |last: &[u8]| match place(last, key_bytes).cmp(&place(entry, key_bytes)) {
                    Ordering::Equal => kind == INTERNAL,
                    order => order == Ordering::Less,
                };
                if !last.is_empty() && !ascends(&last) {
                    wrong(Invariant::F1, unit, "entries do not ascend");
                }
                records += u64::from(is_record);
                last = entry.to_vec();
            }
            before = unit;
        }
        if (announced.len() as u32, records, before) != (run.pages, run.records, run.last) {
            wrong(Invariant::F2, run.first, "pages or records are not as many as the level says");
        }
        Ok(fences)
    }

    fn head_from(&self, (low, high): Bounds<'_>, direction: Direction) -> Option<&[u8]> {
        let (bound, end) = if direction == Direction::Ascending { (low, 0) } else { (high, 0xFF) };
        match bound {
            Bound::Included(key) => self.head.from(key, false, direction),
            Bound::Excluded(key) => self.head.from(key, true, direction),
            Bound::Unbounded => self.head.from(&vec![end; self.plan.shape.key], false, direction),
        }
    }
}

impl Cursor {
    fn skip_to_external(&mut self, shadow: &mut Shadow<'_>) -> Result<(), IndexError> {
        while self.peek().is_some_and(|entry| entry[0] != EXTERNAL) {
            self.advance(shadow)?;
        }
        Ok(())
    }
}
