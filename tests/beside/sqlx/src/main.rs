//! sqlx on a simulated chip, whose databases are named by URL.

use nandex::Shared;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::{catalogue, sim::SimChip};
use nandex_sqlite::{Vfs, Volume, VolumeConfig, routines};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, SqliteConnection};
use std::error::Error;
use std::str::FromStr;

fn mount(chip: &Shared<SimChip>) -> Result<Vfs, Box<dyn Error>> {
    let settings = FtlConfig::default().with_atomic_pages(256);
    let store = nandex::open(chip.clone(), &settings, PageMapFtl::mount, PageMapFtl::format)?;
    let volume = Volume::open(store, VolumeConfig::default())?;
    Ok(Vfs::register_with(routines!(libsqlite3_sys)?, "flash", volume)?)
}

/// A database on the VFS; a new one gets pages as large as the chip's.
async fn open() -> Result<SqliteConnection, sqlx::Error> {
    let options = SqliteConnectOptions::from_str("sqlite:notes.db?mode=rwc&vfs=flash")?.page_size(2048);
    SqliteConnection::connect_with(&options).await
}

async fn run() -> Result<(), Box<dyn Error>> {
    let part = catalogue::find("k9f1g08u0f").ok_or("no such part")?;
    let chip = Shared::new(SimChip::new(part)?);

    let vfs = mount(&chip)?;
    let mut database = open().await?;
    sqlx::query("CREATE TABLE note(text TEXT NOT NULL)").execute(&mut database).await?;
    let mut group = database.begin().await?;
    for text in ["kept", "as well"] {
        sqlx::query("INSERT INTO note VALUES(?)").bind(text).execute(&mut *group).await?;
    }
    group.commit().await?;
    assert!(vfs.stats().is_some_and(|stats| stats.commits >= 2));
    database.close().await?;
    drop(vfs);

    let _vfs = mount(&chip)?;
    let mut database = open().await?;
    let kept: Vec<String> =
        sqlx::query_scalar("SELECT text FROM note ORDER BY rowid").fetch_all(&mut database).await?;
    assert_eq!(kept, ["kept", "as well"]);
    Ok(database.close().await?)
}

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().build()?.block_on(run())
}
