//! FlashDB: each node in the one of two modes that its accesses make cheaper.
//!
//! S. Nath, A. Kansal, "FlashDB: Dynamic Self-tuning Database for NAND Flash", IPSN 2007; MSR-TR-2006-168. A
//! node in *disk mode* lies whole in one page, which every update writes anew; a node in *log mode* is spread
//! over log pages, which it shares with others, and an update adds one entry to the *log buffer* of one page.
//! Each node changes its mode by itself, by the rule of a two-state task system, so that it never costs more
//! than three times what the best choice would have cost. The *node translation table* lists the pages of
//! each node.
//!
//! The [node layer](crate::unit_layer) has all of it: the log buffer is a reservation buffer of one page, a
//! log page a sector, a log entry a unit; what `log_version` tells there, which entries of a node are stale,
//! a reset tells here.
//!
//! # Deviations and confidence
//!
//! Modes, table, log buffer and the rule: high, from abstracts and an independent implementation of which we
//! know the text. That implementation sums up the costs with the wrong sign; we do as the theory says. Ours:
//! a page in disk mode has its entries as units too, so a node has no more entries than a page has units,
//! less one, and the change to log mode writes nothing (theirs emits one entry per key). A list longer than C
//! is compacted, and where log pages grow too many, the nodes of the oldest (*semi-compaction* there). The
//! nodes of a split or merge are written at once, as one commit. After a mount a node whose list is the page
//! that disk mode wrote is in disk mode, and all sums begin at 0. The checkpoints of the paper are the
//! journal and the scan of this crate.

use super::LayeredConfig;
use crate::unit_layer::CommitPolicy;
use nandex::ordered::RecordFormat;

/// Units in the log buffer; fewer if a page has no room for them.
const LOG_UNITS: u32 = 256;

/// Settings of FlashDB, by our reading.
pub const fn config(record: RecordFormat) -> LayeredConfig {
    let config = LayeredConfig::new(record, CommitPolicy::SelfTuning);
    LayeredConfig { eliminates: false, list_length: 4, reservation_units: LOG_UNITS, ..config }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordered::layered::LayeredTree;
    use crate::unit_layer::{Modes, Tuning};
    use nandex::ordered::OrderedIndex;
    use nandex::rng::Rng;
    use nandex::store::ram::RamStore;

    const RECORDS: u64 = 2_000;

    fn key(n: u64) -> [u8; 4] {
        (n as u32 * 7).to_be_bytes()
    }

    fn tree(tuning: Tuning) -> LayeredTree<RamStore> {
        let config = LayeredConfig { tuning, ..config(RecordFormat::new(4, 4)) };
        let mut index = LayeredTree::format(RamStore::new(512, 1_000), &config).unwrap();
        let mut rng = Rng::new(9);
        for _ in 0..RECORDS {
            index.insert(&key(rng.below(RECORDS)), &[1; 4]).unwrap();
        }
        index.sync().unwrap();
        index
    }

    /// The time of accesses with the latencies of `tuning`, in microseconds. Each phase has its percentage
    /// of searches.
    fn cost_us(tuning: Tuning, modes: Modes, percents: &[u64], hot: u64) -> u64 {
        let mut index = tree(Tuning { modes, ..tuning });
        let before = spent(&index, tuning);
        let mut rng = Rng::new(10);
        for percent in percents {
            for _ in 0..2_500 / percents.len() {
                let key = key(rng.below(hot));
                if rng.chance(*percent, 100) {
                    index.get(&key, &mut [0; 4]).unwrap();
                } else if rng.chance(1, 4) {
                    index.remove(&key).unwrap();
                } else {
                    index.insert(&key, &(rng.next_u64() as u32).to_be_bytes()).unwrap();
                }
            }
        }
        index.sync().unwrap();
        let counts = index.layer().mode_counts();
        // Changing over costs a program at least, and was worth that before.
        let switches = counts.switches_to_disk + counts.switches_to_log;
        assert!(switches * tuning.program_ns <= counts.overpaid_ns, "{counts:?}");
        assert!(index.check().unwrap().is_sound());
        (spent(&index, tuning) - before) / 1_000
    }

    fn spent(index: &LayeredTree<RamStore>, tuning: Tuning) -> u64 {
        let counters = index.layer().store().counters();
        let (reads, writes): (u64, u64) =
            (counters.page_reads.iter().sum(), counters.page_writes.iter().sum());
        reads * tuning.read_ns + writes * tuning.program_ns
    }

    #[test]
    fn it_costs_little_more_than_the_better_of_both_modes_on_any_device_and_load() {
        // Programs cost 5.5 times as much as reads, or 40 times.
        let mlc = Tuning { read_ns: 165_600, program_ns: 905_800, ..Tuning::SLC };
        let dear = Tuning { read_ns: 25_000, program_ns: 1_000_000, ..Tuning::SLC };
        let loads: [(&[u64], u64); 5] = [
            (&[100], RECORDS),
            (&[0], RECORDS / 8),
            (&[50], RECORDS),
            (&[100, 0, 100, 0], RECORDS),
            (&[95, 5, 95, 5, 95, 5], RECORDS / 8),
        ];
        let (mut log_was_better, mut was_best) = (0, 0);
        for (tuning, (load, hot)) in [mlc, dear].into_iter().flat_map(|t| loads.map(|load| (t, load))) {
            let [tuned, log, disk] =
                [Modes::Tuned, Modes::Log, Modes::Disk].map(|modes| cost_us(tuning, modes, load, hot));
            let better = log.min(disk);
            assert!(tuned * 100 <= better * 160, "{load:?}: {tuned}, log {log}, disk {disk}");
            log_was_better += u32::from(log < disk);
            was_best += u32::from(tuned * 10 < better * 9);
        }
        assert!(log_was_better > 2 && was_best > 2, "{log_was_better}, {was_best}");
    }
}
