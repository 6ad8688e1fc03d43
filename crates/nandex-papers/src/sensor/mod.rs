//! Logs of sensor readings: readings are appended in time order and found by time or value. If the chip is
//! full, the oldest are dropped.
//!
//! A log of readings is no ordered index: times rise and repeat, nothing is updated or removed, and old
//! readings disappear by themselves. So it has an interface of its own, [`SensorLog`].

pub mod microhash;

use core::ops::{ControlFlow, RangeInclusive};
use nandex::check::{CheckReport, IndexError};
use nandex::index::IndexStats;

/// A measured value of a sensor, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading {
    /// Time of the reading, in the unit of the sensor's clock.
    pub time: u64,
    /// Measured value.
    pub value: i32,
}

/// A callback that gets each reading found, and tells whether to go on.
pub type Show<'a> = &'a mut dyn FnMut(Reading) -> ControlFlow<()>;

/// A log of readings in the order of their times.
pub trait SensorLog: nandex::shared::MaybeSend {
    /// Adds a reading. Its time must not precede the newest one's ([`IndexError::NotAscending`]).
    fn append(&mut self, reading: Reading) -> Result<(), IndexError>;

    /// Shows the readings whose time is in the range, the oldest first.
    fn by_time(&mut self, times: RangeInclusive<u64>, show: Show<'_>) -> Result<(), IndexError>;

    /// Shows the readings whose value is in the range, each once. The order is not promised.
    fn by_value(&mut self, values: RangeInclusive<i32>, show: Show<'_>) -> Result<(), IndexError>;

    /// The oldest reading still in the log.
    fn oldest(&mut self) -> Result<Option<Reading>, IndexError>;

    /// The newest reading in the log.
    fn newest(&mut self) -> Result<Option<Reading>, IndexError>;

    /// Makes every reading so far durable.
    fn sync(&mut self) -> Result<(), IndexError>;

    /// Makes every reading durable like a sync. In addition, later damage to the page written is always
    /// noticed.
    fn close(&mut self) -> Result<(), IndexError>;

    /// Checks all invariants and reports violations.
    fn check(&mut self) -> Result<CheckReport, IndexError>;

    /// Statistics of the log.
    fn stats(&self) -> IndexStats;

    /// Bytes of RAM that the log holds.
    fn ram_bytes(&self) -> usize;
}
