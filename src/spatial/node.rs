//! Nodes: entries in RAM, how they change one entry at a time, and their bytes in a page.
//!
//! Integers are little-endian, and so are coordinates (floats as IEEE 754 bits):
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the node's own number
//!        8      level: 1 for a leaf, in a balanced tree one more than its children
//!        9      0xC1, the mark of a node
//!       10..12  entries in use
//!       12..14  how many of them are data entries; these stand first
//!       14..16  a tag for the tree's own use, 0 in the R-tree, the R*-tree and the Hilbert R-tree
//!       16..20  in trees with links: the node that goes on with this one's entries, 0 for none; entries start at 20
//!       16..    data entries:  low corner, high corner, identifier (8 bytes)
//!               child entries: low corner, high corner, number of the child (4 bytes), place on the Hilbert curve where the
//!               tree keeps one; then 0
//! ```

use super::coordinate::Coordinate;
use super::curve::CurveKey;
use super::geometry::Rect;
use crate::check::{IndexError, Invariant, message, words};
use crate::codec::{crc32, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::nand::Differs;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Number of a node. If nodes are pages, this is the number of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// Number of the root at every height of the tree. A root that splits moves its entries to two new nodes.
pub const ROOT: NodeId = NodeId(1);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// Mark at byte 9 of every node.
#[doc(hidden)]
pub const NODE_MARK: u8 = 0xC1;
/// Bytes of a page before its entries, or before the link if nodes have links.
#[doc(hidden)]
pub const HEADER_BYTES: usize = 16;
const ID_BYTES: usize = 8;
const CHILD_BYTES: usize = 4;

/// Bytes of a superblock for the options of the kind of tree.
pub const OPTION_BYTES: usize = 64;

/// Bound of the height: a node with children has at least two, and a store has at most 2^32 pages.
pub const HEIGHT_MAX: usize = 32;

/// Target of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pointer {
    /// Stored object, with the identifier that the user gave it.
    Data(u64),
    /// Node one level below, or deeper in an unbalanced tree.
    Child(NodeId),
}

/// Entry of a node: a rectangle, and the object or child that it surrounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<C, const D: usize> {
    /// Rectangle of the object, or the union of the rectangles of the child.
    pub rect: Rect<C, D>,
    /// The object or the child.
    pub pointer: Pointer,
    /// Greatest place on the Hilbert curve below a child entry, in trees that use the curve; else 0.
    pub key: CurveKey,
}

impl<C: Coordinate, const D: usize> Entry<C, D> {
    /// Returns an entry for an object.
    pub fn data(rect: Rect<C, D>, id: u64) -> Entry<C, D> {
        Entry { rect, pointer: Pointer::Data(id), key: CurveKey::default() }
    }

    /// Returns an entry for a child.
    pub fn child(rect: Rect<C, D>, child: NodeId) -> Entry<C, D> {
        Entry { rect, pointer: Pointer::Child(child), key: CurveKey::default() }
    }

    /// Number of the child; `None` for a data entry.
    pub fn child_id(&self) -> Option<NodeId> {
        match self.pointer {
            Pointer::Child(child) => Some(child),
            Pointer::Data(_) => None,
        }
    }
}

/// A node in RAM. Data entries stand before child entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<C, const D: usize> {
    /// Level: 1 for a leaf, else greater than the levels of the children.
    pub level: u8,
    /// Tag for the tree's own use.
    pub tag: u16,
    /// Node that continues the entries of this one. Only formats with links have it.
    pub link: Option<NodeId>,
    /// Entries of the node.
    pub entries: Vec<Entry<C, D>>,
}

/// A modification of a node. Layers keep modifications in a log or a buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<C, const D: usize> {
    /// An entry was inserted; the entries from `at` on moved up by one.
    Add {
        /// Place of the new entry.
        at: usize,
        /// The new entry.
        entry: Entry<C, D>,
    },
    /// An entry was removed; the entries after it moved down by one.
    Remove {
        /// Place of the removed entry.
        at: usize,
    },
    /// An entry was replaced, for example because the box of a child changed.
    Update {
        /// Place of the entry.
        at: usize,
        /// Entry after the change.
        entry: Entry<C, D>,
    },
    /// The node is new, or all of it was replaced.
    Whole(Node<C, D>),
}

impl<C: Coordinate, const D: usize> Node<C, D> {
    /// Returns an empty node.
    pub fn new(level: u8) -> Node<C, D> {
        Node::with(level, Vec::new())
    }

    /// Returns an empty leaf with memory for exactly `entries` entries.
    pub fn with_room(entries: usize) -> Node<C, D> {
        Node::with(1, Vec::with_capacity(entries))
    }

