//! Damage to a page that was programmed before the last operation: the mount tells, or nothing is lost.

use super::{KEYS, State, config, held, step};
use crate::nand::catalogue::mlc_with;
use crate::nand::sim::SimChip;
use crate::nand::{Geometry, Part};
use crate::ordered::furrow::Furrow;
use crate::ordered::{Durability, OrderedIndex};
use crate::rng::Rng;
use crate::shared::Shared;
use crate::units::Ppn;
use alloc::vec::Vec;

/// Stored bytes of each page, `None` of one that is erased.
type Pages = Vec<Option<Vec<u8>>>;

fn pages(chip: &SimChip) -> Pages {
    (0..chip.part().geometry.pages()).map(|page| chip.stored_page(Ppn(page))).collect()
}

/// The chip with a page unreadable, blank, zeroed, as it was once, or exchanged with another.
fn spoil(chip: &SimChip, (before, once): (&Pages, &Pages), page: Ppn, rng: &mut Rng) -> SimChip {
    let mut chip = chip.clone();
    let bytes = chip.stored_page(page).unwrap();
    let other = Ppn(rng.below(before.len() as u64) as u32);
    match rng.below(5) {
        0 => chip.make_unreadable(page),
        1 => chip.damage_page(page, &alloc::vec![0xff; bytes.len()]),
        2 => chip.damage_page(page, &alloc::vec![0; bytes.len()]),
        3 => chip.damage_page(page, once[page.index()].as_ref().unwrap_or(&alloc::vec![0; bytes.len()])),
        _ => match chip.stored_page(other) {
            Some(there) if other != page && before[other.index()].as_ref() == Some(&there) => {
                chip.damage_page(page, &there);
                chip.damage_page(other, &bytes);
            }
            _ => chip.make_unreadable(page),
        },
    }
    chip
}

fn judge(chip: SimChip, state: &State, what: &str) {
    let Ok(mut index) = Furrow::mount(chip, &config(Durability::EveryOperation)) else { return };
    for key in 0..KEYS {
        let mut value = [0; 8];
        let Ok(found) = index.get(&key.to_be_bytes(), &mut value) else { continue };
        let expected = state.get(&key).map(|value| value.to_be_bytes());
        assert_eq!(found.then_some(value), expected, "key {key}: {what}");
    }
}

/// A life with mounts, in which each page is spoilt after some operations.
fn live(seed: u64) {
    let mut rng = Rng::new(seed);
    let plain = mlc_with(256, [4, 6][rng.below(2) as usize], [2, 3, 5, 9][rng.below(4) as usize]);
    let geometry = match rng.below(3) {
        0 => plain.geometry,
        1 => plain.geometry.with_append_bytes(8),
        _ => plain.geometry.with_programs_per_page_max(Geometry::ANY_PROGRAMS),
    };
    let chip = Shared::new(SimChip::new(&Part { geometry, ..plain }).unwrap());
    let config = config(Durability::EveryOperation);
    let mut index = Furrow::format(chip.clone(), &config).unwrap();
    let (mut state, mut once) = (State::new(), alloc::vec![None; geometry.pages() as usize]);
    for op in 0..60 {
        if rng.chance(1, 10) {
            index = Furrow::mount(chip.clone(), &config).unwrap();
            assert_eq!(held(&mut index), state);
        }
        let before = pages(&chip.lock());
        assert!(step(&mut index, &mut rng, &mut state));
        let chip = chip.lock().clone();
        let after = pages(&chip);
        for (once, (before, after)) in once.iter_mut().zip(before.iter().zip(&after)) {
            if before.is_some() && before != after {
                once.clone_from(before);
            }
        }
        if after == before || !rng.chance(1, 4) {
            continue;
        }
        for page in (0..after.len()).filter(|&page| after[page].is_some() && after[page] == before[page]) {
            let spoilt = spoil(&chip, (&before, &once), Ppn(page as u32), &mut rng);
            judge(spoilt, &state, &alloc::format!("seed {seed}, operation {op}, page {page}, {geometry:?}"));
        }
    }
}

#[test]
fn an_older_page_that_is_spoilt_is_told_or_was_not_needed() {
    (0..60).for_each(live);
}
