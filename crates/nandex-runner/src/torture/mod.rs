//! Lives: a small chip is filled until refused, used for thousands of operations at the edge of full, drained
//! and filled again, while the power is cut anywhere and the chip fails; after every mount all of the
//! contents are compared.
//!
//! A life is a pure function of its victim, its fate and its seed: the seed fixes chip, settings and faults
//! (`setup`), and the steps are drawn as the life is lived (`script`), because where the edge of full is
//! shows only then. The steps as they were drawn can be carried out again without drawing (`body`, on the
//! chip that `rig` has, against what is `expected`), all of them or some, whatever is left out.
//!
//! A fate of any geometry lets chips and records be of any shape (`geometry`).
//!
//! [`damage`] does the same for chips whose pages are damaged.

mod body;
mod case;
mod counts;
mod cursor;
pub mod damage;
mod expected;
mod fault;
mod geometry;
mod keys;
mod leash;
mod refusal;
mod rig;
mod run;
mod script;
mod setup;
mod shrink;
mod step;
mod subject;
#[cfg(test)]
mod tests;

pub use case::Case;
pub use counts::Counts;
pub use fault::Kind;
pub use run::{Finding, Order, Plan, Report, Row, run};
pub use script::Fate;
pub use subject::Victim;

use std::cell::RefCell;

thread_local! {
    static PANIC_PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records the place of panics for findings instead of printing it, since a panic in a life is a finding
/// and does not end the run.
pub fn catch_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
        PANIC_PLACE.with(|last| *last.borrow_mut() = place);
    }));
}

/// The place of this thread's last panic, if [`catch_panics`] was called.
pub(crate) fn last_panic() -> Option<String> {
    PANIC_PLACE.with(|last| last.borrow_mut().take())
}
