//! A part: all that the simulator must know of a chip, and the source of each number.

use super::geometry::{Geometry, PartError};
use super::pairing::Pairing;
use super::words::WordTiming;
use alloc::borrow::Cow;

/// A chip as its data sheet describes it.
///
/// ```
/// use nandex::Geometry;
/// use nandex::nand::catalogue::mlc_64m;
///
/// let mut part = mlc_64m();
/// part.geometry = Geometry::new(512, 16, 32, 100);
/// assert_eq!(part.with_blocks(50).geometry.blocks, 50);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Part {
    /// Name in the catalogue or of the chip file.
    pub name: Cow<'static, str>,
    /// Shape and rules of programming. `spare_bytes` are those that the user may program if the ECC of the
    /// part is on.
    pub geometry: Geometry,
    /// All spare bytes of a page, if the ECC of the part keeps some of them; else `None`.
    pub raw_spare_bytes: Option<u32>,
    /// Duration of each operation.
    pub timing: Timing,
    /// Duration of programs by the words that change, on NOR; `None` where a program takes a whole page's
    /// time.
    pub words: Option<WordTiming>,
    /// Voltage, and the current of each operation.
    pub supply: Supply,
    /// Erases that a block is specified for.
    pub endurance_erases: u32,
    /// Pages that a torn program may destroy besides its own page. The parts of the catalogue have no pairs.
    pub pairing: Pairing,
    /// Sources of the numbers; empty for a part that is not in the catalogue.
    pub notes: &'static [Note],
}

/// Duration of the operations of a chip.
///
/// ```
/// use nandex::nand::Timing;
///
/// let timing = Timing::new(25_000, 200_000, 1_500_000, 25_000);
/// assert_eq!(timing.page_read_ns(2048), 25_000 + 51_200);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Timing {
    /// Array time of a page read (tR), in ns.
    pub read_ns: u64,
    /// Array time of a page program (tPROG), in ns; of a part with [`Part::words`], that of a page whose
    /// words all change.
    pub program_ns: u64,
    /// Time of a block erase (tBERS), in ns.
    pub erase_ns: u64,
    /// Bus time of one byte, in picoseconds.
    pub transfer_ps_per_byte: u64,
}

/// Supply voltage, and the current during each operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Supply {
    /// Supply voltage in mV.
    pub voltage_mv: u32,
    /// Current during the array time of a read, in mA.
    pub read_ma: u32,
    /// Current during the array time of a program, in mA.
    pub program_ma: u32,
    /// Current during an erase, in mA.
    pub erase_ma: u32,
    /// Current during a transfer over the bus, in mA.
    pub transfer_ma: u32,
}

/// Source of a number of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Note {
    /// Name of the field, as in a chip file: "read", "endurance", ...
    pub field: &'static str,
    /// Kind of the source.
    pub basis: Basis,
    /// Source in words.
    pub text: &'static str,
}

/// Kind of a source: how far a number can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Basis {
    /// Text or figure of a data sheet, read directly or quoted by others.
    Datasheet,
    /// Number of a paper, or arithmetic on such numbers.
    Paper,
    /// Default or calibration of a published simulator.
    Simulator,
    /// Number from memory: verify it before relying on it.
    Remembered,
    /// Our assumption: no source was found.
    Assumed,
}

impl Basis {
    /// Word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Datasheet => "data sheet",
            Basis::Paper => "paper",
            Basis::Simulator => "simulator",
            Basis::Remembered => "remembered",
            Basis::Assumed => "assumed",
        }
    }
}

impl Timing {
    /// A part that takes so long to read, program and erase, with a bus that takes so long for a byte.
    pub const fn new(read_ns: u64, program_ns: u64, erase_ns: u64, transfer_ps_per_byte: u64) -> Timing {
        Timing { read_ns, program_ns, erase_ns, transfer_ps_per_byte }
    }

    /// Time to move `bytes` over the bus, rounded down to whole ns.
    #[inline]
    pub const fn transfer_ns(&self, bytes: usize) -> u64 {
        bytes as u64 * self.transfer_ps_per_byte / 1000
    }

