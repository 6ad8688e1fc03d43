//! The worked examples of the paper, step by step, over a store that records its writes.

use super::*;
use nandex::testing::Store;

/// A TBM of `buffer_blocks` buffer blocks with 4 pages each.
fn tbm(buffer_blocks: u32) -> Tbm<Store, Chip> {
    tbm_by(TbmConfig::new(buffer_blocks))
}

fn tbm_by(settings: TbmConfig) -> Tbm<Store, Chip> {
    let chip = new_chip(Geometry::new(128, 32, 4, 16));
    let store = Store::new(128, 64);
    store.note_changes();
    Tbm::format(store, BlockRange::new(chip, Pbn(0), 16), &settings).unwrap()
}

fn write(tbm: &mut Tbm<Store, Chip>, lpns: &[u32]) {
    for (tag, &lpn) in (1..).zip(lpns) {
        tbm.write(Lpn(lpn), Cause::Host, &page(tag, 128)).unwrap();
    }
}

/// The logical pages in each buffer block, read from the chip.
fn buffers(tbm: &Tbm<Store, Chip>) -> BTreeMap<u32, Vec<u32>> {
    let lpns = |pbn: Pbn, pages: u32| {
        let mut lpns = Vec::new();
        for place in 0..pages {
            let mut spare = [0; 6];
            let ppn = Ppn(pbn.0 * 4 + place);
            tbm.range().nand().lock().read(ppn, Cause::Check, &mut [], &mut spare).unwrap();
            lpns.push(u32::from_le_bytes(spare[2..6].try_into().unwrap()));
        }
        lpns
    };
    tbm.buffer_blocks().map(|(lbn, pbn, pages)| (lbn, lpns(pbn, pages))).collect()
}

#[test]
fn figure_5_pages_of_one_logical_block_share_a_buffer_block() {
    let mut tbm = tbm(4);
    // Nodes H, O, D, R, G.
    write(&mut tbm, &[7, 14, 3, 17, 6]);
    let expected = [(0, vec![3]), (1, vec![7, 6]), (3, vec![14]), (4, vec![17])];
    assert_eq!(buffers(&tbm), BTreeMap::from(expected));
    assert!(tbm.store().written(&[Cause::Merge]).is_empty());
}

#[test]
fn figure_6_the_block_with_the_fewest_pages_is_converted() {
    let mut tbm = tbm(4);
    write(&mut tbm, &[0, 1, 1, 4, 5, 4, 6, 8, 9, 10, 11, 12, 13, 12, 14]);
    assert_eq!(buffers(&tbm)[&0], [0, 1, 1]);
    tbm.write(Lpn(16), Cause::Host, &page(99, 128)).unwrap();
    // The second of the pages 1 is the newest; pages 0 and 1 go down in order.
    assert_eq!(tbm.store().written(&[Cause::Merge]), [0, 1]);
    let mut data = vec![0; 128];
    tbm.read(Lpn(1), Cause::Host, &mut data).unwrap();
    assert_eq!(data, page(3, 128));
    assert_eq!(buffers(&tbm).into_keys().collect::<Vec<u32>>(), [1, 2, 3, 4]);
    let TbmCounters { conversions, victims, converted_pages, dropped_pages, .. } = tbm.counters();
    assert_eq!((conversions, victims, converted_pages, dropped_pages), (1, 1, 2, 1));
}

#[test]
fn figure_7_a_full_block_is_converted_for_its_own_next_page() {
    let mut tbm = tbm(4);
    write(&mut tbm, &[0, 1, 1, 2]);
    assert!(tbm.store().written(&[Cause::Merge]).is_empty());
    let (before, erases) = (tbm.buffer_blocks().next(), tbm.range().nand().lock().wear().iter().sum::<u32>());
    tbm.write(Lpn(3), Cause::Host, &page(9, 128)).unwrap();
    assert_eq!(tbm.store().written(&[Cause::Merge]), [0, 1, 2]);
    assert_eq!(buffers(&tbm), BTreeMap::from([(0, vec![3])]));
    assert_ne!(tbm.buffer_blocks().next(), before, "the least worn block, not the one just erased");
    assert_eq!(tbm.range().nand().lock().wear().iter().sum::<u32>(), erases + 1);
    let counters = tbm.counters();
    assert_eq!((counters.conversions, counters.victims), (1, 0));
    for (lpn, tag) in [(0, 1), (1, 3), (2, 4), (3, 9)] {
        let mut data = vec![0; 128];
        tbm.read(Lpn(lpn), Cause::Host, &mut data).unwrap();
        assert_eq!(data, page(tag, 128));
    }
}

