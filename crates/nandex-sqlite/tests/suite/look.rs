//! Looking at a volume: the figures of SQLite's pragmas, every damaged page by its file, nothing written.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "bundled")]

use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue;
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::rng::Rng;
use nandex::{Shared, StoreError};
use nandex_sqlite::{FileKind, Look, Vfs, Volume, VolumeConfig, chip_of_image};
use rusqlite::{Connection, ErrorCode};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

fn vfs(name: &str) -> Vfs {
    Vfs::register_for_devices(name, VolumeConfig::default()).unwrap()
}

fn open(vfs: &Vfs, name: &str, image: &Path) -> Connection {
    vfs.open(&format!("file:{name}?device={}&size=6M", image.display())).unwrap()
}

fn look(image: &Path) -> Result<Look, StoreError> {
    let before = fs::read(image).unwrap();
    let look = chip_of_image(image).map(|chip| Look::of_chip(chip.unwrap()));
    assert!(fs::read(image).unwrap() == before, "a look wrote to the image");
    look?
}

fn text(database: &Connection, sql: &str) -> String {
    database.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0)).map_or_else(
        |error| error.to_string(),
        |value| match value {
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        },
    )
}

fn stat(stats: &str, name: &str) -> u64 {
    stats.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap()
}

/// Rows of random bytes, so that no two pages of the database are equal.
fn fill(database: &Connection, rows: u64, seed: u64) {
    let mut rng = Rng::new(seed);
    database.execute_batch("BEGIN; CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, v BLOB)").unwrap();
    for _ in 0..rows {
        let mut value = [0; 300];
        rng.fill(&mut value);
        database.execute("INSERT INTO t(v) VALUES(?)", [value]).unwrap();
    }
    database.execute_batch("COMMIT").unwrap();
}

#[test]
fn the_figures_are_those_of_the_pragmas() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("chip");
    let vfs = vfs("look-figures");
    let (first, second) = (open(&vfs, "first.db", &image), open(&vfs, "second.db", &image));
    assert_eq!(text(&second, "PRAGMA locking_mode=EXCLUSIVE"), "exclusive");
    assert_eq!(text(&second, "PRAGMA journal_mode=WAL"), "wal");
    fill(&first, 200, 1);
    fill(&second, 90, 2);
    // What a process that is killed here leaves.
    let killed = folder.path().join("killed");
    fs::copy(&image, &killed).unwrap();
    let (names, stats) = (text(&first, "PRAGMA nandex_files"), text(&first, "PRAGMA nandex_stats"));
    let seen = look(&killed).unwrap();
    let kinds: Vec<(&str, FileKind)> = seen.files.iter().map(|f| (f.name.as_str(), f.kind)).collect();
    assert_eq!(kinds.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("\n"), names);
    let database = FileKind::Database;
    let all = [("first.db", database), ("second.db", database), ("second.db-wal", FileKind::Log)];
    assert_eq!(kinds, all);
    assert_eq!(stat(&stats, "free_pages"), seen.stats.free_pages);
    assert_eq!(stat(&stats, "kept_back_pages"), seen.stats.kept_back_pages);
    assert_eq!(stat(&stats, "group_pages_max"), seen.stats.group_pages_max);
    assert_eq!(stat(&stats, "best_page_size"), seen.page_bytes as u64);
    let header = seen.files[0].header.unwrap();
    assert_eq!(format!("Integer({})", header.pages), text(&first, "PRAGMA page_count"));
    assert!(!header.is_logged && header.page_bytes == 2048);
    assert!(seen.files[1].header.unwrap().is_logged);
    assert_eq!((seen.faults.len(), seen.is_unfinished), (0, false));
    // V1: each page has one owner.
    let of_files: u32 = seen.files.iter().map(|file| file.room_pages).sum();
    let free = (seen.stats.free_pages + seen.stats.kept_back_pages) as u32;
    assert_eq!(seen.directory_pages + of_files + free, seen.pages);
    // Until there is no room.
    first.execute_batch("CREATE TABLE big(v)").unwrap();
    let refused =
        (0..).find_map(|_| first.execute("INSERT INTO big VALUES(randomblob(20000))", []).err()).unwrap();
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DiskFull));
    drop((first, second));
    let full = look(&image).unwrap();
    assert!(full.stats.free_pages < 64 && full.faults.is_empty(), "{full:?}");
    assert_eq!(full.files.len(), 2, "the log goes with its last connection");
}

