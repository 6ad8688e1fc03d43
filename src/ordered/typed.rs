//! Typed records over any ordered index: integers, byte arrays and tuples in place of byte strings.
//!
//! A key type defines how its values become bytes whose `memcmp` order is the order of the values. Unsigned
//! integers are big-endian, signed ones big-endian with the sign bit inverted, byte arrays unchanged, and
//! tuples one part after the other. Value types are free; integers are little-endian like every field on the
//! medium.

use crate::check::IndexError;
use crate::ordered::{Cursor, Direction, OrderedIndex, RecordFormat};
use core::marker::PhantomData;
use core::ops::{Bound, ControlFlow, RangeBounds};

/// Most bytes of a key or a value.
const BYTES_MAX: usize = 255;

/// A type that can be the key of a record.
///
/// `a < b` holds exactly if the bytes of `a` are below the bytes of `b` in `memcmp` order.
pub trait KeyCodec: Sized {
    /// Bytes of every key of this type.
    const KEY_BYTES: usize;

    /// Writes the key to `bytes`, a slice of `KEY_BYTES` bytes.
    fn put_key(&self, bytes: &mut [u8]);

    /// Returns the key with these bytes. Every `KEY_BYTES` bytes are a key.
    fn key_of(bytes: &[u8]) -> Self;
}

/// A type that can be the value of a record.
pub trait ValueCodec: Sized {
    /// Bytes of every value of this type.
    const VALUE_BYTES: usize;

    /// Writes the value to `bytes`, a slice of `VALUE_BYTES` bytes.
    fn put_value(&self, bytes: &mut [u8]);

    /// Returns the value with these bytes. Every `VALUE_BYTES` bytes are a value.
    fn value_of(bytes: &[u8]) -> Self;
}

/// An ordered index with keys of type `K` and values of type `V`.
///
/// The names are those of `BTreeMap`. Everything can fail, and `insert` and `remove` answer whether the key
/// was there, as the index does.
///
/// ```
/// use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
/// use nandex::nand::{catalogue, sim::SimChip};
/// use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
/// use nandex::ordered::typed::{Typed, record_of};
///
/// let chip = SimChip::new(&catalogue::mlc_64m().with_blocks(64)).unwrap();
/// let store = PageMapFtl::format(chip, &FtlConfig::default())?;
///
/// // Readings in tenths of a degree, by sensor and second.
/// let config = BPlusConfig::new(record_of::<(u16, u32), i32>());
/// let mut readings: Typed<_, (u16, u32), i32> = Typed::new(BPlusTree::format(store, &config)?)?;
///
/// readings.insert(&(7, 60), &-5)?;
/// readings.insert(&(7, 120), &-3)?;
/// readings.put(&(8, 60), &21)?;
/// assert_eq!(readings.get(&(7, 120))?, Some(-3));
/// assert_eq!(readings.first()?, Some(((7, 60), -5)));
///
/// let mut coldest = i32::MAX;
/// readings.for_each((7, 0)..(8, 0), |_, tenths| coldest = coldest.min(tenths))?;
/// assert_eq!(coldest, -5);
///
/// let all: Result<Vec<_>, _> = readings.iter().collect();
/// assert_eq!(all?.len(), 3);
/// # Ok::<(), nandex::IndexError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Typed<I, K, V> {
    index: I,
    types: PhantomData<fn() -> (K, V)>,
}

impl<I: OrderedIndex, K: KeyCodec, V: ValueCodec> Typed<I, K, V> {
    /// Wraps an index. Returns an error if the sizes of its records differ from those of the types.
    pub fn new(index: I) -> Result<Typed<I, K, V>, IndexError> {
        let (wanted, found) = (record_of::<K, V>(), index.record());
        for (what, expected, got) in
            [("key", wanted.key_bytes, found.key_bytes), ("value", wanted.value_bytes, found.value_bytes)]
        {
            if expected != got {
                return Err(IndexError::WrongLength {
                    what,
                    expected: usize::from(got),
                    got: usize::from(expected),
                });
            }
        }
        Ok(Typed { index, types: PhantomData })
    }

