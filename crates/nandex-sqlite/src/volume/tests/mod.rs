//! Files of a volume compared with files in memory, and a store that is full or fails.

mod careless;

use super::{FileId, Medium, Purpose, Volume};
use crate::settings::{Commits, VolumeConfig};
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue;
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::rng::Rng;
use nandex::{PageStore, Shared, StoreError};
use nandex_papers::ftl::fast::{FastConfig, FastFtl};
use std::collections::BTreeMap;

fn chip(blocks: u32) -> Shared<SimChip> {
    let part = catalogue::find("k9f1g08u0f").unwrap().clone().with_blocks(blocks);
    Shared::new(SimChip::new(&part).unwrap())
}

fn ftl(atomic_pages: u32) -> FtlConfig {
    FtlConfig { atomic_pages, ..FtlConfig::default() }
}

/// A store of groups of 16 pages, all free except those of the directory.
pub(super) fn medium() -> Medium {
    Medium::new(Box::new(PageMapFtl::format(chip(24), &ftl(16)).unwrap()), Commits::Grouped)
}

fn small_ram() -> VolumeConfig {
    VolumeConfig { ram_bytes: 0, growth_pages: 4, ..VolumeConfig::default() }
}

/// A volume, the expected contents of its files, and the open files by name.
struct Checked {
    volume: Volume,
    files: BTreeMap<&'static str, (FileId, Vec<u8>, Vec<u8>)>,
}

impl Checked {
    /// Does a random operation on a file, sometimes a commit.
    fn step(&mut self, name: &'static str, rng: &mut Rng) {
        let purpose = if name == "temporary" { Purpose::Temporary } else { Purpose::Kept };
        let volume = &mut self.volume;
        let entry = self.files.entry(name);
        let (id, now, kept) = entry.or_insert_with(|| {
            (volume.open_file(Some(name), purpose, true).unwrap(), Vec::new(), Vec::new())
        });
        match rng.below(10) {
            0..=4 => {
                let (at, bytes) = (rng.below(60_000) as usize, rng.below(9000) as usize);
                let mut data = vec![0; bytes];
                rng.fill(&mut data);
                volume.write(*id, at as u64, &data).unwrap();
                if bytes > 0 {
                    now.resize(now.len().max(at + bytes), 0);
                    now[at..at + bytes].copy_from_slice(&data);
                }
            }
            5 => {
                let size = rng.below(60_000);
                volume.truncate(*id, size).unwrap();
                now.resize(size as usize, 0);
            }
            6 => {
                volume.begin_batch(*id);
                volume.write(*id, rng.below(5000), &[9; 3000]).unwrap();
                volume.truncate(*id, rng.below(3000)).unwrap();
                volume.roll_back_batch(*id).unwrap();
            }
            7 | 8 => {
                let mut data = vec![1; rng.below(9000) as usize];
                let at = rng.below(60_000) as usize;
                let there = volume.read(*id, at as u64, &mut data).unwrap();
                let from = now.get(at.min(now.len())..).unwrap();
                assert_eq!(there, from.len().min(data.len()), "{name}");
                assert!(data[..there] == from[..there] && data[there..].iter().all(|&b| b == 0), "{name}");
            }
            _ => {
                volume.commit(&[*id]).unwrap();
                kept.clone_from(now);
            }
        }
    }

    /// Mounts the volume again on the same store.
    fn again(self, find: impl Fn() -> Box<dyn PageStore>) -> Checked {
        drop(self.volume);
        let mut volume = Volume::open(find(), small_ram()).unwrap();
        let mut files = BTreeMap::new();
        for (name, (_, _, kept)) in self.files {
            let found = volume.open_file(Some(name), Purpose::Kept, false);
            assert_eq!(found.is_some(), !kept.is_empty(), "{name}: an empty file need not be there");
            let Some(id) = found else { continue };
            let mut data = vec![0; kept.len()];
            assert_eq!(volume.size(id), kept.len() as u64, "{name}");
            volume.read(id, 0, &mut data).unwrap();
            let wrong = data.iter().zip(&kept).position(|(found, kept)| found != kept);
            assert_eq!(wrong, None, "{name}: the first wrong byte of {}", kept.len());
            files.insert(name, (id, kept.clone(), kept));
        }
        Checked { volume, files }
    }
}

