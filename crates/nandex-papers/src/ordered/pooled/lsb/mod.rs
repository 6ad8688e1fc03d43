//! The LSB-tree: each leaf has a log node, which takes its updates and may become a leaf itself.
//!
//! B.-K. Kim, D.-H. Lee, "LSB-Tree: a log-structured B-Tree index structure for NAND flash SSDs", Design
//! Automation for Embedded Systems 2014/15. Updates of a leaf gather in its *log node*, a page that is
//! written once, so that parents change later and less often. Where keys come in ascending order, a full log
//! node is *switched* to be the next leaf, without a split.
//!
//! # State
//!
//! The store is divided in two slices. The first has a [`BPlusTree`] whose nodes are expelled when they are
//! empty; the second is the *log area* (`area.rs`), pages with the log of one leaf each (`page.rs` has every
//! byte). In RAM: up to Lb *open* log nodes, each the newest state of its page, and a directory from leaf to
//! log page.
//!
//! # Operations
//!
//! - *insert, remove*: (1) The open log node of the key's leaf, if there is one. (2) Else the path is read,
//!   and the leaf's log page if it has one; they become an open log node, for which the least recently used
//!   one is *closed*: written to its page. (3) The log node takes the update; a removal is an entry. (4) A
//!   full log node that is to take one more first leaves:
//!   - *switch*: its keys came in ascending order, lie beyond the last of the leaf, and the leaf is not
//!     empty: it is written as the next leaf, full, and the parent is told.
//!   - *merge*: else leaf and log are merged, which makes one leaf or two, or none.
//! - *get*: the open log node, else the log page of the leaf, if any, and the leaf: one read more at most.
//!   *range*: leaf by leaf, each with its log.
//! - *sync*: writes the open log nodes that changed. Log pages stay.
//! - Where the log area is full, or the tree may have too little room for the splits that all logs can lead
//!   to, logs are merged at once.
//!
//! # Durability
//!
//! As published updates in open log nodes are lost: the class is *none*, with the clean mark of the tree,
//! which speaks for the log pages too and goes before any of them is written or given up. After a cut log
//! pages given up may be back. But all that a log page says was so at the last sync or later, since those
//! given up before stay away. So [`LsbTree::mount_after_cut`] merges all log pages it finds, whatever leaf
//! they were for, of each key what the newest page says: each key then has its value at the last sync or a
//! later one, and a [`journal`](crate::ordered::journal) does the rest.
//!
//! # Invariants
//!
//! - L1 A log page carries a right checksum; its keys ascend strictly and belong to its leaf.
//! - L2 A leaf has one log at most, on the medium and open; an open one that did not change is as its page.
//! - L3 A switched leaf is full, and its keys lie beyond those of the leaf before it.
//! - L4 There are no more open log nodes than Lb; each has the bounds of its leaf, or narrower ones.
//!
//! # Deviations and confidence
//!
//! Concept: high, from the abstract; all else is our reading. A log node is cached while it is filled, so *a
//! single write* stores it unless it is closed before it is full. Lb = 1 is the reading of others, one log
//! area. A leaf has no more entries than a log page, which marks removals by a bit each, so that a switched
//! leaf is full.

mod area;
mod page;
mod settings;
#[cfg(test)]
mod tests;
mod update;

pub use settings::LsbConfig;

use crate::ordered::journal::{Buffered, Owed};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use area::LogArea;
use core::ops::{Bound, ControlFlow};
use nandex::check::{CheckReport, IndexError, Invariant};
use nandex::nand::{Cause, Differs};
use nandex::ordered::bplus::BPlusTree;
use nandex::ordered::bplus::Fill;
use nandex::ordered::bplus::ground::LeafSpan;
use nandex::ordered::buffered::{Between, Merge};
use nandex::ordered::change::Change;
use nandex::ordered::{
    Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Records, Room, Tour, Visit,
    entries_within,
};
use nandex::store::PageStore;
use nandex::store::slice::{Slice, divide};
use nandex::units::Lpn;
use settings::LsbSizes;

struct LogNode {
    leaf: Lpn,
    span: LeafSpan,
    page: Vec<u8>,
    used: u64,
    is_dirty: bool,
}

/// A B+-tree whose leaves have log nodes.
pub struct LsbTree<S> {
    tree: BPlusTree<Slice<S>>,
    area: LogArea<Slice<S>>,
    open: Vec<LogNode>,
    log_nodes: usize,
    /// Buffer for a log page.
    page: Vec<u8>,
    clock: u64,
    is_interrupted: bool,
    /// Updates in log pages that a mount found and the store refused to merge. They must be merged before
    /// any change.
    stranded: Owed,
    /// Bytes of RAM in which a mount sorts the changes of log pages.
    merge_ram: usize,
    counts: LsbCounts,
}

