//! The costs of finding an index again, and of the session that follows.

use super::Job;
use super::meter::Reading;
use super::records::Records;
use crate::model::Model;
use crate::results::{Costs, Run};
use crate::workload::{Op, OpKind};
use nandex::nand::sim::SimChip;
use nandex::ordered::{Direction, OrderedIndex};
use nandex::{IndexError, Shared};
use std::ops::{Bound, ControlFlow};

/// Most operations of the session after a mount.
const SESSION_OPERATIONS: usize = 1000;

/// Measures mounts after a power cut and after a close, and a session after the cut. What is refused stays
/// absent.
pub(super) fn measure(job: &Job<'_>, index: Records<'_>, run: &mut Run) {
    let Ok(Some(chip)) = index.end() else { return };
    let copy = Shared::new(chip.lock().clone());
    let Some((mut index, left)) = mount(job, &chip) else { return };
    run.mount = Some(left);
    let is_closed = index.close().is_ok();
    drop(index);
    run.mount_closed = if is_closed { mount(job, &chip).map(|(_, costs)| costs) } else { None };
    if let Some((index, _)) = mount(job, &copy) {
        [run.first_change, run.session] = Session::new(job, index, copy).measured();
    }
}

fn mount(job: &Job<'_>, chip: &Shared<SimChip>) -> Option<(Box<dyn OrderedIndex>, Costs)> {
    let before = Reading::of(&chip.lock());
    let index = (job.index.mount)(Box::new(chip.clone()), &job.settings).ok()?;
    let costs = Reading::of(&chip.lock()).since(&before);
    Some((index, costs))
}

/// The last operations of the workload once more, on an index that was just mounted.
struct Session<'a> {
    job: &'a Job<'a>,
    index: Box<dyn OrderedIndex>,
    chip: Shared<SimChip>,
    model: Model,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Session<'_> {
    fn new<'a>(job: &'a Job<'a>, index: Box<dyn OrderedIndex>, chip: Shared<SimChip>) -> Session<'a> {
        let record = index.record();
        let model = Model::of(job.prepared.keys.len(), job.prepared.workload.values);
        let (key, value) = (vec![0; record.key_bytes.into()], vec![0; record.value_bytes.into()]);
        Session { job, index, chip, model, key, value }
    }

    /// Costs of the first change, and of all operations until one is refused.
    fn measured(mut self) -> [Option<Costs>; 2] {
        let phases = &self.job.prepared.workload.phases;
        let all = phases
            .iter()
            .zip(&self.job.prepared.slots)
            .flat_map(|(phase, slots)| phase.ops.iter().zip(slots));
        let all: Vec<(&Op, &u32)> = all.collect();
        let last_change = all.iter().rposition(|(op, _)| op.kind.changes() && op.kind != OpKind::Sync);
        let mut first_change = None;
        let mut session = Costs::default();
        let rest = &all[all.len().saturating_sub(SESSION_OPERATIONS - 1)..];
        for (at, (op, slot)) in last_change.map(|at| all[at]).iter().chain(rest).enumerate() {
            let before = Reading::of(&self.chip.lock());
            if self.play(op, **slot).is_err() {
                break;
            }
            let costs = Reading::of(&self.chip.lock()).since(&before);
            if at == 0 && last_change.is_some() {
                first_change = Some(costs);
            }
            session = session.plus(&costs);
        }
        [first_change, (session.operations > 0).then_some(session)]
    }

    fn play(&mut self, op: &Op, slot: u32) -> Result<(), IndexError> {
        let Session { job, index, model, key, value, .. } = self;
        job.prepared.keys.encode(slot, key);
        match op.kind {
            OpKind::Get => index.get(key, value).map(|_| ()),
            OpKind::Insert | OpKind::Update => {
                model.next_value(slot, value);
                index.insert(key, value).map(|_| ())
            }
            OpKind::Remove => index.remove(key).map(|_| ()),
            OpKind::Range => range(&mut **index, key, Direction::Ascending, op.count),
            OpKind::RangeDown => range(&mut **index, key, Direction::Descending, op.count),
            OpKind::Sync => index.sync(),
        }
    }
}

fn range(index: &mut dyn OrderedIndex, key: &[u8], way: Direction, count: u32) -> Result<(), IndexError> {
    let mut visits = 0;
    let visit = &mut |_: &[u8], _: &[u8]| {
        visits += 1;
        if visits < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    match way {
        Direction::Ascending => index.range(Bound::Included(key), Bound::Unbounded, way, visit),
        Direction::Descending => index.range(Bound::Unbounded, Bound::Included(key), way, visit),
    }
}
