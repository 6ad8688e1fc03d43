//! The SQLite that is linked in, on a simulated chip whose power fails.

use crate::draw::SetUp;
use crate::engine::{Cut, Engine, No, Side};
use nandex::ftl::fast::FastFtl;
use nandex::ftl::mapping::Scheme;
use nandex::ftl::page_map::{FtlSettings, PageMapFtl};
use nandex::nand::catalogue;
use nandex::nand::sim::{PowerCut, SimChip};
use nandex::{PageStore, Shared, StoreError};
use nandex_sqlite::{Vfs, Volume};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode};

pub(crate) struct Linked {
    chip: Shared<SimChip>,
    set_up: SetUp,
    bytes: u64,
    plain: Connection,
    flash: Option<Connection>,
    vfs: Option<Vfs>,
}

impl Linked {
    /// A chip with an empty volume; `None` where the FTL does not fit on it.
    pub(crate) fn new(set_up: &SetUp) -> Option<Linked> {
        let mut part = catalogue::find("k9f1g08u0f").unwrap().clone();
        part.geometry = set_up.geometry;
        let chip = Shared::new(SimChip::new(&part).ok()?);
        let store = store(set_up, chip.clone(), true).ok()?;
        let bytes = u64::from(store.page_count()) * store.page_bytes() as u64;
        drop(Volume::open(store, set_up.volume).ok()?);
        let plain = Connection::open_in_memory().unwrap();
        Some(Linked { chip, set_up: set_up.clone(), bytes, plain, flash: None, vfs: None })
    }

    fn is_off(&self) -> bool {
        !self.chip.lock().is_powered()
    }

    fn no(&self, side: Side, error: &rusqlite::Error) -> No {
        match error.sqlite_error_code() {
            _ if side == Side::Flash && self.is_off() => No::Off,
            Some(ErrorCode::DiskFull) => No::Full,
            _ => No::Said(error.to_string()),
        }
    }

    /// The database of a side; the power is off where it could not be opened.
    fn database(&self, side: Side) -> Result<&Connection, No> {
        match side {
            Side::Plain => Ok(&self.plain),
            Side::Flash => self.flash.as_ref().ok_or(No::Off),
        }
    }

    fn refused(&self, error: impl std::fmt::Display) -> No {
        if self.is_off() { No::Off } else { No::Said(error.to_string()) }
    }
}

fn store(set_up: &SetUp, chip: Shared<SimChip>, is_new: bool) -> Result<Box<dyn PageStore>, StoreError> {
    let Some(atomic_pages) = set_up.group else {
        let settings = <nandex::ftl::fast::Fast as Scheme>::Settings::default();
        return Ok(match is_new {
            true => Box::new(FastFtl::format(chip, settings)?),
            false => Box::new(FastFtl::mount(chip, settings)?),
        });
    };
    let settings = FtlSettings { atomic_pages, ..FtlSettings::default() };
    Ok(match is_new {
        true => Box::new(PageMapFtl::format(chip, settings)?),
        false => Box::new(PageMapFtl::mount(chip, settings)?),
    })
}

impl Engine for Linked {
    fn run(&mut self, side: Side, sql: &str) -> Result<(), No> {
        self.database(side)?.execute_batch(sql).map_err(|error| self.no(side, &error))
    }

    fn read(&mut self, side: Side, sql: &str) -> Result<Vec<String>, No> {
        let database = self.database(side)?;
        let rows = || -> rusqlite::Result<Vec<String>> {
            let mut statement = database.prepare(sql)?;
            let rows = statement.query_map([], |row| {
                Ok(match row.get_ref(0)? {
                    rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                    rusqlite::types::ValueRef::Null => String::new(),
                    other => String::from_utf8_lossy(other.as_bytes()?).into_owned(),
                })
            })?;
            rows.collect()
        };
        rows().map_err(|error| self.no(side, &error))
    }

    fn in_transaction(&mut self, side: Side) -> bool {
        self.database(side).is_ok_and(|database| !database.is_autocommit())
    }

    fn back_up(&mut self, name: &str) -> Result<(), No> {
        let vfs = self.vfs.as_ref().ok_or(No::Off)?;
        let mut copy = vfs.open(name).map_err(|error| self.refused(error))?;
        copy.execute_batch(&self.set_up.locking).map_err(|error| self.no(Side::Flash, &error))?;
        let mut done = || -> rusqlite::Result<bool> {
            let backup = Backup::new(self.database(Side::Flash).unwrap(), &mut copy)?;
            while let StepResult::More = backup.step(7)? {}
            Ok(backup.step(1)? == StepResult::Done)
        };
        match done() {
            Ok(true) => Ok(()),
            Ok(false) => Err(No::Said(String::from("a backup that found the database locked"))),
            Err(error) => Err(self.no(Side::Flash, &error)),
        }
    }

    fn plan_cut(&mut self, cut: Cut) {
        let mut chip = self.chip.lock();
        let at_operation = chip.operations() + cut.after;
        chip.plan_power_cut(PowerCut { at_operation, when: cut.when, torn: cut.torn, seed: cut.seed });
    }

    fn mount(&mut self, name: &str) -> Result<(), No> {
        self.flash = None;
        self.vfs = None;
        self.chip.lock().power_on();
        let store = store(&self.set_up, self.chip.clone(), false).map_err(|error| self.refused(error))?;
        let volume = Volume::open(store, self.set_up.volume).map_err(|error| self.refused(error))?;
        let vfs = Vfs::register(&self.set_up.name, volume).map_err(|error| self.refused(error))?;
        self.flash = Some(vfs.open(name).map_err(|error| self.refused(error))?);
        self.vfs = Some(vfs);
        Ok(())
    }

    fn uri(&self, name: &str) -> String {
        format!("file:{name}?vfs={}", self.set_up.name)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
