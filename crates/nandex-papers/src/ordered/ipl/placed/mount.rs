//! Mounting a tree in place: every page is read once.
//!
//! 1. The highest number that any page calls committed is `S`; what is newer is void.
//! 2. Of each node the newest image or ghost record that is not void counts, and the units of its group with
//!    newer records.
//! 3. A walk over the inner nodes finds which nodes belong to the tree; others were removed.
//! 4. Void pages and units are blanked before anything else is written, so that their numbers can be given
//!    out again.
//!
//! A store never tears a page: one that cannot be read, or a unit missing below others in a log that is
//! needed, is damage, and refuses the mount. A page that the store gives back in an older version is not
//! noticed.

use super::super::layout::{Change, Head, IplTag, NO_UNIT, PageKind, groups, records};
use super::super::recovery::{Version, offer};
use super::super::store::{NO_BLOCK, Slot, Store, corrupted};
use super::super::views::has_whole_units;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::codec::crc32;
use nandex::nand::{Cause, Nand, NandError, Reading, read_again};
use nandex::units::{Pbn, Ppn};

/// An image that a page holds.
struct Image {
    ppn: Ppn,
    node: u32,
    sequence: u64,
    generation: u32,
}

/// The records that a log unit holds of one node.
struct Logged {
    pbn: Pbn,
    unit: u16,
    generation: u32,
    /// Nothing in the unit is older.
    first: u64,
    node: u32,
    newest: u64,
    /// Where the node was born as a ghost here: the number of that, and the page of the image.
    ghost: Option<(u64, u16)>,
}

impl Logged {
    /// Whether the version needs these records: they are newer, or its own birth as a ghost.
    fn is_newer(&self, version: &Version) -> bool {
        self.newest > version.sequence || self.ghost.is_some_and(|ghost| ghost.0 == version.sequence)
    }
}

/// A log unit.
struct Unit {
    pbn: Pbn,
    unit: u16,
    generation: u32,
    first: u64,
}

/// The contents of all pages.
#[derive(Default)]
struct Found {
    images: Vec<Image>,
    units: Vec<Unit>,
    logged: Vec<Logged>,
    committed: u64,
    generation: u32,
}

impl<N: Nand> Store<N> {
    pub(super) fn recover_placed(&mut self) -> Result<(), IndexError> {
        let found = self.read_all()?;
        (self.committed, self.sequence) = (found.committed, found.committed);
        self.generation = found.generation;
        let epochs = self.epochs(&found);
        self.choose_placed(&found, &epochs)?;
        self.reach()?;
        self.settle_groups(&found, &epochs)?;
        self.settle_states()?;
        match self.blank_void(&found) {
            Err(error) if error.is_refusal() => {
                self.read_only = true;
                Ok(())
            }
            other => other,
        }
    }

    fn read_all(&mut self) -> Result<Found, IndexError> {
        let mut found = Found::default();
        let first = self.geometry.pages_per_block;
        for ppn in (first..self.geometry.pages()).map(Ppn) {
            let Some(tag) = self.read_placed(ppn)? else { continue };
            found.committed = found.committed.max(tag.committed);
            found.generation = found.generation.max(tag.generation);
            if tag.kind == PageKind::Data {
                let IplTag { node, sequence, generation, .. } = tag;
                found.images.push(Image { ppn, node, sequence, generation });
            } else {
                self.note_units(ppn, &mut found);
            }
        }
        Ok(found)
    }

