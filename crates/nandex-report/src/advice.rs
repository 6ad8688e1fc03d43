//! An answer for a terminal: the index to take, then its costs, the indexes that are as good, and the
//! conditions under which another would win.

use super::grid::{Side, grid};
use super::table::wrap;
use crate::summary::scale::{Quantity, show, show_count};
use nandex_lab::advise::{Advice, Contender, Life, USUAL_RAM, Want};
use std::fmt::Write as _;

/// Most equally good contenders that the answer names.
const NAMED: usize = 4;

/// Most finalists that are listed.
const LISTED: usize = 8;

/// Renders the answer for a terminal with `width` columns.
pub fn render(advice: &Advice, width: usize) -> String {
    let mut out = wrap(&question(advice), width);
    let Some(answer) = &advice.answer else {
        let peer = advice.peer.map(|peer| format!("\n{peer}")).unwrap_or_default();
        return out + "\n" + &wrap(&(nothing(advice) + &peer), width);
    };
    out += "\n";
    out += &wrap(&headline(advice, answer), width);
    out += "\n";
    out += &grid(
        &["costs".to_string(), answer.name.clone()],
        &[Side::Left, Side::Left],
        &costs(answer).map(|(what, value)| vec![what.to_string(), value]),
    );
    out += "\n";
    out += &finalists(advice, answer);
    out += &wrap(&turns(advice), width);
    for (what, lines) in [("Rust", Some(&advice.rust)), ("C", advice.c.as_ref())]
        .into_iter()
        .filter_map(|(w, l)| Some((w, l?)))
    {
        let _ = write!(out, "\n{what}:\n{lines}");
    }
    if advice.c.is_none() {
        out += &wrap("\nC: the library for C has no such index, or not with these options.", width);
    }
    out
}

fn ram(advice: &Advice) -> String {
    let shown = show(Quantity::Bytes, advice.ram_bytes as f64);
    let assumed = advice.request.ram.is_none() && advice.ram_bytes == USUAL_RAM;
    format!("{shown} of RAM{}", if assumed { " (assumed; --ram says other)" } else { "" })
}

/// The question as it was understood.
fn question(advice: &Advice) -> String {
    let seeds = match &advice.seeds[..] {
        [_] => String::new(),
        seeds => format!(", {} seeds", seeds.len()),
    };
    format!(
        "{} on {}, {}, durable at {}{}: {} operations{seeds}, {} stacks tried for {}",
        advice.workload,
        advice.chip.name,
        ram(advice),
        advice.request.durability.replace('-', " "),
        advice.request.sync_every.map_or_else(String::new, |n| format!(", a sync every {n} changes")),
        show_count(advice.operations),
        advice.stacks,
        advice.request.want.words(),
    )
}

fn nothing(advice: &Advice) -> String {
    let enough = advice.by_ram.last().map_or_else(
        || String::from("nor with any RAM that was tried"),
        |at| format!("{} runs with {}", at.name, show(Quantity::Bytes, at.ram_bytes as f64)),
    );
    let mut out = format!("Nothing runs so; {enough}.");
    for (index, why) in &advice.refused {
        let _ = write!(out, "\n! {index}: {why}");
    }
    out
}

/// The answer in two sentences.
pub(crate) fn headline(advice: &Advice, answer: &Contender) -> String {
    let figures = &answer.figures;
    let mut out = format!(
        "Take {}: {} of chip time per operation, 99.9 % of them within {}, {} of life {}.",
        answer.name,
        show(Quantity::Time, figures.mean_ns),
        show(Quantity::Time, figures.p999_ns),
        years(&answer.life),
        at_rate(answer.life.rate),
    );
    let equals: Vec<&str> =
        advice.others.iter().filter(|o| o.is_equivalent).map(|o| o.name.as_str()).collect();
    out += &match equals.len() {
        0 => match advice.others.first() {
            Some(next) => {
                format!(" {} is next, with {:.2} times the {}.", next.name, next.costs_times, what(advice))
            }
            None => String::from(" Nothing else runs."),
        },
        n if n > NAMED => format!(
            " As good, with more parts or RAM: {} and {} more.",
            equals[..NAMED].join(", "),
            n - NAMED
        ),
        _ => format!(" As good, with more parts or RAM: {}.", listed(&equals)),
    };
    out
}

