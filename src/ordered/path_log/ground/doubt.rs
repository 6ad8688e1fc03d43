//! The blocks that a mount of a chip that was not closed cannot judge without the tree: a block without a
//! whole page was reclaimed, or is damaged and still lived in. What the tree leads to is kept, so that no
//! other page ever takes the place of a damaged one: a reader would take it for the damaged one and answer
//! wrongly.

use super::{RawScheme, RawTree, address, node_in};
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand, NandError};
use crate::store::StoreError;
use alloc::vec::Vec;

impl<N: Nand, S: RawScheme> RawTree<N, S> {
    /// Walks the inner nodes where a block is in doubt. Where one of them cannot be read, what lies below it
    /// is not known, and where a page's block serves for something else by now, its place cannot be kept:
    /// that is answered, and nothing is written.
    pub(super) fn keep_what_is_reached(&mut self) -> Result<Option<IndexFault>, IndexFault> {
        if !self.log.is_in_doubt() {
            return Ok(None);
        }
        let mut damage = None;
        let height = self.height;
        let mut todo = Vec::from([(self.root, height)]);
        while let Some((named, level)) = todo.pop() {
            let ppn = if level < height { self.resolve(level, named) } else { named };
            if let Err(error) = self.log.keep(ppn) {
                damage.get_or_insert(error);
                continue;
            }
            if level == 1 {
                continue;
            }
            let page = match self.log.read(ppn, Cause::Recovery) {
                Ok(page) => page,
                Err(error) if is_damage(&error) => {
                    damage.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let (shape, count) = node_in(&self.scheme, &page.tag, (level, height), ppn)?;
            let node = &page.data[self.scheme.page_area(page.tag.layout, level, height)];
            todo.extend((0..count).map(|i| (address::<S>(shape.value(node, i)), level - 1)));
        }
        if damage.is_none() {
            self.log.end_doubt();
        }
        Ok(damage)
    }
}

fn is_damage(error: &IndexError) -> bool {
    matches!(
        error,
        IndexError::Corrupted { .. }
            | IndexError::Store(
                StoreError::Corrupted { .. }
                    | StoreError::Nand(NandError::Uncorrectable(_) | NandError::BadBlock(_))
            )
    )
}
