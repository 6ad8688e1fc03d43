//! The VMTree-OW (Ould-Khessal, Fazackerley and Lawrence 2026): a B+-tree on NOR flash, where a page may be
//! overwritten.
//!
//! A node is a page of slots in the order of their arrival. A change clears bits of the page in place
//! (`page`): no node moves, no parent must be updated, and no mapping table is needed. Needs a part that can
//! overwrite ([`Geometry::overwrites`](crate::nand::Geometry::overwrites)).
//!
//! * **Insertion**: programs the entry into the next slot, then its used mark. An old entry of the same key
//!   is marked dead afterwards. Of two live entries of one key the later counts.
//! * **Removal**: programs the dead mark. A leaf that becomes empty loses its entry in the parent, unless it
//!   is the last child. So does an inner node without other children (ours; removal is not published).
//! * **Full page**: its live entries are sorted and written to two new pages, or to one if they fill at most
//!   half a page (ours). The entries (greatest key of the left, left) and (old bound, right) are appended to
//!   the parent as one group and committed by one mark. Then the old entry is marked dead. A parent without
//!   room for them is rewritten in the same way, with both entries. A new root is written before the old one
//!   is marked retired.
//! * **Search**: among the live slots of an inner node, takes the smallest bound that is not below the key.
//!   The last bound is all ones.
//! * **Space** (`space`): blocks without live pages are used in turn and erased just before use. If there is
//!   none, the block with the fewest live pages is emptied: each page is rewritten, and its parent is
//!   overwritten with the new address.
//! * **Log buffer** (`batch`): records may wait in RAM. They are then applied in key order, those of one leaf
//!   by one overwrite.
//! * **Durability**: every operation without a log buffer, otherwise every sync. An overwrite is two
//!   programs: the slots, then one mark. A mark that is cut short counts or does not, so a torn slot is never
//!   in use. (The published program clears the bit together with the slot.)
//! * **Mounting** (`recovery`): reads every page once to find the newest root, then walks the tree. Torn
//!   slots are marked dead, and interrupted work is finished.
//! * **Damage**: a page has the CRC-32 of its first contents, every slot a check of its own, and a mark is
//!   four bits. The option `slots = bare` gives the published page instead (two bitmaps and entries), to
//!   reproduce its counts. Flipped bits in its appended slots are not noticed.
//!
//! Invariants (`check`):
//!
//! * O1: a page was written whole, and the slots in use pass their checks; the slots beyond them are blank.
//! * O2: the levels descend one by one, and only the root is marked as one.
//! * O3: keys are above the bound of the left neighbour and not above the own one. The greatest bound of an
//!   inner node is its parent's bound.
//! * O4: no key is live twice in a page.
//! * O5: the live pages are those that the root refers to, and the page of the settings.
//! * O6: an overwrite only clears bits: a slot is blank before it is filled, and the chip refuses anything
//!   else.
//! * O7: the changes of a batch are whole, or none of them counts.
//! * O8: a page knows its number on the chip. A child is younger than its parent exactly if its slot is.
//!
//! # Parts
//!
//! | part | owns | file |
//! |---|---|---|
//! | `Pages` | the chip, the live pages (`Space`), and whether they may be changed | `pages.rs`, `space.rs` |
//! | `NodeShapes` | the shapes of nodes | `shapes.rs` |
//! | `NodePath` | the root, and the nodes of the last operation | `path.rs` |
//!
//! Deviations: a header of 16 bytes instead of 10, which costs no slot at the published sizes; two programs
//! per overwrite. Removal, collection, checks and recovery are ours. Confidence: high for layout and
//! algorithm (read in the authors' code).

mod batch;
mod collect;
mod page;
mod pages;
mod path;
mod recovery;
mod shapes;
mod space;
#[cfg(test)]
mod tests;
mod update;
mod walk;

