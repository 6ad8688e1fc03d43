//! The cells of a model, with power cuts and failures.

use std::collections::{BTreeMap, BTreeSet};

/// Faults of the cells. Pages and blocks are those of the whole chip.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// Pages whose programs fail.
    pub failing_programs: BTreeSet<u32>,
    /// Blocks whose erases fail.
    pub failing_erases: BTreeSet<u32>,
    /// Wrong bits in each 512 bytes of a page, at every read.
    pub wrong_bits: BTreeMap<u32, u8>,
}

/// A page that is not erased.
#[derive(Clone, Debug)]
struct Page {
    bytes: Vec<u8>,
    /// A cut left it half programmed.
    is_torn: bool,
}

/// The cells of the whole chip, with their faults.
#[derive(Debug)]
pub(super) struct Cells {
    pages: BTreeMap<u32, Page>,
    /// By block: one more than the last page that was programmed.
    ends: BTreeMap<u32, u32>,
    pages_per_block: u32,
    pub(super) trouble: Trouble,
    /// Programs and erases so far.
    pub(super) operations: u64,
    pub(super) cut_at: Option<u64>,
}

/// How a program or an erase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Failed,
    /// The power was cut.
    Cut,
}

impl Cells {
    pub(super) fn new(pages_per_block: u32) -> Cells {
        let (pages, ends, trouble) = (BTreeMap::new(), BTreeMap::new(), Trouble::default());
        Cells { pages, ends, pages_per_block, trouble, operations: 0, cut_at: None }
    }

    /// Makes the first page of a block this one.
    pub(super) fn mark(&mut self, block: u32, bytes: Vec<u8>) {
        self.pages.insert(block * self.pages_per_block, Page { bytes, is_torn: false });
    }

    /// Contents of a page that is not erased, and the wrong bits per 512 bytes. A torn page has one more than
    /// `strength`, which is the most that the ECC corrects.
    pub(super) fn read(&self, page: u32, strength: u8) -> Option<(&[u8], u8)> {
        let found = self.pages.get(&page)?;
        let wrong = self.trouble.wrong_bits.get(&page).copied().unwrap_or(0);
        Some((&found.bytes, if found.is_torn { strength + 1 } else { wrong }))
    }

    /// True if the power is cut in this operation.
    fn is_cut(&mut self) -> bool {
        let cut = self.cut_at == Some(self.operations);
        self.operations += 1;
        cut
    }

    /// Programs a page. With ECC, pages must be erased and programmed in order.
    pub(super) fn program(&mut self, page: u32, mut bytes: Vec<u8>, has_ecc: bool) -> End {
        let (block, in_block) = (page / self.pages_per_block, page % self.pages_per_block);
        if has_ecc {
            assert!(!self.pages.contains_key(&page), "page {page} is programmed twice");
            let end = self.ends.get(&block).copied().unwrap_or(0);
            assert!(in_block >= end, "page {in_block} of block {block} after page {}", end.wrapping_sub(1));
            self.ends.insert(block, in_block + 1);
        }
        let cut = self.is_cut();
        let failed = self.trouble.failing_programs.remove(&page);
        let before = self.pages.get(&page);
        if let Some(before) = before {
            bytes.iter_mut().zip(&before.bytes).for_each(|(new, old)| *new &= old);
        }
        if cut || failed {
            let half = bytes.len() / 2;
            bytes[half..].fill(0xff);
        }
        // A mark beside what the ECC covers changes nothing for it.
        let is_torn = cut || failed || before.is_some_and(|page| page.is_torn);
        self.pages.insert(page, Page { bytes, is_torn });
        match cut {
            true => End::Cut,
            false if failed => End::Failed,
            false => End::Done,
        }
    }

    pub(super) fn erase(&mut self, block: u32) -> End {
        if self.trouble.failing_erases.contains(&block) {
            return End::Failed;
        }
        let first = block * self.pages_per_block;
        let is_cut = self.is_cut();
        self.ends.remove(&block);
        for page in first..first + self.pages_per_block {
            match self.pages.get_mut(&page) {
                // Half of the cells have been emptied.
                Some(found) if is_cut && page % 2 == 0 => found.is_torn = true,
                Some(_) => drop(self.pages.remove(&page)),
                None => {}
            }
        }
        if is_cut {
            self.ends.insert(block, self.pages_per_block);
        }
        if is_cut { End::Cut } else { End::Done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_leaves_half_a_page_and_half_a_block() {
        let mut cells = Cells::new(4);
        cells.trouble.failing_programs.insert(1);
        assert_eq!(cells.program(0, vec![5; 4], true), End::Done);
        assert_eq!(cells.program(1, vec![5; 4], true), End::Failed);
        cells.cut_at = Some(2);
        assert_eq!(cells.program(2, vec![5; 4], true), End::Cut);
        assert_eq!(cells.read(0, 8), Some(([5; 4].as_slice(), 0)));
        assert_eq!(cells.read(2, 8), Some(([5, 5, 0xff, 0xff].as_slice(), 9)));
        cells.cut_at = Some(3);
        assert_eq!(cells.erase(0), End::Cut);
        assert_eq!((cells.read(0, 8).map(|page| page.1), cells.read(1, 8)), (Some(9), None));
        assert_eq!((cells.erase(0), cells.read(0, 8), cells.operations), (End::Done, None, 5));
    }
}
