//! The seam between trees and what keeps their nodes: read a node, change it entry by entry, commit an
//! operation.
//!
//! A tree is written once against [`Nodes`]; whether a node is a page ([`super::paged::PagedNodes`]), or a
//! page and a buffer of modifications, or spread over several pages, is the affair of the implementation.

use super::coordinate::Coordinate;
use super::node::{Change, Node, NodeFormat, NodeId, ROOT};
use crate::check::{CheckReport, IndexError, Invariant, message};
use crate::index::{Durability, IndexStats};
use crate::nand::Cause;
use crate::store::space::Space;
use crate::units::Lpn;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec::Vec;

/// Where the nodes of a tree are kept.
///
/// The contract:
///
/// - Between [`Nodes::begin`] and [`Nodes::commit`] or [`Nodes::rollback`] stands an *operation*. Its changes
///   are seen by its own reads at once. A commit makes all of them so, or, where it answers
///   [`IndexError::Full`], none. A rollback forgets them. What survives a power cut is a matter of
///   [`Nodes::durability`].
/// - A node that was read within an operation is kept in RAM until the operation ends or the node is
///   forgotten: reading it again costs nothing.
/// - Outside an operation only reads are allowed, and a read costs what it costs.
/// - A new node is allocated and then changed by [`Change::Whole`] before it is read. A node that is freed is
///   not read again and its number not given out before the operation is committed.
/// - After a write with unknown effect everything answers [`IndexError::Interrupted`] until the next mount.
/// - The root is [`ROOT`] for ever; an implementation is born with an empty leaf there.
pub trait Nodes<C: Coordinate, const D: usize>: crate::shared::MaybeSend {
    /// How the nodes are laid out.
    fn format(&self) -> &NodeFormat;

    /// The promise about a power cut.
    fn durability(&self) -> Durability;

    /// Begins an operation.
    fn begin(&mut self) -> Result<(), IndexError>;

    /// Reads a node.
    fn read(&mut self, id: NodeId, cause: Cause) -> Result<&Node<C, D>, IndexError>;

    /// Tells that a node read within the operation and not changed need not be kept.
    fn forget(&mut self, id: NodeId);

    /// Takes a number for a new node.
    fn allocate(&mut self) -> Result<NodeId, IndexError>;

    /// Changes a node that was read or allocated within the operation.
    fn change(&mut self, id: NodeId, change: Change<C, D>) -> Result<(), IndexError>;

    /// Gives a node up.
    fn free(&mut self, id: NodeId);

    /// Whether the changes so far can be committed with the durability promised. A tree that is told no rolls
    /// back and does the operation again in a way that changes at most [`NodeFormat::group_nodes_max`] nodes.
    fn fits_group(&self) -> bool;

    /// Ends the operation and makes its changes so.
    fn commit(&mut self) -> Result<(), IndexError>;

    /// Ends the operation and forgets its changes.
    fn rollback(&mut self);

    /// Every node with a link and the node that it links to, as found at mount; told once. Of formats without
    /// links none.
    fn take_links(&mut self) -> Vec<(NodeId, NodeId)> {
        Vec::new()
    }

    /// Writes a node of a bulk load, which is reached by nobody before [`Nodes::end_load`]. The tree must be
    /// empty.
    fn load(&mut self, node: &Node<C, D>) -> Result<NodeId, IndexError>;

    /// Ends a bulk load: the root with all that was loaded below it, or nothing, and then what was loaded is
    /// given up.
    fn end_load(&mut self, root: Option<&Node<C, D>>) -> Result<(), IndexError>;

    /// Makes everything committed survive a power cut.
    fn sync(&mut self) -> Result<(), IndexError>;

    /// Syncs, and leaves the medium so that the next mount is cheapest.
    fn close(&mut self) -> Result<(), IndexError>;

    /// Checks what the implementation keeps besides nodes, among it that exactly `reached` are in use.
    fn check(&mut self, reached: &BTreeSet<NodeId>, report: &mut CheckReport) -> Result<(), IndexError>;

    /// Pages, hits and misses, and own metrics; the tree adds its height and metrics.
    fn stats(&self) -> IndexStats;

    /// Bytes of RAM held.
    fn ram_bytes(&self) -> usize;
}

