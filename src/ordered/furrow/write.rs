//! Changes: gathered in the image of a page, programmed, and the blocks that they go to.

use super::page::{Before, CLOSED, CONTINUED, Header, JOINED, MARK, MORE, REMOVED, WHOLE};
use super::ring::Ring;
use super::{BLOCK_BITS, Furrow, ROUNDS};
use crate::blocks::mark_bad;
use crate::check::IndexError;
use crate::codec::numbers;
use crate::fault::IndexFault;
use crate::nand::{Cause, Geometry, Nand, is_done};
use crate::ordered::Change;
use crate::store::StoreError;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// The page to which changes go.
pub(super) struct Tail {
    /// The page's bytes that are not programmed yet.
    pub(super) image: Vec<u8>,
    /// `None`: no page, the next block has to be opened.
    pub(super) ppn: Option<Ppn>,
    /// Changes of the page, and those of them that are programmed.
    pub(super) count: u32,
    pub(super) programmed: u32,
    /// Pages of the newest block that count, and changes of the last one of all.
    pub(super) pages: u16,
    pub(super) slots: u16,
    /// The block before the newest one.
    pub(super) before: Before,
    /// Salt of the newest block, and of the next one.
    pub(super) salt: u8,
    pub(super) next_salt: u8,
    /// The changes in the image are those that a mount found last.
    pub(super) redo: Option<Redo>,
}

/// The last changes that a mount found: a torn program may read whole once. So they are written again.
#[derive(Clone, Copy)]
pub(super) struct Redo {
    pub(super) first: u32,
    pub(super) pages: u16,
    pub(super) slots: u16,
}

impl Tail {
    pub(super) fn new(page_bytes: usize) -> Tail {
        Tail {
            image: alloc::vec![0xff; page_bytes],
            ppn: None,
            count: 0,
            programmed: 0,
            pages: 0,
            slots: 0,
            before: Before::default(),
            salt: 0,
            next_salt: 0,
            redo: None,
        }
    }

    fn has_waiting(&self) -> bool {
        self.count > self.programmed
    }

    /// Value of `before` for the block that follows the newest one.
    fn before_next(&self) -> Before {
        if self.pages > 0 {
            Before { pages: self.pages, skipped: 0, salt: self.salt }
        } else {
            Before { skipped: self.before.skipped + 1, ..self.before }
        }
    }

    fn clear(&mut self) {
        self.image.fill(0xff);
        (self.count, self.programmed) = (0, 0);
    }

    /// Goes to the next page of the newest block, if there is one.
    fn next_page(&mut self, geometry: Geometry) {
        self.clear();
        self.ppn = self.ppn.map(|ppn| Ppn(ppn.0 + 1)).filter(|ppn| geometry.page_in_block(*ppn) > 0);
    }

    /// Header of a page of the newest block.
    fn header(&self, flags: u8, ring: &Ring) -> Header {
        Header {
            flags,
            before: self.before,
            salt: self.salt,
            before_slots: self.slots,
            number: ring.next_number() - 1,
            oldest: ring.oldest,
        }
    }
}

impl<N: Nand> Furrow<N> {
    /// Programs the changes `programmed..count` of the image, and a header if it is given. False if that
    /// failed.
    fn program_image(
        &mut self,
        ppn: Ppn,
        number: u32,
        header: Option<Header>,
        cause: Cause,
    ) -> Result<bool, IndexFault> {
        let (shape, tail) = (self.shape, &mut self.tail);
        for slot in tail.programmed..tail.count {
            let at = shape.at(slot);
            let change = &mut tail.image[at..at + shape.slot_bytes];
            change[0] = change[0] & !JOINED | if slot > tail.programmed { JOINED } else { 0 };
            shape.seal((ppn, slot), number, change);
        }
        if let Some(header) = header {
            header.encode(&shape, ppn, &mut tail.image);
        }
        self.loaded = None;
        let done = is_done(self.nand.program(ppn, cause, &tail.image[..shape.at(tail.count)], &[]))?;
        if done && self.nand.waits() {
            self.nand.barrier()?;
        }
        Ok(done)
    }

