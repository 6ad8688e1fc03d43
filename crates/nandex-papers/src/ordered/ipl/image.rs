//! A node in RAM: its image from the chip with its log records applied.

use super::layout::{Change, Widths};
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::ordered::RecordFormat;
use nandex::ordered::node::NodeShape;

/// Shapes of the nodes, fixed at format time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shapes {
    pub(super) leaf: NodeShape,
    pub(super) inner: NodeShape,
}

impl Shapes {
    /// Nodes with at most this many entries, or as many as fit into a page.
    pub(super) fn new(page_bytes: usize, record: RecordFormat, order: usize) -> Shapes {
        let key = usize::from(record.key_bytes);
        let limit = |shape: NodeShape| NodeShape { capacity: shape.capacity.min(order), ..shape };
        Shapes {
            leaf: limit(NodeShape::fitting(page_bytes, key, record.value_bytes.into())),
            inner: limit(NodeShape::fitting(page_bytes, key, 4)),
        }
    }

    pub(super) fn at(&self, level: u8) -> &NodeShape {
        if level == 1 { &self.leaf } else { &self.inner }
    }

    pub(super) fn widths(&self) -> Widths {
        Widths { key: self.leaf.key_bytes, value: self.leaf.value_bytes }
    }

    /// Bytes of the larger kind of node.
    pub(super) fn node_bytes(&self) -> usize {
        self.leaf.bytes().max(self.inner.bytes())
    }
}

/// A complete node: its image with all records applied.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) id: u32,
    pub(super) level: u8,
    pub(super) count: usize,
    /// Log units read for the node.
    pub(super) units: u16,
    pub(super) bytes: Vec<u8>,
}

impl Node {
    /// Makes room for any node.
    pub(super) fn reserve(&mut self, shapes: &Shapes) {
        self.bytes.resize(shapes.node_bytes(), 0xff);
    }

    pub(super) fn key<'a>(&'a self, shapes: &Shapes, i: usize) -> &'a [u8] {
        debug_assert!(i < self.count, "key {i} of {} in node {}", self.count, self.id);
        shapes.at(self.level).key(&self.bytes, i)
    }

    pub(super) fn value<'a>(&'a self, shapes: &Shapes, i: usize) -> &'a [u8] {
        shapes.at(self.level).value(&self.bytes, i)
    }

    pub(super) fn search(&self, shapes: &Shapes, key: &[u8]) -> Result<usize, usize> {
        shapes.at(self.level).search(&self.bytes, self.count, key)
    }

    /// Child `i` of an inner node.
    pub(super) fn child(&self, shapes: &Shapes, i: usize) -> u32 {
        debug_assert!(self.level > 1, "I2: node {} at level {} has no children", self.id, self.level);
        let value = self.value(shapes, i);
        u32::from_le_bytes([value[0], value[1], value[2], value[3]])
    }

    pub(super) fn child_slot(&self, shapes: &Shapes, key: &[u8]) -> usize {
        shapes.at(self.level).child_slot(&self.bytes, self.count, key)
    }

    /// Gives a key a value, new or not.
    pub(super) fn put(&mut self, shapes: &Shapes, entry: (&[u8], &[u8])) -> Result<(), IndexError> {
        let shape = shapes.at(self.level);
        match shape.search(&self.bytes, self.count, entry.0) {
            Ok(i) => shape.set_value(&mut self.bytes, i, entry.1),
            Err(_) if self.count >= shape.capacity => return Err(self.nonsense()),
            Err(i) => {
                shape.insert(&mut self.bytes, self.count, i, entry);
                self.count += 1;
            }
        }
        Ok(())
    }

    /// Keeps the entries from this key on.
    pub(super) fn keep_from(&mut self, shapes: &Shapes, low: &[u8]) {
        let below = self.search(shapes, low).unwrap_or_else(|i| i);
        shapes.at(self.level).remove_first(&mut self.bytes, self.count, below);
        self.count -= below;
    }

    /// Applies a logged change. Records that create nodes have no effect here.
    pub(super) fn apply(&mut self, shapes: &Shapes, change: &Change<'_>) -> Result<(), IndexError> {
        match change {
            Change::Put { key, value } if self.level == 1 => self.put(shapes, (key, value))?,
            Change::Link { key, child } if self.level > 1 => self.put(shapes, (key, &child.to_le_bytes()))?,
            Change::Remove { key } => match self.search(shapes, key) {
                Ok(i) => {
                    shapes.at(self.level).remove(&mut self.bytes, self.count, i);
                    self.count -= 1;
                }
                Err(_) => return Err(self.nonsense()),
            },
            Change::Cut { key } => {
                self.count = self.search(shapes, key).unwrap_or_else(|i| i);
            }
            _ => return Err(self.nonsense()),
        }
        Ok(())
    }

    fn nonsense(&self) -> IndexError {
        IndexError::broken(Invariant::I1, "a log record does not fit its node", u64::from(self.id))
    }
}
