//! Valid pages of each block.
//!
//! * [`Validity::Bits`]: a bit for each page.
//! * [`Validity::Counts`]: the number of valid pages of each block, and the bits of a few blocks, the *known*
//!   ones. These are the block opened last, and the blocks that the owner asks about: it learns their valid
//!   pages from the nodes that lead to them (as the mu-Tree paper, section 5.1, keeps bits for candidates
//!   only). In any other block each page may be valid, unless the count is 0.
//!
//! Invariants of counts
//! - T4: no fewer pages are counted than are valid. After a mount there may be more, until the owner looks.
//! - T5: the bits of a known block are those of its valid pages.

use crate::bits::{self, WORD_BITS, Word};
use crate::nand::Geometry;
use crate::units::{Pbn, Ppn};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Form in which valid pages are remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum Validity {
    /// A bit for each page.
    #[default]
    Bits,
    /// The number of valid pages of each block, and bits for a few blocks.
    Counts,
}

impl Validity {
    /// True if this build has the form: counts need the feature `in-parts`.
    pub(crate) fn is_built(self) -> bool {
        cfg!(feature = "in-parts") || self == Validity::Bits
    }
}

/// Valid pages of all blocks.
#[derive(Clone, Debug)]
pub(super) enum Valid {
    /// A bit for each page.
    Bits(Vec<Word>),
    /// A number for each block, and bits for a few.
    #[cfg(feature = "in-parts")]
    Counts(Box<Counts>),
}

impl Valid {
    pub(super) fn none(geometry: Geometry, validity: Validity) -> Valid {
        match validity {
            #[cfg(feature = "in-parts")]
            Validity::Counts => Valid::Counts(Box::new(Counts::none(geometry))),
            _ => Valid::Bits(bits::clear(geometry.pages() as usize)),
        }
    }

    /// Counts, if valid pages are counted.
    #[inline]
    pub(super) fn counts(&self) -> Option<&Counts> {
        match self {
            #[cfg(feature = "in-parts")]
            Valid::Counts(counts) => Some(counts),
            Valid::Bits(_) => None,
        }
    }

    #[inline]
    pub(super) fn counts_mut(&mut self) -> Option<&mut Counts> {
        match self {
            #[cfg(feature = "in-parts")]
            Valid::Counts(counts) => Some(counts),
            Valid::Bits(_) => None,
        }
    }

    /// Bits of all pages; empty if valid pages are counted.
    #[inline]
    pub(super) fn bits(&self) -> &[Word] {
        match self {
            Valid::Bits(bits) => bits,
            #[cfg(feature = "in-parts")]
            Valid::Counts(_) => &[],
        }
    }

    #[inline]
    pub(super) fn bits_mut(&mut self) -> &mut [Word] {
        match self {
            Valid::Bits(bits) => bits,
            #[cfg(feature = "in-parts")]
            Valid::Counts(_) => &mut [],
        }
    }

    /// Bytes of RAM on a chip of this geometry, including the second set of counts that a new count needs.
    pub(super) fn ram_bytes(geometry: Geometry, validity: Validity) -> usize {
        match validity {
            #[cfg(feature = "in-parts")]
            Validity::Counts => Counts::ram_bytes(geometry),
            _ => (geometry.pages() as usize).div_ceil(WORD_BITS) * size_of::<Word>(),
        }
    }

    /// Number of valid pages of a block.
    #[inline]
    pub(super) fn count(&self, geometry: Geometry, pbn: Pbn) -> u32 {
        match self.counts() {
            Some(counts) => counts.count(pbn),
            None => count_bits(geometry, self.bits(), pbn),
        }
    }

    /// True if a page is valid; in a block that is not known, true if it may be.
    #[inline]
    pub(super) fn contains(&self, ppn: Ppn) -> bool {
        match self.counts() {
            Some(counts) => counts.contains(ppn),
            None => bits::is_set(self.bits(), ppn.index()),
        }
    }

    /// Makes a page valid. False if all pages of its block counted as valid already.
    #[inline]
    pub(super) fn insert(&mut self, ppn: Ppn) -> bool {
        if let Some(counts) = self.counts_mut() {
            return counts.change(ppn, true);
        }
        let (word, bit) = bits::place(ppn.index());
        let bits = self.bits_mut();
        assert!(bits[word] & bit == 0, "T2: {ppn} is valid already");
        bits[word] |= bit;
        true
    }

    /// Makes a valid page invalid.
    #[inline]
    pub(super) fn remove(&mut self, ppn: Ppn) {
        if let Some(counts) = self.counts_mut() {
            counts.change(ppn, false);
            return;
        }
        let (word, bit) = bits::place(ppn.index());
        let bits = self.bits_mut();
        assert!(bits[word] & bit != 0, "T2: {ppn} is not valid");
        bits[word] &= !bit;
    }