/// Figure 6 again: block 0 holds pages 0, 1, 1. A conversion reads the two pages that it keeps, or all
/// three.
#[test]
fn a_conversion_reads_what_it_keeps_or_every_page() {
    for (victim_reads, expected) in [(VictimReads::Kept, 2), (VictimReads::Every, 3)] {
        let mut tbm = tbm_by(TbmConfig { victim_reads, ..TbmConfig::new(4) });
        write(&mut tbm, &[0, 1, 1, 4, 5, 4, 6, 8, 9, 10, 11, 12, 13, 12, 14]);
        let reads = |tbm: &Tbm<Store, Chip>| tbm.range().nand().lock().counters().page_reads;
        let before = reads(&tbm);
        tbm.write(Lpn(16), Cause::Host, &page(99, 128)).unwrap();
        let after = reads(&tbm);
        let merge = Cause::Merge as usize;
        assert_eq!(after[merge] - before[merge], expected, "{victim_reads:?}");
        assert_eq!(after.iter().sum::<u64>() - before.iter().sum::<u64>(), expected, "{victim_reads:?}");
        assert_eq!(tbm.store().written(&[Cause::Merge]), [0, 1], "the same pages are written");
        // Its own next page converts a full block: pages 5, 4, 6 are kept of 4, 5, 4, 6.
        let before = reads(&tbm)[merge];
        tbm.write(Lpn(7), Cause::Host, &page(98, 128)).unwrap();
        assert_eq!(reads(&tbm)[merge] - before, expected + 1, "{victim_reads:?}");
    }
}

/// The rule here: pages with an odd first byte go to the store below at once.
#[test]
fn a_page_by_the_rule_goes_to_the_store_below() {
    let mut tbm = tbm(4);
    tbm.write_directly(Box::new(|data| data[0] % 2 == 1));
    let programs = |tbm: &Tbm<Store, Chip>| tbm.range().nand().lock().counters().page_programs_total();
    let put = |tbm: &mut Tbm<Store, Chip>, lpn: u32, tag: u64| {
        let before = (programs(tbm), tbm.store().counters().page_writes[Cause::Host as usize]);
        tbm.write(Lpn(lpn), Cause::Host, &page(tag, 128)).unwrap();
        let mut data = vec![0; 128];
        tbm.read(Lpn(lpn), Cause::Host, &mut data).unwrap();
        assert_eq!(data, page(tag, 128), "lpn {lpn}");
        assert_sound_of(tbm);
        let written = tbm.store().counters().page_writes[Cause::Host as usize];
        (programs(tbm) - before.0, written - before.1)
    };
    assert_eq!(put(&mut tbm, 0, 2), (1, 0), "to the buffer");
    assert_eq!(put(&mut tbm, 1, 4), (1, 0));
    assert_eq!(put(&mut tbm, 9, 3), (0, 1), "none of its versions is in the buffer");
    assert_eq!(put(&mut tbm, 1, 5), (1, 1), "a note follows the older version");
    assert_eq!(tbm.direct_pages(), 2);
    assert_eq!(buffers(&tbm), BTreeMap::from([(0, vec![0, 1, 1])]));
    // The conversion of the full block leaves page 1 where it is.
    assert_eq!(put(&mut tbm, 2, 6), (1, 0));
    assert_eq!(put(&mut tbm, 3, 8), (1, 0));
    assert_eq!(tbm.store().written(&[Cause::Merge]), [0, 2]);
    // A mount merges what is newer in the buffer only.
    assert_eq!(put(&mut tbm, 3, 7), (1, 1));
    let (store, range) = tbm.into_parts();
    let mut tbm = Tbm::mount(store, range, &TbmConfig::new(4)).unwrap();
    for (lpn, tag) in [(0, 2), (1, 5), (2, 6), (3, 7), (9, 3)] {
        let mut data = vec![0; 128];
        tbm.read(Lpn(lpn), Cause::Host, &mut data).unwrap();
        assert_eq!(data, page(tag, 128), "lpn {lpn}");
    }
    // A page that went below is trimmed like any other.
    tbm.write_directly(Box::new(|data| data[0] % 2 == 1));
    tbm.write(Lpn(5), Cause::Host, &page(10, 128)).unwrap();
    tbm.write(Lpn(5), Cause::Host, &page(11, 128)).unwrap();
    tbm.trim(Lpn(5)).unwrap();
    tbm.sync().unwrap();
    let (store, range) = tbm.into_parts();
    let mut tbm = Tbm::mount(store, range, &TbmConfig::new(4)).unwrap();
    let mut data = vec![1; 128];
    tbm.read(Lpn(5), Cause::Host, &mut data).unwrap();
    assert_eq!(data, [0; 128]);
}

