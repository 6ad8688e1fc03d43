//! Statistics of a trace: kinds of operations, keys, skew, locality, and how these change over time.

use super::{Record, RecordKind, Trace};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Number of slices of a trace.
const SLICES: usize = 60;

/// Largest difference between the shares of two neighbouring slices of one phase: the share of operations
/// that would have to be of another kind.
const SAME_PHASE: f64 = 0.15;

/// Number of columns and rows in the picture of keys over time.
pub const PICTURE: (usize, usize) = (120, 48);

/// The statistics of a trace. Shares are between 0 and 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceStats {
    /// The trace's name.
    pub name: String,
    /// Number of operations.
    pub operations: u64,
    /// Number of operations by kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Number of records before the trace.
    pub records_before: u64,
    /// Number of operations that contradict those before them.
    pub contradictions: u64,
    /// The indexes of the trace by number.
    pub trees: BTreeMap<u8, TreeStats>,
    /// Number of distinct keys that are accessed.
    pub distinct_keys: u64,
    /// Mean number of records that a range search visits; absent without range searches.
    pub range_records_mean: Option<f64>,
    /// Skew of the accesses: pairs of a share of the keys, the most popular ones, and their share of the
    /// operations.
    pub skew: Vec<(f64, f64)>,
    /// Exponent of the Zipf distribution that fits the skew best; 0 is uniform, YCSB uses 0.99. Absent with
    /// too few keys.
    pub zipf_exponent: Option<f64>,
    /// Distance of a key from the previous one: pairs of a number of ranks and the share of operations at
    /// most that far.
    pub nearness: Vec<(u64, f64)>,
    /// Reuse of keys: pairs of the size of an LRU cache in keys and the share of operations that it would
    /// hit.
    pub reuse: Vec<(u64, f64)>,
    /// Slices of the trace with equal numbers of operations.
    pub slices: Vec<Slice>,
    /// Phases: runs of similar slices.
    pub phases: Vec<Phase>,
    /// Number of operations by time (one column each) and rank of the key (from the smallest), column by
    /// column.
    pub picture: Vec<Vec<u32>>,
}

/// The statistics of one index of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TreeStats {
    /// Number of operations.
    pub operations: u64,
    /// Most records at one time.
    pub records_max: u64,
    /// Number of records at the end.
    pub records_end: u64,
    /// The smallest key.
    pub key_min: u64,
    /// The largest key.
    pub key_max: u64,
}

/// One slice of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Slice {
    /// The first operation of the slice, counted from 0.
    pub first: u64,
    /// Number of operations in the slice.
    pub operations: u64,
    /// Share of each kind of operation.
    pub shares: BTreeMap<&'static str, f64>,
    /// Number of distinct keys accessed in the slice.
    pub distinct_keys: u64,
}

/// A phase: a run of similar slices.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Phase {
    /// The first operation of the phase, counted from 0.
    pub first: u64,
    /// Number of operations in the phase.
    pub operations: u64,
    /// Share of each kind of operation.
    pub shares: BTreeMap<&'static str, f64>,
}

fn name(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Hit => "hit",
        RecordKind::Miss => "miss",
        RecordKind::Get => "get",
        RecordKind::Insert => "insert",
        RecordKind::Delete => "remove",
        RecordKind::Modify => "update",
        RecordKind::Range => "range",
        RecordKind::Sync => "sync",
    }
}

