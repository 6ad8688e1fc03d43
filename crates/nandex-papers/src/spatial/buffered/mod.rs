//! Nodes behind a buffer of modifications and a log: the generic frameworks FAST and eFIND, under any tree.
//!
//! Sources: M. Sarwat, M. F. Mokbel, X. Zhou, S. Nath, "FAST: A Generic Framework for Flash-Aware Spatial
//! Trees", SSTD 2011 (nothing to do with the flash translation layer of that name); A. C. Carniel, R. R.
//! Ciferri, C. D. A. Ciferri, "A Generic and Efficient Framework for Spatial Indexing on Flash-Based Solid
//! State Drives", ADBIS 2017, and Information Systems 82,
//! 2019. The tree's algorithms are not changed: reading a node and changing one are.
//!
//! # State
//!
//! ```text
//! RAM    node buffer: node -> modifications        read buffer (eFIND): pages      lists of nodes read and written (eFIND)
//! store  superblock | root | a page for each node ...       | log, area 1 | log, area 0 |
//! ```
//!
//! A node's page is what `node.rs` says, less 12 bytes at its end: the number of the last operation that is
//! in the page (8 bytes) and a checksum of that number and the node's own checksum. `record.rs` has the bytes
//! of a modification, `log.rs` the log.
//!
//! # Operations
//!
//! - *read*: the page, from the read buffer or the store, and then the modifications in order; the page is
//!   not read if they are the whole node.
//! - *an operation of the tree* ends as follows. (1) While the buffer would hold more than its budget, nodes
//!   are flushed.
//!   (2) Its modifications are appended to the log as records, the last one marked. (3) In the class *every
//!   operation* the log's page is written. (4) The modifications join the buffer. An update takes the place
//!   of an older one of the same entry; when a node's modifications have become more than its entries, the
//!   node itself is kept.
//! - *flush*: the policy (`policy/`) chooses nodes. The log is written, then their pages in ascending order,
//!   as one atomic group where the store can; records say that they were flushed, and the buffer forgets
//!   them. A node that is in the list of nodes read comes into the read buffer, any other is only brought up
//!   to date there.
//! - *compaction*, when the log has no room for an operation: what the buffer holds is written to the other
//!   area. If that would be more than half of it, all nodes are flushed first.
//! - *mount*: the log is read and what was not flushed is put into the buffer again. A record counts if it
//!   belongs to a whole operation, no later record says that the node was flushed, and the node's page has
//!   not the operation.
//! - *bulk load*: the buffer is flushed, the nodes are written to their pages, and the root goes through the
//!   log.
//!
//! # Durability
//!
//! *Every operation*, where writes are durable and it is wanted; else *every sync*: records are gathered
//! until they fill a page or a sync. Either on any store whose writes survive in order; it need not be able
//! to write several pages atomically, since a page tells which operations it has. On any other store it is
//! refused.
//!
//! # Invariants
//!
//! - B1 Each node's modifications make sense on its page, or are the whole node.
//! - B2 The page of a node in the buffer has none of the operations that wait for it.
//! - B3 Units and counts fit the nodes, and the bytes counted are those taken.
//! - B4 A page in the read buffer is the one on the medium.
//! - B5 No page has an operation of which the log knows nothing.
//! - J1, J3 The log is what `log/records.rs` says. S1 to S7 as `paged.rs` has them.
//!
//! # Parts
//!
//! `Medium` owns the store with the nodes' pages and the read buffer; `Hand` (`hand.rs`) the operation in
//! hand; `NodeBuffer`, `NodeLog` and `TemporalControl` what their names say. [`BufferedNodes`] leads from one
//! to the other.
//!
//! # Deviations
//!
//! The publications' log grows to a limit and is compacted by reading it backwards; here the buffer itself
//! tells what is needed still. FESTIval's eFIND compacts only after so many flushes; here the log has a fixed
//! size and must. Of the time in FAST* and eFIND the operations are counted.

mod buffer;
mod control;
mod flush;
mod hand;
mod log;
mod nodes;
mod policy;
mod read_buffer;
mod record;
#[cfg(test)]
mod tests;

