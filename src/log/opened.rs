//! Blocks that a mount has to follow: those opened since the checkpoint.
//!
//! The first page of a block tells, or the second one if the first is damaged, or may be: see `recovery`.

use super::head::Frontier;
use super::medium::{Account, Found};
use super::recovery::{Mount, corrupted};
use super::tape::Tape;
use crate::bits::{self, Word};
use crate::blocks::BlockState;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// Block with pages newer than the checkpoint: its number, its home and the first page to look at.
pub(super) type Opened = (u32, Pbn, u32);

/// Inserts a block in the order of the numbers. Few are opened between two checkpoints.
pub(super) fn insert(opened: &mut Vec<Opened>, block: Option<Opened>) {
    if let Some(block) = block {
        let at = opened.partition_point(|other| *other < block);
        opened.insert(at, block);
    }
}

/// The few good blocks that a mount examines twice. No RAM is taken for each of the others.
struct Good {
    /// Blocks with news, and blocks with the pages of another block, in ascending order.
    telling: Vec<(Pbn, Account)>,
    /// Blocks without any whole page, and blocks that are passed over: one bit each.
    silent: Vec<Word>,
}

impl Good {
    fn silence(&mut self, block: Pbn) {
        let (word, bit) = bits::place(block.index());
        self.silent[word] |= bit;
    }

    /// Account of a block; `None` if nothing is known of it.
    fn of(&self, block: Pbn) -> Option<Option<Account>> {
        if bits::is_set(&self.silent, block.index()) {
            return Some(None);
        }
        let at = self.telling.binary_search_by_key(&block, |entry| entry.0).ok()?;
        Some(Some(self.telling[at].1))
    }
}

impl<N: Nand> Tape<N> {
    /// True if no page of the log can lie in a block.
    fn is_unused(&self, block: Pbn) -> bool {
        matches!(self.blocks.state(block), BlockState::Bad | BlockState::Reserved)
            && self.addresses.home_of_stand_in(block).is_none()
    }

    /// Notes that a block was marked bad since the checkpoint. Either another block answers to its addresses,
    /// or none of its pages was in use.
    fn retire_unless_replaced(&mut self, block: Pbn) {
        if let Some(home) = self.addresses.home_of_stand_in(block) {
            self.addresses.end_stand_in(home);
            self.blocks.clear_valid(home);
            self.blocks.retire(home);
        }
        if !self.addresses.replaced.iter().any(|pair| pair.0 == block) {
            self.blocks.clear_valid(block);
            self.blocks.retire(block);
        }
    }

    /// Makes a block Full, with no page valid yet.
    fn take_over(&mut self, block: Pbn) {
        self.blocks.clear_valid(block);
        if self.blocks.state(block).is_free() {
            self.blocks.claim(block);
        }
        if self.blocks.state(block) == BlockState::Open {
            self.blocks.close(block);
        }
        if self.head.frontier.block == Some(block) {
            self.head.frontier.block = None;
        }
    }

    /// Frees a block that the checkpoint calls used, but that was erased since.
    fn forget(&mut self, block: Pbn, known_home: Option<Pbn>) {
        self.checkpoints.in_doubt |=
            [Some(block), known_home].into_iter().flatten().any(|b| self.blocks.valid_count(b) > 0);
        if let Some(home) = known_home {
            self.addresses.end_stand_in(home);
            self.blocks.clear_valid(home);
            self.blocks.retire(home);
        }
        self.blocks.clear_valid(block);
        self.blocks.discard(block);
        if self.head.frontier.block == Some(block) {
            self.head.frontier.block = None;
        }
    }
}

