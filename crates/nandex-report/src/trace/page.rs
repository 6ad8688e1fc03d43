//! The page of a trace: four plots, all in one small file without scripts.

use super::svg::{self, Axes};
use super::{mix, percent, sentence};
use nandex_lab::trace::stats::TraceStats;
use std::fmt::Write as _;

/// Colours of the kinds of operations, for light and for dark pages.
const COLOURS: [(&str, &str); 8] = [
    ("#0067b1", "#4da6e8"),
    ("#d55e00", "#ff8b47"),
    ("#00875f", "#35c495"),
    ("#b4478f", "#e58cc6"),
    ("#b98200", "#f0bd3f"),
    ("#3f9fd8", "#9bd4f7"),
    ("#6a51a3", "#b09ae6"),
    ("#7a6a58", "#c3b19c"),
];

const STYLE: &str = "
body { margin: 0 auto; max-width: 1180px; padding: 16px 20px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 Inter, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif; }
h1 { font-size: 26px; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 8px 0 2px; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(480px, 100%), 1fr)); gap: 18px; }
.plots > div { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 8px 12px; }
p { color: var(--muted); margin: 2px 0 8px; max-width: 90ch; } .lead { font-size: 17px; color: var(--ink); }
svg { width: 100%; height: auto; } svg text { fill: var(--muted); font-size: 12px; } svg .axis { fill: var(--ink); }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; } .rule { stroke: var(--line); }
.curve { fill: none; stroke: var(--k0); stroke-width: 2; } .dot { fill: var(--k0); }
.key { display: inline-block; margin-right: 12px; } .key i { display: inline-block; width: 11px; height: 11px;
  border-radius: 3px; margin-right: 5px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; } td, th { padding: 3px 12px 3px 0; text-align: left; }
";

/// Renders the statistics as an HTML page.
pub fn page(stats: &TraceStats) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{name}</title><style>{}{STYLE}</style><h1>{name}</h1>\
         <p class=\"lead\">{}.</p><div class=\"plots\">",
        colours(),
        escaped(&sentence(stats)),
        name = escaped(&stats.name)
    );
    let kinds: Vec<&str> = stats.kinds.keys().copied().collect();
    let plots = [
        ("What is done", keys_of(&kinds), operations(stats, &kinds)),
        ("Which keys", "<p>Keys from the smallest up; dark is often.</p>".to_string(), keys(stats)),
        (
            "How unevenly",
            "<p>Of the keys asked for most, their share of the operations.</p>".into(),
            skew(stats),
        ),
        (
            "How soon again",
            "<p>What a cache hits that keeps so many keys, those used last.</p>".to_string(),
            reuse(stats),
        ),
    ];
    for (title, words, plot) in plots {
        let _ = write!(out, "<div><h2>{title}</h2>{words}{plot}</div>");
    }
    out.push_str(
        "</div><h2>Phases</h2><div class=\"scroll\"><table><tr><th>from operation<th>operations<th>mix",
    );
    for phase in &stats.phases {
        let _ = write!(out, "<tr><td>{}<td>{}<td>{}", phase.first, phase.operations, mix(phase));
    }
    let near: Vec<String> =
        stats.nearness.iter().map(|(ranks, of)| format!("{} within {ranks}", percent(*of))).collect();
    let _ = write!(
        out,
        "</table></div><h2>How near</h2><p>Ranks between the key of an operation and the one before it: {}.</p>",
        near.join(", ")
    );
    out.push('\n');
    out
}

fn colours() -> String {
    let list = |colours: &dyn Fn(usize) -> &'static str| {
        (0..COLOURS.len()).fold(String::new(), |text, at| text + &format!("--k{at}: {}; ", colours(at)))
    };
    let light = "color-scheme: light dark; --paper: #fcfcfb; --card: #fff; --ink: #1b1f24; --muted: #5c6570; --line: #e3e6ea; ";
    let dark = "--paper: #14171b; --card: #1a1e23; --ink: #e8ebee; --muted: #a0a9b3; --line: #2b3138; ";
    let mut out = format!(
        ":root {{ {light}{} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}{} }} }}\n",
        list(&|at| COLOURS[at].0),
        list(&|at| COLOURS[at].1)
    );
    for at in 0..COLOURS.len() {
        let _ = write!(out, ".k{at} {{ fill: var(--k{at}); background: var(--k{at}); }} ");
        let _ = writeln!(out, ".d{at} {{ fill: var(--k0); opacity: {:.2}; }}", 0.16 + 0.12 * at as f64);
    }
    out
}

fn keys_of(kinds: &[&str]) -> String {
    let key = |(at, kind): (usize, &&str)| {
        format!("<span class=\"key\"><i class=\"k{}\"></i>{kind}</span>", at % COLOURS.len())
    };
    kinds.iter().enumerate().map(key).collect()
}

fn time(stats: &TraceStats) -> Vec<(f64, String)> {
    [0.0, 0.5, 1.0].map(|at| (at, format!("{:.0}", stats.operations as f64 * at))).to_vec()
}

fn operations(stats: &TraceStats, kinds: &[&str]) -> String {
    let column = |shares: &std::collections::BTreeMap<&'static str, f64>| {
        let share =
            |(at, kind): (usize, &&str)| (at % COLOURS.len(), shares.get(kind).copied().unwrap_or(0.0));
        kinds.iter().enumerate().map(share).collect::<Vec<_>>()
    };
    let columns: Vec<_> = stats.slices.iter().map(|slice| column(&slice.shares)).collect();
    let axes = Axes { title: "Kinds of operations over time", x: "operation", y: "", marks: time(stats) };
    svg::stacked(&axes, &columns)
}

fn keys(stats: &TraceStats) -> String {
    let axes = Axes { title: "Keys over time", x: "operation", y: "rank of the key", marks: time(stats) };
    svg::dots(&axes, &stats.picture)
}

fn skew(stats: &TraceStats) -> String {
    // From a thousandth to all, on a logarithmic scale.
    let place = |share: f64| (share.log10() + 3.0) / 3.0;
    let points: Vec<(f64, f64)> = stats.skew.iter().map(|(share, of)| (place(*share), *of)).collect();
    let marks = [0.001, 0.01, 0.1, 1.0].map(|share| (place(share), percent(share))).to_vec();
    svg::curve(&Axes { title: "Share of the operations by keys", x: "of the keys", y: "", marks }, &points)
}

fn reuse(stats: &TraceStats) -> String {
    let last = stats.reuse.len().saturating_sub(1).max(1) as f64;
    let points: Vec<(f64, f64)> =
        stats.reuse.iter().enumerate().map(|(at, (_, hits))| (at as f64 / last, *hits)).collect();
    let mark = |(at, (size, _)): (usize, &(u64, f64))| (at as f64 / last, size.to_string());
    let marks = stats.reuse.iter().enumerate().step_by(4).map(mark).collect();
    svg::curve(&Axes { title: "Hits by the size of a cache", x: "keys kept", y: "", marks }, &points)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
