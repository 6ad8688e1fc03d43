//! One block of the simulated chip: the bytes of its programmed pages, and the state of each page.
//!
//! Pages are stored one after another in the order of their first program, and each page knows its slot. So
//! no bytes are ever filled with 0xFF: an erase drops all bytes, the first program of a page appends, and a
//! copy of the block copies only programmed pages.
//!
//! Invariants: B1 a page with a slot has `slot < bytes.len() / page`; B2 no two pages share a slot; B3 an
//! erased page has no slot; B4 every page at or beyond `next` is erased, unless the block is half-erased.

use super::append::{TornWord, has_words, prefix_of_words};
use super::faults::TornModel;
use super::record::Torn;
use crate::nand::Geometry;
use crate::rng::Rng;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes that a program was asked to write to a page. Both parts may be shorter than their areas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload<'a> {
    pub(super) data: &'a [u8],
    pub(super) spare: &'a [u8],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Health {
    /// Reads return the stored bytes.
    #[default]
    Good,
    /// Reads fail: the page has more bit errors than the ECC corrects.
    Unreadable,
}

/// Slot of a page that is not stored and reads as 0xFF.
pub(super) const NO_SLOT: u16 = u16::MAX;

/// Value of `programs` for a page that takes no program until its block is erased.
pub(super) const SEALED: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageState {
    /// Programs since the last erase, or [`SEALED`].
    pub(super) programs: u8,
    pub(super) health: Health,
    /// Place of the bytes of the page, or [`NO_SLOT`].
    pub(super) slot: u16,
}

impl PageState {
    pub(super) const ERASED: PageState = PageState { programs: 0, health: Health::Good, slot: NO_SLOT };
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    pub(super) pages: Box<[PageState]>,
    /// One past the highest page programmed since the last erase.
    pub(super) next: u32,
    /// True after an erase that was cut: the block takes no program until it is erased.
    pub(super) half_erased: bool,
    /// Words that cannot be read, on a part that programs each once.
    pub(super) torn: Vec<TornWord>,
    block_bytes: usize,
}

/// The copy gets room for the whole block, since a block is copied in order to be programmed.
impl Clone for Block {
    fn clone(&self) -> Block {
        let mut bytes = Vec::with_capacity(self.block_bytes);
        bytes.extend_from_slice(&self.bytes);
        Block { bytes, pages: self.pages.clone(), torn: self.torn.clone(), ..*self }
    }
}

impl Block {
    /// Returns an erased block with room for `bytes` bytes of pages.
    pub(super) fn with_capacity(geometry: &Geometry, bytes: usize) -> Block {
        Block {
            bytes: Vec::with_capacity(bytes),
            pages: vec![PageState::ERASED; geometry.pages_per_block as usize].into_boxed_slice(),
            next: 0,
            half_erased: false,
            torn: Vec::new(),
            block_bytes: geometry.block_bytes() as usize,
        }
    }

    pub(super) fn erased(geometry: &Geometry) -> Block {
        Block::with_capacity(geometry, geometry.block_bytes() as usize)
    }

    pub(super) fn stored(&self, geometry: &Geometry, state: PageState) -> Option<&[u8]> {
        let size = geometry.raw_page_bytes();
        let start = usize::from(state.slot) * size;
        (state.slot != NO_SLOT).then(|| &self.bytes[start..start + size])
    }

    /// Programs a page: appends it, or clears further bits of a page that is stored.
    pub(super) fn program(&mut self, geometry: &Geometry, page: usize, payload: Payload<'_>) {
        if self.pages[page].slot == NO_SLOT {
            self.append(geometry, page, payload);
        } else {
            let stored = self.stored_mut(geometry, page);
            let (data, spare) = stored.split_at_mut(geometry.page_bytes as usize);
            clear_bits(data, payload.data);
            clear_bits(spare, payload.spare);
        }
        self.note_program(geometry, page);
        debug_assert!(self.is_consistent(geometry, page), "page {page} after a program");
    }

    /// Checks B1, B3 and B4 for one page.
    fn is_consistent(&self, geometry: &Geometry, page: usize) -> bool {
        let state = self.pages[page];
        let slots = self.bytes.len() / geometry.raw_page_bytes();
        let is_stored = state.slot == NO_SLOT || usize::from(state.slot) < slots;
        is_stored
            && slots <= self.pages.len()
            && (state.programs > 0 || state.slot == NO_SLOT)
            && (state.programs == 0 || page < self.next as usize || self.half_erased)
    }

