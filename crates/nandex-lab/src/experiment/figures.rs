//! From the counts of a run to the figures that papers print.

use super::definition::{Definition, Sum};
use crate::results::{CauseCounts, ChipFacts, Costs, Phase, Run};
use crate::stats::{self, Summary};
use std::collections::{BTreeMap, BTreeSet};

/// All figures of a run. Names: `phase.figure_unit` for a phase, `phase.kind.figure_unit` for one kind of
/// operation in it, the figure alone for the whole run, and `metrics.name` for the index's own.
pub(super) fn of_run(run: &Run, chip: &ChipFacts, definition: &Definition) -> BTreeMap<String, f64> {
    let (conduct, sums) = (&definition.run, &definition.sums);
    let mut figures = BTreeMap::new();
    let mut put = |name: String, value: f64| {
        figures.insert(name, value);
    };
    put("height_levels".into(), f64::from(run.height));
    put("records".into(), run.records as f64);
    put("live_pages".into(), run.live_pages as f64);
    put("ram_bytes".into(), run.ram_bytes as f64);
    let summed: Vec<Phase> = sums.iter().filter_map(|sum| sum.of(&run.phases)).collect();
    for phase in run.phases.iter().chain(&summed).filter(|phase| phase.total.operations > 0) {
        of_phase(phase, chip, &mut put);
        of_tree(phase, chip, &mut put);
        if conduct.cpu_time {
            put(
                format!("{}.cpu_us_per_op", phase.name),
                phase.cpu_ns as f64 / phase.total.operations as f64 / 1e3,
            );
        }
        if let Some(weights) = conduct.weights {
            let (references, total) = (phase.cache_hits + phase.cache_misses, &phase.total);
            let weighted_ns = total.page_reads * weights.read_ns
                + total.page_programs * weights.program_ns
                + total.block_erases * weights.erase_ns
                + references * weights.reference_ns;
            put(format!("{}.page_references", phase.name), references as f64);
            put(format!("{}.weighted_time_s", phase.name), weighted_ns as f64 / 1e9);
        }
        if let Some((prices, done)) = conduct.pattern_prices.zip(phase.patterns) {
            let time_ns = prices.time_ns(&done, phase.total.block_erases);
            put(format!("{}.pattern_time_s", phase.name), time_ns as f64 / 1e9);
            put(format!("{}.programs_next_in_block", phase.name), done.programs_next_in_block as f64);
            put(format!("{}.programs_next_on_chip", phase.name), done.programs_next_on_chip as f64);
            put(format!("{}.reads_next_in_block", phase.name), done.reads_next_in_block as f64);
            put(format!("{}.reads_next_on_chip", phase.name), done.reads_next_on_chip as f64);
        }
    }
    of_nodes(run, &mut put);
    for (name, &value) in &run.metrics {
        put(format!("metrics.{name}"), value as f64);
    }
    figures
}

/// Puts the figures of nodes: where nodes and records are at the end, and how nodes ended. All trees use the
/// same metric names; a tree without a metric lacks the figure.
fn of_nodes(run: &Run, put: &mut impl FnMut(String, f64)) {
    let metric = |name: &str| run.metrics.get(name).copied().filter(|&value| value > 0);
    if run.live_pages > 0 && run.nodes > 0 {
        put("nodes".into(), run.nodes as f64);
        let parts = metric("node_parts").unwrap_or(run.nodes);
        put("nodes_per_page".into(), parts as f64 / run.live_pages as f64);
    }
    if run.space_amplification > 0.0 {
        put("page_fill_percent".into(), 100.0 / run.space_amplification);
    }
    for name in ["splits", "merges"] {
        put(name.into(), metric(name).unwrap_or(0) as f64);
    }
}

/// The accesses of the index to its store, as papers with an FTL below count them: pages read and written
/// for the user's operations and for the cache, but not by the FTL for itself.
fn of_tree(phase: &Phase, chip: &ChipFacts, put: &mut impl FnMut(String, f64)) {
    let name = &phase.name;
    let of = |cause: &str| phase.causes.get(cause).copied().unwrap_or_default();
    let (host, cache): (CauseCounts, CauseCounts) = (of("host"), of("cache_eviction"));
    let (reads, writes) = (host.page_reads + cache.page_reads, host.page_programs + cache.page_programs);
    let time_ns = reads * chip.page_read_ns + writes * chip.page_program_ns;
    let operations = phase.total.operations as f64;
    put(format!("{name}.tree_page_reads"), reads as f64);
    put(format!("{name}.tree_page_writes"), writes as f64);
    put(format!("{name}.tree_page_reads_per_op"), reads as f64 / operations);
    put(format!("{name}.tree_page_writes_per_op"), writes as f64 / operations);
    put(format!("{name}.tree_io_time_s"), time_ns as f64 / 1e9);
}

