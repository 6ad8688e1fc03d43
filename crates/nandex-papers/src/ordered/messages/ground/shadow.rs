//! Pages that are never overwritten while anything committed needs them, and the one page write that commits.
//!
//! The store is divided in *units* of as many pages as the tree wants for a node. A unit is *live* when the
//! tree uses it, and *kept* when the committed tree does; only one that is neither is written. So whatever a
//! power cut leaves of the units written since, the committed tree is whole on every store. A commit writes
//! what the tree holds in RAM (its *state*) to fresh units, syncs the store, writes the manifest, page 0, and
//! syncs again: a page is old or new after a cut, never torn, so there is one root switch and no second copy
//! to fall back to silently. Units that the tree gave up are trimmed then.
//!
//! # Bytes
//!
//! Page 0:
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's own number, 0
//!        8..16  the name of the tree
//!       16..20  bytes of a page              20..24  pages of the store
//!       24..28  pages of a unit
//!       28      bytes of a key               29      bytes of a value
//!       30..46  parameters of the tree
//!       46..54  number of the commit
//!       54..58  bytes of the state
//!       58..62  first unit of the state, 0xFFFFFFFF where there is none
//!       62      1 where changes were taken in since, in the class *none*; else 0
//!       63      0
//!       64..    the state, if it fits here
//! ```
//!
//! A page of the state elsewhere:
//!
//! ```text
//! bytes  0..4   CRC-32 of the rest of the page
//!        4..8   the page's own number
//!        8..16  number of the commit
//!       16..20  next unit of the state (in a unit's first page)
//!       20..    the state, continued
//! ```

mod open;
mod units;

use super::state::CommittedState;
use alloc::vec;
use alloc::vec::Vec;
use nandex::check::{IndexError, Invariant, message};
use nandex::codec::{crc32, get_u32, get_u64, put_u32, put_u64};
use nandex::nand::{Cause, Differs, Unfit};
use nandex::ordered::RecordFormat;
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;
use open::OPEN_AT;
use units::Units;

/// In links: no unit.
pub(in crate::ordered) const NONE: u32 = u32::MAX;

pub(super) const MANIFEST: Lpn = Lpn(0);
const MANIFEST_BYTES: usize = 64;
const STATE_HEAD_BYTES: usize = 20;

/// The identity of a tree on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name of the tree and its format.
    pub name: [u8; 8],
    /// The sizes of its records.
    pub record: RecordFormat,
    /// Number of pages of a unit.
    pub unit_pages: u32,
    /// The other parameters that must be the same at a mount.
    pub parameters: [u8; 16],
}

/// A store that writes only to units without committed contents.
pub struct ShadowOn<S: ?Sized> {
    identity: Identity,
    pub(in crate::ordered) units: Units,
    commit: u64,
    updates: u64,
    is_changed: bool,
    /// Whether the manifest says that changes were made since the commit.
    is_open: bool,
    is_interrupted: bool,
    /// Whether the store refused to make a commit durable.
    is_sealed: bool,
    pub(super) commits: u64,
    /// Whether a checker reads. Its reads are not counted.
    pub(super) is_checking: bool,
    store: S,
}

/// A store, whichever it is, as trees see it.
pub(crate) type Shadow<'s> = ShadowOn<dyn PageStore + 's>;

impl<S: PageStore> ShadowOn<S> {
    fn new(mut store: S, identity: Identity) -> Result<ShadowOn<S>, IndexError> {
        let units = store.page_count().saturating_sub(1) / identity.unit_pages.max(1);
        if identity.unit_pages == 0 || units < 2 || store.page_bytes() < 2 * MANIFEST_BYTES {
            return Err(IndexError::unsupported(message!(
                "{} pages of {} bytes: at least 2 nodes of {} pages are needed, of {} bytes each",
                store.page_count(),
                store.page_bytes(),
                identity.unit_pages,
                2 * MANIFEST_BYTES
            )));
        }
        store.updates_shown(Some(0));
        Ok(ShadowOn {
            store,
            identity,
            units: Units::new(units),
            commit: 0,
            updates: 0,
            is_changed: true,
            is_open: false,
            is_interrupted: false,
            is_sealed: false,
            commits: 0,
            is_checking: false,
        })
    }

