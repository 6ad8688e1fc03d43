//! IPL and dIPL with nodes and log pages that keep their places.

use super::*;
use nandex::testing::Op;
use nandex_papers::ordered::ipl::{IplConfig, IplTree, LogArea, LogUnit};
use std::collections::BTreeSet;

type Tree = IplTree<Box<dyn Nand>>;

const CLASSES: [Durability; 3] = [Durability::EveryOperation, Durability::EverySync, Durability::None];

fn in_place(area: LogArea, durability: Durability) -> IplConfig {
    let placement = Placement::InPlace;
    IplConfig { durability, placement, ..IplConfig::new(RECORD, area) }
}

fn figures(tree: &Tree, all: &mut BTreeMap<&'static str, u64>) {
    tree.stats().metrics.iter().for_each(|metric| *all.entry(metric.name).or_default() += metric.value);
}

/// One random operation, on the model too.
fn step(tree: &mut Tree, model: &mut Model, rng: &mut Rng, (keys, grows): (u64, u64)) {
    let op = Mix::updates(keys, [grows, 100 - grows], 0).draw(rng, RECORD);
    apply(tree, model, &op, Answers::Exact);
}

#[test]
fn it_is_a_map_over_mounts() {
    // In the gate one page and order for each form and class, in turn.
    let (mut did, mut turn, every) = (BTreeMap::new(), 0, stride(3));
    for (log_area, unit) in [
        (LogArea::Dynamic, LogUnit::Auto),
        (LogArea::Dynamic, LogUnit::Page),
        (LogArea::Fixed, LogUnit::Auto),
        (LogArea::Fixed, LogUnit::Page),
    ] {
        turn += 1;
        for class in CLASSES {
            turn += 1;
            let shapes = [(576, 96, 2000, 99), (1088, 48, 4000, 99), (1088, 48, 900, 6)];
            for (page_bytes, blocks, keys, order) in shapes.into_iter().skip(turn % every).step_by(every) {
                let shelf = Shelf::new(page_bytes, blocks);
                let settings = IplConfig { log_unit: unit, order: Some(order), ..in_place(log_area, class) };
                let what = format!("{settings:?} {page_bytes}");
                let mut tree = IplTree::format(shelf.chip(), &settings).unwrap();
                assert_eq!(tree.durability(), class);
                let trims = shelf.trims();
                let (mut model, mut rng) = (Model::new(), Rng::new(keys));
                for op in 0..9_000u32 {
                    // Grows, shrinks to nothing nearly, and grows again.
                    let grows = if op / 3000 == 1 { 10 } else { 65 };
                    step(&mut tree, &mut model, &mut rng, (keys, grows));
                    if op % 97 == 96 {
                        tree.sync().unwrap();
                    }
                    if op % 500 == 499 {
                        let report = tree.check().unwrap();
                        assert!(report.is_sound(), "{what}: operation {op}: {:?}", report.violations);
                    }
                    if op % 1000 == 999 {
                        tree.close().unwrap();
                        figures(&tree, &mut did);
                        drop(tree);
                        tree = IplTree::mount(shelf.chip(), &settings).unwrap();
                        assert_holds(&mut tree, &model);
                    }
                }
                assert_eq!(shelf.trims(), trims, "{what}: pages were trimmed");
                for key in model.keys() {
                    assert!(tree.remove(key).unwrap());
                }
                assert_eq!(tree.stats().height, 1);
                assert_holds(&mut tree, &Model::new());
            }
        }
    }
    assert!(did["co_merges"] > sized(1, 3), "{did:?}");
    for name in ["block_merges", "block_splits", "ghosts", "rewrites", "log_units_read"] {
        assert!(did[name] > sized(7, 20), "{name}: {did:?}");
    }
}

#[test]
fn nodes_and_log_pages_are_written_over_where_they_are() {
    for log_area in [LogArea::Dynamic, LogArea::Fixed] {
        let shelf = Shelf::new(1088, 48);
        let settings = IplConfig { order: Some(8), ..in_place(log_area, Durability::EveryOperation) };
        let mut tree = IplTree::format(shelf.chip(), &settings).unwrap();
        let keys: Vec<[u8; 4]> = (0..400u32).map(|key| (key * 7919 % 401).to_be_bytes()).collect();
        for key in &keys {
            tree.insert(key, &[1; 4]).unwrap();
        }
        let update = |tree: &mut Tree, round: u8| {
            let before = shelf.writes().len();
            keys.iter().for_each(|key| assert!(tree.insert(key, &[round; 4]).unwrap()));
            shelf.writes()[before..].to_vec()
        };
        let merges = |tree: &Tree| tree.stats().collections;
        // By the second round every group has had its largest log.
        let places: BTreeSet<u32> =
            [update(&mut tree, 2), update(&mut tree, 3)].concat().into_iter().collect();
        let begun = merges(&tree);
        for round in 4..9 {
            let writes = update(&mut tree, round);
            assert!(writes.iter().all(|place| places.contains(place)), "{log_area:?}: a page moved");
        }
        assert!(merges(&tree) > begun + 20, "{log_area:?}");
        // Two units share a page of 1,024 bytes: the second is written over the first.
        let written = update(&mut tree, 9);
        let again = written.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(again > 0, "{log_area:?}: no log page was written over");
        assert_holds(&mut tree, &keys.iter().map(|key| (key.to_vec(), vec![9; 4])).collect());
    }
}

