//! One index on a Cortex-M4: 2,000 insertions, a reset, a mount from what is on the chip, and every record
//! again.
#![no_std]
#![no_main]

extern crate alloc;

mod chip;
mod heap;
mod report;
mod subject;

use chip::Chip;
use core::panic::PanicInfo;
use nandex::IndexError;

const RECORDS: u32 = 2000;

/// Keys in an order of their own for indexes that take any; every number below [`RECORDS`] once.
fn nth_key(i: u32) -> u32 {
    if subject::ASCENDING { i } else { i * 1_237 % RECORDS }
}

fn value_of(key: u32) -> u32 {
    key ^ 0x5eed_5eed
}

fn all_there(index: &mut subject::Index) -> Result<usize, IndexError> {
    let mut right = 0;
    for key in 0..RECORDS {
        right += usize::from(subject::get(index, key)? == Some(value_of(key)));
    }
    Ok(right)
}

fn run() -> Result<bool, IndexError> {
    // SAFETY: the first chip.
    let mut chip = unsafe { Chip::attach() };
    chip.erase_all();
    let mut index = subject::format(chip)?;
    for i in 0..RECORDS {
        subject::insert(&mut index, nth_key(i), value_of(nth_key(i)))?;
    }
    subject::sync(&mut index)?;
    let before = all_there(&mut index)?;
    report::number("heap_run", heap::peak());
    drop(index);
    // SAFETY: the chip before went with its index.
    let mut index = subject::mount(unsafe { Chip::attach() })?;
    let after = all_there(&mut index)?;
    report::number("before", before);
    report::number("after", after);
    Ok(before == RECORDS as usize && after == RECORDS as usize)
}

/// The vectors of the board's 32 interrupts, none of which is ever enabled. Without a table of its own part a
/// program has one of 240.
#[unsafe(link_section = ".vector_table.interrupts")]
#[unsafe(no_mangle)]
pub static __INTERRUPTS: [Option<unsafe extern "C" fn()>; 32] = [None; 32];

#[cortex_m_rt::entry]
fn main() -> ! {
    heap::init();
    let is_right = run().unwrap_or_default();
    report::number("heap_peak", heap::peak());
    report::number("stack_peak", report::stack_peak());
    report::end(is_right)
}

#[panic_handler]
fn on_panic(_: &PanicInfo<'_>) -> ! {
    report::number("panicked", 1);
    report::end(false)
}
