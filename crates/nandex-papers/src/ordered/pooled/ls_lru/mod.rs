//! The LS-LRU B+-tree: a B+-buffer of units in three states, and commits that cause few writes and few
//! splits.
//!
//! The "lazy-split LRU" scheme (LS-LRU) for B+-trees on flash memory, taken from its paper alone. The tree
//! below is the [`BPlusTree`] of this crate over any [`PageStore`].
//!
//! # An example
//!
//! A page of the cache can be read again, but a change that waits must be written. So LS-LRU keeps the two
//! apart. The life of leaf 7's unit:
//!
//! ```text
//!  search in leaf 7             clean: the copy of the node
//!  put 40 in leaf 7             semi-clean: the copy, and 40 in a small cell
//!  room is needed               dirty: 40 alone, some bytes in place of a page
//!  put 41, put 42 in leaf 7     dirty: 40, 41, 42; semi-clean again if an answer needs the node
//!  no copies are left to drop   leaf 7 is written once, with three changes, and the unit leaves
//! ```
//!
//! Room is made by dropping copies as long as there are any, which costs a read at most; only then are
//! changes written, and of all the leaves that wait those that free enough entries with the fewest writes. A
//! leaf with room takes its changes in one write. A full one is split, which writes two leaves and their
//! parent, so its changes wait for more, and are worth the split.
//!
//! # State
//!
//! On the medium: the B+-tree and nothing else. In RAM: *units*, at most one per node (`units.rs`). A unit
//! has a *clean part*, the copy of its base node, or a *dirty part*, the changes that wait for it, or both:
//!
//! | state | clean part | dirty part |
//! |---|---|---|
//! | clean | yes | |
//! | semi-clean | yes | yes |
//! | dirty | | yes |
//!
//! A dirty part is a sorted chain of small cells (`cells.rs`), so a dirty unit takes its entries and some 60
//! bytes, not a page. Clean parts, cells and units share one budget, a fixed number of slabs of a page each
//! (`buffer.rs`). Units of inner nodes are always clean, since a commit writes inner nodes at once.
//!
//! Units of leaves used most recently are the *hot region*, as many as 1 - w of the buffer holds; the others
//! are the *cold region*, in its *clean list* if they have a clean part, in its *dirty list* if not.
//!
//! # Operations
//!
//! - *Reference*: any operation reads the path through the buffer. A hit makes the unit hot. A miss brings
//!   the node in, to a free slab, or to one that the tail of the clean list yields with its clean part (the
//!   *clean-part-only commit*: a semi-clean unit becomes dirty, a clean one leaves). A dirty unit whose node
//!   is brought in becomes semi-clean.
//! - *get*: the dirty part of the leaf's unit if it has the key, without the base node; else the base node.
//!   *range*: leaf by leaf, each with its dirty part.
//! - *insert* (also *modify*: an insertion of a key that exists), *remove*: the change is put into the dirty
//!   part. An insertion and a removal of the same key neutralise each other if the base node is without the
//!   key.
//! - *Write-minimized commit*: before an operation, when no slab is free and the clean list is empty, those
//!   dirty units of the cold region are merged into their base nodes that free L entries with the fewest
//!   writes (`victims.rs`). They leave the buffer.
//! - *Multi-split commit*: a dirty part of k times the entries of a leaf is merged into its base node at
//!   once, which becomes as many leaves as it takes; all of them and the parent are one atomic group
//!   (`bplus/batch.rs`).
//! - *Full merge commit*: by sync, and after a set number of updates: all dirty parts in key order, each
//!   merged with its leaf. Semi-clean units become clean.
//!
//! # Durability
//!
//! As published the buffer is lost at a power cut, and what was committed after the last sync stays while
//! older changes are gone: the class is *none*, with the clean mark of the tree, as in
//! [`lazy_update`](crate::ordered::lazy_update). The tree is never torn where the store writes its groups
//! atomically; [`LsLruTree::mount_after_cut`] opens it as it is. An update journal around it makes every
//! operation or every sync durable ([`journal`](crate::ordered::journal)).
//!
//! # Invariants
//!
//! - U1 A page has at most one unit. A unit has a part, stands in one place, and the sizes and lists of the
//!   places are right; in the clean list all have clean parts, in the dirty list none.
//! - U2 The keys of a dirty part ascend strictly, belong to the unit's leaf, and its cells hang together.
//! - U3 A clean part equals its page in the store.
//! - U4 What an entry says the base node holds of its key is so.
//! - U5 Every slab is a frame, a chunk of unit slots, cells or free; cells in use are those of the dirty
//!   parts.
//! - U6 The entries that a unit counts in its base node are right, and so is the dirty list's order.
//! - U7 Whatever waits finds room when it is committed, so that sync answers `Full` only where the store
//!   itself does.
//! - U8 An update that waits, or goes past the buffer, leaves `REGROUPED_LEAVES` cells and units to be had
//!   without a commit, for entries whose keys change leaves.
//!
//! # Where the paper is silent or contradicts itself
//!
//! - Formula 3.11 gives at least 2 writes, its example 1: it is read as the case of a node that overflows.
//!   Its #B counts entries that the node does not have; modifications and removals do not make it grow.
//! - L, the entries a commit is to free, has no value: what a page of cells holds.
//! - w is a share of the buffer's bytes, for units differ in size. Inner nodes stand outside of the regions,
//!   for every operation uses them: they go when nothing else can, and never take more than half of the
//!   buffer. The paper does not set them apart: with [`Inner::Units`] they age and leave by the rules of
//!   leaves.
//! - Other commit policies are named, not described (Section 3.2). *First-associated* "chooses the first
//!   index entry in the buffer and collects its related index entries": the unit whose dirty part began
//!   first. *Exact-fit* is "only concerned with space utilization": the best fit to L, whatever it writes.
//!   Both choose in the cold dirty list.
//! - The dirty list is kept in the order of the statistical table, not of use; equal rows leave least
//!   recently used first. The table has the dirty list only: hot and semi-clean units do not take part.
//! - With nothing in the cold region (w = 0) the least recently used unit leaves whole, as the paper says of
//!   CFLRU.
//! - A merge that underflows is mended as in any B+-tree; the paper does not say what becomes of it.
//! - *Modify-two-node* and *lazy-coalesce*, policies of an earlier study "to avoid the high cost of splitting
//!   and merging", are named, not described (Section 3.2). The first is read as splits of two nodes at a time
//!   ([`LeafSplit::TwoNodes`]); the second as leaves that are left until they are empty
//!   (`Underflow::ExpelLeaves` of the tree), or until the store is nearly full.
//! - A multi-split writes ceil((#B + #N) / max) leaves; where the parent has no room for them it goes in
//!   portions.
//! - The paper's update answers nothing. With [`Answers::Exact`] the leaf is read, through the buffer, unless
//!   the dirty part has the key; with [`Answers::Pool`] it is not, and a unit begins as dirty.
//!
//! An update waits only if it is certain to find room in the tree later; in a store that is nearly full it
//! goes there at once, or is refused. Confidence: high for states, regions, formula and choice; ours are the
//! RAM's layout, the place of inner nodes, L, and which entries count as growth.