/// A run on a small store that loses power after so many writes; what may be found then.
fn run_to_cut(settings: &IplConfig, power: Option<u64>) -> (Shelf, History, bool) {
    let shelf = Shelf::new(576, 14);
    let mut tree = IplTree::format(shelf.chip(), settings).unwrap();
    power.into_iter().for_each(|writes| shelf.fail_after(writes));
    let (mut history, mut rng) = (History::new(Model::new()), Rng::new(3));
    for op in 0..700u32 {
        let mix = Mix::updates(300, if op < 450 { [75, 25] } else { [20, 80] }, 0);
        let next = if op % 23 == 22 { Op::Sync } else { mix.draw(&mut rng, RECORD) };
        if let Err(error) = history.apply(&mut tree, &next) {
            assert_eq!(error, IndexError::Store(StoreError::Nand(nandex::NandError::PowerLost)));
            return (shelf, history, true);
        }
    }
    (shelf, history, false)
}

#[test]
fn a_cut_at_any_write_leaves_a_state_since_the_last_durable_one() {
    for log_area in [LogArea::Dynamic, LogArea::Fixed] {
        for class in CLASSES {
            for (order, unit) in [(6, LogUnit::Auto), (9, LogUnit::Page)] {
                let settings = IplConfig {
                    order: Some(order),
                    log_unit: unit,
                    rewrite_units: 3,
                    ..in_place(log_area, class)
                };
                let mut power = run_to_cut(&settings, Some(0)).0.writes().len() as u64;
                loop {
                    let (shelf, history, is_cut) = run_to_cut(&settings, Some(power));
                    if !is_cut {
                        break;
                    }
                    // Cut again while void pages are blanked, once.
                    shelf.fail_after(power + power % 2);
                    let mounted = IplTree::mount(shelf.chip(), &settings);
                    shelf.store.refuse_nothing();
                    let mounted = mounted.or_else(|_| IplTree::mount(shelf.chip(), &settings));
                    if class == Durability::None
                        && mounted.as_ref().err() == Some(&IndexError::NotCleanlyClosed)
                    {
                        power += 2 * stride(9) as u64;
                        continue;
                    }
                    let mut tree = mounted.unwrap();
                    let what = format!("{settings:?} after {power} writes");
                    let mut found = contents(&mut tree).unwrap();
                    let is_sure = class == Durability::EveryOperation;
                    let least = if is_sure { history.acknowledged() } else { 0 };
                    assert!(history.had(&found, least), "{what}: no state since the last durable one");
                    assert_holds(&mut tree, &found);
                    let mut rng = Rng::new(power);
                    for _ in 0..40 {
                        step(&mut tree, &mut found, &mut rng, (300, 50));
                    }
                    tree.sync().unwrap();
                    drop(tree);
                    let mut tree = IplTree::mount(shelf.chip(), &settings).unwrap();
                    assert_holds(&mut tree, &found);
                    power += stride(9) as u64 * if class == Durability::EveryOperation { 5 } else { 2 };
                }
                assert!(power > 100, "{settings:?}: {power} writes only");
            }
        }
    }
}

#[test]
fn a_full_store_refuses_insertions_and_takes_removals() {
    for log_area in [LogArea::Dynamic, LogArea::Fixed] {
        for class in CLASSES {
            let settings = IplConfig { order: Some(12), ..in_place(log_area, class) };
            let shelf = Shelf::new(576, 12);
            let mut tree = IplTree::format(shelf.chip(), &settings).unwrap();
            let (mut model, mut rng) = (Model::new(), Rng::new(8));
            for round in 0..4 {
                let mut refused = 0;
                while refused < 20 {
                    let key = (rng.below(1 << 20) as u32).to_be_bytes();
                    match put(&mut tree, &mut model, &key, &[round; 4]) {
                        Ok(_) => {}
                        Err(IndexError::Full(_)) => refused += 1,
                        Err(error) => panic!("{settings:?}: {error}"),
                    }
                }
                assert!(model.len() > 200, "{settings:?}: full with {} records", model.len());
                assert_holds(&mut tree, &model);
                for key in model.keys().filter(|key| key[3] % 4 > 0).cloned().collect::<Vec<_>>() {
                    assert_eq!(take(&mut tree, &mut model, &key), Ok(true));
                }
                tree.sync().unwrap();
                drop(tree);
                tree = IplTree::mount(shelf.chip(), &settings).unwrap();
                assert_holds(&mut tree, &model);
            }
        }
    }
}

