//! Any chip and any record: setups drawn from all that a chip may be, and short lives on them that end in an
//! orderly way or not, several times over.
//!
//! Lives at the edge of full take small chips of few shapes. Here pages have 128 bytes to 16 KiB and 0 to 64
//! spare bytes, blocks 2 to 1,024 pages, chips 4 to 65,536 blocks, records one byte to a page, and RAM goes
//! from the least to half a MiB. After every mount each key is looked up by itself, too.

use super::body::Body;
use super::keys::Keys;
use super::setup::{Looks, Setup, draw_class, draw_ftl, draw_options};
use super::step::{Cut, Step, WHENS};
use super::subject::Victim;
use crate::crash::Target;
use crate::crash::ops::{HostOp, append};
use nandex::Geometry;
use nandex::nand::Part;
use nandex::nand::catalogue::mlc_with;
use nandex::nand::sim::TornModel;
use nandex::ordered::{Durability, RecordFormat};
use nandex::rng::Rng;
use nandex_stacks::options::Settings;
use std::collections::VecDeque;

/// Most pages of a chip: usually, and in one life of 24.
const PAGES_MAX: [u64; 2] = [1 << 15, 1 << 20];
/// Bytes that a life may write at most, each page counted once, since the chip holds them in memory.
const WRITTEN_MAX: u64 = 16 << 20;
/// Most changes of a life.
const CHANGES_MAX: u64 = 5000;
/// Number of attempts after which only chips of usual shapes are drawn.
const ANYTHING: u64 = 20;

impl Victim {
    /// Draws a chip of any geometry and settings without RAM for any record. Whether they fit together is
    /// found out by the format. `attempt` is the number of refused draws; after some of them the draws
    /// become usual.
    pub fn any(self, rng: &mut Rng, attempt: u64) -> (Part, Settings) {
        let part = self.target.suited(draw_part(rng, attempt));
        let record = draw_record(rng, part.geometry.page_bytes, attempt);
        let mut settings = Settings::new(record);
        settings.durability = draw_class(rng);
        let ftl = self.ftl.or_else(|| draw_ftl(self, rng));
        settings = self.on(ftl, settings);
        if rng.chance(1, 2) {
            settings = draw_options(self, rng, settings);
        }
        if self.knows("valid", &settings) && rng.chance(1, 3) {
            settings = settings.with("valid", "counts");
        }
        (part, settings)
    }
}

impl Setup {
    /// Draws a setup of any geometry.
    pub(super) fn any(victim: Victim, rng: &mut Rng, attempt: u64) -> Setup {
        let (part, mut settings) = victim.any(rng, attempt);
        let (page_bytes, record) = (part.geometry.page_bytes, settings.record);
        settings.ram_bytes = draw_ram(victim, rng, &part, &settings);
        let bytes_of_slot = match victim.target {
            Target::Index(_) => record.entry_bytes() as u64,
            Target::Spatial(_) => 24,
            Target::Store(_) => u64::from(page_bytes),
        };
        let capacity = part.geometry.data_bytes() / bytes_of_slot.max(4) + 40;
        let most = changes_max(page_bytes);
        let slots = [capacity, most, most / 8, below_log(rng, most)][rng.below(4) as usize];
        let keys = if record.key_bytes > 4 && rng.chance(1, 3) { Keys::Trailing } else { Keys::Leading };
        Setup {
            victim,
            part,
            settings,
            slots: slots.min(most).max(2) as u32,
            bad_ppm: if rng.chance(1, 6) { 20_000 } else { 0 },
            bad_seed: rng.next_u64(),
            keys,
            looks: Looks::All,
        }
    }
}

fn changes_max(page_bytes: u32) -> u64 {
    (WRITTEN_MAX / u64::from(page_bytes)).min(CHANGES_MAX)
}

/// Draws a number from 1 to `most`; each power of two is equally likely.
fn below_log(rng: &mut Rng, most: u64) -> u64 {
    let bits = u64::from(most.max(1).ilog2());
    let power = 1 << rng.below(bits + 1);
    (power + rng.below(power)).min(most)
}

fn draw_part(rng: &mut Rng, attempt: u64) -> Part {
    let is_usual = attempt > ANYTHING;
    let page_bytes: u32 = if is_usual { 512 << rng.below(4) } else { 128 << rng.below(8) };
    let pages_per_block = below_log(rng, if is_usual { 128 } else { 1024 }).max(if is_usual { 8 } else { 2 });
    let most = PAGES_MAX[usize::from(rng.chance(1, 24))] / pages_per_block;
    let blocks = below_log(rng, most.clamp(8, 65_536)).max(if is_usual { 32 } else { 4 });
    let spare = if is_usual { 64 } else { [64, 64, 32, 16, rng.below(65)][rng.below(5) as usize] };
    let mut part = mlc_with(page_bytes, pages_per_block as u32, blocks as u32);
    part.geometry = Geometry { spare_bytes: spare as u32, ..part.geometry };
    part
}

