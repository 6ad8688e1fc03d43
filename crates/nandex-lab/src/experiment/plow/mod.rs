//! Computed cells of our own index: the claims of its design, `plow/SET-UP`, and the field,
//! `field/CLASS/RAM/INDEX` (`field`).
//!
//! A cell puts 1,000,000 records of 4 + 4 bytes one by one into an empty index on `mlc-64m`, then does
//! operations of several mixes on them, every answer compared, and mounts. Figures are counts of the chip
//! over the operations that caused them.

mod field;

use super::RunPlan;
use super::results::CellResult;
use crate::single::plow::{Costs, Drive, Keys, Mix};
use crate::stats::Summary;
use crate::workload::Zipf;
use crate::{LabError, chip};
use nandex::ordered::buffered::Answers;
use nandex::ordered::plow::PlowConfig;
use nandex::ordered::{Durability, RecordFormat};

const KIB: usize = 1024;
const HALF: Mix = Mix { puts: 45, scans: 10 };
const MOSTLY_GETS: Mix = Mix { puts: 5, scans: 0 };
const ONLY_GETS: Mix = Mix { puts: 0, scans: 0 };

struct SetUp {
    name: &'static str,
    ram: usize,
    /// Changes between two syncs. `None` in the class *every operation*.
    sync_every: Option<u64>,
    answers: Answers,
    keys: fn(u32) -> Keys,
    chip: &'static str,
    /// Number of blocks of the chip, if it differs from the part's.
    blocks: Option<u32>,
    /// Number of records, in thousands.
    thousands: u32,
    /// The work after the load.
    then: Then,
}

/// The work after the load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Look-ups, changes and scans.
    Mixed,
    /// Work as in `Mixed`, then mostly look-ups, and then mounts.
    All,
}

const USUAL: SetUp = SetUp {
    name: "",
    ram: 16 * KIB,
    sync_every: Some(100),
    answers: Answers::Pool,
    keys: |_| Keys::Uniform,
    chip: "mlc-64m",
    blocks: None,
    thousands: 1000,
    then: Then::Mixed,
};

const SET_UPS: [SetUp; 13] = [
    SetUp { name: "16K-always", sync_every: None, ..USUAL },
    SetUp { name: "16K-100", then: Then::All, ..USUAL },
    SetUp { name: "16K-1000", sync_every: Some(1000), ..USUAL },
    SetUp { name: "64K-100", ram: 64 * KIB, ..USUAL },
    SetUp { name: "256K-100", ram: 256 * KIB, ..USUAL },
    SetUp { name: "16K-exact", answers: Answers::Exact, ..USUAL },
    SetUp { name: "64K-exact", ram: 64 * KIB, answers: Answers::Exact, ..USUAL },
    SetUp { name: "256K-exact", ram: 256 * KIB, answers: Answers::Exact, ..USUAL },
    SetUp { name: "16K-ascending", keys: |_| Keys::Ascending, ..USUAL },
    SetUp { name: "16K-zipf", keys: |records| Keys::Zipf(Zipf::new(records.into(), 0.99)), ..USUAL },
    SetUp { name: "16K-full", blocks: Some(20), ..USUAL },
    SetUp { name: "16K-slc", chip: "slc-64m", ..USUAL },
    SetUp { name: "64K-4M", ram: 64 * KIB, thousands: 4000, ..USUAL },
];

type Figures = Vec<(&'static str, f64)>;

/// Computes the cell `name`; `None` for a name of another experiment.
pub(super) fn cell(name: &str, plan: &RunPlan) -> Result<Option<CellResult>, LabError> {
    if let Some(rest) = name.strip_prefix("field/") {
        return field::cell(name, rest, plan).map(Some);
    }
    let set_up = name.strip_prefix("plow/").and_then(|name| SET_UPS.iter().find(|s| s.name == name));
    let Some(set_up) = set_up else { return Ok(None) };
    let figures = set_up.measure(plan)?;
    Ok(Some(CellResult {
        name: name.to_string(),
        figures: figures.into_iter().map(|(figure, value)| (figure.into(), Summary::exact(value))).collect(),
        ..CellResult::default()
    }))
}

impl SetUp {
    fn config(&self) -> PlowConfig {
        let every = self.sync_every.is_none();
        let durability = if every { Durability::EveryOperation } else { Durability::EverySync };
        let record = RecordFormat::new(4, 4);
        PlowConfig { durability, ram_bytes: Some(self.ram), answers: self.answers, ..PlowConfig::new(record) }
    }

    fn measure(&self, plan: &RunPlan) -> Result<Figures, LabError> {
        let records = self.thousands * if plan.smoke { 20 } else { 1000 };
        let operations = if plan.smoke { 4_000 } else { 200_000 };
        let part = chip::find(self.chip)?;
        let part = self.blocks.map_or(part.clone(), |blocks| part.with_blocks(blocks));
        let mut drive = Drive::new(&part, self.config(), (self.keys)(records), self.sync_every)?;
        let load = drive.load(records)?;
        let mut figures = vec![
            ("load_programs_per_put", load.programs_each()),
            ("load_reads_per_put", load.reads_each()),
            ("load_us_per_put", load.us_each()),
            ("space_over_records", drive.space()),
        ];
        let Costs { puts, gets, scans } = drive.run(operations, HALF)?;
        figures.extend([
            ("update_programs_per_put", puts.programs_each()),
            ("update_reads_per_put", puts.reads_each()),
            ("update_us_per_put", puts.us_each()),
            ("half_reads_per_get", gets.reads_each()),
            ("reads_per_scan", scans.reads_each()),
            ("blocks_filled_share", drive.filled()),
        ]);
        if self.then == Then::All {
            figures.extend(more_gets(&mut drive, operations)?);
        }
        let (mean, most) = drive.wear();
        figures.extend([
            ("erases_of_a_block_mean", mean),
            ("erases_of_a_block_most_over_mean", most),
            ("slowest_ms", drive.slowest_ns as f64 / 1e6),
            ("ram_bytes_most", drive.ram_bytes as f64),
        ]);
        drive.check()?;
        Ok(figures)
    }
}

/// Measures look-ups alone and nearly alone, after enough operations for the index to adapt, and mounts.
fn more_gets(drive: &mut Drive, operations: u64) -> Result<Figures, LabError> {
    drive.run(operations, MOSTLY_GETS)?;
    let mostly = drive.run(operations / 4, MOSTLY_GETS)?.gets;
    drive.run(operations / 2, ONLY_GETS)?;
    let only = drive.run(operations / 4, ONLY_GETS)?.gets;
    let clean = drive.mount(true)?;
    // What lies behind the newest commit page must be looked at, too.
    drive.run(operations / 50, HALF)?;
    let cut = drive.mount(false)?;
    Ok(vec![
        ("mostly_reads_per_get", mostly.reads_each()),
        ("only_reads_per_get", only.reads_each()),
        ("mount_reads_clean", clean as f64),
        ("mount_reads_cut", cut as f64),
    ])
}
