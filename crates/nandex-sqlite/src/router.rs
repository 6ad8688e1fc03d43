//! Finds the volume of each file and executes SQLite's calls: all of the VFS that needs no unsafe code.
//!
//! A name belongs to one device. SQLite tells the device only when it opens a database. The names of its
//! journals are then recognised by their addresses, which do not change while the database is open.

use crate::device::{Device, OnProgress};
use crate::locks::Level;
use crate::settings::VolumeConfig;
use crate::stats::VolumeStats;
use crate::volume::{FileId, Purpose, Volume};
use nandex::StoreError;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A volume that several files and connections share.
pub(crate) type Shelf = Arc<Mutex<Volume>>;

/// The value behind a lock, also after a panic: whoever panicked left it as a call that failed does.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is no file of that name, and none was to be created.
    Missing,
    /// No device was named.
    NoDevice,
    /// The name of the database has an impossible parameter.
    Uri(String),
    /// The name looks like that of a journal, which a database must not have.
    NameOfJournal,
    /// A parent process opened the file; the id of that process.
    Inherited(u32),
    /// An error of the store.
    Store(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Store(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Missing => write!(f, "there is no such file"),
            Failure::NoDevice => write!(f, "no device: open file:NAME?vfs=nandex&device=PATH"),
            Failure::Uri(why) => write!(f, "{why}"),
            Failure::NameOfJournal => {
                write!(f, "a database whose name ends so could not be told from the journal of another")
            }
            Failure::Inherited(process) => {
                write!(f, "process {process} opened this, and it cannot be used after a fork: open it anew")
            }
            Failure::Store(error) => write!(f, "{error}"),
        }
    }
}

/// The purpose for which SQLite opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A database.
    Main,
    /// The rollback journal of a database.
    Journal,
    /// The write-ahead log of a database.
    Wal,
    /// The journal that ties journals of several databases together.
    SuperJournal,
    /// A file that only one connection needs, as long as it is open.
    Temporary,
}

/// The request of SQLite to open a file.
pub(crate) struct Request<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) kind: Kind,
    pub(crate) create: bool,
    pub(crate) device: Option<Device>,
    /// Hears of the mount of the device.
    pub(crate) told: Option<OnProgress>,
    /// Address of the name in SQLite's memory.
    pub(crate) address: usize,
    /// Addresses of the names of the database's journals.
    pub(crate) journals: [usize; 2],
}

/// A device in use.
struct Opened {
    shelf: Shelf,
    /// Number of open files on the device.
    uses: usize,
    /// True if the volume stays open when no connection uses it.
    stays: bool,
}

/// The state that changes while a VFS is used.
#[derive(Default)]
struct State {
    devices: BTreeMap<String, Opened>,
    supers: BTreeMap<String, Arc<Mutex<Vec<u8>>>>,
    /// Devices by the addresses of the names of journals.
    journals: BTreeMap<usize, String>,
}

/// Finds the volume of each file.
pub(crate) struct Router {
    settings: VolumeConfig,
    first: Generation,
}

/// The volumes that one process has open. A child of `fork` begins anew: the inherited ones belong to its
/// parent and may be locked for ever by a thread that the child does not have.
struct Generation {
    process: u32,
    state: Mutex<State>,
    next: OnceLock<Box<Generation>>,
}

impl Generation {
    fn new(state: State) -> Generation {
        Generation { process: std::process::id(), state: Mutex::new(state), next: OnceLock::new() }
    }
}

/// A database on a device that another process has open. It is opened when SQLite wants a lock on it, so that
/// a busy handler waits.
pub(crate) struct Waiting {
    name: Option<String>,
    create: bool,
    device: Device,
    told: Option<OnProgress>,
    address: usize,
    journals: [usize; 2],
    has_batches: bool,
}

impl Waiting {
    fn request(&self) -> Request<'_> {
        Request {
            name: self.name.as_deref(),
            kind: Kind::Main,
            create: self.create,
            device: Some(self.device.clone()),
            told: self.told.clone(),
            address: self.address,
            journals: self.journals,
        }
    }
}

