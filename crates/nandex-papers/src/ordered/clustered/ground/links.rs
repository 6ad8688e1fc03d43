//! Nodes numbered by their pages: parents name the pages of their children, and no table is needed.
//!
//! A waiting node keeps the number of the page with its old version, or of a free page if it is new. When it
//! is written it goes to another page and so gets another number. Its parent names it by the new number, and
//! the tree is told before its next operation. So a node waits together with all its ancestors, up to the
//! root. The root's number is always 1; only the superblock names its page. A page that a node left is *kept*
//! until a superblock without it is durable.
//!
//! A *commit* writes all waiting nodes, children first, and then the superblock that names the new root.
//!
//! If the store refuses a write, the nodes already written stay at their new pages and the others continue to
//! wait. Nothing is half done, and reads and later attempts work without a mount.

use super::layer::Layer;
use super::pages::PageMap;
use super::settings::{ClusteredSizes, FlushPolicy};
use super::superblock::{SLOTS, Superblock};
use crate::ordered::bplus_nodes::BPlusNodes;
use alloc::vec;
use alloc::vec::Vec;
use nandex::nand::Cause;
use nandex::sort;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

/// The number of the root, whatever its page.
pub(super) const ROOT: u32 = 1;

/// An internal node on the path that the tree read last.
#[derive(Clone, Debug, Default)]
struct Ancestor {
    id: u32,
    image: Vec<u8>,
}

/// The state of a layer in which parents name the pages of their children.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// Pages that hold current versions of nodes, or old versions still needed.
    pub(super) busy: PageMap,
    /// Busy pages that hold old versions still needed.
    pub(super) kept: PageMap,
    /// The page of the root. 0 if there is none.
    pub(super) root: u32,
    /// Number of nodes in the tree.
    pub(super) nodes: u32,
    /// Old and new numbers of moved nodes that the tree has not been told yet.
    pub(super) moved: Vec<(Lpn, Lpn)>,
    path: Vec<Ancestor>,
    /// The page at which the next search for free pages begins.
    cursor: u32,
    /// Least pages in a run, as long as there are such runs.
    run_pages: u32,
    /// Batches written since the last superblock.
    flushes: u32,
}

/// Bytes of RAM, without the maps of pages.
pub(super) const fn ram_bytes_for(levels: usize, page_bytes: usize) -> usize {
    (levels + 1) * (page_bytes + size_of::<Ancestor>())
}

impl Links {
    pub(super) fn new(plan: &ClusteredSizes, root: u32) -> Links {
        let pages = if plan.is_append() { 0 } else { plan.pages };
        let levels = if plan.is_append() { 0 } else { plan.levels + 1 };
        let mut busy = PageMap::new(pages);
        (0..SLOTS.min(pages)).for_each(|page| {
            busy.insert(page);
        });
        Links {
            busy,
            kept: PageMap::new(pages),
            root,
            nodes: 0,
            moved: Vec::new(),
            path: vec![Ancestor::default(); levels],
            cursor: SLOTS,
            run_pages: plan.segment_pages,
            flushes: 0,
        }
    }

    pub(super) fn ram_bytes(&self) -> usize {
        let path: usize = self.path.iter().map(|node| node.image.capacity() + size_of::<Ancestor>()).sum();
        self.busy.ram_bytes() + self.kept.ram_bytes() + path + self.moved.capacity() * size_of::<(Lpn, Lpn)>()
    }

    /// The page of a node that does not wait.
    pub(super) fn page_of(&self, id: u32) -> Option<u32> {
        // A new node may have the root's page for a number.
        let page = if id == ROOT { self.root } else { id };
        let is_taken = id != ROOT && id == self.root;
        (!is_taken && page >= SLOTS && self.busy.contains(page) && !self.kept.contains(page)).then_some(page)
    }

    /// Remembers an internal node that the tree reads on its way down.
    pub(super) fn pass(&mut self, id: u32, level: u8, image: &[u8]) {
        let Some(ancestor) = self.path.get_mut(usize::from(level)).filter(|_| level > 1) else { return };
        ancestor.id = id;
        ancestor.image.clear();
        ancestor.image.extend_from_slice(image);
    }

    /// Keeps a page that a node has left until a superblock without it is durable.
    fn keep(&mut self, page: u32) {
        if page != 0 {
            debug_assert!(self.busy.contains(page), "C7: page {page} is kept and free");
            let is_new = self.kept.insert(page);
            debug_assert!(is_new, "C7: page {page} is left twice");
        }
    }

    fn free_pages(&self, plan: &ClusteredSizes) -> u64 {
        u64::from(plan.pages - self.busy.len())
    }

