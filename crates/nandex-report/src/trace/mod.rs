//! Statistics of a trace: lines for a terminal and a page with plots.

mod page;
mod svg;

pub use page::page;

use crate::grid::{Side, grid};
use nandex_lab::trace::stats::{Phase, TraceStats};
use std::fmt::Write as _;

/// Renders the statistics as text.
pub fn render(stats: &TraceStats) -> String {
    let mut out = format!("{}: {}\n\n", stats.name, sentence(stats));
    let kinds: Vec<Vec<String>> = stats
        .kinds
        .iter()
        .map(|(kind, count)| {
            vec![(*kind).to_string(), count.to_string(), percent(share(*count, stats.operations))]
        })
        .collect();
    out += &table(&["operation", "count", "share"], &kinds);
    if stats.trees.len() > 1 {
        let trees = stats.trees.iter().map(|(number, tree)| {
            let numbers = [tree.operations, tree.records_max, tree.records_end, tree.key_min, tree.key_max];
            std::iter::once(number.to_string()).chain(numbers.map(|n| n.to_string())).collect()
        });
        let heads = ["index", "operations", "most records", "at the end", "smallest key", "largest key"];
        out += &table(&heads, &trees.collect::<Vec<_>>());
    }
    let first = |(share, of): &(f64, f64)| vec![percent(*share), percent(*of)];
    out +=
        &table(&["of the keys", "have of the operations"], &stats.skew.iter().map(first).collect::<Vec<_>>());
    let near = |(ranks, of): &(u64, f64)| vec![ranks.to_string(), percent(*of)];
    out += &table(
        &["ranks from the key before, at most", "of the operations"],
        &stats.nearness.iter().map(near).collect::<Vec<_>>(),
    );
    let reuse = stats.reuse.iter().filter(|(size, _)| size.trailing_zeros() % 2 == 0).map(near);
    out += &table(&["keys used last that a cache keeps", "hits"], &reuse.collect::<Vec<_>>());
    let phase = |phase: &Phase| vec![phase.first.to_string(), phase.operations.to_string(), mix(phase)];
    let phases: Vec<Vec<String>> = stats.phases.iter().map(phase).collect();
    let sides = [Side::Right, Side::Right, Side::Left];
    let heads = ["phase from operation", "operations", "mix"].map(String::from);
    out += &grid(&heads, &sides, &phases);
    out
}

/// The trace in one sentence.
pub fn sentence(stats: &TraceStats) -> String {
    let mut text = format!(
        "{} operations on {} keys in {}, {} records before it",
        stats.operations,
        stats.distinct_keys,
        match stats.trees.len() {
            1 => "one index".to_string(),
            count => format!("{count} indexes"),
        },
        stats.records_before,
    );
    if let Some((_, of)) = stats.skew.iter().find(|(share, _)| *share == 0.01) {
        let _ = write!(text, "; 1 % of the keys have {} of the operations", percent(*of));
    }
    if let Some(exponent) = stats.zipf_exponent {
        let _ = write!(text, " (Zipf {exponent:.2})");
    }
    if stats.contradictions > 0 {
        let _ = write!(text, "; {} operations contradict those before them", stats.contradictions);
    }
    text
}

fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_string()).collect();
    let sides: Vec<Side> =
        (0..heads.len()).map(|at| if at == 0 { Side::Left } else { Side::Right }).collect();
    grid(&heads, &sides, rows) + "\n"
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_string(),
        small if small < 1.0 => format!("{small:.2} %"),
        other => format!("{other:.1} %"),
    }
}

fn mix(phase: &Phase) -> String {
    let mut kinds: Vec<(&&str, &f64)> = phase.shares.iter().filter(|(_, share)| **share >= 0.005).collect();
    kinds.sort_by(|a, b| b.1.total_cmp(a.1));
    let words: Vec<String> =
        kinds.iter().map(|(kind, share)| format!("{kind} {}", percent(**share))).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex_lab::trace::{Trace, text};

    fn stats() -> TraceStats {
        let lines: Vec<String> =
            (0..900).map(|i| format!("{} {}", if i < 300 { "insert" } else { "hit" }, i % 300)).collect();
        let records = text::read(lines.join("\n").as_bytes(), u64::MAX).unwrap();
        TraceStats::of(&Trace { name: "a<b".into(), init: Vec::new(), records })
    }

    #[test]
    fn text_and_page_say_the_same() {
        let stats = stats();
        let text = render(&stats);
        assert!(
            text.starts_with("a<b: 900 operations on 300 keys in one index, 0 records before it"),
            "{text}"
        );
        assert!(text.contains("insert 100.0 %") && text.contains("hit 100.0 %"), "{text}");
        let page = page(&stats);
        let document = scraper::Html::parse_document(&page);
        let count = |selector: &str| document.select(&scraper::Selector::parse(selector).unwrap()).count();
        assert_eq!((count("svg"), count("h1"), count("script")), (4, 1, 0));
        assert!(page.contains("a&lt;b") && !page.contains("a<b") && page.len() < 120_000, "{}", page.len());
        assert!(!page.contains("NaN"));
    }

    #[test]
    fn an_empty_trace_has_a_page() {
        assert!(!page(&TraceStats::default()).contains("NaN"));
    }
}
