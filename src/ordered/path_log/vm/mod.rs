//! The VMTree (Ould-Khessal, Fazackerley and Lawrence 2026): a B+-tree on raw NAND whose parents are updated
//! late.
//!
//! A node is rewritten out of place, as in the wandering tree. But a table in RAM leads from the place that
//! the parent names to the present place of the node (`path_log::ground::moves`). So neither the parent nor
//! the nodes above are written. If the table has no room for a move, the parent is written and names the
//! present places of all its children, which frees their entries. A parent that is written because of a split
//! does the same.
//!
//! * **Insertion**: writes the leaf and enters its move in the table. Without room for the entry the parent
//!   is written and its move entered, and so on up to the root, whose place is known. A full node is split;
//!   its first ceil((d+1)/2) entries go left.
//! * **Removal** (not published): the leaf is rewritten as by an insertion. A node that becomes empty
//!   disappears, and its parent is written.
//! * **Log buffer** (`buffer`): records may wait in RAM, and are then entered in key order.
//! * **Space**: the published program erases single dead pages of a DataFlash, or copies a whole block
//!   through RAM and back to the same addresses. Raw NAND allows neither safely. Here the log of
//!   [`crate::log`] erases blocks and has live pages moved, and such a move is an entry in the table like any
//!   other. If pages run short, parents are written to empty the table.
//! * **Durability**: every operation, without a log buffer. A page tells if it is the last of its operation,
//!   and by which named place it is found.
//! * **Mounting**: the newest checkpoint holds the table. The pages written since are read in order, up to
//!   the last one that ends an operation. Each tells which place it succeeds, and that its own place leads
//!   nowhere. Then a walk over the inner nodes drops entries that no parent names. The result must match the
//!   digest of the last page, so an unreadable page in between is noticed.
//!
//! Page: a header of 10 bytes as published, then [`crate::ordered::node::NodeShape`].
//!
//! ```text
//! at  bytes  field
//!  0    4    place that the parent names, or 0xFFFFFFFF when the parent is written in the same operation
//!  4    1    flags: 1 = the place above leads here, 2 = root, 4 = last page of its operation
//!  5    1    height of the tree, when root
//!  6    4    digest of the table of moves and the root, as they are after this page
//! ```
//!
//! Bounds: the first bound of a root is zero, and a node keeps its first bound when its first child
//! disappears. So no key ever lowers a bound that a parent names. The child that becomes the first has a
//! higher first bound of its own. The bound that its parent names counts, and a copy to be changed gets that
//! bound.
//!
//! Deviations: the header has other fields. An inner node of 512 bytes has 62 children, the published one 63,
//! since the node stores the first bound. Removal, recovery, log and wear levelling are ours. Confidence:
//! high for layout, table and algorithm (read in the authors' code); recovery and removal are our own.

mod buffer;
mod config;
pub mod overwrite;
#[cfg(test)]
#[cfg(feature = "full")]
mod tests;

#[cfg(feature = "unstable")]
pub use buffer::{Entered, LOG_PAGES_MAX, Logged, TakesBatches};
#[cfg(not(feature = "unstable"))]
pub(crate) use buffer::{Entered, LOG_PAGES_MAX, Logged, TakesBatches};
pub use config::{TableConfig, VmConfig};

use crate::bits;
use crate::check::{IndexError, Invariant, message};
use crate::codec::{get_u32, put_u32};
use crate::fault::IndexFault;
use crate::log::tag::{LEVELS_MAX, Tag};
use crate::log::{Root, Runs};
use crate::nand::{Cause, Geometry, Nand};
use crate::ordered::change::Change;
use crate::ordered::node::NodeShape;
use crate::ordered::path_log::ground::batch::batch_pages;
use crate::ordered::path_log::ground::moves::Moves;
pub use crate::ordered::path_log::ground::moves::{Duplicates, Keep};
use crate::ordered::path_log::ground::room::INSERT_RESERVE_BLOCKS;
use crate::ordered::path_log::ground::{
    ADDRESS_BYTES, Layouts, MovedNodes, Nodes, RawConfig, RawScheme, RawTree, Shapes, Sibling, Step,
    height_bound,
};
use crate::ordered::{Durability, RecordFormat};
use crate::units::Ppn;
use buffer::Waiting;
use core::ops::Range;

const HEADER_BYTES: usize = 10;
const NONE: u32 = u32::MAX;

const MAPPED: u8 = 1;
const ROOT: u8 = 2;
const LAST: u8 = 4;

