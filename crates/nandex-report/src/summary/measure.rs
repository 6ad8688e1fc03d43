//! The figures that are reported: each with its name, heading, quantity and meaning, in the order they are
//! shown.
//!
//! A measure is taken of one run, over its measured phases together. Table, report and glossary are all drawn
//! from [`Measure`], so a new figure is added here and nowhere else.

use super::scale::Quantity;
pub use nandex_lab::results::KINDS;
use nandex_lab::results::{Run, mount_and_change_ns};
use nandex_lab::totals::{Totals, ratio};

/// The reported percentiles in thousandths: the median and the tail.
pub const PERMILLES: [u64; 3] = [500, 990, 999];

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Page reads per operation.
    PageReads,
    /// Page programs per operation.
    PagePrograms,
    /// Block erases per operation.
    BlockErases,
    /// Flash time per operation of one kind.
    KindTime(&'static str),
    /// Flash time per operation, whatever its kind.
    MeanTime,
    /// Flash time that this many thousandths of the operations do not exceed, syncs included.
    Permille(u64),
    /// Flash time of the slowest operation.
    SlowestTime,
    /// Flash time of all operations.
    WholeTime,
    /// Energy of the chip per operation.
    Energy,
    /// Bytes programmed divided by bytes of the records written.
    WriteAmplification,
    /// Number of victim blocks reclaimed.
    Collections,
    /// Cache hits divided by look-ups in the cache.
    HitRatio,
    /// RAM in use at the end.
    Ram,
    /// Bytes of the pages with live data.
    Space,
    /// Space amplification: bytes of the pages with live data divided by bytes of the records.
    SpaceAmplification,
    /// Number of levels of the tree.
    Height,
    /// Erases of the most worn block divided by the mean.
    WearSpread,
    /// Flash time of a mount after a power cut and of the first change that follows.
    MountAndChange,
    /// Flash time of a mount after a close.
    MountClosed,
    /// Flash time of the slowest of the first thousand operations after a power cut.
    SessionSlowest,
    /// The smallest RAM with which the index starts.
    RamNeeded,
    /// Processor time per operation.
    CpuTime,
}

/// A group of measures in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Chip operations per operation of the index.
    Operations,
    /// Flash time per operation.
    Time,
    /// Figures of the whole run.
    Run,
    /// Figures of the state at the end of the run.
    End,
    /// Figures of the computer that simulated the run.
    Processor,
}

impl Group {
    /// The heading over the group's columns.
    pub const fn heading(self) -> &'static str {
        match self {
            Group::Operations => "chip, per operation",
            Group::Time => "flash time per operation",
            Group::Run => "whole run",
            Group::End => "at the end",
            Group::Processor => "apart",
        }
    }
}

impl Measure {
    /// The measures that apply to these runs: times of kinds that occurred, a hit ratio if there is a
    /// cache, and so on.
    pub fn present(runs: &[(&Run, &Totals)]) -> Vec<Measure> {
        let totals: Vec<&Totals> = runs.iter().map(|pair| pair.1).collect();
        let kinds = KINDS.into_iter().filter(|k| totals.iter().any(|t| t.kinds.contains_key(k)));
        let mut all = vec![Measure::PageReads, Measure::PagePrograms, Measure::BlockErases];
        all.extend(kinds.map(Measure::KindTime));
        all.push(Measure::MeanTime);
        if totals.iter().any(|t| !t.latencies.is_empty()) {
            all.extend(PERMILLES.map(Measure::Permille));
        }
        all.extend([Measure::SlowestTime, Measure::WholeTime]);
        if totals.iter().any(|t| t.energy_nj > 0) {
            all.push(Measure::Energy);
        }
        if totals.iter().any(|t| t.write_amplification.is_some()) {
            all.push(Measure::WriteAmplification);
        }
        all.push(Measure::Collections);
        if totals.iter().any(|t| t.cache_hits > 0) {
            all.push(Measure::HitRatio);
        }
        use Measure::{CpuTime, Height, Ram, Space, SpaceAmplification, WearSpread};
        all.extend([Ram, Space, SpaceAmplification, Height, WearSpread]);
        if runs.iter().any(|pair| pair.0.mount.is_some()) {
            all.extend([Measure::MountAndChange, Measure::MountClosed, Measure::SessionSlowest]);
        }
        if runs.iter().any(|pair| pair.0.ram_needed_bytes.is_some()) {
            all.push(Measure::RamNeeded);
        }
        all.push(CpuTime);
        all
    }

