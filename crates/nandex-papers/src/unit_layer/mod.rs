//! Node layers: between a tree whose nodes are pages and a store, with units of change in RAM instead of page
//! writes.
//!
//! An insertion changes a few bytes of a leaf, but a store writes whole pages. A node layer writes the few
//! bytes, gathered with those of other nodes. An example with shared sectors, the layer's first way to keep
//! nodes; leaves 7 and 9 lie in page 12 of the store:
//!
//! ```text
//!  the tree writes             waits in RAM           the store                   table of nodes
//!                                                     page 12: units of 7, 9      7: 12      9: 12
//!  leaf 7, with key 40 new     7: put 40
//!  leaf 9, with key 91 new     7: put 40, 9: put 91
//!  a commit                    nothing                page 13: 7 put 40, 9 put 91 7: 12, 13  9: 12, 13
//! ```
//!
//! Two page writes of the tree became one write of the store, and could have been a hundred: a page has room
//! for many units. The price is paid by reads: leaf 7 is what pages 12 and 13 say of it, the older first. So
//! a node's list of pages has a largest length C, beyond which the node is gathered into a page of its own.
//!
//! The tree above does not know: a [`NodeLayer`] is a [`PageStore`] whose pages are nodes. The layer compares
//! the page that the tree writes with the one that the tree read, and the difference is a few *units*
//! (`unit.rs`), each a change to one entry of one node. Units wait in the *reservation buffer* (`buffer.rs`)
//! and reach the store in commits. A read gives the node as the store has it, with the units that wait. Only
//! the tree's [`NodeCodec`] knows what a unit says of an entry, so ordered and spatial trees use the same
//! layers.
//!
//! # Three ways to keep nodes
//!
//! - *Shared sectors* (`shared.rs`): the store's pages are sectors full of units, written once each; the
//!   *node translation table* (`table.rs`) lists the sectors of each node. A commit takes the whole buffer.
//!   It is atomic on every store: its sectors carry its number, and at mount the newest commit counts only if
//!   it is whole (`scan.rs`). So the layer keeps groups of any size whole, and a power cut leaves a prefix of
//!   what was written.
//! - *In place* (`in_place.rs`): a node has a page of its own, and a commit applies the units of one node to
//!   it. Groups of several nodes, such as a split, go to the store at once as one atomic group of pages.
//! - *Self-tuning* (`tuned.rs`): each node in the way that its accesses make cheaper, among others in shared
//!   sectors or alone in a sector of its own. Commits are as in shared sectors, but a node alone is written
//!   when it changes, before older units that wait.
//!
//! [`NodeLayer`] owns what waits in RAM, and decides; `Sectors` (`sectors.rs`) owns the store and the table
//! of nodes: it gathers nodes, writes commits and compacts lists.
//!
//! # Pages of the store
//!
//! Page 0 tells how the layer was formatted (`header.rs`), page 1 is page 0 of the tree, which is no node.
//! Then in place node n is page n + 1; else sectors follow.
//!
//! # Nodes given up
//!
//! The tree gives up a node once what is durable does without it; its number may be given to another node
//! later. The danger is that a mount takes remains of the old node for the new one, and there are remains:
//! the old node's sectors are trimmed, but a power cut may undo each trim, and sectors shared with other
//! nodes stay. So a mount finds any part of what the node ever was. Two rules avert the danger:
//!
//! - Sectors that the list of a node in use names are never trimmed, and the node's newest reset is newer
//!   than all that remains of older nodes of its number. So remains are never mistaken for a node in use.
//! - The remains need not fit each other, so a mount applies no unit of a node that the tree does not read:
//!   lists that a cut left too long wait until the tree has told which nodes it uses ([`NodeLayer::retain`]),
//!   or begins to write.
//!
//! # Invariants
//!
//! - N1 A sector carries a right checksum, and each sector that a node's list names has units of the node.
//! - N2 No list is longer than C, and the units along a list ascend in number; the first resets the node, no
//!   other does.
//! - N3 As many lists name a sector as the table counts, the newest commit's being named once more, and those
//!   that wait for a place in a list once for each; all others are free.
//! - N4 The buffer's chains, sets and counts fit each other, and there are no more units than it was made
//!   for; if it eliminates, no two wait for one entry of a node.
//! - N5 What a scan of the medium finds is what the table says.
//! - N6 There are never more mixed sectors than there is room for, so a commit always finds free sectors.
//! - N7 (Self-tuning) A node in disk mode has one sector, and no unit waits for it.
//! - N8 (Self-tuning) Nodes have cost more in their modes than all changes of mode were worth.

mod as_store;
mod buffer;
mod codec;
mod config;
mod header;
mod images;
mod in_place;
mod modes;
mod scan;
mod sector;
mod sectors;
mod shared;
mod table;
#[cfg(test)]
mod tests;
mod tuned;
mod unit;

