//! The list of images that the corpus must have, and the recording of missing ones.

use super::history::Shape;
use super::image::{FOLDERS, Image, Kind, NEWEST, images};
use super::judge;
use super::subject::{How, Subject, open};
use nandex::Shared;
use nandex::nand::sim::{CutWhen, Faults, PowerCut, SimChip, TornModel};
use nandex::ordered::Durability;
use nandex_stacks::options::Options;
use nandex_stacks::registry::{INDEXES, STORES};
use nandex_stacks::spatial::registry::SPATIAL;

/// Operations of a history that ends with a close.
const OPS: u64 = 300;

/// How an image ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Cut,
}

/// Classes and endings of a subject's images, each with its word in the image's name. Class *none* promises
/// nothing after a cut. A close in the class *every sync* is recorded if there is no higher class.
const ENDS: [(Durability, End, &str); 5] = [
    (Durability::EveryOperation, End::Closed, "operation.closed"),
    (Durability::EveryOperation, End::Cut, "operation.cut"),
    (Durability::EverySync, End::Closed, "sync.closed"),
    (Durability::EverySync, End::Cut, "sync.cut"),
    (Durability::None, End::Closed, "none.closed"),
];

/// Options by name, with their values.
type Set = &'static [(&'static str, &'static str)];

/// Options that let a short history reach all parts of an index: small buffers, small nodes.
const SMALL: [(&str, Set); 24] = [
    ("bplus", &[("order", "8")]),
    ("wpcb", &[("order", "8"), ("tbm_spare_blocks", "4")]),
    ("lazy-update", &[("order", "8"), ("pool_requests", "16")]),
    ("ls-lru", &[("order", "8"), ("buffer_bytes", "8192")]),
    ("bftl", &[("order", "8"), ("reservation_units", "24")]),
    ("wobf", &[("order", "8"), ("reservation_units", "24")]),
    ("ibsf", &[("order", "8"), ("reservation_units", "24")]),
    ("bof", &[("order", "8"), ("reservation_units", "24")]),
    ("rbftl", &[("order", "8"), ("reservation_units", "24")]),
    ("flashdb", &[("order", "8")]),
    ("lsb", &[("order", "8"), ("log_nodes", "2")]),
    ("mb", &[("order", "8"), ("pool_requests", "16"), ("leaf_pages", "2")]),
    ("pio", &[("order", "8"), ("pool_requests", "16"), ("leaf_pages", "2")]),
    ("bepsilon", &[("node_pages", "2"), ("fanout", "4")]),
    ("fd", &[("head_entries", "24"), ("k", "3")]),
    ("la", &[("buffer_pages", "2")]),
    ("as-btree", &[("order", "8"), ("batch_nodes", "6")]),
    ("cb-tree", &[("order", "8"), ("batch_nodes", "6")]),
    ("fb-tree", &[("order", "8"), ("batch_nodes", "6")]),
    ("plow", &[("pool_requests", "16")]),
    ("for-tree", &[("overflow_max", "2")]),
    ("rftl", &[("reservation_units", "24")]),
    ("fast-framework", &[("buffer_bytes", "4096")]),
    ("efind", &[("buffer_bytes", "4096")]),
];

/// An index with settings that give its pages another format.
struct Variant {
    index: &'static str,
    /// Word in the names of its images, after that of the index.
    word: &'static str,
    /// Key and value bytes.
    lengths: (usize, usize),
    ram_bytes: Option<usize>,
    blocks: u32,
    options: Set,
}

/// The default variant.
const PLAIN: Variant =
    Variant { index: "", word: "", lengths: (8, 8), ram_bytes: None, blocks: 40, options: &[] };

const fn with(index: &'static str, word: &'static str, options: Set) -> Variant {
    Variant { index, word, options, ..PLAIN }
}

