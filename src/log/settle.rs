//! Pages to which the tree leads: they tell a log which pages are valid, where a mount could not.
//!
//! * Valid bits in doubt: after a power cut, pages may count as valid to which nothing leads.
//! * Blocks in doubt: on a chip that was not closed, a block without a whole page was reclaimed, or is
//!   damaged and still in use. Pages to which the tree refers are kept, so that no new page gets the address
//!   of a damaged one. Otherwise a reader would take the new page for the damaged one and answer wrongly.

use super::Log;
use super::collect::{Lent, Relocate};
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand};
use crate::units::Ppn;

/// Notes every page to which the tree leads ([`Log::note_valid`]).
pub(super) fn note_pages<N: Nand, T: Relocate<N>>(tree: &mut T) -> Result<(), IndexFault> {
    let mut note = |log: &mut Log<N>, ppn| {
        log.note_valid(ppn);
        Ok(())
    };
    tree.visit_pages(Cause::GarbageCollection, &mut note)?.map_or(Ok(()), Err)
}

/// Keeps what the tree leads to, if a block is in doubt. If an inner node cannot be read, the pages below it
/// are not known. If the block of a page is used for something else by now, its place cannot be kept. Either
/// is returned as an error, and then nothing is written.
pub(crate) fn keep_pages<N: Nand, T: Relocate<N>>(tree: &mut T) -> Result<Option<IndexFault>, IndexFault> {
    if !tree.log().is_in_doubt() {
        return Ok(None);
    }
    tree.log().begin_keeping();
    let kept = tree.visit_pages(Cause::Recovery, &mut Log::keep);
    tree.log().end_count(matches!(kept, Ok(None)));
    let damage = kept?;
    if damage.is_none() {
        tree.log().end_doubt();
    }
    Ok(damage)
}

/// True if the state that the mount found is in a checkpoint, or could be put there now. Before that nothing
/// may be programmed: the next mount would take the pages that a cut left for damaged ones.
pub(crate) fn is_mount_behind<N: Nand, T: Relocate<N>>(tree: &mut T) -> Result<bool, IndexFault> {
    keep_pages(tree)?.map_or(Ok(()), Err)?;
    let Lent { log, note, .. } = tree.lend();
    if log.tape.needs_checkpoint() {
        log.tape.end_mount(note)?;
    }
    Ok(!log.tape.needs_checkpoint())
}

/// Invalidates the valid pages to which the tree does not lead. Each walk marks the pages it reaches among as
/// many as the page that the tree lends has bits: no other RAM is there.
pub(super) fn drop_unreached<N: Nand, T: Relocate<N>>(tree: &mut T) -> Result<(), IndexFault> {
    let mut marks = core::mem::take(tree.lend().page);
    let pages = tree.log().geometry().pages();
    let mut parts = (0..pages).step_by(8 * marks.len());
    let dropped = parts.try_for_each(|from| drop_unmarked(tree, from, &mut marks));
    *tree.lend().page = marks;
    dropped
}

/// Invalidates the valid pages, of those from `from` on for which there are marks, that a walk does not
/// reach.
fn drop_unmarked<N: Nand, T: Relocate<N>>(
    tree: &mut T,
    from: u32,
    marks: &mut [u8],
) -> Result<(), IndexFault> {
    marks.fill(0);
    let mut mark = |_: &mut Log<N>, ppn: Ppn| {
        let at = ppn.0.wrapping_sub(from);
        if let Some(byte) = marks.get_mut(at as usize / 8) {
            *byte |= 1 << (at % 8);
        }
        Ok(())
    };
    tree.visit_pages(Cause::GarbageCollection, &mut mark)?.map_or(Ok(()), Err)?;
    let log = tree.log();
    for (at, byte) in (from..).step_by(8).zip(marks.iter()) {
        for ppn in (at..at + 8).filter(|page| byte >> (page - at) & 1 == 0).map(Ppn) {
            if log.is_valid(ppn) {
                log.drop_unreached(ppn);
            }
        }
    }
    Ok(())
}