crate::ordered::forward::named_tree! {
    /// A VMTree on a chip.
    ///
    /// ```
    /// # use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
    /// # let chip = SimChip::new(&mlc_64m().with_blocks(64))?;
    /// use nandex::{OrderedIndex, RecordFormat, VmConfig, VmTree};
    ///
    /// let config = VmConfig::new(RecordFormat::new(2, 4));
    /// let mut tree = VmTree::format(chip, &config)?;
    /// tree.insert(&[0, 7], &[1; 4])?;
    /// tree.close()?;
    /// let mut tree = VmTree::mount(tree.into_nand(), &config)?;
    /// assert!(tree.get(&[0, 7], &mut [0; 4])?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    VmTree<N> = Logged<RawTree<N, MappedPages>>, set up by VmConfig
}

/// Scheme in which a node fills a page, except for a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub struct MappedPages {
    page_bytes: usize,
    record: RecordFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    named: u32,
    flags: u8,
    height: u8,
    digest: u32,
}

impl Header {
    fn encode(&self, page: &mut [u8]) {
        debug_assert!(self.flags & !(MAPPED | ROOT | LAST) == 0, "R9: flags {:#x}", self.flags);
        put_u32(page, 0, self.named);
        page[4] = self.flags;
        page[5] = self.height;
        put_u32(page, 6, self.digest);
    }

    fn decode(page: &[u8]) -> Header {
        Header { named: get_u32(page, 0), flags: page[4], height: page[5], digest: get_u32(page, 6) }
    }
}

impl Shapes for MappedPages {
    type Config = TableConfig;

    fn shape(&self, _layout: u8, level: u8, _height: u8) -> NodeShape {
        let value_bytes = if level == 1 { usize::from(self.record.value_bytes) } else { ADDRESS_BYTES };
        NodeShape::fitting(self.page_bytes - HEADER_BYTES, usize::from(self.record.key_bytes), value_bytes)
    }

    fn page_area(&self, _layout: u8, _level: u8, _height: u8) -> Range<usize> {
        HEADER_BYTES..self.page_bytes
    }

    fn path_area(&self, _layout: u8, level: u8, _height: u8) -> Range<usize> {
        let page = self.path_page(level);
        page.start + HEADER_BYTES..page.end
    }

    fn path_bytes(&self, height: u8) -> usize {
        usize::from(height) * self.page_bytes
    }

    fn height_max(&self, _layout: u8) -> u8 {
        LEVELS_MAX as u8
    }

    fn root_entries_max(&self, layout: u8, height: u8) -> usize {
        self.shape(layout, height, height).capacity
    }

    fn pages_per_update(&self, height: u8) -> u32 {
        // A page without a node may be needed at the first two places of a block and at the last.
        2 * (2 * u32::from(height) + 1)
    }

    /// Counts no parents, which are rarely written. A move that needs more programs than are left is refused,
    /// and earlier moves stay.
    fn programs_per_move(&self, _height: u8) -> u32 {
        2
    }
}

impl Layouts for MappedPages {}

impl MovedNodes for MappedPages {
    const MAPS_MOVES: bool = true;
    const LESS_RAM: &'static [usize] = &[8 * MAPPING_BYTES, 0];

    fn moves(
        &self,
        geometry: Geometry,
        config: &TableConfig,
        ram_bytes: Option<usize>,
    ) -> Result<Moves, IndexFault> {
        let most = geometry.pages() as usize * 4;
        let share = ram_bytes.map_or(MAPPING_BYTES, |ram| MAPPING_BYTES_MIN.max(ram / 8));
        let bytes = config.bytes.unwrap_or_else(|| share.min(most / 8).max(TableConfig::BYTES_MIN));
        if !(TableConfig::BYTES_MIN..=most.max(TableConfig::BYTES_MIN)).contains(&bytes) {
            return Err(IndexError::unsupported(message!(
                "a table of moved nodes of {bytes} bytes: {} to {most} are possible on this chip",
                TableConfig::BYTES_MIN
            ))
            .into());
        }
        Ok(Moves::new(geometry, bytes, config.keep, config.duplicates))
    }

    fn dress_half(tag: &mut Tag, page: &mut [u8]) {
        tag.journal = true;
        Header { named: NONE, flags: 0, height: 0, digest: 0 }.encode(page);
    }

    fn restore_moves<N: Nand>(tree: &mut Nodes<N, MappedPages>, pages: &Runs) -> Result<(), IndexFault> {
        restore(tree, pages)
    }
}

impl RawScheme for MappedPages {
    const KIND: &'static [u8] = b"vmtree 1";

