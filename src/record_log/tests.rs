//! A log that is condensed: cut after each page, and on stores that refuse a page.

use super::*;
use crate::testing::Store;

/// Records of four bytes: a key, and three of the number of the update.
struct Four;

impl RecordKind for Four {
    const MAGIC: &'static [u8; 8] = b"NXTEST04";

    fn record_bytes(_: [u8; 2]) -> Option<usize> {
        Some(4)
    }

    fn is_record(_: &[u8]) -> bool {
        true
    }
}

const PAGE_BYTES: usize = HEADER_BYTES + 12;

fn layout() -> Layout {
    Layout::new::<Four>([0, 0], 5, PAGE_BYTES).unwrap()
}

/// The newest record of each key, as a mount finds it.
fn newest(store: &Store) -> Vec<(u8, u8)> {
    let mut store = store.copy();
    let (first, found) = locate::<Four>(&mut store).unwrap();
    let mut log = RecordLog::<_, Four>::empty(store, found, first.epoch);
    let mut all = Vec::new();
    log.resume(first.epoch, &mut |records| all.extend_from_slice(records)).unwrap();
    let mut again = Vec::new();
    log.all_records(&mut |records| again.extend_from_slice(records)).unwrap();
    assert_eq!(again, all);
    let mut report = CheckReport::default();
    log.check(&mut report).unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    let mut newest: Vec<(u8, u8)> = Vec::new();
    for record in all.chunks(4) {
        newest.retain(|(key, _)| *key != record[0]);
        newest.push((record[0], record[1]));
    }
    newest
}

/// A full log of three records a page; those in the list are still needed.
fn full() -> (RecordLog<Store, Four>, Vec<[u8; 4]>) {
    let mut log = RecordLog::<_, Four>::empty(Store::new(PAGE_BYTES, 8), layout(), 4);
    for n in 0..15u8 {
        log.append(|bytes| bytes.copy_from_slice(&[n % 11, n, 0, 0])).unwrap();
    }
    log.force().unwrap();
    (log, [4, 5, 6, 9, 10, 11, 14].map(|n: u8| [n % 11, n, 0, 0]).to_vec())
}

#[test]
fn a_cut_in_a_condensation_leaves_the_newest_record_of_each_key_that_is_needed() {
    let (mut log, needed) = full();
    let before = log.store.copy();
    log.condense(9, needed.iter().map(|record| &record[..])).unwrap();
    assert_eq!((log.room(), log.used_pages(), log.pending()), (8, 3, 0));
    // The pages are written in order: any number of them may be there.
    for written in 0..=3 {
        let mut cut = before.copy();
        for page in 0..written {
            let mut bytes = vec![0; PAGE_BYTES];
            log.store.read(Lpn(7 - page), Cause::Check, &mut bytes).unwrap();
            cut.write(Lpn(7 - page), Cause::Check, &bytes).unwrap();
        }
        let found = newest(&cut);
        for record in &needed {
            assert!(found.contains(&(record[0], record[1])), "{written}: {record:?} of {found:?}");
        }
        assert_eq!(found.len() == needed.len(), written == 3, "{written}");
        // It is condensed once more, and goes on.
        let (first, layout) = locate::<Four>(&mut cut).unwrap();
        let mut log = RecordLog::<_, Four>::empty(cut, layout, first.epoch);
        log.resume(first.epoch, &mut |_| {}).unwrap();
        if log.room() == 0 {
            log.condense(log.epoch() + 1, needed.iter().map(|record| &record[..])).unwrap();
        }
        for n in 20..28u8 {
            log.append(|bytes| bytes.copy_from_slice(&[n, n, 0, 0])).unwrap();
        }
        log.force().unwrap();
        assert_eq!(newest(log.store()).len(), needed.len() + 8);
    }
}

#[test]
fn a_log_full_of_what_is_needed_is_condensed_to_as_much() {
    let (mut log, _) = full();
    let all: Vec<[u8; 4]> = (0..15u8).map(|n| [n, n + 100, 0, 0]).collect();
    log.condense(5, all.iter().map(|record| &record[..])).unwrap();
    assert_eq!((log.room(), newest(log.store()).len()), (0, 15));
}

#[test]
fn a_run_that_ends_though_it_says_that_it_goes_on_is_corrupted() {
    let (mut log, needed) = full();
    log.condense(9, needed.iter().map(|record| &record[..])).unwrap();
    let mut store = log.into_store();
    store.trim(Lpn(6)).unwrap();
    let mut log = RecordLog::<_, Four>::empty(store, layout(), 9);
    let resumed = log.resume(9, &mut |_| {});
    assert!(matches!(resumed, Err(IndexError::Corrupted { at: 1, .. })), "{resumed:?}");
}
