//! The heap of firmware: first fit with coalescing in an arena, or the functions of the caller.

use super::codes::{NANDEX_ERR_MEMORY, NANDEX_ERR_NULL, NANDEX_OK};
use super::pointers::read_struct;
use super::types::{nandex_allocator, nandex_memory};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use linked_list_allocator::Heap;

/// Least bytes of an arena.
const ARENA_BYTES_MIN: usize = 1024;

/// Where memory comes from.
enum Source {
    /// No memory was handed over yet.
    None,
    /// A block of the caller.
    Arena(Heap),
    /// Functions of the caller.
    Functions(nandex_allocator),
}

struct Inner {
    source: Source,
    used: usize,
    peak: usize,
}

/// A heap whose memory the caller hands over.
pub(super) struct CallerHeap(UnsafeCell<Inner>);

// SAFETY: the header asks that calls of a build without a system are made one at a time.
unsafe impl Sync for CallerHeap {}

impl CallerHeap {
    pub(super) const fn new() -> CallerHeap {
        CallerHeap(UnsafeCell::new(Inner { source: Source::None, used: 0, peak: 0 }))
    }

    /// Replaces a source of memory that has nothing in use.
    ///
    /// # Safety
    ///
    /// No other call is under way.
    unsafe fn replace(&self, make: impl FnOnce() -> Source) -> i32 {
        // SAFETY: the caller's promise: this is the only reference.
        let inner = unsafe { &mut *self.0.get() };
        if inner.used > 0 {
            return NANDEX_ERR_MEMORY;
        }
        *inner = Inner { source: make(), used: 0, peak: 0 };
        NANDEX_OK
    }

    /// See `nandex_use_arena`.
    ///
    /// # Safety
    ///
    /// The block is the heap's from now on, and no other call is under way.
    pub(super) unsafe fn arena(&self, memory: *mut c_void, bytes: usize) -> i32 {
        if memory.is_null() {
            return NANDEX_ERR_NULL;
        }
        if bytes < ARENA_BYTES_MIN {
            return NANDEX_ERR_MEMORY;
        }
        // SAFETY: the caller's promise.
        unsafe { self.replace(|| Source::Arena(Heap::new(memory.cast(), bytes))) }
    }

    /// See `nandex_use_allocator`.
    ///
    /// # Safety
    ///
    /// The pointer is null or points to an allocator, and no other call is under way.
    pub(super) unsafe fn allocator(&self, allocator: *const nandex_allocator) -> i32 {
        // SAFETY: the caller's promise.
        match unsafe { read_struct(allocator) } {
            Ok(nandex_allocator { alloc: None, .. } | nandex_allocator { free: None, .. }) => NANDEX_ERR_NULL,
            // SAFETY: the caller's promise.
            Ok(allocator) => unsafe { self.replace(|| Source::Functions(allocator)) },
            Err(code) => code,
        }
    }

    /// See `nandex_get_memory`.
    ///
    /// # Safety
    ///
    /// No other call is under way.
    pub(super) unsafe fn figures(&self) -> nandex_memory {
        // SAFETY: the caller's promise.
        let inner = unsafe { &*self.0.get() };
        let free_bytes = if let Source::Arena(heap) = &inner.source { heap.free() } else { 0 };
        nandex_memory {
            used_bytes: inner.used,
            peak_bytes: inner.peak,
            free_bytes,
            ..nandex_memory::default()
        }
    }
}

// SAFETY: memory comes from an allocator that keeps this contract: the arena's, or the caller's by the
// header.
unsafe impl GlobalAlloc for CallerHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: calls are made one at a time, and a source calls nothing of this library.
        let inner = unsafe { &mut *self.0.get() };
        let at = match &mut inner.source {
            Source::None => ptr::null_mut(),
            Source::Arena(heap) => heap.allocate_first_fit(layout).map_or(ptr::null_mut(), NonNull::as_ptr),
            // SAFETY: the caller's function, with the caller's context.
            Source::Functions(functions) => functions.alloc.map_or(ptr::null_mut(), |alloc| unsafe {
                alloc(functions.context, layout.size(), layout.align()).cast()
            }),
        };
        if !at.is_null() {
            inner.used += layout.size();
            inner.peak = inner.peak.max(inner.used);
        }
        at
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        let inner = unsafe { &mut *self.0.get() };
        inner.used = inner.used.saturating_sub(layout.size());
        match (&mut inner.source, NonNull::new(at)) {
            // SAFETY: this heap gave the block, with this layout.
            (Source::Arena(heap), Some(at)) => unsafe { heap.deallocate(at, layout) },
            (Source::Functions(functions), Some(at)) => {
                if let Some(free) = functions.free {
                    // SAFETY: the caller's function, with the caller's context.
                    unsafe { free(functions.context, at.as_ptr().cast(), layout.size(), layout.align()) };
                }
            }
            _ => {}
        }
    }
}

#[cfg(all(feature = "firmware", not(feature = "std")))]
pub(super) use global::{allocator, arena, figures, on_panic};

/// The heap and the panics of the whole program, in a build without a system.
#[cfg(all(feature = "firmware", not(feature = "std")))]
mod global {
    use super::{CallerHeap, NANDEX_OK, c_void, nandex_allocator, nandex_memory};
    use crate::error::Message;
    use crate::ffi::memory::nandex_panic_hook;
    use crate::ffi::pointers::write_struct;
    use core::cell::UnsafeCell;

