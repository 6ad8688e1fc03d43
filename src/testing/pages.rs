//! The model of a store of pages, operations on both, and what must be equal.
//!
//! A page is known by a number, from which its bytes follow; number 0 is a page of zeros.

use crate::nand::Cause;
use crate::rng::Rng;
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

/// Contents that come back where a power cut undoes a trim which no sync followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The contents when the page was trimmed.
    Last,
    /// Any contents since the last sync.
    Any,
}

/// The numbers of the pages that a store must hold. Lists are shared by copies: tests copy it before each
/// operation.
#[derive(Clone, Debug)]
pub struct Model {
    /// The number of each page.
    pub pages: Vec<u64>,
    /// The number that is written next.
    pub next_tag: u64,
    undone: Undone,
    trimmed: BTreeMap<u32, Rc<Vec<u64>>>,
    since_sync: Vec<Rc<Vec<u64>>>,
    ever: Vec<Rc<Vec<u64>>>,
}

impl Model {
    /// A store of zeros.
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

    /// Writes a page; its number.
    pub fn write(&mut self, lpn: u32) -> u64 {
        let (tag, at) = (self.next_tag, lpn as usize);
        self.next_tag += 1;
        self.pages[at] = tag;
        Rc::make_mut(&mut self.since_sync[at]).push(tag);
        Rc::make_mut(&mut self.ever[at]).push(tag);
        self.trimmed.remove(&lpn);
        tag
    }

    /// Trims a page.
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

    /// A sync: nothing of before comes back.
    pub fn settle(&mut self) {
        self.trimmed.clear();
        for (since, &now) in self.since_sync.iter_mut().zip(&self.pages) {
            *since = Rc::new(Vec::from_iter(Some(now).filter(|&tag| tag != 0)));
        }
    }

    /// Takes the pages found after a power cut for those that are there for good.
    pub fn become_found(&mut self, found: Vec<u64>) {
        self.pages = found;
        self.settle();
    }

    /// The numbers that a page may have after a power cut.
    pub fn allowed(&self, lpn: u32) -> Vec<u64> {
        let back = self.trimmed.get(&lpn).into_iter().flat_map(|back| back.iter().copied());
        core::iter::once(self.pages[lpn as usize]).chain(back).collect()
    }

    /// Whether a power cut may leave these pages.
    pub fn allows(&self, found: &[u64]) -> bool {
        (0..).zip(found).all(|(lpn, tag)| self.pages[lpn as usize] == *tag || self.allowed(lpn).contains(tag))
    }

    /// Whether a page had this number at any time.
    pub fn was_ever(&self, lpn: u32, tag: u64) -> bool {
        tag == 0 || self.ever[lpn as usize].contains(&tag)
    }
}

/// One operation on a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A page written.
    Write(u32),
    /// Pages written as one.
    Group(Vec<u32>),
    /// A page trimmed.
    Trim(u32),
    /// A page read.
    Read(u32),
    /// A sync.
    Sync,
    /// A checkpoint, which [`apply`] leaves to the test.
    Checkpoint,
}

/// The page of a number.
pub fn page(tag: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    if tag != 0 {
        Rng::new(tag).fill(&mut data);
        data[..8].copy_from_slice(&tag.to_le_bytes());
    }
    data
}

/// The number of a page, if its bytes are those of one.
pub fn tag_of(data: &[u8]) -> Option<u64> {
    let tag = u64::from_le_bytes(data[..8].try_into().ok()?);
    (data == page(tag, data.len())).then_some(tag)
}

/// The number of each page; panics at one that was never written.
pub fn contents(store: &mut dyn PageStore) -> Vec<u64> {
    let mut data = vec![0; store.page_bytes()];
    let mut tags = Vec::new();
    for lpn in 0..store.page_count() {
        store.read(Lpn(lpn), Cause::Check, &mut data).unwrap_or_else(|error| panic!("lpn {lpn}: {error}"));
        tags.push(tag_of(&data).unwrap_or_else(|| panic!("lpn {lpn} holds what was never written")));
    }
    tags
}

/// Does one operation with store and model, and compares what is read.
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
