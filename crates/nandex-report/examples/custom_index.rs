//! A whole index of one's own, in the comparison beside those of Nandex:
//! `cargo run --release -p nandex-report --example custom_index`.
//!
//! Pages of sorted records on any FTL, and in RAM the least key of each page. One page is read and written to
//! insert; a page that is full gives its upper half to a free one, which is written first. So a cut between
//! the two writes leaves records twice, and the next mount drops those of the lower page.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use nandex::check::{CheckReport, Invariant};
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::nand::catalogue;
use nandex::ordered::{Direction, Durability, IndexStats, OrderedIndex, RecordFormat, Visit};
use nandex::{Cause, IndexError, Lpn, Nand, PageStore, StoreError};
use nandex_lab::compare::{Class, Comparison, Ordered, Source, Watch};
use nandex_lab::registry::{self, Confidence, Hosting, IndexEntry};
use nandex_lab::results::Run;
use nandex_lab::runner::{Control, RunOptions};
use nandex_lab::workload;
use nandex_report::summary::conclusion::conclude;
use nandex_report::table;
use nandex_stacks::options::Settings;
use std::ops::{Bound, ControlFlow, RangeBounds};

/// Records of a page, in key order.
type Page = Vec<(Vec<u8>, Vec<u8>)>;

struct SortedPages<S> {
    store: S,
    record: RecordFormat,
    /// The least key that a page may hold, with the page; in key order.
    directory: Vec<(Vec<u8>, Lpn)>,
    free: Vec<Lpn>,
    /// A split failed half-way: a mount puts it right.
    is_interrupted: bool,
}

impl<S: PageStore> SortedPages<S> {
    fn format(mut store: S, record: RecordFormat) -> Result<Self, IndexError> {
        let free: Vec<Lpn> = (0..store.page_count()).map(Lpn).collect();
        free.iter().try_for_each(|lpn| store.trim(*lpn))?;
        store.sync()?;
        Ok(SortedPages { store, record, directory: Vec::new(), free, is_interrupted: false })
    }

    fn mount(store: S, record: RecordFormat) -> Result<Self, IndexError> {
        let (directory, free) = (Vec::new(), Vec::new());
        let mut index = SortedPages { store, record, directory, free, is_interrupted: false };
        for lpn in (0..index.store.page_count()).map(Lpn) {
            match index.read(lpn, Cause::Recovery)?.first() {
                Some((least, _)) => index.directory.push((least.clone(), lpn)),
                None => index.free.push(lpn),
            }
        }
        index.directory.sort();
        // What a cut left twice is dropped before anything else changes.
        for (lower, upper) in (1..index.directory.len()).map(|upper| (upper - 1, upper)) {
            let (lpn, bound) = (index.directory[lower].1, index.directory[upper].0.clone());
            let page = index.read(lpn, Cause::Recovery)?;
            let kept = page.partition_point(|(key, _)| *key < bound);
            if kept < page.len() {
                index.write(lpn, &page[..kept])?;
            }
        }
        Ok(index)
    }

    /// A page: the number of records, then each as key and value.
    fn read(&mut self, lpn: Lpn, cause: Cause) -> Result<Page, IndexError> {
        let mut bytes = vec![0; self.store.page_bytes()];
        self.store.read(lpn, cause, &mut bytes)?;
        let (count, key_bytes) = (u16::from_le_bytes([bytes[0], bytes[1]]), self.record.key_bytes.into());
        if usize::from(count) > self.capacity() {
            return Err(IndexError::corrupted("more records than fit", lpn.0.into()));
        }
        let records = bytes[2..].chunks_exact(self.record.entry_bytes()).take(count.into());
        Ok(records.map(|record| record.split_at(key_bytes)).map(|(k, v)| (k.to_vec(), v.to_vec())).collect())
    }

    fn write(&mut self, lpn: Lpn, records: &[(Vec<u8>, Vec<u8>)]) -> Result<(), StoreError> {
        let mut bytes = (records.len() as u16).to_le_bytes().to_vec();
        records.iter().for_each(|(key, value)| bytes.extend(key.iter().chain(value)));
        bytes.resize(self.store.page_bytes(), 0);
        self.store.write(lpn, Cause::Host, &bytes)
    }

