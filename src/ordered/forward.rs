//! Forwards methods to the index inside: for a wrapper that changes only some of them.

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
    ($field:ident: $($method:ident),+ $(,)?) => { $( $crate::forward_index!(@ $field $method); )+ };
    (@ $field:ident record) => {
        fn record(&self) -> $crate::ordered::RecordFormat {
            self.$field.record()
        }
    };
    (@ $field:ident durability) => {
        fn durability(&self) -> $crate::ordered::Durability {
            self.$field.durability()
        }
    };
    (@ $field:ident get) => {
        fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, $crate::IndexError> {
            self.$field.get(key, value)
        }
    };
    (@ $field:ident insert) => {
        fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, $crate::IndexError> {
            self.$field.insert(key, value)
        }
    };
    (@ $field:ident put) => {
        fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), $crate::IndexError> {
            self.$field.put(key, value)
        }
    };
    (@ $field:ident apply) => {
        fn batch_max(&self) -> usize {
            self.$field.batch_max()
        }

        fn takes_batch(&self, changes: usize) -> Option<bool> {
            self.$field.takes_batch(changes)
        }

        fn tells_older(&self) -> bool {
            self.$field.tells_older()
        }

        fn apply(&mut self, batch: &[$crate::ordered::Change<'_>]) -> Result<(), $crate::IndexError> {
            self.$field.apply(batch)
        }
    };
    (@ $field:ident maintain) => {
        fn maintain(&mut self, budget: u32) -> Result<u32, $crate::IndexError> {
            self.$field.maintain(budget)
        }
    };
    (@ $field:ident scrub) => {
        fn scrub(&mut self, budget: u32) -> Result<u32, $crate::IndexError> {
            self.$field.scrub(budget)
        }
    };
    (@ $field:ident free) => {
        fn free(&self) -> Option<$crate::ordered::Room> {
            self.$field.free()
        }
    };
    (@ $field:ident remove) => {
        fn remove(&mut self, key: &[u8]) -> Result<bool, $crate::IndexError> {
            self.$field.remove(key)
        }
    };
    (@ $field:ident load) => {
        fn load(&mut self, records: $crate::ordered::Records<'_, '_>) -> Result<u64, $crate::IndexError> {
            self.$field.load(records)
        }
    };
    (@ $field:ident range) => {
        fn range(
            &mut self,
            low: core::ops::Bound<&[u8]>,
            high: core::ops::Bound<&[u8]>,
            direction: $crate::ordered::Direction,
            visit: $crate::ordered::Visit<'_>,
        ) -> Result<(), $crate::IndexError> {
            self.$field.range(low, high, direction, visit)
        }
    };
    (@ $field:ident sync) => {
        fn sync(&mut self) -> Result<(), $crate::IndexError> {
            self.$field.sync()
        }
    };
    (@ $field:ident close) => {
        fn close(&mut self) -> Result<(), $crate::IndexError> {
            self.$field.close()
        }
    };
    (@ $field:ident check) => {
        fn check(&mut self) -> Result<$crate::CheckReport, $crate::IndexError> {
            self.$field.check()
        }
    };
    (@ $field:ident stats) => {
        fn stats(&self) -> $crate::ordered::IndexStats {
            self.$field.stats()
        }
    };
    (@ $field:ident ram_bytes) => {
        fn ram_bytes(&self) -> usize {
            self.$field.ram_bytes()
        }
    };
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
            crate::forward_index!(ground: maintain, scrub, free, sync, close, check, stats, ram_bytes);
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