fn assert_sound_of(tbm: &mut Tbm<Store, Chip>) {
    let report = tbm.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
}

#[test]
fn ties_go_to_the_block_unchanged_for_longest() {
    let mut tbm = tbm(3);
    write(&mut tbm, &[0, 4, 8, 1, 5, 9, 12]);
    assert_eq!(tbm.store().written(&[Cause::Merge]), [0, 1]);
}

#[test]
fn a_group_is_never_divided_by_a_conversion() {
    let mut tbm = tbm(3);
    write(&mut tbm, &[0, 4, 8, 9]);
    // Three logical blocks, all but one without a buffer block; the victims are those that the group does not
    // need.
    let data = page(50, 128);
    let group: Vec<(Lpn, &[u8])> = [12, 8, 16].map(|lpn| (Lpn(lpn), &data[..])).to_vec();
    tbm.write_atomic(&group, Cause::Host).unwrap();
    assert_eq!(tbm.store().written(&[Cause::Merge]), [0, 4]);
    assert_eq!(buffers(&tbm), BTreeMap::from([(2, vec![8, 9, 8]), (3, vec![12]), (4, vec![16])]));
    // Two pages of a logical block whose buffer block has room for one.
    let group: Vec<(Lpn, &[u8])> = [10, 11].map(|lpn| (Lpn(lpn), &data[..])).to_vec();
    tbm.write_atomic(&group, Cause::Host).unwrap();
    assert_eq!(tbm.store().written(&[Cause::Merge]), [0, 4, 8, 9]);
    assert_eq!(buffers(&tbm)[&2], [10, 11]);
    let refused = tbm.write_atomic(&[0, 4, 8, 12].map(|lpn| (Lpn(lpn), &data[..])), Cause::Host);
    assert!(matches!(refused, Err(StoreError::Unsupported(_))));
}

#[test]
fn buffer_blocks_take_turns_by_wear() {
    let mut tbm = tbm(2);
    let data = page(1, 128);
    for i in 0..8_000u32 {
        tbm.write(Lpn(i % 3 * 4), Cause::Host, &data).unwrap();
    }
    let wear = tbm.range().nand().lock().wear().to_vec();
    let (least, most) = (wear.iter().min().unwrap(), wear.iter().max().unwrap());
    assert!(*least > 100 && most - least <= 2, "{wear:?}");
    // A mount goes on from there.
    tbm.checkpoint().unwrap();
    let erases: Vec<u32> = (0..16).map(|pbn| tbm.blocks().erase_count(Pbn(pbn))).collect();
    assert_eq!(erases, wear);
    let (store, range) = tbm.into_parts();
    let tbm = Tbm::mount(store, range, &TbmConfig::new(2)).unwrap();
    assert!((0..16).all(|pbn| tbm.blocks().erase_count(Pbn(pbn)) == wear[pbn as usize]));
}
