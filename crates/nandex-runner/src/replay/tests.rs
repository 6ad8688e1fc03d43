//! Replays on every store, compared with a model of pages, and checks of the figures.

use super::session::{Work, run};
use super::*;
use crate::block_trace::Request;
use crate::registry::{STORES, store};
use crate::tbm::{self, TBM_STORES};
use nandex::blocks::spare::SPARE_BYTES;
use nandex::nand::{Geometry, catalogue};
use nandex::store::ram::RamStore;
use nandex::testing::{Call, SINGLE, Store};
use nandex::{Cause, Lpn, PageStore, StoreError};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

fn part() -> Part {
    let mut part = catalogue::mlc_64m();
    part.geometry = Geometry::new(512, 64, 16, 64);
    part
}

fn request(op: BlockOp, offset_bytes: u64, bytes: u64) -> Request {
    Request { op, device: 0, offset_bytes, bytes, time_ns: 0 }
}

fn trace(requests: Vec<Request>) -> BlockTrace {
    BlockTrace { name: "test".to_string(), devices: vec![String::new()], requests, ..BlockTrace::default() }
}

fn replay(requests: Vec<Request>, devices: Vec<Device>) -> Replay {
    Replay {
        part: part(),
        trace: trace(requests),
        trace_file: "test.csv".to_string(),
        devices,
        placing: Placing::Compact,
        fill: Fill::None,
        ram_bytes: None,
        options: Options::default(),
        threads: 2,
        command: String::new(),
    }
}

fn everything() -> Vec<Device> {
    STORES.iter().chain(TBM_STORES).map(Device::Ftl).chain(DISKS.iter().map(Device::Disk)).collect()
}

/// Calls to a store: the kind, the page, and the bytes of a write.
type Log = Arc<Mutex<Vec<(char, u32, Vec<u8>)>>>;

/// A device in RAM that logs the calls to it.
fn logged(log: &Log) -> Device {
    let log = Arc::clone(log);
    let open = move |bytes, pages| -> Result<(Box<dyn PageStore>, Vec<String>), String> {
        let (store, log) = (Store::new(bytes, pages).with_promise(SINGLE), Arc::clone(&log));
        store.on_call(move |call| {
            let mut log = log.lock().unwrap();
            match call {
                Call::Read(lpn, _) => log.push(('R', lpn.0, Vec::new())),
                Call::Write(pages, _) => {
                    log.extend(pages.iter().map(|(lpn, data)| ('W', lpn.0, data.to_vec())));
                }
                Call::Trim(lpn) => log.push(('T', lpn.0, Vec::new())),
                Call::Sync | Call::Checkpoint => {}
            }
            Ok(())
        });
        Ok((Box::new(store), Vec::new()))
    };
    Device::Own { name: "logged".to_string(), open: Box::new(open) }
}

/// The calls that requests make to pages of 512 bytes at their own addresses, in the plainest statement of
/// the rules.
fn model(requests: &[Request]) -> Vec<(char, u32)> {
    let mut done = Vec::new();
    for r in requests {
        let end = r.offset_bytes + r.bytes;
        for page in r.offset_bytes / 512..end.div_ceil(512) {
            let whole = r.offset_bytes <= page * 512 && (page + 1) * 512 <= end;
            match r.op {
                BlockOp::Read => done.push(('R', page as u32)),
                BlockOp::Write if whole => done.push(('W', page as u32)),
                BlockOp::Write => done.extend([('R', page as u32), ('W', page as u32)]),
                BlockOp::Trim if whole => done.push(('T', page as u32)),
                BlockOp::Trim => {}
            }
        }
    }
    done
}

fn any_request() -> impl Strategy<Value = Request> {
    let op = prop_oneof![4 => Just(BlockOp::Write), 3 => Just(BlockOp::Read), 1 => Just(BlockOp::Trim)];
    (op, 0..400 * 512u64, 1..6 * 512u64, any::<bool>()).prop_map(|(op, offset, bytes, aligned)| {
        let unit = if aligned { 512 } else { 1 };
        request(op, offset / unit * unit, bytes.div_ceil(unit) * unit)
    })
}

