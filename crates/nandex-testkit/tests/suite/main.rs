//! The integration tests of the crate as one program, which is linked once: a module for each subject.
//!
//! The heap is counted thread by thread, so that tests may run side by side.

mod drawn;
mod numbers;
mod ram;
#[path = "../../../../src/sizes.rs"]
mod sizes;
mod steady;

use nandex_testkit::Heap;

#[global_allocator]
static HEAP: Heap = Heap;