fn what(advice: &Advice) -> &'static str {
    match advice.request.want {
        Want::Time => "time",
        Want::Energy => "energy",
        Want::Lifetime => "wear",
        Want::Space => "space",
        Want::Tail => "time at p99.9",
        Want::Boot => "time of mount and first change",
    }
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => one.to_string(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

fn at_rate(rate: f64) -> String {
    if rate == 1.0 {
        "at one operation a second".to_string()
    } else {
        format!("at {rate} operations a second")
    }
}

/// The years until the most worn block is worn out, in words. If few blocks were erased, wear may be uneven,
/// and the years are the most there can be.
fn years(life: &Life) -> String {
    let number = |years: f64| match years {
        y if !y.is_finite() => "no end".to_string(),
        y if y >= 1000.0 => "over 1,000 years".to_string(),
        y if y >= 10.0 => format!("{y:.0} years"),
        y if y >= 0.1 => format!("{y:.1} years"),
        y => format!("{:.1} days", y * 365.25),
    };
    match life.worst_years {
        Some(years) => number(years),
        None if life.even_years.is_finite() => format!("up to {}", number(life.even_years)),
        None => number(life.even_years),
    }
}

fn costs(answer: &Contender) -> [(&'static str, String); 13] {
    let f = &answer.figures;
    let time = |ns: f64| show(Quantity::Time, ns);
    let some = |ns: Option<f64>| ns.map_or_else(|| "-".to_string(), time);
    let wear = match f.wear_max_over_mean {
        Some(uneven) => format!("{uneven:.2} (most worn block over the mean)"),
        None => "too few erases to tell how uneven".to_string(),
    };
    [
        ("time per operation", time(f.mean_ns)),
        ("a read, a change", format!("{}, {}", some(f.read_ns), some(f.change_ns))),
        ("p50, p99, p99.9", format!("{}, {}, {}", time(f.p50_ns), time(f.p99_ns), time(f.p999_ns))),
        ("the slowest", time(f.worst_ns)),
        ("energy per operation", show(Quantity::Energy, f.energy_nj)),
        (
            "reads, programs, erases",
            format!("{:.3}, {:.3}, {:.5} per operation", f.page_reads, f.page_programs, f.block_erases),
        ),
        ("life of the chip", format!("{} {}", years(&answer.life), at_rate(answer.life.rate))),
        ("wear", wear),
        ("RAM held", show(Quantity::Bytes, f.ram_bytes)),
        ("space", show(Quantity::Bytes, f.space_bytes)),
        ("mount after it", some(f.boot.mount_ns)),
        ("mount after a cut, with the first change", some(f.boot.mount_and_change_ns)),
        ("the slowest of 1,000 operations after it", some(f.boot.session_worst_ns)),
    ]
}

fn finalists(advice: &Advice, answer: &Contender) -> String {
    let heads = ["finalist", "times", "per op", "p99.9", "energy/op", "life", "RAM", "space", "parts", ""];
    let sides = [Side::Left; 1].into_iter().chain([Side::Right; 8]).chain([Side::Left]).collect::<Vec<_>>();
    let row = |one: &Contender| {
        let f = &one.figures;
        vec![
            named(one),
            format!("{:.2}", one.costs_times),
            show(Quantity::Time, f.mean_ns),
            show(Quantity::Time, f.p999_ns),
            show(Quantity::Energy, f.energy_nj),
            years(&one.life),
            show(Quantity::Bytes, f.ram_bytes),
            show(Quantity::Bytes, f.space_bytes),
            one.parts.to_string(),
            if one.is_equivalent { "as good" } else { "" }.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(answer).chain(advice.others.iter().take(LISTED)).map(row).collect();
    grid(&heads.map(String::from), &sides, &rows)
}

/// The name with the options that differ from the defaults.
fn named(one: &Contender) -> String {
    let set =
        one.options.iter().filter(|(name, _)| *name != "ftl").map(|(name, value)| format!(" {name}={value}"));
    one.name.clone() + &set.collect::<String>()
}

fn turns(advice: &Advice) -> String {
    let mut out = String::new();
    if !advice.turns.is_empty() {
        out += "\nThe answer would be another:\n";
        advice.turns.iter().for_each(|turn| out += &format!("- {}\n", turn.words));
    }
    let points: Vec<String> = advice
        .by_ram
        .iter()
        .map(|at| format!("{} {}", show(Quantity::Bytes, at.ram_bytes as f64), at.name))
        .collect();
    if !points.is_empty() {
        let _ = write!(out, "\nBy RAM: {}.", points.join("; "));
    }
    if let Some(peer) = advice.peer {
        let _ = write!(out, "\n{peer}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex_lab::advise::{Request, advise};
    use std::collections::BTreeMap;

    fn advice(ram: u64) -> Advice {
        let options = [("records", "200"), ("operations", "100")];
        let options: BTreeMap<_, _> = options.map(|(n, v)| (n.to_string(), v.to_string())).into();
        let workload = Some("uniform".to_string());
        advise(&Request { workload, options, seeds: 1, ram: Some(ram), ..Request::default() }).unwrap()
    }

    #[test]
    fn the_answer_comes_first_and_what_is_equal_is_said_to_be() {
        let mut advice = advice(64 << 10);
        let text = render(&advice, 100);
        let answer = advice.answer.clone().unwrap();
        assert!(text.contains(&format!("Take {}:", answer.name)), "{text}");
        assert!(text.contains("at one operation a second") && text.contains("Rust:\nlet settings"), "{text}");
        advice.others.truncate(1);
        advice.others[0].is_equivalent = true;
        assert!(
            headline(&advice, &answer).contains("As good, with more parts"),
            "{}",
            headline(&advice, &answer)
        );
        advice.others[0].is_equivalent = false;
        assert!(headline(&advice, &answer).contains("is next"), "{}", headline(&advice, &answer));
        assert!(!text.contains("littlefs"), "a chip and RAM of ours: {text}");
        advice.peer = Some("littlefs may fit better");
        assert!(render(&advice, 100).contains("\nlittlefs may fit better\n"));
        let none =
            Advice { answer: None, refused: [("mu".to_string(), "no RAM".to_string())].into(), ..advice };
        let text = render(&none, 100);
        assert!(text.contains("littlefs may fit better"), "{text}");
        assert!(text.contains("Nothing runs so") && text.contains("! mu: no RAM"), "{text}");
    }

    #[test]
    fn years_are_told_in_words_that_fit() {
        let life = |even_years, worst_years| years(&Life { rate: 1.0, even_years, worst_years });
        let words = [f64::INFINITY, 5e4, 12.3, 0.5, 0.01].map(|years| life(years, Some(years)));
        assert_eq!(words, ["no end", "over 1,000 years", "12 years", "0.5 years", "3.7 days"]);
        assert_eq!(life(40.0, Some(5.0)), "5.0 years", "the most worn block decides");
        assert_eq!(life(40.0, None), "up to 40 years", "nobody knows how uneven wear is");
        assert_eq!(life(f64::INFINITY, None), "no end");
    }
}
