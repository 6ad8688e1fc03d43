//! A hard disk in memory, for comparison with flash. Its pages may be overwritten, and every access takes
//! simulated time.
//!
//! The disk is no FTL and needs no chip. There are two models of its time:
//!
//! - [`DiskModel::Mechanical`]: seek, rotation, transfer. The place of the page gives track and angle. A seek
//!   takes `settle + sqrt(distance) * slope`. The distance is a share of all tracks. The slope is chosen so
//!   that seeks between random places take `seek_mean` on average: for uniformly distributed places `x` and
//!   `y`, the mean of `sqrt(|x - y|)` is 8/15. Then the disk waits until the page comes by, and reads or
//!   writes at the rate of the medium. The angle follows from the simulated time, so an idle disk keeps
//!   turning. Pages that follow each other are thus read without a wait.
//! - [`DiskModel::Flat`]: the same time for every access, by page or by sector of 512 bytes, as papers
//!   assume.
//!
//! The pages fill the disk: the first page of the store is on the first track and the last page on the last
//! track, so distances are those of a full disk. There is no cache and no queue: a write is on the disk when
//! it returns.
//!
//! The numbers are those of the Seagate Barracuda 7200.7 (ST380011A). Published are 7200 rpm, 683 Mbit/s, and
//! a mean seek of 8.5 ms to read and 9.5 ms to write. The settling time of 1.0 ms and the shape of the curve
//! are our assumption.

use crate::nand::Cause;
use crate::store::ram::RamStore;
use crate::store::{PageStore, StoreError};
use crate::units::{Lpn, Nanos};

const SECTOR_BYTES: u64 = 512;

/// Model of the time that an access takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskModel {
    /// Seek, rotation and transfer.
    Mechanical(Mechanics),
    /// A constant time for every access.
    Flat {
        /// Time of a read, in ns.
        read_ns: u64,
        /// Time of a write, in ns.
        write_ns: u64,
        /// True if each sector of 512 bytes takes this time, false if each page does.
        per_sector: bool,
    },
}

/// Speed of the moving parts of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanics {
    /// Time of one turn, in ns.
    pub turn_ns: u64,
    /// Bytes of a track, which pass the head in one turn.
    pub track_bytes: u64,
    /// Part of the time of a seek that does not depend on the distance, in ns.
    pub settle_ns: u64,
    /// Mean time of a seek between random places before a read, in ns.
    pub seek_mean_read_ns: u64,
    /// Mean time of a seek between random places before a write, in ns. It is longer, since the head must be
    /// placed more exactly.
    pub seek_mean_write_ns: u64,
}

impl DiskModel {
    /// The Barracuda 7200.7 with its mechanics.
    pub const BARRACUDA: DiskModel = DiskModel::Mechanical(Mechanics {
        turn_ns: 8_333_333,
        // Bytes that 683 Mbit/s transfer in 1/120 s.
        track_bytes: 711_458,
        settle_ns: 1_000_000,
        seek_mean_read_ns: 8_500_000,
        seek_mean_write_ns: 9_500_000,
    });

    /// 12.7 ms to read a page and 13.7 ms to write one: a mean seek and half a turn of the Barracuda.
    pub const FLAT_PAGE: DiskModel =
        DiskModel::Flat { read_ns: 12_700_000, write_ns: 13_700_000, per_sector: false };

    /// 12.4 ms for each sector, read or written.
    pub const FLAT_SECTOR: DiskModel =
        DiskModel::Flat { read_ns: 12_400_000, write_ns: 12_400_000, per_sector: true };
}

/// Number of accesses to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Pages read.
    pub page_reads: u64,
    /// Pages written.
    pub page_writes: u64,
    /// Accesses that moved the head to another track.
    pub seeks: u64,
}

/// A hard disk in memory.
#[derive(Clone, Debug)]
pub struct DiskStore {
    pages: RamStore,
    page_bytes: u64,
    page_count: u64,
    model: DiskModel,
    time: Nanos,
    head_track: u64,
    counters: DiskCounters,
}