#[derive(Clone, Copy, Debug, Default)]
struct LsbCounts {
    merges: u64,
    switches: u64,
    /// Log nodes written before they were full.
    closes: u64,
    bypasses: u64,
}

impl<S: PageStore> LsbTree<S> {
    /// Makes an empty index, and drops everything that the store held.
    pub fn format(mut store: S, config: &LsbConfig) -> Result<LsbTree<S>, IndexError> {
        let plan = config.on(&store)?;
        // The old superblock goes before the logs of its tree.
        store.trim(Lpn(0))?;
        store.sync()?;
        let (below, mut area) = parts(store, &plan)?;
        area.trim_all()?;
        area.open();
        Ok(LsbTree::above(BPlusTree::format(below, &plan.tree)?, area, *config))
    }

    /// Opens the index that a store holds. It must have been synced after its last change.
    pub fn mount(store: S, config: &LsbConfig) -> Result<LsbTree<S>, IndexError> {
        let plan = config.on(&store)?;
        let (below, mut area) = parts(store, &plan)?;
        let tree = BPlusTree::mount(below, &plan.tree).or_else(|error| Err(area.explain(error)?))?;
        let mut index = LsbTree::above(tree, area, *config).require(&plan)?;
        let mut found = index.area.scan(&mut index.page, Cause::Recovery)?;
        if let ([(_, leaf, _)], true) = (&mut found.logs[..], index.tree.is_one_leaf()) {
            // Its leaf may have moved when it became the root.
            *leaf = BPlusTree::<Slice<S>>::root();
        }
        index.area.adopt(&found)?;
        drop(found);
        index.area.open();
        Ok(index)
    }

    /// Opens the index that a power cut left: each key has its value at the last sync or a later one. Where
    /// the store cannot keep the tree whole over a cut, the same as [`LsbTree::mount`].
    #[doc(hidden)]
    pub fn mount_after_cut(store: S, config: &LsbConfig) -> Result<LsbTree<S>, IndexError> {
        let plan = config.on(&store)?;
        let (below, mut area) = parts(store, &plan)?;
        let tree = BPlusTree::open(below, true).or_else(|fault| Err(area.explain(fault.into_inner())?))?;
        let tree = tree.require_config(plan.tree)?;
        let mut index = LsbTree::above(tree, area, *config).require(&plan)?;
        match index.merge_what_was_found() {
            Err(error) if !error.is_refusal() => Err(error),
            _ => Ok(index),
        }
    }

    fn above(mut tree: BPlusTree<Slice<S>>, area: LogArea<Slice<S>>, config: LsbConfig) -> LsbTree<S> {
        tree.promise_nothing();
        LsbTree {
            page: vec![0; area.store().page_bytes()],
            tree,
            area,
            open: Vec::new(),
            log_nodes: config.log_nodes as usize,
            clock: 0,
            is_interrupted: false,
            stranded: Owed::default(),
            merge_ram: config.merge_ram.unwrap_or(usize::MAX),
            counts: LsbCounts::default(),
        }
    }

    fn require(self, plan: &LsbSizes) -> Result<LsbTree<S>, IndexError> {
        if self.tree.pages_formatted() == plan.slices[0] {
            return Ok(self);
        }
        Err(IndexError::other(Differs::Geometry, "the index has another number of log pages"))
    }

    /// Number of open log nodes.
    pub fn open_logs(&self) -> usize {
        self.open.len()
    }

    /// The tree below, without the entries of the logs.
    pub fn tree(&self) -> &BPlusTree<Slice<S>> {
        &self.tree
    }

    /// Takes the index apart and returns the store. Changes that were not synced are lost as in a power
    /// cut.
    pub fn into_store(self) -> S {
        let below = self.tree.into_store();
        drop(self.area);
        let Some(store) = below.into_whole() else { unreachable!("the tree has the last slice") };
        store
    }

    fn ready(&self) -> Result<(), IndexError> {
        if self.is_interrupted { Err(IndexError::Interrupted) } else { Ok(self.tree.ready()?) }
    }

