//! Values of a workload that are not just bytes of one length.

use super::Parameters;
use crate::error::LabError;
use crate::registry::{Holds, IndexEntry};
use nandex::rng::split_mix;
use nandex_stacks::lengths::Lengths;
use nandex_stacks::options::Settings;

/// The values of a workload. Each follows from its key and from the number of writes of that key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// Random bytes of one length.
    #[default]
    Random,
    /// Bytes of different lengths. The index under test fills up the record's value to its length.
    Long(Lengths),
    /// Readings that change by at most this much from one to the next.
    Walk(u32),
}

/// The generator option with the lengths of the values.
pub const LENGTHS: &str = "lengths";
/// The generator option with the step of the readings.
pub(super) const WALK: &str = "walk";

impl Values {
    pub(super) fn of(parameters: &Parameters) -> Result<Values, LabError> {
        let has = |name: &str| parameters.options.contains_key(name);
        if has(LENGTHS) {
            let text = parameters.text(LENGTHS);
            let lengths = text.parse().map_err(|why: String| LabError::bad_option(LENGTHS, text, why))?;
            return Ok(Values::Long(lengths));
        }
        match has(WALK) {
            true => Ok(Values::Walk(parameters.number_in(WALK, 1, 1 << 20)? as u32)),
            false => Ok(Values::Random),
        }
    }

    /// The reason why an index cannot hold these values, if any.
    pub(crate) fn refused_by(self, index: &IndexEntry, settings: &Settings) -> Option<String> {
        let (name, record) = (index.name, settings.record);
        match self {
            Values::Long(lengths) if !index.holds.any_length() => {
                let (least, most) = lengths.ends();
                Some(format!(
                    "{name} holds {} of one size, and the workload has values of {least} to {most} bytes",
                    index.holds.name()
                ))
            }
            _ if index.holds == Holds::Readings && (record.key_bytes, record.value_bytes) != (4, 4) => {
                Some(format!("{name} holds readings, a time and a value of 4 bytes each: --record 4/4"))
            }
            Values::Walk(_) if record.value_bytes < 4 => {
                Some(String::from("a reading has 4 bytes: --record 4/4"))
            }
            _ => None,
        }
    }

    /// The settings of an index for these values. Lengths and expected values come from the workload unless
    /// they are set.
    pub(crate) fn settings(self, index: &IndexEntry, settings: &Settings) -> Settings {
        let lengths = match self {
            Values::Long(lengths) => lengths,
            _ => Lengths::of_one(settings.record.value_bytes),
        };
        let values = match self {
            Values::Walk(step) => format!("-{0}..{0}", i64::from(step) * WANDER),
            _ => format!("{}..{}", i32::MIN, i32::MAX),
        };
        let said: &[(&str, String)] = match index.holds {
            Holds::Records => &[],
            Holds::Pieces | Holds::LongValues => &[(LENGTHS, lengths.to_string())],
            Holds::Readings => &[
                ("values", values),
                ("buckets", String::from("0")),
                ("horizon", String::from("0")),
                ("by_value", String::from("0")),
            ],
        };
        let unset = said.iter().filter(|(name, _)| settings.options.text(name).is_none());
        unset.fold(settings.clone(), |settings, (name, value)| settings.with(name, value))
    }
}

/// The waves of a walk with a step of 1: the number of readings per wave, and its height.
const WAVES: [(u32, i64); 4] = [(16, 4), (128, 16), (1024, 80), (8192, 320)];

/// Largest distance of a reading from zero with a step of 1.
const WANDER: i64 = 4 + 16 + 80 + 320;

/// The reading with this number: the sum of waves of several lengths with random heights. It does not
/// depend on earlier readings, and differs from the previous one by at most `step`.
pub(crate) fn reading(number: u32, step: u32) -> i32 {
    let wave = |(readings, height): (u32, i64)| {
        let end = |at: u32| {
            let random = split_mix(u64::from(readings) << 32 | u64::from(at));
            (random % (2 * height as u64 + 1)) as i64 - height
        };
        let (at, within) = (number / readings, i64::from(number % readings));
        (end(at) * (i64::from(readings) - within) + end(at + 1) * within)
            * i64::from(step)
            * i64::from(WAVES[3].0 / readings)
    };
    (WAVES.into_iter().map(wave).sum::<i64>() / i64::from(WAVES[3].0)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_wander_slowly_between_two_ends() {
        for step in [1, 10] {
            let all: Vec<i32> = (0..50_000).map(|number| reading(number, step)).collect();
            let most = all.windows(2).map(|pair| pair[0].abs_diff(pair[1])).max().unwrap();
            assert!((1..=step).contains(&most), "{most} from one to the next");
            let (low, high) = (all.iter().min().unwrap(), all.iter().max().unwrap());
            let end = WANDER as i32 * step as i32;
            assert!(-end <= *low && *low < -end / 3 && end / 3 < *high && *high <= end, "{low} {high}");
        }
    }
}
