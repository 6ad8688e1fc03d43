//! Opening, reading, writing, shortening and deleting files.

use super::table::LOGGED_PAGES;
use super::{File, FileId, Purpose, Volume};
use crate::locks::{Level, Locks};
use crate::settings::Journals;
use nandex::StoreError;

/// First bytes of a rollback journal of SQLite. One that belongs to a super-journal ends with them too.
const JOURNAL_MAGIC: &[u8] = &[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Bytes that SQLite zeroes at the start of a rollback journal to end it without deleting the file.
const JOURNAL_HEADER_BYTES: usize = 28;

/// Bytes after the name of a super-journal: the length of the name, a checksum, and the magic.
const SUPER_END_BYTES: usize = 16;

impl Volume {
    /// Opens a file; a nameless one is always new. Returns `None` if the file does not exist and `create` is
    /// false.
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

    /// True if a file of this name exists.
    pub(crate) fn exists(&self, name: &str) -> bool {
        self.files.names.contains_key(name)
    }

    /// True if a database of this name exists.
    pub(crate) fn is_database(&self, name: &str) -> bool {
        self.files.named(name).is_some_and(|file| file.purpose == Purpose::Main)
    }

    /// Ends one use of a file. The last use commits the waiting pages, unless a commit of them failed before,
    /// and drops a nameless file.
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

    /// Commits a database with a write-ahead log, if many of its pages wait and RAM is short. Only a
    /// checkpoint writes these pages, so they may go to their homes at any time.
    fn apply_checkpoint(&mut self, id: FileId) -> Result<(), StoreError> {
        let waits = self.files.get(id).map_or(0, |file| file.waiting.slots.len());
        if waits < LOGGED_PAGES {
            return Ok(());
        }
        let pages = self.files.pages(id, &mut self.medium);
        let is_due = pages.is_some_and(|pages| pages.is_logged && pages.room.is_short());
        if is_due { self.commit(&[id]) } else { Ok(()) }
    }

    /// Commits a write-ahead log. Refuses if the database could not grow to `bytes` bytes afterwards: without
    /// room for a checkpoint the log could never end.
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

    /// Handles a failed write or commit of a file.
    pub(super) fn give_up_on(&mut self, id: FileId, error: &StoreError) {
        self.medium.last_error = error.to_string();
        if let Some(mut pages) = self.files.pages(id, &mut self.medium) {
            pages.give_up(error);
        }
    }

    /// Deletes a name. Users that have the file open keep it until they close it. Returns false if there is
    /// no such name.
    ///
    /// # Errors
    ///
    /// Those of the store, if the directory cannot be written without the file. The file is then still there.
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

    /// Removes a database, or another file that survives, and frees its store pages. Returns false if there
    /// is no such name.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unsupported`] if the file is open, and errors of the store. The file is then still
    /// there.
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

    /// Size of a file in bytes.
    pub(crate) fn size(&self, id: FileId) -> u64 {
        self.files.get(id).map_or(0, |file| file.now.size)
    }

    /// Reads from an offset on and returns the number of bytes read. The rest of the buffer becomes zeros.
    ///
    /// # Errors
    ///
    /// Those of the store, and [`StoreError::Corrupted`] if a spilled page has another checksum than when it
    /// was spilled.
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

    /// Writes from an offset on. The contents survive a power cut only after the next commit.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] if RAM is short and the store has no free page to spill to, and errors of the
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

    /// Begins an atomic batch: the writes from now on are committed or dropped as a whole.
    pub(crate) fn begin_batch(&mut self, id: FileId) {
        self.medium.stats.batches += 1;
        if let Some(file) = self.files.get_mut(id) {
            file.waiting.begin_batch(file.now);
        }
    }

    /// Drops the writes since the batch began.
    ///
    /// # Errors
    ///
    /// The store failed a trim. The batch is dropped all the same.
    pub(crate) fn roll_back_batch(&mut self, id: FileId) -> Result<(), StoreError> {
        self.files.pages(id, &mut self.medium).map_or(Ok(()), |mut pages| pages.roll_back_batch())
    }

    /// Holds back the commits of a file until its super-journal is deleted. `None` lets the file be committed
    /// by itself again.
    pub(crate) fn hold(&mut self, id: FileId, super_journal: Option<&str>) {
        if let Some(file) = self.files.get_mut(id) {
            file.held_by = super_journal.map(String::from);
        }
    }

    /// Commits at once all files held back for a super-journal.
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

    /// True if some rollback journal ends with the name of this super-journal, as SQLite writes it.
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

    /// Raises the lock of one user of a file. Returns true if the user now has `wanted`.
    pub(crate) fn lock(&mut self, id: FileId, held: &mut Level, wanted: Level) -> bool {
        self.locks(id).is_none_or(|locks| locks.raise(held, wanted))
    }

    /// Lowers the lock of one user of a file to `wanted`.
    pub(crate) fn unlock(&mut self, id: FileId, held: &mut Level, wanted: Level) {
        if let Some(locks) = self.locks(id) {
            locks.lower(held, wanted);
        }
    }

    /// True if a user of the file is about to write to it.
    pub(crate) fn is_reserved(&mut self, id: FileId) -> bool {
        self.locks(id).is_some_and(|locks| locks.is_reserved())
    }

    fn locks(&mut self, id: FileId) -> Option<&mut Locks> {
        self.files.get_mut(id).map(|file| &mut file.locks)
    }
}