    /// Changes the memory of the node to that of `entries` entries, or of its present ones if they are more.
    pub fn set_room(&mut self, entries: usize) {
        self.entries.reserve_exact(entries.saturating_sub(self.entries.len()));
        self.entries.shrink_to(entries);
    }

    /// Returns a node with these entries.
    pub fn with(level: u8, entries: Vec<Entry<C, D>>) -> Node<C, D> {
        Node { level, tag: 0, link: None, entries }
    }

    /// Number of data entries. They stand first.
    pub fn data_count(&self) -> usize {
        self.entries.partition_point(|entry| matches!(entry.pointer, Pointer::Data(_)))
    }

    /// Returns the union of the rectangles of the entries; `None` for an empty node.
    pub fn rect(&self) -> Option<Rect<C, D>> {
        Rect::around(self.entries.iter().map(|entry| &entry.rect))
    }

    /// Returns the greatest key of the entries.
    pub fn key_max(&self) -> CurveKey {
        self.entries.iter().map(|entry| entry.key).max().unwrap_or_default()
    }

    /// Applies a modification. Returns an error if its place does not exist; only a damaged log contains such
    /// a modification.
    pub fn apply(&mut self, change: &Change<C, D>) -> Result<(), &'static str> {
        let count = self.entries.len();
        match change {
            Change::Add { at, entry } if *at <= count => self.entries.insert(*at, *entry),
            Change::Remove { at } if *at < count => {
                self.entries.remove(*at);
            }
            Change::Update { at, entry } if *at < count => self.entries[*at] = *entry,
            Change::Whole(node) => self.clone_from(node),
            _ => return Err("a modification of an entry that the node has not"),
        }
        Ok(())
    }

    /// Copies another node into the memory of this one.
    pub fn copy_from(&mut self, other: &Node<C, D>) {
        (self.level, self.tag, self.link) = (other.level, other.tag, other.link);
        self.entries.clear();
        self.entries.extend_from_slice(&other.entries);
    }
}

/// Layout of the nodes of a tree. The superblock holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFormat {
    /// Kind of tree, in ASCII.
    pub kind: [u8; 8],
    /// Type of the coordinates: [`Coordinate::CODE`].
    pub coordinate: u8,
    /// Number of dimensions.
    pub dimensions: u8,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Number of pages of the store. Node numbers are below it.
    pub page_count: u32,
    /// Bytes of the place on the Hilbert curve in a child entry; 0 if entries have none.
    pub key_bytes: u8,
    /// Bytes of the link in a node: 0 or 4.
    pub link_bytes: u8,
    /// Most entries of a leaf.
    pub leaf_capacity: u16,
    /// Most entries of any other node.
    pub internal_capacity: u16,
    /// Least entries of a node in percent of its capacity, 0 to 50. The root may have fewer.
    pub fill_min_percent: u8,
    /// True if every child is one level below its parent.
    pub is_balanced: bool,
    /// Most nodes of one level that an operation changes if it is narrow ([`super::Nodes::fits_group`]).
    pub group_per_level: u8,
    /// Number of the layer between the tree and its pages; 0 for none.
    pub layer: u8,
    /// Options of the kind of tree, stored for the next mount.
    pub options: [u8; OPTION_BYTES],
}

impl NodeFormat {
    /// Returns the format of a balanced tree with entries of this type: as many entries as a page holds,
    /// nodes at least 40 % full.
    pub fn new<C: Coordinate, const D: usize>(
        kind: [u8; 8],
        (page_bytes, page_count): (usize, u32),
        key_bytes: usize,
    ) -> NodeFormat {
        let mut format = NodeFormat {
            kind,
            coordinate: C::CODE,
            dimensions: D as u8,
            page_bytes: page_bytes as u32,
            page_count,
            key_bytes: key_bytes as u8,
            link_bytes: 0,
            leaf_capacity: 0,
            internal_capacity: 0,
            fill_min_percent: 40,
            is_balanced: true,
            group_per_level: 2,
            layer: 0,
            options: [0; OPTION_BYTES],
        };
        format.fill_pages();
        format
    }

    /// Sets the capacities to the numbers of entries that fit in a page.
    pub fn fill_pages(&mut self) {
        let room = (self.page_bytes as usize).saturating_sub(self.header_bytes());
        let fitting = |entry_bytes: usize| (room / entry_bytes).min(usize::from(u16::MAX)) as u16;
        self.leaf_capacity = fitting(self.data_entry_bytes());
        self.internal_capacity = fitting(self.child_entry_bytes());
    }

    fn header_bytes(&self) -> usize {
        HEADER_BYTES + usize::from(self.link_bytes)
    }

    fn corner_bytes(&self) -> usize {
        let coordinate_bytes = if self.coordinate % 2 == 1 { 4 } else { 8 };
        usize::from(self.dimensions) * coordinate_bytes
    }

