//! Forwards methods to the index inside: for a wrapper that changes only some of them.

use crate::ordered::OrderedIndex;
use alloc::boxed::Box;

/// Implements methods of [`OrderedIndex`](crate::OrderedIndex) by calls of the same methods of a field.
///
/// ```text
/// impl<S: PageStore> OrderedIndex for LayeredTree<S> {
///     forward_index!(tree: record, get, insert, remove, load, range, sync, close, ram_bytes);
///
///     fn durability(&self) -> Durability { .. }
/// ```
#[macro_export]
macro_rules! forward_index {
    ($field:ident: $($method:ident),+ $(,)?) => { $crate::forward_index!(self => self.$field; $($method),+); };
    ($self:ident => $index:expr; $($method:ident),+ $(,)?) => {
        $( $crate::forward_index!(@ $self $index; $method); )+
    };
    (@ $self:ident $index:expr; record) => {
        fn record(&$self) -> $crate::ordered::RecordFormat {
            $index.record()
        }
    };
    (@ $self:ident $index:expr; durability) => {
        fn durability(&$self) -> $crate::ordered::Durability {
            $index.durability()
        }
    };
    (@ $self:ident $index:expr; get) => {
        fn get(&mut $self, key: &[u8], value: &mut [u8]) -> Result<bool, $crate::IndexError> {
            $index.get(key, value)
        }
    };
    (@ $self:ident $index:expr; insert) => {
        fn insert(&mut $self, key: &[u8], value: &[u8]) -> Result<bool, $crate::IndexError> {
            $index.insert(key, value)
        }
    };
    (@ $self:ident $index:expr; put) => {
        fn put(&mut $self, key: &[u8], value: &[u8]) -> Result<(), $crate::IndexError> {
            $index.put(key, value)
        }
    };
    (@ $self:ident $index:expr; apply) => {
        fn batch_max(&$self) -> usize {
            $index.batch_max()
        }

        fn takes_batch(&$self, changes: usize) -> Option<bool> {
            $index.takes_batch(changes)
        }

        fn tells_older(&$self) -> bool {
            $index.tells_older()
        }

        fn apply(&mut $self, batch: &[$crate::ordered::Change<'_>]) -> Result<(), $crate::IndexError> {
            $index.apply(batch)
        }
    };
    (@ $self:ident $index:expr; maintain) => {
        fn maintain(&mut $self, budget: u32) -> Result<u32, $crate::IndexError> {
            $index.maintain(budget)
        }
    };
    (@ $self:ident $index:expr; scrub) => {
        fn scrub(&mut $self, budget: u32) -> Result<u32, $crate::IndexError> {
            $index.scrub(budget)
        }
    };
    (@ $self:ident $index:expr; free) => {
        fn free(&$self) -> Option<$crate::ordered::Room> {
            $index.free()
        }
    };
    (@ $self:ident $index:expr; records_max) => {
        fn records_max(&$self) -> Option<u64> {
            $index.records_max()
        }
    };
    (@ $self:ident $index:expr; remove) => {
        fn remove(&mut $self, key: &[u8]) -> Result<bool, $crate::IndexError> {
            $index.remove(key)
        }
    };
    (@ $self:ident $index:expr; load) => {
        fn load(&mut $self, records: $crate::ordered::Records<'_, '_>) -> Result<u64, $crate::IndexError> {
            $index.load(records)
        }
    };
    (@ $self:ident $index:expr; range) => {
        fn range(
            &mut $self,
            low: core::ops::Bound<&[u8]>,
            high: core::ops::Bound<&[u8]>,
            direction: $crate::ordered::Direction,
            visit: $crate::ordered::Visit<'_>,
        ) -> Result<(), $crate::IndexError> {
            $index.range(low, high, direction, visit)
        }
    };
    (@ $self:ident $index:expr; sync) => {
        fn sync(&mut $self) -> Result<(), $crate::IndexError> {
            $index.sync()
        }
    };
    (@ $self:ident $index:expr; close) => {
        fn close(&mut $self) -> Result<(), $crate::IndexError> {
            $index.close()
        }
    };
    (@ $self:ident $index:expr; check) => {
        fn check(&mut $self) -> Result<$crate::CheckReport, $crate::IndexError> {
            $index.check()
        }
    };
    (@ $self:ident $index:expr; stats) => {
        fn stats(&$self) -> $crate::ordered::IndexStats {
            $index.stats()
        }
    };
    (@ $self:ident $index:expr; ram_bytes) => {
        fn ram_bytes(&$self) -> usize {
            $index.ram_bytes()
        }
    };
}

impl<I: OrderedIndex + ?Sized> OrderedIndex for Box<I> {
    forward_index!(self => (**self); record, durability, get, insert, put, remove, apply, load, range);
    forward_index!(self => (**self); maintain, scrub, free, records_max, sync, close, check, stats, ram_bytes);
}

/// Gives a tree on a chip a name of its own.
macro_rules! named_tree {
    ($(#[$doc:meta])* $name:ident<N> = $ground:ty, set up by $config:ty) => {
        $(#[$doc])*
        pub struct $name<N> {
            pub(in crate::ordered) ground: $ground,
        }

        impl<N: crate::nand::Nand> $name<N> {
            /// Makes an empty tree on a chip; whatever it held is erased.
            pub fn format(nand: N, config: &$config) -> Result<$name<N>, crate::IndexError> {
                <$ground>::format(nand, config).map(|ground| $name { ground })
            }

            /// Finds the tree on the chip again and runs it as the configuration says.
            pub fn mount(nand: N, config: &$config) -> Result<$name<N>, crate::IndexError> {
                <$ground>::mount(nand, config).map(|ground| $name { ground })
            }

            /// Gives the chip back; what was not synced is as after a power cut.
            pub fn into_nand(self) -> N {
                self.ground.into_nand()
            }
        }

        impl<N: crate::nand::Nand> crate::ordered::OrderedIndex for $name<N> {
            crate::forward_index!(ground: record, durability, get, insert, put, remove, apply, load, range);
            crate::forward_index!(ground: maintain, scrub, free, records_max, sync, close, check, stats, ram_bytes);
        }

        crate::shared::open_ground!([N] $name<N> = $ground);

        #[cfg(any(test, feature = "unstable"))]
        impl<N> From<$ground> for $name<N> {
            fn from(ground: $ground) -> $name<N> {
                $name { ground }
            }
        }
    };
}
pub(crate) use named_tree;
