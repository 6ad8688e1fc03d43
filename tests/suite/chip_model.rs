//! The simulated chip against a naive model that states the rules of NAND page by page, under random
//! operations.
#![allow(clippy::unwrap_used)]

use nandex::nand::sim::{PhysicalOp, SimChip, TornModel};
use nandex::nand::{Geometry, Nand, NandError, Part, Timing};
use nandex::{Cause, Nanos, Pbn, Ppn};
use proptest::prelude::*;

const TIMING: Timing =
    Timing { read_ns: 1_000, program_ns: 20_000, erase_ns: 300_000, transfer_ps_per_byte: 12_500 };
const PAGE: usize = 64;
const SPARE: usize = 4;

#[derive(Clone, Debug)]
enum Op {
    Program {
        ppn: u32,
        data: Vec<u8>,
        spare: Vec<u8>,
    },
    Read {
        ppn: u32,
        data: usize,
        spare: usize,
    },
    Erase {
        pbn: u32,
    },
    MarkBad {
        pbn: u32,
    },
    TearProgram {
        ppn: u32,
        torn: TornModel,
    },
    TearErase {
        pbn: u32,
    },
    /// Goes on with a clone while the origin erases everything.
    Clone,
    /// Goes on with what is loaded from the image.
    Reload,
}

/// A page as the rules see it.
#[derive(Clone)]
struct ModelPage {
    bytes: Result<[u8; PAGE + SPARE], ()>,
    programs: u32,
    sealed: bool,
}

const ERASED: ModelPage = ModelPage { bytes: Ok([0xff; PAGE + SPARE]), programs: 0, sealed: false };

struct Model {
    geometry: Geometry,
    pages: Vec<ModelPage>,
    half_erased: Vec<bool>,
    bad: Vec<bool>,
    wear: Vec<u32>,
    time_ns: u64,
    counts: [u64; 3],
}

impl Model {
    fn new(geometry: Geometry) -> Model {
        let blocks = geometry.blocks as usize;
        Model {
            geometry,
            pages: vec![ERASED; geometry.pages() as usize],
            half_erased: vec![false; blocks],
            bad: vec![false; blocks],
            wear: vec![0; blocks],
            time_ns: 0,
            counts: [0; 3],
        }
    }

    fn block_pages(&self, pbn: usize) -> std::ops::Range<usize> {
        let pages = self.geometry.pages_per_block as usize;
        pbn * pages..(pbn + 1) * pages
    }

    fn may_access(&self, ppn: u32) -> Result<usize, NandError> {
        if ppn >= self.geometry.pages() {
            return Err(NandError::PageOutOfRange(Ppn(ppn)));
        }
        let pbn = (ppn / self.geometry.pages_per_block) as usize;
        if self.bad[pbn] { Err(NandError::BadBlock(Pbn(pbn as u32))) } else { Ok(pbn) }
    }

    fn may_program(&self, ppn: u32) -> Result<(), NandError> {
        let pbn = self.may_access(ppn)?;
        let page = &self.pages[ppn as usize];
        if page.sealed || self.half_erased[pbn] || page.programs >= self.geometry.programs_per_page_max {
            return Err(NandError::NotErased(Ppn(ppn)));
        }
        let later = ppn as usize + 1..self.block_pages(pbn).end;
        if !self.geometry.random_order && self.pages[later].iter().any(|page| page.programs > 0) {
            return Err(NandError::OutOfOrder(Ppn(ppn)));
        }
        Ok(())
    }

    fn program(&mut self, ppn: u32, data: &[u8], spare: &[u8]) -> Result<(), NandError> {
        self.may_program(ppn)?;
        let page = &mut self.pages[ppn as usize];
        if let Ok(bytes) = &mut page.bytes {
            for (i, byte) in data.iter().enumerate() {
                bytes[i] &= byte;
            }
            for (i, byte) in spare.iter().enumerate() {
                bytes[PAGE + i] &= byte;
            }
        }
        page.programs += 1;
        self.counts[1] += 1;
        self.time_ns += 20_000 + 68 * 12_500 / 1000;
        Ok(())
    }

    fn read(&mut self, ppn: u32, data: &mut [u8], spare: &mut [u8]) -> Result<(), NandError> {
        self.may_access(ppn)?;
        self.counts[0] += 1;
        self.time_ns += 1_000 + (data.len() + spare.len()) as u64 * 12_500 / 1000;
        let bytes = self.pages[ppn as usize].bytes.map_err(|()| NandError::Uncorrectable(Ppn(ppn)))?;
        data.copy_from_slice(&bytes[..data.len()]);
        spare.copy_from_slice(&bytes[PAGE..PAGE + spare.len()]);
        Ok(())
    }

    fn may_erase(&self, pbn: u32) -> Result<(), NandError> {
        match self.bad.get(pbn as usize) {
            None => Err(NandError::BlockOutOfRange(Pbn(pbn))),
            Some(true) => Err(NandError::BadBlock(Pbn(pbn))),
            Some(false) => Ok(()),
        }
    }

    fn erase(&mut self, pbn: u32) -> Result<(), NandError> {
        self.may_erase(pbn)?;
        let pages = self.block_pages(pbn as usize);
        self.pages[pages].fill(ERASED);
        self.half_erased[pbn as usize] = false;
        self.wear[pbn as usize] += 1;
        self.counts[2] += 1;
        self.time_ns += 300_000;
        Ok(())
    }

    /// Only the models of tearing that involve no chance.
    fn tear_program(&mut self, ppn: u32, torn: TornModel) -> Result<(), NandError> {
        self.may_program(ppn)?;
        let page = &mut self.pages[ppn as usize];
        page.programs += 1;
        match torn {
            TornModel::Unreadable => page.bytes = Err(()),
            _ => page.sealed = true,
        }
        Ok(())
    }

