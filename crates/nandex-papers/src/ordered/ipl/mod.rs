//! B+-trees with in-page logging: IPL (Lee and Moon, SIGMOD 2007; Na, Moon and Lee, DASFAA 2009) and dIPL
//! (Na, Lee and Moon, CIKM 2009), on raw NAND.
//!
//! A change of a node is not a new page but a log record in the node's own block. Reading a node means
//! reading its page (the *image*) and its records. When the log area of a block is full, a *merge* writes the
//! nodes, with their records applied, to a fresh block. With a *fixed* area (IPL) some pages of a block are
//! for log records only; with a *dynamic* one (dIPL) images and records share the block.
//!
//! ```text
//! fixed (IPL)     | image | image | image | unused   ...  | log | log | log |    the last pages of a block
//! dynamic (dIPL)  | image | image | log | log | log | image | log | ...          all that the images leave
//! ```
//!
//! * **Places**: parents name children by number. A table in RAM maps a number to block, page of the image
//!   and newest log unit (`places`). A merge changes the table and no parent, so changes do not propagate
//!   upwards.
//! * **Records** wait in RAM by block until they fill a *log unit*: a sector of 512 bytes (by partial
//!   programs) or a page. They are programmed at the next commit at the latest. A unit names, for each of its
//!   nodes, the previous unit with records of the node: the *chain*. Reading a node reads its image and the
//!   units of its chain (`layout`).
//! * **Split**, dynamic: no page is programmed. The new node is a *ghost*: a record says that it has the old
//!   node's entries from a key on, and it uses the old node's image until the next merge. Fixed: the new
//!   node's image is programmed, to any block with an unused page. On parts that take pages in ascending
//!   order only, the first log unit of a block makes its unused pages useless.
//! * **Merge** (`merge`), dynamic: up to `nodes_max` nodes stay together. More are divided in key order over
//!   two blocks (block split). A sparse block is merged with a sparse partner (co-merge). The least worn
//!   blocks are used first.
//! * **Rewriting**, dynamic: a node whose chain has `rewrite_units` units gets a new image at the block's
//!   cursor.
//! * **Removal**: an empty node disappears. A root with one child takes over the child's contents.
//!
//! After a power cut: every record and image has a *sequence number*, and every unit and page tells up to
//! which number everything is on the chip, `S`. A commit (at a sync, or at the end of each operation)
//! programs all waiting records, and its last page raises `S`. A mount ignores everything newer than `S`
//! (`recovery`). So records of other blocks may reach the chip in any order, and an operation over several
//! blocks is whole or absent. A merge of uncommitted records keeps the old block until the next commit, which
//! is made early when blocks run short.
//!
//! Invariants (`check`):
//! * I1: keys rise within a node; only the root of an empty tree is empty. Applying a chain twice changes
//!   nothing: an image tells up to which number it contains its records.
//! * I2: levels fall by one from parent to child, and separators bound the keys below them, except on the
//!   leftmost edge.
//! * I3: the table holds exactly the nodes that the tree reaches, each once, and each block's count of nodes
//!   is right.
//! * I4: a block is open exactly if it holds nodes or is kept until the next commit. Images belong to the
//!   block's generation, so a ghost's source is in the ghost's block. After a merge no node of the new block
//!   is a ghost.
//! * I5: chains lead back within their block, and every unit in them is whole.
//! * I6: a block never has more nodes than a merge fits into one block. A block with waiting records has a
//!   unit left for them.
//! * I7: nothing is committed that does not exist; no more RAM is held than was given.
//!
//! | part | owns | file |
//! |---|---|---|
//! | `Medium` | the chip, the layout on it (`Form`), the read cache and the page buffers | `medium.rs` |
//! | `Numbers` | the numbers of changes, blocks and sessions, and what is committed | `numbers.rs` |
//! | `Places` | where each node is, the rows of the blocks, what waits for the commit | `places.rs` |
//! | `Queues` | the records that wait in RAM | `waiting.rs` |
//! | `Space` | the free, failed and given back blocks, the checkpoints | `space.rs` |
//!
//! A `Reader` reads a node and has three of these parts. A mount examines the chip by a `Scan` and by
//! `Losses`. Functions that write need all parts: the `Store`. `IplTree` orders the steps of an operation on
//! its `Path`.
//!
//! On an FTL nodes may keep their pages instead, and are then overwritten in place (`placed`).
//!
//! Deviations: the dIPL papers could not be read, and their mechanism is our reading (see
//! `docs/indexes/ipl.md` for the reasons). A log sector may hold records of several nodes of its block, where
//! IPL gives each sector to one node. Rewriting is ours. The partner of a sparse block is the sparsest one,
//! not the neighbour in key order, since numbers hide places from parents.
//!
//! Confidence: IPL's layout and merge high; logging of splits medium; dIPL's goals high, its mechanism low;
//! recovery is ours.

