//! The types a coordinate may have: `i32`, `i64`, `f32`, `f64`.

use super::measure::{I256, Measure};
use core::cmp::Ordering;
use core::fmt::{Debug, Display};

mod sealed {
    pub trait Sealed {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A coordinate. The trait is sealed: its types are `i32`, `i64`, `f32` and `f64`.
pub trait Coordinate:
    sealed::Sealed + Copy + Debug + Display + PartialEq + PartialOrd + crate::shared::MaybeSend + 'static
{
    /// Type of areas and of squared distances.
    type Measure: Measure;

    /// Name of the type.
    const NAME: &'static str;

    /// Code of the type in a superblock.
    const CODE: u8;

    /// Bytes of a coordinate on the medium.
    const BYTES: usize;

    /// Returns true if the coordinate is a number: neither NaN nor infinite.
    fn is_finite(self) -> bool;

    /// Returns this coordinate with -0 replaced by 0, so that equal coordinates have equal bytes.
    #[must_use]
    fn normal(self) -> Self;

    /// Returns the number halfway between the two, or one next to it. Never overflows.
    #[must_use]
    fn midpoint(self, other: Self) -> Self;

    /// Returns the distance from `low` up to this coordinate. `low` must not be greater.
    fn above(self, low: Self) -> Self::Measure;

    /// Returns the bits as an unsigned number that rises with the coordinate.
    fn ordered_bits(self) -> u64;

    /// Returns the cell of the coordinate if the interval from `low` to `high` is cut into 2^`bits` cells. A
    /// coordinate outside the interval gets the nearest cell.
    fn cell(self, low: Self, high: Self, bits: u32) -> u64;

    /// Writes the coordinate to the first bytes, little-endian.
    fn put(self, bytes: &mut [u8]);

    /// Reads a coordinate from the first bytes.
    fn get(bytes: &[u8]) -> Self;

    /// Compares two coordinates. Both must be finite.
    fn order(&self, other: &Self) -> Ordering {
        self.ordered_bits().cmp(&other.ordered_bits())
    }

    /// Returns the lower of two coordinates.
    #[must_use]
    fn lower(self, other: Self) -> Self {
        if other < self { other } else { self }
    }

    /// Returns the higher of two coordinates.
    #[must_use]
    fn higher(self, other: Self) -> Self {
        if other > self { other } else { self }
    }
}

/// Shifts `above` right, by as many bits as reduce `extent` to at most `bits` bits.
fn cell_of(above: u64, extent: u64, bits: u32) -> u64 {
    let width = u64::BITS - extent.leading_zeros();
    above >> width.saturating_sub(bits)
}

macro_rules! integer {
    ($t:ident, $unsigned:ident, $code:literal, $measure:ty, $wide:expr) => {
        impl Coordinate for $t {
            type Measure = $measure;
            const NAME: &'static str = stringify!($t);
            const CODE: u8 = $code;
            const BYTES: usize = size_of::<$t>();

            fn is_finite(self) -> bool {
                true
            }

            fn normal(self) -> Self {
                self
            }

            fn midpoint(self, other: Self) -> Self {
                // The shift of a signed number rounds down.
                (self & other) + ((self ^ other) >> 1)
            }

            fn above(self, low: Self) -> Self::Measure {
                let wide: fn(u64) -> $measure = $wide;
                wide(u64::from(self.abs_diff(low)))
            }

            fn ordered_bits(self) -> u64 {
                u64::from(self as $unsigned ^ (1 << ($unsigned::BITS - 1)))
            }

            fn cell(self, low: Self, high: Self, bits: u32) -> u64 {
                let inside = self.max(low).min(high);
                cell_of(u64::from(inside.abs_diff(low)), u64::from(high.abs_diff(low)), bits)
            }

            fn put(self, bytes: &mut [u8]) {
                bytes[..Self::BYTES].copy_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn get(bytes: &[u8]) -> Self {
                let mut own = [0; Self::BYTES];
                own.copy_from_slice(&bytes[..Self::BYTES]);
                Self::from_le_bytes(own)
            }
        }
    };
}

integer!(i32, u32, 1, i128, i128::from);
integer!(i64, u64, 2, I256, |extent| I256::new(u128::from(extent)));

macro_rules! float {
    ($t:ident, $unsigned:ident, $code:literal) => {
        impl Coordinate for $t {
            type Measure = f64;
            const NAME: &'static str = stringify!($t);
            const CODE: u8 = $code;
            const BYTES: usize = size_of::<$t>();

            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }

            fn normal(self) -> Self {
                // This changes only -0: -0 + 0 is 0.
                self + 0.0
            }

            fn midpoint(self, other: Self) -> Self {
                self * 0.5 + other * 0.5
            }

            fn above(self, low: Self) -> f64 {
                f64::from(self).minus(f64::from(low))
            }

            fn ordered_bits(self) -> u64 {
                let bits = self.to_bits();
                let sign = 1 << ($unsigned::BITS - 1);
                u64::from(if bits & sign == 0 { bits | sign } else { !bits })
            }

            fn cell(self, low: Self, high: Self, bits: u32) -> u64 {
                // Half of each number is used, so that the widest interval does not overflow.
                let half = |x: Self| f64::from(x) * 0.5;
                let inside = self.higher(low).lower(high);
                let extent = half(high) - half(low);
                if extent == 0.0 {
                    return 0;
                }
                let last = u64::MAX >> (u64::BITS - bits);
                // A cast of a float beyond the last cell gives the greatest number.
                let cells = 2.0 * (1u64 << (bits - 1)) as f64;
                (((half(inside) - half(low)) / extent * cells) as u64).min(last)
            }

            fn put(self, bytes: &mut [u8]) {
                bytes[..Self::BYTES].copy_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn get(bytes: &[u8]) -> Self {
                let mut own = [0; Self::BYTES];
                own.copy_from_slice(&bytes[..Self::BYTES]);
                Self::from_le_bytes(own)
            }
        }
    };
}

float!(f32, u32, 3);
float!(f64, u64, 4);

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_rising<C: Coordinate>(values: &[C]) {
        for pair in values.windows(2) {
            assert!(pair[0].ordered_bits() < pair[1].ordered_bits(), "{} {}", pair[0], pair[1]);
            assert!(C::Measure::ZERO.is_below(&pair[1].above(pair[0])));
            let middle = pair[0].midpoint(pair[1]);
            assert!(pair[0] <= middle && middle <= pair[1], "{middle}");
        }
        let (low, high) = (values[0], values[values.len() - 1]);
        for bits in [1, 3, 32] {
            let cells = values.iter().map(|v| v.cell(low, high, bits));
            assert!(cells.clone().zip(cells.clone().skip(1)).all(|(a, b)| a <= b));
            assert!(cells.clone().all(|cell| cell < 1 << bits));
            assert_eq!((low.cell(low, high, bits), high.cell(low, high, bits)), (0, (1 << bits) - 1));
        }
        for value in values {
            let mut bytes = [0; 8];
            value.put(&mut bytes);
            assert_eq!(C::get(&bytes), *value);
        }
    }

    #[test]
    fn every_type_is_ordered_up_to_its_extremes() {
        assert_rising(&[i32::MIN, -7, -1, 0, 1, 9, i32::MAX]);
        assert_rising(&[i64::MIN, -7, -1, 0, 1, 9, i64::MAX]);
        assert_rising(&[f32::MIN, -1.5, -f32::MIN_POSITIVE, 0.0, f32::MIN_POSITIVE, 2.0, f32::MAX]);
        assert_rising(&[f64::MIN, -1.5, -f64::MIN_POSITIVE, 0.0, f64::MIN_POSITIVE, 2.0, f64::MAX]);
        assert_eq!(Coordinate::midpoint(i64::MIN, i64::MAX), -1);
        assert_eq!(i64::MAX.above(i64::MIN), I256::new(u128::from(u64::MAX)));
    }

    #[test]
    fn a_cell_lies_where_the_number_does() {
        assert_eq!([0, 24, 25, 50, 99, 100, 900].map(|x: i32| x.cell(0, 99, 2)), [0, 0, 0, 1, 3, 3, 3]);
        assert_eq!(
            [-1.0, 0.0, 24.9, 25.0, 75.0, 100.0].map(|x: f64| x.cell(0.0, 100.0, 2)),
            [0, 0, 0, 1, 3, 3]
        );
        assert_eq!(5.0f64.cell(5.0, 5.0, 8), 0);
        assert_eq!(f64::MAX.cell(f64::MIN, f64::MAX, 64), u64::MAX);
        assert_eq!((-0.0f64).normal().to_bits(), 0);
    }
}
