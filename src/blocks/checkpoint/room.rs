//! RAM that checkpoints need.

use super::{CheckpointArea, anchor_count};
use crate::blocks::BlockTable;
use crate::nand::Geometry;
use crate::units::Pbn;

impl CheckpointArea {
    /// Bytes of RAM held between calls. The number is the same for all payloads of at most
    /// `payload_bytes_max` bytes: an owner that shares out the rest of the RAM must come to the same shares
    /// at every mount.
    pub fn ram_bytes(&self, payload_bytes_max: usize) -> usize {
        let pages = CheckpointArea::pages_needed(self.geometry, payload_bytes_max) as u32 + self.note_pages;
        let blocks = pages.div_ceil(self.geometry.pages_per_block).max(self.run.blocks.len() as u32);
        size_of::<CheckpointArea>() + (anchor_count(self.geometry) + blocks) as usize * size_of::<Pbn>()
    }

    /// Bytes of RAM that the lists of a payload's blocks take beyond a few blocks: the lists of the newest
    /// checkpoint and of the one being written, the rows of the table that change meanwhile, and the
    /// reference.
    pub const fn lists_bytes(geometry: Geometry, payload_bytes: usize) -> usize {
        const FEW: usize = 4;
        const EACH: usize = 3 * size_of::<Pbn>() + 2 * BlockTable::CHANGED_BYTES;
        (CheckpointArea::blocks_needed(geometry, payload_bytes) / 2).saturating_sub(FEW) * EACH
    }
}
