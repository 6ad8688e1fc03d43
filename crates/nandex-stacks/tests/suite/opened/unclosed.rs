//! The class *none*: acknowledged records that were not synced are never reported as absent. The power is cut
//! between two operations; then the mount refuses or finds everything.

use super::part;
use crate::sizes::{sized, stride};
use nandex::nand::Part;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Direction, Durability, RecordFormat};
use nandex::spatial::{Rect, Relation};
use nandex::{IndexError, Nand, OrderedIndex, Shared, SpatialIndex};
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{Hosting, INDEXES, IndexEntry, STORES};
use nandex_stacks::spatial::SPATIAL;
use nandex_stacks::spatial::registry::SpatialEntry;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

const RECORDS: u64 = 200;

/// A kind of change after the last sync.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Update,
    Insert,
    Put,
    Remove,
}

/// An index of either sort, with the numbers of its records.
pub(super) enum Opened {
    Ordered(Box<dyn OrderedIndex>),
    Spatial(Box<dyn SpatialIndex<i32, 2>>),
}

#[derive(Clone, Copy)]
pub(super) enum Entry {
    Ordered(&'static IndexEntry),
    Spatial(&'static SpatialEntry),
}

pub(super) type Model = BTreeMap<u64, u64>;

impl Entry {
    pub(super) fn open(
        self,
        chip: SimChip,
        settings: &Settings,
        is_new: bool,
    ) -> Result<(Opened, Chip), IndexError> {
        let chip = Shared::new(chip);
        Ok((self.open_on(&chip, settings, is_new)?, chip))
    }

    pub(super) fn open_on(
        self,
        chip: &Chip,
        settings: &Settings,
        is_new: bool,
    ) -> Result<Opened, IndexError> {
        let nand: Box<dyn Nand> = Box::new(chip.clone());
        Ok(match self {
            Entry::Ordered(entry) if is_new => Opened::Ordered((entry.format)(nand, settings)?),
            Entry::Ordered(entry) => Opened::Ordered((entry.mount)(nand, settings)?),
            Entry::Spatial(entry) if is_new => Opened::Spatial(entry.format(nand, settings)?),
            Entry::Spatial(entry) => Opened::Spatial(entry.mount(nand, settings)?),
        })
    }

    pub(super) fn part(self) -> Part {
        let part = part(512, 32, 64);
        match self {
            Entry::Ordered(entry) => entry.suited(part),
            Entry::Spatial(_) => part,
        }
    }

    pub(super) fn appends(self) -> bool {
        matches!(self, Entry::Ordered(entry) if !entry.takes_any_key())
    }
}

pub(super) type Chip = Shared<SimChip>;

fn rect(number: u64) -> Rect<i32, 2> {
    let at = [(number * 7919 % 1000) as i32, (number * 104_729 % 1000) as i32];
    Rect::new(at, at).unwrap()
}

impl Opened {
    pub(super) fn change(&mut self, kind: Kind, number: u64, model: &mut Model) -> Result<(), IndexError> {
        match self {
            Opened::Ordered(index) => {
                let (key, value) =
                    (number.to_be_bytes(), (number + 1_000_000 * model.len() as u64).to_be_bytes());
                match kind {
                    Kind::Remove => {
                        index.remove(&key)?;
                        model.remove(&number);
                        return Ok(());
                    }
                    Kind::Put => index.put(&key, &value)?,
                    Kind::Update | Kind::Insert => drop(index.insert(&key, &value)?),
                }
                model.insert(number, u64::from_be_bytes(value));
            }
            Opened::Spatial(index) if model.contains_key(&number) => {
                index.remove(&rect(number), number)?;
                model.remove(&number);
            }
            Opened::Spatial(index) => {
                index.insert(&rect(number), number)?;
                model.insert(number, number);
            }
        }
        Ok(())
    }

    pub(super) fn end(&mut self, closes: bool) -> Result<(), IndexError> {
        match self {
            Opened::Ordered(index) if closes => index.close(),
            Opened::Ordered(index) => index.sync(),
            Opened::Spatial(index) if closes => index.close(),
            Opened::Spatial(index) => index.sync(),
        }
    }

    pub(super) fn contents(&mut self) -> Result<Model, IndexError> {
        let mut found = Model::new();
        match self {
            Opened::Ordered(index) => {
                index.range(
                    Bound::Unbounded,
                    Bound::Unbounded,
                    Direction::Ascending,
                    &mut |key, value| {
                        let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
                        found.insert(number(key), number(value));
                        ControlFlow::Continue(())
                    },
                )?;
            }
            Opened::Spatial(index) => {
                let all = Rect::new([0, 0], [1000, 1000]).unwrap();
                index.window(&all, Relation::Intersects, &mut |_, id| {
                    found.insert(id, id);
                    ControlFlow::Continue(())
                })?;
            }
        }
        Ok(found)
    }
}

/// Class of an index that was opened for the class *none*.
fn class_of(index: &Opened) -> Durability {
    match index {
        Opened::Ordered(index) => index.durability(),
        Opened::Spatial(index) => index.durability(),
    }
}

/// Runs changes after a close or a sync, then cuts the power. Returns the fault, if any.
fn judge(
    entry: Entry,
    closed: &SimChip,
    settings: &Settings,
    run: (bool, Kind, u64),
    model: &Model,
) -> Option<String> {
    let (is_closed, kind, changes) = run;
    let mut states = vec![model.clone()];
    let mut class = Durability::None;
    let done = (|| {
        let (mut index, chip) = entry.open(closed.clone(), settings, false)?;
        class = class_of(&index);
        if !is_closed {
            for number in 0..5 {
                index.change(Kind::Insert, 2000 + number, &mut states[0])?;
            }
            index.end(false)?;
        }
        for number in 0..changes {
            let number =
                if matches!(kind, Kind::Insert) || entry.appends() { 3000 + number } else { 40 * number + 7 };
            let mut next = states[states.len() - 1].clone();
            index.change(kind, number, &mut next)?;
            states.push(next);
        }
        drop(index);
        let image = chip.lock().clone();
        Ok::<SimChip, IndexError>(image)
    })();
    let image = match done {
        Ok(image) => image,
        Err(error) => return Some(format!("a change: {error}")),
    };
    match entry.open(image, settings, false) {
        Err(IndexError::NotCleanlyClosed) if changes > 0 && class == Durability::None => None,
        Err(error) => Some(format!("the mount: {error}")),
        Ok((mut index, _)) => match index.contents() {
            Ok(found) if Some(&found) == states.last() => None,
            // More than was asked for: a prefix of the history, no shorter than the last sync.
            Ok(found) if class == Durability::EverySync && states.contains(&found) => None,
            Ok(found) => {
                let model = &states[states.len() - 1];
                let differ = model.iter().filter(|(key, value)| found.get(key) != Some(value)).count();
                let more = found.keys().filter(|key| !model.contains_key(key)).count();
                Some(format!("{differ} records are older or gone, {more} are there again"))
            }
            Err(error) => Some(format!("a read: {error}")),
        },
    }
}

/// Indexes that give *every sync* instead of *none*: they may return to the last sync.
const GIVE_MORE: [&str; 10] =
    ["mu", "mu-star", "wandering", "vmtree", "sbits", "furrow", "rbftl", "rftl", "fast-framework", "efind"];

/// Faults of one stack; `None` if it cannot be opened.
fn faults_of(name: &str, entry: Entry, settings: &Settings) -> Option<Vec<String>> {
    let chip = SimChip::new(&entry.part()).unwrap();
    let (mut index, chip) = entry.open(chip, settings, true).ok()?;
    let class = class_of(&index);
    let mut model = Model::new();
    for number in 0..RECORDS {
        index.change(Kind::Insert, number, &mut model).unwrap();
    }
    index.end(true).unwrap();
    drop(index);
    let closed = chip.lock().clone();
    if class == Durability::EverySync && !GIVE_MORE.contains(&name) {
        return Some(vec![String::from("every sync is given where none is wanted")]);
    }
    let kinds = match entry {
        _ if entry.appends() => &[Kind::Insert][..],
        Entry::Ordered(_) => &[Kind::Update, Kind::Insert, Kind::Put, Kind::Remove][..],
        Entry::Spatial(_) => &[Kind::Insert, Kind::Remove][..],
    };
    let mut faults = Vec::new();
    for (is_closed, kind) in
        [true, false].into_iter().flat_map(|at| kinds.iter().map(move |&kind| (at, kind)))
    {
        for changes in [0, 1, 3] {
            let fault = judge(entry, &closed, settings, (is_closed, kind, changes), &model);
            faults.extend(fault.map(|fault| {
                let last = if is_closed { "close" } else { "sync" };
                format!("{changes} x {kind:?} after a {last}: {fault}")
            }));
        }
    }
    Some(faults)
}

#[test]
fn a_mount_in_the_class_none_refuses_or_is_right() {
    let entries = INDEXES.iter().map(Entry::Ordered).chain(SPATIAL.iter().map(Entry::Spatial));
    let (mut stacks, mut wrong, step) = (0, Vec::new(), stride(9));
    for entry in entries {
        let (name, is_raw) = match entry {
            Entry::Ordered(entry) => (entry.name, entry.hosting == Hosting::Raw),
            Entry::Spatial(entry) => (entry.name, false),
        };
        let ftls = STORES.iter().map(|store| Some(store.name)).chain(is_raw.then_some(None));
        let all = ftls.flat_map(|ftl| [(ftl, None), (ftl, Some(96 << 10))]);
        for (ftl, ram) in all.skip(stacks % step).step_by(step) {
            let plain = Settings {
                durability: Durability::None,
                ram_bytes: ram,
                ..Settings::new(RecordFormat::new(8, 8))
            };
            let below = if is_raw { "beneath" } else { "ftl" };
            let settings = ftl.map_or(plain.clone(), |ftl| plain.with(below, ftl));
            let Some(faults) = faults_of(name, entry, &settings) else { continue };
            stacks += 1;
            let place = format!("{name} on {}, RAM {ram:?}", ftl.unwrap_or("the chip"));
            wrong.extend(faults.into_iter().map(|fault| format!("{place}: {fault}")));
        }
    }
    assert!(stacks > sized(33, 300), "only {stacks} stacks opened");
    assert!(wrong.is_empty(), "{} faults of {stacks} stacks:\n{}", wrong.len(), wrong.join("\n"));
}