mod cache;
mod chain;
mod check;
mod checkpoint;
mod config;
mod form;
mod given_back;
mod image;
mod layout;
mod logging;
mod look;
mod losses;
mod medium;
mod merge;
mod numbers;
mod path;
mod placed;
mod places;
mod recovery;
mod room;
mod scan;
mod slots;
mod space;
mod store;
mod update;
mod views;
mod waiting;

pub use config::{IplConfig, LogArea, LogUnit};
pub use layout::TAG_BYTES as SPARE_BYTES;

use alloc::vec::Vec;
use checkpoint::{Saved, newest_checkpoint};
use config::{Config, Format};
use core::ops::Bound;
use form::Form;
use image::Node;
use merge::FREE_FOR_INSERT;
use nandex::blocks::checkpoint::{CheckpointArea, anchor_count};
use nandex::blocks::{BlockState, BlockTable};
use nandex::check::{CheckReport, IndexError, Invariant, Limit};
use nandex::codec::first_number;
use nandex::log::Placement;
use nandex::nand::{Cause, Differs, Geometry, Nand};
use nandex::ordered::{
    Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Room, Tour, Visit,
    outcome_of_undone,
};
use nandex::units::Pbn;
use path::{Descent, Path};
use places::Block;
use space::Space;
use store::{ROOT, Store};

const LEVELS_MAX: u8 = 16;

/// A B+-tree with in-page logging.
pub struct IplTree<N> {
    store: Store<N>,
    path: Path,
    height: u8,
    /// An update began and did not end.
    interrupted: bool,
    /// Whether the key of the current update existed before, once that is known.
    existed: Option<bool>,
}

/// Refuses a chip that takes no record. Of its `good` good blocks, `others` do not hold nodes. One must hold
/// nodes, and an insertion needs free ones.
fn require_blocks(good: u32, others: u32) -> Result<(), IndexError> {
    let needed = others + 1 + FREE_FOR_INSERT;
    if good >= needed {
        return Ok(());
    }
    Err(IndexError::ChipTooSmall { who: "a tree with in-page logging", needs: needed, has: good })
}

/// Refuses a tree on the chip that is another one than was asked for.
fn require_same(format: &Format, config: &IplConfig) -> Result<(), IndexError> {
    if format.record != config.record {
        return Err(IndexError::other(Differs::Record, "the tree on the chip has records of other sizes"));
    }
    if format.area != config.area {
        return Err(IndexError::other(
            Differs::Settings,
            "the tree on the chip has the other form of log area",
        ));
    }
    Ok(())
}

impl<N: Nand> Store<N> {
    /// Takes over a checkpoint, and examines the chip if the checkpoint is not of a close. `others` bytes of
    /// RAM are held by other parts.
    fn open(&mut self, saved: Saved, others: usize) -> Result<(), IndexError> {
        if saved.closed {
            self.adopt(saved)?;
        } else if saved.open && self.config.durability == Durability::None {
            return Err(IndexError::NotCleanlyClosed);
        } else {
            self.recover(saved, others)?;
        }
        self.fill_cache(others);
        Ok(())
    }

