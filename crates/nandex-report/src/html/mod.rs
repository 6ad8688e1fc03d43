//! The report: one HTML file that contains everything it shows and loads nothing.
//!
//! `templates/base.html` is the skeleton of every page; askama fills it and escapes all inserted text. The
//! plots are data (`draw`) that `plot.js` draws as SVG. The report opens without a network, and its content
//! policy forbids one. `report.js` switches tabs, sorts tables and toggles series; without it the tables
//! still show everything.

mod draw;
mod experiment;
mod map;
mod panel;
mod papers;
mod plots;
mod replay;
mod saved;
mod view;

use crate::summary::over_ram::Sets;
use askama::Template;
use nandex_lab::experiment::ExperimentResults;
use nandex_lab::replay::ReplayResults;
use nandex_lab::repro::Reproduction;
use nandex_lab::results::Results;
use nandex_lab::spatial::map::TreeMap;
use serde::Serialize;

/// Renders the results as a self-contained HTML page.
///
/// # Errors
/// If the results cannot be written as JSON.
pub fn render(results: &Results) -> Result<String, askama::Error> {
    render_with_maps(results, &[])
}

/// Renders the results as a self-contained HTML page with maps of spatial indexes.
///
/// # Errors
/// If the results cannot be written as JSON.
pub fn render_with_maps(results: &Results, maps: &[TreeMap]) -> Result<String, askama::Error> {
    page_of(results, std::slice::from_ref(results), maps)
}

/// Renders comparisons over several amounts of RAM or workloads as one self-contained HTML page.
///
/// # Errors
/// If the results cannot be written as JSON.
pub fn render_sets(sets: &Sets) -> Result<String, askama::Error> {
    match sets.sets.first() {
        Some(first) => page_of(first, &sets.sets, &[]),
        None => render(&Results::default()),
    }
}

fn page_of(results: &Results, sets: &[Results], maps: &[TreeMap]) -> Result<String, askama::Error> {
    view::Page::of(results, sets, maps).map_err(askama::Error::custom)?.render()
}

/// Renders a replay as a self-contained HTML page.
///
/// # Errors
/// If the results cannot be written as JSON.
pub fn render_replay(results: &ReplayResults) -> Result<String, askama::Error> {
    replay::Page::of(results).map_err(askama::Error::custom)?.render()
}

/// Renders an experiment as a self-contained HTML page.
///
/// # Errors
/// If the results cannot be written as JSON.
pub fn render_experiment(results: &ExperimentResults) -> Result<String, askama::Error> {
    experiment::Page::of(results).map_err(askama::Error::custom)?.render()
}

/// Renders the scorecards of papers and the figures of their experiments as one self-contained HTML page.
///
/// # Errors
/// If the results cannot be written as JSON.
pub fn render_papers(done: &Reproduction) -> Result<String, askama::Error> {
    papers::Page::of(done).map_err(askama::Error::custom)?.render()
}

/// The styles and scripts of a page, which it holds itself so that it loads nothing.
struct Assets {
    css: &'static str,
    plot: &'static str,
    script: &'static str,
    figures_json: String,
    results_json: String,
}

impl Assets {
    fn of(figures: &[draw::Figure], results: &impl Serialize) -> Result<Assets, serde_json::Error> {
        Ok(Assets {
            css: include_str!("../../templates/report.css"),
            plot: include_str!("../../templates/plot.js"),
            script: include_str!("../../templates/report.js"),
            figures_json: for_script(&serde_json::to_string(figures)?),
            results_json: for_script(&serde_json::to_string(results)?),
        })
    }
}

