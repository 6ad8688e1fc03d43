//! Places of the pages of a run, and where each begins: a byte a page, or a byte for several pages if RAM is
//! short.
//!
//! A run is a row of pages in key order, in extents of pages that follow each other on the chip. For each
//! extent the position of its first key is kept (the key's first eight bytes as a number). For each following
//! group of pages (one page, unless thinned) a byte tells how far it begins from the group before: three bits
//! of exponent, five of mantissa, in units of the extent. Each step is reckoned from the positions that the
//! bytes before give, and rounded down, so errors do not add up: a group never begins before its fence.

use super::chunks::Chunks;
use crate::units::Ppn;
use alloc::vec::Vec;

/// Position of a key: its first eight bytes as a number.
pub(super) fn position(key: &[u8]) -> u64 {
    key.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A range of consecutive pages on the chip. The fences of an extent are among those of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Lower bound of the positions of its keys.
    low: u64,
    first: Ppn,
    pages: u16,
    /// Bit field, from the lowest bit on: pages of the first group that are gone, the unit of the fences as a
    /// power of two, and whether the map lists the extent as it is.
    marks: u16,
}

/// Mark of an extent that the map lists.
const LISTED: u16 = 0x8000;
/// Largest group, as a power of two: with a larger one `marks` would have no bits for the unit.
const GROUP_MAX: u8 = 9;
/// Extents, and fences, by which the lists of a run grow.
const EXTENTS_MORE: usize = 4;
const FENCES_MORE: usize = 16;
/// Most bytes that the lists of a run hold and do not use.
pub(super) const SPARE_BYTES: usize =
    (EXTENTS_MORE - 1) * size_of::<Extent>() + FENCES_MORE - 1 + 4 * size_of::<usize>();
/// Bytes of a run for the lengths of its lists.
pub(super) const HEAD_BYTES: usize = size_of::<Run>() - 2 * size_of::<Vec<Extent>>() - size_of::<usize>();
/// Most bytes that a list holds for each extent: itself, its part of the pointer to its chunk, and that again
/// while the list of pointers grows.
pub(super) const EXTENT_BYTES: usize = size_of::<Extent>() + 2 * size_of::<usize>() / EXTENTS_MORE;
/// Pages of the largest group.
const GROUP_PAGES_MAX: usize = 1 << GROUP_MAX;

impl Extent {
    pub(super) fn first(&self) -> Ppn {
        self.first
    }

    pub(super) fn pages(&self) -> usize {
        self.pages.into()
    }

    /// Pages of the first group that are gone.
    fn eaten(&self) -> usize {
        usize::from(self.marks) % GROUP_PAGES_MAX
    }

    /// Unit of the fences, as a power of two.
    fn shift(&self) -> u8 {
        ((self.marks & !LISTED) >> GROUP_MAX) as u8
    }

    /// Sets pages gone and unit, and clears the mark that the map lists the extent.
    fn mark(&mut self, eaten: usize, shift: u8) {
        debug_assert!(eaten < GROUP_PAGES_MAX && shift < 64, "{eaten} pages gone, a unit of 2^{shift}");
        self.marks = u16::from(shift) << GROUP_MAX | eaten as u16;
    }

    /// True if the map lists the extent as it is.
    pub(super) fn is_listed(&self) -> bool {
        self.marks & LISTED != 0
    }

    pub(super) fn holds(&self, page: Ppn) -> bool {
        (self.first.0..self.first.0 + u32::from(self.pages)).contains(&page.0)
    }
}

/// Unit for steps about this long: such a step then has an exponent half-way up.
fn unit(step: u64) -> u8 {
    (64 - step.leading_zeros()).saturating_sub(9).min(52) as u8
}

/// Step as a byte, rounded down. `None` if it is too large for the unit.
#[cfg_attr(not(feature = "std"), inline(never))]
fn encode(step: u64, shift: u8) -> Option<u8> {
    let units = step >> shift;
    if units < 32 {
        return Some(units as u8);
    }
    let exponent = units.ilog2() - 4;
    (exponent < 8).then(|| (exponent << 5 | (units >> (exponent - 1) & 31) as u32) as u8)
}

fn decode(fence: u8, shift: u8) -> u64 {
    let (exponent, mantissa) = (fence >> 5, u64::from(fence & 31));
    if exponent == 0 { mantissa << shift } else { (32 + mantissa) << (exponent - 1 + shift) }
}

