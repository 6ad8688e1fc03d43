//! First pages of blocks are read once by a mount, however many blocks a chip has.

use super::*;

#[test]
fn a_mount_looks_twice_at_a_blank_block_and_once_at_others() {
    const BLOCKS: u32 = 1000;
    let set = PlowConfig { memtable: Some(60), ..settings(8, 32, Durability::EverySync) };
    let mut plow = Plow::format(chip(1024, 8, BLOCKS), &set).unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::new(1));
    for keys in [500, 20_000, 40_000].into_iter().take(inputs::sized(2, 3)) {
        for _ in 0..keys {
            let (key, value) = (key(rng.below(keys), 8), rng.next_u64().to_be_bytes().repeat(4));
            plow.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        plow.close().unwrap();
        let used: usize = plow.core.stock.levels.iter().map(|level| level.blocks(8)).sum();
        let pages: u64 = plow.core.stock.levels.iter().map(|level| level.pages() as u64).sum();
        let chip = plow.into_nand();
        let before = chip.counters().page_reads_total();
        plow = Plow::mount(chip, &set).unwrap();
        let reads = plow.core.medium.nand.counters().page_reads_total() - before;
        // Blocks of few pages have no summary: the pages of all levels are read.
        let looks = u64::from(2 * BLOCKS) - used as u64;
        assert!(reads < looks + pages + 60, "{used} blocks with {pages} pages: {reads} reads");
        assert_holds(&mut plow, &model);
    }
}
