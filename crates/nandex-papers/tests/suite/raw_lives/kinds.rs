//! Every tree on the log of raw NAND, and IPL and dIPL in place, in each class of durability, on a chip and
//! on an FTL.

use nandex::Shared;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl};
use nandex::log::{Placement, WritePartLimit};
use nandex::nand::Part;
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::ordered::mu::{MuStarTree, MuTree};
use nandex::ordered::vm::{VmConfig, VmTree};
use nandex::ordered::wandering::WanderingTree;
use nandex::ordered::{Durability, OrderedIndex, RawConfig, RecordFormat};
use nandex::store::store_nand::StoreNand;
use nandex::{Geometry, IndexError, Nand, PageStore};
use nandex_papers::ftl::fast::{FastConfig, FastFtl};
use nandex_papers::ordered::ipl::{IplConfig, IplTree, LogArea};

pub(crate) const RECORD: RecordFormat = RecordFormat::new(4, 28);

/// A chip that outlasts the index on it.
pub(crate) type Chip = Shared<SimChip>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    Mu,
    MuStar,
    Wandering,
    Vm,
    Ipl,
}

/// The ground beneath the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Below {
    Chip,
    PageMap,
    Fast,
}

/// The options that a tree is given; none unless said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(super) write_pages: Option<usize>,
    read_pages: Option<usize>,
    write_part: WritePartLimit,
    journal: usize,
    mapping_bytes: Option<usize>,
    checkpoint_blocks: u32,
    log_pages: u32,
    placement: Placement,
    area: LogArea,
}

const PLAIN: Told = Told {
    write_pages: None,
    read_pages: None,
    write_part: WritePartLimit::Operation,
    journal: 0,
    mapping_bytes: None,
    checkpoint_blocks: 16,
    log_pages: 0,
    placement: Placement::OutOfPlace,
    area: LogArea::Dynamic,
};

/// A tree, what it is told, and what it stands on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) tree: Tree,
    pub(crate) below: Below,
    pub(crate) told: Told,
    pub(crate) durability: Durability,
}

const EVERY: Durability = Durability::EveryOperation;
const SYNC: Durability = Durability::EverySync;

const fn kind(name: &'static str, tree: Tree, durability: Durability, told: Told) -> Kind {
    Kind { name, tree, below: Below::Chip, told, durability }
}

pub(crate) const ON_CHIPS: [Kind; 12] = [
    kind("mu", Tree::Mu, EVERY, PLAIN),
    kind("mu in every sync", Tree::Mu, SYNC, Told { write_pages: Some(4), read_pages: Some(3), ..PLAIN }),
    kind("mu-star", Tree::MuStar, EVERY, PLAIN),
    kind("mu-star in every sync", Tree::MuStar, SYNC, Told { write_pages: Some(5), ..PLAIN }),
    kind("wandering", Tree::Wandering, EVERY, PLAIN),
    kind("wandering with a journal", Tree::Wandering, EVERY, Told { journal: 12, ..PLAIN }),
    kind("wandering in every sync", Tree::Wandering, SYNC, Told { write_pages: Some(3), ..PLAIN }),
    kind("wandering with both", Tree::Wandering, SYNC, Told { write_pages: Some(6), journal: 8, ..PLAIN }),
    kind("vmtree", Tree::Vm, EVERY, Told { mapping_bytes: Some(128), checkpoint_blocks: 5, ..PLAIN }),
    kind(
        "vmtree with a log buffer",
        Tree::Vm,
        SYNC,
        Told { mapping_bytes: Some(128), log_pages: 1, ..PLAIN },
    ),
    kind(
        "wandering in parts",
        Tree::Wandering,
        SYNC,
        Told { write_pages: Some(3), write_part: WritePartLimit::Strict, ..PLAIN },
    ),
    kind(
        "wandering in parts with a journal",
        Tree::Wandering,
        SYNC,
        Told { write_pages: Some(2), journal: 8, write_part: WritePartLimit::Lenient, ..PLAIN },
    ),
];

const IN_PLACE: Told = Told { placement: Placement::InPlace, ..PLAIN };

const IPL_IN_PLACE: Told = Told { area: LogArea::Fixed, ..IN_PLACE };

pub(crate) const LOGS_IN_PLACE: [Kind; 4] = [
    Kind { below: Below::Fast, ..kind("dipl in place on fast", Tree::Ipl, EVERY, IN_PLACE) },
    Kind { below: Below::PageMap, ..kind("dipl in place on page-map", Tree::Ipl, SYNC, IN_PLACE) },
    Kind { below: Below::Fast, ..kind("ipl in place on fast", Tree::Ipl, SYNC, IPL_IN_PLACE) },
    Kind { below: Below::PageMap, ..kind("ipl in place on page-map", Tree::Ipl, EVERY, IPL_IN_PLACE) },
];

