//! Committing: waiting pages become the contents of the flash, all of them or none.
//!
//! A commit that fits a group, with the directory if that changes, is one `write_atomic`: each page is
//! written once. A large commit goes the long way (`redo`). So does every commit on a store that promises no
//! order of writes.

use super::directory::Directory;
use super::medium::directory_pages;
use super::placed::home;
use super::redo::Large;
use super::{Change, FileId, Plan, Slot, Volume};
use crate::settings::Commits;
use nandex::{Cause, Lpn, StoreError};
use std::collections::BTreeSet;

impl Volume {
    /// Commits the files: all that was written to them since their last commit survives from now on.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] and [`StoreError::WornOut`] refuse the commit: nothing was committed, and what
    /// waited in databases is dropped. After another error nothing was committed, or all of it on a store
    /// that cannot tell, and everything still waits.
    pub(crate) fn commit(&mut self, ids: &[FileId]) -> Result<(), StoreError> {
        let waits = |id: &FileId| self.files.get(*id).is_some_and(|file| file.waits(self.medium.page_bytes));
        let ids: Vec<FileId> = ids.iter().copied().filter(waits).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let done = match self.commit_some(&ids, false) {
            // What SQLite took back waits as it was.
            Err(error) if error.is_refusal() => self.commit_some(&ids, true),
            other => other,
        };
        for &id in &ids {
            match (&done, self.files.get_mut(id)) {
                (Err(error), _) => self.give_up_on(id, error),
                (Ok(()), Some(file)) => {
                    (file.is_failed, file.is_reverted, file.settled) = (false, false, file.now);
                }
                (Ok(()), None) => {}
            }
        }
        done
    }

    /// Commits without the pages that equal their homes. Pages whose checksums are known are compared; with
    /// `compared` all are.
    fn commit_some(&mut self, ids: &[FileId], compared: bool) -> Result<(), StoreError> {
        self.finish_moved()?;
        if let &[id] = ids
            && self.files.log_of(id).is_some()
        {
            self.list(id)?;
        }
        let zeros = vec![0; self.medium.page_bytes];
        for &id in ids {
            for page in self.files.get(id).map(|file| file.hollow(zeros.len())).unwrap_or_default() {
                let at = u64::from(page) * zeros.len() as u64;
                self.files.write_part(id, at, &zeros, &mut self.medium)?;
            }
        }
        let mut plans = Vec::new();
        for &id in ids {
            match self.plan(id) {
                Ok(plan) => plans.push(plan),
                Err(error) => {
                    self.give_back(&plans);
                    return Err(error);
                }
            }
        }
        let changes = self.changes(&plans);
        let changes = self.files.without_unchanged(changes, compared, &mut self.medium);
        let is_listed = self.medium.is_unsure || plans.iter().any(|plan| plan.lists);
        let directory = is_listed.then(|| self.directory(&plans));
        if changes.is_empty() && directory.is_none() {
            for &id in ids {
                self.files.pages(id, &mut self.medium).into_iter().for_each(|mut pages| pages.drop_waiting());
            }
            return Ok(());
        }
        let done = self.write_work(&changes, directory.as_ref());
        match &done {
            Ok(aside) => self.install(plans, &changes, directory, aside),
            // A directory that is there after all has the new runs: no one else may get them.
            Err(error) if !error.is_refusal() && directory.is_some() => self.medium.is_unsure = true,
            Err(_) => self.give_back(&plans),
        }
        done.map(|_| ())
    }

    fn plan(&mut self, id: FileId) -> Result<Plan, StoreError> {
        let none = StoreError::Unsupported(String::new().into());
        self.files.pages(id, &mut self.medium).ok_or(none)?.plan(id)
    }

    /// Lists the store pages by which a database with a write-ahead log grows, before they are written.
    fn list(&mut self, id: FileId) -> Result<(), StoreError> {
        let plan = self.plan(id)?;
        if !plan.lists {
            return Ok(());
        }
        let directory = self.directory(std::slice::from_ref(&plan));
        if let Err(error) = self.medium.write_directory(&directory, &Vec::new()) {
            if error.is_refusal() {
                self.give_back(&[plan]);
            }
            return Err(error);
        }
        self.medium.stats.directories += 1;
        if let Some(mut pages) = self.files.pages(id, &mut self.medium) {
            pages.list(plan);
        }
        Ok(())
    }

    /// Frees the store pages that the plans took. Some may have been written, so they are trimmed.
    fn give_back(&mut self, plans: &[Plan]) {
        plans.iter().for_each(|plan| self.medium.free(&plan.taken));
    }

