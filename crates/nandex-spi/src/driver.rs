//! The driver: commands on the bus, waiting, dies, features.

use crate::bus::SerialBus;
use crate::ecc::{Ask, Verdict};
use crate::fault::{Fault, OpenError, Wait};
use crate::parts::{Column, DieSelect, Quad, SpiPart};
use crate::{command, feature, onfi, parts};
use embedded_hal::delay::DelayNs;
use embedded_hal::spi::Operation;
use nandex::Ppn;

/// Counts of events since the driver was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads in which the ECC corrected bits.
    pub corrected_reads: u32,
    /// Reads near the limit of the ECC.
    pub weak_reads: u32,
    /// Reads with more wrong bits than the ECC corrects.
    pub lost_reads: u32,
    /// Programs that the part reported as failed.
    pub failed_programs: u32,
    /// Erases that the part reported as failed.
    pub failed_erases: u32,
}

/// An SPI NAND chip.
#[derive(Debug)]
pub struct SpiNand<S, D> {
    spi: S,
    delay: D,
    pub(crate) part: SpiPart,
    /// Number of the selected die.
    die: u8,
    /// Protection and configuration as the part tells them once it is prepared.
    settings: [u8; 2],
    pub(crate) counts: Counts,
    weak: Option<Ppn>,
    fault: Option<Fault>,
}

impl<S: SerialBus, D: DelayNs> SpiNand<S, D> {
    /// Resets the part on the bus, identifies it, and prepares it for writing: ECC on, protection off.
    ///
    /// # Errors
    ///
    /// An unknown part that does not describe itself, no answer, and faults of the bus.
    pub fn open(spi: S, delay: D) -> Result<SpiNand<S, D>, OpenError> {
        // What all parts understand, until it is known which one this is.
        let plain = SpiPart { quad: Quad::None, ..parts::W25N01GV };
        let mut chip = SpiNand::over(spi, delay, plain);
        chip.reset()?;
        let part = chip.identify()?;
        chip.part = part;
        chip.prepare()?;
        Ok(chip)
    }

    /// Opens a part that is known already, of a table of one's own for instance; its identification is not
    /// asked for.
    ///
    /// # Errors
    ///
    /// No answer, and faults of the bus.
    pub fn with_part(spi: S, delay: D, part: SpiPart) -> Result<SpiNand<S, D>, OpenError> {
        part.geometry().validate().map_err(|error| OpenError::Shape(error.reason))?;
        let mut chip = SpiNand::over(spi, delay, part);
        chip.reset()?;
        chip.prepare()?;
        Ok(chip)
    }

    fn over(spi: S, delay: D, part: SpiPart) -> SpiNand<S, D> {
        SpiNand {
            spi,
            delay,
            part,
            die: 0,
            settings: [0; 2],
            counts: Counts::default(),
            weak: None,
            fault: None,
        }
    }