fn live(seed: u64, format: impl Fn() -> Box<dyn PageStore>, find: impl Fn() -> Box<dyn PageStore>) {
    let mut rng = Rng::new(seed);
    let mut checked =
        Checked { volume: Volume::open(format(), small_ram()).unwrap(), files: BTreeMap::new() };
    for _ in 0..12 {
        for _ in 0..60 {
            let name = ["a", "b", "temporary"][rng.below(3) as usize];
            checked.step(name, &mut rng);
        }
        checked.files.remove("temporary");
        checked = checked.again(&find);
    }
}

#[test]
fn a_volume_is_files_that_survive_as_committed() {
    for (seed, atomic_pages) in [(1, 256), (2, 256), (3, 4), (4, 2)] {
        let chip = chip(24);
        live(
            seed,
            || Box::new(PageMapFtl::format(chip.clone(), &ftl(atomic_pages)).unwrap()),
            || Box::new(PageMapFtl::mount(chip.clone(), &ftl(atomic_pages)).unwrap()),
        );
    }
    let chip = chip(32);
    live(
        5,
        || Box::new(FastFtl::format(chip.clone(), &FastConfig::default()).unwrap()),
        || Box::new(FastFtl::mount(chip.clone(), &FastConfig::default()).unwrap()),
    );
}

/// Once all files are gone, all store pages are free again.
#[test]
fn pages_come_back() {
    let store = PageMapFtl::format(chip(24), &ftl(8)).unwrap();
    let mut volume = Volume::open(store, small_ram()).unwrap();
    let all = volume.free_pages();
    for round in 0..5 {
        let kept = volume.open_file(Some("a.db"), Purpose::Main, true).unwrap();
        let temporary = volume.open_file(None, Purpose::Temporary, true).unwrap();
        for id in [kept, temporary] {
            volume.write(id, 1000 * round, &vec![7; 200_000]).unwrap();
        }
        assert!(volume.stats().spilled_pages > 0);
        volume.commit(&[kept]).unwrap();
        volume.write(kept, 50_000, &vec![8; 100_000]).unwrap();
        volume.commit(&[kept]).unwrap();
        volume.truncate(kept, 3000).unwrap();
        volume.commit(&[kept]).unwrap();
        volume.close_file(temporary).unwrap();
        assert!(volume.free_pages() >= all - 4, "a file of two pages has {}", all - volume.free_pages());
        volume.close_file(kept).unwrap();
        assert!(volume.delete("a.db").unwrap());
        assert_eq!(volume.free_pages(), all);
        assert!(volume.names().is_empty());
    }
    assert!(volume.stats().large_commits > 0 && volume.stats().trimmed_pages > 100);
}

#[test]
fn a_commit_that_finds_no_room_changes_nothing() {
    let chip = chip(24);
    let mut volume =
        Volume::open(PageMapFtl::format(chip.clone(), &ftl(64)).unwrap(), VolumeConfig::default()).unwrap();
    let page_bytes = volume.page_bytes();
    let id = volume.open_file(Some("a"), Purpose::Kept, true).unwrap();
    volume.write(id, 0, b"first").unwrap();
    volume.commit(&[id]).unwrap();
    let free = volume.free_pages() as usize;
    let much = vec![5; (free + 100) * page_bytes];
    let refused = volume.write(id, 0, &much).and_then(|()| volume.commit(&[id]));
    assert_eq!(refused, Err(StoreError::Full));
    volume.close_file(id).unwrap_or_default();
    assert_eq!(volume.free_pages() as usize, free, "what was taken for it is free again");
    let id = volume.open_file(Some("a"), Purpose::Kept, false).unwrap();
    let mut data = [0; 5];
    volume.read(id, 0, &mut data).unwrap();
    assert_eq!(&data, b"first");
    drop(volume);
    let mut volume =
        Volume::open(PageMapFtl::mount(chip, &ftl(64)).unwrap(), VolumeConfig::default()).unwrap();
    let id = volume.open_file(Some("a"), Purpose::Kept, false).unwrap();
    assert_eq!(volume.size(id), 5);
}

