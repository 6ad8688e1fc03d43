//! Workloads: operations on abstract keys in named phases, each made from a seed alone.
//!
//! A workload is plain data: the operations of every phase, 16 bytes each. It is made once and read by all
//! runs, and because it is finite and known it can be looked through before a run, which ranking keys needs.
//!
//! The same entry, options and seed give the same operations on every machine: random numbers come from
//! [`nandex::rng::Rng`], shares are whole numbers, and the little floating point there is (the weights of the
//! zipfian distribution) uses nothing but `+ - * /`, which IEEE 754 defines to the last bit.

use crate::error::LabError;
use crate::machine;
use crate::names::{self, OptionInfo};
use nandex::rng::{Rng, split_mix};
use nandex_stacks::options::Options;
use nandex_stacks::options::whole_number;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

mod ascending;
mod authors;
mod local;
mod ls_lru;
mod mix;
mod mu;
mod pick;
mod readings;
mod sequence;
mod strings;
mod values;
mod ycsb;
mod zipf;

pub use pick::Picker;
pub(crate) use values::reading;
pub use values::{LENGTHS, Values};
pub use zipf::Zipf;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum OpKind {
    /// Looks up a key, which may be absent.
    Get,
    /// Inserts a record. If the key is present, it gets the new value.
    Insert,
    /// Removes a key.
    Remove,
    /// Gives a present key a new value.
    Update,
    /// Visits `count` records from the key upwards.
    Range,
    /// Visits `count` records from the key downwards.
    RangeDown,
    /// Makes all earlier operations durable; key and count are ignored.
    Sync,
}

impl OpKind {
    /// The kind's name in results; both directions of a range have the same name.
    pub const fn name(self) -> &'static str {
        match self {
            OpKind::Get => "get",
            OpKind::Insert => "insert",
            OpKind::Remove => "remove",
            OpKind::Update => "update",
            OpKind::Range | OpKind::RangeDown => "range",
            OpKind::Sync => "sync",
        }
    }

    /// Whether the operation changes the records of the index.
    pub const fn changes(self) -> bool {
        matches!(self, OpKind::Insert | OpKind::Remove | OpKind::Update)
    }
}

/// One operation on an abstract key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The kind of the operation.
    pub kind: OpKind,
    /// The number of the index in a trace of several; otherwise 0.
    pub tree: u8,
    /// Number of records that a range visits; otherwise 1.
    pub count: u32,
    /// The key, before it is cut to the width of the tree's keys.
    pub key: u64,
}

impl Op {
    /// Makes an operation on one key of tree 0.
    pub const fn new(kind: OpKind, key: u64) -> Op {
        Op { kind, tree: 0, count: 1, key }
    }

    /// Makes an upward range in tree 0.
    pub const fn range(key: u64, count: u32) -> Op {
        Op { kind: OpKind::Range, tree: 0, count, key }
    }
}

/// A phase of a workload, with figures of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseOps {
    /// The phase's name in results.
    pub name: String,
    /// Whether the phase counts in the totals. A load usually does not.
    pub measured: bool,
    /// Whether the phase loads an empty index: all operations are insertions, and the index gets them at
    /// once in key order to become as dense as it can.
    pub is_sorted: bool,
    /// The operations in order.
    pub ops: Vec<Op>,
}

impl PhaseOps {
    /// Makes a phase that counts in the totals.
    pub fn measured(name: &str, ops: Vec<Op>) -> PhaseOps {
        PhaseOps { name: name.to_string(), measured: true, is_sorted: false, ops }
    }

    /// Makes a phase that fills an empty index from sorted records.
    pub fn sorted(name: &str, ops: Vec<Op>) -> PhaseOps {
        PhaseOps { is_sorted: true, ..PhaseOps::unmeasured(name, ops) }
    }

    /// Whether the phase inserts each key once and does nothing else.
    fn is_load(&self) -> bool {
        let mut keys: Vec<(u8, u64)> = self.ops.iter().map(|op| (op.tree, op.key)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.len() == self.ops.len() && self.ops.iter().all(|op| op.kind == OpKind::Insert)
    }

    /// Makes a phase that does not count in the totals.
    pub fn unmeasured(name: &str, ops: Vec<Op>) -> PhaseOps {
        PhaseOps { name: name.to_string(), measured: false, is_sorted: false, ops }
    }
}

/// A workload: operations in phases, with their origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Name of the generator or of the trace file.
    pub name: String,
    /// The seed that the workload was made from; 0 for a trace.
    pub seed: u64,
    /// All options with the values used.
    pub options: BTreeMap<String, String>,
    /// The values that the workload writes.
    pub values: Values,
    /// The phases, in the order in which they run.
    pub phases: Vec<PhaseOps>,
}

