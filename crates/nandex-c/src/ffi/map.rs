//! Maps: boxes in the plane with identifiers, found by windows and by nearness.

use super::chip::CallbackChip;
use super::codes::{NANDEX_ERR_NULL, NANDEX_ERR_PANIC, NANDEX_ERR_UNSOUND, NANDEX_OK};
use super::handle::{Guard, Worded, caught, live};
use super::pointers::{read_struct, write_struct};
use super::types::{nandex_box, nandex_chip, nandex_map_config, nandex_report, nandex_stats};
use crate::error::{Failure, Message};
use crate::map::{MapState, Plane, plane};
use crate::open::{Open, mounted_or_formatted, require_formattable};
use crate::state::Answer;
use alloc::boxed::Box;
use core::ffi::{c_char, c_void};
use core::ops::ControlFlow;
use core::ptr;
use nandex::IndexError;
use nandex::spatial::Relation;

type CMap = MapState<CallbackChip>;

impl Worded for CMap {
    fn message(&mut self) -> &mut Message {
        &mut self.message
    }
}

const KIND: u32 = 0x6d61_7000;

/// An R-tree on its chip, below it the page-mapping FTL: every change that a call has acknowledged survives a
/// power cut. One thread at a time may use it; which one does not matter.
pub struct nandex_map {
    guard: Guard<CMap, KIND>,
}

/// Runs work on the map behind a pointer.
///
/// # Safety
///
/// The pointer is null, or points to a map that `nandex_map_free` has not freed or to memory that can be
/// read.
unsafe fn with(at: *const nandex_map, work: impl FnOnce(&mut CMap) -> Answer) -> i32 {
    // SAFETY: the caller's promise.
    match unsafe { live(at, |map: &nandex_map| map.guard.is_live()) } {
        Ok(map) => map.guard.run(work),
        Err(code) => code,
    }
}

fn of(place: &nandex_box) -> Result<Plane, Failure> {
    plane([place.low_x, place.low_y], [place.high_x, place.high_y])
}

fn to_c(place: &Plane) -> nandex_box {
    let ([low_x, low_y], [high_x, high_y]) = (place.low(), place.high());
    nandex_box { low_x, low_y, high_x, high_y }
}

/// Syncs the chip after an acknowledged change.
fn kept(map: &CMap, answer: i32) -> Answer {
    map.chip.sync().map_err(IndexError::from)?;
    Ok(answer)
}

/// Makes a handle for a map on a chip; the chip is not touched yet. `nandex_map_format` or `nandex_map_mount`
/// comes next. Structs and answers are as for `nandex_new`.
///
/// # Safety
///
/// Each pointer is null or points to what its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_map_new(
    chip: *const nandex_chip,
    config: *const nandex_map_config,
    map: *mut *mut nandex_map,
    why: *mut *const c_char,
) -> i32 {
    if map.is_null() {
        return NANDEX_ERR_NULL;
    }
    // SAFETY: not null.
    unsafe { *map = ptr::null_mut() };
    // SAFETY: the caller's promise.
    let (chip, config) = match unsafe { read_struct(chip).and_then(|chip| Ok((chip, read_struct(config)?))) }
    {
        Ok(given) => given,
        Err(code) => return code,
    };
    let chip = match CallbackChip::new(chip) {
        Ok(chip) => chip,
        Err(failure) => {
            if !why.is_null() {
                // SAFETY: the caller's pointer, and not null.
                unsafe { *why = failure.fixed_words().as_ptr() };
            }
            return failure.code();
        }
    };
    let state = CMap::new(chip, config.over_provisioning_ppm, config.bad_blocks_ppm);
    // SAFETY: not null.
    unsafe { *map = Box::into_raw(Box::new(nandex_map { guard: Guard::new(state) })) };
    NANDEX_OK
}

/// Frees a handle, without closing. Null is ignored. Answers NANDEX_ERR_BUSY, and frees nothing, within a
/// callback.
///
/// # Safety
///
/// `map` is null or a handle, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_map_free(map: *mut nandex_map) -> i32 {
    if map.is_null() {
        return NANDEX_OK;
    }
    // SAFETY: the caller's promise.
    let retired =
        unsafe { live(map, |map: &nandex_map| map.guard.is_live()) }.and_then(|map| map.guard.retire());
    if let Err(code) = retired {
        return code;
    }
    // SAFETY: a live handle until now, which `nandex_map_new` took from a box.
    let owned = unsafe { Box::from_raw(map) };
    if caught(move || drop(owned)).is_some() { NANDEX_OK } else { NANDEX_ERR_PANIC }
}

/// Finds the map on the chip again, or makes an empty one on a chip that is blank, as `nandex_open`.
///
/// # Safety
///
/// `map` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_map_open(map: *mut nandex_map) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { with(map, |map| mounted_or_formatted(|how| map.open(how))) }
}

/// Makes an empty map on a chip: a blank one, or with the flag NANDEX_OVERWRITE any, which is erased. Else
/// NANDEX_ERR_NOT_BLANK; NANDEX_ERR_CONFIG for another flag. What was open in this handle is dropped.
///
/// # Safety
///
/// `map` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_map_format(map: *mut nandex_map, flags: u32) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        with(map, |map| {
            require_formattable(&mut map.chip, flags)?;
            map.open(Open::Format)
        })
    }
}

/// Finds the map on the chip again, after a close or after a power cut. What was open in this handle is
/// dropped.
///
/// # Safety
///
/// `map` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_map_mount(map: *mut nandex_map) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { with(map, |map| map.open(Open::Mount)) }
}

