//! A batch: all waiting changes of a leaf are written at once.
//!
//! 1. The header is read, and the pages affected by a change; all pages if these are more than half.
//! 2. If every page has room for its changes, these pages and the header are written. Otherwise the whole
//!    leaf is read and its entries are laid out again with an eighth of the room left free: on as many pages
//!    as needed up to the limit of the leaf, or in two leaves.
//! 3. A leaf with less than half a page of entries is merged with its right neighbour below the same parent,
//!    or with the left one if it is the last. If the entries are too many for one leaf, they are divided
//!    evenly.
//!
//! All changed pages, and the changed nodes of the directory, are one atomic group.

use super::corrupted;
use super::page::{LeafLayout, PAGES_MAX, Rates};
use super::size::pages_limit;
use super::tree::WideTree;
use crate::ordered::lazy_update::{Demand, GroupTree, Hints};
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant};
use nandex::nand::Cause;
use nandex::ordered::Durability;
use nandex::ordered::bplus::ground::{Applied, Edit, LeafSpan, Lookup, Name, NewLeaf, Reshaped, merge};
use nandex::ordered::change::Change;
use nandex::store::PageStore;
use nandex::units::Lpn;

/// Most pages taken by a split of a leaf, or by one step of its growth.
const PAGES_PER_SPLIT: u64 = 3;

/// The outcome of a batch.
struct BatchOutcome {
    /// Number of changes applied in this batch.
    changes: usize,
    /// Entries of each page after the batch.
    after: [usize; PAGES_MAX],
    /// Pages that the batch changes.
    touched: [bool; PAGES_MAX],
}

impl BatchOutcome {
    fn entries(&self) -> usize {
        self.after.iter().sum()
    }
}

impl<S: PageStore> WideTree<S> {
    /// Carries out an update that did not wait in the pool.
    pub(super) fn apply_one(&mut self, change: Change<'_>) -> Result<bool, IndexError> {
        self.directory.ready()?;
        let (existed, ..) = self.find(change.key, Cause::Host)?;
        self.apply_group(core::iter::once(change), Hints::default())?;
        Ok(existed)
    }

    /// Finds the leaf of a batch and reads its header into frame 0. An empty tree gets a leaf of one page
    /// that does not exist yet; then the result is false.
    fn leaf_for(&mut self, key: &[u8]) -> Result<(Name, bool), IndexError> {
        if let Some(name) = self.directory.name_of(key, Cause::Host)? {
            self.load_header(0, name.page, Cause::Host)?;
            return Ok((name, true));
        }
        let header = &mut self.frames[0];
        (header.lpn, header.bytes[20]) = (Lpn(0), 0);
        self.layout.reset_header(&mut header.bytes, Rates::default(), 1);
        Ok((Name { span: self.everything(), page: Lpn(0), slot: 0 }, false))
    }