    /// First valid page of a block from page `from` on.
    pub(super) fn next(&self, geometry: Geometry, pbn: Pbn, from: u32) -> Option<Ppn> {
        debug_assert!(from <= geometry.pages_per_block, "page {from} of {pbn}");
        if let Some(counts) = self.counts() {
            let mut rest = (from..geometry.pages_per_block).map(|page| geometry.page_at(pbn, page));
            return rest.find(|&ppn| counts.contains(ppn));
        }
        let bits = self.bits();
        let end = geometry.page_at(pbn, 0).0 + geometry.pages_per_block;
        let mut at = geometry.page_at(pbn, from).0;
        while at < end {
            let rest = bits[at as usize / WORD_BITS] >> (at % Word::BITS);
            if rest != 0 {
                let found = at + rest.trailing_zeros();
                return (found < end).then_some(Ppn(found));
            }
            at = (at / Word::BITS + 1) * Word::BITS;
        }
        None
    }
}

/// The owner asks about at most this many blocks at a time.
const ASKED_MAX: u32 = 32;

/// Mark of an entry of `known` without a block.
const NONE: u32 = u32::MAX;

/// Entry of `known` for the block opened last. The entries behind it are the blocks asked about.
const OPENED: usize = 0;

/// Numbers of valid pages, and the bits of the known blocks.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    geometry: Geometry,
    /// One byte for each block, or two if a block has more than 255 pages.
    counts: Vec<u8>,
    known: Vec<u32>,
    /// Bits of each known block.
    bits: Vec<Word>,
    /// True while the owner is being asked: the bits of the blocks asked about are not complete yet.
    is_asking: bool,
    /// Counts of a new count in progress; empty at other times.
    anew: Vec<u8>,
}

impl Counts {
    fn none(geometry: Geometry) -> Counts {
        let known = OPENED + 1 + asked(geometry);
        Counts {
            geometry,
            counts: vec![0; geometry.blocks as usize * count_bytes(geometry)],
            known: vec![NONE; known],
            bits: vec![0; known * words(geometry)],
            is_asking: false,
            anew: Vec::new(),
        }
    }

    #[cfg(feature = "in-parts")]
    fn ram_bytes(geometry: Geometry) -> usize {
        let known = (OPENED + 1 + asked(geometry)) * (size_of::<u32>() + words(geometry) * size_of::<Word>());
        size_of::<Counts>() + 2 * geometry.blocks as usize * count_bytes(geometry) + known
    }

    #[inline]
    pub(super) fn count(&self, pbn: Pbn) -> u32 {
        count_in(self.geometry, &self.counts, pbn)
    }

    /// Sets the number of valid pages of a block, at most all of them.
    pub(super) fn set_count(&mut self, pbn: Pbn, count: u32) {
        set_count_in(self.geometry, &mut self.counts, (pbn, count));
    }

    #[inline]
    fn contains(&self, ppn: Ppn) -> bool {
        let pbn = self.geometry.block_of(ppn);
        match self.place_of(pbn) {
            Some(place) => bits::is_set(&self.bits, self.bit_of(place, ppn)),
            None => self.count(pbn) > 0,
        }
    }

    /// Makes a page valid or invalid. True if the count changed.
    fn change(&mut self, ppn: Ppn, is_valid: bool) -> bool {
        let pbn = self.geometry.block_of(ppn);
        if let Some(place) = self.place_of(pbn) {
            let (word, bit) = bits::place(self.bit_of(place, ppn));
            assert!((self.bits[word] & bit == 0) == is_valid, "T5: valid before ({is_valid}): {ppn}");
            self.bits[word] ^= bit;
        }
        let count = self.count(pbn);
        assert!(is_valid || count > 0, "T4: {ppn} is valid and was not counted");
        self.set_count(pbn, if is_valid { count + 1 } else { count - 1 });
        self.count(pbn) != count
    }

    /// Index of a known block, if its bits are complete.
    fn place_of(&self, pbn: Pbn) -> Option<usize> {
        let known = if self.is_asking { &self.known[..=OPENED] } else { &self.known[..] };
        known.iter().position(|&block| block == pbn.0)
    }

    fn bit_of(&self, place: usize, ppn: Ppn) -> usize {
        place * words(self.geometry) * WORD_BITS + self.geometry.page_in_block(ppn) as usize
    }

    fn clear_place(&mut self, place: usize, block: u32) {
        let words = words(self.geometry);
        self.bits[place * words..(place + 1) * words].fill(0);
        self.known[place] = block;
    }

    /// True if it is known which pages of a block are valid.
    pub(super) fn knows(&self, pbn: Pbn) -> bool {
        self.count(pbn) == 0 || self.place_of(pbn).is_some()
    }

    /// Notes that a block was opened and has no valid page yet.
    pub(super) fn open(&mut self, pbn: Pbn) {
        debug_assert_eq!(self.count(pbn), 0, "T2: {pbn} was opened and has valid pages");
        self.forget(pbn);
        self.clear_place(OPENED, pbn.0);
    }

    /// Forgets the bits of a block.
    pub(super) fn forget(&mut self, pbn: Pbn) {
        let known = self.known.iter_mut();
        known.filter(|block| **block == pbn.0).for_each(|block| *block = NONE);
    }

