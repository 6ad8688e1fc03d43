//! I/O logs of fio (`write_iolog`), version 2 and version 3.
//!
//! The first line names the version. Then `FILE ACTION [OFFSET LENGTH]`, in version 3 after a time in
//! microseconds. `read`, `write` and `trim` are requests; `add`, `open`, `close`, `sync`, `datasync` and
//! `wait` are not. Version 2 has no times.

use super::words::{number, time};
use super::{BlockFormat, BlockOp, Event, Line, LineReader, RawRequest};

const HEAD: &str = "fio version ";

pub(super) const FORMAT: BlockFormat = BlockFormat {
    name: "fio",
    summary: "fio's iolog, version 2 (file action offset length) and 3 (a time in us before it)",
    reader: |_: Event| Box::new(Fio { version: None }),
    looks_like: |line| line.starts_with(HEAD),
};

struct Fio {
    version: Option<u32>,
}

impl LineReader for Fio {
    fn line(&mut self, text: &str) -> Result<Line, String> {
        if let Some(rest) = text.strip_prefix(HEAD) {
            self.version = match rest.split_whitespace().next() {
                Some("2") => Some(2),
                Some("3") => Some(3),
                _ => return Err(format!("'{text}' is no version known here")),
            };
            return Ok(Line::Nothing);
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let (time_ns, words) = match (self.version, &words[..]) {
            (None, _) => return Err(String::from("the line with the version is missing")),
            (Some(3), [at, rest @ ..]) => (Some(time("time", at, 1000)?), rest),
            (_, all) => (None, all),
        };
        let (file, action, range) = match words {
            [file, action, range @ ..] => (*file, *action, range),
            _ => return Err(format!("{} words", words.len())),
        };
        let op = match action {
            "read" => BlockOp::Read,
            "write" => BlockOp::Write,
            "trim" => BlockOp::Trim,
            "add" | "open" | "close" | "unlink" | "sync" | "datasync" | "wait" => return Ok(Line::Other),
            _ => return Err(format!("'{action}' is no action")),
        };
        let [offset, length] = range else {
            return Err(format!("{action} needs an offset and a length"));
        };
        Ok(Line::Request(RawRequest {
            op,
            device: file.to_string(),
            offset_bytes: number("offset", offset)?,
            bytes: number("length", length)?,
            time_ns,
        }))
    }

    fn expected(&self) -> String {
        String::from(match self.version {
            None => "'fio version 2 iolog' or 'fio version 3 iolog'",
            Some(2) => "FILE ACTION [OFFSET LENGTH], such as /dev/sda write 4096 8192",
            Some(_) => "TIME FILE ACTION [OFFSET LENGTH], such as 12 /dev/sda write 4096 8192",
        })
    }
}
