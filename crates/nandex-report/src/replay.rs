//! A replay for a terminal: the settings, then tables of work, latency, and wear and RAM, with a row for each
//! device.

use super::grid::{Side, grid};
use super::table::{chip_line, wrap};
use crate::summary::scale::{Quantity, Scale, show, show_count};
use nandex_lab::replay::{Latencies, ReplayResults, ReplayRun};
use nandex_lab::tbm::Division;
use std::fmt::Write as _;

/// Renders the results for a terminal with `width` columns.
pub fn render(results: &ReplayResults, width: usize) -> String {
    let mut out = wrap(&settings(results), width);
    let runs: Vec<&ReplayRun> = results.runs.iter().filter(|r| r.requests > 0).collect();
    if !runs.is_empty() {
        let tables =
            [work(&runs), cleaning(&runs), converter(&runs), latency(&runs), response(&runs), wear(&runs)];
        for table in tables.iter().filter(|table| !table.is_empty()) {
            out += "\n";
            out += table;
        }
    }
    for run in &results.runs {
        if let Some(error) = &run.error {
            out += &wrap(&format!("! {}, after {} requests: {error}", run.device, run.requests), width);
        }
    }
    for note in notes(results) {
        out += &wrap(&format!("\n{note}"), width);
    }
    out
}

fn settings(results: &ReplayResults) -> String {
    let mut out = chip_line(&results.chip);
    let _ = writeln!(
        out,
        "; pages of a block {}",
        if results.random_page_order { "in any order" } else { "in ascending order" }
    );
    for line in facts(results) {
        let _ = writeln!(out, "{line}");
    }
    out.trim_end().to_string()
}

/// The trace, its layout and the fill in words, one line each.
pub(super) fn facts(results: &ReplayResults) -> Vec<String> {
    let trace = &results.trace;
    let bytes = |n: u64| show(Quantity::Bytes, n as f64);
    let mut first = format!(
        "trace {} ({}): {} reads of {}, {} writes of {}",
        trace.name,
        trace.format,
        show_count(trace.read_requests),
        bytes(trace.read_bytes),
        show_count(trace.write_requests),
        bytes(trace.written_bytes),
    );
    if trace.trim_requests > 0 {
        let _ = write!(first, ", {} trims", show_count(trace.trim_requests));
    }
    if let Some(ns) = trace.duration_ns {
        let _ = write!(first, ", within {}", show(Quantity::Time, ns as f64));
    }
    if trace.devices > 1 {
        let _ = write!(first, ", {} devices", trace.devices);
    }
    if trace.other_lines > 0 {
        let _ = write!(first, "; {} lines hold no request", show_count(trace.other_lines));
    }
    if trace.late_requests > 0 {
        let _ = write!(first, "; {} requests were put in order of time", show_count(trace.late_requests));
    }
    let mut lines = vec![first, layout(results), fill(results)];
    lines.extend(divisions(results));
    lines
}

/// The different divisions of the chip, one line each.
fn divisions(results: &ReplayResults) -> Vec<String> {
    let divided = |run: &ReplayRun| Some((run.division?, run.device.clone()));
    let mut ways: Vec<(Division, Vec<String>)> = Vec::new();
    for (division, device) in results.runs.iter().filter_map(divided) {
        match ways.iter_mut().find(|(way, _)| *way == division) {
            Some((_, devices)) => devices.push(device),
            None => ways.push((division, vec![device])),
        }
    }
    ways.iter().map(|(division, devices)| format!("{}: {}", devices.join(", "), division.words())).collect()
}

fn layout(results: &ReplayResults) -> String {
    let mut out = format!(
        "layout {}: {} extents of {} on {} of {} logical pages",
        results.placing,
        show_count(results.extents),
        if results.extent_pages == 1 { "a page" } else { "an erase block" },
        show_count(results.pages_used),
        show_count(results.pages),
    );
    if results.folded_extents > 0 {
        let folded = show_count(results.folded_extents);
        let _ = write!(out, "; for want of room {folded} of them share the place of another");
    }
    out
}

fn fill(results: &ReplayResults) -> String {
    let mut out = match results.fill.as_str() {
        "all" => String::from("before: every logical page written once, ascending, not counted"),
        "touched" => String::from("before: every page of those extents written once, ascending, not counted"),
        _ => String::from("before: nothing written"),
    };
    if let Some(ram) = results.ram_bytes {
        let _ = write!(out, "; RAM {}", show(Quantity::Bytes, ram as f64));
    }
    for (name, value) in &results.options {
        let _ = write!(out, "; {name}={value}");
    }
    out
}

