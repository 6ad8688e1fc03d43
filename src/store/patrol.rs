//! Patrol reads: logical pages are read to find those that became hard to read, before anyone asks for them.

use super::{PageStore, StoreError};
use crate::nand::NandError;
use crate::units::Lpn;

/// Pages of a weak block that a scrub looks at after each of its reads.
pub(crate) const LOOKS_OF_SCRUB: u32 = 8;

/// A store that notes which pages were hard to read, and moves them.
pub(crate) trait Patrol: PageStore {
    /// Logical page at which the round continues.
    fn at(&mut self) -> &mut u32;

    /// Looks at up to `budget` pages of the block of a page that was noted as hard to read, and moves those
    /// that needed a correction. Returns the number of pages of the block that are left.
    fn move_weak(&mut self, budget: u32) -> Result<u32, StoreError>;

    /// Reads a logical page into a buffer of the store.
    fn look_at(&mut self, lpn: Lpn) -> Result<(), StoreError>;

    /// Reads up to `budget` logical pages, and moves pages of the blocks of those that are hard to read.
    /// Returns the number of pages left of the round; 0 at its end.
    fn look_on(&mut self, budget: u32) -> Result<u32, StoreError> {
        let pages = self.page_count();
        for _ in 0..budget {
            let lpn = Lpn(*self.at());
            if lpn.0 >= pages {
                *self.at() = 0;
                return self.move_weak(budget);
            }
            *self.at() += 1;
            match self.look_at(lpn) {
                // A page that is lost already is reported to whoever asks for it.
                Ok(())
                | Err(StoreError::Corrupted { .. } | StoreError::Nand(NandError::Uncorrectable(_))) => {}
                Err(error) => return Err(error),
            }
            self.move_weak(LOOKS_OF_SCRUB)?;
        }
        Ok(pages - *self.at())
    }
}
