//! Anchors: on a chip of many blocks they tell a mount the few blocks in which it must look.
//!
//! Without them a mount looks at the first page of every block. So on chips of more than 512 blocks a few
//! blocks at fixed places hold *anchors*. An anchor is written behind a commit page. It tells which blocks
//! are open then, how often each block was erased, and it *announces* the blocks that are taken next, in
//! order. Only announced blocks are erased and begun. When few are left, another anchor announces these again
//! and others behind them. So whatever was programmed since *any* whole anchor lies in the blocks that it
//! names, until its last one is begun. That one of them is lost does no harm, therefore.
//!
//! ```text
//! first page: announced: how many, and twice the block of each, + 1 if it is erased; open: how many, and each
//! each page: first block that it tells of, least erases; for each block its erases less the least + 1; 0
//! ```
//!
//! The header counts the pages of the anchor from 1, and has the flag 1 on the last of them. The number of
//! the program is that of the commit page before the anchor.
//!
//! If the last two announced blocks are not both unused, or anything else is in doubt, a mount looks at all
//! blocks (`survey`). Blocks are then chosen freely until a commit writes the next anchor. Before the first
//! of them is erased, no anchor may be left on the chip that does not tell of it: either its last block is
//! begun for certain, or the blocks of anchors are erased.

use super::blocks::{Blocks, State};
use super::medium::{Found, Medium};
use super::page::{HEADER_BYTES, Header, Kind};
use super::root::{Reader, Writer};
use super::space::Stock;
use super::survey::Survey;
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::nand::{Cause, Geometry, Nand, NandError};
use crate::units::{Pbn, Ppn};
use alloc::boxed::Box;

/// True if this build knows anchors.
pub(super) const ANCHORS: bool = cfg!(feature = "full");
/// Chips of more blocks have anchors.
const BLOCKS_MAX_WITHOUT: u32 = 512;
/// Blocks that an anchor announces, and the number of them left at which the next anchor is due.
const ANNOUNCED: usize = 48;
const FEW: usize = 8;
/// Most blocks being filled: one of each level, one of sealed pages, one of commit pages, and that of the
/// newest of these.
const OPEN: usize = 8;
/// The blocks of anchors are among this many first ones.
const PLACES: u32 = 16;
/// Most bytes of the lists and of a number.
const LISTS_BYTES: usize = 4 * (ANNOUNCED + OPEN + 2);
const NUMBER_BYTES: usize = 3;

/// The newest anchor, and where the next one goes.
#[derive(Debug, Default)]
pub(super) struct Anchor {
    /// Blocks of anchors: bit `i` stands for block `i`.
    pub(super) places: u16,
    /// Block being filled with anchors, and its next page; the last one it was.
    open: Option<(Pbn, u32)>,
    /// Pages of the anchor written last.
    pages: u32,
    /// Announced blocks: how many, how many of these were taken, and the ones that were erased then.
    announced: List<ANNOUNCED>,
    taken: usize,
    erased: u64,
    /// Announced blocks whose first page a mount found whole, and older than the anchor.
    old: u64,
    /// Blocks being filled when the anchor was written.
    filled: List<OPEN>,
    /// Program number of the commit page before the anchor.
    sequence: u64,
    /// The block begun last.
    begun: Option<Pbn>,
    /// True if blocks are taken from the list.
    pub(super) in_force: bool,
    /// True if no anchor on the chip misleads a mount when other blocks are taken.
    is_void: bool,
}

/// A short list of blocks.
#[derive(Debug)]
struct List<const N: usize> {
    blocks: [u16; N],
    count: usize,
}

impl<const N: usize> Default for List<N> {
    fn default() -> List<N> {
        List { blocks: [0; N], count: 0 }
    }
}

impl<const N: usize> List<N> {
    fn all(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.blocks.iter().take(self.count).map(|&block| Pbn(block.into()))
    }

    fn push(&mut self, block: Pbn) -> bool {
        let Some(place) = self.blocks.get_mut(self.count) else { return false };
        (*place, self.count) = (block.0 as u16, self.count + 1);
        true
    }
}

/// True if this chip has anchors.
fn is_kept(geometry: Geometry) -> bool {
    let body = (geometry.page_bytes as usize).saturating_sub(HEADER_BYTES + 3 * NUMBER_BYTES);
    let bytes = LISTS_BYTES + NUMBER_BYTES * geometry.blocks as usize;
    ANCHORS
        && geometry.blocks > BLOCKS_MAX_WITHOUT
        && geometry.blocks < u32::from(u16::MAX) / 2
        && body > LISTS_BYTES
        && 2 * (bytes.div_ceil(body) + 1) <= geometry.pages_per_block as usize
}

