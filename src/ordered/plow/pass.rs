//! Passing pages in which nothing waits.
//!
//! Keys with locality leave most of the first level without a waiting record. A step there would write a page
//! anew and give no room: with a full memtable one operation would make step after step, until the sweep
//! arrives where records wait. So those pages stay where they are and count as pages of this round, and the
//! cursor goes to the page in which the next record belongs.
//!
//! The records below the cursor are dead in the page around it, so that page does not stay: a step writes
//! its rest, up to the next page. An operation then makes two steps, one of which gives room.
//!
//! A few keys are held for a moment, and the extents in which the two lists part. RAM for that is at most a
//! third of the share of the fences, or nothing is passed.
//!
//! Pages that stay part the extents of the level. If the root grows too long by that, or blocks are short,
//! the sweep goes through every page again.

use super::Core;
use super::config::Shares;
use super::drain::Drain;
use super::fences::{SPARE_BYTES, position};
use super::level::Part;
use super::levels::Levels;
use super::sight::Sight;
use super::space::Need;
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::ordered::RecordFormat;
use crate::ordered::key::Key;

/// Fewer pages than this are not passed: the step that writes the rest of a page passes as many.
const PAGES_MIN: usize = 2;
/// Keys held while pages are passed, with what an allocation takes beside each.
const KEYS: usize = 6;
const ALLOCATION_BYTES: usize = 16;
/// At most a third of the fences' RAM is taken.
const PART: usize = 3;

impl<N: Nand> Core<N> {
    /// Moves the first cursor to the page in which the next record waits, if that lies far enough ahead.
    pub(super) fn pass_idle_pages(&mut self) -> Result<(), IndexFault> {
        let may_pass =
            cfg!(feature = "full") && self.stock.levels.drain == Drain::Off && self.stock.has(Need::Ahead);
        if !may_pass
            || !self.sight().is_idle_ahead()?
            || !self.stock.levels.have_ram_to_pass(&self.planner.shares, self.medium.record)
            || !self.begin_page()?
        {
            return Ok(());
        }
        // The rest of this round, and the next one from its beginning on.
        for _ in 0..2 {
            let cursor = &self.stock.levels[0].cursor;
            let (at, old) = (self.stock.memtable.lower_bound(cursor), self.stock.levels[0].old.pages());
            if at < self.stock.memtable.len() {
                let key = Key::of(self.stock.memtable.key(at));
                if let Some((Part::Old, page)) = self.sight().seek(0, &key)?.filter(|place| place.1 > 0) {
                    let begin = self.medium.view()?.key_at(0);
                    self.pass(page);
                    self.stock.levels[0].move_to(&begin);
                }
                break;
            }
            self.pass(old);
            self.stock.levels[0].wrap();
        }
        Ok(())
    }

    /// Writes the rest of the page around the first cursor, unless the cursor stands at the begin of a page.
    /// False if it does not stand there afterwards.
    fn begin_page(&mut self) -> Result<bool, IndexFault> {
        self.sight().load_place(0, (Part::Old, 0))?;
        if self.medium.view()?.order(0, &self.stock.levels[0].cursor).is_ge() {
            return Ok(true);
        }
        self.sight().load_place(0, (Part::Old, 1))?;
        let end = self.medium.view()?.key_at(0);
        if !self.can_step(0)? {
            return Ok(false);
        }
        let cause = self.medium.begin_merging();
        let done = self.step_once(0, Some(&end));
        self.medium.cause = cause;
        done.map(|_| self.stock.levels[0].cursor[..] == *end)
    }

    /// Makes the first `pages` old pages of the first level pages of this round. Its cursor must then move.
    fn pass(&mut self, pages: usize) {
        let pages_per_block = self.stock.geometry.pages_per_block;
        let level = &mut self.stock.levels[0];
        for _ in 0..pages {
            let Some((page, low)) = level.old.first() else { break };
            level.old.remove(page);
            level.new.push(page, low, !page.0.is_multiple_of(pages_per_block));
        }
        self.counters.passed = self.counters.passed.wrapping_add(pages as u32);
        self.stock.commits.dirty = true;
        self.stock.levels.keep_short(&self.planner.shares);
    }
}

impl Levels {
    /// True if there is RAM for a few extents more, and for keys.
    fn have_ram_to_pass(&mut self, shares: &Shares, record: RecordFormat) -> bool {
        let of_keys = KEYS * (usize::from(record.key_bytes) + ALLOCATION_BYTES);
        let besides = 2 * SPARE_BYTES + of_keys;
        besides * PART <= shares.fences && self.keep_spare(shares, besides)
    }
}

impl<N: Nand> Sight<'_, N> {
    /// True if nothing waits in the page around the first cursor nor in the next one, and there are such
    /// pages. The fences are asked first, then the page to which they lead.
    fn is_idle_ahead(&mut self) -> Result<bool, IndexFault> {
        let (level, memtable) = (&self.stock.levels[0], &self.stock.memtable);
        if level.old.pages() < PAGES_MIN || memtable.len() == 0 {
            return Ok(false);
        }
        let at = memtable.lower_bound(&level.cursor);
        if at == memtable.len() {
            return Ok(true);
        }
        let (key, to) = (memtable.key(at), position(memtable.key(at)));
        // Fences do not tell keys of equal positions apart.
        let is_far =
            to > position(&level.cursor) && level.old.find(to).is_some_and(|(first, _)| first >= PAGES_MIN);
        if !is_far {
            return Ok(false);
        }
        let key = Key::of(key);
        Ok(self.seek(0, &key)?.is_some_and(|place| place.0 == Part::Old && place.1 >= PAGES_MIN))
    }
}
