//! The driver of the fuzz targets and the property tests: an index of the registry driven by bytes, and
//! chips with damaged pages.
//!
//! The bytes of [`ordered_ops`] choose an index, a chip, record sizes, a durability class, a cache, and then
//! operations, remounts and power cuts. Everything is compared with a `BTreeMap`; whatever differs panics.

pub mod chips;
pub mod files;

use nandex::Shared;
use nandex::nand::Nand;
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::ordered::{Change, Cursor, Direction, Durability, RecordFormat};
use nandex::rng::{Rng, split_mix};
use nandex::{Cause, IndexError, Lpn, NandError, OrderedIndex, Pbn, StoreError};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{Hosting, INDEXES, STORES, Stack};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

/// The contents that an index should have.
pub type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// The bytes that steer a run; zeros when they are used up.
struct Script<'a> {
    bytes: &'a [u8],
}

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn choose<T: Copy>(&mut self, items: &[T]) -> T {
        items[usize::from(self.byte()) % items.len()]
    }
}

const RECORDS: [(u8, u8); 6] = [(4, 4), (8, 4), (8, 8), (16, 8), (2, 0), (1, 0)];
const CLASSES: [Durability; 3] = [Durability::EveryOperation, Durability::EverySync, Durability::None];
/// Options set now and then, for indexes that have them.
const OPTIONS: [(&str, u32); 5] = [
    ("journal", 5),
    ("journal_pages", 2),
    ("buffer_bytes", 1),
    ("pool_requests", 9),
    ("reservation_units", 9),
];

pub use nandex::nand::catalogue::mlc_with as part;

/// A key and its value.
pub type Record = (Vec<u8>, Vec<u8>);

