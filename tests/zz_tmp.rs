#![allow(clippy::unwrap_used)]
use nandex::log::LogConfig;
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::ordered::mu::MuTree;
use nandex::ordered::{OrderedIndex, RecordFormat};
use nandex::rng::Rng;
use nandex::{Geometry, IndexError};
#[test]
fn mu_full() {
    for seed in 0..20 { for write_pages in [0, 3] { for close in [false,true] {
    let mut part = mlc_64m();
    part.geometry = Geometry::new(512, 64, 16, 24);
    let config = LogConfig { write_pages, ..LogConfig::default() };
    let record = RecordFormat::new(4, 4);
    let mut tree = MuTree::format(SimChip::new(&part).unwrap(), record, config).unwrap();
    let mut rng = Rng::new(seed);
    let mut keys = vec![];
    loop {
        let key = (rng.below(1<<30) as u32).to_be_bytes();
        match tree.insert(&key, &key) { Ok(_) => keys.push(key), Err(IndexError::Full) => break, Err(e) => panic!("{e}") }
    }
    let f0 = tree.log().free_pages();
    if close {tree.sync().unwrap();
    tree = MuTree::mount(tree.into_nand(), record, config).unwrap();}
    let f = tree.log().free_pages();
    rng.shuffle(&mut keys);
    let mut res = "ok".to_string();
    for (i,key) in keys.iter().enumerate() {
        if let Err(e) = tree.remove(key) { res = format!("{i}: {e}"); break; }
    }
    println!("seed {seed} wp {write_pages} remount {close}: {} keys h {} free {f0}->{f} {res}", keys.len(), tree.stats().height);
    }}}
}