    /// Returns the value of a key; `None` if the key does not exist.
    pub fn get(&mut self, key: &K) -> Result<Option<V>, IndexError> {
        let mut value = [0; BYTES_MAX];
        let value = &mut value[..V::VALUE_BYTES];
        let is_present = with_key(key, |key| self.index.get(key, value))?;
        Ok(is_present.then(|| V::value_of(value)))
    }

    /// Returns true if the key exists.
    pub fn contains_key(&mut self, key: &K) -> Result<bool, IndexError> {
        Ok(self.get(key)?.is_some())
    }

    /// Inserts a record, or gives an existing key a new value. Returns true if the key existed.
    pub fn insert(&mut self, key: &K, value: &V) -> Result<bool, IndexError> {
        let mut bytes = [0; BYTES_MAX];
        let bytes = &mut bytes[..V::VALUE_BYTES];
        value.put_value(bytes);
        with_key(key, |key| self.index.insert(key, bytes))
    }

    /// Gives a key a value and does not tell if the key existed. This saves reads in some indexes.
    pub fn put(&mut self, key: &K, value: &V) -> Result<(), IndexError> {
        let mut bytes = [0; BYTES_MAX];
        let bytes = &mut bytes[..V::VALUE_BYTES];
        value.put_value(bytes);
        with_key(key, |key| self.index.put(key, bytes))
    }

    /// Iterates over the records in key order.
    pub fn iter(&mut self) -> impl Iterator<Item = Result<(K, V), IndexError>> + use<'_, I, K, V> {
        let records = Cursor::new(&mut self.index);
        records.map(|record| record.map(|(key, value)| (K::key_of(&key), V::value_of(&value))))
    }

    /// Removes a key. Returns true if it existed.
    pub fn remove(&mut self, key: &K) -> Result<bool, IndexError> {
        with_key(key, |key| self.index.remove(key))
    }

    /// Visits the records of a range in one direction until `visit` breaks.
    pub fn range(
        &mut self,
        range: impl RangeBounds<K>,
        direction: Direction,
        mut visit: impl FnMut(K, V) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let (mut low, mut high) = ([0; BYTES_MAX], [0; BYTES_MAX]);
        let low = put_bound(range.start_bound(), &mut low[..K::KEY_BYTES]);
        let high = put_bound(range.end_bound(), &mut high[..K::KEY_BYTES]);
        self.index.range(low, high, direction, &mut |key, value| visit(K::key_of(key), V::value_of(value)))
    }

    /// Visits every record of a range, smallest key first.
    pub fn for_each(
        &mut self,
        range: impl RangeBounds<K>,
        mut visit: impl FnMut(K, V),
    ) -> Result<(), IndexError> {
        self.range(range, Direction::Ascending, |key, value| {
            visit(key, value);
            ControlFlow::Continue(())
        })
    }

    /// Returns the record with the smallest key; `None` if there is no record.
    pub fn first(&mut self) -> Result<Option<(K, V)>, IndexError> {
        self.outermost(Direction::Ascending)
    }

    /// Returns the record with the largest key; `None` if there is no record.
    pub fn last(&mut self) -> Result<Option<(K, V)>, IndexError> {
        self.outermost(Direction::Descending)
    }

    fn outermost(&mut self, direction: Direction) -> Result<Option<(K, V)>, IndexError> {
        let mut found = None;
        self.range(.., direction, |key, value| {
            found = Some((key, value));
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Makes all acknowledged operations survive a power cut.
    pub fn sync(&mut self) -> Result<(), IndexError> {
        self.index.sync()
    }

    /// The index, for its other methods.
    pub fn index(&mut self) -> &mut I {
        &mut self.index
    }

    /// Returns the index.
    pub fn into_index(self) -> I {
        self.index
    }
}

/// Returns the sizes of records with keys of type `K` and values of type `V`, to format an index with. Does
/// not compile if a key has no bytes, or if a key or a value has more than 255.
pub const fn record_of<K: KeyCodec, V: ValueCodec>() -> RecordFormat {
    const {
        assert!(K::KEY_BYTES > 0 && K::KEY_BYTES <= BYTES_MAX, "a key has 1 to 255 bytes");
        assert!(V::VALUE_BYTES <= BYTES_MAX, "a value has 255 bytes at most");
    }
    RecordFormat::new(K::KEY_BYTES as u8, V::VALUE_BYTES as u8)
}

fn with_key<K: KeyCodec, T>(key: &K, act: impl FnOnce(&[u8]) -> T) -> T {
    let mut bytes = [0; BYTES_MAX];
    let bytes = &mut bytes[..K::KEY_BYTES];
    key.put_key(bytes);
    act(bytes)
}

fn put_bound<'a, K: KeyCodec>(bound: Bound<&K>, bytes: &'a mut [u8]) -> Bound<&'a [u8]> {
    bound.map(|key| {
        key.put_key(bytes);
        &*bytes
    })
}

