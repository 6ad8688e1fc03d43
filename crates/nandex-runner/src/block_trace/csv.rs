//! Comma-separated columns, named by a heading.
//!
//! | column | names |
//! |---|---|
//! | operation | `op`, `type`, `opcode`, `operation` |
//! | address | `sector`, `lba` (512 bytes each); `offset`, `offset_bytes` |
//! | size | `sectors`; `size`, `size_bytes`, `bytes`, `length` |
//! | time (may be missing) | `time_s`, `time`, `time_ms`, `time_us`, `time_ns` |
//! | device (may be missing) | `device`, `disk`, `asu` |
//!
//! Other columns are ignored, but a time without a unit, such as `timestamp`, is refused. Without a heading
//! the columns are `op,sector,sectors` and then, if there is one, `time_us`.

use super::words::{fields, number, op, sectors, time};
use super::{BlockFormat, BlockOp, BlockTrace, Event, Line, LineReader, RawRequest, SECTOR_BYTES};
use std::io::{self, Write};

pub(super) const FORMAT: BlockFormat = BlockFormat {
    name: "csv",
    summary: "named columns: op, sector or offset, sectors or size, time_us (or s, ms, ns), device",
    reader: |_: Event| Box::new(Csv::default()),
    looks_like: |line| {
        let f = fields(line);
        Columns::of(&f).is_ok() || (f.len() >= 3 && op(f[0]).is_ok() && f[1].parse::<u64>().is_ok())
    },
};

/// Writes a trace as CSV. Addresses are in sectors if all are multiples of a sector, or else in bytes.
pub fn write_csv(trace: &BlockTrace, out: &mut dyn Write) -> io::Result<()> {
    let whole = |bytes: u64| bytes.is_multiple_of(SECTOR_BYTES);
    let in_sectors = trace.requests.iter().all(|r| whole(r.offset_bytes) && whole(r.bytes));
    let unit = if in_sectors { SECTOR_BYTES } else { 1 };
    write!(out, "{}", if in_sectors { "op,sector,sectors" } else { "op,offset,size" })?;
    writeln!(out, "{}", if trace.has_times { ",time_ns" } else { "" })?;
    for request in &trace.requests {
        let letter = match request.op {
            BlockOp::Read => 'R',
            BlockOp::Write => 'W',
            BlockOp::Trim => 'T',
        };
        write!(out, "{letter},{},{}", request.offset_bytes / unit, request.bytes / unit)?;
        if trace.has_times {
            write!(out, ",{}", request.time_ns)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Column {
    place: usize,
    /// Bytes, or nanoseconds, of one unit of the column.
    unit: u64,
}

#[derive(Clone, Copy)]
struct Columns {
    op: usize,
    address: Column,
    size: Column,
    time: Option<Column>,
    device: Option<usize>,
}

const OPS: [(&str, u64); 4] = [("op", 1), ("type", 1), ("opcode", 1), ("operation", 1)];
const ADDRESSES: [(&str, u64); 4] =
    [("sector", SECTOR_BYTES), ("lba", SECTOR_BYTES), ("offset", 1), ("offset_bytes", 1)];
const SIZES: [(&str, u64); 5] =
    [("sectors", SECTOR_BYTES), ("size", 1), ("size_bytes", 1), ("bytes", 1), ("length", 1)];
const TIMES: [(&str, u64); 5] = [
    ("time_s", 1_000_000_000),
    ("time", 1_000_000_000),
    ("time_ms", 1_000_000),
    ("time_us", 1000),
    ("time_ns", 1),
];
const DEVICES: [(&str, u64); 3] = [("device", 1), ("disk", 1), ("asu", 1)];

const BARE: Columns = Columns {
    op: 0,
    address: Column { place: 1, unit: SECTOR_BYTES },
    size: Column { place: 2, unit: SECTOR_BYTES },
    time: None,
    device: None,
};

impl Columns {
    /// The columns that a heading names, or the reason why they are not enough.
    fn of(heads: &[&str]) -> Result<Columns, String> {
        let find = |names: &[(&str, u64)]| {
            let unit =
                |head: &str| names.iter().find(|(name, _)| head.eq_ignore_ascii_case(name)).map(|n| n.1);
            heads.iter().enumerate().find_map(|(place, head)| Some(Column { place, unit: unit(head)? }))
        };
        let need = |what: &str, names: &[(&str, u64)]| {
            let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            find(names).ok_or_else(|| format!("no column of {what} ({})", known.join(", ")))
        };
        let time = find(&TIMES);
        // A time that was left out without a word would pass for a trace without times.
        let is_time = |head: &&str| {
            let head = head.to_ascii_lowercase();
            head.starts_with("time") || head == "ts"
        };
        if let Some(head) = heads.iter().find(|head| time.is_none() && is_time(head)) {
            let known: Vec<&str> = TIMES.iter().map(|(name, _)| *name).collect();
            return Err(format!("the column {head} has no unit; known are {}", known.join(", ")));
        }
        Ok(Columns {
            op: need("the operation", &OPS)?.place,
            address: need("the address", &ADDRESSES)?,
            size: need("the size", &SIZES)?,
            time,
            device: find(&DEVICES).map(|column| column.place),
        })
    }

    fn width(&self) -> usize {
        let times = self.time.map_or(0, |t| t.place);
        let most = [self.op, self.address.place, self.size.place, times, self.device.unwrap_or(0)];
        most.into_iter().max().unwrap_or(0) + 1
    }
}

#[derive(Default)]
struct Csv {
    columns: Option<Columns>,
    heads: String,
}

impl LineReader for Csv {
    fn line(&mut self, text: &str) -> Result<Line, String> {
        let f = fields(text);
        let columns = match self.columns {
            Some(columns) => columns,
            None if op(f[0]).is_ok() && f.len() >= 3 => {
                let has_time = f.len() >= 4;
                let time = has_time.then_some(Column { place: 3, unit: 1000 });
                self.heads =
                    String::from(if has_time { "op,sector,sectors,time_us" } else { "op,sector,sectors" });
                *self.columns.insert(Columns { time, ..BARE })
            }
            None => {
                self.columns = Some(Columns::of(&f)?);
                self.heads = f.join(",");
                return Ok(Line::Nothing);
            }
        };
        if f.len() < columns.width() {
            return Err(format!("{} fields", f.len()));
        }
        let bytes = |what: &str, column: Column| match column.unit {
            1 => number(what, f[column.place]),
            _ => sectors(what, f[column.place]),
        };
        Ok(Line::Request(RawRequest {
            op: op(f[columns.op])?,
            device: columns.device.map_or_else(String::new, |place| f[place].to_string()),
            offset_bytes: bytes("address", columns.address)?,
            bytes: bytes("size", columns.size)?,
            time_ns: columns.time.map(|t| time("time", f[t.place], t.unit)).transpose()?,
        }))
    }

    fn expected(&self) -> String {
        match self.columns {
            None => String::from("a heading such as op,sector,sectors,time_us, or lines such as R,0,8"),
            Some(_) => format!("{}, such as W,42932745,8,5633898 for op,sector,sectors,time_us", self.heads),
        }
    }
}