/// Escapes JSON for a script element: no `<` can end the element.
fn for_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex_lab::sample;
    use scraper::{Html, Selector};

    fn page() -> String {
        render(&sample::results()).unwrap()
    }

    fn texts(page: &Html, selector: &str) -> Vec<String> {
        let selector = Selector::parse(selector).unwrap();
        page.select(&selector).map(|e| e.text().collect::<String>().trim().to_string()).collect()
    }

    #[test]
    fn the_page_is_well_formed_html() {
        let page = Html::parse_document(&page());
        assert!(page.errors.is_empty(), "{:?}", page.errors);
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        // The name of SVG in the plotter is the one address, and nothing of it is loaded.
        let page = page().replacen("http://www.w3.org/2000/svg", "", 1);
        assert!(!page.contains("://"), "an address in the page");
        assert!(page.contains("default-src 'none'"));
        let html = Html::parse_document(&page);
        for loaded in ["link", "img", "iframe", "[src]", "[href]", "object", "embed", "base"] {
            assert!(html.select(&Selector::parse(loaded).unwrap()).next().is_none(), "{loaded}");
        }
        assert!(!page.contains("@import") && !page.contains("url("));
    }

    fn figures(html: &Html) -> Vec<serde_json::Value> {
        let figures: serde_json::Value = serde_json::from_str(&texts(html, "#figures")[0]).unwrap();
        figures.as_array().unwrap().clone()
    }

    #[test]
    fn every_plot_has_its_place_and_its_series() {
        let html = Html::parse_document(&page());
        let figures = figures(&html);
        // Against the RAM and seven more, in each of two classes.
        assert_eq!(figures.len(), 2 * 8);
        for figure in &figures {
            let id = figure["id"].as_str().unwrap();
            assert_eq!(html.select(&Selector::parse(&format!("#{id}")).unwrap()).count(), 1, "{id}");
            assert!(!figure["series"].as_array().unwrap().is_empty(), "{id}");
        }
        // Kinds, timeline and wear have a series for each index that ran, and the index's chip switches it.
        for what in ["kinds-0-0", "timeline-0-0", "wear-0-0"] {
            let figure = figures.iter().find(|f| f["id"] == what).unwrap();
            let series = figure["series"].as_array().unwrap().iter();
            assert_eq!(
                series.map(|s| s["group"].as_str().unwrap()).collect::<Vec<_>>(),
                ["g0", "g1"],
                "{what}"
            );
        }
    }

    #[test]
    fn the_comparison_shows_rows_by_class_and_failures_with_their_reason() {
        let html = Html::parse_document(&page());
        assert_eq!(texts(&html, "[role=tab]").len(), 2);
        assert_eq!(texts(&html, ".comparison .row").len(), 3);
        let failed = texts(&html, ".failed");
        assert_eq!(failed.len(), 1);
        assert!(
            failed[0].contains("seeds 1 to 2") && failed[0].contains("its <journal> & cache"),
            "{failed:?}"
        );
        let best = texts(&html, "tr[data-series=g0] b");
        assert!(best.contains(&"0.67".to_string()), "{best:?}");
        assert!(texts(&html, "tr[data-series=g2] b").is_empty(), "a class of one has no best");
        let cards = texts(&html, "#panel-0 .card h3");
        assert_eq!(cards, ["Best", "Simplest within 5 %", "Least RAM"]);
    }

    #[test]
    fn several_amounts_of_ram_are_one_page_with_a_table_for_each() {
        let with = |kib: u64| {
            let mut results = sample::results();
            results.workload.ram_bytes = Some(kib << 10);
            results
        };
        let sets = Sets::of("nandex compare".to_string(), vec![with(16), with(64)]);
        let page = render_sets(&sets).unwrap();
        let html = Html::parse_document(&page);
        assert!(html.errors.is_empty(), "{:?}", html.errors);
        assert_eq!(texts(&html, "#panel-0 .ram"), ["16 KiB", "64 KiB"]);
        assert_eq!(texts(&html, "#panel-0 .comparison .row").len(), 4);
        let ram = figures(&html).into_iter().find(|figure| figure["id"] == "ram-0").unwrap();
        let xs: Vec<_> = ram["series"].as_array().unwrap().iter().map(|s| s["x"].to_string()).collect();
        assert!(xs.contains(&"[16384,65536]".to_string()), "{xs:?}");
        assert!(page.len() < 3 << 20);
    }

    #[test]
    fn names_cannot_inject_markup() {
        let evil = "</script><script>alert(1)</script>\"'<img src=x onerror=alert(2)>";
        let mut results = sample::results();
        results.command = evil.to_string();
        results.chip.name = evil.to_string();
        results.workload.name = evil.to_string();
        results.workload.options.insert(evil.to_string(), evil.to_string());
        results.conclusion = evil.to_string();
        for run in &mut results.runs {
            run.index = evil.to_string();
            run.storage = evil.to_string();
            run.durability = evil.to_string();
            for phase in &mut run.phases {
                phase.name = evil.to_string();
            }
        }
        let evil_page = render(&results).unwrap();
        let html = Html::parse_document(&evil_page);
        assert!(html.errors.is_empty(), "{:?}", html.errors);
        let own = Html::parse_document(&page());
        for element in ["script", "img", "[onerror]"] {
            let selector = Selector::parse(element).unwrap();
            assert_eq!(html.select(&selector).count(), own.select(&selector).count(), "{element}");
        }
    }

    #[test]
    fn results_without_a_finished_run_make_a_page_without_plots() {
        let mut results = sample::results();
        results.runs.retain(|r| r.error.is_some());
        let html = Html::parse_document(&render(&results).unwrap());
        assert!(html.errors.is_empty(), "{:?}", html.errors);
        assert_eq!((texts(&html, ".plot").len(), texts(&html, ".failed").len()), (0, 1));
    }

    fn replayed() -> nandex_lab::replay::ReplayResults {
        use nandex_lab::replay::{Latencies, ReplayResults, ReplayRun, Wear, Window};
        let run = |device: &str, has_chip| ReplayRun {
            device: device.to_string(),
            clock: "simulated".to_string(),
            has_chip,
            requests: 9,
            host_page_writes: 9,
            page_programs: 12,
            causes: [("host", nandex_lab::results::CauseCounts { page_programs: 12, ..Default::default() })]
                .into(),
            write_amplification: 1.3333,
            latency: Latencies { mean_ns: 5, p50_ns: 5, p99_ns: 7, p999_ns: 7, max_ns: 7 },
            latency_cdf: vec![(5, 0.5), (7, 1.0)],
            wear: Wear { min_erases: 0, mean_erases: 1.0, max_erases: 2, deviation_erases: 1.0 },
            wear_erases: if has_chip { vec![0, 2] } else { Vec::new() },
            windows: vec![Window { start: 0, host_page_writes: 9, ..Window::default() }],
            ..ReplayRun::default()
        };
        let failed = ReplayRun { error: Some("it is full".to_string()), requests: 0, ..run("broken", true) };
        ReplayResults { runs: vec![run("one", true), run("disk", false), failed], ..ReplayResults::default() }
    }

    #[test]
    fn a_replay_has_a_row_for_each_device_and_its_plots() {
        let page = render_replay(&replayed()).unwrap();
        let html = Html::parse_document(&page);
        assert!(html.errors.is_empty(), "{:?}", html.errors);
        assert_eq!(texts(&html, ".comparison .row").len(), 2);
        assert_eq!(texts(&html, ".comparison .failed td"), ["it is full"]);
        assert!(texts(&html, "tr[data-series=g0] td").contains(&"1.33".to_string()));
        assert_eq!(texts(&html, "tr[data-series=g1] td")[0], "\u{2013}", "a disk has no write amplification");
        let figures = figures(&html);
        assert_eq!(figures.len(), 8);
        for figure in &figures {
            let id = figure["id"].as_str().unwrap();
            assert_eq!(html.select(&Selector::parse(&format!("#{id}")).unwrap()).count(), 1, "{id}");
        }
        assert_eq!(figures[1]["series"].as_array().unwrap().len(), 2, "latencies of both");
        assert_eq!(
            figures[0]["series"].as_array().unwrap().len(),
            1,
            "write amplification of the chip alone"
        );
    }

    #[test]
    fn names_in_a_replay_cannot_inject_markup() {
        let evil = "</script><img src=x onerror=alert(1)>";
        let mut results = replayed();
        results.command = evil.to_string();
        results.chip.name = evil.to_string();
        results.trace.name = evil.to_string();
        for run in &mut results.runs {
            run.device = evil.to_string();
            run.notes = vec![evil.to_string()];
            run.error = run.error.as_ref().map(|_| evil.to_string());
        }
        let html = Html::parse_document(&render_replay(&results).unwrap());
        assert!(html.errors.is_empty(), "{:?}", html.errors);
        assert_eq!(html.select(&Selector::parse("img").unwrap()).count(), 0);
    }
}
