//! The simulated chip of the tests: a handle, and a script that sees every access.

use crate::nand::sim::SimChip;
use crate::nand::{Cause, Geometry, Nand, NandError, ReadOutcome};
use crate::shared::{MaybeSend, Shared};
use crate::units::{Pbn, Ppn};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// An access that a script sees.
#[derive(Debug)]
pub enum Access<'a> {
    /// A page was read. The script may change the data and the spare area that the caller gets; it sees both
    /// areas whole.
    Read(Ppn, Cause, &'a mut [u8], &'a mut [u8]),
    /// A page is about to be programmed with this data and spare area.
    Program(Ppn, Cause, &'a [u8], &'a [u8]),
    /// A block is about to be erased.
    Erase(Pbn, Cause),
}

/// Called with the chip before every program and erase, and after every read. An error refuses the access.
#[cfg(feature = "std")]
type Script = Box<dyn FnMut(&mut SimChip, Access<'_>) -> Result<(), NandError> + Send>;
#[cfg(not(feature = "std"))]
type Script = Box<dyn FnMut(&mut SimChip, Access<'_>) -> Result<(), NandError>>;

/// Fault in the reads of a page.
#[derive(Clone, Debug)]
pub enum Wrong {
    /// The page cannot be read until its block is erased.
    Unreadable,
    /// The page reads as these bytes (data, then spare area) until its block is erased.
    Bytes(Vec<u8>),
    /// These bits always read wrongly. They are counted from the first bit of the data area.
    Bits(Vec<usize>),
}

/// A simulated chip with faulty pages and a script.
pub struct Scripted {
    sim: SimChip,
    wrong: BTreeMap<Ppn, Wrong>,
    script: Option<Script>,
}

impl Deref for Scripted {
    type Target = SimChip;

    fn deref(&self) -> &SimChip {
        &self.sim
    }
}

impl DerefMut for Scripted {
    fn deref_mut(&mut self) -> &mut SimChip {
        &mut self.sim
    }
}

/// A handle of a simulated chip. Clones are handles of the same chip; [`Chip::copy`] makes another chip.
#[derive(Clone)]
pub struct Chip(Shared<Scripted>);

impl fmt::Debug for Chip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.lock().sim.fmt(f)
    }
}

impl Chip {
    /// Returns a handle of this chip.
    pub fn new(sim: SimChip) -> Chip {
        Chip(Shared::new(Scripted { sim, wrong: BTreeMap::new(), script: None }))
    }

    /// Locks the simulated chip until the guard is dropped.
    pub fn lock(&self) -> impl DerefMut<Target = Scripted> + '_ {
        self.0.lock()
    }

    /// Returns a copy of the simulated chip as it is now.
    pub fn sim(&self) -> SimChip {
        self.0.lock().sim.clone()
    }

    /// Gives pages faulty reads from now on, in addition to earlier ones.
    pub fn spoil(&self, wrong: impl IntoIterator<Item = (Ppn, Wrong)>) {
        self.0.lock().wrong.extend(wrong);
    }

    /// Returns this handle after making these bits of a page read wrongly for ever.
    pub fn with_wrong_bits(self, ppn: Ppn, bits: &[usize]) -> Chip {
        self.spoil([(ppn, Wrong::Bits(bits.to_vec()))]);
        self
    }

    /// Pages with faulty reads.
    pub fn spoilt(&self) -> BTreeMap<Ppn, Wrong> {
        self.0.lock().wrong.clone()
    }

    /// Replaces the simulated chip by another one, for all handles.
    pub fn replace(&self, sim: SimChip) {
        self.0.lock().sim = sim;
    }

    /// Returns another chip with the same contents and simulated faults, but without faulty pages and script.
    pub fn copy(&self) -> Chip {
        Chip::new(self.sim())
    }

    /// Calls a script at every access from now on.
    pub fn on_access(
        &self,
        script: impl FnMut(&mut SimChip, Access<'_>) -> Result<(), NandError> + MaybeSend + 'static,
    ) {
        self.0.lock().script = Some(Box::new(script));
    }

    /// Removes the script.
    pub fn refuse_nothing(&self) {
        self.0.lock().script = None;
    }
}

