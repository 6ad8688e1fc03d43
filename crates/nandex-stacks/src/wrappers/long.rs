//! [`Variable`] and [`ValueLog`] over an index of the registry, opened with records, pieces and logs that
//! suit the values.

use super::filled::{Fill, Filled};
use crate::indexes::index;
use crate::options::{Settings, wrappers as own};
use nandex::nand::BlockRange;
use nandex::ordered::value_log::{self, ValueLog};
use nandex::ordered::variable::Variable;
use nandex::ordered::{Change, Direction, IndexStats, Metric, RecordFormat, Visit};
use nandex::{CheckReport, Geometry, IndexError, Nand, OrderedIndex, Shared};
use std::ops::Bound;

/// Indexes to use below: one that packs pages itself, one that writes paths, and one on logical pages.
pub(super) const BELOW: [&str; 3] = ["plow", "mu", "bplus"];

/// Most bytes that are added to a key if no lengths are set.
const KEY_FILL: u8 = 3;
/// Most bytes that are added to a value in pieces if no lengths are set.
const PIECES_FILL: usize = 60;
/// Size of the longest key, in bytes.
const KEY_MAX: u8 = 250;
/// Largest value that stays with its key, in bytes.
const SHORT: u8 = 20;
/// A piece takes one part in this many of a page, if lengths are set.
const PIECE_SHARE: u32 = 8;

pub(super) fn pieces<const BELOW_AT: usize, const MOUNTS: bool>(
    nand: Box<dyn Nand>,
    settings: &Settings,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let shape = Shape::new(settings, PIECES_FILL)?;
    let RecordFormat { key_bytes, value_bytes } = settings.record;
    // A piece for all, or a few.
    let drawn = (usize::from(value_bytes) + PIECES_FILL) / (1 + usize::from(key_bytes) % 3) + 2;
    let usual = match own::lengths(&settings.options)? {
        None => drawn.clamp(8, 255),
        Some(_) => (nand.geometry().page_bytes / PIECE_SHARE).clamp(8, 255) as usize,
    };
    let piece = own::piece(&settings.options)?.unwrap_or(usual as u8);
    let record = RecordFormat::variable(shape.key_bytes, piece);
    let below = open::<BELOW_AT, MOUNTS>(nand, &Settings { record, ..settings.clone() })?;
    let wrap = if MOUNTS { Variable::new } else { Variable::format };
    let long = wrap(below, shape.most).map_err(unsupported)?;
    Ok(Box::new(Filled::new(long, settings.record, [shape.key, shape.value])))
}

pub(super) fn values<const BELOW_AT: usize, const MOUNTS: bool>(
    nand: Box<dyn Nand>,
    settings: &Settings,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let geometry = nand.geometry();
    let shape = Shape::new(settings, values_fill(geometry))?;
    let record = values_record(&shape, settings)?;
    let [log, keys] = BlockRange::divide(nand, log_blocks(geometry, settings)?);
    let taken = value_log::ram_needed(geometry, record, shape.most);
    let ram_bytes = settings.ram_bytes.map(|bytes| bytes.saturating_sub(taken));
    let below =
        open::<BELOW_AT, MOUNTS>(Box::new(keys), &Settings { record, ram_bytes, ..settings.clone() })?;
    let wrap = if MOUNTS { ValueLog::new } else { ValueLog::format };
    let log = wrap(below, log, shape.most).map_err(unsupported)?;
    let long = Logged { log, page_bytes: geometry.page_bytes };
    Ok(Box::new(Filled::new(long, settings.record, [shape.key, shape.value])))
}

/// The sizes of keys and values after they are filled up.
struct Shape {
    key: Fill,
    value: Fill,
    /// Largest size of a key, in bytes.
    key_bytes: u8,
    most: usize,
    mean: usize,
}

