//! Nodes in shared sectors: commits of the whole buffer, compactions of nodes whose lists grow too long, and
//! room for both.

use super::config::CommitPolicy;
use super::sector::{Head, Kind, Sink, sector_units, units, units_of};
use super::table::NodeTable;
use super::{NodeCodec, NodeLayer, Op, apply, show_whole};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{CheckReport, Invariant, message};
use nandex::nand::Cause;
use nandex::sort;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

/// Units of a node that go to one sector.
struct Piece {
    sector: usize,
    node: u32,
    skip: usize,
    units: usize,
}

/// Where sectors go.
struct Free<'a, S> {
    store: &'a mut S,
    table: &'a mut NodeTable,
    cause: Cause,
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

impl<S: PageStore, C: NodeCodec> NodeLayer<S, C> {
    /// Makes a page of the sectors that have units of a node; whether there are any in its list.
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

    /// Changes wait in the buffer; those for which it has no room wait until all others are committed, and
    /// those for which it has no room at all are committed at once.
    pub(super) fn write_shared(&mut self, pages: &[(Lpn, &[u8])]) -> Result<(), StoreError> {
        let (changes, most) = (self.count_changes(pages)?, self.waiting_max());
        if self.units.len() + changes > most {
            self.commit_all()?;
        }
        let reserved = self.reserve(pages);
        let done = match reserved {
            Ok(()) if changes > most => self.commit_all(),
            reserved => reserved,
        };
        debug_assert!(
            done.is_err() || self.units.len() <= most,
            "N4: {} units wait, there is room for {most}",
            self.units.len()
        );
        if done.is_err() && changes > most {
            self.units.clear();
        }
        done
    }

    /// Commits all units that wait.
    pub(super) fn commit_all(&mut self) -> Result<(), StoreError> {
        if self.units.is_empty() { Ok(()) } else { self.commit_with(&[]) }
    }

    /// Commits all units that wait together with nodes in disk mode.
    pub(super) fn commit_with(&mut self, whole: &[(Lpn, &[u8])]) -> Result<(), StoreError> {
        let units = self.units.len() as u64;
        if self.config.commit == CommitPolicy::SortedMerged {
            self.commit_merged()?;
        } else {
            self.commit_packed(whole)?;
        }
        self.counts.commits += 1;
        self.counts.committed_units += units;
        self.trim_if_durable()
    }

    /// Commits each set into the sectors that the policy gives it, and nodes in disk mode into one each.
    fn commit_packed(&mut self, whole: &[(Lpn, &[u8])]) -> Result<(), StoreError> {
        if !self.beyond.is_empty() {
            // Of the commit before, whose compactions were refused: what follows would be applied before it.
            self.settle()?;
        }
        let (pieces, sectors) = self.pieces(whole);
        self.make_room(sectors)?;
        self.begin(Kind::Mixed)?;
        let written = self.write_pieces(&pieces).and_then(|()| self.write_in_disk_mode(whole));
        self.end(written, Cause::Host)?;
        debug_assert_eq!(
            self.newest.len(),
            sectors + whole.len(),
            "N6: room was made for another commit than this"
        );
        for at in 0..self.units.sets().len() {
            let node = self.units.sets()[at].node;
            if self.units.units_of(node).next().is_some_and(|unit| unit.op == Op::Reset) {
                self.table.replace(node, [].into_iter());
            }
        }
        whole.iter().for_each(|(node, _)| self.table.replace(node.0, [].into_iter()));
        self.units.clear();
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
        committed[..committed.len() - whole.len()].iter().for_each(|sector| self.table.note_mixed(*sector));
        self.counts.commit_pages += committed.len() as u64;
        match self.compact_beyond(beyond) {
            // The commit is done. What is beyond the lists waits there for the next change, as after a mount.
            Err(error) if error.is_refusal() && !self.is_interrupted => Ok(()),
            done => done,
        }
    }

    /// Compacts the nodes to whose lists these sectors, each pinned, are to be added. Those that the store
    /// refuses stay beyond their lists.
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

    /// Which units go to which sector, by sector, but for nodes that are written whole; and how many sectors
    /// there are.
    fn pieces(&self, whole: &[(Lpn, &[u8])]) -> (Vec<Piece>, usize) {
        let full = sector_units(self.page.len(), self.codec.body_bytes());
        let mut sets = self.units.sets().to_vec();
        sets.retain(|set| whole.iter().all(|(node, _)| node.0 != set.node));
        match self.config.commit {
            CommitPolicy::FirstFit => sort::by_key(&mut sets, |set| set.born),
            CommitPolicy::FirstFitDecreasing => {
                sort::by_key(&mut sets, |set| (core::cmp::Reverse(set.units), set.born));
            }
            _ => {}
        }
        let is_stream = self.config.commit == CommitPolicy::Sorted;
        let (mut pieces, mut room): (Vec<Piece>, Vec<usize>) = (Vec::new(), Vec::new());
        for set in sets {
            // A later piece of a set goes to a later sector, or it would be applied first.
            let (mut skip, mut from) = (0, 0);
            while skip < set.units as usize {
                let left = set.units as usize - skip;
                let wanted = if is_stream { 1 } else { left.min(full) };
                let fits = (from..room.len()).find(|&sector| room[sector] >= wanted);
                let sector = fits.unwrap_or(room.len());
                if fits.is_none() {
                    room.push(full);
                }
                let units = left.min(room[sector]);
                room[sector] -= units;
                pieces.push(Piece { sector, node: set.node, skip, units });
                (skip, from) = (skip + units, sector + 1);
            }
        }
        debug_assert!(
            !whole.is_empty() || pieces.iter().map(|piece| piece.units).sum::<usize>() == self.units.len(),
            "N4: {} pieces do not have all {} units",
            pieces.len(),
            self.units.len()
        );
        sort::by_key(&mut pieces, |piece| piece.sector);
        (pieces, room.len())
    }

