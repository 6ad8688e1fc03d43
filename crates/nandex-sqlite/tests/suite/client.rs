//! Runs each case with every SQLite available: the linked one, and the system's, which gets the VFS through
//! the table of its functions, like the extension.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use nandex_sqlite::{Vfs, Volume};
use nandex_sqlite_model::{Database, Refusal, Sqlite};

/// Runs a case with each SQLite.
pub(crate) fn each(case: impl Fn(Client)) {
    case(Client(Sqlite::linked().unwrap()));
    match Sqlite::shared(None) {
        Ok(sqlite) => case(Client(sqlite)),
        Err(why) => println!("skipped: {why}"),
    }
}

/// One SQLite, with the helpers of the cases.
#[derive(Clone, Copy)]
pub(crate) struct Client(pub(crate) Sqlite);

impl Client {
    /// A volume under the name of a VFS.
    pub(crate) fn register(self, name: &str, volume: Volume) -> Flash {
        let page_bytes = volume.page_bytes();
        Flash { vfs: self.0.register(name, volume).unwrap(), client: self, name: name.into(), page_bytes }
    }

    pub(crate) fn open(self, name: &str) -> Result<Database, Refusal> {
        self.0.open(name)
    }
}

/// A volume that a SQLite has under a name.
pub(crate) struct Flash {
    pub(crate) vfs: Vfs,
    client: Client,
    name: String,
    page_bytes: usize,
}

impl Flash {
    /// Opens a database; a new one gets the page size of the chip.
    pub(crate) fn open(&self, name: &str) -> Result<Database, Refusal> {
        let database = self.client.open(&format!("file:{name}?vfs={}", self.name))?;
        database.run(&format!("PRAGMA page_size={}", self.page_bytes))?;
        Ok(database)
    }
}

impl std::ops::Deref for Flash {
    type Target = Vfs;

    fn deref(&self) -> &Vfs {
        &self.vfs
    }
}
