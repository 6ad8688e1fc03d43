//! Trees on raw NAND: what the mu-Tree and the wandering B+-tree have in common.
//!
//! Both are B+-trees whose nodes are rewritten out of place together with the path above them, on the log of
//! [`crate::log`]. They differ in how nodes lie in pages and in how a changed path is written: that is the [`Scheme`].
//!
//! * A search reads the nodes from the root down; a child in the page at hand costs no read.
//! * An update copies the path into RAM (`path`), changes it there and lets the scheme write it, the root last.
//! * A node that becomes empty disappears; there is no redistribution or merging, which would cost programs (mu-Tree paper,
//!   section 3.4). A root with one child gives way to it.
//! * A page moves by rewriting the path to its lowest node, found by that node's first key.
//!
//! Invariants (`check`):
//!
//! * R1: keys rise within a node, and no node holds more entries than its capacity.
//! * R2: the keys below an entry are not below its key, nor do they reach the next entry's.
//! * R3: only the root of an empty tree is empty; a root above level 1 has two entries or more; a mu-Tree's root is never full.
//! * R4: in one page, the node at the next lower level, if any, is a child of the node above it.
//! * R5: a page that can be reached is valid, and begins at the lowest level it is reached at.
//! * R6: no other page is valid, unless a mount after a power cut left valid bits in doubt (see [`crate::log`]).

mod check;
pub mod journal;
mod path;
mod range;
mod settings;
mod update;

pub use settings::raw_config;

use super::node::NodeShape;
use super::{Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Settings, Visit};
use crate::check::{CheckReport, IndexError};
use crate::log::tag::Tag;
use crate::log::{Flush, Log, LogConfig};
use crate::nand::{Cause, Nand};
use crate::units::Ppn;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Bound, Range};
use journal::Journal;
use path::Path;
pub use path::{Sibling, Step};

/// Bytes of a child's address.
pub const ADDRESS_BYTES: usize = 4;

/// How nodes lie in pages, and how a changed path reaches the chip.
pub trait Scheme: Copy {
    /// What a formatted chip says of its owner, before the record sizes.
    const KIND: &'static [u8];

    /// When an overfull write part of the cache is programmed.
    const FLUSH: Flush;

    /// The scheme for pages and records of these sizes; `Unsupported` when a page holds too little.
    fn new(page_bytes: usize, record: RecordFormat) -> Result<Self, IndexError>;

    /// The shape of the node at `level` of a tree of this height.
    fn shape(&self, level: u8, height: u8) -> NodeShape;

    /// The bytes of that node within its page.
    fn page_area(&self, level: u8, height: u8) -> Range<usize>;

    /// The bytes of that node within the buffer of the path.
    fn path_area(&self, level: u8, height: u8) -> Range<usize>;

    /// Bytes of the buffer of the path in a tree of this height.
    fn path_bytes(&self, height: u8) -> usize;

    /// The greatest height.
    fn height_max(&self) -> u8;

    /// Entries with which the root stays as it is; one more, and the tree grows by a level.
    fn root_entries_max(&self, height: u8) -> usize;

    /// Pages that one update programs at most.
    fn pages_per_update(&self, height: u8) -> u32;

    /// Programs that moving one page takes at most.
    fn programs_per_move(&self, height: u8) -> u32;

    /// Writes the path's inner node at `level` alone, to be named by its parent later. Only schemes with a journal do that.
    fn write_inner<N: Nand>(tree: &mut RawTree<N, Self>, level: u8) -> Result<Ppn, IndexError>;

    /// Writes the copied path from level `lowest` up, the root last, with the half that a split at `lowest` left over.
    /// The pages that the new ones replace are invalidated on the way.
    fn write_path<N: Nand>(
        tree: &mut RawTree<N, Self>,
        lowest: u8,
        sibling: Option<Sibling>,
        cause: Cause,
    ) -> Result<(), IndexError>;
}

/// A tree on raw NAND.
pub struct RawTree<N, S> {
    pub(super) log: Log<N>,
    pub(super) scheme: S,
    record: RecordFormat,
    pub(super) root: Ppn,
    pub(super) height: u8,
    pub(super) path: Path,
    /// The page of a half that is not on the path.
    pub(super) detached: Vec<u8>,
    pub(super) journal: Journal,
    /// An update began and did not end.
    interrupted: bool,
    /// Valid bits may be too many since a mount.
    bits_in_doubt: bool,
}

