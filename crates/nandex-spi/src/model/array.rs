//! The cells of a model, its registers, and what goes wrong.

use crate::feature;
use crate::parts::SpiPart;
use std::collections::{BTreeMap, BTreeSet};

/// Faults of the cells. Pages and blocks are those of the whole chip.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// Pages whose next program fails.
    pub failing_programs: BTreeSet<u32>,
    /// Blocks whose erases fail.
    pub failing_erases: BTreeSet<u32>,
    /// Wrong bits in each 512 bytes of a page, at every read.
    pub wrong_bits: BTreeMap<u32, u8>,
}

/// A page that is not erased.
#[derive(Clone, Debug)]
struct Page {
    bytes: Vec<u8>,
    /// A cut left it half programmed.
    is_torn: bool,
}

/// The part behind the bus.
#[derive(Debug)]
pub(super) struct Array {
    pub(super) part: SpiPart,
    pages: BTreeMap<u32, Page>,
    /// By block: one more than the last page that was programmed.
    ends: BTreeMap<u32, u32>,
    /// The buffer of each die, and the registers.
    pub(super) buffer: Vec<u8>,
    pub(super) protection: u8,
    pub(super) configuration: u8,
    /// Failure bits, and what the ECC said of the page read last.
    pub(super) failures: u8,
    pub(super) ecc_bits: u8,
    pub(super) corrected: u8,
    pub(super) write_enabled: bool,
    pub(super) die: u8,
    pub(super) busy_until_ns: u64,
    pub(super) time_ns: u64,
    pub(super) powered: bool,
    pub(super) pin_held: bool,
    pub(super) id: [u8; 3],
    pub(super) parameter_page: Option<[u8; 256]>,
    pub(super) trouble: Trouble,
    pub(super) operations: u64,
    pub(super) cut_at: Option<u64>,
}

/// Times of the model, in ns: typical ones.
const READ_NS: u64 = 60_000;
const PROGRAM_NS: u64 = 250_000;
const ERASE_NS: u64 = 2_000_000;

impl Array {
    pub(super) fn new(part: SpiPart) -> Array {
        let mut id = [0; 3];
        id[..part.id.len().min(3)].copy_from_slice(&part.id[..part.id.len().min(3)]);
        let mut array = Array {
            pages: BTreeMap::new(),
            ends: BTreeMap::new(),
            buffer: vec![0xff; part.page_bytes as usize + part.raw_spare_bytes as usize],
            part,
            protection: 0,
            configuration: 0,
            failures: 0,
            ecc_bits: 0,
            corrected: 0,
            write_enabled: false,
            die: 0,
            busy_until_ns: 0,
            time_ns: 0,
            powered: true,
            pin_held: false,
            id,
            parameter_page: None,
            trouble: Trouble::default(),
            operations: 0,
            cut_at: None,
        };
        array.power_on();
        array
    }

    pub(super) fn power_on(&mut self) {
        self.powered = true;
        self.cut_at = None;
        // All blocks are protected, the ECC is on.
        self.protection = 0x7c;
        self.configuration = feature::ECC_ON;
        (self.failures, self.ecc_bits, self.corrected, self.die) = (0, 0, 0, 0);
        self.write_enabled = false;
        self.busy_until_ns = self.time_ns + 500_000;
    }

    pub(super) fn mark_with(&mut self, block: u32, mark: u8) {
        let mut bytes = vec![0xff; self.buffer.len()];
        bytes[self.part.page_bytes as usize] = mark;
        self.pages.insert(block * self.part.pages_per_block, Page { bytes, is_torn: false });
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.powered || self.time_ns < self.busy_until_ns
    }

    pub(super) fn has_ecc(&self) -> bool {
        self.configuration & feature::ECC_ON != 0
    }

    pub(super) fn status(&self) -> u8 {
        if !self.powered {
            return 0xff;
        }
        let busy = if self.is_busy() { feature::BUSY } else { 0 };
        let enabled = if self.write_enabled { feature::WRITE_ENABLED } else { 0 };
        self.failures | self.ecc_bits << 4 | busy | enabled
    }

    /// The page of a row of the die that listens.
    fn page_of(&self, row: u32) -> u32 {
        assert!(row < self.part.pages_per_die(), "row {row} is beyond the die");
        u32::from(self.die) * self.part.pages_per_die() + row
    }

