//! The common part of the pools above a directory of leaves: it is formatted and mounted, and stands below a
//! journal.

/// Makes `$index`, a pool above `$tree` with the settings `$config`, an index that can be formatted,
/// mounted and put below a journal.
macro_rules! pooled_over_directory {
    ($index:ident, $tree:ident, $config:ident) => {
        impl<S: nandex::store::PageStore> $index<S> {
            /// Makes an empty index, and drops everything that the store held.
            pub fn format(store: S, config: &$config) -> Result<$index<S>, IndexError> {
                let plan = config.on(&store)?;
                let directory = nandex::ordered::bplus::BPlusTree::format(store, &&plan.directory)?;
                Ok(Pooled::over(plan.tree(directory), config.pool()))
            }

            /// Opens the index that a store holds. It must have been synced after its last change.
            pub fn mount(store: S, config: &$config) -> Result<$index<S>, IndexError> {
                $index::open(store, *config, false)
            }

            /// Opens the index that a power cut left: each key has its value at the last sync or a later one.
            /// Where the store cannot keep the tree whole over a cut, the same as `mount`.
            #[doc(hidden)]
            pub fn mount_after_cut(store: S, config: &$config) -> Result<$index<S>, IndexError> {
                $index::open(store, *config, true)
            }

            fn open(store: S, config: $config, takes_unclean: bool) -> Result<$index<S>, IndexError> {
                let plan = config.on(&store)?;
                let pages = plan.group_pages();
                let directory = nandex::ordered::bplus::BPlusTree::open_with(store, takes_unclean, pages)?
                    .require_config(plan.directory)?;
                Ok(Pooled::over(plan.tree(directory).claim_leaves()?, config.pool()))
            }

            /// Takes the index apart and returns the store. Changes that were not synced are lost as in a
            /// power cut.
            pub fn into_store(self) -> S {
                self.tree.directory.into_store()
            }
        }

        impl<S: nandex::store::PageStore> $tree<S> {
            /// The store below the tree.
            pub fn store(&self) -> &S {
                self.directory.store()
            }
        }

        impl<S: nandex::store::PageStore> $crate::ordered::journal::Buffered<S> for $index<S> {
            $crate::ordered::journal::opens_published!($index, $config);

            fn record_of(config: &$config) -> nandex::ordered::RecordFormat {
                config.record
            }

            fn waiting_updates_max(config: &$config) -> u64 {
                config.pool_requests.into()
            }

            fn class_below(&self) -> nandex::ordered::Durability {
                $crate::ordered::lazy_update::GroupTree::class_on_store(&self.tree)
            }
        }
    };
}

pub(in crate::ordered) use pooled_over_directory;
