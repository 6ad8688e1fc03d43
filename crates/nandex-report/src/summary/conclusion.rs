//! The sentence of conclusion: which index took the least flash time, against which base, and at what price.
//!
//! Indexes of different durability classes are never ranked against each other: the sentence has a clause for
//! each class and says so. A ratio names its base, and the winner's largest loss to that base is told as
//! well.

use super::measure::Measure;
use super::scale::show;
use super::{Class, Row, Summary};
use nandex_lab::registry;
use nandex_lab::results::Results;
use nandex_lab::stats;

/// Smallest ratio that the sentence mentions.
const NOTABLE: f64 = 1.05;

/// Writes the conclusion into the results.
pub fn conclude(results: &mut Results) {
    results.conclusion = conclusion(results);
}

/// The conclusion of the results in one sentence.
pub fn conclusion(results: &Results) -> String {
    let summary = Summary::of(results);
    let contested = summary.classes.iter().filter(|c| ranked(c).len() > 1).count();
    let populated = summary.classes.iter().filter(|c| !ranked(c).is_empty()).count();
    let mut clauses: Vec<String> = summary.classes.iter().filter_map(|c| clause(c, populated > 1)).collect();
    if populated > 1 {
        let what = if contested > 0 {
            "classes promise different things and are not ranked"
        } else {
            "they promise different things after a power cut and are not ranked"
        };
        clauses.push(format!("{what} against each other"));
    }
    clauses.extend(failures(&summary));
    match clauses.is_empty() {
        true => "Nothing was measured.".to_string(),
        false => capitalised(&clauses.join("; ")) + ".",
    }
}

/// The rows with a mean flash time, the fastest first; equal ones keep the order asked for. Rows that ran
/// on another chip than the one asked for are left out.
pub fn ranked<'r, 'a>(class: &'r Class<'a>) -> Vec<(&'r Row<'a>, stats::Summary)> {
    let here = class.rows.iter().filter(|row| row.is_on_this_chip());
    let timed = here.filter_map(|row| Some((row, row.value(Measure::MeanTime)?)));
    let mut rows: Vec<_> = timed.collect();
    rows.sort_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
    rows
}

fn clause(class: &Class<'_>, name_class: bool) -> Option<String> {
    let rows = ranked(class);
    let (winner, time) = rows.first()?;
    // The clause names the class already.
    let suffix = format!(", {}", class.durability);
    let name = |row: &Row<'_>| row.label.strip_suffix(&suffix).unwrap_or(&row.label).to_string();
    let shown = show(Measure::MeanTime.quantity(), time.mean);
    let among = match (name_class, class.durability) {
        (false, _) => String::new(),
        (true, "none") => "of those that promise nothing after a power cut, ".to_string(),
        (true, durability) => format!("of those durable at {durability}, "),
    };
    let equal = ties(&rows);
    let Some((next, next_time)) = rows.get(equal.len()).or(rows.get(1)) else {
        return Some(format!("{among}{} took {shown} of flash time per operation", name(winner)));
    };
    let Some(ratio) = next.ratio(winner, Measure::MeanTime).filter(|_| time.mean > 0.0) else {
        let next_shown = show(Measure::MeanTime.quantity(), next_time.mean);
        return Some(format!(
            "{among}{} did not touch the chip, {}, the next best, took {next_shown} of flash time per operation",
            name(winner),
            name(next)
        ));
    };
    let tail = tail(&rows, &name);
    if equal.len() > 1 {
        let names: Vec<String> = equal.iter().map(|row| name(row)).collect();
        let simplest =
            simplest(&equal).map_or_else(String::new, |row| format!("; {} is the simplest", name(row)));
        return Some(format!(
            "{among}{} took the same flash time, {shown} per operation{simplest}{tail}",
            listed(&few(names)).unwrap_or_default(),
        ));
    }
    Some(format!(
        "{among}{} took the least flash time, {shown} per operation: {} less than {}, the next best ({}){}{tail}",
        name(winner),
        interval(ratio),
        name(next),
        show(Measure::MeanTime.quantity(), next_time.mean),
        price(winner, next)
    ))
}

