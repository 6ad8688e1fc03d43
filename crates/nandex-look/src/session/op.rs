//! Operations of a run, the workloads that generate them, and the subject that executes them.

use super::setup::{Entry, Plan, Setup};
use super::watch::Watched;
use nandex::ordered::{Direction, Durability, IndexStats, RecordFormat, check_with_look_ups};
use nandex::rng::Rng;
use nandex::spatial::{Rect, Relation};
use nandex::{CheckReport, IndexError, OrderedIndex, SpatialIndex};
use nandex_stacks::registry::Open;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::{Bound, ControlFlow};

/// An operation of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Op {
    /// Inserts a record; in a spatial index, the point with this identifier.
    Insert {
        /// The key or identifier.
        key: u64,
        /// The value, or the two coordinates.
        value: u64,
    },
    /// Removes a record.
    Remove {
        /// The key or identifier.
        key: u64,
    },
    /// Looks up a key; in a spatial index, searches the points near the one with this identifier.
    Get {
        /// The key or identifier.
        key: u64,
    },
    /// Visits records from a key on.
    Range {
        /// First key.
        key: u64,
        /// Most records to visit.
        count: u64,
    },
    /// Makes all earlier operations durable.
    Sync,
}

/// The expected keys and values.
pub(crate) type Contents = BTreeMap<u64, u64>;

impl Op {
    /// The operation in words.
    pub fn words(&self, is_spatial: bool) -> String {
        let point = |value: u64| format!("({}, {})", value >> 32, value & 0xffff_ffff);
        match self {
            Op::Insert { key, value } if is_spatial => format!("insert point {key} at {}", point(*value)),
            Op::Insert { key, value } => format!("insert {key} = {value}"),
            Op::Remove { key } => format!("remove {key}"),
            Op::Get { key } if is_spatial => format!("look around point {key}"),
            Op::Get { key } => format!("get {key}"),
            Op::Range { key, count } => format!("scan {count} from {key}"),
            Op::Sync => "sync".into(),
        }
    }

    /// Applies the operation to the expected contents.
    pub(crate) fn apply(&self, contents: &mut Contents) {
        match self {
            Op::Insert { key, value } => {
                contents.insert(*key, *value);
            }
            Op::Remove { key } => {
                contents.remove(key);
            }
            _ => {}
        }
    }
}

/// The names of the workloads with their descriptions.
pub const WORKLOADS: [(&str, &str); 6] = [
    ("random", "insertions of keys in no order"),
    ("ascending", "insertions of ascending keys"),
    ("mixed", "insertions, new values, removals, look-ups and short scans"),
    ("hot", "new values, four in five for a fifth of the keys"),
    ("lookups", "look-ups and few changes, of records that are there"),
    ("clusters", "insertions of runs of neighbouring keys"),
];

/// The operations of a workload, in order.
pub(crate) struct Source {
    rng: Rng,
    name: String,
    sync_every: usize,
    since_sync: usize,
    made: u64,
    ascending: bool,
    spatial: bool,
    key_max: u64,
    value_max: u64,
}

impl Source {
    pub(crate) fn new(setup: &Setup, plan: &Plan) -> Result<Source, String> {
        if !WORKLOADS.iter().any(|(name, _)| *name == setup.workload) {
            let known: Vec<&str> = WORKLOADS.iter().map(|workload| workload.0).collect();
            return Err(format!("there is no workload '{}'; known: {}", setup.workload, known.join(", ")));
        }
        let bits = |bytes: u8| 8 * u32::from(bytes.min(7));
        let (ascending, spatial) = match plan.entry {
            Entry::Ordered(entry) => (!entry.takes_any_key(), false),
            Entry::Spatial(_) => (false, true),
        };
        Ok(Source {
            rng: Rng::new(setup.seed),
            name: setup.workload.clone(),
            sync_every: setup.sync_every,
            since_sync: 0,
            made: 0,
            ascending,
            spatial,
            key_max: (1u64 << bits(setup.record.0)) - 1,
            value_max: (1u64 << bits(setup.record.1)) - 1,
        })
    }

