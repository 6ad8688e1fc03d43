//! Power cuts on large chips, on which records are written after many programs and not only before an erase.

use super::{Ftl, assert_sound, chip};
use crate::ftl::mapping::Scheme;
use crate::nand::sim::{CutWhen, PowerCut, TornModel};
use crate::nand::{Cause, Geometry};
use crate::rng::Rng;
use crate::store::{PageStore, StoreError};
use crate::units::Lpn;
use alloc::vec;
use alloc::vec::Vec;

/// Draws the next page to write: a region from one end to the other, a few pages repeatedly, or any page.
fn next_page(rng: &mut Rng, pattern: usize, last: u32, pages: u32) -> u32 {
    match pattern {
        0 => (last + 1) % pages,
        1 => rng.below(40) as u32,
        2 if rng.below(8) > 0 => (last + 1) % pages,
        _ => rng.below(pages.into()) as u32,
    }
}

/// Cuts the power between records. A mount must find the pages programmed since the last record, and all
/// others.
pub fn survives_cuts_among_records<S: Scheme>(settings: impl Fn(u64) -> S::Config) {
    for seed in 0..2 {
        let geometry = Geometry { random_order: seed == 1, ..Geometry::new(128, 16, 8, 256) };
        let mut ftl = Ftl::<S>::format(chip(geometry), &settings(seed)).unwrap();
        let (mut rng, pages) = (Rng::new(seed), ftl.page_count());
        let mut model: Vec<u8> = vec![0; pages as usize];
        let (mut tag, mut last) = (0, 0);
        for round in 0..40 {
            let at_operation = ftl.nand().operations() + 1 + rng.below(1400);
            let (when, torn) = (CutWhen::Inside, TornModel::ALL[round % TornModel::ALL.len()]);
            ftl.nand_mut().plan_power_cut(PowerCut { at_operation, when, torn, seed: round as u64 });
            let pattern = if round < 6 { 0 } else { round % 4 };
            loop {
                last = next_page(&mut rng, pattern, last, pages);
                tag = tag % 250 + 1;
                match ftl.write(Lpn(last), Cause::Host, &[tag; 128]) {
                    Ok(()) => model[last as usize] = tag,
                    Err(StoreError::Nand(_)) => break,
                    Err(error) => panic!("seed {seed} round {round}: {error:?}"),
                }
                let since = ftl.flash().state.record_interval() + 2 * geometry.pages_per_block;
                assert!(ftl.flash().records.since <= since, "{} programs", ftl.flash().records.since);
            }
            let mut nand = ftl.into_nand();
            nand.power_on();
            ftl = Ftl::<S>::mount(nand, &settings(seed)).unwrap();
            assert_sound(&mut ftl);
            for lpn in 0..pages {
                let mut data = [0; 128];
                ftl.read(Lpn(lpn), Cause::Check, &mut data).unwrap();
                let is_new = lpn == last && data[0] == tag;
                let known = [model[lpn as usize]; 128];
                assert!(is_new || data == known, "seed {seed} round {round}, page {lpn}");
                model[lpn as usize] = data[0];
            }
            if round % 7 == 6 {
                ftl = Ftl::<S>::mount(ftl.close().unwrap(), &settings(seed)).unwrap();
            }
        }
    }
}
