//! Encodes a page as pieces of old pages: the committed page at its home, and others that follow it.
//!
//! A row that was deleted, shortened or moved leaves most bytes of its page unchanged or shifted. Such a page
//! takes some ten bytes for each row that changed.
//!
//! ```text
//! a piece   varint of (bytes x 4 + kind) | what it is of
//!   kind 0   bytes of its own         the bytes
//!   kind 1   zeros
//!   kind 2   bytes of the old page    varint of how far on they are there (zigzag)
//!            (beyond the old page: of the next one, where there are several)
//!   kind 3   the same, as far on as the piece of kind 2 before; at first in the same place
//! ```

use std::collections::BTreeSet;

/// Shortest piece worth encoding, in bytes: copied from another offset of the old page, then from the same
/// offset.
const MATCH_MIN: usize = 6;
const ALIGNED_MIN: usize = 4;

/// Bytes hashed to find an offset of the old page.
const KEY_BYTES: usize = 4;

/// Bits of the hash for one old page, then for several.
const TABLE_BITS: u32 = 12;
const LARGE_TABLE_BITS: u32 = 16;

/// Marks a hash without an offset of the old page.
const NONE: u32 = u32::MAX;

/// Encodes the page `new` as pieces of `old`, which is one old page or several. Returns `None` if that takes
/// more than `most` bytes.
pub(super) fn pack(old: &[u8], new: &[u8], most: usize) -> Option<Box<[u8]>> {
    let bits = if old.len() > 2 * new.len() { LARGE_TABLE_BITS } else { TABLE_BITS };
    let places = places(old, bits);
    let mut out = Vec::new();
    // Bytes that have no piece yet are from `own` on.
    let (mut at, mut own, mut ahead) = (0, 0, 0i64);
    while at < new.len() {
        let piece = best(old, &new[at..], at, ahead, (&places, bits));
        let Some((bytes, kind, far)) = piece else {
            at += 1;
            if out.len() + at - own > most {
                return None;
            }
            continue;
        };
        literal(&mut out, &new[own..at]);
        varint(&mut out, (bytes as u64) << 2 | kind);
        if kind == 2 {
            ahead = far;
            varint(&mut out, (far << 1 ^ far >> 63).cast_unsigned());
        }
        at += bytes;
        own = at;
    }
    literal(&mut out, &new[own..]);
    (out.len() <= most).then(|| out.into_boxed_slice())
}

/// Finds the longest piece with which `rest`, the rest of the new page, begins. Returns its bytes, its kind,
/// and how much later it begins in the old page.
fn best(
    old: &[u8],
    rest: &[u8],
    at: usize,
    ahead: i64,
    (places, bits): (&[u32], u32),
) -> Option<(usize, u64, i64)> {
    let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
    let same = |far: i64| {
        let from = usize::try_from(at as i64 + far).ok().and_then(|from| old.get(from..));
        from.map_or(0, |from| from.iter().zip(rest).take_while(|(a, b)| a == b).count())
    };
    let aligned = same(ahead);
    if aligned >= ALIGNED_MIN.max(zeros) {
        return Some((aligned, 3, ahead));
    }
    if zeros >= ALIGNED_MIN {
        return Some((zeros, 1, 0));
    }
    let place = rest.get(..KEY_BYTES).map_or(NONE, |key| places[hash(key, bits)]);
    let hashed = if place == NONE { 0 } else { i64::from(place) - at as i64 };
    let (found, far) = [0, hashed].map(|far| (same(far), far)).into_iter().max()?;
    (found >= MATCH_MIN).then_some((found, 2, far))
}

/// The first offset of the old page for each hash of the [`KEY_BYTES`] there.
fn places(old: &[u8], bits: u32) -> Vec<u32> {
    let mut places = vec![NONE; 1 << bits];
    for (at, key) in old.windows(KEY_BYTES).enumerate().rev() {
        places[hash(key, bits)] = at as u32;
    }
    places
}

fn hash(key: &[u8], bits: u32) -> usize {
    let key = key.iter().fold(0u32, |key, &byte| key << 8 | u32::from(byte));
    (key.wrapping_mul(0x9e37_79b1) >> (32 - bits)) as usize
}

