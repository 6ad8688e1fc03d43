//! Checker of the invariants, for every node of a tree.

use super::Work;
use super::nodes::{Nodes, frame_at};
use super::page::{Frame, Layout, ROOT, SUPERBLOCK};
use super::pages::Pages;
use super::rules::Underflow;
use crate::check::{CheckReport, IndexError, Invariant, message};
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::ordered::Durability;
use crate::store::StoreError;
use crate::store::space::Space;
use crate::units::Lpn;
use alloc::string::ToString;

impl Work<'_> {
    /// Walks the whole tree. It takes one bit of RAM for each page of the store meanwhile.
    pub(super) fn check_all(&mut self) -> Result<CheckReport, IndexFault> {
        let mut walk = self.check_nodes(&mut |_, _| {})?;
        self.core.pages.check(&mut walk);
        Ok(walk.report)
    }

    /// Checks all nodes, and calls `show` for each record.
    pub(super) fn check_nodes(&mut self, show: &mut dyn FnMut(&[u8], &[u8])) -> Result<Walk, IndexFault> {
        self.core.begin();
        let mut walk = Walk {
            report: CheckReport::default(),
            reached: Space::new(self.core.nodes.layout.page_count, false),
        };
        self.check_superblock(&mut walk)?;
        walk.reached.claim(SUPERBLOCK);
        walk.reached.claim(ROOT);
        self.check_node(0, ROOT, &mut walk, show)?;
        Ok(walk)
    }

    fn check_superblock(&mut self, walk: &mut Walk) -> Result<(), IndexFault> {
        let page = &mut frame_at(&mut self.core.nodes.extra, 0, &self.core.nodes.layout).bytes;
        self.store.read(SUPERBLOCK, Cause::Check, page)?;
        match Layout::of_superblock(page, self.core.nodes.layout.page_count) {
            Ok((layout, _)) if layout != self.core.nodes.layout => {
                walk.report.violation(Invariant::B7, 0, "the superblock tells another layout".to_string());
            }
            Ok((_, true)) if self.core.mark.durability == Durability::None && !self.core.mark.is_clean => {
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
        let level = self.core.nodes.height - depth;
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
        self.core.nodes.check_keys(depth, walk);
        if level == 1 {
            let (leaf, shape) = (&self.core.nodes.path[depth], &self.core.nodes.layout.leaf);
            walk.report.records += leaf.count() as u64;
            (0..leaf.count()).for_each(|i| show(shape.key(leaf.area(), i), shape.value(leaf.area(), i)));
            return Ok(());
        }
        for slot in 0..self.core.nodes.path[depth].count() {
            self.core.nodes.path[depth].slot = slot;
            match self.core.nodes.layout.child(&self.core.nodes.path[depth], slot) {
                Err(error) => walk.report.violation(Invariant::B6, u64::from(lpn.0), error.to_string()),
                Ok(child) if !walk.reached.claim(child) || !self.core.pages.space.is_used(child) => {
                    let found = "a page with two parents, or taken for free".to_string();
                    walk.report.violation(Invariant::B6, u64::from(child.0), found);
                }
                Ok(child) => self.check_node(depth + 1, child, walk, show)?,
            }
        }
        Ok(())
    }
}

impl Pages {
    /// Checks the second half of B6, after all reachable pages were visited.
    pub(super) fn check(&self, walk: &mut Walk) {
        let (used, reached) = (self.space.used_pages(), walk.reached.used_pages());
        if used != reached && walk.report.is_sound() {
            let found = message!("{used} pages are in use, {reached} are reached");
            walk.report.violation(Invariant::B6, u64::from(ROOT.0), found);
        }
    }
}

impl Nodes {
    /// Checks the order of the keys in a node, and that they lie between the bounds of the ancestors.
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

/// Pages and keys that the checker has seen so far.
pub struct Walk {
    /// The findings so far.
    pub report: CheckReport,
    reached: Space,
}

impl Walk {
    /// Notes a page that a reference names. Returns false if another reference named it before.
    pub fn reach(&mut self, lpn: Lpn) -> bool {
        self.reached.claim(lpn)
    }
}
