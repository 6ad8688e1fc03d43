//! The mount of the log: finds the newest state again after a clean or unclean end.
//!
//! A checkpoint holds the root, the frontier and the block table. A mount reads the newest one and then:
//!
//! 1. If the checkpoint was written at close (or by the last mount), one read of the block that would have
//!    been opened next tells if anything was written since. If not, the mount is done.
//! 2. Otherwise the first page of every block tells which blocks were opened since. The second page is read
//!    too if a block may be missing among them: if numbers are missing, or the last block is full. The pages
//!    of these blocks are read in the order in which they were programmed. A page at the end with a wrong
//!    checksum was torn and is left out, and so are the pages of a flush that is not whole. A cut tears only
//!    one page. So a second torn page, or one with whole pages after it and no newer root, is damage. A
//!    missing page that later pages say was programmed is damage too, unless its whole block is missing: that
//!    block was reclaimed. A page with a write part before it tells how many addresses were passed over just
//!    before it, so a page that reads as erased is missed. The newest remaining page with a root is the root.
//!    Pages after it belong to no complete operation.
//! 3. The valid bits of a block come from the checkpoint, or from its last page if it was filled since.
//!    Otherwise every page counts as valid. This may be too many: before a page is moved, the tree is asked
//!    if it can still be reached (mu-Tree, section 5.1). If valid pages are counted, their number per block
//!    is found instead. The next checkpoints tell that bits are in doubt, until the tree has settled them; if
//!    nothing was written since a checkpoint that does not tell so, its bits are exact.
//! 4. A block that the checkpoint knows and that has no whole page was reclaimed and erased since, or is
//!    damaged. The same is true of a block whose number is missing. Only the tree can tell: its owner asks
//!    `Log::is_in_doubt`, and keeps the pages that can be reached.
//! 5. A checkpoint is written, so that torn or dropped pages do not matter any more. Before that nothing is
//!    programmed. If it is impossible, the log is read-only.
//!
//! The parts of a mount are functions of their own (`inline(never)`). As one function they would have a stack
//! frame beyond the reach of short instructions, and take 1.4 KB more of a microcontroller.
//!
//! Every free block is erased before its next use, and no page is programmed in a block that was opened
//! before the mount. The exception is a chip with few blocks: there the pages that a cut may have torn are
//! passed over (`resume`). So it never matters that a torn page or an interrupted erase may look like an
//! erased page.

use super::checkpoints::Checkpoints;
use super::config::{NOTES_LEFT_OUT, left_out};
use super::held::Held;
use super::medium::Found;
use super::opened::{Opened, insert};
use super::placed::placed_state;
use super::runs::Runs;
use super::seen::Seen;
use super::state::{HAS_NOTES, State};
use super::tag::{self, Gaps};
use super::tape::Tape;
use super::{LogConfig, PageBuffer};
use crate::blocks::checkpoint::{self, CheckpointArea, NO_CHECKPOINT, Source};
use crate::blocks::{BlockState, BlockTable};
use crate::check::{IndexError, message, words};
use crate::fault::IndexFault;
use crate::nand::{Geometry, Nand};
use crate::store::StoreError;
use crate::units::Pbn;
use alloc::vec;
use alloc::vec::Vec;

pub(super) struct Mount<'a, N> {
    pub(super) tape: &'a mut Tape<N>,
    /// Journal leaves after the newest root, oldest first.
    journal: Runs,
    /// Gaps that the writer of the checkpoint may have passed over.
    pub(super) gaps: Gaps,
}

impl<N: Nand> Tape<N> {
    /// Finds the state on the chip again, after an operation failed half-way. If this fails, the tape cannot
    /// be used any more.
    pub(super) fn remount(&mut self) -> Result<Runs, IndexFault> {
        // The state on the chip takes the RAM of the one in memory, and reading it takes a page.
        self.hold_tables(0);
        (self.medium.page.data, self.medium.page.spare) = (Vec::new(), Vec::new());
        let geometry = self.medium.geometry;
        let found = if self.config.is_placed() {
            Ok(placed_state(geometry, &self.medium.owner))
        } else {
            newest_state(&mut self.medium.nand, &self.config)
        };
        self.medium.page = PageBuffer::new(&geometry);
        if found.is_err() {
            self.hold_tables(geometry.blocks);
        }
        let (area, state) = found?;
        (self.blocks, self.addresses, self.head) = (state.blocks, state.addresses, state.head);
        let Checkpoints { note_bound, blocks_since, .. } = self.checkpoints;
        let checkpoints = Checkpoints::new(area, state.note, state.closed, state.is_guessed);
        self.checkpoints = Checkpoints { note_bound, blocks_since, ..checkpoints };
        self.medium.loaded = None;
        self.medium.scrubbing.weak.give_up();
        self.find_rest(state.gaps)
    }

