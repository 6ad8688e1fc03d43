//! A chip that fails for a moment and returns while its owner goes on. The owner must not write on a state
//! that it does not know. It answers with errors until the next mount, which finds everything.

use super::part;
use super::unclosed::{Entry, Kind, Model};
use crate::sizes::sized;
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::ordered::{Durability, RecordFormat};
use nandex::rng::Rng;
use nandex::{Cause, Lpn, Nand, PageStore, Shared, StoreError};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{STORES, StoreEntry, stacks};
use std::collections::{BTreeMap, BTreeSet};

/// The values that a page or a record may have.
type Allowed = BTreeMap<u32, BTreeSet<u64>>;

fn one_of<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// Plans the failure of the chip within the next `within` operations.
fn plan(chip: &Shared<SimChip>, rng: &mut Rng, within: u64) {
    let mut chip = chip.lock();
    let at_operation = chip.operations() + rng.below(within);
    let when = one_of(rng, &[CutWhen::Before, CutWhen::Inside, CutWhen::After]);
    let torn = one_of(rng, &TornModel::ALL);
    chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: rng.next_u64() });
}

fn came_back(chip: &Shared<SimChip>) -> bool {
    let mut chip = chip.lock();
    let was_gone = !chip.is_powered();
    chip.power_on();
    was_gone
}

/// Runs a life of a store. Fails with a message.
fn live_on_store(entry: &StoreEntry, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let chip = Shared::new(SimChip::new(&part(512, 16, 48)).unwrap());
    let settings = Settings::new(RecordFormat::new(8, 8));
    let open = |is_new: bool| -> Result<Box<dyn PageStore>, StoreError> {
        let nand: Box<dyn Nand> = Box::new(chip.clone());
        if is_new { (entry.format)(nand, &settings) } else { (entry.mount)(nand, &settings) }
    };
    let mut store = open(true).map_err(|error| format!("the format: {error}"))?;
    let pages = store.page_count().min(120);
    let mut allowed = Allowed::new();
    let mut version = 0;
    for _ in 0..6 {
        plan(&chip, &mut rng, 120);
        // Calls that the owner makes after the chip came back.
        let mut calls = 30;
        while calls > 0 {
            version += 1;
            let count = rng.below(store.atomic_pages_max().min(5) as u64) as u32 + 1;
            let first = rng.below(u64::from(pages - count)) as u32;
            let page =
                |lpn: u32| [&version, &u64::from(lpn)].map(|n: &u64| n.to_le_bytes()).concat().repeat(32);
            let data: Vec<Vec<u8>> = (first..first + count).map(page).collect();
            let group: Vec<(Lpn, &[u8])> = (first..).map(Lpn).zip(data.iter().map(Vec::as_slice)).collect();
            let (lpns, value, done) = match rng.below(12) {
                0 => (0..0, 0, store.sync()),
                1 => (0..0, 0, store.maintain(2).map(drop)),
                2 => (first..first + 1, 0, store.trim(Lpn(first))),
                3..7 if count > 1 => (first..first + count, version, store.write_atomic(&group, Cause::Host)),
                _ => (first..first + 1, version, store.write(Lpn(first), Cause::Host, &data[0])),
            };
            let is_trim = value == 0;
            for lpn in lpns {
                let values = allowed.entry(lpn).or_insert_with(|| BTreeSet::from([0]));
                // What was trimmed may come back until a sync.
                if done.is_ok() && !is_trim {
                    values.clear();
                }
                values.insert(value);
            }
            if done.is_err() {
                came_back(&chip);
            }
            calls -= u32::from(done.is_err() || calls < 30);
        }
        came_back(&chip);
        chip.lock().plan_power_cut(PowerCut {
            at_operation: 0,
            when: CutWhen::Before,
            torn: TornModel::ALL[0],
            seed: 0,
        });
        drop(store);
        store = open(false).map_err(|error| format!("a mount: {error}"))?;
        let mut page = vec![0; 512];
        for (&lpn, values) in &mut allowed {
            store.read(Lpn(lpn), Cause::Host, &mut page).map_err(|error| format!("page {lpn}: {error}"))?;
            let number = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
            let found = number(0);
            if !values.contains(&found) || (found > 0 && number(8) != u64::from(lpn)) {
                return Err(format!("page {lpn} is of write {found}, and {values:?} may be there"));
            }
            *values = BTreeSet::from([found]);
        }
    }
    Ok(())
}

