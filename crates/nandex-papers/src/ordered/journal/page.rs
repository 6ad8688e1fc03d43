//! The records of the journal: 1 (put) or 2 (removal), the key, the value (0 in a removal). Keys are byte
//! strings.
//!
//! The pages are those of any log of records (`record_log`), with the characters "NXJOURN1"; the label is the
//! bytes of a key and those of a value.

use nandex::ordered::RecordFormat;
use nandex::ordered::change::Change;
use nandex::record_log::{self, RecordKind};

#[cfg(test)]
pub(super) use nandex::record_log::HEADER_BYTES;
const PUT: u8 = 1;
const REMOVAL: u8 = 2;

/// The record format of a log of updates of an ordered index.
pub(super) struct Updates;

impl RecordKind for Updates {
    const MAGIC: &'static [u8; 8] = b"NXJOURN1";

    fn record_bytes([key_bytes, value_bytes]: [u8; 2]) -> Option<usize> {
        (key_bytes > 0).then(|| 1 + RecordFormat::new(key_bytes, value_bytes).entry_bytes())
    }

    fn is_record(record: &[u8]) -> bool {
        record[0] == PUT || record[0] == REMOVAL
    }
}

/// The layout of a journal of such records. `None` if keys have no bytes.
pub(super) fn layout(record: RecordFormat, pages: u32, page_bytes: usize) -> Option<record_log::Layout> {
    record_log::Layout::new::<Updates>([record.key_bytes, record.value_bytes], pages, page_bytes)
}

pub(super) fn record_of(layout: &record_log::Layout) -> RecordFormat {
    let [key_bytes, value_bytes] = layout.label;
    RecordFormat::new(key_bytes, value_bytes)
}

pub(super) fn put_record(record: RecordFormat, bytes: &mut [u8], change: Change<'_>) {
    debug_assert_eq!(bytes.len(), 1 + record.entry_bytes(), "a record of another size");
    bytes.fill(0);
    bytes[0] = if change.value.is_some() { PUT } else { REMOVAL };
    let (key, value) = bytes[1..].split_at_mut(usize::from(record.key_bytes));
    key.copy_from_slice(change.key);
    if let Some(new) = change.value {
        value.copy_from_slice(new);
    }
}

pub(super) fn change_of(record: RecordFormat, bytes: &[u8]) -> Change<'_> {
    debug_assert_eq!(bytes.len(), 1 + record.entry_bytes(), "a record of another size");
    let (key, value) = bytes[1..].split_at(usize::from(record.key_bytes));
    Change { key, value: (bytes[0] == PUT).then_some(value) }
}
