//! The errors of a device, in words, and the counts that it shares with its owner.

use nandex::Shared;
use nandex_os::LockError;
use std::fmt;
use std::io;
use std::path::Path;

/// Why a device or a dump cannot be used. The text names the file and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MtdError {
    /// The operating system refused a call.
    System {
        /// The device or file.
        name: String,
        /// The call that was tried, such as "open".
        doing: &'static str,
        /// Error number of the system, if known.
        errno: Option<i32>,
        /// Message of the system.
        why: String,
    },
    /// The device, by its kind or contents, cannot be used so.
    Unsupported {
        /// The device or file.
        name: String,
        /// The reason.
        why: String,
    },
    /// A dump cannot go onto this device as it is.
    Mismatch(String),
    /// Somebody else has the device or dump open; it is named.
    InUse(String),
}

impl From<LockError> for MtdError {
    fn from(error: LockError) -> MtdError {
        match error {
            LockError::InUse(what) => MtdError::InUse(what),
            LockError::Failed { name, doing, error } => MtdError::system(Path::new(&name), doing, &error),
        }
    }
}

impl MtdError {
    pub(crate) fn system(name: &Path, doing: &'static str, error: &io::Error) -> MtdError {
        let (errno, why) = (error.raw_os_error(), error.to_string());
        MtdError::System { name: name.display().to_string(), doing, errno, why }
    }

    pub(crate) fn unsupported(name: &str, why: impl Into<String>) -> MtdError {
        MtdError::Unsupported { name: name.to_string(), why: why.into() }
    }
}

impl fmt::Display for MtdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MtdError::System { name, doing, why, .. } => write!(f, "{name}: cannot {doing}: {why}"),
            MtdError::Unsupported { name, why } => write!(f, "{name}: {why}"),
            MtdError::Mismatch(why) | MtdError::InUse(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for MtdError {}

/// A request that a device failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The device or file.
    pub device: String,
    /// The operation asked for, such as "program".
    pub doing: &'static str,
    /// The block of the whole device.
    pub block: u32,
    /// The page within the block; `None` where the request was for the block.
    pub page: Option<u32>,
    /// Error number of the system, if known.
    pub errno: Option<i32>,
    /// Message of the system.
    pub why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { device, doing, block, page, why, .. } = self;
        write!(f, "{device}: cannot {doing} block {block}")?;
        if let Some(page) = page {
            write!(f, " page {page}")?;
        }
        write!(f, ": {why}")
    }
}

/// The counts of a device since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Pages read.
    pub reads: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Reads in which the ECC corrected bits.
    pub corrected_reads: u64,
    /// Bits corrected by the ECC.
    pub corrected_bits: u64,
    /// Reads with more bit errors than it corrects.
    pub uncorrectable_reads: u64,
    /// Failed programs.
    pub failed_programs: u64,
    /// Failed erases.
    pub failed_erases: u64,
    /// Blocks that were marked bad.
    pub marked_bad: u64,
    /// The last request that failed, an uncorrectable page among them.
    pub last_fault: Option<Fault>,
}

/// The counts of a device that an index owns: a handle for whoever opened it.
#[derive(Clone, Debug)]
pub struct Events(Shared<Counts>);

impl Events {
    pub(crate) fn new() -> Events {
        Events(Shared::new(Counts::default()))
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.0.lock().clone()
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock());
    }
}
