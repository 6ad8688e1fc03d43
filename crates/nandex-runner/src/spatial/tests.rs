//! Workloads, runs and maps.

use super::compare::Spatial;
use super::map::{MapQuery, TreeMap};
use super::registry::{SPATIAL, spatial};
use super::runner::{self, Contestant, Medium, SpatialJob};
use super::workload::{Profile, Queries, SpatialOp, SpatialWorkload, general};
use super::{data, query, with_domain};
use crate::compare::{Class, Comparison, Watch};
use crate::results::Run;
use crate::runner::{Control, RunOptions};
use crate::{chip, registry, replay};
use nandex::nand::Part;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Durability, RecordFormat};
use nandex::spatial::{Rect, Relation};
use nandex_stacks::options::{Options, Settings};

struct Unwatched;

impl Watch for Unwatched {
    fn start(&self, _: u64) {}
    fn finished(&self, _: &Run) {}
}

fn settings() -> Settings {
    Settings::new(RecordFormat::new(8, 8))
}

fn comparison(threads: usize) -> Comparison<Spatial> {
    let mut data = data::find("places").unwrap();
    data.entries.truncate(1500);
    Comparison {
        part: chip::find("mlc-64m").unwrap(),
        contest: Spatial {
            data,
            queries: Queries { window: 0.001, nearest: 5 },
            indexes: SPATIAL.iter().collect(),
        },
        classes: vec![Class { durability: Durability::EveryOperation, sync_every: None }],
        settings: settings().with("queries", 60).with("changes", 100),
        seeds: vec![1, 2],
        run: RunOptions::default(),
        threads,
        command: String::new(),
    }
}

#[test]
fn a_comparison_is_the_same_on_any_number_of_threads() {
    let (alone, maps) = comparison(1).run_and_keep(&Control::default(), &Unwatched).unwrap();
    let maps: Vec<TreeMap> = maps.into_iter().flatten().collect();
    assert_eq!(alone.runs.iter().find_map(|run| run.error.clone()), None);
    assert_eq!((alone.runs.len(), maps.len()), (2 * SPATIAL.len(), SPATIAL.len()));
    assert!(maps.iter().all(|map| map.queries.len() == 12 && map.leaves().count() > 10));
    let kinds: Vec<&str> =
        alone.runs[0].phases.iter().flat_map(|phase| phase.kinds.keys().copied()).collect();
    assert_eq!(kinds, ["insert", "window", "nearest", "remove", "insert"]);
    let four = comparison(4).run(&Control::default(), &Unwatched).unwrap();
    let json =
        |results: &crate::results::Results| serde_json::to_string(&results.without_cpu_time()).unwrap();
    assert_eq!(json(&four), json(&alone));
}

#[test]
fn an_option_nobody_knows_is_refused() {
    let mut wrong = comparison(1);
    wrong.settings.options.set("spilt", "linear");
    let error = wrong.run(&Control::default(), &Unwatched).unwrap_err().to_string();
    assert_eq!(error, "there is no option 'spilt'; did you mean 'split'?");
    let mut wrong = comparison(1);
    wrong.settings.options.set("relation", "near");
    let error = wrong.run(&Control::default(), &Unwatched).unwrap_err().to_string();
    assert_eq!(error, "option relation: 'near' is none of intersects, within, covers");
}

#[test]
fn the_general_workload_follows_from_data_options_and_seed() {
    let data = data::find("uniform").unwrap();
    let queries = Queries { window: 0.01, nearest: 3 };
    let build = |seed| general(&data, queries, seed, &Options::default()).unwrap();
    assert_eq!(build(1), build(1));
    assert_ne!(build(1), build(2));
    let workload = build(1);
    let counts: Vec<usize> = workload.phases.iter().map(|phase| phase.ops.len()).collect();
    assert_eq!(counts, [9000, 1000, 1000, 1000, 1000]);
    let extent = workload.extent().unwrap();
    for op in &workload.phases[1].ops {
        let SpatialOp::Window(window, Relation::Intersects) = op else { panic!("{op:?}") };
        let share = window.area() / extent.area();
        assert!((share - 0.01).abs() < 1e-9, "{share}");
    }
}

fn profiled(profile: Profile, operations: usize) -> SpatialWorkload<i32, 2> {
    profile.workload(data::uniform(operations, 1e6, 3), operations, 3)
}

