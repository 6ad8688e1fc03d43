//! How Nandex stands to each peer, in bands that are kept: who leaves one is named.

use crate::drive::{MEASURES, Row};
use std::collections::BTreeMap;

/// Measures that have bands.
const BANDED: [&str; 6] =
    ["update_us", "erases_per_1000", "slowest_ms", "get_us", "range_100_us", "first_ms"];

/// Half the width of a band, as a factor: figures are counted and repeat.
const WIDTH: f64 = 1.02;

/// The head of the file.
const HEAD: &str = "scenario,peer,measure,low,ratio,high\n";

/// Nandex' best figure over that of a peer, by scenario, peer and measure.
type Ratios = BTreeMap<(String, String, String), f64>;

fn ratios(rows: &[Row]) -> Ratios {
    let mut ratios = Ratios::new();
    for theirs in rows.iter().filter(|row| !row.is_ours && row.outcome == "ok") {
        for (place, (measure, ..)) in MEASURES.iter().enumerate().filter(|(_, m)| BANDED.contains(&m.0)) {
            let ours = rows.iter().filter(|row| row.is_ours && row.scenario == theirs.scenario);
            let best = ours.filter_map(|row| row.figures[place]).min_by(f64::total_cmp);
            if let (Some(best), Some(figure)) = (best, theirs.figures[place].filter(|figure| *figure > 0.0)) {
                let name = (theirs.scenario.to_string(), theirs.store.to_string(), measure.to_string());
                ratios.insert(name, best / figure);
            }
        }
    }
    ratios
}

/// The file of the bands of these rows.
pub fn file(rows: &[Row]) -> String {
    let line = |((scenario, peer, measure), ratio): (&(String, String, String), &f64)| {
        let (low, high) = (ratio / WIDTH, ratio * WIDTH);
        format!("{scenario},{peer},{measure},{low:.5},{ratio:.5},{high:.5}\n")
    };
    HEAD.to_string() + &ratios(rows).iter().map(line).collect::<String>()
}

/// What stands elsewhere than the kept bands say, of the scenarios that were run.
pub fn faults(kept: &str, rows: &[Row]) -> Vec<String> {
    let mut found = ratios(rows);
    let mut faults = Vec::new();
    for line in kept.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [scenario, peer, measure, low, _, high] = cells[..] else {
            faults.push(format!("no band: {line}"));
            continue;
        };
        if !rows.iter().any(|row| row.scenario == scenario) {
            continue;
        }
        let (low, high) = (low.parse().unwrap_or(f64::NAN), high.parse().unwrap_or(f64::NAN));
        let name = (scenario.to_string(), peer.to_string(), measure.to_string());
        match found.remove(&name) {
            None => faults.push(format!("{scenario}, {peer}, {measure}: no figure any more")),
            // The digits that are kept end at the fifth.
            Some(ratio) if (low - 1e-5..=high + 1e-5).contains(&ratio) => {}
            Some(ratio) => {
                let how = if ratio > high { "Nandex fell behind" } else { "Nandex gained" };
                faults.push(format!(
                    "{scenario}, {peer}, {measure}: {how}, {ratio:.5} is not in {low:.5} to {high:.5}"
                ));
            }
        }
    }
    faults.extend(
        found.keys().map(|(scenario, peer, measure)| format!("{scenario}, {peer}, {measure}: no band")),
    );
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(store: &'static str, is_ours: bool, update_us: f64) -> Row {
        let mut figures = [None; MEASURES.len()];
        figures[0] = Some(update_us);
        Row { scenario: "s", store, is_ours, outcome: "ok".into(), updates: 1, figures }
    }

    #[test]
    fn who_leaves_a_band_is_named() {
        let rows = |ours| [row("plow", true, ours), row("mu", true, 50.0), row("theirs", false, 40.0)];
        let kept = file(&rows(20.0));
        assert_eq!(faults(&kept, &rows(20.0)), Vec::<String>::new());
        assert!(faults(&kept, &rows(21.0))[0].contains("s, theirs, update_us: Nandex fell behind"));
        assert!(faults(&kept, &rows(19.0))[0].contains("gained"));
        assert!(faults(&kept, &rows(20.0)[..2])[0].contains("no figure"));
        assert!(faults(HEAD, &rows(20.0))[0].contains("no band"));
        assert!(faults(&kept, &[]).is_empty(), "a scenario that was not run");
    }
}
