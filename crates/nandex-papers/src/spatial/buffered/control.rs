//! Temporal control: the nodes read and the nodes written not long ago, first in, first out.

use alloc::collections::VecDeque;
use nandex::spatial::node::NodeId;

/// Two bounded lists of node numbers.
#[derive(Clone, Debug)]
pub(super) struct TemporalControl {
    read: VecDeque<NodeId>,
    read_max: usize,
    written: VecDeque<NodeId>,
    written_max: usize,
}

impl TemporalControl {
    /// Makes lists of at most `read_max` and `written_max` nodes. A length of 0 means no list.
    pub(super) fn new(read_max: usize, written_max: usize) -> TemporalControl {
        let (read, written) = (VecDeque::with_capacity(read_max), VecDeque::with_capacity(written_max));
        TemporalControl { read, read_max, written, written_max }
    }

    /// Notes that a node was read. A node already in the list keeps its place.
    pub(super) fn note_read(&mut self, id: NodeId) {
        if !self.was_read(id) {
            push(&mut self.read, self.read_max, id);
        }
    }

    pub(super) fn note_written(&mut self, ids: &[NodeId]) {
        ids.iter().for_each(|&id| push(&mut self.written, self.written_max, id));
    }

    /// Whether the list of nodes read has this node.
    pub(super) fn was_read(&self, id: NodeId) -> bool {
        self.read.contains(&id)
    }

    /// The nodes in the list of nodes written.
    pub(super) fn written(&self) -> impl Iterator<Item = NodeId> {
        self.written.iter().copied()
    }

    pub(super) fn ram_bytes(&self) -> usize {
        (self.read.capacity() + self.written.capacity()) * size_of::<NodeId>()
    }
}

fn push(list: &mut VecDeque<NodeId>, most: usize, id: NodeId) {
    if most == 0 {
        return;
    }
    if list.len() == most {
        list.pop_front();
    }
    list.push_back(id);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_in_is_the_first_out() {
        let mut control = TemporalControl::new(2, 3);
        [1, 2, 1, 3].into_iter().for_each(|n| control.note_read(NodeId(n)));
        assert_eq!([1, 2, 3].map(|n| control.was_read(NodeId(n))), [false, true, true]);
        control.note_written(&[5, 6, 7, 8].map(NodeId));
        assert!(control.written().eq([6, 7, 8].map(NodeId)));
        let mut none = TemporalControl::new(0, 0);
        none.note_read(NodeId(1));
        assert!(!none.was_read(NodeId(1)) && none.ram_bytes() == 0);
    }
}
