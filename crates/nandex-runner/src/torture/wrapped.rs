//! Subjects beside the indexes of the registry: [`Variable`] and [`ValueLog`], which make of an index one of
//! keys and values of any length, and the log of readings (`readings`).
//!
//! A life has keys and values of one length. Here each is filled up to a length of its own that follows from
//! its bytes, and what comes back must be filled so. So the order of keys stays, and lengths are all about.

use super::readings;
use crate::crash::subject::{MICROHASH, VALUES};
use crate::error::LabError;
use crate::registry::Hosting;
use crate::registry::{IndexEntry, index};
use nandex::nand::BlockRange;
use nandex::ordered::value_log::{self, ValueLog};
use nandex::ordered::variable::Variable;
use nandex::ordered::{Change, Direction, Durability, IndexStats, RecordFormat, Visit};
use nandex::rng::split_mix;
use nandex::{CheckReport, Geometry, IndexError, Nand, OrderedIndex, Shared, forward_index};
use nandex_stacks::options::Settings;
use std::ops::Bound;
use std::sync::LazyLock;

/// The indexes below: one that packs pages of its own, one that writes paths, one on logical pages.
const BELOW: [&str; 3] = ["plow", "mu", "bplus"];

/// The subjects.
pub static WRAPPED: LazyLock<Vec<IndexEntry>> = LazyLock::new(|| {
    let entry = |name: &'static str, below: usize, [format, mount]: [Open; 2]| {
        let below = index(BELOW[below]).unwrap_or_else(|error| unreachable!("{error}"));
        IndexEntry { name, format, mount, mount_after_cut: None, forest: None, ..*below }
    };
    let appended = index("sbits").unwrap_or_else(|error| unreachable!("{error}"));
    let microhash = IndexEntry {
        name: MICROHASH,
        summary: "a log of readings by time and by value",
        hosting: Hosting::Raw,
        format: readings::format,
        mount: readings::mount,
        mount_after_cut: None,
        forest: None,
        options: &[],
        options_on_ftl: &[],
        ..*appended
    };
    vec![
        entry("variable:plow", 0, [pieces::<0, false>, pieces::<0, true>]),
        entry("variable:mu", 1, [pieces::<1, false>, pieces::<1, true>]),
        entry("variable:bplus", 2, [pieces::<2, false>, pieces::<2, true>]),
        entry("values:plow", 0, [values::<0, false>, values::<0, true>]),
        entry("values:mu", 1, [values::<1, false>, values::<1, true>]),
        entry("values:bplus", 2, [values::<2, false>, values::<2, true>]),
        microhash,
    ]
});

/// One of them by its name.
pub fn wrapped(name: &str) -> Result<&'static IndexEntry, LabError> {
    let names = WRAPPED.iter().map(|entry| entry.name);
    WRAPPED
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| LabError::unknown("wrapped index", name, names))
}

type Open = fn(Box<dyn Nand>, &Settings) -> Result<Box<dyn OrderedIndex>, IndexError>;

/// Bytes that a key is filled up with at most.
const KEY_FILL: u8 = 3;
/// Bytes that a value in pieces is filled up with at most.
const PIECES_FILL: usize = 60;
/// Bytes of the longest key.
const KEY_MAX: u8 = 250;
/// Bytes of values that stay with their keys.
const SHORT: u8 = 20;

fn pieces<const BELOW_AT: usize, const MOUNTS: bool>(
    nand: Box<dyn Nand>,
    settings: &Settings,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    require_key(settings)?;
    let RecordFormat { key_bytes, value_bytes } = settings.record;
    let most = usize::from(value_bytes) + PIECES_FILL;
    // A piece for all, or a few.
    let piece = (most / (1 + usize::from(key_bytes) % 3) + 2).clamp(8, 255) as u8;
    let record = RecordFormat::variable(key_bytes.saturating_add(KEY_FILL).min(KEY_MAX), piece);
    let below = open::<BELOW_AT, MOUNTS>(nand, &Settings { record, ..settings.clone() })?;
    let wrap = if MOUNTS { Variable::new } else { Variable::format };
    let long = wrap(below, most).map_err(unsupported)?;
    Ok(Box::new(Filled { long, record: settings.record, fill: PIECES_FILL, held: Vec::new() }))
}

