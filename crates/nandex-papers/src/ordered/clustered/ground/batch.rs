//! The batch: modified nodes that wait in RAM, found by number.
//!
//! If parents name the pages of their children, a node waits together with all its ancestors, because writing
//! a page changes the node above it. An ancestor was then used at least as recently as any node below it. So
//! the least recently used nodes are never above others that wait.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use nandex::sort;

/// A node that waits.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: u32,
    /// The node above it. 0 for the root, and if nodes are found by a table.
    pub(super) parent: u32,
    /// The page that holds the node's old version. 0 for a new node. While a batch is written: the page for
    /// the new version.
    pub(super) page: u32,
    pub(super) level: u8,
    pub(super) clock: u64,
    pub(super) image: Box<[u8]>,
}

/// Bytes that a node takes in lists, while a batch is written or a mount reads it.
const LIST_BYTES: usize = 48;

pub(super) const fn entry_bytes(page_bytes: usize) -> usize {
    page_bytes + size_of::<Entry>() + size_of::<Box<[u8]>>() + LIST_BYTES
}

/// The batch: modified nodes that wait, sorted by number.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    page_bytes: usize,
    entries: Vec<Entry>,
    /// Page buffers of nodes that have left, for reuse.
    spare: Vec<Box<[u8]>>,
    clock: u64,
}

impl Batch {
    pub(super) fn new(nodes: usize, page_bytes: usize) -> Batch {
        Batch { page_bytes, entries: Vec::with_capacity(nodes), spare: Vec::with_capacity(nodes), clock: 0 }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        (self.entries.len() + self.spare.len()) * self.page_bytes
            + self.entries.capacity() * size_of::<Entry>()
            + self.spare.capacity() * size_of::<Box<[u8]>>()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    fn search(&self, id: u32) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&id, |entry| entry.id)
    }

    pub(super) fn get(&self, id: u32) -> Option<&Entry> {
        self.search(id).ok().map(|at| &self.entries[at])
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Entry> {
        self.search(id).ok().map(|at| &mut self.entries[at])
    }

    /// Adds a node, whose old version is on `page` (0 for none). If the node waits already, only its image
    /// is replaced.
    pub(super) fn put(&mut self, id: u32, level: u8, page: u32, image: &[u8]) {
        let at = match self.search(id) {
            Ok(at) => at,
            Err(at) => {
                let frame = self.spare.pop().unwrap_or_else(|| vec![0; self.page_bytes].into_boxed_slice());
                self.entries.insert(at, Entry { id, parent: 0, page, level, clock: 0, image: frame });
                at
            }
        };
        self.entries[at].level = level;
        self.entries[at].image.copy_from_slice(image);
    }

    /// Marks a node and all its ancestors as used.
    pub(super) fn touch(&mut self, id: u32) {
        self.clock += 1;
        let (clock, mut id) = (self.clock, id);
        while let Some(entry) = self.get_mut(id).filter(|entry| entry.clock < clock) {
            entry.clock = clock;
            id = entry.parent;
        }
    }

    /// Removes a node. Returns the page of its old version.
    pub(super) fn remove(&mut self, id: u32) -> Option<u32> {
        let entry = self.entries.remove(self.search(id).ok()?);
        self.spare.push(entry.image);
        Some(entry.page)
    }

    pub(super) fn clear(&mut self) {
        self.spare.extend(self.entries.drain(..).map(|entry| entry.image));
    }

    /// The `nodes` least recently used nodes. They always include the waiting nodes below each of them.
    pub(super) fn least_recent(&self, nodes: usize) -> Vec<u32> {
        let mut order: Vec<(u64, u8, u32)> =
            self.entries.iter().map(|entry| (entry.clock, entry.level, entry.id)).collect();
        sort::total(&mut order);
        order.truncate(nodes);
        order.into_iter().map(|(.., id)| id).collect()
    }

    pub(super) fn of_level(&self, level: u8) -> Vec<u32> {
        self.entries.iter().filter(|entry| entry.level == level).map(|entry| entry.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recent_nodes_are_not_above_others() {
        let mut batch = Batch::new(4, 8);
        for (id, level, parent) in [(1, 2, 0), (7, 1, 1), (5, 1, 1), (9, 1, 1)] {
            batch.put(id, level, 0, &[id as u8; 8]);
            batch.get_mut(id).unwrap().parent = parent;
        }
        [9, 5, 7].into_iter().for_each(|id| batch.touch(id));
        assert_eq!((batch.least_recent(2), batch.of_level(2)), (vec![9, 5], vec![1]));
        batch.touch(9);
        assert_eq!(batch.least_recent(4), [5, 7, 9, 1]);
        assert_eq!((batch.remove(5), batch.remove(5), batch.len()), (Some(0), None, 3));
        batch.put(9, 1, 3, &[2; 8]);
        assert_eq!((batch.get(9).unwrap().page, batch.get(9).unwrap().image[0]), (0, 2));
        batch.clear();
        assert!(batch.is_empty() && batch.ram_bytes() > 4 * 8);
    }
}
