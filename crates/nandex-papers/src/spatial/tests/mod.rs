//! Every tree against a list that is searched from end to end, in two and three dimensions, with integers and
//! floats.

mod cuts;
mod damage;
mod for_tree;
mod layer;
pub(crate) mod model;
mod mr_tree;
mod room;
mod splits;

use super::mr_tree::{Balance, MrRules};
use super::r_star::{self, RStarRules, Reinsertion};
use crate::inputs::stride;
use alloc::vec::Vec;
use core::ops::ControlFlow;
use model::{Kind, Model, Sample, assert_same, churn};
use nandex::IndexError;
use nandex::index::Fill;
use nandex::spatial::node::NodeFormat;
use nandex::spatial::r_tree::{self, Split};
use nandex::spatial::tree::update::Grouped;
use nandex::spatial::tree::{self, Rules, SpatialConfig, Tree};
use nandex::spatial::{Nodes, Packing, Rect, Relation, SpatialIndex, hilbert};
use nandex::testing::Store;

/// The pages of a store.
pub(crate) type Pages = Vec<Vec<u8>>;

const KINDS: [Kind; 4] = [Kind::Points, Kind::Rects, Kind::Few, Kind::Wide];

fn churn_kinds<C: Sample, const D: usize, R: Rules<C, D>>(config: &SpatialConfig<R>) {
    let step = stride(2);
    for (seed, kind) in KINDS.into_iter().enumerate() {
        for capacity in [4, 9].into_iter().skip(seed % step).step_by(step) {
            let config = config.clone().with_capacity(capacity);
            churn::<C, D, R>(&config, kind, 700, seed as u64 * 10 + capacity as u64);
        }
    }
}

/// Tests two combinations only, because each is compiled anew. The lab's suite has more, on real stores.
fn churn_all<R>(config: &SpatialConfig<R>)
where
    R: Rules<i32, 2> + Rules<f64, 3>,
{
    churn_kinds::<i32, 2, R>(config);
    churn_kinds::<f64, 3, R>(config);
}

#[test]
fn the_r_tree_with_the_linear_split_answers_as_a_list_does() {
    churn_all(&r_tree::config(Split::Linear));
}

#[test]
fn the_r_tree_with_the_quadratic_split_answers_as_a_list_does() {
    churn_all(&r_tree::config(Split::Quadratic));
}

#[test]
fn the_r_star_tree_answers_as_a_list_does() {
    churn_all(&r_star::config());
    let rules = RStarRules { overlap_candidates: 3, reinserted_percent: 45, order: Reinsertion::Far };
    churn_kinds::<f32, 2, _>(&SpatialConfig::new(Grouped(rules)));
}

#[test]
fn the_hilbert_r_tree_answers_as_a_list_does() {
    churn_kinds::<i32, 2, _>(&hilbert::config(None));
    churn_kinds::<i32, 2, _>(&hilbert::config(Some(Rect::new([-100; 2], [300; 2]).unwrap())));
    churn_kinds::<i64, 3, _>(&hilbert::config(None));
    churn_kinds::<f64, 3, _>(&hilbert::config(Some(Rect::new([-500.0; 3], [500.0; 3]).unwrap())));
    churn_kinds::<f64, 3, _>(&hilbert::config(None));
}

#[test]
fn the_mr_tree_answers_as_a_list_does() {
    churn_all(&crate::spatial::mr_tree::config());
    for is_selective in [false, true] {
        let rules = MrRules { balance: Balance::Adoption, is_selective };
        churn_kinds::<f64, 3, _>(&SpatialConfig::new(rules));
        churn_kinds::<i32, 2, _>(&SpatialConfig::new(rules));
    }
    churn_kinds::<i32, 2, _>(&SpatialConfig::new(MrRules {
        balance: Balance::Reinsertion,
        is_selective: true,
    }));
}

fn assert_loads<C: Sample, const D: usize, R: Rules<C, D>>(config: &SpatialConfig<R>, packing: Packing) {
    let fills = [(0, 100), (1, 100), (9, 50), (10, 100), (83, 60), (500, 70), (501, 100)];
    let step = stride(3);
    for (seed, kind) in KINDS.into_iter().enumerate() {
        for (count, percent) in fills.into_iter().skip(seed % step).step_by(step) {
            let config = config.clone().with_capacity(10);
            let mut tree: Tree<C, D, _, R> = Tree::format(Store::new(1024, 400), &config).unwrap();
            let model = Model::random(kind, count, seed as u64);
            let fill = Fill::percent(percent).unwrap();
            let mut entries = model.entries.iter().copied();
            assert_eq!(tree.load(&mut entries, packing, fill), Ok(count as u64));
            assert_same(&mut tree, &model, seed as u64);
            let mut levels = Vec::new();
            tree.regions(&mut |region| {
                levels.push(usize::from(region.level));
                ControlFlow::Continue(())
            })
            .unwrap();
            let predicted = tree::packed_nodes(tree.nodes().format(), fill, count as u64);
            let found =
                (1..=predicted.len()).map(|level| levels.iter().filter(|l| **l == level).count() as u64);
            assert!(count == 0 || found.eq(predicted));
            let mut tree: Tree<C, D, _, R> = Tree::mount_found(tree.into_store()).unwrap();
            assert_same(&mut tree, &model, seed as u64);
        }
    }
}

