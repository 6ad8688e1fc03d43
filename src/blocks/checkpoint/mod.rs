//! Checkpoints: byte strings, written so that the newest complete one can be found from a fixed place.
//!
//! The scheme is that of JFFS3's superblock (Bityutskiy 2005), which the mu-Tree (Section 5.2) also uses:
//!
//! ```text
//! anchors: the first good blocks of the chip, used in turn      checkpoint blocks: anywhere, chosen by wear
//! +-----------------+-----------------+-------                  +-------------------+-------------------+--------
//! | ref 1 -> 40, 41 | ref 2 -> 17, 93 | erased        ref 2 --> | checkpoint 8      | checkpoint 9      | erased
//! +-----------------+-----------------+-------                  +-------------------+-------------------+--------
//! ```
//!
//! A *record* is a byte string over consecutive pages. The spare area of each page ([`crate::blocks::spare`])
//! holds the kind, the place in the record (number) and the version of the record. The string begins with its
//! length as u32. It is never in RAM as a whole (`payload`). A checkpoint is one record. A reference is a
//! record that lists the blocks with checkpoints.
//!
//! - *Write*: appends the record to the current checkpoint blocks. If it does not fit there, the record goes
//!   to new blocks of the table, a reference to them is appended to the current anchor, and only then are the
//!   old blocks freed. If the anchor is full, the next one is erased first; the old one still holds the last
//!   reference.
//! - *Mount*: finds the reference with the highest version in the anchors, and then the checkpoint with the
//!   highest version in its blocks. A record that is not whole does not count.
//! - *After a mount* nothing is appended to earlier records: a program cut short may have left a page that
//!   looks erased, and no page is programmed twice. The next write takes new blocks and the next anchor.
//! - *Failing blocks*: a block that fails while it is written is retired and replaced. The old blocks with
//!   the last checkpoint are retired only once the new one is complete. An anchor that fails is retired; the
//!   last anchor is never erased, so if it is full too, writing fails with `Full`.
//!
//! If programs wait for a [barrier](Nand::barrier), a barrier precedes each page of an appended record and of
//! a reference, and follows a reference. The pages of a checkpoint in new blocks need no order: without the
//! reference they are not read.
//!
//! Invariants
//! - C1: the newest complete checkpoint and a reference to its blocks are on the chip at every instant.
//! - C2: no page is programmed after a page of unknown contents in the same block: a run that ends with two
//!   is damaged.

mod payload;
mod record;
mod room;
#[cfg(test)]
mod tests;

