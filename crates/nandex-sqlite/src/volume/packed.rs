//! Pages to be written that are nearly what lies in their places: as pieces of it.
//!
//! What lies there is the same until a commit replaces it, a power cut included. A page of zeros may have
//! been trimmed, and then a cut brings back what was there before: nothing is made of pieces of such a page.

use super::commit::Change;
use super::slots::{Slot, Slots};
use super::{FileId, Volume, delta};
use crate::settings::Commits;
use nandex::StoreError;

/// The share of a page that its pieces may take: one in so many.
const SHARE: usize = 3;

/// A page as pieces of another one, and its checksum.
pub(super) type Packed = (Box<[u8]>, u32);

impl Volume {
    /// Keeps a page that waits in RAM as pieces of what lies in its place, where RAM is short; whether that
    /// was worth while. A quarter of the RAM is left for pages as they are.
    pub(super) fn pack_for_room(&mut self, id: FileId, page: u32) -> bool {
        let (file, room) = self.parts(id);
        let unpacked = file.map_or(0, |file| {
            file.slots.unpacked_bytes() + file.batch_slots().map_or(0, Slots::unpacked_bytes)
        });
        let packed = room.used.saturating_sub(unpacked);
        packed <= room.most / 4 * 3 && self.pack(id, page)
    }

    /// Keeps a page that waits in RAM as pieces of what lies in its place; whether that was worth while.
    pub(super) fn pack(&mut self, id: FileId, page: u32) -> bool {
        let Some(file) = self.files.get(&id).filter(|file| page < file.filled) else { return false };
        let Some(home) = file.home(page) else { return false };
        let packed = self.pieces_of(Change { file: id, page, home });
        let (file, room) = self.parts(id);
        let (Some(slots), Some((pieces, _))) = (file.and_then(|file| file.slots_with(page)), packed) else {
            return false;
        };
        slots.pack(page, pieces, room.used);
        true
    }

    /// A page to be written as pieces of what lies in its place, where those are few; `None` where what lies
    /// there may change before the commit does.
    pub(super) fn pieces_of(&mut self, change: Change) -> Option<Packed> {
        let is_stable = self.store.prefix_consistent() && self.settings.commits == Commits::Grouped;
        if !is_stable || self.log_of(change.file).is_some() {
            return None;
        }
        let mut old = Vec::new();
        if matches!(self.files.get(&change.file)?.slot(change.page)?, Slot::Ram(_)) {
            old.resize(self.page_bytes, 0);
            self.read_home(change.home, &mut old).ok()?;
        }
        match self.files.get(&change.file)?.slot(change.page)? {
            Slot::Packed { pieces, crc } => Some((pieces.clone(), *crc)),
            Slot::Ram(new) if old.iter().any(|&byte| byte != 0) => {
                let crc = crc32fast::hash(new);
                let pieces = delta::pack(&old, new, self.page_bytes / SHARE)?;
                // Another page with its checksum would be taken for the page.
                (crc != crc32fast::hash(&old) || old == **new).then_some((pieces, crc))
            }
            _ => None,
        }
    }

    /// Reads a page that waits as pieces.
    pub(super) fn load_packed(
        &mut self,
        (id, page): (FileId, u32),
        pieces: &[u8],
        crc: u32,
        data: &mut [u8],
    ) -> Result<(), StoreError> {
        let home = self.files.get(&id).and_then(|file| file.home(page));
        let home =
            home.ok_or(StoreError::Corrupted { what: "a page that waits has no place", at: page.into() })?;
        self.read_home(home, data)?;
        restore(data, pieces, crc, home)
    }
}

/// Makes the page with this checksum of what lies in its place; nothing where it is there already.
///
/// # Errors
///
/// [`StoreError::Corrupted`] where it is neither the page nor the one that it has pieces of.
pub(super) fn restore(data: &mut [u8], pieces: &[u8], crc: u32, home: u32) -> Result<(), StoreError> {
    if crc32fast::hash(data) == crc {
        return Ok(());
    }
    let new = delta::unpack(data, pieces).filter(|new| crc32fast::hash(new) == crc);
    let what = "a page is not what it was when pieces of it were kept";
    data.copy_from_slice(&new.ok_or(StoreError::Corrupted { what, at: home.into() })?);
    Ok(())
}
