//! Changes with locality: one narrow range of keys after another, in a tree loaded with keys of all ranges.

use super::mix::Shares;
use super::{Keys, Op, OpKind, Parameters, PhaseOps, RECORDS_MAX, WorkloadEntry};
use crate::error::LabError;
use crate::names::option;
use nandex::rng::Rng;
use std::collections::BTreeSet;

pub(super) const ENTRY: WorkloadEntry = WorkloadEntry {
    name: "local",
    summary: "operations on one narrow range of keys after another (as tables, files or users bring them)",
    options: &[
        option("records", "100000", "records inserted by the load, of keys spread over all"),
        option("operations", "100000", "operations of the run phase"),
        option("range_percent", "1", "share of the loaded records that a range holds"),
        option("stay", "2000", "operations on a range before the next one"),
        option("get", "20", "share of look-ups, in parts of the sum of all shares"),
        option("insert", "60", "share of insertions of new keys"),
        option("update", "20", "share of updates"),
    ],
    generate,
};

fn generate(parameters: &Parameters) -> Result<Vec<PhaseOps>, LabError> {
    let records = parameters.number_in("records", 1, RECORDS_MAX)?;
    let operations = parameters.number_in("operations", 0, RECORDS_MAX)?;
    let percent = parameters.number_in("range_percent", 1, 100)?;
    let stay = parameters.number_in("stay", 1, RECORDS_MAX)?;
    let mut shares = Shares::new();
    for (name, kind) in [("get", OpKind::Get), ("insert", OpKind::Insert), ("update", OpKind::Update)] {
        shares.add(kind, parameters.number_in(name, 0, 1_000_000)?);
    }
    if shares.sum() == 0 {
        return Err(LabError::bad_option("get", "0", "and every other share is 0: there is nothing to do"));
    }
    let keys = parameters.keys();
    let load: Vec<Op> = (0..records).map(|record| Op::new(OpKind::Insert, keys.key(record))).collect();
    let width = (records * percent / 100).max(1);
    let mut range = Range::new(keys, records, width);
    let mut rng = parameters.rng(1);
    let mut ops = Vec::new();
    for number in 0..operations {
        if number % stay == 0 {
            range.move_on(&mut rng);
        }
        ops.push(range.op(shares.draw(&mut rng), &mut rng));
    }
    Ok(vec![PhaseOps::unmeasured("load", load), PhaseOps::measured("run", ops)])
}

/// A range of neighbouring keys: those of `width` loaded records, and the keys inserted between them.
struct Range {
    loaded: Vec<u64>,
    width: u64,
    inserted: BTreeSet<u64>,
    /// Present keys of the range.
    present: Vec<u64>,
}

impl Range {
    fn new(keys: Keys, records: u64, width: u64) -> Range {
        let mut loaded: Vec<u64> = (0..records).map(|record| keys.key(record)).collect();
        loaded.sort_unstable();
        Range { loaded, width, inserted: BTreeSet::new(), present: Vec::new() }
    }

    fn move_on(&mut self, rng: &mut Rng) {
        let first = rng.below(self.loaded.len() as u64 - self.width + 1) as usize;
        self.present = self.loaded[first..first + self.width as usize].to_vec();
        let (low, high) = (self.present[0], self.present[self.present.len() - 1]);
        self.present.extend(self.inserted.range(low..=high));
    }

    /// An operation of this kind in the range. If no key is free near the one drawn, an insertion is an
    /// update.
    fn op(&mut self, kind: OpKind, rng: &mut Rng) -> Op {
        let key = self.present[rng.below(self.present.len() as u64) as usize];
        if kind != OpKind::Insert {
            return Op::new(kind, key);
        }
        let (low, high) = (self.present[0], self.present[self.width as usize - 1]);
        // In the mean half way to the next loaded key, so that new keys lie like the loaded ones.
        let gap = (high - low) / self.width + 1;
        let new = key.saturating_add(1 + rng.below(gap)).min(u64::MAX - 1);
        if self.loaded.binary_search(&new).is_ok() || !self.inserted.insert(new) {
            return Op::new(OpKind::Update, key);
        }
        self.present.push(new);
        Op::new(OpKind::Insert, new)
    }
}
