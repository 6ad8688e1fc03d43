//! Changes appended behind the newest commit page, on chips that take words of a programmed page one by one
//! ([`Geometry::appends`](crate::Geometry::appends)): NOR, and the flash of microcontrollers.
//!
//! In the class *every operation* a change is a page on NAND. Here it is a few words in a *page of changes*.
//! Such pages lie behind the commit page, in its block. Each is a sealed page that grows: following commit
//! pages name it instead of repeating its records. It begins with these fields:
//!
//! ```text
//! round and cursor of the first sweep; page + 1 and program of the sealed page before, or 0 and 0;
//! bytes of a word
//! ```
//!
//! The page's header tells in place of the records where the first change begins, and its checksum covers the
//! bytes up to there. Each change begins with a word:
//!
//! ```text
//! 1 byte: 0x58, + 1 if the key was removed, + 2 if the first sweep has moved since the change before
//! round and cursor of the first sweep, if it has moved
//! the key; its value if it was put
//! 3 bytes of a CRC-32 of the page's number, the commit page's program, the place in the page, these bytes
//! ```
//!
//! A mount takes the root and the records of the newest commit page, and then all changes behind it. Steps
//! may have been made since: they do not count, but a mount needs room for what they took from the memtable.
//! So a commit page is due once the memtable of a mount might be full, once the block is full, and whenever
//! blocks are to be freed. A change that is not whole ends a page. It was being written when the power
//! failed: nothing lies behind it.

use super::commit::{Commits, SEALS, Sealed, Stand};
use super::io::{Programs, Target};
use super::medium::Found;
use super::mount::Taking;
use super::page::{HEADER_BYTES, Header, Kind, low};
use super::root::{Reader, Writer};
use super::space::{Need, Stock};
use crate::check::Invariant;
use crate::codec::{crc32, is_blank};
use crate::fault::IndexFault;
use crate::nand::{Cause, Geometry, Nand, is_done};
use crate::ordered::{Durability, RecordFormat};
use crate::units::Ppn;
use alloc::boxed::Box;
use alloc::vec::Vec;

const TAG: u8 = 0x58;
const REMOVED: u8 = 1;
const MOVED: u8 = 2;
const CHECK_BYTES: usize = 3;
/// Share of the memtable that is left free where changes are appended: as many changes lie behind a commit
/// page at most.
const SHARE: usize = 8;
/// Blocks that a round of the first sweep takes, at most, before others are free.
const ROUND_BLOCKS: usize = 2;

/// Where the next change is appended.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Bytes of a word.
    word: usize,
    /// Number of changes appended since the mount.
    pub(super) appended: u64,
    /// The page of changes that is being filled, and its next free byte.
    page: Option<(Ppn, usize)>,
    /// Most records that a mount would find in the memtable. `None` if nothing may lie behind the newest
    /// commit page.
    held: Option<usize>,
}

impl Tail {
    /// `None` if no changes are appended on this chip in this class.
    pub(super) fn of(geometry: Geometry, class: Durability) -> Option<Box<Tail>> {
        let appends = SEALS && class == Durability::EveryOperation && geometry.appends();
        appends.then(|| Box::new(Tail { word: geometry.append_bytes as usize, ..Tail::default() }))
    }
}

impl Commits {
    /// Notes that a commit page was written with `records` records in the memtable, or that nothing may be
    /// appended until there is one.
    pub(super) fn restart_tail(&mut self, records: Option<usize>) {
        if let Some(tail) = &mut self.tail {
            (tail.page, tail.held) = (None, records);
        }
    }
}

impl Stock {
    /// Records of the memtable that steps keep free for a mount, which takes what is appended behind a commit
    /// page.
    pub(super) fn kept_free(&self) -> usize {
        if SEALS && self.commits.tail.is_some() { self.memtable.capacity() / SHARE } else { 0 }
    }

    /// True if sealed pages in blocks behind should be given back now: a round of the first sweep still fits
    /// the blocks.
    pub(super) fn is_nearly_short(&self) -> bool {
        let round = self.levels[0].pages().div_ceil(self.geometry.pages_per_block as usize);
        let is_behind = |sealed: &Sealed| Some(self.geometry.block_of(sealed.ppn)) != self.commits.newest;
        self.space.available() < self.blocks_for(Need::Insert { records: 1 }) + 1 + round.min(ROUND_BLOCKS)
            && (self.commits.sealed.front().is_some_and(is_behind) || self.is_any_left_by_commit())
    }

