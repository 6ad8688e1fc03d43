//! The Hilbert R-tree: an R-tree whose entries are in the order of the Hilbert curve, as the keys of a
//! B-tree.
//!
//! I. Kamel and C. Faloutsos, "Hilbert R-tree: an improved R-tree using fractals", VLDB 1994. The place of an
//! entry is the place of its rectangle's centre on the curve. A child entry holds the box of the child and
//! the greatest place below it (LHV, largest Hilbert value).
//!
//! - *insert*: descends to the first child whose LHV is not below the place, or to the last child. A full
//!   node shares its entries with one neighbour below the same parent: the right one, or the left one if
//!   there is no right one. If the neighbour is full too, the two nodes become three (2-to-3 split), and the
//!   parent takes one more entry. A full root becomes two nodes.
//! - *remove*: a node with too few entries shares with a neighbour or with both, or is merged with them into
//!   one node fewer.
//! - *search*: as in an R-tree. The search for an entry to remove also compares places.
//!
//! Leaves do not store the places of their entries: they follow from the rectangles.
//!
//! # Invariants, besides those of `paged.rs`
//!
//! - H1 The places of a leaf's entries, and the LHVs of any other node, do not descend. An LHV is the
//!   greatest place below.

use super::coordinate::Coordinate;
use super::curve::{CurveKey, Grid};
use super::geometry::Rect;
pub use super::named::HilbertRTree;
use super::node::{Change, Entry, Node, NodeId, OPTION_BYTES, ROOT};
use super::nodes::{Nodes, read_child, read_root};
use super::tree::{Operation, Packing, Path, Rules, SpatialConfig};
use crate::check::{CheckReport, IndexError, Invariant};
use crate::nand::Cause;
use alloc::string::ToString;
use alloc::vec::Vec;

/// Rules of the Hilbert R-tree.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
pub struct HilbertRules<C, const D: usize> {
    /// Mapping from coordinates to places on the curve.
    pub grid: Grid<C, D>,
}

/// A curve through this domain (or through all numbers), full pages, 40 % full at least, every operation
/// durable.
pub fn config<C: Coordinate, const D: usize>(
    domain: Option<Rect<C, D>>,
) -> SpatialConfig<HilbertRules<C, D>> {
    SpatialConfig::new(HilbertRules { grid: Grid { domain } })
}

impl<C: Coordinate, const D: usize> Rules<C, D> for HilbertRules<C, D> {
    const KIND: [u8; 8] = *b"HilbertR";
    const GROUP_PER_LEVEL: u8 = 3;
    const KEY_BYTES: usize = Grid::<C, D>::key_bytes();

    fn put_options(&self, options: &mut [u8; OPTION_BYTES]) {
        let Some(domain) = &self.grid.domain else { return };
        options[0] = 1;
        for (i, side) in domain.low().into_iter().chain(domain.high()).enumerate() {
            side.put(&mut options[1 + i * C::BYTES..]);
        }
    }

    fn of_options(options: &[u8; OPTION_BYTES]) -> Option<HilbertRules<C, D>> {
        let corner =
            |from: usize| core::array::from_fn(|axis| C::get(&options[1 + (from + axis) * C::BYTES..]));
        let domain = match options[0] {
            0 => None,
            1 => Some(Rect::new(corner(0), corner(D)).ok()?),
            _ => return None,
        };
        Some(HilbertRules { grid: Grid { domain } })
    }

    fn insert<N: Nodes<C, D>>(
        &self,
        op: &mut Operation<'_, N>,
        entry: Entry<C, D>,
    ) -> Result<(), IndexError> {
        let place = self.grid.key(&entry.rect);
        let path = self.descend(op, place)?;
        let leaf = op.nodes.read(path[path.len() - 1].0, Cause::Host)?;
        let at = leaf.entries.partition_point(|entry| self.grid.key(&entry.rect) <= place);
        let mut news = Some((at, entry));
        for depth in (0..path.len()).rev() {
            let Some((at, entry)) = news else { break };
            news = self.add(op, &path[..=depth], at, entry)?;
        }
        Ok(())
    }

    fn remove<N: Nodes<C, D>>(&self, op: &mut Operation<'_, N>, path: Path) -> Result<(), IndexError> {
        let (leaf, at) = path[path.len() - 1];
        op.nodes.change(leaf, Change::Remove { at })?;
        let mut depth = path.len() - 1;
        while self.mend(op, &path, depth)? {
            depth -= 1;
        }
        self.adjust(op, &path, depth)?;
        op.lower_root()
    }

