//! The heap, and the most that was ever taken from it.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use embedded_alloc::LlffHeap;

const BYTES: usize = 192 * 1024;

struct Room(UnsafeCell<MaybeUninit<[u8; BYTES]>>);

// SAFETY: only the allocator ever touches it, through the pointer given to it once.
unsafe impl Sync for Room {}

#[unsafe(link_section = ".uninit.heap")]
static ROOM: Room = Room(UnsafeCell::new(MaybeUninit::uninit()));

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counted(LlffHeap);

#[global_allocator]
static HEAP: Counted = Counted(LlffHeap::empty());

// SAFETY: every call goes to the heap unchanged; the counters are no part of it. One thread, so loads and
// stores suffice.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.load(Relaxed) + layout.size();
        NOW.store(now, Relaxed);
        PEAK.store(PEAK.load(Relaxed).max(now), Relaxed);
        // SAFETY: the caller's contract is the same one.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.store(NOW.load(Relaxed) - layout.size(), Relaxed);
        // SAFETY: the pointer came from `alloc`.
        unsafe { self.0.dealloc(pointer, layout) }
    }
}

/// Gives the heap its memory: once, before anything is allocated.
pub fn init() {
    // SAFETY: `main` calls this once, first.
    unsafe { HEAP.0.init(ROOM.0.get() as usize, BYTES) }
}

/// The most bytes that were taken at one moment.
pub fn peak() -> usize {
    PEAK.load(Relaxed)
}
