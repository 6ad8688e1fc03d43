//! Tests of the runner with an index whose every answer and every page operation is known.

use super::*;
use crate::keys::Trees;
use crate::names::option;
use crate::registry::{Confidence, Holds, Hosting};
use crate::results::{CauseCounts, Costs, Phase};
use crate::workload::{Op, OpKind, PhaseOps, Values, workload};
use nandex::Shared;
use nandex::check::{CheckReport, Invariant};
use nandex::nand::{Cause, Differs, Timing};
use nandex::ordered::{Direction, Durability, IndexStats, Metric, OrderedIndex, RecordFormat, Visit};
use nandex::units::{Pbn, Ppn};
use nandex::{Geometry, IndexError, Nand};
use nandex_stacks::options::Options;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A map in RAM that calls the chip by a fixed script. A look-up or removal reads one page. An insertion
/// programs the next page; at the end of a block it first erases the next block for garbage collection. A
/// range reads two pages. A sync programs a checkpoint page.
struct Scripted {
    nand: Box<dyn Nand>,
    record: RecordFormat,
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    next: u32,
    lie: &'static str,
    room: u64,
    hits: u64,
}

impl Scripted {
    fn read(&mut self) -> Result<(), IndexError> {
        self.hits += 3;
        self.nand.read(Ppn(0), Cause::Host, &mut [0; 512], &mut [])?;
        Ok(())
    }

    fn program(&mut self, cause: Cause) -> Result<(), IndexError> {
        let geometry = self.nand.geometry();
        if self.next.is_multiple_of(geometry.pages_per_block) {
            self.next %= geometry.pages();
            self.nand.erase(Pbn(self.next / geometry.pages_per_block), Cause::GarbageCollection)?;
        }
        self.nand.program(Ppn(self.next), cause, &[1; 512], &[])?;
        self.next += 1;
        Ok(())
    }
}

impl OrderedIndex for Scripted {
    fn record(&self) -> RecordFormat {
        self.record
    }
    fn durability(&self) -> Durability {
        Durability::EverySync
    }
    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.read()?;
        match self.map.get(key) {
            Some(found) => value.copy_from_slice(found),
            None => return Ok(self.lie == "ghost"),
        }
        Ok(true)
    }
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        if self.map.len() as u64 >= self.room && !self.map.contains_key(key) {
            return Err(IndexError::NO_BLOCK);
        }
        self.program(Cause::Host)?;
        if self.lie == "stale" && self.map.contains_key(key) {
            return Ok(true);
        }
        let existed = self.map.insert(key.to_vec(), value.to_vec()).is_some();
        Ok(existed && self.lie != "mute")
    }
    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.read()?;
        if self.lie == "keep" {
            return Ok(true);
        }
        let existed = self.map.remove(key).is_some();
        Ok(existed && self.lie != "mute")
    }
    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.read()?;
        self.read()?;
        let mut found: Vec<_> = self.map.range::<[u8], _>((low, high)).collect();
        if direction == Direction::Descending {
            found.reverse();
        }
        match self.lie {
            "skip" => drop(found.remove(1)),
            "short" => drop(found.pop()),
            "double" => found.insert(1, found[0]),
            _ => {}
        }
        for (key, value) in found {
            let more = visit(key, value).is_continue();
            if !more && self.lie != "deaf" {
                break;
            }
        }
        Ok(())
    }
    fn sync(&mut self) -> Result<(), IndexError> {
        self.program(Cause::Checkpoint)
    }
    fn check(&mut self) -> Result<CheckReport, IndexError> {
        let mut report = CheckReport { nodes: 1, records: self.map.len() as u64, violations: Vec::new() };
        match self.lie {
            "broken" => report.violation(Invariant::S1, 3, String::from("a test")),
            "miscount" => report.records += 1,
            _ => {}
        }
        Ok(report)
    }
    fn stats(&self) -> IndexStats {
        let metrics = vec![Metric { name: "next_page", value: u64::from(self.next) }];
        let pages = self.map.len() as u64;
        IndexStats { height: 1, live_pages: pages, cache_hits: self.hits, metrics, ..IndexStats::default() }
    }
    fn ram_bytes(&self) -> usize {
        1000
    }
}

