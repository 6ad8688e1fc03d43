//! The chip made of pages against a simulated chip, under power cuts, and on stores that forget or fail.

#![allow(clippy::unwrap_used)]

use nandex::ftl::mapping::SchemeFtl;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::nand::{Part, Timing};
use nandex::rng::Rng;
use nandex::store::store_nand::*;
use nandex::testing::{Chip, Store, UNORDERED};
use nandex::{Cause, Geometry, Lpn, Nand, NandError, PageStore, Pbn, Ppn, StoreError};
use nandex_papers::ftl::fast::{Fast, FastConfig};

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

/// A spare area with which a store of 128-byte pages becomes a chip of 64-byte pages, as a simulated one may
/// have.
const SPARE: u32 = 63;

fn sim(geometry: Geometry) -> SimChip {
    SimChip::new(&Part::new("test", geometry, TIMING)).unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Read(Ppn, usize, usize),
    Program(Ppn, Vec<u8>, Vec<u8>),
    Erase(Pbn),
}

/// Mostly what the chip allows, now and then beyond its end or with too long a buffer.
fn random_op(rng: &mut Rng, geometry: Geometry, ends: &mut [u32]) -> Op {
    let block = rng.below(u64::from(geometry.blocks)) as usize;
    let length = |rng: &mut Rng, most: u32| match rng.below(20) {
        0 => most as usize + 1,
        1..=4 => rng.below(u64::from(most) + 1) as usize,
        _ => most as usize,
    };
    let (data, spare) = (length(rng, geometry.page_bytes), length(rng, geometry.spare_bytes));
    let anywhere = Ppn(rng.below(u64::from(geometry.pages()) + 2) as u32);
    match rng.below(20) {
        0..=5 => Op::Read(anywhere, data, spare),
        6..=16 => {
            let next = geometry.page_at(Pbn(block as u32), ends[block].min(geometry.pages_per_block - 1));
            let ppn = if rng.chance(1, 6) { anywhere } else { next };
            if let Some(end) = ends.get_mut(geometry.block_of(ppn).index()) {
                *end = (*end).max(geometry.page_in_block(ppn) + 1);
            }
            let mut bytes = |length: usize| {
                let mut bytes = vec![0; length];
                rng.fill(&mut bytes);
                bytes
            };
            let (data, spare) = (bytes(data), bytes(spare));
            Op::Program(ppn, data, spare)
        }
        17..=18 => {
            ends[block] = 0;
            Op::Erase(Pbn(block as u32))
        }
        _ => Op::Erase(Pbn(rng.below(u64::from(geometry.blocks) + 1) as u32)),
    }
}

/// The answer of an operation.
fn apply<N: Nand>(nand: &mut N, op: &Op) -> Result<(Vec<u8>, Vec<u8>), NandError> {
    match op {
        Op::Read(ppn, data, spare) => {
            let (mut data, mut spare) = (vec![0x77; *data], vec![0x77; *spare]);
            nand.read(*ppn, Cause::Host, &mut data, &mut spare).map(|_| (data, spare))
        }
        Op::Program(ppn, data, spare) => {
            nand.program(*ppn, Cause::Host, data, spare).map(|()| <_>::default())
        }
        Op::Erase(pbn) => nand.erase(*pbn, Cause::GarbageCollection).map(|()| <_>::default()),
    }
}

fn contents<N: Nand>(nand: &mut N) -> Vec<(Vec<u8>, Vec<u8>)> {
    let g = nand.geometry();
    let page = |p| Op::Read(Ppn(p), g.page_bytes as usize, g.spare_bytes as usize);
    (0..g.pages()).map(|p| apply(nand, &page(p)).unwrap()).collect()
}

fn behaves_as_a_chip<S: PageStore>(store: S, pages_per_block: u32, seed: u64) -> StoreNand<S> {
    let mut nand = StoreNand::new(store, pages_per_block, SPARE).unwrap();
    let geometry = nand.geometry();
    let mut chip = sim(geometry);
    let (mut rng, mut ends) = (Rng::new(seed), vec![0; geometry.blocks as usize]);
    let mut refusals = [0; 3];
    for step in 0..4000 {
        let op = random_op(&mut rng, geometry, &mut ends);
        let expected = apply(&mut chip, &op);
        match expected {
            Err(NandError::NotErased(_)) => refusals[0] += 1,
            Err(NandError::OutOfOrder(_)) => refusals[1] += 1,
            Err(_) => refusals[2] += 1,
            Ok(_) => {}
        }
        assert_eq!(apply(&mut nand, &op), expected, "step {step}: {op:?}");
        if rng.chance(1, 200) {
            nand = StoreNand::new(nand.into_store(), pages_per_block, SPARE).unwrap();
        }
    }
    assert!(refusals.iter().all(|&n| n > 20), "{refusals:?}");
    assert_eq!(contents(&mut nand), contents(&mut chip));
    assert_eq!(nand.failure(), None);
    nand
}

