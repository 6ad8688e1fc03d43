//! Images of the nodes that the tree has in use, as it read them. A write is compared with them to find the
//! changes. Reads do not use them, so that the layer reads as much as the published one. If the set is full,
//! the least recently used image is dropped.

use alloc::vec;
use alloc::vec::Vec;
use nandex::units::Lpn;

/// Bytes of RAM for an image besides its page.
pub(super) const IMAGE_BYTES: usize = size_of::<Option<Lpn>>() + size_of::<u64>();

/// The nodes read or written last, as they were then.
#[derive(Clone, Debug)]
pub(super) struct Images {
    page_bytes: usize,
    pages: Vec<u8>,
    nodes: Vec<Option<Lpn>>,
    used: Vec<u64>,
    clock: u64,
}

impl Images {
    pub(super) fn new(images: usize, page_bytes: usize) -> Images {
        Images {
            page_bytes,
            pages: vec![0; images * page_bytes],
            nodes: vec![None; images],
            used: vec![0; images],
            clock: 0,
        }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.pages.len() + self.nodes.len() * IMAGE_BYTES
    }

    fn place(&self, node: Lpn) -> Option<usize> {
        self.nodes.iter().position(|held| *held == Some(node))
    }

    /// The node as it was last read or written, if it is remembered.
    pub(super) fn get(&self, node: Lpn) -> Option<&[u8]> {
        self.place(node).map(|at| &self.pages[at * self.page_bytes..][..self.page_bytes])
    }

    /// Whether a node is remembered. If so, it stays until as many other nodes as there are images, less
    /// one, have been asked for.
    pub(super) fn touch(&mut self, node: Lpn) -> bool {
        let place = self.place(node);
        if let Some(at) = place {
            self.clock += 1;
            self.used[at] = self.clock;
        }
        place.is_some()
    }

    pub(super) fn remember(&mut self, node: Lpn, page: &[u8]) {
        let oldest = (0..self.nodes.len()).min_by_key(|&at| self.used[at]).unwrap_or(0);
        let at = self.place(node).unwrap_or(oldest);
        self.clock += 1;
        (self.nodes[at], self.used[at]) = (Some(node), self.clock);
        self.pages[at * self.page_bytes..][..self.page_bytes].copy_from_slice(page);
        debug_assert_eq!(
            self.nodes.iter().filter(|held| **held == Some(node)).count(),
            1,
            "{node} is at hand twice"
        );
    }

    pub(super) fn forget(&mut self, node: Lpn) {
        if let Some(at) = self.place(node) {
            (self.nodes[at], self.used[at]) = (None, 0);
        }
    }
}
