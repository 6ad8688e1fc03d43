//! The costs of a run, as an answer tells it: per operation, at the end, and for the life of the chip.

use super::Want;
use crate::latency::LatencyHistogram;
use crate::results::{ChipFacts, Costs, Run, mount_and_change_ns};
use nandex::nand::Part;
use serde::Serialize;

const YEAR_SECONDS: f64 = 365.25 * 86_400.0;

/// Mean erases of a block from which the spread over blocks is known. With fewer erases it is chance.
const WEAR_KNOWN_FROM: f64 = 4.0;

/// The costs of a run, or their means over several seeds. All times are chip time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Mean time per operation.
    pub mean_ns: f64,
    /// Time that half of the operations do not exceed.
    pub p50_ns: f64,
    /// Time that 99 % of the operations do not exceed.
    pub p99_ns: f64,
    /// Time that 99.9 % of the operations do not exceed.
    pub p999_ns: f64,
    /// Time of the slowest operation.
    pub worst_ns: f64,
    /// Mean time per get or range, in nanoseconds. Absent if there were none.
    pub read_ns: Option<f64>,
    /// Mean time per insertion, update or removal, syncs included. Absent if there were none.
    pub change_ns: Option<f64>,
    /// Energy of the chip per operation.
    pub energy_nj: f64,
    /// Page reads per operation.
    pub page_reads: f64,
    /// Page programs per operation.
    pub page_programs: f64,
    /// Block erases per operation.
    pub block_erases: f64,
    /// Erases of the most worn block over the mean of all blocks. Absent if too few blocks were erased.
    pub wear_max_over_mean: Option<f64>,
    /// Largest RAM held, in bytes.
    pub ram_bytes: f64,
    /// Size of the pages with live data at the end.
    pub space_bytes: f64,
    /// Times of a mount at the end and of what follows.
    #[serde(flatten)]
    pub boot: Boot,
    /// Share of reads among the operations, 0 to 1.
    pub read_share: f64,
}

/// Times of a mount after a power cut at the end. Absent if none was tried or the index cannot mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Boot {
    /// Time of the mount.
    pub mount_ns: Option<f64>,
    /// Time of that mount and of the first change then.
    pub mount_and_change_ns: Option<f64>,
    /// Time of the slowest of the first thousand operations after that mount.
    pub session_worst_ns: Option<f64>,
}

/// Kinds of operations that change nothing.
const READS: [&str; 2] = ["get", "range"];

impl Figures {
    /// Figures of a run on a chip, over its measured phases.
    pub(super) fn of(run: &Run, part: &Part) -> Figures {
        let (mut all, mut reads, mut changes) = (Costs::default(), Costs::default(), Costs::default());
        let (mut latencies, mut energy_nj) = (LatencyHistogram::default(), 0);
        for phase in run.phases.iter().filter(|phase| phase.measured) {
            all = all.plus(&phase.total);
            energy_nj += phase.energy_nj;
            latencies.extend(&phase.latencies);
            for (kind, costs) in &phase.kinds {
                let costs =
                    Costs { operations: if *kind == "sync" { 0 } else { costs.operations }, ..*costs };
                let sum = if READS.contains(kind) { &mut reads } else { &mut changes };
                *sum = sum.plus(&costs);
            }
        }
        let each = |value: u64| value as f64 / all.operations.max(1) as f64;
        let mean = |costs: &Costs| {
            (costs.operations > 0).then(|| costs.flash_time_ns as f64 / costs.operations as f64)
        };
        let permille = |at: u64| latencies.permille(at).unwrap_or(0) as f64;
        Figures {
            mean_ns: each(all.flash_time_ns),
            p50_ns: permille(500),
            p99_ns: permille(990),
            p999_ns: permille(999),
            worst_ns: all.flash_time_max_ns as f64,
            read_ns: mean(&reads),
            change_ns: mean(&changes),
            energy_nj: each(energy_nj),
            page_reads: each(all.page_reads),
            page_programs: each(all.page_programs),
            block_erases: each(all.block_erases),
            wear_max_over_mean: wear(&run.wear_erases),
            ram_bytes: run.ram_bytes as f64,
            space_bytes: run.live_pages as f64 * f64::from(part.geometry.page_bytes),
            boot: Boot {
                mount_ns: run.mount.map(|costs| costs.flash_time_ns as f64),
                mount_and_change_ns: mount_and_change_ns(run).map(|ns| ns as f64),
                session_worst_ns: run.session.map(|costs| costs.flash_time_max_ns as f64),
            },
            read_share: each(reads.operations),
        }
    }

