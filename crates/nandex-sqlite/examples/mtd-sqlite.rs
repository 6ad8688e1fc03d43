//! SQLite on a real flash device of Linux, without a file system: a table is filled, found again and checked.
//!
//! `mtd-sqlite /dev/mtdN write ROWS` formats the device and commits so many rows one at a time; `mtd-sqlite
//! /dev/mtdN check ROWS` mounts it and looks at each. The device loses what it holds.

#![allow(clippy::print_stdout)]

#[cfg(target_os = "linux")]
mod linux {
    use nandex::PageStore;
    use nandex::ftl::page_map::{FtlSettings, PageMapFtl};
    use nandex_mtd::{Mtd, MtdOptions};
    use nandex_sqlite::{Vfs, Volume, VolumeSettings};
    use std::error::Error;
    use std::path::Path;

    /// Pages of a commit at most; 100 random rows change 125 on average.
    const GROUP_PAGES: u32 = 256;

    fn value(row: u32) -> String {
        format!("{:0100}", row.wrapping_mul(2_654_435_761))
    }

    pub(super) fn run(device: &str, action: &str, rows: u32) -> Result<(), Box<dyn Error>> {
        let chip = Mtd::open(Path::new(device), MtdOptions { writable: true })?;
        let events = chip.events();
        let ftl = FtlSettings { atomic_pages: GROUP_PAGES, ..FtlSettings::default() };
        let is_new = action == "write";
        let store: Box<dyn PageStore> = match is_new {
            true => Box::new(PageMapFtl::format(chip, ftl)?),
            false => Box::new(PageMapFtl::mount(chip, ftl)?),
        };
        let settings = VolumeSettings::default();
        let volume = if is_new { Volume::format(store, settings)? } else { Volume::open(store, settings)? };
        let vfs = Vfs::register("flash", volume)?;
        let database = vfs.open("rows.db")?;
        if is_new {
            database.execute_batch("CREATE TABLE rows (id INTEGER PRIMARY KEY, value TEXT)")?;
            database.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            let before = events.counts().programs;
            for row in 0..rows {
                database.execute("INSERT INTO rows VALUES (?1, ?2)", (row, value(row)))?;
            }
            let programs = events.counts().programs - before;
            println!("{rows} rows, {:.2} programs each", programs as f64 / f64::from(rows.max(1)));
            return Ok(());
        }
        let sound: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let mut query = database.prepare("SELECT value FROM rows WHERE id = ?1")?;
        for row in 0..rows {
            let found: String = query.query_row([row], |row| row.get(0))?;
            if found != value(row) {
                return Err(format!("row {row} holds {found}").into());
            }
        }
        println!("{rows} rows as they should be, integrity {sound}");
        if sound == "ok" { Ok(()) } else { Err(sound.into()) }
    }
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [device, action, rows] = &args[..] else {
        return Err("give a device, write or check, and the number of rows".into());
    };
    if !["write", "check"].contains(&action.as_str()) {
        return Err(format!("'{action}' is neither write nor check").into());
    }
    linux::run(device, action, rows.parse().map_err(|_| format!("'{rows}' is no number of rows"))?)
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("MTD devices are a thing of Linux");
}
