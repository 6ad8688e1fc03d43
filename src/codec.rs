//! Fixed-width little-endian fields in byte slices, and the checksum of a page.
//!
//! Every multi-byte field on the chip is little-endian, except keys: keys are byte strings in `memcmp` order,
//! so an unsigned integer key is stored big-endian.

/// Copies the field as a whole: its bounds are checked once, not for each byte.
#[inline]
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

/// Reads a `u16` at byte `at`.
#[inline]
pub fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(field(bytes, at))
}

/// Writes a `u16` at byte `at`.
#[inline]
pub fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// Reads a `u32` at byte `at`.
#[inline]
pub fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(bytes, at))
}

/// Writes a `u32` at byte `at`.
#[inline]
pub fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Reads a 40-bit unsigned integer (the sequence number of a page) at byte `at`.
#[inline]
pub fn get_u40(bytes: &[u8], at: usize) -> u64 {
    let [a, b, c, d, e] = field(bytes, at);
    u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
}

/// Writes the low 40 bits of `value` at byte `at`.
#[inline]
pub fn put_u40(bytes: &mut [u8], at: usize, value: u64) {
    assert!(value < 1 << 40, "a sequence number needs more than 40 bits");
    bytes[at..at + 5].copy_from_slice(&value.to_le_bytes()[..5]);
}

/// Reads a `u64` at byte `at`.
#[inline]
pub fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(field(bytes, at))
}

/// Writes a `u64` at byte `at`.
#[inline]
pub fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Returns true if bytes read as if they were never programmed.
#[inline]
pub fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0xff)
}

/// Bound of the numbers that a counter of `bits` bits gives to changes. The numbers from this one on are kept
/// for moves, closes and mounts, which go on when an index has no number left and is read-only.
pub const fn numbers(bits: u32) -> u64 {
    (1 << bits) - (1 << (bits * 5 / 8))
}

#[cfg(any(feature = "testing", test))]
std::thread_local! {
    /// Set by tests, each for its thread: the width in bits of the counters that start near their end, and
    /// how many numbers before it.
    static NEAR_END: core::cell::Cell<(u32, u32)> = const { core::cell::Cell::new((0, 0)) };
}

/// For tests: from now on the formats of this thread start every counter of `bits` bits `left` numbers before
/// its end.
#[cfg(any(feature = "testing", test))]
pub fn start_near_end(bits: u32, left: u32) {
    NEAR_END.set((bits, left));
}

/// Returns the first number of a counter of `bits` bits: `usual`, unless a test has set another.
pub fn first_number(bits: u32, usual: u64) -> u64 {
    #[cfg(any(feature = "testing", test))]
    {
        let (width, left) = NEAR_END.get();
        if width == bits {
            return numbers(bits) - u64::from(left);
        }
    }
    let _ = bits;
    usual
}

/// Returns the CRC-32 (IEEE) of several slices in turn.
#[cfg(feature = "crc32fast")]
#[inline]
pub fn crc32(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// Returns the CRC-32 (IEEE) of several slices in turn.
#[cfg(not(feature = "crc32fast"))]
pub fn crc32(parts: &[&[u8]]) -> u32 {
    small_crc32(parts)
}

/// For each value of the lowest four bits of a CRC-32, the effect that they have once they are shifted out.
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

/// CRC-32 with a table of 64 bytes, four bits at a time. A table of 16 KiB would be a sixth of the code.
#[cfg(any(test, not(feature = "crc32fast")))]
fn small_crc32(parts: &[&[u8]]) -> u32 {
    let step = |crc: u32| crc >> 4 ^ NIBBLES[(crc & 15) as usize];
    let bytes = parts.iter().copied().flatten();
    !bytes.fold(u32::MAX, |crc, &byte| step(step(crc ^ u32::from(byte))))
}

/// Polynomial of CRC-32 (IEEE), least significant bit first.
const CRC_POLYNOMIAL: u32 = 0xedb8_8320;

/// Returns the four bytes, as a little-endian number, that give the message this CRC-32 if they precede it.
/// All steps of a CRC can be undone.
pub fn crc32_before(crc: u32, message: &[&[u8]]) -> u32 {
    // The bit that was shifted out was 1 exactly if the highest bit of the polynomial is set.
    let back = |crc: u32| if crc >> 31 == 1 { (crc ^ CRC_POLYNOMIAL) << 1 | 1 } else { crc << 1 };
    let parts = core::iter::once(&[0; 4][..]).chain(message.iter().copied());
    let bytes = parts.rev().flat_map(|part| part.iter().rev());
    !bytes.fold(!crc, |crc, &byte| (0..8).fold(crc, |crc, _| back(crc)) ^ u32::from(byte))
}

/// Returns the number of the wrong bit if exactly one bit of a message is wrong, from the lowest bit of its
/// first byte on. `syndrome` is the exclusive or of its CRC-32 and that of the right message.
pub fn wrong_bit(syndrome: u32, message_bytes: usize) -> Option<usize> {
    // The effect of a wrong bit on the checksum depends only on the number of bits that follow it.
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
