//! Errors as they travel inside the engine: behind a pointer.
//!
//! An error of an index takes six words of a microcontroller. A result that carries it is returned through
//! memory and copied by every function that it passes, which came to a tenth of the code. A result with a
//! fault fits into a register or two. What users call turns it back.

use crate::check::{IndexError, Invariant, words};
use crate::nand::NandError;
use crate::store::StoreError;
use alloc::boxed::Box;
use core::fmt;
use core::ops::Deref;

/// An error on its way up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault<E>(Box<E>);

/// The error of an index on its way up.
pub type IndexFault = Fault<IndexError>;

/// The error of a store on its way up.
pub type StoreFault = Fault<StoreError>;

impl<E> Fault<E> {
    /// The error itself.
    pub fn into_inner(self) -> E {
        *self.0
    }
}

impl IndexFault {
    /// Bytes of a page that contradict an invariant.
    #[cold]
    #[inline(never)]
    pub fn broken(invariant: Invariant, what: &'static str, page: u32) -> IndexFault {
        IndexFault::broken_at(invariant, what, u64::from(page))
    }

    /// Bytes that contradict an invariant, where a page has another number than that of the chip.
    #[cold]
    #[inline(never)]
    pub fn broken_at(invariant: Invariant, what: &'static str, at: u64) -> IndexFault {
        IndexError::broken(invariant, what, at).into()
    }

    /// Bytes of a page that contradict what has no number.
    #[cold]
    #[inline(never)]
    pub fn corrupted(what: &'static str, page: u32) -> IndexFault {
        IndexError::corrupted(what, u64::from(page)).into()
    }

    /// Whether no room is left.
    pub fn is_full(&self) -> bool {
        matches!(*self.0, IndexError::Full)
    }

    /// Whether a page has more bit errors than the chip corrects.
    pub fn is_uncorrectable(&self) -> bool {
        matches!(*self.0, IndexError::Store(StoreError::Nand(NandError::Uncorrectable(_))))
    }

    /// Whether the page that was read is lost, rather than the chip at fault.
    pub fn is_loss(&self) -> bool {
        self.is_uncorrectable() || matches!(*self.0, IndexError::Corrupted { .. })
    }

    /// Whether too many blocks have failed.
    pub fn is_worn_out(&self) -> bool {
        matches!(*self.0, IndexError::WornOut)
    }
}

impl StoreFault {
    /// Whether no room is left.
    pub fn is_full(&self) -> bool {
        matches!(*self.0, StoreError::Full)
    }

    /// Whether the page that was read makes no sense.
    pub fn is_corrupted(&self) -> bool {
        matches!(*self.0, StoreError::Corrupted { .. })
    }

    /// Bytes of a page that make no sense.
    #[cold]
    #[inline(never)]
    pub fn corrupted(what: &'static str, page: u32) -> StoreFault {
        StoreFault::corrupted_at(what, u64::from(page))
    }

    /// Bytes that make no sense, found by another number than that of a page.
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

/// One conversion: never a part of the code that goes on where nothing is wrong.
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