/// Checks S6 where nodes have pages of their own: exactly the superblock and the nodes `reached` are in use.
#[doc(hidden)]
pub fn check_pages(space: &Space, reached: &BTreeSet<NodeId>, report: &mut CheckReport) {
    if let Some(id) = reached.iter().find(|id| !space.is_used(Lpn(id.0))) {
        report.violation(Invariant::S6, u64::from(id.0), "a node taken for a free page".to_string());
    }
    let (used, wanted) = (space.used_pages() as usize, reached.len() + 1);
    if used != wanted && report.is_sound() {
        let found = message!("{used} pages are in use, {wanted} are reached");
        report.violation(Invariant::S6, u64::from(ROOT.0), found);
    }
}

/// Layers and trees may meet at run time.
impl<C: Coordinate, const D: usize, N: Nodes<C, D> + ?Sized> Nodes<C, D> for Box<N> {
    fn format(&self) -> &NodeFormat {
        (**self).format()
    }
    fn durability(&self) -> Durability {
        (**self).durability()
    }
    fn begin(&mut self) -> Result<(), IndexError> {
        (**self).begin()
    }
    fn read(&mut self, id: NodeId, cause: Cause) -> Result<&Node<C, D>, IndexError> {
        (**self).read(id, cause)
    }
    fn forget(&mut self, id: NodeId) {
        (**self).forget(id);
    }
    fn allocate(&mut self) -> Result<NodeId, IndexError> {
        (**self).allocate()
    }
    fn change(&mut self, id: NodeId, change: Change<C, D>) -> Result<(), IndexError> {
        (**self).change(id, change)
    }
    fn free(&mut self, id: NodeId) {
        (**self).free(id);
    }
    fn fits_group(&self) -> bool {
        (**self).fits_group()
    }
    fn commit(&mut self) -> Result<(), IndexError> {
        (**self).commit()
    }
    fn rollback(&mut self) {
        (**self).rollback();
    }
    fn take_links(&mut self) -> Vec<(NodeId, NodeId)> {
        (**self).take_links()
    }
    fn load(&mut self, node: &Node<C, D>) -> Result<NodeId, IndexError> {
        (**self).load(node)
    }
    fn end_load(&mut self, root: Option<&Node<C, D>>) -> Result<(), IndexError> {
        (**self).end_load(root)
    }
    fn sync(&mut self) -> Result<(), IndexError> {
        (**self).sync()
    }
    fn close(&mut self) -> Result<(), IndexError> {
        (**self).close()
    }
    fn check(&mut self, reached: &BTreeSet<NodeId>, report: &mut CheckReport) -> Result<(), IndexError> {
        (**self).check(reached, report)
    }
    fn stats(&self) -> IndexStats {
        (**self).stats()
    }
    fn ram_bytes(&self) -> usize {
        (**self).ram_bytes()
    }
}

/// Reads a node whose level and fill are known from its parent. `above` is the parent's level.
pub fn read_child<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    nodes: &mut N,
    id: NodeId,
    above: u8,
    cause: Cause,
) -> Result<&Node<C, D>, IndexError> {
    let format = *nodes.format();
    let node = nodes.read(id, cause)?;
    let at = u64::from(id.0);
    let level_is_right = if format.is_balanced { node.level + 1 == above } else { node.level < above };
    if !level_is_right {
        return Err(IndexError::broken(Invariant::S5, "the node has another level than its parent says", at));
    }
    if format.is_balanced && node.entries.len() < format.fill_min(node.level) {
        return Err(IndexError::broken(Invariant::S4, "the node holds too few entries", at));
    }
    Ok(node)
}

/// Reads the root.
pub fn read_root<C: Coordinate, const D: usize, N: Nodes<C, D>>(
    nodes: &mut N,
    cause: Cause,
) -> Result<&Node<C, D>, IndexError> {
    let is_balanced = nodes.format().is_balanced;
    let node = nodes.read(ROOT, cause)?;
    if is_balanced && node.level > 1 && node.entries.len() < 2 {
        return Err(IndexError::broken(
            Invariant::S4,
            "the root has fewer than two children",
            u64::from(ROOT.0),
        ));
    }
    Ok(node)
}
