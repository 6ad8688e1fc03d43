//! The folder of a sweep: a file for each cell, under its key.

use super::outcome::{CELL_SCHEMA, Outcome};
use super::request::Request;
use crate::LabError;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of cells. Several processes may use it at the same time: each file is written under another
/// name and renamed, so it is whole or absent, and processes that run the same cell write the same.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Opens the store in this folder, which is made if needed.
    pub fn open(folder: &Path) -> Result<Store, LabError> {
        let folder = folder.join("cells");
        fs::create_dir_all(&folder).map_err(|error| LabError::io(folder.display(), error))?;
        Ok(Store { folder })
    }

    /// The file of a cell.
    pub fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }

    /// The stored outcome of a cell. `None` if there is no file, or it is damaged or of another layout.
    pub fn find(&self, request: &Request) -> Result<Option<Outcome>, LabError> {
        let key = request.key()?;
        let Ok(bytes) = fs::read(self.path(&key)) else { return Ok(None) };
        let outcome: Option<Outcome> = serde_json::from_slice(&bytes).ok();
        Ok(outcome.filter(|o| o.schema == CELL_SCHEMA && o.key == key && o.request == *request))
    }

    /// Stores the outcome of a cell.
    pub fn put(&self, outcome: &Outcome) -> Result<(), LabError> {
        let path = self.path(&outcome.key);
        let beside = self.folder.join(format!(".{}.{}.part", outcome.key, std::process::id()));
        let write = || {
            let mut bytes = serde_json::to_vec(outcome)?;
            bytes.push(b'\n');
            fs::write(&beside, bytes)?;
            fs::rename(&beside, &path)
        };
        write().map_err(|error: std::io::Error| LabError::io(path.display(), error))
    }
}
