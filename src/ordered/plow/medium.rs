//! The medium: the chip, the page read last and the page written next, the numbers of programs, and who pays
//! for a read.

use super::coder::{Known, TRIMS, View, is_trimmed_page};
use super::level::Part;
use super::page::{HEADER_BYTES, Header, Kind};
use crate::blocks::weak::Credit;
use crate::check::{IndexError, Invariant, words};
use crate::codec::is_blank;
use crate::fault::IndexFault;
use crate::nand::{Cause, Nand, NandError, Reading, is_done, read_again};
use crate::ordered::RecordFormat;
use crate::units::Ppn;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ops::Range;

/// The run page in the input buffer.
#[derive(Clone, Copy, Debug)]
struct Loaded {
    ppn: Ppn,
    count: u16,
    tombstones: bool,
    /// Bits of its records at the front of the body.
    front: u32,
}

/// Kind of a page that was examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Whole(Header),
    Blank,
    Broken,
}

/// A page of a level that is in the output buffer during a walk.
#[derive(Debug, Default)]
pub(super) struct Beside {
    loaded: Option<Loaded>,
    known: Cell<Known>,
}

/// Records of the first of three levels that a walk copies at a time: about as many as that level has among
/// a hundred.
pub(super) const COPIES: usize = 6;

/// A chip, with a buffer for the page read and one for the page written.
#[derive(Debug)]
pub(super) struct Medium<N> {
    pub(super) record: RecordFormat,
    pub(super) input: Vec<u8>,
    loaded: Option<Loaded>,
    /// Place of the record found last in the loaded page.
    known: Cell<Known>,
    /// The page being written, or in a walk the page of the level above the last.
    pub(super) output: Vec<u8>,
    /// Keys, a value and copies of records, for a walk or a step.
    pub(super) aside: Box<[u8]>,
    /// Pages that a step has passed.
    pub(super) passed: Vec<(Part, Ppn)>,
    /// Number of the newest program.
    pub(super) sequence: u64,
    /// Cause to which reads are booked now.
    pub(super) cause: Cause,
    /// Pages of the block of a weak page; they are to be rewritten.
    pub(super) weak: Option<Range<Ppn>>,
    /// Reads and programs that pay for such moves.
    pub(super) credit: Credit,
    /// Number of pages of the chip that this round of scrubbing has passed.
    pub(super) scrubbed: u32,
    pub(super) nand: N,
}

/// Bytes that a walk needs beside the pages. A step needs fewer.
pub(super) fn aside_bytes(record: RecordFormat) -> usize {
    let (key, value) = (usize::from(record.key_bytes), usize::from(record.value_bytes));
    4 * key + value + COPIES * (key + value + 1)
}

fn view_of<'a>(
    loaded: Option<Loaded>,
    input: &'a [u8],
    record: RecordFormat,
    known: &'a Cell<Known>,
) -> Result<View<'a>, IndexFault> {
    let view = loaded.and_then(|Loaded { count, tombstones, front, .. }| {
        View::again(&input[HEADER_BYTES..], record, (count.into(), tombstones, front as usize))
    });
    view.map(|view| view.noting(known))
        .ok_or_else(|| IndexFault::broken(Invariant::I3, "the input buffer holds no page", 0))
}

impl<N: Nand> Medium<N> {
    pub(super) fn new(nand: N, record: RecordFormat) -> Medium<N> {
        let geometry = nand.geometry();
        let page = geometry.page_bytes as usize;
        Medium {
            nand,
            record,
            input: vec![0xff; page],
            loaded: None,
            known: Cell::default(),
            output: vec![0xff; page],
            aside: vec![0; aside_bytes(record)].into_boxed_slice(),
            passed: Vec::new(),
            sequence: super::numbers::none(),
            cause: Cause::Host,
            weak: None,
            credit: Credit::default(),
            scrubbed: 0,
        }
    }
}

impl<N: Nand> Medium<N> {
    /// True if the input buffer holds this run page.
    pub(super) fn holds(&self, ppn: Option<Ppn>) -> bool {
        self.loaded.is_some_and(|loaded| Some(loaded.ppn) == ppn)
    }

