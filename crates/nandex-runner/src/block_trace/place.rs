//! Maps bytes of the trace's devices to logical pages of a store.
//!
//! The devices are cut into *extents* as large as an erase block, so that bytes of one block stay together in
//! a block: block-mapping FTLs see the trace's alignment. The store has room for a number of extents. Three
//! rules place them:
//!
//! - [`Placing::Compact`]: the extents read or written are laid side by side, device by device, by ascending
//!   address. Empty space disappears; order and alignment stay. If they do not fit, extent `i` goes to place
//!   `i` modulo the number of places. Several extents then share a place, as the facts tell
//!   ([`Placement::folded_extents`]).
//! - [`Placing::Dense`]: the same with extents of one page. Only pages that are used take room, and pages of
//!   one block may be separated.
//! - [`Placing::Modulo`]: each extent stays at its address modulo the number of places.
//!
//! A write of part of a page reads the page and writes it whole. A trim drops the pages that it covers
//! completely, in extents that are also read or written.

use super::{BlockOp, BlockTrace, Request};
use crate::error::LabError;
use crate::input;
use nandex::Lpn;

/// The way in which extents are placed on the pages of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// Extents of the size of an erase block, side by side.
    Compact,
    /// Extents of one page, side by side.
    Dense,
    /// Extents at their own address, modulo the size of the store.
    Modulo,
}

impl Placing {
    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Placing::Compact => "compact",
            Placing::Dense => "dense",
            Placing::Modulo => "modulo",
        }
    }
}

/// The pages that a trace is laid out on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageShape {
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Number of pages in an erase block.
    pub pages_per_block: u32,
    /// Number of logical pages.
    pub pages: u32,
}

/// A page that a request touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagePart {
    /// The page.
    pub lpn: Lpn,
    /// Whether the request covers the whole page.
    pub whole: bool,
}

/// The place of a trace's bytes in a store.
#[derive(Clone, Debug)]
pub struct Placement {
    shape: PageShape,
    placing: Placing,
    extent_pages: u32,
    /// Device and number of each extent that is touched, in ascending order.
    extents: Vec<(u32, u64)>,
}

impl Placement {
    /// Places the extents that a trace reads and writes. An error if they are too many for the memory.
    pub fn new(trace: &BlockTrace, shape: PageShape, placing: Placing) -> Result<Placement, LabError> {
        assert!(shape.pages > 0 && shape.pages_per_block > 0 && shape.page_bytes > 0, "{shape:?}");
        let extent_pages = if placing == Placing::Dense { 1 } else { shape.pages_per_block };
        let extent_bytes = u64::from(shape.page_bytes) * u64::from(extent_pages);
        let mut extents = Vec::new();
        for request in trace.requests.iter().filter(|r| r.op != BlockOp::Trim) {
            let last = (request.offset_bytes + request.bytes - 1) / extent_bytes;
            let first = request.offset_bytes / extent_bytes;
            let known = extents.last().is_some_and(|&last| last == (request.device, first));
            extents.extend((first + u64::from(known)..=last).map(|number| (request.device, number)));
            // Sorting now and then keeps the list about as long as the extents there are.
            if extents.len() >= extents.capacity().max(1 << 16) {
                extents.sort_unstable();
                extents.dedup();
                input::require_room(&extents, "extents").map_err(|reason| LabError::Trace {
                    file: trace.name.clone(),
                    place: None,
                    reason,
                })?;
                extents.reserve(extents.len());
            }
        }
        extents.sort_unstable();
        extents.dedup();
        extents.shrink_to_fit();
        Ok(Placement { shape, placing, extent_pages, extents })
    }

    /// The pages on which the trace is placed.
    pub fn shape(&self) -> PageShape {
        self.shape
    }

    /// Rule by which extents are placed.
    pub fn placing(&self) -> Placing {
        self.placing
    }

    /// Number of pages in an extent.
    pub fn extent_pages(&self) -> u32 {
        self.extent_pages
    }

    fn places(&self) -> u64 {
        u64::from((self.shape.pages / self.extent_pages).max(1))
    }

    /// Number of extents that the trace touches.
    pub fn extents(&self) -> u64 {
        self.extents.len() as u64
    }

    /// Number of extents that share their place with an earlier one.
    pub fn folded_extents(&self) -> u64 {
        let places = match self.placing {
            Placing::Compact | Placing::Dense => self.extents().min(self.places()),
            Placing::Modulo => {
                let mut taken: Vec<u64> = self.extents.iter().map(|e| e.1 % self.places()).collect();
                taken.sort_unstable();
                taken.dedup();
                taken.len() as u64
            }
        };
        self.extents() - places
    }

    /// Number of logical pages that the touched extents take.
    pub fn pages_used(&self) -> u32 {
        let places = (self.extents() - self.folded_extents()) as u32;
        (places * self.extent_pages).min(self.shape.pages)
    }

    /// All logical pages of touched extents, in ascending order.
    pub fn used(&self) -> Vec<Lpn> {
        let mut places: Vec<u64> =
            (0..self.extents.len()).map(|i| self.place(i as u64, self.extents[i].1)).collect();
        places.sort_unstable();
        places.dedup();
        let pages = |place: u64| {
            let first = place as u32 * self.extent_pages;
            (first..first + self.extent_pages).filter(|&p| p < self.shape.pages).map(Lpn)
        };
        places.into_iter().flat_map(pages).collect()
    }