/// Returns the position at the distance that a fence encodes after position `at`.
#[cfg_attr(not(feature = "std"), inline(never))]
fn behind(at: u64, fence: u8, shift: u8) -> u64 {
    at.saturating_add(decode(fence, shift))
}

/// The part, of `parts` alike, in which a distance of at most `whole` lies. Nothing divides 64 bits.
fn part(distance: u64, whole: u64, parts: usize) -> usize {
    // Parts are at most 2^GROUP_MAX, so the product has at most 32 bits.
    let shift = (64 - whole.leading_zeros()).saturating_sub(32 - u32::from(GROUP_MAX) - 1);
    let (distance, whole) = ((distance >> shift) as u32, (whole >> shift) as u32);
    (distance * parts as u32 / whole.max(1)) as usize
}

/// Pages in key order.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    extents: Chunks<Extent, EXTENTS_MORE>,
    fences: Chunks<u8, FENCES_MORE>,
    /// Pages of a group, as a power of two.
    group: u8,
}

impl Run {
    pub(super) fn pages(&self) -> usize {
        self.extents.iter().map(Extent::pages).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents.len() == 0
    }

    pub(super) fn extents(&self) -> impl Iterator<Item = &Extent> + Clone {
        self.extents.iter()
    }

    /// Number of extents.
    pub(super) fn count(&self) -> usize {
        self.extents.len()
    }

    /// Marks the extents that a map lists, and unmarks all others.
    pub(super) fn list(&mut self, is_listed: &mut dyn FnMut(&Extent) -> bool) {
        for extent in self.extents.iter_mut() {
            let mark = if is_listed(extent) { LISTED } else { 0 };
            extent.marks = extent.marks & !LISTED | mark;
        }
    }

    /// Marks the last extent as listed, if it is exactly these pages. True if it is.
    pub(super) fn list_last(&mut self, first: Ppn, pages: u32) -> bool {
        let last =
            self.extents.last_mut().filter(|last| last.first == first && u32::from(last.pages) == pages);
        last.map(|last| last.marks |= LISTED).is_some()
    }

    /// True if a page of the run lies from `from` on and before `to`.
    pub(super) fn uses(&self, from: Ppn, to: Ppn) -> bool {
        self.extents
            .iter()
            .any(|extent| extent.first < to && extent.first.0 + u32::from(extent.pages) > from.0)
    }

    /// Page number `index` of the run.
    pub(super) fn page(&self, mut index: usize) -> Option<Ppn> {
        for extent in self.extents.iter() {
            if index < extent.pages() {
                return Some(Ppn(extent.first.0 + index as u32));
            }
            index -= extent.pages();
        }
        None
    }

    /// First page of the run, and a lower bound of its position.
    pub(super) fn first(&self) -> Option<(Ppn, u64)> {
        self.extents.iter().next().map(|extent| (extent.first, extent.low))
    }

    fn group_pages(&self) -> usize {
        1 << self.group
    }

    fn groups(&self, extent: &Extent) -> usize {
        (extent.pages() + extent.eaten()).div_ceil(self.group_pages())
    }

    /// Appends a page that begins at position `low`, in a new extent if it must not join the last one.
    pub(super) fn push(&mut self, page: Ppn, low: u64, joins: bool) {
        if !(joins && self.join(page, low)) {
            self.extents.push(Extent { low, first: page, pages: 1, marks: 0 });
        }
    }

    fn join(&mut self, page: Ppn, low: u64) -> bool {
        let Some(last) = self.extents.last() else { return false };
        if last.first.0 + u32::from(last.pages) != page.0 || last.pages == u16::MAX {
            return false;
        }
        let mut changed = Extent { pages: last.pages + 1, marks: last.marks & !LISTED, ..last };
        let groups = self.groups(&last);
        if self.groups(&changed) > groups {
            let fences = self.fences.range(self.fences.len() - (groups - 1)..self.fences.len());
            let tail = fences.fold(last.low, |at, fence| behind(at, fence, last.shift()));
            // No key of the page lies below the fence before, whatever a damaged page may say.
            let step = low.saturating_sub(tail);
            // Where all pages began at one position, as a summary with thin fences tells, any unit does.
            if tail == last.low {
                changed.mark(last.eaten(), unit(step));
            }
            let Some(fence) = encode(step, changed.shift()) else { return false };
            self.fences.push(fence);
        }
        if let Some(last) = self.extents.last_mut() {
            *last = changed;
        }
        true
    }

