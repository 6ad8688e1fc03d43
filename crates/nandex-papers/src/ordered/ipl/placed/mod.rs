//! Nodes in place: an FTL shown as a chip whose pages may be programmed over
//! ([`nandex::nand::Nand::replaces`]), each block of it a *group* of logical pages.
//!
//! ```text
//! block 0    | header | unused                                            |
//! a group    | image | image | image |      free      | log 2 | log 1 | log 0 |     log units are numbered from the end
//! ```
//!
//! * A node has a page of its group and keeps it: an image is written over its older one. Log units gather in
//!   a page of the group, which is written over with each that joins it.
//! * A *merge* writes each node of a group over its image. A ghost gets a free page of the group, before the
//!   page is written over that its image was so far. Then the log begins anew at the last page. Where nodes
//!   are too many, some move to a fresh group first; those of a sparse partner move in last.
//! * Nothing is erased or trimmed after the format; there is no checkpoint. A mount reads every page once
//!   (`mount`).
//!
//! What a power cut leaves: a store never tears a page, and a merge begins with a commit. So an image that
//! replaces another one holds nothing that is not committed, and the log units below it stay as they are
//! until all images are written. An image that holds something uncommitted goes to a free page, but for one
//! that ends its operation and commits it by itself. Pages left that way are not used before the commit
//! (`pending`).
//!
//! A group has room for the images of all its nodes, ghosts included: what log units may take is what these
//! leave (`Store::room`).

mod merge;
mod mount;

use super::config::{Config, Format, IplConfig, LogArea};
use super::image::Node;
use super::layout::{IplTag, NO_UNIT, PageKind};
use super::store::{NO_BLOCK, Slot, Store};
use super::{IplTree, require_blocks_of};
use alloc::vec;
use alloc::vec::Vec;
use nandex::blocks::checkpoint::CheckpointArea;
use nandex::blocks::{BlockTable, Wear};
use nandex::check::{IndexError, words};
use nandex::codec::{crc32, get_u16, get_u32, put_u16, put_u32};
use nandex::log::Placement;
use nandex::nand::{Cause, Differs, Geometry, Nand, NandError, Unfit, is_blank};
use nandex::ordered::{Durability, RecordFormat};
use nandex::units::{Pbn, Ppn};

const MAGIC: &[u8; 4] = b"NXIP";
const HEADER_BYTES: usize = 32;

/// The byte after the header, but where changes of the class *none* are under way.
const SETTLED: u8 = 0xff;

/// The page that says what the groups are.
const HEADER: Ppn = Ppn(0);

/// The block that it is in, and no group.
const HEADER_BLOCK: Pbn = Pbn(0);

impl Format {
    fn encode(&self, geometry: Geometry) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = u8::from(self.area == LogArea::Fixed);
        (bytes[5], bytes[6]) = (self.record.key_bytes, self.record.value_bytes);
        put_u32(&mut bytes, 8, geometry.page_bytes);
        put_u16(&mut bytes, 12, geometry.pages_per_block as u16);
        put_u32(&mut bytes, 14, geometry.blocks);
        put_u32(&mut bytes, 18, self.order.min(1 << 16) as u32);
        put_u32(&mut bytes, 22, self.unit_bytes as u32);
        put_u16(&mut bytes, 26, self.log_pages as u16);
        let crc = crc32(&[&bytes[..28]]);
        put_u32(&mut bytes, 28, crc);
        bytes
    }

    fn decode(bytes: &[u8], geometry: Geometry) -> Result<Format, Unfit> {
        let what = words("the chip holds no tree with in-page logging in place");
        let foreign = Unfit::other(Differs::Kind, what);
        let bytes = bytes.get(..HEADER_BYTES).ok_or(foreign)?;
        if crc32(&[&bytes[..28]]) != get_u32(bytes, 28) {
            return Err(foreign);
        }
        if bytes[..4] != MAGIC[..] {
            return Err(Unfit::named(&bytes[..4], MAGIC, what));
        }
        let shape = (get_u32(bytes, 8), u32::from(get_u16(bytes, 12)), get_u32(bytes, 14));
        if shape != (geometry.page_bytes, geometry.pages_per_block, geometry.blocks) {
            return Err(Unfit::other(Differs::Geometry, words("the tree was formatted on another chip")));
        }
        let format = Format {
            record: RecordFormat { key_bytes: bytes[5], value_bytes: bytes[6] },
            area: if bytes[4] == 0 { LogArea::Dynamic } else { LogArea::Fixed },
            order: get_u32(bytes, 18) as usize,
            unit_bytes: get_u32(bytes, 22) as usize,
            log_pages: get_u16(bytes, 26).into(),
        };
        if format.record.key_bytes > 0 && format.is_possible(geometry) { Ok(format) } else { Err(foreign) }
    }
}

/// Refuses a chip whose pages take one program.
fn require_replacing<N: Nand>(nand: &N) -> Result<(), IndexError> {
    if nand.replaces() {
        return Ok(());
    }
    Err(IndexError::Unsupported(
        "placement = in_place needs an FTL beneath: a page of a chip takes one program".into(),
    ))
}

