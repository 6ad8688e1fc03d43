//! Finding the newest state of the log again after a clean or unclean end.
//!
//! A checkpoint holds the root, the frontier and the block table. A mount reads the newest one and then:
//!
//! 1. If it was written at close (or by the last mount), one read of the block that would have been opened
//!    next tells whether anything was written since. Nothing was: done.
//! 2. Otherwise the first page of every block tells which were opened since, and the second one too where a
//!    block may be missing among them: where numbers are missing, or the last one is full. Their pages are
//!    read in the order they were programmed. A page whose checksum fails at the end was torn and is left
//!    out; so are the pages of a flush that is not whole. A cut tears one page: a second one, or one with
//!    whole pages after it and no newer root, is damage. So is a page that later ones say was programmed,
//!    unless a whole block is missing there: that one was reclaimed. A page with a write part before it says
//!    how many addresses were passed over just before it, so that one that reads as erased is missed. The
//!    newest page left that holds a root is the root; what follows it belongs to no complete operation.
//! 3. A block's valid bits come from the checkpoint, or from its last page where it was filled since, or else
//!    every page counts as valid. That may be too many: whoever moves a page asks first whether it can still
//!    be reached (mu-Tree, section 5.1). Where valid pages are counted, it is so many of each block.
//! 4. A block that the checkpoint knows of and that holds no whole page was reclaimed and erased since, or is
//!    damaged, and so may be one whose number is missing. Only the tree knows: its owner asks
//!    `Log::is_in_doubt`, and keeps what can be reached.
//! 5. A checkpoint is written, so that what was torn or dropped is behind it for good. Before that nothing is
//!    programmed; where it is impossible the log can only be read.
//!
//! The parts of a mount are functions of their own (`inline(never)`): one function of all of it has a stack
//! frame beyond the reach of short instructions, and takes 1.4 KB more of a microcontroller.
//!
//! Every free block is erased before its next use, and no page of a block opened before the mount is
//! programmed again, but where blocks are scarce: then the pages that a cut may have torn are passed over
//! (`resume`). Neither a torn page nor an interrupted erase has to be told from an erased page.

use super::checkpoints::Checkpoints;
use super::config::{NOTES_LEFT_OUT, left_out};
use super::held::Held;
use super::medium::Found;
use super::opened::insert;
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

/// A mount at work.
pub(super) struct Mount<'a, N> {
    pub(super) tape: &'a mut Tape<N>,
    /// Journal leaves after the newest root, oldest first.
    journal: Runs,
    /// The gaps that whoever wrote the checkpoint passed over.
    pub(super) gaps: Gaps,
}

impl<N: Nand> Tape<N> {
    /// Finds the state on the chip again, after an operation that failed half-way. Where that fails, the
    /// tape is of no more use.
    pub(super) fn remount(&mut self) -> Result<Runs, IndexFault> {
        // The state on the chip takes the RAM of the one that is held; to read it takes a page.
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
        self.medium.scrubbing.weak.clear();
        self.find_rest(state.gaps)
    }

    /// Finds what was written since the checkpoint, by a writer that left such gaps: the journal leaves after
    /// the newest root, oldest first.
    pub(super) fn find_rest(&mut self, gaps: Gaps) -> Result<Runs, IndexFault> {
        let is_placed = self.config.is_placed();
        let mut mount = Mount { tape: self, journal: Runs::default(), gaps };
        let found = if is_placed { mount.find_placed() } else { mount.catch_up() };
        found?;
        Ok(mount.journal)
    }

    /// Forgets what is known of so many blocks.
    fn hold_tables(&mut self, blocks: u32) {
        let geometry = Geometry { blocks, ..self.medium.geometry };
        (self.addresses.held, self.checkpoints.note) = (Held::default(), Vec::new());
        self.blocks = BlockTable::keeping(geometry, self.config.validity);
        self.addresses.openings = vec![0; blocks as usize];
    }
}

