//! The index of MicroHash: the directory, the list in RAM of readings without an entry on flash, and the
//! pages to which both are written.

use super::directory::Directory;
use super::layout::Ring;
use super::page::{Header, Kind, NONE, entries_of, put_bounds, put_entry};
use super::{Eviction, MicroHashConfig, Pending};
use alloc::vec::Vec;
use nandex::check::IndexError;
use nandex::nand::Nand;

/// The index by value: the directory, and the readings not yet in an index page.
pub(super) struct Index {
    pub(super) settings: MicroHashConfig,
    pub(super) directory: Directory,
    /// Readings without an entry on flash, in the order of the log.
    pub(super) pending: Vec<Pending>,
    /// The page number from which on the next repartition is due.
    pub(super) repartition_at: u64,
    /// Buffer for the index page being read or written.
    pub(super) chain: Vec<u8>,
}

impl Index {
    pub(super) fn new(settings: MicroHashConfig, chain: Vec<u8>, repartition_at: u64) -> Index {
        let directory = Directory::equal_width(settings.buckets, settings.values, 0);
        let pending = Vec::with_capacity(settings.entries);
        Index { settings, directory, pending, repartition_at, chain }
    }

    /// Adds a stored reading to the list of those without an entry.
    pub(super) fn add(&mut self, pending: Pending) {
        let bucket = self.directory.bucket_of(pending.value);
        let added = &mut self.directory.buckets[bucket].added;
        *added = added.saturating_add(1);
        self.pending.push(pending);
    }

    /// Forgets the readings in pages before `first`, which are gone.
    pub(super) fn forget_before(&mut self, first: u64) {
        self.pending.retain(|pending| pending.page >= first);
    }

    /// The bucket whose entries leave RAM next.
    pub(super) fn next_to_leave(&self) -> usize {
        let oldest = self.pending.first().map_or(0, |pending| self.directory.bucket_of(pending.value));
        if self.settings.eviction == Eviction::Oldest {
            return oldest;
        }
        // Without a table of counts: buckets are few, and an index page is seldom.
        let listed = |bucket: usize| {
            let (low, high) = self.directory.bounds(bucket);
            self.pending.iter().filter(|pending| (low..=high).contains(&pending.value)).count()
        };
        (0..self.directory.buckets.len()).max_by_key(|&bucket| listed(bucket)).unwrap_or(oldest)
    }

    /// Writes an index page of the oldest entries of a bucket. A bucket without entries writes nothing.
    pub(super) fn write<N: Nand>(&mut self, ring: &mut Ring<N>, bucket: usize) -> Result<(), IndexError> {
        let (low, high) = self.directory.bounds(bucket);
        let mut page = core::mem::take(&mut self.chain);
        page.fill(0xff);
        put_bounds(&mut page, (low, high));
        let (mut count, mut cover, room) = (0, (0, 0), entries_of(page.len()));
        for pending in self.pending.iter().filter(|p| (low..=high).contains(&p.value)).take(room) {
            cover = (pending.page, pending.place);
            put_entry(&mut page, count, cover);
            count += 1;
        }
        let links = self.directory.buckets[bucket].heads;
        let header = Header { count: count as u16, links, ..ring.header(Kind::Index) };
        let written = if count == 0 { Ok(NONE) } else { ring.program_log(self, header, &mut page) };
        self.chain = page;
        let number = written?;
        if count > 0 {
            let bucket = &mut self.directory.buckets[bucket];
            (bucket.heads, bucket.cover) = ([number, NONE], cover);
            self.pending.retain(|p| !(low..=high).contains(&p.value) || (p.page, p.place) > cover);
            ring.counters.index_pages += 1;
            ring.counters.index_entries += count as u64;
        }
        Ok(())
    }

    /// Writes the entries that have waited longer than the horizon, and repartitions if that is due.
    pub(super) fn tend<N: Nand>(&mut self, ring: &mut Ring<N>) -> Result<(), IndexError> {
        while let Some(&first) = self.pending.first()
            && first.page + u64::from(self.settings.horizon) <= ring.last
        {
            self.write(ring, self.directory.bucket_of(first.value))?;
        }
        if ring.last >= self.repartition_at {
            self.repartition_at = ring.last + u64::from(ring.geometry.pages_per_block);
            self.repartition(ring)?;
        }
        Ok(())
    }

