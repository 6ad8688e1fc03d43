//! Committing: what waits in slots becomes what the flash holds, whole or not at all.
//!
//! A commit that fits a group of the store, the directory included where it changes, is one `write_atomic`:
//! each page is written once. One that does not fit, or any on a store that promises no order of writes, goes
//! the long way (`redo`).

use super::directory::{Directory, Listed, slot_pages};
use super::slots::Slot;
use super::space::Run;
use super::{File, FileId, Purpose, Volume};
use crate::settings::Commits;
use nandex::{Cause, Lpn, PageStore, StoreError};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// A page to be written: of which file, which one, and its place in the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) file: FileId,
    pub(super) page: u32,
    pub(super) home: u32,
}

/// The plan of a commit for one file: its new runs, and the slots taken and freed.
#[derive(Debug)]
struct Plan {
    id: FileId,
    runs: Vec<Run>,
    taken: Vec<Run>,
    freed: Vec<Run>,
    /// Whether the pages that the file took ahead are among the runs.
    has_ahead: bool,
    kept_size: u64,
    lists: bool,
}

/// The work of a commit: the changes of the medium and the new directory.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) changes: Vec<Change>,
    pub(super) directory: Option<Directory>,
}

impl Volume {
    /// Commits the files: what was written to them since their last commit survives from now on, all of it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] and [`StoreError::WornOut`]: nothing was committed. Other errors of the store:
    /// nothing was, or on a store that cannot tell, all of it. Where a commit is refused, what was written to
    /// databases is dropped; after other errors it still waits.
    pub(crate) fn commit(&mut self, ids: &[FileId]) -> Result<(), StoreError> {
        let ids: Vec<FileId> = ids.iter().copied().filter(|id| self.waits(*id)).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let done = match self.commit_some(&ids, false) {
            // What SQLite took back waits as it was.
            Err(error) if error.is_refusal() => self.commit_some(&ids, true),
            other => other,
        };
        for &id in &ids {
            match (&done, self.files.get_mut(&id)) {
                (Err(error), _) => self.give_up_on(id, error),
                (Ok(()), Some(file)) => {
                    (file.is_failed, file.is_reverted) = (false, false);
                    file.settled = (file.size, file.visible);
                }
                (Ok(()), None) => {}
            }
        }
        done
    }

    /// Whether a commit of the file would write anything.
    fn waits(&self, id: FileId) -> bool {
        let Some(file) = self.files.get(&id) else { return false };
        let is_kept = file.purpose.is_kept() && file.name.is_some() && file.held_by.is_none();
        let changes = file.has_slots() || file.size != file.kept_size;
        is_kept && (changes || !self.hollow(id).is_empty())
    }

    /// Pages within a file that must read as zeros and were not written: it was shortened and grew again, or
    /// was written beyond its end. A trim may be undone by a power cut, so that zeros have to be written.
    fn hollow(&self, id: FileId) -> Vec<u32> {
        let Some(file) = self.files.get(&id) else { return Vec::new() };
        let need = file.size.div_ceil(self.page_bytes as u64) as u32;
        (file.visible..need).filter(|&page| file.slot(page).is_none()).collect()
    }

    /// Commits; pages that are as their places have them are left out, those that may be or, `compared`, all.
    fn commit_some(&mut self, ids: &[FileId], compared: bool) -> Result<(), StoreError> {
        self.finish_moved()?;
        if let &[id] = ids
            && self.log_of(id).is_some()
        {
            self.list(id)?;
        }
        let mut plans = Vec::new();
        for &id in ids {
            for page in self.hollow(id) {
                self.write_page(id, page, 0, &vec![0; self.page_bytes])?;
            }
        }
        for &id in ids {
            match self.plan(id) {
                Ok(plan) => plans.push(plan),
                Err(error) => {
                    self.give_up(&plans);
                    return Err(error);
                }
            }
        }
        let changes = self.changes(&plans);
        let changes = self.without_unchanged(changes, compared);
        let work = Work { changes, directory: self.planned_directory(&plans) };
        if work.changes.is_empty() && work.directory.is_none() {
            self.drop_slots(ids);
            return Ok(());
        }
        let done = self.write_work(&work);
        match &done {
            Ok(aside) => self.install(plans, work, aside),
            // A directory that is there after all has the new runs: no one else may get them.
            Err(error) if !error.is_refusal() && work.directory.is_some() => self.is_unsure = true,
            Err(_) => self.give_up(&plans),
        }
        done.map(|_| ())
    }

