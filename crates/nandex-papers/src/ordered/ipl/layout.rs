//! Bytes on the chip: the tag in the spare area of a page, the log unit (a sector or a page of log records),
//! and the records.
//!
//! ```text
//! log unit   | head (36) | group | group | ...       one group for each node that has records in the unit
//! group      | node u32 | previous unit u16 | bytes u16 | record | record | ...
//! record     | op u8 | sequence - first sequence of the unit, u24 | fields |
//! ```
//!
//! The previous unit of a group is the one that holds the node's next older records: so a node's records form
//! a chain through its block, and reading a node reads those units only.

use alloc::vec::Vec;
use nandex::codec::{crc32, get_u16, get_u32, get_u40, put_u16, put_u32, put_u40};

/// Bytes of a checkpoint besides its table of blocks: at the start, per block in use, and per node.
pub(super) const FIXED_BYTES: usize = 56;
pub(super) const BLOCK_BYTES: usize = 28;
pub(super) const SLOT_BYTES: usize = 8;

/// Bits of the number of a change, and of a block, or a session, in the order of opening.
pub(super) const SEQUENCE_BITS: u32 = 40;
pub(super) const GENERATION_BITS: u32 = 32;

/// Bytes of the tag in the spare area.
pub const TAG_BYTES: usize = 49;

/// Bytes of a log unit's head.
pub(super) const HEAD_BYTES: usize = 36;

/// Bytes of a group's head.
pub(super) const GROUP_BYTES: usize = 8;

/// Bytes of a record before its fields.
pub(super) const RECORD_BYTES: usize = 4;

/// Bytes of a record that waits in RAM before its fields.
pub(super) const WAITING_BYTES: usize = 10;

/// No unit: the end of a chain.
pub(super) const NO_UNIT: u16 = u16::MAX;

/// No block, by its generation.
pub(super) const NO_GENERATION: u32 = u32::MAX;

/// Largest difference between two sequence numbers in one unit.
pub(super) const SPAN_MAX: u64 = (1 << 24) - 1;

/// The link of a page or unit to the one programmed before it: a chip on which that is missing was damaged,
/// not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Blocks up to this generation were opened completely. If pages of their merges are missing, the chip
    /// was damaged, not cut.
    pub(super) opened: u32,
    /// Generation of the block programmed before.
    pub(super) generation: u32,
    /// The unit programmed before; for an image, the first unit of its page.
    pub(super) unit: u16,
}

impl Link {
    fn encode(&self, bytes: &mut [u8]) {
        put_u32(bytes, 0, self.opened);
        put_u32(bytes, 4, self.generation);
        put_u16(bytes, 8, self.unit);
    }

    fn decode(bytes: &[u8]) -> Link {
        Link { opened: get_u32(bytes, 0), generation: get_u32(bytes, 4), unit: get_u16(bytes, 8) }
    }
}

/// The use of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    /// The image of a node.
    Data,
    /// Log units of nodes.
    Log,
}

/// The account that the spare area gives of its page.
#[derive(Clone, Copy, Debug)]
pub(super) struct IplTag {
    pub(super) kind: PageKind,
    pub(super) level: u8,
    pub(super) count: u16,
    pub(super) node: u32,
    /// Number of the block in the order of opening.
    pub(super) generation: u32,
    /// Session in which the page was programmed. The number rises with each power cut.
    pub(super) session: u32,
    /// The image contains the node's records up to this number.
    pub(super) sequence: u64,
    /// Everything up to this number is durable once the page is.
    pub(super) committed: u64,
    /// The page's number in its block.
    pub(super) page: u16,
    /// Number of pages written by the merge that opened the block, if this page is one of them; otherwise 0.
    pub(super) merged: u16,
    /// True if the page that this one replaces is kept until the commit.
    pub(super) protected: bool,
    pub(super) before: Link,
    pub(super) data_crc: u32,
}

