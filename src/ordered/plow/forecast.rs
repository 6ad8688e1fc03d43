//! Forecast of the set-up of a plow and its costs for a number of records, before anything is written.
//!
//! The model is that of `cost`, with a guess of the records per page, which is unknown until there are pages.
//! Keys are assumed to be in random order and spread over all possible keys, in changes and look-ups.

use super::config::Shares;
use super::cost::{self, Given, LEVELS_MAX, Mix, ONE, Plan};
use super::page::HEADER_BYTES;
use super::{Plow, PlowConfig, summary};
use crate::check::IndexError;
use crate::nand::Geometry;
use crate::ordered::RecordFormat;

/// Extents besides those of the last level's full blocks.
const FORECAST_EXTENTS: usize = 16;

/// Expected costs of a plow with a number of records. Costs are in millionths of a page operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Forecast {
    /// Records of the memtable.
    pub memtable: u64,
    /// Bytes of the filters.
    pub filter_bytes: u64,
    /// Number of levels.
    pub levels: usize,
    /// Pages of each level, the last level at the end.
    pub pages: [u64; LEVELS_MAX],
    /// Programs for a change of an existing record: steps and summaries, without the commit.
    pub programs: u64,
    /// Reads for a change that need not tell whether its key existed.
    pub reads: u64,
    /// Reads for a look-up of an existing record.
    pub look_up_reads: u64,
}

/// Bits, in 1024ths, that a record of the last level takes: the value, the key behind its first eight bytes,
/// and these eight bytes as Elias and Fano code them for the mean gap.
fn record_bits(record: RecordFormat, records: u64) -> u64 {
    let key_bits = 8 * u32::from(record.key_bytes.min(8));
    let rest = 8 * u64::from(record.key_bytes.saturating_sub(8)) + 8 * u64::from(record.value_bytes);
    let all = if key_bits == 64 { u64::MAX } else { 1 << key_bits };
    let gap = (all / records.max(1)).max(1);
    let width = gap.ilog2();
    // One bit ends the string of zeros; there are as many zeros as the gap is wider than the low bits tell.
    (rest + u64::from(width) + 1) * ONE + u64::try_from((u128::from(gap) * 1024) >> width).unwrap_or(ONE)
}

/// Sealed pages for each change, in units of 1/1024 of 1/1024. 0 if the memtable fits beside the root. Else
/// each record is sealed once a page of them has gathered, unless the sweep took it before.
fn sealed(given: &Given) -> u64 {
    let pages = cost::pages(given, given.memtable, false);
    if pages * 8 <= 7 * ONE {
        return 0;
    }
    let of_a_page = (given.memtable * ONE / pages).max(1);
    let each = ONE * ONE / of_a_page;
    each - each * of_a_page.min(given.memtable) / (2 * given.memtable.max(1))
}

/// Converts units of 1/1024 of 1/1024 to millionths.
fn millionths(parts: u64) -> u64 {
    (parts * 15_625) >> 14
}

impl Forecast {
    /// Forecast for `records` records, if `changes` of `operations` operations are changes and the others
    /// look-ups.
    pub fn new(
        config: &PlowConfig,
        geometry: Geometry,
        records: u64,
        (changes, operations): (u64, u64),
    ) -> Result<Forecast, IndexError> {
        let own = size_of::<Plow<()>>() + super::level::BYTES;
        let mut shares = Shares::new(config, geometry, own)?;
        let page_bits = 8 * u64::from(geometry.page_bytes).saturating_sub(HEADER_BYTES as u64 + 10);
        let page_records = (page_bits * ONE / record_bits(config.record, records)).max(1);
        let blocks = records.div_ceil(page_records).div_ceil(geometry.pages_per_block.into());
        shares.divide((config.record, geometry), usize::try_from(blocks).unwrap_or(0) + FORECAST_EXTENTS);
        let share = |of: u64| (of.saturating_mul(2048) / operations.max(1)) as u32;
        let given = Given {
            pages: records.div_ceil(page_records).max(1),
            page_records,
            page_bits,
            memtable: shares.memtable as u64,
            filter_bits: 8 * shares.filter as u64,
            levels_max: shares.levels,
            mix: Mix {
                gets: share(operations.saturating_sub(changes)),
                puts: share(changes.min(operations)),
            },
        };
        let plan = match shares.fixed {
            true => cost::plan_with(&given, shares.levels).unwrap_or_default(),
            false => cost::plan(&given),
        };
        Ok(Forecast::of(&given, &plan, &shares, geometry))
    }

    fn of(given: &Given, plan: &Plan, shares: &Shares, geometry: Geometry) -> Forecast {
        let mut pages = [0; LEVELS_MAX];
        let last = plan.levels.max(1) - 1;
        pages[..last].copy_from_slice(&plan.pages_max[..last]);
        pages[last] = given.pages;
        // A step is made when the memtable is nearly full.
        let costs =
            cost::costs(&Given { memtable: given.memtable.saturating_sub(2), ..*given }, &pages[..=last]);
        let per_block = u64::from(geometry.pages_per_block);
        let summaries =
            if summary::are_written(geometry.pages_per_block) { costs.steps / per_block } else { 0 };
        Forecast {
            memtable: given.memtable,
            filter_bytes: shares.filter as u64,
            levels: last + 1,
            pages,
            programs: millionths(costs.steps + summaries + sealed(given)),
            reads: millionths(costs.steps * cost::STEP_READS),
            look_up_reads: millionths(costs.reads * ONE),
        }
    }
}
