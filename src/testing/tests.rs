//! The test media keep exactly their promises.

use super::*;
use crate::nand::catalogue;
use crate::nand::sim::SimChip;
use crate::nand::{Cause, Nand, NandError};
use crate::rng::Rng;
use crate::store::{PageStore, StoreError};
use crate::units::{Lpn, Ppn};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// First bytes of the pages.
fn firsts(store: &Store) -> Vec<u8> {
    store.pages().iter().map(|page| page[0]).collect()
}

/// The states that a cut leaves of a store to which `work` was done.
fn after_cuts(promise: Promise, work: impl Fn(&mut Store)) -> BTreeSet<Vec<u8>> {
    let cut = |seed| {
        let mut store = Store::new(4, 3).with_promise(promise);
        work(&mut store);
        store.cut(&mut Rng::new(seed));
        firsts(&store)
    };
    (0..200).map(cut).collect()
}

fn write(store: &mut Store, lpn: u32, byte: u8) -> Result<(), StoreError> {
    store.write(Lpn(lpn), Cause::Host, &[byte; 4])
}

#[test]
fn a_durable_store_keeps_writes_and_may_bring_back_what_was_trimmed() {
    let work = |store: &mut Store| {
        write(store, 0, 1).unwrap();
        store.sync().unwrap();
        write(store, 1, 2).unwrap();
        store.trim(Lpn(0)).unwrap();
        store.trim(Lpn(1)).unwrap();
        write(store, 1, 3).unwrap();
    };
    assert_eq!(after_cuts(WRITE_THROUGH, work), BTreeSet::from([vec![0, 3, 0], vec![1, 3, 0]]));
}

#[test]
fn what_a_cut_leaves_of_others_is_a_prefix_or_anything() {
    let work = |store: &mut Store| {
        write(store, 0, 1).unwrap();
        store.sync().unwrap();
        write(store, 0, 2).unwrap();
        store.write_atomic(&[(Lpn(1), &[3; 4]), (Lpn(2), &[3; 4])], Cause::Host).unwrap();
    };
    let prefixes = [vec![1, 0, 0], vec![2, 0, 0], vec![2, 3, 3]];
    assert_eq!(after_cuts(ORDERED, work), BTreeSet::from(prefixes.clone()));
    let mut any = BTreeSet::from(prefixes);
    any.insert(vec![1, 3, 3]);
    assert_eq!(after_cuts(UNORDERED, work), any);
}

#[test]
fn the_change_at_which_the_power_fails_is_done_or_not() {
    let work = |store: &mut Store| {
        store.fail_after(1);
        write(store, 0, 1).unwrap();
        let lost = Err(StoreError::Nand(NandError::PowerLost));
        assert!(!store.has_failed());
        assert_eq!((write(store, 1, 2), store.has_failed()), (lost.clone(), true));
        assert_eq!(
            (write(store, 2, 3), store.trim(Lpn(0)), store.sync()),
            (lost.clone(), lost.clone(), lost)
        );
    };
    assert_eq!(after_cuts(SINGLE, work), BTreeSet::from([vec![1, 0, 0], vec![1, 2, 0]]));
    let store = &mut Store::new(4, 3);
    work(store);
    store.cut(&mut Rng::new(1));
    write(store, 2, 9).unwrap();
    assert_eq!(firsts(store)[2], 9);
}

