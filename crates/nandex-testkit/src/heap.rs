//! Counts bytes taken from the allocator, thread by thread.
//!
//! A test makes [`Heap`] its global allocator. [`measure`] then tells how many bytes a piece of code held at
//! its peak and kept at its end. [`uncounted`] runs code that does not count. The bytes are those requested,
//! without what the allocator adds. A peak within a budget also proves that no single allocation exceeded the
//! budget.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with the bytes of each thread counted.
#[derive(Debug)]
pub struct Heap;

/// The bytes that a piece of code took from the allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Peak of the bytes held, above those held before.
    pub peak: usize,
    /// Bytes still held at the end.
    pub kept: usize,
    /// How often it asked the allocator for memory, or for a piece to become larger or smaller.
    pub requests: usize,
}

thread_local! {
    // Signed: a thread may free what was not counted, or was taken by another.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static REQUESTS: Cell<usize> = const { Cell::new(0) };
    static UNCOUNTED: Cell<u32> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    if UNCOUNTED.get() == 0 {
        let now = NOW.get() + bytes;
        NOW.set(now);
        PEAK.set(PEAK.get().max(now));
        REQUESTS.set(REQUESTS.get() + usize::from(bytes > 0));
    }
}

/// A layout is never larger than `isize::MAX`.
fn bytes_of(layout: Layout) -> isize {
    layout.size() as isize
}

// SAFETY: every call goes to the system's allocator unchanged; the counters are plain cells that allocate
// nothing.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(bytes_of(layout));
        // SAFETY: the caller keeps to the contract of `alloc`, and it is the same one.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-bytes_of(layout));
        // SAFETY: the pointer came from `System` by one of the functions here.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(bytes_of(layout));
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new are both there while the bytes are copied, and an allocator on a small part has no
        // other way.
        count(size as isize);
        // SAFETY: the pointer came from `System`, and the caller vouches for the new size.
        let moved = unsafe { System.realloc(pointer, layout, size) };
        count(-bytes_of(layout));
        moved
    }
}

/// Runs code and counts the bytes that it holds on this thread. The counts are zero unless [`Heap`] is the
/// global allocator. Calls must not be nested.
pub fn measure<T>(run: impl FnOnce() -> T) -> (T, Held) {
    let before = NOW.get();
    PEAK.set(before);
    let requests = REQUESTS.get();
    let result = run();
    let above = |bytes: isize| usize::try_from(bytes - before).unwrap_or(0);
    (result, Held { peak: above(PEAK.get()), kept: above(NOW.get()), requests: REQUESTS.get() - requests })
}

/// True if this thread now holds more bytes than `mark`, which is then raised to that. Finds the operation in
/// which [`measure`] saw the peak.
pub fn rises_above(mark: &mut isize) -> bool {
    let rises = PEAK.get() > *mark;
    *mark = PEAK.get();
    rises
}

/// Runs code whose allocations and frees do not count.
pub fn uncounted<T>(run: impl FnOnce() -> T) -> T {
    UNCOUNTED.set(UNCOUNTED.get() + 1);
    let result = run();
    UNCOUNTED.set(UNCOUNTED.get() - 1);
    result
}
