//! Every tree against a list that is searched from end to end, in two and three dimensions, with integers and floats.

mod model;

use super::r_tree::{Guttman, Split};
use super::tree::{Rules, SpatialConfig, Tree};
use super::*;
use crate::ftl::ram::RamStore;
use alloc::vec::Vec;
use model::{Kind, Model, Sample, assert_same, churn};

fn churn_kinds<C: Coordinate + Sample, const D: usize, R: Rules<C, D>>(rules: &R) {
    for (seed, kind) in [Kind::Points, Kind::Rects, Kind::Few, Kind::Wide].into_iter().enumerate() {
        for capacity in [4, 9] {
            let config = SpatialConfig::new(rules.clone()).with_capacity(capacity);
            churn::<C, D, R>(&config, kind, 900, seed as u64 * 10 + capacity as u64);
        }
    }
}

fn churn_all<R>(rules: &R)
where
    R: Rules<i32, 2> + Rules<i32, 3> + Rules<f64, 2> + Rules<f64, 3> + Rules<i64, 3> + Rules<f32, 2>,
{
    churn_kinds::<i32, 2, R>(rules);
    churn_kinds::<i32, 3, R>(rules);
    churn_kinds::<f64, 2, R>(rules);
    churn_kinds::<f64, 3, R>(rules);
    churn_kinds::<i64, 3, R>(rules);
    churn_kinds::<f32, 2, R>(rules);
}

#[test]
fn the_r_tree_with_the_linear_split_answers_as_a_list_does() {
    churn_all(&Guttman { split: Split::Linear });
}

#[test]
fn the_r_tree_with_the_quadratic_split_answers_as_a_list_does() {
    churn_all(&Guttman { split: Split::Quadratic });
}

fn assert_loads<C: Coordinate + Sample, const D: usize, R: Rules<C, D>>(rules: &R, packing: Packing) {
    for (seed, kind) in [Kind::Points, Kind::Rects, Kind::Few, Kind::Wide].into_iter().enumerate() {
        for (count, percent) in [(0, 100), (1, 100), (9, 50), (10, 100), (83, 60), (500, 70), (501, 100)] {
            let config = SpatialConfig::new(rules.clone()).with_capacity(10);
            let store = RamStore::new(1024, 400);
            let mut tree: Tree<C, D, _, R> = Tree::format(store, &config).unwrap();
            let model = Model::random(kind, count, seed as u64);
            let fill = Fill::percent(percent).unwrap();
            let mut entries = model.entries.iter().copied();
            assert_eq!(tree.load(&mut entries, packing, fill), Ok(count as u64));
            assert_same(&mut tree, &model, seed as u64);
            let mut regions = Vec::new();
            tree.regions(&mut |region| {
                regions.push(region.level);
                ControlFlow::Continue(())
            })
            .unwrap();
            let predicted = tree::packed_nodes(tree.nodes().format(), fill, count as u64);
            let found = (1..=predicted.len())
                .map(|level| regions.iter().filter(|found| usize::from(**found) == level).count() as u64);
            assert!(count == 0 || found.eq(predicted));
            let mut tree: Tree<C, D, _, R> = Tree::mount(tree.into_store()).unwrap();
            assert_same(&mut tree, &model, seed as u64);
        }
    }
}

#[test]
fn a_bulk_loaded_tree_answers_as_a_list_does_and_has_the_nodes_predicted() {
    let rules = Guttman { split: Split::Quadratic };
    for packing in [Packing::SortTileRecursive, Packing::Hilbert] {
        assert_loads::<i32, 2, _>(&rules, packing);
        assert_loads::<f64, 3, _>(&rules, packing);
        assert_loads::<i64, 3, _>(&rules, packing);
    }
}
