//! The types of coordinates that text may stand for.

use nandex::spatial::Coordinate;

/// A type of coordinates that the lab works with.
pub trait Number: Coordinate + Send + Sync {
    /// The nearest number of this type; `None` outside its range.
    fn of_f64(number: f64) -> Option<Self>;

    /// The number as a float, for areas and pictures.
    fn to_f64(self) -> f64;
}

impl Number for i32 {
    fn of_f64(number: f64) -> Option<i32> {
        let rounded = number.round();
        (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&rounded).then_some(rounded as i32)
    }

    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Number for f64 {
    fn of_f64(number: f64) -> Option<f64> {
        number.is_finite().then_some(number)
    }

    fn to_f64(self) -> f64 {
        self
    }
}