impl<N: Nand, S: Scheme> RawTree<N, S> {
    /// Formats the chip and makes an empty tree on it.
    pub fn format(nand: N, record: RecordFormat, config: LogConfig) -> Result<RawTree<N, S>, IndexError> {
        let page_bytes = nand.geometry().page_bytes as usize;
        let scheme = S::new(page_bytes, record)?;
        let owner = [S::KIND, &[record.key_bytes, record.value_bytes]].concat();
        let mut log = Log::format(nand, config, &owner)?;
        let root = log.allocate(Cause::Checkpoint)?;
        let tag = Tag { root: true, lowest_level: 1, height: 1, ..Tag::default() };
        log.write(root, tag, &vec![0xff; page_bytes], Cause::Checkpoint)?;
        log.close()?;
        if log.counters().checkpoints == 0 {
            return Err(IndexError::Full);
        }
        Ok(RawTree::assemble(log, scheme, record, (root, 1)))
    }

    /// Finds the tree on the chip again.
    pub fn mount(nand: N, record: RecordFormat, config: LogConfig) -> Result<RawTree<N, S>, IndexError> {
        let scheme = S::new(nand.geometry().page_bytes as usize, record)?;
        let mut log = Log::mount(nand, config)?;
        match log.owner().strip_prefix(S::KIND) {
            Some(sizes) if sizes == [record.key_bytes, record.value_bytes] => {}
            Some(_) => {
                return Err(IndexError::NotFormatted("the tree on the chip has records of other sizes"));
            }
            None => {
                return Err(IndexError::NotFormatted("the log on the chip is that of another kind of tree"));
            }
        }
        let root = log.root().ok_or(IndexError::NotFormatted("the log on the chip has no root"))?;
        if root.height == 0 || root.height > scheme.height_max() {
            return Err(IndexError::Corrupted { what: "an impossible height", at: u64::from(root.ppn.0) });
        }
        let journal = log.take_journal();
        let mut tree = RawTree::assemble(log, scheme, record, (root.ppn, root.height));
        tree.bits_in_doubt = true;
        if !journal.is_empty() {
            tree.replay_journal(&journal)?;
            tree.commit_journal()?;
            tree.log.close()?;
        }
        Ok(tree)
    }

    /// Formats the chip for a tree as `settings` ask.
    pub fn format_with(nand: N, settings: &Settings) -> Result<RawTree<N, S>, IndexError> {
        let (config, journal) = Self::configure(&nand, settings)?;
        let mut tree = RawTree::format(nand, settings.record, config)?;
        tree.set_journal(journal)?;
        Ok(tree)
    }

    /// Finds the tree on the chip again and runs it as `settings` ask.
    pub fn mount_with(nand: N, settings: &Settings) -> Result<RawTree<N, S>, IndexError> {
        let (config, journal) = Self::configure(&nand, settings)?;
        let mut tree = RawTree::mount(nand, settings.record, config)?;
        tree.set_journal(journal)?;
        Ok(tree)
    }

    fn configure(nand: &N, settings: &Settings) -> Result<(LogConfig, usize), IndexError> {
        let geometry = nand.geometry();
        let scheme = S::new(geometry.page_bytes as usize, settings.record)?;
        let journal = settings.options.number("journal")?.unwrap_or(0) as usize;
        if journal > geometry.pages() as usize / 16 {
            return Err(IndexError::Unsupported(format!(
                "a journal of {journal} leaves is too much for this chip: at most {}",
                geometry.pages() / 16
            )));
        }
        let height = height_bound(&scheme, geometry.pages());
        let path_bytes = scheme.path_bytes(height + 1);
        let fixed_bytes = size_of::<Self>() + path_bytes + journal * size_of::<(u32, u32)>();
        Ok((
            raw_config(settings, geometry, fixed_bytes, (S::FLUSH, scheme.pages_per_update(height)))?,
            journal,
        ))
    }

