//! Whole pages: images of nodes, merges, block splits, and how blocks become free.
//!
//! A merge writes every node of a block, with its records applied, to consecutive pages of a fresh block. The
//! rest of that block is the new log area. The pages tell how many they are, so that a merge that was cut is
//! ignored.

use super::image::Node;
use super::layout::{IplTag, NO_UNIT};
use super::places::{Block, Places};
use super::slots::{NO_BLOCK, Slot};
use super::store::Store;
use alloc::vec::Vec;
use nandex::blocks::Wear;
use nandex::check::IndexError;
use nandex::nand::{Cause, Nand};
use nandex::ordered::Durability;
use nandex::units::Pbn;

/// Free blocks below which insertions first look for room: two for a block that splits, one for a checkpoint.
pub(super) const FREE_FOR_INSERT: u32 = 3;

/// Nodes by their first keys, the higher level first: rows of a byte that says whether there is a key, the
/// key, the level counted down, and the number, in one piece of memory.
pub(super) struct KeyRows {
    row_bytes: usize,
    rows: Vec<u8>,
}

impl KeyRows {
    /// Bytes of a row in addition to its key.
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

/// The nodes of an operation that bear others, with how many each bears, and whether it writes an image.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) parents: &'a [(u32, u32)],
    pub(super) image: bool,
}

impl Wanted<'_> {
    pub(super) fn births(&self) -> u32 {
        self.parents.iter().map(|parent| parent.1).sum()
    }

    fn births_in(&self, pbn: Pbn, places: &Places) -> u32 {
        let here = self.parents.iter().filter(|parent| places.block_of(parent.0) == pbn);
        here.map(|parent| parent.1).sum()
    }
}

impl<N: Nand> Store<N> {
    /// Programs an image; false when the program failed.
    fn try_image(&mut self, pbn: Pbn, node: &Node, tag: IplTag, cause: Cause) -> Result<bool, IndexError> {
        let (form, page) = (self.medium.form, u32::from(tag.page));
        self.medium.set_image(node, tag);
        let all = [self.medium.page.len(), self.medium.spare.len()];
        let is_programmed = self.medium.program(form.geometry.page_at(pbn, page), cause, all)?;
        if is_programmed {
            self.numbers.before = (self.places[pbn].generation, (page * form.units_per_page()) as u16);
        }
        Ok(is_programmed)
    }

    /// Writes a new image of a node: in its own block if there is room, in a fixed area also elsewhere. With
    /// `mark`, this commits all changes so far.
    pub(super) fn place(&mut self, node: &Node, mark: bool) -> Result<(), IndexError> {
        debug_assert!(!mark || self.queues.is_empty(), "I7: records wait that an image calls durable");
        let form = self.medium.form;
        if form.is_placed() {
            return self.place_placed(node, mark);
        }
        let sequence = self.numbers.next();
        loop {
            let pbn = self.block_for_image(node.id)?;
            debug_assert!(self.image_room(pbn) > 0, "I6: {pbn} has no page for an image");
            let page = form.take_image_page(&mut self.places[pbn]) as u16;
            let committed = if mark { sequence } else { self.numbers.committed };
            let tag = IplTag { page, sequence, committed, ..self.tag(pbn) };
            if !self.try_image(pbn, node, tag, Cause::Host)? {
                self.evacuate(pbn)?;
                continue;
            }
            let block = &mut self.places[pbn];
            block.newest = sequence.into();
            if block.live == 0 {
                block.born = sequence.into();
            }
            let generation = block.generation;
            self.drop_waiting_of(node.id);
            self.set_slot(node.id, Slot { block: pbn.0, base: page, last: NO_UNIT });
            self.numbers.note_opened(generation);
            if mark {
                self.numbers.committed = sequence;
            }
            return Ok(());
        }
    }

    /// Drops the waiting records of a node whose image is newer, unless a ghost still needs them.
    pub(super) fn drop_waiting_of(&mut self, id: u32) {
        let block = self.places.slots[id as usize].block;
        self.queues.drop_of(Pbn(block), id, self.medium.form.shapes.widths());
    }

    pub(super) fn block_for_image(&mut self, id: u32) -> Result<Pbn, IndexError> {
        let own = Pbn(self.places.slots[id as usize].block);
        if own.0 != NO_BLOCK && self.image_room(own) > 0 {
            return Ok(own);
        }
        assert!(self.medium.form.is_fixed(), "I6: node {id} has no page in its block");
        let with_room = self.places.in_use().filter(|&pbn| self.image_room(pbn) > 0);
        match with_room.max_by_key(|&pbn| (self.places[pbn].live, core::cmp::Reverse(pbn))) {
            Some(pbn) => Ok(pbn),
            None => self.open_block(),
        }
    }

