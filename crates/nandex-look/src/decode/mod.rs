//! Decodes the contents of a page from its bytes, as `docs/format.md` describes them.
//!
//! A [`Decoder`] knows the family of formats on a chip and turns the bytes of a page into a [`Page`]: its
//! kind, its fields one by one, and the nodes in it. It asks no index, so it shows what is on the chip and
//! not what an index believes to be there; tests compare the two. Bytes of any kind may be given: a field
//! beyond the page is left out, and a page that fails its checksum is marked so.

mod ftl;
mod furrow;
mod ipl;
mod log;
mod logical;
mod messages;
mod node;
mod overwrite;
mod packed;
mod plow;
mod record;
mod sbits;
mod sheet;
mod spatial;
mod tbm;

pub use log::LogKind;
pub use logical::StoreShape;
pub use plow::{DataOf, PlowLevel, PlowRoot};
pub use record::Record;
pub use sheet::{Area, Field, number_text};

use nandex::nand::LentSpare;
use nandex::ordered::{RecordFormat, spare_bytes_needed};
use nandex::{Geometry, Nand, Ppn};
use nandex_papers::ordered::ipl::SPARE_BYTES as IPL_SPARE;
use serde::Serialize;
use sheet::Sheet;

/// The purpose of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The page was not programmed.
    Erased,
    /// The root of a tree, alone or with the path below it.
    Root,
    /// Nodes between the root and the leaves.
    Inner,
    /// A leaf.
    Leaf,
    /// A leaf whose parent is updated later.
    Journal,
    /// Changes of nodes or records that are stored elsewhere.
    Log,
    /// A commit page. The newest one describes the index.
    Commit,
    /// Records in the order of their keys: a page of a level or of a run.
    Run,
    /// A summary of a block: where its pages begin.
    Summary,
    /// A logical page with unknown contents.
    Data,
    /// A page of a mapping table.
    Map,
    /// A list of trimmed pages.
    Trim,
    /// A page of a checkpoint.
    Checkpoint,
    /// A reference to the checkpoints.
    Anchor,
    /// A superblock, a manifest or a page of settings.
    Super,
    /// Torn or damaged bytes: their checksum is wrong, or they cannot be read.
    Torn,
    /// Bytes of an unknown kind.
    Unknown,
}

/// A node in a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The level of the node; a leaf is 1.
    pub level: u8,
    /// The node's number, if nodes have numbers besides those of their pages.
    pub number: Option<u32>,
    /// Number of entries in use.
    pub entries: usize,
    /// Most entries that fit.
    pub capacity: usize,
    /// First byte in the data area, and number of bytes.
    pub at: (usize, usize),
    /// The keys in use, or the lower bounds of the children.
    pub keys: Vec<Vec<u8>>,
    /// The addresses or numbers of the children; empty for a leaf.
    pub links: Vec<u32>,
    /// The values of a leaf, if they are stored as they are.
    pub values: Vec<Vec<u8>>,
}

/// The decoded contents of a page.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// The purpose of the page.
    pub role: Role,
    /// The kind of the page, in a few words.
    pub title: String,
    /// A further remark; usually empty.
    pub note: String,
    /// The fields, in the order of the format.
    pub fields: Vec<Field>,
    /// The nodes in the page, the highest last.
    pub nodes: Vec<Node>,
    /// The number of the logical page that it holds.
    pub logical: Option<u32>,
    /// The version of the page: a page with a higher one was written later.
    pub version: u64,
    /// Whether all checksums are right.
    pub whole: bool,
    /// The letter or byte of the page's kind in the spare area or the header. Layers above distinguish
    /// pages by it.
    pub kind: u8,
    /// The address by which a parent names the page, if it differs from the page's own (VMTree).
    pub place: Option<u32>,
}

impl Page {
    fn new(role: Role, title: impl Into<String>, sheet: Sheet<'_>) -> Page {
        Page {
            role,
            title: title.into(),
            note: String::new(),
            fields: sheet.fields,
            nodes: Vec::new(),
            logical: None,
            version: 0,
            whole: true,
            kind: 0,
            place: None,
        }
    }

    fn torn(sheet: Sheet<'_>, why: &str) -> Page {
        Page {
            note: why.to_string(),
            whole: false,
            ..Page::new(Role::Torn, "a page that is not whole", sheet)
        }
    }

    fn unknown(sheet: Sheet<'_>, what: &str) -> Page {
        let note = "Its kind is not described in docs/format.md, or belongs to a layer that is not decoded.";
        Page { note: note.to_string(), ..Page::new(Role::Unknown, what, sheet) }
    }

    /// A page that the chip could not read.
    pub fn unreadable() -> Page {
        let sheet = Sheet::new(&[], &[], false);
        Page::torn(sheet, "The chip cannot read it: more bits are wrong than its ECC corrects.")
    }
}

/// A family of formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// A log of tree pages: mu-Tree, mu*-Tree, wandering B+-tree, VMTree.
    Log(LogKind),
    /// VMTree-OW, on NOR flash.
    Overwrite,
    /// Levels of packed pages: plow.
    Plow,
    /// Appended pages with ascending keys: SBITS.
    Sbits,
    /// Changes in the order in which they were made: furrow.
    Furrow,
    /// Nodes and log units in one block: IPL and dIPL.
    Ipl,
    /// Logical pages of an FTL, with any contents.
    Ftl,
    /// Logical pages of an FTL, with the buffer blocks of a TBM behind the FTL's blocks.
    Tbm,
}