impl TraceStats {
    /// The statistics of `trace`.
    pub fn of(trace: &Trace) -> TraceStats {
        let summary = trace.summary();
        let ranks = ranks(&trace.records);
        let distinct = ranks.iter().flatten().max().map_or(0, |rank| u64::from(*rank) + 1);
        let mut stats = TraceStats {
            name: trace.name.clone(),
            operations: trace.records.len() as u64,
            records_before: summary.init_records,
            contradictions: summary.contradictions,
            distinct_keys: distinct,
            ..TraceStats::default()
        };
        for (number, tree) in &summary.trees {
            let &super::TreeSummary { operations, records_max, records_end, key_min, key_max } = tree;
            stats.trees.insert(*number, TreeStats { operations, records_max, records_end, key_min, key_max });
        }
        trace.records.iter().for_each(|record| *stats.kinds.entry(name(record.kind)).or_default() += 1);
        let ranges = trace.records.iter().filter(|record| record.kind == RecordKind::Range);
        let (count, visited) = ranges.fold((0u64, 0u64), |(n, sum), r| (n + 1, sum + u64::from(r.count)));
        stats.range_records_mean = (count > 0).then(|| visited as f64 / count as f64);
        let asked: Vec<u32> = ranks.iter().flatten().copied().collect();
        (stats.skew, stats.zipf_exponent) = skew(&asked, distinct as usize);
        stats.nearness = nearness(&asked);
        stats.reuse = reuse(&asked, distinct as usize);
        stats.slices = slices(&trace.records, &ranks);
        stats.phases = phases(&stats.slices);
        stats.picture = picture(&ranks, distinct);
        stats
    }
}

/// The rank of each operation's key among all accessed keys; `None` for a sync.
fn ranks(records: &[Record]) -> Vec<Option<u32>> {
    let with_key = |record: &&Record| record.kind != RecordKind::Sync;
    let mut keys: Vec<(u8, u64)> = records.iter().filter(with_key).map(|r| (r.tree, r.key)).collect();
    keys.sort_unstable();
    keys.dedup();
    let rank = |record: &Record| keys.binary_search(&(record.tree, record.key)).ok().map(|rank| rank as u32);
    records.iter().map(|record| if with_key(&record) { rank(record) } else { None }).collect()
}

/// The shares of the keys for which the skew is given.
const SHARES: [f64; 7] = [0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0];

fn skew(asked: &[u32], distinct: usize) -> (Vec<(f64, f64)>, Option<f64>) {
    if asked.is_empty() {
        return (Vec::new(), None);
    }
    let mut counts = vec![0u64; distinct];
    asked.iter().for_each(|rank| counts[*rank as usize] += 1);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let total = asked.len() as f64;
    let of_first = |share: f64| {
        let keys = ((distinct as f64 * share).ceil() as usize).clamp(1, distinct);
        (share, counts[..keys].iter().sum::<u64>() as f64 / total)
    };
    (SHARES.map(of_first).to_vec(), zipf(&counts))
}

/// Least and most number of keys for the fit of the exponent. The most popular ones are used, since they
/// have enough operations each.
const ZIPF_KEYS: (usize, usize) = (20, 2000);

/// The slope of popularity over rank on logarithmic scales, by least squares over ranks that are evenly
/// spaced there.
fn zipf(counts: &[u64]) -> Option<f64> {
    let popular = counts.iter().take(ZIPF_KEYS.1).take_while(|count| **count >= 5).count();
    if popular < ZIPF_KEYS.0 {
        return None;
    }
    let mut places = BTreeSet::new();
    let mut place = 1.0f64;
    while place <= popular as f64 {
        places.insert(place as usize);
        place *= 1.15;
    }
    let points: Vec<(f64, f64)> =
        places.iter().map(|rank| ((*rank as f64).ln(), (counts[rank - 1] as f64).ln())).collect();
    let count = points.len() as f64;
    let mean = points.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0 / count, sum.1 + p.1 / count));
    let products: f64 = points.iter().map(|p| (p.0 - mean.0) * (p.1 - mean.1)).sum();
    let squares: f64 = points.iter().map(|p| (p.0 - mean.0) * (p.0 - mean.0)).sum();
    (squares > 0.0).then(|| (-products / squares).max(0.0))
}

/// The distances, in ranks, for which the nearness is given.
const DISTANCES: [u64; 5] = [0, 1, 16, 256, 4096];

