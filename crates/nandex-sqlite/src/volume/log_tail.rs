//! Finds the end of a transaction in a write-ahead log of SQLite.
//!
//! SQLite takes a transaction for done once its last frame is written, and syncs the log at
//! `synchronous=FULL` only. So the volume commits the log as soon as a transaction ends. A frame is written
//! in two calls: a header of 24 bytes, then a page. Bytes 4 to 7 of the header are zero unless the frame ends
//! a transaction. If a transaction writes a frame again, SQLite reads the later headers with their pages and
//! writes the headers anew. The header of the last frame is then the last write.

use std::ops::Range;

/// Bytes of a frame header.
const HEADER_BYTES: usize = 24;

/// Bytes of a frame header that tell how many pages the database has after the transaction; 0 if none ends.
const DATABASE_PAGES: Range<usize> = 4..8;

/// Facts of the last reads and writes of a log.
#[derive(Debug, Default)]
pub(super) struct LogTail {
    /// Database pages told by the last header, if its frame ends a transaction. The page of the frame
    /// follows.
    ending: Option<u32>,
    /// Offset of the frame read last.
    read: Option<u64>,
    /// Bytes of a database page.
    page_bytes: u64,
}

impl LogTail {
    /// Notes a read of the log.
    pub(super) fn read(&mut self, offset: u64, bytes: usize) {
        self.read = (bytes > HEADER_BYTES).then_some(offset);
    }

    /// Notes a write of the log. Returns the bytes of the database if this write ends a transaction.
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
