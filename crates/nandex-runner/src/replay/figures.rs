//! The results of a replay: facts first, then a row for each device.

use super::picture::Picture;
use crate::results::{CauseCounts, ChipFacts};
use crate::tbm::Division;
use serde::Serialize;
use std::collections::BTreeMap;

/// Points of a distribution that is drawn.
const POINTS: usize = 200;

/// Windows that a trace is divided into.
pub(super) const WINDOWS: usize = 60;

/// A replay with everything needed to read it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReplayResults {
    /// Version of this form.
    pub schema: u32,
    /// Version of the program.
    pub nandex_version: String,
    /// The command that repeats it.
    pub command: String,
    /// The chip under the FTLs.
    pub chip: ChipFacts,
    /// Whether the chip lets the pages of a block be programmed in any order.
    pub random_page_order: bool,
    /// The trace.
    pub trace: TraceFacts,
    /// How addresses became pages: "compact", "dense" or "modulo".
    pub placing: String,
    /// Logical pages that every device offered.
    pub pages: u64,
    /// Logical pages of the extents that the trace touches.
    pub pages_used: u64,
    /// Extents that the trace touches.
    pub extents: u64,
    /// Pages of an extent.
    pub extent_pages: u64,
    /// Extents that share their place with another for want of room.
    pub folded_extents: u64,
    /// The fill before the trace: "none", "touched" or "all".
    pub fill: String,
    /// RAM given to each FTL; absent when unlimited.
    pub ram_bytes: Option<u64>,
    /// Options set with `--set`.
    pub options: BTreeMap<String, String>,
    /// A row for each device.
    pub runs: Vec<ReplayRun>,
}

/// The trace of a replay.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceFacts {
    /// The file.
    pub file: String,
    /// The trace's name without folder and extensions.
    pub name: String,
    /// The format it was read as.
    pub format: String,
    /// Devices that it names.
    pub devices: u64,
    /// Requests that read.
    pub read_requests: u64,
    /// Requests that write.
    pub write_requests: u64,
    /// Requests that trim.
    pub trim_requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Lines that hold no request.
    pub other_lines: u64,
    /// From the first request to the last; absent where the trace has no times.
    pub duration_ns: Option<u64>,
}

/// One device under the trace. Figures of the chip are 0 where there is none.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReplayRun {
    /// The device.
    pub device: String,
    /// "simulated" or "wall clock".
    pub clock: String,
    /// Why it could not start or had to stop; the figures then cover what was done before.
    pub error: Option<String>,
    /// The notes that readers of its figures need.
    pub notes: Vec<String>,
    /// Whether a simulated chip is below, whose operations are counted.
    pub has_chip: bool,
    /// Requests done.
    pub requests: u64,
    /// Pages that requests read, those to be completed by a write included.
    pub host_page_reads: u64,
    /// Pages that requests wrote.
    pub host_page_writes: u64,
    /// Pages that requests trimmed.
    pub host_page_trims: u64,
    /// The writes of part of a page, which read the page first.
    pub partial_page_writes: u64,
    /// Page reads of the chip.
    pub page_reads: u64,
    /// Page programs of the chip.
    pub page_programs: u64,
    /// Block erases of the chip.
    pub block_erases: u64,
    /// The counts by cause.
    pub causes: BTreeMap<&'static str, CauseCounts>,
    /// Pages programmed for each page written by requests.
    pub write_amplification: f64,
    /// Log blocks that became data blocks as they were.
    pub switch_merges: u64,
    /// Log blocks that were completed to data blocks.
    pub partial_merges: u64,
    /// Logical blocks gathered into a new block.
    pub full_merges: u64,
    /// Victims reclaimed.
    pub collections: u64,
    /// Valid pages moved out of victims.
    pub moved_pages: u64,
    /// How the chip is divided where a TBM shares it with the FTL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub division: Option<Division>,
    /// Buffer blocks of a TBM that its converter merged with the FTL.
    pub conversions: u64,
    /// Newest pages of these that it wrote to the FTL.
    pub converted_pages: u64,
    /// Pages that a newer version, or a trim, saved from that.
    pub dropped_pages: u64,
    /// Time the device worked, a sync at the end included.
    pub device_time_ns: u64,
    /// Energy of the chip.
    pub energy_nj: u64,
    /// Latency of a request.
    pub latency: Latencies,
    /// Time from when a request was made to its end; absent where the trace has no times.
    pub response: Option<Latencies>,
    /// Points of the distribution of the latency: so many ns or less take this share of the requests.
    pub latency_cdf: Vec<(u64, f64)>,
    /// Erases of the blocks while the trace ran.
    pub wear: Wear,
    /// The erases block by block.
    pub wear_erases: Vec<u32>,
    /// Blocks marked bad.
    pub bad_blocks: u64,
    /// RAM of the mapping tables.
    pub mapping_bytes: u64,
    /// RAM that the store holds in all.
    pub ram_bytes: u64,
    /// The writes in each window of the trace.
    pub windows: Vec<Window>,
    /// The chip at the end.
    #[serde(skip)]
    pub picture: Option<Picture>,
}

/// How long requests took, in ns. A percentile is the latency that no more than that share exceeds (nearest
/// rank).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latencies {
    /// The mean.
    pub mean_ns: u64,
    /// Half of the requests took no longer.
    pub p50_ns: u64,
    /// 99 % of them.
    pub p99_ns: u64,
    /// 99.9 % of them.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Latencies {
    /// The summary of these latencies, which this sorts.
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

/// Points of the distribution of sorted latencies: closer to each other towards the end, where the figures of
/// interest are.
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

/// How evenly blocks were erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Wear {
    /// The erases of the block erased least.
    pub min_erases: u32,
    /// The mean.
    pub mean_erases: f64,
    /// The erases of the block erased most.
    pub max_erases: u32,
    /// The standard deviation.
    pub deviation_erases: f64,
}

impl Wear {
    /// The summary of the erases of the blocks that are not bad.
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

/// The work in one of equal parts of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Where it begins: ns since the first request, or requests where the trace has no times.
    pub start: u64,
    /// Pages that requests wrote.
    pub host_page_writes: u64,
    /// Pages programmed.
    pub page_programs: u64,
    /// Blocks erased.
    pub block_erases: u64,
    /// Time the device worked.
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
