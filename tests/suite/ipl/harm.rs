//! Blocks that fail, and chips of other settings.

use super::*;

#[test]
fn failing_blocks_are_replaced() {
    let mut figures = Figures::new();
    for seed in 0..4 {
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
    assert!(figures["blocks_failed"] > 40, "{figures:?}");
}

#[test]
fn what_is_on_the_chip_is_known_again_or_refused() {
    let geometry = Geometry::new(512, 64, 16, 32);
    let dynamic = settings(LogArea::Dynamic, Durability::EveryOperation);
    let fixed = settings(LogArea::Fixed, Durability::EveryOperation);
    let chip = IplTree::format(chip(geometry), &dynamic).unwrap().into_nand();
    assert!(IplTree::mount(chip.clone(), &dynamic).is_ok());
    let refused = |settings: &IplConfig| IplTree::mount(chip.clone(), settings).err();
    assert!(matches!(refused(&fixed), Some(IndexError::NotFormatted(_))));
    assert!(matches!(
        refused(&IplConfig::new(RecordFormat::new(8, 4), LogArea::Dynamic)),
        Some(IndexError::NotFormatted(_))
    ));
    let blank = super::chip(geometry);
    assert!(matches!(IplTree::mount(blank, &dynamic).err(), Some(IndexError::NotFormatted(_))));
    let sectors = IplConfig { log_unit: LogUnit::Sector, ..dynamic };
    let error = IplTree::format(super::chip(geometry), &sectors).err();
    assert!(matches!(error, Some(IndexError::Unsupported(_))), "{error:?}");
}