    /// Drops everything that the store held. Before the first commit it is blank.
    pub(super) fn format(mut store: S, identity: Identity) -> Result<ShadowOn<S>, IndexError> {
        store.trim(MANIFEST)?;
        store.sync()?;
        for lpn in (1..store.page_count()).map(Lpn) {
            store.trim(lpn)?;
        }
        ShadowOn::new(store, identity)
    }

    /// Opens the last commit and its state. Units of the state are claimed as it is read; the tree must claim
    /// the others.
    pub(super) fn mount(
        mut store: S,
        identity: Identity,
    ) -> Result<(ShadowOn<S>, CommittedState), IndexError> {
        let mut page = vec![0; store.page_bytes()];
        store.read(MANIFEST, Cause::Recovery, &mut page)?;
        let what = "page 0 is no manifest of such a tree";
        if page.len() < MANIFEST_BYTES || page.iter().all(|&byte| byte == 0) {
            return Err(IndexError::NotFormatted(nandex::store::unfit(&mut store, what)?));
        }
        if page[8..16] != identity.name {
            return Err(IndexError::NotFormatted(Unfit::named(&page[8..16], &identity.name, what)));
        }
        if get_u32(&page, 0) != crc32(&[&page[4..]]) || get_u32(&page, 4) != MANIFEST.0 {
            return Err(corrupted(Invariant::S1, "the checksum of the manifest is wrong", MANIFEST));
        }
        let mut expected = vec![0; page.len()];
        put_identity(&mut expected, &identity, store.page_count());
        let parts = [(16..24, Differs::Geometry), (28..30, Differs::Record), (16..46, Differs::Settings)];
        for (part, differs) in parts {
            if page[part.clone()] != expected[part] {
                let what = "the tree has records of other sizes, other settings or another store";
                return Err(IndexError::other(differs, what));
            }
        }
        let mut shadow = ShadowOn::new(store, identity)?;
        shadow.commit = get_u64(&page, 46);
        let (bytes, unit) = (get_u32(&page, 54) as usize, get_u32(&page, 58));
        let room = match unit {
            NONE => page.len() - MANIFEST_BYTES,
            _ => shadow.units.count() as usize * shadow.unit_state_bytes(),
        };
        if bytes > room {
            return Err(corrupted(Invariant::S1, "the state is longer than its pages", MANIFEST));
        }
        shadow.is_open = page[OPEN_AT] == 1;
        shadow.is_changed = shadow.is_open;
        let read = if unit == NONE { MANIFEST_BYTES } else { page.len() };
        Ok((shadow, CommittedState { page, read, left: bytes, unit: NONE, place: 0, next: unit }))
    }

    pub(super) fn into_store(self) -> S {
        self.store
    }
}

impl<S: PageStore + ?Sized> ShadowOn<S> {
    /// Reads the next page of a state, and claims its unit with the first one.
    pub(super) fn next_page(&mut self, state: &mut CommittedState) -> Result<(), IndexError> {
        if state.unit == NONE || state.place == self.identity.unit_pages {
            (state.unit, state.place) = (state.next, 0);
            self.units.claim_of_state(state.unit)?;
        }
        let lpn = self.lpn(state.unit, state.place);
        self.read(lpn, Cause::Recovery, &mut state.page)?;
        if get_u64(&state.page, 8) != self.commit {
            return Err(corrupted(Invariant::S1, "a page of the state is of another commit", lpn));
        }
        if state.place == 0 {
            state.next = get_u32(&state.page, 16);
        }
        state.place += 1;
        state.read = STATE_HEAD_BYTES;
        Ok(())
    }

    /// Marks all claimed units as kept, once a mount has claimed them.
    pub(super) fn mounted(&mut self) {
        self.units.hold();
        self.units.keep();
    }

    pub(in crate::ordered) fn page_bytes(&self) -> usize {
        self.store.page_bytes()
    }

    pub(in crate::ordered) const fn unit_pages(&self) -> u32 {
        self.identity.unit_pages
    }

    /// The store below.
    pub fn store(&self) -> &S {
        &self.store
    }

    pub(super) fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// A page of a unit.
    pub(in crate::ordered) fn lpn(&self, unit: u32, page: u32) -> Lpn {
        Lpn(1 + unit * self.identity.unit_pages + page)
    }

