//! Layout of a tree on its chip, which no operation changes, and the sizes in a block that follow from it.

use super::config::{Format, LogArea};
use super::image::Shapes;
use super::places::Block;
use core::ops::Range;
use nandex::nand::Geometry;
use nandex::units::{Pbn, Ppn};

/// The shape of the chip, and the format of the tree on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) geometry: Geometry,
    pub(super) format: Format,
    pub(super) shapes: Shapes,
}

impl Form {
    pub(super) fn new(format: Format, geometry: Geometry) -> Form {
        let shapes = Shapes::new(geometry.page_bytes as usize, format.record, format.order);
        Form { geometry, format, shapes }
    }

    pub(super) fn is_fixed(&self) -> bool {
        self.format.area == LogArea::Fixed
    }

    /// Whether nodes keep their pages.
    pub(super) fn is_placed(&self) -> bool {
        self.format.is_placed
    }

    pub(super) fn units_per_page(&self) -> u32 {
        self.geometry.page_bytes / self.format.unit_bytes as u32
    }

    /// Log units of a block, counting those of pages with images.
    pub(super) fn units_per_block(&self) -> u32 {
        self.geometry.pages_per_block * self.units_per_page()
    }

    /// Nodes of a block at most; in a fixed area the first page of the log region.
    pub(super) fn nodes_limit(&self) -> u32 {
        self.geometry.pages_per_block - self.format.log_pages
    }

    pub(super) fn unit_page(&self, pbn: Pbn, unit: u16) -> Ppn {
        debug_assert!(u32::from(unit) < self.units_per_block(), "I5: unit {unit} of {pbn}");
        let page = u32::from(unit) / self.units_per_page();
        let page = if self.is_placed() { self.geometry.pages_per_block - 1 - page } else { page };
        self.geometry.page_at(pbn, page)
    }

    /// The bytes of a unit in its page.
    pub(super) fn bytes_of(&self, unit: u16) -> Range<usize> {
        let at = (u32::from(unit) % self.units_per_page()) as usize * self.format.unit_bytes;
        at..at + self.format.unit_bytes
    }

    /// The first log unit of a block that is opened.
    pub(super) fn first_unit(&self) -> u16 {
        let is_region = self.is_fixed() && !self.is_placed();
        if is_region { (self.nodes_limit() * self.units_per_page()) as u16 } else { 0 }
    }

    /// Log units that a block still takes.
    pub(super) fn room(&self, block: &Block) -> u32 {
        let pages = match (self.is_placed(), self.is_fixed()) {
            (false, _) => self.geometry.pages_per_block,
            (true, true) => self.format.log_pages,
            (true, false) => self.geometry.pages_per_block - self.image_pages(block),
        };
        let units = pages * self.units_per_page();
        debug_assert!(self.is_placed() || units >= block.cursor.into(), "I6: units beyond a block");
        units.saturating_sub(block.cursor.into())
    }

    /// Pages on which a block still takes images; in the form in place, pages for new nodes. `pending` pages
    /// are kept for the next commit.
    pub(super) fn image_room(&self, block: &Block, pending: u32) -> u32 {
        let (pages, first_log) = (self.geometry.pages_per_block, self.nodes_limit());
        if self.is_placed() && self.is_fixed() {
            return first_log.saturating_sub(u32::from(block.live) + pending);
        }
        if !self.is_fixed() {
            let images = if self.is_placed() { self.image_pages(block) } else { 0 };
            return pages.saturating_sub(self.cursor_page(block) + images);
        }
        // On parts with ascending pages the first log unit makes the unused pages before it evaporate.
        let open = self.geometry.random_order || block.cursor == self.first_unit();
        if open { first_log.saturating_sub(block.data_next.into()) } else { 0 }
    }

    /// Takes the next page for an image.
    pub(super) fn take_image_page(&self, block: &mut Block) -> u32 {
        if self.is_fixed() {
            block.data_next += 1;
            return u32::from(block.data_next) - 1;
        }
        let page = self.cursor_page(block);
        block.cursor = ((page + 1) * self.units_per_page()) as u16;
        page
    }

    /// The first page behind all log units; in place how many pages hold some.
    pub(super) fn cursor_page(&self, block: &Block) -> u32 {
        u32::from(block.cursor).div_ceil(self.units_per_page())
    }

    /// Pages that a group keeps for images.
    fn image_pages(&self, block: &Block) -> u32 {
        block.data_next.max(block.live).into()
    }

    /// Pages with log records.
    pub(super) fn log_pages(&self, block: &Block) -> u32 {
        u32::from(block.units).div_ceil(self.units_per_page())
    }

    /// Number of programmed pages.
    pub(super) fn pages_used(&self, block: &Block) -> u32 {
        let (images, cursor) = (u32::from(block.data_next), self.cursor_page(block));
        match (self.is_placed(), self.is_fixed()) {
            (true, _) => images + cursor,
            (false, true) => images + (cursor - self.nodes_limit()),
            (false, false) => cursor,
        }
    }
}
