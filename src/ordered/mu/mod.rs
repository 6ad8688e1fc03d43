//! The mu-Tree (Kang, Jung, Kang and Kim, EMSOFT 2007): a balanced tree on raw NAND whose every update programs one page.
//!
//! All nodes on the path from the root to a leaf share one page, each level in its own area (`layout`). An update copies the
//! path into a new page, the *spine*, changes it there and programs it; what the old pages held besides stays valid
//! where it is.
//!
//! * **Retrieval** (Algorithm 2): from the root down; a child in the page at hand costs no read.
//! * **Insertion** (Algorithms 3 and 4, `update`): into the copy of the leaf. A full node is split: the half on the path stays
//!   in the spine, the other half goes alone into a page of its own, programmed before. A root that becomes full is split
//!   likewise, and the new root shares the page of the half that is not on the path.
//! * **Removal** (Algorithm 5, `update`): a node that becomes empty disappears, and the spine starts at the level above; no
//!   redistribution (section 3.4). A root with one child gives way to it.
//! * **Collection** (section 5.1): a page is valid exactly if its lowest node can be reached; it moves by rewriting the path to
//!   that node.
//! * **Recovery** (section 5.2): the page with the root is programmed last, see [`crate::log`].
//!
//! Invariants (`check`):
//!
//! * M1: keys rise within a node, and no node holds more entries than its capacity.
//! * M2: the keys below an entry are not below its key, nor below the next entry's.
//! * M3: only the root of an empty tree is empty; a root above level 1 has two entries or more, and is never full.
//! * M4: in one page, the node at the next lower level, if any, is a child of the node above it (descendant-ancestor
//!   relationship, section 3.3).
//! * M5: a page that can be reached is valid, and begins at the level it is reached at or below.
//! * M6: no other page is valid, unless a power cut left the valid bits in doubt (see [`crate::log`]).
//!
//! Deviations: an entry count per node and a checksum stand in the spare area; the key of an entry is kept as a lower bound when a
//! smaller key is inserted (the paper's pseudocode leaves the leftmost key open); a root that has one child gives way
//! as often as that holds, not once per removal; the paper's `N <- P'` and swap rule come out as "the half on the path stays
//! in the spine".

mod check;
pub mod layout;
mod range;
mod update;

use super::{Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Settings, Visit};
use crate::check::{CheckReport, IndexError};
use crate::log::tag::{LEVELS_MAX, Tag};
use crate::log::{Flush, Log, LogConfig};
use crate::nand::{Cause, Nand};
use crate::units::Ppn;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Bound;
use layout::Layout;

const KIND: &[u8] = b"mu-tree 1";

/// A mu-Tree on a chip.
pub struct MuTree<N> {
    log: Log<N>,
    layout: Layout,
    record: RecordFormat,
    root: Ppn,
    height: u8,
    path: Path,
    /// The page of a half that is not on the path.
    detached: Vec<u8>,
    /// An update began and did not end.
    interrupted: bool,
    /// Valid bits may be too many since a mount after a power cut.
    bits_in_doubt: bool,
}

/// A path from the root, its nodes copied into the page that will replace them.
struct Path {
    spine: Vec<u8>,
    steps: [Step; LEVELS_MAX],
}

/// One node of a path; `steps[level - 1]`.
#[derive(Clone, Copy, Default)]
struct Step {
    /// Where the node was read.
    page: u32,
    /// The lowest level of a node in that page.
    lowest_level: u8,
    /// Entries in use.
    count: u16,
    /// The entry whose child is the next step.
    slot: u16,
}

impl<N: Nand> MuTree<N> {
    /// Formats the chip and makes an empty tree on it.
    pub fn format(nand: N, record: RecordFormat, config: LogConfig) -> Result<MuTree<N>, IndexError> {
        let layout = Layout::new(nand.geometry().page_bytes as usize, record);
        check_layout(&layout)?;
        let owner = [KIND, &[record.key_bytes, record.value_bytes]].concat();
        let mut log = Log::format(nand, config, &owner)?;
        let root = log.allocate(Cause::Checkpoint)?;
        let tag = Tag { root: true, lowest_level: 1, height: 1, ..Tag::default() };
        log.write(root, tag, &vec![0xff; layout.page_bytes()], Cause::Checkpoint)?;
        log.close()?;
        Ok(MuTree::assemble(log, layout, record, (root, 1)))
    }

