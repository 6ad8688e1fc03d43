//! Size of the root, and the number of memtable records that fit into a commit page beside the root.

use super::commit::{
    ROOT_BLOCK_BYTES, ROOT_FIXED_BYTES, SEALS, STEP_ROOT_BYTES, commit_room_of, root_bytes_of,
};
use super::cost::LEVELS_MAX;
use super::page::HEADER_BYTES;
use super::root::{Kept, Writer, write};
use super::space::{SWEEP_BLOCKS, Stock};

impl Stock {
    pub(super) fn write_root(&self, writer: &mut Writer<'_>) {
        let newest = self.commits.sealed.back().filter(|_| SEALS);
        let kept = Kept {
            geometry: self.geometry,
            record: self.memtable.record,
            levels: &self.levels,
            blocks: &self.space.blocks,
            map: self.space.map(),
            sealed: self.commits.sealed_pages(),
            newest: newest.map(|sealed| (sealed.ppn, sealed.sequence)),
            appended: self.commits.tail.is_some(),
            page_records: self.levels.page_records,
        };
        write(writer, &kept);
    }

    /// Bytes that the root would take if it were written now.
    pub(super) fn root_bytes(&self) -> usize {
        let mut writer = Writer::new(&mut []);
        self.write_root(&mut writer);
        writer.at()
    }

    /// Bytes of a commit page that a root may take.
    pub(super) fn root_max(&self) -> usize {
        let room = self.geometry.page_bytes as usize - HEADER_BYTES;
        // With a map the root can be made shorter.
        if self.space.map().is_some() { room / 2 } else { room * 3 / 4 }
    }

    /// Number of blocks that root and RAM may still name. With a map the root can name any number.
    pub(super) fn blocks_nameable(&self) -> usize {
        let by_root = match self.space.map() {
            Some(_) => usize::MAX,
            None => self.root_max().saturating_sub(self.root_bytes()) / ROOT_BLOCK_BYTES,
        };
        by_root.min(self.levels.extents_left())
    }

    /// Most records of random keys and values on this chip: on all blocks but those of the sweeps, as far as
    /// root and RAM can name them. Of a key, pages leave out what it shares with its neighbours.
    pub(super) fn records_max(&self) -> u64 {
        let named = match self.space.map() {
            Some(_) => usize::MAX,
            None => self.root_max().saturating_sub(ROOT_FIXED_BYTES) / ROOT_BLOCK_BYTES,
        };
        let blocks = self
            .space
            .blocks
            .good()
            .saturating_sub(SWEEP_BLOCKS)
            .min(named)
            .min(self.levels.extents_of_records());
        let body = self.geometry.page_bytes as usize - HEADER_BYTES;
        let bits = 8 * (blocks * body) as u64 * u64::from(self.geometry.pages_per_block);
        let record = self.memtable.record;
        let whole = 8 * record.entry_bytes() as u64 + 2;
        let shared = (bits / whole).max(1).ilog2() + 1;
        bits / (whole - u64::from(shared.min(8 * u32::from(record.key_bytes))))
    }

    /// True if the root would leave too little of a commit page after the memtable went to `dissolved` more
    /// blocks.
    pub(super) fn is_root_long(&self, dissolved: usize) -> bool {
        let room = self.root_max().saturating_sub(dissolved * ROOT_BLOCK_BYTES);
        self.root_bytes_max() > room && self.root_bytes() > room
    }

    /// Upper bound of the bytes of the root, cheap to reckon.
    fn root_bytes_max(&self) -> usize {
        // An extent takes at most thirteen bytes.
        self.levels.extents() * 13 + 32 + LEVELS_MAX * (24 + usize::from(self.memtable.record.key_bytes))
    }

    /// Bytes of a page that records and root may take.
    fn commit_room(&self) -> usize {
        commit_room_of(self.geometry.page_bytes as usize)
    }

    /// True if `records` records fit into a commit page beside `bytes` bytes.
    fn fits_beside(&self, records: usize, bytes: usize) -> bool {
        self.memtable.packed_bytes_max(records) + bytes <= self.commit_room()
    }

    /// True if `records` records of the memtable fit beside the root, even after the steps until the next
    /// commit page lengthened it.
    fn fits_beside_root(&self, records: usize) -> bool {
        let bytes = self.memtable.packed_bytes_max(records);
        let room = self.commit_room() - STEP_ROOT_BYTES.min(self.commit_room() / 8);
        bytes < room && bytes + self.root_bytes() <= room
    }

    /// True if `records` records fit beside any root of this chip: the root grows as the blocks fill.
    pub(super) fn fits_for_good(&self, records: usize) -> bool {
        let most = match self.space.map().is_some() {
            true => self.root_max(),
            false => root_bytes_of(self.space.blocks.good()),
        };
        self.fits_beside(records, most.max(self.root_bytes() + STEP_ROOT_BYTES))
    }

    /// True if the memtable takes no more records: it is full, or another record would not fit beside the
    /// root and cannot be sealed.
    pub(super) fn is_memtable_full(&self) -> bool {
        let more = self.memtable.len() + 1;
        self.memtable.is_full()
            || !SEALS && !self.fits_beside(more, self.root_bytes_max()) && !self.fits_beside_root(more)
    }

    /// Pages that `records` records take.
    fn pages_of(&self, records: usize) -> usize {
        self.memtable.packed_bytes_max(records).div_ceil(self.commit_room())
    }

    /// Blocks that the sealed pages and the map of the next commit may take.
    pub(super) fn sealed_blocks_next(&self) -> usize {
        // Sweeps of everything come before the change that they make room for, and may lengthen the root.
        let unsealed = self.memtable.unsealed() + usize::from(!self.space.sweeping);
        let fits = match self.space.sweeping {
            true => self.fits_beside(unsealed, self.root_bytes()),
            false => self.fits_beside_root(unsealed),
        };
        let sealed = if fits || !SEALS { 0 } else { self.pages_of(unsealed) };
        let pages = self.map_pages_next() + sealed;
        let pages_per_block = self.geometry.pages_per_block;
        let left = self.commits.open_sealed.map_or(0, |(_, next)| (pages_per_block - next) as usize);
        pages.saturating_sub(left).div_ceil(pages_per_block as usize)
    }

    /// Blocks that the pages of the first level may take if a memtable too large for a commit page goes
    /// there, after `more` records were added. 0 if the memtable fits.
    pub(super) fn dissolved(&self, more: usize) -> usize {
        let is_small = self.commits.sealed_pages() == 0 && self.fits_for_good(self.memtable.len() + more);
        if is_small { 0 } else { self.dissolved_if_sealed(more) }
    }

    /// Blocks that the pages of the first level may take then, if there is a sealed page.
    pub(super) fn dissolved_if_sealed(&self, more: usize) -> usize {
        1 + self.pages_of(self.memtable.len() + more).div_ceil(self.geometry.pages_per_block as usize)
    }

    /// True if there are too many sealed pages, so that the first sweep must advance.
    pub(super) fn is_much_sealed(&self) -> bool {
        self.commits.sealed_pages() > self.sealed_max()
    }

    /// Number of sealed pages beyond which the first sweep must advance.
    pub(super) fn sealed_max(&self) -> usize {
        let record_bytes = self.memtable.record.entry_bytes() + 1;
        let of_a_page = (self.geometry.page_bytes as usize - HEADER_BYTES) / record_bytes;
        4 + 3 * self.memtable.capacity() / of_a_page.max(1)
    }
}
