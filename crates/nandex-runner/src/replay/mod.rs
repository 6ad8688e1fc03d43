//! Replays a block trace on several devices: every FTL of the registry, disks, and a real file, all with the
//! same requests.
//!
//! 1. The devices are opened once to learn their numbers of logical pages. All of them use as many pages as
//!    the smallest has ([`Replay::run`]), so that every device gets the same work.
//! 2. The trace is laid out on these pages ([`crate::block_trace::place`]).
//! 3. Each device is filled ([`Fill`]), which is not counted, and then does the requests one after the other
//!    (`session`). Every page read is compared with the last write.
//!
//! An FTL behind a Transit Buffer Manager ([`crate::tbm`]) is a device like any other. Its chip is the same,
//! shared by the FTL and the buffer blocks.
//!
//! Simulated devices run on as many threads as asked for. Devices timed by a wall clock run alone, at the
//! end.
//!
//! The *latency* of a request is the time that the device works for it: the sum of the latencies of the
//! chip's operations, without overlap, including the collections and merges that the request triggers. If the
//! trace has the times of requests, the *response time* adds the wait for earlier requests, one at a time in
//! the order of the trace.

mod device;
mod figures;
mod files;
mod letters;
pub mod picture;
mod session;
#[cfg(test)]
mod tests;

pub use crate::disks::{DISKS, DiskEntry, disk};
pub use device::{Clock, Device, OpenOwn, Opened};
pub use figures::{Latencies, ReplayResults, ReplayRun, TraceFacts, Wear, Window};
pub use files::{COLUMNS, write_csv, write_json};

use crate::block_trace::place::{PageShape, Placement, Placing};
use crate::block_trace::{BlockOp, BlockTrace};
use crate::error::LabError;
use crate::machine;
use crate::parallel;
use crate::results::ChipFacts;
use crate::runner::Control;
use nandex::nand::Part;
use nandex_stacks::options::Options;

/// The pages that are written before the trace begins. These writes are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// No page, as on a new device. Reading a page that was never written then costs no flash read.
    None,
    /// Every page of the extents that the trace touches, once and in ascending order.
    Touched,
    /// Every logical page, once and in ascending order, as on a device that has been in use.
    All,
}

impl Fill {
    /// The fill's name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Fill::None => "none",
            Fill::Touched => "touched",
            Fill::All => "all",
        }
    }
}

/// A replay: a trace and the devices that run it.
pub struct Replay {
    /// The chip under every FTL. Its page size is the page size of every device.
    pub part: Part,
    /// The trace to replay.
    pub trace: BlockTrace,
    /// The name of the trace's file for the results.
    pub trace_file: String,
    /// Devices, without duplicates.
    pub devices: Vec<Device>,
    /// Rule by which addresses become pages.
    pub placing: Placing,
    /// The pages that are written before the trace begins.
    pub fill: Fill,
    /// RAM for each FTL in bytes; an FTL that needs more is refused.
    pub ram_bytes: Option<usize>,
    /// Options of the FTLs. Each FTL gets those that it knows.
    pub options: Options,
    /// Number of simulated devices that run at a time.
    pub threads: usize,
    /// The command that asked for the replay, for the results.
    pub command: String,
}

impl Replay {
    /// Runs the replay on every device. The failure of a device is stored in the results of that device.
    pub fn run(&self, control: &Control) -> Result<ReplayResults, LabError> {
        let options = self.dealt_options()?;
        let numbered: Vec<usize> = (0..self.devices.len()).collect();
        let sizes = parallel::map(&numbered, self.threads, |&i| self.size(i, &options[i]));
        let placement = Placement::new(&self.trace, self.shape(&sizes), self.placing)?;
        let pages = match self.fill {
            Fill::None => Vec::new(),
            Fill::Touched => placement.used(),
            Fill::All => (0..placement.shape().pages).map(nandex::Lpn).collect(),
        };
        self.require_memory(pages.len())?;
        control.plan((self.trace.requests.len() + pages.len()) as u64 * self.devices.len() as u64);
        let work = session::Work { replay: self, placement: &placement, fill: &pages, control };
        let run = |&i: &usize| session::run(&work, &self.devices[i], &options[i]);
        let (alone, together): (Vec<usize>, Vec<usize>) =
            numbered.iter().partition(|&&i| self.devices[i].is_timed_by_wall_clock());
        let mut runs: Vec<(usize, ReplayRun)> =
            together.iter().copied().zip(parallel::map(&together, self.threads, run)).collect();
        runs.extend(alone.iter().map(|i| (*i, run(i))));
        runs.sort_by_key(|(i, _)| *i);
        Ok(self.results(&placement, runs.into_iter().map(|(_, run)| run).collect()))
    }

