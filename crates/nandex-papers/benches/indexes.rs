//! CPU time of each index on logical pages per operation, as it was published: no FTL, no page cache, no
//! journal.
//!
//! `cargo bench --bench indexes`. 20,000 records of 4 + 4 bytes with random keys on pages of 2 KiB that lie
//! in an array; buffers have their default sizes. Indexes on raw NAND, and any of these with FTL, cache and
//! journal: the bench of the same name in `nandex-lab`.
#![allow(clippy::unwrap_used)]

use divan::Bencher;
use divan::counter::ItemsCount;
use nandex::ordered::RecordFormat;
use nandex::rng::split_mix;
use nandex::store::ram::RamStore;
use nandex::{IndexError, OrderedIndex};
use nandex_papers::ordered::bepsilon::{BEpsilon, BEpsilonConfig};
use nandex_papers::ordered::clustered::{ClusteredTree, as_btree, cb_tree, fb_tree};
use nandex_papers::ordered::fd::{Fd, FdConfig};
use nandex_papers::ordered::la::{La, LaConfig};
use nandex_papers::ordered::layered::{LayeredTree, bftl, bof, flashdb, ibsf, wobf};
use nandex_papers::ordered::lsb::{LsbConfig, LsbTree};
use nandex_papers::ordered::mb::{MbConfig, MbTree};
use nandex_papers::ordered::messages::MessageTree;
use nandex_papers::ordered::pio::{PioConfig, PioTree};

const RECORD: RecordFormat = RecordFormat::new(4, 4);
const RECORDS: u64 = 20_000;
const BATCH: u64 = 1_000;
const PAGE_BYTES: usize = 2048;
const PAGES: u32 = 4096;

const NAMES: [&str; 14] = [
    "bftl", "wobf", "ibsf", "bof", "flashdb", "lsb", "mb", "pio", "bepsilon", "fd", "la", "as-btree",
    "cb-tree", "fb-tree",
];

fn main() {
    divan::main();
}

fn open(name: &str) -> Result<Box<dyn OrderedIndex>, IndexError> {
    let store = RamStore::new(PAGE_BYTES, PAGES);
    Ok(match name {
        "bftl" => Box::new(LayeredTree::format(store, &bftl::config(RECORD))?),
        "wobf" => Box::new(LayeredTree::format(store, &wobf::config(RECORD))?),
        "ibsf" => Box::new(LayeredTree::format(store, &ibsf::config(RECORD))?),
        "bof" => Box::new(LayeredTree::format(store, &bof::config(RECORD))?),
        "flashdb" => Box::new(LayeredTree::format(store, &flashdb::config(RECORD))?),
        "lsb" => Box::new(LsbTree::format(store, &LsbConfig::new(RECORD))?),
        "mb" => Box::new(MbTree::format(store, &MbConfig::new(RECORD, 64))?),
        "pio" => Box::new(PioTree::format(store, &PioConfig::new(RECORD, 64))?),
        "bepsilon" => Box::new(MessageTree::<_, BEpsilon>::format(store, &BEpsilonConfig::new(RECORD))?),
        "fd" => Box::new(MessageTree::<_, Fd>::format(store, &FdConfig::new(RECORD))?),
        "la" => Box::new(MessageTree::<_, La>::format(store, &LaConfig::new(RECORD))?),
        "as-btree" => Box::new(ClusteredTree::format(store, &as_btree::config(RECORD))?),
        "cb-tree" => Box::new(ClusteredTree::format(store, &cb_tree::config(RECORD))?),
        "fb-tree" => Box::new(ClusteredTree::format(store, &fb_tree::config(RECORD))?),
        _ => unreachable!("{name}"),
    })
}

fn key(number: u64) -> [u8; 4] {
    (split_mix(number) as u32).to_be_bytes()
}

fn insert_all(index: &mut dyn OrderedIndex, numbers: std::ops::Range<u64>) {
    for number in numbers {
        index.insert(&key(number), &[1; 4]).unwrap();
    }
}

fn loaded(name: &str) -> Box<dyn OrderedIndex> {
    let mut index = open(name).unwrap();
    insert_all(&mut *index, 0..RECORDS);
    index
}

#[divan::bench(args = NAMES, sample_count = 3)]
fn insert(bencher: Bencher<'_, '_>, name: &str) {
    bencher.counter(ItemsCount::new(BATCH)).with_inputs(|| loaded(name)).bench_local_values(|mut index| {
        insert_all(&mut *index, RECORDS..RECORDS + BATCH);
        index
    });
}

#[divan::bench(args = NAMES, sample_count = 10)]
fn get(bencher: Bencher<'_, '_>, name: &str) {
    let (mut index, mut value) = (loaded(name), [0; 4]);
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        (0..BATCH).filter(|number| index.get(&key(number * 7919 % RECORDS), &mut value).unwrap()).count()
    });
}
