//! Reading the tree: the descent to a leaf, the walk over a range, the walk at mount, and the checker.

use super::change::load;
use super::page::{Frame, Layout, ROOT, SUPERBLOCK, corrupted};
use super::rules::Underflow;
use super::{BPlusTree, frame_at};
use crate::check::{CheckReport, IndexError, Invariant, message};
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::ordered::node::NodeShape;
use crate::ordered::{Direction, Durability, Visit};
use crate::store::space::Space;
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;
use alloc::string::ToString;
use core::ops::{Bound, ControlFlow};

/// The keys between two bounds.
struct Span<'a> {
    low: Bound<&'a [u8]>,
    high: Bound<&'a [u8]>,
}

/// A leaf that a walk has come to.
pub(in crate::ordered) struct WalkedLeaf<'a> {
    shape: &'a NodeShape,
    frame: &'a Frame,
    entries: core::ops::Range<usize>,
}

impl WalkedLeaf<'_> {
    /// The leaf's page.
    pub(in crate::ordered) fn lpn(&self) -> Lpn {
        self.frame.lpn()
    }

    /// Visits its records between the bounds of the walk.
    pub(in crate::ordered) fn visit_records(
        &self,
        direction: Direction,
        visit: Visit<'_>,
    ) -> ControlFlow<()> {
        debug_assert!(self.entries.end <= self.frame.count(), "B4: entries beyond those in use");
        let (shape, area) = (self.shape, self.frame.area());
        let mut show = |i| visit(shape.key(area, i), shape.value(area, i));
        match direction {
            Direction::Ascending => self.entries.clone().try_for_each(&mut show),
            Direction::Descending => self.entries.clone().rev().try_for_each(&mut show),
        }
    }
}

impl Span<'_> {
    /// Whether no key at all can lie in it.
    fn is_empty(&self) -> bool {
        use Bound::{Excluded, Included, Unbounded};
        match (self.low, self.high) {
            (Unbounded, _) | (_, Unbounded) => false,
            (Included(low), Included(high)) => low > high,
            (Included(low) | Excluded(low), Included(high) | Excluded(high)) => low >= high,
        }
    }

    /// The child to enter first.
    fn first_child(&self, direction: Direction, shape: &NodeShape, node: &Frame) -> usize {
        debug_assert!(node.level() > 1 && node.count() > 0, "B4: a child of no internal node");
        let (area, count) = (node.area(), node.count());
        match (direction, self.low, self.high) {
            (Direction::Ascending, Bound::Unbounded, _) => 0,
            (Direction::Ascending, Bound::Included(key) | Bound::Excluded(key), _)
            | (Direction::Descending, _, Bound::Included(key)) => shape.child_slot(area, count, key),
            (Direction::Descending, _, Bound::Unbounded) => count - 1,
            (Direction::Descending, _, Bound::Excluded(key)) => {
                let (Ok(i) | Err(i)) = shape.search(area, count, key);
                i.saturating_sub(1)
            }
        }
    }

    /// Whether a child beyond this bound, in the direction of the walk, can hold keys of the span.
    fn reaches(&self, direction: Direction, bound: &[u8]) -> bool {
        match (direction, self.low, self.high) {
            (Direction::Ascending, _, Bound::Included(high)) => bound <= high,
            (Direction::Ascending, _, Bound::Excluded(high)) => bound < high,
            (Direction::Descending, Bound::Included(low) | Bound::Excluded(low), _) => bound > low,
            _ => true,
        }
    }

    /// The entries of a leaf that lie in it.
    fn entries(&self, shape: &NodeShape, leaf: &Frame) -> core::ops::Range<usize> {
        let search = |key| shape.search(leaf.area(), leaf.count(), key);
        let from = match self.low {
            Bound::Unbounded => 0,
            Bound::Included(key) => search(key).unwrap_or_else(|i| i),
            Bound::Excluded(key) => search(key).map_or_else(|i| i, |i| i + 1),
        };
        let to = match self.high {
            Bound::Unbounded => leaf.count(),
            Bound::Included(key) => search(key).map_or_else(|i| i, |i| i + 1),
            Bound::Excluded(key) => search(key).unwrap_or_else(|i| i),
        };
        from..to
    }
}

impl<S: PageStore> BPlusTree<S> {
    /// Reads a node into the path.
    pub(super) fn fetch(
        &mut self,
        depth: usize,
        lpn: Lpn,
        level: Option<usize>,
        cause: Cause,
    ) -> Result<(), IndexFault> {
        debug_assert!(
            level.is_none_or(|level| level + depth == self.height),
            "B5: level {level:?} at depth {depth}"
        );
        if self.is_least() {
            self.give_back(depth);
        }
        let frame = frame_at(&mut self.path, depth, &self.layout);
        load((&mut self.store, self.staged.as_ref()), &self.layout, (lpn, level), cause, frame)
    }