fn exactly<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut exact = [0; N];
    exact.copy_from_slice(bytes);
    exact
}

macro_rules! integers {
    ($($unsigned:ty, $signed:ty;)*) => {$(
        impl KeyCodec for $unsigned {
            const KEY_BYTES: usize = size_of::<$unsigned>();
            fn put_key(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_be_bytes());
            }
            fn key_of(bytes: &[u8]) -> Self {
                <$unsigned>::from_be_bytes(exactly(bytes))
            }
        }
        impl KeyCodec for $signed {
            const KEY_BYTES: usize = size_of::<$signed>();
            fn put_key(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&(self ^ <$signed>::MIN).to_be_bytes());
            }
            fn key_of(bytes: &[u8]) -> Self {
                <$signed>::from_be_bytes(exactly(bytes)) ^ <$signed>::MIN
            }
        }
        integers!(value $unsigned);
        integers!(value $signed);
    )*};
    (value $integer:ty) => {
        impl ValueCodec for $integer {
            const VALUE_BYTES: usize = size_of::<$integer>();
            fn put_value(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
            fn value_of(bytes: &[u8]) -> Self {
                <$integer>::from_le_bytes(exactly(bytes))
            }
        }
    };
}
integers! { u8, i8; u16, i16; u32, i32; u64, i64; u128, i128; }

impl<const N: usize> KeyCodec for [u8; N] {
    const KEY_BYTES: usize = N;
    fn put_key(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(self);
    }
    fn key_of(bytes: &[u8]) -> Self {
        exactly(bytes)
    }
}

impl<const N: usize> ValueCodec for [u8; N] {
    const VALUE_BYTES: usize = N;
    fn put_value(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(self);
    }
    fn value_of(bytes: &[u8]) -> Self {
        exactly(bytes)
    }
}

/// The value of a set: keys without values.
impl ValueCodec for () {
    const VALUE_BYTES: usize = 0;
    fn put_value(&self, _: &mut [u8]) {}
    fn value_of(_: &[u8]) -> Self {}
}

impl<A: KeyCodec, B: KeyCodec> KeyCodec for (A, B) {
    const KEY_BYTES: usize = A::KEY_BYTES + B::KEY_BYTES;
    fn put_key(&self, bytes: &mut [u8]) {
        let (first, second) = bytes.split_at_mut(A::KEY_BYTES);
        self.0.put_key(first);
        self.1.put_key(second);
    }
    fn key_of(bytes: &[u8]) -> Self {
        let (first, second) = bytes.split_at(A::KEY_BYTES);
        (A::key_of(first), B::key_of(second))
    }
}

