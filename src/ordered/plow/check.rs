//! Checker of the invariants, for every page of every level.

use super::Core;
use super::blocks::State;
use super::level::{Part, Place};
use super::sight::Sight;
use super::space::Stock;
use crate::check::{CheckReport, Invariant, message};
use crate::fault::IndexFault;
use crate::nand::Nand;
use crate::ordered::Direction;
use crate::units::{Pbn, Ppn};
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

impl<N: Nand> Core<N> {
    pub(super) fn check_all(&mut self) -> Result<CheckReport, IndexFault> {
        let mut report = CheckReport::default();
        for level in 0..self.stock.levels.len() {
            self.sight().check_level(level, &mut report)?;
        }
        self.stock.check_blocks(&mut report);
        for i in 1..self.stock.memtable.len() {
            if self.stock.memtable.key(i - 1) >= self.stock.memtable.key(i) {
                let found = message!("record {i} of the memtable is not above the one before it");
                report.violation(Invariant::I5, i as u64, found);
            }
        }
        let clean = self.stock.memtable.clean_records();
        self.sight().check_clean(clean, &mut report)?;
        let mut count = 0;
        let mut before: Option<Vec<u8>> = None;
        let mut is_sorted = true;
        self.sight().walk((Bound::Unbounded, Bound::Unbounded), Direction::Ascending, &mut |key, _| {
            count += 1;
            is_sorted &= before.as_ref().is_none_or(|before| &before[..] < key);
            before = Some(key.to_vec());
            ControlFlow::Continue(())
        })?;
        if !is_sorted {
            report.violation(Invariant::I3, 0, message!("{count} records are not in order"));
        }
        report.records = count;
        Ok(report)
    }
}

impl<N: Nand> Sight<'_, N> {
    /// Checks that each clean record equals the record found on flash (I10).
    fn check_clean(
        &mut self,
        clean: Vec<(Vec<u8>, Vec<u8>)>,
        report: &mut CheckReport,
    ) -> Result<(), IndexFault> {
        let mut found = alloc::vec![0; self.medium.record.value_bytes.into()];
        for (i, (key, value)) in clean.into_iter().enumerate() {
            let is_there =
                self.stock.memtable.find(&key).is_err() && self.look_up(&key, Some(&mut found))?.found;
            if !is_there || found != value {
                let found = message!("clean record {i} is not what is on flash");
                report.violation(Invariant::I10, i as u64, found);
            }
        }
        Ok(())
    }

    fn check_level(&mut self, level: usize, report: &mut CheckReport) -> Result<(), IndexFault> {
        let mut place = self.stock.levels[level].first();
        let mut before: Option<Vec<u8>> = None;
        let cursor = self.stock.levels[level].cursor.clone();
        while let Some(here) = place {
            let ppn = self.load_place(level, here)?;
            report.nodes += 1;
            if self.stock.levels.iter().filter(|level| level.uses(ppn, Ppn(ppn.0 + 1))).count() > 1 {
                report.violation(Invariant::I9, ppn.0.into(), message!("{ppn} is a page of two levels"));
            }
            let view = self.medium.view()?;
            let keys: Vec<Vec<u8>> = (0..view.count()).map(|i| view.key_owned(i)).collect();
            let has_tombstones = (0..view.count()).any(|i| view.is_tombstone(i));
            if !keys.is_sorted_by(|a, b| a < b) {
                report.violation(Invariant::I3, ppn.0.into(), message!("the keys of {ppn} do not ascend"));
            }
            if has_tombstones && level + 1 == self.stock.levels.len() {
                let found = message!("{ppn} of the last level holds a tombstone");
                report.violation(Invariant::I4, ppn.0.into(), found);
            }
            // Keys below the cursor in the first old page are dead.
            let live = match here {
                (Part::Old, 0) => keys.partition_point(|key| key[..] < cursor[..]),
                _ => 0,
            };
            if live == keys.len() {
                report.violation(Invariant::I3, ppn.0.into(), message!("every record of {ppn} is dead"));
                place = self.stock.levels[level].next(here);
                continue;
            }
            if before.as_ref().is_some_and(|before| *before >= keys[live]) {
                let found = message!("{ppn} does not follow the page before it");
                report.violation(Invariant::I3, ppn.0.into(), found);
            }
            if here.0 == Part::New && keys[keys.len() - 1][..] >= cursor[..] {
                let found = message!("{ppn} reaches beyond the cursor of its level");
                report.violation(Invariant::I3, ppn.0.into(), found);
            }
            if level == 0 && keys[live..].iter().any(|key| self.stock.levels.is_filtered(level, key)) {
                report.violation(Invariant::I9, ppn.0.into(), message!("a filter denies a key of {ppn}"));
            }
            if !self.leads_to(level, here, &keys[live..])? {
                let found = message!("a look-up of a key of {ppn} does not come there");
                report.violation(Invariant::I9, ppn.0.into(), found);
            }
            before = keys.last().cloned();
            place = self.stock.levels[level].next(here);
        }
        Ok(())
    }

    /// True if the fences lead to a page for its first and its last key. Then they do so for the keys
    /// between, too: they never lead a higher key to a lower group, and within a group the search uses the
    /// keys of its pages.
    fn leads_to(&mut self, level: usize, place: Place, keys: &[Vec<u8>]) -> Result<bool, IndexFault> {
        for key in keys.first().into_iter().chain(keys.last()) {
            if self.seek(level, key)? != Some(place) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Stock {
    fn check_blocks(&self, report: &mut CheckReport) {
        let pages = self.geometry.pages_per_block;
        for block in (0..self.geometry.blocks).map(Pbn) {
            let is_free = !matches!(self.space.blocks.state(block), State::Used | State::Failing);
            let is_commit = self.commits.blocks.contains(&block);
            let (from, to) = (Ppn(block.0 * pages), Ppn(block.0 * pages + pages));
            let is_owned = self.levels.iter().any(|level| level.uses(from, to));
            if is_free && (is_owned || is_commit) {
                report.violation(Invariant::I2, block.0.into(), message!("{block} is in use, and free"));
            }
            if is_commit && is_owned {
                let found = message!("{block} holds commit pages and pages of a level");
                report.violation(Invariant::I9, block.0.into(), found);
            }
            let is_open = self.levels.iter().any(|level| level.open.is_some_and(|open| open.0 == block));
            let is_place = self.space.blocks.anchor.as_ref().is_some_and(|anchor| anchor.is_place(block));
            if !is_free && !is_commit && !is_open && !is_owned && !is_place {
                report.violation(Invariant::I9, block.0.into(), message!("{block} is in use for nothing"));
            }
        }
    }
}
