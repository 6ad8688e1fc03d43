//! Looks inside: pages of a chip decoded byte by byte, and small runs of indexes shown step by step.
//!
//! [`decode`] tells what a page holds from its bytes alone; [`scan`] looks at a whole chip and puts the tree
//! together; [`detect`] finds out what a chip holds. [`session`] runs an index on a simulated chip and can
//! show any moment of it again, or cut the power there. [`scenes`] are such runs of the papers' ideas with
//! places to stop at. [`serve`] shows all of that as a page in a browser of this machine, [`inspect`] a chip
//! as text or JSON.

pub mod decode;
pub mod detect;
pub mod inspect;
mod life;
mod page;
pub mod scan;
pub mod scenes;
pub mod serve;
pub mod session;
mod show;
pub mod tree;

pub use show::life_words;
