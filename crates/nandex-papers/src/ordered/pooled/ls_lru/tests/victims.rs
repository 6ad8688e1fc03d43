//! The choice of a write-minimized commit against brute force, and the paper's Figure 5 step by step.

use super::super::victims::{Class, choose, classes, writes};
use super::*;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use proptest::prelude::*;

/// A unit as a row of the statistical table: entries freed and nodes written.
type Row = (u64, u32);

fn classes_of(rows: &[Row]) -> Vec<Class> {
    let mut by_writes: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    rows.iter().for_each(|(freed, writes)| by_writes.entry(*writes).or_default().push(*freed));
    let class = |(writes, mut sizes): (u32, Vec<u64>)| {
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let mut sum = 0;
        let freed = sizes.iter().map(|size| {
            sum += size;
            sum
        });
        Class { writes, freed: freed.collect() }
    };
    by_writes.into_iter().map(class).collect()
}

fn outcome(classes: &[Class], counts: &[usize]) -> (u32, u64) {
    let chosen = classes.iter().zip(counts).filter(|(_, count)| **count > 0);
    chosen.fold((0, 0), |(writes, freed), (class, &count)| {
        (writes + class.writes * count as u32, freed + class.freed[count - 1])
    })
}

/// The fewest writes of any set of rows that frees `least` entries, and the most entries freed with those
/// writes.
fn brute_force(rows: &[Row], least: u64) -> Option<(u32, u64)> {
    let sets = (0u32..1 << rows.len()).map(|set| {
        let members = rows.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
        members.fold((0, 0), |(writes, freed), (_, row)| (writes + row.1, freed + row.0))
    });
    let enough = sets.filter(|(_, freed)| *freed >= least);
    enough.min_by_key(|(writes, freed)| (*writes, u64::MAX - freed))
}

proptest! {
    #![proptest_config(crate::inputs::fixed(2_000))]

    #[test]
    fn the_choice_has_the_fewest_writes_of_all_sets(
        pairs in proptest::collection::vec((1..40u32, 0..11u32), 1..13),
        least in 1..200u64,
    ) {
        let rows: Vec<Row> = pairs.iter().map(|&(b, n)| (u64::from(b), writes(b, n, 10))).collect();
        let classes = classes_of(&rows);
        let chosen = outcome(&classes, &choose(&classes, least));
        let all = (rows.iter().map(|row| row.1).sum(), rows.iter().map(|row| row.0).sum());
        prop_assert_eq!(chosen, brute_force(&rows, least).unwrap_or(all));
    }
}

#[test]
fn the_writes_of_a_unit_are_the_formula_s_where_it_overflows() {
    // The pairs that the paper names: four entries that fit, five that do not.
    assert_eq!((writes(4, 6, 10), writes(5, 6, 10), writes(9, 2, 10)), (1, 3, 3));
    assert_eq!((writes(10, 0, 10), writes(11, 0, 10), writes(30, 10, 10)), (1, 3, 6));
}

/// Five leaves as in Figure 5 with dirty units: (#B, #N) is (9, 2), (4, 6), (5, 6), (2, 7) and (3, 7). A
/// leaf holds at most 10 entries. A leaf of fewer than five does not occur, so the first has five: 9 more
/// do not fit, as in the figure.
pub(super) fn figure_5(commit: CommitPolicy) -> LsLruTree<Store> {
    let config = LsLruConfig { window_percent: 100, commit_entries: 6, commit, ..config(10, 40) };
    let mut index = small_index(config);
    let keys = |leaf: u16, count: u16| (0..count).map(move |i| key(leaf * 100 + 10 + 2 * i));
    let sizes = [5, 6, 6, 7, 7];
    // Loaded full, and thinned out below the buffer.
    let full = (1..=5).flat_map(|leaf| keys(leaf, 10));
    index.bulk_load(full.map(|key| (key, [0; 2])), Fill::FULL).unwrap();
    for (leaf, size) in (1..=5).zip(sizes) {
        for key in keys(leaf, 10).skip(size) {
            index.tree.remove(&key).unwrap();
        }
    }
    for (leaf, new) in (1..=5u16).zip([9u16, 4, 5, 2, 3]) {
        for i in 0..new {
            index.insert(&key(leaf * 100 + 11 + 2 * i), &[1; 2]).unwrap();
        }
    }
    let clean: Vec<u32> = index.buffer().units.all().filter(|&u| is_semi_clean(&index, u)).collect();
    clean.into_iter().for_each(|unit| index.buffer_mut().drop_frame(unit));
    index
}

fn is_semi_clean(index: &LsLruTree<Store>, unit: u32) -> bool {
    index.buffer().units.get(unit).state() == Some(State::SemiClean)
}

#[test]
fn figure_5_step_by_step() {
    let mut index = figure_5(CommitPolicy::WriteMinimized);
    assert!((1..=5).all(|leaf| state_of(&mut index, leaf * 100 + 11) == Some(State::Dirty)));
    // The statistical table: one write for 4, 3 and 2 entries, three for 9 and 5.
    let table = classes(&index.buffer().units, 100);
    let expected = [(1, vec![4, 7, 9]), (3, vec![9, 14])].map(|(writes, freed)| Class { writes, freed });
    assert_eq!(table, expected);
    // Six entries are wanted. The unit with most entries, or the oldest, would cost three writes; two of one
    // write do.
    assert_eq!(choose(&table, 6), [2, 0]);
    let before = host_writes(&index);
    assert_eq!(index.commit_write_minimized(), Ok(true));
    assert_eq!((host_writes(&index) - before, index.waiting_entries()), (2, 16));
    assert_eq!([2, 5].map(|leaf| state_of(&mut index, leaf * 100 + 11)), [None; 2], "they left the buffer");
    // Next: 2 entries at one write are not enough; with 9 or 5 at three they would be. Nine alone is cheaper.
    let table = classes(&index.buffer().units, 100);
    assert_eq!(choose(&table, 6), [0, 1]);
    let before = host_writes(&index);
    assert_eq!(index.commit_write_minimized(), Ok(true));
    assert_eq!((host_writes(&index) - before, index.waiting_entries()), (3, 7));
    let model = contents(&mut index).unwrap();
    assert_eq!(model.len(), 31 + 23);
    assert_sound(&mut index, &model);
}

#[test]
fn the_dirty_list_is_the_table_in_the_order_of_the_choice() {
    let mut index = small_index(LsLruConfig { window_percent: 75, commit_entries: 9, ..config(8, 60) });
    index.bulk_load((0..900).map(|n| (key(2 * n), [0; 2])), Fill::percent(70).unwrap()).unwrap();
    let mut rng = nandex::rng::Rng::new(2);
    let mut commits = 0;
    for _ in 0..6_000 {
        let n = rng.below(1_800).min(rng.below(1_800)) as u16;
        index.insert(&key(n), &[1; 2]).unwrap();
        let units = &index.buffer().units;
        let rows: Vec<Row> = units
            .all()
            .filter(|&unit| units.get(unit).place == super::super::units::Place::Dirty)
            .map(|unit| (u64::from(units.part(unit).len), units.writes_now(unit)))
            .collect();
        let (plain, kept) = (classes_of(&rows), classes(units, 9));
        assert_eq!(
            outcome(&plain, &choose(&plain, 9)),
            outcome(&kept, &choose(&kept, 9)),
            "what is cut off the table does not matter"
        );
        commits = index.counts.write_minimized_commits;
    }
    assert!(commits > 100, "{commits}");
}
