//! The errors of VFSes.

use std::fmt;

/// The errors that keep a database from being opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// SQLite refused the VFS, in words.
    Vfs(String),
    /// SQLite refused the database.
    #[cfg(feature = "bundled")]
    Sqlite(rusqlite::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Vfs(text) => write!(f, "{text}"),
            #[cfg(feature = "bundled")]
            OpenError::Sqlite(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for OpenError {}

#[cfg(feature = "bundled")]
impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> OpenError {
        OpenError::Sqlite(error)
    }
}
