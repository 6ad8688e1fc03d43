//! Pages of a file that wait for a commit: those written before an atomic batch began, and since.

use super::Slot;
use super::file::Extent;
use super::list::Record;
use super::slots::{Room, Slots};
use nandex::StoreError;
use std::collections::BTreeSet;

/// The pages of a file that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Pages from before the batch that is open.
    pub(super) slots: Slots,
    /// The pages written since an atomic batch began.
    batch: Option<Batch>,
}

/// The pages written since an atomic batch began, and the state before.
#[derive(Debug, Default)]
struct Batch {
    slots: Slots,
    before: Extent,
    /// Earlier slots from this page on were cut off since.
    cut: u32,
    /// Earlier slots before this page were packed, where that was worth while.
    tried: u32,
}

impl Waiting {
    pub(super) fn slot(&self, page: u32) -> Option<&Slot> {
        let Some(batch) = &self.batch else { return self.slots.get(page) };
        batch.slots.get(page).or_else(|| self.slots.get(page).filter(|_| page < batch.cut))
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.batch.as_ref().is_none_or(|batch| batch.slots.is_empty())
    }

    pub(super) fn has_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// Whether an atomic batch that is taken back finds a page as it waited before.
    pub(super) fn is_before_batch(&self, page: u32) -> bool {
        self.batch.is_some() && self.slots.get(page).is_some()
    }

    /// The slots that take what is written now.
    pub(super) fn open_slots(&mut self) -> &mut Slots {
        self.batch.as_mut().map_or(&mut self.slots, |batch| &mut batch.slots)
    }

    /// The slots that have a page, as [`Waiting::slot`] finds it.
    pub(super) fn slots_with(&mut self, page: u32) -> &mut Slots {
        let batch = self.batch.as_mut().map(|batch| &mut batch.slots);
        batch.filter(|slots| slots.get(page).is_some()).unwrap_or(&mut self.slots)
    }

    /// The record that makes a page that is packed, and its checksum.
    pub(super) fn record(&self, page: u32) -> Option<(Record, u32)> {
        let batch = self.batch.as_ref().map(|batch| &batch.slots);
        batch.filter(|slots| slots.get(page).is_some()).unwrap_or(&self.slots).record(page)
    }

    /// The bytes of a page that is in RAM as it is.
    pub(super) fn in_ram(&self, page: u32) -> Option<&[u8]> {
        match self.slot(page)? {
            Slot::Ram(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The next page in RAM from before the batch that is open, each of them once.
    pub(super) fn next_before_batch(&mut self) -> Option<u32> {
        let batch = self.batch.as_mut()?;
        let page = self.slots.unpacked_from(batch.tried)?;
        batch.tried = page + 1;
        Some(page)
    }

    /// The pages, each once.
    pub(super) fn pages(&self) -> BTreeSet<u32> {
        let cut = self.batch.as_ref().map_or(u32::MAX, |batch| batch.cut);
        let earlier = self.slots.iter().filter(|(page, _)| *page < cut);
        let batch = self.batch.iter().flat_map(|batch| batch.slots.iter());
        earlier.chain(batch).map(|(page, _)| page).collect()
    }

    /// Bytes of RAM of the pages that are as they are.
    pub(super) fn unpacked_bytes(&self) -> usize {
        let batch = self.batch.as_ref().map_or(0, |batch| batch.slots.unpacked_bytes());
        self.slots.unpacked_bytes() + batch
    }

    /// Packs together what makes packed pages.
    pub(super) fn bundle(&mut self, used: &mut usize) {
        self.slots.bundle(used);
        if let Some(batch) = &mut self.batch {
            batch.slots.bundle(used);
        }
    }

    /// Forgets all pages and returns where spilled ones are, as [`Slots::take_spilled`] does.
    pub(super) fn take_spilled(&mut self, used: &mut usize) -> Vec<u32> {
        let mut spilled = self.slots.take_spilled(used);
        if let Some(mut batch) = self.batch.take() {
            spilled.extend(batch.slots.take_spilled(used));
        }
        spilled
    }

    /// Begins an atomic batch in a file that is so.
    pub(super) fn begin_batch(&mut self, before: Extent) {
        debug_assert!(self.batch.is_none(), "a batch within a batch");
        self.batch = Some(Batch { before, cut: u32::MAX, ..Batch::default() });
    }

    /// Drops what was written since the batch began. `None`: there is no batch. Else the state before it, and
    /// whether the store trimmed what had been spilled.
    pub(super) fn roll_back(&mut self, room: &mut Room<'_>) -> Option<(Extent, Result<(), StoreError>)> {
        let mut batch = self.batch.take()?;
        Some((batch.before, batch.slots.drop_from(0, room)))
    }

    /// Notes that the file ends at this page now, and before it did at that one.
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