mod buffer;
mod cells;
mod check;
mod commit;
mod journaled;
mod range;
mod settings;
#[cfg(test)]
mod tests;
mod unit;
mod units;
mod victims;

pub use nandex::ordered::buffered::Answers;
pub use settings::{CommitPolicy, Inner, LeafSplit, LsLruConfig, UnitRam};
pub use victims::write_minimized;

use crate::ordered::buffered::Below;
use buffer::Buffer;
use cells::{Cells, Entry};
use core::ops::Bound;
use nandex::check::{CheckReport, IndexError};
use nandex::nand::Cause;
use nandex::ordered::bplus::{BPlusTree, Fill};
use nandex::ordered::change::Change;
use nandex::ordered::{Direction, Durability, IndexStats, Metric, OrderedIndex, Records, Room, Tour, Visit};
use nandex::store::PageStore;
use nandex::units::Lpn;
use settings::REGROUPED_LEAVES;
use units::{Sizes, UNCOUNTED, Waiting};

/// A B+-tree below a B+-buffer.
pub struct LsLruTree<S> {
    tree: BPlusTree<Buffer<S>>,
    cells: Cells,
    answers: Answers,
    /// Length of a dirty part at which a multi-split commit empties it.
    part_max: u32,
    /// Largest number of leaves that a commit may make of one.
    leaves_max: usize,
    /// L: least number of entries that a write-minimized commit frees.
    commit_entries: u64,
    commit_policy: CommitPolicy,
    split: LeafSplit,
    full_merge_every: u64,
    updates_since_merge: u64,
    counts: LsLruCounts,
}