    fn new(page_bytes: usize, record: RecordFormat) -> Result<MappedPages, IndexFault> {
        let scheme = MappedPages { page_bytes, record };
        if scheme.shape(0, 1, 2).capacity < 4 || scheme.shape(0, 2, 2).capacity < 4 {
            return Err(IndexError::unsupported(message!(
                "a VMTree needs pages that hold 4 records of this size; these have {page_bytes} bytes"
            ))
            .into());
        }
        Ok(scheme)
    }

    /// Writes the path's nodes from `lowest` up, until the table takes a move, or to the root.
    fn write_path<N: Nand>(
        tree: &mut Nodes<N, MappedPages>,
        lowest: u8,
        mut sibling: Option<Sibling>,
        cause: Cause,
    ) -> Result<(), IndexFault> {
        // The copies of other nodes may be of nodes that are gone.
        debug_assert!((1..=tree.path.height).contains(&lowest), "R2: level {lowest} of {}", tree.path.height);
        for other in (1..lowest).chain(tree.path.height + 1..=LEVELS_MAX as u8) {
            tree.path.step_mut(other).page = NONE;
        }
        if lowest > 1 {
            tree.resolve_children(lowest);
        }
        for level in lowest..tree.path.height {
            tree.retire(level);
            let page = tree.log.allocate(cause)?;
            let named = if sibling.is_none() { tree.map_move(level, page) } else { None };
            write_node(tree, (level, page), named, cause)?;
            if named.is_some() {
                return Ok(());
            }
            reread(tree, level + 1, cause)?;
            tree.resolve_children(level + 1);
            if let Some(half) = sibling.take() {
                sibling = tree.enter_sibling(level + 1, &half)?;
            }
            tree.path.set_child(level + 1, page);
        }
        match sibling {
            Some(half) => grow(tree, &half, cause),
            None => write_root(tree, cause),
        }
    }
}

impl<N: Nand> Logged<RawTree<N, MappedPages>> {
    /// Formats the chip for a tree that is set up like this.
    pub fn format(nand: N, config: &VmConfig) -> Result<Self, IndexError> {
        let (waiting, below) = set_up(&nand, config)?;
        let tree = RawTree::format(nand, &below)
            .map_err(|error| in_all(error, config.tree.ram_bytes, buffer_bytes(&waiting)))?;
        Ok(Logged::new(tree, waiting, config.answers))
    }

    /// Finds the tree on the chip again and runs it like this.
    pub fn mount(nand: N, config: &VmConfig) -> Result<Self, IndexError> {
        let (waiting, below) = set_up(&nand, config)?;
        let tree = RawTree::mount(nand, &below)
            .map_err(|error| in_all(error, config.tree.ram_bytes, buffer_bytes(&waiting)))?;
        Ok(Logged::new(tree, waiting, config.answers))
    }

    /// Gives the chip back.
    pub fn into_nand(self) -> N {
        self.tree.into_nand()
    }
}

/// Refusal of the tree below a buffer, with the numbers of both.
fn in_all(error: IndexError, ram_bytes: Option<usize>, buffer_bytes: usize) -> IndexFault {
    match (error, ram_bytes) {
        (IndexError::TooLittleRam { what, needed, .. }, Some(given)) => {
            IndexError::TooLittleRam { what, given, needed: needed + buffer_bytes }.into()
        }
        (error, _) => error.into(),
    }
}

fn buffer_bytes(waiting: &Waiting) -> usize {
    size_of::<Waiting>() + 64 + waiting.ram_bytes()
}

/// Makes the log buffer, and the configuration of the tree below it.
fn set_up(nand: &impl Nand, config: &VmConfig) -> Result<(Waiting, RawConfig<TableConfig>), IndexFault> {
    let geometry = nand.geometry();
    let VmConfig { tree, log_pages, .. } = config;
    let scheme = MappedPages::new(geometry.page_bytes as usize, tree.record)?;
    let waiting = Waiting::new(tree.record, *log_pages, (tree.durability, geometry.page_bytes))?;
    let height = height_bound(&scheme, geometry.pages());
    let in_blocks = |pages: u32| pages.div_ceil(geometry.pages_per_block);
    let moves = scheme.moves(geometry, &tree.scheme, tree.ram_bytes)?;
    let update_blocks = in_blocks(3 * scheme.pages_per_update(height) + moves.pages_kept());
    let records = waiting.capacity();
    let batch_blocks = if records > 0 { in_blocks(batch_pages(records + 1, height)) } else { 0 };
    if batch_blocks > geometry.blocks / 4 {
        return Err(IndexError::unsupported(message!(
            "a log buffer of {records} records may take {batch_blocks} blocks at once, more than a quarter of this chip"
        )).into());
    }
    // Small blocks must be collected before an update finds too few.
    let needed = INSERT_RESERVE_BLOCKS + update_blocks.max(batch_blocks);
    let below = RawConfig {
        durability: Durability::EveryOperation,
        collect_at_blocks: tree.collect_at_blocks.max(needed),
        ram_bytes: tree.ram_bytes.map(|ram| ram.saturating_sub(buffer_bytes(&waiting))),
        ..*tree
    };
    Ok((waiting, below))
}

