//! Which durability class a tree gives on its store.

use super::page::Layout;
use crate::check::IndexError;
use crate::ftl::PageStore;
use crate::ordered::Durability;
use alloc::format;

/// What a tree laid out like this promises on this store.
pub(super) fn promise(store: &impl PageStore, layout: &Layout, leaf_pages: usize) -> Durability {
    if store.atomic_pages_max() < layout.group_pages_max() + leaf_pages {
        Durability::None
    } else if store.durable_writes() {
        Durability::EveryOperation
    } else if store.prefix_consistent() {
        Durability::EverySync
    } else {
        Durability::None
    }
}

pub(super) fn require(
    wanted: Durability,
    given: Durability,
    store: &impl PageStore,
    layout: &Layout,
) -> Result<(), IndexError> {
    if given >= wanted {
        return Ok(());
    }
    Err(IndexError::Unsupported(format!(
        "durability '{}' is wanted, but a B+-tree on this store gives '{}': an operation writes up to {} pages and the \
         store takes {} atomically; its writes are {}durable at once and {} in order",
        wanted.name(),
        given.name(),
        layout.group_pages_max(),
        store.atomic_pages_max(),
        if store.durable_writes() { "" } else { "not " },
        if store.prefix_consistent() { "survive" } else { "do not survive" },
    )))
}
