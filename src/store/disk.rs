//! A hard disk in memory, to hold flash against: its pages may be overwritten, and every access takes
//! simulated time.
//!
//! It is no FTL and stands on no chip. Two models of its time:
//!
//! - [`DiskModel::Mechanical`]: seek, rotation, transfer. The page's place gives track and angle. The seek
//!   takes `settle + sqrt(distance) * slope`, where the distance is a share of all tracks and the slope is
//!   such that seeks between random places take `seek_mean` on average: with `x` uniformly distributed
//!   places, the mean of `sqrt(|x - y|)` is 8/15. Then the disk waits until the page comes by (the angle
//!   follows from the simulated time, so an idle disk keeps turning), and reads or writes at the rate of the
//!   medium. What lies behind one another is thus read without a wait.
//! - [`DiskModel::Flat`]: the same time for every access, by page or by sector of 512 bytes, as papers
//!   assume.
//!
//! The pages fill the disk: the store's first page is on its first track and the last one on its last, so
//! that distances are those of a disk that is full of the data. There is no cache and no queue; a write is on
//! the disk when it returns.
//!
//! The numbers of the Seagate Barracuda 7200.7 (ST380011A): 7200 rpm, 683 Mbit/s, mean seek 8.5 ms to read
//! and 9.5 ms to write are published; the settling time of 1.0 ms and the shape of the curve are our
//! assumption.

use crate::nand::Cause;
use crate::store::ram::RamStore;
use crate::store::{PageStore, StoreError};
use crate::units::{Lpn, Nanos};

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;

/// How long the disk takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskModel {
    /// Seek, rotation and transfer.
    Mechanical(Mechanics),
    /// A model with the same time for every access.
    Flat {
        /// The time of a read.
        read_ns: u64,
        /// The time of a write.
        write_ns: u64,
        /// Whether each sector of 512 bytes takes that long, or each page.
        per_sector: bool,
    },
}

/// The moving parts of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanics {
    /// Time of one turn.
    pub turn_ns: u64,
    /// Bytes that pass the head in one turn.
    pub track_bytes: u64,
    /// The part of every seek to another track that does not depend on the distance.
    pub settle_ns: u64,
    /// Mean time of a seek between random places before a read.
    pub seek_mean_read_ns: u64,
    /// The mean seek before a write, which needs to be more exact.
    pub seek_mean_write_ns: u64,
}

impl DiskModel {
    /// The Barracuda 7200.7 with its mechanics.
    pub const BARRACUDA: DiskModel = DiskModel::Mechanical(Mechanics {
        turn_ns: 8_333_333,
        // 683 Mbit/s for 1/120 s.
        track_bytes: 711_458,
        settle_ns: 1_000_000,
        seek_mean_read_ns: 8_500_000,
        seek_mean_write_ns: 9_500_000,
    });

    /// 12.7 ms to read a page and 13.7 ms to write one: mean seek and half a turn of that disk.
    pub const FLAT_PAGE: DiskModel =
        DiskModel::Flat { read_ns: 12_700_000, write_ns: 13_700_000, per_sector: false };

    /// 12.4 ms for each sector, read or written.
    pub const FLAT_SECTOR: DiskModel =
        DiskModel::Flat { read_ns: 12_400_000, write_ns: 12_400_000, per_sector: true };
}

/// The counters of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Pages read.
    pub page_reads: u64,
    /// Pages written.
    pub page_writes: u64,
    /// Accesses that had to move the head to another track.
    pub seeks: u64,
}

/// The disk.
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
    /// A disk of so many pages, all of them zeros.
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

    /// Lets the disk stand idle until then: it goes on turning.
    pub fn idle_until(&mut self, time: Nanos) {
        self.time = self.time.max(time);
    }

    /// The counters of the disk so far.
    pub fn counters(&self) -> DiskCounters {
        self.counters
    }

    /// Books an access that came to pass.
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
        // To where the next page begins, so that roundings do not make the head miss it.
        let end = start + self.page_bytes;
        let turns = end / m.track_bytes - track;
        let end_ns = turns * m.turn_ns + scaled(end % m.track_bytes, m.turn_ns, m.track_bytes);
        self.time += Nanos(wait_ns + (end_ns - angle_ns));
        // A page that ends on the next track leaves the head there: that move is part of reading on.
        self.head_track = end / m.track_bytes;
    }
}

/// `value * numerator / denominator` without overflow.
fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    (u128::from(value) * u128::from(numerator) / u128::from(denominator)) as u64
}

/// Time of a seek over so many of all tracks.
fn seek_ns(settle_ns: u64, mean_ns: u64, distance: u64, tracks: u64) -> u64 {
    // The root of the distance as a share of all tracks, in millionths.
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

    /// Takes no time: a disk has nothing to drop, the pages are zeros in the model only.
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

    /// The computer's RAM that a disk needs: none; its pages are in memory only here.
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
