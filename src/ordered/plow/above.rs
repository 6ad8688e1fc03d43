//! Records of the level above, as a step merges them. Records of the memtable are merged from where they are.
//! Records of a level are copied, a part of a page at a time, into the part of the output page that is not
//! written yet.
//!
//! The output page grows from both ends, and a record that went into it is no longer needed as a copy. If the
//! ends meet copies all the same, the copies furthest ahead are given up: they may belong to the next page.

use super::coder::{Builder, FIXED};
use super::level::{Part, Place};
use super::merge::{Step, copy_record};
use super::page::HEADER_BYTES;
use super::scratch::Held;
use super::sight::Sight;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::units::Ppn;
use alloc::vec::Vec;
use core::ops::Range;

/// Records of the level above: those of the memtable, or copies of a level's records in the output page.
#[derive(Debug)]
pub(super) struct Above<'b> {
    /// Index of the memtable's next record.
    pub(super) at: usize,
    /// Number of copies that are not merged yet. `from` is the place of the first one in the page's body.
    pub(super) held: usize,
    from: usize,
    /// Source of the copies: the page, the index behind the last record copied, and whether that record was
    /// the page's last.
    copied: Option<(Place, usize, bool)>,
    /// Page and record at which copying continues.
    pub(super) next: Option<(Place, usize)>,
    /// Pages whose records were all copied.
    pub(super) passed: &'b mut Vec<(Part, Ppn)>,
    /// The next record, if it was taken out of the output page (`is_kept`).
    pub(super) record: Held<'b>,
    /// True if the next record is in `record` and no longer in the page: the last copy gives way too.
    pub(super) is_kept: bool,
}

impl<'b> Above<'b> {
    /// No records yet, with a buffer for one, and a list of pages.
    pub(super) fn of(record: Held<'b>, passed: &'b mut Vec<(Part, Ppn)>) -> Above<'b> {
        Above { at: 0, held: 0, from: 0, copied: None, next: None, passed, record, is_kept: false }
    }

    pub(super) fn restart(&mut self) {
        (self.at, self.held, self.from, self.is_kept) = (0, 0, 0, false);
        (self.copied, self.next) = (None, None);
        self.passed.clear();
        self.record.clear();
    }

    /// Pages all of whose records were merged. The records of the last page copied may still be there.
    pub(super) fn passed(&self) -> &[(Part, Ppn)] {
        let is_last_whole = self.copied.is_some_and(|(.., is_whole)| is_whole);
        let waits = is_last_whole && (self.held > 0 || self.is_kept);
        &self.passed[..self.passed.len() - usize::from(waits)]
    }

    /// Bytes of the body that the copies take.
    pub(super) fn hole(&self, stride: usize) -> Range<usize> {
        self.from..self.from + self.held * stride
    }

    fn drop_first(&mut self, body: &mut [u8], stride: usize) {
        body[self.from..self.from + stride].fill(0);
        self.from += stride;
        self.held -= 1;
    }

    /// Gives up half of the copies, the last ones, but keeps at least one. False if there is only one.
    pub(super) fn give_up_half(&mut self, body: &mut [u8], stride: usize) -> bool {
        let Some((place, end, is_whole)) = self.copied.filter(|_| self.held > 1) else { return false };
        let gone = self.held / 2;
        let whole = self.hole(stride);
        self.held -= gone;
        body[self.hole(stride).end..whole.end].fill(0);
        if is_whole {
            self.passed.pop();
        }
        self.copied = Some((place, end - gone, false));
        self.next = Some((place, end - gone));
        true
    }

    /// Moves the only copy from the page to `record`. Returns false if it is there already, or if there is
    /// none.
    pub(super) fn keep_last(&mut self, body: &mut [u8], stride: usize) -> bool {
        if self.held != 1 {
            return false;
        }
        // A copy in hand has left `record`, and the last one in the page is the same.
        if self.record.is_there() {
            self.record.set(&body[self.hole(stride)]);
        }
        self.drop_first(body, stride);
        self.is_kept = true;
        true
    }

    /// Moves the copies to where the page has most room to grow at both ends. `used` are the bytes that the
    /// page takes at its two ends.
    pub(super) fn move_away(&mut self, body: &mut [u8], used: (usize, usize), stride: usize) {
        let old = self.hole(stride);
        let Some(free) = (body.len() - used.1).checked_sub(used.0 + old.len()) else { return };
        // The front gets three quarters of the room: it grows faster than the high parts at the end.
        let from = used.0 + free - free / 4;
        body.copy_within(old.clone(), from);
        self.from = from;
        let new = self.hole(stride);
        old.filter(|byte| !new.contains(byte)).for_each(|byte| body[byte] = 0);
    }
}

