//! Wear levelling and power: whatever operation of the chip is cut while data move to even out wear, the tree
//! returns all that it was given.

use super::sizes::stride;
use crate::check::IndexError;
use crate::nand::Cause;
use crate::nand::catalogue::mlc_64m;
use crate::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use crate::ordered::{OrderedIndex, RecordFormat};
use crate::rng::split_mix;
use crate::{Geometry, Shared};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

/// Records of the trees.
pub const RECORD: RecordFormat = RecordFormat::new(4, 4);

/// Records that do not change.
const COLD: u32 = 1_000;
/// Key that changes always.
const HOT: u32 = COLD;

/// Most changes before the first cut, and those of which one is cut.
const BEFORE_MAX: u32 = 60_000;
const OPERATIONS: u32 = 60;

/// Chip that outlives a tree.
pub type Chip = Shared<SimChip>;
/// Tree on a chip.
pub type Tree = Box<dyn OrderedIndex>;
/// Opens a tree on a chip: a new one, or the one that is there.
pub type Open = fn(Chip, bool) -> Result<Tree, IndexError>;

fn key(number: u32) -> [u8; 4] {
    (split_mix(number.into()) as u32).to_be_bytes()
}

fn must<T, E: core::fmt::Display>(done: Result<T, E>) -> T {
    done.unwrap_or_else(|error| panic!("{error}"))
}

/// Value of the hot key.
fn hot(tree: &mut Tree) -> u32 {
    let mut value = [0; 4];
    assert!(must(tree.get(&key(HOT), &mut value)));
    u32::from_be_bytes(value)
}

/// Changes the hot key to numbers from this one on, until the power goes. Returns the number of changes that
/// returned.
fn run(tree: &mut Tree, from: u32) -> u32 {
    let change = |number: &u32| tree.insert(&key(HOT), &(from + number).to_be_bytes()).is_err();
    (0..OPERATIONS).find(change).unwrap_or(OPERATIONS)
}

/// A chip with cold records and a hot one, on which the next changes after a mount level wear, and the number
/// of changes so far.
fn nearly_levelled(open: Open, geometry: Geometry) -> (SimChip, u32) {
    let mut part = mlc_64m();
    part.geometry = geometry;
    let chip = Shared::new(must(SimChip::new(&part)));
    let mut tree = must(open(chip.clone(), true));
    for number in 0..COLD {
        must(tree.insert(&key(number), &number.to_be_bytes()));
    }
    for changes in (0..BEFORE_MAX).step_by(OPERATIONS as usize) {
        assert_eq!(run(&mut tree, changes), OPERATIONS);
        let start = chip.lock().clone();
        let next = Shared::new(start.clone());
        let mut mounted = must(open(next.clone(), false));
        let (_, moves) = done(&next);
        run(&mut mounted, changes + OPERATIONS);
        let (_, moves_then) = done(&next);
        if changes > BEFORE_MAX / 4 && moves_then[0] > moves[0] && moves_then[1] > moves[1] {
            return (start, changes + OPERATIONS);
        }
    }
    panic!("{geometry:?}: wear is never levelled");
}

/// Operations of the chip so far, and of them the programs and erases of levelling.
fn done(chip: &Chip) -> (u64, [u64; 2]) {
    let chip = chip.lock();
    let all = chip.counters();
    (
        chip.operations(),
        [all.page_programs, all.block_erases].map(|by_cause| by_cause[Cause::WearLevelling as usize]),
    )
}

fn is_whole(tree: &mut Tree, least: u32) -> Result<(), String> {
    let mut value = [0; 4];
    for number in 0..COLD {
        let found = tree.get(&key(number), &mut value).map_err(|error| format!("{number}: {error}"))?;
        if !found || value != number.to_be_bytes() {
            return Err(format!("{number} is gone or another"));
        }
    }
    let report = tree.check().map_err(|error| format!("{error}"))?;
    match hot(tree) {
        now if !(least..=least + 1).contains(&now) => Err(format!("{now} for {least}")),
        _ if !report.is_sound() => Err(format!("{report:?}")),
        _ => Ok(()),
    }
}

/// Cuts the power at every operation while data move to even out wear.
///
/// # Panics
///
/// If something is lost.
pub fn require_cuts_lose_nothing(open: Open) {
    for (page_bytes, pages, blocks) in [(512, 16, 24), (1024, 8, 40)] {
        let geometry = Geometry::new(page_bytes, 64, pages, blocks);
        let (start, before) = nearly_levelled(open, geometry);
        let chip = Shared::new(start.clone());
        let mut tree = must(open(chip.clone(), false));
        let (began, _) = done(&chip);
        assert_eq!(run(&mut tree, before), OPERATIONS);
        let (ended, _) = done(&chip);
        for at in (0..ended - began).step_by(stride(3)) {
            let torn = TornModel::ALL[at as usize % 4];
            let chip = Shared::new(start.clone());
            let mut tree = must(open(chip.clone(), false));
            let at_operation = began + at;
            let cut = PowerCut { at_operation, when: CutWhen::Inside, torn, seed: at };
            chip.lock().plan_power_cut(cut);
            let changes = run(&mut tree, before);
            drop(tree);
            chip.lock().power_on();
            let mut tree = must(open(chip.clone(), false));
            let whole = is_whole(&mut tree, before + changes - 1);
            assert_eq!(whole, Ok(()), "{geometry:?}, cut at {at} {torn:?}");
            assert_eq!(run(&mut tree, before), OPERATIONS, "{geometry:?}, after a cut at {at} {torn:?}");
            let whole = is_whole(&mut tree, before + OPERATIONS - 1);
            assert_eq!(whole, Ok(()), "{geometry:?}, {OPERATIONS} changes after a cut at {at} {torn:?}");
        }
    }
}
