//! The interface between trees and the storage of their nodes: read a node, change it entry by entry, commit
//! an operation.
//!
//! A tree is written once, against [`Nodes`]. The implementation decides if a node is a page
//! ([`super::paged::PagedNodes`]), a page and a buffer of modifications, or spread over several pages.

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

/// Storage of the nodes of a tree.
///
/// The contract:
///
/// - An *operation* begins with [`Nodes::begin`] and ends with [`Nodes::commit`] or [`Nodes::rollback`]. Its
///   own reads see its changes at once. A commit makes all changes, or none if it returns
///   [`IndexError::Full`]. A rollback forgets them. [`Nodes::durability`] says what survives a power cut.
/// - A node that is read within an operation stays in RAM until the operation ends or the node is forgotten.
///   Reading it again costs nothing.
/// - Outside an operation only reads are allowed, and each read may cost I/O.
/// - A new node is allocated, and then changed by [`Change::Whole`] before it is read. A freed node is not
///   read again, and its number is not given out before the operation is committed.
/// - After a write with unknown effect every call returns [`IndexError::Interrupted`] until the next mount.
/// - The root always is [`ROOT`]. A new implementation has an empty leaf there.
pub trait Nodes<C: Coordinate, const D: usize>: crate::shared::MaybeSend {
    /// Layout of the nodes.
    fn format(&self) -> &NodeFormat;

    /// Durability class that the storage promises.
    fn durability(&self) -> Durability;

    /// Begins an operation.
    fn begin(&mut self) -> Result<(), IndexError>;

    /// Reads a node.
    fn read(&mut self, id: NodeId, cause: Cause) -> Result<&Node<C, D>, IndexError>;

    /// Tells that a node need not stay in RAM. The operation read it and did not change it.
    fn forget(&mut self, id: NodeId);

    /// Returns a number for a new node.
    fn allocate(&mut self) -> Result<NodeId, IndexError>;

    /// Changes a node that was read or allocated within the operation.
    fn change(&mut self, id: NodeId, change: Change<C, D>) -> Result<(), IndexError>;

    /// Frees a node.
    fn free(&mut self, id: NodeId);

    /// Returns true if the changes so far can be committed with the promised durability. If false, the tree
    /// rolls back and repeats the operation in a way that changes at most [`NodeFormat::group_nodes_max`]
    /// nodes.
    fn fits_group(&self) -> bool;

    /// Ends the operation and makes its changes.
    fn commit(&mut self) -> Result<(), IndexError>;

    /// Ends the operation and forgets its changes.
    fn rollback(&mut self);

    /// Returns every node with a link and the node that it links to, as found at mount. The second call
    /// returns nothing, and so do formats without links.
    fn take_links(&mut self) -> Vec<(NodeId, NodeId)> {
        Vec::new()
    }

    /// Writes a node of a bulk load. No other node refers to it before [`Nodes::end_load`]. The tree must be
    /// empty.
    fn load(&mut self, node: &Node<C, D>) -> Result<NodeId, IndexError>;

    /// Ends a bulk load. With a root, the loaded nodes are below it. Without one, the loaded nodes are freed.
    fn end_load(&mut self, root: Option<&Node<C, D>>) -> Result<(), IndexError>;

    /// Makes all committed changes survive a power cut.
    fn sync(&mut self) -> Result<(), IndexError>;

    /// Syncs, and leaves the medium so that the next mount is cheapest.
    fn close(&mut self) -> Result<(), IndexError>;

    /// Checks the data of the implementation besides the nodes, including that exactly the nodes `reached`
    /// are in use.
    fn check(&mut self, reached: &BTreeSet<NodeId>, report: &mut CheckReport) -> Result<(), IndexError>;

    /// Statistics: pages, hits, misses and metrics of the implementation. The tree adds its height and its
    /// own metrics.
    fn stats(&self) -> IndexStats;

    /// Bytes of RAM held.
    fn ram_bytes(&self) -> usize;
}

/// Checks S6 for nodes that are pages: exactly the superblock and the nodes `reached` are in use.
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

/// For combinations of trees and layers chosen at run time.
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

/// Reads a node, and checks its level and its fill. `above` is the level of its parent.
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

/// Reads the root, and checks that it has two children if it has any.
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
