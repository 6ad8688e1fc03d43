//! Indexes: made, opened, used and closed.

use super::chip::CallbackChip;
use super::codes::{NANDEX_ERR_NULL, NANDEX_ERR_PANIC, NANDEX_ERR_UNSOUND, NANDEX_OK};
use super::handle::{CState, caught, handle, nandex_index, run, with};
use super::pointers::{bytes, bytes_mut, read_struct, write_struct};
use super::types::{
    NANDEX_ABI_VERSION, nandex_change, nandex_chip, nandex_config, nandex_report, nandex_stats,
};
use crate::config::{Config, KINDS, Numbers};
use crate::error::{self, Failure};
use crate::open::{Open, mounted_or_formatted, require_formattable};
use crate::state::Answer;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char};
use core::ops::{Bound, ControlFlow};
use core::ptr;
use nandex::ordered::{Change, Direction};

/// Version of the interface of the library that is linked: compare its upper 16 bits with those of
/// `NANDEX_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn nandex_abi_version() -> u32 {
    NANDEX_ABI_VERSION
}

/// Name of a code, such as "NANDEX_ERR_FULL"; "unknown" for a number that is no code. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn nandex_error_name(code: i32) -> *const c_char {
    error::name(code).unwrap_or(c"unknown").as_ptr()
}

/// The number of an index (`NANDEX_INDEX_...`) by its name: "mu", "wandering", "vmtree", "bplus",
/// "bplus-dftl", "sbits" or "plow". 0 for null or another name.
///
/// # Safety
///
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_index_by_name(name: *const c_char) -> u32 {
    if name.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    KINDS.iter().find(|(_, known, _)| *known == name).map_or(0, |(number, ..)| *number)
}

fn configured(config: &nandex_config) -> Result<Config, error::Failure> {
    Config::new(Numbers {
        index: config.index,
        key_bytes: config.key_bytes,
        value_bytes: config.value_bytes,
        durability: config.durability,
        ram_bytes: config.ram_bytes,
        over_provisioning_ppm: config.over_provisioning_ppm,
        bad_blocks_ppm: config.bad_blocks_ppm,
        atomic_pages: config.atomic_pages,
        mapping_ram_bytes: config.mapping_ram_bytes,
    })
}

/// Reads the chip and the configuration. If a field is wrong, `why` gets a text that names it.
///
/// # Safety
///
/// As for [`nandex_new`].
unsafe fn given(
    chip: *const nandex_chip,
    config: *const nandex_config,
    why: *mut *const c_char,
) -> Result<(CallbackChip, Config), i32> {
    // SAFETY: the caller's promise.
    let (chip, config) = unsafe { (read_struct(chip)?, read_struct(config)?) };
    let made = configured(&config).and_then(|config| Ok((CallbackChip::new(chip)?, config)));
    made.map_err(|failure| {
        if !why.is_null() {
            // SAFETY: the caller's pointer, and not null.
            unsafe { *why = failure.fixed_words().as_ptr() };
        }
        failure.code()
    })
}

/// Makes a handle for an index on a chip; the chip is not touched yet. `nandex_format` or `nandex_mount`
/// comes next.
///
/// Both structs are copied; `chip->context` must live as long as the handle. `why` may be null: else, where a
/// field is wrong, it gets a static text that names it. Answers NANDEX_ERR_NULL, NANDEX_ERR_STRUCT or
/// NANDEX_ERR_CONFIG, and then `*index` is null.
///
/// # Safety
///
/// Each pointer is null or points to what its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_new(
    chip: *const nandex_chip,
    config: *const nandex_config,
    index: *mut *mut nandex_index,
    why: *mut *const c_char,
) -> i32 {
    if index.is_null() {
        return NANDEX_ERR_NULL;
    }
    // SAFETY: not null.
    unsafe { *index = ptr::null_mut() };
    // SAFETY: the caller's promise.
    let (chip, config) = match unsafe { given(chip, config, why) } {
        Ok(given) => given,
        Err(code) => return code,
    };
    let made = Box::new(nandex_index::new(CState::new(chip, config)));
    // SAFETY: not null.
    unsafe { *index = Box::into_raw(made) };
    NANDEX_OK
}

/// Frees a handle, without closing: like a power cut for what was not synced. Null is ignored. Answers
/// NANDEX_ERR_BUSY, and frees nothing, while cursors are open or within a callback.
///
/// # Safety
///
/// `index` is null or a handle, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_free(index: *mut nandex_index) -> i32 {
    if index.is_null() {
        return NANDEX_OK;
    }
    // SAFETY: the caller's promise.
    let retired = unsafe { handle(index) }.and_then(|index| index.retire());
    if let Err(code) = retired {
        return code;
    }
    // SAFETY: a live handle until now, which `nandex_new` took from a box.
    let owned = unsafe { Box::from_raw(index) };
    if caught(move || drop(owned)).is_some() { NANDEX_OK } else { NANDEX_ERR_PANIC }
}

