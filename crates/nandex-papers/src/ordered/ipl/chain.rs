//! Reading a node: its image, and the chain of its log records.
//!
//! The chain is read from its newest unit back, and applied from its oldest on, so its records are held in
//! between. Where they take more RAM than there is for them, the units are read a second time, the oldest
//! first, and none is held.

use super::image::{Node, Shapes};
use super::layout::{
    Change, Head, IplTag, NO_UNIT, PageKind, WAITING_BYTES, Widths, groups, push_waiting, records, waiting,
};
use super::store::{Slot, Store, corrupted};
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::log::Placement;
use nandex::nand::{Cause, Nand};
use nandex::units::{Pbn, Ppn};

/// Whose records are looked for at a place of the chain.
#[derive(Clone, Copy, Debug)]
struct Sought {
    node: u32,
    /// Only records before this one count.
    limit: u64,
}

impl Sought {
    /// Applies the records of one place: before those of a ghost those of its source, if they are there.
    fn apply_from<'a, I: Iterator<Item = (u64, Change<'a>)>>(
        self,
        of_node: &impl Fn(u32) -> I,
        (node, shapes): (&mut Node, &Shapes),
        contained: u64,
    ) -> Result<(), IndexError> {
        let found = || of_node(self.node).filter(|record| record.0 < self.limit);
        let born = found().filter_map(|(limit, change)| match change {
            Change::Ghost { source, .. } | Change::GhostOfAll { source, .. } => {
                Some(Sought { node: source, limit })
            }
            _ => None,
        });
        let born = born.last();
        if let Some(born) = born {
            born.apply_from(of_node, (node, shapes), contained)?;
        }
        let since = born.map_or(0, |born| born.limit);
        let mut records = found().filter(|record| record.0 >= since);
        records.try_for_each(|record| apply_record(node, shapes, record, contained))
    }
}

