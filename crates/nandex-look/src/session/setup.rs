//! The set-up of a run: index, FTL, chip, records, workload; checked before anything is made.

use nandex::nand::{Part, catalogue};
use nandex::ordered::{Durability, RecordFormat};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{self, Hosting, IndexEntry, STORES};
use nandex_stacks::spatial::registry::{SpatialEntry, spatial};
use serde::{Deserialize, Serialize};

/// Name of the default chip, so small that blocks fill and are erased while a user watches.
pub const SMALL_CHIP: &str = "small";

/// Most pages of a chip that can be drawn.
pub const PAGES_MAX: u32 = 8192;

/// Most operations of a run.
pub const OPERATIONS_MAX: usize = 5000;

/// The set-up of a run, as the user asks for it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The name of an ordered or spatial index in the registry.
    pub index: String,
    /// The name of the FTL, for an index on logical pages.
    #[serde(default)]
    pub ftl: Option<String>,
    /// The name of a part of the catalogue, which is cut to some blocks, or `small`.
    #[serde(default = "small")]
    pub chip: String,
    /// Number of blocks of the chip.
    #[serde(default = "blocks")]
    pub blocks: u32,
    /// Sizes of a key and of a value, in bytes.
    #[serde(default = "record")]
    pub record: (u8, u8),
    /// RAM in bytes, including tables; absent means no cache.
    #[serde(default)]
    pub ram: Option<usize>,
    /// The durability class: `every operation`, `every sync` or `none`.
    #[serde(default = "durability")]
    pub durability: String,
    /// Options of index, FTL and cache, as pairs of name and value.
    #[serde(default)]
    pub options: Vec<(String, String)>,
    /// The name of the workload.
    #[serde(default = "workload")]
    pub workload: String,
    /// Number of operations of the workload.
    #[serde(default = "operations")]
    pub operations: usize,
    /// Number of operations between two syncs; 0 means no syncs.
    #[serde(default)]
    pub sync_every: usize,
    /// The seed of everything random.
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

/// The reason why a set-up is refused.
pub(crate) type Refusal = String;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    Ordered(&'static IndexEntry),
    /// A spatial index, with points in two dimensions.
    Spatial(&'static SpatialEntry),
}

/// A set-up that was checked, ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) entry: Entry,
    pub(crate) part: Part,
    pub(crate) settings: Settings,
}

impl Setup {
    /// The default set-up for this index.
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

    /// The settings with the FTL. The class becomes *none* if the operations are not atomic on this FTL.
    fn on_ftl(&self, settings: Settings, divides_chip: bool) -> Result<Settings, Refusal> {
        let name = self.ftl.as_deref().unwrap_or("page-map");
        let ftl = registry::store(name).map_err(|e| e.to_string())?;
        let is_atomic = ftl.is_atomic || divides_chip;
        let durability = if is_atomic { settings.durability } else { Durability::None };
        Ok(Settings { durability, ..settings }.with("ftl", ftl.name))
    }

    /// The FTLs that a user can choose, with their summaries.
    pub fn ftls() -> impl Iterator<Item = (&'static str, &'static str)> {
        STORES.iter().map(|entry| (entry.name, entry.summary))
    }
}
