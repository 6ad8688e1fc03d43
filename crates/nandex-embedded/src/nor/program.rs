//! Programs of single words.

use super::NorChip;
use core::ops::Range;
use embedded_storage::nor_flash::NorFlash;
use nandex::nand::NandError;
use nandex::{Geometry, Ppn};

/// Bytes between two changes that are written with them on a part that overwrites: a write of its own costs
/// a serial part more.
const GAP_BYTES: usize = 8;

/// The bytes that a program was asked to write.
pub(super) struct Payload<'a> {
    data: &'a [u8],
    spare: &'a [u8],
    /// Place of the spare area.
    area: usize,
    end: usize,
}

impl<'a> Payload<'a> {
    pub(super) fn new(geometry: &Geometry, data: &'a [u8], spare: &'a [u8]) -> Payload<'a> {
        Payload { data, spare, area: geometry.page_bytes as usize, end: geometry.raw_page_bytes() }
    }

    fn byte(&self, at: usize) -> u8 {
        let byte = if at < self.area { self.data.get(at) } else { self.spare.get(at - self.area) };
        *byte.unwrap_or(&0xff)
    }

    fn has_bytes_in(&self, mut bytes: Range<usize>) -> bool {
        bytes.any(|at| self.byte(at) != 0xff)
    }
}

/// The next run of words that are wanted, from `from` on. Up to `gap` words between two belong to it.
fn next_run(words: Range<usize>, gap: usize, is_wanted: impl Fn(usize) -> bool) -> Option<Range<usize>> {
    let Range { start, end } = words;
    let first = (start..end).find(|word| is_wanted(*word))?;
    let mut stop = first + 1;
    while let Some(next) = (stop..end.min(stop + gap + 1)).find(|word| is_wanted(*word)) {
        stop = next + 1;
    }
    Some(first..stop)
}

impl<F: NorFlash> NorChip<F> {
    /// Programs the words that are not all 0xFF, in ascending order. On a part that overwrites, those that
    /// change.
    pub(super) fn program_words(&mut self, ppn: Ppn, new: &Payload<'_>) -> Result<(), NandError> {
        let at = self.page_at(ppn)?;
        self.check_words(ppn, new)?;
        let word = F::WRITE_SIZE;
        let gap = if self.geometry.overwrites() { GAP_BYTES / word } else { 0 };
        let mut from = 0;
        loop {
            let page = &self.page;
            let clears = |at: usize| page[at] & !new.byte(at) != 0;
            // What the part holds in a word without new bytes was not read.
            let changes = |number: usize| {
                let bytes = number * word..(number + 1) * word;
                new.has_bytes_in(bytes.clone()) && bytes.clone().any(clears)
            };
            let Some(run) = next_run(from..new.end / word, gap, changes) else { return Ok(()) };
            let bytes = run.start * word..run.end * word;
            for place in bytes.clone() {
                self.page[place] &= new.byte(place);
            }
            let written = self.flash.write(at + bytes.start as u32, &self.page[bytes]);
            written.map_err(|error| self.fault(&error, at, NandError::ProgramFailed(ppn)))?;
            from = run.end;
        }
    }

    /// Reads the words that are to be programmed, and refuses those that are written already.
    fn check_words(&mut self, ppn: Ppn, new: &Payload<'_>) -> Result<(), NandError> {
        let (word, overwrites) = (F::WRITE_SIZE, self.geometry.overwrites());
        let gap = if overwrites { new.end } else { 0 };
        let is_asked = |number: usize| new.has_bytes_in(number * word..(number + 1) * word);
        let mut from = 0;
        while let Some(run) = next_run(from..new.end / word, gap, is_asked) {
            let bytes = run.start * word..run.end * word;
            self.load(ppn, bytes.clone()).map_err(|error| match error {
                NandError::Uncorrectable(page) => NandError::NotErased(page),
                error => error,
            })?;
            let page = &self.page;
            let is_refused = |at: usize| match overwrites {
                true => new.byte(at) & !page[at] != 0,
                false => page[at / word * word..(at / word + 1) * word].iter().any(|byte| *byte != 0xff),
            };
            if let Some(byte) = bytes.into_iter().find(|at| new.byte(*at) != 0xff && is_refused(*at)) {
                return Err(NandError::SetsBits { page: ppn, byte: byte as u32 });
            }
            from = run.end;
        }
        Ok(())
    }
}
