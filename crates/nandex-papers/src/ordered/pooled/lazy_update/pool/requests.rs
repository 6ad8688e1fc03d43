//! The requests of a pool, by key.

use crate::ordered::buffered::{Below, Order};
use crate::ordered::lazy_update::Pairs;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use nandex::check::{CheckReport, Invariant, message};
use nandex::ordered::RecordFormat;
use nandex::ordered::change::Change;

#[derive(Clone, Copy, Debug)]
struct Request {
    group: u32,
    /// Whether the request puts a value. If not, it removes the key.
    is_put: bool,
    below: Below,
}

impl Request {
    /// Whether the request, or a newer one that replaces it, may add a record to the tree.
    fn may_add(&self) -> bool {
        self.below != Below::Present
    }
}

/// The requests of a pool: keys, values, their order, and the number of additions. Each has the number of
/// its group, which means nothing here.
#[derive(Debug)]
pub(in super::super) struct Requests {
    pub(super) record: RecordFormat,
    pairs: Pairs,
    entries: Vec<u8>,
    requests: Vec<Request>,
    by_key: Order,
    free: Vec<u32>,
    /// Requests that may add a record to the tree.
    additions: u32,
}

impl Requests {
    pub(super) fn new(record: RecordFormat, pairs: Pairs, capacity: u32) -> Requests {
        let slots = capacity as usize;
        Requests {
            record,
            pairs,
            entries: vec![0; slots * record.entry_bytes()],
            requests: vec![Request { group: 0, is_put: false, below: Below::Unknown }; slots],
            by_key: Order::new(slots),
            free: (0..capacity).rev().collect(),
            additions: 0,
        }
    }

    pub(super) const fn slot_bytes(record: RecordFormat) -> usize {
        record.entry_bytes() + size_of::<Request>() + Order::slot_bytes() + size_of::<u32>()
    }

    #[cfg(test)]
    pub(super) fn table_bytes(&self) -> usize {
        self.entries.capacity()
            + self.requests.capacity() * size_of::<Request>()
            + self.free.capacity() * size_of::<u32>()
            + self.requests.len() * Order::slot_bytes()
    }

    pub(in super::super) fn len(&self) -> usize {
        self.requests.len() - self.free.len()
    }

    pub(in super::super) fn capacity(&self) -> usize {
        self.requests.len()
    }