    /// True if the next insertion still has room where a page of changes is begun: a memtable with sealed
    /// pages needs more.
    fn bears_sealed(&self) -> bool {
        let need = Need::Insert { records: 1 };
        let more = self.dissolved_if_sealed(1) - self.dissolved(1);
        self.space.available() >= self.blocks_for(need) + more
    }
}

/// A change in a page.
struct Change<'a> {
    moved: Option<Stand>,
    key: &'a [u8],
    value: Option<&'a [u8]>,
    end: usize,
}

/// A page of changes.
#[derive(Clone, Copy)]
struct Place {
    ppn: Ppn,
    /// Program of the commit page.
    commit: u64,
    word: usize,
}

impl Place {
    fn check(&self, at: usize, bytes: &[u8]) -> [u8; CHECK_BYTES] {
        let place = (at as u32).to_le_bytes();
        let crc = crc32(&[&self.ppn.0.to_le_bytes(), &low(self.commit).to_le_bytes(), &place, bytes]);
        let [a, b, c, _] = crc.to_le_bytes();
        [a, b, c]
    }

    /// Writes a change at `at`, and returns its end. Beyond the end of the page it only counts.
    fn write(&self, page: &mut [u8], at: usize, change: &Change<'_>) -> usize {
        let mut writer = Writer::new(page.get_mut(at..).unwrap_or_default());
        let removed = if change.value.is_none() { REMOVED } else { 0 };
        let moved = if change.moved.is_some() { MOVED } else { 0 };
        writer.number((TAG | removed | moved).into());
        if let Some(stand) = &change.moved {
            writer.number(stand.round.into());
            writer.key(&stand.cursor);
        }
        writer.bytes(change.key);
        writer.bytes(change.value.unwrap_or(&[]));
        let end = at + writer.at();
        if let Some((bytes, check)) =
            page.get_mut(at..end + CHECK_BYTES).map(|all| all.split_at_mut(end - at))
        {
            check.copy_from_slice(&self.check(at, bytes));
        }
        end + CHECK_BYTES
    }

    /// The change at `at`, if a whole one is there.
    fn read<'a>(&self, page: &'a [u8], at: usize, record: RecordFormat) -> Option<Change<'a>> {
        let mut reader = Reader::new(page.get(at..)?);
        let tag = u8::try_from(reader.number()?).ok()?;
        if tag & !(REMOVED | MOVED) != TAG {
            return None;
        }
        let moved = match tag & MOVED {
            0 => None,
            _ => Some(Stand { round: reader.short()?, cursor: reader.key(record.key_bytes)? }),
        };
        let key = reader.bytes(record.key_bytes.into())?;
        let value = match tag & REMOVED {
            0 => Some(reader.bytes(record.value_bytes.into())?),
            _ => None,
        };
        let end = at + reader.at();
        let check = page.get(end..end + CHECK_BYTES)?;
        (check == self.check(at, &page[at..end])).then_some(Change {
            moved,
            key,
            value,
            end: end + CHECK_BYTES,
        })
    }

    /// Upper bound of the bytes from the start of a change to the start of the next one.
    fn stride_max(&self, record: RecordFormat) -> usize {
        let stand = 6 + usize::from(record.key_bytes);
        (1 + stand + record.entry_bytes() + CHECK_BYTES).next_multiple_of(self.word.max(1))
    }
}