    /// The next operation, given the current contents.
    pub(crate) fn next(&mut self, contents: &Contents) -> Op {
        if self.sync_every > 0 && self.since_sync == self.sync_every {
            self.since_sync = 0;
            return Op::Sync;
        }
        self.since_sync += 1;
        self.made += 1;
        let value = self.value();
        let there = self.one_of(contents);
        let roll = self.rng.below(100);
        match (self.name.as_str(), there) {
            (_, there) if self.ascending => match there {
                Some(key) if self.name != "ascending" && roll < 20 => Op::Get { key },
                _ => Op::Insert { key: contents.last_key_value().map_or(10, |(key, _)| key + 3), value },
            },
            ("ascending", _) => Op::Insert {
                key: contents.last_key_value().map_or(10, |(key, _)| key + 1).min(self.key_max),
                value,
            },
            ("mixed", Some(key)) if roll < 15 => Op::Remove { key },
            ("mixed", Some(key)) if roll < 35 => Op::Get { key },
            ("mixed", Some(key)) if roll < 40 => Op::Range { key, count: 5 },
            ("mixed", Some(key)) if roll < 60 => Op::Insert { key, value },
            ("hot", Some(key)) if contents.len() >= 60 => {
                let hot = contents.len() as u64 / 5;
                let nth = if roll < 80 {
                    self.rng.below(hot.max(1))
                } else {
                    self.rng.below(contents.len() as u64)
                };
                Op::Insert { key: contents.keys().nth(nth as usize).copied().unwrap_or(key), value }
            }
            ("lookups", Some(key)) if contents.len() >= 60 && roll < 85 => Op::Get { key },
            ("clusters", _) => {
                let (run, place) = (self.made / 12, self.made % 12);
                let mut of_run = Rng::new(run + 7);
                Op::Insert { key: (of_run.below(self.key_max / 2) + place).min(self.key_max), value }
            }
            _ => Op::Insert { key: self.fresh(), value },
        }
    }

    /// Skips `made` operations, as if they had been drawn.
    pub(crate) fn skip(&mut self, made: u64) {
        self.made += made;
        (0..made).for_each(|_| {
            self.rng.next_u64();
        });
    }

    fn fresh(&mut self) -> u64 {
        if self.spatial { self.made } else { self.rng.below(self.key_max.min(99_999)) + 1 }
    }

    fn value(&mut self) -> u64 {
        if self.spatial {
            return self.rng.below(1000) << 32 | self.rng.below(1000);
        }
        self.made.min(self.value_max)
    }

    fn one_of(&mut self, contents: &Contents) -> Option<u64> {
        let nth = self.rng.below(contents.len().max(1) as u64) as usize;
        contents.keys().nth(nth).copied()
    }
}

pub(crate) enum Subject {
    Ordered(Box<dyn OrderedIndex>),
    Spatial(Box<dyn SpatialIndex<i32, 2>>),
}

fn key_bytes(record: RecordFormat, key: u64) -> Vec<u8> {
    key.to_be_bytes()[8 - usize::from(record.key_bytes)..].to_vec()
}