    /// Programs what waits in the image. False if it needs another page, since that failed.
    fn flush(&mut self) -> Result<bool, IndexFault> {
        if !self.tail.has_waiting() {
            return Ok(true);
        }
        let Some(ppn) = self.tail.ppn else { return Ok(false) };
        let header = (self.tail.programmed == 0).then(|| self.tail.header(WHOLE, &self.ring));
        if !self.program_image(ppn, self.ring.next_number() - 1, header, Cause::Host)? {
            self.displace(ppn);
            return Ok(false);
        }
        self.tail.image.fill(0xff);
        if header.is_some() {
            self.tail.pages += 1;
        }
        (self.tail.programmed, self.tail.slots) = (self.tail.count, self.tail.count as u16);
        if !self.shape.geometry.appends() {
            self.tail.next_page(self.shape.geometry);
        }
        Ok(true)
    }

    /// The changes in the image lose their page.
    fn displace(&mut self, ppn: Ppn) {
        let (shape, tail) = (self.shape, &mut self.tail);
        let waiting = tail.count - tail.programmed;
        let from = shape.at(tail.programmed)..shape.at(tail.count);
        tail.image.copy_within(from, shape.at(0));
        tail.image[shape.at(waiting)..].fill(0xff);
        let first = shape.place(ppn, tail.programmed);
        let new = shape.place(shape.nowhere(), 0);
        self.rows.relocate(|place| (first..first + waiting).contains(&place).then(|| new + (place - first)));
        (tail.ppn, tail.count, tail.programmed) = (None, waiting, 0);
        self.ring.fail_newest();
    }

    /// Programs what waits, in another block if it has to be.
    pub(super) fn settle(&mut self) -> Result<(), IndexFault> {
        if self.flush()? { Ok(()) } else { self.open_next() }
    }

    /// Makes room for so many changes in one page. That page may be the first one of the next block, if no
    /// copies are to go there.
    fn make_room(&mut self, changes: u32) -> Result<(), IndexFault> {
        for _ in 0..ROUNDS * self.ring.good() + ROUNDS {
            let fits = self.tail.count + changes <= self.shape.slots;
            if self.tail.ppn.is_none() && !(fits && self.tail.redo.is_none() && self.count_live() == 0) {
                self.open_next()?;
            } else if fits {
                return Ok(());
            } else if self.tail.has_waiting() {
                self.settle()?;
            } else {
                self.tail.next_page(self.shape.geometry);
            }
        }
        Err(IndexError::WornOut.into())
    }

    /// Opens the next block. What waits goes there first, then the records of the oldest block if no more
    /// than the reserve is free. If there is no next block and nothing waits, the page stays where it is.
    fn open_next(&mut self) -> Result<(), IndexFault> {
        let resume = (!self.tail.has_waiting()).then_some((self.tail.ppn, self.tail.count));
        let is_spent = self.ring.next_number() >= u32::MAX - 1;
        while let Some(block) = self.ring.next_free().filter(|_| !is_spent) {
            self.loaded = None;
            let is_erased = is_done(self.nand.erase(block, Cause::GarbageCollection))?;
            if is_erased && self.plough(block)? {
                return Ok(());
            }
            self.ring.drop_free();
            self.retired += 1;
            mark_bad(&mut self.nand, block)?;
        }
        if let Some((ppn, count)) = resume {
            self.tail.clear();
            (self.tail.ppn, self.tail.count, self.tail.programmed) = (ppn, count, count);
        }
        Err(IndexError::WornOut.into())
    }

    /// Moves the records of the oldest block, if a page from there on is hard to read. True if more is to be
    /// done.
    pub(super) fn move_weak(&mut self) -> Result<bool, IndexFault> {
        if !self.care.is_due(self.ring.oldest) {
            self.care.weak = None;
            return Ok(false);
        }
        self.settle()?;
        self.open_next()?;
        self.is_closed = false;
        self.care.page = self.care.page.saturating_sub(self.shape.geometry.pages_per_block);
        Ok(self.care.is_due(self.ring.oldest))
    }

    /// True if the oldest block is to leave the log: room is short, or a page from there on is hard to read.
    fn moves(&self) -> bool {
        self.ring.used() > 0 && (self.ring.is_short() || self.care.is_due(self.ring.oldest))
    }

    /// The places of the oldest block whose records are to be copied.
    fn count_live(&mut self) -> u32 {
        if !self.moves() {
            return 0;
        }
        let all = self.shape.slots_of_block();
        let first = self.ring.block(0).0 * all;
        self.live.take(self.rows.places().filter_map(|place| place.checked_sub(first).filter(|&at| at < all)))
    }

