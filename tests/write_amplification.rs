//! What collection costs, against the closed form for FIFO cleaning under uniform random writes (Desnoyers 2012).
#![allow(clippy::unwrap_used)]

use nandex::ftl::blocks::BlockState;
use nandex::ftl::page_map::{FtlSettings, PageMapFtl};
use nandex::ftl::victim::VictimPolicy;
use nandex::ftl::wear::WearLevelling;
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, Timing};
use nandex::rng::Rng;
use nandex::{Cause, Geometry, Lpn, PageStore};

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };
const GEOMETRY: Geometry = Geometry::new(512, 16, 64, 400);

fn ftl(over_provisioning_ppm: u32, victim: VictimPolicy) -> PageMapFtl<SimChip> {
    let chip = SimChip::new(&Part::new("test", GEOMETRY, TIMING)).unwrap();
    let settings = FtlSettings { over_provisioning_ppm, victim, bad_blocks_ppm: 0, ..FtlSettings::default() };
    PageMapFtl::format(chip, settings).unwrap()
}

/// Programs per host write, checkpoints apart.
fn write_amplification(ftl: &PageMapFtl<SimChip>, host_writes: u64) -> f64 {
    let programs = ftl.nand().counters().page_programs;
    let moved = programs[Cause::GarbageCollection as usize] + programs[Cause::WearLevelling as usize];
    1.0 + moved as f64 / host_writes as f64
}

/// Writes so many times the logical capacity and measures over the last third of it.
fn steady(ftl: &mut PageMapFtl<SimChip>, fills: u32, mut next: impl FnMut(u64) -> u32) -> f64 {
    let writes = u64::from(ftl.page_count()) * u64::from(fills);
    let mut moved_before = 0.0;
    let warm = writes * 2 / 3;
    for i in 0..writes {
        if i == warm {
            moved_before = write_amplification(ftl, 1) - 1.0;
        }
        ftl.write(Lpn(next(i)), Cause::Host, &[i as u8; 512]).unwrap();
    }
    (write_amplification(ftl, 1) - 1.0 - moved_before) / (writes - warm) as f64 + 1.0
}

/// The principal branch of Lambert's W, for -1/e < x < 0.
fn lambert_w0(x: f64) -> f64 {
    let mut w = 0.0f64;
    for _ in 0..200 {
        let e = w.exp();
        w -= (w * e - x) / (e * (w + 1.0));
    }
    w
}

fn fifo(a: f64) -> f64 {
    a / (a + lambert_w0(-a * (-a).exp()))
}

/// Pages that hold data in steady state, per logical page: without what the FTL keeps free or uses for itself.
fn spread(ftl: &PageMapFtl<SimChip>) -> f64 {
    let reserved = ftl.blocks().in_state(BlockState::Reserved).count() as u32;
    let data_blocks = GEOMETRY.blocks - reserved - ftl.blocks().free_count();
    f64::from(data_blocks * GEOMETRY.pages_per_block) / f64::from(ftl.page_count())
}

#[test]
fn the_closed_form_is_right() {
    for (a, expected) in [(1.07, 7.82), (1.15, 4.02), (1.25, 2.69), (1.50, 1.72)] {
        assert!((fifo(a) - expected).abs() < 0.01, "{a}: {}", fifo(a));
    }
}

#[test]
fn greedy_beats_fifo_under_uniform_writes() {
    for over_provisioning_ppm in [125_000, 200_000, 350_000] {
        let mut ftl = ftl(over_provisioning_ppm, VictimPolicy::Greedy);
        let mut rng = Rng::new(7);
        let pages = u64::from(ftl.page_count());
        let measured = steady(&mut ftl, 9, |_| rng.below(pages) as u32);
        let a = spread(&ftl);
        assert!(measured < fifo(a), "a = {a:.3}: {measured:.3}, FIFO {:.3}", fifo(a));
        assert!(measured > 0.85 * fifo(a), "a = {a:.3}: {measured:.3}, FIFO {:.3}", fifo(a));
    }
}

#[test]
fn sequential_overwriting_moves_nothing() {
    for victim in VictimPolicy::ALL {
        let mut ftl = ftl(125_000, victim);
        let pages = u64::from(ftl.page_count());
        let measured = steady(&mut ftl, 4, |i| (i % pages) as u32);
        assert!(measured < 1.001, "{victim:?}: {measured}");
    }
}

/// Nine tenths of the writes to a tenth of the pages: cost-benefit was made for this.
#[test]
fn cost_benefit_beats_greedy_under_skewed_writes() {
    let [greedy, cost_benefit] = [VictimPolicy::Greedy, VictimPolicy::CostBenefit].map(|victim| {
        let mut ftl = ftl(200_000, victim);
        let mut rng = Rng::new(3);
        let pages = u64::from(ftl.page_count());
        steady(&mut ftl, 12, |_| {
            let range = if rng.chance(9, 10) { pages / 10 } else { pages };
            rng.below(range) as u32
        })
    });
    assert!(cost_benefit < greedy, "cost-benefit {cost_benefit:.3}, greedy {greedy:.3}");
}

/// A tenth of the pages is rewritten for ever, the rest is cold. Without static levelling the cold blocks never wear.
#[test]
fn static_levelling_evens_out_wear() {
    let spread = |wear_levelling| {
        let chip = SimChip::new(&Part::new("test", Geometry::new(512, 16, 16, 100), TIMING)).unwrap();
        let settings = FtlSettings { wear_levelling, ..FtlSettings::default() };
        let mut ftl = PageMapFtl::format(chip, settings).unwrap();
        let hot = ftl.page_count() / 10;
        for lpn in 0..ftl.page_count() {
            ftl.write(Lpn(lpn), Cause::Host, &[1; 512]).unwrap();
        }
        for i in 0..60_000u32 {
            ftl.write(Lpn(i % hot), Cause::Host, &[i as u8; 512]).unwrap();
        }
        // The anchors, the first blocks of the chip, only hold references to checkpoints.
        let wear = &ftl.nand().wear()[4..];
        wear.iter().max().unwrap() - wear.iter().min().unwrap()
    };
    let (off, on) = (spread(WearLevelling::None), spread(WearLevelling::Threshold { gap_erases: 8 }));
    assert!(off > 100, "{off} without levelling");
    assert!(on <= 20, "{on} with levelling");
}
