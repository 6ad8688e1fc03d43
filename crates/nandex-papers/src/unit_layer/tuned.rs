//! Nodes of which each is in log mode or in disk mode (`modes.rs`), both in the sectors of one table.
//!
//! - *write of a node*: in log mode its units join the buffer of one page; in disk mode its sector is written
//!   anew.
//! - *write of several nodes*: units and sectors go to the store as one commit, at once, with all that waits.
//!   So what waits is about single nodes, and a node in disk mode may be written before units of others that
//!   came earlier.
//! - *change to disk mode*: the node is gathered, with its units that wait, into a sector of its own. *To log
//!   mode*: nothing is written, the sector is the first of its list.

use super::modes::{Access, Mode};
use super::sector::Kind;
use super::{NodeCodec, NodeLayer, show_changes};
use alloc::vec::Vec;
use nandex::check::{CheckReport, Invariant, message};
use nandex::nand::Cause;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

impl<S: PageStore, C: NodeCodec> NodeLayer<S, C> {
    /// Writes nodes, each in its mode, and adds up what that cost.
    pub(super) fn write_tuned(&mut self, pages: &[(Lpn, &[u8])]) -> Result<(), StoreError> {
        pages.iter().try_for_each(|(node, _)| self.recall(*node))?;
        let mut changes = Vec::with_capacity(pages.len());
        for write in pages {
            changes.push(show_changes(&self.sectors.codec, &self.images, *write, &mut |_| {})?);
        }
        let before: Vec<Option<Mode>> = pages.iter().map(|(node, _)| self.modes.mode(node.0)).collect();
        for (node, data) in pages {
            let old = self.images.get(*node).and_then(|old| self.sectors.codec.mark(old));
            let new = self.sectors.codec.mark(data);
            if old != new || self.modes.mode(node.0).is_none() {
                // A leaf has mark 1.
                self.modes.set(node.0, if new == Some(1) { Mode::Log } else { Mode::Disk });
            }
        }
        let written = match pages {
            [(node, data)] if self.modes.mode(node.0) == Some(Mode::Disk) => {
                self.put_in_disk_mode(*node, data, Cause::Host)
            }
            [_] => self.write_shared(pages),
            _ if self.modes.is_log_alone() => self.write_shared(pages),
            _ => self.write_group(pages, &changes),
        };
        if written.is_err() {
            for ((node, _), mode) in pages.iter().zip(before) {
                match mode {
                    Some(mode) => self.modes.set(node.0, mode),
                    None => self.modes.forget(node.0),
                }
            }
            return written;
        }
        for ((node, data), units) in pages.iter().zip(changes) {
            self.reckon(*node, Access::Write(units as u64), data)?;
        }
        Ok(())
    }

    /// Writes several nodes at once, all or none.
    fn write_group(&mut self, pages: &[(Lpn, &[u8])], changes: &[usize]) -> Result<(), StoreError> {
        debug_assert_eq!(pages.len(), changes.len(), "a count of units for each node");
        let is_disk = |node: Lpn| self.modes.mode(node.0) == Some(Mode::Disk);
        let whole: Vec<(Lpn, &[u8])> = pages.iter().copied().filter(|(node, _)| is_disk(*node)).collect();
        let logged: Vec<(Lpn, &[u8])> = pages.iter().copied().filter(|(node, _)| !is_disk(*node)).collect();
        let changes: Vec<usize> = pages
            .iter()
            .zip(changes)
            .filter(|((node, _), _)| !is_disk(*node))
            .map(|(_, units)| *units)
            .collect();
        self.reserve(&logged)?;
        let committed = self.commit_with(&whole);
        if committed.is_err() {
            // What waited before goes on waiting.
            for ((node, _), units) in logged.iter().zip(changes) {
                self.units.remove_last(node.0, units);
            }
        }
        committed
    }

    /// Writes a node to a sector of its own. Its waiting units are included, and dropped.
    fn put_in_disk_mode(&mut self, node: Lpn, data: &[u8], cause: Cause) -> Result<(), StoreError> {
        self.sectors.rewrite(node.0, data, Kind::Disk, cause)?;
        self.units.remove(node.0);
        debug_assert!(
            self.sectors.table.list(node.0).len() == 1 && self.units.set(node.0).is_none(),
            "N7: {node} is in {:?}",
            self.sectors.table.list(node.0)
        );
        self.sectors.counts.disk_pages += 1;
        self.sectors.trim_if_durable()
    }

    /// Adds the cost of an access to a node with the contents `data`, and changes its mode if that is due.
    pub(super) fn reckon(&mut self, node: Lpn, access: Access, data: &[u8]) -> Result<(), StoreError> {
        // After a failure, or while sectors wait beyond their list, nothing changes its place.
        if self.sectors.is_interrupted || !self.sectors.beyond.is_empty() {
            return Ok(());
        }
        let list = self.sectors.table.list(node.0).len();
        let Some(mode) = self.modes.charge(node.0, access, list) else { return Ok(()) };
        if mode == Mode::Disk {
            match self.put_in_disk_mode(node, data, Cause::Merge) {
                // Another time.
                Err(error) if error.is_refusal() && !self.sectors.is_interrupted => return Ok(()),
                done => done?,
            }
        }
        self.modes.switch(node.0, mode);
        Ok(())
    }

    pub(super) fn check_modes(&self, report: &mut CheckReport) {
        for node in (0..self.sectors.table.nodes()).filter(|node| self.modes.mode(*node) == Some(Mode::Disk))
        {
            let (list, set) = (self.sectors.table.list(node), self.units.set(node));
            if list.len() > 1 || set.is_some() {
                let found = message!("in disk mode, but in {list:?}, with {set:?}");
                report.violation(Invariant::N7, u64::from(node), found);
            }
        }
        self.modes.check(report);
    }
}
