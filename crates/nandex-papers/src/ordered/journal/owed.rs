//! Owed updates: the journal has them and the index below lacks them. They wait in RAM until there is room,
//! or for ever if the store takes no more writes. Log pages of an LSB-tree that a mount cannot merge wait in
//! the same way.

use super::page::put_record;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Bound;
use nandex::ordered::buffered::Pending;
use nandex::ordered::change::Change;
use nandex::ordered::{Bounds, Direction, RecordFormat};
use nandex::sort;

/// An owed update: the number of its record in the journal, and its value. `None` removes the key.
type Debt = (u64, Option<Vec<u8>>);

/// The owed updates, by key.
#[derive(Debug, Default)]
pub(in crate::ordered) struct Owed {
    debts: BTreeMap<Vec<u8>, Debt>,
}

/// Most bytes that the map takes for an update, without its key and value.
const DEBT_BYTES: usize = 2 * size_of::<(Vec<u8>, Debt)>();

impl Owed {
    pub(in crate::ordered) fn is_empty(&self) -> bool {
        self.debts.is_empty()
    }

    pub(in crate::ordered) fn len(&self) -> usize {
        self.debts.len()
    }

    /// The value of a key, if an update of it is owed; the inner `None` means that the key is removed.
    pub(in crate::ordered) fn value(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.debts.get(key).map(|(_, value)| value.as_deref())
    }

    /// Adds an owed update. `at` is the number of its record in the journal.
    pub(in crate::ordered) fn owe(&mut self, at: u64, change: Change<'_>) {
        self.debts.insert(change.key.to_vec(), (at, change.value.map(<[u8]>::to_vec)));
    }

    /// Turns the owed update of a key into a removal. Its record stays, although that is of the old update.
    pub(in crate::ordered) fn remove(&mut self, key: &[u8]) {
        if let Some((_, value)) = self.debts.get_mut(key) {
            *value = None;
        }
    }

    /// Removes an update that the index below has by now.
    pub(in crate::ordered) fn settle(&mut self, key: &[u8]) {
        self.debts.remove(key);
    }

    /// The next update to carry out after key `after`, in the order of keys: a put or a removal as `is_put`
    /// says.
    pub(in crate::ordered) fn next(
        &self,
        is_put: bool,
        after: Option<&[u8]>,
    ) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let low = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.debts.range::<[u8], _>((low, Bound::Unbounded));
        rest.find(|(_, (_, value))| value.is_some() == is_put)
            .map(|(key, (_, value))| (key.clone(), value.clone()))
    }

    /// The records of all owed updates in the order of the journal. From now on these are the condensed
    /// journal, so their numbers change.
    pub(in crate::ordered) fn condensed(
        &mut self,
        record: RecordFormat,
        record_bytes: usize,
    ) -> Vec<Vec<u8>> {
        let mut order: Vec<(&Vec<u8>, &mut Debt)> = self.debts.iter_mut().collect();
        sort::unstable_by_key(&mut order, |(_, (at, _))| *at);
        let each = order.into_iter().enumerate().map(|(place, (key, (at, value)))| {
            debug_assert!(place as u64 <= *at, "no record comes later than it stood");
            *at = place as u64;
            let mut bytes = vec![0; record_bytes];
            put_record(record, &mut bytes, Change { key, value: value.as_deref() });
            bytes
        });
        each.collect()
    }

    /// The updates within bounds, in the order of a walk.
    pub(in crate::ordered) fn within(&self, bounds: Bounds<'_>, direction: Direction) -> Walk<'_> {
        let is_nothing = match bounds {
            (Bound::Excluded(low), Bound::Excluded(high)) => low >= high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
                low > high
            }
            _ => false,
        };
        let mut all: Vec<Change<'_>> = Vec::new();
        if !is_nothing {
            let found = self.debts.range::<[u8], _>(bounds);
            all.extend(found.map(|(key, (_, value))| Change { key, value: value.as_deref() }));
        }
        if direction == Direction::Descending {
            all.reverse();
        }
        Walk { at: None, rest: all.into_iter() }.turned()
    }

    pub(in crate::ordered) fn ram_bytes(&self) -> usize {
        let bytes = |(key, (_, value)): (&Vec<u8>, &Debt)| key.len() + value.as_ref().map_or(0, Vec::len);
        self.debts.iter().map(|debt| DEBT_BYTES + bytes(debt)).sum()
    }
}

pub(in crate::ordered) struct Walk<'a> {
    rest: vec::IntoIter<Change<'a>>,
    at: Option<Change<'a>>,
}

impl<'a> Walk<'a> {
    /// The current update and all later ones.
    pub(in crate::ordered) fn rest(self) -> impl Iterator<Item = Change<'a>> {
        self.at.into_iter().chain(self.rest)
    }

    fn turned(mut self) -> Self {
        self.at = self.rest.next();
        self
    }
}

impl Pending for Walk<'_> {
    fn peek(&self) -> Option<Change<'_>> {
        self.at
    }

    fn advance(&mut self) {
        self.at = self.rest.next();
    }
}
