//! The plots of a comparison. One is cost against RAM. The others show one class with one amount of RAM: cost
//! of operations, latencies, causes, accumulated time, wear and lifetime.

use super::draw::{Axis, Figure, Kind, Series, Spread, glyph, mark, token};
use super::panel::{At, Panel};
use crate::summary::Row;
use crate::summary::measure::{KINDS, Measure};
use crate::summary::scale::{Quantity, Scale, show};
use nandex_lab::results::CauseCounts;
use nandex_lab::stats;

/// Most bars in the histogram of wear.
pub(super) const WEAR_BARS: u32 = 30;

/// Most points of a line over the operations.
const TIMELINE_POINTS: usize = 40;

/// Ratio of the largest to the smallest value above which an axis is logarithmic.
const LOG_FROM: f64 = 30.0;

/// The causes of chip operations with their words in the legend, in stacking order.
pub(super) const CAUSES: [(&str, &str); 9] = [
    ("host", "the operation itself"),
    ("cache_eviction", "cache eviction"),
    ("garbage_collection", "garbage collection"),
    ("merge", "merge"),
    ("mapping", "mapping tables"),
    ("wear_levelling", "wear levelling"),
    ("checkpoint", "checkpoint"),
    ("recovery", "recovery"),
    ("scrubbing", "scrubbing"),
];

/// A row with its series in all plots of the page.
pub(super) type Shown<'r, 'a> = (usize, &'r Row<'a>);

/// Whether these values are better shown on a logarithmic axis.
pub(super) fn spans(values: impl IntoIterator<Item = f64>) -> bool {
    let positive: Vec<f64> = values.into_iter().filter(|v| *v > 0.0).collect();
    let low = positive.iter().copied().fold(f64::INFINITY, f64::min);
    let high = positive.iter().copied().fold(0.0, f64::max);
    low.is_finite() && high / low > LOG_FROM
}

fn axis(title: &str, log: bool) -> Axis {
    if log { Axis::log(title) } else { Axis::of(title) }
}

/// The plot of time per operation against RAM: a line for each index, and the best indexes for their RAM.
pub(super) fn against_ram(number: usize, panel: &Panel<'_>) -> Figure {
    let times: Vec<f64> = panel.points().map(|point| point.time_ns).collect();
    let scale = Scale::of(Quantity::Time, times.iter().copied());
    let mut series: Vec<Series> = Vec::new();
    for point in panel.points() {
        let place = series.iter().position(|s| s.group == super::draw::group(point.series));
        let at = place.unwrap_or_else(|| {
            series.push(Series::of_index(Kind::Line, point.series, &point.name));
            series.len() - 1
        });
        let line = &mut series[at];
        line.x.push(point.ram_bytes);
        line.y.push(point.time_ns / scale.divisor);
        line.words.push(format!(
            "{} ({}) with {}: {} per operation",
            point.name,
            point.storage,
            show(Quantity::Bytes, point.ram_bytes),
            show(Quantity::Time, point.time_ns)
        ));
    }
    let front = panel.front();
    let best = Series {
        kind: Kind::Step,
        name: "the best for its RAM".to_string(),
        colour: "front".to_string(),
        x: front.iter().map(|(ram, _)| *ram).collect(),
        y: front.iter().map(|(_, time)| time / scale.divisor).collect(),
        behind: true,
        ..Series::default()
    };
    series.insert(0, best);
    let what = if panel.is_over_ram() { "RAM of each index" } else { "RAM held" };
    Figure {
        id: format!("ram-{number}"),
        x: Axis { bytes: true, ..Axis::log(what) },
        y: axis(&format!("time per operation [{}]", scale.unit), spans(times)),
        series,
        legend: true,
        ..Figure::default()
    }
}

/// All plots of a class with one amount of RAM.
pub(super) fn details(id: &str, at: &At<'_>) -> Vec<Figure> {
    let rows: Vec<Shown<'_, '_>> = at.finished().collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let named = |what: &str| format!("{what}-{id}");
    let mut figures = vec![
        kinds(named("kinds"), at, &rows),
        causes(named("reads"), "page reads per operation", &rows, |c| c.page_reads),
        causes(named("programs"), "page programs per operation", &rows, |c| c.page_programs),
        causes(named("erases"), "block erases per operation", &rows, |c| c.block_erases),
        timeline(named("timeline"), &rows),
        wear(named("wear"), &rows),
    ];
    figures.extend(tail(named("tail"), &rows));
    figures.extend(life(named("life"), at, &rows));
    figures
}

