//! Nodes that go on in overflow nodes: a layer over any [`Nodes`] whose format has links.
//!
//! A node is read with the entries of its overflow nodes after its own. An entry that is added goes into the
//! first page of the node that has room, wherever it was to stand; where none has, an overflow node is taken.
//! A page that a removal empties is unlinked; pages that a node gave up within an operation are the next to
//! be taken in it.
//!
//! The *overflow node table* holds a row for every node that has overflow nodes: their numbers in order, and
//! the accesses since the first one was taken. It is kept in RAM; the numbers are found again at mount along
//! the links, the counters start anew. What a rule must know of a row stands in the tag of the node read
//! ([`Tag`]).

use super::{ForRules, Tag};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{CheckReport, IndexError, Invariant, message};
use nandex::index::{Durability, IndexStats, Metric};
use nandex::nand::Cause;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::node::{Change, Entry, Node, NodeFormat, NodeId};
use nandex::spatial::nodes::Nodes;

/// A row of the overflow node table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The node's overflow nodes, in the order of the links.
    pub overflow: Vec<NodeId>,
    /// Reads of the node, by searches and by updates on their way, since it got its first overflow node.
    pub accesses: u64,
}

/// A layer over a node store in which nodes may have overflow nodes.
pub struct OverflowNodes<N, C, const D: usize> {
    inner: N,
    rules: ForRules,
    table: BTreeMap<NodeId, Row>,
    /// Number of overflow nodes in all rows.
    overflow_nodes: usize,
    /// Rows as they were before the present operation changed them. `None` if there was no row.
    before: BTreeMap<NodeId, Option<Row>>,
    /// Pages that the present operation gave up and may take again.
    given_up: Vec<NodeId>,
    is_in_operation: bool,
    /// The node read last, if it has several pages.
    joined: Node<C, D>,
    overflows: u64,
    /// Whether a commit failed with unknown effect.
    is_interrupted: bool,
}

impl<N: Nodes<C, D>, C: Coordinate, const D: usize> OverflowNodes<N, C, D> {
    /// Makes the layer over a node store, and finds the rows by its links.
    pub fn over(mut inner: N) -> Result<Self, IndexError> {
        let format = inner.format();
        let rules = ForRules::of_bytes(&format.options).filter(|_| format.link_bytes > 0);
        let Some(rules) = rules else {
            return Err(IndexError::broken(Invariant::S7, "the superblock's options are impossible", 0));
        };
        let next: BTreeMap<NodeId, NodeId> = inner.take_links().into_iter().collect();
        let linked: BTreeSet<NodeId> = next.values().copied().collect();
        let mut table = BTreeMap::new();
        for &first in next.keys().filter(|id| !linked.contains(id)) {
            let overflow = core::iter::successors(next.get(&first), |id| next.get(id)).copied().collect();
            table.insert(first, Row { overflow, accesses: 0 });
        }
        Ok(OverflowNodes {
            inner,
            rules,
            table,
            overflow_nodes: next.len(),
            before: BTreeMap::new(),
            given_up: Vec::new(),
            is_in_operation: false,
            joined: Node::new(1),
            overflows: 0,
            is_interrupted: false,
        })
    }

    /// The node store below.
    pub fn inner(&self) -> &N {
        &self.inner
    }

    /// Takes the layer apart and returns the node store below.
    pub fn into_inner(self) -> N {
        self.inner
    }

    /// The row of a node in the overflow node table, if it has overflow nodes.
    pub fn row(&self, id: NodeId) -> Option<&Row> {
        self.table.get(&id)
    }

    /// Number of overflow nodes in the tree.
    pub fn overflow_nodes(&self) -> usize {
        self.overflow_nodes
    }

    fn pages(&self, id: NodeId) -> Vec<NodeId> {
        let overflow = self.table.get(&id).map_or(&[][..], |row| &row.overflow);
        core::iter::once(id).chain(overflow.iter().copied()).collect()
    }

    /// Saves a row for an undo of the operation. Returns whether the row was not saved before.
    fn keep(&mut self, id: NodeId) -> bool {
        if !self.is_in_operation || self.before.contains_key(&id) {
            return !self.is_in_operation;
        }
        self.before.insert(id, self.table.get(&id).cloned());
        true
    }

    /// Sets the overflow nodes of a node. A node without any has no row.
    fn set_overflow(&mut self, id: NodeId, overflow: Vec<NodeId>) {
        self.keep(id);
        let row = self.table.entry(id).or_default();
        self.overflow_nodes = self.overflow_nodes + overflow.len() - row.overflow.len();
        row.overflow = overflow;
        if row.overflow.is_empty() {
            self.table.remove(&id);
        }
    }

    fn restore(&mut self) {
        while let Some((id, row)) = self.before.pop_first() {
            match row {
                Some(row) => self.table.insert(id, row),
                None => self.table.remove(&id),
            };
        }
        self.overflow_nodes = self.table.values().map(|row| row.overflow.len()).sum();
        self.end();
    }

