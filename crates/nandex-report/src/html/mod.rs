//! The report: one HTML file that holds everything it shows and loads nothing.
//!
//! `templates/base.html` is the skeleton of every page; askama fills it and escapes whatever it inserts. The
//! plots are figures of plotly, whose script comes from the crate of that name and is written into the file:
//! the report opens without a network, and its content policy forbids one. `report.js` gives the plots their
//! theme, sorts the table and switches series on and off; without it the tables still say everything.

mod experiment;
mod map;
mod papers;
mod plots;
mod replay;
mod view;

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
/// Only when the results cannot be written as JSON.
pub fn render(results: &Results) -> Result<String, askama::Error> {
    render_with_maps(results, &[])
}

/// The report with spatial indexes on maps.
///
/// # Errors
/// Only when the results cannot be written as JSON.
pub fn render_with_maps(results: &Results, maps: &[TreeMap]) -> Result<String, askama::Error> {
    view::Page::of(results, maps).map_err(askama::Error::custom)?.render()
}

/// Renders a replay as a self-contained HTML page.
///
/// # Errors
/// Only when the results cannot be written as JSON.
pub fn render_replay(results: &ReplayResults) -> Result<String, askama::Error> {
    replay::Page::of(results).map_err(askama::Error::custom)?.render()
}

/// Renders an experiment as a self-contained HTML page.
///
/// # Errors
/// Only when the results cannot be written as JSON.
pub fn render_experiment(results: &ExperimentResults) -> Result<String, askama::Error> {
    experiment::Page::of(results).map_err(askama::Error::custom)?.render()
}

/// Renders the scorecards of papers and the figures of their experiments as one self-contained HTML page.
///
/// # Errors
/// Only when the results cannot be written as JSON.
pub fn render_papers(done: &Reproduction) -> Result<String, askama::Error> {
    papers::Page::of(done).map_err(askama::Error::custom)?.render()
}

/// The assets of a page: all that it holds so that it loads nothing.
struct Assets {
    css: &'static str,
    script: &'static str,
    plotly: String,
    figures_json: String,
    results_json: String,
}

impl Assets {
    fn of(figures: &[plots::Figure], results: &impl Serialize) -> Result<Assets, serde_json::Error> {
        let json = |f: &plots::Figure| {
            format!("{{\"id\":\"{}\",\"data\":[{}],\"layout\":{}}}", f.id, f.data.join(","), f.layout)
        };
        let figures: Vec<String> = figures.iter().map(json).collect();
        Ok(Assets {
            css: include_str!("../../templates/report.css"),
            script: include_str!("../../templates/report.js"),
            plotly: plotly_script(),
            figures_json: for_script(&format!("[{}]", figures.join(","))),
            results_json: for_script(&serde_json::to_string(results)?),
        })
    }
}

/// Plotly's script alone; the crate hands it out in front of a second one, for formulas, that no plot here
/// needs.
fn plotly_script() -> String {
    let sources = plotly::Plot::offline_js_sources();
    let end = sources.find("</script>").unwrap_or(sources.len());
    let start = sources.find('>').map_or(0, |i| i + 1);
    sources[start..end].to_string()
}