/// Enters a box with an identifier. The same may be there several times.
///
/// # Safety
///
/// `map` is null or a handle; `place` is null or points to a box.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_map_insert(map: *mut nandex_map, place: *const nandex_box, id: u64) -> i32 {
    // SAFETY: the caller's promise.
    let Some(place) = (unsafe { place.as_ref() }) else { return NANDEX_ERR_NULL };
    // SAFETY: the caller's promise.
    unsafe {
        with(map, |map| {
            let answer = map.insert(&of(place)?, id)?;
            kept(map, answer)
        })
    }
}

/// Takes a box with its identifier out, one of them if it is there several times; NANDEX_NOT_FOUND if it is
/// not there.
///
/// # Safety
///
/// `map` is null or a handle; `place` is null or points to a box.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_map_remove(map: *mut nandex_map, place: *const nandex_box, id: u64) -> i32 {
    // SAFETY: the caller's promise.
    let Some(place) = (unsafe { place.as_ref() }) else { return NANDEX_ERR_NULL };
    // SAFETY: the caller's promise.
    unsafe {
        with(map, |map| {
            let answer = map.remove(&of(place)?, id)?;
            kept(map, answer)
        })
    }
}

/// Called for each box that was found: 0 to go on, anything else to stop. It must not use the handle.
pub type nandex_visit_box =
    Option<unsafe extern "C" fn(context: *mut c_void, place: *const nandex_box, id: u64) -> i32>;

/// Visits every box that meets the window, edges included, in no certain order.
///
/// # Safety
///
/// `map` is null or a handle; `window` is null or points to a box.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_map_window(
    map: *mut nandex_map,
    window: *const nandex_box,
    visit: nandex_visit_box,
    context: *mut c_void,
) -> i32 {
    // SAFETY: the caller's promise.
    let (Some(window), Some(visit)) = (unsafe { window.as_ref() }, visit) else { return NANDEX_ERR_NULL };
    // SAFETY: the caller's promise.
    unsafe {
        with(map, |map| {
            map.tree()?.window(&of(window)?, Relation::Intersects, &mut |place, id| match visit(
                context,
                &to_c(place),
                id,
            ) {
                0 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            })?;
            Ok(NANDEX_OK)
        })
    }
}

/// Visits the `count` boxes nearest to a point, nearest first.
///
/// # Safety
///
/// `map` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_map_nearest(
    map: *mut nandex_map,
    x: i32,
    y: i32,
    count: usize,
    visit: nandex_visit_box,
    context: *mut c_void,
) -> i32 {
    let Some(visit) = visit else { return NANDEX_ERR_NULL };
    // SAFETY: the caller's promise.
    unsafe {
        with(map, |map| {
            map.tree()?.nearest(
                &[x, y],
                count,
                &mut |place, id, _| match visit(context, &to_c(place), id) {
                    0 => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                },
            )?;
            Ok(NANDEX_OK)
        })
    }
}

/// Syncs and closes; the handle can mount again, and that mount is quickest.
///
/// # Safety
///
/// `map` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_map_close(map: *mut nandex_map) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        with(map, |map| {
            let answer = map.close()?;
            kept(map, answer)
        })
    }
}

/// Walks the whole map and checks its invariants; as `nandex_check`.
///
/// # Safety
///
/// Each pointer is null or points to what its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_map_check(map: *mut nandex_map, report: *mut nandex_report) -> i32 {
    let mut found = nandex_report::default();
    let work = |map: &mut CMap| {
        let checked = map.tree()?.check()?;
        found.nodes = checked.nodes;
        found.records = checked.records;
        found.violations = checked.violations.len() as u64;
        match checked.violations.first() {
            None => Ok(NANDEX_OK),
            Some(first) => {
                map.message.set(format_args!("{first}"));
                Ok(NANDEX_ERR_UNSOUND)
            }
        }
    };
    // SAFETY: the caller's promise.
    let code = unsafe { with(map, work) };
    if report.is_null() || ![NANDEX_OK, NANDEX_ERR_UNSOUND].contains(&code) {
        return code;
    }
    // SAFETY: the caller's promise.
    unsafe { write_struct(report, &found) }.map_or_else(|wrong| wrong, |()| code)
}

/// Writes what the map tells about itself to `*stats`, whose `struct_bytes` the caller set; as
/// `nandex_get_stats`.
///
/// # Safety
///
/// Each pointer is null or points to what its type says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_map_get_stats(map: *mut nandex_map, stats: *mut nandex_stats) -> i32 {
    let mut told = nandex_stats::default();
    let work = |map: &mut CMap| {
        let counters = map.chip.counters();
        let tree = map.tree()?;
        let own = tree.stats();
        told = nandex_stats {
            ram_bytes: tree.ram_bytes(),
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
    match unsafe { with(map, work) } {
        // SAFETY: as above.
        NANDEX_OK => unsafe { write_struct(stats, &told) }.map_or_else(|wrong| wrong, |()| NANDEX_OK),
        code => code,
    }
}

/// Words of the last failure of this handle, until its next call; as `nandex_last_message`.
///
/// # Safety
///
/// `map` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandex_map_last_message(map: *const nandex_map) -> *const c_char {
    // SAFETY: the caller's promise.
    let map = unsafe { live(map, |map: &nandex_map| map.guard.is_live()) };
    map.ok().and_then(|map| map.guard.words()).unwrap_or(ptr::null())
}
