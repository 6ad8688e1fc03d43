//! A look at the blocks of a chip that was not closed: what each says of itself.
//!
//! A page is *whole* if its tag or one of its units can be read. A power cut leaves at most one page a
//! session that is not, and nothing of that session comes after it: a page that is not whole between two of
//! one session is damage (`gap`). A page of zeros is damage as well: neither a program nor an erase that was
//! cut leaves one. So is a whole page of another place, or of another life of its block, which was erased
//! before it was programmed again. On a chip that tears no page one that is not whole is always damage.

use super::layout::{Head, IplTag, PageKind, groups, records};
use super::store::{Store, corrupted};
use alloc::vec;
use alloc::vec::Vec;
use nandex::blocks::checkpoint::is_of_checkpoint;
use nandex::check::{IndexError, Invariant};
use nandex::codec::crc32;
use nandex::nand::{Cause, Nand, NandError, Reading, read_again};
use nandex::units::{Pbn, Ppn};

/// A block of which none of the first pages has a tag holds nothing, nor one of a log region. More than one
/// is tried, so that one damaged page does not hide the block and bring older versions of its nodes back.
const FIRST_PAGES: u32 = 4;

/// The findings of a look at a block.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) pbn: Pbn,
    pub(super) generation: u32,
    /// Pages of the merge that opened the block that are whole, and how many there were.
    pub(super) merged: (u16, u16),
    /// The merge contains what is up to this number.
    pub(super) merge_sequence: u64,
    pub(super) protected: bool,
    pub(super) first_session: u32,
    /// The first unit is whole, or begins a whole image.
    begins: bool,
    /// The last image: page, session.
    pub(super) last_image: Option<(u32, u32)>,
    /// The last page with a log unit: page, session.
    pub(super) last_log: Option<(u32, u32)>,
    /// Log units found.
    pub(super) units: u16,
    /// Something is missing between two pages or units that no cut can have taken.
    pub(super) gap: bool,
    pub(super) newest: u64,
}

impl View {
    pub(super) fn new(pbn: Pbn, first: &IplTag) -> View {
        View {
            pbn,
            generation: first.generation,
            merged: (0, first.merged),
            merge_sequence: first.sequence,
            protected: first.protected,
            first_session: first.session,
            begins: false,
            last_image: None,
            last_log: None,
            units: 0,
            gap: false,
            newest: 0,
        }
    }

    /// Whether the merge that opened the block is whole, as far as it was looked at.
    pub(super) fn is_complete(&self) -> bool {
        self.merged.0 == self.merged.1 && self.begins
    }

    /// The last session that programmed a page here.
    pub(super) fn newest_session(&self) -> u32 {
        let last = [self.last_image, self.last_log].into_iter().flatten().map(|(_, session)| session);
        last.fold(self.first_session, u32::max)
    }

    pub(super) fn is_void(&self, committed: u64) -> bool {
        self.merged.1 > 0 && self.merge_sequence > committed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.last_image.is_none() && self.last_log.is_none()
    }

    /// Notes a whole page, the session of which is known, in an area that begins at `start`.
    pub(super) fn note_page(&mut self, page: u32, tag: &IplTag, start: u32) {
        let before =
            [self.last_image, self.last_log].into_iter().flatten().filter(|last| last.0 >= start).max();
        // The first page of an area that is not whole is noticed by the merge, or by the ordinals of the
        // units.
        self.gap |= before.is_some_and(|(last, session)| last + 1 < page && session == tag.session);
    }

    /// Notes an image.
    pub(super) fn note_image(&mut self, page: u32, tag: &IplTag, start: u32) {
        self.note_page(page, tag, start);
        self.merged.0 += u16::from(tag.merged > 0 && tag.merged == self.merged.1);
        self.last_image = Some((page, tag.session));
        self.begins |= page == 0;
        self.newest = self.newest.max(tag.sequence);
    }

