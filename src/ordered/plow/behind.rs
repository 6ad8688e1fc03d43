//! Blocks in which the root names no page. A block begun after the newest commit page that a mount found
//! holds pages newer than the root.

use super::anchor::Anchor;
use super::blocks::State;
use super::medium::Found;
use super::root::Worn;
use super::survey::Survey;
use crate::check::Invariant;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::units::Pbn;

impl<N: Nand> Survey<'_, N> {
    /// Examines all blocks in which the root names no page. `sequence` is the program number of the newest
    /// commit page, `worn` has the erase counts in its root.
    pub(super) fn look_behind_root(&mut self, sequence: u64, worn: &Worn) -> Result<(), IndexFault> {
        let mut least: Option<(u16, Pbn)> = None;
        for block in (0..self.geometry.blocks).map(Pbn) {
            if self.blocks.state(block) == State::Free
                && self.is_in_question(block)
                && self.look_behind(block, sequence, worn)?
                && least.is_none_or(|least| self.blocks.erases(block) < least.0)
            {
                least = Some((self.blocks.erases(block), block));
            }
        }
        if let Some(least) = least {
            self.look_at_second(least)?;
        }
        Ok(())
    }

    /// True if the block may have been begun since the anchor, or if there is none.
    fn is_in_question(&self, block: Pbn) -> bool {
        self.anchor().is_none_or(|anchor| anchor.names(block))
    }

    /// The anchor by which the mount goes.
    fn anchor(&self) -> Option<&Anchor> {
        self.blocks.anchor.as_deref().filter(|anchor| anchor.in_force)
    }

    /// Looks at a block in which the root names no page: it may have been begun after the newest commit page.
    /// True if the block holds only older pages, and was not erased when the root was written.
    fn look_behind(&mut self, block: Pbn, sequence: u64, worn: &Worn) -> Result<bool, IndexFault> {
        let first = self.geometry.page_at(block, 0);
        let kept = match self.anchor() {
            // Which program it was is of no matter: the root is newer.
            Some(anchor) => anchor.is_old(block).map(|is_old| (u64::from(is_old), !is_old)),
            None => self.medium.kept_first(block, self.seen.newest),
        };
        let (begun, is_blank) = match kept {
            Some(kept) => kept,
            None => match self.see(first)? {
                Found::Whole(header) => (header.sequence, false),
                found => (0, found == Found::Blank),
            },
        };
        let listed = worn.erased.iter().find(|erased| erased.0 == block).map(|erased| erased.1);
        if begun > 0 {
            self.blocks.touch(block);
            // Since then a mount that wrote no commit page may have erased and programmed it again.
            if listed.is_some_and(|erases| self.blocks.erases(block) < erases) {
                let what = "a block that was erased holds a page of before";
                return Err(IndexFault::broken(Invariant::I7, what, first.0));
            }
            if begun > sequence {
                self.look_at_newest(block)?;
            }
            return Ok(begun <= sequence && listed.is_none());
        }
        // No page tells how often the block was erased. If it was used at all, at most once more than any
        // other.
        let erases = match listed {
            Some(erases) => erases,
            None if let Some(anchor) = self.anchor() => {
                self.blocks.erases(block).saturating_add(u16::from(!anchor.was_erased(block)))
            }
            None if is_blank && block.0 >= worn.touched => 1,
            None => worn.most.saturating_add(1),
        };
        self.blocks.set_erases(block, self.blocks.erases(block).max(erases));
        Ok(false)
    }

    /// Looks at the second page of the block that would be erased next. If the first page is an old one that
    /// was put back, the second may show that the block was erased and begun after the newest commit page.
    fn look_at_second(&mut self, (erases, block): (u16, Pbn)) -> Result<(), IndexFault> {
        match self.look_at_page(self.geometry.page_at(block, 1))? {
            Found::Whole(header) if header.erases > erases => {
                let first = self.geometry.page_at(block, 0);
                Err(IndexFault::broken(Invariant::I7, "the first page of a block is of before", first.0))
            }
            _ => Ok(()),
        }
    }
}
