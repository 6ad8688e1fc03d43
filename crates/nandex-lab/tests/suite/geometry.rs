//! Lives on chips of any geometry with records and RAM of any size: every index, FTL and spatial index.
//!
//! More of them, with other seeds: `nandex torture --geometry`.

use crate::inputs::sized;
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Durability, RecordFormat};
use nandex_lab::crash::Target;
use nandex_lab::options::Settings;
use nandex_lab::parallel::cores;
use nandex_lab::registry::{INDEXES, STORES, subjects};
use nandex_lab::runner::Control;
use nandex_lab::spatial::SPATIAL;
use nandex_lab::torture::{Fate, Order, Plan, Victim, run};

#[test]
fn every_key_is_found_on_chips_of_any_geometry() {
    let indexes = subjects().map(Target::Index);
    let all = indexes.chain(STORES.iter().map(Target::Store)).chain(SPATIAL.iter().map(Target::Spatial));
    let victims = all.map(|target| Victim { target, ftl: None }).collect();
    let fate = Fate { any_geometry: true, ..Fate::default() };
    let lives = sized(1, 2);
    let plan = Plan { victims, order: Order::Lives(lives), fate, seed: 1, threads: cores() };
    let report = run(&plan, &Control::default(), &|_| {});
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    for row in &report.rows {
        assert!(row.counts.lives > 0, "{} takes none of the chips", row.victim);
        assert!(row.counts.mounts >= lives, "{} was hardly mounted", row.victim);
    }
}

/// Sizes that do not go together are refused by name, however small pages are and however large records.
#[test]
fn records_that_do_not_fit_a_page_are_refused_by_name() {
    let mut wrong = Vec::new();
    let sizes = [(255, 255), (255, 0), (1, 255), (128, 120), (1, 0)];
    for entry in INDEXES {
        for (page_bytes, (key, value)) in
            [128, 256, 512, 1024].map(|page| sizes.map(|size| (page, size))).concat()
        {
            let part = entry.suited(mlc_with(page_bytes, 16, 64));
            for (durability, ram_bytes) in [
                (Durability::EverySync, None),
                (Durability::EverySync, Some(40_000)),
                (Durability::None, Some(200_000)),
            ] {
                let settings =
                    Settings { durability, ram_bytes, ..Settings::new(RecordFormat::new(key, value)) };
                let Ok(chip) = SimChip::new(&part) else { continue };
                match (entry.format)(Box::new(chip), &settings) {
                    Err(error) if !error.is_unsupported() => {
                        wrong.push(format!("{}, {page_bytes}, {key} + {value}: {error}", entry.name));
                    }
                    _ => {}
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
