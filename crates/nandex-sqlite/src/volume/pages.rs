//! Changing the pages of one file.

use super::log_tail::LogTail;
use super::slots::Room;
use super::{File, Purpose};
use nandex::StoreError;

/// A file, and what of the volume its pages may use.
pub(super) struct Pages<'a> {
    pub(super) file: &'a mut File,
    pub(super) room: Room<'a>,
    /// Whether it is a database with a write-ahead log.
    pub(super) is_logged: bool,
    /// Pages by which it grows at least.
    pub(super) growth: u32,
}

impl Pages<'_> {
    /// Writes a part of a page; whether another page waits in RAM by that.
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

    /// Whether a page is to be as its place has it, and should not wait: SQLite takes back what it wrote, and
    /// that must not be refused for want of RAM or pages.
    fn is_settled(&mut self, page: u32, bytes: &[u8]) -> bool {
        let may = !self.file.waiting.has_batch() && (self.file.is_reverted || self.room.is_short());
        let Some(home) = self.file.visible_home(page).filter(|_| may) else { return false };
        let mut there = vec![0; bytes.len()];
        self.room.medium.read(home, &mut there).is_ok() && there == bytes
    }

    /// Keeps a packed page as it is.
    pub(super) fn unpack(&mut self, page: u32) -> Result<(), StoreError> {
        let mut bytes = vec![0; self.room.medium.page_bytes];
        self.file.load(page, &mut bytes, self.room.medium)?;
        self.file.waiting.slots_with(page).put(page, bytes.into(), &mut self.room)
    }

    /// Makes the file shorter or longer; the page where it ends is not touched.
    pub(super) fn truncate(&mut self, size: u64) -> Result<(), StoreError> {
        let had = self.file.pages(self.room.medium.page_bytes);
        self.file.now.size = size;
        let pages = self.file.pages(self.room.medium.page_bytes);
        self.file.now.visible = self.file.now.visible.min(pages);
        self.file.waiting.shorten(pages, had, &mut self.room)
    }

    /// Drops what was written since a batch began.
    pub(super) fn roll_back_batch(&mut self) -> Result<(), StoreError> {
        let Some((before, dropped)) = self.file.waiting.roll_back(&mut self.room) else { return Ok(()) };
        self.file.now = before;
        dropped
    }

    /// Drops what waits: the file is as the last commit left it.
    pub(super) fn revert(&mut self) {
        // What cannot be trimmed is not read either.
        let _ = self.roll_back_batch();
        let _ = self.file.waiting.slots.drop_from(0, &mut self.room);
        self.file.now = self.file.settled;
        (self.file.is_failed, self.file.held_by, self.file.log) = (false, None, LogTail::default());
        self.drop_ahead();
    }

    /// Notes that a write or a commit failed. Where it was refused, what waits in a database or its log goes:
    /// SQLite takes back the whole transaction, and the half that it had written must not be taken for what
    /// it takes back. What waits in a database with such a log is all acknowledged, and stays.
    pub(super) fn give_up(&mut self, error: &StoreError) {
        self.file.is_failed = true;
        let is_taken_back = matches!(self.file.purpose, Purpose::Main | Purpose::Kept);
        if !self.is_logged && error.is_refusal() && is_taken_back {
            self.file.is_reverted = true;
            self.revert();
        }
    }

    /// Drops all that the file has and the directory does not list.
    pub(super) fn forget(&mut self) -> Result<(), StoreError> {
        self.drop_ahead();
        *self.room.used -= self.file.journal.ram_bytes();
        self.file.waiting.slots.drop_from(0, &mut self.room)
    }

    /// Gives back what was taken for the file to grow by.
    pub(super) fn drop_ahead(&mut self) {
        let ahead = std::mem::take(&mut self.file.placed.ahead);
        self.room.medium.free(&ahead);
    }

    /// Gives back where pages were spilled to: all are as the flash has them.
    pub(super) fn drop_waiting(&mut self) {
        let spilled = self.file.waiting.take_spilled(self.room.used);
        self.room.medium.free_pages(spilled);
    }
}