    /// Finds the pages written since the checkpoint by a writer with these gaps. Returns the journal leaves
    /// after the newest root, oldest first.
    pub(super) fn find_rest(&mut self, gaps: Gaps) -> Result<Runs, IndexFault> {
        let is_placed = self.config.is_placed();
        let mut mount = Mount { tape: self, journal: Runs::default(), gaps };
        let found = if is_placed { mount.find_placed() } else { mount.catch_up() };
        found?;
        let addresses = &mut mount.tape.addresses;
        addresses.is_unsettled = addresses.bits_in_doubt;
        Ok(mount.journal)
    }

    /// Replaces the tables in RAM by empty ones for `blocks` blocks.
    fn hold_tables(&mut self, blocks: u32) {
        let geometry = Geometry { blocks, ..self.medium.geometry };
        (self.addresses.held, self.checkpoints.note) = (Held::default(), Vec::new());
        self.blocks = BlockTable::keeping(geometry, self.config.validity);
        self.addresses.openings = vec![0; blocks as usize];
    }
}

impl<N: Nand> Mount<'_, N> {
    /// Reads the pages written since the checkpoint, if there are any.
    fn catch_up(&mut self) -> Result<(), IndexFault> {
        self.tape.recount();
        // A checkpoint that cannot be read may be a newer one.
        let closed = self.tape.checkpoints.is_closed() && !self.tape.checkpoints.area.is_ragged();
        let is_followed = !(closed && self.nothing_since()?);
        if is_followed {
            self.follow()?;
        }
        let checkpoints = &mut self.tape.checkpoints;
        // The pages of a journal, and those of blocks in doubt, lie before a checkpoint that does not name
        // them: the tree enters them first. The tree also tells which guessed bits are right.
        checkpoints.is_needed |= is_followed || checkpoints.is_guessed;
        checkpoints.in_doubt |= checkpoints.is_guessed;
        self.tape.addresses.bits_in_doubt |= checkpoints.in_doubt;
        Ok(())
    }

    /// Goes on in the block opened last if blocks are scarce: then a cut costs a page or two and not the rest
    /// of a block. The page that was being programmed is the last one touched, or the one behind it if that
    /// looks erased. Both are passed over, and also the addresses that the writer may have passed over
    /// before. A block whose first page is whole was completely erased. A checkpoint comes before the next
    /// page and names the page after which it comes, so cuts in a row find different pages.
    fn resume(&mut self, (home, written): (Pbn, Written)) {
        let pages = self.tape.medium.geometry.pages_per_block;
        debug_assert!(written.end <= pages, "a block of {} pages", written.end);
        let Some(gap) = written.gaps.unwrap_or(self.gaps).most() else { return };
        let next_page = written.end + gap + 1;
        let tape = &mut *self.tape;
        let is_full = tape.blocks.state(home) == BlockState::Full;
        let is_whole = tape.addresses.physical_block(home) == home && is_full;
        if is_whole && tape.is_tight() && next_page < pages {
            tape.blocks.reopen(home);
            (tape.head.frontier.block, tape.head.frontier.next_page) = (Some(home), next_page);
        }
    }

    /// True if the block that a session would have opened first shows no sign of a session. An older first
    /// page may hide later ones, and if the whole block reads as erased that may be damage: then the next
    /// candidates are asked. A candidate marked bad since may have failed in that session: another block then
    /// has its pages.
    fn nothing_since(&mut self) -> Result<bool, IndexFault> {
        let next: Vec<Pbn> = self.tape.blocks.free_by_least_wear().take(ASKED_FOR_SIGNS).collect();
        let mut asked = 0;
        for block in next {
            if self.tape.medium.nand.is_bad(block)? {
                return Ok(false);
            }
            asked += 1;
            match self.sign_in(block)? {
                Sign::New => return Ok(false),
                Sign::Old => return Ok(true),
                Sign::None if asked == ASKED_FOR_SIGNS => return Ok(true),
                Sign::None => {}
            }
        }
        Ok(asked > 0)
    }

    /// Sign, in a block, of a session since the checkpoint, which had the block as free.
    fn sign_in(&mut self, block: Pbn) -> Result<Sign, IndexFault> {
        let newest = self.tape.head.frontier.block_sequence;
        // A page with another home may be from a block that was opened since, in the wrong place.
        let is_old = |mount: &Self| {
            let account = mount.tape.medium.account();
            account.number <= newest && account.home == block
        };
        let is_erased = match self.tape.medium.read_in(block, 0)? {
            Found::Erased => true,
            Found::Page if is_old(self) => false,
            Found::Foreign if self.is_left_over(block, 0) => false,
            Found::Page | Found::Garbage | Found::Foreign => return Ok(Sign::New),
        };
        Ok(match self.second_page(block)? {
            Found::Erased if is_erased => Sign::None,
            Found::Erased => Sign::Old,
            Found::Page if is_old(self) => Sign::Old,
            Found::Foreign if self.is_left_over(block, 1) => Sign::Old,
            Found::Page | Found::Garbage | Found::Foreign => Sign::New,
        })
    }

    /// True if the page of a checkpoint in the buffer, read from this place, is of one before the newest. A
    /// later one was begun since and is not whole: pages may have followed it elsewhere.
    fn is_left_over(&self, block: Pbn, page: u32) -> bool {
        let Tape { medium, checkpoints, .. } = &*self.tape;
        let ppn = medium.geometry.page_at(block, page);
        checkpoints.area.is_older(ppn, &medium.page.data, &medium.page.spare)
    }

    /// Reads the pages written since the checkpoint, and takes the newest complete root from them.
    #[inline(never)]
    fn follow(&mut self) -> Result<(), IndexFault> {
        // The frontier of the checkpoint is read again, unless it was reclaimed.
        let since = self.tape.head.frontier;
        let known_blocks = since.block_sequence.saturating_sub(u32::from(since.block.is_some()));
        let mut opened = self.blocks_opened_since()?;
        let mut seen = Seen::new(self.tape.head.sequence, known_blocks, self.tape.head.root);
        let mut last = None;
        let mut has_looked_twice = false;
        let mut at = 0;
        loop {
            // Numbers are missing, or the last block is full: blocks were reclaimed, no other was opened yet,
            // or one is hidden.
            let is_in_doubt = match opened.get(at) {
                Some(next) => seen.numbers.is_gap(next.0),
                None => self.is_last_full(&last),
            };
            if is_in_doubt && !has_looked_twice {
                has_looked_twice = true;
                for hidden in self.blocks_hidden_since(since, &opened)? {
                    insert(&mut opened, Some(hidden));
                }
                continue;
            }
            let Some(&block @ (block_sequence, home, _)) = opened.get(at) else { break };
            at += 1;
            seen.block(block_sequence, self.tape.medium.geometry.pages_per_block);
            // A stand-in of the frontier is read whole, for its valid pages; pages that the checkpoint knew
            // tell nothing new.
            let known = if block_sequence == since.block_sequence { since.next_page } else { 0 };
            let written = self.follow_block(block, known, &mut seen)?;
            let is_known = since.block == Some(home) && block == (since.block_sequence, home, known);
            self.tape.addresses.bits_in_doubt |= !is_known || written.end > known;
            last = Some((home, written));
            self.tape.addresses.openings[home.index()] = block_sequence as u16;
            let newest = &mut self.tape.head.frontier.block_sequence;
            *newest = block_sequence.max(*newest);
        }
        seen.losses.require_whole(self.tape.medium.nand.tears())?;
        self.tape.checkpoints.in_doubt |= seen.losses.is_any;
        self.tape.head.sequence = seen.numbers.sequence;
        self.tape.head.root = seen.root;
        if seen.root_sequence > 0 {
            // The note was about the journal above the root that the checkpoint names.
            self.tape.checkpoints.note.clear();
        }
        if seen.has_flush {
            return Err(left_out("pages of a write part: feature 'embedded'"));
        }
        if HAS_NOTES {
            self.journal = seen.journal();
        } else if seen.has_journal {
            return Err(left_out(NOTES_LEFT_OUT));
        }
        self.tape.recount();
        if let Some(last) = last {
            self.resume(last);
        }
        Ok(())
    }

    /// True if the next page would have been the first one of another block.
    fn is_last_full(&self, last: &Option<(Pbn, Written)>) -> bool {
        last.as_ref().is_none_or(|(_, written)| written.end == self.tape.medium.geometry.pages_per_block)
    }

    /// Reads a block's pages from `first` on. Those before `known` were programmed before the checkpoint.
    fn follow_block(
        &mut self,
        (number, home, first): Opened,
        known: u32,
        seen: &mut Seen,
    ) -> Result<Written, IndexFault> {
        let g = self.tape.medium.geometry;
        let mut written = Written { end: first.max(known), gaps: None };
        // Number of valid pages before `first`, if valid pages are counted.
        let (before, mut filled) = (self.tape.blocks.valid_count(home), None);
        for page in first..g.pages_per_block {
            let ppn = g.page_at(home, page);
            let found = self.tape.medium.read_raw(self.tape.addresses.physical(g, ppn))?;
            if found != Found::Erased {
                written.end = page + 1;
            }
            let place = self.tape.medium.place();
            if found != Found::Page || place.block_sequence != number || Pbn(place.home) != home {
                match found {
                    _ if page < known => {}
                    Found::Erased => seen.losses.erased(ppn),
                    _ => seen.losses.unreadable(ppn),
                }
                continue;
            }
            let tag = tag::tag_of(&self.tape.medium.page.spare);
            written.gaps = Some(place.gaps);
            // A page without a node only passes over a held address.
            if tag.lowest_level > 0 && !self.tape.config.counts() && !self.tape.blocks.is_valid(ppn) {
                self.tape.blocks.mark_valid(ppn);
            }
            if page >= known {
                seen.page(ppn, tag, place);
            }
            if page + 1 == g.pages_per_block && place.remaining == 0 {
                filled = Some(self.drop_invalid(home));
            }
        }
        if self.tape.config.counts() {
            // Every programmed page counts, whole or not, unless the last page tells a lower number.
            let most = filled.unwrap_or(g.pages_per_block);
            self.tape.blocks.set_valid_count(home, (before + written.end - first).min(most));
        }
        Ok(written)
    }

    /// Takes the valid bits of a block from its last page, which is in the buffer. Returns their number.
    fn drop_invalid(&mut self, home: Pbn) -> u32 {
        let g = self.tape.medium.geometry;
        let bits = tag::valid_bits(&self.tape.medium.page.spare, g.pages_per_block);
        if self.tape.config.counts() {
            return bits.iter().map(|byte| byte.count_ones()).sum();
        }
        for page in 0..g.pages_per_block {
            let ppn = g.page_at(home, page);
            if bits[page as usize / 8] >> (page % 8) & 1 == 0 && self.tape.blocks.is_valid(ppn) {
                self.tape.blocks.invalidate(ppn);
            }
        }
        self.tape.blocks.valid_count(home)
    }
}

