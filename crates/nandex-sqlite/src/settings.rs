//! Settings of a volume.

/// How what a file was told to sync reaches the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commits {
    /// All or nothing, in every journal mode: one atomic group, or a list of pages that is applied after it
    /// was written whole.
    #[default]
    Grouped,
    /// Page by page. **Unsafe** unless SQLite keeps its journal on the flash: for measuring what safety
    /// costs, and as the control of tests that cut the power.
    PageByPage,
}

/// Where SQLite's rollback journals are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Journals {
    /// In RAM (where that runs short, what they save is read from its place): a cut finds the database as the
    /// last commit left it, so that only the process itself ever needs one.
    #[default]
    Ram,
    /// On the flash, as files: for measuring what SQLite costs where the storage has no groups. A transaction
    /// over several databases is then whole in each of them, and no more.
    Flash,
}

/// How a volume works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeConfig {
    /// How a commit reaches the flash.
    pub commits: Commits,
    /// Where rollback journals are kept.
    pub journals: Journals,
    /// Whether SQLite is told that it may write atomically in batches. Where it was built without the flag it
    /// does not ask, and each sync is a group all the same.
    pub batch_atomic: bool,
    /// Bytes of RAM for pages not committed yet, journals and temporary files, together. What is beyond is
    /// kept as pieces of what lies in its place, or goes to free pages of the store. A group needs its pages
    /// in RAM, so the least is what one group takes.
    pub ram_bytes: usize,
    /// Pages by which a database grows at least: the size on the flash changes once in so many.
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