#[test]
fn a_script_sees_every_call_and_refuses_some() {
    let mut store = Store::new(4, 3).with_cache(1);
    store.on_call(|call| match call {
        Call::Write(pages, _) if pages[0].0 == Lpn(1) => Err(StoreError::WornOut),
        Call::Checkpoint => Err(StoreError::Full),
        _ => Ok(()),
    });
    store.note_changes();
    assert_eq!((write(&mut store, 0, 1), write(&mut store, 1, 2)), (Ok(()), Err(StoreError::WornOut)));
    assert_eq!((store.sync(), store.checkpoint()), (Ok(()), Err(StoreError::Full)));
    assert_eq!(store.changes(), [Change::Write(vec![(Lpn(0), vec![1; 4])], Cause::Host), Change::Sync]);
    let mut data = [0; 4];
    for _ in 0..3 {
        store.read(Lpn(0), Cause::Host, &mut data).unwrap();
    }
    assert_eq!((data, store.page_reads(), store.page_writes()), ([1; 4], 0, 1), "the cache answers");
    let copy = store.copy();
    store.put(Lpn(0), &[7; 4]);
    assert_eq!((copy.page_of(Lpn(0))[0], store.handle().page_of(Lpn(0))[0]), (1, 7));
    store.refuse_nothing();
    assert_eq!(store.checkpoint(), Ok(()));
    assert_eq!(write(&mut store, 3, 1), Err(StoreError::OutOfRange(Lpn(3))));
    assert_eq!(Store::holding(&copy.pages()).pages(), copy.pages());
}

#[test]
fn a_script_of_a_chip_changes_what_is_read_and_refuses_the_rest() {
    let mut chip = Chip::new(SimChip::new(&catalogue::mlc_with(64, 4, 8)).unwrap());
    chip.program(Ppn(0), Cause::Host, &[1, 2, 3], &[]).unwrap();
    let other = chip.copy();
    chip.on_access(|sim, access| match access {
        Access::Read(Ppn(0), _, data, _) => {
            data[1] ^= 0xf0;
            Ok(())
        }
        Access::Read(..) => Err(NandError::Device(5)),
        Access::Program(..) if sim.operations() == 0 => Ok(()),
        Access::Program(ppn, ..) => Err(NandError::ProgramFailed(ppn)),
        Access::Erase(pbn, _) => Err(NandError::EraseFailed(pbn)),
    });
    let mut data = [0; 2];
    chip.read(Ppn(0), Cause::Host, &mut data, &mut []).unwrap();
    assert_eq!(data, [1, 0xf2]);
    chip.read_at(Ppn(0), Cause::Host, 1, &mut data).unwrap();
    assert_eq!(data, [0xf2, 3]);
    assert_eq!(chip.read(Ppn(1), Cause::Host, &mut data, &mut []).err(), Some(NandError::Device(5)));
    assert!(chip.program(Ppn(1), Cause::Host, &[1], &[]).is_err());
    assert!(chip.clone().erase(crate::units::Pbn(0), Cause::Host).is_err());
    assert_eq!(other.lock().operations(), 1);
    chip.refuse_nothing();
    chip.read_at(Ppn(0), Cause::Host, 1, &mut data).unwrap();
    assert_eq!(data, [2, 3]);
}

#[test]
fn pages_read_wrongly_until_their_block_is_erased_or_for_ever() {
    let mut chip = Chip::new(SimChip::new(&catalogue::mlc_with(64, 4, 8)).unwrap());
    let mut bytes = vec![9; 64];
    bytes.extend([7; 64]);
    let read = |chip: &mut Chip, ppn| {
        let (mut data, mut spare) = ([0; 2], [0; 1]);
        chip.read(Ppn(ppn), Cause::Host, &mut data, &mut spare).map(|_| (data, spare))
    };
    chip.spoil([(Ppn(0), Wrong::Unreadable), (Ppn(1), Wrong::Bytes(bytes))]);
    chip.spoil([(Ppn(2), Wrong::Bits(vec![9, 64 * 8]))]);
    assert_eq!(read(&mut chip, 0), Err(NandError::Uncorrectable(Ppn(0))));
    assert_eq!((read(&mut chip, 1), read(&mut chip, 3)), (Ok(([9; 2], [7])), Ok(([0xff; 2], [0xff]))));
    assert_eq!((chip.spoilt().len(), chip.copy().spoilt().len()), (3, 0));
    chip.erase(crate::units::Pbn(0), Cause::Host).unwrap();
    assert_eq!(
        (read(&mut chip, 1), read(&mut chip, 2)),
        (Ok(([0xff; 2], [0xff])), Ok(([0xff, 0xfd], [0xfe])))
    );
}
