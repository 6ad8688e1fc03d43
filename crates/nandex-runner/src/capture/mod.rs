//! Captures the operations of a program on its directory tree: runs it under strace and makes a trace.

mod links;
mod strace;
#[cfg(test)]
mod tests;
mod tree;

use crate::LabError;
use crate::input::Lines;
use crate::trace::Trace;
use crate::trace::build::Numbering;
use std::ffi::OsString;
use std::fs::{self, File, FileType};
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use tree::Tree;

/// System calls that concern a directory tree. A `?` skips a call that a machine does not have.
const CALLS: &str = "?open,?openat,?openat2,?creat,?close,?stat,?lstat,?newfstatat,?statx,?access,?faccessat,\
?faccessat2,?readlink,?readlinkat,?execve,?getxattr,?lgetxattr,?mkdir,?mkdirat,?mknod,?mknodat,?symlink,\
?symlinkat,?link,?linkat,?unlink,?unlinkat,?rmdir,?rename,?renameat,?renameat2,?truncate,?ftruncate,?chmod,\
?fchmod,?fchmodat,?chown,?lchown,?fchown,?fchownat,?utimensat,?utimes,?setxattr,?fsetxattr,?fallocate,?write,\
?pwrite64,?writev,?pwritev,?pwritev2,?copy_file_range,?sendfile,?getdents,?getdents64,?fsync,?fdatasync,?sync,\
?syncfs,?chdir,?fchdir,?clone,?clone3,?fork,?vfork";

/// Largest number of entries in a tree, so that a mistake does not read a whole disk.
const ENTRIES_MAX: usize = 5_000_000;

/// The trace of a program that ran.
#[derive(Debug)]
pub struct Captured {
    /// The operations. Entries that existed before are the initial contents.
    pub trace: Trace,
    /// The exit status of the program.
    pub status: ExitStatus,
}

/// Runs a command and captures what it and its children do to the entries below `root`.
pub fn capture(command: &[OsString], root: &Path, numbering: Numbering) -> Result<Captured, LabError> {
    let named = |path: &Path, error| LabError::io(path.display(), error);
    let root = root.canonicalize().map_err(|error| named(root, error))?;
    let start = std::env::current_dir().map_err(|error| named(Path::new("."), error))?;
    let refused = |reason: String| LabError::bad_option("--tree", &root.display().to_string(), reason);
    let mut tree = Tree::new(root.as_os_str().as_bytes(), start.as_os_str().as_bytes()).map_err(refused)?;
    for (entry, leads_to) in entries(&root)? {
        tree.existing(entry.as_os_str().as_bytes(), leads_to.as_ref().map(|to| to.as_os_str().as_bytes()));
    }
    let log = Log::new();
    let status = run(command, &log.0)?;
    let file = File::open(&log.0).map_err(|error| named(&log.0, error))?;
    follow(BufReader::new(file), &mut tree).map_err(|(line, reason)| LabError::Trace {
        file: log.0.display().to_string(),
        place: Some(format!("line {line}")),
        reason,
    })?;
    Ok(Captured { trace: tree.into_builder().finish("capture", numbering), status })
}

/// A log file of strace, deleted when it is dropped.
struct Log(PathBuf);

impl Log {
    fn new() -> Log {
        Log(std::env::temp_dir().join(format!("nandex-capture-{}.strace", std::process::id())))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // It is of no use to anybody; where it cannot go it stays.
        let _ = fs::remove_file(&self.0);
    }
}

fn run(command: &[OsString], log: &Path) -> Result<ExitStatus, LabError> {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-qq", "-s", "0", "-e", "signal=none", "-e"]).arg(format!("trace={CALLS}"));
    strace.arg("-o").arg(log).arg("--").args(command);
    strace.status().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let why = "is not installed, and capturing needs it: apt install strace";
            LabError::io("strace", io::Error::new(io::ErrorKind::NotFound, why))
        }
        _ => LabError::io("strace", error),
    })
}

fn follow(log: impl BufRead, tree: &mut Tree) -> Result<(), (u64, String)> {
    let (mut text, mut lines) = (Lines::new(log), strace::Lines::default());
    while let Some((_, line)) = text.next_line()? {
        if let Some(call) = lines.read(line) {
            tree.follow(&call, &lines);
        }
    }
    Ok(())
}

/// Everything below a folder, sorted by name, and where links lead. A folder comes before its contents.
fn entries(root: &Path) -> Result<Vec<(PathBuf, Option<PathBuf>)>, LabError> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let failed = |error| LabError::io(folder.display(), error);
        let mut inside = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            inside.push((entry.path(), entry.file_type().ok()));
        }
        inside.sort_by(|one, other| one.0.cmp(&other.0));
        let is_folder = |kind: &Option<FileType>| kind.is_some_and(|kind| kind.is_dir());
        folders.extend(inside.iter().rev().filter(|(_, kind)| is_folder(kind)).map(|(path, _)| path.clone()));
        found.extend(inside.into_iter().map(|(path, kind)| {
            let leads_to = kind.filter(FileType::is_symlink).and_then(|_| fs::read_link(&path).ok());
            (path, leads_to)
        }));
        if found.len() > ENTRIES_MAX {
            let why = format!("has more than {ENTRIES_MAX} entries; name a smaller part of it");
            return Err(LabError::bad_option("--tree", &root.display().to_string(), why));
        }
    }
    Ok(found)
}