    /// The last group that may begin at or before a position, as its first and last page. `None` if all
    /// groups begin after it.
    pub(super) fn find(&self, position: u64) -> Option<(usize, usize)> {
        self.guess(position).map(|(first, _, last)| (first, last))
    }

    /// Does the same as `find`, and tells between the two the page in which the position lies if the keys of
    /// the group are evenly spread.
    pub(super) fn guess(&self, position: u64) -> Option<(usize, usize, usize)> {
        let (mut page, mut fence, mut found, mut end) = (0, 0, None, None);
        for extent in self.extents.iter() {
            if extent.low > position {
                end = Some(extent.low);
                break;
            }
            found = Some((page, fence, extent));
            page += extent.pages();
            fence += self.groups(extent) - 1;
        }
        let (page, fence, extent) = found?;
        let (mut at, mut group) = (extent.low, 0);
        for step in self.fences.range(fence..fence + self.groups(extent) - 1) {
            let next = behind(at, step, extent.shift());
            if next > position {
                end = Some(next);
                break;
            }
            (at, group) = (next, group + 1);
        }
        let from = group * self.group_pages();
        let to = (from + self.group_pages()).min(extent.pages() + extent.eaten());
        let place = |index: usize| page + index.saturating_sub(extent.eaten());
        let (first, last) = (place(from), place(to - 1));
        let part = end.map_or((to - from) / 2, |end| part(position - at, end - at, to - from));
        Some((first, place(from + part).clamp(first, last), last))
    }

    /// Calls `tell` for each group of pages between `from` and `to`, with its first page there and its
    /// position.
    pub(super) fn for_groups(&self, from: Ppn, to: Ppn, tell: &mut dyn FnMut(Ppn, u64)) {
        let mut fence = 0;
        for extent in self.extents.iter() {
            let groups = self.groups(extent);
            let mut low = extent.low;
            for group in 0..groups {
                if group > 0 {
                    low = behind(low, self.fences.get(fence + group - 1), extent.shift());
                }
                let page = (group * self.group_pages()).saturating_sub(extent.eaten());
                let page = Ppn(extent.first.0 + page as u32);
                if page >= from && page < to {
                    tell(page, low);
                }
            }
            fence += groups - 1;
        }
    }

    pub(super) fn remove(&mut self, page: Ppn) {
        let Some(at) = self.extents.iter().position(|extent| extent.holds(page)) else { return };
        let place = page.0 - self.extents.get(at).first.0;
        let at = if place > 0 { self.split(at, place as usize) } else { at };
        let fence = self.fences_before(at);
        let mut extent = self.extents.get(at);
        if extent.pages == 1 {
            self.extents.remove(at);
            return;
        }
        extent.first.0 += 1;
        extent.pages -= 1;
        let mut eaten = extent.eaten() + 1;
        if eaten == self.group_pages() {
            extent.low = behind(extent.low, self.fences.get(fence), extent.shift());
            eaten = 0;
            self.fences.remove(fence);
        }
        extent.mark(eaten, extent.shift());
        self.extents.set(at, extent);
    }

    fn fences_before(&self, extent: usize) -> usize {
        self.extents.iter().take(extent).map(|extent| self.groups(extent) - 1).sum()
    }

    /// Splits an extent before one of its pages. Returns the index of the second part.
    fn split(&mut self, at: usize, place: usize) -> usize {
        let fence = self.fences_before(at);
        let whole = self.extents.get(at);
        let (group, within) = {
            let place = place + whole.eaten();
            (place >> self.group, place % self.group_pages())
        };
        let steps = self.fences.range(fence..fence + group);
        let low = steps.fold(whole.low, |at, step| behind(at, step, whole.shift()));
        if within == 0 {
            self.fences.remove(fence + group - 1);
        }
        self.extents.set(at, Extent { pages: place as u16, marks: whole.marks & !LISTED, ..whole });
        let first = Ppn(whole.first.0 + place as u32);
        let mut second = Extent { low, first, pages: whole.pages - place as u16, ..whole };
        second.mark(within, whole.shift());
        self.extents.insert(at + 1, second);
        at + 1
    }

    /// True if the number of fences can be halved.
    pub(super) fn can_thin(&self) -> bool {
        self.group < GROUP_MAX
    }