    /// Returns the first byte of which the program would have to set bits; the spare area follows the data.
    /// Bytes 0xFF of the program do not count.
    pub(super) fn byte_set(&self, geometry: &Geometry, page: usize, payload: Payload<'_>) -> Option<usize> {
        let (data, spare) = self.stored(geometry, self.pages[page])?.split_at(geometry.page_bytes as usize);
        let raised = |old: u8, new: u8| if new == 0xff { 0 } else { !old & new };
        let first = |old: &[u8], new: &[u8]| {
            // One pass without a branch for each byte first: a byte that sets bits is rare, and every
            // overwriting program is checked.
            let any = old.iter().zip(new).fold(0, |any, (&old, &new)| any | raised(old, new));
            if any == 0 { None } else { old.iter().zip(new).position(|(&old, &new)| raised(old, new) != 0) }
        };
        let in_spare = || first(spare, payload.spare).map(|byte| data.len() + byte);
        first(data, payload.data).or_else(in_spare)
    }

    /// Programs a page in part. NOR has no ECC of its own that could make a page unreadable, so `Unreadable`
    /// becomes `RandomBits`; and it takes a program on top of a torn one. A part that programs each word once
    /// has an unreadable word.
    pub(super) fn program_torn(
        &mut self,
        geometry: &Geometry,
        page: usize,
        payload: Payload<'_>,
        torn: Torn,
    ) {
        let mut rng = Rng::new(torn.seed);
        let is_programmed = self.pages[page].programs > 0;
        match torn.model {
            TornModel::Unreadable if geometry.overwrites() => {
                let torn = Torn { model: TornModel::RandomBits, ..torn };
                self.program_torn(geometry, page, payload, torn);
            }
            TornModel::Unreadable if has_words(geometry) => {
                self.tear_word(geometry, page, payload, &mut rng);
            }
            TornModel::LooksErased if geometry.overwrites() => {
                self.program(geometry, page, Payload { data: &[], spare: &[] });
            }
            TornModel::LooksErased if has_words(geometry) && is_programmed => {}
            TornModel::Prefix => {
                let is_append = geometry.appends() && is_programmed;
                let part = if is_append { prefix_of_words } else { prefix };
                let (data, spare) = part(payload, &mut rng);
                self.program(geometry, page, Payload { data, spare });
            }
            TornModel::RandomBits => {
                let (data, spare) = (blur(payload.data, &mut rng), blur(payload.spare, &mut rng));
                self.program(geometry, page, Payload { data: &data, spare: &spare });
            }
            TornModel::Unreadable => {
                self.note_program(geometry, page);
                self.pages[page].health = Health::Unreadable;
            }
            TornModel::LooksErased => {
                self.note_program(geometry, page);
                self.pages[page].programs = SEALED;
            }
        }
    }

    /// Destroys a page that shares its cells with a page whose program was torn: the page becomes unreadable,
    /// or some of its bits are wrong.
    pub(super) fn destroy(&mut self, geometry: &Geometry, page: usize, seed: u64) {
        let mut rng = Rng::new(seed);
        if self.pages[page].slot == NO_SLOT || rng.chance(1, 2) {
            let is_programmed = self.pages[page].programs > 0;
            self.pages[page].health = if is_programmed { Health::Unreadable } else { Health::Good };
            return;
        }
        for chunk in self.stored_mut(geometry, page).chunks_mut(8) {
            let wrong = rng.next_u64() & rng.next_u64() & rng.next_u64();
            chunk.iter_mut().zip(wrong.to_le_bytes()).for_each(|(byte, wrong)| *byte ^= wrong);
        }
    }

    /// Erases a block in part. The block then takes no program until it is erased again.
    pub(super) fn erase_torn(&mut self, geometry: &Geometry, model: TornModel, seed: u64) {
        let is_nor = geometry.overwrites();
        let model = if is_nor && model == TornModel::Unreadable { TornModel::RandomBits } else { model };
        let mut rng = Rng::new(seed);
        self.half_erased = true;
        let keep = rng.below(u64::from(geometry.pages_per_block) + 1) as usize;
        for page in 0..self.pages.len() {
            if self.pages[page].programs == 0 {
                continue;
            }
            let fate = match model {
                TornModel::Prefix if page < keep => TornErase::Erased,
                TornModel::Prefix => TornErase::Old,
                TornModel::LooksErased => TornErase::Erased,
                TornModel::RandomBits => [TornErase::Old, TornErase::Blurred][rng.below(2) as usize],
                TornModel::Unreadable => {
                    [TornErase::Old, TornErase::Erased, TornErase::Unreadable][rng.below(3) as usize]
                }
            };
            match fate {
                TornErase::Old => {}
                TornErase::Erased => {
                    self.pages[page] = PageState::ERASED;
                    self.forget_torn_words(page);
                }
                TornErase::Unreadable => self.pages[page].health = Health::Unreadable,
                TornErase::Blurred if self.pages[page].slot == NO_SLOT => {}
                TornErase::Blurred => {
                    let stored = self.stored_mut(geometry, page);
                    stored.iter_mut().for_each(|byte| *byte |= rng.next_u64() as u8);
                }
            }
        }
    }

