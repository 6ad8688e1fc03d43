//! Pages to be written that are nearly what lies in their places: as pieces of it.
//!
//! What lies there is the same until a commit replaces it, a power cut included. A page of zeros may have
//! been trimmed, and then a cut brings back what was there before: nothing is made of pieces of such a page.

use super::slots::{Slot, Slots};
use super::{File, FileId, Volume, delta};
use crate::settings::Commits;
use nandex::StoreError;

/// The share of a page that its pieces may take: one in so many.
const SHARE: usize = 3;

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

    /// Keeps a page that waits in RAM as pieces of what lies in its place, where those are few and nothing
    /// changes what lies there before the commit; whether it does.
    pub(super) fn pack(&mut self, id: FileId, page: u32) -> bool {
        let is_stable = self.store.prefix_consistent() && self.settings.commits == Commits::Grouped;
        if !is_stable || self.log_of(id).is_some() {
            return false;
        }
        let in_ram = |file: &&File| page < file.filled && matches!(file.slot(page), Some(Slot::Ram(_)));
        let home = self.files.get(&id).filter(in_ram).and_then(|file| file.home(page));
        let mut old = vec![0; self.page_bytes];
        if home.is_none_or(|home| self.read_home(home, &mut old).is_err())
            || old.iter().all(|&byte| byte == 0)
        {
            return false;
        }
        let (most, (file, room)) = (self.page_bytes / SHARE, self.parts(id));
        let Some(slots) = file.map(|file| file.slots_with(page)) else { return false };
        let Some(Slot::Ram(new)) = slots.get(page) else { return false };
        // Another page with its checksum would be taken for the page.
        let is_told_apart = crc32fast::hash(new) != crc32fast::hash(&old) || old == **new;
        let packed = delta::pack(&old, new, most).filter(|_| is_told_apart);
        packed.map(|pieces| slots.pack(page, pieces, room.used)).is_some()
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
