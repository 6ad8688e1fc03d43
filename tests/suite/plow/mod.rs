//! plow on chips of any shape.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod beneath;
mod displaced;
mod old_summaries;
mod roots;
mod sealed;
mod shapes;

use nandex::Nand;

/// Any chip, so that the index is compiled for one.
fn any(chip: impl Nand + 'static) -> Box<dyn Nand> {
    Box::new(chip)
}
