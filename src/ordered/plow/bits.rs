//! Fields of any width in bytes. Bits are counted from the lowest bit of the first byte.

use core::ops::Range;

/// Bytes of a field, and the bit in the first byte at which the field begins.
fn place(at: usize, width: u32) -> (Range<usize>, usize) {
    (at / 8..(at + width as usize).div_ceil(8), at % 8)
}

/// Reads `width` bits, at most 64, from bit `at` on.
#[inline]
pub(super) fn get_bits(bytes: &[u8], at: usize, width: u32) -> u64 {
    debug_assert!(width <= 64, "a field of {width} bits");
    let (place, shift) = place(at, width);
    let own = match width {
        0 => return 0,
        _ => u64::MAX >> (64 - width),
    };
    let word = match bytes[place.start..].first_chunk() {
        Some(word) if place.len() <= 8 => u64::from_le_bytes(*word) >> shift,
        _ => get_bytes(&bytes[place], shift),
    };
    word & own
}

/// Bits of a field of nine bytes, or near the end of all bytes.
fn get_bytes(field: &[u8], shift: usize) -> u64 {
    let Some((first, others)) = field.split_first() else { return 0 };
    // A field may touch nine bytes, but only its own bits of the ninth are needed.
    let others = others.iter().rev().fold(0, |word: u64, &byte| word << 8 | u64::from(byte));
    others << (8 - shift) | u64::from(first >> shift)
}

/// Writes `width` bits from bit `at` on. These bits must be 0 before.
#[inline]
pub(super) fn put_bits(bytes: &mut [u8], at: usize, width: u32, value: u64) {
    flip_bits(bytes, at, width, value);
}

/// Writes `width` bits from bit `at` on, and returns those that were there.
pub(super) fn exchange_bits(bytes: &mut [u8], at: usize, width: u32, value: u64) -> u64 {
    let before = get_bits(bytes, at, width);
    flip_bits(bytes, at, width, before ^ value);
    before
}

/// Changes those of `width` bits from bit `at` on that are set in `value`.
#[inline]
fn flip_bits(bytes: &mut [u8], at: usize, width: u32, value: u64) {
    debug_assert!(width == 64 || value >> width == 0, "{value} in {width} bits");
    let (place, shift) = place(at, width);
    match bytes[place.start..].first_chunk_mut() {
        Some(word) if place.len() <= 8 => {
            *word = (u64::from_le_bytes(*word) ^ value << shift).to_le_bytes();
        }
        _ => flip_bytes(&mut bytes[place], shift, value),
    }
}

/// Changes bits of a field of nine bytes, or near the end of all bytes.
fn flip_bytes(field: &mut [u8], shift: usize, value: u64) {
    let Some((first, others)) = field.split_first_mut() else { return };
    *first ^= (value as u8) << shift;
    let mut rest = value >> (8 - shift);
    for byte in others {
        *byte ^= rest as u8;
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
        let (mut bytes, mut fields, mut at) = ([0u8; 400], alloc::vec::Vec::<(usize, u32, u64)>::new(), 0);
        while at < 400 * 8 - 64 {
            let width = rng.below(65) as u32;
            let value = if width == 64 { rng.next_u64() } else { rng.next_u64() & ((1 << width) - 1) };
            put_bits(&mut bytes, at, width, value);
            fields.push((at, width, value));
            at += width as usize;
        }
        assert!(fields.iter().all(|&(at, width, value)| get_bits(&bytes, at, width) == value));
        for i in 0..fields.len() {
            let (at, width, before) = fields[i];
            fields[i].2 = rng.next_u64() & before;
            assert_eq!(exchange_bits(&mut bytes, at, width, fields[i].2), before);
            assert!(fields.iter().all(|&(at, width, value)| get_bits(&bytes, at, width) == value));
        }
    }
}