    fn may_hold(&self, node: &Node<C, D>, slot: usize, rect: &Rect<C, D>) -> bool {
        let place = self.grid.key(rect);
        (slot == 0 || node.entries[slot - 1].key <= place) && place <= node.entries[slot].key
    }

    fn curve_key(&self, rect: &Rect<C, D>) -> CurveKey {
        self.grid.key(rect)
    }

    fn allows(&self, packing: Packing) -> bool {
        packing == Packing::Hilbert
    }

    fn check_node(&self, id: NodeId, node: &Node<C, D>, report: &mut CheckReport) {
        let places = || (0..node.entries.len()).map(|at| self.place(node, at));
        if places().zip(places().skip(1)).any(|(a, b)| a > b) {
            report.violation(Invariant::H1, u64::from(id.0), "the places of the entries descend".to_string());
        }
    }

    fn node_key(&self, node: &Node<C, D>) -> CurveKey {
        (0..node.entries.len()).next_back().map_or(CurveKey::default(), |last| self.place(node, last))
    }
}

impl<C: Coordinate, const D: usize> HilbertRules<C, D> {
    /// Returns the place of a data entry, or the greatest place below a child entry.
    fn place(&self, node: &Node<C, D>, at: usize) -> CurveKey {
        let entry = &node.entries[at];
        if entry.child_id().is_some() { entry.key } else { self.grid.key(&entry.rect) }
    }

    /// Returns the path to the leaf to which a place belongs.
    fn descend<N: Nodes<C, D>>(
        &self,
        op: &mut Operation<'_, N>,
        place: CurveKey,
    ) -> Result<Path, IndexError> {
        let mut path = Vec::with_capacity(usize::from(op.height));
        let (mut id, mut node) = (ROOT, read_root(op.nodes, Cause::Host)?);
        loop {
            let slot = node.entries.partition_point(|entry| entry.key < place);
            let slot = slot.min(node.entries.len().saturating_sub(1));
            path.push((id, slot));
            let above = node.level;
            let Some(child) = node.entries.get(slot).and_then(|entry| entry.child_id()) else {
                return Ok(path);
            };
            id = child;
            node = read_child(op.nodes, child, above, Cause::Host)?;
        }
    }

    /// Adds an entry to the node at `depth`. Returns the entry that its parent must take, with the place for
    /// it.
    fn add<N: Nodes<C, D>>(
        &self,
        op: &mut Operation<'_, N>,
        path: &[(NodeId, usize)],
        at: usize,
        entry: Entry<C, D>,
    ) -> Result<Option<(usize, Entry<C, D>)>, IndexError> {
        let depth = path.len() - 1;
        let id = path[depth].0;
        let format = *op.nodes.format();
        let node = op.nodes.read(id, Cause::Host)?;
        let (level, capacity) = (node.level, format.capacity(node.level));
        if node.entries.len() < capacity {
            op.nodes.change(id, Change::Add { at, entry })?;
            self.adjust(op, path, depth)?;
            return Ok(None);
        }
        let mut entries = node.entries.clone();
        entries.insert(at, entry);
        if depth == 0 {
            let halves = shares(&entries, 2).map(|half| Node::with(level, half.to_vec()));
            let halves: Vec<_> = halves.map(|node| (self.node_key(&node), node)).collect();
            op.counts.splits += 1;
            op.raise_root(halves.into_iter().map(|(key, node)| (node, key)))?;
            return Ok(None);
        }
        let (parent, slot) = path[depth - 1];
        let children = op.nodes.read(parent, Cause::Host)?.entries.len();
        let other = if slot + 1 < children { slot + 1 } else { slot - 1 };
        let neighbour = self.child(op, parent, other)?;
        let theirs = &read_child(op.nodes, neighbour, level + 1, Cause::Host)?.entries;
        let place = if other > slot { entries.len() } else { 0 };
        entries.splice(place..place, theirs.iter().copied());
        let first = slot.min(other);
        let mut ids = if other > slot { alloc::vec![id, neighbour] } else { alloc::vec![neighbour, id] };
        let is_split = entries.len() > 2 * capacity;
        if is_split {
            ids.push(op.nodes.allocate()?);
            op.counts.splits += 1;
        } else {
            op.counts.redistributions += 1;
        }
        self.write_shares(op, level, &entries, &ids)?;
        for (i, child) in ids[..2].iter().enumerate() {
            self.update(op, (parent, first + i), *child)?;
        }
        if is_split {
            return Ok(Some((first + 2, self.entry_of(op, ids[2])?)));
        }
        self.adjust(op, path, depth - 1)?;
        Ok(None)
    }

