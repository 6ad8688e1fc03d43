//! The packed form of records compared with plain lists of them.

use super::*;
use crate::inputs;
use crate::rng::Rng;
use alloc::collections::BTreeMap;
use alloc::vec;
use proptest::prelude::*;

type Records = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn built(body: &mut [u8], record: RecordFormat, records: &Records, tombstones: bool) -> usize {
    let (first, last) = (records.keys().next().unwrap(), records.keys().next_back().unwrap());
    let mut builder =
        Builder::begin(body, record, Expected { first, low: first, last, count: records.len(), tombstones });
    for (key, value) in records {
        if !builder.append(body, key, value.as_deref()) {
            break;
        }
    }
    builder.count()
}

fn assert_same(body: &[u8], record: RecordFormat, records: &Records, count: usize, tombstones: bool) {
    let view = View::new(body, record, count, tombstones).unwrap();
    let (mut key, mut value) = (vec![0; record.key_bytes.into()], vec![0; record.value_bytes.into()]);
    for (i, (expected, content)) in records.iter().take(count).enumerate() {
        view.key(i, &mut key);
        assert_eq!(&key, expected);
        assert_eq!(view.is_tombstone(i), content.is_none());
        if let Some(content) = content {
            view.value(i, &mut value);
            assert_eq!(&value, content);
        }
        assert_eq!(view.find(expected), (i, true));
        let mut near = expected.clone();
        *near.last_mut().unwrap() ^= 1;
        let place = records.keys().take(count).position(|other| *other >= near).unwrap_or(count);
        let there = records.keys().take(count).any(|other| *other == near);
        assert_eq!(view.find(&near), (place, there));
        for other in [&near, expected, records.keys().next().unwrap(), &Vec::new()] {
            assert_eq!(view.order(i, other), expected.cmp(other), "{expected:?} and {other:?}");
        }
    }
}

fn records(format: RecordFormat, count: usize, spread: u32, seed: u64) -> Records {
    let mut rng = Rng::new(seed);
    let draw = |rng: &mut Rng| {
        let mut key = vec![0; format.key_bytes.into()];
        rng.fill(&mut key);
        let kept = key.len().saturating_sub(spread as usize);
        key[..kept].fill(7);
        let mut value = vec![0; format.value_bytes.into()];
        rng.fill(&mut value);
        (key, rng.chance(3, 4).then_some(value))
    };
    (0..count).map(|_| draw(&mut rng)).collect()
}

proptest! {
    #![proptest_config(inputs::fixed(200))]

    #[test]
    fn records_come_back(
        key in 1u8..30, value in 0u8..20, spread in 1u32..30, count in 1usize..300, seed: u64, large: bool,
    ) {
        let format = RecordFormat::new(key, value);
        let records = records(format, count, spread, seed);
        let mut body = vec![0xff; if large { 4000 } else { 300 }];
        let fitted = built(&mut body, format, &records, true);
        prop_assert!(fitted > 0);
        assert_same(&body, format, &records, fitted, true);
    }
}

/// Records as those of any length are: keys and values that end with zeros, and keys with two bytes behind.
fn padded(format: RecordFormat, count: usize, seed: u64) -> Records {
    let mut rng = Rng::new(seed);
    let (key_bytes, value_bytes) = (usize::from(format.key_bytes), usize::from(format.value_bytes));
    let draw = |rng: &mut Rng| {
        let (mut key, mut value) = (vec![0; key_bytes], vec![0; value_bytes]);
        let of_key = rng.below(key_bytes as u64 - 1) as usize;
        rng.fill(&mut key[..of_key]);
        key[key_bytes - 2] = of_key as u8;
        let of_value = rng.below(value_bytes as u64 + 1) as usize;
        rng.fill(&mut value[..of_value]);
        (key, rng.chance(7, 8).then_some(value))
    };
    (0..count).map(|_| draw(&mut rng)).collect()
}

proptest! {
    #![proptest_config(inputs::fixed(200))]

    #[cfg(feature = "full")]
    #[test]
    fn records_without_their_zeros_come_back(
        key in 2u8..60, value in 0u8..200, count in 1usize..300, seed: u64, large: bool, tombstones: bool,
    ) {
        let format = RecordFormat::new(key, value);
        let mut records = padded(format, count, seed);
        if !tombstones {
            records.retain(|_, value| value.is_some());
        }
        prop_assume!(!records.is_empty());
        let mut body = vec![0xff; if large { 4000 } else { 600 }];
        let fitted = built(&mut body, format, &records, tombstones);
        prop_assert!(fitted > 0);
        prop_assert_eq!(is_trimmed_page(&body), format.entry_bytes() > 32);
        assert_same(&body, format, &records, fitted, tombstones);
    }

    /// Bytes that pass for a page of trimmed records are read without a panic, whatever they say.
    #[test]
    fn any_bytes_are_a_page_or_none(
        key in 1u8..40, value in 0u8..60, count in 1usize..40, seed: u64, width in 0u8..64, prefix in 0u8..4,
    ) {
        let format = RecordFormat::new(key, value);
        let mut body = vec![0; 400];
        Rng::new(seed).fill(&mut body);
        (body[0], body[1]) = (width | 0x80, prefix);
        if let Some(view) = View::new(&body, format, count, true) {
            let (mut key, mut value) = (vec![0; key.into()], vec![0; value.into()]);
            for i in 0..count {
                view.key(i, &mut key);
                view.value(i, &mut value);
                assert!(view.order(i, &key).is_eq());
                view.find(&key);
            }
        }
    }
}

