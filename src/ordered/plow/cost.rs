//! Arithmetic of the cost of a set-up, and the search for the cheapest: the number of levels and the pages of
//! each.
//!
//! A sweep meets keys of the level above after they have gathered for a whole round, at twice the mean. So a
//! page that a step writes takes `2 S / n` records further down if `S` records wait above and `n` pages lie
//! below, and an operation costs `n / 2 S` programs for each level. A look-up reads a page of each level; on
//! the first level only the pages that its filters let through. The share of look-ups among the operations is
//! counted as they come (`Mix`).

/// Time of a page read, also of one that a step makes, in 256ths of the time of a program.
pub(super) const READ: u64 = 47;
/// Reads of a step: the page under the cursor twice, and the page above.
pub(super) const STEP_READS: u64 = 3;
/// Time of a step, in 256ths of the time of a program.
pub(super) const STEP: u64 = 256 + STEP_READS * READ;
/// Weight of a step against its time, in halves: it counts twice its time, since it wears the chip.
const WEAR: u64 = 4;
/// Short pages in a round of a level that is also swept from below.
const SHORT_PAGES: u64 = 3;
/// The value 1 in fixed-point numbers.
pub(super) const ONE: u64 = 1024;
pub(super) const LEVELS_MAX: usize = 3;

/// Numbers from which the cost of a set-up is reckoned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) pages: u64,
    pub(super) page_records: u64,
    /// Bits of a page for its records.
    pub(super) page_bits: u64,
    pub(super) memtable: u64,
    pub(super) filter_bits: u64,
    /// Largest number of levels allowed.
    pub(super) levels_max: usize,
    pub(super) mix: Mix,
}

/// Recent operations: the number of look-ups and of changes, older ones counted for less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mix {
    pub(super) gets: u32,
    pub(super) puts: u32,
}

impl Mix {
    /// Once this many operations are counted, both counts are halved.
    const WINDOW: u32 = 2048;

    /// Mix assumed before anything is known: one look-up for three changes.
    pub(super) const fn usual() -> Mix {
        Mix { gets: Mix::WINDOW / 8, puts: Mix::WINDOW / 8 * 3 }
    }

    /// Counts operations. True once a window is over.
    pub(super) fn count(&mut self, gets: u32, puts: u32) -> bool {
        if !cfg!(feature = "full") {
            return false;
        }
        self.gets += gets;
        self.puts += puts;
        let is_over = self.gets + self.puts >= Mix::WINDOW;
        if is_over {
            (self.gets, self.puts) = (self.gets / 2, self.puts / 2);
        }
        is_over
    }

    /// True if there is less than one change for 256 look-ups: then no level above the last is worth its
    /// reads.
    pub(super) fn only_reads(&self) -> bool {
        cfg!(feature = "full") && self.puts * 256 < self.gets
    }

    /// True if the share of changes differs by more than a 32nd of all operations or, if look-ups prevail, by
    /// more than a quarter of the changes.
    pub(super) fn differs(&self, other: &Mix) -> bool {
        let share = |mix: &Mix| mix.puts * 1024 / (mix.gets + mix.puts).max(1);
        let (one, two) = (share(self), share(other));
        self.only_reads() != other.only_reads() || one.abs_diff(two) > (one.max(two) / 4).clamp(8, 40)
    }
}

/// A set-up: the number of levels and their sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) levels: usize,
    /// Largest number of pages of each level above the last.
    pub(super) pages_max: [u64; LEVELS_MAX - 1],
    /// Cost of an operation, in 1024ths of a program.
    pub(super) cost: u64,
}

impl Plan {
    /// This plan, but with the second of three levels as large as in the plan `before`, if that costs at most
    /// a 64th more: if that level became smaller, the records beyond its new size would have to go down.
    pub(super) fn near(self, before: Plan, given: &Given) -> Plan {
        let [first, second] = [self.pages_max[0], before.pages_max[1]];
        if !cfg!(feature = "full") || self.levels < 3 || before.levels < 3 || second <= self.pages_max[1] {
            return self;
        }
        let cost = cost(given, &[first, second, given.pages]);
        if cost - cost / 64 <= self.cost { Plan { cost, pages_max: [first, second], ..self } } else { self }
    }
}

