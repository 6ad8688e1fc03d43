//! Rectangles (boxes in three dimensions) with sides along the axes. A point is a rectangle without extent.

use super::coordinate::Coordinate;
use super::measure::Measure;
use core::cmp::Ordering;
use core::fmt;

/// Error: the numbers are no rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RectError {
    /// A coordinate is NaN or infinite.
    NotFinite {
        /// Axis of the coordinate, from 0.
        axis: usize,
    },
    /// The lower side lies above the upper one.
    Reversed {
        /// Axis of the sides, from 0.
        axis: usize,
    },
}

impl fmt::Display for RectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RectError::NotFinite { axis } => write!(f, "a coordinate of axis {axis} is NaN or infinite"),
            RectError::Reversed { axis } => {
                write!(f, "the lower side of axis {axis} lies above the upper one")
            }
        }
    }
}

impl core::error::Error for RectError {}

/// A rectangle: all points from `low` to `high` on every axis, both included.
///
/// ```
/// use nandex::spatial::Rect;
///
/// let rect = Rect::new([0, 0], [4, 2])?;
/// assert!(rect.contains(&Rect::point([1, 1])?) && Rect::new([1], [0]).is_err());
/// # Ok::<(), nandex::spatial::RectError>(())
/// ```
#[derive(Clone, Copy, PartialEq)]
pub struct Rect<C, const D: usize> {
    low: [C; D],
    high: [C; D],
}

impl<C: fmt::Debug, const D: usize> fmt::Debug for Rect<C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}..{:?}", self.low, self.high)
    }
}

impl<C: Coordinate, const D: usize> Rect<C, D> {
    /// Returns the rectangle between two corners. Returns an error if a side is reversed or a coordinate is
    /// not finite.
    pub fn new(low: [C; D], high: [C; D]) -> Result<Rect<C, D>, RectError> {
        for axis in 0..D {
            if !(low[axis].is_finite() && high[axis].is_finite()) {
                return Err(RectError::NotFinite { axis });
            }
            if low[axis] > high[axis] {
                return Err(RectError::Reversed { axis });
            }
        }
        Ok(Rect { low: low.map(C::normal), high: high.map(C::normal) })
    }

    /// Returns the rectangle that is one point.
    pub fn point(at: [C; D]) -> Result<Rect<C, D>, RectError> {
        Rect::new(at, at)
    }

    /// Corner with the lowest coordinates.
    pub fn low(&self) -> [C; D] {
        self.low
    }

    /// Corner with the highest coordinates.
    pub fn high(&self) -> [C; D] {
        self.high
    }

    /// Returns the point in the middle, rounded to a number of the coordinate type.
    pub fn centre(&self) -> [C; D] {
        core::array::from_fn(|axis| self.low[axis].midpoint(self.high[axis]))
    }

    /// Returns the smallest rectangle around both.
    #[inline]
    #[must_use]
    pub fn union(&self, other: &Rect<C, D>) -> Rect<C, D> {
        Rect {
            low: core::array::from_fn(|axis| self.low[axis].lower(other.low[axis])),
            high: core::array::from_fn(|axis| self.high[axis].higher(other.high[axis])),
        }
    }

