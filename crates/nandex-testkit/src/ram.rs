//! The heap bytes of an index, from its format to a mount after a power cut.

use crate::Apart;
use crate::heap::{measure, uncounted};
use nandex::nand::sim::{CutWhen, PowerCut, SimChip, TornModel};
use nandex::nand::{Nand, Part};
use nandex::{IndexError, OrderedIndex, Shared};

/// Makes an index on a fresh chip, or finds it on a used one, from settings or a configuration.
pub type Open<C> = fn(Box<dyn Nand>, &C) -> Result<Box<dyn OrderedIndex>, IndexError>;

/// Works on an index for a while.
pub type Work<'a> = &'a dyn Fn(&mut dyn OrderedIndex) -> Result<(), IndexError>;

/// The bytes that an index held at most, the chip's own apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peaks {
    /// The bytes that the index declares after the work.
    pub declared: usize,
    /// Peak bytes while the index was formatted.
    pub format: usize,
    /// Peak bytes during the work.
    pub work: usize,
    /// During the mount after a power cut.
    pub mount_after_cut: usize,
    /// During the mount after a clean end.
    pub mount: usize,
}

impl Peaks {
    /// Peak bytes of heap over all phases.
    pub fn most(&self) -> usize {
        self.format.max(self.work).max(self.mount_after_cut).max(self.mount)
    }
}

/// The index to be measured, with its chip and its work.
pub struct Subject<'a, C> {
    /// Formats the index.
    pub format: Open<C>,
    /// Mounts the index.
    pub mount: Open<C>,
    /// The chip's part.
    pub part: &'a Part,
    /// The settings, the budget of RAM among them.
    pub settings: &'a C,
    /// The operation of the chip at whose second time the power is cut.
    pub work: Work<'a>,
}

/// Physical operations from the beginning of the second round of work to the power cut.
const CUT_AFTER: u64 = 300;

impl<C> Subject<'_, C> {
    /// Formats, works, cuts the power within more work, mounts, closes and mounts again.
    pub fn peaks(&self) -> Result<Peaks, IndexError> {
        let chip = uncounted(|| SimChip::new(self.part).map(Shared::new))
            .map_err(|error| IndexError::Unsupported(error.to_string().into()))?;
        let handle = || uncounted(|| Box::new(Apart::new(chip.clone())));
        let (index, format) = measure(|| (self.format)(handle(), self.settings));
        let mut index = index?;
        let (done, work) = measure(|| (self.work)(&mut *index));
        done?;
        let declared = index.ram_bytes();
        uncounted(|| {
            let mut chip = chip.lock();
            let at_operation = chip.operations() + CUT_AFTER;
            let (when, torn) = (CutWhen::Inside, TornModel::Prefix);
            chip.plan_power_cut(PowerCut { at_operation, when, torn, seed: 1 });
        });
        // It ends with the cut, or before it: both are mounts without a clean end.
        let _ = (self.work)(&mut *index);
        drop(index);
        uncounted(|| chip.lock().power_on());
        let (index, mount_after_cut) = measure(|| (self.mount)(handle(), self.settings));
        index?.close()?;
        let (index, mount) = measure(|| (self.mount)(handle(), self.settings));
        index?;
        Ok(Peaks {
            declared,
            format: format.peak,
            work: format.kept + work.peak,
            mount_after_cut: mount_after_cut.peak,
            mount: mount.peak,
        })
    }
}
