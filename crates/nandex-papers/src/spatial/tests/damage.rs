//! Damaged and forged pages: an error or the right answer, and never a panic or a walk without end.

use super::Pages;
use super::model::{Kind, Model, everything, random_rect};
use crate::spatial::{mr_tree, r_star};
use alloc::vec::Vec;
use core::ops::ControlFlow;
use nandex::check::IndexError;
use nandex::codec::{crc32, put_u32};
use nandex::rng::Rng;
use nandex::spatial::r_tree::Split;
use nandex::spatial::tree::{Rules, SpatialConfig, Tree};
use nandex::spatial::{Relation, SpatialIndex, hilbert, r_tree};
use nandex::testing::Store;
use proptest::prelude::*;

/// A tree of at least three levels, and its contents.
fn some_tree<R: Rules<i32, 2>>(config: &SpatialConfig<R>) -> (Pages, Model<i32, 2>) {
    let config = config.clone().with_capacity(4);
    let mut tree: Tree<i32, 2, _, R> = Tree::format(Store::new(128, 30), &config).unwrap();
    let model = Model::random(Kind::Rects, 30, 3);
    for (rect, id) in &model.entries {
        tree.insert(rect, *id).unwrap();
    }
    assert!(tree.stats().height >= 3);
    (tree.into_store().pages(), model)
}

/// Makes all kinds of query. Each must give an error or the right answer.
fn ask_everything<R: Rules<i32, 2>>(pages: Pages, model: &Model<i32, 2>) -> Result<(), IndexError> {
    let mut tree: Tree<i32, 2, _, R> = Tree::mount_found(Store::holding(&pages))?;
    let mut found = Vec::new();
    tree.window(&everything(), Relation::Intersects, &mut |rect, id| {
        found.push((*rect, id));
        ControlFlow::Continue(())
    })?;
    assert_eq!(Model { entries: found }.sorted(), model.sorted());
    let mut near = 0;
    tree.nearest(&[0, 0], usize::MAX, &mut |_, _, _| {
        near += 1;
        ControlFlow::Continue(())
    })?;
    assert_eq!(near, model.entries.len());
    assert!(tree.check()?.is_sound());
    Ok(())
}

/// Makes operations of every kind and ignores their results.
fn use_everything<R: Rules<i32, 2>>(pages: Pages, model: &Model<i32, 2>, seed: u64) {
    let Ok(mut tree) = Tree::<i32, 2, _, R>::mount_found(Store::holding(&pages)) else { return };
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
}

fn flip_every_byte<R: Rules<i32, 2>>(config: &SpatialConfig<R>) {
    let (pages, model) = some_tree(config);
    let (mut errors, mut rng) = (0, Rng::new(7));
    let step = crate::inputs::stride(4);
    for (page, at) in
        (0..pages.len()).flat_map(|page| (page % step..128).step_by(step).map(move |at| (page, at)))
    {
        let mut damaged = pages.clone();
        damaged[page][at] ^= 1 << rng.below(8);
        errors += usize::from(ask_everything::<R>(damaged.clone(), &model).is_err());
        use_everything::<R>(damaged, &model, at as u64);
    }
    let used = pages.iter().filter(|page| page.iter().any(|&byte| byte != 0)).count();
    assert_eq!(errors, used * 128 / step, "every byte of a page in use is covered by a checksum");
}

#[test]
fn any_flipped_byte_is_an_error_or_harmless() {
    flip_every_byte(&r_tree::config(Split::Quadratic));
    flip_every_byte(&r_star::config());
    flip_every_byte(&hilbert::config(None));
    flip_every_byte(&mr_tree::config());
}

#[test]
fn pages_in_each_others_place_are_noticed() {
    let (pages, model) = some_tree(&r_star::config());
    for (a, b) in (0..12).flat_map(|a| (0..12).map(move |b| (a, b))).filter(|(a, b)| a != b) {
        let mut damaged = pages.clone();
        damaged[a] = pages[b].clone();
        assert!(
            ask_everything::<r_star::Published>(damaged, &model).is_err(),
            "page {b} in the place of {a}"
        );
    }
}

proptest! {
    #![proptest_config(crate::inputs::fixed(1_000))]

    /// A forger who knows the checksum may mislead the tree. It must neither panic nor run for ever.
    #[test]
    fn forged_pages_never_panic(
        forgeries in proptest::collection::vec((0..24usize, 4..128usize, any::<u8>()), 1..8),
        seed: u64,
    ) {
        let forge = |mut pages: Pages| {
            for (page, at, byte) in &forgeries {
                pages[*page][*at] = *byte;
                let crc = crc32(&[&pages[*page][4..]]);
                put_u32(&mut pages[*page], 0, crc);
            }
            pages
        };
        let (pages, model) = some_tree(&r_star::config());
        use_everything::<r_star::Published>(forge(pages), &model, seed);
        let (pages, model) = some_tree(&hilbert::config(None));
        use_everything::<hilbert::HilbertRules<i32, 2>>(forge(pages), &model, seed);
        let (pages, model) = some_tree(&mr_tree::config());
        use_everything::<mr_tree::MrRules>(forge(pages), &model, seed);
    }
}
