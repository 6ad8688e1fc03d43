//! A chip that ends what goes round for ever, and the words of a panic.

use crate::crash::subject::SharedChip;
use nandex::{Cause, Geometry, Nand, NandError, Pbn, Ppn};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// More operations than anything sensible needs on a small chip.
const ENOUGH: u64 = 400_000;

/// A shared chip that panics after very many operations, in order that a loop without end is found.
pub(super) struct Watched {
    chip: SharedChip,
    left: u64,
}

impl Watched {
    pub(super) fn new(chip: &SharedChip) -> Watched {
        Watched { chip: SharedChip::clone(chip), left: ENOUGH }
    }

    fn step(&mut self) -> &SharedChip {
        assert!(self.left > 0, "{ENOUGH} operations of the chip, and no end");
        self.left -= 1;
        &self.chip
    }
}

impl Nand for Watched {
    fn geometry(&self) -> Geometry {
        self.chip.borrow().geometry()
    }
    fn read(&mut self, p: Ppn, c: Cause, data: &mut [u8], spare: &mut [u8]) -> Result<(), NandError> {
        self.step().borrow_mut().read(p, c, data, spare)
    }
    fn program(&mut self, p: Ppn, c: Cause, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.step().borrow_mut().program(p, c, data, spare)
    }
    fn erase(&mut self, b: Pbn, c: Cause) -> Result<(), NandError> {
        self.step().borrow_mut().erase(b, c)
    }
    fn is_bad(&mut self, b: Pbn) -> Result<bool, NandError> {
        self.step().borrow_mut().is_bad(b)
    }
    fn mark_bad(&mut self, b: Pbn) -> Result<(), NandError> {
        self.step().borrow_mut().mark_bad(b)
    }
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// From now on panics inside of [`guarded`] are not printed but noted with their place.
pub(super) fn note_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if GUARDED.get() {
                let place = info.location().map_or_else(String::new, ToString::to_string);
                PLACE.set(place);
            } else {
                before(info);
            }
        }));
    });
}

/// Does the work; where it panics, the place and the words.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    note_panics();
    let was_guarded = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(was_guarded);
    done.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words");
        format!("{}: {text}", PLACE.take())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_its_place() {
        let told = guarded(|| assert_eq!(1, 2, "one is two")).unwrap_err();
        assert!(told.contains("watched.rs:") && told.contains("one is two"), "{told}");
        assert_eq!(guarded(|| 3), Ok(3));
    }
}
