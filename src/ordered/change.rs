//! One change of one record, as a batch has them and as buffers hand them to trees.

use crate::check::IndexError;
use crate::ordered::{Direction, OrderedIndex, RecordFormat, Records};
use crate::sort;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

/// A new value for a key, or none to remove it.
///
/// An example stands at [`OrderedIndex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The new value; none removes the key.
    pub value: Option<&'a [u8]>,
}

impl<'a> Change<'a> {
    /// A value for a key, new or not.
    pub const fn put(key: &'a [u8], value: &'a [u8]) -> Change<'a> {
        Change { key, value: Some(value) }
    }

    /// The end of a key, if it exists.
    pub const fn remove(key: &'a [u8]) -> Change<'a> {
        Change { key, value: None }
    }

    /// The key.
    pub const fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The value, none for a removal.
    pub const fn value(&self) -> Option<&'a [u8]> {
        self.value
    }
}

/// Makes a change by itself: a batch of one, which needs no more room than that.
pub(crate) fn change_one<I: OrderedIndex + ?Sized>(
    index: &mut I,
    Change { key, value }: Change<'_>,
) -> Result<(), IndexError> {
    match value {
        Some(value) => index.put(key, value),
        None => index.remove(key).map(drop),
    }
}

/// Loads sorted records one by one: for an index that holds none, but is not as new, so that it cannot be
/// built from them. After an error some of them are there.
#[doc(hidden)]
pub fn load_one_by_one<I: OrderedIndex + ?Sized>(
    index: &mut I,
    records: Records<'_, '_>,
) -> Result<u64, IndexError> {
    let (mut loaded, mut before) = (0, None::<Vec<u8>>);
    for (key, value) in records {
        if before.as_ref().is_some_and(|before| key <= &before[..]) {
            return Err(IndexError::NotSorted { position: loaded });
        }
        index.put(key, value)?;
        before = Some(key.to_vec());
        loaded += 1;
    }
    Ok(loaded)
}

/// Whether an index holds no record.
#[doc(hidden)]
pub fn holds_none<I: OrderedIndex + ?Sized>(index: &mut I) -> Result<bool, IndexError> {
    let mut holds = false;
    index.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |_, _| {
        holds = true;
        ControlFlow::Break(())
    })?;
    Ok(!holds)
}

/// Refuses a batch of more than so many changes, or with keys or values of other lengths.
pub(crate) fn check_batch(record: RecordFormat, batch: &[Change<'_>], most: usize) -> Result<(), IndexError> {
    if batch.len() > most {
        return Err(IndexError::BatchTooLarge { unit: "changes", most });
    }
    batch.iter().try_for_each(|change| {
        record.check_key(change.key)?;
        change.value.map_or(Ok(()), |value| record.check_value(value))
    })
}

/// The places in a batch of the changes that come last of their key, in key order.
pub(crate) fn newest_places(batch: &[Change<'_>]) -> Vec<u32> {
    let mut places: Vec<u32> = (0..batch.len() as u32).collect();
    let key = |place: u32| batch[place as usize].key;
    sort::unstable_by(&mut places, |&a, &b| key(a).cmp(key(b)).then(b.cmp(&a)));
    places.dedup_by(|next, newest| key(*next) == key(*newest));
    places
}

/// The changes of a batch that come last of their key, in key order.
pub(crate) fn newest_by_key<'a>(batch: &[Change<'a>]) -> Vec<Change<'a>> {
    newest_places(batch).into_iter().map(|place| batch[place as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_a_key_is_its_newest() {
        let batch = [
            Change::put(b"b", b"1"),
            Change::put(b"a", b"2"),
            Change::remove(b"b"),
            Change::put(b"c", b"3"),
            Change::put(b"a", b"4"),
        ];
        let newest = newest_by_key(&batch);
        assert_eq!(newest, [Change::put(b"a", b"4"), Change::remove(b"b"), Change::put(b"c", b"3")]);
    }

    #[test]
    fn a_batch_that_is_too_large_or_of_other_records_is_refused() {
        let record = RecordFormat::new(1, 1);
        let batch = [Change::put(b"a", b"2"), Change::remove(b"b")];
        assert_eq!(check_batch(record, &batch, 2), Ok(()));
        let refused = Err(IndexError::BatchTooLarge { unit: "changes", most: 1 });
        assert_eq!(check_batch(record, &batch, 1), refused);
        assert!(check_batch(record, &[Change::put(b"a", b"22")], 2).is_err());
        assert!(check_batch(record, &[Change::remove(b"aa")], 2).is_err());
    }
}
