//! One change of one record, as buffers hand it to trees.

/// A new value for a key, or none to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    pub(in crate::ordered) key: &'a [u8],
    pub(in crate::ordered) value: Option<&'a [u8]>,
}
