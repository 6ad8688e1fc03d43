//! Faults of a simulated chip. All of them follow from a seed.
//!
//! A power cut strikes at one physical operation, counted from 0 over programs, erases and bad-block marks.
//! Programs and erases fail at a rate; an erase may also fail because the block is worn. Silent bit errors
//! change the returned copy, never the stored bytes. Operations with the cause
//! [`Cause::Check`](crate::nand::Cause::Check) have no faults.

use super::disturb::{BlockReads, Disturb};
use crate::rng::{Rng, split_mix};

/// Kinds of faults, and their rates. The default is a chip that never fails.
///
/// ```
/// use nandex::nand::sim::{Disturb, Faults};
///
/// let disturb = Disturb::default().with_reads_per_bit(10_000).with_ecc_strength(8);
/// let faults = Faults::default().with_program_failures_ppm(50).with_disturb(disturb);
/// assert_eq!(faults.disturb.ecc_strength, 8);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct Faults {
    /// Seed of all random choices.
    pub seed: u64,
    /// Programs that fail, in a million.
    pub program_failures_ppm: u32,
    /// Erases that fail, in a million.
    pub erase_failures_ppm: u32,
    /// True if an erase beyond the part's endurance may fail. The probability rises from 0 at the endurance
    /// to 1 at twice the endurance.
    pub wears_out: bool,
    /// Bits that are read wrongly, in 10^9 bits.
    pub bit_errors_per_gigabit: u32,
    /// Reads that fail, in a million: half of them return a copy with some bits flipped, half of them are
    /// uncorrectable. The stored bytes do not change, so the next read may be right.
    pub read_failures_ppm: u32,
    /// Most reads in a row that fail because of `read_failures_ppm`: the next one is right. 0: no limit.
    pub read_failures_in_row: u8,
    /// Reads in a million whose outcome says that the page is weak.
    pub weak_reads_ppm: u32,
    /// Growth of the bit errors that the ECC corrects.
    pub disturb: Disturb,
}

/// A planned power cut.
///
/// ```
/// # use nandex::nand::{catalogue::mlc_64m, sim::SimChip};
/// # let chip = SimChip::new(&mlc_64m().with_blocks(64))?;
/// use nandex::nand::sim::{CutWhen, PowerCut, TornModel};
/// use nandex::{Cause, Nand, NandError, Pbn};
///
/// let mut chip = chip;
/// chip.plan_power_cut(PowerCut::new(chip.operations(), CutWhen::Inside, TornModel::Prefix).with_seed(1));
/// assert_eq!(chip.erase(Pbn(0), Cause::Host), Err(NandError::PowerLost));
/// chip.power_on();
/// assert!(chip.is_powered());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub struct PowerCut {
    /// Number of the physical operation at which the power is cut, as counted by `SimChip::operations`.
    pub at_operation: u64,
    /// Moment of the cut within the operation.
    pub when: CutWhen,
    /// Remains of the operation if the cut is inside it.
    pub torn: TornModel,
    /// Seed of the random choices of `torn`.
    pub seed: u64,
}

impl PowerCut {
    /// A cut at this operation.
    pub const fn new(at_operation: u64, when: CutWhen, torn: TornModel) -> PowerCut {
        PowerCut { at_operation, when, torn, seed: 0 }
    }
}

/// When a power cut strikes an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum CutWhen {
    /// Nothing of the operation takes effect.
    Before,
    /// Part of the operation takes effect.
    Inside,
    /// All of the operation takes effect, but the caller gets an error.
    After,
}

/// Remains of a program or an erase that a power cut interrupts.
///
/// A part that overwrites (NOR) has no ECC of its own and no limit of programs. There `Unreadable` is treated
/// as `RandomBits`, and a program that `LooksErased` has changed nothing and may be repeated. An erase that
/// was cut must always be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(feature = "unstable"), non_exhaustive)]
pub enum TornModel {
    /// Program: the first bytes of the data and of the spare area are programmed. Erase: the first pages are
    /// erased, the others are as before.
    Prefix,
    /// Program: some of the bits that should be cleared are cleared. Erase: each page is as before, or has
    /// random bits set.
    RandomBits,
    /// Program: the page is uncorrectable. Erase: each page is as before, erased, or uncorrectable.
    Unreadable,
    /// Program: the page reads as before. Erase: the block reads as erased. Both refuse programs until they
    /// are erased again.
    LooksErased,
}

impl TornModel {
    /// All models.
    pub const ALL: [TornModel; 4] =
        [TornModel::Prefix, TornModel::RandomBits, TornModel::Unreadable, TornModel::LooksErased];

