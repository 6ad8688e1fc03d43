//! The Hilbert curve through a square or a cube. It visits every cell once, and each step leads to a
//! neighbouring cell.
//!
//! J. Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707, 2004. The coordinates are
//! turned, bit by bit from the top, into the transposed number of the cell on the curve. The bits of this
//! number are then interleaved.

use super::coordinate::Coordinate;
use super::geometry::Rect;

/// Place on the curve, as two words with the more significant one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CurveKey([u64; 2]);

impl CurveKey {
    /// Returns the place with the number `place`.
    pub const fn new(place: u128) -> CurveKey {
        CurveKey([(place >> 64) as u64, place as u64])
    }

    /// Returns the place as a number.
    pub fn place(self) -> u128 {
        u128::from(self.0[0]) << 64 | u128::from(self.0[1])
    }
}

/// Returns the number on the curve of the cell with these coordinates of `bits` bits each. `bits * D` is at
/// most 128.
pub fn curve_place<const D: usize>(mut cell: [u64; D], bits: u32) -> u128 {
    assert!(bits as usize * D <= 128 && (1..=64).contains(&bits), "a number of more than 128 bits");
    let top = 1u64 << (bits - 1);
    let mut bit = top;
    while bit > 1 {
        let below = bit - 1;
        for axis in 0..D {
            if cell[axis] & bit != 0 {
                cell[0] ^= below;
            } else {
                let exchanged = (cell[0] ^ cell[axis]) & below;
                cell[0] ^= exchanged;
                cell[axis] ^= exchanged;
            }
        }
        bit >>= 1;
    }
    for axis in 1..D {
        cell[axis] ^= cell[axis - 1];
    }
    let (mut turned, mut bit) = (0, top);
    while bit > 1 {
        if cell[D - 1] & bit != 0 {
            turned ^= bit - 1;
        }
        bit >>= 1;
    }
    let mut place = 0;
    for bit in (0..bits).rev() {
        for word in &cell {
            place = place << 1 | u128::from((word ^ turned) >> bit & 1);
        }
    }
    place
}

/// Mapping from coordinates to cells of the curve.
///
/// With a domain, each of its sides is cut into equal parts, and a point outside counts to the nearest cell
/// at the border. Without one, integers are taken as they are. Floats are taken by their bits, which rise
/// with the number but are denser near zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid<C, const D: usize> {
    /// Region whose cells the curve visits; `None` for all numbers.
    pub domain: Option<Rect<C, D>>,
}

impl<C: Coordinate, const D: usize> Grid<C, D> {
    /// Bits of a cell's coordinate.
    pub const fn bits() -> u32 {
        let (type_bits, share) = (C::BYTES as u32 * 8, 128 / D as u32);
        if type_bits < share { type_bits } else { share }
    }

    /// Bytes of a place on the curve.
    pub const fn key_bytes() -> usize {
        (Self::bits() as usize * D).div_ceil(8)
    }

    /// Returns the place of a rectangle on the curve: that of its centre.
    pub fn key(&self, rect: &Rect<C, D>) -> CurveKey {
        let (centre, bits) = (rect.centre(), Self::bits());
        let cell: [u64; D] = core::array::from_fn(|axis| match &self.domain {
            Some(domain) => centre[axis].cell(domain.low()[axis], domain.high()[axis], bits),
            None => centre[axis].ordered_bits() >> (C::BYTES as u32 * 8 - bits),
        });
        CurveKey::new(curve_place(cell, bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Every cell of the grid by its number on the curve; panics when two have the same.
    fn tour<const D: usize>(bits: u32) -> Vec<[u64; D]> {
        let cells = 1usize << (bits as usize * D);
        let mut on_curve = vec![None; cells];
        for n in 0..cells {
            let cell = core::array::from_fn(|axis| (n >> (bits as usize * axis)) as u64 & ((1 << bits) - 1));
            let place = curve_place(cell, bits) as usize;
            assert_eq!(on_curve[place].replace(cell), None, "two cells at {place}");
        }
        on_curve.into_iter().map(|cell| cell.unwrap()).collect()
    }

    fn assert_is_a_curve<const D: usize>(bits: u32) {
        for pair in tour::<D>(bits).windows(2) {
            let steps: u64 = (0..D).map(|axis| pair[0][axis].abs_diff(pair[1][axis])).sum();
            assert_eq!(steps, 1, "{pair:?}");
        }
    }

    #[test]
    fn it_visits_every_cell_once_and_steps_to_neighbours() {
        for bits in 1..=6 {
            assert_is_a_curve::<2>(bits);
        }
        for bits in 1..=4 {
            assert_is_a_curve::<3>(bits);
        }
    }

    #[test]
    fn a_finer_curve_visits_quarters_in_one_go() {
        for (at, cell) in tour::<2>(5).iter().enumerate() {
            assert_eq!(curve_place([cell[0] >> 2, cell[1] >> 2], 3), (at >> 4) as u128);
        }
    }

    #[test]
    fn the_widest_cells_fit() {
        let keys = [curve_place([0, 0], 64), curve_place([u64::MAX, 0], 64), curve_place([u64::MAX; 2], 64)];
        assert_eq!((keys[0], keys[1]), (0, u128::MAX));
        assert!(keys[2] > 0 && keys[2] < u128::MAX);
        assert_eq!((Grid::<i32, 2>::key_bytes(), Grid::<i32, 3>::key_bytes()), (8, 12));
        assert_eq!((Grid::<f64, 2>::key_bytes(), Grid::<f64, 3>::key_bytes()), (16, 16));
        let grid = Grid { domain: Some(Rect::new([0, 0], [3, 3]).unwrap()) };
        let key = |x, y| grid.key(&Rect::point([x, y]).unwrap()).place();
        assert_eq!((key(0, 0), key(-9, -9)), (0, 0));
        assert_eq!(key(9, 9), key(3, 3));
    }
}