/// Applies a record if it is newer than what the image contains.
fn apply_record(
    node: &mut Node,
    shapes: &Shapes,
    (sequence, change): (u64, Change<'_>),
    contained: u64,
) -> Result<(), IndexError> {
    match change {
        _ if sequence <= contained => {}
        Change::Ghost { low, .. } => node.keep_from(shapes, low),
        Change::GhostOfAll { .. } => {}
        change => node.apply(shapes, &change)?,
    }
    Ok(())
}

/// The records of a node on the way from its newest to its oldest.
struct Walk {
    sought: Sought,
    /// The nodes that it came from.
    sources: Vec<u32>,
    /// The records of each unit, the newest unit first.
    chunks: Vec<Vec<u8>>,
    /// Bytes of records that may be held, beside those that are.
    left: usize,
    /// The records take more than there is RAM for, and are not held.
    is_long: bool,
    /// The units of the chain, and what was sought there.
    steps: Vec<(u16, Sought)>,
}

impl Walk {
    fn new(id: u32, bytes_max: usize) -> Walk {
        Walk {
            sought: Sought { node: id, limit: u64::MAX },
            sources: Vec::new(),
            chunks: Vec::new(),
            left: bytes_max,
            is_long: false,
            steps: Vec::new(),
        }
    }

    /// Whether the node may have begun with the image of this one.
    fn is_of(&self, node: u32) -> bool {
        self.sources.contains(&node)
    }

    /// Takes the records over of the node that is sought in one unit; whether it was born there as a ghost,
    /// and its source is sought now.
    fn take<'a, I: Iterator<Item = (u64, Change<'a>)>>(
        &mut self,
        widths: Widths,
        found: impl Fn() -> I,
    ) -> bool {
        let Sought { node, limit } = self.sought;
        let counts = |(sequence, _): &(u64, Change<'_>)| *sequence < limit;
        let (mut bytes, mut born) = (0, None);
        for (sequence, change) in found().filter(counts) {
            if let Change::Ghost { source, .. } | Change::GhostOfAll { source, .. } = change {
                (bytes, born) = (0, Some(Sought { node: source, limit: sequence }));
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

    /// Takes over what waits in RAM.
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

/// Reading.
impl<N: Nand> Store<N> {
    /// Reads a node: its image and its chain of records.
    pub(super) fn load(&mut self, id: u32, node: &mut Node, cause: Cause) -> Result<(), IndexError> {
        let slot = self.slot(id)?;
        let pbn = Pbn(slot.block);
        let mut walk = Walk::new(id, self.config.chain_bytes);
        self.at_hand = None;
        if let Some(found) = self.waiting.get(&pbn.0) {
            walk.take_waiting(self.shapes.widths(), &found.bytes);
        }
        let mut unit = slot.last;
        node.units = 0;
        while unit != NO_UNIT {
            node.units += 1;
            walk.steps.push((unit, walk.sought));
            let previous = self.follow(pbn, unit, &mut walk, cause)?;
            if previous >= unit && previous != NO_UNIT {
                let what = "a chain of log units does not go back";
                return Err(corrupted(Invariant::I5, what, self.unit_page(pbn, unit)));
            }
            unit = previous;
        }
        let contained = self.load_image((id, slot), node, &walk, cause)?;
        if walk.is_long {
            return self.apply_again((id, slot), node, (walk.steps, contained), cause);
        }
        walk.chunks.iter().rev().try_for_each(|chunk| self.apply(node, chunk, contained))
    }

    /// Applies the records of a chain, each unit of which is read again, and those that wait.
    fn apply_again(
        &mut self,
        (id, slot): (u32, Slot),
        node: &mut Node,
        (steps, contained): (Vec<(u16, Sought)>, u64),
        cause: Cause,
    ) -> Result<(), IndexError> {
        let (pbn, shapes, widths) = (Pbn(slot.block), self.shapes, self.shapes.widths());
        for &(unit, sought) in steps.iter().rev() {
            let frame = self.read(self.unit_page(pbn, unit), cause)?;
            let at = (u32::from(unit) % self.units_per_page()) as usize * self.format.unit_bytes;
            let bytes = &self.cache.page(frame).0[at..at + self.format.unit_bytes];
            let first = Head::decode(bytes).map_or(0, |head| head.first);
            let of_node = |node: u32| {
                let group = groups(bytes).flatten().find(|group| group.node == node);
                let records = group.map(|group| records(widths, first, group.records).flatten());
                records.into_iter().flatten()
            };
            sought.apply_from(&of_node, (node, &shapes), contained)?;
        }
        let Some(found) = self.waiting.get(&pbn.0) else { return Ok(()) };
        let of_node = |node: u32| {
            let of_node = waiting(widths, &found.bytes).filter(move |found| found.0 == node);
            of_node.map(|found| (found.1, found.2))
        };
        Sought { node: id, limit: u64::MAX }.apply_from(&of_node, (node, &shapes), contained)
    }

    /// Applies the records of a unit.
    fn apply(&self, node: &mut Node, chunk: &[u8], contained: u64) -> Result<(), IndexError> {
        let mut records = waiting(self.shapes.widths(), chunk).map(|found| (found.1, found.2));
        records.try_for_each(|record| apply_record(node, &self.shapes, record, contained))
    }

    /// Takes over what one unit holds for the node; the unit before it in the chain.
    fn follow(&mut self, pbn: Pbn, unit: u16, walk: &mut Walk, cause: Cause) -> Result<u16, IndexError> {
        let ppn = self.unit_page(pbn, unit);
        let frame = self.read(ppn, cause)?;
        if cause != Cause::Check {
            self.counts.log_units_read += 1;
        }
        let (generation, size) = (self.blocks[pbn.index()].generation, self.format.unit_bytes);
        let (data, spare) = self.cache.page(frame);
        let at = (u32::from(unit) % self.units_per_page()) as usize * size;
        let bytes = &data[at..at + size];
        let is_log = IplTag::decode(spare).is_some_and(|tag| tag.kind == PageKind::Log);
        let head = Head::decode(bytes).filter(|head| is_log && head.generation == generation);
        let head = head.ok_or(corrupted(Invariant::I5, "a log unit's checksum does not match", ppn))?;
        let (mut previous, widths) = (None, self.shapes.widths());
        loop {
            let want = walk.sought.node;
            let mut nonsense = false;
            let found = groups(bytes).find_map(|group| match group {
                None => {
                    nonsense = true;
                    None
                }
                Some(group) => (group.node == want).then_some(group),
            });
            if nonsense {
                return Err(corrupted(Invariant::I5, "a log unit makes no sense", ppn));
            }
            let Some(group) = found else { break };
            previous.get_or_insert(group.previous);
            let all = || records(widths, head.first, group.records);
            if all().any(|record| record.is_none()) {
                return Err(corrupted(Invariant::I5, "a log record makes no sense", ppn));
            }
            if !walk.take(widths, || all().flatten()) {
                break;
            }
        }
        previous.ok_or(corrupted(Invariant::I5, "a log unit holds nothing of the node it is named for", ppn))
    }

    /// Reads the image of a node; the number up to which that contains its records.
    fn load_image(
        &mut self,
        (id, slot): (u32, Slot),
        node: &mut Node,
        walk: &Walk,
        cause: Cause,
    ) -> Result<u64, IndexError> {
        let ppn: Ppn = self.geometry.page_at(Pbn(slot.block), u32::from(slot.base));
        let frame = self.read(ppn, cause)?;
        let (data, spare) = self.cache.page(frame);
        let generation = self.blocks[slot.block as usize].generation;
        // In place the images of a group are of several merges.
        let is_placed = self.config.placement == Placement::InPlace;
        let is_image = |tag: &IplTag| {
            let is_its = tag.node == id || walk.is_of(tag.node);
            tag.kind == PageKind::Data && (is_placed || tag.generation == generation) && is_its
        };
        let tag = IplTag::decode(spare).filter(is_image).ok_or(corrupted(
            Invariant::I4,
            "not the image of a node of this block",
            ppn,
        ))?;
        let shape = self.shapes.at(tag.level);
        if tag.level == 0 || usize::from(tag.count) > shape.capacity {
            return Err(corrupted(Invariant::I1, "an impossible node", ppn));
        }
        (node.id, node.level, node.count) = (id, tag.level, tag.count.into());
        node.reserve(&self.shapes);
        node.bytes[..shape.bytes()].copy_from_slice(&data[..shape.bytes()]);
        Ok(tag.sequence)
    }
}
