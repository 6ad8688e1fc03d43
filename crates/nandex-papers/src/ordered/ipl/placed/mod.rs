//! Nodes in place: an FTL shown as a chip whose pages may be overwritten ([`nandex::nand::Nand::replaces`]).
//! Each block of that chip is a *group* of logical pages.
//!
//! ```text
//! block 0    | header | unused                                            |
//! a group    | image | image | image |      free      | log 2 | log 1 | log 0 |     log units are numbered from the end
//! ```
//!
//! * A node keeps its page in its group: a new image overwrites the older one. Log units gather in a page of
//!   the group, which is rewritten with each new unit.
//! * A *merge* writes each node of a group over its image. A ghost gets a free page of the group, before the
//!   image that it uses is overwritten. Then the log begins again at the last page. If there are too many
//!   nodes, some move to a fresh group first. The nodes of a sparse partner move in last.
//! * Nothing is erased or trimmed after the format, and there is no checkpoint. A mount reads every page once
//!   (`mount`).
//!
//! After a power cut: a store never tears a page, and a merge begins with a commit. So an image that
//! overwrites another one contains only committed changes, and the older log units stay until all images are
//! written. An image with uncommitted changes goes to a free page, except the image that ends its operation
//! and commits it by itself. Pages left that way are not used before the commit (`pending`).
//!
//! A group has room for the images of all its nodes, including ghosts; log units may take the rest
//! (`Form::room`).

mod merge;
mod mount;

use super::config::{Config, Format, IplConfig, LogArea};
use super::form::Form;
use super::medium::Medium;
use super::space::Space;
use super::store::Store;
use super::{IplTree, require_blocks};
use alloc::vec;
use nandex::blocks::BlockTable;
use nandex::blocks::checkpoint::CheckpointArea;
use nandex::check::{IndexError, words};
use nandex::codec::{crc32, get_u16, get_u32, put_u16, put_u32};
use nandex::nand::{Cause, Differs, Geometry, Nand, Unfit, is_blank};
use nandex::ordered::{Durability, RecordFormat};
use nandex::units::{Pbn, Ppn};

const MAGIC: &[u8; 4] = b"NXIP";
const HEADER_BYTES: usize = 32;

/// Byte after the header, unless changes of the class *none* are under way.
const SETTLED: u8 = 0xff;

/// Page of the header, which describes the groups.
const HEADER: Ppn = Ppn(0);

/// Block of the header page; it is not a group.
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

    fn decode(bytes: &[u8], geometry: Geometry) -> Result<Form, Unfit> {
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
            is_placed: true,
            order: get_u32(bytes, 18) as usize,
            unit_bytes: get_u32(bytes, 22) as usize,
            log_pages: get_u16(bytes, 26).into(),
        };
        let form = Some(format).filter(|format| format.record.key_bytes > 0);
        let form = form.map(|format| Form::new(format, geometry)).filter(Form::is_possible);
        form.ok_or(foreign)
    }
}

/// Refuses a chip whose pages cannot be overwritten.
fn require_replacing<N: Nand>(nand: &N) -> Result<(), IndexError> {
    if nand.replaces() {
        return Ok(());
    }
    Err(IndexError::Unsupported(
        "placement = in_place needs an FTL beneath: a page of a chip takes one program".into(),
    ))
}

/// The space of a chip without checkpoints: all blocks are free except that of the header.
fn groups_of(geometry: Geometry) -> Space {
    let mut table = BlockTable::new(geometry);
    table.reserve(HEADER_BLOCK);
    Space::new(CheckpointArea::empty(geometry), table)
}

impl<N: Nand> IplTree<N> {
    pub(super) fn format_placed(mut nand: N, form: Form, config: Config) -> Result<IplTree<N>, IndexError> {
        require_replacing(&nand)?;
        let geometry = form.geometry;
        require_blocks(geometry.blocks, 1)?;
        for pbn in (0..geometry.blocks).map(Pbn) {
            nand.erase(pbn, Cause::Checkpoint)?;
        }
        let mut store = Store::new(nand, form, config, groups_of(geometry));
        store.clear_groups(size_of::<Self>());
        store.plant_root()?;
        // Last: without it there is no tree.
        store.medium.write_header(false)?;
        IplTree::assemble(store)
    }

    pub(super) fn mount_placed(mut nand: N, config: &IplConfig) -> Result<IplTree<N>, IndexError> {
        require_replacing(&nand)?;
        let geometry = nand.geometry();
        let mut header = vec![0; geometry.page_bytes as usize];
        nand.read(HEADER, Cause::Recovery, &mut header, &mut [])?;
        let form = match Format::decode(&header, geometry) {
            Ok(form) => form,
            Err(_) if is_blank(&mut nand)? => return Err(IndexError::NotFormatted(Unfit::Blank)),
            Err(unfit) => return Err(IndexError::NotFormatted(unfit)),
        };
        super::require_same(&form.format, config)?;
        let config = Config::new(config, &form)?;
        let is_open = header[HEADER_BYTES] != SETTLED;
        if is_open && config.durability == Durability::None {
            return Err(IndexError::NotCleanlyClosed);
        }
        drop(header);
        let mut store = Store::new(nand, form, config, groups_of(geometry));
        store.clear_groups(size_of::<Self>());
        store.recover_placed()?;
        store.space.is_open = is_open;
        IplTree::assemble(store)
    }
}

impl<N: Nand> Medium<N> {
    /// Writes the header, and whether changes of the class *none* are under way.
    pub(super) fn write_header(&mut self, is_open: bool) -> Result<(), IndexError> {
        self.page.fill(0xff);
        self.page[..HEADER_BYTES].copy_from_slice(&self.form.format.encode(self.form.geometry));
        self.page[HEADER_BYTES] = if is_open { 0 } else { SETTLED };
        self.spare.fill(0xff);
        self.program_over(HEADER, Cause::Checkpoint)
    }
}

impl<N: Nand> Store<N> {
    /// Starts with empty groups, and a cache in the RAM that `others` bytes leave.
    fn clear_groups(&mut self, others: usize) {
        self.places.clear_blocks(self.medium.form.geometry.blocks);
        self.fill_cache(others);
    }

    /// Finds the tree again, after an operation that was given up half-way.
    pub(super) fn reopen_placed(&mut self, others: usize) -> Result<(), IndexError> {
        self.reset(groups_of(self.medium.form.geometry));
        self.clear_groups(others);
        self.recover_placed()
    }
}
