//! How an LS-LRU tree is set up.

use super::buffer::slab_bytes;
use super::cells::{Cells, cell_bytes};
use super::units::{SLOT_BYTES, Units};
use nandex::check::{IndexError, message};
use nandex::ordered::bplus::{BPlusConfig, Underflow};
use nandex::ordered::buffered::Answers;
use nandex::ordered::{Durability, RecordFormat};
use nandex::store::PageStore;

/// The bytes that a unit counts for in the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnitRam {
    /// All bytes that a unit takes: its copy, its cells with headers and free places, and its slot in the
    /// tables.
    #[default]
    Held,
    /// The records of the paper's definitions only: the copy; operation, key and pointer for each change
    /// (Definition 2); a pointer, #B and #N for each unit (Figure 5). The buffer takes more RAM than this.
    Record,
}

/// Bytes of a unit's record: the pointer to it, #B and #N.
const UNIT_RECORD_BYTES: usize = 8;

/// The treatment of copies of inner nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inner {
    /// Inner nodes are outside the regions. They are dropped last, and take at most half of the buffer.
    #[default]
    Kept,
    /// Inner nodes are units of the paper's lists. They age and leave by the rules of leaves.
    Units,
}

/// The rule that picks the cold dirty units to commit when the buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitPolicy {
    /// The units that free L entries with the fewest writes (Section 3.2.1).
    #[default]
    WriteMinimized,
    /// The unit of the entry that has waited longest, with all its entries (reference 15 of the paper).
    FirstAssociated,
    /// The smallest unit that frees L entries. If none does, the largest units. Writes do not count
    /// (reference 14).
    ExactFit,
}

/// How to split a leaf whose changes do not fit into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeafSplit {
    /// Splits into as many leaves as needed, in one atomic group (Section 3.2.2).
    #[default]
    Multi,
    /// In two, each time a leaf overflows, until all changes are in (*modify-two-node*, reference 16 of the
    /// paper).
    TwoNodes,
}

/// The settings of an LS-LRU tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LsLruConfig {
    /// The settings of the tree below. Its durability must be *none*. Its underflow rule must be `Merge`,
    /// or `ExpelLeaves` for lazy coalescing.
    pub tree: BPlusConfig,
    /// Bytes of RAM of the B+-buffer: clean parts, dirty parts, units and their tables.
    pub buffer_bytes: usize,
    /// w: share of the cold region in the buffer, in percent.
    pub window_percent: u8,
    /// k: largest size of a dirty part, as a multiple of the entries of a leaf, 2 to 15.
    pub split_factor: u32,
    /// L: least number of entries that a write-minimized commit frees. 0 means the entries of a page of
    /// cells.
    pub commit_entries: u32,
    /// Number of updates between two full merge commits. 0 means only by sync.
    pub full_merge_every: u64,
    /// The exactness of the answers of insertions and removals.
    pub answers: Answers,
    /// The treatment of copies of inner nodes.
    pub inner: Inner,
    /// The rule that picks the dirty units to leave a full buffer.
    pub commit: CommitPolicy,
    /// How to split a leaf whose changes do not fit into it.
    pub split: LeafSplit,
    /// The bytes that a unit counts for in the budget.
    pub ram: UnitRam,
}

impl LsLruConfig {
    /// Settings with a buffer of `buffer_bytes` bytes, w = 0.5, k = 3, exact answers.
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

    /// Bytes of the smallest buffer over pages of this size.
    pub const fn buffer_bytes_min(record: RecordFormat, page_bytes: usize) -> usize {
        FIXED_BYTES + slabs_min(record, page_bytes) * slab_bytes(page_bytes)
    }

    /// Bytes of RAM that a tree takes at most on this store. The store itself is not counted.
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

    /// The bytes that the budget counts for a unit besides its copy, and for its changes.
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

    /// Largest number of slabs for a budget of `slabs` slabs. If records are counted it is larger: enough
    /// to hold units of one change each.
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

    /// Number of slabs of the buffer over pages of this size.
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

    /// These settings in the class *none*, as published.
    #[must_use]
    pub(super) const fn published(mut self) -> LsLruConfig {
        self.tree.durability = Durability::None;
        self
    }

    /// Refuses settings that cannot work.
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

/// The bytes that the budget counts for a unit and its changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// Bytes of a unit, without its parts.
    pub(super) unit: usize,
    /// Bytes of a group of changes.
    pub(super) group: usize,
    /// Changes that fill a group.
    pub(super) entries: usize,
}

/// Bytes of RAM of the buffer that do not grow with it. The store below is not counted.
const FIXED_BYTES: usize = size_of::<super::buffer::Buffer<()>>() + size_of::<Cells>();

/// Largest number of leaves whose units may get entries when a change of the tree moves keys between
/// leaves.
pub(super) const REGROUPED_LEAVES: usize = 3;

/// Slabs kept for the cells and slots that a commit may need to move entries between units.
pub(super) const fn kept_slabs(record: RecordFormat, page_bytes: usize) -> usize {
    let (slots, cells) = parts_of_slab(record, page_bytes);
    REGROUPED_LEAVES.div_ceil(slots) + REGROUPED_LEAVES.div_ceil(cells)
}

/// Unit slots and cells in a slab. At least one each, even for pages too small for them, which are refused
/// elsewhere.
const fn parts_of_slab(record: RecordFormat, page_bytes: usize) -> (usize, usize) {
    let (slots, cells) = (Units::chunk_slots(page_bytes), page_bytes / cell_bytes(record));
    (if slots == 0 { 1 } else { slots }, if cells == 0 { 1 } else { cells })
}

/// Slabs of the smallest buffer: the kept ones, one of unit slots, one of cells and one frame.
const fn slabs_min(record: RecordFormat, page_bytes: usize) -> usize {
    kept_slabs(record, page_bytes) + 3
}
