//! The text that blkparse prints of a blktrace.
//!
//! `maj,min cpu sequence seconds pid event RWBS sector + sectors [process]`. One event of each request
//! counts: `Q` unless told otherwise. Other events, requests without data (flushes), messages, and the
//! statistics at the end are passed over.

use super::words::{number, sectors, time};
use super::{BlockFormat, BlockOp, Event, Line, LineReader, RawRequest};

pub(super) const FORMAT: BlockFormat = BlockFormat {
    name: "blktrace",
    summary: "blkparse's text: maj,min cpu sequence seconds pid event RWBS sector + sectors",
    reader: |event: Event| Box::new(Blktrace { event, in_statistics: false }),
    looks_like: |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.len() >= 6 && is_device(words[0]) && words[3].parse::<f64>().is_ok()
    },
};

struct Blktrace {
    event: Event,
    /// Whether the statistics at the end have begun. They begin with a line that is no event.
    in_statistics: bool,
}

fn is_device(word: &str) -> bool {
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    word.split_once(',').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

fn is_bracket(word: &str) -> bool {
    word.starts_with(['[', '('])
}

/// The operation in the letters of RWBS. `None` for a flush or a message.
fn op(rwbs: &str) -> Option<BlockOp> {
    match () {
        () if rwbs.contains('D') => Some(BlockOp::Trim),
        () if rwbs.contains('W') => Some(BlockOp::Write),
        () if rwbs.contains('R') => Some(BlockOp::Read),
        () => None,
    }
}

impl LineReader for Blktrace {
    fn line(&mut self, text: &str) -> Result<Line, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        self.in_statistics |= words[0].starts_with("CPU") || words[0] == "Total";
        if self.in_statistics {
            return Ok(Line::Other);
        }
        if !is_device(words[0]) {
            return Err(format!("'{}' is no device", words[0]));
        }
        let [device, _, _, seconds, _, event, rest @ ..] = &words[..] else {
            return Err(format!("{} words", words.len()));
        };
        if *event != self.event.letter() {
            return Ok(Line::Other);
        }
        let time_ns = Some(time("time", seconds, 1_000_000_000)?);
        match rest {
            [rwbs, sector, "+", count, ..] => {
                let Some(op) = op(rwbs) else { return Ok(Line::Other) };
                Ok(Line::Request(RawRequest {
                    op,
                    device: device.to_string(),
                    offset_bytes: sectors("sector", sector)?,
                    bytes: sectors("sectors", count)?,
                    time_ns,
                }))
            }
            // A flush, or a command for the device itself: no sectors. The completion has a place, though,
            // before the error or the time taken, and a command has its bytes before itself in brackets.
            [_] => Ok(Line::Other),
            [_, word, ..] if is_bracket(word) || number("bytes", word).is_ok_and(|n| n == 0) => {
                Ok(Line::Other)
            }
            [_, place, word, ..] if is_bracket(word) && number("place", place).is_ok() => Ok(Line::Other),
            _ => Err(format!("an event {event} without sector and sectors")),
        }
    }

    fn expected(&self) -> String {
        let event = self.event.letter();
        format!(
            "maj,min cpu sequence seconds pid event RWBS sector + sectors, such as \
             8,0 3 1 0.000000000 697 {event} W 223490 + 8 [kjournald]"
        )
    }
}