/// Share, in 1024ths, of absent keys to which a Bloom filter says yes, by its bits for each key.
fn wrong(bits: u64, keys: u64) -> u64 {
    const RATES: [u64; 9] = [1024, 633, 392, 242, 150, 93, 57, 35, 22];
    let eighths = (bits * 8 / keys.max(1)).min(63);
    let (whole, part) = ((eighths / 8) as usize, eighths % 8);
    (RATES[whole] * (8 - part) + RATES[whole + 1] * part) / 8
}

/// Costs of a set-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Costs {
    /// Programs of steps for each change, in units of 1/1024 of 1/1024.
    pub(super) steps: u64,
    /// Reads for each look-up, in 1024ths.
    pub(super) reads: u64,
}

/// Pages, in 1024ths, that `records` records of a level take. The further apart the keys, the longer their
/// codes.
pub(super) fn pages(given: &Given, records: u64, is_last: bool) -> u64 {
    let all = given.pages * given.page_records;
    let record = given.page_bits / given.page_records.max(1);
    let more = if is_last { 0 } else { 1 + u64::from((all / records.max(1)).max(1).ilog2()) };
    records * (record + more) * ONE / given.page_bits.max(1)
}

/// Costs of levels whose sizes in pages are `levels`, the last level included.
pub(super) fn costs(given: &Given, levels: &[u64]) -> Costs {
    let mut costs = Costs::default();
    let mut above = given.memtable.max(1);
    // A record that is changed again before it goes down a level is merged there.
    let all = (given.pages * given.page_records).max(1);
    let mut arriving = ONE;
    for (i, &size) in levels.iter().enumerate() {
        let (is_last, records) = (i + 1 == levels.len(), (size * given.page_records).max(1));
        // A page is short at the end of a round, and when a sweep comes up to the next one.
        let short = if is_last { ONE / 2 } else { SHORT_PAGES * ONE };
        arriving = arriving * all.saturating_sub(above) / all;
        costs.steps += (pages(given, records, is_last) + short) * arriving / (2 * above);
        let filtered = i == 0 && !is_last;
        costs.reads +=
            if filtered { wrong(given.filter_bits, records + given.page_records / 2) } else { ONE };
        above = records;
    }
    costs
}

/// Cost of an operation of the mix, in 1024ths of a program.
fn cost(given: &Given, levels: &[u64]) -> u64 {
    let costs = costs(given, levels);
    // Neither kind is ever ruled out, and some look-ups come after every load: a level too much would then
    // have to be drained.
    let (gets, puts) = (u64::from(given.mix.gets.max(given.mix.puts / 2)) + 1, u64::from(given.mix.puts) + 1);
    (puts * costs.steps / ONE * STEP * WEAR / 2 + gets * costs.reads * READ) / (256 * (gets + puts))
}

/// Calls `tell` with the sizes to try, each an eighth above the one before.
fn for_sizes(below: u64, tell: &mut dyn FnMut(u64)) {
    let mut size = 2;
    while size < below {
        tell(size);
        size += (size / 8).max(1);
    }
}

/// Without a search for the cheapest plan, a level has this many times the pages of the level above.
const RATIO: u64 = 16;

/// Set-up of a build without the search: each level has a 16th of the pages of the next.
fn by_rule(given: &Given, levels: usize) -> Plan {
    let above = (given.pages / RATIO).max(1);
    let pages_max = if levels > 2 { [(above / RATIO).max(1), above] } else { [above, 0] };
    Plan { levels, pages_max, cost: 0 }
}

/// Number of levels by the same rule: no level is smaller than the memtable.
fn levels_by_rule(given: &Given) -> usize {
    let mut levels = 1;
    let mut pages = given.pages / RATIO;
    while levels < given.levels_max.min(LEVELS_MAX) && pages * given.page_records.max(1) > given.memtable {
        (levels, pages) = (levels + 1, pages / RATIO);
    }
    levels
}

/// The cheapest set-up with this number of levels. `None` if that number makes no sense.
pub(super) fn plan_with(given: &Given, levels: usize) -> Option<Plan> {
    if !cfg!(feature = "full") {
        return Some(by_rule(given, levels));
    }
    let last = given.pages;
    let mut cheapest: Option<Plan> = None;
    let mut consider = |pages_max: [u64; LEVELS_MAX - 1]| {
        let mut sizes = [0; LEVELS_MAX];
        sizes[..levels - 1].copy_from_slice(&pages_max[..levels - 1]);
        sizes[levels - 1] = last;
        let cost = cost(given, &sizes[..levels]);
        if cheapest.is_none_or(|plan| cost < plan.cost) {
            cheapest = Some(Plan { levels, pages_max, cost });
        }
    };
    match levels {
        1 => consider([0; LEVELS_MAX - 1]),
        2 => for_sizes(last, &mut |first| consider([first, 0])),
        _ => {
            for_sizes(last, &mut |second| for_sizes(second, &mut |first| consider([first, second])));
        }
    }
    cheapest
}

