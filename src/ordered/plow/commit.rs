//! Commit pages hold the root and the records of the memtable. The newest one is the index.
//!
//! If the memtable is larger than a page, a commit page holds only the records that are in no sealed page. If
//! even these do not fit, as many as fit are written as a *sealed page*, which following commit pages name
//! instead of repeating its records. A sealed page tells where the first sweep stood when it was written:
//! only records that the sweep has not passed since are still in the memtable. So a sealed page is needed for
//! one round at most, and is never written again.

use super::Core;
use super::append::Tail;
use super::coder::{Builder, Expected};
use super::io::Target;
use super::level::Level;
use super::memtable::Memtable;
use super::page::{After, HEADER_BYTES, Header, Kind};
use super::root::Writer;
use super::space::{Space, Stock};
use crate::check::{IndexError, Limit};
use crate::fault::IndexFault;
use crate::nand::{Geometry, Nand};
use crate::ordered::{Durability, RecordFormat};
use crate::units::{Pbn, Ppn};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// True if this build has sealed pages. Without them a memtable holds no more than fits beside any root of
/// its chip.
pub(super) const SEALS: bool = cfg!(feature = "full");
/// Bytes by which the steps until the next commit page may lengthen the root: a few extents and cursors.
pub(super) const STEP_ROOT_BYTES: usize = 64;
/// Bytes of the root of an empty index. Each full block mostly adds [`ROOT_BLOCK_BYTES`].
pub(super) const ROOT_FIXED_BYTES: usize = 96;
pub(super) const ROOT_BLOCK_BYTES: usize = 8;

/// Upper bound, in bytes, of the root on a chip with `blocks` good blocks.
pub(super) const fn root_bytes_of(blocks: usize) -> usize {
    ROOT_FIXED_BYTES + ROOT_BLOCK_BYTES * blocks
}

/// Bytes of a page that root and records may take together.
pub(super) const fn commit_room_of(page_bytes: usize) -> usize {
    page_bytes - HEADER_BYTES - 40
}

/// Number of sealed pages for which the list has room, with a memtable of `records` records.
pub(super) fn sealed_listed(record: RecordFormat, geometry: Geometry, records: usize) -> usize {
    5 + 3 * records * (record.entry_bytes() + 1) / (geometry.page_bytes as usize - HEADER_BYTES)
}

/// Position of a sweep: its round and its cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stand {
    pub(super) round: u32,
    pub(super) cursor: Box<[u8]>,
}

impl Stand {
    /// True if the sweep passed `key` on its way from here to `now`.
    pub(super) fn has_passed(&self, key: &[u8], now: &Stand) -> bool {
        let is_ahead = key >= &self.cursor[..];
        match now.round.wrapping_sub(self.round) {
            0 => is_ahead && key < &now.cursor[..],
            1 => is_ahead || key < &now.cursor[..],
            _ => true,
        }
    }

    /// True if the sweep of a level passed every key on its way from here to where it is now.
    fn has_passed_all(&self, now: &Level) -> bool {
        match now.round.wrapping_sub(self.round) {
            0 => false,
            1 => now.cursor >= self.cursor,
            _ => true,
        }
    }
}

/// A sealed page that may still be needed. Or several pages of one block, needed as long as the newest of
/// them.
#[derive(Clone, Debug)]
pub(super) struct Sealed {
    /// The newest of these pages.
    pub(super) ppn: Ppn,
    pub(super) sequence: u64,
    pub(super) stand: Stand,
    pub(super) pages: u32,
}

/// The commit pages, and the changes that the newest one does not contain.
#[derive(Debug)]
pub(super) struct Commits {
    pub(super) durability: Durability,
    /// Block being filled with commit pages, and its next page.
    pub(super) open: Option<(Pbn, u32)>,
    /// Block being filled with sealed pages. They live longer than commit pages, so they have a block of
    /// their own.
    pub(super) open_sealed: Option<(Pbn, u32)>,
    /// Blocks with commit pages or sealed pages that may be needed.
    pub(super) blocks: Vec<Pbn>,
    /// Sealed pages that may be needed, the oldest first.
    pub(super) sealed: VecDeque<Sealed>,
    /// Where changes are appended behind the newest commit page, if they are.
    pub(super) tail: Option<Box<Tail>>,
    /// Program number of the newest commit page.
    pub(super) sequence: u64,
    /// Block of the newest commit page.
    pub(super) newest: Option<Pbn>,
    /// Number of levels in the newest commit page.
    pub(super) levels: u8,
    /// True if the newest page of all is the page of a step that commits.
    pub(super) carried: bool,
    /// True if the newest commit page says that changes of the class *none* follow.
    pub(super) followed: bool,
    /// Key and value of the change under way, if a step may carry it.
    pub(super) under_way: Vec<u8>,
    /// True if something is not in the newest commit page.
    pub(super) dirty: bool,
    /// True if a close wrote the newest commit page.
    pub(super) clean: bool,
}

