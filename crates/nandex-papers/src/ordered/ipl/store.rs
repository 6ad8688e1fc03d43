//! Nodes in blocks of a chip: the parts that form a store of nodes, and the steps that need several of them.

use super::chain::Reader;
use super::config::Config;
use super::form::Form;
use super::image::{Node, Shapes};
use super::layout::IplTag;
use super::medium::Medium;
use super::numbers::Numbers;
use super::places::{Block, Places};
use super::slots::Slot;
use super::space::Space;
use super::waiting::Queues;
use nandex::check::IndexError;
use nandex::nand::{Cause, Nand};
use nandex::units::Pbn;

/// The root's number, for ever.
pub(super) const ROOT: u32 = 0;

/// The counters of the tree, besides the chip's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IplCounts {
    /// Nodes that came out of another one.
    pub(super) splits: u64,
    /// Nodes that became empty and left the tree.
    pub(super) expelled: u64,
    pub(super) merges: u64,
    pub(super) block_splits: u64,
    pub(super) co_merges: u64,
    pub(super) ghosts: u64,
    pub(super) rewrites: u64,
    pub(super) log_units_programmed: u64,
    pub(super) log_records: u64,
    pub(super) commits_forced: u64,
    pub(super) blocks_failed: u64,
    pub(super) checkpoints: u64,
}

/// Nodes in blocks of a chip.
pub(super) struct Store<N> {
    pub(super) medium: Medium<N>,
    pub(super) numbers: Numbers,
    pub(super) places: Places,
    pub(super) queues: Queues,
    pub(super) space: Space,
    pub(super) config: Config,
    pub(super) moving: Node,
    /// Generation of the newest block when one that lags in wear was last looked for.
    pub(super) levelled_at: u32,
    pub(super) counts: IplCounts,
}

impl<N: Nand> Store<N> {
    /// A store that holds nothing yet, not even rows of its blocks, and has no cache.
    pub(super) fn new(nand: N, form: Form, config: Config, space: Space) -> Store<N> {
        Store {
            medium: Medium::new(nand, form),
            numbers: Numbers::new(),
            places: Places::default(),
            queues: Queues::default(),
            space,
            config,
            moving: Node::default(),
            levelled_at: 0,
            counts: IplCounts::default(),
        }
    }

    /// Clears the cache and all state that a mount finds on the chip.
    pub(super) fn reset(&mut self, space: Space) {
        (self.numbers, self.places, self.queues) = (Numbers::new(), Places::default(), Queues::default());
        self.space = space;
        self.medium.weak.give_up();
        self.medium.set_frames(0);
        self.moving = Node::default();
    }

    pub(super) fn shapes(&self) -> Shapes {
        self.medium.form.shapes
    }

    /// Reads a node: its image and its chain of records.
    pub(super) fn load(&mut self, id: u32, node: &mut Node, cause: Cause) -> Result<(), IndexError> {
        let Store { medium, places, queues, config, .. } = self;
        Reader { medium, places, queues, chain_bytes: config.chain_bytes }.load(id, node, cause)
    }

    /// Log units that a block still takes.
    pub(super) fn room(&self, pbn: Pbn) -> u32 {
        self.medium.form.room(&self.places[pbn])
    }

    /// Pages that a block still takes images on.
    pub(super) fn image_room(&self, pbn: Pbn) -> u32 {
        self.places.image_room(pbn, &self.medium.form)
    }

    /// The tag of the next page in a block.
    pub(super) fn tag(&self, pbn: Pbn) -> IplTag {
        self.numbers.tag(self.places[pbn].generation)
    }

    /// Refuses changes of a tree that has used nearly all its numbers. It can be read, closed and mounted.
    pub(super) fn require_numbers(&self) -> Result<(), IndexError> {
        let has_left = self.numbers.has_left() && self.space.area.has_numbers();
        if has_left { Ok(()) } else { Err(IndexError::WornOut) }
    }

    pub(super) fn set_slot(&mut self, id: u32, slot: Slot) {
        let left = self.places.set_slot(id, slot, self.numbers.sequence);
        left.into_iter().for_each(|pbn| self.queues.forget(pbn));
    }

    /// Takes a node out of the tree.
    pub(super) fn drop_node(&mut self, id: u32) {
        let left = self.places.drop_node(id, self.numbers.next(), &self.medium.form);
        left.into_iter().for_each(|pbn| self.queues.forget(pbn));
    }

    /// Gives a block back that holds no node any more.
    pub(super) fn release(&mut self, pbn: Pbn) -> Result<(), IndexError> {
        debug_assert!(
            !self.places.held.contains(&pbn) && !self.queues.has(pbn),
            "I4: {pbn} is given back and wanted"
        );
        let left = core::mem::take(&mut self.places[pbn]);
        assert!(left.live == 0, "I3: {pbn} is given back with {} nodes", left.live);
        if !self.medium.form.is_placed() {
            self.space.given_back.note(left.generation);
            self.places[pbn] = Block { generation: left.generation, ..Block::default() };
        }
        self.counts.blocks_failed += u64::from(self.space.failed.contains(&pbn));
        self.space.release(&mut self.medium.nand, pbn)
    }

    pub(super) fn release_held(&mut self) -> Result<(), IndexError> {
        while let Some(pbn) = self.places.held.pop() {
            self.release(pbn)?;
        }
        Ok(())
    }

    /// Frees buffers that are only kept for reuse.
    pub(super) fn drop_scratch(&mut self) {
        self.moving = Node::default();
        self.places.held.shrink_to_fit();
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.medium.ram_bytes()
            + self.places.ram_bytes()
            + self.queues.ram_bytes()
            + self.space.ram_bytes()
            + self.moving.bytes.capacity()
    }
}
