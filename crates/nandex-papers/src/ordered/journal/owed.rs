//! Updates that a journal has and the index below has not: they wait in RAM until there is room for them, or
//! for ever where the store takes no more writes. The log pages of an LSB-tree that a mount cannot merge wait
//! in the same way.

use super::page::put_record;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Bound;
use nandex::ordered::buffered::Pending;
use nandex::ordered::change::Change;
use nandex::ordered::{Bounds, Direction, RecordFormat};
use nandex::sort;

/// An update that is owed: where its record stands in the journal, and the value that it puts; none if it
/// removes the key.
type Debt = (u64, Option<Vec<u8>>);

/// Updates that are owed, by key.
#[derive(Debug, Default)]
pub(in crate::ordered) struct Owed {
    debts: BTreeMap<Vec<u8>, Debt>,
}

/// The bytes that the map takes for an update besides its key and value, at most.
const DEBT_BYTES: usize = 2 * size_of::<(Vec<u8>, Debt)>();

impl Owed {
    pub(in crate::ordered) fn is_empty(&self) -> bool {
        self.debts.is_empty()
    }

    pub(in crate::ordered) fn len(&self) -> usize {
        self.debts.len()
    }

    /// The newest update of a key, if it is owed: a value, or that there is none.
    pub(in crate::ordered) fn value(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.debts.get(key).map(|(_, value)| value.as_deref())
    }

    /// Owes an update whose record is the `at`th of the journal.
    pub(in crate::ordered) fn owe(&mut self, at: u64, change: Change<'_>) {
        self.debts.insert(change.key.to_vec(), (at, change.value.map(<[u8]>::to_vec)));
    }

    /// Turns what is owed for a key into its removal, in the place of the record that says otherwise.
    pub(in crate::ordered) fn remove(&mut self, key: &[u8]) {
        if let Some((_, value)) = self.debts.get_mut(key) {
            *value = None;
        }
    }

    /// The index below has the newest update of this key.
    pub(in crate::ordered) fn settle(&mut self, key: &[u8]) {
        self.debts.remove(key);
    }

    /// The update to carry out next, after one of this key among removals or puts: removals first, each in
    /// key order.
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

    /// The records of all, in the order of the journal, as which it is condensed; that is where they stand
    /// from now on.
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

    /// The updates within bounds, as a walk comes to them.
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

/// Updates that are owed, one after the other.
pub(in crate::ordered) struct Walk<'a> {
    rest: vec::IntoIter<Change<'a>>,
    at: Option<Change<'a>>,
}

impl<'a> Walk<'a> {
    /// All that follow.
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
