//! The log of a buffered tree: two areas at the end of the store, one of which is the log while the other
//! awaits its compaction.
//!
//! ```text
//! store  | superblock, root, nodes ...                     | area 1: .. 2 1 0 | area 0: .. 2 1 0 |
//! ```
//!
//! Each area is a log of records (`log/records.rs`). A compaction writes what is still needed into the other
//! area, page 0 last; with that page the other area has the higher epoch and is the log. Before that a power
//! cut leaves the old one. Every run begins with a record of how many operations are past, so that their
//! numbers never come again.

use super::record::{FLUSHED, NodeRecords, PAST, RecordHead, label};
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{CheckReport, IndexError, Invariant};
use nandex::nand::Cause;
use nandex::record_log::{Found, Layout, Mark, RecordLog, locate};
use nandex::spatial::node::{NodeFormat, NodeId, ROOT};
use nandex::store::slice::{Slice, divide};
use nandex::store::{PageStore, StoreError};

/// Largest number of an operation. At one operation a microsecond it is reached after two years.
pub(super) const OPERATIONS_MAX: u64 = 1 << 46;

/// Upper bound of epochs. No log is compacted as often.
const EPOCHS_MAX: u64 = 1 << 62;

/// The two areas of the log, and which of them is current.
pub(super) struct NodeLog<S> {
    areas: [RecordLog<Slice<S>, NodeRecords>; 2],
    current: usize,
    next_epoch: u64,
    pub(super) counts: LogCounts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogCounts {
    pub(super) records: u64,
    pub(super) compactions: u64,
    pub(super) replayed_records: u64,
}

/// Called with each record: its head and its modification.
pub(super) type Take<'a> = &'a mut dyn FnMut(RecordHead, &[u8]) -> Result<(), IndexError>;

/// A store divided into the slice of the nodes and the log.
pub(super) type Parts<S> = (Slice<S>, NodeLog<S>);

/// Divides a store for a new tree and makes an empty log, with areas of `layout.pages` pages.
pub(super) fn format<S: PageStore>(store: S, layout: Layout) -> Result<Parts<S>, IndexError> {
    let (nodes, mut log) = parts(store, layout)?;
    log.areas[1].trim_all()?;
    log.areas[0].trim_all()?;
    let past = RecordHead { is_last: true, operation: 0, node: ROOT };
    log.areas[0].append(|record| past.put(&[PAST], record))?;
    log.areas[0].sync()?;
    Ok((nodes, log))
}

/// Divides the store of an existing tree, as recorded in its log.
pub(super) fn mount<S: PageStore>(mut store: S) -> Result<Parts<S>, IndexError> {
    let (first, layout) = locate::<NodeRecords>(&mut store)?;
    if u64::from(layout.pages) * 2 >= u64::from(store.page_count()) || layout.page_records == 0 {
        return Err(IndexError::broken(Invariant::J1, "the log says that it is larger than the store", 0));
    }
    let (nodes, mut log) = parts(store, layout)?;
    let mut page = vec![0; nodes.page_bytes()];
    log.next_epoch = first.epoch.saturating_add(1);
    let mut newest = first.epoch;
    // A compaction that was cut left its page 1, if not its page 0, with an epoch that must not come again.
    for (area, number) in [(0, 1), (1, 0), (1, 1)] {
        if number >= layout.pages {
            continue;
        }
        match log.areas[area].read(number, Cause::Recovery, &mut page)? {
            Found::Page(header, found) if found == layout && header.number == number => {
                log.next_epoch = log.next_epoch.max(header.epoch.saturating_add(1));
                if number == 0 && header.epoch > newest {
                    (newest, log.current) = (header.epoch, area);
                }
            }
            Found::Damaged if number == 0 => {
                return Err(IndexError::broken(Invariant::J1, "the other log's first page is damaged", 0));
            }
            _ => {}
        }
    }
    if log.next_epoch > EPOCHS_MAX {
        return Err(IndexError::broken(Invariant::J1, "the log was begun anew more often than it can be", 0));
    }
    Ok((nodes, log))
}

fn parts<S: PageStore>(store: S, layout: Layout) -> Result<Parts<S>, IndexError> {
    let below = store.page_count() - 2 * layout.pages;
    let mut slices = divide(store, &[below, layout.pages, layout.pages])?.into_iter();
    let (Some(nodes), Some(one), Some(zero)) = (slices.next(), slices.next(), slices.next()) else {
        unreachable!("a store divided in three");
    };
    let areas = [zero, one].map(|area| RecordLog::empty(area, layout, 1));
    Ok((nodes, NodeLog { areas, current: 0, next_epoch: 2, counts: LogCounts::default() }))
}

/// The layout of this tree's log. `None` if it is impossible.
pub(super) fn layout(format: &NodeFormat, pages: u32, page_bytes: usize) -> Option<Layout> {
    Layout::new::<NodeRecords>(label(format), pages, page_bytes)
}

impl<S: PageStore> NodeLog<S> {
    fn log(&mut self) -> &mut RecordLog<Slice<S>, NodeRecords> {
        &mut self.areas[self.current]
    }

    pub(super) fn layout(&self) -> Layout {
        self.areas[0].layout()
    }

