//! The options of the FTLs: text in, typed settings out.

use super::{Choice, Number, OptionError, Options, Percent, Settings};
use crate::names::{OptionInfo, option};
use nandex::blocks::Validity;
use nandex::blocks::hot::HotConfig;
use nandex::blocks::victim::VictimPolicy;
use nandex::blocks::wear::WearLevelling;
use nandex::ftl::dftl::DftlConfig;
use nandex::ftl::mapping::FlashConfig;
use nandex::ftl::page_map::{FtlConfig, Separation};
use nandex_papers::ftl::bast::{BastConfig, LogVictim};
use nandex_papers::ftl::cftl::CftlConfig;
use nandex_papers::ftl::fast::FastConfig;
use nandex_papers::ftl::hftl::HftlConfig;
use nandex_papers::ftl::lazy::LazyConfig;
use nandex_papers::ftl::nftl::NftlConfig;
use nandex_papers::ftl::sast::SastConfig;
use nandex_papers::ftl::superblock::SuperblockConfig;

/// Most blocks that any option accepts. The bound of the chip is checked when the FTL is opened.
const BLOCKS_MAX: u32 = 1 << 22;

const OVER_PROVISIONING: Percent = Percent::new(
    option("over_provisioning", "12.5", "physical pages beyond the logical ones, in % of the logical ones"),
    900.0,
);
const BAD_BLOCKS: Percent = Percent::new(
    option("bad_blocks", "2", "blocks set aside for those that will fail, in % of the chip"),
    50.0,
);
const WEAR_GAP: Number<u32> = Number::new(
    option(
        "wear_gap",
        "off",
        "erases by which a cold block may lag before it is moved; relative: a quarter of those of a worn block, and by the price of the move",
    ),
    (1, 1 << 30),
);
/// Makes the rule that finds blocks which lag in wear from the gap.
const LEVELLING: Choice<fn(u32) -> WearLevelling> = Choice::new(
    "levelling",
    "how blocks that lag by wear_gap are found: threshold, dual-pool",
    &[
        ("threshold", |gap_erases| WearLevelling::Threshold { gap_erases }),
        ("dual-pool", |threshold_erases| WearLevelling::DualPool { threshold_erases }),
    ],
);
/// The words of every option `valid`; `None` means that the RAM decides.
pub(crate) const VALID_WORDS: &[(&str, Option<Validity>)] =
    &[("ram", None), ("bits", Some(Validity::Bits)), ("counts", Some(Validity::Counts))];
/// The victim policy, which trees on raw NAND use too.
pub(crate) const VICTIM: OptionInfo = option(
    "victim",
    "greedy",
    "which block is collected: greedy, cost-benefit, cat, fifo, windowed:N, choices:N",
);
const ATOMIC_PAGES: Number<u32> =
    Number::new(option("atomic_pages", "64", "most pages of an atomic group, up to 256"), (1, 256));
const CHECKPOINT_BLOCKS: Number<u32> = Number::new(
    option("checkpoint_blocks", "by its cost", "blocks opened between two checkpoints"),
    (1, 1 << 24),
);
const SEPARATION: Choice<Separation> = Choice::new(
    "separation",
    "what has a block to fill of its own: two-frontiers, none, hot-filter",
    &[
        ("two-frontiers", Separation::TwoFrontiers),
        ("none", Separation::None),
        ("hot-filter", Separation::HotFilter(HotConfig::DEFAULT)),
    ],
);
const HOT_COUNTERS: Number<u32> = Number::new(
    option("hot_counters", "4096", "counters of the hot filter; its period is 5/4 of them"),
    (1, 1 << 24),
);
const LOG_BLOCKS: Number<u32> =
    Number::new(option("log_blocks", "3 % of the chip", "log blocks, at least 2"), (1, BLOCKS_MAX));
const EAGER_SWITCH: Choice<bool> = Choice::new(
    "eager_switch",
    "on: a full sequential log block becomes a data block at once",
    &[("off", false), ("on", true)],
);
const HOT_BLOCKS: Number<u32> = Number::new(
    option("hot_blocks", "5 % of the chip", "blocks of the area for hot pages, at least 2"),
    (1, BLOCKS_MAX),
);
const LOG_VICTIM: Choice<LogVictim> = Choice::new(
    "log_victim",
    "which log block is merged when all are in use: lru, fifo, random",
    &[("lru", LogVictim::LeastRecent), ("fifo", LogVictim::Oldest), ("random", LogVictim::Random)],
);
const GROUP_BLOCKS: Number<u32> =
    Number::new(option("group_blocks", "4", "N: logical blocks of a group"), (1, BLOCKS_MAX));
