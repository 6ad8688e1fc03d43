//! Owed updates: an index below that refuses insertions on demand, and stores that refuse writes.

use super::*;
use nandex::check::CheckReport;
use nandex::ordered::{Direction, IndexStats, OrderedIndex, Visit};
use nandex::testing::get;

/// A lazy-update tree that refuses insertions once there were `left` more of them than removals since the
/// mount.
struct Tight<S> {
    tree: LazyUpdateTree<S>,
    left: u64,
}

type TightIndex<S> = Journaled<S, Tight<Below>>;

impl<S: PageStore> Buffered<S> for Tight<S> {
    type Config = (LazyUpdateConfig, u64);

    fn format(store: S, (config, left): &Self::Config) -> Result<Self, IndexError> {
        Ok(Tight { tree: LazyUpdateTree::format(store, config)?, left: *left })
    }
    fn mount(store: S, (config, left): &Self::Config) -> Result<Self, IndexError> {
        Ok(Tight { tree: LazyUpdateTree::mount(store, config)?, left: *left })
    }
    fn mount_after_cut(store: S, (config, left): &Self::Config) -> Result<Self, IndexError> {
        Ok(Tight { tree: LazyUpdateTree::mount_after_cut(store, config)?, left: *left })
    }
    fn record_of(_: &Self::Config) -> RecordFormat {
        RECORD
    }
    fn waiting_updates_max(config: &Self::Config) -> u64 {
        config.0.pool_requests.into()
    }
    fn class_below(&self) -> Durability {
        self.tree.class_below()
    }
}

impl<S: PageStore> OrderedIndex for Tight<S> {
    fn record(&self) -> RecordFormat {
        RECORD
    }
    fn durability(&self) -> Durability {
        Durability::None
    }
    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        self.tree.get(key, value)
    }
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.left = self.left.checked_sub(1).ok_or(IndexError::NO_BLOCK)?;
        self.tree.insert(key, value)
    }
    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        let existed = self.tree.remove(key)?;
        self.left += u64::from(existed);
        Ok(existed)
    }
    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        self.tree.range(low, high, direction, visit)
    }
    fn sync(&mut self) -> Result<(), IndexError> {
        self.tree.sync()
    }
    fn check(&mut self) -> Result<CheckReport, IndexError> {
        self.tree.check()
    }
    fn stats(&self) -> IndexStats {
        self.tree.stats()
    }
    fn ram_bytes(&self) -> usize {
        self.tree.ram_bytes()
    }
}

fn holds(index: &mut dyn OrderedIndex, model: &Model) {
    assert_holds(index, model);
    for n in 0..60 {
        assert_eq!(get(index, &key(n)).unwrap().as_ref(), model.get(&key(n)[..]));
    }
}

/// Carries out an update, and on the model too if it was done. Returns whether it was refused.
fn update(
    index: &mut dyn OrderedIndex,
    model: &mut Model,
    (n, v): (u16, Option<u16>),
) -> Result<bool, IndexError> {
    let done = match v {
        Some(v) => put(index, model, &key(n), &key(v)),
        None => take(index, model, &key(n)),
    };
    match done {
        Ok(_) => Ok(false),
        Err(error) if error.is_refusal() => Ok(true),
        Err(error) => Err(error),
    }
}

#[test]
fn a_journal_full_of_what_is_owed_takes_removals_and_gives_all_back() {
    let config = config_of(2);
    let mut index = TightIndex::format(Store::new(PAGE_BYTES, 300), &((inner(90), 90), config)).unwrap();
    let mut model = Model::new();
    for n in 0..2 * PAGE_RECORDS as u16 {
        assert_eq!(update(&mut index, &mut model, (n, Some(n))), Ok(false));
    }
    for owed in (0..model.len()).rev() {
        // Nothing but what is removed makes room, and no mount gives any.
        index = TightIndex::mount(index.into_store(), &((inner(90), 0), config)).unwrap();
        holds(&mut index, &model);
        assert_eq!(update(&mut index, &mut model, (99, Some(1))), Ok(true));
        assert_eq!(update(&mut index, &mut model, (98, None)), Ok(false));
        assert_eq!(update(&mut index, &mut model, (owed as u16, None)), Ok(false));
        holds(&mut index, &model);
        if owed == 5 {
            index.close().unwrap();
        }
    }
    assert!(model.is_empty());
    let mut index = TightIndex::mount(index.into_store(), &((inner(90), 1), config)).unwrap();
    assert_eq!(update(&mut index, &mut model, (1, Some(2))), Ok(false));
    holds(&mut index, &model);
}

#[test]
fn what_is_owed_is_there_after_any_cut() {
    let mut cuts = 0;
    for seed in 0..120 {
        let mut rng = Rng::new(seed);
        let config = config_of(1 + seed as u32 % 3);
        let store = Store::new(PAGE_BYTES, 300);
        let mut store = TightIndex::format(store, &((inner(50), 50), config)).unwrap().into_store();
        let mut model = Model::new();
        for _ in 0..12 {
            let left = rng.below(5) * rng.below(9);
            let cut = store.failing_after(5 + rng.below(60));
            let mut index = match TightIndex::mount(cut.handle(), &((inner(50), left), config)) {
                Ok(index) => index,
                Err(error) => {
                    assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
                    store = cut.copy();
                    continue;
                }
            };
            holds(&mut index, &model);
            let mut other = model.clone();
            for _ in 0..90 {
                let change = (rng.below(50) as u16, rng.chance(3, 5).then(|| rng.below(999) as u16));
                other.clone_from(&model);
                if let Err(error) = update(&mut index, &mut model, change) {
                    assert_eq!(error, IndexError::Store(StoreError::Nand(NandError::PowerLost)));
                    match change.1 {
                        Some(v) => other.insert(key(change.0).to_vec(), key(v).to_vec()),
                        None => other.remove(&key(change.0)[..]),
                    };
                    cuts += 1;
                    break;
                }
            }
            let mut index = TightIndex::mount(index.into_store().copy(), &((inner(50), 0), config)).unwrap();
            if contents(&mut index).unwrap() != model {
                model = other;
            }
            holds(&mut index, &model);
            store = index.into_store();
        }
        let mut index = TightIndex::mount(store, &((inner(50), 5_000), config)).unwrap();
        put(&mut index, &mut model, &key(7), &key(7)).unwrap();
        index.close().unwrap();
        let mut index = TightIndex::mount(index.into_store(), &((inner(50), 0), config)).unwrap();
        holds(&mut index, &model);
    }
    assert!(cuts > 500, "{cuts}");
}
