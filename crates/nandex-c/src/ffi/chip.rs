//! A chip operated by C functions of the caller.

use super::codes::NANDEX_ERR_CONFIG;
use super::types::{
    NANDEX_CHIP_BAD, NANDEX_CHIP_CORRECTED, NANDEX_CHIP_FAILED, NANDEX_CHIP_OK, NANDEX_CHIP_RANDOM_ORDER,
    NANDEX_CHIP_UNCORRECTABLE, NANDEX_CHIP_WEAK, nandex_chip,
};
use crate::error::Failure;
use core::ffi::c_void;
use nandex::nand::ReadOutcome;
use nandex::{Cause, Geometry, Nand, NandError, Pbn, Ppn, Shared};

type Read = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, *mut u8, usize) -> i32;
type Program = unsafe extern "C" fn(*mut c_void, u32, *const u8, usize, *const u8, usize) -> i32;
type OnBlock = unsafe extern "C" fn(*mut c_void, u32) -> i32;

/// Reads a page of a blank chip.
///
/// # Safety
///
/// So many bytes are writable at both pointers.
unsafe extern "C" fn blank_read(
    _: *mut c_void,
    _: u32,
    data: *mut u8,
    data_bytes: usize,
    spare: *mut u8,
    spare_bytes: usize,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        data.write_bytes(0xff, data_bytes);
        spare.write_bytes(0xff, spare_bytes);
    }
    NANDEX_CHIP_OK
}

unsafe extern "C" fn blank_program(
    _: *mut c_void,
    _: u32,
    _: *const u8,
    _: usize,
    _: *const u8,
    _: usize,
) -> i32 {
    NANDEX_CHIP_OK
}

unsafe extern "C" fn blank_block(_: *mut c_void, _: u32) -> i32 {
    NANDEX_CHIP_OK
}

/// Operations that the chip did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) page_reads: u64,
    pub(super) page_programs: u64,
    pub(super) block_erases: u64,
    pub(super) corrected_reads: u64,
}

/// A chip behind the functions of a caller; clones are the same chip.
#[derive(Clone)]
pub(crate) struct CallbackChip {
    chip: nandex_chip,
    geometry: Geometry,
    read: Read,
    program: Program,
    erase: OnBlock,
    is_bad: OnBlock,
    mark_bad: OnBlock,
    counters: Shared<Counters>,
}

// SAFETY: the header asks of the functions and their context that the handle may be used by any thread, one
// at a time.
unsafe impl Send for CallbackChip {}

impl CallbackChip {
    /// The chip, if its shape is possible and no function is missing.
    pub(super) fn new(chip: nandex_chip) -> Result<CallbackChip, Failure> {
        let refused = |words: &'static core::ffi::CStr| Failure::Code(NANDEX_ERR_CONFIG, words);
        if chip.flags & !NANDEX_CHIP_RANDOM_ORDER != 0 {
            return Err(refused(c"chip.flags: unknown flags"));
        }
        let mut geometry =
            Geometry::new(chip.page_bytes, chip.spare_bytes, chip.pages_per_block, chip.blocks);
        geometry = geometry.with_programs_per_page_max(chip.programs_per_page.max(1));
        geometry.random_order = chip.flags & NANDEX_CHIP_RANDOM_ORDER != 0;
        if geometry.validate().is_err() {
            return Err(refused(
                c"chip: page_bytes, spare_bytes, pages_per_block, blocks or programs_per_page out of bounds",
            ));
        }
        let missing = refused(c"chip: read, program, erase, is_bad and mark_bad are all needed");
        match (chip.read, chip.program, chip.erase, chip.is_bad, chip.mark_bad) {
            (Some(read), Some(program), Some(erase), Some(is_bad), Some(mark_bad)) => Ok(CallbackChip {
                chip,
                geometry,
                read,
                program,
                erase,
                is_bad,
                mark_bad,
                counters: Shared::new(Counters::default()),
            }),
            _ => Err(missing),
        }
    }

    /// A chip of this shape that stores nothing, to measure the RAM of an index. It has the same type, so
    /// that no index is compiled twice.
    pub(super) fn blank(&self) -> CallbackChip {
        CallbackChip {
            read: blank_read,
            program: blank_program,
            erase: blank_block,
            is_bad: blank_block,
            mark_bad: blank_block,
            counters: Shared::new(Counters::default()),
            ..self.clone()
        }
    }

    /// The counters of the chip so far.
    pub(super) fn counters(&self) -> Counters {
        *self.counters.lock()
    }

    /// Calls the caller's `sync`, if there is one.
    pub(super) fn sync(&self) -> Result<(), NandError> {
        let Some(sync) = self.chip.sync else { return Ok(()) };
        // SAFETY: the caller's function, with the caller's context.
        let answer = unsafe { sync(self.chip.context) };
        if answer >= 0 { Ok(()) } else { Err(NandError::Device(answer)) }
    }

    fn on_block(&self, block: Pbn, call: OnBlock) -> Result<i32, NandError> {
        if block.0 >= self.geometry.blocks {
            return Err(NandError::BlockOutOfRange(block));
        }
        // SAFETY: the caller's function, with the caller's context.
        Ok(unsafe { call(self.chip.context, block.0) })
    }

