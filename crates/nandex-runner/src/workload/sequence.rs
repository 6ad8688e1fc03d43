//! Inserts with a key sequence ratio `rs` (the WPCB-tree paper, Section 6): from random (0) to ascending (1).
//!
//! The keys are the numbers 1 to `records`, each inserted once; `rs` is the share of the inserts that ascend.
//! The paper does not say how the two kinds mix. Assumed (`layout=disjoint`): the ascending inserts take the
//! lower `rs` of the key space one after the other without gaps, the others take the rest in random order,
//! and which kind comes next is drawn with the shares that are left. With `layout=spread` the ascending
//! inserts take a random subset of all keys instead, so that the two kinds fill the same stretches. Both give
//! exactly the ascending order for 1 and a random one for 0.
//!
//! With `deletions` random present keys are removed in between: the paper mixes both for its deletion test,
//! and does not say how many.
//!
//! Modifications of and searches for random present keys, and the removal of keys in random order, may
//! follow.

use super::{Op, OpKind, Parameters, PhaseOps, RECORDS_MAX, WorkloadEntry};
use crate::error::LabError;
use crate::names::option;
use nandex::rng::Rng;
use std::collections::BTreeSet;

pub(super) const ENTRY: WorkloadEntry = WorkloadEntry {
    name: "rs",
    summary: "unique keys 1..N inserted with a key sequence ratio, from random (rs=0) to ascending (rs=1)",
    options: &[
        option("records", "1000000", "records inserted; the keys are 1 to this number"),
        option("rs", "0.5", "share of the inserts that ascend, 0 to 1"),
        option("layout", "disjoint", "disjoint: ascending and random keys apart; spread: interleaved"),
        option(
            "deletions",
            "0",
            "percent of the records removed again among the inserts, random ones, 0 to 100",
        ),
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
    let deletions = parameters.number_in("deletions", 0, 100)?;
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
    let inserts = (0..records as u32).map(|done| {
        let done = u64::from(done);
        let next = if rng.chance(ascending - up, records - done) { &mut up } else { &mut scattered };
        *next += 1;
        Op::new(OpKind::Insert, keys[*next as usize - 1])
    });
    let first = match deletions {
        0 => inserts.collect(),
        _ => mixed(inserts, records * deletions / 100, parameters.rng(5)),
    };
    // The keys that later phases look for and remove.
    let mut present: Vec<u64> = (1..=records).collect();
    if deletions > 0 {
        let gone: BTreeSet<u64> =
            first.iter().filter(|op| op.kind == OpKind::Remove).map(|op| op.key).collect();
        present.retain(|key| !gone.contains(key));
    }
    let mut phases = vec![PhaseOps::measured("inserts", first)];
    if removals > present.len() as u64 {
        let why = format!("is more than the {} records that are left", present.len());
        return Err(LabError::bad_option("removals", &removals.to_string(), why));
    }
    if present.is_empty() {
        return Ok(phases);
    }
    let any = |rng: &mut Rng| present[rng.below(present.len() as u64) as usize];
    if modifications > 0 {
        let mut rng = parameters.rng(4);
        let ops = (0..modifications).map(|_| Op::new(OpKind::Update, any(&mut rng)));
        phases.push(PhaseOps::measured("modifications", ops.collect()));
    }
    if searches > 0 {
        let mut rng = parameters.rng(2);
        let ops = (0..searches).map(|_| Op::new(OpKind::Get, any(&mut rng)));
        phases.push(PhaseOps::measured("searches", ops.collect()));
    }
    if removals > 0 {
        let mut order = present.clone();
        parameters.rng(3).shuffle(&mut order);
        let ops = order[..removals as usize].iter().map(|&key| Op::new(OpKind::Remove, key));
        phases.push(PhaseOps::measured("removals", ops.collect()));
    }
    Ok(phases)
}

/// Mixes the insertions with `removals` removals of present keys. The next kind is drawn in proportion to
/// the operations left of each.
fn mixed(mut inserts: impl ExactSizeIterator<Item = Op>, mut removals: u64, mut rng: Rng) -> Vec<Op> {
    let (mut ops, mut present): (Vec<Op>, Vec<u64>) = (Vec::new(), Vec::new());
    loop {
        let left = inserts.len() as u64;
        let removes = !present.is_empty() && removals > 0 && rng.chance(removals, left + removals);
        if removes {
            let at = rng.below(present.len() as u64) as usize;
            ops.push(Op::new(OpKind::Remove, present.swap_remove(at)));
            removals -= 1;
        } else if let Some(insert) = inserts.next() {
            present.push(insert.key);
            ops.push(insert);
        } else {
            debug_assert_eq!(removals, 0, "more keys are to be removed than there are");
            return ops;
        }
    }
}
