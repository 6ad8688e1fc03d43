//! Builds a trace from operations on keys of any kind: names, numbers, bytes.
//!
//! The builder knows the present keys, so that the trace contradicts nothing: an insertion of a present key
//! becomes an update, a removal of an absent one a miss. Once all keys are known, they become numbers in
//! their order.

use super::text::DESCENDING;
use super::{Record, RecordKind, Trace};
use nandex::rng::Rng;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A key as in its source. Numbers sort before texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A whole number.
    Number(i128),
    /// Bytes, compared byte by byte.
    Text(Vec<u8>),
}

impl Key {
    /// The key of a word; it is a number if the word is the plain notation of one.
    pub fn of_word(word: &str) -> Key {
        let number = word.parse::<i128>().ok().filter(|number| number.to_string() == word);
        number.map_or_else(|| Key::Text(word.as_bytes().to_vec()), Key::Number)
    }
}

/// The way in which keys become the numbers of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// Whole numbers below 2^64 stay as they are. In a table with other keys each key becomes its rank.
    #[default]
    Keep,
    /// Each key becomes a number drawn with this seed. Only the order of the keys is kept.
    Hashed(u64),
}

/// The effect of a change, for those who have to undo it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The change had no effect.
    None,
    /// The change inserted the key.
    Inserted,
    /// The change gave the key a new value.
    Updated,
    /// The change removed the key.
    Removed,
}

/// A range search.
#[derive(Clone, Debug)]
pub struct Span {
    /// The lower bound.
    pub low: Bound<Key>,
    /// The upper bound.
    pub high: Bound<Key>,
    /// The most records to visit.
    pub limit: Option<u64>,
    /// Whether the search begins with the largest key.
    pub descending: bool,
}

/// Most indexes of a trace, because the number of an index is a byte.
const TABLES_MAX: usize = 256;

#[derive(Default)]
struct Table {
    name: String,
    keys: BTreeMap<Key, Place>,
    present: u64,
    largest: i128,
}

#[derive(Clone, Copy)]
struct Place {
    id: u32,
    present: bool,
    at_first: bool,
}

struct Pending {
    kind: RecordKind,
    table: u8,
    id: u32,
    count: u32,
    flags: u16,
}

/// Builds a trace from operations.
#[derive(Default)]
pub struct Builder {
    tables: Vec<Table>,
    ops: Vec<Pending>,
    starts_empty: bool,
}

impl Builder {
    /// Makes a builder without operations. A key that is read, changed or removed before its insertion
    /// existed before the trace, unless the trace `starts_empty`.
    pub fn new(starts_empty: bool) -> Builder {
        Builder { starts_empty, ..Builder::default() }
    }

    /// The number of an index; a new name gets a new number.
    pub fn table(&mut self, name: &str) -> Result<u8, String> {
        let found = self.tables.iter().position(|table| table.name == name);
        if found.is_none() && self.tables.len() == TABLES_MAX {
            return Err(format!("'{name}' is the {}th index; a trace has {TABLES_MAX}", TABLES_MAX + 1));
        }
        let number = found.unwrap_or_else(|| {
            self.tables.push(Table { name: name.to_string(), ..Table::default() });
            self.tables.len() - 1
        });
        Ok(number as u8)
    }

