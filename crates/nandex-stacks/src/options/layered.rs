//! The trees over a node layer: BFTL, WOBF, IBSF, BOF, RBFTL and FlashDB.

use super::{Choice, Number, Settings};
use crate::names::{OptionInfo, option};
use nandex::IndexError;
use nandex::index::most;
use nandex_papers::ordered::layered::{self, LayeredConfig};
use nandex_papers::unit_layer::{CommitPolicy, Modes, Tuning};

pub(crate) const UNITS: Number<u32> =
    Number::new(option("reservation_units", "60", "units that wait in RAM at most"), (1, most::UNITS as u32));
const LIST_LENGTH: Number<u8> =
    Number::new(option("list_length", "4", "C: sectors of a node at most, 1 to 64"), (1, 64));
const PACKING: Choice<CommitPolicy> = Choice::new(
    "packing",
    "first-fit, or decreasing: the largest set of units first",
    &[("first-fit", CommitPolicy::FirstFit), ("decreasing", CommitPolicy::FirstFitDecreasing)],
);
const MERGE_ON_COMMIT: Choice<CommitPolicy> = Choice::new(
    "merge_on_commit",
    "yes, or no: a list grows to list_length before it is compacted",
    &[("yes", CommitPolicy::SortedMerged), ("no", CommitPolicy::Sorted)],
);
const MODES: Choice<Modes> = Choice::new(
    "modes",
    "tuned, each node its own; log, or disk: that one alone",
    &[("tuned", Modes::Tuned), ("log", Modes::Log), ("disk", Modes::Disk)],
);
const READ_NS: Number<u64> = Number::new(
    option("read_ns", "80000", "time of a page read that the choice of a mode reckons with"),
    (0, Tuning::NS_MAX),
);
const PROGRAM_NS: Number<u64> =
    Number::new(option("program_ns", "200000", "the same of a page program"), (0, Tuning::NS_MAX));

pub(crate) const BFTL: [OptionInfo; 3] = [UNITS.info, LIST_LENGTH.info, PACKING.info];
pub(crate) const WOBF: [OptionInfo; 3] = [UNITS.info, LIST_LENGTH.info, MERGE_ON_COMMIT.info];
pub(crate) const BUFFERED: [OptionInfo; 1] = [UNITS.info];
pub(crate) const FLASH_DB: [OptionInfo; 4] = [MODES.info, LIST_LENGTH.info, READ_NS.info, PROGRAM_NS.info];

/// Applies the settings of tree and buffer.
fn common(config: LayeredConfig, settings: &Settings) -> Result<LayeredConfig, IndexError> {
    let reservation_units = UNITS.or(&settings.options, config.reservation_units)?;
    Ok(LayeredConfig { tree: super::bplus::config(settings)?, reservation_units, ..config })
}

/// The configuration of BFTL.
pub fn bftl(settings: &Settings) -> Result<LayeredConfig, IndexError> {
    let config = common(layered::bftl::config(settings.record), settings)?;
    let commit = PACKING.of(&settings.options)?;
    let list_length = LIST_LENGTH.or(&settings.options, config.list_length)?;
    Ok(LayeredConfig { commit, list_length, ..config })
}

/// The configuration of WOBF.
pub fn wobf(settings: &Settings) -> Result<LayeredConfig, IndexError> {
    let config = common(layered::wobf::config(settings.record), settings)?;
    let commit = MERGE_ON_COMMIT.of(&settings.options)?;
    let list_length = LIST_LENGTH.or(&settings.options, config.list_length)?;
    Ok(LayeredConfig { commit, list_length, ..config })
}

/// The configuration of IBSF.
pub fn ibsf(settings: &Settings) -> Result<LayeredConfig, IndexError> {
    common(layered::ibsf::config(settings.record), settings)
}

/// The configuration of BOF.
pub fn bof(settings: &Settings) -> Result<LayeredConfig, IndexError> {
    common(layered::bof::config(settings.record), settings)
}

/// The configuration of RBFTL.
pub fn rbftl(settings: &Settings) -> Result<LayeredConfig, IndexError> {
    common(layered::rbftl::config(settings.record), settings)
}

/// The configuration of FlashDB.
pub fn flashdb(settings: &Settings) -> Result<LayeredConfig, IndexError> {
    let options = &settings.options;
    let config = common(layered::flashdb::config(settings.record), settings)?;
    let tuning = Tuning {
        modes: MODES.of(options)?,
        read_ns: READ_NS.or(options, Tuning::SLC.read_ns)?,
        program_ns: PROGRAM_NS.or(options, Tuning::SLC.program_ns)?,
    };
    Ok(LayeredConfig { tuning, list_length: LIST_LENGTH.or(options, config.list_length)?, ..config })
}