pub use buffer::{ReservationBuffer, UnitSet};
pub use codec::{BODY_BYTES_MAX, Identity, NodeCodec};
pub use config::{CommitPolicy, LayerConfig, Placement};
pub use modes::{ModeCounts, Modes, Tuning};
pub use unit::{Op, Unit};

use codec::{apply, show_changes, show_whole};
use config::{Room, SECTORS_FROM};
use images::Images;
use modes::ModeTable;
use nandex::check::IndexError;
use nandex::nand::Cause;
use nandex::store::batches::Batch;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;
use sectors::Sectors;
use table::NodeTable;

/// Bits of a commit's number.
const COMMIT_BITS: u32 = 32;

/// Counters of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerCounts {
    /// Commits made.
    pub commits: u64,
    /// Units written by commits.
    pub committed_units: u64,
    /// Pages written by commits.
    pub commit_pages: u64,
    /// Nodes gathered from the sectors of their list into sectors of their own.
    pub compactions: u64,
    /// Compactions that made room for mixed sectors.
    pub reclaims: u64,
    /// Pages written by compactions.
    pub compaction_pages: u64,
    /// Nodes written without waiting in the buffer.
    pub direct_nodes: u64,
    /// Sectors written for one node in disk mode alone.
    pub disk_pages: u64,
}

/// A store of nodes above a store of pages (see the module).
pub struct NodeLayer<S, C> {
    sectors: Sectors<S, C>,
    config: LayerConfig,
    units: ReservationBuffer,
    images: Images,
    modes: ModeTable,
    batch: Batch,
}

impl<S: PageStore, C: NodeCodec> NodeLayer<S, C> {
    /// Makes a layer without nodes. Everything that the store held is dropped.
    pub fn format(mut store: S, codec: C, config: LayerConfig) -> Result<Self, IndexError> {
        let room = config.room(&codec, store.page_bytes(), store.page_count())?;
        store.trim(Lpn(0))?;
        store.sync()?;
        for page in (1..store.page_count()).map(Lpn) {
            store.trim(page)?;
        }
        store.sync()?;
        let mut layer = NodeLayer::empty(store, codec, config, room);
        layer.make_buffers();
        layer.sectors.write_header(&layer.config)?;
        layer.sectors.store.sync()?;
        Ok(layer)
    }

    /// Opens the layer that a store holds. Units that waited in RAM are lost.
    pub fn mount(mut store: S, codec: C, config: LayerConfig) -> Result<Self, IndexError> {
        let room = header::read(&mut store, &codec, &config)?;
        let mut layer = NodeLayer::empty(store, codec, config, room);
        if config.commit.placement().has_sectors() {
            layer.adopt_scan()?;
        }
        layer.make_buffers();
        Ok(layer)
    }

    /// Makes the buffer and the images. This comes after the scan of a mount, which uses their RAM.
    fn make_buffers(&mut self) {
        let (body_bytes, identity) = (self.sectors.codec.body_bytes(), self.sectors.codec.identity());
        let config = &self.config;
        self.units = ReservationBuffer::new(config.units(), body_bytes, identity, config.eliminates);
        self.images = Images::new(config.group_pages, self.sectors.store.page_bytes());
    }

    fn empty(store: S, codec: C, config: LayerConfig, room: Room) -> Self {
        let (page_bytes, body_bytes) = (store.page_bytes(), codec.body_bytes());
        NodeLayer {
            units: ReservationBuffer::new(0, body_bytes, codec.identity(), config.eliminates),
            images: Images::new(0, page_bytes),
            modes: ModeTable::new(
                config.tuning,
                config.page_units(page_bytes, body_bytes),
                if config.commit.placement().has_modes() { room.nodes as usize } else { 0 },
            ),
            batch: Batch::new(),
            sectors: Sectors::new(store, codec, empty_table(&config, room), room),
            config,
        }
    }

    /// The store below the layer.
    pub fn store(&self) -> &S {
        &self.sectors.store
    }

