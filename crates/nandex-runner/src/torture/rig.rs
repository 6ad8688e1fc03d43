//! The chip of a life; formats and opens the victim on it.

use super::leash::{CALL_MAX, Leash, Left};
use super::setup::Setup;
use super::step::{Cut, Rates};
use crate::crash::subject::{SharedChip, Subject};
use nandex::nand::sim::{CutWhen, TornModel};
use nandex::{IndexError, Nand, Shared};

/// A cut that never strikes.
pub(super) const NEVER: Cut =
    Cut { after: u64::MAX, when: CutWhen::Before, torn: TornModel::Prefix, seed: 0 };

/// The chip of a life, with its power and its failures.
pub(super) struct Rig<'a> {
    pub(super) setup: &'a Setup,
    pub(super) chip: SharedChip,
    left: Left,
    /// Whether programs or erases may have failed since the beginning.
    pub(super) has_failed: bool,
}

impl<'a> Rig<'a> {
    pub(super) fn new(setup: &'a Setup) -> Rig<'a> {
        Rig { setup, chip: Shared::new(setup.chip()), left: Shared::new(CALL_MAX), has_failed: false }
    }

    /// The chip has all its operations again for the next call.
    pub(super) fn rest(&self) {
        *self.left.lock() = CALL_MAX;
    }

    pub(super) fn plan(&self, cut: Cut) {
        let operations = self.chip.lock().operations();
        self.chip.lock().plan_power_cut(cut.planned(operations));
    }

    pub(super) fn fail(&mut self, rates: &Rates) {
        self.has_failed |= rates.programs > 0 || rates.erases > 0;
        self.chip.lock().set_faults(rates.faults());
    }

    pub(super) fn is_powered(&self) -> bool {
        self.chip.lock().is_powered()
    }

    fn nand(&self) -> Box<dyn Nand> {
        Box::new(Leash { chip: self.chip.clone(), left: self.left.clone() })
    }

    pub(super) fn format(&self) -> Result<Subject, IndexError> {
        let made = Subject::format(self.setup.victim.target, &self.setup.settings, self.nand());
        made.map(|victim| self.setup.keys.before(victim))
    }

    pub(super) fn mount(&self) -> Result<Subject, IndexError> {
        let mounted = Subject::mount(self.setup.victim.target, &self.setup.settings, self.nand());
        mounted.map(|victim| self.setup.keys.before(victim))
    }

    /// Opens a victim that refused a normal mount after a cut, if it has a way for that.
    pub(super) fn mount_after_cut(&self) -> Result<Option<Subject>, IndexError> {
        let Setup { victim, settings, keys, .. } = self.setup;
        let opened = Subject::mount_after_cut(victim.target, settings, self.nand())?;
        Ok(opened.map(|victim| keys.before(victim)))
    }
}