    /// The names of the indexes, in the order of their numbers.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|table| table.name.as_str())
    }

    /// Number of operations so far.
    pub fn operations(&self) -> usize {
        self.ops.len()
    }

    /// Adds a key that exists before the trace.
    pub fn existing(&mut self, table: u8, key: Key) {
        let table = &mut self.tables[usize::from(table)];
        let place = table.place(key);
        if !place.present {
            (place.present, place.at_first) = (true, true);
            table.present += 1;
        }
    }

    /// Whether a key is present. An unknown key is, unless the trace starts empty.
    fn is_present(&mut self, table: u8, key: &Key) -> bool {
        let known = self.tables[usize::from(table)].keys.get(key).map(|place| place.present);
        match known {
            Some(present) => present,
            None if self.starts_empty => false,
            None => {
                self.existing(table, key.clone());
                true
            }
        }
    }

    /// Adds a look-up; `found` is its outcome if the source tells it. If that contradicts the operations so
    /// far, an unrecorded insertion or removal came before.
    pub fn look_up(&mut self, table: u8, key: Key, found: Option<bool>) {
        let known = self.tables[usize::from(table)].keys.contains_key(&key);
        let present = match found {
            Some(false) if !known => false,
            Some(true) if !known && !self.starts_empty => self.is_present(table, &key),
            _ if known || found.is_none() => self.is_present(table, &key),
            _ => false,
        };
        match found {
            Some(true) if !present => {
                self.set(table, key.clone(), true);
            }
            Some(false) if present => {
                self.set(table, key.clone(), false);
            }
            _ => {}
        }
        let kind = if found.unwrap_or(present) { RecordKind::Hit } else { RecordKind::Miss };
        self.push(kind, table, key);
    }

    /// Adds an insertion, or an update if the key is present.
    pub fn put(&mut self, table: u8, key: Key) -> Effect {
        let known = self.tables[usize::from(table)].keys.get(&key).is_some_and(|place| place.present);
        if known {
            self.push(RecordKind::Modify, table, key);
            return Effect::Updated;
        }
        self.set(table, key, true)
    }

    /// Adds an update, or a miss if the key is absent.
    pub fn update(&mut self, table: u8, key: Key) -> Effect {
        let present = self.is_present(table, &key);
        self.push(if present { RecordKind::Modify } else { RecordKind::Miss }, table, key);
        if present { Effect::Updated } else { Effect::None }
    }

    /// Adds a removal, or a miss if the key is absent.
    pub fn remove(&mut self, table: u8, key: Key) -> Effect {
        if self.is_present(table, &key) {
            return self.set(table, key, false);
        }
        self.push(RecordKind::Miss, table, key);
        Effect::None
    }

    /// Adds a range search, which visits at least its start.
    pub fn range(&mut self, table: u8, span: Span) {
        let Span { low, high, limit, descending } = span;
        let limit = limit.unwrap_or(u64::from(u32::MAX)).clamp(1, u64::from(u32::MAX));
        let present = self.between(table, (&low, &high), (descending, limit as usize));
        let (start, bound) = if descending { (present.first(), &high) } else { (present.first(), &low) };
        let start = match (start, bound) {
            (Some(start), _) => start.clone(),
            (None, Bound::Included(key) | Bound::Excluded(key)) => key.clone(),
            // Nothing is there at all.
            (None, Bound::Unbounded) => return,
        };
        let count = present.len().max(1) as u32;
        self.push(RecordKind::Range, table, start);
        if let Some(op) = self.ops.last_mut() {
            (op.count, op.flags) = (count, if descending { DESCENDING } else { 0 });
        }
    }

    /// The present keys between two bounds, at most `limit` of them, in ascending or descending order.
    pub fn between(
        &self,
        table: u8,
        (low, high): (&Bound<Key>, &Bound<Key>),
        (descending, limit): (bool, usize),
    ) -> Vec<Key> {
        if is_empty(low, high) {
            return Vec::new();
        }
        let keys = self.tables[usize::from(table)].keys.range((low.as_ref(), high.as_ref()));
        let present = keys.filter(|(_, place)| place.present).map(|(key, _)| key.clone());
        if descending { present.rev().take(limit).collect() } else { present.take(limit).collect() }
    }

    /// The number after the largest one of a table.
    pub fn next_number(&self, table: u8) -> Key {
        Key::Number(self.tables[usize::from(table)].largest + 1)
    }

    /// Adds a sync. Two syncs in a row become one.
    pub fn sync(&mut self) {
        if self.ops.last().is_some_and(|op| op.kind != RecordKind::Sync) {
            self.ops.push(Pending { kind: RecordKind::Sync, table: 0, id: 0, count: 1, flags: 0 });
        }
    }

    fn set(&mut self, table: u8, key: Key, present: bool) -> Effect {
        let kind = if present { RecordKind::Insert } else { RecordKind::Delete };
        self.push(kind, table, key.clone());
        let table = &mut self.tables[usize::from(table)];
        table.place(key).present = present;
        if present {
            table.present += 1;
            Effect::Inserted
        } else {
            table.present -= 1;
            Effect::Removed
        }
    }

    fn push(&mut self, kind: RecordKind, table: u8, key: Key) {
        let id = self.tables[usize::from(table)].place(key).id;
        self.ops.push(Pending { kind, table, id, count: 1, flags: 0 });
    }

    /// The finished trace, with numbers for keys.
    pub fn finish(self, name: &str, numbering: Numbering) -> Trace {
        let numbers: Vec<Vec<u64>> =
            self.tables.iter().enumerate().map(|(at, table)| table.numbers(at as u64, numbering)).collect();
        let record = |kind, table: u8, id: u32| Record {
            kind,
            tree: table,
            flags: 0,
            count: 1,
            key: numbers[usize::from(table)].get(id as usize).copied().unwrap_or(0),
        };
        let mut init = Vec::new();
        for (at, table) in self.tables.iter().enumerate() {
            let first = table.keys.values().filter(|place| place.at_first);
            init.extend(first.map(|place| record(RecordKind::Insert, at as u8, place.id)));
        }
        let op = |op: &Pending| match op.kind {
            RecordKind::Sync => Record { kind: op.kind, tree: 0, flags: 0, count: 1, key: 0 },
            kind => Record { flags: op.flags, count: op.count, ..record(kind, op.table, op.id) },
        };
        Trace { name: name.to_string(), init, records: self.ops.iter().map(op).collect() }
    }
}

/// Whether no key can lie between two bounds; a map panics when asked for such a range.
fn is_empty(low: &Bound<Key>, high: &Bound<Key>) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            low >= high
        }
        _ => false,
    }
}

impl Table {
    fn place(&mut self, key: Key) -> &mut Place {
        if let Key::Number(number) = key {
            self.largest = self.largest.max(number);
        }
        let id = self.keys.len() as u32;
        self.keys.entry(key).or_insert(Place { id, present: false, at_first: false })
    }

    fn numbers(&self, table: u64, numbering: Numbering) -> Vec<u64> {
        let mut numbers = vec![0; self.keys.len()];
        let plain = |key: &Key| matches!(key, Key::Number(number) if u64::try_from(*number).is_ok());
        let keeps = numbering == Numbering::Keep && self.keys.keys().all(plain);
        let mut drawn = match numbering {
            Numbering::Hashed(seed) => Some((Rng::new(seed ^ table), 0u64)),
            Numbering::Keep => None,
        };
        let gap = (u64::MAX / 2) / self.keys.len().max(1) as u64;
        for (rank, (key, place)) in self.keys.iter().enumerate() {
            numbers[place.id as usize] = match (key, &mut drawn) {
                (Key::Number(number), None) if keeps => *number as u64,
                (_, None) => rank as u64,
                (_, Some((rng, last))) => {
                    *last += 1 + rng.below(gap.max(1));
                    *last
                }
            };
        }
        numbers
    }
}
