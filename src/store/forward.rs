//! Forwards methods of a store to the store inside, for a layer that changes only some of them.

/// Implements methods of [`PageStore`](crate::PageStore) by those of a store that an expression names.
///
/// ```text
/// impl<S: PageStore> PageStore for Cached<S> {
///     forward_store!(self => self.store; page_bytes page_count sync checkpoint maintain scrub);
/// ```
#[macro_export]
#[cfg_attr(not(feature = "unstable"), doc(hidden))]
macro_rules! forward_store {
    ($self:ident => $store:expr) => {
        $crate::forward_store!($self => $store;
            page_bytes page_count read write trim sync atomic_pages_max write_atomic begin_batch end_batch
            durable_writes prefix_consistent updates_heard updates_shown keeps_updates checkpoint maintain
            scrub ram_bytes mount_ram_bytes stats live_page);
    };
    ($self:ident => $store:expr; $($method:ident)+) => {
        $( $crate::forward_store!(@ $method $self $store); )+
    };
    (@ page_bytes $self:ident $store:expr) => {
        fn page_bytes(&$self) -> usize {
            $store.page_bytes()
        }
    };
    (@ page_count $self:ident $store:expr) => {
        fn page_count(&$self) -> u32 {
            $store.page_count()
        }
    };
    (@ read $self:ident $store:expr) => {
        fn read(
            &mut $self,
            lpn: $crate::units::Lpn,
            cause: $crate::nand::Cause,
            data: &mut [u8],
        ) -> Result<(), $crate::store::StoreError> {
            $store.read(lpn, cause, data)
        }
    };
    (@ write $self:ident $store:expr) => {
        fn write(
            &mut $self,
            lpn: $crate::units::Lpn,
            cause: $crate::nand::Cause,
            data: &[u8],
        ) -> Result<(), $crate::store::StoreError> {
            $store.write(lpn, cause, data)
        }
    };
    (@ trim $self:ident $store:expr) => {
        fn trim(&mut $self, lpn: $crate::units::Lpn) -> Result<(), $crate::store::StoreError> {
            $store.trim(lpn)
        }
    };
    (@ sync $self:ident $store:expr) => {
        fn sync(&mut $self) -> Result<(), $crate::store::StoreError> {
            $store.sync()
        }
    };
    (@ atomic_pages_max $self:ident $store:expr) => {
        fn atomic_pages_max(&$self) -> usize {
            $store.atomic_pages_max()
        }
    };
    (@ write_atomic $self:ident $store:expr) => {
        fn write_atomic(
            &mut $self,
            pages: &[($crate::units::Lpn, &[u8])],
            cause: $crate::nand::Cause,
        ) -> Result<(), $crate::store::StoreError> {
            $store.write_atomic(pages, cause)
        }
    };
    (@ begin_batch $self:ident $store:expr) => {
        fn begin_batch(&mut $self) {
            $store.begin_batch();
        }
    };
    (@ end_batch $self:ident $store:expr) => {
        fn end_batch(&mut $self) {
            $store.end_batch();
        }
    };
    (@ durable_writes $self:ident $store:expr) => {
        fn durable_writes(&$self) -> bool {
            $store.durable_writes()
        }
    };
    (@ prefix_consistent $self:ident $store:expr) => {
        fn prefix_consistent(&$self) -> bool {
            $store.prefix_consistent()
        }
    };
    (@ updates_heard $self:ident $store:expr) => {
        fn updates_heard(&mut $self, updates: u64) {
            $store.updates_heard(updates);
        }
    };
    (@ updates_shown $self:ident $store:expr) => {
        fn updates_shown(&mut $self, newest: Option<u64>) {
            $store.updates_shown(newest);
        }
    };
    (@ keeps_updates $self:ident $store:expr) => {
        fn keeps_updates(&$self) -> bool {
            $store.keeps_updates()
        }
    };
    (@ checkpoint $self:ident $store:expr) => {
        fn checkpoint(&mut $self) -> Result<(), $crate::store::StoreError> {
            $store.checkpoint()
        }
    };
    (@ maintain $self:ident $store:expr) => {
        fn maintain(&mut $self, budget: u32) -> Result<u32, $crate::store::StoreError> {
            $store.maintain(budget)
        }
    };
    (@ scrub $self:ident $store:expr) => {
        fn scrub(&mut $self, budget: u32) -> Result<u32, $crate::store::StoreError> {
            $store.scrub(budget)
        }
    };
    (@ ram_bytes $self:ident $store:expr) => {
        fn ram_bytes(&$self) -> usize {
            $store.ram_bytes()
        }
    };
    (@ mount_ram_bytes $self:ident $store:expr) => {
        fn mount_ram_bytes(&$self) -> usize {
            $store.mount_ram_bytes()
        }
    };
    (@ stats $self:ident $store:expr) => {
        fn stats(&$self) -> $crate::store::StoreStats {
            $store.stats()
        }
    };
    (@ live_page $self:ident $store:expr) => {
        fn live_page(&$self, ppn: $crate::units::Ppn) -> Option<bool> {
            $store.live_page(ppn)
        }
    };
}
