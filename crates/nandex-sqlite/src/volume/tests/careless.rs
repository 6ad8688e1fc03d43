//! A volume on a store that promises nothing before a sync, like a file on a disk with a write cache.

use super::super::{Purpose, Volume};
use super::small_ram;
use nandex::rng::Rng;
use nandex::{Cause, Lpn, PageStore, StoreError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const PAGE_BYTES: usize = 512;
const PAGES: u32 = 600;

/// The durable pages, the writes since the last sync, and the operations left before the power is cut.
#[derive(Clone, Default)]
struct Medium {
    pages: BTreeMap<u32, Vec<u8>>,
    pending: Vec<(u32, Vec<u8>)>,
    left: u64,
}

impl Medium {
    fn step(&mut self) -> Result<(), StoreError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| StoreError::Device(String::from("no power")))?;
        Ok(())
    }

    /// Cuts the power: any part of the writes since the last sync is done, some pages torn.
    fn cut(&mut self, rng: &mut Rng) {
        for (lpn, data) in std::mem::take(&mut self.pending) {
            let page = self.pages.entry(lpn).or_insert_with(|| vec![0; PAGE_BYTES]);
            let (from, to) = match rng.below(3) {
                0 => (0, 0),
                1 => (0, PAGE_BYTES),
                _ => (rng.below(PAGE_BYTES as u64) as usize, PAGE_BYTES),
            };
            page[from..to].copy_from_slice(&data[from..to]);
        }
        self.left = u64::MAX;
    }
}

#[derive(Clone, Default)]
struct Careless(Arc<Mutex<Medium>>);

impl PageStore for Careless {
    fn page_bytes(&self) -> usize {
        PAGE_BYTES
    }

    fn page_count(&self) -> u32 {
        PAGES
    }

    fn read(&mut self, lpn: Lpn, _: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        let medium = self.0.lock().unwrap();
        let pending = medium.pending.iter().rev().find(|(page, _)| *page == lpn.0).map(|(_, data)| data);
        match pending.or_else(|| medium.pages.get(&lpn.0)) {
            Some(page) => data.copy_from_slice(page),
            None => data.fill(0),
        }
        Ok(())
    }

    fn write(&mut self, lpn: Lpn, _: Cause, data: &[u8]) -> Result<(), StoreError> {
        let mut medium = self.0.lock().unwrap();
        medium.step()?;
        medium.pending.push((lpn.0, data.to_vec()));
        Ok(())
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.0.lock().unwrap().pending.push((lpn.0, vec![0; PAGE_BYTES]));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let mut medium = self.0.lock().unwrap();
        medium.step()?;
        let pending = std::mem::take(&mut medium.pending);
        medium.pages.extend(pending);
        Ok(())
    }

    fn durable_writes(&self) -> bool {
        false
    }

    fn prefix_consistent(&self) -> bool {
        false
    }

    fn ram_bytes(&self) -> usize {
        0
    }
}

/// Overwrites a file with a number. The size of the file depends on the number.
fn write(volume: &mut Volume, number: u8) -> Result<(), StoreError> {
    let Some(id) = volume.open_file(Some("a"), Purpose::Kept, true) else { return Ok(()) };
    let bytes = 1000 + usize::from(number) * 1777 % 20_000;
    volume.truncate(id, bytes as u64)?;
    volume.write(id, 0, &vec![number; bytes])?;
    volume.commit(&[id])
}

fn read(volume: &mut Volume) -> Option<u8> {
    let id = volume.open_file(Some("a"), Purpose::Kept, false)?;
    let mut data = vec![0; volume.size(id) as usize];
    volume.read(id, 0, &mut data).unwrap();
    assert_eq!(data.len(), 1000 + usize::from(data[0]) * 1777 % 20_000, "half a commit");
    assert!(data.iter().all(|&byte| byte == data[0]), "half a commit");
    Some(data[0])
}

#[test]
fn a_commit_is_whole_or_absent_without_any_promise_of_the_store() {
    let (mut cuts, mut whole) = (0, 0);
    let mut rng = Rng::new(5);
    let store = Careless::default();
    store.0.lock().unwrap().left = u64::MAX;
    let mut volume = Volume::open(store.clone(), small_ram()).unwrap();
    let mut last = None;
    for round in 0..400u64 {
        store.0.lock().unwrap().left = rng.below(150);
        let number = (1 + round % 250) as u8;
        let done = write(&mut volume, number);
        if done.is_ok() {
            last = Some(number);
        }
        if done.is_ok() && rng.chance(1, 2) {
            continue;
        }
        drop(volume);
        cuts += 1;
        store.0.lock().unwrap().cut(&mut rng);
        // The first mount is cut as well, now and then.
        if rng.chance(1, 3) {
            store.0.lock().unwrap().left = rng.below(20);
            drop(Volume::open(store.clone(), small_ram()));
            store.0.lock().unwrap().cut(&mut rng);
        }
        volume = Volume::open(store.clone(), small_ram()).unwrap();
        let found = read(&mut volume);
        assert!(
            found == last || (done.is_err() && found == Some(number)),
            "round {round}: {found:?}, {last:?}"
        );
        whole += u32::from(found != last);
        last = found;
    }
    assert!(cuts > 100 && whole > 0, "{cuts} cuts, {whole} found the commit that was not acknowledged");
}
