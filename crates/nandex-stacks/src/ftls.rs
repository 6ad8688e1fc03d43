//! Options of the FTLs, and the settings that they ask for.

use crate::names::{OptionInfo, option};
use crate::registry::Open;
use nandex::blocks::hot::HotSettings;
use nandex::blocks::victim::VictimPolicy;
use nandex::blocks::wear::WearLevelling;
use nandex::ftl::bast::{BastSettings, LogVictim};
use nandex::ftl::cftl::CftlSettings;
use nandex::ftl::dftl::DftlSettings;
use nandex::ftl::fast::FastSettings;
use nandex::ftl::hftl::HftlSettings;
use nandex::ftl::lazy::LazySettings;
use nandex::ftl::mapping::{FlashSettings, Scheme, SchemeFtl};
use nandex::ftl::nftl::NftlSettings;
use nandex::ftl::page_map::{FtlSettings, Separation};
use nandex::ftl::sast::SastSettings;
use nandex::ftl::superblock::SuperblockSettings;
use nandex::ordered::{Options, Settings};
use nandex::{IndexError, Nand, PageStore, StoreError};

pub(crate) const OVER_PROVISIONING: OptionInfo =
    option("over_provisioning", "12.5", "physical pages beyond the logical ones, in % of the logical ones");
pub(crate) const BAD_BLOCKS: OptionInfo =
    option("bad_blocks", "2", "blocks set aside for those that will fail, in % of the chip");
pub(crate) const WEAR_GAP: OptionInfo =
    option("wear_gap", "off", "erases by which a cold block may lag before it is moved");
pub(crate) const LEVELLING: OptionInfo =
    option("levelling", "threshold", "how blocks that lag by wear_gap are found: threshold, dual-pool");
/// The victim policy, also of the trees on raw NAND.
pub(crate) const VICTIM: OptionInfo = option(
    "victim",
    "greedy",
    "which block is collected: greedy, cost-benefit, cat, fifo, windowed:N, choices:N",
);
pub(crate) const ATOMIC_PAGES: OptionInfo =
    option("atomic_pages", "64", "most pages of an atomic group, up to 256");
pub(crate) const CHECKPOINT_BLOCKS: OptionInfo =
    option("checkpoint_blocks", "by its cost", "blocks opened between two checkpoints");
pub(crate) const SEPARATION: OptionInfo = option(
    "separation",
    "two-frontiers",
    "what has a block to fill of its own: two-frontiers, none, hot-filter",
);
pub(crate) const HOT_COUNTERS: OptionInfo =
    option("hot_counters", "4096", "counters of the hot filter; its period is 5/4 of them");
pub(crate) const LOG_BLOCKS: OptionInfo = option("log_blocks", "3 % of the chip", "log blocks, at least 2");
pub(crate) const EAGER_SWITCH: OptionInfo =
    option("eager_switch", "off", "on: a full sequential log block becomes a data block at once");
pub(crate) const HOT_BLOCKS: OptionInfo =
    option("hot_blocks", "5 % of the chip", "blocks of the area for hot pages, at least 2");

pub(crate) const LOG_VICTIM: OptionInfo =
    option("log_victim", "lru", "which log block is merged when all are in use: lru, fifo, random");
pub(crate) const GROUP_BLOCKS: OptionInfo = option("group_blocks", "4", "N: logical blocks of a group");
pub(crate) const LOGS_PER_GROUP: OptionInfo =
    option("logs_per_group", "2", "K: log blocks that a group may have");
pub(crate) const CLEANING: OptionInfo =
    option("cleaning", "group", "what is cleaned at a time: group (all its log blocks), oldest");
pub(crate) const CHAIN_BLOCKS: OptionInfo =
    option("chain_blocks", "unlimited", "most blocks of a chain, at least 2");

pub(crate) const SUPERBLOCK_BLOCKS: OptionInfo =
    option("superblock_blocks", "8", "N: logical blocks of a superblock");
pub(crate) const EXTRA_BLOCKS: OptionInfo =
    option("extra_blocks", "4", "M: blocks that a superblock may have beyond N");
pub(crate) const MAPPING_RAM: OptionInfo = option(
    "mapping_ram",
    "1/64 of a full map, lazy 1/4",
    "bytes of RAM for cached entries of the mapping table",
);