    /// The value for a run; `None` if the measure does not apply.
    pub fn value(self, run: &Run, totals: &Totals, page_bytes: u32) -> Option<f64> {
        match self {
            Measure::PageReads => totals.per_operation(totals.costs.page_reads),
            Measure::PagePrograms => totals.per_operation(totals.costs.page_programs),
            Measure::BlockErases => totals.per_operation(totals.costs.block_erases),
            Measure::KindTime(kind) => {
                totals.kinds.get(kind).and_then(|c| ratio(c.flash_time_ns, c.operations))
            }
            Measure::MeanTime => totals.per_operation(totals.costs.flash_time_ns),
            Measure::Permille(permille) => totals.latencies.permille(permille).map(|ns| ns as f64),
            Measure::SlowestTime => {
                (totals.costs.operations > 0).then_some(totals.costs.flash_time_max_ns as f64)
            }
            Measure::WholeTime => (totals.costs.operations > 0).then_some(totals.costs.flash_time_ns as f64),
            Measure::Energy => totals.per_operation(totals.energy_nj),
            Measure::WriteAmplification => totals.write_amplification,
            Measure::Collections => Some(totals.collections as f64),
            Measure::HitRatio => ratio(totals.cache_hits, totals.cache_hits + totals.cache_misses),
            Measure::Ram => Some(run.ram_bytes as f64),
            Measure::Space => Some(run.live_pages as f64 * f64::from(page_bytes)),
            Measure::SpaceAmplification => (run.records > 0).then_some(run.space_amplification),
            Measure::Height => Some(f64::from(run.height)),
            Measure::WearSpread => wear_spread(&run.wear_erases),
            Measure::MountAndChange => mount_and_change_ns(run).map(|ns| ns as f64),
            Measure::MountClosed => run.mount_closed.map(|costs| costs.flash_time_ns as f64),
            Measure::SessionSlowest => run.session.map(|costs| costs.flash_time_max_ns as f64),
            Measure::RamNeeded => run.ram_needed_bytes.map(|bytes| bytes as f64),
            Measure::CpuTime => totals.per_operation(totals.cpu_ns),
        }
    }

