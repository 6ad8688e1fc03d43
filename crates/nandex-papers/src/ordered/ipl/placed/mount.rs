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

use super::super::form::Form;
use super::super::layout::{Head, IplTag, NO_UNIT, PageKind, groups, records};
use super::super::medium::{Medium, corrupted};
use super::super::places::Places;
use super::super::slots::{NO_BLOCK, Slot};
use super::super::store::Store;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::nand::{Cause, Nand};
use nandex::units::{Pbn, Ppn};

/// A version of a node.
#[derive(Clone, Copy, Debug)]
struct Version {
    sequence: u64,
    generation: u32,
    slot: Slot,
}

/// A log unit found by the mount.
#[derive(Clone, Copy)]
struct Unit {
    pbn: Pbn,
    unit: u16,
    generation: u32,
    /// Nothing in the unit is older.
    first: u64,
}

/// The records that a log unit holds of one node.
struct Logged {
    unit: Unit,
    node: u32,
    newest: u64,
    /// Where the node was born as a ghost here: the number of that, and the page of the image.
    ghost: Option<(u64, u16)>,
}

impl Logged {
    /// True if the version needs these records: they are newer, or they created it as a ghost.
    fn is_newer(&self, version: &Version) -> bool {
        self.newest > version.sequence || self.ghost.is_some_and(|ghost| ghost.0 == version.sequence)
    }
}

/// The contents of all pages.
#[derive(Default)]
struct Found {
    /// Images found, by node.
    images: Vec<(u32, Version)>,
    units: Vec<Unit>,
    logged: Vec<Logged>,
    committed: u64,
    generation: u32,
    /// By group: the merge after which its newest units were written.
    epochs: Vec<u32>,
}

impl<N: Nand> Store<N> {
    pub(in super::super) fn recover_placed(&mut self) -> Result<(), IndexError> {
        let found = Found::read(&mut self.medium)?;
        let numbers = &mut self.numbers;
        (numbers.committed, numbers.sequence) = (found.committed, found.committed);
        numbers.generation = found.generation;
        found.choose(&mut self.places, &self.medium.form);
        self.reach()?;
        found.settle_groups(&mut self.places, &self.medium.form)?;
        self.numbers.generation += 1;
        self.space.settle(&mut self.places.blocks)?;
        match self.blank_void(&found) {
            Err(error) if error.is_refusal() => {
                self.space.read_only = true;
                Ok(())
            }
            other => other,
        }
    }

    /// Blanks pages and units that are newer than the last commit.
    fn blank_void(&mut self, found: &Found) -> Result<(), IndexError> {
        let form = self.medium.form;
        let images = found.images.iter().filter(|(_, image)| image.sequence > found.committed);
        for Slot { block, base, .. } in images.map(|(_, image)| image.slot) {
            self.medium.page.fill(0xff);
            self.program_blanked(form.geometry.page_at(Pbn(block), base.into()))?;
        }
        for unit in found.units.iter().filter(|unit| unit.first > found.committed) {
            let ppn = form.unit_page(unit.pbn, unit.unit);
            self.medium.read_placed(ppn)?;
            self.medium.page[form.bytes_of(unit.unit)].fill(0xff);
            self.program_blanked(ppn)?;
        }
        Ok(())
    }

    fn program_blanked(&mut self, ppn: Ppn) -> Result<(), IndexError> {
        let geometry = &self.medium.form.geometry;
        let page = geometry.page_in_block(ppn) as u16;
        let tag = IplTag { kind: PageKind::Log, page, ..self.tag(geometry.block_of(ppn)) };
        self.medium.set_tag(&tag);
        self.medium.program_over(ppn, Cause::Recovery)
    }
}

impl Found {
    /// Reads every page of the chip.
    fn read<N: Nand>(medium: &mut Medium<N>) -> Result<Found, IndexError> {
        let geometry = medium.form.geometry;
        let mut found = Found { epochs: vec![0; geometry.blocks as usize], ..Found::default() };
        for ppn in (geometry.pages_per_block..geometry.pages()).map(Ppn) {
            let Some(tag) = medium.read_placed(ppn)? else { continue };
            found.committed = found.committed.max(tag.committed);
            found.generation = found.generation.max(tag.generation);
            if tag.kind == PageKind::Data {
                let IplTag { node, sequence, generation, .. } = tag;
                let (pbn, page) = (geometry.block_of(ppn), geometry.page_in_block(ppn));
                let slot = Slot { block: pbn.0, base: page as u16, last: NO_UNIT };
                found.images.push((node, Version { sequence, generation, slot }));
            } else {
                found.note_units(ppn, &medium.page, &medium.form);
            }
        }
        Ok(found)
    }

