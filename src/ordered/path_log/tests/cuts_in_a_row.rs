//! Cuts in a row on a chip with few free blocks, where a mount goes on in the block opened last. Each cut may
//! leave a page that looks erased and takes no program. The next mount passes over that page too, since the
//! checkpoint that a session begins with names the page behind it.

use super::room_after_cut::{Chip, OPENS, Open, Tree, key, nearly_full};
use crate::inputs::cases;
use crate::nand::sim::{CutWhen, PowerCut, TornModel};
use crate::rng::Rng;
use crate::{Geometry, Shared};
use alloc::collections::BTreeMap;

/// Numbers of the keys that are put and removed.
const NUMBERS: u64 = 48;
const FIRST: u32 = 1 << 29;

/// The changes that returned, and the one that a cut met.
#[derive(Default)]
struct Truth {
    values: BTreeMap<u32, Option<u8>>,
    open: Option<(u32, Option<u8>)>,
}

impl Truth {
    /// Makes one change. False: the power went.
    fn step(&mut self, tree: &mut Tree, chip: &Chip, rng: &mut Rng) -> bool {
        let (number, value) = (FIRST + rng.below(NUMBERS) as u32, rng.below(256) as u8);
        let change = (rng.below(3) > 0).then_some(value);
        let result = match change {
            Some(value) => tree.insert(&key(number), &[value; 12]),
            None => tree.remove(&key(number)),
        };
        match result {
            Ok(_) => _ = self.values.insert(number, change),
            Err(error) if error.is_full() => {}
            Err(error) => {
                assert!(!chip.lock().is_powered(), "{error} with the power on");
                self.open = Some((number, change));
                return false;
            }
        }
        true
    }

    /// Looks every key up. The change that a cut met may be made or not, and is settled by that.
    fn check(&mut self, tree: &mut Tree) {
        let mut value = [0; 12];
        for number in (FIRST..).take(NUMBERS as usize) {
            let found = tree.get(&key(number), &mut value).unwrap().then_some(value[0]);
            let expected = self.values.get(&number).copied().flatten();
            let may_be = self.open.filter(|open| open.0 == number).map(|open| open.1);
            assert!(found == expected || Some(found) == may_be, "{number}: {found:?} for {expected:?}");
            self.values.insert(number, found);
        }
        self.open = None;
    }
}

fn nothing_is_lost(open: Open, geometry: Geometry, rng: &mut Rng) {
    let chip = Shared::new(nearly_full(open, geometry));
    let mut truth = Truth::default();
    for round in 0..12 {
        let mut tree =
            open(chip.clone(), false).unwrap_or_else(|error| panic!("{geometry:?}, mount {round}: {error}"));
        truth.check(&mut tree);
        // At once, mostly: then the next cut may meet the same page.
        let after = [0, 0, 1, 2, 5, 40][rng.below(6) as usize];
        let at_operation = chip.lock().operations() + after;
        let torn =
            if rng.below(4) == 0 { TornModel::ALL[rng.below(4) as usize] } else { TornModel::LooksErased };
        chip.lock().plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed: round });
        while truth.step(&mut tree, &chip, rng) {}
        drop(tree);
        chip.lock().power_on();
    }
    let mut tree = open(chip.clone(), false).unwrap();
    truth.check(&mut tree);
    (0..50).for_each(|_| assert!(truth.step(&mut tree, &chip, rng)));
    truth.check(&mut tree);
    tree.close().unwrap();
    truth.check(&mut open(chip, false).unwrap());
}

#[test]
fn cuts_in_a_row_lose_nothing_where_blocks_are_scarce() {
    let shapes = [(512, 16, 32), (1024, 8, 40), (512, 32, 16), (512, 64, 12), (512, 4, 100)];
    cases(90, |seed| {
        let mut rng = Rng::new(seed);
        let open = OPENS[rng.below(OPENS.len() as u64) as usize];
        let (page_bytes, pages, blocks) = shapes[rng.below(shapes.len() as u64) as usize];
        nothing_is_lost(open, Geometry::new(page_bytes, 64, pages, blocks), &mut rng);
    });
}
