//! Mixed operations on records chosen uniformly, by a zipfian distribution, or from a hot and a cold part.
//!
//! A load inserts the records; then each operation's kind is drawn by its share, and the record it addresses
//! by the distribution over the places of a list of the records present. An insert appends a new record to
//! the list; a removal puts the last record of the list in the place of the one removed. Keys are random
//! numbers that say nothing of the place, so popular records are scattered over the key space.

use super::{Keys, Op, OpKind, Parameters, PhaseOps, Picker, RECORDS_MAX, WorkloadEntry, Zipf, values};
use crate::error::LabError;
use crate::names::{OptionInfo, option};
use nandex::rng::Rng;

const RECORDS: OptionInfo = option("records", "100000", "records inserted by the load");
const OPERATIONS: OptionInfo = option("operations", "100000", "operations of the run phase");
const GET: OptionInfo = option("get", "50", "share of look-ups, in parts of the sum of all shares");
const INSERT: OptionInfo = option("insert", "20", "share of insertions of new keys");
const REMOVE: OptionInfo = option("remove", "20", "share of removals");
const UPDATE: OptionInfo = option("update", "10", "share of updates");
const RANGE: OptionInfo = option("range", "0", "share of range searches");
const SCAN: OptionInfo = option("range_records", "100", "records a range search visits at most (1 to this)");

pub(super) const UNIFORM: WorkloadEntry = WorkloadEntry {
    name: "uniform",
    summary: "a mix of operations on records chosen uniformly",
    options: &[RECORDS, OPERATIONS, GET, INSERT, REMOVE, UPDATE, RANGE, SCAN],
    generate: |parameters| generate(parameters, Picker::Uniform),
};

pub(super) const ZIPFIAN: WorkloadEntry = WorkloadEntry {
    name: "zipfian",
    summary: "a mix of operations on records chosen by a zipfian distribution",
    options: &[
        RECORDS,
        OPERATIONS,
        GET,
        INSERT,
        REMOVE,
        UPDATE,
        RANGE,
        SCAN,
        option("theta", "0.99", "skew of the distribution: 0 uniform, 0.99 as in YCSB, at most 3"),
    ],
    generate: |parameters| {
        let records = parameters.number_in("records", 1, RECORDS_MAX)?;
        let operations = parameters.number_in("operations", 0, RECORDS_MAX)?;
        let theta = parameters.decimal_in("theta", 0.0, 3.0)?;
        generate(parameters, Picker::Zipfian(Zipf::new(records + operations, theta)))
    },
};

pub(super) const HOT_COLD: WorkloadEntry = WorkloadEntry {
    name: "hot-cold",
    summary: "a mix of operations, most of them on a small hot part of the records (80 % on 20 %)",
    options: &[
        RECORDS,
        OPERATIONS,
        GET,
        INSERT,
        REMOVE,
        UPDATE,
        RANGE,
        SCAN,
        option("hot_percent", "20", "share of the records that are hot"),
        option("access_percent", "80", "share of the operations that address them"),
    ],
    generate: |parameters| {
        let hot_percent = parameters.number_in("hot_percent", 1, 100)?;
        let access_percent = parameters.number_in("access_percent", 0, 100)?;
        generate(parameters, Picker::HotCold { hot_percent, access_percent })
    },
};

pub(super) const LONG_VALUES: WorkloadEntry = WorkloadEntry {
    name: "long-values",
    summary: "a mix of operations on records chosen uniformly, whose values have lengths that differ widely",
    options: &[
        option("records", "20000", "records inserted by the load"),
        option("operations", "20000", "operations of the run phase"),
        option(
            values::LENGTHS,
            "20..2000",
            "bytes of a value, LEAST..MOST, log-uniform: each doubling as likely as any other",
        ),
        option("get", "40", "share of look-ups, in parts of the sum of all shares"),
        option("insert", "10", "share of insertions of new keys"),
        option("remove", "10", "share of removals"),
        option("update", "30", "share of updates"),
        option("range", "10", "share of range searches"),
        option("range_records", "20", "records a range search visits at most (1 to this)"),
    ],
    generate: |parameters| generate(parameters, Picker::Uniform),
};

fn generate(parameters: &Parameters, picker: Picker) -> Result<Vec<PhaseOps>, LabError> {
    let records = parameters.number_in("records", 1, RECORDS_MAX)?;
    let operations = parameters.number_in("operations", 0, RECORDS_MAX)?;
    let scan_max = parameters.number_in("range_records", 1, 1 << 20)?;
    let mut shares = Shares::new();
    for (name, kind) in [
        ("get", OpKind::Get),
        ("insert", OpKind::Insert),
        ("remove", OpKind::Remove),
        ("update", OpKind::Update),
        ("range", OpKind::Range),
    ] {
        shares.add(kind, parameters.number_in(name, 0, 1_000_000)?);
    }
    if shares.sum() == 0 {
        return Err(LabError::bad_option("get", "0", "and every other share is 0: there is nothing to do"));
    }
    let mut table = Records::load(parameters.keys(), records);
    let load = table.load_ops();
    let mut rng = parameters.rng(1);
    let ops = (0..operations).map(|_| {
        let kind = shares.draw(&mut rng);
        table.op(kind, &picker, scan_max, &mut rng)
    });
    Ok(vec![PhaseOps::unmeasured("load", load), PhaseOps::measured("run", ops.collect())])
}

/// A draw of the next kind of operation by the share of each.
#[derive(Clone, Debug)]
pub(super) struct Shares<T> {
    up_to: Vec<(T, u64)>,
    sum: u64,
}

impl<T: Copy> Shares<T> {
    pub(super) fn new() -> Shares<T> {
        Shares { up_to: Vec::new(), sum: 0 }
    }

    pub(super) fn add(&mut self, what: T, share: u64) {
        self.sum += share;
        self.up_to.push((what, self.sum));
    }

    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> T {
        let drawn = rng.below(self.sum);
        self.up_to[self.up_to.partition_point(|&(_, up_to)| up_to <= drawn)].0
    }
}

/// The present records in the order of their popularity.
#[derive(Clone, Debug)]
pub(super) struct Records {
    keys: Keys,
    present: Vec<u64>,
    next: u64,
}

impl Records {
    /// Makes the records `0..records` present.
    pub(super) fn load(keys: Keys, records: u64) -> Records {
        Records { keys, present: (0..records).collect(), next: records }
    }

    pub(super) fn load_ops(&self) -> Vec<Op> {
        self.present.iter().map(|&r| Op::new(OpKind::Insert, self.keys.key(r))).collect()
    }

    /// An operation of this kind on a picked record; an insertion if no record is left.
    pub(super) fn op(&mut self, kind: OpKind, picker: &Picker, scan_max: u64, rng: &mut Rng) -> Op {
        if self.present.is_empty() || kind == OpKind::Insert {
            self.present.push(self.next);
            self.next += 1;
            return Op::new(OpKind::Insert, self.keys.key(self.next - 1));
        }
        let place = picker.pick(rng, self.present.len() as u64) as usize;
        let key = self.keys.key(self.present[place]);
        match kind {
            OpKind::Remove => {
                self.present.swap_remove(place);
                Op::new(kind, key)
            }
            OpKind::Range => Op::range(key, 1 + rng.below(scan_max) as u32),
            _ => Op::new(kind, key),
        }
    }
}
