//! Log mode or disk mode for each node, as FlashDB chooses between them.
//!
//! A node in *disk mode* lies whole in a sector of its own, which every update writes again; in *log mode*
//! its updates are units among those of others, and it is gathered from up to C sectors. Each is a state of a
//! two-state task system: an access costs one amount here and another there, and so does changing over. What
//! the present mode cost more than the other would have is summed up, never below 0; once the sum exceeds
//! what it costs to change over and back, the node changes over. Both modes together then cost at most three
//! times as much as the best choice in hindsight.
//!
//! ```text
//! access                 log mode                               disk mode
//! read                   read * sectors of the list             read
//! write of so many units program * units / units of a sector    program
//! to the other mode      read * sectors of the list + program   nothing: the sector in disk mode is a list of one
//! ```
//!
//! In disk mode the list that the node would have is taken to have three sectors. All costs are integer
//! nanoseconds.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use nandex::check::{CheckReport, Invariant};

/// Sectors that a node in disk mode would have in log mode: an assumption for the costs.
const LIST_ASSUMED: u64 = 3;

/// Nodes for which the table grows at a time.
const NODES_MORE: usize = 64;

/// The modes that nodes may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Modes {
    /// Each node has its own mode, chosen by what its accesses cost. A new leaf begins in log mode, an
    /// inner node in disk mode.
    #[default]
    Tuned,
    /// All nodes are in log mode.
    Log,
    /// All nodes are in disk mode.
    Disk,
}

/// The modes allowed and the latencies by which a mode is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The modes allowed.
    pub modes: Modes,
    /// Time of a page read, in nanoseconds.
    pub read_ns: u64,
    /// Time of a page program, in nanoseconds.
    pub program_ns: u64,
}

impl Tuning {
    /// Largest time allowed, in nanoseconds, so that no cost overflows.
    pub const NS_MAX: u64 = 1 << 40;

    /// The latencies of the SLC chip in the papers of this family.
    pub const SLC: Tuning = Tuning { modes: Modes::Tuned, read_ns: 80_000, program_ns: 200_000 };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Log,
    Disk,
}

/// An access to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    /// A change that gives this many units.
    Write(u64),
}

/// Counters of the choice of modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeCounts {
    /// Nodes in log mode now.
    pub log_nodes: u64,
    /// Nodes in disk mode now.
    pub disk_nodes: u64,
    /// Changes to log mode so far.
    pub switches_to_log: u64,
    /// Changes to disk mode so far.
    pub switches_to_disk: u64,
    /// Time that accesses cost more than they would have in the other mode, summed over all nodes, in
    /// nanoseconds.
    pub overpaid_ns: u64,
}

/// The modes of [`NODES_MORE`] consecutive nodes, and what each of them overpaid.
#[derive(Clone, Debug)]
struct Piece {
    modes: [Option<Mode>; NODES_MORE],
    overpaid_ns: [u64; NODES_MORE],
}

#[derive(Clone, Debug)]
pub(super) struct ModeTable {
    tuning: Tuning,
    sector_units: u64,
    /// Boxed, so that no piece is copied when the table grows.
    #[allow(clippy::vec_box)]
    pieces: Vec<Box<Piece>>,
    counts: ModeCounts,
    /// Time that all changes of mode so far had to be worth, in nanoseconds.
    worth_ns: u64,
}

impl ModeTable {
    /// Makes a table with room for `nodes` nodes.
    pub(super) fn new(tuning: Tuning, sector_units: usize, nodes: usize) -> ModeTable {
        ModeTable {
            tuning,
            sector_units: sector_units.max(1) as u64,
            pieces: Vec::with_capacity(nodes.div_ceil(NODES_MORE)),
            counts: ModeCounts::default(),
            worth_ns: 0,
        }
    }

    /// Bytes of RAM for `nodes` nodes.
    pub(super) const fn ram_bytes_for(nodes: usize) -> usize {
        nodes.div_ceil(NODES_MORE) * (size_of::<Box<Piece>>() + size_of::<Piece>())
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.pieces.capacity() * size_of::<Box<Piece>>() + self.pieces.len() * size_of::<Piece>()
    }