    /// Takes `nodes` free pages, in runs as long as the store has.
    fn take_pages(
        &mut self,
        nodes: usize,
        plan: &ClusteredSizes,
        is_withheld: impl Fn(u32) -> bool,
    ) -> Vec<u32> {
        let mut taken = Vec::with_capacity(nodes);
        while taken.len() < nodes {
            let left = (nodes - taken.len()) as u32;
            let least = self.run_pages.min(left);
            let run = self.busy.free_run(self.cursor..plan.pages, least, left, &is_withheld);
            let Some(run) = run else {
                // At the end a new round begins; a round in vain means that there are no such runs.
                if self.cursor == SLOTS {
                    assert!(self.run_pages > 1, "C6: no page is free");
                    self.run_pages = self.run_pages.min(left).div_ceil(2);
                } else {
                    self.cursor = SLOTS;
                }
                continue;
            };
            self.cursor = run.end;
            for page in run {
                let is_free = self.busy.insert(page);
                debug_assert!(is_free, "C6: page {page} is in use and given to a node");
                taken.push(page);
            }
        }
        debug_assert_eq!(taken.len(), nodes, "C6: more pages are taken than nodes are placed");
        taken
    }
}

impl<S: PageStore> Layer<S> {
    /// Adds the nodes of one operation to the batch, each with its ancestors.
    pub(super) fn link_nodes(&mut self, pages: &[(Lpn, &[u8])]) -> Result<(), StoreError> {
        let is_new = |id: u32| self.batch.get(id).is_none() && self.links.page_of(id).is_none();
        let new = pages.iter().filter(|(id, _)| is_new(id.0)).count() as u32;
        if new > 0 && self.links.nodes + new > self.plan.nodes_max {
            return Err(StoreError::Full);
        }
        self.links.nodes += new;
        let Layer { batch, links, plan, .. } = self;
        for (id, image) in pages {
            let page = links.page_of(id.0).unwrap_or(0);
            batch.put(id.0, plan.nodes.level_of(image).unwrap_or(0), page, image);
        }
        for (id, image) in pages {
            for child in plan.nodes.children(image) {
                if let Some(child) = batch.get_mut(child.0) {
                    child.parent = id.0;
                }
            }
        }
        for (id, _) in pages {
            self.link_ancestors(id.0)?;
            self.batch.touch(id.0);
        }
        let (waiting, frames) = (self.batch.len(), self.plan.frames());
        debug_assert!(waiting <= frames, "C6: {waiting} nodes wait, there is room for {frames}");
        Ok(())
    }

    /// Adds the ancestors of a node to the batch, as the tree read them last.
    fn link_ancestors(&mut self, id: u32) -> Result<(), StoreError> {
        let Layer { batch, links, plan, .. } = self;
        let mut id = id;
        while let Some(entry) = batch.get_mut(id).filter(|entry| entry.parent == 0 && id != ROOT) {
            let names = |ancestor: &&Ancestor| {
                !ancestor.image.is_empty() && plan.nodes.children(&ancestor.image).any(|child| child.0 == id)
            };
            let level = usize::from(entry.level) + 1;
            let Some(above) = links.path.get(level).filter(names) else {
                return Err(StoreError::Corrupted { what: "C6: no parent names a node", at: u64::from(id) });
            };
            entry.parent = above.id;
            if batch.get(above.id).is_none() {
                batch.put(above.id, level as u8, links.page_of(above.id).unwrap_or(0), &above.image);
            }
            id = above.id;
        }
        Ok(())
    }

    /// Writes a node of a bulk load to the page of its number.
    pub(super) fn load_node(&mut self, id: u32, image: &[u8], cause: Cause) -> Result<(), StoreError> {
        if self.links.nodes >= self.plan.nodes_max {
            return Err(StoreError::Full);
        }
        assert!(!self.links.busy.contains(id), "C6: a page in use was given to a node");
        self.store.write(Lpn(id), cause, image)?;
        self.links.busy.insert(id);
        self.links.nodes += 1;
        self.counts.runs += u64::from(id != self.counts.next_page);
        self.counts.next_page = id + 1;
        self.counts.flushed_nodes += 1;
        Ok(())
    }

    /// Removes a node that the tree has freed.
    pub(super) fn unlink(&mut self, id: u32) {
        if let Some(page) = self.batch.remove(id) {
            self.links.keep(page);
            self.links.nodes -= 1;
        } else if let Some(page) = self.links.page_of(id) {
            self.links.keep(page);
            self.links.nodes -= 1;
        }
    }

    /// Makes room for an operation: writes the nodes that the policy chooses, and commits if that is due or
    /// free pages are few.
    pub(super) fn relieve_links(&mut self) -> Result<(), StoreError> {
        match self.plan.config.policy {
            FlushPolicy::Cascade => self.flush_cascade()?,
            _ => {
                while self.batch.len() >= self.plan.batch_nodes() {
                    self.place(self.batch.least_recent(self.plan.segment_pages as usize))?;
                }
            }
        }
        let is_due = self.links.flushes >= self.plan.config.checkpoint_flushes;
        if is_due || self.links.free_pages(&self.plan) < self.plan.room_for_links() {
            self.commit_links()?;
        }
        Ok(())
    }

