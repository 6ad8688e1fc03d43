//! RAM on chips of any geometry: short lives of indexes, spatial indexes and FTLs, in which the heap is
//! counted at every moment.
//!
//! Lives of [`crate::ram`] take parts of the catalogue. Here chip, record, options and RAM are drawn as in
//! `nandex torture --geometry`, changes come without syncs and removals in masses, and the power goes
//! anywhere.

use crate::Apart;
use crate::heap::{measure, rises_above, uncounted};
use nandex::index::Durability;
use nandex::nand::Part;
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::ordered::{Change, Direction};
use nandex::rng::{Rng, split_mix};
use nandex::spatial::{Rect, Relation};
use nandex::{Cause, IndexError, Lpn, Nand, OrderedIndex, PageStore, Shared, SpatialIndex};
use nandex_lab::crash::Target;
use nandex_lab::needed::ram_needed;
use nandex_lab::options::Settings;
use nandex_lab::torture::Victim;
use std::fmt;
use std::ops::{Bound, ControlFlow};

/// RAM beyond the least, at most.
const RAM_MORE: u64 = 512 << 10;
/// Most chips and settings drawn before a subject that refuses all of them is dropped.
const DRAWS: u64 = 40;
/// Changes of a batch at most.
const GROUP_MAX: u64 = 64;
/// Bytes beyond the budget for each change of a batch while the batch is made (`docs/ram.md`).
const CHANGE_BYTES: usize = 96;
/// Bytes written in a life at most, each page counted once.
const WRITTEN_MAX: u64 = 4 << 20;

/// A random test run, determined by its subject, seed and length.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// The index, spatial index or FTL.
    pub victim: Victim,
    /// Fixes chip, settings and changes.
    pub seed: u64,
    /// Most changes.
    pub changes: u64,
}

/// A life that exceeded its RAM budget, or that failed otherwise.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Message: the step of the failure and the failure.
    pub what: String,
    /// Place of the failure in the source.
    pub place: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

enum Open {
    Index(Box<dyn OrderedIndex>),
    Spatial(Box<dyn SpatialIndex<i32, 2>>),
    Store(Box<dyn PageStore>),
}

/// Chip and settings drawn for a life.
struct Setup {
    target: Target,
    part: Part,
    settings: Settings,
}

/// Key and value, or page, made once.
struct Bytes {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Life {
    /// Runs the life. Returns `None` if the subject fits none of the drawn chips.
    pub fn live(&self) -> Option<Result<(), Finding>> {
        let mut rng = Rng::new(split_mix(self.seed));
        for attempt in 0..DRAWS {
            let setup = self.setup(&mut rng, attempt);
            let setup = match setup {
                None => continue,
                Some(Err(why)) => return Some(Err(why)),
                Some(Ok(setup)) => setup,
            };
            let lived = Course { setup: &setup, rng: &mut rng, most: self.changes, held_in: "" }.run();
            return Some(lived.map_err(|what| Finding { what, place: self.place(&setup) }));
        }
        None
    }

    fn place(&self, setup: &Setup) -> String {
        let (geometry, settings) = (setup.part.geometry, &setup.settings);
        let options: Vec<String> =
            settings.options.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        format!(
            "{} seed {} on {}+{} x {} x {}, {} + {}, {:?}, {:?} bytes,{}",
            self.victim,
            self.seed,
            geometry.page_bytes,
            geometry.spare_bytes,
            geometry.pages_per_block,
            geometry.blocks,
            settings.record.key_bytes,
            settings.record.value_bytes,
            settings.durability,
            settings.ram_bytes,
            options.concat()
        )
    }

