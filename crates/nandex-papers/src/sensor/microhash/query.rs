//! Readings found again, by time and by value, and the walk of the checker.

use super::layout::Ring;
use super::page::{self, Header, Kind, NONE, Position, bounds, entries_of, entry};
use super::{MicroHash, TimeSearch};
use crate::sensor::{Reading, Show};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{ControlFlow, RangeInclusive};
use nandex::check::{CheckReport, IndexError, Invariant, message};
use nandex::nand::{Cause, Nand};
use nandex::sort;
use nandex::units::Pbn;

/// The range of pages in which a search for a time continues, and the times known at its ends.
struct Span {
    low: u64,
    high: u64,
    low_time: u64,
    high_time: u64,
    /// Readings between the two bounds when the search began. `time` is the time that they span.
    readings: u64,
    time: u64,
}

impl<N: Nand> Ring<N> {
    /// The first page of the log that ends with a reading of this time or later; `None` if all readings are
    /// earlier.
    fn seek(&mut self, (time, search): (u64, TimeSearch), cause: Cause) -> Result<Option<u64>, IndexError> {
        if self.stored == 0 || time > self.stored_time {
            return Ok(None);
        }
        let first = self.read_page(self.first_page(), cause)?;
        if first.time >= time && first.readings > 0 {
            return Ok(Some(first.number));
        }
        let mut span = Span {
            low: first.number,
            high: self.last,
            low_time: first.time,
            high_time: self.stored_time,
            readings: (self.stored - first.readings).max(1),
            time: self.stored_time - first.time,
        };
        let mut tries = 0;
        while span.high - span.low > 1 {
            let guess = self.guess(&span, (time, search), tries);
            tries += 1;
            let number = self.at_or_before(guess);
            if number <= span.low {
                // The pages up to the next block are not there.
                span.low = guess;
                continue;
            }
            let header = self.read_page(number, cause)?;
            if header.time < time {
                (span.low, span.low_time) = (guess, header.time);
                continue;
            }
            (span.high, span.high_time) = (number, header.time);
            if header.kind == Kind::Data && page::reading(&self.read, 0).time < time {
                break;
            }
        }
        Ok(Some(span.high))
    }

    /// The page to look at next, between the bounds of the span.
    fn guess(&self, span: &Span, (time, search): (u64, TimeSearch), tries: u32) -> u64 {
        let (low, high) = (span.low + 1, span.high - 1);
        let after = time.saturating_sub(span.low_time);
        // Uneven readings must not lead to a search page by page.
        let search = if tries % 3 == 2 { TimeSearch::Binary } else { search };
        let steps = match search {
            TimeSearch::Binary => return u64::midpoint(low, high),
            TimeSearch::LowerBound => {
                let readings = u128::from(after) * u128::from(span.readings) / u128::from(span.time.max(1));
                readings / page::readings_of(self.geometry.page_bytes as usize) as u128
            }
            TimeSearch::Scale => {
                let (pages, times) = (span.high - span.low, span.high_time.saturating_sub(span.low_time));
                u128::from(after) * u128::from(pages) / u128::from(times.max(1))
            }
        };
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        span.low.saturating_add(steps).clamp(low, high)
    }

    /// The last reading in a data page.
    pub(super) fn last_reading(&mut self) -> Result<Option<Reading>, IndexError> {
        let (mut at, first) = (self.last, self.first_page());
        loop {
            let header = self.read_page(at, Cause::Host)?;
            if header.kind == Kind::Data && header.count > 0 {
                return Ok(Some(page::reading(&self.read, usize::from(header.count) - 1)));
            }
            if at == first {
                return Ok(None);
            }
            at = self.at_or_before(at - 1);
        }
    }

    fn reading_at(&mut self, position: Position, cause: Cause) -> Result<Reading, IndexError> {
        let header = self.read_page(position.0, cause)?;
        if header.kind != Kind::Data || position.1 >= header.count {
            return Err(IndexError::broken(Invariant::M4, "an entry names no reading", position.0));
        }
        Ok(page::reading(&self.read, position.1.into()))
    }

    /// Adds pages that still exist to the agenda, which stays sorted. A page at `below` or after it is an
    /// error.
    fn note(&self, agenda: &mut Vec<u64>, pages: [u64; 2], below: u64) -> Result<(), IndexError> {
        for page in pages.into_iter().filter(|&page| page != NONE && page >= self.first_page()) {
            if page >= below {
                return Err(IndexError::broken(Invariant::M5, "an index page names a newer one", below));
            }
            if let Err(at) = agenda.binary_search(&page) {
                agenda.insert(at, page);
            }
        }
        Ok(())
    }
}