fn format(nand: Box<dyn Nand>, settings: &Settings) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let lies =
        ["none", "ghost", "stale", "keep", "skip", "short", "double", "deaf", "broken", "miscount", "mute"];
    let lie = settings.options.text("lie").unwrap_or(lies[0]);
    let lie = lies.into_iter().find(|known| *known == lie).expect("a lie of the list");
    let room = settings.options.text("room").map_or(Ok(u64::MAX), |room| {
        let refuse = |_| IndexError::Unsupported(format!("option room: '{room}' is no whole number").into());
        room.parse().map_err(refuse)
    })?;
    let mut index =
        Scripted { nand, record: settings.record, map: BTreeMap::new(), next: 0, lie, room, hits: 0 };
    // A superblock: what the format does must not be counted.
    index.program(Cause::Checkpoint)?;
    Ok(Box::new(index))
}

const SCRIPTED: IndexEntry = IndexEntry {
    name: "scripted",
    summary: "a map that works the chip by a script",
    confidence: Confidence::High,
    basis: "a double for tests",
    needs: &[],
    parts: &[],
    hosting: Hosting::Store,
    holds: Holds::Records,
    format,
    mount: |_, _| Err(IndexError::other(Differs::Kind, "a map is not kept")),
    mount_after_cut: None,
    forest: Some(|nand, settings, shares| {
        // Each tree works a chip; they cannot share one, but share its numbers.
        let shared = Shared::new(nand);
        shares
            .iter()
            .map(|share| {
                let record = settings.record;
                let nand = Box::new(shared.clone());
                let map = BTreeMap::new();
                let tree = Scripted { nand, record, map, next: 0, lie: "none", room: share.records, hits: 0 };
                Ok((share.tree, Box::new(tree) as Box<dyn OrderedIndex>))
            })
            .collect()
    }),
    divides_chip: false,
    options_on_ftl: &[],
    options: &[
        option("lie", "none", "how to answer wrongly"),
        option("room", "", "records that fit"),
        option("ftl", "page", "the FTL below"),
        option("cache", "lru", "the cache in between"),
        option("answers", "exact", "whether updates answer"),
        option("pool_count", "held", "what RAM is counted"),
    ],
};

/// The scripted index, declared to take values of any length by filling them up.
const LONG: IndexEntry = IndexEntry {
    holds: Holds::LongValues,
    options: &[option("lengths", "", "those of the values")],
    ..SCRIPTED
};

const READ_NS: u64 = 10_000 + 512;
const PROGRAM_NS: u64 = 100_000 + 512 + 16;
const ERASE_NS: u64 = 1_000_000;

/// A part with 8 blocks of 4 pages of 512 bytes, and a transfer time of 1 ns per byte.
fn part() -> Part {
    let timing =
        Timing { read_ns: 10_000, program_ns: 100_000, erase_ns: ERASE_NS, transfer_ps_per_byte: 1_000 };
    Part::new("scripted", Geometry::new(512, 16, 4, 8), timing)
}

fn of(ops: Vec<Op>) -> Workload {
    let phases = vec![PhaseOps::measured("only", ops)];
    Workload {
        name: String::from("test"),
        seed: 9,
        options: BTreeMap::new(),
        values: Values::default(),
        phases,
    }
}

fn run_with(workload: &Workload, set: &[(&str, &str)], options: RunOptions) -> Run {
    let prepared = Prepared::new(workload, 4).unwrap();
    let mut settings = Settings::new(RecordFormat::new(4, 4));
    set.iter().for_each(|(name, value)| settings.options.set(name, value));
    let index = if matches!(workload.values, Values::Long(_)) { &LONG } else { &SCRIPTED };
    let job = Job { index, part: &part(), prepared: &prepared, settings, options };
    let control = Control::default();
    let run = run(&job, &control);
    assert_eq!(control.done(), workload.operations());
    run
}