    /// Reads the pages that the changes belong to. If these are more than half of the leaf, reads all.
    fn load_touched<'a>(&mut self, changes: impl Iterator<Item = Change<'a>>) -> Result<(), IndexError> {
        let header = &self.frames[0].bytes;
        let (layout, pages) = (self.layout, self.layout.pages(header));
        let mut touched = [false; PAGES_MAX];
        for change in changes {
            let place = layout.place_of(header, change.key);
            touched[place] = true;
            // Those that follow are of the last page, too.
            if place + 1 == pages {
                break;
            }
        }
        let all = 2 * touched.iter().filter(|&&t| t).count() > pages;
        for place in (1..pages).filter(|&place| all || touched[place]) {
            self.load_page(0, place, place, Cause::Host)?;
        }
        for place in (0..pages).filter(|&place| touched[place]) {
            let page = &self.frames[place].bytes;
            let (lpn, entries, _) = layout.listed(&self.frames[0].bytes, place);
            if layout.shape(place).first_unsorted(layout.area(place, page), entries).is_some() {
                return Err(corrupted(Invariant::M3, "the keys of a page do not ascend", lpn));
            }
        }
        Ok(())
    }

    /// Counts the effect of the changes on each page, up to `entries_max` entries.
    fn plan<'a>(&self, changes: impl Iterator<Item = Change<'a>>, entries_max: usize) -> BatchOutcome {
        let (layout, header) = (&self.layout, &self.frames[0].bytes);
        let mut plan = BatchOutcome { changes: 0, after: [0; PAGES_MAX], touched: [false; PAGES_MAX] };
        (0..layout.pages(header)).for_each(|place| plan.after[place] = layout.listed(header, place).1);
        let mut left = entries_max.saturating_sub(plan.entries());
        for change in changes {
            let place = layout.place_of(header, change.key);
            let (shape, area) = (layout.shape(place), layout.area(place, &self.frames[place].bytes));
            let found = shape.search(area, layout.listed(header, place).1, change.key);
            plan.touched[place] |= match (found, change.value) {
                (Err(_), Some(_)) if left == 0 => break,
                (Err(_), Some(_)) => {
                    left -= 1;
                    plan.after[place] += 1;
                    true
                }
                (Ok(_), None) => {
                    left += 1;
                    plan.after[place] -= 1;
                    true
                }
                (Ok(at), Some(value)) => shape.value(area, at) != value,
                (Err(_), None) => false,
            };
            plan.changes += 1;
        }
        plan
    }

    /// Merges changes into the entries of one page of the leaf, and appends them to those gathered so far.
    /// Returns the number gathered.
    fn gather<'a>(
        &mut self,
        (base, place): (usize, usize),
        changes: impl Iterator<Item = Change<'a>>,
        held: usize,
    ) -> usize {
        let WideTree { frames, layout, flat, flat_shape, .. } = self;
        let header = &frames[base].bytes;
        let area = layout.area(place, &frames[base + place].bytes);
        let entries = layout.listed(header, place).1;
        let changes = changes.filter(|change| layout.place_of(header, change.key) == place);
        let mut end = held;
        merge(layout.shape(place), area, entries, changes, |at, (key, value)| {
            flat_shape.set_key(flat, held + at, key);
            flat_shape.set_value(flat, held + at, value);
            end = held + at + 1;
        });
        end
    }

    /// Gathers all entries of the leaf from the pages in RAM.
    fn gather_all<'a>(
        &mut self,
        base: usize,
        changes: impl Iterator<Item = Change<'a>> + Clone,
        mut held: usize,
    ) -> usize {
        for place in 0..self.layout.pages(&self.frames[base].bytes) {
            held = self.gather((base, place), changes.clone(), held);
        }
        held
    }

    /// Refuses gathered entries that do not ascend. Only damaged pages give such.
    fn require_sorted(&self, entries: usize, at: Lpn) -> Result<(), IndexError> {
        match self.flat_shape.first_unsorted(&self.flat, entries) {
            Some(_) => Err(corrupted(Invariant::M3, "the keys of a leaf do not ascend", at)),
            None => Ok(()),
        }
    }

    /// Step 2 if every page has room: changes the pages and the header.
    fn change_pages<'a>(
        &mut self,
        plan: &BatchOutcome,
        changes: impl Iterator<Item = Change<'a>> + Clone,
        rates: Rates,
    ) -> Result<(), IndexError> {
        let layout = self.layout;
        // The header tells which changes are whose: it changes last.
        let mut firsts: [Option<Vec<u8>>; PAGES_MAX] = Default::default();
        for place in (0..PAGES_MAX).filter(|&place| plan.touched[place]) {
            let held = self.gather((0, place), changes.clone(), 0);
            assert!(held == plan.after[place], "M2: {held} entries, {} planned", plan.after[place]);
            firsts[place] = Some(if held > 0 { self.flat_shape.key(&self.flat, 0).into() } else { vec![] });
            let page = &mut self.frames[place];
            let into = (layout.shape(place), layout.area_mut(place, &mut page.bytes), 0);
            self.flat_shape.copy_entries((&self.flat, 0), held, into);
            if place > 0 {
                LeafLayout::seal(&mut page.bytes, page.lpn, place, held);
            }
        }
        let header = &mut self.frames[0];
        for (place, first) in firsts.iter().enumerate() {
            if let Some(first) = first {
                let lpn = layout.listed(&header.bytes, place).0;
                layout.list(&mut header.bytes, place, (lpn, plan.after[place]), first);
            }
        }
        layout.put_rates(&mut header.bytes, rates);
        LeafLayout::seal(&mut header.bytes, header.lpn, 0, plan.after[0]);
        let written: Vec<(Lpn, &[u8])> = (0..PAGES_MAX)
            .filter(|&place| place == 0 || plan.touched[place])
            .map(|place| (self.frames[place].lpn, &self.frames[place].bytes[..]))
            .collect();
        Ok(self.directory.change_names(Edit::Keep, &written)?)
    }

    /// Number of pages for `entries` entries.
    fn pages_for(&self, entries: usize, terms: Terms) -> usize {
        let least = self.layout.pages_least(entries);
        if terms.is_roomy { self.layout.pages_roomy(entries).min(terms.limit).max(least) } else { least }
    }

    /// Divides entries among one leaf, or two if they are too many.
    fn shares(&self, entries: usize, pages: usize, terms: Terms) -> [usize; 2] {
        let limit = if terms.is_roomy { terms.limit } else { self.layout.pages_max };
        if pages <= limit { [entries, 0] } else { [entries.div_ceil(2), entries / 2] }
    }

    /// Writes the gathered entries as one leaf or two. `firsts` are the first pages of the old leaves and
    /// `others` their other pages; new pages are taken if needed.
    fn lay_out(
        &mut self,
        shares: [usize; 2],
        (firsts, mut others): (Vec<Lpn>, Vec<Lpn>),
        terms: Terms,
        edit: EditKind,
    ) -> Result<[Lpn; 2], IndexError> {
        let leaves = 1 + usize::from(shares[1] > 0);
        debug_assert!(shares[0] > 0 || leaves == 1, "M2: shares {shares:?}");
        debug_assert_eq!(
            matches!(edit, EditKind::Split(_) | EditKind::Even(_)),
            leaves == 2,
            "B3: the directory hears otherwise of {leaves} leaves"
        );
        let pages = [0, 1].map(|leaf| if leaf < leaves { self.pages_for(shares[leaf], terms) } else { 0 });
        debug_assert!(pages[0] + pages[1] <= self.frames.len(), "M2: leaves of {pages:?} pages");
        let old = firsts.len() + others.len();
        others.extend(firsts.iter().skip(leaves));
        others.reverse();
        for (leaf, base) in [0, pages[0]].into_iter().enumerate().take(leaves) {
            for place in 0..pages[leaf] {
                let kept = if place == 0 { firsts.get(leaf).copied() } else { None };
                let lpn = match kept.or_else(|| others.pop()) {
                    Some(lpn) => lpn,
                    None => self.directory.pages_mut().take_for_leaf()?,
                };
                self.frames[base + place].lpn = lpn;
            }
        }
        others.into_iter().for_each(|lpn| self.directory.pages_mut().give_up_leaf(lpn));
        let rates = if leaves == 2 { terms.rates.halved() } else { terms.rates };
        self.lay_leaf((0, pages[0]), (0, shares[0]), rates);
        if leaves == 2 {
            self.lay_leaf((pages[0], pages[1]), shares.into(), rates);
        }
        let starts = [self.frames[0].lpn, self.frames[pages[0].min(self.frames.len() - 1)].lpn];
        let boundary = self.flat_shape.key(&self.flat, shares[0] * usize::from(leaves == 2));
        let least = vec![0; boundary.len()];
        let edit = match edit {
            EditKind::Keep => Edit::Keep,
            EditKind::Found => Edit::Insert(0, &least, starts[0]),
            EditKind::Split(slot) => Edit::Insert(slot, boundary, starts[1]),
            EditKind::Merge(slot) => Edit::Remove(slot),
            EditKind::Even(slot) => Edit::Rename(slot, boundary),
        };
        let all = pages[0] + pages[1];
        let written: Vec<(Lpn, &[u8])> =
            self.frames[..all].iter().map(|frame| (frame.lpn, &frame.bytes[..])).collect();
        self.directory.change_names(edit, &written)?;
        self.counts.leaf_pages = self.counts.leaf_pages + all as u64 - old as u64;
        Ok(starts)
    }

    /// Does steps 2 and 3 for a leaf that must be laid out again.
    fn repack<'a>(
        &mut self,
        name: &Name,
        exists: bool,
        changes: impl Iterator<Item = Change<'a>> + Clone,
        terms: Terms,
    ) -> Result<Option<Reshaped>, IndexError> {
        self.load_rest(0, Cause::Host)?;
        let entries = self.gather_all(0, changes, 0);
        self.require_sorted(entries, name.page)?;
        let wanted =
            if terms.is_roomy { self.layout.pages_roomy(entries) } else { self.layout.pages_least(entries) };
        let shares = self.shares(entries, wanted, terms);
        let mut pages = self.pages_in(0);
        let firsts: Vec<Lpn> = if exists { vec![pages.remove(0)] } else { Vec::new() };
        if !exists {
            pages.clear();
        }
        // A tree without a leaf gets one, which is split with the next batch if it must.
        let shares = if exists { shares } else { [entries, 0] };
        let is_split = shares[1] > 0;
        let edit = match (exists, is_split) {
            (false, _) => EditKind::Found,
            (_, true) => EditKind::Split(name.slot + 1),
            _ => EditKind::Keep,
        };
        let starts = self.lay_out(shares, (firsts, pages), terms, edit)?;
        self.counts.repacks += 1;
        self.counts.leaves += u64::from(!exists) + u64::from(is_split);
        self.counts.leaf_splits += u64::from(is_split);
        Ok(is_split.then(|| self.reshaped(name.span.clone(), vec![name.page], starts, shares)))
    }

    /// The page numbers of the leaf whose header is in frame `base`.
    fn pages_in(&self, base: usize) -> Vec<Lpn> {
        let header = &self.frames[base].bytes;
        (0..self.layout.pages(header)).map(|place| self.layout.listed(header, place).0).collect()
    }

    fn reshaped(&self, span: LeafSpan, before: Vec<Lpn>, starts: [Lpn; 2], shares: [usize; 2]) -> Reshaped {
        let mut after = vec![NewLeaf { lpn: starts[0], low: span.low.clone(), entries: shares[0] }];
        if shares[1] > 0 {
            let low = Some(self.flat_shape.key(&self.flat, shares[0]).into());
            after.push(NewLeaf { lpn: starts[1], low, entries: shares[1] });
        }
        Reshaped { span, before, after }
    }

    /// Step 3: merges the leaf, its changes and a neighbour into one leaf, or two even ones. `None` if the
    /// pages of both are too few for that.
    fn merge_with<'a>(
        &mut self,
        (name, neighbour): (&Name, &Name),
        changes: impl Iterator<Item = Change<'a>> + Clone,
        terms: Terms,
    ) -> Result<Option<Reshaped>, IndexError> {
        let base = self.load_rest(0, Cause::Host)?;
        debug_assert_eq!(
            name.slot.abs_diff(neighbour.slot),
            1,
            "B3: leaves are merged that are not neighbours"
        );
        self.load_header(base, neighbour.page, Cause::Host)?;
        self.load_rest(base, Cause::Host)?;
        let is_right = neighbour.slot > name.slot;
        let (left, right) = if is_right { (name, neighbour) } else { (neighbour, name) };
        let entries = if is_right {
            let held = self.gather_all(0, changes, 0);
            self.gather_all(base, core::iter::empty(), held)
        } else {
            let held = self.gather_all(base, core::iter::empty(), 0);
            self.gather_all(0, changes, held)
        };
        self.require_sorted(entries, name.page)?;
        let shares = self.shares(entries, self.layout.pages_least(entries), terms);
        let mut pages = [self.pages_in(0), self.pages_in(base)];
        let have = pages[0].len() + pages[1].len();
        let need: usize = shares.iter().filter(|&&n| n > 0).map(|&n| self.pages_for(n, terms)).sum();
        if need > have && !terms.is_roomy {
            return Ok(None);
        }
        let rates = terms.rates.with(self.layout.rates(&self.frames[base].bytes));
        if !is_right {
            pages.reverse();
        }
        let firsts = vec![left.page, right.page];
        let others = pages.iter().flat_map(|pages| &pages[1..]).copied().collect();
        let is_one = shares[1] == 0;
        let edit = if is_one { EditKind::Merge(right.slot) } else { EditKind::Even(right.slot) };
        let starts = self.lay_out(shares, (firsts, others), Terms { rates, ..terms }, edit)?;
        self.counts.leaves -= u64::from(is_one);
        self.counts.leaf_merges += u64::from(is_one);
        let span = LeafSpan { low: left.span.low.clone(), high: right.span.high.clone() };
        Ok(Some(self.reshaped(span, vec![left.page, right.page], starts, shares)))
    }

    /// The neighbour below the same parent: the right one, or the left one if there is no right one.
    fn neighbour_to_merge(&self, name: &Name) -> Result<Option<Name>, IndexError> {
        match (self.directory.name_at(name.slot + 1)?, name.slot.checked_sub(1)) {
            (Some(right), _) => Ok(Some(right)),
            (None, Some(left)) => Ok(self.directory.name_at(left)?),
            (None, None) => Ok(None),
        }
    }

    fn apply_batch<'a>(
        &mut self,
        changes: impl Iterator<Item = Change<'a>> + Clone,
        first: Change<'a>,
        hints: Hints,
    ) -> Result<Applied, IndexError> {
        let (name, exists) = self.leaf_for(first.key)?;
        self.load_touched(changes.clone())?;
        let full = self.layout.capacity(self.layout.pages_max);
        let plan = self.plan(changes.clone(), if exists { 2 * full * 7 / 8 } else { full });
        let held = if exists { self.layout.entries(&self.frames[0].bytes) } else { 0 };
        let mut applied = Applied { lpn: name.page, entries: held, changes: plan.changes, reshaped: None };
        let changes = changes.take(plan.changes);
        if !changes.clone().all(|change| name.span.contains(change.key)) {
            return Err(corrupted(Invariant::B3, "the bounds changed since the leaf was found", name.page));
        }
        if !plan.touched.contains(&true) {
            return Ok(applied);
        }
        self.counts.batches += 1;
        debug_assert!(plan.changes > 0, "a batch of which nothing is applied");
        let (layout, pages) = (self.layout, self.layout.pages(&self.frames[0].bytes));
        let rates = layout.rates(&self.frames[0].bytes).after(plan.changes, hints.reads);
        let limit = match self.write_cost {
            Some(write_cost) => pages_limit(rates, pages, layout.pages_max, write_cost),
            None => layout.pages_max,
        };
        let terms = Terms { rates, limit, is_roomy: hints.is_roomy };
        let entries = plan.entries();
        if 2 * entries < layout.shape(1).capacity
            && exists
            && let Some(neighbour) = self.neighbour_to_merge(&name)?
        {
            applied.reshaped = self.merge_with((&name, &neighbour), changes.clone(), terms)?;
            if applied.reshaped.is_some() {
                return Ok(applied);
            }
            // The frames are as before: nothing was laid out.
        }
        let fits = |place: usize| {
            plan.after[place] <= layout.shape(place).capacity && (plan.after[place] > 0 || pages == 1)
        };
        let is_sparse = layout.pages_roomy(entries) + 1 < pages;
        let is_too_large = pages > limit && hints.is_roomy;
        if exists && (0..pages).all(fits) && !is_sparse && !is_too_large {
            self.change_pages(&plan, changes, rates)?;
        } else {
            applied.reshaped = self.repack(&name, exists, changes, terms)?;
        }
        Ok(applied)
    }
}