    /// Fills an erased block. False if a program failed; nothing has changed then.
    fn plough(&mut self, block: Pbn) -> Result<bool, IndexFault> {
        if !self.tail.has_waiting() {
            self.tail.clear();
        }
        let (mut moves, mut live) = (self.moves(), self.count_live());
        let pages = live.div_ceil(self.shape.slots);
        if self.tail.count > 0 && pages >= self.shape.geometry.pages_per_block {
            if self.ring.is_short() {
                self.forget_redo()?;
                live = self.count_live();
            } else {
                (moves, live) = (false, 0);
            }
        }
        let waiting = self.tail.count;
        let before = self.tail.before_next();
        let header = Header {
            flags: 0,
            before,
            salt: self.tail.next_salt,
            before_slots: self.tail.slots,
            number: self.ring.next_number(),
            oldest: self.ring.oldest + u32::from(moves),
        };
        let first = self.shape.geometry.page_at(block, 0);
        let mut written = Written { header, next: first, slots: self.tail.slots };
        // A block leaves the log by a page that says so.
        if waiting > 0 || moves && live == 0 {
            let flags = if live > 0 { 0 } else { WHOLE } | if waiting > 0 { 0 } else { MARK };
            if !self.program_next(&mut written, flags, Cause::Host)? {
                return Ok(false);
            }
        }
        self.tail.clear();
        let copies = written.next;
        if !self.copy(live, &mut written)? {
            self.take_back(first, header.number, waiting)?;
            return Ok(false);
        }
        self.adopt(first, copies, moves);
        let end = self.shape.geometry.page_at(Pbn(block.0 + 1), 0);
        let tail = &mut self.tail;
        (tail.before, tail.pages, tail.slots) = (before, (written.next.0 - first.0) as u16, written.slots);
        tail.ppn = Some(written.next).filter(|&next| next < end);
        (tail.salt, tail.next_salt, tail.redo) = (header.salt, 0, None);
        self.ring.open();
        if moves {
            self.collections += 1;
            if let Some(failed) = self.ring.release() {
                self.retired += 1;
                // A block that takes no mark is free again for the next mount, whose erase of it fails.
                mark_bad(&mut self.nand, failed)
                    .or_else(|error| if *error == StoreError::WornOut { Ok(()) } else { Err(error) })?;
            }
        }
        Ok(true)
    }

    /// Programs the image as the next page of a block that is being filled.
    fn program_next(&mut self, written: &mut Written, flags: u8, cause: Cause) -> Result<bool, IndexFault> {
        let header = Header { flags, before_slots: written.slots, ..written.header };
        let done = self.program_image(written.next, header.number, Some(header), cause)?;
        if done {
            (written.slots, written.next) = (self.tail.count as u16, Ppn(written.next.0 + 1));
        }
        Ok(done)
    }

    /// Copies the records of the oldest block. The last page says that all are there.
    fn copy(&mut self, live: u32, written: &mut Written) -> Result<bool, IndexFault> {
        let shape = self.shape;
        let mut left = live;
        for at in 0..if live > 0 { shape.slots_of_block() } else { 0 } {
            if !self.live.has(at) {
                continue;
            }
            let place = self.ring.block(0).0 * shape.slots_of_block() + at;
            let from = self.load(place, Cause::GarbageCollection)?;
            let (slot, to) = (self.tail.count, shape.at(self.tail.count));
            let change = &mut self.tail.image[to..to + shape.slot_bytes];
            change.copy_from_slice(&self.input[from..from + shape.slot_bytes]);
            left -= 1;
            let is_last = left == 0 || slot + 1 == shape.slots;
            shape.regroup(change, slot > 0, !is_last);
            self.tail.count += 1;
            if is_last {
                let flags = if left == 0 { WHOLE } else { 0 };
                if !self.program_next(written, flags, Cause::GarbageCollection)? {
                    return Ok(false);
                }
                self.tail.clear();
            }
        }
        Ok(true)
    }

    /// Takes the changes of a page that does not count back into the image.
    fn take_back(&mut self, ppn: Ppn, number: u32, changes: u32) -> Result<(), IndexFault> {
        self.tail.clear();
        for slot in 0..changes {
            let from = self.load_change((ppn, slot), number, Cause::Host)?;
            let to = self.shape.at(slot);
            let change = &self.input[from..from + self.shape.slot_bytes];
            self.tail.image[to..to + self.shape.slot_bytes].copy_from_slice(change);
        }
        self.tail.count = changes;
        Ok(())
    }