    /// Reads a run page into the input buffer, unless it is there. The page must be of this life of its block
    /// (`erases`). True if the page was hard to read.
    pub(super) fn load(&mut self, ppn: Ppn, erases: u16) -> Result<bool, IndexFault> {
        if self.holds(Some(ppn)) {
            return Ok(false);
        }
        self.loaded = None;
        let record = self.record;
        let mut front = 0;
        let is_whole = |page: &[u8], _: &[u8]| {
            Header::decode(page, ppn).is_some_and(|header| {
                let view = View::new(&page[HEADER_BYTES..], record, header.count.into(), header.tombstones);
                front = view.map_or(0, |view| view.front_bits());
                header.kind == Kind::Run && header.erases == erases && header.count > 0 && view.is_some()
            })
        };
        let reading = read_again(&mut self.nand, (ppn, self.cause), &mut self.input, &mut [], is_whole)?;
        self.credit.note_read();
        self.known.set(Known::default());
        match Header::decode(&self.input, ppn) {
            Some(Header { count, tombstones, .. }) if reading != Reading::Broken => {
                self.loaded = Some(Loaded { ppn, count, tombstones, front: front as u32 });
                Ok(reading == Reading::Weak)
            }
            header => {
                if !TRIMS && header.is_some() && is_trimmed_page(&self.input[HEADER_BYTES..]) {
                    let what = words("a page leaves zeros out: this build lacks \"full\"");
                    return Err(IndexError::Unsupported(what.into()).into());
                }
                Err(IndexFault::broken(Invariant::I3, "a page of a level is not whole", ppn.0))
            }
        }
    }

