//! Inserts with a key sequence ratio `rs` (the WPCB-tree paper, Section 6): from random (0) to ascending (1).
//!
//! The keys are the numbers 1 to `records`, each inserted once; `rs` is the share of the inserts that ascend. The paper
//! does not say how the two kinds mix. Assumed (`layout=disjoint`): the ascending inserts take the lower `rs` of the key
//! space one after the other without gaps, the others take the rest in random order, and which kind comes next is drawn
//! with the shares that are left. With `layout=spread` the ascending inserts take a random subset of all keys instead, so
//! that the two kinds fill the same stretches. Both give exactly the ascending order for 1 and a random one for 0.
//!
//! Modifications of and searches for random present keys, and the removal of keys in random order, may follow.

use super::{Op, OpKind, Parameters, PhaseOps, RECORDS_MAX, WorkloadEntry};
use crate::error::LabError;
use crate::names::option;

pub(super) const ENTRY: WorkloadEntry = WorkloadEntry {
    name: "rs",
    summary: "unique keys 1..N inserted with a key sequence ratio, from random (rs=0) to ascending (rs=1)",
    options: &[
        option("records", "1000000", "records inserted; the keys are 1 to this number"),
        option("rs", "0.5", "share of the inserts that ascend, 0 to 1"),
        option("layout", "disjoint", "disjoint: ascending and random keys apart; spread: interleaved"),
        option("modifications", "0", "new values for random keys after the inserts"),
        option("operations", "0", "searches of random keys after that"),
        option("removals", "0", "removals of random keys at the end"),
    ],
    generate,
};

fn generate(parameters: &Parameters) -> Result<Vec<PhaseOps>, LabError> {
    let records = parameters.number_in("records", 1, RECORDS_MAX)?;
    let rs_millionths = (parameters.decimal_in("rs", 0.0, 1.0)? * 1e6).round() as u64;
    let spread = parameters.choice("layout", &["disjoint", "spread"])? == "spread";
    let modifications = parameters.number_in("modifications", 0, RECORDS_MAX)?;
    let searches = parameters.number_in("operations", 0, RECORDS_MAX)?;
    let removals = parameters.number_in("removals", 0, records)?;
    let ascending = records * rs_millionths / 1_000_000;

    let mut keys: Vec<u64> = (1..=records).collect();
    let mut rng = parameters.rng(1);
    if spread {
        rng.shuffle(&mut keys);
        keys[..ascending as usize].sort_unstable();
    } else {
        rng.shuffle(&mut keys[ascending as usize..]);
    }
    let (mut up, mut scattered) = (0, ascending);
    let inserts = (0..records).map(|done| {
        let next = if rng.chance(ascending - up, records - done) { &mut up } else { &mut scattered };
        *next += 1;
        Op::new(OpKind::Insert, keys[*next as usize - 1])
    });
    let mut phases = vec![PhaseOps::measured("inserts", inserts.collect())];
    if modifications > 0 {
        let mut rng = parameters.rng(4);
        let ops = (0..modifications).map(|_| Op::new(OpKind::Update, rng.below(records) + 1));
        phases.push(PhaseOps::measured("modifications", ops.collect()));
    }
    if searches > 0 {
        let mut rng = parameters.rng(2);
        let ops = (0..searches).map(|_| Op::new(OpKind::Get, rng.below(records) + 1));
        phases.push(PhaseOps::measured("searches", ops.collect()));
    }
    if removals > 0 {
        let mut order: Vec<u64> = (1..=records).collect();
        parameters.rng(3).shuffle(&mut order);
        let ops = order[..removals as usize].iter().map(|&key| Op::new(OpKind::Remove, key));
        phases.push(PhaseOps::measured("removals", ops.collect()));
    }
    Ok(phases)
}