    /// Refuses a fill that needs more memory than this machine has: each simulated device keeps its pages
    /// in memory.
    fn require_memory(&self, filled_pages: usize) -> Result<(), LabError> {
        let at_once = self.threads.min(self.devices.len()).max(1);
        let page_bytes = self.part.geometry.raw_page_bytes();
        let bytes = filled_pages as u128 * page_bytes as u128 * at_once as u128;
        machine::require("--chip", &self.part.name, bytes)
    }

    /// The options that each device knows. An option that no device knows is refused.
    fn dealt_options(&self) -> Result<Vec<Options>, LabError> {
        let takers: Vec<_> = self.devices.iter().map(Device::options).collect();
        let dealt = nandex_stacks::options::sharing::deal(&self.options, &takers)?;
        Ok(self.devices.iter().zip(dealt).map(|(device, options)| device.with_own(&options)).collect())
    }

    /// Number of logical pages that a device offers; `None` if it takes any number or cannot be opened.
    fn size(&self, device: usize, options: &Options) -> Option<u32> {
        match &self.devices[device] {
            Device::Ftl(_) | Device::Tuned { .. } => {
                let opened = self.devices[device].open(self, options, 1).ok()?;
                Some(opened.store.page_count())
            }
            Device::Disk(_) | Device::Own { .. } => None,
        }
    }

    /// The page size and number of pages that all devices get.
    fn shape(&self, sizes: &[Option<u32>]) -> PageShape {
        let geometry = &self.part.geometry;
        let pages = sizes.iter().flatten().copied().min().unwrap_or(geometry.pages()).max(1);
        PageShape { page_bytes: geometry.page_bytes, pages_per_block: geometry.pages_per_block, pages }
    }

    fn results(&self, placement: &Placement, runs: Vec<ReplayRun>) -> ReplayResults {
        let trace = &self.trace;
        let bytes = |op| trace.requests.iter().filter(|r| r.op == op).map(|r| r.bytes).sum::<u64>();
        ReplayResults {
            schema: 1,
            nandex_version: env!("CARGO_PKG_VERSION").to_string(),
            command: self.command.clone(),
            chip: ChipFacts::of(&self.part),
            random_page_order: self.part.geometry.random_order,
            trace: TraceFacts {
                file: self.trace_file.clone(),
                name: trace.name.clone(),
                format: trace.format.to_string(),
                devices: trace.devices.len() as u64,
                read_requests: trace.count(BlockOp::Read),
                write_requests: trace.count(BlockOp::Write),
                trim_requests: trace.count(BlockOp::Trim),
                read_bytes: bytes(BlockOp::Read),
                written_bytes: bytes(BlockOp::Write),
                other_lines: trace.other_lines,
                late_requests: trace.late_requests,
                duration_ns: trace.has_times.then(|| trace.duration_ns()),
            },
            placing: self.placing.name().to_string(),
            pages: placement.shape().pages.into(),
            pages_used: placement.pages_used().into(),
            extents: placement.extents(),
            extent_pages: placement.extent_pages().into(),
            folded_extents: placement.folded_extents(),
            fill: self.fill.name().to_string(),
            ram_bytes: self.ram_bytes.map(|n| n as u64),
            options: self.options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            runs,
        }
    }
}
