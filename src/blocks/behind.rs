//! Pages behind the newest one of a block, as a mount meets them.
//!
//! The pages of a block are programmed in order. An unsound page before a sound one is left over from a
//! program that failed, after which the owner went on. One behind the newest sound page may have been the
//! newest itself: on a chip whose programs a cut tears it was never acknowledged, on any other it is damaged.

/// First unsound page behind the newest sound one of a block.
#[derive(Clone, Copy, Debug)]
pub struct Behind<T> {
    first: Option<T>,
    is_damage: bool,
}

impl<T> Default for Behind<T> {
    fn default() -> Behind<T> {
        Behind { first: None, is_damage: false }
    }
}

impl<T> Behind<T> {
    /// Notes the next page, which is sound.
    pub fn sound(&mut self) {
        *self = Behind::default();
    }

    /// Notes the next page, which is neither sound nor blank. `is_damage` if no cut leaves such a page.
    pub fn unsound(&mut self, found: T, is_damage: bool) {
        self.first.get_or_insert(found);
        self.is_damage |= is_damage;
    }

    /// Returns the first of these pages, unless a cut may have left it. `tears` tells whether a cut tears
    /// programs of the chip.
    pub fn damage(self, tears: bool) -> Option<T> {
        self.first.filter(|_| self.is_damage || !tears)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cut_leaves_is_damage_only_where_no_cut_tears() {
        let mut behind = Behind::default();
        behind.unsound(1, true);
        behind.sound();
        assert_eq!((behind.damage(true), behind.damage(false)), (None, None));
        behind.unsound(3, false);
        behind.unsound(4, false);
        assert_eq!((behind.damage(true), behind.damage(false)), (None, Some(3)));
        behind.unsound(5, true);
        assert_eq!(behind.damage(true), Some(3));
    }
}
