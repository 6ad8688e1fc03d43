//! How a VMTree is set up.

use crate::ordered::RecordFormat;
use crate::ordered::buffered::Answers;
use crate::ordered::path_log::ground::RawConfig;
use crate::ordered::path_log::ground::moves::{Duplicates, Keep};

/// The table of moved nodes: settings of a VMTree besides those of all trees on raw NAND.
///
/// See the example of [`VmConfig`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct TableConfig {
    /// Bytes of the table, from [`TableConfig::BYTES_MIN`] to four for each page of the chip; `None` means
    /// 1024 as published, or an eighth of the RAM, and no more than half a byte for each page; 512 where the
    /// RAM does not suffice for 1024.
    pub bytes: Option<usize>,
    /// Which nodes are kept from one operation to the next.
    pub keep: Keep,
    /// How an entry is treated whose address has a free place before it.
    pub duplicates: Duplicates,
}

impl TableConfig {
    /// Least bytes of a table.
    pub const BYTES_MIN: usize = 32;
}

/// How a VMTree is formatted, mounted and run.
///
/// An example stands at [`VmTree`](super::VmTree).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct VmConfig {
    /// Configuration of the tree and its table. If an update may take more pages than usual, garbage is
    /// collected earlier than configured.
    pub tree: RawConfig<TableConfig>,
    /// Pages of the log buffer, in which updates wait to be applied together; at most
    /// [`LOG_PAGES_MAX`](super::LOG_PAGES_MAX). With any, the class is *every sync*.
    pub log_pages: u32,
    /// How an update answers if there is a log buffer.
    pub answers: Answers,
}

impl VmConfig {
    /// A table as published, no log buffer, every operation durable.
    pub fn new(record: RecordFormat) -> VmConfig {
        VmConfig { tree: RawConfig::new(record), log_pages: 0, answers: Answers::Exact }
    }
}