    pub(super) fn counts(&self) -> ModeCounts {
        let modes = || self.pieces.iter().flat_map(|piece| &piece.modes);
        let count = |mode| modes().filter(|other| **other == Some(mode)).count() as u64;
        ModeCounts { log_nodes: count(Mode::Log), disk_nodes: count(Mode::Disk), ..self.counts }
    }

    /// Whether no node is ever in disk mode.
    pub(super) fn is_log_alone(&self) -> bool {
        self.tuning.modes == Modes::Log
    }

    /// The mode of a node, if it is in use.
    pub(super) fn mode(&self, node: u32) -> Option<Mode> {
        let (piece, at) = place_of(node);
        self.pieces.get(piece).and_then(|piece| piece.modes[at])
    }

    /// Sets the mode of a node that is new or changes it. The modes allowed take precedence.
    pub(super) fn set(&mut self, node: u32, mode: Mode) {
        let mode = match self.tuning.modes {
            Modes::Tuned => mode,
            Modes::Log => Mode::Log,
            Modes::Disk => Mode::Disk,
        };
        let (piece, at) = place_of(node);
        while self.pieces.len() <= piece {
            let none = Piece { modes: [None; NODES_MORE], overpaid_ns: [0; NODES_MORE] };
            self.pieces.push(Box::new(none));
        }
        let piece = &mut self.pieces[piece];
        (piece.modes[at], piece.overpaid_ns[at]) = (Some(mode), 0);
    }

    pub(super) fn forget(&mut self, node: u32) {
        let (piece, at) = place_of(node);
        if let Some(piece) = self.pieces.get_mut(piece) {
            (piece.modes[at], piece.overpaid_ns[at]) = (None, 0);
        }
    }

    /// Adds the cost of an access to a node whose list has `list` sectors. Returns the mode that the node
    /// should change to, if any.
    pub(super) fn charge(&mut self, node: u32, access: Access, list: usize) -> Option<Mode> {
        let mode = self.mode(node)?;
        let Tuning { modes, read_ns, program_ns } = self.tuning;
        let sectors = if mode == Mode::Log { list as u64 } else { LIST_ASSUMED };
        let (log, disk) = match access {
            Access::Read => (read_ns * sectors, read_ns),
            Access::Write(units) => (program_ns.saturating_mul(units) / self.sector_units, program_ns),
        };
        let (here, there, other) = match mode {
            Mode::Log => (log, disk, Mode::Disk),
            Mode::Disk => (disk, log, Mode::Log),
        };
        if modes != Modes::Tuned {
            return None;
        }
        let (piece, at) = place_of(node);
        let overpaid = &mut self.pieces[piece].overpaid_ns[at];
        *overpaid = overpaid.saturating_add(here).saturating_sub(there);
        self.counts.overpaid_ns = self.counts.overpaid_ns.saturating_add(here.saturating_sub(there));
        let worth = read_ns * sectors + program_ns;
        if *overpaid <= worth {
            return None;
        }
        *overpaid = 0;
        self.worth_ns = self.worth_ns.saturating_add(worth);
        debug_assert!(
            self.worth_ns <= self.counts.overpaid_ns,
            "N8: changes worth {} ns, {} ns were overpaid",
            self.worth_ns,
            self.counts.overpaid_ns
        );
        Some(other)
    }

    pub(super) fn switch(&mut self, node: u32, mode: Mode) {
        debug_assert!(self.mode(node).is_some_and(|old| old != mode), "N7: node {node} is in {mode:?} mode");
        match mode {
            Mode::Log => self.counts.switches_to_log += 1,
            Mode::Disk => self.counts.switches_to_disk += 1,
        }
        self.set(node, mode);
    }

    /// Checks N8: nodes overpaid at least what all changes of mode had to be worth.
    pub(super) fn check(&self, report: &mut CheckReport) {
        if self.worth_ns > self.counts.overpaid_ns {
            let found = "nodes changed their mode more often than it was worth".to_string();
            report.violation(Invariant::N8, 0, found);
        }
    }
}