impl Commits {
    pub(super) fn none(durability: Durability, record: RecordFormat, geometry: Geometry) -> Commits {
        Commits {
            durability,
            tail: Tail::of(geometry, durability),
            open: None,
            open_sealed: None,
            blocks: Vec::new(),
            sealed: VecDeque::new(),
            sequence: 0,
            newest: None,
            levels: 0,
            carried: false,
            followed: false,
            under_way: Vec::with_capacity(record.entry_bytes()),
            dirty: false,
            clean: false,
        }
    }

    /// True if every operation is durable.
    pub(super) fn is_durable(&self) -> bool {
        self.durability == Durability::EveryOperation
    }

    /// True if a sync has nothing to do.
    pub(super) fn is_done(&self) -> bool {
        !self.dirty && !self.followed
    }

    /// Lists a block that holds commit pages or sealed pages.
    pub(super) fn list_block(&mut self, block: Pbn) {
        if !self.blocks.contains(&block) {
            self.blocks.push(block);
        }
    }

    pub(super) fn sealed_pages(&self) -> usize {
        if SEALS { self.sealed.iter().map(|sealed| sealed.pages as usize).sum() } else { 0 }
    }

    pub(super) fn forget_sealed(&mut self) {
        if SEALS {
            self.sealed.clear();
        }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        let cursors: usize = self.sealed.iter().map(|sealed| sealed.stand.cursor.len()).sum();
        let tail = self.tail.as_ref().map_or(0, |_| size_of::<Tail>());
        self.blocks.capacity() * size_of::<Pbn>()
            + self.sealed.capacity() * size_of::<Sealed>()
            + cursors
            + tail
    }
}

impl<N: Nand> Core<N> {
    /// Makes all acknowledged changes durable.
    pub(super) fn commit(&mut self, clean: bool) -> Result<(), IndexFault> {
        self.stock.forget_passed();
        let written = self.map_if_due().and_then(|()| self.write_commit(clean));
        if written.is_err() {
            // A sealed page may hold changes that are taken back now.
            self.stock.commits.forget_sealed();
            self.stock.memtable.unseal_all();
            self.stock.commits.restart_tail(None);
        }
        let before = self.stock.commits.newest;
        self.stock.commits.newest = Some(self.stock.geometry.block_of(written?));
        (self.stock.commits.sequence, self.stock.commits.levels) =
            (self.medium.sequence, self.stock.levels.len() as u8);
        let geometry = self.stock.geometry;
        self.stock.commits.leave_blocks(&mut self.stock.space, geometry, before.filter(|_| clean));
        self.stock.space.blocks.settle(&mut self.medium.nand)?;
        (self.stock.commits.dirty, self.stock.commits.clean) = (false, clean);
        self.stock.commits.restart_tail((!clean).then_some(self.stock.memtable.len()));
        self.counters.commits += 1;
        self.stock.renew_anchor(&mut self.medium)
    }

    /// Commits and notes that no change of the class *none* follows.
    pub(super) fn commit_last(&mut self, clean: bool) -> Result<(), IndexFault> {
        let was_open = core::mem::replace(&mut self.stock.commits.followed, false);
        let committed = self.commit(clean);
        self.stock.commits.followed = was_open && committed.is_err();
        committed
    }

    /// Writes sealed pages until the other records fit into a commit page, then the commit page.
    fn write_commit(&mut self, clean: bool) -> Result<Ppn, IndexFault> {
        loop {
            let mut output = core::mem::take(&mut self.medium.output);
            let mut writer = Writer::new(&mut output[HEADER_BYTES..]);
            self.stock.write_root(&mut writer);
            let root = writer.at();
            let room = output.len() - HEADER_BYTES;
            let packed = if root > room {
                None
            } else {
                self.stock.memtable.pack(&mut output[HEADER_BYTES + root..], 0)
            };
            self.medium.output = output;
            let Some((count, is_all)) = packed else { return Err(IndexError::Full(Limit::Root).into()) };
            if is_all {
                return self.program(Target::Commits, self.stock.commits.header(Kind::Commit, clean, count));
            }
            // Records that can go to a level for good need not be sealed.
            if self.sink()? {
                continue;
            }
            if SEALS {
                self.seal()?;
            } else if self.stock.memtable.len() > 0 && self.stock.has_place(Target::Level(0)) {
                self.step(0)?;
            } else {
                return Err(IndexError::NO_BLOCK.into());
            }
        }
    }