    /// Number of records that still fit into the log.
    pub(super) fn room(&self) -> u64 {
        self.areas[self.current].room()
    }

    pub(super) fn used_pages(&self) -> u32 {
        self.areas[self.current].used_pages()
    }

    pub(super) fn page_writes(&self) -> u64 {
        self.areas.iter().map(RecordLog::page_writes).sum()
    }

    pub(super) fn mark(&self) -> Mark {
        self.areas[self.current].mark()
    }

    pub(super) fn drop_since(&mut self, mark: Mark) {
        self.log().drop_since(mark);
    }

    pub(super) fn append(&mut self, head: RecordHead, modification: &[u8]) -> Result<(), StoreError> {
        self.log().append(|record| head.put(modification, record))?;
        self.counts.records += 1;
        Ok(())
    }

    /// Logs for each of these nodes that its page holds all changes up to `operation`. If the log has no
    /// room, the records are left out, because the pages say so as well.
    pub(super) fn append_flushed(&mut self, nodes: &[NodeId], operation: u64) -> Result<(), StoreError> {
        for &node in nodes {
            if self.room() == 0 {
                break;
            }
            let mark = self.mark();
            match self.append(RecordHead { is_last: true, operation, node }, &[FLUSHED]) {
                Err(error) if error.is_refusal() => self.drop_since(mark),
                done => done?,
            }
        }
        Ok(())
    }

    /// Makes all records so far durable.
    pub(super) fn force(&mut self) -> Result<(), StoreError> {
        self.log().force()
    }

    /// Begins the log anew with the modifications that are still needed.
    pub(super) fn compact<'a>(
        &mut self,
        last_operation: u64,
        needed: impl Iterator<Item = (NodeId, u64, &'a [u8])>,
    ) -> Result<(), StoreError> {
        let other = 1 - self.current;
        let epoch = self.next_epoch;
        self.next_epoch += 1;
        let log = &mut self.areas[other];
        log.start_withheld(epoch);
        let past = RecordHead { is_last: true, operation: last_operation, node: ROOT };
        log.append(|record| past.put(&[PAST], record))?;
        for (node, operation, modification) in needed {
            let head = RecordHead { is_last: true, operation, node };
            log.append(|record| head.put(modification, record))?;
        }
        log.complete()?;
        self.current = other;
        self.counts.compactions += 1;
        Ok(())
    }

    /// Reads the log and shows its records, the oldest first. Of each operation all records are shown or
    /// none. Returns the highest number of an operation.
    pub(super) fn replay(&mut self, page_count: u32, take: Take<'_>) -> Result<u64, IndexError> {
        let log = self.log();
        let newest = match log.read(0, Cause::Recovery, &mut vec![0; log.page_bytes()])? {
            Found::Page(header, _) => header.epoch,
            _ => {
                return Err(IndexError::broken(Invariant::J1, "the log's first page is damaged", 0));
            }
        };
        let mut reader = Reader {
            record_bytes: log.layout().record_bytes,
            page_count,
            in_hand: Vec::new(),
            operation: 0,
            last_operation: 0,
            done: Ok(()),
        };
        log.resume(newest, &mut |records| {
            if reader.done.is_ok() {
                reader.done = reader.records(records, take);
            }
        })?;
        reader.done?;
        Ok(reader.last_operation)
    }

    /// Checks the pages of the log.
    pub(super) fn check(&mut self, report: &mut CheckReport) -> Result<(), StoreError> {
        self.log().check(report)
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.areas.iter().map(RecordLog::ram_bytes).sum()
    }

    /// Bytes of RAM that the log takes at most.
    pub(super) const fn ram_bytes_max(page_bytes: usize) -> usize {
        3 * page_bytes + 2 * size_of::<RecordLog<Slice<S>, NodeRecords>>()
    }

    pub(super) fn give_up(self) {}
}

/// The state of a reading of the log.
struct Reader {
    record_bytes: usize,
    page_count: u32,
    /// Records of an operation whose last record has not been read yet.
    in_hand: Vec<u8>,
    operation: u64,
    last_operation: u64,
    done: Result<(), IndexError>,
}

impl Reader {
    fn records(&mut self, records: &[u8], take: Take<'_>) -> Result<(), IndexError> {
        for record in records.chunks_exact(self.record_bytes) {
            let (head, modification) = RecordHead::of(record);
            if head.node < ROOT || head.node.0 >= self.page_count {
                let what = "the log tells of a node that cannot be";
                return Err(IndexError::broken(Invariant::B1, what, u64::from(head.node.0)));
            }
            if head.operation >= OPERATIONS_MAX {
                let what = "more operations than there can be";
                return Err(IndexError::broken(Invariant::B1, what, 0));
            }
            if head.operation != self.operation {
                self.in_hand.clear();
            }
            self.operation = head.operation;
            self.last_operation = self.last_operation.max(head.operation);
            if modification[0] != PAST {
                self.in_hand.extend_from_slice(record);
            }
            if head.is_last {
                let whole = self.in_hand.chunks_exact(self.record_bytes).map(RecordHead::of);
                whole.into_iter().try_for_each(|(head, modification)| take(head, modification))?;
                self.in_hand.clear();
            }
        }
        Ok(())
    }
}