fn value_bytes(record: RecordFormat, value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let wanted = usize::from(record.value_bytes);
    let mut out = vec![0; wanted.saturating_sub(8)];
    out.extend(&bytes[8 - wanted.min(8)..]);
    out
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().take(8).rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn point(value: u64) -> Rect<i32, 2> {
    let corner = [(value >> 32) as i32, (value & 0x7fff_ffff) as i32];
    // Whole numbers are always finite.
    Rect::point(corner).unwrap_or_else(|_| unreachable!("a point of whole numbers"))
}

impl Subject {
    pub(crate) fn open(plan: &Plan, chip: &Watched, open: Open) -> Result<Subject, IndexError> {
        let nand = Box::new(chip.clone());
        Ok(match (plan.entry, open) {
            (Entry::Ordered(entry), Open::Format) => Subject::Ordered((entry.format)(nand, &plan.settings)?),
            (Entry::Ordered(entry), Open::Mount) => Subject::Ordered((entry.mount)(nand, &plan.settings)?),
            (Entry::Ordered(entry), Open::MountAfterCut) => match entry.mount_after_cut {
                Some(mount) => Subject::Ordered(mount(nand, &plan.settings)?),
                None => return Err(IndexError::NotCleanlyClosed),
            },
            (Entry::Spatial(entry), Open::Format) => Subject::Spatial(entry.format(nand, &plan.settings)?),
            (Entry::Spatial(entry), _) => Subject::Spatial(entry.mount(nand, &plan.settings)?),
        })
    }

    pub(crate) fn durability(&self) -> Durability {
        match self {
            Subject::Ordered(index) => index.durability(),
            Subject::Spatial(index) => index.durability(),
        }
    }

    pub(crate) fn stats(&self) -> IndexStats {
        match self {
            Subject::Ordered(index) => index.stats(),
            Subject::Spatial(index) => index.stats(),
        }
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        match self {
            Subject::Ordered(index) => index.ram_bytes(),
            Subject::Spatial(index) => index.ram_bytes(),
        }
    }

    pub(crate) fn check(&mut self) -> Result<CheckReport, IndexError> {
        match self {
            Subject::Ordered(index) => check_with_look_ups(index.as_mut()),
            Subject::Spatial(index) => index.check(),
        }
    }

    /// Does an operation and describes its outcome in words.
    pub(crate) fn apply(&mut self, op: Op, contents: &Contents) -> Result<String, IndexError> {
        match self {
            Subject::Ordered(index) => apply_ordered(index.as_mut(), op),
            Subject::Spatial(index) => apply_spatial(index.as_mut(), op, contents),
        }
    }

    pub(crate) fn contents(&mut self) -> Result<Contents, IndexError> {
        let mut found = Contents::new();
        match self {
            Subject::Ordered(index) => {
                index.range(
                    Bound::Unbounded,
                    Bound::Unbounded,
                    Direction::Ascending,
                    &mut |key, value| {
                        found.insert(number(key), number(value));
                        ControlFlow::Continue(())
                    },
                )?;
            }
            Subject::Spatial(index) => {
                let all = Rect::new([i32::MIN; 2], [i32::MAX; 2])
                    .unwrap_or_else(|_| unreachable!("the least corner is below the greatest"));
                index.window(&all, Relation::Intersects, &mut |rect, id| {
                    let low = rect.low();
                    found.insert(id, (low[0] as u64) << 32 | low[1] as u64);
                    ControlFlow::Continue(())
                })?;
            }
        }
        Ok(found)
    }
}

fn apply_ordered(index: &mut dyn OrderedIndex, op: Op) -> Result<String, IndexError> {
    let record = index.record();
    let key = |key: u64| key_bytes(record, key);
    Ok(match op {
        Op::Insert { key: k, value } => {
            let was_there = index.insert(&key(k), &value_bytes(record, value))?;
            if was_there { "a new value".into() } else { "a new key".into() }
        }
        Op::Remove { key: k } => {
            let was_there = index.remove(&key(k))?;
            if was_there { "removed".into() } else { "was not there".into() }
        }
        Op::Get { key: k } => {
            let mut value = vec![0; usize::from(record.value_bytes)];
            let found = index.get(&key(k), &mut value)?;
            if found { format!("found {}", number(&value)) } else { "not there".into() }
        }
        Op::Range { key: k, count } => {
            let (mut text, mut seen) = (String::new(), 0);
            let low = key(k);
            index.range(
                Bound::Included(&low),
                Bound::Unbounded,
                Direction::Ascending,
                &mut |key, value| {
                    if seen == count {
                        return ControlFlow::Break(());
                    }
                    let _ =
                        write!(text, "{}{}={}", if seen > 0 { ", " } else { "" }, number(key), number(value));
                    seen += 1;
                    ControlFlow::Continue(())
                },
            )?;
            text
        }
        Op::Sync => {
            index.sync()?;
            "everything before is durable".into()
        }
    })
}

fn apply_spatial(
    index: &mut dyn SpatialIndex<i32, 2>,
    op: Op,
    contents: &Contents,
) -> Result<String, IndexError> {
    Ok(match op {
        Op::Insert { key, value } => {
            if let Some(before) = contents.get(&key) {
                index.remove(&point(*before), key)?;
            }
            index.insert(&point(value), key)?;
            "inserted".into()
        }
        Op::Remove { key } => match contents.get(&key) {
            Some(value) if index.remove(&point(*value), key)? => "removed".into(),
            _ => "was not there".into(),
        },
        Op::Get { key } | Op::Range { key, .. } => {
            let around = contents.get(&key).copied().unwrap_or(500 << 32 | 500);
            let (x, y) = ((around >> 32) as i32, (around & 0x7fff_ffff) as i32);
            let near = Rect::new([x.saturating_sub(50), y.saturating_sub(50)], [x + 50, y + 50])
                .unwrap_or_else(|_| unreachable!("a window with its corners in order"));
            let mut found = 0;
            index.window(&near, Relation::Intersects, &mut |_, _| {
                found += 1;
                ControlFlow::Continue(())
            })?;
            format!("{found} points")
        }
        Op::Sync => {
            index.sync()?;
            "everything before is durable".into()
        }
    })
}
