//! Looking at logical pages before anybody asks for them.

use super::{PageStore, StoreError};
use crate::nand::{Cause, NandError};
use crate::units::Lpn;
use alloc::vec::Vec;

/// A store that notes which pages were hard to read, and moves them.
pub(crate) trait Patrol: PageStore {
    /// The page at which the round goes on.
    fn at(&mut self) -> &mut u32;

    /// Moves a page that was noted, if one was.
    fn move_weak(&mut self) -> Result<(), StoreError>;

    /// Reads a logical page, into this page of RAM or one that the store has.
    fn look_at(&mut self, lpn: Lpn, page: &mut Vec<u8>) -> Result<(), StoreError> {
        page.resize(self.page_bytes(), 0);
        self.read(lpn, Cause::Scrubbing, page)
    }

    /// Reads so many logical pages and moves those that are weak; the pages left of the round, 0 at its end.
    fn look_on(&mut self, budget: u32) -> Result<u32, StoreError> {
        let (mut page, pages) = (Vec::new(), self.page_count());
        for _ in 0..budget {
            let lpn = Lpn(*self.at());
            if lpn.0 >= pages {
                *self.at() = 0;
                return Ok(0);
            }
            *self.at() += 1;
            match self.look_at(lpn, &mut page) {
                // What is lost already is told to whoever asks for it.
                Ok(())
                | Err(StoreError::Corrupted { .. } | StoreError::Nand(NandError::Uncorrectable(_))) => {}
                Err(error) => return Err(error),
            }
            self.move_weak()?;
        }
        Ok(pages - *self.at())
    }
}
