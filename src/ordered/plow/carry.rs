//! Run pages that commit: with them an operation that makes a step programs one page, not two.
//!
//! In the class *every operation* each operation programs a commit page, and if it makes a step, the page of
//! that step as well. But the page of a step has room left. If it is the first page behind the newest commit
//! page, it tells between its records and their high parts what the step did and what was changed:
//!
//! ```text
//! level; old pages used up; records taken from above, and from old pages;
//! pages of the level above that are used up: how many, and of each twice its number, + 1 for an old one;
//! the new cursor; 1 if a key was removed; the key; its value if it was put
//! ```
//!
//! Numbers and cursor are coded as in a root. A mount takes the newest commit page. If the page with the next
//! program number is a run page that commits, the mount makes the same step in RAM and enters the change. So
//! one such page may follow a commit page. The pages and blocks it leaves are free only once there is another
//! commit page.

use super::Core;
use super::coder::View;
use super::commit::Commits;
use super::level::Part;
use super::levels::Levels;
use super::page::{HEADER_BYTES, Header};
use super::root::{Reader, Writer};
use super::step::Outcome;
use crate::check::{IndexError, Invariant, words};
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::ordered::RecordFormat;
use crate::units::Ppn;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bytes carried in addition to cursor, key and value: numbers for three pages of the level above, and the
/// bytes lost to rounding at the two ends.
const FIXED_BYTES: usize = 30;
/// A page keeps at most 1/12 of its bytes for what it carries: with more, pages would hold too few records.
const SHARE: usize = 12;

/// Bytes of a page kept for the carried change. 0 if that were too many, or if values are empty.
pub(super) fn bytes_kept(record: RecordFormat, page_bytes: usize) -> usize {
    let needed = FIXED_BYTES + record.entry_bytes() + usize::from(record.key_bytes);
    let is_worth_it = cfg!(feature = "full") && needed * SHARE <= page_bytes && record.value_bytes > 0;
    if is_worth_it { needed } else { 0 }
}

impl Commits {
    /// Notes the change under way. A step may carry it if pages have room for it.
    pub(super) fn begin_change(&mut self, key: &[u8], value: Option<&[u8]>, has_room: bool) {
        self.carried = false;
        self.under_way.clear();
        if cfg!(feature = "full") && self.is_durable() && has_room {
            self.under_way.extend_from_slice(key);
            self.under_way.extend_from_slice(value.unwrap_or(&[]));
        }
    }

    /// True if the page of a step may carry the change under way: there is a change, and the newest commit
    /// page knows all that is on the chip and in the levels.
    pub(super) fn may_carry(&self, newest: u64, levels: usize) -> bool {
        cfg!(feature = "full")
            && !self.under_way.is_empty()
            && !self.dirty
            && newest == self.sequence
            && levels == usize::from(self.levels)
    }

    /// Writes what a step did and the change under way into the free bytes between the ends of a page. False
    /// if they do not fit.
    pub(super) fn carry(&self, gap: &mut [u8], outcome: &Outcome<'_>, key_bytes: u8) -> bool {
        let (key, value) = self.under_way.split_at(key_bytes.into());
        let mut writer = Writer::new(gap);
        for number in [outcome.level, outcome.used, outcome.taken[0], outcome.taken[1], outcome.passed.len()]
        {
            writer.number(number as u64);
        }
        for &(part, page) in outcome.passed {
            writer.number(u64::from(page.0) * 2 + u64::from(part == Part::Old));
        }
        writer.key(outcome.stop.unwrap_or(&[]));
        writer.number(value.is_empty().into());
        writer.key(key);
        writer.key(value);
        let fits = writer.at() <= gap.len();
        if !fits {
            gap.fill(0);
        }
        fits
    }
}

impl<N: Nand> Core<N> {
    /// Does the step and the change that the page in the input buffer carries: this page is the newest
    /// commit.
    pub(super) fn take_carried(&mut self, ppn: Ppn, header: &Header) -> Result<(), IndexFault> {
        if !cfg!(feature = "full") {
            let what = words("the newest change lies in a page of a step: this build lacks \"full\"");
            return Err(IndexError::Unsupported(what.into()).into());
        }
        let broken = || IndexFault::broken(Invariant::I1, "what a page carries makes no sense", ppn.0);
        self.medium.keep_examined();
        let body = &self.medium.output[HEADER_BYTES..];
        let count = usize::from(header.count);
        let view = View::new(body, self.medium.record, count, header.tombstones).filter(|_| count > 0);
        let at = view.ok_or_else(broken)?.front();
        let mut reader = Reader::new(&body[at..]);
        let carried = self.stock.levels.read_carried(&mut reader, count, self.medium.record);
        let Carried { outcome, passed, stop, key, value } = carried.ok_or_else(broken)?;
        let outcome = Outcome { passed: &passed, stop: stop.as_deref(), ..outcome };
        self.take_over(&outcome, Some(ppn));
        self.stock.memtable.put(&key, value.as_deref(), false);
        self.stock.commits.clean = false;
        Ok(())
    }
}

/// Contents of a page that carries a change: the outcome of its step, with the lists that it refers to, and
/// the change.
struct Carried {
    outcome: Outcome<'static>,
    passed: Vec<(Part, Ppn)>,
    stop: Option<Box<[u8]>>,
    key: Box<[u8]>,
    value: Option<Box<[u8]>>,
}

impl Levels {
    fn read_carried(&self, reader: &mut Reader<'_>, count: usize, record: RecordFormat) -> Option<Carried> {
        let RecordFormat { key_bytes, value_bytes } = record;
        let mut number = || usize::try_from(reader.number()?).ok();
        let (level, used, taken, passed) = (number()?, number()?, [number()?, number()?], number()?);
        let of_level = self.get(level).filter(|level| used <= level.old.pages())?;
        let outcome = Outcome { level, count, used, taken, passed: &[], stop: None };
        let mut pages = Vec::new();
        for _ in 0..passed {
            let page = reader.short()?;
            let part = if page & 1 == 1 { Part::Old } else { Part::New };
            let upper = self.get(level.checked_sub(1)?)?;
            upper.run(part).uses(Ppn(page / 2), Ppn(page / 2 + 1)).then_some(())?;
            pages.push((part, Ppn(page / 2)));
        }
        let stop = Some(reader.key(key_bytes)?).filter(|stop| !stop.is_empty());
        // A round ends when all its old pages are used up. Otherwise the new cursor is not below the old one.
        let makes_sense = match &stop {
            Some(stop) => *stop >= of_level.cursor,
            None => used == of_level.old.pages(),
        };
        let is_removed = reader.number()? == 1;
        let key = reader.key(key_bytes)?;
        let value = reader.key(if is_removed { 0 } else { value_bytes })?;
        let value = Some(value).filter(|_| !is_removed);
        let is_right = value.as_ref().is_none_or(|value| value.len() == usize::from(value_bytes));
        (makes_sense && is_right && key.len() == usize::from(key_bytes)).then_some(Carried {
            outcome,
            passed: pages,
            stop,
            key,
            value,
        })
    }
}
