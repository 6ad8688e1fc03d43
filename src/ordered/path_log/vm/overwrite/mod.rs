//! The VMTree-OW (Ould-Khessal, Fazackerley and Lawrence 2026): a B+-tree on NOR flash, where a page may be
//! overwritten.
//!
//! A node is a page of slots in the order of their arrival, and a change clears bits of it in place (`page`):
//! no node moves, no parent has to be told, and no table says where anything is. Runs on parts that overwrite
//! only ([`Geometry::overwrites`](crate::nand::Geometry::overwrites)).
//!
//! * **Insertion**: the entry is programmed into the next slot, then its used mark. An old entry of the
//!   same key is marked dead after that; of two alike the later one counts.
//! * **Removal**: the dead mark. A leaf that becomes empty loses its entry in the parent, unless it is the
//!   last child, and so does an inner node with nothing else below it (ours; removal is not published).
//! * **Full page**: its live entries are sorted and go to two new pages, or to one when they fill half a page
//!   at most (ours). In the parent (greatest key of the left, left) and (old bound, right) are appended as
//!   one group and committed by one mark; then the old entry is marked dead. A parent without room for them
//!   is written anew in the same way, with both entered. A new root is written, then the old one is marked
//!   retired.
//! * **Search**: among the live slots of an inner node, the smallest bound that is not below the key. The
//!   last bound is all ones.
//! * **Space** (`space`): blocks without live pages are used in turn, erased just before. When none is left
//!   the block with the fewest live pages is emptied: each is written anew, and its parent is overwritten
//!   with the new place.
//! * **Log buffer** (`batch`): records may wait in RAM and are then entered in key order, those of one leaf
//!   by one overwrite.
//! * **Durability**: every operation, without a log buffer; else every sync. An overwrite is two programs,
//!   the slots and then one mark, and a mark that is cut short is one or is none: a torn slot is never in
//!   use. (The published program clears the bit along with the slot.)
//! * **Mounting** (`recovery`): every page is read once to find the newest root, then the tree is walked:
//!   torn slots are marked dead, and what a cut left undone is done.
//! * **Damage**: a page carries the CRC-32 of what it was born with, every slot a check of its own, and a
//!   mark is four bits. Option `slots = bare` is the published page instead, two bitmaps and entries, for the
//!   sake of its counts: bits that flip in slots that were appended are not noticed.
//!
//! Invariants (`check`):
//!
//! * O1: a page was born whole, and the slots in use pass their checks; none beyond them is soiled.
//! * O2: the levels descend one by one, and only the root is marked as one.
//! * O3: keys lie above the bound of the left neighbour and not above the own one; an inner node's greatest
//!   bound is its parent's.
//! * O4: no key is live twice in a page.
//! * O5: the live pages are those that the root leads to, and the page of the settings.
//! * O6: an overwrite clears bits only: a slot is blank before it is filled, and the chip refuses anything
//!   else.
//! * O7: the changes of a batch are whole, or none of them counts.
//! * O8: a page knows its number on the chip, and a child is younger than its parent exactly if its slot is.
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
//! an overwrite; removal, collection, checks and recovery are ours. Confidence: high for layout and algorithm
//! (read in the authors' code).

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
use shapes::NodeShapes;
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
    /// Which nodes are kept from one operation to the next: the path of the last one; or what the published
    /// program has in its three buffers, the root, the leaf at work, and of the nodes between them the one
    /// read last, which is of use again in a tree of three levels only. A parent is read again to be changed.
    pub keep: Keep,
    /// Pages of the log buffer, in which updates wait to be entered together;
    /// [`LOG_PAGES_MAX`](super::LOG_PAGES_MAX) at most, 0 for none.
    pub log_pages: u32,
    /// The answer of an update, where there is a log buffer.
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
    /// The node's page, or none.
    ppn: u32,
    /// Slots in use.
    used: usize,
    /// The slot of the child on the path.
    slot: usize,
    bytes: Vec<u8>,
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
    /// Changes of a batch that a mount found and could not enter: key, 1 for an insertion or 0, value.
    left: Vec<u8>,
    counters: Counters,
}

impl<N: Nand> Logged<InPlace<N>> {
    /// Makes an empty tree on a chip whose contents do not matter.
    pub fn format(nand: N, config: &OverwriteConfig) -> Result<Self, IndexError> {
        let (mut tree, waiting) = assemble(nand, config)?;
        tree.format()?;
        Ok(Logged::new(tree, waiting, config.answers))
    }

    /// Finds the tree on a chip that holds one.
    pub fn mount(nand: N, config: &OverwriteConfig) -> Result<Self, IndexError> {
        let (mut tree, mut waiting) = assemble(nand, config)?;
        tree.mount()?;
        waiting.take_over(core::mem::take(&mut tree.left));
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
            weak: Vec::new(),
            interrupted: false,
            read_only: false,
        };
        let height_bound = pages.height_bound();
        let tree = InPlace {
            pages,
            path: NodePath::new(keep),
            inner_nodes: 0,
            settings_page: NONE,
            left: Vec::new(),
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
