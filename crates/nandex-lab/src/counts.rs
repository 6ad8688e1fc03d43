//! The counts of every FTL on small traces that anyone can repeat, to hold against another simulator.
//!
//! The chip ([`chip`]) has 64 blocks of 16 pages of 512 bytes, so that a page is a sector; the host uses
//! pages 0 to 511 ([`PAGES`]), which is half of them. Each FTL has its default options. Formatting is not
//! counted; the trace is, from the first write to a sync after the last.
//!
//! | trace | writes |
//! |---|---|
//! | sequential | every page in ascending order, twice |
//! | uniform | every page in ascending order, then 2048 pages drawn evenly |
//! | hot-cold | every page in ascending order, then 2048 pages: of the first 102 pages (a fifth) with probability 0.8, else of the other 410 |
//! | reverse | block by block in ascending order, the pages of a block from the last to the first; all of that twice |
//!
//! Random numbers are those of [`nandex::rng::Rng`]: xoshiro256** whose four words of state are SplitMix64 of
//! `seed`, `seed + g`, `seed + 2g` and `seed + 3g` with g = 0x9e3779b97f4a7c15. A number below `n` is the
//! upper half of the 128-bit product of `n` and the next 64 bits; where the lower half is below 2^64 mod n
//! another one is drawn. *uniform* draws below 512 for each page; *hot-cold* draws below 100, and if that is
//! less than 80 then below 102, else 102 and a number below 410. Each trace begins with a new generator.
//! [`Trace::blocks`] gives each as a block trace, which `nandex counts --write-trace` writes to files.

use crate::block_trace::place::Placing;
use crate::block_trace::{BlockOp, BlockTrace, Request, SECTOR_BYTES};
use crate::error::LabError;
use crate::parallel;
use crate::registry::StoreEntry;
use crate::replay::{Device, Fill, Replay, ReplayRun};
use crate::results::{CAUSE_COLUMNS, CauseCounts, ChipFacts};
use crate::runner::Control;
use nandex::nand::{Geometry, Part, catalogue};
use nandex::rng::Rng;
use nandex_stacks::options::Options;
use serde::Serialize;
use std::io::{self, Write};

/// Number of logical pages that the traces use.
pub const PAGES: u32 = 512;
/// Pages of a block.
const PAGES_PER_BLOCK: u32 = 16;
/// Writes of a random trace after the first pass.
const RANDOM_WRITES: u32 = 2048;
/// Number of pages in the hot fifth.
const HOT_PAGES: u64 = PAGES as u64 / 5;

/// The seed if no other is given.
pub const SEED: u64 = 1;

/// The order in which the chip lets the pages of a block be programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOrder {
    /// Ascending only, as chips of today want it.
    Ascending,
    /// Any, as small-block chips allow it and the historic simulators assume it.
    Any,
}

impl PageOrder {
    /// Both orders.
    pub const ALL: [PageOrder; 2] = [PageOrder::Ascending, PageOrder::Any];

    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            PageOrder::Ascending => "ascending",
            PageOrder::Any => "any",
        }
    }
}

/// The chip for the counts. Its latencies do not matter, but there must be some.
pub fn chip(order: PageOrder) -> Part {
    let mut part = catalogue::mlc_64m();
    part.name = "counts".into();
    part.geometry = Geometry::new(512, 64, PAGES_PER_BLOCK, 64);
    part.geometry.random_order = order == PageOrder::Any;
    part
}

/// A pattern of page writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// All pages in ascending order, twice.
    Sequential,
    /// All pages in ascending order, then evenly drawn ones.
    Uniform,
    /// All pages in ascending order, then drawn ones, of which 80 % fall into a fifth of the pages.
    HotCold,
    /// The pages of each block in descending order, twice.
    Reverse,
}

impl Trace {
    /// All traces.
    pub const ALL: [Trace; 4] = [Trace::Sequential, Trace::Uniform, Trace::HotCold, Trace::Reverse];

