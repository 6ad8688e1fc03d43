//! The simulated chip: real bytes, the physics of NAND, exact counts, simulated time and energy, faults.
//!
//! Each operation first checks three things: the power is on, the address is on the chip, the rules allow the
//! operation. Then the chip draws how the operation ends: done, failed, or lost to a power cut. The block
//! changes accordingly, and the operation is counted, timed and recorded. An operation that the chip refuses
//! costs nothing.
//!
//! Time is the sum of latencies; nothing overlaps. A read takes its array time and the transfer of the bytes
//! asked for, a program always transfers the whole page (a part with [`Part::words`] programs and transfers
//! the words that change), an erase transfers nothing. [`Cause::Check`] is
//! neither counted nor timed, and no fault strikes it; but a page that is torn already reads as torn.
//!
//! The channels of an array work at the same time only in a batch. The batch takes as long as its busiest
//! channel; an erase occupies all channels. Counts and energy are the same as without a batch.
//!
//! A clone shares the blocks with its original. Either side copies a block before it changes the block, so a
//! chip can be cloned at every operation.

mod append;
mod block;
mod counters;
mod damage;
mod disturb;
mod faults;
mod image;
mod record;
#[cfg(test)]
mod tests;

pub use counters::Counters;
pub use disturb::Disturb;
pub use faults::{CutWhen, Faults, PowerCut, TornModel};
pub use image::ImageError;
#[cfg(feature = "unstable")]
pub use image::ImagePlace;
#[cfg(feature = "unstable")]
pub use record::{PhysicalOp, Recorded, Recording, Torn};
#[cfg(not(feature = "unstable"))]
pub(crate) use {
    image::ImagePlace,
    record::{PhysicalOp, Recorded, Recording, Torn},
};

use super::{Cause, Geometry, Nand, NandError, Part, PartError, ReadOutcome};
use crate::rng::Rng;
use crate::units::{Nanos, Pbn, Ppn};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use append::Covered;
use block::{Block, Health, PageState, Payload};
use counters::count;
use faults::{Fate, FaultState};
use record::Diary;

/// A simulated chip in memory.
///
/// ```
/// use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
/// use nandex::{Cause, Nand, Pbn, Ppn};
///
/// let mut chip = SimChip::new(&mlc_64m())?;
/// let size = chip.geometry();
/// let (data, spare) = (vec![7; size.page_bytes as usize], vec![0xff; size.spare_bytes as usize]);
/// chip.program(Ppn(0), Cause::Host, &data, &spare)?;
/// chip.erase(Pbn(0), Cause::Host)?;
/// assert!(chip.is_erased(Ppn(0)) && chip.wear()[0] == 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SimChip {
    part: Part,
    /// State of each block; `None` for a block that was never programmed.
    blocks: Vec<Option<Arc<Block>>>,
    bad: Vec<bool>,
    wear: Vec<u32>,
    counters: Counters,
    time: Nanos,
    energy_pj: u64,
    operations: u64,
    powered: bool,
    faults: Option<Box<FaultState>>,
    diary: Diary,
    /// Nesting depth of the open batches.
    batches: u32,
    /// Time of each channel in the open batch, in ns.
    channel_ns: Vec<u64>,
}

impl SimChip {
    /// Returns a fresh chip: every block is good and erased, and nothing ever fails.
    pub fn new(part: &Part) -> Result<SimChip, PartError> {
        part.validate()?;
        let blocks = part.geometry.blocks as usize;
        Ok(SimChip {
            part: part.clone(),
            blocks: vec![None; blocks],
            bad: vec![false; blocks],
            wear: vec![0; blocks],
            counters: Counters::default(),
            time: Nanos(0),
            energy_pj: 0,
            operations: 0,
            powered: true,
            faults: None,
            diary: Diary::default(),
            batches: 0,
            channel_ns: vec![0; part.geometry.channels as usize],
        })
    }

    /// Marks blocks bad as a factory does: each block with the probability `ratio_ppm` in a million, but
    /// never block 0.
    pub fn with_factory_bad_blocks(mut self, ratio_ppm: u32, seed: u64) -> SimChip {
        let mut rng = Rng::new(seed);
        for bad in self.bad.iter_mut().skip(1) {
            *bad |= rng.chance(u64::from(ratio_ppm), 1_000_000);
        }
        self
    }

