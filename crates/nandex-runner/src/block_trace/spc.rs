//! SPC-1 traces (the Storage Performance Council's form, as the "Financial" and "WebSearch" traces have it).
//!
//! `ASU,LBA,size,opcode,timestamp`: the unit (its number names the device), the first sector of 512 bytes,
//! the size in bytes, `R` or `W`, and seconds since the start. Further fields are the applications' own and
//! are ignored.

use super::words::{fields, number, op, sectors, time};
use super::{BlockFormat, Event, Line, LineReader, RawRequest};

pub(super) const FORMAT: BlockFormat = BlockFormat {
    name: "spc",
    summary: "SPC-1: ASU,LBA,size,opcode,timestamp (sector, bytes, R or W, seconds)",
    reader: |_: Event| Box::new(Spc),
    looks_like: |line| {
        let f = fields(line);
        let numbers = |range: &[&str]| range.iter().all(|w| w.parse::<u64>().is_ok());
        f.len() >= 5 && numbers(&f[..3]) && op(f[3]).is_ok()
    },
};

struct Spc;

impl LineReader for Spc {
    fn line(&mut self, text: &str) -> Result<Line, String> {
        let f = fields(text);
        let [asu, lba, size, opcode, timestamp, ..] = f[..] else {
            return Err(format!("{} fields", f.len()));
        };
        number("ASU", asu)?;
        Ok(Line::Request(RawRequest {
            op: op(opcode)?,
            device: asu.to_string(),
            offset_bytes: sectors("LBA", lba)?,
            bytes: number("size", size)?,
            time_ns: Some(time("timestamp", timestamp, 1_000_000_000)?),
        }))
    }

    fn expected(&self) -> String {
        String::from("ASU,LBA,size,opcode,timestamp, such as 0,20941264,8192,W,0.551706")
    }
}