    /// Finds the tree on the chip again.
    pub fn mount(nand: N, record: RecordFormat, config: LogConfig) -> Result<MuTree<N>, IndexError> {
        let layout = Layout::new(nand.geometry().page_bytes as usize, record);
        check_layout(&layout)?;
        let log = Log::mount(nand, config)?;
        match log.owner().strip_prefix(KIND) {
            Some(sizes) if sizes == [record.key_bytes, record.value_bytes] => {}
            Some(_) => return Err(IndexError::NotFormatted("the mu-Tree on the chip has records of other sizes")),
            None => return Err(IndexError::NotFormatted("the log on the chip is not that of a mu-Tree")),
        }
        let root = log.root().ok_or(IndexError::NotFormatted("the log on the chip has no root"))?;
        if root.height == 0 || root.height > layout.height_max() {
            return Err(IndexError::Corrupted { what: "an impossible height", at: u64::from(root.ppn.0) });
        }
        let mut tree = MuTree::assemble(log, layout, record, (root.ppn, root.height));
        tree.bits_in_doubt = true;
        Ok(tree)
    }

    fn assemble(log: Log<N>, layout: Layout, record: RecordFormat, root: (Ppn, u8)) -> MuTree<N> {
        MuTree {
            log,
            layout,
            record,
            root: root.0,
            height: root.1,
            path: Path { spine: vec![0xff; layout.page_bytes()], steps: Default::default() },
            detached: vec![0xff; layout.page_bytes()],
            interrupted: false,
            bits_in_doubt: false,
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

/// The entries in use of the node at `level`, or what is wrong with them.
fn entry_count(tag: &Tag, level: u8, capacity: usize, page: Ppn) -> Result<usize, IndexError> {
    let count = usize::from(tag.counts[usize::from(level) - 1]);
    if tag.lowest_level > level || count > capacity || (count == 0 && level > 1) {
        return Err(IndexError::Corrupted { what: "M1: an impossible entry count", at: u64::from(page.0) });
    }
    Ok(count)
}

fn address(bytes: &[u8]) -> Ppn {
    Ppn(crate::codec::get_u32(bytes, 0))
}

fn check_layout(layout: &Layout) -> Result<(), IndexError> {
    if layout.height_max() < 2 {
        return Err(IndexError::Unsupported(format!(
            "a mu-Tree needs pages that hold 8 records of this size; these have {} bytes",
            layout.page_bytes()
        )));
    }
    Ok(())
}

/// The log that `settings` ask for: the RAM left beside the tables goes to the cache.
///
/// Options: `read_pages`, `write_pages`, `victim` (greedy, cost-benefit), `collect_at_blocks`, `checkpoint_blocks`.
pub fn log_config(
    settings: &Settings,
    geometry: crate::nand::Geometry,
    fixed_bytes: usize,
) -> Result<LogConfig, IndexError> {
    crate::ordered::raw_config(settings, geometry, fixed_bytes, Flush::AfterOperation)
}

impl<N: Nand> OrderedIndex for MuTree<N> {
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
                let shape = self.layout.shape(level, self.height);
                let node = &page.data[self.layout.area(level, self.height)];
                let count = entry_count(&page.tag, level, shape.capacity, ppn)?;
                if level == 1 {
                    let found = shape.search(node, count, key);
                    if let Ok(i) = found {
                        value.copy_from_slice(shape.value(node, i));
                    }
                    return Ok(found.is_ok());
                }
                let child = address(shape.value(node, shape.child_slot(node, count, key)));
                level -= 1;
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
                Metric { name: "blocks_replaced", value: counters.blocks_replaced },
            ],
        }
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>() + 2 * self.layout.page_bytes() + self.log.ram_bytes()
    }
}