fn values<const BELOW_AT: usize, const MOUNTS: bool>(
    nand: Box<dyn Nand>,
    settings: &Settings,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    require_key(settings)?;
    let geometry = nand.geometry();
    let (record, fill) = (values_record(settings), values_fill(geometry));
    let most = usize::from(settings.record.value_bytes) + fill;
    let [log, keys] = BlockRange::divide(nand, values_blocks(geometry, settings));
    let taken = value_log::ram_needed(geometry, record, most);
    let ram_bytes = settings.ram_bytes.map(|bytes| bytes.saturating_sub(taken));
    let below =
        open::<BELOW_AT, MOUNTS>(Box::new(keys), &Settings { record, ram_bytes, ..settings.clone() })?;
    let wrap = if MOUNTS { ValueLog::new } else { ValueLog::format };
    let long = wrap(below, log, most).map_err(unsupported)?;
    Ok(Box::new(Filled { long, record: settings.record, fill, held: Vec::new() }))
}

fn require_key(settings: &Settings) -> Result<(), IndexError> {
    match settings.record.key_bytes {
        ..=KEY_MAX => Ok(()),
        longer => Err(IndexError::Unsupported(format!("a key of {longer} bytes, not {KEY_MAX}").into())),
    }
}

/// The records of an index below a log of values.
fn values_record(settings: &Settings) -> RecordFormat {
    value_log::record(settings.record.key_bytes.saturating_add(KEY_FILL).min(KEY_MAX), SHORT)
}

/// Bytes that a value in a log is filled up with at most.
fn values_fill(geometry: Geometry) -> usize {
    geometry.page_bytes as usize * 3 / 2
}

fn values_blocks(geometry: Geometry, settings: &Settings) -> u32 {
    let most = usize::from(settings.record.value_bytes) + values_fill(geometry);
    let blocks = value_log::log_blocks(geometry, values_record(settings), most / 4);
    blocks.min(geometry.blocks.saturating_sub(1))
}

/// Blocks at the beginning of the chip that a subject of this name has for its log of values.
pub(super) fn log_blocks(name: &str, geometry: Geometry, settings: &Settings) -> u32 {
    if name.starts_with(VALUES) { values_blocks(geometry, settings) } else { 0 }
}

/// An index that makes no such batches takes no such values.
fn unsupported(error: IndexError) -> IndexError {
    match error {
        IndexError::BatchTooLarge { .. } => IndexError::Unsupported(error.to_string().into()),
        error => error,
    }
}

fn open<const BELOW_AT: usize, const MOUNTS: bool>(
    nand: Box<dyn Nand>,
    settings: &Settings,
) -> Result<Boxed, IndexError> {
    let entry = index(BELOW[BELOW_AT]).unwrap_or_else(|error| unreachable!("{error}"));
    let open = if MOUNTS { entry.mount } else { entry.format };
    Ok(Boxed { index: open(nand, settings)? })
}

/// The index below, by its trait alone.
struct Boxed {
    index: Box<dyn OrderedIndex>,
}

impl OrderedIndex for Boxed {
    forward_index!(index: record, durability, get, insert, put, remove, apply, load, range, maintain, scrub, free,
        sync, close, check, stats, ram_bytes);
}

/// Keys and values of any length.
trait Long: Send {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, IndexError>;
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError>;
    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError>;
    fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError>;
    fn range(&mut self, bounds: Bounds<'_>, direction: Direction, visit: Visit<'_>)
    -> Result<(), IndexError>;
    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError>;
    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError>;
    fn sync(&mut self) -> Result<(), IndexError>;
    fn close(&mut self) -> Result<(), IndexError>;
    fn check(&mut self) -> Result<CheckReport, IndexError>;
    fn below(&self) -> &Boxed;
    fn ram_bytes(&self) -> usize;
}

