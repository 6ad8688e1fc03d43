//! A chip behind an MTD device.
//!
//! A page and its spare area are moved by one request each way, so that a program is one program of the part.
//! What the system hides or lets pass is dealt with here:
//!
//! | the system | the chip |
//! |---|---|
//! | a read answers EUCLEAN: more bits were corrected than `bitflip_threshold` | the read succeeds, the page is weak and is moved |
//! | the ECC corrected fewer | the read tells how many, by the statistics that come with it |
//! | a read answers EBADMSG: more than the ECC corrects | `Uncorrectable` |
//! | a program answers EIO | `ProgramFailed` |
//! | an erase answers EIO | `EraseFailed` |
//! | a bad block can still be read and programmed | `BadBlock`, and nothing is asked of the device |
//! | a page is programmed twice, or before an earlier one | `NotErased`, `OutOfOrder` where this chip programmed it |
//! | anything else: the device is gone, may not be written, .. | `Device` with the errno, so that no mount takes a page for torn |
//!
//! Byte 0 of the engine's spare area, the mark, is kept nowhere: free bytes never include the device's. Where
//! a part has too few for an index, its data areas lend some ([`nandex::nand::LentSpare`]; any index opened
//! by name does so itself).

use crate::error::{Events, Fault, MtdError};
use crate::io::{Facts, MtdIo, OobMode};
use crate::layout::{Packing, SpareLayout};
use crate::sys::Device;
use nandex::nand::{NandError, ReadOutcome};
use nandex::{Cause, Geometry, Nand, Pbn, Ppn};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// How a device is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MtdOptions {
    /// Whether it may be programmed and erased.
    pub writable: bool,
    /// Out-of-band bytes to use, if a board without Linux wrote the part and used fewer than Linux calls
    /// free: `4+4,20+4,36+4,52+4` for a W25N01GV of `nandex-spi`. `None` uses all free bytes.
    pub spare: Option<SpareLayout>,
}

/// The state of a block, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Unknown,
    Good,
    Bad,
}

/// A chip behind an MTD device.
pub struct Mtd<I = Device> {
    io: I,
    name: String,
    packing: Packing,
    geometry: Geometry,
    marks: Vec<Mark>,
    /// For each block the number of its pages up to the last one programmed by this chip since it erased the
    /// block.
    ends: Vec<u16>,
    page: Vec<u8>,
    /// The free bytes of a page, all that the device has.
    free: Vec<u8>,
    /// The used bytes among the free ones, as indexes in `free`.
    used: SpareLayout,
    kept: Vec<u8>,
    events: Events,
}

impl Mtd {
    /// Opens `/dev/mtdN`. Nothing is changed.
    ///
    /// # Errors
    ///
    /// What is no NAND device, a shape that the engine does not take, spare bytes that are not free, and
    /// kernels before 6.1.
    pub fn open(path: &Path, options: MtdOptions) -> Result<Mtd, MtdError> {
        let device = Device::open(path, options.writable)?;
        let free = device.facts().layout.clone();
        Mtd::with_spare(device, &path.display().to_string(), &options.spare.unwrap_or(free))
    }
}

impl<I: MtdIo> Mtd<I> {
    /// A chip over whatever answers the requests; errors call it by this name.
    ///
    /// # Errors
    ///
    /// A shape that the engine does not take.
    pub fn with_io(io: I, name: &str) -> Result<Mtd<I>, MtdError> {
        let free = io.facts().layout.clone();
        Mtd::with_spare(io, name, &free)
    }

    /// A chip that uses these bytes of the out-of-band area. The device must call all of them free.
    ///
    /// # Errors
    ///
    /// A geometry that the engine does not support, and bytes that are not free.
    pub fn with_spare(io: I, name: &str, spare: &SpareLayout) -> Result<Mtd<I>, MtdError> {
        let Facts { raw, blocks, layout, .. } = io.facts();
        raw.check_layout(layout, name)?;
        let used = spare.within(layout).map_err(|why| MtdError::unsupported(name, why))?;
        let packing = Packing { page_bytes: raw.page_bytes, free_bytes: used.free_bytes() };
        let geometry = raw.engine(packing, *blocks, name)?;
        Ok(Mtd {
            name: name.to_string(),
            packing,
            marks: vec![Mark::Unknown; geometry.blocks as usize],
            ends: vec![0; geometry.blocks as usize],
            page: vec![0; raw.page_bytes as usize],
            free: vec![0; layout.free_bytes() as usize],
            kept: vec![0; used.free_bytes() as usize],
            used,
            events: Events::new(),
            geometry,
            io,
        })
    }

    /// The facts that the device tells about itself.
    pub fn facts(&self) -> &Facts {
        self.io.facts()
    }

    /// The device below, for dumps.
    pub fn io(&mut self) -> &mut I {
        &mut self.io
    }

    /// The device's name in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A handle to its counts and its last fault, which outlives the index that takes the chip.
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// The blocks that are marked bad, in ascending order.
    pub fn bad_blocks(&mut self) -> Result<Vec<Pbn>, NandError> {
        let mut bad = Vec::new();
        for block in (0..self.geometry.blocks).map(Pbn) {
            if self.is_bad(block)? {
                bad.push(block);
            }
        }
        Ok(bad)
    }

    fn offset(&self, pbn: Pbn, page: u32) -> u64 {
        let raw = self.io.facts().raw;
        u64::from(pbn.0) * raw.block_bytes() + u64::from(page) * u64::from(raw.page_bytes)
    }

