//! Errors inside the engine: behind a pointer.
//!
//! The error of an index takes six words of a microcontroller. A result with it is returned through memory
//! and copied by every function on its way, which was a tenth of the code. A result with a fault fits into
//! one or two registers. Functions for users turn the fault back into the error.

use crate::check::{IndexError, Invariant, words};
use crate::nand::NandError;
use crate::store::StoreError;
use alloc::boxed::Box;
use core::fmt;
use core::ops::Deref;

/// An error behind a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault<E>(Box<E>);

/// Fault of an index.
pub type IndexFault = Fault<IndexError>;

/// Fault of a store.
pub type StoreFault = Fault<StoreError>;

impl<E> Fault<E> {
    /// Returns the error itself.
    pub fn into_inner(self) -> E {
        *self.0
    }
}

impl IndexFault {
    /// Returns the fault of a page whose bytes contradict an invariant.
    #[cold]
    #[inline(never)]
    pub fn broken(invariant: Invariant, what: &'static str, page: u32) -> IndexFault {
        IndexFault::broken_at(invariant, what, u64::from(page))
    }

    /// Returns the fault of bytes that contradict an invariant. `at` is their number if pages have other
    /// numbers than those of the chip.
    #[cold]
    #[inline(never)]
    pub fn broken_at(invariant: Invariant, what: &'static str, at: u64) -> IndexFault {
        IndexError::broken(invariant, what, at).into()
    }

    /// Returns the fault of a page whose bytes contradict a rule without a number.
    #[cold]
    #[inline(never)]
    pub fn corrupted(what: &'static str, page: u32) -> IndexFault {
        IndexError::corrupted(what, u64::from(page)).into()
    }

    /// Returns true if no room is left.
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// Returns true if a page has more bit errors than the chip corrects.
    pub fn is_uncorrectable(&self) -> bool {
        matches!(*self.0, IndexError::Store(StoreError::Nand(NandError::Uncorrectable(_))))
    }

    /// Returns true if the page that was read is lost; false if the chip is at fault.
    pub fn is_loss(&self) -> bool {
        self.is_uncorrectable() || matches!(*self.0, IndexError::Corrupted { .. })
    }

    /// Returns true if too many blocks have failed.
    pub fn is_worn_out(&self) -> bool {
        matches!(*self.0, IndexError::WornOut)
    }
}

impl StoreFault {
    /// Returns true if no room is left.
    pub fn is_full(&self) -> bool {
        matches!(*self.0, StoreError::Full)
    }

    /// Returns true if the bytes of the page that was read contradict themselves.
    pub fn is_corrupted(&self) -> bool {
        matches!(*self.0, StoreError::Corrupted { .. })
    }

    /// Returns the fault of a page whose bytes contradict themselves.
    #[cold]
    #[inline(never)]
    pub fn corrupted(what: &'static str, page: u32) -> StoreFault {
        StoreFault::corrupted_at(what, u64::from(page))
    }

    /// Fault of bytes that contradict themselves. `at` is a number other than that of a page.
    #[cold]
    #[inline(never)]
    pub fn corrupted_at(what: &'static str, at: u64) -> StoreFault {
        StoreError::Corrupted { what: words(what), at }.into()
    }
}

impl<E> Deref for Fault<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.0
    }
}

impl<E: PartialEq> PartialEq<E> for Fault<E> {
    fn eq(&self, other: &E) -> bool {
        *self.0 == *other
    }
}

impl<E: fmt::Display> fmt::Display for Fault<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: core::error::Error> core::error::Error for Fault<E> {}

/// Conversions are cold and never inlined, so the code of the success path stays small.
macro_rules! conversion {
    ($from:ty, $to:ty, $error:ident => $converted:expr) => {
        impl From<$from> for $to {
            #[cold]
            #[inline(never)]
            fn from($error: $from) -> $to {
                $converted
            }
        }
    };
}

conversion!(IndexError, IndexFault, error => Fault(Box::new(error)));
conversion!(StoreError, StoreFault, error => Fault(Box::new(error)));
conversion!(NandError, StoreFault, error => StoreError::from(error).into());
conversion!(StoreError, IndexFault, error => IndexError::from(error).into());
conversion!(NandError, IndexFault, error => IndexError::from(error).into());
conversion!(StoreFault, IndexFault, error => IndexError::from(*error.0).into());
conversion!(IndexFault, IndexError, error => *error.0);
conversion!(StoreFault, StoreError, error => *error.0);
conversion!(StoreFault, IndexError, error => (*error.0).into());
