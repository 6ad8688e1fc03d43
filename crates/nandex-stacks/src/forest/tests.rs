//! Tests of the forest and of shared stores, with trees and stores kept in RAM.

use super::*;
use nandex::rng::Rng;
use nandex::testing::{ORDERED, Store};
use nandex::{Cause, Lpn};
use std::collections::BTreeMap;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A map that reports a height of its own.
struct Tree(Map, u32);

impl OrderedIndex for Tree {
    fn record(&self) -> RecordFormat {
        RecordFormat::new(1, 1)
    }
    fn durability(&self) -> Durability {
        if self.1 == 2 { Durability::EverySync } else { Durability::EveryOperation }
    }
    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        Ok(self.0.get(key).map(|found| value.copy_from_slice(found)).is_some())
    }
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        Ok(self.0.insert(key.to_vec(), value.to_vec()).is_some())
    }
    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        Ok(self.0.remove(key).is_some())
    }
    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        walk(&self.0, (low, high), direction, visit);
        Ok(())
    }
    fn sync(&mut self) -> Result<(), IndexError> {
        Ok(())
    }
    fn check(&mut self) -> Result<CheckReport, IndexError> {
        Ok(CheckReport { nodes: 1, records: self.0.len() as u64, violations: Vec::new() })
    }
    fn stats(&self) -> IndexStats {
        IndexStats { height: self.1, live_pages: 1, ..IndexStats::default() }
    }
    fn ram_bytes(&self) -> usize {
        10
    }
}

fn walk(map: &Map, bounds: (Bound<&[u8]>, Bound<&[u8]>), direction: Direction, visit: Visit<'_>) {
    let inside = |key: &&Vec<u8>| std::ops::RangeBounds::<[u8]>::contains(&bounds, &key[..]);
    let mut keys: Vec<_> = map.keys().filter(inside).collect();
    if direction == Direction::Descending {
        keys.reverse();
    }
    for key in keys {
        if visit(key, &map[key]).is_break() {
            return;
        }
    }
}

fn forest() -> Forest {
    let tree = |height| Box::new(Tree(Map::new(), height)) as Box<dyn OrderedIndex>;
    Forest::new(vec![(7, tree(3)), (2, tree(1)), (4, tree(2))]).unwrap()
}

#[test]
fn sorted_records_reach_their_trees() {
    let records = [(&[2, 1][..], &[10][..]), (&[2, 9], &[11]), (&[7, 0], &[12])];
    let mut loaded = forest();
    assert_eq!(loaded.load(&mut records.into_iter()).unwrap(), 3);
    let counts: Vec<u64> = loaded.trees.iter_mut().map(|(_, tree)| tree.check().unwrap().records).collect();
    assert_eq!(counts, [2, 0, 1]);
    let mut value = [0];
    assert!(loaded.get(&[7, 0], &mut value).unwrap() && value == [12]);
    let error = loaded.load(&mut [(&[3, 1][..], &[1][..])].into_iter()).unwrap_err().to_string();
    assert!(error.contains("no tree 3"), "{error}");
}

#[test]
fn a_forest_is_one_ordered_index() {
    let (mut forest, mut model, mut rng) = (forest(), Map::new(), Rng::new(2));
    for _ in 0..5_000 {
        let key = vec![[2, 4, 7][rng.below(3) as usize], rng.below(20) as u8];
        let other = vec![rng.below(9) as u8, rng.below(20) as u8];
        match rng.below(4) {
            0 => {
                let value = vec![rng.below(256) as u8];
                assert_eq!(forest.insert(&key, &value).unwrap(), model.insert(key, value).is_some());
            }
            1 => assert_eq!(forest.remove(&key).unwrap(), model.remove(&key).is_some()),
            2 => {
                let mut value = [0];
                let found = forest.get(&other, &mut value).unwrap();
                assert_eq!(found.then(|| value.to_vec()), model.get(&other).cloned());
            }
            _ => {
                let bound = |key, rng: &mut Rng| match rng.below(3) {
                    0 => Bound::Included(key),
                    1 => Bound::Excluded(key),
                    _ => Bound::Unbounded,
                };
                let (low, high) = (key.clone().min(other.clone()), key.max(other));
                let bounds = (bound(&low[..], &mut rng), bound(&high[..], &mut rng));
                let direction = if rng.chance(1, 2) { Direction::Ascending } else { Direction::Descending };
                let limit = rng.below(30) as usize + 1;
                let collect = |into: &mut Vec<Vec<u8>>, key: &[u8]| {
                    into.push(key.to_vec());
                    if into.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                let (mut got, mut expected) = (Vec::new(), Vec::new());
                forest.range(bounds.0, bounds.1, direction, &mut |k, _| collect(&mut got, k)).unwrap();
                walk(&model, bounds, direction, &mut |k, _| collect(&mut expected, k));
                assert_eq!(got, expected, "{bounds:?} {direction:?}");
            }
        }
    }
    assert_eq!(forest.check().unwrap().records, model.len() as u64);
    assert_eq!(
        (forest.durability(), forest.stats().height, forest.ram_bytes()),
        (Durability::EverySync, 3, 30)
    );
}

#[test]
fn what_a_forest_cannot_do_is_refused() {
    let mut forest = forest();
    assert_eq!(forest.insert(&[3, 0], &[0]).unwrap_err().to_string(), "the forest has no tree 3");
    assert!(matches!(forest.get(&[2], &mut [0]), Err(IndexError::WrongLength { expected: 2, got: 1, .. })));
    assert!(Forest::new(Vec::new()).is_err());
}

#[test]
fn slices_do_not_touch_each_other() {
    let store = Store::new(4, 100).with_promise(ORDERED.single()).with_cache(3);
    let ram_bytes = store.ram_bytes();
    let shares = [TreeShare { tree: 1, records: 30 }, TreeShare { tree: 5, records: 10 }];
    let mut slices = share_store(store.handle(), &shares).unwrap();
    let sizes: Vec<_> = slices.iter().map(|(tree, slice)| (*tree, slice.page_count())).collect();
    assert_eq!(sizes, [(1, 16 + 51), (5, 16 + 17)]);
    assert_eq!(slices.iter().map(|(_, slice)| slice.ram_bytes()).sum::<usize>(), ram_bytes);
    for (number, slice) in &mut slices {
        for page in 0..slice.page_count() {
            slice.write(Lpn(page), Cause::Host, &[*number, page as u8, 0, 0]).unwrap();
        }
        assert_eq!(slice.trim(Lpn(slice.page_count())), Err(StoreError::OutOfRange(Lpn(slice.page_count()))));
    }
    for (number, slice) in &mut slices {
        let mut data = [0; 4];
        for page in 0..slice.page_count() {
            slice.read(Lpn(page), Cause::Host, &mut data).unwrap();
            assert_eq!(data, [*number, page as u8, 0, 0]);
        }
        slice.sync().unwrap();
    }
    assert_eq!(store.counters().syncs, 1);
    slices[1].1.trim(Lpn(0)).unwrap();
    slices[0].1.sync().unwrap();
    assert_eq!(store.counters().syncs, 2);
}

#[test]
fn a_store_too_small_for_its_trees_is_refused() {
    let store = Store::new(4, 31);
    let shares = [TreeShare { tree: 0, records: 1 }, TreeShare { tree: 1, records: 0 }];
    let refused = share_store(store.handle(), &shares).err().unwrap();
    assert_eq!(refused.to_string(), "2 trees need 32 pages, the store has 31");
}
