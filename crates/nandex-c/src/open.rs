//! The indexes by number: how each is made on a chip and found again.

use crate::config::{Config, Kind};
use crate::error::Failure;
use crate::ffi::codes::{NANDEX_ERR_BLANK, NANDEX_ERR_CONFIG, NANDEX_ERR_UNSUPPORTED, NANDEX_OVERWRITE};
#[cfg(any(feature = "bplus", feature = "bplus-dftl"))]
use crate::on_store;
use crate::state::Answer;
use alloc::boxed::Box;
use nandex::nand::{LentSpare, is_blank};
use nandex::{Geometry, IndexError, Nand, OrderedIndex, StoreError};

/// Whether an index is formatted or mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// Format an empty index, whatever is on the chip.
    Format,
    /// Mount the index that is on the chip.
    Mount,
}

/// Mounts, or formats a blank chip.
pub(crate) fn mounted_or_formatted(mut open: impl FnMut(Open) -> Answer) -> Answer {
    match open(Open::Mount) {
        Err(failure) if failure.code() == NANDEX_ERR_BLANK => open(Open::Format),
        other => other,
    }
}

/// Refuses to format a chip that is not blank, unless these flags of a caller say so.
pub(crate) fn require_formattable(chip: &mut impl Nand, flags: u32) -> Result<(), Failure> {
    match flags {
        NANDEX_OVERWRITE => Ok(()),
        0 if is_blank(chip).map_err(IndexError::from)? => Ok(()),
        0 => Err(IndexError::NotBlank.into()),
        _ => Err(Failure::Code(NANDEX_ERR_CONFIG, c"flags: 0 or NANDEX_OVERWRITE")),
    }
}

/// Batches of an index: several operations committed as one.
pub(crate) trait Batches: nandex::shared::MaybeSend {
    /// Operations wait in RAM from now on.
    fn begin(&mut self);

    /// Writes the changes of the batch: all or, on any failure, none.
    fn commit(&mut self) -> Result<(), StoreError>;

    /// Drops the changes of the batch. The index must be opened again.
    fn abandon(&mut self);

    /// The index as the medium has it.
    fn reopen(&self) -> Result<Box<dyn OrderedIndex>, IndexError>;
}

/// An open index, and its batches if it supports them.
pub(crate) struct Opened {
    pub(crate) index: Option<Box<dyn OrderedIndex>>,
    pub(crate) batches: Option<Box<dyn Batches>>,
}

#[allow(dead_code, reason = "every index may be left out")]
fn alone(index: impl OrderedIndex + 'static) -> Opened {
    Opened { index: Some(Box::new(index)), batches: None }
}

/// Spare bytes that an index needs on a chip.
fn spare_bytes_needed(kind: Kind, chip: Geometry) -> u32 {
    match kind {
        Kind::Mu | Kind::Wandering | Kind::VmTree => nandex::ordered::spare_bytes_needed(&chip),
        Kind::BPlus | Kind::BPlusDftl => nandex::ftl::SPARE_BYTES as u32,
        Kind::Sbits | Kind::Plow => 0,
    }
}

/// Makes or finds the index that is configured, on this chip. A chip with too few spare bytes lends some of
/// its data areas.
#[allow(unreachable_code, reason = "every index may be left out")]
pub(crate) fn open(nand: impl Nand + 'static, config: &Config, open: Open) -> Result<Opened, Failure> {
    let needed = spare_bytes_needed(config.kind, nand.geometry());
    let nand = LentSpare::new(nand, needed);
    #[allow(unused_macros, reason = "every index may be left out")]
    macro_rules! raw {
        ($tree:path, $settings:expr) => {{
            use $tree as Tree;
            let settings = $settings;
            alone(match open {
                Open::Format => Tree::format(nand, &settings)?,
                Open::Mount => Tree::mount(nand, &settings)?,
            })
        }};
    }
    #[allow(unused_variables, reason = "every index may be left out")]
    let Config { record, durability, .. } = *config;
    // The page that is held to lend bytes is no RAM for the index.
    let held = nand.ram_bytes();
    let left = |given: usize| {
        given.checked_sub(held).ok_or(IndexError::TooLittleRam {
            given,
            needed: held,
            what: "a page to lend spare bytes from",
        })
    };
    #[allow(unused_variables, reason = "every index may be left out")]
    let ram_bytes = config.ram_bytes.map(left).transpose()?;
    Ok(match config.kind {
        #[cfg(feature = "mu")]
        Kind::Mu => raw!(
            nandex::ordered::mu::MuTree,
            nandex::RawConfig::new(record).with_durability(durability).with_ram_bytes(ram_bytes)
        ),
        #[cfg(feature = "wandering")]
        Kind::Wandering => raw!(
            nandex::ordered::wandering::WanderingTree,
            nandex::RawConfig::new(record).with_durability(durability).with_ram_bytes(ram_bytes)
        ),
        #[cfg(feature = "vmtree")]
        Kind::VmTree => raw!(nandex::ordered::vm::VmTree, {
            let mut settings = nandex::VmConfig::new(record);
            (settings.tree.durability, settings.tree.ram_bytes) = (durability, ram_bytes);
            settings
        }),
        #[cfg(feature = "sbits")]
        Kind::Sbits => raw!(
            nandex::ordered::sbits::Sbits,
            nandex::SbitsConfig::new(record).with_durability(durability).with_ram_bytes(ram_bytes)
        ),
        #[cfg(feature = "plow")]
        Kind::Plow => raw!(
            nandex::ordered::plow::Plow,
            nandex::PlowConfig::new(record).with_durability(durability).with_ram_bytes(ram_bytes)
        ),
        #[cfg(feature = "bplus")]
        Kind::BPlus => on_store::page_map(nand, config, open)?,
        #[cfg(feature = "bplus-dftl")]
        Kind::BPlusDftl => on_store::dftl(nand, config, open)?,
        #[allow(unreachable_patterns, reason = "every index may be left out")]
        _ => {
            let _ = (nand, open);
            return Err(Failure::Code(
                NANDEX_ERR_UNSUPPORTED,
                c"this index was left out of the library when it was built",
            ));
        }
    })
}
