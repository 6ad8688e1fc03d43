//! Chips filled until insertions are refused: removals must succeed at any time, with any mounts in between.

use super::*;
use crate::inputs::stride;

/// A chip, a record format, and the settings of the index.
struct Shape {
    seed: u64,
    chip: (u32, u32, u32),
    record: (u8, u8),
    set: PlowConfig,
    /// Number of changes from one mount to the next, on average.
    mounts: u64,
    /// Bytes of a word where changes are appended, else 0.
    word: u16,
}

impl Shape {
    fn new(seed: u64) -> Shape {
        let mut rng = Rng::new(seed);
        let mut one_of = |values: &[u32]| values[rng.below(values.len() as u64) as usize];
        let (pages, blocks) = (one_of(&[8, 16]), one_of(&[12, 16, 20]));
        let record = [(4, 4), (8, 8), (8, 35)][one_of(&[0, 1, 2]) as usize];
        let class = [Durability::EveryOperation, Durability::EverySync][one_of(&[0, 1]) as usize];
        let set = PlowConfig {
            levels: [None, None, None, Some(1), Some(2), Some(3)][one_of(&[0, 1, 2, 3, 4, 5]) as usize],
            memtable: Some([7, 12, 24][one_of(&[0, 1, 2]) as usize]),
            answers: [Answers::Exact, Answers::Pool][one_of(&[0, 1]) as usize],
            ..settings(record.0, record.1, class)
        };
        let mounts = one_of(&[3, 20, 100, 1000]).into();
        Shape { seed, chip: (512, pages, blocks), record, set, mounts, word: 0 }
    }

    /// A small chip where changes are appended.
    fn appending(seed: u64) -> Shape {
        let shape = Shape::new(seed);
        let set = PlowConfig { durability: Durability::EveryOperation, ..shape.set };
        let chip = (512, 8, 12 + (seed % 3) as u32);
        Shape { word: [1, 4, 32][seed as usize % 3], chip, set, ..shape }
    }
}

struct Life {
    shape: Shape,
    plow: Option<Plow<SimChip>>,
    model: Model,
    rng: Rng,
}

impl Life {
    fn new(shape: Shape) -> Life {
        let (page, pages, blocks) = shape.chip;
        let nand = match shape.word {
            0 => chip(page, pages, blocks),
            word => append::nor(page, pages, blocks, word, shape.seed.is_multiple_of(2)),
        };
        let plow = Plow::format(nand, &shape.set).unwrap();
        let rng = Rng::new(shape.seed);
        Life { shape, plow: Some(plow), model: Model::new(), rng }
    }

    fn plow(&mut self) -> &mut Plow<SimChip> {
        self.plow.as_mut().unwrap()
    }

    /// Mounts now and then without a close. Blocks that were open are then not used again.
    fn mount_at_times(&mut self) {
        if self.rng.chance(1, self.shape.mounts) {
            self.plow().sync().unwrap();
            let nand = self.plow.take().unwrap().into_nand();
            self.plow = Some(Plow::mount(nand, &self.shape.set).unwrap());
        }
    }

    fn remove(&mut self, key: &[u8]) {
        let done = self.plow().remove(key);
        let Shape { seed, chip, record, set, .. } = &self.shape;
        let what = (chip, record, set.levels, set.memtable, set.durability);
        assert!(done.is_ok(), "{done:?}: shape {seed}, {what:?}, {} records", self.model.len());
        self.model.remove(key);
        self.mount_at_times();
    }

    /// Insertions until some are refused, and from the first refusal on some removals between them.
    fn fill(&mut self, refusals: u32) {
        let mut refused = 0;
        while refused < refusals {
            let key = key(self.rng.below(200_000), self.shape.record.0);
            // Zeros would take no room.
            let value = vec![refused as u8 | 0x80; self.shape.record.1.into()];
            match self.plow().insert(&key, &value) {
                Ok(_) => drop(self.model.insert(key.clone(), value)),
                Err(IndexError::Full(_)) => refused += 1,
                Err(error) => panic!("shape {}: {error}", self.shape.seed),
            }
            self.mount_at_times();
            let next = self.model.range(key..).next().map(|(key, _)| key.clone());
            if let Some(next) = next.filter(|_| refused > 0 && self.rng.chance(1, 4)) {
                self.remove(&next);
            }
        }
    }
}

#[test]
fn a_full_chip_takes_removals_after_any_mounts() {
    // Of 146 shapes the six on which removals were refused while open blocks counted as room, and two more.
    for seed in [17, 33, 43, 109, 116, 121, 141, 149].into_iter().step_by(stride(4)) {
        fill_and_empty(Shape::new(seed));
    }
}

#[test]
fn a_full_chip_takes_removals_where_changes_are_appended() {
    inputs::cases(18, |seed| fill_and_empty(Shape::appending(seed)));
}

fn fill_and_empty(shape: Shape) {
    let mut life = Life::new(shape);
    for (refusals, part) in [(1, 2), (30, 1)] {
        life.fill(refusals);
        for key in life.model.keys().step_by(part).cloned().collect::<Vec<_>>() {
            life.remove(&key);
        }
        life.plow().sync().unwrap();
        let model = core::mem::take(&mut life.model);
        assert_holds(life.plow(), &model);
        life.model = model;
    }
}

#[test]
fn a_batch_finds_room_where_its_changes_do() {
    let set = PlowConfig { memtable: Some(12), ..settings(8, 79, Durability::EverySync) };
    let (mut life, mut rng) = (
        Life::new(Shape { seed: 1, chip: (1024, 32, 8), record: (8, 79), set, mounts: 50, word: 0 }),
        Rng::new(2),
    );
    for round in 0..6 {
        let value = [round; 79];
        life.fill(1);
        let gone: Vec<_> = life.model.keys().skip(16).cloned().collect();
        gone.iter().for_each(|key| life.remove(key));
        for _ in 0..20 {
            let keys: Vec<_> = (0..4).map(|_| key(rng.below(200_000), 8)).collect();
            let batch: Vec<_> = keys.iter().map(|key| Change::put(key, &value)).collect();
            let done = life.plow().apply(&batch);
            assert!(done.is_ok(), "{done:?} with {} records", life.model.len());
            life.model.extend(keys.into_iter().map(|key| (key, value.to_vec())));
            life.mount_at_times();
        }
    }
    life.plow().sync().unwrap();
    let model = core::mem::take(&mut life.model);
    assert_holds(life.plow(), &model);
}
