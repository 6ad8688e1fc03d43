//! Several connections, databases and files on one chip; room that runs out and comes back.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![cfg(feature = "bundled")]

use nandex::Shared;
use nandex::ftl::page_map::{FtlSettings, PageMapFtl};
use nandex::nand::catalogue;
use nandex::nand::sim::{Faults, SimChip};
use nandex_os::{FileOptions, FilePageStore};
use nandex_sqlite::{Vfs, Volume, VolumeSettings};
use rusqlite::{Connection, ErrorCode};
use std::time::Duration;

const SETTINGS: FtlSettings = FtlSettings {
    over_provisioning_ppm: 125_000,
    bad_blocks_ppm: 20_000,
    atomic_pages: 256,
    victim: nandex::blocks::victim::VictimPolicy::Greedy,
    checkpoint_blocks: None,
    separation: nandex::ftl::page_map::Separation::TwoFrontiers,
    wear_levelling: nandex::blocks::wear::WearLevelling::None,
};

fn chip(blocks: u32) -> Shared<SimChip> {
    let part = catalogue::find("k9f1g08u0f").unwrap().clone().with_blocks(blocks);
    Shared::new(SimChip::new(&part).unwrap())
}

fn vfs(name: &str, blocks: u32) -> Vfs {
    let store = PageMapFtl::format(chip(blocks), SETTINGS).unwrap();
    Vfs::register(name, Volume::open(store, VolumeSettings::default()).unwrap()).unwrap()
}

fn number(database: &Connection, sql: &str) -> i64 {
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

fn fill(database: &Connection, rows: u32, bytes: u32) -> rusqlite::Result<()> {
    let series = format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT {rows})");
    database.execute_batch(&format!("INSERT INTO t {series} SELECT NULL, randomblob({bytes}) FROM n"))
}

#[test]
fn connections_wait_for_each_other() {
    let vfs = vfs("locks", 24);
    let (a, b) = (vfs.open("a.db").unwrap(), vfs.open("a.db").unwrap());
    for database in [&a, &b] {
        database.busy_timeout(Duration::ZERO).unwrap();
    }
    a.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    a.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES(1, 'a')").unwrap();
    assert_eq!(number(&b, "SELECT count(*) FROM t"), 0, "what is not committed is not seen");
    let refused = b.execute_batch("BEGIN IMMEDIATE").unwrap_err();
    assert_eq!(code(&refused), Some(ErrorCode::DatabaseBusy));
    b.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    number(&b, "SELECT count(*) FROM t");
    let refused = a.execute_batch("COMMIT").unwrap_err();
    assert_eq!(code(&refused), Some(ErrorCode::DatabaseBusy), "b reads");
    b.execute_batch("COMMIT").unwrap();
    a.execute_batch("COMMIT").unwrap();
    assert_eq!(number(&b, "SELECT count(*) FROM t"), 1);
    a.execute_batch("PRAGMA locking_mode=EXCLUSIVE; UPDATE t SET v = 'b'").unwrap();
    assert_eq!(code(&b.execute_batch("SELECT * FROM t").unwrap_err()), Some(ErrorCode::DatabaseBusy));
}

#[test]
fn threads_share_a_database() {
    let vfs = vfs("threads", 32);
    let first = vfs.open("a.db").unwrap();
    first.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let database = vfs.open("a.db").unwrap();
            scope.spawn(move || {
                database.busy_timeout(Duration::from_secs(60)).unwrap();
                for _ in 0..25 {
                    database.execute("INSERT INTO t VALUES(NULL, ?)", [thread]).unwrap();
                }
            });
        }
    });
    assert_eq!(number(&first, "SELECT count(*) FROM t"), 100);
    assert_eq!(number(&first, "SELECT count(DISTINCT v) FROM t"), 4);
}

#[test]
fn a_chip_has_several_databases() {
    let chip = chip(32);
    let store = PageMapFtl::format(chip.clone(), SETTINGS).unwrap();
    let vfs = Vfs::register("several", Volume::open(store, VolumeSettings::default()).unwrap()).unwrap();
    let database = vfs.open("one.db").unwrap();
    database.execute_batch("ATTACH 'two.db' AS two; CREATE TABLE t(v); CREATE TABLE two.t(v)").unwrap();
    let before = vfs.stats().unwrap();
    database.execute_batch("BEGIN; INSERT INTO t VALUES(1); INSERT INTO two.t VALUES(1); COMMIT").unwrap();
    let commits = vfs.stats().unwrap().commits - before.commits;
    assert_eq!(commits, 1, "a transaction over two databases is one group");
    drop(database);
    let volume = vfs.unregister().unwrap();
    assert_eq!(volume.names(), ["one.db", "two.db"], "no journal is left");
    drop(volume);
    let store = PageMapFtl::mount(chip, SETTINGS).unwrap();
    let vfs = Vfs::register("several", Volume::open(store, VolumeSettings::default()).unwrap()).unwrap();
    assert_eq!(number(&vfs.open("two.db").unwrap(), "SELECT sum(v) FROM t"), 1);
}

