//! The public counts for a terminal: a table for each page order, rows by trace and FTL.

use super::grid::{Side, grid_within};
use super::table::{chip_line, wrap};
use crate::summary::scale::show_count;
use nandex::Cause;
use nandex_lab::counts::{Counts, CountsPlan, PAGES};

/// Renders the counts for a terminal with `width` columns.
pub fn render(rows: &[Counts], seed: u64, width: usize) -> String {
    let intro = format!(
        "{}\nlogical pages used: 0 to {}; seed {seed}; a new device, its format not counted, a sync at the end counted",
        chip_line(&CountsPlan::chip_facts()),
        PAGES - 1
    );
    let mut out = wrap(&intro, width);
    for orders in rows.chunk_by(|a, b| a.page_order == b.page_order) {
        out += &format!("\npages of a block programmed in {} order\n\n", orders[0].page_order);
        out += &table(orders, width);
    }
    for Counts { trace, page_order, run } in rows {
        if let Some(error) = &run.error {
            out += &wrap(&format!("! {} on {trace}, {page_order} order: {error}", run.device), width);
        }
    }
    out + &wrap(
        "\nReads and programs by cause: the CSV has them, and how to draw the traces again stands in docs/replay.md.",
        width,
    )
}

fn table(rows: &[Counts], width: usize) -> String {
    let heads = [
        "trace\n",
        "ftl\n",
        "host\nwrites",
        "switch\nmerges",
        "partial\nmerges",
        "full\nmerges",
        "collec-\ntions",
        "page\nreads",
        "page\nprograms",
        "block\nerases",
        "programs by cause\n",
    ];
    let sides: Vec<Side> = (0..heads.len())
        .map(|i| match i {
            0 | 1 => Side::Left,
            _ if i == heads.len() - 1 => Side::Prose,
            _ => Side::Right,
        })
        .collect();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .enumerate()
        .map(|(i, row)| {
            let is_new = i == 0 || rows[i - 1].trace != row.trace;
            cells(row, if is_new { row.trace } else { "" })
        })
        .collect();
    grid_within(&heads.map(String::from), &sides, &cells, width)
}

fn cells(Counts { run, .. }: &Counts, trace: &str) -> Vec<String> {
    let counts = [
        run.host_page_writes,
        run.switch_merges,
        run.partial_merges,
        run.full_merges,
        run.collections,
        run.page_reads,
        run.page_programs,
        run.block_erases,
    ];
    let causes = Cause::COUNTED.iter().filter_map(|cause| {
        let programs = run.causes.get(cause.name())?.page_programs;
        (programs > 0).then(|| format!("{} {}", short(*cause), show_count(programs)))
    });
    let causes: Vec<String> = causes.collect();
    let mut cells = vec![trace.to_string(), run.device.clone()];
    cells.extend(counts.map(show_count));
    cells.push(causes.join(", "));
    cells
}

fn short(cause: Cause) -> &'static str {
    match cause {
        Cause::CacheEviction => "cache",
        Cause::GarbageCollection => "collection",
        Cause::WearLevelling => "levelling",
        other => other.name(),
    }
}
