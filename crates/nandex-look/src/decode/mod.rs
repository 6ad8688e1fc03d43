//! The contents of a page, told from its bytes as `docs/format.md` describes them.
//!
//! A [`Decoder`] knows the family of formats on a chip and turns the bytes of a page into a [`Page`]: what it
//! is, its fields one by one, the nodes in it. It asks no index, so it tells what is on the chip and not what
//! an index believes to be there; tests hold the two against each other. Bytes of any kind may be given: a
//! field that lies beyond the page is left out, and what does not pass its checksum says so.

mod ftl;
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

/// The part that a page plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Nothing was programmed.
    Erased,
    /// The root of a tree, alone or with the path below it.
    Root,
    /// Nodes between root and leaves.
    Inner,
    /// A leaf.
    Leaf,
    /// A leaf whose parent is told later.
    Journal,
    /// Changes of nodes or records, to be applied to what stands elsewhere.
    Log,
    /// A commit page, the newest of which is the index.
    Commit,
    /// Records in the order of their keys, a page of a level or of a run.
    Run,
    /// Where the pages of a block begin.
    Summary,
    /// A logical page whose contents are not known.
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
    /// Bytes that do not pass their checksum, or cannot be read: torn or damaged.
    Torn,
    /// Bytes of an unknown kind.
    Unknown,
}

/// A node in a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The level; a leaf is 1.
    pub level: u8,
    /// The node's own number, where nodes have one that is not their page.
    pub number: Option<u32>,
    /// Entries in use.
    pub entries: usize,
    /// Entries that it has room for.
    pub capacity: usize,
    /// The first byte of it in the data area, and how many there are.
    pub at: (usize, usize),
    /// The keys in use, or the lower bounds of the children.
    pub keys: Vec<Vec<u8>>,
    /// The children by address or number; none in a leaf.
    pub links: Vec<u32>,
    /// The values of a leaf, where they stand as they are.
    pub values: Vec<Vec<u8>>,
}

/// A page as its bytes tell it.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// The part that it plays.
    pub role: Role,
    /// The kind of page, in a few words.
    pub title: String,
    /// A remark besides; empty as a rule.
    pub note: String,
    /// The fields in the order of the format.
    pub fields: Vec<Field>,
    /// The nodes in it, the highest last.
    pub nodes: Vec<Node>,
    /// The logical page that it holds.
    pub logical: Option<u32>,
    /// The page's place in time: a page with a higher one was written later.
    pub version: u64,
    /// Whether every checksum passed.
    pub whole: bool,
    /// The letter or byte of its kind in the spare area or the header, by which layers above tell pages.
    pub kind: u8,
    /// The place that a parent names where that is not the page itself (VMTree).
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

    /// A page that the chip refuses to read.
    pub fn unreadable() -> Page {
        let sheet = Sheet::new(&[], &[], false);
        Page::torn(sheet, "The chip cannot read it: more bits are wrong than its ECC corrects.")
    }
}

/// The family of formats on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// A log of tree pages: mu-Tree, mu*-Tree, wandering B+-tree, VMTree.
    Log(LogKind),
    /// VMTree-OW, on NOR.
    Overwrite,
    /// Levels of packed pages.
    Plow,
    /// Appended pages of ascending keys.
    Sbits,
    /// Nodes and log units in one block.
    Ipl,
    /// Logical pages of an FTL, whatever stands on them.
    Ftl,
    /// Logical pages, with the buffer blocks of a TBM behind the FTL's.
    Tbm,
}

impl Family {
    /// The family by the name of an index of the registry.
    pub fn of_index(name: &str) -> Family {
        match name {
            "mu" => Family::Log(LogKind::Mu),
            "mu-star" => Family::Log(LogKind::MuStar),
            "wandering" => Family::Log(LogKind::Wandering),
            "vmtree" => Family::Log(LogKind::Vm),
            "vmtree-ow" => Family::Overwrite,
            "plow" => Family::Plow,
            "sbits" => Family::Sbits,
            "ipl" | "dipl" => Family::Ipl,
            "wpcb" => Family::Tbm,
            _ => Family::Ftl,
        }
    }

    /// Spare bytes that its pages have; where the chip has fewer, the data area lends them.
    pub fn spare_needed(self, chip: &Geometry) -> u32 {
        match self {
            Family::Log(_) => spare_bytes_needed(chip),
            Family::Overwrite | Family::Plow | Family::Sbits => 0,
            Family::Ipl => IPL_SPARE as u32,
            Family::Ftl => nandex::blocks::spare::SPARE_BYTES as u32,
            Family::Tbm => nandex_papers::ftl::tbm::SPARE_BYTES as u32,
        }
    }

    /// The chip as this family sees it.
    pub fn shown<N: Nand>(self, chip: N) -> LentSpare<N> {
        let needed = self.spare_needed(&chip.geometry());
        LentSpare::new(chip, needed)
    }
}

/// Turns bytes into pages.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// The family of formats.
    pub family: Family,
    /// The sizes of records.
    pub record: RecordFormat,
    /// The chip as the family sees it: bytes that are lent count as spare bytes.
    pub geometry: Geometry,
    /// The shape of the tree on logical pages, if its superblock was found.
    pub store: Option<StoreShape>,
    /// The first block of the buffer blocks of a TBM, if there are any.
    pub buffer_from: Option<u32>,
    /// Entries of a node and bytes of a log unit, of IPL.
    pub ipl: Option<ipl::Shape>,
}

impl Decoder {
    /// A decoder that has seen nothing yet.
    pub fn new(family: Family, record: RecordFormat, geometry: Geometry) -> Decoder {
        Decoder { family, record, geometry, store: None, buffer_from: None, ipl: None }
    }

    /// A page without its single fields: for looks at many pages.
    pub fn glance(&self, ppn: Ppn, data: &[u8], spare: &[u8]) -> Page {
        self.read(ppn, Sheet::new(data, spare, false))
    }

    /// A page with every field.
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
            Family::Ipl => ipl::decode(self, ppn, sheet),
            Family::Overwrite => overwrite::decode(self.record, ppn, sheet),
            Family::Ftl | Family::Tbm => ftl::decode(self, ppn, sheet),
        }
    }

    /// The root that a commit page of plow tells, if this is one. `data_of` finds pages of its map: without
    /// them the extents that lie there are left out.
    pub fn plow_root(&self, data: &[u8], data_of: DataOf<'_>) -> Option<PlowRoot> {
        plow::root(data.get(plow::HEADER_BYTES..)?, &self.geometry, data_of).map(|(root, _)| root)
    }

    /// Learns the sizes of IPL from the first page of a checkpoint, if this is one.
    pub(crate) fn learn_ipl(&mut self, page: &[u8]) {
        if let Some(Record::Ipl { order, unit, .. }) = page.get(4..).map(record::read) {
            self.ipl = Some(ipl::Shape { order: order as usize, unit: unit as usize });
        }
    }

    /// A record of the checkpoint area from the bytes of its pages.
    pub fn record_of(&self, payload: &[u8]) -> Record {
        record::read(payload)
    }
}

/// The first of the buffer blocks, if this page is in one: its number there is under its checksum.
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
        let families = ["mu", "mu-star", "wandering", "vmtree", "vmtree-ow", "plow", "sbits", "ipl", "wpcb"];
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
