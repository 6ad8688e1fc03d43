//! How a VMTree is set up.

use crate::ordered::RecordFormat;
use crate::ordered::buffered::Answers;
use crate::ordered::path_log::ground::RawConfig;
use crate::ordered::path_log::ground::moves::{Duplicates, Keep};

/// The table of moved nodes, which a VMTree takes besides what all trees on raw NAND do.
///
/// An example stands at [`VmConfig`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct TableConfig {
    /// Bytes of the table, from [`TableConfig::BYTES_MIN`] to four for each page of the chip; `None` means
    /// 1024 as published, or an eighth of the RAM, and no more than half a byte for each page; 512 where the
    /// RAM does not suffice for 1024.
    pub bytes: Option<usize>,
    /// Which nodes are kept from one operation to the next.
    pub keep: Keep,
    /// The fate of an entry whose address has another place before it.
    pub duplicates: Duplicates,
}

impl TableConfig {
    /// The smallest table.
    pub const BYTES_MIN: usize = 32;
}

/// How a VMTree is formatted, mounted and run.
///
/// An example stands at [`VmTree`](super::VmTree).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct VmConfig {
    /// The tree and its table. Garbage is collected at more free blocks than it says where an update may take
    /// more.
    pub tree: RawConfig<TableConfig>,
    /// Pages of the log buffer, in which updates wait to be entered together;
    /// [`LOG_PAGES_MAX`](super::LOG_PAGES_MAX) at most. With any, the class is *every sync*.
    pub log_pages: u32,
    /// The answer of an update, where there is a log buffer.
    pub answers: Answers,
}

impl VmConfig {
    /// A table as published, no log buffer, every operation durable.
    pub fn new(record: RecordFormat) -> VmConfig {
        VmConfig { tree: RawConfig::new(record), log_pages: 0, answers: Answers::Exact }
    }
}
