//! Writing a page: room for it in a buffer block, the program, and another block where a program fails.

use super::page::{Found, Tag, read_page};
use super::summary::{Buffer, Newest};
use super::{Tbm, unreadable};
use crate::ftl::blocks::Wear;
use crate::ftl::{PageStore, StoreError};
use crate::nand::{Cause, Nand, NandError};
use crate::units::{Lpn, Pbn, Ppn};

/// Room for a page.
struct Room {
    /// An erased block for it; none if it goes behind the last page of the buffer block that there is.
    fresh: Option<Pbn>,
    /// The logical block whose buffer block was converted for it.
    converted: Option<u32>,
}

impl<S: PageStore, N: Nand> Tbm<S, N> {
    /// Writes a group: at `i` of it a page, or where there are no contents the note that it is trimmed.
    pub(super) fn append_group(
        &mut self,
        group: &[(Lpn, Option<&[u8]>)],
        cause: Cause,
    ) -> Result<(), StoreError> {
        for (i, &(lpn, data)) in group.iter().enumerate() {
            let room = match self.make_room(&group[i..], group) {
                Err(error) if i == 0 => return Err(error),
                other => other.map_err(|error| self.interrupted(error))?,
            };
            let tag = Tag {
                is_first: i == 0,
                is_last: i + 1 == group.len(),
                is_trim: data.is_none(),
                lpn: lpn.0,
                version: self.next_version,
                erases: 0,
                converted: None,
                previous: self.last_page,
            };
            self.append(room, tag, cause, data).map_err(|error| self.interrupted(error))?;
        }
        Ok(())
    }

    /// Sees to it that the first page of `rest` finds room, together with those after it of the same logical block. Nothing
    /// in the buffer blocks is changed by this.
    fn make_room(
        &mut self,
        rest: &[(Lpn, Option<&[u8]>)],
        group: &[(Lpn, Option<&[u8]>)],
    ) -> Result<Room, StoreError> {
        let (lbn, _) = self.split(rest[0].0);
        let is_same = |page: &(Lpn, Option<&[u8]>), lbn: u32| self.split(page.0).0 == lbn;
        let needed = rest.iter().filter(|page| is_same(page, lbn)).count() as u32;
        let is_spared = |lbn| group.iter().any(|page| is_same(page, lbn));
        let pages_max = self.geometry.pages_per_block - needed;
        let (used, max) = (self.summary.len(), self.buffers_max());
        let (has_room, converted) = match self.summary.get(lbn).map(|buffer| buffer.pages() <= pages_max) {
            Some(true) if used <= max => (true, None),
            // Blocks have failed: there must be fewer buffer blocks.
            Some(true) => (true, self.summary.victim(is_spared)),
            Some(false) => (false, Some(lbn)),
            None if used < max => (false, None),
            None => (false, Some(self.summary.victim(is_spared).ok_or(StoreError::Full)?)),
        };
        if let Some(victim) = converted {
            self.convert(victim)?;
            self.counters.victims += u64::from(victim != lbn);
        }
        let fresh = match has_room {
            true => None,
            false => Some(self.blocks.take_erased(&mut self.nand, Wear::Least, Cause::Merge)?),
        };
        Ok(Room { fresh, converted })
    }

    /// Programs a page where there is room for it, and erases the block that was converted for it.
    fn append(
        &mut self,
        room: Room,
        mut tag: Tag,
        cause: Cause,
        data: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let (lbn, place) = self.split(Lpn(tag.lpn));
        tag.converted = room.converted.and_then(|lbn| self.summary.get(lbn)).map(|buffer| buffer.pbn);
        let fresh = match room.fresh {
            Some(pbn) => Some(self.program_first(pbn, &mut tag, cause, data)?),
            None => {
                self.program_next(lbn, &mut tag, cause, data)?;
                None
            }
        };
        let void = room.converted.and_then(|lbn| self.summary.remove(lbn));
        if let Some(pbn) = fresh {
            self.summary.insert(lbn, Buffer::new(pbn, self.geometry.pages_per_block));
        }
        if let Some(buffer) = self.summary.get_mut(lbn) {
            self.last_page = Some(self.geometry.page_at(buffer.pbn, buffer.pages()));
            buffer.push(place, tag.is_trim, tag.version);
        }
        self.next_version += 1;
        match void {
            Some(buffer) => self.erase(buffer.pbn),
            None => Ok(()),
        }
    }

