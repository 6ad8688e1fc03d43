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
//! Deviations: a header of 16 bytes instead of 10, which costs no slot at the published sizes; two programs
//! an overwrite; removal, collection, checks and recovery are ours. Confidence: high for layout and algorithm
//! (read in the authors' code).

mod batch;
mod collect;
mod page;
mod recovery;
mod space;
#[cfg(test)]
mod tests;
mod update;
mod walk;

use super::Keep;
use super::buffer::{Logged, Waiting};
use crate::check::{IndexError, Invariant, message};
use crate::codec::first_number;
use crate::fault::IndexFault;
use crate::index::require_ram;
use crate::nand::{Cause, Nand, NandError, Reading, read_again};
use crate::ordered::buffered::Answers;
use crate::ordered::{Durability, RecordFormat};
use crate::units::Ppn;
use alloc::vec;
use alloc::vec::Vec;
pub use page::Marks;
use page::Shape;
use space::Space;

/// Bits of the number of a page in the order of first programs.
const SEQUENCE_BITS: u32 = 32;

/// Bytes of a page's address.
const ADDRESS_BYTES: usize = 4;
const NONE: u32 = u32::MAX;
const LEVELS_MAX: u8 = 24;

/// How a VMTree-OW is formatted, mounted and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    blocks_retired: u64,
}

/// A VMTree-OW on a chip.
pub type OverwriteTree<N> = Logged<InPlace<N>>;

/// The tree on its pages.
pub struct InPlace<N> {
    nand: N,
    record: RecordFormat,
    marks: Marks,
    leaf: Shape,
    inner: Shape,
    keep: Keep,
    height: u8,
    root: u32,
    /// Nodes above the leaves.
    inner_nodes: u32,
    settings_page: u32,
    sequence: u32,
    space: Space,
    /// The path, leaf first.
    path: Vec<Node>,
    /// A page that is put together.
    birth: Vec<u8>,
    interrupted: bool,
    /// The mount could not end what a power cut or a failing block left undone: nothing is changed any more.
    read_only: bool,
    /// Changes of a batch that a mount found and could not enter: key, 1 for an insertion or 0, value.
    left: Vec<u8>,
    /// Pages that had to be read more than once, to be written anew.
    weak: Vec<u32>,
    counters: Counters,
}

impl<N: Nand> OverwriteTree<N> {
    /// Makes an empty tree on a chip whose contents do not matter.
    pub fn format(nand: N, config: &OverwriteConfig) -> Result<OverwriteTree<N>, IndexError> {
        let (mut tree, waiting) = assemble(nand, config)?;
        tree.format()?;
        Ok(Logged::new(tree, waiting, config.answers))
    }

    /// Finds the tree on a chip that holds one.
    pub fn mount(nand: N, config: &OverwriteConfig) -> Result<OverwriteTree<N>, IndexError> {
        let (mut tree, mut waiting) = assemble(nand, config)?;
        tree.mount()?;
        waiting.take_over(core::mem::take(&mut tree.left));
        Ok(Logged::new(tree, waiting, config.answers))
    }

