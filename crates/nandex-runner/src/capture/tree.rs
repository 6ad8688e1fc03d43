//! The doings of calls to a directory tree, as operations of an index of its entries.
//!
//! The key of an entry is the number of its directory and its name, as file systems with one tree have it
//! (ReiserFS, btrfs): the entries of a directory lie together, and directories in the order in which they
//! were made. Only entries below the root of the tree count.

use super::links::{Links, follows, has, rename_below};
use super::strace::{Argument, Call, Lines, Outcome};
use crate::trace::build::{Builder, Key, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// System calls that start a process.
const FORKS: [&str; 4] = ["clone", "clone3", "vfork", "fork"];

/// A directory tree and the processes that work on it.
pub(super) struct Tree {
    root: Vec<u8>,
    /// Number of each directory.
    folders: BTreeMap<Vec<u8>, u32>,
    next: u32,
    /// Working directory of each process.
    places: BTreeMap<u32, Vec<u8>>,
    start: Vec<u8>,
    /// Files written since they were opened.
    written: BTreeSet<Vec<u8>>,
    /// Directories being listed, by process and descriptor.
    listed: BTreeSet<(u32, String)>,
    links: Links,
    builder: Builder,
}

/// Number of the index in the trace. There is only one.
const TABLE: u8 = 0;

impl Tree {
    /// The tree below a root, for processes that start in `start`.
    pub(super) fn new(root: &[u8], start: &[u8]) -> Result<Tree, String> {
        let mut builder = Builder::new(true);
        builder.table("entries")?;
        Ok(Tree {
            root: root.to_vec(),
            folders: BTreeMap::new(),
            next: 0,
            places: BTreeMap::new(),
            start: start.to_vec(),
            written: BTreeSet::new(),
            listed: BTreeSet::new(),
            links: Links::default(),
            builder,
        })
    }

    /// Adds an entry that existed before the program ran, and the path that it holds if it is a link.
    pub(super) fn existing(&mut self, path: &[u8], leads_to: Option<&[u8]>) {
        self.links.set(path, leads_to);
        if let Some(key) = self.key(path) {
            self.builder.existing(TABLE, key);
        }
    }

    pub(super) fn into_builder(self) -> Builder {
        self.builder
    }

    fn folder(&mut self, path: &[u8]) -> u32 {
        let next = self.next;
        let number = *self.folders.entry(path.to_vec()).or_insert(next);
        self.next += u32::from(number == next);
        number
    }

    fn key(&mut self, path: &[u8]) -> Option<Key> {
        let below = path.strip_prefix(self.root.as_slice())?;
        let is_below = self.root == b"/" || below.starts_with(b"/");
        if !is_below || below.len() < 2 || path.ends_with(b" (deleted)") {
            return None;
        }
        let slash = path.iter().rposition(|byte| *byte == b'/')?;
        let folder = self.folder(&path[..slash.max(1)]);
        let mut key = folder.to_be_bytes().to_vec();
        key.extend_from_slice(&path[slash + 1..]);
        Some(Key::Text(key))
    }

    /// The working directory of a process. An unknown process has its parent's.
    fn place(&mut self, pid: u32, lines: &Lines) -> Vec<u8> {
        if let Some(place) = self.places.get(&pid) {
            return place.clone();
        }
        let parent = lines.beginner(&FORKS).and_then(|parent| self.places.get(&parent).cloned());
        let place = parent.unwrap_or_else(|| self.start.clone());
        self.places.insert(pid, place.clone());
        place
    }

    /// The `number`-th path among the arguments, with the directory it starts from.
    fn named(&mut self, call: &Call, lines: &Lines, number: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let texts =
            call.arguments.iter().enumerate().filter(|(_, argument)| matches!(argument, Argument::Text(_)));
        let (at, _) = texts.clone().nth(number)?;
        let Argument::Text(text) = &call.arguments[at] else { return None };
        let before = at.checked_sub(1).map(|before| &call.arguments[before]);
        let base = match before {
            _ if text.starts_with(b"/") => Vec::new(),
            Some(Argument::Descriptor(_, path)) if !text.is_empty() => path.clone(),
            _ if text.is_empty() => return None,
            _ => self.place(call.pid, lines),
        };
        Some((base, text.clone()))
    }

    /// The path of the entry that the `number`-th path among the arguments means. Links that lead there are
    /// looked up.
    fn path(&mut self, call: &Call, lines: &Lines, number: usize) -> Option<Vec<u8>> {
        let (base, text) = self.named(call, lines, number)?;
        let found = self.links.find(&base, &text, follows(call))?;
        for link in &found.through {
            if let Some(key) = self.key(link) {
                self.builder.look_up(TABLE, key, Some(true));
            }
        }
        Some(found.path)
    }

    fn descriptor(call: &Call) -> Option<(&str, &[u8])> {
        match call.arguments.first() {
            Some(Argument::Descriptor(descriptor, path)) if descriptor != "AT_FDCWD" => {
                Some((descriptor, path))
            }
            _ => None,
        }
    }

    /// Adds the operations of a call to the trace.
    pub(super) fn follow(&mut self, call: &Call, lines: &Lines) {
        match call.name.as_str() {
            "open" | "openat" | "openat2" | "creat" => self.opens(call, lines),
            "stat" | "lstat" | "newfstatat" | "statx" | "access" | "faccessat" | "faccessat2"
            | "readlink" | "readlinkat" | "execve" | "getxattr" | "lgetxattr" => self.looks(call, lines, 0),
            "mkdir" | "mkdirat" | "mknod" | "mknodat" => self.makes(call, lines, 0),
            "symlink" | "symlinkat" | "link" | "linkat" => self.makes(call, lines, 1),
            "unlink" | "unlinkat" | "rmdir" => self.removes(call, lines),
            "rename" | "renameat" | "renameat2" => self.renames(call, lines),
            "truncate" | "chmod" | "fchmodat" | "fchmodat2" | "chown" | "lchown" | "fchownat"
            | "utimensat" | "utimes" | "setxattr" => self.changes(call, lines),
            "ftruncate" | "fchmod" | "fchown" | "fallocate" | "fsetxattr" => self.changes_open(call),
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "copy_file_range" | "sendfile" => {
                self.writes(call);
            }
            "close" => self.closes(call),
            "getdents64" | "getdents" => self.lists(call),
            "fsync" | "fdatasync" | "sync" | "syncfs" => self.syncs(call),
            "chdir" | "fchdir" => self.moves(call, lines),
            name if FORKS.contains(&name) => self.forks(call, lines),
            _ => {}
        }
    }

    fn opens(&mut self, call: &Call, lines: &Lines) {
        let creates = call.name == "creat" || has(call, "O_CREAT");
        let truncates = call.name == "creat" || has(call, "O_TRUNC");
        let named = self.path(call, lines, 0);
        let path = match &call.outcome {
            // Links that are not known here were followed, too.
            Outcome::Done(_, Some(path)) => Some(path.clone()),
            _ => named,
        };
        let Some(key) = path.and_then(|path| self.key(&path)) else { return };
        match &call.outcome {
            Outcome::Done(..) if creates && self.is_absent(&key) => {
                self.builder.put(TABLE, key);
            }
            Outcome::Done(..) => {
                self.builder.look_up(TABLE, key.clone(), Some(true));
                if truncates {
                    self.builder.update(TABLE, key);
                }
            }
            Outcome::Failed(error) => self.told(key, error),
        }
    }

    fn is_absent(&self, key: &Key) -> bool {
        let bound = Bound::Included(key.clone());
        self.builder.between(TABLE, (&bound, &bound), (false, 1)).is_empty()
    }

    /// Adds the knowledge about an entry that a failed call gives.
    fn told(&mut self, key: Key, error: &str) {
        match error {
            "ENOENT" => self.builder.look_up(TABLE, key, Some(false)),
            "EEXIST" | "ENOTEMPTY" => self.builder.look_up(TABLE, key, Some(true)),
            _ => {}
        }
    }

    /// Adds the knowledge of a call that names another entry, too, and failed: the other may be the one that
    /// is missing.
    fn told_of_one(&mut self, path: Option<Vec<u8>>, error: &str) {
        if let Some(key) = path.and_then(|path| self.key(&path)) {
            let is_other = error == "ENOENT" && !self.is_absent(&key);
            self.told(key, if is_other { "EEXIST" } else { error });
        }
    }

    /// The path and the key named by the `number`-th path of a call. If the call failed, it is handled here
    /// and there is none.
    fn target(&mut self, call: &Call, lines: &Lines, number: usize) -> Option<(Vec<u8>, Key)> {
        let path = self.path(call, lines, number)?;
        match &call.outcome {
            // The program that interprets a script may be the one that is missing.
            Outcome::Failed(error) if call.name == "execve" => self.told_of_one(Some(path), error),
            Outcome::Failed(error) => {
                if let Some(key) = self.key(&path) {
                    self.told(key, error);
                }
            }
            Outcome::Done(..) => return self.key(&path).map(|key| (path, key)),
        }
        None
    }

    fn looks(&mut self, call: &Call, lines: &Lines, number: usize) {
        if let Some((_, key)) = self.target(call, lines, number) {
            self.builder.look_up(TABLE, key, Some(true));
        }
    }

    fn makes(&mut self, call: &Call, lines: &Lines, number: usize) {
        let first = if number > 0 { self.named(call, lines, 0) } else { None };
        let leads_to = match call.name.as_str() {
            "symlink" | "symlinkat" => first.map(|(_, text)| text),
            "link" | "linkat" => {
                let linked = self.path(call, lines, 0);
                if matches!(&call.outcome, Outcome::Failed(error) if error == "ENOENT") {
                    return self.told_of_one(linked, "ENOENT");
                }
                linked.and_then(|path| self.links.get(&path))
            }
            _ => None,
        };
        if let Some((path, key)) = self.target(call, lines, number) {
            self.links.set(&path, leads_to.as_deref());
            self.builder.put(TABLE, key);
        }
    }

    fn removes(&mut self, call: &Call, lines: &Lines) {
        if let Some((path, key)) = self.target(call, lines, 0) {
            self.links.set(&path, None);
            self.builder.remove(TABLE, key);
        }
    }

    fn renames(&mut self, call: &Call, lines: &Lines) {
        let paths = (self.path(call, lines, 0), self.path(call, lines, 1));
        let (Some(from), Some(to)) = paths else { return };
        if let Outcome::Failed(error) = &call.outcome {
            return self.told_of_one(Some(from), error);
        }
        let keys = (self.key(&from), self.key(&to));
        if has(call, "RENAME_EXCHANGE") {
            for key in [keys.0, keys.1].into_iter().flatten() {
                self.builder.update(TABLE, key);
            }
            // No path of a file has a zero in it.
            let aside = b"\0";
            self.carry(&from, aside);
            self.carry(&to, &from);
            return self.carry(aside, &to);
        }
        keys.0.into_iter().for_each(|key| {
            self.builder.remove(TABLE, key);
        });
        keys.1.into_iter().for_each(|key| {
            self.builder.put(TABLE, key);
        });
        self.carry(&from, &to);
    }

    /// Gives an entry another path. A directory keeps its number, a link its path, and so do those below.
    fn carry(&mut self, from: &[u8], to: &[u8]) {
        rename_below(&mut self.folders, from, to);
        self.links.rename(from, to);
    }

    fn changes(&mut self, call: &Call, lines: &Lines) {
        if self.named(call, lines, 0).is_none() {
            return self.changes_open(call);
        }
        if let Some((_, key)) = self.target(call, lines, 0) {
            self.builder.update(TABLE, key);
        }
    }

    fn changes_open(&mut self, call: &Call) {
        let Some((_, path)) = Tree::descriptor(call).filter(|_| matches!(call.outcome, Outcome::Done(..)))
        else {
            return;
        };
        if let Some(key) = self.key(path) {
            self.builder.update(TABLE, key);
        }
    }

    /// The first write to a file after it was opened counts as a change of its entry.
    fn writes(&mut self, call: &Call) {
        let Some((_, path)) = Tree::descriptor(call) else { return };
        if matches!(call.outcome, Outcome::Done(bytes, _) if bytes > 0) && !self.written.contains(path) {
            self.written.insert(path.to_vec());
            self.changes_open(call);
        }
    }

    fn closes(&mut self, call: &Call) {
        if let Some((descriptor, path)) = Tree::descriptor(call) {
            self.written.remove(path);
            self.listed.remove(&(call.pid, descriptor.to_string()));
        }
    }

    /// The first call that lists a directory counts as the walk over its entries.
    fn lists(&mut self, call: &Call) {
        let Some((descriptor, path)) = Tree::descriptor(call) else { return };
        let (listing, path) = ((call.pid, descriptor.to_string()), path.to_vec());
        let is_in_tree = path == self.root || self.key(&path).is_some();
        if !is_in_tree || !matches!(call.outcome, Outcome::Done(..)) || !self.listed.insert(listing) {
            return;
        }
        let folder = self.folder(&path);
        let start = |number: u32| Key::Text(number.to_be_bytes().to_vec());
        let (low, high) = (Bound::Included(start(folder)), Bound::Excluded(start(folder + 1)));
        self.builder.range(TABLE, Span { low, high, limit: None, descending: false });
    }

    fn syncs(&mut self, call: &Call) {
        if matches!(call.outcome, Outcome::Done(..)) {
            self.builder.sync();
            self.written.clear();
        }
    }

    fn moves(&mut self, call: &Call, lines: &Lines) {
        let to = match Tree::descriptor(call) {
            Some((_, path)) => Some(path.to_vec()),
            None => self.path(call, lines, 0),
        };
        if let (Some(to), Outcome::Done(..)) = (to, &call.outcome) {
            self.places.insert(call.pid, to);
        }
    }

    fn forks(&mut self, call: &Call, lines: &Lines) {
        let place = self.place(call.pid, lines);
        if let Outcome::Done(child, _) = call.outcome
            && let Ok(child) = u32::try_from(child)
        {
            self.places.entry(child).or_insert(place);
        }
    }
}