/// The plot of flash time per operation by kind: grouped bars, with the interval over several seeds.
fn kinds(id: String, at: &At<'_>, rows: &[Shown<'_, '_>]) -> Figure {
    let has = |k: &&'static str| rows.iter().any(|(_, r)| r.value(Measure::KindTime(k)).is_some());
    let kinds: Vec<&'static str> = KINDS.into_iter().filter(has).collect();
    let values = || rows.iter().flat_map(|(_, r)| kinds.iter().filter_map(|k| r.value(Measure::KindTime(k))));
    let scale = Scale::of(Quantity::Time, values().map(|s| s.mean));
    let bar = |(series, row): &Shown<'_, '_>| {
        let mut bar = Series::of_index(Kind::Bar, *series, &row.label);
        let mut half = Vec::new();
        for (place, kind) in kinds.iter().enumerate() {
            let Some(value) = row.value(Measure::KindTime(kind)) else { continue };
            bar.x.push(place as f64);
            bar.y.push(value.mean / scale.divisor);
            half.push(value.ci95.unwrap_or(0.0) / scale.divisor);
            bar.words.push(format!("{}, {kind}: {} per operation", row.label, scale.over_seeds(&value)));
        }
        bar.spread = at.has_seeds().then(|| Spread { below: half.clone(), above: half });
        bar
    };
    Figure {
        id,
        x: Axis::names("kind of operation", kinds.iter().map(|kind| (*kind).to_string()).collect()),
        y: axis(&format!("flash time per operation [{}]", scale.unit), spans(values().map(|s| s.mean))),
        series: rows.iter().map(bar).collect(),
        ..Figure::default()
    }
}

/// The plot of the share of operations that take longer than a time; `None` if slow operations cannot be
/// distinguished.
fn tail(id: String, rows: &[Shown<'_, '_>]) -> Option<Figure> {
    let line = |(series, row): &Shown<'_, '_>| {
        let mut all = nandex_lab::latency::LatencyHistogram::default();
        row.finished.iter().for_each(|(_, totals)| all.extend(&totals.latencies));
        let mut line = Series::of_index(Kind::Step, *series, &row.label);
        let mut longer = 1.0;
        for (ns, share) in all.distribution() {
            // What takes no time at all has no place on a logarithmic axis.
            line.x.push(ns.max(100) as f64 / 1e6);
            line.y.push(longer * 100.0);
            let time = show(Quantity::Time, ns as f64);
            line.words.push(format!("{}: {:.4} % take {time} or longer", row.label, longer * 100.0));
            longer = 1.0 - share;
        }
        line
    };
    let series: Vec<Series> = rows.iter().map(line).filter(|line| !line.x.is_empty()).collect();
    (!series.is_empty()).then(|| Figure {
        id,
        x: Axis::log("time of an operation [ms]"),
        y: Axis::log("operations that take as long or longer [%]"),
        series,
        ..Figure::default()
    })
}

/// The plot of one kind of chip operation by cause: a stacked bar for each index.
fn causes(id: String, title: &str, rows: &[Shown<'_, '_>], count: fn(&CauseCounts) -> u64) -> Figure {
    let places: Vec<f64> = (0..rows.len()).map(|place| place as f64).collect();
    let stack = |(number, (cause, words)): (usize, (&'static str, &'static str))| {
        let values: Vec<f64> = rows.iter().map(|(_, row)| cause_mean(row, cause, count)).collect();
        let scale = Scale::of(Quantity::Number, values.iter().copied());
        let told = rows
            .iter()
            .zip(&values)
            .map(|((_, row), v)| format!("{}, {words}: {} {title}", row.label, scale.number(*v)));
        let told: Vec<String> = told.collect();
        values.iter().any(|value| *value > 0.0).then(|| Series {
            kind: Kind::Bar,
            name: words.to_string(),
            group: format!("c{number}"),
            colour: format!("c{number}"),
            words: told,
            of: rows.iter().map(|(series, _)| super::draw::group(*series)).collect(),
            hatched: number % 2 == 1,
            x: values,
            y: places.clone(),
            ..Series::default()
        })
    };
    Figure {
        id,
        x: Axis::of(title),
        y: Axis {
            marks: rows.iter().map(|(series, _)| (mark(*series), token(*series))).collect(),
            ..Axis::names("", rows.iter().map(|(_, row)| row.index.to_string()).collect())
        },
        series: CAUSES.into_iter().enumerate().filter_map(stack).collect(),
        stacked: true,
        sideways: true,
        ..Figure::default()
    }
}

/// Mean over the seeds of the chip operations for a cause, per operation of the index.
pub(super) fn cause_mean(row: &Row<'_>, cause: &str, count: fn(&CauseCounts) -> u64) -> f64 {
    let per_operation = row.finished.iter().map(|(_, totals)| {
        let counts = totals.causes.get(cause).map_or(0, count);
        counts as f64 / totals.costs.operations.max(1) as f64
    });
    stats::Summary::of(&per_operation.collect::<Vec<_>>()).map_or(0.0, |s| s.mean)
}