#[derive(Clone, Copy, Debug, Default)]
struct LsLruCounts {
    /// Commits by the policy set, whichever it is.
    write_minimized_commits: u64,
    victims: u64,
    multi_split_commits: u64,
    full_merges: u64,
    hot_evictions: u64,
    committed_entries: u64,
    reshapings: u64,
    cancellations: u64,
    bypasses: u64,
}

impl<S: PageStore> LsLruTree<S> {
    /// Makes an empty index, and drops everything that the store held.
    pub fn format(store: S, config: &LsLruConfig) -> Result<LsLruTree<S>, IndexError> {
        config.validate()?;
        let buffer = buffer(store, config)?;
        Ok(LsLruTree::above(BPlusTree::format(buffer, &config.tree)?, *config))
    }

    /// Opens the index that a store holds. It must have been synced after its last change.
    pub fn mount(store: S, config: &LsLruConfig) -> Result<LsLruTree<S>, IndexError> {
        config.validate()?;
        let buffer = buffer(store, config)?;
        Ok(LsLruTree::above(BPlusTree::mount(buffer, &config.tree)?, *config))
    }

    /// Opens the index that a power cut left: each key has its value at the last sync or a later one. Where
    /// the store cannot keep the tree whole over a cut, the same as [`LsLruTree::mount`].
    #[doc(hidden)]
    pub fn mount_after_cut(store: S, config: &LsLruConfig) -> Result<LsLruTree<S>, IndexError> {
        config.validate()?;
        let buffer = buffer(store, config)?;
        let tree = BPlusTree::open(buffer, true)?.require_config(config.tree)?;
        Ok(LsLruTree::above(tree, *config))
    }

    fn above(mut tree: BPlusTree<Buffer<S>>, config: LsLruConfig) -> LsLruTree<S> {
        tree.promise_nothing();
        let page_bytes = tree.store().page_bytes();
        let cells = Cells::new(config.tree.record, page_bytes, tree.store().slabs_max());
        let commit_entries = match config.commit_entries {
            0 if config.ram == UnitRam::Record => page_bytes.div_ceil(config.counted().group) as u64,
            0 => cells.slab_entries() as u64,
            entries => u64::from(entries),
        };
        let (_, leaf_capacity) = tree.leaf_fill();
        LsLruTree {
            tree,
            cells,
            answers: config.answers,
            part_max: config.split_factor * leaf_capacity as u32,
            leaves_max: match config.split {
                LeafSplit::Multi => config.split_factor as usize + 1,
                LeafSplit::TwoNodes => 2,
            },
            commit_entries,
            commit_policy: config.commit,
            split: config.split,
            full_merge_every: config.full_merge_every,
            updates_since_merge: 0,
            counts: LsLruCounts::default(),
        }
    }

