//! Every index of the registry against a `BTreeMap`, driven by random bytes over all chips, record sizes and
//! classes.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::type_complexity)]

use crate::inputs::{sized, stride};
use nandex::Shared;
use nandex::nand::Part;
use nandex::nand::sim::{Faults, SimChip};
use nandex::ordered::Direction;
use nandex::ordered::{Durability, RecordFormat};
use nandex::rng::Rng;
use nandex::{IndexError, OrderedIndex};
use nandex_lab::parallel;
use nandex_lab::registry::{Hosting, INDEXES, IndexEntry, STORES, Stack, stacks};
use nandex_stacks::needed::ram_needed;
use nandex_stacks::options::{Options, Settings};
use nandex_testkit::fuzz::{self, contents, ordered_ops, part};
use proptest::prelude::*;

proptest! {
    #![proptest_config(crate::inputs::fixed(300))]

    #[test]
    fn an_index_is_a_map(bytes in prop::collection::vec(any::<u8>(), 10..1500)) {
        ordered_ops(&bytes);
    }
}

#[test]
fn long_scripts_hold_too() {
    for seed in 0..sized(1, 20) {
        let mut bytes = vec![0; 12_000];
        Rng::new(seed).fill(&mut bytes);
        bytes[0] = seed as u8;
        ordered_ops(&bytes);
    }
}

/// All stacks in the nightly run; in the gate those on raw NAND and on the first FTL, and some of the others.
fn sampled() -> impl Iterator<Item = Stack> {
    let is_first = |stack: &Stack| stack.ftl.is_none_or(|ftl| ftl.name == STORES[0].name);
    let step = stride(5);
    stacks().enumerate().filter(move |(n, stack)| n % step == 0 || is_first(stack)).map(|(_, stack)| stack)
}

fn open(
    entry: &IndexEntry,
    part: &Part,
    settings: &Settings,
) -> (Shared<SimChip>, Result<Box<dyn OrderedIndex>, IndexError>) {
    let chip = Shared::new(SimChip::new(&entry.suited(part.clone())).unwrap());
    let index = (entry.format)(Box::new(chip.clone()), settings);
    (chip, index)
}

fn record() -> Settings {
    Settings::new(RecordFormat::new(8, 8))
}

#[test]
fn every_index_moves_to_another_thread_and_back() {
    for stack in sampled() {
        for durability in [Durability::None, Durability::EverySync, Durability::EveryOperation] {
            let settings = Settings { durability, ..stack.settings(record()) };
            // Not every index gives every class on every FTL.
            let (chip, Ok(mut index)) = open(stack.index, &part(2048, 8, 64), &settings) else { continue };
            let put = |index: &mut Box<dyn OrderedIndex>, key: u64| {
                index.insert(&key.to_be_bytes(), &[key as u8; 8]).unwrap();
            };
            (0..100).for_each(|key| put(&mut index, key));
            let mut index = std::thread::spawn(move || {
                (100..200).for_each(|key| put(&mut index, key));
                index.sync().unwrap();
                index
            })
            .join()
            .unwrap();
            (200..300).for_each(|key| put(&mut index, key));
            index.close().unwrap();
            let mut index = (stack.index.mount)(Box::new(chip), &settings).unwrap();
            for key in 0..300u64 {
                let mut value = [0; 8];
                assert!(index.get(&key.to_be_bytes(), &mut value).unwrap(), "{}: {key}", stack.index.name);
                assert_eq!(value, [key as u8; 8], "{}: {key}", stack.index.name);
            }
        }
    }
}

#[test]
fn a_full_chip_loses_nothing_and_takes_records_again_once_some_are_gone() {
    // What removes nothing stays full.
    let stacks: Vec<Stack> = sampled().filter(|stack| stack.index.takes_any_key()).collect();
    let page_bytes = sized(1024, 2048);
    parallel::map(&stacks, parallel::cores(), |&stack| {
        let blocks = if stack.ftl.is_none_or(|ftl| ftl.is_atomic) { [16, 24] } else { [24, 40] };
        // So many of them are not the FTL's where it shares the chip; and a tree on raw NAND collects
        // garbage of its own on what an FTL beneath leaves of them.
        let others = match stack.index.hosting {
            Hosting::Raw if stack.ftl.is_some() => 16,
            _ if stack.index.divides_chip => 10,
            _ => 0,
        };
        // What needs more than the smallest says so and gets more.
        let takes = |blocks| {
            let part = part(page_bytes, 8, blocks);
            open(stack.index, &part, &stack.settings(record())).1.is_ok()
        };
        let others = if takes(blocks[0] + others) { others } else { others + 16 };
        // What the index does wrong shows on one FTL, what an FTL does wrong below any index.
        let is_first = stack.ftl.is_none_or(|ftl| ftl.name == STORES[0].name);
        for blocks in &blocks[..if is_first { sized(1, 2) } else { 1 }] {
            fill_and_drain(stack, &part(page_bytes, 8, blocks + others));
        }
    });
}

