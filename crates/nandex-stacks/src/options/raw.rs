//! The trees that write paths anew on raw NAND: mu-Tree, mu*-Tree and wandering tree.

use super::ftl::{VALID_WORDS, VICTIM, victim};
use super::{Choice, Number, Settings};
use crate::names::{OptionInfo, option};
use nandex::blocks::Validity;
use nandex::blocks::wear::WearLevelling;
use nandex::log::{LogConfig, Placement, SamePage, WritePartLimit};
use nandex::nand::Pairing;
use nandex::ordered::RawConfig;
use nandex::ordered::mu::MenuConfig;
use nandex::ordered::mu::controller::Costs;
use nandex::ordered::mu::layout::LeafShare;
use nandex::ordered::mu::star::LayoutPolicy;
use nandex::{Geometry, IndexError};

/// The option that puts an FTL beneath a tree on raw NAND.
pub(crate) const BENEATH: OptionInfo = option(
    "beneath",
    "none",
    "an FTL to stand on in place of the raw chip (nandex list ftls), which takes its options then",
);

/// The option that avoids pages which a torn program of another page may destroy.
pub(crate) const PAIRING: Choice<Pairing> = Choice::new(
    "pairing",
    "none, or dist3: of MLC whose pages are paired so, only those are used that no torn program of another destroys, half of them",
    &[("none", Pairing::None), ("dist3", Pairing::Three)],
);

const READ_PAGES: Number<usize> = Number::new(
    option("read_pages", "what the RAM leaves", "pages of the read part of the cache"),
    (0, usize::MAX),
);
const WRITE_PAGES: Number<usize> = Number::new(
    option("write_pages", "0, or half of them when syncs suffice", "pages of the write part of the cache"),
    (0, usize::MAX),
);
const COLLECT_AT: Number<u32> = Number::new(
    option("collect_at_blocks", "2", "collect garbage while at most this many blocks are free"),
    (1, 1 << 24),
);
pub(crate) const CHECKPOINT_BLOCKS: Number<u32> =
    Number::new(option("checkpoint_blocks", "16", "blocks filled between two checkpoints"), (1, 1 << 24));
pub(crate) const WEAR: Choice<WearLevelling> = Choice::new(
    "wear",
    "level: data move from a block that lags a quarter behind a worn one, and by the price of the move; off: they stay",
    &[("level", WearLevelling::Relative), ("off", WearLevelling::None)],
);
const SAME_PAGE: Choice<SamePage> = Choice::new(
    "same_page",
    "what a child costs that lies in its parent's page: free, nothing; read, a read as any other",
    &[("free", SamePage::Free), ("read", SamePage::Read)],
);

/// The words of every option `placement`.
pub(crate) const PLACES: &[(&str, Placement)] =
    &[("out_of_place", Placement::OutOfPlace), ("in_place", Placement::InPlace)];

pub(crate) const PLACEMENT: Choice<Placement> = Choice::new(
    "placement",
    "out_of_place, block after block; in_place, over the page that held the leaf, through the FTL beneath, without trims",
    PLACES,
);
const VALID: Choice<Option<Validity>> = Choice::new(
    "valid",
    "what is known of valid pages: bits, a bit for each; counts, how many a block has, and a tree that is asked; ram, \
     counts where the RAM does not suffice for bits",
    VALID_WORDS,
);
const LAYOUT: Choice<LayoutPolicy> = Choice::new(
    "layout",
    "the leaf's share of a page: adaptive, 1/2 (the mu-Tree's), 5/8, 3/4, 7/8",
    &[
        ("adaptive", LayoutPolicy::Adaptive),
        (LeafShare::ALL[0].name(), LayoutPolicy::Fixed(LeafShare::ALL[0])),
        (LeafShare::ALL[1].name(), LayoutPolicy::Fixed(LeafShare::ALL[1])),
        (LeafShare::ALL[2].name(), LayoutPolicy::Fixed(LeafShare::ALL[2])),
        (LeafShare::ALL[3].name(), LayoutPolicy::Fixed(LeafShare::ALL[3])),
    ],
);
const READ_NS: Number<u32> = Number::new(
    option("read_ns", "165600", "time of a page read that the choice of a layout reckons with"),
    (1, 1 << 30),
);
const PROGRAM_NS: Number<u32> =
    Number::new(option("program_ns", "905800", "the same of a page program"), (1, 1 << 30));
const ERASE_NS: Number<u32> =
    Number::new(option("erase_ns", "1500000", "the same of a block erase"), (1, 1 << 30));