    /// Name in commands and results.
    pub const fn name(self) -> &'static str {
        match self {
            TornModel::Prefix => "prefix",
            TornModel::RandomBits => "random_bits",
            TornModel::Unreadable => "unreadable",
            TornModel::LooksErased => "looks_erased",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    Failed { seed: u64 },
    LostBefore,
    LostInside { torn: TornModel, seed: u64 },
    LostAfter,
}

#[derive(Clone, Debug)]
pub(super) struct FaultState {
    pub(super) faults: Faults,
    pub(super) rng: Rng,
    pub(super) power_cut: Option<PowerCut>,
    /// Bits still to be read before the next wrong one.
    bits_until_error: u64,
    /// Reads in a row that failed.
    wrong_in_row: u8,
    pub(super) reads: BlockReads,
}

impl FaultState {
    pub(super) fn new(faults: Faults, power_cut: Option<PowerCut>) -> FaultState {
        assert!(faults.program_failures_ppm <= 1_000_000 && faults.erase_failures_ppm <= 1_000_000);
        assert!(faults.bit_errors_per_gigabit <= 1_000_000_000 && faults.read_failures_ppm <= 1_000_000);
        assert!(faults.weak_reads_ppm <= 1_000_000);
        let mut rng = Rng::new(faults.seed);
        let bits_until_error = error_gap(faults.bit_errors_per_gigabit, &mut rng);
        let reads = BlockReads::default();
        FaultState { faults, rng, power_cut, bits_until_error, wrong_in_row: 0, reads }
    }

    /// Decides how operation number `operation` ends: cut if a cut is planned there, else failed at the rate
    /// `failures_ppm`.
    pub(super) fn fate(&mut self, operation: u64, failures_ppm: u32) -> Fate {
        if let Some(cut) = self.power_cut.take_if(|cut| cut.at_operation == operation) {
            return match cut.when {
                CutWhen::Before => Fate::LostBefore,
                CutWhen::Inside => Fate::LostInside { torn: cut.torn, seed: cut.seed },
                CutWhen::After => Fate::LostAfter,
            };
        }
        if failures_ppm > 0 && self.rng.chance(u64::from(failures_ppm), 1_000_000) {
            return Fate::Failed { seed: split_mix(self.faults.seed ^ operation) };
        }
        Fate::Done
    }

    /// Rate at which the next erase of a block fails, if the block was erased `wear` times.
    pub(super) fn erase_failures_ppm(&self, wear: u32, endurance: u32) -> u32 {
        let beyond = if self.faults.wears_out {
            u64::from(wear.saturating_add(1).saturating_sub(endurance))
        } else {
            0
        };
        let worn_ppm = (beyond * 1_000_000 / u64::from(endurance)).min(1_000_000) as u32;
        worn_ppm.max(self.faults.erase_failures_ppm)
    }

    /// Flips the bits that this read gets wrong. Returns false if the read fails as uncorrectable.
    pub(super) fn corrupt(&mut self, data: &mut [u8], spare: &mut [u8]) -> bool {
        self.flip_silently(data, spare);
        let rate = u64::from(self.faults.read_failures_ppm);
        let may_be_wrong =
            self.faults.read_failures_in_row == 0 || self.wrong_in_row < self.faults.read_failures_in_row;
        if rate == 0 || !self.rng.chance(rate, 1_000_000) || !may_be_wrong {
            self.wrong_in_row = 0;
            return true;
        }
        self.wrong_in_row = self.wrong_in_row.saturating_add(1);
        let bits = (data.len() + spare.len()) as u64 * 8;
        if bits == 0 || self.rng.chance(1, 2) {
            return false;
        }
        for _ in 0..=self.rng.below(8) {
            flip(data, spare, self.rng.below(bits));
        }
        true
    }

    fn flip_silently(&mut self, data: &mut [u8], spare: &mut [u8]) {
        if self.faults.bit_errors_per_gigabit == 0 {
            return;
        }
        let bits = (data.len() + spare.len()) as u64 * 8;
        let mut at = self.bits_until_error;
        while at < bits {
            flip(data, spare, at);
            at += error_gap(self.faults.bit_errors_per_gigabit, &mut self.rng);
        }
        debug_assert!(at >= bits, "an error was passed over");
        self.bits_until_error = at - bits;
    }
}

/// Flips one bit of a page. Bits of the spare area follow those of the data.
fn flip(data: &mut [u8], spare: &mut [u8], bit: u64) {
    debug_assert!(bit / 8 < (data.len() + spare.len()) as u64, "bit {bit} is beyond the page");
    let byte = (bit / 8) as usize;
    match data.get_mut(byte) {
        Some(byte) => *byte ^= 1 << (bit % 8),
        None => spare[byte - data.len()] ^= 1 << (bit % 8),
    }
}

/// Bits from one wrong bit to the next: uniform from 1 to twice the mean.
fn error_gap(errors_per_gigabit: u32, rng: &mut Rng) -> u64 {
    let mean = 1_000_000_000 / u64::from(errors_per_gigabit.max(1));
    1 + rng.below(2 * mean - 1)
}
