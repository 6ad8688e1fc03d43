//! Packed records of plow: a prefix once, low bits of each key in its record, the high parts as one string of
//! bits from the end of the page down (Elias and Fano). Of larger records zeros are left out.

use nandex::ordered::RecordFormat;

/// Number of bytes before the prefix.
const FIXED: usize = 10;
/// Flag next to the width of the low bits: the records of the page are trimmed.
const TRIMMED: u8 = 128;
/// Number of bytes at the end of a key before which zeros are left out.
const KEY_END: usize = 2;

/// The unpacked records: key, and value or `None` for a tombstone.
pub(super) type Unpacked = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// The `width` bits from bit `at` on, the lowest bit of a byte first.
fn bits(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let mut word = 0u64;
    for i in 0..width {
        let byte = bytes.get((at + i) / 8)?;
        word |= u64::from(byte >> ((at + i) % 8) & 1) << i;
    }
    Some(word)
}

/// Number of bits that hold every number up to `most`.
fn bits_up_to(most: usize) -> usize {
    (usize::BITS - most.leading_zeros()) as usize
}

/// Takes the next `stored` bytes and fills them up to `all` bytes with zeros.
fn bytes(body: &[u8], at: &mut usize, stored: usize, all: usize) -> Option<Vec<u8>> {
    let mut taken = Vec::with_capacity(all);
    for _ in 0..stored {
        taken.push(bits(body, *at, 8)? as u8);
        *at += 8;
    }
    taken.resize(all, 0);
    (stored <= all).then_some(taken)
}

/// The records in a body; `None` if its bytes are invalid.
pub(super) fn unpack(body: &[u8], record: RecordFormat, count: usize, tombstones: bool) -> Option<Unpacked> {
    let (key, value) = (usize::from(record.key_bytes), usize::from(record.value_bytes));
    let (first, prefix) = (*body.first()?, usize::from(*body.get(1)?));
    let (trimmed, width) = (first & TRIMMED != 0, usize::from(first & !TRIMMED));
    if width > 63 || (prefix > 0 && prefix >= key) || body.len() < FIXED + prefix {
        return None;
    }
    let base = u64::from_le_bytes(body[2..FIXED].try_into().ok()?);
    let window = (key - prefix).min(8);
    let rest = key - prefix - window;
    let middle = if trimmed { rest.saturating_sub(KEY_END) } else { rest };
    let mut records = Vec::with_capacity(count.min(body.len() * 8));
    let (mut high, mut string, mut at) = (0u64, 0usize, 8 * (FIXED + prefix));
    for _ in 0..count {
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
        let is_tombstone = tombstones && bits(body, at, 1)? == 1;
        at += usize::from(tombstones);
        let number = base.wrapping_add((high << width) | bits(body, at, width)?);
        at += width;
        let (mut of_middle, mut of_value) = (middle, value);
        if trimmed {
            let is_whole = bits(body, at, 1)? == 1;
            at += 1;
            for stored in [&mut of_middle, &mut of_value].into_iter().filter(|_| !is_whole) {
                let length = bits_up_to(*stored);
                *stored = bits(body, at, length)? as usize;
                at += length;
            }
        }
        let mut of_key = body[FIXED..FIXED + prefix].to_vec();
        of_key.extend(&number.to_be_bytes()[8 - window..]);
        of_key.extend(bytes(body, &mut at, of_middle, middle)?);
        of_key.extend(bytes(body, &mut at, rest - middle, rest - middle)?);
        let held = bytes(body, &mut at, of_value, value)?;
        records.push((of_key, (!is_tombstone).then_some(held)));
    }
    Some(records)
}