/// Offsets, in pages of an image, of the pages of a file, found by their contents if they are unique.
fn places(image: &[u8], stored: usize, plain: &[u8]) -> Vec<(u32, usize)> {
    let found = |page: &[u8]| {
        let mut places = (1..image.len() / stored).filter(|at| image[at * stored..].starts_with(page));
        places.next().filter(|_| places.next().is_none())
    };
    let pages = plain.chunks(2048).enumerate();
    pages.filter_map(|(page, bytes)| Some((page as u32, found(bytes)?))).collect()
}

#[test]
fn a_damaged_page_is_told_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let (image, plain) = (folder.path().join("chip"), folder.path().join("plain.db"));
    let vfs = vfs("look-damage");
    for (name, seed) in [("a.db", 3), ("b.db", 4)] {
        fill(&open(&vfs, name, &image), 150, seed);
    }
    let database = open(&vfs, "a.db", &image);
    database.backup("main", &plain, None::<fn(rusqlite::backup::Progress)>).unwrap();
    drop(database);
    assert!(look(&image).unwrap().faults.is_empty());
    let (whole, stored) = (fs::read(&image).unwrap(), 2560);
    // SQLite's copy of page 0 counts its changes anew.
    let places = places(&whole, stored, &fs::read(&plain).unwrap());
    assert!(places.len() > 15, "{} pages of the database were found", places.len());
    let mut rng = Rng::new(5);
    for round in 0..40 {
        let (page, at) = places[rng.below(places.len() as u64) as usize];
        let (other, other_at) = places[rng.below(places.len() as u64) as usize];
        let mut bytes = whole.clone();
        let range = at * stored..(at + 1) * stored;
        let mut expected = vec![page];
        match round % 4 {
            0 => bytes[range].fill(0),
            1 => bytes[at * stored + rng.below(2048) as usize] ^= 1 << rng.below(8),
            2 => {
                let copy = whole[other_at * stored..(other_at + 1) * stored].to_vec();
                bytes[range.clone()].copy_from_slice(&copy);
                bytes[other_at * stored..(other_at + 1) * stored].copy_from_slice(&whole[range]);
                expected.push(other);
                expected.sort_unstable();
                expected.dedup();
            }
            _ => rng.fill(&mut bytes[range]),
        }
        if bytes == whole {
            continue;
        }
        fs::write(&image, &bytes).unwrap();
        let seen = look(&image).unwrap();
        let told: Vec<(&str, Option<u32>)> =
            seen.faults.iter().map(|fault| (fault.file.as_str(), fault.page)).collect();
        let expected: Vec<(&str, Option<u32>)> = expected.iter().map(|&page| ("a.db", Some(page))).collect();
        assert_eq!(told, expected, "round {round}");
        assert!(seen.faults[0].to_string().starts_with(&format!("a.db, page {}: ", expected[0].1.unwrap())));
    }
}

