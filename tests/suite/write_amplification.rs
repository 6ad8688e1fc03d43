//! The cost of collection, against the closed form for FIFO cleaning under uniform random writes (Desnoyers
//! 2012). `cargo test --test suite write_amplification:: -- --nocapture` prints the figures of
//! `docs/ftl/page-map.md`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use crate::inputs::{sized, stride};
use nandex::blocks::BlockState;
use nandex::blocks::hot::HotConfig;
use nandex::blocks::victim::VictimPolicy;
use nandex::blocks::wear::WearLevelling;
use nandex::ftl::page_map::{FtlConfig, PageMapFtl, Separation};
use nandex::nand::sim::SimChip;
use nandex::nand::{Part, Timing};
use nandex::rng::Rng;
use nandex::{Cause, Geometry, Lpn, PageStore};

const TIMING: Timing =
    Timing { read_ns: 60_000, program_ns: 800_000, erase_ns: 1_500_000, transfer_ps_per_byte: 25_000 };
const GEOMETRY: Geometry = Geometry::new(512, 16, 64, 400);

fn chip(geometry: Geometry) -> SimChip {
    SimChip::new(&Part::new("test", geometry, TIMING)).unwrap()
}

fn ftl(over_provisioning_ppm: u32, victim: VictimPolicy) -> PageMapFtl<SimChip> {
    let settings = FtlConfig { over_provisioning_ppm, victim, bad_blocks_ppm: 0, ..FtlConfig::default() };
    PageMapFtl::format(chip(GEOMETRY), &settings).unwrap()
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

/// Pages that hold data in steady state, per logical page: without what the FTL keeps free or uses for
/// itself.
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

/// Small pages, many blocks, one frontier, no checkpoint where a note finds room: what the analyses assume.
fn plain(over_provisioning_ppm: u32, victim: VictimPolicy) -> PageMapFtl<SimChip> {
    let settings = FtlConfig {
        over_provisioning_ppm,
        victim,
        separation: Separation::None,
        bad_blocks_ppm: 0,
        checkpoint_blocks: Some(u32::MAX),
        ..FtlConfig::default()
    };
    PageMapFtl::format(chip(Geometry::new(256, 16, 32, sized(1000, 2000))), &settings).unwrap()
}

/// Pages of checkpoints and notes for each page that is programmed otherwise, under uniform random writes on
/// a full store.
fn record_cost(page_bytes: u32) -> f64 {
    let geometry = Geometry::new(page_bytes, 16, 64, 400);
    let mut ftl = PageMapFtl::format(chip(geometry), &FtlConfig::default()).unwrap();
    let pages = u64::from(ftl.page_count());
    let mut rng = Rng::new(7);
    let data = vec![1; page_bytes as usize];
    let mut before = [0; 2];
    for i in 0..4 * pages {
        if i == 2 * pages {
            before = programs(&ftl);
        }
        let lpn = if i < pages { i } else { rng.below(pages) };
        ftl.write(Lpn(lpn as u32), Cause::Host, &data).unwrap();
    }
    let after = programs(&ftl);
    (after[0] - before[0]) as f64 / (after[1] - before[1]) as f64
}

/// Pages of checkpoints and notes, and all others.
fn programs(ftl: &PageMapFtl<SimChip>) -> [u64; 2] {
    let programs = ftl.nand().counters().page_programs;
    let records = programs[Cause::Checkpoint as usize];
    [records, programs.iter().sum::<u64>() - records]
}

/// The note of a logical page takes a sixteenth of a page of 64 bytes, and a checkpoint is in proportion.
#[test]
fn records_cost_in_proportion_to_small_pages() {
    let bounds = [(64, 0.25), (128, 0.09), (256, 0.05), (512, 0.04), (2048, 0.0125), (4096, 0.01)];
    for (page_bytes, most) in bounds.into_iter().step_by(stride(2)) {
        let cost = record_cost(page_bytes);
        println!("pages of {page_bytes} bytes: {cost:.4}");
        assert!(cost < most, "{cost} of the programs in pages of {page_bytes} bytes");
    }
}

/// Uniform random writes on a full store, in steady state: pages in full blocks for each logical page, and
/// programs for each write.
fn uniform(over_provisioning_ppm: u32, victim: VictimPolicy) -> (f64, f64) {
    let mut ftl = plain(over_provisioning_ppm, victim);
    let pages = u64::from(ftl.page_count());
    let mut rng = Rng::new(7);
    let write = |ftl: &mut PageMapFtl<SimChip>, lpn| ftl.write(Lpn(lpn), Cause::Host, &[1; 256]).unwrap();
    (0..pages).for_each(|lpn| write(&mut ftl, lpn as u32));
    (0..4 * pages).for_each(|_| write(&mut ftl, rng.below(pages) as u32));
    let moved_before = ftl.counters().moved_pages;
    let (mut full_blocks, mut looks) = (0, 0);
    for i in 0..3 * pages {
        write(&mut ftl, rng.below(pages) as u32);
        if i % 97 == 0 {
            full_blocks += ftl.blocks().in_state(BlockState::Full).count();
            looks += 1;
        }
    }
    let moved = (ftl.counters().moved_pages - moved_before) as f64;
    let spread = full_blocks as f64 / f64::from(looks) * 32.0 / pages as f64;
    println!(
        "{victim:?}, a = {spread:.3}: {:.3}, FIFO {:.3}",
        1.0 + moved / (3 * pages) as f64,
        fifo(spread)
    );
    (spread, 1.0 + moved / (3 * pages) as f64)
}

#[test]
fn fifo_follows_the_closed_form() {
    for (over_provisioning_ppm, expected) in
        [(144_000, 1.10), (202_000, 1.16), (281_000, 1.24), (378_000, 1.34), (522_000, 1.48)]
    {
        let (a, measured) = uniform(over_provisioning_ppm, VictimPolicy::Fifo);
        assert!((a - expected).abs() < 0.02, "a = {a:.3}, {expected} expected");
        let error = measured / fifo(a) - 1.0;
        assert!(error.abs() < 0.015, "a = {a:.3}: {measured:.3}, closed form {:.3}", fifo(a));
    }
}

#[test]
fn victims_rank_as_the_theory_says() {
    let all = [144_000, 281_000, 522_000];
    for over_provisioning_ppm in all.into_iter().step_by(stride(3)) {
        let measure = |victim| uniform(over_provisioning_ppm, victim).1;
        let fifo = measure(VictimPolicy::Fifo);
        let greedy = measure(VictimPolicy::Greedy);
        let [narrow, wide] = [16, 256].map(|blocks| measure(VictimPolicy::Windowed { blocks }));
        assert!(greedy < wide && wide < narrow && narrow < fifo, "{greedy} {wide} {narrow} {fifo}");
        assert_eq!(measure(VictimPolicy::Windowed { blocks: 1 }), fifo);
        // Three choices are worse than the oldest block, ten are better.
        let [one, three, ten] = [1, 3, 10].map(|count| measure(VictimPolicy::Choices { count }));
        assert!(
            greedy < ten && ten < fifo && ten < three && three < one,
            "{greedy} {ten} {fifo} {three} {one}"
        );
    }
}

/// With frontiers apart and checkpoints, as by default.
#[test]
fn greedy_beats_fifo_under_uniform_writes() {
    for over_provisioning_ppm in [125_000, 200_000, 350_000] {
        let mut ftl = ftl(over_provisioning_ppm, VictimPolicy::Greedy);
        let mut rng = Rng::new(7);
        let pages = u64::from(ftl.page_count());
        let measured = steady(&mut ftl, 9, |_| rng.below(pages) as u32);
        let a = spread(&ftl);
        println!("two frontiers, a = {a:.3}: {measured:.3}, FIFO {:.3}", fifo(a));
        assert!(measured < fifo(a), "a = {a:.3}: {measured:.3}, FIFO {:.3}", fifo(a));
        assert!(measured > 0.85 * fifo(a), "a = {a:.3}: {measured:.3}, FIFO {:.3}", fifo(a));
    }
}

#[test]
fn sequential_overwriting_moves_nothing() {
    for victim in VictimPolicy::ALL {
        for separation in Separation::ALL {
            let settings = FtlConfig { victim, separation, bad_blocks_ppm: 0, ..FtlConfig::default() };
            let mut ftl = PageMapFtl::format(chip(GEOMETRY), &settings).unwrap();
            let pages = u64::from(ftl.page_count());
            let measured = steady(&mut ftl, 4, |i| (i % pages) as u32);
            // A random victim may be one that is about to be overwritten.
            let most = if matches!(victim, VictimPolicy::Choices { .. }) { 1.05 } else { 1.001 };
            assert!(measured < most, "{victim:?} {separation:?}: {measured}");
        }
    }
}

/// Nine tenths of the writes to a tenth of the pages, on a full store.
fn skewed(victim: VictimPolicy, separation: Separation) -> f64 {
    let settings = FtlConfig {
        over_provisioning_ppm: 200_000,
        victim,
        separation,
        bad_blocks_ppm: 0,
        ..FtlConfig::default()
    };
    let mut ftl = PageMapFtl::format(chip(GEOMETRY), &settings).unwrap();
    let mut rng = Rng::new(3);
    let pages = u64::from(ftl.page_count());
    let measured = steady(&mut ftl, 12, |i| {
        let range = if rng.chance(9, 10) { pages / 10 } else { pages };
        if i < pages { i as u32 } else { rng.below(range) as u32 }
    });
    println!("{victim:?} {separation:?}: {measured:.2}");
    measured
}

/// Cost-benefit and the separation of pages were made for this.
#[test]
fn cold_pages_kept_apart_cost_less() {
    let wide = HotConfig { counters: 16_384, decay_writes: 20_480, ..HotConfig::DEFAULT };
    for victim in VictimPolicy::ALL.into_iter().step_by(stride(3)) {
        let one = skewed(victim, Separation::None);
        let two = skewed(victim, Separation::TwoFrontiers);
        let filtered = skewed(victim, Separation::HotFilter(wide));
        assert!(filtered < two && two < one, "{victim:?}: {one} {two} {filtered}");
    }
    let greedy = skewed(VictimPolicy::Greedy, Separation::TwoFrontiers);
    let cost_benefit = skewed(VictimPolicy::CostBenefit, Separation::TwoFrontiers);
    assert!(cost_benefit < 0.8 * greedy, "cost-benefit {cost_benefit:.3}, greedy {greedy:.3}");
}

/// A tenth of the pages is rewritten for ever, the rest is cold: the spread of wear, and programs for each
/// write.
fn levelled(wear_levelling: WearLevelling) -> (u32, f64) {
    let settings = FtlConfig { wear_levelling, ..FtlConfig::default() };
    let mut ftl = PageMapFtl::format(chip(Geometry::new(512, 16, 16, 200)), &settings).unwrap();
    let hot = u64::from(ftl.page_count() / 10);
    let mut rng = Rng::new(3);
    for lpn in 0..ftl.page_count() {
        ftl.write(Lpn(lpn), Cause::Host, &[1; 512]).unwrap();
    }
    let writes = 250_000;
    for i in 0..writes {
        ftl.write(Lpn(rng.below(hot) as u32), Cause::Host, &[i as u8; 512]).unwrap();
    }
    // The anchors, the first blocks of the chip, only hold references to checkpoints.
    let wear = &ftl.nand().wear()[4..];
    let spread = wear.iter().max().unwrap() - wear.iter().min().unwrap();
    let amplification = write_amplification(&ftl, writes);
    println!("{wear_levelling:?}: spread {spread}, {amplification:.2}");
    (spread, amplification)
}

/// Without static levelling the cold blocks never wear.
#[test]
fn static_levelling_evens_out_wear() {
    let (unlevelled, plain) = levelled(WearLevelling::None);
    assert!(unlevelled > 400, "{unlevelled} without levelling");
    for erases in [8, 32] {
        let (spread, simple) = levelled(WearLevelling::Threshold { gap_erases: erases });
        assert!(spread <= erases + 4, "{spread} with a gap of {erases}");
        assert!(simple < plain + 4.0 / f64::from(erases), "{simple} with a gap of {erases}, {plain} without");
        // Pools tell cold blocks from young ones: fewer moves for the same spread.
        let (spread, pooled) = levelled(WearLevelling::DualPool { threshold_erases: erases });
        assert!(spread <= 2 * erases, "{spread} with dual pools of {erases}");
        assert!(pooled < simple, "{pooled} with dual pools of {erases}, {simple} with a gap");
    }
}
