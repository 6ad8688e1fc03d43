//! Blocks that fail, bits that flip, chips that become full.

use super::*;
use nandex::Ppn;
use nandex::testing::Chip;

#[test]
fn failing_blocks_are_replaced() {
    let mut figures = Figures::new();
    for seed in 0..sized(2, 4) {
        let faults =
            Faults { seed, program_failures_ppm: 400, erase_failures_ppm: 2_000, ..Faults::default() };
        for geometry in [Geometry::new(512, 64, 16, 128), slc(Geometry::new(1024, 64, 16, 128))] {
            for area in [LogArea::Dynamic, LogArea::Fixed] {
                for class in CLASSES {
                    let settings = &IplConfig { order: Some(12), ..settings(area, class) };
                    soak(
                        Soak { geometry, settings, operations: 3000, keys: 900, seed, faults },
                        &mut figures,
                    );
                }
            }
        }
    }
    assert!(figures["blocks_failed"] > sized(20, 40), "{figures:?}");
}

/// Fills the chip until it is full and takes half of it out again, three times.
#[test]
fn a_full_chip_loses_nothing_and_takes_records_again() {
    // In the gate one class for each geometry and form, in turn.
    let (mut turn, step) = (0, stride(3));
    for geometry in
        [Geometry::new(2048, 64, 8, 16), Geometry::new(512, 64, 16, 20), slc(Geometry::new(1024, 64, 16, 18))]
    {
        for area in [LogArea::Dynamic, LogArea::Fixed] {
            turn += 1;
            for class in CLASSES.into_iter().skip(turn % step).step_by(step) {
                let settings = IplConfig { order: Some(30), ..settings(area, class) };
                let mut tree = IplTree::format(any(chip(geometry)), &settings).unwrap();
                let (mut model, mut rng) = (Model::new(), Rng::new(1));
                for round in 0..3 {
                    let mut inserted = 0;
                    loop {
                        let key = rng.next_u64() as u32;
                        match insert(&mut tree, &mut model, key, round) {
                            Ok(()) => inserted += 1,
                            Err(IndexError::Full(_)) => break,
                            Err(error) => panic!("{geometry:?} {settings:?}: {error}"),
                        }
                        assert!(inserted < 100_000, "never full");
                    }
                    assert!(
                        inserted > 150,
                        "{geometry:?} {settings:?} round {round}: {inserted} inserts only"
                    );
                    assert_holds(&mut tree, &model);
                    let gone: Vec<Vec<u8>> = model.keys().take(model.len() / 2).cloned().collect();
                    for key in gone {
                        take(&mut tree, &mut model, &key)
                            .unwrap_or_else(|error| panic!("{geometry:?} {settings:?}: remove: {error}"));
                    }
                    assert_holds(&mut tree, &model);
                    if round == 1 {
                        tree.close().unwrap();
                    } else {
                        tree.sync().unwrap();
                    }
                    tree = IplTree::mount(tree.into_nand(), &settings).unwrap();
                    assert_holds(&mut tree, &model);
                }
                let left: Vec<Vec<u8>> = model.keys().cloned().collect();
                left.iter().for_each(|key| assert_eq!(take(&mut tree, &mut model, key), Ok(true)));
                assert_holds(&mut tree, &model);
                assert_eq!(tree.stats().height, 1, "{settings:?}");
            }
        }
    }
}

#[derive(Debug, Default)]
struct Found {
    right: u32,
    refused: u32,
    /// Contents that are not those of the last operation.
    wrong: u32,
}

