//! An index, ordered or spatial, or a store under a crash test: opened on a shared chip, changed, read out
//! whole.

use super::Target;
use super::history::{History, fingerprint};
use super::ops::{HostOp, Mix};
use crate::model::{fill_value, written};
use crate::registry::{Holds, IndexEntry};
use nandex::Shared;
use nandex::index::Fill;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Change, Direction, Durability};
use nandex::rng::split_mix;
use nandex::spatial::{Packing, Rect, Relation};
use nandex::{Cause, IndexError, Lpn, Nand, OrderedIndex, PageStore, SpatialIndex};
use nandex_stacks::options::Settings;
use std::ops::{Bound, ControlFlow};

pub(crate) type SharedChip = Shared<SimChip>;

/// The states that may be found after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// The state after the last acknowledged operation, or after the one in flight.
    LastState,
    /// Any earlier state back to the last sync is allowed too.
    Prefix,
    /// Any mixture of values that the slots had since the last sync.
    EachSlot,
}

pub(crate) enum Subject {
    Index(Box<dyn OrderedIndex>),
    /// A spatial index. Each slot is a rectangle with the slot as its number, present or not.
    Spatial(Box<dyn SpatialIndex<i32, 2>>),
    Store(Box<dyn PageStore>),
}

pub(crate) type Why = String;

impl Subject {
    pub(crate) fn format(
        target: Target,
        settings: &Settings,
        nand: Box<dyn Nand>,
    ) -> Result<Subject, IndexError> {
        Ok(match target {
            Target::Index(entry) => Subject::Index((entry.format)(nand, settings)?),
            Target::Spatial(entry) => Subject::Spatial(entry.format(nand, settings)?),
            Target::Store(entry) => Subject::Store((entry.format)(nand, settings)?),
        })
    }

    pub(crate) fn mount(
        target: Target,
        settings: &Settings,
        nand: Box<dyn Nand>,
    ) -> Result<Subject, IndexError> {
        Ok(match target {
            Target::Index(entry) => Subject::Index((entry.mount)(nand, settings)?),
            Target::Spatial(entry) => Subject::Spatial(entry.mount(nand, settings)?),
            Target::Store(entry) => Subject::Store((entry.mount)(nand, settings)?),
        })
    }