    /// Notes the places of what waited, which is in page `first`, and of the copies from page `copies` on.
    fn adopt(&mut self, first: Ppn, copies: Ppn, moves: bool) {
        let (shape, live) = (self.shape, &self.live);
        let all = shape.slots_of_block();
        let old = if moves { self.ring.block(0).0 * all } else { 0 };
        self.rows.relocate(|place| {
            let (ppn, slot) = shape.split(place);
            if ppn == shape.nowhere() {
                return Some(shape.place(first, slot));
            }
            let at = place.checked_sub(old).filter(|&at| moves && at < all)?;
            Some(shape.place(copies, 0) + live.rank(at))
        });
    }

    /// Leaves the last changes that the mount found where they are. Other changes that wait find no room.
    fn forget_redo(&mut self) -> Result<(), IndexFault> {
        let Some(redo) = self.tail.redo.take() else { return Err(IndexError::WornOut.into()) };
        let shape = self.shape;
        let nowhere = shape.place(shape.nowhere(), 0);
        self.rows.relocate(|place| place.checked_sub(nowhere).map(|slot| redo.first + slot));
        self.tail.clear();
        (self.tail.pages, self.tail.slots) = (redo.pages, redo.slots);
        Ok(())
    }

    /// Writes the mark of a close into a block of its own.
    pub(super) fn mark_closed(&mut self) -> Result<(), IndexFault> {
        self.settle()?;
        for _ in 0..ROUNDS * self.ring.good() + ROUNDS {
            self.open_next()?;
            let Some(ppn) = self.tail.ppn else { continue };
            let header = self.tail.header(WHOLE | MARK | CLOSED, &self.ring);
            if self.program_image(ppn, header.number, Some(header), Cause::Checkpoint)? {
                (self.tail.pages, self.tail.slots) = (self.tail.pages + 1, 0);
                self.tail.next_page(self.shape.geometry);
                return Ok(());
            }
            self.tail.ppn = None;
            self.ring.fail_newest();
        }
        Err(IndexError::WornOut.into())
    }

    /// Writes changes of different keys, all or none. `before` receives the places of the records before.
    pub(super) fn write(
        &mut self,
        batch: &[Change<'_>],
        before: &mut [Option<u32>],
    ) -> Result<(), IndexFault> {
        if u64::from(self.ring.next_number()) >= numbers(BLOCK_BITS) {
            return Err(IndexError::WornOut.into());
        }
        self.make_room(batch.len() as u32)?;
        let shape = self.shape;
        for (i, change) in batch.iter().enumerate() {
            let (slot, at) = (self.tail.count, shape.at(self.tail.count));
            let flags = if i > 0 { CONTINUED } else { 0 } | if i + 1 < batch.len() { MORE } else { 0 };
            let bytes = &mut self.tail.image[at..at + shape.slot_bytes];
            shape.write(bytes, flags, change.key, change.value);
            let ppn = self.tail.ppn.unwrap_or(shape.nowhere());
            let new = change.value.map(|_| shape.place(ppn, slot));
            before[i] = self.enter(change.key, new)?;
            self.tail.count += 1;
        }
        self.is_closed = false;
        if !self.every_operation || self.is_loading {
            return Ok(());
        }
        let settled = self.settle();
        if settled.as_ref().is_err_and(|error| error.is_worn_out()) {
            for (change, before) in batch.iter().zip(before) {
                self.enter(change.key, *before)?;
            }
            self.tail.count -= batch.len() as u32;
            self.tail.image[shape.at(self.tail.count)..].fill(0xff);
        }
        settled
    }

    /// Gives a key a place or none, and returns the place before.
    pub(super) fn enter(&mut self, key: &[u8], place: Option<u32>) -> Result<Option<u32>, IndexFault> {
        let found = self.find(key)?;
        let before = found.ok().map(|at| self.rows.place(at));
        match (found, place) {
            (Ok(at), Some(place)) => self.rows.set(at, place),
            (Ok(at), None) => self.rows.remove(at),
            (Err(at), Some(place)) => self.rows.insert(at, key, place),
            (Err(_), None) => {}
        }
        Ok(before)
    }
}

/// How far a block that is being filled is written.
struct Written {
    header: Header,
    next: Ppn,
    slots: u16,
}

/// True if a change takes its key away.
pub(super) const fn is_removal(change: &[u8]) -> bool {
    change[0] & REMOVED > 0
}
