//! Sorting. Sorts that may be long are the standard library's where there is the feature `std`; all others,
//! and all of a firmware, share one routine.
//!
//! The standard library's sorts are written out for each type of element, 2 to 7 KiB of code each: more than
//! a whole index should have. The one here sees its elements through two calls, compares and swaps them in
//! place, takes no memory, and is stable, so both give the same order wherever elements that compare as equal
//! are equal. Stable sorts are those of a node or a list of blocks: short.

use core::cmp::Ordering;
use core::ops::Range;

/// Bisects places in ascending order: the one of which `order` says that it is the wanted one, or else where
/// that belongs.
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

/// Sorts by the elements' own order.
pub fn total<T: Ord>(items: &mut [T]) {
    #[cfg(feature = "std")]
    items.sort_unstable();
    #[cfg(not(feature = "std"))]
    in_place(items, T::cmp);
}

/// Sorts by an order in which no two elements are equal, or which of two equal ones comes first does not
/// matter.
pub fn unstable_by<T>(items: &mut [T], order: impl FnMut(&T, &T) -> Ordering) {
    #[cfg(feature = "std")]
    items.sort_unstable_by(order);
    #[cfg(not(feature = "std"))]
    in_place(items, order);
}

/// [`unstable_by`] a key.
pub fn unstable_by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    unstable_by(items, |a, b| key(a).cmp(&key(b)));
}

/// Sorts a short row by an order; equal elements stay in the order they had.
pub fn by<T>(items: &mut [T], order: impl FnMut(&T, &T) -> Ordering) {
    in_place(items, order);
}

/// [`by`] a key.
pub fn by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    by(items, |a, b| key(a).cmp(&key(b)));
}

/// The elements as [`sort`] knows them.
trait Row {
    /// Whether the element at one place belongs before that at another.
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

/// Runs that are sorted by insertion before they are merged.
const RUN: usize = 16;

/// Sorts by the one routine: runs by insertion, then merged in place. Compares n log n times, swaps n log² n
/// times at most.
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

/// Merges `low..middle` and `middle..high`, both of them sorted, by the symmetric merge of Kim and Kutzner:
/// what belongs into the other half of the whole is found by bisection and rotated over, then each half is
/// merged.
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