    fn changes(&self, plans: &[Plan]) -> Vec<Change> {
        let mut changes = Vec::new();
        for plan in plans {
            let Some(file) = self.files.get(plan.id) else { continue };
            let homes =
                file.waiting.pages().into_iter().filter_map(|page| Some((page, home(&plan.runs, page)?)));
            changes.extend(homes.map(|(page, home)| Change { file: plan.id, page, home }));
        }
        changes
    }

    /// The directory after the plans, with the next sequence number.
    fn directory(&self, plans: &[Plan]) -> Directory {
        Directory { sequence: self.medium.sequence + 1, redo: None, files: self.files.listed(plans) }
    }

    /// True if a page was spilled to its home, so that it is not written again.
    fn is_placed(&self, change: &Change) -> bool {
        let slot = self.files.slot(change);
        matches!(slot, Some(&Slot::Spilled { lpn, is_placed: true, .. }) if lpn == change.home)
    }

    /// True if a page may be written to its home before the commit. Beyond the old end of a file no home
    /// holds committed contents. A database whose log has the page may be written at any time.
    fn may_come_first(&self, change: &Change) -> bool {
        self.files.get(change.file).is_some_and(|file| change.page >= file.placed.filled)
            || self.files.log_of(change.file).is_some()
    }

    /// Writes to their homes, one by one, the pages that may be there before the commit.
    fn write_each(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let mut bytes = vec![0; self.medium.page_bytes];
        for change in changes {
            self.files.load(change, &mut bytes, &mut self.medium)?;
            self.medium.store.write(Lpn(change.home), Cause::Host, &bytes)?;
        }
        self.medium.settle()
    }

    /// Writes the changed pages and the directory. Returns the store pages put aside if it was a large
    /// commit.
    fn write_work(
        &mut self,
        changes: &[Change],
        directory: Option<&Directory>,
    ) -> Result<BTreeSet<u32>, StoreError> {
        let page_bytes = self.medium.page_bytes;
        let slot = directory.map(|directory| directory.encode(page_bytes)).transpose()?;
        let own = slot.as_ref().map_or(0, |bytes| bytes.len() / page_bytes);
        let most = match self.medium.commits {
            Commits::Grouped => self.medium.group_pages_max(),
            Commits::PageByPage => usize::MAX,
        };
        let mut changes = changes.to_vec();
        changes.retain(|change| !self.is_placed(change));
        if changes.len() + own > most {
            let (first, others): (Vec<Change>, Vec<Change>) =
                changes.into_iter().partition(|change| self.may_come_first(change));
            self.write_each(&first)?;
            changes = others;
        }
        if changes.len() + own > most {
            let directory = directory.cloned().unwrap_or_else(|| self.directory(&[]));
            return Large::new(&mut self.files, &mut self.medium).write(&changes, directory);
        }
        let mut group = self.files.gather(&changes, &mut self.medium)?;
        if let (Some(directory), Some(bytes)) = (directory, &slot) {
            group.extend(directory_pages(directory.sequence, bytes, page_bytes));
        }
        self.medium.write_group(&group).map(|()| BTreeSet::new())
    }

    /// Updates the state in RAM after a commit was written.
    fn install(
        &mut self,
        plans: Vec<Plan>,
        changes: &[Change],
        directory: Option<Directory>,
        aside: &BTreeSet<u32>,
    ) {
        self.medium.stats.commits += 1;
        self.files.teach_written(changes, &mut self.medium.known);
        if let Some(directory) = directory {
            // A large commit has numbered its own.
            self.medium.sequence = self.medium.sequence.max(directory.sequence);
            self.medium.stats.directories += 1;
            self.medium.is_unsure = false;
        }
        for plan in plans {
            let of_file = changes.iter().filter(|change| change.file == plan.id);
            let written: BTreeSet<u32> = of_file.map(|change| change.page).collect();
            if let Some(mut pages) = self.files.pages(plan.id, &mut self.medium) {
                pages.install(plan, &written, aside);
            }
        }
    }

    /// Removes a file without a name from the directory and frees its store pages.
    pub(super) fn unlist(&mut self, id: FileId) -> Result<(), StoreError> {
        self.finish_moved()?;
        self.medium.write_directory(&self.directory(&[]), &Vec::new())?;
        self.medium.stats.directories += 1;
        let Some(file) = self.files.get_mut(id) else { return Ok(()) };
        file.now.visible = 0;
        self.medium.free(&file.placed.unlist());
        Ok(())
    }

    /// Brings the pages of an earlier large commit to their homes, if that failed when it was made.
    pub(super) fn finish_moved(&mut self) -> Result<(), StoreError> {
        if self.medium.moved.is_none() {
            return Ok(());
        }
        self.medium.put_in_place()?;
        self.medium.write_directory(&self.directory(&[]), &Vec::new())?;
        self.medium.drop_moved();
        Ok(())
    }
}
