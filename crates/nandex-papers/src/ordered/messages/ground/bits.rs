//! Which units are in use.

use alloc::vec;
use alloc::vec::Vec;

/// A set of units, one bit each.
#[derive(Clone, Debug)]
pub(super) struct Bits(pub(super) Vec<u64>);

impl Bits {
    pub(super) fn new(units: u32) -> Bits {
        Bits(vec![0; (units as usize).div_ceil(64)])
    }

    pub(super) fn get(&self, unit: u32) -> bool {
        self.0[unit as usize / 64] >> (unit % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, unit: u32, on: bool) {
        let word = &mut self.0[unit as usize / 64];
        *word = *word & !(1 << (unit % 64)) | u64::from(on) << (unit % 64);
    }
}
