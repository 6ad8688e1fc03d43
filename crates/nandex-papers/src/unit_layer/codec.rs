//! The codec of a tree's nodes: how a change of a node becomes units and units become a node.

use super::images::Images;
use super::unit::{Op, Unit};
use nandex::store::StoreError;
use nandex::units::Lpn;

/// Largest size of a unit's body, in bytes.
pub const BODY_BYTES_MAX: usize = 1 + 2 * 255;

/// The part of a unit's body that says which entry of the node it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Number of leading bytes that identify the entry.
    pub bytes: usize,
    /// A first byte that identifies an entry alone, whatever the other bytes are.
    pub only: Option<u8>,
}

impl Identity {
    /// An identity by the first `bytes` bytes.
    pub const fn first(bytes: usize) -> Identity {
        Identity { bytes, only: None }
    }

    /// The identifying bytes of a body. Two bodies about the same entry have equal ones.
    pub(super) fn of<'a>(&self, body: &'a [u8]) -> &'a [u8] {
        if self.only.is_some_and(|only| body.first() == Some(&only)) {
            &body[..1]
        } else {
            &body[..self.bytes]
        }
    }
}

/// The codec of a tree's nodes: all that a layer knows of their bytes.
pub trait NodeCodec: nandex::shared::MaybeSend {
    /// Bytes of a unit's body, at most [`BODY_BYTES_MAX`].
    fn body_bytes(&self) -> usize;

    /// The part of a body that identifies its entry.
    fn identity(&self) -> Identity;

    /// Largest number of entries in a node.
    fn entries_max(&self) -> usize;

    /// The mark of a node: its property as a whole, beside the entries. `None` if the page is no node.
    fn mark(&self, page: &[u8]) -> Option<u8>;

    /// Number of entries in a node.
    fn entries(&self, page: &[u8]) -> usize;

    /// Makes a page an empty node with this mark.
    fn reset(&self, page: &mut [u8], node: Lpn, mark: u8);

    /// Passes to `show` the units that turn one image of a node, or an empty node, into another. There is at
    /// most one unit for each entry, and deletions come first.
    fn differences(&self, old: Option<&[u8]>, new: &[u8], show: &mut dyn FnMut(Op, &[u8]));

    /// Applies a unit that is not a reset. An error tells why it does not fit.
    fn apply(&self, page: &mut [u8], op: Op, body: &[u8]) -> Result<(), &'static str>;

    /// Completes the page after the last unit.
    fn seal(&self, page: &mut [u8]);
}

/// Applies a unit to the page of its node, or to an empty page.
#[inline]
pub(super) fn apply(codec: &impl NodeCodec, page: &mut [u8], unit: Unit<'_>) -> Result<(), StoreError> {
    if unit.op == Op::Reset {
        codec.reset(page, Lpn(unit.node), unit.mark);
        return Ok(());
    }
    let what = match codec.mark(page) {
        Some(mark) if mark == unit.mark => codec.apply(page, unit.op, unit.body),
        _ => Err("N2: a unit of a node that nothing began"),
    };
    what.map_err(|what| StoreError::Corrupted { what, at: u64::from(unit.node) })
}

/// Shows the units that turn the node's remembered image into its new one. Returns how many there are. A
/// reset followed by all entries is used if that is fewer units.
pub(super) fn show_changes(
    codec: &impl NodeCodec,
    images: &Images,
    (node, new): (Lpn, &[u8]),
    show: &mut dyn FnMut(Unit<'_>),
) -> Result<usize, StoreError> {
    let Some(mark) = codec.mark(new) else {
        return Err(StoreError::Unsupported("a node layer takes nodes only".into()));
    };
    let old = images.get(node).filter(|old| codec.mark(old) == Some(mark));
    let all = codec.entries(new) + 1;
    if let Some(old) = old {
        let mut changes = 0;
        codec.differences(Some(old), new, &mut |_, _| changes += 1);
        if changes <= all {
            codec.differences(Some(old), new, &mut |op, body| show(Unit { node: node.0, op, mark, body }));
            return Ok(changes);
        }
    }
    let mut shown = 0;
    show_whole(codec, node, mark, new, &mut |unit| {
        shown += 1;
        show(unit);
    });
    debug_assert_eq!(shown, all, "the units of {node} are not one for each entry");
    Ok(all)
}

pub(super) fn show_whole(
    codec: &impl NodeCodec,
    node: Lpn,
    mark: u8,
    page: &[u8],
    show: &mut dyn FnMut(Unit<'_>),
) {
    const NO_BODY: [u8; BODY_BYTES_MAX] = [0; BODY_BYTES_MAX];
    show(Unit { node: node.0, op: Op::Reset, mark, body: &NO_BODY[..codec.body_bytes()] });
    codec.differences(None, page, &mut |op, body| show(Unit { node: node.0, op, mark, body }));
}