/// Bytes of RAM that an index takes once it is formatted, found by formatting it on a chip that keeps
/// nothing: no callback is called, but as much memory is taken meanwhile. On the page-mapping FTL a mount
/// after a power cut takes more for a moment: 12 bytes for each page programmed since the last checkpoint.
///
/// # Safety
///
/// Each pointer is null or points to what its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_ram_needed(
    chip: *const nandex_chip,
    config: *const nandex_config,
    ram_bytes: *mut usize,
    why: *mut *const c_char,
) -> i32 {
    if ram_bytes.is_null() {
        return NANDEX_ERR_NULL;
    }
    // SAFETY: the caller's promise.
    let (chip, config) = match unsafe { given(chip, config, why) } {
        Ok(given) => given,
        Err(code) => return code,
    };
    match caught(|| CState::ram_needed(chip.blank(), &config)) {
        Some(Ok(needed)) => {
            // SAFETY: not null.
            unsafe { *ram_bytes = needed };
            NANDEX_OK
        }
        Some(Err(failure)) => failure.code(),
        None => NANDEX_ERR_PANIC,
    }
}

/// Finds the index on the chip again, as `nandex_mount`, or makes an empty one on a chip that is blank. No
/// other chip is changed: the answer says what is there. The first call of every start.
///
/// # Safety
///
/// `index` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_open(index: *mut nandex_index) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { with(index, |state| mounted_or_formatted(|how| state.open(how))) }
}

/// Makes an empty index on a chip: a blank one, or with the flag NANDEX_OVERWRITE any, which is erased. Else
/// NANDEX_ERR_NOT_BLANK; NANDEX_ERR_CONFIG for another flag. What was open in this handle is dropped.
///
/// # Safety
///
/// `index` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_format(index: *mut nandex_index, flags: u32) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        with(index, |state| {
            require_formattable(&mut state.chip, flags)?;
            state.open(Open::Format)
        })
    }
}

/// Finds the index on the chip again, after a close or after a power cut. What was open in this handle is
/// dropped.
///
/// # Safety
///
/// `index` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_mount(index: *mut nandex_index) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { with(index, |state| state.open(Open::Mount)) }
}

/// Syncs the chip after an acknowledged change, in the class *every operation*.
fn kept(state: &mut CState, answer: i32) -> Answer {
    if state.is_durable_now() {
        state.chip.sync().map_err(nandex::IndexError::from)?;
    }
    Ok(answer)
}

/// The bytes that a caller points to, or the code to answer.
macro_rules! given {
    ($slice:expr) => {
        // SAFETY: the caller's promise.
        match unsafe { $slice } {
            Ok(slice) => slice,
            Err(code) => return code,
        }
    };
}

/// Inserts a record, or gives an existing key a new value.
///
/// # Safety
///
/// `index` is null or a handle; the other pointers are null or point to as many bytes as is said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_put(
    index: *mut nandex_index,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
) -> i32 {
    let (key, value) = (given!(bytes(key, key_bytes)), given!(bytes(value, value_bytes)));
    // SAFETY: the caller's promise.
    unsafe {
        with(index, |state| {
            state.put(key, value)?;
            kept(state, NANDEX_OK)
        })
    }
}

/// Inserts a record whose key is not there yet; NANDEX_ERR_EXISTS if it is.
///
/// # Safety
///
/// As for `nandex_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_insert(
    index: *mut nandex_index,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
) -> i32 {
    let (key, value) = (given!(bytes(key, key_bytes)), given!(bytes(value, value_bytes)));
    // SAFETY: the caller's promise.
    unsafe {
        with(index, |state| {
            let answer = state.insert(key, value)?;
            kept(state, answer)
        })
    }
}

/// Copies the value of a key to `value`; NANDEX_NOT_FOUND, and `value` is as it was, if the key is not there.
///
/// # Safety
///
/// As for `nandex_put`; `value` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_get(
    index: *mut nandex_index,
    key: *const u8,
    key_bytes: usize,
    value: *mut u8,
    value_bytes: usize,
) -> i32 {
    let (key, value) = (given!(bytes(key, key_bytes)), given!(bytes_mut(value, value_bytes)));
    // SAFETY: the caller's promise.
    unsafe { with(index, |state| state.get(key, value)) }
}