#[test]
fn a_bulk_loaded_tree_answers_as_a_list_does_and_has_the_nodes_predicted() {
    for packing in [Packing::SortTileRecursive, Packing::Hilbert] {
        assert_loads::<i32, 2, _>(&r_star::config(), packing);
        assert_loads::<f64, 3, _>(&r_star::config(), packing);
        assert_loads::<f64, 3, _>(&crate::spatial::mr_tree::config(), packing);
    }
    assert_loads::<i32, 2, _>(&hilbert::config(None), Packing::Hilbert);
    assert_loads::<f64, 3, _>(&hilbert::config(None), Packing::Hilbert);
}

#[test]
fn a_loaded_tree_goes_on_as_any_other() {
    let model = Model::<i32, 2>::random(Kind::Rects, 300, 5);
    let mut tree = hilbert::HilbertRTree::format(Store::new(512, 400), &hilbert::config(None)).unwrap();
    tree.load(&mut model.entries.iter().copied(), Packing::Hilbert, Fill::FULL).unwrap();
    let mut rest = model.clone();
    for (rect, id) in &model.entries[..200] {
        assert_eq!(tree.remove(rect, *id), Ok(true));
        assert!(rest.remove(rect, *id));
    }
    for entry in Model::random(Kind::Points, 200, 6).entries {
        tree.insert(&entry.0, entry.1).unwrap();
        rest.entries.push(entry);
    }
    assert_same(&mut tree, &rest, 5);
    let again = tree.load(&mut model.entries.iter().copied(), Packing::Hilbert, Fill::FULL);
    assert!(matches!(again, Err(IndexError::Unsupported(_))), "not empty");
}

#[test]
fn what_cannot_work_is_refused_with_the_reason() {
    use alloc::string::ToString;
    let refusal = |config: &SpatialConfig<_>, store: Store| {
        r_tree::RTree::<_, i32, 2>::format(store, config).err().unwrap().to_string()
    };
    let config = r_tree::config(Split::Linear);
    assert!(refusal(&config, Store::new(111, 9)).contains("leaves of 3"));
    assert!(refusal(&config, Store::new(4096, 1)).contains("1 pages"));
    assert!(refusal(&config.with_capacity(3), Store::new(512, 9)).contains("leaves of 3"));
    assert!(refusal(&config.with_capacity(21), Store::new(512, 9)).contains("4 to 20 and 4 to 24"));
    let hollow = SpatialConfig { fill_min_percent: 51, ..config };
    assert!(refusal(&hollow, Store::new(512, 9)).contains("51 %"));
    let single = Store::new(512, 900).with_atomic_pages(1);
    assert!(refusal(&config, single).contains("takes 1 atomically"));
    let flat = NodeFormat::new::<i32, 4>(*b"flat    ", (512, 9), 0).require_sane::<i32, 4>();
    assert!(flat.unwrap_err().to_string().contains("4 dimensions"));
    let mut tree =
        hilbert::HilbertRTree::<_, i32, 2>::format(Store::new(512, 9), &hilbert::config(None)).unwrap();
    let packed = tree.load(&mut core::iter::empty(), Packing::SortTileRecursive, Fill::FULL);
    assert!(matches!(packed, Err(IndexError::Unsupported(_))));
}

#[test]
fn a_mount_refuses_what_is_not_its_tree() {
    let not_formatted = |result: Result<(), IndexError>| matches!(result, Err(IndexError::NotFormatted(_)));
    let blank = Store::new(512, 20);
    assert!(not_formatted(r_tree::RTree::<_, i32, 2>::mount_found(blank).map(|_| ())));
    let config = r_tree::config(Split::Linear);
    let store = || r_tree::RTree::<_, i32, 2>::format(Store::new(512, 20), &config).unwrap().into_store();
    assert!(not_formatted(r_tree::RTree::<_, i32, 3>::mount_found(store()).map(|_| ())));
    assert!(not_formatted(r_tree::RTree::<_, f32, 2>::mount_found(store()).map(|_| ())));
    assert!(not_formatted(r_star::RStarTree::<_, i32, 2>::mount_found(store()).map(|_| ())));
    let other = r_tree::config(Split::Quadratic);
    assert!(not_formatted(r_tree::RTree::<_, i32, 2>::mount(store(), &other).map(|_| ())));
    let narrow = config.with_capacity(5);
    assert!(not_formatted(r_tree::RTree::<_, i32, 2>::mount(store(), &narrow).map(|_| ())));
    assert!(r_tree::RTree::<_, i32, 2>::mount(store(), &config).is_ok());
}

#[test]
fn a_visit_ends_when_it_is_told_to() {
    let model = Model::<i32, 2>::random(Kind::Points, 100, 1);
    let mut tree = r_star::RStarTree::format(Store::new(512, 100), &r_star::config()).unwrap();
    tree.load(&mut model.entries.iter().copied(), Packing::SortTileRecursive, Fill::FULL).unwrap();
    let mut seen = 0;
    tree.window(&model::everything(), Relation::Intersects, &mut |_, _| {
        seen += 1;
        if seen == 30 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(seen, 30);
    tree.nearest(&[0, 0], 50, &mut |_, _, _| {
        seen += 1;
        if seen == 40 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(seen, 40);
}
