//! What a mounted index asks of the allocator: nothing, where the page on firmware says so.

#![allow(clippy::unwrap_used)]

use nandex::ftl::page_map::{FtlSettings, PageMapFtl};
use nandex::log::LogConfig;
use nandex::nand::sim::SimChip;
use nandex::nand::{Geometry, Part, catalogue};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::mu::MuTree;
use nandex::ordered::sbits::Sbits;
use nandex::ordered::wandering::WanderingTree;
use nandex::ordered::{RecordFormat, Settings};
use nandex::rng::Rng;
use nandex::{IndexError, OrderedIndex, Shared};
use nandex_testkit::{Apart, Heap, heap};
use std::ops::{Bound, ControlFlow};

#[global_allocator]
static HEAP: Heap = Heap;

const RECORD: RecordFormat = RecordFormat::new(4, 8);

const RECORDS: u64 = 2_000;

type Chip = Apart<Shared<SimChip>>;

fn part() -> Part {
    let mut part = catalogue::mlc_64m();
    part.geometry = Geometry::new(2048, 64, 64, 40);
    part
}

/// How often each kind of operation asked for memory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Requests {
    get: usize,
    insert: usize,
    remove: usize,
    range: usize,
    sync: usize,
}

/// What the index is to be spared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Any,
    Ascending { next: u64 },
}

fn work(index: &mut dyn OrderedIndex, mut keys: Keys, operations: usize) -> Result<Requests, IndexError> {
    let mut rng = Rng::new(41);
    let mut requests = Requests::default();
    let mut value = [0; 8];
    let mut count = |to: &mut usize, run: &mut dyn FnMut() -> Result<(), IndexError>| {
        let (done, held) = heap::measure(run);
        *to += held.requests;
        done
    };
    for operation in 0..operations {
        let key = match &mut keys {
            Keys::Any => rng.below(RECORDS),
            Keys::Ascending { next } => {
                *next += 1;
                *next - 1
            }
        };
        let key = (key as u32).to_be_bytes();
        count(&mut requests.insert, &mut || index.insert(&key, &value).map(drop))?;
        count(&mut requests.get, &mut || index.get(&key, &mut value).map(drop))?;
        if keys == Keys::Any && operation % 3 == 0 {
            let other = (rng.below(RECORDS) as u32).to_be_bytes();
            count(&mut requests.remove, &mut || index.remove(&other).map(drop))?;
        }
        if operation % 50 == 0 {
            let mut left = 20;
            count(&mut requests.range, &mut || {
                index.range(
                    Bound::Included(&key),
                    Bound::Unbounded,
                    nandex::ordered::Direction::Ascending,
                    &mut |_, _| {
                        left -= 1;
                        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    },
                )
            })?;
            count(&mut requests.sync, &mut || index.sync())?;
        }
    }
    Ok(requests)
}

type Open = dyn Fn(Chip) -> Result<Box<dyn OrderedIndex>, IndexError>;

/// Formats, works until the chip has been collected, mounts what the power cut leaves, and counts from there.
fn requests(format: &Open, mount: &Open, keys: Keys) -> Requests {
    let chip = Shared::new(SimChip::new(&part()).unwrap());
    let mut index = format(Apart::new(chip.clone())).unwrap();
    work(&mut *index, keys, 4_000).unwrap();
    drop(index);
    let mut index = mount(Apart::new(chip)).unwrap();
    let keys = if keys == Keys::Any { keys } else { Keys::Ascending { next: 4_000 } };
    work(&mut *index, keys, 4_000).unwrap()
}

fn nothing_asked(name: &str, requests: &Requests) {
    assert_eq!(*requests, Requests::default(), "{name}");
}

#[test]
fn a_mounted_mu_tree_asks_for_no_memory() {
    let format: &Open = &|chip| Ok(Box::new(MuTree::format(chip, RECORD, LogConfig::default())?));
    let mount: &Open = &|chip| Ok(Box::new(MuTree::mount(chip, RECORD, LogConfig::default())?));
    nothing_asked("mu", &requests(format, mount, Keys::Any));
}

#[test]
fn a_mounted_wandering_tree_asks_for_no_memory() {
    let format: &Open = &|chip| Ok(Box::new(WanderingTree::format(chip, RECORD, LogConfig::default())?));
    let mount: &Open = &|chip| Ok(Box::new(WanderingTree::mount(chip, RECORD, LogConfig::default())?));
    nothing_asked("wandering", &requests(format, mount, Keys::Any));
}

#[test]
fn a_mounted_bplus_tree_asks_for_no_memory() {
    let format: &Open = &|chip| {
        let store = PageMapFtl::format(chip, FtlSettings::default())?;
        Ok(Box::new(BPlusTree::format(store, BPlusConfig::new(RECORD))?))
    };
    let mount: &Open = &|chip| {
        let store = PageMapFtl::mount(chip, FtlSettings::default())?;
        Ok(Box::new(BPlusTree::mount(store)?))
    };
    nothing_asked("bplus", &requests(format, mount, Keys::Any));
}

#[test]
fn a_mounted_sbits_asks_for_no_memory() {
    let settings = Settings { ram_bytes: Some(48 << 10), ..Settings::new(RECORD) };
    let again = settings.clone();
    let format: &Open = &move |chip| Ok(Box::new(Sbits::format_with(chip, &settings)?));
    let mount: &Open = &move |chip| Ok(Box::new(Sbits::mount_with(chip, &again)?));
    nothing_asked("sbits", &requests(format, mount, Keys::Ascending { next: 0 }));
}