proptest! {
    #![proptest_config(crate::inputs::fixed(60))]

    /// A replay makes the calls of the model; the page number follows from the address.
    #[test]
    fn a_replay_does_what_the_model_does(requests in prop::collection::vec(any_request(), 1..60)) {
        let log = Log::default();
        let mut replay = replay(requests.clone(), vec![logged(&log)]);
        replay.placing = Placing::Modulo;
        // Every extent is touched, so that no trim falls into nothing.
        replay.trace.requests.insert(0, request(BlockOp::Read, 0, 512 * 512));
        let results = replay.run(&Control::default()).unwrap();
        prop_assert_eq!(&results.runs[0].error, &None);
        let expected = model(&replay.trace.requests);
        let found: Vec<(char, u32)> = log.lock().unwrap().iter().map(|(kind, lpn, _)| (*kind, *lpn)).collect();
        prop_assert_eq!(found, expected);
        // No two writes left the same bytes: a store that mixed them up would be found out.
        let mut written: Vec<Vec<u8>> =
            log.lock().unwrap().iter().filter(|e| e.0 == 'W').map(|e| [&e.1.to_le_bytes()[..], &e.2].concat()).collect();
        let trimmed = log.lock().unwrap().iter().any(|e| e.0 == 'T');
        let count = written.len();
        written.sort();
        written.dedup();
        prop_assert!(trimmed || written.len() == count);
    }

    /// Every FTL and disk does the same host work, and none loses a page.
    #[test]
    fn every_device_does_the_same_work(requests in prop::collection::vec(any_request(), 1..400)) {
        let results = replay(requests, everything()).run(&Control::default()).unwrap();
        let host = |run: &ReplayRun| {
            [run.requests, run.host_page_reads, run.host_page_writes, run.host_page_trims, run.partial_page_writes]
        };
        for run in &results.runs {
            prop_assert_eq!(&run.error, &None, "{}", run.device);
            prop_assert_eq!(host(run), host(&results.runs[0]));
            let by_cause: u64 = run.causes.values().map(|c| c.page_programs).sum();
            prop_assert_eq!(by_cause, run.page_programs);
            let erases: u64 = run.wear_erases.iter().map(|&e| u64::from(e)).sum();
            prop_assert_eq!(erases, run.block_erases);
            let windows: u64 = run.windows.iter().map(|w| w.host_page_writes).sum();
            prop_assert_eq!(windows, run.host_page_writes);
        }
    }
}

#[test]
fn a_store_that_returns_something_else_is_found_out() {
    struct Forgetful(RamStore);
    impl PageStore for Forgetful {
        fn page_bytes(&self) -> usize {
            self.0.page_bytes()
        }
        fn page_count(&self) -> u32 {
            self.0.page_count()
        }
        fn read(&mut self, lpn: Lpn, cause: Cause, data: &mut [u8]) -> Result<(), StoreError> {
            self.0.read(lpn, cause, data)
        }
        fn write(&mut self, lpn: Lpn, cause: Cause, data: &[u8]) -> Result<(), StoreError> {
            let mut before = vec![0; data.len()];
            self.0.read(lpn, Cause::Check, &mut before)?;
            // Keeps the first contents of a page.
            if before.iter().all(|b| *b == 0) { self.0.write(lpn, cause, data) } else { Ok(()) }
        }
        fn trim(&mut self, lpn: Lpn) -> Result<(), StoreError> {
            self.0.trim(lpn)
        }
        fn sync(&mut self) -> Result<(), StoreError> {
            Ok(())
        }
        fn durable_writes(&self) -> bool {
            true
        }
        fn prefix_consistent(&self) -> bool {
            true
        }
        fn ram_bytes(&self) -> usize {
            0
        }
    }
    let open = |bytes, pages| -> Result<(Box<dyn PageStore>, Vec<String>), String> {
        Ok((Box::new(Forgetful(RamStore::new(bytes, pages))), vec!["a note".to_string()]))
    };
    let own = || Device::Own { name: "forgetful".to_string(), open: Box::new(open) };
    let write = request(BlockOp::Write, 0, 512);
    let read = request(BlockOp::Read, 0, 512);
    let results = replay(vec![write, read], vec![own()]).run(&Control::default()).unwrap();
    assert_eq!((results.runs[0].error.clone(), results.runs[0].clock.as_str()), (None, "wall clock"));
    assert_eq!(results.runs[0].notes, ["a note"]);
    let results = replay(vec![write, write, read], vec![own()]).run(&Control::default()).unwrap();
    let run = &results.runs[0];
    assert_eq!(
        run.error.as_deref(),
        Some("request 3 of the trace: read of lpn 0: it is not what was written last")
    );
    assert_eq!(run.requests, 2, "what was done before is kept");
}