#[test]
fn a_store_whose_chip_came_back_writes_no_more() {
    let mut wrong = Vec::new();
    for entry in STORES {
        for seed in 0..sized(15, 40) {
            if let Err(what) = live_on_store(entry, seed) {
                wrong.push(format!("{}, seed {seed}: {what}", entry.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs a life of an index whose chip fails and returns. Fails with a message.
fn live_on_index(entry: Entry, settings: &Settings, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let chip = Shared::new(SimChip::new(&entry.part()).unwrap());
    let mut index = entry.open_on(&chip, settings, true).map_err(|error| format!("the format: {error}"))?;
    let (mut allowed, mut next) = (Allowed::new(), 0);
    for _ in 0..3 {
        plan(&chip, &mut rng, 200);
        let mut calls = 25;
        for _ in 0..2000 {
            let kind = one_of(&mut rng, &[Kind::Insert, Kind::Update, Kind::Put, Kind::Remove]);
            let (kind, number) = if entry.appends() { (Kind::Insert, next) } else { (kind, rng.below(150)) };
            next += 1;
            // The number of records in the model is part of a value.
            let mut model: Model = (0..next).map(|n| (1 << 40 | n, 0)).collect();
            let syncs = rng.chance(1, 20);
            let done = if syncs { index.end(false) } else { index.change(kind, number, &mut model) };
            let values = allowed.entry(number as u32).or_insert_with(|| BTreeSet::from([0]));
            match done {
                _ if syncs => {}
                Ok(()) if matches!(kind, Kind::Remove) => *values = BTreeSet::from([0]),
                Ok(()) => *values = BTreeSet::from([model[&number]]),
                Err(_) => values.extend([0, number + 1_000_000 * next]),
            }
            if done.is_err() {
                came_back(&chip);
            }
            calls -= u32::from(done.is_err() || calls < 25);
            if calls == 0 {
                break;
            }
        }
        came_back(&chip);
        let never = PowerCut { at_operation: 0, when: CutWhen::Before, torn: TornModel::ALL[0], seed: 0 };
        chip.lock().plan_power_cut(never);
        drop(index);
        index = entry.open_on(&chip, settings, false).map_err(|error| format!("a mount: {error}"))?;
        let found = index.contents().map_err(|error| format!("a read: {error}"))?;
        for (&number, values) in &mut allowed {
            let value = found.get(&u64::from(number)).copied().unwrap_or(0);
            if !values.contains(&value) {
                return Err(format!("record {number} is {value}, and {values:?} may be there"));
            }
            *values = BTreeSet::from([value]);
        }
    }
    Ok(())
}

#[test]
fn an_index_whose_chip_came_back_loses_nothing() {
    let (mut lives, mut wrong) = (0, Vec::new());
    for stack in stacks() {
        let settings = stack.settings(Settings::new(RecordFormat::new(8, 8)));
        if settings.durability != Durability::EveryOperation {
            continue;
        }
        for seed in 0..sized(2, 4) {
            lives += 1;
            if let Err(what) = live_on_index(Entry::Ordered(stack.index), &settings, seed) {
                wrong.push(format!("{}, seed {seed}: {what}", stack.name()));
            }
        }
    }
    assert!(lives > sized(75, 150), "only {lives} lives");
    assert!(wrong.is_empty(), "{} faults of {lives} lives:\n{}", wrong.len(), wrong.join("\n"));
}
