//! Lists the files of a volume and checks that all of them can be read.

use super::directory::slot_pages;
use super::mount::{newest, require_room};
use super::{File, FileId, Purpose, Volume};
use crate::look::{FileFault, FileKind, FileStats, Header, Look};
use crate::settings::VolumeConfig;
use nandex::{PageStore, StoreError};

impl Volume {
    /// The files that survive, ordered by name.
    pub fn files(&self) -> Vec<FileStats> {
        self.files.kept().map(|(name, _, file)| file.stats(name)).collect()
    }

    /// Names of the files that survive, in order.
    pub fn names(&self) -> Vec<String> {
        self.files.kept().map(|(name, ..)| String::from(name)).collect()
    }

    /// Reads every page of every file that survives. Returns the pages that cannot be read and the databases
    /// that lack pages. Writes nothing.
    pub fn check(&mut self) -> Vec<FileFault> {
        let files: Vec<(String, FileId)> =
            self.files.kept().map(|(name, id, _)| (String::from(name), id)).collect();
        let mut faults = Vec::new();
        let mut page = vec![0; self.medium.page_bytes];
        for (name, id) in files {
            let Some(file) = self.files.get(id) else { continue };
            for number in 0..file.now.visible {
                if let Err(error) = file.load(number, &mut page, &mut self.medium) {
                    let why = error.to_string();
                    faults.push(FileFault { file: name.clone(), page: Some(number), why });
                }
            }
            let why = Some(self.size(id)).zip(self.header(&name)).and_then(missing);
            // What the header says may be in a log or a journal still.
            let has_companion = ["-wal", "-journal"].iter().any(|end| self.exists(&format!("{name}{end}")));
            if let Some(why) = why.filter(|_| !has_companion) {
                faults.push(FileFault { file: name, page: None, why });
            }
        }
        faults
    }

    /// Header of a database, if it can be read.
    fn header(&mut self, name: &str) -> Option<Header> {
        let id = self.files.names.get(name).copied().filter(|_| self.is_database(name))?;
        let mut page = vec![0; self.medium.page_bytes];
        self.files.get(id)?.load(0, &mut page, &mut self.medium).ok()?;
        Header::decode(&page)
    }
}

/// Message for a database that is shorter than its header says; `None` if it is whole.
fn missing((bytes, header): (u64, Header)) -> Option<String> {
    let Header { page_bytes, pages, .. } = header;
    let needed = u64::from(page_bytes) * u64::from(pages);
    (bytes < needed).then(|| {
        format!(
            "its header says {pages} pages of {page_bytes} bytes, {needed} in all, and it has {bytes} bytes"
        )
    })
}

impl File {
    fn stats(&self, name: &str) -> FileStats {
        let kind = match self.purpose {
            Purpose::Main => FileKind::Database,
            Purpose::Journal => FileKind::Journal,
            _ if name.ends_with("-wal") => FileKind::Log,
            _ => FileKind::Other,
        };
        let (bytes, pages, room_pages) = (self.now.size, self.now.visible, self.placed.capacity());
        FileStats { name: String::from(name), kind, bytes, pages, room_pages, header: None }
    }
}

/// Mounts the volume on a store and checks all of it.
pub(crate) fn look(mut store: impl PageStore + Send + 'static) -> Result<Look, StoreError> {
    require_room(&store)?;
    let (page_bytes, pages) = (store.page_bytes(), store.page_count());
    let is_unfinished = newest(&mut store)?.is_some_and(|directory| directory.redo.is_some());
    let mut volume = Volume::open(store, VolumeConfig::default())?;
    let faults = volume.check();
    let mut files = volume.files();
    for file in &mut files {
        file.header = volume.header(&file.name);
    }
    let directory_pages = 2 * slot_pages(page_bytes);
    Ok(Look { page_bytes, pages, directory_pages, files, stats: volume.stats(), is_unfinished, faults })
}
