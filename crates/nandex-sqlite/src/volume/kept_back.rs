//! The use of the pages that are kept back, so that a full volume can delete.
//!
//! One page in 32 is no room for files to grow by. The list of a commit that is too large for a group takes
//! them, for as long as the commit takes. Half of them lends room to pages of a database that wait for such
//! a commit; and a database may grow by a few of them where it gives back more than that, since SQLite takes
//! a page before it frees one.

use super::{Pages, Purpose, Run};
use nandex::StoreError;

/// The first bytes of a database of SQLite; its pages, and those of them that are free, in its header.
const MAGIC: &[u8] = b"SQLite format 3\0";
const PAGES_AT: usize = 28;
const FREE_AT: usize = 36;
const HEADER_BYTES: usize = 40;

impl Pages<'_> {
    /// A free page to spill to, for a database one of the first half of those kept back.
    pub(super) fn take_to_spill(&mut self) -> Result<u32, StoreError> {
        let may = self.may_take_back(1);
        let runs = match self.room.medium.space.take(1, None) {
            Err(_) if may => self.room.medium.space.take_any(1, None),
            other => other,
        };
        Ok(runs?[0].first)
    }

    /// Pages for the file to grow by. A database whose commit frees more than it takes may have some of those
    /// kept back.
    pub(super) fn take_to_grow(&mut self, pages: u32, after: Option<u32>) -> Result<Vec<Run>, StoreError> {
        match self.room.medium.space.take(pages, after) {
            Err(_) if self.may_take_back(pages) && self.frees()? => {
                self.room.medium.space.take_any(pages, after)
            }
            other => other,
        }
    }

    fn may_take_back(&self, pages: u32) -> bool {
        let space = &self.room.medium.space;
        self.file.purpose == Purpose::Main && space.pages() >= space.kept_back().div_ceil(2) + pages
    }

    /// Whether what waits leaves fewer pages of a database in use than the last commit did.
    fn frees(&mut self) -> Result<bool, StoreError> {
        let medium = &mut *self.room.medium;
        let (mut before, mut after) = ([0; HEADER_BYTES], vec![0; medium.page_bytes]);
        self.file.read_committed(0, &mut before, medium)?;
        self.file.load(0, &mut after, medium)?;
        let in_use = |header: &[u8]| {
            let number = |at: usize| header[at..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
            header.starts_with(MAGIC).then(|| number(PAGES_AT).saturating_sub(number(FREE_AT)))
        };
        Ok(in_use(&before).zip(in_use(&after)).is_some_and(|(before, after)| after < before))
    }
}
