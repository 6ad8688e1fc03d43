//! Fuzz targets that take bytes as the pages of a chip, or as a power cut.
//!
//! An image of a chip has checksums of its own, which detect nearly every change. These inputs have bare
//! pages, so that changes reach the code that mounts them.

use super::{mount_everything, part};
use nandex::nand::sim::SimChip;
use nandex::nand::{Geometry, Nand};
use nandex::ordered::{Durability, RecordFormat};
use nandex::rng::split_mix;
use nandex::spatial::{Rect, Relation};
use nandex::{Cause, Pbn};
use nandex_lab::crash::{CrashPlan, Cuts, Rehearsal, Target, small_chip};
use nandex_lab::runner::Control;
use nandex_lab::spatial::SPATIAL;
use nandex_stacks::options::Settings;
use nandex_stacks::registry::{INDEXES, STORES};
use std::ops::ControlFlow;

/// Bytes before each page of the input: block number and page number.
const HEAD_BYTES: usize = 2;

/// The chips that the first byte chooses from: page bytes, pages of a block, blocks.
const CHIPS: [(u32, u32, u32); 2] = [(512, 8, 24), (1024, 16, 16)];

/// The chip that bytes describe: the first byte chooses its shape and whether it
/// is NOR or takes pages in any order, then pages follow, each after its block and place.
fn chip_of(bytes: &[u8]) -> Option<SimChip> {
    let (first, mut rest) = bytes.split_first()?;
    let (page_bytes, pages_per_block, blocks) = CHIPS[usize::from(*first) % CHIPS.len()];
    let mut part = part(page_bytes, pages_per_block, blocks);
    if first & 2 != 0 {
        part.geometry = part.geometry.with_programs_per_page_max(Geometry::ANY_PROGRAMS);
    }
    part.geometry.random_order = first & 4 != 0;
    let mut chip = SimChip::new(&part).ok()?;
    let raw = part.geometry.raw_page_bytes();
    while let Some((record, after)) = rest.split_at_checked(HEAD_BYTES + raw) {
        let place =
            part.geometry.page_at(Pbn(u32::from(record[0]) % blocks), u32::from(record[1]) % pages_per_block);
        let (data, spare) = record[HEAD_BYTES..].split_at(page_bytes as usize);
        // A page given twice is refused, and the first one stays.
        let _ = chip.program(place, Cause::Check, data, spare);
        rest = after;
    }
    Some(chip)
}

/// The input with which [`chip_pages`] makes this chip: for a corpus.
pub fn pages_of(chip: &SimChip, first: u8) -> Vec<u8> {
    let mut bytes = vec![first];
    super::damaged(chip, |pbn, page, raw| {
        bytes.extend([pbn.0 as u8, page as u8]);
        bytes.extend_from_slice(raw);
    });
    bytes
}

/// Mounts whatever the bytes are as pages with every index, store and spatial index. Nothing may panic.
pub fn chip_pages(bytes: &[u8]) {
    if let Some(chip) = chip_of(bytes) {
        mount_everything(&chip);
        mount_spatial(&chip);
    }
}

/// Mounts a chip with every spatial index, and uses it a little. Nothing may panic.
pub fn mount_spatial(chip: &SimChip) {
    let settings = Settings::new(RecordFormat::new(8, 8));
    let Ok(everywhere) = Rect::new([-1e9, -1e9], [1e9, 1e9]) else { return };
    for entry in SPATIAL {
        let Ok(mut index) = entry.mount::<f64, 2>(Box::new(chip.clone()), &settings) else { continue };
        let _ = index.check();
        let _ = index.window(&everywhere, Relation::Intersects, &mut |_, _| ControlFlow::Continue(()));
        let _ = index.nearest(&[0.0, 0.0], 3, &mut |_, _, _| ControlFlow::Continue(()));
        let _ = index.insert(&everywhere, 7);
        let _ = index.remove(&everywhere, 7);
    }
}

/// Fuzz target: the bytes choose the subject of a crash test, its durability class, workload and power cut.
/// The state after the cut is compared with the promise.
pub fn power_cut(bytes: &[u8]) {
    let byte = |place: usize| bytes.get(place).copied().unwrap_or(0);
    let targets = INDEXES.len() + SPATIAL.len() + STORES.len();
    let target = match usize::from(byte(0)) % targets {
        n if n < INDEXES.len() => Target::Index(&INDEXES[n]),
        n if n < INDEXES.len() + SPATIAL.len() => Target::Spatial(&SPATIAL[n - INDEXES.len()]),
        n => Target::Store(&STORES[n - INDEXES.len() - SPATIAL.len()]),
    };
    let classes = [Durability::EveryOperation, Durability::EverySync, Durability::None];
    let settings = Settings {
        durability: classes[usize::from(byte(1)) % classes.len()],
        ram_bytes: [None, Some(60_000)][usize::from(byte(2)) % 2],
        ..Settings::new(RecordFormat::new(8, 8))
    };
    let seed = bytes.iter().skip(3).fold(0, |seed, &byte| split_mix(seed ^ u64::from(byte)));
    let plan = CrashPlan {
        part: target.suited(small_chip()),
        operations: 20 + seed % 200,
        seed,
        cuts: Cuts::Sample(10),
        slots: 30 + (seed >> 32) as u32 % 400,
        ..CrashPlan::new(target, settings)
    };
    let name = target.name();
    // What it cannot do in this class or with this RAM is refused.
    let Ok(rehearsal) = Rehearsal::record(plan) else { return };
    let report = rehearsal.run(1, &Control::default());
    assert!(report.is_clean(), "{name}: {:?} {:?}", report.stopped, report.first_failure);
}
