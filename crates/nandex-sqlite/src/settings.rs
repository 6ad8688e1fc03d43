//! Settings of a volume.

/// How the pages of a synced file are written to the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commits {
    /// All or nothing, in every journal mode: one atomic group, or a list of pages that is applied after it
    /// was written whole.
    #[default]
    Grouped,
    /// Page by page. **Unsafe** unless SQLite keeps its journal on the flash. For measuring the price of
    /// safety, and as the control of tests that cut the power.
    PageByPage,
}

/// Where SQLite's rollback journals are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Journals {
    /// In RAM. If RAM runs short, the saved pages are read from the flash instead. After a power cut the
    /// database is as the last commit left it, so that only the process itself ever needs a journal.
    #[default]
    Ram,
    /// On the flash, as files: for measuring SQLite on storage without groups. A transaction over several
    /// databases is then atomic in each of them only.
    Flash,
}

/// How a volume works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeConfig {
    /// How a commit reaches the flash.
    pub commits: Commits,
    /// Where rollback journals are kept.
    pub journals: Journals,
    /// True if SQLite is told that it may write atomically in batches. A SQLite built without the flag does
    /// not ask, and each sync is a group all the same.
    pub batch_atomic: bool,
    /// Bytes of RAM for uncommitted pages, journals and temporary files together. Pages beyond that are kept
    /// as differences from their committed contents, or go to free pages of the store. At least the pages of
    /// one group are allowed, since a group is written from RAM.
    pub ram_bytes: usize,
    /// Pages of the store by which a database grows at least. The directory is rewritten only once per so
    /// many pages.
    pub growth_pages: u32,
}

impl Default for VolumeConfig {
    fn default() -> VolumeConfig {
        VolumeConfig {
            commits: Commits::Grouped,
            journals: Journals::Ram,
            batch_atomic: true,
            ram_bytes: 4 << 20,
            growth_pages: 32,
        }
    }
}