fn fill_and_drain(stack: Stack, part: &Part) {
    let (entry, settings) = (stack.index, stack.settings(record()));
    let (chip, index) = open(entry, part, &settings);
    let mut index = index.unwrap();
    let (mut model, mut rng) = (fuzz::Contents::new(), Rng::new(1));
    let mut first = 0;
    for round in 0u64..4 {
        let mut inserted = 0;
        loop {
            let key = rng.next_u64().to_be_bytes();
            match index.insert(&key, &round.to_be_bytes()) {
                Ok(_) => model.insert(key.to_vec(), round.to_be_bytes().to_vec()),
                Err(IndexError::Full(_)) => break,
                Err(error) => panic!("{}: {error}", stack.name()),
            };
            inserted += 1;
            assert!(inserted < 100_000, "{}: never full", stack.name());
        }
        // The least of all have stores with room for a few leaves, see `ordered::pio`.
        assert!(
            inserted > sized(30, 80),
            "{} on {} blocks, round {round}: only {inserted} inserts",
            stack.name(),
            part.geometry.blocks
        );
        assert_holds(&stack.name(), &mut *index, &model);
        match round {
            0 => first = model.len(),
            // It was empty before.
            3 => assert!(
                model.len() * 4 > first * 3,
                "{}: {first} records, then {}",
                stack.name(),
                model.len()
            ),
            _ => {}
        }
        let taken = if round == 2 { model.len() } else { model.len() / 2 };
        let gone: Vec<Vec<u8>> = model.keys().take(taken).cloned().collect();
        for key in gone {
            let removed =
                index.remove(&key).unwrap_or_else(|error| panic!("{}: remove: {error}", stack.name()));
            assert!(removed && model.remove(&key).is_some());
        }
        assert_holds(&stack.name(), &mut *index, &model);
        if round == 1 {
            index.close().unwrap();
            index = (entry.mount)(Box::new(chip.clone()), &settings).unwrap();
        }
    }
}

fn assert_holds(name: &str, index: &mut dyn OrderedIndex, model: &fuzz::Contents) {
    let report = index.check().unwrap();
    assert!(report.is_sound(), "{name}: {:?}", report.violations);
    let expected: Vec<_> = model.clone().into_iter().collect();
    assert!(contents(index, Direction::Ascending).unwrap() == expected, "{name}: contents differ");
}

