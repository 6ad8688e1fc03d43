//! SQLite on a flash device of Linux without a file system, or in a file.
//!
//! `mtd-sqlite PLACE write ROWS [PER_COMMIT [JOURNAL]]` creates a table and commits rows, PER_COMMIT at a
//! time (1 by default). PLACE is a device `/dev/mtdN` that is erased or has a volume, or a file, which SQLite
//! opens without Nandex. `mtd-sqlite PLACE check ROWS` checks each row. `mtd-sqlite PLACE acknowledge
//! JOURNAL` commits a row for each number that it reads, and prints the number then. `mtd-sqlite PLACE list`
//! prints the rows. For the last two, PLACE may be `image:FILE`, a copy of a block device.

#![allow(clippy::print_stdout, clippy::print_stderr)]

#[cfg(target_os = "linux")]
mod linux {
    use nandex_sqlite::{ChipCounts, Device, OnProgress, Vfs, VolumeConfig};
    use rusqlite::Connection;
    use std::error::Error;
    use std::sync::Arc;
    use std::time::Instant;

    fn value(row: u32) -> String {
        format!("{:0100}", row.wrapping_mul(2_654_435_761))
    }

    /// A database, and the volume it is on.
    struct Place {
        vfs: Option<Vfs>,
        database: Connection,
    }

    impl Place {
        fn open(place: &str, is_new: bool) -> Result<Place, Box<dyn Error>> {
            let image = place.strip_prefix("image:");
            if image.is_none() && !place.starts_with("/dev/") {
                return Ok(Place { vfs: None, database: Connection::open(place)? });
            }
            let told: OnProgress =
                Arc::new(|mount| eprintln!("{} of {} pages read", mount.pages_read, mount.chip_pages));
            let device = Device { create: is_new, ..Device::new(image.unwrap_or(place)) };
            let vfs = Vfs::register("flash", device.open_telling(VolumeConfig::default(), &told)?)?;
            let database = vfs.open("rows.db")?;
            Ok(Place { vfs: Some(vfs), database })
        }

        fn counts(&self) -> Option<ChipCounts> {
            self.vfs.as_ref()?.stats()?.chip
        }

        fn write(&self, rows: u32, per_commit: u32, journal: &str) -> Result<(), Box<dyn Error>> {
            let begin = format!(
                "PRAGMA page_size=2048; PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode={journal}; \
                 PRAGMA synchronous=FULL; CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, value TEXT)"
            );
            self.database.execute_batch(&begin)?;
            let (before, begun) = (self.counts(), Instant::now());
            for first in (0..rows).step_by(per_commit.max(1) as usize) {
                self.database.execute_batch("BEGIN")?;
                for row in first..rows.min(first.saturating_add(per_commit)) {
                    self.database.execute("INSERT INTO rows VALUES (?1, ?2)", (row, value(row)))?;
                }
                self.database.execute_batch("COMMIT")?;
            }
            let each = |total: f64| total / f64::from(rows.max(1));
            print!("{rows} rows, {:.0} us each", each(begun.elapsed().as_secs_f64() * 1e6));
            if let Some((before, after)) = before.zip(self.counts()) {
                let programs = each((after.page_programs - before.page_programs) as f64);
                print!(", {programs:.2} programs each, {} erases", after.block_erases - before.block_erases);
            }
            println!();
            Ok(())
        }

        fn acknowledge(&self, journal: &str) -> Result<(), Box<dyn Error>> {
            let begin = format!(
                "PRAGMA page_size=2048; PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode={journal}; \
                 PRAGMA synchronous=FULL; CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, value TEXT)"
            );
            self.database.execute_batch(&begin)?;
            for row in std::io::stdin().lines() {
                let row: u32 = row?.parse()?;
                self.database.execute("INSERT INTO rows VALUES (?1, ?2)", (row, value(row)))?;
                println!("{row}");
            }
            Ok(())
        }

        fn list(&self) -> Result<(), Box<dyn Error>> {
            // A log opens in no other mode.
            self.database.execute_batch("PRAGMA locking_mode=EXCLUSIVE")?;
            let sound: String = self.database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
            if sound != "ok" {
                return Err(sound.into());
            }
            let mut query = self.database.prepare("SELECT id, value FROM rows")?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
            for row in rows {
                let (row, found) = row?;
                if found != value(row) {
                    return Err(format!("row {row} holds {found}").into());
                }
                println!("{row}");
            }
            Ok(())
        }

        fn check(&self, rows: u32) -> Result<(), Box<dyn Error>> {
            let sound: String = self.database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
            let mut query = self.database.prepare("SELECT value FROM rows WHERE id = ?1")?;
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

    pub(super) fn run(args: &[&str]) -> Result<(), Box<dyn Error>> {
        match args {
            [place, "acknowledge", journal] => return Place::open(place, true)?.acknowledge(journal),
            [place, "list"] => return Place::open(place, false)?.list(),
            _ => {}
        }
        let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is no number of rows"));
        let (&[place, action, rows], rest) =
            args.split_first_chunk().ok_or("give a place, write or check, and rows")?;
        match (action, rest) {
            ("check", []) => Place::open(place, false)?.check(number(rows)?),
            ("write", []) => Place::open(place, true)?.write(number(rows)?, 1, "DELETE"),
            ("write", [per]) => Place::open(place, true)?.write(number(rows)?, number(per)?, "DELETE"),
            ("write", [per, journal]) => {
                Place::open(place, true)?.write(number(rows)?, number(per)?, journal)
            }
            _ => Err(format!("'{action}' is neither write nor check, or too much follows").into()),
        }
    }
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    linux::run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("MTD devices are a thing of Linux");
}
