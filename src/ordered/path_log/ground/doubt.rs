//! The blocks that a mount of a chip that was not closed cannot judge without the tree: a block without a
//! whole page was reclaimed, or is damaged and still lived in. What the tree leads to is kept, so that no
//! other page ever takes the place of a damaged one: a reader would take it for the damaged one and answer
//! wrongly.

use super::{Nodes, RawScheme};
use crate::fault::IndexFault;
use crate::log::Log;
use crate::nand::{Cause, Nand};

impl<N: Nand, S: RawScheme> Nodes<N, S> {
    /// Walks the inner nodes where a block is in doubt. Where one of them cannot be read, what lies below it
    /// is not known, and where a page's block serves for something else by now, its place cannot be kept:
    /// that is answered, and nothing is written.
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
