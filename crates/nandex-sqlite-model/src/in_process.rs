//! A SQLite in this process, on a simulated chip whose power can be cut.

use crate::draw::SetUp;
use crate::engine::{Cut, Engine, No, Side};
use crate::sqlite::{Database, Refusal, Sqlite};
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue;
use nandex::nand::sim::{PowerCut, SimChip};
use nandex::{PageStore, Shared, StoreError};
use nandex_papers::ftl::fast::{FastConfig, FastFtl};
use nandex_sqlite::{Vfs, Volume};

pub(crate) struct InProcess {
    sqlite: Sqlite,
    chip: Shared<SimChip>,
    set_up: SetUp,
    bytes: u64,
    plain: Database,
    flash: Option<Database>,
    vfs: Option<Vfs>,
}

impl InProcess {
    /// Formats an empty volume on a new chip; `None` if the FTL does not fit the chip.
    pub(crate) fn new(sqlite: Sqlite, set_up: &SetUp) -> Result<Option<InProcess>, String> {
        let mut part = catalogue::find("k9f1g08u0f").ok_or("no such part")?.clone();
        part.geometry = set_up.geometry;
        let Ok(chip) = SimChip::new(&part).map(Shared::new) else { return Ok(None) };
        let Ok(store) = store(set_up, chip.clone(), true) else { return Ok(None) };
        let bytes = u64::from(store.page_count()) * store.page_bytes() as u64;
        if Volume::open(store, set_up.volume).is_err() {
            return Ok(None);
        }
        let plain = sqlite.open(":memory:").map_err(|error| error.to_string())?;
        let set_up = set_up.clone();
        Ok(Some(InProcess { sqlite, chip, set_up, bytes, plain, flash: None, vfs: None }))
    }

    fn no(&self, side: Side, error: &Refusal) -> No {
        match error {
            _ if side == Side::Flash && self.is_off() => No::Off,
            error if error.is_full() => No::Full,
            error => No::Said(error.to_string()),
        }
    }

    /// The open database of a side; [`No::Off`] if a power cut kept it from being opened.
    fn database(&self, side: Side) -> Result<&Database, No> {
        match side {
            Side::Plain => Ok(&self.plain),
            Side::Flash => self.flash.as_ref().ok_or(No::Off),
        }
    }

    fn refused(&self, error: impl std::fmt::Display) -> No {
        if self.is_off() { No::Off } else { No::Said(error.to_string()) }
    }

    fn is_off(&self) -> bool {
        !self.chip.lock().is_powered()
    }
}

fn store(set_up: &SetUp, chip: Shared<SimChip>, is_new: bool) -> Result<Box<dyn PageStore>, StoreError> {
    let Some(atomic_pages) = set_up.group else {
        let settings = FastConfig::default();
        return Ok(match is_new {
            true => Box::new(FastFtl::format(chip, &settings)?),
            false => Box::new(FastFtl::mount(chip, &settings)?),
        });
    };
    let settings = FtlConfig { atomic_pages, ..FtlConfig::default() };
    Ok(match is_new {
        true => Box::new(PageMapFtl::format(chip, &settings)?),
        false => Box::new(PageMapFtl::mount(chip, &settings)?),
    })
}

impl Engine for InProcess {
    fn read(&mut self, side: Side, sql: &str) -> Result<Vec<String>, No> {
        self.database(side)?.read(sql).map_err(|error| self.no(side, &error))
    }

    fn in_transaction(&mut self, side: Side) -> bool {
        self.database(side).is_ok_and(Database::in_transaction)
    }

    fn back_up(&mut self, name: &str) -> Result<(), No> {
        let copied = || {
            let copy = self.sqlite.open(&self.uri(name))?;
            copy.run(&self.set_up.locking)?;
            self.flash.as_ref().map_or(Ok(()), |flash| flash.back_up(&copy))
        };
        copied().map_err(|error| self.no(Side::Flash, &error))
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
        let vfs = self.sqlite.register(&self.set_up.name, volume).map_err(|error| self.refused(error))?;
        self.vfs = Some(vfs);
        self.flash = Some(self.sqlite.open(&self.uri(name)).map_err(|error| self.refused(error))?);
        Ok(())
    }

    fn uri(&self, name: &str) -> String {
        format!("file:{name}?vfs={}", self.set_up.name)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
