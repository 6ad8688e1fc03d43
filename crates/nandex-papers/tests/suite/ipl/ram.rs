//! IPL and dIPL in the smallest RAM.

use super::*;

fn smallest(geometry: Geometry, settings: &IplConfig) -> usize {
    match IplTree::format(chip(geometry), &IplConfig { ram_bytes: Some(0), ..*settings }) {
        Err(IndexError::TooLittleRam { needed, .. }) => needed,
        other => panic!("{:?}", other.map(drop)),
    }
}

/// One leaf gets all records of a log area: they take more RAM than there is for a chain, whose units are
/// read twice then.
#[test]
fn a_chain_that_is_longer_than_the_ram_is_read_all_the_same() {
    for geometry in [Geometry::new(512, 64, 32, 64), slc(Geometry::new(2048, 64, 32, 64))] {
        for area in [LogArea::Dynamic, LogArea::Fixed] {
            let plenty =
                IplConfig { log_pages: Some(8), rewrite_units: 0, ..settings(area, Durability::EverySync) };
            let small = IplConfig { ram_bytes: Some(smallest(geometry, &plenty)), ..plenty };
            let reads = [plenty, small].map(|settings| {
                let mut tree = IplTree::format(chip(geometry), &settings).unwrap();
                let (mut model, mut rng) = (Model::new(), Rng::new(1));
                for round in 0..sized(1500, 3000) {
                    let key = rng.below(20) as u32;
                    if rng.chance(1, 4) {
                        remove(&mut tree, &mut model, key).unwrap();
                    } else {
                        insert(&mut tree, &mut model, key, round).unwrap();
                    }
                    if round % 50 == 0 {
                        tree.sync().unwrap();
                        assert_holds(&mut tree, &model);
                    }
                }
                tree.sync().unwrap();
                let mut tree = IplTree::mount(tree.into_nand(), &settings).unwrap();
                assert_holds(&mut tree, &model);
                tree.into_nand().counters().page_reads_total()
            });
            assert!(reads[0] < reads[1], "{area:?}, {geometry:?}: no chain was read twice: {reads:?}");
        }
    }
}

/// Room for the table of nodes or another level that is not there is told as a full chip; nothing is lost.
#[test]
fn the_smallest_ram_refuses_what_it_has_no_room_for() {
    for area in [LogArea::Dynamic, LogArea::Fixed] {
        for class in CLASSES {
            let geometry = Geometry::new(512, 64, 32, 512);
            let settings = IplConfig { order: Some(6), ..settings(area, class) };
            let settings = IplConfig { ram_bytes: Some(smallest(geometry, &settings)), ..settings };
            let mut tree = IplTree::format(chip(geometry), &settings).unwrap();
            let (mut model, mut rng) = (Model::new(), Rng::new(2));
            let refused = loop {
                let key = rng.next_u64() as u32;
                match insert(&mut tree, &mut model, key, 1) {
                    Ok(()) => {}
                    Err(error) => break error,
                }
            };
            assert_eq!(refused, IndexError::Full(nandex::Limit::Ram));
            assert!(model.len() > 100, "{} records", model.len());
            assert_holds(&mut tree, &model);
            tree.close().unwrap();
            let mut tree = IplTree::mount(tree.into_nand(), &settings).unwrap();
            assert_holds(&mut tree, &model);
        }
    }
}
