//! Comparisons of the same indexes with different RAM and workloads: which index to take at which RAM.

use super::conclusion::{ranked, simplest, ties};
use super::measure::Measure;
use super::scale::{Quantity, show};
use super::{Class, Summary};
use nandex_lab::results::Results;
use serde::Serialize;

/// Several comparisons, one for each workload and amount of RAM.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sets {
    /// Version of the layout of each comparison.
    pub schema: u32,
    /// The command that yields the same results again.
    pub command: String,
    /// The comparisons, workload by workload, with ascending RAM.
    pub sets: Vec<Results>,
    /// The conclusion: which index to take with which RAM.
    pub conclusion: String,
}

/// The best index of a class with one amount of RAM.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Win {
    /// RAM in bytes; absent if it is not limited.
    pub ram_bytes: Option<u64>,
    /// The index to take: the simplest of those as good as the best, or the best itself.
    pub index: String,
    /// The storage below the index.
    pub storage: String,
    /// Flash time per operation of the best index, in ns.
    pub time_ns: f64,
    /// The other indexes that are as good.
    pub equal: Vec<String>,
}

/// The best indexes of one workload and durability class with each amount of RAM.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wins {
    /// The name of the workload.
    pub workload: String,
    /// The durability class.
    pub durability: String,
    /// The best indexes, with ascending RAM.
    pub wins: Vec<Win>,
}

impl Sets {
    /// Collects comparisons and draws their conclusion.
    pub fn of(command: String, sets: Vec<Results>) -> Sets {
        let schema = sets.first().map_or(0, |results| results.schema);
        let lines: Vec<String> = wins(&sets).iter().map(Wins::words).collect();
        Sets { schema, command, sets, conclusion: lines.join("\n") }
    }
}

/// The best indexes of every class and workload.
pub fn wins(sets: &[Results]) -> Vec<Wins> {
    let mut all: Vec<Wins> = Vec::new();
    for results in sets {
        for class in &Summary::of(results).classes {
            let Some(win) = win(class, results.workload.ram_bytes) else { continue };
            let (workload, durability) = (&results.workload.name, class.durability);
            match all.iter_mut().find(|w| w.workload == *workload && w.durability == durability) {
                Some(known) => known.wins.push(win),
                None => all.push(Wins {
                    workload: workload.clone(),
                    durability: durability.to_string(),
                    wins: vec![win],
                }),
            }
        }
    }
    all.iter_mut().for_each(|w| w.wins.sort_by_key(|win| win.ram_bytes.unwrap_or(u64::MAX)));
    all
}

fn win(class: &Class<'_>, ram_bytes: Option<u64>) -> Option<Win> {
    let rows = ranked(class);
    let (best, time) = rows.first()?;
    let equal = ties(&rows);
    let taken = simplest(&equal).unwrap_or(best);
    let others = equal.iter().filter(|row| row.index != taken.index || row.storage != taken.storage);
    Some(Win {
        ram_bytes,
        index: taken.index.to_string(),
        storage: taken.storage.to_string(),
        time_ns: time.mean,
        equal: others.map(|row| row.index.to_string()).collect(),
    })
}

impl Wins {
    /// The best indexes in one line, with their RAM.
    pub fn words(&self) -> String {
        let mut groups: Vec<Vec<&Win>> = Vec::new();
        for win in &self.wins {
            match groups.last_mut().filter(|group| group[0].index == win.index) {
                Some(group) => group.push(win),
                None => groups.push(vec![win]),
            }
        }
        let last = groups.len().saturating_sub(1);
        let told: Vec<String> =
            groups.iter().enumerate().map(|(place, group)| told(group, place > 0 && place == last)).collect();
        let promise = match self.durability.as_str() {
            "none" => "nothing promised".to_string(),
            class => format!("durable at {class}"),
        };
        format!("{}, {promise}: {}.", self.workload, told.join("; "))
    }
}

/// Words such as `mu with 16 KiB to 64 KiB (1.2 ms to 0.9 ms)`, with the number of equally good indexes.
fn told(group: &[&Win], is_end: bool) -> String {
    let ram = |win: &Win| win.ram_bytes.map_or("any RAM".to_string(), |b| show(Quantity::Bytes, b as f64));
    let time = |win: &Win| show(Measure::MeanTime.quantity(), win.time_ns);
    let (first, end) = (group[0], group[group.len() - 1]);
    let (rams, times) = match (group.len(), is_end) {
        (1, false) => (format!("with {}", ram(first)), time(first)),
        (1, true) => (format!("from {}", ram(first)), time(first)),
        (_, true) => (format!("from {}", ram(first)), format!("{} to {}", time(first), time(end))),
        _ => (format!("with {} to {}", ram(first), ram(end)), format!("{} to {}", time(first), time(end))),
    };
    let equal = group.iter().map(|win| win.equal.len()).max().unwrap_or(0);
    let ties = match (equal, &end.equal[..]) {
        (0, _) => String::new(),
        (_, [one]) if equal == 1 => format!(", as good as {one}"),
        _ => format!(", simplest of {} as good", equal + 1),
    };
    format!("{} {rams} ({times}{ties})", first.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex_lab::sample;

    fn with(ram_kib: u64, indexes: &[&str]) -> Results {
        let mut results = sample::results();
        results.workload.ram_bytes = Some(ram_kib << 10);
        results
            .runs
            .retain(|run| indexes.contains(&run.index.as_str()) && run.durability == "every operation");
        results
    }

    #[test]
    fn it_says_which_index_at_which_ram() {
        let little = ["bplus-wandering"];
        let sets = vec![
            with(16, &little),
            with(32, &little),
            with(64, &["mu-tree", "bplus-wandering"]),
            with(128, &["mu-tree"]),
        ];
        let sets = Sets::of(String::new(), sets);
        assert_eq!(
            sets.conclusion,
            "mu-micro, durable at every operation: bplus-wandering with 16 KiB to 32 KiB (3.05 ms to 3.05 ms); \
             mu-tree from 64 KiB (943 \u{b5}s to 943 \u{b5}s)."
        );
    }

    #[test]
    fn ties_are_told_and_the_simplest_of_them_is_taken() {
        let mut results = with(64, &["mu-tree"]);
        for name in ["lazy-update", "bplus"] {
            let twins = results.runs.iter().filter(|run| run.index == "mu-tree").cloned().collect::<Vec<_>>();
            results.runs.extend(
                twins.into_iter().map(|run| nandex_lab::results::Run { index: name.to_string(), ..run }),
            );
        }
        let found = wins(&[results]);
        assert_eq!(found[0].wins[0].index, "bplus");
        assert_eq!(found[0].wins[0].equal, ["mu-tree", "lazy-update"]);
        assert!(found[0].words().contains("simplest of 3 as good"), "{}", found[0].words());
    }

    #[test]
    fn what_ran_as_nor_is_not_ranked() {
        let mut results = with(64, &["mu-tree", "bplus-wandering"]);
        let nor = results.runs.iter_mut().filter(|run| run.index == "mu-tree");
        nor.for_each(|run| run.storage += nandex_lab::results::AS_NOR);
        assert_eq!(wins(&[results])[0].wins[0].index, "bplus-wandering");
    }
}
