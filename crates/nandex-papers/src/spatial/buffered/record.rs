//! The bytes of a modification, in the buffer and in the log: one size for all, so that either is an array.
//!
//! ```text
//! modification             byte 0     what: 1 add data, 2 add child, 3 update data, 4 update child, 5 remove, 6 reset
//!                          1..3       the place of the entry
//!                          3..        the entry as in a node; of a reset the level and the tag
//! record of the log        byte 0     1 = the last of its operation
//!                          1..7       number of the operation
//!                          7..11      node
//!                          11..       modification; besides those above: 7 the node is given up, 8 the node was
//!                                     flushed as of this operation, 9 operations up to this one are past
//! ```
//!
//! A node that is another throughout is a reset and an addition for each entry. Label of the log: the type of
//! the coordinates and 16 times the dimensions; the bytes of a place on the Hilbert curve.

use nandex::check::{Breach, Invariant};
use nandex::codec::{get_u16, get_u32, put_u16, put_u32};
use nandex::record_log::RecordKind;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::node::{Change, Entry, Node, NodeFormat, NodeId, Pointer};

const ADD_DATA: u8 = 1;
const ADD_CHILD: u8 = 2;
const UPDATE_DATA: u8 = 3;
const UPDATE_CHILD: u8 = 4;
const REMOVE: u8 = 5;
const RESET: u8 = 6;
pub(super) const FREE: u8 = 7;
pub(super) const FLUSHED: u8 = 8;
pub(super) const PAST: u8 = 9;

const MOD_HEAD_BYTES: usize = 3;
const RECORD_HEAD_BYTES: usize = 11;
const NUMBER_BYTES: usize = 6;

/// The record format of a log of node modifications.
pub(super) struct NodeRecords;

impl RecordKind for NodeRecords {
    const MAGIC: &'static [u8; 8] = b"NXNODLOG";

    fn record_bytes([shape, key_bytes]: [u8; 2]) -> Option<usize> {
        let (coordinate, dimensions) = (shape & 15, shape >> 4);
        let is_known = (1..=4).contains(&coordinate) && (2..=3).contains(&dimensions) && key_bytes <= 16;
        let corner_bytes = usize::from(dimensions) * if coordinate % 2 == 1 { 4 } else { 8 };
        let entry_bytes = 2 * corner_bytes + 8.max(4 + usize::from(key_bytes));
        is_known.then_some(RECORD_HEAD_BYTES + MOD_HEAD_BYTES + entry_bytes)
    }

    fn is_record(record: &[u8]) -> bool {
        record[0] <= 1 && (ADD_DATA..=PAST).contains(&record[RECORD_HEAD_BYTES])
    }
}

/// The label of a tree's log: its coordinates, dimensions and key bytes.
pub(super) fn label(format: &NodeFormat) -> [u8; 2] {
    [format.coordinate | format.dimensions << 4, format.key_bytes]
}

/// Bytes of a modification; all have the same size.
pub(super) fn mod_bytes(format: &NodeFormat) -> usize {
    MOD_HEAD_BYTES + format.data_entry_bytes().max(format.child_entry_bytes())
}

/// The head of a record of the log: everything but its modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHead {
    pub(super) is_last: bool,
    pub(super) operation: u64,
    pub(super) node: NodeId,
}

impl RecordHead {
    pub(super) fn put(self, modification: &[u8], record: &mut [u8]) {
        record.fill(0);
        record[0] = u8::from(self.is_last);
        record[1..1 + NUMBER_BYTES].copy_from_slice(&self.operation.to_le_bytes()[..NUMBER_BYTES]);
        put_u32(record, 7, self.node.0);
        record[RECORD_HEAD_BYTES..][..modification.len()].copy_from_slice(modification);
    }

    /// Splits a record into its head and its modification.
    pub(super) fn of(record: &[u8]) -> (RecordHead, &[u8]) {
        let mut operation = [0; 8];
        operation[..NUMBER_BYTES].copy_from_slice(&record[1..1 + NUMBER_BYTES]);
        let head = RecordHead {
            is_last: record[0] == 1,
            operation: u64::from_le_bytes(operation),
            node: NodeId(get_u32(record, 7)),
        };
        (head, &record[RECORD_HEAD_BYTES..])
    }
}

/// Whether a modification is a reset, which voids all before it.
pub(super) fn is_reset(modification: &[u8]) -> bool {
    modification[0] == RESET
}

/// Number of entries of a node after a modification.
pub(super) fn entries_after(before: u32, modification: &[u8]) -> u32 {
    match modification[0] {
        ADD_DATA | ADD_CHILD => before.saturating_add(1),
        REMOVE => before.saturating_sub(1),
        RESET => 0,
        _ => before,
    }
}

/// The place, the kind and the bytes of the entry, if the modification adds or updates one.
pub(super) fn entry_put(modification: &[u8]) -> Option<(usize, bool, &[u8])> {
    let is_data = matches!(modification[0], ADD_DATA | UPDATE_DATA);
    let puts = (ADD_DATA..=UPDATE_CHILD).contains(&modification[0]);
    puts.then(|| (usize::from(get_u16(modification, 1)), is_data, &modification[MOD_HEAD_BYTES..]))
}