const JOURNAL: Number<usize> = Number::new(
    option(
        "journal",
        "0",
        "leaves that may move before the nodes above them are written (JFFS3's journal tree)",
    ),
    (0, usize::MAX),
);
const WRITE_PART: Choice<WritePartLimit> = Choice::new(
    "write_part",
    "when the write part is programmed: operation, between operations; strict, before it would hold more \
     than write_pages; lenient, one page later",
    &[
        ("operation", WritePartLimit::Operation),
        ("lenient", WritePartLimit::Lenient),
        ("strict", WritePartLimit::Strict),
    ],
);

pub(crate) const MU: [OptionInfo; 10] = [
    READ_PAGES.info,
    WRITE_PAGES.info,
    VICTIM,
    COLLECT_AT.info,
    CHECKPOINT_BLOCKS.info,
    WEAR.info,
    VALID.info,
    BENEATH,
    SAME_PAGE.info,
    PLACEMENT.info,
];

pub(crate) const MU_STAR: [OptionInfo; 14] = [
    READ_PAGES.info,
    WRITE_PAGES.info,
    VICTIM,
    COLLECT_AT.info,
    CHECKPOINT_BLOCKS.info,
    WEAR.info,
    VALID.info,
    BENEATH,
    SAME_PAGE.info,
    PLACEMENT.info,
    LAYOUT.info,
    READ_NS.info,
    PROGRAM_NS.info,
    ERASE_NS.info,
];

pub(crate) const WANDERING: [OptionInfo; 10] = [
    READ_PAGES.info,
    WRITE_PAGES.info,
    VICTIM,
    COLLECT_AT.info,
    CHECKPOINT_BLOCKS.info,
    WEAR.info,
    VALID.info,
    BENEATH,
    JOURNAL.info,
    WRITE_PART.info,
];

/// The part of the configuration that all these trees have.
pub(super) fn common<C: Copy + Default>(
    settings: &Settings,
    chip: Geometry,
) -> Result<RawConfig<C>, IndexError> {
    let (options, default) = (&settings.options, LogConfig::default());
    let victim = victim(options)?.unwrap_or(default.victim);
    // A cache has no use for more pages than the chip has.
    let pages = chip.pages() as usize;
    Ok(RawConfig {
        durability: settings.durability,
        ram_bytes: settings.ram_bytes,
        write_pages: WRITE_PAGES.up_to(options, pages)?,
        read_pages: READ_PAGES.up_to(options, pages)?,
        victim,
        collect_at_blocks: COLLECT_AT.or(options, default.collect_at_blocks)?,
        checkpoint_blocks: CHECKPOINT_BLOCKS.or(options, default.checkpoint_blocks)?,
        wear_levelling: WEAR.of(options)?,
        ..RawConfig::new(settings.record)
    })
}

/// The configuration of the mu-Tree on such a chip.
pub fn mu(settings: &Settings, chip: Geometry) -> Result<RawConfig, IndexError> {
    Ok(RawConfig {
        placement: PLACEMENT.of(&settings.options)?,
        same_page: SAME_PAGE.of(&settings.options)?,
        validity: VALID.of(&settings.options)?,
        ..common(settings, chip)?
    })
}

/// The configuration of the mu*-Tree on such a chip.
pub fn mu_star(settings: &Settings, chip: Geometry) -> Result<RawConfig<MenuConfig>, IndexError> {
    let options = &settings.options;
    let (layout, default) = (LAYOUT.of(options)?, Costs::default());
    let costs = Costs {
        read_ns: READ_NS.or(options, default.read_ns)?,
        program_ns: PROGRAM_NS.or(options, default.program_ns)?,
        erase_ns: ERASE_NS.or(options, default.erase_ns)?,
    };
    Ok(RawConfig {
        placement: PLACEMENT.of(options)?,
        same_page: SAME_PAGE.of(options)?,
        validity: VALID.of(options)?,
        scheme: MenuConfig { layout, costs },
        ..common(settings, chip)?
    })
}

/// The configuration of the wandering tree on such a chip.
pub fn wandering(settings: &Settings, chip: Geometry) -> Result<RawConfig, IndexError> {
    let journal = JOURNAL.up_to(&settings.options, chip.pages() as usize / 16)?.unwrap_or(0);
    let (write_part, validity) = (WRITE_PART.of(&settings.options)?, VALID.of(&settings.options)?);
    Ok(RawConfig { journal, write_part, validity, ..common(settings, chip)? })
}