fn error(workload: &Workload, lie: &str) -> String {
    run_with(workload, &[("lie", lie)], RunOptions::default()).error.unwrap_or_default()
}

/// Inserts keys 10, 20, …, 60, then does one operation of each kind.
fn everything() -> Workload {
    let mut ops: Vec<Op> = (1..=6).map(|k| Op::new(OpKind::Insert, k * 10)).collect();
    ops.extend([
        Op::new(OpKind::Get, 30),
        Op::new(OpKind::Get, 35),
        Op::new(OpKind::Update, 30),
        Op::new(OpKind::Get, 30),
        Op::range(20, 3),
        Op { kind: OpKind::RangeDown, ..Op::range(50, 4) },
        Op::new(OpKind::Remove, 40),
        Op::range(20, 99),
        Op::new(OpKind::Sync, 0),
    ]);
    of(ops)
}

fn costs(operations: u64, reads: u64, programs: u64, erases: u64, max: u64) -> Costs {
    Costs {
        operations,
        page_reads: reads,
        page_programs: programs,
        block_erases: erases,
        flash_time_ns: reads * READ_NS + programs * PROGRAM_NS + erases * ERASE_NS,
        flash_time_max_ns: max,
    }
}

#[test]
fn every_figure_is_the_sum_of_what_the_chip_did() {
    let run = run_with(&everything(), &[], RunOptions::default());
    assert_eq!(run.error, None);
    let phase = &run.phases[0];
    let kinds: Vec<_> = phase.kinds.iter().map(|(&kind, &costs)| (kind, costs)).collect();
    // The format took page 0; the six inserts take pages 1 to 6, and page 4 costs an erase. The update takes
    // page 7, the sync page 8 with an erase before it.
    assert_eq!(
        kinds,
        [
            ("get", costs(3, 3, 0, 0, READ_NS)),
            ("insert", costs(6, 0, 6, 1, PROGRAM_NS + ERASE_NS)),
            ("range", costs(3, 6, 0, 0, 2 * READ_NS)),
            ("remove", costs(1, 1, 0, 0, READ_NS)),
            ("sync", costs(1, 0, 1, 1, PROGRAM_NS + ERASE_NS)),
            ("update", costs(1, 0, 1, 0, PROGRAM_NS)),
        ]
    );
    assert_eq!(phase.total, costs(14, 10, 8, 2, PROGRAM_NS + ERASE_NS));
    let cause = |reads, programs, erases| CauseCounts {
        page_reads: reads,
        page_programs: programs,
        block_erases: erases,
    };
    let causes: Vec<_> = phase.causes.iter().map(|(&name, &counts)| (name, counts)).collect();
    assert_eq!(
        causes,
        [("checkpoint", cause(0, 1, 0)), ("garbage_collection", cause(0, 0, 2)), ("host", cause(10, 7, 0))]
    );
    assert_eq!(phase.write_amplification, (8.0 * 512.0) / (8.0 * 8.0));
    // 25 mA at 3.3 V throughout.
    assert!(phase.energy_nj.abs_diff(phase.total.flash_time_ns * 825 / 10_000) <= 1);
    assert_eq!(phase.cache_hits, 30);
    assert_eq!(phase.timeline.len(), 14);
    assert_eq!(phase.timeline[13].operations, 14);
    assert_eq!(phase.timeline[13].flash_time_ns, phase.total.flash_time_ns);
    assert_eq!(phase.timeline[0].flash_time_ns, PROGRAM_NS);
}

#[test]
fn the_run_tells_its_own_facts() {
    let run = run_with(&everything(), &[("ftl", "block")], RunOptions::default());
    assert_eq!((run.index.as_str(), run.storage.as_str(), run.seed), ("scripted", "block+lru", 9));
    assert_eq!((run.durability.as_str(), run.ram_bytes, run.height), ("every sync", 1000, 1));
    assert_eq!((run.records, run.live_pages), (5, 5));
    assert_eq!(run.space_amplification, 512.0 / 8.0);
    assert_eq!(run.wear_erases, [0, 1, 1, 0, 0, 0, 0, 0]);
    assert_eq!(run.metrics["next_page"], 9);
}