impl Workload {
    /// Number of operations of all phases.
    pub fn operations(&self) -> u64 {
        self.phases.iter().map(|p| p.ops.len() as u64).sum()
    }

    /// The workload with its initial loads turned into sorted loads. They take a fraction of the time and
    /// yield an index with the same records.
    #[must_use]
    pub fn loaded_at_once(mut self) -> Workload {
        if let Some(first) = self.phases.first_mut().filter(|phase| !phase.measured && phase.is_load()) {
            first.is_sorted = true;
        }
        self
    }

    /// All operations in order.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.phases.iter().flat_map(|p| &p.ops)
    }
}

/// A generator of workloads.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadEntry {
    /// The workload's name on the command line and in results.
    pub name: &'static str,
    /// The workload in one line, for lists.
    pub summary: &'static str,
    /// The options with their defaults.
    pub options: &'static [OptionInfo],
    generate: fn(&Parameters) -> Result<Vec<PhaseOps>, LabError>,
}

impl WorkloadEntry {
    /// Makes the workload with this seed and these options. An unknown option is refused with the nearest
    /// known name.
    pub fn build(&self, seed: u64, set: &Options) -> Result<Workload, LabError> {
        self.build_from(seed, set, None)
    }

    /// Makes the workload with inputs from the folder `data`, see [`crate::data`]. The option `source` then
    /// names the origin of its names.
    pub fn build_from(&self, seed: u64, set: &Options, data: Option<&Path>) -> Result<Workload, LabError> {
        let mut options = nandex_stacks::options::sharing::resolve(self.options, set)?;
        if let Some(source) = options.get_mut("source") {
            *source = strings::Source::find(source, data)?.name().to_string();
        }
        let parameters = Parameters { seed, options, data: data.map(PathBuf::from) };
        let (values, phases) = (Values::of(&parameters)?, (self.generate)(&parameters)?);
        Ok(Workload { name: self.name.to_string(), seed, options: parameters.options, values, phases })
    }

    /// Whether the values have different lengths.
    pub fn has_long_values(&self) -> bool {
        self.options.iter().any(|option| option.name == values::LENGTHS)
    }

    /// Whether the workload consists of sensor readings.
    pub fn has_readings(&self) -> bool {
        self.options.iter().any(|option| option.name == values::WALK)
    }
}

/// All generators.
pub const WORKLOADS: &[WorkloadEntry] = &[
    mu::ENTRY,
    sequence::ENTRY,
    ycsb::A,
    ycsb::B,
    ycsb::C,
    ycsb::D,
    ycsb::E,
    ycsb::F,
    mix::UNIFORM,
    mix::ZIPFIAN,
    mix::HOT_COLD,
    mix::LONG_VALUES,
    ascending::ENTRY,
    local::ENTRY,
    readings::ENTRY,
    authors::ENTRY,
    ls_lru::ENTRY,
];

/// The generator with this name.
pub fn workload(name: &str) -> Result<&'static WorkloadEntry, LabError> {
    Ok(names::find("workload", name, WORKLOADS, |e| e.name)?)
}

/// The seed and the options of a generator.
#[derive(Clone, Debug)]
pub struct Parameters {
    seed: u64,
    options: BTreeMap<String, String>,
    /// Folder of inputs that are not bundled.
    data: Option<PathBuf>,
}

impl Parameters {
    /// A random number generator for one purpose. More draws for one purpose do not change those for another.
    fn rng(&self, purpose: u64) -> Rng {
        Rng::new(self.seed ^ split_mix(purpose))
    }

    fn keys(&self) -> Keys {
        Keys { base: self.rng(0).next_u64() }
    }

    fn data(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    fn text(&self, name: &'static str) -> &str {
        self.options.get(name).map_or("", String::as_str)
    }

    /// The value of an option that is a whole number within bounds.
    fn number_in(&self, name: &'static str, low: u64, high: u64) -> Result<u64, LabError> {
        let text = self.text(name);
        let number = whole_number(text, low..=high).map_err(|why| LabError::bad_option(name, text, why))?;
        // What is counted has its operation or its record in memory.
        machine::require(name, text, u128::from(number) * RECORD_BYTES)?;
        Ok(number)
    }

    /// The value of an option that is a decimal number within bounds.
    fn decimal_in(&self, name: &'static str, low: f64, high: f64) -> Result<f64, LabError> {
        let text = self.text(name);
        let number: f64 = text.parse().map_err(|_| LabError::bad_option(name, text, "is no number"))?;
        if (low..=high).contains(&number) {
            return Ok(number);
        }
        Err(LabError::bad_option(name, text, format!("is not between {low} and {high}")))
    }

    /// Value of an option that takes one of these words.
    fn choice(&self, name: &'static str, words: &[&'static str]) -> Result<&'static str, LabError> {
        let text = self.text(name);
        words
            .iter()
            .find(|w| **w == text)
            .copied()
            .ok_or_else(|| LabError::bad_option(name, text, format!("is none of {}", words.join(", "))))
    }
}

