//! Every FTL behind the Transit Buffer Manager of the WPCB-tree, so that buffer and converter are judged
//! without the tree: stores called `tbm+fast` and so on.
//!
//! The chip is divided as under the tree: the FTL has the first blocks, the TBM the last ones. The options
//! are those of the FTL, which go by its part of the chip, and [`OPTIONS`].

use crate::entry::{Confidence, Open, StoreEntry};
use crate::names::UnknownName;
use crate::names::{self, OptionInfo, union_of};
use crate::options::{self, Options, Settings};
use crate::spare;
use crate::stores::STORES;
use nandex::nand::BlockRange;
use nandex::{Geometry, Nand, PageStore, StoreError};
use nandex_papers::ftl::tbm::{Tbm, TbmConfig};

/// The options of a TBM besides those of the FTL.
pub const OPTIONS: [OptionInfo; 4] = options::tbm::OPTIONS;

/// Most buffer blocks if the option is not set.
const USUAL_BLOCKS: u32 = 128;

/// Makes the entry of the store with this index in the registry, behind a TBM.
macro_rules! behind_tbm {
    ($place:literal, $name:literal) => {
        StoreEntry {
            name: concat!("tbm+", $name),
            summary: concat!(
                "the Transit Buffer Manager and write pattern converter of the WPCB-tree over ",
                $name
            ),
            confidence: Confidence::High,
            basis: "writing and converting are the paper's; groups, trims and recovery are ours",
            parts: &["buffer blocks", "converter", "an FTL"],
            is_atomic: true,
            format: |nand, settings| open(&STORES[$place], nand, settings, Open::Format),
            mount: |nand, settings| open(&STORES[$place], nand, settings, Open::Mount),
            options: union_of!(*STORES[$place].options, OPTIONS),
        }
    };
}

list! {
    /// Every store of [`STORES`] behind a TBM, in the same order.
    TBM_STORES: StoreEntry = ENTRIES
}

const ENTRIES: &[StoreEntry] = &[
    behind_tbm!(0, "page-map"),
    behind_tbm!(1, "nftl"),
    behind_tbm!(2, "bast"),
    behind_tbm!(3, "sast"),
    behind_tbm!(4, "fast"),
    behind_tbm!(5, "superblock"),
    behind_tbm!(6, "dftl"),
    behind_tbm!(7, "lazy"),
    behind_tbm!(8, "cftl"),
    behind_tbm!(9, "hftl"),
];

/// The store with this name, alone or behind a TBM.
pub fn find(name: &str) -> Result<&'static StoreEntry, UnknownName> {
    if let Some(entry) = STORES.iter().find(|entry| entry.name == name) {
        return Ok(entry);
    }
    names::find("store", name, TBM_STORES, |entry| entry.name).map_err(|_| unknown("store", name, []))
}

/// The error for a name that is neither in [`STORES`] nor in [`TBM_STORES`] nor among the `others` that the
/// caller accepts.
pub fn unknown<'a>(what: &'static str, name: &str, others: impl IntoIterator<Item = &'a str>) -> UnknownName {
    // Those behind a TBM are left out where they are not meant: they would double the list.
    let behind = TBM_STORES.iter().filter(|_| name.contains('+')).map(|entry| entry.name);
    let alone = STORES.iter().filter(|_| !name.contains('+')).map(|entry| entry.name);
    UnknownName::of(what, name, alone.chain(behind).chain(others))
}

/// The settings of the buffer blocks, and the number of other blocks of the TBM.
pub fn buffer(set: &Options, chip: Geometry) -> Result<(TbmConfig, u32), StoreError> {
    let usual_blocks = (chip.blocks / 8).clamp(1, USUAL_BLOCKS);
    options::tbm::config(set, chip, usual_blocks)
}

fn open(
    below: &StoreEntry,
    nand: Box<dyn Nand>,
    settings: &Settings,
    open: Open,
) -> Result<Box<dyn PageStore>, StoreError> {
    let nand = spare::shown(nand, nandex_papers::ftl::tbm::SPARE_BYTES as u32);
    let chip = nand.geometry();
    let (tbm, spare_blocks) = buffer(&settings.options, chip)?;
    let [low, high] = BlockRange::divide(nand, chip.blocks - tbm.blocks - spare_blocks);
    let (range, blocks) = (high.geometry(), low.geometry().blocks);
    let ftl = match open {
        Open::Format => (below.format)(Box::new(low), settings),
        _ => (below.mount)(Box::new(low), settings),
    };
    let ftl = ftl.map_err(|error| match error {
        error if error.is_unsupported() => {
            let what = format!("{} on the {blocks} blocks that the TBM leaves: {error}", below.name);
            StoreError::Unsupported(what.into())
        }
        other => other,
    })?;
    let most = ftl.ram_bytes() + tbm.ram_bytes_max(range);
    if let Some(given) = settings.ram_bytes.filter(|&given| most > given) {
        let what = format!("FTL and TBM hold up to {most} bytes of RAM, {given} were given");
        return Err(StoreError::Unsupported(what.into()));
    }
    Ok(match open {
        Open::Format => Box::new(Tbm::format(ftl, high, &tbm)?),
        _ => Box::new(Tbm::mount(ftl, high, &tbm)?),
    })
}