/// Reads everything from a chip on which one bit of one page reads wrongly for ever.
fn read_all(chip: SimChip, (ppn, bit): (Ppn, usize), settings: &IplConfig, model: &Model, found: &mut Found) {
    let what = format!("{ppn} bit {bit} {settings:?}");
    let flipped = Chip::new(chip).with_wrong_bits(ppn, &[bit]);
    let mut tree = match IplTree::mount(any(flipped), settings) {
        Ok(tree) => tree,
        Err(IndexError::Corrupted { .. } | IndexError::NotFormatted(_) | IndexError::Store(_)) => {
            found.refused += 1;
            return;
        }
        Err(error) => panic!("{what}: {error}"),
    };
    match contents(&mut tree) {
        Ok(all) if all == *model => found.right += 1,
        Ok(_) => found.wrong += 1,
        Err(IndexError::Corrupted { .. }) => found.refused += 1,
        Err(error) => panic!("{what}: {error}"),
    }
}

fn damage_everywhere(area: LogArea, closed: bool) -> Found {
    let geometry = slc(Geometry::new(256, 64, 16, 40));
    let settings = IplConfig {
        order: Some(12),
        checkpoint_blocks: Some(4),
        ..settings(area, Durability::EveryOperation)
    };
    let handle = Shared::new(chip(geometry));
    let mut tree = IplTree::format(any(handle.clone()), &settings).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(4));
    for op in 0..900 {
        let key = rng.below(300) as u32;
        if rng.chance(2, 3) {
            insert(&mut tree, &mut model, key, op).unwrap();
        } else {
            remove(&mut tree, &mut model, key).unwrap();
        }
    }
    if closed {
        tree.close().unwrap();
    }
    let (mut found, chip) = (Found::default(), handle.lock().clone());
    for ppn in (0..geometry.pages()).map(Ppn).filter(|&ppn| !chip.is_erased(ppn)).step_by(stride(9)) {
        for bit in (ppn.index() % 97..(256 + 40) * 8).step_by(97) {
            read_all(chip.clone(), (ppn, bit), &settings, &model, &mut found);
        }
    }
    found
}

#[test]
fn wrong_bits_of_a_closed_chip_are_never_returned_as_data() {
    for area in [LogArea::Dynamic, LogArea::Fixed] {
        let found = damage_everywhere(area, true);
        assert!(
            found.wrong == 0 && found.refused > sized(11, 100) && found.right > sized(11, 100),
            "{area:?}: {found:?}"
        );
    }
}

/// One damage is not noticed. The last page of a block may look like the torn page of a cut, and its
/// operations are lost, if no checkpoint knows of it and the page programmed after it is gone.
#[test]
fn wrong_bits_of_a_chip_that_was_cut_are_noticed() {
    for area in [LogArea::Dynamic, LogArea::Fixed] {
        let found = damage_everywhere(area, false);
        println!("{area:?}: {found:?}");
        assert!(found.refused > sized(11, 100) && found.right > sized(11, 100), "{area:?}: {found:?}");
        assert!(found.wrong * 50 < found.refused + found.right, "{area:?}: {found:?}");
    }
}

#[test]
fn what_is_on_the_chip_is_known_again_or_refused() {
    let geometry = Geometry::new(512, 64, 16, 32);
    let dynamic = settings(LogArea::Dynamic, Durability::EveryOperation);
    let fixed = settings(LogArea::Fixed, Durability::EveryOperation);
    let chip = Shared::new(chip(geometry));
    drop(IplTree::format(any(chip.clone()), &dynamic).unwrap());
    assert!(IplTree::mount(any(chip.clone()), &dynamic).is_ok());
    let refused = |settings: &IplConfig| IplTree::mount(any(chip.clone()), settings).err();
    assert!(matches!(refused(&fixed), Some(IndexError::NotFormatted(_))));
    assert!(matches!(
        refused(&IplConfig::new(RecordFormat::new(8, 4), LogArea::Dynamic)),
        Some(IndexError::NotFormatted(_))
    ));
    let blank = super::chip(geometry);
    assert!(matches!(IplTree::mount(any(blank), &dynamic).err(), Some(IndexError::NotFormatted(_))));
    let sectors = IplConfig { log_unit: LogUnit::Sector, ..dynamic };
    let error = IplTree::format(any(super::chip(geometry)), &sectors).err();
    assert!(matches!(error, Some(IndexError::Unsupported(_))), "{error:?}");
}
