//! Page stores against an array of pages: the FTL, and caches over it, through random operations, remounts,
//! failing blocks and power cuts.
#![allow(clippy::unwrap_used)]

use nandex::Shared;
use nandex::blocks::hot::HotConfig;
use nandex::blocks::victim::VictimPolicy;
use nandex::blocks::wear::WearLevelling;
use nandex::cache::{CacheConfig, PageCache, WriteMode};
use nandex::ftl::page_map::{FtlConfig, PageMapFtl, Separation};
use nandex::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use nandex::nand::{Part, Timing};
use nandex::testing::pages::{contents, page, tag_of};
use nandex::{Cause, Geometry, Lpn, NandError, PageStore, Ppn, StoreError};
use nandex_papers::cache::PolicyConfig;
use nandex_papers::cache::catalogue::{POLICIES, PolicyEntry, policy};
use proptest::prelude::*;
use std::collections::BTreeSet;

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

type Chip = Shared<SimChip>;

#[derive(Clone, Debug)]
enum Op {
    Write(u32),
    Group(Vec<u32>),
    Trim(u32),
    Read(u32),
    Sync,
    Remount,
}

#[derive(Clone, Copy, Debug)]
enum Stack {
    Ftl,
    Cached { frames: usize, mode: WriteMode, policy: &'static PolicyEntry },
}

#[derive(Clone, Debug)]
struct Scene {
    geometry: Geometry,
    settings: FtlConfig,
    stack: Stack,
    failures_ppm: u32,
    seed: u64,
}

impl Scene {
    fn chip(&self) -> Chip {
        let faults = Faults {
            seed: self.seed,
            program_failures_ppm: self.failures_ppm,
            erase_failures_ppm: self.failures_ppm,
            ..Faults::default()
        };
        let chip = SimChip::new(&Part::new("test", self.geometry, TIMING)).unwrap().with_faults(faults);
        Shared::new(chip)
    }

    fn stack(&self, ftl: PageMapFtl<Chip>) -> Box<dyn PageStore> {
        match self.stack {
            Stack::Ftl => Box::new(ftl),
            Stack::Cached { frames, mode, policy } => {
                let settings = PolicyConfig {
                    block_pages: self.geometry.pages_per_block,
                    cluster_pages: 4,
                    ..PolicyConfig::new(frames)
                };
                let config = CacheConfig { frames, mode, dirty_frames_max: None };
                Box::new(PageCache::new(ftl, (policy.make)(&settings), config))
            }
        }
    }
}

/// The state after each operation since the last one that is certain to survive a cut.
struct Model {
    states: Vec<Vec<u64>>,
    /// The contents of each page at any time: a trimmed one may come back as any of it.
    former: Vec<BTreeSet<u64>>,
    /// Pages trimmed since they were last written.
    trimmed: BTreeSet<u32>,
    next_tag: u64,
}

impl Model {
    fn new(pages: u32) -> Model {
        Model {
            states: vec![vec![0; pages as usize]],
            former: vec![BTreeSet::from([0]); pages as usize],
            trimmed: BTreeSet::new(),
            next_tag: 1,
        }
    }

    fn now(&self) -> &[u64] {
        self.states.last().unwrap()
    }

    fn set(&mut self, changes: &[(u32, u64)]) {
        let mut state = self.now().to_vec();
        for &(lpn, tag) in changes {
            state[lpn as usize] = tag;
            self.former[lpn as usize].insert(tag);
            if tag == 0 {
                self.trimmed.insert(lpn)
            } else {
                self.trimmed.remove(&lpn)
            };
            self.next_tag = self.next_tag.max(tag + 1);
        }
        self.states.push(state);
    }

    /// Nothing before now can come back.
    fn settle(&mut self, state: Vec<u64>) {
        self.former = state.iter().map(|&tag| BTreeSet::from([tag])).collect();
        self.states = vec![state];
        self.trimmed.clear();
    }

