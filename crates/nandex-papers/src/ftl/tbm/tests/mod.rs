//! The TBM by the paper's figures, and as an array of pages whatever happens to the chip.

mod cuts;
mod damage;
mod figures;

use super::{SPARE_BLOCKS_MIN, Tbm, TbmConfig, TbmCounters, VictimReads};
use crate::ftl::bast::{BastConfig, BastFtl};
use crate::ftl::fast::{FastConfig, FastFtl};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::sim::{Faults, SimChip};
use nandex::nand::{BlockRange, Cause, Geometry, Nand, NandError, Part, Timing};
use nandex::rng::Rng;
use nandex::store::{PageStore, StoreError};
use nandex::units::{Lpn, Pbn, Ppn};

pub(super) use nandex::testing::Chip;
use nandex::testing::pages::{self, Model, Op, Undone, contents, page, tag_of};
type Range = BlockRange<Chip>;

pub(super) fn new_chip(geometry: Geometry) -> Chip {
    let timing =
        Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };
    Chip::new(SimChip::new(&Part::new("test", geometry, timing)).unwrap())
}

trait Below: PageStore + Sized {
    fn new(range: Range) -> Self;
    fn again(range: Range) -> Result<Self, StoreError>;
}

impl Below for FastFtl<Range> {
    fn new(range: Range) -> Self {
        FastFtl::format(range, &FastConfig { log_blocks: Some(4), ..FastConfig::default() }).unwrap()
    }
    fn again(range: Range) -> Result<Self, StoreError> {
        FastFtl::mount(range, &FastConfig::default())
    }
}

impl Below for BastFtl<Range> {
    fn new(range: Range) -> Self {
        BastFtl::format(range, &BastConfig::default()).unwrap()
    }
    fn again(range: Range) -> Result<Self, StoreError> {
        BastFtl::mount(range, &BastConfig::default())
    }
}

impl Below for PageMapFtl<Range> {
    fn new(range: Range) -> Self {
        PageMapFtl::format(range, &FtlConfig::default()).unwrap()
    }
    fn again(range: Range) -> Result<Self, StoreError> {
        PageMapFtl::mount(range, &FtlConfig::default())
    }
}

#[derive(Clone)]
struct Bench {
    chip: Chip,
    tbm_blocks: u32,
    settings: TbmConfig,
}

impl Bench {
    fn new(geometry: Geometry, buffer_blocks: u32, spare_blocks: u32) -> Bench {
        // Of the benches with an odd number of buffer blocks the converter fills up logical blocks.
        let whole_from = (!buffer_blocks.is_multiple_of(2)).then_some(geometry.pages_per_block / 2);
        // Of every third all pages are read.
        let victim_reads =
            if buffer_blocks.is_multiple_of(3) { VictimReads::Every } else { VictimReads::Kept };
        let settings = TbmConfig { blocks: buffer_blocks, whole_from, victim_reads };
        Bench { chip: new_chip(geometry), tbm_blocks: buffer_blocks + spare_blocks, settings }
    }

    fn small(seed: u64) -> Bench {
        Bench::new(Geometry::new(128, 32, 4, 48), 3 + seed as u32 % 4, 2 + seed as u32 % 2)
    }

    fn ranges(&self) -> [Range; 2] {
        let (first, blocks) = (self.first_block(), self.tbm_blocks);
        [
            BlockRange::new(self.chip.clone(), Pbn(0), first),
            BlockRange::new(self.chip.clone(), Pbn(first), blocks),
        ]
    }

    fn first_block(&self) -> u32 {
        self.chip.geometry().blocks - self.tbm_blocks
    }

    fn format<S: Below>(&self) -> Tbm<S, Chip> {
        let [low, high] = self.ranges();
        self.with_rule(Tbm::format(S::new(low), high, &self.settings).unwrap())
    }

    fn mount<S: Below>(&self) -> Result<Tbm<S, Chip>, StoreError> {
        let [low, high] = self.ranges();
        Ok(self.with_rule(Tbm::mount(S::again(low)?, high, &self.settings)?))
    }

    /// Sets a rule in benches with four or five buffer blocks: some of the pages go to the FTL at once.
    fn with_rule<S: Below>(&self, mut tbm: Tbm<S, Chip>) -> Tbm<S, Chip> {
        if matches!(self.settings.blocks, 4 | 5) {
            tbm.write_directly(Box::new(|data| data[0] % 4 == 1));
        }
        tbm
    }
}

