//! Bundles of the records that make packed pages, where RAM is short for these, too.

use super::list::{Effort, Made, Record, unpack};
use std::collections::BTreeMap;

/// Records that are packed together: more take less room, and longer to find one of them.
const RECORDS: usize = 64;
const BYTES_MAX: usize = 1 << 16;

/// Bytes of RAM of a bundle beside what is packed.
const BUNDLE_BYTES: usize = 64;

/// Records, packed together.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    bundles: BTreeMap<u32, Bundle>,
    next: u32,
}

#[derive(Debug)]
struct Bundle {
    packed: Box<[u8]>,
    /// Records that a page still needs.
    needed: usize,
}

impl Bundle {
    fn ram_bytes(&self) -> usize {
        self.packed.len() + BUNDLE_BYTES
    }
}

impl Bundles {
    /// Adds a bundle of the first of these records; which bundle, where each of them is, and its bytes of
    /// RAM. `None` where it would take more than they do, and `entry_bytes` for each of them.
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

    /// A record of a bundle.
    pub(super) fn record(&self, number: u32, made: Made) -> Option<Record> {
        let bundle = self.bundles.get(&number)?;
        made.of(&unpack(&bundle.packed, BYTES_MAX)?)
    }

    /// Forgets a record; the bytes of RAM that are free by that.
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
