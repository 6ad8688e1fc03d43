//! The traces of MSR Cambridge (Narayanan et al. 2008).
//!
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`: ticks of 100 ns, host and disk (together
//! the device), `Read` or `Write`, and bytes. The response time of the machine traced is ignored, and may be
//! missing.

use super::words::{fields, number, op};
use super::{BlockFormat, Event, Line, LineReader, RawRequest};

const TICK_NS: u64 = 100;

/// Ticks from 1601, where Windows begins to count, to 1970. Subtracting them keeps times within 64 bits of
/// nanoseconds.
const EPOCH_TICKS: u64 = 116_444_736_000_000_000;

pub(super) const FORMAT: BlockFormat = BlockFormat {
    name: "msr",
    summary: "MSR Cambridge: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime (100 ns, bytes)",
    reader: |_: Event| Box::new(Msr),
    looks_like: |line| {
        let f = fields(line);
        let is_number = |i: usize| f[i].parse::<u64>().is_ok();
        is_heading(&f) || (f.len() >= 6 && is_number(0) && is_number(2) && op(f[3]).is_ok() && is_number(4))
    },
};

/// Whether these are the heads of the columns. Other collections have a `Timestamp` first, too.
fn is_heading(fields: &[&str]) -> bool {
    let heads = ["timestamp", "hostname", "disknumber", "type", "offset", "size"];
    fields.len() >= heads.len()
        && fields.iter().zip(heads).all(|(field, head)| field.eq_ignore_ascii_case(head))
}

struct Msr;

impl LineReader for Msr {
    fn line(&mut self, text: &str) -> Result<Line, String> {
        let f = fields(text);
        if is_heading(&f) {
            return Ok(Line::Nothing);
        }
        let [timestamp, host, disk, kind, offset, size, ..] = f[..] else {
            return Err(format!("{} fields", f.len()));
        };
        let ticks = number("timestamp", timestamp)?;
        let ticks = ticks.checked_sub(EPOCH_TICKS).unwrap_or(ticks);
        let time_ns = ticks.checked_mul(TICK_NS).ok_or("the timestamp lies beyond the year 2500")?;
        number("disk number", disk)?;
        Ok(Line::Request(RawRequest {
            op: op(kind)?,
            device: format!("{host}.{disk}"),
            offset_bytes: number("offset", offset)?,
            bytes: number("size", size)?,
            time_ns: Some(time_ns),
        }))
    }

    fn expected(&self) -> String {
        String::from(
            "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime, such as \
             128166372003061629,hm,1,Read,383496192,32768,413",
        )
    }
}
