//! Maps and sets of few elements, in order: those of the standard library with the feature `std`, sorted
//! arrays without it.
//!
//! A B-tree in RAM is compiled for each type of key, about 3 KiB of code each. An array is searched by
//! bisection, and an insertion shifts its elements. This is cheap for a short array, and its code is small.
//! Both give the same results.

#[cfg(feature = "std")]
pub(crate) use alloc::collections::{BTreeMap as Map, BTreeSet as Set};
#[cfg(not(feature = "std"))]
pub(crate) use row::{Map, Set};

#[cfg(any(test, not(feature = "std")))]
#[cfg_attr(feature = "std", allow(dead_code))]
mod row {
    use alloc::vec;
    use alloc::vec::Vec;
    use core::mem;
    use core::ops::{Bound, Range, RangeBounds};

    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Map<K, V>(Vec<(K, V)>);

    pub(crate) type Keys<'a, K> = core::iter::Map<core::slice::Iter<'a, (K, ())>, fn(&'a (K, ())) -> &'a K>;

    pub(crate) struct Entry<'a, K, V> {
        map: &'a mut Map<K, V>,
        key: K,
    }

    impl<'a, K: Ord, V> Entry<'a, K, V> {
        pub(crate) fn or_insert(self, value: V) -> &'a mut V {
            let at = match self.map.place(&self.key) {
                Ok(at) => at,
                Err(at) => {
                    self.map.0.insert(at, (self.key, value));
                    at
                }
            };
            &mut self.map.0[at].1
        }

