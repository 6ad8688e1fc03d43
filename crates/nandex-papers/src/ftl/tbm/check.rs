//! The walk over all buffer blocks that checks the TBM's invariants.

use super::page::{PageRead, read_page};
use super::{Buffer, Condition, Tbm};
use alloc::collections::BTreeSet;
use nandex::blocks::BlockState;
use nandex::check::{CheckReport, Invariant, message};
use nandex::fault::StoreFault;
use nandex::nand::{Cause, Nand};
use nandex::store::{PageStore, StoreError};

impl<S: PageStore, N: Nand> Tbm<S, N> {
    /// Checks K1 to K4. Its page reads are not counted.
    pub fn check(&mut self) -> Result<CheckReport, StoreError> {
        self.ready()?;
        let mut report = CheckReport::default();
        let (mut newest, mut is_whole) = (None, true);
        for (lbn, buffer) in self.summary.clone().iter() {
            report.nodes += 1;
            report.records += u64::from(buffer.pages());
            let last = self.check_buffer(lbn, buffer, &mut report)?;
            if last.map(|last| last.0) > newest {
                (newest, is_whole) = (last.map(|last| last.0), last.is_some_and(|last| last.1));
            }
        }
        if self.versions.has_valid()
            && self.condition == Condition::Ready
            && (newest.map(|version| version + 1) != Some(self.versions.next) || !is_whole)
        {
            let found = message!("the newest page is {newest:?}, the last of its group: {is_whole}");
            report.violation(Invariant::K4, self.versions.next - 1, found);
        }
        if self.summary.len() > self.settings.blocks {
            report.violation(Invariant::K2, 0, message!("{} buffer blocks", self.summary.len()));
        }
        let taken: BTreeSet<_> = self.blocks.in_state(BlockState::Open).collect();
        let used: BTreeSet<_> = self.summary.iter().map(|(_, buffer)| buffer.pbn).collect();
        if taken != used || used.len() != self.summary.len() as usize {
            report.violation(Invariant::K3, 0, message!("taken are {taken:?}, buffer blocks {used:?}"));
        }
        Ok(report)
    }

    /// Checks one buffer block. Returns the version of its last page, and whether that page is the last of
    /// its group.
    fn check_buffer(
        &mut self,
        lbn: u32,
        buffer: &Buffer,
        report: &mut CheckReport,
    ) -> Result<Option<(u64, bool)>, StoreFault> {
        let mut last: Option<(u64, bool)> = None;
        for page in 0..buffer.pages() {
            let ppn = self.geometry.page_at(buffer.pbn, page);
            let found = read_page(&mut self.nand, ppn, Cause::Check, &mut self.page)?;
            let PageRead::Page(tag) = found else {
                report.violation(Invariant::K1, u64::from(ppn.0), message!("{found:?}"));
                continue;
            };
            let place = tag.lpn % self.geometry.pages_per_block;
            let is_newest = buffer.find(place).is_some_and(|newest| newest.page >= page);
            let rises = last.is_none_or(|last| tag.version > last.0);
            if tag.lpn / self.geometry.pages_per_block != lbn || !is_newest || !rises {
                let found = message!("{tag:?} in the buffer block of {lbn}");
                report.violation(Invariant::K1, u64::from(ppn.0), found);
            }
            last = Some((tag.version, tag.is_last));
        }
        Ok(last)
    }
}