    /// Forgets all state in RAM and opens the chip again.
    fn reopen(&mut self, others: usize) -> Result<(), IndexError> {
        let geometry = self.medium.form.geometry;
        if self.medium.form.is_placed() {
            return self.reopen_placed(others);
        }
        let none = BlockTable::new(Geometry { blocks: 0, ..geometry });
        self.reset(Space::new(CheckpointArea::empty(geometry), none));
        let saved;
        (self.space, saved) = newest_checkpoint(&mut self.medium.nand)?;
        self.open(saved, others)
    }
}

impl<N: Nand> IplTree<N> {
    /// Formats the chip for a tree that is set up like this.
    pub fn format(mut nand: N, config: &IplConfig) -> Result<IplTree<N>, IndexError> {
        let geometry = nand.geometry();
        let form = Form::of(config, geometry)?;
        let config = Config::new(config, &form)?;
        if form.is_placed() {
            return IplTree::format_placed(nand, form, config);
        }
        let mut table = BlockTable::new(geometry);
        table.retire_marked(&mut nand)?;
        let checkpoint = CheckpointArea::blocks_needed(geometry, Saved::bytes_min(geometry)) as u32 / 2;
        require_blocks(table.good_count(), anchor_count(geometry) + checkpoint)?;
        let area = CheckpointArea::format(&mut nand, &mut table)?;
        for pbn in (0..geometry.blocks).map(Pbn) {
            if table.state(pbn) == BlockState::Unclean && table.erase(&mut nand, pbn, Cause::Checkpoint)? {
                table.release(pbn);
            }
        }
        let mut store = Store::new(nand, form, config, Space::new(area, table));
        store.places.clear_blocks(geometry.blocks);
        store.fill_cache(size_of::<Self>());
        store.plant_root()?;
        store.write_checkpoint(true)?;
        IplTree::assemble(store)
    }

    /// Finds the tree on the chip again and runs it like this. The units of the log area and the order of the
    /// nodes are those of the chip.
    pub fn mount(mut nand: N, config: &IplConfig) -> Result<IplTree<N>, IndexError> {
        if config.placement == Placement::InPlace {
            return IplTree::mount_placed(nand, config);
        }
        let (space, saved) = newest_checkpoint(&mut nand)?;
        require_same(&saved.form.format, config)?;
        let config = Config::new(config, &saved.form)?;
        let mut store = Store::new(nand, saved.form, config, space);
        store.open(saved, size_of::<Self>())?;
        IplTree::assemble(store)
    }

    fn assemble(store: Store<N>) -> Result<IplTree<N>, IndexError> {
        let mut tree = IplTree { store, path: Path::default(), height: 0, interrupted: false, existed: None };
        tree.find_root()?;
        Ok(tree)
    }

    fn find_root(&mut self) -> Result<(), IndexError> {
        let mut root = Node::default();
        self.store.load(ROOT, &mut root, Cause::Recovery)?;
        if root.level > LEVELS_MAX {
            return Err(IndexError::broken(Invariant::I2, "an impossible height", u64::from(ROOT)));
        }
        self.height = root.level;
        self.shrink_to_ram();
        Ok(())
    }

    /// Gives the chip back; nothing is written.
    pub fn into_nand(self) -> N {
        self.store.medium.nand
    }

    fn usable(&self) -> Result<(), IndexError> {
        if self.interrupted { Err(IndexError::Interrupted) } else { Ok(()) }
    }

    /// Error of a refused operation. Room for it was made before; if there still is none, blocks have failed.
    fn refused(&self, error: IndexError) -> IndexError {
        match error {
            IndexError::Full(_) if self.interrupted || self.store.space.read_only => IndexError::WornOut,
            other => other,
        }
    }