/// Reads the checkpoints of a chip, and the newest state in them.
#[inline(never)]
pub(super) fn newest_state<N: Nand>(
    nand: &mut N,
    config: &LogConfig,
) -> Result<(CheckpointArea, State), IndexFault> {
    let geometry = nand.geometry();
    check_config(&geometry, config)?;
    let mut decode = |source: &mut dyn Source| State::decode(source, geometry, config.validity);
    let Some(checkpoint::Found { area, newest, .. }) = CheckpointArea::mount_and_look(nand, &mut decode)?
    else {
        let found = crate::nand::unfit(nand, NO_CHECKPOINT)?;
        return Err(IndexError::NotFormatted(found).into());
    };
    let mut state = newest?;
    let mut reserved = area.occupied();
    if let Some(pair) = state.addresses.replaced.iter().find(|pair| reserved.contains(&pair.1)) {
        return Err(corrupted("a block of checkpoints stands in for another", pair.1.0));
    }
    reserved.extend(state.addresses.replaced.iter().map(|pair| pair.1));
    state.blocks.reserve_exactly(&reserved)?;
    Ok((area, state))
}

pub(super) fn corrupted(what: &'static str, page: u32) -> IndexFault {
    IndexFault::corrupted(what, page)
}

/// This many blocks are asked in turn whether anything was written since a closing checkpoint.
const ASKED_FOR_SIGNS: usize = 3;