    /// How large a file becomes on the flash, and which pages it gets or gives for that.
    fn plan(&mut self, id: FileId) -> Result<Plan, StoreError> {
        let (page_bytes, growth) = (self.page_bytes as u64, self.settings.growth_pages.max(1));
        let Some(file) = self.files.get(&id) else {
            return Err(StoreError::Unsupported(String::new().into()));
        };
        let (need, have) = (file.size.div_ceil(page_bytes) as u32, file.capacity());
        let (is_main, size, owed) = (file.purpose == Purpose::Main, file.size, file.owed);
        let (was_listed, was_size) = (file.is_listed, file.kept_size);
        let mut runs = file.runs.clone();
        let (mut taken, mut freed) = (Vec::new(), Vec::new());
        let has_ahead = need > have && !file.ahead.is_empty();
        if need > have {
            file.ahead.iter().for_each(|&run| append(&mut runs, run));
            let have: u32 = runs.iter().map(|run| run.pages).sum();
            let more = need.saturating_sub(have);
            let ample = more + growth.max(need / 16) - need % growth;
            let is_ample = ample.saturating_add(owed) <= self.space.room();
            taken = match more {
                0 => Vec::new(),
                _ => {
                    let pages = if is_ample { ample } else { more };
                    self.take_to_grow(id, pages, runs.last().map(|run| run.end()))?
                }
            };
            taken.iter().for_each(|&run| append(&mut runs, run));
        } else if need == 0 || have - need > (2 * growth).max(need / 8) {
            freed = cut(&mut runs, need.next_multiple_of(growth).min(have));
        }
        let capacity: u64 = runs.iter().map(|run| u64::from(run.pages)).sum();
        let kept_size = if is_main { capacity * page_bytes } else { size };
        let moves = !taken.is_empty() || has_ahead || !freed.is_empty();
        let lists = moves || !was_listed || kept_size != was_size;
        Ok(Plan { id, runs, taken, freed, has_ahead, kept_size, lists })
    }

    /// Lets the directory have the pages that a database with a write-ahead log comes to, before they are
    /// written.
    fn list(&mut self, id: FileId) -> Result<(), StoreError> {
        let plan = self.plan(id)?;
        if !plan.lists {
            return Ok(());
        }
        let directory = self.directory(std::slice::from_ref(&plan), None);
        if let Err(error) = self.write_directory(&directory, &[]) {
            if error.is_refusal() {
                self.give_up(&[plan]);
            }
            return Err(error);
        }
        self.stats.directories += 1;
        let Some(file) = self.files.get_mut(&id) else { return Ok(()) };
        (file.runs, file.kept_size, file.is_listed) = (plan.runs, plan.kept_size, true);
        let capacity = file.capacity();
        (file.filled, file.visible) = (file.filled.min(capacity), file.visible.min(capacity));
        file.settled = (file.settled.0.min(file.kept_size), file.settled.1.min(capacity));
        self.trim(&plan.freed);
        plan.freed.into_iter().for_each(|run| self.space.give(run));
        Ok(())
    }

    /// Whether a page was spilled to its place: then it is not written again.
    fn is_placed(&self, change: &Change) -> bool {
        let slot = self.files.get(&change.file).and_then(|file| file.slot(change.page));
        matches!(slot, Some(&Slot::Spilled { lpn, is_placed: true, .. }) if lpn == change.home)
    }

    /// Whether a page may be in its place before the commit: nothing that was committed is where a file
    /// grows, and what a write-ahead log has goes to its database at any time.
    fn may_come_first(&self, change: &Change) -> bool {
        self.files.get(&change.file).is_some_and(|file| change.page >= file.filled)
            || self.log_of(change.file).is_some()
    }

    /// Writes pages one by one that may come before the commit.
    fn write_each(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let mut bytes = vec![0; self.page_bytes];
        for change in changes {
            self.load(change.file, change.page, &mut bytes)?;
            self.store.write(Lpn(change.home), Cause::Host, &bytes)?;
        }
        if self.store.durable_writes() { Ok(()) } else { self.store.sync() }
    }

