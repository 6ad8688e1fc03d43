//! The zipfian distribution, drawn exactly from a table of whole numbers.
//!
//! Item `i` (from 0) has the weight `1 / (i + 1)^theta`. The weights are scaled to 62 bits in all and rounded
//! down to whole numbers; the table holds their running sums. A draw is a uniform whole number below the sum
//! of the first `n` weights, looked up by bisection, so the first `n` items have their exact probabilities
//! for every `n` up to the table's length: the distribution grows with the records at no cost. Eight bytes an
//! item, rounding below 1e-9 of a probability for a hundred million items.
//!
//! The power is computed here with `+ - * /` alone (IEEE 754 defines them to the last bit), because `powf` of
//! the standard library answers differently on different machines.

use nandex::rng::Rng;
use std::sync::Arc;

/// A table of the weights of a Zipf distribution. Copies share the table.
#[derive(Clone, Debug)]
pub struct Zipf {
    sums: Arc<[u64]>,
}

impl Zipf {
    /// Makes a table for up to `items` items with skew `theta`; 0 is uniform, YCSB uses 0.99.
    pub fn new(items: u64, theta: f64) -> Zipf {
        assert!(items > 0 && theta >= 0.0, "a distribution over {items} items with theta {theta}");
        let total: f64 = (1..=items).map(|i| power(i, theta)).sum();
        let scale = (1u64 << 62) as f64 / total;
        let mut sum = 0u64;
        let sums = (1..=items).map(|i| {
            sum += ((power(i, theta) * scale) as u64).max(1);
            sum
        });
        Zipf { sums: sums.collect() }
    }

    /// Draws one of the first `n` items.
    pub fn pick(&self, rng: &mut Rng, n: u64) -> u64 {
        let sums = &self.sums[..n as usize];
        let drawn = rng.below(sums[sums.len() - 1]);
        sums.partition_point(|&sum| sum <= drawn) as u64
    }

    /// The probability of an item among the first `n`.
    pub fn probability(&self, item: u64, n: u64) -> f64 {
        let below = if item == 0 { 0 } else { self.sums[item as usize - 1] };
        (self.sums[item as usize] - below) as f64 / self.sums[n as usize - 1] as f64
    }
}

/// The value `1 / i^theta`, to about 14 digits.
fn power(i: u64, theta: f64) -> f64 {
    exp_of_negative(theta * ln(i as f64))
}

/// The natural logarithm of a number of at least 1: `x = m * 2^e` with `m` in `[0.75, 1.5)`, and the series
/// of `2 artanh((m - 1) / (m + 1))`.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa >= 1.5 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let mut term = s;
    let mut sum = 0.0;
    for n in 0..14 {
        sum += term / f64::from(2 * n + 1);
        term *= s * s;
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * sum
}

/// The value `e^-y` for `y` of at least 0: `2^-k` times the exponential series of a remainder below 0.7.
fn exp_of_negative(y: f64) -> f64 {
    let halvings = (y / std::f64::consts::LN_2) as u64;
    let rest = y - halvings as f64 * std::f64::consts::LN_2;
    let mut term = 1.0;
    let mut sum = 1.0;
    for n in 1..20 {
        term *= -rest / f64::from(n);
        sum += term;
    }
    if halvings > 1000 { 0.0 } else { sum * f64::from_bits((1023 - halvings) << 52) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_power_is_the_power() {
        for (i, theta) in [(1u64, 0.99), (2, 0.5), (7, 0.99), (1_000_000, 0.99), (123_456_789, 1.4), (9, 0.0)]
        {
            let exact = (i as f64).powf(-theta);
            assert!((power(i, theta) - exact).abs() <= 1e-13 * exact, "{i}^-{theta}");
        }
    }

    #[test]
    fn draws_follow_the_exact_probabilities() {
        let (items, draws) = (1_000u64, 400_000u32);
        let zipf = Zipf::new(items, 0.99);
        let mut rng = Rng::new(17);
        for n in [items, 300] {
            let exact: Vec<f64> = (1..=n).map(|i| (i as f64).powf(-0.99)).collect();
            let total: f64 = exact.iter().sum();
            let mut counts = vec![0u32; n as usize];
            for _ in 0..draws {
                counts[zipf.pick(&mut rng, n) as usize] += 1;
            }
            // Pearson's statistic has mean n - 1 and variance 2 (n - 1): five deviations are allowed.
            let mut chi_square = 0.0;
            for (i, &count) in counts.iter().enumerate() {
                let expected = exact[i] / total * f64::from(draws);
                chi_square += (f64::from(count) - expected) * (f64::from(count) - expected) / expected;
                assert!((zipf.probability(i as u64, n) - exact[i] / total).abs() < 1e-12);
            }
            let (mean, deviation) = ((n - 1) as f64, (2.0 * (n - 1) as f64).sqrt());
            assert!((chi_square - mean).abs() < 5.0 * deviation, "chi square {chi_square} for {n} items");
        }
    }

    #[test]
    fn no_skew_is_uniform() {
        let zipf = Zipf::new(10, 0.0);
        assert!((0..10).all(|i| (zipf.probability(i, 10) - 0.1).abs() < 1e-12));
    }
}
