//! The B+-tree, and every tree built on it.

use super::{Choice, Number, Settings};
use crate::names::{OptionInfo, option};
use nandex::IndexError;
use nandex::index::most;
use nandex::ordered::bplus::{BPlusConfig, StructureWrites};

pub(crate) const ORDER: Number<usize> = Number::new(
    option("order", "what the page holds", "entries of a node at most, leaf and internal"),
    (0, most::NODE_ENTRIES as usize),
);
const LEAF_CAPACITY: Number<usize> = Number::new(
    option("leaf_capacity", "order", "entries of a leaf at most, 2 or more"),
    (0, most::NODE_ENTRIES as usize),
);
const INTERNAL_CAPACITY: Number<usize> = Number::new(
    option("internal_capacity", "order", "children of an internal node at most, 3 or more"),
    (0, most::NODE_ENTRIES as usize),
);
const STRUCTURE_WRITES: Choice<StructureWrites> = Choice::new(
    "structure_writes",
    "together: each changed page of an operation once; apart: its leaf, then three pages for each split, merge or rotation, \
     as the WPCB-tree's paper counts",
    &[("together", StructureWrites::Together), ("apart", StructureWrites::Apart)],
);

pub(crate) const OPTIONS: [OptionInfo; 3] = [ORDER.info, LEAF_CAPACITY.info, INTERNAL_CAPACITY.info];

pub(crate) const ALONE: [OptionInfo; 1] = [STRUCTURE_WRITES.info];

/// The configuration of the B+-tree, alone or below another index.
pub fn config(settings: &Settings) -> Result<BPlusConfig, IndexError> {
    let options = &settings.options;
    let order = ORDER.of(options)?;
    let mut config = BPlusConfig::new(settings.record).with_durability(settings.durability);
    config.leaf_capacity = LEAF_CAPACITY.of(options)?.or(order);
    config.internal_capacity = INTERNAL_CAPACITY.of(options)?.or(order);
    config.structure_writes = STRUCTURE_WRITES.of(options)?;
    Ok(config)
}
