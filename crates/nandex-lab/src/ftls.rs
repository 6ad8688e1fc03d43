//! Options of the FTLs, and the settings that they ask for.

use crate::names::{OptionInfo, option};
use crate::registry::Open;
use nandex::ftl::fast::FastSettings;
use nandex::ftl::flash::{FlashSettings, Scheme, SchemeFtl};
use nandex::ordered::{Options, Settings};
use nandex::{IndexError, Nand, PageStore, StoreError};

pub(crate) const OVER_PROVISIONING: OptionInfo =
    option("over_provisioning", "12.5", "physical pages beyond the logical ones, in % of the logical ones");
pub(crate) const WEAR_GAP: OptionInfo =
    option("wear_gap", "off", "erases by which a cold block may lag before it is moved");
pub(crate) const BAD_BLOCKS: OptionInfo =
    option("bad_blocks", "2", "blocks set aside for those that will fail, in % of the chip");
pub(crate) const LOG_BLOCKS: OptionInfo = option("log_blocks", "3 % of the chip", "log blocks, at least 2");
pub(crate) const EAGER_SWITCH: OptionInfo =
    option("eager_switch", "off", "on: a full sequential log block becomes a data block at once");

/// Options of FAST.
pub(crate) const FAST: [OptionInfo; 5] = [OVER_PROVISIONING, BAD_BLOCKS, WEAR_GAP, LOG_BLOCKS, EAGER_SWITCH];

/// Makes or finds a store of a mapping scheme.
pub(crate) fn scheme<S: Scheme + 'static>(
    nand: Box<dyn Nand>,
    settings: Result<S::Settings, StoreError>,
    open: Open,
) -> Result<Box<dyn PageStore>, StoreError> {
    Ok(match open {
        Open::Format => Box::new(SchemeFtl::<_, S>::format(nand, settings?)?),
        Open::Mount => Box::new(SchemeFtl::<_, S>::mount(nand, settings?)?),
    })
}

/// What FAST is asked for.
pub(crate) fn fast(settings: &Settings) -> Result<FastSettings, StoreError> {
    let options = &settings.options;
    Ok(FastSettings {
        common: common(options)?,
        log_blocks: count(options, "log_blocks", 1 << 22)?,
        eager_switch: choice(options, "eager_switch", &["off", "on"])? == "on",
    })
}

fn common(options: &Options) -> Result<FlashSettings, StoreError> {
    let default = FlashSettings::default();
    Ok(FlashSettings {
        over_provisioning_ppm: percent(options, "over_provisioning", 900.0)?
            .unwrap_or(default.over_provisioning_ppm),
        bad_blocks_ppm: percent(options, "bad_blocks", 50.0)?.unwrap_or(default.bad_blocks_ppm),
        wear_gap_erases: count(options, "wear_gap", 1 << 30)?,
    })
}

/// A percentage as parts of a million, if set.
pub(crate) fn percent(options: &Options, name: &str, max: f64) -> Result<Option<u32>, StoreError> {
    let Some(text) = options.text(name) else { return Ok(None) };
    let percent: f64 = text.parse().unwrap_or(-1.0);
    if (0.0..=max).contains(&percent) {
        return Ok(Some((percent * 10_000.0).round() as u32));
    }
    Err(StoreError::Unsupported(format!("option {name}: '{text}' is no percentage from 0 to {max}")))
}

/// A whole number from 1 to `max`, if set.
fn count(options: &Options, name: &str, max: u64) -> Result<Option<u32>, StoreError> {
    Ok(options.number(name).map_err(refused)?.map(|n| n.clamp(1, max) as u32))
}

fn choice(options: &Options, name: &str, words: &[&'static str]) -> Result<&'static str, StoreError> {
    options.choice(name, words).map_err(refused)
}

fn refused(error: IndexError) -> StoreError {
    StoreError::Unsupported(error.to_string())
}