    /// Takes the units of a page over.
    fn note_units(&mut self, ppn: Ppn, page: &[u8], form: &Form) {
        let (pbn, per_page) = (form.geometry.block_of(ppn), form.units_per_page());
        let log_page = form.geometry.pages_per_block - 1 - form.geometry.page_in_block(ppn);
        for (unit, bytes) in (log_page * per_page..).zip(page.chunks_exact(form.format.unit_bytes)) {
            let Some(Head { generation, first, committed, .. }) = Head::decode(bytes) else { continue };
            self.committed = self.committed.max(committed);
            self.generation = self.generation.max(generation);
            let (unit, epoch) = (unit as u16, &mut self.epochs[pbn.index()]);
            *epoch = generation.max(*epoch);
            let unit = Unit { pbn, unit, generation, first };
            self.units.push(unit);
            for group in groups(bytes).flatten() {
                let mut logged = Logged { unit, node: group.node, newest: 0, ghost: None };
                for (sequence, change) in records(form.shapes.widths(), first, group.records).flatten() {
                    logged.newest = logged.newest.max(sequence);
                    logged.ghost = change.source().map(|(_, base)| (sequence, base)).or(logged.ghost);
                }
                self.logged.push(logged);
            }
        }
    }

    /// True if a unit counts: it is committed, and its group's log did not begin again since.
    fn counts(&self, unit: &Unit) -> bool {
        unit.first <= self.committed && unit.generation == self.epochs[unit.pbn.index()]
    }

    /// Chooses the newest version of each node, and the newest unit with newer records of it.
    fn choose(&self, places: &mut Places, form: &Form) {
        let mut versions: Vec<Option<Version>> = Vec::new();
        let nodes_max = form.geometry.pages();
        for &(node, version) in self.images.iter().filter(|image| image.1.sequence <= self.committed) {
            offer(&mut versions, node, version, nodes_max);
        }
        let counts = |logged: &&Logged| self.counts(&logged.unit);
        for logged in self.logged.iter().filter(counts) {
            let Some((sequence, base)) = logged.ghost else { continue };
            let slot = Slot { block: logged.unit.pbn.0, base, last: NO_UNIT };
            let version = Version { sequence, generation: logged.unit.generation, slot };
            offer(&mut versions, logged.node, version, nodes_max);
        }
        for logged in self.logged.iter().filter(counts) {
            let Some(Some(version)) = versions.get_mut(logged.node as usize) else { continue };
            let (slot, unit) = (version.slot, logged.unit);
            let is_later = slot.last == NO_UNIT || slot.last < unit.unit;
            if slot.block == unit.pbn.0 && logged.is_newer(version) && is_later {
                version.slot.last = unit.unit;
            }
        }
        let slots = versions.iter().map(|version| version.map_or(Slot::NONE, |version| version.slot));
        slots.for_each(|slot| places.slots.push(slot));
        for (block, &epoch) in places.blocks.iter_mut().zip(&self.epochs) {
            block.generation = epoch;
        }
    }

    /// Finds where the log of each group continues. A log that no node needs begins again.
    fn settle_groups(&self, places: &mut Places, form: &Form) -> Result<(), IndexError> {
        let Places { blocks, slots, .. } = places;
        let mut is_needed = vec![false; blocks.len()];
        for slot in slots.iter().filter(|slot| slot.block != NO_BLOCK) {
            is_needed[slot.block as usize] |= slot.last != NO_UNIT;
            let block = &mut blocks[slot.block as usize];
            block.data_next = block.data_next.max(slot.base + 1);
        }
        let mut ends = vec![(0u16, 0u16); blocks.len()];
        for unit in self.units.iter().filter(|unit| self.counts(unit)) {
            let (end, number) = &mut ends[unit.pbn.index()];
            (*end, *number) = ((unit.unit + 1).max(*end), *number + 1);
        }
        for (pbn, is_needed) in (0u32..).map(Pbn).zip(is_needed) {
            let (end, number) = ends[pbn.index()];
            if is_needed && number < end {
                let what = "a log unit of this block is missing";
                return Err(corrupted(Invariant::I5, what, form.geometry.page_at(pbn, 0)));
            }
            let block = &mut blocks[pbn.index()];
            (block.born, block.newest) = (self.committed.into(), self.committed.into());
            if is_needed {
                (block.cursor, block.units) = (end, number);
            } else {
                block.generation = self.generation + 1;
            }
        }
        Ok(())
    }
}

/// Takes a version if it is the newest of its node so far.
fn offer(versions: &mut Vec<Option<Version>>, id: u32, version: Version, nodes_max: u32) {
    // A number beyond all pages is that of no node.
    if id >= nodes_max.saturating_mul(2) {
        return;
    }
    if versions.len() <= id as usize {
        versions.resize(id as usize + 1, None);
    }
    let best = &mut versions[id as usize];
    let rank = |version: &Version| (version.sequence, version.generation);
    if best.as_ref().is_none_or(|old| rank(old) < rank(&version)) {
        *best = Some(version);
    }
}