pub use policy::{Efind, FlushPolicy, Worth};
pub use read_buffer::ReadOrder;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use buffer::NodeBuffer;
use control::TemporalControl;
use hand::Hand;
use log::NodeLog;
use nandex::check::{IndexError, Invariant, message, words};
use nandex::codec::{crc32, get_u32, get_u64, put_u32, put_u64};
use nandex::index::Durability;
use nandex::nand::{Cause, Differs};
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::node::{Node, NodeFormat, NodeId, ROOT};
use nandex::spatial::superblock::{put_superblock, superblock_of};
use nandex::spatial::tree::{Rules, SpatialConfig, Tree};
use nandex::store::PageStore;
use nandex::store::slice::Slice;
use nandex::store::space::Space;
use nandex::units::Lpn;
use policy::Chooser;
use read_buffer::ReadBuffer;

/// The code of this layer in the superblock.
pub const LAYER: u8 = 1;

/// Bytes at the end of a page that the node does not use: the number of an operation and a checksum.
pub const TRAILER_BYTES: usize = 12;

const SUPERBLOCK: Lpn = Lpn(0);

/// The settings of a buffered layer. Only the size of the log is stored on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferedConfig {
    /// The durability class: *every operation* or *every sync*.
    pub durability: Durability,
    /// Bytes of RAM for the node buffer.
    pub buffer_bytes: usize,
    /// Number of nodes in a flushing unit.
    pub unit_nodes: usize,
    /// The rule that chooses the nodes to flush.
    pub policy: FlushPolicy,
    /// Pages of each of the log's two areas, fixed at format. `None` means room for 8 times the buffer.
    pub log_pages: Option<u32>,
    /// Pages in the read buffer. 0 means no read buffer.
    pub read_pages: usize,
    /// The rule that picks the page to leave the read buffer.
    pub read_order: ReadOrder,
    /// Length of the list of nodes read. 0 means no list.
    pub read_list: usize,
    /// Length of the list of nodes written. 0 means no list.
    pub write_list: usize,
}

/// Nodes in a flushing unit by default.
const UNIT_NODES: usize = 5;

/// Least length of the list of nodes read in eFIND's settings.
const READ_LIST_MIN: usize = 10;

impl BufferedConfig {
    /// The settings of the FAST framework: a node buffer and no read buffer.
    pub const fn fast(durability: Durability, buffer_bytes: usize, policy: FlushPolicy) -> BufferedConfig {
        BufferedConfig {
            durability,
            buffer_bytes,
            unit_nodes: UNIT_NODES,
            policy,
            log_pages: None,
            read_pages: 0,
            read_order: ReadOrder::Lru,
            read_list: 0,
            write_list: 0,
        }
    }

    /// The settings of eFIND for `ram_bytes` bytes of RAM: a fifth for the read buffer, the rest for the
    /// node buffer; and the lists of nodes read and written.
    pub fn efind(
        durability: Durability,
        ram_bytes: usize,
        page_bytes: usize,
        policy: Efind,
    ) -> BufferedConfig {
        let read_pages = ram_bytes / 5 / ReadBuffer::ram_bytes_max(1, page_bytes);
        let fast = BufferedConfig::fast(durability, ram_bytes - ram_bytes / 5, FlushPolicy::Efind(policy));
        BufferedConfig {
            read_pages,
            read_order: ReadOrder::TwoQ,
            read_list: (read_pages / 5).max(READ_LIST_MIN),
            write_list: UNIT_NODES,
            ..fast
        }
    }

