//! Hand-made results for tests of the summary and of reports: made-up figures with every feature that a
//! report has to show.

use crate::latency::LatencyHistogram;
use crate::results::{CauseCounts, ChipFacts, Costs, Phase, Results, Run, Sample, WorkloadFacts};
use std::collections::BTreeMap;

/// Times of a page read, a page program and a block erase, in ns.
const NS: [u64; 3] = [165_600, 905_800, 1_500_000];

/// The conclusion that a report draws from the results.
const CONCLUSION: &str = "Of those durable at every operation, mu-tree took the least flash time, 943 \u{b5}s per operation: \
     3.24 \u{b1} 0.00\u{d7} less than bplus-wandering, the next best (3.05 ms), with 2.03\u{d7} its space; of those durable at \
     every sync, bplus took 1.36 ms of flash time per operation; classes promise different things and are not ranked against \
     each other; jffs3 could not run.";

/// Results of three indexes in two durability classes with two seeds each, and of one that could not run.
pub fn results() -> Results {
    let mut runs = Vec::new();
    for seed in 1..=2 {
        runs.push(run(["mu-tree", "raw", "every operation"], seed, [0, 3, 3], [0, 1, 1]));
        runs.push(run(["bplus-wandering", "raw", "every operation"], seed, [3, 4, 4], [0, 4, 4]));
        runs.push(run(["bplus", "page-greedy + lru", "every sync"], seed, [2, 3, 3], [0, 2, 1]));
        runs.push(failed("jffs3", seed));
    }
    Results {
        schema: 1,
        nandex_version: "0.1.0",
        commit: None,
        command: "nandex compare --chip mlc-4k-64 --workload mu-micro --ram 64KiB --seed 1".to_string(),
        chip: chip(),
        workload: workload(),
        runs,
        conclusion: CONCLUSION.to_string(),
    }
}

fn chip() -> ChipFacts {
    ChipFacts {
        name: "mlc-4k-64".to_string(),
        page_bytes: 4096,
        spare_bytes: 128,
        pages_per_block: 128,
        blocks: 128,
        page_read_ns: NS[0],
        page_program_ns: NS[1],
        block_erase_ns: NS[2],
        endurance_erases: 10_000,
    }
}

fn workload() -> WorkloadFacts {
    WorkloadFacts {
        name: "mu-micro".to_string(),
        key_bytes: 4,
        value_bytes: 4,
        operations: 1_030_000,
        ram_bytes: Some(65_536),
        durability: "any".to_string(),
        options: BTreeMap::from([("records".to_string(), "1000000".to_string())]),
    }
}

fn run(names: [&str; 3], seed: u64, reads: [u64; 3], programs: [u64; 3]) -> Run {
    let [index, storage, durability] = names;
    let jitter = seed * 7;
    let phases = [("load", 1_000_000, 1, false), ("retrieve", 10_000, 0, true), ("insert", 10_000, 1, true)];
    let mut phases: Vec<Phase> = phases
        .into_iter()
        .map(|(name, operations, k, measured)| {
            let kind = ["get", "insert", "remove"][k];
            phase(
                name,
                kind,
                measured,
                operations,
                [operations * reads[k] + jitter, operations * programs[k]],
            )
        })
        .collect();
    phases.push(phase("delete", "remove", true, 10_000, [10_000 * reads[2] + jitter, 10_000 * programs[2]]));
    let wear = (0..128u32).map(|b| 40 + b.wrapping_mul(2_654_435_761 + seed as u32 * 97) % 23).collect();
    Run {
        index: index.to_string(),
        storage: storage.to_string(),
        seed,
        error: None,
        durability: durability.to_string(),
        ram_bytes: 20_000 + 9_000 * programs[1],
        height: if programs[1] == 1 { 4 } else { 3 },
        records: 1_000_000,
        nodes: 2_841,
        live_pages: if programs[1] == 1 { 5_900 } else { 2_900 },
        space_amplification: if programs[1] == 1 { 3.02 } else { 1.48 },
        phases,
        wear_erases: wear,
        metrics: BTreeMap::from([("node_splits".to_string(), 2_840)]),
        mount: None,
        mount_closed: None,
        first_change: None,
        session: None,
        ram_needed_bytes: None,
    }
}

fn phase(name: &str, kind: &'static str, measured: bool, operations: u64, counts: [u64; 2]) -> Phase {
    let erases = counts[1] / 128;
    let total = Costs {
        operations,
        page_reads: counts[0],
        page_programs: counts[1],
        block_erases: erases,
        flash_time_ns: counts[0] * NS[0] + counts[1] * NS[1] + erases * NS[2],
        flash_time_max_ns: 31_000_000,
    };
    let collected = counts[1] / 5;
    let host = CauseCounts {
        page_reads: counts[0] - collected,
        page_programs: counts[1] - collected,
        block_erases: 0,
    };
    let gc = CauseCounts { page_reads: collected, page_programs: collected, block_erases: erases };
    Phase {
        name: name.to_string(),
        measured,
        kinds: BTreeMap::from([(kind, total)]),
        causes: BTreeMap::from([("host", host), ("garbage_collection", gc)]),
        patterns: None,
        total,
        write_amplification: if counts[1] > 0 { counts[1] as f64 / operations as f64 * 512.0 } else { 0.0 },
        cpu_ns: operations * 900,
        energy_nj: total.flash_time_ns / 20,
        cache_hits: 300,
        cache_misses: 100,
        collections: erases,
        live_pages: 0,
        metrics: BTreeMap::new(),
        timeline: (1..=50)
            .map(|i| Sample { operations: operations * i / 50, flash_time_ns: total.flash_time_ns * i / 50 })
            .collect(),
        latencies: LatencyHistogram::default(),
    }
}

/// A run that did not start. Its reason has characters that must be escaped in a page.
fn failed(index: &str, seed: u64) -> Run {
    Run {
        index: index.to_string(),
        storage: "raw".to_string(),
        seed,
        error: Some("needs 128 KiB of RAM for its <journal> & cache, 64 KiB were given".to_string()),
        durability: "every sync".to_string(),
        ram_bytes: 0,
        height: 0,
        records: 0,
        nodes: 0,
        live_pages: 0,
        space_amplification: 0.0,
        phases: Vec::new(),
        wear_erases: Vec::new(),
        metrics: BTreeMap::new(),
        mount: None,
        mount_closed: None,
        first_change: None,
        session: None,
        ram_needed_bytes: None,
    }
}
