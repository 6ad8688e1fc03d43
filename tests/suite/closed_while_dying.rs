//! Chips that die in the class *none*: what says that it is closed can be mounted, and holds everything.

#![allow(clippy::unwrap_used)]

use nandex::nand::Geometry;
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::{Faults, SimChip};
use nandex::ordered::ipl::LogArea;
use nandex::ordered::{RawConfig, RecordFormat};
use nandex::rng::Rng;
use nandex::{
    Durability, IndexError, IplConfig, IplTree, MuTree, OrderedIndex, Plow, PlowConfig, Shared, WanderingTree,
};
use std::collections::BTreeMap;

type Chip = Shared<SimChip>;
type Boxed = Box<dyn OrderedIndex>;

const RECORD: RecordFormat = RecordFormat::new(4, 20);
const NAMES: [&str; 5] = ["ipl", "dipl", "plow", "mu", "wandering"];

/// Formats a chip, or mounts it.
fn open(name: &str, chip: &Chip, formats: bool) -> Result<Boxed, IndexError> {
    macro_rules! opened {
        ($tree:ident, $config:expr) => {{
            let (chip, config) = (chip.clone(), $config);
            Box::new(if formats { $tree::format(chip, &config)? } else { $tree::mount(chip, &config)? })
        }};
    }
    let durability = Durability::None;
    Ok(match name {
        "ipl" | "dipl" => {
            let area = if name == "ipl" { LogArea::Fixed } else { LogArea::Dynamic };
            opened!(IplTree, IplConfig { durability, ..IplConfig::new(RECORD, area) })
        }
        "plow" => opened!(Plow, PlowConfig { durability, ..PlowConfig::new(RECORD) }),
        "mu" => opened!(MuTree, RawConfig { durability, ram_bytes: Some(30_000), ..RawConfig::new(RECORD) }),
        _ => opened!(
            WanderingTree,
            RawConfig { durability, ram_bytes: Some(30_000), ..RawConfig::new(RECORD) }
        ),
    })
}

/// Lives until nothing is taken any more, closed and mounted again and again; closes done, and refused.
fn live(name: &str, seed: u64) -> Option<[u32; 2]> {
    let what = format!("{name} seed {seed}");
    let mut rng = Rng::new(seed);
    let mut part = mlc_with(512, 8, 40);
    part.geometry = Geometry::new([512, 1024][rng.below(2) as usize], 64, 8, 30 + rng.below(30) as u32);
    let chip: Chip = Shared::new(SimChip::new(&part).unwrap());
    let mut index = open(name, &chip, true).ok()?;
    let (mut model, mut closes) = (BTreeMap::new(), [0; 2]);
    for round in 0..60u32 {
        let rate = 200 << (round / 4).min(11);
        let faults = Faults {
            program_failures_ppm: rate,
            erase_failures_ppm: rate,
            seed: seed << 8 | u64::from(round),
            ..Faults::default()
        };
        chip.lock().set_faults(faults);
        for step in 0..rng.below(30) {
            let key = (rng.below(300) as u32).to_be_bytes();
            let value = [step as u8; 20];
            match index.insert(&key, &value) {
                Ok(was_there) => assert_eq!(was_there, model.insert(key, value).is_some(), "{what}"),
                Err(error) if error.is_refusal() => {}
                // Changes wait in RAM, and the chip refused one half-way: the promise ends here.
                Err(IndexError::Interrupted) => return Some(closes),
                Err(error) => panic!("{what}: insert in round {round}: {error}"),
            }
        }
        match index.close() {
            Ok(()) => closes[0] += 1,
            Err(error) if error.is_refusal() || error == IndexError::Interrupted => {
                closes[1] += 1;
                continue;
            }
            Err(error) => panic!("{what}: close in round {round}: {error}"),
        }
        drop(index);
        index = open(name, &chip, false).unwrap_or_else(|error| panic!("{what}: mount {round}: {error}"));
        let mut value = [0; 20];
        for (key, wanted) in &model {
            let found = index.get(key, &mut value).unwrap_or_else(|error| panic!("{what}: get: {error}"));
            assert!(found && value == *wanted, "{what}: round {round}, key {key:?}");
        }
    }
    Some(closes)
}

#[test]
fn what_says_that_it_is_closed_can_be_mounted() {
    for name in NAMES {
        let (mut closed, mut refused) = (0, 0);
        for seed in 0..24 {
            let Some([done, not]) = live(name, seed) else { continue };
            (closed, refused) = (closed + done, refused + not);
        }
        assert!(closed > 500, "{name}: {closed} closed, {refused} not");
    }
}
