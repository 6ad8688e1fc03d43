//! Bulk load: builds a tree from sorted records, and writes each page once.
//!
//! Nodes are filled level by level. A node that is full to the mark waits, and the one that waited before it
//! is written and announced to the level above. So at the end the last two nodes of a level are still in RAM
//! and can be evened out, and no node is less than half full. The root is written last, over the empty one:
//! until then a power cut leaves an empty tree. A store that may keep the root and lose nodes written before
//! it is synced first.

use super::nodes::frame_at;
use super::page::{self, HEIGHT_MAX, ROOT};
use super::{BPlusTree, Work};
use crate::check::{IndexError, words};
use crate::fault::IndexFault;
use crate::index::Fill;
use crate::nand::Cause;
use crate::store::PageStore;
use core::cmp::Ordering;

/// Function that takes a record.
type Take<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), IndexFault>;

/// Function that gives all records, in order, to a [`Take`].
type Give<'a> = &'a mut dyn FnMut(Take<'_>) -> Result<(), IndexFault>;

impl<S: PageStore> BPlusTree<S> {
    /// Fills an empty tree with records whose keys ascend strictly. Returns the number of records. After an
    /// error the tree is still empty.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        records: impl IntoIterator<Item = (K, V)>,
        fill: Fill,
    ) -> Result<u64, IndexError> {
        let mut records = records.into_iter();
        let mut give =
            |take: Take<'_>| records.try_for_each(|(key, value)| take(key.as_ref(), value.as_ref()));
        Ok(self.work().bulk_load(fill, &mut give)?)
    }
}

impl Work<'_> {
    /// Returns an error if the tree has records.
    pub(super) fn require_empty(&mut self) -> Result<(), IndexFault> {
        self.core.mark.ready()?;
        self.fetch_root(Cause::Host)?;
        if self.core.nodes.height > 1 || self.core.nodes.path[0].count() > 0 {
            return Err(IndexError::Unsupported(words("a bulk load needs an empty tree").into()).into());
        }
        Ok(())
    }

    fn bulk_load(&mut self, fill: Fill, give: Give<'_>) -> Result<u64, IndexFault> {
        self.require_empty()?;
        self.unmark_clean()?;
        let work = Work { store: &mut *self.store, core: &mut *self.core };
        let loaded = Loader { work, fill, levels: 0, waits: [false; HEIGHT_MAX + 1] }.run(give);
        if loaded.is_err() && !self.core.mark.is_interrupted {
            self.core.pages.free_all(self.store)?;
        }
        self.core.begin();
        loaded
    }
}

/// State of a load. Each level has one open node (frame `level - 1` of the path), and a full one may wait
/// (the extra frame of the same index).
struct Loader<'a> {
    work: Work<'a>,
    fill: Fill,
    /// Number of levels begun.
    levels: usize,
    waits: [bool; HEIGHT_MAX + 1],
}

