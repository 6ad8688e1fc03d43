//! The chip and the settings of a life, drawn from its seed.

use super::keys::Keys;
use super::script::Fate;
use super::subject::Victim;
use crate::crash::Target;
use crate::crash::subject::Subject;
use crate::registry::{Hosting, STORES, StoreEntry};
use nandex::IndexError;
use nandex::nand::Part;
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::SimChip;
use nandex::ordered::{Durability, RecordFormat};
use nandex::rng::Rng;
use nandex_stacks::options::Settings;

/// The victim, the chip and the settings of a life.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) victim: Victim,
    pub(crate) part: Part,
    pub(crate) settings: Settings,
    /// Number of different keys, or of pages of a store; more than the chip has room for.
    pub(crate) slots: u32,
    /// Share of blocks that are bad from the factory, in a million.
    pub(crate) bad_ppm: u32,
    /// Seed that determines which blocks are bad.
    pub(crate) bad_seed: u64,
    pub(crate) keys: Keys,
    pub(crate) looks: Looks,
}

/// Which slots are looked up one by one whenever all contents are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Looks {
    #[default]
    Spots,
    All,
}

/// Number of drawn setups after which a victim that refused all of them is dropped.
const DRAWS: u64 = 40;
/// Most bytes of a chip's pages, so that a life takes milliseconds. A victim that needs more gets more.
const CHIP_BYTES: u64 = 160 << 10;
/// Most records that such a chip may hold.
const RECORDS_MAX: u64 = 3000;

/// Options that make buffers so small that they are often emptied. Whether to set them is drawn.
const SMALL: [(&str, u64); 8] = [
    ("pool_requests", 12),
    ("buffer_bytes", 1),
    ("journal_pages", 2),
    ("reservation_units", 9),
    ("journal", 5),
    ("buffer_pages", 2),
    ("head_entries", 24),
    ("checkpoint_blocks", 3),
];

/// Options of FTLs and caches with the values to draw from.
const OTHERS: [(&str, &[&str]); 8] = [
    ("bad_blocks", &["4", "12", "25"]),
    ("wear_gap", &["4"]),
    ("victim", &["cost-benefit", "fifo"]),
    ("log_blocks", &["2", "4"]),
    ("mapping_ram", &["64", "1024"]),
    ("cache", &["cflru", "cfdc"]),
    ("atomic_pages", &["16"]),
    ("over_provisioning", &["7", "30"]),
];