impl<A: ValueCodec, B: ValueCodec> ValueCodec for (A, B) {
    const VALUE_BYTES: usize = A::VALUE_BYTES + B::VALUE_BYTES;
    fn put_value(&self, bytes: &mut [u8]) {
        let (first, second) = bytes.split_at_mut(A::VALUE_BYTES);
        self.0.put_value(first);
        self.1.put_value(second);
    }
    fn value_of(bytes: &[u8]) -> Self {
        let (first, second) = bytes.split_at(A::VALUE_BYTES);
        (A::value_of(first), B::value_of(second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CheckReport;
    use crate::ordered::{Durability, IndexStats, Visit};
    use alloc::collections::BTreeMap;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// A sorted map in RAM as an index, to test the wrapper alone.
    struct Ram(RecordFormat, BTreeMap<Vec<u8>, Vec<u8>>);

    impl OrderedIndex for Ram {
        fn record(&self) -> RecordFormat {
            self.0
        }
        fn durability(&self) -> Durability {
            Durability::None
        }
        fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
            Ok(self.1.get(key).is_some_and(|found| {
                value.copy_from_slice(found);
                true
            }))
        }
        fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
            Ok(self.1.insert(key.to_vec(), value.to_vec()).is_some())
        }
        fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
            Ok(self.1.remove(key).is_some())
        }
        fn range(
            &mut self,
            low: Bound<&[u8]>,
            high: Bound<&[u8]>,
            direction: Direction,
            visit: Visit<'_>,
        ) -> Result<(), IndexError> {
            let mut found: Vec<_> = self.1.range::<[u8], _>((low, high)).collect();
            if direction == Direction::Descending {
                found.reverse();
            }
            let _ = found.into_iter().try_for_each(|(key, value)| visit(key, value));
            Ok(())
        }
        fn sync(&mut self) -> Result<(), IndexError> {
            Ok(())
        }
        fn check(&mut self) -> Result<CheckReport, IndexError> {
            Ok(CheckReport::default())
        }
        fn stats(&self) -> IndexStats {
            IndexStats::default()
        }
        fn ram_bytes(&self) -> usize {
            0
        }
    }

    fn assert_key_order<K: KeyCodec + Ord + core::fmt::Debug>(a: &K, b: &K) {
        let bytes = |key: &K| {
            let mut bytes = vec![0; K::KEY_BYTES];
            key.put_key(&mut bytes);
            bytes
        };
        assert_eq!(bytes(a).cmp(&bytes(b)), a.cmp(b));
        assert_eq!(&K::key_of(&bytes(a)), a);
    }

    proptest! {
        #![proptest_config(crate::inputs::fixed(256))]

        #[test]
        fn key_bytes_are_in_key_order(a: (u16, i64), b: (u16, i64), c: i8, d: i8, e: [u8; 3], f: [u8; 3]) {
            assert_key_order(&a, &b);
            assert_key_order(&(c, a.0), &(d, b.0));
            assert_key_order(&e, &f);
            assert_key_order(&i128::from(a.1), &i128::from(b.1));
        }

        #[test]
        fn values_come_back(a: u128, b: i32, c: [u8; 5]) {
            let mut bytes = [0; 25];
            ((a, b), c).put_value(&mut bytes);
            prop_assert_eq!(<((u128, i32), [u8; 5])>::value_of(&bytes), ((a, b), c));
        }
    }

    type Small = Typed<Ram, i16, (u8, u32)>;

    #[test]
    fn a_typed_index_is_a_sorted_map() {
        let mut index = Small::new(Ram(record_of::<i16, (u8, u32)>(), BTreeMap::new())).unwrap();
        for n in -50..50 {
            assert_eq!(index.insert(&n, &(n as u8, 7)), Ok(false));
        }
        assert_eq!(index.insert(&3, &(0, 0)), Ok(true));
        assert_eq!((index.get(&3), index.get(&99)), (Ok(Some((0, 0))), Ok(None)));
        assert_eq!(
            (index.remove(&3), index.remove(&3), index.contains_key(&3)),
            (Ok(true), Ok(false), Ok(false))
        );
        assert_eq!(index.first(), Ok(Some((-50, (206, 7)))));
        assert_eq!(index.last(), Ok(Some((49, (49, 7)))));
        let mut keys = Vec::new();
        index.for_each(-1..=4, |key, _| keys.push(key)).unwrap();
        assert_eq!(keys, [-1, 0, 1, 2, 4]);
        keys.clear();
        let three_down = |key, _| {
            keys.push(key);
            if keys.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        index.range(..0, Direction::Descending, three_down).unwrap();
        assert_eq!(keys, [-1, -2, -3]);
    }

    #[test]
    fn an_index_with_other_record_sizes_is_refused() {
        let refusal = |key, value| Small::new(Ram(RecordFormat::new(key, value), BTreeMap::new())).err();
        assert_eq!(refusal(4, 5), Some(IndexError::WrongLength { what: "key", expected: 4, got: 2 }));
        assert_eq!(refusal(2, 8), Some(IndexError::WrongLength { what: "value", expected: 8, got: 5 }));
        assert_eq!(refusal(2, 5), None);
    }
}
