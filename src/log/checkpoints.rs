//! Checkpoints of the log: root, frontier, block table, and the owner's note.

use super::state::{
    FIXED_BYTES, FLAG_CLOSED, FLAG_EXACT, GAPS_SHIFT, HAS_NOTES, LogContents, NONE, VERSION, VERSION_COUNTED,
};
use super::tape::Tape;
use super::{CLOSES, Note};
use crate::blocks::BlockTable;
use crate::blocks::checkpoint::{CheckpointArea, Contents};
use crate::codec::{put_u16, put_u32, put_u64};
use crate::fault::IndexFault;
use crate::nand::Nand;
use alloc::vec::Vec;

/// The checkpoints on the chip, and when the next one is due.
pub(super) struct Checkpoints {
    pub(super) area: CheckpointArea,
    /// Note: bytes that each checkpoint keeps for the owner. They are in RAM only while one is written or was
    /// just mounted.
    pub(super) note: Vec<u8>,
    /// Bound for the bytes of a note, or its last size, if the owner gives it at each checkpoint.
    pub(super) note_bound: usize,
    /// Blocks opened since the newest checkpoint.
    pub(super) blocks_since: u32,
    /// True if the newest checkpoint is a closing one: a mount looks for later pages in one place only.
    pub(super) closed: bool,
    /// True if the state that a mount found is in no checkpoint yet.
    pub(super) is_needed: bool,
    /// True if a block that a mount took for reclaimed may be a damaged one to which the tree leads.
    pub(super) in_doubt: bool,
    /// True if valid bits were guessed from the counts of the newest checkpoint.
    pub(super) is_guessed: bool,
}

impl Checkpoints {
    pub(super) fn new(area: CheckpointArea, note: Vec<u8>, closed: bool, is_guessed: bool) -> Checkpoints {
        Checkpoints {
            area,
            note,
            note_bound: 0,
            blocks_since: 0,
            closed,
            is_needed: false,
            in_doubt: false,
            is_guessed,
        }
    }

    /// Bytes of a note for which room is kept.
    pub(super) fn note_bytes(&self) -> usize {
        self.note_bound.max(self.note.len())
    }

    /// True if the newest checkpoint was written at close. Then the first block opened afterwards is the only
    /// sign of later writes. A reclaim might erase that block, or cause another block to be opened first. So
    /// a plain checkpoint must be written before a reclaim.
    pub(super) fn is_closed(&self) -> bool {
        CLOSES && self.closed
    }
}

impl<N: Nand> Tape<N> {
    /// Sets the note that the next checkpoints keep for the owner.
    pub(crate) fn set_note(&mut self, note: Vec<u8>) {
        self.checkpoints.note = note;
    }

