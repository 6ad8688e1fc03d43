//! Power cuts for every index and store of the registry: everywhere in a short run, sampled in a long one.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::inputs::{sized, stride};
use nandex::ordered::{Durability, RecordFormat};
use nandex_lab::crash::{ChipFailures, CrashPlan, CrashReport, Cuts, Rehearsal, Target, small_chip};
use nandex_lab::parallel::cores;
use nandex_lab::registry::{Hosting, INDEXES, STORES, Stack, stacks};
use nandex_lab::runner::Control;
use nandex_lab::tbm::TBM_STORES;
use nandex_papers::cache::catalogue::POLICIES;
use nandex_stacks::options::Settings;

fn settings() -> Settings {
    Settings::new(RecordFormat::new(4, 4))
}

/// Settings with room for a cache that is worth syncing.
fn cached(durability: Durability) -> Settings {
    Settings { durability, ram_bytes: Some(60_000), ..settings() }
}

fn targets() -> impl Iterator<Item = Target> {
    INDEXES.iter().map(Target::Index).chain(STORES.iter().map(Target::Store))
}

/// Settings of a target with its buffers in RAM as small as possible, so that they are emptied often.
/// Otherwise a short run would hardly use the chip.
fn suited(target: Target, settings: Settings) -> Settings {
    let Target::Index(entry) = target else { return settings };
    // A buffer of one byte becomes the smallest there can be.
    let small = [("pool_requests", 12), ("buffer_bytes", 1), ("journal_pages", 2)];
    let known = small.into_iter().filter(|(name, _)| entry.options.iter().any(|o| o.name == *name));
    known.fold(settings, |settings, (name, value)| settings.with(name, value))
}

/// True if pages of the target become garbage: not if it only appends or overwrites.
fn leaves_dead_pages(target: Target) -> bool {
    let Target::Index(entry) = target else { return true };
    entry.takes_any_key() && entry.suited(small_chip()) == small_chip()
}

/// Whether it has no checkpoints: plow's commit pages and furrow's changes hold all of their state.
fn keeps_no_checkpoints(target: Target) -> bool {
    matches!(target, Target::Index(entry) if ["plow", "furrow"].contains(&entry.name))
}

/// The settings to be tested besides the durability classes: the journal, every FTL, and FTLs beneath trees
/// on raw NAND.
fn variants(target: Target) -> Vec<Settings> {
    let Target::Index(entry) = target else { return vec![settings()] };
    let stacks = stacks().filter(|stack| stack.index.name == entry.name && stack.ftl.is_some());
    let both = |stack: Stack| [stack.settings(settings()), stack.settings(cached(Durability::EverySync))];
    let mut variants: Vec<Settings> = stacks.flat_map(both).collect();
    if entry.hosting == Hosting::Raw {
        variants.push(settings());
    }
    if entry.options.iter().any(|o| o.name == "journal") {
        variants.push(settings().with("journal", 8));
    }
    variants
}

fn run(plan: CrashPlan) -> CrashReport {
    let rehearsal = Rehearsal::record(plan).unwrap();
    let report = rehearsal.run(cores(), &Control::default());
    println!("{}", serde_json::to_string(&report).unwrap());
    report
}

fn assert_clean(report: &CrashReport) {
    let failure = report.first_failure.as_ref();
    assert!(
        report.is_clean(),
        "{} {}: {:?} {failure:?}",
        report.setup.kind,
        report.setup.name,
        report.stopped
    );
    // A chip of which blocks keep failing may become full; what it refuses has not happened.
    assert!(!report.cancelled && (report.work.operations_refused == 0 || report.work.physical_failures > 4));
    let tally = &report.tally;
    let ends = tally.recovered_exact + tally.recovered_in_flight + tally.recovered_prefix + tally.refused;
    assert_eq!(ends, tally.cuts_tried);
    // Of few cuts perhaps none goes on, or is of an update that is exactly there.
    let are_few = tally.cuts_tried < 60;
    // What keeps updates back may always come back a little older.
    let promises_all = report.setup.durability == Durability::EveryOperation.name();
    assert!(are_few || tally.recovered_exact > 0 || !promises_all && tally.recovered_prefix > 0);
    // An index that is refused after a cut has no recovery to be cut; and where syncs suffice, one may
    // program so little in a short run that none of the few recovered chips is drawn.
    let refuses = report.setup.durability == Durability::None.name();
    assert!(are_few || tally.continued > 0 || refuses);
    assert!(tally.second_cuts_tried > 0 || refuses || tally.continued < 100);
}

/// Durability classes to test with a cache. For targets on an FTL, *every sync* is tested on the first FTL
/// anyway.
fn classes(target: Target) -> Vec<Durability> {
    match target {
        Target::Index(entry) if entry.hosting == Hosting::Store => {
            vec![Durability::EveryOperation, Durability::None]
        }
        _ => vec![Durability::EveryOperation, Durability::EverySync, Durability::None],
    }
}

