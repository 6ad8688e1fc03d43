//! Damaged and forged pages: an error or the right answer, and never a panic or a walk without end.

use super::*;
use crate::inputs::stride;
use crate::spatial::tests::Pages;
use crate::spatial::tests::model::everything;
use nandex::codec::{crc32, put_u32};
use nandex::rng::Rng;
use proptest::prelude::*;

const BYTES: usize = 256;

fn config() -> BufferedConfig {
    BufferedConfig { durability: Durability::EveryOperation, ..efind(Worth::Mtha, ReadOrder::HeightLru) }
}

/// A tree with half of its contents in the log.
fn some_tree() -> (Pages, Model<i32, 2>) {
    let tree_config = r_star::config().with_capacity(4);
    let config = BufferedConfig { buffer_bytes: 2500, ..config() };
    let mut tree: Small<_> = new_tree(Store::new(BYTES, 200).with_promise(SINGLE), &tree_config, config);
    let model = Model::random(Kind::Rects, 60, 3);
    for (rect, id) in &model.entries {
        tree.insert(rect, *id).unwrap();
    }
    assert!(tree.nodes().counts.flushes > 3 && !tree.nodes().buffer.is_empty());
    (tree.into_nodes().into_store().pages(), model)
}

fn mounted(pages: Pages) -> Result<Small<r_star::Published>, IndexError> {
    Tree::over(BufferedNodes::mount_found(Store::holding(&pages).with_promise(SINGLE), config())?)
}

/// Makes all kinds of query. Each must give an error or the right answer.
fn ask_everything(pages: Pages, model: &Model<i32, 2>) -> Result<(), IndexError> {
    let mut tree = mounted(pages)?;
    let mut found = Vec::new();
    tree.window(&everything(), Relation::Intersects, &mut |rect, id| {
        found.push((*rect, id));
        ControlFlow::Continue(())
    })?;
    // What cannot be told: an older version of the log's last page hides what came after it.
    let first = model.entries[..found.len().min(model.entries.len())].to_vec();
    assert_eq!(Model { entries: found }.sorted(), Model { entries: first }.sorted());
    assert!(tree.check()?.is_sound());
    Ok(())
}

/// Makes operations of every kind and ignores their results.
fn use_everything(pages: Pages, model: &Model<i32, 2>, seed: u64) {
    let Ok(mut tree) = mounted(pages) else { return };
    let mut rng = Rng::new(seed);
    for i in 0..40 {
        let (rect, id) = model.entries[rng.below(model.entries.len() as u64) as usize];
        let _ = match rng.below(4) {
            0 => tree.insert(&random_rect(Kind::Rects, &mut rng), i).map(|()| true),
            1 | 2 => tree.remove(&rect, id),
            _ => tree.nearest(&rect.low(), 5, &mut |_, _, _| ControlFlow::Continue(())).map(|()| true),
        };
    }
    let _ = tree.window(&everything(), Relation::Within, &mut |_, _| ControlFlow::Continue(()));
    let _ = tree.check();
    let _ = tree.close();
}

#[test]
fn any_flipped_byte_is_an_error_or_harmless() {
    let (pages, model) = some_tree();
    ask_everything(pages.clone(), &model).unwrap();
    let (mut errors, mut rng) = (0, Rng::new(7));
    let used: Vec<usize> =
        (0..pages.len()).filter(|page| pages[*page].iter().any(|&byte| byte != 0)).collect();
    let step = 3 * stride(3);
    for (&page, at) in used.iter().flat_map(|page| (0..BYTES).step_by(step).map(move |at| (page, at))) {
        let mut damaged = pages.clone();
        damaged[page][at] ^= 1 << rng.below(8);
        let is_error = ask_everything(damaged.clone(), &model).is_err();
        errors += usize::from(is_error);
        if at % 15 == 0 {
            use_everything(damaged, &model, at as u64);
        }
    }
    assert!(errors > used.len() * BYTES / (4 * step), "{errors} errors on {} pages", used.len());
}

#[test]
fn pages_in_each_others_place_never_mislead() {
    let (pages, model) = some_tree();
    let used: Vec<usize> =
        (0..pages.len()).filter(|page| pages[*page].iter().any(|&byte| byte != 0)).collect();
    let mut errors = 0;
    for (&a, &b) in used.iter().flat_map(|a| used.iter().map(move |b| (a, b))).filter(|(a, b)| a != b) {
        let mut damaged = pages.clone();
        damaged[a] = pages[b].clone();
        errors += usize::from(ask_everything(damaged, &model).is_err());
    }
    assert!(errors > used.len() * used.len() / 2);
}

proptest! {
    #![proptest_config(crate::inputs::fixed(1_000))]

    /// A forger who knows the checksums may mislead the tree. It must neither panic nor run for ever.
    #[test]
    fn forged_pages_never_panic(
        forgeries in proptest::collection::vec((any::<u32>(), any::<u16>(), any::<u8>()), 1..4),
        seed in any::<u64>(),
    ) {
        let (mut pages, model) = some_tree();
        let used: Vec<usize> = (0..pages.len()).filter(|page| pages[*page].iter().any(|&byte| byte != 0)).collect();
        for (page, at, value) in forgeries {
            let page = &mut pages[used[page as usize % used.len()]];
            page[usize::from(at) % BYTES] = value;
            let is_log = page[8..16] == *b"NXNODLOG";
            let covered = if is_log { BYTES } else { BYTES - TRAILER_BYTES };
            let crc = crc32(&[&page[4..covered]]);
            put_u32(page, 0, crc);
            if !is_log && page[8..16] != *b"NXSPACE1" {
                let crc = crc32(&[&page[..4], &page[covered..covered + 8]]);
                put_u32(page, covered + 8, crc);
            }
        }
        use_everything(pages, &model, seed);
    }
}