fn literal(out: &mut Vec<u8>, bytes: &[u8]) {
    if !bytes.is_empty() {
        varint(out, (bytes.len() as u64) << 2);
        out.extend(bytes);
    }
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Decodes a page of `bytes` bytes from pieces and the old pages. Returns `None` if the pieces do not make
/// such a page.
pub(super) fn unpack(old: &[u8], pieces: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut new = Vec::with_capacity(bytes);
    let whole = walk(pieces, bytes, |piece| {
        match piece {
            Piece::Own(own) => new.extend(own),
            Piece::Zeros(zeros) => new.resize(new.len() + zeros, 0),
            Piece::Old(from, bytes) => new.extend(old.get(from..)?.get(..bytes)?),
        }
        Some(())
    });
    whole.map(|()| new)
}

/// Indexes of the old pages from which the pieces copy; the page's own old page is 0. A page has `bytes`
/// bytes.
pub(super) fn used(pieces: &[u8], bytes: usize) -> Option<BTreeSet<usize>> {
    let mut used = BTreeSet::new();
    let whole = walk(pieces, bytes, |piece| {
        if let Piece::Old(from, length) = piece {
            used.extend(from / bytes..(from + length).div_ceil(bytes));
        }
        Some(())
    });
    whole.map(|()| used)
}

/// A decoded piece: new bytes, a number of zeros, or a range of the old pages as its first byte and its
/// length.
enum Piece<'a> {
    Own(&'a [u8]),
    Zeros(usize),
    Old(usize, usize),
}

/// Visits the pieces of a page of `bytes` bytes. Returns `None` if they are damaged or `visit` returns
/// `None`.
fn walk<'a>(
    mut pieces: &'a [u8],
    bytes: usize,
    mut visit: impl FnMut(Piece<'a>) -> Option<()>,
) -> Option<()> {
    let (mut at, mut ahead) = (0, 0i64);
    while !pieces.is_empty() {
        let head = number(&mut pieces)?;
        let length = usize::try_from(head >> 2).ok().filter(|&length| length <= bytes - at)?;
        match head & 3 {
            0 => visit(Piece::Own(pieces.split_off(..length)?))?,
            1 => visit(Piece::Zeros(length))?,
            kind => {
                if kind == 2 {
                    let zigzag = number(&mut pieces)?;
                    ahead = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
                }
                let from = usize::try_from((at as i64).checked_add(ahead)?).ok()?;
                visit(Piece::Old(from, length))?;
            }
        }
        at += length;
    }
    (at == bytes).then_some(())
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let byte = *bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::rng::Rng;

    /// Returns a page of random bytes, and one made of parts of it, zeros and new bytes.
    fn pages(rng: &mut Rng, bytes: usize) -> (Vec<u8>, Vec<u8>) {
        let mut old = vec![0; bytes];
        rng.fill(&mut old);
        let mut new = old.clone();
        for _ in 0..rng.below(12) {
            let from = rng.below(bytes as u64) as usize;
            let to = rng.below(bytes as u64) as usize;
            let length = rng.below((bytes - from.max(to)) as u64 / 2 + 1) as usize;
            match rng.below(3) {
                0 => new[to..to + length].copy_from_slice(&old[from..from + length]),
                1 => new[to..to + length].fill(0),
                _ => rng.fill(&mut new[to..to + length.min(9)]),
            }
        }
        (old, new)
    }

    #[test]
    fn what_is_packed_is_found_again() {
        let mut rng = Rng::new(1);
        let mut small = 0;
        for round in 0..2_000 {
            let (old, new) = pages(&mut rng, [128, 512, 2048, 16_384][round % 4]);
            let packed = pack(&old, &new, 2 * old.len()).unwrap();
            assert_eq!(unpack(&old, &packed, old.len()).as_deref(), Some(&*new), "round {round}");
            let most = packed.len() - 1;
            assert_eq!(pack(&old, &new, most), None, "round {round}: more than it may take");
            small += u32::from(packed.len() < old.len() / 4);
        }
        assert!(small > 1_000, "{small} of 2000 are small");
        let zeros = pack(&[7; 2048], &[0; 2048], 10).unwrap();
        assert!(zeros.len() <= 3, "{zeros:?}");
    }

    #[test]
    fn a_page_is_made_of_several() {
        let mut rng = Rng::new(3);
        for round in 0..200 {
            let bytes = [512, 2048][round % 2];
            let mut old = vec![0; 20 * bytes];
            rng.fill(&mut old);
            let mut from = BTreeSet::new();
            let mut new = Vec::new();
            while new.len() < bytes {
                let (page, length) = (rng.below(20) as usize, 40 + rng.below(bytes as u64 / 2) as usize);
                let at = page * bytes + rng.below((bytes - length) as u64) as usize;
                new.extend_from_slice(&old[at..at + length]);
                from.insert(page);
            }
            new.truncate(bytes);
            let packed = pack(&old, &new, bytes / 3).unwrap();
            assert_eq!(unpack(&old, &packed, bytes), Some(new), "round {round}");
            assert!(used(&packed, bytes).unwrap().is_subset(&from), "round {round}");
        }
    }

    #[test]
    fn pieces_of_no_page_are_refused() {
        let mut rng = Rng::new(2);
        for _ in 0..20_000 {
            let (old, new) = pages(&mut rng, 256);
            let mut packed = pack(&old, &new, 512).unwrap().into_vec();
            let place = rng.below(packed.len() as u64) as usize;
            packed[place] ^= 1 << rng.below(8);
            packed.truncate(packed.len() - rng.below(2) as usize);
            assert!(unpack(&old, &packed, old.len()).is_none_or(|page| page.len() == old.len()));
            assert!(used(&packed, 100).is_none_or(|used| used.iter().all(|&at| at < 256)));
        }
    }
}