impl Setup {
    /// The first drawn setup that the victim accepts; `None` if it refuses all.
    pub(crate) fn draw(
        victim: Victim,
        rng: &mut Rng,
        (fate, with_failures): (Fate, bool),
        tried: &mut Tried,
    ) -> Result<Option<Setup>, IndexError> {
        for attempt in 0..DRAWS {
            tried.times = attempt + 1;
            let mut setup = match fate.any_geometry {
                true => Setup::any(victim, rng, attempt),
                false => Setup::one(victim, rng, attempt, with_failures),
            };
            let drawn = setup.settings.durability;
            for class in [Durability::EveryOperation, Durability::EverySync, Durability::None] {
                if class > drawn {
                    continue;
                }
                setup.settings.durability = class;
                tried.last = Some(setup.clone());
                match setup.try_format() {
                    Ok(()) => return Ok(Some(setup)),
                    Err(error) if error.is_unsupported() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(None)
    }

    /// The chip in its initial state.
    pub(crate) fn chip(&self) -> SimChip {
        let chip = SimChip::new(&self.part).unwrap_or_else(|error| panic!("the chip of a life: {error}"));
        chip.with_factory_bad_blocks(self.bad_ppm, self.bad_seed)
    }

    fn try_format(&self) -> Result<(), IndexError> {
        Subject::format(self.victim.target, &self.settings, Box::new(self.chip())).map(drop)
    }

    fn one(victim: Victim, rng: &mut Rng, attempt: u64, with_failures: bool) -> Setup {
        let mut part = draw_part(rng, attempt);
        // Roots of plow grow with the blocks, and are written otherwise where they are many.
        let is_plow = matches!(victim.target, Target::Index(index) if index.name == "plow");
        if is_plow && rng.chance(1, 3) {
            part = mlc_with(1024, 8, 110 + rng.below(80) as u32);
        }
        // Drawn aside, so that the lives on all other chips stay what they are.
        let mut aside = Rng::new(rng.clone().next_u64());
        if is_plow && aside.chance(1, 24) {
            part = draw_many_blocks(&mut aside);
        }
        let part = victim.target.suited(part);
        let mut record = draw_record(rng, &part);
        // Of larger records plow leaves zeros out.
        if is_plow && record.value_bytes > 8 && rng.chance(1, 2) {
            record.value_bytes = record.value_bytes / 4 * 4 + 1;
        }
        let mut settings = Settings::new(record);
        settings.durability = draw_class(rng);
        settings.ram_bytes = [None, None, Some(24_000), Some(60_000), Some(200_000)][rng.below(5) as usize];
        let ftl = victim.ftl.or_else(|| draw_ftl(victim, rng));
        settings = draw_options(victim, rng, victim.on(ftl, settings));
        // Only where there is such a choice: the lives of all others stay what they are.
        if victim.knows("valid", &settings) && rng.chance(1, 2) {
            settings = settings.with("valid", "counts");
            settings.ram_bytes = if rng.chance(1, 2) { victim.least_ram(&part, &settings) } else { None };
        }
        if with_failures && victim.knows("bad_blocks", &settings) {
            settings = settings.with("bad_blocks", 12);
        }
        let bytes_of_record = match victim.target {
            Target::Index(_) => u64::from(record.key_bytes) + u64::from(record.value_bytes),
            Target::Spatial(_) => 24,
            Target::Store(_) => 64,
        };
        let slots = part.geometry.data_bytes() / bytes_of_record.max(4) + 40;
        let slots = slots as u32;
        let bad_ppm = if with_failures && rng.chance(1, 3) { 40_000 } else { 0 };
        let bad_seed = rng.next_u64();
        Setup { victim, part, settings, slots, bad_ppm, bad_seed, keys: Keys::Leading, looks: Looks::Spots }
    }
}

#[derive(Default)]
pub(crate) struct Tried {
    pub(crate) last: Option<Setup>,
    /// Number of setups drawn.
    pub(crate) times: u64,
}

fn draw_part(rng: &mut Rng, attempt: u64) -> Part {
    let page_bytes = [512, 512, 512, 1024, 1024, 2048][rng.below(6) as usize];
    let pages_per_block = [8, 8, 16, 32][rng.below(4) as usize];
    // What refuses small chips gets larger ones.
    let largest = CHIP_BYTES << (attempt / 6).min(4);
    let most = largest / u64::from(page_bytes * pages_per_block);
    let blocks = (8 + rng.below(41)).min(most).max(8) + if attempt > 20 { 24 } else { 0 };
    mlc_with(page_bytes, pages_per_block, blocks as u32)
}

/// Draws a chip of more than 512 blocks, on which plow has anchors: small ones with room for two anchors
/// in a block.
fn draw_many_blocks(rng: &mut Rng) -> Part {
    let (page_bytes, pages_per_block) = [(512, 16), (1024, 8), (2048, 4)][rng.below(3) as usize];
    mlc_with(page_bytes, pages_per_block, 513 + rng.below(60) as u32)
}

/// Draws sizes of key and value with which a few thousand records fill the chip.
fn draw_record(rng: &mut Rng, part: &Part) -> RecordFormat {
    let key_bytes = [4, 4, 8, 8, 16, 2][rng.below(6) as usize];
    let drawn = [0, 4, 8, 8, 24, 60][rng.below(6) as usize];
    let needed = (part.geometry.data_bytes() / RECORDS_MAX).saturating_sub(u64::from(key_bytes));
    let most = u64::from(part.geometry.page_bytes) / 10;
    RecordFormat::new(key_bytes, needed.max(drawn).min(most).min(200) as u8)
}

pub(super) fn draw_class(rng: &mut Rng) -> Durability {
    match rng.below(20) {
        0..10 => Durability::EveryOperation,
        10..17 => Durability::EverySync,
        _ => Durability::None,
    }
}

pub(super) fn draw_ftl(victim: Victim, rng: &mut Rng) -> Option<&'static StoreEntry> {
    let any = &STORES[rng.below(STORES.len() as u64) as usize];
    let (first, on_raw) = (rng.chance(1, 3), rng.chance(1, 8));
    match victim.target {
        Target::Index(entry) if entry.hosting == Hosting::Raw => on_raw.then_some(any),
        Target::Store(_) => None,
        _ if first => Some(&STORES[0]),
        _ => Some(any),
    }
}

pub(super) fn draw_options(victim: Victim, rng: &mut Rng, mut settings: Settings) -> Settings {
    let is_small = rng.chance(2, 3);
    for (name, value) in SMALL {
        let taken = is_small && rng.chance(2, 3);
        if taken && victim.knows(name, &settings) {
            settings = settings.with(name, value);
        }
    }
    for (name, values) in OTHERS {
        let value = values[rng.below(values.len() as u64) as usize];
        let taken = rng.chance(1, 8);
        if taken && victim.knows(name, &settings) {
            settings = settings.with(name, value);
        }
    }
    settings
}
