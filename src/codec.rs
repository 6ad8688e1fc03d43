//! Fixed-width little-endian fields in byte slices, and the checksum of a page.
//!
//! Every multi-byte field on the chip is little-endian, except keys: keys are byte strings in `memcmp` order,
//! so an unsigned integer key is stored big-endian.

/// The bytes of a field: its place is checked once, and not byte by byte.
#[inline]
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

/// Reads a `u16` at `at`.
#[inline]
pub fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(field(bytes, at))
}

/// Writes a `u16` at `at`.
#[inline]
pub fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// Reads a `u32` at `at`.
#[inline]
pub fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(bytes, at))
}

/// Writes a `u32` at `at`.
#[inline]
pub fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Reads a 40-bit unsigned integer at `at` (a page sequence number).
#[inline]
pub fn get_u40(bytes: &[u8], at: usize) -> u64 {
    let [a, b, c, d, e] = field(bytes, at);
    u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
}

/// Writes the low 40 bits of `value` at `at`.
#[inline]
pub fn put_u40(bytes: &mut [u8], at: usize, value: u64) {
    assert!(value < 1 << 40, "a sequence number needs more than 40 bits");
    bytes[at..at + 5].copy_from_slice(&value.to_le_bytes()[..5]);
}

/// Reads a `u64` at `at`.
#[inline]
pub fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(field(bytes, at))
}

/// Writes a `u64` at `at`.
#[inline]
pub fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The numbers of a counter of so many bits that changes are given: those below this one. The last ones are
/// kept for what goes on when an index has no more of them and is read-only: moves, closes and mounts.
pub const fn numbers(bits: u32) -> u64 {
    (1 << bits) - (1 << (bits * 5 / 8))
}

/// The counters that start near their ends, where a test wants that: their bits, and in the lower 24 bits how
/// far before.
#[cfg(any(feature = "sim", test))]
static NEAR_END: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// For tests: whatever is formatted from now on starts its counters of so many bits `left` numbers, below
/// 2^24, before their ends.
#[cfg(any(feature = "sim", test))]
pub fn start_near_end(bits: u32, left: u32) {
    NEAR_END.store(bits << 24 | left & 0xff_ffff, core::sync::atomic::Ordering::Relaxed);
}

/// The number that a counter of so many bits starts with.
pub fn first_number(bits: u32, usual: u64) -> u64 {
    #[cfg(any(feature = "sim", test))]
    {
        let near_end = NEAR_END.load(core::sync::atomic::Ordering::Relaxed);
        if near_end >> 24 == bits {
            return numbers(bits) - u64::from(near_end & 0xff_ffff);
        }
    }
    let _ = bits;
    usual
}

/// CRC-32 (IEEE) over several slices in turn.
#[cfg(feature = "crc32fast")]
#[inline]
pub fn crc32(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// CRC-32 (IEEE) over several slices in turn.
#[cfg(not(feature = "crc32fast"))]
pub fn crc32(parts: &[&[u8]]) -> u32 {
    small_crc32(parts)
}

/// The effect of four bits on a CRC-32 once they have left it.
#[cfg(any(test, not(feature = "crc32fast")))]
const NIBBLES: [u32; 16] = {
    let mut effects = [0; 16];
    let mut nibble = 0;
    while nibble < 16 {
        let mut effect = nibble as u32;
        let mut bits = 4;
        while bits > 0 {
            effect = effect >> 1 ^ if effect & 1 == 1 { CRC_POLYNOMIAL } else { 0 };
            bits -= 1;
        }
        effects[nibble] = effect;
        nibble += 1;
    }
    effects
};

/// A CRC-32 by a table of 64 bytes: four bits at a time, where a table of 16 KiB would be a sixth of the
/// code.
#[cfg(any(test, not(feature = "crc32fast")))]
fn small_crc32(parts: &[&[u8]]) -> u32 {
    let step = |crc: u32| crc >> 4 ^ NIBBLES[(crc & 15) as usize];
    let bytes = parts.iter().copied().flatten();
    !bytes.fold(u32::MAX, |crc, &byte| step(step(crc ^ u32::from(byte))))
}

/// The polynomial of CRC-32 (IEEE), least significant bit first.
const CRC_POLYNOMIAL: u32 = 0xedb8_8320;

/// The four bytes, as a little-endian number, that must precede a message for it to have this CRC-32: all
/// steps of a CRC can be taken back.
pub fn crc32_before(crc: u32, message: &[&[u8]]) -> u32 {
    // The lowest bit that left was 1 exactly if the polynomial's highest bit is there.
    let back = |crc: u32| if crc >> 31 == 1 { (crc ^ CRC_POLYNOMIAL) << 1 | 1 } else { crc << 1 };
    let parts = core::iter::once(&[0; 4][..]).chain(message.iter().copied());
    let bytes = parts.rev().flat_map(|part| part.iter().rev());
    !bytes.fold(!crc, |crc, &byte| (0..8).fold(crc, |crc, _| back(crc)) ^ u32::from(byte))
}

/// Which bit of a message is wrong, counted from the lowest one of its first byte, if exactly one is:
/// `syndrome` is the difference (exclusive or) of its CRC-32 and that of the right message.
pub fn wrong_bit(syndrome: u32, message_bytes: usize) -> Option<usize> {
    // What a wrong bit does to the checksum depends only on the number of bits that follow it.
    let shift = |effect: &u32| Some(effect >> 1 ^ if effect & 1 == 1 { CRC_POLYNOMIAL } else { 0 });
    let mut effects = core::iter::successors(Some(CRC_POLYNOMIAL), shift).take(message_bytes * 8);
    let following = effects.position(|effect| effect == syndrome)?;
    debug_assert!(following < message_bytes * 8, "a bit beyond the message");
    Some(message_bytes * 8 - 1 - following)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn a_checksum_tells_the_first_four_bytes() {
        for first in [0, 1, 0x8000_0000, 0x1234_5678, u32::MAX] {
            let crc = crc32(&[&first.to_le_bytes(), b"1234", b"56789"]);
            assert_eq!(crc32_before(crc, &[b"1234", b"56789"]), first);
        }
    }

    #[test]
    fn the_small_table_gives_the_same_checksum() {
        assert_eq!(small_crc32(&[b"1234", b"56789"]), 0xcbf4_3926, "the check value of the catalogues");
        let mut rng = Rng::new(71);
        let bytes: [u8; 300] = core::array::from_fn(|_| rng.below(256) as u8);
        for end in 0..bytes.len() {
            let parts = bytes[..end].split_at(end / 3);
            assert_eq!(small_crc32(&[parts.0, parts.1]), crc32(&[&bytes[..end]]), "{end} bytes");
        }
    }
}
