//! Nodes in shared sectors: the waiting units, and commits of the whole buffer.

use super::config::CommitPolicy;
use super::sector::{Kind, sector_units};
use super::sectors::{Free, Sectors};
use super::{NodeCodec, NodeLayer, Op};
use alloc::vec::Vec;
use nandex::nand::Cause;
use nandex::sort;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

/// Units of one node that go to one sector of a commit.
struct Piece {
    sector: usize,
    node: u32,
    skip: usize,
    units: usize,
}

impl<S: PageStore, C: NodeCodec> NodeLayer<S, C> {
    /// Writes nodes by their units. If the buffer has no room for the units, all others are committed
    /// first. If they exceed the whole buffer, they are committed at once.
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

    pub(super) fn commit_all(&mut self) -> Result<(), StoreError> {
        if self.units.is_empty() { Ok(()) } else { self.commit_with(&[]) }
    }

    /// Commits all units that wait, together with nodes in disk mode.
    pub(super) fn commit_with(&mut self, whole: &[(Lpn, &[u8])]) -> Result<(), StoreError> {
        let units = self.units.len() as u64;
        if self.config.commit == CommitPolicy::SortedMerged {
            self.commit_merged()?;
        } else {
            self.commit_packed(whole)?;
        }
        self.sectors.counts.commits += 1;
        self.sectors.counts.committed_units += units;
        self.sectors.trim_if_durable()
    }

    /// Commits each set into the sectors that the policy chooses, and each node in disk mode into a sector
    /// of its own.
    fn commit_packed(&mut self, whole: &[(Lpn, &[u8])]) -> Result<(), StoreError> {
        if !self.sectors.beyond.is_empty() {
            // Of the commit before, whose compactions were refused: what follows would be applied before it.
            self.sectors.settle()?;
        }
        let (pieces, sectors) = self.pieces(whole);
        self.sectors.make_room(sectors)?;
        self.sectors.begin(Kind::Mixed)?;
        let written = self.write_pieces(&pieces).and_then(|()| self.sectors.write_in_disk_mode(whole));
        self.sectors.end(written, Cause::Host)?;
        debug_assert_eq!(
            self.sectors.newest.len(),
            sectors + whole.len(),
            "N6: room was made for another commit than this"
        );
        for at in 0..self.units.sets().len() {
            let node = self.units.sets()[at].node;
            if self.units.units_of(node).next().is_some_and(|unit| unit.op == Op::Reset) {
                self.sectors.table.replace(node, [].into_iter());
            }
        }
        whole.iter().for_each(|(node, _)| self.sectors.table.replace(node.0, [].into_iter()));
        self.units.clear();
        self.sectors.list_placed(whole.len())
    }

    /// Plans which units go to which sector, sorted by sector, and counts the sectors. Nodes in `whole` are
    /// left out.
    fn pieces(&self, whole: &[(Lpn, &[u8])]) -> (Vec<Piece>, usize) {
        let full = sector_units(self.sectors.page.len(), self.sectors.codec.body_bytes());
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
        let NodeLayer { sectors: Sectors { writer, store, table, .. }, units, .. } = self;
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

    /// Commits each node that has units, together with all its units in older sectors.
    fn commit_merged(&mut self) -> Result<(), StoreError> {
        self.sectors.begin(Kind::Mixed)?;
        let mut node = core::mem::take(&mut self.sectors.node);
        let written = (0..self.units.sets().len()).try_for_each(|at| {
            let set = self.units.sets()[at];
            self.read_node(Lpn(set.node), Cause::Host, &mut node)?;
            self.sectors.write_whole(set.node, &node, Cause::Host)
        });
        self.sectors.node = node;
        self.sectors.end(written, Cause::Host)?;
        self.units.clear();
        self.sectors.counts.commit_pages += self.sectors.newest.len() as u64;
        let placed = core::mem::take(&mut self.sectors.writer.placed);
        for node in placed.chunk_by(|a, b| a.0 == b.0) {
            self.sectors.table.replace(node[0].0, node.iter().map(|(_, sector)| *sector));
        }
        Ok(())
    }
}
