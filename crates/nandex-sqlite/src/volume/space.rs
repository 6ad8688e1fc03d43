//! The free store pages, as runs that are merged if they touch.

use nandex::StoreError;
use std::collections::BTreeMap;

/// A range of consecutive store pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    /// First store page.
    pub(super) first: u32,
    /// Number of store pages, at least 1.
    pub(super) pages: u32,
}

impl Run {
    pub(super) const fn end(self) -> u32 {
        self.first + self.pages
    }
}

/// One in `KEPT_BACK` store pages is kept back for the lists of large commits, so that a full volume can
/// still delete.
const KEPT_BACK: u32 = 32;

#[derive(Debug, Default)]
pub(super) struct Space {
    /// Lengths of the free runs by first store page. No two runs touch.
    free: BTreeMap<u32, u32>,
    pages: u32,
    /// Number of store pages kept back for large commits.
    kept_back: u32,
}

impl Space {
    /// All store pages of a range are free, and a share of them is kept back.
    pub(super) fn new(first: u32, end: u32) -> Space {
        let kept_back = end.saturating_sub(first) / KEPT_BACK;
        let mut space = Space { kept_back, ..Space::default() };
        if first < end {
            space.give(Run { first, pages: end - first });
        }
        space
    }

    /// Number of free store pages.
    pub(super) const fn pages(&self) -> u32 {
        self.pages
    }

    /// Number of free store pages for files and slots: those that are not kept back.
    pub(super) const fn room(&self) -> u32 {
        self.pages.saturating_sub(self.kept_back)
    }

    /// Number of store pages kept back.
    pub(super) const fn kept_back(&self) -> u32 {
        self.kept_back
    }

    /// The free runs in order.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.free.iter().map(|(&first, &pages)| Run { first, pages })
    }

    /// Frees a run.
    pub(super) fn give(&mut self, run: Run) {
        debug_assert!(run.pages > 0, "an empty run");
        self.pages += run.pages;
        let mut merged = run;
        if let Some((&first, &pages)) = self.free.range(..run.first).next_back() {
            debug_assert!(first + pages <= run.first, "page {} is free twice", run.first);
            if first + pages == run.first {
                self.free.remove(&first);
                merged = Run { first, pages: pages + merged.pages };
            }
        }
        if let Some(pages) = self.free.remove(&run.end()) {
            merged.pages += pages;
        }
        self.free.insert(merged.first, merged.pages);
    }

    /// Takes this run. Returns false if one of its store pages is not free.
    pub(super) fn take_exactly(&mut self, run: Run) -> bool {
        let found = self.free.range(..=run.first).next_back().map(|(&first, &pages)| Run { first, pages });
        let Some(found) = found.filter(|found| run.end() <= found.end()) else { return false };
        self.free.remove(&found.first);
        self.pages -= run.pages;
        if found.first < run.first {
            self.free.insert(found.first, run.first - found.first);
        }
        if run.end() < found.end() {
            self.free.insert(run.end(), found.end() - run.end());
        }
        true
    }

    /// Takes store pages of the room, as [`Space::take_any`] does.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] if the room is smaller. Nothing is taken then.
    pub(super) fn take(&mut self, pages: u32, after: Option<u32>) -> Result<Vec<Run>, StoreError> {
        if pages > self.room() { Err(StoreError::Full) } else { self.take_any(pages, after) }
    }

    /// Takes free store pages, kept back or not, in as few runs as possible: first the run at `after`, then
    /// the largest ones.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] if fewer are free. Nothing is taken then.
    pub(super) fn take_any(&mut self, pages: u32, after: Option<u32>) -> Result<Vec<Run>, StoreError> {
        if pages > self.pages {
            return Err(StoreError::Full);
        }
        let mut taken = Vec::new();
        let mut missing = pages;
        let mut place = after.filter(|place| self.free.contains_key(place));
        while missing > 0 {
            let next = place.take().and_then(|first| Some(Run { first, pages: *self.free.get(&first)? }));
            let found = next.or_else(|| self.best(missing)).ok_or(StoreError::Full)?;
            let run = Run { first: found.first, pages: found.pages.min(missing) };
            let is_free = self.take_exactly(run);
            debug_assert!(is_free, "a run that was found is free");
            missing -= run.pages;
            taken.push(run);
        }
        Ok(taken)
    }

    /// The first free run that is long enough, or the longest.
    fn best(&self, pages: u32) -> Option<Run> {
        self.runs().find(|run| run.pages >= pages).or_else(|| self.runs().max_by_key(|run| run.pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_merge_and_split() {
        let mut space = Space::new(10, 50);
        assert_eq!(space.take(5, None).unwrap(), [Run { first: 10, pages: 5 }]);
        assert_eq!(space.take(5, Some(15)).unwrap(), [Run { first: 15, pages: 5 }]);
        space.give(Run { first: 10, pages: 5 });
        assert_eq!(space.runs().count(), 2);
        space.give(Run { first: 15, pages: 5 });
        assert_eq!(space.runs().collect::<Vec<_>>(), [Run { first: 10, pages: 40 }]);
        assert!(!space.take_exactly(Run { first: 45, pages: 6 }));
        assert!(space.take_exactly(Run { first: 20, pages: 1 }));
        assert_eq!(space.pages(), 39);
    }

    #[test]
    fn more_than_there_is_takes_nothing() {
        let mut space = Space::new(0, 10);
        assert!(space.take_exactly(Run { first: 4, pages: 2 }));
        assert_eq!(space.take(9, None), Err(StoreError::Full));
        assert_eq!(space.pages(), 8);
        assert_eq!(space.take(8, None).unwrap().len(), 2, "what lies apart comes in pieces");
        assert_eq!(space.pages(), 0);
    }
}
