//! Nodes that are pages of a store: the plain implementation of [`Nodes`], on any [`PageStore`].
//!
//! Page 0 is the superblock, page 1 the root, and every other page in use is a node. A node keeps its page
//! for life. An operation holds the nodes that it reads in RAM, and changes them there. Its commit writes the
//! changed nodes: one by [`PageStore::write`], several by [`PageStore::write_atomic`]. So a full store
//! changes nothing, and a power cut leaves the tree as before or as after the operation. The mount finds the
//! free pages by reading the nodes above the leaves.
//!
//! # Durability
//!
//! On a store that takes [`NodeFormat::group_nodes_max`] pages atomically the class is *every operation* if
//! writes are durable, and *every sync* if the writes that survive are a prefix. On any other store it is
//! *none*: the clean mark of the superblock is cleared before the first change and set by a sync. Without the
//! mark a mount returns [`IndexError::NotCleanlyClosed`].
//!
//! # Invariants
//!
//! - S1 A page that is a node has a right checksum, its own number and the mark of a node.
//! - S2 Rectangles are finite and not reversed, and children are pages of the store.
//! - S3 The box of a child entry is the union of the child's entries.
//! - S4 A node has at most as many entries as its capacity, and at least its least fill. A root with children
//!   has at least two.
//! - S5 In a balanced tree a child is one level below its parent; leaves have level 1.
//! - S6 Every page has at most one parent. The pages in use are the superblock and the pages reached from the
//!   root.
//! - S7 The superblock describes the layout of the tree, under a right checksum.
//! - S8 In the class *none* the mark on the medium is not clean while changes are not synced.

use super::coordinate::Coordinate;
use super::node::{Change, Entry, Node, NodeFormat, NodeId, ROOT};
use super::nodes::{Nodes, check_pages};
use super::superblock::{put_superblock, superblock_of};
use super::tree::{Rules, SpatialConfig};
use crate::check::{CheckReport, IndexError, Invariant, Limit, words};
use crate::index::{Durability, IndexStats, Metric};
use crate::nand::{Cause, Differs};
use crate::store::space::Space;
use crate::store::{PageStore, StoreError, write_batch};
use crate::units::Lpn;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

const SUPERBLOCK: Lpn = Lpn(0);

/// Number of nodes whose memory is kept for the next operation.
const SPARE_MAX: usize = 4;

struct Held<C, const D: usize> {
    node: Node<C, D>,
    is_changed: bool,
}

/// Nodes that are pages of a store.
pub struct PagedNodes<S, C, const D: usize> {
    store: S,
    format: NodeFormat,
    durability: Durability,
    space: Space,
    /// Nodes that the open operation read or changed.
    held: BTreeMap<NodeId, Held<C, D>>,
    /// Nodes that are not held; their memory is used again.
    spare: Vec<Node<C, D>>,
    /// Node read last outside an operation.
    scratch: Node<C, D>,
    /// Links found at mount, until [`Nodes::take_links`].
    links: Vec<(NodeId, NodeId)>,
    /// Buffer for the pages that a commit writes.
    pages: Vec<u8>,
    taken: Vec<NodeId>,
    freed: Vec<NodeId>,
    is_in_operation: bool,
    /// Most nodes that an operation holds if it is not narrow.
    held_max: usize,
    /// True if the superblock on the medium may be marked clean. The mark is cleared before a change.
    is_clean: bool,
    /// True if the superblock written last is marked clean. If false, a sync writes another.
    is_marked: bool,
    /// True after a write with unknown effect. Every call then fails until the next mount.
    is_interrupted: bool,
}

impl<S: PageStore, C: Coordinate, const D: usize> PagedNodes<S, C, D> {
    /// Makes an empty root on a store; whatever it held is dropped.
    pub fn format(
        mut store: S,
        format: NodeFormat,
        durability: Durability,
    ) -> Result<PagedNodes<S, C, D>, IndexError> {
        format.require_sane::<C, D>()?;
        let group_pages = format.group_nodes_max();
        durability.require(Durability::on(&store, group_pages), "a spatial index", &store, group_pages)?;
        // The old superblock is removed first, so that no power cut leaves it above pages that are gone.
        store.trim(SUPERBLOCK)?;
        store.sync()?;
        for lpn in (ROOT.0..format.page_count).map(Lpn) {
            store.trim(lpn)?;
        }
        let mut nodes = PagedNodes::empty(store, format, true);
        nodes.durability = durability.promised(nodes.durability);
        nodes.write_page(ROOT, &Node::new(1), Cause::Checkpoint)?;
        nodes.store.sync()?;
        nodes.write_superblock(true)?;
        nodes.store.sync()?;
        Ok(nodes)
    }

