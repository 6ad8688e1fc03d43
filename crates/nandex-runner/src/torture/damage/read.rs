//! Reads everything of a subject that may be damaged: each slot by itself, and ranges both ways.

use crate::crash::history::fingerprint;
use crate::crash::subject::{Subject, rect_of, write_key};
use nandex::ordered::Direction;
use nandex::spatial::{Rect, Relation, SpatialIndex};
use nandex::{Cause, IndexError, Lpn, NandError, OrderedIndex, PageStore, StoreError};
use std::ops::{Bound, ControlFlow};

/// The answers of a subject.
#[derive(Debug)]
pub(super) struct Seen {
    /// For each slot the fingerprint of its value, 0 without a value, or `None` if it could not be read.
    pub(super) known: Vec<Option<u64>>,
    /// Two answers that contradict each other, or an answer that was never true.
    pub(super) contradiction: Option<String>,
    pub(super) errors: u64,
    pub(super) first_error: Option<IndexError>,
}

impl Seen {
    fn new(slots: usize) -> Seen {
        Seen { known: vec![None; slots], contradiction: None, errors: 0, first_error: None }
    }

    fn fails(&mut self, error: IndexError) {
        self.errors += 1;
        let Some(first) = &self.first_error else {
            self.first_error = Some(error);
            return;
        };
        // An error that names no damage is the one to be told. That everything waits for a mount after the
        // first is no news.
        if names_damage(first) && !names_damage(&error) && error != IndexError::Interrupted {
            self.first_error = Some(error);
        }
    }

    fn holds(&mut self, slot: usize, value: u64, by: &str) {
        match self.known[slot] {
            None => self.known[slot] = Some(value),
            Some(known) if known == value => {}
            Some(known) => {
                let what = match (known, value) {
                    (0, _) => "was absent before",
                    (_, 0) => "was there before and is absent",
                    _ => "has another value than before",
                };
                self.contradicts(format!("{by}: number {slot} {what}"));
            }
        }
    }

    fn contradicts(&mut self, what: String) {
        self.contradiction.get_or_insert(what);
    }

    fn note<T>(&mut self, result: Result<T, IndexError>) -> Option<T> {
        result.map_err(|error| self.fails(error)).ok()
    }
}

/// Whether an error reports bad bytes on the chip.
pub(super) fn names_damage(error: &IndexError) -> bool {
    matches!(
        error,
        IndexError::Corrupted { .. }
            | IndexError::Store(StoreError::Corrupted { .. } | StoreError::Nand(NandError::Uncorrectable(_)))
    )
}

/// Reads everything by ranges, and every `step`th slot by itself.
pub(super) fn read_all(subject: &mut Subject, slots: usize, step: usize) -> Seen {
    let mut seen = Seen::new(slots);
    match subject {
        Subject::Index(index) => read_index(index.as_mut(), step, &mut seen),
        Subject::Spatial(index) => read_spatial(index.as_mut(), step, &mut seen),
        Subject::Store(store) => read_store(store.as_mut(), &mut seen),
    }
    seen
}

fn read_index(index: &mut dyn OrderedIndex, step: usize, seen: &mut Seen) {
    let record = index.record();
    let (mut key, mut value) = (vec![0; record.key_bytes.into()], vec![0; record.value_bytes.into()]);
    for slot in (0..seen.known.len()).step_by(step) {
        write_key(slot as u32, &mut key);
        let found = index.get(&key, &mut value);
        if let Some(found) = seen.note(found) {
            seen.holds(slot, if found { fingerprint(&value) } else { 0 }, "get");
        }
    }
    walk(index, Direction::Ascending, seen);
    walk(index, Direction::Descending, seen);
}

