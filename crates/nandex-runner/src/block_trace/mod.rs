//! Block traces: recorded reads, writes and trims of disks and SSDs, in the formats that public collections
//! use.
//!
//! Each format has a file here and a line in [`FORMATS`]; a format that is not named is guessed from the
//! first lines (`detect`). Files may be packed with zstd. Empty lines and lines that begin with `#` mean
//! nothing in any format; a line that makes no sense is refused with its number and with what was expected
//! there.
//!
//! Addresses are bytes on a device, times are nanoseconds since the first request; `times` tells which
//! disorder is mended and which is refused. [`place`] lays the addresses out on the pages of a store.

mod blktrace;
mod csv;
mod detect;
mod fio;
mod msr;
pub mod place;
mod spc;
mod systor;
#[cfg(test)]
mod tests;
mod times;
mod words;

pub use self::csv::write_csv;

use self::times::Clock;

use crate::error::LabError;
use crate::input::{self, Lines, WrongLine};
use crate::names;
use std::io::BufRead;
use std::path::Path;

/// Bytes of a sector, the unit of most formats.
pub const SECTOR_BYTES: u64 = 512;

/// Largest size of a request; a larger one is taken for an error in the trace.
const REQUEST_BYTES_MAX: u64 = 1 << 30;

/// Largest number of devices. Each request searches them, so more would be slow.
const DEVICES_MAX: usize = 1024;

/// Largest end address of a device. It leaves room to round up to pages and blocks within 64 bits.
const END_BYTES_MAX: u64 = 1 << 62;

/// The operation that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOp {
    /// The request reads bytes.
    Read,
    /// The request writes bytes.
    Write,
    /// The request gives up bytes.
    Trim,
}

/// A request of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operation of the request.
    pub op: BlockOp,
    /// The device, by its place in [`BlockTrace::devices`].
    pub device: u32,
    /// Offset of the first byte on the device.
    pub offset_bytes: u64,
    /// Number of bytes, at least 1.
    pub bytes: u64,
    /// Time of the request since the first one, in nanoseconds. 0 if the trace has no times.
    pub time_ns: u64,
}

/// A trace in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockTrace {
    /// The file's name without its folder and extensions.
    pub name: String,
    /// Name of the format that it was read as.
    pub format: &'static str,
    /// The devices, in the order in which they appear.
    pub devices: Vec<String>,
    /// The requests.
    pub requests: Vec<Request>,
    /// Whether the trace has the times of requests.
    pub has_times: bool,
    /// Number of lines without a request, such as other events of a block layer, and of requests of no
    /// bytes.
    pub other_lines: u64,
    /// Number of requests that the file has after a later one. They were put in order of time.
    pub late_requests: u64,
}

/// The options for reading a block trace.
#[derive(Clone, Copy, Debug)]
pub struct BlockTraceOptions {
    /// The format of the trace. Absent means that it is guessed.
    pub format: Option<&'static BlockFormat>,
    /// Number of requests to read at most.
    pub requests: Option<u64>,
    /// The event of a blktrace that counts as the request.
    pub event: Event,
    /// Factor for times: for a column whose unit is not the one in its name, or to slow the trace down.
    pub time_scale: u64,
}

impl Default for BlockTraceOptions {
    fn default() -> BlockTraceOptions {
        BlockTraceOptions { format: None, requests: None, event: Event::Queued, time_scale: 1 }
    }
}

/// An event in the life of a request, as in blktrace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `Q`: the request was handed to the block layer.
    Queued,
    /// `D`: the request was sent to the device, after merging and sorting.
    Issued,
    /// `C`: the request was completed.
    Completed,
}

impl Event {
    /// The event of this letter.
    pub fn from_letter(letter: &str) -> Result<Event, LabError> {
        Ok(match letter {
            "Q" => Event::Queued,
            "D" => Event::Issued,
            "C" => Event::Completed,
            _ => return Err(LabError::unknown("event", letter, ["Q", "D", "C"])),
        })
    }

    const fn letter(self) -> &'static str {
        match self {
            Event::Queued => "Q",
            Event::Issued => "D",
            Event::Completed => "C",
        }
    }
}

/// A format of block traces.
#[derive(Debug)]
pub struct BlockFormat {
    /// The format's name on the command line.
    pub name: &'static str,
    /// The origin of the format and the contents of its lines.
    pub summary: &'static str,
    reader: fn(Event) -> Box<dyn LineReader>,
    /// Whether a line can only be of this format. It is called with the first line that is no comment.
    looks_like: fn(&str) -> bool,
}

/// All formats, in the order in which they are tried.
pub static FORMATS: &[BlockFormat] =
    &[fio::FORMAT, blktrace::FORMAT, msr::FORMAT, systor::FORMAT, spc::FORMAT, csv::FORMAT];

/// The format of this name.
pub fn format(name: &str) -> Result<&'static BlockFormat, LabError> {
    Ok(names::find("trace format", name, FORMATS, |f| f.name)?)
}

enum Line {
    Request(RawRequest),
    /// A line of the format without a request, which is counted.
    Other,
    /// A heading or the like, which is not counted.
    Nothing,
}