#[test]
fn vacuum_gives_pages_back() {
    let vfs = vfs("vacuum", 64);
    let database = vfs.open("a.db").unwrap();
    database.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    fill(&database, 2000, 900).unwrap();
    let live = |vfs: &Vfs| vfs.stats().unwrap().store.live_pages;
    let full = live(&vfs);
    database.execute_batch("DELETE FROM t WHERE id > 20; VACUUM").unwrap();
    // What VACUUM cut off at its end is trimmed with the next commit.
    database.execute_batch("INSERT INTO t VALUES(NULL, 'more')").unwrap();
    let after = live(&vfs);
    assert!(full > 1000 && after < full / 10, "{full} live pages, then {after}");
    assert_eq!(number(&database, "SELECT count(*) FROM t"), 21);
    let whole: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
}

#[test]
fn a_chip_that_is_full_refuses_and_stays_whole() {
    let vfs = vfs("full", 24);
    let database = vfs.open("a.db").unwrap();
    database.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    let mut rows = 0;
    let refused = loop {
        match fill(&database, 20, 1500) {
            Ok(()) => rows += 20,
            Err(error) => break error,
        }
    };
    assert_eq!(code(&refused), Some(ErrorCode::DiskFull), "{refused}");
    assert!(rows > 200);
    assert_eq!(number(&database, "SELECT count(*) FROM t"), rows);
    // Too large for RAM as well as for the chip.
    assert!(fill(&database, 5000, 1500).is_err());
    assert_eq!(number(&database, "SELECT count(*) FROM t"), rows);
    // What fits a group needs no room.
    for end in [100, 200] {
        database.execute("DELETE FROM t WHERE id <= ?", [end]).unwrap();
    }
    fill(&database, 50, 1500).unwrap();
    assert_eq!(number(&database, "SELECT count(*) FROM t"), rows - 200 + 50);
    let whole: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
}

#[test]
fn transactions_and_temporary_tables_larger_than_the_ram() {
    let store = PageMapFtl::format(chip(96), SETTINGS).unwrap();
    let volume =
        Volume::open(store, VolumeSettings { ram_bytes: 1 << 19, ..VolumeSettings::default() }).unwrap();
    let free = volume.free_pages();
    let vfs = Vfs::register("large", volume).unwrap();
    let database = vfs.open("a.db").unwrap();
    database
        .execute_batch(
            "PRAGMA cache_size=20; PRAGMA temp_store=FILE; CREATE TABLE t(id INTEGER PRIMARY KEY, v)",
        )
        .unwrap();
    fill(&database, 1500, 1000).unwrap();
    database.execute_batch("BEGIN; UPDATE t SET v = randomblob(1000); ROLLBACK").unwrap();
    database.execute_batch("CREATE TEMP TABLE sorted AS SELECT v FROM t ORDER BY v").unwrap();
    assert_eq!(number(&database, "SELECT count(*) FROM sorted"), 1500);
    database.execute_batch("UPDATE t SET v = randomblob(1000)").unwrap();
    let stats = vfs.stats().unwrap();
    assert!(stats.spilled_pages > 0 && stats.large_commits > 0, "{stats:?}");
    database.execute_batch("DROP TABLE t; VACUUM; CREATE TABLE small(v)").unwrap();
    drop(database);
    let left = vfs.unregister().unwrap().free_pages();
    assert!(left + 40 >= free, "{free} pages were free, {left} are");
}

