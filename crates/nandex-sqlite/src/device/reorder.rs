//! Crashes of the whole system while a database in an image is written. Between two barriers the system
//! writes in any order, so that any sectors of the writes may be there.
//!
//! A life is a chain of sessions on one medium. Each session begins with what the crash of the one before
//! left.

use super::gathering::Gathering;
use super::{Label, SECTOR};
use crate::open::Vfs;
use crate::settings::VolumeConfig;
use crate::volume::Volume;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::rng::Rng;
use nandex::{Cause, Lpn, PageStore, StoreError};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A page written, zeros for a trim; or a barrier.
#[derive(Clone)]
enum Event {
    Write(u32, Arc<[u8]>),
    Barrier,
}

/// The pages that are not zeros.
type Medium = BTreeMap<u32, Arc<[u8]>>;

/// Writes the sectors of a page for which `is_there` is true.
fn write(medium: &mut Medium, lpn: u32, data: &Arc<[u8]>, mut is_there: impl FnMut(usize) -> bool) {
    let mut page = medium.get(&lpn).map_or_else(|| vec![0; data.len()], |page| page.to_vec());
    for (sector, new) in data.chunks(SECTOR).enumerate().filter(|(sector, _)| is_there(*sector)) {
        page[sector * SECTOR..][..new.len()].copy_from_slice(new);
    }
    medium.insert(lpn, page.into());
}

/// Returns a medium as a crash after these events of a session may leave it. Without barriers no event is
/// certain.
fn left(begun: &Medium, events: &[Event], has_barriers: bool, rng: &mut Rng) -> Medium {
    let mut medium = begun.clone();
    let last = events.iter().rposition(|event| matches!(event, Event::Barrier));
    let safe = last.filter(|_| has_barriers).map_or(0, |at| at + 1);
    for event in &events[..safe] {
        if let Event::Write(lpn, data) = event {
            write(&mut medium, *lpn, data, |_| true);
        }
    }
    // Of eight writes so many are there, and so many are torn; or those of one side of a place.
    let (there, torn) = (rng.below(9), [0, 0, 1, 3, 8][rng.below(5) as usize]);
    let (side, place) = (rng.below(6), rng.below((events.len() - safe + 1) as u64) as usize);
    for (at, event) in events[safe..].iter().enumerate() {
        let Event::Write(lpn, data) = event else { continue };
        let is_there = match side {
            0 => at < place,
            1 => at >= place,
            2 => at == place,
            3 => at != place,
            _ => rng.below(8) < there,
        };
        if rng.below(8) < torn {
            let (way, first) = (rng.below(3), rng.below((data.len() / SECTOR) as u64) as usize);
            write(&mut medium, *lpn, data, |sector| match way {
                0 => sector < first,
                1 => sector >= first,
                _ => rng.chance(1, 2),
            });
        } else if is_there {
            write(&mut medium, *lpn, data, |_| true);
        }
    }
    medium
}

/// A file that records its writes and barriers.
#[derive(Clone)]
struct Recorder(Arc<Mutex<(Medium, Vec<Event>)>>, Label);

impl Recorder {
    fn on(medium: Medium, label: Label) -> Recorder {
        Recorder(Arc::new(Mutex::new((medium, Vec::new()))), label)
    }

    fn events(&self) -> usize {
        self.0.lock().unwrap().1.len()
    }

    fn put(&self, lpn: Lpn, data: Arc<[u8]>) {
        let (medium, events) = &mut *self.0.lock().unwrap();
        medium.insert(lpn.0, Arc::clone(&data));
        events.push(Event::Write(lpn.0, data));
    }
}

impl PageStore for Recorder {
    fn page_bytes(&self) -> usize {
        self.1.stored_bytes()
    }

    fn page_count(&self) -> u32 {
        self.1.blocks * self.1.block_pages
    }

    fn read(&mut self, lpn: Lpn, _: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        match self.0.lock().unwrap().0.get(&lpn.0) {
            Some(page) => data.copy_from_slice(page),
            None => data.fill(0),
        }
        Ok(())
    }

    fn write(&mut self, lpn: Lpn, _: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.put(lpn, data.into());
        Ok(())
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.put(lpn, vec![0; self.page_bytes()].into());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.0.lock().unwrap().1.push(Event::Barrier);
        Ok(())
    }

    fn durable_writes(&self) -> bool {
        false
    }

    fn prefix_consistent(&self) -> bool {
        false
    }

    fn ram_bytes(&self) -> usize {
        0
    }
}