/// A request with its time as in the trace.
struct RawRequest {
    op: BlockOp,
    device: String,
    offset_bytes: u64,
    bytes: u64,
    /// Time since the trace's own origin.
    time_ns: Option<u64>,
}

trait LineReader {
    fn line(&mut self, text: &str) -> Result<Line, String>;
    /// The form that a line should have, for error messages.
    fn expected(&self) -> String;
}

impl BlockTrace {
    /// Reads a trace.
    pub fn read(path: &Path, options: &BlockTraceOptions) -> Result<BlockTrace, LabError> {
        let input = input::open(path)?;
        let read = BlockTrace::from_lines(input, options);
        let mut read = read.map_err(|(line, reason)| LabError::Trace {
            file: path.display().to_string(),
            place: (line > 0).then(|| format!("line {line}")),
            reason,
        })?;
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let name = name.strip_suffix(".zst").unwrap_or(&name);
        read.name = name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_string();
        Ok(read)
    }

    /// Reads a trace from its text. The error has the number of the line, from 1, or 0 if it is about the
    /// whole text.
    pub fn from_lines(input: impl BufRead, options: &BlockTraceOptions) -> Result<BlockTrace, WrongLine> {
        let mut builder = Builder::new(options);
        let mut lines = Lines::new(input);
        while builder.wants_more() {
            let Some((number, text)) = lines.next_line()? else { break };
            if !text.trim().is_empty() && !text.starts_with('#') {
                builder.take(text).map_err(|reason| (number, reason))?;
            }
        }
        builder.finish().map_err(|reason| (0, reason))
    }

    /// Time from the first request to the last, in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.requests.iter().map(|r| r.time_ns).max().unwrap_or(0)
    }

    /// Number of requests of a kind.
    pub fn count(&self, op: BlockOp) -> u64 {
        self.requests.iter().filter(|r| r.op == op).count() as u64
    }
}

struct Builder {
    trace: BlockTrace,
    reader: Option<Box<dyn LineReader>>,
    limit: usize,
    event: Event,
    clock: Clock,
    device: u32,
}

impl Builder {
    fn new(options: &BlockTraceOptions) -> Builder {
        let mut builder = Builder {
            trace: BlockTrace::default(),
            reader: None,
            limit: options.requests.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            event: options.event,
            clock: Clock::new(options.time_scale),
            device: 0,
        };
        if let Some(format) = options.format {
            builder.begin(format);
        }
        builder
    }

    fn begin(&mut self, format: &'static BlockFormat) {
        self.trace.format = format.name;
        self.reader = Some((format.reader)(self.event));
    }

    fn wants_more(&self) -> bool {
        self.trace.requests.len() < self.limit
    }

    fn take(&mut self, text: &str) -> Result<(), String> {
        if self.reader.is_none() {
            self.begin(detect::format(text)?);
        }
        let Some(reader) = &mut self.reader else { return Ok(()) };
        let line = reader.line(text).map_err(|why| format!("{why}; expected {}", reader.expected()))?;
        match line {
            Line::Request(raw) if raw.bytes == 0 => self.trace.other_lines += 1,
            Line::Request(raw) => self.add(raw)?,
            Line::Other => self.trace.other_lines += 1,
            Line::Nothing => {}
        }
        Ok(())
    }

    fn add(&mut self, raw: RawRequest) -> Result<(), String> {
        let RawRequest { op, device, offset_bytes, bytes, time_ns } = raw;
        if op != BlockOp::Trim && bytes > REQUEST_BYTES_MAX {
            return Err(format!("a request of {bytes} bytes; at most {REQUEST_BYTES_MAX} are believed"));
        }
        if offset_bytes.checked_add(bytes).is_none_or(|end| end > END_BYTES_MAX) {
            return Err(String::from("the request ends beyond 2^62 bytes"));
        }
        if self.trace.devices.get(self.device as usize) != Some(&device) {
            let known = self.trace.devices.iter().position(|d| *d == device);
            self.device = known.unwrap_or(self.trace.devices.len()) as u32;
            if known.is_none() {
                if self.trace.devices.len() == DEVICES_MAX {
                    return Err(format!("a device beyond the first {DEVICES_MAX}; no more are believed"));
                }
                self.trace.devices.push(device);
            }
        }
        self.trace.has_times |= time_ns.is_some();
        let time_ns = self.clock.take(time_ns.unwrap_or(0))?;
        input::require_room(&self.trace.requests, "requests")?;
        self.trace.requests.push(Request { op, device: self.device, offset_bytes, bytes, time_ns });
        Ok(())
    }

    fn finish(mut self) -> Result<BlockTrace, String> {
        if self.trace.requests.is_empty() {
            return Err(match self.reader {
                None => String::from("is empty"),
                Some(reader) => format!("holds no request; expected lines such as {}", reader.expected()),
            });
        }
        self.trace.requests.shrink_to_fit();
        self.trace.late_requests = self.clock.late();
        self.clock.set(&mut self.trace.requests)?;
        Ok(self.trace)
    }
}