    /// Lets the chip fail from now on.
    pub fn with_faults(mut self, faults: Faults) -> SimChip {
        self.set_faults(faults);
        self
    }

    /// Lets the chip fail from now on. A planned power cut stays planned.
    pub fn set_faults(&mut self, faults: Faults) {
        let power_cut = self.faults.as_ref().and_then(|state| state.power_cut);
        self.faults = Some(Box::new(FaultState::new(faults, power_cut)));
    }

    /// Plans a power cut, in place of an earlier plan. A cut whose operation has passed never strikes.
    pub fn plan_power_cut(&mut self, cut: PowerCut) {
        let state = self.faults.get_or_insert_with(|| Box::new(FaultState::new(Faults::default(), None)));
        state.power_cut = Some(cut);
    }

    /// Switches the power off. Every operation then fails.
    pub fn power_off(&mut self) {
        self.powered = false;
    }

    /// Switches the power on again.
    pub fn power_on(&mut self) {
        self.powered = true;
    }

    /// Returns true if the power is on.
    pub fn is_powered(&self) -> bool {
        self.powered
    }

    /// Part that is simulated.
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// Number of operations so far, by cause.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Simulated time so far.
    pub fn time(&self) -> Nanos {
        self.time
    }

    /// Energy so far, in pJ.
    pub fn energy_pj(&self) -> u64 {
        self.energy_pj
    }

    /// Number of erases of each block.
    pub fn wear(&self) -> &[u32] {
        &self.wear
    }

    /// Returns true if the page was not programmed since its block was erased. This costs no time and is not
    /// counted.
    pub fn is_erased(&self, ppn: Ppn) -> bool {
        let geometry = &self.part.geometry;
        assert!(ppn.0 < geometry.pages(), "{ppn} is beyond the end of the chip");
        let block = self.blocks[geometry.block_of(ppn).index()].as_deref();
        let page = geometry.page_in_block(ppn) as usize;
        block.is_none_or(|block| block.pages[page].programs == 0 && !block.half_erased)
    }

    /// Number of changes of the chip's state so far: programs, erases and bad-block marks, whole or torn. The
    /// next change has this number.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Starts a recording of every change of the chip's state.
    #[cfg_attr(not(feature = "unstable"), doc(hidden))]
    pub fn start_recording(&mut self) {
        self.diary.0 = Some(Box::default());
    }

    /// Labels the operations recorded from now on, say with the host operations acknowledged so far.
    #[cfg_attr(not(feature = "unstable"), doc(hidden))]
    pub fn mark(&mut self, mark: u64) {
        if let Some(recording) = &mut self.diary.0 {
            recording.mark = mark;
        }
    }

    /// Ends the recording and hands it over; empty when there was none.
    #[cfg_attr(not(feature = "unstable"), doc(hidden))]
    pub fn take_recording(&mut self) -> Recording {
        self.diary.0.take().map_or_else(Recording::default, |recording| *recording)
    }

    /// Repeats a recorded operation as it ended then. See [`SimChip::apply`].
    #[cfg_attr(not(feature = "unstable"), doc(hidden))]
    pub fn replay(&mut self, recorded: &Recorded) -> Result<(), NandError> {
        self.change(&recorded.op, recorded.torn)
    }

    /// Changes the chip's state as this operation does: it is numbered and wears the block, but is neither
    /// counted, timed nor faulted, and needs no power.
    #[cfg_attr(not(feature = "unstable"), doc(hidden))]
    pub fn apply(&mut self, op: &PhysicalOp) -> Result<(), NandError> {
        self.change(op, None)
    }

    /// Changes the chip's state as this operation does when it is torn; a torn bad-block mark is there or
    /// not.
    #[cfg_attr(not(feature = "unstable"), doc(hidden))]
    pub fn apply_torn(&mut self, op: &PhysicalOp, torn: TornModel, seed: u64) -> Result<(), NandError> {
        self.change(op, Some(Torn { model: torn, seed }))?;
        if let PhysicalOp::Program { ppn, .. } = op {
            self.destroy_partner(*ppn, seed);
        }
        Ok(())
    }