    /// Lists the pages of a request in `parts`, in the order of addresses.
    pub fn pages(&self, request: &Request, parts: &mut Vec<PagePart>) {
        parts.clear();
        let page_bytes = u64::from(self.shape.page_bytes);
        let per_extent = u64::from(self.extent_pages);
        let (start, end) = (request.offset_bytes, request.offset_bytes + request.bytes);
        let last_extent = (end - 1) / (page_bytes * per_extent);
        let from = (request.device, start / (page_bytes * per_extent));
        let first = self.extents.partition_point(|&extent| extent < from);
        for (i, &(device, number)) in self.extents.iter().enumerate().skip(first) {
            if device != request.device || number > last_extent {
                break;
            }
            let base = self.place(i as u64, number) as u32 * self.extent_pages;
            let pages = number * per_extent..(number + 1) * per_extent;
            let touched = pages.start.max(start / page_bytes)..pages.end.min(end.div_ceil(page_bytes));
            parts.extend(touched.map(|page| {
                let whole = start <= page * page_bytes && (page + 1) * page_bytes <= end;
                let lpn = base + (page - pages.start) as u32;
                PagePart { lpn: Lpn(lpn % self.shape.pages), whole }
            }));
        }
    }

    fn place(&self, rank: u64, number: u64) -> u64 {
        let wanted = if self.placing == Placing::Modulo { number } else { rank };
        wanted % self.places()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: PageShape = PageShape { page_bytes: 2048, pages_per_block: 4, pages: 10 };

    fn request(op: BlockOp, device: u32, offset_bytes: u64, bytes: u64) -> Request {
        Request { op, device, offset_bytes, bytes, time_ns: 0 }
    }

    fn trace(requests: &[Request]) -> BlockTrace {
        BlockTrace { requests: requests.to_vec(), ..BlockTrace::default() }
    }

    fn pages(placement: &Placement, request: Request) -> Vec<(u32, bool)> {
        let mut parts = Vec::new();
        placement.pages(&request, &mut parts);
        parts.iter().map(|part| (part.lpn.0, part.whole)).collect()
    }

    #[test]
    fn extents_lie_side_by_side_and_keep_their_alignment() {
        let far = request(BlockOp::Write, 0, 1_000_000 * 8192 + 2048, 4096);
        let near = request(BlockOp::Write, 0, 8192 - 512, 1024);
        let placement = Placement::new(&trace(&[far, near]), SHAPE, Placing::Compact).unwrap();
        assert_eq!((placement.extents(), placement.folded_extents(), placement.pages_used()), (3, 1, 8));
        assert_eq!(pages(&placement, near), [(3, false), (4, false)]);
        // The third extent shares the first place.
        assert_eq!(pages(&placement, far), [(1, true), (2, true)]);
        let room =
            Placement::new(&trace(&[far, near]), PageShape { pages: 12, ..SHAPE }, Placing::Compact).unwrap();
        assert_eq!((room.folded_extents(), pages(&room, far)), (0, vec![(9, true), (10, true)]));
        assert_eq!(room.used().len(), 12);
    }

    #[test]
    fn devices_do_not_share_pages_unless_they_must() {
        let one = request(BlockOp::Write, 0, 0, 2048);
        let two = request(BlockOp::Write, 1, 0, 2048);
        let placement = Placement::new(&trace(&[one, two]), SHAPE, Placing::Compact).unwrap();
        assert_eq!((pages(&placement, one), pages(&placement, two)), (vec![(0, true)], vec![(4, true)]));
    }

    #[test]
    fn dense_gives_room_to_touched_pages_only() {
        let far = request(BlockOp::Write, 0, 1_000_000 * 8192 + 2048, 4096);
        let near = request(BlockOp::Read, 0, 8192 - 512, 1024);
        let placement = Placement::new(&trace(&[far, near]), SHAPE, Placing::Dense).unwrap();
        assert_eq!((placement.extents(), placement.folded_extents(), placement.pages_used()), (4, 0, 4));
        assert_eq!(pages(&placement, near), [(0, false), (1, false)]);
        assert_eq!(pages(&placement, far), [(2, true), (3, true)]);
        assert_eq!(placement.used(), [0, 1, 2, 3].map(Lpn));
    }

    #[test]
    fn modulo_keeps_the_address() {
        let write = request(BlockOp::Write, 0, 5 * 8192 + 2048, 2048);
        let placement = Placement::new(&trace(&[write]), SHAPE, Placing::Modulo).unwrap();
        assert_eq!(pages(&placement, write), [(5, true)]);
        assert_eq!(placement.used(), [4, 5, 6, 7].map(Lpn));
    }

    #[test]
    fn a_trim_reaches_only_what_is_touched_and_covered() {
        let write = request(BlockOp::Write, 0, 8192, 8192);
        let trim = request(BlockOp::Trim, 0, 0, u64::MAX / 2);
        let placement = Placement::new(&trace(&[write, trim]), SHAPE, Placing::Compact).unwrap();
        assert_eq!(pages(&placement, trim), [(0, true), (1, true), (2, true), (3, true)]);
        assert_eq!(pages(&placement, request(BlockOp::Trim, 0, 8192 + 100, 4096))[0], (0, false));
        assert!(pages(&placement, request(BlockOp::Trim, 1, 0, 8192)).is_empty());
    }

    #[test]
    fn a_store_smaller_than_a_block_still_has_a_place() {
        let write = request(BlockOp::Write, 0, 3 * 2048, 2048);
        let shape = PageShape { pages: 3, ..SHAPE };
        let placement = Placement::new(&trace(&[write]), shape, Placing::Compact).unwrap();
        assert_eq!(pages(&placement, write), [(0, true)]);
        assert_eq!(placement.used(), [0, 1, 2].map(Lpn));
    }
}