/// Wherever an image is damaged, each page found sound reads as it was written.
#[test]
fn what_is_found_sound_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("chip");
    let vfs = vfs("look-anywhere");
    let contents = |image: &Path| {
        let database = vfs.open(&format!("file:a.db?device={}&create=0", image.display())).unwrap();
        text(&database, "SELECT group_concat(a || hex(v)) FROM t")
    };
    fill(&open(&vfs, "a.db", &image), 300, 11);
    let written = contents(&image);
    let (whole, stored) = (fs::read(&image).unwrap(), 2560);
    let used: Vec<usize> =
        (1..whole.len() / stored).filter(|at| whole[(at + 1) * stored - 1] == 0xa5).collect();
    let (mut rng, mut sound) = (Rng::new(12), 0);
    for round in 0..60 {
        let at = used[rng.below(used.len() as u64) as usize];
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes[at * stored..(at + 1) * stored].fill(0),
            1 => bytes[at * stored + rng.below(2100) as usize] ^= 1 << rng.below(8),
            _ => rng.fill(&mut bytes[at * stored..(at + 1) * stored]),
        }
        fs::write(&image, &bytes).unwrap();
        if look(&image).is_ok_and(|seen| seen.faults.is_empty()) {
            sound += 1;
            assert!(contents(&image) == written, "round {round}: page {at} of the image");
        }
    }
    assert!((5..55).contains(&sound), "{sound} of 60 were found sound");
}

#[test]
fn a_database_that_lacks_pages_is_told() {
    let chip = Shared::new(SimChip::new(catalogue::find("k9f1g08u0f").unwrap()).unwrap());
    let volume = |is_new: bool| {
        let make = if is_new { PageMapFtl::format } else { PageMapFtl::mount };
        Volume::open(make(chip.clone(), &FtlConfig::default()).unwrap(), VolumeConfig::default()).unwrap()
    };
    let vfs = Vfs::register("look-short", volume(true)).unwrap();
    let database = vfs.open("a.db").unwrap();
    fill(&database, 400, 6);
    // A header of more pages than there are, in a page that is whole: another program's doing.
    database.execute_batch("PRAGMA writable_schema=ON").unwrap();
    drop(database);
    assert!(vfs.with_volume(Volume::check).unwrap().is_empty());
    drop(vfs);
    let mut store = volume(false).into_store();
    let mut page = vec![0; 2048];
    let header = (0..store.page_count()).find(|&lpn| {
        store.read(nandex::Lpn(lpn), nandex::Cause::Check, &mut page).unwrap();
        page.starts_with(b"SQLite format 3\0")
    });
    page[28..32].copy_from_slice(&90_000_u32.to_be_bytes());
    store.write(nandex::Lpn(header.unwrap()), nandex::Cause::Host, &page).unwrap();
    drop(store);
    let seen = Look::of_chip(chip).unwrap();
    assert_eq!(seen.faults.len(), 1);
    assert_eq!(seen.faults[0].page, None);
    assert!(seen.faults[0].to_string().contains("a.db: its header says 90000 pages of 2048 bytes"));
}

/// A look after a power cut sees the volume as a later mount leaves it, and does not change the chip.
#[test]
fn what_a_cut_left_is_seen_as_a_mount_leaves_it() {
    let mut unfinished = 0;
    for life in 0..60 {
        let mut rng = Rng::new(life);
        let part = catalogue::find("k9f1g08u0f").unwrap().clone().with_blocks(24);
        let chip = Shared::new(SimChip::new(&part).unwrap());
        let ftl = FtlConfig { atomic_pages: [8, 256][life as usize % 2], ..FtlConfig::default() };
        let store = PageMapFtl::format(chip.clone(), &ftl).unwrap();
        let volume = Volume::open(store, VolumeConfig::default()).unwrap();
        let vfs = Vfs::register(&format!("look-cut-{life}"), volume).unwrap();
        let database = vfs.open("a.db").unwrap();
        fill(&database, 100, life);
        let at_operation = chip.lock().operations() + rng.below(100);
        let torn = TornModel::ALL[life as usize % 4];
        chip.lock().plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed: life });
        for seed in 0..20 {
            if database.execute("UPDATE t SET v = randomblob(300) WHERE a % 4 = ?", [seed % 4]).is_err() {
                break;
            }
        }
        drop((database, vfs));
        chip.lock().power_on();
        let changes = |chip: &Shared<SimChip>| {
            let counters = chip.lock().counters();
            (counters.page_programs_total(), counters.block_erases_total())
        };
        let before = changes(&chip);
        let seen = Look::of_chip(chip.clone()).unwrap();
        assert_eq!(changes(&chip), before, "life {life}: a look wrote to the chip");
        assert!(seen.faults.is_empty(), "life {life}: {:?}", seen.faults);
        unfinished += u32::from(seen.is_unfinished);
        let store = PageMapFtl::mount(chip.clone(), &ftl).unwrap();
        let volume = Volume::open(store, VolumeConfig::default()).unwrap();
        assert_eq!(seen.is_unfinished, changes(&chip) != before, "life {life}");
        let files: Vec<(String, u64, u32)> =
            volume.files().into_iter().map(|file| (file.name, file.bytes, file.room_pages)).collect();
        let looked: Vec<(String, u64, u32)> =
            seen.files.into_iter().map(|file| (file.name, file.bytes, file.room_pages)).collect();
        assert_eq!(looked, files, "life {life}");
        assert_eq!(seen.stats.free_pages, volume.stats().free_pages, "life {life}");
    }
    assert!(unfinished > 3, "{unfinished} commits were found half applied");
}

