//! The smallest RAM that an index runs with on a chip.

use crate::entry::{Holds, Hosting, IndexEntry, StoreEntry};
use crate::fit::SMALLER_FTLS;
use crate::options::Settings;
use crate::registry::INDEXES;
use nandex::nand::Part;
use nandex::nand::sim::SimChip;
use nandex::ordered::Durability;
use nandex::{IndexError, PageStore, StoreError};

/// Largest RAM that is tried, in bytes.
const MOST: usize = 1 << 28;

/// Precision of the smallest RAM, in bytes.
const PRECISION: usize = 16;

/// Largest step by which a part of an index grows, in bytes.
const STEP: usize = 64;

/// The RAM that an index needs, with its FTL if it stands on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Name of the FTL; the first if several need the same RAM.
    pub ftl: Option<&'static str>,
    /// RAM in bytes.
    pub bytes: usize,
}

/// The smallest RAM in bytes with which an index can be formatted on a chip. The RAM in `settings` is
/// ignored. The error says why the index cannot be formatted with any RAM.
pub fn ram_needed(index: &IndexEntry, part: &Part, settings: &Settings) -> Result<usize, IndexError> {
    let refused = |error: &dyn ToString| IndexError::Unsupported(error.to_string().into());
    if index.holds == Holds::Readings {
        // A log takes what it takes, whatever it is given.
        let fresh = SimChip::new(part).map_err(|error| refused(&error))?;
        return Ok((index.format)(Box::new(fresh), settings)?.ram_bytes());
    }
    let fits = |ram: usize| -> Result<Option<usize>, IndexError> {
        let fresh = SimChip::new(part).map_err(|error| refused(&error))?;
        let given = Settings { ram_bytes: Some(ram), ..settings.clone() };
        match (index.format)(Box::new(fresh), &given) {
            Ok(_) => Ok(None),
            Err(IndexError::TooLittleRam { needed, .. }) => Ok(Some(needed)),
            Err(error) => Err(error),
        }
    };
    let (mut low, mut high) = (0, 1024);
    // The RAM that the refusal names suffices, and less mostly does not: a part that is asked for its size
    // where there is no RAM may name a little more.
    if let Ok(Some(needed)) = fits(0)
        && matches!(fits(needed), Ok(None))
    {
        if !matches!(fits(needed.saturating_sub(PRECISION)), Ok(None)) {
            return Ok(needed);
        }
        high = needed;
    }
    while !matches!(fits(high), Ok(None)) {
        if high >= MOST {
            return fits(high).map(|_| high);
        }
        (low, high) = (high, high * 2);
    }
    loop {
        while high - low > PRECISION {
            let middle = low.midpoint(high);
            if matches!(fits(middle), Ok(None)) { high = middle } else { low = middle }
        }
        // Where more RAM makes a part larger, a little less may do than what does not.
        match high.checked_sub(STEP) {
            Some(less) if matches!(fits(less), Ok(None)) => (low, high) = (0, less),
            _ => break,
        }
    }
    Ok(high)
}

/// The smallest RAM over page mapping and [`SMALLER_FTLS`], for a tree on logical pages whose settings name
/// no FTL.
pub fn least_ram(index: &IndexEntry, part: &Part, settings: &Settings) -> Result<Needed, IndexError> {
    if index.hosting == Hosting::Raw || settings.options.text("ftl").is_some() {
        return Ok(Needed { ftl: None, bytes: ram_needed(index, part, settings)? });
    }
    let mut least: Option<Needed> = None;
    let mut why = None;
    for ftl in std::iter::once("page-map").chain(SMALLER_FTLS) {
        match ram_needed(index, part, &settings.clone().with("ftl", ftl)) {
            Ok(bytes) if least.is_none_or(|other| bytes < other.bytes) => {
                least = Some(Needed { ftl: Some(ftl), bytes });
            }
            Ok(_) => {}
            Err(error) => why = why.or(Some(error)),
        }
    }
    match (least, why) {
        (Some(needed), _) => Ok(needed),
        (None, Some(error)) => Err(error),
        (None, None) => Err(IndexError::Unsupported("there is no FTL".into())),
    }
}

/// Settings of each durability class, the strongest first.
fn in_classes(settings: &Settings) -> impl Iterator<Item = Settings> {
    let classes = [Durability::EveryOperation, Durability::EverySync, Durability::None];
    classes.map(|durability| Settings { durability, ..settings.clone() }).into_iter()
}

/// Most records that an index can hold on a chip ([`records_max`](nandex::OrderedIndex::records_max)), in its
/// strongest durability class. `None` if it cannot be formatted, or cannot tell.
pub fn records_max(index: &IndexEntry, part: &Part, settings: &Settings) -> Option<u64> {
    let format = |settings| (index.format)(Box::new(SimChip::new(part).ok()?), &settings).ok();
    in_classes(settings).find_map(format)?.records_max()
}

/// The smallest RAM in the strongest durability class of an index.
pub fn in_strongest_class(
    index: &IndexEntry,
    part: &Part,
    settings: &Settings,
) -> Result<Needed, IndexError> {
    let mut tried = in_classes(settings);
    let mut needed = Err(IndexError::Unsupported("no class of durability".into()));
    while needed.is_err()
        && let Some(settings) = tried.next()
    {
        needed = least_ram(index, part, &settings);
    }
    needed
}

/// The smallest RAM of every index on a chip, each in its strongest durability class.
pub fn all(part: &Part, settings: &Settings) -> Vec<(&'static IndexEntry, Result<Needed, IndexError>)> {
    INDEXES.iter().map(|index| (index, in_strongest_class(index, part, settings))).collect()
}

/// The room that an FTL leaves on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FtlRoom {
    /// Number of logical pages.
    pub pages: u32,
    /// Number of blocks beyond those that the logical pages fill: for anchors, checkpoints, garbage
    /// collection, failing blocks and over-provisioning.
    pub reserved_blocks: u32,
    /// RAM in bytes, including that of a mount.
    pub ram_bytes: usize,
}

/// The room that an FTL leaves on a chip with these settings. The error says why the FTL cannot run.
pub fn ftl_room(ftl: &StoreEntry, part: &Part, settings: &Settings) -> Result<FtlRoom, StoreError> {
    let chip = SimChip::new(part).map_err(|error| StoreError::Unsupported(error.to_string().into()))?;
    let store = (ftl.format)(Box::new(chip), settings)?;
    let (pages, geometry) = (store.page_count(), part.geometry);
    let reserved_blocks = geometry.blocks - pages.div_ceil(geometry.pages_per_block);
    Ok(FtlRoom { pages, reserved_blocks, ram_bytes: store.mount_ram_bytes() })
}
