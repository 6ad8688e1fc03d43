//! Logs of sensor readings: appended in time, found by time and by value, the oldest given up when the chip
//! is full.
//!
//! A log of readings is no ordered index: times rise and repeat, nothing is updated or removed, and what is
//! old goes by itself. So it has an interface of its own, [`SensorLog`].

pub mod microhash;

use core::ops::{ControlFlow, RangeInclusive};
use nandex::check::{CheckReport, IndexError};
use nandex::index::IndexStats;

/// A measured value of a sensor, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading {
    /// The time, in whatever unit the clock has.
    pub time: u64,
    /// The value.
    pub value: i32,
}

/// Is shown each reading found, and says whether to go on.
pub type Show<'a> = &'a mut dyn FnMut(Reading) -> ControlFlow<()>;

/// A log of readings in the order of their times.
pub trait SensorLog: nandex::shared::MaybeSend {
    /// Adds a reading. Its time must not precede the newest one's ([`IndexError::NotAscending`]).
    fn append(&mut self, reading: Reading) -> Result<(), IndexError>;

    /// Shows the readings of these times, the oldest first.
    fn by_time(&mut self, times: RangeInclusive<u64>, show: Show<'_>) -> Result<(), IndexError>;

    /// Shows the readings of these values, each once, in no order that is promised.
    fn by_value(&mut self, values: RangeInclusive<i32>, show: Show<'_>) -> Result<(), IndexError>;

    /// The oldest reading that is still there.
    fn oldest(&mut self) -> Result<Option<Reading>, IndexError>;

    /// The newest reading.
    fn newest(&mut self) -> Result<Option<Reading>, IndexError>;

    /// Makes every reading so far durable.
    fn sync(&mut self) -> Result<(), IndexError>;

    /// A sync whose page may be damaged without going unnoticed.
    fn close(&mut self) -> Result<(), IndexError>;

    /// Walks over everything and reports what breaks an invariant.
    fn check(&mut self) -> Result<CheckReport, IndexError>;

    /// The statistics of the log.
    fn stats(&self) -> IndexStats;

    /// RAM it holds.
    fn ram_bytes(&self) -> usize;
}
