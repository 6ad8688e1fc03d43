//! What is told to the host: by semihosting, without the formatting machinery, which would be a part of what
//! is measured.

use cortex_m_semihosting::{debug, hio};

unsafe extern "C" {
    static _stack_start: u32;
    static _stack_end: u32;
}

/// What `cortex-m-rt` paints the stack with.
const PAINT: u32 = 0xcccc_cccc;

/// Prints `name=value`.
pub fn number(name: &str, value: usize) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    let mut left = value;
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 || at == 0 {
            break;
        }
    }
    if let Ok(mut out) = hio::hstdout() {
        for part in [name.as_bytes(), b"=", digits.get(at..).unwrap_or_default(), b"\n"] {
            let _ = out.write_all(part);
        }
    }
}

/// Bytes of stack that were ever used.
pub fn stack_peak() -> usize {
    let (low, high) = (&raw const _stack_end, &raw const _stack_start);
    let words = (high as usize - low as usize) / 4;
    // SAFETY: the linker places the stack's memory between the two, and words that were never used hold the
    // paint.
    let untouched = (0..words).take_while(|&i| unsafe { low.add(i).read_volatile() } == PAINT).count();
    (words - untouched) * 4
}

/// Ends the run.
pub fn end(is_right: bool) -> ! {
    debug::exit(if is_right { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    loop {}
}
