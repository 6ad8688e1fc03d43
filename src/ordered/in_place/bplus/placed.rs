//! The knowledge of a tree's nodes in a store that places them itself: which children a node names, and the
//! number that it carries; and how the tree hears that nodes have other numbers.

use super::BPlusNodes;
use super::page::HEADER_BYTES;
use super::pages::Pages;
use crate::codec::{crc32, get_u32, put_u32};
use crate::units::Lpn;

impl BPlusNodes {
    /// Level of a node, if the page is one that fits its capacity.
    pub(in crate::ordered) fn level_of(&self, page: &[u8]) -> Option<u8> {
        crate::unit_layer::NodeCodec::mark(self, page)
    }

    /// Children of a node; none of a leaf.
    pub(in crate::ordered) fn children<'a>(&self, page: &'a [u8]) -> impl Iterator<Item = Lpn> + 'a {
        let (internal, is_leaf) = (self.internal, page[8] <= 1);
        let count = if is_leaf { 0 } else { crate::unit_layer::NodeCodec::entries(self, page) };
        (0..count).map(move |at| Lpn(get_u32(internal.value(&page[HEADER_BYTES..], at), 0)))
    }

    /// Names a child by another number; false where it was not named.
    pub(in crate::ordered) fn rename_child(&self, page: &mut [u8], old: Lpn, new: Lpn) -> bool {
        let Some(at) = self.children(page).position(|child| child == old) else { return false };
        self.internal.set_value(&mut page[HEADER_BYTES..], at, &new.0.to_le_bytes());
        true
    }

    /// The number that a node carries.
    pub(in crate::ordered) fn number(page: &[u8]) -> Lpn {
        Lpn(get_u32(page, 4))
    }

    /// Gives a node another number, and the checksum of its page.
    pub(in crate::ordered) fn renumber(page: &mut [u8], number: Lpn) {
        put_u32(page, 4, number.0);
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
    }
}

impl Pages {
    /// Trims go to the store at once, which sees itself to it that they reach the medium in time.
    pub(in crate::ordered) fn trim_at_once(&mut self) {
        self.space.trim_at_once();
    }

    /// Between two operations nodes got other numbers, one after the other.
    pub(in crate::ordered) fn renumber(&mut self, moved: &[(Lpn, Lpn)]) {
        for &(old, new) in moved {
            debug_assert_ne!(old, new, "B6: a node is given its own number");
            self.space.release(old);
            assert!(self.space.claim(new), "{new} is the number of another node");
            debug_assert!(!self.space.is_used(old), "B6: {old} names no node any more");
        }
    }

    /// Keeps a number from being given to a node; whether none had it.
    pub(in crate::ordered) fn withhold(&mut self, number: Lpn) -> bool {
        self.space.claim(number)
    }

    /// Lets a number go that was withheld, unless it was let go with all others.
    pub(in crate::ordered) fn let_go(&mut self, number: Lpn) {
        if self.space.is_used(number) {
            self.space.release(number);
        }
    }
}
