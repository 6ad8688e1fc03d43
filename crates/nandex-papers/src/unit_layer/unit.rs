//! The index unit: the one record of the whole family, a change to one entry of one node.
//!
//! ```text
//! bytes 0..4   node
//!       4..8   number of the unit, its low 32 bits; numbers ascend
//!       8      mark of the node (the level, in a B+-tree)
//!       9      operation: 1 reset, 2 insert, 3 delete, 4 update
//!      10..    body, whose first bytes say which entry it is about; zeros up to a multiple of 4
//! ```

use nandex::codec::{get_u32, put_u32};

const HEAD_BYTES: usize = 10;

/// The operation of a unit on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Empties the node and voids all older units of it. It has no body.
    Reset = 1,
    /// Adds an entry that the node does not have.
    Insert = 2,
    /// Removes an entry.
    Delete = 3,
    /// Changes an entry that the node has.
    Update = 4,
}

impl Op {
    #[inline]
    pub(super) const fn from_byte(byte: u8) -> Option<Op> {
        Some(match byte {
            1 => Op::Reset,
            2 => Op::Insert,
            3 => Op::Delete,
            4 => Op::Update,
            _ => return None,
        })
    }
}

/// A change to one entry of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    /// The node to change.
    pub node: u32,
    /// The operation on the entry.
    pub op: Op,
    /// The mark of the node after the change: its property as a whole, beside the entries.
    pub mark: u8,
    /// The entry, as the node's codec encodes it.
    pub body: &'a [u8],
}

/// Bytes of a unit on the medium.
#[inline]
pub(super) const fn unit_bytes(body_bytes: usize) -> usize {
    (HEAD_BYTES + body_bytes).next_multiple_of(4)
}

impl<'a> Unit<'a> {
    /// Encodes the unit and its number.
    #[inline]
    pub(super) fn encode(&self, number: u32, bytes: &mut [u8]) {
        debug_assert_eq!(bytes.len(), unit_bytes(self.body.len()), "a unit of another size");
        bytes.fill(0);
        put_u32(bytes, 0, self.node);
        put_u32(bytes, 4, number);
        (bytes[8], bytes[9]) = (self.mark, self.op as u8);
        bytes[HEAD_BYTES..HEAD_BYTES + self.body.len()].copy_from_slice(self.body);
    }

    #[inline]
    pub(super) fn node_of(bytes: &[u8]) -> u32 {
        get_u32(bytes, 0)
    }

    /// Whether an encoded unit names a known operation.
    #[inline]
    pub(super) fn is_whole(bytes: &[u8]) -> bool {
        Op::from_byte(bytes[9]).is_some()
    }

    /// Decodes a unit. `None` if its operation is unknown.
    #[inline]
    pub(super) fn decode(bytes: &'a [u8], body_bytes: usize) -> Option<Unit<'a>> {
        let body = &bytes[HEAD_BYTES..HEAD_BYTES + body_bytes];
        Some(Unit { node: Unit::node_of(bytes), op: Op::from_byte(bytes[9])?, mark: bytes[8], body })
    }

    pub(super) fn number(bytes: &[u8]) -> u32 {
        get_u32(bytes, 4)
    }
}
