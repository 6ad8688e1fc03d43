//! The price of a mount after a power cut, in reads; how many passes it makes for want of RAM is no matter.

use super::*;
use nandex::Pbn;
use nandex::nand::sim::{CutWhen, PowerCut, TornModel};

const GEOMETRY: Geometry = Geometry::new(1024, 64, 64, 64);

/// A tree of random records whose power was cut while more were inserted, and what it held before, some of
/// the last operations apart.
fn cut(geometry: Geometry, settings: &IplConfig) -> (Shared<SimChip>, Model) {
    let chip = Shared::new(chip(geometry));
    let mut tree = IplTree::format(any(chip.clone()), settings).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(3));
    for i in 0..40_000 {
        insert(&mut tree, &mut model, rng.below(20_000) as u32, i).unwrap();
    }
    tree.sync().unwrap();
    cut_in_a_change(&chip, tree);
    (chip, model)
}

/// Cuts the power in a change of a record of its own.
fn cut_in_a_change(chip: &Shared<SimChip>, mut tree: IplTree<Box<dyn Nand>>) {
    let at_operation = chip.lock().operations() + 1;
    let (when, torn) = (CutWhen::Inside, TornModel::Prefix);
    chip.lock().plan_power_cut(PowerCut { at_operation, when, torn, seed: 1 });
    assert!((0..1_000).any(|i| tree.insert(&20_000u32.to_be_bytes(), &[i as u8; 4]).is_err()));
    drop(tree);
    chip.lock().power_on();
}

/// Mounts, and says how many pages that read.
fn mount(chip: &Shared<SimChip>, settings: &IplConfig, model: &Model) -> u64 {
    let before = chip.lock().counters();
    let mut tree = IplTree::mount(any(chip.clone()), settings).unwrap();
    let reads = chip.lock().counters().since(&before).page_reads_total();
    assert!(tree.check().unwrap().is_sound());
    let mut found = contents(&mut tree).unwrap();
    found.remove(&20_000u32.to_be_bytes()[..]);
    assert!(found == *model, "contents differ");
    reads
}

#[test]
fn a_mount_after_a_cut_reads_each_page_once() {
    // In the gate one class for each geometry and form, in turn.
    let (mut turn, step) = (0, stride(2));
    for geometry in [GEOMETRY, partial(GEOMETRY), slc(GEOMETRY)] {
        for area in [LogArea::Dynamic, LogArea::Fixed] {
            turn += 1 + usize::from(area == LogArea::Dynamic);
            for class in CLASSES.into_iter().take(2).skip(turn % step).step_by(step) {
                let settings = IplConfig { ram_bytes: Some(512 << 10), ..settings(area, class) };
                let (chip, model) = cut(geometry, &settings);
                let reads = mount(&chip, &settings, &model);
                // And a few of each block, to guess what is committed, and the inner nodes.
                let most = u64::from(geometry.pages()) * 115 / 100;
                assert!(reads <= most, "{geometry:?} {area:?} {class:?}: {reads} reads, more than {most}");
            }
        }
    }
}

#[test]
fn a_mount_with_little_ram_looks_at_a_part_at_a_time() {
    for area in [LogArea::Dynamic, LogArea::Fixed] {
        let roomy = settings(area, Durability::EveryOperation);
        let (chip, model) = cut(GEOMETRY, &roomy);
        let Err(IndexError::TooLittleRam { needed, .. }) =
            IplTree::mount(any(chip.clone()), &IplConfig { ram_bytes: Some(0), ..roomy })
        else {
            panic!("no RAM suffices")
        };
        let small = IplConfig { ram_bytes: Some(needed), ..roomy };
        let once = mount(&Shared::new(chip.lock().clone()), &roomy, &model);
        let reads = mount(&chip, &small, &model);
        assert!(reads > once * 3 / 2, "{area:?}: {reads} reads, {once} with more RAM");
    }
}

/// A tree of few records, changed until most blocks of the chip were used, whose power was cut in a change.
fn worn(geometry: Geometry, settings: &IplConfig) -> (Shared<SimChip>, Model) {
    let chip = Shared::new(chip(geometry));
    let mut tree = IplTree::format(any(chip.clone()), settings).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(3));
    let is_worn = |chip: &SimChip| {
        let firsts = (0..geometry.blocks).map(|block| geometry.page_at(Pbn(block), 0));
        4 * firsts.filter(|&ppn| !chip.is_erased(ppn)).count() > 3 * geometry.blocks as usize
    };
    for i in 0.. {
        insert(&mut tree, &mut model, rng.below(200) as u32, i).unwrap();
        if i % 5 == 0 {
            tree.sync().unwrap();
        }
        if i % 100 == 0 && is_worn(&chip.lock()) {
            break;
        }
    }
    tree.sync().unwrap();
    cut_in_a_change(&chip, tree);
    (chip, model)
}

#[test]
fn a_mount_after_a_cut_passes_over_blocks_left_before_the_checkpoint() {
    // In the gate one class for each geometry and form, in turn.
    let (mut turn, step) = (0, stride(2));
    let geometry = Geometry::new(1024, 64, 32, 256);
    for geometry in [geometry, partial(geometry), slc(geometry)] {
        for area in [LogArea::Dynamic, LogArea::Fixed] {
            turn += 1 + usize::from(area == LogArea::Dynamic);
            for class in CLASSES.into_iter().take(2).skip(turn % step).step_by(step) {
                let settings = IplConfig { ram_bytes: Some(64 << 10), ..settings(area, class) };
                let (chip, model) = worn(geometry, &settings);
                let reads = mount(&chip, &settings, &model);
                // The first pages of each block, those of the blocks since the checkpoint twice at most, and
                // some of the tree and the checkpoint.
                let since = 2 * 18 * u64::from(geometry.pages_per_block);
                let most = 3 * u64::from(geometry.blocks) + since + 100;
                assert!(reads <= most, "{geometry:?} {area:?} {class:?}: {reads} reads, more than {most}");
            }
        }
    }
}