    /// Number of blocks that are asked about at a time.
    pub(super) fn asked_at_once(&self) -> usize {
        asked(self.geometry)
    }

    /// Begins to ask about these blocks.
    pub(super) fn ask(&mut self, blocks: &[Pbn]) {
        debug_assert!(blocks.len() <= self.asked_at_once(), "{} blocks are asked about", blocks.len());
        self.is_asking = true;
        for at in 0..self.asked_at_once() {
            self.clear_place(OPENED + 1 + at, blocks.get(at).map_or(NONE, |pbn| pbn.0));
        }
    }

    /// Blocks whose valid pages were asked for and are known.
    pub(super) fn asked_about(&self) -> impl Iterator<Item = Pbn> + '_ {
        self.known[OPENED + 1..].iter().filter(|&&block| block != NONE).map(|&block| Pbn(block))
    }

    /// True if a block is among those asked about.
    pub(super) fn asks_about(&self, pbn: Pbn) -> bool {
        self.known[OPENED + 1..].contains(&pbn.0)
    }

    /// Starts a new count of the valid pages of all blocks.
    pub(super) fn begin_anew(&mut self) {
        self.anew = vec![0; self.counts.len()];
    }

    /// Takes the result of a new count, for [`Counts::new_count`].
    pub(super) fn take_anew(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.anew)
    }

    /// Count of a block in `anew`, the counts that [`Counts::take_anew`] returned.
    pub(super) fn new_count(&self, anew: &[u8], pbn: Pbn) -> u32 {
        count_in(self.geometry, anew, pbn)
    }

    /// Notes a valid page for the new count. Each page must be noted once.
    pub(super) fn note(&mut self, ppn: Ppn) {
        let pbn = self.geometry.block_of(ppn);
        if !self.anew.is_empty() {
            let count = count_in(self.geometry, &self.anew, pbn) + 1;
            return set_count_in(self.geometry, &mut self.anew, (pbn, count));
        }
        let asked = &self.known[OPENED + 1..];
        if let Some(at) = asked.iter().position(|&block| block == pbn.0) {
            let bit = self.bit_of(OPENED + 1 + at, ppn);
            bits::set(&mut self.bits, bit);
        }
    }

    /// Ends an answer, which counts only if it is complete. Returns the blocks with their numbers of valid
    /// pages.
    pub(super) fn end(&mut self, is_whole: bool) -> Vec<(Pbn, u32)> {
        let words = words(self.geometry);
        self.is_asking = false;
        if !is_whole {
            self.known[OPENED + 1..].fill(NONE);
        }
        let mut answer = Vec::with_capacity(self.asked_at_once());
        for place in OPENED + 1..self.known.len() {
            let block = self.known[place];
            if block == NONE {
                continue;
            }
            let bits = place * words..(place + 1) * words;
            let count = self.bits[bits.clone()].iter().map(|word| word.count_ones()).sum();
            if self.known[OPENED] == block {
                self.bits.copy_within(bits, OPENED * words);
                self.known[place] = NONE;
            }
            answer.push((Pbn(block), count));
        }
        answer
    }
}

/// Count of a block in a row of counts.
#[inline]
fn count_in(geometry: Geometry, counts: &[u8], pbn: Pbn) -> u32 {
    let at = pbn.index();
    match count_bytes(geometry) {
        1 => u32::from(counts[at]),
        _ => u32::from(u16::from_le_bytes([counts[2 * at], counts[2 * at + 1]])),
    }
}

/// Sets the count of a block in a row of counts, at most to all its pages.
fn set_count_in(geometry: Geometry, counts: &mut [u8], (pbn, count): (Pbn, u32)) {
    let bytes = count_bytes(geometry);
    let (at, count) = (pbn.index() * bytes, count.min(geometry.pages_per_block) as u16);
    counts[at..at + bytes].copy_from_slice(&count.to_le_bytes()[..bytes]);
}

const fn count_bytes(geometry: Geometry) -> usize {
    if geometry.pages_per_block <= 255 { 1 } else { 2 }
}

/// Words that the bits of a known block take.
const fn words(geometry: Geometry) -> usize {
    (geometry.pages_per_block as usize).div_ceil(WORD_BITS)
}

fn asked(geometry: Geometry) -> usize {
    (geometry.blocks / 16).clamp(2, ASKED_MAX) as usize
}

/// Number of valid pages of a block, from a bit for each page of the chip.
#[inline]
fn count_bits(geometry: Geometry, bits: &[Word], pbn: Pbn) -> u32 {
    let mut at = geometry.page_at(pbn, 0).index();
    let end = at + geometry.pages_per_block as usize;
    let mut count = 0;
    while at < end {
        let taken = (WORD_BITS - at % WORD_BITS).min(end - at);
        let word = bits[at / WORD_BITS] >> (at % WORD_BITS);
        count += (word & Word::MAX >> (WORD_BITS - taken)).count_ones();
        at += taken;
    }
    count
}
