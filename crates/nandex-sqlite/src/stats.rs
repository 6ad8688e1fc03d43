//! The statistics of a volume: `PRAGMA nandex_stats`.

use nandex::store::StoreStats;
use std::fmt;

/// The counters of a chip so far, over all causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChipCounts {
    /// Pages read.
    pub page_reads: u64,
    /// Pages programmed.
    pub page_programs: u64,
    /// Blocks erased.
    pub block_erases: u64,
}

impl From<nandex::nand::sim::Counters> for ChipCounts {
    fn from(counters: nandex::nand::sim::Counters) -> ChipCounts {
        ChipCounts {
            page_reads: counters.page_reads_total(),
            page_programs: counters.page_programs_total(),
            block_erases: counters.block_erases_total(),
        }
    }
}

/// The counters of a volume since it was opened. Counts of pages are pages of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeStats {
    /// Commits that wrote something.
    pub commits: u64,
    /// Commits that were one atomic group.
    pub groups: u64,
    /// Pages of the groups, those of the directory included.
    pub group_pages: u64,
    /// Pages of the largest.
    pub largest_group: u64,
    /// Pages of the store by which files may grow.
    pub free_pages: u64,
    /// Free pages that are kept back for commits too large for a group, so that a full volume can delete.
    pub kept_back_pages: u64,
    /// The most pages of a group, the directory's included.
    pub group_pages_max: u64,
    /// Commits too large for a group.
    pub large_commits: u64,
    /// Pages of large commits. Those that did not fit the directory's group were written twice, or packed.
    pub large_commit_pages: u64,
    /// Pages of large commits that were kept as differences from their committed contents.
    pub packed_pages: u64,
    /// Commits that wrote the directory too.
    pub directories: u64,
    /// Pages moved from RAM to free pages of the store.
    pub spilled_pages: u64,
    /// Pages trimmed.
    pub trimmed_pages: u64,
    /// Pages left out of commits because the flash had the same contents already.
    pub unchanged_pages: u64,
    /// Atomic batches that SQLite asked for.
    pub batches: u64,
    /// Pages of the chip read by the mount, if the volume was opened with its device.
    pub mount_page_reads: Option<u64>,
    /// The statistics of the store below.
    pub store: StoreStats,
    /// Counters of the chip below, if they are known.
    pub chip: Option<ChipCounts>,
}

impl fmt::Display for VolumeStats {
    /// A line for each number: its name and the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = [
            ("commits", self.commits),
            ("groups", self.groups),
            ("group_pages", self.group_pages),
            ("largest_group", self.largest_group),
            ("free_pages", self.free_pages),
            ("kept_back_pages", self.kept_back_pages),
            ("group_pages_max", self.group_pages_max),
            ("large_commits", self.large_commits),
            ("large_commit_pages", self.large_commit_pages),
            ("packed_pages", self.packed_pages),
            ("directories", self.directories),
            ("spilled_pages", self.spilled_pages),
            ("trimmed_pages", self.trimmed_pages),
            ("unchanged_pages", self.unchanged_pages),
            ("batches", self.batches),
            ("collections", self.store.collections),
            ("moved_pages", self.store.moved_pages),
        ];
        let chip = self.chip.map(|chip| {
            [
                ("page_reads", chip.page_reads),
                ("page_programs", chip.page_programs),
                ("block_erases", chip.block_erases),
            ]
        });
        let mount = self.mount_page_reads.map(|reads| ("mount_page_reads", reads));
        let mut lines = own.into_iter().chain(chip.into_iter().flatten()).chain(mount);
        lines.try_for_each(|(name, number)| writeln!(f, "{name} {number}"))
    }
}
