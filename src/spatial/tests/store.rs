//! A store in RAM that records what is done to it, promises as much as it is told to, and can be made to fill
//! up.

use crate::nand::Cause;
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;
use alloc::vec;
use alloc::vec::Vec;

pub(crate) type Pages = Vec<Vec<u8>>;

/// One change of the store, as it may survive a power cut or not.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Write(Vec<(Lpn, Vec<u8>)>),
    Trim(Lpn),
    Sync,
}

/// The promises of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) durable: bool,
    pub(crate) prefix: bool,
    pub(crate) atomic_pages: usize,
}

pub(crate) const WRITE_THROUGH: Promise = Promise { durable: true, prefix: true, atomic_pages: 200 };
pub(crate) const ORDERED: Promise = Promise { durable: false, prefix: true, atomic_pages: 200 };
pub(crate) const UNORDERED: Promise = Promise { durable: false, prefix: false, atomic_pages: 200 };
pub(crate) const SINGLE: Promise = Promise { durable: true, prefix: true, atomic_pages: 1 };

pub(crate) struct Mem {
    pub(crate) pages: Pages,
    pub(crate) promise: Promise,
    pub(crate) steps: Vec<Step>,
    pub(crate) page_reads: u64,
    pub(crate) page_writes: u64,
    pub(crate) group_pages_max: usize,
    /// Page writes left before the store refuses, and what it says then.
    pub(crate) room: usize,
    pub(crate) refusal: StoreError,
    /// Syncs left before one of them is refused.
    pub(crate) syncs: usize,
}

impl Mem {
    pub(crate) fn new(page_bytes: usize, page_count: usize, promise: Promise) -> Mem {
        Mem::holding(vec![vec![0; page_bytes]; page_count], promise)
    }

    pub(crate) fn holding(pages: Pages, promise: Promise) -> Mem {
        Mem {
            pages,
            promise,
            steps: Vec::new(),
            page_reads: 0,
            page_writes: 0,
            group_pages_max: 0,
            room: usize::MAX,
            refusal: StoreError::Full,
            syncs: usize::MAX,
        }
    }
}

impl PageStore for Mem {
    fn page_bytes(&self) -> usize {
        self.pages[0].len()
    }

    fn page_count(&self) -> u32 {
        self.pages.len() as u32
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.page_reads += u64::from(cause != Cause::Check);
        data.copy_from_slice(self.pages.get(lpn.index()).ok_or(StoreError::OutOfRange(lpn))?);
        Ok(())
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.write_atomic(&[(lpn, data)], cause)
    }

    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.pages[lpn.index()].fill(0);
        self.steps.push(Step::Trim(lpn));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let Some(left) = self.syncs.checked_sub(1) else {
            self.syncs = usize::MAX;
            return Err(self.refusal.clone());
        };
        self.syncs = left;
        self.steps.push(Step::Sync);
        Ok(())
    }

    fn atomic_pages_max(&self) -> usize {
        self.promise.atomic_pages
    }

    fn write_atomic(&mut self, pages: &[(Lpn, &[u8])], _: Cause) -> Result<(), StoreError> {
        assert!((1..=self.promise.atomic_pages).contains(&pages.len()));
        self.room = self.room.checked_sub(pages.len()).ok_or_else(|| self.refusal.clone())?;
        self.page_writes += pages.len() as u64;
        self.group_pages_max = self.group_pages_max.max(pages.len());
        for (lpn, data) in pages {
            self.pages[lpn.index()].copy_from_slice(data);
        }
        self.steps.push(Step::Write(pages.iter().map(|(lpn, data)| (*lpn, data.to_vec())).collect()));
        Ok(())
    }

    fn durable_writes(&self) -> bool {
        self.promise.durable
    }

    fn prefix_consistent(&self) -> bool {
        self.promise.prefix
    }

    fn ram_bytes(&self) -> usize {
        0
    }
}