/// JSON that can stand in a script element: no `<` can end it.
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

    /// The part of the page outside of plotly's script, which names addresses it never visits here.
    fn own_part(page: &str) -> String {
        page.replacen(&plotly_script(), "", 1)
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
        let page = page();
        let own = own_part(&page);
        assert!(page.len() - own.len() > 1_000_000, "plotly's script is not in the page");
        assert!(!own.contains("://"), "an address in the page");
        assert!(own.contains("default-src 'none'"));
        let html = Html::parse_document(&own);
        for loaded in ["link", "img", "iframe", "[src]", "[href]", "object", "embed", "base"] {
            assert!(html.select(&Selector::parse(loaded).unwrap()).next().is_none(), "{loaded}");
        }
        assert!(!own.contains("@import") && !own.contains("url("));
    }

    #[test]
    fn every_plot_has_its_place_and_its_traces() {
        let html = Html::parse_document(&own_part(&page()));
        let figures: serde_json::Value = serde_json::from_str(&texts(&html, "#figures")[0]).unwrap();
        let figures = figures.as_array().unwrap();
        assert_eq!(figures.len(), 6);
        for figure in figures {
            let id = figure["id"].as_str().unwrap();
            assert_eq!(html.select(&Selector::parse(&format!("#{id}")).unwrap()).count(), 1, "{id}");
            assert!(!figure["data"].as_array().unwrap().is_empty(), "{id}");
        }
        // Kinds, timeline and wear have a trace for each index that ran, and the index's chip switches it.
        for figure in [&figures[0], &figures[4], &figures[5]] {
            let groups: Vec<&str> = figure["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|t| t["legendgroup"].as_str().unwrap())
                .collect();
            assert_eq!(groups, ["g0", "g1", "g2"]);
        }
    }

    #[test]
    fn the_comparison_shows_rows_by_class_and_failures_with_their_reason() {
        let html = Html::parse_document(&own_part(&page()));
        assert_eq!(texts(&html, ".comparison .class").len(), 2);
        assert_eq!(texts(&html, ".comparison .row").len(), 3);
        let failed = texts(&html, ".comparison .failed td");
        assert_eq!(failed.len(), 1);
        assert!(
            failed[0].contains("seeds 1 to 2") && failed[0].contains("its <journal> & cache"),
            "{failed:?}"
        );
        let best = texts(&html, "tr[data-series=g0] b");
        assert!(best.contains(&"0.67".to_string()), "{best:?}");
        assert!(texts(&html, "tr[data-series=g2] b").is_empty(), "a class of one has no best");
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
        let page = own_part(&render(&results).unwrap());
        let html = Html::parse_document(&page);
        assert!(html.errors.is_empty(), "{:?}", html.errors);
        let own = Html::parse_document(&own_part(&super::tests::page()));
        for element in ["script", "img", "[onerror]"] {
            let selector = Selector::parse(element).unwrap();
            assert_eq!(html.select(&selector).count(), own.select(&selector).count(), "{element}");
        }
        // The library reads tags in its labels: they must be entities there.
        let figures: serde_json::Value = serde_json::from_str(&texts(&html, "#figures")[0]).unwrap();
        assert!(!figures.to_string().contains("<img"));
    }

    #[test]
    fn results_without_a_finished_run_make_a_page_without_plots() {
        let mut results = sample::results();
        results.runs.retain(|r| r.error.is_some());
        let html = Html::parse_document(&own_part(&render(&results).unwrap()));
        assert!(html.errors.is_empty(), "{:?}", html.errors);
        assert_eq!(texts(&html, ".plot").len(), 0);
        assert_eq!(texts(&html, ".failed").len(), 1);
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
        let page = own_part(&render_replay(&replayed()).unwrap());
        assert!(!page.contains("://"), "an address in the page");
        let html = Html::parse_document(&page);
        assert!(html.errors.is_empty(), "{:?}", html.errors);
        assert_eq!(texts(&html, ".comparison .row").len(), 2);
        assert_eq!(texts(&html, ".comparison .failed td"), ["it is full"]);
        assert!(texts(&html, "tr[data-series=g0] td").contains(&"1.33".to_string()));
        assert_eq!(texts(&html, "tr[data-series=g1] td")[0], "\u{2013}", "a disk has no write amplification");
        let figures: serde_json::Value = serde_json::from_str(&texts(&html, "#figures")[0]).unwrap();
        let figures = figures.as_array().unwrap();
        assert_eq!(figures.len(), 8);
        for figure in figures {
            let id = figure["id"].as_str().unwrap();
            assert_eq!(html.select(&Selector::parse(&format!("#{id}")).unwrap()).count(), 1, "{id}");
        }
        assert_eq!(figures[1]["data"].as_array().unwrap().len(), 2, "latencies of both");
        assert_eq!(figures[0]["data"].as_array().unwrap().len(), 1, "write amplification of the chip alone");
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
        let html = Html::parse_document(&own_part(&render_replay(&results).unwrap()));
        assert!(html.errors.is_empty(), "{:?}", html.errors);
        assert_eq!(html.select(&Selector::parse("img").unwrap()).count(), 0);
        let figures: serde_json::Value = serde_json::from_str(&texts(&html, "#figures")[0]).unwrap();
        assert!(!figures.to_string().contains("<img"));
    }
}