        pub(crate) fn or_default(self) -> &'a mut V
        where
            V: Default,
        {
            self.or_insert(V::default())
        }
    }

    impl<K, V> Default for Map<K, V> {
        fn default() -> Map<K, V> {
            Map(Vec::new())
        }
    }

    impl<K: Ord, V> Map<K, V> {
        pub(crate) const fn new() -> Map<K, V> {
            Map(Vec::new())
        }

        fn place(&self, key: &K) -> Result<usize, usize> {
            self.0.binary_search_by(|entry| entry.0.cmp(key))
        }

        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        pub(crate) fn clear(&mut self) {
            self.0.clear();
        }

        pub(crate) fn get(&self, key: &K) -> Option<&V> {
            self.place(key).ok().map(|at| &self.0[at].1)
        }

        pub(crate) fn contains_key(&self, key: &K) -> bool {
            self.place(key).is_ok()
        }

        pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
            match self.place(&key) {
                Ok(at) => Some(mem::replace(&mut self.0[at].1, value)),
                Err(at) => {
                    self.0.insert(at, (key, value));
                    None
                }
            }
        }

        pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
            self.place(key).ok().map(|at| self.0.remove(at).1)
        }

        pub(crate) fn entry(&mut self, key: K) -> Entry<'_, K, V> {
            Entry { map: self, key }
        }

        pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
            self.0.iter().map(|(key, value)| (key, value))
        }

        pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
            self.0.iter().map(|entry| &entry.0)
        }

        pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
            self.0.iter().map(|entry| &entry.1)
        }

        fn places(&self, range: impl RangeBounds<K>) -> Range<usize> {
            let before = |bound: Bound<&K>, with_equal: bool| match bound {
                Bound::Unbounded if with_equal => self.0.len(),
                Bound::Unbounded => 0,
                Bound::Included(key) => {
                    self.0.partition_point(|(k, _)| if with_equal { k <= key } else { k < key })
                }
                Bound::Excluded(key) => {
                    self.0.partition_point(|(k, _)| if with_equal { k < key } else { k <= key })
                }
            };
            let (start, end) = (before(range.start_bound(), false), before(range.end_bound(), true));
            start..end.max(start)
        }

        pub(crate) fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
            self.0[self.places(range)].iter().map(|(key, value)| (key, value))
        }
    }

    impl<K, V> IntoIterator for Map<K, V> {
        type Item = (K, V);
        type IntoIter = vec::IntoIter<(K, V)>;

        fn into_iter(self) -> Self::IntoIter {
            self.0.into_iter()
        }
    }

    impl<K: Ord, V> Extend<(K, V)> for Map<K, V> {
        fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
            for (key, value) in entries {
                self.insert(key, value);
            }
        }
    }

    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Set<K>(Map<K, ()>);

    impl<K> Default for Set<K> {
        fn default() -> Set<K> {
            Set(Map::default())
        }
    }

    impl<K: Ord> Set<K> {
        pub(crate) const fn new() -> Set<K> {
            Set(Map::new())
        }

        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        pub(crate) fn clear(&mut self) {
            self.0.clear();
        }

        pub(crate) fn contains(&self, key: &K) -> bool {
            self.0.contains_key(key)
        }

        /// Inserts a key. Returns true if it is new.
        pub(crate) fn insert(&mut self, key: K) -> bool {
            self.0.insert(key, ()).is_none()
        }

        /// Removes a key. Returns true if it existed.
        pub(crate) fn remove(&mut self, key: &K) -> bool {
            self.0.remove(key).is_some()
        }

        pub(crate) fn first(&self) -> Option<&K> {
            self.iter().next()
        }

        pub(crate) fn last(&self) -> Option<&K> {
            self.iter().next_back()
        }

        pub(crate) fn pop_first(&mut self) -> Option<K> {
            (!self.is_empty()).then(|| self.0.0.remove(0).0)
        }

        pub(crate) fn iter(&self) -> Keys<'_, K> {
            self.0.0.iter().map(|entry| &entry.0)
        }

        pub(crate) fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = &K> {
            self.0.range(range).map(|entry| entry.0)
        }
    }

    impl<'a, K: Ord> IntoIterator for &'a Set<K> {
        type Item = &'a K;
        type IntoIter = Keys<'a, K>;

        fn into_iter(self) -> Self::IntoIter {
            self.iter()
        }
    }

    impl<K: Ord> Extend<K> for Set<K> {
        fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
            for key in keys {
                self.insert(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::row;
    use crate::rng::Rng;
    use alloc::collections::{BTreeMap, BTreeSet};
    use alloc::vec::Vec;

    #[test]
    fn a_row_answers_as_a_tree_does() {
        let (mut rng, mut row, mut tree) = (Rng::new(9), row::Map::new(), BTreeMap::new());
        for step in 0..5_000u64 {
            let (key, other) = (rng.below(60), rng.below(60));
            match rng.below(5) {
                0 => assert_eq!(row.remove(&key), tree.remove(&key)),
                1 => {
                    *row.entry(key).or_insert(step) += 1;
                    *tree.entry(key).or_insert(step) += 1;
                }
                _ => assert_eq!(row.insert(key, step), tree.insert(key, step)),
            }
            assert_eq!(
                (row.get(&other), row.contains_key(&other)),
                (tree.get(&other), tree.contains_key(&other))
            );
            assert_eq!((row.len(), row.is_empty()), (tree.len(), tree.is_empty()));
            assert!(
                row.iter().eq(tree.iter()) && row.keys().eq(tree.keys()) && row.values().eq(tree.values())
            );
            assert!(row.range(key..).eq(tree.range(key..)) && row.range(..key).eq(tree.range(..key)));
            assert!(row.range(..=key).rev().eq(tree.range(..=key).rev()));
        }
        assert_eq!(row.into_iter().collect::<Vec<_>>(), tree.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_row_of_keys_answers_as_a_tree_does() {
        let (mut rng, mut row, mut tree) = (Rng::new(10), row::Set::new(), BTreeSet::new());
        for _ in 0..5_000 {
            let key = rng.below(60) as u32;
            match rng.below(6) {
                0 => assert_eq!(row.remove(&key), tree.remove(&key)),
                1 => assert_eq!(row.pop_first(), tree.pop_first()),
                _ => assert_eq!(row.insert(key), tree.insert(key)),
            }
            assert_eq!((row.first(), row.last(), row.len()), (tree.first(), tree.last(), tree.len()));
            assert!(row.iter().eq(&tree) && row.range(key..).eq(tree.range(key..)));
            assert_eq!(row.contains(&key), tree.contains(&key));
        }
        row.extend([3, 1, 2]);
        tree.extend([3, 1, 2]);
        assert!((&row).into_iter().eq(&tree));
        row.clear();
        assert!(row.is_empty());
    }
}
