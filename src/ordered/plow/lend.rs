//! How much of the memtable's RAM clean records have: as much as pays.
//!
//! A smaller memtable makes changes dearer, by the cost model; a clean record that is asked for spares a
//! read. How often one would be is found out before anything is lent: of a share of all keys, drawn by their
//! hashes, `Lending` remembers those looked up last, as many as that share of the clean records would be.

use super::Core;
use super::clean::hash;
use super::cost::{self, Given, LEVELS_MAX, READ, STEP, STEP_READS};
use super::levels::Levels;
use super::memtable::{LENDS, Memtable};
use super::planner::Planner;
use super::space::Need;
use crate::nand::Nand;

/// Lending is judged anew after this many look-ups ..
const LOOKUPS_MIN: u16 = 2048;
/// .. of which this many were of drawn keys.
const DRAWN_MIN: u16 = 64;
/// Nothing is lent if fewer look-ups than this were of keys remembered: they may be chance.
const HITS_MIN: u16 = 3;
/// Nothing is lent if fewer than one look-up of drawn keys in this many was of a key remembered.
const HITS_ONE_IN: u16 = 64;
/// Keys remembered.
const KEYS: usize = if LENDS { 12 } else { 0 };
/// Eighths of the memtable that are lent first.
const LENT_FIRST: u32 = 2;
/// Eighths of the memtable that are lent if look-ups prevail.
const LENT_MOST: u32 = 4;
/// With this many look-ups for each change the most is lent.
const LOOKUPS_FOR_MOST: u32 = 8;
/// With fewer look-ups than this for each change no more is lent than first.
const LOOKUPS_FOR_MORE: u32 = 3;

/// The share of the RAM that is to be lent, and what it is, or would be, good for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lending {
    /// Look-ups of this window that found a record below the memtable, a clean one or one on flash.
    looked: u16,
    /// Look-ups among them of drawn keys.
    drawn: u16,
    /// Look-ups among these of keys remembered.
    known: u16,
    /// Changes of this window.
    changes: u16,
    /// Look-ups that ever found a clean record.
    pub(super) served: u32,
    /// Parts of eight of the memtable that are to be lent.
    pub(super) eighths: u8,
    /// Keys remembered, the one looked up last in front.
    count: u8,
    keys: [u16; KEYS],
}

impl Lending {
    /// Remembers a key, or takes it out, if it is drawn, one of so many; whether it was remembered.
    fn remember(&mut self, key: &[u8], one_of: usize, stays: bool) -> Option<bool> {
        let hash = hash(key);
        if (u64::from(hash) * one_of as u64) >> 32 >= KEYS as u64 {
            return None;
        }
        let (print, count) = (hash as u16, usize::from(self.count));
        let at = self.keys[..count].iter().position(|&other| other == print);
        match at {
            Some(at) if stays => self.keys[..=at].rotate_right(1),
            Some(at) => {
                self.keys[at..count].rotate_left(1);
                self.count -= 1;
            }
            None if stays => {
                let count = (count + 1).min(self.keys.len()).min(one_of);
                self.keys[..count].rotate_right(1);
                self.keys[..count].iter_mut().take(1).for_each(|first| *first = print);
                self.count = count as u8;
            }
            None => {}
        }
        Some(at.is_some())
    }

    /// Notes a key that was found below the memtable, or changed, one of so many drawn; whether a window is
    /// over.
    fn note(&mut self, key: &[u8], one_of: usize, is_found: bool) -> bool {
        let known = self.remember(key, one_of, is_found);
        if !is_found {
            self.changes += 1;
            return self.changes == u16::MAX;
        }
        self.looked += 1;
        if let Some(is_known) = known {
            self.drawn += 1;
            self.known += u16::from(is_known);
        }
        self.looked == u16::MAX || self.looked >= LOOKUPS_MIN && self.drawn >= DRAWN_MIN
    }
}

