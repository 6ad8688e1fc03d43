//! Every tree on the log of raw NAND, and IPL and dIPL in place, in each class of durability, on a chip and on an FTL.

use nandex::Shared;
use nandex::ftl::fast::{FastFtl, FastSettings};
use nandex::ftl::page_map::{FtlSettings, PageMapFtl};
use nandex::nand::Part;
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::ordered::ipl::IplTree;
use nandex::ordered::mu::{MuStarTree, MuTree};
use nandex::ordered::vm::VmTree;
use nandex::ordered::wandering::WanderingTree;
use nandex::ordered::{Durability, OrderedIndex, RecordFormat, Settings};
use nandex::store::store_nand::StoreNand;
use nandex::{Geometry, IndexError, Nand, PageStore};

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

/// A tree, its options, and what it stands on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) tree: Tree,
    pub(crate) below: Below,
    pub(crate) options: &'static [(&'static str, &'static str)],
    pub(crate) durability: Durability,
}

const EVERY: Durability = Durability::EveryOperation;
const SYNC: Durability = Durability::EverySync;

const fn kind(
    name: &'static str,
    tree: Tree,
    durability: Durability,
    options: &'static [(&'static str, &'static str)],
) -> Kind {
    Kind { name, tree, below: Below::Chip, options, durability }
}

pub(crate) const ON_CHIPS: [Kind; 12] = [
    kind("mu", Tree::Mu, EVERY, &[]),
    kind("mu in every sync", Tree::Mu, SYNC, &[("write_pages", "4"), ("read_pages", "3")]),
    kind("mu-star", Tree::MuStar, EVERY, &[]),
    kind("mu-star in every sync", Tree::MuStar, SYNC, &[("write_pages", "5")]),
    kind("wandering", Tree::Wandering, EVERY, &[]),
    kind("wandering with a journal", Tree::Wandering, EVERY, &[("journal", "12")]),
    kind("wandering in every sync", Tree::Wandering, SYNC, &[("write_pages", "3")]),
    kind("wandering with both", Tree::Wandering, SYNC, &[("write_pages", "6"), ("journal", "8")]),
    kind("vmtree", Tree::Vm, EVERY, &[("mapping_bytes", "128"), ("checkpoint_blocks", "5")]),
    kind("vmtree with a log buffer", Tree::Vm, SYNC, &[("mapping_bytes", "128"), ("log_pages", "1")]),
    kind("wandering in parts", Tree::Wandering, SYNC, &[("write_pages", "3"), ("write_part", "strict")]),
    kind(
        "wandering in parts with a journal",
        Tree::Wandering,
        SYNC,
        &[("write_pages", "2"), ("journal", "8"), ("write_part", "lenient")],
    ),
];

const IN_PLACE: &[(&str, &str)] = &[("placement", "in_place")];

const DIPL_IN_PLACE: &[(&str, &str)] = &[("placement", "in_place"), ("order", "12")];
const IPL_IN_PLACE: &[(&str, &str)] = &[("placement", "in_place"), ("order", "12"), ("log_area", "fixed")];

pub(crate) const LOGS_IN_PLACE: [Kind; 4] = [
    Kind { below: Below::Fast, ..kind("dipl in place on fast", Tree::Ipl, EVERY, DIPL_IN_PLACE) },
    Kind { below: Below::PageMap, ..kind("dipl in place on page-map", Tree::Ipl, SYNC, DIPL_IN_PLACE) },
    Kind { below: Below::Fast, ..kind("ipl in place on fast", Tree::Ipl, SYNC, IPL_IN_PLACE) },
    Kind { below: Below::PageMap, ..kind("ipl in place on page-map", Tree::Ipl, EVERY, IPL_IN_PLACE) },
];

pub(crate) const ON_STORES: [Kind; 7] = [
    Kind { name: "mu on page-map", below: Below::PageMap, ..ON_CHIPS[0] },
    Kind { name: "mu in every sync on page-map", below: Below::PageMap, ..ON_CHIPS[1] },
    Kind { name: "mu-star on fast", below: Below::Fast, ..ON_CHIPS[2] },
    Kind { name: "wandering on page-map", below: Below::PageMap, ..ON_CHIPS[4] },
    Kind { name: "mu in place on fast", below: Below::Fast, options: IN_PLACE, ..ON_CHIPS[0] },
    Kind { name: "mu-star in place on fast", below: Below::Fast, options: IN_PLACE, ..ON_CHIPS[2] },
    Kind { name: "mu-star in place on page-map", below: Below::PageMap, options: IN_PLACE, ..ON_CHIPS[2] },
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
    pub(crate) fn settings(&self) -> Settings {
        let settings = Settings { durability: self.durability, ..Settings::new(RECORD) };
        self.options.iter().fold(settings, |settings, (name, value)| settings.with(name, value))
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
            Below::Chip => self.open_on(chip, fresh),
            Below::PageMap => {
                let settings = FtlSettings::default();
                let store = if fresh {
                    PageMapFtl::format(chip, settings)?
                } else {
                    PageMapFtl::mount(chip, settings)?
                };
                self.open_on(self.as_chip(store)?, fresh)
            }
            Below::Fast => {
                let settings = FastSettings::default();
                let store =
                    if fresh { FastFtl::format(chip, settings)? } else { FastFtl::mount(chip, settings)? };
                self.open_on(self.as_chip(store)?, fresh)
            }
        }
    }

    pub(crate) fn open_on<N: Nand + 'static>(
        &self,
        nand: N,
        fresh: bool,
    ) -> Result<Box<dyn OrderedIndex>, IndexError> {
        let settings = &self.settings();
        Ok(match (self.tree, fresh) {
            (Tree::Mu, true) => Box::new(MuTree::format_with(nand, settings)?),
            (Tree::Mu, false) => Box::new(MuTree::mount_with(nand, settings)?),
            (Tree::MuStar, true) => Box::new(MuStarTree::format_with(nand, settings)?),
            (Tree::MuStar, false) => Box::new(MuStarTree::mount_with(nand, settings)?),
            (Tree::Wandering, true) => Box::new(WanderingTree::format_with(nand, settings)?),
            (Tree::Wandering, false) => Box::new(WanderingTree::mount_with(nand, settings)?),
            (Tree::Vm, true) => Box::new(VmTree::format_with(nand, settings)?),
            (Tree::Vm, false) => Box::new(VmTree::mount_with(nand, settings)?),
            (Tree::Ipl, true) => Box::new(IplTree::format_with(nand, settings)?),
            (Tree::Ipl, false) => Box::new(IplTree::mount_with(nand, settings)?),
        })
    }

    fn as_chip<S: PageStore>(&self, store: S) -> Result<StoreNand<S>, IndexError> {
        let chip = StoreNand::new(store, 16, 63)?;
        Ok(if self.options.contains(&IN_PLACE[0]) { chip.replacing() } else { chip })
    }
}