/// The cheapest set-up of any number of levels.
pub(super) fn plan(given: &Given) -> Plan {
    if !cfg!(feature = "full") {
        return by_rule(given, levels_by_rule(given));
    }
    let mut cheapest = plan_with(given, 1).unwrap_or_default();
    for levels in 2..=given.levels_max.min(LEVELS_MAX) {
        cheapest = plan_with(given, levels).filter(|plan| plan.cost < cheapest.cost).unwrap_or(cheapest);
    }
    cheapest
}

#[cfg(test)]
#[cfg(feature = "full")]
mod tests {
    use super::*;

    fn given(pages: u64, memtable: u64, filter_bytes: u64) -> Given {
        Given {
            pages,
            page_records: 700,
            page_bits: 32_500,
            memtable,
            filter_bits: filter_bytes * 8,
            levels_max: LEVELS_MAX,
            mix: Mix::usual(),
        }
    }

    #[test]
    fn little_ram_takes_three_levels_and_more_takes_two() {
        let little = plan(&given(1400, 280, 1500));
        assert_eq!(little.levels, 3, "{little:?}");
        assert!(
            (3..12).contains(&little.pages_max[0]) && (40..200).contains(&little.pages_max[1]),
            "{little:?}"
        );
        let more = plan(&given(1400, 5000, 40_000));
        assert_eq!(more.levels, 2, "{more:?}");
        assert!((30..150).contains(&more.pages_max[0]), "{more:?}");
        assert_eq!(plan(&given(2, 280, 1500)).levels, 1);
    }

    #[test]
    fn look_ups_take_fewer_levels() {
        let levels = |gets, puts| plan(&Given { mix: Mix { gets, puts }, ..given(1400, 280, 1500) }).levels;
        assert_eq!([levels(0, 1000), levels(500, 500), levels(950, 50), levels(1000, 0)], [3, 3, 2, 1]);
        let mut mix = Mix::usual();
        let windows = (0..20_000).filter(|_| mix.count(1, 0)).count();
        assert!(windows > 15 && mix.puts == 0 && mix.differs(&Mix::usual()), "{windows} {mix:?}");
        let differ = |a, b| Mix { gets: 1000 - a, puts: a }.differs(&Mix { gets: 1000 - b, puts: b });
        assert!(differ(91, 50) && differ(50, 20) && !differ(60, 50) && !differ(500, 530) && differ(500, 550));
    }

    /// The rule is compiled out of most builds, but not out of this test.
    #[test]
    fn the_rule_costs_little_more_than_the_search() {
        for (pages, memtable) in [(1400, 280), (1400, 5000), (300, 100), (12_000, 280)] {
            let given = given(pages, memtable, 1500);
            let rule = by_rule(&given, levels_by_rule(&given));
            let mut sizes = rule.pages_max.to_vec();
            sizes.truncate(rule.levels - 1);
            sizes.push(pages);
            let (ruled, best) = (cost(&given, &sizes), plan(&given).cost);
            assert!(ruled >= best && ruled * 2 <= best * 3, "{given:?}: {ruled} of {rule:?}, at best {best}");
        }
    }

    #[test]
    fn more_ram_costs_no_more() {
        let mut last = u64::MAX;
        for memtable in [100, 200, 400, 800, 1600, 3200, 6400] {
            let cost = plan(&given(1400, memtable, memtable * 5)).cost;
            assert!(cost <= last, "{memtable}: {cost}");
            last = cost;
        }
    }

    #[test]
    fn a_filter_with_more_bits_is_wrong_less_often() {
        let rates: alloc::vec::Vec<u64> = (0..12).map(|bits| wrong(bits * 100, 100)).collect();
        assert!(rates.is_sorted_by(|a, b| a >= b) && rates[0] == ONE && rates[8] < 30, "{rates:?}");
    }
}