    /// Mounts the nodes of whatever format the store has.
    pub fn mount_found(mut store: S) -> Result<PagedNodes<S, C, D>, IndexError> {
        let mut page = vec![0; store.page_bytes()];
        store.read(SUPERBLOCK, Cause::Recovery, &mut page)?;
        if page.iter().all(|&byte| byte == 0) {
            let what = words("page 0 is no superblock of a spatial index");
            return Err(IndexError::NotFormatted(crate::store::unfit(&mut store, what)?));
        }
        let (format, is_clean) = superblock_of::<C, D>(&page, store.page_count())?;
        if format.layer != 0 {
            return Err(IndexError::other(
                Differs::Settings,
                words("the tree lies below a layer that has the newest of it"),
            ));
        }
        if !is_clean {
            return Err(IndexError::NotCleanlyClosed);
        }
        let mut nodes = PagedNodes::empty(store, format, true);
        nodes.claim_all()?;
        Ok(nodes)
    }

    /// Opens the tree that a store holds, and refuses one formatted otherwise or giving less durability.
    pub fn mount<R: Rules<C, D>>(
        store: S,
        tree: &SpatialConfig<R>,
    ) -> Result<PagedNodes<S, C, D>, IndexError> {
        let mut nodes = PagedNodes::mount_found(store)?;
        tree.require_format(&nodes.format, nodes.format.page_bytes as usize)?;
        if nodes.durability < tree.durability {
            return Err(IndexError::Unsupported(
                words("the tree gives less durability on this store than is wanted").into(),
            ));
        }
        nodes.durability = tree.durability.promised(nodes.durability);
        Ok(nodes)
    }

    fn empty(store: S, format: NodeFormat, is_clean: bool) -> PagedNodes<S, C, D> {
        let mut space = Space::new(format.page_count, !store.durable_writes());
        space.claim(SUPERBLOCK);
        space.claim(Lpn(ROOT.0));
        PagedNodes {
            durability: Durability::on(&store, format.group_nodes_max()),
            pages: vec![0; store.page_bytes()],
            store,
            scratch: Node::with_room(format.entries_max()),
            format,
            space,
            held: BTreeMap::new(),
            spare: Vec::new(),
            links: Vec::new(),
            taken: Vec::new(),
            freed: Vec::new(),
            is_in_operation: false,
            held_max: usize::MAX,
            is_clean,
            is_marked: is_clean,
            is_interrupted: false,
        }
    }

    /// Limits operations to few nodes in RAM, for which [`PagedNodes::ram_bytes_min`] is enough. An operation
    /// that would hold more returns [`IndexError::Full`]. The tree then repeats it in the narrow way, which
    /// always fits.
    #[must_use]
    pub fn narrowed(mut self) -> Self {
        self.held_max = self.format.held_nodes_max();
        self
    }

    /// Limits the RAM to `ram_bytes`, besides that of the store: [narrowed](PagedNodes::narrowed) to as many
    /// nodes as fit.
    pub fn with_ram(mut self, ram_bytes: usize) -> Result<Self, IndexError> {
        let least = PagedNodes::<S, C, D>::ram_bytes_min(self.store.durable_writes(), &self.format);
        if ram_bytes < least {
            return Err(IndexError::TooLittleRam {
                what: "the nodes of an operation",
                given: ram_bytes,
                needed: least,
            });
        }
        let spared = ram_bytes - least;
        self.held_max =
            self.format.held_nodes_max() + spared / PagedNodes::<S, C, D>::held_bytes(&self.format);
        Ok(self)
    }

    /// Bytes of RAM that are enough for every operation, besides those of the store. `durable_writes` is that
    /// of the store.
    pub fn ram_bytes_min(durable_writes: bool, format: &NodeFormat) -> usize {
        // Two nodes exist besides those held: the one read last, and one that is built anew.
        let nodes = format.held_nodes_max().max(SPARE_MAX) + 2;
        Space::ram_bytes(format.page_count, !durable_writes)
            + nodes * PagedNodes::<S, C, D>::held_bytes(format)
    }