impl IplTag {
    /// Writes the tag, whose `data_crc` the caller has set.
    pub(super) fn encode(&self, spare: &mut [u8]) {
        debug_assert_eq!(
            self.kind == PageKind::Log,
            self.node == u32::MAX,
            "I4: a page of {:?} names node {}",
            self.kind,
            self.node
        );
        spare[..TAG_BYTES].fill(0xff);
        spare[1] = match self.kind {
            PageKind::Data if self.protected => b'N',
            PageKind::Data => b'n',
            PageKind::Log => b'R',
        };
        spare[2] = self.level;
        put_u16(spare, 3, self.count);
        put_u32(spare, 5, self.node);
        put_u32(spare, 9, self.generation);
        put_u32(spare, 13, self.session);
        put_u40(spare, 17, self.sequence);
        put_u40(spare, 22, self.committed);
        put_u16(spare, 27, self.page);
        put_u16(spare, 29, self.merged);
        self.before.encode(&mut spare[31..41]);
        put_u32(spare, 41, self.data_crc);
        put_u32(spare, 45, crc32(&[&spare[1..45]]));
    }

    /// Reads a tag; `None` when the bytes are not those of one.
    pub(super) fn decode(spare: &[u8]) -> Option<IplTag> {
        if crc32(&[&spare[1..45]]) != get_u32(spare, 45) {
            return None;
        }
        let kind = match spare[1] {
            b'N' | b'n' => PageKind::Data,
            b'R' => PageKind::Log,
            _ => return None,
        };
        Some(IplTag {
            kind,
            level: spare[2],
            count: get_u16(spare, 3),
            node: get_u32(spare, 5),
            generation: get_u32(spare, 9),
            session: get_u32(spare, 13),
            sequence: get_u40(spare, 17),
            committed: get_u40(spare, 22),
            page: get_u16(spare, 27),
            merged: get_u16(spare, 29),
            protected: spare[1] != b'n',
            before: Link::decode(&spare[31..41]),
            data_crc: get_u32(spare, 41),
        })
    }
}

/// The head of a log unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) generation: u32,
    /// Generation of a block that was given back before: it has no nodes any more.
    pub(super) dead: u32,
    /// Units programmed in the block before this one.
    pub(super) ordinal: u16,
    /// Bytes in use, head included.
    pub(super) length: u16,
    /// Sequence number from which those of the records count.
    pub(super) first: u64,
    /// Everything up to this number is durable once the unit is.
    pub(super) committed: u64,
    pub(super) before: Link,
}

impl Head {
    /// Writes the head of a unit whose groups are in place, with its checksum.
    pub(super) fn encode(&self, unit: &mut [u8]) {
        debug_assert!(
            (HEAD_BYTES..=unit.len()).contains(&usize::from(self.length)),
            "I5: a unit of {} bytes, {} in use",
            unit.len(),
            self.length
        );
        put_u32(unit, 4, self.generation);
        put_u32(unit, 8, self.dead);
        put_u16(unit, 12, self.ordinal);
        put_u16(unit, 14, self.length);
        put_u40(unit, 16, self.first);
        put_u40(unit, 21, self.committed);
        self.before.encode(&mut unit[26..36]);
        let crc = crc32(&[&unit[4..usize::from(self.length)]]);
        put_u32(unit, 0, crc);
    }

    /// Reads the head of a sound unit; `None` when it is torn, damaged or was never programmed.
    pub(super) fn decode(unit: &[u8]) -> Option<Head> {
        let length = get_u16(unit, 14);
        let in_use = unit.get(4..usize::from(length)).filter(|used| used.len() >= HEAD_BYTES - 4)?;
        (crc32(&[in_use]) == get_u32(unit, 0)).then(|| Head {
            generation: get_u32(unit, 4),
            dead: get_u32(unit, 8),
            ordinal: get_u16(unit, 12),
            length,
            first: get_u40(unit, 16),
            committed: get_u40(unit, 21),
            before: Link::decode(&unit[26..36]),
        })
    }
}