    /// Returns the smallest rectangle around all; `None` if there are none.
    pub fn around<'a>(rects: impl IntoIterator<Item = &'a Rect<C, D>>) -> Option<Rect<C, D>> {
        rects.into_iter().copied().reduce(|a, b| a.union(&b))
    }

    /// Returns true if the two share a point. The sides belong to a rectangle.
    #[inline]
    pub fn intersects(&self, other: &Rect<C, D>) -> bool {
        (0..D).all(|axis| self.low[axis] <= other.high[axis] && other.low[axis] <= self.high[axis])
    }

    /// Returns true if this rectangle covers every point of `other`. Every rectangle covers itself.
    #[inline]
    pub fn contains(&self, other: &Rect<C, D>) -> bool {
        (0..D).all(|axis| self.low[axis] <= other.low[axis] && other.high[axis] <= self.high[axis])
    }

    /// Extent along an axis.
    #[inline]
    pub fn extent(&self, axis: usize) -> C::Measure {
        self.high[axis].above(self.low[axis])
    }

    /// Area, or volume in three dimensions.
    #[inline]
    pub fn area(&self) -> C::Measure {
        (1..D).fold(self.extent(0), |area, axis| area.times(self.extent(axis)))
    }

    /// Sum of the extents along all axes.
    pub fn margin(&self) -> C::Measure {
        (0..D).fold(C::Measure::ZERO, |sum, axis| sum.plus(self.extent(axis)))
    }

    /// Growth of the area if the rectangle takes `other` in.
    #[inline]
    pub fn enlargement(&self, other: &Rect<C, D>) -> C::Measure {
        self.union(other).area().minus(self.area())
    }

    /// Area that the two rectangles share.
    #[inline]
    pub fn overlap(&self, other: &Rect<C, D>) -> C::Measure {
        if !self.intersects(other) {
            return C::Measure::ZERO;
        }
        let shared: Rect<C, D> = Rect {
            low: core::array::from_fn(|axis| self.low[axis].higher(other.low[axis])),
            high: core::array::from_fn(|axis| self.high[axis].lower(other.high[axis])),
        };
        shared.area()
    }

    /// Square of the distance from `point` to the nearest point of the rectangle; 0 if `point` is inside.
    /// Floats are rounded, and a square beyond the range of `f64` is the greatest `f64`.
    #[inline]
    pub fn distance2(&self, point: &[C; D]) -> C::Measure {
        (0..D).fold(C::Measure::ZERO, |sum, axis| {
            let (low, at, high) = (self.low[axis], point[axis], self.high[axis]);
            if at < low {
                sum.plus(square(low.above(at)))
            } else if at > high {
                sum.plus(square(at.above(high)))
            } else {
                sum
            }
        })
    }

    /// Compares the lower and then the upper corners, axis after axis. The order has no meaning; it only
    /// makes results reproducible.
    pub fn order(&self, other: &Rect<C, D>) -> Ordering {
        let corners = |rect: &Rect<C, D>| rect.low.into_iter().chain(rect.high);
        corners(self)
            .zip(corners(other))
            .map(|(a, b)| a.order(&b))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

/// Returns the square of the distance between two points.
pub fn distance2<C: Coordinate, const D: usize>(a: &[C; D], b: &[C; D]) -> C::Measure {
    (0..D).fold(C::Measure::ZERO, |sum, axis| {
        let (low, high) = (a[axis].lower(b[axis]), a[axis].higher(b[axis]));
        sum.plus(square(high.above(low)))
    })
}

fn square<M: Measure>(side: M) -> M {
    side.times(side)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spatial::measure::I256;

    #[test]
    fn what_is_no_rectangle_is_refused() {
        assert_eq!(Rect::new([0, 5], [3, 4]), Err(RectError::Reversed { axis: 1 }));
        assert_eq!(Rect::new([0.0, f64::NAN], [3.0, 4.0]), Err(RectError::NotFinite { axis: 1 }));
        assert_eq!(Rect::new([0.0f32; 3], [3.0, f32::INFINITY, 1.0]), Err(RectError::NotFinite { axis: 1 }));
        assert_eq!(Rect::point([f64::NEG_INFINITY; 2]), Err(RectError::NotFinite { axis: 0 }));
        let zero = Rect::point([-0.0f64, 0.0]).unwrap();
        assert!(zero.low().iter().all(|x| x.to_bits() == 0), "zero has one form");
    }

    #[test]
    fn sides_belong_to_a_rectangle() {
        let a = Rect::new([0i32, 0], [4, 2]).unwrap();
        let b = Rect::new([4i32, 2], [6, 6]).unwrap();
        assert!(a.intersects(&b) && b.intersects(&a));
        assert_eq!((a.overlap(&b), a.union(&b).area(), a.enlargement(&b)), (0, 36, 28));
        assert!(a.contains(&a) && a.contains(&Rect::point([4, 0]).unwrap()) && !a.contains(&b));
        assert!(!a.intersects(&Rect::point([5, 1]).unwrap()));
        assert_eq!((a.margin(), b.area(), a.centre()), (6, 8, [2, 1]));
        assert_eq!(Rect::around([&a, &b]), Some(a.union(&b)));
    }

    #[test]
    fn distances_are_to_the_nearest_point() {
        let cube = Rect::new([0i32, 0, 0], [2, 2, 2]).unwrap();
        let from = |point| cube.distance2(&point);
        assert_eq!((from([1, 1, 1]), from([5, 1, 2]), from([-3, 6, 2])), (0, 9, 25));
    }

    #[test]
    fn the_extremes_do_not_overflow() {
        let all = Rect::new([i32::MIN; 3], [i32::MAX; 3]).unwrap();
        assert_eq!(all.area(), i128::from(u32::MAX).pow(3));
        let far = Rect::point([i64::MAX; 3]).unwrap().distance2(&[i64::MIN; 3]);
        let side = I256::new(u128::from(u64::MAX));
        assert_eq!(far, side.times(side).times(I256::new(3)));
        let huge = Rect::new([f64::MIN; 3], [f64::MAX; 3]).unwrap();
        assert_eq!((huge.area(), huge.enlargement(&huge), huge.centre()), (f64::MAX, 0.0, [0.0; 3]));
        assert_eq!(Rect::point([f64::MAX; 2]).unwrap().distance2(&[f64::MIN; 2]), f64::MAX);
    }
}
