//! Where transactions end in a write-ahead log of SQLite.
//!
//! SQLite takes a transaction for done once its last frame is written, and syncs the log at
//! `synchronous=FULL` only. So the log is committed as soon as a transaction ends. A frame is written in two
//! pieces: a header of 24 bytes, in which bytes 4 to 7 are zeros unless the frame ends a transaction, and a
//! page. Where a transaction wrote a frame again, the headers from there on are read with their pages and
//! written anew behind the last frame, whose header comes last once more.

use std::ops::Range;

/// Bytes of the header of a frame.
const HEADER_BYTES: usize = 24;

/// Where the header has the pages of the database after the transaction that the frame ends.
const DATABASE_PAGES: Range<usize> = 4..8;

/// The last calls on a log.
#[derive(Debug, Default)]
pub(super) struct LogTail {
    /// Pages of the database after the transaction that the header written last ends, whose page follows.
    ending: Option<u32>,
    /// The place of the frame that was read last.
    read: Option<u64>,
    /// Bytes of a page.
    page_bytes: u64,
}

impl LogTail {
    /// Notes a read.
    pub(super) fn read(&mut self, offset: u64, bytes: usize) {
        self.read = (bytes > HEADER_BYTES).then_some(offset);
    }

    /// Notes a write: bytes of the database after the transaction, where one ends with it.
    pub(super) fn ends_with(&mut self, offset: u64, data: &[u8]) -> Option<u64> {
        let is_rewritten = self.read.take() == Some(offset);
        let pages = if data.len() == HEADER_BYTES {
            let pages = data[DATABASE_PAGES].iter().fold(0, |pages, &byte| pages << 8 | u32::from(byte));
            self.ending = Some(pages).filter(|&pages| pages > 0);
            if is_rewritten { self.ending.take() } else { None }
        } else {
            self.page_bytes = data.len() as u64;
            self.ending.take()
        };
        Some(u64::from(pages?) * self.page_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_ends_with_the_page_of_its_last_frame_or_its_header_again() {
        let mut tail = LogTail::default();
        let header = |pages: u8| {
            let mut header = [7; HEADER_BYTES];
            header[DATABASE_PAGES].copy_from_slice(&[0, 0, 0, pages]);
            header
        };
        let mut ends = |read: bool, offset, data: &[u8]| {
            if read {
                tail.read(offset, 536);
            }
            tail.ends_with(offset, data)
        };
        assert_eq!(ends(false, 0, &[1; 32]), None);
        assert_eq!((ends(false, 32, &header(0)), ends(false, 56, &[1; 512])), (None, None));
        assert_eq!((ends(false, 568, &header(9)), ends(false, 592, &[1; 512])), (None, Some(9 * 512)));
        assert_eq!((ends(true, 32, &header(0)), ends(true, 568, &header(8))), (None, Some(8 * 512)));
        assert_eq!((ends(false, 1104, &header(0)), ends(false, 1128, &[1; 512])), (None, None));
    }
}