    /// The measure's heading in a table.
    pub fn heading(self) -> &'static str {
        match self {
            Measure::PageReads => "reads",
            Measure::PagePrograms => "programs",
            Measure::BlockErases => "erases",
            Measure::KindTime(kind) => kind,
            Measure::MeanTime => "mean",
            Measure::Permille(500) => "p50",
            Measure::Permille(990) => "p99",
            Measure::Permille(_) => "p99.9",
            Measure::SlowestTime => "slowest",
            Measure::WholeTime => "flash time",
            Measure::Energy => "energy",
            Measure::WriteAmplification => "write ampl.",
            Measure::Collections => "collections",
            Measure::HitRatio => "cache hits",
            Measure::Ram => "RAM",
            Measure::Space => "space",
            Measure::SpaceAmplification => "space ampl.",
            Measure::Height => "height",
            Measure::WearSpread => "wear max/mean",
            Measure::MountAndChange => "mount + change, cut",
            Measure::MountClosed => "mount, closed",
            Measure::SessionSlowest => "slowest after a cut",
            Measure::RamNeeded => "RAM needed",
            Measure::CpuTime => "CPU time",
        }
    }

    /// The group of the measure.
    pub fn group(self) -> Group {
        use Measure::{
            BlockErases, Collections, CpuTime, Energy, Height, HitRatio, KindTime, MeanTime, MountAndChange,
            MountClosed, PagePrograms, PageReads, Permille, Ram, RamNeeded, SessionSlowest, SlowestTime,
            Space, SpaceAmplification, WearSpread, WholeTime, WriteAmplification,
        };
        match self {
            PageReads | PagePrograms | BlockErases => Group::Operations,
            KindTime(_) | MeanTime | Permille(_) | SlowestTime => Group::Time,
            WholeTime | Energy | WriteAmplification | Collections | HitRatio => Group::Run,
            Ram | Space | SpaceAmplification | Height | WearSpread => Group::End,
            MountAndChange | MountClosed | SessionSlowest | RamNeeded => Group::End,
            CpuTime => Group::Processor,
        }
    }

    /// The kind of quantity that the measure has.
    pub fn quantity(self) -> Quantity {
        match self {
            Measure::KindTime(_) | Measure::MeanTime => Quantity::Time,
            Measure::Permille(_) | Measure::SlowestTime => Quantity::Time,
            Measure::WholeTime | Measure::CpuTime => Quantity::Time,
            Measure::MountAndChange | Measure::MountClosed | Measure::SessionSlowest => Quantity::Time,
            Measure::Energy => Quantity::Energy,
            Measure::Ram | Measure::Space | Measure::RamNeeded => Quantity::Bytes,
            Measure::HitRatio => Quantity::Share,
            Measure::Collections | Measure::Height => Quantity::Count,
            _ => Quantity::Number,
        }
    }

    /// The meaning of the measure, in a sentence or two.
    pub fn meaning(self) -> &'static str {
        match self {
            Measure::PageReads => "Pages read from the chip, of every cause, per operation of the index.",
            Measure::PagePrograms => "Pages programmed, of every cause, per operation of the index.",
            Measure::BlockErases => "Blocks erased, of every cause, per operation of the index.",
            Measure::KindTime(_) => {
                "Flash time per operation of this kind. What an operation triggers (an eviction, a garbage \
                 collection) is charged to it."
            }
            Measure::MeanTime => {
                "Flash time per operation over all kinds together. Flash time is the sum of operations of the chip \
                 times the part's latency; the time of the processor is not in it."
            }
            Measure::Permille(_) => {
                "Flash time that half, 99 % or 99.9 % of the operations do not exceed; syncs are among them."
            }
            Measure::SlowestTime => "Flash time of the slowest single operation.",
            Measure::WholeTime => "Flash time of all measured operations.",
            Measure::Energy => "Energy of the chip per operation, from the part's currents and voltage.",
            Measure::WriteAmplification => {
                "Bytes programmed into data areas over bytes of the records inserted, updated and removed."
            }
            Measure::Collections => "Garbage collections: victim blocks reclaimed in the measured phases.",
            Measure::HitRatio => "Look-ups served by the page cache over all its look-ups.",
            Measure::Ram => "RAM the index holds: tables, buffers and caches of the whole stack.",
            Measure::Space => "Bytes of the pages that hold live data.",
            Measure::SpaceAmplification => {
                "Bytes of the pages that hold live data over bytes of the records."
            }
            Measure::Height => "Levels of the tree from leaf to root; a single leaf has height 1.",
            Measure::WearSpread => {
                "Erases of the most worn block over the mean of all blocks; 1 is perfectly even."
            }
            Measure::MountAndChange => {
                "Flash time of finding the index again at the end, as a power cut leaves it, and of the first change \
                 then."
            }
            Measure::MountClosed => "Flash time of finding the index again once it was closed.",
            Measure::SessionSlowest => {
                "Flash time of the slowest of the first thousand operations after that power cut and mount."
            }
            Measure::RamNeeded => {
                "The smallest RAM with which the index starts on this chip, with the options given."
            }
            Measure::CpuTime => {
                "Time the simulating processor spent per operation. It depends on the computer, is measured apart \
                 and is in none of the other figures."
            }
        }
    }

    /// Whether the measure is a cost per operation.
    pub fn is_per_operation(self) -> bool {
        use Measure::{BlockErases, CpuTime, Energy, KindTime, MeanTime, PagePrograms, PageReads};
        matches!(self, PageReads | PagePrograms | BlockErases | KindTime(_) | MeanTime | Energy | CpuTime)
    }

    /// Whether a smaller value is better, so that the best of a class is marked. Processor time is not
    /// judged, because it depends on the computer and not on the chip.
    pub fn is_ranked(self) -> bool {
        !matches!(self, Measure::Height | Measure::CpuTime | Measure::Collections | Measure::HitRatio)
    }
}

fn wear_spread(erases: &[u32]) -> Option<f64> {
    let sum: u64 = erases.iter().copied().map(u64::from).sum();
    let max = erases.iter().copied().max()?;
    (sum > 0).then(|| f64::from(max) * erases.len() as f64 / sum as f64)
}
