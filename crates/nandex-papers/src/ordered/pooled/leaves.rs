//! Trees whose leaves are named by a directory: the functions that do not depend on the kind of leaf.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Bound;
use nandex::check::{IndexError, Invariant, message};
use nandex::index::Fill;
use nandex::nand::Cause;
use nandex::ordered::bplus::BPlusTree;
use nandex::ordered::bplus::ground::{Name, Walk};
use nandex::ordered::{Direction, Durability, OrderedIndex, RecordFormat, Tour, within};
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

/// Leaves with their least keys.
pub(super) type Leaves = Vec<(Box<[u8]>, Lpn)>;

/// A tree whose leaves are named by a directory.
pub(super) trait LeafTree<S: PageStore>: OrderedIndex {
    /// The invariant that a leaf breaks which cannot be read.
    const LEAF: Invariant;

    fn directory(&mut self) -> &mut BPlusTree<S>;

    /// Checks the leaf of the keys from one on, below another.
    fn check_leaf(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        first: Lpn,
        walk: &mut Walk,
    ) -> Result<(), IndexError>;

    /// Checks directory and leaves; how many these are.
    fn check_leaves(&mut self) -> Result<(Walk, usize), IndexError> {
        let mut names = Leaves::new();
        let mut walk = self.directory().check_names(&mut |key, page| names.push((key.into(), page)))?;
        for (i, (low, page)) in names.iter().enumerate() {
            let high = names.get(i + 1).map(|(high, _)| &**high);
            match self.check_leaf(low, high, *page, &mut walk) {
                Err(IndexError::Corrupted { invariant, what, at }) => {
                    walk.report.violation(invariant.unwrap_or(Self::LEAF), at, what.to_string());
                }
                Err(IndexError::Store(error @ StoreError::Corrupted { .. })) => {
                    walk.report.violation(Self::LEAF, u64::from(page.0), error.to_string());
                }
                other => other?,
            }
        }
        Ok((walk, names.len()))
    }

    /// The leaf at which a walk starts.
    fn first_leaf(&mut self, tour: &Tour<'_, '_>) -> Result<Option<Name>, IndexError> {
        let record = self.record();
        tour.check(record)?;
        let start: Box<[u8]> = match (tour.start(), tour.direction) {
            (Bound::Included(key) | Bound::Excluded(key), _) => key.into(),
            (Bound::Unbounded, Direction::Ascending) => least_key(record),
            (Bound::Unbounded, Direction::Descending) => vec![0xff; usize::from(record.key_bytes)].into(),
        };
        Ok(self.directory().name_of(&start, Cause::Host)?)
    }

    /// The leaf after one in a walk, if it may have keys between the bounds.
    fn next_leaf(&mut self, name: &Name, tour: &Tour<'_, '_>) -> Result<Option<Name>, IndexError> {
        let (directory, bounds) = (self.directory(), tour.bounds);
        match (tour.direction, &name.span.high, &name.span.low) {
            (Direction::Ascending, Some(high), _) => {
                if within(high, (Bound::Unbounded, bounds.1)) != Ordering::Equal {
                    return Ok(None);
                }
                match directory.name_at(name.slot + 1)? {
                    Some(next) => Ok(Some(next)),
                    None => Ok(directory.name_of(high, Cause::Host)?),
                }
            }
            (Direction::Descending, _, Some(low)) => {
                // Keys of the leaf before are below its lower bound.
                if let Bound::Included(key) | Bound::Excluded(key) = bounds.0
                    && &**low <= key
                {
                    return Ok(None);
                }
                match (name.slot.checked_sub(1), key_before(low)) {
                    (Some(slot), _) => Ok(directory.name_at(slot)?),
                    (None, Some(key)) => Ok(directory.name_of(&key, Cause::Host)?),
                    (None, None) => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// Enters the names of loaded leaves. After an error the directory is empty, and the tree must be emptied
    /// too.
    fn name_loaded(&mut self, loaded: Result<u64, IndexError>, names: &Leaves) -> Result<u64, IndexError> {
        let directory = self.directory();
        let named = loaded.and_then(|loaded| {
            let pages: Vec<_> = names.iter().map(|(key, page)| (&key[..], page.0.to_le_bytes())).collect();
            directory.bulk_load(pages, Fill::FULL)?;
            Ok(loaded)
        });
        if named.is_err() && directory.ready().is_ok() {
            directory.give_up_names()?;
        }
        named
    }
}

/// Implements the index methods that such a tree answers by its own methods of the same names.
macro_rules! leaf_index {
    () => {
        fn durability(&self) -> Durability {
            Durability::None
        }

        fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
            self.record().check(key, value)?;
            self.apply_one(nandex::ordered::change::Change { key, value: Some(value) })
        }

        fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
            self.record().check_key(key)?;
            self.apply_one(nandex::ordered::change::Change { key, value: None })
        }

        fn load(&mut self, records: Records<'_, '_>) -> Result<u64, IndexError> {
            self.directory.ready()?;
            self.load_all(records)
        }

        fn range(
            &mut self,
            low: Bound<&[u8]>,
            high: Bound<&[u8]>,
            direction: Direction,
            visit: Visit<'_>,
        ) -> Result<(), IndexError> {
            self.directory.ready()?;
            self.walk_range(nandex::ordered::Tour { bounds: (low, high), direction, visit })
        }

        fn check(&mut self) -> Result<CheckReport, IndexError> {
            self.directory.ready()?;
            self.check_all()
        }

        nandex::forward_index!(directory: maintain, scrub, sync, close);
    };
}
pub(super) use leaf_index;

/// Pages that may become leaves which a directory names, without those of its own new nodes.
pub(super) fn pages_for_leaves<S: PageStore>(directory: &BPlusTree<S>) -> u64 {
    let pages = u64::from(directory.space().free_pages());
    let half = (directory.leaf_fill().1 / 2).max(3) as u64;
    pages.saturating_sub(pages / (half - 1) + 2)
}

pub(super) fn least_key(record: RecordFormat) -> Box<[u8]> {
    vec![0; usize::from(record.key_bytes)].into()
}

/// The next lower key of the same length; `None` for the lowest.
fn key_before(key: &[u8]) -> Option<Box<[u8]>> {
    let mut before: Box<[u8]> = key.into();
    for byte in before.iter_mut().rev() {
        let (less, borrows) = byte.overflowing_sub(1);
        *byte = less;
        if !borrows {
            return Some(before);
        }
    }
    None
}

/// Refuses a class that needs a journal, because `what` waits in RAM.
pub(in crate::ordered) fn require_none(durability: Durability, what: &str) -> Result<(), IndexError> {
    if durability == Durability::None {
        return Ok(());
    }
    Err(IndexError::unsupported(message!(
        "durability '{}' is wanted, but {what} that wait in RAM are lost: it takes a journal",
        durability.name()
    )))
}
