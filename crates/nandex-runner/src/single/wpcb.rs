//! Computed cells of the WPCB-tree paper: its equations (1) to (4) against counted operations.

use super::Figures;
use crate::LabError;
use crate::chip;
use nandex::Cause;
use nandex::Shared;
use nandex::nand::BlockRange;
use nandex::nand::sim::SimChip;
use nandex::ordered::bplus::{BPlusConfig, BPlusTree, Overflow, StructureWrites};
use nandex::ordered::{Durability, OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::store::ram::RamStore;
use nandex_papers::ordered::wpcb::{WpcbConfig, WpcbTree};
use std::collections::BTreeMap;

const RECORD: RecordFormat = RecordFormat::new(4, 4);
/// The paper's m: number of entries of a node.
const ORDER: usize = 128;
const PAGE_BYTES: usize = 2048;
/// Number of pages: enough for a million records in half-full nodes.
const PAGES: u32 = 20_000;

/// The counts of a tree by name: its own metrics, and the host's accesses to a store that counts.
struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    fn since(&self, before: &Counts) -> Counts {
        Counts(self.0.iter().map(|(&name, &count)| (name, count.saturating_sub(before.of(name)))).collect())
    }
}

/// A tree whose node reads and writes are counted.
struct Subject {
    tree: Box<dyn OrderedIndex>,
    /// The store, if the tree does not count for itself.
    store: Option<Shared<RamStore>>,
}

impl Subject {
    fn bplus(structure_writes: StructureWrites) -> Result<Subject, LabError> {
        let store = Shared::new(RamStore::new(PAGE_BYTES, PAGES));
        let mut config = BPlusConfig::new(RECORD).with_order(ORDER).with_durability(Durability::None);
        config.structure_writes = structure_writes;
        Ok(Subject { tree: Box::new(BPlusTree::format(store.clone(), &config)?), store: Some(store) })
    }

    fn wpcb() -> Result<Subject, LabError> {
        let part = chip::find("k9f1g08u0f")?;
        let nand = SimChip::new(&part)
            .map_err(|error| LabError::Chip { file: part.name.to_string(), reason: error.to_string() })?;
        let mut tree = BPlusConfig::new(RECORD).with_order(ORDER);
        tree.overflow = Overflow::KeepContiguous;
        let config = WpcbConfig::on_chip(tree, part.geometry)?;
        let blocks = BlockRange::new(nand, nandex::Pbn(0), config.tbm_range_blocks());
        let store = RamStore::new(PAGE_BYTES, PAGES);
        Ok(Subject { tree: Box::new(WpcbTree::format(store, blocks, &config)?), store: None })
    }

    fn counts(&self) -> Counts {
        let metrics = self.tree.stats().metrics;
        let mut counts: BTreeMap<_, _> =
            metrics.into_iter().map(|metric| (metric.name, metric.value)).collect();
        if let Some(store) = &self.store {
            let host = store.lock().counters();
            counts.insert("node_reads", host.page_reads[Cause::Host as usize]);
            counts.insert("node_writes", host.page_writes[Cause::Host as usize]);
        }
        Counts(counts)
    }

    /// Does an operation with each key. Returns the counts, and the sum of the heights met.
    fn run(
        &mut self,
        keys: &[u32],
        mut apply: impl FnMut(&mut dyn OrderedIndex, &[u8; 4]) -> Result<bool, nandex::IndexError>,
    ) -> Result<(Counts, u64), LabError> {
        let before = self.counts();
        let mut heights = 0;
        for key in keys {
            heights += u64::from(self.tree.stats().height);
            apply(&mut *self.tree, &key.to_be_bytes())?;
        }
        Ok((self.counts().since(&before), heights))
    }
}

/// Counted page reads and writes of the index divided by those of the equations, for both trees. Equation
/// (1) uses the heights met. The seed shuffles the keys.
pub fn equations(records: u32, seed: u64) -> Result<Figures, LabError> {
    let mut figures = Figures::new();
    let ascending: Vec<u32> = (1..=records).collect();
    let mut random = ascending.clone();
    Rng::new(19 + 2 * seed).shuffle(&mut random);
    let mut removals = ascending.clone();
    Rng::new(20 + 2 * seed).shuffle(&mut removals);
    let n = f64::from(records);
    for name in ["btree", "btree_apart", "wpcb"] {
        let is_wpcb = name == "wpcb";
        for (order, keys) in [("ascending", &ascending), ("random", &random)] {
            let mut subject = match name {
                "wpcb" => Subject::wpcb()?,
                "btree_apart" => Subject::bplus(StructureWrites::Apart)?,
                _ => Subject::bplus(StructureWrites::Together)?,
            };
            let (done, heights) = subject.run(keys, |tree, key| tree.insert(key, key))?;
            let mut put =
                |figure: &str, value: f64| figures.push((format!("{name}_{order}_{figure}"), value));
            // The paper puts the splits of ascending keys at 2n/m for the B-tree and at none for the
            // WPCB-tree.
            let splits = match (order, is_wpcb) {
                ("ascending", false) => 2.0 * n / ORDER as f64,
                ("ascending", true) => 0.0,
                _ => done.of("splits") as f64,
            };
            let writes = done.of("node_writes") as f64;
            put("insert_reads_over_equation_1", done.of("node_reads") as f64 / heights as f64);
            put("insert_writes_over_equation_2_or_3", writes / (n + 3.0 * splits));
            // A split writes the new node and the parent besides the leaf; a leaf that stays whole the new
            // one's parent.
            let own = 2 * done.of("splits") + done.of("overflows");
            put("insert_writes_over_two_a_split", writes / (n + own as f64));
            put("splits", done.of("splits") as f64);
            put("block_merges", done.of("conversions") as f64);
            if order == "random" {
                let (done, _) = subject.run(&removals, |tree, key| tree.remove(key))?;
                let (merges, rotations) = (done.of("merges"), done.of("redistributions"));
                let moved = if is_wpcb { 0 } else { merges + rotations };
                // A merge writes the parent besides the leaf, a rotation the sibling too.
                let own = if is_wpcb { 0 } else { merges + 2 * rotations };
                let writes = done.of("node_writes") as f64;
                put("delete_writes_over_one_a_merge_two_a_rotation", writes / (n + own as f64));
                put("delete_writes_over_equation_4", writes / (n + 3.0 * moved as f64));
                put("merges_and_rotations", moved as f64);
            }
        }
    }
    Ok(figures)
}
