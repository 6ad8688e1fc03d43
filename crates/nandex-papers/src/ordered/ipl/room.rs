//! How much still fits: nodes on blocks that are free, and in RAM.

use super::cache::ReadCache;
use super::merge::FREE_FOR_INSERT;
use super::slots::{PIECE, PIECE_BYTES};
use super::store::Store;
use nandex::nand::Nand;
use nandex::ordered::Room;

/// Room for more records: new nodes on the blocks that are not kept free. A tree of one more level than now
/// takes `ram_wanted` bytes of RAM.
pub(super) fn left<N: Nand>(store: &Store<N>, ram_wanted: usize) -> Room {
    let (form, places) = (&store.medium.form, &store.places);
    let free = store.space.table.free_count() + places.held.len() as u32;
    let blocks = u64::from(free.saturating_sub(FREE_FOR_INSERT));
    let (of_block, used_blocks) = (u64::from(form.nodes_limit()), places.in_use().count() as u64);
    let used: u64 = places.in_use().map(|pbn| u64::from(places.live(pbn))).sum();
    // Before an insertion is refused, two blocks that fit into one are put together.
    let together = ((used_blocks + blocks).saturating_sub(1) * of_block / 2).saturating_sub(used);
    let fresh = if form.is_fixed() { blocks * of_block } else { 0 };
    let nodes = together.max(fresh).min(nodes_in_ram(store, ram_wanted));
    let half = form.shapes.leaf.capacity as u64 / 2;
    let leaves = nodes.saturating_sub(nodes / (form.shapes.inner.capacity as u64 / 2) + 2);
    let pages = blocks * u64::from(form.geometry.pages_per_block);
    Room::new(pages, Room::records_of(leaves, used, half), 0)
}

/// Number of new nodes for which the RAM has room.
fn nodes_in_ram<N: Nand>(store: &Store<N>, ram_wanted: usize) -> u64 {
    let Some(ram) = store.config.ram_bytes else { return u64::MAX };
    let (cache, slots) = (&store.medium.cache, &store.places.slots);
    let page_bytes = store.medium.form.geometry.page_bytes as usize;
    let cached = cache.ram_bytes() - ReadCache::bytes_for(0, page_bytes);
    let left = (ram + cached).saturating_sub(ram_wanted + slots.growth_bytes(PIECE + 1));
    // The list of pieces grows with them, and is held twice while it does.
    let pieces = left / (PIECE_BYTES + 2 * size_of::<usize>());
    (pieces * PIECE + slots.free_count()) as u64
}