    /// Takes the least worn free block for nodes. In the form in place the contents of a free group are older
    /// than all that the tree needs.
    pub(super) fn open_block(&mut self) -> Result<Pbn, IndexError> {
        let (form, table) = (self.medium.form, &mut self.space.table);
        let pbn = if form.is_placed() {
            let pbn = table.first_free(Wear::Least).ok_or(IndexError::NO_BLOCK)?;
            table.claim(pbn);
            pbn
        } else {
            table.take_erased(&mut self.medium.nand, Wear::Least, Cause::Merge)?
        };
        debug_assert!(
            self.places[pbn].live == 0 && !self.places.held.contains(&pbn) && !self.queues.has(pbn),
            "I4: {pbn} is taken and in use"
        );
        self.medium.cache.forget_range(form.geometry.page_at(pbn, 0), form.geometry.pages_per_block);
        self.numbers.generation += 1;
        let generation = self.numbers.generation;
        self.places[pbn] = Block { generation, cursor: form.first_unit(), ..Block::default() };
        Ok(pbn)
    }

    /// Writes the nodes of these blocks to as many fresh blocks as needed, with at most `nodes_max` nodes in
    /// each.
    pub(super) fn merge(&mut self, sources: &[Pbn], nodes_max: u32, cause: Cause) -> Result<(), IndexError> {
        if self.medium.form.is_placed() {
            return self.merge_placed(sources, nodes_max, cause);
        }
        let newest = sources.iter().map(|&pbn| self.places[pbn].newest.get()).max().unwrap_or(0);
        let (ids, left) = self.division(sources, nodes_max, cause)?;
        for part in ids.chunks(left.max(1)) {
            self.write_merged(part, newest, cause)?;
        }
        self.counts.merges += 1;
        for &source in sources {
            let Block { live, born, .. } = self.places[source];
            assert_eq!(live, 0, "I3: {source} keeps nodes after a merge");
            self.queues.forget(source);
            self.places.held.retain(|&held| held != source);
            let committed = self.numbers.committed;
            let wanted_after_a_cut = newest > committed && born.get() <= committed;
            if wanted_after_a_cut && self.config.durability > Durability::None {
                self.places.held.push(source);
            } else {
                self.release(source)?;
            }
        }
        Ok(())
    }

