//! One device with the trace: fill, requests, figures. Every page read is compared with the last write.

use super::device::{Clock, Device};
use super::figures::{Latencies, WINDOWS, Wear, Window, cdf};
use super::picture::Picture;
use super::{Replay, ReplayRun};
use crate::block_trace::place::{PagePart, Placement};
use crate::block_trace::{BlockOp, Request};
use crate::runner::{Control, Failure, Progress, by_cause};
use nandex::nand::sim::Counters;
use nandex::store::StoreStats;
use nandex::{Cause, IndexError, Lpn, Nand, PageStore, Pbn, StoreError};
use nandex_stacks::options::Options;

pub(super) struct Work<'a> {
    pub(super) replay: &'a Replay,
    pub(super) placement: &'a Placement,
    pub(super) fill: &'a [Lpn],
    pub(super) control: &'a Control,
}

pub(super) fn run(work: &Work<'_>, device: &Device, options: &Options) -> ReplayRun {
    let mut result = ReplayRun { device: device.name().to_string(), ..ReplayRun::default() };
    result.division = device.division(options, work.replay.part.geometry);
    let mut progress = Progress::new(work.control);
    let outcome = device
        .open(work.replay, options, work.placement.shape().pages)
        .map_err(Failure::Refused)
        .and_then(|opened| {
            result.clock = opened.clock.name().to_string();
            result.notes = opened.notes;
            let mut session = Session::new(work, opened.store, opened.clock, &mut progress)?;
            let outcome = session.fill().and_then(|()| session.requests(&mut result));
            session.figures(&mut result);
            outcome
        });
    result.error = outcome.err().map(|why| why.to_string());
    progress.end((work.replay.trace.requests.len() + work.fill.len()) as u64);
    result
}

#[derive(Clone, Default)]
struct Reading {
    counters: Counters,
    wear: Vec<u32>,
    energy_pj: u64,
    stats: StoreStats,
}

struct Session<'a, 'p> {
    work: &'a Work<'a>,
    store: Box<dyn PageStore>,
    clock: Clock,
    /// Number of writes of each page; 0 for a page that reads as zeros.
    versions: Vec<u32>,
    page: Vec<u8>,
    start: Reading,
    start_ns: u64,
    latencies_ns: Vec<u64>,
    responses_ns: Vec<u64>,
    progress: &'p mut Progress<'a>,
}

impl<'a, 'p> Session<'a, 'p> {
    fn new(
        work: &'a Work<'a>,
        store: Box<dyn PageStore>,
        clock: Clock,
        progress: &'p mut Progress<'a>,
    ) -> Result<Session<'a, 'p>, Failure> {
        let (page_bytes, shape) = (store.page_bytes(), work.placement.shape());
        if page_bytes != shape.page_bytes as usize || store.page_count() < shape.pages {
            let pages = store.page_count();
            let what = format!("it has {pages} pages of {page_bytes} bytes: {shape:?} is needed");
            return Err(Failure::Refused(what));
        }
        let mut session = Session {
            work,
            store,
            clock,
            versions: vec![0; shape.pages as usize],
            page: vec![0; page_bytes],
            start: Reading::default(),
            start_ns: 0,
            latencies_ns: Vec::with_capacity(work.replay.trace.requests.len()),
            responses_ns: Vec::new(),
            progress,
        };
        session.check_ram()?;
        session.start = session.reading();
        Ok(session)
    }

    fn check_ram(&self) -> Result<(), Failure> {
        match (self.clock.chip(), self.work.replay.ram_bytes) {
            (Some(_), Some(given)) if self.store.ram_bytes() > given => {
                let held = self.store.ram_bytes();
                Err(Failure::Broken(format!("it holds {held} bytes of RAM, {given} were given")))
            }
            _ => Ok(()),
        }
    }

    fn reading(&self) -> Reading {
        let stats = self.store.stats();
        match self.clock.chip() {
            None => Reading { stats, ..Reading::default() },
            Some(chip) => {
                let chip = chip.lock();
                let (counters, wear, energy_pj) = (chip.counters(), chip.wear().to_vec(), chip.energy_pj());
                Reading { counters, wear, energy_pj, stats }
            }
        }
    }