    fn allows(&self, found: &[u64]) -> bool {
        let fits = |state: &Vec<u64>| {
            let fits_page = |lpn: usize| {
                let trimmed = state[lpn] == 0;
                found[lpn] == state[lpn] || (trimmed && self.former[lpn].contains(&found[lpn]))
            };
            (0..found.len()).all(fits_page)
        };
        self.states.iter().any(fits)
    }
}

fn read(store: &mut dyn PageStore, lpn: u32, cause: Cause) -> Result<u64, StoreError> {
    let mut data = vec![0; store.page_bytes()];
    store.read(Lpn(lpn), cause, &mut data)?;
    Ok(tag_of(&data).unwrap_or_else(|| panic!("lpn {lpn} holds what was never written")))
}

fn write(store: &mut dyn PageStore, model: &mut Model, lpns: &[u32]) -> Result<(), StoreError> {
    let mut lpns: Vec<u32> = lpns.iter().map(|lpn| lpn % store.page_count()).collect();
    lpns.sort_unstable();
    lpns.dedup();
    lpns.truncate(store.atomic_pages_max());
    let changes: Vec<(u32, u64)> = lpns.iter().zip(model.next_tag..).map(|(&lpn, tag)| (lpn, tag)).collect();
    let data: Vec<Vec<u8>> = changes.iter().map(|&(_, tag)| page(tag, store.page_bytes())).collect();
    let group: Vec<(Lpn, &[u8])> = lpns.iter().zip(&data).map(|(&lpn, d)| (Lpn(lpn), &d[..])).collect();
    model.set(&changes);
    let done = store.write_atomic(&group, Cause::Host);
    if matches!(done, Err(StoreError::Full | StoreError::WornOut)) {
        model.states.pop();
    }
    done
}

fn apply(store: &mut dyn PageStore, model: &mut Model, op: &Op) -> Result<(), StoreError> {
    match op {
        Op::Write(lpn) => write(store, model, &[*lpn])?,
        Op::Group(lpns) => write(store, model, lpns)?,
        Op::Trim(lpn) => {
            let lpn = lpn % store.page_count();
            model.set(&[(lpn, 0)]);
            store.trim(Lpn(lpn))?;
        }
        Op::Read(lpn) => {
            let lpn = lpn % store.page_count();
            assert_eq!(read(store, lpn, Cause::Host)?, model.now()[lpn as usize], "lpn {lpn}");
        }
        Op::Sync | Op::Remount => {
            store.sync()?;
            model.settle(model.now().to_vec());
        }
    }
    if store.durable_writes() {
        let keep = model.states.len().saturating_sub(1);
        model.states.drain(..keep);
    }
    Ok(())
}

fn mounted(scene: &Scene, chip: &Chip) -> Box<dyn PageStore> {
    let mut ftl = PageMapFtl::mount(chip.clone(), &scene.settings).unwrap();
    let report = ftl.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
    scene.stack(ftl)
}

/// Runs the operations; each cut strikes so many physical operations after the previous one.
fn run(scene: &Scene, ops: &[Op], cuts: &[(u64, CutWhen, TornModel)]) {
    let chip = scene.chip();
    let mut store = scene.stack(PageMapFtl::format(chip.clone(), &scene.settings).unwrap());
    assert!(store.prefix_consistent());
    let mut model = Model::new(store.page_count());
    let mut cuts = cuts.iter();
    let plan = |cut: Option<&(u64, CutWhen, TornModel)>| {
        if let Some(&(wait, when, torn)) = cut {
            let at_operation = chip.lock().operations() + wait;
            chip.lock().plan_power_cut(PowerCut { at_operation, when, torn, seed: scene.seed ^ wait });
        }
    };
    plan(cuts.next());
    for op in ops {
        match apply(&mut *store, &mut model, op) {
            Ok(()) => {}
            // Worn out: what there is stays, but trims may be undone by a remount.
            Err(StoreError::Full | StoreError::WornOut) if scene.failures_ppm > 0 => continue,
            Err(StoreError::Nand(NandError::PowerLost)) => {
                drop(store);
                chip.lock().power_on();
                store = mounted(scene, &chip);
                let found = contents(&mut *store);
                assert!(model.allows(&found), "{op:?}: found {found:?}\nexpected one of {:?}", model.states);
                model.settle(found);
                plan(cuts.next());
                continue;
            }
            Err(error) => panic!("{op:?}: {error:?}"),
        }
        if matches!(op, Op::Remount) {
            drop(store);
            store = mounted(scene, &chip);
            assert_eq!(contents(&mut *store), model.now());
        }
    }
    assert_eq!(contents(&mut *store), model.now());
    let live: Vec<Ppn> =
        (0..scene.geometry.pages()).map(Ppn).filter(|&ppn| store.live_page(ppn) == Some(true)).collect();
    assert_eq!(live.len() as u64, store.stats().live_pages);
    assert!(live.iter().all(|&ppn| !chip.lock().is_erased(ppn)), "a live page is programmed");
    assert_eq!(store.live_page(Ppn(scene.geometry.pages())), None);
}

fn op() -> impl Strategy<Value = Op> {
    let lpn = prop_oneof![4 => 0..4u32, 2 => 0..16u32, 1 => 0..10_000u32];
    prop_oneof![
        8 => lpn.clone().prop_map(Op::Write),
        4 => prop::collection::vec(lpn.clone(), 1..9).prop_map(Op::Group),
        2 => lpn.clone().prop_map(Op::Trim),
        3 => lpn.prop_map(Op::Read),
        1 => Just(Op::Sync),
        1 => Just(Op::Remount),
    ]
}

fn victim() -> impl Strategy<Value = VictimPolicy> {
    prop_oneof![
        4 => (0..VictimPolicy::ALL.len()).prop_map(|i| VictimPolicy::ALL[i]),
        1 => (1..12u32).prop_map(|blocks| VictimPolicy::Windowed { blocks }),
        1 => (1..12u32).prop_map(|count| VictimPolicy::Choices { count }),
    ]
}

fn separation() -> impl Strategy<Value = Separation> {
    let numbers =
        (1..64u32, 1..4u32, 1..6u8, 4..200u32).prop_map(|(counters, hashes, threshold, decay_writes)| {
            HotConfig { counters, hashes, threshold, decay_writes }
        });
    prop_oneof![
        1 => Just(Separation::None),
        1 => Just(Separation::TwoFrontiers),
        1 => numbers.prop_map(Separation::HotFilter),
    ]
}

fn wear_levelling() -> impl Strategy<Value = WearLevelling> {
    prop_oneof![
        Just(WearLevelling::None),
        (1..8u32).prop_map(|gap_erases| WearLevelling::Threshold { gap_erases }),
        (1..8u32).prop_map(|threshold_erases| WearLevelling::DualPool { threshold_erases }),
    ]
}

fn scene() -> impl Strategy<Value = Scene> {
    let geometry = (0..3u32, 1..5u32, 22..70u32)
        .prop_map(|(size, pages, blocks)| Geometry::new(64 << size, 16 << size, 1 << pages, blocks));
    let mode = prop_oneof![1 => Just(WriteMode::Through), 3 => Just(WriteMode::Back)];
    let cached = (0..12usize, mode, 0..POLICIES.len()).prop_map(|(frames, mode, policy)| Stack::Cached {
        frames,
        mode,
        policy: &POLICIES[policy],
    });
    let stack = prop_oneof![1 => Just(Stack::Ftl), 4 => cached];
    let settings = (victim(), separation(), wear_levelling(), 2..20u32, 1..12u32, 50_000..400_000u32)
        .prop_map(
            |(victim, separation, wear_levelling, atomic_pages, checkpoint_blocks, over_provisioning_ppm)| {
                FtlConfig {
                    over_provisioning_ppm,
                    victim,
                    separation,
                    wear_levelling,
                    atomic_pages,
                    checkpoint_blocks: Some(checkpoint_blocks * checkpoint_blocks),
                    ..FtlConfig::default()
                }
            },
        );
    (geometry, settings, stack, any::<u64>()).prop_filter_map(
        "the chip is too small",
        |(geometry, settings, stack, seed)| {
            let scene = Scene { geometry, settings, stack, failures_ppm: 0, seed };
            PageMapFtl::format(scene.chip(), &settings).is_ok().then_some(scene)
        },
    )
}

fn cut() -> impl Strategy<Value = (u64, CutWhen, TornModel)> {
    let when = prop_oneof![
        1 => Just(CutWhen::Before),
        4 => Just(CutWhen::Inside),
        1 => Just(CutWhen::After)
    ];
    (prop_oneof![0..8u64, 0..120u64], when, (0..4usize).prop_map(|i| TornModel::ALL[i]))
}

/// The cut leaves a page of which one bit is missing, alone in its block. It tells its version, and must not
/// be mistaken for a later page of the same version that was lost.
#[test]
fn what_was_nearly_written_is_not_missed_later() {
    let numbers = HotConfig { counters: 5, hashes: 2, threshold: 2, decay_writes: 18 };
    let settings = FtlConfig {
        over_provisioning_ppm: 50_000,
        bad_blocks_ppm: 200_000,
        atomic_pages: 10,
        checkpoint_blocks: Some(9),
        separation: Separation::HotFilter(numbers),
        ..FtlConfig::default()
    };
    let geometry = Geometry::new(128, 32, 8, 22);
    let stack = Stack::Cached { frames: 3, mode: WriteMode::Back, policy: policy("lru").unwrap() };
    let scene = Scene { geometry, settings, stack, failures_ppm: 2000, seed: 10_851_760_779_960_073_384 };
    let groups = [vec![6, 3, 0, 1], vec![0], vec![1], vec![2], vec![3], vec![0]];
    let mut ops: Vec<Op> = groups.into_iter().map(Op::Group).collect();
    ops.push(Op::Remount);
    run(&scene, &ops, &[(3, CutWhen::Inside, TornModel::Prefix)]);
}

proptest! {
    #![proptest_config(crate::inputs::fixed(400))]

    #[test]
    fn a_store_is_an_array_of_pages(scene in scene(), ops in prop::collection::vec(op(), 1..400)) {
        run(&scene, &ops, &[]);
    }

    #[test]
    fn a_store_survives_cuts(
        scene in scene(),
        ops in prop::collection::vec(op(), 1..400),
        cuts in prop::collection::vec(cut(), 1..12),
    ) {
        run(&scene, &ops, &cuts);
    }

    #[test]
    fn a_store_survives_failing_blocks_and_cuts(
        scene in scene(),
        ops in prop::collection::vec(op(), 1..400),
        cuts in prop::collection::vec(cut(), 0..6),
    ) {
        let settings = FtlConfig { bad_blocks_ppm: 200_000, ..scene.settings };
        let scene = Scene { failures_ppm: 2_000, settings, ..scene };
        prop_assume!(PageMapFtl::format(scene.chip(), &settings).is_ok());
        run(&scene, &ops, &cuts);
    }
}
