//! The codec of a tree's nodes: how a change of a node becomes units and units become a node.

use super::images::Images;
use super::unit::{Op, Unit};
use nandex::store::StoreError;
use nandex::units::Lpn;

/// Bytes of the body of a unit at most.
pub const BODY_BYTES_MAX: usize = 1 + 2 * 255;

/// How the body of a unit says which entry of the node it is about: by its first bytes, so many; or by the
/// first byte alone, where that is this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Bytes that say it.
    pub bytes: usize,
    /// The first byte of a body that is about the one entry of this kind, whatever the other bytes are.
    pub only: Option<u8>,
}

impl Identity {
    /// The first bytes, so many.
    pub const fn first(bytes: usize) -> Identity {
        Identity { bytes, only: None }
    }

    /// Equal for bodies about the same entry.
    pub(super) fn of<'a>(&self, body: &'a [u8]) -> &'a [u8] {
        if self.only.is_some_and(|only| body.first() == Some(&only)) {
            &body[..1]
        } else {
            &body[..self.bytes]
        }
    }
}

/// The codec of a tree's nodes: what a layer must know of their bytes.
pub trait NodeCodec: nandex::shared::MaybeSend {
    /// Bytes of the body of a unit, at most [`BODY_BYTES_MAX`].
    fn body_bytes(&self) -> usize;

    /// Which entry a body is about.
    fn identity(&self) -> Identity;

    /// Entries of a node at most.
    fn entries_max(&self) -> usize;

    /// The mark of the node as a whole, other than its entries; none if it is no node.
    fn mark(&self, page: &[u8]) -> Option<u8>;

    /// Entries of a node.
    fn entries(&self, page: &[u8]) -> usize;

    /// Makes a page an empty node.
    fn reset(&self, page: &mut [u8], node: Lpn, mark: u8);

    /// Shows the units that lead from a node, or an empty one, to another image of it: at most one for each
    /// entry, and those of entries that leave first.
    fn differences(&self, old: Option<&[u8]>, new: &[u8], show: &mut dyn FnMut(Op, &[u8]));

    /// Applies a unit other than a reset; an error tells why it cannot be.
    fn apply(&self, page: &mut [u8], op: Op, body: &[u8]) -> Result<(), &'static str>;

    /// Finishes the page after the last unit.
    fn seal(&self, page: &mut [u8]);
}

/// Applies a unit to a page that holds its node, or nothing.
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

/// Shows the units that lead from the node in hand to its new image; how many there are. A reset, with all
/// entries after it, is taken where that is less.
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

/// Shows a reset and then all entries of a node.
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