    /// Writes one level of nodes after the other, from the leaves up. It stops at a level without a full
    /// batch, unless too many nodes wait in all.
    fn flush_cascade(&mut self) -> Result<(), StoreError> {
        let full = self.plan.batch_nodes();
        for level in 1..=self.plan.levels as u8 + 1 {
            let nodes = self.batch.of_level(level);
            let is_crowded = self.batch.len() >= self.plan.config.batches() * full;
            if nodes.len() < full && !is_crowded {
                break;
            }
            if !nodes.is_empty() {
                self.place(nodes)?;
            }
        }
        Ok(())
    }

    /// Writes these nodes to free pages. No other waiting node may be below one of them.
    fn place(&mut self, mut ids: Vec<u32>) -> Result<(), StoreError> {
        debug_assert!(
            ids.iter().all(|id| self.batch.get(*id).is_some()),
            "C6: a node is placed and does not wait"
        );
        sort::unstable_by_key(&mut ids, |id| (self.batch.get(*id).map(|entry| entry.level), *id));
        let Layer { links, batch, plan, .. } = self;
        let pages = links.take_pages(ids.len(), plan, |page| batch.get(page).is_some());
        links.path.iter_mut().for_each(|ancestor| ancestor.image.clear());
        for (i, (id, page)) in ids.iter().zip(&pages).enumerate() {
            if let Err(error) = self.place_node(*id, *page) {
                pages[i..].iter().for_each(|page| {
                    self.links.busy.remove(*page);
                });
                // After a refusal the nodes before have their new pages, and the others go on waiting under
                // those that name them: the tree is what it was.
                self.is_interrupted |= !error.is_refusal();
                self.links.flushes += u32::from(i > 0);
                return Err(error);
            }
        }
        self.links.flushes += 1;
        self.counts.flushes += 1;
        self.counts.flushed_nodes += pages.len() as u64;
        Ok(())
    }

    fn place_node(&mut self, id: u32, page: u32) -> Result<(), StoreError> {
        let Layer { store, batch, links, plan, page: frame, counts, .. } = self;
        let Some(entry) = batch.get(id) else { return Ok(()) };
        debug_assert!(
            batch.get(page).is_none(),
            "C6: node {id} goes to the number of one that waits, {page}"
        );
        let parent = entry.parent;
        frame.copy_from_slice(&entry.image);
        if id != ROOT {
            BPlusNodes::renumber(frame, Lpn(page));
        }
        store.write(Lpn(page), Cause::Host, frame)?;
        counts.runs += u64::from(page != counts.next_page);
        counts.next_page = page + 1;
        links.keep(batch.remove(id).unwrap_or(0));
        if id == ROOT {
            links.root = page;
            return Ok(());
        }
        links.moved.push((Lpn(id), Lpn(page)));
        let above = batch.get_mut(parent);
        let is_named = above.is_some_and(|above| {
            let is_named = plan.nodes.rename_child(&mut above.image, Lpn(id), Lpn(page));
            let number = BPlusNodes::number(&above.image);
            BPlusNodes::renumber(&mut above.image, number);
            is_named
        });
        let what = "C6: no parent names a node";
        if is_named { Ok(()) } else { Err(StoreError::Corrupted { what, at: u64::from(id) }) }
    }

    /// Writes all waiting nodes and a superblock. Then the pages kept for the previous superblock are free.
    pub(super) fn commit_links(&mut self) -> Result<(), StoreError> {
        if !self.batch.is_empty() {
            self.place(self.batch.entries().iter().map(|entry| entry.id).collect())?;
        }
        debug_assert!(self.batch.is_empty(), "C6: {} nodes wait beside a commit", self.batch.len());
        if self.links.flushes == 0 && self.links.kept.len() == 0 && self.superblock.anchor == self.links.root
        {
            return Ok(());
        }
        self.unless_refused(|layer| {
            // Pages stay kept, and so another superblock is due, until one of them is known to be durable.
            let (anchor, epoch) = (layer.links.root, layer.superblock.epoch + 1);
            layer.write_checkpoint(Superblock { anchor, epoch, ..layer.superblock })?;
            layer.links.flushes = 0;
            layer.links.run_pages = (2 * layer.links.run_pages).min(layer.plan.segment_pages);
            let mut page = 0;
            while let Some(kept) = layer.links.kept.next(page) {
                layer.links.kept.remove(kept);
                layer.links.busy.remove(kept);
                layer.trim_page(Lpn(kept))?;
                page = kept;
            }
            debug_assert_eq!(layer.links.kept.len(), 0, "C7: pages stay kept after a commit");
            Ok(())
        })
    }
}