#[test]
fn figures_of_a_run_that_can_be_done_by_hand() {
    // Two writes of one page and a read: 2 programs, 1 read, times of the chip.
    let mut requests = vec![request(BlockOp::Write, 0, 512); 2];
    requests.push(request(BlockOp::Read, 0, 512));
    for (i, request) in requests.iter_mut().enumerate() {
        request.time_ns = i as u64 * 1000;
    }
    let mut replay = replay(requests, vec![Device::Ftl(store("page-map").unwrap())]);
    replay.trace.has_times = true;
    let results = replay.run(&Control::default()).unwrap();
    let run = &results.runs[0];
    let part = part();
    // Of the spare area, the FTL reads its header only.
    let (program, read) = (part.page_program_ns(), part.timing.page_read_ns(512 + SPARE_BYTES));
    assert_eq!((run.page_programs, run.page_reads, run.block_erases), (2, 1, 0));
    assert_eq!(run.causes["host"].page_programs, 2);
    assert_eq!((run.write_amplification, run.host_page_writes, run.host_page_reads), (1.0, 2, 1));
    assert_eq!((run.latency.max_ns, run.latency.p50_ns), (program, program));
    assert_eq!(run.latency_cdf.last(), Some(&(program, 1.0)));
    let waits = [program, 2 * program - 1000, 2 * program + read - 2000];
    assert_eq!(run.response.unwrap().mean_ns, waits.iter().sum::<u64>() / 3);
    assert_eq!((results.trace.duration_ns, run.windows.len()), (Some(2000), 59));
    let picture = run.picture.as_ref().unwrap();
    assert_eq!(picture.count(picture::PageLook::Valid), 1);
    assert!(run.mapping_bytes > 0 && run.ram_bytes >= run.mapping_bytes);
}

#[test]
fn filling_is_not_counted_and_makes_reads_cost() {
    let read = request(BlockOp::Read, 0, 16 * 512);
    let device = || vec![Device::Ftl(store("page-map").unwrap())];
    let new = replay(vec![read], device()).run(&Control::default()).unwrap();
    assert_eq!((new.runs[0].page_reads, new.runs[0].host_page_reads), (0, 16));
    for fill in [Fill::Touched, Fill::All] {
        let used = Replay { fill, ..replay(vec![read], device()) }.run(&Control::default()).unwrap();
        let run = &used.runs[0];
        assert_eq!((run.page_reads, run.host_page_writes, run.page_programs), (16, 0, 0), "{fill:?}");
        let valid = run.picture.as_ref().unwrap().count(picture::PageLook::Valid);
        assert_eq!(valid, if fill == Fill::All { used.pages } else { 16 });
    }
}

#[test]
fn ram_and_options_are_kept_to() {
    let write = request(BlockOp::Write, 0, 512);
    let mut small = replay(vec![write], vec![Device::Ftl(store("page-map").unwrap())]);
    small.ram_bytes = Some(100);
    let results = small.run(&Control::default()).unwrap();
    let error = results.runs[0].error.as_deref().unwrap();
    assert!(error.contains("100 were given"), "{error}");
    small.options.set("over_provisioning", "100");
    small.ram_bytes = None;
    let roomy = small.run(&Control::default()).unwrap();
    assert!(roomy.pages < results.pages, "{} of {}", roomy.pages, results.pages);
    small.options.set("over_provisionig", "100");
    assert!(
        small.run(&Control::default()).unwrap_err().to_string().contains("did you mean 'over_provisioning'?")
    );
}

#[test]
fn cancelling_ends_every_run() {
    let replay = replay(vec![request(BlockOp::Write, 0, 512); 1000], everything());
    let control = Control::default();
    control.cancel();
    let results = replay.run(&control).unwrap();
    assert!(
        results.runs.iter().all(|run| run.error.as_deref() == Some("request 256 of the trace: cancelled")
            || run.error.as_deref() == Some("cancelled")),
        "{:?}",
        results.runs[0].error
    );
    assert_eq!(control.done(), control.planned());
}

#[test]
fn files_hold_a_row_for_each_device() {
    let results =
        replay(vec![request(BlockOp::Write, 0, 512); 3], everything()).run(&Control::default()).unwrap();
    let mut csv = Vec::new();
    write_csv(&results, &mut csv).unwrap();
    let mut reader = csv::Reader::from_reader(&csv[..]);
    let heads = reader.headers().unwrap().clone();
    assert_eq!(heads.len(), COLUMNS.len() + 24);
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let ftls = STORES.len() + TBM_STORES.len();
    assert_eq!(rows.len(), ftls + DISKS.len());
    let cell = |row: usize, name: &str| rows[row][heads.iter().position(|h| h == name).unwrap()].to_string();
    assert_eq!((cell(0, "page_programs"), cell(0, "page_programs_host")), ("3".to_string(), "3".to_string()));
    assert_eq!(cell(ftls, "page_programs"), "", "a disk programs nothing");
    assert_eq!((cell(0, "conversions"), cell(STORES.len(), "conversions")), (String::new(), "0".to_string()));
    let mut json = Vec::new();
    write_json(&results, &mut json).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["runs"][0]["page_programs"], 3);
}

