//! The synthetic profiles of the LS-LRU paper (Section 4.1, Tables 4 and 6; Figure 7): an index of 4-byte
//! keys, all random.
//!
//! 100,000 uniform random keys are inserted. Then come 100,000 operations in random order. A profile tells
//! how many of them select, insert, delete and modify. The paper leaves these points open:
//!
//! - *random* has no numbers in Table 4 ("N/A"): here each of the four kinds is equally likely.
//! - Selected, deleted and modified keys are drawn from the present ones, inserted keys from the absent ones,
//!   all equally likely.
//! - Operations are on one key or on a *range* of consecutive keys (Table 6). The paper does not tell the
//!   share of ranges (here `range_percent` of each kind) nor their length (`range_records`). A range search
//!   is one operation. Inserting a range inserts a random key and the numbers after it. Deleting or modifying
//!   a range does so with the present keys from a random one upwards. Each key is one operation.
//! - *ratio* is Figure 7. Its axis is the ratio of reads to writes that the *buffer* sees. Every write
//!   follows the read that finds its place, so 50/50 is a workload of writes only. `write_percent` counts
//!   these references, or with `percent_of=operations` the operations. Writes are insertions, deletions and
//!   modifications, a third each.

use super::{Op, OpKind, Parameters, PhaseOps, RECORD_BYTES, RECORDS_MAX, WorkloadEntry};
use crate::error::LabError;
use crate::machine;
use crate::names::option;
use nandex::rng::Rng;
use std::collections::BTreeMap;

pub(super) const ENTRY: WorkloadEntry = WorkloadEntry {
    name: "ls-lru",
    summary: "the LS-LRU paper's profiles: selects, inserts, deletes, modifies of random keys and ranges",
    options: &[
        option(
            "profile",
            "write-intensive",
            "write-intensive, read-intensive, random, or ratio (as write_percent says)",
        ),
        option("records", "100000", "random 4-byte keys inserted by the load"),
        option("operations", "100000", "operations after that, one on a range counted once"),
        option("write_percent", "50", "share of writes in the profile ratio"),
        option("percent_of", "references", "references: what the buffer sees, 50 at most; or operations"),
        option("range_percent", "10", "share of the operations of each kind that are on a range"),
        option("range_records", "10", "consecutive keys of a range"),
    ],
    generate,
};

/// The kinds of operations in the order of Table 4: select, insert, delete, modify.
const KINDS: [OpKind; 4] = [OpKind::Get, OpKind::Insert, OpKind::Remove, OpKind::Update];
const WRITE_INTENSIVE: [u64; 4] = [10, 30, 30, 30];
const READ_INTENSIVE: [u64; 4] = [90, 3, 3, 4];

/// Most records, so that half of all 4-byte keys stay free for insertions.
const KEYS_MAX: u64 = 1 << 28;

fn generate(parameters: &Parameters) -> Result<Vec<PhaseOps>, LabError> {
    let records = parameters.number_in("records", 1, KEYS_MAX)?;
    let operations = parameters.number_in("operations", 0, KEYS_MAX)?;
    let range_percent = parameters.number_in("range_percent", 0, 100)?;
    let range_records = parameters.number_in("range_records", 1, RECORDS_MAX.min(1 << 16))?;
    let on_ranges = u128::from(operations) * u128::from(range_percent) / 100;
    let changed = on_ranges * u128::from(range_records) * RECORD_BYTES;
    machine::require("range_records", parameters.text("range_records"), changed)?;
    let kinds = kinds(parameters, operations)?;
    let mut rng = parameters.rng(1);
    let mut index = Index::default();
    let mut load = Vec::new();
    for _ in 0..records {
        let key = index.absent(&mut rng);
        index.insert(key, &mut load);
    }
    let mut rng = parameters.rng(3);
    let mut run = Vec::new();
    for kind in kinds {
        let keys = if rng.chance(range_percent, 100) { range_records } else { 1 };
        index.apply(kind, keys, &mut rng, &mut run);
    }
    Ok(vec![PhaseOps::unmeasured("load", load), PhaseOps::measured("run", run)])
}

