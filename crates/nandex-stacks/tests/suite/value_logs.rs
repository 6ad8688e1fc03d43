//! A log of values with every index, on chips and records of any size: once formatted it takes values of the
//! largest size promised, and on a large chip more than one or two.
#![allow(clippy::unwrap_used)]

use nandex::nand::sim::SimChip;
use nandex::nand::{BlockRange, catalogue::mlc_with};
use nandex::ordered::Durability;
use nandex::ordered::value_log::{self, ValueLog};
use nandex::rng::Rng;
use nandex::{Geometry, IndexError, OrderedIndex, Shared};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{Hosting, INDEXES, IndexEntry, STORES};

type Values = ValueLog<Box<dyn OrderedIndex>, BlockRange<Shared<SimChip>>>;

const CLASSES: [Durability; 3] = [Durability::EveryOperation, Durability::EverySync, Durability::None];
/// Chips drawn for each index.
const SEEDS: u64 = 120;
/// Values of the largest size that each takes at least, unless twice as many fill its log.
const TAKEN_MIN: u64 = 6;
/// Trees that become as high as their pages allow, so that large keys in small pages leave room for few
/// records.
const LOW: [&str; 5] = ["mu", "mu-star", "wandering", "vmtree", "vmtree-ow"];
/// An index of ascending keys is told of no value that cleaning moves.
const APPENDED: &str = "sbits";

/// A number below a power of two of up to `bits` bits.
fn below_log(rng: &mut Rng, bits: u64) -> u32 {
    let bits = 1 + rng.below(bits);
    rng.below(1 << bits) as u32
}

/// A log and an index on a random chip.
struct Drawn {
    what: String,
    values: Values,
    most: usize,
    key_bytes: u8,
    taken_min: u64,
}

/// The first chip drawn from a seed, divided and formatted; `None` if that is refused by name.
fn drawn(entry: &'static IndexEntry, seed: u64) -> Result<Option<Drawn>, String> {
    let mut rng = Rng::new(seed);
    let page_bytes = 256u32 << rng.below(6);
    let pages_per_block = 2 + below_log(&mut rng, 7);
    let blocks = 24 + below_log(&mut rng, 9);
    let key_bytes = [4, 8, 16, 30, 100, 200][rng.below(6) as usize];
    let short = [8, 20, 60, 200][rng.below(4) as usize];
    let durability = CLASSES[rng.below(3) as usize];
    let most = page_bytes as usize * (1 + rng.below(6) as usize) / 2;
    let mut part = mlc_with(page_bytes, pages_per_block, blocks);
    let spare_bytes = [64, 16, 4, 0][rng.below(4) as usize];
    part.geometry = Geometry::new(page_bytes, spare_bytes, pages_per_block, blocks);
    let record = value_log::record(key_bytes, short);
    let mut settings = Settings { durability, ..Settings::new(record) };
    let ftl = STORES[rng.below(STORES.len() as u64) as usize].name;
    let is_on_ftl = rng.chance(1, 2);
    let option = if entry.hosting == Hosting::Store { "ftl" } else { "beneath" };
    if option == "ftl" || is_on_ftl {
        settings = settings.with(option, ftl);
    }
    let storage = entry.storage(&settings.options);
    let what = format!("{} on {storage}, seed {seed}: {:?}, {record:?}, {most}", entry.name, part.geometry);
    let part = entry.suited(part);
    let Ok(chip) = SimChip::new(&part) else { return Ok(None) };
    let log_blocks = value_log::log_blocks(part.geometry, record, most).min(blocks - 1);
    let [log, keys] = BlockRange::divide(chip, log_blocks);
    let index = (entry.format)(Box::new(keys), &settings);
    let formatted = index.and_then(|index| ValueLog::format(index, log, most));
    match formatted {
        Ok(values) => {
            let taken_min = if LOW.contains(&entry.name) { 1 } else { TAKEN_MIN };
            Ok(Some(Drawn { what, values, most, key_bytes, taken_min }))
        }
        Err(IndexError::BatchTooLarge { .. }) => Ok(None),
        Err(error) if error.is_unsupported() => Ok(None),
        Err(error) => Err(format!("{what}: format: {error}")),
    }
}

/// Inserts values of the largest size. Returns a message if something is wrong.
fn fill(drawn: Drawn) -> Option<String> {
    let Drawn { what, mut values, most, key_bytes, taken_min } = drawn;
    let key_of = |number: u32| {
        let mut key = vec![0; key_bytes.into()];
        key[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_be_bytes());
        key
    };
    let may_hold = values.log_stats().capacity_bytes / (2 * most as u64);
    let wanted = may_hold.clamp(1, taken_min) as u32;
    for number in 0..wanted {
        if let Err(error) = values.put(&key_of(number), &vec![number as u8; most]) {
            let room = values.index().free();
            return Some(format!("{what}: {error} after {number} of {wanted}; {room:?} in the index"));
        }
    }
    let closed = values.close();
    if let Err(error) = closed {
        return Some(format!("{what}: close: {error}"));
    }
    let mut is_there =
        |number: &u32| values.get(&key_of(*number)).unwrap() == Some(vec![*number as u8; most]);
    (!(0..wanted).all(|number| is_there(&number))).then(|| format!("{what}: a value is lost"))
}

#[test]
fn what_is_formatted_takes_values_of_the_largest_size() {
    let mut wrong = Vec::new();
    for entry in INDEXES.iter().filter(|entry| entry.name != APPENDED) {
        let mut taken = 0;
        for seed in 0..SEEDS {
            match drawn(entry, seed) {
                Ok(Some(drawn)) => {
                    taken += 1;
                    wrong.extend(fill(drawn));
                }
                Ok(None) => {}
                Err(why) => wrong.push(why),
            }
        }
        assert!(taken > SEEDS / 20, "{}: {taken} of {SEEDS} were taken", entry.name);
    }
    assert!(wrong.is_empty(), "{}\n{} are wrong", wrong.join("\n"), wrong.len());
}