    fn end(&mut self) {
        self.before.clear();
        self.given_up.clear();
        self.is_in_operation = false;
    }

    fn ready(&self) -> Result<(), IndexError> {
        if self.is_interrupted { Err(IndexError::Interrupted) } else { Ok(()) }
    }

    fn may_overflow(&self, id: NodeId) -> bool {
        let count = self.table.get(&id).map_or(0, |row| row.overflow.len());
        count < usize::from(self.rules.overflow_max) && self.overflow_nodes < self.rules.table_max as usize
    }

    /// Reads all pages of a node and joins their entries.
    fn join(&mut self, id: NodeId, cause: Cause) -> Result<(), IndexError> {
        self.joined.copy_from(self.inner.read(id, cause)?);
        let (row, format) = (self.table.get(&id), self.inner.format());
        let (capacity, least) = (format.capacity(self.joined.level), format.fill_min(self.joined.level));
        let overflow: Vec<NodeId> = row.map_or_else(Vec::new, |row| row.overflow.clone());
        let accesses = row.map_or(0, |row| row.accesses);
        let count = self.joined.entries.len();
        let (is_thin, mut is_full) = (count < least && !overflow.is_empty(), count >= capacity);
        let mut link = self.joined.link.take();
        for next in overflow.iter().copied().map(Some).chain([None]) {
            if link != next {
                let what = "the node goes on elsewhere than the table says";
                return Err(IndexError::broken(Invariant::F1, what, u64::from(id.0)));
            }
            let Some(page) = next else { break };
            let node = self.inner.read(page, cause)?;
            if node.level != self.joined.level {
                let what = "an overflow node has another level than its node";
                return Err(IndexError::broken(Invariant::F2, what, u64::from(page.0)));
            }
            is_full &= node.entries.len() >= capacity;
            self.joined.entries.extend_from_slice(&node.entries);
            link = node.link;
        }
        let is_sealed = is_full && !self.may_overflow(id);
        let is_due = self.rules.is_due(overflow.len() as u64, accesses);
        let tag =
            Tag { overflow: overflow.len().min(usize::from(u8::MAX)) as u8, is_due, is_sealed, is_thin };
        self.joined.tag = tag.bits();
        Ok(())
    }

    /// The page of a node that holds its entry `at`, and the place in that page. `None` if there is no such
    /// entry.
    fn locate(&mut self, id: NodeId, mut at: usize) -> Result<Option<(usize, usize)>, IndexError> {
        for (i, page) in self.pages(id).into_iter().enumerate() {
            let count = self.inner.read(page, Cause::Host)?.entries.len();
            if at < count {
                return Ok(Some((i, at)));
            }
            at -= count;
        }
        Ok(None)
    }

    fn located(&mut self, id: NodeId, at: usize) -> Result<(usize, usize), IndexError> {
        let place = self.locate(id, at)?;
        assert!(place.is_some(), "{id} has no entry {at}");
        place.ok_or(IndexError::NO_BLOCK)
    }

    fn add(&mut self, id: NodeId, entry: Entry<C, D>) -> Result<(), IndexError> {
        let pages = self.pages(id);
        let mut last = id;
        let mut level = 1;
        for page in pages {
            let node = self.inner.read(page, Cause::Host)?;
            (last, level) = (page, node.level);
            let count = node.entries.len();
            if count < self.inner.format().capacity(level) {
                return self.inner.change(page, Change::Add { at: count, entry });
            }
        }
        assert!(self.may_overflow(id), "{id} may have no more overflow nodes");
        self.overflows += 1;
        let new = self.take()?;
        self.inner.change(new, Change::Whole(Node::with(level, vec![entry])))?;
        self.link(last, Some(new))?;
        let mut overflow = self.pages(id);
        overflow.remove(0);
        overflow.push(new);
        self.set_overflow(id, overflow);
        Ok(())
    }

    fn take(&mut self) -> Result<NodeId, IndexError> {
        match self.given_up.pop() {
            Some(id) => Ok(id),
            None => self.inner.allocate(),
        }
    }

    fn link(&mut self, id: NodeId, link: Option<NodeId>) -> Result<(), IndexError> {
        let node = Node { link, ..self.inner.read(id, Cause::Host)?.clone() };
        self.inner.change(id, Change::Whole(node))
    }

    fn remove(&mut self, id: NodeId, at: usize) -> Result<(), IndexError> {
        let (page_at, at) = self.located(id, at)?;
        let mut pages = self.pages(id);
        let page = pages[page_at];
        let is_last = self.inner.read(page, Cause::Host)?.entries.len() == 1;
        if pages.len() == 1 || !is_last {
            return self.inner.change(page, Change::Remove { at });
        }
        if page_at == 0 {
            // The first page is the node: it takes over the next one.
            let whole = self.inner.read(pages[1], Cause::Host)?.clone();
            self.inner.change(id, Change::Whole(whole))?;
            self.given_up.push(pages.remove(1));
        } else {
            self.link(pages[page_at - 1], pages.get(page_at + 1).copied())?;
            self.given_up.push(pages.remove(page_at));
        }
        pages.remove(0);
        self.set_overflow(id, pages);
        Ok(())
    }
}