    fn require_page(&self, page: Ppn, data: usize, spare: usize) -> Result<(), NandError> {
        if page.0 >= self.geometry.pages() {
            return Err(NandError::PageOutOfRange(page));
        }
        let fits = data <= self.geometry.page_bytes as usize && spare <= self.geometry.spare_bytes as usize;
        if fits { Ok(()) } else { Err(NandError::BufferTooLong(page)) }
    }
}

impl Nand for CallbackChip {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(
        &mut self,
        page: Ppn,
        _: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.require_page(page, data.len(), spare.len())?;
        let (read, context) = (self.read, self.chip.context);
        // SAFETY: the caller's function, with the caller's context; both buffers are ours and as long as
        // said.
        let answer =
            unsafe { read(context, page.0, data.as_mut_ptr(), data.len(), spare.as_mut_ptr(), spare.len()) };
        let mut counters = self.counters.lock();
        counters.page_reads += 1;
        counters.corrected_reads += u64::from(matches!(answer, NANDEX_CHIP_CORRECTED | NANDEX_CHIP_WEAK));
        match answer {
            NANDEX_CHIP_OK => Ok(ReadOutcome::CLEAN),
            NANDEX_CHIP_CORRECTED => Ok(ReadOutcome::CLEAN.with_corrected(1)),
            NANDEX_CHIP_WEAK => Ok(ReadOutcome::CLEAN.with_corrected(1).with_weakness(true)),
            NANDEX_CHIP_UNCORRECTABLE => Err(NandError::Uncorrectable(page)),
            answer => Err(NandError::Device(answer)),
        }
    }

    fn program(&mut self, page: Ppn, _: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.require_page(page, data.len(), spare.len())?;
        let (program, context) = (self.program, self.chip.context);
        // SAFETY: the caller's function, with the caller's context; both buffers are ours and as long as
        // said.
        let answer =
            unsafe { program(context, page.0, data.as_ptr(), data.len(), spare.as_ptr(), spare.len()) };
        self.counters.lock().page_programs += 1;
        match answer {
            NANDEX_CHIP_OK => Ok(()),
            NANDEX_CHIP_FAILED => Err(NandError::ProgramFailed(page)),
            answer => Err(NandError::Device(answer)),
        }
    }

    fn erase(&mut self, block: Pbn, _: Cause) -> Result<(), NandError> {
        match self.on_block(block, self.erase)? {
            NANDEX_CHIP_OK => {}
            NANDEX_CHIP_FAILED => return Err(NandError::EraseFailed(block)),
            NANDEX_CHIP_BAD => return Err(NandError::BadBlock(block)),
            answer => return Err(NandError::Device(answer)),
        }
        self.counters.lock().block_erases += 1;
        Ok(())
    }

    /// A block whose mark cannot be read is good: its first page was torn.
    fn is_bad(&mut self, block: Pbn) -> Result<bool, NandError> {
        match self.on_block(block, self.is_bad)? {
            NANDEX_CHIP_UNCORRECTABLE => Ok(false),
            answer if answer < 0 => Err(NandError::Device(answer)),
            answer => Ok(answer == NANDEX_CHIP_BAD),
        }
    }

    fn mark_bad(&mut self, block: Pbn) -> Result<(), NandError> {
        match self.on_block(block, self.mark_bad)? {
            NANDEX_CHIP_OK => Ok(()),
            NANDEX_CHIP_FAILED | NANDEX_CHIP_BAD => Err(NandError::BadBlock(block)),
            answer => Err(NandError::Device(answer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr;

    /// Returns the number to which the context points.
    ///
    /// # Safety
    ///
    /// The context points to an `i32`.
    unsafe extern "C" fn answer(context: *mut c_void, _: u32) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { *context.cast() }
    }

    #[test]
    fn each_answer_about_a_block_is_what_it_says() {
        let mut number = 0;
        let mut chip: nandex_chip = nandex_chip {
            struct_bytes: size_of::<nandex_chip>(),
            context: ptr::from_mut(&mut number).cast(),
            page_bytes: 512,
            spare_bytes: 16,
            pages_per_block: 8,
            blocks: 16,
            programs_per_page: 1,
            flags: 0,
            read: Some(blank_read),
            program: Some(blank_program),
            erase: Some(answer),
            is_bad: Some(answer),
            mark_bad: Some(answer),
            sync: None,
        };
        chip.context = ptr::from_mut(&mut number).cast();
        let block = Pbn(3);
        let answered = |answer: i32| {
            // SAFETY: nobody else has the number while no call is under way.
            unsafe { *chip.context.cast::<i32>() = answer };
            let Ok(mut chip) = CallbackChip::new(chip) else { panic!("a chip") };
            (chip.erase(block, Cause::Host), chip.is_bad(block), chip.mark_bad(block))
        };
        let gone = |answer| NandError::Device(answer);
        assert_eq!(answered(NANDEX_CHIP_OK), (Ok(()), Ok(false), Ok(())));
        let bad = Err(NandError::BadBlock(block));
        assert_eq!(answered(NANDEX_CHIP_BAD), (bad, Ok(true), bad));
        let failed = (Err(NandError::EraseFailed(block)), Err(gone(NANDEX_CHIP_FAILED)), bad);
        assert_eq!(answered(NANDEX_CHIP_FAILED), failed);
        let torn = Err(gone(NANDEX_CHIP_UNCORRECTABLE));
        assert_eq!(answered(NANDEX_CHIP_UNCORRECTABLE), (torn, Ok(false), torn));
        assert_eq!(answered(-77), (Err(gone(-77)), Err(gone(-77)), Err(gone(-77))));
    }
}
