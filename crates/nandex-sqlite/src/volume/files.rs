//! Opening, reading, writing, shortening and deleting files.

use super::log_tail::LogTail;
use super::slots::Slot;
use super::{Batch, File, LOGGED_PAGES, Volume};
use crate::locks::{Level, Locks};
use crate::settings::Journals;
use nandex::{Cause, Lpn, StoreError};

/// The bytes with which a journal of SQLite begins and, as part of a larger transaction, ends.
const JOURNAL_MAGIC: &[u8] = &[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Bytes that SQLite overwrites with zeros where it ends a rollback journal and keeps the file.
const JOURNAL_HEADER_BYTES: usize = 28;

/// Bytes behind the name of a super-journal: its length, a checksum, and the magic.
const SUPER_END_BYTES: usize = 16;

/// A file of a volume, while somebody has it open or it has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId(pub(super) u32);

/// The purpose of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A database: SQLite's header has its exact size.
    Main,
    /// A rollback journal.
    Journal,
    /// A write-ahead log, or what else must survive as it is.
    Kept,
    /// Needed while it is open.
    #[default]
    Temporary,
    /// A rollback journal that only the process itself needs.
    RamJournal,
}

impl Purpose {
    /// Whether the flash has it after a commit.
    pub(crate) fn is_kept(self) -> bool {
        matches!(self, Purpose::Main | Purpose::Journal | Purpose::Kept)
    }
}

impl Volume {
    /// Opens a file; a nameless one is always new. `None`: it is not there and was not to be created.
    pub(crate) fn open_file(&mut self, name: Option<&str>, purpose: Purpose, create: bool) -> Option<FileId> {
        let found = name.and_then(|name| self.names.get(name)).copied();
        if found.is_none() && !create {
            return None;
        }
        let id = found.unwrap_or_else(|| {
            let purpose = match purpose {
                Purpose::Journal if self.settings.journals == Journals::Ram => Purpose::RamJournal,
                other => other,
            };
            let id = FileId(self.next);
            self.next += 1;
            self.files.insert(id, File { name: name.map(String::from), purpose, ..File::default() });
            if let Some(name) = name {
                self.names.insert(String::from(name), id);
            }
            id
        });
        self.files.get_mut(&id)?.handles += 1;
        Some(id)
    }