/// In the nightly run at every cut on the first FTL and on raw NAND; at some over the other FTLs, which are
/// cut everywhere themselves, and where nothing is promised, so that most cuts are refused.
#[test]
fn nothing_is_lost_at_any_cut_of_a_short_run() {
    for target in targets() {
        for settings in variants(target).into_iter().chain(classes(target).into_iter().map(cached)) {
            let settings = suited(target, settings);
            let ftl = ["ftl", "beneath"].into_iter().find_map(|option| settings.options.text(option));
            let is_sampled = ftl.is_some_and(|ftl| ftl != STORES[0].name);
            let is_promised = settings.durability != Durability::None;
            let cuts = match (is_sampled, is_promised) {
                (true, _) => Cuts::Sample(sized(5, 60)),
                (false, false) if matches!(target, Target::Index(_)) => Cuts::Sample(sized(12, 200)),
                _ => sized(Cuts::Sample(24), Cuts::All),
            };
            let plan = CrashPlan { operations: 130, slots: 650, cuts, ..CrashPlan::new(target, settings) };
            let report = run(plan);
            assert_clean(&report);
            let first = report.tally.cuts_tried - report.tally.second_cuts_tried;
            assert!(cuts != Cuts::All || first == report.work.physical_operations * 5 + 1);
        }
    }
}

/// Parts whose ECC leaves few spare bytes, or none: the missing ones are taken from the data area.
#[test]
fn nothing_is_lost_where_the_data_area_lends_spare_bytes() {
    for target in targets() {
        for spare_bytes in [16, 0] {
            let mut plan = CrashPlan {
                operations: 180,
                slots: 900,
                ..CrashPlan::new(target, suited(target, settings()))
            };
            plan.part.geometry.spare_bytes = spare_bytes;
            plan.cuts = Cuts::Sample(sized(6, 60));
            assert_clean(&run(plan));
        }
    }
}

/// Every FTL behind a TBM, with more logical blocks than buffer blocks and now and then a whole block
/// converted.
fn behind_tbm() -> impl Iterator<Item = (Target, Settings)> {
    TBM_STORES.iter().enumerate().map(|(i, entry)| {
        let whole_from = if i % 2 == 0 { 0 } else { 4 };
        (Target::Store(entry), settings().with("tbm_blocks", 3).with("whole_from", whole_from))
    })
}

#[test]
fn nothing_is_lost_at_any_cut_behind_a_tbm() {
    for (target, settings) in behind_tbm() {
        let cuts = sized(Cuts::Sample(60), Cuts::All);
        let plan = CrashPlan { operations: 120, slots: 300, cuts, ..CrashPlan::new(target, settings) };
        let report = run(plan);
        assert_clean(&report);
        let first = report.tally.cuts_tried - report.tally.second_cuts_tried;
        assert!(cuts != Cuts::All || first == report.work.physical_operations * 5 + 1);
    }
}

/// The chip is larger than elsewhere and fails less often: TBM and FTL have spare blocks of their own, and
/// most erases are in the few blocks of the TBM.
#[test]
fn nothing_is_lost_behind_a_tbm_when_programs_and_erases_fail_too() {
    let failures =
        ChipFailures { program_failures_ppm: 1500, erase_failures_ppm: 1500, bad_blocks_ppm: 20_000 };
    let mut failed = 0;
    for (seed, (target, settings)) in (4..).zip(behind_tbm()) {
        let plan = CrashPlan {
            operations: 1200,
            seed,
            slots: 500,
            cuts: Cuts::Sample(sized(24, 300)),
            failures,
            part: small_chip().with_blocks(64),
            ..CrashPlan::new(target, settings.with("bad_blocks", 30).with("tbm_spare_blocks", 12))
        };
        let report = run(plan);
        assert_clean(&report);
        failed += report.work.physical_failures;
    }
    assert!(failed > 5, "{failed} operations failed");
}

#[test]
fn what_promises_nothing_loses_no_more_than_it_says() {
    let cuts = sized(60, 1500);
    for entry in INDEXES.iter().filter(|entry| entry.mount_after_cut.is_some()) {
        for ram_bytes in [None, Some(60_000)] {
            let settings = Settings { durability: Durability::None, ram_bytes, ..settings() };
            let target = Target::Index(entry);
            let plan = CrashPlan {
                operations: 1500,
                slots: 900,
                cuts: Cuts::Sample(cuts),
                ..CrashPlan::new(target, suited(target, settings))
            };
            let report = run(plan);
            assert_clean(&report);
            let tally = &report.tally;
            assert!(tally.refused > cuts / 3 && tally.salvaged == tally.refused, "{tally:?}");
        }
    }
}