    /// The store below, to change its behaviour in a test.
    #[cfg(test)]
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.sectors.store
    }

    /// Takes the layer apart and returns the store. Units that wait are lost.
    pub fn into_store(self) -> S {
        self.sectors.store
    }

    /// Sets whether each write is committed before it returns, so that a refused write has not happened.
    /// For layers in shared sectors without modes.
    pub(crate) fn set_commits_each(&mut self, commits_each: bool) {
        let placement = self.placement();
        debug_assert!(placement == Placement::SharedSectors, "{placement:?} does not commit each write");
        self.sectors.commits_each = commits_each;
    }

    /// Largest number of units that may wait now.
    fn waiting_max(&self) -> usize {
        if self.sectors.commits_each { 0 } else { self.config.units() }
    }

    /// Number of units that wait.
    pub fn waiting_units(&self) -> usize {
        self.units.len()
    }

    /// Bytes of RAM that the buffer of units holds.
    pub fn buffer_ram_bytes(&self) -> usize {
        self.units.ram_bytes()
    }

    /// Units saved because they met another for the same entry.
    pub fn eliminated_units(&self) -> u64 {
        self.units.eliminated()
    }

    /// Counters of the layer.
    pub fn counts(&self) -> LayerCounts {
        self.sectors.counts
    }

    /// The place of a node's units in the store.
    pub fn placement(&self) -> Placement {
        self.config.commit.placement()
    }

    /// Counters of the choice of modes.
    pub fn mode_counts(&self) -> ModeCounts {
        self.modes.counts()
    }

    /// Number of sectors in use, and how many of them are mixed.
    pub fn sectors_in_use(&self) -> (usize, usize) {
        (self.sectors.table.sectors() - self.sectors.table.free_sectors(), self.sectors.table.mixed().len())
    }

    /// Sum of the lengths of all nodes' lists.
    pub fn node_parts(&self) -> u64 {
        self.sectors.table.parts()
    }

    /// Number of sectors that must be read for a node.
    pub fn list_length(&self, node: Lpn) -> usize {
        if self.placement().has_sectors() { self.sectors.table.list(node.0).len() } else { 1 }
    }

    /// Drops the nodes that are not in use, since a mount may find remains of nodes given up earlier. Must
    /// be called before the first write.
    pub fn retain(&mut self, is_used: impl Fn(Lpn) -> bool) -> Result<(), StoreError> {
        debug_assert!(self.units.is_empty(), "nodes are dropped while {} units wait", self.units.len());
        for node in 0..self.sectors.table.nodes() {
            if !self.sectors.table.list(node).is_empty() && !is_used(Lpn(node)) {
                self.sectors.table.replace(node, [].into_iter());
                self.modes.forget(node);
            }
        }
        let (used, unused) =
            core::mem::take(&mut self.sectors.beyond).into_iter().partition(|(node, _)| is_used(Lpn(*node)));
        self.sectors.beyond = used;
        unused.into_iter().for_each(|(_, sector): (u32, Lpn)| self.sectors.table.unpin(sector));
        match self.sectors.settle() {
            // They are read as they are, and settled before the first change.
            Err(error) if error.is_refusal() => Ok(()),
            done => done,
        }
    }

    /// The page of the store for page 0 of the tree, or for a node that is kept in place.
    pub fn home(node: Lpn) -> Lpn {
        Lpn(node.0 + 1)
    }

    /// Makes the page of a node from the store and the units that wait for it.
    fn read_node(&mut self, node: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        let is_gathered = match self.placement() {
            Placement::OwnPages => {
                self.sectors.store.read(Self::home(node), cause, data)?;
                false
            }
            Placement::SharedSectors | Placement::ByMode => self.sectors.gather(node, cause, data)?,
        };
        if self.apply_waiting(node, data)? || is_gathered {
            self.sectors.codec.seal(data);
        }
        Ok(())
    }

    /// Applies the units that wait for a node. Returns whether there are any.
    fn apply_waiting(&self, node: Lpn, data: &mut [u8]) -> Result<bool, StoreError> {
        self.units.units_of(node.0).try_for_each(|unit| apply(&self.sectors.codec, data, unit))?;
        Ok(self.units.set(node.0).is_some())
    }

    /// Makes sure that the node's old image is remembered, because the tree is about to change it.
    fn recall(&mut self, node: Lpn) -> Result<(), StoreError> {
        if self.images.touch(node) {
            return Ok(());
        }
        let mut page = core::mem::take(&mut self.sectors.node);
        let read = self.read_node(node, Cause::Host, &mut page);
        if read.is_ok() {
            self.images.remember(node, &page);
        }
        self.sectors.node = page;
        read
    }

    /// Number of units that a write of these nodes makes.
    fn count_changes(&mut self, pages: &[(Lpn, &[u8])]) -> Result<usize, StoreError> {
        pages.iter().try_for_each(|(node, _)| self.recall(*node))?;
        let each =
            pages.iter().map(|write| show_changes(&self.sectors.codec, &self.images, *write, &mut |_| {}));
        each.sum()
    }

    /// Puts the units of the nodes' changes into the buffer.
    fn reserve(&mut self, pages: &[(Lpn, &[u8])]) -> Result<(), StoreError> {
        let NodeLayer { sectors: Sectors { codec, .. }, images, units, .. } = self;
        for write in pages {
            show_changes(codec, images, *write, &mut |unit| units.push(unit))?;
        }
        self.sectors.store.updates_heard(self.units.arrived());
        Ok(())
    }
}

fn empty_table(config: &LayerConfig, room: Room) -> NodeTable {
    let length = usize::from(config.list_length());
    let nodes = if config.commit.placement().has_sectors() { room.nodes as usize } else { 0 };
    let (sectors, mixed_max) = (room.sectors as usize, room.mixed_max as usize);
    NodeTable::new((length, nodes), Lpn(SECTORS_FROM), sectors, mixed_max)
}
