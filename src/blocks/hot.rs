//! Filter that tells hot logical pages: the multi-hash-function filter of Hsieh, Kuo and Chang (ACM TOS 2(1),
//! 2006).
//!
//! There is a table of small counters, and there are a few hash functions. A write increments the counters to
//! which the functions send its page. A page is hot if all of its counters have reached the threshold. After
//! a number of writes every counter is halved, so that a page that was hot long ago is forgotten. A cold page
//! passes for hot if others share all its counters; a page written often is never taken for cold.
//!
//! State: the counters, two to a byte, and the number of writes since they were halved. None of it is on the
//! chip: after a mount the filter starts empty, and knows the hot pages again after some thousand writes.
//!
//! Invariants
//! - M1: no counter of a page is smaller than the page's writes counted the same way (to 15 at most, halved
//!   when the table is).
//! - M2: a page has as many different counters as there are functions, or all counters if there are fewer.
//!
//! Choices of ours: the functions are a double hashing of one 64-bit mix, whose second part is odd, so that a
//! page never hits one counter twice (the paper leaves the functions open). The table has a power of two of
//! counters.
//!
//! Confidence: the scheme and its default numbers (4,096 counters of 4 bits, 2 functions, hot from 4, halved
//! every 5,120 writes) as in the paper by the abstracts and citing papers at hand.

use crate::rng::split_mix;
use crate::units::Lpn;
use alloc::vec;
use alloc::vec::Vec;

/// Largest number that a counter holds.
const COUNT_MAX: u8 = 15;

/// The size and the pace of the filter.
///
/// ```
/// use nandex::ftl::page_map::{FtlConfig, Separation};
/// use nandex::HotConfig;
///
/// let hot = HotConfig::default().with_threshold(4);
/// let config = FtlConfig::default().with_separation(Separation::HotFilter(hot));
/// assert_ne!(config, FtlConfig::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct HotConfig {
    /// Counters of 4 bits; rounded up to a power of two, at least 2.
    pub counters: u32,
    /// Hash functions, that is counters of a page; at least 1.
    pub hashes: u32,
    /// A page is hot when all its counters have reached this; 1 to 15.
    pub threshold: u8,
    /// Every counter is halved after this many writes. The paper's bound is counters / (1 - share of hot
    /// pages).
    pub decay_writes: u32,
}

impl HotConfig {
    /// Default numbers, those of the paper.
    pub const DEFAULT: HotConfig = HotConfig { counters: 4096, hashes: 2, threshold: 4, decay_writes: 5120 };
}

impl Default for HotConfig {
    fn default() -> HotConfig {
        HotConfig::DEFAULT
    }
}

/// Filter that tells hot logical pages.
#[derive(Clone, Debug)]
pub struct HotFilter {
    settings: HotConfig,
    /// Counters of 4 bits, two to a byte.
    counters: Vec<u8>,
    writes_since_decay: u32,
}

impl HotFilter {
    /// Makes a filter that has seen nothing: every page is cold.
    pub fn new(settings: HotConfig) -> HotFilter {
        let counters = settings.counters.clamp(2, 1 << 30).next_power_of_two();
        let settings = HotConfig {
            counters,
            hashes: settings.hashes.clamp(1, counters),
            threshold: settings.threshold.clamp(1, COUNT_MAX),
            decay_writes: settings.decay_writes.max(1),
        };
        HotFilter { settings, counters: vec![0; counters as usize / 2], writes_since_decay: 0 }
    }

    /// Counts a write of a page.
    pub fn note_write(&mut self, lpn: Lpn) {
        for place in places(self.settings, lpn) {
            let shift = 4 * (place & 1);
            let pair = &mut self.counters[place / 2];
            if *pair >> shift & COUNT_MAX < COUNT_MAX {
                *pair += 1 << shift;
            }
        }
        self.writes_since_decay += 1;
        if self.writes_since_decay >= self.settings.decay_writes {
            self.decay();
        }
    }

    /// Tells whether a page was written often recently.
    pub fn is_hot(&self, lpn: Lpn) -> bool {
        places(self.settings, lpn).all(|place| self.count(place) >= self.settings.threshold)
    }

    /// Bytes of RAM held.
    pub fn ram_bytes(&self) -> usize {
        size_of::<HotFilter>() + self.counters.len()
    }

    fn count(&self, place: usize) -> u8 {
        self.counters[place / 2] >> (4 * (place & 1)) & COUNT_MAX
    }

    fn decay(&mut self) {
        // The bit that one half loses must not reach the other.
        self.counters.iter_mut().for_each(|pair| *pair = *pair >> 1 & 0x77);
        self.writes_since_decay = 0;
    }
}

