//! The helpers that tests of a flash index need besides the index.
//!
//! [`fuzz`] drives an index of the registry by bytes through operations, remounts and power cuts, and damages
//! the pages of its chip; [`fuzz::contents`] and [`fuzz::use_for_a_while`] serve for an index of one's own.
//!
//! [`heap`] counts the bytes that a piece of code takes from the allocator, at every moment; [`Apart`] keeps
//! those of a simulated chip out of the count, since a real part takes none. An index of one's own is
//! measured in five lines:
//!
//! ```
//! use nandex::nand::{catalogue, sim::SimChip};
//! use nandex::ordered::{RawConfig, RecordFormat, mu::MuTree};
//! use nandex_testkit::{Apart, Heap, heap};
//!
//! #[global_allocator]
//! static HEAP: Heap = Heap;
//!
//! let chip = Apart::new(SimChip::new(&catalogue::mlc_64m()).unwrap());
//! let (tree, held) = heap::measure(|| MuTree::format(chip, &RawConfig::new(RecordFormat::new(8, 8))));
//! assert!(tree.is_ok() && held.peak >= held.kept && held.kept > 0);
//! ```

mod apart;
pub mod drawn;
pub mod fuzz;
pub mod heap;
pub mod ram;

pub use apart::Apart;
pub use heap::Heap;