fn of_phase(phase: &Phase, chip: &ChipFacts, put: &mut impl FnMut(String, f64)) {
    let name = &phase.name;
    let total = &phase.total;
    let mut per_op = |prefix: &str, costs: &Costs| {
        let operations = costs.operations as f64;
        put(format!("{prefix}.operations"), operations);
        put(format!("{prefix}.page_reads_per_op"), costs.page_reads as f64 / operations);
        put(format!("{prefix}.page_programs_per_op"), costs.page_programs as f64 / operations);
        put(format!("{prefix}.block_erases_per_op"), costs.block_erases as f64 / operations);
        put(format!("{prefix}.flash_time_ms_per_op"), costs.flash_time_ns as f64 / operations / 1e6);
    };
    per_op(name, total);
    for (kind, costs) in phase.kinds.iter().filter(|(kind, _)| phase.kinds.len() > 1 && **kind != "sync") {
        per_op(&format!("{name}.{kind}"), costs);
    }
    let program_ns = total.page_programs * chip.page_program_ns;
    let erase_ns = total.block_erases * chip.block_erase_ns;
    let seconds = |ns: u64| ns as f64 / 1e9;
    put(format!("{name}.page_reads"), total.page_reads as f64);
    put(format!("{name}.page_programs"), total.page_programs as f64);
    put(format!("{name}.block_erases"), total.block_erases as f64);
    put(format!("{name}.flash_time_s"), seconds(total.flash_time_ns));
    put(format!("{name}.program_time_s"), seconds(program_ns));
    put(format!("{name}.erase_time_s"), seconds(erase_ns));
    put(format!("{name}.read_time_s"), seconds(total.flash_time_ns.saturating_sub(program_ns + erase_ns)));
    put(format!("{name}.energy_mj"), phase.energy_nj as f64 / 1e6);
    put(format!("{name}.collections"), phase.collections as f64);
    put(format!("{name}.live_pages"), phase.live_pages as f64);
    put(format!("{name}.blocks_used"), blocks_used(phase, chip) as f64);
    put(format!("{name}.blocks_filled"), phase.live_pages as f64 / f64::from(chip.pages_per_block));
    for (metric, &value) in &phase.metrics {
        put(format!("{name}.metrics.{metric}"), value as f64);
    }
    for (figure, of) in [("buffer_in_ram", "buffer_ram_bytes"), ("buffer_on_flash", "buffer_pages")] {
        put(format!("{name}.{figure}"), f64::from(phase.metrics.get(of).is_some_and(|&held| held > 0)));
    }
    let looked_up = phase.cache_hits + phase.cache_misses;
    if looked_up > 0 {
        put(format!("{name}.cache_hit_percent"), 100.0 * phase.cache_hits as f64 / looked_up as f64);
    }
    if let Some(moved) = phase.causes.get("garbage_collection") {
        put(format!("{name}.collection_programs"), moved.page_programs as f64);
    }
    if let Some(kept) = phase.causes.get("checkpoint") {
        put(format!("{name}.checkpoint_programs"), kept.page_programs as f64);
    }
}

/// Number of blocks that an index needs: those it reports, or else those that its live pages fill.
fn blocks_used(phase: &Phase, chip: &ChipFacts) -> u64 {
    let filled = || phase.live_pages.div_ceil(u64::from(chip.pages_per_block));
    phase.metrics.get("blocks_used").copied().unwrap_or_else(filled)
}

impl Sum {
    /// Merges the named phases into one. Returns `None` if one is missing.
    fn of(&self, phases: &[Phase]) -> Option<Phase> {
        let named = |name: &String| phases.iter().find(|phase| phase.name == *name);
        let parts: Vec<&Phase> = self.phases.iter().map(named).collect::<Option<_>>()?;
        let last = *parts.last()?;
        let mut sum = Phase {
            name: self.name.clone(),
            measured: true,
            live_pages: last.live_pages,
            metrics: last.metrics.clone(),
            ..Phase::default()
        };
        for part in parts {
            sum.total = sum.total.plus(&part.total);
            sum.patterns = match (sum.patterns, part.patterns) {
                (Some(so_far), Some(more)) => Some(so_far.plus(&more)),
                (so_far, more) => so_far.or(more),
            };
            sum.collections += part.collections;
            sum.cpu_ns += part.cpu_ns;
            sum.energy_nj += part.energy_nj;
            sum.cache_hits += part.cache_hits;
            sum.cache_misses += part.cache_misses;
            for (cause, counts) in &part.causes {
                let so_far = sum.causes.entry(cause).or_default();
                so_far.page_reads += counts.page_reads;
                so_far.page_programs += counts.page_programs;
                so_far.block_erases += counts.block_erases;
            }
        }
        Some(sum)
    }
}

/// Each figure over all runs that have it, without the `trimmed` lowest and highest.
pub(super) fn over_seeds(runs: &[BTreeMap<String, f64>], trimmed: usize) -> BTreeMap<String, Summary> {
    let names: BTreeSet<&String> = runs.iter().flat_map(BTreeMap::keys).collect();
    let sum_up = |name: &String| {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.get(name).copied()).collect();
        Summary::of(&stats::middle(&values, trimmed)).map(|summary| (name.clone(), summary))
    };
    names.into_iter().filter_map(sum_up).collect()
}