impl DiskStore {
    /// Returns a disk of `page_count` pages of zeros.
    pub fn new(page_bytes: usize, page_count: u32, model: DiskModel) -> DiskStore {
        assert!(page_bytes > 0 && page_count > 0, "a disk has pages");
        if let DiskModel::Mechanical(m) = model {
            assert!(m.turn_ns > 0 && m.track_bytes > 0, "a disk turns and has tracks");
        }
        DiskStore {
            pages: RamStore::new(page_bytes, page_count),
            page_bytes: page_bytes as u64,
            page_count: page_count.into(),
            model,
            time: Nanos(0),
            head_track: 0,
            counters: DiskCounters::default(),
        }
    }

    /// Simulated time so far.
    pub fn time(&self) -> Nanos {
        self.time
    }

    /// Lets the disk stand idle until `time`. It keeps turning.
    pub fn idle_until(&mut self, time: Nanos) {
        self.time = self.time.max(time);
    }

    /// Counters so far.
    pub fn counters(&self) -> DiskCounters {
        self.counters
    }

    /// Counts and times an access that succeeded. [`Cause::Check`] costs nothing.
    fn charge(&mut self, lpn: Lpn, cause: Cause, is_write: bool) {
        if cause == Cause::Check {
            return;
        }
        match is_write {
            true => self.counters.page_writes += 1,
            false => self.counters.page_reads += 1,
        }
        match self.model {
            DiskModel::Flat { read_ns, write_ns, per_sector } => {
                let units = if per_sector { self.page_bytes.div_ceil(SECTOR_BYTES) } else { 1 };
                self.time += Nanos(units * if is_write { write_ns } else { read_ns });
            }
            DiskModel::Mechanical(mechanics) => self.turn(mechanics, lpn, is_write),
        }
    }

    fn turn(&mut self, m: Mechanics, lpn: Lpn, is_write: bool) {
        let start = u64::from(lpn.0) * self.page_bytes;
        let track = start / m.track_bytes;
        if track != self.head_track {
            self.counters.seeks += 1;
            let mean = if is_write { m.seek_mean_write_ns } else { m.seek_mean_read_ns };
            let tracks = (self.page_count * self.page_bytes).div_ceil(m.track_bytes).max(2) - 1;
            self.time += Nanos(seek_ns(m.settle_ns, mean, track.abs_diff(self.head_track), tracks));
        }
        let angle_ns = scaled(start % m.track_bytes, m.turn_ns, m.track_bytes);
        let wait_ns = (angle_ns + m.turn_ns - self.time.0 % m.turn_ns) % m.turn_ns;
        // The transfer ends at the begin of the next page, so that rounding does not make the head miss that
        // page.
        let end = start + self.page_bytes;
        let turns = end / m.track_bytes - track;
        let end_ns = turns * m.turn_ns + scaled(end % m.track_bytes, m.turn_ns, m.track_bytes);
        self.time += Nanos(wait_ns + (end_ns - angle_ns));
        // A page that ends on the next track leaves the head there. That move is part of the transfer and no
        // seek.
        self.head_track = end / m.track_bytes;
    }
}

/// Returns `value * numerator / denominator` without overflow.
fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    (u128::from(value) * u128::from(numerator) / u128::from(denominator)) as u64
}

/// Returns the time of a seek over `distance` of all `tracks`, in ns.
fn seek_ns(settle_ns: u64, mean_ns: u64, distance: u64, tracks: u64) -> u64 {
    // Root of the distance as a share of all tracks, in millionths.
    let share = u128::from(distance.min(tracks)) * 1_000_000_000_000 / u128::from(tracks);
    let root_ppm = share.isqrt();
    let slope_ns = u128::from(mean_ns.saturating_sub(settle_ns)) * 15 / 8;
    settle_ns + (root_ppm * slope_ns / 1_000_000) as u64
}

impl PageStore for DiskStore {
    fn page_bytes(&self) -> usize {
        self.pages.page_bytes()
    }

    fn page_count(&self) -> u32 {
        self.pages.page_count()
    }

    fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
        self.pages.read(lpn, cause, data)?;
        self.charge(lpn, cause, false);
        Ok(())
    }

    fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
        self.pages.write(lpn, cause, data)?;
        self.charge(lpn, cause, true);
        Ok(())
    }

    /// Takes no time: a disk cannot drop pages, and the zeros exist in the model only.
    fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
        self.pages.trim(lpn)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.pages.sync()
    }

    fn durable_writes(&self) -> bool {
        true
    }

    fn prefix_consistent(&self) -> bool {
        true
    }

    /// 0: the pages are in memory only in the model. A disk needs no RAM of the computer.
    fn ram_bytes(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn disk(model: DiskModel) -> DiskStore {
        DiskStore::new(2048, 1 << 20, model)
    }

    fn read(disk: &mut DiskStore, lpn: u32) -> u64 {
        let before = disk.time().0;
        disk.read(Lpn(lpn), Cause::Host, &mut [0; 2048]).unwrap();
        disk.time().0 - before
    }

    #[test]
    fn sequential_pages_come_at_the_rate_of_the_medium() {
        let mut disk = disk(DiskModel::BARRACUDA);
        read(&mut disk, 0);
        let start = disk.time().0;
        for lpn in 1..10_000 {
            read(&mut disk, lpn);
        }
        let bytes_per_second = 9_999 * 2048 * 1_000_000_000 / (disk.time().0 - start);
        assert!((85_300_000..85_450_000).contains(&bytes_per_second), "{bytes_per_second}");
        assert_eq!(disk.counters().seeks, 0);
    }

    #[test]
    fn random_accesses_take_mean_seek_and_half_a_turn() {
        for (is_write, expected) in [(false, 12_690_000), (true, 13_690_000)] {
            let mut disk = disk(DiskModel::BARRACUDA);
            let (mut rng, data) = (Rng::new(1), [7; 2048]);
            for _ in 0..40_000 {
                let lpn = Lpn(rng.below(1 << 20) as u32);
                match is_write {
                    true => disk.write(lpn, Cause::Host, &data).unwrap(),
                    false => disk.read(lpn, Cause::Host, &mut [0; 2048]).unwrap(),
                }
            }
            let mean = disk.time().0 / 40_000;
            assert!(mean.abs_diff(expected) < 60_000, "{mean} ns, {expected} expected");
        }
    }

    #[test]
    fn far_seeks_take_longer_and_an_idle_disk_turns() {
        assert_eq!(seek_ns(1_000_000, 8_500_000, 100, 100), 15_062_500);
        assert_eq!(seek_ns(1_000_000, 8_500_000, 25, 100), 1_000_000 + 14_062_500 / 2);
        let mut disk = disk(DiskModel::BARRACUDA);
        read(&mut disk, 5);
        let again = read(&mut disk, 5);
        assert_eq!(again, 8_333_333, "the same page comes by once a turn");
        let now = disk.time();
        disk.idle_until(now + Nanos(4_000_000));
        assert_eq!(read(&mut disk, 5), 8_333_333 - 4_000_000);
        disk.idle_until(now);
        assert!(disk.time() > now, "time does not run back");
    }

    #[test]
    fn flat_models_take_the_time_of_the_papers() {
        let mut by_sector = disk(DiskModel::FLAT_SECTOR);
        assert_eq!(read(&mut by_sector, 9), 4 * 12_400_000);
        let mut by_page = disk(DiskModel::FLAT_PAGE);
        assert_eq!(read(&mut by_page, 9), 12_700_000);
        by_page.write(Lpn(9), Cause::Host, &[1; 2048]).unwrap();
        assert_eq!(by_page.time().0, 12_700_000 + 13_700_000);
        by_page.read(Lpn(9), Cause::Check, &mut [0; 2048]).unwrap();
        assert_eq!(by_page.time().0, 12_700_000 + 13_700_000, "a checker takes no time");
        by_page.trim(Lpn(9)).unwrap();
        let mut data = [9; 2048];
        by_page.read(Lpn(9), Cause::Host, &mut data).unwrap();
        assert_eq!(data, [0; 2048]);
        let count = by_page.page_count();
        assert_eq!(by_page.read(Lpn(count), Cause::Host, &mut data), Err(StoreError::OutOfRange(Lpn(count))));
    }
}