    /// Opens an index that refuses a normal mount after a cut, if it has a way for that.
    pub(crate) fn mount_after_cut(
        target: Target,
        settings: &Settings,
        nand: Box<dyn Nand>,
    ) -> Result<Option<Subject>, IndexError> {
        let Target::Index(IndexEntry { mount_after_cut: Some(open), .. }) = target else {
            return Ok(None);
        };
        match open(nand, settings) {
            Ok(index) => Ok(Some(Subject::Index(index))),
            Err(IndexError::NotCleanlyClosed) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn durability(&self) -> Durability {
        match self {
            Subject::Index(index) => index.durability(),
            Subject::Spatial(index) => index.durability(),
            Subject::Store(store) if store.durable_writes() => Durability::EveryOperation,
            Subject::Store(_) => Durability::EverySync,
        }
    }

    /// Whether an index needs another mount.
    pub(crate) fn is_interrupted(&mut self) -> bool {
        let Subject::Index(index) = self else { return false };
        let record = index.record();
        let (key, mut value) = (vec![0; record.key_bytes.into()], vec![0; usize::from(record.value_bytes)]);
        index.get(&key, &mut value) == Err(IndexError::Interrupted)
    }

    pub(crate) fn store_ram_bytes(&self) -> Option<usize> {
        match self {
            Subject::Store(store) => Some(store.ram_bytes()),
            _ => None,
        }
    }

    pub(crate) fn promise(&self, target: Target) -> Promise {
        match self {
            Subject::Store(store) if !store.durable_writes() && !store.prefix_consistent() => {
                Promise::EachSlot
            }
            _ if self.durability() == Durability::EveryOperation => Promise::LastState,
            // It keeps each key at its value of the last sync, or a later one.
            _ if target.holds() == Some(Holds::LongValues) => Promise::EachSlot,
            _ => Promise::Prefix,
        }
    }

    /// Bytes of a value, or of a page.
    pub(crate) fn value_bytes(&self) -> usize {
        match self {
            Subject::Index(index) => index.record().value_bytes.into(),
            // An entry is there or not: all values are the empty one.
            Subject::Spatial(_) => 0,
            Subject::Store(store) => store.page_bytes(),
        }
    }

    /// The operations that suit the subject, with up to `slots` slots, or `appended` slots if keys must
    /// ascend.
    pub(crate) fn mix(&self, target: Target, (slots, appended): (u32, u32)) -> Mix {
        match self {
            Subject::Index(index) => {
                let width = u32::from(index.record().key_bytes);
                let keys = if width < 4 { 1 << (8 * width) } else { u32::MAX };
                let always_close = index.durability() == Durability::None;
                let appends = matches!(target, Target::Index(entry) if !entry.takes_any_key());
                let gives_up = target.holds() == Some(Holds::Readings);
                // Slots are used up by appending.
                let slots = if appends { appended } else { slots };
                Mix {
                    slots: slots.clamp(2, keys),
                    group_max: if appends { 1 } else { index.batch_max() },
                    always_close,
                    overwrites: !gives_up,
                    appends,
                    gives_up,
                }
            }
            Subject::Spatial(index) => Mix {
                slots: slots.max(2),
                group_max: 1,
                always_close: index.durability() == Durability::None,
                overwrites: false,
                appends: false,
                gives_up: false,
            },
            Subject::Store(store) => Mix {
                slots: store.page_count().min(slots),
                group_max: store.atomic_pages_max(),
                always_close: false,
                overwrites: true,
                appends: false,
                gives_up: false,
            },
        }
    }

    /// Carries out an operation and checks its answer against the contents before it.
    pub(crate) fn apply(&mut self, op: &HostOp, version: u32, contents: &[u64]) -> Result<Applied, Why> {
        match self.carry_out(op, version) {
            Err(IndexError::Full(_)) => Ok(Applied::Full),
            Err(IndexError::WornOut) => Ok(Applied::WornOut),
            Err(IndexError::BatchTooLarge { .. }) => Ok(Applied::TooMany),
            Err(error) => Err(format!("{op:?}: {error}")),
            Ok(answer) => check_answer(op, answer, contents).map(|()| Applied::Done),
        }
    }

    /// Carries out an operation. Returns whether the slot held something before, if the operation tells.
    pub(crate) fn carry_out(&mut self, op: &HostOp, version: u32) -> Result<Option<bool>, IndexError> {
        match self {
            Subject::Index(index) => apply_to_index(index.as_mut(), op, version),
            Subject::Spatial(index) => apply_to_spatial(index.as_mut(), op),
            Subject::Store(store) => apply_to_store(store.as_mut(), op, version).map(|()| None),
        }
    }

    pub(crate) fn end(&mut self, close: bool) -> Result<(), Why> {
        let ended = match self {
            Subject::Index(index) if close => index.close(),
            Subject::Index(index) => index.sync(),
            Subject::Spatial(index) if close => index.close(),
            Subject::Spatial(index) => index.sync(),
            Subject::Store(store) => store.sync().map_err(IndexError::from),
        };
        ended.map_err(|error| format!("at the end: {error}"))
    }

    /// Checks the invariants. Returns the number of records, if they are counted.
    pub(crate) fn check(&mut self) -> Result<Option<u64>, Why> {
        let checked = match self {
            Subject::Index(index) => index.check(),
            Subject::Spatial(index) => index.check(),
            Subject::Store(_) => return Ok(None),
        };
        let report = checked.map_err(|error| format!("check: {error}"))?;
        match report.violations.first() {
            None => Ok(Some(report.records)),
            Some(broken) => Err(format!("{} broken at {}: {}", broken.invariant, broken.at, broken.found)),
        }
    }

    pub(crate) fn contents(&mut self, slots: usize) -> Result<Vec<u64>, Why> {
        match self {
            Subject::Index(index) => index_contents(index.as_mut(), slots),
            Subject::Spatial(index) => spatial_contents(index.as_mut(), slots),
            Subject::Store(store) => store_contents(store.as_mut(), slots),
        }
    }

    pub(crate) fn look_up(&mut self, slot: u32) -> Result<u64, Why> {
        match self {
            Subject::Index(index) => {
                let record = index.record();
                let (mut key, mut value) =
                    (vec![0; record.key_bytes.into()], vec![0; record.value_bytes.into()]);
                write_key(slot, &mut key);
                let found = index.get(&key, &mut value).map_err(|error| format!("get: {error}"))?;
                Ok(if found { fingerprint(&value) } else { 0 })
            }
            Subject::Spatial(index) => {
                let is_found = is_in_window(index.as_mut(), slot)?;
                Ok(if is_found { fingerprint(&[]) } else { 0 })
            }
            Subject::Store(store) => page_contents(store.as_mut(), slot, Cause::Host),
        }
    }

    /// Looks up every `step`-th slot from `first` on, and compares it with the contents.
    pub(crate) fn spot_check(&mut self, contents: &[u64], (first, step): (usize, usize)) -> Result<(), Why> {
        match self {
            Subject::Index(_) => {}
            Subject::Spatial(index) => return spot_check_spatial(index.as_mut(), contents, (first, step)),
            Subject::Store(_) => return Ok(()),
        }
        for slot in (first..contents.len()).step_by(step) {
            if self.look_up(slot as u32)? != contents[slot] {
                return Err(format!("a look-up of number {slot} contradicts the range search"));
            }
        }
        Ok(())
    }

    /// Loads the records with which a run starts. If keys are appended, there are none.
    pub(crate) fn load(&mut self, mix: Mix, share_percent: u64) -> Result<History, Why> {
        let mut history = History::new(vec![0; mix.slots as usize]);
        let value_bytes = self.value_bytes();
        let share_percent = if mix.appends { 0 } else { share_percent };
        let around = mix.slots.next_power_of_two();
        for number in 0..around {
            // An odd factor is a bijection modulo a power of two: every slot comes once, in no order.
            let slot = number.wrapping_mul(0x9e37_79b1) & (around - 1);
            if slot >= mix.slots || split_mix(slot.into()) % 100 >= share_percent {
                continue;
            }
            let op = HostOp::Put(slot);
            if self.apply(&op, 0, history.contents())? != Applied::Done {
                return Err(String::from("the chip is too small for the records that the test starts with"));
            }
            history.note(&op, 0, value_bytes, false);
        }
        self.end(true)?;
        Ok(History::new(history.contents().to_vec()))
    }
}

/// The slots for a quick check, as the first and the step.
pub(crate) fn spots(number: usize, slots: usize) -> (usize, usize) {
    let step = (slots / 16).max(1);
    (number % step, step)
}

/// Compares the answer of an operation with the contents before it.
pub(crate) fn check_answer(op: &HostOp, answer: Option<bool>, contents: &[u64]) -> Result<(), Why> {
    match (answer, op) {
        (Some(existed), HostOp::Put(slot) | HostOp::Remove(slot))
            if existed != (contents[*slot as usize] != 0) =>
        {
            Err(format!("{op:?}: says that it was there: {existed}"))
        }
        _ => Ok(()),
    }
}

/// The key of a slot: its number, then bytes computed from it. Keys are in the order of slots.
pub(crate) fn write_key(slot: u32, key: &mut [u8]) {
    let number = slot.to_be_bytes();
    let width = key.len().min(4);
    key[..width].copy_from_slice(&number[4 - width..]);
    fill_value(slot, u32::MAX, &mut key[width..]);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Done,
    /// The operation was refused for want of room.
    Full,
    /// The operation was refused because too many blocks have failed.
    WornOut,
    /// The operation has more changes, or writes more pages, than are possible atomically.
    TooMany,
}

fn apply_to_index(
    index: &mut dyn OrderedIndex,
    op: &HostOp,
    version: u32,
) -> Result<Option<bool>, IndexError> {
    let record = index.record();
    let mut key = vec![0; record.key_bytes.into()];
    match op {
        HostOp::Put(slot) => {
            let value = written(*slot, version, record.value_bytes.into());
            write_key(*slot, &mut key);
            index.insert(&key, &value).map(Some)
        }
        HostOp::Blind(slot) => {
            let value = written(*slot, version, record.value_bytes.into());
            write_key(*slot, &mut key);
            index.put(&key, &value).map(|()| None)
        }
        HostOp::Remove(slot) => {
            write_key(*slot, &mut key);
            index.remove(&key).map(Some)
        }
        HostOp::Sync | HostOp::Remount { close: false } => index.sync().map(|()| None),
        HostOp::Remount { close: true } => index.close().map(|()| None),
        HostOp::Group(_) | HostOp::Mixed(_) => {
            let changes = op.changes();
            let records = records_of(index, &changes, version);
            let changes: Vec<Change<'_>> = records
                .iter()
                .zip(&changes)
                .map(
                    |((key, value), (_, puts))| {
                        if *puts { Change::put(key, value) } else { Change::remove(key) }
                    },
                )
                .collect();
            index.apply(&changes).map(|()| None)
        }
        HostOp::Load(_) => {
            let records = records_of(index, &op.changes(), version);
            index.load(&mut records.iter().map(|(key, value)| (&key[..], &value[..]))).map(|_| None)
        }
    }
}

/// The records that these changes put.
fn records_of(index: &dyn OrderedIndex, changes: &[(u32, bool)], version: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let record = index.record();
    let record_of = |&(slot, _): &(u32, bool)| {
        let mut key = vec![0; record.key_bytes.into()];
        write_key(slot, &mut key);
        (key, written(slot, version, record.value_bytes.into()))
    };
    changes.iter().map(record_of).collect()
}

/// The rectangle of a slot, anywhere in a square. Every fourth one is a point.
pub(crate) fn rect_of(slot: u32) -> Rect<i32, 2> {
    let bits = split_mix(slot.into());
    let part = |shift: u32, below: u64| ((bits >> shift) % below) as i32;
    let low = [part(0, 10_000), part(20, 10_000)];
    let size = if slot.is_multiple_of(4) { [0, 0] } else { [part(40, 60), part(50, 60)] };
    match Rect::new(low, [low[0] + size[0], low[1] + size[1]]) {
        Ok(rect) => rect,
        Err(error) => unreachable!("{error}"),
    }
}

fn apply_to_spatial(index: &mut dyn SpatialIndex<i32, 2>, op: &HostOp) -> Result<Option<bool>, IndexError> {
    match op {
        HostOp::Put(slot) | HostOp::Blind(slot) => {
            index.insert(&rect_of(*slot), u64::from(*slot)).map(|()| None)
        }
        HostOp::Remove(slot) => index.remove(&rect_of(*slot), u64::from(*slot)).map(Some),
        HostOp::Sync | HostOp::Remount { close: false } => index.sync().map(|()| None),
        HostOp::Remount { close: true } => index.close().map(|()| None),
        HostOp::Load(slots) => {
            let mut entries = (0..*slots).map(|slot| (rect_of(slot), u64::from(slot)));
            index.load(&mut entries, Packing::Hilbert, Fill::FULL).map(|_| None)
        }
        HostOp::Group(_) | HostOp::Mixed(_) => {
            Err(IndexError::Unsupported("a spatial index takes no groups".into()))
        }
    }
}

fn spatial_contents(index: &mut dyn SpatialIndex<i32, 2>, slots: usize) -> Result<Vec<u64>, Why> {
    let everything = Rect::new([i32::MIN; 2], [i32::MAX; 2]).map_err(|error| error.to_string())?;
    let mut contents = vec![0; slots];
    let mut wrong = None;
    let walk = index.window(&everything, Relation::Within, &mut |rect, id| {
        let slot = usize::try_from(id).unwrap_or(usize::MAX);
        if slot >= slots || *rect != rect_of(slot as u32) || contents[slot] != 0 {
            wrong = Some(format!(
                "the window over all yields an entry that never was or comes twice: {id} {rect:?}"
            ));
            return ControlFlow::Break(());
        }
        contents[slot] = fingerprint(&[]);
        ControlFlow::Continue(())
    });
    walk.map_err(|error| format!("window: {error}"))?;
    wrong.map_or(Ok(contents), Err)
}

/// Whether a window of the size of a slot's rectangle finds it.
fn is_in_window(index: &mut dyn SpatialIndex<i32, 2>, slot: u32) -> Result<bool, Why> {
    let rect = rect_of(slot);
    let mut is_found = false;
    let window = index.window(&rect, Relation::Intersects, &mut |found, id| {
        is_found |= id == u64::from(slot) && *found == rect;
        ControlFlow::Continue(())
    });
    window.map_err(|error| format!("window: {error}"))?;
    Ok(is_found)
}

/// Looks for a few slots by their rectangles and by their corners.
fn spot_check_spatial(
    index: &mut dyn SpatialIndex<i32, 2>,
    contents: &[u64],
    (first, step): (usize, usize),
) -> Result<(), Why> {
    for slot in (first..contents.len()).step_by(step) {
        let rect = rect_of(slot as u32);
        let is_found = is_in_window(index, slot as u32)?;
        if is_found != (contents[slot] != 0) {
            return Err(format!("a window at number {slot} contradicts the one over all"));
        }
        let mut distance = None;
        let nearest = index.nearest(&rect.low(), 1, &mut |_, _, distance2| {
            distance = Some(distance2);
            ControlFlow::Break(())
        });
        nearest.map_err(|error| format!("nearest: {error}"))?;
        if is_found && distance != Some(0) {
            return Err(format!("the nearest to number {slot} contradicts the window over all"));
        }
    }
    Ok(())
}

fn apply_to_store(store: &mut dyn PageStore, op: &HostOp, version: u32) -> Result<(), IndexError> {
    let page_bytes = store.page_bytes();
    let page = |slot: u32| written(slot, version, page_bytes);
    match op {
        HostOp::Put(slot) | HostOp::Blind(slot) => {
            let data = page(*slot);
            store.write(Lpn(*slot), Cause::Host, &data)?;
        }
        HostOp::Remove(slot) => store.trim(Lpn(*slot))?,
        HostOp::Group(slots) => {
            let pages: Vec<Vec<u8>> = slots.iter().map(|slot| page(*slot)).collect();
            let group: Vec<(Lpn, &[u8])> =
                slots.iter().zip(&pages).map(|(slot, data)| (Lpn(*slot), &data[..])).collect();
            store.write_atomic(&group, Cause::Host)?;
        }
        HostOp::Mixed(_) | HostOp::Load(_) => {
            return Err(IndexError::Unsupported("a store takes no changes of records".into()));
        }
        HostOp::Sync | HostOp::Remount { .. } => store.sync()?,
    }
    Ok(())
}

fn index_contents(index: &mut dyn OrderedIndex, slots: usize) -> Result<Vec<u64>, Why> {
    let mut contents = vec![0; slots];
    let mut key_of_slot = vec![0; index.record().key_bytes.into()];
    let mut wrong = None;
    let mut least = 0;
    let walk = index.range(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, value| {
        let number = key.iter().take(4).fold(0, |number, &byte| number << 8 | u32::from(byte));
        write_key(number, &mut key_of_slot);
        let slot = number as usize;
        if slot < least || slot >= slots || key != key_of_slot {
            wrong = Some(format!("the range search yields a key that never was or comes twice: {key:02x?}"));
            return ControlFlow::Break(());
        }
        contents[slot] = fingerprint(value);
        least = slot + 1;
        ControlFlow::Continue(())
    });
    walk.map_err(|error| format!("range: {error}"))?;
    wrong.map_or(Ok(contents), Err)
}

fn store_contents(store: &mut dyn PageStore, slots: usize) -> Result<Vec<u64>, Why> {
    (0..slots as u32).map(|slot| page_contents(store, slot, Cause::Check)).collect()
}

fn page_contents(store: &mut dyn PageStore, slot: u32, cause: Cause) -> Result<u64, Why> {
    let mut page = vec![0; store.page_bytes()];
    store.read(Lpn(slot), cause, &mut page).map_err(|error| format!("read: {error}"))?;
    Ok(if page.iter().all(|&byte| byte == 0) { 0 } else { fingerprint(&page) })
}
