//! Computed cells of the LS-LRU paper: its example of a multi-split, Lemma 1, and the choice of the
//! write-minimized commit.

use super::Figures;
use crate::LabError;
use nandex::ordered::bplus::Fill;
use nandex::ordered::{Direction, Durability, OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::store::ram::RamStore;
use nandex::{Cause, IndexError};
use nandex_papers::ordered::lazy_update::{Answers, LazyUpdateConfig, LazyUpdateTree};
use nandex_papers::ordered::ls_lru::{LsLruConfig, LsLruTree, write_minimized};
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

/// Most keys of a node in the paper's example.
const CAPACITY: usize = 10;
const RECORD: RecordFormat = RecordFormat::new(2, 2);

fn store() -> RamStore {
    RamStore::new(128, 2_000)
}

fn key(n: u16) -> [u8; 2] {
    n.to_be_bytes()
}

fn buffered(buffer_pages: usize) -> Result<LsLruTree<RamStore>, IndexError> {
    let bytes = LsLruConfig::buffer_bytes_min(RECORD, 128) + buffer_pages * 256;
    let mut config = LsLruConfig::new(RECORD, bytes);
    config.tree = config.tree.with_order(CAPACITY).with_durability(Durability::None);
    LsLruTree::format(store(), &config)
}

/// Records of two full leaves below a parent, so that the first leaf has to split.
fn two_leaves() -> impl Iterator<Item = ([u8; 2], [u8; 2])> {
    (0..2 * CAPACITY as u16).map(|n| (key(1_000 * n), [0; 2]))
}

/// Section 3.2.2 and Figure 6: 30 keys go to a full leaf, five at a time. Returns the figures of splitting
/// at once (updates are pooled and committed five at a time) and of one multi-split commit with k = 3.
pub fn multi_split() -> Result<Figures, LabError> {
    // From above, so that each five meet the larger half.
    let steps = (0..6u16).map(|step| (0..5u16).map(move |i| key(100 - step * 5 + i)));
    let mut config = LazyUpdateConfig::new(RECORD, 5);
    config.tree = config.tree.with_order(CAPACITY);
    let mut immediate = LazyUpdateTree::format(store(), &config)?;
    immediate.bulk_load(two_leaves(), Fill::FULL)?;
    let mut lazy = buffered(60)?;
    lazy.bulk_load(two_leaves(), Fill::FULL)?;
    let host = |store: &RamStore| store.counters().page_writes[Cause::Host as usize];
    let before = (host(immediate.tree().store()), host(lazy.store()));
    for keys in steps {
        for key in keys {
            immediate.insert(&key, &[1; 2])?;
            lazy.insert(&key, &[1; 2])?;
        }
        immediate.sync()?;
    }
    let writes = (host(immediate.tree().store()) - before.0, host(lazy.store()) - before.1);
    Ok(vec![
        ("immediate_split_writes".into(), writes.0 as f64),
        ("multi_split_writes".into(), writes.1 as f64),
        ("entries_left_in_the_buffer".into(), lazy.waiting_entries() as f64),
    ])
}

type Records = BTreeSet<(Vec<u8>, Vec<u8>)>;

fn contents(index: &mut dyn OrderedIndex) -> Result<Records, IndexError> {
    let mut all = Records::new();
    index.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, value| {
        all.insert((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// Lemma 1: compares the index with a model at moments of a random history. The index is the records in the
/// store XOR the entries of the dirty parts (Table 3: an insertion's new record, a deletion's old one, and
/// both of a modification).
pub fn lemma_1(operations: u32) -> Result<Figures, LabError> {
    let (mut index, mut rng) = (buffered(40)?, Rng::new(11));
    let mut model = std::collections::BTreeMap::new();
    let (mut compared, mut violations, mut waiting) = (0u32, 0u32, 0u64);
    for number in 0..operations {
        let key = key(rng.below(600) as u16);
        if rng.chance(3, 5) {
            let value = [rng.below(256) as u8, rng.below(256) as u8];
            index.insert(&key, &value)?;
            model.insert(key.to_vec(), value.to_vec());
        } else {
            index.remove(&key)?;
            model.remove(&key[..]);
        }
        if number % 50 > 0 {
            continue;
        }
        let base = base_records(&index)?;
        let mut units = Records::new();
        index.for_each_waiting(|key, value| {
            let old = base.range((key.to_vec(), Vec::new())..).next().filter(|old| old.0 == key).cloned();
            let new = value.map(|value| (key.to_vec(), value.to_vec()));
            // A modification that restores the old record is none.
            if old != new {
                units.extend(old.into_iter().chain(new));
            }
        });
        let logical: Records = base.symmetric_difference(&units).cloned().collect();
        let expected: Records = model.clone().into_iter().collect();
        compared += 1;
        violations += u32::from(logical != expected);
        waiting += index.waiting_entries();
    }
    Ok(vec![
        ("comparisons".into(), compared.into()),
        ("violations".into(), violations.into()),
        ("waiting_entries_mean".into(), waiting as f64 / f64::from(compared.max(1))),
    ])
}

/// The records in the store without those of the buffer.
fn base_records(index: &LsLruTree<RamStore>) -> Result<Records, IndexError> {
    let bytes = LsLruConfig::buffer_bytes_min(RECORD, 128);
    let mut config = LsLruConfig { answers: Answers::Exact, ..LsLruConfig::new(RECORD, bytes) };
    config.tree = config.tree.with_order(CAPACITY).with_durability(Durability::None);
    contents(&mut LsLruTree::mount_after_cut(index.store().clone(), &config)?)
}

/// Compares the choice of a commit with all subsets of up to 14 units. Counts the cases in which another
/// set frees enough pages with fewer writes, or more pages with as many.
pub fn victims(cases: u32) -> Figures {
    let mut rng = Rng::new(12);
    let mut worse = 0u32;
    for _ in 0..cases {
        let unit = |rng: &mut Rng| (1 + rng.below(40), [1, 1, 3, 4, 5][rng.below(5) as usize]);
        let units: Vec<(u64, u32)> = (0..1 + rng.below(14)).map(|_| unit(&mut rng)).collect();
        let least = 1 + rng.below(200);
        let outcome = |places: &mut dyn Iterator<Item = usize>| {
            places.fold((0u32, 0u64), |(writes, freed), at| (writes + units[at].1, freed + units[at].0))
        };
        let chosen = outcome(&mut write_minimized(&units, least).into_iter());
        let sets = 0..1usize << units.len();
        let of_set = |set: usize| outcome(&mut (0..units.len()).filter(|at| set >> at & 1 == 1));
        let enough = sets.map(of_set).filter(|&(_, freed)| freed >= least);
        let best = enough.min_by_key(|&(writes, freed)| (writes, std::cmp::Reverse(freed)));
        worse += u32::from(best.is_some_and(|best| best != chosen));
    }
    vec![("choices".into(), cases.into()), ("worse_choices".into(), worse.into())]
}
