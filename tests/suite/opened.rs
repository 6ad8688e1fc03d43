//! A device starts by one line: what is on the medium is mounted, a blank one is formatted, anything else
//! stays as it is, and the medium comes back with the error.

#![allow(clippy::unwrap_used)]

use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::nand::{Differs, Geometry, Unfit, catalogue};
use nandex::testing::{Access, Chip};
use nandex::{
    BPlusConfig, BPlusTree, Cause, FtlConfig, Furrow, FurrowConfig, IndexError, MuTree, Nand, NandError,
    OrderedIndex, PageMapFtl, Plow, PlowConfig, Ppn, RawConfig, RecordFormat, Sbits, SbitsConfig,
};

type Opened = Result<Box<dyn OrderedIndex>, (IndexError, Option<Chip>)>;

/// A way to open an index on a chip.
type Open = fn(Chip, RecordFormat) -> Opened;

/// Any chip, so that each index is compiled for one.
fn any(chip: &Chip) -> Box<dyn Nand> {
    Box::new(chip.clone())
}

macro_rules! raw {
    ($tree:ident, $config:ident) => {
        |chip, record| match nandex::open(any(&chip), &$config::new(record), $tree::mount, $tree::format) {
            Ok(index) => Ok(Box::new(index)),
            Err(unopened) => Err((unopened.error, unopened.medium.map(|_| chip))),
        }
    };
}

/// An FTL is opened, then a tree on it.
fn bplus(chip: Chip, record: RecordFormat) -> Opened {
    let settings = FtlConfig::default();
    let ftl = nandex::open(any(&chip), &settings, PageMapFtl::mount, PageMapFtl::format)
        .map_err(|unopened| (unopened.error, unopened.medium.map(|_| chip.clone())))?;
    match nandex::open(ftl, &BPlusConfig::new(record), BPlusTree::mount, BPlusTree::format) {
        Ok(tree) => Ok(Box::new(tree)),
        Err(unopened) => {
            assert!(unopened.medium.is_some(), "the FTL comes back");
            Err((unopened.error, Some(chip)))
        }
    }
}

const WAYS: [(&str, Open); 5] = [
    ("mu", raw!(MuTree, RawConfig)),
    ("plow", raw!(Plow, PlowConfig)),
    ("sbits", raw!(Sbits, SbitsConfig)),
    ("furrow", raw!(Furrow, FurrowConfig)),
    ("bplus", bplus),
];

const RECORD: RecordFormat = RecordFormat::new(8, 8);

fn chip() -> Chip {
    let mut part = catalogue::mlc_64m();
    part.geometry = Geometry::new(512, 64, 8, 48);
    Chip::new(SimChip::new(&part).unwrap())
}

fn value_of(index: &mut dyn OrderedIndex, key: u64) -> Option<u64> {
    let mut value = [0; 8];
    index.get(&key.to_be_bytes(), &mut value).unwrap().then(|| u64::from_be_bytes(value))
}

#[test]
fn a_first_start_formats_and_a_second_one_mounts() {
    for (name, open) in WAYS {
        let chip = chip();
        for start in 0..3u64 {
            let mut index = open(chip.clone(), RECORD).unwrap();
            for before in 0..start {
                assert_eq!(value_of(&mut *index, before), Some(before + 100), "{name}");
            }
            index.insert(&start.to_be_bytes(), &(start + 100).to_be_bytes()).unwrap();
            index.close().unwrap();
        }
    }
}

#[test]
fn other_records_stay_and_the_chip_comes_back() {
    for (name, open) in WAYS {
        let chip = chip();
        let mut index = open(chip.clone(), RECORD).unwrap();
        index.insert(&7u64.to_be_bytes(), &8u64.to_be_bytes()).unwrap();
        index.close().unwrap();
        drop(index);
        let before = chip.lock().operations();
        let (error, medium) = open(chip, RecordFormat::new(8, 12)).err().unwrap();
        let is_other =
            matches!(error, IndexError::NotFormatted(Unfit::Other { differs: Differs::Record, .. }));
        assert!(is_other, "{name}: {error:?}");
        let chip = medium.unwrap();
        assert_eq!(chip.lock().operations(), before, "{name}: nothing is written");
        assert_eq!(value_of(&mut *open(chip, RECORD).unwrap(), 7), Some(8), "{name}");
    }
}

