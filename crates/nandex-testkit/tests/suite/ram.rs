//! The RAM budget is a bound for each index at every moment, measured by a counting allocator.

#![allow(clippy::unwrap_used)]

use crate::sizes::{sized, stride};
use nandex::blocks::{BlockTable, Validity};
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::nand::{BlockRange, Part, catalogue};
use nandex::ordered::value_log::{self, ValueLog};
use nandex::ordered::{Change, Durability, Metric, RecordFormat};
use nandex::rng::Rng;
use nandex::{
    Cause, Geometry, IndexError, Limit, Lpn, Nand, OrderedIndex, PageStore, Pbn, Plow, PlowConfig, Shared,
    StoreError, VictimPolicy,
};
use nandex_stacks::needed::ram_needed;
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{Hosting, INDEXES, IndexEntry, Need, STORES, StoreEntry};
use nandex_testkit::ram::Subject;
use nandex_testkit::{Apart, heap};
use std::hint::black_box;

/// A small part of 2 KiB pages.
fn part() -> Part {
    let mut part = catalogue::mlc_64m();
    part.geometry = Geometry::new(2048, 64, 64, 128);
    part
}

/// A part that is soon full.
fn small_part() -> Part {
    let mut part = catalogue::mlc_64m();
    part.geometry = Geometry::new(2048, 64, 32, 64);
    part
}

fn insert(index: &mut dyn OrderedIndex, entry: &IndexEntry) -> Result<(), IndexError> {
    let mut rng = Rng::new(1);
    for number in 0..4_000u64 {
        let key = if entry.takes_any_key() { rng.below(4_000) } else { number };
        match index.insert(&key.to_be_bytes(), &number.to_be_bytes()) {
            // Each record has a place in RAM there.
            Err(IndexError::Full(Limit::Ram)) if entry.name == "furrow" => break,
            done => drop(done?),
        }
        if number % 100 == 99 {
            index.sync()?;
        }
    }
    Ok(())
}

/// Peak of an index in percent of its RAM budget.
fn percent(entry: &IndexEntry, given: usize) -> Result<usize, IndexError> {
    let part = entry.suited(part());
    let settings = Settings {
        durability: Durability::EverySync,
        ram_bytes: Some(given),
        ..Settings::new(RecordFormat::new(8, 8))
    };
    let work = |index: &mut dyn OrderedIndex| insert(index, entry);
    let subject =
        Subject { format: entry.format, mount: entry.mount, part: &part, settings: &settings, work: &work };
    Ok((subject.peaks()?.most() * 100).div_ceil(given))
}

/// Peak of an FTL in percent of the bytes that it declares: full, after a power cut, and mounted.
fn percent_of_ftl(entry: &StoreEntry, settings: Settings) -> usize {
    let chip = heap::uncounted(|| Shared::new(SimChip::new(&small_part()).unwrap()));
    let handle = || heap::uncounted(|| Box::new(Apart::new(chip.clone())));
    let work = |store: &mut dyn PageStore, rounds: u32| {
        let (mut rng, data) = (Rng::new(2), heap::uncounted(|| vec![7; store.page_bytes()]));
        let pages = store.page_count();
        for round in 0..rounds * pages {
            let lpn = if round < pages { round } else { rng.below(pages.into()) as u32 };
            let written = store.write(Lpn(lpn), Cause::Host, &data);
            if written.is_err() {
                heap::uncounted(|| drop(data));
                return written;
            }
        }
        heap::uncounted(|| drop(data));
        Ok::<(), StoreError>(())
    };
    let (store, format) = heap::measure(|| (entry.format)(handle(), &settings));
    let mut store = store.unwrap();
    let (done, worked) = heap::measure(|| work(&mut *store, 2));
    done.unwrap();
    let (declared, for_mount) = (store.ram_bytes(), store.mount_ram_bytes());
    heap::uncounted(|| {
        let mut chip = chip.lock();
        let at_operation = chip.operations() + 300;
        let (when, torn) = (CutWhen::Inside, TornModel::Prefix);
        chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: 1 });
    });
    let _ = work(&mut *store, 2);
    drop(store);
    heap::uncounted(|| chip.lock().power_on());
    let (store, mounted) = heap::measure(|| (entry.mount)(handle(), &settings));
    let (done, after) = heap::measure(|| work(&mut *store.unwrap(), 1));
    done.unwrap();
    let most = format.peak.max(format.kept + worked.peak).max(mounted.kept + after.peak);
    (most * 100).div_ceil(declared).max((mounted.peak * 100).div_ceil(for_mount))
}

