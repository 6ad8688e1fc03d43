//! The scan of a mount: from the sectors on the medium to the node translation table.
//!
//! All sectors are read to learn their commits. If the newest commit is not whole, the power was cut in it:
//! its sectors are dropped, durably, before its number is used again. (The sectors of the newest commit are
//! never freed before the next one is whole, so a whole commit is found whole.) Then the sectors are read
//! again, newest first: a node's list is every sector with units of it back to the one with its reset;
//! sectors beyond its length wait beside it. While it lasts, the scan takes 12 bytes for a sector in use, 8
//! for a place in a list and one for a node.

use super::modes::Mode;
use super::sector::{Head, unit_at, units};
use super::table::NodeTable;
use super::{NodeCodec, NodeLayer, Op, Unit};
use crate::check::IndexError;
use crate::nand::Cause;
use crate::sort;
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;
use alloc::vec;
use alloc::vec::Vec;

/// A sector that the scan found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FoundSector {
    commit: u32,
    part: u16,
    is_own: bool,
    is_disk: bool,
    is_last: bool,
    sector: u32,
}

/// The sectors as the scan sorts them.
pub(super) struct Scan {
    table: NodeTable,
    /// Sectors for which lists have no room, oldest first.
    beyond: Vec<(u32, Lpn)>,
    /// The sectors of the newest whole commit.
    newest: Vec<Lpn>,
    /// The sectors of a commit that is not whole.
    void: Vec<Lpn>,
    /// Nodes in disk mode.
    disk: Vec<u32>,
    commit: u32,
    number: u32,
}

impl Scan {
    /// The list of a node, as far as it is not too long.
    pub(super) fn list(&self, node: u32) -> &[u32] {
        self.table.list(node)
    }

    /// A node whose list is one sector written in disk mode is in it.
    fn note_disk_mode(&mut self, found: &[FoundSector]) {
        let mut disk: Vec<u32> =
            found.iter().filter(|sector| sector.is_disk).map(|sector| sector.sector).collect();
        sort::total(&mut disk);
        let is_disk =
            |node: &u32| matches!(self.table.list(*node), [only] if disk.binary_search(only).is_ok());
        self.disk = (0..self.table.nodes()).filter(is_disk).collect();
    }
}

impl<S: PageStore, C: NodeCodec> NodeLayer<S, C> {
    /// Takes over what the medium says.
    pub(super) fn adopt_scan(&mut self) -> Result<(), IndexError> {
        let scan = self.scan(Cause::Recovery)?;
        (self.table, self.newest, self.beyond) = (scan.table, scan.newest, scan.beyond);
        (self.commit, self.number) = (scan.commit, scan.number);
        if self.config.commit.placement().has_modes() {
            for node in (0..self.table.nodes()).filter(|node| !self.table.list(*node).is_empty()) {
                let is_disk = scan.disk.binary_search(&node).is_ok();
                self.modes.set(node, if is_disk { Mode::Disk } else { Mode::Log });
            }
        }
        self.is_void_left = !scan.void.is_empty();
        match self.undo_void() {
            // Then no commit is begun.
            Err(error) if error.is_refusal() => Ok(()),
            done => Ok(done?),
        }
    }