    /// Notes a log unit.
    pub(super) fn note_unit(&mut self, page: u32, unit: u32, head: &Head, session: u32) {
        self.begins |= unit == 0;
        self.gap |= head.ordinal != self.units;
        self.units += 1;
        self.last_log = Some((page, session));
    }

    /// Whether a later page of the session that programmed the last image shows that no cut tore it.
    pub(super) fn is_followed(&self) -> bool {
        let image = self.last_image;
        self.last_log.is_some_and(|log| image.is_some_and(|image| log.0 > image.0 && log.1 == image.1))
    }
}

fn is_all(bytes: &[u8], byte: u8) -> bool {
    bytes.iter().all(|&found| found == byte)
}

/// Whether every unit of a page is whole or blank.
pub(super) fn has_whole_units(page: &[u8], unit_bytes: usize) -> bool {
    page.chunks_exact(unit_bytes).all(|unit| Head::decode(unit).is_some() || is_all(unit, 0xff))
}

impl<N: Nand> Store<N> {
    pub(super) fn read_spare(&mut self, ppn: Ppn) -> Result<Option<IplTag>, IndexError> {
        let mut spare = core::mem::take(&mut self.spare);
        let is_whole = |_: &[u8], spare: &[u8]| IplTag::decode(spare).is_some() || is_all(spare, 0xff);
        let read = read_again(&mut self.nand, (ppn, Cause::Recovery), &mut [], &mut spare, is_whole);
        let (tag, is_zero) = (IplTag::decode(&spare), is_all(&spare, 0));
        self.spare = spare;
        match read {
            Ok(_) if is_zero => Err(corrupted(Invariant::I4, "a page reads as zeros", ppn)),
            Ok(_) if tag.is_some_and(|tag| u32::from(tag.page) != self.geometry.page_in_block(ppn)) => {
                Err(corrupted(Invariant::I4, "a page of another place", ppn))
            }
            Ok(Reading::Broken) if !self.nand.tears() => self.require_checkpoint(ppn),
            Ok(_) => Ok(tag),
            Err(NandError::Uncorrectable(_)) if self.nand.tears() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what a page says of itself: by its spare area, or with the data at once, which then are in the
    /// page buffer, where they will be wanted. True: they are there.
    pub(super) fn read_page(&mut self, ppn: Ppn, whole: bool) -> Result<(Option<IplTag>, bool), IndexError> {
        if whole && self.read_whole(ppn)? {
            return Ok((IplTag::decode(&self.spare), true));
        }
        // Whatever is wrong with the page, this will say so.
        Ok((self.read_spare(ppn)?, false))
    }

    /// Reads a page and its spare area; false unless both say what they are.
    fn read_whole(&mut self, ppn: Ppn) -> Result<bool, IndexError> {
        let (page, unit_bytes) = (self.geometry.page_in_block(ppn), self.format.unit_bytes);
        let is_whole = |data: &[u8], spare: &[u8]| match IplTag::decode(spare) {
            Some(tag) if u32::from(tag.page) != page => false,
            Some(tag) => tag.kind == PageKind::Data || has_whole_units(data, unit_bytes),
            None => is_all(spare, 0xff),
        };
        let place = (ppn, Cause::Recovery);
        match read_again(&mut self.nand, place, &mut self.page, &mut self.spare, is_whole) {
            Ok(Reading::Broken) | Err(NandError::Uncorrectable(_)) => Ok(false),
            Ok(reading) => {
                if IplTag::decode(&self.spare).is_some_and(|tag| tag.kind == PageKind::Log) {
                    self.note_reading(ppn, reading);
                }
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// On a chip that tears no page, one that has no tag is of checkpoints, or damaged.
    fn require_checkpoint(&mut self, ppn: Ppn) -> Result<Option<IplTag>, IndexError> {
        let mut spare = vec![0xff; self.spare.len()];
        let is_whole = |data: &[u8], spare: &[u8]| is_of_checkpoint(ppn, data, spare);
        match read_again(&mut self.nand, (ppn, Cause::Recovery), &mut self.page, &mut spare, is_whole)? {
            Reading::Broken => Err(corrupted(Invariant::I4, "a page's tag does not match", ppn)),
            Reading::Whole | Reading::Weak => Ok(None),
        }
    }

    /// Reads a page of log units whole into the page buffer; false when it cannot be read.
    pub(super) fn read_log_page(&mut self, ppn: Ppn) -> Result<bool, IndexError> {
        let unit_bytes = self.format.unit_bytes;
        let is_whole = |data: &[u8], _: &[u8]| has_whole_units(data, unit_bytes);
        match read_again(&mut self.nand, (ppn, Cause::Recovery), &mut self.page, &mut [], is_whole) {
            Ok(Reading::Broken) if !self.nand.tears() => {
                Err(corrupted(Invariant::I5, "a log unit does not match", ppn))
            }
            Ok(reading) => {
                self.note_reading(ppn, reading);
                Ok(true)
            }
            Err(NandError::Uncorrectable(_)) if self.nand.tears() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The heads of the whole units in the page buffer, with their places in the page.
    pub(super) fn units_in_page(&self, generation: u32) -> Vec<(u32, Head)> {
        let units = self.page.chunks_exact(self.format.unit_bytes);
        let heads = (0u32..).zip(units).filter_map(|(i, unit)| Some((i, Head::decode(unit)?)));
        heads.filter(|(_, head)| head.generation == generation).collect()
    }

    /// The pages that tell whether a block holds anything.
    fn telling_pages(&self) -> impl Iterator<Item = u32> + use<N> {
        let pages = self.geometry.pages_per_block;
        let first_log = if self.is_fixed() { pages - self.format.log_pages } else { pages };
        (0..FIRST_PAGES.min(first_log)).chain(first_log..pages)
    }

    /// The first tag of a block; none when it holds nothing.
    pub(super) fn first_tag(&mut self, pbn: Pbn) -> Result<Option<IplTag>, IndexError> {
        for page in self.telling_pages() {
            if let Some(tag) = self.read_spare(self.geometry.page_at(pbn, page))? {
                return Ok(Some(tag));
            }
        }
        Ok(None)
    }

    /// The last image of a block.
    pub(super) fn last_image_of(&mut self, pbn: Pbn) -> Result<Option<u32>, IndexError> {
        for page in (0..self.geometry.pages_per_block).rev() {
            let tag = self.read_spare(self.geometry.page_at(pbn, page))?;
            if tag.is_some_and(|tag| tag.kind == PageKind::Data) {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// The highest sequence number of the records in the page buffer.
    pub(super) fn newest_in_page(&self, generation: u32) -> u64 {
        let widths = self.shapes.widths();
        let mut newest = 0;
        for unit in self.page.chunks_exact(self.format.unit_bytes) {
            let Some(head) = Head::decode(unit).filter(|head| head.generation == generation) else {
                continue;
            };
            newest = newest.max(head.first);
            for group in groups(unit).flatten() {
                let numbers = records(widths, head.first, group.records).flatten().map(|record| record.0);
                newest = newest.max(numbers.max().unwrap_or(0));
            }
        }
        newest
    }

    /// Reads an image whole into the page buffer; whether it is what its tag says.
    pub(super) fn is_whole_image(&mut self, ppn: Ppn) -> Result<bool, IndexError> {
        let mut spare = core::mem::take(&mut self.spare);
        let is_whole = |data: &[u8], spare: &[u8]| {
            IplTag::decode(spare).is_some_and(|tag| tag.data_crc == crc32(&[data]))
        };
        let read = read_again(&mut self.nand, (ppn, Cause::Recovery), &mut self.page, &mut spare, is_whole);
        self.spare = spare;
        match read {
            Ok(reading) => Ok(reading != Reading::Broken),
            Err(NandError::Uncorrectable(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