#[test]
fn a_sorted_phase_is_handed_over_in_key_order() {
    let inserts = |keys: &[u64]| keys.iter().map(|&key| Op::new(OpKind::Insert, key)).collect();
    let mut workload = of(vec![Op::range(10, 9), Op::new(OpKind::Get, 30)]);
    workload.phases.insert(0, PhaseOps::sorted("load", inserts(&[30, 10, 20])));
    let run = run_with(&workload, &[], RunOptions::default());
    assert_eq!((run.error, run.records), (None, 3));
    // Format took page 0; the scripted index has no way of its own to load, so it inserts.
    assert_eq!(run.phases[0].kinds["insert"], costs(3, 0, 3, 0, 3 * PROGRAM_NS));
    assert_eq!((run.phases[0].measured, run.phases[0].total.operations), (false, 3));
    workload.phases[0].ops[1].kind = OpKind::Get;
    let error = error(&workload, "none");
    assert!(error.contains("sorted records are for an empty index"), "{error}");
}

#[test]
fn a_lie_is_found_with_its_operation_and_key() {
    let w = everything();
    let at = |n: u32, kind: &str, key: u32| {
        format!("phase only, operation {n} ({kind}, key {key}): wrong answer: ")
    };
    assert_eq!(error(&w, "none"), "");
    assert_eq!(error(&w, "ghost"), at(8, "get", 35) + "the key is said to be present, but is absent");
    assert!(error(&w, "stale").starts_with(&(at(10, "get", 30) + "the value is [")));
    assert!(error(&w, "keep").starts_with(&(at(14, "range", 20) + "record 3 of the range is [")));
    assert!(error(&w, "skip").starts_with(&(at(11, "range", 20) + "record 2 of the range is [")));
    assert!(error(&w, "double").starts_with(&(at(11, "range", 20) + "record 2 of the range is [")));
    assert_eq!(error(&w, "short"), at(14, "range", 20) + "the range ends after 3 records");
    assert_eq!(error(&w, "deaf"), at(11, "range", 20) + "the range went on after 3 records");
    assert_eq!(error(&w, "broken"), "the check at the end found S1 broken at 3: a test (0 more)");
    assert_eq!(error(&w, "miscount"), "the check at the end found 6 records, not 5");
}

#[test]
fn told_not_to_look_the_runner_does_not_look() {
    let options = RunOptions { verify: false, check: false, ..RunOptions::default() };
    for lie in ["ghost", "stale", "skip", "deaf", "miscount"] {
        assert_eq!(run_with(&everything(), &[("lie", lie)], options).error, None, "{lie}");
    }
}

#[test]
fn a_tree_that_answers_no_updates_is_not_asked_and_the_rest_is_checked() {
    let w = everything();
    assert!(error(&w, "mute").contains("operation 9 (update, key 30): wrong answer"));
    let told = |lie| run_with(&w, &[("lie", lie), ("answers", "pool")], RunOptions::default()).error;
    assert_eq!(told("mute"), None);
    assert!(told("stale").unwrap().contains("the value is"));
}

#[test]
fn loads_are_synced_in_their_own_figures() {
    let ops = |keys: std::ops::Range<u64>| keys.map(|key| Op::new(OpKind::Insert, key)).collect();
    let phases = vec![PhaseOps::unmeasured("load", ops(0..3)), PhaseOps::measured("run", ops(3..5))];
    let w = Workload { phases, ..of(Vec::new()) };
    let options = RunOptions { sync_after_load: true, ..RunOptions::default() };
    let run = run_with(&w, &[], options);
    let syncs = |place: usize| run.phases[place].kinds.get("sync").map(|costs| costs.page_programs);
    assert_eq!((syncs(0), syncs(1)), (Some(1), None));
}

