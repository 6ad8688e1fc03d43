//! The waiting pages of a file: those written before an open atomic batch began, and those written since.

use super::Slot;
use super::file::Extent;
use super::list::Record;
use super::slots::{Room, Slots};
use nandex::StoreError;
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Slots from before the open batch, or all slots without one.
    pub(super) slots: Slots,
    batch: Option<Batch>,
}

/// An open atomic batch: its slots, and the extent of the file before it.
#[derive(Debug, Default)]
struct Batch {
    slots: Slots,
    before: Extent,
    /// The batch cut the file to this many pages. Slots from before the batch do not count from there on.
    cut: u32,
    /// Slots from before the batch and below this page were tried for packing.
    tried: u32,
}

impl Waiting {
    pub(super) fn slot(&self, page: u32) -> Option<&Slot> {
        let Some(batch) = &self.batch else { return self.slots.get(page) };
        batch.slots.get(page).or_else(|| self.slots.get(page).filter(|_| page < batch.cut))
    }

    /// True if no page waits.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.batch.as_ref().is_none_or(|batch| batch.slots.is_empty())
    }

    pub(super) fn has_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// True if rolling back the open batch would show an earlier slot of this page.
    pub(super) fn is_before_batch(&self, page: u32) -> bool {
        self.batch.is_some() && self.slots.get(page).is_some()
    }

    /// The slots that take new writes.
    pub(super) fn open_slots(&mut self) -> &mut Slots {
        self.batch.as_mut().map_or(&mut self.slots, |batch| &mut batch.slots)
    }

    /// The slots that have a page; the batch's come first.
    pub(super) fn slots_with(&mut self, page: u32) -> &mut Slots {
        let batch = self.batch.as_mut().map(|batch| &mut batch.slots);
        batch.filter(|slots| slots.get(page).is_some()).unwrap_or(&mut self.slots)
    }

    /// Record and checksum of a packed page.
    pub(super) fn record(&self, page: u32) -> Option<(Record, u32)> {
        let batch = self.batch.as_ref().map(|batch| &batch.slots);
        batch.filter(|slots| slots.get(page).is_some()).unwrap_or(&self.slots).record(page)
    }

    /// The bytes of a page that is in RAM and not packed.
    pub(super) fn in_ram(&self, page: u32) -> Option<&[u8]> {
        match self.slot(page)? {
            Slot::Ram(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The next unpacked page in RAM from before the open batch. Each is returned once.
    pub(super) fn next_before_batch(&mut self) -> Option<u32> {
        let batch = self.batch.as_mut()?;
        let page = self.slots.unpacked_from(batch.tried)?;
        batch.tried = page + 1;
        Some(page)
    }

    /// The waiting pages, each once.
    pub(super) fn pages(&self) -> BTreeSet<u32> {
        let cut = self.batch.as_ref().map_or(u32::MAX, |batch| batch.cut);
        let earlier = self.slots.iter().filter(|(page, _)| *page < cut);
        let batch = self.batch.iter().flat_map(|batch| batch.slots.iter());
        earlier.chain(batch).map(|(page, _)| page).collect()
    }

    /// Bytes of RAM of the pages that are not packed.
    pub(super) fn unpacked_bytes(&self) -> usize {
        let batch = self.batch.as_ref().map_or(0, |batch| batch.slots.unpacked_bytes());
        self.slots.unpacked_bytes() + batch
    }

    /// Makes bundles if many packed pages are in none.
    pub(super) fn bundle(&mut self, used: &mut usize) {
        self.slots.bundle(used);
        if let Some(batch) = &mut self.batch {
            batch.slots.bundle(used);
        }
    }

    /// Forgets all slots and returns store pages, as [`Slots::take_spilled`] does.
    pub(super) fn take_spilled(&mut self, used: &mut usize) -> Vec<u32> {
        let mut spilled = self.slots.take_spilled(used);
        if let Some(mut batch) = self.batch.take() {
            spilled.extend(batch.slots.take_spilled(used));
        }
        spilled
    }

    /// Begins an atomic batch; `before` is the extent of the file now.
    pub(super) fn begin_batch(&mut self, before: Extent) {
        debug_assert!(self.batch.is_none(), "a batch within a batch");
        self.batch = Some(Batch { before, cut: u32::MAX, ..Batch::default() });
    }

    /// Drops the writes since the batch began. Returns the extent before it and the result of the trims;
    /// `None` without a batch.
    pub(super) fn roll_back(&mut self, room: &mut Room<'_>) -> Option<(Extent, Result<(), StoreError>)> {
        let mut batch = self.batch.take()?;
        Some((batch.before, batch.slots.drop_from(0, room)))
    }

    /// Notes that the file now has `pages` pages instead of `had`.
    pub(super) fn shorten(&mut self, pages: u32, had: u32, room: &mut Room<'_>) -> Result<(), StoreError> {
        if let Some(batch) = &mut self.batch {
            batch.cut = batch.cut.min(pages);
        }
        if pages < had { self.open_slots().drop_from(pages, room) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::medium;
    use super::*;

    #[test]
    fn a_batch_hides_what_waited_until_it_is_taken_back() {
        let (mut medium, mut used, mut waiting) = (medium(), 0, Waiting::default());
        let mut room = Room { medium: &mut medium, used: &mut used, most: usize::MAX };
        let bytes = |byte: u8| vec![byte; 512].into_boxed_slice();
        for page in [0, 1, 5] {
            waiting.open_slots().put(page, bytes(1), &mut room).unwrap();
        }
        let before = Extent { size: 3000, visible: 0 };
        waiting.begin_batch(before);
        waiting.open_slots().put(1, bytes(2), &mut room).unwrap();
        waiting.shorten(3, 6, &mut room).unwrap();
        assert_eq!(waiting.pages(), BTreeSet::from([0, 1]));
        assert_eq!((waiting.in_ram(1), waiting.in_ram(5)), (Some(&*bytes(2)), None));
        assert_eq!(waiting.roll_back(&mut room), Some((before, Ok(()))));
        assert_eq!(waiting.pages(), BTreeSet::from([0, 1, 5]));
        assert_eq!(waiting.in_ram(1), Some(&*bytes(1)));
        assert!(waiting.take_spilled(room.used).is_empty() && waiting.is_empty());
        assert_eq!(used, 0);
    }
}