    fn give_up(&mut self, plans: &[Plan]) {
        for plan in plans {
            // Some may have been written.
            self.trim(&plan.taken);
            plan.taken.iter().for_each(|&run| self.space.give(run));
        }
    }

    fn changes(&self, plans: &[Plan]) -> Vec<Change> {
        let mut changes = Vec::new();
        for plan in plans {
            let Some(file) = self.files.get(&plan.id) else { continue };
            let places = File { runs: plan.runs.clone(), ..File::default() };
            let homes = file.slot_pages().into_iter().filter_map(|page| Some((page, places.home(page)?)));
            changes.extend(homes.map(|(page, home)| Change { file: plan.id, page, home }));
        }
        changes
    }

    fn planned_directory(&self, plans: &[Plan]) -> Option<Directory> {
        let is_needed = self.is_unsure || plans.iter().any(|plan| plan.lists);
        is_needed.then(|| self.directory(plans, None))
    }

    /// The directory as it is to be.
    fn directory(&self, plans: &[Plan], redo: Option<(u32, u32)>) -> Directory {
        let listed = |(&id, file): (&FileId, &File)| {
            let name = file.name.clone()?;
            let plan = plans.iter().find(|plan| plan.id == id);
            if plan.is_none() && !file.is_listed {
                return None;
            }
            let runs = plan.map_or(&file.runs, |plan| &plan.runs).clone();
            let size = plan.map_or(file.kept_size, |plan| plan.kept_size);
            Some(Listed { name, is_main: file.purpose == Purpose::Main, size, runs })
        };
        let files = self.files.iter().filter_map(listed).collect();
        Directory { sequence: self.sequence + 1, redo, files }
    }

    /// The directory as the flash has it, under the next number.
    pub(super) fn same_directory(&self) -> Directory {
        self.directory(&[], None)
    }

    /// Writes pages and directory; returns what [`Volume::write_large`] does, if it went the long way.
    fn write_work(&mut self, work: &Work) -> Result<BTreeSet<u32>, StoreError> {
        let slot = match &work.directory {
            Some(directory) => Some((directory.sequence, directory.encode(self.page_bytes)?)),
            None => None,
        };
        let own = slot.as_ref().map_or(0, |(_, bytes)| bytes.len() / self.page_bytes);
        let most = match self.settings.commits {
            Commits::Grouped => self.group_pages_max(),
            Commits::PageByPage => usize::MAX,
        };
        let mut changes = work.changes.clone();
        changes.retain(|change| !self.is_placed(change));
        if changes.len() + own > most {
            let (first, others): (Vec<Change>, Vec<Change>) =
                changes.into_iter().partition(|change| self.may_come_first(change));
            self.write_each(&first)?;
            changes = others;
        }
        if changes.len() + own > most {
            let directory = work.directory.clone().unwrap_or_else(|| self.same_directory());
            return self.write_large(&changes, directory);
        }
        self.write_group(&changes, slot.as_ref())?;
        Ok(BTreeSet::new())
    }

    /// Writes pages, and a directory with its number, as one group.
    fn write_group(&mut self, changes: &[Change], slot: Option<&(u64, Vec<u8>)>) -> Result<(), StoreError> {
        let page_bytes = self.page_bytes;
        let others = self.load_others(changes)?;
        let mut group = gather(&self.files, others, changes);
        if let Some((sequence, bytes)) = slot {
            group.extend(pages_of(*sequence, bytes, page_bytes));
        }
        let group: Vec<(Lpn, &[u8])> = group.iter().map(|(lpn, bytes)| (*lpn, &**bytes)).collect();
        if group.is_empty() {
            return Ok(());
        }
        let store = &mut self.store;
        match self.settings.commits {
            Commits::Grouped => store.write_atomic(&group, Cause::Host)?,
            Commits::PageByPage => {
                group.iter().try_for_each(|(lpn, bytes)| store.write(*lpn, Cause::Host, bytes))?;
            }
        }
        if !store.durable_writes() {
            store.sync()?;
        }
        let pages = group.len() as u64;
        self.stats.groups += 1;
        self.stats.group_pages += pages;
        self.stats.largest_group = self.stats.largest_group.max(pages);
        Ok(())
    }
}

