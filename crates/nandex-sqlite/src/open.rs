//! VFSes for programs in Rust, and opening databases.

use crate::errors::OpenError;
use crate::ffi::{Registered, Routines};
use crate::router::{Router, locked};
use crate::settings::VolumeConfig;
use crate::stats::VolumeStats;
use crate::volume::Volume;
#[cfg(feature = "bundled")]
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::fmt;

/// A VFS of SQLite over one volume. Dropping it unregisters its name; open connections stay usable.
pub struct Vfs {
    registered: Registered,
    name: String,
}

impl Vfs {
    /// Registers a VFS of this name with the SQLite that is linked in.
    ///
    /// # Errors
    ///
    /// [`OpenError::Vfs`] where the name is taken.
    #[cfg(feature = "bundled")]
    pub fn register(name: &str, volume: Volume) -> Result<Vfs, OpenError> {
        Vfs::of(Registered::linked(name, Router::new(volume.settings(), Some(volume))), name)
    }

    /// Registers a VFS of this name with any SQLite of the process. Its databases are then opened as
    /// `file:NAME?vfs=VFS`. [`routines!`](crate::routines) finds the functions of that SQLite. Every
    /// connection that it opens from then on has the SQL function `nandex_error()`. If a process has several
    /// SQLites, only the first has that function.
    ///
    /// # Errors
    ///
    /// [`OpenError::Vfs`] if the name is taken.
    pub fn register_with(routines: Routines, name: &str, volume: Volume) -> Result<Vfs, OpenError> {
        Vfs::of(Registered::with(routines, name, Router::new(volume.settings(), Some(volume))), name)
    }

    /// Registers a VFS without a volume of its own: each database names its device,
    /// `file:NAME?vfs=VFS&device=PATH`.
    ///
    /// # Errors
    ///
    /// [`OpenError::Vfs`] where the name is taken.
    #[cfg(feature = "bundled")]
    pub fn register_for_devices(name: &str, settings: VolumeConfig) -> Result<Vfs, OpenError> {
        Vfs::of(Registered::linked(name, Router::new(settings, None)), name)
    }

    /// Registers a VFS whose databases name their devices with any SQLite of the process, as
    /// [`Vfs::register_with`] does.
    ///
    /// # Errors
    ///
    /// [`OpenError::Vfs`] where the name is taken.
    pub fn register_for_devices_with(
        routines: Routines,
        name: &str,
        settings: VolumeConfig,
    ) -> Result<Vfs, OpenError> {
        Vfs::of(Registered::with(routines, name, Router::new(settings, None)), name)
    }

    fn of(registered: Result<Registered, String>, name: &str) -> Result<Vfs, OpenError> {
        Ok(Vfs { registered: registered.map_err(OpenError::Vfs)?, name: String::from(name) })
    }

    /// Opens a database, or makes one; the name may be a URI. A new one gets the page size of the store, so
    /// that a page is programmed once and alone.
    ///
    /// # Errors
    ///
    /// [`OpenError::Sqlite`] where SQLite cannot open it; so, too, where the VFS is not with the SQLite that
    /// is linked in.
    #[cfg(feature = "bundled")]
    pub fn open(&self, name: &str) -> Result<Connection, OpenError> {
        let usual = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let flags = usual | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags_and_vfs(name, flags, self.name.as_str())?;
        self.registered.teach(&connection)?;
        if let Some(page_bytes) = best_page_size(&connection)? {
            // SQLite takes powers of two from 512 to 65,536, and ignores this where the database has pages
            // already.
            connection.pragma_update(None, "page_size", page_bytes)?;
        }
        Ok(connection)
    }

    /// Message of the last refusal or failure of the VFS; `None` before the first. `SELECT nandex_error()`
    /// returns it in connections of [`Vfs::open`]. With [`Vfs::register_with`] or the extension, all later
    /// connections of that SQLite have the function, and it tells of the VFS that failed last.
    pub fn last_error(&self) -> Option<String> {
        Some(self.registered.told()).filter(|text| !text.is_empty())
    }

    /// True if the VFS's SQLite asks for atomic batches. Otherwise each sync is an atomic group.
    pub fn has_batches(&self) -> bool {
        self.registered.has_batches()
    }

    /// Counters of the volume; `None` if the VFS has no volume of its own.
    pub fn stats(&self) -> Option<VolumeStats> {
        self.with_volume(|volume| volume.stats())
    }

    /// Calls `work` with the volume, which no connection uses meanwhile. Returns `None` if the VFS has no
    /// volume of its own.
    pub fn with_volume<T>(&self, work: impl FnOnce(&mut Volume) -> T) -> Option<T> {
        let shelf = self.registered.router().own()?;
        let done = work(&mut locked(&shelf));
        Some(done)
    }

    /// Lets the volume write a checkpoint that makes the next mount cheap. Durability does not depend on it.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn checkpoint(&self) -> Result<(), nandex::StoreError> {
        self.with_volume(Volume::checkpoint).unwrap_or(Ok(()))
    }

    /// Takes the name away and gives the volume back; `None` while databases are open, and where the VFS has
    /// no volume of its own.
    pub fn unregister(self) -> Option<Volume> {
        self.registered.router().let_go()
    }
}

/// The page size that the volume of a database says is best, if SQLite takes it.
#[cfg(feature = "bundled")]
fn best_page_size(connection: &Connection) -> rusqlite::Result<Option<u32>> {
    let ask = || connection.query_row("PRAGMA nandex_stats", [], |row| row.get::<_, String>(0));
    let row = match ask() {
        // Somebody else has the device: what takes a lock waits for it as long as the busy handler says.
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
            connection.query_row("PRAGMA schema_version", [], |_| Ok(()))?;
            ask()
        }
        row => row,
    };
    // A database in memory has no volume.
    let text = row.optional()?.unwrap_or_default();
    let number = text.lines().find_map(|line| line.strip_prefix("best_page_size "));
    let page_bytes = number.and_then(|number| number.parse::<u32>().ok());
    Ok(page_bytes.filter(|bytes| bytes.is_power_of_two() && (512..=65_536).contains(bytes)))
}

impl Drop for Vfs {
    fn drop(&mut self) {
        self.registered.unregister();
        // Databases that are open keep it.
        self.registered.router().leave();
    }
}

impl fmt::Debug for Vfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vfs").field("name", &self.name).finish_non_exhaustive()
    }
}
