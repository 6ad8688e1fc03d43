//! The cost model that chooses k.
//!
//! With n records, H of them in the head and f entries in a page there are log_k(n / H) levels. A look-up
//! reads a page of each. A merge of a level into the next reads and writes k pages for each page of the upper
//! one, of which fences leave f - k entries, and before the lower one is full there are k/2 such merges
//! behind the mean record, each with half of it: so a record costs 2k / (f - k) pages read or written in each
//! level at most. Both are weighed as operations are, and k from 2 on is tried. Integers throughout.

/// Largest k that is tried.
const K_MAX: u32 = 64;

/// log2 of a number of at least 1, in 65,536ths.
fn log2(n: u64) -> u64 {
    let whole = u64::from(n.max(1).ilog2());
    // The fraction by repeated squaring of n / 2^whole, in 32-bit fixed point.
    let mut x = ((u128::from(n.max(1)) << 32) >> whole) as u64;
    let mut log = whole << 16;
    for bit in (0..16).rev() {
        x = ((u128::from(x) * u128::from(x)) >> 32) as u64;
        if x >= 2 << 32 {
            x >>= 1;
            log |= 1 << bit;
        }
    }
    log
}

/// Number of levels below the head, in 65,536ths.
pub(super) fn levels(records: u64, head: u32, k: u32) -> u64 {
    let ratio = (records / u64::from(head.max(1))).max(2);
    (log2(ratio) << 16) / log2(k.into()).max(1)
}

/// The k of least cost. `records` is the number of records, `head` the number of them in the head and
/// `page_entries` in a page; `insert_percent` is the percentage of updates among operations, and
/// `write_cost` the cost of a page write in page reads.
pub fn best_ratio(
    records: u64,
    (head, page_entries): (u32, u32),
    (insert_percent, write_cost): (u32, u32),
) -> u32 {
    let f = u64::from(page_entries);
    let cost = |k: u32| {
        let k64 = u64::from(k);
        // In 65,536ths of a page read, for 200 operations.
        let search = (2 * u64::from(100 - insert_percent.min(100))) << 16;
        let merge = ((u64::from(insert_percent) * (1 + u64::from(write_cost)) * 2 * k64) << 16) / (f - k64);
        u128::from(levels(records, head, k)) * u128::from(search + merge)
    };
    let most = (page_entries.saturating_sub(2)).clamp(2, K_MAX + 1);
    (2..most).min_by_key(|&k| cost(k)).unwrap_or(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_right_to_a_ten_thousandth() {
        for (n, expected) in [(1, 0), (2, 65_536), (10, 217_706), (1_000_000, 1_306_233), (1 << 40, 40 << 16)]
        {
            assert!(log2(n).abs_diff(expected) <= 7, "{n}: {}", log2(n));
        }
        assert_eq!((levels(1_000_000, 1_000, 10) + 9) >> 16, 3);
    }

    #[test]
    fn k_grows_with_searches_and_with_the_page() {
        let k = |f, percent| best_ratio(10_000_000, (10_000, f), (percent, 3));
        assert!(
            k(250, 90) < k(250, 50) && k(250, 50) < k(250, 10),
            "{} {} {}",
            k(250, 90),
            k(250, 50),
            k(250, 10)
        );
        assert!(k(60, 50) < k(250, 50));
        assert!((8..40).contains(&k(250, 50)), "{}", k(250, 50));
        assert_eq!(best_ratio(100, (10, 5), (50, 3)), 2);
    }
}