    #[cfg_attr(not(test), global_allocator)]
    static HEAP: CallerHeap = CallerHeap::new();

    struct Hook(UnsafeCell<(nandex_panic_hook, *mut c_void)>);

    // SAFETY: as for the heap.
    unsafe impl Sync for Hook {}

    static HOOK: Hook = Hook(UnsafeCell::new((None, core::ptr::null_mut())));

    pub(in crate::ffi) unsafe fn arena(memory: *mut c_void, bytes: usize) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { HEAP.arena(memory, bytes) }
    }

    pub(in crate::ffi) unsafe fn allocator(allocator: *const nandex_allocator) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { HEAP.allocator(allocator) }
    }

    pub(in crate::ffi) unsafe fn figures(memory: *mut nandex_memory) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { write_struct(memory, &HEAP.figures()) }.err().unwrap_or(NANDEX_OK)
    }

    pub(in crate::ffi) unsafe fn on_panic(hook: nandex_panic_hook, context: *mut c_void) -> i32 {
        // SAFETY: calls are made one at a time.
        unsafe { *HOOK.0.get() = (hook, context) };
        NANDEX_OK
    }

    #[cfg(not(test))]
    #[panic_handler]
    fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
        let mut message = Message::new();
        message.set(info);
        // SAFETY: nothing else runs any more.
        let (hook, context) = unsafe { *HOOK.0.get() };
        if let Some(hook) = hook {
            // SAFETY: the caller's function, with the caller's context and a C string.
            unsafe { hook(context, message.bytes().as_ptr().cast()) };
        }
        loop {
            core::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::types::nandex_allocator;
    use std::vec::Vec;

    fn layout(bytes: usize, align: usize) -> Layout {
        Layout::from_size_align(bytes, align).unwrap()
    }

    #[test]
    fn an_arena_gives_all_back_as_one_block() {
        let heap = CallerHeap::new();
        let mut memory = std::vec![0u64; 1024];
        let at: *mut c_void = memory.as_mut_ptr().cast();
        // SAFETY: one thread; the memory outlives the heap.
        unsafe {
            assert!(heap.alloc(layout(8, 8)).is_null(), "no memory was handed over");
            assert_eq!(heap.arena(ptr::null_mut(), 8192), NANDEX_ERR_NULL);
            assert_eq!(heap.arena(at, 1023), NANDEX_ERR_MEMORY);
            assert_eq!(heap.arena(at, 8192), NANDEX_OK);
            let free = heap.figures().free_bytes;
            let blocks: Vec<*mut u8> = (1..=20).map(|i| heap.alloc(layout(i * 16, 8))).collect();
            assert!(blocks.iter().all(|block| !block.is_null() && block.is_aligned()));
            assert_eq!(heap.arena(at, 8192), NANDEX_ERR_MEMORY, "blocks are in use");
            assert!(heap.alloc(layout(8192, 8)).is_null(), "more than there is");
            let order = (0..20).map(|i| i * 7 % 20);
            order.for_each(|i| heap.dealloc(blocks[i], layout((i + 1) * 16, 8)));
            let figures = heap.figures();
            assert_eq!((figures.used_bytes, figures.peak_bytes, figures.free_bytes), (0, 210 * 16, free));
            let whole = layout(free - 64, 8);
            let block = heap.alloc(whole);
            assert!(!block.is_null(), "the free blocks did not grow together");
            heap.dealloc(block, whole);
        }
    }

    unsafe extern "C" fn give(context: *mut c_void, bytes: usize, align: usize) -> *mut c_void {
        // SAFETY: the test hands over a counter; the layout is one.
        unsafe {
            *context.cast::<usize>() += bytes;
            std::alloc::alloc(layout(bytes, align)).cast()
        }
    }

    unsafe extern "C" fn take(context: *mut c_void, memory: *mut c_void, bytes: usize, align: usize) {
        // SAFETY: as above, with a block that `give` gave.
        unsafe {
            *context.cast::<usize>() -= bytes;
            std::alloc::dealloc(memory.cast(), layout(bytes, align));
        }
    }

    #[test]
    fn the_functions_of_a_caller_get_what_they_gave() {
        let heap = CallerHeap::new();
        let mut used = 0usize;
        let struct_bytes = size_of::<nandex_allocator>();
        let context: *mut c_void = ptr::from_mut(&mut used).cast();
        let right = nandex_allocator { struct_bytes, context, alloc: Some(give), free: Some(take) };
        // SAFETY: one thread; the counter outlives the heap.
        unsafe {
            assert_eq!(heap.allocator(ptr::null()), NANDEX_ERR_NULL);
            assert_eq!(heap.allocator(&nandex_allocator { free: None, ..right }), NANDEX_ERR_NULL);
            assert_eq!(heap.allocator(&right), NANDEX_OK);
            let block = heap.alloc(layout(100, 16));
            assert_eq!((*context.cast::<usize>(), heap.figures().used_bytes), (100, 100));
            heap.dealloc(block, layout(100, 16));
            assert_eq!((*context.cast::<usize>(), heap.figures().used_bytes), (0, 0));
        }
    }
}