impl Family {
    /// The family of an index of the registry, by its name.
    pub fn of_index(name: &str) -> Family {
        match name {
            "mu" => Family::Log(LogKind::Mu),
            "mu-star" => Family::Log(LogKind::MuStar),
            "wandering" => Family::Log(LogKind::Wandering),
            "vmtree" => Family::Log(LogKind::Vm),
            "vmtree-ow" => Family::Overwrite,
            "plow" => Family::Plow,
            "sbits" => Family::Sbits,
            "furrow" => Family::Furrow,
            "ipl" | "dipl" => Family::Ipl,
            "wpcb" => Family::Tbm,
            _ => Family::Ftl,
        }
    }

    /// Number of spare bytes of the family's pages. If the chip has fewer, the data area lends them.
    pub fn spare_needed(self, chip: &Geometry) -> u32 {
        match self {
            Family::Log(_) => spare_bytes_needed(chip),
            Family::Overwrite | Family::Plow | Family::Sbits | Family::Furrow => 0,
            Family::Ipl => IPL_SPARE as u32,
            Family::Ftl => nandex::blocks::spare::SPARE_BYTES as u32,
            Family::Tbm => nandex_papers::ftl::tbm::SPARE_BYTES as u32,
        }
    }

    /// The chip as this family sees it, with lent spare bytes.
    pub fn shown<N: Nand>(self, chip: N) -> LentSpare<N> {
        let needed = self.spare_needed(&chip.geometry());
        LentSpare::new(chip, needed)
    }
}

/// A decoder of pages.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// The family of formats.
    pub family: Family,
    /// The sizes of the records.
    pub record: RecordFormat,
    /// The geometry as the family sees it: lent bytes count as spare bytes.
    pub geometry: Geometry,
    /// The shape of the tree on logical pages, if its superblock was found.
    pub store: Option<StoreShape>,
    /// The first of the buffer blocks of a TBM, if there are any.
    pub buffer_from: Option<u32>,
    /// The sizes of IPL, if its checkpoint was found.
    pub ipl: Option<ipl::Shape>,
}

impl Decoder {
    /// Makes a decoder that has not seen any page.
    pub fn new(family: Family, record: RecordFormat, geometry: Geometry) -> Decoder {
        Decoder { family, record, geometry, store: None, buffer_from: None, ipl: None }
    }

    /// Decodes a page without its fields, for scans of many pages.
    pub fn glance(&self, ppn: Ppn, data: &[u8], spare: &[u8]) -> Page {
        self.read(ppn, Sheet::new(data, spare, false))
    }

    /// Decodes a page with all its fields.
    pub fn page(&self, ppn: Ppn, data: &[u8], spare: &[u8]) -> Page {
        self.read(ppn, Sheet::new(data, spare, true))
    }

    fn read(&self, ppn: Ppn, sheet: Sheet<'_>) -> Page {
        if sheet.is_blank() {
            return Page::new(Role::Erased, "erased", sheet);
        }
        match self.family {
            Family::Log(kind) => log::decode(self, kind, ppn, sheet),
            Family::Plow => plow::decode(self, ppn, sheet),
            Family::Sbits => sbits::decode(sheet),
            Family::Furrow => furrow::decode(&self.geometry, ppn, sheet),
            Family::Ipl => ipl::decode(self, ppn, sheet),
            Family::Overwrite => overwrite::decode(self.record, ppn, sheet),
            Family::Ftl | Family::Tbm => ftl::decode(self, ppn, sheet),
        }
    }

    /// Decodes the root in a commit page of plow; `None` for other pages. `data_of` finds the pages of the
    /// map. Extents in pages that it does not find are left out.
    pub fn plow_root(&self, data: &[u8], data_of: DataOf<'_>) -> Option<PlowRoot> {
        plow::root(data.get(plow::HEADER_BYTES..)?, &self.geometry, data_of).map(|(root, _)| root)
    }

    /// Learns the sizes of IPL if the page is the first one of its checkpoint.
    pub(crate) fn learn_ipl(&mut self, page: &[u8]) {
        if let Some(Record::Ipl { order, unit, .. }) = page.get(4..).map(record::read) {
            self.ipl = Some(ipl::Shape { order: order as usize, unit: unit as usize });
        }
    }

    /// Decodes a record of the checkpoint area from the bytes of its pages.
    pub fn record_of(&self, payload: &[u8]) -> Record {
        record::read(payload)
    }
}

/// The first of the buffer blocks, if this page is in one of them. The checksum of such a page covers the
/// page's number counted from that block.
pub(crate) fn buffer_start(ppn: Ppn, geometry: &Geometry, data: &[u8], spare: &[u8]) -> Option<u32> {
    let block = geometry.block_of(ppn).0;
    (0..=block).find(|first| tbm::is_whole(Ppn(ppn.0 - first * geometry.pages_per_block), data, spare))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandex::rng::Rng;

    #[test]
    fn bytes_of_any_kind_are_decoded_without_a_panic() {
        let geometry = Geometry::new(512, 64, 16, 8);
        let families =
            ["mu", "mu-star", "wandering", "vmtree", "vmtree-ow", "plow", "sbits", "furrow", "ipl", "wpcb"];
        let mut rng = Rng::new(5);
        for name in families {
            for record in [RecordFormat::new(4, 4), RecordFormat::new(255, 0), RecordFormat::new(1, 255)] {
                let mut decoder = Decoder::new(Family::of_index(name), record, geometry);
                decoder.buffer_from = Some(4);
                for round in 0..60 {
                    let (mut data, mut spare) = (vec![0; 512], vec![0; 64]);
                    rng.fill(&mut data);
                    rng.fill(&mut spare);
                    if round % 3 == 0 {
                        data.truncate(rng.below(512) as usize);
                        spare.truncate(rng.below(64) as usize);
                    }
                    let page = decoder.page(Ppn(rng.below(128) as u32), &data, &spare);
                    assert!(page.fields.iter().all(|f| f.at + f.bytes <= 512), "{name}");
                }
            }
        }
    }
}