/// Contents of a file of 40,000 bytes before and after a commit. `kind` chooses other bytes, nearly the same
/// bytes, or both and zeros.
fn contents(kind: u64, rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    let mut before = vec![0; 40_000];
    rng.fill(&mut before);
    let mut after = before.clone();
    for page in after.chunks_mut(2048) {
        match if kind == 2 { rng.below(3) } else { kind } {
            0 => rng.fill(page),
            1 => page.copy_within(7..300, 600),
            _ => page.fill(0),
        }
    }
    (before, after)
}

/// Cuts the power at this operation.
fn plan_cut(chip: &Shared<SimChip>, at: u64, torn: TornModel) {
    let at_operation = chip.lock().operations() + at;
    chip.lock().plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed: at });
}

#[test]
fn a_large_commit_holds_wherever_the_power_goes() {
    let (mut held, mut packed) = ([0; 3], [0; 3]);
    for life in 0..600 {
        let mut rng = Rng::new(life);
        let (kind, at) = (life % 3, life / 3 % 100);
        let (before, after) = contents(kind, &mut rng);
        let atomic = ftl([2, 16][life as usize / 300]);
        let torn = [TornModel::Unreadable, TornModel::RandomBits][rng.below(2) as usize];
        let chip = chip(24);
        let store = PageMapFtl::format(chip.clone(), &atomic).unwrap();
        let mut volume = Volume::open(store, small_ram()).unwrap();
        let id = volume.open_file(Some("a"), Purpose::Kept, true).unwrap();
        volume.write(id, 0, &before).unwrap();
        volume.commit(&[id]).unwrap();
        volume.write(id, 0, &after).unwrap();
        plan_cut(&chip, at, torn);
        let is_done = volume.commit(&[id]).is_ok();
        packed[kind as usize] += volume.stats().packed_pages;
        drop(volume);
        chip.lock().power_on();
        // The power goes in the mount, too.
        plan_cut(&chip, rng.below(60), torn);
        let _ = PageMapFtl::mount(chip.clone(), &atomic).map(|store| Volume::open(store, small_ram()));
        chip.lock().power_on();
        let mut volume = Volume::open(PageMapFtl::mount(chip, &atomic).unwrap(), small_ram()).unwrap();
        let id = volume.open_file(Some("a"), Purpose::Kept, false).unwrap();
        let mut data = vec![0; 40_000];
        volume.read(id, 0, &mut data).unwrap();
        assert!(data == before || data == after, "life {life}: half a commit");
        assert!(!is_done || data == after, "life {life}: a commit that was acknowledged is gone");
        held[kind as usize] += u32::from(data == after);
    }
    assert!(held.iter().all(|&held| (20..190).contains(&held)), "{held:?} of 200 came after the commit");
    assert!(packed[0] == 0 && packed[1] > 1_000, "{packed:?} pages were packed");
}

#[test]
fn what_is_no_volume_is_refused() {
    let store = PageMapFtl::format(chip(24), &ftl(64)).unwrap();
    let mut store: Box<dyn PageStore> = Box::new(store);
    store.write(nandex::Lpn(3), nandex::Cause::Host, &[3; 2048]).unwrap();
    let refused = Volume::open(store, VolumeConfig::default()).unwrap_err();
    assert!(matches!(refused, StoreError::NotFormatted(_)), "{refused}");
    let store = PageMapFtl::format(chip(24), &ftl(64)).unwrap();
    let mut store: Box<dyn PageStore> = Box::new(store);
    store.write(nandex::Lpn(3), nandex::Cause::Host, &[3; 2048]).unwrap();
    let volume = Volume::format(store, VolumeConfig::default()).unwrap();
    let again = Volume::open(volume.into_store(), VolumeConfig::default());
    assert!(again.unwrap().names().is_empty(), "formatted, it is one");
    let tiny = nandex::store::ram::RamStore::new(2048, 10);
    assert!(matches!(Volume::open(tiny, VolumeConfig::default()), Err(StoreError::Unsupported(_))));
}