    /// Time of a read that moves `bytes` to the host, in ns.
    #[inline]
    pub const fn page_read_ns(&self, bytes: usize) -> u64 {
        self.read_ns + self.transfer_ns(bytes)
    }

    /// Time of a program that moves `bytes` to the chip, in ns.
    #[inline]
    pub const fn page_program_ns(&self, bytes: usize) -> u64 {
        self.program_ns + self.transfer_ns(bytes)
    }
}

impl Supply {
    /// Returns a supply with the same current for all operations.
    pub const fn flat(voltage_mv: u32, current_ma: u32) -> Supply {
        Supply {
            voltage_mv,
            read_ma: current_ma,
            program_ma: current_ma,
            erase_ma: current_ma,
            transfer_ma: current_ma,
        }
    }

    /// Energy in pJ of an array time `ns` at `ma`, followed by a transfer of `transfer_ns`. 1 pJ is 1000 mV x
    /// mA x ns.
    #[inline]
    pub const fn energy_pj(&self, ma: u32, ns: u64, transfer_ns: u64) -> u64 {
        self.voltage_mv as u64 * (ma as u64 * ns + self.transfer_ma as u64 * transfer_ns) / 1000
    }
}

impl Part {
    /// Most bytes of the name of a part.
    pub const NAME_BYTES_MAX: usize = 255;

    /// Returns a part that is not in the catalogue: 25 mA at 3.3 V, 100,000 erases.
    pub const fn new(name: &'static str, geometry: Geometry, timing: Timing) -> Part {
        Part {
            name: Cow::Borrowed(name),
            geometry,
            raw_spare_bytes: None,
            timing,
            words: None,
            supply: Supply::flat(3300, 25),
            endurance_erases: 100_000,
            pairing: Pairing::None,
            notes: &[],
        }
    }

    /// Returns this part with an ECC that leaves the user `spare_bytes` of the spare bytes.
    pub const fn leaving(mut self, spare_bytes: u32) -> Part {
        self.raw_spare_bytes = Some(self.geometry.spare_bytes);
        self.geometry.spare_bytes = spare_bytes;
        self
    }

    /// Returns this part with another number of blocks.
    pub fn with_blocks(mut self, blocks: u32) -> Part {
        self.geometry.blocks = blocks;
        self
    }

    /// Returns this part with programs that take the time of the words which change. The geometry has
    /// appends.
    pub const fn with_words(mut self, words: WordTiming) -> Part {
        self.timing.program_ns = words.whole_page_ns(&self.geometry);
        self.words = Some(words);
        self
    }

    /// Time of a read of a whole page with its spare area, in ns.
    pub const fn page_read_ns(&self) -> u64 {
        self.timing.page_read_ns(self.geometry.raw_page_bytes())
    }

    /// Time of a program of a whole page with its spare area, in ns. A part without [`Part::words`] always
    /// transfers and programs it whole.
    pub const fn page_program_ns(&self) -> u64 {
        let bytes = self.geometry.raw_page_bytes();
        match &self.words {
            Some(words) => words.whole_page_ns(&self.geometry) + self.timing.transfer_ns(bytes),
            None => self.timing.page_program_ns(bytes),
        }
    }