#[test]
fn a_store_behaves_as_a_chip() {
    for seed in 0..6 {
        let nand = behaves_as_a_chip(Store::new(128, 80), [4, 8, 16][seed as usize % 3], seed);
        // What was erased is not held.
        let held = (0..80).filter(|&lpn| mark_of(nand.store().copy(), lpn) == MARK).count();
        assert!(held < 80 && held > 0, "{held}");
        behaves_as_a_chip(forgetful(), 8, 10 + seed);
        let geometry = Geometry::new(128, 16, 8, 44);
        behaves_as_a_chip(PageMapFtl::format(sim(geometry), &FtlConfig::default()).unwrap(), 8, seed);
        behaves_as_a_chip(
            SchemeFtl::<_, Fast>::format(sim(geometry), &FastConfig::default()).unwrap(),
            8,
            seed,
        );
    }
}

/// Mark in every programmed page.
const MARK: u8 = 0xa5;

/// The last byte of a page of the store, where the mark is.
fn mark_of(mut store: Store, lpn: u32) -> u8 {
    let mut page = [0; 128];
    store.read(Lpn(lpn), Cause::Check, &mut page).unwrap();
    page[127]
}

const CUT: StoreError = StoreError::Nand(NandError::PowerLost);

/// A store that forgets any of the writes and trims since the last sync when its power is cut.
fn forgetful() -> Store {
    Store::new(128, 80).with_promise(UNORDERED.single())
}

/// Lets accesses fail after so many.
fn fail_after(store: &Store, accesses: u64, failure: StoreError) {
    let mut left = accesses;
    store.on_call(move |_| {
        left = left.saturating_sub(1);
        if left == 0 { Err(failure.clone()) } else { Ok(()) }
    });
}

/// Each page that was not synced is as it was, or as it is.
fn wake(store: Store, rng: &mut Rng) -> Store {
    store.refuse_nothing();
    store.cut(rng);
    store
}

/// Whether the pages can be those that a cut inside this operation left.
fn allowed(before: &[(Vec<u8>, Vec<u8>)], op: &Op, found: &[(Vec<u8>, Vec<u8>)], geometry: Geometry) -> bool {
    let erased = (vec![0xff; geometry.page_bytes as usize], vec![0xff; geometry.spare_bytes as usize]);
    (0..found.len()).all(|p| {
        let ppn = Ppn(p as u32);
        let or_else = match op {
            Op::Program(at, data, spare) if *at == ppn => {
                let mut page = erased.clone();
                page.0[..data.len()].copy_from_slice(data);
                page.1[..spare.len()].copy_from_slice(spare);
                page
            }
            Op::Erase(pbn) if geometry.block_of(ppn) == *pbn => erased.clone(),
            _ => before[p].clone(),
        };
        found[p] == before[p] || found[p] == or_else
    })
}

/// Runs operations until the power goes off; then what is found must be what was acknowledged, but for the
/// operation that was cut. A simulated chip that is never cut says what that is. Whether the power went off.
fn survives<S: PageStore>(
    mut nand: StoreNand<S>,
    model: &mut SimChip,
    (rng, ops): (&mut Rng, u32),
    wake: impl FnOnce(S, &mut Rng) -> S,
) -> (StoreNand<S>, bool) {
    let geometry = nand.geometry();
    let mut ends = vec![0; geometry.blocks as usize];
    for _ in 0..ops {
        let op = random_op(rng, geometry, &mut ends);
        let before = contents(model);
        match apply(&mut nand, &op) {
            Err(NandError::PowerLost) => {
                let store = wake(nand.into_store(), rng);
                let mut nand = StoreNand::new(store, geometry.pages_per_block, geometry.spare_bytes).unwrap();
                let found = contents(&mut nand);
                assert!(allowed(&before, &op, &found, geometry), "{op:?}");
                return (nand, true);
            }
            answer => assert_eq!(answer, apply(model, &op), "{op:?}"),
        }
    }
    (nand, false)
}