/// Installs what was written.
impl Volume {
    fn install(&mut self, plans: Vec<Plan>, work: Work, aside: &BTreeSet<u32>) {
        self.stats.commits += 1;
        self.learn_written(&work.changes);
        if let Some(directory) = work.directory {
            // A large commit has numbered its own.
            self.sequence = self.sequence.max(directory.sequence);
            self.stats.directories += 1;
            self.is_unsure = false;
        }
        for plan in plans {
            let written: BTreeSet<u32> = work
                .changes
                .iter()
                .filter(|change| change.file == plan.id)
                .map(|change| change.page)
                .collect();
            let (id, has_ahead) = (plan.id, plan.has_ahead);
            let mut spilled = self.install_file(plan, &written);
            match self.files.get_mut(&id).filter(|_| has_ahead) {
                Some(file) => file.ahead.clear(),
                None => self.drop_ahead(id),
            }
            spilled.retain(|run| !aside.contains(&run.first));
            self.trim(&spilled);
            spilled.into_iter().for_each(|run| self.space.give(run));
        }
    }

    /// Returns where pages had been spilled to.
    fn install_file(&mut self, plan: Plan, written: &BTreeSet<u32>) -> Vec<Run> {
        let Some(file) = self.files.get_mut(&plan.id) else { return Vec::new() };
        let need = file.size.div_ceil(self.page_bytes as u64) as u32;
        let gone =
            (file.visible.min(need)..file.filled).filter(|page| !written.contains(page) && *page >= need);
        let gone = gone.filter_map(|page| file.home(page)).map(|first| Run { first, pages: 1 });
        // What is freed as a whole is trimmed as a whole.
        let is_freed = |run: &Run| plan.freed.iter().any(|f| f.first <= run.first && run.end() <= f.end());
        let mut gone: Vec<Run> = gone.filter(|run| !is_freed(run)).collect();
        let mut spilled = file.slots.take_spilled(&mut self.ram_used);
        if let Some(mut batch) = file.batch.take() {
            spilled.extend(batch.slots.take_spilled(&mut self.ram_used));
        }
        let top = written.last().map_or(0, |page| page + 1);
        (file.runs, file.kept_size, file.is_listed) = (plan.runs, plan.kept_size, true);
        file.filled = file.visible.max(top).min(file.capacity());
        file.visible = file.filled;
        gone.extend(&plan.freed);
        self.trim(&gone);
        plan.freed.into_iter().for_each(|run| self.space.give(run));
        spilled.into_iter().map(|first| Run { first, pages: 1 }).collect()
    }

    /// Empties the slots of files whose pages are all as the flash has them.
    fn drop_slots(&mut self, ids: &[FileId]) {
        for &id in ids {
            let Some(file) = self.files.get_mut(&id) else { continue };
            let mut spilled = file.slots.take_spilled(&mut self.ram_used);
            if let Some(mut batch) = file.batch.take() {
                spilled.extend(batch.slots.take_spilled(&mut self.ram_used));
            }
            self.release_pages(spilled);
        }
    }

    /// Trims pages. One that cannot be trimmed holds what nobody reads.
    pub(super) fn trim(&mut self, runs: &[Run]) {
        for lpn in runs.iter().flat_map(|run| run.first..run.end()) {
            if self.store.trim(Lpn(lpn)).is_ok() {
                self.stats.trimmed_pages += 1;
            }
        }
    }

