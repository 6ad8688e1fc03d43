//! Trims without a sync: only few wait for a record, however many there are, and a power cut undoes only
//! those.
#![allow(clippy::unwrap_used)]

use nandex::ftl::dftl::{DftlConfig, DftlFtl};
use nandex::ftl::page_map::PageMapFtl;
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, Timing};
use nandex::rng::Rng;
use nandex::{Cause, Geometry, Lpn, PageStore, Shared, StoreError};
use nandex_papers::ftl::bast::BastFtl;
use nandex_papers::ftl::cftl::CftlFtl;
use nandex_papers::ftl::fast::FastFtl;
use nandex_papers::ftl::hftl::HftlFtl;
use nandex_papers::ftl::lazy::LazyFtl;
use nandex_papers::ftl::nftl::NftlFtl;
use nandex_papers::ftl::sast::SastFtl;
use nandex_papers::ftl::superblock::SuperblockFtl;

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };

/// Formats on a chip, or mounts it.
type Open = fn(Shared<SimChip>, bool) -> Result<Box<dyn PageStore>, StoreError>;

macro_rules! open {
    ($ftl:ident) => {
        (stringify!($ftl), |chip, fresh| {
            let settings = Default::default();
            Ok(Box::new(if fresh { $ftl::format(chip, &settings)? } else { $ftl::mount(chip, &settings)? }))
        })
    };
}

const FTLS: [(&str, Open); 11] = [
    open!(PageMapFtl),
    open!(NftlFtl),
    open!(BastFtl),
    open!(SastFtl),
    open!(FastFtl),
    open!(SuperblockFtl),
    open!(HftlFtl),
    open!(DftlFtl),
    ("DftlFtl, valid pages counted", |chip, fresh| {
        let settings = DftlConfig { validity: nandex::blocks::Validity::Counts, ..DftlConfig::default() };
        Ok(Box::new(if fresh { DftlFtl::format(chip, &settings)? } else { DftlFtl::mount(chip, &settings)? }))
    }),
    open!(CftlFtl),
    open!(LazyFtl),
];

/// A store is filled, trimmed in no order, and cut: how many pages hold again what they held. What was not
/// trimmed must be there.
fn undone_by_a_cut(open: Open, geometry: Geometry, seed: u64, synced_at: Option<usize>) -> usize {
    let chip = Shared::new(SimChip::new(&Part::new("test", geometry, TIMING)).unwrap());
    let mut store = open(chip.clone(), true).unwrap();
    let (mut rng, mut page) = (Rng::new(seed), vec![7; store.page_bytes()]);
    for lpn in 0..store.page_count() {
        store.write(Lpn(lpn), Cause::Host, &page).unwrap();
    }
    store.sync().unwrap();
    let trims = store.page_count() / 2;
    let mut is_trimmed = vec![false; store.page_count() as usize];
    for done in 0..trims as usize {
        let lpn = rng.below(store.page_count().into()) as u32;
        store.trim(Lpn(lpn)).unwrap();
        is_trimmed[lpn as usize] = true;
        if synced_at == Some(done) {
            store.sync().unwrap();
            break;
        }
    }
    let trimmed = is_trimmed.iter().filter(|&&trimmed| trimmed).count();
    drop(store);
    let mut store = open(chip, false).unwrap();
    let mut undone = 0;
    for (lpn, &trimmed) in is_trimmed.iter().enumerate() {
        store.read(Lpn(lpn as u32), Cause::Host, &mut page).unwrap();
        undone += usize::from(trimmed && page[0] == 7);
        assert!(trimmed || page[0] == 7, "page {lpn} was not trimmed and is gone");
    }
    assert!(trimmed > 0 && undone <= trimmed);
    undone
}

#[test]
fn a_cut_undoes_no_more_trims_than_have_room_in_ram() {
    for (name, open) in FTLS {
        for (seed, page_bytes) in [(1, 512), (2, 1024)] {
            let geometry = Geometry::new(page_bytes, 16, 32, 64);
            let room = page_bytes as usize / 4;
            let undone = undone_by_a_cut(open, geometry, seed, None);
            assert!(undone < room, "{name}, pages of {page_bytes}: {undone} trims undone, room for {room}");
        }
    }
}

#[test]
fn trims_before_a_sync_are_never_undone() {
    for (name, open) in FTLS {
        for synced_at in [0, 30, 31, 32, 300] {
            let undone = undone_by_a_cut(open, Geometry::new(512, 16, 32, 64), 3, Some(synced_at));
            assert_eq!(undone, 0, "{name}, a sync after {synced_at} trims");
        }
    }
}
