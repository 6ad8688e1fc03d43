//! Finds out which index is in the image of a chip, and whether its invariants hold.
//!
//! Every index of the registry is tried with every offered record size, each on a copy of the chip, so that
//! the image does not change. An index whose mark is missing reports that; any other error means that the
//! index is there but damaged.

use crate::registry::{INDEXES, IndexEntry};
use nandex::nand::sim::SimChip;
use nandex::ordered::RecordFormat;
use nandex::{CheckReport, IndexError, StoreError};
use nandex_stacks::options::Settings;

/// An index found on a chip.
#[derive(Clone, Debug)]
pub struct Found {
    /// The index found.
    pub index: &'static IndexEntry,
    /// The record sizes of the index.
    pub record: RecordFormat,
    /// Number of levels from leaf to root.
    pub height: u32,
    /// The report of the checker, or the error that prevented a mount or a walk.
    pub outcome: Result<CheckReport, IndexError>,
}

impl Found {
    /// Whether the chip could be mounted and every invariant holds.
    pub fn is_sound(&self) -> bool {
        self.outcome.as_ref().is_ok_and(CheckReport::is_sound)
    }
}

/// Looks for an index on the chip. Prefers a sound one to one that is damaged.
pub fn inspect(chip: &SimChip, records: &[RecordFormat]) -> Option<Found> {
    let mut damaged = None;
    for index in INDEXES {
        for &record in records {
            let found = try_one(chip, index, record);
            match found {
                Some(found) if found.outcome.is_ok() => return Some(found),
                Some(found) => damaged = damaged.or(Some(found)),
                None => {}
            }
        }
    }
    damaged
}

fn try_one(chip: &SimChip, index: &'static IndexEntry, record: RecordFormat) -> Option<Found> {
    let settings = Settings::new(record);
    let mounted = (index.mount)(Box::new(chip.clone()), &settings);
    let (height, outcome) = match mounted {
        Ok(mut tree) => (tree.stats().height, tree.check()),
        Err(IndexError::NotFormatted(_)) => return None,
        Err(error) if error.is_unsupported() => return None,
        Err(IndexError::Store(StoreError::NotFormatted(_))) => return None,
        Err(error) => (0, Err(error)),
    };
    Some(Found { index, record, height, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chip, registry};
    use nandex::Shared;

    const RECORDS: [RecordFormat; 2] = [RecordFormat::new(4, 4), RecordFormat::new(8, 4)];

    fn written(name: &str) -> SimChip {
        let entry = registry::index(name).unwrap();
        let part = entry.suited(chip::find("mlc-64m").unwrap());
        let shared = Shared::new(SimChip::new(&part).unwrap());
        let settings = Settings::new(RECORDS[1]);
        let mut tree = (entry.format)(Box::new(shared.clone()), &settings).unwrap();
        for key in 0..500u64 {
            tree.insert(&(key * 7).to_be_bytes(), &[1; 4]).unwrap();
        }
        tree.close().unwrap();
        drop(tree);
        shared.into_inner().unwrap()
    }

    #[test]
    fn the_index_on_a_chip_is_found_with_its_record_sizes() {
        for entry in INDEXES.iter().filter(|e| e.hosting == registry::Hosting::Raw) {
            let found = inspect(&written(entry.name), &RECORDS).unwrap();
            assert_eq!((found.index.name, found.record), (entry.name, RECORDS[1]));
            assert!(found.is_sound());
            assert_eq!(found.outcome.unwrap().records, 500);
        }
    }

    #[test]
    fn an_empty_chip_holds_none() {
        let chip = SimChip::new(&chip::find("mlc-64m").unwrap()).unwrap();
        assert!(inspect(&chip, &RECORDS).is_none());
    }

    #[test]
    fn looking_changes_nothing() {
        let chip = written("mu");
        let before = chip.to_image();
        let _ = inspect(&chip, &RECORDS);
        assert_eq!(chip.to_image(), before);
    }
}
