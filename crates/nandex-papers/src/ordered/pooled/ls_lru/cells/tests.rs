//! Chains of cells compared with sorted maps, and tests that a search finds the posts.

use super::*;
use crate::ordered::buffered::Below;
use crate::ordered::ls_lru::units::Sizes;
use crate::ordered::ls_lru::{CommitPolicy, Inner, LeafSplit, LsLruConfig};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use nandex::units::Lpn;
use proptest::prelude::*;

const PAGE_BYTES: usize = 4096;

struct Chains {
    cells: Cells,
    units: Units,
    /// The slot of each unit, and the entries that it must have.
    models: Vec<(u32, BTreeMap<Vec<u8>, u32>)>,
}

impl Chains {
    fn new(record: RecordFormat, chains: u32) -> Chains {
        let sizes = Sizes {
            page_bytes: PAGE_BYTES,
            counted: LsLruConfig::new(record, 0).counted(),
            buffer_bytes: 1 << 20,
            leaf_capacity: 100,
            window_percent: 50,
            inner: Inner::Kept,
            commit: CommitPolicy::WriteMinimized,
            split: LeafSplit::Multi,
        };
        let mut units = Units::new(sizes, 1, 8);
        units.grow();
        let models = (0..chains).map(|lpn| (units.make(Lpn(lpn)), BTreeMap::new())).collect();
        Chains { cells: Cells::new(record, PAGE_BYTES, 100), units, models }
    }

    fn key(&self, n: u32) -> Vec<u8> {
        let width = usize::from(self.cells.record.key_bytes);
        [&vec![0; width.saturating_sub(4)][..], &n.to_be_bytes()[4usize.saturating_sub(width)..]].concat()
    }

    fn insert(&mut self, chain: usize, n: u32) {
        let (unit, key) = (self.models[chain].0, self.key(n));
        if self.models[chain].1.insert(key.clone(), n).is_some() {
            return;
        }
        if !self.cells.has_room() {
            self.cells.give(vec![0xAA; PAGE_BYTES].into());
        }
        let value = vec![n as u8; usize::from(self.cells.record.value_bytes)];
        let below = [Below::Absent, Below::Present, Below::Unknown][n as usize % 3];
        let value = Some(&value[..]).filter(|_| !n.is_multiple_of(5));
        let entry = Entry { change: Change { key: &key, value }, below };
        self.cells.insert(&mut self.units, unit, &entry);
    }

    fn remove(&mut self, chain: usize, n: u32) {
        let (unit, key) = (self.models[chain].0, self.key(n));
        if self.models[chain].1.remove(&key).is_some() {
            self.cells.remove(&mut self.units, unit, &key);
        }
    }

    fn remove_first(&mut self, chain: usize, count: usize) {
        let (unit, model) = &mut self.models[chain];
        let count = count.min(model.len());
        (0..count).for_each(|_| drop(model.pop_first()));
        self.cells.remove_first(&mut self.units, *unit, count);
        while self.cells.take_spare().is_some() {}
    }

    /// Cells of a chain beyond its first, and posts that can be reached from the first.
    fn posts(&self, chain: usize) -> (usize, usize) {
        let part = self.units.part(self.models[chain].0);
        let next = |cell: &u32| self.cells.posts().next(self.cells.word(*cell));
        let named = core::iter::successors(Some(part.head).filter(|_| part.len > 0), next).skip(1).count();
        (self.cells.cells_for(part.len as usize).saturating_sub(1), named)
    }

    fn assert_sound(&self, sought: u32) {
        let key = self.key(sought);
        for (unit, model) in &self.models {
            let part = self.units.part(*unit);
            assert!(self.cells.is_sound(*unit, part));
            assert_eq!(part.len as usize, model.len());
            assert!(self.cells.changes(part).map(|change| change.key).eq(model.keys()));
            for (entry, n) in self.cells.entries(part).zip(model.values()) {
                assert_eq!(entry.change.value.is_some(), n % 5 > 0);
                assert_eq!(entry.below, [Below::Absent, Below::Present, Below::Unknown][*n as usize % 3]);
                assert!(entry.change.value.is_none_or(|value| value.iter().all(|byte| *byte == *n as u8)));
            }
            let (below, spot, order) = self.cells.search(part, &key);
            assert_eq!(below, model.range(..key.clone()).count());
            assert_eq!(order == Ordering::Equal, model.contains_key(&key));
            if below < model.len() {
                let nth = self.cells.nth(part, below);
                assert_eq!((spot.cell, spot.entry), (nth.cell, nth.entry));
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(usize, u32),
    Fill(usize, u32, u32),
    Remove(usize, u32),
    RemoveFirst(usize, usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3usize, 0..2_000u32).prop_map(|(chain, n)| Step::Insert(chain, n)),
        3 => (0..3usize, 0..2_000u32, 1..150u32).prop_map(|(chain, n, many)| Step::Fill(chain, n, many)),
        4 => (0..3usize, 0..2_000u32).prop_map(|(chain, n)| Step::Remove(chain, n)),
        2 => (0..3usize, 0..300usize).prop_map(|(chain, count)| Step::RemoveFirst(chain, count)),
    ]
}

proptest! {
    #![proptest_config(crate::inputs::fixed(100))]

    #[test]
    fn chains_are_sorted_maps(
        record in proptest::sample::select(vec![(4, 4), (8, 8), (2, 1), (2, 2), (4, 8)]),
        steps in proptest::collection::vec(any_step(), 1..60),
        sought in 0..2_000u32,
    ) {
        let mut chains = Chains::new(RecordFormat::new(record.0, record.1), 3);
        for step in steps {
            match step {
                Step::Insert(chain, n) => chains.insert(chain, n),
                Step::Fill(chain, n, many) => (n..n + many).for_each(|n| chains.insert(chain, 7 * n % 2_000)),
                Step::Remove(chain, n) => chains.remove(chain, n),
                Step::RemoveFirst(chain, count) => chains.remove_first(chain, count),
            }
            chains.assert_sound(sought);
        }
    }
}

#[test]
fn every_16th_cell_is_named_whatever_moved() {
    let mut chains = Chains::new(RecordFormat::new(4, 4), 3);
    for n in 0..3_000 {
        chains.insert(n as usize % 3, n * 7_919 % 100_000);
    }
    for round in 0..30 {
        chains.remove_first(round % 3, 40 * round);
        (0..500).for_each(|n| chains.insert((round + 1) % 3, n * 104_729 % 100_000));
        for chain in 0..3 {
            let (cells, named) = chains.posts(chain);
            assert_eq!(named, cells / POST_CELLS, "{cells} cells beyond the first");
        }
        chains.assert_sound(50_000);
    }
}