#[test]
fn what_is_no_whole_image_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("chip");
    fill(&open(&vfs("look-parts"), "a.db", &image), 20, 8);
    let (whole, part) = (fs::read(&image).unwrap(), folder.path().join("part"));
    let mut rng = Rng::new(9);
    for round in 0..60 {
        let mut bytes = whole.clone();
        let expected = match round % 3 {
            0 => {
                bytes.truncate(24 + rng.below(whole.len() as u64 - 2560 - 24) as usize);
                ["shorter than its label says", "smaller than a page"]
            }
            1 => {
                bytes[8 + rng.below(16) as usize] ^= 1 << rng.below(8);
                ["label of the image is damaged"; 2]
            }
            _ => {
                bytes.truncate(8 + rng.below(16) as usize);
                ["label of the image is damaged"; 2]
            }
        };
        fs::write(&part, &bytes).unwrap();
        let why = look(&part).unwrap_err().to_string();
        assert!(expected.iter().any(|words| why.contains(words)), "round {round}: {why}");
    }
    for other in [&b""[..], b"NDXIMG", b"SQLite format 3\0", &[0; 5000]] {
        fs::write(&part, other).unwrap();
        assert!(chip_of_image(&part).unwrap().is_none());
    }
    assert!(matches!(chip_of_image(&folder.path().join("none")), Err(StoreError::Device(_))));
    // Nobody waits for the other end of a FIFO.
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert!(chip_of_image(&fifo).unwrap().is_none() && chip_of_image(folder.path()).unwrap().is_none());
    // The chip behind the label holds no volume, or half of one.
    let mut erased = whole.clone();
    erased[2560..].fill(0);
    fs::write(&part, &erased).unwrap();
    assert!(matches!(look(&part), Err(StoreError::NotFormatted(_))));
}

const PATH: &str = "NANDEX_LOOK_PATH";

/// Runs in the other process: keeps a database open until killed.
#[test]
fn another_process() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let vfs = vfs("look-other");
    let database = open(&vfs, "a.db", &PathBuf::from(path));
    fill(&database, 10, 10);
    eprintln!("open");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn one_that_is_in_use_is_told_with_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("chip");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "look::another_process", "--nocapture"])
        .env(PATH, &image)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("open")));
    let Err(StoreError::InUse(why)) = chip_of_image(&image) else { panic!("it is in use") };
    let process = if cfg!(target_os = "linux") { child.id().to_string() } else { String::from("another") };
    assert!(why.contains("chip is in use") && why.contains(&process), "{why}");
    child.kill().unwrap();
    child.wait().unwrap();
    // Those who look do so together, and keep out who would change it.
    let (first, second) = (chip_of_image(&image).unwrap(), chip_of_image(&image).unwrap());
    let vfs = vfs("look-shared");
    let late = vfs.open(&format!("file:a.db?device={}", image.display()));
    assert!(late.is_err(), "somebody looks");
    drop(second);
    assert_eq!(Look::of_chip(first.unwrap()).unwrap().files.len(), 1);
    drop(open(&vfs, "a.db", &image));
}
