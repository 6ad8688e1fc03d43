//! The homes of a file's pages: the runs that the directory lists, and those taken ahead.

use super::Run;
use super::space::Space;
use nandex::StoreError;

#[derive(Debug, Default)]
pub(super) struct Placed {
    /// True if the directory on the flash has the file.
    pub(super) is_listed: bool,
    pub(super) runs: Vec<Run>,
    /// Runs taken for the file to grow by before a commit lists them. Its pages are spilled there.
    pub(super) ahead: Vec<Run>,
    /// Pages, from the first, whose homes may hold contents; later ones are zeros.
    pub(super) filled: u32,
    /// Size in bytes that the directory on the flash has.
    pub(super) kept_size: u64,
}

impl Placed {
    /// Number of store pages that the directory lists for the file.
    pub(super) fn capacity(&self) -> u32 {
        pages(&self.runs)
    }

    /// Home of a page, if the directory lists one.
    pub(super) fn home(&self, page: u32) -> Option<u32> {
        home(&self.runs, page)
    }

    /// Home of a page beyond the listed runs. Takes the missing store pages and `growth` more.
    pub(super) fn home_ahead(
        &mut self,
        page: u32,
        growth: u32,
        space: &mut Space,
    ) -> Result<Option<u32>, StoreError> {
        let (place, have) = (page - self.capacity(), pages(&self.ahead));
        if place >= have {
            let need = place + 1 - have;
            let more = if need + growth <= space.room() { need + growth } else { need };
            let after = self.ahead.last().or(self.runs.last()).map(|run| run.end());
            self.ahead.extend(space.take(more, after)?);
        }
        Ok(home(&self.ahead, place))
    }

    /// Sets the runs and the size that the directory on the flash has now.
    pub(super) fn list(&mut self, runs: Vec<Run>, kept_size: u64) {
        (self.runs, self.kept_size, self.is_listed) = (runs, kept_size, true);
    }

    /// Notes that the directory no longer has the file, and returns its runs.
    pub(super) fn unlist(&mut self) -> Vec<Run> {
        (self.filled, self.is_listed, self.kept_size) = (0, false, 0);
        std::mem::take(&mut self.runs)
    }
}

/// Store page of a page in some runs.
pub(super) fn home(runs: &[Run], page: u32) -> Option<u32> {
    let mut before = page;
    for run in runs {
        if before < run.pages {
            return Some(run.first + before);
        }
        before -= run.pages;
    }
    None
}

/// Number of store pages of some runs.
pub(super) fn pages(runs: &[Run]) -> u32 {
    runs.iter().map(|run| run.pages).sum()
}

/// Appends a run, merged with the last if they touch.
pub(super) fn append(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if last.end() == run.first => last.pages += run.pages,
        _ => runs.push(run),
    }
}

/// Shortens runs to `pages` store pages and returns the rest.
pub(super) fn cut(runs: &mut Vec<Run>, pages: u32) -> Vec<Run> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_grows_behind_its_end_and_is_cut_there() {
        let mut space = Space::new(100, 140);
        assert!(space.take_exactly(Run { first: 100, pages: 4 }));
        let mut placed = Placed::default();
        placed.list(vec![Run { first: 100, pages: 4 }], 2000);
        assert_eq!((placed.home(3), placed.home(4)), (Some(103), None));
        assert_eq!(placed.home_ahead(5, 2, &mut space), Ok(Some(105)));
        assert_eq!(placed.ahead, [Run { first: 104, pages: 4 }], "two, and two more");
        assert_eq!(placed.home_ahead(999, 2, &mut space), Err(StoreError::Full));
        let mut runs = placed.unlist();
        append(&mut runs, placed.ahead[0]);
        assert_eq!(cut(&mut runs, 3), [Run { first: 103, pages: 5 }]);
        assert_eq!(
            (runs, placed.capacity(), placed.is_listed),
            (vec![Run { first: 100, pages: 3 }], 0, false)
        );
    }
}