#[test]
fn a_full_chip_ends_the_run_and_keeps_the_figures() {
    let run = run_with(&everything(), &[("room", "4")], RunOptions::default());
    let message =
        "phase only, operation 5 (insert, key 50): no room is left in the blocks; nothing was changed";
    assert_eq!(run.error.as_deref(), Some(message));
    assert_eq!((run.phases[0].kinds["insert"].page_programs, run.records), (4, 4));
}

#[test]
fn settings_that_cannot_be_are_the_error_of_the_run() {
    let refused = |set: (&str, &str)| run_with(&everything(), &[set], RunOptions::default()).error.unwrap();
    assert_eq!(refused(("rom", "4")), "there is no option 'rom'; did you mean 'room'?");
    assert_eq!(refused(("room", "x")), "option room: 'x' is no whole number");
    let w = everything();
    let prepared = Prepared::new(&w, 4).unwrap();
    let mut settings = Settings::new(RecordFormat::new(4, 4));
    settings.ram_bytes = Some(999);
    let part = part();
    let job =
        Job { index: &SCRIPTED, part: &part, prepared: &prepared, settings, options: RunOptions::default() };
    let error = super::run(&job, &Control::default()).error.unwrap();
    assert_eq!(error, "held 1000 bytes of RAM, more than the 999 it was given");
    // A budget that counts records only is none for what is held.
    let settings = job.settings.clone().with("pool_count", "record");
    assert_eq!(super::run(&Job { settings, ..job }, &Control::default()).error, None);
}

#[test]
fn a_cancelled_run_returns_what_it_has() {
    let w = everything();
    let prepared = Prepared::new(&w, 4).unwrap();
    let settings = Settings::new(RecordFormat::new(4, 4));
    let part = part();
    let job =
        Job { index: &SCRIPTED, part: &part, prepared: &prepared, settings, options: RunOptions::default() };
    let control = Control::default();
    control.cancel();
    let run = super::run(&job, &control);
    assert_eq!(run.error.as_deref(), Some("phase only, operation 1: cancelled"));
    assert_eq!((run.phases.len(), control.done()), (1, w.operations()));
}

#[test]
fn syncs_on_the_way_are_booked_apart() {
    let options = RunOptions { sync_every: Some(3), ..RunOptions::default() };
    let run = run_with(&everything(), &[], options);
    let phase = &run.phases[0];
    assert_eq!((phase.kinds["sync"].operations, phase.total.operations), (3, 14));
    assert_eq!(phase.kinds["sync"].page_programs, phase.causes["checkpoint"].page_programs);
}

#[test]
fn a_range_stays_within_its_tree() {
    let op = |kind, tree, key| Op { tree, ..Op::new(kind, key) };
    let mut ops: Vec<Op> =
        [(1, 5), (1, 6), (2, 1), (2, 7), (3, 0)].iter().map(|&(t, k)| op(OpKind::Insert, t, k)).collect();
    ops.push(Op { count: 10, ..op(OpKind::Range, 2, 1) });
    ops.push(Op { count: 10, ..op(OpKind::RangeDown, 2, 7) });
    let w = of(ops);
    assert_eq!(error(&w, "none"), "");
    // The last of a tree's records is dropped: noticed although the next tree has more.
    assert!(
        error(&w, "short")
            .ends_with("(range, key 1 of index 2): wrong answer: the range ends after 1 records")
    );
}

