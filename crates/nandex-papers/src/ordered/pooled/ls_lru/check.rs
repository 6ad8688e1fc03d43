//! The checker of the buffer, and the statistics of the index.

use super::LsLruTree;
use crate::ordered::buffered::Below;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{CheckReport, IndexError, Invariant, message};
use nandex::nand::Cause;
use nandex::store::PageStore;

use super::units::{UNCOUNTED, Waiting};

impl<S: PageStore> LsLruTree<S> {
    /// Checks U1, U2, U5 and U7: the tables of the buffer against each other.
    pub(super) fn check_buffer(&self, report: &mut CheckReport) {
        let buffer = self.buffer();
        if !buffer.units.is_sound() {
            report.violation(Invariant::U1, 0, "places, sizes and lists of the units disagree".to_string());
        }
        let (mut cells, mut waiting) = (0, Waiting::default());
        for unit in buffer.units.all() {
            let (lpn, part) = (buffer.units.get(unit).lpn, buffer.units.part(unit));
            cells += self.cells.cells_for(part.len as usize);
            waiting.units += u64::from(part.len > 0);
            waiting.entries += u64::from(part.len);
            waiting.adds += u64::from(buffer.units.get(unit).adds);
            if buffer.units.get(unit).state().is_none() {
                report.violation(Invariant::U1, u64::from(lpn.0), "a unit without parts".to_string());
            }
            if !self.cells.is_sound(unit, part) {
                let found = "the dirty part is in disorder".to_string();
                report.violation(Invariant::U2, u64::from(lpn.0), found);
            }
        }
        if waiting != buffer.units.waiting() {
            let found = message!("{waiting:?} wait, {:?} are counted", buffer.units.waiting());
            report.violation(Invariant::U7, 0, found);
        }
        let (slabs, used) = buffer.slab_use();
        let is_in_use = used.iter().sum::<usize>() == slabs && used[2] == self.cells.slab_count();
        if cells != self.cells.used_cells() || !is_in_use {
            let found = message!("{cells} cells of {}, slabs {used:?} of {slabs}", self.cells.used_cells());
            report.violation(Invariant::U5, 0, found);
        }
    }

    /// Checks U2, U3, U4 and U6: the buffer's facts about the tree against the tree. Also adds up the
    /// records that the buffer adds and removes.
    pub(super) fn check_against_tree(&mut self, report: &mut CheckReport) -> Result<(), IndexError> {
        let units: Vec<u32> = self.buffer().units.all().collect();
        for unit in units {
            let lpn = self.buffer().units.get(unit).lpn;
            self.check_copy(unit, report)?;
            for at in 0..self.buffer().units.part(unit).len as usize {
                let part = self.buffer().units.part(unit);
                let entry = self.cells.entry(self.cells.nth(part, at));
                let (is_put, below) = (entry.change.value.is_some(), entry.below);
                if self.tree.leaf_of(entry.change.key, Cause::Check)? != lpn {
                    report.violation(Invariant::U2, u64::from(lpn.0), "an entry of another leaf".to_string());
                }
                let (found, entries) = self.tree.leaf_value(entry.change.key, lpn, Cause::Check)?;
                let is_present = found.is_some();
                let expected = if is_present { Below::Present } else { Below::Absent };
                if ![expected, Below::Unknown].contains(&below) {
                    let found = "the leaf holds the key, or does not".to_string();
                    report.violation(Invariant::U4, u64::from(lpn.0), found);
                }
                let base = self.buffer().units.get(unit).base;
                if base != UNCOUNTED && usize::from(base) != entries {
                    let found = message!("{base} entries are counted, not {entries}");
                    report.violation(Invariant::U6, u64::from(lpn.0), found);
                }
                report.records += u64::from(is_put && !is_present);
                report.records -= u64::from(!is_put && is_present);
            }
        }
        Ok(())
    }

    fn check_copy(&mut self, unit: u32, report: &mut CheckReport) -> Result<(), IndexError> {
        let mut page = vec![0; self.buffer().page_bytes()];
        if !self.buffer_mut().read_below(unit, &mut page)? {
            let lpn = self.buffer().units.get(unit).lpn;
            report.violation(Invariant::U3, u64::from(lpn.0), "the copy is not the base node".to_string());
        }
        Ok(())
    }

    /// The counters under their names in results.
    pub(super) fn metrics(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let (buffer, counts) = (self.buffer().counts, self.counts);
        let [clean, semi_clean, dirty, inner] = self.buffer().states();
        [
            ("units_clean", clean),
            ("units_semi_clean", semi_clean),
            ("units_dirty", dirty),
            ("units_inner", inner),
            ("waiting_entries", self.waiting_entries()),
            ("buffer_hits", buffer.hits),
            ("buffer_misses", buffer.misses),
            ("commit_reads", buffer.commit_reads),
            ("clean_evictions", buffer.clean_evictions),
            ("clean_part_commits", buffer.clean_part_commits),
            ("write_minimized_commits", counts.write_minimized_commits),
            ("victims", counts.victims),
            ("multi_split_commits", counts.multi_split_commits),
            ("full_merges", counts.full_merges),
            ("hot_evictions", counts.hot_evictions),
            ("committed_entries", counts.committed_entries),
            ("regroupings", counts.reshapings),
            ("cancellations", counts.cancellations),
            ("bypasses", counts.bypasses),
        ]
        .into_iter()
    }
}
