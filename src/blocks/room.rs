//! RAM of a table: of an existing one, and of a planned one.

use super::order::Order;
use super::places::Places;
use super::rows::Rows;
use super::valid::Valid;
use super::victim::VictimPolicy;
use super::{BlockTable, KEEPS_AGES, Validity};
use crate::nand::Geometry;

/// Bytes of RAM for the age of a block.
const AGE_BYTES: usize = size_of::<u64>();

impl BlockTable {
    /// Bytes of RAM for a block that changes its use while a record of the table is written.
    pub(super) const CHANGED_BYTES: usize = Rows::BEFORE_BYTES;

    /// Bytes of RAM held: the same for all of a chip's life.
    pub fn ram_bytes(&self) -> usize {
        whatever_policy(self.geometry, self.validity()) + self.ages.len() * AGE_BYTES + self.order.ram_bytes()
    }

    /// Bytes of RAM for a table with this validity on this chip, after it [follows](BlockTable::follow) this
    /// policy.
    pub fn ram_needed(geometry: Geometry, validity: Validity, policy: VictimPolicy) -> usize {
        let table = whatever_policy(geometry, validity);
        if !cfg!(feature = "full") || policy == VictimPolicy::Greedy {
            return table;
        }
        let ages = if KEEPS_AGES { geometry.blocks as usize * AGE_BYTES } else { 0 };
        table + ages + Order::ram_needed(policy, geometry.blocks)
    }
}

fn whatever_policy(geometry: Geometry, validity: Validity) -> usize {
    size_of::<BlockTable>()
        + geometry.blocks as usize * Rows::BYTES_EACH
        + Places::ram_bytes(geometry.blocks, geometry.pages_per_block)
        + Valid::ram_bytes(geometry, validity)
}
