//! Every spatial index of the registry: against brute force, under power cuts, on damaged chips, and as it
//! cost before.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::golden;
use crate::inputs::{sized, stride};
use nandex::Shared;
use nandex::nand::Part;
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Durability, RecordFormat};
use nandex::rng::Rng;
use nandex::spatial::{Measure, Rect, Relation, SpatialIndex};
use nandex::{IndexError, Pbn};
use nandex_lab::crash::{ChipFailures, CrashPlan, CrashReport, Cuts, Rehearsal, Target, small_chip};
use nandex_lab::parallel::{self, cores};
use nandex_lab::record::write_csv;
use nandex_lab::registry::STORES;
use nandex_lab::results::{ChipFacts, Results};
use nandex_lab::runner::{Control, RunOptions};
use nandex_lab::spatial::compare::facts;
use nandex_lab::spatial::data;
use nandex_lab::spatial::query::Loaded;
use nandex_lab::spatial::registry::{Number, SPATIAL, Space, SpatialEntry};
use nandex_lab::spatial::runner::{self, Contestant, Medium, SpatialJob};
use nandex_lab::spatial::workload::{Queries, general};
use nandex_stacks::options::Settings;
use nandex_testkit::fuzz::{damaged, part};
use rstar::AABB;
use rstar::primitives::{GeomWithData, Rectangle};
use std::ops::ControlFlow;

const RELATIONS: [Relation; 3] = [Relation::Intersects, Relation::Within, Relation::Covers];

type Pairs<C, const D: usize> = Vec<(Rect<C, D>, u64)>;

fn settings() -> Settings {
    Settings::new(RecordFormat::new(8, 8))
}

const CLASSES: [Durability; 3] = [Durability::EveryOperation, Durability::EverySync, Durability::None];

/// The settings in the highest class that the index takes on a chip.
fn in_its_class<C: Space<D>, const D: usize>(
    entry: &SpatialEntry,
    part: &Part,
    settings: &Settings,
) -> Settings {
    let mut classes = CLASSES.into_iter().map(|durability| Settings { durability, ..settings.clone() });
    let takes =
        |settings: &Settings| match entry.format::<C, D>(Box::new(SimChip::new(part).unwrap()), settings) {
            Ok(_) => true,
            Err(error) if error.is_unsupported() => false,
            Err(error) => panic!("{} with {settings:?}: {error}", entry.name),
        };
    classes.find(takes).unwrap_or_else(|| panic!("{} takes no class with {settings:?}", entry.name))
}

/// Settings of every index on each FTL of a chip, in the highest class possible. That is *none* only if nodes
/// are pages and the FTL writes fewer of them atomically than an operation changes.
fn on_every_ftl<C: Space<D>, const D: usize>(
    part: &Part,
    settings: &Settings,
) -> Vec<(&'static SpatialEntry, Settings)> {
    let pairs = SPATIAL.iter().flat_map(|entry| STORES.iter().map(move |ftl| (entry, ftl)));
    let settle = |(entry, ftl): (&'static SpatialEntry, &nandex_lab::registry::StoreEntry)| {
        let settings = in_its_class::<C, D>(entry, part, &settings.clone().with("ftl", ftl.name));
        let is_none = settings.durability == Durability::None;
        let may_be_none = entry.nodes_are_pages;
        assert!(
            if is_none { may_be_none } else { ftl.is_atomic || !may_be_none },
            "{} on {}",
            entry.name,
            ftl.name
        );
        (entry, settings)
    };
    pairs.map(settle).collect()
}

/// A box on a coarse grid, so that sides meet, boxes coincide and distances tie; often a point.
fn coarse<C: Number, const D: usize>(rng: &mut Rng) -> Rect<C, D> {
    let extent = if rng.chance(1, 3) { 1 } else { 6 };
    let number = |n: u64| C::of_f64(n as f64 - 10.0).unwrap();
    let low: [u64; D] = core::array::from_fn(|_| rng.below(24));
    let high: [u64; D] = core::array::from_fn(|axis| low[axis] + rng.below(extent));
    Rect::new(low.map(number), high.map(number)).unwrap()
}

fn found<C: Number, const D: usize>(
    index: &mut dyn SpatialIndex<C, D>,
    window: &Rect<C, D>,
    relation: Relation,
) -> Result<Pairs<C, D>, IndexError> {
    let mut pairs = Vec::new();
    index.window(window, relation, &mut |rect, id| {
        pairs.push((*rect, id));
        ControlFlow::Continue(())
    })?;
    Ok(sorted(pairs))
}

