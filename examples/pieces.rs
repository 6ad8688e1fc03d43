//! Records of any length in plow, by the size of a piece: `cargo run --release --example pieces`.
//!
//! 100,000 puts with 64 KiB on `mlc-64m`, a sync each 100: 50,000 keys of 5 to 10 bytes, values of 0 to 199,
//! a quarter of them empty and short ones more frequent than long ones. Without the feature `trims` of the
//! crate the records are stored with their zeros.

#![allow(clippy::print_stdout)]

use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::ordered::Answers;
use nandex::ordered::plow::{Plow, PlowConfig};
use nandex::ordered::variable::Variable;
use nandex::ordered::{Durability, OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use std::collections::BTreeMap;

const MAX_VALUE: usize = 199;
const PUTS: u64 = 100_000;

/// A key: the number of a word in 5 bytes, and up to 5 more that follow from it.
fn key(number: u64) -> Vec<u8> {
    let mut drawn = Rng::new(number);
    let mut key = drawn.next_u64().to_be_bytes()[..5].to_vec();
    let more = drawn.below(6) as usize;
    key.extend((0..more).map(|_| b'a' + drawn.below(26) as u8));
    key
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let most = rng.below(MAX_VALUE as u64 + 1);
    let bytes = if rng.chance(1, 4) { 0 } else { rng.below(most + 1) };
    (0..bytes).map(|_| rng.next_u64() as u8).collect()
}

fn main() {
    println!("| piece | programs a put | reads a put | a put | bytes on flash for a byte of key and value |");
    println!("|---|---|---|---|---|");
    for piece in [10, 18, 34, 66, 130, 202] {
        let config = PlowConfig::new(RecordFormat::variable(10, piece))
            .with_durability(Durability::EverySync)
            .with_ram_bytes(Some(64 << 10))
            .with_answers(Answers::Pool);
        let chip = SimChip::new(&mlc_64m()).expect("a valid part");
        let index = Plow::format(chip, &config).expect("the chip is large enough");
        let mut names = Variable::new(index, MAX_VALUE).expect("so many pieces are a batch");
        let (mut rng, mut model) = (Rng::new(1), BTreeMap::new());
        for put in 1..=PUTS {
            let (key, value) = (key(rng.below(PUTS / 2)), value(&mut rng));
            names.put(&key, &value).expect("there is room");
            model.insert(key, value);
            if put % 100 == 0 {
                names.sync().expect("there is room");
            }
        }
        for (key, value) in model.iter().step_by(97) {
            assert_eq!(names.get(key).expect("it can be read").as_ref(), Some(value));
        }
        let held: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
        let stored = names.index().stats();
        let chip = names.into_inner().into_nand();
        let (reads, programs) = (chip.counters().page_reads_total(), chip.counters().page_programs_total());
        let flash = stored.live_pages * u64::from(mlc_64m().geometry.page_bytes);
        println!(
            "| {piece} | {:.2} | {:.1} | {:.0} us | {:.2} |",
            programs as f64 / PUTS as f64,
            reads as f64 / PUTS as f64,
            chip.time().0 as f64 / 1e3 / PUTS as f64,
            flash as f64 / held as f64,
        );
    }
}
