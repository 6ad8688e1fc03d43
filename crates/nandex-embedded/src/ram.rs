//! For tests: a NOR part in memory that keeps to the rules, and whose power can be cut in the middle of a
//! word or of an erase. A word is written once between two erases, or its bits are cleared at any time.

use alloc::vec;
use alloc::vec::Vec;
use embedded_storage::nor_flash::{
    ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash, check_erase, check_read, check_write,
};
use nandex::Shared;

/// How a word torn by a power cut reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TornWord {
    /// Other bytes than it was to have.
    Wrong,
    /// An error, each time.
    Error,
    /// An error the first time, other bytes the next, and so on.
    ErrorAtTimes,
}

/// A power cut: the number of the operation that it interrupts, counting words written and units erased, and
/// the remains of that operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RamCut {
    /// The number of the word or unit, from 0 on.
    pub at_step: u64,
    /// The reading of the words that are torn.
    pub torn: TornWord,
    /// Seed of the bits that the cut leaves at random.
    pub seed: u64,
}

/// The errors of a part in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RamFault {
    /// The bus answers no more, or the power is off.
    Bus,
    /// A word whose errors the ECC cannot correct.
    Ecc,
    /// A word was written since it was erased, or a write would set bits of one that may be overwritten.
    Written,
    /// The place is not aligned, or beyond the part.
    Place(NorFlashErrorKind),
}

impl NorFlashError for RamFault {
    fn kind(&self) -> NorFlashErrorKind {
        match self {
            RamFault::Place(kind) => *kind,
            _ => NorFlashErrorKind::Other,
        }
    }
}

impl From<NorFlashErrorKind> for RamFault {
    fn from(kind: NorFlashErrorKind) -> RamFault {
        RamFault::Place(kind)
    }
}

/// The state of a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Erased,
    Written,
    Torn(TornWord),
}

struct Part {
    cells: Vec<u8>,
    words: Vec<Word>,
    overwrites: bool,
    is_gone: bool,
    steps: u64,
    cut: Option<RamCut>,
    /// Number of reads. Every second read of a word that fails at times fails.
    reads: u64,
    /// Numbers of words that cannot be written.
    dead: Vec<usize>,
}

/// A NOR part that writes words of `WRITE` bytes and erases units of `ERASE`; a clone is the same part.
#[derive(Clone)]
pub struct RamFlash<const WRITE: usize, const ERASE: usize> {
    part: Shared<Part>,
}

/// A number made of another: SplitMix64.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Sets random bits: those that a program has not yet cleared, or that an erase has set already.
fn or_with(cells: &mut [u8], drawn: u64) {
    let drawn = drawn.to_le_bytes();
    cells.iter_mut().zip(drawn.iter().cycle()).for_each(|(cell, drawn)| *cell |= drawn);
}

impl Part {
    /// Counts a word or a unit. Returns the cut that interrupts it, if there is one.
    fn step(&mut self) -> Option<RamCut> {
        let step = self.steps;
        self.steps += 1;
        let cut = self.cut.take_if(|cut| cut.at_step == step);
        self.is_gone |= cut.is_some();
        cut
    }

    fn answer(&self) -> Result<(), RamFault> {
        if self.is_gone { Err(RamFault::Bus) } else { Ok(()) }
    }
}

impl<const WRITE: usize, const ERASE: usize> RamFlash<WRITE, ERASE> {
    /// An erased part of `bytes` bytes.
    pub fn new(bytes: usize) -> RamFlash<WRITE, ERASE> {
        let words = vec![Word::Erased; bytes.div_ceil(WRITE)];
        let (cells, dead) = (vec![0xff; bytes], Vec::new());
        let overwrites = false;
        let part = Part { cells, words, overwrites, is_gone: false, steps: 0, cut: None, reads: 0, dead };
        RamFlash { part: Shared::new(part) }
    }

    /// This as a part without an ECC, whose written words lose further bits.
    #[must_use]
    pub fn overwriting(self) -> RamFlash<WRITE, ERASE> {
        self.part.lock().overwrites = true;
        self
    }