    fn fill(&mut self) -> Result<(), Failure> {
        for &lpn in self.work.fill {
            self.write(lpn).map_err(|why| why.at(format!("filling {lpn}: ")))?;
            self.step()?;
        }
        self.store.sync().map_err(|e| store_failure(e, "the sync after the fill"))?;
        self.start = self.reading();
        self.start_ns = self.clock.now_ns();
        Ok(())
    }

    fn requests(&mut self, result: &mut ReplayRun) -> Result<(), Failure> {
        let trace = &self.work.replay.trace;
        let mut windows =
            Windows::new(if trace.has_times { trace.duration_ns() } else { trace.requests.len() as u64 });
        let (mut parts, mut free_at_ns) = (Vec::new(), 0);
        for (number, request) in trace.requests.iter().enumerate() {
            self.clock.idle_until(self.start_ns + request.time_ns);
            let (before, begin_ns) = (self.done(), self.clock.now_ns());
            let written = result.host_page_writes;
            let outcome = self.request(request, &mut parts, result);
            outcome.map_err(|why| why.at(format!("request {} of the trace: ", number + 1)))?;
            let latency_ns = self.clock.now_ns() - begin_ns;
            self.latencies_ns.push(latency_ns);
            result.requests += 1;
            result.device_time_ns += latency_ns;
            if trace.has_times {
                free_at_ns = request.time_ns.max(free_at_ns) + latency_ns;
                self.responses_ns.push(free_at_ns - request.time_ns);
            }
            let at = if trace.has_times { request.time_ns } else { number as u64 };
            let after = self.done();
            let window = windows.at(at);
            window.host_page_writes += result.host_page_writes - written;
            window.page_programs += after.0 - before.0;
            window.block_erases += after.1 - before.1;
            window.device_time_ns += latency_ns;
            self.step()?;
        }
        result.windows = windows.windows;
        // What still waits in RAM is paid for like the rest.
        let begin_ns = self.clock.now_ns();
        self.store.sync().map_err(|e| store_failure(e, "the sync at the end"))?;
        result.device_time_ns += self.clock.now_ns() - begin_ns;
        Ok(())
    }

    /// Number of programs and erases of the chip so far.
    fn done(&self) -> (u64, u64) {
        self.clock.chip().map_or((0, 0), |chip| {
            let counters = chip.lock().counters();
            (counters.page_programs_total(), counters.block_erases_total())
        })
    }

    fn request(
        &mut self,
        request: &Request,
        parts: &mut Vec<PagePart>,
        result: &mut ReplayRun,
    ) -> Result<(), Failure> {
        self.work.placement.pages(request, parts);
        for part in &*parts {
            match request.op {
                BlockOp::Read => {
                    self.read(part.lpn)?;
                    result.host_page_reads += 1;
                }
                BlockOp::Write => {
                    if !part.whole {
                        self.read(part.lpn)?;
                        result.host_page_reads += 1;
                        result.partial_page_writes += 1;
                    }
                    self.write(part.lpn)?;
                    result.host_page_writes += 1;
                }
                BlockOp::Trim if part.whole => {
                    let trimmed = self.store.trim(part.lpn);
                    trimmed.map_err(|e| store_failure(e, &format!("trim of {}", part.lpn)))?;
                    self.versions[part.lpn.index()] = 0;
                    result.host_page_trims += 1;
                }
                BlockOp::Trim => {}
            }
        }
        Ok(())
    }

    fn read(&mut self, lpn: Lpn) -> Result<(), Failure> {
        let read = self.store.read(lpn, Cause::Host, &mut self.page);
        read.map_err(|e| store_failure(e, &format!("read of {lpn}")))?;
        let expected = stamp(lpn, self.versions[lpn.index()]);
        let (head, tail) = (self.page.first_chunk(), self.page.last_chunk());
        match head == Some(&expected) && tail == Some(&expected) {
            true => Ok(()),
            false => {
                let what = format!("read of {lpn}: it is not what was written last");
                Err(Failure::Broken(what))
            }
        }
    }

    fn write(&mut self, lpn: Lpn) -> Result<(), Failure> {
        let version = self.versions[lpn.index()].checked_add(1);
        let version = version.ok_or(Failure::Refused(String::from("a page was written 2^32 times")))?;
        let stamp = stamp(lpn, version);
        let end = self.page.len() - stamp.len();
        self.page.fill(lpn.0 as u8);
        self.page[..stamp.len()].copy_from_slice(&stamp);
        self.page[end..].copy_from_slice(&stamp);
        let written = self.store.write(lpn, Cause::Host, &self.page);
        written.map_err(|e| store_failure(e, &format!("write of {lpn}")))?;
        self.versions[lpn.index()] = version;
        Ok(())
    }

