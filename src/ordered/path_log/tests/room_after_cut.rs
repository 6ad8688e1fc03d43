//! Room at the edge of full: a cut costs none of it. A tree takes as many records after a recovery as the
//! same tree without any cut, whatever the cut left of a page or a block.

use crate::check::IndexError;
use crate::inputs::stride;
use crate::nand::catalogue::mlc_64m;
use crate::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use crate::ordered::mu::{LayoutPolicy, LeafShare, MenuConfig, MuStarTree, MuTree};
use crate::ordered::vm::{VmConfig, VmTree};
use crate::ordered::wandering::WanderingTree;
use crate::ordered::{OrderedIndex, RawConfig, RecordFormat};
use crate::rng::split_mix;
use crate::{Geometry, Shared};
use alloc::boxed::Box;
use alloc::vec::Vec;

const RECORD: RecordFormat = RecordFormat::new(4, 12);

/// Number of operations of which one is cut.
const OPERATIONS: u32 = 12;

/// New keys, from which insertions draw when room is measured.
const NEW: u32 = 1 << 30;

pub(super) type Chip = Shared<SimChip>;
pub(super) type Tree = Box<dyn OrderedIndex>;

/// Makes a tree on a chip if the flag is set, else mounts it.
pub(super) type Open = fn(Chip, bool) -> Result<Tree, IndexError>;

macro_rules! opens {
    ($tree:ident, $config:expr) => {
        |chip, is_new| {
            let config = $config;
            let opened = if is_new { $tree::format(chip, &config) } else { $tree::mount(chip, &config) };
            opened.map(|tree| Box::new(tree) as Tree)
        }
    };
}

const MU: Open = opens!(MuTree, RawConfig::new(RECORD));
/// With one layout: an adaptive tree chooses by what it counted since the mount, and so has other leaves.
const MU_STAR: Open = opens!(MuStarTree, {
    let layout = LayoutPolicy::Fixed(LeafShare::ALL[2]);
    RawConfig { scheme: MenuConfig { layout, ..MenuConfig::default() }, ..RawConfig::new(RECORD) }
});
const WANDERING: Open = opens!(WanderingTree, RawConfig::new(RECORD));
const JOURNAL: Open = opens!(WanderingTree, RawConfig { journal: 6, ..RawConfig::new(RECORD) });
const VM: Open = opens!(VmTree, VmConfig::new(RECORD));
pub(super) const OPENS: [Open; 5] = [MU, MU_STAR, WANDERING, JOURNAL, VM];

fn geometries() -> [Geometry; 4] {
    let shapes = [(512, 16, 32), (1024, 8, 40), (512, 32, 16), (512, 4, 100)];
    shapes.map(|(page_bytes, pages, blocks)| Geometry::new(page_bytes, 64, pages, blocks))
}

/// The key of a number, all over the keys.
pub(super) fn key(number: u32) -> [u8; 4] {
    (split_mix(number.into()) as u32).to_be_bytes()
}

fn put(tree: &mut Tree, number: u32) -> Result<bool, IndexError> {
    tree.insert(&key(number), &[number as u8; 12])
}

/// Makes one operation of those that are cut: three of four put a new record, the fourth removes one.
fn step(tree: &mut Tree, number: u32) -> Result<bool, IndexError> {
    if number % 4 == 3 { tree.remove(&key(number - 1 + NEW / 2)) } else { put(tree, number + NEW / 2) }
}

/// A chip with a tree that was filled until it refused, and then lost a few whole leaves.
pub(super) fn nearly_full(open: Open, geometry: Geometry) -> SimChip {
    let mut part = mlc_64m();
    part.geometry = geometry;
    let chip = Shared::new(SimChip::new(&part).unwrap());
    let mut tree = open(chip.clone(), true).unwrap();
    let records = (0..).find(|&number| put(&mut tree, number).is_err()).unwrap();
    for number in (0..records).filter(|&number| key(number)[0] < 8) {
        tree.remove(&key(number)).unwrap();
    }
    tree.close().unwrap();
    drop(tree);
    chip.lock().clone()
}

