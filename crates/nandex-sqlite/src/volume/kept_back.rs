//! Use of the store pages that are kept back, so that a full volume can still delete.
//!
//! One store page in 32 is kept back from the room. A large commit may take all of them while it lasts.
//! Waiting pages of a database may be spilled to half of them. A database may grow into that half too if its
//! commit frees more pages than it takes, since SQLite takes a page before it frees one.

use super::{Pages, Purpose, Run};
use nandex::StoreError;

/// First bytes of a database of SQLite. Then the offsets, in its header, of the number of pages and of the
/// free ones.
const MAGIC: &[u8] = b"SQLite format 3\0";
const PAGES_AT: usize = 28;
const FREE_AT: usize = 36;
const HEADER_BYTES: usize = 40;

impl Pages<'_> {
    /// Takes a store page to spill to. A database may get one of the half kept back that is lent.
    pub(super) fn take_to_spill(&mut self) -> Result<u32, StoreError> {
        let may = self.may_take_back(1);
        let runs = match self.room.medium.space.take(1, None) {
            Err(_) if may => self.room.medium.space.take_any(1, None),
            other => other,
        };
        Ok(runs?[0].first)
    }

    /// Takes store pages for the file to grow by. A database may get some that are kept back if its commit
    /// frees more pages than it takes.
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

    /// True if the waiting pages leave fewer pages of the database in use than the last commit did.
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