/// All records of an index, read by one range search.
pub fn contents(index: &mut dyn OrderedIndex, direction: Direction) -> Result<Vec<Record>, IndexError> {
    let mut all = Vec::new();
    index.range(Bound::Unbounded, Bound::Unbounded, direction, &mut |key, value| {
        all.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// A key above the largest one, for indexes of ascending keys. Returns `None` if there is no greater key.
fn key_above(model: &Contents, mut key: Vec<u8>) -> Option<Vec<u8>> {
    let Some((largest, _)) = model.last_key_value() else { return Some(key) };
    if key > *largest && key[0] == largest[0] {
        return Some(key);
    }
    key.clone_from(largest);
    let place = key.iter().rposition(|&byte| byte != 0xff)?;
    key[place] += 1;
    key[place + 1..].fill(0);
    Some(key)
}

/// Uses an index as its keys allow: random puts and removals over `keys` numbers, or appends. Returns the
/// contents afterwards.
pub fn use_for_a_while(
    index: &mut dyn OrderedIndex,
    entry: &nandex_stacks::registry::IndexEntry,
    rng: &mut Rng,
    (operations, keys): (u64, u64),
) -> Result<Contents, IndexError> {
    let mut model = Contents::new();
    for number in 0..operations {
        let any = rng.below(keys);
        let key = if entry.takes_any_key() { any } else { number };
        let key = key.to_be_bytes();
        if rng.chance(2, 3) || !entry.takes_any_key() {
            index.insert(&key, &number.to_be_bytes())?;
            model.insert(key.to_vec(), number.to_be_bytes().to_vec());
        } else {
            index.remove(&key)?;
            model.remove(&key[..]);
        }
    }
    Ok(model)
}

struct Driver<'a> {
    script: Script<'a>,
    entry: &'static nandex_stacks::registry::IndexEntry,
    settings: Settings,
    chip: Shared<SimChip>,
    index: Box<dyn OrderedIndex>,
    model: Contents,
    /// The states since the last sync, the oldest first, without the one now.
    earlier: Vec<Contents>,
    step: u32,
}

/// Runs the operations that the bytes say. Panics at the first wrong answer.
pub fn ordered_ops(bytes: &[u8]) {
    let mut script = Script { bytes };
    let entry = &INDEXES[usize::from(script.byte()) % INDEXES.len()];
    let page_bytes = script.choose(&[512, 1024, 2048, 4096]);
    let part = part(page_bytes, script.choose(&[8, 16, 32, 64]), 24 + u32::from(script.byte() % 16));
    let mut part = entry.suited(part);
    part.geometry.spare_bytes = script.choose(&[64, 64, 16, 0]);
    let (key_bytes, value_bytes) = script.choose(&RECORDS);
    let mut settings = Settings::new(RecordFormat::new(key_bytes, value_bytes));
    settings.durability = script.choose(&CLASSES);
    settings.ram_bytes = script.choose(&[None, None, Some(60_000), Some(150_000)]);
    for (name, value) in OPTIONS {
        if entry.options.iter().any(|option| option.name == name) && script.byte() % 2 == 1 {
            settings = settings.with(name, value);
        }
    }
    // A tree on raw NAND has an FTL beneath now and then.
    if entry.hosting == Hosting::Store || script.byte().is_multiple_of(4) {
        let ftl = Some(&STORES[usize::from(script.byte()) % STORES.len()]);
        settings = Stack { index: entry, ftl }.settings(settings);
    }
    let chip = SimChip::new(&part).unwrap_or_else(|error| panic!("{error}"));
    let chip = Shared::new(chip);
    let index = match (entry.format)(Box::new(chip.clone()), &settings) {
        Ok(index) => index,
        Err(error) if error.is_unsupported() => return assert!(!error.to_string().is_empty()),
        Err(error) => panic!("{}: format: {error}", entry.name),
    };
    let mut driver =
        Driver { script, entry, settings, chip, index, model: Contents::new(), earlier: Vec::new(), step: 0 };
    while !driver.script.bytes.is_empty() {
        if !driver.step() {
            return;
        }
    }
    driver.compare_all();
}

impl Driver<'_> {
    fn key(&mut self) -> Vec<u8> {
        let number = self.script.word();
        self.key_numbered(number)
    }

    /// Key with this number, from some two thousand, so that keys repeat.
    fn key_numbered(&self, number: u16) -> Vec<u8> {
        let mut key = vec![0; self.settings.record.key_bytes.into()];
        let width = key.len();
        key[width - 1] = number as u8;
        if width > 1 {
            key[width - 2] = (number >> 8) as u8 % 8;
            key[0] |= (number >> 14) as u8;
        }
        key
    }

    fn value(&self) -> Vec<u8> {
        let mut value = vec![0; self.settings.record.value_bytes.into()];
        Rng::new(split_mix(self.step.into())).fill(&mut value);
        value
    }

    /// One step; false when the index may not be used any more.
    fn step(&mut self) -> bool {
        self.step += 1;
        match self.script.byte() % 64 {
            0..26 => self.insert(),
            26..40 => self.remove(),
            40..47 => self.get(),
            47..52 => self.range(),
            52..55 => self.many(),
            55 => self.sync(),
            56 => self.check(),
            57 => return self.remount(true),
            58 => return self.remount(false),
            59 => return self.drop_without_sync(),
            60 => return self.batch(),
            61 => self.work_ahead(),
            62 => self.cursor(),
            _ => return self.cut(),
        }
        self.assert_ram();
        true
    }

    fn assert_ram(&self) {
        let (held, given) = (self.index.ram_bytes(), self.settings.ram_bytes);
        assert!(given.is_none_or(|given| held <= given), "{}: {held} bytes held", self.entry.name);
    }

    /// A key to insert: a random one, or one above all others for an index of ascending keys.
    fn key_to_insert(&mut self) -> Option<Vec<u8>> {
        let key = self.key();
        if self.entry.takes_any_key() { Some(key) } else { key_above(&self.model, key) }
    }

    fn insert(&mut self) {
        if let Some(key) = self.key_to_insert() {
            self.put(key);
        }
    }

    fn put(&mut self, key: Vec<u8>) {
        let value = self.value();
        // Every third one does not ask whether the key existed.
        let asks = !self.step.is_multiple_of(3);
        let done = if asks {
            self.index.insert(&key, &value).map(Some)
        } else {
            self.index.put(&key, &value).map(|()| None)
        };
        match done {
            Ok(existed) => {
                self.keep_state();
                let is_old = self.model.insert(key, value).is_some();
                assert!(existed.is_none_or(|existed| existed == is_old), "insert");
            }
            Err(IndexError::Full(_)) => {}
            Err(error) => panic!("{}: insert: {error}", self.entry.name),
        }
    }

    /// Remembers the current state as one that a power cut may bring back, if the class allows older states.
    fn keep_state(&mut self) {
        if self.index.durability() != Durability::EveryOperation {
            self.earlier.push(self.model.clone());
        }
    }

    fn remove(&mut self) {
        let key = self.key();
        let near = self.model.range(key.clone()..).next().map(|(key, _)| key.clone());
        let key = near.unwrap_or(key);
        if !self.entry.takes_any_key() {
            return assert!(matches!(self.index.remove(&key), Err(IndexError::Unsupported(_))));
        }
        match self.index.remove(&key) {
            Ok(existed) => {
                self.keep_state();
                assert_eq!(existed, self.model.remove(&key).is_some(), "remove");
            }
            Err(IndexError::Full(_)) => {}
            Err(error) => panic!("{}: remove: {error}", self.entry.name),
        }
    }

    /// A run of neighbouring keys inserted.
    fn many(&mut self) {
        let (start, count) = (self.script.word(), u16::from(self.script.byte() % 48));
        for number in start..start.saturating_add(count) {
            self.step += 1;
            let key = self.key_numbered(number);
            let ascends = self.model.last_key_value().is_none_or(|last| key > *last.0);
            if ascends || self.entry.takes_any_key() {
                self.put(key);
            }
        }
    }

    fn get(&mut self) {
        let key = self.key();
        let mut value = vec![0; self.settings.record.value_bytes.into()];
        let found = self.index.get(&key, &mut value).unwrap_or_else(|error| panic!("get: {error}"));
        assert_eq!(found.then_some(&value), self.model.get(&key), "get");
    }

    fn range(&mut self) {
        let (a, b) = (self.key(), self.key());
        let (low, high) = if a <= b { (a, b) } else { (b, a) };
        let kind = self.script.byte();
        let bound = |kind: u8, key: &Vec<u8>| match kind % 4 {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(key.clone()),
            _ => Bound::Included(key.clone()),
        };
        let (low, high) = (bound(kind, &low), bound(kind >> 2, &high));
        let limit = if kind & 16 == 0 { usize::MAX } else { usize::from(kind >> 5) + 1 };
        let down = kind & 128 != 0;
        // A map refuses the empty range between two excluded bounds that are equal.
        let nothing = matches!((&low, &high), (Bound::Excluded(l), Bound::Excluded(h)) if l == h);
        let mut expected: Vec<_> = if nothing {
            Vec::new()
        } else {
            self.model.range((low.clone(), high.clone())).map(|(k, v)| (k.clone(), v.clone())).collect()
        };
        if down {
            expected.reverse();
        }
        expected.truncate(limit);
        let mut found = Vec::new();
        let direction = if down { Direction::Descending } else { Direction::Ascending };
        let walk = self.index.range(
            low.as_ref().map(Vec::as_slice),
            high.as_ref().map(Vec::as_slice),
            direction,
            &mut |key, value| {
                found.push((key.to_vec(), value.to_vec()));
                if found.len() >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        walk.unwrap_or_else(|error| panic!("range: {error}"));
        assert_eq!(found, expected, "range {low:?} to {high:?}");
    }

    /// Does several changes as one operation, sometimes with a power cut in it: all or none must come back.
    fn batch(&mut self) -> bool {
        let (count, cut) = (1 + self.script.byte() % 16, self.script.byte());
        if !self.entry.takes_any_key() {
            return true;
        }
        let changes: Vec<(Vec<u8>, Option<Vec<u8>>)> = (0..count)
            .map(|i| {
                self.step += 1;
                (self.key(), (i % 3 != 2).then(|| self.value()))
            })
            .collect();
        let mut after = self.model.clone();
        for (key, value) in &changes {
            match value {
                Some(value) => drop(after.insert(key.clone(), value.clone())),
                None => drop(after.remove(key)),
            }
        }
        if cut % 2 == 1 {
            self.plan_cut(cut / 2, cut);
        }
        let batch: Vec<Change<'_>> = changes
            .iter()
            .map(|(key, value)| value.as_ref().map_or(Change::remove(key), |value| Change::put(key, value)))
            .collect();
        match self.index.apply(&batch) {
            Ok(()) => {
                self.keep_state();
                self.model = after;
            }
            Err(IndexError::BatchTooLarge { unit, most }) => {
                assert!(unit == "pages" || most < batch.len(), "{}: {most} {unit}", self.entry.name);
            }
            Err(IndexError::Full(_)) => {}
            Err(IndexError::Store(StoreError::Nand(NandError::PowerLost))) => {
                return self.mount_again(Some(after), false);
            }
            Err(error) => panic!("{}: batch: {error}", self.entry.name),
        }
        if cut % 2 == 1 { self.mount_again(None, false) } else { true }
    }

    /// Work ahead of time changes no record.
    fn work_ahead(&mut self) {
        let budget = u32::from(self.script.byte());
        let done =
            if budget.is_multiple_of(2) { self.index.maintain(budget) } else { self.index.scrub(budget) };
        done.unwrap_or_else(|error| panic!("{}: ahead of time: {error}", self.entry.name));
        let _ = self.index.free();
    }

    /// Moves a cursor back and forth, and compares it with the model.
    fn cursor(&mut self) {
        let (key, steps) = (self.key(), self.script.byte());
        let records: Vec<(&Vec<u8>, &Vec<u8>)> = self.model.iter().collect();
        let mut at = records.partition_point(|record| *record.0 < key) as i64;
        let mut cursor = Cursor::new(&mut *self.index);
        let end = records.len() as i64;
        let mut found = cursor.seek(&key);
        for step in 0..=8 {
            let expected = usize::try_from(at).ok().and_then(|at| records.get(at));
            assert_eq!(found, Ok(expected.is_some()), "{}: step {step}", self.entry.name);
            assert_eq!(cursor.record(), expected.map(|(k, v)| (&k[..], &v[..])), "{}", self.entry.name);
            let is_back = steps >> (step % 8) & 1 == 1;
            found = if is_back { cursor.prev() } else { cursor.next() };
            at = if is_back { (at - 1).max(-1) } else { (at + 1).min(end) };
        }
    }

    fn sync(&mut self) {
        self.index.sync().unwrap_or_else(|error| panic!("sync: {error}"));
        self.earlier.clear();
    }

    fn check(&mut self) {
        let report = self.index.check().unwrap_or_else(|error| panic!("check: {error}"));
        assert!(report.is_sound(), "{}: {:?}", self.entry.name, report.violations);
        assert_eq!(report.records, self.model.len() as u64, "records counted");
    }

    fn compare_all(&mut self) {
        self.check();
        let expected: Vec<_> = self.model.clone().into_iter().collect();
        for direction in [Direction::Ascending, Direction::Descending] {
            let mut found = contents(&mut *self.index, direction).unwrap_or_else(|e| panic!("range: {e}"));
            if direction == Direction::Descending {
                found.reverse();
            }
            assert_eq!(found, expected, "{}: {direction:?}", self.entry.name);
        }
    }

    /// Ends in an orderly way, after a close or a sync, and mounts.
    fn remount(&mut self, close: bool) -> bool {
        let ended = if close { self.index.close() } else { self.index.sync() };
        ended.unwrap_or_else(|error| panic!("{}: close {close}: {error}", self.entry.name));
        self.earlier.clear();
        self.mount_again(None, close)
    }

    fn drop_without_sync(&mut self) -> bool {
        self.mount_again(None, false)
    }

    fn plan_cut(&mut self, number: u8, how: u8) {
        let at_operation = self.chip.lock().operations() + u64::from(number % 24);
        let when = [CutWhen::Before, CutWhen::Inside, CutWhen::After][usize::from(how % 3)];
        let torn = TornModel::ALL[usize::from(how >> 2) % 4];
        self.chip.lock().plan_power_cut(PowerCut { at_operation, when, torn, seed: number.into() });
    }

    /// Plans a cut and writes until it strikes.
    fn cut(&mut self) -> bool {
        let (number, how) = (self.script.byte(), self.script.byte());
        self.plan_cut(number, how);
        for _ in 0..24 {
            self.step += 1;
            let Some(key) = self.key_to_insert() else { break };
            let value = self.value();
            match self.index.insert(&key, &value) {
                Ok(_) => {
                    self.keep_state();
                    self.model.insert(key, value);
                }
                Err(IndexError::Full(_)) => {}
                Err(IndexError::Store(StoreError::Nand(NandError::PowerLost))) => {
                    let mut in_flight = self.model.clone();
                    in_flight.insert(key, value);
                    return self.mount_again(Some(in_flight), false);
                }
                Err(error) => panic!("{}: insert: {error}", self.entry.name),
            }
        }
        self.mount_again(None, false)
    }

    /// Switches the power on, mounts, and takes over whichever of the allowed states came back.
    fn mount_again(&mut self, in_flight: Option<Contents>, closed: bool) -> bool {
        let class = self.index.durability();
        let chip = self.chip.lock().clone();
        *self.chip.lock() = without_plan(chip);
        let nand: Box<dyn Nand> = Box::new(self.chip.clone());
        self.index = match (self.entry.mount)(nand, &self.settings) {
            Ok(index) => index,
            Err(IndexError::NotCleanlyClosed) if class == Durability::None && !closed => return false,
            Err(error) => panic!("{}: mount: {error}", self.entry.name),
        };
        let found = contents(&mut *self.index, Direction::Ascending).unwrap_or_else(|e| panic!("range: {e}"));
        let found: Contents = found.into_iter().collect();
        let earlier = if class == Durability::EveryOperation { &[] } else { &self.earlier[..] };
        let allowed = found == self.model || in_flight == Some(found.clone()) || earlier.contains(&found);
        assert!(allowed, "{}: {class:?} came back with no allowed state", self.entry.name);
        self.model = found;
        self.earlier.clear();
        self.check();
        true
    }
}

fn without_plan(mut chip: SimChip) -> SimChip {
    chip.power_on();
    let (when, torn) = (CutWhen::Before, TornModel::Prefix);
    chip.plan_power_cut(PowerCut { at_operation: u64::MAX, when, torn, seed: 0 });
    chip
}

/// Mounts whatever the bytes of an image are with every index and store. Nothing may panic.
pub fn chip_image(bytes: &[u8]) {
    let Ok(chip) = SimChip::from_image(bytes) else { return };
    if chip.part().geometry.data_bytes() <= 32 << 20 {
        mount_everything(&chip);
    }
}

/// Mounts a chip as every index and store, and reads its contents. Nothing may panic.
pub fn mount_everything(chip: &SimChip) {
    for settings in RECORDS.map(|(k, v)| Settings::new(RecordFormat::new(k, v))) {
        for entry in INDEXES {
            let Ok(mut index) = (entry.mount)(Box::new(chip.clone()), &settings) else { continue };
            // Answers and errors are both fine here: the bytes mean nothing in particular.
            let _ = index.check();
            let _ = contents(&mut *index, Direction::Ascending);
            let (mut key, mut value) =
                (vec![7; settings.record.key_bytes.into()], vec![0; settings.record.value_bytes.into()]);
            for first in 0..20 {
                key[0] = first * 13;
                let _ = index.get(&key, &mut value);
                let _ = index.insert(&key, &value);
                let _ = index.remove(&key);
            }
        }
        for entry in STORES {
            let Ok(mut store) = (entry.mount)(Box::new(chip.clone()), &settings) else { continue };
            let mut page = vec![0; store.page_bytes()];
            for lpn in (0..store.page_count()).map(Lpn) {
                let _ = store.read(lpn, Cause::Host, &mut page);
                let _ = store.write(lpn, Cause::Host, &page);
            }
        }
    }
}

/// A copy of a chip on which `damage` changed the bytes of the pages that are not erased (data, then spare
/// area).
pub fn damaged(chip: &SimChip, mut damage: impl FnMut(Pbn, u32, &mut [u8])) -> SimChip {
    let mut source = chip.clone();
    let mut copy = SimChip::new(chip.part()).unwrap_or_else(|error| panic!("{error}"));
    let geometry = chip.part().geometry;
    let mut bytes = vec![0; geometry.raw_page_bytes()];
    for pbn in (0..geometry.blocks).map(Pbn) {
        for page in 0..geometry.pages_per_block {
            let (data, spare) = bytes.split_at_mut(geometry.page_bytes as usize);
            let ppn = geometry.page_at(pbn, page);
            if source.read(ppn, Cause::Check, data, spare).is_err() || bytes.iter().all(|&b| b == 0xff) {
                continue;
            }
            damage(pbn, page, &mut bytes);
            let (data, spare) = bytes.split_at(geometry.page_bytes as usize);
            let programmed = copy.program(ppn, Cause::Check, data, spare);
            programmed.unwrap_or_else(|error| panic!("copying {ppn}: {error}"));
        }
    }
    copy
}