    fn assemble(log: Log<N>, scheme: S, record: RecordFormat, root: (Ppn, u8)) -> RawTree<N, S> {
        RawTree {
            scheme,
            record,
            root: root.0,
            height: root.1,
            path: Path::new(scheme.path_bytes(root.1 + 1)),
            detached: vec![0xff; log.geometry().page_bytes as usize],
            journal: Journal::default(),
            interrupted: false,
            bits_in_doubt: false,
            log,
        }
    }

    /// The log below, for its counters.
    pub fn log(&self) -> &Log<N> {
        &self.log
    }

    /// Gives the chip back.
    pub fn into_nand(self) -> N {
        self.log.into_nand()
    }

    fn usable(&self) -> Result<(), IndexError> {
        if self.interrupted { Err(IndexError::Interrupted) } else { Ok(()) }
    }
}

/// The height of a tree on so many pages whose nodes are half full.
fn height_bound<S: Scheme>(scheme: &S, pages: u32) -> u8 {
    let (mut nodes, mut height) = (pages as usize, 1);
    while nodes > 1 && height < scheme.height_max() {
        height += 1;
        nodes = nodes.div_ceil((scheme.shape(height, height + 1).capacity / 2).max(2));
    }
    height
}

/// The entries in use of the node at `level`, or what is wrong with them.
fn entry_count(tag: &Tag, level: u8, capacity: usize, page: Ppn) -> Result<usize, IndexError> {
    let count = usize::from(tag.counts[usize::from(level) - 1]);
    if tag.lowest_level > level || count > capacity || (count == 0 && level > 1) {
        return Err(IndexError::Corrupted { what: "R1: an impossible entry count", at: u64::from(page.0) });
    }
    Ok(count)
}

fn address(bytes: &[u8]) -> Ppn {
    Ppn(crate::codec::get_u32(bytes, 0))
}

impl<N: Nand, S: Scheme> OrderedIndex for RawTree<N, S> {
    fn record(&self) -> RecordFormat {
        self.record
    }

    fn durability(&self) -> Durability {
        if self.log.config().write_pages == 0 { Durability::EveryOperation } else { Durability::EverySync }
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.record.check_key(key)?;
        self.record.check_value(value)?;
        self.usable()?;
        let (mut ppn, mut level) = (self.root, self.height);
        loop {
            let page = self.log.read(ppn, Cause::Host)?;
            loop {
                let shape = self.scheme.shape(level, self.height);
                let node = &page.data[self.scheme.page_area(level, self.height)];
                let count = entry_count(&page.tag, level, shape.capacity, ppn)?;
                if level == 1 {
                    let found = shape.search(node, count, key);
                    if let Ok(i) = found {
                        value.copy_from_slice(shape.value(node, i));
                    }
                    return Ok(found.is_ok());
                }
                let mut child = address(shape.value(node, shape.child_slot(node, count, key)));
                level -= 1;
                if level == 1 {
                    child = self.journal.resolve(child);
                }
                if child != ppn {
                    ppn = child;
                    break;
                }
            }
        }
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.record.check_key(key)?;
        self.record.check_value(value)?;
        self.usable()?;
        self.insert_entry(key, value)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.record.check_key(key)?;
        self.usable()?;
        self.remove_entry(key)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.usable()?;
        self.walk_range((low, high), direction, visit)
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.usable()?;
        self.log.flush(Cause::CacheEviction)
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.usable()?;
        self.commit_journal()?;
        self.log.close()
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.usable()?;
        self.walk_all()
    }

    fn stats(&self) -> IndexStats {
        let counters = self.log.counters();
        IndexStats {
            height: u32::from(self.height),
            live_pages: self.log.live_pages(),
            cache_hits: counters.cache_hits,
            cache_misses: counters.cache_misses,
            collections: counters.collections,
            metrics: vec![
                Metric { name: "relocations", value: counters.relocations },
                Metric { name: "checkpoints", value: counters.checkpoints },
                Metric { name: "checkpoints_skipped", value: counters.checkpoints_skipped },
                Metric { name: "blocks_replaced", value: counters.blocks_replaced },
            ],
        }
    }

    fn ram_bytes(&self) -> usize {
        let buffers = self.detached.len() + self.path.buffer.len();
        size_of::<Self>() + buffers + self.journal.ram_bytes() + self.log.ram_bytes()
    }
}