/// The records of one node in one unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    pub(super) node: u32,
    pub(super) previous: u16,
    pub(super) records: &'a [u8],
}

/// The groups of a unit; ends early, with `None` inside, where the bytes make no sense.
pub(super) fn groups(unit: &[u8]) -> impl Iterator<Item = Option<Group<'_>>> {
    let length = usize::from(get_u16(unit, 14)).min(unit.len());
    let mut rest = unit.get(HEAD_BYTES..length).unwrap_or_default();
    core::iter::from_fn(move || {
        let bytes = Some(core::mem::take(&mut rest)).filter(|bytes| !bytes.is_empty())?;
        Some(bytes.split_at_checked(GROUP_BYTES).and_then(|(head, after)| {
            let (records, after) = after.split_at_checked(usize::from(get_u16(head, 6)))?;
            rest = after;
            Some(Group { node: get_u32(head, 0), previous: get_u16(head, 4), records })
        }))
    })
}

/// A change of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    /// A leaf gets a record, or a new value for its key.
    Put { key: &'a [u8], value: &'a [u8] },
    /// An inner node gets a child.
    Link { key: &'a [u8], child: u32 },
    /// Removes the entry of this key.
    Remove { key: &'a [u8] },
    /// The entries from this key on go.
    Cut { key: &'a [u8] },
    /// Creates the node as a ghost: it has the entries of `source` from `low` on. The image of `source` is
    /// page `base` of the block.
    Ghost { low: &'a [u8], source: u32, base: u16 },
    /// The ghost of a block with all that `source` had.
    GhostOfAll { source: u32, base: u16 },
}

/// A change and its sequence number.
pub(super) type Record<'a> = (u64, Change<'a>);

/// Widths of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Widths {
    pub(super) key: usize,
    pub(super) value: usize,
}

impl Widths {
    /// Bytes of a change's fields.
    pub(super) fn fields_of(&self, change: &Change<'_>) -> usize {
        self.fields(change.op()).unwrap_or(0)
    }

    fn fields(&self, op: u8) -> Option<usize> {
        Some(match op {
            1 => self.key + self.value,
            2 => self.key + 4,
            3 | 4 => self.key,
            5 => self.key + 6,
            6 => 6,
            _ => return None,
        })
    }

    /// Splits the first change off: its op, its fields, and the rest.
    pub(super) fn split<'a>(&self, op: u8, bytes: &'a [u8]) -> Option<(Change<'a>, &'a [u8])> {
        let (fields, rest) = bytes.split_at_checked(self.fields(op)?)?;
        let (key, tail) = fields.split_at(self.key.min(fields.len()));
        let change = match op {
            1 => Change::Put { key, value: tail },
            2 => Change::Link { key, child: get_u32(tail, 0) },
            3 => Change::Remove { key },
            4 => Change::Cut { key },
            5 => Change::Ghost { low: key, source: get_u32(tail, 0), base: get_u16(tail, 4) },
            _ => Change::GhostOfAll { source: get_u32(fields, 0), base: get_u16(fields, 4) },
        };
        Some((change, rest))
    }
}

impl Change<'_> {
    /// Code of the change.
    pub(super) fn op(&self) -> u8 {
        match self {
            Change::Put { .. } => 1,
            Change::Link { .. } => 2,
            Change::Remove { .. } => 3,
            Change::Cut { .. } => 4,
            Change::Ghost { .. } => 5,
            Change::GhostOfAll { .. } => 6,
        }
    }

    /// The node from which a ghost came, and the page of that node's image.
    pub(super) fn source(&self) -> Option<(u32, u16)> {
        match *self {
            Change::Ghost { source, base, .. } | Change::GhostOfAll { source, base } => Some((source, base)),
            _ => None,
        }
    }

    /// Appends the fields of the change.
    pub(super) fn push_fields(&self, out: &mut Vec<u8>) {
        match self {
            Change::Put { key, .. } | Change::Link { key, .. } => out.extend_from_slice(key),
            Change::Remove { key } | Change::Cut { key } => out.extend_from_slice(key),
            Change::Ghost { low, .. } => out.extend_from_slice(low),
            Change::GhostOfAll { .. } => {}
        }
        if let Change::Put { value, .. } = self {
            out.extend_from_slice(value);
        } else if let Change::Link { child, .. } = self {
            out.extend_from_slice(&child.to_le_bytes());
        } else if let Some((source, base)) = self.source() {
            out.extend_from_slice(&source.to_le_bytes());
            out.extend_from_slice(&base.to_le_bytes());
        }
    }
}

