//! The directory of MicroHash: which bucket a value belongs to, and where the bucket's newest index pages
//! are.

use super::page::{BUCKET_BYTES, HEADER_BYTES, NONE, Position, get_i32, put_i32};
use alloc::vec::Vec;
use nandex::codec::{get_u16, get_u32, get_u40, put_u16, put_u32, put_u40};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    /// The least value. The bucket ends before the least value of the next bucket.
    pub(super) low: i32,
    /// The newest index pages. A bucket made by merging two has two of them until it writes one of its own.
    pub(super) heads: [u64; 2],
    /// The last reading of the range that has an entry on flash. All readings before it have entries too.
    pub(super) cover: Position,
    /// Readings added. The count is halved at each repartition, so that old readings count less.
    pub(super) added: u32,
}

impl Bucket {
    pub(super) fn heads(&self) -> usize {
        self.heads.iter().filter(|&&head| head != NONE).count()
    }
}

/// All buckets, in the order of their values. The first begins at the least value of `i32`.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub(super) buckets: Vec<Bucket>,
    /// The first data page in the index. Earlier pages are not in it, because their directory was lost.
    pub(super) indexed_from: u64,
}

impl Directory {
    /// Makes buckets of equal width over the expected values. The first and the last also take all values
    /// beyond.
    pub(super) fn equal_width(count: usize, values: (i32, i32), indexed_from: u64) -> Directory {
        let (low, width) = (i64::from(values.0), i64::from(values.1) - i64::from(values.0) + 1);
        let mut buckets: Vec<Bucket> = Vec::with_capacity(count);
        for i in 0..count as i64 {
            let start = if i == 0 { i32::MIN } else { (low + width * i / count as i64) as i32 };
            buckets.push(Bucket { low: start, heads: [NONE; 2], cover: (0, 0), added: 0 });
        }
        Directory { buckets, indexed_from }
    }

    pub(super) fn bucket_of(&self, value: i32) -> usize {
        self.buckets.partition_point(|bucket| bucket.low <= value).saturating_sub(1)
    }

    /// The least and the largest value of a bucket.
    pub(super) fn bounds(&self, bucket: usize) -> (i32, i32) {
        let high = self.buckets.get(bucket + 1).map_or(i32::MAX, |next| next.low - 1);
        (self.buckets[bucket].low, high)
    }

    /// The bucket to split: the one with most readings, if it has more than twice its share. Old readings
    /// count less (see [`Bucket::added`]).
    pub(super) fn hottest(&self) -> Option<usize> {
        let total: u64 = self.buckets.iter().map(|bucket| u64::from(bucket.added)).sum();
        let (at, hottest) = self.buckets.iter().enumerate().max_by_key(|(_, bucket)| bucket.added)?;
        (u64::from(hottest.added) * self.buckets.len() as u64 > 2 * total).then_some(at)
    }

    /// The first of the two neighbours to merge: those with the fewest readings, old ones counting less.
    /// Together they must have at most two newest index pages. `heads` tells how many pages a bucket will
    /// have; the bucket `not` is left out.
    pub(super) fn coldest_pair(&self, not: usize, heads: impl Fn(usize) -> usize) -> Option<usize> {
        let pairs = (0..self.buckets.len().saturating_sub(1)).filter(|&i| i != not && i + 1 != not);
        let added = |i: usize| u64::from(self.buckets[i].added) + u64::from(self.buckets[i + 1].added);
        let coldest = pairs.filter(|&i| heads(i) + heads(i + 1) <= 2).min_by_key(|&i| added(i))?;
        (added(coldest) < u64::from(self.buckets[not].added)).then_some(coldest)
    }

    /// Merges a bucket with the next one. All readings of both up to `cover` have entries on flash.
    pub(super) fn merge(&mut self, at: usize, cover: Position) {
        let gone = self.buckets.remove(at + 1);
        let into = &mut self.buckets[at];
        let mut heads = [NONE; 2];
        let mut filled = 0;
        for head in into.heads.into_iter().chain(gone.heads).filter(|&head| head != NONE) {
            if filled < 2 && !heads.contains(&head) {
                heads[filled] = head;
                filled += 1;
            }
        }
        into.heads = heads;
        into.cover = cover;
        into.added = into.added.saturating_add(gone.added);
    }

    /// Splits a bucket at `cut`. Both halves keep the index pages written before.
    pub(super) fn split(&mut self, at: usize, cut: i32) {
        debug_assert!(self.bounds(at).0 < cut && cut <= self.bounds(at).1, "M5: {cut} divides nothing");
        let half = self.buckets[at].added / 2;
        self.buckets[at].added = half;
        let upper = Bucket { low: cut, ..self.buckets[at] };
        self.buckets.insert(at + 1, upper);
    }

    pub(super) fn age(&mut self) {
        self.buckets.iter_mut().for_each(|bucket| bucket.added /= 2);
    }

    pub(super) fn encode(&self, page: &mut [u8]) {
        for (i, bucket) in self.buckets.iter().enumerate() {
            let at = HEADER_BYTES + i * BUCKET_BYTES;
            put_i32(page, at, bucket.low);
            put_u40(page, at + 4, bucket.heads[0]);
            put_u40(page, at + 9, bucket.heads[1]);
            put_u40(page, at + 14, bucket.cover.0);
            put_u16(page, at + 19, bucket.cover.1);
            put_u32(page, at + 21, bucket.added);
        }
    }

    /// Decodes the buckets of a page whose checksum is right. `None` if their values do not ascend.
    pub(super) fn decode(page: &[u8], count: usize, indexed_from: u64) -> Option<Directory> {
        let bucket = |i| {
            let at = HEADER_BYTES + i * BUCKET_BYTES;
            Bucket {
                low: get_i32(page, at),
                heads: [get_u40(page, at + 4), get_u40(page, at + 9)],
                cover: (get_u40(page, at + 14), get_u16(page, at + 19)),
                added: get_u32(page, at + 21),
            }
        };
        let buckets: Vec<Bucket> = (0..count).map(bucket).collect();
        let ascend = buckets.windows(2).all(|pair| pair[0].low < pair[1].low);
        let starts = buckets.first().is_some_and(|first| first.low == i32::MIN);
        (ascend && starts).then_some(Directory { buckets, indexed_from })
    }
}
