//! Programming of pages, each in the block that its stream is filling.

use super::Core;
use super::coder::View;
use super::level::RunAt;
use super::medium::Medium;
use super::page::{HEADER_BYTES, Header};
use super::space::Stock;
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::units::{Pbn, Ppn};
use core::cell::Cell;

/// Stream that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Pages of a level.
    Level(usize),
    /// Commit pages.
    Commits,
    /// Sealed pages.
    Sealed,
}

/// Programs of pages. They change the block that a stream is filling.
pub(super) struct Programs<'a, N> {
    pub(super) stock: &'a mut Stock,
    pub(super) medium: &'a mut Medium<N>,
}

impl<N: Nand> Programs<'_, N> {
    fn open_of(&mut self, target: Target) -> &mut Option<(Pbn, u32)> {
        match target {
            Target::Level(level) => &mut self.stock.levels[level].open,
            Target::Commits => &mut self.stock.commits.open,
            Target::Sealed => &mut self.stock.commits.open_sealed,
        }
    }

    /// Tries the program once. `None` if it fails. `failed` tells that an earlier try failed.
    pub(super) fn program_once(
        &mut self,
        target: Target,
        header: Header,
        failed: bool,
    ) -> Result<Option<Ppn>, IndexFault> {
        self.medium.require_number()?;
        if let Target::Level(level) = target
            && let Some(other) = self.stock.lender(level)
        {
            self.stock.levels[level].open = self.stock.levels[other].open.take();
        }
        let (block, page) = match *self.open_of(target) {
            Some(place) => place,
            None => {
                if !self.stock.has_place(target) {
                    return Err(if failed { IndexError::WornOut.into() } else { self.stock.no_room() });
                }
                let Some(block) = self.stock.space.blocks.take(&mut self.medium.nand)? else {
                    let is_worn = self.stock.space.blocks.is_any_bad();
                    return Err(if is_worn { IndexError::WornOut.into() } else { self.stock.no_room() });
                };
                if !matches!(target, Target::Level(_)) {
                    self.stock.commits.blocks.push(block);
                }
                (block, 0)
            }
        };
        let ppn = self.stock.geometry.page_at(block, page);
        let erases = self.stock.space.blocks.erases(block);
        // In another place the page is not the first one behind the newest commit page.
        let commits = header.commits && !failed;
        let cause = match target {
            Target::Level(_) if self.medium.cause == Cause::Scrubbing => Cause::Scrubbing,
            Target::Level(_) => Cause::Merge,
            Target::Commits | Target::Sealed => Cause::Host,
        };
        let header = Header { erases, commit: self.stock.commits.sequence, commits, ..header };
        if self.medium.program(ppn, cause, header)? {
            if page == 0
                && let Some(anchor) = &mut self.stock.space.blocks.anchor
            {
                anchor.note_begun(block);
            }
            let next = page + 1;
            *self.open_of(target) = (next < self.stock.geometry.pages_per_block).then_some((block, next));
            self.stock.commits.carried = commits;
            return Ok(Some(ppn));
        }
        *self.open_of(target) = None;
        self.stock.space.blocks.fail(block);
        if matches!(target, Target::Level(_)) {
            self.stock.space.leave_if_dead(block, &self.stock.levels);
        }
        Ok(None)
    }
}

impl<N: Nand> Core<N> {
    /// View of the parts that programs of pages change.
    pub(super) fn programs(&mut self) -> Programs<'_, N> {
        Programs { stock: &mut self.stock, medium: &mut self.medium }
    }

    /// Programs the page in the output buffer. If the program fails, another block is tried.
    pub(super) fn program(&mut self, target: Target, header: Header) -> Result<Ppn, IndexFault> {
        let mut failed = false;
        loop {
            match self.programs().program_once(target, header, failed)? {
                Some(ppn) => return Ok(ppn),
                None => failed = true,
            }
        }
    }

    /// Enters the page in the output buffer at the end of a level's new pages, or of its old pages.
    pub(super) fn adopt(&mut self, (level, part): RunAt, ppn: Ppn, count: usize, tombstones: bool) {
        let body = &self.medium.output[HEADER_BYTES..];
        if let Some(view) = View::new(body, self.medium.record, count, tombstones) {
            let known = Cell::default();
            self.stock.levels.adopt((level, part), ppn, &view.noting(&known), self.planner.plan.pages_max[0]);
        }
    }
}