/// Returns the places of the counters of a page (M2).
fn places(settings: HotConfig, lpn: Lpn) -> impl Iterator<Item = usize> {
    let mixed = split_mix(u64::from(lpn.0));
    let (first, step) = (mixed as u32, (mixed >> 32) as u32 | 1);
    let place = move |i: u32| first.wrapping_add(i.wrapping_mul(step)) & (settings.counters - 1);
    (0..settings.hashes).map(move |i| place(i) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeMap;

    /// A naive hot table, with a counter for every page.
    #[derive(Default)]
    struct Naive {
        counts: BTreeMap<u32, u8>,
        writes: u32,
    }

    impl Naive {
        fn note_write(&mut self, lpn: u32, settings: HotConfig) {
            let count = self.counts.entry(lpn).or_default();
            *count = (*count + 1).min(COUNT_MAX);
            self.writes += 1;
            if self.writes.is_multiple_of(settings.decay_writes) {
                self.counts.values_mut().for_each(|count| *count /= 2);
            }
        }

        fn is_hot(&self, lpn: u32, settings: HotConfig) -> bool {
            self.counts.get(&lpn).is_some_and(|&count| count >= settings.threshold)
        }
    }

    /// Draws a page: four fifths of the writes go to a hundred pages, the others to all `pages` pages.
    fn skewed(rng: &mut Rng, pages: u64) -> u32 {
        if rng.chance(4, 5) { rng.below(100) as u32 } else { rng.below(pages) as u32 }
    }

    #[test]
    fn a_page_written_often_is_never_taken_for_cold() {
        let sizes = [(2, 1), (64, 2), (1024, 3), (4096, 2)];
        for (seed, (counters, hashes)) in sizes.into_iter().enumerate() {
            let settings = HotConfig { counters, hashes, decay_writes: 700, ..HotConfig::default() };
            let (mut filter, mut naive) = (HotFilter::new(settings), Naive::default());
            let mut rng = Rng::new(seed as u64);
            for _ in 0..30_000 {
                let lpn = skewed(&mut rng, 3000);
                filter.note_write(Lpn(lpn));
                naive.note_write(lpn, settings);
                let asked = skewed(&mut rng, 3000);
                assert!(filter.is_hot(Lpn(asked)) || !naive.is_hot(asked, settings), "M1: {asked}");
            }
        }
    }

    #[test]
    fn a_filter_with_room_agrees_with_a_count_of_every_page() {
        let settings = HotConfig { counters: 1 << 18, ..HotConfig::default() };
        let (mut filter, mut naive) = (HotFilter::new(settings), Naive::default());
        let mut rng = Rng::new(8);
        for _ in 0..50_000 {
            let lpn = skewed(&mut rng, 500);
            filter.note_write(Lpn(lpn));
            naive.note_write(lpn, settings);
        }
        let wrong = (0..500).filter(|&lpn| filter.is_hot(Lpn(lpn)) != naive.is_hot(lpn, settings)).count();
        assert_eq!(wrong, 0);
        assert!((0..100).all(|lpn| filter.is_hot(Lpn(lpn))));
    }

    #[test]
    fn few_cold_pages_pass_for_hot() {
        let settings = HotConfig::default();
        let (mut filter, mut naive) = (HotFilter::new(settings), Naive::default());
        let mut rng = Rng::new(9);
        let (mut asked, mut wrong) = (0, 0);
        for step in 0..100_000 {
            let lpn = skewed(&mut rng, 100_000);
            filter.note_write(Lpn(lpn));
            naive.note_write(lpn, settings);
            let cold = 100 + rng.below(99_900) as u32;
            if step > 10_000 && !naive.is_hot(cold, settings) {
                asked += 1;
                wrong += u32::from(filter.is_hot(Lpn(cold)));
            }
        }
        assert!(asked > 80_000 && wrong < asked / 50, "{wrong} of {asked}");
    }

    #[test]
    fn what_is_not_written_any_more_cools_down() {
        let settings = HotConfig { decay_writes: 100, ..HotConfig::default() };
        let mut filter = HotFilter::new(settings);
        (0..40).for_each(|_| filter.note_write(Lpn(7)));
        assert!(filter.is_hot(Lpn(7)), "15 at most");
        (0..60 + 100).for_each(|lpn| filter.note_write(Lpn(1000 + lpn)));
        assert!(!filter.is_hot(Lpn(7)), "halved twice: 15, 7, 3");
    }

    #[test]
    fn a_page_has_different_counters() {
        for lpn in (0..5000).map(Lpn) {
            let settings = HotConfig { counters: 8, hashes: 8, ..HotConfig::default() };
            let mut all: Vec<usize> = places(settings, lpn).collect();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4, 5, 6, 7], "M2: {lpn}");
        }
        assert!(HotFilter::new(HotConfig::default()).ram_bytes() < 2048 + 64);
    }
}
