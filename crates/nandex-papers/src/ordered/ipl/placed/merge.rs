//! Merges of groups: every image is written over its older one, ghosts get images, and nodes move between
//! groups. Also images written one by one.

use super::super::image::Node;
use super::super::layout::{IplTag, NO_UNIT};
use super::super::places::Places;
use super::super::slots::{NO_BLOCK, Slot};
use super::super::store::Store;
use alloc::vec;
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
        if !self.numbers.is_committed() || !self.queues.is_empty() {
            self.counts.commits_forced += 1;
            self.commit()?;
        }
        let (ids, left) = self.division(sources, nodes_max, cause)?;
        self.numbers.generation += 1;
        let merge = self.numbers.generation;
        let mut parts = ids.chunks(left.max(1));
        let stay = parts.next().unwrap_or_default();
        for part in parts {
            let pbn = self.open_block()?;
            for (page, &id) in (0u32..).zip(part) {
                self.move_to(id, (pbn, page), self.numbers.generation, cause)?;
            }
        }
        let (home, form) = (sources[0], self.medium.form);
        self.merge_home(home, merge, cause)?;
        for &id in stay {
            if self.places.block_of(id) != home {
                let page = self.places.page_in(home, &form)?;
                self.move_to(id, (home, page), merge, cause)?;
            }
        }
        self.counts.merges += 1;
        for &source in sources {
            if self.places.live(source) == 0 {
                self.places.held.retain(|&held| held != source);
                self.release(source)?;
            }
        }
        Ok(())
    }

    /// Writes the nodes that stay in a group over their images, and begins its log again.
    fn merge_home(&mut self, home: Pbn, merge: u32, cause: Cause) -> Result<(), IndexError> {
        let form = self.medium.form;
        let mut images = self.places.images_in(home, &form);
        let page_of = |places: &Places, id: u32| usize::from(places.slots[id as usize].base);
        let mut ids: Vec<u32> = self.places.nodes_of(&[home]);
        // Of nodes that have an image in common, those born later move; the last one finds the page its own.
        let is_shared = |id: &u32| images[page_of(&self.places, *id)] > 1;
        let shares: Vec<u32> = ids.iter().rev().copied().filter(is_shared).collect();
        for id in shares {
            let old = page_of(&self.places, id);
            if images[old] > 1 {
                let page = self.places.free_page(home, &images, &form)?;
                self.move_to(id, (home, page), merge, cause)?;
                images[old] -= 1;
                images[page as usize] += 1;
                ids.retain(|&other| other != id);
            }
        }
        // In the place of pages that nodes left, so that the log has what is behind the images.
        let nodes = self.places.live(home) as usize;
        for id in ids {
            let old = page_of(&self.places, id);
            let page = if old < nodes { old as u32 } else { self.places.free_page(home, &images, &form)? };
            self.move_to(id, (home, page), merge, cause)?;
            images[old] -= 1;
            images[page as usize] += 1;
        }
        debug_assert!(
            images[nodes..].iter().all(|&nodes| nodes == 0),
            "I6: an image of {home} lies behind others"
        );
        let newest = self.numbers.sequence;
        let block = &mut self.places[home];
        (block.cursor, block.units, block.generation) = (0, 0, merge);
        (block.born, block.newest) = (newest.into(), newest.into());
        block.data_next = nodes as u16;
        Ok(())
    }

    /// Writes a node unchanged to another page. Its place is updated at once, since later steps may fail.
    fn move_to(
        &mut self,
        id: u32,
        (pbn, page): (Pbn, u32),
        generation: u32,
        cause: Cause,
    ) -> Result<(), IndexError> {
        debug_assert!(self.numbers.is_committed(), "I7: a merge writes what is not committed");
        let mut node = core::mem::take(&mut self.moving);
        let result = self.load(id, &mut node, cause).and_then(|()| {
            let tag = IplTag { page: page as u16, generation, ..self.tag(pbn) };
            self.write_image(&node, pbn, tag, cause)
        });
        self.moving = node;
        result
    }

    /// Programs the image of a node and notes its place.
    fn write_image(&mut self, node: &Node, pbn: Pbn, tag: IplTag, cause: Cause) -> Result<(), IndexError> {
        self.medium.set_image(node, tag);
        self.medium.program_over(self.medium.form.geometry.page_at(pbn, tag.page.into()), cause)?;
        self.set_slot(node.id, Slot { block: pbn.0, base: tag.page, last: NO_UNIT });
        let block = &mut self.places[pbn];
        block.data_next = block.data_next.max(tag.page + 1);
        Ok(())
    }

    /// Writes a new image of a node. With `mark`, this commits all changes so far, and the image may
    /// overwrite the older one, unless a ghost uses that. Otherwise the image goes to a free page.
    pub(in super::super) fn place_placed(&mut self, node: &Node, mark: bool) -> Result<(), IndexError> {
        let sequence = self.numbers.next();
        let old = self.places.slots[node.id as usize];
        let stays = mark && old.block != NO_BLOCK && !self.places.is_shared(old);
        let pbn = if stays { Pbn(old.block) } else { self.block_for_image(node.id)? };
        let page = if stays { old.base } else { self.places.page_in(pbn, &self.medium.form)? as u16 };
        let committed = if mark { sequence } else { self.numbers.committed };
        let tag = IplTag { page, committed, ..self.tag(pbn) };
        self.write_image(node, pbn, tag, Cause::Host)?;
        self.queues.drop_of(Pbn(old.block), node.id, self.medium.form.shapes.widths());
        if !stays {
            self.places.note_pending(old, &self.medium.form);
        }
        self.places[pbn].newest = sequence.into();
        if mark {
            self.numbers.committed = sequence;
            self.places.pending.clear();
        }
        Ok(())
    }

    /// Commits when no record waits and no group has room for a unit: writes an image over its older version.
    pub(in super::super) fn mark_by_image(&mut self) -> Result<(), IndexError> {
        let (geometry, slots) = (self.medium.form.geometry, &self.places.slots);
        let mut shared = vec![0u8; geometry.pages() as usize];
        let page_of = |slot: &Slot| geometry.page_at(Pbn(slot.block), slot.base.into()).index();
        for slot in slots.iter().filter(|slot| slot.block != NO_BLOCK) {
            shared[page_of(slot)] = shared[page_of(slot)].saturating_add(1);
        }
        let alone = |slot: &Slot| slot.block != NO_BLOCK && shared[page_of(slot)] == 1;
        let id = slots.iter().position(alone).ok_or(IndexError::NO_BLOCK)? as u32;
        let mut node = core::mem::take(&mut self.moving);
        let result = self.load(id, &mut node, Cause::Host).and_then(|()| self.place_placed(&node, true));
        self.moving = node;
        result
    }
}
