//! The terminal's table: settings first, then the rows of each durability class, then the conclusion.
//!
//! Each class has two tables, costs per operation and the whole run, whose columns are dealt out to as many
//! blocks below each other as the width asks for; each block repeats the name of the index. Nothing depends
//! on colour: the best value of a class bears a star.

use super::grid::{GAP, Side, grid};
use crate::summary::conclusion::{ranked, ties};
use crate::summary::measure::{Group, Measure};
use crate::summary::over_ram::{self, Sets};
use crate::summary::scale::{Quantity, Scale, show, show_count};
use crate::summary::{Class, Row, Summary};
use nandex_lab::results::AS_NOR;
use nandex_lab::results::{ChipFacts, Results};
use nandex_lab::stats;
use std::fmt::Write as _;

/// Renders the results for a terminal with `width` columns.
pub fn render(results: &Results, width: usize) -> String {
    let summary = Summary::of(results);
    let mut out = wrap(&settings(results, &summary), width);
    for class in &summary.classes {
        out += &wrap(&format!("\n{} ({})", class.heading(), class.promise()), width);
        for columns in tables(&summary, class).iter().flat_map(|table| deal(table, class, width)) {
            out += "\n";
            out += &block(class, &columns);
        }
        for row in &class.rows {
            for (reason, failed) in row.failures() {
                let (index, storage, seeds) = (row.index, row.storage, seeds(&failed));
                out += &wrap(&format!("! {index} ({storage}), {seeds}, {reason}"), width);
            }
        }
    }
    out += &wrap(&notes(&summary), width);
    out + &wrap(&format!("\n{}", results.conclusion), width)
}

/// Number of rows that comparisons over several amounts of RAM show of each class.
const LEADING: usize = 5;

/// Renders comparisons over several amounts of RAM: first the best index for each RAM, then the leading
/// ones.
pub fn render_sets(sets: &Sets, width: usize) -> String {
    let mut out =
        sets.sets.first().map_or_else(String::new, |results| wrap(&chip_line(&results.chip), width));
    for wins in over_ram::wins(&sets.sets) {
        let heads = ["RAM", "index", "storage", "per operation", "as good", "p99.9", "RAM held"];
        let mut sides = [Side::Left; 7];
        [3, 5, 6].iter().for_each(|place| sides[*place] = Side::Right);
        let of_workload = sets.sets.iter().filter(|results| results.workload.name == wins.workload);
        let rows: Vec<Vec<String>> =
            of_workload.flat_map(|results| leading(results, &wins.durability)).collect();
        out += &wrap(&format!("\n{}, durability: {}", wins.workload, wins.durability), width);
        out += "\n";
        out += &grid(&heads.map(String::from), &sides, &rows);
    }
    for (index, reason) in never_finished(&sets.sets) {
        out += &wrap(&format!("! {index}: {reason}"), width);
    }
    out += &wrap(
        "\nThe leading five with each RAM; * best, = as good (within 2 %). Loads are handed over at once. Flash \
         time is simulated. --report shows all.",
        width,
    );
    out + &wrap(&format!("\n{}", sets.conclusion), width)
}

/// The indexes none of whose runs finished, each with the error of its last run.
fn never_finished(sets: &[Results]) -> Vec<(&str, &str)> {
    let mut failed: Vec<(&str, Option<&str>)> = Vec::new();
    for run in sets.iter().flat_map(|results| &results.runs) {
        match failed.iter_mut().find(|(index, _)| *index == run.index) {
            Some((_, error)) => *error = error.and(run.error.as_deref()),
            None => failed.push((&run.index, run.error.as_deref())),
        }
    }
    failed.into_iter().filter_map(|(index, error)| Some((index, error?))).collect()
}

