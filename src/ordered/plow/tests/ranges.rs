//! Reads of ranges of long records: each page of the last two levels once, and of the first of three levels a
//! few records at a time.

use super::*;
use crate::ordered::Direction;
use crate::ordered::plow::medium::COPIES;
use core::ops::{Bound, ControlFlow};

/// Records that a range visits, and ranges.
const VISITED: usize = 60;
const RANGES: u64 = 100;

/// Keys that are told apart by their first bytes, as the fences tell them.
fn spread(i: u64) -> Vec<u8> {
    let mut name = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
    name.resize(16, 1);
    name
}

/// Mean reads of a range by the pages of the levels: a span of so many pages touches one more.
fn most_reads(plow: &Plow<SimChip>, records: f64) -> f64 {
    let levels = &plow.core.stock.levels;
    let visited = VISITED as f64 / records;
    let pages = levels.iter().map(|level| level.pages() as f64 * visited + 1.0).sum::<f64>();
    // Copies are a read each, and one of the page that they push out of the input buffer.
    let copied =
        if levels.len() > 2 { levels[0].records as f64 * visited / COPIES as f64 + 1.0 } else { 0.0 };
    // A fence that was rounded down costs a page more now and then.
    (pages + 2.0 * copied) * 1.05
}

#[test]
fn ranges_of_long_records_read_each_page_once() {
    let records = 3_000u64;
    for (levels, direction) in [(2, Direction::Ascending), (3, Direction::Descending)] {
        let answers = Answers::Pool;
        let (memtable, levels) = (Some(100), Some(levels));
        let set = PlowConfig { memtable, levels, answers, ..settings(16, 60, Durability::EverySync) };
        let mut plow = Plow::format(chip(1024, 16, 256), &set).unwrap();
        let (mut rng, mut model) = (Rng::new(7), Model::new());
        for i in 0..3 * records {
            let name = spread(if i < records { i } else { rng.below(records) });
            let value: Vec<u8> = (0..60).map(|_| rng.below(255) as u8 + 1).collect();
            plow.put(&name, &value).unwrap();
            model.insert(name, value);
        }
        let before = plow.core.medium.nand.counters();
        for _ in 0..RANGES {
            let from = spread(rng.below(records));
            let mut seen = Vec::new();
            let mut visit = |key: &[u8], value: &[u8]| {
                seen.push((key.to_vec(), value.to_vec()));
                if seen.len() == VISITED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let bounds = match direction {
                Direction::Ascending => (Bound::Included(&from[..]), Bound::Unbounded),
                Direction::Descending => (Bound::Unbounded, Bound::Included(&from[..])),
            };
            plow.range(bounds.0, bounds.1, direction, &mut visit).unwrap();
            let owned = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
            let right: Vec<_> = match direction {
                Direction::Ascending => model.range(from..).take(VISITED).map(owned).collect(),
                Direction::Descending => model.range(..=from).rev().take(VISITED).map(owned).collect(),
            };
            assert!(seen == right, "{levels:?} {direction:?}");
        }
        let spent = plow.core.medium.nand.counters().since(&before).page_reads_total() as f64;
        let (reads, most) = (spent / RANGES as f64, most_reads(&plow, records as f64));
        assert!(plow.core.stock.levels.len() == levels.unwrap(), "{} levels", plow.core.stock.levels.len());
        assert!(reads <= most, "{reads} reads for {most}, {levels:?} {direction:?}");
    }
}