/// Draws record sizes: small ones, any, some that fill a page or a fraction of one, and the largest.
fn draw_record(rng: &mut Rng, page_bytes: u32, attempt: u64) -> RecordFormat {
    let (key, value) = match if attempt > ANYTHING { 0 } else { rng.below(8) } {
        0..3 => ([4, 8, 8, 16][rng.below(4) as usize], [0, 4, 8, 17][rng.below(4) as usize]),
        3..5 => (below_log(rng, 255), below_log(rng, 256) - 1),
        5..7 => {
            let bytes = u64::from(page_bytes) / (1 + rng.below(8));
            let bytes = bytes.saturating_sub(rng.below(48)).clamp(2, 510);
            let least = bytes.saturating_sub(255).max(1);
            let key = least + rng.below(bytes.min(255) - least + 1);
            (key, bytes - key)
        }
        _ => (255, 255),
    };
    RecordFormat::new(key.min(255) as u8, value.min(255) as u8)
}

/// Draws the RAM: the least with which the victim runs, a little or a lot more, or no limit.
fn draw_ram(victim: Victim, rng: &mut Rng, part: &Part, settings: &Settings) -> Option<usize> {
    const MOST: u64 = 512 << 10;
    let (more, form) = (below_log(rng, MOST), rng.below(8));
    match (victim.target, form) {
        (_, 0..2) => None,
        (Target::Index(_), _) => {
            let least = victim.least_ram(part, settings)?;
            Some(if form < 5 { least } else { least + more as usize })
        }
        _ => Some(more as usize + 4096),
    }
}

/// Draws the steps of a life: rounds of changes, each of which ends with a close or a power-off.
pub(crate) struct Rounds {
    rng: Rng,
    /// Number of rounds left.
    rounds: u64,
    changes: u64,
    most: u64,
    /// Percentage of the changes that are removals.
    removals: u64,
    syncs: u64,
    cursor: Option<u32>,
    pending: VecDeque<Step>,
    is_over: bool,
}

impl Rounds {
    pub(crate) fn new(mut rng: Rng) -> Rounds {
        let rounds = 2 + rng.below(4);
        let pending = VecDeque::new();
        let mut script = Rounds {
            rng,
            rounds,
            changes: 0,
            most: 0,
            removals: 0,
            syncs: 1,
            cursor: None,
            pending,
            is_over: false,
        };
        script.turn();
        script
    }

    /// Draws new shares of removals and syncs.
    fn turn(&mut self) {
        self.removals = [0, 2, 20, 45, 90][self.rng.below(5) as usize];
        self.syncs = [1, 10, 100, 1000][self.rng.below(4) as usize];
        self.cursor = self.rng.chance(1, 2).then(|| self.rng.below(1 << 20) as u32);
        self.changes = 0;
    }

    /// The next step; `None` at the end.
    pub(crate) fn next(&mut self, body: &Body<'_>) -> Option<Step> {
        if let Some(step) = self.pending.pop_front() {
            return Some(step);
        }
        if self.is_over {
            return None;
        }
        if self.most == 0 {
            let most = changes_max(body.rig.setup.part.geometry.page_bytes) / self.rounds.max(1);
            self.removals = 2;
            self.most = below_log(&mut self.rng, most).max(most / 4);
        }
        if self.changes >= self.most || body.refusals.in_row > 2 && self.changes > 8 {
            return Some(self.end_round(body));
        }
        self.changes += 1;
        if self.changes.is_multiple_of(self.syncs) && self.rng.chance(1, 2) {
            return Some(Step::Op(HostOp::Sync));
        }
        Some(self.change(body))
    }

    fn end_round(&mut self, body: &Body<'_>) -> Step {
        self.turn();
        self.rounds = self.rounds.saturating_sub(1);
        if self.rounds == 0 {
            self.is_over = true;
            self.pending.extend([Step::Op(HostOp::Remount { close: true }), Step::Look]);
            return Step::Look;
        }
        let closes = body.class == Durability::None || self.rng.chance(1, 2);
        if closes {
            return Step::Op(HostOp::Remount { close: true });
        }
        if self.rng.chance(1, 2) {
            return Step::Off;
        }
        let when = WHENS[self.rng.below(3) as usize].0;
        let torn = TornModel::ALL[self.rng.below(TornModel::ALL.len() as u64) as usize];
        let after = below_log(&mut self.rng, 120);
        Step::Cut(Cut { after, when, torn, seed: self.rng.below(1 << 32) })
    }

    fn change(&mut self, body: &Body<'_>) -> Step {
        let (contents, mix) = (body.expected.contents(), body.expected.mix);
        let slots = contents.len() as u64;
        if mix.appends {
            return Step::Op(append(contents));
        }
        let slot = match &mut self.cursor {
            Some(cursor) => {
                *cursor = cursor.wrapping_add(1);
                u64::from(*cursor) % slots
            }
            None => self.rng.below(slots),
        } as u32;
        if self.rng.below(100) < self.removals {
            return Step::Op(HostOp::Remove(slot));
        }
        if mix.group_max > 1 && self.rng.chance(1, 20) {
            let wanted = 2 + self.rng.below(mix.group_max.min(8) as u64 - 1);
            let mut group: Vec<u32> = (0..wanted).map(|_| self.rng.below(slots) as u32).collect();
            group.sort_unstable();
            group.dedup();
            return Step::Op(HostOp::Group(group));
        }
        Step::Op(HostOp::Put(slot))
    }
}
