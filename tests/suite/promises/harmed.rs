//! A chip some of whose pages read otherwise than they were programmed, and which says what was programmed
//! last.

use nandex::nand::sim::SimChip;
use nandex::nand::{Cause, Nand};
use nandex::shared::Shared;
use nandex::testing::{Access, Chip, Wrong};
use nandex::units::Ppn;

#[derive(Clone)]
pub(crate) struct Harmed {
    pub(crate) chip: Chip,
    last: Shared<Vec<Ppn>>,
}

impl Harmed {
    pub(crate) fn new(sim: SimChip) -> Harmed {
        Harmed::after(sim, Vec::new())
    }

    fn after(sim: SimChip, last: Vec<Ppn>) -> Harmed {
        let (chip, last) = (Chip::new(sim), Shared::new(last));
        let programmed = last.clone();
        chip.on_access(move |_, access| {
            if let Access::Program(ppn, ..) = access {
                programmed.lock().push(ppn);
            }
            Ok(())
        });
        Harmed { chip, last }
    }

    /// Another chip with the same contents, none of whose pages reads wrongly.
    pub(crate) fn copy(&self) -> Harmed {
        Harmed::after(self.chip.sim(), self.last())
    }

    /// The pages programmed last, the newest one last.
    pub(crate) fn last(&self) -> Vec<Ppn> {
        self.last.lock().clone()
    }

    /// The bytes of a page, unless it cannot be read.
    pub(crate) fn bytes(&self, ppn: Ppn) -> Option<Vec<u8>> {
        let mut chip = self.chip.clone();
        let geometry = chip.geometry();
        let (page, spare) = (geometry.page_bytes as usize, geometry.spare_bytes as usize);
        let mut bytes = vec![0; page + spare];
        let (data, spare) = bytes.split_at_mut(page);
        chip.read(ppn, Cause::Check, data, spare).ok()?;
        Some(bytes)
    }

    /// From now on the page reads like this.
    pub(crate) fn put(&self, ppn: Ppn, page: Wrong) {
        self.chip.spoil([(ppn, page)]);
    }
}
