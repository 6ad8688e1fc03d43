//! Rows of bits, one bit for each page or block, in words as wide as the processor's registers. A
//! microcontroller would need a routine to shift words of 64 bits.

use alloc::vec;
use alloc::vec::Vec;

/// Word of a row of bits.
pub type Word = usize;

pub(crate) const WORD_BITS: usize = Word::BITS as usize;

/// Returns `bits` clear bits, rounded up to groups of 64 for every width of a word, as on the medium.
pub fn clear(bits: usize) -> Vec<Word> {
    vec![0; bits.div_ceil(64) * (64 / WORD_BITS)]
}

/// Returns the word of a bit, and the word with this bit alone.
#[inline]
pub(crate) fn place(at: usize) -> (usize, Word) {
    (at / WORD_BITS, 1 << (at % WORD_BITS))
}

/// Returns true if a bit is set.
#[inline]
pub fn is_set(bits: &[Word], at: usize) -> bool {
    bits[at / WORD_BITS] >> (at % WORD_BITS) & 1 == 1
}

/// Sets a bit.
#[inline]
pub fn set(bits: &mut [Word], at: usize) {
    let (word, bit) = place(at);
    bits[word] |= bit;
}

/// Returns true if a bit is set at `at` or after it.
pub(crate) fn is_any_set_from(bits: &[Word], at: usize) -> bool {
    let (word, bit) = place(at);
    bits.iter().skip(word).enumerate().any(|(i, &word)| if i == 0 { word >= bit } else { word != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_found_at_or_after_its_place() {
        for at in [0, 1, 31, 32, 63, 64, 100, 127] {
            let mut bits = clear(128);
            set(&mut bits, at);
            assert!(is_set(&bits, at) && is_any_set_from(&bits, at) && is_any_set_from(&bits, 0));
            assert!(!is_any_set_from(&bits, at + 1), "{at}");
        }
    }
}
