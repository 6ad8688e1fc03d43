//! The store below, and which sectors of it have which nodes: reading nodes, writing commits, compactions of
//! nodes whose lists grow too long, and room for both.

use super::config::Room;
use super::sector::{Head, Kind, SectorWriter, Sink, units, units_of};
use super::table::NodeTable;
use super::{COMMIT_BITS, LayerConfig, LayerCounts, NodeCodec, Op, apply, show_whole};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{CheckReport, Invariant, message};
use nandex::codec::first_number;
use nandex::nand::Cause;
use nandex::sort;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

/// The store, and the sectors of the nodes in it.
pub(super) struct Sectors<S, C> {
    pub(super) store: S,
    pub(super) codec: C,
    pub(super) room: Room,
    pub(super) table: NodeTable,
    pub(super) writer: SectorWriter,
    /// The sectors of the newest commit.
    pub(super) newest: Vec<Lpn>,
    /// Sectors for which a mount found no room in the list of their node, the oldest first. They wait until
    /// the nodes in use are known.
    pub(super) beyond: Vec<(u32, Lpn)>,
    pub(super) page: Vec<u8>,
    pub(super) node: Vec<u8>,
    /// Number of the next commit. `number` is that of its first unit.
    pub(super) commit: u32,
    pub(super) number: u32,
    /// Whether sectors of an abandoned commit must still be dropped. No commit begins before that.
    pub(super) is_void_left: bool,
    /// Whether each write is a commit of its own, durable or refused.
    pub(super) commits_each: bool,
    pub(super) is_interrupted: bool,
    pub(super) counts: LayerCounts,
}

/// A [`Sink`] that takes the next free sector of the table.
pub(super) struct Free<'a, S> {
    pub(super) store: &'a mut S,
    pub(super) table: &'a mut NodeTable,
    pub(super) cause: Cause,
}

impl<S: PageStore> Sink for Free<'_, S> {
    fn allocate(&mut self) -> Result<Lpn, StoreError> {
        let none = StoreError::Corrupted { what: "N6: no sector is free", at: 0 };
        self.table.allocate().ok_or(none)
    }

    fn write(&mut self, lpn: Lpn, page: &[u8]) -> Result<(), StoreError> {
        self.store.write(lpn, self.cause, page)
    }
}

impl<S: PageStore, C: NodeCodec> Sectors<S, C> {
    /// A layer without contents. If the table has no sectors, nodes are kept in place.
    pub(super) fn new(store: S, codec: C, table: NodeTable, room: Room) -> Self {
        let (page_bytes, body_bytes) = (store.page_bytes(), codec.body_bytes());
        let sector_bytes = if table.sectors() > 0 { page_bytes } else { 0 };
        Sectors {
            table,
            writer: SectorWriter::new(sector_bytes, body_bytes),
            newest: Vec::new(),
            beyond: Vec::new(),
            page: vec![0; sector_bytes],
            node: vec![0; page_bytes],
            commit: first_number(COMMIT_BITS, 1) as u32,
            number: 0,
            is_void_left: false,
            commits_each: false,
            is_interrupted: false,
            counts: LayerCounts::default(),
            store,
            codec,
            room,
        }
    }

    /// Makes the page of a node from the sectors of its list. Returns whether there are any.
    pub(super) fn gather(&mut self, node: Lpn, cause: Cause, data: &mut [u8]) -> Result<bool, StoreError> {
        let length = self.table.list(node.0).len();
        data.fill(0);
        for at in 0..length {
            let sector = Lpn(self.table.list(node.0)[at]);
            self.apply_sector(node, sector, cause, data)?;
        }
        for at in 0..self.beyond.len() {
            let (other, sector) = self.beyond[at];
            if other == node.0 {
                self.apply_sector(node, sector, cause, data)?;
            }
        }
        Ok(length > 0)
    }

    /// Compacts the nodes whose lists would grow too long with these sectors, each of which is pinned.
    /// Nodes that the store refuses to write keep their sectors in `beyond`.
    pub(super) fn compact_beyond(&mut self, mut beyond: Vec<(u32, Lpn)>) -> Result<(), StoreError> {
        sort::by_key(&mut beyond, |(node, _)| *node);
        let mut refused = Ok(());
        for group in beyond.chunk_by(|a, b| a.0 == b.0) {
            let node = group[0].0;
            let mut list: Vec<Lpn> = self.table.list(node).iter().map(|sector| Lpn(*sector)).collect();
            list.extend(group.iter().map(|(_, sector)| *sector));
            let compacted = if refused.is_ok() { self.compact(node, &list) } else { refused.clone() };
            match compacted {
                Ok(()) => group.iter().for_each(|(_, sector)| self.table.unpin(*sector)),
                Err(error) if error.is_refusal() && !self.is_interrupted => {
                    self.beyond.extend_from_slice(group);
                    refused = Err(error);
                }
                Err(error) => {
                    // A list that could not be made short is not in the table: only a mount finds it again.
                    self.is_interrupted = true;
                    return Err(error);
                }
            }
        }
        refused.and_then(|()| self.trim_if_durable())
    }