/// Draws the kinds of all operations in order.
fn kinds(parameters: &Parameters, operations: u64) -> Result<Vec<OpKind>, LabError> {
    let mut rng = parameters.rng(2);
    let profiles = ["write-intensive", "read-intensive", "random", "ratio"];
    let hundredth = |share: u64| operations * share / 100;
    let counts = match parameters.choice("profile", &profiles)? {
        "random" => return Ok((0..operations).map(|_| KINDS[rng.below(4) as usize]).collect()),
        "write-intensive" => WRITE_INTENSIVE.map(hundredth),
        "read-intensive" => READ_INTENSIVE.map(hundredth),
        _ => {
            let writes = (operations as f64 * write_share(parameters)?).round() as u64;
            let third = writes / 3;
            let half = (writes - third) / 2;
            [operations - writes, third, half, writes - third - half]
        }
    };
    let mut kinds: Vec<OpKind> = Vec::new();
    for (kind, count) in KINDS.into_iter().zip(counts) {
        kinds.extend((0..count).map(|_| kind));
    }
    // What the division left over.
    kinds.resize(operations as usize, OpKind::Get);
    rng.shuffle(&mut kinds);
    Ok(kinds)
}

/// The share of operations that write.
fn write_share(parameters: &Parameters) -> Result<f64, LabError> {
    let of_references = parameters.choice("percent_of", &["references", "operations"])? == "references";
    let most = if of_references { 50.0 } else { 100.0 };
    let writes = parameters.decimal_in("write_percent", 0.0, most)? / 100.0;
    // So many writes of all references: as many reads find their places, and the others are selects.
    Ok(if of_references { writes / (1.0 - writes) } else { writes })
}

/// The present keys, in an order to draw from and in ascending order.
#[derive(Default)]
struct Index {
    keys: Vec<u64>,
    places: BTreeMap<u64, usize>,
}

impl Index {
    fn absent(&self, rng: &mut Rng) -> u64 {
        loop {
            let key = rng.below(1 << 32);
            if !self.places.contains_key(&key) {
                return key;
            }
        }
    }

    fn insert(&mut self, key: u64, ops: &mut Vec<Op>) {
        self.places.insert(key, self.keys.len());
        self.keys.push(key);
        ops.push(Op::new(OpKind::Insert, key));
    }

    fn remove(&mut self, key: u64, ops: &mut Vec<Op>) {
        let Some(place) = self.places.remove(&key) else { return };
        self.keys.swap_remove(place);
        if let Some(moved) = self.keys.get(place) {
            self.places.insert(*moved, place);
        }
        ops.push(Op::new(OpKind::Remove, key));
    }

