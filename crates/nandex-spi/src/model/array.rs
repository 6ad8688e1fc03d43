//! The part behind the bus: its buffer, registers and timing.

use super::cells::{Cells, End};
use crate::ecc::Ecc;
use crate::feature;
use crate::parts::SpiPart;

/// The registers of a part.
#[derive(Debug, Default)]
pub(super) struct Registers {
    pub(super) protection: u8,
    pub(super) configuration: u8,
    /// Failure bits of the status, and its ECC bits for the page read last.
    failures: u8,
    ecc_bits: u8,
    pub(super) corrected: u8,
    pub(super) write_enabled: bool,
    pub(super) die: u8,
}

/// The part behind the bus.
#[derive(Debug)]
pub(super) struct Array {
    pub(super) part: SpiPart,
    pub(super) cells: Cells,
    pub(super) registers: Registers,
    /// The buffer of each die.
    pub(super) buffer: Vec<u8>,
    pub(super) busy_until_ns: u64,
    pub(super) time_ns: u64,
    pub(super) powered: bool,
    pub(super) pin_held: bool,
    pub(super) id: [u8; 3],
    pub(super) parameter_page: Option<[u8; 256]>,
}

/// Times of the model, in ns: typical ones.
const READ_NS: u64 = 60_000;
const PROGRAM_NS: u64 = 250_000;
const ERASE_NS: u64 = 2_000_000;

impl Registers {
    /// The registers of a part that was just powered on: all blocks are protected, the ECC is on.
    fn powered_on() -> Registers {
        Registers { protection: 0x7c, configuration: feature::ECC_ON, ..Registers::default() }
    }

    fn has_ecc(&self) -> bool {
        self.configuration & feature::ECC_ON != 0
    }

    fn status(&self, is_busy: bool) -> u8 {
        let busy = if is_busy { feature::BUSY } else { 0 };
        let enabled = if self.write_enabled { feature::WRITE_ENABLED } else { 0 };
        self.failures | self.ecc_bits << 4 | busy | enabled
    }

    /// Sets the status that this part has for `wrong` wrong bits.
    fn tell_of(&mut self, wrong: u8, ecc: Ecc) {
        let lost = wrong > ecc.strength();
        (self.ecc_bits, self.corrected) = match ecc {
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

    /// True if a program or erase may begin: it was enabled and the part is not protected.
    fn begin(&mut self, what: &str) -> bool {
        assert!(self.write_enabled, "{what} without write-enable");
        self.write_enabled = false;
        self.protection == 0
    }

    /// Sets or clears the failure bit `failed` after an operation.
    fn note(&mut self, end: End, failed: u8) {
        self.failures = if end == End::Failed { failed } else { 0 };
    }
}

impl Array {
    pub(super) fn new(part: SpiPart) -> Array {
        let mut id = [0; 3];
        id[..part.id.len().min(3)].copy_from_slice(&part.id[..part.id.len().min(3)]);
        let mut array = Array {
            cells: Cells::new(part.pages_per_block),
            registers: Registers::default(),
            buffer: vec![0xff; part.page_bytes as usize + part.raw_spare_bytes as usize],
            part,
            busy_until_ns: 0,
            time_ns: 0,
            powered: true,
            pin_held: false,
            id,
            parameter_page: None,
        };
        array.power_on();
        array
    }

    pub(super) fn power_on(&mut self) {
        self.powered = true;
        self.cells.cut_at = None;
        self.registers = Registers::powered_on();
        self.busy_until_ns = self.time_ns + 500_000;
    }

    pub(super) fn mark_with(&mut self, block: u32, mark: u8) {
        let mut bytes = vec![0xff; self.buffer.len()];
        bytes[self.part.page_bytes as usize] = mark;
        self.cells.mark(block, bytes);
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.powered || self.time_ns < self.busy_until_ns
    }

    pub(super) fn status(&self) -> u8 {
        if self.powered { self.registers.status(self.is_busy()) } else { 0xff }
    }

    /// The page of a row of the die that listens.
    fn page_of(&self, row: u32) -> u32 {
        assert!(row < self.part.pages_per_die(), "row {row} is beyond the die");
        u32::from(self.registers.die) * self.part.pages_per_die() + row
    }

    pub(super) fn read_page(&mut self, row: u32) {
        self.busy_until_ns = self.time_ns + READ_NS;
        (self.registers.ecc_bits, self.registers.corrected) = (0, 0);
        if self.registers.configuration & feature::PARAMETER_PAGES != 0 {
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
        let strength = self.part.ecc.strength();
        let Some((bytes, wrong)) = self.cells.read(page, strength) else { return };
        self.buffer.copy_from_slice(bytes);
        if !self.registers.has_ecc() || wrong > strength {
            // Wrong bits come through.
            for step in self.buffer[..self.part.page_bytes as usize].chunks_mut(512) {
                (0..usize::from(wrong)).for_each(|bit| step[bit * 17 % step.len()] ^= 1 << (bit % 8));
            }
        }
        if self.registers.has_ecc() {
            self.registers.tell_of(wrong, self.part.ecc);
        }
    }

    pub(super) fn program(&mut self, row: u32) {
        let page = self.page_of(row);
        self.busy_until_ns = self.time_ns + PROGRAM_NS;
        let end = match self.registers.begin("a program") {
            true => self.cells.program(page, self.buffer.clone(), self.registers.has_ecc()),
            false => End::Failed,
        };
        self.registers.note(end, feature::PROGRAM_FAILED);
        self.powered &= end != End::Cut;
    }

    pub(super) fn erase(&mut self, row: u32) {
        let block = self.page_of(row) / self.part.pages_per_block;
        self.busy_until_ns = self.time_ns + ERASE_NS;
        let end = if self.registers.begin("an erase") { self.cells.erase(block) } else { End::Failed };
        self.registers.note(end, feature::ERASE_FAILED);
        self.powered &= end != End::Cut;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_tell_what_may_begin_and_how_it_ended() {
        let mut registers = Registers::powered_on();
        registers.write_enabled = true;
        assert_eq!(registers.status(true), feature::BUSY | feature::WRITE_ENABLED);
        assert!(!registers.begin("a program") && registers.status(false) == 0, "it is protected");
        registers.note(End::Failed, feature::ERASE_FAILED);
        registers.tell_of(9, Ecc::FourToEight);
        assert_eq!(registers.status(false), feature::ERASE_FAILED | 2 << 4);
    }
}
