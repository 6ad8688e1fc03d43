//! A log over another handle of its chip: a mount looks at a chip that it was lent.

use crate::log::Log;

impl<N> Log<N> {
    /// This log over another handle of the same chip.
    pub(super) fn over<M>(self, nand: M) -> Log<M> {
        Log {
            nand,
            geometry: self.geometry,
            config: self.config,
            owner: self.owner,
            blocks: self.blocks,
            area: self.area,
            replaced: self.replaced,
            frontier: self.frontier,
            needed: self.needed,
            sequence: self.sequence,
            root: self.root,
            dying: self.dying,
            journal: self.journal,
            held: self.held,
            note: self.note,
            note_bound: self.note_bound,
            bad_at_format: self.bad_at_format,
            capacity: self.capacity,
            passed_over: self.passed_over,
            next_free: self.next_free,
            flush_failed: self.flush_failed,
            is_part_divided: self.is_part_divided,
            openings: self.openings,
            weak: self.weak,
            moves_weak: self.moves_weak,
            scrubbed: self.scrubbed,
            goes_on: self.goes_on,
            reads: self.reads,
            writes: self.writes,
            page: self.page,
            loaded: self.loaded,
            blocks_since_checkpoint: self.blocks_since_checkpoint,
            closed: self.closed,
            gaps_before: self.gaps_before,
            needs_checkpoint: self.needs_checkpoint,
            in_doubt: self.in_doubt,
            is_guessed: self.is_guessed,
            counters: self.counters,
        }
    }
}