    pub(super) fn compact(&mut self, number: u32, list: &[Lpn]) -> Result<(), StoreError> {
        let mut node = core::mem::take(&mut self.node);
        node.fill(0);
        let read = list
            .iter()
            .try_for_each(|sector| self.apply_sector(Lpn(number), *sector, Cause::Merge, &mut node));
        let done = read.and_then(|()| self.rewrite(number, &node, Kind::Own, Cause::Merge));
        self.node = node;
        done?;
        self.counts.compactions += 1;
        self.counts.compaction_pages += self.newest.len() as u64;
        self.trim_if_durable()
    }

    /// Writes a node into sectors of its own, in a commit of its own.
    pub(super) fn rewrite(
        &mut self,
        number: u32,
        node: &[u8],
        kind: Kind,
        cause: Cause,
    ) -> Result<(), StoreError> {
        self.begin(kind)?;
        let written = self.write_whole(number, node, cause);
        self.end(written, cause)?;
        self.writer.placed.clear();
        let sectors = self.newest.clone();
        debug_assert!(kind != Kind::Disk || sectors.len() == 1, "N7: node {number} takes {sectors:?}");
        self.table.replace(number, sectors.into_iter());
        Ok(())
    }

    pub(super) fn write_in_disk_mode(&mut self, nodes: &[(Lpn, &[u8])]) -> Result<(), StoreError> {
        nodes.iter().try_for_each(|(node, data)| {
            let Sectors { writer, store, table, .. } = self;
            writer.turn_to_disk(&mut Free { store, table, cause: Cause::Host })?;
            self.write_whole(node.0, data, Cause::Host)
        })
    }

    pub(super) fn write_whole(&mut self, number: u32, node: &[u8], cause: Cause) -> Result<(), StoreError> {
        let Sectors { writer, store, table, codec, .. } = self;
        let mut sink = Free { store, table, cause };
        let Some(mark) = codec.mark(node) else {
            return Err(StoreError::Corrupted { what: "N2: a list makes no node", at: u64::from(number) });
        };
        let mut written = Ok(());
        show_whole(codec, Lpn(number), mark, node, &mut |unit| {
            if written.is_ok() {
                written = writer.push(unit, &mut sink);
            }
        });
        written
    }

    pub(super) fn begin(&mut self, kind: Kind) -> Result<(), StoreError> {
        self.undo_void()?;
        if self.commit == u32::MAX {
            return Err(StoreError::WornOut);
        }
        self.writer.begin(self.commit, self.number, kind);
        Ok(())
    }

    /// Ends a commit. If that fails, the commit is dropped and nothing has changed.
    pub(super) fn end(&mut self, written: Result<(), StoreError>, cause: Cause) -> Result<(), StoreError> {
        let lasts_later = self.commits_each && !self.store.durable_writes();
        let Sectors { writer, store, table, .. } = self;
        let ended = written.and_then(|()| {
            let number = writer.end(&mut Free { store: &mut *store, table, cause })?;
            if lasts_later {
                store.sync()?;
            }
            Ok(number)
        });
        match ended {
            Ok(number) => {
                self.number = number;
                self.commit += 1;
                let older = core::mem::replace(&mut self.newest, core::mem::take(&mut self.writer.sectors));
                self.newest.iter().for_each(|sector| self.table.pin(*sector));
                older.into_iter().for_each(|sector| self.table.unpin(sector));
                Ok(())
            }
            Err(error) => {
                let sectors = core::mem::take(&mut self.writer.sectors);
                sectors.into_iter().for_each(|sector| self.table.release(sector));
                self.is_interrupted |= !error.is_refusal();
                self.is_void_left = true;
                if !self.is_interrupted {
                    let undone = self.undo_void();
                    self.is_interrupted = undone.is_err_and(|error| !error.is_refusal());
                }
                Err(error)
            }
        }
    }

