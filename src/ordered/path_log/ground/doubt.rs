//! Blocks that a mount cannot judge without the tree, on a chip that was not closed: a block without a whole
//! page was reclaimed, or is damaged and still in use. Pages to which the tree refers are kept, so that no
//! new page gets the address of a damaged one. Otherwise a reader would take the new page for the damaged one
//! and answer wrongly.

use super::{Nodes, RawScheme};
use crate::fault::IndexFault;
use crate::log::Log;
use crate::nand::{Cause, Nand};

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// Walks over the inner nodes if a block is in doubt. If an inner node cannot be read, the pages below it
    /// are not known. If the block of a page is used for something else by now, its place cannot be kept.
    /// Either is returned as an error, and then nothing is written.
    pub(super) fn keep_what_is_reached(&mut self) -> Result<Option<IndexFault>, IndexFault> {
        if !self.log.is_in_doubt() {
            return Ok(None);
        }
        self.log.begin_keeping();
        let kept = self.visit_reached(Cause::Recovery, &mut Log::keep);
        self.log.end_count(matches!(kept, Ok(None)));
        let damage = kept?;
        if damage.is_none() {
            self.log.end_doubt();
        }
        Ok(damage)
    }
}
