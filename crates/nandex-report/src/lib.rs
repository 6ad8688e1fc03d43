//! The reports for people: the terminal table, the sentence of conclusion and the self-contained HTML
//! report.
//!
//! Everything here is made from [`crate::results::Results`] alone, so a report can be drawn again from the
//! facts of a run. [`measure`](crate::summary::measure) names each figure once, with its unit and its
//! meaning; [`summary`](crate::summary) groups the runs by what they promise about a power cut and averages
//! over seeds; the table, the sentence, the plots and the glossary all read those two.

pub mod counts;
pub mod crash;
pub mod experiment;
pub mod grid;
pub mod html;
pub mod pairs;
pub mod replay;
pub mod scorecard;
pub mod table;
pub mod torture;

#[cfg(test)]
pub(crate) mod sample;