    /// The entry of a key in the log of a leaf that is not open. `None` if there is none; the inner `None`
    /// means removed.
    fn closed_log_value(&mut self, leaf: Lpn, key: &[u8]) -> Result<Option<Option<&[u8]>>, IndexError> {
        if !self.area.read(leaf, Cause::Host, &mut self.page)? {
            return Ok(None);
        }
        let found = self.area.shape.search(&self.page, key).ok();
        Ok(found.map(|i| self.area.shape.change(&self.page, i).value))
    }

    fn walk(&mut self, Tour { bounds, direction, visit }: Tour<'_, '_>) -> Result<(), IndexError> {
        let LsbTree { tree, area, open, page, .. } = self;
        let mut failed = Ok(());
        tree.walk_leaves(bounds, direction, &mut |_, leaf| {
            let log = match open.iter().find(|node| node.leaf == leaf.lpn()) {
                Some(node) => Some(&node.page[..]),
                None => match area.read(leaf.lpn(), Cause::Host, page) {
                    Ok(has_log) => has_log.then_some(&page[..]),
                    Err(error) => {
                        failed = Err(error);
                        return ControlFlow::Break(());
                    }
                },
            };
            let Some(log) = log else { return leaf.visit_records(direction, visit) };
            let left = entries_within(bounds, area.shape.count(log), |key| area.shape.search(log, key));
            let pending = Between { left, direction, change: &|i| area.shape.change(log, i) };
            let mut merge = Merge { pending, direction, visit };
            let flow = leaf.visit_records(direction, &mut |key, value| merge.record(key, value));
            if flow.is_continue() { merge.rest() } else { ControlFlow::Break(()) }
        })?;
        failed
    }

    /// Checks L1, L2 and L4. Also adds up the records that logs add and remove.
    fn check_logs(&mut self, report: &mut CheckReport) -> Result<(), IndexError> {
        if self.open.len() > self.log_nodes {
            report.violation(Invariant::L4, 0, "too many log nodes are open".to_string());
        }
        for at in 0..self.open.len() {
            let (leaf, is_dirty) = (self.open[at].leaf, self.open[at].is_dirty);
            let log = core::mem::take(&mut self.open[at].page);
            self.check_log(leaf, &log, report)?;
            let has_page = self.area.read(leaf, Cause::Check, &mut self.page)?;
            let shape = self.area.shape;
            let is_as_page = if has_page {
                shape.changes(&log).eq(shape.changes(&self.page))
            } else {
                shape.count(&log) == 0
            };
            if !is_dirty && !is_as_page {
                let found = "the open log is not as its page".to_string();
                report.violation(Invariant::L2, u64::from(leaf.0), found);
            }
            self.open[at].page = log;
            let node = &self.open[at];
            let twice = self.open[..at].iter().any(|other| other.leaf == leaf);
            let is_in = |change: Change<'_>| node.span.contains(change.key);
            if twice || !shape.changes(&node.page).all(is_in) {
                let found = "an open log has other bounds".to_string();
                report.violation(Invariant::L4, u64::from(leaf.0), found);
            }
        }
        let closed: Vec<Lpn> =
            self.area.leaves().filter(|leaf| self.open.iter().all(|node| node.leaf != *leaf)).collect();
        let mut page = vec![0; self.page.len()];
        for leaf in closed {
            self.area.read(leaf, Cause::Check, &mut page)?;
            self.check_log(leaf, &page, report)?;
        }
        Ok(())
    }

    fn check_log(&mut self, leaf: Lpn, log: &[u8], report: &mut CheckReport) -> Result<(), IndexError> {
        for change in self.area.shape.changes(log) {
            if self.tree.leaf_of(change.key, Cause::Check)? != leaf {
                let found = "a key of the log is not the leaf's".to_string();
                report.violation(Invariant::L1, u64::from(leaf.0), found);
            }
            let is_present = self.tree.lookup(change.key, Cause::Check)?.is_present;
            report.records += u64::from(change.value.is_some() && !is_present);
            report.records -= u64::from(change.value.is_none() && is_present);
        }
        Ok(())
    }
}

fn parts<S: PageStore>(store: S, plan: &LsbSizes) -> Result<(Slice<S>, LogArea<Slice<S>>), IndexError> {
    let mut slices = divide(store, &plan.slices)?.into_iter();
    let (Some(below), Some(end)) = (slices.next(), slices.next()) else {
        unreachable!("a store divided in two");
    };
    Ok((below, LogArea::closed(end, plan.shape)))
}

/// Above a store with a journal: the entries of open log nodes wait in RAM, and the tree is never torn if
/// the store writes groups atomically.
impl<S: PageStore> Buffered<S> for LsbTree<S> {
    crate::ordered::journal::opens_published!(LsbTree, LsbConfig);

