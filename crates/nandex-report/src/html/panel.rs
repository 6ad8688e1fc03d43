//! The part of a report of comparisons that is shown at a time: a workload in a durability class, over the
//! RAM.

use super::plots::Shown;
use crate::summary::conclusion::{ranked, simplest, ties};
use crate::summary::measure::Measure;
use crate::summary::{Class, Row, Summary};
use nandex_lab::advise::Figures;
use nandex_lab::registry;
use nandex_lab::results::{ChipFacts, Results};
use nandex_lab::stats;

/// Largest ratio of a simpler index's time to the best time at which the simpler index is pointed out.
const CLOSE: f64 = 1.05;

/// A workload in a durability class, with each amount of RAM.
pub(super) struct Panel<'a> {
    pub(super) workload: String,
    pub(super) durability: String,
    pub(super) at: Vec<At<'a>>,
}

/// A durability class with one amount of RAM.
pub(super) struct At<'a> {
    pub(super) results: &'a Results,
    pub(super) summary: Summary<'a>,
    /// The index of the class in the summary.
    pub(super) place: usize,
    /// The rows that finished, the fastest first: the series on the page, and the index of the row.
    order: Vec<(usize, usize)>,
}

/// An index as a point over RAM and time.
pub(super) struct Spot {
    pub(super) series: usize,
    pub(super) name: String,
    pub(super) storage: String,
    pub(super) ram_bytes: f64,
    pub(super) time_ns: f64,
    pub(super) parts: usize,
}

/// The names of all indexes. The position of a name determines its colour and mark on the whole page.
#[derive(Default)]
pub(super) struct Names(Vec<String>);

impl Names {
    fn series(&mut self, name: &str) -> usize {
        self.0.iter().position(|known| known == name).unwrap_or_else(|| {
            self.0.push(name.to_string());
            self.0.len() - 1
        })
    }
}

/// The panels of the comparisons in their order.
pub(super) fn panels(sets: &[Results]) -> (Vec<Panel<'_>>, Names) {
    let mut names = Names::default();
    // In the order asked for, and not in that of classes.
    sets.iter().flat_map(|results| &results.runs).for_each(|run| {
        names.series(&run.index);
    });
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for results in sets {
        let classes = Summary::of(results).classes.len();
        for place in 0..classes {
            let at = At::of(results, place, &mut names);
            let (workload, durability) = (&results.workload.name, at.class().durability.to_string());
            match panels.iter_mut().find(|p| p.workload == *workload && p.durability == durability) {
                Some(panel) => panel.at.push(at),
                None => panels.push(Panel { workload: workload.clone(), durability, at: vec![at] }),
            }
        }
    }
    panels.retain(|panel| panel.at.iter().any(|at| !at.order.is_empty()));
    (panels, names)
}

impl<'a> At<'a> {
    fn of(results: &'a Results, place: usize, names: &mut Names) -> At<'a> {
        let summary = Summary::of(results);
        let mut order: Vec<(usize, usize, f64)> = Vec::new();
        for (at, row) in summary.classes[place].rows.iter().enumerate() {
            let kin = summary.classes[place].rows.iter().filter(|other| other.index == row.index).count();
            let name =
                if kin > 1 { format!("{} on {}", row.index, row.storage) } else { row.index.to_string() };
            if let Some(time) = row.value(Measure::MeanTime) {
                let apart = if row.is_on_this_chip() { 0.0 } else { f64::INFINITY };
                order.push((names.series(&name), at, time.mean + apart));
            }
        }
        order.sort_by(|a, b| a.2.total_cmp(&b.2));
        let order = order.into_iter().map(|(series, at, _)| (series, at)).collect();
        At { results, summary, place, order }
    }

    pub(super) fn class(&self) -> &Class<'a> {
        &self.summary.classes[self.place]
    }

    /// The rows that finished, the fastest first.
    pub(super) fn finished(&self) -> impl Iterator<Item = Shown<'_, 'a>> {
        self.order.iter().map(|(series, at)| (*series, &self.class().rows[*at]))
    }

    /// Whether figures are means over several seeds.
    pub(super) fn has_seeds(&self) -> bool {
        self.summary.seeds.len() > 1
    }

    fn spots(&self) -> impl Iterator<Item = Spot> {
        let given = self.results.workload.ram_bytes;
        self.finished().filter(|(_, row)| row.is_on_this_chip()).filter_map(move |(series, row)| {
            let held = row.value(Measure::Ram)?.mean;
            Some(Spot {
                series,
                name: row.index.to_string(),
                storage: row.storage.to_string(),
                ram_bytes: given.map_or(held, |bytes| bytes as f64),
                time_ns: row.value(Measure::MeanTime)?.mean,
                parts: registry::subject(row.index).map_or(usize::MAX, |entry| entry.parts.len()),
            })
        })
    }

