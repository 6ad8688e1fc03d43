//! A value with several owners: a chip and its observer, a store and its slices, a journal and the index
//! above it.
//!
//! With the feature `std` the owners may be sent to other threads, so that every chip, store and index can.
//! Without it they stay on one thread, and need no atomic instructions.

use core::ops::DerefMut;

#[cfg(feature = "std")]
mod kind {
    pub(super) type Owner<T> = alloc::sync::Arc<std::sync::Mutex<T>>;
    pub(super) type Cell<T> = std::sync::Mutex<T>;
}

#[cfg(not(feature = "std"))]
mod kind {
    pub(super) type Owner<T> = alloc::rc::Rc<core::cell::RefCell<T>>;
    pub(super) type Cell<T> = core::cell::RefCell<T>;
}

use kind::{Cell, Owner};

/// A type that can be sent to another thread, if there are threads. With the feature `std` these are the
/// [`Send`] types, without it all types.
#[cfg(feature = "std")]
pub trait MaybeSend: Send {}
#[cfg(feature = "std")]
impl<T: Send + ?Sized> MaybeSend for T {}

/// A type that can be sent to another thread, if there are threads. With the feature `std` these are the
/// [`Send`] types, without it all types.
#[cfg(not(feature = "std"))]
pub trait MaybeSend {}
#[cfg(not(feature = "std"))]
impl<T: ?Sized> MaybeSend for T {}

/// A value with several owners.
///
/// ```
/// use nandex::Shared;
///
/// let mine = Shared::new(7);
/// let other = mine.clone();
/// *other.lock() += 1;
/// assert!(*mine.lock() == 8);
/// ```
#[derive(Debug, Default)]
pub struct Shared<T>(Owner<T>);

impl<T> Shared<T> {
    /// Returns a value with one owner. Each clone is another owner.
    pub fn new(value: T) -> Shared<T> {
        Shared(Owner::new(Cell::new(value)))
    }

    /// Locks the value until the guard is dropped. A second call by the owner of a guard waits for ever.
    #[cfg(feature = "std")]
    pub fn lock(&self) -> impl DerefMut<Target = T> + '_ {
        // A panic leaves the value in the same state as a failed call, so poisoning is ignored.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Locks the value until the guard is dropped.
    ///
    /// # Panics
    ///
    /// Panics if the value is locked.
    #[cfg(not(feature = "std"))]
    pub fn lock(&self) -> impl DerefMut<Target = T> + '_ {
        self.0.borrow_mut()
    }

    /// Returns the value if this is its last owner, else `None`.
    #[cfg(feature = "std")]
    pub fn into_inner(self) -> Option<T> {
        Some(Owner::into_inner(self.0)?.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Returns the value if this is its last owner, else `None`.
    #[cfg(not(feature = "std"))]
    pub fn into_inner(self) -> Option<T> {
        Some(Owner::into_inner(self.0)?.into_inner())
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(Owner::clone(&self.0))
    }
}

/// Opens the ground of a type with a name of its own, to tests and to who builds on the grounds.
macro_rules! open_ground {
    ([$($parameters:tt)*] $name:ty = $ground:ty) => {
        #[cfg(any(test, feature = "unstable"))]
        impl<$($parameters)*> core::ops::Deref for $name {
            type Target = $ground;

            fn deref(&self) -> &$ground {
                &self.ground
            }
        }

        #[cfg(any(test, feature = "unstable"))]
        impl<$($parameters)*> core::ops::DerefMut for $name {
            fn deref_mut(&mut self) -> &mut $ground {
                &mut self.ground
            }
        }
    };
}
pub(crate) use open_ground;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_owner_has_the_value() {
        let one = Shared::new(1);
        let other = one.clone();
        *other.lock() += 1;
        assert_eq!(*one.lock(), 2);
        assert!(one.into_inner().is_none(), "there is another owner");
        assert_eq!(other.into_inner(), Some(2));
    }

    #[cfg(feature = "std")]
    #[test]
    fn owners_go_to_other_threads() {
        let count = Shared::new(0);
        let others: [_; 4] = core::array::from_fn(|_| {
            let count = count.clone();
            std::thread::spawn(move || (0..100).for_each(|_| *count.lock() += 1))
        });
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(count.into_inner(), Some(400));
    }
}
