//! Crashes of the whole system while a database in an image is written: any sectors of the write in progress
//! may be there.

use super::{ATOMIC_PAGES, Label, SECTOR};
use crate::open::Vfs;
use crate::settings::{Commits, VolumeConfig};
use crate::volume::Volume;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::rng::Rng;
use nandex::{Cause, Lpn, PageStore, StoreError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const LABEL: Label = Label { page_bytes: 2048, block_pages: 64, blocks: 16 };

/// A page written, or trimmed.
type Change = (u32, Option<Arc<[u8]>>);

/// The pages of the medium, and the log of its changes.
#[derive(Clone, Default)]
struct Medium {
    pages: BTreeMap<u32, Arc<[u8]>>,
    changes: Vec<Change>,
}

impl Medium {
    fn apply(&mut self, (lpn, data): &Change) {
        match data {
            Some(data) => self.pages.insert(*lpn, Arc::clone(data)),
            None => self.pages.remove(lpn),
        };
    }

    /// Only some of the sectors of a page are written.
    fn tear(&mut self, (lpn, data): &Change, rng: &mut Rng) {
        let Some(data) = data else { return };
        let mut page = self.pages.get(lpn).map_or_else(|| vec![0; data.len()], |page| page.to_vec());
        let way = rng.below(3);
        let first = rng.below((data.len() / SECTOR) as u64) as usize;
        for (sector, new) in data.chunks(SECTOR).enumerate() {
            let is_written = match way {
                0 => sector < first,
                1 => sector >= first,
                _ => rng.chance(1, 2),
            };
            if is_written {
                page[sector * SECTOR..][..new.len()].copy_from_slice(new);
            }
        }
        self.pages.insert(*lpn, page.into());
    }
}

/// A file whose writes are durable when they return.
#[derive(Clone, Default)]
struct Synced(Arc<Mutex<Medium>>);

impl PageStore for Synced {
    fn page_bytes(&self) -> usize {
        LABEL.stored_bytes()
    }

    fn page_count(&self) -> u32 {
        LABEL.blocks * LABEL.block_pages
    }

    fn read(&mut self, lpn: Lpn, _: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        match self.0.lock().unwrap().pages.get(&lpn.0) {
            Some(page) => data.copy_from_slice(page),
            None => data.fill(0),
        }
        Ok(())
    }

    fn write(&mut self, lpn: Lpn, _: Cause, data: &[u8]) -> Result<(), StoreError> {
        let mut medium = self.0.lock().unwrap();
        let change = (lpn.0, Some(data.into()));
        medium.apply(&change);
        medium.changes.push(change);
        Ok(())
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        let mut medium = self.0.lock().unwrap();
        let change = (lpn.0, None);
        medium.apply(&change);
        medium.changes.push(change);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn durable_writes(&self) -> bool {
        true
    }

    fn prefix_consistent(&self) -> bool {
        true
    }

    fn ram_bytes(&self) -> usize {
        0
    }
}

fn vfs(name: &str, store: Synced, is_new: bool, commits: Commits) -> Result<Vfs, String> {
    let settings = FtlConfig { atomic_pages: ATOMIC_PAGES, ..FtlConfig::default() };
    let chip = LABEL.chip(store).map_err(|error| error.to_string())?;
    let ftl = if is_new { PageMapFtl::format(chip, &settings) } else { PageMapFtl::mount(chip, &settings) };
    let volume = Volume::open(
        ftl.map_err(|error| error.to_string())?,
        VolumeConfig { commits, ..VolumeConfig::default() },
    );
    Vfs::register(name, volume.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
}

/// Applies transaction `number` to the rows: three rows get this number.
fn change(rows: &mut BTreeMap<u64, u64>, number: u64) {
    let mut rng = Rng::new(number);
    for _ in 0..3 {
        rows.insert(rng.below(300), number);
    }
}

fn look(name: &str, store: Synced) -> Result<BTreeMap<u64, u64>, String> {
    let vfs = vfs(name, store, false, Commits::Grouped)?;
    let read = || -> rusqlite::Result<(String, BTreeMap<u64, u64>)> {
        let database = vfs.open("a.db").map_err(|_| rusqlite::Error::InvalidQuery)?;
        let verdict = database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let mut statement = database.prepare("SELECT id, number FROM t WHERE length(value) = 300")?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        let rows = rows.map(|row| row.map(|(id, number)| (id.cast_unsigned(), number.cast_unsigned())));
        Ok((verdict, rows.collect::<rusqlite::Result<_>>()?))
    };
    match read() {
        Ok((verdict, rows)) if verdict == "ok" => Ok(rows),
        Ok((verdict, _)) => Err(verdict),
        Err(error) => Err(error.to_string()),
    }
}

/// Cuts the power 300 times during commits. Returns a message for each cut after which the rows were wrong.
fn wrong(name: &str, commits: Commits) -> Vec<String> {
    let store = Synced::default();
    let first = vfs(name, store.clone(), true, commits).unwrap();
    let database = first.open("a.db").unwrap();
    database.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, number, value)").unwrap();
    let mut medium = store.0.lock().unwrap().clone();
    medium.changes.clear();
    let begun = store.0.lock().unwrap().changes.len();
    let (mut rows, mut states, mut acknowledged) = (BTreeMap::new(), vec![BTreeMap::new()], vec![begun]);
    for number in 0..500 {
        let before = rows.clone();
        change(&mut rows, number);
        database.execute_batch("BEGIN").unwrap();
        for (id, number) in rows.iter().filter(|(id, number)| before.get(*id) != Some(*number)) {
            let sql = "INSERT OR REPLACE INTO t VALUES(?, ?, randomblob(300))";
            database.execute(sql, [id.cast_signed(), number.cast_signed()]).unwrap();
        }
        database.execute_batch("COMMIT").unwrap();
        states.push(rows.clone());
        acknowledged.push(store.0.lock().unwrap().changes.len());
    }
    drop((database, first));
    let changes = store.0.lock().unwrap().changes[begun..].to_vec();
    assert!(changes.iter().any(|(_, data)| data.is_none()), "blocks are erased as well");
    let (mut rng, mut done, mut wrong) = (Rng::new(11), 0, Vec::new());
    for cut in 0..300 {
        let place = cut * changes.len() / 300;
        while done < place {
            medium.apply(&changes[done]);
            done += 1;
        }
        let mut left = medium.clone();
        left.tear(&changes[place], &mut rng);
        let state = acknowledged.partition_point(|&end| end <= begun + place) - 1;
        let found = look(&format!("{name}-cut"), Synced(Arc::new(Mutex::new(left))));
        let wanted = [Some(&states[state]), states.get(state + 1)];
        match found {
            Ok(found) if wanted.contains(&Some(&found)) => {}
            Ok(_) => wrong.push(format!("cut {cut} at {place}: not what {state} transactions leave")),
            Err(error) => wrong.push(format!("cut {cut} at {place}: {error}")),
        }
    }
    wrong
}

#[test]
fn an_image_survives_the_end_of_the_system() {
    let wrong = wrong("image-power", Commits::Grouped);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn page_by_page_it_does_not() {
    let wrong = wrong("image-unsafe", Commits::PageByPage);
    assert!(wrong.len() >= 20, "only {} of 300 wrong", wrong.len());
}