/// Sign, in a block, of a session since a checkpoint that had the block as free.
enum Sign {
    /// The block reads as erased.
    None,
    /// The block was not opened since the checkpoint.
    Old,
    /// The block was opened since, or may have been.
    New,
}

/// How far a block is written.
struct Written {
    /// Page behind the last one that does not look erased.
    end: u32,
    /// Gaps that the writer of the block's newest whole page passes over. `None` if no page is whole.
    gaps: Option<Gaps>,
}

/// Refuses a chip or a configuration with which the log cannot work, and tells why.
pub(super) fn check_config(geometry: &Geometry, config: &LogConfig) -> Result<(), IndexFault> {
    let needed = tag::spare_bytes_needed(geometry.pages_per_block);
    if (geometry.spare_bytes as usize) < needed {
        let has = geometry.spare_bytes;
        return Err(IndexError::SpareTooSmall {
            who: words("a tree on raw NAND"),
            needs: needed as u32,
            has,
        }
        .into());
    }
    if config.write_pages > 200 {
        return Err(IndexError::unsupported(message!(
            "the write part of the cache holds at most 200 pages, not {}",
            config.write_pages
        ))
        .into());
    }
    config.require_built()?;
    if geometry.blocks < 8 {
        return Err(IndexError::ChipTooSmall {
            who: words("a tree on raw NAND"),
            needs: 8,
            has: geometry.blocks,
        }
        .into());
    }
    if geometry.blocks >= 1 << 24 {
        return Err(IndexError::Store(StoreError::Unsupported(words("more than 2^24 blocks").into())).into());
    }
    Ok(())
}