    /// Halves the number of fences: groups become twice as long. False if they are as long as may be.
    pub(super) fn thin(&mut self) -> bool {
        if !self.can_thin() {
            return false;
        }
        let mut extents = core::mem::take(&mut self.extents);
        let (mut from, mut kept) = (0, 0);
        for extent in extents.iter_mut() {
            let end = from + self.groups(extent) - 1;
            let (mut at, mut last, mut widest) = (0u64, 0, 0);
            for (i, step) in self.fences.range(from..end).enumerate() {
                at = behind(at, step, extent.shift());
                if i % 2 == 1 {
                    (widest, last) = (widest.max(at - last), at);
                }
            }
            let shift = unit(widest).saturating_sub(2);
            (at, last) = (0, 0);
            for i in 0..end - from {
                at = behind(at, self.fences.get(from + i), extent.shift());
                if i % 2 == 1 {
                    let code = encode(at.saturating_sub(last), shift).unwrap_or(u8::MAX);
                    last = behind(last, code, shift);
                    self.fences.set(kept, code);
                    kept += 1;
                }
            }
            extent.marks = extent.marks & LISTED | u16::from(shift) << GROUP_MAX | extent.eaten() as u16;
            from = end;
        }
        self.extents = extents;
        self.fences.truncate(kept);
        self.group += 1;
        true
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.extents.ram_bytes() + self.fences.ram_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::vec;

    /// A run of pages that begin at ascending positions, with its list of (page, begin).
    fn run(rng: &mut Rng, count: u32, group: u8, gap: u64) -> (Run, Vec<(Ppn, u64)>) {
        let mut run = Run { group, ..Run::default() };
        let (mut list, mut low, mut page) = (Vec::new(), 1000, 0);
        for _ in 0..count {
            let skips = rng.chance(1, 20);
            page += if skips { 17 } else { 1 };
            run.push(Ppn(page), low, !rng.chance(1, 30));
            list.push((Ppn(page), low));
            low += rng.below(gap);
        }
        (run, list)
    }

    fn assert_finds(run: &Run, list: &[(Ppn, u64)], rng: &mut Rng) -> usize {
        assert_eq!(run.pages(), list.len());
        assert!(list.iter().enumerate().all(|(i, entry)| run.page(i) == Some(entry.0)));
        let mut wrong = 0;
        for _ in 0..500 {
            let position = rng.below(list.last().map_or(1, |last| last.1) + 100);
            let expected = list.partition_point(|entry| entry.1 <= position);
            match run.find(position) {
                None => assert_eq!(expected, 0, "{position}"),
                Some((first, last)) => {
                    assert!(first <= last && last < list.len());
                    // A fence may lie before its page, never behind.
                    assert!(expected <= last + 1, "{position}: {expected} of {first} to {last}");
                    wrong += usize::from(expected < first + 1);
                }
            }
        }
        wrong
    }

    #[test]
    fn a_fence_leads_to_the_page() {
        for (seed, group, gap) in [(1, 0, 1 << 40), (2, 0, 90), (3, 2, 5000), (4, 3, 3), (5, 0, 1 << 55)] {
            let mut rng = Rng::new(seed);
            let (run, list) = run(&mut rng, 120, group, gap);
            let wrong = assert_finds(&run, &list, &mut rng);
            assert!(gap < 100 || wrong < 25, "seed {seed}: {wrong} of 500 begin a page too late");
        }
    }

    /// Share, in percent, of keys between the first and the last page whose page is guessed, from groups of
    /// 2^`group` pages that begin about `gap` apart.
    fn guessed(group: u8, gap: impl Fn(&mut Rng) -> u64) -> u32 {
        let mut rng = Rng::new(11);
        let mut run = Run { group, ..Run::default() };
        let (mut list, mut low) = (Vec::new(), 1000);
        for page in 0..400 {
            run.push(Ppn(page), low, page % 90 > 0);
            list.push(low);
            low += gap(&mut rng);
        }
        (0..5).for_each(|page| run.remove(Ppn(page)));
        let (from, to) = (list[5], list[399]);
        let right = (0..2_000).filter(|_| {
            let position = from + rng.below(to - from);
            let (first, guess, last) = run.guess(position).unwrap();
            assert!(first <= guess && guess <= last && run.find(position) == Some((first, last)));
            guess + 5 == list.partition_point(|&low| low <= position) - 1
        });
        right.count() as u32 / 20
    }

    #[test]
    fn the_page_of_a_group_is_guessed_where_keys_are_evenly_spread() {
        // Pages of some hundred records begin within 5 % of where they would.
        let even = |scale: u64| move |rng: &mut Rng| scale * (975 + rng.below(50));
        for scale in [1, 1 << 20, 1 << 40] {
            for (group, least) in [(1, 96), (2, 94), (3, 90), (5, 80)] {
                let share = guessed(group, even(scale));
                assert!(share >= least, "groups of 2^{group}, scale {scale}: {share} % guessed");
            }
        }
        // Where a few pages hold nearly all positions, a guess is as good as the middle.
        let uneven = guessed(1, |rng| if rng.chance(1, 8) { 1 << 40 } else { 1 << 10 });
        assert!((40..100).contains(&uneven), "{uneven} % of uneven pages");
    }

    #[test]
    fn pages_are_removed_anywhere_and_added_after_that() {
        for group in [0, 1, 3] {
            let mut rng = Rng::new(group.into());
            let (mut run, mut list) = run(&mut rng, 150, group, 100_000);
            for round in 0..140 {
                let at = if rng.chance(1, 2) { 0 } else { rng.below(list.len() as u64) as usize };
                run.remove(list.remove(at).0);
                if round % 3 == 0 {
                    let (page, low) = list[list.len() - 1];
                    let next = (Ppn(page.0 + 1), low + rng.below(100_000));
                    run.push(next.0, next.1, true);
                    list.push(next);
                }
                if round == 60 {
                    assert!(run.thin());
                }
                assert_finds(&run, &list, &mut rng);
            }
        }
    }

    #[test]
    fn the_longest_groups_lose_their_first_pages() {
        let (mut rng, mut run, mut list) = (Rng::new(3), Run::default(), Vec::new());
        for page in 0..1500 {
            let low = list.last().map_or(1000, |last: &(Ppn, u64)| last.1) + rng.below(1 << 20);
            run.push(Ppn(page), low, true);
            list.push((Ppn(page), low));
        }
        while run.thin() {}
        assert_eq!((run.group_pages(), run.fences.len()), (GROUP_PAGES_MAX, 2));
        for round in 0..1490 {
            let at = if rng.chance(1, 200) { list.len() / 2 } else { 0 };
            run.remove(list.remove(at).0);
            if round % 50 == 0 {
                assert_finds(&run, &list, &mut rng);
            }
        }
    }

    #[test]
    fn groups_are_told_as_they_begin() {
        for group in [0, 2] {
            let (run, list) = run(&mut Rng::new(7), 90, group, 1 << 20);
            let (mut told, mut before) = (0, 0);
            run.for_groups(Ppn(10), Ppn(80), &mut |page, low| {
                let begin = list.iter().find(|entry| entry.0 == page).unwrap().1;
                assert!(
                    (10..80).contains(&page.0) && low <= begin && low >= before,
                    "{page}: {low} of {begin}"
                );
                (told, before) = (told + 1, low);
            });
            let there = list.iter().filter(|entry| (10..80).contains(&entry.0.0)).count();
            assert!(if group == 0 { told == there } else { told > 5 && told < there }, "{told} of {there}");
        }
    }

    #[test]
    fn thinning_halves_the_fences() {
        let mut rng = Rng::new(9);
        let (mut run, list) = run(&mut rng, 400, 0, 1 << 30);
        for _ in 0..4 {
            let before = run.fences.len();
            assert!(run.thin());
            assert!(run.fences.len() <= before / 2 && run.fences.ram_bytes() <= before / 2 * 2 + 128);
            assert_finds(&run, &list, &mut rng);
        }
    }

    #[test]
    fn a_step_loses_a_32nd_at_most() {
        let mut rng = Rng::new(1);
        for bits in 1..64 {
            let step = rng.below(1 << bits);
            let shift = unit(step);
            let back = decode(encode(step, shift).unwrap(), shift);
            assert!(back <= step && (step - back <= step / 32 || step < 32), "{step}: {back}");
        }
        assert_eq!(encode(1 << 20, 0), None);
        assert_eq!(vec![position(&[1, 0]), position(&[0, 0, 0, 0, 0, 0, 0, 9, 5])], [256, 9]);
    }
}