/// Merges an update into the newest modification that put the same entry, if no place has changed since.
/// Returns whether it did.
pub(super) fn coalesce(mods: &mut [u8], modification: &[u8]) -> bool {
    if !matches!(modification[0], UPDATE_DATA | UPDATE_CHILD) {
        return false;
    }
    let place = get_u16(modification, 1);
    for older in mods.rchunks_exact_mut(modification.len()) {
        let (what, at) = (older[0], get_u16(older, 1));
        match what {
            ADD_DATA..=UPDATE_CHILD if at == place => {
                older[MOD_HEAD_BYTES..].copy_from_slice(&modification[MOD_HEAD_BYTES..]);
                return true;
            }
            // Entries behind it have moved.
            ADD_DATA | ADD_CHILD if at < place => return false,
            REMOVE | RESET => return false,
            _ => {}
        }
    }
    false
}

pub(super) fn show<C: Coordinate, const D: usize>(
    format: &NodeFormat,
    change: &Change<C, D>,
    emit: &mut dyn FnMut(&[u8]),
) {
    // Entries have at most 2 corners of 3 coordinates of 8 bytes, a number of a child and a key of 16 bytes.
    let mut bytes = [0; MOD_HEAD_BYTES + 2 * 3 * 8 + 4 + 16];
    let bytes = &mut bytes[..mod_bytes(format)];
    let mut put = |kinds: [u8; 2], at: usize, entry: &Entry<C, D>| {
        bytes.fill(0);
        bytes[0] = kinds[usize::from(matches!(entry.pointer, Pointer::Child(_)))];
        put_u16(bytes, 1, at as u16);
        format.put_entry(entry, &mut bytes[MOD_HEAD_BYTES..]);
        emit(bytes);
    };
    match change {
        Change::Add { at, entry } => put([ADD_DATA, ADD_CHILD], *at, entry),
        Change::Update { at, entry } => put([UPDATE_DATA, UPDATE_CHILD], *at, entry),
        Change::Remove { at } => {
            bytes[0] = REMOVE;
            put_u16(bytes, 1, *at as u16);
            emit(bytes);
        }
        Change::Whole(node) => show_whole(format, node, emit),
    }
}

pub(super) fn show_whole<C: Coordinate, const D: usize>(
    format: &NodeFormat,
    node: &Node<C, D>,
    emit: &mut dyn FnMut(&[u8]),
) {
    let mut bytes = [0; MOD_HEAD_BYTES + 2 * 3 * 8 + 4 + 16];
    let bytes = &mut bytes[..mod_bytes(format)];
    (bytes[0], bytes[3]) = (RESET, node.level);
    put_u16(bytes, 4, node.tag);
    emit(bytes);
    for (at, entry) in node.entries.iter().enumerate() {
        show(format, &Change::Add { at, entry: *entry }, emit);
    }
}

/// Applies a modification to a node. One that does not fit is refused; only a damaged log has such.
pub(super) fn apply<C: Coordinate, const D: usize>(
    format: &NodeFormat,
    modification: &[u8],
    node: &mut Node<C, D>,
) -> Result<(), Breach> {
    let at = usize::from(get_u16(modification, 1));
    let entry = |is_data| {
        let read = format.entry_at::<C, D>(is_data, &modification[MOD_HEAD_BYTES..]);
        read.map(|(entry, _)| entry).ok_or((Invariant::S2, "the entry of a modification is none"))
    };
    let change = match modification[0] {
        ADD_DATA | ADD_CHILD => Change::Add { at, entry: entry(modification[0] == ADD_DATA)? },
        UPDATE_DATA | UPDATE_CHILD => Change::Update { at, entry: entry(modification[0] == UPDATE_DATA)? },
        REMOVE => Change::Remove { at },
        RESET => {
            let level = modification[3];
            if level == 0 || usize::from(level) > format.height_max() {
                return Err((Invariant::S5, "the level of a logged node cannot be"));
            }
            (node.level, node.tag) = (level, get_u16(modification, 4));
            node.entries.clear();
            return Ok(());
        }
        _ => return Err((Invariant::B1, "no such modification of a node")),
    };
    node.apply(&change).map_err(|_| (Invariant::B1, "a modification of an entry that the node has not"))
}

/// Refuses a node that the format does not allow. Nodes built from logged modifications are checked like
/// nodes read from pages.
pub(super) fn require_node<C: Coordinate, const D: usize>(
    format: &NodeFormat,
    id: NodeId,
    node: &Node<C, D>,
) -> Result<(), Breach> {
    let data = node.data_count();
    let children_stand_last = node.entries[data..].iter().all(|entry| entry.child_id().is_some());
    let is_mixed = !format.is_balanced && node.level > 1;
    let right = if node.level == 1 { node.entries.len() } else { 0 };
    if !children_stand_last || (!is_mixed && data != right) {
        return Err((Invariant::S4, "a node with modifications holds entries of the wrong kind"));
    }
    if node.entries.len() > format.capacity(node.level)
        || node.entries.is_empty() && id != nandex::spatial::node::ROOT
    {
        return Err((Invariant::S4, "a node with modifications holds too few or too many entries"));
    }
    Ok(())
}