fn nearness(asked: &[u32]) -> Vec<(u64, f64)> {
    let steps = asked.len().saturating_sub(1);
    if steps == 0 {
        return Vec::new();
    }
    let near = |distance: u64| {
        let is_near = |pair: &&[u32]| u64::from(pair[0].abs_diff(pair[1])) <= distance;
        (distance, asked.windows(2).filter(is_near).count() as f64 / steps as f64)
    };
    DISTANCES.map(near).to_vec()
}

/// The exact hits of LRU caches with 1, 2, 4, ... keys. They follow from the number of other keys since the
/// previous access, which a tree of sums over the operations counts.
fn reuse(asked: &[u32], distinct: usize) -> Vec<(u64, f64)> {
    if asked.is_empty() {
        return Vec::new();
    }
    let mut sums = Sums(vec![0; asked.len() + 1]);
    let mut last = vec![usize::MAX; distinct];
    let mut hits = [0u64; 40];
    for (at, rank) in asked.iter().enumerate() {
        let before = std::mem::replace(&mut last[*rank as usize], at);
        if before != usize::MAX {
            // Keys between, and the key itself.
            let others = sums.up_to(at) - sums.up_to(before);
            hits[(u64::from(others).max(1)).next_power_of_two().trailing_zeros() as usize] += 1;
            sums.add(before, -1);
        }
        sums.add(at, 1);
    }
    let mut all = 0;
    let sizes = (0..40u32).take_while(|power| *power == 0 || 1u64 << (power - 1) < distinct as u64);
    sizes
        .map(|power| {
            all += hits[power as usize];
            (1 << power, all as f64 / asked.len() as f64)
        })
        .collect()
}

/// Sums of the first elements of a list (Fenwick 1994).
struct Sums(Vec<i32>);

impl Sums {
    fn add(&mut self, at: usize, by: i32) {
        let mut at = at + 1;
        while at < self.0.len() {
            self.0[at] += by;
            at += at & at.wrapping_neg();
        }
    }

    /// The sum of the elements before `end`.
    fn up_to(&self, end: usize) -> u32 {
        let (mut at, mut sum) = (end, 0);
        while at > 0 {
            sum += self.0[at];
            at &= at - 1;
        }
        sum.max(0) as u32
    }
}

fn slices(records: &[Record], ranks: &[Option<u32>]) -> Vec<Slice> {
    let size = records.len().div_ceil(SLICES).max(1);
    let parts = records.chunks(size).zip(ranks.chunks(size)).enumerate();
    let slice = |(number, (records, ranks)): (usize, (&[Record], &[Option<u32>]))| {
        let mut shares = BTreeMap::new();
        let one = 1.0 / records.len() as f64;
        records.iter().for_each(|record| *shares.entry(name(record.kind)).or_insert(0.0) += one);
        let distinct: BTreeSet<u32> = ranks.iter().flatten().copied().collect();
        let operations = records.len() as u64;
        Slice { first: (number * size) as u64, operations, shares, distinct_keys: distinct.len() as u64 }
    };
    parts.map(slice).collect()
}

/// Half the sum of the differences: the share of operations that would have to be of another kind.
fn difference(one: &BTreeMap<&'static str, f64>, other: &BTreeMap<&'static str, f64>) -> f64 {
    let names: BTreeSet<&&str> = one.keys().chain(other.keys()).collect();
    let share = |shares: &BTreeMap<&'static str, f64>, name: &str| shares.get(name).copied().unwrap_or(0.0);
    names.into_iter().map(|name| (share(one, name) - share(other, name)).abs()).sum::<f64>() / 2.0
}

fn phases(slices: &[Slice]) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    for (at, slice) in slices.iter().enumerate() {
        let Slice { first, operations, shares, .. } = slice.clone();
        let phase = Phase { first, operations, shares };
        let Some(last) = phases.last_mut() else {
            phases.push(phase);
            continue;
        };
        let before = difference(&last.shares, &phase.shares);
        // A slice in which one phase ends and the next begins is of the nearer one.
        let after = slices.get(at + 1).map_or(0.0, |next| difference(&next.shares, &phase.shares));
        let is_border = after >= SAME_PHASE && before <= after;
        // The rest of a trace is too few operations to say anything.
        let is_rest = slice.operations * 2 < slices[0].operations;
        if before < SAME_PHASE || is_border || is_rest { last.take(&phase) } else { phases.push(phase) }
    }
    phases
}