impl<N: Nand> Mount<'_, N> {
    /// Reads what was written since the checkpoint, if anything was.
    fn catch_up(&mut self) -> Result<(), IndexFault> {
        self.tape.recount();
        // A newer checkpoint may be the one that cannot be read.
        let closed = self.tape.checkpoints.is_closed() && !self.tape.checkpoints.area.is_ragged();
        let is_followed = !(closed && self.nothing_since()?);
        if is_followed {
            self.follow()?;
        }
        let checkpoints = &mut self.tape.checkpoints;
        // The pages of a journal, and those of blocks in doubt, lie before a checkpoint that does not name
        // them: the tree enters them first. It says which guessed bits are right, too.
        checkpoints.is_needed |= is_followed || checkpoints.is_guessed;
        checkpoints.in_doubt |= checkpoints.is_guessed;
        Ok(())
    }

    /// Goes on in the block opened last where blocks are scarce: a cut then costs a page or two and not the
    /// rest of a block. The page that was being programmed is the last one touched, or the one behind it if
    /// it looks erased: both are passed over, and with them what its writer may have passed over before that
    /// one. A block whose first page is whole was erased in full.
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

    /// Whether the block that a session would have opened first shows no sign of one. An older first page may
    /// hide what follows it, and where all of the block reads as erased that may be damage: then those that
    /// would have been next are asked. One that was marked bad since may have failed in that session: another
    /// block has its pages then.
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

    /// The sign that a block gives of a session since the checkpoint at which it was free.
    fn sign_in(&mut self, block: Pbn) -> Result<Sign, IndexFault> {
        let newest = self.tape.head.frontier.block_sequence;
        // A page of another block may be that of one which was opened since, in the wrong place.
        let is_old = |mount: &Self| {
            let account = mount.tape.medium.account();
            account.number <= newest && account.home == block
        };
        let is_erased = match self.tape.medium.read_in(block, 0)? {
            Found::Erased => true,
            Found::Page if is_old(self) => false,
            Found::Page | Found::Garbage | Found::Foreign => return Ok(Sign::New),
        };
        Ok(match self.second_page(block)? {
            Found::Erased if is_erased => Sign::None,
            Found::Erased => Sign::Old,
            Found::Page if is_old(self) => Sign::Old,
            Found::Page | Found::Garbage | Found::Foreign => Sign::New,
        })
    }

    /// Reads what was written since the checkpoint and takes the newest complete root from it.
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
            let Some(&(block_sequence, home, first_page)) = opened.get(at) else { break };
            at += 1;
            seen.block(block_sequence, self.tape.medium.geometry.pages_per_block);
            // A stand-in of the frontier is read whole, for its valid pages; what the checkpoint knew says
            // nothing new.
            let known = if block_sequence == since.block_sequence { since.next_page } else { 0 };
            let written = self.follow_block((block_sequence, home), (first_page, known), &mut seen)?;
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
            // The note was of the journal above the root that the checkpoint names.
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

    /// Whether the next page would have been the first one of another block.
    fn is_last_full(&self, last: &Option<(Pbn, Written)>) -> bool {
        last.as_ref().is_none_or(|(_, written)| written.end == self.tape.medium.geometry.pages_per_block)
    }

    /// Reads a block's pages from one on; those before `known` were programmed before the checkpoint.
    fn follow_block(
        &mut self,
        (number, home): (u32, Pbn),
        (first, known): (u32, u32),
        seen: &mut Seen,
    ) -> Result<Written, IndexFault> {
        let g = self.tape.medium.geometry;
        let mut written = Written { end: first.max(known), gaps: None };
        // Where valid pages are counted: those before `first`.
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
            // A page without a node passes over an address that was held.
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
            // Every page programmed counts, whole or not, as far as the last one says nothing else.
            let most = filled.unwrap_or(g.pages_per_block);
            self.tape.blocks.set_valid_count(home, (before + written.end - first).min(most));
        }
        Ok(written)
    }

    /// Takes the valid bits of a block from its last page, which is in the buffer: how many there are.
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

/// The checkpoints of a chip and the newest state that they hold.
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

/// Blocks that are asked in turn whether anything was written since a closing checkpoint.
const ASKED_FOR_SIGNS: usize = 3;

/// The sign that a block gives of a session since a checkpoint at which it was free.
enum Sign {
    /// The block reads as erased.
    None,
    /// The block was not opened since.
    Old,
    /// The block was opened since, or may have been.
    New,
}

/// How far a block is written.
struct Written {
    /// The page behind the last one that does not look erased.
    end: u32,
    /// The gaps that the writer of the block's newest whole page passes over; none if no page is whole.
    gaps: Option<Gaps>,
}

/// Refuses a chip or settings that the log cannot work with, saying why.
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
