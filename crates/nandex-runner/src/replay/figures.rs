//! The results of a replay: facts first, then a row for each device.

use super::picture::Picture;
use crate::results::{CauseCounts, ChipFacts};
use crate::tbm::Division;
use serde::Serialize;
use std::collections::BTreeMap;

/// Number of evenly spaced points of a drawn distribution.
const POINTS: usize = 200;

/// Number of windows that a trace is divided into.
pub(super) const WINDOWS: usize = 60;

/// The results of a replay with everything needed to read them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReplayResults {
    /// Version of this layout.
    pub schema: u32,
    /// Version of Nandex.
    pub nandex_version: String,
    /// The command that repeats the replay.
    pub command: String,
    /// The chip under the FTLs.
    pub chip: ChipFacts,
    /// Whether the chip lets the pages of a block be programmed in any order.
    pub random_page_order: bool,
    /// Facts about the trace.
    pub trace: TraceFacts,
    /// The way in which addresses became pages: "compact", "dense" or "modulo".
    pub placing: String,
    /// Number of logical pages that every device offered.
    pub pages: u64,
    /// Number of logical pages in the extents that the trace touches.
    pub pages_used: u64,
    /// Number of extents that the trace touches.
    pub extents: u64,
    /// Pages per extent.
    pub extent_pages: u64,
    /// Number of extents that share their pages with another extent because the device is too small.
    pub folded_extents: u64,
    /// The fill before the trace: "none", "touched" or "all".
    pub fill: String,
    /// RAM given to each FTL; absent when unlimited.
    pub ram_bytes: Option<u64>,
    /// Options set with `--set`.
    pub options: BTreeMap<String, String>,
    /// The results of each device.
    pub runs: Vec<ReplayRun>,
}

/// Facts about the trace of a replay.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceFacts {
    /// The trace's file.
    pub file: String,
    /// The trace's name, without folder and extensions.
    pub name: String,
    /// The format that the trace was read as.
    pub format: String,
    /// Number of devices that the trace names.
    pub devices: u64,
    /// Number of read requests.
    pub read_requests: u64,
    /// Number of write requests.
    pub write_requests: u64,
    /// Number of trim requests.
    pub trim_requests: u64,
    /// Bytes that the requests read.
    pub read_bytes: u64,
    /// Bytes that the requests write.
    pub written_bytes: u64,
    /// Number of lines without a request.
    pub other_lines: u64,
    /// Number of requests that the file has after a later one; they were put in order of time.
    pub late_requests: u64,
    /// Time from the first request to the last, in ns; absent if the trace has no times.
    pub duration_ns: Option<u64>,
}

/// The results of one device. Figures of the chip are 0 if the device has none.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReplayRun {
    /// The device's name.
    pub device: String,
    /// "simulated" or "wall clock".
    pub clock: String,
    /// The reason why the device could not start or had to stop; the figures then cover the work until
    /// then.
    pub error: Option<String>,
    /// Notes that readers of the device's figures need.
    pub notes: Vec<String>,
    /// Whether the device has a simulated chip, whose operations are counted.
    pub has_chip: bool,
    /// Number of requests done.
    pub requests: u64,
    /// Number of pages that requests read, including those read to complete a partial write.
    pub host_page_reads: u64,
    /// Number of pages that requests wrote.
    pub host_page_writes: u64,
    /// Number of pages that requests trimmed.
    pub host_page_trims: u64,
    /// Number of writes of a part of a page, which read the page first.
    pub partial_page_writes: u64,
    /// Number of page reads on the chip.
    pub page_reads: u64,
    /// Number of page programs on the chip.
    pub page_programs: u64,
    /// Number of block erases on the chip.
    pub block_erases: u64,
    /// Operations on the chip by cause.
    pub causes: BTreeMap<&'static str, CauseCounts>,
    /// Pages programmed per page that requests wrote.
    pub write_amplification: f64,
    /// Number of switch merges: log blocks that became data blocks unchanged.
    pub switch_merges: u64,
    /// Number of partial merges: log blocks that were completed to data blocks.
    pub partial_merges: u64,
    /// Number of full merges: logical blocks gathered into a new block.
    pub full_merges: u64,
    /// Number of victims reclaimed.
    pub collections: u64,
    /// Number of valid pages moved out of victims.
    pub moved_pages: u64,
    /// The division of the chip, if a TBM shares it with the FTL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub division: Option<Division>,
    /// Number of buffer blocks that the converter of a TBM merged into the FTL.
    pub conversions: u64,
    /// Number of newest pages that the converter wrote to the FTL.
    pub converted_pages: u64,
    /// Number of pages that the converter dropped because a newer version or a trim made them invalid.
    pub dropped_pages: u64,
    /// Time that the device worked, including the final sync, in ns.
    pub device_time_ns: u64,
    /// Energy that the chip used, in nJ.
    pub energy_nj: u64,
    /// Latencies of the requests.
    pub latency: Latencies,
    /// Times from the arrival of a request to its end; absent if the trace has no times.
    pub response: Option<Latencies>,
    /// Points of the latency distribution: a latency in ns and the share of the requests that take at most
    /// that long.
    pub latency_cdf: Vec<(u64, f64)>,
    /// Summary of the blocks' erases during the trace.
    pub wear: Wear,
    /// Number of erases of each block.
    pub wear_erases: Vec<u32>,
    /// Number of blocks marked bad.
    pub bad_blocks: u64,
    /// RAM of the mapping tables, in bytes.
    pub mapping_bytes: u64,
    /// RAM that the store uses in all, in bytes.
    pub ram_bytes: u64,
    /// The work in each window of the trace.
    pub windows: Vec<Window>,
    /// The picture of the chip after the trace.
    #[serde(skip)]
    pub picture: Option<Picture>,
}

