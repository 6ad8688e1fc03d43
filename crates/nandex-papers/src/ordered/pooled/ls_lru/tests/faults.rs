//! Small buffers, full stores, power cuts, forged pages, settings that cannot work.

use super::*;
use nandex::ordered::RecordFormat;
use nandex::store::StoreError;
use nandex::testing::Call;

#[test]
fn a_dirty_part_of_any_size_is_committed() {
    for (window_percent, split_factor) in [(0, 2), (50, 3), (100, 4)] {
        let mut index = small_index(LsLruConfig {
            window_percent,
            split_factor,
            answers: Answers::Pool,
            ..config(4, 200)
        });
        let mut model = Model::new();
        for n in 0..1_900 {
            index.insert(&key(n), &key(n)).unwrap();
            model.insert(key(n).to_vec(), key(n).to_vec());
        }
        assert!(index.counts.multi_split_commits > 100);
        assert_sound(&mut index, &model);
        for n in 0..1_900 {
            index.remove(&key(n)).unwrap();
        }
        index.sync().unwrap();
        assert_sound(&mut index, &Model::new());
        assert_eq!(index.stats().height, 1);
    }
}

#[test]
fn the_smallest_buffers_work() {
    let step = crate::inputs::stride(11);
    for slabs in 0..6 {
        for window_percent in [0, 50, 100] {
            for kind in (0..options::KINDS).skip(slabs % step).step_by(step) {
                let config = LsLruConfig { window_percent, ..config(5, slabs) };
                let mut index = small_index(options::varied(config, kind));
                let mut model = Model::new();
                for n in (0..1_000u16).map(|n| n * 37 % 1_009) {
                    put(&mut index, &mut model, &key(n), &key(n)).unwrap();
                }
                assert_holds(&mut index, &model);
            }
        }
    }
}

#[test]
fn a_full_merge_comes_after_so_many_updates() {
    let mut index = small_index(LsLruConfig { full_merge_every: 25, ..config(5, 100) });
    for n in 0..100 {
        index.insert(&key(n), &key(n)).unwrap();
        assert!(index.waiting_entries() < 25);
    }
    assert_eq!((index.counts.full_merges, index.waiting_entries()), (4, 0));
}

#[test]
fn a_full_store_loses_nothing_and_removals_make_room() {
    for (window_percent, kind) in
        [0, 50, 100].into_iter().flat_map(|w| (0..options::KINDS).map(move |k| (w, k)))
    {
        let config = options::varied(LsLruConfig { window_percent, ..config(4, 3) }, kind);
        let mut index = LsLruTree::format(Store::new(128, 40), &config).unwrap();
        let mut model = Model::new();
        let mut refused = 0;
        for n in (0..400u16).map(|n| n * 17 % 400) {
            if let Err(error) = put(&mut index, &mut model, &key(n), &key(n)) {
                assert!(error.is_full(), "{error}");
                refused += 1;
            }
        }
        assert!(refused > 100 && model.len() > 60, "{refused} {}", model.len());
        assert_sound(&mut index, &model);
        while index.sync() == Err(IndexError::NO_BLOCK) {
            let (first, _) = model.pop_first().unwrap();
            assert_eq!(index.remove(&first), Ok(true));
            assert_sound(&mut index, &model);
        }
        assert!(model.len() > 40);
        assert_eq!((index.waiting_entries(), contents(&mut index)), (0, Ok(model)));
    }
}

/// Makes a store refuse groups with certain pages, like a store with failed blocks. With `salt` 0 nothing is
/// refused.
fn refuse_some(store: &Store, salt: u32) {
    let is_refused = move |lpn: Lpn| (lpn.0 ^ salt).wrapping_mul(0x9e37_79b9) >> 30 == 0;
    store.on_call(move |call| match call {
        Call::Write(pages, _) if salt != 0 && pages.iter().any(|(lpn, _)| is_refused(*lpn)) => {
            Err(StoreError::WornOut)
        }
        _ => Ok(()),
    });
}

#[test]
fn updates_past_a_full_buffer_leave_room_for_what_waits() {
    let mut bypasses = 0;
    for seed in 0..crate::inputs::sized(6, 40) {
        let config = LsLruConfig { window_percent: 25 * (seed % 5) as u8, ..config(18, seed as usize % 3) };
        let config = options::varied(config, seed);
        let store = LsLruTree::format(Store::new(128, 400), &config).unwrap().into_store();
        let mut index = LsLruTree::mount(store.handle(), &config).unwrap();
        let (mut model, mut rng) = (Model::new(), Rng::new(seed));
        for step in 0..4_000 {
            refuse_some(&store, u32::from(step / 400));
            let (n, v) = (key(rng.below(600) as u16), key(step));
            let is_put = rng.chance(1, 2);
            let done =
                if is_put { put(&mut index, &mut model, &n, &v) } else { take(&mut index, &mut model, &n) };
            if let Err(error) = done {
                assert!(error.is_refusal(), "{error}");
            }
            if step % 100 == 0 {
                assert_sound(&mut index, &model);
            }
        }
        store.refuse_nothing();
        index.sync().unwrap();
        assert_eq!(contents(&mut index).unwrap(), model);
        bypasses += index.counts.bypasses;
    }
    assert!(bypasses > crate::inputs::sized(150, 1_000), "{bypasses}");
}

