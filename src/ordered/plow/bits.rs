//! Fields of any width in bytes: bits are counted from the lowest of the first byte.

/// The `width` bits from bit `at` on, at most 64.
pub(super) fn get_bits(bytes: &[u8], at: usize, width: u32) -> u64 {
    debug_assert!(width <= 64, "a field of {width} bits");
    let (first, shift) = (at / 8, at % 8);
    let end = (at + width as usize).div_ceil(8);
    let mut word = 0u128;
    for (i, &byte) in bytes[first..end].iter().enumerate() {
        word |= u128::from(byte) << (8 * i);
    }
    ((word >> shift) & ((1u128 << width) - 1)) as u64
}

/// Sets the `width` bits from bit `at` on, which were 0.
pub(super) fn put_bits(bytes: &mut [u8], at: usize, width: u32, value: u64) {
    debug_assert!(width == 64 || value >> width == 0, "{value} in {width} bits");
    let (first, shift) = (at / 8, at % 8);
    let end = (at + width as usize).div_ceil(8);
    let word = u128::from(value) << shift;
    for (i, byte) in bytes[first..end].iter_mut().enumerate() {
        *byte |= (word >> (8 * i)) as u8;
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