    /// Reads a page into the page buffer; none when nothing was ever written there.
    fn read_placed(&mut self, ppn: Ppn) -> Result<Option<IplTag>, IndexError> {
        let (page, unit_bytes) = (self.geometry.page_in_block(ppn), self.format.unit_bytes);
        let is_whole = |data: &[u8], spare: &[u8]| match IplTag::decode(spare) {
            Some(tag) if u32::from(tag.page) != page => false,
            Some(tag) if tag.kind == PageKind::Data => crc32(&[data]) == tag.data_crc,
            Some(_) => has_whole_units(data, unit_bytes),
            None => spare.iter().chain(data).all(|&byte| byte == 0xff),
        };
        let place = (ppn, Cause::Recovery);
        match read_again(&mut self.nand, place, &mut self.page, &mut self.spare, is_whole) {
            Ok(Reading::Broken) => Err(corrupted(Invariant::I4, "a page does not match its tag", ppn)),
            Ok(reading) => {
                self.note_reading(ppn, reading);
                Ok(IplTag::decode(&self.spare))
            }
            Err(NandError::Uncorrectable(_)) => {
                Err(IndexError::corrupted("the page cannot be read", ppn.0.into()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the units in the page buffer over.
    fn note_units(&self, ppn: Ppn, found: &mut Found) {
        let (pbn, per_page) = (self.geometry.block_of(ppn), self.units_per_page());
        let log_page = self.geometry.pages_per_block - 1 - self.geometry.page_in_block(ppn);
        for (unit, bytes) in (log_page * per_page..).zip(self.page.chunks_exact(self.format.unit_bytes)) {
            let Some(Head { generation, first, committed, .. }) = Head::decode(bytes) else { continue };
            found.committed = found.committed.max(committed);
            found.generation = found.generation.max(generation);
            let unit = unit as u16;
            found.units.push(Unit { pbn, unit, generation, first });
            for group in groups(bytes).flatten() {
                let node = group.node;
                let mut logged = Logged { pbn, unit, generation, first, node, newest: 0, ghost: None };
                for (sequence, change) in records(self.shapes.widths(), first, group.records).flatten() {
                    logged.newest = logged.newest.max(sequence);
                    if let Change::Ghost { base, .. } | Change::GhostOfAll { base, .. } = change {
                        logged.ghost = Some((sequence, base));
                    }
                }
                found.logged.push(logged);
            }
        }
    }

    /// The epoch of each group: the merge after which its newest units were written.
    fn epochs(&self, found: &Found) -> Vec<u32> {
        let mut epochs = vec![0; self.blocks.len()];
        for unit in &found.units {
            let epoch = &mut epochs[unit.pbn.index()];
            *epoch = unit.generation.max(*epoch);
        }
        epochs
    }

    /// The newest version of each node, with the newest unit that has newer records of it.
    fn choose_placed(&mut self, found: &Found, epochs: &[u32]) -> Result<(), IndexError> {
        let committed = self.committed;
        let mut versions: Vec<Option<Version>> = Vec::new();
        let nodes_max = self.geometry.pages();
        for image in found.images.iter().filter(|image| image.sequence <= committed) {
            let Image { ppn, sequence, generation, .. } = *image;
            let base = self.geometry.page_in_block(ppn) as u16;
            let slot = Slot { block: self.geometry.block_of(ppn).0, base, last: NO_UNIT };
            offer(&mut versions, image.node, Version { sequence, generation, slot }, nodes_max);
        }
        let counts =
            |logged: &&Logged| logged.first <= committed && logged.generation == epochs[logged.pbn.index()];
        for logged in found.logged.iter().filter(counts) {
            let Some((sequence, base)) = logged.ghost else { continue };
            let slot = Slot { block: logged.pbn.0, base, last: NO_UNIT };
            let version = Version { sequence, generation: logged.generation, slot };
            offer(&mut versions, logged.node, version, nodes_max);
        }
        for logged in found.logged.iter().filter(counts) {
            let Some(Some(version)) = versions.get_mut(logged.node as usize) else { continue };
            let is_here = version.slot.block == logged.pbn.0;
            let last = version.slot.last;
            if is_here && logged.is_newer(version) && (last == NO_UNIT || last < logged.unit) {
                version.slot.last = logged.unit;
            }
        }
        self.slots = versions.iter().map(|v| v.map_or(Slot::NONE, |version| version.slot)).collect();
        for (block, &epoch) in self.blocks.iter_mut().zip(epochs) {
            block.generation = epoch;
        }
        Ok(())
    }

    /// Where the log of each group goes on. One that no node needs begins anew.
    fn settle_groups(&mut self, found: &Found, epochs: &[u32]) -> Result<(), IndexError> {
        let mut is_needed = vec![false; self.blocks.len()];
        for slot in self.slots.iter().filter(|slot| slot.block != NO_BLOCK) {
            is_needed[slot.block as usize] |= slot.last != NO_UNIT;
            let block = &mut self.blocks[slot.block as usize];
            block.data_next = block.data_next.max(slot.base + 1);
        }
        let mut ends = vec![(0u16, 0u16); self.blocks.len()];
        let counts =
            |unit: &&Unit| unit.first <= self.committed && unit.generation == epochs[unit.pbn.index()];
        for unit in found.units.iter().filter(counts) {
            let (end, number) = &mut ends[unit.pbn.index()];
            (*end, *number) = ((unit.unit + 1).max(*end), *number + 1);
        }
        for (pbn, is_needed) in (0u32..).map(Pbn).zip(is_needed) {
            let (end, number) = ends[pbn.index()];
            if is_needed && number < end {
                return Err(corrupted(
                    Invariant::I5,
                    "a log unit of this block is missing",
                    self.geometry.page_at(pbn, 0),
                ));
            }
            let (committed, next) = (self.committed, self.generation + 1);
            let block = &mut self.blocks[pbn.index()];
            (block.born, block.newest) = (committed.into(), committed.into());
            if is_needed {
                (block.cursor, block.units) = (end, number);
            } else {
                block.generation = next;
            }
        }
        self.generation += 1;
        Ok(())
    }

    /// Blanks what is void.
    fn blank_void(&mut self, found: &Found) -> Result<(), IndexError> {
        let committed = self.committed;
        for image in found.images.iter().filter(|image| image.sequence > committed) {
            self.page.fill(0xff);
            self.program_log_page(image.ppn)?;
        }
        for unit in found.units.iter().filter(|unit| unit.first > committed) {
            let ppn = self.unit_page(unit.pbn, unit.unit);
            self.read_placed(ppn)?;
            let at = u32::from(unit.unit) % self.units_per_page();
            let at = at as usize * self.format.unit_bytes;
            self.page[at..at + self.format.unit_bytes].fill(0xff);
            self.program_log_page(ppn)?;
        }
        Ok(())
    }

    fn program_log_page(&mut self, ppn: Ppn) -> Result<(), IndexError> {
        let tag = self.log_tag(ppn);
        self.spare.fill(0xff);
        tag.encode(&mut self.spare);
        self.program_over(ppn, Cause::Recovery)
    }
}