    /// Takes the owner's note: that of the newest checkpoint after a mount, otherwise the one set last.
    pub(crate) fn take_note(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.checkpoints.note)
    }

    /// True if more pages may count as valid than the tree leads to.
    pub(crate) fn has_bits_in_doubt(&self) -> bool {
        self.addresses.bits_in_doubt
    }

    /// True if a walk may settle that.
    pub(crate) fn may_settle_bits(&self) -> bool {
        self.addresses.is_unsettled
    }

    /// Notes that exactly the pages that the tree leads to count as valid.
    pub(crate) fn trust_bits(&mut self) {
        self.addresses.bits_in_doubt = false;
    }

    /// True if a checkpoint must precede the next page.
    pub(crate) fn needs_checkpoint(&self) -> bool {
        self.checkpoints.is_needed
    }

    /// True if enough blocks were filled for another checkpoint.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.checkpoints.blocks_since >= self.config.checkpoint_blocks && !self.config.is_placed()
    }

    /// Leaves the open block and writes a closing checkpoint, so that the next mount sees at once that
    /// nothing was written since. If blocks are scarce, the rest of an open block is worth more than that,
    /// and a plain one is written.
    pub(super) fn close(&mut self, note: Note<'_>) -> Result<(), IndexFault> {
        let open_pages = self.head.open_pages(self.medium.geometry.pages_per_block);
        if !CLOSES || self.is_tight() && open_pages > 0 {
            return self.write_checkpoint(false, note);
        }
        let open = self.head.frontier.block.take();
        if let Some(open) = open {
            self.blocks.close(open);
        }
        let before = self.counters.checkpoints;
        self.write_checkpoint(true, note)?;
        // If the checkpoint was not written, the open block is not left before it is full: a mount relies on
        // that to tell what is missing.
        if let Some(open) = open.filter(|_| self.counters.checkpoints == before) {
            self.blocks.reopen(open);
            self.head.frontier.block = Some(open);
        }
        Ok(())
    }

    /// Writes a checkpoint of the state that a mount found. If that is impossible, the log can be read, but
    /// takes no page before a checkpoint is written. Otherwise pages left by a cut would be mistaken for a
    /// part of later operations.
    pub(crate) fn end_mount(&mut self, note: Note<'_>) -> Result<(), IndexFault> {
        self.checkpoints.is_needed = true;
        let closes = self.head.frontier.block.is_none();
        self.write_checkpoint(closes, note)
    }

    /// Writes a checkpoint. If no block is left for it (for example, because most anchors failed), the
    /// previous one stays the newest. Then the next mount has more to read, and nothing is lost.
    pub(super) fn write_checkpoint(&mut self, closed: bool, note: Note<'_>) -> Result<(), IndexFault> {
        if let Some(note) = note.filter(|_| HAS_NOTES) {
            self.checkpoints.note_bound = note.byte_count();
        }
        let geometry = self.medium.geometry;
        let note = note.unwrap_or(&self.checkpoints.note);
        let mut contents = LogContents {
            fixed: self.fixed_part(note),
            owner: &self.medium.owner,
            replaced: &self.addresses.replaced,
            note,
            openings: &self.addresses.openings,
            table_bytes: BlockTable::encoded_bytes_with(geometry, self.config.validity),
        };
        // A plain checkpoint must follow a closing one before anything is reclaimed: see
        // `Checkpoints::is_closed`.
        let blocks_needed = CheckpointArea::blocks_needed(geometry, contents.byte_count());
        let closed = CLOSES && closed && self.blocks.free_count() as usize > blocks_needed;
        // Pages that an unfinished operation replaces are still valid.
        let is_exact = !self.addresses.bits_in_doubt && self.addresses.dying.is_empty();
        let flags = u8::from(closed) * FLAG_CLOSED + u8::from(is_exact) * FLAG_EXACT;
        contents.fixed[1] = flags | (self.config.gaps().code() << GAPS_SHIFT);
        self.checkpoints.blocks_since = 0;
        // The buffer serves for the pages of the checkpoint meanwhile.
        self.medium.loaded = None;
        let (nand, buffer) = (&mut self.medium.nand, &mut self.medium.page.data);
        match self.checkpoints.area.write(nand, &mut self.blocks, &contents, buffer) {
            Ok(()) => {
                self.counters.checkpoints += 1;
                (self.checkpoints.closed, self.checkpoints.is_needed) = (closed, false);
                self.head.note_checkpoint();
            }
            Err(error) if error.is_refusal() => {
                self.counters.checkpoints_skipped += 1;
            }
            Err(error) => return Err(error.into()),
        }
        self.recount();
        Ok(())
    }

    fn fixed_part(&self, note: &dyn Contents) -> [u8; FIXED_BYTES] {
        let note_bytes = if HAS_NOTES { note.byte_count() as u32 } else { 0 };
        assert!(note_bytes < 1 << 24, "a note of {note_bytes} bytes");
        let (frontier, root) = (self.head.frontier, self.head.root);
        let mut fixed = [0; FIXED_BYTES];
        fixed[0] = if self.config.counts() { VERSION_COUNTED } else { VERSION };
        put_u64(&mut fixed, 2, self.head.sequence);
        put_u32(&mut fixed, 10, frontier.block_sequence);
        put_u32(&mut fixed, 14, frontier.block.map_or(NONE, |b| b.0));
        put_u32(&mut fixed, 18, frontier.next_page);
        put_u32(&mut fixed, 22, root.map_or(NONE, |r| r.ppn.0));
        put_u32(&mut fixed, 26, note_bytes << 8 | u32::from(root.map_or(0, |r| r.height)));
        put_u16(&mut fixed, 30, self.medium.owner.len() as u16);
        put_u32(&mut fixed, 32, self.addresses.replaced.len() as u32);
        put_u32(&mut fixed, 36, self.capacity.bad_at_format);
        fixed
    }
}
