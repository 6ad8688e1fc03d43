//! Addresses and quantities as types, so that a logical page is never mistaken for a physical one.

use core::fmt;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident, $label:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the number as an index into a table.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($label, " {}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($label, " {}"), self.0)
            }
        }
    };
}

address!(
    /// Number of a logical page: one that may be overwritten.
    Lpn, "lpn");
address!(
    /// Number of a physical page: `block * pages_per_block + page`.
    Ppn, "ppn");
address!(
    /// Number of a physical block, the unit of erase.
    Pbn, "pbn");
address!(
    /// Number of a logical block: a run of as many logical pages as a physical block has.
    Lbn, "lbn");

/// Simulated time in whole nanoseconds.
///
/// ```
/// use nandex::Nanos;
///
/// assert!(Nanos(7) < Nanos(8));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl core::ops::Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl core::ops::AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl core::ops::Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}