/// The piece that holds a node, and the index of the node in it.
const fn place_of(node: u32) -> (usize, usize) {
    (node as usize / NODES_MORE, node as usize % NODES_MORE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::rng::Rng;

    /// Costs for ten units to a sector: a read costs 1, a program 10.
    const TUNING: Tuning = Tuning { modes: Modes::Tuned, read_ns: 1, program_ns: 10 };

    #[test]
    fn a_node_changes_over_when_the_other_mode_would_have_spared_the_cost_of_it() {
        let mut modes = ModeTable::new(TUNING, 10, 100);
        modes.set(3, Mode::Log);
        // A list of four: each read costs three more than in disk mode, and to change over costs 4 + 10.
        let charged: Vec<Option<Mode>> = (0..5).map(|_| modes.charge(3, Access::Read, 4)).collect();
        assert_eq!(charged, [None, None, None, None, Some(Mode::Disk)]);
        modes.switch(3, Mode::Disk);
        // A unit in the log costs 1, a page 10: nine more each. Back it is taken to cost 3 + 10.
        assert_eq!(modes.charge(3, Access::Write(1), 1), None);
        // Reads would have cost two more in log mode, which makes good some of that.
        assert_eq!(modes.charge(3, Access::Read, 1), None);
        assert_eq!(modes.charge(3, Access::Write(5), 1), None);
        assert_eq!(modes.charge(3, Access::Write(5), 1), Some(Mode::Log));
        modes.switch(3, Mode::Log);
        let counts = modes.counts();
        assert_eq!((counts.switches_to_log, counts.switches_to_disk, counts.log_nodes), (1, 1, 1));
        assert_eq!(counts.overpaid_ns, 5 * 3 + 9 + 5 + 5);
    }

    /// The cost of the best choice of modes in hindsight, and the cost by the rule.
    fn costs(accesses: &[Access], list: u64) -> (u64, u64) {
        let mut modes = ModeTable::new(TUNING, 10, 100);
        modes.set(0, Mode::Log);
        let change = list + 10;
        let (mut log, mut disk, mut tuned) = (0, change, 0);
        for access in accesses {
            let (x, y) = match access {
                Access::Read => (list, 1),
                Access::Write(units) => (*units, 10),
            };
            tuned += if modes.mode(0) == Some(Mode::Log) { x } else { y };
            (log, disk) = (log + x, disk + y);
            (log, disk) = (log.min(disk), disk.min(log + change));
            if let Some(mode) = modes.charge(0, *access, list as usize) {
                tuned += if mode == Mode::Disk { change } else { 0 };
                modes.switch(0, mode);
            }
        }
        (log.min(disk), tuned)
    }

    #[test]
    fn no_history_costs_more_than_three_times_the_best_choice_in_hindsight() {
        let mut rng = Rng::new(6);
        let mut worst = 0;
        for round in 0..300u64 {
            let phase = 1 + rng.below(60);
            let accesses: Vec<Access> = (0..3_000)
                .map(|at| {
                    let reads = match round % 3 {
                        0 => rng.chance(at / phase % 2, 1),
                        1 => rng.chance(round, 300),
                        _ => rng.chance(1 + 8 * (at / phase % 2), 10),
                    };
                    if reads { Access::Read } else { Access::Write(1 + rng.below(3)) }
                })
                .collect();
            let (best, tuned) = costs(&accesses, LIST_ASSUMED);
            // The last change may not have paid yet.
            assert!(tuned <= 3 * best + 4 * (LIST_ASSUMED + 10), "{tuned} for {best} in round {round}");
            worst = worst.max(10 * tuned / best.max(1));
        }
        assert!(worst > 12, "the rule was put to the test: {worst} tenths");
    }

    #[test]
    fn fixed_modes_stay() {
        for (modes, mode) in [(Modes::Log, Mode::Log), (Modes::Disk, Mode::Disk)] {
            let mut table = ModeTable::new(Tuning { modes, ..TUNING }, 10, 100);
            table.set(1, Mode::Log);
            for _ in 0..1_000 {
                assert_eq!(table.charge(1, Access::Read, 9), None);
                assert_eq!(table.charge(1, Access::Write(1), 9), None);
            }
            assert_eq!((table.mode(1), table.mode(0), table.mode(99)), (Some(mode), None, None));
            table.forget(1);
            assert_eq!(table.counts(), ModeCounts::default());
        }
    }
}