fn leading(results: &Results, durability: &str) -> Vec<Vec<String>> {
    let summary = Summary::of(results);
    let Some(class) = summary.classes.iter().find(|class| class.durability == durability) else {
        return Vec::new();
    };
    let rows = ranked(class);
    let equal = ties(&rows);
    let time = |value: Option<stats::Summary>| {
        value.map_or_else(|| "-".to_string(), |s| show(Quantity::Time, s.mean))
    };
    let row = |(place, (row, mean)): (usize, &(&Row<'_>, stats::Summary))| {
        let mark = match place {
            0 => "*",
            _ if equal.iter().any(|other| std::ptr::eq(*other, *row)) => "=",
            _ => "",
        };
        let held = row.value(Measure::Ram).map_or_else(String::new, |s| show(Quantity::Bytes, s.mean));
        vec![
            if place == 0 { ram(results.workload.ram_bytes) } else { String::new() },
            row.index.to_string(),
            row.storage.to_string(),
            show(Quantity::Time, mean.mean),
            mark.to_string(),
            time(row.value(Measure::Permille(999))),
            held,
        ]
    };
    rows.iter().take(LEADING).enumerate().map(row).collect()
}

struct Column {
    heading: [String; 2],
    cells: Vec<String>,
    side: Side,
}

impl Column {
    fn text(heading: &str, cells: Vec<String>) -> Column {
        Column { heading: [heading.to_string(), String::new()], cells, side: Side::Left }
    }

    fn figures(summary: &Summary<'_>, class: &Class<'_>, measure: Measure) -> Column {
        let scale = summary.scale(measure);
        let star = |row: &Row<'_>| if class.is_best(row, measure) { "*" } else { " " };
        let cell = |row: &Row<'_>| match row.value(measure) {
            Some(value) => scale.number(value.mean) + star(row),
            None => "- ".to_string(),
        };
        let unit = unit(measure, scale);
        let cells = class.finished().map(cell).collect();
        let (first, second) = match measure.heading().split_once(' ') {
            Some(halves) if unit.is_empty() => halves,
            _ => (measure.heading(), unit.as_str()),
        };
        // The blank under the star keeps heading and figures in line.
        let heading = [format!("{first} "), format!("{second} ")];
        Column { heading, cells, side: Side::Right }
    }

    /// Half the width of the interval over the seeds, in percent of the mean.
    fn interval(class: &Class<'_>) -> Column {
        let cell = |row: &Row<'_>| match row.value(Measure::MeanTime) {
            Some(stats::Summary { mean, ci95: Some(half), .. }) if mean > 0.0 => {
                format!("{:.1} ", half * 100.0 / mean)
            }
            _ => "- ".to_string(),
        };
        let heading = ["mean ".to_string(), "\u{b1}% ".to_string()];
        Column { heading, cells: class.finished().map(cell).collect(), side: Side::Right }
    }

    fn width(&self) -> usize {
        self.heading.iter().chain(&self.cells).map(|s| s.chars().count()).max().unwrap_or(0)
    }
}

/// The unit of a column, for the second line of its heading.
pub(super) fn unit(measure: Measure, scale: Scale) -> String {
    match (scale.unit, measure.is_per_operation()) {
        (unit, true) => format!("{unit}/op"),
        (unit, false) => unit.to_string(),
    }
}

/// The columns of the two tables of a class: costs per operation, and the whole run. Both are empty if no
/// run finished.
fn tables(summary: &Summary<'_>, class: &Class<'_>) -> [Vec<Column>; 2] {
    if class.finished().next().is_none() {
        return [Vec::new(), Vec::new()];
    }
    let mut first = vec![Column::text("storage", class.finished().map(|r| r.storage.to_string()).collect())];
    let mut second = Vec::new();
    for &measure in &summary.measures {
        let column = Column::figures(summary, class, measure);
        match measure.group() {
            Group::Operations | Group::Time => first.push(column),
            Group::Run | Group::End | Group::Processor => second.push(column),
        }
        if measure == Measure::MeanTime && summary.seeds.len() > 1 {
            first.push(Column::interval(class));
        }
    }
    [first, second]
}

/// Distributes the columns to blocks no wider than the terminal. Each block starts with the names of the
/// indexes.
fn deal<'c>(columns: &'c [Column], class: &Class<'_>, width: usize) -> Vec<Vec<&'c Column>> {
    let names = class.finished().map(|r| r.index.chars().count()).max().unwrap_or(0).max("index".len());
    let mut blocks: Vec<Vec<&Column>> = Vec::new();
    let mut used = names;
    for column in columns {
        let needs = GAP + column.width();
        match blocks.last_mut() {
            Some(block) if used + needs <= width => block.push(column),
            _ => {
                blocks.push(vec![column]);
                used = names;
            }
        }
        used += needs;
    }
    blocks
}

fn block(class: &Class<'_>, columns: &[&Column]) -> String {
    let names = Column::text("index", class.finished().map(|r| r.index.to_string()).collect());
    let all: Vec<&Column> = std::iter::once(&names).chain(columns.iter().copied()).collect();
    let headings: Vec<String> = all.iter().map(|c| c.heading.join("\n")).collect();
    let sides: Vec<Side> = all.iter().map(|c| c.side).collect();
    let row = |i: usize| all.iter().map(|c| c.cells[i].clone()).collect();
    grid(&headings, &sides, &(0..names.cells.len()).map(row).collect::<Vec<_>>())
}

fn settings(results: &Results, summary: &Summary<'_>) -> String {
    let workload = &results.workload;
    let mut out = chip_line(&results.chip) + "\n";
    let _ = write!(
        out,
        "workload {}: {} operations, keys of {} bytes, values of {}; {}; durability {}; {}",
        workload.name,
        show_count(workload.operations),
        workload.key_bytes,
        workload.bytes_of_values(),
        ram(workload.ram_bytes),
        workload.durability,
        seeds(&summary.seeds),
    );
    for (key, value) in &workload.options {
        let _ = write!(out, "; {key}={value}");
    }
    out
}

pub(super) fn chip_line(chip: &ChipFacts) -> String {
    let time = |ns: u64| show(Quantity::Time, ns as f64);
    format!(
        "chip {}: {} blocks of {} pages of {} + {} bytes; read {}, program {}, erase {}",
        chip.name,
        show_count(chip.blocks.into()),
        chip.pages_per_block,
        chip.page_bytes,
        chip.spare_bytes,
        time(chip.page_read_ns),
        time(chip.page_program_ns),
        time(chip.block_erase_ns),
    )
}