const VARIANTS: [Variant; 24] = [
    with("mu", "counts", &[("valid", "counts")]),
    with("mu", "write-part", &[("write_pages", "4")]),
    with("mu", "on-page-map", &[("beneath", "page-map")]),
    with("mu", "in-place", &[("beneath", "page-map"), ("placement", "in_place")]),
    with("mu-star", "counts", &[("valid", "counts")]),
    with("mu-star", "in-place", &[("beneath", "fast"), ("placement", "in_place")]),
    with("wandering", "counts", &[("valid", "counts")]),
    with("wandering", "write-part", &[("write_pages", "4")]),
    with("wandering", "journal", &[("journal", "4")]),
    with("ipl", "in-place", &[("beneath", "page-map"), ("placement", "in_place")]),
    with("dipl", "in-place", &[("beneath", "page-map"), ("placement", "in_place")]),
    Variant { blocks: 280, ..with("vmtree", "buffered", &[("log_pages", "2")]) },
    with("vmtree", "on-page-map", &[("beneath", "page-map")]),
    with("vmtree-ow", "bare", &[("slots", "bare")]),
    Variant { lengths: (8, 100), ..with("vmtree-ow", "buffered", &[("log_pages", "2")]) },
    with("sbits", "on-page-map", &[("beneath", "page-map")]),
    Variant { lengths: (8, 40), ..with("plow", "trimmed", &[("pool_requests", "16")]) },
    Variant { ram_bytes: Some(6 << 10), ..with("plow", "small-ram", &[]) },
    Variant { blocks: 90, ..with("plow", "map", &[("pool_requests", "16")]) },
    Variant { ram_bytes: Some(60 << 10), ..with("bplus", "cached", &[]) },
    Variant { ram_bytes: Some(18 << 10), ..with("bplus", "small-ram", &[]) },
    with("bplus", "on-dftl-counts", &[("ftl", "dftl"), ("valid", "counts")]),
    Variant { lengths: (12, 0), ..with("bplus", "keys-only", &[("ftl", "dftl"), ("valid", "counts")]) },
    Variant { lengths: (16, 60), ..with("wpcb", "long", &[("tbm_spare_blocks", "4")]) },
];

/// An image of an index with default settings; class and end are set later.
fn image(kind: Kind, subject: &str, name: &str, shape: Shape) -> Image {
    let mut options = Options::default();
    let small = SMALL.iter().filter(|(small, _)| *small == subject && kind != Kind::ValueLog);
    small.flat_map(|(_, set)| *set).for_each(|(name, value)| options.set(name, value));
    Image {
        folder: NEWEST,
        name: name.to_string(),
        kind,
        subject: subject.to_string(),
        shape,
        class: Durability::None,
        ram_bytes: None,
        blocks: PLAIN.blocks,
        options,
        seed: 0,
        keys: if let Shape::Varied(..) = shape { 30 } else { 72 },
        shown: (0, OPS),
    }
}

/// Every image of the corpus with its ending, in each class. Classes that a subject does not offer are
/// dropped when it is opened.
pub(crate) fn wanted() -> Vec<(Image, End)> {
    let mut wanted = Vec::new();
    let mut both = |image: &Image| {
        for (class, end, ending) in ENDS {
            let name = format!("{}.{ending}", image.name);
            wanted.push((Image { name, class, ..image.clone() }, end));
        }
    };
    let shape_for = |index: &str, (key, value): (usize, usize)| match index {
        "sbits" => Shape::Ascending(key, value),
        _ => Shape::Fixed(key, value),
    };
    for entry in INDEXES {
        both(&image(Kind::Index, entry.name, entry.name, shape_for(entry.name, (8, 8))));
    }
    for variant in VARIANTS {
        let Variant { index, word, lengths, ram_bytes, blocks, options } = variant;
        let mut image = Image {
            ram_bytes,
            blocks,
            options: Options::default(),
            ..image(Kind::Index, index, &format!("{index}-{word}"), shape_for(index, lengths))
        };
        options.iter().for_each(|(name, value)| image.options.set(name, value));
        both(&image);
    }
    for entry in STORES {
        both(&image(Kind::Ftl, entry.name, &format!("ftl-{}", entry.name), Shape::Pages(512)));
        let mut tree = image(Kind::Index, "bplus", &format!("bplus-on-{}", entry.name), Shape::Fixed(8, 8));
        tree.options = Options::default();
        tree.options.set("ftl", entry.name);
        if entry.name != "page-map" {
            both(&tree);
        }
    }
    for entry in SPATIAL {
        let tree = image(Kind::Spatial, entry.name, entry.name, Shape::Places);
        // An operation of it writes more pages together than others'.
        both(&Image { blocks: if entry.name == "for-tree" { 60 } else { tree.blocks }, ..tree });
    }
    both(&image(Kind::Sensor, "microhash", "microhash", Shape::Ascending(8, 2)));
    both(&image(Kind::Variable, "mu", "variable-on-mu", Shape::Varied(12, 40)));
    both(&image(Kind::Variable, "bplus", "variable-on-bplus", Shape::Varied(12, 40)));
    both(&image(Kind::ValueLog, "plow", "value-log-on-plow", Shape::Varied(12, 700)));
    both(&image(Kind::ValueLog, "mu", "value-log-on-mu", Shape::Varied(12, 700)));
    // Formats that came with the second folder.
    both(&image(Kind::Ftl, "page-map", "ftl-page-map-notes", Shape::Pages(512)));
    both(&image(Kind::Index, "bplus", "bplus-notes", Shape::Fixed(8, 8)));
    both(&image(Kind::Index, "plow", "plow-48", Shape::Fixed(8, 8)));
    both(&image(Kind::Index, "sbits", "sbits-of-chip", Shape::Ascending(8, 8)));
    both(&image(Kind::Index, "vmtree-ow", "vmtree-ow-3", Shape::Fixed(8, 8)));
    both(&image(Kind::Sensor, "microhash", "microhash-2", Shape::Ascending(8, 2)));
    let seeded = wanted.into_iter().zip(1..);
    seeded.map(|((image, end), seed)| (Image { seed, ..image }, end)).collect()
}

