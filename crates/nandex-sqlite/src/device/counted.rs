//! A chip that counts its operations and reports the progress of a mount.

use crate::stats::ChipCounts;
use nandex::nand::ReadOutcome;
use nandex::{Cause, Geometry, Nand, NandError, Pbn, Ppn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a mount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountProgress {
    /// Pages read so far.
    pub pages_read: u64,
    /// Pages of the chip. A mount reads few of them after a clean shutdown, and at most about this many.
    pub chip_pages: u64,
    /// Whether the mount is done.
    pub is_done: bool,
}

/// The listener to the progress of mounts, called from whatever thread opens a database.
pub type OnProgress = Arc<dyn Fn(MountProgress) + Send + Sync>;

/// Page reads between two words about a mount: some tenths of a second on a part.
const READS_BETWEEN: u64 = 1024;

/// Operation counters, shared by the chip and its observers.
pub(super) struct Counts {
    reads: AtomicU64,
    programs: AtomicU64,
    erases: AtomicU64,
    is_mounting: AtomicBool,
    chip_pages: u64,
    told: OnProgress,
}

impl Counts {
    /// The counters as they are now.
    pub(super) fn get(&self) -> ChipCounts {
        ChipCounts {
            page_reads: self.reads.load(Ordering::Relaxed),
            page_programs: self.programs.load(Ordering::Relaxed),
            block_erases: self.erases.load(Ordering::Relaxed),
        }
    }

    /// Reports the end of a mount to the listener.
    pub(super) fn mount_is_done(&self) {
        self.is_mounting.store(false, Ordering::Relaxed);
        self.tell(self.reads.load(Ordering::Relaxed), true);
    }

    fn tell(&self, pages_read: u64, is_done: bool) {
        (self.told)(MountProgress { pages_read, chip_pages: self.chip_pages, is_done });
    }

    fn count_read(&self) {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        if reads.is_multiple_of(READS_BETWEEN) && self.is_mounting.load(Ordering::Relaxed) {
            self.tell(reads, false);
        }
    }
}

pub(super) struct Counted<N> {
    nand: N,
    counts: Arc<Counts>,
}

impl<N: Nand> Counted<N> {
    /// Wraps a chip that is about to be mounted.
    pub(super) fn new(nand: N, told: &OnProgress) -> Counted<N> {
        let geometry = nand.geometry();
        let counts = Counts {
            reads: AtomicU64::new(0),
            programs: AtomicU64::new(0),
            erases: AtomicU64::new(0),
            is_mounting: AtomicBool::new(true),
            chip_pages: u64::from(geometry.blocks) * u64::from(geometry.pages_per_block),
            told: Arc::clone(told),
        };
        Counted { nand, counts: Arc::new(counts) }
    }

    /// The counters, for who watches.
    pub(super) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }
}

impl<N: Nand> Nand for Counted<N> {
    fn geometry(&self) -> Geometry {
        self.nand.geometry()
    }

    fn read(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadOutcome, NandError> {
        self.counts.count_read();
        self.nand.read(ppn, cause, data, spare)
    }

    fn program(&mut self, ppn: Ppn, cause: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.counts.programs.fetch_add(1, Ordering::Relaxed);
        self.nand.program(ppn, cause, data, spare)
    }

    fn erase(&mut self, pbn: Pbn, cause: Cause) -> Result<(), NandError> {
        self.counts.erases.fetch_add(1, Ordering::Relaxed);
        self.nand.erase(pbn, cause)
    }

    fn is_bad(&mut self, pbn: Pbn) -> Result<bool, NandError> {
        self.nand.is_bad(pbn)
    }

    fn mark_bad(&mut self, pbn: Pbn) -> Result<(), NandError> {
        self.nand.mark_bad(pbn)
    }

    fn barrier(&mut self) -> Result<(), NandError> {
        self.nand.barrier()
    }

    fn waits(&self) -> bool {
        self.nand.waits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::nand::{catalogue, sim::SimChip};
    use std::sync::Mutex;

    #[test]
    fn a_mount_is_told_of_until_it_is_done() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told: OnProgress = {
            let heard = Arc::clone(&heard);
            Arc::new(move |progress| heard.lock().unwrap().push(progress))
        };
        let part = catalogue::find("mlc-64m").unwrap();
        let mut chip = Counted::new(SimChip::new(part).unwrap(), &told);
        for page in 0..2500 {
            chip.read(Ppn(page), Cause::Host, &mut [], &mut []).unwrap();
        }
        let progress = |pages_read, is_done| MountProgress { pages_read, chip_pages: 16_384, is_done };
        assert_eq!(*heard.lock().unwrap(), [progress(1024, false), progress(2048, false)]);
        let counts = chip.counts();
        counts.mount_is_done();
        for page in 0..3000 {
            chip.read(Ppn(page), Cause::Host, &mut [], &mut []).unwrap();
        }
        assert_eq!(heard.lock().unwrap().last(), Some(&progress(2500, true)));
        assert_eq!((heard.lock().unwrap().len(), counts.get().page_reads), (3, 5500));
    }
}
