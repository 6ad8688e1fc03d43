//! The scan of a mount: from the sectors on the medium to the node translation table.
//!
//! All sectors are read to learn their commits, and the newest of them are kept, as many as the buffer and
//! the images have room for, which are made afterwards. If the newest commit is not whole, the power was
//! cut in it: its sectors are dropped, durably, before its number is used again. (The sectors of the newest
//! commit are never freed before the next one is whole, so a whole commit is found whole.) Then those
//! sectors are read again, newest first: a node's list is every sector with units of it back to the one
//! with its reset; sectors beyond its length wait beside it. Where there are more sectors, all are read
//! once more for the next newest ones. While it lasts, the scan takes 12 bytes for a sector kept, and a bit
//! for a node.

use super::config::FOUND_BYTES;
use super::modes::Mode;
use super::sector::{Head, unit_at, units};
use super::sectors::Sectors;
use super::table::{NODES_MORE, NodeTable};
use super::{LayerConfig, NodeCodec, NodeLayer, Op, Unit, empty_table};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use nandex::bits;
use nandex::check::IndexError;
use nandex::nand::Cause;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

const OWN: u8 = 1;
const DISK: u8 = 2;
const LAST: u8 = 4;

/// A sector that the scan found. Found sectors are ordered by age; the newest is the greatest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FoundSector {
    commit: u32,
    part: u16,
    flags: u8,
    sector: u32,
}

impl FoundSector {
    fn new(head: &Head, sector: Lpn) -> FoundSector {
        let flags = if head.is_own { OWN } else { 0 }
            | if head.is_disk { DISK } else { 0 }
            | if head.is_last { LAST } else { 0 };
        FoundSector { commit: head.commit, part: head.part, flags, sector: sector.0 }
    }

    fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

const _: () = assert!(size_of::<FoundSector>() == FOUND_BYTES);

/// The state of a scan.
pub(super) struct Scan {
    table: NodeTable,
    /// Sectors for which their node's list has no room, the oldest first.
    beyond: Vec<(u32, Lpn)>,
    /// The sectors of the newest whole commit.
    newest: Vec<Lpn>,
    /// The sectors of a commit that is not whole.
    void: Vec<Lpn>,
    /// Bit set of the sectors that were written in disk mode.
    disk: Vec<bits::Word>,
    /// Bit set of the nodes whose reset was found.
    closed: Vec<bits::Word>,
    commit: u32,
    number: u32,
}

impl Scan {
    pub(super) fn list(&self, node: u32) -> &[u32] {
        self.table.list(node)
    }

    /// Adds a sector at the beginning of a node's list. If the list is full, its newest sector moves to
    /// `beyond`.
    fn place(&mut self, node: u32, sector: Lpn) {
        if !self.table.has_room(node) {
            let newest = self.table.displace(node);
            self.beyond.push((node, newest));
        }
        self.table.push(node, sector);
    }

    /// Reverses the lists, so that the oldest sector comes first. A list without a reset belongs to a node
    /// given up, whose other sectors are gone, and is dropped.
    fn finish(&mut self) {
        for node in 0..self.table.nodes() {
            if bits::is_set(&self.closed, node as usize) {
                self.table.turn_round(node);
            } else {
                self.table.replace(node, [].into_iter());
            }
        }
        let (table, closed) = (&mut self.table, &self.closed);
        self.beyond.retain(|(node, sector)| {
            let is_closed = bits::is_set(closed, *node as usize);
            if !is_closed {
                table.unpin(*sector);
            }
            is_closed
        });
        self.beyond.reverse();
        self.table.release_taken();
        self.closed = Vec::new();
        debug_assert!(
            self.newest.iter().all(|sector| self.table.names_of(*sector) > 0),
            "N3: a sector of the newest commit is free"
        );
    }
}

/// Whether a node is in disk mode: its list is one sector, and that was written in disk mode.
fn is_in_disk_mode(disk: &[bits::Word], list: &[u32]) -> bool {
    matches!(list, [only] if bits::is_set(disk, (only - super::SECTORS_FROM) as usize))
}

impl<S: PageStore, C: NodeCodec> NodeLayer<S, C> {
    /// Takes over the state that a scan finds.
    pub(super) fn adopt_scan(&mut self) -> Result<(), IndexError> {
        self.sectors.table = NodeTable::new((1, 0), Lpn(super::SECTORS_FROM), 0, 0);
        let scan = self.sectors.scan(&self.config, Cause::Recovery)?;
        (self.sectors.table, self.sectors.newest, self.sectors.beyond) =
            (scan.table, scan.newest, scan.beyond);
        (self.sectors.commit, self.sectors.number) = (scan.commit, scan.number);
        if self.config.commit.placement().has_modes() {
            for node in
                (0..self.sectors.table.nodes()).filter(|node| !self.sectors.table.list(*node).is_empty())
            {
                let is_disk = is_in_disk_mode(&scan.disk, self.sectors.table.list(node));
                self.modes.set(node, if is_disk { Mode::Disk } else { Mode::Log });
            }
        }
        self.sectors.is_void_left = !scan.void.is_empty();
        match self.sectors.undo_void() {
            // Then no commit is begun.
            Err(error) if error.is_refusal() => Ok(()),
            done => Ok(done?),
        }
    }
}

impl<S: PageStore, C: NodeCodec> Sectors<S, C> {
    /// Scans the store: reads all sectors, and those in use once more.
    pub(super) fn scan(&mut self, config: &LayerConfig, cause: Cause) -> Result<Scan, StoreError> {
        let most = config.scan_sectors(&self.codec, self.node.len(), self.room);
        let has_modes = config.commit.placement().has_modes();
        let mut scan = Scan {
            table: empty_table(config, self.room),
            beyond: Vec::new(),
            newest: Vec::new(),
            void: Vec::new(),
            disk: bits::clear(if has_modes { self.room.sectors as usize } else { 0 }),
            // The table has more nodes, by less than it grows by.
            closed: bits::clear(self.room.nodes.next_multiple_of(NODES_MORE as u32) as usize),
            commit: 1,
            number: 0,
        };
        let (mut oldest, mut last_whole) = (None, 0);
        loop {
            let found = self.newest_sectors(&mut scan, (oldest, most), cause)?;
            if oldest.is_none() {
                last_whole = self.judge_newest(&mut scan, (&found, most), cause)?;
            }
            for Reverse(sector) in &found {
                if sector.commit <= last_whole {
                    self.place_units(&mut scan, sector, cause)?;
                }
            }
            oldest = match found.last() {
                Some(Reverse(last)) if found.len() == most => Some(*last),
                _ => break,
            };
        }
        scan.finish();
        Ok(scan)
    }

