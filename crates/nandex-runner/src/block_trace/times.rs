//! The order of requests in time.
//!
//! Logs are out of order by a little: blktrace merges the buffers of several processors, and a log of
//! completed requests has each request as late as it took. Such requests are put in order and counted. A
//! time that lies further back, or far ahead, comes from a clock that was set, from logs one after the other,
//! or from a damaged line: one such time would make all others wait for years, so the trace is refused there.

use super::Request;
use std::fmt;

/// How far back a time may lie: as long as Windows waits for a disk. Linux waits half as long.
const BACK_NS_MAX: u64 = 60 * SECOND_NS;

/// How far ahead a time may lie. No public trace is silent for so long.
const AHEAD_NS_MAX: u64 = 30 * 24 * 3600 * SECOND_NS;

const SECOND_NS: u64 = 1_000_000_000;

/// Largest time of a request, some 146 years. It leaves room to add the time that requests take.
const TIME_NS_MAX: u64 = 1 << 62;

/// The times of a trace, in the order of its lines.
pub(super) struct Clock {
    scale: u64,
    first_ns: Option<u64>,
    newest_ns: u64,
    late: u64,
}

impl Clock {
    pub(super) fn new(scale: u64) -> Clock {
        Clock { scale, first_ns: None, newest_ns: 0, late: 0 }
    }

    /// Number of requests so far that came after a later one.
    pub(super) fn late(&self) -> u64 {
        self.late
    }

    /// Takes the time of the next request, as the trace has it, and returns it.
    pub(super) fn take(&mut self, time_ns: u64) -> Result<u64, String> {
        let newest_ns = if self.first_ns.is_some() { self.newest_ns } else { time_ns };
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        let (at, before) = (Seconds(time_ns), Seconds(newest_ns));
        if time_ns < newest_ns {
            let back = newest_ns - time_ns;
            if back > BACK_NS_MAX {
                return Err(format!(
                    "the time {at} goes {} back, after {before}; requests are put in order within {}, and more \
                     is an error of the trace",
                    Seconds(back),
                    Seconds(BACK_NS_MAX)
                ));
            }
            self.late += 1;
        } else if time_ns - newest_ns > AHEAD_NS_MAX {
            let days = AHEAD_NS_MAX / (24 * 3600 * SECOND_NS);
            return Err(format!(
                "the time {at} comes {} after {before}; more than {days} days without a request are an error \
                 of the trace",
                Seconds(time_ns - newest_ns)
            ));
        }
        let scaled = time_ns.saturating_sub(first_ns).checked_mul(self.scale);
        scaled.filter(|&ns| ns < TIME_NS_MAX).ok_or("the time is centuries after the first one")?;
        self.newest_ns = time_ns.max(newest_ns);
        Ok(time_ns)
    }

    /// Puts requests in order of time and counts their times from the first one.
    pub(super) fn set(&self, requests: &mut [Request]) -> Result<(), String> {
        if self.late > 0 {
            // Requests of one time stay in the order of their lines.
            requests.sort_by_key(|request| request.time_ns);
        }
        let first_ns = requests.first().map_or(0, |request| request.time_ns);
        for request in requests {
            let scaled = (request.time_ns - first_ns).checked_mul(self.scale);
            let scaled = scaled.filter(|&ns| ns < TIME_NS_MAX);
            request.time_ns = scaled.ok_or("the last time is centuries after the first one")?;
        }
        Ok(())
    }
}

/// A time in seconds, to the nanosecond.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / SECOND_NS, self.0 % SECOND_NS);
        let part = format!("{part:09}");
        match part.trim_end_matches('0') {
            "" => write!(f, "{whole} s"),
            part => write!(f, "{whole}.{part} s"),
        }
    }
}
