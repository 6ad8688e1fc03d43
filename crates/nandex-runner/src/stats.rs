//! Statistics over seeds, and the comparisons that claims need.
//!
//! The interval is Student's: mean plus or minus `t * s / sqrt(n)` with the two-sided 95 % quantile of `n -
//! 1` degrees of freedom. The quantiles are a table rather than a library's function because the functions go
//! through the machine's logarithm and gamma and differ in the last digit from one machine to another;
//! published figures must not.

use serde::{Deserialize, Serialize};

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom (any statistics textbook).
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The quantiles beyond 30 degrees of freedom, as pairs of the least degrees of freedom and the quantile.
/// Between two rows the larger quantile is used, so that an interval is never too narrow.
const T_95_BEYOND: [(usize, f64); 5] = [(31, 2.042), (40, 2.021), (60, 2.000), (120, 1.980), (1000, 1.962)];

/// The summary of several measurements of the same quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Summary {
    /// Number of measurements.
    pub count: usize,
    /// Mean of the measurements.
    pub mean: f64,
    /// Smallest measurement.
    pub min: f64,
    /// Largest measurement.
    pub max: f64,
    /// Half the width of the 95 % confidence interval around the mean; absent with fewer than two
    /// measurements.
    pub ci95: Option<f64>,
}

impl Summary {
    /// The summary of a single value that is the same in every run.
    pub fn exact(value: f64) -> Summary {
        Summary { count: 1, mean: value, min: value, max: value, ci95: None }
    }

    /// The summary of measurements; `None` without any.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let count = values.len();
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let ci95 = (count > 1).then(|| {
            let deviation = (squares / (count - 1) as f64).sqrt();
            t_95(count - 1) * deviation / (count as f64).sqrt()
        });
        Some(Summary { count, mean, min, max, ci95 })
    }
}

/// Relative difference that is no reason to prefer one index over another. Another day of the trace or
/// another order of its keys makes as much.
pub const NOISE: f64 = 0.02;

/// Whether costs are as good as the best; `ratios` are the costs of each seed divided by those of the best.
/// They are if they exceed the best by no more than the noise, or if several seeds do not show that they
/// exceed it.
pub fn is_as_good(ratios: &Summary) -> bool {
    ratios.mean - ratios.ci95.unwrap_or(0.0) <= 1.0 + NOISE && ratios.mean <= 1.0 + 3.0 * NOISE
}

fn t_95(degrees: usize) -> f64 {
    let beyond =
        || T_95_BEYOND.iter().rev().find(|(from, _)| *from <= degrees).map_or(f64::INFINITY, |row| row.1);
    T_95.get(degrees.wrapping_sub(1)).copied().unwrap_or_else(beyond)
}

/// The middle values after dropping `trimmed` values at either end, or all values if none would remain. The
/// WPCB-tree paper takes the mean of the middle three of five.
pub fn middle(values: &[f64], trimmed: usize) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len().checked_sub(trimmed).and_then(|end| sorted.get(trimmed..end)) {
        Some(middle) if !middle.is_empty() => middle.to_vec(),
        _ => sorted,
    }
}

/// Difference of `measured` from `expected` as a share of `expected`; `None` if `expected` is 0.
pub fn relative_difference(measured: f64, expected: f64) -> Option<f64> {
    (expected != 0.0).then(|| (measured - expected) / expected)
}

/// Whether `measured` differs from `expected` by at most `band`, a share of `expected`: 0.07 is 7 %.
pub fn within_relative(measured: f64, expected: f64, band: f64) -> bool {
    (measured - expected).abs() <= band * expected.abs() + ROUNDING * expected.abs()
}

/// Whether `measured` differs from `expected` by at most `points`, in the same unit.
pub fn within_points(measured: f64, expected: f64, points: f64) -> bool {
    (measured - expected).abs() <= points + ROUNDING * expected.abs()
}

/// Relative tolerance with which a value exactly on a limit passes in spite of binary rounding.
const ROUNDING: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // Worked by hand: mean 5, squares 4 + 1 + 0 + 1 + 4 = 10, s = sqrt(2.5), 2.776 * s / sqrt(5) = 1.963.
        let five = Summary::of(&[3.0, 4.0, 5.0, 6.0, 7.0]).unwrap();
        assert_eq!((five.count, five.mean, five.min, five.max), (5, 5.0, 3.0, 7.0));
        assert!((five.ci95.unwrap() - 1.963).abs() < 5e-4);
        assert_eq!(Summary::of(&[2.0]).unwrap().ci95, None);
        assert_eq!(Summary::of(&[2.0, 2.0]).unwrap().ci95, Some(0.0));
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn quantiles_fall_with_the_degrees_of_freedom() {
        let all: Vec<f64> = (1..2000).map(t_95).collect();
        assert!(all.is_sorted_by(|a, b| a >= b));
        assert_eq!((all[0], all[29], all[30], all[39], all[1500]), (12.706, 2.042, 2.042, 2.021, 1.962));
    }

    #[test]
    fn the_middle_three_of_five() {
        assert_eq!(middle(&[9.0, 1.0, 3.0, 2.0, 100.0], 1), [2.0, 3.0, 9.0]);
        assert_eq!(middle(&[2.0, 1.0], 1), [1.0, 2.0]);
        assert_eq!(middle(&[1.0], 1), [1.0]);
        assert_eq!(middle(&[2.0, 1.0], 0), [1.0, 2.0]);
    }

    #[test]
    fn bands_include_their_limits() {
        assert!(within_relative(1.07, 1.0, 0.07) && within_relative(0.93, 1.0, 0.07));
        assert!(!within_relative(1.0701, 1.0, 0.07) && within_relative(-1.05, -1.0, 0.07));
        assert!(within_points(-30.0, -40.0, 10.0) && !within_points(-29.9, -40.0, 10.0));
        assert_eq!(relative_difference(3.0, 4.0), Some(-0.25));
        assert_eq!(relative_difference(3.0, 0.0), None);
    }
}