    /// Programs the first page of an erased block, or of another where that fails: of which one.
    fn program_first(
        &mut self,
        mut pbn: Pbn,
        tag: &mut Tag,
        cause: Cause,
        data: Option<&[u8]>,
    ) -> Result<Pbn, StoreError> {
        while !self.program(self.geometry.page_at(pbn, 0), tag, cause, data)? {
            self.blocks.give_up(&mut self.nand, pbn)?;
            pbn = self.blocks.take_erased(&mut self.nand, Wear::Least, Cause::Merge)?;
        }
        Ok(pbn)
    }

    /// Programs the next page of a buffer block.
    fn program_next(
        &mut self,
        lbn: u32,
        tag: &mut Tag,
        cause: Cause,
        data: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        while let Some(buffer) = self.summary.get(lbn)
            && !self.program(self.geometry.page_at(buffer.pbn, buffer.pages()), tag, cause, data)?
        {
            self.replace(lbn)?;
        }
        Ok(())
    }

    /// Programs a page. False: it failed, and the block is to be retired.
    fn program(
        &mut self,
        ppn: Ppn,
        tag: &mut Tag,
        cause: Cause,
        data: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        tag.erases = self.blocks.erase_count(self.geometry.block_of(ppn));
        let data = match data {
            Some(data) => data,
            None => {
                self.page.fill(0);
                &self.page
            }
        };
        match self.nand.program(ppn, cause, data, &tag.seal(data)) {
            Ok(()) => Ok(true),
            Err(NandError::ProgramFailed(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn erase(&mut self, pbn: Pbn) -> Result<(), StoreError> {
        if self.blocks.erase(&mut self.nand, pbn, Cause::Merge)? {
            self.blocks.release(pbn);
        }
        Ok(())
    }

    /// Copies the newest pages of a buffer block in which a program failed to another block, versions and all, and retires
    /// it. Until it is marked bad a mount finds both, with equal pages of equal versions.
    pub(super) fn replace(&mut self, lbn: u32) -> Result<(), StoreError> {
        let Some(old) = self.summary.get(lbn).cloned() else { return Ok(()) };
        let mut newest = old.newest(self.geometry.pages_per_block);
        newest.sort_unstable_by_key(|newest| newest.page);
        let copy = loop {
            let pbn = self.blocks.take_erased(&mut self.nand, Wear::Least, Cause::Merge)?;
            match self.copy_to(pbn, (lbn, old.pbn), &newest)? {
                Some(copy) => break copy,
                None => self.blocks.give_up(&mut self.nand, pbn)?,
            }
        };
        self.tell_lost()?;
        self.summary.remove(lbn);
        self.summary.insert(lbn, copy);
        self.counters.replaced_blocks += 1;
        self.blocks.give_up(&mut self.nand, old.pbn)
    }

    /// None: a program failed.
    fn copy_to(
        &mut self,
        to: Pbn,
        (lbn, from): (u32, Pbn),
        pages: &[Newest],
    ) -> Result<Option<Buffer>, StoreError> {
        let mut copy = Buffer::new(to, self.geometry.pages_per_block);
        for &Newest { place, page, is_trim } in pages {
            let ppn = self.geometry.page_at(from, page);
            let mut data = core::mem::take(&mut self.page);
            let found = read_page(&mut self.nand, ppn, Cause::Merge, &mut data);
            let Found::Page(mut tag) = found? else {
                self.page = data;
                self.note_lost(self.lpn_at(lbn, place), unreadable(ppn))?;
                continue;
            };
            let to = self.geometry.page_at(to, copy.pages());
            let programmed = self.program(to, &mut tag, Cause::Merge, Some(&data));
            self.page = data;
            if !programmed? {
                return Ok(None);
            }
            copy.push(place, tag.is_trim, tag.version);
            if is_trim {
                copy.trim(place);
            }
        }
        Ok(Some(copy))
    }
}
