//! Compares the RAM of every index, spatial index and FTL with its budget, on chips of any geometry: `cargo
//! run --profile campaign -p nandex-testkit --example drawn -- 7 3 mu` (seed, minutes, subjects or all).

use nandex_lab::crash::Target;
use nandex_lab::registry::{INDEXES, STORES};
use nandex_lab::spatial::SPATIAL;
use nandex_lab::torture::Victim;
use nandex_testkit::Heap;
use nandex_testkit::drawn::Life;
use std::io::Write;
use std::time::{Duration, Instant};

#[global_allocator]
static HEAP: Heap = Heap;

/// Changes of a life at most.
const CHANGES: u64 = 3000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(1);
    let (first, minutes) = (number(0), number(1));
    let mut victims: Vec<Victim> = arguments.iter().skip(2).filter_map(|name| name.parse().ok()).collect();
    if victims.is_empty() {
        let indexes = INDEXES.iter().map(Target::Index);
        let all = indexes.chain(SPATIAL.iter().map(Target::Spatial)).chain(STORES.iter().map(Target::Store));
        victims.extend(all.map(|target| Victim { target, ftl: None }));
    }
    let mut out = std::io::stdout().lock();
    let until = Instant::now() + Duration::from_secs(minutes * 60);
    let (mut lives, mut faults) = (0, 0);
    let seeds = (0..).map(|turn: u64| first.wrapping_mul(1_000_000).wrapping_add(turn));
    for seed in seeds.take_while(|_| Instant::now() < until) {
        for &victim in &victims {
            lives += 1;
            if let Some(Err(finding)) = (Life { victim, seed, changes: CHANGES }).live() {
                faults += 1;
                let _ = writeln!(out, "{finding}");
            }
        }
    }
    let _ = writeln!(out, "{lives} lives, {faults} faults");
}
