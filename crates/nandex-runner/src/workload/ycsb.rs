//! The six core mixes of the Yahoo! Cloud Serving Benchmark (Cooper et al. 2010), on one index.
//!
//! | mix | operations | distribution |
//! |---|---|---|
//! | A | 50 % read, 50 % update | zipfian |
//! | B | 95 % read, 5 % update | zipfian |
//! | C | 100 % read | zipfian |
//! | D | 95 % read, 5 % insert | latest |
//! | E | 95 % scan of 1 to 100 records, 5 % insert | zipfian |
//! | F | 50 % read, 50 % read-modify-write | zipfian |
//!
//! A read-modify-write is a look-up followed by an update of the same key, two operations here. Keys are
//! scattered as YCSB's hashed insert order scatters them. Unlike YCSB, whose scrambled zipfian draws from ten
//! billion items and folds them onto the records, popularity here is exactly zipfian over the records
//! present.

use super::mix::{Records, Shares};
use super::{Op, OpKind, Parameters, PhaseOps, Picker, RECORDS_MAX, WorkloadEntry, Zipf};
use crate::error::LabError;
use crate::names::{OptionInfo, option};

const OPTIONS: &[OptionInfo] = &[
    option("records", "100000", "records inserted by the load"),
    option("operations", "100000", "operations of the run phase (a read-modify-write is one)"),
    option("theta", "0.99", "skew of the zipfian distribution, 0 to 3"),
    option("range_records", "100", "records a scan visits at most (1 to this, uniform)"),
];

/// A mix in percent: reads, updates, inserts, scans; the rest is read-modify-write.
struct Mix {
    read: u64,
    update: u64,
    insert: u64,
    scan: u64,
    latest: bool,
}

const fn entry(
    name: &'static str,
    summary: &'static str,
    generate: fn(&Parameters) -> Result<Vec<PhaseOps>, LabError>,
) -> WorkloadEntry {
    WorkloadEntry { name, summary, options: OPTIONS, generate }
}

const NOTHING: Mix = Mix { read: 0, update: 0, insert: 0, scan: 0, latest: false };

pub(super) const A: WorkloadEntry = entry("ycsb-a", "YCSB A: half reads, half updates, zipfian", |p| {
    run(p, &Mix { read: 50, update: 50, ..NOTHING })
});
pub(super) const B: WorkloadEntry = entry("ycsb-b", "YCSB B: 95 % reads, 5 % updates, zipfian", |p| {
    run(p, &Mix { read: 95, update: 5, ..NOTHING })
});
pub(super) const C: WorkloadEntry =
    entry("ycsb-c", "YCSB C: reads only, zipfian", |p| run(p, &Mix { read: 100, ..NOTHING }));
pub(super) const D: WorkloadEntry = entry("ycsb-d", "YCSB D: 95 % reads of the latest, 5 % inserts", |p| {
    run(p, &Mix { read: 95, insert: 5, latest: true, ..NOTHING })
});
pub(super) const E: WorkloadEntry = entry("ycsb-e", "YCSB E: 95 % short scans, 5 % inserts, zipfian", |p| {
    run(p, &Mix { scan: 95, insert: 5, ..NOTHING })
});
pub(super) const F: WorkloadEntry =
    entry("ycsb-f", "YCSB F: half reads, half read-modify-writes, zipfian", |p| {
        run(p, &Mix { read: 50, ..NOTHING })
    });

fn run(parameters: &Parameters, mix: &Mix) -> Result<Vec<PhaseOps>, LabError> {
    let records = parameters.number_in("records", 1, RECORDS_MAX)?;
    let operations = parameters.number_in("operations", 0, RECORDS_MAX)?;
    let scan_max = parameters.number_in("range_records", 1, 1 << 20)?;
    let zipf = Zipf::new(records + operations, parameters.decimal_in("theta", 0.0, 3.0)?);
    let picker = if mix.latest { Picker::Latest(zipf) } else { Picker::Zipfian(zipf) };
    let mut shares = Shares::new();
    shares.add(Some(OpKind::Get), mix.read);
    shares.add(Some(OpKind::Update), mix.update);
    shares.add(Some(OpKind::Insert), mix.insert);
    shares.add(Some(OpKind::Range), mix.scan);
    shares.add(None, 100 - mix.read - mix.update - mix.insert - mix.scan);

    let mut table = Records::load(parameters.keys(), records);
    let load = table.load_ops();
    let mut rng = parameters.rng(1);
    let mut ops = Vec::new();
    for _ in 0..operations {
        match shares.draw(&mut rng) {
            Some(kind) => ops.push(table.op(kind, &picker, scan_max, &mut rng)),
            None => {
                let get = table.op(OpKind::Get, &picker, scan_max, &mut rng);
                ops.extend([get, Op::new(OpKind::Update, get.key)]);
            }
        }
    }
    Ok(vec![PhaseOps::unmeasured("load", load), PhaseOps::measured("run", ops)])
}