    fn validate(&self, store: &impl PageStore) -> Result<(), IndexError> {
        self.policy.require_sane()?;
        let unsupported = |what: String| Err(IndexError::Unsupported(what.into()));
        if self.unit_nodes == 0 || self.unit_nodes > 4096 {
            return unsupported(message!(
                "flushing units of {} nodes: 1 to 4096 are possible",
                self.unit_nodes
            ));
        }
        if self.buffer_bytes < 2 * store.page_bytes() {
            let least = 2 * store.page_bytes();
            let what = message!("a node buffer of {} bytes: {least} are needed at least", self.buffer_bytes);
            return unsupported(what);
        }
        let given = Durability::on(store, 1);
        if self.durability == Durability::None || self.durability > given {
            return unsupported(message!(
                "durability '{}' is wanted, but a node buffer with a log on this store gives '{}'{}",
                self.durability.name(),
                given.name(),
                if given > Durability::EverySync { " or 'every sync'" } else { "" },
            ));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BufferedCounts {
    flushes: u64,
    flushed_nodes: u64,
    emergency_flushes: u64,
    /// Nodes read that had modifications in the buffer. `whole_hits` counts those read without their page.
    buffer_hits: u64,
    whole_hits: u64,
}

/// Nodes behind a buffer of modifications and a log.
pub struct BufferedNodes<S, C: Coordinate, const D: usize> {
    medium: Medium<S>,
    log: NodeLog<S>,
    config: BufferedConfig,
    space: Space,
    buffer: NodeBuffer<C, D>,
    chooser: Chooser,
    control: TemporalControl,
    /// Number of operations, including failed ones.
    operation: u64,
    hand: Hand<C, D>,
    /// The node read last outside an operation.
    scratch: Node<C, D>,
    counts: BufferedCounts,
}

/// A tree of any kind over a node buffer with a log.
pub type BufferedTree<S, C, const D: usize, R> = Tree<C, D, BufferedNodes<S, C, D>, R>;

impl<S: PageStore, C: Coordinate, const D: usize> BufferedNodes<S, C, D> {
    /// Makes an empty tree, and drops all contents of the store. `config` sets the durability; that of `tree`
    /// is not used.
    pub fn format<R: Rules<C, D>>(
        mut store: S,
        tree: &SpatialConfig<R>,
        config: BufferedConfig,
    ) -> Result<BufferedNodes<S, C, D>, IndexError> {
        config.validate(&store)?;
        let node_bytes = store.page_bytes().saturating_sub(TRAILER_BYTES);
        let whole = tree.node_format::<C, D>(node_bytes, store.page_count())?;
        if whole.link_bytes > 0 {
            let what = "the node buffer logs entries and no links between nodes: it takes no FOR-tree";
            return Err(IndexError::Unsupported(what.into()));
        }
        let layout = log_layout(&whole, &store, &config)?;
        // The old superblock goes first, then the old log: no cut may leave either without the other.
        store.trim(SUPERBLOCK)?;
        store.trim(Lpn(store.page_count() - 1))?;
        store.sync()?;
        let (mut below, log) = log::format(store, layout)?;
        for lpn in (ROOT.0..below.page_count()).map(Lpn) {
            below.trim(lpn)?;
        }
        let format = NodeFormat { page_count: below.page_count(), layer: LAYER, ..whole };
        let mut nodes = BufferedNodes::over(below, log, format, config);
        let page_bytes = nodes.medium.page_bytes();
        nodes.medium.seal(ROOT, &Node::<C, D>::new(1), 0, 0);
        nodes.medium.store.write(Lpn(ROOT.0), Cause::Checkpoint, &nodes.medium.pages[..page_bytes])?;
        nodes.medium.store.sync()?;
        let whole = NodeFormat { page_bytes: page_bytes as u32, ..nodes.medium.format };
        put_superblock(&whole, true, &mut nodes.medium.pages[..page_bytes]);
        nodes.medium.store.write(SUPERBLOCK, Cause::Checkpoint, &nodes.medium.pages[..page_bytes])?;
        nodes.medium.store.sync()?;
        Ok(nodes)
    }

    /// Opens a tree of a known kind, with all operations in its log. A tree formatted otherwise is refused.
    pub fn mount<R: Rules<C, D>>(
        store: S,
        tree: &SpatialConfig<R>,
        config: BufferedConfig,
    ) -> Result<BufferedNodes<S, C, D>, IndexError> {
        let nodes = BufferedNodes::mount_found(store, config)?;
        tree.require_format(&nodes.medium.format, nodes.medium.format.page_bytes as usize)?;
        Ok(nodes)
    }

    /// Opens the tree in a store, with all operations in its log.
    pub fn mount_found(store: S, config: BufferedConfig) -> Result<BufferedNodes<S, C, D>, IndexError> {
        config.validate(&store)?;
        let (mut below, log) = log::mount(store)?;
        let mut page = vec![0; below.page_bytes()];
        below.read(SUPERBLOCK, Cause::Recovery, &mut page)?;
        let format = layered::<C, D>(&page, below.page_count())?;
        let page_records = log::layout(&format, log.layout().pages, page.len());
        if format.layer != LAYER
            || format.page_count != below.page_count()
            || page_records != Some(log.layout())
        {
            return Err(IndexError::other(
                Differs::Settings,
                words("the log at the end of the store is of another tree"),
            ));
        }
        let mut nodes = BufferedNodes::over(below, log, format, config);
        nodes.replay()?;
        nodes.claim_all()?;
        Ok(nodes)
    }

    fn over(store: Slice<S>, log: NodeLog<S>, format: NodeFormat, config: BufferedConfig) -> Self {
        let page_bytes = store.page_bytes();
        let mut space = Space::new(format.page_count, trims_wait(&store, &config));
        space.claim(SUPERBLOCK);
        space.claim(Lpn(ROOT.0));
        BufferedNodes {
            log,
            config,
            space,
            buffer: NodeBuffer::new(format, config.unit_nodes),
            chooser: Chooser::new(config.policy),
            control: TemporalControl::new(config.read_list, config.write_list),
            operation: 0,
            hand: Hand::new(),
            scratch: Node::with_room(format.entries_max()),
            medium: Medium {
                format,
                read_buffer: ReadBuffer::new(config.read_pages, page_bytes, config.read_order),
                pages: vec![0; page_bytes * flush::group_pages(&store, config.unit_nodes)],
                store,
                is_interrupted: false,
            },
            counts: BufferedCounts::default(),
        }
    }

    /// Takes the layer apart and returns the store. Changes that were not synced are lost as in a power
    /// cut.
    pub fn into_store(self) -> S {
        let BufferedNodes { medium, log, .. } = self;
        log.give_up();
        let Some(store) = medium.store.into_whole() else {
            unreachable!("only the nodes and the log hold the store")
        };
        store
    }

    fn ready(&self) -> Result<(), IndexError> {
        if self.medium.is_interrupted { Err(IndexError::Interrupted) } else { Ok(()) }
    }

    /// Reads the page of a node. Returns the last operation in the page. An operation newer than the log is
    /// an error.
    fn fetch(&mut self, id: NodeId, cause: Cause, node: &mut Node<C, D>) -> Result<u64, IndexError> {
        let operation = self.medium.fetch(id, cause, node)?;
        if operation > self.operation { Err(ahead_of_log(id)) } else { Ok(operation) }
    }

    /// Makes a node from its page and its waiting modifications.
    fn retrieve(&mut self, id: NodeId, cause: Cause, node: &mut Node<C, D>) -> Result<(), IndexError> {
        let waiting = self.buffer.nodes().get(&id);
        let (is_waiting, is_whole) = (waiting.is_some(), waiting.is_some_and(buffer::Waiting::is_whole));
        if !is_whole {
            self.fetch(id, cause, node)?;
        }
        if is_waiting {
            let applied = self.buffer.apply_to(id, node);
            applied
                .and_then(|()| record::require_node(&self.medium.format, id, node))
                .map_err(|(invariant, what)| IndexError::broken(invariant, what, u64::from(id.0)))?;
        }
        Ok(())
    }

    /// Marks every page below the root as in use. The walk reads all nodes above the leaves.
    fn claim_all(&mut self) -> Result<(), IndexError> {
        let mut open = vec![(ROOT, None)];
        let mut node = Node::new(1);
        while let Some((id, above)) = open.pop() {
            self.retrieve(id, Cause::Recovery, &mut node)?;
            let is_level =
                |above| node.level < above && (!self.medium.format.is_balanced || node.level + 1 == above);
            if above.is_some_and(|above| !is_level(above)) {
                let what = "the node has another level than its parent says";
                return Err(IndexError::broken(Invariant::S5, what, u64::from(id.0)));
            }
            for child in node.entries.iter().filter_map(|entry| entry.child_id()) {
                if !self.space.claim(Lpn(child.0)) {
                    let what = "the page has two parents";
                    return Err(IndexError::broken(Invariant::S6, what, u64::from(child.0)));
                }
                if node.level > 2 {
                    open.push((child, Some(node.level)));
                }
            }
        }
        Ok(())
    }
}

/// The pages of the nodes.
struct Medium<S> {
    format: NodeFormat,
    store: Slice<S>,
    read_buffer: ReadBuffer,
    /// Buffers for pages. Nodes are read into the first one.
    pages: Vec<u8>,
    is_interrupted: bool,
}

impl<S: PageStore> Medium<S> {
    fn page_bytes(&self) -> usize {
        self.format.page_bytes as usize + TRAILER_BYTES
    }

    /// Encodes a node into buffer `slot`, as of an operation.
    fn seal<C: Coordinate, const D: usize>(
        &mut self,
        id: NodeId,
        node: &Node<C, D>,
        operation: u64,
        slot: usize,
    ) {
        let page_bytes = self.page_bytes();
        let page = &mut self.pages[slot * page_bytes..][..page_bytes];
        let (body, trailer) = page.split_at_mut(self.format.page_bytes as usize);
        self.format.encode(id, node, body);
        put_u64(trailer, 0, operation);
        let crc = crc32(&[&body[..4], &trailer[..8]]);
        put_u32(trailer, 8, crc);
    }

    /// Reads the page of a node. Returns the last operation in the page.
    fn fetch<C: Coordinate, const D: usize>(
        &mut self,
        id: NodeId,
        cause: Cause,
        node: &mut Node<C, D>,
    ) -> Result<u64, IndexError> {
        if id.0 == SUPERBLOCK.0 || id.0 >= self.format.page_count {
            return Err(IndexError::broken(Invariant::S2, "no such node", u64::from(id.0)));
        }
        let page_bytes = self.page_bytes();
        let page = &mut self.pages[..page_bytes];
        let is_counted = cause != Cause::Check;
        let is_here = is_counted && self.read_buffer.get(id, page);
        if !is_here {
            self.store.read(Lpn(id.0), cause, page)?;
        }
        let (body, trailer) = page.split_at(self.format.page_bytes as usize);
        self.format.decode(id, body, node)?;
        if get_u32(trailer, 8) != crc32(&[&body[..4], &trailer[..8]]) {
            let what = "the checksum of the node's last operation is wrong";
            return Err(IndexError::broken(Invariant::S1, what, u64::from(id.0)));
        }
        let operation = get_u64(trailer, 0);
        if is_counted && !is_here {
            self.read_buffer.put(id, node.level, page);
        }
        Ok(operation)
    }
}

fn ahead_of_log(id: NodeId) -> IndexError {
    IndexError::broken(Invariant::B5, "the node has an operation that the log has not", u64::from(id.0))
}

/// Decodes the superblock of a tree below this layer. Its nodes are shorter than a page.
fn layered<C: Coordinate, const D: usize>(page: &[u8], page_count: u32) -> Result<NodeFormat, IndexError> {
    let (mut format, _) = superblock_of::<C, D>(page, page_count)?;
    format.page_bytes = format.page_bytes.saturating_sub(TRAILER_BYTES as u32);
    match format.require_sane::<C, D>() {
        Err(_) => Err(IndexError::broken(Invariant::S7, "the superblock's capacities are impossible", 0)),
        Ok(()) => Ok(format),
    }
}

/// Whether trims must wait for a sync, because a power cut might bring back an older page.
fn trims_wait(store: &impl PageStore, config: &BufferedConfig) -> bool {
    config.durability != Durability::EveryOperation || !store.durable_writes()
}

fn log_layout(
    format: &NodeFormat,
    store: &impl PageStore,
    config: &BufferedConfig,
) -> Result<nandex::record_log::Layout, IndexError> {
    let unsupported = |what: String| IndexError::Unsupported(what.into());
    let page_bytes = store.page_bytes();
    let layout = |pages| {
        log::layout(format, pages, page_bytes)
            .filter(|layout| layout.page_records > 0)
            .ok_or_else(|| unsupported(message!("pages of {page_bytes} bytes are too small for a log")))
    };
    let page_records = layout(1)?.page_records;
    // The largest operation when it is done narrow, twice: an area is half full at most after a compaction.
    let operation = format.group_nodes_max() * (1 + format.capacity(1).max(format.capacity(2)));
    let least = (2 * (operation + config.unit_nodes) + 2).div_ceil(page_records) as u32;
    let suits = (8 * config.buffer_bytes / record::mod_bytes(format)).div_ceil(page_records) as u32;
    let most = store.page_count() / 4;
    let pages = config.log_pages.unwrap_or(suits.min(most / 2).max(least));
    if !(least..=most).contains(&pages) {
        let what = message!("two logs of {pages} pages: {least} to {most} are possible on this store");
        return Err(unsupported(what));
    }
    layout(pages)
}