/// Most memory in bytes that an operation or a record of a workload takes: its own, and its place in the
/// model.
const RECORD_BYTES: u128 = 64;

/// Random 64-bit keys by record number. The mapping is one to one, so all keys are different.
#[derive(Clone, Copy, Debug)]
struct Keys {
    base: u64,
}

impl Keys {
    fn key(self, record: u64) -> u64 {
        split_mix(self.base.wrapping_add(record))
    }
}

/// Most records of a workload, because the runner's model numbers slots with 32 bits.
const RECORDS_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn build(name: &str, seed: u64, set: &[(&str, &str)]) -> Workload {
        let mut options = Options::default();
        set.iter().for_each(|(k, v)| options.set(k, v));
        workload(name).unwrap().build(seed, &options).unwrap()
    }

    /// A small workload of a generator.
    fn small(entry: &WorkloadEntry, seed: u64) -> Workload {
        let sizes = [("records", "500"), ("operations", "400")];
        // Names are the same everywhere where they come with the program.
        let bundled: &[_] =
            if entry.options.iter().any(|o| o.name == "source") { &[("source", "words")] } else { &[] };
        build(entry.name, seed, &[&sizes, bundled].concat())
    }

    /// A checksum of all bytes that a run would see.
    fn fingerprint(workload: &Workload) -> u32 {
        let mut bytes = Vec::new();
        for phase in &workload.phases {
            bytes.extend_from_slice(phase.name.as_bytes());
            for op in &phase.ops {
                bytes.extend_from_slice(&[op.kind as u8, op.tree]);
                bytes.extend_from_slice(&op.count.to_le_bytes());
                bytes.extend_from_slice(&op.key.to_le_bytes());
            }
        }
        nandex::codec::crc32(&[&bytes])
    }

    #[test]
    fn a_seed_fixes_every_byte_on_every_machine() {
        // Recorded once; a difference means that published figures can no longer be repeated.
        let recorded = [
            ("mu", 0x916f_2004),
            ("rs", 0xcb7c_6b0a),
            ("ycsb-a", 0x3dc5_28d5),
            ("ycsb-b", 0x3a8a_8208),
            ("ycsb-c", 0x8db1_0343),
            ("ycsb-d", 0x4302_6ff9),
            ("ycsb-e", 0x195b_3e9c),
            ("ycsb-f", 0x175a_4141),
            ("uniform", 0xb9d0_23c1),
            ("zipfian", 0x5492_4fe8),
            ("hot-cold", 0x4784_d530),
            ("long-values", 0x0329_ab79),
            ("ascending", 0x8916_4563),
            ("local", 0x837d_49bb),
            ("readings", 0x99b9_531b),
            ("authors", 0x679d_59ac),
            ("ls-lru", 0xd9ef_bf8b),
        ];
        let now: Vec<(&str, u32)> = WORKLOADS.iter().map(|e| (e.name, fingerprint(&small(e, 7)))).collect();
        assert_eq!(now, recorded);
    }

    #[test]
    fn another_seed_is_another_workload() {
        for entry in WORKLOADS {
            assert_eq!(small(entry, 1), small(entry, 1));
            assert_ne!(small(entry, 1).phases, small(entry, 2).phases, "{}", entry.name);
        }
    }

    #[test]
    fn every_operation_means_what_it_says() {
        for entry in WORKLOADS {
            let mut present = BTreeSet::new();
            for op in small(entry, 3).ops() {
                match op.kind {
                    OpKind::Insert => assert!(present.insert(op.key), "{}: {op:?}", entry.name),
                    OpKind::Remove => assert!(present.remove(&op.key), "{}: {op:?}", entry.name),
                    OpKind::Sync => {}
                    _ => assert!(present.contains(&op.key) && op.count > 0, "{}: {op:?}", entry.name),
                }
            }
        }
    }

    #[test]
    fn the_microbenchmark_has_the_papers_sizes() {
        let w = build("mu", 1, &[]);
        let sizes: Vec<_> = w.phases.iter().map(|p| (p.name.as_str(), p.measured, p.ops.len())).collect();
        let tens = 10_000;
        assert_eq!(sizes[0], ("load", false, 1_000_000));
        assert_eq!(
            sizes[1..],
            [("retrievals", true, tens), ("deletions", true, tens), ("insertions", true, tens)]
        );
        let loaded: BTreeSet<u64> = w.phases[0].ops.iter().map(|o| o.key).collect();
        assert_eq!(loaded.len(), 1_000_000);
        assert!(w.phases[3].ops.iter().all(|o| !loaded.contains(&o.key)));
    }

    #[test]
    fn the_sequence_ratio_is_the_share_of_ascending_inserts() {
        let keys = |rs: &str, layout: &str| -> Vec<u64> {
            let set = [("records", "1000"), ("rs", rs), ("layout", layout)];
            build("rs", 1, &set).ops().map(|o| o.key).collect()
        };
        for layout in ["disjoint", "spread"] {
            assert!(keys("1", layout).iter().copied().eq(1..=1000));
            for rs in ["0", "0.25", "0.5"] {
                let mut all = keys(rs, layout);
                all.sort_unstable();
                assert!(all.iter().copied().eq(1..=1000), "{rs} {layout}");
            }
        }
        let lower: Vec<u64> = keys("0.5", "disjoint").into_iter().filter(|&k| k <= 500).collect();
        assert!(lower.iter().copied().eq(1..=500));
        assert!(!keys("0", "disjoint").is_sorted());
    }

    #[test]
    fn deletions_are_mixed_into_the_inserts() {
        for (deletions, expected) in [("0", 0), ("10", 100), ("50", 500), ("100", 1000)] {
            let left = (1000 - expected).to_string();
            let set = [("records", "1000"), ("rs", "0.5"), ("deletions", deletions), ("removals", &left)];
            let w = build("rs", 1, &[&set[..], &[("operations", "300"), ("modifications", "50")]].concat());
            let removed = |ops: &[Op]| ops.iter().filter(|op| op.kind == OpKind::Remove).count();
            assert_eq!((removed(&w.phases[0].ops), w.phases[0].ops.len()), (expected, 1000 + expected));
            assert!(expected == 0 || removed(&w.phases[0].ops[..500]) > expected / 10, "in between");
            let mut present = BTreeSet::new();
            for op in w.ops() {
                match op.kind {
                    OpKind::Insert => assert!(present.insert(op.key)),
                    OpKind::Remove => assert!(present.remove(&op.key)),
                    _ => assert!(present.contains(&op.key)),
                }
            }
            assert!(present.is_empty(), "{deletions}");
        }
        let mut options = Options::default();
        for (name, value) in [("records", "100"), ("deletions", "20"), ("removals", "81")] {
            options.set(name, value);
        }
        let refused = workload("rs").unwrap().build(1, &options).unwrap_err().to_string();
        assert_eq!(refused, "option removals: '81' is more than the 80 records that are left");
    }

    #[test]
    fn the_mixes_have_the_shares_asked_for() {
        let share = |w: &Workload, kind| {
            let run = &w.phases[1].ops;
            run.iter().filter(|o| o.kind == kind).count() * 100 / run.len()
        };
        let set =
            [("records", "5000"), ("operations", "50000"), ("get", "1"), ("insert", "1"), ("remove", "0")];
        let w = build("uniform", 1, &[&set[..], &[("update", "2")]].concat());
        let found = [OpKind::Get, OpKind::Insert, OpKind::Update, OpKind::Remove].map(|k| share(&w, k));
        assert!(found[0].abs_diff(25) <= 1 && found[1].abs_diff(25) <= 1 && found[2].abs_diff(50) <= 1);
        assert_eq!(found[3], 0);
        let f = build("ycsb-f", 1, &[("records", "1000")]);
        assert!(share(&f, OpKind::Update).abs_diff(33) <= 1);
    }

    #[test]
    fn senseless_options_are_refused() {
        let refuse = |name: &str, set: (&str, &str)| {
            let mut options = Options::default();
            options.set(set.0, set.1);
            workload(name).unwrap().build(1, &options).unwrap_err().to_string()
        };
        assert_eq!(refuse("rs", ("rs", "1.5")), "option rs: '1.5' is not between 0 and 1");
        assert_eq!(refuse("mu", ("records", "many")), "option records: 'many' is no whole number");
        assert_eq!(refuse("mu", ("recrods", "5")), "there is no option 'recrods'; did you mean 'records'?");
        assert!(refuse("mu", ("records", "5")).contains("exceeds the 5 records"));
        let unknown = workload("ycsb_a").unwrap_err().to_string();
        assert_eq!(unknown, "there is no workload 'ycsb_a'; did you mean 'ycsb-a'?");
    }
}