/// One way to use a database.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    label: Label,
    pragmas: &'static str,
    /// Most rows that a transaction changes.
    rows: u64,
    group_pages: u32,
    ram_bytes: usize,
    /// Number of rows that are rarely changed, among those that often are.
    cold: i64,
    /// Whether single writes make groups.
    gathers: bool,
}

const LABEL: Label = Label { page_bytes: 2048, block_pages: 16, blocks: 48 };
const PLAIN: Way = Way {
    name: "delete",
    label: LABEL,
    pragmas: "",
    rows: 3,
    group_pages: 48,
    ram_bytes: 1 << 20,
    cold: 200,
    gathers: true,
};
const EXCLUSIVE: &str = "PRAGMA locking_mode=EXCLUSIVE";

const WAYS: [Way; 8] = [
    PLAIN,
    Way { name: "nearly full", pragmas: EXCLUSIVE, cold: 400, ..PLAIN },
    Way { name: "not gathered", cold: 300, gathers: false, ..PLAIN },
    Way { name: "many rows", pragmas: EXCLUSIVE, rows: 60, ..PLAIN },
    // More pages than a group takes, written before they commit.
    Way { name: "beyond a group", pragmas: "PRAGMA cache_size=4", rows: 60, group_pages: 8, ..PLAIN },
    Way { name: "spills", pragmas: "PRAGMA cache_size=2", rows: 90, ram_bytes: 1 << 16, ..PLAIN },
    Way {
        name: "wal",
        label: Label { page_bytes: 1024, block_pages: 64, blocks: 24 },
        pragmas: "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=40",
        rows: 20,
        ..PLAIN
    },
    Way {
        name: "small pages",
        label: Label { page_bytes: 512, block_pages: 8, blocks: 256 },
        pragmas: "PRAGMA journal_mode=TRUNCATE",
        rows: 8,
        group_pages: 64,
        ..PLAIN
    },
];

/// Number of the transaction that wrote each row, by key. The row follows from it.
type Rows = BTreeMap<i64, i64>;

/// First key of the rarely changed rows.
const COLD: i64 = 1000;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn mount(vfs: &str, way: &Way, store: Recorder, is_new: bool) -> Result<(Vfs, Connection), String> {
    let settings = FtlConfig { atomic_pages: way.group_pages, ..FtlConfig::default() };
    let chip = way.label.chip(store).map_err(text)?;
    let ftl = if is_new { PageMapFtl::format(chip, &settings) } else { PageMapFtl::mount(chip, &settings) };
    let settings = VolumeConfig { ram_bytes: way.ram_bytes, ..VolumeConfig::default() };
    let ftl = ftl.map_err(text)?;
    let volume = match way.gathers {
        true => Volume::open(Gathering::new(ftl), settings),
        false => Volume::open(ftl, settings),
    };
    let vfs = Vfs::register(vfs, volume.map_err(text)?).map_err(text)?;
    let database = vfs.open("a.db").map_err(text)?;
    database.execute_batch(way.pragmas).map_err(text)?;
    Ok((vfs, database))
}

const VALUE: &str = "printf('%0*d', 200 + ?1 % 300 + 1200 * (?1 >= 1000), ?2)";

/// Runs one transaction that inserts, changes and deletes rows.
fn change(
    database: &Connection,
    rows: &mut Rows,
    number: i64,
    way: &Way,
    rng: &mut Rng,
) -> rusqlite::Result<()> {
    database.execute_batch("BEGIN")?;
    for _ in 0..=rng.below(way.rows) {
        let is_cold = rng.chance(1, 6);
        let id = if is_cold { COLD + rng.below(way.cold as u64) as i64 } else { rng.below(300) as i64 };
        if !is_cold && rng.chance(1, 4) {
            database.execute("DELETE FROM t WHERE id = ?", [id])?;
            rows.remove(&id);
        } else {
            let sql = format!("INSERT OR REPLACE INTO t VALUES(?1, ?2, {VALUE})");
            database.prepare(&sql)?.execute([id, number])?;
            rows.insert(id, number);
        }
    }
    database.execute_batch("COMMIT")
}

fn begin(database: &Connection, way: &Way) -> rusqlite::Result<Rows> {
    database.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, number, value)")?;
    let ids = COLD..COLD + way.cold;
    for id in ids.clone() {
        database.execute(&format!("INSERT INTO t VALUES(?1, ?2, {VALUE})"), [id, 0])?;
    }
    Ok(ids.map(|id| (id, 0)).collect())
}

