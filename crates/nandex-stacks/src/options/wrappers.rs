//! Options of the stores of long values and of readings. An option that is not set follows from the record
//! sizes, as in tests. A comparison sets the options that its workload implies.

use super::{Number, OptionError, Options};
use crate::lengths::Lengths;
use crate::names::{OptionInfo, option};

const LENGTHS: OptionInfo = option(
    "lengths",
    "as the workload has them; by the record in tests",
    "bytes of a value, LEAST..MOST, log-uniform: each doubling as likely as any other",
);
const PIECE: Number<u8> =
    Number::new(option("piece", "an eighth of a page, up to 255", "bytes of a piece of a value"), (8, 255));
const SHORT: Number<u8> =
    Number::new(option("short", "20", "bytes of a value that stays with its key at most"), (0, 252));
const BUCKETS: Number<usize> = Number::new(
    option("buckets", "16; by the record in tests", "buckets of values; 0: 16, or as many as a page holds"),
    (0, 4096),
);
const HORIZON: Number<u32> = Number::new(
    option(
        "horizon",
        "0; by the record in tests",
        "pages after which a reading has its entry on flash; 0: two blocks of them",
    ),
    (0, 1 << 24),
);
const VALUES: OptionInfo = option(
    "values",
    "as the workload has them; by the record in tests",
    "the values expected, LEAST..MOST: the first buckets divide them",
);
const BY_VALUE: Number<u32> = Number::new(
    option(
        "by_value",
        "0; 16 in tests",
        "one look-up in so many also asks for the value, which reads a bucket; 0: none",
    ),
    (0, u32::MAX),
);

pub(crate) const PIECES: [OptionInfo; 2] = [LENGTHS, PIECE.info];
pub(crate) const LOG: [OptionInfo; 2] = [LENGTHS, SHORT.info];
pub(crate) const READINGS: [OptionInfo; 4] = [BUCKETS.info, HORIZON.info, VALUES, BY_VALUE.info];

/// The lengths of values; `None` if the option is not set.
pub fn lengths(options: &Options) -> Result<Option<Lengths>, OptionError> {
    let read = |text: &str| text.parse().map_err(|why: String| OptionError::new(LENGTHS.name, text, why));
    options.text(LENGTHS.name).map(read).transpose()
}

pub(crate) fn piece(options: &Options) -> Result<Option<u8>, OptionError> {
    PIECE.of(options)
}

pub(crate) fn short(options: &Options, default: u8) -> Result<u8, OptionError> {
    SHORT.or(options, default)
}

pub(crate) fn buckets(options: &Options) -> Result<Option<usize>, OptionError> {
    BUCKETS.of(options)
}

pub(crate) fn horizon(options: &Options) -> Result<Option<u32>, OptionError> {
    HORIZON.of(options)
}

pub(crate) fn by_value(options: &Options) -> Result<Option<u32>, OptionError> {
    BY_VALUE.of(options)
}

/// The range of values that a log of readings expects; `None` if the option is not set.
pub(crate) fn values(options: &Options) -> Result<Option<(i32, i32)>, OptionError> {
    let Some(text) = options.text(VALUES.name) else { return Ok(None) };
    let ends = text.split_once("..").and_then(|(low, high)| low.parse().ok().zip(high.parse().ok()));
    match ends {
        Some((low, high)) if low <= high => Ok(Some((low, high))),
        _ => Err(OptionError::new(VALUES.name, text, "is not LEAST..MOST, such as -200..500")),
    }
}