fn sorted<C: Number, const D: usize>(mut pairs: Pairs<C, D>) -> Pairs<C, D> {
    pairs.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.order(&b.0)));
    pairs
}

fn nearest_of<C: Number, const D: usize>(model: &Pairs<C, D>, point: &[C; D], count: usize) -> Pairs<C, D> {
    let mut pairs = model.clone();
    // A stable sort by distance after one by number and corners.
    pairs = sorted(pairs);
    pairs.sort_by(|a, b| {
        let (a, b) = (a.0.distance2(point), b.0.distance2(point));
        b.is_below(&a).cmp(&a.is_below(&b))
    });
    pairs.truncate(count);
    pairs
}

fn assert_answers<C: Space<D>, const D: usize>(
    name: &str,
    index: &mut dyn SpatialIndex<C, D>,
    model: &Pairs<C, D>,
    rng: &mut Rng,
) {
    let window = coarse::<C, D>(rng);
    for relation in RELATIONS {
        let expected = model.iter().filter(|(rect, _)| relation.holds(rect, &window)).copied().collect();
        assert_eq!(
            found(index, &window, relation).unwrap(),
            sorted(expected),
            "{name}: {relation:?} {window:?}"
        );
    }
    let (point, count) = (coarse::<C, D>(rng).low(), rng.below(12) as usize);
    let mut near = Vec::new();
    index
        .nearest(&point, count, &mut |rect, id, distance2| {
            assert!(distance2 == rect.distance2(&point), "{name}: a wrong distance");
            near.push((*rect, id));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(near, nearest_of(model, &point, count), "{name}: {count} nearest to {point:?}");
}

/// A script of random operations, answers, syncs and mounts.
fn script<C: Space<D>, const D: usize>(entry: &SpatialEntry, settings: &Settings, part: &Part, seed: u64) {
    let name = format!("{} {settings:?} {} {D}", entry.name, C::NAME);
    let chip = Shared::new(SimChip::new(part).unwrap());
    let mut index = entry.format::<C, D>(Box::new(chip.clone()), settings).unwrap();
    let (mut model, mut rng) = (Pairs::<C, D>::new(), Rng::new(seed));
    for number in 0..sized(350, 700) {
        let removes = !model.is_empty() && rng.chance(if number / 120 % 2 == 0 { 1 } else { 3 }, 4);
        if removes {
            let (rect, id) = model.swap_remove(rng.below(model.len() as u64) as usize);
            assert!(index.remove(&rect, id).unwrap(), "{name}: {rect:?} {id} is gone");
        } else {
            let (rect, id) = (coarse(&mut rng), rng.below(300));
            index.insert(&rect, id).unwrap();
            model.push((rect, id));
        }
        let (absent, id) = (coarse(&mut rng), 1000 + rng.below(9));
        assert!(number % 9 != 0 || !index.remove(&absent, id).unwrap(), "{name}: {absent:?} was never there");
        if let Some(ram) = settings.ram_bytes {
            assert!(index.ram_bytes() <= ram, "{name}: {} bytes of RAM", index.ram_bytes());
        }
        if number % 11 == 0 {
            assert_answers(&name, &mut *index, &model, &mut rng);
        }
        if number % 170 == 169 {
            index.close().unwrap();
            index = entry.mount::<C, D>(Box::new(chip.clone()), settings).unwrap();
        }
    }
    let report = index.check().unwrap();
    assert!(report.is_sound() && report.records == model.len() as u64, "{name}: {:?}", report.violations);
}

#[test]
fn an_index_answers_as_looking_at_everything_does() {
    let small = part(1024, 16, 64);
    for (number, entry) in SPATIAL.iter().enumerate() {
        // Another capacity for each index in the gate.
        for seed in (0..3).filter(|seed| sized((seed + number) % 3 == 0, true)) {
            let settings = in_its_class::<i32, 2>(entry, &small, &settings().with("capacity", 4 + 3 * seed));
            let seed = (seed + 10 * number) as u64;
            script::<i32, 2>(entry, &settings, &small, seed);
            script::<i32, 3>(entry, &settings, &small, seed);
            script::<f64, 2>(entry, &settings, &small, seed);
            script::<f64, 3>(entry, &settings, &small, seed);
        }
    }
}

#[test]
fn it_does_so_over_every_ftl_and_cache() {
    let part = part(1024, 32, 64);
    // Every pair in the gate too, either with a cache or without.
    let step = stride(2);
    for (entry, settings) in on_every_ftl::<i32, 2>(&part, &settings()).into_iter().step_by(step) {
        script::<i32, 2>(entry, &settings, &part, 5);
    }
    for (entry, settings) in
        on_every_ftl::<f64, 3>(&part, &settings()).into_iter().skip(step - 1).step_by(step)
    {
        let durability = settings.durability.min(Durability::EverySync);
        let cached = Settings { ram_bytes: Some(600_000), durability, ..settings };
        script::<f64, 3>(entry, &cached, &part, 6);
    }
}

#[test]
fn a_full_chip_loses_nothing_and_takes_entries_again_once_some_are_gone() {
    let part = part(sized(512, 1024), 32, 16);
    for entry in SPATIAL {
        let chip = Shared::new(SimChip::new(&part).unwrap());
        let settings = in_its_class::<i32, 2>(entry, &part, &settings());
        let mut index = entry.format::<i32, 2>(Box::new(chip.clone()), &settings).unwrap();
        let (mut model, mut rng) = (Pairs::<i32, 2>::new(), Rng::new(1));
        for round in 0..2 {
            let before = model.len();
            loop {
                let (rect, id) = (coarse(&mut rng), rng.next_u64());
                match index.insert(&rect, id) {
                    Ok(()) => model.push((rect, id)),
                    Err(IndexError::Full(_)) => break,
                    Err(error) => panic!("{}: {error}", entry.name),
                }
            }
            let inserted = model.len() - before;
            assert!(inserted > 200 && inserted < 20_000, "{}, round {round}: {inserted}", entry.name);
            assert_answers(entry.name, &mut *index, &model, &mut rng);
            for _ in 0..model.len() / 2 {
                let (rect, id) = model.swap_remove(rng.below(model.len() as u64) as usize);
                let removed = index.remove(&rect, id);
                assert!(removed.unwrap_or_else(|error| panic!("{}: remove: {error}", entry.name)));
            }
            assert_answers(entry.name, &mut *index, &model, &mut rng);
            assert!(index.check().unwrap().is_sound(), "{}", entry.name);
        }
    }
}

#[test]
fn what_is_refused_is_refused_with_a_reason() {
    let part = part(1024, 16, 64);
    let chip = || Box::new(SimChip::new(&part).unwrap());
    for entry in SPATIAL {
        let refuse = |settings: &Settings, what: &str| match entry.format::<i32, 2>(chip(), settings) {
            Err(error) if error.is_unsupported() && error.to_string().len() > 15 => {}
            Err(error) => panic!("{}: {what}: {error}", entry.name),
            Ok(_) => panic!("{}: {what} was not refused", entry.name),
        };
        let settings = || in_its_class::<i32, 2>(entry, &part, &settings());
        refuse(&Settings { ram_bytes: Some(100), ..settings() }, "100 bytes of RAM");
        if entry.nodes_are_pages {
            refuse(&settings().with("ftl", "fast"), "every operation durable on an FTL without groups");
        }
        refuse(&settings().with("capacity", 3), "3 entries");
        for option in entry.options.iter().filter(|option| option.default.parse::<u64>().is_ok()) {
            refuse(&settings().with(option.name, "many"), option.name);
        }
        assert!(entry.check_options(&settings().with("no_such_option", 1).options).is_err());
        assert!(entry.mount::<i32, 2>(chip(), &settings()).is_err(), "an empty chip");
        let held = Shared::new(SimChip::new(&part).unwrap());
        entry.format::<i32, 2>(Box::new(held.clone()), &settings()).unwrap().close().unwrap();
        let mounted = entry.mount::<f64, 2>(Box::new(held.clone()), &settings()).err();
        assert!(matches!(mounted, Some(IndexError::NotFormatted(_))), "{}: {mounted:?}", entry.name);
    }
}

fn crash(plan: CrashPlan) -> CrashReport {
    let report = Rehearsal::record(plan).unwrap().run(cores(), &Control::default());
    println!("{}", serde_json::to_string(&report).unwrap());
    assert!(report.is_clean(), "{}: {:?} {:?}", report.setup.name, report.stopped, report.first_failure);
    assert!(!report.cancelled && (report.work.operations_refused == 0 || report.work.physical_failures > 4));
    let tally = &report.tally;
    let ends = tally.recovered_exact + tally.recovered_in_flight + tally.recovered_prefix + tally.refused;
    // What is refused after nearly every cut seldom goes on, and of few cuts perhaps none does.
    let refuses = report.setup.durability == Durability::None.name();
    assert!(ends == tally.cuts_tried && (tally.continued > 0 || refuses || tally.cuts_tried < 60));
    report
}

/// Small nodes on a small chip: splits, dissolved nodes and collections in a short run.
fn crash_plan(entry: &'static SpatialEntry, settings: Settings) -> CrashPlan {
    let target = Target::Spatial(entry);
    CrashPlan { operations: 200, slots: 500, ..CrashPlan::new(target, settings.with("capacity", 8)) }
}

#[test]
fn nothing_is_lost_at_any_cut_of_a_short_run() {
    for entry in SPATIAL {
        let highest = in_its_class::<i32, 2>(entry, &small_chip(), &settings()).durability;
        for (durability, ram_bytes) in CLASSES
            .into_iter()
            .zip([None, Some(200_000), Some(200_000)])
            .filter(|(class, _)| *class <= highest)
        {
            let settings = Settings { durability, ram_bytes, ..settings() };
            let cuts = sized(Cuts::Sample(40), Cuts::All);
            let report = crash(CrashPlan { cuts, ..crash_plan(entry, settings) });
            let first = report.tally.cuts_tried - report.tally.second_cuts_tried;
            assert!(cuts != Cuts::All || first == report.work.physical_operations * 5 + 1);
        }
    }
}

#[test]
fn nothing_is_lost_over_any_ftl() {
    let small = settings().with("capacity", 8);
    for (entry, settings) in on_every_ftl::<i32, 2>(&small_chip(), &small) {
        crash(CrashPlan { cuts: Cuts::Sample(sized(10, 300)), ..crash_plan(entry, settings) });
    }
}

#[test]
fn nothing_is_lost_when_programs_and_erases_fail_too() {
    let failures =
        ChipFailures { program_failures_ppm: 3000, erase_failures_ppm: 3000, bad_blocks_ppm: 40_000 };
    for entry in SPATIAL {
        let settings = in_its_class::<i32, 2>(entry, &small_chip(), &settings().with("bad_blocks", 12));
        let plan = crash_plan(entry, settings);
        crash(CrashPlan { operations: 1200, cuts: Cuts::Sample(sized(30, 600)), failures, ..plan });
    }
}

/// A chip with an index that was used and closed, and the contents of the index.
fn used_chip(entry: &SpatialEntry, settings: &Settings, seed: u64) -> (SimChip, Pairs<i32, 2>) {
    let chip = Shared::new(SimChip::new(&part(1024, 16, 32)).unwrap());
    let mut index = entry.format::<i32, 2>(Box::new(chip.clone()), settings).unwrap();
    let (mut model, mut rng) = (Pairs::new(), Rng::new(seed));
    for id in 0..1500 {
        if model.is_empty() || rng.chance(2, 3) {
            let rect = coarse(&mut rng);
            index.insert(&rect, id).unwrap();
            model.push((rect, id));
        } else {
            let (rect, id) = model.swap_remove(rng.below(model.len() as u64) as usize);
            assert!(index.remove(&rect, id).unwrap());
        }
    }
    index.close().unwrap();
    let chip = chip.lock().clone();
    (chip, sorted(model))
}

#[test]
fn flipped_bits_are_never_returned_as_data() {
    let everything = Rect::new([i32::MIN; 2], [i32::MAX; 2]).unwrap();
    for entry in SPATIAL {
        let settings = in_its_class::<i32, 2>(entry, &part(1024, 16, 32), &settings());
        let (chip, model) = used_chip(entry, &settings, 1);
        let (mut rng, mut right, mut refused) = (Rng::new(2), 0, 0);
        let mut pages: Vec<(Pbn, u32)> = Vec::new();
        damaged(&chip, |pbn, page, _| pages.push((pbn, page)));
        for trial in 0..sized(60, 400) {
            let target = pages[rng.below(pages.len() as u64) as usize];
            let flips = [1, 1, 3, 40][trial % 4];
            let harmed = damaged(&chip, |pbn, page, bytes| {
                for _ in 0..if (pbn, page) == target { flips } else { 0 } {
                    let bit = rng.below(bytes.len() as u64 * 8) as usize;
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
            });
            let Ok(mut index) = entry.mount::<i32, 2>(Box::new(harmed), &settings) else {
                refused += 1;
                continue;
            };
            let _ = index.check();
            match found(&mut *index, &everything, Relation::Within) {
                Ok(pairs) => assert!(
                    pairs == model,
                    "{}: a wrong answer after {flips} flips in {target:?}",
                    entry.name
                ),
                Err(_) => refused += 1,
            }
            let mut near = Vec::new();
            let answered = index.nearest(&[0, 0], 20, &mut |rect, id, _| {
                near.push((*rect, id));
                ControlFlow::Continue(())
            });
            assert!(answered.is_err() || near == nearest_of(&model, &[0, 0], 20), "{}: nearest", entry.name);
            right += u32::from(answered.is_ok());
        }
        let (few_right, few_refused) = sized((7, 0), (50, 5));
        assert!(
            right > few_right && refused > few_refused,
            "{}: {right} right, {refused} refused",
            entry.name
        );
    }
}

/// Windows and searches for the nearest on real data, against the `rstar` crate.
#[test]
fn real_data_are_answered_as_rstar_answers_them() {
    let part = mlc_64m();
    for name in ["places", "rivers"] {
        let data = data::find(name).unwrap();
        let theirs = rstar::RTree::bulk_load(
            data.entries
                .iter()
                .map(|(rect, id)| GeomWithData::new(Rectangle::from_corners(rect.low(), rect.high()), *id))
                .collect(),
        );
        for entry in SPATIAL {
            let settings = in_its_class::<f64, 2>(entry, &part, &settings());
            let mut ours = Loaded::new(entry, &part, &settings, &data).unwrap();
            let mut rng = Rng::new(6);
            for extent in [0.0, 0.1, 1.0, 4.0, 30.0].repeat(6) {
                let centre = data.entries[rng.below(data.entries.len() as u64) as usize].0.low();
                let corners = [-extent, extent].map(|by| centre.map(|x| x + by));
                let window = Rect::new(corners[0], corners[1]).unwrap();
                let envelope = AABB::from_corners(corners[0], corners[1]);
                let mut expected: Vec<u64> =
                    theirs.locate_in_envelope_intersecting(envelope).map(|found| found.data).collect();
                expected.sort_unstable();
                let found = ours.window(&window, Relation::Intersects).unwrap().found;
                let found: Vec<u64> = found.into_iter().map(|(_, id)| id).collect();
                assert_eq!(found, expected, "{} on {name}: {window:?}", entry.name);
                let near = ours.nearest(&centre, 15).unwrap().found;
                let near = near.iter().map(|(rect, _)| rect.distance2(&centre));
                let expected = theirs.nearest_neighbor_iter_with_distance_2(centre).map(|(_, square)| square);
                assert!(near.eq(expected.take(15)), "{} on {name}: nearest to {centre:?}", entry.name);
            }
        }
    }
}

/// Rows of every `step`-th index over a bundled data set, beginning with number `from`.
fn rows(name: &str, load: &str, (from, step): (usize, usize)) -> String {
    let mut data = data::find(name).unwrap();
    data.entries.truncate(2000);
    let mut options = nandex_stacks::options::Options::default();
    for (name, value) in [("load", load), ("queries", "150"), ("changes", "150")] {
        options.set(name, value);
    }
    let workload = general(&data, Queries { window: 0.0005, nearest: 8 }, 7, &options).unwrap();
    let part = mlc_64m();
    let settings = Settings::new(runner::record_format::<f64, 2>());
    let jobs: Vec<SpatialJob<'_, f64, 2>> = SPATIAL
        .iter()
        .skip(from)
        .step_by(step)
        .map(|entry| SpatialJob {
            contestant: Contestant::Spatial(entry),
            medium: Medium::Chip(&part),
            workload: &workload,
            settings: in_its_class::<f64, 2>(entry, &part, &settings),
            options: RunOptions { cpu_time: false, ..RunOptions::default() },
            wants_map: false,
        })
        .collect();
    let runs = parallel::map(&jobs, 2, |job| runner::run(job, &Control::default()).run);
    assert_eq!(runs.iter().find_map(|run| run.error.clone()), None);
    let results = Results {
        chip: ChipFacts::of(&part),
        workload: facts(&workload, &settings),
        runs,
        ..Results::default()
    };
    let mut csv = Vec::new();
    write_csv(&results.without_cpu_time(), &mut csv).unwrap();
    String::from_utf8(csv).unwrap()
}

#[test]
fn small_runs_cost_what_they_did() {
    let step = golden::step(3);
    let sets = [("places", "insert"), ("rivers", "bulk"), ("clustered", "insert")];
    for (number, (name, load)) in sets.into_iter().enumerate() {
        golden::compare(&format!("spatial-{name}"), &rows(name, load, (number % step, step)), step);
    }
}