/// Whether a name is one that SQLite gives the journals of another database.
fn is_of_journal(name: &str) -> bool {
    ["-journal", "-wal", "-shm"].iter().any(|end| name.ends_with(end)) || is_super_journal(name)
}

/// The last super-journals of the process that were deleted as a commit. Journals that name one are deleted
/// right after it, so that nobody asks for an older one.
static ENDED: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Most names in [`ENDED`].
const ENDED_MAX: usize = 64;

/// True if a name has the form of SQLite's super-journals.
fn is_super_journal(name: &str) -> bool {
    let end = name.rsplit_once("-mj").map(|(_, end)| end).unwrap_or_default();
    end.len() == 9 && end.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The name of the volume that a VFS was made with.
const OWN: &str = "";

impl Router {
    /// A router to one volume, or to the volumes that the names of databases tell.
    pub(crate) fn new(settings: VolumeConfig, volume: Option<Volume>) -> Router {
        let mut state = State::default();
        if let Some(volume) = volume {
            let opened = Opened { shelf: Arc::new(Mutex::new(volume)), uses: 0, stays: true };
            state.devices.insert(String::from(OWN), opened);
        }
        Router { settings, first: Generation::new(state) }
    }

    /// The volumes that this process has open.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut last = &self.first;
        while let Some(next) = last.next.get() {
            last = next;
        }
        if last.process != std::process::id() {
            last = last.next.get_or_init(|| Box::new(Generation::new(State::default())));
        }
        locked(&last.state)
    }

    /// The volume that the VFS was made with.
    pub(crate) fn own(&self) -> Option<Shelf> {
        self.state().devices.get(OWN).map(|opened| Arc::clone(&opened.shelf))
    }

    /// Closes the volume with which the VFS was made, and returns it; `None` while files are open.
    pub(crate) fn let_go(&self) -> Option<Volume> {
        let mut state = self.state();
        if state.devices.get(OWN)?.uses > 0 {
            return None;
        }
        let opened = state.devices.remove(OWN)?;
        Arc::into_inner(opened.shelf)
            .map(|volume| volume.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps the volume that the VFS was made with no longer than its files are open.
    pub(crate) fn leave(&self) {
        let mut state = self.state();
        if let Some(opened) = state.devices.get_mut(OWN) {
            opened.stays = false;
            if opened.uses == 0 {
                state.devices.remove(OWN);
            }
        }
    }

    /// Opens a file. If another process has the device open, a waiting handle is returned.
    pub(crate) fn open(&self, request: &Request<'_>) -> Result<Handle, Failure> {
        match (self.open_now(request), &request.device) {
            (Err(Failure::Store(StoreError::InUse(_))), Some(device)) => {
                Ok(Handle::Waiting(Box::new(Waiting {
                    name: request.name.map(String::from),
                    create: request.create,
                    device: device.clone(),
                    told: request.told.clone(),
                    address: request.address,
                    journals: request.journals,
                    has_batches: self.settings.batch_atomic,
                })))
            }
            (opened, _) => opened,
        }
    }

    /// Opens a database that waits for its device.
    ///
    /// # Errors
    ///
    /// [`StoreError::InUse`] if another process still has the device, and those of [`Router::open`].
    pub(crate) fn arrive(&self, handle: &mut Handle) -> Result<(), Failure> {
        if let Handle::Waiting(waiting) = handle {
            *handle = self.open_now(&waiting.request())?;
        }
        Ok(())
    }

    fn open_now(&self, request: &Request<'_>) -> Result<Handle, Failure> {
        let mut state = self.state();
        let mut kind = request.kind;
        if let (Kind::SuperJournal, Some(name)) = (kind, request.name) {
            if is_super_journal(name) {
                // One that somebody else leads with is empty here: this VFS has no say in it.
                let bytes = match request.create {
                    true => Arc::clone(state.supers.entry(String::from(name)).or_default()),
                    false => state.supers.get(name).cloned().unwrap_or_default(),
                };
                return Ok(Handle::Super(bytes));
            }
            // SQLite looks into the journals that a super-journal names.
            kind = Kind::Journal;
        }
        let key = self.device_of(&mut state, request)?;
        let opened = state.devices.get_mut(&key).ok_or(Failure::NoDevice)?;
        let shelf = Arc::clone(&opened.shelf);
        let purpose = match kind {
            Kind::Main => Purpose::Main,
            Kind::Journal => Purpose::Journal,
            Kind::Wal | Kind::SuperJournal => Purpose::Kept,
            Kind::Temporary => Purpose::Temporary,
        };
        let id = {
            let mut volume = locked(&shelf);
            let is_main = request.kind == Kind::Main;
            let name = request.name.unwrap_or_default();
            match volume.is_database(name) {
                // Of a former release, or no file at all.
                is_there if !is_there && is_main && is_of_journal(name) => Err(Failure::NameOfJournal),
                true if kind == Kind::Journal || kind == Kind::Wal => Err(Failure::NameOfJournal),
                _ => volume.open_file(request.name, purpose, request.create).ok_or(Failure::Missing),
            }
        };
        if id.is_ok() {
            opened.uses += 1;
        }
        let is_main = request.kind == Kind::Main;
        let id = match id {
            Ok(id) => id,
            Err(error) => {
                self.close_idle(&mut state, &key)?;
                return Err(error);
            }
        };
        let journals = if is_main { request.journals } else { [0; 2] };
        for address in journals.into_iter().filter(|address| *address != 0) {
            state.journals.insert(address, key.clone());
        }
        Ok(Handle::File(OpenFile { shelf, id, held: Level::None, is_main, key, journals }))
    }

    /// The device that a file is on, opened if need be.
    fn device_of(&self, state: &mut State, request: &Request<'_>) -> Result<String, Failure> {
        if let Some(device) = &request.device {
            let key = match device.is_simulated() {
                true => device.name.clone(),
                false => std::path::absolute(&device.name)
                    .map_or_else(|_| device.name.clone(), |path| path.to_string_lossy().into_owned()),
            };
            if let Some(opened) = state.devices.get(&key) {
                device.require(&locked(&opened.shelf))?;
            } else {
                let volume = match &request.told {
                    Some(told) => device.open_telling(self.settings, told)?,
                    None => device.open(self.settings)?,
                };
                let opened =
                    Opened { shelf: Arc::new(Mutex::new(volume)), uses: 0, stays: device.is_simulated() };
                state.devices.insert(key.clone(), opened);
            }
            return Ok(key);
        }
        if let Some(key) = state.journals.get(&request.address) {
            return Ok(key.clone());
        }
        if state.devices.contains_key(OWN) {
            return Ok(String::from(OWN));
        }
        if self.first.process != std::process::id() {
            return Err(Failure::Inherited(self.first.process));
        }
        let any = state.devices.keys().next().cloned();
        let found = match request.kind {
            // A database names its device: which one has another of its name is nobody's guess.
            Kind::Main => None,
            Kind::Temporary => any,
            _ => request.name.and_then(|name| state.device_with(name, 0)),
        };
        found.ok_or(Failure::NoDevice)
    }

    /// Closes a device that has no open file.
    fn close_idle(&self, state: &mut State, key: &str) -> Result<(), Failure> {
        let is_idle = state.devices.get(key).is_some_and(|opened| opened.uses == 0 && !opened.stays);
        if !is_idle {
            return Ok(());
        }
        let Some(opened) = state.devices.remove(key) else { return Ok(()) };
        Ok(locked(&opened.shelf).checkpoint()?)
    }

    /// Ends the use of a file.
    pub(crate) fn close(&self, handle: Handle) -> Result<(), Failure> {
        let Handle::File(mut file) = handle else { return Ok(()) };
        let mut state = self.state();
        let done = {
            let mut volume = locked(&file.shelf);
            volume.unlock(file.id, &mut file.held, Level::None);
            volume.close_file(file.id)
        };
        for address in file.journals {
            state.journals.remove(&address);
        }
        if let Some(opened) = state.devices.get_mut(&file.key) {
            opened.uses -= 1;
        }
        self.close_idle(&mut state, &file.key).and(done.map_err(Failure::from))
    }

    /// True if a file of this name exists. `address` is where SQLite keeps the name.
    ///
    /// SQLite asks for a super-journal before it rolls back a part of its transaction, and does so only if
    /// the super-journal exists. So this returns true as long as a journal here names it and its deletion has
    /// not committed. A journal here never outlives the process.
    pub(crate) fn exists(&self, name: &str, address: usize) -> bool {
        let state = self.state();
        if is_super_journal(name) {
            let has_ended = locked(&ENDED).iter().any(|ended| ended == name);
            let mut shelves = state.devices.values().map(|opened| &opened.shelf);
            let is_known =
                state.supers.contains_key(name) || shelves.any(|shelf| locked(shelf).has_part_of(name));
            return is_known && !has_ended;
        }
        let is_there =
            |key: &String| state.has(key, name) && !(is_of_journal(name) && state.is_database(key, name));
        state.device_with(name, address).is_some_and(|key| is_there(&key))
    }

    /// Deletes a name. If the deletion of a super-journal commits (`commits`), the files that waited for it
    /// are committed.
    pub(crate) fn delete(&self, name: &str, address: usize, commits: bool) -> Result<(), Failure> {
        let mut state = self.state();
        if is_super_journal(name) {
            if commits {
                let shelves = state.devices.values().map(|opened| &opened.shelf);
                for shelf in shelves {
                    locked(shelf).release(name)?;
                }
                let mut ended = locked(&ENDED);
                ended.push_back(String::from(name));
                if ended.len() > ENDED_MAX {
                    ended.pop_front();
                }
            }
            state.supers.remove(name);
            return Ok(());
        }
        let key = state.device_with(name, address).ok_or(Failure::Missing)?;
        let opened = state.devices.get(&key).ok_or(Failure::Missing)?;
        match locked(&opened.shelf).delete(name)? {
            true => Ok(()),
            false => Err(Failure::Missing),
        }
    }

    /// True if a super-journal of this name is known.
    pub(crate) fn has_super(&self, name: &str) -> bool {
        self.state().supers.contains_key(name)
    }
}

impl State {
    fn has(&self, key: &str, name: &str) -> bool {
        self.devices.get(key).is_some_and(|opened| locked(&opened.shelf).exists(name))
    }

    /// True if a name that looks like a journal's is that of a database.
    fn is_database(&self, key: &str, name: &str) -> bool {
        self.devices.get(key).is_some_and(|opened| locked(&opened.shelf).is_database(name))
    }

    /// The device of a name: found by the address of the name, or the first device that has the name.
    fn device_with(&self, name: &str, address: usize) -> Option<String> {
        let known = self.journals.get(&address).cloned();
        known.or_else(|| self.devices.keys().find(|key| self.has(key, name)).cloned())
    }
}

/// A file of a volume, open.
pub(crate) struct OpenFile {
    shelf: Shelf,
    id: FileId,
    held: Level,
    is_main: bool,
    key: String,
    journals: [usize; 2],
}

/// The file that SQLite has open.
pub(crate) enum Handle {
    /// A file of a volume.
    File(OpenFile),
    /// A super-journal: the process itself needs it, for as long as it commits.
    Super(Arc<Mutex<Vec<u8>>>),
    /// A database whose device another process has open.
    Waiting(Box<Waiting>),
}

impl Handle {
    fn with<T>(&mut self, of_file: impl FnOnce(&mut Volume, &mut OpenFile) -> T, otherwise: T) -> T {
        let Handle::File(file) = self else { return otherwise };
        let shelf = Arc::clone(&file.shelf);
        let mut volume = locked(&shelf);
        of_file(&mut volume, file)
    }

    /// Reads; returns how many bytes there were.
    pub(crate) fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<usize, Failure> {
        if let Handle::Super(bytes) = self {
            let bytes = locked(bytes);
            let from = bytes.get(offset.min(bytes.len() as u64) as usize..).unwrap_or_default();
            let there = from.len().min(data.len());
            data.fill(0);
            data[..there].copy_from_slice(&from[..there]);
            return Ok(there);
        }
        self.with(|volume, file| Ok(volume.read(file.id, offset, data)?), Ok(0))
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        if let Handle::Super(bytes) = self {
            let (mut bytes, from) = (locked(bytes), offset as usize);
            let end = from + data.len();
            let length = bytes.len().max(end);
            bytes.resize(length, 0);
            bytes[from..end].copy_from_slice(data);
            return Ok(());
        }
        self.with(|volume, file| Ok(volume.write(file.id, offset, data)?), Ok(()))
    }

    pub(crate) fn truncate(&mut self, size: u64) -> Result<(), Failure> {
        if let Handle::Super(bytes) = self {
            locked(bytes).resize(size as usize, 0);
            return Ok(());
        }
        self.with(|volume, file| Ok(volume.truncate(file.id, size)?), Ok(()))
    }

    pub(crate) fn size(&mut self) -> u64 {
        if let Handle::Super(bytes) = self {
            return locked(bytes).len() as u64;
        }
        self.with(|volume, file| volume.size(file.id), 0)
    }

    /// Commits the file unless it waits for a super-journal.
    pub(crate) fn sync(&mut self) -> Result<(), Failure> {
        self.with(|volume, file| Ok(volume.commit(&[file.id])?), Ok(()))
    }

    /// Called before SQLite syncs a database, or would if it were not told to omit syncs. In a commit of
    /// several databases each waits for the deletion of the super-journal, if this VFS has that.
    pub(crate) fn begin_sync(&mut self, router: &Router, super_journal: Option<&str>) -> Result<(), Failure> {
        let held = super_journal.filter(|name| router.has_super(name));
        let commit = |volume: &mut Volume, file: &mut OpenFile| {
            if !file.is_main {
                return Ok(());
            }
            // Held by none: so ends a transaction over several databases that was rolled back, too.
            volume.hold(file.id, held);
            Ok(volume.commit(&[file.id])?)
        };
        self.with(commit, Ok(()))
    }

    pub(crate) fn lock(&mut self, wanted: Level) -> bool {
        self.with(|volume, file| volume.lock(file.id, &mut file.held, wanted), true)
    }

    pub(crate) fn unlock(&mut self, wanted: Level) {
        self.with(|volume, file| volume.unlock(file.id, &mut file.held, wanted), ());
    }

    pub(crate) fn is_reserved(&mut self) -> bool {
        self.with(|volume, file| volume.is_reserved(file.id), false)
    }

    pub(crate) fn begin_batch(&mut self) {
        self.with(|volume, file| volume.begin_batch(file.id), ());
    }

    pub(crate) fn roll_back_batch(&mut self) -> Result<(), Failure> {
        self.with(|volume, file| Ok(volume.roll_back_batch(file.id)?), Ok(()))
    }

    /// Whether SQLite may write in atomic batches here.
    pub(crate) fn has_batches(&mut self) -> bool {
        if let Handle::Waiting(waiting) = self {
            return waiting.has_batches;
        }
        self.with(|volume, file| file.is_main && volume.settings().batch_atomic, false)
    }

    pub(crate) fn page_bytes(&mut self) -> usize {
        self.with(|volume, _| volume.page_bytes(), 4096)
    }

    /// Names of the files that survive on the same device.
    pub(crate) fn names(&mut self) -> Vec<String> {
        self.with(|volume, _| volume.names(), Vec::new())
    }

    /// Removes another file of the same device.
    pub(crate) fn remove(&mut self, name: &str) -> Result<bool, Failure> {
        self.with(|volume, _| Ok(volume.remove(name)?), Ok(false))
    }

    pub(crate) fn stats(&mut self) -> VolumeStats {
        self.with(|volume, _| volume.stats(), VolumeStats::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_super_journal_is_known_by_its_name() {
        assert!(is_super_journal("/tmp/plain.db-mj12AB349CD"));
        for other in ["a.db-journal", "a.db", "a.db-mj12AB349C", "a.db-mj12AB349CG", ""] {
            assert!(!is_super_journal(other), "{other}");
        }
    }
}
