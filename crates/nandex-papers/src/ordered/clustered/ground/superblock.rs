//! The two superblocks, pages 0 and 1 of the store, written in turns: where the last checkpoint is.
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's own number
//!        8..16  the characters "NXCLUST1"
//!       16..20  bytes of a page
//!       20..24  pages of the store when it was formatted
//!       24      policy: 1 append, 2 least recent, 3 cascade
//!       25      pages in percent that nodes may take          26..28  0
//!       28..32  pages of a segment of the ring; 0 where there is none
//!       32..36  numbers of nodes; nodes at most, where there is no table
//!       36..44  how often a superblock was written, from 0; superblock n is page n mod 2
//!       44..52  checkpoint, from 1; its table is in area 0 or 1 as it is even or odd
//!       52..56  the page where the next batch begins; the page of the root, where there is no table
//!       56..60  the first segment that is not free
//!       60..64  entries of the table
//!       64..104 the first bytes of page 0 of the tree, the others being 0
//!      104..    0
//! ```
//!
//! No store tears a page, so both superblocks are right at any time, and one that is not was damaged: it may
//! have been the newer one, so that is an error.

use super::settings::ClusteredSizes;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant, message};
use nandex::codec::{crc32, get_u32, get_u64, put_u32, put_u64};
use nandex::nand::{Cause, Differs, Unfit};
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

/// Number of superblocks. They are the first pages of the store.
pub(super) const SLOTS: u32 = 2;

/// Bytes of the tree's page 0 that a superblock keeps. The rest must be 0.
const TREE_BYTES: usize = 40;
pub(super) const SUPERBLOCK_BYTES: usize = 64 + TREE_BYTES;
const MAGIC: &[u8; 8] = b"NXCLUST1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    /// Number of superblocks written before this one.
    pub(super) sequence: u64,
    /// Number of the checkpoint.
    pub(super) epoch: u64,
    /// The page where the next batch begins. Without a table: the page of the root.
    pub(super) anchor: u32,
    /// The first segment that is not free.
    pub(super) tail: u32,
    pub(super) entries: u32,
    /// The first bytes of the tree's page 0.
    pub(super) tree: [u8; TREE_BYTES],
}

impl Superblock {
    pub(super) const fn new(anchor: u32) -> Superblock {
        Superblock { sequence: 0, epoch: 0, anchor, tail: 0, entries: 0, tree: [0; TREE_BYTES] }
    }

    /// Keeps the tree's page 0. Refuses one that is too long.
    pub(super) fn set_tree_page(&mut self, page: &[u8]) -> Result<(), StoreError> {
        let (kept, rest) = page.split_at(TREE_BYTES);
        if rest.iter().any(|byte| *byte != 0) {
            return Err(StoreError::Unsupported("a tree with a longer superblock".into()));
        }
        self.tree.copy_from_slice(kept);
        Ok(())
    }

    pub(super) fn tree_page(&self, page: &mut [u8]) {
        page.fill(0);
        page[..TREE_BYTES].copy_from_slice(&self.tree);
    }

    fn encode(&self, plan: &ClusteredSizes, slot: u32, page: &mut [u8]) {
        debug_assert!(self.is_possible(plan), "C1: {self:?} names places that cannot be");
        page.fill(0);
        put_u32(page, 4, slot);
        page[8..16].copy_from_slice(MAGIC);
        put_u32(page, 16, plan.page_bytes as u32);
        put_u32(page, 20, plan.pages);
        page[24] = plan.config.policy as u8;
        page[25] = plan.config.space_percent;
        put_u32(page, 28, if plan.is_append() { plan.segment_pages } else { 0 });
        put_u32(page, 32, plan.nodes_max);
        put_u64(page, 36, self.sequence);
        put_u64(page, 44, self.epoch);
        put_u32(page, 52, self.anchor);
        put_u32(page, 56, self.tail);
        put_u32(page, 60, self.entries);
        page[64..SUPERBLOCK_BYTES].copy_from_slice(&self.tree);
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
    }

    /// Writes the superblock to one of the two slots, alternately.
    pub(super) fn write(
        &self,
        store: &mut impl PageStore,
        plan: &ClusteredSizes,
        page: &mut [u8],
    ) -> Result<(), StoreError> {
        let slot = (self.sequence % u64::from(SLOTS)) as u32;
        self.encode(plan, slot, page);
        store.write(Lpn(slot), Cause::Checkpoint, page)
    }