    /// Destroys the page that shares its cells with `ppn`, a page whose program was torn, if there is one.
    fn destroy_partner(&mut self, ppn: Ppn, seed: u64) {
        let geometry = &self.part.geometry;
        let page = geometry.page_in_block(ppn);
        let lower = self.part.pairing.lower_of(page, geometry.pages_per_block);
        let block = self.blocks[geometry.block_of(ppn).index()].as_mut();
        if let (Some(lower), Some(block)) = (lower, block) {
            Arc::make_mut(block).destroy(geometry, lower as usize, seed);
        }
    }

    fn change(&mut self, op: &PhysicalOp, torn: Option<Torn>) -> Result<(), NandError> {
        match op {
            PhysicalOp::Program { ppn, data, spare } => {
                let page = self.check_program(*ppn, Payload { data, spare })?;
                self.change_page(*ppn, page, Payload { data, spare }, torn);
            }
            PhysicalOp::Erase { pbn } => {
                self.check_block(*pbn)?;
                self.change_block(*pbn, torn);
            }
            PhysicalOp::MarkBad { pbn } => {
                self.check_block_number(*pbn)?;
                self.bad[pbn.index()] |= torn.is_none_or(|torn| torn.seed & 1 == 0);
            }
        }
        self.operations += 1;
        Ok(())
    }

    fn change_page(&mut self, ppn: Ppn, page: usize, payload: Payload<'_>, torn: Option<Torn>) {
        let geometry = &self.part.geometry;
        if let Some(state) = &mut self.faults {
            state.note_programmed((ppn, geometry.block_of(ppn)), geometry);
        }
        let place = &mut self.blocks[geometry.block_of(ppn).index()];
        let block = Arc::make_mut(place.get_or_insert_with(|| Arc::new(Block::erased(geometry))));
        match torn {
            None => block.program(geometry, page, payload),
            Some(torn) => block.program_torn(geometry, page, payload, torn),
        }
    }

    fn change_block(&mut self, pbn: Pbn, torn: Option<Torn>) {
        let geometry = &self.part.geometry;
        let place = &mut self.blocks[pbn.index()];
        if let Some(state) = &mut self.faults {
            state.forget_reads(pbn, &self.part.geometry);
        }
        match torn {
            None => block::erase(place),
            Some(Torn { model, seed }) => {
                let block = place.get_or_insert_with(|| Arc::new(Block::erased(geometry)));
                Arc::make_mut(block).erase_torn(geometry, model, seed);
            }
        }
        self.wear[pbn.index()] = self.wear[pbn.index()].saturating_add(1);
    }

    #[inline]
    fn check_power(&self) -> Result<(), NandError> {
        if self.powered { Ok(()) } else { Err(NandError::PowerLost) }
    }

    fn check_page(&self, ppn: Ppn, data: usize, spare: usize) -> Result<Pbn, NandError> {
        let geometry = &self.part.geometry;
        if ppn.0 >= geometry.pages() {
            return Err(NandError::PageOutOfRange(ppn));
        }
        if data > geometry.page_bytes as usize || spare > geometry.spare_bytes as usize {
            return Err(NandError::BufferTooLong(ppn));
        }
        let pbn = geometry.block_of(ppn);
        if self.bad[pbn.index()] { Err(NandError::BadBlock(pbn)) } else { Ok(pbn) }
    }

    /// Returns the number of the page within its block, or the error of a page that may not be programmed.
    fn check_program(&self, ppn: Ppn, payload: Payload<'_>) -> Result<usize, NandError> {
        let geometry = &self.part.geometry;
        let pbn = self.check_page(ppn, payload.data.len(), payload.spare.len())?;
        let page = geometry.page_in_block(ppn);
        if let Some(block) = &self.blocks[pbn.index()] {
            let state = block.pages[page as usize];
            let is_spent = u32::from(state.programs) >= geometry.programs_per_page_max;
            if block.half_erased || is_spent && !append::is_open(geometry, state) {
                return Err(NandError::NotErased(ppn));
            }
            let refused = match geometry.overwrites() {
                true => block.byte_set(geometry, page as usize, payload),
                false if is_spent => block.byte_again(geometry, page as usize, payload),
                false => None,
            };
            if let Some(byte) = refused {
                return Err(NandError::SetsBits { page: ppn, byte: byte as u32 });
            }
            let is_append = geometry.appends() && state.programs > 0;
            if !geometry.random_order && !is_append && page + 1 < block.next {
                return Err(NandError::OutOfOrder(ppn));
            }
        }
        Ok(page as usize)
    }

