//! Whole pages: images of nodes, merges, block splits, and how free blocks are come by.
//!
//! A merge writes every node of a block, its records applied, to consecutive pages of a fresh block; what is
//! left of that block is the new log area. The pages say how many they are, so that a merge that was cut
//! counts for nothing.

use super::image::Node;
use super::layout::{IplTag, NO_UNIT};
use super::store::{Block, NO_BLOCK, Slot, Store};
use alloc::vec::Vec;
use nandex::blocks::Wear;
use nandex::check::IndexError;
use nandex::codec::crc32;
use nandex::nand::{Cause, Nand, NandError};
use nandex::ordered::Durability;
use nandex::sort;
use nandex::units::{Pbn, Ppn};

/// Free blocks below which insertions first look for room: two for a block that splits, one for a checkpoint.
pub(super) const FREE_FOR_INSERT: u32 = 3;

/// Nodes by their first keys, the higher level first: rows of a byte that says whether there is a key, the
/// key, the level counted down, and the number, in one piece of memory.
pub(super) struct KeyRows {
    row_bytes: usize,
    rows: Vec<u8>,
}

impl KeyRows {
    /// Bytes of a row besides the key.
    pub(super) const MORE: usize = 6;

    fn new(key_bytes: usize, nodes: usize) -> KeyRows {
        let row_bytes = key_bytes + KeyRows::MORE;
        KeyRows { row_bytes, rows: Vec::with_capacity(nodes * row_bytes) }
    }

    fn insert(&mut self, key: Option<&[u8]>, level: u8, id: u32) {
        let (end, row_bytes) = (self.rows.len(), self.row_bytes);
        self.rows.resize(end + row_bytes, 0);
        let (before, row) = self.rows.split_at_mut(end);
        row[0] = key.is_some().into();
        if let Some(key) = key {
            row[1..=key.len()].copy_from_slice(key);
        }
        row[row_bytes - 5] = u8::MAX - level;
        row[row_bytes - 4..].copy_from_slice(&id.to_be_bytes());
        let above = before.chunks_exact(row_bytes).position(|other| other > &*row);
        if let Some(above) = above {
            self.rows[above * row_bytes..].rotate_right(row_bytes);
        }
    }

    /// The level and the number of each node.
    fn iter(&self) -> impl Iterator<Item = (u8, u32)> {
        self.rows.chunks_exact(self.row_bytes).map(|row| {
            let (level, id) = (row[row.len() - 5], &row[row.len() - 4..]);
            (u8::MAX - level, u32::from_be_bytes([id[0], id[1], id[2], id[3]]))
        })
    }
}

impl<N: Nand> Store<N> {
    /// Writes an image for a page of a block into the page buffer.
    pub(super) fn encode_image(&mut self, node: &Node, page: u32, mut tag: IplTag) {
        debug_assert!(
            node.level > 0 && node.count <= self.shapes.at(node.level).capacity,
            "I1: an image of {} entries at level {}",
            node.count,
            node.level
        );
        let bytes = self.shapes.at(node.level).bytes();
        self.page.fill(0xff);
        self.page[..bytes].copy_from_slice(&node.bytes[..bytes]);
        (tag.level, tag.count) = (node.level, node.count as u16);
        tag.page = page as u16;
        tag.node = node.id;
        tag.data_crc = crc32(&[&self.page]);
        self.spare.fill(0xff);
        tag.encode(&mut self.spare);
    }