/// The terms on which a leaf is laid out.
#[derive(Clone, Copy)]
struct Terms {
    rates: Rates,
    /// Largest number of pages of a leaf.
    limit: usize,
    /// Whether pages are plentiful. If not, no more pages than needed are used.
    is_roomy: bool,
}

/// The change of the directory after a batch.
enum EditKind {
    Keep,
    /// Adds the first leaf of the tree.
    Found,
    Split(usize),
    Merge(usize),
    Even(usize),
}

impl<S: PageStore> GroupTree for WideTree<S> {
    const COUNTS_READS: bool = true;

    fn ready(&self) -> Result<(), IndexError> {
        Ok(self.directory.ready()?)
    }

    fn lookup(&mut self, key: &[u8], cause: Cause) -> Result<Lookup, IndexError> {
        let (is_present, entries, span) = self.find(key, cause)?;
        Ok(Lookup { is_present, entries, span })
    }

    fn group_span(&mut self, key: &[u8]) -> Result<LeafSpan, IndexError> {
        let name = self.directory.name_of(key, Cause::Host)?;
        Ok(name.map_or_else(|| self.everything(), |name| name.span))
    }

    fn entries_near(&mut self, key: &[u8]) -> Result<usize, IndexError> {
        Ok(self.find(key, Cause::Host)?.1)
    }

    fn leaf_fill(&self) -> (usize, usize) {
        (0, self.layout.capacity(1))
    }

    fn has_room(&self, demand: Demand) -> bool {
        let splits = demand.leaf_splits_max(self.layout.capacity(1));
        let needed = self.directory.pages_for_splits(splits) + PAGES_PER_SPLIT * splits;
        needed <= u64::from(self.directory.space().free_pages())
    }

    fn apply_group<'a>(
        &mut self,
        changes: impl Iterator<Item = Change<'a>> + Clone,
        hints: Hints,
    ) -> Result<Applied, IndexError> {
        let Some(first) = changes.clone().next() else {
            return Ok(Applied { lpn: Lpn(0), entries: 0, changes: 0, reshaped: None });
        };
        self.apply_batch(changes, first, hints)
    }

    fn admit_change(&mut self) -> Result<(), IndexError> {
        Ok(self.directory.admit_change()?)
    }

    fn class_on_store(&self) -> Durability {
        self.class
    }

    fn store_below(&mut self) -> &mut dyn PageStore {
        self.directory.store_mut()
    }
}
