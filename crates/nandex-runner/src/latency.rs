//! Latencies of operations: a histogram with steps of 3 %. Each step keeps its longest time.
//!
//! Times of a chip are sums of a few latencies, so most steps have one value and percentiles are exact. Other
//! percentiles are too long by at most 3 %.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Steps per doubling, as a power of two: 32 steps.
const STEP_BITS: u32 = 5;

/// A histogram of operation times in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "Columns", into = "Columns")]
pub struct LatencyHistogram {
    /// Per step, by its shortest time: the longest time seen in the step, and the number of operations.
    steps: BTreeMap<u64, (u64, u64)>,
}

#[derive(Deserialize, Serialize)]
struct Columns {
    longest_ns: Vec<u64>,
    operations: Vec<u64>,
}

impl From<LatencyHistogram> for Columns {
    fn from(latencies: LatencyHistogram) -> Columns {
        let (longest_ns, operations) = latencies.steps.into_values().unzip();
        Columns { longest_ns, operations }
    }
}

impl From<Columns> for LatencyHistogram {
    fn from(columns: Columns) -> LatencyHistogram {
        let mut latencies = LatencyHistogram::default();
        columns.longest_ns.iter().zip(&columns.operations).for_each(|(ns, count)| latencies.add(*ns, *count));
        latencies
    }
}

const fn step(ns: u64) -> u64 {
    if ns < 1 << STEP_BITS {
        return ns;
    }
    let shift = ns.ilog2() - STEP_BITS;
    ns >> shift << shift
}

impl LatencyHistogram {
    /// Adds `operations` operations that took `ns` each.
    pub fn add(&mut self, ns: u64, operations: u64) {
        let (longest, count) = self.steps.entry(step(ns)).or_default();
        *longest = ns.max(*longest);
        *count += operations;
    }

    /// Adds the operations of another histogram.
    pub fn extend(&mut self, other: &LatencyHistogram) {
        other.steps.values().for_each(|(ns, count)| self.add(*ns, *count));
    }

    /// Whether the histogram has no operations.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Number of operations.
    pub fn operations(&self) -> u64 {
        self.steps.values().map(|(_, count)| count).sum()
    }

    /// The time that `permille` thousandths of the operations do not exceed (nearest rank); `None` without
    /// operations.
    pub fn permille(&self, permille: u64) -> Option<u64> {
        let all = u128::from(self.operations());
        let rank = (all * u128::from(permille)).div_ceil(1000).max(1);
        let mut seen = 0;
        let reached = self.steps.values().find(|(_, count)| {
            seen += u128::from(*count);
            seen >= rank
        });
        reached.map(|(longest, _)| *longest)
    }

    /// The cumulative distribution: pairs of a time in ns and the share of the operations that take at most
    /// that time.
    pub fn distribution(&self) -> Vec<(u64, f64)> {
        let all = self.operations() as f64;
        let mut seen = 0;
        let point = |(longest, count): &(u64, u64)| {
            seen += count;
            (*longest, seen as f64 / all)
        };
        self.steps.values().map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_times_within_a_step() {
        let mut latencies = LatencyHistogram::default();
        let times: Vec<u64> = (1..=5000u64).map(|i| i * i % 99_991 * 37).collect();
        times.iter().for_each(|ns| latencies.add(*ns, 1));
        let mut sorted = times;
        sorted.sort_unstable();
        for permille in [1, 500, 990, 999, 1000] {
            let exact = sorted[(sorted.len() * permille as usize).div_ceil(1000) - 1];
            let told = latencies.permille(permille).unwrap();
            assert!(told >= exact && told as f64 <= exact as f64 * 1.032, "{permille}: {told}, not {exact}");
        }
        assert_eq!(latencies.distribution().last().unwrap(), &(*sorted.last().unwrap(), 1.0));
        assert_eq!(LatencyHistogram::default().permille(500), None);
    }

    #[test]
    fn files_have_two_columns_and_give_the_same_back() {
        let mut latencies = LatencyHistogram::default();
        [(0, 3), (905_800, 2), (165_600, 7)].iter().for_each(|(ns, count)| latencies.add(*ns, *count));
        let text = serde_json::to_string(&latencies).unwrap();
        assert_eq!(text, r#"{"longest_ns":[0,165600,905800],"operations":[3,7,2]}"#);
        assert_eq!(serde_json::from_str::<LatencyHistogram>(&text).unwrap(), latencies);
        let mut twice = latencies.clone();
        twice.extend(&latencies);
        assert_eq!((twice.operations(), twice.permille(500)), (24, Some(165_600)));
    }
}