    /// Counts a finished step; fails if the replay is to stop.
    fn step(&mut self) -> Result<(), Failure> {
        self.progress.step();
        self.progress.go_on()
    }

    fn figures(&mut self, result: &mut ReplayRun) {
        result.latency = Latencies::of(&mut self.latencies_ns);
        result.latency_cdf = cdf(&self.latencies_ns);
        result.response = (!self.responses_ns.is_empty()).then(|| Latencies::of(&mut self.responses_ns));
        let now = self.reading();
        result.switch_merges = now.stats.switch_merges - self.start.stats.switch_merges;
        result.partial_merges = now.stats.partial_merges - self.start.stats.partial_merges;
        result.full_merges = now.stats.full_merges - self.start.stats.full_merges;
        result.collections = now.stats.collections - self.start.stats.collections;
        result.moved_pages = now.stats.moved_pages - self.start.stats.moved_pages;
        result.conversions = now.stats.conversions - self.start.stats.conversions;
        result.converted_pages = now.stats.converted_pages - self.start.stats.converted_pages;
        result.dropped_pages = now.stats.dropped_pages - self.start.stats.dropped_pages;
        result.mapping_bytes = now.stats.mapping_bytes;
        result.ram_bytes = self.store.ram_bytes() as u64;
        self.chip_figures(&now, result);
    }

    fn chip_figures(&mut self, now: &Reading, result: &mut ReplayRun) {
        let Some(chip) = self.clock.chip() else { return };
        let mut chip = chip.lock();
        let done = now.counters.since(&self.start.counters);
        result.has_chip = true;
        result.page_reads = done.page_reads_total();
        result.page_programs = done.page_programs_total();
        result.block_erases = done.block_erases_total();
        result.causes = by_cause(&done);
        result.energy_nj = (now.energy_pj - self.start.energy_pj) / 1000;
        if result.host_page_writes > 0 {
            result.write_amplification = result.page_programs as f64 / result.host_page_writes as f64;
        }
        let before =
            if self.start.wear.is_empty() { vec![0; now.wear.len()] } else { self.start.wear.clone() };
        result.wear_erases = now.wear.iter().zip(before).map(|(now, then)| now - then).collect();
        let bad: Vec<bool> =
            (0..now.wear.len() as u32).map(|pbn| chip.is_bad(Pbn(pbn)).unwrap_or(false)).collect();
        result.bad_blocks = bad.iter().filter(|bad| **bad).count() as u64;
        let good = result.wear_erases.iter().zip(&bad).filter(|(_, bad)| !**bad);
        result.wear = Wear::of(&good.map(|(erases, _)| *erases).collect::<Vec<u32>>());
        result.picture = Some(Picture::of(&chip, &bad, &*self.store));
    }
}

fn store_failure(error: StoreError, at: &str) -> Failure {
    Failure::from(IndexError::from(error)).at(format!("{at}: "))
}

/// The mark at both ends of a page, from which stale and wrong pages are recognized. It is zero for a page
/// that was never written or was trimmed.
fn stamp(lpn: Lpn, version: u32) -> [u8; 8] {
    let mut stamp = [0; 8];
    if version > 0 {
        stamp[..4].copy_from_slice(&lpn.0.to_le_bytes());
        stamp[4..].copy_from_slice(&version.to_le_bytes());
    }
    stamp
}

struct Windows {
    windows: Vec<Window>,
    width: u64,
}

impl Windows {
    /// Divides a trace that ends at `end`, in ns or requests.
    fn new(end: u64) -> Windows {
        let width = (end / WINDOWS as u64 + 1).max(1);
        let count = end / width + 1;
        let window = |i: u64| Window { start: i * width, ..Window::default() };
        Windows { windows: (0..count).map(window).collect(), width }
    }

    fn at(&mut self, place: u64) -> &mut Window {
        let last = self.windows.len() - 1;
        &mut self.windows[last.min((place / self.width) as usize)]
    }
}
