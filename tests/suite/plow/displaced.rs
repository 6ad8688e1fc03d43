//! A closed chip of which two blocks are exchanged and a third is lost, whichever, and a cut one of which a
//! block's first page is what it was before: the right answer, an error, or a refused mount.

use crate::inputs::sized;
use nandex::nand::catalogue::mlc_64m;
use nandex::nand::sim::SimChip;
use nandex::ordered::RecordFormat;
use nandex::rng::Rng;
use nandex::testing::{Model, get, put};
use nandex::units::{Pbn, Ppn};
use nandex::{Durability, Geometry, OrderedIndex, Plow, PlowConfig, Shared};

use super::any;

/// An index that was closed, and mounted, changed and closed again, some times, and its records.
fn closed(chip: SimChip, config: &PlowConfig, rng: &mut Rng) -> (SimChip, Model) {
    let (chip, mut model) = (Shared::new(chip), Model::new());
    let mut index = Plow::format(any(chip.clone()), config).unwrap();
    for _ in 0..1 + rng.below(4) {
        for number in 0..rng.below(300) {
            let (key, value) = (rng.below(400).to_be_bytes(), number.to_be_bytes());
            put(&mut index, &mut model, &key, &value).unwrap();
        }
        index.close().unwrap();
        index = Plow::mount(index.into_nand(), config).unwrap();
    }
    let chip = chip.lock().clone();
    (chip, model)
}

/// Records of which a mounted chip has another value, or none, without a word.
fn silent(chip: SimChip, config: &PlowConfig, model: &Model) -> Option<usize> {
    let mut index = Plow::mount(any(chip), config).ok()?;
    let mut is_wrong =
        |key: &[u8], value: &Vec<u8>| get(&mut index, key).is_ok_and(|it| it.as_ref() != Some(value));
    Some(model.iter().filter(|(key, value)| is_wrong(key, value)).count())
}

fn lose(chip: &mut SimChip, block: Pbn, rng: &mut Rng) {
    let geometry = chip.part().geometry;
    let byte = [None, Some(0), Some(0xff)][rng.below(3) as usize];
    for ppn in (0..geometry.pages_per_block).map(|page| geometry.page_at(block, page)) {
        match byte {
            _ if chip.stored_page(ppn).is_none() => {}
            Some(byte) => chip.damage_page(ppn, &vec![byte; geometry.raw_page_bytes()]),
            None => chip.make_unreadable(ppn),
        }
    }
}

#[test]
fn a_block_in_the_place_of_another_and_one_lost_are_no_silence() {
    let (mut mounted, mut refused) = (0, 0);
    for seed in 0..sized(5, 12) {
        let mut rng = Rng::new(0x0dd_b10c ^ seed);
        let mut part = mlc_64m();
        part.geometry = Geometry::new(256 << rng.below(2), 16, [8, 16, 32][rng.below(3) as usize], 24);
        let durability = [Durability::EverySync, Durability::EveryOperation][rng.below(2) as usize];
        let ram_bytes = Some(24 * 1024);
        let config = PlowConfig { ram_bytes, durability, ..PlowConfig::new(RecordFormat::new(8, 8)) };
        let (whole, model) = closed(SimChip::new(&part).unwrap(), &config, &mut rng);
        let is_used = |block: &Pbn| whole.stored_page(Ppn(part.geometry.page_at(*block, 0).0)).is_some();
        let used: Vec<Pbn> = (0..part.geometry.blocks).map(Pbn).filter(is_used).collect();
        let pairs = used
            .iter()
            .enumerate()
            .flat_map(|(i, &one)| used[i + 1..].iter().map(move |&other| (one, other)));
        for (one, other) in pairs {
            for &third in used.iter().filter(|&&third| third != one && third != other) {
                let mut chip = whole.clone();
                chip.exchange_blocks(one, other);
                lose(&mut chip, third, &mut rng);
                match silent(chip, &config, &model) {
                    None => refused += 1,
                    Some(0) => mounted += 1,
                    Some(wrong) => {
                        panic!("seed {seed}: {one} and {other} exchanged, {third} lost: {wrong} silently")
                    }
                }
            }
        }
    }
    let few = sized(4, 10);
    assert!(mounted > few && refused > few, "{mounted} mounted, {refused} refused");
}

/// A chip that lost its power after so many changes, and its records but that of the newest change.
fn lived(chip: SimChip, config: &PlowConfig, (seed, changes): (u64, u64)) -> (SimChip, Model) {
    let (chip, mut model, mut rng) = (Shared::new(chip), Model::new(), Rng::new(seed));
    let mut index = Plow::format(any(chip.clone()), config).unwrap();
    let mut newest = None;
    for number in 0..changes {
        let (key, value) = (rng.below(3_000).to_be_bytes(), number.to_be_bytes());
        if put(&mut index, &mut model, &key, &value).is_ok() {
            newest = Some(key);
        }
    }
    newest.and_then(|newest| model.remove(&newest[..]));
    let chip = chip.lock().clone();
    (chip, model)
}

#[test]
fn the_first_page_of_a_block_as_it_was_before_is_no_silence() {
    let (mut mounted, mut refused) = (0, 0);
    for seed in 0..12 {
        let mut rng = Rng::new(0x01d_9a6e ^ seed);
        let mut part = mlc_64m();
        part.geometry = Geometry::new(256 << rng.below(2), 16, [4, 8, 16][rng.below(3) as usize], 16);
        let (durability, ram_bytes) = (Durability::EveryOperation, Some(24 * 1024));
        let config = PlowConfig { ram_bytes, durability, ..PlowConfig::new(RecordFormat::new(8, 8)) };
        let chip = SimChip::new(&part).unwrap();
        let changes = 400 + rng.below(800);
        let (whole, model) = lived(chip.clone(), &config, (seed, changes));
        let mut before: Vec<(Ppn, Vec<u8>)> = Vec::new();
        for changes in (changes % 80 + 1..changes).step_by(80) {
            let chip = lived(chip.clone(), &config, (seed, changes)).0;
            let first = (0..part.geometry.blocks).map(|block| part.geometry.page_at(Pbn(block), 0));
            before.extend(first.filter_map(|ppn| Some((ppn, chip.stored_page(ppn)?))));
        }
        before.sort();
        before.dedup();
        for (ppn, bytes) in &before {
            if whole.stored_page(*ppn).is_none_or(|now| now == *bytes) {
                continue;
            }
            let mut chip = whole.clone();
            chip.damage_page(*ppn, bytes);
            match silent(chip, &config, &model) {
                None => refused += 1,
                Some(0) => mounted += 1,
                Some(wrong) => panic!("seed {seed}: {ppn} is of before, and {wrong} records, silently"),
            }
        }
    }
    assert!(mounted > 10 && refused > 0, "{mounted} mounted, {refused} refused");
}