    /// Whether the pages that this superblock names exist on the store.
    fn is_possible(&self, plan: &ClusteredSizes) -> bool {
        if !plan.is_append() {
            return self.anchor < plan.pages;
        }
        let end = plan.first() + plan.segments * plan.segment_pages;
        (plan.first()..=end).contains(&self.anchor)
            && self.tail < plan.segments
            && self.entries as usize <= super::table::entries_max(plan.nodes_max)
    }

    fn decode(page: &[u8]) -> Superblock {
        let mut tree = [0; TREE_BYTES];
        tree.copy_from_slice(&page[64..SUPERBLOCK_BYTES]);
        Superblock {
            sequence: get_u64(page, 36),
            epoch: get_u64(page, 44),
            anchor: get_u32(page, 52),
            tail: get_u32(page, 56),
            entries: get_u32(page, 60),
            tree,
        }
    }
}

fn read_newer(store: &mut impl PageStore, cause: Cause) -> Result<Vec<u8>, IndexError> {
    let page_bytes = store.page_bytes();
    if page_bytes < SUPERBLOCK_BYTES {
        return Err(IndexError::other(Differs::Geometry, "pages too small for a superblock"));
    }
    let (mut page, mut other) = (vec![0; page_bytes], vec![0; page_bytes]);
    store.read(Lpn(0), cause, &mut page)?;
    store.read(Lpn(1), cause, &mut other)?;
    if page[8..16] != *MAGIC && other[8..16] != *MAGIC {
        let what = "pages 0 and 1 are no superblocks of a cluster layer";
        let unfit = match page.iter().chain(&other).all(|&byte| byte == 0) {
            true => nandex::store::unfit(store, what)?,
            false => Unfit::named(&page[8..16], MAGIC, what),
        };
        return Err(IndexError::NotFormatted(unfit));
    }
    for (slot, page) in [&page, &other].into_iter().enumerate() {
        if page.iter().all(|byte| *byte == 0) {
            return Err(IndexError::other(Differs::Kind, "formatting was cut short"));
        }
        let is_sound = get_u32(page, 0) == crc32(&[&page[4..]]) && get_u32(page, 4) == slot as u32;
        if !is_sound || page[8..16] != *MAGIC || get_u64(page, 36) % 2 != slot as u64 {
            return Err(IndexError::broken(Invariant::C1, "the superblock is damaged", slot as u64));
        }
    }
    Ok(if get_u64(&other, 36) > get_u64(&page, 36) { other } else { page })
}

/// Reads both superblocks. Returns the settings of the layer and the newer superblock.
pub(super) fn read(
    store: &mut impl PageStore,
    config: &super::ClusteredConfig,
    cause: Cause,
) -> Result<(ClusteredSizes, Superblock), IndexError> {
    let page = read_newer(store, cause)?;
    let (pages, segment_pages) = (get_u32(&page, 20), get_u32(&page, 28));
    if get_u32(&page, 16) as usize != page.len() || pages > store.page_count() {
        return Err(IndexError::other(Differs::Geometry, "the layer was formatted on other or more pages"));
    }
    let mut config = *config;
    let has_others = config.segment_pages.is_some_and(|wanted| segment_pages > 0 && wanted != segment_pages);
    if config.policy as u8 != page[24] || has_others {
        return Err(IndexError::other(
            Differs::Settings,
            "the layer was formatted for another policy, or other segments",
        ));
    }
    if segment_pages > 0 {
        config.segment_pages = Some(segment_pages);
    }
    config.space_percent = page[25];
    let (mut plan, nodes) = (config.on(page.len(), pages)?, get_u32(&page, 32));
    // A larger batch than the one it was formatted for may not find room.
    while nodes > plan.nodes_max && plan.batch_nodes > 1 {
        config.batch_nodes = Some(plan.batch_nodes / 2);
        plan = config.on(page.len(), pages)?;
    }
    if nodes > plan.nodes_max {
        return Err(IndexError::unsupported(message!(
            "the store has room for {} nodes, it was formatted for {nodes}",
            plan.nodes_max
        )));
    }
    plan.nodes_max = nodes;
    let found = Superblock::decode(&page);
    if found.is_possible(&plan) {
        return Ok((plan, found));
    }
    Err(IndexError::broken(Invariant::C1, "the superblock names impossible places", 0))
}
