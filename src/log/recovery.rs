//! Checkpoints of the log, and finding its newest state again after a clean or unclean end.
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
//!    [`Log::is_in_doubt`], and keeps what can be reached.
//! 5. A checkpoint is written, so that what was torn or dropped is behind it for good. Before that nothing is
//!    programmed; where it is impossible the log can only be read.
//!
//! The parts of a mount are functions of their own (`inline(never)`): one function of all of it has a stack
//! frame beyond the reach of short instructions, and takes 1.4 KB more of a microcontroller.
//!
//! Every free block is erased before its next use, and no page of a block opened before the mount is
//! programmed again, but where blocks are scarce: then the pages that a cut may have torn are passed over
//! (`resume`). Neither a torn page nor an interrupted erase has to be told from an erased page.

use crate::blocks::checkpoint;
use crate::blocks::checkpoint::{CheckpointArea, Contents, NO_CHECKPOINT, Source, is_of_checkpoint};
use crate::blocks::{BlockState, BlockTable};
use crate::check::{IndexError, message, words};
use crate::codec::{put_u16, put_u32, put_u64};
use crate::fault::IndexFault;
use crate::log::cached::ReadPart;
use crate::log::config::{NOTES_LEFT_OUT, left_out};
use crate::log::held::Held;
use crate::log::needed::Needed;
use crate::log::opened::insert;
use crate::log::placed::placed_state;
use crate::log::seen::Seen;
use crate::log::state::{FIXED_BYTES, HAS_NOTES, LogContents, NONE, State, VERSION, VERSION_COUNTED};
use crate::log::tag::{self, Gaps, Seal};
use crate::log::{CLOSES, Log, LogConfig, Note, PageBuffer, Root, Runs};
use crate::nand::{Cause, Geometry, Nand, NandError, read_again};
use crate::store::StoreError;
use crate::units::{Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;

impl<N: Nand> Log<N> {
    /// Makes this the root, for an owner that tells its roots itself.
    pub fn set_root(&mut self, root: Root) {
        debug_assert!(root.height > 0 && root.ppn.0 < self.geometry.pages(), "R2: {root:?} is no root");
        self.root = Some(root);
    }

    /// Keeps so many pages to be read from RAM, none of them now.
    pub fn read_with(&mut self, pages: usize) {
        self.config.read_pages = pages;
        self.reads = ReadPart::new(pages, self.geometry.page_bytes as usize);
    }

    /// Has the next checkpoints keep these bytes for the owner.
    pub fn set_note(&mut self, note: Vec<u8>) {
        self.note = note;
    }

    /// Takes the bytes that the newest checkpoint keeps, after a mount, or that the last one was to keep.
    pub fn take_note(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.note)
    }

    /// Programs the write part and writes a checkpoint, with what the owner says, or what it had it keep.
    pub fn checkpoint(&mut self, note: Note<'_>) -> Result<(), IndexFault> {
        self.flush(Cause::CacheEviction)?;
        self.write_checkpoint(false, note)
    }

    /// Closes the log: a checkpoint is written, and the frontier left, so that the next mount sees at one
    /// glance that nothing was written since. Where blocks are scarce, the rest of the frontier is worth
    /// more than that.
    pub fn close(&mut self, note: Note<'_>) -> Result<(), IndexFault> {
        if self.is_placed() {
            return Ok(());
        }
        self.flush(Cause::CacheEviction)?;
        if !CLOSES || self.is_tight() {
            return self.write_checkpoint(false, note);
        }
        let open = self.frontier.block.take();
        if let Some(open) = open {
            self.blocks.close(open);
        }
        let before = self.counters.checkpoints;
        self.write_checkpoint(true, note)?;
        // Without a checkpoint no block is left before it is full: a mount tells by that what is missing.
        if let Some(open) = open.filter(|_| self.counters.checkpoints == before) {
            self.blocks.reopen(open);
            self.frontier.block = Some(open);
        }
        Ok(())
    }

    /// Goes on in the block opened last where blocks are scarce: a cut then costs a page or two and not the
    /// rest of a block. The page that was being programmed is the last one touched, or the one behind it if
    /// it looks erased: both are passed over, and with them what its writer may have passed over before that
    /// one. A block whose first page is whole was erased in full.
    fn resume(&mut self, (home, written): (Pbn, Written)) {
        debug_assert!(written.end <= self.geometry.pages_per_block, "a block of {} pages", written.end);
        let Some(gap) = written.gaps.unwrap_or(self.gaps_before).most() else { return };
        let next_page = written.end + gap + 1;
        let is_whole = self.physical_block(home) == home && self.blocks.state(home) == BlockState::Full;
        if is_whole && self.is_tight() && next_page < self.geometry.pages_per_block {
            self.blocks.reopen(home);
            (self.frontier.block, self.frontier.next_page) = (Some(home), next_page);
        }
    }

    /// Writes a checkpoint. Where no block is left for it (most anchors failed, say) the previous one stays
    /// the newest and the next mount has more to follow; nothing is lost by that.
    fn write_checkpoint(&mut self, closed: bool, note: Note<'_>) -> Result<(), IndexFault> {
        if let Some(note) = note.filter(|_| HAS_NOTES) {
            self.note_bound = note.byte_count();
        }
        let note = note.unwrap_or(&self.note);
        let mut contents = LogContents {
            fixed: self.fixed_part(note),
            owner: &self.owner,
            replaced: &self.replaced,
            note,
            openings: &self.openings,
            table_bytes: BlockTable::encoded_bytes_with(self.geometry, self.config.validity),
        };
        // A closing checkpoint must be followed by a plain one before anything is reclaimed: see
        // `Log::is_closed`.
        let blocks_needed = CheckpointArea::blocks_needed(self.geometry, contents.byte_count());
        let closed = CLOSES && closed && self.blocks.free_count() as usize > blocks_needed;
        contents.fixed[1] = u8::from(closed) | self.gaps().code() << 1;
        self.blocks_since_checkpoint = 0;
        // The buffer serves for the pages of the checkpoint meanwhile.
        self.loaded = None;
        match self.area.write(&mut self.nand, &mut self.blocks, &contents, &mut self.page.data) {
            Ok(()) => {
                self.counters.checkpoints += 1;
                (self.closed, self.needs_checkpoint) = (closed, false);
                self.needed = Needed::since_checkpoint(&self.frontier);
            }
            Err(error) if error.is_refusal() => {
                self.counters.checkpoints_skipped += 1;
            }
            Err(error) => return Err(error.into()),
        }
        self.recount();
        Ok(())
    }

    fn fixed_part(&self, note: &dyn Contents) -> [u8; FIXED_BYTES] {
        let note_bytes = if HAS_NOTES { note.byte_count() as u32 } else { 0 };
        assert!(note_bytes < 1 << 24, "a note of {note_bytes} bytes");
        let mut fixed = [0; FIXED_BYTES];
        fixed[0] = if self.counts() { VERSION_COUNTED } else { VERSION };
        put_u64(&mut fixed, 2, self.sequence);
        put_u32(&mut fixed, 10, self.frontier.block_sequence);
        put_u32(&mut fixed, 14, self.frontier.block.map_or(NONE, |b| b.0));
        put_u32(&mut fixed, 18, self.frontier.next_page);
        put_u32(&mut fixed, 22, self.root.map_or(NONE, |r| r.ppn.0));
        put_u32(&mut fixed, 26, note_bytes << 8 | u32::from(self.root.map_or(0, |r| r.height)));
        put_u16(&mut fixed, 30, self.owner.len() as u16);
        put_u32(&mut fixed, 32, self.replaced.len() as u32);
        put_u32(&mut fixed, 36, self.bad_at_format);
        fixed
    }

    /// Finds the newest state again.
    #[inline(never)]
    pub fn mount(mut nand: N, config: LogConfig) -> Result<Log<N>, IndexFault> {
        let (area, state) = newest_state(&mut nand, &config)?;
        let mut log = Log::assemble(nand, config, area, state);
        log.catch_up()?;
        Ok(log)
    }

    /// Reads what was written since the checkpoint, if anything was.
    fn catch_up(&mut self) -> Result<(), IndexFault> {
        self.recount();
        // A newer checkpoint may be the one that cannot be read.
        let closed = self.is_closed() && !self.area.is_ragged();
        if !(closed && self.nothing_since()?) {
            self.follow()?;
            // The pages of a journal, and those of blocks in doubt, lie before a checkpoint that does not
            // name them: the tree enters them first.
            self.needs_checkpoint = true;
        }
        if self.is_guessed {
            // The tree says which bits are right, and a checkpoint has them then.
            (self.in_doubt, self.needs_checkpoint) = (true, true);
        }
        Ok(())
    }

    /// Finds the state on the chip again, after an operation that failed half-way, and keeps no page to be
    /// read from RAM ([`Log::read_with`]). Only where nothing waits in RAM. Where that fails, the log is of
    /// no more use.
    pub fn remount(&mut self) -> Result<(), IndexFault> {
        assert!(self.writes.len() == 0, "what waits to be written would be lost");
        // The state on the chip takes the RAM of the one that is held, and of the cache until its owner has
        // it; to read it takes a page.
        self.read_with(0);
        self.hold_tables(0);
        (self.page.data, self.page.spare) = (Vec::new(), Vec::new());
        let found = if self.is_placed() {
            Ok(placed_state(self.geometry, &self.owner))
        } else {
            newest_state(&mut self.nand, &self.config)
        };
        self.page = PageBuffer::new(&self.geometry);
        if found.is_err() {
            self.hold_tables(self.geometry.blocks);
        }
        let (area, state) = found?;
        (self.area, self.blocks, self.replaced) = (area, state.blocks, state.replaced);
        (self.needed, self.frontier) = (Needed::since_checkpoint(&state.frontier), state.frontier);
        (self.sequence, self.root, self.closed) = (state.sequence, state.root, state.closed);
        (self.note, self.openings, self.gaps_before) = (state.note, state.openings, state.gaps);
        (self.in_doubt, self.needs_checkpoint, self.is_guessed) = (false, false, state.is_guessed);
        (self.held, self.loaded, self.next_free, self.goes_on) = (Held::default(), None, 0, false);
        self.weak.clear();
        self.dying.clear();
        self.journal.clear();
        if self.is_placed() { self.find_placed() } else { self.catch_up() }
    }

    /// Forgets what is known of so many blocks.
    fn hold_tables(&mut self, blocks: u32) {
        (self.held, self.note) = (Held::default(), Vec::new());
        self.blocks = BlockTable::keeping(Geometry { blocks, ..self.geometry }, self.config.validity);
        self.openings = vec![0; blocks as usize];
    }

    /// Writes the checkpoint that puts what a mount found behind it. Where that is impossible the log can be
    /// read, and takes no page before one is written: else what a cut left would be taken for part of what
    /// follows.
    pub fn end_mount(&mut self, note: Note<'_>) -> Result<(), IndexFault> {
        self.needs_checkpoint = true;
        let closes = self.frontier.block.is_none();
        self.write_checkpoint(closes, note)
    }

    /// Whether blocks that count as free, or pages that count as dead, may be damaged ones that the tree
    /// leads to.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// The tree leads to this page: it lives, whatever can be read of its block, and nothing takes its place.
    pub fn keep(&mut self, ppn: Ppn) -> Result<(), IndexFault> {
        if ppn.0 >= self.geometry.pages() {
            return Err(corrupted("a page address beyond the chip", ppn.0));
        }
        self.blocks.note_valid(ppn);
        if self.blocks.is_valid(ppn) {
            return Ok(());
        }
        let block = self.geometry.block_of(ppn);
        match self.blocks.state(block) {
            BlockState::Free | BlockState::Unclean => {
                self.blocks.claim(block);
                self.blocks.close(block);
            }
            BlockState::Open | BlockState::Full => {}
            // Nothing is ever programmed there again.
            BlockState::Bad => return Ok(()),
            BlockState::Reserved => {
                return Err(corrupted("the tree leads to a block kept for something else", ppn.0));
            }
        }
        self.blocks.keep(ppn);
        Ok(())
    }

    /// All that can be reached was kept.
    pub fn end_doubt(&mut self) {
        self.in_doubt = false;
        self.recount();
    }

    /// Whether a checkpoint must precede the next page.
    pub fn needs_checkpoint(&self) -> bool {
        self.needs_checkpoint
    }

    /// Journal leaves written after the newest root, oldest first, as the mount found them. Their owner
    /// enters them and then closes the log.
    pub fn take_journal(&mut self) -> Runs {
        core::mem::take(&mut self.journal)
    }

    /// Whether the block that a session would have opened first shows no sign of one. An older first page may
    /// hide what follows it, and where all of the block reads as erased that may be damage: then those that
    /// would have been next are asked. One that was marked bad since may have failed in that session: another
    /// block has its pages then.
    fn nothing_since(&mut self) -> Result<bool, IndexFault> {
        let next: Vec<Pbn> = self.blocks.free_by_least_wear().take(ASKED_FOR_SIGNS).collect();
        let mut asked = 0;
        for block in next {
            if self.nand.is_bad(block)? {
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
        let newest = self.frontier.block_sequence;
        // A page of another block may be that of one which was opened since, in the wrong place.
        let is_old = |log: &Self| {
            let account = log.account();
            account.number <= newest && account.home == block
        };
        let is_erased = match self.read_raw(self.geometry.page_at(block, 0))? {
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
        let since = self.frontier;
        let known_blocks = since.block_sequence.saturating_sub(u32::from(since.block.is_some()));
        let mut opened = self.blocks_opened_since()?;
        let mut seen = Seen::new(self.sequence, known_blocks, self.root);
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
            seen.block(block_sequence, self.geometry.pages_per_block);
            // A stand-in of the frontier is read whole, for its valid pages; what the checkpoint knew says
            // nothing new.
            let known = if block_sequence == since.block_sequence { since.next_page } else { 0 };
            let written = self.follow_block((block_sequence, home), (first_page, known), &mut seen)?;
            last = Some((home, written));
            self.openings[home.index()] = block_sequence as u16;
            self.frontier.block_sequence = self.frontier.block_sequence.max(block_sequence);
        }
        seen.losses.require_whole(self.nand.tears())?;
        self.in_doubt |= seen.losses.is_any;
        self.sequence = seen.numbers.sequence;
        self.root = seen.root;
        if seen.root_sequence > 0 {
            // The note was of the journal above the root that the checkpoint names.
            self.note.clear();
        }
        if seen.has_flush {
            return Err(left_out("pages of a write part: feature 'embedded'"));
        }
        if HAS_NOTES {
            self.journal = seen.journal();
        } else if seen.has_journal {
            return Err(left_out(NOTES_LEFT_OUT));
        }
        self.recount();
        if let Some(last) = last {
            self.resume(last);
        }
        Ok(())
    }

    /// Whether the next page would have been the first one of another block.
    fn is_last_full(&self, last: &Option<(Pbn, Written)>) -> bool {
        last.as_ref().is_none_or(|(_, written)| written.end == self.geometry.pages_per_block)
    }

    /// Reads a block's pages from one on; those before `known` were programmed before the checkpoint.
    fn follow_block(
        &mut self,
        (number, home): (u32, Pbn),
        (first, known): (u32, u32),
        seen: &mut Seen,
    ) -> Result<Written, IndexFault> {
        let g = self.geometry;
        let mut written = Written { end: first.max(known), gaps: None };
        // Where valid pages are counted: those before `first`.
        let (before, mut filled) = (self.blocks.valid_count(home), None);
        for page in first..g.pages_per_block {
            let ppn = g.page_at(home, page);
            let found = self.read_raw(self.physical(ppn))?;
            if found != Found::Erased {
                written.end = page + 1;
            }
            let place = self.page.place();
            if found != Found::Page || place.block_sequence != number || Pbn(place.home) != home {
                match found {
                    _ if page < known => {}
                    Found::Erased => seen.losses.erased(ppn),
                    _ => seen.losses.unreadable(ppn),
                }
                continue;
            }
            let tag = tag::tag_of(&self.page.spare);
            written.gaps = Some(place.gaps);
            // A page without a node passes over an address that was held.
            if tag.lowest_level > 0 && !self.counts() && !self.blocks.is_valid(ppn) {
                self.blocks.mark_valid(ppn);
            }
            if page >= known {
                seen.page(ppn, tag, place);
            }
            if page + 1 == g.pages_per_block && place.remaining == 0 {
                filled = Some(self.drop_invalid(home));
            }
        }
        if self.counts() {
            // Every page programmed counts, whole or not, as far as the last one says nothing else.
            let most = filled.unwrap_or(g.pages_per_block);
            self.blocks.set_valid_count(home, (before + written.end - first).min(most));
        }
        Ok(written)
    }

    /// Takes the valid bits of a block from its last page, which is in the buffer: how many there are.
    fn drop_invalid(&mut self, home: Pbn) -> u32 {
        let g = self.geometry;
        let bits = tag::valid_bits(&self.page.spare, g.pages_per_block);
        if self.counts() {
            return bits.iter().map(|byte| byte.count_ones()).sum();
        }
        for page in 0..g.pages_per_block {
            let ppn = g.page_at(home, page);
            if bits[page as usize / 8] >> (page % 8) & 1 == 0 && self.blocks.is_valid(ppn) {
                self.blocks.invalidate(ppn);
            }
        }
        self.blocks.valid_count(home)
    }

    /// Reads a page of the chip into the buffer, and says what it is.
    pub(super) fn read_raw(&mut self, physical: Ppn) -> Result<Found, IndexFault> {
        self.loaded = None;
        let seal = Seal { owner: &self.owner, page: self.geometry.page_in_block(physical) };
        let mut found = Found::Garbage;
        let (data, spare) = (&mut self.page.data, &mut self.page.spare);
        let read = read_again(&mut self.nand, (physical, Cause::Recovery), data, spare, |data, spare| {
            found = if tag::is_whole(spare, data, seal) {
                Found::Page
            } else if tag::looks_erased(spare, data) {
                Found::Erased
            } else if is_of_checkpoint(physical, data, spare) {
                Found::Foreign
            } else {
                Found::Garbage
            };
            matches!(found, Found::Erased | Found::Page)
        });
        match read {
            Ok(_) => Ok(found),
            // A block that failed says no more than a page that cannot be read.
            Err(NandError::Uncorrectable(_) | NandError::BadBlock(_)) => Ok(Found::Garbage),
            Err(error) => Err(error.into()),
        }
    }
}

/// The checkpoints of a chip and the newest state that they hold.
#[inline(never)]
fn newest_state<N: Nand>(nand: &mut N, config: &LogConfig) -> Result<(CheckpointArea, State), IndexFault> {
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
    if let Some(pair) = state.replaced.iter().find(|pair| reserved.contains(&pair.1)) {
        return Err(corrupted("a block of checkpoints stands in for another", pair.1.0));
    }
    reserved.extend(state.replaced.iter().map(|pair| pair.1));
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

/// The account that a page gives of itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Erased,
    Garbage,
    /// The page is whole, and of checkpoints.
    Foreign,
    /// The page is whole, and its tag and place are in the buffer.
    Page,
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
        return Err(IndexError::Unsupported(
            message!("the write part of the cache holds at most 200 pages, not {}", config.write_pages)
                .into(),
        )
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