impl<N: Nand> MicroHash<N> {
    pub(super) fn show_times(
        &mut self,
        times: RangeInclusive<u64>,
        show: Show<'_>,
    ) -> Result<(), IndexError> {
        if times.is_empty() {
            return Ok(());
        }
        let start = self.ring.seek((*times.start(), self.index.settings.time_search), Cause::Host)?;
        let mut next = start.map_or(self.ring.last + 1, |start| self.ring.data_from(start));
        while next <= self.ring.last {
            let header = self.ring.read_page(next, Cause::Host)?;
            if header.kind == Kind::Data {
                for i in 0..usize::from(header.count) {
                    let reading = page::reading(&self.ring.read, i);
                    let over = reading.time > *times.end();
                    if over || (times.contains(&reading.time) && show(reading).is_break()) {
                        return Ok(());
                    }
                }
            }
            next = self.ring.data_from(next + 1);
        }
        for i in 0..self.filling.count {
            let reading = self.filling.reading(i);
            if times.contains(&reading.time) && show(reading).is_break() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn first_reading(&mut self) -> Result<Option<Reading>, IndexError> {
        let mut next = self.ring.data_from(self.ring.first_page());
        while next <= self.ring.last && self.ring.stored > 0 {
            let header = self.ring.read_page(next, Cause::Host)?;
            if header.kind == Kind::Data && header.count > 0 {
                return Ok(Some(page::reading(&self.ring.read, 0)));
            }
            next = self.ring.data_from(next + 1);
        }
        Ok((self.filling.count > 0).then(|| self.filling.reading(0)))
    }

    pub(super) fn show_values(
        &mut self,
        values: (i32, i32),
        cause: Cause,
        show: Show<'_>,
    ) -> Result<(), IndexError> {
        if values.0 > values.1 {
            return Ok(());
        }
        let is_wanted = |reading: &Reading| (values.0..=values.1).contains(&reading.value);
        for i in (0..self.filling.count).rev() {
            let reading = self.filling.reading(i);
            if is_wanted(&reading) && show(reading).is_break() {
                return Ok(());
            }
        }
        for i in (0..self.index.pending.len()).rev() {
            let waiting = self.index.pending[i];
            if (values.0..=values.1).contains(&waiting.value) {
                let reading = self.ring.reading_at((waiting.page, waiting.place), cause)?;
                if show(reading).is_break() {
                    return Ok(());
                }
            }
        }
        if self.show_chains(values, cause, show)?.is_break() {
            return Ok(());
        }
        // What the index was lost for.
        let mut next = self.ring.data_from(self.ring.first_page());
        while next < self.index.directory.indexed_from.min(self.ring.last + 1) {
            let header = self.ring.read_page(next, cause)?;
            for i in (0..usize::from(header.count)).filter(|_| header.kind == Kind::Data) {
                let reading = page::reading(&self.ring.read, i);
                if is_wanted(&reading) && show(reading).is_break() {
                    return Ok(());
                }
            }
            next = self.ring.data_from(next + 1);
        }
        Ok(())
    }

    /// Walks over the index pages of all buckets concerned, the newest page first. The walk is shared, so
    /// that an index page in several chains is read once.
    fn show_chains(
        &mut self,
        values: (i32, i32),
        cause: Cause,
        show: Show<'_>,
    ) -> Result<ControlFlow<()>, IndexError> {
        let buckets = self.index.directory.bucket_of(values.0)..=self.index.directory.bucket_of(values.1);
        // Pages of one age that are named by newer ones were the newest of a bucket once: no more than twice
        // the buckets.
        let mut agenda: Vec<u64> = Vec::with_capacity(2 * self.index.directory.buckets.len() + 2);
        for bucket in buckets {
            let heads = self.index.directory.buckets[bucket].heads;
            self.ring.note(&mut agenda, heads, self.ring.last + 1)?;
        }
        while let Some(number) = agenda.pop() {
            let mut page = core::mem::take(&mut self.index.chain);
            let shown = self.show_index_page(number, &mut page, (values, cause), show);
            self.index.chain = page;
            let (header, flow) = shown?;
            if flow.is_break() {
                return Ok(flow);
            }
            self.ring.note(&mut agenda, header.links, number)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Shows the readings that an index page lists, if their value is in range, the newest first.
    fn show_index_page(
        &mut self,
        number: u64,
        page: &mut [u8],
        (values, cause): ((i32, i32), Cause),
        show: Show<'_>,
    ) -> Result<(Header, ControlFlow<()>), IndexError> {
        let header = self.ring.read_into(number, cause, page)?;
        if header.kind != Kind::Index || usize::from(header.count) > entries_of(page.len()) {
            return Err(IndexError::broken(Invariant::M5, "this is no index page", number));
        }
        let (low, high) = bounds(page);
        let concerned = low <= values.1 && values.0 <= high;
        for i in (0..usize::from(header.count)).rev().filter(|_| concerned) {
            let position = entry(page, i);
            if position.0 < self.ring.first_page() {
                break;
            }
            let reading = self.ring.reading_at(position, cause)?;
            let is_wanted = (values.0..=values.1).contains(&reading.value);
            if is_wanted && (low..=high).contains(&reading.value) && show(reading).is_break() {
                return Ok((header, ControlFlow::Break(())));
            }
        }
        Ok((header, ControlFlow::Continue(())))
    }

    /// Checks every page, then every entry.
    pub(super) fn check_all(&mut self) -> Result<CheckReport, IndexError> {
        let mut report = CheckReport::default();
        let mut before = None;
        let mut readings = None;
        let mut next = self.ring.first_page();
        while next <= self.ring.last {
            let header = self.ring.read_page(next, Cause::Check)?;
            if readings.is_some_and(|readings| readings != header.readings) {
                let found = message!("{} readings precede it, not {readings:?}", header.readings);
                report.violation(Invariant::M1, next, found);
            }
            let count = if header.kind == Kind::Data { header.count } else { 0 };
            readings = Some(header.readings + u64::from(count));
            for i in 0..usize::from(count) {
                let time = page::reading(&self.ring.read, i).time;
                if before.is_some_and(|before| time < before) {
                    report.violation(Invariant::M1, next, message!("the time of reading {i} is earlier"));
                }
                before = Some(time);
            }
            report.nodes += 1;
            report.records += u64::from(count);
            next = self.ring.at_or_after(next + 1);
        }
        report.records += self.filling.count as u64;
        if readings != Some(self.ring.stored) {
            let found = message!("{} readings are stored, not {readings:?}", self.ring.stored);
            report.violation(Invariant::M1, self.ring.last, found);
        }
        self.check_tables(&mut report);
        if report.is_sound() {
            self.check_times(&mut report)?;
            self.check_values(&mut report)?;
        }
        Ok(report)
    }

    /// Checks that a search for the first time of each page ends no later than at that page.
    fn check_times(&mut self, report: &mut CheckReport) -> Result<(), IndexError> {
        let (mut next, mut before) = (self.ring.data_from(self.ring.first_page()), None);
        while next <= self.ring.last {
            let header = self.ring.read_page(next, Cause::Check)?;
            if header.kind == Kind::Data && header.count > 0 {
                let times =
                    [0, usize::from(header.count) - 1].map(|i| page::reading(&self.ring.read, i).time);
                for time in times.into_iter().filter(|time| before != Some(*time)) {
                    let found = self.ring.seek((time, self.index.settings.time_search), Cause::Check)?;
                    if found.is_none_or(|found| found > next) {
                        let found = message!("a search for time {time} ends at {found:?}");
                        report.violation(Invariant::M1, next, found);
                    }
                }
                before = Some(times[1]);
            }
            next = self.ring.data_from(next + 1);
        }
        Ok(())
    }

    /// Checks for each bucket that a query by value finds as many readings as the data pages hold.
    fn check_values(&mut self, report: &mut CheckReport) -> Result<(), IndexError> {
        let lows: Vec<i32> = self.index.directory.buckets.iter().map(|bucket| bucket.low).collect();
        let mut met = vec![0u64; lows.len()];
        let mut meet = |page: &[u8], count: usize| {
            (0..count).for_each(|i| {
                let value = page::reading(page, i).value;
                met[lows.partition_point(|low| *low <= value) - 1] += 1;
            });
        };
        meet(&self.filling.page, self.filling.count);
        let mut next = self.ring.data_from(self.ring.first_page());
        while next <= self.ring.last {
            let header = self.ring.read_page(next, Cause::Check)?;
            meet(&self.ring.read, if header.kind == Kind::Data { header.count.into() } else { 0 });
            next = self.ring.data_from(next + 1);
        }
        for (bucket, met) in met.into_iter().enumerate() {
            let (low, high) = (lows[bucket], lows.get(bucket + 1).map_or(i32::MAX, |next| next - 1));
            let mut found = 0u64;
            self.show_values((low, high), Cause::Check, &mut |_| {
                found += 1;
                ControlFlow::Continue(())
            })?;
            if found != met {
                let what = message!("{found} of {met} readings of the values {low} to {high}");
                report.violation(Invariant::M4, self.ring.last, what);
            }
        }
        Ok(())
    }

    fn check_tables(&self, report: &mut CheckReport) {
        let aside = self.ring.aside.map(|place| place.0);
        let kept = self.ring.kept.iter().filter_map(|segment| segment.block);
        let mut blocks: Vec<Pbn> =
            kept.chain(aside).chain(self.ring.free.iter().map(|free| free.block)).collect();
        sort::total(&mut blocks);
        if let Some(twice) = blocks.windows(2).find(|pair| pair[0] == pair[1]) {
            report.violation(Invariant::M3, u64::from(twice[0].0), message!("{} serves twice", twice[0]));
        }
        let buckets = &self.index.directory.buckets;
        if buckets.first().is_none_or(|first| first.low != i32::MIN)
            || !buckets.is_sorted_by(|a, b| a.low < b.low)
        {
            report.violation(Invariant::M5, self.ring.last, message!("buckets do not ascend: {buckets:?}"));
        }
    }
}
