//! How an LS-LRU tree is set up.

use super::buffer::slab_bytes;
use super::cells::{Cells, cell_bytes};
use super::units::{SLOT_BYTES, Units};
use nandex::check::{IndexError, message};
use nandex::ordered::bplus::{BPlusConfig, Underflow};
use nandex::ordered::buffered::Answers;
use nandex::ordered::{Durability, RecordFormat};
use nandex::store::PageStore;

/// Bytes that a unit of the buffer counts in its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnitRam {
    /// All that the unit takes: its copy, its cells with their headers and air, its slot in the tables.
    #[default]
    Held,
    /// The records of the paper's definitions: the copy; for each change the type of operation, key and
    /// pointer (Definition 2); for each unit a pointer to it, #B and #N (Figure 5). More is held than is
    /// counted.
    Record,
}

/// Bytes of a unit's record: the pointer that finds it, #B and #N.
const UNIT_RECORD_BYTES: usize = 8;

/// Treatment of the copies of inner nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inner {
    /// Inner nodes stand outside of the regions and leave when nothing else can, up to half of the buffer.
    #[default]
    Kept,
    /// Inner nodes are units of the paper's lists like those of leaves: they age and leave by the same rules.
    Units,
}

/// Which dirty units of the cold region a commit takes when the buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitPolicy {
    /// The set that frees L entries with the fewest writes (Section 3.2.1).
    #[default]
    WriteMinimized,
    /// The unit of the entry that waits longest, with all its entries (reference 15 of the paper).
    FirstAssociated,
    /// The smallest unit that frees L entries, or the largest ones where none does; writes do not count
    /// (reference 14).
    ExactFit,
}

/// How many leaves become of one and of more changes than it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeafSplit {
    /// The split makes as many nodes as it takes, in one atomic group (Section 3.2.2).
    #[default]
    Multi,
    /// Two, each time that one overflows, until all changes are in (*modify-two-node*, reference 16 of the
    /// paper).
    TwoNodes,
}