use super::Keep;
use super::buffer::{Logged, Waiting};
use crate::blocks::weak::WeakBlock;
use crate::check::IndexError;
use crate::codec::first_number;
use crate::fault::IndexFault;
use crate::index::require_ram;
use crate::nand::Nand;
use crate::ordered::buffered::Answers;
use crate::ordered::{Durability, RecordFormat};
use alloc::vec;
use alloc::vec::Vec;
pub use page::Marks;
use pages::Pages;
use path::NodePath;
use shapes::{NodeShapes, above};
use space::Space;

/// Bits of the number of a page in the order of first programs.
const SEQUENCE_BITS: u32 = 32;

/// Bytes of a page's address.
const ADDRESS_BYTES: usize = 4;
const NONE: u32 = u32::MAX;
const LEVELS_MAX: u8 = 24;

/// How a VMTree-OW is formatted, mounted and run.
///
/// An example stands at [`OverwriteTree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct OverwriteConfig {
    /// Sizes of the records.
    pub record: RecordFormat,
    /// The durability class wanted: with a log buffer *every sync* at most.
    pub durability: Durability,
    /// Bytes of RAM; a tree that needs more is refused. `None` means whatever it needs.
    pub ram_bytes: Option<usize>,
    /// Whether slots have a check.
    pub marks: Marks,
    /// Nodes kept from one operation to the next: either the path of the last operation, or the three buffers
    /// of the published program. These are the root, the leaf, and the last inner node read between them,
    /// which is useful in a tree of three levels only. A parent is then read again before it is changed.
    pub keep: Keep,
    /// Pages of the log buffer, in which updates wait to be applied together; at most
    /// [`LOG_PAGES_MAX`](super::LOG_PAGES_MAX), 0 for no buffer.
    pub log_pages: u32,
    /// How an update answers if there is a log buffer.
    pub answers: Answers,
}

impl OverwriteConfig {
    /// Slots with checks, no log buffer, every operation durable.
    pub const fn new(record: RecordFormat) -> OverwriteConfig {
        OverwriteConfig {
            record,
            durability: Durability::EveryOperation,
            ram_bytes: None,
            marks: Marks::Checked,
            keep: Keep::Path,
            log_pages: 0,
            answers: Answers::Exact,
        }
    }
}

/// A node of the path.
#[derive(Clone, Debug)]
struct Node {
    /// Page of the node, or [`NONE`].
    ppn: u32,
    /// Number of slots in use.
    used: usize,
    /// The slot of the child on the path.
    slot: usize,
    bytes: Vec<u8>,
}

impl Node {
    fn blank(page_bytes: usize) -> Node {
        Node { ppn: NONE, used: 0, slot: 0, bytes: vec![0xff; page_bytes] }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    overwrites: u64,
    new_pages: u64,
    splits: u64,
    moved_pages: u64,
    log_programs: u64,
    collections: u64,
}

crate::ordered::forward::named_tree! {
    /// A VMTree-OW on a chip.
    ///
    /// ```
    /// # use nandex::nand::{catalogue::nor_2m, sim::SimChip};
    /// # let chip = SimChip::new(&nor_2m().with_blocks(64))?;
    /// use nandex::ordered::vm::overwrite::{OverwriteConfig, OverwriteTree};
    /// use nandex::{OrderedIndex, RecordFormat, Durability};
    ///
    /// let config = OverwriteConfig::new(RecordFormat::new(2, 4)).with_durability(Durability::EveryOperation);
    /// let mut tree = OverwriteTree::format(chip, &config)?;
    /// tree.insert(&[0, 7], &[1; 4])?;
    /// tree.close()?;
    /// let mut tree = OverwriteTree::mount(tree.into_nand(), &config)?;
    /// assert!(tree.get(&[0, 7], &mut [0; 4])?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    OverwriteTree<N> = Logged<InPlace<N>>, set up by OverwriteConfig
}

/// The tree on its pages.
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub struct InPlace<N> {
    pages: Pages<N>,
    path: NodePath,
    /// Nodes above the leaves.
    inner_nodes: u32,
    settings_page: u32,
    /// Pages that others have replaced, until those are in use.
    replaced: Vec<u32>,
    counters: Counters,
}

impl<N: Nand> Logged<InPlace<N>> {
    /// Makes an empty tree on a chip whose contents do not matter.
    pub fn format(nand: N, config: &OverwriteConfig) -> Result<Self, IndexError> {
        let (mut tree, waiting) = assemble(nand, config)?;
        tree.format()?;
        Ok(Logged::new(tree, waiting, config.answers))
    }