impl Scripted {
    fn ask(&mut self, access: Access<'_>) -> Result<(), NandError> {
        self.script.as_mut().map_or(Ok(()), |script| script(&mut self.sim, access))
    }

    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        if self.script.is_none() && !self.wrong.contains_key(&ppn) {
            return self.sim.read(ppn, cause, data, spare);
        }
        let geometry = self.sim.geometry();
        let (mut page, mut beside) =
            (vec![0; geometry.page_bytes as usize], vec![0; geometry.spare_bytes as usize]);
        let outcome = self.sim.read(ppn, cause, &mut page, &mut beside)?;
        match self.wrong.get(&ppn) {
            None => {}
            Some(Wrong::Unreadable) => return Err(NandError::Uncorrectable(ppn)),
            Some(Wrong::Bytes(bytes)) => {
                let (as_data, as_spare) = bytes.split_at(page.len());
                page.copy_from_slice(as_data);
                beside.copy_from_slice(as_spare);
            }
            Some(Wrong::Bits(bits)) => {
                for bit in bits {
                    if let Some(byte) = page.iter_mut().chain(&mut beside).nth(bit / 8) {
                        *byte ^= 1 << (bit % 8);
                    }
                }
            }
        }
        self.ask(Access::Read(ppn, cause, &mut page, &mut beside))?;
        data.copy_from_slice(&page[..data.len()]);
        spare.copy_from_slice(&beside[..spare.len()]);
        Ok(outcome)
    }
}

impl Scripted {
    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.ask(Access::Program(ppn, cause, data, spare))?;
        let geometry = self.sim.geometry();
        match self.wrong.get_mut(&ppn) {
            Some(Wrong::Unreadable) if geometry.overwrites() => Err(NandError::ProgramFailed(ppn)),
            Some(Wrong::Bytes(bytes)) if geometry.overwrites() => {
                let new = (0..).zip(data).chain((geometry.page_bytes as usize..).zip(spare));
                for (at, byte) in new {
                    if bytes[at] & byte != *byte {
                        return Err(NandError::SetsBits { page: ppn, byte: at as u32 });
                    }
                    bytes[at] = *byte;
                }
                Ok(())
            }
            _ => self.sim.program(ppn, cause, data, spare),
        }
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        self.ask(Access::Erase(pbn, cause))?;
        self.sim.erase(pbn, cause)?;
        let geometry = self.sim.geometry();
        let stays =
            |ppn: Ppn, wrong: &Wrong| geometry.block_of(ppn) != pbn || matches!(wrong, Wrong::Bits(_));
        self.wrong.retain(|&ppn, wrong| stays(ppn, wrong));
        Ok(())
    }
}

impl Nand for Chip {
    fn geometry(&self) -> Geometry {
        self.0.lock().sim.geometry()
    }

    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.0.lock().read(ppn, cause, data, spare)
    }

    fn read_at(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        from: u32,
        data: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        let mut chip = self.0.lock();
        if chip.script.is_none() && chip.wrong.is_empty() {
            return chip.sim.read_at(ppn, cause, from, data);
        }
        let from = from as usize;
        let mut page = vec![0; from + data.len()];
        let outcome = chip.read(ppn, cause, &mut page, &mut [])?;
        data.copy_from_slice(&page[from..]);
        Ok(outcome)
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.0.lock().program(ppn, cause, data, spare)
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        self.0.lock().erase(pbn, cause)
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.0.lock().sim.is_bad(pbn)
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.0.lock().sim.mark_bad(pbn)
    }

    fn tears(&self) -> bool {
        self.0.lock().sim.tears()
    }

    fn begin_batch(&mut self) {
        self.0.lock().sim.begin_batch();
    }

    fn end_batch(&mut self) {
        self.0.lock().sim.end_batch();
    }
}
