//! Reading a node: its image, and the chain of its log records.
//!
//! The chain is followed from its newest unit back, and its records are applied from the oldest on. So the
//! records are held meanwhile. If they take more RAM than available, none is held, and the units are read a
//! second time, the oldest first.

use super::image::{Node, Shapes};
use super::layout::{
    Change, Head, IplTag, NO_UNIT, PageKind, Record, WAITING_BYTES, Widths, groups, push_waiting, records,
    waiting,
};
use super::medium::{Medium, corrupted};
use super::places::Places;
use super::slots::Slot;
use super::waiting::Queues;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::nand::{Cause, Nand};
use nandex::units::{Pbn, Ppn};

/// Whose records are looked for at a place of the chain.
#[derive(Clone, Copy, Debug, Default)]
struct Sought {
    node: u32,
    /// Number before which records count.
    limit: u64,
}

impl Sought {
    /// Applies the records of a node found in one place. For a ghost, records of its source come first.
    fn apply_from<'a, I: Iterator<Item = Record<'a>>>(
        self,
        of_node: &impl Fn(u32) -> I,
        (node, shapes): (&mut Node, &Shapes),
        contained: u64,
    ) -> Result<(), IndexError> {
        let found = || of_node(self.node).filter(|record| record.0 < self.limit);
        let born = found()
            .filter_map(|(limit, change)| change.source().map(|(node, _)| Sought { node, limit }))
            .last();
        if let Some(born) = born {
            born.apply_from(of_node, (node, shapes), contained)?;
        }
        let since = born.map_or(0, |born| born.limit);
        let mut records = found().filter(|record| record.0 >= since);
        records.try_for_each(|record| apply(node, shapes, record, contained))
    }
}

/// Applies a record unless the image contains it already.
fn apply(node: &mut Node, shapes: &Shapes, record: Record<'_>, contained: u64) -> Result<(), IndexError> {
    match record.1 {
        _ if record.0 <= contained => {}
        Change::Ghost { low, .. } => node.keep_from(shapes, low),
        Change::GhostOfAll { .. } => {}
        change => node.apply(shapes, &change)?,
    }
    Ok(())
}

/// The records of a node on the way from its newest to its oldest.
#[derive(Default)]
struct Walk {
    sought: Sought,
    /// Nodes from which this node came as a ghost.
    sources: Vec<u32>,
    /// The records of each unit, the newest unit first.
    chunks: Vec<Vec<u8>>,
    /// Bytes of records that may still be held.
    left: usize,
    /// The records take more than there is RAM for, and are not held.
    is_long: bool,
    /// Units of the chain, each with the node sought in it.
    steps: Vec<(u16, Sought)>,
    /// The number up to which the image contains the records.
    contained: u64,
}

impl Walk {
    /// Whether the node may have begun with the image of this one.
    fn is_of(&self, node: u32) -> bool {
        self.sources.contains(&node)
    }

    /// Takes the records of the sought node in one unit. Returns whether the node was created there as a
    /// ghost; then its source is sought next.
    fn take<'a, I: Iterator<Item = Record<'a>>>(&mut self, widths: Widths, found: impl Fn() -> I) -> bool {
        let Sought { node, limit } = self.sought;
        let counts = |record: &Record<'_>| record.0 < limit;
        let (mut bytes, mut born) = (0, None);
        for (sequence, change) in found().filter(counts) {
            if let Some((node, _)) = change.source() {
                (bytes, born) = (0, Some(Sought { node, limit: sequence }));
            }
            bytes += WAITING_BYTES + widths.fields_of(&change);
        }
        if bytes > self.left {
            self.chunks = Vec::new();
            self.is_long = true;
        }
        if bytes > 0 && !self.is_long {
            self.left -= bytes;
            let since = born.map_or(0, |born| born.limit);
            let mut chunk = Vec::with_capacity(bytes);
            for (sequence, change) in found().filter(counts).filter(|found| found.0 >= since) {
                push_waiting(&mut chunk, node, sequence, &change);
            }
            self.chunks.push(chunk);
        }
        let Some(source) = born else { return false };
        self.sought = source;
        self.sources.push(source.node);
        true
    }

    /// Takes the records of the node from a unit. Returns the previous unit of the chain, or the fault.
    fn take_unit(&mut self, widths: Widths, bytes: &[u8], first: u64) -> Result<u16, &'static str> {
        let mut previous = None;
        loop {
            let want = self.sought.node;
            let found = groups(bytes).find(|group| group.is_none_or(|group| group.node == want));
            let Some(group) = found else { break };
            let group = group.ok_or("a log unit makes no sense")?;
            previous.get_or_insert(group.previous);
            let all = || records(widths, first, group.records);
            if all().any(|record| record.is_none()) {
                return Err("a log record makes no sense");
            }
            if !self.take(widths, || all().flatten()) {
                break;
            }
        }
        previous.ok_or("a log unit holds nothing of the node it is named for")
    }

    /// Takes the records of the node that wait in RAM.
    fn take_waiting(&mut self, widths: Widths, bytes: &[u8]) {
        loop {
            let node = self.sought.node;
            let of_node = || waiting(widths, bytes).filter(move |found| found.0 == node);
            if !self.take(widths, || of_node().map(|found| (found.1, found.2))) {
                break;
            }
        }
    }
}

