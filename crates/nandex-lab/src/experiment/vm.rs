//! Computed cells of the VMTree: the counts of the authors' program. `vmtree/TABLE-LOG` has the bytes of the
//! table and the pages of the log buffer in its name, `vmtree-ow/LOG` the latter.

use super::RunPlan;
use super::results::CellResult;
use crate::LabError;
use crate::single::vm::{counts, overwrite_counts};
use crate::stats::Summary;

/// Seeds of the key orders over which a cell is averaged. The authors' counts are from one run each.
const SEEDS: [u64; 3] = [1, 2, 3];

type Figures = Vec<(&'static str, u64)>;

/// Computes the cell `name`; `None` for a name of another experiment.
pub(super) fn cell(name: &str, plan: &RunPlan) -> Result<Option<CellResult>, LabError> {
    let seeds = if plan.smoke { &SEEDS[..1] } else { &SEEDS };
    let of_seeds = |counts: &dyn Fn(u64) -> Result<Figures, LabError>| {
        let runs = seeds.iter().map(|&seed| counts(seed)).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(CellResult { name: name.to_string(), figures: means(&runs), ..CellResult::default() }))
    };
    if let Some(Ok(log)) = name.strip_prefix("vmtree-ow/").map(str::parse) {
        return of_seeds(&|seed| overwrite_counts(log, seed));
    }
    let sizes = name.strip_prefix("vmtree/").and_then(|sizes| sizes.split_once('-'));
    match sizes.map(|(table, log)| (table.parse(), log.parse())) {
        Some((Ok(table), Ok(log))) => of_seeds(&|seed| counts(table, log, seed)),
        _ => Ok(None),
    }
}

/// The summary of each figure over all runs.
fn means(runs: &[Figures]) -> std::collections::BTreeMap<String, Summary> {
    let names = runs.first().into_iter().flatten().enumerate();
    let summaries = names.filter_map(|(i, (name, _))| {
        let values: Vec<f64> = runs.iter().map(|figures| figures[i].1 as f64).collect();
        Summary::of(&values).map(|summary| (name.to_string(), summary))
    });
    summaries.collect()
}