/// All blocks free, but for that of the header.
fn groups_of(geometry: Geometry) -> BlockTable {
    let mut table = BlockTable::new(geometry);
    table.reserve(HEADER_BLOCK);
    table
}

impl<N: Nand> IplTree<N> {
    pub(super) fn format_placed(
        mut nand: N,
        format: Format,
        config: Config,
    ) -> Result<IplTree<N>, IndexError> {
        require_replacing(&nand)?;
        let geometry = nand.geometry();
        require_blocks_of(geometry.blocks, 1)?;
        for pbn in (0..geometry.blocks).map(Pbn) {
            nand.erase(pbn, Cause::Checkpoint)?;
        }
        let area = (CheckpointArea::empty(geometry), groups_of(geometry));
        let mut store = Store::new(nand, format, config, area);
        store.clear_blocks();
        store.fill_cache(size_of::<Self>());
        store.plant_root()?;
        // Last: without it there is no tree.
        store.write_header(false)?;
        IplTree::assemble(store)
    }

    pub(super) fn mount_placed(mut nand: N, config: &IplConfig) -> Result<IplTree<N>, IndexError> {
        require_replacing(&nand)?;
        let geometry = nand.geometry();
        let mut header = vec![0; geometry.page_bytes as usize];
        nand.read(HEADER, Cause::Recovery, &mut header, &mut [])?;
        let format = match Format::decode(&header, geometry) {
            Ok(format) => format,
            Err(_) if is_blank(&mut nand)? => return Err(IndexError::NotFormatted(Unfit::Blank)),
            Err(unfit) => return Err(IndexError::NotFormatted(unfit)),
        };
        super::require_same(&format, config)?;
        let config = Config::new(config, &format, geometry)?;
        let is_open = header[HEADER_BYTES] != SETTLED;
        if is_open && config.durability == Durability::None {
            return Err(IndexError::NotCleanlyClosed);
        }
        drop(header);
        let area = (CheckpointArea::empty(geometry), groups_of(geometry));
        let mut store = Store::new(nand, format, config, area);
        store.clear_blocks();
        store.fill_cache(size_of::<Self>());
        store.recover_placed()?;
        store.is_open = is_open;
        IplTree::assemble(store)
    }
}

impl<N: Nand> Store<N> {
    /// Writes the header, and whether changes of the class *none* are under way.
    pub(super) fn write_header(&mut self, is_open: bool) -> Result<(), IndexError> {
        self.page.fill(0xff);
        self.page[..HEADER_BYTES].copy_from_slice(&self.format.encode(self.geometry));
        self.page[HEADER_BYTES] = if is_open { 0 } else { SETTLED };
        self.spare.fill(0xff);
        self.program_over(HEADER, Cause::Checkpoint)?;
        self.is_open = is_open;
        Ok(())
    }

    /// Whether nodes keep their pages.
    pub(super) fn is_placed(&self) -> bool {
        self.config.placement == Placement::InPlace
    }

    /// Finds the tree again, after an operation that was given up half-way.
    pub(super) fn reopen_placed(&mut self, others: usize) -> Result<(), IndexError> {
        let geometry = self.geometry;
        self.reset(CheckpointArea::empty(geometry), groups_of(geometry));
        self.clear_blocks();
        self.fill_cache(others);
        self.recover_placed()
    }

    /// Takes a free group; what stands in it is older than all that the tree needs.
    pub(super) fn open_group(&mut self) -> Result<Pbn, IndexError> {
        let pbn = self.table.first_free(Wear::Least).ok_or(IndexError::Full)?;
        self.table.claim(pbn);
        Ok(pbn)
    }

    /// Programs the page and the spare area at hand over what stands there.
    pub(super) fn program_over(&mut self, ppn: Ppn, cause: Cause) -> Result<(), IndexError> {
        self.cache.forget(ppn);
        self.at_hand = None;
        match self.nand.program(ppn, cause, &self.page, &self.spare) {
            // The store below takes no more.
            Err(NandError::ProgramFailed(_)) => Err(IndexError::WornOut),
            other => Ok(other?),
        }
    }

    /// Pages of a group that hold log units.
    fn log_pages_of(&self, pbn: Pbn) -> u32 {
        u32::from(self.blocks[pbn.index()].cursor).div_ceil(self.units_per_page())
    }

    /// Pages that a group keeps for images.
    fn image_pages_of(&self, pbn: Pbn) -> u32 {
        let block = &self.blocks[pbn.index()];
        block.data_next.max(block.live).into()
    }

    /// Log units that a group still takes.
    pub(super) fn room_placed(&self, pbn: Pbn) -> u32 {
        let pages = if self.is_fixed() {
            self.format.log_pages
        } else {
            self.geometry.pages_per_block - self.image_pages_of(pbn)
        };
        (pages * self.units_per_page()).saturating_sub(self.blocks[pbn.index()].cursor.into())
    }

