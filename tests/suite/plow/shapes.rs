//! Any shape of chip, any history, closed or cut: after a mount each record is found by its key, by a range,
//! and by `check`.

use crate::inputs::sized;
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::ordered::RecordFormat;
use nandex::rng::Rng;
use nandex::testing::{History, Model, Op, assert_holds, contents};
use nandex::{
    Durability, Geometry, IndexError, NandError, OrderedIndex, Plow, PlowConfig, Shared, StoreError,
};

/// A chip of a drawn shape, and an index that it has room for.
struct Shape {
    geometry: Geometry,
    config: PlowConfig,
    records: u64,
}

impl Shape {
    fn draw(rng: &mut Rng) -> Shape {
        let page_bytes = 128u32 << rng.below(8);
        let pages_per_block =
            [2, 3, 8, 31, 32, 33, 64, 100, 128, 240, 256, 512, 1024][rng.below(13) as usize];
        let spare_bytes = rng.below(65) as u32;
        // Small chips of large pages, so that a case takes no memory to speak of.
        let pages = (8u32 << 20) / page_bytes;
        let blocks = (pages / pages_per_block).clamp(24, 600);
        let key_bytes = [4, 8, 8, 12][rng.below(4) as usize];
        let value_bytes = [0, 4, 8, 16][rng.below(4) as usize];
        let record = RecordFormat::new(key_bytes, value_bytes);
        let durability = [Durability::EverySync, Durability::EveryOperation][rng.below(2) as usize];
        let ram_bytes = Some((16 + rng.below(80) as usize) * 1024 + 6 * page_bytes as usize);
        let config = PlowConfig { ram_bytes, durability, ..PlowConfig::new(record) };
        let geometry = Geometry::new(page_bytes, spare_bytes, pages_per_block, blocks);
        let records = u64::from(geometry.pages()) * u64::from(page_bytes) / record.entry_bytes() as u64 / 6;
        Shape { geometry, config, records: records.clamp(20, RECORDS_MAX) }
    }

    fn chip(&self) -> SimChip {
        let mut part = mlc_64m();
        part.geometry = self.geometry;
        SimChip::new(&part).unwrap()
    }

    fn key(&self, number: u64, spread: bool) -> Vec<u8> {
        let number = if spread { number.wrapping_mul(0x9E37_79B9_7F4A_7C15) } else { number << 8 };
        let mut key = number.to_be_bytes().to_vec();
        let bytes = usize::from(self.config.record.key_bytes);
        if bytes < 8 && !spread {
            key.drain(..8 - bytes);
        }
        key.resize(bytes, number as u8);
        key
    }
}

const RECORDS_MAX: u64 = 2_000;

/// Lives of the nightly run, fewer in the gate.
const LIVES: u64 = 30;

/// Looks at everything in every way: a state that had so many updates since the last sync.
fn judge(index: &mut dyn OrderedIndex, (history, least): (&History, usize), from: &str) -> Model {
    let found = contents(index).unwrap();
    assert!(history.had(&found, least), "{from}: {} records in a range are no state", found.len());
    println!("{from}");
    assert_holds(index, &found);
    found
}

fn is_cut(error: &IndexError) -> bool {
    matches!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)))
}

/// Mounts, a few hundred changes, a close or a cut, all again.
fn live(seed: u64) {
    let mut rng = Rng::new(seed);
    let shape = Shape::draw(&mut rng);
    let (config, spread) = (&shape.config, rng.chance(2, 3));
    let name = format!("seed {seed}: {:?}, {:?}", shape.geometry, config);
    let chip = Shared::new(shape.chip());
    let mut index = match Plow::format(super::any(chip.clone()), config) {
        Ok(index) => index,
        // Pages too small for a record or a root, a chip too small, or too little RAM.
        Err(IndexError::Unsupported(_)) => return,
        Err(error) => panic!("{name}: {error}"),
    };
    let (mut history, mut changed) = (History::new(Model::new()), 0u64);
    let is_sure = config.durability == Durability::EveryOperation;
    let sync_each = [1, 7, 100, 1000][rng.below(4) as usize];
    for part in 0..4 {
        let is_cut_short = rng.chance(1, 2);
        let changes = if part == 0 { shape.records } else { 1 + rng.below(shape.records) };
        if is_cut_short {
            let at_operation = chip.lock().operations() + rng.below(changes);
            let when = [CutWhen::Before, CutWhen::Inside, CutWhen::After][rng.below(3) as usize];
            let torn = TornModel::ALL[rng.below(4) as usize];
            chip.lock().plan_power_cut(PowerCut { at_operation, when, torn, seed });
        }
        let mut died = false;
        for i in 0..changes {
            let number = if part == 0 { i } else { rng.below(shape.records) };
            let key = shape.key(number, spread);
            let value = (!rng.chance(1, 12))
                .then(|| (0..config.record.value_bytes).map(|_| rng.below(256) as u8).collect::<Vec<u8>>());
            let op = match value {
                Some(value) => Op::Insert(key, value),
                None => Op::Remove(key),
            };
            let mut done = history.apply(&mut index, &op);
            changed += u64::from(done.is_ok());
            if !is_sure && changed.is_multiple_of(sync_each) {
                done = done.and_then(|()| history.apply(&mut index, &Op::Sync));
            }
            match done {
                Ok(()) | Err(IndexError::Full(_)) => {}
                Err(error) if is_cut(&error) => {
                    died = true;
                    break;
                }
                Err(error) => panic!("{name}: {error}"),
            }
        }
        if !died {
            match index.close() {
                Ok(()) => history.sync(),
                Err(error) if is_cut(&error) => {}
                // A root of all blocks may be longer than a page.
                Err(IndexError::Full(_)) if shape.geometry.blocks * 8 > shape.geometry.page_bytes => {}
                Err(error) => panic!("{name}: {error}"),
            }
        }
        chip.lock().power_on();
        index = Plow::mount(super::any(chip.clone()), config)
            .unwrap_or_else(|error| panic!("{name}, part {part}: {error}"));
        let least = if is_sure { history.acknowledged() } else { 0 };
        let from = format!("{name}, part {part}, died {died}");
        history = History::new(judge(&mut index, (&history, least), &from));
    }
}

#[test]
fn each_record_is_found_on_a_chip_of_any_shape() {
    let first = std::env::var("NANDEX_SEED").map_or(0, |text| text.parse().unwrap());
    for seed in first..first + sized(12, LIVES) {
        live(seed);
    }
}
