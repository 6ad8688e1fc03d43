//! Mounting the ring: the table of the last checkpoint, and the batches after it.
//!
//! Batches are read by their headers, each at the end of the one before, as long as their numbers continue. A
//! batch that is not whole ends the replay: the power was cut while it was written. If the store keeps the
//! order of writes, only the last batch can be incomplete, so only its nodes are read. On other stores the
//! nodes of all batches are read.

use super::extent::{Header, Listed, require_sound};
use super::ring::Ring;
use super::settings::ClusteredSizes;
use super::superblock::{SLOTS, Superblock};
use super::table::{AddressTable, require_page};
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

/// Reader of the pages, into one buffer.
struct Reader<'a, S> {
    store: &'a mut S,
    cause: Cause,
    page: Vec<u8>,
}

impl<S: PageStore> Reader<'_, S> {
    fn read(&mut self, at: Lpn) -> Result<&[u8], StoreError> {
        self.store.read(at, self.cause, &mut self.page)?;
        Ok(&self.page)
    }
}

/// Reads the table and replays the batches after it.
pub(super) fn replay(
    store: &mut impl PageStore,
    plan: &ClusteredSizes,
    superblock: &Superblock,
    cause: Cause,
) -> Result<Replay, IndexError> {
    let mut reader = Reader { store, cause, page: vec![0; plan.page_bytes] };
    let mut found = Replay {
        table: AddressTable::new(plan.pages),
        ring: Ring::new(plan, superblock.anchor, superblock.tail),
    };
    let area = SLOTS + (superblock.epoch % 2) as u32 * plan.table_pages;
    let parts = (superblock.entries as usize).div_ceil(super::table::page_entries(plan.page_bytes));
    for part in 0..parts as u32 {
        let at = Lpn(area + part);
        let page = reader.read(at)?;
        require_page(page, superblock.epoch, at)?;
        found.table.decode(part, superblock.entries, page, found.ring.pages_possible())?;
    }
    let in_order = reader.store.durable_writes() || reader.store.prefix_consistent();
    let mut newest: Option<(Vec<Listed>, Ring)> = None;
    loop {
        let start = newest.as_ref().map_or(found.ring, |(_, ring)| *ring);
        let next = read_batch(&mut reader, plan, superblock.epoch, start)?;
        let is_end = next.is_none();
        if let Some((nodes, ring)) = core::mem::replace(&mut newest, next) {
            if (is_end || !in_order) && !is_whole(&mut reader, &nodes)? {
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
    reader: &mut Reader<'_, impl PageStore>,
    plan: &ClusteredSizes,
    epoch: u64,
    mut ring: Ring,
) -> Result<Option<(Vec<Listed>, Ring)>, StoreError> {
    let mut nodes = Vec::new();
    for part in 0.. {
        let Some((at, room)) = ring.next_extent() else { break };
        let page = reader.read(Lpn(at))?;
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

/// True if the pages of a batch are those listed in its headers.
fn is_whole(reader: &mut Reader<'_, impl PageStore>, nodes: &[Listed]) -> Result<bool, StoreError> {
    for node in nodes {
        let page = reader.read(Lpn(node.page))?;
        require_sound(page, Lpn(node.page))?;
        if get_u32(page, 0) != node.stamp {
            return Ok(false);
        }
    }
    Ok(true)
}
