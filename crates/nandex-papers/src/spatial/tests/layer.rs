//! A test layer between tree and pages that uses only the modifications it is given, and rebuilds the nodes
//! from them. It represents the layers that log or buffer entries.

use super::model::{Kind, Model, assert_same, random_rect};
use crate::spatial::r_star;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use nandex::check::{CheckReport, IndexError};
use nandex::index::{Durability, IndexStats};
use nandex::nand::Cause;
use nandex::rng::Rng;
use nandex::spatial::node::{Change, Node, NodeFormat, ROOT};
use nandex::spatial::paged::PagedNodes;
use nandex::spatial::r_tree::Split;
use nandex::spatial::tree::{Rules, SpatialConfig, Tree};
use nandex::spatial::{NodeId, Nodes, SpatialIndex, hilbert, r_tree};
use nandex::testing::Store;

struct Replayed {
    inner: PagedNodes<Store, i32, 2>,
    replica: BTreeMap<NodeId, Node<i32, 2>>,
    log: Vec<(NodeId, Option<Change<i32, 2>>)>,
    changes: [u64; 4],
}

impl Nodes<i32, 2> for Replayed {
    fn format(&self) -> &NodeFormat {
        self.inner.format()
    }
    fn durability(&self) -> Durability {
        self.inner.durability()
    }
    fn begin(&mut self) -> Result<(), IndexError> {
        self.inner.begin()
    }
    fn read(&mut self, id: NodeId, cause: Cause) -> Result<&Node<i32, 2>, IndexError> {
        self.inner.read(id, cause)
    }
    fn forget(&mut self, id: NodeId) {
        self.inner.forget(id);
    }
    fn allocate(&mut self) -> Result<NodeId, IndexError> {
        self.inner.allocate()
    }
    fn change(&mut self, id: NodeId, change: Change<i32, 2>) -> Result<(), IndexError> {
        self.changes[match change {
            Change::Add { .. } => 0,
            Change::Remove { .. } => 1,
            Change::Update { .. } => 2,
            Change::Whole(_) => 3,
        }] += 1;
        self.log.push((id, Some(change.clone())));
        self.inner.change(id, change)
    }
    fn free(&mut self, id: NodeId) {
        self.log.push((id, None));
        self.inner.free(id);
    }
    fn fits_group(&self) -> bool {
        self.inner.fits_group()
    }
    fn commit(&mut self) -> Result<(), IndexError> {
        for (id, change) in self.log.drain(..) {
            match change {
                Some(change) => {
                    let node = self.replica.entry(id).or_insert_with(|| Node::new(1));
                    node.apply(&change).unwrap();
                }
                None => drop(self.replica.remove(&id)),
            }
        }
        self.inner.commit()
    }
    fn rollback(&mut self) {
        self.log.clear();
        self.inner.rollback();
    }
    fn load(&mut self, node: &Node<i32, 2>) -> Result<NodeId, IndexError> {
        self.inner.load(node)
    }
    fn end_load(&mut self, root: Option<&Node<i32, 2>>) -> Result<(), IndexError> {
        self.inner.end_load(root)
    }
    fn sync(&mut self) -> Result<(), IndexError> {
        self.inner.sync()
    }
    fn close(&mut self) -> Result<(), IndexError> {
        self.inner.close()
    }
    fn check(&mut self, reached: &BTreeSet<NodeId>, report: &mut CheckReport) -> Result<(), IndexError> {
        assert!(reached.iter().eq(self.replica.keys()), "freed nodes are gone, all others there");
        for (id, node) in &self.replica {
            assert_eq!(self.inner.read(*id, Cause::Check)?, node);
        }
        self.inner.check(reached, report)
    }
    fn stats(&self) -> IndexStats {
        self.inner.stats()
    }
    fn ram_bytes(&self) -> usize {
        self.inner.ram_bytes()
    }
}

fn churn<R: Rules<i32, 2>>(config: &SpatialConfig<R>) -> [u64; 4] {
    let format = config.clone().with_capacity(6).node_format::<i32, 2>(512, 500).unwrap();
    let inner = PagedNodes::format(Store::new(512, 500), format, Durability::EveryOperation).unwrap();
    let replica = BTreeMap::from([(ROOT, Node::new(1))]);
    let layer = Replayed { inner, replica, log: Vec::new(), changes: [0; 4] };
    let mut tree: Tree<i32, 2, _, R> = Tree::over(layer).unwrap();
    let (mut model, mut rng) = (Model::random(Kind::Few, 0, 0), Rng::new(12));
    for i in 0..1_000 {
        if rng.below(6) < if i < 500 { 4 } else { 2 } || model.entries.is_empty() {
            let entry = (random_rect(Kind::Rects, &mut rng), i);
            tree.insert(&entry.0, entry.1).unwrap();
            model.entries.push(entry);
        } else {
            let (rect, id) = model.entries[rng.below(model.entries.len() as u64) as usize];
            assert_eq!(tree.remove(&rect, id), Ok(true));
            model.remove(&rect, id);
        }
        if i % 100 == 0 {
            assert_same(&mut tree, &model, i);
        }
    }
    assert_same(&mut tree, &model, 7);
    tree.nodes().changes
}

#[test]
fn whoever_replays_the_modifications_has_the_nodes() {
    for changes in
        [churn(&r_tree::config(Split::Quadratic)), churn(&r_star::config()), churn(&hilbert::config(None))]
    {
        assert!(changes.iter().all(|&count| count > 50), "{changes:?}");
        assert!(
            changes[3] < changes.iter().sum::<u64>() / 2,
            "most modifications are of entries: {changes:?}"
        );
    }
}

#[test]
fn a_layer_may_lie_behind_a_box() {
    let config = r_star::config();
    let format = config.node_format::<i32, 2>(512, 500).unwrap();
    let nodes = PagedNodes::format(Store::new(512, 500), format, Durability::EveryOperation).unwrap();
    let boxed: Box<dyn Nodes<i32, 2>> = Box::new(nodes);
    let mut tree: Tree<i32, 2, _, r_star::Published> = Tree::over(boxed).unwrap();
    let model = Model::random(Kind::Points, 300, 3);
    model.entries.iter().for_each(|(rect, id)| tree.insert(rect, *id).unwrap());
    assert_same(&mut tree, &model, 3);
}