    /// The part that was identified.
    pub fn part(&self) -> &SpiPart {
        &self.part
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The last page that was read near the limit of the ECC; it should be written elsewhere. Told once.
    pub fn take_weak(&mut self) -> Option<Ppn> {
        self.weak.take()
    }

    /// The last fault of bus or part: the cause of a `Device` error.
    pub fn last_fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Gives bus and delay back.
    pub fn release(self) -> (S, D) {
        (self.spi, self.delay)
    }

    pub(crate) fn note_fault(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    pub(crate) fn note_verdict(&mut self, ppn: Ppn, verdict: Verdict) {
        match verdict {
            Verdict::Corrected(0) => {}
            Verdict::Corrected(bits) => {
                self.counts.corrected_reads = self.counts.corrected_reads.saturating_add(1);
                if bits >= self.part.ecc.weak_from() {
                    self.counts.weak_reads = self.counts.weak_reads.saturating_add(1);
                    self.weak = Some(ppn);
                }
            }
            Verdict::Lost => self.counts.lost_reads = self.counts.lost_reads.saturating_add(1),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.spi.transaction(&mut [Operation::Write(bytes)]).map_err(Fault::Bus)
    }

    fn ask(&mut self, head: &[u8], answer: &mut [u8]) -> Result<(), Fault> {
        let mut steps = [Operation::Write(head), Operation::Read(answer)];
        self.spi.transaction(&mut steps).map_err(Fault::Bus)
    }

    fn feature(&mut self, register: u8) -> Result<u8, Fault> {
        let mut value = [0];
        self.ask(&[command::GET_FEATURE, register], &mut value)?;
        Ok(value[0])
    }

    fn set_feature(&mut self, register: u8, value: u8) -> Result<(), Fault> {
        self.send(&[command::SET_FEATURE, register, value])
    }

    /// Waits until the array is idle and returns the status. Waits at most twice the data sheet's time, and
    /// polls a dozen times within that.
    fn wait(&mut self, wait: Wait) -> Result<u8, Fault> {
        let limit_us = match wait {
            Wait::Reset => 2_000,
            Wait::Read => self.part.times.read_us,
            Wait::Program => self.part.times.program_us,
            Wait::Erase => self.part.times.erase_us,
        };
        let step_us = (limit_us / 12).max(5);
        for _ in 0..=24 {
            let status = self.feature(feature::STATUS)?;
            if status & feature::BUSY == 0 {
                return Ok(status);
            }
            self.delay.delay_us(step_us);
        }
        Err(Fault::Timeout(wait))
    }

    fn reset(&mut self) -> Result<(), Fault> {
        self.send(&[command::RESET])?;
        // Until then a part may not answer at all.
        self.delay.delay_us(500);
        self.wait(Wait::Reset).map(drop)
    }

    /// Identifies the part by its identification bytes, which most parts send after a dummy byte and some at
    /// once. Otherwise by its parameter page.
    fn identify(&mut self) -> Result<SpiPart, OpenError> {
        let mut id = [0; 3];
        self.ask(&[command::READ_ID, 0], &mut id)?;
        if let Some(part) = parts::find(&id) {
            return Ok(*part);
        }
        let mut at_once = [0; 3];
        self.ask(&[command::READ_ID], &mut at_once)?;
        if let Some(part) = parts::find(&at_once) {
            return Ok(*part);
        }
        self.parameter_page()?.ok_or(OpenError::Unknown { id })
    }

    /// The part described by its parameter page. The first undamaged of three copies counts.
    fn parameter_page(&mut self) -> Result<Option<SpiPart>, OpenError> {
        let configuration = self.feature(feature::CONFIGURATION)?;
        self.set_feature(feature::CONFIGURATION, configuration | feature::PARAMETER_PAGES)?;
        self.send(&[command::PAGE_READ, 0, 0, 1])?;
        self.wait(Wait::Read)?;
        let mut found = Ok(None);
        for copy in 0..3 {
            let mut page = [0; onfi::BYTES];
            self.read_cache((copy * onfi::BYTES) as u16, &mut page)?;
            found = onfi::part(&page);
            if !matches!(found, Ok(None)) {
                break;
            }
        }
        self.set_feature(feature::CONFIGURATION, configuration)?;
        found.map_err(OpenError::Shape)
    }

    /// Protection off and ECC on, on every die.
    fn prepare(&mut self) -> Result<(), Fault> {
        for die in 0..self.part.dies {
            self.select(die)?;
            self.set_feature(feature::PROTECTION, 0)?;
            self.set_ecc(true)?;
        }
        self.settings = self.told_settings()?;
        Ok(())
    }

    fn told_settings(&mut self) -> Result<[u8; 2], Fault> {
        Ok([self.feature(feature::PROTECTION)?, self.feature(feature::CONFIGURATION)?])
    }

    /// Fails unless the part is still as prepared. A part that lost its power for a moment protects its
    /// blocks, so that its failures say nothing about them. A part with loose lines fails too.
    pub(crate) fn require_prepared(&mut self) -> Result<(), Fault> {
        if self.told_settings()? == self.settings { Ok(()) } else { Err(Fault::Reset) }
    }

    fn set_ecc(&mut self, on: bool) -> Result<(), Fault> {
        let configuration = self.feature(feature::CONFIGURATION)? & !self.part.clear & !feature::ECC_ON;
        let ecc = if on { feature::ECC_ON } else { 0 };
        // Hold and write protect become data lines.
        let quad = if S::HAS_FOUR_LINES { self.part.quad.enable() } else { 0 };
        self.set_feature(feature::CONFIGURATION, configuration | self.part.set | ecc | quad)
    }

    fn select(&mut self, die: u8) -> Result<(), Fault> {
        match self.part.die_select {
            DieSelect::None => return Ok(()),
            DieSelect::Command => self.send(&[command::SELECT_DIE, die])?,
            DieSelect::Register => self.set_feature(feature::DIE, die << 6)?,
        }
        self.die = die;
        Ok(())
    }

    /// Makes the die of a page listen, and returns the row of the page in it.
    fn row_of(&mut self, ppn: Ppn) -> Result<u32, Fault> {
        let die = (ppn.0 / self.part.pages_per_die()) as u8;
        if die != self.die {
            self.select(die)?;
        }
        Ok(ppn.0 % self.part.pages_per_die())
    }

    /// A column, with the plane of the page where a part has several.
    fn column(&self, ppn: Ppn, at: u32) -> u16 {
        let plane = ppn.0 / self.part.pages_per_block % u32::from(self.part.planes);
        (at | (plane * 2 * self.part.page_bytes)) as u16
    }

    fn row_command(&mut self, command: u8, row: u32) -> Result<(), Fault> {
        self.send(&[command, (row >> 16) as u8, (row >> 8) as u8, row as u8])
    }

    fn read_cache(&mut self, column: u16, data: &mut [u8]) -> Result<(), Fault> {
        let wide = S::HAS_FOUR_LINES && self.part.quad.reads();
        let [high, low] = column.to_be_bytes();
        match (wide, self.part.column) {
            (false, Column::TwoBytes) => self.ask(&[command::READ_CACHE, high, low, 0], data),
            (false, Column::ThreeBytes) => self.ask(&[command::READ_CACHE, 0, high, low], data),
            (true, Column::TwoBytes) => self.ask_wide(&[command::READ_CACHE_X4, high, low, 0], data),
            (true, Column::ThreeBytes) => self.ask_wide(&[command::READ_CACHE_X4, 0, high, low, 0], data),
        }
    }

    /// Loads a page into the buffer of the part. Returns the result of the ECC.
    pub(crate) fn fetch(&mut self, ppn: Ppn) -> Result<Verdict, Fault> {
        let row = self.row_of(ppn)?;
        self.row_command(command::PAGE_READ, row)?;
        let status = self.wait(Wait::Read)?;
        let mut answer = [0];
        match self.part.ecc.ask(status) {
            Ask::Nothing => {}
            Ask::Register(register) => answer[0] = self.feature(register)?,
            Ask::Command => self.ask(&[command::READ_CORRECTED, 0], &mut answer)?,
        }
        Ok(self.part.ecc.verdict(status, answer[0]))
    }

    /// Reads from the buffer of the part, which holds this page; `at` counts from its first byte, spare bytes
    /// follow the data.
    pub(crate) fn take(&mut self, ppn: Ppn, at: u32, data: &mut [u8]) -> Result<(), Fault> {
        self.read_cache(self.column(ppn, at), data)
    }

    fn ask_wide(&mut self, head: &[u8], answer: &mut [u8]) -> Result<(), Fault> {
        self.spi.read_wide(head, answer).map_err(Fault::Bus)
    }

    fn load(&mut self, command: u8, column: u16, data: &[u8]) -> Result<(), Fault> {
        let [high, low] = column.to_be_bytes();
        if S::HAS_FOUR_LINES && self.part.quad.loads() {
            let wide = match command {
                command::PROGRAM_LOAD => command::PROGRAM_LOAD_X4,
                _ => command::PROGRAM_LOAD_MORE_X4,
            };
            return self.spi.write_wide(&[wide, high, low], data).map_err(Fault::Bus);
        }
        let mut steps = [Operation::Write(&[command, high, low]), Operation::Write(data)];
        self.spi.transaction(&mut steps).map_err(Fault::Bus)
    }

    fn enable_writes(&mut self) -> Result<(), Fault> {
        self.send(&[command::WRITE_ENABLE])?;
        if self.feature(feature::STATUS)? & feature::WRITE_ENABLED == 0 {
            return Err(Fault::WriteDisabled);
        }
        Ok(())
    }

    /// Programs data and raw spare bytes of a page; all else stays erased. False: the part says that it
    /// failed.
    pub(crate) fn write(&mut self, ppn: Ppn, data: &[u8], spare: &[u8]) -> Result<bool, Fault> {
        let row = self.row_of(ppn)?;
        self.enable_writes()?;
        // The first load erases the buffer of the part, others keep what is there.
        self.load(command::PROGRAM_LOAD, self.column(ppn, 0), data)?;
        if !spare.is_empty() {
            let column = self.column(ppn, self.part.page_bytes);
            self.load(command::PROGRAM_LOAD_MORE, column, spare)?;
        }
        self.row_command(command::PROGRAM_EXECUTE, row)?;
        let status = self.wait(Wait::Program)?;
        Ok(status & feature::PROGRAM_FAILED == 0)
    }

    /// Programs spare bytes without ECC.
    pub(crate) fn write_raw(&mut self, ppn: Ppn, spare: &[u8]) -> Result<bool, Fault> {
        self.row_of(ppn)?;
        self.set_ecc(false)?;
        let written = self.write(ppn, &[], spare);
        self.set_ecc(true)?;
        written
    }

    /// Erases the block of a page. False: the part says that it failed.
    pub(crate) fn erase_at(&mut self, first: Ppn) -> Result<bool, Fault> {
        let row = self.row_of(first)?;
        self.enable_writes()?;
        self.row_command(command::BLOCK_ERASE, row)?;
        let status = self.wait(Wait::Erase)?;
        Ok(status & feature::ERASE_FAILED == 0)
    }
}