impl<N: Nand> Programs<'_, N> {
    /// Appends the change of a key, which is in the memtable, behind the newest commit page. `is_new` tells
    /// that the key was not in the memtable before. False if a commit page has to be written instead.
    pub(super) fn append(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        is_new: bool,
    ) -> Result<bool, IndexFault> {
        let held = self.stock.commits.tail.as_ref().and_then(|tail| tail.held);
        let held = held.map(|held| held + usize::from(is_new));
        if held.is_none_or(|held| held > self.stock.memtable.capacity()) {
            return Ok(false);
        }
        let mut change = Change { moved: self.moved(), key, value, end: 0 };
        if !self.has_place_for(&change) {
            if !self.begin_page()? {
                return Ok(false);
            }
            change.moved = None;
            if !self.has_place_for(&change) {
                return Ok(false);
            }
        }
        let done = self.program_change(&change)?;
        let Stock { commits, memtable, levels, .. } = &mut *self.stock;
        if !done {
            // What the page held may be lost.
            commits.forget_sealed();
            memtable.unseal_all();
            commits.restart_tail(None);
            return Ok(false);
        }
        if let Some((newest, stand)) = commits.sealed.back_mut().zip(change.moved) {
            newest.stand = stand;
        }
        if let Ok(i) = memtable.find(key) {
            memtable.seal(i);
        }
        levels.note_top(key);
        if let Some(tail) = &mut commits.tail {
            (tail.held, tail.appended) = (held, tail.appended + 1);
        }
        (commits.dirty, commits.clean) = (false, false);
        Ok(true)
    }

    /// Where the first sweep stands, if it has moved since the last change was appended.
    fn moved(&self) -> Option<Stand> {
        let before = &self.stock.commits.sealed.back()?.stand;
        let level = &self.stock.levels[0];
        (before.round != level.round || before.cursor != level.cursor).then(|| self.stock.levels.stand())
    }

    fn open_page(&self) -> Option<(Place, usize)> {
        let tail = self.stock.commits.tail.as_ref()?;
        let (ppn, at) = tail.page?;
        Some((Place { ppn, commit: self.stock.commits.sequence, word: tail.word }, at))
    }

    fn has_place_for(&self, change: &Change<'_>) -> bool {
        let end = self.open_page().map(|(place, at)| place.write(&mut [], at, change));
        end.is_some_and(|end| end <= self.medium.output.len())
    }

    fn set_page(&mut self, ppn: Ppn, at: usize) {
        if let Some(tail) = &mut self.stock.commits.tail {
            tail.page = Some((ppn, at));
        }
    }

    /// Programs the words of a change. False if the program failed.
    fn program_change(&mut self, change: &Change<'_>) -> Result<bool, IndexFault> {
        let Some((place, at)) = self.open_page() else { return Ok(false) };
        let output = &mut self.medium.output;
        output.fill(0xff);
        let end = place.write(output, at, change);
        self.medium.credit.note_program();
        let done = is_done(self.medium.nand.program(place.ppn, Cause::Host, &output[..end], &[]))?;
        self.set_page(place.ppn, end.next_multiple_of(place.word));
        if !done {
            let block = self.stock.geometry.block_of(place.ppn);
            self.stock.commits.open = self.stock.commits.open.filter(|open| open.0 != block);
            self.stock.space.blocks.fail(block);
        }
        Ok(done)
    }

    /// Begins a page of changes behind the newest commit page. False if the block has no page left, or the
    /// program failed.
    fn begin_page(&mut self) -> Result<bool, IndexFault> {
        let commits = &self.stock.commits;
        let is_behind = commits.open.is_some_and(|open| Some(open.0) == commits.newest);
        let Some(word) = commits.tail.as_ref().map(|tail| tail.word) else { return Ok(false) };
        if !is_behind || !self.stock.bears_sealed() {
            return Ok(false);
        }
        let stand = self.stock.levels.stand();
        let before = commits.sealed.back().map(|before| (before.ppn, before.sequence));
        let output = &mut self.medium.output;
        output.fill(0xff);
        let mut writer = Writer::new(&mut output[HEADER_BYTES..]);
        writer.sealed_fields(&stand, before);
        writer.number(word as u64);
        let first = (HEADER_BYTES + writer.at()).next_multiple_of(word);
        if first >= output.len() {
            return Ok(false);
        }
        let header = Header { kind: Kind::Changes, ..Header::run(first, true) };
        let Some(ppn) = self.program_once(Target::Commits, header, false)? else { return Ok(false) };
        self.stock.list_sealed(Sealed { ppn, sequence: self.medium.sequence, stand, pages: 1 });
        self.set_page(ppn, first);
        Ok(true)
    }
}

/// A change of a page: its place, and the place of the change that tells where the sweep stood, or 0 if the
/// page itself does.
type Listed = (u16, u16);