    /// Gives the chip back.
    pub fn into_nand(self) -> N {
        self.tree.nand
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
        let (key_bytes, value_bytes) = (usize::from(record.key_bytes), usize::from(record.value_bytes));
        let leaf = Shape::new(page_bytes, key_bytes, value_bytes, marks);
        let inner = Shape::new(page_bytes, key_bytes, ADDRESS_BYTES, marks);
        if leaf.capacity < 4 || inner.capacity < 8 {
            return Err(IndexError::Unsupported(message!(
                "a VMTree-OW needs pages of 4 records and 8 children; these of {page_bytes} bytes hold {} and {}",
                leaf.capacity, inner.capacity
            ).into()).into());
        }
        let mut bad = Vec::new();
        for pbn in (0..geometry.blocks).map(crate::units::Pbn) {
            bad.push(nand.is_bad(pbn)?);
        }
        let tree = InPlace {
            nand,
            record,
            marks,
            leaf,
            inner,
            keep,
            height: 1,
            root: NONE,
            inner_nodes: 0,
            settings_page: NONE,
            sequence: first_number(SEQUENCE_BITS, 0) as u32,
            space: Space::new(geometry, bad),
            path: Vec::new(),
            birth: vec![0xff; page_bytes],
            interrupted: false,
            read_only: false,
            left: Vec::new(),
            weak: Vec::new(),
            counters: Counters::default(),
        };
        let needed = tree.ram_bytes_at(tree.height_bound());
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

    fn shape(&self, level: u8) -> Shape {
        if level == 1 { self.leaf } else { self.inner }
    }

    /// A height that the tree does not exceed unless it is mostly empty.
    fn height_bound(&self) -> u8 {
        let fanout = (self.inner.capacity as u64 / 4).max(2);
        let (mut height, mut nodes) = (1, u64::from(self.space.geometry.pages()));
        while nodes > 1 {
            nodes = nodes.div_ceil(fanout);
            height += 1;
        }
        height
    }

    /// A page for each level and four more: one put together, its entries, and the like for a parent.
    fn ram_bytes_at(&self, height: u8) -> usize {
        let pages = usize::from(height) + 4;
        pages * (self.birth.len() + size_of::<Node>()) + self.space.ram_bytes() + size_of::<Self>()
    }

    /// The node of the path at this level.
    fn node(&self, level: u8) -> &Node {
        &self.path[usize::from(level) - 1]
    }

    fn node_mut(&mut self, level: u8) -> &mut Node {
        &mut self.path[usize::from(level) - 1]
    }

    /// The bound of the child on the path, in the node at this level.
    fn bound(&self, level: u8) -> &[u8] {
        let node = self.node(level);
        debug_assert!(node.slot < node.used, "O3: child {} of {}", node.slot, node.used);
        self.inner.key(&node.bytes, node.slot)
    }

    /// Reads a page into a buffer and checks that it is a sound node of this level; returns its slots in use.
    fn read_node(
        &mut self,
        ppn: u32,
        level: u8,
        cause: Cause,
        bytes: &mut [u8],
    ) -> Result<usize, IndexFault> {
        let at = u64::from(ppn);
        if ppn >= self.space.geometry.pages() {
            return Err(IndexError::broken(Invariant::O2, "a child beyond the chip", at).into());
        }
        let shape = self.shape(level);
        self.read_page(ppn, shape, cause, bytes)?;
        if page::level(bytes) != level || !shape.is_born(bytes, ppn) {
            return Err(
                IndexError::broken(Invariant::O1, "no node of this level, or not born whole", at).into()
            );
        }
        let frontier = shape.frontier(bytes, at)?;
        if frontier.soiled > frontier.used || frontier.is_halfway {
            // Where programs fail, what was torn may have to stay so.
            if self.read_only || self.space.has_failed(self.space.geometry.block_of(Ppn(ppn)).0) {
                return Ok(shape.complete(bytes, frontier));
            }
            return Err(IndexError::broken(Invariant::O1, "a slot is torn", at).into());
        }
        Ok(frontier.used)
    }

    /// Reads a page, again where it is not one of this shape and place; what stays so is returned as it is.
    fn read_page(
        &mut self,
        ppn: u32,
        shape: Shape,
        cause: Cause,
        bytes: &mut [u8],
    ) -> Result<(), IndexFault> {
        const WEAK_MAX: usize = 4;
        // What looks torn may have been read wrongly.
        let is_sound = |frontier: page::Frontier| frontier.soiled <= frontier.used && !frontier.is_halfway;
        let is_whole = |data: &[u8], _: &[u8]| {
            shape.is_born(data, ppn) && shape.frontier(data, u64::from(ppn)).is_ok_and(is_sound)
        };
        let reading = read_again(&mut self.nand, (Ppn(ppn), cause), bytes, &mut [], is_whole)?;
        if reading == Reading::Weak && self.weak.len() < WEAK_MAX && !self.weak.contains(&ppn) {
            self.weak.push(ppn);
        }
        Ok(())
    }

    /// Puts the node at a page on the path.
    fn load(&mut self, level: u8, ppn: u32) -> Result<(), IndexFault> {
        debug_assert!((1..=self.height).contains(&level), "O2: level {level} of {}", self.height);
        let place = usize::from(level) - 1;
        debug_assert_ne!(ppn, NONE, "O2: a node is read from nowhere");
        while self.path.len() <= place {
            let bytes = vec![0xff; self.birth.len()];
            self.path.push(Node { ppn: NONE, used: 0, slot: 0, bytes });
        }
        let is_kept = self.keep == Keep::Path || level == self.height || (level == 2 && self.height == 3);
        if self.path[place].ppn == ppn && is_kept {
            return Ok(());
        }
        self.path[place].ppn = NONE;
        let mut bytes = core::mem::take(&mut self.path[place].bytes);
        let read = self.read_node(ppn, level, Cause::Host, &mut bytes);
        self.path[place].bytes = bytes;
        self.path[place].used = read?;
        self.path[place].ppn = ppn;
        Ok(())
    }

    /// Forgets the path: pages were changed behind it.
    fn forget_path(&mut self) {
        self.path.iter_mut().for_each(|node| node.ppn = NONE);
    }

    /// Goes down to the node at `lowest` for a key, or with `beyond` to the next one after that bound.
    fn descend(&mut self, key: &[u8], beyond: bool, lowest: u8) -> Result<(), IndexFault> {
        debug_assert!((1..=self.height).contains(&lowest), "O2: level {lowest} of {}", self.height);
        let mut ppn = self.root;
        for level in (lowest..=self.height).rev() {
            self.load(level, ppn)?;
            if level > lowest {
                let node = self.node(level);
                let slot = self.child_slot(node, key, beyond);
                let slot = slot.ok_or(IndexError::broken(
                    Invariant::O3,
                    "no child has a bound that high",
                    u64::from(ppn),
                ))?;
                ppn = self.address(&node.bytes, slot);
                self.node_mut(level).slot = slot;
            }
            if level < self.height {
                let above = self.node(level + 1);
                self.require_child(&above.bytes, above.slot, &self.node(level).bytes, self.node(level).ppn)?;
            }
        }
        Ok(())
    }

    /// Refuses a page that is not the one which the slot of its parent was filled for: it is younger than the
    /// parent exactly if the slot was filled after the parent's birth.
    fn require_child(&self, parent: &[u8], slot: usize, child: &[u8], ppn: u32) -> Result<(), IndexFault> {
        let is_younger = page::sequence(child) > page::sequence(parent);
        if is_younger == (slot >= page::born(parent)) {
            return Ok(());
        }
        Err(IndexError::broken(
            Invariant::O8,
            "another version of the page that its parent names",
            ppn.into(),
        )
        .into())
    }

    /// The slot of the smallest bound that is not below the key, or is above it; of equal ones the latest.
    fn child_slot(&self, node: &Node, key: &[u8], beyond: bool) -> Option<usize> {
        debug_assert!(node.used <= self.inner.capacity, "O1: {} slots of {}", node.used, self.inner.capacity);
        let mut best: Option<usize> = None;
        for slot in 0..node.used {
            let bound = self.inner.key(&node.bytes, slot);
            let reaches = if beyond { bound > key } else { bound >= key };
            let is_better = |best: usize| bound <= self.inner.key(&node.bytes, best);
            if reaches && self.inner.is_live(&node.bytes, slot) && best.is_none_or(is_better) {
                best = Some(slot);
            }
        }
        debug_assert!(
            best.is_none_or(|slot| self.inner.is_live(&node.bytes, slot)),
            "O3: a dead child is chosen"
        );
        best
    }

    fn address(&self, bytes: &[u8], slot: usize) -> u32 {
        crate::codec::get_u32(self.inner.value(bytes, slot), 0)
    }

    /// The slot of a key in the leaf of the path.
    fn leaf_slot(&self, key: &[u8]) -> Option<usize> {
        self.slot_in(self.node(1), key)
    }

    /// The slot of a key in a leaf.
    fn slot_in(&self, leaf: &Node, key: &[u8]) -> Option<usize> {
        let is_it =
            |&slot: &usize| self.leaf.key(&leaf.bytes, slot) == key && self.leaf.is_live(&leaf.bytes, slot);
        (0..leaf.used).rev().find(is_it)
    }

    fn writable(&self) -> Result<(), IndexFault> {
        if self.read_only { Err(IndexError::WornOut.into()) } else { Ok(()) }
    }

    /// The error of an operation that was not done: its room was made, and where that does not last, blocks
    /// have failed.
    fn refused(&self, error: IndexFault) -> IndexFault {
        if error.is_full() && (self.interrupted || self.read_only) {
            return IndexError::WornOut.into();
        }
        error
    }

    /// The error of what was not done; what was begun of it is given up by finding the tree on the chip
    /// again.
    fn given_up(&mut self, error: IndexFault) -> IndexFault {
        let error = self.refused(error);
        if !self.interrupted || !error.is_refusal() {
            return error;
        }
        match self.readopt() {
            Ok(_) => {
                self.interrupted = false;
                error
            }
            Err(other) => other,
        }
    }

    fn usable(&self) -> Result<(), IndexFault> {
        if self.interrupted { Err(IndexError::Interrupted.into()) } else { Ok(()) }
    }

    /// Programs a page; false when the chip says that it failed.
    fn program(nand: &mut N, ppn: u32, cause: Cause, bytes: &[u8]) -> Result<bool, IndexFault> {
        match nand.program(Ppn(ppn), cause, bytes, &[]) {
            Ok(()) => Ok(true),
            Err(NandError::ProgramFailed(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The class in which the tree runs.
    const DURABILITY: Durability = Durability::EveryOperation;
}