#[cfg(feature = "full")]
#[test]
fn zeros_at_the_end_of_a_value_take_no_room() {
    let format = RecordFormat::variable(16, 200);
    let records: Records = (0..400u32)
        .map(|i| {
            let (mut key, mut value) = (vec![0; 18], vec![0; 200]);
            key[..4].copy_from_slice(&i.to_be_bytes());
            key[16] = 4;
            value[..20].fill(i as u8 | 1);
            (key, Some(value))
        })
        .collect();
    let mut body = vec![0; 4096];
    let count = built(&mut body, format, &records, false);
    // 20 bytes of the value, 2 of the key's end, 13 bits of lengths and flag, and 34 of the key's number,
    // half of which are zeros, too. Whole records would be 19.
    assert!((130..150).contains(&count), "{count}");
    assert_same(&body, format, &records, count, false);
}

#[test]
fn records_without_zeros_take_a_bit_more() {
    let format = RecordFormat::new(20, 40);
    let mut rng = Rng::new(3);
    let drawn =
        |rng: &mut Rng, bytes: usize| (0..bytes).map(|_| 1 + rng.below(255) as u8).collect::<Vec<_>>();
    let records: Records = (0..200).map(|_| (drawn(&mut rng, 20), Some(drawn(&mut rng, 40)))).collect();
    let mut body = vec![0; 4096];
    let count = built(&mut body, format, &records, true);
    let view = View::new(&body, format, count, true).unwrap();
    // Two bits at most for the key's high part, and the tombstone's.
    let bits = 8 * view.front() - 8 * FIXED;
    assert!(bits / count <= 8 * 60 + 2 - 5, "{bits} bits of {count}");
}

#[test]
fn uniform_keys_take_two_bits_more_than_their_gap() {
    let mut rng = Rng::new(4);
    let records: Records =
        (0..2000).map(|_| ((rng.below(1 << 20) as u32).to_be_bytes().to_vec(), Some(vec![1; 4]))).collect();
    let mut body = vec![0; 4096];
    let count = built(&mut body, RecordFormat::new(4, 4), &records, false);
    // A gap is 524 in the mean: 9 bits, 2 more, and the value's 32.
    assert!((4096 * 8 / 44..4096 * 8 / 42).contains(&count), "{count}");
    assert_same(&body, RecordFormat::new(4, 4), &records, count, false);
}

#[test]
fn keys_that_leave_the_prefix_begin_another_page() {
    let format = RecordFormat::new(12, 0);
    let mut body = vec![0; 512];
    let key = |first: u8, last: u8| [first, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let expected =
        Expected { first: &key(1, 1), low: &key(1, 1), last: &key(1, 9), count: 9, tombstones: false };
    let mut builder = Builder::begin(&mut body, format, expected);
    assert!(builder.append(&mut body, &key(1, 1), Some(&[])));
    assert!(!builder.append(&mut body, &key(2, 1), Some(&[])));
    assert_eq!(builder.count(), 1);
}

#[test]
fn fields_that_make_no_sense_are_refused() {
    let format = RecordFormat::new(4, 4);
    let mut body = vec![0; 100];
    let records = records(format, 8, 4, 1);
    let count = built(&mut body, format, &records, true);
    assert!(View::new(&body, format, count, true).is_some());
    assert!(View::new(&body, format, count + 1, true).is_none(), "fewer high parts than records");
    assert!(View::new(&body, format, 1000, true).is_none());
    assert!(View::new(&body[..4], format, 1, true).is_none());
    body[0] = 100;
    assert!(View::new(&body, format, count, true).is_none());
}

#[test]
fn a_page_grows_around_what_must_stay() {
    let format = RecordFormat::new(4, 4);
    let mut rng = Rng::new(4);
    for _ in 0..50 {
        let (mut plain, mut around) = ([0u8; 400], [0x55u8; 400]);
        let expected =
            Expected { first: &[0; 4], low: &[0; 4], last: &[0, 4, 0, 0], count: 50, tombstones: true };
        let hole = 150 + rng.below(40) as usize..300 + rng.below(60) as usize;
        let mut one = Builder::begin(&mut plain, format, expected);
        let mut other = Builder::begin_around(&mut around, hole.clone(), format, expected);
        let mut key = 0u32;
        loop {
            let (bytes, value) = (key.to_be_bytes(), [rng.next_u64() as u8; 4]);
            let value = rng.chance(4, 5).then_some(&value[..]);
            if !other.append_around(&mut around, hole.clone(), (&bytes, value)) {
                break;
            }
            assert!(one.append(&mut plain, &bytes, value));
            key += 1 + rng.below(10_000) as u32;
        }
        let used = other.used();
        assert!(used.0 <= hole.start && hole.end + used.1 <= 400 && other.count() > 10);
        assert!(around[hole.clone()].iter().all(|&byte| byte == 0x55));
        around[hole].fill(0);
        assert_eq!(around, plain);
    }
}

#[test]
fn the_logarithm_of_a_gap_is_that_of_the_quotient() {
    let mut rng = Rng::new(9);
    let edges = [0, 1, 2, 3, u64::MAX, u64::MAX / 2, 1 << 40];
    let drawn = (0..20_000).map(|_| rng.next_u64() >> (rng.next_u64() % 64));
    for range in edges.into_iter().chain(drawn.collect::<Vec<_>>()) {
        for records in [0, 1, 2, 3, 7, 64, 700, 701, 65_535, 1 + rng.below(100_000) as usize] {
            let divided = (range / records.max(1) as u64).max(1).ilog2();
            assert_eq!(log2_of_gap(range, records), divided, "{range} / {records}");
        }
    }
}