    /// Writes unsealed records as a sealed page.
    fn seal(&mut self) -> Result<(), IndexFault> {
        let stand = self.stock.levels.stand();
        let body = &mut self.medium.output[HEADER_BYTES..];
        let mut writer = Writer::new(body);
        let before = self.stock.commits.sealed.back();
        writer.sealed_fields(&stand, before.map(|before| (before.ppn, before.sequence)));
        let at = writer.at();
        let Some((count, _)) = self.stock.memtable.pack(&mut body[at..], 1) else {
            return Err(IndexError::NO_BLOCK.into());
        };
        let ppn = self.program(Target::Sealed, self.stock.commits.header(Kind::Sealed, false, count))?;
        let mut last = 0;
        for _ in 0..count {
            let Some(i) = self.stock.memtable.next_unsealed(last) else { break };
            self.stock.memtable.seal(i);
            last = i;
        }
        // A mount takes the records from there, whatever was sunk above them.
        self.stock.levels.note_top(self.stock.memtable.key(last));
        self.stock.list_sealed(Sealed { ppn, sequence: self.medium.sequence, stand, pages: 1 });
        Ok(())
    }
}

impl Stock {
    /// Forgets the sealed pages whose records the sweep has passed.
    pub(super) fn forget_passed(&mut self) {
        if self.commits.sealed_pages() == 0 {
            return;
        }
        let now = &self.levels[0];
        while self.commits.sealed.front().is_some_and(|oldest| oldest.stand.has_passed_all(now)) {
            self.commits.sealed.pop_front();
        }
    }

    /// Lists a sealed page that was written now.
    pub(super) fn list_sealed(&mut self, sealed: Sealed) {
        let most = sealed_listed(self.memtable.record, self.geometry, self.memtable.capacity());
        self.commits.make_room_for_sealed(most, self.geometry);
        self.commits.sealed.push_back(sealed);
    }

    /// True if a commit page would give back a block of commit pages or sealed pages.
    pub(super) fn is_any_left_by_commit(&self) -> bool {
        let blocks = &self.commits.blocks;
        self.space.blocks.left() > 0
            || blocks.iter().any(|&block| !self.commits.needs(block, &self.space, self.geometry))
    }
}

impl Commits {
    /// True if a block holds pages that a mount would need, or is being filled.
    fn needs(&self, block: Pbn, space: &Space, geometry: Geometry) -> bool {
        let is_there = |ppn: Ppn| geometry.block_of(ppn) == block;
        Some(block) == self.newest
            || [self.open, self.open_sealed].iter().flatten().any(|open| open.0 == block)
            || SEALS && self.sealed.iter().any(|sealed| is_there(sealed.ppn))
            || space.map().is_some_and(|map| map.pages.iter().any(|&ppn| is_there(ppn)))
    }

    /// Gives back the blocks whose pages no mount would need.
    fn leave_blocks(&mut self, space: &mut Space, geometry: Geometry, kept: Option<Pbn>) {
        let mut listed = core::mem::take(&mut self.blocks);
        listed.retain(|&block| {
            let stays = Some(block) == kept || self.needs(block, space, geometry);
            if !stays {
                space.blocks.leave(block);
            }
            stays
        });
        self.blocks = listed;
    }

    /// Makes room in the list of sealed pages. The list gets its full length, `most`, at once: a list that
    /// grows is in RAM twice for a moment. Once it is full, two entries of one block are joined.
    pub(super) fn make_room_for_sealed(&mut self, most: usize, geometry: Geometry) {
        let held = self.sealed.len();
        if held < self.sealed.capacity() {
            return;
        }
        if held < most || !self.join_sealed(geometry) {
            self.sealed.reserve_exact(most.saturating_sub(held).max(4));
        }
    }

