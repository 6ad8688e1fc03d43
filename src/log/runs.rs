//! Pages in the order of their programming, stored as runs: pages that follow each other in a block and have
//! consecutive numbers. A thousand pages since a checkpoint make few runs.

use crate::sort;
use crate::units::Ppn;
use alloc::vec::Vec;

/// A run of consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    /// Number of the first page.
    number: u32,
    first: Ppn,
    count: u32,
}

/// List of pages, each with a number of its own.
#[derive(Clone, Debug, Default)]
pub struct Runs(Vec<Run>);

impl Runs {
    /// Adds a page at the end.
    pub(super) fn push(&mut self, number: u32, ppn: Ppn) {
        match self.0.last_mut() {
            Some(run) if number == run.number + run.count && ppn.0 == run.first.0 + run.count => {
                run.count += 1;
            }
            _ => self.0.push(Run { number, first: ppn, count: 1 }),
        }
    }

    /// Drops the pages with numbers up to this one.
    pub(super) fn drop_to(&mut self, number: u32) {
        for run in &mut self.0 {
            let dropped = number.saturating_add(1).saturating_sub(run.number).min(run.count);
            *run = Run {
                number: run.number + dropped,
                first: Ppn(run.first.0 + dropped),
                count: run.count - dropped,
            };
        }
        self.0.retain(|run| run.count > 0);
    }

    /// Sorts the pages by their numbers.
    pub(super) fn sort(&mut self) {
        sort::total(&mut self.0);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// True if the list holds no page.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the pages.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Ppn> + '_ {
        self.0.iter().flat_map(|run| (run.first.0..run.first.0 + run.count).map(Ppn))
    }

    /// Number of pages.
    pub fn len(&self) -> usize {
        self.0.iter().map(|run| run.count as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn pages_come_in_the_order_of_their_numbers() {
        let mut runs = Runs::default();
        let all = [(7, 20), (8, 21), (9, 23), (10, 24), (12, 25), (1, 3), (2, 4), (5, 5)];
        all.iter().for_each(|&(number, ppn)| runs.push(number, Ppn(ppn)));
        assert_eq!((runs.len(), runs.0.len()), (8, 5));
        runs.sort();
        let pages = |runs: &Runs| runs.iter().map(|ppn| ppn.0).collect::<Vec<_>>();
        assert_eq!(pages(&runs), [3, 4, 5, 20, 21, 23, 24, 25]);
        runs.drop_to(7);
        assert_eq!(pages(&runs), [21, 23, 24, 25]);
        runs.drop_to(8);
        assert_eq!((pages(&runs), runs.len()), (vec![23, 24, 25], 3));
        runs.drop_to(u32::MAX);
        assert!(runs.is_empty());
    }
}
