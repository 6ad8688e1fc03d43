//! The options of the LSB-tree: text in, typed configuration out.

use super::{Number, Settings, bplus};
use crate::names::{OptionInfo, option};
use nandex::IndexError;
use nandex::index::most;
use nandex_papers::ordered::lsb::LsbConfig;

const LOG_NODES: Number<u32> = Number::new(
    option("log_nodes", "8", "Lb: log nodes that are filled in RAM at the same time"),
    (0, most::PAGES as u32),
);
const LOG_PAGES: Number<u32> = Number::new(
    option("log_pages", "a quarter of the store", "log pages on the store at most, one for a leaf"),
    (0, most::PAGES as u32),
);

pub(crate) const OPTIONS: [OptionInfo; 2] = [LOG_NODES.info, LOG_PAGES.info];

/// The configuration of the LSB-tree.
pub fn config(settings: &Settings) -> Result<LsbConfig, IndexError> {
    let options = &settings.options;
    let default = LsbConfig::new(settings.record);
    Ok(LsbConfig {
        tree: bplus::config(settings)?,
        log_nodes: LOG_NODES.or(options, default.log_nodes)?,
        log_pages: LOG_PAGES.of(options)?,
        merge_ram: None,
    })
}