    fn capacity(&self) -> usize {
        (self.store.page_bytes() - 2) / self.record.entry_bytes()
    }

    /// Position in the directory of the page for a key, and the records of the page; `None` in an empty
    /// index.
    fn find(&mut self, key: &[u8]) -> Result<Option<(usize, Lpn, Page)>, IndexError> {
        self.record.check_key(key)?;
        if self.is_interrupted {
            return Err(IndexError::Interrupted);
        }
        let at = self.directory.partition_point(|(least, _)| &least[..] <= key).saturating_sub(1);
        let Some(&(_, lpn)) = self.directory.get(at) else { return Ok(None) };
        Ok(Some((at, lpn, self.read(lpn, Cause::Host)?)))
    }

    fn take_free(&mut self) -> Result<Lpn, StoreError> {
        self.free.pop().ok_or(StoreError::Full)
    }
}

impl<S: PageStore> OrderedIndex for SortedPages<S> {
    fn record(&self) -> RecordFormat {
        self.record
    }

    fn durability(&self) -> Durability {
        Durability::on(&self.store, 1)
    }

    fn get(&mut self, key: &[u8], value: &mut [u8]) -> Result<bool, IndexError> {
        let Some((_, _, page)) = self.find(key)? else { return Ok(false) };
        let found = page.binary_search_by(|(k, _)| k[..].cmp(key));
        found.iter().for_each(|&i| value.copy_from_slice(&page[i].1));
        Ok(found.is_ok())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool, IndexError> {
        self.record.check_value(value)?;
        let record = (key.to_vec(), value.to_vec());
        let Some((at, lpn, mut page)) = self.find(key)? else {
            let lpn = self.take_free()?;
            self.write(lpn, &[record])?;
            self.directory.push((key.to_vec(), lpn));
            return Ok(false);
        };
        let place = page.binary_search_by(|(k, _)| k[..].cmp(key));
        match place {
            Ok(i) => page[i] = record,
            Err(i) => page.insert(i, record),
        }
        if page.len() > self.capacity() {
            let upper = page.split_off(page.len() / 2);
            let beside = self.take_free()?;
            self.write(beside, &upper)?;
            self.is_interrupted = true;
            self.write(lpn, &page)?;
            self.is_interrupted = false;
            self.directory.insert(at + 1, (upper[0].0.clone(), beside));
        } else {
            self.write(lpn, &page)?;
        }
        self.directory[at].0 = page[0].0.clone();
        Ok(place.is_ok())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, IndexError> {
        let Some((at, lpn, mut page)) = self.find(key)? else { return Ok(false) };
        let Ok(i) = page.binary_search_by(|(k, _)| k[..].cmp(key)) else { return Ok(false) };
        page.remove(i);
        self.write(lpn, &page)?;
        if page.is_empty() {
            self.directory.remove(at);
            self.free.push(lpn);
        }
        Ok(true)
    }

    fn range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        let from = match low {
            Bound::Included(key) | Bound::Excluded(key) => self.find(key)?.map_or(0, |(at, ..)| at),
            Bound::Unbounded => 0,
        };
        let holds = |low, key: &[u8]| <(_, _) as RangeBounds<[u8]>>::contains(&(low, high), key);
        let mut pages: Vec<_> = self.directory[from..]
            .iter()
            .take_while(|(least, _)| holds(Bound::Unbounded, least))
            .cloned()
            .collect();
        if direction == Direction::Descending {
            pages.reverse();
        }
        for (_, lpn) in pages {
            let mut page = self.read(lpn, Cause::Host)?;
            page.retain(|(key, _)| holds(low, key));
            if direction == Direction::Descending {
                page.reverse();
            }
            if page.iter().any(|(key, value)| visit(key, value) == ControlFlow::Break(())) {
                break;
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        Ok(self.store.sync()?)
    }

    fn check(&mut self) -> Result<CheckReport, IndexError> {
        let mut report = CheckReport::default();
        let mut last: Option<Vec<u8>> = None;
        for (_, lpn) in self.directory.clone() {
            report.nodes += 1;
            for (key, _) in self.read(lpn, Cause::Check)? {
                report.records += 1;
                if last.as_ref().is_some_and(|last| *last >= key) {
                    report.violation(Invariant::P1, lpn.0.into(), format!("{key:?} does not ascend"));
                }
                last = Some(key);
            }
        }
        Ok(report)
    }

    fn stats(&self) -> IndexStats {
        IndexStats { height: 1, live_pages: self.directory.len() as u64, ..IndexStats::default() }
    }

    fn ram_bytes(&self) -> usize {
        // The directory at its largest, and a page in hand.
        let entry = size_of::<(Vec<u8>, Lpn)>() + usize::from(self.record.key_bytes);
        self.store.ram_bytes() + self.store.page_count() as usize * entry + self.store.page_bytes()
    }
}

/// Entry that adds the index to the registry's list.
static SORTED_PAGES: IndexEntry = IndexEntry {
    name: "sorted-pages",
    summary: "pages of sorted records, their least keys in RAM",
    confidence: Confidence::High,
    basis: "written here",
    needs: &[],
    parts: &[],
    holds: nandex_lab::registry::Holds::Records,
    hosting: Hosting::Store,
    format: |nand, settings| {
        let store = PageMapFtl::format(nand, &FtlConfig::default())?;
        boxed(SortedPages::format(store, settings.record)?, settings)
    },
    mount: |nand, settings| {
        let store = PageMapFtl::mount(nand, &FtlConfig::default())?;
        boxed(SortedPages::mount(store, settings.record)?, settings)
    },
    mount_after_cut: None,
    forest: None,
    divides_chip: false,
    options: &[],
    options_on_ftl: &[],
};

fn boxed(
    index: SortedPages<PageMapFtl<Box<dyn Nand>>>,
    settings: &Settings,
) -> Result<Box<dyn OrderedIndex>, IndexError> {
    match (settings.ram_bytes, index.ram_bytes()) {
        (Some(given), needed) if needed > given => {
            Err(IndexError::TooLittleRam { what: "the pages' keys and the FTL", given, needed })
        }
        _ => Ok(Box::new(index)),
    }
}

/// A progress listener that does nothing.
struct Alone;

impl Watch for Alone {
    fn start(&self, _: u64) {}
    fn finished(&self, _: &Run) {}
}

fn comparison() -> Comparison<Ordered> {
    let mut settings = Settings::new(RecordFormat::new(8, 8)).with("records", "20000");
    settings.ram_bytes = Some(1 << 20);
    Comparison {
        part: catalogue::mlc_64m(),
        contest: Ordered {
            source: Source::Generator(workload::workload("mu").unwrap()),
            indexes: vec![&SORTED_PAGES, registry::index("bplus").unwrap(), registry::index("mu").unwrap()],
            suits_chip: false,
            loads_at_once: false,
        },
        classes: vec![Class { durability: Durability::EveryOperation, sync_every: None }],
        settings,
        seeds: vec![1],
        run: RunOptions::default(),
        threads: 2,
        command: "cargo run --example custom_index".into(),
    }
}

fn main() {
    let mut results = comparison().run(&Control::default(), &Alone).unwrap();
    conclude(&mut results);
    println!("{}", table::render(&results, 160));
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex_lab::crash::{self, CrashPlan, Target};

    #[test]
    fn it_is_a_row_beside_the_others() {
        let runs = comparison().run(&Control::default(), &Alone).unwrap().runs;
        assert_eq!(runs.len(), 3);
        assert!(runs.iter().all(|run| run.error.is_none()), "{:?}", runs[0].error);
    }

    #[test]
    fn it_loses_nothing_at_any_cut() {
        let plan = CrashPlan {
            operations: 400,
            ..CrashPlan::new(Target::Index(&SORTED_PAGES), Settings::new(RecordFormat::new(8, 8)))
        };
        let report = crash::run(plan, &Control::default()).unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}