    /// Means of the figures of several seeds.
    pub(super) fn mean(all: &[Figures]) -> Figures {
        let of = |figure: fn(&Figures) -> f64| all.iter().map(figure).sum::<f64>() / all.len().max(1) as f64;
        let some = |figure: fn(&Figures) -> Option<f64>| {
            let known: Vec<f64> = all.iter().filter_map(figure).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        };
        Figures {
            mean_ns: of(|f| f.mean_ns),
            p50_ns: of(|f| f.p50_ns),
            p99_ns: of(|f| f.p99_ns),
            p999_ns: of(|f| f.p999_ns),
            worst_ns: all.iter().map(|f| f.worst_ns).fold(0.0, f64::max),
            read_ns: some(|f| f.read_ns),
            change_ns: some(|f| f.change_ns),
            energy_nj: of(|f| f.energy_nj),
            page_reads: of(|f| f.page_reads),
            page_programs: of(|f| f.page_programs),
            block_erases: of(|f| f.block_erases),
            wear_max_over_mean: some(|f| f.wear_max_over_mean),
            ram_bytes: all.iter().map(|f| f.ram_bytes).fold(0.0, f64::max),
            space_bytes: all.iter().map(|f| f.space_bytes).fold(0.0, f64::max),
            boot: Boot {
                mount_ns: some(|f| f.boot.mount_ns),
                mount_and_change_ns: some(|f| f.boot.mount_and_change_ns),
                session_worst_ns: some(|f| f.boot.session_worst_ns),
            },
            read_share: of(|f| f.read_share),
        }
    }

    /// Erases per operation in the long run. Each programmed page must be erased once, even if the run was
    /// too short to show it.
    pub fn erases_in_the_long_run(&self, part: &Part) -> f64 {
        self.block_erases.max(self.page_programs / f64::from(part.geometry.pages_per_block))
    }

    /// Life of the chip at `rate` operations a second: the years until its blocks have their specified
    /// number of erases. Infinite if nothing is written.
    pub fn life(&self, part: &Part, rate: f64) -> Life {
        self.life_on(&ChipFacts::of(part), rate)
    }

    /// Does the same as [`Figures::life`], from the facts of a chip.
    pub fn life_on(&self, chip: &ChipFacts, rate: f64) -> Life {
        let programs = self.page_programs / f64::from(chip.pages_per_block.max(1));
        let erases_a_second = self.block_erases.max(programs) * rate;
        let all = f64::from(chip.endurance_erases) * f64::from(chip.blocks);
        let even_years = all / erases_a_second / YEAR_SECONDS;
        Life { rate, even_years, worst_years: self.wear_max_over_mean.map(|uneven| even_years / uneven) }
    }

    /// The figure that should be small.
    pub(super) fn cost(&self, want: Want, part: &Part) -> f64 {
        match want {
            Want::Time => self.mean_ns,
            Want::Energy => self.energy_nj,
            Want::Lifetime => self.erases_in_the_long_run(part) * self.wear_max_over_mean.unwrap_or(1.0),
            Want::Space => self.space_bytes,
            Want::Tail => self.p999_ns,
            Want::Boot => self.boot.mount_and_change_ns.unwrap_or(f64::INFINITY),
        }
    }

    /// The figure that decides between candidates of equal cost.
    pub(super) fn second_cost(&self, want: Want) -> f64 {
        match want {
            Want::Time => self.p999_ns,
            _ => self.mean_ns,
        }
    }
}

/// Erases of the most worn block over the mean, if there were enough erases.
fn wear(erases: &[u32]) -> Option<f64> {
    let sum: u64 = erases.iter().copied().map(u64::from).sum();
    let mean = sum as f64 / erases.len().max(1) as f64;
    let most = f64::from(erases.iter().copied().max()?);
    (mean >= WEAR_KNOWN_FROM).then(|| most / mean)
}

/// The life of a chip at a rate of operations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Life {
    /// Operations per second.
    pub rate: f64,
    /// Years until all blocks are worn out, if they wear evenly.
    #[serde(serialize_with = "finite")]
    pub even_years: f64,
    /// Years until the most worn block is worn out. Absent if the run was too short to show how uneven wear
    /// is.
    pub worst_years: Option<f64>,
}

/// Writes an infinite life as null, because JSON has no infinity.
fn finite<S: serde::Serializer>(years: &f64, to: S) -> Result<S::Ok, S::Error> {
    if years.is_finite() { to.serialize_some(years) } else { to.serialize_none() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip;

    #[test]
    fn a_chip_lives_as_long_as_its_erases_last() {
        let part = chip::find("mlc-64m").unwrap();
        let figures = Figures { block_erases: 0.01, page_programs: 0.5, ..Figures::default() };
        let life = figures.life(&part, 10.0);
        let all = f64::from(part.endurance_erases) * f64::from(part.geometry.blocks);
        assert!((life.even_years - all / (0.01 * 10.0) / YEAR_SECONDS).abs() < 1e-9);
        assert_eq!(life.worst_years, None);
        let uneven = Figures { wear_max_over_mean: Some(2.0), ..figures.clone() };
        assert_eq!(uneven.life(&part, 10.0).worst_years, Some(life.even_years / 2.0));
        assert_eq!(uneven.cost(Want::Lifetime, &part), 0.02);
        // A run without erases has programmed pages that have to be erased some day.
        let short = Figures { block_erases: 0.0, ..figures };
        let pages = f64::from(part.geometry.pages_per_block);
        assert_eq!(short.erases_in_the_long_run(&part), 0.5 / pages);
        assert!(Figures::default().life(&part, 1.0).even_years.is_infinite());
        let json = serde_json::to_string(&Figures::default().life(&part, 1.0)).unwrap();
        assert!(json.contains("\"even_years\":null"), "{json}");
    }

    #[test]
    fn wear_is_told_when_there_is_enough_of_it() {
        assert_eq!(wear(&[0, 1, 0, 1]), None);
        assert_eq!(wear(&[4, 8, 4, 8]), Some(8.0 / 6.0));
        assert_eq!(wear(&[]), None);
    }
}