    /// Years that the chip lives at one operation per second if all blocks wear alike; `None` if nothing is
    /// written.
    pub(super) fn years(&self, row: &Row<'_>) -> Option<f64> {
        let chip: &ChipFacts = &self.results.chip;
        let each = |measure| row.value(measure).map_or(0.0, |s: stats::Summary| s.mean);
        let figures = Figures {
            block_erases: each(Measure::BlockErases),
            page_programs: each(Measure::PagePrograms),
            ..Figures::default()
        };
        Some(figures.life_on(chip, 1.0).even_years).filter(|years| years.is_finite())
    }

    /// The index to take (the simplest of those that are as good as the best), the best, and the others that
    /// are as good.
    pub(super) fn taken(&self) -> Option<(&Row<'a>, &Row<'a>, Vec<&Row<'a>>)> {
        let rows = ranked(self.class());
        let (best, _) = *rows.first()?;
        let equal = ties(&rows);
        let taken = simplest(&equal).unwrap_or(best);
        let others = equal.iter().filter(|row| !std::ptr::eq(**row, taken)).copied().collect();
        Some((taken, best, others))
    }
}

impl Panel<'_> {
    pub(super) fn is_over_ram(&self) -> bool {
        self.at.len() > 1
    }

    /// Every index with each amount of RAM. If there is only one amount, the RAM is the one that the index
    /// uses.
    pub(super) fn points(&self) -> impl Iterator<Item = Spot> {
        let alone = !self.is_over_ram();
        self.at.iter().flat_map(move |at| {
            at.spots().map(move |mut spot| {
                if alone {
                    let row = at.finished().find(|(series, _)| *series == spot.series);
                    let held = row.and_then(|(_, row)| row.value(Measure::Ram));
                    spot.ram_bytes = held.map_or(spot.ram_bytes, |s| s.mean);
                }
                spot
            })
        })
    }

    /// The Pareto front: with ascending RAM, the points that are faster than all points with less RAM.
    pub(super) fn front(&self) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = self.points().map(|p| (p.ram_bytes, p.time_ns)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut front: Vec<(f64, f64)> = Vec::new();
        for point in points {
            if front.last().is_none_or(|last| point.1 < last.1 && point.0 > last.0) {
                front.push(point);
            }
        }
        front
    }

    /// The fastest of all; the simplest that is close to it with the same RAM; and the fastest with the
    /// least RAM in which any index runs.
    pub(super) fn cards(&self) -> Option<[Spot; 3]> {
        let least_time = |a: &Spot, b: &Spot| a.time_ns.total_cmp(&b.time_ns);
        let best = self.points().min_by(least_time)?;
        let close = |spot: &Spot| spot.time_ns <= best.time_ns * CLOSE;
        let beside = self.points().filter(|spot| !self.is_over_ram() || spot.ram_bytes == best.ram_bytes);
        let simple = beside.filter(close).min_by(|a, b| a.parts.cmp(&b.parts).then(least_time(a, b)))?;
        let least =
            self.points().min_by(|a, b| a.ram_bytes.total_cmp(&b.ram_bytes).then(least_time(a, b)))?;
        Some([best, simple, least])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex_lab::sample;

    #[test]
    fn panels_are_workloads_in_classes_over_the_ram() {
        let with = |kib: u64, slow: u64| {
            let mut results = sample::results();
            results.workload.ram_bytes = Some(kib << 10);
            for run in results.runs.iter_mut().filter(|run| run.index == "mu-tree") {
                run.phases.iter_mut().for_each(|phase| phase.total.flash_time_ns *= slow);
            }
            results
        };
        let sets = [with(16, 5), with(64, 1)];
        let (panels, names) = panels(&sets);
        let told: Vec<(&str, usize)> = panels.iter().map(|p| (p.durability.as_str(), p.at.len())).collect();
        assert_eq!(told, [("every operation", 2), ("every sync", 2)]);
        assert_eq!(names.0, ["mu-tree", "bplus-wandering", "bplus", "jffs3"]);
        let order = |at: &At<'_>| at.finished().map(|(_, row)| row.index.to_string()).collect::<Vec<_>>();
        assert_eq!(order(&panels[0].at[0]), ["bplus-wandering", "mu-tree"]);
        assert_eq!(order(&panels[0].at[1]), ["mu-tree", "bplus-wandering"]);
        let front: Vec<f64> = panels[0].front().iter().map(|(ram, _)| *ram / 1024.0).collect();
        assert_eq!(front, [16.0, 64.0]);
        let cards = panels[0].cards().unwrap().map(|spot| (spot.name, spot.ram_bytes as u64 >> 10));
        assert_eq!(cards[0], ("mu-tree".to_string(), 64));
        assert_eq!(cards[2], ("bplus-wandering".to_string(), 16));
    }
}
