//! The simulated chip: real bytes, the physics of NAND, exact counts, simulated time.

use super::{Cause, Geometry, GeometryError, Nand, NandError};
use crate::units::{Nanos, Pbn, Ppn};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// How long the chip takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Array time of a page read, in ns.
    pub read_ns: u64,
    /// Array time of a page program, in ns.
    pub program_ns: u64,
    /// Time of a block erase, in ns.
    pub erase_ns: u64,
    /// Bus time of one byte, in picoseconds.
    pub transfer_ps_per_byte: u64,
}

/// Operations by cause, in the order of [`Cause::COUNTED`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Page reads.
    pub page_reads: [u64; 8],
    /// Page programs.
    pub page_programs: [u64; 8],
    /// Block erases.
    pub block_erases: [u64; 8],
}

#[derive(Clone)]
struct Block {
    bytes: Vec<u8>,
    programs: Vec<u8>,
    next: u32,
}

/// A chip in memory.
#[derive(Clone)]
pub struct SimChip {
    geometry: Geometry,
    timing: Timing,
    blocks: Vec<Option<Arc<Block>>>,
    bad: Vec<bool>,
    wear: Vec<u32>,
    counters: Counters,
    time: Nanos,
}

impl SimChip {
    /// A fresh chip, every block erased.
    pub fn new(geometry: Geometry, timing: Timing) -> Result<SimChip, GeometryError> {
        geometry.validate()?;
        let blocks = geometry.blocks as usize;
        Ok(SimChip {
            geometry,
            timing,
            blocks: vec![None; blocks],
            bad: vec![false; blocks],
            wear: vec![0; blocks],
            counters: Counters::default(),
            time: Nanos(0),
        })
    }

    /// Operations so far, by cause.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Simulated time so far.
    pub fn time(&self) -> Nanos {
        self.time
    }

    /// Erases of each block.
    pub fn wear(&self) -> &[u32] {
        &self.wear
    }

    fn stride(&self) -> usize {
        (self.geometry.page_bytes + self.geometry.spare_bytes) as usize
    }

    fn check_page(&self, ppn: Ppn, data: usize, spare: usize) -> Result<Pbn, NandError> {
        if ppn.0 >= self.geometry.pages() {
            return Err(NandError::PageOutOfRange(ppn));
        }
        if data > self.geometry.page_bytes as usize || spare > self.geometry.spare_bytes as usize {
            return Err(NandError::BufferTooLong(ppn));
        }
        let pbn = self.geometry.block_of(ppn);
        if self.bad[pbn.index()] { Err(NandError::BadBlock(pbn)) } else { Ok(pbn) }
    }

    fn charge(&mut self, cause: Cause, array_ns: u64, bytes: usize) {
        if cause != Cause::Check {
            self.time += Nanos(array_ns + bytes as u64 * self.timing.transfer_ps_per_byte / 1000);
        }
    }
}

fn count(row: &mut [u64; 8], cause: Cause) {
    if cause != Cause::Check {
        row[cause as usize] += 1;
    }
}

impl Nand for SimChip {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&mut self, ppn: Ppn, cause: Cause, data: &mut [u8], spare: &mut [u8]) -> Result<(), NandError> {
        let pbn = self.check_page(ppn, data.len(), spare.len())?;
        count(&mut self.counters.page_reads, cause);
        self.charge(cause, self.timing.read_ns, data.len() + spare.len());
        let page = self.geometry.page_in_block(ppn) as usize;
        match &self.blocks[pbn.index()] {
            Some(block) if block.programs[page] > 0 => {
                let at = page * self.stride();
                let spare_at = at + self.geometry.page_bytes as usize;
                data.copy_from_slice(&block.bytes[at..at + data.len()]);
                spare.copy_from_slice(&block.bytes[spare_at..spare_at + spare.len()]);
            }
            _ => {
                data.fill(0xff);
                spare.fill(0xff);
            }
        }
        Ok(())
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        let pbn = self.check_page(ppn, data.len(), spare.len())?;
        let (g, stride) = (self.geometry, self.stride());
        let page = g.page_in_block(ppn);
        let block = self.blocks[pbn.index()].get_or_insert_with(|| {
            Arc::new(Block {
                bytes: vec![0xff; stride * g.pages_per_block as usize],
                programs: vec![0; g.pages_per_block as usize],
                next: 0,
            })
        });
        if u32::from(block.programs[page as usize]) >= g.programs_per_page_max {
            return Err(NandError::NotErased(ppn));
        }
        if !g.random_order && page + 1 < block.next {
            return Err(NandError::OutOfOrder(ppn));
        }
        let block = Arc::make_mut(block);
        let at = page as usize * stride;
        let spare_at = at + g.page_bytes as usize;
        if block.programs[page as usize] == 0 {
            block.bytes[at..at + data.len()].copy_from_slice(data);
            block.bytes[at + data.len()..spare_at].fill(0xff);
            block.bytes[spare_at..spare_at + spare.len()].copy_from_slice(spare);
            block.bytes[spare_at + spare.len()..at + stride].fill(0xff);
        } else {
            let merge = |old: &mut [u8], new: &[u8]| old.iter_mut().zip(new).for_each(|(o, n)| *o &= n);
            merge(&mut block.bytes[at..at + data.len()], data);
            merge(&mut block.bytes[spare_at..spare_at + spare.len()], spare);
        }
        block.programs[page as usize] += 1;
        block.next = block.next.max(page + 1);
        count(&mut self.counters.page_programs, cause);
        self.charge(cause, self.timing.program_ns, stride);
        Ok(())
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        if pbn.0 >= self.geometry.blocks {
            return Err(NandError::BlockOutOfRange(pbn));
        }
        if self.bad[pbn.index()] {
            return Err(NandError::BadBlock(pbn));
        }
        if let Some(block) = &mut self.blocks[pbn.index()] {
            let block = Arc::make_mut(block);
            block.programs.fill(0);
            block.next = 0;
        }
        self.wear[pbn.index()] += 1;
        count(&mut self.counters.block_erases, cause);
        self.charge(cause, self.timing.erase_ns, 0);
        Ok(())
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.bad.get(pbn.index()).copied().ok_or(NandError::BlockOutOfRange(pbn))
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        *self.bad.get_mut(pbn.index()).ok_or(NandError::BlockOutOfRange(pbn))? = true;
        Ok(())
    }
}