    pub(super) fn view(&self) -> Result<View<'_>, IndexFault> {
        view_of(self.loaded, &self.input, self.record, &self.known)
    }

    /// Exchanges the buffers: what was in the input buffer is `beside` afterwards, and the reverse.
    pub(super) fn exchange(&mut self, beside: &mut Beside) {
        core::mem::swap(&mut self.input, &mut self.output);
        core::mem::swap(&mut self.loaded, &mut beside.loaded);
        self.known.swap(&beside.known);
    }

    /// The records of the page in the output buffer.
    pub(super) fn view_beside<'a>(&'a self, beside: &'a Beside) -> Result<View<'a>, IndexFault> {
        view_of(beside.loaded, &self.output, self.record, &beside.known)
    }

    /// The records of the page in the input buffer, and the output buffer.
    pub(super) fn view_and_output(&mut self) -> Result<(View<'_>, &mut [u8]), IndexFault> {
        let view = view_of(self.loaded, &self.input, self.record, &self.known)?;
        Ok((view, &mut self.output))
    }

    /// Two answers about the page in the input buffer: whether its first key is at most `key`, and whether
    /// its last key is below `key`.
    pub(super) fn spans(&self, key: &[u8]) -> Result<(bool, bool), IndexFault> {
        let view = self.view()?;
        Ok((view.order(0, key).is_le(), view.order(view.count() - 1, key).is_lt()))
    }

    /// Reads any page into the input buffer, for a mount.
    pub(super) fn examine(&mut self, ppn: Ppn) -> Result<Found, IndexFault> {
        self.loaded = None;
        let is_whole = |page: &[u8], _: &[u8]| Header::decode(page, ppn).is_some() || is_blank(page);
        match read_again(&mut self.nand, (ppn, Cause::Recovery), &mut self.input, &mut [], is_whole) {
            Ok(Reading::Broken) => return Ok(Found::Broken),
            Err(NandError::Uncorrectable(_)) => {
                self.input.fill(0);
                if !self.read_words(ppn)? {
                    return Ok(Found::Broken);
                }
            }
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if is_blank(&self.input) {
            return Ok(Found::Blank);
        }
        Ok(Header::decode(&self.input, ppn).map_or(Found::Broken, Found::Whole))
    }

    /// Reads a page that cannot be read as a whole word by word, if the chip appends words: one of them was
    /// being programmed when the power failed. Such a word counts as zeros.
    fn read_words(&mut self, ppn: Ppn) -> Result<bool, IndexFault> {
        let word = self.nand.geometry().append_bytes as usize;
        if word == 0 {
            return Ok(false);
        }
        for (i, bytes) in self.input.chunks_mut(word).enumerate() {
            match self.nand.read_at(ppn, Cause::Recovery, (i * word) as u32, bytes) {
                Ok(_) => {}
                Err(NandError::Uncorrectable(_)) => bytes.fill(0),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Moves the page that was examined, a run page, to the output buffer.
    pub(super) fn keep_examined(&mut self) {
        core::mem::swap(&mut self.input, &mut self.output);
        self.loaded = None;
    }

    /// Programs the page in the output buffer, whose contents are in place, under the next number. False if
    /// the program fails.
    pub(super) fn program(&mut self, ppn: Ppn, cause: Cause, header: Header) -> Result<bool, IndexFault> {
        self.sequence += 1;
        let commit = if header.kind == Kind::Commit { self.sequence } else { header.commit };
        Header { sequence: self.sequence, commit, ..header }.encode(&mut self.output, ppn);
        if self.holds(Some(ppn)) {
            self.loaded = None;
        }
        self.credit.note_program();
        Ok(is_done(self.nand.program(ppn, cause, &self.output, &[]))?)
    }

    /// Programs the page in the output buffer, whose contents are in place, as a page of an anchor: it has no
    /// number of its own. False if the program fails.
    pub(super) fn program_anchor(&mut self, ppn: Ppn, header: Header) -> Result<bool, IndexFault> {
        header.encode(&mut self.output, ppn);
        if self.holds(Some(ppn)) {
            self.loaded = None;
        }
        self.credit.note_program();
        Ok(is_done(self.nand.program(ppn, Cause::Checkpoint, &self.output, &[]))?)
    }

    /// Bytes of a copied record: key, value, and a flag for a tombstone.
    pub(super) fn stride(&self) -> usize {
        self.record.entry_bytes() + 1
    }

    /// Books reads and programs to a merge from now on, or still to a scrub. Returns the cause before.
    pub(super) fn begin_merging(&mut self) -> Cause {
        let merging = if self.cause == Cause::Scrubbing { Cause::Scrubbing } else { Cause::Merge };
        core::mem::replace(&mut self.cause, merging)
    }

    pub(super) fn ram_bytes(&self) -> usize {
        let passed = self.passed.capacity() * size_of::<(Part, Ppn)>();
        self.input.capacity() + self.output.capacity() + self.aside.len() + passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::catalogue::mlc_64m;
    use crate::nand::sim::SimChip;
    use crate::nand::{Geometry, Part};
    use crate::ordered::plow::coder::{Builder, Expected};

    #[test]
    fn a_page_is_read_in_the_life_of_its_block_only() {
        let (record, geometry) = (RecordFormat::new(4, 4), Geometry::new(512, 16, 8, 8));
        let chip = SimChip::new(&Part { geometry, ..mlc_64m() }).unwrap();
        let medium = &mut Medium::new(chip, record);
        let (first, last, newest) = (&[0, 0, 0, 1], &[0, 0, 0, 9], medium.sequence);
        let body = &mut medium.output[HEADER_BYTES..];
        let expected = Expected { first, low: first, last, count: 2, tombstones: false };
        let mut builder = Builder::begin(body, record, expected);
        assert!(builder.append(body, first, Some(&[7; 4])) && builder.append(body, last, Some(&[8; 4])));
        let header = Header { erases: 3, commit: newest, ..Header::run(2, false) };
        assert_eq!(medium.program(Ppn(0), Cause::Merge, header), Ok(true));
        assert!(medium.load(Ppn(0), 2).is_err() && medium.view().is_err());
        assert_eq!((medium.load(Ppn(0), 3), medium.spans(last)), (Ok(false), Ok((true, false))));
        assert!(medium.holds(Some(Ppn(0))) && !medium.holds(None));
        assert_eq!(medium.examine(Ppn(1)), Ok(Found::Blank));
        let whole = Header { sequence: newest + 1, ..header };
        assert_eq!((medium.examine(Ppn(0)), medium.view().is_ok()), (Ok(Found::Whole(whole)), false));
    }

    #[test]
    fn who_pays_for_a_merge_is_told_and_put_back() {
        let chip = SimChip::new(&mlc_64m()).unwrap();
        let medium = &mut Medium::new(chip, RecordFormat::new(4, 4));
        for (cause, merging) in [(Cause::Host, Cause::Merge), (Cause::Scrubbing, Cause::Scrubbing)] {
            medium.cause = cause;
            assert_eq!((medium.begin_merging(), medium.cause), (cause, merging));
        }
    }
}