pub(crate) const AREA_BLOCKS: OptionInfo = option(
    "area_blocks",
    "what mapping_ram allows",
    "blocks of the update and cold areas together, at least 3",
);

pub(crate) const CONVERT_PERCENT: OptionInfo = option(
    "convert_percent",
    "90",
    "share of a logical block that must be there and cold before it is mapped as a block",
);

/// Options of page mapping.
pub(crate) const PAGE_MAP: [OptionInfo; 9] = [
    OVER_PROVISIONING,
    BAD_BLOCKS,
    WEAR_GAP,
    LEVELLING,
    VICTIM,
    ATOMIC_PAGES,
    CHECKPOINT_BLOCKS,
    SEPARATION,
    HOT_COUNTERS,
];

/// Options of NFTL.
pub(crate) const NFTL: [OptionInfo; 5] = [OVER_PROVISIONING, BAD_BLOCKS, WEAR_GAP, LEVELLING, CHAIN_BLOCKS];

/// Options of BAST.
pub(crate) const BAST: [OptionInfo; 6] =
    [OVER_PROVISIONING, BAD_BLOCKS, WEAR_GAP, LEVELLING, LOG_BLOCKS, LOG_VICTIM];

/// Options of SAST.
pub(crate) const SAST: [OptionInfo; 8] =
    [OVER_PROVISIONING, BAD_BLOCKS, WEAR_GAP, LEVELLING, LOG_BLOCKS, GROUP_BLOCKS, LOGS_PER_GROUP, CLEANING];

/// Options of FAST.
pub(crate) const FAST: [OptionInfo; 6] =
    [OVER_PROVISIONING, BAD_BLOCKS, WEAR_GAP, LEVELLING, LOG_BLOCKS, EAGER_SWITCH];

/// Options of the superblock scheme.
pub(crate) const SUPERBLOCK: [OptionInfo; 6] =
    [OVER_PROVISIONING, BAD_BLOCKS, WEAR_GAP, LEVELLING, SUPERBLOCK_BLOCKS, EXTRA_BLOCKS];

/// Options of DFTL.
pub(crate) const DFTL: [OptionInfo; 6] =
    [OVER_PROVISIONING, BAD_BLOCKS, WEAR_GAP, LEVELLING, VICTIM, MAPPING_RAM];

/// Options of LazyFTL.
pub(crate) const LAZY: [OptionInfo; 6] =
    [OVER_PROVISIONING, BAD_BLOCKS, WEAR_GAP, LEVELLING, MAPPING_RAM, AREA_BLOCKS];

/// Options of the CFTL-like scheme.
pub(crate) const CFTL: [OptionInfo; 7] =
    [OVER_PROVISIONING, BAD_BLOCKS, WEAR_GAP, LEVELLING, VICTIM, MAPPING_RAM, CONVERT_PERCENT];

/// Options of the HFTL-like scheme.
pub(crate) const HFTL: [OptionInfo; 6] =
    [OVER_PROVISIONING, BAD_BLOCKS, WEAR_GAP, LEVELLING, LOG_BLOCKS, HOT_BLOCKS];

/// Makes or finds a store of a mapping scheme.
pub(crate) fn scheme<S: Scheme + 'static>(
    nand: Box<dyn Nand>,
    settings: Result<S::Settings, StoreError>,
    open: Open,
) -> Result<Box<dyn PageStore>, StoreError> {
    Ok(match open {
        Open::Format => Box::new(SchemeFtl::<_, S>::format(nand, settings?)?),
        _ => Box::new(SchemeFtl::<_, S>::mount(nand, settings?)?),
    })
}

/// The settings of the page-mapping FTL that the options ask for.
pub(crate) fn page_map(settings: &Settings) -> Result<FtlSettings, StoreError> {
    let options = &settings.options;
    let default = FtlSettings::default();
    Ok(FtlSettings {
        over_provisioning_ppm: percent(options, "over_provisioning", 900.0)?
            .unwrap_or(default.over_provisioning_ppm),
        bad_blocks_ppm: percent(options, "bad_blocks", 50.0)?.unwrap_or(default.bad_blocks_ppm),
        victim: victim(options)?,
        separation: separation(options)?,
        wear_levelling: wear_levelling(options)?,
        atomic_pages: count(options, "atomic_pages", 256)?.unwrap_or(default.atomic_pages),
        checkpoint_blocks: count(options, "checkpoint_blocks", 1 << 24)?,
    })
}

