//! The experiments of Nandex's lab, as text: a folder each, with what is run (`experiment.toml`), the claims
//! that it judges (`expected.toml`) and what came out (`README.md`). How they are written stands in
//! `docs/experiments.md`.
//!
//! They are a crate of their own, so that a package of the lab has them inside.

#![no_std]

/// The folder of an experiment: its three files.
#[derive(Clone, Copy, Debug)]
pub struct Folder {
    /// The text of `experiment.toml`.
    pub definition: &'static str,
    /// The text of `expected.toml`.
    pub claims: &'static str,
    /// The text of `README.md`.
    pub notes: &'static str,
}

macro_rules! folder {
    ($name:literal) => {
        Folder {
            definition: include_str!(concat!($name, "/experiment.toml")),
            claims: include_str!(concat!($name, "/expected.toml")),
            notes: include_str!(concat!($name, "/README.md")),
        }
    };
}

/// The folder of every experiment, in the order of lists.
pub const FOLDERS: &[Folder] = &[
    folder!("mu-table5"),
    folder!("mu-figure7"),
    folder!("mu-space"),
    folder!("mu-figure8"),
    folder!("mu-figure9"),
    folder!("mu-recovery"),
    folder!("mu-checkpoint-sweep"),
    folder!("mu-key-sweep"),
    folder!("wpcb-figure2"),
    folder!("wpcb-figures"),
    folder!("wpcb-figure9"),
    folder!("wpcb-figure10"),
    folder!("wpcb-sweep"),
    folder!("wpcb-second"),
    folder!("wpcb-cuts"),
    folder!("wpcb-equations"),
    folder!("wpcb-page-traces"),
    folder!("lazy-figures"),
    folder!("lazy-figure6"),
    folder!("lazy-figure7"),
    folder!("lazy-recent"),
    folder!("lazy-ftl"),
    folder!("lazy-durability"),
    folder!("ls-lru-figure7"),
    folder!("ls-lru-figure8a"),
    folder!("ls-lru-traces"),
    folder!("ls-lru-512"),
    folder!("ls-lru-ftl"),
    folder!("ls-lru-second"),
    folder!("ls-lru-examples"),
    folder!("access-time"),
    folder!("named-layers"),
    folder!("named-flashdb"),
    folder!("named-random"),
    folder!("named-mixes"),
    folder!("named-ascending"),
    folder!("named-channels"),
    folder!("named-ipl"),
    folder!("named-mu-star"),
    folder!("named-embedded"),
    folder!("named-vmtree"),
    folder!("named-table2"),
    folder!("plow-claims"),
    folder!("plow-field"),
];