    fn record_of(config: &LsbConfig) -> RecordFormat {
        config.tree.record
    }

    fn waiting_updates_max(config: &LsbConfig) -> u64 {
        config.waiting_updates()
    }

    fn class_below(&self) -> Durability {
        self.tree.class_on_store()
    }
}

impl<S: PageStore> OrderedIndex for LsbTree<S> {
    fn durability(&self) -> Durability {
        Durability::None
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.record().check(key, value)?;
        self.ready()?;
        if let Some(logged) = self.stranded.value(key) {
            return Ok(answer(logged, value));
        }
        let shape = self.area.shape;
        if let Some(node) = self.open.iter().find(|node| node.span.contains(key)) {
            let Ok(i) = shape.search(&node.page, key) else { return self.tree.get(key, value) };
            return Ok(answer(shape.change(&node.page, i).value, value));
        }
        let leaf = self.tree.leaf_of(key, Cause::Host)?;
        let is_open = self.open.iter().any(|node| node.leaf == leaf);
        if !is_open && let Some(logged) = self.closed_log_value(leaf, key)? {
            return Ok(answer(logged, value));
        }
        Ok(answer(self.tree.leaf_value(key, leaf, Cause::Host)?.0, value))
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.record().check(key, value)?;
        self.update(Change { key, value: Some(value) })
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.record().check_key(key)?;
        self.update(Change { key, value: None })
    }

    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        self.ready()?;
        self.merge_stranded()?;
        self.merge_all()?;
        // Pages of logs that come back after a cut would be taken for the empty root's.
        self.sync()?;
        self.tree.bulk_load(records, Fill::FULL)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.ready()?;
        let stranded = core::mem::take(&mut self.stranded);
        let tour = Tour { bounds: (low, high), direction, visit };
        let merge = Merge::new(stranded.within(tour.bounds, direction), tour);
        let walked = merge.walk(|visit| self.walk(Tour { bounds: (low, high), direction, visit }));
        self.stranded = stranded;
        walked
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.ready()?;
        self.merge_stranded()?;
        self.close_all()?;
        self.area.sync()?;
        self.tree.sync()?;
        self.area.stays_away();
        Ok(())
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.sync()?;
        self.tree.close()
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.ready()?;
        let mut report = self.tree.check()?;
        if report.is_sound() {
            self.check_logs(&mut report)?;
            let mut value = vec![0; usize::from(self.record().value_bytes)];
            let stranded = core::mem::take(&mut self.stranded);
            let mut all = stranded.within((Bound::Unbounded, Bound::Unbounded), Direction::Ascending).rest();
            let counted: Result<(), IndexError> = all.try_for_each(|change| {
                let is_below = self.get(change.key, &mut value)?;
                report.records += u64::from(change.value.is_some() && !is_below);
                report.records -= u64::from(change.value.is_none() && is_below);
                Ok(())
            });
            drop(all);
            self.stranded = stranded;
            counted?;
        }
        Ok(report)
    }

    fn stats(&self) -> IndexStats {
        let mut stats = self.tree.stats();
        stats.live_pages += self.area.len() as u64;
        let figures = [
            ("open_logs", self.open.len() as u64),
            ("log_pages", self.area.len() as u64),
            ("log_page_writes", self.area.writes),
            ("log_merges", self.counts.merges),
            ("log_switches", self.counts.switches),
            ("log_closes", self.counts.closes),
            ("bypasses", self.counts.bypasses),
        ];
        stats.metrics.extend(figures.map(|(name, value)| Metric { name, value }));
        stats
    }

    nandex::forward_index!(tree: maintain, scrub, records_max, record);

    /// Free room, without the pages that the splits of all logs take.
    fn free(&self) -> Option<Room> {
        let room = self.tree.room_without(self.splits_max() as u32);
        Some(room.without(self.stranded.len() as u64))
    }

    fn ram_bytes(&self) -> usize {
        let key_bytes = usize::from(self.record().key_bytes);
        let nodes = self.open.capacity() * size_of::<LogNode>()
            + self.open.len() * (self.page.len() + 2 * key_bytes)
            + self.page.len()
            + self.stranded.ram_bytes();
        self.tree.ram_bytes() + area::ram_bytes(self.area.pages() as usize) + nodes
    }
}

/// Copies a value if one was found. Returns whether it was.
fn answer(found: Option<&[u8]>, value: &mut [u8]) -> bool {
    if let Some(found) = found {
        value.copy_from_slice(found);
    }
    found.is_some()
}