/// How an LS-LRU tree is formatted and mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LsLruConfig {
    /// The tree below. Its durability must be *none*; its `underflow`, `Merge` or, for lazy coalescing,
    /// `ExpelLeaves`.
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
    /// The answer of an insertion or a removal.
    pub answers: Answers,
    /// Treatment of the copies of inner nodes.
    pub inner: Inner,
    /// Which dirty units leave a full buffer.
    pub commit: CommitPolicy,
    /// How many leaves become of one at once.
    pub split: LeafSplit,
    /// Bytes that a unit counts in the budget.
    pub ram: UnitRam,
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
            inner: Inner::Kept,
            commit: CommitPolicy::WriteMinimized,
            split: LeafSplit::Multi,
            ram: UnitRam::Held,
        }
    }

    /// The smallest buffer over pages of this size.
    pub const fn buffer_bytes_min(record: RecordFormat, page_bytes: usize) -> usize {
        FIXED_BYTES + slabs_min(record, page_bytes) * slab_bytes(page_bytes)
    }

    /// The most RAM a tree on `store` ever needs besides what the store itself holds.
    pub fn ram_bytes_max(&self, store: &(impl PageStore + ?Sized)) -> Result<usize, IndexError> {
        let parts = (self.split_factor as usize + 1) * (store.page_bytes() + 64);
        let page_bytes = store.page_bytes();
        let beyond = match self.ram {
            UnitRam::Held => 0,
            UnitRam::Record => {
                let slabs = self.slabs(page_bytes)?;
                (self.slabs_held_max(slabs, page_bytes) - slabs) * slab_bytes(page_bytes)
            }
        };
        Ok(self.buffer_bytes + beyond + self.tree.ram_bytes_max(store)? + parts)
    }

    /// Bytes that a unit counts besides its copy, and each of its changes: a slot and a share of its cells,
    /// or records.
    pub(super) const fn counted(&self) -> Counted {
        let record = self.tree.record;
        match self.ram {
            UnitRam::Held => Counted {
                unit: SLOT_BYTES,
                group: cell_bytes(record),
                entries: super::cells::cell_entries(record),
            },
            UnitRam::Record => {
                Counted { unit: UNIT_RECORD_BYTES, group: record.entry_bytes() + 1, entries: 1 }
            }
        }
    }

    /// Slabs that a budget of so many ever holds: where records count, as many as it takes to hold units of
    /// one change each.
    pub(super) fn slabs_held_max(&self, slabs: usize, page_bytes: usize) -> usize {
        if self.ram == UnitRam::Held {
            return slabs;
        }
        let Counted { unit, group, .. } = self.counted();
        let units = (slabs * page_bytes).div_ceil(unit + group);
        let (slots, cells) = parts_of_slab(self.tree.record, page_bytes);
        let most = (1usize << 31) / page_bytes.max(1) * 32;
        let kept = kept_slabs(self.tree.record, page_bytes);
        (slabs + units.div_ceil(slots) + units.div_ceil(cells) + kept).min(most)
    }

    /// Slabs of the buffer over pages of this size.
    pub(super) fn slabs(&self, page_bytes: usize) -> Result<usize, IndexError> {
        // Units and cells are numbered in 31 bits.
        let most = (1usize << 31) / page_bytes.max(1) * 32;
        let record = self.tree.record;
        if page_bytes < SLOT_BYTES.max(cell_bytes(record)) {
            return Err(IndexError::unsupported(message!("pages of {page_bytes} bytes are too small")));
        }
        let slabs = self.buffer_bytes.saturating_sub(FIXED_BYTES) / slab_bytes(page_bytes);
        if slabs >= slabs_min(record, page_bytes) {
            return Ok(slabs.min(most));
        }
        Err(IndexError::unsupported(message!(
            "a buffer of {} bytes over pages of {page_bytes}: {} bytes are needed at least",
            self.buffer_bytes,
            LsLruConfig::buffer_bytes_min(record, page_bytes)
        )))
    }

    /// This configuration as published, without a promise of its own.
    #[must_use]
    pub(super) const fn published(mut self) -> LsLruConfig {
        self.tree.durability = Durability::None;
        self
    }

    /// Refuses what cannot work.
    pub(super) fn validate(&self) -> Result<(), IndexError> {
        if self.window_percent > 100 {
            return Err(IndexError::unsupported(message!(
                "window_percent = {}: 0 to 100 are possible",
                self.window_percent
            )));
        }
        if !(2..=15).contains(&self.split_factor) {
            return Err(IndexError::unsupported(message!(
                "split_factor = {}: 2 to 15 are possible",
                self.split_factor
            )));
        }
        // A leaf that is expelled leaves what waits for its keys to a neighbour, as one that merges does.
        let tree = match self.tree.underflow {
            Underflow::ExpelLeaves => BPlusConfig { underflow: Underflow::Merge, ..self.tree },
            _ => self.tree,
        };
        tree.require_for_groups()?;
        if self.tree.durability == Durability::None {
            return Ok(());
        }
        Err(IndexError::unsupported(message!(
            "durability '{}' is wanted, but an LS-LRU tree gives 'none': a power cut loses the dirty parts in its \
             buffer, and those committed after the last sync stay without others that came before them",
            self.tree.durability.name()
        )))
    }
}

/// Bytes that the budget counts for a unit and its changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// A unit, without its parts.
    pub(super) unit: usize,
    /// Changes that one count covers, at most.
    pub(super) group: usize,
    /// Changes that are counted together.
    pub(super) entries: usize,
}

/// Bytes of RAM of the buffer that do not grow with it; what the store below is made of does not count.
const FIXED_BYTES: usize = size_of::<super::buffer::Buffer<()>>() + size_of::<Cells>();

/// Leaves whose units may get entries when a change of the tree alters which keys belong to them.
pub(super) const REGROUPED_LEAVES: usize = 3;

/// Slabs kept for the cells and the slots that a commit may take to move entries between units.
pub(super) const fn kept_slabs(record: RecordFormat, page_bytes: usize) -> usize {
    let (slots, cells) = parts_of_slab(record, page_bytes);
    REGROUPED_LEAVES.div_ceil(slots) + REGROUPED_LEAVES.div_ceil(cells)
}

/// Unit slots and cells of a slab; one at least, where pages are too small for any and are refused.
const fn parts_of_slab(record: RecordFormat, page_bytes: usize) -> (usize, usize) {
    let (slots, cells) = (Units::chunk_slots(page_bytes), page_bytes / cell_bytes(record));
    (if slots == 0 { 1 } else { slots }, if cells == 0 { 1 } else { cells })
}

/// Slabs of the smallest buffer: those kept, unit slots, a slab of cells and a frame.
const fn slabs_min(record: RecordFormat, page_bytes: usize) -> usize {
    kept_slabs(record, page_bytes) + 3
}