impl Shape {
    /// The lengths from the settings. If none are set, keys and values are filled up, values with at most
    /// `fill` bytes.
    fn new(settings: &Settings, fill: usize) -> Result<Shape, IndexError> {
        let RecordFormat { key_bytes, value_bytes } = settings.record;
        if key_bytes > KEY_MAX {
            let what = format!("a key of {key_bytes} bytes, not {KEY_MAX}");
            return Err(IndexError::Unsupported(what.into()));
        }
        let value_bytes = usize::from(value_bytes);
        if let Some(lengths) = own::lengths(&settings.options)? {
            let (most, mean) = (lengths.most().max(value_bytes), lengths.mean().max(value_bytes));
            return Ok(Shape { key: Fill::Up(0), value: Fill::To(lengths), key_bytes, most, mean });
        }
        let key_fill = if key_bytes + KEY_FILL <= KEY_MAX { KEY_FILL } else { 0 };
        let most = value_bytes + fill;
        Ok(Shape {
            key: Fill::Up(key_fill.into()),
            value: Fill::Up(fill),
            key_bytes: key_bytes.saturating_add(KEY_FILL).min(KEY_MAX),
            most,
            mean: most / 4,
        })
    }
}

/// The record sizes of an index below a log of values.
fn values_record(shape: &Shape, settings: &Settings) -> Result<RecordFormat, IndexError> {
    Ok(value_log::record(shape.key_bytes, own::short(&settings.options, SHORT)?))
}

/// Most bytes that are added to a value in a log if no lengths are set.
fn values_fill(geometry: Geometry) -> usize {
    geometry.page_bytes as usize * 3 / 2
}

/// Number of blocks of the log of values, at the beginning of the chip.
pub(super) fn log_blocks(geometry: Geometry, settings: &Settings) -> Result<u32, IndexError> {
    let shape = Shape::new(settings, values_fill(geometry))?;
    let blocks = value_log::log_blocks(geometry, values_record(&shape, settings)?, shape.mean);
    Ok(blocks.min(geometry.blocks.saturating_sub(1)))
}

/// Turns the refusal of a batch into one of the setup: an index without such batches cannot take such
/// values.
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
    open(nand, settings)
}

/// The index below, through its trait alone.
pub(super) type Boxed = Box<dyn OrderedIndex>;

pub(super) trait Long: Send {
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
    fn stats(&self) -> IndexStats;
    fn ram_bytes(&self) -> usize;
}

pub(super) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The calls that have the same name in both stores.
macro_rules! same_calls {
    ($($field:ident)?) => {
        fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, IndexError> {
            self$(.$field)?.get_into(key, value)
        }

        fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
            self$(.$field)?.insert(key, value)
        }

        fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
            self$(.$field)?.remove(key)
        }

        fn apply(&mut self, batch: &[Change<'_>]) -> Result<(), IndexError> {
            self$(.$field)?.apply(batch)
        }

        fn range(
            &mut self,
            (low, high): Bounds<'_>,
            direction: Direction,
            visit: Visit<'_>,
        ) -> Result<(), IndexError> {
            self$(.$field)?.range(low, high, direction, visit)
        }

        fn sync(&mut self) -> Result<(), IndexError> {
            self$(.$field)?.sync()
        }

        fn close(&mut self) -> Result<(), IndexError> {
            self$(.$field)?.close()
        }

        fn check(&mut self) -> Result<CheckReport, IndexError> {
            self$(.$field)?.check()
        }

        fn below(&self) -> &Boxed {
            self$(.$field)?.index()
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

    fn stats(&self) -> IndexStats {
        self.index().stats()
    }

    fn ram_bytes(&self) -> usize {
        self.index().ram_bytes()
    }
}

struct Logged {
    log: ValueLog<Boxed, BlockRange<Shared<Box<dyn Nand>>>>,
    page_bytes: u32,
}

impl Long for Logged {
    same_calls!(log);

    fn maintain(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.log.maintain(budget)
    }

    fn scrub(&mut self, budget: u32) -> Result<u32, IndexError> {
        self.log.scrub(budget)
    }

    /// The statistics of the index with the pages and the work of the log.
    fn stats(&self) -> IndexStats {
        let (mut stats, log) = (self.log.index().stats(), self.log.log_stats());
        stats.live_pages += log.live_bytes.div_ceil(self.page_bytes.into());
        stats.metrics.extend([
            Metric { name: "log_live_bytes", value: log.live_bytes },
            Metric { name: "log_capacity_bytes", value: log.capacity_bytes },
            Metric { name: "values_moved", value: log.values_moved },
        ]);
        stats
    }

    fn ram_bytes(&self) -> usize {
        self.log.ram_bytes()
    }
}