    /// Ends an update. If it failed half-way for want of a block, it is undone by examining the chip again,
    /// unless all of it reached the chip. If records wait in RAM they would be lost by that; then a mount is
    /// needed.
    fn settled(
        &mut self,
        outcome: Result<bool, IndexError>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<bool, IndexError> {
        self.shrink_to_ram();
        let can_undo = self.interrupted && self.durability() == Durability::EveryOperation;
        match outcome.map_err(|error| self.refused(error)) {
            Err(error) if can_undo && error.is_refusal() => {
                self.undo()?;
                let existed = self.existed;
                outcome_of_undone(self, (key, value), existed, error)
            }
            outcome => outcome,
        }
    }

    /// Undoes an operation by examining the chip again.
    fn undo(&mut self) -> Result<(), IndexError> {
        self.store.reopen(self.ram_held() - self.store.ram_bytes())?;
        self.find_root()?;
        self.interrupted = false;
        Ok(())
    }

    fn down(&mut self) -> Descent<'_, N> {
        Descent { store: &mut self.store, path: &mut self.path, height: self.height }
    }

    fn ram_held(&self) -> usize {
        size_of::<Self>() + self.path.ram_bytes() + self.store.ram_bytes()
    }

    /// RAM that the tree holds and its operations may take, with `levels` levels.
    fn ram_wanted(&self, levels: usize) -> usize {
        let store = &self.store;
        let others = size_of::<Self>() + store.ram_bytes() - store.moving.bytes.capacity();
        others + store.reserve_bytes(levels.max(config::LEVELS_AT_FIRST))
    }

    /// Shrinks the cache to the RAM allowed.
    pub(super) fn shrink_to_ram(&mut self) {
        let Some(ram) = self.store.config.ram_bytes else { return };
        if self.ram_held() > ram {
            self.store.drop_scratch();
        }
        while self.ram_wanted(self.height.into()) > ram && self.store.medium.cache.frames() > 0 {
            self.store.medium.cache.shrink(self.store.medium.cache.frames() - 1);
        }
    }

    /// Makes room in RAM for new nodes, and for another level where the root splits, or refuses them: a table
    /// that may not grow is as full as a chip.
    fn keep_within_ram(&mut self, births: u32, grows: bool) -> Result<(), IndexError> {
        self.shrink_to_ram();
        let Some(ram) = self.store.config.ram_bytes else { return Ok(()) };
        let growth = self.store.places.slots.growth_bytes(births as usize);
        let levels = usize::from(self.height) + usize::from(grows);
        let is_more = growth > 0 || levels > usize::from(self.height).max(config::LEVELS_AT_FIRST);
        while is_more && self.ram_wanted(levels) + growth > ram {
            let frames = self.store.medium.cache.frames();
            if frames == 0 {
                return Err(IndexError::Full(Limit::Ram));
            }
            self.store.medium.cache.shrink(frames - 1);
        }
        Ok(())
    }
}

impl<N: Nand> Store<N> {
    /// Makes the empty tree.
    fn plant_root(&mut self) -> Result<(), IndexError> {
        let mut root = Node { id: self.places.new_id(), level: 1, ..Node::default() };
        root.reserve(&self.shapes());
        assert_eq!(root.id, ROOT, "the root's number");
        self.numbers.sequence = first_number(layout::SEQUENCE_BITS, 1);
        self.numbers.committed = self.numbers.sequence;
        self.write_first(&root)
    }

    fn metrics(&self) -> Vec<Metric> {
        let (counts, slots) = (&self.counts, &self.places.slots);
        let metric = |name, value| Metric { name, value };
        Vec::from([
            metric("blocks_used", self.places.in_use().count() as u64),
            metric("blocks_held", self.places.held.len() as u64),
            metric("buffer_pages", self.pages(Form::log_pages)),
            metric("buffer_ram_bytes", self.queues.bytes as u64),
            metric("nodes", (slots.len() - slots.free_count()) as u64),
            metric("splits", counts.splits),
            metric("expelled", counts.expelled),
            metric("block_merges", counts.merges),
            metric("block_splits", counts.block_splits),
            metric("co_merges", counts.co_merges),
            metric("ghosts", counts.ghosts),
            metric("rewrites", counts.rewrites),
            metric("log_records", counts.log_records),
            metric("log_units_programmed", counts.log_units_programmed),
            metric("log_units_read", self.medium.counts.log_units),
            metric("commits_forced", counts.commits_forced),
            metric("checkpoints", counts.checkpoints),
            metric("blocks_failed", counts.blocks_failed),
        ])
    }