    /// Mends the node at `depth` if it has too few entries. Returns true if its parent lost a child.
    fn mend<N: Nodes<C, D>>(
        &self,
        op: &mut Operation<'_, N>,
        path: &Path,
        depth: usize,
    ) -> Result<bool, IndexError> {
        let format = *op.nodes.format();
        let node = op.nodes.read(path[depth].0, Cause::Host)?;
        let (level, least) = (node.level, format.fill_min(node.level));
        if depth == 0 || node.entries.len() >= least {
            return Ok(false);
        }
        let (parent, slot) = path[depth - 1];
        let children = op.nodes.read(parent, Cause::Host)?.entries.len();
        let mut ids = Vec::new();
        let mut entries = Vec::new();
        let mut first = slot;
        for together in 2..=children.min(3) {
            first = slot.saturating_sub(if together == 2 { usize::from(slot + 1 == children) } else { 1 });
            first = first.min(children - together);
            ids.clear();
            entries.clear();
            for at in first..first + together {
                let id = self.child(op, parent, at)?;
                // The node itself has too few entries now, so its fill is not checked again.
                let node = if at == slot {
                    op.nodes.read(id, Cause::Host)?
                } else {
                    read_child(op.nodes, id, level + 1, Cause::Host)?
                };
                entries.extend_from_slice(&node.entries);
                ids.push(id);
            }
            if entries.len() >= together * least {
                break;
            }
        }
        let is_merge = entries.len() < ids.len() * least;
        let freed = if is_merge { ids.pop() } else { None };
        self.write_shares(op, level, &entries, &ids)?;
        for (i, child) in ids.iter().enumerate() {
            self.update(op, (parent, first + i), *child)?;
        }
        if let Some(freed) = freed {
            op.counts.merges += 1;
            op.nodes.free(freed);
            op.nodes.change(parent, Change::Remove { at: first + ids.len() })?;
        } else {
            op.counts.redistributions += 1;
            self.adjust(op, path, depth - 1)?;
        }
        Ok(is_merge)
    }

    fn child<N: Nodes<C, D>>(
        &self,
        op: &mut Operation<'_, N>,
        parent: NodeId,
        slot: usize,
    ) -> Result<NodeId, IndexError> {
        let entry = op.nodes.read(parent, Cause::Host)?.entries.get(slot);
        let child = entry.and_then(|entry| entry.child_id());
        child.ok_or(IndexError::broken(Invariant::S4, "a parent without such a child", u64::from(parent.0)))
    }

    /// Divides entries evenly among nodes of a level.
    fn write_shares<N: Nodes<C, D>>(
        &self,
        op: &mut Operation<'_, N>,
        level: u8,
        entries: &[Entry<C, D>],
        ids: &[NodeId],
    ) -> Result<(), IndexError> {
        shares(entries, ids.len()).zip(ids).try_for_each(|(share, id)| {
            op.nodes.change(*id, Change::Whole(Node::with(level, share.to_vec())))
        })
    }

    /// Returns the entry that the parent of a node must hold.
    fn entry_of<N: Nodes<C, D>>(
        &self,
        op: &mut Operation<'_, N>,
        id: NodeId,
    ) -> Result<Entry<C, D>, IndexError> {
        let node = op.nodes.read(id, Cause::Host)?;
        let Some(rect) = node.rect() else {
            return Err(IndexError::broken(Invariant::S4, "an empty node has a parent", u64::from(id.0)));
        };
        Ok(Entry { key: self.node_key(node), ..Entry::child(rect, id) })
    }

    /// Updates the entry of a child in its parent. Returns true if the entry changed.
    fn update<N: Nodes<C, D>>(
        &self,
        op: &mut Operation<'_, N>,
        (parent, at): (NodeId, usize),
        child: NodeId,
    ) -> Result<bool, IndexError> {
        let entry = self.entry_of(op, child)?;
        if op.nodes.read(parent, Cause::Host)?.entries[at] == entry {
            return Ok(false);
        }
        op.nodes.change(parent, Change::Update { at, entry })?;
        Ok(true)
    }

    /// Adjusts boxes and LHVs above the node at `depth` of a path, until one does not change.
    fn adjust<N: Nodes<C, D>>(
        &self,
        op: &mut Operation<'_, N>,
        path: &[(NodeId, usize)],
        depth: usize,
    ) -> Result<(), IndexError> {
        for above in (0..depth).rev() {
            if !self.update(op, path[above], path[above + 1].0)? {
                break;
            }
        }
        Ok(())
    }
}

/// Cuts entries into `parts` even parts.
fn shares<T>(entries: &[T], parts: usize) -> impl Iterator<Item = &[T]> {
    let count = entries.len();
    (0..parts).map(move |part| &entries[count * part / parts..count * (part + 1) / parts])
}
