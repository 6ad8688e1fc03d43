//! Finding the tree on the chip: at a mount, and after an update that the chip refused half-way.

use super::{RawScheme, RawTree, height_bound, note_of};
use crate::blocks::checkpoint::Contents;
use crate::check::{IndexError, words};
use crate::fault::IndexFault;
use crate::log::settle::keep_pages;
use crate::nand::Nand;
use crate::ordered::outcome_of_undone;
use alloc::vec::Vec;

/// True if the engine was built so that an update that got stuck is undone.
const UNDOES: bool = cfg!(feature = "embedded");

impl<N: Nand, S: RawScheme> RawTree<N, S> {
    /// Restores root, journal and moves from the findings of the log.
    pub(super) fn restore(&mut self) -> Result<(), IndexFault> {
        let nodes = &mut self.nodes;
        let Some(root) = nodes.log.root() else {
            let found = nodes.log.tape.unfit(words("the log on the chip has no root"))?;
            return Err(IndexError::NotFormatted(found).into());
        };
        if root.height == 0 || root.height > nodes.path.scheme.height_max(0) {
            return Err(IndexFault::corrupted("an impossible height", root.ppn.0));
        }
        nodes.root = root.ppn;
        nodes.path.restart(root.height);
        let scheme = nodes.path.scheme;
        let most = scheme.path_bytes(height_bound(&scheme, nodes.log.geometry().pages()) + 1);
        // If nodes can move, the buffer is made only when the list of pages since the checkpoint is freed.
        if !S::MAPS_MOVES {
            nodes.path.buffer.reserve_exact(most);
            nodes.path.make_room_to_grow();
        }
        S::mounted(nodes)?;
        let (journal, note) = (nodes.log.take_journal(), nodes.log.tape.take_note());
        if S::MAPS_MOVES {
            S::restore_moves(nodes, &journal)?;
            drop((journal, note));
            nodes.path.buffer.reserve_exact(most);
            nodes.path.make_room_to_grow();
            nodes.log.tape.expect_note(nodes.moves.byte_count());
        } else if S::TAKES_JOURNAL && !(nodes.path.scheme.holds_one() && note.len() + journal.len() > 0) {
            nodes.restore_journal(&note, &journal.iter().collect::<Vec<_>>())?;
            nodes.note_journal();
        } else if S::TAKES_JOURNAL {
            let what =
                words("a journal of moved leaves is committed with more RAM than for one node of a path");
            return Err(IndexError::Unsupported(what.into()).into());
        } else if !note.is_empty() || !journal.is_empty() {
            let what = "a journal of moved leaves, which this tree never keeps";
            return Err(IndexFault::corrupted(what, root.ppn.0));
        }
        keep_pages(self)?;
        // The state found is put into a checkpoint before anything else is programmed.
        let nodes = &mut self.nodes;
        if nodes.log.tape.needs_checkpoint() && !nodes.log.is_in_doubt() {
            nodes.log.tape.end_mount(note_of::<S>(&nodes.moves))
        } else {
            Ok(())
        }
    }

    /// Undoes an operation that the chip refused half-way, so that everything else can still be read. If
    /// pages wait in RAM, or undoing is left out of the build, only another mount can do that.
    pub(super) fn undo(&mut self) -> Result<(), IndexFault> {
        if self.nodes.log.config().write_pages > 0 || !UNDOES { Ok(()) } else { self.find_again() }
    }

    /// Undoes a batch. All pages in RAM belong to it, since pages that waited before were programmed first.
    pub(super) fn undo_batch(&mut self) -> Result<(), IndexFault> {
        self.nodes.log.drop_written();
        if UNDOES { self.find_again() } else { Ok(()) }
    }

    fn find_again(&mut self) -> Result<(), IndexFault> {
        let found = self.find_on_chip();
        self.nodes.log.tape.half_done = found.is_err();
        found
    }

    fn find_on_chip(&mut self) -> Result<(), IndexFault> {
        let nodes = &mut self.nodes;
        nodes.path.forget();
        if S::TAKES_JOURNAL {
            nodes.journal.clear();
        }
        let read_pages = nodes.log.config().read_pages;
        if S::MAPS_MOVES {
            nodes.moves.clear();
        }
        // Frees RAM for the state on the chip.
        nodes.path.buffer = Vec::new();
        nodes.log.remount()?;
        if S::MAPS_MOVES {
            nodes.moves.load(&nodes.log.tape.take_note(), nodes.log.geometry().pages())?;
        }
        nodes.log.read_with(read_pages);
        self.restore()
    }

    /// Ends an update. One that found no block half-way is undone, unless all of it was on the chip already.
    pub(super) fn settled(
        &mut self,
        outcome: Result<bool, IndexFault>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<bool, IndexFault> {
        let error = match outcome {
            Err(error) if self.nodes.is_half_done() && error.is_refusal() => error,
            other => return other,
        };
        self.undo()?;
        if self.nodes.is_half_done() {
            return Err(error);
        }
        let existed = self.existed;
        outcome_of_undone(self, (key, value), existed, error)
    }
}