impl<N: Nand> TakesBatches for RawTree<N, MappedPages> {
    const REPLACES_IN_ROOM: bool = true;

    fn usable(&self) -> Result<(), IndexFault> {
        self.nodes.usable()
    }

    fn make_room_for_batch(&mut self, changes: usize, have_inserts: bool) -> Result<(), IndexFault> {
        RawTree::make_room_for_batch(self, changes, have_inserts)
    }

    fn apply_batch(&mut self, changes: &[Change<'_>]) -> Result<Entered, IndexFault> {
        RawTree::apply_batch(self, changes).map(|()| Entered::All)
    }

    fn holds(&mut self, key: &[u8]) -> Result<bool, IndexFault> {
        self.nodes.get_by_path(key, None)
    }

    fn peek_key(&mut self, key: &[u8]) -> Result<bool, IndexFault> {
        self.nodes.look_up(key, None, Cause::Check)
    }
}

/// Bytes of the table as published.
const MAPPING_BYTES: usize = 1024;

/// Bytes of the table if the RAM does not suffice for the published size.
const MAPPING_BYTES_MIN: usize = 512;

impl MappedPages {
    /// Bytes of the path's page at `level` in its buffer.
    fn path_page(&self, level: u8) -> Range<usize> {
        debug_assert!(level >= 1, "R2: leaves have level 1");
        let start = (usize::from(level) - 1) * self.page_bytes;
        start..start + self.page_bytes
    }
}

/// Reads a node again before it is changed, as the published program with three buffers must. The copy in RAM
/// stays the same.
fn reread<N: Nand>(tree: &mut Nodes<N, MappedPages>, level: u8, cause: Cause) -> Result<(), IndexFault> {
    if tree.moves.keep() == Keep::ThreeBuffers {
        tree.log.read(Ppn(tree.path.step(level).page), cause)?;
    }
    Ok(())
}

/// Programs the path's node at `level`. `named` is the address by which its parent names it.
fn write_node<N: Nand>(
    tree: &mut Nodes<N, MappedPages>,
    (level, page): (u8, Ppn),
    named: Option<Ppn>,
    cause: Cause,
) -> Result<(), IndexFault> {
    debug_assert!((1..=tree.path.height).contains(&level), "R2: level {level} of {}", tree.path.height);
    let is_root = level == tree.path.height;
    debug_assert!(named.is_none() || !is_root, "R9: a root has no parent that names it");
    let is_last = (named.is_some() || is_root) && !tree.moves.goes_on;
    let flag = |set, flag| if set { flag } else { 0 };
    let flags = flag(named.is_some(), MAPPED) | flag(is_root, ROOT) | flag(is_last, LAST);
    let height = tree.path.height;
    let root = if is_root { page } else { tree.root };
    let header =
        Header { named: named.map_or(NONE, |p| p.0), flags, height, digest: tree.moves.digest(root) };
    let tag = Tag { journal: true, height, ..tree.path.tag(level, level) };
    let area = tree.path.scheme.path_page(level);
    header.encode(&mut tree.path.buffer[area.clone()]);
    tree.log.write(page, tag, &tree.path.buffer[area], cause)?;
    debug_assert!(tree.log.is_valid(page), "R5: {page} was written and is not valid");
    // The one of the three buffers that was just written takes the next node.
    let at_hand = if tree.moves.keep() == Keep::Path { page.0 } else { NONE };
    let step = tree.path.step_mut(level);
    (step.page, step.lowest_level) = (at_hand, level);
    Ok(())
}

fn write_root<N: Nand>(tree: &mut Nodes<N, MappedPages>, cause: Cause) -> Result<(), IndexFault> {
    let level = tree.path.height;
    tree.retire(level);
    place_root(tree, cause)
}

/// Programs the path's root to a new page.
fn place_root<N: Nand>(tree: &mut Nodes<N, MappedPages>, cause: Cause) -> Result<(), IndexFault> {
    let level = tree.path.height;
    let page = tree.log.allocate(cause)?;
    write_node(tree, (level, page), None, cause)?;
    (tree.root, tree.path.root_entries) = (page, tree.path.step(level).count);
    tree.log.set_root(Root { ppn: page, height: level });
    Ok(())
}

/// Puts a new root above the two halves of the old one. The half on the path is not written yet.
fn grow<N: Nand>(tree: &mut Nodes<N, MappedPages>, half: &Sibling, cause: Cause) -> Result<(), IndexFault> {
    let level = tree.path.height;
    tree.retire(level);
    let page = tree.log.allocate(cause)?;
    tree.path.height += 1;
    debug_assert!(usize::from(tree.path.height) <= LEVELS_MAX, "R2: a height of {}", tree.path.height);
    write_node(tree, (level, page), None, cause)?;
    let (left, right) = if half.is_left { (half.page, page) } else { (page, half.page) };
    let top = tree.path.shape(tree.path.height);
    let root = tree.path.node_mut(level + 1);
    root.fill(0xff);
    top.insert(root, 0, 0, (&half.separator, &left.0.to_le_bytes()));
    top.insert(root, 1, 1, (&half.separator, &right.0.to_le_bytes()));
    *tree.path.step_mut(level + 1) = Step { count: 2, slot: u16::from(half.is_left), ..Step::default() };
    tree.path.zero_bound(level + 1);
    debug_assert_ne!(page, half.page, "R3: both halves of the root in one page");
    place_root(tree, cause)
}

/// Header of a page, and the level of its node.
fn header_of<N: Nand>(tree: &mut Nodes<N, MappedPages>, page: Ppn) -> Result<(Header, u8), IndexFault> {
    tree.log.read(page, Cause::Recovery).map(|page| (Header::decode(page.data), page.tag.lowest_level))
}

/// Enters the moves of the pages since the checkpoint. `complete` and `last` tell which page ends the last
/// complete operation. Only moves of places that are named are entered. While the named places are not known,
/// moves of leaves are left out if there is neither a place in the table nor room for them in the RAM of a
/// path, which the tree takes only after the mount. True if some were left out.
fn replay<N: Nand>(
    tree: &mut Nodes<N, MappedPages>,
    pages: &Runs,
    (complete, last): (usize, Option<(Header, u8)>),
    named: Option<&[bits::Word]>,
) -> Result<bool, IndexFault> {
    let (chip_pages, mut is_short) = (tree.log.geometry().pages(), false);
    let path_bytes = tree.path.scheme.path_bytes(height_bound(&tree.path.scheme, chip_pages) + 1);
    let most = path_bytes / (2 * size_of::<(u32, u32)>());
    for (at, page) in pages.iter().take(complete).enumerate() {
        let (header, level) = match last {
            Some(last) if at + 1 == complete => last,
            _ => header_of(tree, page)?,
        };
        tree.moves.take(page.0);
        let is_move = header.flags & MAPPED != 0 && header.named < chip_pages && header.named != page.0;
        if is_move && named.is_none_or(|named| bits::is_set(named, header.named as usize)) {
            let most = if level == 1 && named.is_none() { most } else { usize::MAX };
            is_short |= !tree.moves.restore(header.named, page.0, most);
        }
        if header.flags & ROOT != 0 {
            if header.height == 0 || header.height > LEVELS_MAX as u8 {
                return Err(IndexFault::corrupted("an impossible height", page.0));
            }
            (tree.root, tree.path.height) = (page, header.height);
        }
    }
    Ok(is_short)
}

/// Does the work of [`RawScheme::restore_moves`].
fn restore<N: Nand>(tree: &mut Nodes<N, MappedPages>, pages: &Runs) -> Result<(), IndexFault> {
    // The last page of the last complete operation.
    let (mut complete, mut last, mut last_page) = (pages.len(), None, None);
    for page in pages.iter().rev() {
        last = Some(header_of(tree, page)?).filter(|(header, _)| header.flags & LAST != 0);
        if last.is_some() {
            last_page = Some(page);
            break;
        }
        complete -= 1;
    }
    let is_short = replay(tree, pages, (complete, last), None)?;
    for page in pages.iter().skip(complete) {
        tree.log.invalidate(page);
    }
    tree.log.finish();
    tree.log.set_root(Root { ppn: tree.root, height: tree.path.height });
    if is_short {
        let mut named = bits::clear(tree.log.geometry().pages() as usize);
        tree.keep_moves_in_use(Some(&mut named))?;
        replay(tree, pages, (complete, last), Some(&named))?;
    } else if !pages.is_empty() {
        tree.keep_moves_in_use(None)?;
    }
    tree.moves.end_mount();
    tree.hold_moved();
    if last.is_some_and(|(last, _)| last.digest != tree.moves.digest(tree.root)) {
        let page = last_page.map_or(0, |page| page.0);
        return Err(IndexFault::broken(Invariant::R9, "pages written before this one are missing", page));
    }
    Ok(())
}
