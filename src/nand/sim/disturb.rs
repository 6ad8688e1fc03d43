//! Bit errors that the ECC corrects. Their number grows with the reads of a block and with its erases.
//!
//! A read disturbs the pages nearby, and worn cells leak. So the wrong bits of a page become more, slowly,
//! until the ECC can no longer correct them. A new program of the page undoes the effect of reads, not that
//! of erases. Each page starts its count at a different place, so that the pages of a block do not fail
//! together.

use super::faults::FaultState;
use crate::nand::{Geometry, NandError, ReadOutcome};
use crate::rng::split_mix;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;

/// Growth of the number of wrong bits. The default is a chip without wrong bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Disturb {
    /// Reads of a block, since a page of it was programmed, that make one more bit of that page wrong. 0:
    /// reads make no bits wrong.
    pub reads_per_bit: u32,
    /// Erases of a block that make one more bit of each of its pages wrong. 0: erases make no bits wrong.
    pub erases_per_bit: u32,
    /// Bits of a page that the ECC corrects. A page with more wrong bits is uncorrectable.
    pub ecc_strength: u32,
}

impl Disturb {
    /// Returns the wrong bits of a page whose block was read `reads` times and erased `erases` times.
    fn wrong_bits(&self, ppn: Ppn, reads: u32, erases: u32) -> u32 {
        let of = |count: u32, per_bit: u32| match per_bit {
            0 => 0,
            per_bit => count.saturating_add(split_mix(u64::from(ppn.0)) as u32 % per_bit) / per_bit,
        };
        of(reads, self.reads_per_bit) + of(erases, self.erases_per_bit)
    }
}

/// Corrected bits of a read that is weak by chance, and the strength of the ECC reported with it.
const WEAK_BITS: u32 = 4;

/// For each block the reads since its erase, and for each page how many they were when the page was
/// programmed.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockReads {
    blocks: Vec<u32>,
    before: Vec<u32>,
}

impl FaultState {
    /// Counts a read of a block. Returns how many bits the ECC corrects in the page, or an error if they are
    /// too many.
    pub(super) fn disturb(
        &mut self,
        (ppn, pbn): (Ppn, Pbn),
        geometry: &Geometry,
        erases: u32,
    ) -> Result<ReadOutcome, NandError> {
        let disturb = self.faults.disturb;
        let weak = u64::from(self.faults.weak_reads_ppm);
        if weak > 0 && self.rng.chance(weak, 1_000_000) {
            return Ok(ReadOutcome::corrected(WEAK_BITS, WEAK_BITS));
        }
        if disturb == Disturb::default() {
            return Ok(ReadOutcome::CLEAN);
        }
        self.reads.blocks.resize(geometry.blocks as usize, 0);
        let reads = &mut self.reads.blocks[pbn.index()];
        *reads = reads.saturating_add(1);
        let before = self.reads.before.get(ppn.0 as usize).copied().unwrap_or(0);
        match disturb.wrong_bits(ppn, reads.saturating_sub(before), erases) {
            bits if bits <= disturb.ecc_strength => Ok(ReadOutcome::corrected(bits, disturb.ecc_strength)),
            _ => Err(NandError::Uncorrectable(ppn)),
        }
    }

    /// The reads of the block so far do not disturb a page that is programmed now.
    pub(super) fn note_programmed(&mut self, (ppn, pbn): (Ppn, Pbn), geometry: &Geometry) {
        if let Some(&reads) = self.reads.blocks.get(pbn.index()) {
            self.reads.before.resize(geometry.pages() as usize, 0);
            self.reads.before[ppn.0 as usize] = reads;
        }
    }

    pub(super) fn forget_reads(&mut self, pbn: Pbn, geometry: &Geometry) {
        if let Some(reads) = self.reads.blocks.get_mut(pbn.index()) {
            *reads = 0;
            let pages = geometry.pages_per_block as usize;
            self.reads.before.iter_mut().skip(pbn.index() * pages).take(pages).for_each(|reads| *reads = 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::catalogue::mlc_64m;
    use crate::nand::sim::{Faults, SimChip};
    use crate::nand::{Cause, Nand};

    #[test]
    fn bits_grow_with_reads_until_an_erase_and_end_as_uncorrectable() {
        let disturb = Disturb { reads_per_bit: 100, erases_per_bit: 0, ecc_strength: 4 };
        let mut chip = SimChip::new(&mlc_64m()).unwrap().with_faults(Faults { disturb, ..Faults::default() });
        let read = |chip: &mut SimChip| chip.read(Ppn(0), Cause::Host, &mut [0; 4], &mut []);
        let mut seen = Vec::new();
        for _ in 0..600 {
            let outcome = read(&mut chip);
            if seen.last() != Some(&outcome) {
                seen.push(outcome);
            }
        }
        let bits = |corrected| Ok(ReadOutcome { corrected, is_weak: corrected >= 3 });
        let lost = Err(NandError::Uncorrectable(Ppn(0)));
        assert!(seen.ends_with(&[bits(1), bits(2), bits(3), bits(4), lost]), "{seen:?}");
        chip.erase(Pbn(0), Cause::Host).unwrap();
        assert_eq!(read(&mut chip), Ok(ReadOutcome::CLEAN));
        assert!(chip.read(Ppn(0), Cause::Check, &mut [0; 4], &mut []).is_ok());
    }

    #[test]
    fn worn_blocks_have_wrong_bits_from_the_first_read_on() {
        let disturb = Disturb { reads_per_bit: 0, erases_per_bit: 10, ecc_strength: 8 };
        let mut chip = SimChip::new(&mlc_64m()).unwrap().with_faults(Faults { disturb, ..Faults::default() });
        for _ in 0..60 {
            chip.erase(Pbn(1), Cause::Host).unwrap();
        }
        let page = chip.geometry().page_at(Pbn(1), 3);
        let outcome = chip.read(page, Cause::Host, &mut [0; 4], &mut []).unwrap();
        assert!((6..=7).contains(&outcome.corrected) && outcome.is_weak, "{outcome:?}");
        assert_eq!(chip.read(Ppn(0), Cause::Host, &mut [0; 4], &mut []), Ok(ReadOutcome::CLEAN));
    }

    #[test]
    fn some_reads_only_just_succeed() {
        let faults = Faults { seed: 7, weak_reads_ppm: 250_000, ..Faults::default() };
        let mut chip = SimChip::new(&mlc_64m()).unwrap().with_faults(faults);
        let (mut data, mut read) = ([5; 4096], [0; 4096]);
        chip.program(Ppn(0), Cause::Host, &data, &[]).unwrap();
        let mut weak = 0;
        for _ in 0..1000 {
            weak += u32::from(chip.read(Ppn(0), Cause::Host, &mut read, &mut []).unwrap().is_weak);
            assert_eq!(read, data);
        }
        assert!((200..300).contains(&weak), "{weak}");
        data.fill(0);
        assert!(!chip.read(Ppn(0), Cause::Check, &mut data, &mut []).unwrap().is_weak);
    }
}
