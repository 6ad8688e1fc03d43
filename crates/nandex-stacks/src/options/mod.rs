//! The options of every index, FTL and cache: text that becomes the typed configurations of the engine.
//!
//! Each option is declared once, in the file of its index or family: its name, default and meaning, which the
//! lists of the lab and `docs/options.md` show, and its bounds or words. A function `config` beside them
//! reads them from [`Settings`].

mod kinds;
#[cfg(test)]
mod tests;
mod text;

pub mod bplus;
pub mod cache;
pub mod clustered;
pub mod embedded;
pub mod ftl;
pub mod ipl;
pub mod journal;
pub mod layered;
pub mod ls_lru;
pub mod lsb;
pub mod messages;
pub mod number;
pub mod pool;
pub mod raw;
pub mod sharing;
pub mod spatial;
pub mod spatial_layers;
pub mod tbm;
pub mod wpcb;
pub mod wrappers;

pub(crate) use kinds::{Choice, Number, Percent};
pub use text::{OptionError, Options, Settings, whole_number};
