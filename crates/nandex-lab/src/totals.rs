//! The sums of a run.

use crate::latency::LatencyHistogram;
use crate::results::{CauseCounts, Costs, Phase, Results, Run, Sample};
use crate::workload::LENGTHS;
use std::collections::BTreeMap;

/// Sums over the measured phases of a run.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Costs for each kind of operation.
    pub kinds: BTreeMap<&'static str, Costs>,
    /// Operations on the chip for each cause.
    pub causes: BTreeMap<&'static str, CauseCounts>,
    /// Costs of all operations.
    pub costs: Costs,
    /// Bytes programmed divided by bytes of records inserted, updated and removed. Absent if there are
    /// none.
    pub write_amplification: Option<f64>,
    /// Processor time, in nanoseconds.
    pub cpu_ns: u64,
    /// Energy of the chip, in nanojoules.
    pub energy_nj: u64,
    /// Cache hits.
    pub cache_hits: u64,
    /// Cache misses.
    pub cache_misses: u64,
    /// Number of victim blocks collected.
    pub collections: u64,
    /// Flash time accumulated over all measured phases.
    pub timeline: Vec<Sample>,
    /// Distribution of the chip time of single operations.
    pub latencies: LatencyHistogram,
}

/// Bytes of the records changed in measured phases, computed from write amplification, because values may
/// differ in length.
fn written(run: &Run, page_bytes: u32) -> u64 {
    let phases = run.phases.iter().filter(|phase| phase.measured && phase.write_amplification > 0.0);
    let bytes = |phase: &Phase| {
        (phase.total.page_programs * u64::from(page_bytes)) as f64 / phase.write_amplification
    };
    phases.map(bytes).sum::<f64>().round() as u64
}

impl Totals {
    /// Adds up the measured phases of a run.
    pub fn of(run: &Run, results: &Results) -> Totals {
        let mut totals = Totals::default();
        for phase in run.phases.iter().filter(|p| p.measured) {
            totals.extend_timeline(phase);
            totals.add(phase);
        }
        let changes = ["insert", "update", "remove"].iter().filter_map(|kind| totals.kinds.get(kind));
        let changes: u64 = changes.map(|costs| costs.operations).sum();
        let record_bytes = u64::from(results.workload.key_bytes) + u64::from(results.workload.value_bytes);
        let programmed = totals.costs.page_programs * u64::from(results.chip.page_bytes);
        let written = match results.workload.options.contains_key(LENGTHS) {
            true => written(run, results.chip.page_bytes),
            false => changes * record_bytes,
        };
        totals.write_amplification = ratio(programmed, written);
        totals
    }

    fn add(&mut self, phase: &Phase) {
        for (kind, costs) in &phase.kinds {
            let sum = self.kinds.entry(kind).or_default();
            *sum = sum.plus(costs);
        }
        for (cause, counts) in &phase.causes {
            let sum = self.causes.entry(cause).or_default();
            sum.page_reads += counts.page_reads;
            sum.page_programs += counts.page_programs;
            sum.block_erases += counts.block_erases;
        }
        self.costs = self.costs.plus(&phase.total);
        self.latencies.extend(&phase.latencies);
        self.cpu_ns += phase.cpu_ns;
        self.energy_nj += phase.energy_nj;
        self.cache_hits += phase.cache_hits;
        self.cache_misses += phase.cache_misses;
        self.collections += phase.collections;
    }

    /// Adds the samples of a phase. Call this before the phase's costs are added: its samples start where the
    /// phases before ended.
    fn extend_timeline(&mut self, phase: &Phase) {
        if self.timeline.is_empty() {
            self.timeline.push(Sample { operations: 0, flash_time_ns: 0 });
        }
        let (operations, time) = (self.costs.operations, self.costs.flash_time_ns);
        self.timeline.extend(phase.timeline.iter().map(|s| Sample {
            operations: operations + s.operations,
            flash_time_ns: time + s.flash_time_ns,
        }));
    }

    /// A sum divided by the number of operations. `None` if there are none.
    pub fn per_operation(&self, value: u64) -> Option<f64> {
        ratio(value, self.costs.operations)
    }
}

/// A quotient. `None` if the base is 0.
pub fn ratio(value: u64, base: u64) -> Option<f64> {
    (base > 0).then(|| value as f64 / base as f64)
}