/// Number of records that a tree takes before it refuses one.
fn room(tree: &mut Tree) -> u32 {
    for number in 0.. {
        match put(tree, NEW + number) {
            Ok(_) => {}
            Err(error) => {
                assert!(error.is_full(), "{error}");
                return number;
            }
        }
    }
    unreachable!("a chip is full at last")
}

/// Runs operations until the power goes, and returns the number of those that returned.
fn run(tree: &mut Tree) -> u32 {
    (0..OPERATIONS).find(|&number| step(tree, number).is_err()).unwrap_or(OPERATIONS)
}

/// A power cut at the operation of this number from now on.
fn plan(chip: &Chip, at: u64, (when, torn): (CutWhen, TornModel)) {
    let mut chip = chip.lock();
    let at_operation = chip.operations() + at;
    chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: at });
}

/// Mounts what a cut left, if there is a number after a mount that was cut at that operation.
fn recover(open: Open, chip: &Chip, second: Option<u64>, torn: TornModel) -> Tree {
    chip.lock().power_on();
    if let Some(at) = second {
        plan(chip, at, (CutWhen::Inside, torn));
        drop(open(chip.clone(), false));
        chip.lock().power_on();
        // The cut comes no more if the mount was shorter.
        plan(chip, u64::MAX / 2, (CutWhen::Before, torn));
    }
    open(chip.clone(), false).unwrap()
}

/// The room after each number of operations with the power on.
fn room_without_a_cut(open: Open, start: &SimChip) -> Vec<u32> {
    let room_after = |done| {
        let mut tree = open(Shared::new(start.clone()), false).unwrap();
        (0..done).for_each(|number| assert!(step(&mut tree, number).is_ok()));
        room(&mut tree)
    };
    (0..=OPERATIONS).map(room_after).collect()
}

fn a_cut_costs_no_room(open: Open) {
    for geometry in geometries() {
        let start = nearly_full(open, geometry);
        let uncut = room_without_a_cut(open, &start);
        assert!(uncut.iter().all(|&room| room > 0), "{geometry:?} is full at once: {uncut:?}");
        let mount = || {
            let chip = Shared::new(start.clone());
            (open(chip.clone(), false).unwrap(), chip)
        };
        let (mut tree, chip) = mount();
        let began = chip.lock().operations();
        assert_eq!(run(&mut tree), OPERATIONS);
        let physical = chip.lock().operations() - began;
        for at in (0..physical).step_by(stride(7)) {
            for (torn, second) in
                TornModel::ALL.into_iter().flat_map(|torn| [(torn, None), (torn, Some(at % 3))])
            {
                let (mut tree, chip) = mount();
                plan(&chip, at, (CutWhen::Inside, torn));
                let done = run(&mut tree) as usize;
                drop(tree);
                let found = room(&mut recover(open, &chip, second, torn));
                // The operation under way may be done.
                let least = uncut[done..].iter().take(2).min().unwrap();
                assert!(
                    found >= *least,
                    "{geometry:?}, cut at {at} {torn:?}, again at {second:?}: {found} of {uncut:?} after {done}"
                );
            }
        }
    }
}

macro_rules! costs_no_room {
    ($($name:ident: $open:ident),+) => { $( #[test] fn $name() { a_cut_costs_no_room($open); } )+ };
}

costs_no_room! {
    a_cut_costs_a_mu_tree_no_room: MU,
    a_cut_costs_a_mu_star_tree_no_room: MU_STAR,
    a_cut_costs_a_wandering_tree_no_room: WANDERING,
    a_cut_costs_a_tree_with_a_journal_no_room: JOURNAL,
    a_cut_costs_a_vm_tree_no_room: VM
}