    fn write_pieces(&mut self, pieces: &[Piece]) -> Result<(), StoreError> {
        let NodeLayer { writer, store, table, units, .. } = self;
        let mut sink = Free { store, table, cause: Cause::Host };
        let mut sector = 0;
        for piece in pieces {
            if piece.sector != sector {
                writer.turn(&mut sink)?;
                sector = piece.sector;
            }
            for unit in units.units_of(piece.node).skip(piece.skip).take(piece.units) {
                writer.push(unit, &mut sink)?;
            }
        }
        Ok(())
    }

    /// Commits each node that has units together with all that older sectors have of it.
    fn commit_merged(&mut self) -> Result<(), StoreError> {
        self.begin(Kind::Mixed)?;
        let mut node = core::mem::take(&mut self.node);
        let written = (0..self.units.sets().len()).try_for_each(|at| {
            let set = self.units.sets()[at];
            self.read_node(Lpn(set.node), Cause::Host, &mut node)?;
            self.write_whole(set.node, &node, Cause::Host)
        });
        self.node = node;
        self.end(written, Cause::Host)?;
        self.units.clear();
        self.counts.commit_pages += self.newest.len() as u64;
        let placed = core::mem::take(&mut self.writer.placed);
        for node in placed.chunk_by(|a, b| a.0 == b.0) {
            self.table.replace(node[0].0, node.iter().map(|(_, sector)| *sector));
        }
        Ok(())
    }

    /// Gathers a node from the sectors of its list into sectors of its own.
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

    /// Writes a node into sectors of its own, as a commit of their own.
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

    fn write_in_disk_mode(&mut self, nodes: &[(Lpn, &[u8])]) -> Result<(), StoreError> {
        nodes.iter().try_for_each(|(node, data)| {
            let NodeLayer { writer, store, table, .. } = self;
            writer.turn_to_disk(&mut Free { store, table, cause: Cause::Host })?;
            self.write_whole(node.0, data, Cause::Host)
        })
    }

    fn write_whole(&mut self, number: u32, node: &[u8], cause: Cause) -> Result<(), StoreError> {
        let NodeLayer { writer, store, table, codec, .. } = self;
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

    fn begin(&mut self, kind: Kind) -> Result<(), StoreError> {
        self.undo_void()?;
        if self.commit == u32::MAX {
            return Err(StoreError::WornOut);
        }
        self.writer.begin(self.commit, self.number, kind);
        Ok(())
    }

    /// Ends a commit, or gives it up with nothing changed.
    fn end(&mut self, written: Result<(), StoreError>, cause: Cause) -> Result<(), StoreError> {
        let lasts_later = self.commits_each && !self.store.durable_writes();
        let NodeLayer { writer, store, table, .. } = self;
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

    /// Makes room for so many mixed sectors: compacts all nodes of the oldest ones.
    fn make_room(&mut self, sectors: usize) -> Result<(), StoreError> {
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

    /// The nodes that have units in a sector.
    fn nodes_of(&mut self, sector: Lpn) -> Result<Vec<u32>, StoreError> {
        let head = self.read_sector(sector, Cause::Merge)?;
        let mut nodes: Vec<u32> =
            units(&self.page, head.units, self.codec.body_bytes()).map(|unit| unit.node).collect();
        sort::total(&mut nodes);
        nodes.dedup();
        Ok(nodes)
    }

    /// Reads a sector that must be one.
    pub(super) fn read_sector(&mut self, sector: Lpn, cause: Cause) -> Result<Head, StoreError> {
        self.store.read(sector, cause, &mut self.page)?;
        let blank = StoreError::Corrupted { what: "N1: a sector is gone", at: u64::from(sector.0) };
        Head::read(&self.page, sector, self.codec.body_bytes())?.ok_or(blank)
    }

    /// Applies the units of a node that a sector has.
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

    /// Where writes are durable at once a sector that is free is trimmed at once; elsewhere the next sync
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

    /// Drops the sectors of a commit that was given up, which are dead: they must be gone before its number
    /// is used again.
    pub(super) fn undo_void(&mut self) -> Result<(), StoreError> {
        if self.is_void_left {
            self.trim_all_dead()?;
            self.store.sync()?;
            self.is_void_left = false;
        }
        Ok(())
    }

    /// Trims all dead sectors, and tells whether one could not be.
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

    /// N1, N2, N3, N5 and N6.
    pub(super) fn check_shared(&mut self, report: &mut CheckReport) -> Result<(), StoreError> {
        let scan = match self.scan(Cause::Check) {
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

    /// N2: the units of each list ascend in number, and only the first is a reset.
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
}