    /// Joins the two neighbours in the list that are in one block and have the fewest pages. Returns false if
    /// there are none.
    fn join_sealed(&mut self, geometry: Geometry) -> bool {
        let sealed = &mut self.sealed;
        let of_pair = |i: usize| [&sealed[i - 1], &sealed[i]];
        let is_of_one = |&i: &usize| {
            let [older, newer] = of_pair(i);
            geometry.block_of(older.ppn) == geometry.block_of(newer.ppn)
        };
        let pairs = (1..sealed.len()).filter(is_of_one);
        let fewest = pairs.min_by_key(|&i| of_pair(i).map(|sealed| sealed.pages).iter().sum::<u32>());
        let Some((newer, older)) = fewest.and_then(|i| Some((i - 1, sealed.remove(i - 1)?))) else {
            return false;
        };
        sealed[newer].pages += older.pages;
        true
    }

    fn header(&self, kind: Kind, clean: bool, count: usize) -> Header {
        let after = match (clean, self.followed && kind == Kind::Commit) {
            (true, _) => After::Nothing,
            (false, true) => After::Changes,
            (false, false) => After::Unsaid,
        };
        Header { kind, after, ..Header::run(count, true) }
    }
}

impl Memtable {
    /// Packs the unsealed records. Returns how many fit, and whether these are all. `None` if fewer than
    /// `least` fit.
    fn pack(&self, body: &mut [u8], least: usize) -> Option<(usize, bool)> {
        let (Some(from), Some(to)) = (self.next_unsealed(0), self.last_unsealed()) else {
            return (least == 0).then_some((0, true));
        };
        if body.len() < 32 + usize::from(self.record.key_bytes) {
            return (least == 0).then_some((0, false));
        }
        let (first, last, count) = (self.key(from), self.key(to), self.unsealed());
        let expected = Expected { first, low: first, last, count, tombstones: true };
        let mut builder = Builder::begin(body, self.record, expected);
        let mut next = Some(from);
        while let Some(i) = next {
            let (key, value) = self.get(i);
            if !builder.append(body, key, value) {
                break;
            }
            next = self.next_unsealed(i + 1);
        }
        (builder.count() >= least).then_some((builder.count(), next.is_none()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordered::plow::blocks::State;

    #[test]
    fn a_sweep_passes_what_lies_between() {
        let stand = |round, cursor: &[u8]| Stand { round, cursor: cursor.into() };
        let from = stand(7, &[5]);
        assert!(from.has_passed(&[5], &stand(7, &[9])) && !from.has_passed(&[9], &stand(7, &[9])));
        assert!(!from.has_passed(&[2], &stand(7, &[9])) && from.has_passed(&[2], &stand(8, &[3])));
        assert!(from.has_passed(&[8], &stand(8, &[])) && !from.has_passed(&[4], &stand(8, &[3])));
        assert!(from.has_passed(&[4], &stand(9, &[])));
        let level = |round, cursor: &[u8]| Level { round, cursor: cursor.into(), ..Level::default() };
        assert!(!from.has_passed_all(&level(8, &[4])) && from.has_passed_all(&level(8, &[5])));
    }

    #[test]
    #[cfg(feature = "full")]
    fn only_the_first_page_behind_a_commit_page_carries() {
        for (class, carries) in [(Durability::EveryOperation, true), (Durability::EverySync, false)] {
            let geometry = Geometry::new(512, 16, 8, 8);
            let mut commits = Commits::none(class, RecordFormat::new(4, 4), geometry);
            (commits.sequence, commits.levels) = (7, 2);
            assert!(!commits.may_carry(7, 2), "nothing is under way");
            commits.begin_change(&[1; 4], Some(&[2; 4]), true);
            assert_eq!((commits.may_carry(7, 2), commits.may_carry(8, 2)), (carries, false));
            commits.dirty = true;
            assert!(!commits.may_carry(7, 2) && !commits.is_done());
        }
    }

    #[test]
    fn blocks_are_left_once_nothing_in_them_is_needed() {
        let geometry = Geometry::new(512, 16, 8, 8);
        let mut space = Space::new(geometry, false);
        let mut commits = Commits::none(Durability::EverySync, RecordFormat::new(4, 4), geometry);
        for block in [0, 1, 2, 3, 3].map(Pbn) {
            space.blocks.set(block, State::Used);
            commits.list_block(block);
        }
        (commits.open, commits.newest) = (Some((Pbn(2), 1)), Some(Pbn(1)));
        commits.leave_blocks(&mut space, geometry, Some(Pbn(3)));
        assert_eq!((&commits.blocks[..], space.blocks.left()), (&[1, 2, 3].map(Pbn)[..], 1));
        commits.leave_blocks(&mut space, geometry, None);
        assert_eq!((&commits.blocks[..], space.available()), (&[1, 2].map(Pbn)[..], 6));
    }
}
