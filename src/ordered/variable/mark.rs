//! The mark of a value of several pieces: its CRC-32, in the last bytes of its last piece.
//!
//! For example, if the value leaves 9 bytes of its last piece free, they are 5 zeros and the CRC. If it
//! leaves 3, they are the first 3 bytes of the CRC. A value that leaves none has no mark, which would take
//! another record. Values written before marks existed have zeros there.
//!
//! The place of the mark does not depend on the value's length. So the last piece of a shorter value has its
//! own mark there, and not the zeros of a value without a mark.

use super::pieces;
use crate::check::IndexError;
use crate::codec::crc32;
use alloc::vec::Vec;

/// Bytes of a mark, if there is room.
const MARK: usize = 4;

/// Fills a value up to whole pieces, with its mark. The value stands at the end of `values`, behind its
/// length.
pub(super) fn put_mark(values: &mut Vec<u8>, value: &[u8], piece_bytes: usize) {
    let unused = unused(value.len(), piece_bytes);
    if pieces(value.len(), piece_bytes) > 1 && unused > 0 {
        let bytes = unused.min(MARK);
        values.resize(values.len() + unused - bytes, 0);
        values.extend_from_slice(&crc32(&[value]).to_le_bytes()[..bytes]);
    }
}

/// Refuses a value of `bytes` bytes if its pieces are not all of one value. `filled` are the bytes of the
/// pieces behind the length.
pub(super) fn require_whole(filled: &[u8], bytes: usize, piece_bytes: usize) -> Result<(), IndexError> {
    let pieces = pieces(bytes, piece_bytes);
    let (value, rest) = filled.split_at(bytes);
    if pieces == 1 || rest.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    let (zeros, mark) = rest.split_at(rest.len().saturating_sub(MARK));
    if zeros.iter().all(|&byte| byte == 0) && crc32(&[value]).to_le_bytes().starts_with(mark) {
        return Ok(());
    }
    Err(IndexError::corrupted("the pieces of a value are of two", pieces as u64 - 1))
}

/// Number of bytes that a value leaves unused in its last piece.
fn unused(bytes: usize, piece_bytes: usize) -> usize {
    pieces(bytes, piece_bytes) * piece_bytes - super::VALUE_HEAD - bytes
}
