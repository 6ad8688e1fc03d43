//! One owner of a file or device: a lock held by the one process that changes it, or shared by its readers.
//!
//! The lock is the system's advisory one (`flock`), which works on device nodes too. It belongs to an open
//! file, so that a second opening in the same process is refused as well.
//!
//! A child of `fork` inherits descriptors, and with them the lock, but is no owner:
//! - its calls are refused ([`Lock::require_owner`]);
//! - a file that the child drops stays locked for its parent, and a file that the parent drops is free,
//!   whatever the child holds;
//! - when the child takes a lock of its own, it first closes all inherited files, and then meets its parent's
//!   lock.
//!
//! So a parent that is killed leaves its locks to its children until they end or open a file.

use nandex::StoreError;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The use that is made of a file or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading, shared with other readers.
    Look,
    /// Writing, by one alone.
    Change,
}

/// Why a lock is refused.
#[derive(Debug)]
pub enum LockError {
    /// Somebody else has it: the file or device, and who.
    InUse(String),
    /// The system refuses, or it is nothing that can be locked.
    Failed {
        /// The file or device.
        name: String,
        /// The call that was tried, such as "open".
        doing: &'static str,
        /// Error of the system.
        error: io::Error,
    },
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::InUse(what) => write!(f, "{what}"),
            LockError::Failed { name, doing, error } => write!(f, "{name}: cannot {doing}: {error}"),
        }
    }
}

impl std::error::Error for LockError {}

impl From<LockError> for StoreError {
    fn from(error: LockError) -> StoreError {
        match error {
            LockError::InUse(what) => StoreError::InUse(what),
            failed @ LockError::Failed { .. } => StoreError::Device(failed.to_string()),
        }
    }
}

/// Locked files of this process and inherited ones, each with the id of the process that locked it.
static HELD: Mutex<Held> = Mutex::new(Held { next: 0, files: BTreeMap::new() });

struct Held {
    next: u64,
    files: BTreeMap<u64, (u32, File)>,
}

/// How long the system's own look at a block device (udev, after each close) is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// A lock on a file or device, held until this is dropped.
#[derive(Debug)]
pub struct Lock {
    id: u64,
    path: PathBuf,
    owner: u32,
}

impl Lock {
    /// Locks a file or device that is there.
    ///
    /// # Errors
    ///
    /// [`LockError::InUse`] where somebody has it, this process included; else what the system says. What
    /// holds no pages, a FIFO for one, is not opened.
    pub fn take(path: &Path, access: Access) -> Result<Lock, LockError> {
        // Over a network an exclusive lock needs a file that is open for writing.
        let writes = access == Access::Change;
        Lock::with(path, access, |path| OpenOptions::new().read(true).write(writes).open(path))
    }

    /// Locks a file for changing. Makes an empty file if there is none.
    ///
    /// # Errors
    ///
    /// Those of [`Lock::take`].
    pub fn take_or_make(path: &Path) -> Result<Lock, LockError> {
        Lock::with(path, Access::Change, |path| {
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
        })
    }

