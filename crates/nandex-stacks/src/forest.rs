//! Several trees as one index: the first byte of a key says which tree the rest belongs to.
//!
//! This is how a trace that addresses several indexes runs as several trees. They share one store, and with
//! it one cache and one garbage collection: [`share_store`] cuts the store into slices, a run of pages for
//! each tree in proportion to the records it will hold. Trees on raw NAND own the whole chip and cannot be
//! shared out like this.

use nandex::check::CheckReport;
use nandex::ordered::{Direction, Durability, IndexStats, OrderedIndex, RecordFormat, Records, Visit};
use nandex::store::slice::{Slice, divide};
use nandex::{IndexError, PageStore, StoreError};
use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

/// The records of one tree in a forest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeShare {
    /// The tree's number, which is the first byte of its keys in the forest.
    pub tree: u8,
    /// Most records of the tree.
    pub records: u64,
}

/// Several trees behind one [`OrderedIndex`].
pub struct Forest {
    /// The trees with their numbers, ascending.
    trees: Vec<(u8, Box<dyn OrderedIndex>)>,
    record: RecordFormat,
}

impl Forest {
    /// Makes a forest of trees with the same record sizes. Keys of the forest are one byte longer than
    /// those of the trees.
    pub fn new(mut trees: Vec<(u8, Box<dyn OrderedIndex>)>) -> Result<Forest, IndexError> {
        trees.sort_by_key(|(number, _)| *number);
        let unsupported = |why: &'static str| IndexError::Unsupported(why.into());
        let inner = trees.first().ok_or_else(|| unsupported("a forest has at least one tree"))?.1.record();
        if trees.iter().any(|(_, tree)| tree.record() != inner) {
            return Err(unsupported("the trees of a forest have records of the same sizes"));
        }
        let key_bytes = inner.key_bytes.checked_add(1);
        let key_bytes =
            key_bytes.ok_or_else(|| unsupported("no byte is left in the key for the tree's number"))?;
        Ok(Forest { trees, record: RecordFormat::new(key_bytes, inner.value_bytes) })
    }

    /// The tree of a key, if there is one, and the key within that tree.
    fn tree<'a>(&mut self, key: &'a [u8]) -> Result<(Option<&mut dyn OrderedIndex>, &'a [u8]), IndexError> {
        self.record.check_key(key)?;
        let found = self.trees.binary_search_by_key(&key[0], |(number, _)| *number);
        Ok((found.ok().map(|place| &mut *self.trees[place].1 as &mut dyn OrderedIndex), &key[1..]))
    }
}

/// Translates a bound of the forest to tree `number`; `None` if the bound excludes the whole tree.
fn bound_in(number: u8, bound: Bound<&[u8]>, is_low: bool) -> Option<Bound<&[u8]>> {
    let (Bound::Included(key) | Bound::Excluded(key)) = bound else { return Some(Bound::Unbounded) };
    match number.cmp(&key[0]) {
        Ordering::Equal => Some(bound.map(|key| &key[1..])),
        Ordering::Greater if is_low => Some(Bound::Unbounded),
        Ordering::Less if !is_low => Some(Bound::Unbounded),
        _ => None,
    }
}

impl OrderedIndex for Forest {
    fn record(&self) -> RecordFormat {
        self.record
    }

    fn durability(&self) -> Durability {
        self.trees.iter().map(|(_, tree)| tree.durability()).min().unwrap_or(Durability::None)
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        match self.tree(key)? {
            (Some(tree), key) => tree.get(key, value),
            (None, _) => Ok(false),
        }
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        match self.tree(key)? {
            (Some(tree), inner) => tree.insert(inner, value),
            (None, _) => Err(IndexError::Unsupported(format!("the forest has no tree {}", key[0]).into())),
        }
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        match self.tree(key)? {
            (Some(tree), key) => tree.remove(key),
            (None, _) => Ok(false),
        }
    }

    fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
        let records: Vec<(&[u8], &[u8])> = records.collect();
        let mut loaded = 0;
        for of_tree in records.chunk_by(|a, b| a.0.first() == b.0.first()) {
            let (Some(tree), _) = self.tree(of_tree[0].0)? else {
                return Err(IndexError::Unsupported(
                    format!("the forest has no tree {}", of_tree[0].0[0]).into(),
                ));
            };
            loaded += tree.load(&mut of_tree.iter().map(|(key, value)| (&key[1..], *value)))?;
        }
        Ok(loaded)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        for bound in [low, high] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound {
                self.record.check_key(key)?;
            }
        }
        let mut key = vec![0; self.record.key_bytes.into()];
        let mut places: Vec<usize> = (0..self.trees.len()).collect();
        if direction == Direction::Descending {
            places.reverse();
        }
        let mut flow = ControlFlow::Continue(());
        for place in places {
            let (number, tree) = &mut self.trees[place];
            let (Some(low), Some(high)) = (bound_in(*number, low, true), bound_in(*number, high, false))
            else {
                continue;
            };
            key[0] = *number;
            tree.range(low, high, direction, &mut |inner, value| {
                key[1..].copy_from_slice(inner);
                flow = visit(&key, value);
                flow
            })?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.trees.iter_mut().try_for_each(|(_, tree)| tree.sync())
    }

    fn close(&mut self) -> Result<(), IndexError> {
        self.trees.iter_mut().try_for_each(|(_, tree)| tree.close())
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        let mut all = CheckReport::default();
        for (_, tree) in &mut self.trees {
            let report = tree.check()?;
            all.nodes += report.nodes;
            all.records += report.records;
            all.violations.extend(report.violations);
        }
        Ok(all)
    }

    /// Sums of the statistics of all trees; the height is that of the highest tree.
    fn stats(&self) -> IndexStats {
        let mut all = IndexStats::default();
        for stats in self.trees.iter().map(|(_, tree)| tree.stats()) {
            all.height = all.height.max(stats.height);
            all.live_pages += stats.live_pages;
            all.cache_hits += stats.cache_hits;
            all.cache_misses += stats.cache_misses;
            all.collections += stats.collections;
            for metric in stats.metrics {
                match all.metrics.iter_mut().find(|m| m.name == metric.name) {
                    Some(sum) => sum.value += metric.value,
                    None => all.metrics.push(metric),
                }
            }
        }
        all
    }

    fn ram_bytes(&self) -> usize {
        self.trees.iter().map(|(_, tree)| tree.ram_bytes()).sum()
    }
}

/// Least number of pages in a slice.
const SLICE_PAGES_MIN: u32 = 16;

/// Cuts a store into one slice per tree, in proportion to the expected records.
pub fn share_store<S: PageStore>(store: S, shares: &[TreeShare]) -> Result<Vec<(u8, Slice<S>)>, StoreError> {
    let pages = store.page_count();
    let least = shares.len() as u64 * u64::from(SLICE_PAGES_MIN);
    let Some(spare) = u64::from(pages).checked_sub(least) else {
        let (needed, trees) = (least, shares.len());
        return Err(StoreError::Unsupported(
            format!("{trees} trees need {needed} pages, the store has {pages}").into(),
        ));
    };
    let records: u64 = shares.iter().map(|share| share.records).sum();
    let sizes: Vec<u32> = shares
        .iter()
        .map(|share| {
            let extra = u128::from(spare) * u128::from(share.records) / u128::from(records.max(1));
            SLICE_PAGES_MIN + extra as u32
        })
        .collect();
    Ok(shares.iter().map(|share| share.tree).zip(divide(store, &sizes)?).collect())
}

#[cfg(test)]
mod tests;