/// Removes a key; NANDEX_NOT_FOUND if it is not there.
///
/// # Safety
///
/// As for `nandex_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_remove(index: *mut nandex_index, key: *const u8, key_bytes: usize) -> i32 {
    let key = given!(bytes(key, key_bytes));
    // SAFETY: the caller's promise.
    unsafe {
        with(index, |state| {
            let answer = state.remove(key)?;
            kept(state, answer)
        })
    }
}

/// Makes everything acknowledged survive a power cut.
///
/// # Safety
///
/// `index` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_sync(index: *mut nandex_index) -> i32 {
    let work = |state: &mut CState| {
        let answer = state.sync()?;
        state.chip.sync().map_err(nandex::IndexError::from)?;
        Ok(answer)
    };
    // SAFETY: the caller's promise.
    unsafe { with(index, work) }
}

/// Syncs and leaves the chip so that the next mount is cheapest. The handle stays, and can mount again.
///
/// # Safety
///
/// `index` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_close(index: *mut nandex_index) -> i32 {
    let work = |state: &mut CState| {
        let answer = state.close()?;
        state.chip.sync().map_err(nandex::IndexError::from)?;
        Ok(answer)
    };
    // SAFETY: the caller's promise.
    unsafe { with(index, work) }
}

/// Makes several changes, in their order, as one operation, of which a power cut leaves all or nothing. Takes
/// the RAM that the index needs for it, and no more afterwards. `most` is null or gets the most changes that
/// the index takes at once: 1 where it cannot make several as one, SIZE_MAX where only the pages count that
/// they write. NANDEX_ERR_BATCH_FULL, and nothing is done, if they are too many.
///
/// # Safety
///
/// `index` is null or a handle, `changes` null or as many changes as is said, whose pointers are keys and
/// values; `most` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_apply(
    index: *mut nandex_index,
    changes: *const nandex_change,
    count: usize,
    most: *mut usize,
) -> i32 {
    if changes.is_null() && count > 0 {
        return NANDEX_ERR_NULL;
    }
    let work = |state: &mut CState| {
        let record = state.record();
        if !most.is_null() {
            let batch_max = state.index()?.batch_max();
            // SAFETY: not null; the caller's promise.
            unsafe { *most = batch_max };
        }
        let mut batch = Vec::with_capacity(count);
        for i in 0..count {
            // SAFETY: the caller's promise.
            let change = unsafe { changes.add(i).read_unaligned() };
            let null = Failure::Code(NANDEX_ERR_NULL, c"a change without a key");
            // SAFETY: the caller's promise.
            let key = unsafe { bytes(change.key, record.key_bytes.into()) }.map_err(|_| null)?;
            batch.push(match change.value.is_null() {
                true => Change::remove(key),
                // SAFETY: not null; the caller's promise.
                false => Change::put(key, unsafe {
                    core::slice::from_raw_parts(change.value, record.value_bytes.into())
                }),
            });
        }
        state.apply(&batch)?;
        kept(state, NANDEX_OK)
    };
    // SAFETY: the caller's promise.
    unsafe { with(index, work) }
}

/// Does work that later operations would do: collects garbage, merges, erases, moves what became hard to
/// read. About `budget` pages are read or programmed, a block at a time at least. `left` is null or gets the
/// pages of such work that are left, about; 0 where nothing is worth doing.
///
/// # Safety
///
/// `index` is null or a handle, `left` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_maintain(index: *mut nandex_index, budget: u32, left: *mut u32) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { ahead(index, left, |state| state.maintain(budget)) }
}

/// Looks for pages that become hard to read, before their records are asked for, and moves them: reads up to
/// `budget` pages from where the last call ended. `left` is null or gets the pages left of the round; 0 at
/// its end. It takes a chip whose `read` answers NANDEX_CHIP_WEAK.
///
/// # Safety
///
/// As for `nandex_maintain`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_scrub(index: *mut nandex_index, budget: u32, left: *mut u32) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { ahead(index, left, |state| state.scrub(budget)) }
}

/// Runs work that answers a number.
///
/// # Safety
///
/// `index` is null or a handle, `left` null or writable.
unsafe fn ahead(
    index: *mut nandex_index,
    left: *mut u32,
    work: impl FnOnce(&mut CState) -> Result<u32, Failure>,
) -> i32 {
    let work = |state: &mut CState| {
        let pages = work(state)?;
        if !left.is_null() {
            // SAFETY: not null; the caller's promise.
            unsafe { *left = pages };
        }
        kept(state, NANDEX_OK)
    };
    // SAFETY: the caller's promise.
    unsafe { with(index, work) }
}

/// Opens a batch: puts, inserts and removes up to `nandex_batch_commit` are one operation, of which a power
/// cut leaves all or nothing. Gets and cursors see them. Syncs first. Only the B+-trees have these
/// batches, as large as `config.atomic_pages` (on DFTL: a block); `nandex_apply` takes changes of others too.
///
/// # Safety
///
/// `index` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_batch_begin(index: *mut nandex_index) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { with(index, CState::begin) }
}