const LOGS_PER_GROUP: Number<u32> =
    Number::new(option("logs_per_group", "2", "K: log blocks that a group may have"), (1, BLOCKS_MAX));
const CLEANING: Choice<bool> = Choice::new(
    "cleaning",
    "what is cleaned at a time: group (all its log blocks), oldest",
    &[("group", true), ("oldest", false)],
);
const CHAIN_BLOCKS: Number<u32> =
    Number::new(option("chain_blocks", "unlimited", "most blocks of a chain, at least 2"), (1, BLOCKS_MAX));
const SUPERBLOCK_BLOCKS: Number<u32> =
    Number::new(option("superblock_blocks", "8", "N: logical blocks of a superblock"), (1, BLOCKS_MAX));
const EXTRA_BLOCKS: Number<u32> = Number::new(
    option("extra_blocks", "4", "M: blocks that a superblock may have beyond N"),
    (1, BLOCKS_MAX),
);
const MAPPING_RAM: Number<u32> = Number::new(
    option(
        "mapping_ram",
        "1/64 of a full map, lazy 1/4, or what RAM is left",
        "bytes of RAM for cached entries of the mapping table",
    ),
    (1, 1 << 30),
);
const VALID: Choice<Option<Validity>> = Choice::new(
    "valid",
    "what is known of valid pages: bits, a bit for each; counts, how many a block has, and the map that is asked; ram, \
     counts where the RAM does not suffice for bits",
    VALID_WORDS,
);
const AREA_BLOCKS: Number<u32> = Number::new(
    option(
        "area_blocks",
        "what mapping_ram allows",
        "blocks of the update and cold areas together, at least 3",
    ),
    (1, BLOCKS_MAX),
);
const CONVERT_PERCENT: Number<u32> = Number::new(
    option(
        "convert_percent",
        "90",
        "share of a logical block that must be there and cold before it is mapped as a block",
    ),
    (1, 101),
);

const COMMON: [OptionInfo; 4] = [OVER_PROVISIONING.info, BAD_BLOCKS.info, WEAR_GAP.info, LEVELLING.info];

/// Joins an FTL's own options to those of every FTL.
const fn with_common<const N: usize>(own: &[OptionInfo]) -> [OptionInfo; N] {
    let mut all = [COMMON[0]; N];
    let mut i = 0;
    while i < N {
        all[i] = if i < COMMON.len() { COMMON[i] } else { own[i - COMMON.len()] };
        i += 1;
    }
    all
}

pub(crate) const PAGE_MAP: [OptionInfo; 9] =
    with_common(&[VICTIM, ATOMIC_PAGES.info, CHECKPOINT_BLOCKS.info, SEPARATION.info, HOT_COUNTERS.info]);
pub(crate) const NFTL: [OptionInfo; 5] = with_common(&[CHAIN_BLOCKS.info]);
pub(crate) const BAST: [OptionInfo; 6] = with_common(&[LOG_BLOCKS.info, LOG_VICTIM.info]);
pub(crate) const SAST: [OptionInfo; 8] =
    with_common(&[LOG_BLOCKS.info, GROUP_BLOCKS.info, LOGS_PER_GROUP.info, CLEANING.info]);
pub(crate) const FAST: [OptionInfo; 6] = with_common(&[LOG_BLOCKS.info, EAGER_SWITCH.info]);
pub(crate) const SUPERBLOCK: [OptionInfo; 6] = with_common(&[SUPERBLOCK_BLOCKS.info, EXTRA_BLOCKS.info]);
pub(crate) const DFTL: [OptionInfo; 7] = with_common(&[VICTIM, MAPPING_RAM.info, VALID.info]);
pub(crate) const LAZY: [OptionInfo; 6] = with_common(&[MAPPING_RAM.info, AREA_BLOCKS.info]);
pub(crate) const CFTL: [OptionInfo; 7] = with_common(&[VICTIM, MAPPING_RAM.info, CONVERT_PERCENT.info]);
pub(crate) const HFTL: [OptionInfo; 6] = with_common(&[LOG_BLOCKS.info, HOT_BLOCKS.info]);

