//! The current operation: its nodes as it sees them, and its modifications.

use super::record::{FREE, mod_bytes, show};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::node::{Change, Node, NodeFormat, NodeId};

/// Nodes whose memory is kept for the next operation.
pub(super) const SPARE_NODES: usize = 4;

/// The operation being done.
pub(super) struct Hand<C, const D: usize> {
    /// Most nodes that an operation may hold, if there is a narrow form of it that holds fewer.
    pub(super) held_max: u32,
    pub(super) is_open: bool,
    /// Whether a bulk load has written nodes since the log was begun anew for it.
    pub(super) is_loading: bool,
    /// The nodes of the operation, with its changes.
    pub(super) held: BTreeMap<NodeId, Node<C, D>>,
    /// The modifications, one after the other. `changed` has the node of each.
    pub(super) changes: Vec<u8>,
    pub(super) changed: Vec<NodeId>,
    pub(super) taken: Vec<NodeId>,
    pub(super) freed: Vec<NodeId>,
    /// Nodes whose memory is free for reuse.
    pub(super) spare: Vec<Node<C, D>>,
}

impl<C: Coordinate, const D: usize> Hand<C, D> {
    pub(super) fn new() -> Hand<C, D> {
        Hand {
            held_max: u32::MAX,
            is_open: false,
            is_loading: false,
            held: BTreeMap::new(),
            changes: Vec::new(),
            changed: Vec::new(),
            taken: Vec::new(),
            freed: Vec::new(),
            spare: Vec::new(),
        }
    }

    pub(super) fn end(&mut self) {
        while let Some((_, node)) = self.held.pop_first() {
            self.spare.push(node);
        }
        self.spare.truncate(SPARE_NODES);
        self.changes.clear();
        self.changed.clear();
        self.taken.clear();
        self.freed.clear();
        self.is_open = false;
    }

    /// Drops a node from the operation, unless it was changed.
    pub(super) fn forget(&mut self, id: NodeId) {
        if !self.changed.contains(&id) {
            self.spare.extend(self.held.remove(&id));
        }
    }

    pub(super) fn change(&mut self, format: &NodeFormat, id: NodeId, change: Change<C, D>) {
        let (changes, changed) = (&mut self.changes, &mut self.changed);
        show(format, &change, &mut |modification| {
            changes.extend_from_slice(modification);
            changed.push(id);
        });
        if let Change::Whole(mut node) = change {
            node.set_room(format.entries_max());
            self.spare.extend(self.held.insert(id, node));
            return;
        }
        let held = self.held.get_mut(&id);
        assert!(held.is_some(), "{id} changed without having been read");
        let applied = held.map_or(Ok(()), |node| node.apply(&change));
        assert!(applied.is_ok(), "{id}: {applied:?}");
    }

    pub(super) fn free(&mut self, format: &NodeFormat, id: NodeId) {
        self.spare.extend(self.held.remove(&id));
        let from = self.changes.len();
        self.changes.resize(from + mod_bytes(format), 0);
        self.changes[from] = FREE;
        self.changed.push(id);
        self.freed.push(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_node_is_held_to_the_end_and_its_memory_is_kept() {
        let format = NodeFormat::new::<i32, 2>(*b"test    ", (512, 100), 0);
        let mut hand: Hand<i32, 2> = Hand::new();
        let ids = [3, 4, 5].map(NodeId);
        hand.held.extend(ids[..2].iter().map(|&id| (id, Node::new(1))));
        hand.change(&format, ids[2], Change::Whole(Node::new(1)));
        hand.free(&format, ids[1]);
        ids.into_iter().for_each(|id| hand.forget(id));
        assert!(hand.held.keys().eq(&ids[2..]), "node 3 was not changed");
        let mods: Vec<u8> = hand.changes.chunks(mod_bytes(&format)).map(|change| change[0]).collect();
        assert_eq!((&hand.changed[..], mods.last()), (&[ids[2], ids[1]][..], Some(&FREE)));
        hand.is_open = true;
        hand.end();
        assert!(hand.held.is_empty() && hand.changes.is_empty() && hand.freed.is_empty() && !hand.is_open);
        assert_eq!(hand.spare.len(), 3);
    }
}