/// A chip with a bad block, which fails now and then.
fn chip_for(image: &Image) -> Shared<SimChip> {
    let chip = SimChip::new(&image.part()).unwrap().with_factory_bad_blocks(20_000, image.seed);
    let faults = Faults { seed: image.seed, program_failures_ppm: 500, ..Faults::default() };
    Shared::new(chip.with_faults(faults))
}

/// Runs a history until it ends or the power fails; returns how many operations were acknowledged.
fn run(image: &Image, subject: &mut dyn Subject, chip: &Shared<SimChip>, ops: u64) -> u64 {
    for n in 0..ops {
        if let Err(error) = subject.step(&image.history().op(n)) {
            assert!(!chip.lock().is_powered(), "{}: operation {n}: {error}", image.name);
            return n;
        }
    }
    ops
}

/// Formats the subject of an image; `None` if it does not offer the class.
fn formatted(image: &Image, chip: &Shared<SimChip>) -> Option<Box<dyn Subject>> {
    let subject = open(image, Box::new(chip.clone()), How::Format).ok()?;
    (subject.class() == image.class).then_some(subject)
}

/// Records an image; `None` if the subject does not offer the class.
fn record(image: &mut Image, end: End) -> Option<SimChip> {
    let chip = chip_for(image);
    let mut subject = formatted(image, &chip)?;
    let began = chip.lock().operations();
    run(image, &mut *subject, &chip, OPS);
    if end == End::Closed {
        subject.close().unwrap();
        image.shown = (OPS, OPS);
    } else {
        let at_operation = began + (chip.lock().operations() - began) * 9 / 10;
        let torn = TornModel::ALL[image.seed as usize % TornModel::ALL.len()];
        drop(subject);
        let again = chip_for(image);
        again.lock().plan_power_cut(PowerCut { at_operation, when: CutWhen::Inside, torn, seed: image.seed });
        let mut subject = formatted(image, &again)?;
        let acknowledged = run(image, &mut *subject, &again, OPS);
        assert!(acknowledged < OPS, "{} was not cut", image.name);
        let least = match image.class {
            Durability::EveryOperation => acknowledged,
            _ => image.history().synced(acknowledged),
        };
        image.shown = (least, acknowledged + 1);
        drop(subject);
        let mut cut = again.lock().clone();
        cut.power_on();
        cut.set_faults(Faults::default());
        return Some(cut);
    }
    drop(subject);
    let mut closed = chip.lock().clone();
    closed.set_faults(Faults::default());
    Some(closed)
}

/// Records images that no folder has, into the newest one.
pub(crate) fn record_missing() -> Vec<String> {
    let mut known: Vec<String> =
        FOLDERS.iter().flat_map(|folder| images(folder)).map(|image| image.name).collect();
    let mut recorded = Vec::new();
    for (mut image, end) in wanted() {
        let closed_above = image.name.replace("sync.closed", "operation.closed");
        if known.contains(&image.name) || known.contains(&closed_above) {
            continue;
        }
        if let Some(chip) = record(&mut image, end) {
            judge::image(&image, &chip).unwrap_or_else(|fault| panic!("{}: {fault}", image.name));
            image.keep(&chip);
            known.push(image.name.clone());
            recorded.push(image.name);
        }
    }
    recorded
}

/// The names of subjects in the registry that no image has.
pub(crate) fn without_images() -> Vec<String> {
    let known: Vec<Image> = FOLDERS.iter().flat_map(|folder| images(folder)).collect();
    let has = |kind: Kind, name: &str| known.iter().any(|i| i.kind == kind && i.subject == name);
    let mut all: Vec<(Kind, &str)> = INDEXES.iter().map(|entry| (Kind::Index, entry.name)).collect();
    all.extend(STORES.iter().map(|entry| (Kind::Ftl, entry.name)));
    all.extend(SPATIAL.iter().map(|entry| (Kind::Spatial, entry.name)));
    all.into_iter().filter(|(kind, name)| !has(*kind, name)).map(|(_, name)| name.to_string()).collect()
}