    fn check_block_number(&self, pbn: Pbn) -> Result<(), NandError> {
        if pbn.0 < self.part.geometry.blocks { Ok(()) } else { Err(NandError::BlockOutOfRange(pbn)) }
    }

    fn check_block(&self, pbn: Pbn) -> Result<(), NandError> {
        self.check_block_number(pbn)?;
        if self.bad[pbn.index()] { Err(NandError::BadBlock(pbn)) } else { Ok(()) }
    }

    /// Returns the array time of a program in ns, and the bytes that it transfers.
    fn program_work(&self, ppn: Ppn, page: usize, payload: Payload<'_>) -> (u64, usize) {
        let geometry = &self.part.geometry;
        let Some(words) = &self.part.words else {
            return (self.part.timing.program_ns, geometry.raw_page_bytes());
        };
        let block = self.blocks[geometry.block_of(ppn).index()].as_deref();
        let stored = block.and_then(|block| block.stored(geometry, block.pages[page]));
        append::work(geometry, words, stored, payload)
    }

    /// Reads some columns of a page.
    fn read_columns(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        Columns { from, data, spare }: Columns<'_>,
    ) -> Result<ReadOutcome, NandError> {
        self.check_power()?;
        let pbn = self.check_page(ppn, from + data.len(), spare.len())?;
        count(&mut self.counters.page_reads, cause);
        let read = Work { ma: self.part.supply.read_ma, ns: self.part.timing.read_ns };
        self.charge(cause, Some(ppn), read, data.len() + spare.len());
        let geometry = &self.part.geometry;
        let page = geometry.page_in_block(ppn) as usize;
        let block = self.blocks[pbn.index()].as_deref();
        let state = block.map_or(PageState::ERASED, |block| block.pages[page]);
        let covered = Covered { from, data: data.len(), spare: spare.len() };
        let is_torn = block.is_some_and(|block| block.covers_torn_word(geometry, page, covered));
        if state.health == Health::Unreadable || is_torn {
            return Err(NandError::Uncorrectable(ppn));
        }
        match block.and_then(|block| block.stored(geometry, state)) {
            Some(stored) => {
                let (stored_data, stored_spare) = stored.split_at(geometry.page_bytes as usize);
                data.copy_from_slice(&stored_data[from..from + data.len()]);
                spare.copy_from_slice(&stored_spare[..spare.len()]);
            }
            None => {
                data.fill(0xff);
                spare.fill(0xff);
            }
        }
        match &mut self.faults {
            Some(state) if cause != Cause::Check => {
                let outcome = state.disturb((ppn, pbn), geometry, self.wear[pbn.index()])?;
                if state.corrupt(data, spare) { Ok(outcome) } else { Err(NandError::Uncorrectable(ppn)) }
            }
            _ => Ok(ReadOutcome::CLEAN),
        }
    }

    /// Draws how the next change of state ends.
    #[inline]
    fn fate(&mut self, cause: Option<Cause>, failures_ppm: impl FnOnce(&FaultState) -> u32) -> Fate {
        match &mut self.faults {
            Some(state) if cause != Some(Cause::Check) => {
                let failures_ppm = failures_ppm(state);
                state.fate(self.operations, failures_ppm)
            }
            _ => Fate::Done,
        }
    }

    #[inline]
    fn charge(&mut self, cause: Cause, page: Option<Ppn>, work: Work, bytes: usize) {
        if cause != Cause::Check {
            let transfer_ns = self.part.timing.transfer_ns(bytes);
            self.energy_pj += self.part.supply.energy_pj(work.ma, work.ns, transfer_ns);
            self.take_time(page, work.ns + transfer_ns);
        }
    }

    /// Adds the time of an operation on a page, or on a block, which occupies all channels. In a batch the
    /// channels keep the time.
    #[inline]
    fn take_time(&mut self, page: Option<Ppn>, ns: u64) {
        match page {
            _ if self.batches == 0 => self.time += Nanos(ns),
            Some(ppn) => self.channel_ns[self.part.geometry.channel_of(ppn) as usize] += ns,
            None => self.channel_ns.iter_mut().for_each(|channel| *channel += ns),
        }
    }

