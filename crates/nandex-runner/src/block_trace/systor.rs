//! The traces of a virtual desktop (Lee et al., SYSTOR 2017; SNIA's collection has them).
//!
//! `Timestamp,Response,IOType,LUN,Offset,Size`: seconds since 1970, seconds that the request took (may be
//! empty, and are ignored), `R` or `W`, the number of the unit (the device), and bytes.

use super::words::{fields, number, op, time};
use super::{BlockFormat, Event, Line, LineReader, RawRequest};

pub(super) const FORMAT: BlockFormat = BlockFormat {
    name: "systor",
    summary: "SYSTOR '17: Timestamp,Response,IOType,LUN,Offset,Size (seconds, bytes)",
    reader: |_: Event| Box::new(Systor),
    looks_like: |line| {
        let f = fields(line);
        let is_number = |i: usize| f[i].parse::<u64>().is_ok();
        is_heading(&f) || (f.len() == 6 && op(f[2]).is_ok() && (3..6).all(is_number))
    },
};

fn is_heading(fields: &[&str]) -> bool {
    let heads = ["timestamp", "response", "iotype", "lun", "offset", "size"];
    fields.len() == heads.len()
        && fields.iter().zip(heads).all(|(field, head)| field.eq_ignore_ascii_case(head))
}

struct Systor;

impl LineReader for Systor {
    fn line(&mut self, text: &str) -> Result<Line, String> {
        let f = fields(text);
        if is_heading(&f) {
            return Ok(Line::Nothing);
        }
        let [timestamp, _, kind, unit, offset, size] = f[..] else {
            return Err(format!("{} fields", f.len()));
        };
        number("LUN", unit)?;
        Ok(Line::Request(RawRequest {
            op: op(kind)?,
            device: unit.to_string(),
            offset_bytes: number("offset", offset)?,
            bytes: number("size", size)?,
            time_ns: Some(time("timestamp", timestamp, 1_000_000_000)?),
        }))
    }

    fn expected(&self) -> String {
        String::from(
            "Timestamp,Response,IOType,LUN,Offset,Size, such as 1455592984.297108,0.000163,R,4,138788864,4096",
        )
    }
}
