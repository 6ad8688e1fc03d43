//! The reports of the lab for people: tables and sentences for a terminal, and self-contained HTML pages.
//!
//! Everything here is made from [`nandex_lab::results::Results`] and its kin alone, so a report can be drawn
//! again from the facts of a run. [`measure`](summary::measure) names each figure once, with its
//! unit and its meaning; [`summary`] groups the runs by what they promise about a power
//! cut and averages over seeds; the table, the sentence, the plots and the glossary all read those two.
//!
//! A crate of its own, so that an edit of a page compiles pages, and neither trees nor the lab.

pub mod advice;
pub mod counts;
pub mod crash;
pub mod experiment;
pub mod grid;
pub mod html;
pub mod pairs;
pub mod replay;
pub mod scorecard;
pub mod summary;
pub mod table;
pub mod torture;
pub mod trace;
