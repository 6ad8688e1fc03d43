//! Symbolic links of a tree, and the entry that a path means.

use super::strace::{Argument, Call};
use std::collections::BTreeMap;

/// Largest number of links that Linux follows for one path.
const FOLLOWED_MAX: usize = 40;

/// Links by their path, with the path that each holds.
#[derive(Default)]
pub(super) struct Links(BTreeMap<Vec<u8>, Vec<u8>>);

/// The entry that a path means.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Path of the entry, without links on the way.
    pub(super) path: Vec<u8>,
    /// Links that led to the entry from the one that was named. Links for directories before are not in it.
    pub(super) through: Vec<Vec<u8>>,
}

impl Links {
    /// Notes what a path is now: a link to a path, or none.
    pub(super) fn set(&mut self, path: &[u8], leads_to: Option<&[u8]>) {
        match leads_to {
            Some(to) => self.0.insert(path.to_vec(), to.to_vec()),
            None => self.0.remove(path),
        };
    }

    /// The path that a link holds; `None` for what is no link.
    pub(super) fn get(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.0.get(path).cloned()
    }

    /// Gives an entry and all below it other paths.
    pub(super) fn rename(&mut self, from: &[u8], to: &[u8]) {
        self.0.remove(to);
        rename_below(&mut self.0, from, to);
    }

    /// The entry that `path` means as seen from `base`. If its last part is a link, this is the entry that
    /// the link leads to if the call `follows` links, and else the link. `None` for links in a circle.
    pub(super) fn find(&self, base: &[u8], path: &[u8], follows: bool) -> Option<Found> {
        let follows = follows || path.ends_with(b"/");
        let mut left: Vec<Vec<u8>> = Vec::new();
        for whole in [path, base] {
            left.extend(whole.rsplit(|byte| *byte == b'/').map(<[u8]>::to_vec));
        }
        let (mut out, mut through, mut followed) = (Vec::new(), Vec::new(), 0);
        while let Some(part) = left.pop() {
            let parent = out.len();
            match part.as_slice() {
                b"" | b"." => continue,
                b".." => {
                    out.truncate(out.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
                    continue;
                }
                name => {
                    out.push(b'/');
                    out.extend_from_slice(name);
                }
            }
            let is_last = left.iter().all(|part| part.is_empty() || part == b".");
            let Some(to) = self.0.get(&out).filter(|_| follows || !is_last) else { continue };
            followed += 1;
            if followed > FOLLOWED_MAX {
                return None;
            }
            if is_last {
                through.push(out.clone());
            }
            out.truncate(if to.starts_with(b"/") { 0 } else { parent });
            left.extend(to.rsplit(|byte| *byte == b'/').map(<[u8]>::to_vec));
        }
        Some(Found { path: if out.is_empty() { vec![b'/'] } else { out }, through })
    }
}

/// Gives the entry `from` of a map by paths, and all below it, other paths.
pub(super) fn rename_below<T>(map: &mut BTreeMap<Vec<u8>, T>, from: &[u8], to: &[u8]) {
    let below = [from, b"/"].concat();
    let moved: Vec<Vec<u8>> =
        map.keys().filter(|path| *path == from || path.starts_with(&below)).cloned().collect();
    for path in moved {
        if let Some(value) = map.remove(&path) {
            map.insert([to, &path[from.len()..]].concat(), value);
        }
    }
}

/// Whether a call on a name that is a link is about the entry that the link leads to.
pub(super) fn follows(call: &Call) -> bool {
    match call.name.as_str() {
        "lstat" | "readlink" | "readlinkat" | "lgetxattr" | "lchown" | "mkdir" | "mkdirat" | "mknod"
        | "mknodat" | "symlink" | "symlinkat" | "unlink" | "unlinkat" | "rmdir" | "rename" | "renameat"
        | "renameat2" => false,
        "link" | "linkat" => has(call, "AT_SYMLINK_FOLLOW"),
        // What must be new is no link either.
        _ => !has(call, "NOFOLLOW") && !has(call, "O_EXCL"),
    }
}

/// Whether an argument of a call has this flag.
pub(super) fn has(call: &Call, flag: &str) -> bool {
    call.arguments.iter().any(|argument| matches!(argument, Argument::Other(text) if text.contains(flag)))
}