    pub(in crate::ordered) fn read(
        &mut self,
        lpn: Lpn,
        cause: Cause,
        page: &mut [u8],
    ) -> Result<(), IndexError> {
        self.store.read(lpn, if self.is_checking { Cause::Check } else { cause }, page)?;
        if get_u32(page, 0) != crc32(&[&page[4..]]) {
            return Err(corrupted(Invariant::S2, "the checksum of a page is wrong", lpn));
        }
        if get_u32(page, 4) != lpn.0 {
            return Err(corrupted(Invariant::S2, "another page stands in its place", lpn));
        }
        Ok(())
    }

    pub(in crate::ordered) fn write(
        &mut self,
        lpn: Lpn,
        cause: Cause,
        page: &mut [u8],
    ) -> Result<(), IndexError> {
        debug_assert!(lpn != MANIFEST && !self.is_checking, "S1: {lpn} is written past the commit");
        if self.is_sealed {
            return Err(IndexError::WornOut);
        }
        put_u32(page, 4, lpn.0);
        let crc = crc32(&[&page[4..]]);
        put_u32(page, 0, crc);
        Ok(self.store.write(lpn, cause, page)?)
    }

    /// Reserves `units` units for the states of commits.
    pub(in crate::ordered) fn set_reserve(&mut self, units: u32) -> Result<(), IndexError> {
        if self.units.count() < 3 * units + 4 {
            return Err(IndexError::unsupported(message!(
                "{} nodes of {} pages find room on the store: two commits take {}",
                self.units.count(),
                self.identity.unit_pages,
                2 * units
            )));
        }
        self.units.reserve = units;
        Ok(())
    }