    /// Makes room for `sectors` mixed sectors by compacting all nodes of the oldest ones.
    pub(super) fn make_room(&mut self, sectors: usize) -> Result<(), StoreError> {
        while self.table.mixed().len() + sectors > self.room.mixed_max as usize {
            let Some(oldest) = self.table.mixed().front().map(|sector| Lpn(*sector)) else {
                return Err(StoreError::Corrupted { what: "N6: a commit larger than its room", at: 0 });
            };
            for node in self.nodes_of(oldest)? {
                let list: Vec<Lpn> = self.table.list(node).iter().map(|sector| Lpn(*sector)).collect();
                if list.contains(&oldest) {
                    self.counts.reclaims += 1;
                    self.compact(node, &list)?;
                }
            }
            if self.table.mixed().front() == Some(&oldest.0) {
                return Err(StoreError::Corrupted {
                    what: "N3: a list names a sector for nothing",
                    at: oldest.0.into(),
                });
            }
        }
        Ok(())
    }

    fn nodes_of(&mut self, sector: Lpn) -> Result<Vec<u32>, StoreError> {
        let head = self.read_sector(sector, Cause::Merge)?;
        let mut nodes: Vec<u32> =
            units(&self.page, head.units, self.codec.body_bytes()).map(|unit| unit.node).collect();
        sort::total(&mut nodes);
        nodes.dedup();
        Ok(nodes)
    }

    /// Reads a sector into the buffer. A blank one is an error.
    pub(super) fn read_sector(&mut self, sector: Lpn, cause: Cause) -> Result<Head, StoreError> {
        self.store.read(sector, cause, &mut self.page)?;
        let blank = StoreError::Corrupted { what: "N1: a sector is gone", at: u64::from(sector.0) };
        Head::read(&self.page, sector, self.codec.body_bytes())?.ok_or(blank)
    }

    /// Applies those units of a sector that are of this node.
    pub(super) fn apply_sector(
        &mut self,
        node: Lpn,
        sector: Lpn,
        cause: Cause,
        data: &mut [u8],
    ) -> Result<(), StoreError> {
        let head = self.read_sector(sector, cause)?;
        let mut found = units_of(&self.page, node.0, (head.units, self.codec.body_bytes()));
        let Some(first) = found.next() else {
            let what = "N1: a sector of a list has no units of the node";
            return Err(StoreError::Corrupted { what, at: u64::from(sector.0) });
        };
        apply(&self.codec, data, first)?;
        found.try_for_each(|unit| match unit.op {
            Op::Reset => Err(StoreError::Corrupted {
                what: "N2: a reset within a node's units",
                at: u64::from(sector.0),
            }),
            _ => apply(&self.codec, data, unit),
        })
    }

    /// Trims sectors that became free, if the store's writes are durable at once. Otherwise the next sync
    /// does it.
    pub(super) fn trim_if_durable(&mut self) -> Result<(), StoreError> {
        if self.store.durable_writes() { self.trim_dead() } else { Ok(()) }
    }

    pub(super) fn trim_dead(&mut self) -> Result<(), StoreError> {
        match self.trim_all_dead() {
            // No room for the note of it: the store only keeps the page longer.
            Err(error) if error.is_refusal() => Ok(()),
            done => done,
        }
    }

    /// Drops the sectors of an abandoned commit. They must be gone before its number is used again.
    pub(super) fn undo_void(&mut self) -> Result<(), StoreError> {
        if self.is_void_left {
            self.trim_all_dead()?;
            self.store.sync()?;
            self.is_void_left = false;
        }
        Ok(())
    }

    /// Trims all dead sectors. Returns the refusal if one could not be trimmed.
    fn trim_all_dead(&mut self) -> Result<(), StoreError> {
        let (mut all, mut refused) = (Ok(()), Vec::new());
        while let Some(sector) = self.table.next_dead() {
            match self.store.trim(sector) {
                Err(error) if error.is_refusal() => {
                    all = Err(error);
                    refused.push(sector);
                }
                done => done?,
            }
        }
        refused.into_iter().for_each(|sector| self.table.keep_dead(sector));
        all
    }

