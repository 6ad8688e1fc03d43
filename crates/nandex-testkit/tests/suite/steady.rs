//! A mounted index that has collected garbage once makes no more allocations, except while it writes a
//! checkpoint.

#![allow(clippy::unwrap_used)]

use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::sim::SimChip;
use nandex::nand::{Geometry, Part, catalogue};
use nandex::ordered::bplus::{BPlusConfig, BPlusTree};
use nandex::ordered::mu::MuTree;
use nandex::ordered::sbits::{Sbits, SbitsConfig};
use nandex::ordered::wandering::WanderingTree;
use nandex::ordered::{Direction, RawConfig, RecordFormat};
use nandex::rng::Rng;
use nandex::{Cause, IndexError, OrderedIndex, Shared};
use nandex_testkit::{Apart, heap};
use std::ops::{Bound, ControlFlow};

const RECORD: RecordFormat = RecordFormat::new(4, 8);

const RECORDS: u64 = 2_000;

type Chip = Apart<Shared<SimChip>>;

fn part() -> Part {
    let mut part = catalogue::mlc_64m();
    part.geometry = Geometry::new(2048, 64, 64, 40);
    part
}

/// Number of allocations by kind of operation. Operations that wrote a checkpoint are counted apart.
#[derive(Debug, Default, PartialEq, Eq)]
struct Requests {
    get: usize,
    insert: usize,
    remove: usize,
    range: usize,
    sync: usize,
}

/// The index and its chip.
struct Subject<'a> {
    index: &'a mut dyn OrderedIndex,
    chip: Shared<SimChip>,
}

impl Subject<'_> {
    fn checkpoints(&self) -> u64 {
        self.chip.lock().counters().page_programs[Cause::Checkpoint as usize]
    }

    /// Runs an operation and counts its allocations, unless it writes a checkpoint.
    fn count(
        &mut self,
        requests: &mut usize,
        run: &mut dyn FnMut(&mut dyn OrderedIndex) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let before = self.checkpoints();
        let (done, held) = heap::measure(|| run(self.index));
        if self.checkpoints() == before {
            *requests += held.requests;
        }
        done
    }
}

/// Keys that the index takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Any,
    Ascending { next: u64 },
}

fn work(mut subject: Subject<'_>, mut keys: Keys, operations: usize) -> Result<Requests, IndexError> {
    let mut rng = Rng::new(41);
    let mut requests = Requests::default();
    let mut value = [0; 8];
    for operation in 0..operations {
        let key = match &mut keys {
            Keys::Any => rng.below(RECORDS),
            Keys::Ascending { next } => {
                *next += 1;
                *next - 1
            }
        };
        let key = (key as u32).to_be_bytes();
        subject.count(&mut requests.insert, &mut |index| index.insert(&key, &value).map(drop))?;
        subject.count(&mut requests.get, &mut |index| index.get(&key, &mut value).map(drop))?;
        if keys == Keys::Any && operation % 3 == 0 {
            let other = (rng.below(RECORDS) as u32).to_be_bytes();
            subject.count(&mut requests.remove, &mut |index| index.remove(&other).map(drop))?;
        }
        if operation % 50 == 0 {
            let mut left = 20;
            subject.count(&mut requests.range, &mut |index| {
                index.range(Bound::Included(&key), Bound::Unbounded, Direction::Ascending, &mut |_, _| {
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
            })?;
            subject.count(&mut requests.sync, &mut |index| index.sync())?;
        }
    }
    Ok(requests)
}

type Open = dyn Fn(Chip) -> Result<Box<dyn OrderedIndex>, IndexError>;

/// Formats, works until garbage was collected, cuts the power, mounts, and counts allocations from there.
fn requests(format: &Open, mount: &Open, keys: Keys) -> Requests {
    let chip = Shared::new(SimChip::new(&part()).unwrap());
    let mut index = format(Apart::new(chip.clone())).unwrap();
    work(Subject { index: &mut *index, chip: chip.clone() }, keys, 4_000).unwrap();
    drop(index);
    let mut index = mount(Apart::new(chip.clone())).unwrap();
    let keys = |next| if keys == Keys::Any { keys } else { Keys::Ascending { next } };
    // Until it has collected once, lists of pages that die grow to their size.
    work(Subject { index: &mut *index, chip: chip.clone() }, keys(4_000), 2_000).unwrap();
    work(Subject { index: &mut *index, chip }, keys(6_000), 4_000).unwrap()
}

fn nothing_asked(name: &str, requests: &Requests) {
    assert_eq!(*requests, Requests::default(), "{name}");
}

#[test]
fn a_mounted_mu_tree_asks_for_no_memory() {
    let format: &Open = &|chip| Ok(Box::new(MuTree::format(chip, &RawConfig::new(RECORD))?));
    let mount: &Open = &|chip| Ok(Box::new(MuTree::mount(chip, &RawConfig::new(RECORD))?));
    nothing_asked("mu", &requests(format, mount, Keys::Any));
}

#[test]
fn a_mounted_wandering_tree_asks_for_no_memory() {
    let format: &Open = &|chip| Ok(Box::new(WanderingTree::format(chip, &RawConfig::new(RECORD))?));
    let mount: &Open = &|chip| Ok(Box::new(WanderingTree::mount(chip, &RawConfig::new(RECORD))?));
    nothing_asked("wandering", &requests(format, mount, Keys::Any));
}

#[test]
fn a_mounted_bplus_tree_asks_for_no_memory() {
    let format: &Open = &|chip| {
        let store = PageMapFtl::format(chip, &FtlConfig::default())?;
        Ok(Box::new(BPlusTree::format(store, &BPlusConfig::new(RECORD))?))
    };
    let mount: &Open = &|chip| {
        let store = PageMapFtl::mount(chip, &FtlConfig::default())?;
        Ok(Box::new(BPlusTree::mount_found(store)?))
    };
    nothing_asked("bplus", &requests(format, mount, Keys::Any));
}

#[test]
fn a_mounted_sbits_asks_for_no_memory() {
    let config = SbitsConfig { ram_bytes: Some(48 << 10), ..SbitsConfig::new(RECORD) };
    let format: &Open = &move |chip| Ok(Box::new(Sbits::format(chip, &config)?));
    let mount: &Open = &move |chip| Ok(Box::new(Sbits::mount(chip, &config)?));
    nothing_asked("sbits", &requests(format, mount, Keys::Ascending { next: 0 }));
}