    /// Runs an action that writes fresh units. If it fails, the units that it took or gave up are as
    /// before. The caller must change nothing in RAM before it succeeds.
    pub(in crate::ordered) fn attempt<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.units.hold();
        let done = act(self);
        if done.is_ok() {
            // What was written since the last commit and is given up already is nobody's.
            self.trim_where(Units::given_up);
        }
        self.units.end(done.is_ok());
        done
    }

    /// Refuses to go on after a commit whose effect is unknown.
    pub(in crate::ordered) fn ready(&self) -> Result<(), IndexError> {
        if self.is_interrupted { Err(IndexError::Interrupted) } else { Ok(()) }
    }

    pub(super) fn updated(&mut self) {
        self.is_changed = true;
        self.updates += 1;
        self.store.updates_heard(self.updates);
    }

    pub(in crate::ordered) const fn is_checking(&self) -> bool {
        self.is_checking
    }

    pub(super) const fn is_changed(&self) -> bool {
        self.is_changed || self.is_open
    }

    pub(super) fn sync(&mut self) -> Result<(), IndexError> {
        Ok(self.store.sync()?)
    }

    pub(super) fn checkpoint(&mut self) -> Result<(), IndexError> {
        Ok(self.store.checkpoint()?)
    }

    fn unit_state_bytes(&self) -> usize {
        self.identity.unit_pages as usize * (self.page_bytes() - STATE_HEAD_BYTES)
    }

    /// Number of units, besides the manifest, that a state of `bytes` bytes takes.
    pub(in crate::ordered) fn units_for_state(&self, bytes: usize) -> u32 {
        if bytes + MANIFEST_BYTES <= self.page_bytes() {
            0
        } else {
            bytes.div_ceil(self.unit_state_bytes()) as u32
        }
    }

    /// Commits: makes the live units durable, and a state of `bytes` bytes, which `save` writes.
    pub(super) fn commit(
        &mut self,
        bytes: usize,
        save: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), IndexError>) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        self.ready()?;
        let mut units = Vec::new();
        let written = self.attempt(|shadow| {
            for _ in 0..shadow.units_for_state(bytes) {
                units.push(shadow.units.take_any()?);
            }
            let manifest = shadow.write_state(&units, bytes, save)?;
            shadow.store.sync()?;
            shadow.switch(&manifest)
        });
        written?;
        self.commit += 1;
        self.commits += 1;
        self.units.replace_state(units);
        // The mark that changes follow is still to be taken away.
        self.is_changed = self.is_open;
        self.trim_where(Units::outlived);
        self.units.keep();
        Ok(())
    }

    /// Writes the state. Returns the manifest that names it.
    fn write_state(
        &mut self,
        units: &[u32],
        bytes: usize,
        save: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), IndexError>) -> Result<(), IndexError>,
    ) -> Result<Vec<u8>, IndexError> {
        let (page_bytes, pages, commit) = (self.page_bytes(), self.identity.unit_pages, self.commit + 1);
        let mut manifest = vec![0; page_bytes];
        put_identity(&mut manifest, &self.identity, self.store.page_count());
        put_u64(&mut manifest, 46, commit);
        put_u32(&mut manifest, 54, bytes as u32);
        put_u32(&mut manifest, 58, units.first().copied().unwrap_or(NONE));
        manifest[OPEN_AT] = u8::from(self.is_open);
        if units.is_empty() {
            let mut at = MANIFEST_BYTES;
            save(&mut |part| {
                manifest[at..at + part.len()].copy_from_slice(part);
                at += part.len();
                Ok(())
            })?;
            assert!(at == MANIFEST_BYTES + bytes, "a state of another length than announced");
            return Ok(manifest);
        }
        let (mut page, mut at, mut number) = (vec![0; page_bytes], STATE_HEAD_BYTES, 0);
        let mut flush = |page: &mut Vec<u8>, number: &mut u32| {
            let i = (*number / pages) as usize;
            put_u64(page, 8, commit);
            put_u32(page, 16, units.get(i + 1).copied().unwrap_or(NONE));
            let lpn = self.lpn(units[i], *number % pages);
            *number += 1;
            self.write(lpn, Cause::Checkpoint, page)
        };
        let mut total = 0;
        save(&mut |mut part| {
            total += part.len();
            while !part.is_empty() {
                if at == page_bytes {
                    flush(&mut page, &mut number)?;
                    page.fill(0);
                    at = STATE_HEAD_BYTES;
                }
                let fits = part.len().min(page_bytes - at);
                page[at..at + fits].copy_from_slice(&part[..fits]);
                (at, part) = (at + fits, &part[fits..]);
            }
            Ok(())
        })?;
        assert!(total == bytes, "a state of another length than announced");
        flush(&mut page, &mut number)?;
        Ok(manifest)
    }

    /// Writes the manifest and makes it durable.
    fn switch(&mut self, manifest: &[u8]) -> Result<(), IndexError> {
        let crc_of = |page: &[u8]| crc32(&[&page[4..]]);
        let mut page = manifest.to_vec();
        let crc = crc_of(&page);
        put_u32(&mut page, 0, crc);
        self.store.updates_shown(Some(self.updates));
        let written = self.store.write(MANIFEST, Cause::Checkpoint, &page);
        self.store.updates_shown(Some(0));
        match written {
            Ok(()) => {}
            Err(error) if error.is_refusal() => return Err(error.into()),
            Err(error) => {
                self.is_interrupted = true;
                return Err(error.into());
            }
        }
        let synced = self.store.sync();
        // Which of two commits a cut leaves is not known then: nothing may be written, but reading goes on.
        self.is_sealed = synced.as_ref().is_err_and(StoreError::is_refusal);
        self.is_interrupted = synced.is_err() && !self.is_sealed;
        Ok(synced?)
    }

    /// Trims the units that `gone` names, as words of bits. If the store refuses, it merely keeps the pages
    /// longer.
    fn trim_where(&mut self, gone: fn(&Units, usize) -> u64) {
        for word in 0..self.units.words() {
            let mut bits = gone(&self.units, word);
            while bits != 0 {
                let unit = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                for page in 0..self.identity.unit_pages {
                    let lpn = self.lpn(unit, page);
                    let _ = self.store.trim(lpn);
                }
            }
        }
    }
}

impl ShadowOn<()> {
    pub(in crate::ordered) fn ram_bytes_for(pages: u32, unit_pages: u32, state_units: u32) -> usize {
        let words = (pages as usize / unit_pages.max(1) as usize).div_ceil(64);
        3 * words * size_of::<u64>() + 2 * state_units as usize * size_of::<u32>()
    }
}

fn put_identity(page: &mut [u8], identity: &Identity, pages: u32) {
    page[8..16].copy_from_slice(&identity.name);
    let bytes = page.len() as u32;
    put_u32(page, 16, bytes);
    put_u32(page, 20, pages);
    put_u32(page, 24, identity.unit_pages);
    page[28] = identity.record.key_bytes;
    page[29] = identity.record.value_bytes;
    page[30..46].copy_from_slice(&identity.parameters);
}

pub(in crate::ordered) fn corrupted(invariant: Invariant, what: &'static str, at: Lpn) -> IndexError {
    IndexError::broken(invariant, what, at.0.into())
}
