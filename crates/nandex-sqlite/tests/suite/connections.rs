//! Several connections, databases and files on one chip; room that runs out and comes back. Each case runs
//! with the linked SQLite and with the system's.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![cfg(feature = "bundled")]

use crate::client::{Client, Flash, each};
use nandex::Shared;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue;
use nandex::nand::sim::{Faults, SimChip};
use nandex_os::{FileOptions, FilePageStore};
use nandex_sqlite::{Volume, VolumeConfig};
use nandex_sqlite_model::{Database, Refusal};

const SETTINGS: FtlConfig = FtlConfig {
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

/// A volume on a new chip.
fn flash(client: Client, name: &str, blocks: u32) -> Flash {
    of(client, name, chip(blocks), true)
}

/// A volume on a chip.
fn of(client: Client, name: &str, chip: Shared<SimChip>, is_new: bool) -> Flash {
    let make = if is_new { PageMapFtl::format } else { PageMapFtl::mount };
    let store = make(chip, &SETTINGS).unwrap();
    client.register(name, Volume::open(store, VolumeConfig::default()).unwrap())
}

/// The first column of the first row.
fn text(database: &Database, sql: &str) -> String {
    database.read(sql).unwrap().remove(0)
}

fn number(database: &Database, sql: &str) -> i64 {
    text(database, sql).parse().unwrap()
}

fn fill(database: &Database, rows: u32, bytes: u32) -> Result<(), Refusal> {
    let series = format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT {rows})");
    database.run(&format!("INSERT INTO t {series} SELECT NULL, randomblob({bytes}) FROM n"))
}

#[test]
fn connections_wait_for_each_other() {
    each(|client| {
        let vfs = flash(client, "locks", 24);
        let (a, b) = (vfs.open("a.db").unwrap(), vfs.open("a.db").unwrap());
        for database in [&a, &b] {
            database.wait_for(0);
        }
        a.run("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        a.run("BEGIN IMMEDIATE; INSERT INTO t VALUES(1, 'a')").unwrap();
        assert_eq!(number(&b, "SELECT count(*) FROM t"), 0, "what is not committed is not seen");
        let refused = b.run("BEGIN IMMEDIATE").unwrap_err();
        assert!(refused.is_busy());
        b.run("BEGIN; SELECT * FROM t").unwrap();
        number(&b, "SELECT count(*) FROM t");
        let refused = a.run("COMMIT").unwrap_err();
        assert!(refused.is_busy(), "b reads");
        b.run("COMMIT").unwrap();
        a.run("COMMIT").unwrap();
        assert_eq!(number(&b, "SELECT count(*) FROM t"), 1);
        a.run("PRAGMA locking_mode=EXCLUSIVE; UPDATE t SET v = 'b'").unwrap();
        assert!(b.run("SELECT * FROM t").unwrap_err().is_busy());
    });
}

#[test]
fn threads_share_a_database() {
    each(|client| {
        let vfs = flash(client, "threads", 32);
        let first = vfs.open("a.db").unwrap();
        first.run("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let database = vfs.open("a.db").unwrap();
                scope.spawn(move || {
                    database.wait_for(60_000);
                    for _ in 0..25 {
                        database.run(&format!("INSERT INTO t VALUES(NULL, {thread})")).unwrap();
                    }
                });
            }
        });
        assert_eq!(number(&first, "SELECT count(*) FROM t"), 100);
        assert_eq!(number(&first, "SELECT count(DISTINCT v) FROM t"), 4);
    });
}