use crate::blocks::spare::{Header, PageKind, require_spare};
use crate::blocks::{BlockTable, Wear};
use crate::check::words;
use crate::fault::StoreFault;
use crate::nand::{Cause, Differs, Geometry, Nand};
use crate::store::StoreError;
use crate::units::{Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
pub use payload::{Contents, NO_CHECKPOINT, Source, Window, take_all, take_bytes, take_rows};
use record::{Cut, Place, Record, decode_lists, newest_record, program, records_since};

/// Number of good blocks at the start of a chip that serve as anchors.
pub const fn anchor_count(geometry: Geometry) -> u32 {
    match geometry.blocks {
        0..64 => 2,
        64..1024 => 3,
        _ => 4,
    }
}

/// Tells whether a page, as it was read, is a whole page of a reference or a checkpoint.
pub fn is_of_checkpoint(ppn: Ppn, data: &[u8], spare: &[u8]) -> bool {
    header(ppn, data, spare).is_some_and(|h| matches!(h.kind, PageKind::Anchor | PageKind::Checkpoint))
}

/// Header of a page, as it was read, if the page is whole.
fn header(ppn: Ppn, data: &[u8], spare: &[u8]) -> Option<Header> {
    Header::open(ppn, data, spare.first_chunk()?)
}

/// Run of pages over some blocks, to which records are appended.
#[derive(Clone, Debug, Default)]
struct Run {
    blocks: Vec<Pbn>,
    /// Number of pages used; all of them if nothing may be appended.
    used: u32,
}

impl Run {
    fn pages(&self, geometry: Geometry) -> u32 {
        self.blocks.len() as u32 * geometry.pages_per_block
    }

    fn page_at(&self, geometry: Geometry, at: u32) -> Ppn {
        let block = self.blocks[(at / geometry.pages_per_block) as usize];
        geometry.page_at(block, at % geometry.pages_per_block)
    }
}

/// Record to write, and a buffer for its pages.
type Draft<'a> = (Record<'a>, &'a mut [u8]);

/// Newest complete checkpoint, as a mount finds it.
#[derive(Clone, Debug)]
pub struct Found<T> {
    /// Checkpoints of the chip.
    pub area: CheckpointArea,
    /// Result of decoding the newest complete checkpoint.
    pub newest: T,
}

/// Newest records of a chip.
#[derive(Clone, Debug)]
pub struct Newest<T> {
    /// Result of decoding consecutive checkpoints, from the last base record on.
    pub made: T,
    /// True if pages after these were programmed and cannot be read: cut short, or damaged.
    pub is_ragged: bool,
    /// The first page after them, if it cannot be read.
    pub unreadable: Option<Ppn>,
}

/// Anchors and checkpoint blocks of a chip.
#[derive(Clone, Debug)]
pub struct CheckpointArea {
    geometry: Geometry,
    /// Anchors still in use, in ascending order.
    anchors: Vec<Pbn>,
    /// Anchor that holds the newest reference. Without one all anchors are erased.
    anchor: Option<Pbn>,
    anchor_used: u32,
    reference_version: u64,
    run: Run,
    version: u64,
    /// New checkpoint blocks have at least this many pages for notes.
    note_pages: u32,
    /// Number of times that each reference is written.
    copies: u8,
    /// True if a mount found an unreadable page where a newer reference or checkpoint might be.
    is_ragged: bool,
    /// True if a checkpoint was begun behind the newest one, and not completed.
    is_torn: bool,
}

impl CheckpointArea {
    /// Prepares a chip: chooses and erases the anchors, which become Reserved. The table must know the bad
    /// blocks. Before the first write there is nothing to mount.
    pub fn format<N: Nand + ?Sized>(nand: &mut N, blocks: &mut BlockTable) -> Result<Self, StoreFault> {
        let geometry = nand.geometry();
        require_spare(geometry)?;
        let mut area = CheckpointArea::empty(geometry);
        let mut good = (0..geometry.blocks).map(Pbn);
        while area.anchors.len() < anchor_count(geometry) as usize {
            let Some(pbn) = good.find(|&p| blocks.state(p).is_free()) else {
                return Err(StoreError::Unsupported(words("the chip has too few good blocks").into()).into());
            };
            blocks.claim(pbn);
            if blocks.erase(nand, pbn, Cause::Checkpoint)? {
                blocks.reserve(pbn);
                area.anchors.push(pbn);
            }
        }
        Ok(area)
    }

    /// Checkpoint area without blocks, for a log that keeps no checkpoints.
    pub fn empty(geometry: Geometry) -> CheckpointArea {
        CheckpointArea {
            geometry,
            anchors: Vec::new(),
            anchor: None,
            anchor_used: 0,
            reference_version: 0,
            run: Run::default(),
            version: 0,
            note_pages: 0,
            copies: 1,
            is_ragged: false,
            is_torn: false,
        }
    }

    /// Finds the newest complete checkpoint and returns its bytes; `None` if the chip has no reference.
    /// [`CheckpointArea::occupied`] then tells which blocks are to be Reserved.
    pub fn mount<N: Nand + ?Sized>(nand: &mut N) -> Result<Option<(CheckpointArea, Vec<u8>)>, StoreFault> {
        match CheckpointArea::mount_and_look(nand, &mut take_all)? {
            Some(found) => Ok(Some((found.area, found.newest?))),
            None => Ok(None),
        }
    }

    /// Returns the result of `decode` for the newest complete checkpoint. `decode` may be called for several
    /// checkpoints, the newest first, until one is complete.
    pub fn mount_and_look<N: Nand + ?Sized, T>(
        nand: &mut N,
        decode: &mut dyn FnMut(&mut dyn Source) -> T,
    ) -> Result<Option<Found<T>>, StoreFault> {
        let Some(mut area) = CheckpointArea::find(nand)? else { return Ok(None) };
        let mut newest = None;
        let mut read = |source: &mut dyn Source| newest = Some(decode(source));
        let found = newest_record(nand, area.geometry, &area.run, (PageKind::Checkpoint, &mut read))?;
        let (Some(version), Some(newest)) = (found.complete, newest) else { return Err(area.incomplete()) };
        area.version = version;
        area.note_cut(nand, found.cut)?;
        Ok(Some(Found { area, newest }))
    }

    /// Notes an incomplete record, cut or damaged, at a place where a newer record may be.
    fn note_cut<N: Nand + ?Sized>(&mut self, nand: &N, cut: Option<Cut>) -> Result<(), StoreFault> {
        let Some(cut) = cut else { return Ok(()) };
        if cut.is_unreadable && !nand.tears() {
            let what = "a page that may hold the newest checkpoint cannot be read";
            return Err(StoreFault::corrupted(what, cut.ppn.0));
        }
        self.is_ragged = true;
        Ok(())
    }

    /// True if the mount found an unreadable page where a newer checkpoint, or a reference to it, may be.
    /// Then changes may have followed the checkpoint found, even one written at close.
    pub const fn is_ragged(&self) -> bool {
        self.is_ragged
    }

    /// True if a write ended within a checkpoint behind the newest one. Another must be completed before
    /// anything else is written, or a mount takes the one begun for one that has gone bad.
    pub const fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Returns the result of `decode` for all complete checkpoints in turn, from the last one on whose first
    /// byte `is_base` accepts. `decode` gets its result for the checkpoints before.
    pub fn mount_since<N: Nand + ?Sized, T>(
        nand: &mut N,
        decode: record::Fold<'_, T>,
        is_base: impl Fn(Option<u8>) -> bool,
    ) -> Result<Option<(CheckpointArea, Newest<T>)>, StoreFault> {
        let Some(mut area) = CheckpointArea::find(nand)? else { return Ok(None) };
        let since = records_since(nand, (area.geometry, &area.run), decode, is_base)?;
        let (version, made, behind) = since.ok_or_else(|| area.incomplete())?;
        area.version = version;
        let unreadable = behind.filter(|cut| cut.is_unreadable).map(|cut| cut.ppn);
        Ok(Some((area, Newest { made, is_ragged: behind.is_some(), unreadable })))
    }

    fn incomplete(&self) -> StoreFault {
        StoreFault::corrupted_at("no checkpoint is complete", self.reference_version)
    }

    /// Follows the newest reference. `None` if there is none.
    fn find<N: Nand + ?Sized>(nand: &mut N) -> Result<Option<CheckpointArea>, StoreFault> {
        let geometry = nand.geometry();
        require_spare(geometry)?;
        let mut area = CheckpointArea::empty(geometry);
        let mut reference = Vec::new();
        let mut cuts = Vec::new();
        for pbn in first_good_blocks(nand, anchor_count(geometry))? {
            let run = Run { blocks: vec![pbn], used: 0 };
            let mut bytes = Ok(Vec::new());
            let mut read = |source: &mut dyn Source| bytes = take_all(source);
            let found = newest_record(nand, geometry, &run, (PageKind::Anchor, &mut read))?;
            // An anchor is erased before it is used again: pages behind an older reference are older, too.
            if let Some(cut) = found.cut {
                cuts.push((pbn, found.complete.is_none(), cut));
            }
            if let Some(version) = found.complete.filter(|version| *version > area.reference_version) {
                area.reference_version = version;
                area.anchor = Some(pbn);
                reference = bytes?;
            }
        }
        let hides = |&&(anchor, is_alone, _): &&(Pbn, bool, Cut)| is_alone || Some(anchor) == area.anchor;
        let hidden = cuts.iter().find(hides).map(|entry| entry.2);
        area.note_cut(nand, hidden)?;
        if area.anchor.is_none() {
            return Ok(None);
        }
        area.decode_reference(&reference)?;
        let mut good = Vec::new();
        for &anchor in &area.anchors {
            if !nand.is_bad(anchor)? {
                good.push(anchor);
            }
        }
        area.anchors = good;
        // Nothing is appended to pages of an earlier session (C2).
        area.anchor_used = geometry.pages_per_block;
        area.run.used = area.run.pages(geometry);
        Ok(Some(area))
    }

    /// Makes the area careful: new checkpoint blocks get room for at least `note_pages` pages of notes, and
    /// each reference is written twice. So one bad copy does not lead to an older reference.
    pub fn be_careful(&mut self, note_pages: u32) {
        (self.note_pages, self.copies) = (note_pages, 2);
    }

    /// Tells whether a page, as it was read, is of a checkpoint no newer than the one that was found.
    pub fn is_older(&self, ppn: Ppn, data: &[u8], spare: &[u8]) -> bool {
        header(ppn, data, spare)
            .is_some_and(|header| header.kind != PageKind::Checkpoint || header.version <= self.version)
    }

    /// Blocks in use: anchors and checkpoint blocks.
    pub fn occupied(&self) -> Vec<Pbn> {
        [&self.anchors[..], &self.run.blocks].concat()
    }

    /// Version of the newest checkpoint; 0 before the first.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Number of pages that a payload of this length takes.
    pub const fn pages_needed(geometry: Geometry, payload_bytes: usize) -> usize {
        (4 + payload_bytes).div_ceil(geometry.page_bytes as usize)
    }

    /// Most blocks that a payload of this length takes at one time: old and new ones, without the anchors.
    pub const fn blocks_needed(geometry: Geometry, payload_bytes: usize) -> usize {
        let pages = CheckpointArea::pages_needed(geometry, payload_bytes);
        2 * pages.div_ceil(geometry.pages_per_block as usize)
    }

    /// Writes a checkpoint, each of its pages in the buffer `page`. If this fails, the previous checkpoint is
    /// still the newest.
    pub fn write<N: Nand + ?Sized>(
        &mut self,
        nand: &mut N,
        blocks: &mut BlockTable,
        contents: &dyn Contents,
        page: &mut [u8],
    ) -> Result<(), StoreFault> {
        blocks.uses.rows.begin_record();
        let written = self.write_record(nand, blocks, &mut (Record(contents), page));
        blocks.uses.rows.end_record();
        written
    }

    fn write_record<N: Nand + ?Sized>(
        &mut self,
        nand: &mut N,
        blocks: &mut BlockTable,
        draft: &mut Draft<'_>,
    ) -> Result<(), StoreFault> {
        let pages = draft.0.pages(self.geometry);
        let mut failing = None;
        if self.run.used + pages <= self.run.pages(self.geometry) {
            failing = self.append(nand, blocks, draft)?;
            if failing.is_none() {
                self.version += 1;
                return Ok(());
            }
            self.is_torn = true;
        }
        let targets = (pages + self.note_pages).div_ceil(self.geometry.pages_per_block);
        self.require_anchor(targets)?;
        blocks.uses.rows.expect_changes(targets as usize + self.run.blocks.len());
        let fresh = self.write_fresh(nand, blocks, draft)?;
        // If this fails, a reference may exist nevertheless: the new blocks stay Reserved until the next
        // mount.
        self.refer_to(nand, blocks, &fresh.blocks, draft.1)?;
        let old = core::mem::replace(&mut self.run, fresh);
        self.version += 1;
        self.is_torn = false;
        for pbn in old.blocks {
            if Some(pbn) == failing {
                blocks.give_up(nand, pbn)?;
            } else {
                blocks.discard(pbn);
            }
        }
        Ok(())
    }

    /// True if there are numbers for more records than the last ones.
    pub fn has_numbers(&self) -> bool {
        self.version.max(self.reference_version) < crate::codec::numbers(40)
    }

    /// Appends a small record to the last checkpoint. False if its blocks have no room: write a whole one
    /// then.
    pub fn write_note<N: Nand + ?Sized>(
        &mut self,
        nand: &mut N,
        blocks: &BlockTable,
        contents: &dyn Contents,
        page: &mut [u8],
    ) -> Result<bool, StoreFault> {
        let pages = Record(contents).pages(self.geometry);
        let has_room = self.run.used + pages <= self.run.pages(self.geometry);
        if !has_room || self.append(nand, blocks, &mut (Record(contents), page))?.is_some() {
            return Ok(false);
        }
        self.version += 1;
        Ok(true)
    }

    /// Appends a record to the current blocks. Returns the block that failed, if one did.
    fn append<N: Nand + ?Sized>(
        &mut self,
        nand: &mut N,
        blocks: &BlockTable,
        draft: &mut Draft<'_>,
    ) -> Result<Option<Pbn>, StoreFault> {
        let (first, pages) = (self.run.used, draft.0.pages(self.geometry));
        // If this fails midway, nothing more is appended (C2).
        self.run.used = self.run.pages(self.geometry);
        for number in 0..pages {
            let ppn = self.run.page_at(self.geometry, first + number);
            let place = Place { kind: PageKind::Checkpoint, number, version: self.version + 1 };
            nand.barrier()?;
            if !program(nand, ppn, place, blocks, draft)? {
                return Ok(Some(self.geometry.block_of(ppn)));
            }
        }
        self.run.used = first + pages;
        Ok(None)
    }

    /// Writes a record to new blocks, which become Reserved.
    fn write_fresh<N: Nand + ?Sized>(
        &mut self,
        nand: &mut N,
        blocks: &mut BlockTable,
        draft: &mut Draft<'_>,
    ) -> Result<Run, StoreFault> {
        let (pages, block) = (draft.0.pages(self.geometry), self.geometry.pages_per_block);
        let targets = (pages + self.note_pages).div_ceil(block);
        let mut run = Run { blocks: Vec::with_capacity(targets as usize), used: pages };
        while run.pages(self.geometry) < pages + self.note_pages {
            let first = run.pages(self.geometry).min(pages);
            let part = first..pages.min(first + block);
            match self.fill_block(nand, blocks, draft, part) {
                Ok(pbn) => run.blocks.push(pbn),
                Err(error) => {
                    run.blocks.into_iter().for_each(|pbn| blocks.discard(pbn));
                    return Err(error);
                }
            }
        }
        Ok(run)
    }

    /// Writes some pages of a record to the start of a new block. If the block fails, another is tried.
    fn fill_block<N: Nand + ?Sized>(
        &self,
        nand: &mut N,
        blocks: &mut BlockTable,
        draft: &mut Draft<'_>,
        part: Range<u32>,
    ) -> Result<Pbn, StoreFault> {
        loop {
            let pbn = blocks.take_erased(nand, Wear::Least, Cause::Checkpoint)?;
            blocks.reserve(pbn);
            let mut whole = Ok(true);
            for number in part.clone() {
                let ppn = self.geometry.page_at(pbn, number - part.start);
                let place = Place { kind: PageKind::Checkpoint, number, version: self.version + 1 };
                whole = program(nand, ppn, place, blocks, draft);
                if whole != Ok(true) {
                    break;
                }
            }
            match whole {
                Ok(true) => return Ok(pbn),
                Ok(false) => blocks.give_up(nand, pbn)?,
                Err(error) => {
                    blocks.discard(pbn);
                    return Err(error);
                }
            }
        }
    }

    /// Makes `targets` the blocks in which a mount looks for checkpoints.
    fn refer_to<N: Nand + ?Sized>(
        &mut self,
        nand: &mut N,
        blocks: &mut BlockTable,
        targets: &[Pbn],
        page: &mut [u8],
    ) -> Result<(), StoreFault> {
        loop {
            let reference = self.encode_reference(targets);
            let pages = self.reference_pages(targets.len() as u32);
            let (anchor, first) = match self.anchor {
                Some(anchor) if self.anchor_used + pages <= self.geometry.pages_per_block => {
                    (anchor, self.anchor_used)
                }
                _ => (self.go_on(nand, blocks)?, 0),
            };
            if Some(anchor) == self.anchor {
                self.anchor_used = self.geometry.pages_per_block;
            }
            // No version is used twice: a reference that failed may still be found by a mount.
            self.reference_version += 1;
            let draft = &mut (Record(&reference), &mut *page);
            let copies = self.program_reference(nand, blocks, self.geometry.page_at(anchor, first), draft)?;
            if copies > 0 {
                self.anchor = Some(anchor);
                let is_whole = copies == u32::from(self.copies);
                self.anchor_used = if is_whole { first + pages } else { self.geometry.pages_per_block };
                return Ok(());
            }
            // The anchor that holds the newest reference is only left, never marked bad, before there is a
            // newer one.
            if Some(anchor) != self.anchor {
                self.drop_anchor(anchor);
                blocks.give_up(nand, anchor)?;
            }
        }
    }

    fn reference_pages(&self, targets: u32) -> u32 {
        let numbers = 2 + self.anchors.len() + targets as usize;
        CheckpointArea::pages_needed(self.geometry, 4 * numbers) as u32 * u32::from(self.copies)
    }

    /// Returns an error if no reference to a checkpoint of `targets` can be written.
    fn require_anchor(&self, targets: u32) -> Result<(), StoreFault> {
        let (pages, block) = (self.reference_pages(targets), self.geometry.pages_per_block);
        if pages > block {
            let what = "the list of checkpoint blocks does not fit into one block";
            return Err(StoreError::Unsupported(what.into()).into());
        }
        let another = self.anchors.iter().any(|&a| Some(a) != self.anchor);
        if another || self.anchor_used + pages <= block { Ok(()) } else { Err(StoreError::Full.into()) }
    }

    /// Programs the copies of a reference. Returns how many could be programmed.
    fn program_reference<N: Nand + ?Sized>(
        &self,
        nand: &mut N,
        blocks: &BlockTable,
        first: Ppn,
        draft: &mut Draft<'_>,
    ) -> Result<u32, StoreFault> {
        let pages = draft.0.pages(self.geometry);
        for at in 0..pages * u32::from(self.copies) {
            let ppn = Ppn(first.0 + at);
            let place = Place { kind: PageKind::Anchor, number: at % pages, version: self.reference_version };
            nand.barrier()?;
            if !program(nand, ppn, place, blocks, draft)? {
                return Ok(at / pages);
            }
        }
        nand.barrier()?;
        Ok(self.copies.into())
    }

    /// Erases the next anchor and returns it. `Full` if only the one with the newest reference is left.
    fn go_on<N: Nand + ?Sized>(&mut self, nand: &mut N, blocks: &mut BlockTable) -> Result<Pbn, StoreFault> {
        loop {
            let after = |a: &&Pbn| self.anchor.is_none_or(|current| **a > current);
            let candidate = self.anchors.iter().find(after).or(self.anchors.first()).copied();
            let anchor = candidate.filter(|&a| Some(a) != self.anchor).ok_or(StoreError::Full)?;
            if blocks.erase(nand, anchor, Cause::Checkpoint)? {
                return Ok(anchor);
            }
            self.drop_anchor(anchor);
        }
    }

    fn drop_anchor(&mut self, anchor: Pbn) {
        self.anchors.retain(|&a| a != anchor);
    }

    fn encode_reference(&self, targets: &[Pbn]) -> Vec<u8> {
        let lists = &[&self.anchors[..], targets];
        let mut bytes = Vec::with_capacity(4 * (2 + self.anchors.len() + targets.len()));
        let mut put = |number: u32| bytes.extend_from_slice(&number.to_le_bytes());
        lists.iter().for_each(|list| put(list.len() as u32));
        lists.iter().for_each(|list| list.iter().for_each(|pbn| put(pbn.0)));
        bytes
    }

    fn decode_reference(&mut self, bytes: &[u8]) -> Result<(), StoreFault> {
        let fault = StoreError::other(Differs::Geometry, words("the checkpoints lie beyond the chip"));
        [self.anchors, self.run.blocks] = decode_lists(bytes, self.geometry.blocks).ok_or(fault)?;
        Ok(())
    }
}

/// Upper bound of the RAM, in bytes, to find the records in `blocks` blocks: a list of them, and two pages.
pub const fn mount_bytes(geometry: Geometry, blocks: u32) -> usize {
    let records = (blocks * geometry.pages_per_block) as usize;
    2 * records * size_of::<record::Start>() + 2 * geometry.page_bytes as usize
}

fn first_good_blocks<N: Nand + ?Sized>(nand: &mut N, count: u32) -> Result<Vec<Pbn>, StoreFault> {
    let mut found = Vec::new();
    for pbn in (0..nand.geometry().blocks).map(Pbn) {
        if found.len() == count as usize {
            break;
        }
        if !nand.is_bad(pbn)? {
            found.push(pbn);
        }
    }
    Ok(found)
}