/// The records of a group, each with its sequence number; `None` inside where the bytes make no sense.
pub(super) fn records(widths: Widths, first: u64, bytes: &[u8]) -> impl Iterator<Item = Option<Record<'_>>> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        let bytes = Some(core::mem::take(&mut rest)).filter(|bytes| !bytes.is_empty())?;
        Some(bytes.split_at_checked(RECORD_BYTES).and_then(|(head, after)| {
            let (change, after) = widths.split(head[0], after)?;
            rest = after;
            Some((first + u64::from(get_u32(head, 0) >> 8), change))
        }))
    })
}

/// Records that wait in RAM, in the order they were made: node (4), sequence (5), op (1), fields.
pub(super) fn push_waiting(out: &mut Vec<u8>, node: u32, sequence: u64, change: &Change<'_>) {
    out.extend_from_slice(&node.to_le_bytes());
    out.extend_from_slice(&sequence.to_le_bytes()[..5]);
    out.push(change.op());
    change.push_fields(out);
}

/// The waiting records: node, sequence, change.
pub(super) fn waiting(widths: Widths, bytes: &[u8]) -> impl Iterator<Item = (u32, u64, Change<'_>)> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        let (head, after) = rest.split_at_checked(10)?;
        let (change, after) = widths.split(head[9], after)?;
        rest = after;
        Some((get_u32(head, 0), get_u40(head, 4), change))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const WIDTHS: Widths = Widths { key: 4, value: 2 };

    #[test]
    fn a_tag_comes_back_and_a_flip_is_noticed() {
        let tag = IplTag {
            kind: PageKind::Data,
            level: 3,
            count: 200,
            node: 70_000,
            generation: 9,
            session: 2,
            sequence: 1 << 33,
            committed: (1 << 33) - 1,
            page: 3,
            merged: 7,
            protected: false,
            before: Link { opened: 5, generation: 8, unit: 12 },
            data_crc: 99,
        };
        let mut spare = [0xff; 64];
        tag.encode(&mut spare);
        assert_eq!(alloc::format!("{:?}", IplTag::decode(&spare).unwrap()), alloc::format!("{tag:?}"));
        for bit in 8..8 * TAG_BYTES {
            spare[bit / 8] ^= 1 << (bit % 8);
            assert!(IplTag::decode(&spare).is_none(), "bit {bit}");
            spare[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(IplTag::decode(&[0xff; 64]).is_none());
    }

    #[test]
    fn changes_come_back() {
        let key = [1, 2, 3, 4];
        let changes = [
            Change::Put { key: &key, value: &[5, 6] },
            Change::Link { key: &key, child: 7 },
            Change::Remove { key: &key },
            Change::Cut { key: &key },
            Change::Ghost { low: &key, source: 8, base: 9 },
            Change::GhostOfAll { source: 10, base: 11 },
        ];
        let mut bytes = vec![];
        for (i, change) in changes.iter().enumerate() {
            push_waiting(&mut bytes, i as u32, 100 + i as u64, change);
        }
        let found: Vec<_> = waiting(WIDTHS, &bytes).collect();
        let expected: Vec<_> =
            changes.iter().enumerate().map(|(i, change)| (i as u32, 100 + i as u64, *change)).collect();
        assert_eq!(found, expected);
    }
}
