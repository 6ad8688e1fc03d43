//! Trees on a store that places nodes itself: the store tells the tree about new numbers of nodes.

use super::pages::Pages;
use crate::units::Lpn;

impl Pages {
    /// Sends trims to the store at once. The store itself makes sure that they reach the medium in time.
    pub fn trim_at_once(&mut self) {
        self.space.trim_at_once();
    }

    /// Gives nodes new numbers, between two operations and in this order.
    pub fn renumber(&mut self, moved: &[(Lpn, Lpn)]) {
        for &(old, new) in moved {
            debug_assert_ne!(old, new, "B6: a node is given its own number");
            self.space.release(old);
            assert!(self.space.claim(new), "{new} is the number of another node");
            debug_assert!(!self.space.is_used(old), "B6: {old} names no node any more");
        }
    }

    /// Keeps a number from being given to a node. False if it is in use.
    pub fn withhold(&mut self, number: Lpn) -> bool {
        self.space.claim(number)
    }

    /// Frees a withheld number, unless it was freed with all others.
    pub fn let_go(&mut self, number: Lpn) {
        if self.space.is_used(number) {
            self.space.release(number);
        }
    }
}
