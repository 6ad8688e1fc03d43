//! Long values in plow and apart from it: `cargo run --release --example value_log`.
//!
//! Values of one length, a third of `mlc-64m` full of them, 64 KiB of RAM: as many puts as there are keys to
//! fill it, the same number of updates, a sync each 100, then look-ups, and ranges of 20. In pieces, each a
//! record of plow; and in a log beside it. In both cases keys have 8 bytes and come in no order.

#![allow(clippy::print_stdout)]

use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::nand::{BlockRange, Nand};
use nandex::ordered::Answers;
use nandex::ordered::plow::{Plow, PlowConfig};
use nandex::ordered::value_log::{self, ValueLog};
use nandex::ordered::variable::Variable;
use nandex::ordered::{Direction, Durability, RecordFormat};
use nandex::rng::Rng;
use nandex::{IndexError, Shared};
use std::ops::{Bound, ControlFlow};

const RAM: usize = 64 << 10;
const GETS: u64 = 2_000;
const RANGES: u64 = 200;
const OF_A_RANGE: u32 = 20;

type Part = BlockRange<Shared<SimChip>>;

/// Either of the two.
enum Store {
    Pieces(Box<Variable<Plow<Part>>>),
    Log(Box<ValueLog<Plow<Part>, Part>>),
}

impl Store {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        match self {
            Store::Pieces(pieces) => pieces.put(key, value),
            Store::Log(log) => log.put(key, value),
        }
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        match self {
            Store::Pieces(pieces) => pieces.get(key),
            Store::Log(log) => log.get(key),
        }
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        match self {
            Store::Pieces(pieces) => pieces.sync(),
            Store::Log(log) => log.sync(),
        }
    }

    fn range_from(&mut self, key: &[u8]) -> Result<(), IndexError> {
        let mut left = OF_A_RANGE;
        let mut visit = |_: &[u8], _: &[u8]| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let low = Bound::Included(key);
        match self {
            Store::Pieces(pieces) => pieces.range(low, Bound::Unbounded, Direction::Ascending, &mut visit),
            Store::Log(log) => log.range(low, Bound::Unbounded, Direction::Ascending, &mut visit),
        }
    }
}

fn config(record: RecordFormat, ram: usize) -> PlowConfig {
    PlowConfig::new(record)
        .with_durability(Durability::EverySync)
        .with_ram_bytes(Some(ram))
        .with_answers(Answers::Pool)
}

fn key(number: u64) -> [u8; 8] {
    Rng::new(number).next_u64().to_be_bytes()
}

fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(number);
    (0..bytes).map(|_| rng.next_u64() as u8).collect()
}

/// Programs, reads and microseconds of the chip since the last look, for one of so many operations.
fn since(chip: &Shared<SimChip>, last: &mut [f64; 3], operations: u64) -> [f64; 3] {
    let chip = chip.lock();
    let counters = chip.counters();
    let now = [
        counters.page_programs_total() as f64,
        counters.page_reads_total() as f64,
        chip.time().0 as f64 / 1e3,
    ];
    let done = core::array::from_fn(|i| (now[i] - last[i]) / operations as f64);
    *last = now;
    done
}

fn measure(bytes: usize, in_log: bool) -> Result<(), IndexError> {
    let chip = Shared::new(SimChip::new(&mlc_64m()).expect("a valid part"));
    let geometry = chip.geometry();
    let mut store = if in_log {
        let record = value_log::record(8, 40);
        let blocks = value_log::log_blocks(geometry, record, bytes);
        let log = BlockRange::new(chip.clone(), nandex::Pbn(0), blocks);
        let keys = BlockRange::new(chip.clone(), nandex::Pbn(blocks), geometry.blocks - blocks);
        let ram = RAM - value_log::ram_needed(log.geometry(), record, bytes);
        Store::Log(Box::new(ValueLog::new(Plow::format(keys, &config(record, ram))?, log, bytes)?))
    } else {
        let pieces = (bytes + 2).div_ceil(252);
        let record = RecordFormat::variable(8, (bytes + 2).div_ceil(pieces) as u8);
        let all = BlockRange::new(chip.clone(), nandex::Pbn(0), geometry.blocks);
        Store::Pieces(Box::new(Variable::new(Plow::format(all, &config(record, RAM))?, bytes)?))
    };
    let keys = u64::from(geometry.pages()) * u64::from(geometry.page_bytes) / 3 / bytes as u64;
    let (mut rng, mut last) = (Rng::new(1), [0.0; 3]);
    let mut newest = vec![0; keys as usize];
    for i in 0..keys {
        store.put(&key(i), &value(i, bytes))?;
        newest[i as usize] = i;
        if i % 100 == 99 {
            store.sync()?;
        }
    }
    let loaded = since(&chip, &mut last, keys);
    for i in keys..2 * keys {
        let at = rng.below(keys);
        store.put(&key(at), &value(i, bytes))?;
        newest[at as usize] = i;
        if i % 100 == 99 {
            store.sync()?;
        }
    }
    let updated = since(&chip, &mut last, keys);
    for _ in 0..GETS {
        let at = rng.below(keys);
        assert_eq!(store.get(&key(at))?, Some(value(newest[at as usize], bytes)), "{at}");
    }
    let got = since(&chip, &mut last, GETS);
    for _ in 0..RANGES {
        store.range_from(&key(rng.below(keys)))?;
    }
    let ranged = since(&chip, &mut last, RANGES);
    let held = match &store {
        Store::Log(log) => log.ram_bytes(),
        Store::Pieces(_) => RAM,
    };
    assert!(held <= RAM, "{held} bytes of RAM");
    println!(
        "| {bytes} | {} | {:.2}, {:.2} | {:.0}, {:.0} us | {:.1} | {:.1} |",
        if in_log { "log" } else { "pieces" },
        loaded[0],
        updated[0],
        loaded[2],
        updated[2],
        got[1],
        ranged[1],
    );
    Ok(())
}

fn main() {
    println!(
        "| bytes of a value | | programs a put, an update | time | reads of a look-up | of a range of {OF_A_RANGE} |"
    );
    println!("|---|---|---|---|---|---|");
    for bytes in [100, 250, 1_000, 4_000] {
        for in_log in [false, true] {
            if let Err(error) = measure(bytes, in_log) {
                println!("| {bytes} | {} | {error} |", if in_log { "log" } else { "pieces" });
            }
        }
    }
}
