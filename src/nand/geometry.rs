//! The shape of a chip, and the check that it is possible.

use crate::units::{Pbn, Ppn};
use core::fmt;

/// Shape of a chip, and the rules of programming that the chip enforces.
///
/// ```
/// use nandex::Geometry;
///
/// let chip = Geometry::new(2048, 64, 64, 1024).with_random_order(true);
/// assert_eq!(chip.data_bytes(), 128 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Geometry {
    /// Bytes of the data area of a page.
    pub page_bytes: u32,
    /// Bytes of the spare (out-of-band) area of a page. Byte 0 is the bad-block mark.
    pub spare_bytes: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Blocks of the chip.
    pub blocks: u32,
    /// Programs that a page takes between two erases (NOP). 1 forbids partial programs;
    /// [`Geometry::ANY_PROGRAMS`] stands for NOR.
    pub programs_per_page_max: u32,
    /// True if the pages of a block may be programmed in any order.
    pub random_order: bool,
    /// Number of chips that work at the same time, each on a bus of its own; 1 for a single chip. An array of
    /// several chips is shown as one chip. A block of the array is a row: one block of each chip. Page i of a
    /// block lies on channel i modulo `channels`.
    pub channels: u32,
    /// Bytes of a word that may be programmed, once between two erases, into a page that is programmed
    /// already, at a place that is still erased (an *append*). 0: the chip takes no appends. Words are
    /// counted from the first byte of the data area; the spare area follows the data. A chip that overwrites
    /// takes appends.
    pub append_bytes: u16,
}

/// Error: the description of a chip is impossible. Names the field and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct PartError {
    /// Name of the field, as in a chip file.
    pub field: &'static str,
    /// Reason why the value is refused.
    pub reason: &'static str,
    /// Value given.
    pub value: u64,
}

impl PartError {
    /// Error for an impossible value of a field, with the reason.
    pub const fn new(field: &'static str, reason: &'static str, value: u64) -> PartError {
        PartError { field, reason, value }
    }
}

impl fmt::Display for PartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: {}", self.field, self.value, self.reason)
    }
}

impl core::error::Error for PartError {}

const BLOCK_BYTES_MAX: u64 = 128 << 20;
const BLOCKS_MAX: u32 = 1 << 22;
const PAGES_MAX: u64 = 1 << 28;
const CHANNELS_MAX: u32 = 64;

impl Geometry {
    /// Value of `programs_per_page_max` for NOR flash: a page is programmed any number of times, and each
    /// program only clears bits.
    pub const ANY_PROGRAMS: u32 = u32::MAX;

    /// Most pages that a block may have.
    pub const PAGES_PER_BLOCK_MAX: u32 = 4096;

    /// Returns a geometry with one program per page, in ascending order.
    pub const fn new(page_bytes: u32, spare_bytes: u32, pages_per_block: u32, blocks: u32) -> Geometry {
        Geometry {
            page_bytes,
            spare_bytes,
            pages_per_block,
            blocks,
            programs_per_page_max: 1,
            random_order: false,
            channels: 1,
            append_bytes: 0,
        }
    }

    /// This with another number of programs of a page between two erases.
    /// [`ANY_PROGRAMS`](Geometry::ANY_PROGRAMS) makes a chip that overwrites, which takes appends of a byte
    /// unless it has larger words.
    #[must_use]
    pub const fn with_programs_per_page_max(mut self, value: u32) -> Geometry {
        self.programs_per_page_max = value;
        if self.overwrites() && self.append_bytes == 0 {
            self.append_bytes = 1;
        }
        self
    }

    /// Returns an error if no chip can have this geometry. A part must satisfy more: see
    /// [`super::Part::validate`].
    pub fn validate(&self) -> Result<(), PartError> {
        let fail = |field, value: u32, reason| Err(PartError { field, reason, value: u64::from(value) });
        if !(64..=65_536).contains(&self.page_bytes) {
            return fail("page_bytes", self.page_bytes, "a page has 64 to 65,536 bytes");
        }
        if self.spare_bytes > self.page_bytes {
            return fail("spare_bytes", self.spare_bytes, "the spare area is not larger than the page");
        }
        if !(2..=Self::PAGES_PER_BLOCK_MAX).contains(&self.pages_per_block) {
            return fail("pages_per_block", self.pages_per_block, "a block has 2 to 4,096 pages");
        }
        if self.block_bytes() > BLOCK_BYTES_MAX {
            return fail(
                "pages_per_block",
                self.pages_per_block,
                "a block has at most 128 MiB with its spare areas",
            );
        }
        if self.blocks < 2 {
            return fail("blocks", self.blocks, "a chip that can collect garbage has at least 2 blocks");
        }
        if self.blocks > BLOCKS_MAX {
            return fail("blocks", self.blocks, "a chip has at most 4,194,304 blocks");
        }
        if u64::from(self.blocks) * u64::from(self.pages_per_block) > PAGES_MAX {
            return fail("blocks", self.blocks, "a chip has at most 268,435,456 pages");
        }
        if !self.overwrites() && !(1..=255).contains(&self.programs_per_page_max) {
            return fail(
                "programs_per_page_max",
                self.programs_per_page_max,
                "a page takes 1 to 255 programs, or 4,294,967,295 for any number (NOR)",
            );
        }
        if !(1..=CHANNELS_MAX).contains(&self.channels) || !self.pages_per_block.is_multiple_of(self.channels)
        {
            let reason = "1 to 64 channels, and each has the same number of a block's pages";
            return fail("channels", self.channels, reason);
        }
        if self.overwrites() && !self.appends() {
            return fail(
                "append_bytes",
                0,
                "a chip whose pages are overwritten takes appends of 1 byte or more",
            );
        }
        let raw_bytes = self.page_bytes + self.spare_bytes;
        if self.appends() && !raw_bytes.is_multiple_of(self.append_bytes.into()) {
            let reason = "a page with its spare area is whole words; 0 for a chip without appends";
            return fail("append_bytes", self.append_bytes.into(), reason);
        }
        Ok(())
    }