    /// Bytes of RAM of a node in an operation, and of its page when it is written.
    fn held_bytes(format: &NodeFormat) -> usize {
        format.page_bytes as usize + size_of::<Held<C, D>>() + format.entries_max() * size_of::<Entry<C, D>>()
    }

    /// The store below.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Calls `act` with the store below and a function that tells if a page is in use.
    #[doc(hidden)]
    pub fn with_store<T>(&mut self, act: impl FnOnce(&mut S, &dyn Fn(Lpn) -> bool) -> T) -> T {
        let (space, page_count) = (&self.space, self.format.page_count);
        act(&mut self.store, &|lpn| lpn.0 < page_count && space.is_used(lpn))
    }

    /// Returns the store. Changes that were not synced are as after a power cut.
    pub fn into_store(self) -> S {
        self.store
    }

    /// Marks every page below the root as in use. Leaves are not read, unless they have links.
    fn claim_all(&mut self) -> Result<(), IndexError> {
        let mut open = vec![(ROOT, None)];
        while let Some((id, above)) = open.pop() {
            let is_balanced = self.format.is_balanced;
            let node = self.read(id, Cause::Recovery)?;
            if above.is_some_and(|above| node.level >= above || (is_balanced && node.level + 1 != above)) {
                let what = "the node has another level than its parent says";
                return Err(IndexError::broken(Invariant::S5, what, u64::from(id.0)));
            }
            let (level, link) = (node.level, node.link);
            let mut next: Vec<NodeId> = node.entries.iter().filter_map(|e| e.child_id()).collect();
            let children = next.len();
            next.extend(link);
            for (i, id) in next.into_iter().enumerate() {
                if !self.space.claim(Lpn(id.0)) {
                    let what = "the page has two parents";
                    return Err(IndexError::broken(Invariant::S6, what, u64::from(id.0)));
                }
                if i == children {
                    open.push((id, Some(level + 1)));
                } else if level > 2 || self.format.link_bytes > 0 {
                    open.push((id, Some(level)));
                }
            }
            self.links.extend(link.map(|link| (id, link)));
        }
        Ok(())
    }

    fn ready(&self) -> Result<(), IndexError> {
        if self.is_interrupted { Err(IndexError::Interrupted) } else { Ok(()) }
    }

    fn write_superblock(&mut self, is_clean: bool) -> Result<(), IndexError> {
        let page = &mut self.pages[..self.format.page_bytes as usize];
        put_superblock(&self.format, is_clean, page);
        Ok(self.store.write(SUPERBLOCK, Cause::Checkpoint, page)?)
    }

    fn write_page(&mut self, id: NodeId, node: &Node<C, D>, cause: Cause) -> Result<(), StoreError> {
        let page = &mut self.pages[..self.format.page_bytes as usize];
        self.format.encode(id, node, page);
        self.store.write(Lpn(id.0), cause, page)
    }

    /// In the class *none*, clears the mark on the medium before the first change after a sync.
    fn unmark_clean(&mut self) -> Result<(), IndexError> {
        if self.durability != Durability::None || !self.is_clean {
            return Ok(());
        }
        self.write_superblock(false)?;
        self.is_marked = false;
        self.store.sync()?;
        self.is_clean = false;
        Ok(())
    }

    /// Writes all changed nodes: atomically if the store can, else new pages first and the root last.
    fn write_group(&mut self) -> Result<(), IndexError> {
        let page_bytes = self.format.page_bytes as usize;
        let changed: Vec<NodeId> =
            self.held.iter().rev().filter(|(_, held)| held.is_changed).map(|(id, _)| *id).collect();
        if self.pages.len() < changed.len() * page_bytes {
            self.pages.resize(changed.len() * page_bytes, 0);
        }
        for (id, page) in changed.iter().zip(self.pages.chunks_mut(page_bytes)) {
            self.format.encode(*id, &self.held[id].node, page);
        }
        let group: Vec<(Lpn, &[u8])> =
            changed.iter().map(|id| Lpn(id.0)).zip(self.pages.chunks(page_bytes)).collect();
        let written = write_batch(&mut self.store, &group);
        self.is_interrupted |= written.as_ref().is_err_and(|error| !error.is_refusal());
        written
    }

    fn release(&mut self, id: NodeId) -> Result<(), IndexError> {
        if self.space.release_written(Lpn(id.0)) { self.trim(Lpn(id.0)) } else { Ok(()) }
    }

