//! The edge of full: an insertion may be refused and is then not done, a removal is never refused.

use super::kinds::{Chip, Kind, all, chip_for};
use super::model::{Change, Key, Map, Model, Value, contents, mount_and_read};
use crate::inputs::{sized, stride};
use nandex::IndexError;
use nandex::nand::NandError;
use nandex::nand::sim::{CutWhen, PowerCut, TornModel};
use nandex::ordered::{Direction, OrderedIndex};
use nandex::rng::Rng;
use nandex::store::StoreError;

pub(crate) fn key(rng: &mut Rng) -> Key {
    (rng.next_u64() as u32).to_be_bytes()
}

pub(crate) fn value(rng: &mut Rng) -> Value {
    let mut value = [0; 28];
    value[..8].copy_from_slice(&rng.next_u64().to_be_bytes());
    value
}

/// An index and what it should hold.
pub(crate) struct Life {
    pub(crate) kind: Kind,
    pub(crate) index: Box<dyn OrderedIndex>,
    pub(crate) model: Model,
    pub(crate) rng: Rng,
    refused: u32,
    /// True if a removal found no room.
    is_stuck: bool,
}

impl Life {
    pub(crate) fn new(kind: Kind, chip: &Chip, seed: u64) -> Life {
        let index = kind.format(chip).unwrap();
        Life { kind, index, model: Model::default(), rng: Rng::new(seed), refused: 0, is_stuck: false }
    }

    fn change(&mut self, change: Change) -> Result<bool, IndexError> {
        match change {
            (key, Some(value)) => self.index.insert(&key, &value),
            (key, None) => self.index.remove(&key),
        }
    }

    /// Makes a change; when it is done it is answered rightly.
    pub(crate) fn try_change(&mut self, change: Change) -> Result<bool, IndexError> {
        let existed = self.change(change)?;
        assert_eq!(existed, self.model.now.contains_key(&change.0), "{}", self.kind.name);
        self.model.done(change, self.kind.durability);
        Ok(existed)
    }

    /// Makes a change that must be answered rightly; false: an insertion was refused.
    fn step(&mut self, change: Change, when: &str) -> Result<bool, Change> {
        let name = self.kind.name;
        match self.change(change) {
            Ok(existed) => {
                assert_eq!(existed, self.model.now.contains_key(&change.0), "{name}: {when}");
                self.model.done(change, self.kind.durability);
                Ok(true)
            }
            Err(IndexError::Full(_)) if change.1.is_some() => {
                self.refused += 1;
                Ok(false)
            }
            Err(IndexError::Full(_)) => {
                self.is_stuck = true;
                Ok(false)
            }
            Err(IndexError::Store(StoreError::Nand(NandError::PowerLost))) => Err(change),
            Err(error) => {
                let live = self.index.stats();
                panic!("{name}: {when}: {change:?} of {} records: {error}; {live:?}", self.model.now.len())
            }
        }
    }

    fn fill(&mut self, when: &str) {
        loop {
            let change = (key(&mut self.rng), Some(value(&mut self.rng)));
            if !self.step(change, when).unwrap() {
                return;
            }
        }
    }

    pub(crate) fn random_change(&mut self) -> Change {
        match self.rng.below(10) {
            0..5 => (key(&mut self.rng), Some(value(&mut self.rng))),
            5..9 => (self.model.any_key(&mut self.rng).unwrap_or_default(), None),
            _ => (self.model.any_key(&mut self.rng).unwrap_or_default(), Some(value(&mut self.rng))),
        }
    }

    fn assert_holds(&mut self, when: &str) {
        let name = self.kind.name;
        let report = self.index.check().unwrap();
        assert!(report.is_sound(), "{name}: {when}: {:?}", report.violations);
        assert!(
            contents(&mut *self.index, Direction::Ascending).unwrap() == self.model.now,
            "{name}: {when}"
        );
    }

    fn drain(&mut self, when: &str) {
        while let Some(key) = self.model.any_key(&mut self.rng) {
            self.step((key, None), when).unwrap();
        }
    }
}

fn blocks_for(kind: &Kind) -> u32 {
    if kind.below == super::kinds::Below::Chip { 32 } else { 56 }
}

