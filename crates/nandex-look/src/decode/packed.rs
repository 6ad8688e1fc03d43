//! Packed records of plow: a prefix once, low bits of each key in its record, the high parts as one string of
//! bits from the end of the page down (Elias and Fano).

use nandex::ordered::RecordFormat;

/// Bytes before the prefix.
const FIXED: usize = 10;

/// Records that were packed: key, and value or None for a tombstone.
pub(super) type Unpacked = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// The `width` bits from bit `at` on, the lowest of a byte first.
fn bits(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let mut word = 0u64;
    for i in 0..width {
        let byte = bytes.get((at + i) / 8)?;
        word |= u64::from(byte >> ((at + i) % 8) & 1) << i;
    }
    Some(word)
}

/// The records in a body, if its bytes make sense.
pub(super) fn unpack(body: &[u8], record: RecordFormat, count: usize, tombstones: bool) -> Option<Unpacked> {
    let (key, value) = (usize::from(record.key_bytes), usize::from(record.value_bytes));
    let (width, prefix) = (usize::from(*body.first()?), usize::from(*body.get(1)?));
    if width > 63 || (prefix > 0 && prefix >= key) || body.len() < FIXED + prefix {
        return None;
    }
    let base = u64::from_le_bytes(body[2..FIXED].try_into().ok()?);
    let window = (key - prefix).min(8);
    let rest = key - prefix - window;
    let record_bits = usize::from(tombstones) + width + 8 * (rest + value);
    let mut records = Vec::with_capacity(count.min(body.len() * 8));
    let (mut high, mut string) = (0u64, 0usize);
    for i in 0..count {
        // Zeros are steps upwards, a one is a record; the first bit is the highest of the last byte.
        loop {
            let byte = body.get(body.len().checked_sub(1 + string / 8)?)?;
            let bit = byte >> (7 - string % 8) & 1;
            string += 1;
            if bit == 1 {
                break;
            }
            high += 1;
        }
        let mut at = 8 * (FIXED + prefix) + i * record_bits;
        let is_tombstone = tombstones && bits(body, at, 1)? == 1;
        at += usize::from(tombstones);
        let number = base.wrapping_add((high << width) | bits(body, at, width)?);
        at += width;
        let mut bytes = body[FIXED..FIXED + prefix].to_vec();
        bytes.extend(&number.to_be_bytes()[8 - window..]);
        for _ in 0..rest {
            bytes.push(bits(body, at, 8)? as u8);
            at += 8;
        }
        let mut held = Vec::with_capacity(value);
        for _ in 0..value {
            held.push(bits(body, at, 8)? as u8);
            at += 8;
        }
        records.push((bytes, (!is_tombstone).then_some(held)));
    }
    Some(records)
}