fn random_op(rng: &mut Rng, store: &impl PageStore, last: &mut u32) -> Op {
    let pages = u64::from(store.page_count());
    let mut lpn = |rng: &mut Rng| {
        *last = match rng.below(10) {
            0..=3 => (*last + 1) % pages as u32,
            4..=8 => rng.below(pages.div_ceil(5)) as u32,
            _ => rng.below(pages) as u32,
        };
        *last
    };
    match rng.below(40) {
        0..=23 => Op::Write(lpn(rng)),
        24..=28 => {
            let count = 1 + rng.below(store.atomic_pages_max() as u64);
            let mut group: Vec<u32> = (0..count).map(|_| lpn(rng)).collect();
            group.sort_unstable();
            group.dedup();
            rng.shuffle(&mut group);
            Op::Group(group)
        }
        29..=31 => Op::Read(lpn(rng)),
        32..=36 => Op::Trim(lpn(rng)),
        37 | 38 => Op::Sync,
        _ => Op::Checkpoint,
    }
}

fn apply<S: Below>(tbm: &mut Tbm<S, Chip>, model: &mut Model, op: &Op) -> Result<(), StoreError> {
    match op {
        Op::Checkpoint => tbm.checkpoint().map(|()| model.settle()),
        op => pages::apply(tbm, model, op),
    }
}

fn model_of(store: &dyn PageStore) -> Model {
    Model::new(store.page_count(), Undone::Any)
}

fn assert_sound<S: Below>(tbm: &mut Tbm<S, Chip>) {
    let report = tbm.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
}

/// Mounts after a clean end or a cut. The state found must be the one before or after the last operation.
/// The model takes it over.
fn remount<S: Below>(bench: &Bench, model: &mut Model, before: &Model) -> Tbm<S, Chip> {
    let mut tbm = loop {
        match bench.mount::<S>() {
            // A cut planned for later strikes now.
            Err(StoreError::Nand(NandError::PowerLost)) => bench.chip.lock().power_on(),
            mounted => break mounted.unwrap(),
        }
    };
    let found = contents(&mut tbm);
    if !before.allows(&found) && !model.allows(&found) {
        let differ = |&lpn: &usize| found[lpn] != model.pages[lpn];
        let wrong: Vec<usize> = (0..found.len()).filter(differ).collect();
        let of = |pages: &[u64]| wrong.iter().map(|&lpn| pages[lpn]).collect::<Vec<u64>>();
        panic!("lpns {wrong:?}: {:?} for {:?} or {:?}", of(&found), of(&before.pages), of(&model.pages));
    }
    assert_sound(&mut tbm);
    model.become_found(found);
    tbm
}

fn is_an_array_of_pages<S: Below>() -> TbmCounters {
    let mut total = TbmCounters::default();
    let benches = [
        Bench::small(1),
        Bench::small(2),
        Bench::new(Geometry::new(64, 27, 2, 60), 9, 2),
        Bench::new(Geometry::new(256, 32, 8, 44), 1, 3),
        Bench::new(Geometry::new(512, 64, 16, 48), 6, 2),
    ];
    for (seed, bench) in (1..).zip(benches) {
        let mut rng = Rng::new(seed);
        let mut tbm = bench.format::<S>();
        let (mut model, mut last) = (model_of(&tbm), 0);
        for step in 0..4000 {
            let op = random_op(&mut rng, &tbm, &mut last);
            apply(&mut tbm, &mut model, &op).unwrap();
            if step % 400 < 5 {
                assert_sound(&mut tbm);
            }
            if step % 400 == 399 {
                assert_eq!(contents(&mut tbm), model.pages);
                let c = tbm.counters();
                total.conversions += c.conversions;
                total.victims += c.victims;
                total.dropped_pages += c.dropped_pages;
                total.converted_pages += c.converted_pages;
                total.trim_pages += c.trim_pages;
                total.recovered_pages += c.recovered_pages;
                drop(tbm);
                let before = model.clone();
                tbm = remount(&bench, &mut model, &before);
            }
        }
        assert!(tbm.ram_bytes() < 200_000);
    }
    total
}

fn saw_everything(total: TbmCounters) {
    let TbmCounters { conversions, victims, converted_pages, dropped_pages, .. } = total;
    assert!(victims > 500 && conversions - victims > 100, "{total:?}");
    assert!(converted_pages > 1000 && dropped_pages > 500, "{total:?}");
    assert!(total.trim_pages > 100 && total.recovered_pages > 100, "{total:?}");
}

#[test]
fn it_is_an_array_of_pages_over_fast() {
    saw_everything(is_an_array_of_pages::<FastFtl<Range>>());
}

#[test]
fn it_is_an_array_of_pages_over_bast() {
    saw_everything(is_an_array_of_pages::<BastFtl<Range>>());
}

#[test]
fn it_is_an_array_of_pages_over_a_page_map() {
    saw_everything(is_an_array_of_pages::<PageMapFtl<Range>>());
}
