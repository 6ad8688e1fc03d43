//! The set-up of a run: index, FTL, chip, records, workload; checked before anything is made.

use nandex::nand::{Part, catalogue};
use nandex::ordered::{Durability, RecordFormat};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{self, Hosting, IndexEntry, STORES};
use nandex_stacks::spatial::registry::{SpatialEntry, spatial};
use serde::{Deserialize, Serialize};

/// The chip that is offered first: so small that blocks fill and are erased while one looks on.
pub const SMALL_CHIP: &str = "small";

/// Pages that a chip may have to be drawn.
pub const PAGES_MAX: u32 = 8192;

/// Operations of one run.
pub const OPERATIONS_MAX: usize = 5000;

/// A run as it is asked for.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// An ordered index of the registry, or a spatial one.
    pub index: String,
    /// The FTL, for an index that stands on one.
    #[serde(default)]
    pub ftl: Option<String>,
    /// A part of the catalogue, cut to some blocks, or `small`.
    #[serde(default = "small")]
    pub chip: String,
    /// Blocks of it.
    #[serde(default = "blocks")]
    pub blocks: u32,
    /// Bytes of a key and of a value.
    #[serde(default = "record")]
    pub record: (u8, u8),
    /// RAM, tables included; none for no cache.
    #[serde(default)]
    pub ram: Option<usize>,
    /// The durability class: `every operation`, `every sync` or `none`.
    #[serde(default = "durability")]
    pub durability: String,
    /// Options of index, FTL and cache.
    #[serde(default)]
    pub options: Vec<(String, String)>,
    /// The workload.
    #[serde(default = "workload")]
    pub workload: String,
    /// Operations of it.
    #[serde(default = "operations")]
    pub operations: usize,
    /// A sync after so many of them; 0 for none.
    #[serde(default)]
    pub sync_every: usize,
    /// Fixes everything random.
    #[serde(default = "seed")]
    pub seed: u64,
}

fn small() -> String {
    SMALL_CHIP.into()
}
fn blocks() -> u32 {
    32
}
fn record() -> (u8, u8) {
    (4, 4)
}
fn durability() -> String {
    Durability::EveryOperation.name().into()
}
fn workload() -> String {
    "random".into()
}
fn operations() -> usize {
    150
}
fn seed() -> u64 {
    1
}

/// Why a run cannot be.
pub(crate) type Refusal = String;

/// The subject of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    /// An ordered index.
    Ordered(&'static IndexEntry),
    /// A spatial one, with points in the plane.
    Spatial(&'static SpatialEntry),
}

/// A run that may begin.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) entry: Entry,
    pub(crate) part: Part,
    pub(crate) settings: Settings,
}

impl Setup {
    /// A run of this index with everything else as offered first.
    pub fn new(index: &str) -> Setup {
        Setup {
            index: index.into(),
            ftl: None,
            chip: small(),
            blocks: blocks(),
            record: record(),
            ram: None,
            durability: durability(),
            options: Vec::new(),
            workload: workload(),
            operations: operations(),
            sync_every: 0,
            seed: seed(),
        }
    }

    fn part(&self) -> Result<Part, Refusal> {
        let mut part = if self.chip == SMALL_CHIP {
            let mut part = catalogue::mlc_with(512, 16, self.blocks);
            part.name = SMALL_CHIP.into();
            part
        } else {
            let found = catalogue::find(&self.chip).cloned();
            found.ok_or_else(|| format!("there is no chip '{}' (nandex list chips)", self.chip))?
        };
        part.geometry.blocks = self.blocks;
        part.validate().map_err(|e| format!("{} blocks of this chip: {e}", self.blocks))?;
        if part.geometry.pages() > PAGES_MAX {
            let most = PAGES_MAX / part.geometry.pages_per_block;
            return Err(format!(
                "{} blocks are too many to be drawn: {most} at most of this chip",
                self.blocks
            ));
        }
        Ok(part)
    }

    pub(crate) fn plan(&self) -> Result<Plan, Refusal> {
        if self.operations > OPERATIONS_MAX {
            return Err(format!("{} operations: {OPERATIONS_MAX} at most", self.operations));
        }
        if self.record.0 == 0 {
            return Err("a key has at least one byte".into());
        }
        if self.record.0 > 8 {
            return Err("keys of more than 8 bytes are not made here".into());
        }
        let mut settings = Settings::new(RecordFormat::new(self.record.0, self.record.1));
        settings.ram_bytes = self.ram;
        settings.durability = [Durability::EveryOperation, Durability::EverySync, Durability::None]
            .into_iter()
            .find(|class| class.name() == self.durability)
            .ok_or_else(|| format!("there is no durability class '{}'", self.durability))?;
        for (name, value) in &self.options {
            settings = settings.with(name, value);
        }
        let part = self.part()?;
        if let Ok(entry) = spatial(&self.index) {
            let settings = self.on_ftl(settings, false)?;
            entry.check_options(&settings.options).map_err(|e| e.to_string())?;
            return Ok(Plan { entry: Entry::Spatial(entry), part, settings });
        }
        let entry = registry::index(&self.index).map_err(|e| e.to_string())?;
        let settings = match entry.hosting {
            Hosting::Store => self.on_ftl(settings, entry.divides_chip)?,
            Hosting::Raw => settings,
        };
        entry.check_options(&settings.options).map_err(|e| e.to_string())?;
        Ok(Plan { entry: Entry::Ordered(entry), part: entry.suited(part), settings })
    }

    /// The settings with the FTL; where that writes a page at a time, of the class that is left.
    fn on_ftl(&self, settings: Settings, divides_chip: bool) -> Result<Settings, Refusal> {
        let name = self.ftl.as_deref().unwrap_or("page-map");
        let ftl = registry::store(name).map_err(|e| e.to_string())?;
        let is_atomic = ftl.is_atomic || divides_chip;
        let durability = if is_atomic { settings.durability } else { Durability::None };
        Ok(Settings { durability, ..settings }.with("ftl", ftl.name))
    }

    /// The names of FTLs that can stand below.
    pub fn ftls() -> impl Iterator<Item = (&'static str, &'static str)> {
        STORES.iter().map(|entry| (entry.name, entry.summary))
    }
}