#[test]
fn buffer_and_configuration_agree_on_the_ram() {
    let config = LsLruConfig::new(RecordFormat::new(4, 4), 100_000);
    let mut index = LsLruTree::format(Store::new(2_048, 900), &config).unwrap();
    let held = buffer_ram(&index);
    assert!(held <= 100_000 && held > 97_000, "{held}");
    let mut rng = Rng::new(1);
    for _ in 0..20_000 {
        index.insert(&(rng.next_u64() as u32).to_be_bytes(), &[0; 4]).unwrap();
    }
    assert_eq!(buffer_ram(&index), held);
    assert!(
        index.ram_bytes() - index.store().ram_bytes() <= config.ram_bytes_max(index.store()).unwrap(),
        "whatever it does"
    );
}

#[test]
fn what_cannot_work_is_refused() {
    let format = |config| LsLruTree::format(Store::new(128, 40), &config).err();
    let small = LsLruConfig { buffer_bytes: LsLruConfig::buffer_bytes_min(SMALL, 128) - 1, ..config(4, 0) };
    assert!(matches!(format(small), Some(IndexError::Unsupported(_))));
    assert_eq!(format(config(4, 0)), None);
    for wrong in [
        LsLruConfig { window_percent: 101, ..config(4, 9) },
        LsLruConfig { split_factor: 1, ..config(4, 9) },
        LsLruConfig { tree: BPlusConfig::new(SMALL).with_order(4), ..config(4, 9) },
    ] {
        assert!(matches!(format(wrong), Some(IndexError::Unsupported(_))));
    }
    let mut index = small_index(config(4, 9));
    assert!(matches!(index.insert(&[0; 3], &[0; 2]), Err(IndexError::WrongLength { .. })));
    assert!(matches!(index.get(&[0; 2], &mut [0; 3]), Err(IndexError::WrongLength { .. })));
}

#[test]
fn a_cut_at_any_write_is_noticed_and_leaves_each_key_as_at_the_last_sync_or_later() {
    let (mut refused, mut mixed) = (0, 0);
    for writes in 0..260 {
        let window_percent = [0, 25, 50, 75, 100][writes as usize % 5];
        let config = LsLruConfig { window_percent, commit_entries: 6, split_factor: 2, ..config(4, 5) };
        let config = options::varied(config, writes);
        let store = LsLruTree::format(Store::new(128, 400), &config).unwrap().into_store();
        let mut index = LsLruTree::mount(store.failing_after(writes), &config).unwrap();
        let history = work_until_the_cut(&mut index);
        let store = index.into_store().copy();
        match LsLruTree::mount(store.copy(), &config) {
            Err(error) => {
                assert_eq!(error, IndexError::NotCleanlyClosed);
                refused += 1;
            }
            Ok(mut index) => {
                assert_eq!(contents(&mut index).unwrap(), *history.synced(), "after {writes} writes");
            }
        }
        let mut index = LsLruTree::mount_after_cut(store, &config).unwrap();
        let found = contents(&mut index).unwrap();
        assert_sound(&mut index, &found);
        mixed += u32::from(found != *history.synced());
        history.assert_each_key(&found);
        index.insert(&key(5), &[0; 2]).unwrap();
        index.close().unwrap();
        assert!(LsLruTree::mount(index.into_store(), &config).is_ok());
    }
    assert!(refused > 150 && mixed > 100, "{refused} {mixed}");
}

/// A forger who knows the checksum may mislead the index. It must neither panic nor run for ever.
#[test]
fn forged_pages_never_panic() {
    crate::inputs::cases(1_500, |seed| {
        let rng = &mut Rng::new(seed);
        let (window_percent, slabs) = (50 * rng.below(3) as u8, rng.below(20) as usize);
        let config = LsLruConfig { window_percent, commit_entries: 4, ..config_over(4, slabs, 64) };
        let config = options::varied(config, rng.below(options::KINDS));
        let mut index = LsLruTree::format(Store::new(64, 60), &config).unwrap();
        index.bulk_load((0..60).map(|n| (key(n), [0; 2])), Fill::FULL).unwrap();
        index.sync().unwrap();
        let store = index.into_store();
        forge(&store, any_forgeries(rng, (30, 40), 8));
        if let Ok(mut index) = LsLruTree::mount(store, &config) {
            use_forged(&mut index, rng.next_u64());
        }
    });
}