/// The notes that readers of the figures need.
pub(super) fn notes(results: &ReplayResults) -> Vec<String> {
    let mut notes = Vec::new();
    let partial = results.runs.iter().map(|r| r.partial_page_writes).max().unwrap_or(0);
    if partial > 0 {
        notes.push(format!(
            "{} writes of part of a page were made whole: the page was read first, which counts as a read.",
            show_count(partial)
        ));
    }
    let of_clock = |clock: &str| -> Vec<&str> {
        results.runs.iter().filter(|r| r.clock == clock).map(|r| r.device.as_str()).collect()
    };
    notes.push(String::from(
        "Latency: the time a device works for a request, collections and merges included; nothing overlaps. Response: the \
         wait for earlier requests added, which come when the trace says and are served one at a time.",
    ));
    let (simulated, wall) = (of_clock("simulated"), of_clock("wall clock"));
    if !wall.is_empty() {
        let others = if simulated.is_empty() {
            String::new()
        } else {
            format!("; {}: simulated", simulated.join(", "))
        };
        notes.push(format!("Times of {} are of the WALL CLOCK on this machine{others}.", wall.join(", ")));
    }
    notes.extend(results.runs.iter().flat_map(|r| r.notes.iter().cloned()));
    notes
}

/// A column: the two lines of its heading, and a cell for each run.
struct Column(&'static str, String, Vec<String>);

fn table(runs: &[&ReplayRun], columns: Vec<Column>) -> String {
    let mut headings = vec![String::from("device\n")];
    let mut sides = vec![Side::Left];
    let mut rows: Vec<Vec<String>> = runs.iter().map(|r| vec![r.device.clone()]).collect();
    for Column(heading, unit, cells) in columns {
        headings.push(format!("{heading}\n{unit}"));
        sides.push(Side::Right);
        rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
    }
    grid(&headings, &sides, &rows)
}

fn counts(runs: &[&ReplayRun], heading: &'static str, unit: &str, of: fn(&ReplayRun) -> u64) -> Column {
    Column(heading, unit.to_string(), runs.iter().map(|r| show_count(of(r))).collect())
}

/// A column of counts of the chip; a device without a chip has a dash.
fn chip_counts(runs: &[&ReplayRun], heading: &'static str, unit: &str, of: fn(&ReplayRun) -> u64) -> Column {
    let cell = |r: &&ReplayRun| if r.has_chip { show_count(of(r)) } else { "-".to_string() };
    Column(heading, unit.to_string(), runs.iter().map(cell).collect())
}

fn scaled(
    runs: &[&ReplayRun],
    heading: &'static str,
    quantity: Quantity,
    of: impl Fn(&ReplayRun) -> Option<f64>,
) -> Column {
    let scale = Scale::of(quantity, runs.iter().filter_map(|r| of(r)));
    let cell = |r: &&ReplayRun| of(r).map_or("-".to_string(), |value| scale.number(value));
    Column(heading, scale.unit.to_string(), runs.iter().map(cell).collect())
}

fn work(runs: &[&ReplayRun]) -> String {
    let columns = vec![
        counts(runs, "host", "reads", |r| r.host_page_reads),
        counts(runs, "host", "writes", |r| r.host_page_writes),
        chip_counts(runs, "page", "reads", |r| r.page_reads),
        chip_counts(runs, "page", "programs", |r| r.page_programs),
        chip_counts(runs, "block", "erases", |r| r.block_erases),
        scaled(runs, "write ampl.", Quantity::Number, |r| r.has_chip.then_some(r.write_amplification)),
        scaled(runs, "device time", Quantity::Time, |r| Some(r.device_time_ns as f64)),
    ];
    table(runs, columns)
}

fn cleaning(runs: &[&ReplayRun]) -> String {
    let columns = vec![
        chip_counts(runs, "switch", "merges", |r| r.switch_merges),
        chip_counts(runs, "partial", "merges", |r| r.partial_merges),
        chip_counts(runs, "full", "merges", |r| r.full_merges),
        chip_counts(runs, "collections", "", |r| r.collections),
        chip_counts(runs, "moved", "pages", |r| r.moved_pages),
        chip_counts(runs, "programs by", "host", |r| programs(r, "host")),
        chip_counts(runs, "", "collection", |r| programs(r, "garbage_collection")),
        chip_counts(runs, "", "merge", |r| programs(r, "merge")),
        chip_counts(runs, "", "mapping", |r| programs(r, "mapping")),
        chip_counts(runs, "", "other", |r| {
            let named = ["host", "garbage_collection", "merge", "mapping"];
            r.page_programs - named.iter().map(|cause| programs(r, cause)).sum::<u64>()
        }),
    ];
    table(runs, columns)
}

/// The table of the converter; empty if no FTL has a TBM in front.
fn converter(runs: &[&ReplayRun]) -> String {
    let runs: Vec<&ReplayRun> = runs.iter().copied().filter(|run| run.division.is_some()).collect();
    if runs.is_empty() {
        return String::new();
    }
    let pages_of_each =
        |r: &ReplayRun| (r.conversions > 0).then(|| r.converted_pages as f64 / r.conversions as f64);
    let columns = vec![
        counts(&runs, "blocks", "converted", |r| r.conversions),
        counts(&runs, "pages", "converted", |r| r.converted_pages),
        counts(&runs, "pages", "dropped", |r| r.dropped_pages),
        scaled(&runs, "pages of a conversion", Quantity::Number, pages_of_each),
    ];
    table(&runs, columns)
}

fn programs(run: &ReplayRun, cause: &str) -> u64 {
    run.causes.get(cause).map_or(0, |c| c.page_programs)
}

fn latency(runs: &[&ReplayRun]) -> String {
    let of = |heading, pick: fn(&Latencies) -> u64| {
        scaled(runs, heading, Quantity::Time, move |r| Some(pick(&r.latency) as f64))
    };
    let columns = vec![
        of("latency mean", |l| l.mean_ns),
        of("p50", |l| l.p50_ns),
        of("p99", |l| l.p99_ns),
        of("p99.9", |l| l.p999_ns),
        of("max", |l| l.max_ns),
    ];
    table(runs, columns)
}

/// The table of response times; empty if the trace has no times.
fn response(runs: &[&ReplayRun]) -> String {
    if runs.iter().all(|r| r.response.is_none()) {
        return String::new();
    }
    let of = |heading, pick: fn(&Latencies) -> u64| {
        scaled(runs, heading, Quantity::Time, move |r| r.response.as_ref().map(|l| pick(l) as f64))
    };
    let columns = vec![
        of("response mean", |l| l.mean_ns),
        of("p50", |l| l.p50_ns),
        of("p99", |l| l.p99_ns),
        of("p99.9", |l| l.p999_ns),
        of("max", |l| l.max_ns),
    ];
    table(runs, columns)
}

fn wear(runs: &[&ReplayRun]) -> String {
    let chip = |r: &ReplayRun, value: f64| r.has_chip.then_some(value);
    let columns = vec![
        chip_counts(runs, "erases of a", "block, min", |r| r.wear.min_erases.into()),
        scaled(runs, "mean", Quantity::Number, move |r| chip(r, r.wear.mean_erases)),
        chip_counts(runs, "max", "", |r| r.wear.max_erases.into()),
        scaled(runs, "deviation", Quantity::Number, move |r| chip(r, r.wear.deviation_erases)),
        chip_counts(runs, "bad", "blocks", |r| r.bad_blocks),
        scaled(runs, "mapping RAM", Quantity::Bytes, move |r| chip(r, r.mapping_bytes as f64)),
        scaled(runs, "RAM in all", Quantity::Bytes, move |r| chip(r, r.ram_bytes as f64)),
    ];
    table(runs, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::nand::{Geometry, catalogue};
    use nandex_lab::block_trace::place::Placing;
    use nandex_lab::block_trace::{BlockOp, BlockTrace, Request};
    use nandex_lab::replay::{Device, Fill, Replay};
    use nandex_lab::runner::Control;
    use nandex_lab::tbm;
    use nandex_stacks::options::Options;

    #[test]
    fn a_buffer_in_front_of_an_ftl_says_how_it_divides_the_chip() {
        let mut part = catalogue::mlc_64m();
        part.geometry = Geometry::new(512, 64, 16, 64);
        let request = |page: u64| Request {
            op: BlockOp::Write,
            device: 0,
            offset_bytes: page * 512,
            bytes: 512,
            time_ns: 0,
        };
        let trace = BlockTrace {
            name: "test".to_string(),
            devices: vec![String::new()],
            requests: (0..40).map(|i| request(i % 4)).collect(),
            ..BlockTrace::default()
        };
        let mut replay = Replay {
            part,
            trace,
            trace_file: "test.csv".to_string(),
            devices: vec![Device::Ftl(tbm::find("tbm+page-map").unwrap())],
            placing: Placing::Compact,
            fill: Fill::None,
            ram_bytes: None,
            options: Options::default(),
            threads: 1,
            command: String::new(),
        };
        replay.options.set("tbm_blocks", "2");
        let results = replay.run(&Control::default()).unwrap();
        let text = render(&results, 200);
        assert!(text.contains("tbm+page-map: the first 60 blocks of the chip are the FTL's"), "{text}");
        assert!(text.contains("pages of a conversion"), "{text}");
    }
}