    pub(in super::super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub(super) fn additions(&self) -> u32 {
        debug_assert!(self.additions as usize <= self.len(), "P5: more additions than requests");
        self.additions
    }

    pub(in super::super) fn key(&self, slot: u32) -> &[u8] {
        key_in(&self.entries, self.record, slot)
    }

    /// The value that a request puts. `None` if it removes the key.
    pub(in super::super) fn value(&self, slot: u32) -> Option<&[u8]> {
        let (entry, key) = (self.record.entry_bytes(), usize::from(self.record.key_bytes));
        let value = &self.entries[slot as usize * entry..][key..entry];
        self.requests[slot as usize].is_put.then_some(value)
    }

    pub(in super::super) fn below(&self, slot: u32) -> Below {
        debug_assert!((slot as usize) < self.requests.len(), "P1: no request {slot}");
        self.requests[slot as usize].below
    }

    pub(in super::super) fn group_of(&self, slot: u32) -> u32 {
        self.requests[slot as usize].group
    }

    pub(super) fn set_group(&mut self, slot: u32, group: u32) {
        self.requests[slot as usize].group = group;
    }

    pub(in super::super) fn find(&self, key: &[u8]) -> Option<u32> {
        self.by_key.find(|slot| self.key(slot).cmp(key))
    }

    /// The first request whose key is not below `key`.
    pub(in super::super) fn next(&self, key: &[u8]) -> Option<u32> {
        self.by_key.next(|slot| self.key(slot).cmp(key))
    }

    /// The last request whose key is not above `key`.
    pub(in super::super) fn previous(&self, key: &[u8]) -> Option<u32> {
        self.by_key.previous(|slot| self.key(slot).cmp(key))
    }

    pub(in super::super) fn after(&self, slot: u32) -> Option<u32> {
        let key = self.key(slot);
        self.by_key.next(|at| self.key(at).cmp(key).then(Ordering::Less))
    }

    pub(in super::super) fn before(&self, slot: u32) -> Option<u32> {
        let key = self.key(slot);
        self.by_key.previous(|at| self.key(at).cmp(key).then(Ordering::Greater))
    }

    pub(in super::super) fn first(&self) -> Option<u32> {
        self.by_key.next(|_| Ordering::Greater)
    }

    pub(in super::super) fn last(&self) -> Option<u32> {
        self.by_key.previous(|_| Ordering::Less)
    }

    /// The requests from `first` on, in the order of keys. Without `first` there are none.
    pub(super) fn walk(&self, first: Option<u32>) -> impl Iterator<Item = u32> + Clone {
        let key = first.map_or(&[][..], |slot| self.key(slot));
        let walk = self.by_key.walk(|at| self.key(at).cmp(key), |a, b| self.key(a).cmp(self.key(b)));
        walk.take_while(move |_| first.is_some())
    }

    /// The number of records that a request adds to its leaf. If the tree was not searched for the key, a
    /// put counts as a new record and a removal as one less, as in the paper.
    pub(in super::super) fn growth(&self, slot: u32) -> i32 {
        match (self.requests[slot as usize].is_put, self.below(slot)) {
            (true, Below::Absent | Below::Unknown) => 1,
            (false, Below::Present | Below::Unknown) => -1,
            _ => 0,
        }
    }

    /// Adds a request for a key that has none.
    pub(super) fn insert(&mut self, change: Change<'_>, below: Below, group: u32) -> u32 {
        let Some(slot) = self.free.pop() else { unreachable!("P1: a request has a slot") };
        let (entry, key) = (self.record.entry_bytes(), usize::from(self.record.key_bytes));
        self.entries[slot as usize * entry..][..key].copy_from_slice(change.key);
        self.requests[slot as usize] = Request { group, is_put: false, below };
        self.additions += u32::from(self.requests[slot as usize].may_add());
        self.set_value(slot, change.value);
        let (entries, record) = (&self.entries, self.record);
        self.by_key.insert(slot, |at| key_in(entries, record, at).cmp(change.key));
        debug_assert_eq!(self.find(change.key), Some(slot), "P1: a request is added and not found");
        slot
    }

    pub(super) fn set_value(&mut self, slot: u32, value: Option<&[u8]>) {
        let (entry, key) = (self.record.entry_bytes(), usize::from(self.record.key_bytes));
        self.requests[slot as usize].is_put = value.is_some();
        if let Some(value) = value {
            self.entries[slot as usize * entry..][key..entry].copy_from_slice(value);
        }
    }

    /// Whether a request and a newer one for its key cancel. `puts` says whether the newer one puts a
    /// value.
    pub(super) fn cancels(&self, slot: u32, puts: bool) -> bool {
        if puts == self.requests[slot as usize].is_put {
            return false;
        }
        match (self.below(slot), self.pairs) {
            (Below::Absent, _) => !puts,
            (Below::Present, Pairs::Published) => puts,
            (Below::Unknown, Pairs::Published) => true,
            (_, Pairs::Known) => false,
        }
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let (entries, record) = (&self.entries, self.record);
        let key = key_in(entries, record, slot);
        self.by_key.remove(slot, |at| key_in(entries, record, at).cmp(key));
        self.additions -= u32::from(self.requests[slot as usize].may_add());
        self.free.push(slot);
    }

    /// Checks P5, and that the order has exactly the requests in use.
    pub(super) fn check(&self, report: &mut CheckReport) {
        let (mut requests, mut additions) = (0, 0);
        for slot in self.walk(self.first()) {
            additions += u32::from(self.requests[slot as usize].may_add());
            requests += 1;
        }
        if requests != self.len() {
            let found = message!("{requests} requests in order, {} in use", self.len());
            report.violation(Invariant::P1, 0, found);
        }
        if additions != self.additions {
            report.violation(Invariant::P5, 0, message!("{additions} additions, {} counted", self.additions));
        }
    }
}

fn key_in(entries: &[u8], record: RecordFormat, slot: u32) -> &[u8] {
    &entries[slot as usize * record.entry_bytes()..][..usize::from(record.key_bytes)]
}
