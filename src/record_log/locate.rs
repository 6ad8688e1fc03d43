//! Finding the log at the end of a store.

use super::{Found, HEADER_BYTES, Header, Layout, RecordKind, corrupted, read_page};
use crate::check::{IndexError, Invariant};
use crate::nand::{Cause, Differs, Unfit};
use crate::store::{PageStore, unfit};
use crate::units::Lpn;
use alloc::vec;

/// Reads page 0 of the log that ends a store.
pub fn locate<K: RecordKind>(store: &mut impl PageStore) -> Result<(Header, Layout), IndexError> {
    let mut page = vec![0; store.page_bytes()];
    let Some(last) = store.page_count().checked_sub(1).filter(|_| page.len() >= HEADER_BYTES) else {
        return Err(IndexError::other(Differs::Geometry, "a store without pages"));
    };
    store.read(Lpn(last), Cause::Recovery, &mut page)?;
    match read_page::<K>(&page) {
        Found::Page(header, layout) if header.number == 0 && layout.pages < last => Ok((header, layout)),
        Found::Blank => Err(IndexError::NotFormatted(unfit(store, NO_LOG)?)),
        Found::Foreign => Err(IndexError::NotFormatted(Unfit::named(&page[8..16], K::MAGIC, NO_LOG))),
        Found::Page(..) => {
            Err(corrupted(Invariant::J1, "another page stands in the place of the log's first", 0))
        }
        Found::Damaged if page[8..16] == *K::MAGIC => {
            Err(corrupted(Invariant::J1, "the log's first page is damaged", 0))
        }
        Found::Damaged => Err(IndexError::other(Differs::Kind, NO_LOG)),
    }
}

/// Error text for a store that does not end with the expected log.
const NO_LOG: &str =
    "the store ends with no log of this index: another one, or one of another class, is there";

/// Tells whether a store ends with a log of this kind, or with a page that may have been one.
pub fn is_there<K: RecordKind>(store: &mut impl PageStore) -> Result<bool, IndexError> {
    let mut page = vec![0; store.page_bytes()];
    let Some(last) = store.page_count().checked_sub(1) else { return Ok(false) };
    store.read(Lpn(last), Cause::Recovery, &mut page)?;
    Ok(match read_page::<K>(&page) {
        Found::Page(..) => true,
        Found::Damaged => page[8..16] == *K::MAGIC,
        Found::Foreign if page.len() < HEADER_BYTES => false,
        Found::Foreign => matches!(Unfit::named(&page[8..16], K::MAGIC, NO_LOG), Unfit::Newer { .. }),
        Found::Blank => false,
    })
}