#[test]
fn the_pragma_tells() {
    let vfs = vfs("pragma", 24);
    assert!(vfs.has_batches(), "the SQLite of the crate is built to ask for batches");
    let database = vfs.open("a.db").unwrap();
    database.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES(1)").unwrap();
    let text: String = database.query_row("PRAGMA nandex_stats", [], |row| row.get(0)).unwrap();
    assert!(text.starts_with("batch_atomic yes\nbest_page_size 2048\ncommits 2\ngroups 2\n"), "{text}");
    assert_eq!(number(&database, "PRAGMA page_size"), 2048, "a new database has the pages of the chip");
    let used: i64 = number(&database, "SELECT sqlite_compileoption_used('ENABLE_BATCH_ATOMIC_WRITE')");
    assert_eq!(used, 1);
    assert_eq!(number(&vfs.open(":memory:").unwrap(), "SELECT 1"), 1, "nothing of it is on the volume");
}

#[test]
fn a_name_is_taken_once() {
    let first = vfs("twice", 24);
    let store = PageMapFtl::format(chip(24), SETTINGS).unwrap();
    let second = Volume::open(store, VolumeSettings::default()).unwrap();
    assert!(Vfs::register("twice", second).is_err());
    let database = first.open("a.db").unwrap();
    database.execute_batch("CREATE TABLE t(v)").unwrap();
    drop(first);
    database.execute_batch("INSERT INTO t VALUES(1)").unwrap();
    assert_eq!(number(&database, "SELECT count(*) FROM t"), 1, "a connection outlives the name");
}

#[test]
fn databases_name_their_devices() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = Vfs::register_for_devices("devices", VolumeSettings::default()).unwrap();
    let uri = |name: &str, device: &str| {
        format!("file:{name}?device={}&size=8M&sync=0", folder.path().join(device).display())
    };
    for device in ["one", "two"] {
        let database = vfs.open(&uri("a.db", device)).unwrap();
        let create = format!("CREATE TABLE t(v); INSERT INTO t VALUES('{device}')");
        database.execute_batch(&create).unwrap();
        assert_eq!(number(&database, "PRAGMA page_size"), 2048);
    }
    // The same name on two devices at once, each with a journal, in one transaction.
    let database = vfs.open(&uri("a.db", "one")).unwrap();
    database.execute("ATTACH ? AS two", [uri("a.db", "two")]).unwrap();
    let both = "BEGIN; UPDATE main.t SET v = v || 1; UPDATE two.t SET v = v || 2; COMMIT";
    database.execute_batch(both).unwrap();
    database.execute_batch("BEGIN; DELETE FROM main.t; DELETE FROM two.t; ROLLBACK").unwrap();
    drop(database);
    for (device, expected) in [("one", "one1"), ("two", "two2")] {
        let database = vfs.open(&uri("a.db", device)).unwrap();
        let found: String = database.query_row("SELECT v FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(found, expected);
    }
    assert!(vfs.open("a.db").is_err(), "no device");
}

#[test]
fn blocks_that_fail_are_not_noticed() {
    let chip = chip(48);
    chip.lock().set_faults(Faults {
        seed: 3,
        program_failures_ppm: 1000,
        erase_failures_ppm: 2000,
        read_failures_ppm: 2000,
        read_failures_in_row: 1,
        ..Faults::default()
    });
    let settings = FtlSettings { bad_blocks_ppm: 300_000, ..SETTINGS };
    let store = PageMapFtl::format(chip.clone(), settings).unwrap();
    let vfs = Vfs::register("failing", Volume::open(store, VolumeSettings::default()).unwrap()).unwrap();
    let database = vfs.open("a.db").unwrap();
    database.execute_batch("PRAGMA cache_size=10; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    for round in 0..600 {
        fill(&database, 3, 700).unwrap();
        database.execute("DELETE FROM t WHERE id < ?", [3 * round - 600]).unwrap();
    }
    let whole: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!((whole.as_str(), number(&database, "SELECT max(id) FROM t")), ("ok", 1800));
    assert!(chip.lock().counters().block_erases_total() > 30);
}

#[test]
fn databases_come_go_and_are_removed() {
    let vfs = vfs("files", 48);
    let database = vfs.open("a.db").unwrap();
    database.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    let free = vfs.with_volume(|volume| volume.free_pages()).unwrap();
    // In from anywhere, out to anywhere: VACUUM INTO, or ATTACH and copy.
    let outside = Connection::open_in_memory().unwrap();
    outside.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    fill(&outside, 300, 1000).unwrap();
    outside.execute_batch("VACUUM INTO 'file:copy.db?vfs=files'").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain.db");
    let copy = vfs.open("copy.db").unwrap();
    copy.execute("VACUUM INTO ?", [format!("file:{}?vfs=unix", plain.display())]).unwrap();
    assert_eq!(number(&Connection::open(&plain).unwrap(), "SELECT count(*) FROM t"), 300);
    let text = |sql: &str| database.query_row(sql, [], |row| row.get::<_, String>(0));
    assert_eq!(text("PRAGMA nandex_files").unwrap(), "a.db\ncopy.db");
    assert!(text("PRAGMA nandex_remove='copy.db'").unwrap_err().to_string().contains("is open"));
    drop(copy);
    assert_eq!(text("PRAGMA nandex_remove='copy.db'").unwrap(), "removed");
    assert!(text("PRAGMA nandex_remove='copy.db'").is_err() && text("PRAGMA nandex_remove").is_err());
    assert_eq!(text("PRAGMA nandex_files").unwrap(), "a.db");
    assert_eq!(vfs.with_volume(|volume| volume.free_pages()), Some(free));
}