    /// Mounts the tree of a chip.
    pub fn mount(nand: N, config: &OverwriteConfig) -> Result<Self, IndexError> {
        let (mut tree, mut waiting) = assemble(nand, config)?;
        waiting.take_over(tree.mount()?);
        Ok(Logged::new(tree, waiting, config.answers))
    }

    /// Gives the chip back.
    pub fn into_nand(self) -> N {
        self.tree.pages.nand
    }
}

/// The tree, which is neither formatted nor mounted yet, and its log buffer.
fn assemble<N: Nand>(nand: N, config: &OverwriteConfig) -> Result<(InPlace<N>, Waiting), IndexFault> {
    require_ram(config.ram_bytes)?;
    let waiting =
        Waiting::new(config.record, config.log_pages, (config.durability, nand.geometry().page_bytes))?;
    let buffer_bytes = size_of::<Waiting>() + waiting.ram_bytes();
    let ram_bytes = config.ram_bytes.map(|ram| ram.saturating_sub(buffer_bytes));
    let tree = InPlace::assemble(nand, &OverwriteConfig { ram_bytes, ..*config })
        .map_err(|error| super::in_all(error.into(), config.ram_bytes, buffer_bytes))?;
    tree.check_batches(waiting.capacity())?;
    Ok((tree, waiting))
}

impl<N: Nand> InPlace<N> {
    fn assemble(mut nand: N, config: &OverwriteConfig) -> Result<InPlace<N>, IndexFault> {
        let (geometry, record) = (nand.geometry(), config.record);
        if !geometry.overwrites() || !geometry.random_order {
            return Err(IndexError::Unsupported("a VMTree-OW overwrites pages: it needs NOR flash, whose pages take any number of programs that clear \
                 bits (nop = 4294967295 and random_order in a chip file; at45db161e of the catalogue)"
                    .into()).into());
        }
        let &OverwriteConfig { marks, keep, .. } = config;
        let page_bytes = geometry.page_bytes as usize;
        let shapes = NodeShapes::new(page_bytes, record, marks)?;
        let mut bad = Vec::new();
        for pbn in (0..geometry.blocks).map(crate::units::Pbn) {
            bad.push(nand.is_bad(pbn)?);
        }
        let pages = Pages {
            nand,
            shapes,
            space: Space::new(geometry, bad),
            birth: vec![0xff; page_bytes],
            sequence: first_number(SEQUENCE_BITS, 0) as u32,
            retired: 0,
            weak: WeakBlock::default(),
            scrubbed: 0,
            interrupted: false,
            read_only: false,
        };
        // A height that the tree does not exceed unless it is mostly empty.
        let (_, height_bound) = above(geometry.pages(), (pages.shapes.inner.capacity as u32 / 4).max(2));
        let tree = InPlace {
            pages,
            path: NodePath::new(keep),
            inner_nodes: 0,
            settings_page: NONE,
            replaced: Vec::new(),
            counters: Counters::default(),
        };
        let needed = tree.ram_bytes_at(height_bound);
        match config.ram_bytes {
            Some(ram) if ram < needed => Err(IndexError::TooLittleRam {
                what: "block tables and the nodes of a path",
                given: ram,
                needed,
            }
            .into()),
            _ => Ok(tree),
        }
    }

    /// A page for each level and four more: one put together, its entries, and the like for a parent.
    fn ram_bytes_at(&self, height: u8) -> usize {
        let pages = usize::from(height) + 4;
        pages * (self.pages.birth.len() + size_of::<Node>())
            + self.pages.space.ram_bytes()
            + size_of::<Self>()
    }

    /// The class in which the tree runs.
    const DURABILITY: Durability = Durability::EveryOperation;
}
