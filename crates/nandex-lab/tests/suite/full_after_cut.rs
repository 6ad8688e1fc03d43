//! Refusals after a recovery, as a crash test judges them: nothing if the same operations without any cut are
//! refused too, else a finding.

#![allow(clippy::unwrap_used)]

use nandex::ordered::{OrderedIndex, RecordFormat};
use nandex::{IndexError, Nand, forward_index};
use nandex_lab::crash::{CrashPlan, CrashReport, Cuts, Rehearsal, Target};
use nandex_lab::parallel::cores;
use nandex_lab::registry::{INDEXES, IndexEntry};
use nandex_lab::runner::Control;
use nandex_stacks::options::Settings;

fn named(name: &str) -> &'static IndexEntry {
    INDEXES.iter().find(|entry| entry.name == name).unwrap()
}

fn plan(entry: &'static IndexEntry) -> CrashPlan {
    CrashPlan::new(Target::Index(entry), Settings::new(RecordFormat::new(8, 8)))
}

fn run(plan: CrashPlan) -> CrashReport {
    Rehearsal::record(plan).unwrap().run(cores(), &Control::default())
}

/// Pages of 512 bytes let a mu-Tree grow to four levels, and 1200 keys are nearly too many for these: the
/// few dozen operations after the recovery may fill the root, wherever the cut was.
#[test]
fn a_tree_of_the_greatest_height_may_be_full_after_a_recovery_as_without_a_cut() {
    for (name, seed, at) in
        [("mu", 1, "1595:looks_erased"), ("mu-star", 1, "1595:looks_erased"), ("mu", 2, "2209:before")]
    {
        let report = run(CrashPlan { seed, cuts: Cuts::At(at.parse().unwrap()), ..plan(named(name)) });
        assert!(report.is_clean(), "{name} {at}: {:?}", report.first_failure);
        assert_eq!((report.work.operations_refused, report.tally.continued), (0, 1));
    }
}

/// A tree that a mount left without room for another record.
struct Leaking {
    tree: Box<dyn OrderedIndex>,
}

impl Leaking {
    fn require_no_room(&mut self, key: &[u8]) -> Result<(), IndexError> {
        let mut value = vec![0; self.tree.record().value_bytes.into()];
        if self.tree.get(key, &mut value)? { Ok(()) } else { Err(IndexError::NO_BLOCK) }
    }
}

impl OrderedIndex for Leaking {
    forward_index!(tree: record, durability, get, remove, load, range, maintain, scrub, free, sync, close, check,
        stats, ram_bytes);

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.require_no_room(key)?;
        self.tree.insert(key, value)
    }
}

fn mount_leaking(nand: Box<dyn Nand>, settings: &Settings) -> Result<Box<dyn OrderedIndex>, IndexError> {
    Ok(Box::new(Leaking { tree: (named("wandering").mount)(nand, settings)? }))
}

/// The workload is so short that it mounts nothing itself: only recoveries lose room.
#[test]
fn room_that_a_recovery_loses_is_a_finding() {
    let leaking = IndexEntry { mount: mount_leaking, ..*named("wandering") };
    for (operations, seed) in [(20, 1), (40, 2)] {
        let plan = CrashPlan { operations, seed, ..plan(Box::leak(Box::new(leaking))) };
        let report = run(plan.clone());
        let found = report.first_failure.unwrap();
        assert!(found.what.ends_with("Full, though there is room without a cut"), "{}", found.what);
        assert_eq!((report.work.operations_refused, report.stopped), (0, None));
        assert!(report.tally.went_wrong > 0 && report.tally.lost + report.tally.unmountable == 0);
        let whole = run(CrashPlan { target: Target::Index(named("wandering")), ..plan });
        assert!(whole.is_clean(), "{:?}", whole.first_failure);
    }
}