    /// Chip and settings with the RAM that is given.
    fn setup(&self, rng: &mut Rng, attempt: u64) -> Option<Result<Setup, Finding>> {
        let (part, mut settings) = self.victim.any(rng, attempt);
        let target = self.victim.target;
        if matches!(target, Target::Store(_)) {
            let setup = Setup { target, part, settings };
            return setup.format(&setup.chip()).is_ok().then_some(Ok(setup));
        }
        let more = match rng.below(3) {
            0 => 0,
            1 => {
                let bits = 4 + rng.below(9);
                rng.below(1 << bits)
            }
            _ => rng.below(RAM_MORE),
        };
        let drawn = settings.durability;
        for class in [Durability::EveryOperation, Durability::EverySync, Durability::None] {
            settings.durability = class;
            let least = if class <= drawn { least_ram(target, &part, &settings) } else { None };
            let Some(least) = least else { continue };
            settings.ram_bytes = Some(least + more as usize);
            let setup = Setup { target, part: part.clone(), settings: settings.clone() };
            match setup.format(&setup.chip()) {
                Ok(_) => return Some(Ok(setup)),
                // A class that this FTL does not give.
                Err(IndexError::Unsupported(_)) => {}
                Err(error) => {
                    let what = format!("format: {error}");
                    return Some(Err(Finding { what, place: self.place(&setup) }));
                }
            }
        }
        None
    }
}

/// The least RAM that a refusal names.
fn least_ram(target: Target, part: &Part, settings: &Settings) -> Option<usize> {
    match target {
        Target::Index(entry) => ram_needed(entry, part, settings).ok(),
        Target::Spatial(_) => {
            let settings = Settings { ram_bytes: Some(0), ..settings.clone() };
            let setup = Setup { target, part: part.clone(), settings };
            match setup.format(&setup.chip()) {
                Err(IndexError::TooLittleRam { needed, .. }) => Some(needed),
                _ => None,
            }
        }
        Target::Store(_) => None,
    }
}

type Chip = Shared<SimChip>;

fn handle(chip: &Chip) -> Box<dyn Nand> {
    uncounted(|| Box::new(Apart::new(chip.clone())))
}

impl Setup {
    fn chip(&self) -> Chip {
        uncounted(|| {
            Shared::new(SimChip::new(&self.part).unwrap_or_else(|error| panic!("a drawn chip: {error}")))
        })
    }

    fn format(&self, chip: &Chip) -> Result<Open, IndexError> {
        Ok(match self.target {
            Target::Index(entry) => Open::Index((entry.format)(handle(chip), &self.settings)?),
            Target::Spatial(entry) => Open::Spatial(entry.format(handle(chip), &self.settings)?),
            Target::Store(entry) => Open::Store((entry.format)(handle(chip), &self.settings)?),
        })
    }