impl<N: Nand> Taking<'_, N> {
    /// Enters the changes behind the newest commit page at `ppn`, in the order in which they were made.
    pub(super) fn changes_behind(&mut self, ppn: Ppn, sequence: u64) -> Result<(), IndexFault> {
        let end = (self.chip.geometry.block_of(ppn).0 + 1) * self.chip.geometry.pages_per_block;
        for page in (ppn.0 + 1..end).map(Ppn) {
            match self.chip.look_at_page(page)? {
                Found::Whole(header) if header.kind == Kind::Changes && header.commit == sequence => {
                    self.changes(page, &header)?;
                }
                Found::Broken if self.is_damaged(page, sequence) => return Err(not_whole(page)),
                _ => return self.require_end(page, end, sequence),
            }
        }
        Ok(())
    }

    /// Refuses a page behind the changes if others of them lie behind it: it held changes, too.
    fn require_end(&mut self, page: Ppn, end: u32, sequence: u64) -> Result<(), IndexFault> {
        if page.0 + 1 < end
            && let Found::Whole(header) = self.chip.look_at_page(Ppn(page.0 + 1))?
            && header.kind == Kind::Changes
            && header.commit == sequence
        {
            return Err(not_whole(page));
        }
        Ok(())
    }

    /// True if the page in the input buffer, which is not whole, holds a change behind that commit page.
    fn is_damaged(&self, ppn: Ppn, commit: u64) -> bool {
        let page = &self.chip.medium.input;
        let place = Place { ppn, commit, word: 1 };
        (HEADER_BYTES..page.len()).any(|at| place.read(page, at, self.record).is_some())
    }

    /// Enters the changes of the page in the input buffer: they are newer than all before. The next commit
    /// page repeats them: the sweep goes back to where the commit page left it, and the last change may be a
    /// torn one that looks whole now, and later does not.
    fn changes(&mut self, ppn: Ppn, header: &Header) -> Result<(), IndexFault> {
        let (place, begun) = self.fields(ppn, header)?;
        let (listed, _) = self.listed((place, header), begun)?;
        let input = core::mem::take(&mut self.chip.medium.input);
        for &(at, _) in &listed {
            if let Some(change) = place.read(&input, at.into(), self.record) {
                self.enter(change.key, change.value, false);
            }
        }
        self.chip.medium.input = input;
        Ok(())
    }

    /// Enters the changes of the sealed page in the input buffer, the newest first, unless newer ones are
    /// there or the sweep has passed them on its way to `now`. Returns where the sweep stood at the last one.
    pub(super) fn sealed_changes(
        &mut self,
        ppn: Ppn,
        header: &Header,
        now: &Stand,
    ) -> Result<Stand, IndexFault> {
        let (place, begun) = self.fields(ppn, header)?;
        let (listed, last) = self.listed((place, header), begun.clone())?;
        let input = core::mem::take(&mut self.chip.medium.input);
        for &(at, of) in listed.iter().rev() {
            let Some(change) = place.read(&input, at.into(), self.record) else { continue };
            let then = match of {
                0 => None,
                of => place.read(&input, of.into(), self.record).and_then(|change| change.moved),
            };
            let is_passed = then.as_ref().unwrap_or(&begun).has_passed(change.key, now);
            if !is_passed && self.memtable.find(change.key).is_err() {
                self.enter(change.key, change.value, true);
            }
        }
        self.chip.medium.input = input;
        Ok(last)
    }

    /// The fields of the page of changes in the input buffer: its place, and where the sweep stood.
    fn fields(&self, ppn: Ppn, header: &Header) -> Result<(Place, Stand), IndexFault> {
        let mut reader = Reader::new(&self.chip.medium.input[HEADER_BYTES..]);
        let mut read = || {
            let fields = self.sealed_fields(&mut reader)?;
            let word = reader.short().filter(|&word| word > 0)? as usize;
            Some((Place { ppn, commit: header.commit, word }, fields.0))
        };
        read().ok_or_else(|| IndexFault::broken(Invariant::I5, "a page of changes makes no sense", ppn.0))
    }

    /// Lists the changes of the page in the input buffer, and where the sweep stood at the last one. Fails if
    /// something lies behind a change that is not whole.
    fn listed(
        &self,
        (place, header): (Place, &Header),
        begun: Stand,
    ) -> Result<(Vec<Listed>, Stand), IndexFault> {
        let page = &self.chip.medium.input[..];
        let (mut listed, mut stand, mut at, mut of) = (Vec::new(), begun, usize::from(header.count), 0);
        while let Some(change) = place.read(page, at, self.record) {
            if let Some(moved) = change.moved {
                (stand, of) = (moved, at as u16);
            }
            listed.push((at as u16, of));
            at = change.end.next_multiple_of(place.word);
        }
        let behind = (at + place.stride_max(self.record)).min(page.len());
        if is_blank(&page[behind..]) { Ok((listed, stand)) } else { Err(not_whole(place.ppn)) }
    }
}

#[cold]
fn not_whole(ppn: Ppn) -> IndexFault {
    IndexFault::broken(Invariant::I5, "a page of changes is damaged", ppn.0)
}
