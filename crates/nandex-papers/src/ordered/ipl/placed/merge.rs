//! Merges of groups: every image written over its older one, ghosts made real, nodes moved between groups.

use super::super::layout::IplTag;
use super::super::store::Store;
use alloc::vec::Vec;
use nandex::check::IndexError;
use nandex::nand::{Cause, Nand};
use nandex::units::Pbn;

impl<N: Nand> Store<N> {
    /// Merges the first group in place, with at most `nodes_max` nodes of all: more go to fresh groups, and
    /// the others are left empty.
    pub(in super::super) fn merge_placed(
        &mut self,
        sources: &[Pbn],
        nodes_max: u32,
        cause: Cause,
    ) -> Result<(), IndexError> {
        // What is written over must not be wanted after a cut.
        if self.committed < self.sequence || !self.waiting.is_empty() {
            self.counts.commits_forced += 1;
            self.commit()?;
        }
        let (ids, left) = self.division(sources, nodes_max, cause)?;
        self.generation += 1;
        let merge = self.generation;
        let mut parts = ids.chunks(left.max(1));
        let stay = parts.next().unwrap_or_default();
        for part in parts {
            let pbn = self.open_block()?;
            for (page, &id) in (0u32..).zip(part) {
                self.move_to(id, (pbn, page), self.generation, cause)?;
            }
        }
        let home = sources[0];
        self.merge_home(home, merge, cause)?;
        for &id in stay {
            if self.block_of(id) != home {
                let page = self.free_page(home, &self.images_in(home))?;
                self.move_to(id, (home, page), merge, cause)?;
            }
        }
        self.counts.merges += 1;
        for &source in sources {
            if self.blocks[source.index()].live == 0 {
                self.held.retain(|&held| held != source);
                self.release(source)?;
            }
        }
        Ok(())
    }

    /// Writes the nodes that stayed in a group over their images, and empties its log.
    fn merge_home(&mut self, home: Pbn, merge: u32, cause: Cause) -> Result<(), IndexError> {
        let mut images = self.images_in(home);
        let mut ids: Vec<u32> = self.nodes_of(&[home]);
        // Of nodes that have an image in common, those born later move; the last one finds the page its own.
        let shares: Vec<u32> = ids.iter().rev().copied().filter(|&id| images[self.page_of(id)] > 1).collect();
        for id in shares {
            let old = self.page_of(id);
            if images[old] > 1 {
                let page = self.free_page(home, &images)?;
                self.move_to(id, (home, page), merge, cause)?;
                images[old] -= 1;
                images[page as usize] += 1;
                ids.retain(|&other| other != id);
            }
        }
        // In the place of pages that nodes left, so that the log has what is behind the images.
        let nodes = usize::from(self.blocks[home.index()].live);
        for id in ids {
            let old = self.page_of(id);
            let page = if old < nodes { old as u32 } else { self.free_page(home, &images)? };
            self.move_to(id, (home, page), merge, cause)?;
            images[old] -= 1;
            images[page as usize] += 1;
        }
        debug_assert!(
            images[nodes..].iter().all(|&nodes| nodes == 0),
            "I6: an image of {home} lies behind others"
        );
        let (generation, newest) = (merge, self.sequence);
        let block = self.block(home);
        (block.cursor, block.units, block.generation) = (0, 0, generation);
        (block.born, block.newest) = (newest.into(), newest.into());
        block.data_next = nodes as u16;
        Ok(())
    }

    fn page_of(&self, id: u32) -> usize {
        self.slots[id as usize].base.into()
    }

    /// Writes a node as it is to a page. It is there at once: what follows may fail.
    fn move_to(
        &mut self,
        id: u32,
        (pbn, page): (Pbn, u32),
        generation: u32,
        cause: Cause,
    ) -> Result<(), IndexError> {
        debug_assert_eq!(self.committed, self.sequence, "I7: a merge writes what is not committed");
        let mut node = core::mem::take(&mut self.moving);
        let sequence = self.sequence;
        let result = self.load(id, &mut node, cause).and_then(|()| {
            let tag = IplTag { sequence, generation, ..self.blank_tag(pbn) };
            self.write_image(&node, (pbn, page), tag, cause)
        });
        self.moving = node;
        result
    }
}