    /// Reads those of the pages to be written that are not in RAM as they are, in order.
    fn load_others(&mut self, changes: &[Change]) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut spilled = Vec::new();
        for change in changes {
            let slot = self.files.get(&change.file).and_then(|file| file.slot(change.page));
            if !matches!(slot, Some(Slot::Ram(_)) | None) {
                let mut bytes = vec![0; self.page_bytes];
                self.load(change.file, change.page, &mut bytes)?;
                spilled.push(bytes);
            }
        }
        Ok(spilled)
    }

    /// Writes a directory, and so many pages with it as a group takes: whole or not at all.
    pub(super) fn write_directory(
        &mut self,
        directory: &Directory,
        changes: &[Change],
    ) -> Result<(), StoreError> {
        let bytes = directory.encode(self.page_bytes)?;
        let others = self.load_others(changes)?;
        let mut group = gather(&self.files, others, changes);
        group.extend(pages_of(directory.sequence, &bytes, self.page_bytes));
        let pages: Vec<(Lpn, &[u8])> = group.iter().map(|(lpn, bytes)| (*lpn, &**bytes)).collect();
        let most = self.group_pages_max();
        let done = write_slot(&mut *self.store, &pages, most);
        match &done {
            Ok(()) => {
                self.sequence = directory.sequence;
                self.is_unsure = false;
            }
            Err(error) => self.is_unsure |= !error.is_refusal(),
        }
        done
    }

    /// Takes a file that has lost its name out of the directory, and gives its pages back.
    pub(super) fn unlist(&mut self, id: FileId) -> Result<(), StoreError> {
        self.finish_moved()?;
        let directory = self.same_directory();
        self.write_directory(&directory, &[])?;
        self.stats.directories += 1;
        let Some(file) = self.files.get_mut(&id) else { return Ok(()) };
        let runs = std::mem::take(&mut file.runs);
        (file.filled, file.visible, file.is_listed, file.kept_size) = (0, 0, false, 0);
        self.trim(&runs);
        runs.into_iter().for_each(|run| self.space.give(run));
        Ok(())
    }
}

/// The pages of a directory with this number, each with its place.
fn pages_of(sequence: u64, bytes: &[u8], page_bytes: usize) -> impl Iterator<Item = (Lpn, Cow<'_, [u8]>)> {
    (slot_of(sequence, page_bytes)..).map(Lpn).zip(bytes.chunks(page_bytes).map(Cow::Borrowed))
}

/// Writes the pages of a directory, as a group where one takes so many, else the one with the checksum last.
fn write_slot(store: &mut dyn PageStore, pages: &[(Lpn, &[u8])], most: usize) -> Result<(), StoreError> {
    let durable = store.durable_writes();
    if pages.len() <= most {
        store.write_atomic(pages, Cause::Host)?;
    } else if let Some((head, tail)) = pages.split_first() {
        tail.iter().try_for_each(|(lpn, bytes)| store.write(*lpn, Cause::Host, bytes))?;
        if !durable && !tail.is_empty() {
            store.sync()?;
        }
        store.write(head.0, Cause::Host, head.1)?;
    }
    if durable { Ok(()) } else { store.sync() }
}

/// The bytes of the pages to be written, each with its place.
fn gather<'a>(
    files: &'a BTreeMap<FileId, File>,
    spilled: Vec<Vec<u8>>,
    changes: &[Change],
) -> Vec<(Lpn, Cow<'a, [u8]>)> {
    let mut spilled = spilled.into_iter();
    let bytes = |change: &Change| match files.get(&change.file).and_then(|file| file.slot(change.page)) {
        Some(Slot::Ram(bytes)) => Cow::Borrowed(&**bytes),
        _ => Cow::Owned(spilled.next().unwrap_or_default()),
    };
    let homes = changes.iter().map(|change| Lpn(change.home));
    homes.zip(changes.iter().map(bytes)).collect()
}

/// The first page of the slot of a directory.
pub(super) fn slot_of(sequence: u64, page_bytes: usize) -> u32 {
    (sequence % 2) as u32 * slot_pages(page_bytes)
}

/// Adds a run behind others.
fn append(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.end() == run.first => last.pages += run.pages,
        _ => runs.push(run),
    }
}

/// Shortens runs to so many pages and returns the rest.
fn cut(runs: &mut Vec<Run>, pages: u32) -> Vec<Run> {
    let mut left = pages;
    let mut freed = Vec::new();
    let mut kept = Vec::new();
    for run in runs.drain(..) {
        let stays = run.pages.min(left);
        left -= stays;
        if stays > 0 {
            kept.push(Run { first: run.first, pages: stays });
        }
        if stays < run.pages {
            freed.push(Run { first: run.first + stays, pages: run.pages - stays });
        }
    }
    *runs = kept;
    freed
}
