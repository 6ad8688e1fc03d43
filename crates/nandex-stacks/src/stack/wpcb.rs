//! The WPCB-tree, which shares the chip with its FTL: the FTL has the first blocks, the Transit Buffer
//! Manager the last ones. A page cache above both gets the remaining RAM.

use super::{CachePlan, ftl};
use crate::entry::Open;
use crate::names::OptionInfo;
use crate::options::{self, Settings};
use crate::spare;
use nandex::Shared;
use nandex::cache::WriteMode;
use nandex::nand::BlockRange;
use nandex::{IndexError, Nand, OrderedIndex, PageStore};
use nandex_papers::ordered::wpcb::{WpcbConfig, WpcbTree};

pub(crate) struct Wpcb;

/// A part of a chip that FTL and TBM divide.
type Divided = BlockRange<Shared<Box<dyn Nand>>>;

impl Wpcb {
    /// The options of the tree, with those of store and cache.
    pub(crate) const OPTIONS: &'static [OptionInfo] =
        options_of_tree!(options::bplus::OPTIONS, options::tbm::OPTIONS, options::wpcb::OPTIONS);

    /// Opens the tree next to the FTL that its settings name.
    pub(crate) fn open(
        nand: Box<dyn Nand>,
        settings: &Settings,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        spare::lent(nand, settings, spare::of_tbm, |nand, settings| Wpcb::open_on(nand, settings, open))
    }

    fn open_on(
        nand: Box<dyn Nand>,
        settings: &Settings,
        open: Open,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let geometry = nand.geometry();
        let plan = CachePlan::new(settings, geometry.page_bytes as usize, geometry.pages_per_block)?;
        let (ftl, range, config) = Wpcb::divide(nand, settings, open)?;
        let tables = ftl.ram_bytes() + config.ram_bytes_max(&*ftl, range.geometry())?;
        let frames = plan.frames(settings, tables, (&ftl, WriteMode::Through))?;
        // Its buffer blocks take every write at once: the two words make no difference, and any other is a
        // mistake.
        options::cache::writes_alone(&settings.options)?;
        let cache = (plan.policy(frames), frames);
        Ok(match open {
            Open::Format => Box::new(WpcbTree::format_cached(ftl, range, &config, cache)?),
            _ => Box::new(WpcbTree::mount_cached(ftl, range, &config, cache)?),
        })
    }

    /// The most RAM in bytes that the tree needs with its FTL, without a cache.
    pub(crate) fn table_bytes(nand: Box<dyn Nand>, settings: &Settings) -> Result<usize, IndexError> {
        let unlimited = Settings { ram_bytes: None, ..settings.clone() };
        spare::lent(nand, &unlimited, spare::of_tbm, |nand, settings| {
            let (ftl, range, config) = Wpcb::divide(nand, settings, Open::Format)?;
            Ok(ftl.ram_bytes() + config.ram_bytes_max(&*ftl, range.geometry())?)
        })
    }

    /// Opens the FTL on its part of the chip, and returns the part of the TBM.
    fn divide(
        nand: Box<dyn Nand>,
        settings: &Settings,
        open: Open,
    ) -> Result<(Box<dyn PageStore>, Divided, WpcbConfig), IndexError> {
        let geometry = nand.geometry();
        let config = options::wpcb::config(settings, geometry)?;
        let [low, high] = BlockRange::divide(nand, geometry.blocks - config.tbm_range_blocks());
        Ok((ftl(Box::new(low), settings, open)?, high, config))
    }
}