    fn tear_erase(&mut self, pbn: u32) -> Result<(), NandError> {
        self.may_erase(pbn)?;
        let pages = self.block_pages(pbn as usize);
        self.pages[pages].fill(ERASED);
        self.half_erased[pbn as usize] = true;
        self.wear[pbn as usize] += 1;
        Ok(())
    }
}

fn op(pages: u32, blocks: u32) -> impl Strategy<Value = Op> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..=most);
    let torn = prop_oneof![Just(TornModel::Unreadable), Just(TornModel::LooksErased)];
    prop_oneof![
        12 => (0..=pages, bytes(PAGE), bytes(SPARE))
            .prop_map(|(ppn, data, spare)| Op::Program { ppn, data, spare }),
        6 => (0..=pages, 0..=PAGE, 0..=SPARE).prop_map(|(ppn, data, spare)| Op::Read { ppn, data, spare }),
        3 => (0..=blocks).prop_map(|pbn| Op::Erase { pbn }),
        1 => (0..=blocks + 8).prop_map(|pbn| Op::MarkBad { pbn }),
        1 => (0..pages, torn).prop_map(|(ppn, torn)| Op::TearProgram { ppn, torn }),
        1 => (0..blocks).prop_map(|pbn| Op::TearErase { pbn }),
        1 => Just(Op::Clone),
        1 => Just(Op::Reload),
    ]
}

fn case() -> impl Strategy<Value = (Geometry, Vec<Op>)> {
    (2u32..8, 4u32..7, 1u32..4, any::<bool>()).prop_flat_map(
        |(pages_per_block, blocks, nop, random_order)| {
            let mut geometry = Geometry::new(PAGE as u32, SPARE as u32, pages_per_block, blocks);
            geometry.programs_per_page_max = nop;
            geometry.random_order = random_order;
            (Just(geometry), prop::collection::vec(op(geometry.pages(), blocks), 1..200))
        },
    )
}

fn step(chip: &mut SimChip, model: &mut Model, op: Op) -> Result<(), TestCaseError> {
    match op {
        Op::Program { ppn, data, spare } => {
            let seen = chip.program(Ppn(ppn), Cause::Host, &data, &spare);
            prop_assert_eq!(seen, model.program(ppn, &data, &spare));
        }
        Op::Read { ppn, data, spare } => {
            let (mut seen, mut expected) = ([7; PAGE + SPARE], [7; PAGE + SPARE]);
            let (seen_data, seen_spare) = seen.split_at_mut(PAGE);
            let outcome = chip.read(Ppn(ppn), Cause::Host, &mut seen_data[..data], &mut seen_spare[..spare]);
            let (expected_data, expected_spare) = expected.split_at_mut(PAGE);
            prop_assert_eq!(
                outcome.map(drop),
                model.read(ppn, &mut expected_data[..data], &mut expected_spare[..spare])
            );
            prop_assert_eq!(seen, expected);
        }
        Op::Erase { pbn } => prop_assert_eq!(chip.erase(Pbn(pbn), Cause::Host), model.erase(pbn)),
        Op::MarkBad { pbn } => {
            let known = model.bad.get_mut(pbn as usize).map(|bad| *bad = true);
            prop_assert_eq!(chip.mark_bad(Pbn(pbn)), known.ok_or(NandError::BlockOutOfRange(Pbn(pbn))));
        }
        Op::TearProgram { ppn, torn } => {
            let op = PhysicalOp::Program { ppn: Ppn(ppn), data: [0; PAGE].into(), spare: [].into() };
            prop_assert_eq!(chip.apply_torn(&op, torn, 0), model.tear_program(ppn, torn));
        }
        Op::TearErase { pbn } => {
            let op = PhysicalOp::Erase { pbn: Pbn(pbn) };
            prop_assert_eq!(chip.apply_torn(&op, TornModel::LooksErased, 0), model.tear_erase(pbn));
        }
        Op::Clone => {
            let mut origin = std::mem::replace(chip, chip.clone());
            for pbn in (0..origin.geometry().blocks).map(Pbn) {
                let erased = origin.erase(pbn, Cause::Host);
                prop_assert_eq!(erased.is_ok(), !model.bad[pbn.index()]);
            }
        }
        Op::Reload => *chip = SimChip::from_image(&chip.to_image()).unwrap(),
    }
    Ok(())
}

/// Every page, the wear and the figures agree.
fn compare(chip: &mut SimChip, model: &mut Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(chip.wear(), &model.wear);
    prop_assert_eq!(chip.time(), Nanos(model.time_ns));
    let counters = chip.counters();
    let totals = [counters.page_reads_total(), counters.page_programs_total(), counters.block_erases_total()];
    prop_assert_eq!(totals, model.counts);
    for ppn in 0..model.geometry.pages() {
        let op = Op::Read { ppn, data: PAGE, spare: SPARE };
        step(chip, model, op)?;
    }
    for pbn in 0..model.geometry.blocks {
        prop_assert_eq!(chip.is_bad(Pbn(pbn)), Ok(model.bad[pbn as usize]));
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::inputs::fixed(2_000))]

    #[test]
    fn the_chip_follows_the_rules((geometry, ops) in case()) {
        let mut chip = SimChip::new(&Part::new("model", geometry, TIMING)).unwrap();
        let mut model = Model::new(geometry);
        for op in ops {
            step(&mut chip, &mut model, op)?;
        }
        compare(&mut chip, &mut model)?;
    }
}