    fn with(
        path: &Path,
        access: Access,
        open: impl Fn(&Path) -> io::Result<File>,
    ) -> Result<Lock, LockError> {
        let failed =
            |doing| move |error| LockError::Failed { name: path.display().to_string(), doing, error };
        let until = Instant::now() + PATIENCE;
        require_pages(path).map_err(failed("open"))?;
        let_go_inherited(path, until)?;
        loop {
            let file = open(path).map_err(failed("open"))?;
            let tried = match access {
                Access::Look => file.try_lock_shared(),
                Access::Change => file.try_lock(),
            };
            match tried {
                // Whoever had it may have put another file in its place.
                Ok(()) if !is_at(&file, path) => {}
                Ok(()) => {
                    let (owner, mut held) = (process::id(), held(path, until)?);
                    let id = held.next;
                    held.next += 1;
                    held.files.insert(id, (owner, file));
                    return Ok(Lock { id, path: path.to_path_buf(), owner });
                }
                Err(TryLockError::WouldBlock) if is_block_device(&file) && Instant::now() < until => {
                    thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => return Err(in_use(path)),
                Err(TryLockError::Error(error)) => return Err(failed("lock")(error)),
            }
        }
    }

    /// Replaces the locked file by another one, which is then locked instead.
    pub fn replace_by(&mut self, beside: &Path) -> Result<(), LockError> {
        self.require_owner()?;
        let mut other = Lock::take(beside, Access::Change)?;
        let failed = |error| LockError::Failed {
            name: self.path.display().to_string(),
            doing: "put a new file in its place",
            error,
        };
        fs::rename(beside, &self.path).map_err(failed)?;
        std::mem::swap(&mut self.id, &mut other.id);
        Ok(())
    }

    /// The file or device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses the call of a child of the process that took the lock.
    ///
    /// # Errors
    ///
    /// [`LockError::InUse`].
    pub fn require_owner(&self) -> Result<(), LockError> {
        if process::id() == self.owner {
            return Ok(());
        }
        let (path, owner) = (self.path.display(), self.owner);
        let why =
            format!("{path} is in use: process {owner} opened it, and this one is its child; open it anew");
        Err(LockError::InUse(why))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let Ok(mut held) = held(&self.path, Instant::now() + PATIENCE) else { return };
        if let Some((owner, file)) = held.files.remove(&self.id)
            && owner == process::id()
        {
            // Children may hold the file, too. A lock that cannot be given back goes with the last of them.
            let _ = file.unlock();
        }
    }
}

fn in_use(path: &Path) -> LockError {
    let who = match holder(path) {
        Some(process) if process == process::id() => String::from("this process has it open already"),
        Some(process) => format!("process {process} has it open"),
        None => String::from("another program or another part of this one has it open"),
    };
    LockError::InUse(format!("{} is in use: {who}", path.display()))
}

/// Id of the process that has locked a path, if the system tells.
#[cfg(target_os = "linux")]
fn holder(path: &Path) -> Option<u32> {
    use std::os::linux::fs::MetadataExt;
    let found = fs::metadata(path).ok()?;
    let (device, inode) = (found.st_dev(), found.st_ino());
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    holder_in(&fs::read_to_string("/proc/locks").ok()?, (major, minor), inode)
}

#[cfg(not(target_os = "linux"))]
fn holder(_: &Path) -> Option<u32> {
    None
}

/// Finds, in the text of `/proc/locks`, the process that has a `flock` on a file. A line is `1: FLOCK
/// ADVISORY WRITE PROCESS MAJOR:MINOR:INODE 0 EOF`. A process that waits for a lock has `->` after the
/// number. A process that this one cannot see has no number above 0.
#[cfg(any(target_os = "linux", test))]
fn holder_in(locks: &str, (major, minor): (u32, u32), inode: u64) -> Option<u32> {
    let of = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, process, place, ..] if place == of => {
                process.parse().ok().filter(|&process| process > 0)
            }
            _ => None,
        }
    })
}

/// The table of locked files. In a child of `fork` a thread that was left behind may hold it for ever.
fn held(path: &Path, until: Instant) -> Result<MutexGuard<'static, Held>, LockError> {
    loop {
        match HELD.try_lock() {
            Ok(held) => return Ok(held),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => return Ok(PoisonError::into_inner(poisoned)),
            Err(std::sync::TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(PAUSE),
            Err(std::sync::TryLockError::WouldBlock) => return Err(in_use(path)),
        }
    }
}

/// Closes the inherited files, which unlocks nothing.
fn let_go_inherited(path: &Path, until: Instant) -> Result<(), LockError> {
    let own = process::id();
    held(path, until)?.files.retain(|_, (owner, _)| *owner == own);
    Ok(())
}

/// Refuses paths whose opening would wait (a pipe, say) and paths without bytes.
fn require_pages(path: &Path) -> io::Result<()> {
    let kind = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if kind.is_file() || is_node(kind) {
        return Ok(());
    }
    let what = if kind.is_dir() { "a folder" } else { "a FIFO or socket" };
    Err(io::Error::other(format!("it is {what}, and neither a file nor a device")))
}

#[cfg(unix)]
fn is_node(kind: fs::FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;
    kind.is_block_device() || kind.is_char_device()
}

#[cfg(not(unix))]
fn is_node(_: fs::FileType) -> bool {
    false
}

#[cfg(unix)]
fn is_block_device(file: &File) -> bool {
    use std::os::unix::fs::FileTypeExt;
    file.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

#[cfg(not(unix))]
fn is_block_device(_: &File) -> bool {
    false
}

/// Whether the path still names this file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let number = |found: io::Result<fs::Metadata>| found.map(|found| (found.dev(), found.ino())).ok();
    let here = number(file.metadata());
    here.is_some() && here == number(fs::metadata(path))
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_told_by_the_systems_table() {
        let table = "1: POSIX  ADVISORY  WRITE 7 fe:01:42 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE -1 fe:01:44 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 1234 fe:01:42 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 99 fe:01:42 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 5 00:1c:42 0 EOF\n\
                     5: FLOCK\n";
        assert_eq!(holder_in(table, (0xfe, 1), 42), Some(1234));
        assert_eq!(holder_in(table, (0, 0x1c), 42), Some(5));
        for none in [((0xfe, 1), 44), ((0xfe, 1), 4), ((0, 1), 42)] {
            assert_eq!(holder_in(table, none.0, none.1), None);
        }
        assert_eq!(holder_in("", (0, 0), 0), None);
    }
}