impl<N: Nand> Sight<'_, N> {
    /// Copies the next records of a page of the level above, from the beginning of the step on. False if the
    /// page being written has no room for any.
    pub(super) fn copy_above(&mut self, step: &mut Step<'_>, upper: usize) -> Result<bool, IndexFault> {
        let stride = self.medium.stride();
        let Some((place, index)) = step.above.next else { return Ok(true) };
        let body = self.medium.output.len() - HEADER_BYTES;
        let key_bytes = usize::from(self.medium.record.key_bytes);
        let used = step.builder.as_ref().map_or((FIXED + key_bytes, 0), Builder::used);
        // A record and its high part must still fit before the first copy.
        let room = body.saturating_sub(used.0 + used.1 + stride + 16) / stride;
        if room == 0 {
            return Ok(false);
        }
        let is_there = self.medium.holds(self.stock.levels[upper].page(place));
        let ppn = self.load_place(upper, place)?;
        step.reads += usize::from(!is_there);
        let (view, output) = self.medium.view_and_output()?;
        let count = view.count();
        // Records below the level's own cursor in its first old page are dead.
        let from = &self.stock.levels[step.level].cursor;
        let own = if place.0 == Part::Old { &self.stock.levels[upper].cursor } else { from };
        let start = index.max(view.find(own.max(from)).0);
        let end = count.min(start + step.bounds.slice.min(room));
        let above = &mut step.above;
        (above.from, above.held) = (used.0, end.saturating_sub(start));
        let at = HEADER_BYTES + above.from;
        for (i, copy) in (start..end).zip(output[at..].chunks_mut(stride)) {
            copy_record(&view, i, copy, key_bytes);
        }
        above.move_away(&mut output[HEADER_BYTES..], used, stride);
        let is_whole = end >= count;
        above.copied = Some((place, end, is_whole));
        above.next = Some((place, end)).filter(|_| !is_whole);
        if is_whole {
            if above.held > 0 {
                // Pages passed are few, mostly one.
                above.passed.reserve_exact(1);
                above.passed.push((place.0, ppn));
            }
            above.next = self.stock.levels[upper].next(place).map(|place| (place, 0));
        }
        Ok(true)
    }

    /// True if the level above must be read to know which record is next.
    pub(super) fn needs_above(&self, step: &Step<'_>, upper: usize) -> bool {
        let (above, below) = (&step.above, &step.below);
        if above.held > 0 || above.is_kept {
            return false;
        }
        match above.next {
            None => false,
            Some((_, index)) if index > 0 || !below.is_there => true,
            // A page that begins after the next record below may wait.
            Some((place, _)) => {
                let run = self.stock.levels[upper].run(place.0);
                let reached = run.find(super::fences::position(&below.key));
                place.0 == Part::New && self.stock.levels[upper].part_of(&below.key) == Part::Old
                    || self.stock.levels[upper].part_of(&below.key) == place.0
                        && reached.is_some_and(|(_, last)| place.1 <= last)
            }
        }
    }

    pub(super) fn above_key<'a>(&'a self, step: &'a Step<'_>) -> Option<&'a [u8]> {
        match step.level {
            0 => (step.above.at < self.stock.memtable.len()).then(|| self.stock.memtable.key(step.above.at)),
            _ if step.above.is_kept => Some(&step.above.record[..self.medium.record.key_bytes.into()]),
            _ => (step.above.held > 0).then(|| self.copied_key(&self.medium.output, &step.above, 0)),
        }
    }

    pub(super) fn copied_key<'a>(&self, page: &'a [u8], above: &Above<'_>, i: usize) -> &'a [u8] {
        let at = HEADER_BYTES + above.from + i * self.medium.stride();
        &page[at..at + usize::from(self.medium.record.key_bytes)]
    }

    /// Moves the first copy from the page to `record`, so that the page can be written to while the copy is
    /// read.
    pub(super) fn take_copy(&self, page: &[u8], above: &mut Above<'_>) {
        if above.is_kept {
            return;
        }
        let at = HEADER_BYTES + above.from;
        above.record.set(&page[at..at + self.medium.stride()]);
    }

    pub(super) fn advance_above(&mut self, step: &mut Step<'_>) {
        let stride = self.medium.stride();
        match step.level {
            0 => step.above.at += 1,
            _ if step.above.is_kept => step.above.is_kept = false,
            _ => step.above.drop_first(&mut self.medium.output[HEADER_BYTES..], stride),
        }
    }
}