    /// Trims a page that no node uses. A store without room to note the trim is no error: it only keeps the
    /// page longer.
    fn trim(&mut self, lpn: Lpn) -> Result<(), IndexError> {
        match self.store.trim(lpn) {
            Err(error) if error.is_refusal() => Ok(()),
            done => Ok(done?),
        }
    }

    /// Keeps the memory of a node for the next ones.
    fn put_aside(&mut self, held: Option<Held<C, D>>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.extend(held.map(|held| held.node));
        }
    }

    fn end_operation(&mut self) {
        while let Some((_, held)) = self.held.pop_first() {
            self.put_aside(Some(held));
        }
        self.spare.truncate(SPARE_MAX);
        self.taken.clear();
        self.freed.clear();
        self.is_in_operation = false;
    }

    fn fetch(&mut self, id: NodeId, cause: Cause, node: &mut Node<C, D>) -> Result<(), IndexError> {
        if id.0 == SUPERBLOCK.0 || id.0 >= self.format.page_count {
            return Err(IndexError::broken(Invariant::S2, "no such node", u64::from(id.0)));
        }
        let page = &mut self.pages[..self.format.page_bytes as usize];
        self.store.read(Lpn(id.0), cause, page)?;
        self.format.decode(id, page, node)
    }

    /// Compares the superblock on the medium with the state in RAM.
    fn check_superblock(&mut self, report: &mut CheckReport) -> Result<(), IndexError> {
        let page = &mut self.pages[..self.format.page_bytes as usize];
        self.store.read(SUPERBLOCK, Cause::Check, page)?;
        match superblock_of::<C, D>(page, self.format.page_count) {
            Ok((format, _)) if format != self.format => {
                report.violation(Invariant::S7, 0, "the superblock tells another layout".to_string());
            }
            Ok((_, true)) if self.durability == Durability::None && !self.is_clean => {
                report.violation(Invariant::S8, 0, "marked clean amid changes".to_string());
            }
            Ok(_) => {}
            Err(error) => report.violation(Invariant::S7, 0, error.to_string()),
        }
        Ok(())
    }
}