    /// Reads the path from a node down to a leaf, through the children that `pick` chooses.
    fn descend(
        &mut self,
        start: (usize, Lpn),
        pick: impl Fn(&NodeShape, &Frame) -> usize,
    ) -> Result<(), IndexFault> {
        let (mut depth, mut lpn) = start;
        loop {
            self.fetch(depth, lpn, Some(self.height - depth), Cause::Host)?;
            if depth + 1 == self.height {
                return Ok(());
            }
            let frame = &mut self.path[depth];
            frame.slot = pick(&self.layout.internal, frame);
            lpn = self.layout.child(frame, frame.slot)?;
            depth += 1;
        }
    }

    /// Reads the path to the leaf of a key: where the key is in the leaf, or where it belongs.
    pub(super) fn find(&mut self, key: &[u8]) -> Result<Result<usize, usize>, IndexFault> {
        debug_assert_eq!(key.len(), usize::from(self.layout.record.key_bytes), "a key of another width");
        self.begin();
        self.descend((0, ROOT), |shape, node| shape.child_slot(node.area(), node.count(), key))?;
        let leaf = &self.path[self.height - 1];
        debug_assert_eq!(leaf.level(), 1, "B5: the path ends above the leaves");
        Ok(self.layout.leaf.search(leaf.area(), leaf.count(), key))
    }

