//! Appends: further words of a page that is programmed already, on parts that take them.
//!
//! On a part that does not overwrite, a word is programmed once, since the ECC of the part covers it. A word
//! is erased exactly if its bytes are 0xFF and it is not torn.

use super::block::{Block, Health, PageState, Payload, SEALED, blur, prefix};
use crate::nand::{Geometry, WordTiming};
use crate::rng::Rng;
use alloc::vec;
use alloc::vec::Vec;

/// A word that a power cut tore: a read that covers a byte of it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TornWord {
    pub(super) page: u16,
    /// First byte of the word in the page. The spare area follows the data.
    pub(super) byte: u32,
}

/// Columns of a page: bytes of the data area from `from` on, and the first of the spare area.
#[derive(Clone, Copy)]
pub(super) struct Covered {
    pub(super) from: usize,
    pub(super) data: usize,
    pub(super) spare: usize,
}

/// Returns true if the part programs each word once.
pub(super) const fn has_words(geometry: &Geometry) -> bool {
    geometry.appends() && !geometry.overwrites()
}

/// Returns true if the programmed page may take further words.
pub(super) fn is_open(geometry: &Geometry, state: PageState) -> bool {
    has_words(geometry) && state.programs != SEALED && state.health == Health::Good
}

impl Block {
    /// Returns the first byte of the program that lies in a word which is not erased.
    pub(super) fn byte_again(&self, geometry: &Geometry, page: usize, payload: Payload<'_>) -> Option<usize> {
        let stored = self.stored(geometry, self.pages[page])?;
        let word_bytes = geometry.append_bytes as usize;
        let is_taken = |byte: usize| {
            let word = byte / word_bytes * word_bytes;
            let is_torn = self.torn_words(page).any(|torn| torn.byte as usize == word);
            is_torn || stored[word..word + word_bytes].iter().any(|byte| *byte != 0xff)
        };
        let spare_from = geometry.page_bytes as usize;
        let bytes = payload.data.iter().enumerate();
        let bytes = bytes.chain(payload.spare.iter().enumerate().map(|(i, byte)| (spare_from + i, byte)));
        bytes.filter(|(_, byte)| **byte != 0xff).map(|(at, _)| at).find(|at| is_taken(*at))
    }

    /// Returns true if a read of these columns covers a torn word.
    pub(super) fn covers_torn_word(&self, geometry: &Geometry, page: usize, covered: Covered) -> bool {
        let meets = |torn: TornWord, from: usize, bytes: usize| {
            let word = torn.byte as usize..(torn.byte + u32::from(geometry.append_bytes)) as usize;
            bytes > 0 && word.start < from + bytes && from < word.end
        };
        self.torn_words(page).any(|torn| {
            meets(torn, covered.from, covered.data)
                || meets(torn, geometry.page_bytes as usize, covered.spare)
        })
    }

    pub(super) fn torn_words(&self, page: usize) -> impl Iterator<Item = TornWord> + '_ {
        self.torn.iter().copied().filter(move |torn| usize::from(torn.page) == page)
    }

    pub(super) fn forget_torn_words(&mut self, page: usize) {
        self.torn.retain(|torn| usize::from(torn.page) != page);
    }

    /// Programs the words up to one, which becomes unreadable.
    pub(super) fn tear_word(
        &mut self,
        geometry: &Geometry,
        page: usize,
        payload: Payload<'_>,
        rng: &mut Rng,
    ) {
        let word_bytes = geometry.append_bytes as usize;
        let mut raw = vec![0xff; geometry.raw_page_bytes()];
        let (data, spare) = raw.split_at_mut(geometry.page_bytes as usize);
        data[..payload.data.len()].copy_from_slice(payload.data);
        spare[..payload.spare.len()].copy_from_slice(payload.spare);
        let is_asked = |word: &usize| raw[*word..*word + word_bytes].iter().any(|byte| *byte != 0xff);
        let asked: Vec<usize> = (0..raw.len()).step_by(word_bytes).filter(is_asked).collect();
        if !asked.is_empty() {
            let word = asked[rng.below(asked.len() as u64) as usize];
            let blurred = blur(&raw[word..word + word_bytes], rng);
            raw[word..word + word_bytes].copy_from_slice(&blurred);
            raw[word + word_bytes..].fill(0xff);
            self.torn.push(TornWord { page: page as u16, byte: word as u32 });
        }
        let (data, spare) = raw.split_at(geometry.page_bytes as usize);
        self.program(geometry, page, Payload { data, spare });
    }
}

/// Returns the time of the words that a program changes in a page that is stored so or erased, in ns, and
/// their bytes.
pub(super) fn work(
    geometry: &Geometry,
    words: &WordTiming,
    stored: Option<&[u8]>,
    payload: Payload<'_>,
) -> (u64, usize) {
    let word_bytes = geometry.append_bytes as usize;
    let changes = |at: usize, new: u8| stored.map_or(0xff, |stored| stored[at]) & !new != 0;
    let spare_from = geometry.page_bytes as usize;
    let data = payload.data.iter().enumerate();
    let spare = payload.spare.iter().enumerate().map(|(at, new)| (spare_from + at, new));
    let (mut ns, mut count, mut in_page) = (0, 0, 0);
    let (mut last_word, mut last_page) = (usize::MAX, 0);
    for at in data.chain(spare).filter(|(at, new)| changes(*at, **new)).map(|(at, _)| at) {
        if at / word_bytes == last_word {
            continue;
        }
        last_word = at / word_bytes;
        let page = last_word * word_bytes / words.page_bytes as usize;
        if page != last_page {
            ns += words.program_ns(in_page);
            (last_page, in_page) = (page, 0);
        }
        in_page += 1;
        count += 1;
    }
    (ns + words.program_ns(in_page), count * word_bytes)
}

/// Returns a random part of the words to be programmed into a page that is programmed: the first bytes of
/// what is not 0xFF, never all of them.
pub(super) fn prefix_of_words<'a>(payload: Payload<'a>, rng: &mut Rng) -> (&'a [u8], &'a [u8]) {
    let (data, spare) = (written(payload.data), written(payload.spare));
    let asked = Payload { data: &payload.data[data.clone()], spare: &payload.spare[spare.clone()] };
    let (kept_data, kept_spare) = prefix(asked, rng);
    (&payload.data[..data.start + kept_data.len()], &payload.spare[..spare.start + kept_spare.len()])
}

/// The place of the bytes without 0xFF at the ends.
fn written(bytes: &[u8]) -> core::ops::Range<usize> {
    let is_set = |byte: &u8| *byte != 0xff;
    match (bytes.iter().position(is_set), bytes.iter().rposition(is_set)) {
        (Some(first), Some(last)) => first..last + 1,
        _ => 0..0,
    }
}
