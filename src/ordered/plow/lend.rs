//! Lending of the memtable's RAM to clean records, as long as it pays.
//!
//! A smaller memtable makes changes dearer, by the cost model; a clean record that is asked for saves a read.
//! How often that would happen is found out before anything is lent. A share of all keys is drawn by their
//! hashes, and of those `Lending` remembers the keys looked up last, as many as that share of the clean
//! records would be.

use super::Core;
use super::clean::hash;
use super::cost::{self, Given, LEVELS_MAX, READ, STEP, STEP_READS};
use super::levels::Levels;
use super::memtable::{LENDS, Memtable};
use super::planner::Planner;
use super::space::Need;
use crate::nand::Nand;

/// Look-ups after which lending is decided again, if [`DRAWN_MIN`] of them were of drawn keys.
const LOOKUPS_MIN: u16 = 2048;
/// Look-ups of drawn keys that a decision needs.
const DRAWN_MIN: u16 = 64;
/// Look-ups of remembered keys below which nothing is lent: they may be chance.
const HITS_MIN: u16 = 3;
/// Nothing is lent if less than 1 in this number of look-ups of drawn keys was of a remembered key.
const HITS_ONE_IN: u16 = 64;
/// Number of keys remembered.
const KEYS: usize = if LENDS { 12 } else { 0 };
/// Eighths of the memtable that are lent at first.
const LENT_FIRST: u32 = 2;
/// Eighths of the memtable that are lent if there are far more look-ups than changes.
const LENT_MOST: u32 = 4;
/// With at least this many look-ups for each change, [`LENT_MOST`] eighths are lent.
const LOOKUPS_FOR_MOST: u32 = 8;
/// With fewer look-ups than this for each change, no more than [`LENT_FIRST`] eighths are lent.
const LOOKUPS_FOR_MORE: u32 = 3;

/// The lent share of the memtable, and the counts by which it is judged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lending {
    /// Look-ups in this window that found a record below the memtable, clean or on flash.
    looked: u16,
    /// Look-ups of `looked` whose keys were drawn.
    drawn: u16,
    /// Look-ups of `drawn` whose keys were remembered.
    known: u16,
    changes: u16,
    /// Look-ups since the mount that found a clean record.
    pub(super) served: u32,
    /// Eighths of the memtable to lend.
    pub(super) eighths: u8,
    /// Number of keys remembered; in `keys`, the one looked up last is in front.
    count: u8,
    keys: [u16; KEYS],
}

impl Lending {
    /// Remembers a key (`stays`) or forgets it, if it is drawn: `KEYS` of every `one_of` keys are. Returns
    /// whether it was remembered; `None` if the key is not drawn.
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

    /// Notes a key that was found below the memtable (`is_found`) or changed. True if a window is over.
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
    /// Judges how much is to be lent. `step` is the cost of a step in shares of a program.
    fn judge_lending(&mut self, levels: &Levels, memtable: &Memtable, page_bytes: u32, step: u64) {
        let Lending { looked, drawn, known, changes, eighths, .. } = self.lending;
        let (lent, looked, changes) = (u32::from(eighths), u32::from(looked), u32::from(changes));
        let spared = u64::from(looked) * u64::from(known) / u64::from(drawn.max(1)) * READ;
        // The time by which lending makes the changes of a window dearer, in shares of a program.
        let given = self.given(levels, memtable, page_bytes);
        let lost = u64::from(changes) * more_steps(given, levels, memtable, lent.max(LENT_FIRST));
        let lost = lost / cost::ONE * step / cost::ONE;
        // Lent RAM must first be filled with clean records, and is lost again when it is taken back: so
        // beginning must pay twice.
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

/// Programs that each change costs more if `eighths` eighths of the memtable are lent.
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
    /// Copies the value of a clean record, if it is asked for. Returns false if there is none of this key.
    pub(super) fn clean_value(&mut self, key: &[u8], value: Option<&mut [u8]>) -> bool {
        if !LENDS || !self.stock.memtable.clean_value(key, value) {
            return false;
        }
        self.planner.lending.served = self.planner.lending.served.saturating_add(1);
        self.note(key, true);
        true
    }

    /// Notes that a key was found below the memtable, or was changed (which removes its clean record). Then
    /// lends as much as is wanted, once the memtable holds few enough records.
    pub(super) fn note(&mut self, key: &[u8], is_found: bool) {
        let first = self.stock.memtable.lendable(LENT_FIRST);
        if !LENDS || first == 0 {
            return;
        }
        if self.planner.lending.note(key, first, is_found) {
            // In the class *every operation* the page of a step is that of the commit, so it costs only the
            // reads.
            let step = if self.stock.commits.is_durable() { STEP_READS * READ } else { STEP };
            let page_bytes = self.stock.geometry.page_bytes;
            self.planner.judge_lending(&self.stock.levels, &self.stock.memtable, page_bytes, step);
        }
        let wanted = self.stock.memtable.lendable(self.planner.lending.eighths.into());
        if wanted != self.stock.memtable.lent() && self.stock.memtable.lend(wanted) {
            self.choose_plan();
        }
    }

    /// Number of records whose room is still to be lent.
    pub(super) fn to_be_lent(&self) -> usize {
        let eighths = self.planner.lending.eighths;
        if !LENDS || eighths == 0 || !self.stock.has(Need::Ahead) {
            return 0;
        }
        self.stock.memtable.lendable(eighths.into()).saturating_sub(self.stock.memtable.lent())
    }
}

#[cfg(test)]
#[cfg(feature = "full")]
mod tests {
    use super::*;

    #[test]
    fn of_drawn_keys_those_looked_up_last_are_remembered() {
        let mut lending = Lending::default();
        // All keys are drawn: of twenty keys in turn none is ever remembered, of twelve always.
        for (keys, expected) in [(20u32, 0), (12, 288)] {
            let looked = (0..300u32).map(|i| lending.remember(&(i % keys).to_be_bytes(), KEYS, true));
            let known = looked.filter(|known| *known == Some(true)).count();
            // Some of the first twelve are among the last of the twenty.
            assert!(known >= expected && known <= expected + 12, "{keys}: {known}");
        }
        assert_eq!(lending.remember(&3u32.to_be_bytes(), KEYS, false), Some(true));
        assert_eq!(lending.remember(&3u32.to_be_bytes(), KEYS, false), Some(false));
        // With a hundred times the keys, a hundredth is drawn.
        let drawn = (0..10_000u32).filter(|i| lending.remember(&i.to_be_bytes(), 100 * KEYS, true).is_some());
        let drawn = drawn.count();
        assert!((60..140).contains(&drawn), "{drawn}");
    }
}
