//! The plan of a commit for one file: the store pages that it takes and frees.

use super::placed::{append, cut, pages};
use super::{FileId, Pages, Purpose, Run};
use nandex::StoreError;
use std::collections::BTreeSet;

/// Runs of a file after a commit, and the runs taken and freed for that.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) id: FileId,
    pub(super) runs: Vec<Run>,
    pub(super) taken: Vec<Run>,
    pub(super) freed: Vec<Run>,
    /// True if the runs taken ahead are among `runs`.
    has_ahead: bool,
    pub(super) kept_size: u64,
    pub(super) lists: bool,
}

impl Pages<'_> {
    /// Plans how large the file becomes on the flash, and takes the store pages for that.
    pub(super) fn plan(&mut self, id: FileId) -> Result<Plan, StoreError> {
        let page_bytes = self.room.medium.page_bytes;
        let (need, growth, owed) = (self.file.pages(page_bytes), self.growth, self.file.owed);
        let placed = &self.file.placed;
        let (mut runs, have) = (placed.runs.clone(), placed.capacity());
        let (was_listed, was_size) = (placed.is_listed, placed.kept_size);
        let (mut taken, mut freed) = (Vec::new(), Vec::new());
        let has_ahead = need > have && !placed.ahead.is_empty();
        if need > have {
            placed.ahead.iter().for_each(|&run| append(&mut runs, run));
            let more = need.saturating_sub(pages(&runs));
            let ample = more + growth.max(need / 16) - need % growth;
            let is_ample = ample.saturating_add(owed) <= self.room.medium.space.room();
            if more > 0 {
                let pages = if is_ample { ample } else { more };
                taken = self.take_to_grow(pages, runs.last().map(|run| run.end()))?;
            }
            taken.iter().for_each(|&run| append(&mut runs, run));
        } else if need == 0 || have - need > (2 * growth).max(need / 8) {
            freed = cut(&mut runs, need.next_multiple_of(growth).min(have));
        }
        let whole = u64::from(pages(&runs)) * page_bytes as u64;
        let kept_size = if self.file.purpose == Purpose::Main { whole } else { self.file.now.size };
        let moves = !taken.is_empty() || has_ahead || !freed.is_empty();
        let lists = moves || !was_listed || kept_size != was_size;
        Ok(Plan { id, runs, taken, freed, has_ahead, kept_size, lists })
    }

    /// Notes that the directory on the flash has the plan, before any page of the commit is written.
    pub(super) fn list(&mut self, plan: Plan) {
        let file = &mut *self.file;
        file.placed.list(plan.runs, plan.kept_size);
        let capacity = file.placed.capacity();
        file.placed.filled = file.placed.filled.min(capacity);
        file.now.visible = file.now.visible.min(capacity);
        file.settled.size = file.settled.size.min(plan.kept_size);
        file.settled.visible = file.settled.visible.min(capacity);
        self.room.medium.free(&plan.freed);
    }

    /// Notes that the pages of the commit are written. `aside` are the store pages that a large commit uses.
    pub(super) fn install(&mut self, plan: Plan, written: &BTreeSet<u32>, aside: &BTreeSet<u32>) {
        let (file, medium) = (&mut *self.file, &mut *self.room.medium);
        let need = file.pages(medium.page_bytes);
        let gone = (file.now.visible.min(need)..file.placed.filled)
            .filter(|page| !written.contains(page) && *page >= need);
        let gone = gone.filter_map(|page| file.placed.home(page)).map(|first| Run { first, pages: 1 });
        // What is freed as a whole is trimmed as a whole.
        let is_freed = |run: &Run| plan.freed.iter().any(|f| f.first <= run.first && run.end() <= f.end());
        let gone: Vec<Run> = gone.filter(|run| !is_freed(run)).collect();
        let mut spilled = file.waiting.take_spilled(self.room.used);
        let top = written.last().map_or(0, |page| page + 1);
        file.placed.list(plan.runs, plan.kept_size);
        file.placed.filled = file.now.visible.max(top).min(file.placed.capacity());
        file.now.visible = file.placed.filled;
        medium.trim(&gone);
        medium.free(&plan.freed);
        if plan.has_ahead {
            file.placed.ahead.clear();
        } else {
            self.drop_ahead();
        }
        spilled.retain(|lpn| !aside.contains(lpn));
        self.room.medium.free_pages(spilled);
    }
}