impl Planner {
    /// Judges how much is to be lent, where a page has so many bytes.
    fn judge_lending(&mut self, levels: &Levels, memtable: &Memtable, page_bytes: u32, step: u64) {
        let Lending { looked, drawn, known, changes, eighths, .. } = self.lending;
        let (lent, looked, changes) = (u32::from(eighths), u32::from(looked), u32::from(changes));
        let spared = u64::from(looked) * u64::from(known) / u64::from(drawn.max(1)) * READ;
        // The time by which the changes of a window are dearer for what is lent, in shares of a program.
        let given = self.given(levels, memtable, page_bytes);
        let lost = u64::from(changes) * more_steps(given, levels, memtable, lent.max(LENT_FIRST));
        let lost = lost / cost::ONE * step / cost::ONE;
        // What is lent is first to be filled, and what is taken back is lost.
        let pays = if lent > 0 { spared > lost } else { spared > 2 * lost };
        let wanted = if !pays || known < HITS_MIN.max(drawn / HITS_ONE_IN) {
            0
        } else if looked >= LOOKUPS_FOR_MOST * changes {
            LENT_MOST
        } else if looked < LOOKUPS_FOR_MORE * changes {
            LENT_FIRST
        } else {
            lent.max(LENT_FIRST)
        };
        self.lending.eighths = wanted as u8;
        (self.lending.looked, self.lending.changes) = (0, 0);
        (self.lending.drawn, self.lending.known) = (0, 0);
    }
}

/// Programs that a change takes more where so many eighths of the memtable are lent.
fn more_steps(given: Given, levels: &Levels, memtable: &Memtable, eighths: u32) -> u64 {
    let mut sizes = [0; LEVELS_MAX];
    sizes.iter_mut().zip(&levels[..]).for_each(|(size, level)| *size = level.pages() as u64);
    let all = memtable.capacity();
    let steps = |records: usize| {
        cost::costs(&Given { memtable: records as u64, ..given }, &sizes[..levels.len()]).steps
    };
    steps(all - memtable.lendable(eighths)).saturating_sub(steps(all))
}

impl<N: Nand> Core<N> {
    /// The value of a key of which there is a clean record.
    pub(super) fn clean_value(&mut self, key: &[u8], value: &mut [u8]) -> bool {
        if !LENDS || !self.memtable.clean_value(key, value) {
            return false;
        }
        self.planner.lending.served = self.planner.lending.served.saturating_add(1);
        self.note(key, true);
        true
    }

    /// Notes that a key was found below the memtable, or a change of it, which takes its clean record out;
    /// and lends as much as is wanted, once the memtable is so small.
    pub(super) fn note(&mut self, key: &[u8], is_found: bool) {
        let first = self.memtable.lendable(LENT_FIRST);
        if !LENDS || first == 0 {
            return;
        }
        if self.planner.lending.note(key, first, is_found) {
            // The page of a step is that of the commit, where each change has one.
            let step = if self.commits.is_durable() { STEP_READS * READ } else { STEP };
            let page_bytes = self.medium.geometry.page_bytes;
            self.planner.judge_lending(&self.levels, &self.memtable, page_bytes, step);
        }
        let wanted = self.memtable.lendable(self.planner.lending.eighths.into());
        if wanted != self.memtable.lent() && self.memtable.lend(wanted) {
            self.choose_plan();
        }
    }

    /// Records whose room is to be lent besides that which is.
    pub(super) fn to_be_lent(&self) -> usize {
        let eighths = self.planner.lending.eighths;
        if !LENDS || eighths == 0 || !self.stock().has(Need::Ahead) {
            return 0;
        }
        self.memtable.lendable(eighths.into()).saturating_sub(self.memtable.lent())
    }
}

#[cfg(test)]
#[cfg(feature = "full")]
mod tests {
    use super::*;

    #[test]
    fn of_drawn_keys_those_looked_up_last_are_remembered() {
        let mut lending = Lending::default();
        // All are drawn: twenty keys in turn are never known, twelve always.
        for (keys, expected) in [(20u32, 0), (12, 288)] {
            let looked = (0..300u32).map(|i| lending.remember(&(i % keys).to_be_bytes(), KEYS, true));
            let known = looked.filter(|known| *known == Some(true)).count();
            // Some of the first twelve are among the last of the twenty.
            assert!(known >= expected && known <= expected + 12, "{keys}: {known}");
        }
        assert_eq!(lending.remember(&3u32.to_be_bytes(), KEYS, false), Some(true));
        assert_eq!(lending.remember(&3u32.to_be_bytes(), KEYS, false), Some(false));
        // Of a hundred times as many a hundredth is drawn.
        let drawn = (0..10_000u32).filter(|i| lending.remember(&i.to_be_bytes(), 100 * KEYS, true).is_some());
        let drawn = drawn.count();
        assert!((60..140).contains(&drawn), "{drawn}");
    }
}
