//! How the RAM is divided between the lists of extents and fences, the memtable and the filters.
//!
//! A store of few records has few extents, however many blocks its chip has. So the lists get RAM as the
//! extents become more, and the memtable and the filters give it (`give`): in portions of [`PORTION`] extents
//! or more. If the RAM is so much that the lists of a full chip take a quarter of it, they get that at once.
//!
//! A mount divides by the extents of the root, so it leaves the memtable at least as much as it had when the
//! root was written.

use super::commit::{ROOT_BLOCK_BYTES, ROOT_FIXED_BYTES, SEALS, Sealed, sealed_listed};
use super::config::{MEMTABLE_MIN, Shares};
use super::cost::LEVELS_MAX;
use super::fences::{EXTENT_BYTES, HEAD_BYTES, SPARE_BYTES};
use super::filter::{FILTER_BYTES, FILTERS};
use super::map;
use super::medium::aside_bytes;
use super::memtable::Memtable;
use super::page::HEADER_BYTES;
use super::root::ITEM_BYTES;
use crate::check::IndexError;
use crate::fault::IndexFault;
use crate::nand::Geometry;
use crate::ordered::RecordFormat;

/// The lists get RAM once fewer extents than this find room.
pub(super) const AHEAD: usize = 8;
/// Extents that sweeps may add when no record is taken any more.
pub(super) const KEPT: usize = 12;
/// The lists can always have RAM for a quarter as many extents as blocks, within these bounds.
const EXTENTS_LEAST: [usize; 2] = [18, 96];
/// Extents for which the lists get RAM at a time, at least.
const PORTION: usize = 16;
/// Bytes of fences that each extent has at least.
const FENCES_LEAST: usize = 2;
/// Records of a memtable, or all, that it does not give, and a quarter of more.
const MEMTABLE_KEPT: usize = 24;
/// A root names an extent in at least so many bytes.
const ITEM_ROOT_BYTES: usize = 5;

/// Number of extents for which the lists can always have RAM.
pub(super) fn extents_least(geometry: Geometry) -> usize {
    (geometry.blocks as usize / 4).clamp(EXTENTS_LEAST[0], EXTENTS_LEAST[1])
}

/// Bytes that operations hold besides: what a walk needs, and keys of a step.
pub(super) fn passing_bytes(record: RecordFormat) -> usize {
    aside_bytes(record) + 160 + 8 * usize::from(record.key_bytes)
}

/// Records and chip: what shares follow from, besides the RAM.
pub(super) type Form = (RecordFormat, Geometry);

impl Shares {
    /// Bytes for the lists with this many extents, with no fences, and to count the blocks of a level.
    fn lists_least(&self, blocks: u32, extents: usize) -> usize {
        let runs = 2 * (LEVELS_MAX * HEAD_BYTES + self.levels * SPARE_BYTES);
        runs + extents * EXTENT_BYTES + blocks as usize / 4
    }

    /// Extents from which on a map may be due.
    fn mapped_from(&self, geometry: Geometry) -> usize {
        let room = geometry.page_bytes as usize - HEADER_BYTES;
        (room * 3 / 8).saturating_sub(ROOT_FIXED_BYTES) / ROOT_BLOCK_BYTES
    }

    /// Bytes for the map, if so many extents need one.
    fn map_bytes(&self, (record, geometry): Form, extents: usize) -> usize {
        let is_due = self.maps && extents >= self.mapped_from(geometry);
        if is_due { map::ram_bytes(geometry, record) } else { 0 }
    }

    /// True if a map has RAM now.
    pub(super) fn has_map_bytes(&self, form: Form) -> bool {
        self.map_bytes(form, self.extents as usize) > 0
    }

    /// Bytes besides the lists with this many extents and `records` records in the memtable. A mount lists
    /// the items of the root, with the filters but before the memtable.
    fn besides_least(&self, form: Form, extents: usize, records: usize) -> usize {
        let room = form.1.page_bytes as usize - HEADER_BYTES;
        let named = if self.maps { room / 2 } else { room * 3 / 4 } / ITEM_ROOT_BYTES;
        held(form, records).max(extents.min(named) * ITEM_BYTES * 3 / 2)
    }

