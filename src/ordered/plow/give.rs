//! RAM that the memtable gives to the lists of extents (`budget`).
//!
//! A smaller memtable is made in place of the old one, with the same records. Both together would be more
//! than the RAM, so for a moment the records lie in the buffer of the filters, or in that of a page: between
//! two operations neither holds anything that is needed. Filters come back as the first sweep writes its
//! pages anew. If the records are too many for that, each operation makes a step until they are few enough;
//! if the lists can wait no longer, as many steps as it takes.

use super::Core;
use super::budget::{AHEAD, Form};
use super::commit::sealed_listed;
use super::config::Shares;
use super::filter::Filters;
use super::memtable::Memtable;
use super::space::{Need, Space, Stock};
use crate::fault::IndexFault;
use crate::nand::Nand;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// With room for fewer extents than this, the lists cannot wait.
const URGENT: usize = 4;
const _: () = assert!(URGENT < AHEAD);

/// True if the lists are about to need RAM.
pub(super) fn are_lists_short<N>(core: &Core<N>) -> bool {
    core.planner.shares.are_lists_short(core.stock.levels.extents())
}

/// Gives the lists RAM of the memtable if they are about to need it.
pub(super) fn give<N: Nand>(core: &mut Core<N>) -> Result<(), IndexFault> {
    if !are_lists_short(core) {
        return Ok(());
    }
    let round = core.stock.levels[0].round;
    while !hand_over(core) {
        let can_wait = core.stock.levels.extents() + URGENT <= core.planner.shares.extents as usize;
        let is_over = core.stock.levels[0].round.wrapping_sub(round) >= 2;
        if can_wait || is_over || !core.stock.has(Need::Dissolve) || !core.can_step(0)? {
            break;
        }
        core.step(0)?;
    }
    Ok(())
}

/// Makes the memtable smaller, if its records are few enough.
fn hand_over<N: Nand>(core: &mut Core<N>) -> bool {
    let (form, mut shares) = ((core.medium.record, core.stock.geometry), core.planner.shares);
    let extents = core.stock.levels.extents() + AHEAD;
    shares.divide(form, extents.min(shares.extents_max as usize));
    let page = core::mem::take(&mut core.medium.output);
    let (page, done) = core.stock.share(&shares, page);
    core.medium.output = page;
    if done {
        core.stock.space.give_to_map(&shares, form);
        core.planner.shares = shares;
        core.choose_plan();
    }
    done
}

/// Gives memtable, filters and map of a new index their shares of the RAM.
pub(super) fn give_first<N>(core: &mut Core<N>) {
    let (form, shares) = ((core.medium.record, core.stock.geometry), core.planner.shares);
    core.stock.memtable = Memtable::new(form.0, shares.memtable);
    core.stock.levels.filters = Filters::new(shares.filter);
    core.stock.space.give_to_map(&shares, form);
}

impl Stock {
    /// Gives memtable and filters their shares of the RAM. The records of the memtable move in the buffer of
    /// the filters, or in that of a page, which is returned. False if they are too many.
    fn share(&mut self, shares: &Shares, mut page: Vec<u8>) -> (Vec<u8>, bool) {
        let records = self.memtable.len();
        if records >= shares.memtable
            || !self.memtable.fits_poured(page.len().max(self.levels.filters.ram_bytes()))
        {
            return (page, false);
        }
        let mut filters = core::mem::replace(&mut self.levels.filters, Filters::new(0)).into_buffer();
        let buffer = if self.memtable.fits_poured(filters.len()) { &mut filters } else { &mut page };
        self.memtable.pour(buffer);
        self.memtable = Memtable::new(self.memtable.record, 0);
        let most = sealed_listed(self.memtable.record, self.geometry, shares.memtable);
        let listed = &mut self.commits.sealed;
        if listed.is_empty() {
            *listed = VecDeque::new();
        } else {
            listed.shrink_to(most);
        }
        self.memtable = Memtable::new(self.memtable.record, shares.memtable);
        self.memtable.fill(buffer, records);
        drop(filters);
        self.levels.filters = Filters::new(shares.filter);
        (page, true)
    }
}

impl Space {
    /// Gives the map its share of the RAM, if it has one.
    fn give_to_map(&mut self, shares: &Shares, form: Form) {
        if let Some(map) = self.map.as_mut().filter(|_| shares.has_map_bytes(form)) {
            map.make_places(form.1.blocks);
        }
    }
}