#[test]
fn profiles_have_the_papers_numbers() {
    let counts = |profile: Profile| -> Vec<(String, [usize; 3])> {
        let workload = profiled(profile, 12_000);
        assert_eq!(workload.operations(), 12_000);
        let count = |ops: &[SpatialOp<i32, 2>], name: &str| ops.iter().filter(|op| op.name() == name).count();
        let phases = workload.phases.iter();
        phases
            .map(|phase| {
                (phase.name.clone(), ["insert", "remove", "search"].map(|name| count(&phase.ops, name)))
            })
            .collect()
    };
    let phase = |name: &str, counts| (name.to_string(), counts);
    assert_eq!(counts(Profile::Insertions), [phase("insert", [1000, 0, 0]), phase("mix", [0, 100, 10_900])]);
    assert_eq!(
        counts(Profile::Removals),
        [phase("insert", [2000, 0, 0]), phase("remove", [0, 1900, 0]), phase("search", [0, 0, 8100])]
    );
    let random = counts(Profile::Random);
    let [inserts, removes, searches] = random[0].1;
    assert!((3800..4200).contains(&removes) && inserts > 2000 && searches > 3800, "{random:?}");
}

#[test]
fn every_tree_runs_every_profile_on_flash_and_disk() {
    let part = chip::find("access-time").unwrap();
    let disk = Medium::Disk(replay::disk("disk-flat").unwrap(), &part);
    let bplus = Contestant::BPlus(registry::index("bplus").unwrap());
    let all = SPATIAL.iter().map(Contestant::Spatial).chain([bplus]);
    for contestant in all {
        for profile in [Profile::Random, Profile::Insertions, Profile::Removals] {
            let workload = profiled(profile, 1200);
            let run = |medium| {
                let settings = Settings { durability: Durability::None, ..settings() };
                let options = RunOptions::default();
                let job = SpatialJob {
                    contestant,
                    medium,
                    workload: &workload,
                    settings,
                    options,
                    wants_map: false,
                };
                runner::run(&job, &Control::default()).run
            };
            let (flash, disk) = (run(Medium::Chip(&part)), run(disk));
            assert_eq!((flash.error.clone(), disk.error.clone()), (None, None), "{}", contestant.name());
            assert_eq!(flash.records, disk.records);
            let spent = |run: &Run| run.phases.iter().map(|phase| phase.total.flash_time_ns).sum::<u64>();
            let accesses = |run: &Run| -> u64 {
                run.phases.iter().map(|phase| phase.total.page_reads + phase.total.page_programs).sum()
            };
            assert_eq!(spent(&disk), accesses(&disk) * 12_400_000);
            assert!(spent(&flash) * 10 < spent(&disk));
        }
    }
}

#[test]
fn the_map_shows_what_a_query_reads() {
    let data = data::find("rivers").unwrap();
    let part: Part = chip::find("mlc-64m").unwrap();
    for entry in SPATIAL {
        let mut loaded = query::Loaded::new(entry, &part, &settings(), &data).unwrap();
        let windows = [Rect::new([-10.0, 35.0], [30.0, 60.0]).unwrap(), Rect::point([100.0, 60.0]).unwrap()];
        for window in windows {
            for relation in [Relation::Intersects, Relation::Within, Relation::Covers] {
                let asked = loaded.window(&window, relation).unwrap();
                let expected = data.entries.iter().filter(|(rect, _)| relation.holds(rect, &window)).count();
                assert_eq!(asked.found.len(), expected, "{}", entry.name);
                let mut map = TreeMap::of(entry.name, loaded.index()).unwrap();
                map.add(MapQuery::window(&window, relation, expected));
                let read = map.queries[0].read.len() as u64;
                assert!(!entry.nodes_are_pages || read == asked.page_reads, "{} {relation:?}", entry.name);
            }
        }
        let asked = loaded.nearest(&[9.0, 47.0], 12).unwrap();
        let mut map = TreeMap::of(entry.name, loaded.index()).unwrap();
        map.add(MapQuery::nearest(&[9.0, 47.0], &asked.found));
        let read = map.queries[0].read.len() as u64;
        assert!(!entry.nodes_are_pages || read == asked.page_reads, "{}: nearest", entry.name);
    }
}

#[test]
fn the_domain_is_the_extent_unless_another_is_set() {
    let entry = spatial("hilbert").unwrap();
    let extent = Rect::new([1.0, 2.0], [3.0, 4.5]).unwrap();
    let with = |settings: &Settings| {
        let settings = with_domain(entry, settings, Some(&extent));
        settings.options.text("domain").map(String::from)
    };
    assert_eq!(with(&settings()).as_deref(), Some("1,2,3,4.5"));
    assert_eq!(with(&settings().with("domain", "0,0,9,9")).as_deref(), Some("0,0,9,9"));
    let chip = SimChip::new(&chip::find("mlc-64m").unwrap()).unwrap();
    let wrong = settings().with("domain", "0,0,-9,9");
    let error = entry.format::<f64, 2>(Box::new(chip), &wrong).map(drop).unwrap_err().to_string();
    assert!(error.contains("option domain: '0,0,-9,9': the lower side of axis 0"), "{error}");
}
