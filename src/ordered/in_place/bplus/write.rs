//! The end of an operation: it writes its pages to the store as one group, and the superblock with its clean
//! mark.

use super::Work;
use super::page::{HEIGHT_MAX, ROOT, SUPERBLOCK};
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::store::write_batch;
use crate::units::Lpn;
use alloc::vec::Vec;

impl Work<'_> {
    /// Completes a finished edit, or gives it up with nothing changed.
    pub(super) fn finish(&mut self, edit: Result<(), IndexFault>) -> Result<(), IndexFault> {
        self.finish_with(edit, &[])
    }

    /// Completes an edit together with pages that are no nodes of this tree, in one group.
    pub(super) fn finish_with(
        &mut self,
        edit: Result<(), IndexFault>,
        pages: &[(Lpn, &[u8])],
    ) -> Result<(), IndexFault> {
        let done = edit.and_then(|()| self.unmark_clean()).and_then(|()| self.write_group(pages));
        if done.is_err() {
            self.core.pages.give_back();
            return done;
        }
        self.core.count_settled();
        self.core.pages.settle(self.store)
    }

    /// Clears the mark on the medium before the first change after a sync, in the class *none*.
    pub(super) fn unmark_clean(&mut self) -> Result<(), IndexFault> {
        if !self.core.mark.goes_before_a_change() {
            return Ok(());
        }
        self.write_superblock(false)?;
        self.core.mark.is_marked = false;
        self.store.sync()?;
        self.core.mark.is_clean = false;
        Ok(())
    }

    pub(super) fn write_superblock(&mut self, is_clean: bool) -> Result<(), IndexFault> {
        let layout = self.core.nodes.layout;
        let page = &mut self.core.nodes.spare().bytes;
        layout.put_superblock(is_clean, page);
        Ok(self.store.write(SUPERBLOCK, Cause::Checkpoint, page)?)
    }

    /// Syncs the store, and marks the superblock clean if it is not.
    pub(super) fn sync_and_mark(&mut self) -> Result<(), IndexFault> {
        self.store.sync()?;
        self.core.pages.trim_waiting(self.store)?;
        let mark = &self.core.mark;
        if mark.is_clean && mark.is_marked {
            return Ok(());
        }
        // If the mark fails to be written, it is not known what the medium says: no change may follow. A
        // refusal is different: a refused mark is not there, and one that was written must be cleared before
        // the next change, whatever the sync says.
        let written = self.write_superblock(true);
        let mark = &mut self.core.mark;
        (mark.is_clean, mark.is_marked) = (mark.is_clean | written.is_ok(), written.is_ok());
        let marked = written.and_then(|()| Ok(self.store.sync()?));
        self.core.mark.is_interrupted = marked.as_ref().is_err_and(|error| !error.is_refusal());
        marked
    }

    /// Writes every changed node after the given pages: atomically if the store can, else new pages first and
    /// the root last.
    fn write_group(&mut self, pages: &[(Lpn, &[u8])]) -> Result<(), IndexFault> {
        if let Some(changes) = self.core.apart.take_if(|_| cfg!(feature = "full") && pages.is_empty()) {
            let written = self.write_apart(&changes);
            self.core.apart = Some(changes);
            return written;
        }
        let mut group: [(Lpn, &[u8]); 2 * HEIGHT_MAX] = [(Lpn(0), &[]); 2 * HEIGHT_MAX];
        let mut count = 0;
        let layout = self.core.nodes.layout;
        for frame in self.core.nodes.dirty() {
            debug_assert!(frame.lpn() == ROOT || frame.count() > 0, "B4: an empty node is written");
            debug_assert!(
                frame.count() <= layout.shape(frame.level()).capacity,
                "B4: an overfull node is written"
            );
            debug_assert_ne!(frame.lpn(), SUPERBLOCK, "B6: a node is written over the superblock");
            frame.seal();
            group[count] = (frame.lpn(), &frame.bytes);
            count += 1;
        }
        let all: Vec<(Lpn, &[u8])>;
        let group = if pages.is_empty() {
            &group[..count]
        } else {
            all = [pages, &group[..count]].concat();
            &all
        };
        let written = write_batch(self.store, group);
        self.core.mark.hear(&written);
        Ok(written?)
    }
}