    /// Mounts the subject again. Returns `None` if it refuses because the power was cut, and cannot be opened
    /// otherwise.
    fn mount(&self, chip: &Chip) -> Result<Option<Open>, IndexError> {
        let entry = match self.target {
            Target::Index(entry) => entry,
            Target::Spatial(entry) => {
                return opened(entry.mount(handle(chip), &self.settings), Open::Spatial);
            }
            Target::Store(entry) => {
                return Ok(Some(Open::Store((entry.mount)(handle(chip), &self.settings)?)));
            }
        };
        match (opened((entry.mount)(handle(chip), &self.settings), Open::Index)?, entry.mount_after_cut) {
            (None, Some(open)) => opened(open(handle(chip), &self.settings), Open::Index),
            (mounted, _) => Ok(mounted),
        }
    }
}

fn opened<T>(mounted: Result<T, IndexError>, open: fn(T) -> Open) -> Result<Option<Open>, IndexError> {
    match mounted {
        Ok(index) => Ok(Some(open(index))),
        Err(IndexError::NotCleanlyClosed) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Open {
    /// Bytes that an FTL declares: in use, and during a mount.
    fn declared(&self) -> Option<(usize, usize)> {
        match self {
            Open::Store(store) => Some((store.ram_bytes(), store.mount_ram_bytes())),
            _ => None,
        }
    }

    fn says(&self) -> usize {
        match self {
            Open::Index(index) => index.ram_bytes(),
            Open::Spatial(index) => index.ram_bytes(),
            Open::Store(store) => store.ram_bytes(),
        }
    }

    fn close(&mut self) -> Result<(), IndexError> {
        match self {
            Open::Index(index) => index.close(),
            Open::Spatial(index) => index.close(),
            Open::Store(store) => Ok(store.checkpoint()?),
        }
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        match self {
            Open::Index(index) => index.sync(),
            Open::Spatial(index) => index.sync(),
            Open::Store(store) => Ok(store.sync()?),
        }
    }

    fn put(&mut self, slot: u64, bytes: &mut Bytes, blind: bool) -> Result<(), IndexError> {
        bytes.fill(slot);
        match self {
            Open::Index(index) if blind => index.put(&bytes.key, &bytes.value),
            Open::Index(index) => index.insert(&bytes.key, &bytes.value).map(drop),
            Open::Spatial(index) => index.insert(&rect_of(slot), slot),
            Open::Store(store) => Ok(store.write(Lpn(slot as u32), Cause::Host, &bytes.value)?),
        }
    }

    fn remove(&mut self, slot: u64, bytes: &mut Bytes) -> Result<(), IndexError> {
        bytes.fill(slot);
        match self {
            Open::Index(index) => index.remove(&bytes.key).map(drop),
            Open::Spatial(index) => index.remove(&rect_of(slot), slot).map(drop),
            Open::Store(store) => Ok(store.trim(Lpn(slot as u32))?),
        }
    }

    /// Several changes at once.
    fn group(&mut self, rng: &mut Rng, slots: u64, bytes: &mut Bytes) -> Result<(), IndexError> {
        let most = match self {
            Open::Index(index) => index.batch_max(),
            Open::Spatial(_) => 1,
            Open::Store(store) => store.atomic_pages_max(),
        };
        let count = 1 + rng.below((most as u64).clamp(1, GROUP_MAX));
        let mut chosen: Vec<u64> = uncounted(|| (0..count).map(|_| rng.below(slots)).collect());
        uncounted(|| {
            chosen.sort_unstable();
            chosen.dedup();
        });
        let done = match self {
            Open::Index(index) if most > 1 => {
                let keys: Vec<Vec<u8>> = uncounted(|| {
                    let keys = chosen.iter().map(|&slot| {
                        bytes.fill(slot);
                        bytes.key.clone()
                    });
                    keys.collect()
                });
                let removes = rng.chance(1, 2);
                let changes: Vec<Change<'_>> = uncounted(|| {
                    let change =
                        |key| if removes { Change::remove(key) } else { Change::put(key, &bytes.value) };
                    keys.iter().map(|key| change(key)).collect()
                });
                let done = index.apply(&changes);
                uncounted(|| drop(changes));
                uncounted(|| drop(keys));
                done
            }
            Open::Store(store) => {
                let pages: Vec<(Lpn, &[u8])> =
                    uncounted(|| chosen.iter().map(|&slot| (Lpn(slot as u32), &bytes.value[..])).collect());
                let done = store.write_atomic(&pages, Cause::Host);
                uncounted(|| drop(pages));
                done.map_err(IndexError::from)
            }
            _ => self.put(chosen[0], bytes, false),
        };
        uncounted(|| drop(chosen));
        done
    }

    fn read(&mut self, slot: u64, bytes: &mut Bytes, many: u32) -> Result<(), IndexError> {
        bytes.fill(slot);
        let mut left = many;
        let mut go_on = || {
            left = left.saturating_sub(1);
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match self {
            Open::Index(index) if many == 0 => index.get(&bytes.key, &mut bytes.value).map(drop),
            Open::Index(index) => {
                let direction =
                    if slot.is_multiple_of(2) { Direction::Ascending } else { Direction::Descending };
                let (low, high) = match direction {
                    Direction::Ascending => (Bound::Included(&bytes.key[..]), Bound::Unbounded),
                    Direction::Descending => (Bound::Unbounded, Bound::Included(&bytes.key[..])),
                };
                index.range(low, high, direction, &mut |_, _| go_on())
            }
            Open::Spatial(index) => index.window(&rect_of(slot), Relation::Intersects, &mut |_, _| go_on()),
            Open::Store(store) => Ok(store.read(Lpn(slot as u32), Cause::Host, &mut bytes.value)?),
        }
    }

    fn tend(&mut self, budget: u32, scrubs: bool) -> Result<(), IndexError> {
        match self {
            Open::Index(index) if scrubs => index.scrub(budget).map(drop),
            Open::Index(index) => index.maintain(budget).map(drop),
            _ => Ok(()),
        }
    }
}

impl Bytes {
    /// Sets the key of a slot: the slot's number in its last bytes, the same bytes before.
    fn fill(&mut self, slot: u64) {
        let number = (slot as u32).to_be_bytes();
        let width = self.key.len().min(4);
        let start = self.key.len() - width;
        self.key[start..].copy_from_slice(&number[4 - width..]);
    }
}

fn rect_of(slot: u64) -> Rect<i32, 2> {
    let bits = split_mix(slot);
    let low = [(bits % 10_000) as i32, (bits >> 20) as i32 % 10_000];
    let size = (bits >> 52) as i32 % 60;
    match Rect::new(low, [low[0] + size, low[1] + size]) {
        Ok(rect) => rect,
        Err(error) => unreachable!("{error}"),
    }
}

/// The changes of a round.
struct Mix {
    slots: u64,
    changes: u64,
    removals: u64,
    syncs: u64,
    ascends: Option<u64>,
}

struct Course<'a> {
    setup: &'a Setup,
    rng: &'a mut Rng,
    most: u64,
    /// Name of the operation that held the most bytes.
    held_in: &'static str,
}

impl Course<'_> {
    fn run(&mut self) -> Result<(), String> {
        let chip = self.setup.chip();
        let (opened, formatted) = measure(|| self.setup.format(&chip));
        let mut open = opened.map_err(|error| format!("format: {error}"))?;
        let (slots, mut bytes) = self.slots(&open);
        let declared = open.declared();
        self.judge("format", formatted.peak, declared.map(|(held, mount)| held.max(mount)))?;
        let mut kept = formatted.kept;
        let mut next = 0;
        for round in 0..3 {
            let mix = self.mix(slots);
            let cuts = self.rng.chance(1, 2);
            if cuts {
                let bits = 3 + self.rng.below(9);
                let after = self.rng.below(1 << bits);
                uncounted(|| plan(&chip, after));
            }
            let (worked, held) = measure(|| self.work(&mut open, &mut next, &mix, &mut bytes));
            if let Err(error) = worked
                && chip.lock().is_powered()
            {
                return Err(format!("work: {error}"));
            }
            self.judge(self.held_in, kept + held.peak, declared.map(|(held, _)| held))?;
            let says = uncounted(|| open.says());
            self.judge("what it says", says, declared.map(|(held, _)| held))?;
            kept += held.kept;
            let closes = !cuts && self.rng.chance(2, 3) && chip.lock().is_powered();
            if closes {
                let (closed, held) = measure(|| open.close());
                match closed {
                    Ok(()) | Err(IndexError::Full(_) | IndexError::WornOut) => {}
                    Err(error) => return Err(format!("close: {error}")),
                }
                self.judge("close", kept + held.peak, declared.map(|(held, _)| held))?;
            }
            drop(open);
            uncounted(|| {
                chip.lock().power_on();
                plan(&chip, u64::from(u32::MAX));
            });
            let (mounted, held) = measure(|| self.setup.mount(&chip));
            if !self.exceeds_in_mounts(closes) {
                let when = if closes { "mount" } else { "mount after a cut" };
                self.judge(when, held.peak, declared.map(|(_, mount)| mount))?;
            }
            open = match mounted {
                Ok(Some(open)) => open,
                Ok(None) => return Ok(()),
                Err(error) => return Err(format!("mount {round}: {error}")),
            };
            kept = held.kept;
        }
        Ok(())
    }

