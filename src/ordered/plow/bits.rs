//! Fields of any width in bytes. Bits are counted from the lowest bit of the first byte.

use core::ops::Range;

/// Bytes of a field, and the bit in the first byte at which the field begins.
fn place(at: usize, width: u32) -> (Range<usize>, usize) {
    (at / 8..(at + width as usize).div_ceil(8), at % 8)
}

/// Reads `width` bits, at most 64, from bit `at` on.
pub(super) fn get_bits(bytes: &[u8], at: usize, width: u32) -> u64 {
    debug_assert!(width <= 64, "a field of {width} bits");
    let (place, shift) = place(at, width);
    let Some((first, others)) = bytes[place].split_first() else { return 0 };
    // A field may touch nine bytes, but only its own bits of the ninth are needed.
    let others = others.iter().rev().fold(0, |word: u64, &byte| word << 8 | u64::from(byte));
    let word = others << (8 - shift) | u64::from(first >> shift);
    match width {
        0 => 0,
        _ => word & (u64::MAX >> (64 - width)),
    }
}

/// Writes `width` bits from bit `at` on. These bits must be 0 before.
pub(super) fn put_bits(bytes: &mut [u8], at: usize, width: u32, value: u64) {
    debug_assert!(width == 64 || value >> width == 0, "{value} in {width} bits");
    let (place, shift) = place(at, width);
    let Some((first, others)) = bytes[place].split_first_mut() else { return };
    *first |= (value as u8) << shift;
    let mut rest = value >> (8 - shift);
    for byte in others {
        *byte |= rest as u8;
        rest >>= 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn what_is_put_is_got() {
        let mut rng = Rng::new(1);
        let (mut bytes, mut fields, mut at) = ([0u8; 400], alloc::vec::Vec::new(), 0);
        while at < 400 * 8 - 64 {
            let width = rng.below(65) as u32;
            let value = if width == 64 { rng.next_u64() } else { rng.next_u64() & ((1 << width) - 1) };
            put_bits(&mut bytes, at, width, value);
            fields.push((at, width, value));
            at += width as usize;
        }
        assert!(fields.iter().all(|&(at, width, value)| get_bits(&bytes, at, width) == value));
    }
}
