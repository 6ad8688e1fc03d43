//! Writing a page: makes room in a buffer block, programs, and takes another block if a program fails.

use super::page::{BufferTag, Content, Life};
use super::summary::{Buffer, Newest};
use super::{Condition, Tbm};
use alloc::vec::Vec;
use nandex::blocks::Wear;
use nandex::fault::StoreFault;
use nandex::nand::{Cause, Nand, is_done};
use nandex::sort;
use nandex::store::{PageStore, StoreError};
use nandex::units::{Lpn, Pbn, Ppn};

/// A logical page of a group with its contents. `None` notes that the page is trimmed.
pub(super) type GroupPage<'a> = (Lpn, Option<&'a [u8]>);

/// The place found for a page before the program.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Whether the page becomes the first of an erased block. If not, it follows the last page of the
    /// logical block's buffer block.
    is_fresh: bool,
    /// The logical block whose buffer block was converted to make this room.
    converted: Option<u32>,
}

impl<S: PageStore, N: Nand> Tbm<S, N> {
    /// Writes a group. A refused group leaves nothing behind, and a mount finds nothing of it.
    pub(super) fn append_group(&mut self, group: &[GroupPage<'_>], cause: Cause) -> Result<(), StoreFault> {
        let rooms = self.make_room(group)?;
        // Whether each page written was trimmed before and the chip did not say so.
        let mut untold = Vec::new();
        for (i, (&(lpn, data), &room)) in group.iter().zip(&rooms).enumerate() {
            let content = if data.is_none() { Content::Trimmed } else { Content::Data };
            let tag = self.versions.tag(lpn, content, (i == 0, i + 1 == group.len()));
            let (lbn, place) = self.split(lpn);
            untold
                .push(!room.is_fresh && self.summary.get(lbn).is_some_and(|buffer| buffer.is_untold(place)));
            if let Err(error) = self.append(room, tag, cause, data) {
                let error = self.stopped(error.into());
                if self.condition == Condition::Worn {
                    self.take_back(&group[..i], &untold);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Forgets the first pages of a group that cannot be finished. The chip still holds them, but a mount
    /// takes them for a cut group, and nothing is written until then.
    fn take_back(&mut self, written: &[GroupPage<'_>], untold: &[bool]) {
        for (&(lpn, _), &was_untold) in written.iter().zip(untold).rev() {
            let (lbn, place) = self.split(lpn);
            let Some(buffer) = self.summary.get_mut(lbn) else { continue };
            debug_assert!(buffer.pages() > 0, "K2: {lbn} has no page to take back");
            buffer.pop();
            if was_untold {
                buffer.trim(place);
            }
            let (pbn, is_empty) = (buffer.pbn, buffer.pages() == 0);
            if is_empty {
                self.summary.remove(lbn);
                self.blocks.discard(pbn);
            }
        }
    }

    /// Makes sure that every page of a group has room. Whatever must be merged with the store below for it
    /// is merged before the group's first page is programmed. The buffer blocks themselves do not change.
    pub(super) fn make_room(&mut self, group: &[GroupPage<'_>]) -> Result<Vec<Room>, StoreFault> {
        let owner = |tbm: &Self, page: &GroupPage<'_>| tbm.split(page.0).0;
        let mut used = self.summary.len();
        let mut rooms: Vec<Room> = Vec::with_capacity(group.len());
        for (i, page) in group.iter().enumerate() {
            let lbn = owner(self, page);
            if group[..i].iter().any(|other| owner(self, other) == lbn) {
                rooms.push(Room { is_fresh: false, converted: None });
                continue;
            }
            let needed = group[i..].iter().filter(|other| owner(self, other) == lbn).count() as u32;
            let is_spared = |lbn| {
                group.iter().any(|other| owner(self, other) == lbn)
                    || rooms.iter().any(|room| room.converted == Some(lbn))
            };
            let room = self.room_for(lbn, needed, used, is_spared)?;
            if let Some(victim) = room.converted {
                self.convert(victim)?;
                self.counters.victims += u64::from(victim != lbn);
            }
            used = used + u32::from(room.is_fresh) - u32::from(room.converted.is_some());
            rooms.push(room);
        }
        debug_assert!(rooms.len() == group.len() && used <= self.settings.blocks, "K2: {used} buffer blocks");
        Ok(rooms)
    }

    /// Decides where `needed` pages of a logical block go, and which buffer block must be converted for
    /// them. `used` is the number of buffer blocks in use.
    fn room_for(
        &self,
        lbn: u32,
        needed: u32,
        used: u32,
        is_spared: impl Fn(u32) -> bool,
    ) -> Result<Room, StoreFault> {
        let (pages_max, max) = (self.geometry.pages_per_block - needed, self.buffers_max());
        let victim = || self.summary.victim(&is_spared);
        debug_assert!(needed > 0, "room for no page of {lbn}");
        let (is_fresh, converted) = match self.summary.get(lbn).map(|buffer| buffer.pages() <= pages_max) {
            Some(true) if used <= max => (false, self.summary.weak(&is_spared)),
            // Blocks have failed: there must be fewer buffer blocks.
            Some(true) => (false, victim()),
            Some(false) => (true, Some(lbn)),
            None if used < max => (true, self.summary.weak(&is_spared)),
            None => (true, Some(victim().ok_or(StoreError::WornOut)?)),
        };
        Ok(Room { is_fresh, converted })
    }

    /// Programs a page in its room, and erases the block that was converted for it.
    pub(super) fn append(
        &mut self,
        room: Room,
        mut tag: BufferTag,
        cause: Cause,
        data: Option<&[u8]>,
    ) -> Result<(), StoreFault> {
        debug_assert_eq!(tag.version, self.versions.next, "K3: another version than the next");
        let (lbn, place) = self.split(Lpn(tag.lpn));
        tag.converted = room
            .converted
            .and_then(|lbn| self.summary.get(lbn))
            .map(|buffer| Life::new(buffer.pbn, self.blocks.erase_count(buffer.pbn)));
        let fresh = if room.is_fresh {
            let pbn = self.blocks.take_erased(&mut self.nand, Wear::Least, Cause::Merge)?;
            Some(self.program_first(pbn, &mut tag, cause, data)?)
        } else {
            self.program_next(lbn, &mut tag, cause, data)?;
            None
        };
        let void = room.converted.and_then(|lbn| self.summary.remove(lbn));
        if let Some(pbn) = fresh {
            self.summary.insert(lbn, Buffer::new(pbn, self.geometry.pages_per_block));
        }
        if let Some(buffer) = self.summary.get_mut(lbn) {
            debug_assert!(
                buffer.pages() < self.geometry.pages_per_block,
                "K2: a full buffer block takes a page"
            );
            self.versions.programmed(self.geometry.page_at(buffer.pbn, buffer.pages()));
            buffer.push(place, tag.content, tag.version);
        }
        match void {
            Some(buffer) => self.erase(buffer.pbn),
            None => Ok(()),
        }
    }

    /// Programs the first page of an erased block. If that fails, tries another block. Returns the block
    /// that took it.
    fn program_first(
        &mut self,
        mut pbn: Pbn,
        tag: &mut BufferTag,
        cause: Cause,
        data: Option<&[u8]>,
    ) -> Result<Pbn, StoreFault> {
        while !self.program(self.geometry.page_at(pbn, 0), tag, cause, data)? {
            self.blocks.give_up(&mut self.nand, pbn)?;
            pbn = self.blocks.take_erased(&mut self.nand, Wear::Least, Cause::Merge)?;
        }
        Ok(pbn)
    }

    /// Programs the next page of a buffer block, and replaces the block if that fails.
    fn program_next(
        &mut self,
        lbn: u32,
        tag: &mut BufferTag,
        cause: Cause,
        data: Option<&[u8]>,
    ) -> Result<(), StoreFault> {
        while let Some(buffer) = self.summary.get(lbn)
            && !self.program(self.geometry.page_at(buffer.pbn, buffer.pages()), tag, cause, data)?
        {
            self.replace(lbn)?;
        }
        Ok(())
    }

    /// Programs a page. Returns false if that failed and the block must be retired.
    fn program(
        &mut self,
        ppn: Ppn,
        tag: &mut BufferTag,
        cause: Cause,
        data: Option<&[u8]>,
    ) -> Result<bool, StoreFault> {
        tag.erases = self.blocks.erase_count(self.geometry.block_of(ppn));
        let data = match data {
            Some(data) => data,
            None => {
                self.page.fill(0);
                &self.page
            }
        };
        Ok(is_done(self.nand.program(ppn, cause, data, &tag.seal(ppn, data)))?)
    }

    fn erase(&mut self, pbn: Pbn) -> Result<(), StoreFault> {
        if self.blocks.erase(&mut self.nand, pbn, Cause::Merge)? {
            self.blocks.release(pbn);
        }
        Ok(())
    }

    /// Replaces a buffer block in which a program failed: copies its newest pages, versions included, to
    /// another block and retires it. Until it is marked bad a mount finds both blocks, with the same pages
    /// and versions.
    pub(super) fn replace(&mut self, lbn: u32) -> Result<(), StoreFault> {
        let Some(old) = self.summary.get(lbn).cloned() else { return Ok(()) };
        let mut newest = old.newest(self.geometry.pages_per_block);
        sort::unstable_by_key(&mut newest, |newest| newest.page);
        let copy = loop {
            let pbn = self.blocks.take_erased(&mut self.nand, Wear::Least, Cause::Merge)?;
            match self.copy_to(pbn, lbn, old.pbn, &newest)? {
                Some(copy) => break copy,
                None => self.blocks.give_up(&mut self.nand, pbn)?,
            }
        };
        debug_assert!(copy.pages() <= old.pages(), "K2: a copy has more pages than the block");
        self.tell_lost()?;
        self.summary.remove(lbn);
        self.summary.insert(lbn, copy);
        self.counters.replaced_blocks += 1;
        self.blocks.give_up(&mut self.nand, old.pbn)
    }

    /// Copies pages to an erased block. `None` if a program failed.
    fn copy_to(
        &mut self,
        to: Pbn,
        lbn: u32,
        from: Pbn,
        pages: &[Newest],
    ) -> Result<Option<Buffer>, StoreFault> {
        let mut copy = Buffer::new(to, self.geometry.pages_per_block);
        for &Newest { place, page, content } in pages {
            let ppn = self.geometry.page_at(from, page);
            let mut data = core::mem::take(&mut self.page);
            let mut tag = match self.read_tag(ppn, self.lpn_at(lbn, place), Cause::Merge, &mut data) {
                Ok(tag) => tag,
                Err(error) if error.is_corrupted() => {
                    self.page = data;
                    self.note_lost(self.lpn_at(lbn, place), error)?;
                    continue;
                }
                Err(error) => {
                    self.page = data;
                    return Err(error);
                }
            };
            debug_assert!(
                copy.pages() < self.geometry.pages_per_block,
                "K2: a full buffer block takes a page"
            );
            let to = self.geometry.page_at(to, copy.pages());
            let programmed = self.program(to, &mut tag, Cause::Merge, Some(&data));
            self.page = data;
            if !programmed? {
                return Ok(None);
            }
            copy.push(place, tag.content, tag.version);
            if content == Content::Trimmed {
                copy.trim(place);
            }
        }
        Ok(Some(copy))
    }
}
