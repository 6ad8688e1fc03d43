//! Counters of the operations of a chip, by cause.

use crate::nand::{ByCause, Cause};

/// Number of operations by cause, in the order of [`Cause::COUNTED`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Counters {
    /// Page reads by cause.
    pub page_reads: ByCause,
    /// Page programs by cause.
    pub page_programs: ByCause,
    /// Block erases by cause.
    pub block_erases: ByCause,
}

impl Counters {
    /// Returns the operations since `earlier`, an earlier state of the same counters.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let minus = |now: &ByCause, then: &ByCause| core::array::from_fn(|i| now[i] - then[i]);
        Counters {
            page_reads: minus(&self.page_reads, &earlier.page_reads),
            page_programs: minus(&self.page_programs, &earlier.page_programs),
            block_erases: minus(&self.block_erases, &earlier.block_erases),
        }
    }

    /// Page reads of all causes together.
    pub fn page_reads_total(&self) -> u64 {
        self.page_reads.iter().sum()
    }

    /// Page programs of all causes together.
    pub fn page_programs_total(&self) -> u64 {
        self.page_programs.iter().sum()
    }

    /// Block erases of all causes together.
    pub fn block_erases_total(&self) -> u64 {
        self.block_erases.iter().sum()
    }
}

/// Counts one operation. [`Cause::Check`] has no counter.
#[inline]
pub(super) fn count(row: &mut ByCause, cause: Cause) {
    if let Some(counter) = row.get_mut(cause as usize) {
        *counter += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_but_the_checker_has_its_counter() {
        let mut row = ByCause::default();
        for (place, cause) in Cause::COUNTED.into_iter().enumerate() {
            assert_eq!(cause as usize, place);
            count(&mut row, cause);
        }
        count(&mut row, Cause::Check);
        assert_eq!(row, [1; 9]);
    }

    #[test]
    fn differences_and_totals() {
        let mut before = Counters::default();
        before.page_reads[0] = 3;
        let mut after = before;
        after.page_reads[0] = 5;
        after.page_reads[7] = 1;
        after.block_erases[2] = 4;
        let done = after.since(&before);
        assert_eq!(
            (done.page_reads_total(), done.page_programs_total(), done.block_erases_total()),
            (3, 0, 4)
        );
    }
}
