//! Counters of changes, blocks and sessions, and the number of the last commit.

use super::layout::{GENERATION_BITS, IplTag, Link, NO_GENERATION, NO_UNIT, PageKind, SEQUENCE_BITS};
use super::slots::NO_BLOCK;
use nandex::codec::{first_number, numbers};

/// The numbers of changes, blocks and sessions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) sequence: u64,
    pub(super) committed: u64,
    pub(super) generation: u32,
    /// All blocks up to this generation were opened completely.
    pub(super) opened: u32,
    /// The generation when the newest checkpoint was written.
    pub(super) checkpointed: u32,
    pub(super) session: u32,
    /// The block, by its generation, and the unit of the page that this session programmed last.
    pub(super) before: (u32, u16),
}

impl Numbers {
    pub(super) fn new() -> Numbers {
        let [generation, session] = [0, 1].map(|usual| first_number(GENERATION_BITS, usual) as u32);
        Numbers::saved([first_number(SEQUENCE_BITS, 0); 2], generation, session)
    }

    /// The numbers of a checkpoint: of changes and of those committed, of blocks, and of the session.
    pub(super) fn saved([sequence, committed]: [u64; 2], generation: u32, session: u32) -> Numbers {
        let (opened, checkpointed, before) = (generation, generation, (NO_GENERATION, NO_UNIT));
        Numbers { sequence, committed, generation, opened, checkpointed, session, before }
    }

    /// The number of the next change.
    pub(super) fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(super) fn is_committed(&self) -> bool {
        self.committed >= self.sequence
    }

    /// Whether there are numbers for further changes.
    pub(super) fn has_left(&self) -> bool {
        let counted = u64::from(self.generation.max(self.session));
        self.sequence < numbers(SEQUENCE_BITS) && counted < numbers(GENERATION_BITS)
    }

    /// Notes the state that the chip shows from now on of a block, all of whose first pages are there.
    pub(super) fn note_opened(&mut self, generation: u32) {
        self.opened = self.opened.max(generation);
        debug_assert!(self.opened <= self.generation, "no block is opened before it is taken");
    }

    /// Link of the next page to those programmed before it.
    pub(super) fn link(&self) -> Link {
        Link { opened: self.opened, generation: self.before.0, unit: self.before.1 }
    }

    /// The tag of the next page in a block of this generation.
    pub(super) fn tag(&self, generation: u32) -> IplTag {
        IplTag {
            kind: PageKind::Data,
            level: 0,
            count: 0,
            node: NO_BLOCK,
            generation,
            session: self.session,
            sequence: self.sequence,
            committed: self.committed,
            page: 0,
            merged: 0,
            protected: true,
            before: self.link(),
            data_crc: 0,
        }
    }
}