    /// Pages in all of the blocks that hold nodes, by a count of each.
    fn pages(&self, count: fn(&Form, &Block) -> u32) -> u64 {
        let of = |pbn: Pbn| u64::from(count(&self.medium.form, &self.places[pbn]));
        self.places.in_use().map(of).sum()
    }
}

impl<N: Nand> OrderedIndex for IplTree<N> {
    fn record(&self) -> RecordFormat {
        self.store.medium.form.format.record
    }

    fn durability(&self) -> Durability {
        self.store.config.durability
    }

    fn free(&self) -> Option<Room> {
        Some(room::left(&self.store, self.ram_wanted(usize::from(self.height) + 1)))
    }

    fn records_max(&self) -> Option<u64> {
        let form = &self.store.medium.form;
        let blocks = form.geometry.blocks.saturating_sub(FREE_FOR_INSERT);
        let pages = u64::from(blocks) * u64::from(form.nodes_limit());
        Some(self.record().most_in(pages, form.geometry.page_bytes as usize))
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.record().check_key(key)?;
        self.record().check_value(value)?;
        self.usable()?;
        self.down().descend(key)?;
        let (shapes, leaf) = (self.store.shapes(), self.path.leaf());
        let found = leaf.search(&shapes, key);
        if let Ok(i) = found {
            value.copy_from_slice(leaf.value(&shapes, i));
        }
        self.shrink_to_ram();
        Ok(found.is_ok())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.record().check_key(key)?;
        self.record().check_value(value)?;
        self.usable()?;
        let outcome = self.insert_record(key, value);
        self.settled(outcome, key, Some(value))
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.record().check_key(key)?;
        self.usable()?;
        let outcome = self.remove_record(key);
        self.settled(outcome, key, None)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.usable()?;
        let tour = Tour { bounds: (low, high), direction, visit };
        if let Bound::Included(key) | Bound::Excluded(key) = tour.start() {
            self.record().check_key(key)?;
        }
        let result = self.down().walk(tour);
        self.shrink_to_ram();
        result
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.usable()?;
        if self.store.space.read_only {
            // Nothing was changed since the mount.
            return Ok(());
        }
        if self.store.space.has_ended {
            let is_committed = self.store.numbers.is_committed() && self.store.queues.is_empty();
            return if is_committed { Ok(()) } else { Err(IndexError::WornOut) };
        }
        self.interrupted = true;
        self.store.commit().and_then(|()| self.store.end_changes()).map_err(|error| self.refused(error))?;
        self.interrupted = false;
        Ok(())
    }

    fn maintain(&mut self, _budget: u32) -> Result<u32, IndexError> {
        self.usable()?;
        self.tend().map(|()| 0)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.usable()?;
        self.look_on(budget)
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.sync()?;
        self.store.write_closing_checkpoint()?;
        // In the class *none* the chip may still say that changes are under way: then it is not closed.
        if self.store.space.is_open && !self.store.space.closed { Err(IndexError::WornOut) } else { Ok(()) }
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.usable()?;
        self.walk_all()
    }

    fn stats(&self) -> IndexStats {
        IndexStats {
            height: self.height.into(),
            live_pages: self.store.pages(Form::pages_used),
            cache_hits: self.store.medium.counts.cache_hits,
            cache_misses: self.store.medium.counts.cache_misses,
            collections: self.store.counts.merges,
            metrics: self.store.metrics(),
        }
    }

    fn ram_bytes(&self) -> usize {
        self.ram_held()
    }
}