#[test]
fn a_device_of_another_size_is_refused() {
    let open = |bytes, _| -> Result<(Box<dyn PageStore>, Vec<String>), String> {
        Ok((Box::new(RamStore::new(bytes, 3)), Vec::new()))
    };
    let device = Device::Own { name: "small".to_string(), open: Box::new(open) };
    let replay = replay(vec![request(BlockOp::Write, 0, 512)], vec![]);
    let shape = PageShape { page_bytes: 512, pages_per_block: 16, pages: 64 };
    let placement = Placement::new(&replay.trace, shape, Placing::Compact).unwrap();
    let control = Control::default();
    let work = Work { replay: &replay, placement: &placement, fill: &[], control: &control };
    let error = run(&work, &device, &Options::default()).error.unwrap();
    assert!(error.contains("3 pages of 512 bytes"), "{error}");
}

#[test]
fn a_tbm_in_front_is_counted_by_hand() {
    // Blocks of 16 pages, two buffer blocks. 16 writes of page 0 fill the buffer block of logical block 0;
    // the 17th has it converted and goes into another one. Pages 16 and 32 are of two other logical blocks:
    // the second of them needs a victim, and both buffer blocks hold a page; the one unchanged for longest
    // goes.
    let write = |page: u64| request(BlockOp::Write, page * 512, 512);
    let mut requests = vec![write(0); 17];
    requests.extend([
        write(16),
        write(32),
        request(BlockOp::Read, 0, 512),
        request(BlockOp::Read, 16 * 512, 512),
    ]);
    let devices = ["page-map", "tbm+page-map"].map(|name| Device::Ftl(tbm::find(name).unwrap())).into();
    let mut replay = replay(requests, devices);
    replay.options.set("tbm_blocks", "2");
    let results = replay.run(&Control::default()).unwrap();
    let [alone, behind] = &results.runs[..] else { panic!("two devices") };
    assert_eq!((&alone.error, &behind.error), (&None, &None));
    assert_eq!((alone.division, alone.conversions, alone.page_programs), (None, 0, 19));
    let division = behind.division.unwrap();
    assert_eq!((division.ftl_blocks, division.buffer_blocks, division.spare_blocks), (60, 2, 2));
    assert_eq!((behind.conversions, behind.converted_pages, behind.dropped_pages), (2, 2, 15));
    // Each write is a program in a buffer block, each page converted one below; a converted block is erased.
    assert_eq!((behind.page_programs, behind.block_erases), (19 + 2, 2));
    // Two reads of the host, one of each page converted.
    assert_eq!((alone.page_reads, behind.page_reads), (2, 4));
}

#[test]
fn wrong_options_of_a_tbm_end_its_row_and_no_other() {
    let devices = || ["fast", "tbm+fast"].map(|name| Device::Ftl(tbm::find(name).unwrap())).into();
    for (option, value, why) in [
        ("tbm_blocks", 0, "tbm_blocks = 0, tbm_spare_blocks = 2: 1 and 2 at least are possible"),
        ("tbm_blocks", 63, "66 blocks for the TBM leave none of 64 for the FTL"),
        ("tbm_blocks", 55, "fast on the 6 blocks that the TBM leaves: the FTL alone needs"),
        ("whole_from", 17, "whole_from = 17: a block has 16 pages"),
    ] {
        let mut replay = replay(vec![request(BlockOp::Write, 0, 512)], devices());
        replay.options.set(option, &value.to_string());
        let results = replay.run(&Control::default()).unwrap();
        assert_eq!(results.runs[0].error, None, "{option}={value}");
        let error = results.runs[1].error.as_deref().unwrap();
        assert!(error.contains(why), "{option}={value}: {error}");
    }
    let mut unknown =
        replay(vec![request(BlockOp::Write, 0, 512)], vec![Device::Ftl(store("fast").unwrap())]);
    unknown.options.set("tbm_blocks", "4");
    assert!(unknown.run(&Control::default()).unwrap_err().to_string().contains("no option 'tbm_blocks'"));
}

#[test]
fn a_device_with_options_of_its_own_goes_by_them() {
    let tuned = |name: &str, log_blocks: u32| {
        let mut options = Options::default();
        options.set("log_blocks", &log_blocks.to_string());
        Device::Tuned { name: name.to_string(), entry: store("fast").unwrap(), options }
    };
    let writes = |i: u32| request(BlockOp::Write, u64::from(i.wrapping_mul(2_654_435_761) % 700) * 512, 512);
    let mut replay = replay((0..3000).map(writes).collect(), vec![tuned("few", 2), tuned("many", 6)]);
    replay.fill = Fill::All;
    replay.options.set("log_blocks", "3");
    let results = replay.run(&Control::default()).unwrap();
    let [few, many] = &results.runs[..] else { panic!("two devices") };
    assert_eq!((few.device.as_str(), many.device.as_str()), ("few", "many"));
    assert!(few.error.is_none() && many.error.is_none() && few.page_programs > many.page_programs * 3 / 2);
}
