//! How an FD-tree is set up, and what that comes to on a store.

use super::head::Head;
use super::model::best_ratio;
use super::run::RunPage;
use crate::ordered::messages::ground::{Common, Shape, StorePages};
use nandex::check::{IndexError, message};
use nandex::ordered::RecordFormat;

/// How an FD-tree is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdConfig {
    /// Records, class, answers.
    pub common: Common,
    /// Records of the head; fewer on a store of which they would fill more than a 16th.
    pub head_entries: u32,
    /// How many times larger each level is; 0: by the cost model.
    pub k: u32,
    /// For the cost model: updates among all operations, in percent.
    pub insert_percent: u32,
    /// For the cost model: what a page write costs in page reads.
    pub write_cost: u32,
}

const HEAD_ENTRIES: u32 = 2_000;
pub(super) const LEVELS_MAX: usize = 10;

impl FdConfig {
    /// A head of 2,000 records, k by the cost model.
    pub const fn new(record: RecordFormat) -> FdConfig {
        FdConfig {
            common: Common::new(record),
            head_entries: HEAD_ENTRIES,
            k: 0,
            insert_percent: 50,
            write_cost: 3,
        }
    }

    /// Records of a head that takes at most so many bytes of RAM; one at least.
    pub fn head_entries_in(record: RecordFormat, bytes: usize) -> u32 {
        (bytes / Head::record_bytes(shape_of(record))).clamp(1, u32::MAX as usize) as u32
    }

    /// RAM of the head.
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

/// A fence takes four bytes for its unit.
pub(super) fn shape_of(record: RecordFormat) -> Shape {
    let shape = Shape::of(record);
    Shape { value: shape.value.max(4), ..shape }
}

/// Sizes that follow from a configuration on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FdSizes {
    pub(super) shape: Shape,
    pub(super) page_bytes: usize,
    pub(super) page_entries: u32,
    pub(super) head_entries: u32,
    pub(super) k: u32,
    /// Levels at most; the last has no limit.
    pub(super) levels: usize,
}

impl FdSizes {
    /// Pages of a level at most, counted from 0.
    pub(super) fn level_pages(&self, level: usize) -> u64 {
        let head = u64::from(self.head_entries.div_ceil(self.page_entries));
        (0..=level).fold(head, |pages, _| pages.saturating_mul(self.k.into()))
    }

    /// Pages of the first run at most, on a store of so many units.
    pub(super) fn first_pages(&self, units: u32) -> usize {
        let most = self.level_pages(0).saturating_add(self.pages_for(self.head_entries.into()));
        most.min(units.into()) as usize
    }

    /// Pages that so many records and fences take in one run, with the runs of fences above it.
    pub(super) fn pages_for(&self, entries: u64) -> u64 {
        let pages = entries.div_ceil(u64::from(self.page_entries) - 1) + 1;
        pages + pages.div_ceil(u64::from(self.page_entries) - 3) + self.levels as u64
    }
}