    /// Visits every leaf with keys between two bounds, in key order, and shows the store beside it.
    pub(in crate::ordered) fn walk_leaves(
        &mut self,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        visit: &mut dyn FnMut(&S, &WalkedLeaf<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexFault> {
        self.ready()?;
        for bound in [low, high] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound {
                self.layout.record.check_key(key)?;
            }
        }
        let span = Span { low, high };
        if span.is_empty() {
            return Ok(());
        }
        self.descend((0, ROOT), |shape, node| span.first_child(direction, shape, node))?;
        loop {
            debug_assert_eq!(self.path[self.height - 1].level(), 1, "B5: the walk is not at a leaf");
            let (shape, frame) = (&self.layout.leaf, &self.path[self.height - 1]);
            let leaf = WalkedLeaf { shape, frame, entries: span.entries(shape, frame) };
            if visit(&self.store, &leaf).is_break() || !self.next_leaf(&span, direction)? {
                return Ok(());
            }
        }
    }

    /// Goes up to the first parent with another child on the way and down to its nearest leaf; false at the
    /// end of the span, which the parent's bounds tell without reading the leaf.
    fn next_leaf(&mut self, span: &Span<'_>, direction: Direction) -> Result<bool, IndexFault> {
        let internal = self.layout.internal;
        let has_more = |node: &Frame| match direction {
            Direction::Ascending => node.slot + 1 < node.count(),
            Direction::Descending => node.slot > 0,
        };
        debug_assert!(
            self.path[..self.height - 1].iter().all(|node| node.slot < node.count()),
            "B5: the walk lost its way down"
        );
        let Some(depth) = self.path[..self.height - 1].iter().rposition(has_more) else { return Ok(false) };
        let node = &mut self.path[depth];
        let bound = node.slot + usize::from(direction == Direction::Ascending);
        if !span.reaches(direction, internal.key(node.area(), bound)) {
            return Ok(false);
        }
        node.slot = if direction == Direction::Ascending { node.slot + 1 } else { node.slot - 1 };
        let child = self.layout.child(node, node.slot)?;
        self.descend((depth + 1, child), |_, node| match direction {
            Direction::Ascending => 0,
            Direction::Descending => node.count() - 1,
        })?;
        Ok(true)
    }

    /// Marks every page below a node of the path as in use, at a mount, or again where the least RAM is
    /// taken; leaves are not read.
    pub(super) fn claim_below(&mut self, depth: usize, cause: Cause) -> Result<(), IndexFault> {
        debug_assert!(depth < self.height, "B5: depth {depth} of a tree of height {}", self.height);
        let level = self.height - depth;
        debug_assert_eq!(self.path[depth].level(), level, "B5: another level in the path");
        if level == 1 {
            return Ok(());
        }
        for slot in 0..self.path[depth].count() {
            let child = self.layout.child(&self.path[depth], slot)?;
            let is_new =
                if cause == Cause::Recovery { self.space.claim(child) } else { self.space.mark(child) };
            if !is_new {
                return Err(corrupted(Invariant::B6, "the page has two parents", child));
            }
            if level > 2 {
                self.fetch(depth + 1, child, Some(level - 1), cause)?;
                self.claim_below(depth + 1, cause)?;
            }
        }
        Ok(())
    }

    /// Walks the whole tree. Takes one bit of RAM per page of the store while it does.
    pub(super) fn check_all(&mut self) -> Result<CheckReport, IndexFault> {
        let mut walk = self.check_nodes(&mut |_, _| {})?;
        self.check_space(&mut walk);
        Ok(walk.report)
    }

    /// Checks the nodes and shows the records.
    pub(super) fn check_nodes(&mut self, show: &mut dyn FnMut(&[u8], &[u8])) -> Result<Walk, IndexFault> {
        self.begin();
        let mut walk =
            Walk { report: CheckReport::default(), reached: Space::new(self.layout.page_count, false) };
        self.check_superblock(&mut walk)?;
        walk.reached.claim(SUPERBLOCK);
        walk.reached.claim(ROOT);
        self.check_node(0, ROOT, &mut walk, show)?;
        Ok(walk)
    }

    /// The other half of B6, once everything was reached that can be.
    pub(super) fn check_space(&self, walk: &mut Walk) {
        let (used, reached) = (self.space.used_pages(), walk.reached.used_pages());
        if used != reached && walk.report.is_sound() {
            let found = message!("{used} pages are in use, {reached} are reached");
            walk.report.violation(Invariant::B6, u64::from(ROOT.0), found);
        }
    }

    fn check_superblock(&mut self, walk: &mut Walk) -> Result<(), IndexFault> {
        let page = &mut frame_at(&mut self.extra, 0, &self.layout).bytes;
        self.store.read(SUPERBLOCK, Cause::Check, page)?;
        match Layout::of_superblock(page, self.layout.page_count) {
            Ok((layout, _)) if layout != self.layout => {
                walk.report.violation(Invariant::B7, 0, "the superblock tells another layout".to_string());
            }
            Ok((_, true)) if self.durability == Durability::None && !self.is_clean => {
                walk.report.violation(Invariant::B8, 0, "marked clean amid changes".to_string());
            }
            Ok(_) => {}
            Err(error) => walk.report.violation(Invariant::B7, 0, error.to_string()),
        }
        Ok(())
    }

    fn check_node(
        &mut self,
        depth: usize,
        lpn: Lpn,
        walk: &mut Walk,
        show: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), IndexFault> {
        let level = self.height - depth;
        match self.fetch(depth, lpn, Some(level), Cause::Check) {
            Ok(()) => {}
            Err(error) => {
                let (invariant, found) = match &*error {
                    IndexError::Corrupted { invariant, what, .. } => {
                        (invariant.unwrap_or(Invariant::B1), what.to_string())
                    }
                    IndexError::Store(damage @ StoreError::Corrupted { .. }) => {
                        (Invariant::B1, damage.to_string())
                    }
                    _ => return Err(error),
                };
                walk.report.violation(invariant, u64::from(lpn.0), found);
                return Ok(());
            }
        }
        walk.report.nodes += 1;
        self.check_keys(depth, walk);
        if level == 1 {
            let (leaf, shape) = (&self.path[depth], &self.layout.leaf);
            walk.report.records += leaf.count() as u64;
            (0..leaf.count()).for_each(|i| show(shape.key(leaf.area(), i), shape.value(leaf.area(), i)));
            return Ok(());
        }
        for slot in 0..self.path[depth].count() {
            self.path[depth].slot = slot;
            match self.layout.child(&self.path[depth], slot) {
                Err(error) => walk.report.violation(Invariant::B6, u64::from(lpn.0), error.to_string()),
                Ok(child) if !walk.reached.claim(child) || !self.space.is_used(child) => {
                    let found = "a page with two parents, or taken for free".to_string();
                    walk.report.violation(Invariant::B6, u64::from(child.0), found);
                }
                Ok(child) => self.check_node(depth + 1, child, walk, show)?,
            }
        }
        Ok(())
    }

    /// The order of the keys in a node, and their place between the bounds of the ancestors.
    fn check_keys(&self, depth: usize, walk: &mut Walk) {
        let (node, level) = (&self.path[depth], self.height - depth);
        let (shape, at) = (self.layout.shape(level), u64::from(node.lpn().0));
        let first = usize::from(level > 1);
        let keys = || (first..node.count()).map(|i| shape.key(node.area(), i));
        if let Some(i) = keys().zip(keys().skip(1)).position(|(a, b)| a >= b) {
            walk.report.violation(Invariant::B2, at, message!("key {} does not rise", first + i + 1));
        }
        let bound = |i: fn(&Frame) -> usize, applies: fn(&Frame) -> bool| {
            let ancestor = self.path[..depth].iter().rfind(|node| applies(node))?;
            Some(self.layout.internal.key(ancestor.area(), i(ancestor)))
        };
        let low = bound(|node| node.slot, |node| node.slot > 0);
        let high = bound(|node| node.slot + 1, |node| node.slot + 1 < node.count());
        if keys().any(|key| low.is_some_and(|low| key < low) || high.is_some_and(|high| key >= high)) {
            let found = "a key lies outside the bounds of the parents".to_string();
            walk.report.violation(Invariant::B3, at, found);
        }
        let repeats = self.layout.underflow != Underflow::Expel;
        if level > 1 && repeats && low.is_some_and(|low| low != shape.key(node.area(), 0)) {
            walk.report.violation(Invariant::B3, at, "bound 0 differs from the parent's bound".to_string());
        }
    }
}

/// The pages and keys that the checker has seen so far.
pub(in crate::ordered) struct Walk {
    pub(in crate::ordered) report: CheckReport,
    reached: Space,
}

impl Walk {
    /// Notes a page that something reaches; false when something else did before.
    pub(in crate::ordered) fn reach(&mut self, lpn: Lpn) -> bool {
        self.reached.claim(lpn)
    }
}
