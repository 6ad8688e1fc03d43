//! A mount of the ring: the table of the last checkpoint, and the batches that followed it.
//!
//! Batches are read by their headers, each where the one before it ends, as long as their numbers go on. One
//! that is not whole ends the replay: the power was cut while it was written. Where writes survive in order
//! only the last one can be such, so only its nodes are read; elsewhere those of all batches are.

use super::extent::{Header, Listed, require_sound};
use super::ring::Ring;
use super::settings::ClusteredSizes;
use super::superblock::{SLOTS, Superblock};
use super::table::AddressTable;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::codec::get_u32;
use nandex::nand::Cause;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

/// The state that a mount finds: the last checkpoint and the batches after it.
pub(super) struct Replay {
    pub(super) table: AddressTable,
    pub(super) ring: Ring,
}

pub(super) fn replay(
    store: &mut impl PageStore,
    plan: &ClusteredSizes,
    superblock: &Superblock,
    cause: Cause,
) -> Result<Replay, IndexError> {
    let mut page = vec![0; plan.page_bytes];
    let mut found = Replay {
        table: AddressTable::new(plan.pages),
        ring: Ring::new(plan, superblock.anchor, superblock.tail),
    };
    let area = SLOTS + (superblock.epoch % 2) as u32 * plan.table_pages;
    let parts = (superblock.entries as usize).div_ceil(super::table::page_entries(plan.page_bytes));
    for part in 0..parts as u32 {
        let at = Lpn(area + part);
        store.read(at, cause, &mut page)?;
        let (possible, table) = (found.ring.pages_possible(), (superblock.epoch, superblock.entries));
        found.table.decode(table, (part, at), &page, possible)?;
    }
    let in_order = store.durable_writes() || store.prefix_consistent();
    let mut newest: Option<(Vec<Listed>, Ring)> = None;
    loop {
        let start = newest.as_ref().map_or(found.ring, |(_, ring)| *ring);
        let next = read_batch(store, plan, superblock.epoch, start, (cause, &mut page))?;
        let is_end = next.is_none();
        if let Some((nodes, ring)) = core::mem::replace(&mut newest, next) {
            if (is_end || !in_order) && !is_whole(store, &nodes, cause, &mut page)? {
                break;
            }
            for node in nodes {
                if node.id >= plan.nodes_max || !found.table.set(node.id, Some(node.page)) {
                    return Err(IndexError::broken(
                        Invariant::C4,
                        "a batch lists what cannot be",
                        u64::from(node.page),
                    ));
                }
            }
            found.ring = ring;
        }
        if is_end {
            break;
        }
    }
    Ok(found)
}

/// The nodes listed by the next batch, and the ring after it. `None` if one of its headers is missing.
fn read_batch(
    store: &mut impl PageStore,
    plan: &ClusteredSizes,
    epoch: u64,
    mut ring: Ring,
    (cause, page): (Cause, &mut [u8]),
) -> Result<Option<(Vec<Listed>, Ring)>, StoreError> {
    let mut nodes = Vec::new();
    for part in 0.. {
        let Some((at, room)) = ring.next_extent() else { break };
        store.read(Lpn(at), cause, page)?;
        let expected = |header: &Header| {
            header.epoch == epoch && header.batch == ring.batch + 1 && header.part == part && header.nodes > 0
        };
        let Some(header) = Header::read(page, Lpn(at))?.filter(expected) else { break };
        if header.nodes > room.min(plan.extent_nodes()) {
            return Err(StoreError::Corrupted {
                what: "C2: an extent beyond its segment",
                at: u64::from(at),
            });
        }
        nodes.extend(header.listed(page, Lpn(at)));
        ring.pass(header.nodes);
        if header.is_last {
            ring.batch += 1;
            return Ok(Some((nodes, ring)));
        }
    }
    Ok(None)
}

/// Whether the pages of a batch are those that its headers list.
fn is_whole(
    store: &mut impl PageStore,
    nodes: &[Listed],
    cause: Cause,
    page: &mut [u8],
) -> Result<bool, StoreError> {
    for node in nodes {
        store.read(Lpn(node.page), cause, page)?;
        require_sound(page, Lpn(node.page))?;
        if get_u32(page, 0) != node.stamp {
            return Ok(false);
        }
    }
    Ok(true)
}
