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
use nandex::ftl::tbm::{Tbm, TbmSettings};
use nandex::nand::BlockRange;
use nandex::{Geometry, Nand, PageStore, StoreError};

/// The options of a TBM, besides those of the FTL.
pub const OPTIONS: [OptionInfo; 4] = options::tbm::OPTIONS;

/// Buffer blocks at most, unless told.
const USUAL_BLOCKS: u32 = 128;

/// The store of this place of the registry behind a TBM.
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

/// Every store of [`STORES`] behind a TBM, in the same order.
pub static TBM_STORES: &[StoreEntry] = &[
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

/// The store of this name, alone or behind a TBM.
pub fn find(name: &str) -> Result<&'static StoreEntry, UnknownName> {
    if let Some(entry) = STORES.iter().find(|entry| entry.name == name) {
        return Ok(entry);
    }
    names::find("store", name, TBM_STORES, |entry| entry.name).map_err(|_| unknown("store", name, []))
}

/// The refusal of a name that is neither one of [`STORES`], nor of [`TBM_STORES`], nor of others that would
/// do.
pub fn unknown<'a>(what: &'static str, name: &str, others: impl IntoIterator<Item = &'a str>) -> UnknownName {
    // Those behind a TBM are left out where they are not meant: they would double the list.
    let behind = TBM_STORES.iter().filter(|_| name.contains('+')).map(|entry| entry.name);
    let alone = STORES.iter().filter(|_| !name.contains('+')).map(|entry| entry.name);
    UnknownName::of(what, name, alone.chain(behind).chain(others))
}

/// The buffer blocks that options ask for, and the spare ones.
pub fn buffer(set: &Options, chip: Geometry) -> Result<(TbmSettings, u32), StoreError> {
    let usual_blocks = (chip.blocks / 8).clamp(1, USUAL_BLOCKS);
    options::tbm::config(set, chip, usual_blocks)
}

fn open(
    below: &StoreEntry,
    nand: Box<dyn Nand>,
    settings: &Settings,
    open: Open,
) -> Result<Box<dyn PageStore>, StoreError> {
    let nand = spare::shown(nand, nandex::ftl::tbm::SPARE_BYTES as u32);
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
        Open::Format => Box::new(Tbm::format(ftl, high, tbm)?),
        _ => Box::new(Tbm::mount(ftl, high, tbm)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::Shared;
    use nandex::nand::sim::SimChip;
    use nandex::ordered::RecordFormat;
    use nandex::{Cause, Lpn};

    fn settings(options: &[(&str, u32)]) -> Settings {
        let settings = Settings::new(RecordFormat::new(4, 4));
        options.iter().fold(settings, |settings, (name, value)| settings.with(name, value))
    }

    #[test]
    fn each_is_the_store_that_its_name_says() {
        assert_eq!(TBM_STORES.len(), STORES.len());
        for (behind, alone) in TBM_STORES.iter().zip(STORES) {
            assert_eq!(behind.name, format!("tbm+{}", alone.name));
            assert_eq!(behind.options.len(), alone.options.len() + OPTIONS.len());
            assert_eq!(find(behind.name).unwrap().name, behind.name);
            assert_eq!(find(alone.name).unwrap().name, alone.name);
        }
        let told = |name| find(name).unwrap_err().to_string();
        assert!(told("tbm+fats").contains("did you mean 'tbm+fast'?"), "{}", told("tbm+fats"));
        assert!(told("pagemap").contains("did you mean 'page-map'?"), "{}", told("pagemap"));
    }

    #[test]
    fn what_was_written_is_there_after_a_mount_over_every_ftl() {
        let part = crate::testing::part(2048, 16, 64);
        for entry in TBM_STORES {
            let settings = settings(&[("tbm_blocks", 5), ("whole_from", 6)]);
            let chip = Shared::new(SimChip::new(&part).unwrap());
            let mut store = (entry.format)(Box::new(chip.clone()), &settings).unwrap();
            assert!(store.atomic_pages_max() == 5 && store.durable_writes(), "{}", entry.name);
            let pages = store.page_count();
            let page = |lpn: u32, round: u32| [lpn as u8, round as u8].repeat(1024);
            let mut newest = vec![0; pages as usize];
            for i in 0..3000u32 {
                let lpn = i.wrapping_mul(2_654_435_761) % pages.min(400);
                newest[lpn as usize] = i;
                store.write(Lpn(lpn), Cause::Host, &page(lpn, i)).unwrap();
            }
            let stats = store.stats();
            assert!(stats.conversions > 100 && stats.converted_pages > stats.conversions, "{stats:?}");
            assert!(stats.mapping_bytes as usize <= store.ram_bytes(), "{}", entry.name);
            drop(store);
            let mut store = (entry.mount)(Box::new(chip), &settings).unwrap();
            let mut found = vec![0; 2048];
            for lpn in 0..pages {
                store.read(Lpn(lpn), Cause::Host, &mut found).unwrap();
                let last = newest[lpn as usize];
                let expected = if last == 0 { vec![0; 2048] } else { page(lpn, last) };
                // The first write of all is round 0.
                assert!(found == expected || lpn == 0 && last == 0, "{} lpn {lpn}", entry.name);
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        let part = crate::testing::part(2048, 64, 64);
        let fast = find("tbm+fast").unwrap();
        let refusal = |settings: &Settings| {
            let chip = Box::new(SimChip::new(&part).unwrap());
            (fast.format)(chip, settings).map(|_| ()).unwrap_err().to_string()
        };
        let cases: [(&[(&str, u32)], &str); 4] = [
            (&[("tbm_blocks", 0)], "tbm_blocks = 0, tbm_spare_blocks = 2: 1 and 2 at least are possible"),
            (&[("tbm_blocks", 64)], "68 blocks for the TBM leave none of 64 for the FTL"),
            (&[("tbm_blocks", 8), ("tbm_spare_blocks", 1)], "1 and 2 at least are possible"),
            (&[("whole_from", 65)], "whole_from: '65' is not between 0 and 64"),
        ];
        for (options, why) in cases {
            let told = refusal(&settings(options));
            assert!(told.contains(why), "{told}");
        }
        let poor = Settings { ram_bytes: Some(10_000), ..settings(&[]) };
        let told = refusal(&poor);
        assert!(told.contains("FTL and TBM hold up to") && told.contains("10000 were given"), "{told}");
    }
}
