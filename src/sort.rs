//! Sorting. With the feature `std`, sorts that may be long are those of the standard library. All other
//! sorts, and all sorts of a firmware, share one routine.
//!
//! The sorts of the standard library are compiled for each type of element, 2 to 7 KiB of code each: more
//! than a whole index should have. The routine here accesses its elements by two calls, one to compare and
//! one to swap. It sorts in place, takes no memory and is stable. So both give the same order if elements
//! that compare as equal are equal. Stable sorts are used for the entries of a node or a list of blocks,
//! which are short.

use core::cmp::Ordering;
use core::ops::Range;

/// Bisects ascending places. Returns the place for which `order` says equal, or as the error the place where
/// it would be inserted.
#[inline]
pub fn search(places: Range<usize>, order: impl Fn(usize) -> Ordering) -> Result<usize, usize> {
    let (mut low, mut high) = (places.start, places.end);
    while low < high {
        let middle = usize::midpoint(low, high);
        match order(middle) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return Ok(middle),
        }
    }
    Err(low)
}

/// Sorts by the order of the elements.
pub fn total<T: Ord>(items: &mut [T]) {
    #[cfg(feature = "std")]
    items.sort_unstable();
    #[cfg(not(feature = "std"))]
    in_place(items, T::cmp);
}

/// Sorts by `order`. Either no two elements are equal, or the order of equal ones does not matter.
pub fn unstable_by<T>(items: &mut [T], order: impl FnMut(&T, &T) -> Ordering) {
    #[cfg(feature = "std")]
    items.sort_unstable_by(order);
    #[cfg(not(feature = "std"))]
    in_place(items, order);
}

/// Sorts by a key, as [`unstable_by`] does.
pub fn unstable_by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    unstable_by(items, |a, b| key(a).cmp(&key(b)));
}

/// Sorts a short slice by `order`. Equal elements keep their order.
pub fn by<T>(items: &mut [T], order: impl FnMut(&T, &T) -> Ordering) {
    in_place(items, order);
}

/// Sorts by a key, as [`by`] does.
pub fn by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    by(items, |a, b| key(a).cmp(&key(b)));
}

/// Hides the type of the elements from [`sort`], which is thus compiled once.
trait Row {
    /// Returns true if the element at `one` belongs before the element at `other`.
    fn precedes(&mut self, one: usize, other: usize) -> bool;

    fn swap(&mut self, one: usize, other: usize);
}

struct Items<'a, T, F> {
    items: &'a mut [T],
    order: F,
}

impl<T, F: FnMut(&T, &T) -> Ordering> Row for Items<'_, T, F> {
    fn precedes(&mut self, one: usize, other: usize) -> bool {
        (self.order)(&self.items[one], &self.items[other]) == Ordering::Less
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.items.swap(one, other);
    }
}

fn in_place<T>(items: &mut [T], order: impl FnMut(&T, &T) -> Ordering) {
    let count = items.len();
    sort(&mut Items { items, order }, count);
}

/// Length of the runs that are sorted by insertion before they are merged.
const RUN: usize = 16;

/// Sorts runs by insertion, and merges them in place. Takes O(n log n) comparisons and O(n log² n) swaps.
#[inline(never)]
fn sort(row: &mut dyn Row, count: usize) {
    for start in (0..count).step_by(RUN) {
        for from in start..count.min(start + RUN) {
            let mut at = from;
            while at > start && row.precedes(at, at - 1) {
                row.swap(at, at - 1);
                at -= 1;
            }
        }
    }
    let mut run = RUN;
    while run < count {
        let mut start = 0;
        while start + run < count {
            merge(row, start, start + run, count.min(start + 2 * run));
            start += 2 * run;
        }
        run *= 2;
    }
}

/// Merges the sorted ranges `low..middle` and `middle..high` by the symmetric merge of Kim and Kutzner. The
/// elements that belong to the other half of the whole are found by bisection and rotated there. Then each
/// half is merged.
#[inline(never)]
fn merge(row: &mut dyn Row, low: usize, middle: usize, high: usize) {
    if low >= middle || middle >= high {
        return;
    }
    if high - low == 2 {
        if row.precedes(middle, low) {
            row.swap(low, middle);
        }
        return;
    }
    let half = low + (high - low) / 2;
    let sum = half + middle;
    let (mut start, mut end) = if middle > half { (sum - high, half) } else { (low, middle) };
    while start < end {
        let at = start + (end - start) / 2;
        if row.precedes(sum - 1 - at, at) {
            end = at;
        } else {
            start = at + 1;
        }
    }
    let end = sum - start;
    if start < middle && middle < end {
        reverse(row, start, middle);
        reverse(row, middle, end);
        reverse(row, start, end);
    }
    merge(row, low, start, half);
    merge(row, half, end, high);
}

fn reverse(row: &mut dyn Row, mut low: usize, mut high: usize) {
    while low + 1 < high {
        high -= 1;
        row.swap(low, high);
        low += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::vec::Vec;

    #[test]
    fn elements_end_in_the_order_of_a_stable_sort() {
        let mut rng = Rng::new(20);
        for count in (0..200).chain([1000, 1023, 1024, 1025, 4321]) {
            // Few keys, so that many are equal, and many, so that few are.
            for keys in [1, 3, count as u64 / 4 + 1, 1 << 40] {
                let items: Vec<(u64, usize)> = (0..count).map(|place| (rng.below(keys), place)).collect();
                let (mut ours, mut theirs) = (items.clone(), items);
                in_place(&mut ours, |a, b| a.0.cmp(&b.0));
                theirs.sort_by_key(|item| item.0);
                assert_eq!(ours, theirs, "{count} items of {keys} keys");
            }
        }
    }

    #[test]
    fn sorted_and_reversed_rows_take_few_comparisons() {
        for reversed in [false, true] {
            let mut items: Vec<u32> = (0..10_000).collect();
            if reversed {
                items.reverse();
            }
            let mut compared = 0_u64;
            in_place(&mut items, |a, b| {
                compared += 1;
                a.cmp(b)
            });
            assert!(items.is_sorted());
            assert!(compared < 10_000 * 14 * 2, "{compared} comparisons");
        }
    }
}