    /// Source of the number of a field; `None` if there is no note.
    pub fn note(&self, field: &str) -> Option<&'static Note> {
        self.notes.iter().find(|note| note.field == field)
    }

    /// Returns an error if no chip can have these numbers. The error names the field and the reason.
    pub fn validate(&self) -> Result<(), PartError> {
        self.geometry.validate()?;
        let pages = self.geometry.pages_per_block;
        if self.pairing != Pairing::None && (pages < 4 || !pages.is_multiple_of(2)) {
            let reason = "blocks of paired pages have an even number of them, 4 at least";
            return Err(PartError { field: "pages_per_block", reason, value: u64::from(pages) });
        }
        if let Some(words) = &self.words {
            words.validate(&self.geometry)?;
        }
        let within = |field, value: u64, most: u64, reason| {
            if value <= most { Ok(()) } else { Err(PartError { field, reason, value }) }
        };
        let name_most = Part::NAME_BYTES_MAX as u64;
        within("name", self.name.len() as u64, name_most, "a name has at most 255 bytes, not this many")?;
        let longest = "an operation of a chip takes at most 10 s";
        within("read_ns", self.timing.read_ns, TIME_NS_MAX, longest)?;
        within("program_ns", self.timing.program_ns, TIME_NS_MAX, longest)?;
        within("erase_ns", self.timing.erase_ns, TIME_NS_MAX, longest)?;
        let slowest = "a byte takes at most 10 us on the bus";
        within("transfer_ps_per_byte", self.timing.transfer_ps_per_byte, TRANSFER_PS_MAX, slowest)?;
        let supply = self.supply;
        within("voltage_mv", u64::from(supply.voltage_mv), 20_000, "a chip runs at 20 V or less")?;
        let most = "a chip draws at most 10 A";
        within("read_ma", u64::from(supply.read_ma), CURRENT_MA_MAX, most)?;
        within("program_ma", u64::from(supply.program_ma), CURRENT_MA_MAX, most)?;
        within("erase_ma", u64::from(supply.erase_ma), CURRENT_MA_MAX, most)?;
        within("transfer_ma", u64::from(supply.transfer_ma), CURRENT_MA_MAX, most)?;
        if self.endurance_erases == 0 {
            return Err(PartError {
                field: "endurance",
                reason: "a block takes at least one erase",
                value: 0,
            });
        }
        Ok(())
    }
}

// Together these bounds keep 1000 times the energy of one operation below 2^62 pJ, so its products fit 64
// bits.
const TIME_NS_MAX: u64 = 10_000_000_000;
const TRANSFER_PS_MAX: u64 = 10_000_000;
const CURRENT_MA_MAX: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing =
        Timing { read_ns: 60_000, program_ns: 800_200, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

    fn part() -> Part {
        Part::new("test", Geometry::new(4096, 128, 128, 128), TIMING)
    }

    #[test]
    fn times_include_the_transfer_of_the_bytes_moved() {
        assert_eq!(part().page_read_ns(), 165_600);
        assert_eq!(part().page_program_ns(), 905_800);
        assert_eq!(TIMING.page_read_ns(128), 63_200);
    }

    #[test]
    fn energy_is_voltage_times_current_times_time() {
        // 3.3 V x 15 mA x 25 us = 1.2375 uJ, then 52.8 us of transfer at the same current = 2.6136 uJ.
        assert_eq!(Supply::flat(3300, 15).energy_pj(15, 25_000, 0), 1_237_500);
        assert_eq!(Supply::flat(3300, 15).energy_pj(15, 25_000, 52_800), 1_237_500 + 2_613_600);
    }

    #[test]
    fn the_most_extreme_valid_part_does_not_overflow() {
        let mut part = part();
        part.geometry = Geometry::new(65_536, 65_536, 64, 4);
        part.timing = Timing {
            read_ns: TIME_NS_MAX,
            program_ns: TIME_NS_MAX,
            erase_ns: TIME_NS_MAX,
            transfer_ps_per_byte: TRANSFER_PS_MAX,
        };
        part.supply = Supply::flat(20_000, 10_000);
        part.validate().unwrap();
        let transfer = part.timing.transfer_ns(part.geometry.raw_page_bytes());
        assert!(part.supply.energy_pj(10_000, TIME_NS_MAX, transfer) > 0);
    }

    #[test]
    fn an_absurd_description_is_named() {
        let field_of = |change: fn(&mut Part)| {
            let mut part = part();
            change(&mut part);
            part.validate().unwrap_err().field
        };
        assert_eq!(field_of(|p| p.timing.read_ns = u64::MAX), "read_ns");
        assert_eq!(field_of(|p| p.timing.transfer_ps_per_byte = 10_000_001), "transfer_ps_per_byte");
        assert_eq!(field_of(|p| p.supply.voltage_mv = 230_000), "voltage_mv");
        assert_eq!(field_of(|p| p.supply.erase_ma = 16_000), "erase_ma");
        assert_eq!(field_of(|p| p.endurance_erases = 0), "endurance");
        assert_eq!(field_of(|p| p.geometry.page_bytes = 30), "page_bytes");
        assert!(part().with_blocks(4).validate().is_ok());
    }
}