/// Bytes of RAM for anchors.
pub(super) fn ram_bytes(geometry: Geometry) -> usize {
    if is_kept(geometry) { size_of::<Anchor>() } else { 0 }
}

impl Anchor {
    /// No anchor yet, if the chip has anchors at all.
    pub(super) fn none(geometry: Geometry) -> Option<Box<Anchor>> {
        is_kept(geometry).then(Box::default)
    }

    pub(super) fn is_place(&self, block: Pbn) -> bool {
        block.0 < PLACES && self.places >> block.0 & 1 == 1
    }

    /// The announced blocks that were not taken yet.
    pub(super) fn left(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.announced.all().skip(if self.in_force { self.taken } else { ANNOUNCED })
    }

    pub(super) fn pass_first(&mut self) {
        self.taken += 1;
    }

    pub(super) fn note_begun(&mut self, block: Pbn) {
        self.begun = Some(block);
    }

    /// True if anything that was programmed since the anchor may lie in this block.
    pub(super) fn names(&self, block: Pbn) -> bool {
        self.announced.all().chain(self.filled.all()).any(|named| named == block)
    }

    /// Whether a mount found an older first page in an announced block, unless it was begun since.
    pub(super) fn is_old(&self, block: Pbn) -> Option<bool> {
        let at = self.announced.all().position(|named| named == block)?;
        (at >= self.taken).then_some(self.old >> at & 1 == 1)
    }

    /// True if a block was erased already when the anchor announced it.
    pub(super) fn was_erased(&self, block: Pbn) -> bool {
        self.announced.all().enumerate().any(|(i, named)| named == block && self.erased >> i & 1 == 1)
    }

    /// Ends the choice of blocks by the list: all others follow. The anchor misleads no mount if its last
    /// block is begun.
    pub(super) fn end(&mut self) {
        if self.in_force {
            self.is_void = self.begun.is_some() && self.announced.all().last() == self.begun;
            self.in_force = false;
        }
    }

    /// Announces the blocks left again, and the least worn of the others behind them.
    fn announce(&mut self, blocks: &Blocks) {
        let mut list = List::<ANNOUNCED>::default();
        self.left().for_each(|block| _ = list.push(block));
        let again = list.count;
        let mut last = None;
        while list.count < ANNOUNCED {
            let rank = |block: Pbn| match blocks.state(block) {
                State::Erased => Some((0, blocks.erases(block), block)),
                State::Free => Some((1, blocks.erases(block), block)),
                _ => None,
            };
            let ranks = blocks.all().filter_map(rank).filter(|&rank| last.is_none_or(|last| rank > last));
            let next = ranks.filter(|rank| list.all().take(again).all(|listed| listed != rank.2)).min();
            let Some(next) = next else { break };
            list.push(next.2);
            last = Some(next);
        }
        let is_erased = |block| u64::from(blocks.state(block) == State::Erased);
        self.erased = list.all().enumerate().map(|(i, block)| is_erased(block) << i).sum();
        (self.announced, self.taken) = (list, 0);
    }

    /// Next page for an anchor: in the block being filled, or in the next one, which is erased. `None` if no
    /// block is left.
    fn place<N: Nand>(
        &mut self,
        blocks: &mut Blocks,
        nand: &mut N,
    ) -> Result<Option<(Pbn, u32)>, IndexFault> {
        let last = nand.geometry().pages_per_block;
        if let Some(open) = self.open.filter(|open| open.1 + self.pages.max(1) <= last) {
            return Ok(Some(open));
        }
        for block in self.others_first() {
            if self.erase(block, blocks, nand)? {
                self.open = Some((block, 0));
                return Ok(self.open);
            }
        }
        Ok(None)
    }

