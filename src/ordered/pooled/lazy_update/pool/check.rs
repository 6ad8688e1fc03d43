//! The invariants of the pool, walked.

use super::{Group, Pool};
use crate::check::{CheckReport, Invariant, message};
use crate::ordered::bplus::LeafSpan;
use alloc::vec;

impl Pool {
    /// Checks P1 and P4, and hands every request with its group's bounds to `visit`.
    pub(in crate::ordered::pooled::lazy_update) fn check(&self, report: &mut CheckReport) {
        let mut sizes = vec![0u32; self.groups.len()];
        let mut next = self.first();
        let (mut requests, mut additions) = (0, 0);
        while let Some(slot) = next {
            additions += u32::from(self.requests[slot as usize].may_add());
            let group = self.group_of(slot);
            sizes[group as usize] += 1;
            requests += 1;
            if !self.contains(group, self.key(slot)) {
                let found = message!("the request lies outside its group {group}");
                report.violation(Invariant::P1, u64::from(slot), found);
            }
            next = self.after(slot);
        }
        if requests != self.len() {
            let found = message!("{requests} requests in order, {} in use", self.len());
            report.violation(Invariant::P1, 0, found);
        }
        if additions != self.additions {
            report.violation(Invariant::P5, 0, message!("{additions} additions, {} counted", self.additions));
        }
        let mut groups = 0;
        let mut next = self.first_group();
        while let Some(group) = next {
            groups += 1;
            if sizes[group as usize] != self.size(group) || self.size(group) == 0 {
                let found = message!("{} requests, {} counted", sizes[group as usize], self.size(group));
                report.violation(Invariant::P1, u64::from(group), found);
            }
            next = self.next_group(group);
        }
        if groups != self.group_count() {
            let found = message!("{groups} groups in rank, {} in use", self.group_count());
            report.violation(Invariant::P4, 0, found);
        }
    }

    /// The bounds of a group, for the checker.
    pub(in crate::ordered::pooled::lazy_update) fn span(&self, group: u32) -> LeafSpan {
        let Group { has_low, has_high, .. } = self.groups[group as usize];
        LeafSpan {
            low: has_low.then(|| self.bound(group, false).into()),
            high: has_high.then(|| self.bound(group, true).into()),
        }
    }
}
