//! The model of a store of pages, operations on both, and their comparison.
//!
//! Each page content has a number, from which its bytes follow. Number 0 is a page of zeros.

use crate::nand::Cause;
use crate::rng::Rng;
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

/// Earlier contents that may come back if a power cut undoes a trim without a sync after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The contents when the page was trimmed.
    Last,
    /// Any contents that the page had since the last sync.
    Any,
}

/// The numbers of the pages that a store must hold. Copies share their lists, since tests copy the model
/// before each operation.
#[derive(Clone, Debug)]
pub struct Model {
    /// Number of each page.
    pub pages: Vec<u64>,
    /// Number of the next page that is written.
    pub next_tag: u64,
    undone: Undone,
    trimmed: BTreeMap<u32, Rc<Vec<u64>>>,
    since_sync: Vec<Rc<Vec<u64>>>,
    ever: Vec<Rc<Vec<u64>>>,
}

impl Model {
    /// Returns the model of a store of zeros.
    pub fn new(pages: u32, undone: Undone) -> Model {
        let none = vec![Rc::default(); pages as usize];
        Model {
            pages: vec![0; pages as usize],
            next_tag: 1,
            undone,
            trimmed: BTreeMap::new(),
            since_sync: none.clone(),
            ever: none,
        }
    }

    /// Notes a write of a page, and returns the number of its new contents.
    pub fn write(&mut self, lpn: u32) -> u64 {
        let (tag, at) = (self.next_tag, lpn as usize);
        self.next_tag += 1;
        self.pages[at] = tag;
        Rc::make_mut(&mut self.since_sync[at]).push(tag);
        Rc::make_mut(&mut self.ever[at]).push(tag);
        self.trimmed.remove(&lpn);
        tag
    }

    /// Notes a trim of a page.
    pub fn trim(&mut self, lpn: u32) {
        let at = lpn as usize;
        let old = core::mem::replace(&mut self.pages[at], 0);
        if old != 0 {
            let back = match self.undone {
                Undone::Last => Rc::new(vec![old]),
                Undone::Any => self.since_sync[at].clone(),
            };
            self.trimmed.insert(lpn, back);
        }
    }

    /// Notes a sync: no earlier contents come back.
    pub fn settle(&mut self) {
        self.trimmed.clear();
        for (since, &now) in self.since_sync.iter_mut().zip(&self.pages) {
            *since = Rc::new(Vec::from_iter(Some(now).filter(|&tag| tag != 0)));
        }
    }

    /// Takes the pages found after a power cut as the permanent ones.
    pub fn become_found(&mut self, found: Vec<u64>) {
        self.pages = found;
        self.settle();
    }

    /// Returns the numbers that a page may have after a power cut.
    pub fn allowed(&self, lpn: u32) -> Vec<u64> {
        let back = self.trimmed.get(&lpn).into_iter().flat_map(|back| back.iter().copied());
        core::iter::once(self.pages[lpn as usize]).chain(back).collect()
    }

    /// Returns true if a power cut may leave these pages.
    pub fn allows(&self, found: &[u64]) -> bool {
        (0..).zip(found).all(|(lpn, tag)| self.pages[lpn as usize] == *tag || self.allowed(lpn).contains(tag))
    }

    /// Returns true if a page ever had this number.
    pub fn was_ever(&self, lpn: u32, tag: u64) -> bool {
        tag == 0 || self.ever[lpn as usize].contains(&tag)
    }
}

/// An operation on a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Write of a page.
    Write(u32),
    /// Atomic write of several pages.
    Group(Vec<u32>),
    /// Trim of a page.
    Trim(u32),
    /// Read of a page.
    Read(u32),
    /// Sync.
    Sync,
    /// Checkpoint. [`apply`] leaves this to the test.
    Checkpoint,
}

/// Returns the page with this number.
pub fn page(tag: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    if tag != 0 {
        Rng::new(tag).fill(&mut data);
        data[..8].copy_from_slice(&tag.to_le_bytes());
    }
    data
}

/// Returns the number of a page; `None` if its bytes are not those of a number.
pub fn tag_of(data: &[u8]) -> Option<u64> {
    let tag = u64::from_le_bytes(data[..8].try_into().ok()?);
    (data == page(tag, data.len())).then_some(tag)
}

/// Returns the number of each page. Panics if a page holds bytes that were never written.
pub fn contents(store: &mut dyn PageStore) -> Vec<u64> {
    let mut data = vec![0; store.page_bytes()];
    let mut tags = Vec::new();
    for lpn in 0..store.page_count() {
        store.read(Lpn(lpn), Cause::Check, &mut data).unwrap_or_else(|error| panic!("lpn {lpn}: {error}"));
        tags.push(tag_of(&data).unwrap_or_else(|| panic!("lpn {lpn} holds what was never written")));
    }
    tags
}

/// Does one operation with store and model, and compares the pages that are read.
pub fn apply(store: &mut dyn PageStore, model: &mut Model, op: &Op) -> Result<(), StoreError> {
    let bytes = store.page_bytes();
    match op {
        Op::Write(lpn) => {
            let tag = model.write(*lpn);
            store.write(Lpn(*lpn), Cause::Host, &page(tag, bytes))
        }
        Op::Group(lpns) => {
            let data: Vec<Vec<u8>> = lpns.iter().map(|&lpn| page(model.write(lpn), bytes)).collect();
            let group: Vec<(Lpn, &[u8])> =
                lpns.iter().zip(&data).map(|(&lpn, data)| (Lpn(lpn), &data[..])).collect();
            store.write_atomic(&group, Cause::Host)
        }
        Op::Trim(lpn) => {
            model.trim(*lpn);
            store.trim(Lpn(*lpn))
        }
        Op::Read(lpn) => {
            let mut data = vec![0; bytes];
            store.read(Lpn(*lpn), Cause::Host, &mut data)?;
            assert_eq!(data, page(model.pages[*lpn as usize], bytes), "lpn {lpn}");
            Ok(())
        }
        Op::Sync => store.sync().map(|()| model.settle()),
        Op::Checkpoint => Ok(()),
    }
}