pub(crate) const ON_STORES: [Kind; 7] = [
    Kind { name: "mu on page-map", below: Below::PageMap, ..ON_CHIPS[0] },
    Kind { name: "mu in every sync on page-map", below: Below::PageMap, ..ON_CHIPS[1] },
    Kind { name: "mu-star on fast", below: Below::Fast, ..ON_CHIPS[2] },
    Kind { name: "wandering on page-map", below: Below::PageMap, ..ON_CHIPS[4] },
    Kind { name: "mu in place on fast", below: Below::Fast, told: IN_PLACE, ..ON_CHIPS[0] },
    Kind { name: "mu-star in place on fast", below: Below::Fast, told: IN_PLACE, ..ON_CHIPS[2] },
    Kind { name: "mu-star in place on page-map", below: Below::PageMap, told: IN_PLACE, ..ON_CHIPS[2] },
];

pub(crate) fn all() -> impl Iterator<Item = Kind> {
    ON_CHIPS.into_iter().chain(ON_STORES).chain(LOGS_IN_PLACE)
}

/// A new chip of blocks of 16 pages of 512 bytes, or of 1 KiB beneath an FTL.
pub(crate) fn chip_for(kind: &Kind, blocks: u32) -> Chip {
    let page_bytes = if kind.below == Below::Chip { 512 } else { 1024 };
    let part = Part { geometry: Geometry::new(page_bytes, 64, 16, blocks), ..mlc_64m() };
    Shared::new(SimChip::new(&part).unwrap())
}

impl Kind {
    fn raw<C: Copy + Default>(&self) -> RawConfig<C> {
        let Told { write_pages, read_pages, write_part, journal, checkpoint_blocks, placement, .. } =
            self.told;
        let mut config = RawConfig::new(RECORD);
        config.durability = self.durability;
        (config.write_pages, config.read_pages, config.write_part) = (write_pages, read_pages, write_part);
        (config.journal, config.checkpoint_blocks) = (journal, checkpoint_blocks);
        config.placement = placement;
        config
    }

    fn vm(&self) -> VmConfig {
        let mut config = VmConfig { tree: self.raw(), ..VmConfig::new(RECORD) };
        config.tree.scheme.bytes = self.told.mapping_bytes;
        config.log_pages = self.told.log_pages;
        config
    }

    fn ipl(&self) -> IplConfig {
        let Told { placement, area, .. } = self.told;
        let durability = self.durability;
        IplConfig { durability, placement, order: Some(12), ..IplConfig::new(RECORD, area) }
    }

    pub(crate) fn format(&self, chip: &Chip) -> Result<Box<dyn OrderedIndex>, IndexError> {
        self.open(chip, true)
    }

    pub(crate) fn mount(&self, chip: &Chip) -> Result<Box<dyn OrderedIndex>, IndexError> {
        self.open(chip, false)
    }

    fn open(&self, chip: &Chip, fresh: bool) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let chip = chip.clone();
        match self.below {
            Below::Chip => self.open_on(Box::new(chip), fresh),
            Below::PageMap => {
                let settings = FtlConfig::default();
                let store = if fresh {
                    PageMapFtl::format(chip, &settings)?
                } else {
                    PageMapFtl::mount(chip, &settings)?
                };
                self.open_on(self.as_chip(store)?, fresh)
            }
            Below::Fast => {
                let settings = FastConfig::default();
                let store =
                    if fresh { FastFtl::format(chip, &settings)? } else { FastFtl::mount(chip, &settings)? };
                self.open_on(self.as_chip(store)?, fresh)
            }
        }
    }

    /// On any chip, so that each tree is compiled for one.
    pub(crate) fn open_on(
        &self,
        nand: Box<dyn Nand>,
        fresh: bool,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        Ok(match (self.tree, fresh) {
            (Tree::Mu, true) => Box::new(MuTree::format(nand, &self.raw())?),
            (Tree::Mu, false) => Box::new(MuTree::mount(nand, &self.raw())?),
            (Tree::MuStar, true) => Box::new(MuStarTree::format(nand, &self.raw())?),
            (Tree::MuStar, false) => Box::new(MuStarTree::mount(nand, &self.raw())?),
            (Tree::Wandering, true) => Box::new(WanderingTree::format(nand, &self.raw())?),
            (Tree::Wandering, false) => Box::new(WanderingTree::mount(nand, &self.raw())?),
            (Tree::Vm, true) => Box::new(VmTree::format(nand, &self.vm())?),
            (Tree::Vm, false) => Box::new(VmTree::mount(nand, &self.vm())?),
            (Tree::Ipl, true) => Box::new(IplTree::format(nand, &self.ipl())?),
            (Tree::Ipl, false) => Box::new(IplTree::mount(nand, &self.ipl())?),
        })
    }

    fn as_chip<S: PageStore + 'static>(&self, store: S) -> Result<Box<dyn Nand>, IndexError> {
        let chip = StoreNand::new(store, 16, 63)?;
        Ok(Box::new(if self.told.placement == Placement::InPlace { chip.replacing() } else { chip }))
    }
}
