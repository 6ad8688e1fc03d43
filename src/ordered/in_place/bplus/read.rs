//! Reading of nodes: the descent to a leaf.

use super::Work;
use super::nodes::frame_at;
use super::page::{Frame, Layout, ROOT};
use super::staged::Staged;
use crate::fault::IndexFault;
use crate::nand::Cause;
use crate::ordered::node::NodeShape;
use crate::store::PageStore;
use crate::units::Lpn;

impl Work<'_> {
    /// Reads a node into the path at `depth`.
    pub(super) fn fetch(
        &mut self,
        depth: usize,
        lpn: Lpn,
        level: Option<usize>,
        cause: Cause,
    ) -> Result<(), IndexFault> {
        let is_least = self.core.is_least();
        let nodes = &mut self.core.nodes;
        debug_assert!(
            level.is_none_or(|level| level + depth == nodes.height),
            "B5: level {level:?} at depth {depth}"
        );
        if is_least {
            nodes.give_back(depth);
        }
        let frame = frame_at(&mut nodes.path, depth, &nodes.layout);
        let source = Source { store: self.store, staged: self.core.staged.as_ref() };
        source.load(&nodes.layout, NodeAt { lpn, level }, cause, frame)
    }

    /// Reads the root, with which an operation begins.
    pub(super) fn fetch_root(&mut self, cause: Cause) -> Result<(), IndexFault> {
        self.core.begin();
        self.fetch(0, ROOT, Some(self.core.nodes.height), cause)
    }

    /// Reads a node that is not on the path into an extra frame. Returns its index.
    pub(super) fn fetch_extra(&mut self, lpn: Lpn, level: usize, cause: Cause) -> Result<usize, IndexFault> {
        let nodes = &mut self.core.nodes;
        let frame = frame_at(&mut nodes.extra, nodes.extra_used, &nodes.layout);
        let source = Source { store: self.store, staged: self.core.staged.as_ref() };
        source.load(&nodes.layout, NodeAt { lpn, level: Some(level) }, cause, frame)?;
        Ok(nodes.use_spare())
    }

    /// Reads the path from a node down to a leaf, through the children that `pick` chooses.
    pub(super) fn descend(
        &mut self,
        start: (usize, Lpn),
        pick: &dyn Fn(&NodeShape, &Frame) -> usize,
    ) -> Result<(), IndexFault> {
        let (mut depth, mut lpn) = start;
        loop {
            let height = self.core.nodes.height;
            self.fetch(depth, lpn, Some(height - depth), Cause::Host)?;
            if depth + 1 == height {
                return Ok(());
            }
            let nodes = &mut self.core.nodes;
            let frame = &mut nodes.path[depth];
            frame.slot = pick(&nodes.layout.internal, frame);
            lpn = nodes.layout.child(frame, frame.slot)?;
            depth += 1;
        }
    }

    /// Reads the path to the leaf of a key. Returns the place of the key in the leaf; `Err` with the place
    /// where it belongs.
    pub(super) fn find(&mut self, key: &[u8]) -> Result<Result<usize, usize>, IndexFault> {
        debug_assert_eq!(
            key.len(),
            usize::from(self.core.nodes.layout.record.key_bytes),
            "a key of another width"
        );
        self.core.begin();
        self.descend((0, ROOT), &|shape, node| shape.child_slot(node.area(), node.count(), key))?;
        let leaf = self.core.nodes.leaf();
        debug_assert_eq!(leaf.level(), 1, "B5: the path ends above the leaves");
        Ok(self.core.nodes.layout.leaf.search(leaf.area(), leaf.count(), key))
    }

    /// Reads the first `wanted` nodes of the path to a key. Returns the page of the next node.
    pub(super) fn follow(&mut self, key: &[u8], wanted: usize, cause: Cause) -> Result<Lpn, IndexFault> {
        self.core.mark.ready()?;
        self.core.begin();
        let nodes = &mut self.core.nodes;
        debug_assert!(wanted <= nodes.height, "B5: {wanted} nodes of a path of {}", nodes.height);
        debug_assert_eq!(key.len(), usize::from(nodes.layout.record.key_bytes), "a key of another width");
        let mut lpn: Lpn = ROOT;
        for depth in 0..wanted {
            let level = nodes.height - depth;
            let frame = frame_at(&mut nodes.path, depth, &nodes.layout);
            let source = Source { store: self.store, staged: self.core.staged.as_ref() };
            source.load(&nodes.layout, NodeAt { lpn, level: Some(level) }, cause, frame)?;
            if level > 1 {
                frame.slot = nodes.layout.internal.child_slot(frame.area(), frame.count(), key);
                lpn = nodes.layout.child(frame, frame.slot)?;
            }
        }
        Ok(lpn)
    }
}

/// The pages of the tree as they are now: those of the current batch, then those of the store.
pub(super) struct Source<'a> {
    pub(super) store: &'a mut dyn PageStore,
    pub(super) staged: Option<&'a Staged>,
}

pub(super) struct NodeAt {
    pub(super) lpn: Lpn,
    /// Level of the node. `None` takes the level that the node itself tells.
    pub(super) level: Option<usize>,
}

impl Source<'_> {
    /// Reads a node and verifies it.
    pub(super) fn load(
        self,
        layout: &Layout,
        NodeAt { lpn, level }: NodeAt,
        cause: Cause,
        frame: &mut Frame,
    ) -> Result<(), IndexFault> {
        match self.staged.and_then(|staged| staged.find(lpn)) {
            Some(page) => frame.bytes.copy_from_slice(page),
            None => self.store.read(lpn, cause, &mut frame.bytes)?,
        }
        frame.is_dirty = false;
        layout.verify(frame, lpn, level)
    }
}