    /// Slots to work on, and the bytes of a record.
    fn slots(&self, open: &Open) -> (u64, Bytes) {
        let record = self.setup.settings.record;
        let page_bytes = u64::from(self.setup.part.geometry.page_bytes);
        let key_bytes = usize::from(record.key_bytes);
        let most = (WRITTEN_MAX / page_bytes).clamp(20, self.most);
        let (slots, value_bytes) = match open {
            Open::Index(_) => {
                (most.min(if key_bytes < 4 { 1 << (8 * key_bytes) } else { most }), record.value_bytes.into())
            }
            Open::Spatial(_) => (most, 0),
            Open::Store(store) => (u64::from(store.page_count()).min(most), store.page_bytes()),
        };
        (slots.max(2), Bytes { key: vec![0x5a; key_bytes], value: vec![7; value_bytes] })
    }

    fn mix(&mut self, slots: u64) -> Mix {
        let rng = &mut *self.rng;
        Mix {
            slots,
            changes: slots / 2 + rng.below(slots),
            removals: [0, 2, 20, 50, 95][rng.below(5) as usize],
            syncs: [1, 10, 100, u64::MAX][rng.below(4) as usize],
            ascends: rng.chance(1, 2).then(|| rng.below(slots)),
        }
    }

    fn work(
        &mut self,
        open: &mut Open,
        next: &mut u64,
        mix: &Mix,
        bytes: &mut Bytes,
    ) -> Result<(), IndexError> {
        let slots = mix.slots;
        let appends = matches!(self.setup.target, Target::Index(entry) if !entry.takes_any_key());
        let mut mark = 0;
        rises_above(&mut mark);
        for change in 1..=mix.changes {
            let slot = match mix.ascends {
                _ if appends => {
                    *next += 1;
                    if *next >= slots {
                        return Ok(());
                    }
                    *next
                }
                Some(start) => (start + change) % slots,
                None => self.rng.below(slots),
            };
            let removes = self.rng.below(100) < mix.removals;
            let (name, done) = match self.rng.below(64) {
                0 => ("read", open.read(slot, bytes, [0, 1, 20, 1000][self.rng.below(4) as usize])),
                1 if !appends => ("group", open.group(self.rng, slots, bytes)),
                2 => ("tend", open.tend(1 << self.rng.below(7), self.rng.chance(1, 2))),
                _ if removes && !appends => ("remove", open.remove(slot, bytes)),
                other => ("put", open.put(slot, bytes, other < 20)),
            };
            if rises_above(&mut mark) {
                self.held_in = name;
            }
            let done = match done {
                Ok(()) if change.is_multiple_of(mix.syncs) => open.sync(),
                done => done,
            };
            if rises_above(&mut mark) {
                self.held_in = "sync";
            }
            match done {
                Ok(())
                | Err(IndexError::Full(_) | IndexError::WornOut | IndexError::BatchTooLarge { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether a mount may take more than is given, as `docs/ram.md` says: a VMTree-OW holds the batch that
    /// was being made.
    fn exceeds_in_mounts(&self, closes: bool) -> bool {
        !closes && self.setup.target.name() == "vmtree-ow"
    }

    fn bound(&self, declared: Option<usize>) -> usize {
        self.setup.settings.ram_bytes.or(declared).unwrap_or(usize::MAX)
    }

    fn judge(&self, when: &str, held: usize, declared: Option<usize>) -> Result<(), String> {
        let bound = match self.setup.target {
            Target::Store(_) => declared.unwrap_or(usize::MAX),
            _ => self.bound(declared),
        };
        let record = self.setup.settings.record;
        let page_bytes = self.setup.part.geometry.page_bytes as usize;
        // A B+-tree has the pages that a batch changes.
        let pages = if self.setup.target.name() == "bplus" { 4 * page_bytes } else { 0 };
        // plow has the values that it replaces, any other a value to look up.
        let values = if self.setup.target.name() == "plow" { GROUP_MAX as usize } else { 1 };
        let batch = GROUP_MAX as usize * (CHANGE_BYTES + pages) + values * usize::from(record.value_bytes);
        let bound = bound.saturating_add(if when == "group" { batch } else { 0 });
        if held > bound {
            return Err(format!("{when}: {held} of {bound} bytes, {} over", held - bound));
        }
        Ok(())
    }
}

fn plan(chip: &Chip, after: u64) {
    let mut chip = chip.lock();
    let at_operation = chip.operations() + after;
    chip.plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn: TornModel::Prefix, seed: 1 });
}