#[test]
fn no_more_ram_is_held_than_was_given() {
    let mut accepted = 0;
    for ram in (6_000..90_000).step_by(4_111 * stride(3)) {
        for class in CLASSES {
            for log_area in [LogArea::Dynamic, LogArea::Fixed] {
                let settings = IplConfig { ram_bytes: Some(ram), ..in_place(log_area, class) };
                let shelf = Shelf::new(1088, 64);
                let Ok(mut tree) = IplTree::format(shelf.chip(), &settings) else { continue };
                accepted += 1;
                let (mut model, mut rng) = (Model::new(), Rng::new(ram as u64));
                for _ in 0..1500 {
                    step(&mut tree, &mut model, &mut rng, (1200, 70));
                    assert!(tree.ram_bytes() <= ram, "{} of {ram} bytes", tree.ram_bytes());
                }
                assert_holds(&mut tree, &model);
            }
        }
    }
    assert!(accepted > sized(20, 60), "{accepted} budgets accepted only");
}

/// A tree of some hundred records, and the pages that it wrote.
fn planted(settings: &IplConfig) -> (Shelf, Model, BTreeSet<u32>) {
    let shelf = Shelf::new(576, 14);
    let mut tree = IplTree::format(shelf.chip(), settings).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(21));
    for _ in 0..500 {
        step(&mut tree, &mut model, &mut rng, (400, 80));
    }
    let places = shelf.writes().into_iter().collect();
    (shelf, model, places)
}

#[test]
fn a_page_that_cannot_be_read_refuses_the_mount() {
    for log_area in [LogArea::Dynamic, LogArea::Fixed] {
        let settings = IplConfig { order: Some(10), ..in_place(log_area, Durability::EveryOperation) };
        let places = planted(&settings).2;
        assert!(places.len() > 40, "{places:?}");
        let step = stride(3);
        for (number, place) in places.into_iter().enumerate() {
            for at in [0usize, 9, 300, 520].into_iter().skip(number % step).step_by(step) {
                let (shelf, model, _) = planted(&settings);
                shelf.change(place, |page| page[at] ^= 4);
                match IplTree::mount(shelf.chip(), &settings) {
                    Err(IndexError::Corrupted { .. } | IndexError::NotFormatted(_)) => {}
                    // The rest of a log page, or of the header, tells nothing.
                    Ok(mut tree) => assert_holds(&mut tree, &model),
                    Err(error) => panic!("page {place}, byte {at}: {error}"),
                }
            }
        }
    }
}

#[test]
fn a_log_page_that_is_missing_below_others_refuses_the_mount() {
    let settings =
        IplConfig { log_unit: LogUnit::Page, ..in_place(LogArea::Dynamic, Durability::EveryOperation) };
    let shelf = Shelf::new(576, 14);
    let mut tree = IplTree::format(shelf.chip(), &settings).unwrap();
    for key in 0..3u32 {
        tree.insert(&key.to_be_bytes(), &[1; 4]).unwrap();
    }
    drop(tree);
    let writes = shelf.writes();
    // Image of the root, header, and a log page for each insertion, from the end of the group.
    assert_eq!(writes, [16, 0, 31, 30, 29]);
    shelf.change(30, |page| page.fill(0));
    assert!(matches!(IplTree::mount(shelf.chip(), &settings), Err(IndexError::Corrupted { .. })));
    // One that holds records of leaves only is missed by its number.
    let settings = IplConfig { order: Some(8), rewrite_units: 0, ..settings };
    let missed = (17..32).filter(|&place| {
        let shelf = Shelf::new(576, 14);
        let mut tree = IplTree::format(shelf.chip(), &settings).unwrap();
        (0..17u32).for_each(|key| assert!(!tree.insert(&(key * 5 % 17).to_be_bytes(), &[1; 4]).unwrap()));
        shelf.change(place, |page| page.fill(0));
        let refused = IplTree::mount(shelf.chip(), &settings).err();
        matches!(refused, Some(IndexError::Corrupted { what, .. }) if what.contains("missing"))
    });
    assert!(missed.count() > 2);
}

#[test]
fn what_cannot_keep_its_places_is_refused() {
    let shelf = Shelf::new(576, 24);
    let settings = in_place(LogArea::Dynamic, Durability::EveryOperation);
    let other = Shelf::new(576, 24);
    let plain = || -> Box<dyn Nand> { Box::new(shown(&other.store)) };
    let refused = IplTree::format(plain(), &settings).err().unwrap();
    assert!(matches!(refused, IndexError::Unsupported(_)), "{refused}");
    let other_places = IplConfig::new(RECORD, LogArea::Dynamic);
    drop(IplTree::format(plain(), &other_places).unwrap());
    assert!(matches!(IplTree::mount(other.chip(), &settings), Err(IndexError::NotFormatted(_))));
    drop(IplTree::format(shelf.chip(), &settings).unwrap());
    // The chip of the others finds a page that it did not program.
    assert!(IplTree::mount(shelf.chip(), &other_places).is_err());
    for other in [
        in_place(LogArea::Fixed, Durability::EveryOperation),
        IplConfig { record: RecordFormat::new(8, 4), ..settings },
    ] {
        assert!(matches!(IplTree::mount(shelf.chip(), &other), Err(IndexError::NotFormatted(_))));
    }
    let few = Shelf::new(576, 4);
    assert!(IplTree::format(few.chip(), &settings).is_err_and(|error| error.is_unsupported()));
}
