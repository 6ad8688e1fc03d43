//! diesel on a simulated chip, whose databases are named by URI.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use nandex::Shared;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::{catalogue, sim::SimChip};
use nandex_sqlite::{Vfs, Volume, VolumeConfig, routines};
use std::error::Error;

diesel::table! {
    note (id) {
        id -> Integer,
        text -> Text,
    }
}

fn mount(chip: &Shared<SimChip>) -> Result<Vfs, Box<dyn Error>> {
    let settings = FtlConfig::default().with_atomic_pages(256);
    let store = nandex::open(chip.clone(), &settings, PageMapFtl::mount, PageMapFtl::format)?;
    let volume = Volume::open(store, VolumeConfig::default())?;
    Ok(Vfs::register_with(routines!(libsqlite3_sys)?, "flash", volume)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let part = catalogue::find("k9f1g08u0f").ok_or("no such part")?;
    let chip = Shared::new(SimChip::new(part)?);

    let vfs = mount(&chip)?;
    let mut database = SqliteConnection::establish("file:notes.db?vfs=flash")?;
    database.batch_execute(
        "PRAGMA page_size=2048; CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT NOT NULL)",
    )?;
    database.transaction(|database| {
        let rows = [(note::id.eq(1), note::text.eq("kept")), (note::id.eq(2), note::text.eq("as well"))];
        rows.iter()
            .try_for_each(|row| diesel::insert_into(note::table).values(*row).execute(database).map(drop))
    })?;
    assert_eq!(vfs.stats().map(|stats| stats.large_commits), Some(0));
    drop((database, vfs));

    let _vfs = mount(&chip)?;
    let mut database = SqliteConnection::establish("file:notes.db?vfs=flash")?;
    let kept: Vec<String> = note::table.order(note::id).select(note::text).load(&mut database)?;
    assert_eq!(kept, ["kept", "as well"]);
    Ok(())
}