/// The parts that a node is read from.
pub(super) struct Reader<'a, N> {
    pub(super) medium: &'a mut Medium<N>,
    pub(super) places: &'a Places,
    pub(super) queues: &'a Queues,
    /// Bytes of the records of a node that are held while it is read.
    pub(super) chain_bytes: usize,
}

impl<N: Nand> Reader<'_, N> {
    fn widths(&self) -> Widths {
        self.medium.form.shapes.widths()
    }

    /// Reads a node: its image and its chain of records.
    pub(super) fn load(&mut self, id: u32, node: &mut Node, cause: Cause) -> Result<(), IndexError> {
        let slot = self.places.slot(id)?;
        let pbn = Pbn(slot.block);
        let sought = Sought { node: id, limit: u64::MAX };
        let mut walk = Walk { sought, left: self.chain_bytes, ..Walk::default() };
        self.medium.at_hand = None;
        if let Some(found) = self.queues.get(pbn) {
            walk.take_waiting(self.widths(), &found.bytes);
        }
        let mut unit = slot.last;
        (node.id, node.units) = (id, 0);
        while unit != NO_UNIT {
            node.units += 1;
            walk.steps.push((unit, walk.sought));
            let previous = self.follow(pbn, unit, &mut walk, cause)?;
            if previous >= unit && previous != NO_UNIT {
                let what = "a chain of log units does not go back";
                return Err(corrupted(Invariant::I5, what, self.medium.form.unit_page(pbn, unit)));
            }
            unit = previous;
        }
        self.image(slot, node, &mut walk, cause)?;
        if walk.is_long {
            return self.reapply(pbn, node, &walk, cause);
        }
        let (shapes, widths) = (&self.medium.form.shapes, self.widths());
        let mut records = walk.chunks.iter().rev().flat_map(|chunk| waiting(widths, chunk));
        records.try_for_each(|found| apply(node, shapes, (found.1, found.2), walk.contained))
    }

    /// Applies the records of a chain and the waiting ones. Each unit is read again.
    fn reapply(&mut self, pbn: Pbn, node: &mut Node, walk: &Walk, cause: Cause) -> Result<(), IndexError> {
        let (shapes, widths) = (self.medium.form.shapes, self.widths());
        for &(unit, sought) in walk.steps.iter().rev() {
            let bytes = self.medium.read_unit(pbn, unit, cause)?.0;
            let first = Head::decode(bytes).map_or(0, |head| head.first);
            let of_node = |node: u32| {
                let group = groups(bytes).flatten().find(|group| group.node == node);
                let records = group.map(|group| records(widths, first, group.records).flatten());
                records.into_iter().flatten()
            };
            sought.apply_from(&of_node, (node, &shapes), walk.contained)?;
        }
        let Some(found) = self.queues.get(pbn) else { return Ok(()) };
        let of_node = |node: u32| {
            let of_node = waiting(widths, &found.bytes).filter(move |found| found.0 == node);
            of_node.map(|found| (found.1, found.2))
        };
        Sought { node: node.id, limit: u64::MAX }.apply_from(&of_node, (node, &shapes), walk.contained)
    }

    /// Takes the records of the node from one unit. Returns the previous unit of the chain.
    fn follow(&mut self, pbn: Pbn, unit: u16, walk: &mut Walk, cause: Cause) -> Result<u16, IndexError> {
        let (widths, generation) = (self.widths(), self.places[pbn].generation);
        let (bytes, spare) = self.medium.read_unit(pbn, unit, cause)?;
        let is_log = IplTag::decode(spare).is_some_and(|tag| tag.kind == PageKind::Log);
        let head = Head::decode(bytes).filter(|head| is_log && head.generation == generation);
        let head = head.ok_or("a log unit's checksum does not match");
        let previous = head.and_then(|head| walk.take_unit(widths, bytes, head.first));
        self.medium.counts.log_units += u64::from(cause != Cause::Check);
        previous.map_err(|what| corrupted(Invariant::I5, what, self.medium.form.unit_page(pbn, unit)))
    }

    /// Reads the image of a node.
    fn image(&mut self, at: Slot, node: &mut Node, walk: &mut Walk, cause: Cause) -> Result<(), IndexError> {
        let form = self.medium.form;
        let ppn: Ppn = form.geometry.page_at(Pbn(at.block), u32::from(at.base));
        let generation = self.places[Pbn(at.block)].generation;
        let (data, spare) = self.medium.read(ppn, cause)?;
        let is_image = |tag: &IplTag| {
            let is_its = tag.node == node.id || walk.is_of(tag.node);
            // In place the images of a group are of several merges.
            tag.kind == PageKind::Data && (form.is_placed() || tag.generation == generation) && is_its
        };
        let tag = IplTag::decode(spare).filter(is_image).ok_or(corrupted(
            Invariant::I4,
            "not the image of a node of this block",
            ppn,
        ))?;
        let shape = form.shapes.at(tag.level);
        if tag.level == 0 || usize::from(tag.count) > shape.capacity {
            return Err(corrupted(Invariant::I1, "an impossible node", ppn));
        }
        (node.level, node.count) = (tag.level, tag.count.into());
        node.reserve(&form.shapes);
        node.bytes[..shape.bytes()].copy_from_slice(&data[..shape.bytes()]);
        walk.contained = tag.sequence;
        Ok(())
    }
}
