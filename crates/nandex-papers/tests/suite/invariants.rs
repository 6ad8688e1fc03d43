//! Checks name the invariant that is broken, in builds with words and without.

#![allow(clippy::unwrap_used)]

use nandex::check::{CheckReport, IndexError, Invariant};
use nandex::codec::{crc32, put_u32};
use nandex::nand::Cause;
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::{OrderedIndex, RecordFormat};
use nandex::shared::Shared;
use nandex::spatial::tree::{Rules, SpatialConfig, Tree};
use nandex::spatial::{Rect, SpatialIndex};
use nandex::store::PageStore;
use nandex::store::ram::RamStore;
use nandex::units::Lpn;
use nandex_papers::ordered::mb::{MbConfig, MbTree};
use nandex_papers::ordered::pio::{PioConfig, PioTree};
use nandex_papers::spatial::{mr_tree, r_star};
use std::collections::BTreeSet;

const RECORD: RecordFormat = RecordFormat::new(2, 2);

fn store() -> Shared<RamStore> {
    Shared::new(RamStore::new(256, 600))
}

fn fill<I: OrderedIndex>(mut index: I) -> I {
    for n in 0..400u16 {
        index.insert(&n.to_be_bytes(), &[0; 2]).unwrap();
    }
    index.sync().unwrap();
    index
}

/// Makes each page with this mark another one whose checksum is right, one at a time; the invariants that
/// checks name.
fn named(
    store: &Shared<RamStore>,
    mark: u8,
    damage: fn(&mut [u8]),
    check: &mut dyn FnMut() -> CheckReport,
) -> Vec<Invariant> {
    let mut named = BTreeSet::new();
    let mut page = vec![0; store.page_bytes()];
    assert!(check().is_sound());
    for lpn in (0..store.page_count()).map(Lpn) {
        store.lock().read(lpn, Cause::Check, &mut page).unwrap();
        if page[9] != mark {
            continue;
        }
        let whole = page.clone();
        damage(&mut page);
        let crc = crc32(&[&page[4..]]);
        put_u32(&mut page, 0, crc);
        store.lock().write(lpn, Cause::Check, &page).unwrap();
        let report = check();
        store.lock().write(lpn, Cause::Check, &whole).unwrap();
        let first = report.violations.first();
        named.extend(first.map(|broken| broken.invariant));
        let has_words = |text: &str| text.is_empty() != cfg!(feature = "messages");
        assert!(first.is_none_or(|broken| has_words(&broken.found)), "{first:?}");
    }
    named.into_iter().collect()
}

fn ordered<I: OrderedIndex>(
    format: impl FnOnce(Shared<RamStore>) -> I,
    mark: u8,
    damage: fn(&mut [u8]),
) -> Vec<Invariant> {
    let store = store();
    let mut index = fill(format(store.clone()));
    named(&store, mark, damage, &mut || index.check().unwrap())
}

fn spatial<R: Rules<i32, 2>>(config: &SpatialConfig<R>, damage: fn(&mut [u8])) -> Vec<Invariant> {
    let store = store();
    let mut tree = Tree::<i32, 2, _, R>::format(store.clone(), config).unwrap();
    for n in 0..300 {
        tree.insert(&Rect::point([n, n * 7 % 300]).unwrap(), n as u64).unwrap();
    }
    named(&store, 0xC1, damage, &mut || tree.check().unwrap())
}

#[test]
fn a_check_names_the_invariant_that_a_page_breaks() {
    let bplus = |store| BPlusTree::format(store, &BPlusConfig::new(RECORD)).unwrap();
    assert_eq!(ordered(bplus, 0xB1, |page| page[8] += 9), [Invariant::B5]);
    assert_eq!(ordered(bplus, 0xB1, |page| page[10] = 0), [Invariant::B4]);
    let mb = |store| MbTree::format(store, &MbConfig::new(RECORD, 9)).unwrap();
    assert_eq!(ordered(mb, 0x4d, |page| page[10] ^= 1), [Invariant::M2]);
    let pio = |store| PioTree::format(store, &PioConfig::new(RECORD, 9)).unwrap();
    assert_eq!(ordered(pio, 0x50, |page| page[11] = 200), [Invariant::O2]);
    assert_eq!(spatial(&r_star::config(), |page| page[8] = 0), [Invariant::S5]);
    assert_eq!(spatial(&r_star::config(), |page| page[10] = 0), [Invariant::S4]);
    assert_eq!(spatial(&mr_tree::config(), |page| page[14] = 200), [Invariant::M2]);
}

#[test]
fn an_error_is_shown_with_number_and_words() {
    let broken = IndexError::broken(Invariant::B1, "no node", 7).to_string();
    let corrupted = IndexError::corrupted("no node", 7).to_string();
    if cfg!(feature = "messages") {
        assert_eq!(
            (broken.as_str(), corrupted.as_str()),
            ("corrupted at 7: B1: no node", "corrupted at 7: no node")
        );
    } else {
        assert_eq!((broken.as_str(), corrupted.as_str()), ("corrupted at 7: B1", "corrupted at 7"));
    }
}