    /// Returns the result of an operation that ended with `fate`. Switches the power off if `fate` is a power
    /// cut.
    #[inline]
    fn ended(&mut self, fate: Fate, failure: NandError) -> Result<(), NandError> {
        match fate {
            Fate::Done => Ok(()),
            Fate::Failed { .. } => Err(failure),
            Fate::LostBefore | Fate::LostInside { .. } | Fate::LostAfter => {
                self.powered = false;
                Err(NandError::PowerLost)
            }
        }
    }
}

/// Columns of a page that are read: bytes of the data area from `from` on, and the first of the spare area.
struct Columns<'a> {
    from: usize,
    data: &'a mut [u8],
    spare: &'a mut [u8],
}

/// Work of the cells: the current it draws, and the time it takes.
struct Work {
    ma: u32,
    ns: u64,
}

/// Returns how the block is torn; `None` if the change is whole or did not happen. A failed operation leaves
/// random bits.
#[inline]
fn torn_by(fate: Fate) -> Option<Torn> {
    match fate {
        Fate::Failed { seed } => Some(Torn { model: TornModel::RandomBits, seed }),
        Fate::LostInside { torn, seed } => Some(Torn { model: torn, seed }),
        Fate::Done | Fate::LostBefore | Fate::LostAfter => None,
    }
}

impl Nand for SimChip {
    fn geometry(&self) -> Geometry {
        self.part.geometry
    }

    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.read_columns(ppn, cause, Columns { from: 0, data, spare })
    }

    /// Only the bytes asked for are transferred.
    fn read_at(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        from: u32,
        data: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.read_columns(ppn, cause, Columns { from: from as usize, data, spare: &mut [] })
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.check_power()?;
        let page = self.check_program(ppn, Payload { data, spare })?;
        let fate = self.fate(Some(cause), |state| state.faults.program_failures_ppm);
        if fate != Fate::LostBefore {
            let torn = torn_by(fate);
            let (ns, bytes) = self.program_work(ppn, page, Payload { data, spare });
            self.change_page(ppn, page, Payload { data, spare }, torn);
            if let Fate::LostInside { seed, .. } = fate {
                self.destroy_partner(ppn, seed);
            }
            self.operations += 1;
            count(&mut self.counters.page_programs, cause);
            let program = Work { ma: self.part.supply.program_ma, ns };
            self.charge(cause, Some(ppn), program, bytes);
            let op = || PhysicalOp::Program { ppn, data: data.into(), spare: spare.into() };
            self.diary.note(Some(cause), torn, op);
        }
        self.ended(fate, NandError::ProgramFailed(ppn))
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        self.check_power()?;
        self.check_block(pbn)?;
        let (wear, endurance) = (self.wear[pbn.index()], self.part.endurance_erases);
        let fate = self.fate(Some(cause), |state| state.erase_failures_ppm(wear, endurance));
        if fate != Fate::LostBefore {
            let torn = torn_by(fate);
            self.change_block(pbn, torn);
            self.operations += 1;
            count(&mut self.counters.block_erases, cause);
            let erase = Work { ma: self.part.supply.erase_ma, ns: self.part.timing.erase_ns };
            self.charge(cause, None, erase, 0);
            self.diary.note(Some(cause), torn, || PhysicalOp::Erase { pbn });
        }
        self.ended(fate, NandError::EraseFailed(pbn))
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.check_power()?;
        self.check_block_number(pbn)?;
        Ok(self.bad[pbn.index()])
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.check_power()?;
        self.check_block_number(pbn)?;
        let fate = self.fate(None, |_| 0);
        if fate != Fate::LostBefore {
            let torn = torn_by(fate);
            self.bad[pbn.index()] |= torn.is_none_or(|torn| torn.seed & 1 == 0);
            self.operations += 1;
            self.diary.note(None, torn, || PhysicalOp::MarkBad { pbn });
        }
        self.ended(fate, NandError::BadBlock(pbn))
    }

    fn begin_batch(&mut self) {
        self.batches += 1;
    }

    fn end_batch(&mut self) {
        assert!(self.batches > 0, "no batch was begun");
        self.batches -= 1;
        if self.batches == 0 {
            self.time += Nanos(self.channel_ns.iter().copied().max().unwrap_or(0));
            self.channel_ns.fill(0);
        }
    }
}