/// Writes the batch; as durable then as any operation of the index. On a failure nothing of it was done.
///
/// # Safety
///
/// `index` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_batch_commit(index: *mut nandex_index) -> i32 {
    let work = |state: &mut CState| {
        let answer = state.commit()?;
        kept(state, answer)
    };
    // SAFETY: the caller's promise.
    unsafe { with(index, work) }
}

/// Drops the batch: the index is as it was before it.
///
/// # Safety
///
/// `index` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_batch_abandon(index: *mut nandex_index) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { with(index, CState::abandon) }
}

/// Writes what the index tells about itself to `*stats`, whose `struct_bytes` the caller set. Nothing is read
/// for it.
///
/// # Safety
///
/// Each pointer is null or points to what its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_get_stats(index: *mut nandex_index, stats: *mut nandex_stats) -> i32 {
    let mut told = nandex_stats::default();
    let work = |state: &mut CState| {
        let counters = state.chip.counters();
        let index = state.index()?;
        let own = index.stats();
        told = nandex_stats {
            ram_bytes: index.ram_bytes(),
            height: own.height,
            live_pages: own.live_pages,
            collections: own.collections,
            page_reads: counters.page_reads,
            page_programs: counters.page_programs,
            block_erases: counters.block_erases,
            corrected_reads: counters.corrected_reads,
            ..nandex_stats::default()
        };
        Ok(NANDEX_OK)
    };
    // SAFETY: the caller's promise.
    match unsafe { with(index, work) } {
        NANDEX_OK => given!(write_struct(stats, &told).map(|()| NANDEX_OK)),
        code => code,
    }
}

/// Walks the whole index and checks its invariants; NANDEX_ERR_UNSOUND if some are broken. `report` may be
/// null, else its `struct_bytes` was set by the caller.
///
/// # Safety
///
/// Each pointer is null or points to what its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_check(index: *mut nandex_index, report: *mut nandex_report) -> i32 {
    let mut found = nandex_report::default();
    let work = |state: &mut CState| {
        let report = state.check()?;
        found.nodes = report.nodes;
        found.records = report.records;
        found.violations = report.violations.len() as u64;
        let Some(first) = report.violations.first() else { return Ok(NANDEX_OK) };
        state.message.set(format_args!("{first}"));
        Ok(NANDEX_ERR_UNSOUND)
    };
    // SAFETY: the caller's promise.
    let code = unsafe { with(index, work) };
    if report.is_null() || ![NANDEX_OK, NANDEX_ERR_UNSOUND].contains(&code) {
        return code;
    }
    given!(write_struct(report, &found).map(|()| code))
}

/// Words of the last failure of this handle, until its next call; empty if there was none, null within a
/// callback or for what is no handle.
///
/// # Safety
///
/// `index` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_last_message(index: *const nandex_index) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { handle(index) }.ok().and_then(nandex_index::message).unwrap_or(ptr::null())
}

/// Called for each record of a scan: 0 to go on, anything else to stop.
pub type nandex_visit =
    Option<unsafe extern "C" fn(context: *mut core::ffi::c_void, key: *const u8, value: *const u8) -> i32>;

/// Visits the records with keys from `low` (included) to `high` (excluded) in ascending order; a null bound
/// is none. The callback must not use the handle; a cursor allows that. Both bounds have as many bytes as a
/// key.
///
/// # Safety
///
/// `index` is null or a handle; the bounds are null or point to as many bytes as a key has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_scan(
    index: *mut nandex_index,
    low: *const u8,
    high: *const u8,
    visit: nandex_visit,
    context: *mut core::ffi::c_void,
) -> i32 {
    let Some(visit) = visit else { return NANDEX_ERR_NULL };
    // SAFETY: the caller's promise.
    let index = given!(handle(index));
    run(index, |state| {
        let key_bytes = usize::from(state.record().key_bytes);
        let bound = |at: *const u8| {
            // SAFETY: the caller's promise.
            (!at.is_null()).then(|| unsafe { core::slice::from_raw_parts(at, key_bytes) })
        };
        let low = bound(low).map_or(Bound::Unbounded, Bound::Included);
        let high = bound(high).map_or(Bound::Unbounded, Bound::Excluded);
        state.index()?.range(low, high, Direction::Ascending, &mut |key, value| {
            // SAFETY: the caller's function, with the caller's context; both point to a record.
            match unsafe { visit(context, key.as_ptr(), value.as_ptr()) } {
                0 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        })?;
        Ok(NANDEX_OK)
    })
}