    fn append(&mut self, geometry: &Geometry, page: usize, payload: Payload<'_>) {
        let (page_bytes, start) = (geometry.page_bytes as usize, self.bytes.len());
        assert!(payload.data.len() <= page_bytes && payload.spare.len() <= geometry.spare_bytes as usize);
        if self.bytes.capacity() < self.block_bytes {
            self.bytes.reserve_exact(self.block_bytes - start);
        }
        self.bytes.extend_from_slice(payload.data);
        self.bytes.resize(start + page_bytes, 0xff);
        self.bytes.extend_from_slice(payload.spare);
        self.bytes.resize(start + geometry.raw_page_bytes(), 0xff);
        let slot = start / geometry.raw_page_bytes();
        assert!(slot < usize::from(NO_SLOT), "a block has fewer pages than slots have numbers");
        self.pages[page].slot = slot as u16;
    }

    fn note_program(&mut self, geometry: &Geometry, page: usize) {
        assert!(page < self.pages.len(), "page {page} is beyond the block");
        let state = &mut self.pages[page];
        // A page takes any number of appends, none of which seals it.
        let most = if has_words(geometry) { SEALED - 1 } else { SEALED };
        state.programs = state.programs.saturating_add(1).min(most);
        self.next = self.next.max(page as u32 + 1);
    }

    fn stored_mut(&mut self, geometry: &Geometry, page: usize) -> &mut [u8] {
        let size = geometry.raw_page_bytes();
        let start = usize::from(self.pages[page].slot) * size;
        &mut self.bytes[start..start + size]
    }

    fn forget(&mut self) {
        self.bytes.clear();
        self.pages.fill(PageState::ERASED);
        self.next = 0;
        self.half_erased = false;
        self.torn.clear();
        debug_assert!(self.pages.iter().all(|page| *page == PageState::ERASED), "an erase left a page");
    }
}

#[derive(Clone, Copy)]
enum TornErase {
    Old,
    Erased,
    Unreadable,
    Blurred,
}

/// Erases a block. If a clone of the chip shares the block, the clone keeps it and this chip drops it.
pub(super) fn erase(place: &mut Option<Arc<Block>>) {
    match place.as_mut().and_then(Arc::get_mut) {
        Some(block) => block.forget(),
        None => *place = None,
    }
}

fn clear_bits(stored: &mut [u8], new: &[u8]) {
    stored.iter_mut().zip(new).for_each(|(old, new)| *old &= new);
}

/// Returns a random part of the bytes to be programmed: the first bytes of each area.
pub(super) fn prefix<'a>(payload: Payload<'a>, rng: &mut Rng) -> (&'a [u8], &'a [u8]) {
    let mut part = |bytes: &'a [u8]| {
        let kept = if bytes.is_empty() { 0 } else { rng.below(bytes.len() as u64) as usize };
        &bytes[..kept]
    };
    let (data, spare) = (part(payload.data), part(payload.spare));
    match rng.below(3) {
        0 => (data, &[]),
        1 if !payload.spare.is_empty() => (payload.data, &[]),
        2 if !payload.spare.is_empty() => (payload.data, spare),
        _ => (data, &[]),
    }
}

/// Returns the bytes with some of the cleared bits still set: half of them, a quarter or an eighth.
pub(super) fn blur(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let thinning = rng.below(3);
    let mut blurred = bytes.to_vec();
    for chunk in blurred.chunks_mut(8) {
        let mut still_set = rng.next_u64();
        for _ in 0..thinning {
            still_set &= rng.next_u64();
        }
        let still_set = still_set.to_le_bytes();
        chunk.iter_mut().zip(still_set).for_each(|(byte, set)| *byte |= set);
    }
    blurred
}
