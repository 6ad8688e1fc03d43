//! Records that wait in RAM, by block, until they are programmed as a unit.

use super::layout::{
    Change, GROUP_BYTES, RECORD_BYTES, SPAN_MAX, WAITING_BYTES, Widths, push_waiting, waiting,
};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nandex::units::Pbn;

/// Records of a block that are not programmed yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    pub(super) bytes: Vec<u8>,
    /// Bytes of the records in a unit.
    pub(super) encoded: usize,
    pub(super) first: u64,
}

impl Waiting {
    /// Bytes that a change of a node takes in the unit, including the head of its group if it is the first.
    pub(super) fn bytes_for(&self, id: u32, change: &Change<'_>, widths: Widths) -> usize {
        let has_group = waiting(widths, &self.bytes).any(|(node, _, _)| node == id);
        RECORD_BYTES + widths.fields_of(change) + if has_group { 0 } else { GROUP_BYTES }
    }

    /// Encodes the groups of a unit whose numbers count from `first`. Returns them and their nodes. Each
    /// group names the previous unit in the chain of its node.
    pub(super) fn encode(
        &self,
        widths: Widths,
        first: u64,
        previous: impl Fn(u32) -> u16,
    ) -> (Vec<u32>, Vec<u8>) {
        let mut nodes: Vec<u32> = Vec::new();
        let mut bytes = Vec::with_capacity(self.encoded);
        for (id, _, _) in waiting(widths, &self.bytes) {
            if nodes.contains(&id) {
                continue;
            }
            nodes.push(id);
            let start = bytes.len();
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&previous(id).to_le_bytes());
            bytes.extend_from_slice(&[0; 2]);
            for (_, sequence, change) in waiting(widths, &self.bytes).filter(|found| found.0 == id) {
                debug_assert!(sequence - first <= SPAN_MAX, "records {first} and {sequence} in one unit");
                let head = ((sequence - first) as u32) << 8 | u32::from(change.op());
                bytes.extend_from_slice(&head.to_le_bytes());
                change.push_fields(&mut bytes);
            }
            let length = (bytes.len() - start - GROUP_BYTES) as u16;
            bytes[start + 6..start + GROUP_BYTES].copy_from_slice(&length.to_le_bytes());
        }
        debug_assert_eq!(bytes.len(), self.encoded, "I6: records take another room than was kept");
        (nodes, bytes)
    }
}

/// The records that wait.
#[derive(Default)]
pub(super) struct Queues {
    by_block: BTreeMap<u32, Waiting>,
    /// Bytes of RAM of the records.
    pub(super) bytes: usize,
}

impl Queues {
    pub(super) fn get(&self, pbn: Pbn) -> Option<&Waiting> {
        self.by_block.get(&pbn.0)
    }

    /// Blocks that records wait for.
    pub(super) fn count(&self) -> usize {
        self.by_block.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_block.is_empty()
    }

    pub(super) fn has(&self, pbn: Pbn) -> bool {
        self.by_block.contains_key(&pbn.0)
    }

    pub(super) fn first(&self) -> Option<Pbn> {
        self.by_block.first_key_value().map(|(&pbn, _)| Pbn(pbn))
    }

    /// The block with most records.
    pub(super) fn fullest(&self) -> Option<Pbn> {
        let fullest = self.by_block.iter().max_by_key(|(pbn, queue)| (queue.encoded, u32::MAX - **pbn));
        fullest.map(|(&pbn, _)| Pbn(pbn))
    }

    /// Adds the change of this number; the bytes that now wait for a unit.
    pub(super) fn push(&mut self, pbn: Pbn, record: (u32, u64, &Change<'_>), widths: Widths) -> usize {
        let (id, sequence, change) = record;
        let queue = self.by_block.entry(pbn.0).or_default();
        let bytes = queue.bytes_for(id, change, widths);
        let before = queue.bytes.capacity();
        if queue.bytes.is_empty() {
            queue.first = sequence;
        }
        let length = queue.bytes.len() + WAITING_BYTES + bytes;
        if length > before {
            queue.bytes.reserve_exact(WAITING_BYTES + bytes + length / 4);
        }
        push_waiting(&mut queue.bytes, id, sequence, change);
        queue.encoded += bytes;
        self.bytes += queue.bytes.capacity() - before;
        queue.encoded
    }

    pub(super) fn forget(&mut self, pbn: Pbn) {
        if let Some(waiting) = self.by_block.remove(&pbn.0) {
            self.bytes -= waiting.bytes.capacity();
        }
        debug_assert!(!self.is_empty() || self.bytes == 0, "{} bytes of no record wait", self.bytes);
    }

    /// Drops the records of a node whose image is newer, unless a ghost still needs them.
    pub(super) fn drop_of(&mut self, pbn: Pbn, id: u32, widths: Widths) {
        let Some(queue) = self.by_block.get_mut(&pbn.0) else { return };
        let feeds = |change: &Change<'_>| change.source().is_some_and(|ghost| ghost.0 == id);
        if waiting(widths, &queue.bytes).any(|(_, _, change)| feeds(&change)) {
            return;
        }
        let others = || waiting(widths, &queue.bytes).filter(|found| found.0 != id);
        let bytes = others().map(|found| WAITING_BYTES + widths.fields_of(&found.2)).sum();
        let mut kept = Waiting { first: queue.first, bytes: Vec::with_capacity(bytes), encoded: 0 };
        for (node, sequence, change) in others() {
            kept.encoded += kept.bytes_for(node, &change, widths);
            push_waiting(&mut kept.bytes, node, sequence, &change);
        }
        self.bytes -= queue.bytes.capacity();
        self.bytes += kept.bytes.capacity();
        *queue = kept;
        if queue.bytes.is_empty() {
            self.forget(pbn);
        }
    }

    /// Bytes of RAM of the records that wait.
    pub(super) fn ram_bytes(&self) -> usize {
        // An entry of the map, with its share of a tree node.
        const ENTRY_BYTES: usize = 64;
        self.bytes + self.count() * ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::NO_UNIT;
    use super::*;

    const WIDTHS: Widths = Widths { key: 4, value: 2 };

    #[test]
    fn records_are_counted_as_the_unit_takes_them() {
        let (mut queues, key) = (Queues::default(), [1, 2, 3, 4]);
        for sequence in 1..20 {
            let change = Change::Put { key: &key, value: &[5, 6] };
            queues.push(Pbn(7), (sequence as u32 % 3, sequence, &change), WIDTHS);
        }
        // A ghost holds on to the records of its source, and to those of no other node.
        queues.push(Pbn(7), (9, 20, &Change::GhostOfAll { source: 0, base: 0 }), WIDTHS);
        let nodes = |queues: &Queues| queues.get(Pbn(7)).unwrap().encode(WIDTHS, 1, |_| NO_UNIT).0;
        for (dropped, left) in [(0, &[1, 2, 0, 9][..]), (1, &[2, 0, 9]), (9, &[2, 0]), (0, &[2])] {
            queues.drop_of(Pbn(7), dropped, WIDTHS);
            assert_eq!(nodes(&queues), left, "{dropped} is dropped");
        }
        queues.drop_of(Pbn(7), 2, WIDTHS);
        assert!(queues.is_empty() && queues.bytes == 0);
    }
}
