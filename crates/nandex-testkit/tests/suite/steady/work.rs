//! All operations of an open index or store, in turn.

use super::tally::Tally;
use nandex::ordered::{Change, Cursor, Direction, OrderedIndex};
use nandex::rng::Rng;
use nandex::spatial::{Rect, Relation};
use nandex::{Cause, IndexError, Lpn, PageStore, SpatialIndex, StoreError};
use std::convert::Infallible;
use std::ops::{Bound, ControlFlow};

/// Keys of which about half are there.
const SLOTS: u64 = 6_000;
/// Entries of a spatial index of which about half are there.
const PLACES: u64 = 2_000;
/// Changes of a batch.
const BATCH: usize = 4;
/// Records that a range visits at most.
const VISITED: usize = 20;
/// Units of work of a call that does some ahead of time.
const BUDGET: u32 = 4;

/// A subject that does one round of its operations.
pub(crate) trait Rounds {
    fn round(&mut self, number: u64, tally: &mut Tally);
}

/// Does rounds until the subject is in a steady state, then as many again, which are counted.
pub(crate) fn asked(subject: &mut dyn Rounds, (before, counted): (u64, u64)) -> Tally {
    (0..before).for_each(|number| subject.round(number, &mut Tally::default()));
    let mut tally = Tally::default();
    (before..before + counted).for_each(|number| subject.round(number, &mut tally));
    tally
}

fn key_of(slot: u64) -> [u8; 4] {
    (slot as u32).to_be_bytes()
}

fn slot_of(key: [u8; 4]) -> u64 {
    u32::from_be_bytes(key).into()
}

/// All slots: whether each is there.
struct Slots {
    there: Vec<bool>,
    rng: Rng,
}

impl Slots {
    fn half_of(slots: u64) -> Slots {
        Slots { there: (0..slots).map(|slot| slot % 2 == 0).collect(), rng: Rng::new(7) }
    }

    /// The slots that are there.
    fn all_there(self) -> impl Iterator<Item = u64> {
        (0..).zip(self.there).filter_map(|(slot, is_there)| is_there.then_some(slot))
    }

    /// A slot that is there, or one that is not.
    fn any(&mut self, is_there: bool) -> u64 {
        loop {
            let slot = self.rng.below(self.there.len() as u64);
            if self.there[slot as usize] == is_there {
                return slot;
            }
        }
    }

    /// A slot whose state changes to the other one.
    fn turned(&mut self, is_there: bool) -> u64 {
        let slot = self.any(!is_there);
        self.there[slot as usize] = is_there;
        slot
    }
}

