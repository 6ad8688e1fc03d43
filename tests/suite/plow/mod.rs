//! plow on chips of any shape.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod beneath;
mod displaced;
mod old_summaries;
mod roots;
mod sealed;
mod shapes;
