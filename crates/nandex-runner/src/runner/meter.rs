//! From the counters of a chip, or of a disk, to the figures of a phase: costs by kind and by cause, a
//! timeline, amplification.

use crate::latency::LatencyHistogram;
use crate::results::{CauseCounts, Costs, Phase, Sample};
use nandex::nand::Cause;
use nandex::nand::sim::{Counters, SimChip};
use nandex::ordered::IndexStats;
use nandex::store::disk::DiskStore;
use std::collections::BTreeMap;

/// Most samples of the accumulated flash time in a phase.
pub(crate) const TIMELINE_SAMPLES: usize = 300;

/// The counters of a chip or disk at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) counters: Counters,
    /// Simulated time so far, in ns.
    pub(crate) time_ns: u64,
    energy_pj: u64,
}

impl Reading {
    pub(crate) fn of(chip: &SimChip) -> Reading {
        Reading { counters: chip.counters(), time_ns: chip.time().0, energy_pj: chip.energy_pj() }
    }

    /// The costs since an earlier reading, counted as one operation.
    pub(crate) fn since(&self, earlier: &Reading) -> Costs {
        let spent = self.counters.since(&earlier.counters);
        let flash_time_ns = self.time_ns - earlier.time_ns;
        Costs {
            operations: 1,
            page_reads: spent.page_reads_total(),
            page_programs: spent.page_programs_total(),
            block_erases: spent.block_erases_total(),
            flash_time_ns,
            flash_time_max_ns: flash_time_ns,
        }
    }

    /// The reading of a disk. All its accesses count as the host's.
    pub(crate) fn of_disk(disk: &DiskStore) -> Reading {
        let mut counters = Counters::default();
        counters.page_reads[Cause::Host as usize] = disk.counters().page_reads;
        counters.page_programs[Cause::Host as usize] = disk.counters().page_writes;
        Reading { counters, time_ns: disk.time().0, energy_pj: 0 }
    }
}

/// A batch of finished operations of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) kind: &'static str,
    pub(crate) operations: u64,
    /// Bytes of the records that all operations of the batch change.
    pub(crate) written: u64,
}

/// The kind whose costs count in a phase, but which does not count as an operation.
const SYNC: &str = "sync";

/// Turns differences of the chip's counters into the figures of phases.
pub(crate) struct Meter {
    page_bytes: u64,
    /// The reading after the last operation.
    last: Reading,
    /// The reading at the start of the phase.
    start: Reading,
    start_stats: IndexStats,
    kinds: BTreeMap<&'static str, Costs>,
    cpu_ns: u64,
    bytes_written: u64,
    operations: u64,
    sample_every: u64,
    timeline: Vec<Sample>,
    latencies: LatencyHistogram,
}

impl Meter {
    /// Starts counting at this reading.
    pub(crate) fn new(now: Reading, page_bytes: u64) -> Meter {
        Meter {
            page_bytes,
            last: now,
            start: now,
            start_stats: IndexStats::default(),
            kinds: BTreeMap::new(),
            cpu_ns: 0,
            bytes_written: 0,
            operations: 0,
            sample_every: 1,
            timeline: Vec::new(),
            latencies: LatencyHistogram::default(),
        }
    }

    pub(crate) fn start_phase(&mut self, operations: usize, stats: IndexStats) {
        self.start = self.last;
        self.start_stats = stats;
        self.kinds.clear();
        self.timeline.clear();
        self.latencies = LatencyHistogram::default();
        (self.cpu_ns, self.bytes_written, self.operations) = (0, 0, 0);
        self.sample_every = operations.div_ceil(TIMELINE_SAMPLES).max(1) as u64;
    }

    /// Books a batch of finished operations: all work of the medium since the previous batch.
    pub(crate) fn book(&mut self, Done { kind, operations, written }: Done, now: Reading, cpu_ns: u64) {
        let spent = now.counters.since(&self.last.counters);
        let flash_time_ns = now.time_ns - self.last.time_ns;
        let costs = self.kinds.entry(kind).or_default();
        costs.operations += operations;
        costs.page_reads += spent.page_reads_total();
        costs.page_programs += spent.page_programs_total();
        costs.block_erases += spent.block_erases_total();
        costs.flash_time_ns += flash_time_ns;
        costs.flash_time_max_ns = costs.flash_time_max_ns.max(flash_time_ns);
        // What is handed over at once is no wait of anybody for one of them.
        if operations == 1 {
            self.latencies.add(flash_time_ns, 1);
        }
        self.cpu_ns += cpu_ns;
        self.bytes_written += written;
        self.last = now;
        self.operations += if kind == SYNC { 0 } else { operations };
        if self.operations.is_multiple_of(self.sample_every) {
            self.sample();
        }
    }

    fn sample(&mut self) {
        if self.operations == 0 {
            return;
        }
        let now =
            Sample { operations: self.operations, flash_time_ns: self.last.time_ns - self.start.time_ns };
        match self.timeline.last_mut() {
            Some(last) if last.operations == now.operations => *last = now,
            _ => self.timeline.push(now),
        }
    }

    pub(crate) fn end_phase(&mut self, name: &str, measured: bool, stats: &IndexStats) -> Phase {
        self.sample();
        let done = self.last.counters.since(&self.start.counters);
        let mut total = self.kinds.values().fold(Costs::default(), |sum, costs| sum.plus(costs));
        total.operations = self.operations;
        let programmed = total.page_programs * self.page_bytes;
        Phase {
            name: name.to_string(),
            measured,
            kinds: std::mem::take(&mut self.kinds),
            causes: by_cause(&done),
            patterns: None,
            total,
            write_amplification: ratio(programmed, self.bytes_written),
            cpu_ns: self.cpu_ns,
            energy_nj: (self.last.energy_pj - self.start.energy_pj) / 1000,
            cache_hits: since(stats.cache_hits, self.start_stats.cache_hits),
            cache_misses: since(stats.cache_misses, self.start_stats.cache_misses),
            collections: since(stats.collections, self.start_stats.collections),
            live_pages: stats.live_pages,
            metrics: by_name(stats),
            timeline: std::mem::take(&mut self.timeline),
            latencies: std::mem::take(&mut self.latencies),
        }
    }
}

pub(crate) fn by_name(stats: &IndexStats) -> BTreeMap<String, u64> {
    stats.metrics.iter().map(|metric| (metric.name.to_string(), metric.value)).collect()
}

/// The growth of a counter that never falls.
fn since(now: u64, then: u64) -> u64 {
    assert!(now >= then, "a counter of the index fell from {then} to {now}");
    now - then
}

/// The quotient, or 0 if the denominator is 0.
pub(crate) fn ratio(numerator: u64, denominator: u64) -> f64 {
    if denominator == 0 { 0.0 } else { numerator as f64 / denominator as f64 }
}

pub(crate) fn by_cause(counters: &Counters) -> BTreeMap<&'static str, CauseCounts> {
    let counts = |cause: &Cause| CauseCounts {
        page_reads: counters.page_reads[*cause as usize],
        page_programs: counters.page_programs[*cause as usize],
        block_erases: counters.block_erases[*cause as usize],
    };
    let all = Cause::COUNTED.iter().map(|cause| (cause.name(), counts(cause)));
    all.filter(|(_, counts)| *counts != CauseCounts::default()).collect()
}