/// The victim policy that is set. A number after a colon replaces the policy's default, as in `windowed:8`
/// or `choices:2`.
pub(crate) fn victim(options: &Options) -> Result<Option<VictimPolicy>, OptionError> {
    let Some(text) = options.text(VICTIM.name) else { return Ok(None) };
    let (name, number) = text.split_once(':').map_or((text, None), |(name, number)| (name, Some(number)));
    let policy = VictimPolicy::ALL.into_iter().find(|policy| policy.name() == name);
    let number = number.map(|digits| digits.parse().ok().filter(|&n| n > 0));
    match (policy, number) {
        (Some(policy), None) => Ok(Some(policy)),
        (Some(VictimPolicy::Windowed { .. }), Some(Some(blocks))) => {
            Ok(Some(VictimPolicy::Windowed { blocks }))
        }
        (Some(VictimPolicy::Choices { .. }), Some(Some(count))) => Ok(Some(VictimPolicy::Choices { count })),
        _ => {
            let why =
                "is no victim policy; there are greedy, cost-benefit, cat, fifo, windowed:N and choices:N";
            Err(OptionError::new(VICTIM.name, text, why))
        }
    }
}

fn separation(options: &Options) -> Result<Separation, OptionError> {
    let counters = HOT_COUNTERS.of(options)?;
    match (SEPARATION.of(options)?, counters) {
        (separation, None) => Ok(separation),
        (Separation::HotFilter(filter), Some(counters)) => {
            let decay_writes = counters + counters / 4;
            Ok(Separation::HotFilter(HotConfig { counters, decay_writes, ..filter }))
        }
        _ => Err(OptionError::because(HOT_COUNTERS.info.name, "only separation=hot-filter has any")),
    }
}

fn wear_levelling(options: &Options) -> Result<WearLevelling, OptionError> {
    let levelling = LEVELLING.of(options)?;
    match options.text(WEAR_GAP.info.name) {
        Some("off") => return Ok(WearLevelling::None),
        Some("relative") => return Ok(WearLevelling::Relative),
        _ => {}
    }
    match WEAR_GAP.of(options)? {
        Some(gap) => Ok(levelling(gap)),
        None if matches!(levelling(0), WearLevelling::Threshold { .. }) => Ok(WearLevelling::None),
        None => Err(OptionError::because(LEVELLING.info.name, "it also takes a wear_gap")),
    }
}

fn common(options: &Options) -> Result<FlashConfig, OptionError> {
    let default = FlashConfig::default();
    Ok(FlashConfig {
        over_provisioning_ppm: OVER_PROVISIONING.ppm_or(options, default.over_provisioning_ppm)?,
        bad_blocks_ppm: BAD_BLOCKS.ppm_or(options, default.bad_blocks_ppm)?,
        wear_levelling: wear_levelling(options)?,
    })
}

/// The settings of page mapping.
pub fn page_map(settings: &Settings) -> Result<FtlConfig, OptionError> {
    let options = &settings.options;
    let default = FtlConfig::default();
    Ok(FtlConfig {
        over_provisioning_ppm: OVER_PROVISIONING.ppm_or(options, default.over_provisioning_ppm)?,
        bad_blocks_ppm: BAD_BLOCKS.ppm_or(options, default.bad_blocks_ppm)?,
        victim: victim(options)?.unwrap_or_default(),
        separation: separation(options)?,
        wear_levelling: wear_levelling(options)?,
        atomic_pages: ATOMIC_PAGES.or(options, default.atomic_pages)?,
        checkpoint_blocks: CHECKPOINT_BLOCKS.of(options)?,
    })
}

/// The settings of NFTL.
pub fn nftl(settings: &Settings) -> Result<NftlConfig, OptionError> {
    let options = &settings.options;
    Ok(NftlConfig { common: common(options)?, chain_blocks_max: CHAIN_BLOCKS.of(options)? })
}

/// The settings of BAST.
pub fn bast(settings: &Settings) -> Result<BastConfig, OptionError> {
    let options = &settings.options;
    let victim = LOG_VICTIM.of(options)?;
    let log_blocks = LOG_BLOCKS.of(options)?;
    Ok(BastConfig { common: common(options)?, log_blocks, victim, ..BastConfig::default() })
}

