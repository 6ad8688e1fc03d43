//! The simulated chip against the memory: what a page read, a page program and a block erase cost, as ratio
//! to copying the same bytes between buffers larger than the cache.
//!
//! `cargo bench --bench chip` prints the table of ratios, then divan's figures. The aim is 1.5, the limit 3.
//! The reference copies the same pages in the same order; "in turn" visits one page of every block before the
//! next page of any. The fastest of several rounds counts, chip and copy taking turns.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use divan::black_box;
use nandex::nand::sim::SimChip;
use nandex::nand::{Nand, catalogue};
use nandex::{Cause, Pbn, Ppn};
use std::time::Instant;

/// Blocks of the chip compared with copying, and of the chips that divan measures.
const BLOCKS: u32 = 1024;
const BLOCKS_DIVAN: u32 = 128;
const ROUNDS: usize = 5;

fn main() {
    if std::env::args().any(|arg| arg == "--bench") {
        print_ratios();
    }
    divan::main();
}

/// A chip every page of which is programmed, and as many bytes beside it.
struct Bench {
    chip: SimChip,
    memory: Vec<u8>,
    page_bytes: usize,
    raw_bytes: usize,
    pages: u32,
    blocks: u32,
}

impl Bench {
    fn new(blocks: u32) -> Bench {
        let part = catalogue::mlc_64m().with_blocks(blocks);
        let (geometry, raw_bytes) = (part.geometry, part.geometry.raw_page_bytes());
        let pages = geometry.pages();
        let memory = vec![0x5a; pages as usize * raw_bytes];
        let chip = SimChip::new(&part).unwrap();
        let page_bytes = geometry.page_bytes as usize;
        let mut bench = Bench { chip, memory, page_bytes, raw_bytes, pages, blocks };
        bench.program_all(Order::InRow);
        bench
    }

    fn page(&mut self, order: Order, step: u32) -> (u32, usize) {
        let ppn = order.ppn(step, self.blocks);
        (ppn, ppn as usize * self.raw_bytes)
    }

    fn read_all(&mut self, order: Order) {
        for step in 0..self.pages {
            let (ppn, at) = self.page(order, step);
            let (data, spare) = self.memory[at..at + self.raw_bytes].split_at_mut(self.page_bytes);
            self.chip.read(Ppn(ppn), Cause::Host, data, spare).unwrap();
        }
    }

    fn program_all(&mut self, order: Order) {
        for step in 0..self.pages {
            let (ppn, at) = self.page(order, step);
            let (data, spare) = self.memory[at..at + self.raw_bytes].split_at(self.page_bytes);
            self.chip.program(Ppn(ppn), Cause::Host, data, spare).unwrap();
        }
    }

    fn erase_all(&mut self) {
        for pbn in 0..self.blocks {
            self.chip.erase(Pbn(pbn), Cause::Host).unwrap();
        }
    }

    fn copy_all(&mut self, order: Order, to: &mut [u8]) {
        for step in 0..self.pages {
            let (_, at) = self.page(order, step);
            to[at..at + self.raw_bytes].copy_from_slice(&self.memory[at..at + self.raw_bytes]);
        }
    }
}

#[derive(Clone, Copy)]
enum Order {
    InRow,
    InTurn,
}

impl Order {
    fn ppn(self, step: u32, blocks: u32) -> u32 {
        match self {
            Order::InRow => step,
            Order::InTurn => step % blocks * 128 + step / blocks,
        }
    }
}

fn timed(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as f64
}

fn print_row(what: &str, units: u32, chip_ns: f64, copy_ns: f64) {
    let (chip, copy) = (chip_ns / f64::from(units), copy_ns / f64::from(units));
    println!("{what:<44}{chip:>12.0}{copy:>12.0}{:>8.2}", chip / copy);
}

fn print_ratios() {
    println!("{:<44}{:>12}{:>12}{:>8}", "operation on 4,096+128 B pages", "ns", "copy ns", "ratio");
    let mut bench = Bench::new(BLOCKS);
    let mut other = vec![1; bench.memory.len()];
    for (order, name) in [(Order::InRow, "in a row"), (Order::InTurn, "block by block in turn")] {
        let [mut read, mut program, mut erase, mut copy] = [f64::INFINITY; 4];
        for _ in 0..ROUNDS {
            copy = copy.min(timed(|| bench.copy_all(order, black_box(&mut other))));
            read = read.min(timed(|| bench.read_all(order)));
            erase = erase.min(timed(|| bench.erase_all()));
            program = program.min(timed(|| bench.program_all(order)));
        }
        print_row(&format!("page read, {name}"), bench.pages, read, copy);
        print_row(&format!("page program, {name}"), bench.pages, program, copy);
        print_row(&format!("block erase (128 pages), {name}"), BLOCKS, erase, copy);
    }
    let [mut clone, mut copy] = [f64::INFINITY; 2];
    for _ in 0..ROUNDS {
        copy = copy.min(timed(|| black_box(&mut other).copy_from_slice(&bench.memory)));
        clone = clone.min(timed(|| drop(black_box(bench.chip.clone()))));
    }
    print_row("clone of the whole chip, per block", BLOCKS, clone, copy);
}

#[divan::bench]
fn page_read(bencher: divan::Bencher<'_, '_>) {
    let (mut bench, mut step) = (Bench::new(BLOCKS_DIVAN), 0);
    let mut page = [0; 4096 + 128];
    bencher.bench_local(|| {
        step = (step + 1) % bench.pages;
        let (data, spare) = page.split_at_mut(4096);
        bench.chip.read(Ppn(Order::InTurn.ppn(step, BLOCKS_DIVAN)), Cause::Host, data, spare).unwrap();
        black_box(&page);
    });
}

#[divan::bench]
fn page_read_spare_only(bencher: divan::Bencher<'_, '_>) {
    let (mut bench, mut step) = (Bench::new(BLOCKS_DIVAN), 0);
    let mut spare = [0; 128];
    bencher.bench_local(|| {
        step = (step + 1) % bench.pages;
        bench
            .chip
            .read(Ppn(Order::InTurn.ppn(step, BLOCKS_DIVAN)), Cause::Host, &mut [], &mut spare)
            .unwrap();
        black_box(&spare);
    });
}

/// With the block erase that falls to each 128th page.
#[divan::bench]
fn page_program(bencher: divan::Bencher<'_, '_>) {
    let (mut bench, mut step) = (Bench::new(BLOCKS_DIVAN), 0);
    let page = [0x33; 4096 + 128];
    bencher.bench_local(|| {
        if step % 128 == 0 {
            bench.chip.erase(Pbn(step / 128), Cause::Host).unwrap();
        }
        let (data, spare) = black_box(&page).split_at(4096);
        bench.chip.program(Ppn(step), Cause::Host, data, spare).unwrap();
        step = (step + 1) % bench.pages;
    });
}

#[divan::bench]
fn block_erase(bencher: divan::Bencher<'_, '_>) {
    let (mut bench, mut step) = (Bench::new(BLOCKS_DIVAN), 0);
    bencher.bench_local(|| {
        step = (step + 1) % BLOCKS_DIVAN;
        bench.chip.erase(Pbn(step), Cause::Host).unwrap();
    });
}