    /// RAM that a mount of so many extents, and of records that wait, needs in all.
    pub(super) fn needed(&self, form: Form, extents: usize, records: usize) -> usize {
        let records = records.max(if self.is_wanted { self.least as usize } else { MEMTABLE_MIN });
        let besides = self.besides_least(form, extents, records) + self.map_bytes(form, extents);
        self.besides + self.lists_least(form.1.blocks, extents) + besides
    }

    /// True if the lists get RAM as they need it.
    pub(super) fn grows(&self) -> bool {
        self.extents_max < u32::MAX
    }

    /// Divides the RAM for the first time.
    pub(super) fn divide_first(&mut self, form: Form) {
        self.find_most_extents(form);
        self.divide(form, 0);
        if self.grows() && !self.is_wanted {
            // A batch must find room all the time.
            self.least = (self.memtable / 4).max(self.memtable.min(MEMTABLE_KEPT)) as u32;
            self.find_most_extents(form);
            self.divide(form, 0);
        }
    }

    /// Most changes of a batch: half of the memtable, since it must hold them together beside others. If the
    /// memtable may get smaller, half of the smallest.
    pub(super) fn changes_max(&self, capacity: usize) -> usize {
        let memtable = if self.grows() { capacity.min(self.least as usize) } else { capacity };
        (memtable / 2).max(1)
    }

    /// Finds the most extents that have room if the memtable is at its least. There is no bound if those of a
    /// full chip have room in a quarter of the RAM.
    fn find_most_extents(&mut self, form: Form) {
        let (record, geometry) = form;
        let maps = if self.maps { map::ram_bytes(geometry, record) } else { 0 };
        let quarter = self.pool().saturating_sub(maps) / 4;
        self.extents_max = u32::MAX;
        if quarter < self.lists_least(geometry.blocks, geometry.blocks as usize + 2 * PORTION) {
            let (mut low, mut high) = (0, geometry.pages() as usize + 1);
            while high - low > 1 {
                let middle = low.midpoint(high);
                let fits = self.needed(form, middle, self.least as usize) <= self.ram;
                (low, high) = if fits { (middle, high) } else { (low, middle) };
            }
            self.extents_max = low as u32;
        }
    }

    fn pool(&self) -> usize {
        self.ram.saturating_sub(self.besides)
    }

    /// The number of extents, mostly in whole portions, for which the lists have room if there are `extents`.
    fn portions(&self, geometry: Geometry, extents: usize) -> usize {
        let portion = PORTION.max(geometry.blocks as usize / 16);
        let portions = extents.max(EXTENTS_LEAST[0]).next_multiple_of(portion);
        portions.min(self.extents_max as usize).max(extents)
    }

    /// True if the lists are to get more RAM.
    pub(super) fn are_lists_short(&self, extents: usize) -> bool {
        extents + AHEAD > self.extents as usize && self.extents < self.extents_max
    }

    /// The extents that count: with a map at least those from which on it is due.
    pub(super) fn counted(&self, geometry: Geometry, (extents, is_mapped): (usize, bool)) -> usize {
        if is_mapped { extents.max(self.mapped_from(geometry)) } else { extents }
    }

    /// Divides the RAM for a mount of so many extents, and of a map if there is one. False if it is too
    /// little.
    pub(super) fn divide_mounted(&mut self, form: Form, (extents, is_mapped): (usize, bool)) -> bool {
        // Sweeps may have added some when no record was taken any more.
        let is_within = extents <= (self.extents_max as usize).saturating_add(KEPT)
            || self.needed(form, extents, 0) <= self.ram;
        let is_enough = is_within && (self.maps || !is_mapped);
        if is_enough {
            self.divide(form, extents);
        }
        is_enough
    }

    /// The error of a mount that needs more RAM, for so many extents and records that wait.
    pub(super) fn too_little(&self, form: Form, extents: usize, records: usize) -> IndexFault {
        // With more RAM there may be a map.
        let needed = [false, map::is_kept(form.1, form.0)]
            .map(|maps| Shares { maps, ..*self }.needed(form, extents, records));
        let needed = needed[0].max(needed[1]).max(self.ram.saturating_add(1));
        IndexError::TooLittleRam { what: "the index on the chip", given: self.ram, needed }.into()
    }