    /// Fills an empty index with records whose keys ascend strictly. See [`BPlusTree::bulk_load`].
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        records: impl IntoIterator<Item = (K, V)>,
        fill: Fill,
    ) -> Result<u64, IndexError> {
        self.full_merge()?;
        self.tree.bulk_load(records, fill)
    }

    /// Number of entries that wait in dirty parts.
    pub fn waiting_entries(&self) -> u64 {
        self.buffer().units.waiting().entries
    }

    /// Visits the entries waiting in dirty parts, leaf by leaf in no order. Each is a key with its new
    /// value, or `None` if the key is to be removed.
    pub fn for_each_waiting(&self, mut visit: impl FnMut(&[u8], Option<&[u8]>)) {
        let units = &self.buffer().units;
        for change in units.all().flat_map(|unit| self.cells.changes(units.part(unit))) {
            visit(change.key, change.value);
        }
    }

    /// The store below the buffer.
    pub fn store(&self) -> &S {
        self.buffer().store()
    }

    /// Takes the index apart and returns the store. Changes that were not synced are lost as in a power
    /// cut.
    pub fn into_store(self) -> S {
        self.tree.into_store().into_store()
    }

    /// Carries out a change. Returns whether the key existed.
    fn update(&mut self, change: Change<'_>, answers: Answers) -> Result<bool, IndexError> {
        self.tree.ready()?;
        self.updates_since_merge += 1;
        let existed = self.take_in(change, answers)?;
        if self.full_merge_every > 0 && self.updates_since_merge >= self.full_merge_every {
            unless_full(self.full_merge())?;
        }
        Ok(existed)
    }

    /// Finds the leaf of a key, after making room for a copy of it unless the store is full.
    fn find_leaf(&mut self, key: &[u8]) -> Result<Lpn, IndexError> {
        for _ in 0..ATTEMPTS {
            self.make_room()?;
            let lpn = self.tree.leaf_of(key, Cause::Host)?;
            if self.buffer().slabs_at_hand() > 0 || self.buffer().units.find(lpn).is_some() {
                return Ok(lpn);
            }
        }
        Ok(self.tree.leaf_of(key, Cause::Host)?)
    }

    fn take_in(&mut self, change: Change<'_>, answers: Answers) -> Result<bool, IndexError> {
        for _ in 0..ATTEMPTS {
            let lpn = self.find_leaf(change.key)?;
            if let Some(existed) = self.amend(lpn, change) {
                return Ok(existed);
            }
            let (below, entries) = self.below(lpn, change.key, answers)?;
            if below == Below::Absent && change.value.is_none() {
                return Ok(false);
            }
            if !self.has_room() {
                self.full_merge()?;
                if !self.has_room() {
                    break;
                }
                continue;
            }
            let existed = below == Below::Present;
            self.tree.admit_change()?;
            if self.add(lpn, entries, &Entry { change, below }) {
                self.commit_if_long(lpn)?;
                return Ok(existed);
            }
            self.make_room_for_entry()?;
        }
        self.bypass(change)
    }

    /// Whether the tree certainly has room for all waiting entries and one more (U7). Each split needs an
    /// addition. It ends the commit of a unit, or it follows as many additions as a leaf holds and leaves
    /// at most two units. Evening out two leaves needs a removal and may make one more unit.
    fn has_room(&self) -> bool {
        let Waiting { units, entries, adds } = self.buffer().units.waiting();
        let (additions, (_, capacity)) = (adds + 1, self.tree.leaf_fill());
        let splits = units + 1 + (entries - adds) + 2 * additions / capacity as u64;
        self.tree.has_room_for(additions.min(splits))
    }

    /// Merges a change with the waiting entry of its key, if there is one. The newer replaces the older, or
    /// both are dropped if the leaf has the wanted state. Returns whether the key existed, or `None` if no
    /// entry waits.
    fn amend(&mut self, lpn: Lpn, change: Change<'_>) -> Option<bool> {
        let unit = self.buffer().units.find(lpn)?;
        let spot = self.cells.find(self.buffer().units.part(unit), change.key)?;
        let old = self.cells.entry(spot);
        let (existed, below, adds) = (old.change.value.is_some(), old.below, old.adds());
        self.buffer_mut().hit(unit);
        if !existed && change.value.is_none() {
            return Some(false);
        }
        // What waits was admitted with the change that this one follows.
        if change.value.is_none() && below == Below::Absent {
            self.counts.cancellations += 1;
            self.cells.remove(&mut self.tree.store_mut().units, unit, change.key);
            self.buffer_mut().units.drop_if_empty(unit);
            return Some(existed);
        }
        self.cells.set_value(spot, change.value);
        let now = Entry { change, below }.adds();
        self.buffer_mut().units.resize(unit, 0, i32::from(now) - i32::from(adds));
        Some(existed)
    }

    /// The state of a key in the leaf, and the leaf's number of entries. Both are unknown if `answers` does
    /// not ask for a look.
    fn below(&mut self, lpn: Lpn, key: &[u8], answers: Answers) -> Result<(Below, u16), IndexError> {
        if answers == Answers::Pool {
            if let Some(unit) = self.buffer().units.find(lpn) {
                self.buffer_mut().hit(unit);
            }
            return Ok((Below::Unknown, UNCOUNTED));
        }
        let (value, entries) = self.tree.leaf_value(key, lpn, Cause::Host)?;
        let below = if value.is_some() { Below::Present } else { Below::Absent };
        Ok((below, entries.min(usize::from(UNCOUNTED) - 1) as u16))
    }

    /// Adds an entry to the dirty part of a leaf's unit. Returns false if there is no room.
    fn add(&mut self, lpn: Lpn, entries: u16, entry: &Entry<'_>) -> bool {
        let is_new = usize::from(
            self.buffer().units.find(lpn).is_none_or(|unit| self.buffer().units.part(unit).len == 0),
        );
        if !self.can_have(1 + REGROUPED_LEAVES, is_new + REGROUPED_LEAVES) {
            return false;
        }
        if !self.buffer_mut().count_change() {
            return false;
        }
        if !self.cells.has_room() {
            let Some(slab) = self.buffer_mut().lend_slab() else { return false };
            self.cells.give(slab);
        }
        let Some(unit) = self.buffer_mut().unit_for(lpn) else { return false };
        self.cells.insert(&mut self.tree.store_mut().units, unit, entry);
        if entries != UNCOUNTED {
            self.buffer_mut().units.set_base(unit, entries);
        }
        self.buffer_mut().units.touch(unit, false);
        true
    }

    /// Commits a dirty part that has reached k times the entries of a node: a multi-split commit, or one
    /// that splits two nodes at a time.
    fn commit_if_long(&mut self, lpn: Lpn) -> Result<(), IndexError> {
        let unit = self.buffer().units.find(lpn);
        if unit.is_none_or(|unit| self.buffer().units.part(unit).len < self.part_max) {
            return Ok(());
        }
        self.counts.multi_split_commits += u64::from(self.split == LeafSplit::Multi);
        unless_full(self.commit(lpn))
    }

    /// Changes the tree past the buffer, which cannot be emptied because the store lacks room for it. There
    /// may still be room for this change. No entry for its key may wait.
    fn bypass(&mut self, change: Change<'_>) -> Result<bool, IndexError> {
        self.counts.bypasses += 1;
        // Of what waits some may move to other units, and nothing leaves for it: after that, too, U8 is to
        // hold.
        let most = 2 * REGROUPED_LEAVES;
        if self.waiting_entries() > 0 && !self.can_have(most, most) {
            self.full_merge()?;
        }
        let lpn = self.tree.leaf_of(change.key, Cause::Host)?;
        let (below, _) = self.below(lpn, change.key, self.answers)?;
        self.buffer_mut().is_committing = true;
        let applied = self.tree.apply_to_leaf(core::iter::once(change), self.leaves_max);
        self.buffer_mut().is_committing = false;
        if let Some(reshaped) = &applied?.reshaped {
            self.regroup(reshaped);
        }
        Ok(below == Below::Present)
    }
}

