//! Settings of an FD-tree, and the sizes that follow from them on a store.

use super::head::Head;
use super::model::best_ratio;
use super::run::RunPage;
use crate::ordered::messages::ground::{Common, Shape, StorePages};
use nandex::check::{IndexError, message};
use nandex::ordered::RecordFormat;

/// The settings of an FD-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdConfig {
    /// The sizes of records, the durability class, and the exactness of answers.
    pub common: Common,
    /// Number of records in the head. On a small store it is reduced, so that they would fill at most a
    /// 16th of the store.
    pub head_entries: u32,
    /// Ratio of the sizes of two neighbouring levels. 0 lets the cost model choose.
    pub k: u32,
    /// For the cost model: percentage of updates among all operations.
    pub insert_percent: u32,
    /// For the cost model: cost of a page write in page reads.
    pub write_cost: u32,
}

const HEAD_ENTRIES: u32 = 2_000;
pub(super) const LEVELS_MAX: usize = 10;

impl FdConfig {
    /// Settings with a head of 2,000 records and k by the cost model.
    pub const fn new(record: RecordFormat) -> FdConfig {
        FdConfig {
            common: Common::new(record),
            head_entries: HEAD_ENTRIES,
            k: 0,
            insert_percent: 50,
            write_cost: 3,
        }
    }

    /// Number of records of a head that takes at most `bytes` bytes of RAM, at least 1.
    pub fn head_entries_in(record: RecordFormat, bytes: usize) -> u32 {
        (bytes / Head::record_bytes(shape_of(record))).clamp(1, u32::MAX as usize) as u32
    }

    /// Bytes of RAM that the head takes.
    pub fn head_bytes(&self) -> usize {
        self.head_entries as usize * Head::record_bytes(shape_of(self.common.record))
    }

    pub(super) fn plan(&self, pages: StorePages) -> Result<FdSizes, IndexError> {
        let StorePages { bytes: page_bytes, count: pages } = pages;
        let shape = shape_of(self.common.record);
        let page_entries = RunPage::capacity(shape, page_bytes).min(usize::from(u16::MAX)) as u32;
        let head_max = (pages / 16).saturating_mul(page_entries);
        let head_entries = self.head_entries.min(head_max);
        if page_entries < 5 || head_entries == 0 {
            return Err(IndexError::unsupported(message!(
                "{pages} pages of {page_entries} entries and a head of {head_entries} are too few: 16 pages of 5, and 1"
            )));
        }
        let most = u64::from(pages) * u64::from(page_entries) / 2;
        let k = match self.k {
            0 => best_ratio(most, (head_entries, page_entries), (self.insert_percent, self.write_cost)),
            k => k,
        };
        if k < 2 || k + 1 >= page_entries {
            let most = page_entries - 2;
            return Err(IndexError::unsupported(message!(
                "k = {k}: 2 to {} are possible with {page_entries} entries in a page, or fences fill the levels",
                most - 1
            )));
        }
        let mut plan = FdSizes { shape, page_bytes, page_entries, head_entries, k, levels: 1 };
        while plan.levels < LEVELS_MAX && plan.level_pages(plan.levels - 1) < u64::from(pages) {
            plan.levels += 1;
        }
        Ok(plan)
    }
}

/// The shape of an entry. The value has at least four bytes, because a fence has a unit there.
pub(super) fn shape_of(record: RecordFormat) -> Shape {
    let shape = Shape::of(record);
    Shape { value: shape.value.max(4), ..shape }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FdSizes {
    pub(super) shape: Shape,
    pub(super) page_bytes: usize,
    pub(super) page_entries: u32,
    pub(super) head_entries: u32,
    pub(super) k: u32,
    /// Largest number of levels. The last has no limit of pages.
    pub(super) levels: usize,
}

impl FdSizes {
    /// Largest number of pages of a level, counted from 0.
    pub(super) fn level_pages(&self, level: usize) -> u64 {
        let head = u64::from(self.head_entries.div_ceil(self.page_entries));
        (0..=level).fold(head, |pages, _| pages.saturating_mul(self.k.into()))
    }

    /// Whether a run of `puts` records leaves room on so many pages for a second one with a full head merged
    /// in.
    pub(super) fn fits(&self, puts: u64, pages: u64) -> bool {
        self.pages_for(puts) + self.pages_for(puts + u64::from(self.head_entries)) <= pages
    }

    /// Largest number of pages of the first run, on a store of `units` units.
    pub(super) fn first_pages(&self, units: u32) -> usize {
        let most = self.level_pages(0).saturating_add(self.pages_for(self.head_entries.into()));
        most.min(units.into()) as usize
    }

    /// Number of pages for `entries` records and fences in one run, with the runs of fences above it.
    pub(super) fn pages_for(&self, entries: u64) -> u64 {
        let pages = entries.div_ceil(u64::from(self.page_entries) - 1) + 1;
        pages + pages.div_ceil(u64::from(self.page_entries) - 3) + self.levels as u64
    }
}