/// A visitor that has seen enough after some records.
fn few() -> impl FnMut() -> ControlFlow<()> {
    let mut left = VISITED;
    move || {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// An ordered index with half of its keys; one of ascending keys begins empty.
pub(crate) struct Ordered {
    index: Box<dyn OrderedIndex>,
    slots: Slots,
    /// The next key of an index whose keys ascend.
    next: Option<u64>,
    value: Vec<u8>,
}

impl Ordered {
    /// Puts half of the keys.
    pub(crate) fn fill(index: &mut dyn OrderedIndex) -> Result<(), IndexError> {
        let value = vec![0x5a; index.record().value_bytes.into()];
        Slots::half_of(SLOTS).all_there().map(key_of).try_for_each(|key| index.put(&key, &value))
    }

    /// An index that was filled, or an empty one of ascending keys.
    pub(crate) fn new(index: Box<dyn OrderedIndex>, takes_any_key: bool) -> Ordered {
        let value = vec![0x5a; index.record().value_bytes.into()];
        let next = (!takes_any_key).then_some(1);
        Ordered { index, slots: Slots::half_of(SLOTS), next, value }
    }

    fn change(&mut self, tally: &mut Tally) {
        let Ordered { index, slots, next, value } = self;
        slots.rng.fill(value);
        if let Some(next) = next {
            tally.count("insert", || index.insert(&key_of(*next), value));
            tally.count("put", || index.put(&key_of(*next + 1), value));
            *next += 2;
            return;
        }
        let [new, put] = [slots.turned(true), slots.turned(true)].map(key_of);
        let [old, gone, too] = [slots.any(true), slots.turned(false), slots.turned(false)].map(key_of);
        tally.count("insert", || index.insert(&new, value));
        tally.count("put", || index.put(&put, value));
        tally.count("update", || index.insert(&old, value));
        tally.count("remove", || index.remove(&gone));
        tally.count("remove", || index.remove(&too));
        let missing = key_of(slots.any(false));
        tally.count("remove-none", || index.remove(&missing));
    }

    /// A key that is there, and one that is not.
    fn keys(&mut self) -> [[u8; 4]; 2] {
        let [hit, miss] = match self.next {
            Some(next) => [next - 1 - self.slots.rng.below(next.min(200)), next + 5],
            None => [self.slots.any(true), self.slots.any(false)],
        };
        [hit, miss].map(key_of)
    }

    fn read(&mut self, tally: &mut Tally) {
        let [hit, miss] = self.keys();
        tally.count("get", || self.index.get(&hit, &mut self.value));
        tally.count("get-none", || self.index.get(&miss, &mut self.value));
    }

    fn walk(&mut self, tally: &mut Tally) {
        let [from, _] = self.keys();
        let to = key_of(slot_of(from) + 40);
        let index = &mut self.index;
        let bounds = |direction| match direction {
            Direction::Ascending => (Bound::Included(&from[..]), Bound::Unbounded),
            Direction::Descending => (Bound::Unbounded, Bound::Included(&from[..])),
        };
        for (name, direction) in [("range", Direction::Ascending), ("range-back", Direction::Descending)] {
            let ((low, high), mut few) = (bounds(direction), few());
            tally.count(name, || index.range(low, high, direction, &mut |_, _| few()));
        }
        let (low, high) = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let all = &mut |_: &[u8], _: &[u8]| ControlFlow::Continue(());
        tally.count("range-bounded", || index.range(low, high, Direction::Ascending, all));
        // A cursor asks for room for the records that it fetches once.
        let mut cursor = Cursor::new(&mut **index);
        Tally::default().count("first", || cursor.first());
        tally.count("first", || cursor.first());
        tally.count("last", || Cursor::last(&mut cursor));
        tally.count("seek", || cursor.seek(&from));
        tally.count("next", || cursor.next());
    }

    fn batch(&mut self, tally: &mut Tally) {
        if self.index.batch_max() < BATCH || self.next.is_some() {
            return;
        }
        let slots = &mut self.slots;
        let [new, old, gone] = [slots.turned(true), slots.any(true), slots.turned(false)].map(key_of);
        let put = |key| Change::put(key, &self.value);
        let missing = key_of(slots.any(false));
        // A key of which another change is in the batch is no harm.
        let batch = [put(&new), put(&old), Change::remove(&gone), Change::remove(&missing)];
        slots.there[slot_of(old) as usize] = old != gone;
        tally.count("apply", || self.index.apply(&batch));
    }

    fn tend(&mut self, tally: &mut Tally) {
        let index = &mut self.index;
        tally.count("sync", || index.sync());
        tally.count("maintain", || index.maintain(BUDGET));
        tally.count("scrub", || index.scrub(BUDGET));
        tally.count("free", || Ok::<_, Infallible>(index.free()));
        tally.count("records_max", || Ok::<_, Infallible>(index.records_max()));
        tally.count("takes_batch", || Ok::<_, Infallible>(index.takes_batch(2)));
        tally.count("ram_bytes", || Ok::<_, Infallible>(index.ram_bytes()));
    }
}

impl Rounds for Ordered {
    fn round(&mut self, number: u64, tally: &mut Tally) {
        self.change(tally);
        self.read(tally);
        if number.is_multiple_of(10) {
            self.walk(tally);
            self.batch(tally);
        }
        if number.is_multiple_of(20) {
            self.tend(tally);
        }
        if number % 500 == 499 {
            assert!(self.index.check().expect("a check").is_sound());
        }
    }
}

/// A spatial index with half of its entries.
pub(crate) struct Spatial {
    index: Box<dyn SpatialIndex<i32, 2>>,
    slots: Slots,
}

fn place(slot: u64) -> Rect<i32, 2> {
    let (x, y) = ((slot * 7_919 % 10_007) as i32, (slot * 104_729 % 10_009) as i32);
    Rect::point([x, y]).expect("a point")
}

impl Spatial {
    /// Inserts half of the entries.
    pub(crate) fn fill(index: &mut dyn SpatialIndex<i32, 2>) -> Result<(), IndexError> {
        Slots::half_of(PLACES).all_there().try_for_each(|slot| index.insert(&place(slot), slot))
    }

    /// An index that was filled.
    pub(crate) fn new(index: Box<dyn SpatialIndex<i32, 2>>) -> Spatial {
        Spatial { index, slots: Slots::half_of(PLACES) }
    }
}

impl Rounds for Spatial {
    fn round(&mut self, number: u64, tally: &mut Tally) {
        let Spatial { index, slots } = self;
        let (new, gone, missing) = (slots.turned(true), slots.turned(false), slots.any(false));
        tally.count("insert", || index.insert(&place(new), new));
        tally.count("remove", || index.remove(&place(gone), gone));
        tally.count("remove-none", || index.remove(&place(missing), missing));
        let [x, y] = place(slots.any(true)).low();
        let window = Rect::new([x, y], [x + 500, y + 500]).expect("a window");
        tally.count("window", || {
            index.window(&window, Relation::Intersects, &mut |_, _| ControlFlow::Continue(()))
        });
        tally.count("nearest", || index.nearest(&[x, y], 8, &mut |_, _, _| ControlFlow::Continue(())));
        if number.is_multiple_of(20) {
            tally.count("sync", || index.sync());
            tally.count("ram_bytes", || Ok::<_, Infallible>(index.ram_bytes()));
        }
        if number % 500 == 499 {
            tally.count("regions", || index.regions(&mut |_| ControlFlow::Continue(())));
            assert!(index.check().expect("a check").is_sound());
        }
    }
}

/// A store of which half of the pages are written.
pub(crate) struct Pages {
    store: Box<dyn PageStore>,
    slots: Slots,
    page: Vec<u8>,
}

impl Pages {
    /// Writes half of the pages.
    pub(crate) fn fill(store: &mut dyn PageStore) -> Result<(), StoreError> {
        let page = vec![0x5a; store.page_bytes()];
        let mut there = Slots::half_of(store.page_count().into()).all_there();
        there.try_for_each(|slot| store.write(Lpn(slot as u32), Cause::Host, &page))
    }

    /// A store that was filled.
    pub(crate) fn new(store: Box<dyn PageStore>) -> Pages {
        let (slots, page) = (Slots::half_of(store.page_count().into()), vec![0x5a; store.page_bytes()]);
        Pages { store, slots, page }
    }
}

impl Rounds for Pages {
    fn round(&mut self, number: u64, tally: &mut Tally) {
        let Pages { store, slots, page } = self;
        let lpn = |slot: u64| Lpn(slot as u32);
        let (new, old, gone) = (slots.turned(true), slots.any(true), slots.turned(false));
        tally.count("write", || store.write(lpn(new), Cause::Host, page));
        tally.count("write", || store.write(lpn(old), Cause::Host, page));
        tally.count("trim", || store.trim(lpn(gone)));
        slots.there[old as usize] = old != gone;
        let read = slots.any(true);
        tally.count("read", || store.read(lpn(read), Cause::Host, page));
        if number.is_multiple_of(10) && store.atomic_pages_max() >= BATCH {
            let [a, b] = [slots.turned(true), slots.turned(false)];
            tally
                .count("write_atomic", || store.write_atomic(&[(lpn(a), page), (lpn(b), page)], Cause::Host));
            tally.count("trim", || store.trim(lpn(b)));
        }
        if number.is_multiple_of(20) {
            tally.count("sync", || store.sync());
            tally.count("maintain", || store.maintain(BUDGET));
            tally.count("scrub", || store.scrub(BUDGET));
            tally.count("stats", || Ok::<_, Infallible>(store.stats()));
            tally.count("ram_bytes", || Ok::<_, Infallible>(store.ram_bytes()));
        }
        if number % 100 == 99 {
            tally.count("checkpoint", || store.checkpoint());
        }
    }
}