/// A file without a chip in it: written twice, since it promises no order, and right all the same.
#[test]
fn a_plain_file_is_a_store_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages");
    let options = FileOptions { direct: false, ..FileOptions::new(4096) };
    let open =
        |store| Vfs::register("plain", Volume::open(store, VolumeSettings::default()).unwrap()).unwrap();
    let vfs = open(FilePageStore::create(&path, 300, options).unwrap());
    let database = vfs.open("a.db").unwrap();
    database.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    fill(&database, 50, 1000).unwrap();
    let stats = vfs.stats().unwrap();
    assert!(stats.large_commits == stats.commits && stats.groups == 0, "{stats:?}");
    drop((database, vfs));
    let vfs = open(FilePageStore::open(&path, options).unwrap());
    assert_eq!(number(&vfs.open("a.db").unwrap(), "SELECT count(*) FROM t"), 50);
}

/// An ordinary database and one on a chip that fails: both are rolled back.
#[test]
fn a_chip_fails_beside_an_ordinary_database() {
    let chip = chip(24);
    let store = PageMapFtl::format(chip.clone(), SETTINGS).unwrap();
    let _vfs = Vfs::register("beside", Volume::open(store, VolumeSettings::default()).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let database = Connection::open(folder.path().join("plain.db")).unwrap();
    database
        .execute_batch("ATTACH 'file:b.db?vfs=beside' AS two; CREATE TABLE t(v); CREATE TABLE two.t(v)")
        .unwrap();
    let both = "BEGIN; INSERT INTO main.t VALUES(1); INSERT INTO two.t VALUES(1); COMMIT";
    database.execute_batch(both).unwrap();
    chip.lock().power_off();
    assert!(database.execute_batch(both).is_err());
    chip.lock().power_on();
    for schema in ["main", "two"] {
        assert_eq!(number(&database, &format!("SELECT count(*) FROM {schema}.t")), 1, "{schema}");
    }
    database.execute_batch(both).unwrap();
    assert_eq!(number(&database, "SELECT count(*) FROM two.t"), 2);
}

/// One of two databases on two chips fails to commit: the other one is rolled back, and commits by itself
/// afterwards.
#[test]
fn one_of_two_databases_fails() {
    let register = |name: &str, chip: &Shared<SimChip>| {
        let store = PageMapFtl::format(chip.clone(), SETTINGS).unwrap();
        Vfs::register(name, Volume::open(store, VolumeSettings::default()).unwrap()).unwrap()
    };
    for main_fails in [false, true] {
        let (good, bad) = (chip(24), chip(24));
        let (vfs, other) = (register("good", &good), register("bad", &bad));
        let (first, second, fails) = if main_fails { (&other, "good", &bad) } else { (&vfs, "bad", &bad) };
        let database = first.open("a.db").unwrap();
        database.execute("ATTACH ? AS two", [format!("file:b.db?vfs={second}")]).unwrap();
        database.execute_batch("CREATE TABLE main.t(v); CREATE TABLE two.t(v)").unwrap();
        database.execute_batch("BEGIN; INSERT INTO main.t VALUES(1); INSERT INTO two.t VALUES(1)").unwrap();
        fails.lock().power_off();
        assert!(database.execute_batch("COMMIT").is_err());
        assert!(database.is_autocommit(), "SQLite has rolled back");
        let schema = if main_fails { "two" } else { "main" };
        assert_eq!(number(&database, &format!("SELECT count(*) FROM {schema}.t")), 0, "{main_fails}");
        let before = good.lock().counters().page_programs_total();
        database.execute(&format!("INSERT INTO {schema}.t VALUES(2)"), []).unwrap();
        assert!(good.lock().counters().page_programs_total() > before, "it is on the chip");
        assert_eq!(number(&database, &format!("SELECT sum(v) FROM {schema}.t")), 2);
    }
}

#[test]
fn the_last_error_is_one_call_away() {
    let vfs = vfs("words", 24);
    let database = vfs.open("a.db").unwrap();
    let told = |database: &Connection| -> Option<String> {
        database.query_row("SELECT nandex_error()", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(told(&database), None);
    database.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    assert!(fill(&database, 5_000, 1_500).is_err());
    assert_eq!(told(&database).as_deref(), Some("no room is left; nothing was changed"));
    assert!(vfs.open("a.db-journal").is_err());
    assert!(told(&database).unwrap().contains("journal of another"));
}

/// The pages by which a database grows go straight to their places, once.
#[test]
fn a_first_transaction_takes_nearly_all_of_a_volume() {
    for (name, atomic_pages, batch_atomic) in
        [("first-256", 256, true), ("first-16", 16, true), ("first-stock", 256, false)]
    {
        let chip = chip(64);
        let store = PageMapFtl::format(chip.clone(), FtlSettings { atomic_pages, ..SETTINGS }).unwrap();
        let settings = VolumeSettings { batch_atomic, ram_bytes: 1 << 19, ..VolumeSettings::default() };
        let volume = Volume::open(store, settings).unwrap();
        let free = volume.free_pages() + volume.stats().kept_back_pages as u32;
        let vfs = Vfs::register(name, volume).unwrap();
        let database = vfs.open("a.db").unwrap();
        database.execute_batch("PRAGMA page_size=2048; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        let before = chip.lock().counters().page_programs_total();
        // A row takes a page.
        let rows = free / 100 * 95;
        fill(&database, rows, 1_900).unwrap();
        let programs = chip.lock().counters().page_programs_total() - before;
        println!("{name}: {rows} rows into {free} free pages, {programs} programs");
        assert!(programs < u64::from(rows) * 110 / 100, "{name}: {programs} programs for {rows} pages");
        assert_eq!(number(&database, "SELECT count(*) FROM t WHERE length(v) = 1900"), i64::from(rows));
        // One that is refused leaves the pages to others.
        assert!(fill(&database, free / 5, 1_900).is_err());
        fill(&database, 10, 1_900).unwrap();
        let whole: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(whole, "ok", "{name}");
    }
}

#[test]
fn a_volume_that_is_nearly_half_full_can_be_vacuumed() {
    let vfs = vfs("half", 128);
    let free = vfs.with_volume(|volume| volume.free_pages()).unwrap();
    let database = vfs.open("a.db").unwrap();
    database.execute_batch("PRAGMA page_size=2048; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    let rows = free / 100 * 45;
    fill(&database, rows, 1_900).unwrap();
    database.execute_batch("VACUUM").unwrap();
    assert_eq!(number(&database, "SELECT count(*) FROM t WHERE length(v) = 1900"), i64::from(rows));
}

/// A transaction that cannot be written, nor rolled back, leaves what was committed.
#[test]
fn what_cannot_be_rolled_back_is_not_kept() {
    let chip = chip(24);
    let store = PageMapFtl::format(chip.clone(), SETTINGS).unwrap();
    let volume = Volume::open(store, VolumeSettings { ram_bytes: 0, ..VolumeSettings::default() }).unwrap();
    let vfs = Vfs::register("rollback", volume).unwrap();
    let database = vfs.open("a.db").unwrap();
    database.execute_batch("PRAGMA cache_size=10; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    fill(&database, 300, 900).unwrap();
    database.execute_batch("BEGIN; UPDATE t SET v = 'new' WHERE id < 100").unwrap();
    chip.lock().power_off();
    assert!(database.execute_batch("UPDATE t SET v = randomblob(900); COMMIT").is_err());
    let _ = database.execute_batch("ROLLBACK");
    chip.lock().power_on();
    // Nobody knows what became of the program that was not answered: nothing is written until a mount.
    assert!(database.execute_batch("DELETE FROM t").is_err());
    drop((database, vfs));
    let store = PageMapFtl::mount(chip.clone(), SETTINGS).unwrap();
    let volume = Volume::open(store, VolumeSettings { ram_bytes: 0, ..VolumeSettings::default() }).unwrap();
    let vfs = Vfs::register("rollback", volume).unwrap();
    let database = vfs.open("a.db").unwrap();
    let whole: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    assert_eq!(number(&database, "SELECT count(*) FROM t WHERE length(v) = 900"), 300);
}