    /// The name used in results and for files.
    pub const fn name(self) -> &'static str {
        match self {
            Trace::Sequential => "sequential",
            Trace::Uniform => "uniform",
            Trace::HotCold => "hot-cold",
            Trace::Reverse => "reverse",
        }
    }

    /// The pages that the trace writes, in order.
    pub fn writes(self, seed: u64) -> Vec<u32> {
        let mut rng = Rng::new(seed);
        let mut random = |draw: &mut dyn FnMut(&mut Rng) -> u64| -> Vec<u32> {
            let drawn = (0..RANDOM_WRITES).map(|_| draw(&mut rng) as u32);
            (0..PAGES).chain(drawn).collect()
        };
        match self {
            Trace::Sequential => (0..PAGES).chain(0..PAGES).collect(),
            Trace::Uniform => random(&mut |rng| rng.below(PAGES.into())),
            Trace::HotCold => random(&mut |rng| match rng.below(100) < 80 {
                true => rng.below(HOT_PAGES),
                false => HOT_PAGES + rng.below(u64::from(PAGES) - HOT_PAGES),
            }),
            Trace::Reverse => {
                let blocks = (0..PAGES / PAGES_PER_BLOCK).map(|block| block * PAGES_PER_BLOCK);
                let pass = blocks.flat_map(|first| (first..first + PAGES_PER_BLOCK).rev());
                pass.clone().chain(pass).collect()
            }
        }
    }

    /// The trace as a block trace with one sector for each page.
    pub fn blocks(self, seed: u64) -> BlockTrace {
        let request = |page: u32| Request {
            op: BlockOp::Write,
            device: 0,
            offset_bytes: u64::from(page) * SECTOR_BYTES,
            bytes: SECTOR_BYTES,
            time_ns: 0,
        };
        BlockTrace {
            name: self.name().to_string(),
            format: "csv",
            devices: vec![String::new()],
            requests: self.writes(seed).into_iter().map(request).collect(),
            ..BlockTrace::default()
        }
    }
}

/// The counts of one FTL on one trace.
#[derive(Clone, Debug, Serialize)]
pub struct Counts {
    /// Name of the trace.
    pub trace: &'static str,
    /// The order in which pages of a block may be programmed: "ascending" or "any".
    pub page_order: &'static str,
    /// The figures. The device is the FTL.
    #[serde(flatten)]
    pub run: ReplayRun,
}

/// The plan for a set of counts.
#[derive(Clone, Debug)]
pub struct CountsPlan {
    /// The FTLs to run.
    pub ftls: Vec<&'static StoreEntry>,
    /// The page orders to run.
    pub orders: Vec<PageOrder>,
    /// Seed of the random traces.
    pub seed: u64,
    /// Number of FTLs that run at the same time. Counts do not depend on it.
    pub threads: usize,
}

impl CountsPlan {
    /// Runs the plan. The counts are sorted by page order, then trace, then FTL.
    pub fn run(&self, control: &Control) -> Result<Vec<Counts>, LabError> {
        let cells: Vec<(PageOrder, Trace)> =
            self.orders.iter().flat_map(|&order| Trace::ALL.map(|trace| (order, trace))).collect();
        let counted = parallel::map(&cells, self.threads, |&(order, trace)| {
            let runs = self.replay(order, trace).run(control)?.runs;
            let row = |run| Counts { trace: trace.name(), page_order: order.name(), run };
            Ok(runs.into_iter().map(row).collect::<Vec<Counts>>())
        });
        counted.into_iter().collect::<Result<Vec<_>, LabError>>().map(|rows| rows.concat())
    }

    fn replay(&self, order: PageOrder, trace: Trace) -> Replay {
        Replay {
            part: chip(order),
            trace: trace.blocks(self.seed),
            trace_file: String::new(),
            devices: self.ftls.iter().map(|entry| Device::Ftl(entry)).collect(),
            // Page n is sector n: every store is larger than the trace.
            placing: Placing::Modulo,
            fill: Fill::None,
            ram_bytes: None,
            options: Options::default(),
            threads: 1,
            command: String::new(),
        }
    }

    /// The facts about the chip for results.
    pub fn chip_facts() -> ChipFacts {
        ChipFacts::of(&chip(PageOrder::Ascending))
    }
}

/// The columns of the CSV before those of causes, which are `page_reads_host` and so on,
/// `page_programs_...`, `block_erases_...`.
pub const COLUMNS: [&str; 13] = [
    "trace",
    "page_order",
    "ftl",
    "host_page_writes",
    "switch_merges",
    "partial_merges",
    "full_merges",
    "collections",
    "moved_pages",
    "page_reads",
    "page_programs",
    "block_erases",
    "error",
];