#[test]
fn nothing_is_lost_at_sampled_cuts_of_a_long_run() {
    let step = stride(2);
    for (number, target) in targets().enumerate() {
        let runs = [(2, settings()), (3, cached(Durability::EverySync))];
        for (seed, settings) in runs.into_iter().skip(number % step).step_by(step) {
            let plan = CrashPlan {
                operations: 6000,
                seed,
                cuts: Cuts::Sample(sized(12, 250)),
                ..CrashPlan::new(target, suited(target, settings))
            };
            let report = run(plan);
            assert_clean(&report);
            if !leaves_dead_pages(target) {
                continue;
            }
            // Furrow gathers the changes between two syncs in pages, so it collects less.
            let least = if report.setup.name == "furrow" { 30 } else { 40 };
            assert!(
                report.work.collection_operations > least,
                "{}: too little was collected",
                report.setup.name
            );
            let writes_some = report.work.checkpoint_operations > 20 || keeps_no_checkpoints(target);
            assert!(writes_some, "{}: too few checkpoints", report.setup.name);
        }
    }
}

#[test]
fn nothing_is_lost_when_programs_and_erases_fail_too() {
    for target in targets() {
        let on_raw = matches!(target, Target::Index(entry) if entry.hosting == Hosting::Raw);
        let settings = if on_raw { settings() } else { settings().with("bad_blocks", 12) };
        // What divides the chip has blocks of its own to fail.
        let divides = matches!(target, Target::Index(entry) if entry.divides_chip);
        let settings = if divides { settings.with("tbm_spare_blocks", 6) } else { settings };
        let settings = suited(target, settings);
        let failures =
            ChipFailures { program_failures_ppm: 3000, erase_failures_ppm: 3000, bad_blocks_ppm: 40_000 };
        let mut failed = 0;
        // In seed 5 one of the two anchors fails that so small a chip has: read-only once the other is full.
        for seed in [4, 6, 7].into_iter().take(sized(2, 3)) {
            let plan = CrashPlan {
                operations: 1200,
                seed,
                slots: 800,
                cuts: Cuts::Sample(sized(10, 170)),
                failures,
                ..CrashPlan::new(target, settings.clone())
            };
            let report = run(plan);
            assert_clean(&report);
            failed += report.work.physical_failures;
        }
        assert!(failed > sized(3, 5), "{failed} operations failed");
    }
}

#[test]
fn nothing_is_lost_whichever_page_leaves_the_cache() {
    let tree = INDEXES.iter().find(|entry| entry.hosting == Hosting::Store).unwrap();
    for policy in POLICIES {
        let settings = cached(Durability::EverySync).with("cache", policy.name).with("cache_pages", 6);
        let plan = CrashPlan {
            operations: 400,
            slots: 900,
            cuts: Cuts::Sample(sized(20, 200)),
            ..CrashPlan::new(Target::Index(tree), settings)
        };
        assert_clean(&run(plan));
    }
}

#[test]
fn a_report_is_the_same_on_any_number_of_threads() {
    let plan = CrashPlan {
        operations: 300,
        cuts: Cuts::Sample(300),
        ..CrashPlan::new(Target::Index(&INDEXES[0]), settings())
    };
    let rehearsal = Rehearsal::record(plan.clone()).unwrap();
    let alone = rehearsal.run(1, &Control::default()).without_elapsed();
    assert_eq!(rehearsal.run(5, &Control::default()).without_elapsed(), alone);
    assert_eq!(Rehearsal::record(plan).unwrap().run(2, &Control::default()).without_elapsed(), alone);
}

#[test]
fn a_cut_is_replayed_alone() {
    let mut plan = CrashPlan { operations: 200, ..CrashPlan::new(Target::Index(&INDEXES[0]), settings()) };
    plan.cuts = Cuts::At("17:prefix".parse().unwrap());
    let report = run(plan.clone());
    assert_clean(&report);
    assert_eq!(report.tally.continued, 1);
    plan.cuts = Cuts::At("17:prefix,3:random_bits".parse().unwrap());
    let report = run(plan.clone());
    assert_eq!((report.tally.cuts_tried, report.tally.second_cuts_tried), (2, 1));
    let command = plan.replay_command("17:prefix");
    assert_eq!(command, "nandex crash --index mu --ops 200 --seed 1 --at 17:prefix --keys 1200 --record 4/4");
}

#[test]
fn a_cancelled_test_says_so() {
    let control = Control::default();
    control.cancel();
    let plan = CrashPlan { operations: 100, ..CrashPlan::new(Target::Index(&INDEXES[0]), settings()) };
    let report = Rehearsal::record(plan).unwrap().run(2, &control);
    assert!(report.cancelled && report.tally.cuts_tried == 0);
}
