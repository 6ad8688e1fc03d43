//! Batches: several changes as one operation.

use super::ValueLog;
use super::chunk::Held;
use crate::check::IndexError;
use crate::nand::Nand;
use crate::ordered::change::newest_by_key;
use crate::ordered::variable::require_fits;
use crate::ordered::{Change, OrderedIndex};
use alloc::vec::Vec;

impl<I: OrderedIndex, N: Nand> ValueLog<I, N> {
    /// Makes several changes, all or none, as [`OrderedIndex::apply`] does. The index below gets its share of
    /// them as one batch.
    pub fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        let newest = newest_by_key(batch);
        let (mut long, mut keys) = (0, Vec::new());
        for change in &newest {
            keys.push(change.key);
            let value = change.value.unwrap_or_default();
            require_fits("key", change.key, self.max_key())?;
            require_fits("value", value, self.max_value)?;
            if value.len() > self.short {
                long += value.len();
            }
        }
        self.flush()?;
        if long > 0 {
            self.make_room(&keys, long)?;
            self.flush()?;
        }
        let done = self.apply_all(&newest);
        if done.is_err() {
            self.waiting.drain(..).for_each(|waiting| waiting.give_up(&mut self.log));
        }
        done
    }

    fn apply_all(&mut self, newest: &[Change<'_>]) -> Result<(), IndexError> {
        let mut before = Vec::new();
        for change in newest {
            before.extend(
                self.places_of(change.key)?.unwrap_or_default().into_iter().map(|place| (change.key, place)),
            );
            if let Some(value) = change.value.filter(|value| value.len() > self.short) {
                self.append(change.key, value)?;
                // The index must not hear of it before the others.
                if let Some(waiting) = self.waiting.last_mut() {
                    waiting.is_whole = false;
                }
            }
        }
        self.flush()?;
        let mut long = self.waiting.iter();
        let mut held = Vec::new();
        for change in newest {
            let mut one = Vec::new();
            match change.value {
                Some(value) if value.len() > self.short => {
                    long.next().iter().for_each(|waiting| waiting.encode(&mut one, self.marked_from));
                }
                Some(value) => {
                    Held::begin_short(&mut one);
                    one.extend_from_slice(value);
                }
                None => {}
            }
            held.push(one);
        }
        let changes: Vec<Change<'_>> = newest
            .iter()
            .zip(&held)
            .map(|(change, held)| match change.value {
                Some(_) => Change::put(change.key, held),
                None => Change::remove(change.key),
            })
            .collect();
        self.index.apply(&changes)?;
        self.moves_in_vain = false;
        self.waiting.clear();
        before.into_iter().for_each(|(key, place)| self.release(key, &[place]));
        Ok(())
    }
}