    /// Programs an image; `None` when the program failed.
    fn program_image(
        &mut self,
        ppn: Ppn,
        node: &Node,
        tag: IplTag,
        cause: Cause,
    ) -> Result<Option<()>, IndexError> {
        self.encode_image(node, self.geometry.page_in_block(ppn), tag);
        match self.nand.program(ppn, cause, &self.page, &self.spare) {
            Ok(()) => {
                let (pbn, page) = (self.geometry.block_of(ppn), self.geometry.page_in_block(ppn));
                self.note_program(pbn, (page * self.units_per_page()) as u16);
                Ok(Some(()))
            }
            Err(NandError::ProgramFailed(_) | NandError::BadBlock(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Pages that a block still takes images on.
    pub(super) fn image_room(&self, pbn: Pbn) -> u32 {
        if self.is_placed() {
            return self.image_room_placed(pbn);
        }
        let block = &self.blocks[pbn.index()];
        let pages = self.geometry.pages_per_block;
        let first_log = pages - self.format.log_pages;
        if !self.is_fixed() {
            return pages - u32::from(block.cursor).div_ceil(self.units_per_page());
        }
        // On parts with ascending pages the first log unit makes the unused pages before it evaporate.
        let open = self.geometry.random_order || u32::from(block.cursor) == first_log * self.units_per_page();
        if open { first_log.saturating_sub(block.data_next.into()) } else { 0 }
    }

    /// Writes a node's image anew: in its own block if there is room, in a fixed area also elsewhere. With
    /// `mark`, everything up to now is durable thereby.
    pub(super) fn place(&mut self, node: &Node, mark: bool) -> Result<(), IndexError> {
        debug_assert!(!mark || self.waiting.is_empty(), "I7: records wait that an image calls durable");
        if self.is_placed() {
            return self.place_placed(node, mark);
        }
        self.sequence += 1;
        let sequence = self.sequence;
        loop {
            let pbn = self.block_for_image(node.id)?;
            let page = self.take_image_page(pbn);
            let committed = if mark { sequence } else { self.committed };
            let tag = IplTag { sequence, committed, ..self.blank_tag(pbn) };
            if self.program_image(self.geometry.page_at(pbn, page), node, tag, Cause::Host)?.is_none() {
                self.evacuate(pbn)?;
                continue;
            }
            let block = self.block(pbn);
            block.newest = sequence.into();
            if block.live == 0 {
                block.born = sequence.into();
            }
            let old = self.slots[node.id as usize].block;
            if old != NO_BLOCK {
                self.drop_waiting_of(Pbn(old), node.id);
            }
            self.set_slot(node.id, Slot { block: pbn.0, base: page as u16, last: NO_UNIT });
            self.note_opened(pbn);
            if mark {
                self.committed = sequence;
            }
            return Ok(());
        }
    }

    /// Notes the state that the chip shows from now on of the block, all of whose first pages are there.
    fn note_opened(&mut self, pbn: Pbn) {
        self.opened = self.opened.max(self.blocks[pbn.index()].generation);
        debug_assert!(self.opened <= self.generation, "no block is opened before it is taken");
    }

    fn take_image_page(&mut self, pbn: Pbn) -> u32 {
        debug_assert!(self.image_room(pbn) > 0, "I6: {pbn} has no page for an image");
        let (fixed, per_page) = (self.is_fixed(), self.units_per_page());
        let block = self.block(pbn);
        if fixed {
            block.data_next += 1;
            return u32::from(block.data_next) - 1;
        }
        let page = u32::from(block.cursor).div_ceil(per_page);
        block.cursor = ((page + 1) * per_page) as u16;
        page
    }

    pub(super) fn block_for_image(&mut self, id: u32) -> Result<Pbn, IndexError> {
        let own = self.slots[id as usize].block;
        if own != NO_BLOCK && self.image_room(Pbn(own)) > 0 {
            return Ok(Pbn(own));
        }
        assert!(self.is_fixed(), "I6: node {id} has no page in its block");
        let used = (0..self.geometry.blocks).map(Pbn).filter(|&pbn| self.blocks[pbn.index()].live > 0);
        let with_room = used.filter(|&pbn| self.image_room(pbn) > 0);
        match with_room.max_by_key(|&pbn| (self.blocks[pbn.index()].live, core::cmp::Reverse(pbn))) {
            Some(pbn) => Ok(pbn),
            None => self.open_block(),
        }
    }

    /// Images that a fixed area takes before a block must be opened.
    fn images_before_opening(&self) -> u32 {
        let used = (0..self.geometry.blocks).map(Pbn).filter(|&pbn| self.blocks[pbn.index()].live > 0);
        used.map(|pbn| self.image_room(pbn)).sum()
    }

    /// Takes the least worn free block for nodes.
    pub(super) fn open_block(&mut self) -> Result<Pbn, IndexError> {
        let pbn = if self.is_placed() {
            self.open_group()?
        } else {
            self.table.take_erased(&mut self.nand, Wear::Least, Cause::Merge)?
        };
        debug_assert!(
            self.blocks[pbn.index()].live == 0
                && !self.held.contains(&pbn)
                && !self.waiting.contains_key(&pbn.0),
            "I4: {pbn} is taken and in use"
        );
        self.cache.forget_range(self.geometry.page_at(pbn, 0), self.geometry.pages_per_block);
        self.generation += 1;
        self.opened_since_checkpoint += 1;
        let first_log = self.geometry.pages_per_block - self.format.log_pages;
        let is_region = self.is_fixed() && !self.is_placed();
        let cursor = if is_region { (first_log * self.units_per_page()) as u16 } else { 0 };
        *self.block(pbn) = Block { generation: self.generation, cursor, ..Block::default() };
        Ok(pbn)
    }

    /// The nodes of a block, in the order of their images.
    pub(super) fn nodes_of(&self, sources: &[Pbn]) -> Vec<u32> {
        let here = |slot: &Slot| sources.iter().any(|source| source.0 == slot.block);
        let count = sources.iter().map(|pbn| usize::from(self.blocks[pbn.index()].live)).sum();
        // At once: what grows is held twice.
        let mut ids = Vec::with_capacity(count);
        ids.extend((0u32..).zip(self.slots.iter()).filter(|(_, slot)| here(slot)).map(|(id, _)| id));
        let place = |id: u32| (self.slots[id as usize].block, self.slots[id as usize].base);
        sort::unstable_by_key(&mut ids, |&id| (place(id), id));
        ids
    }

    /// Writes the nodes of these blocks to fresh blocks, as many as they fill with at most `nodes_max` in
    /// each.
    pub(super) fn merge(&mut self, sources: &[Pbn], nodes_max: u32, cause: Cause) -> Result<(), IndexError> {
        if self.is_placed() {
            return self.merge_placed(sources, nodes_max, cause);
        }
        let newest = sources.iter().map(|pbn| self.blocks[pbn.index()].newest.get()).max().unwrap_or(0);
        let (ids, left) = self.division(sources, nodes_max, cause)?;
        for part in ids.chunks(left.max(1)) {
            self.write_merged(part, newest, cause)?;
        }
        self.counts.merges += 1;
        for &source in sources {
            let Block { live, born, .. } = self.blocks[source.index()];
            assert_eq!(live, 0, "I3: {source} keeps nodes after a merge");
            self.forget_waiting(source);
            self.held.retain(|&held| held != source);
            let wanted_after_a_cut = newest > self.committed && born.get() <= self.committed;
            if wanted_after_a_cut && self.config.durability > Durability::None {
                self.held.push(source);
            } else {
                self.release(source)?;
            }
        }
        Ok(())
    }

    /// The nodes of these blocks in the order in which they are written, and how many of them come to a
    /// block.
    pub(super) fn division(
        &mut self,
        sources: &[Pbn],
        nodes_max: u32,
        cause: Cause,
    ) -> Result<(Vec<u32>, usize), IndexError> {
        let mut ids = self.nodes_of(sources);
        debug_assert_eq!(
            ids.len(),
            sources.iter().map(|pbn| usize::from(self.blocks[pbn.index()].live)).sum::<usize>(),
            "I3: other nodes are in {sources:?} than were counted"
        );
        let parts = ids.len().div_ceil(nodes_max as usize);
        let mut left = ids.len().div_ceil(parts.max(1));
        if parts > 1 {
            let quiet = self.sort_by_first_key(&mut ids, cause)?;
            // Not where a block splits to make room for the nodes about to be born.
            if parts == 2 && nodes_max == self.config.nodes_max {
                left = left.max(quiet.min(nodes_max as usize));
            }
            self.counts.block_splits += 1;
        }
        Ok((ids, left))
    }

    /// Sorts nodes by their first key, the higher level first. How many come before the first leaf with
    /// records: where keys ascend, those will stay as they are, and fill the left block of a split.
    fn sort_by_first_key(&mut self, ids: &mut [u32], cause: Cause) -> Result<usize, IndexError> {
        let mut node = core::mem::take(&mut self.moving);
        let mut rows = KeyRows::new(self.shapes.widths().key, ids.len());
        let mut result = Ok(());
        for &id in ids.iter() {
            result = self.load(id, &mut node, cause);
            if result.is_err() {
                break;
            }
            rows.insert((node.count > 0).then(|| node.key(&self.shapes, 0)), node.level, id);
        }
        self.moving = node;
        result?;
        let is_quiet = |&(level, id): &(u8, u32)| level > 1 || self.slots[id as usize].last == NO_UNIT;
        let quiet = rows.iter().take_while(is_quiet).count();
        ids.iter_mut().zip(rows.iter()).for_each(|(id, row)| *id = row.1);
        Ok(quiet)
    }

    /// Writes the root of a new tree.
    pub(super) fn write_first(&mut self, root: &Node) -> Result<(), IndexError> {
        loop {
            let pbn = self.open_block()?;
            let tag = IplTag { merged: 1, ..self.blank_tag(pbn) };
            if self.program_image(self.geometry.page_at(pbn, 0), root, tag, Cause::Checkpoint)?.is_some() {
                self.settle(pbn, &[root.id], self.sequence);
                return Ok(());
            }
            *self.block(pbn) = Block::default();
            self.give_up(pbn)?;
        }
    }

    /// Writes nodes to one fresh block, trying others as long as blocks fail.
    fn write_merged(&mut self, ids: &[u32], newest: u64, cause: Cause) -> Result<(), IndexError> {
        debug_assert!(
            !ids.is_empty() && ids.len() <= self.format.nodes_limit(self.geometry) as usize,
            "I6: {} nodes are merged into one block",
            ids.len()
        );
        loop {
            let pbn = self.open_block()?;
            match self.fill(pbn, ids, newest, cause) {
                Ok(true) => {
                    self.settle(pbn, ids, newest);
                    return Ok(());
                }
                Ok(false) => {
                    *self.block(pbn) = Block::default();
                    self.give_up(pbn)?;
                    self.counts.blocks_failed += 1;
                }
                Err(error) => {
                    *self.block(pbn) = Block::default();
                    self.table.discard(pbn);
                    return Err(error);
                }
            }
        }
    }

    fn fill(&mut self, pbn: Pbn, ids: &[u32], newest: u64, cause: Cause) -> Result<bool, IndexError> {
        let mut node = core::mem::take(&mut self.moving);
        let mut result = Ok(true);
        for (i, &id) in ids.iter().enumerate() {
            result = self.load(id, &mut node, cause).and_then(|()| {
                let merged = ids.len() as u16;
                let protected = self.config.durability > Durability::None;
                let tag = IplTag { sequence: newest, merged, protected, ..self.blank_tag(pbn) };
                let ppn = self.geometry.page_at(pbn, i as u32);
                Ok(self.program_image(ppn, &node, tag, Cause::Merge)?.is_some())
            });
            if result != Ok(true) {
                break;
            }
        }
        self.moving = node;
        result
    }

    fn settle(&mut self, pbn: Pbn, ids: &[u32], newest: u64) {
        let (fixed, placed, per_page) = (self.is_fixed(), self.is_placed(), self.units_per_page());
        let block = self.block(pbn);
        (block.born, block.newest) = (newest.into(), newest.into());
        if placed || fixed {
            block.data_next = ids.len() as u16;
        } else {
            block.cursor = (ids.len() as u32 * per_page) as u16;
        }
        for (page, &id) in (0u16..).zip(ids) {
            self.set_slot(id, Slot { block: pbn.0, base: page, last: NO_UNIT });
        }
        debug_assert_eq!(
            usize::from(self.blocks[pbn.index()].live),
            ids.len(),
            "I3: {pbn} counts other nodes"
        );
        self.note_opened(pbn);
    }

    /// Merges the blocks that have a weak page, if that takes nothing from what an operation needs.
    pub(super) fn renew_weak(&mut self) -> Result<(), IndexError> {
        while let Some(pbn) = self.weak.pop() {
            let in_use = self.blocks[pbn.index()].live > 0;
            if in_use && self.table.free_count() > FREE_FOR_INSERT {
                let limit = self.format.nodes_limit(self.geometry);
                match self.merge(&[pbn], limit, Cause::Scrubbing) {
                    // The nodes stay where they are, for whoever asks for them.
                    Err(IndexError::Full | IndexError::Corrupted { .. }) => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    /// Marks a block bad. Where that cannot be, nothing is changed any more: what it holds of a merge would
    /// be taken for whole once blocks that were opened later are.
    fn give_up(&mut self, pbn: Pbn) -> Result<(), IndexError> {
        let given_up = self.table.give_up(&mut self.nand, pbn);
        self.has_ended |= given_up.is_err();
        Ok(given_up?)
    }

    /// Gives a block back that holds no node any more.
    pub(super) fn release(&mut self, pbn: Pbn) -> Result<(), IndexError> {
        debug_assert!(
            !self.held.contains(&pbn) && !self.waiting.contains_key(&pbn.0),
            "I4: {pbn} is given back and wanted"
        );
        let left = core::mem::take(self.block(pbn));
        assert!(left.live == 0, "I3: {pbn} is given back with {} nodes", left.live);
        self.note_given_back(pbn, left.generation);
        match self.failed.iter().position(|&failed| failed == pbn) {
            Some(i) => {
                self.failed.swap_remove(i);
                self.counts.blocks_failed += 1;
                self.give_up(pbn)?;
            }
            None => self.table.discard(pbn),
        }
        Ok(())
    }

    pub(super) fn release_held(&mut self) -> Result<(), IndexError> {
        while let Some(pbn) = self.held.pop() {
            self.release(pbn)?;
        }
        Ok(())
    }

    /// Moves the nodes of a block that failed a program.
    pub(super) fn evacuate(&mut self, pbn: Pbn) -> Result<(), IndexError> {
        if !self.failed.contains(&pbn) {
            self.failed.push(pbn);
        }
        if self.blocks[pbn.index()].live == 0 {
            return self.release(pbn);
        }
        // Nothing follows the page that failed, should the nodes have to stay: a mount would miss it.
        let (units, first_log) =
            (self.units_per_block() as u16, self.geometry.pages_per_block - self.format.log_pages);
        let block = self.block(pbn);
        (block.cursor, block.data_next) = (units, block.data_next.max(first_log as u16));
        self.merge(&[pbn], self.format.nodes_limit(self.geometry), Cause::Merge)
    }

    /// Merges a block whose log area is full: with a sparse one, or into two blocks, as its nodes demand.
    pub(super) fn merge_for_room(&mut self, pbn: Pbn, births: u32) -> Result<(), IndexError> {
        self.free_at_least(1)?;
        // That may have moved the nodes already.
        let live = u32::from(self.blocks[pbn.index()].live);
        if live == 0 {
            return Ok(());
        }
        let nodes_max = self.config.nodes_max;
        if !self.is_fixed()
            && live < self.geometry.pages_per_block / 8
            && let Some(partner) = self.sparsest(Some(pbn), nodes_max - live)
        {
            self.counts.co_merges += 1;
            return self.merge(&[pbn, partner], nodes_max, Cause::Merge);
        }
        let scarce = self.table.free_count() < FREE_FOR_INSERT + 1;
        let limit = self.format.nodes_limit(self.geometry);
        let together = match self.is_fixed() || live + births <= limit {
            true if scarce => limit,
            true => nodes_max,
            false => nodes_max.min(live.div_ceil(2)),
        };
        self.merge(&[pbn], together, Cause::Merge)
    }

    /// The block with the fewest nodes, at most `live_max`, but not this one.
    fn sparsest(&self, except: Option<Pbn>, live_max: u32) -> Option<Pbn> {
        let all = (0..self.geometry.blocks).map(Pbn).filter(|&pbn| Some(pbn) != except);
        let used = all.filter(|pbn| (1..=live_max).contains(&u32::from(self.blocks[pbn.index()].live)));
        used.min_by_key(|pbn| (self.blocks[pbn.index()].live, *pbn))
    }

    /// Comes by free blocks: commits so that blocks kept for a cut are free, then puts sparse blocks
    /// together.
    pub(super) fn free_at_least(&mut self, wanted: u32) -> Result<bool, IndexError> {
        loop {
            if self.table.free_count() >= wanted {
                return Ok(true);
            }
            if !self.held.is_empty() {
                self.counts.commits_forced += 1;
                self.commit()?;
                continue;
            }
            let limit = self.format.nodes_limit(self.geometry);
            let Some(first) = self.sparsest(None, limit) else { return Ok(false) };
            let live = u32::from(self.blocks[first.index()].live);
            let Some(second) = self.sparsest(Some(first), limit - live) else { return Ok(false) };
            if self.table.free_count() == 0 {
                return Ok(false);
            }
            if self.committed < self.sequence && self.config.durability > Durability::None {
                // Which may find that one of the two failed, and move its nodes.
                self.commit()?;
                continue;
            }
            self.counts.co_merges += 1;
            self.merge(&[first, second], limit, Cause::GarbageCollection)?;
        }
    }

    /// Makes sure that the blocks of these nodes take the records of an operation, and as many new nodes as
    /// each of them bears; that they take an image as well, if one is wanted; in a fixed area, that there are
    /// pages for images.
    pub(super) fn make_room(&mut self, parents: &[(u32, u32)], image: bool) -> Result<(), IndexError> {
        for _ in 0..parents.len() + 4 {
            let mut blocks = parents.iter().map(|parent| self.block_of(parent.0));
            let Some(pbn) = blocks.find(|&pbn| self.lacks_room(pbn, parents, image)) else { break };
            self.merge_for_room(pbn, self.births_in(pbn, parents))?;
        }
        if parents.iter().any(|parent| self.lacks_room(self.block_of(parent.0), parents, image)) {
            return Err(IndexError::Full);
        }
        let images: u32 = u32::from(image) + parents.iter().map(|parent| parent.1).sum::<u32>();
        if self.is_fixed() && images > 0 && self.images_before_opening() < images && !self.free_at_least(2)? {
            return Err(IndexError::Full);
        }
        Ok(())
    }

    fn births_in(&self, pbn: Pbn, parents: &[(u32, u32)]) -> u32 {
        let here = parents.iter().filter(|parent| self.block_of(parent.0) == pbn);
        here.map(|parent| parent.1).sum()
    }

    fn lacks_room(&self, pbn: Pbn, parents: &[(u32, u32)], image: bool) -> bool {
        let births = self.births_in(pbn, parents);
        let live = u32::from(self.blocks[pbn.index()].live) + births;
        if !self.is_fixed() && live > self.format.nodes_limit(self.geometry) {
            return true;
        }
        let splits = parents.iter().filter(|parent| parent.1 > 0).count() as u32;
        let units = u32::from(self.waiting.contains_key(&pbn.0)) + self.format.units_for(splits);
        let image = if image { self.format.units_for_image(self.geometry) } else { 0 };
        // In place a group keeps a page for the image of each ghost.
        let kept = if self.is_placed() && !self.is_fixed() { births * self.units_per_page() } else { 0 };
        self.room(pbn) < units + image + kept
    }
}
