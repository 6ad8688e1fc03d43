//! The erase blocks that have pages in the cache, by slot, and the frames of each.

use super::lists::Lists;
use alloc::vec;
use alloc::vec::Vec;
use nandex::cache::table::SlotTable;
use nandex::units::Lpn;

/// The erase blocks that have pages in the cache. A block has a slot while it has a frame, so as many slots
/// as frames are enough.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    block_pages: u32,
    table: SlotTable,
    ids: Vec<u32>,
    unused: Vec<u32>,
    /// Frames of each slot. The last to enter comes first.
    frames: Lists,
}

impl Blocks {
    pub(super) fn new(frames: usize, block_pages: u32) -> Blocks {
        Blocks {
            block_pages: block_pages.max(1),
            table: SlotTable::new(frames),
            ids: vec![0; frames],
            unused: (0..frames as u32).rev().collect(),
            frames: Lists::new(frames, frames),
        }
    }

    pub(super) fn block_pages(&self) -> u32 {
        self.block_pages
    }

    pub(super) fn id_of(&self, lpn: Lpn) -> u32 {
        lpn.0 / self.block_pages
    }

    /// Adds a frame with this page. Returns the slot of its block.
    pub(super) fn enter(&mut self, frame: u32, lpn: Lpn) -> u32 {
        debug_assert!(self.frames.list_of(frame).is_none(), "frame {frame} is in a block already");
        let id = self.id_of(lpn);
        let slot = self.slot(id).unwrap_or_else(|| {
            let Some(slot) = self.unused.pop() else { panic!("there are fewer blocks than frames") };
            self.table.insert(id, slot);
            self.ids[slot as usize] = id;
            slot
        });
        self.frames.push_first(slot, frame);
        debug_assert_eq!(self.slot_of(frame), Some(slot), "frame {frame} entered another block");
        slot
    }

    /// Removes a frame. Returns the slot that its block has, or had until this frame left.
    pub(super) fn leave(&mut self, frame: u32) -> u32 {
        let slot = self.frames.remove(frame);
        debug_assert_eq!(
            self.table.get(self.ids[slot as usize]),
            Some(slot),
            "block slot {slot} is not found"
        );
        if self.frames.len(slot) == 0 {
            self.table.remove(self.ids[slot as usize]);
            self.unused.push(slot);
        }
        slot
    }

    pub(super) fn slot(&self, id: u32) -> Option<u32> {
        self.table.get(id)
    }

    pub(super) fn slot_of(&self, frame: u32) -> Option<u32> {
        self.frames.list_of(frame)
    }

    pub(super) fn len(&self, slot: u32) -> usize {
        self.frames.len(slot)
    }

    /// The frame of the slot's block that entered first.
    pub(super) fn first_to_come(&self, slot: u32) -> Option<u32> {
        self.frames.last(slot)
    }

    /// Frames of the same block that entered just before and just after this one.
    pub(super) fn neighbours(&self, frame: u32) -> (Option<u32>, Option<u32>) {
        (self.frames.after(frame), self.frames.before(frame))
    }

    /// Appends to `frames` the other frames of this frame's block.
    pub(super) fn others(&self, frame: u32, frames: &mut Vec<u32>) {
        if let Some(slot) = self.slot_of(frame) {
            frames.extend(self.frames.iter(slot).filter(|&other| other != frame));
        }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.table.ram_bytes() + self.frames.ram_bytes() + self.ids.len() * 2 * size_of::<u32>()
    }
}