    pub(super) fn read_page(&mut self, row: u32) {
        self.busy_until_ns = self.time_ns + READ_NS;
        (self.ecc_bits, self.corrected) = (0, 0);
        if self.configuration & feature::PARAMETER_PAGES != 0 {
            self.buffer.fill(0xff);
            if let (1, Some(page)) = (row, self.parameter_page) {
                // The first copy is damaged.
                for copy in 0..3 {
                    self.buffer[copy * 256..][..256].copy_from_slice(&page);
                }
                self.buffer[81] ^= 0xff;
            }
            return;
        }
        let page = self.page_of(row);
        self.buffer.fill(0xff);
        let Some(found) = self.pages.get(&page) else { return };
        self.buffer.copy_from_slice(&found.bytes);
        let strength = self.part.ecc.strength();
        let wrong = if found.is_torn {
            strength + 1
        } else {
            self.trouble.wrong_bits.get(&page).copied().unwrap_or(0)
        };
        if !self.has_ecc() || wrong > strength {
            // Wrong bits come through.
            for step in self.buffer[..self.part.page_bytes as usize].chunks_mut(512) {
                (0..usize::from(wrong)).for_each(|bit| step[bit * 17 % step.len()] ^= 1 << (bit % 8));
            }
        }
        if self.has_ecc() {
            self.tell_of(wrong, strength);
        }
    }

    /// The status that this part has for so many wrong bits.
    fn tell_of(&mut self, wrong: u8, strength: u8) {
        use crate::ecc::Ecc;
        let lost = wrong > strength;
        (self.ecc_bits, self.corrected) = match self.part.ecc {
            _ if wrong == 0 => (0, 0),
            Ecc::ThreeToEight if lost => (7, 0),
            _ if lost => (2, 0),
            Ecc::OneBit | Ecc::Unknown { .. } | Ecc::Asked { .. } => (1, wrong),
            Ecc::Counted { .. } => (1, wrong << 4),
            Ecc::SevenOrEight => (if wrong < 8 { 1 } else { 3 }, 0),
            Ecc::FourToEight if wrong == 8 => (3, 0),
            Ecc::FourToEight => (1, wrong.saturating_sub(4) << 4),
            Ecc::ThreeToEight => (wrong.saturating_sub(2).max(1), 0),
            Ecc::OneToFour => (1, (wrong - 1) << 4),
            Ecc::InSteps => (
                match wrong {
                    0..=3 => 1,
                    4..=6 => 3,
                    _ => 5,
                },
                0,
            ),
        };
    }

    /// Whether a program or erase may begin; what begins and is cut does not end.
    fn begin(&mut self, what: &str) -> bool {
        assert!(self.write_enabled, "{what} without write-enable");
        self.write_enabled = false;
        self.protection == 0
    }

    /// Whether the power goes in this operation.
    fn is_cut(&mut self) -> bool {
        let cut = self.cut_at == Some(self.operations);
        self.operations += 1;
        if cut {
            self.powered = false;
        }
        cut
    }

    pub(super) fn program(&mut self, row: u32) {
        let page = self.page_of(row);
        self.busy_until_ns = self.time_ns + PROGRAM_NS;
        self.failures = 0;
        if !self.begin("a program") {
            self.failures = feature::PROGRAM_FAILED;
            return;
        }
        let pages = self.part.pages_per_block;
        let (block, in_block) = (page / pages, page % pages);
        if self.has_ecc() {
            assert!(!self.pages.contains_key(&page), "page {page} is programmed twice");
            let end = self.ends.get(&block).copied().unwrap_or(0);
            assert!(in_block >= end, "page {in_block} of block {block} after page {}", end.wrapping_sub(1));
            self.ends.insert(block, in_block + 1);
        }
        let cut = self.is_cut();
        let failed = self.trouble.failing_programs.remove(&page);
        let mut bytes = self.buffer.clone();
        if let Some(before) = self.pages.get(&page) {
            bytes.iter_mut().zip(&before.bytes).for_each(|(new, old)| *new &= old);
        }
        if cut || failed {
            let half = bytes.len() / 2;
            bytes[half..].fill(0xff);
        }
        // A mark beside what the ECC covers changes nothing for it.
        let was_torn = self.pages.get(&page).is_some_and(|page| page.is_torn);
        self.pages.insert(page, Page { bytes, is_torn: cut || failed || was_torn });
        if failed {
            self.failures = feature::PROGRAM_FAILED;
        }
    }

    pub(super) fn erase(&mut self, row: u32) {
        let block = self.page_of(row) / self.part.pages_per_block;
        self.busy_until_ns = self.time_ns + ERASE_NS;
        self.failures = 0;
        if !self.begin("an erase") || self.trouble.failing_erases.contains(&block) {
            self.failures = feature::ERASE_FAILED;
            return;
        }
        let first = block * self.part.pages_per_block;
        let is_cut = self.is_cut();
        self.ends.remove(&block);
        for page in first..first + self.part.pages_per_block {
            match self.pages.get_mut(&page) {
                // Half of the cells have been emptied.
                Some(found) if is_cut && page % 2 == 0 => found.is_torn = true,
                Some(_) => drop(self.pages.remove(&page)),
                None => {}
            }
        }
        if is_cut {
            self.ends.insert(block, self.part.pages_per_block);
        }
    }
}