    /// Erases a block of anchors. One that fails is no such block any more.
    fn erase<N: Nand>(&mut self, block: Pbn, blocks: &mut Blocks, nand: &mut N) -> Result<bool, IndexFault> {
        match nand.erase(block, Cause::Checkpoint) {
            Ok(()) => {
                blocks.note_erased(block);
                Ok(true)
            }
            Err(NandError::EraseFailed(_) | NandError::BadBlock(_)) => {
                self.retire(block, blocks, nand).map(|()| false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Marks a block of anchors bad. What it holds counts no more, so it must be marked.
    fn retire<N: Nand>(&mut self, block: Pbn, blocks: &mut Blocks, nand: &mut N) -> Result<(), IndexFault> {
        self.places &= !(1 << block.0);
        blocks.retire(nand, block)?;
        if nand.is_bad(block)? { Ok(()) } else { Err(IndexError::WornOut.into()) }
    }

    /// Blocks of anchors, those behind the one being filled first: of them the newest anchor goes last.
    fn others_first(&self) -> impl Iterator<Item = Pbn> + use<> {
        let from = self.open.map_or(PLACES - 1, |open| open.0.0);
        let places = self.places;
        (1..=PLACES)
            .map(move |step| Pbn((from + step) % PLACES))
            .filter(move |block| places >> block.0 & 1 == 1)
    }

    /// Makes sure that no anchor on the chip misleads a mount. As long as one is left, the newest is.
    pub(super) fn make_void<N: Nand>(&mut self, blocks: &mut Blocks, nand: &mut N) -> Result<(), IndexFault> {
        if self.is_void {
            return Ok(());
        }
        for block in self.others_first() {
            self.erase(block, blocks, nand)?;
        }
        (self.open, self.is_void) = (None, true);
        Ok(())
    }

    /// Writes the anchor. False if no block is left for anchors. A block that fails is marked bad last, since
    /// it may hold the anchor before.
    fn write<N: Nand>(&mut self, blocks: &mut Blocks, medium: &mut Medium<N>) -> Result<bool, IndexFault> {
        let before = self.places;
        let written = self.write_whole(blocks, medium)?;
        for block in (0..PLACES).map(Pbn) {
            if (before & !self.places) >> block.0 & 1 == 1 && blocks.state(block) != State::Bad {
                self.retire(block, blocks, &mut medium.nand)?;
            }
        }
        Ok(written)
    }

    fn write_whole<N: Nand>(
        &mut self,
        blocks: &mut Blocks,
        medium: &mut Medium<N>,
    ) -> Result<bool, IndexFault> {
        let geometry = medium.nand.geometry();
        while let Some((block, first)) = self.place(blocks, &mut medium.nand)? {
            let mut told = 0;
            for page in first..geometry.pages_per_block {
                told = self.fill(&mut medium.output[HEADER_BYTES..], blocks, told, page == first);
                let is_last = told == geometry.blocks;
                let (count, erases) = ((page - first + 1) as usize, blocks.erases(block));
                let header = Header { kind: Kind::Anchor, erases, ..Header::run(count, is_last) };
                let (sequence, commit) = (self.sequence, self.sequence);
                let header = Header { sequence, commit, ..header };
                if !medium.program_anchor(geometry.page_at(block, page), header)? {
                    self.places &= !(1 << block.0);
                    break;
                }
                self.open = Some((block, page + 1));
                if is_last {
                    self.pages = page - first + 1;
                    return Ok(true);
                }
            }
            // The block was too short, or it failed.
            self.open = Some((block, geometry.pages_per_block));
        }
        Ok(false)
    }

    /// Fills a page. Returns the first block of which it does not tell.
    fn fill(&self, body: &mut [u8], blocks: &Blocks, from: u32, is_first: bool) -> u32 {
        body.fill(0);
        let (room, mut told) = (body.len(), from);
        let mut writer = Writer::new(body);
        if is_first {
            writer.number(self.announced.count as u64);
            for (i, block) in self.announced.all().enumerate() {
                writer.number(u64::from(block.0) * 2 + (self.erased >> i & 1));
            }
            writer.number(self.filled.count as u64);
            self.filled.all().for_each(|block| writer.number(block.0.into()));
        }
        let least = blocks.all().map(|block| blocks.erases(block)).min().unwrap_or(0);
        writer.number(from.into());
        writer.number(least.into());
        let count = blocks.all().count() as u32;
        while told < count && writer.at() + NUMBER_BYTES <= room {
            writer.number(u64::from(blocks.erases(Pbn(told)) - least) + 1);
            told += 1;
        }
        told
    }

    /// Takes over the lists of an anchor's first page.
    fn read_lists(&mut self, reader: &mut Reader<'_>, blocks: u32) -> Option<()> {
        (self.announced, self.filled, self.erased) = (List::default(), List::default(), 0);
        for i in 0..reader.below(ANNOUNCED as u32 + 1)? {
            let block = reader.below(blocks * 2)?;
            self.announced.push(Pbn(block / 2));
            self.erased |= u64::from(block & 1) << i;
        }
        for _ in 0..reader.below(OPEN as u32 + 1)? {
            self.filled.push(Pbn(reader.below(blocks)?));
        }
        Some(())
    }
}

/// Takes over the erases of the blocks of which a page of an anchor tells. Returns the first block behind.
fn read_erases(reader: &mut Reader<'_>, blocks: &mut Blocks, expected: u32) -> Option<u32> {
    let count = blocks.all().count() as u32;
    let from = reader.below(count).filter(|&from| from == expected)?;
    let least = reader.short()?;
    let mut block = from;
    while block < count
        && let Some(more) = reader.short().filter(|&more| more > 0)
    {
        blocks.set_erases(Pbn(block), u16::try_from(least + more - 1).ok()?);
        block += 1;
    }
    Some(block)
}

impl Stock {
    fn is_anchor_due(&self, anchor: &Anchor) -> bool {
        let left = anchor.left().count();
        left == 0 || left < FEW && left * 4 < self.space.blocks.free()
    }

    /// Writes an anchor behind the commit page, if few announced blocks are left.
    pub(super) fn renew_anchor<N: Nand>(&mut self, medium: &mut Medium<N>) -> Result<(), IndexFault> {
        let Some(mut anchor) = self.space.blocks.anchor.take().filter(|_| ANCHORS) else { return Ok(()) };
        if !self.is_anchor_due(&anchor) {
            self.space.blocks.anchor = Some(anchor);
            return Ok(());
        }
        anchor.announce(&self.space.blocks);
        anchor.filled = List::default();
        let filled = self.levels.iter().filter_map(|level| level.open);
        let filled = filled.chain(self.commits.open).chain(self.commits.open_sealed).map(|open| open.0);
        filled.chain(self.commits.newest).for_each(|block| _ = anchor.filled.push(block));
        anchor.sequence = self.commits.sequence;
        let written = anchor.write(&mut self.space.blocks, medium);
        // Whatever was left of an anchor that failed is not trusted.
        (anchor.in_force, anchor.is_void) = (matches!(written, Ok(true)), false);
        if !matches!(written, Ok(false)) {
            self.space.blocks.anchor = Some(anchor);
        }
        match written {
            // The commit page is written. Whoever takes a block is refused then.
            Err(error) if error.is_refusal() => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

impl Blocks {
    /// Chooses the blocks of anchors, for a format.
    pub(super) fn choose_places(&mut self) {
        let Some(mut anchor) = self.anchor.take().filter(|_| ANCHORS) else { return };
        let wanted = (self.all().count() as u32 / BLOCKS_MAX_WITHOUT).clamp(2, 8);
        for block in (0..PLACES).map(Pbn).filter(|&block| self.state(block) != State::Bad) {
            if anchor.places.count_ones() < wanted {
                anchor.places |= 1 << block.0;
            }
        }
        if anchor.places.count_ones() < 2 {
            return;
        }
        for block in (0..PLACES).map(Pbn).filter(|&block| anchor.is_place(block)) {
            self.set(block, State::Used);
        }
        self.anchor = Some(anchor);
    }

    /// Takes over the blocks of anchors of which a root tells.
    pub(super) fn take_places(&mut self, places: Option<u16>) {
        let Some(mut anchor) = self.anchor.take() else { return };
        anchor.places = 0;
        for block in (0..PLACES).map(Pbn).filter(|block| places.unwrap_or(0) >> block.0 & 1 == 1) {
            if self.state(block) != State::Bad {
                anchor.places |= 1 << block.0;
                self.set(block, State::Used);
            }
        }
        self.anchor = Some(anchor).filter(|_| places.is_some());
    }

    /// Forgets the anchor that a mount found: it is in doubt.
    pub(super) fn doubt_anchor(&mut self) {
        if let Some(anchor) = &mut self.anchor {
            **anchor = Anchor { open: anchor.open, ..Anchor::default() };
        }
        for block in self.all() {
            if self.state(block) != State::Bad {
                self.set(block, State::Free);
            }
            self.set_erases(block, 0);
        }
    }
}

impl<N: Nand> Survey<'_, N> {
    /// Finds the newest whole anchor and takes it over. False if there is none.
    pub(super) fn find_anchor(&mut self) -> Result<bool, IndexFault> {
        let Some(mut anchor) = self.blocks.anchor.take().filter(|_| ANCHORS) else { return Ok(false) };
        let mut begun = [(0, Pbn(0)); PLACES as usize];
        for block in (0..PLACES).map(Pbn).filter(|&block| self.blocks.state(block) != State::Bad) {
            if let Found::Whole(header) = self.medium.examine(self.geometry.page_at(block, 0))?
                && header.kind == Kind::Anchor
            {
                begun[block.index()] = (header.sequence, block);
            }
        }
        begun.sort_unstable();
        // Nothing is programmed in a block that was open before a mount.
        anchor.open =
            begun.last().filter(|begun| begun.0 > 0).map(|begun| (begun.1, self.geometry.pages_per_block));
        let mut is_found = false;
        for &(_, block) in begun.iter().rev().filter(|begun| begun.0 > 0) {
            is_found = is_found || self.find_anchor_in(block, &mut anchor)?;
        }
        self.blocks.anchor = Some(anchor);
        // What cannot be read there need not be read.
        (self.seen.displaced, self.seen.damaged) = Default::default();
        Ok(is_found)
    }

    /// Takes over the newest whole anchor of a block.
    fn find_anchor_in(&mut self, block: Pbn, anchor: &mut Anchor) -> Result<bool, IndexFault> {
        for page in (0..self.programmed(block)?).rev() {
            let ppn = self.geometry.page_at(block, page);
            let Found::Whole(header) = self.medium.examine(ppn)? else { continue };
            if header.kind == Kind::Anchor && header.tombstones && self.read_anchor(anchor, ppn, &header)? {
                anchor.pages = header.count.into();
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the anchor that ends with a page. False if it is not whole.
    fn read_anchor(&mut self, anchor: &mut Anchor, last: Ppn, newest: &Header) -> Result<bool, IndexFault> {
        let Some(first) = (last.0 + 1).checked_sub(newest.count.into()) else { return Ok(false) };
        let (mut told, blocks) = (0, self.geometry.blocks);
        for (i, ppn) in (first..=last.0).map(Ppn).enumerate() {
            let Found::Whole(header) = self.medium.examine(ppn)? else { return Ok(false) };
            let is_next = usize::from(header.count) == i + 1 && header.sequence == newest.sequence;
            if header.kind != Kind::Anchor || !is_next {
                return Ok(false);
            }
            let mut reader = Reader::new(&self.medium.input[HEADER_BYTES..]);
            if i == 0 && anchor.read_lists(&mut reader, blocks).is_none() {
                return Ok(false);
            }
            let Some(end) = read_erases(&mut reader, self.blocks, told) else { return Ok(false) };
            told = end;
            self.note(ppn, &header);
        }
        anchor.sequence = newest.sequence;
        Ok(told == blocks)
    }

    /// Looks at an announced block. One that was marked bad since counts as begun.
    fn look_at_announced(&mut self, block: Pbn) -> Result<(Found, bool), IndexFault> {
        match self.blocks.state(block) {
            State::Bad => Ok((Found::Broken, false)),
            _ => self.look_at(block),
        }
    }

    /// Looks at the blocks that the anchor names. Returns the newest commit page, if nothing is in doubt.
    pub(super) fn look_at_named(&mut self) -> Result<Option<(u64, Ppn)>, IndexFault> {
        let Some(mut anchor) = self.blocks.anchor.take().filter(|_| ANCHORS) else { return Ok(None) };
        for block in anchor.filled.all() {
            self.look_at_announced(block)?;
        }
        (anchor.taken, anchor.old) = (0, 0);
        let mut is_odd = false;
        for i in 0..anchor.announced.count {
            let block = Pbn(anchor.announced.blocks[i].into());
            let is_begun = match self.look_at_announced(block)? {
                (Found::Whole(header), _) if header.sequence <= anchor.sequence => {
                    // The page must be of the life that the anchor tells.
                    is_odd |= anchor.erased >> i & 1 == 1 || header.erases < self.blocks.erases(block);
                    anchor.old |= 1 << i;
                    false
                }
                (Found::Blank, is_more) => is_more,
                _ => true,
            };
            if is_begun {
                anchor.taken = i + 1;
            }
        }
        self.find_commit()?;
        let is_used_up = anchor.announced.count < anchor.taken + 2;
        anchor.in_force = true;
        self.blocks.anchor = Some(anchor);
        let seen = &self.seen;
        let is_clear = !is_odd && seen.displaced.0 == 0 && seen.damaged.is_empty() && !is_used_up;
        Ok(seen.commit.filter(|commit| is_clear && seen.named.0 <= commit.0))
    }
}
