//! Page 0 of the store: how the layer was formatted.
//!
//! ```text
//! bytes  0..4   CRC-32 of the bytes from 4 to 44
//!        4..12  the characters "NXNODES1"
//!       12..16  bytes of a page
//!       16..20  pages of the store when it was formatted
//!       20      commit policy: 1 first fit, 2 the largest first, 3 sorted, 4 sorted and merged, 5 the oldest node, 6 self-tuning
//!       21      sectors of a list at most
//!       22..24  bytes of the body of a unit
//!       24..28  entries of a node at most
//!       28..32  nodes at most
//!       32..36  sectors
//!       36..40  mixed sectors at most
//!       40..44  0
//! ```

use super::config::Room;
use super::sectors::Sectors;
use super::{BODY_BYTES_MAX, LayerConfig, NodeCodec};
use alloc::vec;
use nandex::check::{IndexError, Invariant, message};
use nandex::codec::{crc32, get_u32, put_u16, put_u32};
use nandex::nand::{Cause, Differs, Unfit};
use nandex::store::{PageStore, StoreError};
use nandex::units::Lpn;

const MAGIC: &[u8; 8] = b"NXNODES1";
const HEADER_BYTES: usize = 44;

fn encode(codec: &impl NodeCodec, config: &LayerConfig, room: Room, pages: u32, page: &mut [u8]) {
    debug_assert!(codec.body_bytes() <= BODY_BYTES_MAX, "a body of {} bytes", codec.body_bytes());
    page.fill(0);
    page[4..12].copy_from_slice(MAGIC);
    put_u32(page, 12, page.len() as u32);
    put_u32(page, 16, pages);
    page[20] = config.commit as u8;
    page[21] = config.list_length();
    put_u16(page, 22, codec.body_bytes() as u16);
    put_u32(page, 24, codec.entries_max() as u32);
    put_u32(page, 28, room.nodes);
    put_u32(page, 32, room.sectors);
    put_u32(page, 36, room.mixed_max);
    let crc = crc32(&[&page[4..HEADER_BYTES]]);
    put_u32(page, 0, crc);
}

impl<S: PageStore, C: NodeCodec> Sectors<S, C> {
    pub(super) fn write_header(&mut self, config: &LayerConfig) -> Result<(), StoreError> {
        let mut page = vec![0; self.store.page_bytes()];
        encode(&self.codec, config, self.room, self.store.page_count(), &mut page);
        self.store.write(Lpn(0), Cause::Checkpoint, &page)
    }
}

/// Reads the header. Refuses a layer that was formatted with other settings.
pub(super) fn read(
    store: &mut impl PageStore,
    codec: &impl NodeCodec,
    config: &LayerConfig,
) -> Result<Room, IndexError> {
    let mut page = vec![0; store.page_bytes()];
    if page.len() < HEADER_BYTES {
        return Err(IndexError::other(Differs::Geometry, "pages too small for a node layer"));
    }
    store.read(Lpn(0), Cause::Recovery, &mut page)?;
    let what = "page 0 is no node layer's";
    if page.iter().all(|&byte| byte == 0) {
        return Err(IndexError::NotFormatted(nandex::store::unfit(store, what)?));
    }
    if page[4..12] != *MAGIC {
        return Err(IndexError::NotFormatted(Unfit::named(&page[4..12], MAGIC, what)));
    }
    if get_u32(&page, 0) != crc32(&[&page[4..HEADER_BYTES]]) {
        return Err(IndexError::broken(Invariant::N1, "the checksum of the layer's header is wrong", 0));
    }
    let pages = get_u32(&page, 16);
    let found =
        Room { nodes: get_u32(&page, 28), sectors: get_u32(&page, 32), mixed_max: get_u32(&page, 36) };
    let mut expected = vec![0; page.len()];
    encode(codec, config, found, pages, &mut expected);
    let parts =
        [(12..20, Differs::Geometry), (22..28, Differs::Record), (0..HEADER_BYTES, Differs::Settings)];
    for (part, differs) in parts {
        if expected[part.clone()] != page[part] {
            let what = "the node layer has other pages, records, units, nodes, lists or commits";
            return Err(IndexError::other(differs, what));
        }
    }
    if pages > store.page_count() {
        let what = "the node layer was formatted on more pages";
        return Err(IndexError::other(Differs::Geometry, what));
    }
    let room = config.room(codec, page.len(), pages)?;
    if room.nodes < found.nodes || room.sectors != found.sectors {
        return Err(IndexError::unsupported(message!(
            "with {} units in the buffer the store has room for {} nodes, it was formatted for {}",
            config.reservation_units,
            room.nodes,
            found.nodes
        )));
    }
    Ok(Room { mixed_max: found.mixed_max.max(room.mixed_max), ..found })
}
