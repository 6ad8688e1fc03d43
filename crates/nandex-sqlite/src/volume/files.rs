//! Opening, reading, writing, shortening and deleting files.

use super::table::LOGGED_PAGES;
use super::{File, FileId, Purpose, Volume};
use crate::locks::{Level, Locks};
use crate::settings::Journals;
use nandex::StoreError;

/// The bytes with which a journal of SQLite begins and, as part of a larger transaction, ends.
const JOURNAL_MAGIC: &[u8] = &[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Bytes that SQLite overwrites with zeros where it ends a rollback journal and keeps the file.
const JOURNAL_HEADER_BYTES: usize = 28;

/// Bytes behind the name of a super-journal: its length, a checksum, and the magic.
const SUPER_END_BYTES: usize = 16;

impl Volume {
    /// Opens a file; a nameless one is always new. `None`: it is not there and was not to be created.
    pub(crate) fn open_file(&mut self, name: Option<&str>, purpose: Purpose, create: bool) -> Option<FileId> {
        let found = name.and_then(|name| self.files.names.get(name)).copied();
        if found.is_none() && !create {
            return None;
        }
        let purpose = match purpose {
            Purpose::Journal if self.settings.journals == Journals::Ram => Purpose::RamJournal,
            other => other,
        };
        let new = || File { name: name.map(String::from), purpose, ..File::default() };
        let id = found.unwrap_or_else(|| self.files.add(new()));
        self.files.get_mut(id)?.handles += 1;
        Some(id)
    }

    /// Whether there is a file of this name.
    pub(crate) fn exists(&self, name: &str) -> bool {
        self.files.names.contains_key(name)
    }

    /// Whether a database has this name.
    pub(crate) fn is_database(&self, name: &str) -> bool {
        self.files.named(name).is_some_and(|file| file.purpose == Purpose::Main)
    }

    /// Ends one use of a file. The last one commits what waits, unless its commit was refused before, and
    /// drops the file if it has no name.
    ///
    /// # Errors
    ///
    /// Those of [`Volume::commit`].
    pub(crate) fn close_file(&mut self, id: FileId) -> Result<(), StoreError> {
        let Some(file) = self.files.get_mut(id) else { return Ok(()) };
        file.handles -= 1;
        if file.handles > 0 {
            return Ok(());
        }
        if file.name.is_none() || file.purpose == Purpose::Temporary {
            return self.files.forget(id, &mut self.medium);
        }
        let done = if file.purpose.is_kept() && !file.is_failed { self.commit(&[id]) } else { Ok(()) };
        if let Some(mut pages) = self.files.pages(id, &mut self.medium)
            && (done.is_err() || pages.file.is_failed)
        {
            pages.revert();
        }
        done
    }

    /// Commits what waits in a database with a write-ahead log, where that is much and RAM is short: a
    /// checkpoint writes it, and it may go to its place at any time.
    fn apply_checkpoint(&mut self, id: FileId) -> Result<(), StoreError> {
        let waits = self.files.get(id).map_or(0, |file| file.waiting.slots.len());
        if waits < LOGGED_PAGES {
            return Ok(());
        }
        let pages = self.files.pages(id, &mut self.medium);
        let is_due = pages.is_some_and(|pages| pages.is_logged && pages.room.is_short());
        if is_due { self.commit(&[id]) } else { Ok(()) }
    }

    /// Commits a write-ahead log, where the database can grow to so many bytes after it: a checkpoint must
    /// have room, or the log could never end.
    fn commit_log(&mut self, id: FileId, bytes: u64) -> Result<(), StoreError> {
        let growth = |file: &File, bytes: u64| {
            (bytes.div_ceil(self.medium.page_bytes as u64) as u32).saturating_sub(file.placed.capacity())
        };
        let Some(file) = self.files.get(id) else { return Ok(()) };
        let main = self.files.database_of(id, "-wal").and_then(|main| self.files.get(main));
        let of_main = main.map_or(0, |main| growth(main, bytes));
        if of_main + growth(file, file.now.size) > self.medium.space.room() {
            self.give_up_on(id, &StoreError::Full);
            return Err(StoreError::Full);
        }
        if let Some(file) = self.files.get_mut(id) {
            file.owed = of_main;
        }
        self.commit(&[id])
    }

    /// Notes that a write or a commit of a file failed.
    pub(super) fn give_up_on(&mut self, id: FileId, error: &StoreError) {
        self.medium.last_error = error.to_string();
        if let Some(mut pages) = self.files.pages(id, &mut self.medium) {
            pages.give_up(error);
        }
    }

    /// Deletes a name. What has the file open keeps it until it closes it. `false`: there is none.
    ///
    /// # Errors
    ///
    /// Where the flash has the file and the directory without it cannot be written: the file is still there.
    pub(crate) fn delete(&mut self, name: &str) -> Result<bool, StoreError> {
        if let Some(main) = name.strip_suffix("-wal").and_then(|main| self.files.names.get(main)) {
            self.commit(&[*main])?;
        }
        let Some(id) = self.files.names.remove(name) else { return Ok(false) };
        let Some(file) = self.files.get_mut(id) else { return Ok(false) };
        let taken = file.name.take();
        if file.placed.is_listed
            && let Err(error) = self.unlist(id)
        {
            if let Some(file) = self.files.get_mut(id) {
                file.name = taken;
            }
            self.files.names.insert(String::from(name), id);
            return Err(error);
        }
        if self.files.get(id).is_some_and(|file| file.handles == 0) {
            self.files.forget(id, &mut self.medium)?;
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
        if self.files.named(name).is_some_and(|file| file.handles > 0) {
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
        self.files.get(id).map_or(0, |file| file.now.size)
    }

    /// Reads from a place on; returns how many bytes there were. The rest of the buffer is zeros.
    ///
    /// # Errors
    ///
    /// Those of the store, and [`StoreError::Corrupted`] where a spilled page is not what was spilled.
    pub(crate) fn read(&mut self, id: FileId, offset: u64, data: &mut [u8]) -> Result<usize, StoreError> {
        data.fill(0);
        let Some(file) = self.files.get_mut(id) else { return Ok(0) };
        file.log.read(offset, data.len());
        let there = file.now.size.saturating_sub(offset).min(data.len() as u64) as usize;
        if file.purpose == Purpose::RamJournal {
            let target = &mut data[..there];
            self.files
                .with_journal(id, &mut self.medium, |pieces, saved| pieces.read(offset, target, saved))?;
        } else {
            file.read(offset, data, there, &mut self.medium)?;
        }
        Ok(there)
    }

    /// Writes from a place on. Nothing of it is on the flash before the next commit.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] where RAM is short and the store has no free page to spill to; those of the
    /// store.
    pub(crate) fn write(&mut self, id: FileId, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let purpose = self.files.get(id).map(|file| file.purpose);
        if purpose == Some(Purpose::RamJournal) && offset == 0 && data == [0; JOURNAL_HEADER_BYTES] {
            // The journal says no more, and takes the RAM of transactions to come.
            self.truncate(id, 0)?;
        }
        self.apply_checkpoint(id)?;
        if let Err(error) = self.files.write(id, offset, data, &mut self.medium) {
            self.give_up_on(id, &error);
            return Err(error);
        }
        let is_log = |file: &&mut File| file.purpose == Purpose::Kept;
        let ended = self.files.get_mut(id).filter(is_log).and_then(|file| file.log.ends_with(offset, data));
        ended.map_or(Ok(()), |bytes| self.commit_log(id, bytes))
    }

    /// Makes a file shorter or longer. Pages beyond the end are trimmed once that is committed.
    ///
    /// # Errors
    ///
    /// Those of [`Volume::write`].
    pub(crate) fn truncate(&mut self, id: FileId, size: u64) -> Result<(), StoreError> {
        let Some(file) = self.files.get_mut(id) else { return Ok(()) };
        if file.purpose == Purpose::RamJournal {
            self.files.with_journal(id, &mut self.medium, |pieces, saved| pieces.truncate(size, saved))?;
            self.files.get_mut(id).into_iter().for_each(|file| file.now.size = size);
            return Ok(());
        }
        let page_bytes = self.medium.page_bytes;
        let within = (size % page_bytes as u64) as usize;
        if within > 0 && size < file.now.size {
            // What lies beyond must read as zeros when the file grows again.
            let (page, mut whole) = ((size / page_bytes as u64) as u32, vec![0; page_bytes]);
            file.load(page, &mut whole, &mut self.medium)?;
            whole[within..].fill(0);
            self.files.write_part(id, size - within as u64, &whole, &mut self.medium)?;
        }
        let pages = self.files.pages(id, &mut self.medium);
        let dropped = pages.map_or(Ok(()), |mut pages| pages.truncate(size));
        // A checkpoint of the log ends so. SQLite begins the log anew then, and syncs the database only if it
        // syncs at all.
        if self.files.log_of(id).is_some() { dropped.and(self.commit(&[id])) } else { dropped }
    }

    /// Begins an atomic batch: what is written from now on is committed or dropped as a whole.
    pub(crate) fn begin_batch(&mut self, id: FileId) {
        self.medium.stats.batches += 1;
        if let Some(file) = self.files.get_mut(id) {
            file.waiting.begin_batch(file.now);
        }
    }

    /// Drops what was written since the batch began.
    ///
    /// # Errors
    ///
    /// Where the store fails a trim; the batch is dropped all the same.
    pub(crate) fn roll_back_batch(&mut self, id: FileId) -> Result<(), StoreError> {
        self.files.pages(id, &mut self.medium).map_or(Ok(()), |mut pages| pages.roll_back_batch())
    }

    /// Lets the next commit of a file wait for the end of this super-journal, or for none any longer: what it
    /// holds now is to be committed by itself.
    pub(crate) fn hold(&mut self, id: FileId, super_journal: Option<&str>) {
        if let Some(file) = self.files.get_mut(id) {
            file.held_by = super_journal.map(String::from);
        }
    }

    /// Commits what waited for a super-journal, all files at once.
    ///
    /// # Errors
    ///
    /// Those of [`Volume::commit`].
    pub(crate) fn release(&mut self, super_journal: &str) -> Result<(), StoreError> {
        let held = |file: &File| file.held_by.as_deref() == Some(super_journal);
        let ids = self.files.which(held);
        ids.iter().for_each(|&id| self.hold(id, None));
        self.commit(&ids)
    }

    /// Whether a rollback journal ends as SQLite ends that of a part of a larger transaction: with the name
    /// of its super-journal.
    pub(crate) fn has_part_of(&mut self, super_journal: &str) -> bool {
        let is_journal = |file: &File| matches!(file.purpose, Purpose::Journal | Purpose::RamJournal);
        let ids = self.files.which(is_journal);
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
        self.files.get_mut(id).map(|file| &mut file.locks)
    }
}