/// A look-up may do maintenance for later operations. If that is refused, the look-up still answers
/// correctly.
#[test]
fn reads_go_on_where_nothing_can_be_written() {
    let stacks: Vec<Stack> = sampled().collect();
    let part = part(512, 16, 128);
    let wrong = parallel::map(&stacks, parallel::cores(), |&stack| {
        let mut wrong = Vec::new();
        for durability in [Durability::EverySync, Durability::EveryOperation] {
            let mut settings = Settings { durability, ..stack.settings(record()) };
            settings.ram_bytes = ram_needed(stack.index, &part, &settings).ok();
            let (chip, Ok(mut index)) = open(stack.index, &part, &settings) else { continue };
            let read = read_on(&mut *index, &chip, stack.index.takes_any_key());
            wrong.extend(read.err().map(|why| format!("{} {durability:?}: {why}", stack.name())));
        }
        wrong
    });
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Fills an index, lets every program and erase fail, and reads on.
fn read_on(index: &mut dyn OrderedIndex, chip: &Shared<SimChip>, any_key: bool) -> Result<(), String> {
    let mut model = fuzz::Contents::new();
    let mut rng = Rng::new(3);
    for number in 0..4000u64 {
        let key = if any_key { rng.below(1500).wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { number };
        match index.insert(&key.to_be_bytes(), &number.to_be_bytes()) {
            Err(IndexError::Full(_)) => break,
            done => done.map_err(|error| format!("insert: {error}"))?,
        };
        model.insert(key.to_be_bytes().to_vec(), number.to_be_bytes().to_vec());
        if number % 97 == 0 {
            index.sync().map_err(|error| format!("sync: {error}"))?;
        }
    }
    let dead = Faults { program_failures_ppm: 1_000_000, erase_failures_ppm: 1_000_000, ..Faults::default() };
    chip.lock().set_faults(dead);
    let mut value = [0; 8];
    for round in 0..5 {
        for (key, held) in &model {
            let found =
                index.get(key, &mut value).map_err(|error| format!("get in round {round}: {error}"))?;
            if !found || value[..] != held[..] {
                return Err(format!("round {round}: another value"));
            }
        }
        let read = contents(index, Direction::Ascending).map_err(|error| format!("range: {error}"))?;
        if read != model.clone().into_iter().collect::<Vec<_>>() {
            return Err(format!("round {round}: another range"));
        }
    }
    Ok(())
}

#[test]
fn sorted_records_are_loaded_and_found_again() {
    for stack in sampled() {
        for count in [0u64, 1, 50, 700] {
            let settings = stack.settings(record());
            let (chip, index) = open(stack.index, &part(1024, 16, 48), &settings);
            let (mut index, mut rng) = (index.unwrap(), Rng::new(count));
            let mut model = fuzz::Contents::new();
            while (model.len() as u64) < count {
                model.insert(rng.next_u64().to_be_bytes().to_vec(), rng.next_u64().to_be_bytes().to_vec());
            }
            let loaded = index.load(&mut model.iter().map(|(key, value)| (&key[..], &value[..]))).unwrap();
            assert_eq!(loaded, count, "{}", stack.name());
            assert_holds(&stack.name(), &mut *index, &model);
            index.close().unwrap();
            let mut index = (stack.index.mount)(Box::new(chip.clone()), &settings).unwrap();
            assert_holds(&stack.name(), &mut *index, &model);
        }
    }
}

#[test]
fn what_is_refused_is_refused_with_a_reason() {
    let part = part(2048, 64, 64);
    for entry in INDEXES {
        let refuse = |settings: &Settings, what: &str| match open(entry, &part, settings).1 {
            Err(error) if error.is_unsupported() && error.to_string().len() > 15 => {}
            Err(error) => panic!("{}: {what}: {error}", entry.name),
            Ok(_) => panic!("{}: {what} was not refused", entry.name),
        };
        refuse(&Settings { ram_bytes: Some(100), ..record() }, "100 bytes of RAM");
        for option in entry.options {
            if option.default.parse::<u64>().is_ok() {
                refuse(&record().with(option.name, "many"), option.name);
            }
        }
        let mut unknown = Options::default();
        unknown.set("no_such_option", "1");
        assert!(entry.check_options(&unknown).unwrap_err().to_string().contains("no_such_option"));
        let mut index = open(entry, &part, &record()).1.unwrap();
        assert!(matches!(index.insert(&[1; 7], &[1; 8]), Err(IndexError::WrongLength { .. })));
        assert!(matches!(index.insert(&[1; 8], &[1; 9]), Err(IndexError::WrongLength { .. })));
        assert!(matches!(index.remove(&[1; 9]), Err(IndexError::WrongLength { .. })));
        assert!(matches!(index.get(&[1; 8], &mut [1; 7]), Err(IndexError::WrongLength { .. })));
    }
}

/// In every class on the first FTL and on raw NAND; on the others in one class after the other, as buffers
/// are the index's and tables the FTL's.
#[test]
fn no_index_holds_more_ram_than_it_was_given() {
    let classes = [Durability::EveryOperation, Durability::EverySync, Durability::None];
    for stack in sampled() {
        let entry = stack.index;
        let is_first = stack.ftl.is_none_or(|ftl| ftl.name == STORES[0].name);
        let mut accepted = 0;
        for (turn, ram) in (4_000..200_000).step_by(sized(31_102, 15_551)).enumerate() {
            let own = turn % classes.len();
            for &durability in if is_first { &classes[..] } else { &classes[own..=own] } {
                let settings = stack.settings(Settings { ram_bytes: Some(ram), durability, ..record() });
                let Ok(mut index) = open(entry, &part(2048, 64, 64), &settings).1 else { continue };
                accepted += 1;
                let mut rng = Rng::new(ram as u64);
                for number in 0..600 {
                    let any = rng.below(4000);
                    let key = if entry.takes_any_key() { any } else { number }.to_be_bytes();
                    index.insert(&key, &key).unwrap();
                    assert!(
                        index.ram_bytes() <= ram,
                        "{}: {} of {ram} bytes",
                        stack.name(),
                        index.ram_bytes()
                    );
                }
                assert!(index.durability() >= settings.durability, "{}", stack.name());
            }
        }
        assert!(
            accepted > if is_first { sized(2, 4) } else { sized(0, 1) },
            "{}: accepted {accepted} budgets only",
            stack.name()
        );
    }
}

#[test]
fn two_runs_leave_the_same_chip() {
    let operations = sized((1200, 600), (3000, 1500));
    for stack in sampled() {
        let image = || {
            let (chip, index) = open(stack.index, &part(1024, 16, 40), &stack.settings(record()));
            let mut index = index.unwrap();
            fuzz::use_for_a_while(&mut *index, stack.index, &mut Rng::new(9), operations).unwrap();
            index.close().unwrap();
            chip.lock().to_image()
        };
        assert!(image() == image(), "{}", stack.name());
    }
}
