//! eFIND's read buffer: pages of nodes as the medium has them, asked after the node buffer.
//!
//! - *LRU* and *2Q* are the engine's policies for page caches.
//! - *S2Q*, the simplified 2Q: new pages enter a queue of a quarter of the frames, first in first out; one
//!   that is asked for there moves to a list in order of last use. The queue gives when it holds more than
//!   its quarter or the list is empty.
//! - *HLRU*: from the page not used for the longest time on, the first one that is no higher in the tree than
//!   the page that comes; if all are higher, that one. So the upper levels stay.

use crate::cache::TwoQ;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use nandex::cache::policy::{Access, Exit, Lru, Replacement};
use nandex::spatial::node::NodeId;
use nandex::units::Lpn;

/// The rule that picks the page to leave the read buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOrder {
    /// LRU: the page not used for the longest time.
    Lru,
    /// 2Q: new pages leave early. Pages that come back after leaving stay long.
    TwoQ,
    /// S2Q: new pages leave early. Pages asked for a second time stay long.
    SimplifiedTwoQ,
    /// HLRU: a page not used for long that is no higher in the tree than the incoming one.
    HeightLru,
}

impl ReadOrder {
    /// All rules.
    pub const ALL: [ReadOrder; 4] =
        [ReadOrder::Lru, ReadOrder::TwoQ, ReadOrder::SimplifiedTwoQ, ReadOrder::HeightLru];

    /// The name used in settings and results.
    pub const fn name(self) -> &'static str {
        match self {
            ReadOrder::Lru => "lru",
            ReadOrder::TwoQ => "2q",
            ReadOrder::SimplifiedTwoQ => "s2q",
            ReadOrder::HeightLru => "hlru",
        }
    }
}

/// The pages in the read buffer and their order.
pub(super) struct ReadBuffer {
    page_bytes: usize,
    frames: Vec<u8>,
    /// Node and level of the page in each frame.
    held: Vec<(NodeId, u8)>,
    unused: Vec<u32>,
    places: BTreeMap<NodeId, u32>,
    order: Order,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

enum Order {
    Policy(Box<dyn Replacement>),
    Height(Vec<u32>),
}

/// Bytes that a page takes besides its frame.
const FRAME_BYTES: usize = 128;

impl ReadBuffer {
    /// Makes a buffer for `pages` pages; 0 means no buffer.
    pub(super) fn new(pages: usize, page_bytes: usize, order: ReadOrder) -> ReadBuffer {
        ReadBuffer {
            page_bytes,
            frames: vec![0; pages * page_bytes],
            held: vec![(NodeId(0), 0); pages],
            unused: (0..pages as u32).collect(),
            places: BTreeMap::new(),
            order: match order {
                ReadOrder::Lru => Order::Policy(Box::new(Lru::new(pages))),
                ReadOrder::TwoQ => Order::Policy(Box::new(TwoQ::new(pages))),
                ReadOrder::SimplifiedTwoQ => Order::Policy(Box::new(SimplifiedTwoQ::new(pages))),
                ReadOrder::HeightLru => Order::Height(Vec::with_capacity(pages)),
            },
            hits: 0,
            misses: 0,
        }
    }

    /// Copies the page of a node, if it is in the buffer. Returns whether it is.
    pub(super) fn get(&mut self, id: NodeId, page: &mut [u8]) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let Some(&frame) = self.places.get(&id) else {
            self.misses += 1;
            return false;
        };
        self.hits += 1;
        page.copy_from_slice(self.frame(frame));
        match &mut self.order {
            Order::Policy(policy) => policy.touch(frame, access(id)),
            Order::Height(used) => {
                used.retain(|other| *other != frame);
                used.push(frame);
            }
        }
        true
    }

    fn frame(&mut self, frame: u32) -> &mut [u8] {
        &mut self.frames[frame as usize * self.page_bytes..][..self.page_bytes]
    }

    /// Adds the page of a node, or replaces it if it is in the buffer.
    pub(super) fn put(&mut self, id: NodeId, level: u8, page: &[u8]) {
        if self.held.is_empty() || self.refresh(id, level, page) {
            return;
        }
        if self.unused.is_empty() {
            self.evict(level);
        }
        let Some(frame) = self.unused.pop() else { return };
        self.held[frame as usize] = (id, level);
        self.places.insert(id, frame);
        self.frame(frame).copy_from_slice(page);
        match &mut self.order {
            Order::Policy(policy) => policy.admit(frame, access(id)),
            Order::Height(used) => used.push(frame),
        }
    }

    /// Replaces the page of a node if it is in the buffer. Returns whether it is.
    pub(super) fn refresh(&mut self, id: NodeId, level: u8, page: &[u8]) -> bool {
        let Some(&frame) = self.places.get(&id) else { return false };
        self.held[frame as usize].1 = level;
        self.frame(frame).copy_from_slice(page);
        true
    }

    fn evict(&mut self, level: u8) {
        let victim = match &mut self.order {
            Order::Policy(policy) => policy.victim(),
            Order::Height(used) => {
                let low = used.iter().find(|frame| self.held[**frame as usize].1 <= level);
                low.or(used.first()).copied()
            }
        };
        if let Some(frame) = victim {
            self.leave(frame, Exit::Evicted);
        }
    }