impl<S: PageStore, C: Coordinate, const D: usize> Nodes<C, D> for PagedNodes<S, C, D> {
    fn format(&self) -> &NodeFormat {
        &self.format
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn begin(&mut self) -> Result<(), IndexError> {
        self.ready()?;
        assert!(!self.is_in_operation, "an operation within another");
        self.is_in_operation = true;
        Ok(())
    }

    fn read(&mut self, id: NodeId, cause: Cause) -> Result<&Node<C, D>, IndexError> {
        self.ready()?;
        if !self.is_in_operation {
            let mut node = core::mem::replace(&mut self.scratch, Node::new(1));
            let fetched = self.fetch(id, cause, &mut node);
            self.scratch = node;
            return fetched.map(|()| &self.scratch);
        }
        if !self.held.contains_key(&id) {
            if self.held.len() >= self.held_max {
                return Err(IndexError::Full(Limit::Ram));
            }
            let room = self.format.entries_max();
            let mut node = self.spare.pop().unwrap_or_else(|| Node::with_room(room));
            self.fetch(id, cause, &mut node)?;
            self.held.insert(id, Held { node, is_changed: false });
        }
        Ok(&self.held[&id].node)
    }

    fn forget(&mut self, id: NodeId) {
        if self.held.get(&id).is_some_and(|held| !held.is_changed) {
            let held = self.held.remove(&id);
            self.put_aside(held);
        }
    }

    fn allocate(&mut self) -> Result<NodeId, IndexError> {
        assert!(self.is_in_operation, "a node allocated outside an operation");
        let id = NodeId(self.space.allocate().ok_or(IndexError::NO_BLOCK)?.0);
        self.taken.push(id);
        Ok(id)
    }

    fn change(&mut self, id: NodeId, change: Change<C, D>) -> Result<(), IndexError> {
        assert!(self.is_in_operation, "{id} changed outside an operation");
        if let Change::Whole(mut node) = change {
            node.set_room(self.format.entries_max());
            let before = self.held.insert(id, Held { node, is_changed: true });
            self.put_aside(before);
            return Ok(());
        }
        let held = self.held.get_mut(&id);
        assert!(held.is_some(), "{id} changed without having been read");
        let Some(held) = held else { return Ok(()) };
        let applied = held.node.apply(&change);
        assert!(applied.is_ok(), "{id}: {applied:?}");
        held.is_changed = true;
        Ok(())
    }

    fn free(&mut self, id: NodeId) {
        assert!(self.is_in_operation && id != ROOT, "{id} freed outside an operation");
        let held = self.held.remove(&id);
        self.put_aside(held);
        self.freed.push(id);
    }

    fn fits_group(&self) -> bool {
        let changed = self.held.values().filter(|held| held.is_changed).count();
        Durability::on(&self.store, self.format.group_nodes_max()) == Durability::None
            || changed <= self.store.atomic_pages_max()
    }

    fn commit(&mut self) -> Result<(), IndexError> {
        assert!(self.is_in_operation, "nothing to commit");
        let is_changed = self.held.values().any(|held| held.is_changed);
        let written = if is_changed { self.unmark_clean().and_then(|()| self.write_group()) } else { Ok(()) };
        if written.is_err() {
            self.rollback();
            return written;
        }
        let freed = core::mem::take(&mut self.freed);
        let released = freed.iter().try_for_each(|&id| self.release(id));
        self.freed = freed;
        self.end_operation();
        released
    }

    fn rollback(&mut self) {
        self.taken.iter().for_each(|id| self.space.release(Lpn(id.0)));
        self.end_operation();
    }

    fn take_links(&mut self) -> Vec<(NodeId, NodeId)> {
        core::mem::take(&mut self.links)
    }

    fn load(&mut self, node: &Node<C, D>) -> Result<NodeId, IndexError> {
        self.ready()?;
        self.unmark_clean()?;
        let lpn = self.space.allocate().ok_or(IndexError::NO_BLOCK)?;
        self.write_page(NodeId(lpn.0), node, Cause::Host)?;
        Ok(NodeId(lpn.0))
    }

    fn end_load(&mut self, root: Option<&Node<C, D>>) -> Result<(), IndexError> {
        self.ready()?;
        let Some(root) = root else {
            for id in (ROOT.0 + 1..self.format.page_count).map(NodeId) {
                if self.space.is_used(Lpn(id.0)) {
                    self.release(id)?;
                }
            }
            return Ok(());
        };
        self.unmark_clean()?;
        let written = self.write_page(ROOT, root, Cause::Host);
        self.is_interrupted = written.as_ref().is_err_and(|error| !error.is_refusal());
        Ok(written?)
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.ready()?;
        self.store.sync()?;
        let mut start = SUPERBLOCK;
        while let Some(lpn) = self.space.next_untrimmed(start) {
            self.trim(lpn)?;
            start = lpn;
        }
        if self.is_clean && self.is_marked {
            return Ok(());
        }
        // If the write of the mark fails, the state of the medium is unknown, so no change may follow. A
        // refusal is different: a refused mark is not on the medium. A mark that was written must be cleared
        // before the next change, even if the sync after it fails.
        let written = self.write_superblock(true);
        (self.is_clean, self.is_marked) = (self.is_clean | written.is_ok(), written.is_ok());
        let marked = written.and_then(|()| Ok(self.store.sync()?));
        self.is_interrupted = marked.as_ref().is_err_and(|error| !error.is_refusal());
        marked
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.sync()?;
        Ok(self.store.checkpoint()?)
    }

    fn check(&mut self, reached: &BTreeSet<NodeId>, report: &mut CheckReport) -> Result<(), IndexError> {
        self.check_superblock(report)?;
        check_pages(&self.space, reached, report);
        Ok(())
    }

    fn stats(&self) -> IndexStats {
        let store = self.store.stats();
        let metric = |name, value| Metric { name, value };
        IndexStats {
            height: 0,
            live_pages: u64::from(self.space.used_pages()),
            cache_hits: store.cache_hits,
            cache_misses: store.cache_misses,
            collections: store.collections,
            metrics: vec![
                metric("free_pages", u64::from(self.space.free_pages())),
                metric("relocations", store.moved_pages),
            ],
        }
    }

    fn ram_bytes(&self) -> usize {
        let entries = |node: &Node<C, D>| node.entries.capacity() * size_of::<Entry<C, D>>();
        let nodes = self.held.values().map(|held| &held.node).chain(&self.spare).chain([&self.scratch]);
        self.store.ram_bytes()
            + Space::ram_bytes(self.format.page_count, !self.store.durable_writes())
            + self.pages.capacity()
            + nodes.map(|node| size_of::<Node<C, D>>() + entries(node)).sum::<usize>()
    }
}