#[test]
fn a_full_tree_lives_on() {
    for kind in all() {
        let chip = chip_for(&kind, blocks_for(&kind));
        let mut life = Life::new(kind, &chip, 1);
        life.fill("filling");
        let most = life.model.now.len();
        life.assert_holds("full");
        for op in 0..700 {
            let change = life.random_change();
            life.step(change, &format!("operation {op} at the edge")).unwrap();
        }
        let refused = life.refused;
        life.assert_holds("after the edge");
        life.drain("draining");
        life.assert_holds("empty");
        life.fill("filling again");
        let again = life.model.now.len();
        println!("{}: {most} records, {refused} refused at the edge, {again} again", kind.name);
        assert!(again * 10 >= most * 8, "{}: {most} records, then {again}", kind.name);
        life.index.close().unwrap();
        let found: Map = mount_and_read(&kind, &chip, "closed full").1;
        assert!(found == life.model.now, "{}: closed full", kind.name);
    }
}

fn cut_soon(chip: &Chip, rng: &mut Rng, within: u64) {
    let mut chip = chip.lock();
    let cut = PowerCut {
        at_operation: chip.operations() + rng.below(within),
        when: [CutWhen::Before, CutWhen::Inside, CutWhen::Inside, CutWhen::After][rng.below(4) as usize],
        torn: TornModel::ALL[rng.below(4) as usize],
        seed: rng.next_u64(),
    };
    chip.plan_power_cut(cut);
}

/// Switches the power on, and has no cut strike.
fn spare(chip: &Chip) {
    let mut chip = chip.lock();
    chip.plan_power_cut(PowerCut {
        at_operation: u64::MAX,
        when: CutWhen::Before,
        torn: TornModel::Prefix,
        seed: 0,
    });
    chip.power_on();
}

/// Mounts until no cut interrupts the mount; at most three do.
fn mount_through_cuts(life: &mut Life, chip: &Chip, under_way: Option<Change>, when: &str) {
    for _ in 0..life.rng.below(4) {
        chip.lock().power_on();
        cut_soon(chip, &mut life.rng, 6);
        if life.kind.mount(chip).is_ok() {
            break;
        }
    }
    spare(chip);
    let (index, found) = mount_and_read(&life.kind, chip, when);
    assert!(life.model.accept(&found, under_way), "{}: {when}: a state that never was", life.kind.name);
    life.index = index;
}

/// A life at the edge of full that is cut each time within so many operations of the chip. Returns the round
/// in which a removal found no room, if one did: everything is there and can be read then.
fn cut_life(kind: Kind, (seed, within): (u64, u64), rounds: usize) -> Option<usize> {
    let chip = chip_for(&kind, blocks_for(&kind));
    let mut life = Life::new(kind, &chip, seed);
    life.fill("filling");
    for round in 0..rounds {
        let when = format!("seed {seed}, cut {round}");
        cut_soon(&chip, &mut life.rng, within);
        let mut under_way = None;
        while chip.lock().is_powered() {
            let change = life.random_change();
            under_way = life.step(change, &when).err();
            if life.is_stuck {
                spare(&chip);
                life.assert_holds(&when);
                return Some(round);
            }
            if under_way.is_none() && life.rng.below(8) == 0 && life.index.sync().is_ok() {
                life.model.synced();
            }
        }
        mount_through_cuts(&mut life, &chip, under_way, &when);
    }
    life.drain("draining after cuts");
    life.fill("filling after cuts");
    life.assert_holds("after all");
    None
}

/// A cut may take a whole flush of a write part, which is more than what a collection gains: only there may a
/// row of cuts, each within 20 operations, use up all that is kept free.
#[test]
fn a_full_tree_outlives_cuts_in_a_row() {
    let (step, rounds) = (stride(2), sized(12, 40));
    for (number, kind) in all().enumerate() {
        for (seed, within) in [(1, 60), (2, 20)].into_iter().skip(number % step).step_by(step) {
            for more in 0..sized(1, 3) as u64 {
                let stuck = cut_life(kind, (seed + 2 * more, within), rounds);
                let waits = kind.told.write_pages.is_some();
                assert!(stuck.is_none() || waits && within == 20, "{}: stuck in round {stuck:?}", kind.name);
            }
        }
    }
}
