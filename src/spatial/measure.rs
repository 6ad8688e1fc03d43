//! Numbers wide enough for areas, margins and squared distances: exact for integers, clamped to finite values
//! for floats.
//!
//! A measure never overflows and is never NaN. So two measures can always be compared, with the same result
//! on every machine. Floats use only addition, subtraction, multiplication and comparisons, whose results
//! IEEE 754 defines to the bit.

use core::cmp::Ordering;
use core::fmt::Debug;

mod sealed {
    pub trait Sealed {}
    impl Sealed for i128 {}
    impl Sealed for super::I256 {}
    impl Sealed for f64 {}
}

/// A signed number for areas, margins and squared distances.
pub trait Measure: sealed::Sealed + Copy + Debug + PartialEq + crate::shared::MaybeSend + 'static {
    /// Zero.
    const ZERO: Self;

    /// Returns the sum.
    #[must_use]
    fn plus(self, other: Self) -> Self;

    /// Returns the difference.
    #[must_use]
    fn minus(self, other: Self) -> Self;

    /// Returns the product. If the measure is an integer, the magnitude of one factor must be below 2^64.
    #[must_use]
    fn times(self, other: Self) -> Self;

    /// Compares two measures.
    fn order(&self, other: &Self) -> Ordering;

    /// Returns the nearest `f64`, for reports.
    fn to_f64(self) -> f64;

    /// Returns true if this measure is below `other`.
    fn is_below(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Less
    }
}

impl Measure for i128 {
    const ZERO: i128 = 0;

    fn plus(self, other: i128) -> i128 {
        self + other
    }

    fn minus(self, other: i128) -> i128 {
        self - other
    }

    fn times(self, other: i128) -> i128 {
        self * other
    }

    fn order(&self, other: &i128) -> Ordering {
        self.cmp(other)
    }

    fn to_f64(self) -> f64 {
        self as f64
    }
}

impl Measure for f64 {
    const ZERO: f64 = 0.0;

    fn plus(self, other: f64) -> f64 {
        (self + other).clamp(f64::MIN, f64::MAX)
    }

    fn minus(self, other: f64) -> f64 {
        (self - other).clamp(f64::MIN, f64::MAX)
    }

    fn times(self, other: f64) -> f64 {
        (self * other).clamp(f64::MIN, f64::MAX)
    }

    fn order(&self, other: &f64) -> Ordering {
        // Neither side is NaN, and 0 and -0 are equal.
        if self < other {
            Ordering::Less
        } else if self > other {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }

    fn to_f64(self) -> f64 {
        self
    }
}

/// A signed integer of 256 bits in two's complement. It holds the sum of the volumes of the largest node's
/// entries, even if all sides have 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct I256 {
    high: i128,
    low: u128,
}

impl I256 {
    /// Returns the measure of an unsigned number.
    pub const fn new(value: u128) -> I256 {
        I256 { high: 0, low: value }
    }

    fn negated(self) -> I256 {
        I256 { high: !self.high, low: !self.low }.plus(I256::new(1))
    }

    fn magnitude(self) -> I256 {
        if self.high < 0 { self.negated() } else { self }
    }
}

impl Measure for I256 {
    const ZERO: I256 = I256::new(0);

    fn plus(self, other: I256) -> I256 {
        let (low, carry) = self.low.overflowing_add(other.low);
        I256 { high: self.high.wrapping_add(other.high).wrapping_add(i128::from(carry)), low }
    }

    fn minus(self, other: I256) -> I256 {
        self.plus(other.negated())
    }

    fn times(self, other: I256) -> I256 {
        const HALF: u32 = 64;
        let is_negative = (self.high < 0) != (other.high < 0);
        let (mut a, mut b) = (self.magnitude(), other.magnitude());
        if b > I256::new(u128::from(u64::MAX)) {
            core::mem::swap(&mut a, &mut b);
        }
        assert!(a.high == 0 && b <= I256::new(u128::from(u64::MAX)), "a product of more than 192 bits");
        let (lower, upper) = ((a.low & u128::from(u64::MAX)) * b.low, (a.low >> HALF) * b.low);
        let product = I256::new(lower).plus(I256 { high: (upper >> HALF) as i128, low: upper << HALF });
        if is_negative { product.negated() } else { product }
    }

    fn order(&self, other: &I256) -> Ordering {
        self.cmp(other)
    }

    fn to_f64(self) -> f64 {
        const TWO_POWER_128: f64 = 340_282_366_920_938_463_463_374_607_431_768_211_456.0;
        let size = self.magnitude();
        let size_f64 = size.high as f64 * TWO_POWER_128 + size.low as f64;
        if self.high < 0 { -size_f64 } else { size_f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn wide(value: i128) -> I256 {
        let size = I256::new(value.unsigned_abs());
        if value < 0 { size.negated() } else { size }
    }

    #[test]
    fn small_numbers_compute_as_i128_does() {
        let mut rng = Rng::new(5);
        for _ in 0..10_000 {
            let (a, b) = (i128::from(rng.next_u64() as i64), i128::from(rng.next_u64() as i64));
            let (x, y) = (a * i128::from(rng.next_u64() as i32), b >> rng.below(63));
            assert_eq!(wide(x).plus(wide(y)), wide(x + y));
            assert_eq!(wide(x).minus(wide(y)), wide(x - y));
            assert_eq!(wide(a).times(wide(b >> 1)), wide(a * (b >> 1)));
            assert_eq!(wide(x).order(&wide(y)), x.cmp(&y));
        }
    }

    #[test]
    fn the_largest_volume_is_exact() {
        let side = I256::new(u128::from(u64::MAX));
        let volume = side.times(side).times(side);
        // (2^64 - 1)^3 = 2^192 - 3 * 2^128 + 3 * 2^64 - 1
        let power = |high: i128, low: u128| I256 { high, low };
        let expected = power(1 << 64, 0).minus(power(3, 0)).plus(power(0, 3 << 64)).minus(I256::new(1));
        assert_eq!(volume, expected);
        assert_eq!(volume.minus(volume), I256::ZERO);
        assert!(volume.negated().is_below(&I256::ZERO));
        assert!((volume.to_f64() - 6.277_101_735_386_68e57).abs() < 1e45);
    }

    #[test]
    fn floats_stay_finite() {
        let huge = f64::MAX;
        assert_eq!(huge.times(huge), f64::MAX);
        assert_eq!(huge.times(huge).minus(huge.plus(huge)), 0.0);
        assert_eq!(0.0.order(&-0.0), Ordering::Equal);
    }
}
