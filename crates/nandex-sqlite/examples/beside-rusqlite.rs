//! rusqlite with its own SQLite on a chip: here `nandex-sqlite` is built without one.
//!
//! ```toml
//! nandex-sqlite = { version = "0.2", default-features = false }
//! rusqlite = { version = "0.43", features = ["bundled"] }
//! ```

#![allow(clippy::print_stdout)]

use nandex::Shared;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::{catalogue, sim::SimChip};
use nandex_sqlite::{Vfs, Volume, VolumeConfig, routines};
use rusqlite::Connection;
use std::error::Error;

/// Registers a VFS on the volume of the chip. A blank chip is formatted.
fn mount(chip: &Shared<SimChip>) -> Result<Vfs, Box<dyn Error>> {
    let settings = FtlConfig::default().with_atomic_pages(256);
    let store = nandex::open(chip.clone(), &settings, PageMapFtl::mount, PageMapFtl::format)?;
    let volume = Volume::open(store, VolumeConfig::default())?;
    Ok(Vfs::register_with(routines!(rusqlite::ffi)?, "flash", volume)?)
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let part = catalogue::find("k9f1g08u0f").ok_or("no such part")?;
    let chip = Shared::new(SimChip::new(part)?); // or your own `impl Nand`

    let vfs = mount(&chip)?;
    let mut database = Connection::open("file:notes.db?vfs=flash")?;
    database.execute_batch("PRAGMA page_size=2048; CREATE TABLE note(text)")?;
    let group = database.transaction()?;
    group.execute("INSERT INTO note VALUES('kept')", [])?;
    group.execute("INSERT INTO note VALUES('as well')", [])?;
    group.commit()?; // on the chip
    drop((database, vfs));

    let vfs = mount(&chip)?;
    let database = Connection::open("file:notes.db?vfs=flash")?;
    let kept: String = database.query_row("SELECT group_concat(text) FROM note", [], |row| row.get(0))?;
    assert_eq!(kept, "kept,as well");
    println!("SQLite {}, {kept}; batches: {}", rusqlite::version(), vfs.has_batches());
    Ok(())
}