    /// The bus answers no more.
    pub fn break_bus(&self) {
        self.part.lock().is_gone = true;
    }

    /// Power and bus are there again, and a cut that did not strike never will.
    pub fn power_on(&self) {
        let mut part = self.part.lock();
        (part.is_gone, part.cut) = (false, None);
    }

    /// True if the part has power.
    pub fn is_on(&self) -> bool {
        !self.part.lock().is_gone
    }

    /// The words written and units erased so far.
    pub fn steps(&self) -> u64 {
        self.part.lock().steps
    }

    /// Plans a power cut.
    pub fn plan(&self, cut: RamCut) {
        self.part.lock().cut = Some(cut);
    }

    /// The word at a place no longer takes a write.
    pub fn wear_out(&self, place: usize) {
        self.part.lock().dead.push(place / WRITE);
    }
}

impl<const WRITE: usize, const ERASE: usize> ErrorType for RamFlash<WRITE, ERASE> {
    type Error = RamFault;
}

impl<const WRITE: usize, const ERASE: usize> ReadNorFlash for RamFlash<WRITE, ERASE> {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), RamFault> {
        check_read(self, offset, bytes.len())?;
        let mut part = self.part.lock();
        part.answer()?;
        part.reads += 1;
        let at_times = part.reads.is_multiple_of(2);
        let range = offset as usize..offset as usize + bytes.len();
        let words = &part.words[range.start / WRITE..range.end.div_ceil(WRITE)];
        let fails = |word: &Word| match word {
            Word::Torn(TornWord::Error) => true,
            Word::Torn(TornWord::ErrorAtTimes) => at_times,
            _ => false,
        };
        if words.iter().any(fails) {
            return Err(RamFault::Ecc);
        }
        bytes.copy_from_slice(&part.cells[range]);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.part.lock().cells.len()
    }
}

impl<const WRITE: usize, const ERASE: usize> NorFlash for RamFlash<WRITE, ERASE> {
    const WRITE_SIZE: usize = WRITE;
    const ERASE_SIZE: usize = ERASE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), RamFault> {
        check_erase(self, from, to)?;
        let mut part = self.part.lock();
        for unit in (from as usize..to as usize).step_by(ERASE) {
            part.answer()?;
            let cut = part.step();
            for word in unit / WRITE..(unit + ERASE) / WRITE {
                let bytes = word * WRITE..(word + 1) * WRITE;
                match cut.map(|cut| (cut, mixed(cut.seed ^ (word as u64) << 8))) {
                    // As it was.
                    Some((_, drawn)) if drawn % 4 == 0 => {}
                    Some((cut, drawn)) if drawn % 4 < 3 => {
                        part.words[word] = Word::Torn(cut.torn);
                        or_with(&mut part.cells[bytes], drawn);
                    }
                    _ => {
                        part.words[word] = Word::Erased;
                        part.cells[bytes].fill(0xff);
                    }
                }
            }
            part.answer()?;
        }
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), RamFault> {
        check_write(self, offset, bytes.len())?;
        let mut part = self.part.lock();
        for (word, new) in (offset as usize / WRITE..).zip(bytes.chunks(WRITE)) {
            part.answer()?;
            let bytes = word * WRITE..(word + 1) * WRITE;
            let sets = part.cells[bytes.clone()].iter().zip(new).any(|(old, new)| new & !old != 0);
            let is_refused = if part.overwrites { sets } else { part.words[word] != Word::Erased };
            if is_refused || part.dead.contains(&word) {
                return Err(RamFault::Written);
            }
            let cut = part.step();
            part.words[word] = cut.map_or(Word::Written, |cut| Word::Torn(cut.torn));
            for (cell, new) in part.cells[bytes].iter_mut().zip(new) {
                // Some of the bits to clear are still set.
                let left = cut.map_or(0, |cut| mixed(cut.seed ^ u64::from(*new)) as u8);
                *cell &= new | left;
            }
        }
        part.answer()
    }
}