fn separation(options: &Options) -> Result<Separation, StoreError> {
    let counters = count(options, "hot_counters", 1 << 24)?;
    match (choice(options, "separation", &["two-frontiers", "none", "hot-filter"])?, counters) {
        ("hot-filter", None) => Ok(Separation::HotFilter(HotSettings::DEFAULT)),
        ("hot-filter", Some(counters)) => {
            let decay_writes = counters + counters / 4;
            Ok(Separation::HotFilter(HotSettings { counters, decay_writes, ..HotSettings::DEFAULT }))
        }
        (_, Some(_)) => Err(bad_option("hot_counters", "only separation=hot-filter has any")),
        ("none", None) => Ok(Separation::None),
        _ => Ok(Separation::TwoFrontiers),
    }
}

fn wear_levelling(options: &Options) -> Result<WearLevelling, StoreError> {
    let rule = choice(options, "levelling", &["threshold", "dual-pool"])?;
    match (count(options, "wear_gap", 1 << 30)?, rule) {
        (Some(gap_erases), "threshold") => Ok(WearLevelling::Threshold { gap_erases }),
        (Some(threshold_erases), _) => Ok(WearLevelling::DualPool { threshold_erases }),
        (None, "threshold") => Ok(WearLevelling::None),
        (None, _) => Err(bad_option("levelling", "it also takes a wear_gap")),
    }
}

fn bad_option(option: &str, why: &str) -> StoreError {
    StoreError::Unsupported(format!("option {option}: {why}"))
}

/// The settings of NFTL from the options.
pub(crate) fn nftl(settings: &Settings) -> Result<NftlSettings, StoreError> {
    let options = &settings.options;
    Ok(NftlSettings { common: common(options)?, chain_blocks_max: count(options, "chain_blocks", 1 << 22)? })
}

/// The settings of BAST from the options.
pub(crate) fn bast(settings: &Settings) -> Result<BastSettings, StoreError> {
    let options = &settings.options;
    let victim = match choice(options, "log_victim", &["lru", "fifo", "random"])? {
        "fifo" => LogVictim::Oldest,
        "random" => LogVictim::Random,
        _ => LogVictim::LeastRecent,
    };
    let log_blocks = count(options, "log_blocks", 1 << 22)?;
    Ok(BastSettings { common: common(options)?, log_blocks, victim, ..BastSettings::default() })
}

/// The settings of SAST from the options.
pub(crate) fn sast(settings: &Settings) -> Result<SastSettings, StoreError> {
    let options = &settings.options;
    let default = SastSettings::default();
    Ok(SastSettings {
        common: common(options)?,
        group_blocks: count(options, "group_blocks", 1 << 22)?.unwrap_or(default.group_blocks),
        logs_per_group: count(options, "logs_per_group", 1 << 22)?.unwrap_or(default.logs_per_group),
        log_blocks: count(options, "log_blocks", 1 << 22)?,
        whole_group: choice(options, "cleaning", &["group", "oldest"])? == "group",
    })
}

/// The settings of FAST from the options.
pub(crate) fn fast(settings: &Settings) -> Result<FastSettings, StoreError> {
    let options = &settings.options;
    Ok(FastSettings {
        common: common(options)?,
        log_blocks: count(options, "log_blocks", 1 << 22)?,
        eager_switch: choice(options, "eager_switch", &["off", "on"])? == "on",
    })
}

/// The settings of the superblock scheme from the options.
pub(crate) fn superblock(settings: &Settings) -> Result<SuperblockSettings, StoreError> {
    let options = &settings.options;
    let default = SuperblockSettings::default();
    Ok(SuperblockSettings {
        common: common(options)?,
        group_blocks: count(options, "superblock_blocks", 1 << 22)?.unwrap_or(default.group_blocks),
        extra_blocks: count(options, "extra_blocks", 1 << 22)?.unwrap_or(default.extra_blocks),
    })
}

/// The settings of DFTL from the options.
pub(crate) fn dftl(settings: &Settings) -> Result<DftlSettings, StoreError> {
    let options = &settings.options;
    Ok(DftlSettings {
        common: common(options)?,
        cache_bytes: count(options, "mapping_ram", 1 << 30)?,
        victim: victim(options)?,
    })
}

