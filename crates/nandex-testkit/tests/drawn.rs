//! The budget of RAM is a bound on chips of any geometry, with records of any size: by a counting allocator.
//!
//! More of them, with other seeds: the example `drawn`.

use nandex_lab::crash::Target;
use nandex_lab::registry::{INDEXES, STORES};
use nandex_lab::spatial::SPATIAL;
use nandex_lab::torture::Victim;
use nandex_testkit::Heap;
use nandex_testkit::drawn::Life;

#[global_allocator]
static HEAP: Heap = Heap;

/// Lives of each.
const LIVES: u64 = 12;
/// Changes of a life at most.
const CHANGES: u64 = 400;

fn lives(targets: impl Iterator<Item = Target>) {
    let mut faults = Vec::new();
    for target in targets {
        let victim = Victim { target, ftl: None };
        let mut lived = 0;
        for seed in 0..LIVES {
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