#[test]
fn several_indexes_run_as_a_forest_where_that_can_be() {
    let op = |kind, tree, key| Op { tree, ..Op::new(kind, key) };
    let mut ops: Vec<Op> =
        [(1, 1 << 40), (2, 1), (2, 1 << 50)].iter().map(|&(t, k)| op(OpKind::Insert, t, k)).collect();
    ops.extend([op(OpKind::Get, 1, 1 << 40), op(OpKind::Range, 2, 1), op(OpKind::RangeDown, 2, 1 << 50)]);
    ops.iter_mut().for_each(|op| op.count = 5);
    let w = of(ops);
    let prepared = Prepared::with_trees(&w, 1, Trees::PerIndex).unwrap();
    let part = part();
    let settings = Settings::new(RecordFormat::new(1, 4));
    let job = |index| Job {
        index,
        part: &part,
        prepared: &prepared,
        settings: settings.clone(),
        options: RunOptions::default(),
    };
    let run = super::run(&job(&SCRIPTED), &Control::default());
    assert_eq!(run.error, None);
    assert_eq!((run.records, run.ram_bytes), (3, 2000));
    assert_eq!(run.space_amplification, 512.0 / 5.0);
    let alone = IndexEntry { forest: None, ..SCRIPTED };
    let refused = super::run(&job(&alone), &Control::default()).error.unwrap();
    assert!(refused.starts_with("scripted owns the whole chip"), "{refused}");
}

#[test]
fn a_timeline_is_short_however_long_the_phase() {
    for operations in [1u64, 299, 300, 301, 1000, 12_345] {
        let w = of((0..operations).map(|k| Op::new(OpKind::Get, k)).collect());
        let run = run_with(&w, &[], RunOptions { cpu_time: false, ..RunOptions::default() });
        let Phase { timeline, total, cpu_ns, .. } = &run.phases[0];
        assert!(timeline.len() <= 300 && timeline.len() as u64 >= operations.min(150));
        assert!(
            timeline.is_sorted_by(|a, b| a.operations < b.operations && a.flash_time_ns <= b.flash_time_ns)
        );
        assert_eq!(timeline.last().unwrap().operations, operations);
        assert_eq!((total.flash_time_ns, *cpu_ns), (operations * READ_NS, 0));
    }
}

#[test]
fn bytes_written_are_those_of_the_values_as_they_were_filled() {
    let written = |lengths: &str| {
        let w = Workload { values: Values::Long(lengths.parse().unwrap()), ..everything() };
        let phase = run_with(&w, &[], RunOptions::default()).phases.remove(0);
        (phase.total.page_programs * 512) as f64 / phase.write_amplification
    };
    let inserts = (written("4..4") / 8.0).round();
    assert!(inserts > 1.0 && (written("100..100") - inserts * 104.0).abs() < 1e-6);
    assert!(written("20..2000") > 2.0 * written("20..39"));
}

#[test]
fn every_generator_runs_and_is_right() {
    for entry in crate::workload::WORKLOADS {
        let mut options = Options::default();
        options.set("records", "300");
        options.set("operations", "200");
        let w = workload(entry.name).unwrap().build(3, &options).unwrap();
        let run = run_with(&w, &[], RunOptions::default());
        assert_eq!(run.error, None, "{}", entry.name);
    }
}

#[test]
fn runs_are_the_same_whatever_the_number_of_threads() {
    let workloads: Vec<Workload> = (0..6)
        .map(|seed| {
            let mut options = Options::default();
            options.set("records", "400");
            options.set("operations", "600");
            workload("zipfian").unwrap().build(seed, &options).unwrap()
        })
        .collect();
    let prepared: Vec<_> = workloads.iter().map(|w| Prepared::new(w, 4).unwrap()).collect();
    let part = part();
    let jobs: Vec<Job<'_>> = prepared
        .iter()
        .map(|prepared| {
            let settings = Settings::new(RecordFormat::new(4, 4));
            Job { index: &SCRIPTED, part: &part, prepared, settings, options: RunOptions::default() }
        })
        .collect();
    let json = |threads| {
        let finished = std::sync::atomic::AtomicU64::new(0);
        let runs = crate::parallel::run_all(&jobs, threads, &Control::default(), |place, run| {
            assert_eq!(run.seed, place as u64);
            finished.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(finished.into_inner(), 6);
        let results = crate::results::Results { runs, ..crate::results::Results::default() };
        serde_json::to_vec(&results.without_cpu_time()).unwrap()
    };
    let alone = json(1);
    assert!(alone.len() > 1000 && json(2) == alone && json(5) == alone);
}