#[test]
fn a_chip_has_several_databases() {
    each(|client| {
        let chip = chip(32);
        let store = PageMapFtl::format(chip.clone(), &SETTINGS).unwrap();
        let vfs = client.register("several", Volume::open(store, VolumeConfig::default()).unwrap());
        let database = vfs.open("one.db").unwrap();
        database.run("ATTACH 'two.db' AS two; CREATE TABLE t(v); CREATE TABLE two.t(v)").unwrap();
        let before = vfs.stats().unwrap();
        database.run("BEGIN; INSERT INTO t VALUES(1); INSERT INTO two.t VALUES(1); COMMIT").unwrap();
        let commits = vfs.stats().unwrap().commits - before.commits;
        assert_eq!(commits, 1, "a transaction over two databases is one group");
        drop(database);
        let volume = vfs.vfs.unregister().unwrap();
        assert_eq!(volume.names(), ["one.db", "two.db"], "no journal is left");
        drop(volume);
        let store = PageMapFtl::mount(chip, &SETTINGS).unwrap();
        let vfs = client.register("several", Volume::open(store, VolumeConfig::default()).unwrap());
        assert_eq!(number(&vfs.open("two.db").unwrap(), "SELECT sum(v) FROM t"), 1);
    });
}

#[test]
fn vacuum_gives_pages_back() {
    each(|client| {
        let vfs = flash(client, "vacuum", 64);
        let database = vfs.open("a.db").unwrap();
        database.run("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        fill(&database, 2000, 900).unwrap();
        let live = |vfs: &Flash| vfs.stats().unwrap().store.live_pages;
        let full = live(&vfs);
        database.run("DELETE FROM t WHERE id > 20; VACUUM").unwrap();
        // What VACUUM cut off at its end is trimmed with the next commit.
        database.run("INSERT INTO t VALUES(NULL, 'more')").unwrap();
        let after = live(&vfs);
        assert!(full > 1000 && after < full / 10, "{full} live pages, then {after}");
        assert_eq!(number(&database, "SELECT count(*) FROM t"), 21);
        let whole = text(&database, "PRAGMA integrity_check");
        assert_eq!(whole, "ok");
    });
}

#[test]
fn a_chip_that_is_full_refuses_and_stays_whole() {
    each(|client| {
        let vfs = flash(client, "full", 24);
        let database = vfs.open("a.db").unwrap();
        database.run("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        let mut rows = 0;
        let refused = loop {
            match fill(&database, 20, 1500) {
                Ok(()) => rows += 20,
                Err(error) => break error,
            }
        };
        assert!(refused.is_full(), "{refused}");
        assert!(rows > 200);
        assert_eq!(number(&database, "SELECT count(*) FROM t"), rows);
        // Too large for RAM as well as for the chip.
        assert!(fill(&database, 5000, 1500).is_err());
        assert_eq!(number(&database, "SELECT count(*) FROM t"), rows);
        // What fits a group needs no room.
        for end in [100, 200] {
            database.run(&format!("DELETE FROM t WHERE id <= {end}")).unwrap();
        }
        fill(&database, 50, 1500).unwrap();
        assert_eq!(number(&database, "SELECT count(*) FROM t"), rows - 200 + 50);
        let whole = text(&database, "PRAGMA integrity_check");
        assert_eq!(whole, "ok");
    });
}

#[test]
fn transactions_and_temporary_tables_larger_than_the_ram() {
    each(|client| {
        let store = PageMapFtl::format(chip(96), &SETTINGS).unwrap();
        let volume =
            Volume::open(store, VolumeConfig { ram_bytes: 1 << 19, ..VolumeConfig::default() }).unwrap();
        let free = volume.free_pages();
        let vfs = client.register("large", volume);
        let database = vfs.open("a.db").unwrap();
        database
            .run("PRAGMA cache_size=20; PRAGMA temp_store=FILE; CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
            .unwrap();
        fill(&database, 1500, 1000).unwrap();
        database.run("BEGIN; UPDATE t SET v = randomblob(1000); ROLLBACK").unwrap();
        database.run("CREATE TEMP TABLE sorted AS SELECT v FROM t ORDER BY v").unwrap();
        assert_eq!(number(&database, "SELECT count(*) FROM sorted"), 1500);
        database.run("UPDATE t SET v = randomblob(1000)").unwrap();
        let stats = vfs.stats().unwrap();
        assert!(stats.spilled_pages > 0 && stats.large_commits > 0, "{stats:?}");
        database.run("DROP TABLE t; VACUUM; CREATE TABLE small(v)").unwrap();
        drop(database);
        let left = vfs.vfs.unregister().unwrap().free_pages();
        assert!(left + 40 >= free, "{free} pages were free, {left} are");
    });
}

#[test]
fn a_name_is_taken_once() {
    each(|client| {
        let first = flash(client, "twice", 24);
        let store = PageMapFtl::format(chip(24), &SETTINGS).unwrap();
        let second = Volume::open(store, VolumeConfig::default()).unwrap();
        assert!(client.0.register("twice", second).is_err());
        let database = first.open("a.db").unwrap();
        database.run("CREATE TABLE t(v)").unwrap();
        drop(first);
        database.run("INSERT INTO t VALUES(1)").unwrap();
        assert_eq!(number(&database, "SELECT count(*) FROM t"), 1, "a connection outlives the name");
    });
}

#[test]
fn databases_name_their_devices() {
    each(|client| {
        let folder = tempfile::tempdir().unwrap();
        let _vfs = client.0.register_for_devices("devices", VolumeConfig::default()).unwrap();
        let uri = |name: &str, device: &str| {
            format!("file:{name}?vfs=devices&device={}&size=8M&sync=0", folder.path().join(device).display())
        };
        for device in ["one", "two"] {
            let database = client.open(&uri("a.db", device)).unwrap();
            let create = format!("CREATE TABLE t(v); INSERT INTO t VALUES('{device}')");
            database.run(&create).unwrap();
        }
        // The same name on two devices at once, each with a journal, in one transaction.
        let database = client.open(&uri("a.db", "one")).unwrap();
        database.run(&format!("ATTACH '{}' AS two", uri("a.db", "two"))).unwrap();
        let both = "BEGIN; UPDATE main.t SET v = v || 1; UPDATE two.t SET v = v || 2; COMMIT";
        database.run(both).unwrap();
        database.run("BEGIN; DELETE FROM main.t; DELETE FROM two.t; ROLLBACK").unwrap();
        drop(database);
        for (device, expected) in [("one", "one1"), ("two", "two2")] {
            let database = client.open(&uri("a.db", device)).unwrap();
            let found = text(&database, "SELECT v FROM t");
            assert_eq!(found, expected);
        }
        assert!(client.open("file:a.db?vfs=devices").is_err(), "no device");
    });
}

#[test]
fn blocks_that_fail_are_not_noticed() {
    each(|client| {
        let chip = chip(48);
        chip.lock().set_faults(Faults {
            seed: 3,
            program_failures_ppm: 1000,
            erase_failures_ppm: 2000,
            read_failures_ppm: 2000,
            read_failures_in_row: 1,
            ..Faults::default()
        });
        let settings = FtlConfig { bad_blocks_ppm: 300_000, ..SETTINGS };
        let store = PageMapFtl::format(chip.clone(), &settings).unwrap();
        let vfs = client.register("failing", Volume::open(store, VolumeConfig::default()).unwrap());
        let database = vfs.open("a.db").unwrap();
        database.run("PRAGMA cache_size=10; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        for round in 0..600 {
            fill(&database, 3, 700).unwrap();
            database.run(&format!("DELETE FROM t WHERE id < {}", 3 * round - 600)).unwrap();
        }
        let whole = text(&database, "PRAGMA integrity_check");
        assert_eq!((whole.as_str(), number(&database, "SELECT max(id) FROM t")), ("ok", 1800));
        assert!(chip.lock().counters().block_erases_total() > 30);
    });
}

#[test]
fn databases_come_go_and_are_removed() {
    each(|client| {
        let vfs = flash(client, "files", 48);
        let database = vfs.open("a.db").unwrap();
        database.run("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        let free = vfs.with_volume(|volume| volume.free_pages()).unwrap();
        // In from anywhere, out to anywhere: VACUUM INTO, or ATTACH and copy.
        let outside = client.open(":memory:").unwrap();
        outside.run("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        fill(&outside, 300, 1000).unwrap();
        outside.run("VACUUM INTO 'file:copy.db?vfs=files'").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain.db");
        let copy = vfs.open("copy.db").unwrap();
        copy.run(&format!("VACUUM INTO 'file:{}?vfs=unix'", plain.display())).unwrap();
        assert_eq!(number(&client.open(plain.to_str().unwrap()).unwrap(), "SELECT count(*) FROM t"), 300);
        let text = |sql: &str| Ok::<_, Refusal>(database.read(sql)?.remove(0));
        assert_eq!(text("PRAGMA nandex_files").unwrap(), "a.db\ncopy.db");
        assert!(text("PRAGMA nandex_remove='copy.db'").unwrap_err().to_string().contains("is open"));
        drop(copy);
        assert_eq!(text("PRAGMA nandex_remove='copy.db'").unwrap(), "removed");
        assert!(text("PRAGMA nandex_remove='copy.db'").is_err() && text("PRAGMA nandex_remove").is_err());
        assert_eq!(text("PRAGMA nandex_files").unwrap(), "a.db");
        assert_eq!(vfs.with_volume(|volume| volume.free_pages()), Some(free));
    });
}

/// A file without a chip in it: written twice, since it promises no order, and right all the same.
#[test]
fn a_plain_file_is_a_store_too() {
    each(|client| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages");
        let options = FileOptions { direct: false, ..FileOptions::new(4096) };
        let open = |store| client.register("plain", Volume::open(store, VolumeConfig::default()).unwrap());
        let vfs = open(FilePageStore::create(&path, 300, options).unwrap());
        let database = vfs.open("a.db").unwrap();
        database.run("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        fill(&database, 50, 1000).unwrap();
        let stats = vfs.stats().unwrap();
        assert!(stats.large_commits == stats.commits && stats.groups == 0, "{stats:?}");
        drop((database, vfs));
        let vfs = open(FilePageStore::open(&path, options).unwrap());
        assert_eq!(number(&vfs.open("a.db").unwrap(), "SELECT count(*) FROM t"), 50);
    });
}

/// An ordinary database and one on a chip that fails: both are rolled back.
#[test]
fn a_chip_fails_beside_an_ordinary_database() {
    each(|client| {
        let chip = chip(24);
        let store = PageMapFtl::format(chip.clone(), &SETTINGS).unwrap();
        let _vfs = client.register("beside", Volume::open(store, VolumeConfig::default()).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let database = client.open(folder.path().join("plain.db").to_str().unwrap()).unwrap();
        database
            .run("ATTACH 'file:b.db?vfs=beside' AS two; CREATE TABLE t(v); CREATE TABLE two.t(v)")
            .unwrap();
        let both = "BEGIN; INSERT INTO main.t VALUES(1); INSERT INTO two.t VALUES(1); COMMIT";
        database.run(both).unwrap();
        chip.lock().power_off();
        assert!(database.run(both).is_err());
        chip.lock().power_on();
        for schema in ["main", "two"] {
            assert_eq!(number(&database, &format!("SELECT count(*) FROM {schema}.t")), 1, "{schema}");
        }
        database.run(both).unwrap();
        assert_eq!(number(&database, "SELECT count(*) FROM two.t"), 2);
    });
}

/// One of two databases on two chips fails to commit: the other one is rolled back, and commits by itself
/// afterwards.
#[test]
fn one_of_two_databases_fails() {
    each(|client| {
        let register = |name: &str, chip: &Shared<SimChip>| {
            let store = PageMapFtl::format(chip.clone(), &SETTINGS).unwrap();
            client.register(name, Volume::open(store, VolumeConfig::default()).unwrap())
        };
        for main_fails in [false, true] {
            let (good, bad) = (chip(24), chip(24));
            let (vfs, other) = (register("good", &good), register("bad", &bad));
            let (first, second, fails) =
                if main_fails { (&other, "good", &bad) } else { (&vfs, "bad", &bad) };
            let database = first.open("a.db").unwrap();
            database.run(&format!("ATTACH 'file:b.db?vfs={second}' AS two")).unwrap();
            database.run("CREATE TABLE main.t(v); CREATE TABLE two.t(v)").unwrap();
            database.run("BEGIN; INSERT INTO main.t VALUES(1); INSERT INTO two.t VALUES(1)").unwrap();
            fails.lock().power_off();
            assert!(database.run("COMMIT").is_err());
            assert!(!database.in_transaction(), "SQLite has rolled back");
            let schema = if main_fails { "two" } else { "main" };
            assert_eq!(number(&database, &format!("SELECT count(*) FROM {schema}.t")), 0, "{main_fails}");
            let before = good.lock().counters().page_programs_total();
            database.run(&format!("INSERT INTO {schema}.t VALUES(2)")).unwrap();
            assert!(good.lock().counters().page_programs_total() > before, "it is on the chip");
            assert_eq!(number(&database, &format!("SELECT sum(v) FROM {schema}.t")), 2);
        }
    });
}

/// The pages by which a database grows are written to their final places, once.
#[test]
fn a_first_transaction_takes_nearly_all_of_a_volume() {
    each(|client| {
        for (name, atomic_pages, batch_atomic) in
            [("first-256", 256, true), ("first-16", 16, true), ("first-stock", 256, false)]
        {
            let chip = chip(64);
            let store = PageMapFtl::format(chip.clone(), &FtlConfig { atomic_pages, ..SETTINGS }).unwrap();
            let settings = VolumeConfig { batch_atomic, ram_bytes: 1 << 19, ..VolumeConfig::default() };
            let volume = Volume::open(store, settings).unwrap();
            let free = volume.free_pages() + volume.stats().kept_back_pages as u32;
            let vfs = client.register(name, volume);
            let database = vfs.open("a.db").unwrap();
            database.run("PRAGMA page_size=2048; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
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
            let whole = text(&database, "PRAGMA integrity_check");
            assert_eq!(whole, "ok", "{name}");
        }
    });
}

#[test]
fn a_volume_that_is_nearly_half_full_can_be_vacuumed() {
    each(|client| {
        let vfs = flash(client, "half", 128);
        let free = vfs.with_volume(|volume| volume.free_pages()).unwrap();
        let database = vfs.open("a.db").unwrap();
        database.run("PRAGMA page_size=2048; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        let rows = free / 100 * 45;
        fill(&database, rows, 1_900).unwrap();
        database.run("VACUUM").unwrap();
        assert_eq!(number(&database, "SELECT count(*) FROM t WHERE length(v) = 1900"), i64::from(rows));
    });
}

/// A transaction that can neither be written nor rolled back leaves the last committed state.
#[test]
fn what_cannot_be_rolled_back_is_not_kept() {
    each(|client| {
        let chip = chip(24);
        let store = PageMapFtl::format(chip.clone(), &SETTINGS).unwrap();
        let volume = Volume::open(store, VolumeConfig { ram_bytes: 0, ..VolumeConfig::default() }).unwrap();
        let vfs = client.register("rollback", volume);
        let database = vfs.open("a.db").unwrap();
        database.run("PRAGMA cache_size=10; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        fill(&database, 300, 900).unwrap();
        database.run("BEGIN; UPDATE t SET v = 'new' WHERE id < 100").unwrap();
        chip.lock().power_off();
        assert!(database.run("UPDATE t SET v = randomblob(900); COMMIT").is_err());
        let _ = database.run("ROLLBACK");
        chip.lock().power_on();
        // Nobody knows what became of the program that was not answered: nothing is written until a mount.
        assert!(database.run("DELETE FROM t").is_err());
        drop((database, vfs));
        let store = PageMapFtl::mount(chip.clone(), &SETTINGS).unwrap();
        let volume = Volume::open(store, VolumeConfig { ram_bytes: 0, ..VolumeConfig::default() }).unwrap();
        let vfs = client.register("rollback", volume);
        let database = vfs.open("a.db").unwrap();
        let whole = text(&database, "PRAGMA integrity_check");
        assert_eq!(whole, "ok");
        assert_eq!(number(&database, "SELECT count(*) FROM t WHERE length(v) = 900"), 300);
    });
}