    /// Nodes of these blocks in the order of writing, and how many of them go to each block.
    pub(super) fn division(
        &mut self,
        sources: &[Pbn],
        nodes_max: u32,
        cause: Cause,
    ) -> Result<(Vec<u32>, usize), IndexError> {
        let mut ids = self.places.nodes_of(sources);
        debug_assert_eq!(
            ids.len(),
            sources.iter().map(|&pbn| self.places.live(pbn) as usize).sum::<usize>(),
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

    /// Sorts nodes by first key, higher levels first. Returns how many come before the first leaf with
    /// records: with ascending keys, those will not change, and fill the left block of a split.
    fn sort_by_first_key(&mut self, ids: &mut [u32], cause: Cause) -> Result<usize, IndexError> {
        let (mut node, shapes) = (core::mem::take(&mut self.moving), self.shapes());
        let mut rows = KeyRows::new(shapes.widths().key, ids.len());
        let result = ids.iter().try_for_each(|&id| {
            self.load(id, &mut node, cause)?;
            rows.insert((node.count > 0).then(|| node.key(&shapes, 0)), node.level, id);
            Ok::<(), IndexError>(())
        });
        self.moving = node;
        result?;
        let slots = &self.places.slots;
        let is_quiet = |&(level, id): &(u8, u32)| level > 1 || slots[id as usize].last == NO_UNIT;
        let quiet = rows.iter().take_while(is_quiet).count();
        ids.iter_mut().zip(rows.iter()).for_each(|(id, row)| *id = row.1);
        Ok(quiet)
    }

    /// Writes the root of a new tree.
    pub(super) fn write_first(&mut self, root: &Node) -> Result<(), IndexError> {
        loop {
            let pbn = self.open_block()?;
            let tag = IplTag { merged: 1, ..self.tag(pbn) };
            if self.try_image(pbn, root, tag, Cause::Checkpoint)? {
                self.settle(pbn, &[root.id], self.numbers.sequence);
                return Ok(());
            }
            self.places[pbn] = Block::default();
            self.space.give_up(&mut self.medium.nand, pbn)?;
        }
    }

    /// Writes nodes to one fresh block, trying others as long as blocks fail.
    fn write_merged(&mut self, ids: &[u32], newest: u64, cause: Cause) -> Result<(), IndexError> {
        debug_assert!(
            !ids.is_empty() && ids.len() <= self.medium.form.nodes_limit() as usize,
            "I6: {} nodes are merged into one block",
            ids.len()
        );
        loop {
            let pbn = self.open_block()?;
            let filled = self.fill(pbn, ids, newest, cause);
            if filled == Ok(true) {
                self.settle(pbn, ids, newest);
                return Ok(());
            }
            self.places[pbn] = Block::default();
            if let Err(error) = filled {
                self.space.table.discard(pbn);
                return Err(error);
            }
            self.space.give_up(&mut self.medium.nand, pbn)?;
            self.counts.blocks_failed += 1;
        }
    }

    fn fill(&mut self, pbn: Pbn, ids: &[u32], newest: u64, cause: Cause) -> Result<bool, IndexError> {
        let mut node = core::mem::take(&mut self.moving);
        let (merged, protected) = (ids.len() as u16, self.config.durability > Durability::None);
        let mut result = Ok(true);
        for (page, &id) in (0u16..).zip(ids) {
            result = self.load(id, &mut node, cause).and_then(|()| {
                let tag = IplTag { page, sequence: newest, merged, protected, ..self.tag(pbn) };
                self.try_image(pbn, &node, tag, Cause::Merge)
            });
            if result != Ok(true) {
                break;
            }
        }
        self.moving = node;
        result
    }

    fn settle(&mut self, pbn: Pbn, ids: &[u32], newest: u64) {
        let form = self.medium.form;
        let block = &mut self.places[pbn];
        (block.born, block.newest) = (newest.into(), newest.into());
        if form.is_placed() || form.is_fixed() {
            block.data_next = ids.len() as u16;
        } else {
            block.cursor = (ids.len() as u32 * form.units_per_page()) as u16;
        }
        let generation = block.generation;
        for (page, &id) in (0u16..).zip(ids) {
            self.set_slot(id, Slot { block: pbn.0, base: page, last: NO_UNIT });
        }
        debug_assert_eq!(self.places.live(pbn) as usize, ids.len(), "I3: {pbn} counts other nodes");
        self.numbers.note_opened(generation);
    }

    /// Merges the block with a weak page, if that leaves enough for an operation.
    pub(super) fn renew_weak(&mut self) -> Result<(), IndexError> {
        let Some(ppn) = self.medium.weak.take() else { return Ok(()) };
        let pbn = self.medium.form.geometry.block_of(ppn);
        let renewed = renew(self, pbn, FREE_FOR_INSERT, Cause::Scrubbing);
        self.medium.weak.rest();
        renewed
    }

    /// Moves the nodes of a block that failed a program.
    pub(super) fn evacuate(&mut self, pbn: Pbn) -> Result<(), IndexError> {
        if !self.space.failed.contains(&pbn) {
            self.space.failed.push(pbn);
        }
        if self.places.live(pbn) == 0 {
            return self.release(pbn);
        }
        // Nothing follows the page that failed, should the nodes have to stay: a mount would miss it.
        let (form, block) = (self.medium.form, &mut self.places[pbn]);
        block.cursor = form.units_per_block() as u16;
        block.data_next = block.data_next.max(form.nodes_limit() as u16);
        self.merge(&[pbn], form.nodes_limit(), Cause::Merge)
    }

    /// Merges a block whose log area is full: with a sparse one, or into two blocks, as its nodes demand.
    pub(super) fn merge_for_room(&mut self, pbn: Pbn, births: u32) -> Result<(), IndexError> {
        self.free_at_least(1)?;
        // That may have moved the nodes already.
        let live = self.places.live(pbn);
        if live == 0 {
            return Ok(());
        }
        let (form, nodes_max) = (self.medium.form, self.config.nodes_max);
        if !form.is_fixed()
            && live < form.geometry.pages_per_block / 8
            && let Some(partner) = self.places.sparsest(Some(pbn), nodes_max - live)
        {
            self.counts.co_merges += 1;
            return self.merge(&[pbn, partner], nodes_max, Cause::Merge);
        }
        let scarce = self.space.table.free_count() < FREE_FOR_INSERT + 1;
        let limit = form.nodes_limit();
        let together = match form.is_fixed() || live + births <= limit {
            true if scarce => limit,
            true => nodes_max,
            false => nodes_max.min(live.div_ceil(2)),
        };
        self.merge(&[pbn], together, Cause::Merge)
    }

    /// Comes by free blocks: commits so that blocks kept for a cut are free, then puts sparse blocks
    /// together.
    pub(super) fn free_at_least(&mut self, wanted: u32) -> Result<bool, IndexError> {
        loop {
            if self.space.table.free_count() >= wanted {
                return Ok(true);
            }
            if !self.places.held.is_empty() {
                self.counts.commits_forced += 1;
                self.commit()?;
                continue;
            }
            let limit = self.medium.form.nodes_limit();
            let Some(first) = self.places.sparsest(None, limit) else { return Ok(false) };
            let left = limit - self.places.live(first);
            let Some(second) = self.places.sparsest(Some(first), left) else { return Ok(false) };
            if self.space.table.free_count() == 0 {
                return Ok(false);
            }
            if !self.numbers.is_committed() && self.config.durability > Durability::None {
                // Which may find that one of the two failed, and move its nodes.
                self.commit()?;
                continue;
            }
            self.counts.co_merges += 1;
            self.merge(&[first, second], limit, Cause::GarbageCollection)?;
        }
    }

    /// Makes sure that the blocks of these nodes have room for the records and new nodes of an operation, and
    /// for an image if one is wanted. In a fixed area, also that there are pages for images.
    pub(super) fn make_room(&mut self, wanted: Wanted<'_>) -> Result<(), IndexError> {
        let lacking = |store: &Store<N>| {
            let mut blocks = wanted.parents.iter().map(|parent| store.places.block_of(parent.0));
            blocks.find(|&pbn| store.lacks_room(pbn, wanted))
        };
        for _ in 0..wanted.parents.len() + 4 {
            let Some(pbn) = lacking(self) else { break };
            self.merge_for_room(pbn, wanted.births_in(pbn, &self.places))?;
        }
        if lacking(self).is_some() {
            return Err(IndexError::NO_BLOCK);
        }
        let images: u32 = u32::from(wanted.image) + wanted.births();
        // Images that a fixed area takes before a block must be opened.
        let room = || self.places.in_use().map(|pbn| self.image_room(pbn)).sum::<u32>();
        let opens = self.medium.form.is_fixed() && images > 0 && room() < images;
        if opens && !self.free_at_least(2)? { Err(IndexError::NO_BLOCK) } else { Ok(()) }
    }

    fn lacks_room(&self, pbn: Pbn, wanted: Wanted<'_>) -> bool {
        let (form, births) = (&self.medium.form, wanted.births_in(pbn, &self.places));
        if !form.is_fixed() && self.places.live(pbn) + births > form.nodes_limit() {
            return true;
        }
        let splits = wanted.parents.iter().filter(|parent| parent.1 > 0).count() as u32;
        let units = u32::from(self.queues.has(pbn)) + form.units_for(splits);
        let image = if wanted.image { form.units_for_image() } else { 0 };
        // In place a group keeps a page for the image of each ghost.
        let kept = if form.is_placed() && !form.is_fixed() { births * form.units_per_page() } else { 0 };
        self.room(pbn) < units + image + kept
    }
}

/// Merges a block that lags behind the free one that takes its nodes. It is looked for each time a block has
/// been opened.
pub(super) fn level_wear<N: Nand>(store: &mut Store<N>) -> Result<(), IndexError> {
    let opened = store.numbers.generation;
    if core::mem::replace(&mut store.levelled_at, opened) == opened {
        return Ok(());
    }
    let (table, form) = (&store.space.table, store.medium.form);
    let Some(next) = table.first_free(Wear::Least).filter(|_| !form.is_placed()) else { return Ok(()) };
    // A merge takes one erase, however many pages it writes: little more than half of what moves cost.
    let pages = 5 * form.geometry.pages_per_block / 8;
    let used = store.places.in_use().map(|pbn| (pbn, pages));
    let cold = store.config.wear_levelling.laggard(table, next, used);
    cold.map_or(Ok(()), |cold| renew(store, cold, 1, Cause::WearLevelling))
}

/// Merges a block whose nodes could as well stay where they are, if more than so many blocks are free.
fn renew<N: Nand>(store: &mut Store<N>, pbn: Pbn, free: u32, cause: Cause) -> Result<(), IndexError> {
    if store.places.live(pbn) == 0 || store.space.table.free_count() <= free {
        return Ok(());
    }
    match store.merge(&[pbn], store.medium.form.nodes_limit(), cause) {
        // The nodes stay for whoever asks for them.
        Err(IndexError::Full(_) | IndexError::Corrupted { .. }) => Ok(()),
        other => other,
    }
}
