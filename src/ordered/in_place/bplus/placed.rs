//! A tree on a store that places nodes itself: how the tree hears that nodes have other numbers.

use super::pages::Pages;
use crate::units::Lpn;

impl Pages {
    /// Trims go to the store at once, which sees itself to it that they reach the medium in time.
    pub fn trim_at_once(&mut self) {
        self.space.trim_at_once();
    }

    /// Between two operations nodes got other numbers, one after the other.
    pub fn renumber(&mut self, moved: &[(Lpn, Lpn)]) {
        for &(old, new) in moved {
            debug_assert_ne!(old, new, "B6: a node is given its own number");
            self.space.release(old);
            assert!(self.space.claim(new), "{new} is the number of another node");
            debug_assert!(!self.space.is_used(old), "B6: {old} names no node any more");
        }
    }

    /// Keeps a number from being given to a node; whether none had it.
    pub fn withhold(&mut self, number: Lpn) -> bool {
        self.space.claim(number)
    }

    /// Lets a number go that was withheld, unless it was let go with all others.
    pub fn let_go(&mut self, number: Lpn) {
        if self.space.is_used(number) {
            self.space.release(number);
        }
    }
}
