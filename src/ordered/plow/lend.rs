//! How much of the memtable's RAM clean records have: as much as pays.
//!
//! A smaller memtable makes changes dearer, by the cost model; a clean record that is asked for spares a
//! read. How often one would be is found out before anything is lent: of a share of all keys, drawn by their
//! hashes, `Lending` remembers those looked up last, as many as that share of the clean records would be.

use super::Plow;
use super::clean::hash;
use super::cost::{self, Given, LEVELS_MAX, READ, STEP, STEP_READS};
use super::level::Level;
use super::memtable::LENDS;
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
}

impl<N: Nand> Plow<N> {
    /// The value of a key of which there is a clean record.
    pub(super) fn clean_value(&mut self, key: &[u8], value: &mut [u8]) -> bool {
        if !LENDS || !self.memtable.clean_value(key, value) {
            return false;
        }
        self.lending.served = self.lending.served.saturating_add(1);
        self.note_found(key);
        true
    }

    /// Keeps a record that a look-up found on flash.
    pub(super) fn keep_clean(&mut self, key: &[u8], value: &[u8]) {
        if LENDS {
            self.memtable.keep_clean(key, value);
            self.note_found(key);
        }
    }

    /// Notes that a key was found below the memtable.
    pub(super) fn note_found(&mut self, key: &[u8]) {
        let first = self.memtable.lendable(LENT_FIRST);
        if !LENDS || first == 0 {
            return;
        }
        self.lending.looked += 1;
        if let Some(is_known) = self.lending.remember(key, first, true) {
            self.lending.drawn += 1;
            self.lending.known += u16::from(is_known);
        }
        let Lending { looked, drawn, .. } = self.lending;
        if looked == u16::MAX || looked >= LOOKUPS_MIN && drawn >= DRAWN_MIN {
            self.judge_lending();
        }
        self.lend();
    }

    /// Notes a change of a key, which takes its clean record out.
    pub(super) fn note_changed(&mut self, key: &[u8]) {
        let first = self.memtable.lendable(LENT_FIRST);
        if !LENDS || first == 0 {
            return;
        }
        self.lending.changes += 1;
        self.lending.remember(key, first, false);
        if self.lending.changes == u16::MAX {
            self.judge_lending();
        }
        self.lend();
    }

    /// Records whose room is to be lent besides that which is.
    pub(super) fn to_be_lent(&self) -> usize {
        if !LENDS || self.lending.eighths == 0 || !self.is_roomy() {
            return 0;
        }
        self.memtable.lendable(self.lending.eighths.into()).saturating_sub(self.memtable.lent())
    }

    /// Lends as much as is wanted, once the memtable is so small.
    fn lend(&mut self) {
        let wanted = self.memtable.lendable(self.lending.eighths.into());
        if wanted != self.memtable.lent() && self.memtable.lend(wanted) {
            self.choose_plan();
        }
    }

    fn judge_lending(&mut self) {
        let Lending { looked, drawn, known, changes, eighths, .. } = self.lending;
        let (lent, looked, changes) = (u32::from(eighths), u32::from(looked), u32::from(changes));
        let spared = u64::from(looked) * u64::from(known) / u64::from(drawn.max(1)) * READ;
        let lost = self.lost_by_lending(lent.max(LENT_FIRST));
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

    /// The time by which the changes of a window are dearer for what is lent, in shares of a program.
    fn lost_by_lending(&self, eighths: u32) -> u64 {
        let mut sizes = [0; LEVELS_MAX];
        let pages = self.levels.iter().map(Level::pages);
        sizes.iter_mut().zip(pages).for_each(|(size, pages)| *size = pages as u64);
        let all = self.memtable.capacity();
        let steps = |records: usize| {
            let given = Given { memtable: records as u64, ..self.given() };
            cost::costs(&given, &sizes[..self.levels.len()]).steps
        };
        let more = steps(all - self.memtable.lendable(eighths)).saturating_sub(steps(all));
        // The page of a step is that of the commit, where each change has one.
        let step = if self.is_durable() { STEP_READS * READ } else { STEP };
        u64::from(self.lending.changes) * more / cost::ONE * step / cost::ONE
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