    fn fault(&self, doing: &'static str, (pbn, page): (Pbn, Option<u32>), errno: Errno) {
        let device = self.name.clone();
        let why = io::Error::from(errno).to_string();
        let fault = Fault { device, doing, block: pbn.0, page, errno: Some(errno.raw_os_error()), why };
        self.events.note(|counts| counts.last_fault = Some(fault));
    }

    /// The block of a page that may be touched.
    fn usable(&mut self, ppn: Ppn, data: usize, spare: usize) -> Result<Pbn, NandError> {
        if ppn.0 >= self.geometry.pages() {
            return Err(NandError::PageOutOfRange(ppn));
        }
        if data > self.geometry.page_bytes as usize || spare > self.geometry.spare_bytes as usize {
            return Err(NandError::BufferTooLong(ppn));
        }
        let pbn = self.geometry.block_of(ppn);
        if self.is_bad(pbn)? { Err(NandError::BadBlock(pbn)) } else { Ok(pbn) }
    }

    /// Refuses programs out of order, which would spoil pages of the part.
    fn check_order(&self, ppn: Ppn, pbn: Pbn) -> Result<(), NandError> {
        let (page, end) = (self.geometry.page_in_block(ppn), u32::from(self.ends[pbn.index()]));
        match page + 1 {
            next if next > end => Ok(()),
            next if next == end => Err(NandError::NotErased(ppn)),
            _ => Err(NandError::OutOfOrder(ppn)),
        }
    }
}

/// The error of a device that answers nothing of pages or blocks.
fn gone(errno: Errno) -> NandError {
    NandError::Device(errno.raw_os_error())
}

impl<I: MtdIo> Nand for Mtd<I> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(
        &mut self,
        ppn: Ppn,
        _: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        let pbn = self.usable(ppn, data.len(), spare.len())?;
        let page = self.geometry.page_in_block(ppn);
        let at = self.offset(pbn, page);
        let (stats, done) = self.io.read(at, OobMode::Auto, (&mut self.page, &mut self.free));
        self.events.note(|counts| counts.reads += 1);
        match done {
            Ok(()) | Err(Errno::UCLEAN) => {}
            Err(errno) => {
                self.fault("read", (pbn, Some(page)), errno);
                if errno != Errno::BADMSG {
                    return Err(gone(errno));
                }
                self.events.note(|counts| counts.uncorrectable_reads += 1);
                return Err(NandError::Uncorrectable(ppn));
            }
        }
        if stats.corrected > 0 || done.is_err() {
            self.events.note(|counts| {
                counts.corrected_reads += 1;
                counts.corrected_bits += u64::from(stats.corrected);
            });
        }
        self.used.gather(&self.free, &mut self.kept);
        self.packing.unpack((&self.page, &self.kept), data, spare);
        // The bits are those of all code words together; the system knows the worst of them.
        Ok(ReadOutcome { corrected: stats.corrected, is_weak: done.is_err() })
    }

    fn program(&mut self, ppn: Ppn, _: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        let pbn = self.usable(ppn, data.len(), spare.len())?;
        self.check_order(ppn, pbn)?;
        let page = self.geometry.page_in_block(ppn);
        let at = self.offset(pbn, page);
        self.packing.pack((data, spare), &mut self.page, &mut self.kept);
        self.free.fill(0xff);
        self.used.scatter(&self.kept, &mut self.free);
        let done = self.io.write(at, OobMode::Auto, (&self.page, &self.free));
        if let Err(errno) = done {
            self.fault("program", (pbn, Some(page)), errno);
            if errno != Errno::IO {
                return Err(gone(errno));
            }
        }
        // A page whose program failed holds something.
        self.ends[pbn.index()] = page as u16 + 1;
        self.events.note(|counts| match done {
            Ok(()) => counts.programs += 1,
            Err(_) => counts.failed_programs += 1,
        });
        done.map_err(|_| NandError::ProgramFailed(ppn))
    }

    fn erase(&mut self, pbn: Pbn, _: Cause) -> Result<(), NandError> {
        if self.is_bad(pbn)? {
            return Err(NandError::BadBlock(pbn));
        }
        match self.io.erase(self.offset(pbn, 0)) {
            Ok(()) => {
                self.ends[pbn.index()] = 0;
                self.events.note(|counts| counts.erases += 1);
                Ok(())
            }
            Err(errno) => {
                self.fault("erase", (pbn, None), errno);
                if errno != Errno::IO {
                    return Err(gone(errno));
                }
                self.events.note(|counts| counts.failed_erases += 1);
                Err(NandError::EraseFailed(pbn))
            }
        }
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        let known = *self.marks.get(pbn.index()).ok_or(NandError::BlockOutOfRange(pbn))?;
        if known != Mark::Unknown {
            return Ok(known == Mark::Bad);
        }
        match self.io.is_bad(self.offset(pbn, 0)) {
            Ok(is_bad) => {
                self.marks[pbn.index()] = if is_bad { Mark::Bad } else { Mark::Good };
                Ok(is_bad)
            }
            Err(errno) => {
                self.fault("read the mark of", (pbn, None), errno);
                Err(gone(errno))
            }
        }
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        if self.is_bad(pbn)? {
            return Ok(());
        }
        if let Err(errno) = self.io.mark_bad(self.offset(pbn, 0)) {
            self.fault("mark as bad", (pbn, None), errno);
            let page = self.geometry.page_at(pbn, 0);
            return Err(if errno == Errno::IO { NandError::ProgramFailed(page) } else { gone(errno) });
        }
        self.marks[pbn.index()] = Mark::Bad;
        self.events.note(|counts| counts.marked_bad += 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