/// Reads a range over everything. Records before an error count, and so do the gaps between them.
fn walk(index: &mut dyn OrderedIndex, direction: Direction, seen: &mut Seen) {
    let slots = seen.known.len();
    let mut key_of_slot = vec![0; index.record().key_bytes.into()];
    let mut found: Vec<(usize, u64)> = Vec::new();
    let mut stray = None;
    let walked = index.range(Bound::Unbounded, Bound::Unbounded, direction, &mut |key, value| {
        let number = key.iter().take(4).fold(0, |number, &byte| number << 8 | u32::from(byte));
        write_key(number, &mut key_of_slot);
        let slot = number as usize;
        let in_order = found.last().is_none_or(|&(last, _)| match direction {
            Direction::Ascending => last < slot,
            Direction::Descending => last > slot,
        });
        if slot >= slots || key != key_of_slot || !in_order {
            stray = Some(format!("{direction:?}: a key that never was or comes twice: {key:02x?}"));
            return ControlFlow::Break(());
        }
        found.push((slot, fingerprint(value)));
        ControlFlow::Continue(())
    });
    if let Some(stray) = stray {
        return seen.contradicts(stray);
    }
    let whole = seen.note(walked).is_some();
    let by = if direction == Direction::Ascending { "ascending" } else { "descending" };
    let in_order = |step: usize| if direction == Direction::Ascending { step } else { slots - 1 - step };
    let steps = match found.last() {
        _ if whole => slots,
        Some(&(last, _)) => in_order(last) + 1,
        None => 0,
    };
    let mut next = found.into_iter().peekable();
    for slot in (0..steps).map(in_order) {
        let value = next.next_if(|&(found, _)| found == slot).map_or(0, |(_, value)| value);
        seen.holds(slot, value, by);
    }
}

/// One of this many slots is also searched as the nearest to its corner. Such a search costs more.
const NEAREST_EVERY: usize = 8;

fn read_spatial(index: &mut dyn SpatialIndex<i32, 2>, step: usize, seen: &mut Seen) {
    for slot in (0..seen.known.len()).step_by(step) {
        let rect = rect_of(slot as u32);
        let mut is_found = false;
        let window = index.window(&rect, Relation::Covers, &mut |found, id| {
            is_found |= id == slot as u64 && *found == rect;
            ControlFlow::Continue(())
        });
        if seen.note(window).is_some() || is_found {
            seen.holds(slot, if is_found { fingerprint(&[]) } else { 0 }, "window");
        }
        if !slot.is_multiple_of(NEAREST_EVERY) {
            continue;
        }
        let mut least = None;
        let nearest = index.nearest(&rect.low(), 1, &mut |_, _, distance2| {
            least = Some(distance2);
            ControlFlow::Break(())
        });
        if seen.note(nearest).is_some() && is_found && least != Some(0) {
            seen.contradicts(format!("nearest: number {slot} is not found, which a window finds"));
        }
    }
    window_over_all(index, seen);
}

fn window_over_all(index: &mut dyn SpatialIndex<i32, 2>, seen: &mut Seen) {
    let Ok(everything) = Rect::new([i32::MIN; 2], [i32::MAX; 2]) else { return };
    let (mut held, mut stray) = (vec![false; seen.known.len()], None);
    let walk = index.window(&everything, Relation::Within, &mut |rect, id| {
        let slot = usize::try_from(id).unwrap_or(usize::MAX);
        if slot >= held.len() || *rect != rect_of(slot as u32) || held[slot] {
            stray = Some(format!("window over all: an entry that never was or comes twice: {id} {rect:?}"));
            return ControlFlow::Break(());
        }
        held[slot] = true;
        ControlFlow::Continue(())
    });
    if let Some(stray) = stray {
        return seen.contradicts(stray);
    }
    let whole = seen.note(walk).is_some();
    for (slot, held) in held.into_iter().enumerate().filter(|(_, held)| *held || whole) {
        seen.holds(slot, if held { fingerprint(&[]) } else { 0 }, "window over all");
    }
}

fn read_store(store: &mut dyn PageStore, seen: &mut Seen) {
    let mut page = vec![0; store.page_bytes()];
    let slots = seen.known.len().min(store.page_count() as usize);
    if slots < seen.known.len() {
        seen.contradicts(format!("the store has {} pages only", store.page_count()));
    }
    for slot in 0..slots {
        let read = store.read(Lpn(slot as u32), Cause::Host, &mut page).map_err(IndexError::from);
        if seen.note(read).is_some() {
            let empty = page.iter().all(|&byte| byte == 0);
            seen.holds(slot, if empty { 0 } else { fingerprint(&page) }, "read");
        }
    }
}
