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

/// The number of a node. Where a node is a page it is the page's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// The root is always node 1, whatever its level: a root that splits moves its entries to two new nodes.
pub const ROOT: NodeId = NodeId(1);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// Byte 9 of every node.
#[doc(hidden)]
pub const NODE_MARK: u8 = 0xC1;
/// Bytes of a page before its entries, or before the link where nodes have one.
#[doc(hidden)]
pub const HEADER_BYTES: usize = 16;
const ID_BYTES: usize = 8;
const CHILD_BYTES: usize = 4;

/// Bytes of a superblock that belong to the kind of tree.
pub const OPTION_BYTES: usize = 64;

/// No node has fewer than two children, and no store more than 2^32 pages.
pub const HEIGHT_MAX: usize = 32;

/// The target of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pointer {
    /// A stored object, by the identifier that the user gave it.
    Data(u64),
    /// A node below.
    Child(NodeId),
}

/// A rectangle and what it surrounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<C, const D: usize> {
    /// The object's rectangle, or the union of the child's.
    pub rect: Rect<C, D>,
    /// The object, or the child.
    pub pointer: Pointer,
    /// Child entries of trees along the Hilbert curve: the last place of the child's entries. Else 0.
    pub key: CurveKey,
}

impl<C: Coordinate, const D: usize> Entry<C, D> {
    /// An entry of a leaf.
    pub fn data(rect: Rect<C, D>, id: u64) -> Entry<C, D> {
        Entry { rect, pointer: Pointer::Data(id), key: CurveKey::default() }
    }

    /// An entry that leads to a child.
    pub fn child(rect: Rect<C, D>, child: NodeId) -> Entry<C, D> {
        Entry { rect, pointer: Pointer::Child(child), key: CurveKey::default() }
    }

    /// The child it leads to, if it is no data.
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
    /// 1 for a leaf; of any other node above the levels of its children.
    pub level: u8,
    /// For the tree's own use.
    pub tag: u16,
    /// Where its format has links: the node that goes on with its entries.
    pub link: Option<NodeId>,
    /// The entries of the node.
    pub entries: Vec<Entry<C, D>>,
}

/// One modification of a node: what the log or the buffer of a layer holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<C, const D: usize> {
    /// An entry was put in place `at`; later entries moved up.
    Add {
        /// The place of the entry.
        at: usize,
        /// The entry.
        entry: Entry<C, D>,
    },
    /// The entry in place `at` was taken out; later entries moved down.
    Remove {
        /// The place of the entry.
        at: usize,
    },
    /// The entry in place `at` is another now: the box of a child changed.
    Update {
        /// The place of the entry.
        at: usize,
        /// The entry as it is now.
        entry: Entry<C, D>,
    },
    /// The node is new, or another throughout.
    Whole(Node<C, D>),
}

impl<C: Coordinate, const D: usize> Node<C, D> {
    /// An empty node.
    pub fn new(level: u8) -> Node<C, D> {
        Node::with(level, Vec::new())
    }

    /// An empty leaf with room for so many entries and no more.
    pub fn with_room(entries: usize) -> Node<C, D> {
        Node::with(1, Vec::with_capacity(entries))
    }

    /// Makes its memory that of so many entries, or of those that it has.
    pub fn set_room(&mut self, entries: usize) {
        self.entries.reserve_exact(entries.saturating_sub(self.entries.len()));
        self.entries.shrink_to(entries);
    }

    /// A node with these entries.
    pub fn with(level: u8, entries: Vec<Entry<C, D>>) -> Node<C, D> {
        Node { level, tag: 0, link: None, entries }
    }

    /// How many entries are data; they stand first.
    pub fn data_count(&self) -> usize {
        self.entries.partition_point(|entry| matches!(entry.pointer, Pointer::Data(_)))
    }

    /// The union of its entries' rectangles; none of an empty node.
    pub fn rect(&self) -> Option<Rect<C, D>> {
        Rect::around(self.entries.iter().map(|entry| &entry.rect))
    }

    /// The greatest key of its entries.
    pub fn key_max(&self) -> CurveKey {
        self.entries.iter().map(|entry| entry.key).max().unwrap_or_default()
    }

    /// Makes a modification so; refused when there is no such place, which only a damaged log asks for.
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

    /// Takes over another node and keeps the memory.
    pub fn copy_from(&mut self, other: &Node<C, D>) {
        (self.level, self.tag, self.link) = (other.level, other.tag, other.link);
        self.entries.clear();
        self.entries.extend_from_slice(&other.entries);
    }
}

/// How the nodes of one tree are laid out. It stands in the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFormat {
    /// The kind of tree, in ASCII.
    pub kind: [u8; 8],
    /// [`Coordinate::CODE`].
    pub coordinate: u8,
    /// Dimensions.
    pub dimensions: u8,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages of the store, which is how many numbers nodes have.
    pub page_count: u32,
    /// Bytes of the place on the Hilbert curve in a child entry; 0 without.
    pub key_bytes: u8,
    /// Bytes of the link in a node, 0 or 4.
    pub link_bytes: u8,
    /// Entries of a leaf at most.
    pub leaf_capacity: u16,
    /// Entries of any other node at most.
    pub internal_capacity: u16,
    /// Entries of a node at least, in percent of its capacity, 0 to 50; the root is exempt.
    pub fill_min_percent: u8,
    /// Whether every child is one level below its parent.
    pub is_balanced: bool,
    /// Nodes of one level that the largest operation changes when it is kept narrow
    /// ([`super::Nodes::fits_group`]).
    pub group_per_level: u8,
    /// The layer between the tree and its pages: 0 nothing, else the number of the layer.
    pub layer: u8,
    /// The options that the kind of tree wants to find again.
    pub options: [u8; OPTION_BYTES],
}

impl NodeFormat {
    /// A format for entries of this type: balanced, 40 % full at least, as many entries as a page holds.
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

    /// Sets the capacities to as many entries as a page holds.
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

    /// Entries of a node of this level at most.
    pub fn capacity(&self, level: u8) -> usize {
        usize::from(if level == 1 { self.leaf_capacity } else { self.internal_capacity })
    }

    /// Entries that any node has in RAM at most: a full one has another before it is split.
    pub fn entries_max(&self) -> usize {
        usize::from(self.leaf_capacity.max(self.internal_capacity)) + 1
    }

    /// Entries of a node of this level at least, unless it is the root.
    pub fn fill_min(&self, level: u8) -> usize {
        let share = self.capacity(level) * usize::from(self.fill_min_percent) / 100;
        share.max(if self.is_balanced { 2 } else { 1 })
    }

    /// The height of the highest tree that finds room: a root of two children and every other node as empty
    /// as may be. Where a removal may leave nodes emptier than that, a limit that only a tree made sparse on
    /// purpose comes to.
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

    /// Nodes that the largest operation changes when it is kept narrow, and one more should the tree be as
    /// high as can be.
    pub fn group_nodes_max(&self) -> usize {
        self.height_max() * usize::from(self.group_per_level) + 1
    }

    /// Nodes that a narrow operation holds at most: those that it changes, and a path.
    pub fn held_nodes_max(&self) -> usize {
        self.group_nodes_max() + self.height_max() + 1
    }

    /// Refuses what no tree can work with.
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

    /// Writes a node into a page, checksum and all.
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

    /// Reads the node `id` from its page; whatever contradicts the format is refused, so what this gives is
    /// safe to use.
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

    /// Writes an entry; returns how many bytes it took.
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

    /// Reads an entry and how many bytes it takes; none when the bytes are no entry.
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
