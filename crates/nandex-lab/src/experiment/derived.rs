//! Cells that are computed rather than run over a workload: the papers' equations, and the power-cut tests.

use super::results::CellResult;
use super::{RunPlan, figures};
use crate::LabError;
use crate::analysis::mu as analysis;
use crate::parallel;
use crate::runner::Control;
use crate::single::{Figures, ls_lru, wpcb};
use crate::stats::Summary;
use nandex::ordered::RecordFormat;
use nandex::ordered::mu::layout::Layout;
use nandex::ordered::wandering::OneNodePages;
use std::collections::BTreeMap;

/// Page size and records of the mu-Tree paper, with which f = 512.
const PAGE_BYTES: usize = 4096;
const RECORD: RecordFormat = RecordFormat::new(4, 4);
const F: f64 = 512.0;
const BILLION: u64 = 1_000_000_000;

/// The computed cell of this name. Most need no seeds.
pub(super) fn cell(
    name: &str,
    plan: &RunPlan,
    control: &Control,
    seeds: &[u64],
) -> Result<CellResult, LabError> {
    let figures = match name {
        "heights" => heights()?,
        "valid-pages" => valid_pages(),
        "multi-split" => ls_lru::multi_split()?,
        "lemma-1" => ls_lru::lemma_1(if plan.smoke { 2_000 } else { 40_000 })?,
        "victims" => ls_lru::victims(if plan.smoke { 200 } else { 5_000 }),
        "equations" => {
            let records = if plan.smoke { 20_000 } else { 1_000_000 };
            let each = parallel::map(seeds, plan.threads, |&seed| wpcb::equations(records, seed));
            let each: Vec<BTreeMap<String, f64>> = each
                .into_iter()
                .map(|one| Ok(one?.into_iter().collect()))
                .collect::<Result<_, LabError>>()?;
            let figures = figures::over_seeds(&each, 0);
            return Ok(CellResult { name: name.to_string(), figures, ..CellResult::default() });
        }
        _ => {
            return match (super::vm::cell(name, plan)?, super::plow::cell(name, plan)?) {
                (Some(cell), _) | (None, Some(cell)) => Ok(cell),
                (None, None) => super::cuts::cell(name, plan, control),
            };
        }
    };
    let figures = figures.into_iter().map(|(figure, value)| (figure, Summary::exact(value))).collect();
    Ok(CellResult { name: name.to_string(), figures, ..CellResult::default() })
}

/// Heights of both trees up to 10^9 records (Figure 7). A height changes only where a tree is full, so it
/// is enough to look before, at and after each such point.
fn heights() -> Result<Figures, LabError> {
    let mu = Layout::of(PAGE_BYTES, RECORD);
    let bplus = OneNodePages::of(PAGE_BYTES, RECORD)?;
    let full = (1..=5).flat_map(|height| [mu.records_max(height), bplus.records_max(height)]);
    let around = full.flat_map(|n| [n - 1, n, n + 1]);
    let mut sizes: Vec<u64> = around.chain([1, BILLION]).filter(|&n| (1..=BILLION).contains(&n)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let (mut unlike_equation, mut beyond_one, mut one_more) = (0, 0, 0);
    for &n in &sizes {
        let whole = [mu.height_for(n), bplus.height_for(n)].map(|height| height.map_or(0, u32::from));
        let real = [analysis::mu_height(F, n as f64), analysis::bplus_height(F, n as f64)];
        unlike_equation += u32::from(whole != real.map(analysis::levels));
        one_more += u32::from(whole[0] == whole[1] + 1);
        beyond_one += u32::from(whole[0] != whole[1] && whole[0] != whole[1] + 1);
    }
    let mut figures: Figures = vec![
        ("sizes_looked_at".into(), sizes.len() as f64),
        ("sizes_unlike_the_equations".into(), f64::from(unlike_equation)),
        ("sizes_where_mu_is_one_higher".into(), f64::from(one_more)),
        ("sizes_where_mu_is_neither_equal_nor_one_higher".into(), f64::from(beyond_one)),
    ];
    for power in 3..=9 {
        let n = 10f64.powi(power);
        for (tree, height) in [("mu", analysis::mu_height(F, n)), ("bplus", analysis::bplus_height(F, n))] {
            figures.push((format!("{tree}_height_levels_1e{power}"), height));
            figures.push((format!("{tree}_whole_height_levels_1e{power}"), analysis::levels(height).into()));
        }
    }
    Ok(figures)
}

/// Numbers of valid pages of both trees with full leaves (equations 8, 10 and 11).
fn valid_pages() -> Figures {
    let mut figures = Figures::new();
    for power in 4..=9 {
        let n = 10f64.powi(power);
        let (mu, bplus) = (analysis::mu_pages(F, n), analysis::bplus_pages(F, n));
        figures.push((format!("mu_pages_1e{power}"), mu));
        figures.push((format!("bplus_pages_1e{power}"), bplus));
        figures.push((format!("mu_over_bplus_1e{power}"), mu / bplus));
    }
    figures
}
