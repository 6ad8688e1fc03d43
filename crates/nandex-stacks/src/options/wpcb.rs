//! The options of the WPCB-tree: text in, typed configuration out.

use super::{Choice, Settings, bplus, tbm};
use crate::names::OptionInfo;
use nandex::ordered::bplus::Overflow;
use nandex::{Geometry, IndexError};
use nandex_papers::ordered::wpcb::{FullNodes, WpcbConfig};

const OVERFLOW: Choice<Overflow> = Choice::new(
    "overflow",
    "a full leaf stays whole if its keys are contiguous, if the new key is beyond them: ascending, or never: split",
    &[
        ("contiguous", Overflow::KeepContiguous),
        ("ascending", Overflow::KeepAscending),
        ("split", Overflow::Split),
    ],
);
const FULL_NODES: Choice<FullNodes> = Choice::new(
    "full_nodes",
    "a leaf that becomes full and will stay whole goes to the buffer: buffered, or to the FTL at once: direct",
    &[("buffered", FullNodes::Buffered), ("direct", FullNodes::Direct)],
);

pub(crate) const OPTIONS: [OptionInfo; 2] = [OVERFLOW.info, FULL_NODES.info];

/// The configuration of the WPCB-tree on a chip that FTL and TBM divide.
pub fn config(settings: &Settings, chip: Geometry) -> Result<WpcbConfig, IndexError> {
    let options = &settings.options;
    let overflow = OVERFLOW.of(options)?;
    let mut config = WpcbConfig::on_chip(bplus::config(settings)?, chip)?;
    config.tree.overflow = overflow;
    (config.tbm, config.spare_blocks) = tbm::config(options, chip, config.tbm.blocks)?;
    config.full_nodes = FULL_NODES.of(options)?;
    Ok(config)
}
