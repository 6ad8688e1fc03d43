//! An R-tree on the driver, over four data lines, through cuts of the power at operations of the part.

#![allow(clippy::unwrap_used)]

use nandex::ftl::page_map::PageMapFtl;
use nandex::spatial::r_tree::{RTree, Split, config};
use nandex::spatial::{Rect, Relation, SpatialIndex};
use nandex_spi::model::{Bus, Clock, Model};
use nandex_spi::parts::W25N01GV;
use nandex_spi::{FourLines, SpiNand, SpiPart};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

type Tree = RTree<PageMapFtl<SpiNand<FourLines<Bus>, Clock>>, i32, 2>;

const PART: SpiPart = SpiPart { pages_per_block: 16, blocks: 48, ..W25N01GV };
const PLACES: u64 = 250;

fn chip(model: &Model) -> SpiNand<FourLines<Bus>, Clock> {
    let (bus, clock) = model.handles();
    SpiNand::with_part(FourLines(bus), clock, PART).unwrap()
}

fn format(model: &Model) -> Tree {
    Tree::format(PageMapFtl::format(chip(model), &Default::default()).unwrap(), &config(Split::Linear))
        .unwrap()
}

fn place(id: u64) -> Rect<i32, 2> {
    Rect::point([(id * 37 % 101) as i32, (id * 61 % 97) as i32]).unwrap()
}

/// Places entered and synced until the power goes: how many were acknowledged.
fn run(tree: &mut Tree) -> u64 {
    for id in 0..PLACES {
        if tree.insert(&place(id), id).is_err() || tree.sync().is_err() {
            return id;
        }
    }
    PLACES
}

fn contents(tree: &mut Tree) -> BTreeSet<u64> {
    let report = tree.check().unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    let mut found = BTreeSet::new();
    let all = Rect::new([-1, -1], [1_000, 1_000]).unwrap();
    tree.window(&all, Relation::Intersects, &mut |rect, id| {
        assert_eq!(*rect, place(id));
        found.insert(id);
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

#[test]
fn no_place_is_lost_at_any_of_many_cuts() {
    let model = Model::new(&PART);
    let mut tree = format(&model);
    let formatted = model.operations();
    assert_eq!(run(&mut tree), PLACES);
    assert_eq!(contents(&mut tree).len() as u64, PLACES);
    let all = model.operations();
    for cut in (formatted..all).step_by(((all - formatted) / 100).max(1) as usize) {
        let model = Model::new(&PART);
        let mut tree = format(&model);
        model.cut_at(cut);
        let acknowledged = run(&mut tree);
        drop(tree);
        model.power_on();
        let ftl = PageMapFtl::mount(chip(&model), &Default::default()).unwrap();
        let mut tree = Tree::mount_found(ftl).unwrap();
        let found = contents(&mut tree);
        assert!(found.is_superset(&(0..acknowledged).collect()), "cut {cut}: {acknowledged} acknowledged");
        assert!(found.len() as u64 <= acknowledged + 1, "cut {cut}");
        tree.insert(&place(PLACES), PLACES).unwrap();
    }
}