    /// Whether there is a file of this name.
    pub(crate) fn exists(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Whether a database has this name.
    pub(crate) fn is_database(&self, name: &str) -> bool {
        let file = self.names.get(name).and_then(|id| self.files.get(id));
        file.is_some_and(|file| file.purpose == Purpose::Main)
    }

    /// Ends one use of a file. The last one commits what waits, unless its commit was refused before, and
    /// drops the file if it has no name.
    ///
    /// # Errors
    ///
    /// Those of [`Volume::commit`].
    pub(crate) fn close_file(&mut self, id: FileId) -> Result<(), StoreError> {
        let Some(file) = self.files.get_mut(&id) else { return Ok(()) };
        file.handles -= 1;
        if file.handles > 0 {
            return Ok(());
        }
        let is_gone = file.name.is_none() || file.purpose == Purpose::Temporary;
        let is_kept = file.purpose.is_kept() && !is_gone;
        let done = if is_kept && !file.is_failed { self.commit(&[id]) } else { Ok(()) };
        if is_gone {
            self.forget(id)
        } else if is_kept && done.is_err() || self.files.get(&id).is_some_and(|file| file.is_failed) {
            self.revert(id);
            done
        } else {
            done
        }
    }

    /// Drops what waits: the file is as the last commit left it.
    fn revert(&mut self, id: FileId) {
        // What cannot be trimmed is not read either.
        let _ = self.roll_back_batch(id);
        let (file, room) = self.parts(id);
        let Some(file) = file else { return };
        let _ = file.slots.drop_from(0, room);
        (file.size, file.visible) = file.settled;
        (file.is_failed, file.held_by, file.log) = (false, None, LogTail::default());
        self.drop_ahead(id);
    }

    /// The write-ahead log of a database that has one.
    pub(super) fn log_of(&self, id: FileId) -> Option<FileId> {
        let file = self.files.get(&id).filter(|file| file.purpose == Purpose::Main)?;
        self.names.get(&format!("{}-wal", file.name.as_ref()?)).copied()
    }

    /// Commits what waits in a database with a write-ahead log, where that is much and RAM is short: a
    /// checkpoint writes it, and it may go to its place at any time.
    fn apply_checkpoint(&mut self, id: FileId) -> Result<(), StoreError> {
        let waits = self.files.get(&id).map_or(0, |file| file.slots.len());
        let is_due = waits >= LOGGED_PAGES && self.log_of(id).is_some();
        if is_due && self.parts(id).1.is_short() { self.commit(&[id]) } else { Ok(()) }
    }

    /// Commits a write-ahead log, where the database can grow to so many bytes after it: a checkpoint must
    /// have room, or the log could never end.
    fn commit_log(&mut self, id: FileId, bytes: u64) -> Result<(), StoreError> {
        let growth = |file: &File, bytes: u64| {
            (bytes.div_ceil(self.page_bytes as u64) as u32).saturating_sub(file.capacity())
        };
        let Some(file) = self.files.get(&id) else { return Ok(()) };
        let main = file.name.as_deref().and_then(|name| self.names.get(name.strip_suffix("-wal")?));
        let of_main = main.and_then(|main| self.files.get(main)).map_or(0, |main| growth(main, bytes));
        if of_main + growth(file, file.size) > self.space.room() {
            self.give_up_on(id, &StoreError::Full);
            return Err(StoreError::Full);
        }
        if let Some(file) = self.files.get_mut(&id) {
            file.owed = of_main;
        }
        self.commit(&[id])
    }

    /// Notes that a write or a commit of a file failed. Where it was refused, what waits in a database or its
    /// log goes: SQLite takes back the whole transaction, and the half that it had written must not be taken
    /// for what it takes back. What waits in a database with such a log is all acknowledged, and stays.
    pub(super) fn give_up_on(&mut self, id: FileId, error: &StoreError) {
        self.last_error = error.to_string();
        let has_log = self.log_of(id).is_some();
        let Some(file) = self.files.get_mut(&id) else { return };
        file.is_failed = true;
        if !has_log && error.is_refusal() && matches!(file.purpose, Purpose::Main | Purpose::Kept) {
            file.is_reverted = true;
            self.revert(id);
        }
    }

    /// Drops a file that has no name and no user.
    fn forget(&mut self, id: FileId) -> Result<(), StoreError> {
        self.drop_ahead(id);
        let (file, room) = self.parts(id);
        let Some(file) = file else { return Ok(()) };
        let name = file.name.take();
        *room.used -= file.journal.ram_bytes();
        let dropped = file.slots.drop_from(0, room);
        self.files.remove(&id);
        if let Some(name) = name {
            self.names.remove(&name);
        }
        dropped
    }

    /// Deletes a name. What has the file open keeps it until it closes it. `false`: there is none.
    ///
    /// # Errors
    ///
    /// Where the flash has the file and the directory without it cannot be written: the file is still there.
    pub(crate) fn delete(&mut self, name: &str) -> Result<bool, StoreError> {
        if let Some(main) = name.strip_suffix("-wal").and_then(|main| self.names.get(main)) {
            self.commit(&[*main])?;
        }
        let Some(id) = self.names.remove(name) else { return Ok(false) };
        let Some(file) = self.files.get_mut(&id) else { return Ok(false) };
        let taken = file.name.take();
        if file.is_listed
            && let Err(error) = self.unlist(id)
        {
            if let Some(file) = self.files.get_mut(&id) {
                file.name = taken;
            }
            self.names.insert(String::from(name), id);
            return Err(error);
        }
        if self.files.get(&id).is_some_and(|file| file.handles == 0) {
            self.forget(id)?;
        }
        Ok(true)
    }

    /// Removes a database, or what else survives, and gives its pages back. `false`: there is none of that
    /// name.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] while it is open, and those of the store: it is still there.
    pub fn remove(&mut self, name: &str) -> Result<bool, StoreError> {
        let file = self.names.get(name).and_then(|id| self.files.get(id));
        if file.is_some_and(|file| file.handles > 0) {
            return Err(StoreError::Unsupported(format!("{name} is open").into()));
        }
        let done = self.delete(name)?;
        for companion in ["-journal", "-wal"] {
            self.delete(&format!("{name}{companion}"))?;
        }
        Ok(done)
    }

    /// Bytes of a file.
    pub(crate) fn size(&self, id: FileId) -> u64 {
        self.files.get(&id).map_or(0, |file| file.size)
    }

    /// Reads from a place on; returns how many bytes there were. The rest of the buffer is zeros.
    ///
    /// # Errors
    ///
    /// Those of the store, and [`StoreError::Corrupted`] where a spilled page is not what was spilled.
    pub(crate) fn read(&mut self, id: FileId, offset: u64, data: &mut [u8]) -> Result<usize, StoreError> {
        data.fill(0);
        if let Some(file) = self.files.get_mut(&id) {
            file.log.read(offset, data.len());
        }
        let size = self.size(id);
        let there = size.saturating_sub(offset).min(data.len() as u64) as usize;
        if self.is_of_ram(id) {
            return self.read_journal(id, offset, &mut data[..there]).map(|()| there);
        }
        let page_bytes = self.page_bytes as u64;
        let mut done = 0;
        while done < there {
            let place = offset + done as u64;
            let (page, within) = ((place / page_bytes) as u32, (place % page_bytes) as usize);
            let bytes = (self.page_bytes - within).min(there - done);
            let is_wide = data.len() > self.page_bytes;
            let target = &mut data[done..done + bytes];
            if bytes == self.page_bytes {
                self.load(id, page, target)?;
                if is_wide {
                    self.learn_read(id, page, &data[done..done + bytes]);
                }
            } else {
                let mut whole = vec![0; self.page_bytes];
                self.load(id, page, &mut whole)?;
                target.copy_from_slice(&whole[within..within + bytes]);
            }
            done += bytes;
        }
        Ok(there)
    }

    /// Reads a page of a file, from wherever it is; a page that was never written is zeros.
    pub(super) fn load(&mut self, id: FileId, page: u32, data: &mut [u8]) -> Result<(), StoreError> {
        let Some(file) = self.files.get(&id) else {
            data.fill(0);
            return Ok(());
        };
        match file.slot(page) {
            Some(Slot::Ram(bytes)) => {
                data.copy_from_slice(bytes);
                return Ok(());
            }
            Some(&Slot::Spilled { lpn, crc, .. }) => return self.read_checked(lpn, crc, data),
            Some(Slot::Packed { .. } | Slot::Bundled { .. }) => return self.load_packed(id, page, data),
            None => {}
        }
        match file.home(page) {
            Some(home) if page < file.visible => self.read_home(home, data),
            _ => {
                data.fill(0);
                Ok(())
            }
        }
    }

    /// Reads a page of the store that must have this checksum.
    pub(super) fn read_checked(&mut self, lpn: u32, crc: u32, data: &mut [u8]) -> Result<(), StoreError> {
        self.store.read(Lpn(lpn), Cause::Host, data)?;
        if crc32fast::hash(data) == crc {
            return Ok(());
        }
        Err(StoreError::Corrupted { what: "a page put aside is not what it was", at: u64::from(lpn) })
    }

    /// Writes from a place on. Nothing of it is on the flash before the next commit.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] where RAM is short and the store has no free page to spill to; those of the
    /// store.
    pub(crate) fn write(&mut self, id: FileId, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let is_of_ram = self.is_of_ram(id);
        if is_of_ram && offset == 0 && data == [0; JOURNAL_HEADER_BYTES] {
            // The journal says no more, and takes the RAM of transactions to come.
            self.truncate(id, 0)?;
        }
        self.apply_checkpoint(id)?;
        let written =
            if is_of_ram { self.write_journal(id, offset, data) } else { self.write_all(id, offset, data) };
        if let Err(error) = written {
            self.give_up_on(id, &error);
            return Err(error);
        }
        let is_log = |file: &&mut File| file.purpose == Purpose::Kept;
        let log = self.files.get_mut(&id).filter(is_log).map(|file| &mut file.log);
        match log.and_then(|log| log.ends_with(offset, data)) {
            Some(bytes) => self.commit_log(id, bytes),
            None => Ok(()),
        }
    }

    /// Whether a file is a journal that only the process itself needs.
    fn is_of_ram(&self, id: FileId) -> bool {
        self.files.get(&id).is_some_and(|file| file.purpose == Purpose::RamJournal)
    }

    fn write_all(&mut self, id: FileId, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let page_bytes = self.page_bytes as u64;
        if (offset + data.len() as u64).div_ceil(page_bytes) > u64::from(self.store.page_count()) {
            return Err(StoreError::Full);
        }
        if let Some(file) = self.files.get_mut(&id) {
            file.is_wide |= data.len() > self.page_bytes;
        }
        let mut done = 0;
        while done < data.len() {
            let place = offset + done as u64;
            let (page, within) = ((place / page_bytes) as u32, (place % page_bytes) as usize);
            let bytes = (self.page_bytes - within).min(data.len() - done);
            self.write_page(id, page, within, &data[done..done + bytes])?;
            done += bytes;
            if let Some(file) = self.files.get_mut(&id) {
                file.size = file.size.max(place + bytes as u64);
            }
        }
        Ok(())
    }

    pub(super) fn write_page(
        &mut self,
        id: FileId,
        page: u32,
        within: usize,
        part: &[u8],
    ) -> Result<(), StoreError> {
        let Some(file) = self.files.get_mut(&id) else { return Ok(()) };
        if let Some(bytes) = file.open_slots().ram_mut(page) {
            bytes[within..within + part.len()].copy_from_slice(part);
            return Ok(());
        }
        let mut whole = vec![0; self.page_bytes].into_boxed_slice();
        if part.len() < self.page_bytes {
            self.load(id, page, &mut whole)?;
        }
        whole[within..within + part.len()].copy_from_slice(part);
        let is_settled = self.is_settled(id, page, &whole);
        let (file, room) = self.parts(id);
        let Some(file) = file else { return Ok(()) };
        if is_settled {
            return file.slots.drop_page(page, room);
        }
        file.open_slots().put(page, whole, room)?;
        self.spill(id, page)
    }

    /// Whether a page is to be as its place has it, and should not wait: SQLite takes back what it wrote, and
    /// that must not be refused for want of RAM or pages.
    fn is_settled(&mut self, id: FileId, page: u32, bytes: &[u8]) -> bool {
        let (file, room) = self.parts(id);
        let is_short = room.is_short();
        let Some(file) = file.filter(|file| file.batch.is_none() && page < file.visible) else {
            return false;
        };
        let Some(home) = file.home(page).filter(|_| file.is_reverted || is_short) else { return false };
        let mut there = vec![0; self.page_bytes];
        self.read_home(home, &mut there).is_ok() && there == bytes
    }

    /// Makes a file shorter or longer. Pages beyond the end are trimmed once that is committed.
    ///
    /// # Errors
    ///
    /// Those of [`Volume::write`].
    pub(crate) fn truncate(&mut self, id: FileId, size: u64) -> Result<(), StoreError> {
        if self.is_of_ram(id) {
            return self.truncate_journal(id, size);
        }
        let within = (size % self.page_bytes as u64) as usize;
        if within > 0 && size < self.size(id) {
            // What lies beyond must read as zeros when the file grows again.
            let page = (size / self.page_bytes as u64) as u32;
            let mut whole = vec![0; self.page_bytes];
            self.load(id, page, &mut whole)?;
            whole[within..].fill(0);
            self.write_page(id, page, 0, &whole)?;
        }
        let pages = size.div_ceil(self.page_bytes as u64) as u32;
        let (file, room) = self.parts(id);
        let Some(file) = file else { return Ok(()) };
        let grown_over = file.size.div_ceil(room.store.page_bytes() as u64) as u32;
        file.size = size;
        file.visible = file.visible.min(pages);
        if let Some(batch) = &mut file.batch {
            batch.cut = batch.cut.min(pages);
        }
        let dropped = if pages < grown_over { file.open_slots().drop_from(pages, room) } else { Ok(()) };
        // A checkpoint of the log ends so. SQLite begins the log anew then, and syncs the database only if it
        // syncs at all.
        if self.log_of(id).is_some() { dropped.and(self.commit(&[id])) } else { dropped }
    }

    /// Begins an atomic batch: what is written from now on is committed or dropped as a whole.
    pub(crate) fn begin_batch(&mut self, id: FileId) {
        self.stats.batches += 1;
        if let Some(file) = self.files.get_mut(&id) {
            debug_assert!(file.batch.is_none(), "a batch within a batch");
            let (size, visible) = (file.size, file.visible);
            file.batch = Some(Batch { size, visible, cut: u32::MAX, ..Batch::default() });
        }
    }

    /// Drops what was written since the batch began.
    ///
    /// # Errors
    ///
    /// Where the store fails a trim; the batch is dropped all the same.
    pub(crate) fn roll_back_batch(&mut self, id: FileId) -> Result<(), StoreError> {
        let (file, room) = self.parts(id);
        let Some(file) = file else { return Ok(()) };
        let Some(mut batch) = file.batch.take() else { return Ok(()) };
        (file.size, file.visible) = (batch.size, batch.visible);
        batch.slots.drop_from(0, room)
    }

    /// Lets the next commit of a file wait for the end of this super-journal.
    pub(crate) fn hold(&mut self, id: FileId, super_journal: &str) {
        if let Some(file) = self.files.get_mut(&id) {
            file.held_by = Some(String::from(super_journal));
        }
    }

    /// Lets a file wait for no super-journal any longer: what it holds now is to be committed by itself.
    pub(crate) fn stop_holding(&mut self, id: FileId) {
        if let Some(file) = self.files.get_mut(&id) {
            file.held_by = None;
        }
    }

    /// Commits what waited for a super-journal, all files at once.
    ///
    /// # Errors
    ///
    /// Those of [`Volume::commit`].
    pub(crate) fn release(&mut self, super_journal: &str) -> Result<(), StoreError> {
        let held = |file: &File| file.held_by.as_deref() == Some(super_journal);
        let ids: Vec<FileId> = self.files.iter().filter(|(_, file)| held(file)).map(|(&id, _)| id).collect();
        for id in &ids {
            if let Some(file) = self.files.get_mut(id) {
                file.held_by = None;
            }
        }
        self.commit(&ids)
    }

    /// Whether a rollback journal ends as SQLite ends that of a part of a larger transaction: with the name
    /// of its super-journal.
    pub(crate) fn has_part_of(&mut self, super_journal: &str) -> bool {
        let is_journal = |file: &File| matches!(file.purpose, Purpose::Journal | Purpose::RamJournal);
        let ids: Vec<FileId> =
            self.files.iter().filter(|(_, file)| is_journal(file)).map(|(&id, _)| id).collect();
        let mut end = vec![0; super_journal.len() + SUPER_END_BYTES];
        ids.into_iter().any(|id| {
            let place = self.size(id).checked_sub(end.len() as u64);
            let read = place.map(|place| self.read(id, place, &mut end));
            matches!(read, Some(Ok(_)))
                && end.ends_with(JOURNAL_MAGIC)
                && end.starts_with(super_journal.as_bytes())
        })
    }

    /// Raises the lock of one who has the file open; whether it has now what it wanted.
    pub(crate) fn lock(&mut self, id: FileId, held: &mut Level, wanted: Level) -> bool {
        self.locks(id).is_none_or(|locks| locks.raise(held, wanted))
    }

    /// Lowers it.
    pub(crate) fn unlock(&mut self, id: FileId, held: &mut Level, wanted: Level) {
        if let Some(locks) = self.locks(id) {
            locks.lower(held, wanted);
        }
    }

    /// Whether somebody is about to write to the file.
    pub(crate) fn is_reserved(&mut self, id: FileId) -> bool {
        self.locks(id).is_some_and(|locks| locks.is_reserved())
    }

    fn locks(&mut self, id: FileId) -> Option<&mut Locks> {
        self.files.get_mut(&id).map(|file| &mut file.locks)
    }
}
