//! The RAM budget is a bound on chips of any geometry with records of any size, measured by a counting
//! allocator.
//!
//! The example `drawn` runs more lives with other seeds.

use crate::sizes::sized;
use nandex_lab::crash::Target;
use nandex_lab::registry::{INDEXES, STORES};
use nandex_lab::spatial::SPATIAL;
use nandex_lab::torture::Victim;
use nandex_testkit::drawn::Life;

/// Lives of each subject.
const LIVES: u64 = 10;
/// Changes of a life at most.
const CHANGES: u64 = 400;

fn lives(targets: impl Iterator<Item = Target>) {
    let mut faults = Vec::new();
    for target in targets {
        let victim = Victim { target, ftl: None };
        let mut lived = 0;
        for seed in 0..sized(LIVES / 6, LIVES) {
            match (Life { victim, seed, changes: CHANGES }).live() {
                None => {}
                Some(Ok(())) => lived += 1,
                Some(Err(finding)) => faults.push(finding.to_string()),
            }
        }
        if lived == 0 {
            faults.push(format!("{victim} takes none of the chips"));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Lives that once exceeded their budget and were too rare or too long for the draw above: subject, seed, and
/// changes.
const FOUND: [(&str, u64, u64); 20] = [
    // A table that was copied where it grew.
    ("flashdb", 8_000_041, 3_000),
    // Lists of all nodes in a buffer, made to choose some.
    ("efind", 8_000_016, 3_000),
    // Pages that a mount took for valid, listed until the last of them was looked at.
    ("vmtree", 41_000_020, 3_000),
    ("mu", 41_000_049, 3_000),
    // Keys of the leaves in a journal.
    ("wandering", 41_000_009, 3_000),
    // Lists of a checkpoint in many blocks.
    ("mu", 41_000_069, 3_000),
    // A batch that is refused half-way: tables of blocks, and a page, twice.
    ("mu", 41_000_024, 3_000),
    // The mount of an FTL beneath, which takes more than the FTL and the tree take later.
    ("mu", 51_000_007, 3_000),
    ("mu-star", 51_000_007, 3_000),
    ("wandering", 51_000_007, 3_000),
    // A list of sealed pages that was copied where it grew, and one of commit blocks.
    ("plow", 41_000_059, 3_000),
    ("plow", 41_000_074, 3_000),
    // Moves of leaves for which a mount had no place, as many as pages since the checkpoint.
    ("vmtree", 41_000_054, 3_000),
    ("vmtree", 41_000_061, 3_000),
    // Options that were copied for the mount.
    ("plow", 41_000_040, 3_000),
    // A list of extents that was copied where it grew, beside the records of a step.
    ("plow", 41_000_071, 3_000),
    // Few large blocks: lists of extents, fences and sealed pages that were copied where they grew, keys of a
    // step, and its list of pages.
    ("plow", 77_000_066, 3_000),
    ("plow", 77_000_079, 3_000),
    ("plow", 77_000_080, 3_000),
    ("plow", 77_000_088, 3_000),
];

#[test]
fn lives_that_found_something_hold_no_more_than_they_are_given() {
    let mut faults = Vec::new();
    for (name, seed, changes) in FOUND {
        let victim: Victim = name.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        let life = Life { victim, seed, changes }.live();
        let lived = life.unwrap_or_else(|| panic!("{name} {seed} takes none of the chips"));
        faults.extend(lived.err().map(|finding| finding.to_string()));
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn no_index_holds_more_than_it_is_given_on_any_chip() {
    lives(INDEXES.iter().map(Target::Index));
}

#[test]
fn no_spatial_index_holds_more_than_it_is_given_on_any_chip() {
    lives(SPATIAL.iter().map(Target::Spatial));
}

#[test]
fn no_ftl_holds_more_than_it_declares_on_any_chip() {
    lives(STORES.iter().map(Target::Store));
}
