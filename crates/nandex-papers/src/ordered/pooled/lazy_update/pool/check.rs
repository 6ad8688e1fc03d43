//! The invariants of the pool, walked.

use super::Pool;
use alloc::vec;
use nandex::check::{CheckReport, Invariant, message};

impl Pool {
    /// Checks P1, P4 and P5.
    pub(in crate::ordered::pooled::lazy_update) fn check(&self, report: &mut CheckReport) {
        let mut sizes = vec![0u32; self.groups.capacity()];
        for slot in self.requests.walk(self.requests.first()) {
            let group = self.requests.group_of(slot);
            sizes[group as usize] += 1;
            if !self.groups.contains(group, self.requests.key(slot)) {
                let found = message!("the request lies outside its group {group}");
                report.violation(Invariant::P1, u64::from(slot), found);
            }
        }
        self.requests.check(report);
        self.groups.check(&sizes, report);
    }
}