    /// The newest `most` sectors that hold something, the newest first. With `before`, the newest of those
    /// older than it.
    fn newest_sectors(
        &mut self,
        scan: &mut Scan,
        (before, most): (Option<FoundSector>, usize),
        cause: Cause,
    ) -> Result<Vec<Reverse<FoundSector>>, StoreError> {
        let mut found: BinaryHeap<Reverse<FoundSector>> = BinaryHeap::with_capacity(most);
        let mut highest = 0;
        for sector in (super::SECTORS_FROM..super::SECTORS_FROM + self.room.sectors).map(Lpn) {
            self.store.read(sector, cause, &mut self.page)?;
            let body_bytes = self.codec.body_bytes();
            let Some(head) = Head::read(&self.page, sector, body_bytes)? else { continue };
            if before.is_none() {
                scan.table.claim(sector);
                let nodes = units(&self.page, head.units, body_bytes).map(|unit| unit.node.saturating_add(1));
                highest = nodes.fold(highest, u32::max);
            }
            let this = FoundSector::new(&head, sector);
            if before.is_some_and(|before| this >= before) {
                continue;
            }
            if found.len() == most && found.peek().is_some_and(|Reverse(oldest)| *oldest < this) {
                found.pop();
            }
            if found.len() < most {
                found.push(Reverse(this));
            }
        }
        if highest > 0 {
            scan.table.reserve(highest.min(self.room.nodes));
        }
        Ok(found.into_sorted_vec())
    }

    /// Drops the newest commit if it is not whole. Returns the newest commit that is whole.
    fn judge_newest(
        &mut self,
        scan: &mut Scan,
        (found, most): (&[Reverse<FoundSector>], usize),
        cause: Cause,
    ) -> Result<u32, StoreError> {
        let newest = found.first().map_or(0, |Reverse(last)| last.commit);
        let of_newest = |found: &[Reverse<FoundSector>], newest: u32| {
            found.iter().take_while(|Reverse(sector)| sector.commit == newest).count()
        };
        let (parts, mut whole) = found.split_at(of_newest(found, newest));
        let is_whole = parts.iter().rev().enumerate().all(|(i, Reverse(part))| usize::from(part.part) == i)
            && parts.first().is_none_or(|Reverse(last)| last.is(LAST));
        let lpns = |found: &[Reverse<FoundSector>]| -> Vec<Lpn> {
            found.iter().rev().map(|Reverse(sector)| Lpn(sector.sector)).collect()
        };
        if is_whole {
            (scan.commit, whole) = (newest.saturating_add(1), found);
        } else {
            (scan.commit, scan.void) = (newest, lpns(parts));
            if whole.is_empty() && parts.len() == most {
                let what = "N1: a commit of more sectors than one has";
                return Err(StoreError::Corrupted { what, at: u64::from(parts[0].0.sector) });
            }
        }
        let Some(Reverse(last)) = whole.first() else { return Ok(0) };
        scan.newest = lpns(&whole[..of_newest(whole, last.commit)]);
        scan.newest.iter().for_each(|sector| scan.table.pin(*sector));
        scan.number = self.last_number(Lpn(last.sector), cause)?.wrapping_add(1);
        Ok(last.commit)
    }

    /// Adds a sector to the lists of all nodes with units in it, before the newer sectors there.
    fn place_units(&mut self, scan: &mut Scan, found: &FoundSector, cause: Cause) -> Result<(), StoreError> {
        let sector = Lpn(found.sector);
        let head = self.read_sector(sector, cause)?;
        let mut begun: Vec<u32> = Vec::new();
        for unit in units(&self.page, head.units, self.codec.body_bytes()) {
            if unit.node >= self.room.nodes {
                let what = "N1: a unit of a node that cannot be";
                return Err(StoreError::Corrupted { what, at: u64::from(sector.0) });
            }
            if !bits::is_set(&scan.closed, unit.node as usize)
                && scan.list(unit.node).last() != Some(&sector.0)
            {
                scan.place(unit.node, sector);
            }
            if unit.op == Op::Reset {
                begun.push(unit.node);
            }
        }
        begun.into_iter().for_each(|node| bits::set(&mut scan.closed, node as usize));
        if found.is(DISK) {
            bits::set(&mut scan.disk, (sector.0 - super::SECTORS_FROM) as usize);
        }
        if !found.is(OWN) && self.room.mixed_max > 0 {
            scan.table.note_mixed_before(sector);
        }
        Ok(())
    }

    fn last_number(&mut self, sector: Lpn, cause: Cause) -> Result<u32, StoreError> {
        let head = self.read_sector(sector, cause)?;
        let last = head.units.saturating_sub(1);
        Ok(Unit::number(unit_at(&self.page, last, self.codec.body_bytes())))
    }
}