    /// Reads all sectors, and those in use once more.
    pub(super) fn scan(&mut self, cause: Cause) -> Result<Scan, StoreError> {
        let mut found = self.find_sectors(cause)?;
        let newest = found.last().map_or(0, |last| last.commit);
        let start = found.partition_point(|sector| sector.commit < newest);
        let parts = &found[start..];
        let is_whole = parts.iter().enumerate().all(|(i, sector)| usize::from(sector.part) == i)
            && parts.last().is_none_or(|last| last.is_last);
        let table = Self::empty_table(&self.config, self.room);
        let mut scan = Scan {
            table,
            beyond: Vec::new(),
            newest: Vec::new(),
            void: Vec::new(),
            disk: Vec::new(),
            commit: newest.saturating_add(1),
            number: 0,
        };
        for sector in &found {
            scan.table.claim(Lpn(sector.sector));
        }
        if !is_whole {
            scan.void = parts.iter().map(|sector| Lpn(sector.sector)).collect();
            scan.commit = newest;
            found.truncate(start);
        }
        let newest = found.last().map_or(0, |last| last.commit);
        let of_newest = found.iter().filter(|sector| sector.commit == newest);
        scan.newest = of_newest.map(|sector| Lpn(sector.sector)).collect();
        scan.newest.iter().for_each(|sector| scan.table.pin(*sector));
        let places = self.find_places(&found, cause)?;
        scan.number = match found.last() {
            Some(last) => self.last_number(Lpn(last.sector), cause)?.wrapping_add(1),
            None => 0,
        };
        for (node, sector) in places.into_iter().rev() {
            if scan.table.has_room(node) && scan.beyond.iter().all(|(other, _)| *other != node) {
                scan.table.push(node, sector);
            } else {
                scan.beyond.push((node, sector));
                scan.table.pin(sector);
            }
        }
        for sector in found.iter().filter(|sector| !sector.is_own && self.room.mixed_max > 0) {
            scan.table.note_mixed(Lpn(sector.sector));
        }
        let all = found.iter().map(|sector| Lpn(sector.sector)).chain(scan.void.iter().copied());
        all.for_each(|sector| scan.table.release(sector));
        debug_assert!(
            scan.newest.iter().all(|sector| scan.table.names_of(*sector) > 0),
            "N3: a sector of the newest commit is free"
        );
        scan.note_disk_mode(&found);
        Ok(scan)
    }

    /// The sectors that hold something, oldest first.
    fn find_sectors(&mut self, cause: Cause) -> Result<Vec<FoundSector>, StoreError> {
        let mut found = Vec::new();
        for sector in (super::SECTORS_FROM..super::SECTORS_FROM + self.room.sectors).map(Lpn) {
            self.store.read(sector, cause, &mut self.page)?;
            if let Some(head) = Head::read(&self.page, sector, self.codec.body_bytes())? {
                let Head { commit, part, is_own, is_disk, is_last, .. } = head;
                found.push(FoundSector { commit, part, is_own, is_disk, is_last, sector: sector.0 });
            }
        }
        sort::total(&mut found);
        Ok(found)
    }

    /// Which sectors stand in which list, the newest first.
    fn find_places(&mut self, found: &[FoundSector], cause: Cause) -> Result<Vec<(u32, Lpn)>, StoreError> {
        let mut places: Vec<(u32, Lpn)> = Vec::new();
        let mut is_closed = vec![false; self.room.nodes as usize];
        for sector in found.iter().rev().map(|found| Lpn(found.sector)) {
            let head = self.read_sector(sector, cause)?;
            let mut begun: Vec<u32> = Vec::new();
            let first = places.len();
            for unit in units(&self.page, head.units, self.codec.body_bytes()) {
                let closed = is_closed.get(unit.node as usize).copied();
                let Some(closed) = closed else {
                    return Err(StoreError::Corrupted {
                        what: "N1: a unit of a node that cannot be",
                        at: u64::from(sector.0),
                    });
                };
                let is_new = places[first..].iter().all(|(node, _)| *node != unit.node);
                if !closed && is_new {
                    places.push((unit.node, sector));
                }
                if unit.op == Op::Reset {
                    begun.push(unit.node);
                }
            }
            begun.into_iter().for_each(|node| is_closed[node as usize] = true);
        }
        // What has no reset is left of a node given up, whose other sectors are gone.
        places.retain(|(node, _)| is_closed[*node as usize]);
        Ok(places)
    }

    fn last_number(&mut self, sector: Lpn, cause: Cause) -> Result<u32, StoreError> {
        let head = self.read_sector(sector, cause)?;
        let last = head.units.saturating_sub(1);
        Ok(Unit::number(unit_at(&self.page, last, self.codec.body_bytes())))
    }
}
