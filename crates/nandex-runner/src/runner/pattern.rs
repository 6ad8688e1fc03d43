//! Access patterns of a chip: which operations follow the last one of their kind.
//!
//! Papers price a sequential write below a random one. A program *follows in its block* if it is on the page
//! after the last one programmed in the same block since the block's erase. It *follows on the chip* if that
//! page was also the last one programmed on the chip. The same holds for reads. The first operation in a
//! block follows nothing.

use crate::results::PatternCounts;
use nandex::Shared;
use nandex::nand::{Cause, Geometry, Nand, NandError, ReadOutcome};
use nandex::units::{Pbn, Ppn};

/// A chip that counts how each operation relates to the previous ones.
pub(crate) struct PatternChip {
    nand: Box<dyn Nand>,
    geometry: Geometry,
    /// For programs and for reads: the page after the last one used in each block; `None` after an erase.
    next: [Vec<Option<u32>>; 2],
    /// For programs and for reads: the block used last.
    last: [Option<Pbn>; 2],
    counts: Shared<PatternCounts>,
}

const PROGRAMS: usize = 0;
const READS: usize = 1;

impl PatternChip {
    pub(crate) fn new(nand: Box<dyn Nand>, counts: Shared<PatternCounts>) -> PatternChip {
        let geometry = nand.geometry();
        let none = vec![None; geometry.blocks as usize];
        PatternChip { nand, geometry, next: [none.clone(), none], last: [None; 2], counts }
    }

    /// Returns 1 or 0 for whether this operation follows in its block, and for whether it follows on the
    /// chip.
    fn step(&mut self, kind: usize, ppn: Ppn) -> (u64, u64) {
        let (pbn, page) = (self.geometry.block_of(ppn), self.geometry.page_in_block(ppn));
        let in_block = self.next[kind][pbn.index()] == Some(page);
        let on_chip = in_block && self.last[kind] == Some(pbn);
        self.next[kind][pbn.index()] = Some(page + 1);
        self.last[kind] = Some(pbn);
        (in_block.into(), on_chip.into())
    }

    fn count(&self, change: impl FnOnce(&mut PatternCounts)) {
        change(&mut self.counts.lock());
    }
}

/// Whether a chip counts an operation with this outcome. It does not count refused ones.
fn is_counted<T>(cause: Cause, done: &Result<T, NandError>) -> bool {
    let ended = matches!(done, Ok(_) | Err(NandError::ProgramFailed(_) | NandError::Uncorrectable(_)));
    ended && cause != Cause::Check
}

impl Nand for PatternChip {
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        let done = self.nand.read(ppn, cause, data, spare);
        if is_counted(cause, &done) {
            let (in_block, on_chip) = self.step(READS, ppn);
            self.count(|counts| {
                counts.page_reads += 1;
                counts.reads_next_in_block += in_block;
                counts.reads_next_on_chip += on_chip;
            });
        }
        done
    }
    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        let done = self.nand.program(ppn, cause, data, spare);
        if is_counted(cause, &done) {
            let (in_block, on_chip) = self.step(PROGRAMS, ppn);
            self.count(|counts| {
                counts.page_programs += 1;
                counts.programs_next_in_block += in_block;
                counts.programs_next_on_chip += on_chip;
            });
        }
        done
    }
    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        let done = self.nand.erase(pbn, cause);
        for next in &mut self.next {
            if let Some(place) = next.get_mut(pbn.index()) {
                *place = None;
            }
        }
        done
    }
    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.nand.is_bad(pbn)
    }
    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.nand.mark_bad(pbn)
    }
    fn tears(&self) -> bool {
        self.nand.tears()
    }
    fn begin_batch(&mut self) {
        self.nand.begin_batch();
    }
    fn end_batch(&mut self) {
        self.nand.end_batch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::nand::sim::SimChip;

    #[test]
    fn a_stream_counted_by_hand() {
        let counts = Shared::new(PatternCounts::default());
        let chip = Box::new(SimChip::new(&nandex::nand::catalogue::mlc_with(512, 4, 8)).unwrap());
        let mut chip = PatternChip::new(chip, counts.clone());
        let pages = |chip: &mut PatternChip, ppns: &[u32]| {
            ppns.iter().for_each(|&ppn| chip.program(Ppn(ppn), Cause::Host, &[0; 512], &[]).unwrap());
        };
        // First of block 0; the next; first of block 1; then 2, 5, 3, 6 by turns: each follows in its block
        // only; 7 on the chip too.
        pages(&mut chip, &[0, 1, 4, 2, 5, 3, 6, 7]);
        let PatternCounts { page_programs, programs_next_in_block, programs_next_on_chip, .. } =
            *counts.lock();
        assert_eq!((page_programs, programs_next_in_block, programs_next_on_chip), (8, 6, 2));
        // After an erase nothing precedes the first page, nor a page after one that was left out.
        chip.erase(Pbn(1), Cause::Host).unwrap();
        pages(&mut chip, &[4, 6, 7]);
        // What is refused and what a checker does count nothing.
        assert!(chip.program(Ppn(7), Cause::Host, &[0; 512], &[]).is_err());
        let read = |chip: &mut PatternChip, ppn, cause| {
            chip.read(Ppn(ppn), cause, &mut [0; 512], &mut []).unwrap();
        };
        [4, 5, 0, 6, 6].into_iter().for_each(|ppn| read(&mut chip, ppn, Cause::Host));
        read(&mut chip, 7, Cause::Check);
        let expected = PatternCounts {
            page_programs: 11,
            programs_next_in_block: 7,
            programs_next_on_chip: 3,
            page_reads: 5,
            reads_next_in_block: 2,
            reads_next_on_chip: 1,
        };
        assert_eq!(*counts.lock(), expected);
    }
}
