//! Bundles: records compressed together, if RAM is short for the records too.

use super::list::{Effort, Made, Record, unpack};
use std::collections::BTreeMap;

/// Records of a bundle. A larger bundle compresses better, and reading one of its records takes longer.
const RECORDS: usize = 64;
const BYTES_MAX: usize = 1 << 16;

/// Bytes of RAM of a bundle, not counting the compressed records.
const BUNDLE_BYTES: usize = 64;

/// The bundles of a file, by number.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    bundles: BTreeMap<u32, Bundle>,
    next: u32,
}

#[derive(Debug)]
struct Bundle {
    packed: Box<[u8]>,
    /// Records that a page still needs; the bundle is dropped at 0.
    needed: usize,
}

impl Bundle {
    fn ram_bytes(&self) -> usize {
        self.packed.len() + BUNDLE_BYTES
    }
}

impl Bundles {
    /// Makes a bundle of the first `records`, as many as fit. Returns its number, where each record is in it,
    /// and its bytes of RAM. Returns `None` if the bundle would not take less RAM than the records, each with
    /// `entry_bytes` more.
    pub(super) fn add<'a>(
        &mut self,
        records: impl Iterator<Item = &'a Record>,
        entry_bytes: usize,
    ) -> Option<(u32, Vec<Made>, usize)> {
        let (mut raw, mut made, mut before) = (Vec::new(), Vec::new(), 0);
        for record in records.take(RECORDS) {
            if raw.len() + record.bytes().len() > BYTES_MAX {
                break;
            }
            made.push(record.added_to(&mut raw));
            before += record.bytes().len() + entry_bytes;
        }
        let packed = Effort::Little.pack(&raw).into_boxed_slice();
        let bundle = Bundle { packed, needed: made.len() };
        let bytes = bundle.ram_bytes();
        if made.is_empty() || bytes >= before {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.bundles.insert(number, bundle);
        Some((number, made, bytes))
    }

    /// Unpacks the bundle and returns one record of it.
    pub(super) fn record(&self, number: u32, made: Made) -> Option<Record> {
        let bundle = self.bundles.get(&number)?;
        made.of(&unpack(&bundle.packed, BYTES_MAX)?)
    }

    /// Forgets one record of a bundle. Returns the bytes of RAM freed, 0 unless it was the last.
    pub(super) fn forget(&mut self, number: u32) -> usize {
        let Some(bundle) = self.bundles.get_mut(&number) else { return 0 };
        bundle.needed -= 1;
        if bundle.needed > 0 {
            return 0;
        }
        self.bundles.remove(&number).map_or(0, |bundle| bundle.ram_bytes())
    }

    pub(super) fn clear(&mut self) {
        self.bundles.clear();
    }
}