impl<N: Nand> Mount<'_, N> {
    /// Finds the blocks with pages newer than the checkpoint: number, home, first page to look at.
    #[inline(never)]
    pub(super) fn blocks_opened_since(&mut self) -> Result<Vec<Opened>, IndexFault> {
        let blocks = self.tape.medium.geometry.blocks;
        let mut bad = Vec::new();
        let mut good = Good { telling: Vec::new(), silent: bits::clear(blocks as usize) };
        for block in (0..blocks).map(Pbn) {
            if self.tape.is_unused(block) {
                continue;
            }
            if self.tape.medium.nand.is_bad(block)? {
                bad.push(block);
                continue;
            }
            let account = self.account_of_block(block)?;
            // The block it stood in for was reclaimed since; this one was erased and may be used anew.
            if let Some(home) = self.tape.addresses.home_of_stand_in(block)
                && account.is_none_or(|account| account.home != home)
            {
                self.tape.forget(block, Some(home));
            }
            match account {
                None => good.silence(block),
                Some(account)
                    if account.number >= self.tape.head.frontier.block_sequence || account.home != block =>
                {
                    good.telling.push((block, account));
                }
                Some(_) => {}
            }
        }
        self.pass_over_cut_copies(&mut good)?;
        let since = self.tape.head.frontier;
        let mut opened = Vec::new();
        for block in (0..blocks).map(Pbn) {
            if let Some(account) = good.of(block) {
                insert(&mut opened, self.look_at_block(block, account, since)?);
            }
        }
        if let Some(open) = self.tape.head.frontier.block.take()
            && self.tape.blocks.state(open) == BlockState::Open
        {
            self.tape.blocks.close(open);
        }
        for block in bad {
            self.tape.retire_unless_replaced(block);
        }
        Ok(opened)
    }

    /// Ignores copies that a cut interrupted. Two blocks may hold the pages of a third one that is marked
    /// bad: one of them failed while it stood in, and the other is its copy. If the cut came before the
    /// failed one was marked bad, its copy is incomplete. A complete copy has one page more than the failed
    /// block.
    fn pass_over_cut_copies(&mut self, good: &mut Good) -> Result<(), IndexFault> {
        for at in 1..good.telling.len() {
            for before in 0..at {
                let ((one, account), (other, same)) = (good.telling[before], good.telling[at]);
                let are_copies = account == same && account.home != one && account.home != other;
                if !are_copies || good.of(one) == Some(None) || good.of(other) == Some(None) {
                    continue;
                }
                let is_more = self.written_of(one, account)? < self.written_of(other, account)?;
                good.silence(if is_more { one } else { other });
            }
        }
        Ok(())
    }

    /// How far a block has the pages of the block it stands in for: whether the checkpoint says that it
    /// stands in, the last whole page, and the number of whole pages. The larger result counts.
    fn written_of(&mut self, block: Pbn, account: Account) -> Result<(bool, u32, u32), IndexFault> {
        let is_known = self.tape.addresses.home_of_stand_in(block) == Some(account.home);
        let (mut last, mut count) = (0, 0);
        for page in 0..self.tape.medium.geometry.pages_per_block {
            if self.tape.medium.read_in(block, page)? == Found::Page && self.tape.medium.account() == account
            {
                (last, count) = (page, count + 1);
            }
        }
        Ok((is_known, last, count))
    }

    /// Account of a block by its first page, or by another page if the first cannot be read or is of another
    /// block.
    fn account_of_block(&mut self, block: Pbn) -> Result<Option<Account>, IndexFault> {
        let home = self.tape.addresses.home_of_stand_in(block).unwrap_or(block);
        let first = self.tape.medium.geometry.page_at(block, 0);
        let damaged = match self.tape.medium.read_raw(first)? {
            Found::Page => {
                let account = self.tape.medium.account();
                let is_other = account.home != home
                    && self.second_page(block)? == Found::Page
                    && self.tape.medium.account().home == home;
                return Ok(Some(if is_other { self.tape.medium.account() } else { account }));
            }
            Found::Erased if self.tape.blocks.valid_count(home) == 0 => return Ok(None),
            // Blocks of earlier checkpoints are erased before the log takes them.
            Found::Foreign
                if self.tape.blocks.valid_count(home) == 0
                    && matches!(self.second_page(block)?, Found::Erased | Found::Foreign) =>
            {
                return Ok(None);
            }
            Found::Erased | Found::Foreign => None,
            Found::Garbage => Some(first),
        };
        self.later_whole_page(block, damaged)
    }

    /// Account of a block by the first whole page behind its first page. `damaged` is the first page, if it
    /// cannot be read.
    fn later_whole_page(
        &mut self,
        block: Pbn,
        mut damaged: Option<Ppn>,
    ) -> Result<Option<Account>, IndexFault> {
        for page in 1..self.tape.medium.geometry.pages_per_block {
            let ppn = self.tape.medium.geometry.page_at(block, page);
            match self.tape.medium.read_raw(ppn)? {
                Found::Page => return Ok(Some(self.tape.medium.account())),
                Found::Garbage => damaged = damaged.or(Some(ppn)),
                Found::Erased | Found::Foreign => {}
            }
        }
        match damaged.filter(|_| !self.tape.medium.nand.tears()) {
            Some(page) => Err(corrupted("no page of a block can be read", page.0)),
            None => Ok(None),
        }
    }

    /// Finds blocks written since the checkpoint whose first page is damaged and tells nothing. Their second
    /// pages tell.
    pub(super) fn blocks_hidden_since(
        &mut self,
        since: Frontier,
        opened: &[Opened],
    ) -> Result<Vec<Opened>, IndexFault> {
        let mut hidden = Vec::new();
        for block in (0..self.tape.medium.geometry.blocks).map(Pbn) {
            let is_known = opened.iter().any(|entry| self.tape.addresses.physical_block(entry.1) == block);
            if is_known || self.tape.is_unused(block) || self.tape.medium.nand.is_bad(block)? {
                continue;
            }
            let account = match self.second_page(block)? {
                Found::Page => Some(self.tape.medium.account()),
                Found::Garbage => self.later_whole_page(block, None)?,
                Found::Erased | Found::Foreign => None,
            };
            if account.is_some() {
                insert(&mut hidden, self.look_at_block(block, account, since)?);
            }
        }
        for &(number, home, _) in &hidden {
            let is_known = opened.iter().any(|entry| entry.0 == number);
            match self.tape.blocks.state(home) {
                BlockState::Full if !is_known => {}
                state if state.is_free() && !is_known => self.tape.take_over(home),
                _ => {
                    let at = self.tape.medium.geometry.page_at(home, 0).0;
                    return Err(corrupted("two blocks take one place", at));
                }
            }
        }
        Ok(hidden)
    }

    /// Reads the page programmed after the first one of a block. Erased if there is none.
    pub(super) fn second_page(&mut self, block: Pbn) -> Result<Found, IndexFault> {
        let pages = self.tape.medium.geometry.pages_per_block;
        for page in 1..self.gaps.most_to_second().map_or(pages, |most| pages.min(2 + most)) {
            let found = self.tape.medium.read_in(block, page)?;
            if found != Found::Erased {
                return Ok(found);
            }
        }
        Ok(Found::Erased)
    }

    /// Looks at the account of a block: number, home and first new page, if it has pages newer than the
    /// checkpoint.
    fn look_at_block(
        &mut self,
        block: Pbn,
        account: Option<Account>,
        since: Frontier,
    ) -> Result<Option<Opened>, IndexFault> {
        let Some(account) = account else {
            self.tape.forget(block, None);
            return Ok(None);
        };
        let is_stand_in = self.tape.addresses.home_of_stand_in(block).is_some();
        let Account { home, number } = account;
        let is_frontier = since.block == Some(home);
        if is_frontier && number == since.block_sequence && (home == block || is_stand_in) {
            return Ok(Some((number, home, since.next_page)));
        }
        if number > since.block_sequence || (is_frontier && number == since.block_sequence) {
            return Ok(self.adopt(block, account)?.map(|home| (number, home, 0)));
        }
        Ok(None)
    }

    /// Takes over a block written since the checkpoint. `None` if it is the unfinished copy of a failed
    /// block.
    fn adopt(&mut self, block: Pbn, account: Account) -> Result<Option<Pbn>, IndexFault> {
        let home = account.home;
        let at = self.tape.medium.geometry.page_at(block, 0).0;
        if home.0 >= self.tape.medium.geometry.blocks {
            return Err(corrupted("a page's home lies beyond the chip", at));
        }
        if home == block {
            self.tape.take_over(block);
            return Ok(Some(home));
        }
        let source = self.tape.addresses.physical_block(home);
        if !self.tape.medium.nand.is_bad(source)? || self.tape.blocks.state(home) == BlockState::Bad {
            // This is the unfinished copy of a failed block. That one is still there, or could not be marked
            // bad and has been erased and filled anew since.
            if self.tape.medium.read_in(source, 0)? == Found::Page
                && (self.tape.medium.account().home != home
                    || self.tape.medium.account().number < account.number)
            {
                return Err(corrupted("a block holds the pages of another one", at));
            }
            self.tape.forget(block, None);
            return Ok(None);
        }
        // A block that failed under its own address no longer stood in for another.
        if let Some(other) = self.tape.addresses.home_of_stand_in(home) {
            self.tape.forget(home, Some(other));
        }
        if self.tape.blocks.state(home) == BlockState::Reserved {
            return Err(corrupted("a page's home is a block kept for something else", at));
        }
        self.tape.blocks.clear_valid(block);
        if !self.tape.blocks.state(block).is_free() {
            self.tape.blocks.discard(block);
        }
        self.tape.blocks.reserve(block);
        let before = self.tape.addresses.physical_block(home);
        if before != home {
            self.tape.blocks.retire(before);
        }
        self.tape.take_over(home);
        self.tape.addresses.stand_in(home, block);
        Ok(Some(home))
    }
}
