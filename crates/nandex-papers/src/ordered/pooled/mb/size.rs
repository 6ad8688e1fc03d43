//! The best number of pages of a leaf: cost of a change and of the reads in the same time, in integers.
//!
//! A batch of b changes writes the header of a leaf of n pages and, of the other n - 1 pages, those affected:
//! (n - 1) (1 - (1 - 1/n)^b) on average. It reads the same pages. A search reads one page, or two if n > 1.
//! The limit of a leaf is the number of pages with the least cost per change:
//!
//! ```text
//! cost(n) = (Cw + Cr) (1 + (n - 1) (1 - (1 - 1/n)^b(n))) / b(n)  +  (r / b) Cr (1 if n = 1, else 2)
//! ```
//!
//! where b(n) = b n / m for a leaf that has m pages now: with twice the pages, twice the changes gather
//! before the leaf's group is the largest. With the same b for all n, as our specification has it, one page
//! would always be best, since more pages only add writes. The header's page is counted once: it is a page of
//! entries too.

use super::page::Rates;

/// The number one in fixed point.
const ONE: u64 = 1 << 16;

/// The number of pages of least cost for a leaf that has `pages` pages now. `write_cost` is the cost of a
/// page write in page reads.
pub(super) fn pages_limit(rates: Rates, pages: usize, pages_max: usize, write_cost: u32) -> usize {
    debug_assert!(pages > 0 && pages_max > 0, "M2: a leaf of {pages} pages, {pages_max} at most");
    if rates.changes == 0 {
        return pages_max;
    }
    let cost = |n: usize| cost(rates, (n as u64, pages as u64), u64::from(write_cost));
    (1..=pages_max).min_by_key(|&n| cost(n)).unwrap_or(1)
}

/// The cost of a change in reads, in fixed point. `n` is the number of pages tried and `now` the present
/// one.
fn cost(rates: Rates, (n, now): (u64, u64), write_cost: u64) -> u64 {
    let changes = u64::from(rates.changes);
    // In sixteenths, one at least: no batch is without a change.
    let batch = (changes * n / now).max(16);
    let pages = ONE + (n - 1) * (ONE - missed(n, batch));
    let search = if n == 1 { 1 } else { 2 };
    (write_cost + 1) * pages * 16 / batch + u64::from(rates.reads) * ONE * search / changes
}

/// (1 - 1/n)^b with b in sixteenths. Between whole numbers it is interpolated.
fn missed(n: u64, sixteenths: u64) -> u64 {
    debug_assert!(sixteenths >= 16, "{sixteenths} sixteenths of a change in a batch");
    let ratio = ONE * (n - 1) / n;
    let (mut whole, mut left) = (ONE, sixteenths / 16);
    while left > 0 && whole > 0 {
        whole = whole * ratio / ONE;
        left -= 1;
    }
    let next = whole * ratio / ONE;
    whole - (whole - next) * (sixteenths % 16) / 16
}

impl Rates {
    /// The rates after one more batch, of `changes` changes and with `reads` reads before it.
    pub(super) fn after(self, changes: usize, reads: u16) -> Rates {
        let changes = (changes as u64 * 16).min(1 << 24) as u32;
        let reads = u32::from(reads) * 16;
        if self.changes == 0 {
            return Rates { changes, reads };
        }
        let mean = |old: u32, new: u32| ((u64::from(old) * 3 + u64::from(new)) / 4) as u32;
        Rates { changes: mean(self.changes, changes).max(1), reads: mean(self.reads, reads) }
    }

    /// The rates of a leaf that keeps half of the entries.
    pub(super) fn halved(self) -> Rates {
        Rates { changes: self.changes.div_ceil(2), reads: self.reads.div_ceil(2) }
    }

    /// The rates of a leaf merged from two.
    pub(super) fn with(self, other: Rates) -> Rates {
        let add = u32::saturating_add;
        Rates { changes: add(self.changes, other.changes), reads: add(self.reads, other.reads) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(changes: u32, reads: u32, pages: usize) -> usize {
        pages_limit(Rates { changes: changes * 16, reads: reads * 16 }, pages, 8, 3)
    }

    #[test]
    fn few_changes_a_page_ask_for_many_pages_and_many_for_one() {
        // Of 16 changes some meet the same of eight pages, and the header's page has entries too.
        assert_eq!(limit(2, 0, 1), 8);
        assert_eq!(limit(40, 0, 1), 1, "every page is met anyway");
        assert_eq!(limit(2, 2, 1), 1, "a search more for each change");
        // A leaf of 8 pages that gathers 4 changes would gather less than one on a page of its own.
        assert_eq!(limit(4, 0, 8), 8);
        assert_eq!(limit(400, 0, 8), 1, "every page is met anyway");
        assert_eq!(limit(4, 400, 8), 1, "searches read one page instead of two");
        assert_eq!(pages_limit(Rates::default(), 3, 8, 3), 8, "nothing is known");
    }

    #[test]
    fn the_cost_is_the_formula() {
        // n = 2, b = 2: 1 + (1 - 1/4) pages of 3 + 1 reads for 2 changes, and 3 reads of 2 pages for 2
        // changes.
        let rates = Rates { changes: 32, reads: 48 };
        assert_eq!(cost(rates, (2, 2), 3), (4 * (ONE + ONE * 3 / 4) / 2) + 3 * ONE);
        assert_eq!(cost(rates, (1, 1), 3), 4 * ONE / 2 + 3 * ONE / 2);
    }

    #[test]
    fn rates_follow_what_comes() {
        let mut rates = Rates::default().after(10, 3);
        assert_eq!(rates, Rates { changes: 160, reads: 48 });
        for _ in 0..40 {
            rates = rates.after(2, 0);
        }
        assert!(rates.changes < 40 && rates.reads < 4, "{rates:?}");
    }
}