/// The settings of SAST.
pub fn sast(settings: &Settings) -> Result<SastConfig, OptionError> {
    let options = &settings.options;
    let default = SastConfig::default();
    Ok(SastConfig {
        common: common(options)?,
        group_blocks: GROUP_BLOCKS.or(options, default.group_blocks)?,
        logs_per_group: LOGS_PER_GROUP.or(options, default.logs_per_group)?,
        log_blocks: LOG_BLOCKS.of(options)?,
        whole_group: CLEANING.of(options)?,
    })
}

/// The settings of FAST.
pub fn fast(settings: &Settings) -> Result<FastConfig, OptionError> {
    let options = &settings.options;
    Ok(FastConfig {
        common: common(options)?,
        log_blocks: LOG_BLOCKS.of(options)?,
        eager_switch: EAGER_SWITCH.of(options)?,
    })
}

/// The settings of the superblock scheme.
pub fn superblock(settings: &Settings) -> Result<SuperblockConfig, OptionError> {
    let options = &settings.options;
    let default = SuperblockConfig::default();
    Ok(SuperblockConfig {
        common: common(options)?,
        group_blocks: SUPERBLOCK_BLOCKS.or(options, default.group_blocks)?,
        extra_blocks: EXTRA_BLOCKS.or(options, default.extra_blocks)?,
    })
}

/// The settings of DFTL.
pub fn dftl(settings: &Settings) -> Result<DftlConfig, OptionError> {
    let options = &settings.options;
    Ok(DftlConfig {
        common: common(options)?,
        cache_bytes: MAPPING_RAM.of(options)?,
        victim: victim(options)?.unwrap_or_default(),
        // Whether the RAM suffices knows only who has some of it left.
        validity: VALID.of(options)?.unwrap_or_default(),
    })
}

/// The settings of LazyFTL.
pub fn lazy(settings: &Settings) -> Result<LazyConfig, OptionError> {
    let options = &settings.options;
    Ok(LazyConfig {
        common: common(options)?,
        ram_bytes: MAPPING_RAM.of(options)?,
        area_blocks: AREA_BLOCKS.of(options)?,
    })
}

/// The settings of the CFTL-like scheme.
pub fn cftl(settings: &Settings) -> Result<CftlConfig, OptionError> {
    let options = &settings.options;
    let default = CftlConfig::default();
    Ok(CftlConfig {
        common: common(options)?,
        cache_bytes: MAPPING_RAM.of(options)?,
        victim: victim(options)?.unwrap_or_default(),
        convert_percent: CONVERT_PERCENT.or(options, default.convert_percent)?,
        ..default
    })
}

/// The settings of the HFTL-like scheme.
pub fn hftl(settings: &Settings) -> Result<HftlConfig, OptionError> {
    let options = &settings.options;
    Ok(HftlConfig {
        common: common(options)?,
        log_blocks: LOG_BLOCKS.of(options)?,
        hot_blocks: HOT_BLOCKS.of(options)?,
        ..HftlConfig::default()
    })
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
        assert_eq!(settings(&[]).unwrap(), FtlConfig::default());
        let all = [
            ("victim", "windowed:8"),
            ("separation", "hot-filter"),
            ("hot_counters", "1000"),
            ("wear_gap", "20"),
            ("levelling", "dual-pool"),
        ];
        let filter = HotConfig { counters: 1000, decay_writes: 1250, ..HotConfig::DEFAULT };
        let expected = FtlConfig {
            victim: VictimPolicy::Windowed { blocks: 8 },
            separation: Separation::HotFilter(filter),
            wear_levelling: WearLevelling::DualPool { threshold_erases: 20 },
            ..FtlConfig::default()
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

    #[test]
    fn names_and_numbers_of_victim_policies_are_understood() {
        let of = |text: &str| {
            let mut options = Options::default();
            options.set("victim", text);
            victim(&options)
        };
        for policy in VictimPolicy::ALL {
            assert_eq!(of(policy.name()), Ok(Some(policy)));
        }
        assert_eq!(of("windowed:8"), Ok(Some(VictimPolicy::Windowed { blocks: 8 })));
        assert_eq!(of("choices:2"), Ok(Some(VictimPolicy::Choices { count: 2 })));
        for wrong in ["", "greed", "greedy:2", "windowed:", "windowed:0", "choices:x", "fifo:1"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
