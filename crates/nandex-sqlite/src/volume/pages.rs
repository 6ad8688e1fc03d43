//! Changing the pages of one file.

use super::log_tail::LogTail;
use super::slots::Room;
use super::{File, Purpose};
use nandex::StoreError;

/// One file, and the room and RAM that its pages may use.
pub(super) struct Pages<'a> {
    pub(super) file: &'a mut File,
    pub(super) room: Room<'a>,
    /// True for a database with a write-ahead log.
    pub(super) is_logged: bool,
    /// Least number of store pages by which the file grows.
    pub(super) growth: u32,
}

impl Pages<'_> {
    /// Writes a part of a page. Returns whether the page waits in RAM now.
    pub(super) fn write(&mut self, page: u32, within: usize, part: &[u8]) -> Result<bool, StoreError> {
        let mut whole = vec![0; self.room.medium.page_bytes].into_boxed_slice();
        if part.len() < whole.len() {
            self.file.load(page, &mut whole, self.room.medium)?;
        }
        whole[within..within + part.len()].copy_from_slice(part);
        if self.is_settled(page, &whole) {
            return self.file.waiting.slots.forget(page, &mut self.room).map(|()| false);
        }
        self.file.waiting.open_slots().put(page, whole, &mut self.room)?;
        Ok(true)
    }

    /// True if `bytes` equal the page's home and the page need not wait. SQLite takes back its writes so,
    /// which must not fail for want of RAM or store pages.
    fn is_settled(&mut self, page: u32, bytes: &[u8]) -> bool {
        let may = !self.file.waiting.has_batch() && (self.file.is_reverted || self.room.is_short());
        let Some(home) = self.file.visible_home(page).filter(|_| may) else { return false };
        let mut there = vec![0; bytes.len()];
        self.room.medium.read(home, &mut there).is_ok() && there == bytes
    }

    /// Replaces the record of a packed page by the page.
    pub(super) fn unpack(&mut self, page: u32) -> Result<(), StoreError> {
        let mut bytes = vec![0; self.room.medium.page_bytes];
        self.file.load(page, &mut bytes, self.room.medium)?;
        self.file.waiting.slots_with(page).put(page, bytes.into(), &mut self.room)
    }

    /// Makes the file shorter or longer. The page at the new end is not touched.
    pub(super) fn truncate(&mut self, size: u64) -> Result<(), StoreError> {
        let had = self.file.pages(self.room.medium.page_bytes);
        self.file.now.size = size;
        let pages = self.file.pages(self.room.medium.page_bytes);
        self.file.now.visible = self.file.now.visible.min(pages);
        self.file.waiting.shorten(pages, had, &mut self.room)
    }

    /// Drops the writes since the batch began.
    pub(super) fn roll_back_batch(&mut self) -> Result<(), StoreError> {
        let Some((before, dropped)) = self.file.waiting.roll_back(&mut self.room) else { return Ok(()) };
        self.file.now = before;
        dropped
    }

    /// Drops all waiting pages: the file is as the last commit left it.
    pub(super) fn revert(&mut self) {
        // What cannot be trimmed is not read either.
        let _ = self.roll_back_batch();
        let _ = self.file.waiting.slots.drop_from(0, &mut self.room);
        self.file.now = self.file.settled;
        (self.file.is_failed, self.file.held_by, self.file.log) = (false, None, LogTail::default());
        self.drop_ahead();
    }

    /// Marks the file as failed. If a write or commit was refused, the waiting pages of a database or its log
    /// are dropped. SQLite then takes back its whole transaction, and the half already written must not be
    /// mistaken for that. Pages that wait in a database with a log were all acknowledged, and stay.
    pub(super) fn give_up(&mut self, error: &StoreError) {
        self.file.is_failed = true;
        let is_taken_back = matches!(self.file.purpose, Purpose::Main | Purpose::Kept);
        if !self.is_logged && error.is_refusal() && is_taken_back {
            self.file.is_reverted = true;
            self.revert();
        }
    }

    /// Drops the waiting pages and the store pages that the directory does not list.
    pub(super) fn forget(&mut self) -> Result<(), StoreError> {
        self.drop_ahead();
        *self.room.used -= self.file.journal.ram_bytes();
        self.file.waiting.slots.drop_from(0, &mut self.room)
    }

    /// Frees the store pages taken for the file to grow by.
    pub(super) fn drop_ahead(&mut self) {
        let ahead = std::mem::take(&mut self.file.placed.ahead);
        self.room.medium.free(&ahead);
    }

    /// Drops the waiting pages: all of them equal their homes.
    pub(super) fn drop_waiting(&mut self) {
        let spilled = self.file.waiting.take_spilled(self.room.used);
        self.room.medium.free_pages(spilled);
    }
}
