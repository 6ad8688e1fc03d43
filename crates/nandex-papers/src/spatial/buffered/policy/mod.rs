//! Which nodes a full buffer flushes: the policies of the FAST framework and of eFIND.

pub(super) mod efind;
pub(super) mod fast;

use super::buffer::NodeBuffer;
use super::control::TemporalControl;
use alloc::vec::Vec;
pub use efind::{Efind, Worth};
use nandex::check::{IndexError, message};
use nandex::rng::Rng;
use nandex::sort;
use nandex::spatial::coordinate::Coordinate;
use nandex::spatial::node::NodeId;

/// The rule that chooses the nodes to flush when the buffer is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushPolicy {
    /// All nodes.
    All,
    /// A unit by chance.
    Random {
        /// The seed of the choices: the same seed chooses the same units.
        seed: u64,
    },
    /// FAST: the unit with the most modifications.
    MostModified,
    /// FAST*: the unit with the largest difference of modifications and time of last touch.
    MostModifiedOldest {
        /// Operations in a tick of the clock, 1 or more.
        tick_operations: u64,
    },
    /// eFIND: the unit worth most, among old nodes whose pages suit the last writes.
    Efind(Efind),
}

impl FlushPolicy {
    /// The name used in settings and results.
    pub const fn name(&self) -> &'static str {
        match self {
            FlushPolicy::All => "all",
            FlushPolicy::Random { .. } => "random",
            FlushPolicy::MostModified => "fast",
            FlushPolicy::MostModifiedOldest { .. } => "fast-star",
            FlushPolicy::Efind(efind) => efind.worth.name(),
        }
    }

    pub(super) fn require_sane(&self) -> Result<(), IndexError> {
        let what = match self {
            FlushPolicy::MostModifiedOldest { tick_operations: 0 } => "a clock that ticks after 0 operations",
            FlushPolicy::Efind(efind) if !(1..=100).contains(&efind.oldest_percent) => {
                "the oldest nodes are 1 to 100 percent"
            }
            _ => return Ok(()),
        };
        Err(IndexError::unsupported(message!("flush policy {}: {what}", self.name())))
    }
}

/// A policy with its random numbers.
pub(super) struct Chooser {
    policy: FlushPolicy,
    rng: Rng,
}

impl Chooser {
    pub(super) fn new(policy: FlushPolicy) -> Chooser {
        let seed = if let FlushPolicy::Random { seed } = policy { seed } else { 0 };
        Chooser { policy, rng: Rng::new(seed) }
    }

    /// The nodes to flush, sorted by page. Never empty, unless the buffer is empty or the policy flushes
    /// all.
    pub(super) fn choose<C: Coordinate, const D: usize>(
        &mut self,
        buffer: &mut NodeBuffer<C, D>,
        unit_nodes: usize,
        control: &TemporalControl,
    ) -> Vec<NodeId> {
        let units = buffer.units();
        let mut chosen: Vec<NodeId> = match self.policy {
            // There is no choice.
            FlushPolicy::All => Vec::new(),
            FlushPolicy::Random { .. } => fast::random(units, &mut self.rng),
            FlushPolicy::MostModified => fast::most_modified(units),
            FlushPolicy::MostModifiedOldest { tick_operations } => {
                fast::most_modified_oldest(units, tick_operations)
            }
            FlushPolicy::Efind(efind) => efind.choose(buffer, unit_nodes, control),
        };
        sort::total(&mut chosen);
        chosen
    }
}