impl<N: Nodes<C, D>, C: Coordinate, const D: usize> Nodes<C, D> for OverflowNodes<N, C, D> {
    fn format(&self) -> &NodeFormat {
        self.inner.format()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn begin(&mut self) -> Result<(), IndexError> {
        self.ready()?;
        self.inner.begin()?;
        self.is_in_operation = true;
        Ok(())
    }

    fn read(&mut self, id: NodeId, cause: Cause) -> Result<&Node<C, D>, IndexError> {
        self.ready()?;
        if self.table.contains_key(&id) && cause == Cause::Host && self.keep(id) {
            self.table.entry(id).and_modify(|row| row.accesses += 1);
        }
        if self.table.contains_key(&id) || !self.may_overflow(id) {
            self.join(id, cause)?;
            return Ok(&self.joined);
        }
        // One page, and nothing to tell of it: no need to copy it.
        let node = self.inner.read(id, cause)?;
        if node.link.is_some() {
            let what = "the node goes on elsewhere than the table says";
            return Err(IndexError::broken(Invariant::F1, what, u64::from(id.0)));
        }
        Ok(node)
    }

    fn forget(&mut self, id: NodeId) {
        self.pages(id).into_iter().for_each(|page| self.inner.forget(page));
    }

    fn allocate(&mut self) -> Result<NodeId, IndexError> {
        self.take()
    }

    fn change(&mut self, id: NodeId, change: Change<C, D>) -> Result<(), IndexError> {
        match change {
            Change::Add { entry, .. } => self.add(id, entry),
            Change::Remove { at } => self.remove(id, at),
            Change::Update { at, entry } => {
                let (page, at) = self.located(id, at)?;
                let page = self.pages(id)[page];
                self.inner.change(page, Change::Update { at, entry })
            }
            Change::Whole(node) => {
                let overflow = self.pages(id).split_off(1);
                self.given_up.extend(overflow);
                self.set_overflow(id, Vec::new());
                self.inner.change(id, Change::Whole(Node { tag: 0, link: None, ..node }))
            }
        }
    }

    fn free(&mut self, id: NodeId) {
        self.pages(id).into_iter().for_each(|page| self.inner.free(page));
        self.set_overflow(id, Vec::new());
    }

    fn fits_group(&self) -> bool {
        self.inner.fits_group()
    }

    fn commit(&mut self) -> Result<(), IndexError> {
        core::mem::take(&mut self.given_up).into_iter().for_each(|page| self.inner.free(page));
        let done = self.inner.commit();
        match &done {
            Ok(()) => self.end(),
            Err(error) if error.is_refusal() => self.restore(),
            // What the medium holds now is not known, nor whether the table tells of it.
            Err(_) => self.is_interrupted = true,
        }
        done
    }

    fn rollback(&mut self) {
        self.inner.rollback();
        self.restore();
    }

    fn load(&mut self, node: &Node<C, D>) -> Result<NodeId, IndexError> {
        self.inner.load(node)
    }

    fn end_load(&mut self, root: Option<&Node<C, D>>) -> Result<(), IndexError> {
        self.inner.end_load(root)
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.inner.sync()
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.inner.close()
    }

    fn check(&mut self, reached: &BTreeSet<NodeId>, report: &mut CheckReport) -> Result<(), IndexError> {
        let mut all = reached.clone();
        for (id, row) in &self.table {
            if !reached.contains(id) {
                let found = "a row of a node that there is not".to_string();
                report.violation(Invariant::F3, u64::from(id.0), found);
            }
            for page in &row.overflow {
                if !all.insert(*page) {
                    let found = "an overflow node of two nodes".to_string();
                    report.violation(Invariant::F3, u64::from(page.0), found);
                }
            }
        }
        if self.overflow_nodes != all.len() - reached.len() && report.is_sound() {
            let found = message!("{} overflow nodes are counted", self.overflow_nodes);
            report.violation(Invariant::F3, 0, found);
        }
        self.inner.check(&all, report)
    }

    fn stats(&self) -> IndexStats {
        let mut stats = self.inner.stats();
        let metric = |name, value| Metric { name, value };
        stats.metrics.extend([
            metric("overflow_nodes", self.overflow_nodes as u64),
            metric("overflow_rows", self.table.len() as u64),
            metric("overflows", self.overflows),
        ]);
        stats
    }

    fn ram_bytes(&self) -> usize {
        let rows = self.table.values().map(|row| size_of::<(NodeId, Row)>() + row.overflow.capacity() * 4);
        self.inner.ram_bytes()
            + rows.sum::<usize>()
            + self.joined.entries.capacity() * size_of::<Entry<C, D>>()
    }
}