#[test]
fn nothing_acknowledged_is_lost_on_a_store_that_forgets() {
    let mut cuts = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let store = forgetful();
        store.fail_after_calls(1 + rng.below(200));
        let nand = StoreNand::new(store, 8, SPARE).unwrap();
        let mut model = sim(nand.geometry());
        let (nand, cut) = survives(nand, &mut model, (&mut rng, 150), wake);
        cuts += u32::from(cut);
        // What came back stays: the next cut brings nothing else.
        let mut found = nand;
        let was = contents(&mut found);
        let store = wake(found.into_store(), &mut rng);
        assert_eq!(contents(&mut StoreNand::new(store, 8, SPARE).unwrap()), was);
    }
    assert!(cuts > 300, "{cuts}");
}

type Open = fn(Chip, bool) -> Box<dyn PageStore>;

fn page_map(chip: Chip, mount: bool) -> Box<dyn PageStore> {
    let open = if mount { PageMapFtl::mount } else { PageMapFtl::format };
    Box::new(open(chip, &FtlConfig::default()).unwrap())
}

fn fast(chip: Chip, mount: bool) -> Box<dyn PageStore> {
    let open = if mount { SchemeFtl::<_, Fast>::mount } else { SchemeFtl::<_, Fast>::format };
    Box::new(open(chip, &FastConfig::default()).unwrap())
}

#[test]
fn nothing_acknowledged_is_lost_on_an_ftl() {
    for open in [page_map as Open, fast] {
        let mut cuts = 0;
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let chip = Chip::new(sim(Geometry::new(128, 16, 4, 30)));
            let nand = StoreNand::new(open(chip.clone(), false), 8, SPARE).unwrap();
            let mut model = sim(nand.geometry());
            let at_operation = chip.lock().operations() + rng.below(140);
            let when = [CutWhen::Before, CutWhen::Inside, CutWhen::Inside, CutWhen::After][seed as usize % 4];
            let torn = TornModel::ALL[seed as usize / 4 % 4];
            chip.lock().plan_power_cut(PowerCut { at_operation, when, torn, seed });
            let wake = |store: Box<dyn PageStore>, _: &mut Rng| {
                drop(store);
                chip.lock().power_on();
                open(chip.clone(), true)
            };
            cuts += u32::from(survives(nand, &mut model, (&mut rng, 120), wake).1);
        }
        assert!(cuts > 300, "{cuts}");
    }
}

#[test]
fn an_erase_costs_the_pages_it_drops_and_one_sync() {
    let mut nand = StoreNand::new(Store::new(128, 64), 8, SPARE).unwrap();
    for page in [0, 1, 4] {
        nand.program(Ppn(page), Cause::Host, &[1; 64], &[]).unwrap();
    }
    let before = nand.store().counters();
    nand.erase(Pbn(0), Cause::Host).unwrap();
    let after = nand.store().counters();
    assert_eq!((after.trims - before.trims, after.syncs - before.syncs), (5, 1));
    assert_eq!(after.page_reads, before.page_reads);
    nand.erase(Pbn(0), Cause::Host).unwrap();
    assert_eq!((nand.store().counters().trims, nand.store().counters().syncs), (after.trims, after.syncs));
}

#[test]
fn how_far_a_block_is_programmed_is_learnt_once() {
    let mut nand = StoreNand::new(Store::new(128, 64), 8, SPARE).unwrap();
    nand.program(Ppn(8 + 5), Cause::Host, &[], &[]).unwrap();
    let mut nand = StoreNand::new(nand.into_store(), 8, SPARE).unwrap();
    let reads = |nand: &StoreNand<Store>| nand.store().counters().page_reads.iter().sum::<u64>();
    let before = reads(&nand);
    nand.program(Ppn(8 + 6), Cause::Host, &[3; 64], &[]).unwrap();
    assert_eq!(reads(&nand) - before, 3, "pages 7, 6 and 5");
    nand.program(Ppn(8 + 7), Cause::Host, &[3; 64], &[]).unwrap();
    assert_eq!(reads(&nand) - before, 3);
    assert_eq!(nand.ram_bytes() - nand.store().ram_bytes(), size_of_val(&nand) + 128 + 2 * 8);
}