impl Phase {
    /// Adds the next slice or phase to this phase.
    fn take(&mut self, next: &Phase) {
        let whole = (self.operations + next.operations) as f64;
        let (old, new) = (self.operations as f64 / whole, next.operations as f64 / whole);
        self.shares.values_mut().for_each(|share| *share *= old);
        for (name, share) in &next.shares {
            *self.shares.entry(name).or_insert(0.0) += share * new;
        }
        self.operations += next.operations;
    }
}

fn picture(ranks: &[Option<u32>], distinct: u64) -> Vec<Vec<u32>> {
    let (columns, rows) = PICTURE;
    let mut picture = vec![vec![0; rows]; columns];
    for (at, rank) in ranks.iter().enumerate() {
        if let Some(rank) = rank {
            let row = u64::from(*rank) * rows as u64 / distinct.max(1);
            picture[at * columns / ranks.len()][row as usize] += 1;
        }
    }
    picture
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::text;

    fn of(lines: &[String]) -> TraceStats {
        let records = text::read(lines.join("\n").as_bytes(), u64::MAX).unwrap();
        TraceStats::of(&Trace { name: "t".into(), init: Vec::new(), records })
    }

    #[test]
    fn even_and_uneven_keys_are_told_apart() {
        let even = of(&(0..4000).map(|i| format!("get {}", i % 100)).collect::<Vec<_>>());
        assert_eq!((even.distinct_keys, even.kinds["get"]), (100, 4000));
        let half = even.skew.iter().find(|(share, _)| *share == 0.5).unwrap();
        assert!((half.1 - 0.5).abs() < 1e-9, "{:?}", even.skew);
        assert!(even.zipf_exponent.unwrap() < 0.01);
        // Round and round: a cache of less than all keys has none of them.
        let has = |stats: &TraceStats, size: u64| stats.reuse.iter().find(|(s, _)| *s == size).unwrap().1;
        assert_eq!((has(&even, 64), has(&even, 128)), (0.0, 3900.0 / 4000.0));
        let counts = (1..=100u64).flat_map(|rank| (0..10_000 / rank).map(move |_| format!("get {rank}")));
        let zipf = of(&counts.collect::<Vec<_>>());
        assert!((zipf.zipf_exponent.unwrap() - 1.0).abs() < 0.02, "{:?}", zipf.zipf_exponent);
        // One key after the other.
        assert!(has(&zipf, 1) > 0.99);
        assert_eq!(zipf.nearness.last().unwrap().1, 1.0);
    }

    #[test]
    fn phases_are_where_the_mix_changes() {
        let load = (0..600).map(|i| format!("insert {i}"));
        let read = (0..600).map(|i| format!("hit {}", i * 7 % 600));
        let stats = of(&load.chain(read).chain(["range 3 40".into(), "sync".into()]).collect::<Vec<_>>());
        assert_eq!(stats.phases.len(), 2, "{:?}", stats.phases);
        assert!(stats.phases[1].first.abs_diff(600) < 30 && stats.phases[1].shares["hit"] > 0.99);
        assert_eq!(stats.range_records_mean, Some(40.0));
        let drawn: u64 = stats.picture.iter().flatten().map(|n| u64::from(*n)).sum();
        assert_eq!(drawn, stats.operations - 1, "a sync has no key");
        assert_eq!(stats.trees[&0].records_max, 600);
    }

    #[test]
    fn an_empty_trace_has_figures_too() {
        let stats = of(&[]);
        assert_eq!((stats.operations, stats.skew.len(), stats.phases.len()), (0, 0, 0));
    }
}