/// Most attempts of an operation to make room before it goes on without. One is enough, unless the nodes that
/// it reads take the room again.
const ATTEMPTS: usize = 4;

/// Turns a refusal for want of room into success, because the entries in the buffer may wait longer.
fn unless_full(done: Result<(), IndexError>) -> Result<(), IndexError> {
    match done {
        Err(error) if error.is_refusal() => Ok(()),
        done => done,
    }
}

fn buffer<S: PageStore>(store: S, config: &LsLruConfig) -> Result<Buffer<S>, IndexError> {
    let page_bytes = store.page_bytes();
    let (slabs, record) = (config.slabs(page_bytes)?, config.tree.record);
    let leaf_capacity = config.tree.leaf_capacity_on(&store)?;
    let sizes = Sizes {
        page_bytes,
        counted: config.counted(),
        buffer_bytes: slabs * page_bytes,
        leaf_capacity: leaf_capacity as u32,
        window_percent: config.window_percent,
        inner: config.inner,
        commit: config.commit,
        split: config.split,
    };
    let (most, kept) = (config.slabs_held_max(slabs, page_bytes), settings::kept_slabs(record, page_bytes));
    Ok(Buffer::new(store, most, kept, config.ram, sizes))
}

impl<S: PageStore> OrderedIndex for LsLruTree<S> {
    fn durability(&self) -> Durability {
        Durability::None
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.record().check(key, value)?;
        self.tree.ready()?;
        let lpn = self.find_leaf(key)?;
        let unit = self.buffer().units.find(lpn);
        let waiting =
            unit.and_then(|unit| Some((unit, self.cells.find(self.buffer().units.part(unit), key)?)));
        if let Some((unit, spot)) = waiting {
            self.buffer_mut().hit(unit);
            let found = self.cells.entry(spot).change.value;
            if let Some(found) = found {
                value.copy_from_slice(found);
            }
            return Ok(found.is_some());
        }
        let (found, _) = self.tree.leaf_value(key, lpn, Cause::Host)?;
        if let Some(found) = found {
            value.copy_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.record().check(key, value)?;
        self.update(Change { key, value: Some(value) }, self.answers)
    }

    /// Puts a value without reading the leaf of the key.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.record().check(key, value)?;
        self.update(Change { key, value: Some(value) }, Answers::Pool).map(drop)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.record().check_key(key)?;
        self.update(Change { key, value: None }, self.answers)
    }

    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        self.bulk_load(records, Fill::FULL)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.tree.ready()?;
        self.make_room()?;
        range::merged(self, Tour { bounds: (low, high), direction, visit })
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.full_merge()?;
        self.tree.sync()
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.full_merge()?;
        self.tree.close()
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        let mut report = self.tree.check()?;
        self.check_buffer(&mut report);
        if report.is_sound() {
            self.check_against_tree(&mut report)?;
        }
        Ok(report)
    }

    fn stats(&self) -> IndexStats {
        let mut stats = self.tree.stats();
        stats.metrics.extend(self.metrics().map(|(name, value)| Metric { name, value }));
        stats
    }

    nandex::forward_index!(tree: maintain, scrub, records_max, record);

    /// Free room, with every waiting entry counted as a new record.
    fn free(&self) -> Option<Room> {
        Some(self.tree.free()?.without(self.waiting_entries()))
    }

    fn ram_bytes(&self) -> usize {
        let (_, [_, _, lent, _]) = self.buffer().slab_use();
        self.tree.ram_bytes() + size_of::<Cells>() + lent * self.buffer().page_bytes()
    }
}
