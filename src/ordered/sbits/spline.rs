//! Spline that maps a key to the page that is likely to hold it: a line through points (first key of a page,
//! number of the page), in fixed RAM.
//!
//! It is the greedy corridor of Neumann and Michel (2008), which RadixSpline and EmbedDB use. A point becomes
//! a knot if a line without it would miss a page in between by more than `error` pages. If no room is left
//! for a knot, every second one is dropped. The estimates between the others are then coarser, and a look-up
//! reads further pages beside the estimated one.
//!
//! Each knot is exact: it tells which page begins with its key. So a key between two knots is between their
//! pages, however coarse the line. Only the first eight bytes of a key count; between keys that share these,
//! the knots tell nothing.

use crate::ratio::share;
use alloc::vec::Vec;

/// The first eight bytes of a key as a number, which keeps the order of keys.
pub(super) fn project(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let used = key.len().min(8);
    bytes[..used].copy_from_slice(&key[..used]);
    u64::from_be_bytes(bytes)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    key: u64,
    page: u64,
}

/// Slope: pages over keys.
#[derive(Clone, Copy, Debug)]
struct Slope {
    pages: i64,
    keys: u64,
}

impl Slope {
    fn between(from: Point, to: Point, pages_more: i64) -> Slope {
        Slope { pages: (to.page - from.page) as i64 + pages_more, keys: to.key - from.key }
    }

    /// Compares without signed products: a product of signed numbers of 128 bits takes half a kilobyte of
    /// Thumb code.
    fn is_below(self, other: Slope) -> bool {
        let product = |slope: Slope, keys: u64| u128::from(slope.pages.unsigned_abs()) * u128::from(keys);
        let (mine, others) = (product(self, other.keys), product(other, self.keys));
        match (self.pages < 0, other.pages < 0) {
            (false, false) => mine < others,
            (true, true) => mine > others,
            (is_falling, _) => is_falling && (mine, others) != (0, 0),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Spline {
    knots: Vec<Point>,
    knots_max: usize,
    error: u32,
    /// Newest point, which may become a knot. `corridor` is the corridor as seen from the newest knot.
    last: Option<Point>,
    corridor: Option<(Slope, Slope)>,
    pub(super) thinnings: u64,
}

impl Spline {
    pub(super) const KNOT_BYTES: usize = size_of::<Point>();

    pub(super) fn new(knots_max: usize, error: u32) -> Spline {
        assert!(knots_max >= 4);
        let knots = Vec::with_capacity(knots_max);
        Spline { knots, knots_max, error, last: None, corridor: None, thinnings: 0 }
    }

    pub(super) fn knots(&self) -> usize {
        self.knots.len()
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.knots_max * Self::KNOT_BYTES
    }

    /// Adds the next page, which begins with this key.
    pub(super) fn push(&mut self, key: u64, page: u64) {
        let point = Point { key, page };
        let (Some(&knot), Some(last)) = (self.knots.last(), self.last) else {
            self.knots.push(point);
            self.last = Some(point);
            return;
        };
        if key <= last.key {
            return;
        }
        debug_assert!(page > last.page, "page {page} comes after page {}", last.page);
        let outside = self.corridor.is_some_and(|(lower, upper)| {
            let slope = Slope::between(knot, point, 0);
            slope.is_below(lower) || upper.is_below(slope)
        });
        let base = if outside { last } else { knot };
        if outside {
            self.set_knot(last);
            self.corridor = None;
        }
        let error = i64::from(self.error);
        let (lower, upper) = (Slope::between(base, point, -error), Slope::between(base, point, error));
        self.corridor = Some(match self.corridor {
            None => (lower, upper),
            Some((low, high)) => (
                if low.is_below(lower) { lower } else { low },
                if upper.is_below(high) { upper } else { high },
            ),
        });
        self.last = Some(point);
    }

    fn set_knot(&mut self, point: Point) {
        if self.knots.len() == self.knots_max {
            self.thinnings += 1;
            let newest = self.knots[self.knots.len() - 1];
            let mut at = 0;
            self.knots.retain(|knot| {
                at += 1;
                at % 2 == 1 || *knot == newest
            });
        }
        debug_assert!(self.knots.len() < self.knots_max, "{} knots of {}", self.knots.len(), self.knots_max);
        debug_assert!(
            self.knots.last().is_none_or(|knot| knot.page < point.page),
            "knot {point:?} is not behind the last one"
        );
        self.knots.push(point);
    }

    /// Drops the knots of pages before this one.
    pub(super) fn drop_before(&mut self, page: u64) {
        let gone = self.knots.iter().take_while(|knot| knot.page < page).count();
        // The last of them still tells where the line to the next one begins.
        self.knots.drain(..gone.saturating_sub(1));
    }

    /// Estimates the page of a key among pages `first..end`. Returns that page, and the first and the last
    /// one that may hold the key.
    pub(super) fn find(&self, key: u64, (first, end): (u64, u64)) -> (u64, u64, u64) {
        assert!(first < end);
        let after = self.knots.partition_point(|knot| knot.key <= key);
        let next = self.knots.get(after).copied();
        let low = after.checked_sub(1).map(|at| self.knots[at]);
        // Among pages with the same projected key only the first became a point: others may precede a knot's
        // page.
        let lowest = low.map_or(first, |knot| if knot.key == key { first } else { knot.page });
        let highest = next.map_or(end - 1, |knot| knot.page);
        let (lowest, highest) = (lowest.clamp(first, end - 1), highest.clamp(first, end - 1));
        let guess = match (low, next.or(self.last)) {
            (Some(a), Some(b)) if b.key > a.key => {
                a.page + share(b.page - a.page, key.min(b.key) - a.key, b.key - a.key)
            }
            (Some(a), _) => a.page,
            (None, _) => first,
        };
        (guess.clamp(lowest, highest), lowest, highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn built(keys: &[u64], knots_max: usize, error: u32) -> Spline {
        let mut spline = Spline::new(knots_max, error);
        for (page, &key) in keys.iter().enumerate() {
            spline.push(key, page as u64);
        }
        spline
    }

    #[test]
    fn a_line_needs_no_knots_and_a_bend_needs_one() {
        let line: Vec<u64> = (0..1000).map(|i| i * 70).collect();
        assert_eq!(built(&line, 50, 1).knots(), 1);
        let bent: Vec<u64> =
            (0..1000).map(|i| if i < 500 { i * 70 } else { 35_000 + (i - 500) * 3000 }).collect();
        assert!(built(&bent, 50, 1).knots() <= 3);
    }

    #[test]
    fn estimates_stay_within_the_error_until_knots_are_dropped() {
        let mut rng = Rng::new(4);
        let mut key = 0;
        let keys: Vec<u64> = (0..3000)
            .map(|i| {
                key += 1 + rng.below(20 + i % 700);
                key
            })
            .collect();
        let spline = built(&keys, 3000, 3);
        assert_eq!(spline.thinnings, 0);
        for (page, &key) in keys.iter().enumerate() {
            let (guess, lowest, highest) = spline.find(key, (0, 3000));
            assert!(guess.abs_diff(page as u64) <= 4, "{guess} for {page}");
            assert!((lowest..=highest).contains(&(page as u64)));
        }
        let coarse = built(&keys, 8, 3);
        assert!(coarse.knots() <= 8 && coarse.thinnings > 0);
        for (page, &key) in keys.iter().enumerate() {
            let (_, lowest, highest) = coarse.find(key, (0, 3000));
            assert!((lowest..=highest).contains(&(page as u64)), "{page} not in {lowest}..={highest}");
        }
    }
}
