//! Division of a chip between keys and values.

use super::blocks::Blocks;
use super::chunk::{HEAD_BYTES, PLACE_BYTES};
use super::waiting::Waiting;
use crate::nand::Geometry;
use crate::ordered::RecordFormat;
use crate::ordered::variable::VALUE_HEAD;

/// Smallest number of blocks for an index: plow with all its levels needs this many.
const INDEX_MIN: u64 = 20;
/// Bytes of an index for each byte of its records: nodes are half full at worst.
const INDEX_SHARE: u64 = 2;

/// Number of blocks for a log, such that it and the index in the other blocks are full with the same number
/// of records. `value_bytes` is the mean size of a value, `record` the format of the index.
pub fn log_blocks(geometry: Geometry, record: RecordFormat, value_bytes: usize) -> u32 {
    let places = value_bytes as u64 / u64::from(geometry.page_bytes) + 1;
    let held = (1 + places * PLACE_BYTES as u64).max(u64::from(record.value_bytes) - VALUE_HEAD as u64);
    let keys = (u64::from(record.key_bytes) + held) * INDEX_SHARE;
    let heads = places * (HEAD_BYTES as u64 + u64::from(record.key_bytes));
    let values = (value_bytes as u64 + heads) * 8 / 7;
    let blocks = u64::from(geometry.blocks);
    let index = (blocks * keys / (keys + values)).max(INDEX_MIN).min(blocks);
    (blocks - index).max(u64::from(2 * Blocks::KEPT).min(blocks)) as u32
}

/// Largest number of places of a value of `value_bytes` bytes, in chunks of `chunk_bytes`. The first chunk
/// may get only the rest of a page.
pub(super) const fn places(value_bytes: usize, chunk_bytes: usize) -> usize {
    value_bytes.div_ceil(chunk_bytes) + 1
}

/// Most values that wait for a page to be full.
pub(super) const fn waiting_max(page_bytes: usize, short: usize) -> usize {
    page_bytes / (HEAD_BYTES + short + 1) + 1
}

/// Most bytes of RAM that a log holds, without its index and the caller's buffers: two pages, 6 bytes for
/// each block, and the values that wait for a page to be full.
pub fn ram_needed(geometry: Geometry, record: RecordFormat, max_value: usize) -> usize {
    let (page, key) = (geometry.page_bytes as usize, usize::from(record.key_bytes));
    let short = usize::from(record.value_bytes).saturating_sub(VALUE_HEAD + 1);
    let waiting = (waiting_max(page, short) + 1) * (size_of::<Waiting>() + key + PLACE_BYTES);
    let chunk = page.saturating_sub(HEAD_BYTES + key + 1).max(1);
    // Index values of a key before and after a change, as batches of the index and as places.
    let held = (1 + places(max_value, chunk) * PLACE_BYTES)
        .max(1 + short)
        .next_multiple_of(record.value_bytes.into());
    2 * page + 6 * geometry.blocks as usize + waiting + 8 * held + 4 * key + 512
}

#[cfg(test)]
mod tests {
    use super::super::record;
    use super::*;

    #[test]
    fn longer_values_leave_fewer_blocks_to_keys() {
        let chip = Geometry::new(4096, 0, 128, 1000);
        let blocks = [100, 500, 2_000, 10_000].map(|bytes| log_blocks(chip, record(16, 8), bytes));
        assert!(blocks.is_sorted() && blocks[0] > 500 && blocks[3] == 980, "{blocks:?}");
        assert_eq!(log_blocks(Geometry::new(4096, 0, 128, 8), record(16, 8), 100), 6);
    }
}