    /// Checks N1, N2, N3, N5 and N6.
    pub(super) fn check_shared(
        &mut self,
        config: &LayerConfig,
        report: &mut CheckReport,
    ) -> Result<(), StoreError> {
        let scan = match self.scan(config, Cause::Check) {
            Ok(scan) => scan,
            Err(StoreError::Corrupted { what, at }) => {
                report.violation(Invariant::N1, at, what.to_string());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let mut names = vec![0; self.table.sectors()];
        for node in 0..self.table.nodes() {
            let list = self.table.list(node);
            list.iter().for_each(|sector| names[(*sector - super::SECTORS_FROM) as usize] += 1);
            if !list.is_empty() && scan.list(node) != list {
                let found = message!("the table says {list:?}, the medium {:?}", scan.list(node));
                report.violation(Invariant::N5, u64::from(node), found);
            }
        }
        let pinned = self.newest.iter().chain(self.beyond.iter().map(|(_, sector)| sector));
        pinned.for_each(|sector| names[(sector.0 - super::SECTORS_FROM) as usize] += 1);
        let counted =
            (0..self.table.sectors() as u32).map(|at| self.table.names_of(Lpn(super::SECTORS_FROM + at)));
        if let Some(at) = counted.zip(&names).position(|(counted, names)| counted != *names) {
            report.violation(Invariant::N3, at as u64, message!("{} lists name the sector", names[at]));
        }
        let used = names.iter().filter(|names| **names > 0).count();
        if used + self.table.free_sectors() != self.table.sectors() {
            report.violation(Invariant::N3, 0, message!("{used} sectors are named"));
        }
        if self.table.mixed().len() > self.room.mixed_max as usize {
            report.violation(Invariant::N6, 0, message!("{} mixed sectors", self.table.mixed().len()));
        }
        self.check_numbers(report)
    }

    /// Checks N2: the units of each list ascend in number, and only the first is a reset.
    fn check_numbers(&mut self, report: &mut CheckReport) -> Result<(), StoreError> {
        for node in 0..self.table.nodes() {
            let mut last = None;
            for at in 0..self.table.list(node).len() {
                let sector = Lpn(self.table.list(node)[at]);
                let head = self.read_sector(sector, Cause::Check)?;
                for i in 0..head.units {
                    let bytes = super::sector::unit_at(&self.page, i, self.codec.body_bytes());
                    let Some(unit) = super::Unit::decode(bytes, self.codec.body_bytes()) else { continue };
                    let number = super::Unit::number(bytes);
                    if unit.node != node {
                        continue;
                    }
                    // Numbers wrap around, and a list never spans half of them.
                    let ascends = last.is_none_or(|last: u32| number.wrapping_sub(last) as i32 > 0);
                    if !ascends || (unit.op == Op::Reset) != last.is_none() {
                        let found = message!("unit {number} of sector {sector}");
                        report.violation(Invariant::N2, u64::from(node), found);
                    }
                    last = Some(number);
                }
            }
        }
        Ok(())
    }

    /// Adds the sectors of a commit to the lists of their nodes. The last `whole` of them are of nodes in
    /// disk mode, and so are not mixed.
    pub(super) fn list_placed(&mut self, whole: usize) -> Result<(), StoreError> {
        let mut beyond: Vec<(u32, Lpn)> = Vec::new();
        for (node, sector) in core::mem::take(&mut self.writer.placed) {
            if self.table.has_room(node) && beyond.iter().all(|(other, _)| *other != node) {
                self.table.push(node, sector);
            } else {
                beyond.push((node, sector));
                // The first compaction is a commit of its own, after which these sectors are the newest no
                // longer.
                self.table.pin(sector);
            }
        }
        let committed = self.newest.clone();
        committed[..committed.len() - whole].iter().for_each(|sector| self.table.note_mixed(*sector));
        self.counts.commit_pages += committed.len() as u64;
        match self.compact_beyond(beyond) {
            // The commit is done. What is beyond the lists waits there for the next change, as after a mount.
            Err(error) if error.is_refusal() && !self.is_interrupted => Ok(()),
            done => done,
        }
    }

    /// Compacts the nodes whose lists a mount found too long.
    pub(super) fn settle(&mut self) -> Result<(), StoreError> {
        let beyond = core::mem::take(&mut self.beyond);
        self.compact_beyond(beyond)
    }

    /// Refuses a change after a write whose effect is unknown. Otherwise compacts what a mount left.
    pub(super) fn ready(&mut self) -> Result<(), StoreError> {
        if self.is_interrupted {
            return Err(StoreError::Interrupted);
        }
        if self.beyond.is_empty() { Ok(()) } else { self.settle() }
    }

    pub(super) fn require(&self, node: Lpn, got: usize) -> Result<(), StoreError> {
        let expected = self.store.page_bytes();
        if node.0 >= self.room.nodes {
            return Err(StoreError::OutOfRange(node));
        }
        if got == expected { Ok(()) } else { Err(StoreError::WrongLength { expected, got }) }
    }
}