    /// Divides the RAM, if it is bounded, for at least so many extents.
    pub(super) fn divide(&mut self, form: Form, extents: usize) {
        let (record, geometry) = form;
        let blocks = geometry.blocks as usize;
        if self.ram == usize::MAX {
            return;
        }
        if !self.grows() {
            let maps = if self.maps { map::ram_bytes(geometry, record) } else { 0 };
            // The lists have more than they need, and leave what operations hold.
            let pool = self.pool() + passing_bytes(record) - maps;
            self.extents = u32::MAX;
            self.fences = (pool / 4).min(blocks * (geometry.pages_per_block as usize + 32));
            self.divide_rest(form, pool - self.fences);
            return;
        }
        let extents = self.portions(geometry, extents);
        let pool = self.pool().saturating_sub(self.map_bytes(form, extents));
        let (least, fences) =
            (self.lists_least(geometry.blocks, extents), geometry.pages_per_block as usize / 8);
        let good = (least + extents * fences).min(pool / 4).max(pool / 8);
        let kept = self.besides_least(form, extents, self.least as usize);
        let wanted = good.max(least + extents * FENCES_LEAST);
        self.extents = extents as u32;
        self.fences = wanted.min(pool.saturating_sub(kept)).max(least);
        self.divide_rest(form, pool.saturating_sub(self.fences));
    }

    /// Divides the RAM with as large a memtable as may be, or one for so many records if the RAM has no
    /// bound: no filters, and lists of exactly so many extents.
    pub(super) fn divide_for_records(&mut self, form: Form, extents: usize, records: usize) {
        if self.ram == usize::MAX {
            self.memtable = records;
            return;
        }
        (self.extents, self.fences) = (extents as u32, self.lists_least(form.1.blocks, extents));
        let left = self.pool().saturating_sub(self.map_bytes(form, extents) + self.fences);
        let (mut low, mut high) = (MEMTABLE_MIN, left / form.0.entry_bytes().max(1) + 1);
        while high > low + 1 {
            let middle = low.midpoint(high);
            (low, high) = if held(form, middle) <= left { (middle, high) } else { (low, middle) };
        }
        (self.memtable, self.filter) = (low, 0);
    }

    /// Divides what the lists leave between memtable and filters.
    fn divide_rest(&mut self, form: Form, left: usize) {
        let (record, geometry) = form;
        let pooled = if FILTERS { left * 11 / 16 } else { left };
        let most = super::config::memtable_max(record, geometry);
        let memtable = match self.is_wanted {
            true => 0,
            false => (pooled * 4 / (4 * record.entry_bytes() + 1)).min(most),
        };
        self.memtable = largest(form, left, memtable.max(self.least as usize));
        // Filters have no use for more than sixteen bits for each key.
        let page = geometry.page_bytes as usize;
        let filters_max = geometry.pages() as usize * (FILTER_BYTES + page / 2);
        let filter = left.saturating_sub(held(form, self.memtable)).min(filters_max);
        self.filter = if FILTERS { filter } else { 0 };
    }
}

/// Bytes of a memtable and its list of sealed pages.
fn held((record, geometry): Form, records: usize) -> usize {
    // A memtable of more than a page has sealed pages: at most three for each page of records.
    let sealed = match records * (record.entry_bytes() + 1) * 2 / geometry.page_bytes as usize {
        _ if !SEALS => 0,
        0 | 1 => 0,
        _ => {
            let each = size_of::<Sealed>() + usize::from(record.key_bytes);
            sealed_listed(record, geometry, records) * each
        }
    };
    Memtable::bytes_of(record, records) + sealed
}

/// The largest memtable of at most `records` records that `left` bytes hold.
fn largest(form: Form, left: usize, records: usize) -> usize {
    let mut memtable = records.max(MEMTABLE_MIN);
    while memtable > MEMTABLE_MIN && held(form, memtable) > left {
        memtable -= memtable.div_ceil(16).min(memtable - MEMTABLE_MIN);
    }
    memtable
}