    /// Appends operations on `keys` consecutive keys. If no key is present, they are insertions whatever
    /// the kind.
    fn apply(&mut self, kind: OpKind, keys: u64, rng: &mut Rng, ops: &mut Vec<Op>) {
        if kind == OpKind::Insert || self.keys.is_empty() {
            let first = self.absent(rng);
            let range = first..(first + keys).min(1 << 32);
            let absent: Vec<u64> = range.filter(|key| !self.places.contains_key(key)).collect();
            absent.into_iter().for_each(|key| self.insert(key, ops));
            return;
        }
        let first = self.keys[rng.below(self.keys.len() as u64) as usize];
        if kind == OpKind::Get {
            ops.push(if keys == 1 { Op::new(kind, first) } else { Op::range(first, keys as u32) });
            return;
        }
        let range: Vec<u64> = self.places.range(first..).map(|(&key, _)| key).take(keys as usize).collect();
        for key in range {
            match kind {
                OpKind::Remove => self.remove(key, ops),
                _ => ops.push(Op::new(kind, key)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Workload, workload};
    use nandex_stacks::options::Options;
    use std::collections::BTreeSet;

    fn build(set: &[(&str, &str)]) -> Workload {
        let mut options = Options::default();
        set.iter().for_each(|(name, value)| options.set(name, value));
        workload("ls-lru").unwrap().build(1, &options).unwrap()
    }

    fn counts(w: &Workload) -> [usize; 4] {
        KINDS.map(|kind| w.phases[1].ops.iter().filter(|op| op.kind == kind).count())
    }

    const POINTS: (&str, &str) = ("range_percent", "0");

    #[test]
    fn the_profiles_have_the_numbers_of_table_4() {
        let of = |profile| counts(&build(&[("profile", profile), POINTS]));
        assert_eq!(of("write-intensive"), [10_000, 30_000, 30_000, 30_000]);
        assert_eq!(of("read-intensive"), [90_000, 3_000, 3_000, 4_000]);
        assert!(of("random").iter().all(|count| count.abs_diff(25_000) < 500));
        let w = build(&[]);
        let keys: BTreeSet<u64> = w.phases[0].ops.iter().map(|op| op.key).collect();
        assert!(keys.len() == 100_000 && *keys.last().unwrap() < 1 << 32);
        assert!(*keys.last().unwrap() > 0xfff0_0000 && *keys.first().unwrap() < 0x000f_ffff);
    }

    #[test]
    fn the_ratio_is_that_of_the_references() {
        let of = |set: &[(&str, &str)]| {
            counts(&build(&[&[("profile", "ratio"), ("operations", "9000"), POINTS], set].concat()))
        };
        // 9,000 operations that write make 9,000 reads and 9,000 writes.
        assert_eq!(of(&[("write_percent", "50")]), [0, 3000, 3000, 3000]);
        // 1,000 writes among 10,000 references.
        assert_eq!(of(&[("write_percent", "10")]), [8000, 333, 333, 334]);
        assert_eq!(of(&[("write_percent", "0")]), [9000, 0, 0, 0]);
        assert_eq!(of(&[("write_percent", "10"), ("percent_of", "operations")]), [8100, 300, 300, 300]);
        let mut options = Options::default();
        [("profile", "ratio"), ("write_percent", "51")].iter().for_each(|(n, v)| options.set(n, v));
        assert!(
            workload("ls-lru")
                .unwrap()
                .build(1, &options)
                .unwrap_err()
                .to_string()
                .contains("between 0 and 50")
        );
    }

    #[test]
    fn a_range_is_consecutive_keys() {
        let set =
            [("records", "3000"), ("operations", "1000"), ("range_percent", "100"), ("range_records", "7")];
        let w = build(&set);
        let mut present: BTreeSet<u64> = w.phases[0].ops.iter().map(|op| op.key).collect();
        let mut ops = w.phases[1].ops.iter().peekable();
        let (mut searches, mut inserted, mut removed) = (0, 0, 0);
        while let Some(op) = ops.next() {
            let kind = op.kind;
            if kind == OpKind::Range {
                searches += 1;
                assert_eq!(op.count, 7);
                continue;
            }
            // The keys that follow the first: numbers for an insertion, keys present for the others.
            let after: Vec<u64> = match kind {
                OpKind::Insert => (op.key + 1..op.key + 7).filter(|key| !present.contains(key)).collect(),
                _ => present.range(op.key + 1..).copied().take(6).collect(),
            };
            let keys: Vec<u64> = after.iter().map(|_| ops.next().unwrap()).map(|op| op.key).collect();
            assert_eq!(keys, after);
            for key in keys.into_iter().chain([op.key]) {
                match kind {
                    OpKind::Insert => inserted += usize::from(present.insert(key)),
                    OpKind::Remove => removed += usize::from(present.remove(&key)),
                    _ => assert!(present.contains(&key)),
                }
            }
        }
        assert_eq!((searches, inserted), (100, 300 * 7));
        assert!(removed > 250 * 7, "{removed}");
    }
}