fn read(database: &Connection) -> Result<Rows, String> {
    let ask = |sql: &str| database.query_row(sql, [], |row| row.get::<_, String>(0)).map_err(text);
    let verdict = ask("PRAGMA integrity_check")?;
    if verdict != "ok" {
        return Err(verdict);
    }
    let sql =
        format!("SELECT id, number, value = {} FROM t", VALUE.replace("?1", "id").replace("?2", "number"));
    let mut statement = database.prepare(&sql).map_err(text)?;
    let all = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, bool>(2)?)));
    let mut rows = Rows::new();
    for row in all.map_err(text)? {
        let (id, number, is_whole) = row.map_err(text)?;
        if !is_whole {
            return Err(format!("row {id} is damaged"));
        }
        rows.insert(id, number);
    }
    Ok(rows)
}

/// A session: transactions, and perhaps a checkpoint. Returns the states, and the events that were
/// acknowledged with each; and how many pages the FTL moved.
fn session(
    (vfs, database): (Vfs, Connection),
    store: &Recorder,
    way: &Way,
    (mut rows, numbers, rng): (Rows, &mut i64, &mut Rng),
) -> (Vec<(Rows, usize)>, u64) {
    let mut states = vec![(rows.clone(), 0)];
    for _ in 0..rng.below(14) {
        *numbers += 1;
        change(&database, &mut rows, *numbers, way, rng).unwrap();
        states.push((rows.clone(), store.events()));
    }
    drop(database);
    if rng.chance(1, 4) {
        vfs.checkpoint().unwrap();
    }
    let moved = vfs.stats().map_or(0, |stats| stats.store.moved_pages);
    (states, moved)
}

/// Cuts the power `cuts` times in sessions on one medium. Returns a message for each cut after which the rows
/// were wrong.
fn wrong(way: &Way, cuts: u64, has_barriers: bool) -> Vec<String> {
    let mut rng = Rng::new(cuts);
    let name = format!("reorder-{}-{has_barriers}", way.name);
    let store = Recorder::on(Medium::new(), way.label);
    let (vfs, database) = mount(&name, way, store.clone(), true).unwrap();
    let mut rows = begin(&database, way).unwrap();
    drop((vfs, database));
    let mut medium = store.0.lock().unwrap().0.clone();
    let (mut number, mut done, mut erases, mut moved, mut wrong) = (0, 0, 0, 0, Vec::new());
    while done < cuts {
        let store = Recorder::on(medium.clone(), way.label);
        let mounted = mount(&name, way, store.clone(), false).unwrap();
        let (states, moves) = session(mounted, &store, way, (rows.clone(), &mut number, &mut rng));
        moved += moves;
        let events = store.0.lock().unwrap().1.clone();
        erases += events.iter().filter(|event| is_trim(event)).count();
        let begun = medium.clone();
        for _ in 0..6 {
            let end = rng.below(events.len() as u64 + 1) as usize;
            let left = left(&begun, &events[..end], has_barriers, &mut rng);
            let at = states.partition_point(|(_, acknowledged)| *acknowledged <= end) - 1;
            let wanted = [Some(&states[at].0), states.get(at + 1).map(|(rows, _)| rows)];
            let again = Recorder::on(left.clone(), way.label);
            let found = mount(&name, way, again, false).and_then(|(_vfs, database)| read(&database));
            done += 1;
            match found {
                Ok(found) if wanted.contains(&Some(&found)) => (rows, medium) = (found, left),
                Ok(_) => wrong.push(format!("{}, cut {done}: not what {at} transactions leave", way.name)),
                Err(error) => wrong.push(format!("{}, cut {done}: {error}", way.name)),
            }
        }
    }
    assert!(erases > 0, "{}: blocks are erased as well", way.name);
    assert!(moved > 0 || way.cold < 400, "{}: pages move", way.name);
    wrong
}

fn is_trim(event: &Event) -> bool {
    matches!(event, Event::Write(_, data) if data.iter().all(|&byte| byte == 0))
}

#[test]
fn what_no_barrier_parts_may_come_in_any_order() {
    let times = std::env::var("NANDEX_CUTS").map_or(1, |times| times.parse().unwrap());
    let wrong: Vec<String> = WAYS.iter().flat_map(|way| wrong(way, 120 * times, true)).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn without_barriers_it_may_not() {
    let wrong = wrong(&PLAIN, 120, false);
    assert!(wrong.len() >= 20, "only {} of 120 wrong", wrong.len());
}