    /// Splits the bucket with most readings at their mean, and merges the two neighbours with fewest. Old
    /// readings count less.
    fn repartition<N: Nand>(&mut self, ring: &mut Ring<N>) -> Result<(), IndexError> {
        let Some((mut hot, cut)) = self.directory.hottest().and_then(|hot| Some((hot, self.cut(hot)?)))
        else {
            self.directory.age();
            return Ok(());
        };
        let heads = |bucket: usize| {
            let (low, high) = self.directory.bounds(bucket);
            let waits = self.pending.iter().any(|pending| (low..=high).contains(&pending.value));
            if waits { 1 } else { self.directory.buckets[bucket].heads() }
        };
        if let Some(cold) = self.directory.coldest_pair(hot, heads) {
            for bucket in [cold, cold + 1] {
                let (low, high) = self.directory.bounds(bucket);
                while self.pending.iter().any(|pending| (low..=high).contains(&pending.value)) {
                    self.write(ring, bucket)?;
                }
            }
            self.directory.merge(cold, (ring.last, u16::MAX));
            hot -= usize::from(cold < hot);
            self.directory.split(hot, cut);
            ring.counters.repartitions += 1;
            self.write_directory(ring)?;
        }
        self.directory.age();
        Ok(())
    }

    /// The least value of the upper half of a bucket about to be split. `None` if the bucket has one value
    /// only.
    fn cut(&self, bucket: usize) -> Option<i32> {
        let (low, high) = self.directory.bounds(bucket);
        let of_bucket = self.pending.iter().filter(|pending| (low..=high).contains(&pending.value));
        let (sum, count) = of_bucket.fold((0, 0), |(sum, count), p| (sum + i64::from(p.value), count + 1));
        let middle = if count == 0 { i64::midpoint(low.into(), high.into()) } else { sum / count };
        (low < high).then(|| (middle as i32).clamp(low + 1, high))
    }

    pub(super) fn write_directory<N: Nand>(&mut self, ring: &mut Ring<N>) -> Result<(), IndexError> {
        let mut page = core::mem::take(&mut self.chain);
        let header = self.fill_directory(ring, ring.last + 1, &mut page);
        let written = ring.program_log(self, header, &mut page);
        self.chain = page;
        ring.counters.directory_pages += 1;
        written.map(|_| ())
    }

    /// Fills a page with the buckets. Returns the header that the page needs.
    pub(super) fn fill_directory<N: Nand>(&self, ring: &Ring<N>, number: u64, page: &mut [u8]) -> Header {
        page.fill(0xff);
        self.directory.encode(page);
        let floor = self.pending.first().map_or(ring.last + 1, |first| first.page);
        // A directory at the beginning of a block tells of the block before; any other, of its own block so
        // far.
        let newest = ring.kept.back();
        Header {
            number,
            count: self.directory.buckets.len() as u16,
            previous: newest.map_or(0, |newest| newest.pages),
            previous_failed: newest.is_some_and(|newest| newest.failed),
            links: [floor, self.directory.indexed_from],
            ..ring.header(Kind::Directory)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn the_bucket_that_leaves_is_the_fullest_or_the_oldest_one() {
        let settings =
            MicroHashConfig { values: (0, 99), buckets: 10, entries: 8, ..MicroHashConfig::default() };
        let mut index = Index::new(settings, vec![0xff; 128], 0);
        for (page, value) in [(5, 31), (6, 72), (7, 70)] {
            index.add(Pending { page, value, place: 0 });
        }
        assert_eq!((index.next_to_leave(), index.directory.buckets[7].added), (7, 2));
        index.settings.eviction = Eviction::Oldest;
        assert_eq!(index.next_to_leave(), 3);
        index.forget_before(6);
        assert_eq!((index.next_to_leave(), index.pending.len()), (7, 2));
    }
}