    /// Bytes of a data entry.
    pub fn data_entry_bytes(&self) -> usize {
        2 * self.corner_bytes() + ID_BYTES
    }

    /// Bytes of a child entry.
    pub fn child_entry_bytes(&self) -> usize {
        2 * self.corner_bytes() + CHILD_BYTES + usize::from(self.key_bytes)
    }

    /// Most entries of a node of this level.
    pub fn capacity(&self, level: u8) -> usize {
        usize::from(if level == 1 { self.leaf_capacity } else { self.internal_capacity })
    }

    /// Most entries of a node in RAM. A full node has one more before it is split.
    pub fn entries_max(&self) -> usize {
        usize::from(self.leaf_capacity.max(self.internal_capacity)) + 1
    }

    /// Least entries of a node of this level. The root may have fewer.
    pub fn fill_min(&self, level: u8) -> usize {
        let share = self.capacity(level) * usize::from(self.fill_min_percent) / 100;
        share.max(if self.is_balanced { 2 } else { 1 })
    }

    /// Height of the highest tree that fits on the store: the root has two children, and every other node has
    /// the fewest entries allowed. An unbalanced tree may have nodes with half as many entries. If removals
    /// may leave nodes with even fewer, only a tree made sparse on purpose reaches this limit.
    pub fn height_max(&self) -> usize {
        let nodes_max = u64::from(self.page_count.saturating_sub(1));
        let sparse = if self.is_balanced { 1 } else { 2 };
        let fanout_min = (self.fill_min(2) / sparse).max(2) as u64;
        let (mut height, mut bottom, mut nodes) = (1, 1, 1);
        while height < HEIGHT_MAX {
            bottom = if height == 1 { 2 } else { bottom * fanout_min };
            nodes += bottom;
            if nodes > nodes_max {
                break;
            }
            height += 1;
        }
        height
    }

    /// Most nodes that a narrow operation changes, with one more for a tree of the greatest height.
    pub fn group_nodes_max(&self) -> usize {
        self.height_max() * usize::from(self.group_per_level) + 1
    }

    /// Most nodes that a narrow operation holds in RAM: the changed nodes and a path.
    pub fn held_nodes_max(&self) -> usize {
        self.group_nodes_max() + self.height_max() + 1
    }

    /// Returns an error if no tree can work with this format.
    pub fn require_sane<C: Coordinate, const D: usize>(&self) -> Result<(), IndexError> {
        if (self.coordinate, usize::from(self.dimensions)) != (C::CODE, D) {
            return Err(IndexError::other(
                Differs::Record,
                words("the tree has coordinates of another type or dimension"),
            ));
        }
        let unsupported = |what: String| Err(IndexError::Unsupported(what.into()));
        if !(2..=3).contains(&D) {
            return unsupported(message!("{D} dimensions: 2 and 3 are possible"));
        }
        let fits = |capacity: u16, entry_bytes: usize| {
            (4..).contains(&capacity)
                && self.header_bytes() + usize::from(capacity) * entry_bytes <= self.page_bytes as usize
        };
        if !fits(self.leaf_capacity, self.data_entry_bytes())
            || !fits(self.internal_capacity, self.child_entry_bytes())
        {
            let area = (self.page_bytes as usize).saturating_sub(self.header_bytes());
            return unsupported(message!(
                "leaves of {} and internal nodes of {} entries on pages of {} bytes: 4 to {} and 4 to {} are possible",
                self.leaf_capacity,
                self.internal_capacity,
                self.page_bytes,
                area / self.data_entry_bytes(),
                area / self.child_entry_bytes(),
            ));
        }
        if self.fill_min_percent > 50 {
            return unsupported(message!(
                "nodes {} % full at least: 0 to 50 are possible",
                self.fill_min_percent
            ));
        }
        if self.link_bytes != 0 && self.link_bytes != 4 {
            return unsupported(message!("links of {} bytes: 0 and 4 are possible", self.link_bytes));
        }
        if self.page_count < 2 {
            return unsupported(message!("{} pages: a spatial index needs 2 at least", self.page_count));
        }
        Ok(())
    }

    /// Writes a node to a page, with its checksum.
    pub fn encode<C: Coordinate, const D: usize>(&self, id: NodeId, node: &Node<C, D>, page: &mut [u8]) {
        let data = node.data_count();
        assert!(node.entries[data..].iter().all(|e| e.child_id().is_some()), "data entries stand first");
        let used = self.header_bytes()
            + data * self.data_entry_bytes()
            + (node.entries.len() - data) * self.child_entry_bytes();
        assert!(used <= page.len(), "{} entries of {id} do not fit", node.entries.len());
        put_u32(page, 4, id.0);
        page[8] = node.level;
        page[9] = NODE_MARK;
        put_u16(page, 10, node.entries.len() as u16);
        put_u16(page, 12, data as u16);
        put_u16(page, 14, node.tag);
        if self.link_bytes > 0 {
            put_u32(page, HEADER_BYTES, node.link.map_or(0, |id| id.0));
        }
        let mut at = self.header_bytes();
        for entry in &node.entries {
            at += self.put_entry(entry, &mut page[at..]);
        }
        page[used..].fill(0);
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
    }

