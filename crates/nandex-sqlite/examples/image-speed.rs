//! Compares the time of an insert into SQLite on an image of a chip and on an ordinary file of the same disk.
//!
//! `cargo run --release -p nandex-sqlite --example image-speed [FOLDER]`

#![allow(clippy::print_stdout)]

use nandex::rng::Rng;
use nandex_sqlite::{Device, Vfs, VolumeConfig};
use rusqlite::{Connection, params};
use std::path::Path;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

/// Commits rows for a while, `rows_per_commit` at a time, in a table with an index. Returns microseconds per
/// row.
fn measure(database: &Connection, rows_per_commit: u32) -> rusqlite::Result<f64> {
    database.execute_batch(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name, value BLOB); CREATE INDEX i ON t(name)",
    )?;
    let (mut rng, mut rows) = (Rng::new(1), 0);
    let mut statement = database.prepare("INSERT INTO t(name, value) VALUES(?, ?)")?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        database.execute_batch("BEGIN")?;
        for _ in 0..rows_per_commit {
            let mut value = [0; 100];
            rng.fill(&mut value);
            let name = rng.next_u64() >> 16;
            statement.execute(params![name.cast_signed(), value])?;
        }
        database.execute_batch("COMMIT")?;
        rows += rows_per_commit;
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / f64::from(rows))
}

fn on_file(folder: &Path, mode: &str, rows_per_commit: u32) -> Result<f64, Failure> {
    let folder = folder.join("plain");
    std::fs::create_dir_all(&folder)?;
    let database = Connection::open(folder.join("plain.db"))?;
    database.execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=FULL"))?;
    let time = measure(&database, rows_per_commit)?;
    drop(database);
    std::fs::remove_dir_all(&folder)?;
    Ok(time)
}

fn on_image(folder: &Path, pragmas: &str, rows_per_commit: u32) -> Result<f64, Failure> {
    let path = folder.join("chip.img");
    let device = Device { bytes: 256 << 20, ..Device::new(path.to_string_lossy()) };
    let vfs = Vfs::register("image-speed", device.open(VolumeConfig::default())?)?;
    let database = vfs.open("rows.db")?;
    database.execute_batch(pragmas)?;
    let time = measure(&database, rows_per_commit)?;
    if let Some(chip) = vfs.stats().and_then(|stats| stats.chip) {
        println!("        {} programs, {} erases", chip.page_programs, chip.block_erases);
    }
    drop((database, vfs));
    std::fs::remove_file(&path)?;
    Ok(time)
}

fn main() -> Result<(), Failure> {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let folder = folder.join(format!("nandex-speed-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let only = std::env::args().nth(2).and_then(|text| text.parse::<u32>().ok());
    for rows in [1, 200].into_iter().filter(|rows| only.is_none_or(|only: u32| only == *rows)) {
        let delete = on_file(&folder, "DELETE", rows)?;
        let wal = on_file(&folder, "WAL", rows)?;
        let image = on_image(&folder, "", rows)?;
        let exclusive = on_image(&folder, "PRAGMA locking_mode=EXCLUSIVE", rows)?;
        println!(
            "{rows} rows a commit, us a row: file DELETE {delete:.0}, file WAL {wal:.0}, image {image:.0} \
             ({:.2} of DELETE), EXCLUSIVE {exclusive:.0}",
            image / delete
        );
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