impl Loader<'_> {
    fn run(&mut self, give: Give<'_>) -> Result<u64, IndexFault> {
        let format = self.work.core.nodes.layout.record;
        let mut last = [0; 255];
        let last = &mut last[..usize::from(format.key_bytes)];
        let mut count = 0;
        self.begin_level(1);
        give(&mut |key, value| {
            format.check(key, value)?;
            if count > 0 && (*last).cmp(key) != Ordering::Less {
                return Err(IndexError::NotSorted { position: count }.into());
            }
            last.copy_from_slice(key);
            self.push(1, (key, value))?;
            count += 1;
            Ok(())
        })?;
        self.close()?;
        Ok(count)
    }

    fn begin_level(&mut self, level: usize) {
        debug_assert_eq!(level, self.levels + 1, "B5: levels begin one by one, from the leaves up");
        frame_at(&mut self.work.core.nodes.extra, level - 1, &self.work.core.nodes.layout);
        frame_at(&mut self.work.core.nodes.path, level - 1, &self.work.core.nodes.layout).reset(ROOT, level);
        self.levels = level;
    }

    /// Adds an entry to the open node of a level. A node full to the mark waits from then on.
    fn push(&mut self, level: usize, entry: (&[u8], &[u8])) -> Result<(), IndexFault> {
        debug_assert!((1..=HEIGHT_MAX).contains(&level), "B5: level {level} of a loaded tree");
        debug_assert!(level <= self.levels + 1, "B5: a level is left out");
        if level > self.levels {
            self.begin_level(level);
        }
        let shape = self.work.core.nodes.layout.shape(level);
        if self.work.core.nodes.path[level - 1].count() == self.fill.of(shape.capacity) {
            if self.waits[level] {
                self.write_waiting(level)?;
            }
            self.let_wait(level);
            self.work.core.nodes.path[level - 1].reset(ROOT, level);
        }
        let open = &mut self.work.core.nodes.path[level - 1];
        debug_assert!(
            open.count().checked_sub(1).is_none_or(|last| shape.key(open.area(), last) < entry.0),
            "B2: loaded keys do not ascend"
        );
        open.insert(&shape, open.count(), entry);
        debug_assert!(open.count() <= self.fill.of(shape.capacity), "B4: fuller than the mark");
        Ok(())
    }

    fn let_wait(&mut self, level: usize) {
        core::mem::swap(
            &mut self.work.core.nodes.path[level - 1],
            &mut self.work.core.nodes.extra[level - 1],
        );
        self.waits[level] = true;
    }

    /// Writes the waiting node of a level, and announces it to the level above.
    fn write_waiting(&mut self, level: usize) -> Result<(), IndexFault> {
        debug_assert!(self.waits[level], "no node of level {level} waits");
        let lpn = self.work.core.pages.space.allocate().ok_or(IndexError::NO_BLOCK)?;
        let node = &mut self.work.core.nodes.extra[level - 1];
        debug_assert_eq!(node.level(), level, "B5: a node of another level waits");
        debug_assert!(
            node.count() >= self.work.core.nodes.layout.half(level),
            "B4: a node less than half full is loaded"
        );
        node.set_lpn(lpn);
        node.seal();
        self.work.store.write(lpn, Cause::Host, &node.bytes)?;
        let (bound, child) = self.work.core.nodes.announcement(level - 1);
        let key_bytes = self.work.core.nodes.layout.internal.key_bytes;
        self.push(level + 1, (&bound[..key_bytes], &child))
    }

    /// Writes the last two nodes of each level, up to the level that has only one: the root.
    fn close(&mut self) -> Result<(), IndexFault> {
        let mut level = 1;
        while self.waits[level] {
            let is_one = self.even_out_last(level);
            if is_one && level == self.levels {
                break;
            }
            self.write_waiting(level)?;
            if !is_one {
                self.let_wait(level);
                self.write_waiting(level)?;
            }
            level += 1;
        }
        self.write_root(level)
    }

    /// Fills the last node of a level to the half with entries of the waiting one, or merges the two. Returns
    /// true if they were merged. The merged node then waits, or is open if it is the only one of its level.
    fn even_out_last(&mut self, level: usize) -> bool {
        let (shape, least) =
            (self.work.core.nodes.layout.shape(level), self.work.core.nodes.layout.half(level));
        let (left, right) =
            (&mut self.work.core.nodes.extra[level - 1], &mut self.work.core.nodes.path[level - 1]);
        if right.count() >= least {
            return false;
        }
        if left.count() + right.count() >= 2 * least {
            page::even_out(&shape, left, right);
            return false;
        }
        let moved = right.count();
        page::move_left(&shape, left, right, moved);
        debug_assert!(right.count() == 0 && left.count() <= shape.capacity, "B4: entries lost in a merge");
        if level == self.levels {
            core::mem::swap(left, right);
        }
        true
    }

    fn write_root(&mut self, level: usize) -> Result<(), IndexFault> {
        let root = &mut self.work.core.nodes.path[level - 1];
        debug_assert_eq!(root.level(), level, "B5: the root is of another level");
        debug_assert!(level == 1 || root.count() >= 2, "B4: an internal root has two children at least");
        root.set_lpn(ROOT);
        root.seal();
        if !self.work.store.durable_writes() && !self.work.store.prefix_consistent() {
            self.work.store.sync()?;
        }
        let written = self.work.store.write(ROOT, Cause::Host, &root.bytes);
        self.work.core.mark.is_interrupted = written.as_ref().is_err_and(|error| !error.is_refusal());
        written?;
        self.work.core.nodes.height = level;
        Ok(())
    }
}