/// The words for the RAM of each index.
pub(super) fn ram(bytes: Option<u64>) -> String {
    match bytes {
        Some(bytes) => format!("RAM {}", show(Quantity::Bytes, bytes as f64)),
        None => "no cache".to_string(),
    }
}

/// The words for the seeds; consecutive seeds become a range.
pub(super) fn seeds(seeds: &[u64]) -> String {
    match seeds {
        [] => "no seed".to_string(),
        [one] => format!("seed {one}"),
        [first, .., last] if last - first == seeds.len() as u64 - 1 => format!("seeds {first} to {last}"),
        _ => format!("seeds {}", seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

fn notes(summary: &Summary<'_>) -> String {
    let kinds: Vec<&str> =
        summary.measures.iter().filter(|m| m.group() == Group::Time).map(|m| m.heading()).collect();
    let mut out = format!(
        "\n* best of its durability class. {}: flash time, simulated. CPU time: of the simulating processor, \
         in none of the other figures.",
        kinds.join(", ")
    );
    if summary.seeds.len() > 1 {
        let n = summary.seeds.len();
        let _ = write!(out, " Figures are means of {n} seeds; \u{b1}%: their 95 % interval.");
    }
    if summary.rows().any(|row| row.storage.ends_with(AS_NOR)) {
        out += " As NOR: the same chip, were its pages programmed any number of times, each clearing bits; not ranked.";
    }
    if summary.classes.len() > 1 {
        out += " Classes promise different things after a power cut: compare within a class only.";
    }
    out
}

/// Breaks lines at blanks so that none is longer than the terminal unless a word is. A number stays with
/// its unit.
pub(super) fn wrap(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut used = 0;
        for word in words(line) {
            let length = word.chars().count();
            if used > 0 && used + 1 + length > width {
                out += "\n  ";
                used = 2;
            } else if used > 0 {
                out.push(' ');
                used += 1;
            }
            out += &word;
            used += length;
        }
        out.push('\n');
    }
    out
}

fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        let is_number = |w: &String| w.ends_with(|c: char| c.is_ascii_digit());
        match words.last_mut().filter(|last| is_number(last)) {
            Some(number) => *number += &format!(" {word}"),
            None => words.push(word.to_string()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex_lab::sample;

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [60, 80, 100, 120, 200] {
            for line in render(&sample::results(), width).lines() {
                assert!(line.chars().count() <= width, "{} > {width}: {line}", line.chars().count());
            }
        }
    }

    #[test]
    fn the_table_looks_like_this() {
        let text = render(&sample::results(), 120);
        let start = text.find("Durability: every operation").unwrap();
        let end = start + text[start..].find("\n\nindex            flash time").unwrap();
        assert_eq!(
            &text[start..end],
            "\
Durability: every operation (an acknowledged operation survives a power cut)

index            storage  reads   programs   erases      get   insert   remove    mean   mean   slowest
                            /op        /op      /op    \u{b5}s/op    ms/op    ms/op   ms/op     \u{b1}%        ms
--------------------------------------------------------------------------------------------------------
mu-tree          raw       2.00*      0.67*  0.0052*    0.17*    1.41*    1.41*   0.94*   0.1      31.0
bplus-wandering  raw       3.67       2.67   0.0208   496.97     4.33     4.33    3.05    0.0      31.0"
        );
    }

    #[test]
    fn the_settings_come_first_and_the_conclusion_last() {
        let results = sample::results();
        let text = render(&results, 400);
        assert!(text.starts_with("chip mlc-4k-64: 128 blocks of 128 pages"), "{text}");
        assert!(text.trim_end().ends_with(&results.conclusion));
    }

    #[test]
    fn a_failure_is_told_once_with_its_seeds() {
        let text = render(&sample::results(), 200);
        let told: Vec<&str> = text.lines().filter(|l| l.starts_with('!')).collect();
        let reason = "needs 128 KiB of RAM for its <journal> & cache, 64 KiB were given";
        assert_eq!(told, [format!("! jffs3 (raw), seeds 1 to 2, could not run: {reason}")]);
    }

    #[test]
    fn over_several_workloads_only_what_never_finished_is_told() {
        let told = |sets: Vec<Results>| -> Vec<String> {
            let text = render_sets(&Sets::of(String::new(), sets), 200);
            text.lines().filter(|l| l.starts_with('!')).map(String::from).collect()
        };
        let reason = "needs 128 KiB of RAM for its <journal> & cache, 64 KiB were given";
        assert_eq!(told(vec![sample::results(); 2]), [format!("! jffs3: {reason}")]);
        let mut roomy = sample::results();
        roomy.runs.iter_mut().for_each(|run| run.error = None);
        assert!(told(vec![sample::results(), roomy]).is_empty());
    }

    #[test]
    fn a_class_of_one_has_no_best() {
        let mut results = sample::results();
        results.runs.retain(|r| r.index == "bplus");
        let text = render(&results, 120);
        let row = text.lines().find(|l| l.starts_with("bplus")).unwrap();
        assert!(!row.contains('*'), "{row}");
    }
}