    fn leave(&mut self, frame: u32, exit: Exit) {
        match &mut self.order {
            Order::Policy(policy) => policy.remove(frame, exit),
            Order::Height(used) => used.retain(|other| *other != frame),
        }
        self.places.remove(&self.held[frame as usize].0);
        self.unused.push(frame);
    }

    pub(super) fn remove(&mut self, id: NodeId) {
        if let Some(&frame) = self.places.get(&id) {
            self.leave(frame, Exit::Trimmed);
        }
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = (NodeId, &[u8])> {
        self.places
            .iter()
            .map(|(id, frame)| (*id, &self.frames[*frame as usize * self.page_bytes..][..self.page_bytes]))
    }

    pub(super) fn ram_bytes(&self) -> usize {
        ReadBuffer::ram_bytes_max(self.held.len(), self.page_bytes)
    }

    /// Bytes of RAM that a buffer of `pages` pages takes at most.
    pub(super) const fn ram_bytes_max(pages: usize, page_bytes: usize) -> usize {
        pages * (page_bytes + FRAME_BYTES)
    }
}

fn access(id: NodeId) -> Access {
    Access { lpn: Lpn(id.0), write: false, dirty: false }
}

/// The order of S2Q: a queue for new pages and a list in LRU order.
struct SimplifiedTwoQ {
    /// Frames of new pages, the oldest first.
    queue: VecDeque<u32>,
    /// Frames of pages used again; the one used last is at the end.
    list: Vec<u32>,
    queue_frames: usize,
}

impl SimplifiedTwoQ {
    fn new(frames: usize) -> SimplifiedTwoQ {
        SimplifiedTwoQ { queue: VecDeque::new(), list: Vec::new(), queue_frames: (frames / 4).max(1) }
    }
}

impl Replacement for SimplifiedTwoQ {
    fn name(&self) -> &'static str {
        ReadOrder::SimplifiedTwoQ.name()
    }

    fn touch(&mut self, frame: u32, _: Access) {
        self.remove(frame, Exit::Trimmed);
        self.list.push(frame);
    }

    fn admit(&mut self, frame: u32, _: Access) {
        self.queue.push_back(frame);
    }

    fn cleaned(&mut self, _: u32) {}

    fn remove(&mut self, frame: u32, _: Exit) {
        self.queue.retain(|other| *other != frame);
        self.list.retain(|other| *other != frame);
    }

    fn victim(&mut self) -> Option<u32> {
        let from_queue = self.queue.len() > self.queue_frames || self.list.is_empty();
        if from_queue { self.queue.front().copied() } else { self.list.first().copied() }
    }

    fn ram_bytes(&self) -> usize {
        size_of::<Self>() + (self.queue.capacity() + self.list.capacity()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(buffer: &ReadBuffer) -> Vec<u32> {
        buffer.pages().map(|(id, _)| id.0).collect()
    }

    fn has(buffer: &mut ReadBuffer, id: u32) -> bool {
        buffer.get(NodeId(id), &mut [0; 2])
    }

    #[test]
    fn the_upper_levels_stay_under_hlru() {
        let mut buffer = ReadBuffer::new(3, 2, ReadOrder::HeightLru);
        for (id, level) in [(1, 3), (2, 1), (3, 2)] {
            buffer.put(NodeId(id), level, &[id as u8; 2]);
        }
        buffer.put(NodeId(4), 1, &[4; 2]);
        assert_eq!(held(&buffer), [1, 3, 4], "node 2 was no higher");
        buffer.put(NodeId(5), 2, &[5; 2]);
        assert_eq!(held(&buffer), [1, 4, 5], "node 3 was older than node 4");
        assert!(has(&mut buffer, 4));
        buffer.put(NodeId(6), 1, &[6; 2]);
        assert_eq!(held(&buffer), [1, 5, 6]);
        buffer.put(NodeId(7), 1, &[7; 2]);
        buffer.put(NodeId(8), 0, &[8; 2]);
        assert_eq!(held(&buffer), [5, 7, 8], "all are higher, so the oldest leaves");
    }

    #[test]
    fn a_page_asked_for_twice_stays_under_s2q() {
        let mut buffer = ReadBuffer::new(4, 2, ReadOrder::SimplifiedTwoQ);
        for id in 1..5 {
            buffer.put(NodeId(id), 1, &[id as u8; 2]);
        }
        assert!(has(&mut buffer, 1));
        buffer.put(NodeId(5), 1, &[5; 2]);
        assert_eq!(held(&buffer), [1, 3, 4, 5], "node 2 is first in the queue now");
    }

    #[test]
    fn every_order_gives_back_what_it_holds() {
        for order in ReadOrder::ALL {
            let (mut buffer, mut rng) = (ReadBuffer::new(5, 2, order), nandex::rng::Rng::new(4));
            let mut versions = [0u8; 20];
            for _ in 0..2000 {
                let id = rng.below(20) as u32;
                let mut page = [0; 2];
                match rng.below(4) {
                    0 => {
                        versions[id as usize] = versions[id as usize].wrapping_add(1);
                        buffer.put(NodeId(id), 1 + rng.below(3) as u8, &[id as u8, versions[id as usize]]);
                    }
                    1 => buffer.remove(NodeId(id)),
                    _ => {
                        if buffer.get(NodeId(id), &mut page) {
                            assert_eq!(page, [id as u8, versions[id as usize]]);
                        }
                    }
                }
                assert!(buffer.places.len() + buffer.unused.len() == 5);
            }
            assert!(buffer.hits > 100, "{}", order.name());
        }
    }
}
