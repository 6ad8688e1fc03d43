//! MicroHash shown as an index of times to which records are appended.
//!
//! A key is a time, and its value is the reading. The log drops its oldest readings by itself, which no index
//! does. A comparison of contents must allow for that.

use super::opposite;
use crate::options::{Settings, wrappers as own};
use nandex::ordered::{Direction, Durability, RecordFormat, Visit};
use nandex::{IndexError, Nand, OrderedIndex, forward_index};
use nandex_papers::sensor::microhash::{MicroHash, MicroHashConfig as LogConfig};
use nandex_papers::sensor::{Reading, SensorLog};
use std::ops::{Bound, ControlFlow};

/// Time between two slots.
const STEP: u64 = 3;
/// If the option is not set, one in this many look-ups by time also asks for the time by its value. That
/// reads a whole bucket.
const BY_VALUE: u32 = 16;

type Log = MicroHash<Box<dyn Nand>>;

struct Readings {
    log: Log,
    by_value: u32,
}

impl Readings {
    fn over(
        nand: Box<dyn Nand>,
        settings: &Settings,
        open: impl FnOnce(Box<dyn Nand>, &LogConfig) -> Result<Log, IndexError>,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let by_value = own::by_value(&settings.options)?.unwrap_or(BY_VALUE);
        Ok(Box::new(Readings { log: open(nand, &log_settings(settings)?)?, by_value }))
    }
}

pub(super) fn format(nand: Box<dyn Nand>, settings: &Settings) -> Result<Box<dyn OrderedIndex>, IndexError> {
    Readings::over(nand, settings, Log::format)
}

pub(super) fn mount(nand: Box<dyn Nand>, settings: &Settings) -> Result<Box<dyn OrderedIndex>, IndexError> {
    Readings::over(nand, settings, Log::mount)
}

/// The settings of a log. Those that are not set follow from the sizes of the records, which a log does not
/// know.
fn log_settings(settings: &Settings) -> Result<LogConfig, IndexError> {
    if settings.durability == Durability::EveryOperation {
        return Err(IndexError::Unsupported("a log of readings is durable with its syncs".into()));
    }
    let RecordFormat { key_bytes, value_bytes } = settings.record;
    let (all, options) = (LogConfig::default(), &settings.options);
    let drawn = if key_bytes.is_multiple_of(4) { all.values } else { (-500, 500) };
    Ok(LogConfig {
        values: own::values(options)?.unwrap_or(drawn),
        buckets: own::buckets(options)?.unwrap_or([0, 1, 2][usize::from(value_bytes % 3)]),
        horizon: own::horizon(options)?.unwrap_or([0, 5][usize::from(value_bytes / 4 % 2)]),
        ..all
    })
}

fn slot_of(key: &[u8]) -> u32 {
    key.iter().fold(0, |slot, &byte| slot << 8 | u32::from(byte))
}

fn time_of(key: &[u8]) -> u64 {
    u64::from(slot_of(key)) * STEP
}

/// The key of a time. A time without a slot gets a key that was never written.
fn key_of(time: u64) -> [u8; 4] {
    let slot = if time.is_multiple_of(STEP) { u32::try_from(time / STEP).ok() } else { None };
    slot.unwrap_or(u32::MAX).to_be_bytes()
}

impl Readings {
    fn is_found_by_value(&mut self, wanted: Reading) -> Result<bool, IndexError> {
        let mut is_found = false;
        self.log.by_value(wanted.value..=wanted.value, &mut |reading| {
            is_found |= reading == wanted;
            ControlFlow::Continue(())
        })?;
        Ok(is_found)
    }
}

impl OrderedIndex for Readings {
    forward_index!(log: sync, close, check, stats, ram_bytes);

    fn record(&self) -> RecordFormat {
        RecordFormat::new(4, 4)
    }

    fn durability(&self) -> Durability {
        Durability::EverySync
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        let time = time_of(key);
        let mut found = None;
        self.log.by_time(time..=time, &mut |reading| {
            found = Some(reading);
            ControlFlow::Break(())
        })?;
        let Some(reading) = found else { return Ok(false) };
        value.copy_from_slice(&reading.value.to_be_bytes());
        let asks_by_value = self.by_value != 0 && slot_of(key).is_multiple_of(self.by_value);
        if asks_by_value && !self.is_found_by_value(reading)? {
            value.copy_from_slice(&opposite(&reading.value.to_be_bytes()));
        }
        Ok(true)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        let value = value.iter().fold(0, |value, &byte| value << 8 | i32::from(byte));
        self.log.append(Reading { time: time_of(key), value })?;
        Ok(false)
    }

    fn remove(&mut self, _: &[u8]) -> Result<bool, IndexError> {
        Err(IndexError::Unsupported("a log of readings removes none".into()))
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        let from = match low {
            Bound::Included(key) => time_of(key),
            Bound::Excluded(key) => time_of(key) + 1,
            Bound::Unbounded => 0,
        };
        let to = match high {
            Bound::Included(key) => Some(time_of(key)),
            Bound::Excluded(key) => time_of(key).checked_sub(1),
            Bound::Unbounded => Some(u64::MAX),
        };
        let Some(to) = to.filter(|to| from <= *to) else { return Ok(()) };
        if direction == Direction::Ascending {
            let show = &mut |reading: Reading| visit(&key_of(reading.time), &reading.value.to_be_bytes());
            return self.log.by_time(from..=to, show);
        }
        let mut found = Vec::new();
        self.log.by_time(from..=to, &mut |reading| {
            found.push(reading);
            ControlFlow::Continue(())
        })?;
        let mut newest_first = found.into_iter().rev();
        let _ =
            newest_first.try_for_each(|reading| visit(&key_of(reading.time), &reading.value.to_be_bytes()));
        Ok(())
    }
}