    /// Pages that a group still takes images on, in the place of none.
    pub(super) fn image_room_placed(&self, pbn: Pbn) -> u32 {
        let pages = self.geometry.pages_per_block;
        if !self.is_fixed() {
            return pages.saturating_sub(self.log_pages_of(pbn) + self.image_pages_of(pbn));
        }
        let pending = self.pending.iter().filter(|&&ppn| self.geometry.block_of(ppn) == pbn).count() as u32;
        let used = u32::from(self.blocks[pbn.index()].live) + pending;
        (pages - self.format.log_pages).saturating_sub(used)
    }

    /// How many nodes each page of a group is the image of.
    fn images_in(&self, pbn: Pbn) -> Vec<u16> {
        let mut nodes = vec![0; self.geometry.pages_per_block as usize];
        for slot in self.slots.iter().filter(|slot| slot.block == pbn.0) {
            nodes[usize::from(slot.base)] += 1;
        }
        nodes
    }

    /// Whether a page is the image of more than one node.
    fn is_shared(&self, place: Slot) -> bool {
        let at = (place.block, place.base);
        self.slots.iter().filter(|slot| (slot.block, slot.base) == at).nth(1).is_some()
    }

    /// The first page of a group that neither an image nor the log needs.
    fn free_page(&self, pbn: Pbn, images: &[u16]) -> Result<u32, IndexError> {
        let kept = if self.is_fixed() { self.format.log_pages } else { self.log_pages_of(pbn) };
        let is_free = |&page: &u32| {
            images[page as usize] == 0 && !self.pending.contains(&self.geometry.page_at(pbn, page))
        };
        let mut pages = 0..self.geometry.pages_per_block - kept;
        debug_assert!(pages.clone().any(|page| is_free(&page)), "I6: {pbn} has no page for an image");
        pages.find(is_free).ok_or(IndexError::Full)
    }

    /// Keeps the page that a node leaves until the next commit.
    pub(super) fn note_pending(&mut self, old: Slot) {
        if self.is_placed() && old.block != NO_BLOCK {
            self.pending.push(self.geometry.page_at(Pbn(old.block), old.base.into()));
        }
    }

    /// Programs the image of a node that contains its records up to `sequence`, and notes where it is.
    fn write_image(
        &mut self,
        node: &Node,
        (pbn, page): (Pbn, u32),
        tag: IplTag,
        cause: Cause,
    ) -> Result<(), IndexError> {
        self.encode_image(node, page, tag);
        self.program_over(self.geometry.page_at(pbn, page), cause)?;
        self.set_slot(node.id, Slot { block: pbn.0, base: page as u16, last: NO_UNIT });
        let block = self.block(pbn);
        block.data_next = block.data_next.max(page as u16 + 1);
        Ok(())
    }

    /// Writes a node's image anew. With `mark` everything up to now is durable thereby, and the image may
    /// stand over its older one, unless that is the image of a ghost as well; else it goes to a free page.
    pub(super) fn place_placed(&mut self, node: &Node, mark: bool) -> Result<(), IndexError> {
        self.sequence += 1;
        let sequence = self.sequence;
        let old = self.slots[node.id as usize];
        let stays = mark && old.block != NO_BLOCK && !self.is_shared(old);
        let pbn = if stays { Pbn(old.block) } else { self.block_for_image(node.id)? };
        let page = if stays { old.base.into() } else { self.free_page(pbn, &self.images_in(pbn))? };
        let committed = if mark { sequence } else { self.committed };
        let tag = IplTag { sequence, committed, ..self.blank_tag(pbn) };
        self.write_image(node, (pbn, page), tag, Cause::Host)?;
        if old.block != NO_BLOCK {
            self.drop_waiting_of(Pbn(old.block), node.id);
        }
        if !stays {
            self.note_pending(old);
        }
        let block = self.block(pbn);
        block.newest = sequence.into();
        if mark {
            self.committed = sequence;
            self.pending.clear();
        }
        Ok(())
    }

    /// Makes everything durable where no record waits and no group has room for a unit that says so: by an
    /// image over its older one.
    pub(super) fn mark_by_image(&mut self) -> Result<(), IndexError> {
        let mut shared = vec![0u8; self.geometry.pages() as usize];
        let page_of = |slot: &Slot| self.geometry.page_at(Pbn(slot.block), slot.base.into()).index();
        let placed = || self.slots.iter().filter(|slot| slot.block != NO_BLOCK);
        placed().for_each(|slot| shared[page_of(slot)] = shared[page_of(slot)].saturating_add(1));
        let alone = |slot: &Slot| slot.block != NO_BLOCK && shared[page_of(slot)] == 1;
        let id = self.slots.iter().position(alone).ok_or(IndexError::Full)? as u32;
        let mut node = core::mem::take(&mut self.moving);
        let result = self.load(id, &mut node, Cause::Host).and_then(|()| self.place_placed(&node, true));
        self.moving = node;
        result
    }

    /// The tag of a page of log units.
    fn log_tag(&self, ppn: Ppn) -> IplTag {
        let pbn = self.geometry.block_of(ppn);
        let page = self.geometry.page_in_block(ppn) as u16;
        IplTag { kind: PageKind::Log, page, ..self.blank_tag(pbn) }
    }
}
