//! SQLite on a real flash device of Linux, without a file system: a table is filled, found again and checked.
//!
//! `mtd-sqlite /dev/mtdN write ROWS` commits so many rows one at a time, onto a device that is erased or has
//! a volume; `mtd-sqlite /dev/mtdN check ROWS` looks at each.

#![allow(clippy::print_stdout)]

#[cfg(target_os = "linux")]
mod linux {
    use nandex_sqlite::{Device, OnProgress, Vfs, VolumeSettings};
    use std::error::Error;
    use std::sync::Arc;

    fn value(row: u32) -> String {
        format!("{:0100}", row.wrapping_mul(2_654_435_761))
    }

    fn programs(vfs: &Vfs) -> u64 {
        vfs.stats().and_then(|stats| stats.chip).map_or(0, |chip| chip.page_programs)
    }

    pub(super) fn run(device: &str, action: &str, rows: u32) -> Result<(), Box<dyn Error>> {
        let told: OnProgress =
            Arc::new(|mount| println!("{} of {} pages read", mount.pages_read, mount.chip_pages));
        let is_new = action == "write";
        let device = Device { create: is_new, ..Device::new(device) };
        let vfs = Vfs::register("flash", device.open_telling(VolumeSettings::default(), &told)?)?;
        let database = vfs.open("rows.db")?;
        if is_new {
            database.execute_batch("CREATE TABLE rows (id INTEGER PRIMARY KEY, value TEXT)")?;
            database.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            let before = programs(&vfs);
            for row in 0..rows {
                database.execute("INSERT INTO rows VALUES (?1, ?2)", (row, value(row)))?;
            }
            let programs = programs(&vfs) - before;
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
