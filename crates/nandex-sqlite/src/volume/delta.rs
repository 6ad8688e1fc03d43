//! A page as what it has of the page in its place: pieces of it, zeros, and bytes of its own.
//!
//! A row that was deleted, shortened or moved leaves pages of which nearly all was there before, if elsewhere
//! in the page. Such a page takes some ten bytes for each row that changed.
//!
//! ```text
//! a piece   varint of (bytes x 4 + kind) | what it is of
//!   kind 0   bytes of its own         the bytes
//!   kind 1   zeros
//!   kind 2   bytes of the old page    varint of how far on they are there (zigzag)
//!   kind 3   the same, as far on as the piece of kind 2 before; at first in the same place
//! ```

/// The shortest piece of the old page from another place, and from the same one, that saves bytes.
const MATCH_MIN: usize = 6;
const ALIGNED_MIN: usize = 4;

/// Bytes by which a place of the old page is found.
const KEY_BYTES: usize = 4;
const TABLE_BITS: u32 = 12;

/// No place of the old page.
const NONE: u32 = u32::MAX;

/// The new page as pieces of the old one; `None` where that takes more than so many bytes.
pub(super) fn pack(old: &[u8], new: &[u8], most: usize) -> Option<Box<[u8]>> {
    if old.len() != new.len() {
        return None;
    }
    let places = places(old);
    let mut out = Vec::new();
    // Bytes that have no piece yet are from `own` on.
    let (mut at, mut own, mut ahead) = (0, 0, 0i64);
    while at < new.len() {
        let piece = best(old, &new[at..], at, ahead, &places);
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

/// The longest piece with which this rest of the new page begins: its bytes, kind, and how far on it is.
fn best(old: &[u8], rest: &[u8], at: usize, ahead: i64, places: &[u32]) -> Option<(usize, u64, i64)> {
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
    let place = rest.get(..KEY_BYTES).map_or(NONE, |key| places[hash(key)]);
    let hashed = if place == NONE { 0 } else { i64::from(place) - at as i64 };
    let (found, far) = [0, hashed].map(|far| (same(far), far)).into_iter().max()?;
    (found >= MATCH_MIN).then_some((found, 2, far))
}

/// The first place of the old page for each hash of the bytes there.
fn places(old: &[u8]) -> Vec<u32> {
    let mut places = vec![NONE; 1 << TABLE_BITS];
    for (at, key) in old.windows(KEY_BYTES).enumerate().rev() {
        places[hash(key)] = at as u32;
    }
    places
}

fn hash(key: &[u8]) -> usize {
    let key = key.iter().fold(0u32, |key, &byte| key << 8 | u32::from(byte));
    (key.wrapping_mul(0x9e37_79b1) >> (32 - TABLE_BITS)) as usize
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

/// Makes the new page of the old one; `None` where the pieces are not those of such a page.
pub(super) fn unpack(old: &[u8], mut pieces: &[u8]) -> Option<Vec<u8>> {
    let mut new = Vec::with_capacity(old.len());
    let mut ahead = 0i64;
    while !pieces.is_empty() {
        let head = number(&mut pieces)?;
        let bytes = usize::try_from(head >> 2).ok().filter(|&bytes| bytes <= old.len() - new.len())?;
        match head & 3 {
            0 => new.extend(pieces.split_off(..bytes)?),
            1 => new.resize(new.len() + bytes, 0),
            kind => {
                if kind == 2 {
                    let zigzag = number(&mut pieces)?;
                    ahead = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
                }
                let from = usize::try_from((new.len() as i64).checked_add(ahead)?).ok()?;
                new.extend(old.get(from..)?.get(..bytes)?);
            }
        }
    }
    (new.len() == old.len()).then_some(new)
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

    /// A page of random bytes, and one that has pieces of it, zeros and bytes of its own.
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
            assert_eq!(unpack(&old, &packed).as_deref(), Some(&*new), "round {round}");
            let most = packed.len() - 1;
            assert_eq!(pack(&old, &new, most), None, "round {round}: more than it may take");
            small += u32::from(packed.len() < old.len() / 4);
        }
        assert!(small > 1_000, "{small} of 2000 are small");
        let zeros = pack(&[7; 2048], &[0; 2048], 10).unwrap();
        assert!(zeros.len() <= 3, "{zeros:?}");
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
            assert!(unpack(&old, &packed).is_none_or(|page| page.len() == old.len()));
        }
    }
}