type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The calls that both have under one name.
macro_rules! same_calls {
    () => {
        fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, IndexError> {
            self.get_into(key, value)
        }

        fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
            self.insert(key, value)
        }

        fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
            self.remove(key)
        }

        fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
            self.apply(batch)
        }

        fn range(
            &mut self,
            (low, high): Bounds<'_>,
            direction: Direction,
            visit: Visit<'_>,
        ) -> Result<(), IndexError> {
            self.range(low, high, direction, visit)
        }

        fn sync(&mut self) -> Result<(), IndexError> {
            self.sync()
        }

        fn close(&mut self) -> Result<(), IndexError> {
            self.close()
        }

        fn check(&mut self) -> Result<CheckReport, IndexError> {
            self.check()
        }

        fn below(&self) -> &Boxed {
            self.index()
        }
    };
}

impl Long for Variable<Boxed> {
    same_calls!();

    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.index_mut().maintain(budget)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.index_mut().scrub(budget)
    }

    fn ram_bytes(&self) -> usize {
        self.index().ram_bytes()
    }
}

impl Long for ValueLog<Boxed, BlockRange<Shared<Box<dyn Nand>>>> {
    same_calls!();

    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.maintain(budget)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.scrub(budget)
    }

    fn ram_bytes(&self) -> usize {
        self.ram_bytes()
    }
}

/// Records of one length in an index of any length.
struct Filled<L> {
    long: L,
    record: RecordFormat,
    /// Bytes that a value is filled up with at most.
    fill: usize,
    held: Vec<u8>,
}

fn seed_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(bytes.len() as u64, |seed, &byte| split_mix(seed ^ u64::from(byte)))
}

fn filled(bytes: &[u8], fill: usize) -> Vec<u8> {
    let seed = seed_of(bytes);
    // Half of them are short.
    let most = if seed.is_multiple_of(2) { fill / 8 } else { fill };
    let more = (seed >> 8) as usize % (most + 1);
    let mut long = bytes.to_vec();
    long.extend((0..more).map(|at| (seed >> (at % 7 * 8)) as u8));
    long
}

/// The bytes that were filled up to these; of what was never filled so, bytes that nobody wrote, as an error
/// would be taken for one of the index below.
fn unfilled(long: &[u8], bytes: u8, fill: usize) -> Vec<u8> {
    let kept = &long[..long.len().min(bytes.into())];
    if filled(kept, fill) == long {
        kept.to_vec()
    } else {
        opposite(&[kept, &[0; 255]].concat()[..bytes.into()])
    }
}

/// Other bytes than these.
pub(super) fn opposite(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}

fn long_key(key: &[u8]) -> Vec<u8> {
    filled(key, if key.len() + usize::from(KEY_FILL) <= KEY_MAX.into() { KEY_FILL.into() } else { 0 })
}

impl<L: Long> OrderedIndex for Filled<L> {
    forward_index!(long: maintain, scrub, sync, close, check, ram_bytes);

    fn record(&self) -> RecordFormat {
        self.record
    }

    fn durability(&self) -> Durability {
        self.long.below().durability()
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        if !self.long.get(&long_key(key), &mut self.held)? {
            return Ok(false);
        }
        value.copy_from_slice(&unfilled(&self.held, self.record.value_bytes, self.fill));
        Ok(true)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.long.insert(&long_key(key), &filled(value, self.fill))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.apply(&[Change::put(key, value)])
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        self.long.remove(&long_key(key))
    }

    fn batch_max(&self) -> usize {
        self.long.below().batch_max().min(8)
    }

    fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
        let fill = self.fill;
        let records: Vec<(Vec<u8>, Option<Vec<u8>>)> = batch
            .iter()
            .map(|change| (long_key(change.key()), change.value().map(|value| filled(value, fill))))
            .collect();
        let batch: Vec<Change<'_>> = records
            .iter()
            .map(|(key, value)| match value {
                Some(value) => Change::put(key, value),
                None => Change::remove(key),
            })
            .collect();
        self.long.apply(&batch)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        let (low, high) = (low.map(long_key), high.map(long_key));
        let (record, fill) = (self.record, self.fill);
        let key_fill = if record.key_bytes + KEY_FILL <= KEY_MAX { usize::from(KEY_FILL) } else { 0 };
        let bounds = (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
        self.long.range(bounds, direction, &mut |key, value| {
            visit(&unfilled(key, record.key_bytes, key_fill), &unfilled(value, record.value_bytes, fill))
        })
    }

    fn stats(&self) -> IndexStats {
        self.long.below().stats()
    }
}