    /// Returns true if a programmed page may be programmed again any number of times (NOR). Such a program
    /// only clears bits, and a byte 0xFF leaves a byte as it is.
    #[inline]
    pub const fn overwrites(&self) -> bool {
        self.programs_per_page_max == Geometry::ANY_PROGRAMS
    }

    /// Returns true if a programmed page takes further words where it is still erased. Such a program has
    /// 0xFF in all places but erased words; a byte 0xFF leaves a byte as it is.
    ///
    /// ```
    /// # use nandex::Geometry;
    /// let internal_flash = Geometry::new(448, 64, 8, 64).with_append_bytes(8);
    /// assert!(internal_flash.appends() && !internal_flash.overwrites());
    /// ```
    #[inline]
    pub const fn appends(&self) -> bool {
        self.append_bytes > 0
    }

    /// Bytes of a page, spare area included: the bytes that a program moves over the bus.
    #[inline]
    pub const fn raw_page_bytes(&self) -> usize {
        self.page_bytes as usize + self.spare_bytes as usize
    }

    /// Bytes of a block, spare areas included.
    pub const fn block_bytes(&self) -> u64 {
        self.raw_page_bytes() as u64 * self.pages_per_block as u64
    }

    /// Number of pages of the chip.
    #[inline]
    pub const fn pages(&self) -> u32 {
        self.blocks * self.pages_per_block
    }

    /// Bytes of the data areas of the whole chip.
    pub const fn data_bytes(&self) -> u64 {
        self.pages() as u64 * self.page_bytes as u64
    }

    /// Block of a page.
    #[inline]
    pub const fn block_of(&self, ppn: Ppn) -> Pbn {
        Pbn(ppn.0 / self.pages_per_block)
    }

    /// Number of a page within its block.
    #[inline]
    pub const fn page_in_block(&self, ppn: Ppn) -> u32 {
        ppn.0 % self.pages_per_block
    }

    /// Channel of a page.
    #[inline]
    pub const fn channel_of(&self, ppn: Ppn) -> u32 {
        self.page_in_block(ppn) % self.channels
    }

    /// Page with the number `page` within a block.
    #[inline]
    pub const fn page_at(&self, pbn: Pbn, page: u32) -> Ppn {
        Ppn(pbn.0 * self.pages_per_block + page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_split_and_join() {
        let g = Geometry::new(4096, 128, 128, 128);
        let ppn = g.page_at(Pbn(3), 7);
        assert_eq!((g.block_of(ppn), g.page_in_block(ppn)), (Pbn(3), 7));
        assert_eq!(g.data_bytes(), 64 << 20);
    }

    #[test]
    fn an_absurd_geometry_is_named() {
        let small = Geometry::new(48, 16, 64, 1024).validate().unwrap_err();
        assert_eq!(small.field, "page_bytes");
        assert_eq!(Geometry::new(2048, 64, 64, 1).validate().unwrap_err().field, "blocks");
        assert_eq!(Geometry::new(2048, 64, 1, 64).validate().unwrap_err().field, "pages_per_block");
        assert_eq!(Geometry::new(2048, 4096, 64, 64).validate().unwrap_err().field, "spare_bytes");
        assert!(Geometry::new(2048, 64, 64, 1024).validate().is_ok());
        assert!(Geometry::new(1984, 63, 64, 1024).validate().is_ok());
        let array = |channels| Geometry { channels, ..Geometry::new(2048, 64, 96, 64) }.validate();
        assert!(array(8).is_ok() && array(1).is_ok());
        assert_eq!([0, 5, 96].map(|n| array(n).unwrap_err().field), ["channels"; 3]);
    }

    #[test]
    fn words_divide_a_page_and_a_chip_that_overwrites_has_some() {
        let words = |bytes| Geometry::new(448, 64, 8, 64).with_append_bytes(bytes);
        assert!([0, 1, 4, 8, 32, 512].into_iter().all(|bytes| words(bytes).validate().is_ok()));
        assert_eq!(
            [3, 24, 1024, u16::MAX].map(|n| words(n).validate().unwrap_err().field),
            ["append_bytes"; 4]
        );
        let nor = words(0).with_programs_per_page_max(Geometry::ANY_PROGRAMS);
        assert_eq!((nor.append_bytes, nor.appends(), nor.validate()), (1, true, Ok(())));
        assert_eq!(nor.with_append_bytes(0).validate().unwrap_err().field, "append_bytes");
        assert_eq!(words(4).with_programs_per_page_max(Geometry::ANY_PROGRAMS).append_bytes, 4);
        assert_eq!(words(0).with_programs_per_page_max(4).append_bytes, 0);
    }
}