/// Summary of request latencies in ns. A percentile is the latency that the given share of the requests
/// does not exceed (nearest rank).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latencies {
    /// Mean latency.
    pub mean_ns: u64,
    /// Latency that 50 % of the requests do not exceed.
    pub p50_ns: u64,
    /// Latency that 99 % of the requests do not exceed.
    pub p99_ns: u64,
    /// Latency that 99.9 % of the requests do not exceed.
    pub p999_ns: u64,
    /// Longest latency.
    pub max_ns: u64,
}

impl Latencies {
    /// Sorts the latencies and returns their summary.
    pub(super) fn of(latencies_ns: &mut [u64]) -> Latencies {
        latencies_ns.sort_unstable();
        let Some(&max_ns) = latencies_ns.last() else { return Latencies::default() };
        let count = latencies_ns.len();
        let rank = |permille: usize| latencies_ns[(count * permille).div_ceil(1000).max(1) - 1];
        let sum: u128 = latencies_ns.iter().map(|&ns| u128::from(ns)).sum();
        Latencies {
            mean_ns: (sum / count as u128) as u64,
            p50_ns: rank(500),
            p99_ns: rank(990),
            p999_ns: rank(999),
            max_ns,
        }
    }
}

/// Points of the distribution of sorted latencies. They lie closer together towards the longest, which are
/// of most interest.
pub(super) fn cdf(sorted_ns: &[u64]) -> Vec<(u64, f64)> {
    let count = sorted_ns.len();
    let mut places: Vec<usize> = (0..=POINTS).map(|i| i * count.saturating_sub(1) / POINTS).collect();
    let mut tail = count / POINTS;
    while tail > 0 {
        places.push(count - tail);
        tail = tail * 4 / 5;
    }
    places.sort_unstable();
    let mut points: Vec<(u64, f64)> = Vec::new();
    for place in places.into_iter().filter(|&p| p < count) {
        let point = (sorted_ns[place], (place + 1) as f64 / count as f64);
        match points.last_mut() {
            Some(last) if last.0 == point.0 => *last = point,
            _ => points.push(point),
        }
    }
    points
}

/// Summary of how evenly blocks were erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Wear {
    /// Erases of the block with the fewest.
    pub min_erases: u32,
    /// Mean number of erases of a block.
    pub mean_erases: f64,
    /// Erases of the block with the most.
    pub max_erases: u32,
    /// Standard deviation of the erases of the blocks.
    pub deviation_erases: f64,
}

impl Wear {
    /// The summary of `erases`, which holds the blocks that are not bad.
    pub(super) fn of(erases: &[u32]) -> Wear {
        let (Some(&min_erases), Some(&max_erases)) = (erases.iter().min(), erases.iter().max()) else {
            return Wear::default();
        };
        let count = erases.len() as f64;
        let mean_erases = erases.iter().map(|&e| f64::from(e)).sum::<f64>() / count;
        let squares = erases.iter().map(|&e| (f64::from(e) - mean_erases) * (f64::from(e) - mean_erases));
        let deviation_erases = (squares.sum::<f64>() / count).sqrt();
        Wear { min_erases, mean_erases, max_erases, deviation_erases }
    }
}

/// Work in one window; the windows are equal parts of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Start of the window in ns after the first request, or in requests if the trace has no times.
    pub start: u64,
    /// Number of pages that requests wrote.
    pub host_page_writes: u64,
    /// Number of pages programmed.
    pub page_programs: u64,
    /// Number of blocks erased.
    pub block_erases: u64,
    /// Time that the device worked, in ns.
    pub device_time_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let mut latencies: Vec<u64> = (1..=1000).rev().collect();
        let l = Latencies::of(&mut latencies);
        assert_eq!((l.mean_ns, l.p50_ns, l.p99_ns, l.p999_ns, l.max_ns), (500, 500, 990, 999, 1000));
        let one = Latencies::of(&mut [7]);
        assert_eq!((one.p50_ns, one.p999_ns, one.max_ns), (7, 7, 7));
        assert_eq!(Latencies::of(&mut []), Latencies::default());
    }

    #[test]
    fn a_distribution_ends_at_one_and_rises() {
        let sorted: Vec<u64> = (0..10_000).map(|i| i / 3).collect();
        let points = cdf(&sorted);
        assert_eq!(*points.last().unwrap(), (3333, 1.0));
        assert!(points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
        assert!(points.iter().filter(|p| p.1 > 0.995).count() > 10, "the tail is drawn finely");
        assert!(cdf(&[]).is_empty());
        assert_eq!(cdf(&[5, 5]), [(5, 1.0)]);
    }

    #[test]
    fn wear_tells_the_spread() {
        let wear = Wear::of(&[1, 3]);
        assert_eq!(
            (wear.min_erases, wear.mean_erases, wear.max_erases, wear.deviation_erases),
            (1, 2.0, 3, 1.0)
        );
    }
}