/// The plot of flash time accumulated over the operations: a line for the first seed of each index.
fn timeline(id: String, rows: &[Shown<'_, '_>]) -> Figure {
    let ends = rows.iter().map(|(_, r)| r.finished[0].1.costs.flash_time_ns as f64);
    let scale = Scale::one(Quantity::Time, ends.fold(0.0, f64::max));
    let line = |(series, row): &Shown<'_, '_>| {
        let samples = &row.finished[0].1.timeline;
        let step = samples.len().div_ceil(TIMELINE_POINTS).max(1);
        let last = samples.len().saturating_sub(1);
        let kept = samples.iter().enumerate().filter(|(i, _)| i % step == 0 || *i == last);
        let mut line = Series::of_index(Kind::Line, *series, &row.label);
        for (_, sample) in kept {
            line.x.push(sample.operations as f64);
            line.y.push(sample.flash_time_ns as f64 / scale.divisor);
        }
        line
    };
    let mut lines = Vec::new();
    let mut operations = 0;
    for phase in rows[0].1.finished[0].0.phases.iter().filter(|p| p.measured) {
        lines.push((operations as f64, phase.name.clone()));
        operations += phase.total.operations;
    }
    Figure {
        id,
        x: Axis::of("measured operations done"),
        y: Axis::of(&format!("accumulated flash time [{}]", scale.unit)),
        series: rows.iter().map(line).collect(),
        lines,
        ..Figure::default()
    }
}

/// The plot of how many blocks were erased how often, over all seeds: a step line for each index.
fn wear(id: String, rows: &[Shown<'_, '_>]) -> Figure {
    let erases = |row: &Row<'_>| -> Vec<u32> {
        row.finished.iter().flat_map(|(run, _)| run.wear_erases.iter().copied()).collect()
    };
    let line = |(series, row): &Shown<'_, '_>| {
        let mut line = Series::of_index(Kind::Step, *series, &row.label);
        (line.x, line.y) = blocks_over(&mut erases(row));
        let told = line.x.iter().zip(&line.y);
        line.words = told
            .map(|(least, share)| {
                format!("{}: {share:.1} % of the blocks erased {least} times or more", row.label)
            })
            .collect();
        line
    };
    Figure {
        id,
        x: Axis::of("erases of a block since the format"),
        y: Axis::of("blocks erased as often or more [%]"),
        series: rows.iter().map(line).collect(),
        ..Figure::default()
    }
}

/// Numbers of erases in ascending order, each with the percentage of blocks erased at least as often.
pub(super) fn blocks_over(erases: &mut [u32]) -> (Vec<f64>, Vec<f64>) {
    erases.sort_unstable();
    let all = erases.len().max(1) as f64;
    let most = erases.last().copied().unwrap_or(0);
    let step = most.div_ceil(WEAR_BARS).max(1) as usize;
    let mut places: Vec<u32> = (0..=most).step_by(step).collect();
    if places.last() != Some(&most) {
        places.push(most);
    }
    let over = |least: &u32| (erases.len() - erases.partition_point(|e| e < least)) as f64 * 100.0 / all;
    (places.iter().map(|least| f64::from(*least)).collect(), places.iter().map(over).collect())
}

/// The plot of the years that the chip lives at one operation per second if all blocks wear alike.
fn life(id: String, at: &At<'_>, rows: &[Shown<'_, '_>]) -> Option<Figure> {
    let years: Vec<Option<f64>> = rows.iter().map(|(_, row)| at.years(row)).collect();
    let known: Vec<(&Shown<'_, '_>, f64)> =
        rows.iter().zip(years).filter_map(|(row, years)| Some((row, years?))).collect();
    let bar = |(place, ((series, row), years)): (usize, &(&Shown<'_, '_>, f64))| Series {
        x: vec![place as f64],
        y: vec![*years],
        words: vec![format!("{}: {years:.1} years", row.label)],
        ..Series::of_index(Kind::Points, *series, &row.label)
    };
    (!known.is_empty()).then(|| Figure {
        id,
        x: Axis::names("", known.iter().map(|((_, row), _)| row.index.to_string()).collect()),
        y: axis("years at one operation a second", spans(known.iter().map(|(_, years)| *years))),
        series: known.iter().enumerate().map(bar).collect(),
        ..Figure::default()
    })
}

/// The colour and the mark of a series, for text.
pub(super) fn chip_of(series: usize) -> (String, &'static str) {
    (token(series), glyph(series))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wear_is_the_share_of_blocks_erased_as_often() {
        assert_eq!(blocks_over(&mut [2, 0, 1, 2]), (vec![0.0, 1.0, 2.0], vec![100.0, 75.0, 50.0]));
        assert_eq!(blocks_over(&mut [0, 0]), (vec![0.0], vec![100.0]));
        let (places, shares) = blocks_over(&mut (0..1000).collect::<Vec<u32>>());
        assert!(places.len() <= 32 && *places.last().unwrap() == 999.0);
        assert!(shares.windows(2).all(|w| w[0] >= w[1]));
    }

    #[test]
    fn a_wide_span_is_logarithmic() {
        assert!(spans([1.0, 100.0]) && !spans([1.0, 20.0]) && !spans([0.0, 5.0]) && !spans([]));
    }
}
