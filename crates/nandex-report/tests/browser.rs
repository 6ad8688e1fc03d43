//! The pages in a browser, at desktop and phone widths: every control is pressed and must have its effect.
//! Skipped with a note without Chromium.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::print_stdout)]

use nandex_lab::latency::LatencyHistogram;
use nandex_lab::registry::INDEXES;
use nandex_lab::results::{Results, Run};
use nandex_lab::sample;

use nandex_report::html;
use nandex_report::summary::over_ram::Sets;
use std::path::Path;
use std::process::{Command, Stdio};

/// Names of the browser's program.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn browser() -> Option<&'static str> {
    let answers = |name: &&&str| {
        let asked = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    BROWSERS.iter().find(answers).copied()
}

/// The findings that the test in the page found.
fn verdict(browser: &str, page: &str, folder: &Path, width: u32) -> String {
    let tested =
        page.replace("</body>", concat!("<script>", include_str!("selftest.js"), "</script></body>"));
    let file = folder.join(format!("page-{width}.html"));
    std::fs::write(&file, tested).unwrap();
    let out = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--window-size={width},1000"))
        .arg("--dump-dom")
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&out.stdout);
    let told = dom.split_once("data-selftest=\"").and_then(|(_, rest)| rest.split_once('"'));
    told.map_or_else(
        || format!("wrong: the page told nothing: {}", String::from_utf8_lossy(&out.stderr)),
        |t| t.0.to_string(),
    )
}

/// Every index of the registry in two classes, with made-up figures that differ.
fn results(ram_kib: u64, workload: &str) -> Results {
    let sample = sample::results();
    let of = |name: &str| sample.runs.iter().find(|run| run.index == name).unwrap();
    let (path, pages) = (of("mu-tree"), of("bplus"));
    let mut results = Results { runs: Vec::new(), ..sample.clone() };
    results.workload.ram_bytes = Some(ram_kib << 10);
    results.workload.name = workload.to_string();
    for (number, index) in (1u64..).zip(INDEXES) {
        for base in [path, pages] {
            let mut run = Run { index: index.name.to_string(), ..base.clone() };
            for phase in &mut run.phases {
                let time = phase.total.flash_time_ns * (number + 640 / ram_kib) / 9;
                phase.total.flash_time_ns = time;
                phase.kinds.values_mut().for_each(|costs| costs.flash_time_ns = time);
                let mut latencies = LatencyHistogram::default();
                [(900, 800_000 * number), (90, 2_000_000), (9, 40_000_000 / number)]
                    .iter()
                    .for_each(|(count, ns)| latencies.add(*ns, *count));
                phase.latencies = latencies;
            }
            results.runs.push(run);
        }
    }
    results
}

#[test]
fn every_control_does_what_it_says() {
    let Some(browser) = browser() else {
        eprintln!("skipped: no Chromium is installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let sets = ["trace", "scattered"].iter().flat_map(|w| [16, 64, 640].map(|kib| results(kib, w)));
    let page = html::render_sets(&Sets::of("nandex compare".to_string(), sets.collect())).unwrap();
    assert!(page.len() < 3 << 20, "{} bytes", page.len());
    // NANDEX_KEEP_PAGE=FILE keeps the page, to look at it.
    if let Some(file) = std::env::var_os("NANDEX_KEEP_PAGE") {
        std::fs::write(file, &page).unwrap();
    }
    for width in [1400, 500] {
        let told = verdict(browser, &page, folder.path(), width);
        assert!(told.starts_with("well, "), "at {width}: {told}");
    }
    let one = html::render(&sample::results()).unwrap();
    let told = verdict(browser, &one, folder.path(), 1200);
    assert!(told.starts_with("well, "), "{told}");
}