/// Writes counts as CSV, a row for each trace, order and FTL.
pub fn write_csv(rows: &[Counts], out: impl Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let operations = ["page_reads", "page_programs", "block_erases"];
    let by_cause = operations.iter().flat_map(|o| CAUSE_COLUMNS.map(|cause| format!("{o}_{}", cause.name())));
    csv.write_record(COLUMNS.map(String::from).into_iter().chain(by_cause))?;
    for Counts { trace, page_order, run } in rows {
        let counts = [
            run.host_page_writes,
            run.switch_merges,
            run.partial_merges,
            run.full_merges,
            run.collections,
            run.moved_pages,
            run.page_reads,
            run.page_programs,
            run.block_erases,
        ];
        let mut cells = vec![trace.to_string(), page_order.to_string(), run.device.clone()];
        cells.extend(counts.map(|n| n.to_string()));
        cells.push(run.error.clone().unwrap_or_default());
        let kinds: [fn(&CauseCounts) -> u64; 3] = [|c| c.page_reads, |c| c.page_programs, |c| c.block_erases];
        cells.extend(kinds.iter().flat_map(|kind| {
            CAUSE_COLUMNS.map(|cause| run.causes.get(cause.name()).map_or(0, kind).to_string())
        }));
        csv.write_record(&cells)?;
    }
    csv.flush()
}

/// Writes counts as JSON.
pub fn write_json(rows: &[Counts], mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, rows)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::STORES;

    #[test]
    fn traces_are_as_described() {
        let sequential = Trace::Sequential.writes(1);
        assert_eq!((sequential.len(), sequential[511], sequential[512]), (1024, 511, 0));
        let reverse = Trace::Reverse.writes(1);
        assert_eq!((reverse.len(), &reverse[..2], reverse[16], reverse[512]), (1024, &[15, 14][..], 31, 15));
        for trace in [Trace::Uniform, Trace::HotCold] {
            let writes = trace.writes(1);
            assert_eq!((writes.len(), &writes[..512]), (2560, &sequential[..512]));
            assert_eq!(writes, trace.writes(1));
            assert_ne!(writes, trace.writes(2));
        }
        let hot = Trace::HotCold.writes(1)[512..].iter().filter(|&&page| page < 102).count();
        assert!((1580..1700).contains(&hot), "{hot} of 2048 are hot, 1638 expected");
    }

    /// Checks the generator against an independent implementation of the description above.
    #[test]
    fn the_generator_is_as_described() {
        let g = 0x9e37_79b9_7f4a_7c15u64;
        let split_mix = |seed: u64| {
            let z = seed.wrapping_add(g);
            let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let mut s: Vec<u64> = (0..4).map(|i| split_mix(1u64.wrapping_add(g.wrapping_mul(i)))).collect();
        let mut next = || {
            let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
            let t = s[1] << 17;
            s[2] ^= s[0];
            s[3] ^= s[1];
            s[1] ^= s[2];
            s[0] ^= s[3];
            s[2] ^= t;
            s[3] = s[3].rotate_left(45);
            result
        };
        // 512 divides 2^64: no draw is repeated.
        let drawn: Vec<u32> = (0..2048).map(|_| (next() >> 55) as u32).collect();
        assert_eq!(Trace::Uniform.writes(1)[512..], drawn);
    }

    #[test]
    fn every_ftl_can_be_counted_and_its_causes_add_up() {
        let plan = CountsPlan {
            ftls: STORES.iter().collect(),
            orders: PageOrder::ALL.to_vec(),
            seed: SEED,
            threads: 2,
        };
        let rows = plan.run(&Control::default()).unwrap();
        assert_eq!(rows.len(), 8 * STORES.len());
        for Counts { trace, page_order, run } in &rows {
            let what = format!("{} on {trace}, {page_order}", run.device);
            assert_eq!(run.error, None, "{what}");
            assert!(run.page_programs >= run.host_page_writes, "{what}");
            assert_eq!(
                run.causes.values().map(|c| c.page_programs).sum::<u64>(),
                run.page_programs,
                "{what}"
            );
            assert_eq!(run.causes.values().map(|c| c.page_reads).sum::<u64>(), run.page_reads, "{what}");
        }
        let mut csv = Vec::new();
        write_csv(&rows, &mut csv).unwrap();
        assert_eq!(std::str::from_utf8(&csv).unwrap().lines().count(), rows.len() + 1);
    }

    #[test]
    fn a_store_holds_more_pages_than_the_traces_use() {
        for entry in STORES {
            for order in PageOrder::ALL {
                let chip = nandex::nand::sim::SimChip::new(&chip(order)).unwrap();
                let settings =
                    nandex_stacks::options::Settings::new(nandex::ordered::RecordFormat::new(8, 8));
                let store = (entry.format)(Box::new(chip), &settings).unwrap();
                assert!(store.page_count() >= PAGES, "{}: {}", entry.name, store.page_count());
            }
        }
    }
}
