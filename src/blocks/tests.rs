//! The table of blocks against looking at every block and page.

use super::*;
use crate::blocks::victim::VictimPolicy;
use crate::rng::Rng;

fn table() -> BlockTable {
    BlockTable::new(Geometry::new(512, 16, 8, 40))
}

fn fill(table: &mut BlockTable, valid: u32) -> Pbn {
    let (pbn, _) = table.take_free(Wear::Least).unwrap();
    for page in 0..valid {
        let ppn = table.geometry().page_at(pbn, page);
        table.mark_valid(ppn);
    }
    table.close(pbn);
    pbn
}

#[test]
fn greedy_takes_fewest_valid_then_least_worn_then_oldest() {
    let mut t = table();
    let worn = fill(&mut t, 3);
    let old = fill(&mut t, 3);
    let young = fill(&mut t, 3);
    let full = fill(&mut t, 8);
    t.note_erase(worn);
    assert_eq!(t.victim(VictimPolicy::Greedy), Some(old));
    let first = t.geometry().page_at(young, 0);
    t.invalidate(first);
    assert_eq!(t.victim(VictimPolicy::Greedy), Some(young));
    for pbn in [worn, old, young] {
        let pages: Vec<Ppn> = t.valid_pages(pbn).collect();
        pages.into_iter().for_each(|p| t.invalidate(p));
        t.discard(pbn);
    }
    assert_eq!(t.victim(VictimPolicy::Greedy), None, "{full} has nothing to gain");
    assert_eq!(t.victim(VictimPolicy::CostBenefit), None);
}

#[test]
fn free_blocks_are_taken_by_wear() {
    let mut t = table();
    t.note_erase(Pbn(0));
    t.note_erase(Pbn(5));
    t.note_erase(Pbn(5));
    assert_eq!(t.take_free(Wear::Most), Some((Pbn(5), true)));
    assert_eq!(t.take_free(Wear::Least), Some((Pbn(1), true)));
    t.release(Pbn(1));
    assert_eq!(t.take_free(Wear::Least), Some((Pbn(1), false)));
    assert_eq!(t.free_count(), 38);
}

/// The victim by definition, over all blocks.
fn slow_fewest(t: &BlockTable) -> Option<u32> {
    let full = t.in_state(BlockState::Full).map(|p| t.valid_count(p));
    full.filter(|&v| v < t.geometry().pages_per_block).min()
}

#[test]
fn random_use_keeps_counts_lists_and_encoding() {
    let mut rng = Rng::new(5);
    let mut t = table();
    for step in 0..20_000 {
        let live: Vec<Ppn> = (0..t.geometry().pages()).map(Ppn).filter(|&p| t.is_valid(p)).collect();
        if t.free_count() > 4 && rng.chance(1, 5) {
            fill(&mut t, rng.below(9) as u32);
        } else if !live.is_empty() {
            t.invalidate(live[rng.below(live.len() as u64) as usize]);
        }
        let policy =
            if step % 100 < 70 { VictimPolicy::Fifo } else { VictimPolicy::ALL[rng.below(6) as usize] };
        let victim = t.victim(policy);
        let fewest = slow_fewest(&t);
        assert_eq!(victim.is_some(), fewest.is_some(), "{policy:?}");
        assert!(victim.is_none_or(|v| t.state(v) == BlockState::Full && t.valid_count(v) < 8), "{policy:?}");
        if policy == VictimPolicy::Greedy {
            assert_eq!(victim.map(|v| t.valid_count(v)), fewest);
        }
        if let Some(v) = victim.filter(|&v| t.valid_count(v) == 0) {
            t.note_erase(v);
            t.release(v);
        }
        if step % 1000 == 0 {
            let mut bytes = Vec::new();
            t.encode(&mut bytes);
            assert_eq!(bytes.len(), BlockTable::encoded_bytes(t.geometry()));
            let back = BlockTable::decode(t.geometry(), &mut &bytes[..]).unwrap();
            assert_eq!((back.live_pages(), back.free_count()), (t.live_pages(), t.free_count()));
            assert_eq!(slow_fewest(&back), slow_fewest(&t));
        }
    }
}

#[cfg(feature = "full")]
#[test]
fn fifo_goes_by_the_order_of_closing_also_after_a_mount() {
    let mut t = table();
    t.follow(VictimPolicy::Fifo);
    let blocks: Vec<Pbn> = [8, 5, 2, 3, 6, 8].into_iter().map(|valid| fill(&mut t, valid)).collect();
    // A change of a block does not make it younger; one with valid pages only goes to the end.
    let page = t.next_valid(blocks[1], 0).unwrap();
    t.invalidate(page);
    assert_eq!(t.victim(VictimPolicy::Fifo), Some(blocks[1]));
    for window in [(1, 1), (2, 2), (3, 2), (6, 2)] {
        assert_eq!(t.victim(VictimPolicy::Windowed { blocks: window.0 }), Some(blocks[window.1]));
    }
    let mut bytes = Vec::new();
    t.encode(&mut bytes);
    let mut back = BlockTable::decode(t.geometry(), &mut &bytes[..]).unwrap();
    for table in [&mut t, &mut back] {
        let mut order = Vec::new();
        while let Some(victim) = table.victim(VictimPolicy::Fifo) {
            order.push(victim);
            let pages: Vec<Ppn> = table.valid_pages(victim).collect();
            pages.into_iter().for_each(|p| table.invalidate(p));
            table.discard(victim);
        }
        assert_eq!(order, [blocks[1], blocks[2], blocks[3], blocks[4]]);
        assert_eq!(table.victim(VictimPolicy::Choices { count: 4 }), None);
        let first = table.geometry().page_at(blocks[5], 0);
        table.invalidate(first);
        assert_eq!(table.victim(VictimPolicy::Fifo), Some(blocks[5]));
    }
}

#[cfg(feature = "full")]
#[test]
fn more_choices_find_blocks_with_fewer_valid_pages() {
    let mut t = table();
    for i in 0..32 {
        fill(&mut t, i % 9);
    }
    let mean = |t: &mut BlockTable, count| {
        let valid = |t: &mut BlockTable| t.victim(VictimPolicy::Choices { count }).map(|v| t.valid_count(v));
        (0..500).filter_map(|_| valid(t)).sum::<u32>()
    };
    let means = [1, 2, 4, 400].map(|count| mean(&mut t.clone(), count));
    assert!(means.is_sorted_by(|a, b| a > b), "{means:?}");
    assert_eq!(means[3], 0, "the emptiest of all");
}

#[test]
fn nonsense_is_refused_not_trusted() {
    let t = table();
    let mut bytes = Vec::new();
    t.encode(&mut bytes);
    assert!(BlockTable::decode(t.geometry(), &mut &bytes[1..]).is_err());
    bytes[8] = 9;
    assert!(BlockTable::decode(t.geometry(), &mut &bytes[..]).is_err());
    bytes[8] = 1;
    let bits = 8 + 40 * 13;
    bytes[bits] = 1;
    assert!(BlockTable::decode(t.geometry(), &mut &bytes[..]).is_err(), "a valid page in a free block");
}
