//! Records of the checkpoint area: the first bytes of a checkpoint or an anchor.

use super::sheet::{Area, Sheet};
use nandex::blocks::spare::PageKind;
use nandex::codec::{get_u16, get_u32, get_u64};
use serde::Serialize;

/// First byte of the checkpoint of a log.
const LOG_VERSIONS: core::ops::RangeInclusive<u8> = 3..=6;

/// A record of the checkpoint area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Record {
    /// The checkpoint of a log.
    Log {
        /// The name of the owner.
        owner: String,
        /// Sizes of keys and values, in bytes.
        record: (u8, u8),
        /// The page of the root.
        root: Option<u32>,
        /// Number of levels of the tree.
        height: u8,
    },
    /// The checkpoint of the page-mapping FTL.
    PageMap {
        /// Number of logical pages.
        pages: u32,
        /// The version that the next page gets.
        next_version: u64,
        /// The version below which all groups are complete.
        committed: u64,
    },
    /// The base checkpoint of another mapping scheme.
    Base {
        /// The name of the scheme.
        scheme: String,
        /// Number of logical pages.
        pages: u32,
    },
    /// A note of an FTL: the changes since its base.
    Note {
        /// The next version number.
        stamp: u64,
    },
    /// The checkpoint of IPL.
    Ipl {
        /// Sizes of keys and values, in bytes.
        record: (u8, u8),
        /// Most entries of a node.
        order: u32,
        /// Size of a log unit, in bytes.
        unit: u32,
        /// Number of pages in the log region of a block.
        log_pages: u16,
    },
    /// A record of an unknown kind.
    Unknown,
}

pub(super) fn read(payload: &[u8]) -> Record {
    match payload {
        [b'N', b'X', b'F', b'3' | b'4', ..] if payload.len() >= 60 => Record::PageMap {
            pages: get_u32(payload, 16),
            next_version: get_u64(payload, 24),
            committed: get_u64(payload, 32),
        },
        [b'D', b'X', b'F', b'4', ..] if payload.len() >= 44 => Record::Note { stamp: get_u64(payload, 4) },
        [b'N', b'X', b'I', b'2', ..] if payload.len() >= 30 => Record::Ipl {
            record: (payload[6], payload[7]),
            order: get_u32(payload, 20),
            unit: get_u32(payload, 24),
            log_pages: get_u16(payload, 28),
        },
        [b'B', ..] if payload.len() >= 54 => Record::Base {
            scheme: String::from_utf8_lossy(&payload[1..5]).trim().to_string(),
            pages: get_u32(payload, 17),
        },
        [b'N', ..] if payload.len() >= 17 => Record::Note { stamp: get_u64(payload, 1) },
        [version, ..] if LOG_VERSIONS.contains(version) && payload.len() >= 42 => log(payload),
        _ => Record::Unknown,
    }
}

fn log(payload: &[u8]) -> Record {
    let bytes = usize::from(get_u16(payload, 30));
    let Some(owner) = payload.get(40..40 + bytes).filter(|owner| owner.len() > 2) else {
        return Record::Unknown;
    };
    let (name, record) = owner.split_at(owner.len() - 2);
    let root = Some(get_u32(payload, 22)).filter(|&root| root != u32::MAX);
    Record::Log {
        owner: String::from_utf8_lossy(name).into_owned(),
        record: (record[0], record[1]),
        root,
        height: payload[26],
    }
}

/// The fields at the beginning of a record by its kind and its first bytes: offset, size and name.
fn rows(kind: PageKind, mark: Option<&[u8]>) -> &'static [(usize, usize, &'static str)] {
    match (kind, mark) {
        (PageKind::Anchor, _) => &[(0, 4, "anchors in use"), (4, 4, "checkpoint blocks")],
        (_, Some(b"NXF3" | b"NXF4")) => &[
            (4, 4, "bytes of a page"),
            (8, 4, "pages of a block"),
            (12, 4, "blocks"),
            (16, 4, "logical pages"),
            (20, 4, "most pages of a group"),
            (24, 8, "next version"),
            (32, 8, "last committed version"),
            (40, 4, "host frontier: block"),
            (44, 4, "host frontier: next page"),
            (48, 4, "relocation frontier: block"),
            (52, 4, "relocation frontier: next page"),
        ],
        (_, Some(b"DXF4")) => &[
            (4, 8, "next version"),
            (12, 4, "host frontier: block"),
            (16, 4, "host frontier: next page"),
            (20, 4, "relocation frontier: block"),
            (24, 4, "relocation frontier: next page"),
            (36, 4, "blocks that changed"),
            (40, 4, "logical pages that changed"),
        ],
        (_, Some(b"NXI2")) => &[
            (5, 1, "1 closes the tree, 2 fixed log area"),
            (6, 1, "bytes of a key"),
            (7, 1, "bytes of a value"),
            (8, 4, "bytes of a page"),
            (12, 4, "pages of a block"),
            (16, 4, "blocks"),
            (20, 4, "order"),
            (24, 4, "bytes of a log unit"),
            (28, 2, "pages of the log region"),
            (30, 5, "sequence"),
            (35, 5, "committed"),
            (40, 4, "generation"),
            (44, 4, "session"),
        ],
        (_, Some([b'B', ..])) => &[
            (5, 4, "bytes of a page"),
            (9, 4, "pages of a block"),
            (13, 4, "blocks"),
            (17, 4, "logical pages"),
            (37, 1, "1 if nothing was programmed since"),
            (38, 8, "next version"),
            (46, 4, "lost logical pages"),
            (50, 4, "bytes of the scheme's own"),
        ],
        (_, Some([b'N', ..])) => &[
            (1, 8, "stamp: the next version"),
            (9, 4, "trimmed logical pages"),
            (13, 4, "blocks that changed"),
        ],
        (_, Some([version, ..])) if LOG_VERSIONS.contains(version) => &[
            (0, 1, "version of the format"),
            (1, 1, "flags"),
            (2, 8, "page written last"),
            (10, 4, "block opened last"),
            (14, 4, "open block"),
            (18, 4, "its first unused page"),
            (22, 4, "page of the root"),
            (26, 1, "height"),
            (27, 3, "bytes of the note"),
            (30, 2, "bytes of the owner"),
            (32, 4, "blocks replaced"),
            (36, 4, "blocks bad when formatted"),
        ],
        _ => &[],
    }
}

/// Notes the fields of the first page of a record, which begin after its length.
pub(super) fn note(sheet: &mut Sheet<'_>, kind: PageKind) {
    if !sheet.detail {
        return;
    }
    let rows = rows(kind, sheet.data.get(4..8));
    if matches!(sheet.data.get(4..8), Some(b"NXF3" | b"NXF4" | b"NXI2")) && kind == PageKind::Checkpoint {
        sheet.text(4, 4, "checkpoint of");
    }
    if sheet.data.get(4) == Some(&b'B') && kind == PageKind::Checkpoint {
        sheet.text(5, 4, "base of the scheme");
    }
    for &(at, bytes, name) in rows {
        sheet.data_number(4 + at, bytes, name);
    }
    if sheet.data.get(4).is_some_and(|version| LOG_VERSIONS.contains(version)) && kind == PageKind::Checkpoint
    {
        let bytes = sheet.peek(Area::Data, 4 + 30, 2) as usize;
        sheet.text(44, bytes.saturating_sub(2), "owner");
        sheet.data_number((44 + bytes).saturating_sub(2), 1, "owner: bytes of a key");
        sheet.data_number((44 + bytes).saturating_sub(1), 1, "owner: bytes of a value");
    }
}