#[test]
fn a_bus_that_fails_is_no_reason_to_format() {
    let config = PlowConfig::new(RECORD);
    let chip = chip();
    let mut index = Plow::format(any(&chip), &config).unwrap();
    index.insert(&7u64.to_be_bytes(), &8u64.to_be_bytes()).unwrap();
    index.close().unwrap();
    let before = chip.lock().operations();
    for read in 0..20 {
        let mut left = read;
        chip.on_access(move |_, access| {
            if let Access::Read(..) = access {
                left = u64::checked_sub(left, 1).ok_or(NandError::Device(5))?;
            }
            Ok(())
        });
        let unopened = nandex::open(any(&chip), &config, Plow::mount, Plow::format).map(drop).unwrap_err();
        assert!(matches!(unopened.error, IndexError::Store(_)), "read {read}: {unopened}");
        let refused = nandex::format(unopened.medium.unwrap(), &config, Plow::format).map(drop).unwrap_err();
        assert!(matches!(refused.error, IndexError::Store(_)), "read {read}: {refused}");
    }
    assert_eq!(chip.lock().operations(), before);
}

#[test]
fn a_format_refuses_what_is_not_blank() {
    let config = RawConfig::new(RECORD);
    let chip = chip();
    let mut index = nandex::format(any(&chip), &config, MuTree::format).unwrap();
    index.insert(&7u64.to_be_bytes(), &8u64.to_be_bytes()).unwrap();
    index.close().unwrap();
    let before = chip.lock().operations();
    let refused = nandex::format(any(&chip), &config, MuTree::format).map(drop).unwrap_err();
    assert_eq!(refused.error, IndexError::NotBlank);
    let medium = refused.medium.unwrap();
    assert_eq!(chip.lock().operations(), before);
    assert_eq!(value_of(&mut MuTree::mount(medium, &config).unwrap(), 7), Some(8));
    // One page is enough.
    let mut one = self::chip();
    one.program(Ppn(40), Cause::Host, &[0; 512], &[]).unwrap();
    assert_eq!(
        nandex::format(any(&one), &config, MuTree::format).map(drop).unwrap_err().error,
        IndexError::NotBlank
    );
}

/// A first format is cut at every operation: the chip opens, or says that something is there; as long as
/// nothing was programmed, it opens.
#[test]
fn a_first_format_may_be_cut() {
    for (name, open) in WAYS {
        let whole = chip();
        drop(open(whole.clone(), RECORD).unwrap());
        let operations = whole.lock().operations();
        let mut refused = 0;
        for at_operation in 0..operations {
            let chip = chip();
            let torn = TornModel::ALL[at_operation as usize % TornModel::ALL.len()];
            let cut = PowerCut { at_operation, when: CutWhen::Inside, torn, seed: at_operation };
            chip.lock().plan_power_cut(cut);
            let (error, medium) = open(chip, RECORD).err().unwrap();
            assert!(matches!(error, IndexError::Store(_)), "{name}: {error:?}");
            let chip = medium.unwrap();
            chip.lock().power_on();
            let programs: u64 = chip.lock().counters().page_programs.iter().sum();
            match open(chip, RECORD) {
                Ok(mut index) => assert_eq!(value_of(&mut *index, 7), None),
                Err((error, _)) => {
                    assert!(programs > 0 && !error.is_blank(), "{name} at {at_operation}: {error:?}");
                    refused += 1;
                }
            }
        }
        println!("{name}: {refused} of {operations} cuts leave a chip that is formatted by word only");
        assert!(refused < 24, "{name}: {refused} of {operations}");
    }
}
