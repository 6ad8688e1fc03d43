//! How an LS-LRU tree is set up.

use super::buffer::slab_bytes;
use super::cells::{Cells, cell_bytes};
use super::units::{SLOT_BYTES, Units};
use crate::check::IndexError;
use crate::ftl::PageStore;
use crate::index::most;
use crate::ordered::bplus::BPlusConfig;
use crate::ordered::buffered::Answers;
use crate::ordered::{Durability, RecordFormat, Settings};
use alloc::format;

/// Options that the tree takes besides those of the B+-tree: name and meaning.
pub const OPTIONS: [(&str, &str); 6] = [
    ("buffer_bytes", "RAM of the B+-buffer (default: all that pages and buffers share)"),
    ("window_percent", "w, the cold region's share of the buffer in percent, 0 to 100 (default 50)"),
    (
        "split_factor",
        "k: a dirty part of k times the entries of a leaf is committed by a multi-split, 2 to 15 (default 3)",
    ),
    (
        "commit_entries",
        "L: entries that a write-minimized commit frees at least (default: what a page holds)",
    ),
    ("full_merge_every", "updates between two full merge commits; 0 (default): only sync makes one"),
    (
        "answers",
        "exact (default), or pool: what an update answers is what its dirty part knows, no leaf is read for it",
    ),
];

/// How an LS-LRU tree is formatted and mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LsLruConfig {
    /// The tree below. Its durability must be *none*.
    pub tree: BPlusConfig,
    /// RAM of the B+-buffer: clean parts, dirty parts, units and their tables.
    pub buffer_bytes: usize,
    /// w, the cold region's share of the buffer in percent.
    pub window_percent: u8,
    /// k, how many times a leaf's entries a dirty part may have; 2 to 15.
    pub split_factor: u32,
    /// L, entries that a write-minimized commit frees at least; 0: what a page of cells holds.
    pub commit_entries: u32,
    /// Updates between two full merge commits; 0: never but by sync.
    pub full_merge_every: u64,
    /// What an insertion or a removal answers.
    pub answers: Answers,
}

impl LsLruConfig {
    /// A buffer of so many bytes, w = 0.5, k = 3, exact answers.
    pub const fn new(record: RecordFormat, buffer_bytes: usize) -> LsLruConfig {
        LsLruConfig {
            tree: BPlusConfig::new(record).with_durability(Durability::None),
            buffer_bytes,
            window_percent: 50,
            split_factor: 3,
            commit_entries: 0,
            full_merge_every: 0,
            answers: Answers::Exact,
        }
    }

    /// From settings, with the [`OPTIONS`]. `shared_bytes` is the RAM for buffers and caches, all of it this buffer's: a
    /// page cache below would hold what the buffer holds.
    pub fn from_settings(settings: &Settings, shared_bytes: usize) -> Result<LsLruConfig, IndexError> {
        let options = &settings.options;
        let number = |name, most: u64, default: u64| {
            Ok::<u64, IndexError>(options.number(name, 0..=most)?.unwrap_or(default))
        };
        Ok(LsLruConfig {
            tree: BPlusConfig::from_settings(settings)?,
            buffer_bytes: number("buffer_bytes", most::BUFFER_BYTES, shared_bytes as u64)? as usize,
            window_percent: number("window_percent", 100, 50)? as u8,
            split_factor: number("split_factor", 15, 3)? as u32,
            commit_entries: number("commit_entries", u64::from(u32::MAX), 0)? as u32,
            full_merge_every: number("full_merge_every", u64::from(u32::MAX), 0)?,
            answers: Answers::from_options(options)?,
        })
    }

    /// The smallest buffer over pages of this size.
    pub const fn buffer_bytes_min(record: RecordFormat, page_bytes: usize) -> usize {
        FIXED_BYTES + slabs_min(record, page_bytes) * slab_bytes(page_bytes)
    }

    /// The most RAM a tree on `store` ever needs besides what the store itself holds.
    pub fn ram_bytes_max(&self, store: &(impl PageStore + ?Sized)) -> Result<usize, IndexError> {
        let parts = (self.split_factor as usize + 1) * (store.page_bytes() + 64);
        Ok(self.buffer_bytes + self.tree.ram_bytes_max(store)? + parts)
    }

    /// Slabs of the buffer over pages of this size.
    pub(super) fn slabs(&self, page_bytes: usize) -> Result<usize, IndexError> {
        // Units and cells are numbered in 31 bits.
        let most = (1usize << 31) / page_bytes.max(1) * 32;
        let record = self.tree.record;
        if page_bytes < SLOT_BYTES.max(cell_bytes(record)) {
            return Err(IndexError::Unsupported(format!("pages of {page_bytes} bytes are too small")));
        }
        let slabs = self.buffer_bytes.saturating_sub(FIXED_BYTES) / slab_bytes(page_bytes);
        if slabs >= slabs_min(record, page_bytes) {
            return Ok(slabs.min(most));
        }
        Err(IndexError::Unsupported(format!(
            "a buffer of {} bytes over pages of {page_bytes}: {} bytes are needed at least",
            self.buffer_bytes,
            LsLruConfig::buffer_bytes_min(record, page_bytes)
        )))
    }

    /// The same as published, without a promise of its own.
    #[must_use]
    pub(super) const fn published(mut self) -> LsLruConfig {
        self.tree.durability = Durability::None;
        self
    }

    /// Refuses what cannot work.
    pub(super) fn validate(&self) -> Result<(), IndexError> {
        if self.window_percent > 100 {
            return Err(IndexError::Unsupported(format!(
                "window_percent = {}: 0 to 100 are possible",
                self.window_percent
            )));
        }
        if !(2..=15).contains(&self.split_factor) {
            return Err(IndexError::Unsupported(format!(
                "split_factor = {}: 2 to 15 are possible",
                self.split_factor
            )));
        }
        self.tree.require_for_groups()?;
        if self.tree.durability == Durability::None {
            return Ok(());
        }
        Err(IndexError::Unsupported(format!(
            "durability '{}' is wanted, but an LS-LRU tree gives 'none': a power cut loses the dirty parts in its \
             buffer, and those committed after the last sync stay without others that came before them",
            self.tree.durability.name()
        )))
    }
}

/// Bytes of RAM of the buffer that do not grow with it; what the store below is made of does not count.
const FIXED_BYTES: usize = size_of::<super::buffer::Buffer<()>>() + size_of::<Cells>();

/// Leaves whose units may get entries when a change of the tree alters which keys belong to them.
pub(super) const REGROUPED_LEAVES: usize = 3;

/// Slabs kept for the cells and the slots that a commit may take to move entries between units.
pub(super) const fn kept_slabs(record: RecordFormat, page_bytes: usize) -> usize {
    let (slots, cells) = (Units::chunk_slots(page_bytes), page_bytes / cell_bytes(record));
    REGROUPED_LEAVES.div_ceil(slots) + REGROUPED_LEAVES.div_ceil(cells)
}

/// Slabs of the smallest buffer: those kept, unit slots, a slab of cells and a frame.
const fn slabs_min(record: RecordFormat, page_bytes: usize) -> usize {
    kept_slabs(record, page_bytes) + 3
}
