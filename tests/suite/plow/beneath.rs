//! plow on an FTL, of which a block is lost after a close: the right answer, an error, or a refused mount.

use nandex::ftl::dftl::{DftlConfig, DftlFtl};
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::ordered::RecordFormat;
use nandex::store::StoreError;
use nandex::store::store_nand::StoreNand;
use nandex::units::{Pbn, Ppn};
use nandex::{Geometry, OrderedIndex, PageStore, Plow, PlowConfig, Shared};

use super::any;

const RECORDS: u64 = 1_500;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn config() -> PlowConfig {
    PlowConfig { ram_bytes: Some(32 * 1024), ..PlowConfig::new(RecordFormat::new(8, 8)) }
}

/// A chip with an index that was closed, mounted, changed and closed again, and its FTL.
fn closed<S: PageStore + 'static>(store: S) -> Shared<S> {
    let store = Shared::new(store);
    let chip = StoreNand::new(store.clone(), PAGES_PER_BLOCK, 0).unwrap();
    let mut index = Plow::format(any(chip), &config()).unwrap();
    for i in 0..RECORDS - 20 {
        index.insert(&key(i), &i.to_be_bytes()).unwrap();
    }
    index.close().unwrap();
    let mut index = Plow::mount(index.into_nand(), &config()).unwrap();
    for i in RECORDS - 20..RECORDS {
        index.insert(&key(i), &i.to_be_bytes()).unwrap();
    }
    index.close().unwrap();
    store.lock().checkpoint().unwrap();
    store
}

/// Look-ups that are silently wrong, and whether any was answered.
fn silent<S: PageStore + 'static>(store: Result<S, StoreError>) -> Option<u64> {
    let chip = StoreNand::new(store.ok()?, PAGES_PER_BLOCK, 0).unwrap();
    let mut index = Plow::mount(any(chip), &config()).ok()?;
    let mut value = [0; 8];
    let is_wrong = |i: &u64| match index.get(&key(*i), &mut value) {
        Ok(is_there) => !is_there || value != i.to_be_bytes(),
        Err(_) => false,
    };
    Some((0..RECORDS).filter(is_wrong).count() as u64)
}

const PAGES_PER_BLOCK: u32 = 16;

fn lose_each_block<S: PageStore + 'static>(
    name: &str,
    format: impl Fn(SimChip) -> S,
    mount: impl Fn(SimChip) -> Result<S, StoreError>,
    nand: impl Fn(&S) -> &SimChip,
) {
    let mut part = mlc_64m();
    part.geometry = Geometry::new(512, 16, PAGES_PER_BLOCK, 60);
    let whole = nand(&closed(format(SimChip::new(&part).unwrap())).lock()).clone();
    assert_eq!(silent(mount(whole.clone())), Some(0), "{name}: sound");
    let (mut mounted, mut refused) = (0, 0);
    for block in (0..part.geometry.blocks).map(Pbn) {
        let mut chip = whole.clone();
        let first = part.geometry.page_at(block, 0).0;
        for ppn in (first..first + PAGES_PER_BLOCK).map(Ppn) {
            if chip.stored_page(ppn).is_some() {
                chip.make_unreadable(ppn);
            }
        }
        match silent(mount(chip)) {
            None => refused += 1,
            Some(wrong) => {
                assert_eq!(wrong, 0, "{name}: {block} is lost, and that many records without a word");
                mounted += 1;
            }
        }
    }
    assert!(mounted > 10 && refused > 0, "{name}: {mounted} mounted, {refused} refused");
}

#[test]
fn a_block_lost_below_an_ftl_is_no_silence() {
    let settings = FtlConfig::default();
    lose_each_block(
        "page-map",
        |chip| PageMapFtl::format(chip, &settings).unwrap(),
        |chip| PageMapFtl::mount(chip, &settings),
        PageMapFtl::nand,
    );
    let settings = DftlConfig::default();
    lose_each_block(
        "dftl",
        |chip| DftlFtl::format(chip, &settings).unwrap(),
        |chip| DftlFtl::mount(chip, &settings),
        DftlFtl::nand,
    );
}