/// The settings of LazyFTL from the options.
pub(crate) fn lazy(settings: &Settings) -> Result<LazySettings, StoreError> {
    let options = &settings.options;
    Ok(LazySettings {
        common: common(options)?,
        ram_bytes: count(options, "mapping_ram", 1 << 30)?,
        area_blocks: count(options, "area_blocks", 1 << 22)?,
    })
}

/// The settings of the CFTL-like scheme from the options.
pub(crate) fn cftl(settings: &Settings) -> Result<CftlSettings, StoreError> {
    let options = &settings.options;
    let default = CftlSettings::default();
    Ok(CftlSettings {
        common: common(options)?,
        cache_bytes: count(options, "mapping_ram", 1 << 30)?,
        victim: victim(options)?,
        convert_percent: count(options, "convert_percent", 101)?.unwrap_or(default.convert_percent),
        ..default
    })
}

fn victim(options: &Options) -> Result<VictimPolicy, StoreError> {
    match options.text("victim") {
        Some(text) => VictimPolicy::parse(text).map_err(|e| bad_option("victim", &e)),
        None => Ok(VictimPolicy::default()),
    }
}

/// The settings of the HFTL-like scheme from the options.
pub(crate) fn hftl(settings: &Settings) -> Result<HftlSettings, StoreError> {
    let options = &settings.options;
    Ok(HftlSettings {
        common: common(options)?,
        log_blocks: count(options, "log_blocks", 1 << 22)?,
        hot_blocks: count(options, "hot_blocks", 1 << 22)?,
        ..HftlSettings::default()
    })
}

fn common(options: &Options) -> Result<FlashSettings, StoreError> {
    let default = FlashSettings::default();
    Ok(FlashSettings {
        over_provisioning_ppm: percent(options, "over_provisioning", 900.0)?
            .unwrap_or(default.over_provisioning_ppm),
        bad_blocks_ppm: percent(options, "bad_blocks", 50.0)?.unwrap_or(default.bad_blocks_ppm),
        wear_levelling: wear_levelling(options)?,
    })
}

/// A percentage as parts of a million, if set.
fn percent(options: &Options, name: &str, max: f64) -> Result<Option<u32>, StoreError> {
    let Some(text) = options.text(name) else { return Ok(None) };
    let percent: f64 = text.parse().unwrap_or(-1.0);
    if (0.0..=max).contains(&percent) {
        return Ok(Some((percent * 10_000.0).round() as u32));
    }
    Err(StoreError::Unsupported(format!("option {name}: '{text}' is no percentage from 0 to {max}")))
}

/// A whole number from 1 to `max`, if set.
fn count(options: &Options, name: &str, max: u64) -> Result<Option<u32>, StoreError> {
    Ok(options.number(name, 1..=max).map_err(refused)?.map(|n| n as u32))
}

fn choice(options: &Options, name: &str, words: &[&'static str]) -> Result<&'static str, StoreError> {
    options.choice(name, words).map_err(refused)
}

pub(crate) fn refused(error: IndexError) -> StoreError {
    StoreError::Unsupported(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::ordered::RecordFormat;

    #[test]
    fn options_choose_victims_separation_and_levelling() {
        let settings = |pairs: &[(&str, &str)]| {
            let settings = Settings::new(RecordFormat::new(4, 4));
            page_map(&pairs.iter().fold(settings, |settings, (name, value)| settings.with(name, value)))
        };
        assert_eq!(settings(&[]).unwrap(), FtlSettings::default());
        let all = [
            ("victim", "windowed:8"),
            ("separation", "hot-filter"),
            ("hot_counters", "1000"),
            ("wear_gap", "20"),
            ("levelling", "dual-pool"),
        ];
        let filter = HotSettings { counters: 1000, decay_writes: 1250, ..HotSettings::DEFAULT };
        let expected = FtlSettings {
            victim: VictimPolicy::Windowed { blocks: 8 },
            separation: Separation::HotFilter(filter),
            wear_levelling: WearLevelling::DualPool { threshold_erases: 20 },
            ..FtlSettings::default()
        };
        assert_eq!(settings(&all).unwrap(), expected);
        for alone in [
            ("victim", "oldest"),
            ("hot_counters", "1000"),
            ("levelling", "dual-pool"),
            ("separation", "all"),
        ] {
            assert!(settings(&[alone]).is_err(), "{alone:?}");
        }
    }
}
