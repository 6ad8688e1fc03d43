//! The workload of a crash test: inserts, updates and removals all over the keys and in runs, syncs and
//! remounts at times.

use nandex::rng::Rng;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostOp {
    /// Inserts or updates a key, or writes a page.
    Put(u32),
    /// Puts a value without learning whether the key existed.
    Blind(u32),
    /// Removes a key, or trims a page.
    Remove(u32),
    /// Writes several pages, or new values of several keys, all or none.
    Group(Vec<u32>),
    /// Changes keys in order in one atomic operation: true puts, false removes. A key may occur twice.
    Mixed(Vec<(u32, bool)>),
    /// Loads the records of all slots below this one, sorted, into an empty index.
    Load(u32),
    Sync,
    /// Ends the session and mounts again: after a close, or after a sync only.
    Remount {
        close: bool,
    },
}

impl HostOp {
    /// Slots changed by the operation, in order; true for a put.
    pub(crate) fn changes(&self) -> Vec<(u32, bool)> {
        match self {
            HostOp::Put(slot) | HostOp::Blind(slot) => vec![(*slot, true)],
            HostOp::Remove(slot) => vec![(*slot, false)],
            HostOp::Group(slots) => slots.iter().map(|&slot| (slot, true)).collect(),
            HostOp::Mixed(changes) => changes.clone(),
            HostOp::Load(slots) => (0..*slots).map(|slot| (slot, true)).collect(),
            HostOp::Sync | HostOp::Remount { .. } => Vec::new(),
        }
    }

    /// Whether everything before it is durable afterwards.
    pub(crate) fn is_sync(&self) -> bool {
        matches!(self, HostOp::Sync | HostOp::Remount { .. })
    }
}

/// The mix of operations that suits the subject.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    pub(crate) slots: u32,
    /// Largest number of slots in a group. 1 means no groups.
    pub(crate) group_max: usize,
    /// Whether a mount is only possible after a close.
    pub(crate) always_close: bool,
    /// If false, a put to a slot with contents is replaced by a removal.
    pub(crate) overwrites: bool,
    /// Whether puts go to the slot after the last one in use, and nothing is removed.
    pub(crate) appends: bool,
    /// True if the oldest entries are dropped when there is no room.
    pub(crate) gives_up: bool,
}

#[derive(Debug)]
pub(crate) struct Source {
    rng: Rng,
    mix: Mix,
    run: Option<Run>,
}

/// A run over neighbouring slots.
#[derive(Clone, Copy, Debug)]
struct Run {
    next: u32,
    left: u64,
    removes: bool,
}

impl Source {
    pub(crate) fn new(seed: u64, mix: Mix) -> Source {
        Source { rng: Rng::new(seed), mix, run: None }
    }

    pub(crate) fn next(&mut self, contents: &[u64]) -> HostOp {
        match self.draw(contents) {
            HostOp::Put(_) | HostOp::Remove(_) | HostOp::Group(_) if self.mix.appends => append(contents),
            HostOp::Put(slot) if !self.mix.overwrites && contents[slot as usize] != 0 => HostOp::Remove(slot),
            op => op,
        }
    }

    fn draw(&mut self, contents: &[u64]) -> HostOp {
        if let Some(op) = self.continue_run() {
            return op;
        }
        let slot = self.rng.below(u64::from(self.mix.slots)) as u32;
        match self.rng.below(1000) {
            0..25 => HostOp::Sync,
            25..30 => HostOp::Remount { close: self.mix.always_close || self.rng.chance(1, 2) },
            30..45 => {
                let left = 4 + self.rng.below(40);
                self.run = Some(Run { next: slot + 1, left, removes: self.rng.chance(2, 5) });
                HostOp::Put(slot)
            }
            45..120 if self.mix.group_max > 1 => HostOp::Group(self.group()),
            45..600 => HostOp::Put(slot),
            _ => HostOp::Remove(present(contents, slot)),
        }
    }

    fn continue_run(&mut self) -> Option<HostOp> {
        let run = self.run.as_mut()?;
        if run.left == 0 || run.next >= self.mix.slots {
            self.run = None;
            return None;
        }
        run.next += 1;
        run.left -= 1;
        let slot = run.next - 1;
        Some(if run.removes { HostOp::Remove(slot) } else { HostOp::Put(slot) })
    }

    fn group(&mut self) -> Vec<u32> {
        let wanted = 2 + self.rng.below(self.mix.group_max.min(8) as u64 - 1);
        let mut slots: Vec<u32> = Vec::new();
        while slots.len() < wanted.min(u64::from(self.mix.slots)) as usize {
            let slot = self.rng.below(u64::from(self.mix.slots)) as u32;
            if !slots.contains(&slot) {
                slots.push(slot);
            }
        }
        slots
    }
}

/// A put after all other slots, or a sync if no slot is left.
pub(crate) fn append(contents: &[u64]) -> HostOp {
    let next = contents.iter().rposition(|&held| held != 0).map_or(0, |last| last + 1);
    if next < contents.len() { HostOp::Put(next as u32) } else { HostOp::Sync }
}

/// The first slot in use among the next few. If there is none, the given slot.
fn present(contents: &[u64], slot: u32) -> u32 {
    let near = (slot as usize..contents.len()).take(6).find(|&near| contents[near] != 0);
    near.map_or(slot, |near| near as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_operation_is_drawn() {
        let mix = Mix {
            slots: 100,
            group_max: 4,
            always_close: false,
            overwrites: true,
            appends: false,
            gives_up: false,
        };
        let mut source = Source::new(1, mix);
        let ops: Vec<HostOp> = (0..3000).map(|_| source.next(&[1; 100])).collect();
        let count = |is: fn(&HostOp) -> bool| ops.iter().filter(|op| is(op)).count();
        assert!(count(|op| matches!(op, HostOp::Put(_))) > 1000);
        assert!(count(|op| matches!(op, HostOp::Remove(_))) > 600);
        assert!(count(|op| matches!(op, HostOp::Group(slots) if slots.len() > 1)) > 50);
        assert!(count(|op| *op == HostOp::Sync) > 20);
        assert!(count(|op| *op == HostOp::Remount { close: true }) > 0);
        assert!(ops.windows(3).any(
            |w| matches!(w, [HostOp::Put(a), HostOp::Put(b), HostOp::Put(c)] if a + 1 == *b && b + 1 == *c)
        ));
    }
}