#[test]
fn a_page_of_other_origin_is_uncorrectable_until_its_block_is_erased() {
    let mut store = Store::new(128, 64);
    store.write(Lpn(3), Cause::Host, &[7; 128]).unwrap();
    let mut nand = StoreNand::new(store, 8, SPARE).unwrap();
    assert_eq!(nand.read(Ppn(3), Cause::Host, &mut [], &mut []), Err(NandError::Uncorrectable(Ppn(3))));
    assert!(matches!(nand.failure(), Some(StoreError::Corrupted { at: 3, .. })));
    assert_eq!(nand.program(Ppn(3), Cause::Host, &[], &[]), Err(NandError::NotErased(Ppn(3))));
    assert_eq!(nand.program(Ppn(2), Cause::Host, &[], &[]), Err(NandError::OutOfOrder(Ppn(2))));
    nand.erase(Pbn(0), Cause::Host).unwrap();
    let mut data = [0; 64];
    nand.read(Ppn(3), Cause::Host, &mut data, &mut []).unwrap();
    assert_eq!(data, [0xff; 64]);
    nand.program(Ppn(2), Cause::Host, &[], &[]).unwrap();
}

#[test]
fn what_the_store_fails_is_told_as_a_chip_would() {
    let device = StoreError::Device(String::from("no such cable"));
    for failure in [device, StoreError::Full, CUT] {
        let cut = failure == CUT;
        let otherwise = |error| if cut { NandError::PowerLost } else { error };
        let failing = |after: u64| {
            let mut nand = StoreNand::new(forgetful(), 8, SPARE).unwrap();
            nand.program(Ppn(0), Cause::Host, &[1; 64], &[]).unwrap();
            fail_after(nand.store(), after, failure.clone());
            nand
        };
        let mut nand = failing(1);
        let read = nand.read(Ppn(0), Cause::Host, &mut [], &mut []);
        assert_eq!(read, Err(NandError::PowerLost), "no page is torn because its device cannot be reached");
        assert_eq!(nand.failure(), Some(&failure));
        // The write, or its sync.
        for after in [1, 2] {
            let mut nand = failing(after);
            let failed = nand.program(Ppn(1), Cause::Host, &[2; 64], &[]);
            assert_eq!(failed, Err(otherwise(NandError::ProgramFailed(Ppn(1)))));
            nand.store().refuse_nothing();
            // It must be treated as programmed.
            let again = nand.program(Ppn(1), Cause::Host, &[], &[]);
            assert!(matches!(again, Err(NandError::NotErased(_) | NandError::OutOfOrder(_))), "{again:?}");
            nand.program(Ppn(2), Cause::Host, &[], &[]).unwrap();
        }
        // The trim, or its sync.
        for after in [1, 2] {
            let mut nand = failing(after);
            let failed = nand.erase(Pbn(0), Cause::Host);
            assert_eq!(failed, Err(otherwise(NandError::EraseFailed(Pbn(0)))));
            // S4: before the next program the trim is made to last.
            nand.store().refuse_nothing();
            nand.program(Ppn(3), Cause::Host, &[], &[]).unwrap();
            assert!(nand.store().is_synced());
        }
    }
}

#[test]
fn no_block_is_bad_or_becomes_so() {
    let mut nand = StoreNand::new(Store::new(128, 70), 8, SPARE).unwrap();
    assert_eq!((nand.geometry().blocks, nand.geometry().page_bytes), (8, 64));
    assert_eq!(nand.is_bad(Pbn(7)), Ok(false));
    assert_eq!(nand.is_bad(Pbn(8)), Err(NandError::BlockOutOfRange(Pbn(8))));
    assert_eq!(nand.mark_bad(Pbn(1)), Err(NandError::BadBlock(Pbn(1))));
    assert_eq!(nand.is_bad(Pbn(1)), Ok(false));
    assert_eq!(nand.mark_bad(Pbn(8)), Err(NandError::BlockOutOfRange(Pbn(8))));
    assert!(matches!(nand.failure(), Some(StoreError::Unsupported(_))));
}

#[test]
fn a_store_that_is_no_chip_is_refused() {
    for (page_bytes, pages, pages_per_block, spare) in
        [(128, 64, 0, 63), (128, 64, 8, 200), (128, 8, 8, 63), (100, 64, 8, 63), (4096, 64, 1, 63)]
    {
        let refused = StoreNand::new(Store::new(page_bytes, pages), pages_per_block, spare);
        assert!(matches!(refused, Err(StoreError::Unsupported(_))), "{page_bytes} {pages}");
    }
}
