//! All files of a volume, their names, and the RAM that they share.

use super::directory::Listed;
use super::file::pages_of;
use super::journal::{Pieces, Saved};
use super::medium::Group;
use super::slots::Room;
use super::{File, Medium, Pages, Plan, Purpose, Slot};
use crate::settings::VolumeConfig;
use nandex::{Lpn, StoreError};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Pages of RAM that a database with a write-ahead log may have beyond the limit.
pub(super) const LOGGED_PAGES: usize = 32;

/// A file that is open or has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId(u32);

/// A page to be written: its file, its number in the file, and its home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) file: FileId,
    pub(super) page: u32,
    pub(super) home: u32,
}

#[derive(Debug)]
pub(super) struct Files {
    pub(super) all: BTreeMap<FileId, File>,
    pub(super) names: BTreeMap<String, FileId>,
    next: u32,
    /// Bytes of RAM of all slots and journals.
    pub(super) used: usize,
    settings: VolumeConfig,
}

impl Files {
    pub(super) const fn new(settings: VolumeConfig) -> Files {
        Files { all: BTreeMap::new(), names: BTreeMap::new(), next: 0, used: 0, settings }
    }

    pub(super) fn get(&self, id: FileId) -> Option<&File> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: FileId) -> Option<&mut File> {
        self.all.get_mut(&id)
    }

    pub(super) fn named(&self, name: &str) -> Option<&File> {
        self.get(*self.names.get(name)?)
    }

    pub(super) fn add(&mut self, file: File) -> FileId {
        let id = FileId(self.next);
        self.next += 1;
        if let Some(name) = &file.name {
            self.names.insert(name.clone(), id);
        }
        self.all.insert(id, file);
        id
    }

    /// Files for which `is` holds.
    pub(super) fn which(&self, is: impl Fn(&File) -> bool) -> Vec<FileId> {
        self.all.iter().filter(|(_, file)| is(file)).map(|(&id, _)| id).collect()
    }

    /// Files that survive, ordered by name.
    pub(super) fn kept(&self) -> impl Iterator<Item = (&str, FileId, &File)> {
        let named = self.names.iter().filter_map(|(name, &id)| Some((name.as_str(), id, self.get(id)?)));
        named.filter(|(_, _, file)| file.purpose.is_kept())
    }

    /// The file whose name is that of the database `id` followed by `end`.
    fn companion(&self, id: FileId, end: &str) -> Option<FileId> {
        let file = self.get(id).filter(|file| file.purpose == Purpose::Main)?;
        self.names.get(&format!("{}{end}", file.name.as_ref()?)).copied()
    }

    /// Write-ahead log of a database, if it has one.
    pub(super) fn log_of(&self, id: FileId) -> Option<FileId> {
        self.companion(id, "-wal")
    }

    /// The database whose name followed by `end` is that of file `id`.
    pub(super) fn database_of(&self, id: FileId, end: &str) -> Option<FileId> {
        self.names.get(self.get(id)?.name.as_deref()?.strip_suffix(end)?).copied()
    }

    /// Most bytes of RAM. A database with a log gets more: its pages go to their homes and are never spilled.
    fn most(&self, is_logged: bool, medium: &Medium) -> usize {
        let least = medium.store.atomic_pages_max().max(16);
        let logged = if is_logged { LOGGED_PAGES } else { 0 };
        self.settings.ram_bytes.max(least * medium.page_bytes) + logged * medium.page_bytes
    }

    /// A file, with the store and the RAM that its pages may use.
    pub(super) fn pages<'a>(&'a mut self, id: FileId, medium: &'a mut Medium) -> Option<Pages<'a>> {
        let is_logged = self.log_of(id).is_some();
        let most = self.most(is_logged, medium);
        let room = Room { medium, used: &mut self.used, most };
        let growth = self.settings.growth_pages.max(1);
        Some(Pages { file: self.all.get_mut(&id)?, room, is_logged, growth })
    }

    /// Lets `work` use a journal in RAM together with its database, and counts the RAM again.
    pub(super) fn with_journal<T>(
        &mut self,
        id: FileId,
        medium: &mut Medium,
        work: impl FnOnce(&mut Pieces, &mut Saved<'_>) -> T,
    ) -> T {
        let taken = self.all.get_mut(&id).map(|file| std::mem::take(&mut file.journal));
        let mut pieces = taken.unwrap_or_default();
        let before = pieces.ram_bytes();
        let database = self.database_of(id, "-journal").and_then(|id| self.get(id));
        let done = work(&mut pieces, &mut Saved { database, medium });
        self.used = self.used + pieces.ram_bytes() - before;
        self.all.entry(id).and_modify(|file| file.journal = pieces);
        done
    }

    /// Drops from a journal in RAM the saved pages that equal the committed database.
    pub(super) fn let_go(&mut self, journal: FileId, medium: &mut Medium) {
        let size = self.get(journal).map_or(0, |file| file.now.size);
        self.with_journal(journal, medium, |pieces, saved| pieces.let_go(size, saved));
    }

    /// Spills pages of a file, except `at_hand`, until RAM is within its limit.
    fn spill(&mut self, id: FileId, at_hand: u32, medium: &mut Medium) -> Result<(), StoreError> {
        if self.pages(id, medium).is_none_or(|pages| !pages.room.is_over()) {
            return Ok(());
        }
        if let Some(journal) = self.companion(id, "-journal") {
            self.let_go(journal, medium);
        }
        self.pages(id, medium).map_or(Ok(()), |mut pages| pages.spill(at_hand))
    }

    /// Spills pages of all files until RAM is within its limit, because a journal grew.
    fn make_room(&mut self, id: FileId, medium: &mut Medium) -> Result<(), StoreError> {
        if self.used > self.most(false, medium) {
            self.let_go(id, medium);
        }
        let database = self.database_of(id, "-journal");
        let others: Vec<FileId> = self.all.keys().copied().filter(|other| Some(*other) != database).collect();
        for other in database.into_iter().chain(others) {
            if self.used <= self.most(false, medium) {
                return Ok(());
            }
            self.spill(other, u32::MAX, medium)?;
        }
        if self.used > self.most(false, medium) { Err(StoreError::Full) } else { Ok(()) }
    }

    /// Reads a changed page from its slot or its home.
    pub(super) fn load(&self, of: &Change, data: &mut [u8], medium: &mut Medium) -> Result<(), StoreError> {
        self.get(of.file).map_or(Ok(()), |file| file.load(of.page, data, medium))
    }

    /// Writes to a file from an offset on.
    pub(super) fn write(
        &mut self,
        id: FileId,
        offset: u64,
        data: &[u8],
        medium: &mut Medium,
    ) -> Result<(), StoreError> {
        let end = offset + data.len() as u64;
        let Some(file) = self.all.get_mut(&id) else { return Ok(()) };
        if file.purpose == Purpose::RamJournal {
            self.with_journal(id, medium, |pieces, saved| pieces.write(offset, data, saved))?;
            self.lengthen(id, end);
            return self.make_room(id, medium);
        }
        if end.div_ceil(medium.page_bytes as u64) > u64::from(medium.store.page_count()) {
            return Err(StoreError::Full);
        }
        file.is_wide |= data.len() > medium.page_bytes;
        for (.., range) in pages_of(offset, data.len(), medium.page_bytes) {
            let (at, end) = (offset + range.start as u64, offset + range.end as u64);
            self.write_part(id, at, &data[range], medium)?;
            self.lengthen(id, end);
        }
        Ok(())
    }

    fn lengthen(&mut self, id: FileId, end: u64) {
        if let Some(file) = self.all.get_mut(&id) {
            file.now.size = file.now.size.max(end);
        }
    }

    /// Writes a part of one page without changing the size of the file.
    pub(super) fn write_part(
        &mut self,
        id: FileId,
        at: u64,
        part: &[u8],
        medium: &mut Medium,
    ) -> Result<(), StoreError> {
        let page_bytes = medium.page_bytes as u64;
        let (page, within) = ((at / page_bytes) as u32, (at % page_bytes) as usize);
        let Some(file) = self.all.get_mut(&id) else { return Ok(()) };
        if let Some(bytes) = file.waiting.open_slots().ram_mut(page) {
            bytes[within..within + part.len()].copy_from_slice(part);
            return Ok(());
        }
        let Some(mut pages) = self.pages(id, medium) else { return Ok(()) };
        if pages.write(page, within, part)? { self.spill(id, page, medium) } else { Ok(()) }
    }

    /// Drops a file that has neither a name nor a user.
    pub(super) fn forget(&mut self, id: FileId, medium: &mut Medium) -> Result<(), StoreError> {
        let Some(mut pages) = self.pages(id, medium) else { return Ok(()) };
        let dropped = pages.forget();
        if let Some(name) = self.all.remove(&id).and_then(|file| file.name) {
            self.names.remove(&name);
        }
        dropped
    }

    /// The files for the directory after the plans.
    pub(super) fn listed(&self, plans: &[Plan]) -> Vec<Listed> {
        let listed = |(&id, file): (&FileId, &File)| {
            let (name, is_main) = (file.name.clone()?, file.purpose == Purpose::Main);
            let (placed, plan) = (&file.placed, plans.iter().find(|plan| plan.id == id));
            let (size, runs) =
                plan.map_or((placed.kept_size, &placed.runs), |plan| (plan.kept_size, &plan.runs));
            let is_listed = plan.is_some() || placed.is_listed;
            is_listed.then(|| Listed { name, is_main, size, runs: runs.clone() })
        };
        self.all.iter().filter_map(listed).collect()
    }

    /// Slot of a changed page.
    pub(super) fn slot(&self, change: &Change) -> Option<&Slot> {
        self.get(change.file)?.waiting.slot(change.page)
    }

    /// The changed pages with their homes. Those not in RAM whole are read.
    pub(super) fn gather(&self, changes: &[Change], medium: &mut Medium) -> Result<Group<'_>, StoreError> {
        let mut group = Vec::with_capacity(changes.len());
        for change in changes {
            let bytes = match self.slot(change) {
                Some(Slot::Ram(bytes)) => Cow::Borrowed(&**bytes),
                _ => {
                    let mut bytes = vec![0; medium.page_bytes];
                    self.load(change, &mut bytes, medium)?;
                    Cow::Owned(bytes)
                }
            };
            group.push((Lpn(change.home), bytes));
        }
        Ok(group)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::medium;
    use super::*;

    #[test]
    fn files_are_found_by_name_and_their_ram_is_counted() {
        let (mut files, mut medium) = (Files::new(VolumeConfig::default()), medium());
        let mut add = |name: &str, purpose| {
            files.add(File { name: Some(String::from(name)), purpose, ..File::default() })
        };
        let main = add("a", Purpose::Main);
        let (log, journal) = (add("a-wal", Purpose::Kept), add("a-journal", Purpose::RamJournal));
        assert_eq!((files.log_of(main), files.log_of(log)), (Some(log), None));
        assert_eq!(files.database_of(journal, "-journal"), Some(main));
        files.write(main, 0, &[1; 700], &mut medium).unwrap();
        let of_main = files.used;
        files.write(journal, 0, &[1; 700], &mut medium).unwrap();
        assert!(of_main > 700 && files.used > of_main + 700);
        assert_eq!(files.kept().map(|(name, ..)| name).collect::<Vec<_>>(), ["a", "a-wal"]);
        assert!(files.listed(&[]).is_empty(), "nothing was committed");
        files.forget(journal, &mut medium).unwrap();
        assert_eq!((files.used, files.named("a-journal").is_none()), (of_main, true));
        files.forget(main, &mut medium).unwrap();
        assert_eq!(files.used, 0);
    }
}