/// The other rows that are as good as the first, within the noise.
pub fn ties<'r, 'a>(rows: &[(&'r Row<'a>, stats::Summary)]) -> Vec<&'r Row<'a>> {
    let Some((winner, _)) = rows.first() else { return Vec::new() };
    let as_good = |row: &&Row<'_>| {
        let ratio = row.ratio(winner, Measure::MeanTime);
        std::ptr::eq(*row, *winner) || ratio.is_some_and(|ratio| stats::is_as_good(&ratio))
    };
    rows.iter().map(|(row, _)| *row).filter(as_good).collect()
}

/// The row with the fewest parts; `None` if the registry does not know the indexes or several have the
/// fewest.
pub fn simplest<'r, 'a>(rows: &[&'r Row<'a>]) -> Option<&'r Row<'a>> {
    let parts = |row: &&Row<'_>| registry::subject(row.index).map_or(usize::MAX, |entry| entry.parts.len());
    let least = rows.iter().map(parts).min().filter(|least| *least < usize::MAX)?;
    let mut with_least = rows.iter().filter(|row| parts(row) == least);
    with_least.next().filter(|_| with_least.next().is_none()).copied()
}

/// The row whose slowest operations are shortest, in words, if it is not the winner.
fn tail(rows: &[(&Row<'_>, stats::Summary)], name: &dyn Fn(&Row<'_>) -> String) -> String {
    let measure = Measure::Permille(999);
    let known = rows.iter().filter_map(|(row, _)| Some((*row, row.value(measure)?.mean)));
    let (Some((best, least)), Some((winner, of_winner))) =
        (known.clone().min_by(|a, b| a.1.total_cmp(&b.1)), known.clone().next())
    else {
        return String::new();
    };
    if of_winner <= least * (1.0 + stats::NOISE) {
        return String::new();
    }
    let shown = |ns| show(measure.quantity(), ns);
    format!(
        "; 99.9 % of the operations end soonest with {} ({}, {} {})",
        name(best),
        shown(least),
        name(winner),
        shown(of_winner)
    )
}

/// The measure in which the winner loses most against the base, in words, if the loss is notable.
fn price(winner: &Row<'_>, base: &Row<'_>) -> String {
    let candidates = [
        (Measure::KindTime("get"), "time for a get"),
        (Measure::KindTime("range"), "time for a range"),
        (Measure::KindTime("window"), "time for a window"),
        (Measure::KindTime("nearest"), "time for the nearest"),
        (Measure::Space, "space"),
        (Measure::Ram, "RAM"),
        (Measure::BlockErases, "erases"),
    ];
    let losses = candidates.into_iter().filter_map(|(measure, what)| {
        let ratio = winner.ratio(base, measure)?.mean;
        (ratio >= NOTABLE).then_some((ratio, what))
    });
    match losses.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((ratio, what)) => format!(", with {}\u{d7} its {what}", digits(ratio)),
        None => String::new(),
    }
}

fn failures(summary: &Summary<'_>) -> Vec<String> {
    let names = |started: bool| {
        let failed = |row: &&&Row<'_>| row.failed.iter().any(|run| run.phases.is_empty() != started);
        let rows = summary.rows_as_asked();
        rows.iter().filter(failed).map(|row| row.label.clone()).collect::<Vec<_>>()
    };
    let told = [(names(false), "could not run"), (names(true), "did not finish")];
    told.into_iter().filter_map(|(names, how)| Some(format!("{} {how}", listed(&names)?))).collect()
}

/// At most four names; of more, the first three and a count.
fn few(mut names: Vec<String>) -> Vec<String> {
    if names.len() > 4 {
        let more = names.split_off(3).len();
        names.push(format!("{more} more"));
    }
    names
}

