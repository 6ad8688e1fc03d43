//! Tests of step pages that commit.

use super::*;
use crate::ordered::plow::coder::{Builder, Expected};
use crate::ordered::plow::page::{HEADER_BYTES, Header};
use crate::units::Ppn;

/// Puts and removes records. After each operation that was committed by a step's page, mounts a copy and
/// checks its contents.
fn every_carried_change_is_found(levels: usize, (page_bytes, key_bytes, value_bytes): (u32, u8, u8)) -> u64 {
    let set = PlowConfig {
        levels: Some(levels),
        memtable: Some(20),
        ..settings(key_bytes, value_bytes, Durability::EveryOperation)
    };
    let mut plow = Plow::format(chip(page_bytes, 16, 40), &set).unwrap();
    let (mut rng, mut model) = (Rng::new(5), Model::new());
    let mut before = 0;
    for i in 0..3000u32 {
        let key = key(rng.below(700), key_bytes);
        let value: Vec<u8> = i.to_le_bytes().into_iter().cycle().take(value_bytes.into()).collect();
        let programs = plow.core.medium.nand.counters().page_programs_total();
        if rng.chance(4, 5) {
            plow.put(&key, &value).unwrap();
            model.insert(key, value);
        } else {
            plow.remove(&key).unwrap();
            model.remove(&key);
        }
        let carried = plow.core.counters.carried;
        if carried == before {
            continue;
        }
        before = carried;
        assert_eq!(plow.core.medium.nand.counters().page_programs_total(), programs + 1, "operation {i}");
        // Not even a sync has anything to write.
        plow.sync().unwrap();
        assert_eq!(plow.core.medium.nand.counters().page_programs_total(), programs + 1, "operation {i}");
        let mut again = Plow::mount(plow.core.medium.nand.clone(), &set).unwrap();
        assert!(everything(&mut again) == model, "operation {i}");
        if carried.is_multiple_of(16) {
            assert_holds(&mut again, &model);
            // And it goes on from there.
            again.put(&[0; 8][..key_bytes.into()], &vec![1; value_bytes.into()]).unwrap();
            again.close().unwrap();
            let mut last = Plow::mount(again.into_nand(), &set).unwrap();
            let mut value = vec![0; value_bytes.into()];
            assert!(last.get(&[0; 8][..key_bytes.into()], &mut value).unwrap() && value[0] == 1);
        }
    }
    let steps: u64 = plow.core.counters.steps.iter().sum();
    assert!(before * 3 > steps, "{before} of {steps} steps");
    before
}

#[test]
fn what_a_step_carries_is_found() {
    let step = inputs::stride(3);
    for levels in [1, 2, 3] {
        for shape in [(512, 4, 4), (2048, 8, 8), (4096, 8, 30)].into_iter().skip(levels % step).step_by(step)
        {
            every_carried_change_is_found(levels, shape);
        }
    }
}

#[test]
fn small_pages_and_records_without_values_carry_nothing() {
    for (key_bytes, value_bytes) in [(8, 20), (8, 0)] {
        let set = settings(key_bytes, value_bytes, Durability::EveryOperation);
        let mut plow = Plow::format(chip(512, 16, 40), &set).unwrap();
        for i in 0..500 {
            plow.put(&key(i, key_bytes), &vec![7; value_bytes.into()]).unwrap();
        }
        assert_eq!((plow.core.counters.carried, plow.core.counters.commits > 500), (0, true));
    }
}

/// Whole pages with nonsense contents. No power cut makes them, and none may cause a panic.
#[test]
fn nonsense_that_is_carried_is_refused() {
    let set = PlowConfig { memtable: Some(20), ..settings(4, 4, Durability::EveryOperation) };
    let mut plow = Plow::format(chip(512, 16, 40), &set).unwrap();
    (0..400).for_each(|i| plow.put(&key(i * 7 % 400, 4), &[1; 4]).unwrap());
    let formatted = plow.into_nand();
    let (mut rng, mut refused) = (Rng::new(8), 0);
    for _ in 0..400 {
        let mut plow = Plow::mount(formatted.clone(), &set).unwrap();
        plow.core.medium.input[HEADER_BYTES..].fill(0);
        let (first, last) = (key(3, 4), key(90, 4));
        let expected = Expected { first: &first, low: &first, last: &last, count: 2, tombstones: true };
        let mut builder = Builder::begin(&mut plow.core.medium.input[HEADER_BYTES..], set.record, expected);
        for key in [&first, &last] {
            assert!(builder.append(&mut plow.core.medium.input[HEADER_BYTES..], key, Some(&[5; 4])));
        }
        // Small numbers get furthest.
        let most = [3, 12, 256][rng.below(3) as usize];
        let front = HEADER_BYTES + builder.used().0;
        plow.core.medium.input[front..front + 40].fill_with(|| rng.below(most) as u8);
        let header = Header { commits: true, ..Header::run(2, true) };
        refused += u32::from(plow.run(|core| core.take_carried(Ppn(39 * 16 + 3), &header)).is_err());
    }
    assert!(refused > 300, "{refused} of 400");
}