    /// Reads node `id` from its page. Returns an error if anything contradicts the format, so a decoded node
    /// is safe to use.
    pub fn decode<C: Coordinate, const D: usize>(
        &self,
        id: NodeId,
        page: &[u8],
        node: &mut Node<C, D>,
    ) -> Result<(), IndexError> {
        let corrupted = |invariant, what| Err(IndexError::broken(invariant, what, u64::from(id.0)));
        if get_u32(page, 0) != crc32(&[&page[4..]]) {
            return corrupted(Invariant::S1, "the checksum of the node is wrong");
        }
        if get_u32(page, 4) != id.0 || page[9] != NODE_MARK {
            return corrupted(Invariant::S1, "another page stands in the node's place");
        }
        let (count, data) = (usize::from(get_u16(page, 10)), usize::from(get_u16(page, 12)));
        (node.level, node.tag) = (page[8], get_u16(page, 14));
        node.entries.clear();
        if node.level == 0 || usize::from(node.level) > self.height_max() {
            return corrupted(Invariant::S5, "the level of the node cannot be");
        }
        let is_mixed = !self.is_balanced && node.level > 1;
        let data_is_right =
            if is_mixed { data <= count } else { data == if node.level == 1 { count } else { 0 } };
        if count > self.capacity(node.level) || (count == 0 && id != ROOT) || !data_is_right {
            return corrupted(
                Invariant::S4,
                "the node holds too few or too many entries, or of the wrong kind",
            );
        }
        node.link = None;
        if self.link_bytes > 0 {
            let link = get_u32(page, HEADER_BYTES);
            if link == ROOT.0 || link >= self.page_count {
                return corrupted(Invariant::S2, "the node goes on in a page that there is not");
            }
            node.link = (link > 0).then_some(NodeId(link));
        }
        let mut at = self.header_bytes();
        for i in 0..count {
            let Some((entry, bytes)) = self.entry_at(i < data, page.get(at..).unwrap_or_default()) else {
                return corrupted(Invariant::S2, "an entry of the node is none");
            };
            node.entries.push(entry);
            at += bytes;
        }
        Ok(())
    }

    /// Writes an entry and returns its number of bytes.
    pub fn put_entry<C: Coordinate, const D: usize>(&self, entry: &Entry<C, D>, bytes: &mut [u8]) -> usize {
        let mut at = 0;
        for coordinate in entry.rect.low().into_iter().chain(entry.rect.high()) {
            coordinate.put(&mut bytes[at..]);
            at += C::BYTES;
        }
        match entry.pointer {
            Pointer::Data(id) => {
                put_u64(bytes, at, id);
                self.data_entry_bytes()
            }
            Pointer::Child(child) => {
                put_u32(bytes, at, child.0);
                let key = entry.key.place().to_le_bytes();
                let width = usize::from(self.key_bytes);
                bytes[at + CHILD_BYTES..][..width].copy_from_slice(&key[..width]);
                self.child_entry_bytes()
            }
        }
    }

    /// Reads an entry and returns it with its number of bytes; `None` if the bytes are no entry.
    #[inline]
    pub fn entry_at<C: Coordinate, const D: usize>(
        &self,
        is_data: bool,
        bytes: &[u8],
    ) -> Option<(Entry<C, D>, usize)> {
        let entry_bytes = if is_data { self.data_entry_bytes() } else { self.child_entry_bytes() };
        let bytes = bytes.get(..entry_bytes)?;
        let corner = |from: usize| core::array::from_fn(|axis| C::get(&bytes[(from + axis) * C::BYTES..]));
        let rect = Rect::new(corner(0), corner(D)).ok()?;
        let at = 2 * D * C::BYTES;
        if is_data {
            return Some((Entry::data(rect, get_u64(bytes, at)), entry_bytes));
        }
        let child = get_u32(bytes, at);
        if child <= ROOT.0 || child >= self.page_count {
            return None;
        }
        let mut key = [0; 16];
        let width = usize::from(self.key_bytes);
        key[..width].copy_from_slice(&bytes[at + CHILD_BYTES..]);
        let key = CurveKey::new(u128::from_le_bytes(key));
        Some((Entry { key, ..Entry::child(rect, NodeId(child)) }, entry_bytes))
    }
}