/// Names as prose lists them: "a, b and c".
fn listed(names: &[String]) -> Option<String> {
    let (last, rest) = names.split_last()?;
    Some(if rest.is_empty() { last.clone() } else { format!("{} and {last}", rest.join(", ")) })
}

/// A ratio with its interval over the seeds.
fn interval(ratio: stats::Summary) -> String {
    let mean = digits(ratio.mean);
    match ratio.ci95 {
        Some(half) if ratio.mean < 10.0 => format!("{mean} \u{b1} {half:.2}\u{d7}"),
        Some(half) => format!("{mean} \u{b1} {half:.1}\u{d7}"),
        None => format!("{mean}\u{d7}"),
    }
}

fn digits(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.1}") }
}

/// Starts a sentence with a capital, but never changes the name of an index.
fn capitalised(text: &str) -> String {
    match text.strip_prefix("of those") {
        Some(rest) => format!("Of those{rest}"),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex_lab::sample;

    fn only(indexes: &[&str]) -> Results {
        let mut results = sample::results();
        results.runs.retain(|r| indexes.contains(&r.index.as_str()));
        results
    }

    #[test]
    fn the_conclusion_is_written_into_the_results() {
        let mut results = sample::results();
        let expected = std::mem::take(&mut results.conclusion);
        conclude(&mut results);
        assert_eq!(results.conclusion, expected);
    }

    #[test]
    fn the_ratio_names_its_base_and_the_price() {
        assert_eq!(
            conclusion(&only(&["mu-tree", "bplus-wandering"])),
            "mu-tree took the least flash time, 943 \u{b5}s per operation: 3.24 \u{b1} 0.00\u{d7} less than bplus-wandering, the \
             next best (3.05 ms), with 2.03\u{d7} its space."
        );
    }

    #[test]
    fn classes_are_never_ranked_against_each_other() {
        let text = conclusion(&only(&["mu-tree", "bplus"]));
        assert_eq!(
            text,
            "Of those durable at every operation, mu-tree took 943 \u{b5}s of flash time per operation; of those durable \
             at every sync, bplus took 1.36 ms of flash time per operation; they promise different things after a \
             power cut and are not ranked against each other."
        );
    }

    #[test]
    fn a_clause_names_the_class_once() {
        let mut results = only(&["mu-tree"]);
        let mut weaker = results.runs.clone();
        weaker.iter_mut().for_each(|r| r.durability = "every sync".to_string());
        results.runs.extend(weaker);
        let text = conclusion(&results);
        assert!(text.starts_with("Of those durable at every operation, mu-tree took 943"), "{text}");
        assert!(text.contains("durable at every sync, mu-tree took 943"), "{text}");
    }

    #[test]
    fn equal_times_are_called_equal() {
        let mut results = only(&["mu-tree"]);
        let mut twins = results.runs.clone();
        twins.iter_mut().for_each(|r| r.index = "twin".to_string());
        results.runs.extend(twins);
        assert_eq!(
            conclusion(&results),
            "mu-tree and twin took the same flash time, 943 \u{b5}s per operation."
        );
    }

    #[test]
    fn an_index_that_never_touched_the_chip_has_no_ratio() {
        let mut results = only(&["mu-tree", "bplus-wandering"]);
        for run in results.runs.iter_mut().filter(|r| r.index == "mu-tree") {
            for phase in &mut run.phases {
                phase.total.flash_time_ns = 0;
            }
        }
        assert_eq!(
            conclusion(&results),
            "mu-tree did not touch the chip, bplus-wandering, the next best, took 3.05 ms of flash time per operation."
        );
    }

    #[test]
    fn failures_are_told() {
        assert_eq!(conclusion(&only(&["jffs3"])), "jffs3 could not run.");
        assert!(conclusion(&only(&["mu-tree", "jffs3"])).ends_with("; jffs3 could not run."));
        assert_eq!(conclusion(&only(&[])), "Nothing was measured.");
    }
}