#[test]
fn no_ftl_holds_more_than_it_declares() {
    let mut faults = Vec::new();
    for entry in STORES {
        let has = |name: &str| entry.options.iter().any(|option| option.name == name);
        let plain = || Settings::new(RecordFormat::new(8, 8));
        let mut all = vec![("", plain())];
        if has("valid") {
            all.push((" counted", plain().with("valid", "counts")));
            all.push((" counted, small", plain().with("valid", "counts").with("mapping_ram", 100)));
        }
        for (form, settings) in all {
            let held = percent_of_ftl(entry, settings);
            if held > 100 {
                faults.push(format!("{}{form}: {held} %", entry.name));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Peak of an FTL in percent of the bytes that it declares, while nearly all of it is trimmed without a sync.
fn percent_in_trims(entry: &StoreEntry) -> usize {
    let settings = Settings::new(RecordFormat::new(8, 8));
    let chip = heap::uncounted(|| Shared::new(SimChip::new(&small_part()).unwrap()));
    let handle = heap::uncounted(|| Box::new(Apart::new(chip.clone())));
    let (store, format) = heap::measure(|| (entry.format)(handle, &settings));
    let mut store = store.unwrap();
    let data = heap::uncounted(|| vec![7; store.page_bytes()]);
    let order = heap::uncounted(|| {
        let mut order: Vec<u32> = (0..store.page_count()).collect();
        Rng::new(3).shuffle(&mut order);
        order
    });
    let (done, worked) = heap::measure(|| {
        for &lpn in &order {
            store.write(Lpn(lpn), Cause::Host, &data)?;
        }
        order.iter().try_for_each(|&lpn| store.trim(Lpn(lpn)))
    });
    done.unwrap();
    heap::uncounted(|| drop((data, order)));
    ((format.kept + worked.peak) * 100).div_ceil(store.ram_bytes())
}

#[test]
fn no_ftl_holds_more_than_it_declares_however_much_is_trimmed() {
    let held = STORES.iter().map(|entry| (entry.name, percent_in_trims(entry)));
    let faults: Vec<_> = held.filter(|&(_, held)| held > 100).collect();
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn no_index_holds_more_than_it_is_given() {
    let mut faults = Vec::new();
    for entry in INDEXES {
        let settings =
            Settings { durability: Durability::EverySync, ..Settings::new(RecordFormat::new(8, 8)) };
        let needed = ram_needed(entry, &entry.suited(part()), &settings).unwrap();
        // The smallest RAM, twice that, and plenty.
        for given in [needed, 2 * needed, needed + (256 << 10)].into_iter().take(sized(1, 3)) {
            let held = match percent(entry, given) {
                Ok(held) => held,
                Err(error) => panic!("{} of {given}: {error}", entry.name),
            };
            if held > 100 {
                faults.push(format!("{} of {given} bytes: {held} %", entry.name));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn no_index_declares_more_than_it_is_given_however_much() {
    let (mut faults, step) = (Vec::new(), stride(3));
    for (number, entry) in INDEXES.iter().enumerate() {
        let part = entry.suited(catalogue::mlc_64m());
        for mib in [1, 2, 3, 6, 9, 16, 33, 40].into_iter().skip(number % step).step_by(step) {
            for durability in [Durability::None, Durability::EverySync] {
                let settings = Settings {
                    durability,
                    ram_bytes: Some(mib << 20),
                    ..Settings::new(RecordFormat::new(8, 8))
                };
                let chip = Box::new(Shared::new(SimChip::new(&part).unwrap()));
                let declared = match (entry.format)(chip, &settings) {
                    Ok(index) => index.ram_bytes(),
                    Err(error) => panic!("{} in {mib} MiB: {error}", entry.name),
                };
                if declared > mib << 20 {
                    let over = declared - (mib << 20);
                    faults.push(format!("{} in {mib} MiB, {durability:?}: {over} bytes over", entry.name));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Chips on which the smallest RAM is a bound for indexes on raw NAND, and over DFTL for a B+-tree.
const LARGE: [&str; 2] = ["w25n01gv", GIBIBYTE];
/// Another one for a B+-tree over DFTL.
const FOR_TREE: &str = "mlc-64m";

/// Stands for a part of 1 GiB with 4 KiB pages.
const GIBIBYTE: &str = "1 GiB";

/// A part of the catalogue, or one of 1 GiB.
fn large_part(name: &str) -> Part {
    if name != GIBIBYTE {
        return catalogue::find(name).unwrap().clone();
    }
    let mut part = catalogue::mlc_64m();
    part.geometry = Geometry::new(4096, 128, 128, 2048);
    part
}

#[test]
fn a_tree_on_a_gibibyte_needs_no_more_than_64_kib() {
    let entry = INDEXES.iter().find(|entry| entry.name == "bplus").unwrap();
    let settings =
        Settings { durability: Durability::EveryOperation, ..Settings::new(RecordFormat::new(8, 8)) };
    let settings = settings.with("ftl", "dftl");
    let needed = |settings: &Settings| ram_needed(entry, &large_part(GIBIBYTE), settings).unwrap();
    let (bits, by_ram) = (needed(&settings.clone().with("valid", "bits")), needed(&settings));
    assert_eq!(needed(&settings.with("valid", "counts")), by_ram);
    assert!(
        by_ram <= 64 << 10 && bits > by_ram + (24 << 10),
        "{by_ram} bytes, {bits} with a bit for each page"
    );
}

/// Message if an index with its smallest budget exceeds it on a large chip.
fn beyond_the_smallest(chip: &str, entry: &IndexEntry, ftl: Option<&str>) -> Option<String> {
    let part = &large_part(chip);
    let mut settings =
        Settings { durability: Durability::EveryOperation, ..Settings::new(RecordFormat::new(8, 8)) };
    ftl.iter().for_each(|ftl| settings.options.set("ftl", ftl));
    let needed = ram_needed(entry, part, &settings).unwrap();
    settings.ram_bytes = Some(needed);
    let work = |index: &mut dyn OrderedIndex| insert(index, entry);
    let subject =
        Subject { format: entry.format, mount: entry.mount, part, settings: &settings, work: &work };
    let peaks = subject.peaks().unwrap();
    (peaks.most() > needed)
        .then(|| format!("{} over {ftl:?} on {chip} needs {needed} bytes: {peaks:?}", entry.name))
}

#[test]
fn the_smallest_ram_is_a_bound_on_a_large_chip() {
    let mut faults = Vec::new();
    let is_raw =
        |entry: &&IndexEntry| entry.hosting == Hosting::Raw && !entry.needs.contains(&Need::Overwriting);
    let step = stride(2);
    for (number, entry) in INDEXES.iter().filter(is_raw).enumerate() {
        let chips = LARGE.iter().skip(number % step).step_by(step);
        faults.extend(chips.filter_map(|chip| beyond_the_smallest(chip, entry, None)));
    }
    let tree = INDEXES.iter().find(|entry| entry.name == "bplus").unwrap();
    let chips = LARGE.iter().copied().chain([FOR_TREE]);
    faults.extend(chips.filter_map(|chip| beyond_the_smallest(chip, tree, Some("dftl"))));
    assert!(faults.is_empty(), "{faults:#?}");
}

/// A table of blocks takes as many bytes as it declares before it is made.
#[test]
fn a_table_of_blocks_takes_what_it_says() {
    for geometry in [Geometry::new(4096, 128, 128, 2048), Geometry::new(512, 16, 300, 70_000)] {
        for validity in [Validity::Bits, Validity::Counts] {
            for policy in [VictimPolicy::Greedy, VictimPolicy::Fifo, VictimPolicy::Cat] {
                let (table, held) = heap::measure(|| {
                    let mut table = BlockTable::keeping(geometry, validity);
                    table.follow(policy);
                    table
                });
                let (needed, asked) = heap::measure(|| BlockTable::ram_needed(geometry, validity, policy));
                let held = size_of::<BlockTable>() + held.kept;
                assert_eq!((needed, asked.peak), (table.ram_bytes(), 0), "{validity:?} {policy:?}");
                assert!(
                    held <= needed && held * 10 > needed * 6,
                    "{held} of {needed}: {validity:?} {policy:?}"
                );
            }
        }
    }
}

/// Most bytes that a batch of trees on pages of 2 KiB may hold for each change, in addition to the smallest
/// RAM.
const CHANGE_BYTES: usize = 48;

#[test]
fn a_batch_holds_little_for_each_change_and_keeps_none_of_it() {
    let mut faults = Vec::new();
    for name in ["mu", "mu-star", "wandering", "vmtree"] {
        let (part, entry) =
            (large_part("w25n01gv"), INDEXES.iter().find(|entry| entry.name == name).unwrap());
        let mut settings =
            Settings { durability: Durability::EveryOperation, ..Settings::new(RecordFormat::new(8, 8)) };
        let needed = ram_needed(entry, &part, &settings).unwrap();
        settings.ram_bytes = Some(needed);
        let chip = heap::uncounted(|| Shared::new(SimChip::new(&part).unwrap()));
        let handle = heap::uncounted(|| Box::new(Apart::new(chip.clone())));
        let (mut index, formatted) = heap::measure(|| (entry.format)(handle, &settings).unwrap());
        let (done, worked) = heap::measure(|| insert(&mut *index, entry));
        done.unwrap();
        let keys = heap::uncounted(|| (0..256u64).map(|key| (key * 15).to_be_bytes()).collect::<Vec<_>>());
        let changes =
            heap::uncounted(|| keys.iter().map(|key| Change::put(key, b"anotherv")).collect::<Vec<_>>());
        let (done, batch) = heap::measure(|| index.apply(&changes));
        done.unwrap();
        let held = formatted.kept + worked.kept + batch.peak;
        if held > needed + changes.len() * CHANGE_BYTES || batch.kept > 64 {
            faults.push(format!("{name}: {held} of {needed} bytes, {batch:?}"));
        }
        heap::uncounted(|| drop(changes));
        heap::uncounted(|| drop(keys));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Tables of hundreds of moved nodes in checkpoints and mounts.
#[test]
fn tables_of_moves_take_no_more_than_there_is() {
    let entry = INDEXES.iter().find(|entry| entry.name == "vmtree").unwrap();
    let mut faults = Vec::new();
    for (chip, records) in [("w25n01gv", 200_000), ("mlc-64m", 300_000)].into_iter().take(sized(1, 2)) {
        let part = &large_part(chip);
        let settings =
            Settings { durability: Durability::EveryOperation, ..Settings::new(RecordFormat::new(8, 8)) };
        let needed = ram_needed(entry, part, &settings).unwrap();
        let amounts = [needed, needed + (24 << 10), 128 << 10, 512 << 10];
        for given in amounts.into_iter().step_by(stride(3)) {
            let settings = Settings { ram_bytes: Some(given), ..settings.clone() };
            let work = |index: &mut dyn OrderedIndex| {
                let mut rng = Rng::new(1);
                for number in 0..records {
                    index.insert(&rng.below(records).to_be_bytes(), &number.to_be_bytes())?;
                }
                heap::uncounted(|| {
                    let metrics = index.stats().metrics;
                    let metric = |name| metrics.iter().find(|metric| metric.name == name).unwrap().value;
                    let (used, most) = (metric("mapping_entries"), metric("mapping_entries_max"));
                    assert!(used > 300 || used > 38 && used * 2 > most, "{used} of {most} entries");
                });
                Ok(())
            };
            let subject =
                Subject { format: entry.format, mount: entry.mount, part, settings: &settings, work: &work };
            let peaks = subject.peaks().unwrap();
            if peaks.most() > given {
                faults.push(format!("{chip}, {given} bytes: {peaks:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn valid_pages_are_counted_and_collected_within_the_smallest_ram() {
    let mut faults = Vec::new();
    for (name, ftl) in [("mu", None), ("mu-star", None), ("wandering", None), ("bplus", Some("dftl"))] {
        let (part, entry) = (small_part(), INDEXES.iter().find(|entry| entry.name == name).unwrap());
        let settings =
            Settings { durability: Durability::EveryOperation, ..Settings::new(RecordFormat::new(8, 8)) };
        let mut settings = settings.with("valid", "counts");
        ftl.iter().for_each(|ftl| settings.options.set("ftl", ftl));
        let needed = ram_needed(entry, &part, &settings).unwrap();
        settings.ram_bytes = Some(needed);
        let work = |index: &mut dyn OrderedIndex| {
            let mut rng = Rng::new(2);
            for number in 0..6_000u64 {
                let key = rng.below(2_000).to_be_bytes();
                if rng.chance(2, 3) {
                    index.insert(&key, &number.to_be_bytes())?;
                } else {
                    index.remove(&key)?;
                }
            }
            assert!(heap::uncounted(|| index.stats().collections) > 10, "{name}");
            Ok(())
        };
        let subject = Subject {
            format: entry.format,
            mount: entry.mount,
            part: &part,
            settings: &settings,
            work: &work,
        };
        let peaks = subject.peaks().unwrap();
        if peaks.most() > needed {
            faults.push(format!("{name} needs {needed} bytes: {peaks:?}"));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn maps_of_plow_are_written_and_mounted_within_its_ram() {
    let part = catalogue::mlc_with(1024, 8, 300);
    let entry = INDEXES.iter().find(|entry| entry.name == "plow").unwrap();
    let settings =
        Settings { durability: Durability::EveryOperation, ..Settings::new(RecordFormat::new(8, 64)) };
    // In the least RAM there are none: the extents are too few.
    let given = ram_needed(entry, &part, &settings).unwrap() + 12_000;
    let settings = Settings { ram_bytes: Some(given), ..settings };
    let work = |index: &mut dyn OrderedIndex| {
        let mut rng = Rng::new(2);
        for number in 0..20_000u64 {
            index.insert(&(rng.below(16_000) << 32).to_be_bytes(), &number.to_be_bytes().repeat(8))?;
        }
        let metric = |metric: &Metric| metric.name == "maps_written" && metric.value > 2;
        assert!(heap::uncounted(|| index.stats().metrics.iter().any(metric)), "no maps");
        Ok(())
    };
    let subject =
        Subject { format: entry.format, mount: entry.mount, part: &part, settings: &settings, work: &work };
    let peaks = subject.peaks().unwrap();
    assert!(peaks.most() <= given, "of {given} bytes: {peaks:?}");
}

#[test]
fn log_sectors_of_pages_that_lend_bytes_are_found_again() {
    let part = catalogue::find("w25n01gv").unwrap();
    let entry = INDEXES.iter().find(|entry| entry.name == "ipl").unwrap();
    let settings = Settings::new(RecordFormat::new(8, 8));
    let work = |index: &mut dyn OrderedIndex| insert(index, entry);
    let subject =
        Subject { format: entry.format, mount: entry.mount, part, settings: &settings, work: &work };
    subject.peaks().unwrap();
}

#[test]
fn what_is_held_and_kept_is_counted() {
    let (kept, held) = heap::measure(|| {
        // The optimiser may leave out what nobody looks at.
        drop(black_box(vec![0u8; 5_000]));
        heap::uncounted(|| drop(black_box(vec![0u8; 50_000])));
        black_box(vec![0u8; 1_000])
    });
    assert_eq!((held.peak, held.kept, kept.len()), (5_000, 1_000, 1_000));
}

#[test]
fn a_log_of_values_holds_no_more_than_it_needs() {
    const LOG: u32 = 40;
    let record = value_log::record(8, 30);
    let index_ram = 24 << 10;
    for max_value in [100, 3_000, 20_000].into_iter().skip(sized(1, 0)) {
        let chip = heap::uncounted(|| Shared::new(SimChip::new(&small_part()).unwrap()));
        let half = |first: u32, blocks| {
            heap::uncounted(|| BlockRange::new(Apart::new(chip.clone()), Pbn(first), blocks))
        };
        let config = PlowConfig {
            durability: Durability::EverySync,
            ram_bytes: Some(index_ram),
            ..PlowConfig::new(record)
        };
        let needed = index_ram + value_log::ram_needed(half(0, LOG).geometry(), record, max_value);
        let format = || Plow::format(half(LOG, 64 - LOG), &config);
        let mount = || Plow::mount(half(LOG, 64 - LOG), &config);
        let put_all = |values: &mut ValueLog<_, _>, puts: u64| {
            let mut rng = Rng::new(2);
            let value = heap::uncounted(|| vec![7; max_value]);
            let keys = 2_600_000 / max_value as u64;
            for _ in 0..puts {
                let key = rng.below(keys).to_be_bytes();
                let bytes = rng.below(max_value as u64 + 1) as usize;
                let done = match rng.below(20) {
                    0 => values.remove(&key).map(drop),
                    1 => values.sync(),
                    _ => values.put(&key, &value[..bytes]),
                };
                if let Err(error) = done {
                    heap::uncounted(|| drop(value));
                    return Err(error);
                }
            }
            heap::uncounted(|| drop(value));
            Ok(())
        };
        let (values, formatted) = heap::measure(|| ValueLog::new(format()?, half(0, LOG), max_value));
        let mut values = values.unwrap();
        let (done, worked) = heap::measure(|| put_all(&mut values, 30_000_000 / max_value as u64));
        done.unwrap();
        assert!(values.log_stats().values_moved > 0, "nothing was cleaned");
        heap::uncounted(|| {
            let mut chip = chip.lock();
            let at_operation = chip.operations() + 300;
            let (when, torn) = (CutWhen::Inside, TornModel::Prefix);
            chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: 1 });
        });
        let _ = put_all(&mut values, 60_000);
        drop(values);
        heap::uncounted(|| chip.lock().power_on());
        let (values, mounted) = heap::measure(|| ValueLog::new(mount()?, half(0, LOG), max_value));
        let mut values = values.unwrap();
        let (done, after) = heap::measure(|| put_all(&mut values, 500));
        done.unwrap();
        let most =
            formatted.peak.max(formatted.kept + worked.peak).max(mounted.peak).max(mounted.kept + after.peak);
        assert!(most <= needed, "values of {max_value}: {most} bytes held, {needed} needed");
        assert!(most * 10 > needed * 7, "values of {max_value}: {needed} bytes are more than {most}");
    }
}
