//! A chip whose data area lends bytes to its spare area.
//!
//! An SPI NAND part with its ECC on leaves its user 16 spare bytes of a page, and a mu-Tree needs 45. So the
//! last 28 bytes of the data area are shown as the end of the spare area:
//!
//! ```text
//! shown    data, 2020 bytes                | spare, 45 bytes
//! chip     data, 2020 bytes | 28 bytes     | spare, 17 bytes
//!                             = spare 17..45           = spare 0..17
//! ```
//!
//! Nodes are then 1.4 % smaller. A read of data and spare area moves as many bytes as before. The layers
//! above do not need a page size that is a power of two. Byte 0 of the spare area, the bad-block mark, stays
//! in its place.

use super::{Cause, Geometry, Nand, NandError, ReadOutcome, forward_nand};
use crate::units::{Pbn, Ppn};
use alloc::vec;
use alloc::vec::Vec;

/// A chip that shows a spare area of at least a given size.
///
/// ```
/// use nandex::Nand;
/// use nandex::nand::{LentSpare, catalogue, sim::SimChip};
///
/// let part = catalogue::find("w25n01gv").ok_or("no such part")?;
/// let chip = LentSpare::new(SimChip::new(part)?, 45);
/// assert_eq!((chip.geometry().page_bytes, chip.geometry().spare_bytes), (2020, 45));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LentSpare<N> {
    nand: N,
    /// Bytes of the data area that are shown as spare bytes.
    lent: usize,
    /// Data area as the chip has it; empty if nothing is lent.
    page: Vec<u8>,
}

impl<N: Nand> LentSpare<N> {
    /// Shows at least `needed` spare bytes, but lends at most half of the data area. Nothing is lent, and
    /// nothing is paid, if the chip has `needed` spare bytes. Give the same number at each mount.
    pub fn new(nand: N, needed: u32) -> LentSpare<N> {
        let geometry = nand.geometry();
        let lent = needed.saturating_sub(geometry.spare_bytes).min(geometry.page_bytes / 2) as usize;
        let page = if lent > 0 { vec![0xff; geometry.page_bytes as usize] } else { Vec::new() };
        LentSpare { nand, lent, page }
    }

    /// Bytes of each data area that are lent.
    pub fn lent(&self) -> usize {
        self.lent
    }

    /// Returns the chip.
    pub fn into_inner(self) -> N {
        self.nand
    }

    /// Returns how many of the first `spare` shown bytes lie in the spare area of the chip.
    fn own(&self, spare: usize) -> usize {
        spare.min(self.nand.geometry().spare_bytes as usize)
    }

    fn check(&self, ppn: Ppn, data: usize, spare: usize) -> Result<(), NandError> {
        let Geometry { page_bytes, spare_bytes, .. } = self.geometry();
        if data > page_bytes as usize || spare > spare_bytes as usize {
            return Err(NandError::BufferTooLong(ppn));
        }
        Ok(())
    }
}

impl<N: Nand> Nand for LentSpare<N> {
    forward_nand!(self => self.nand; blocks rules);

    fn geometry(&self) -> Geometry {
        let mut geometry = self.nand.geometry();
        geometry.page_bytes -= self.lent as u32;
        geometry.spare_bytes += self.lent as u32;
        geometry
    }

    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.check(ppn, data.len(), spare.len())?;
        let (own, rest) = spare.split_at_mut(self.own(spare.len()));
        if rest.is_empty() {
            return self.nand.read(ppn, cause, data, own);
        }
        let at = self.page.len() - self.lent;
        let outcome = self.nand.read(ppn, cause, &mut self.page[..at + rest.len()], own)?;
        data.copy_from_slice(&self.page[..data.len()]);
        rest.copy_from_slice(&self.page[at..at + rest.len()]);
        Ok(outcome)
    }

    fn read_at(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        from: u32,
        data: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.check(ppn, from as usize + data.len(), 0)?;
        self.nand.read_at(ppn, cause, from, data)
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.check(ppn, data.len(), spare.len())?;
        let (own, rest) = spare.split_at(self.own(spare.len()));
        if rest.is_empty() {
            return self.nand.program(ppn, cause, data, own);
        }
        let at = self.page.len() - self.lent;
        self.page[..data.len()].copy_from_slice(data);
        self.page[data.len()..at].fill(0xff);
        self.page[at..at + rest.len()].copy_from_slice(rest);
        self.nand.program(ppn, cause, &self.page[..at + rest.len()], own)
    }

    /// RAM of the chip below, and a page buffer if bytes are lent.
    fn ram_bytes(&self) -> usize {
        self.nand.ram_bytes() + self.page.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::Part;
    use crate::nand::catalogue::mlc_64m;
    use crate::nand::sim::SimChip;
    use crate::rng::Rng;

    fn chip(spare_bytes: u32) -> SimChip {
        let geometry = Geometry::new(512, spare_bytes, 16, 4);
        SimChip::new(&Part { geometry, ..mlc_64m() }).unwrap()
    }

    fn filled(rng: &mut Rng, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| rng.below(256) as u8).collect()
    }

    #[test]
    fn what_is_programmed_reads_back_whole_or_in_part() {
        let mut rng = Rng::new(5);
        for (spare, needed) in [(16, 45), (1, 16), (0, 16), (64, 45), (16, 16)] {
            let mut chip = LentSpare::new(chip(spare), needed);
            let g = chip.geometry();
            assert_eq!(g.page_bytes + g.spare_bytes, 512 + spare);
            assert_eq!(g.spare_bytes, needed.max(spare));
            assert_eq!(chip.ram_bytes(), if needed > spare { 512 } else { 0 });
            for page in 0..16 {
                let data = filled(&mut rng, g.page_bytes as usize - (page as usize * 7) % 90);
                let oob = filled(
                    &mut rng,
                    if page % 5 == 4 { 0 } else { g.spare_bytes as usize - page as usize % 3 },
                );
                chip.program(Ppn(page), Cause::Host, &data, &oob).unwrap();
                let (mut whole, mut tail) = (vec![0; g.page_bytes as usize], vec![0; g.spare_bytes as usize]);
                chip.read(Ppn(page), Cause::Host, &mut whole, &mut tail).unwrap();
                assert_eq!((&whole[..data.len()], &tail[..oob.len()]), (&data[..], &oob[..]));
                assert!(whole[data.len()..].iter().chain(&tail[oob.len()..]).all(|&b| b == 0xff));
                let (mut part, mut little) = (vec![0; 9], vec![0; tail.len().min(9)]);
                chip.read(Ppn(page), Cause::Host, &mut part, &mut little).unwrap();
                assert_eq!((&part[..], &little[..]), (&whole[..9], &tail[..little.len()]));
            }
        }
    }

    #[test]
    fn a_buffer_that_is_too_long_is_refused() {
        let mut chip = LentSpare::new(chip(16), 45);
        let refused = Err(NandError::BufferTooLong(Ppn(0)));
        assert_eq!(chip.program(Ppn(0), Cause::Host, &[0; 484], &[]), refused);
        assert_eq!(chip.read(Ppn(0), Cause::Host, &mut [0; 483], &mut [0; 46]).map(drop), refused);
    }
}
