//! The images of the corpus: a line of its list each, and a file.

use super::history::{History, Shape};
use nandex::nand::sim::SimChip;
use nandex::nand::{Geometry, Part, catalogue};
use nandex::ordered::{Durability, RecordFormat};
use nandex_stacks::options::{Options, Settings};
use nandex_stacks::registry;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// The newest folder; new images are recorded there.
pub(crate) const NEWEST: &str = "2";
/// Every folder, the oldest first.
pub(crate) const FOLDERS: [&str; 2] = ["1", NEWEST];

/// The name of the list in a folder.
const LIST: &str = "list.txt";

/// Kinds of subjects on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Index,
    Ftl,
    Spatial,
    Sensor,
    Variable,
    ValueLog,
}

const KINDS: [(Kind, &str); 6] = [
    (Kind::Index, "index"),
    (Kind::Ftl, "ftl"),
    (Kind::Spatial, "spatial"),
    (Kind::Sensor, "sensor"),
    (Kind::Variable, "variable"),
    (Kind::ValueLog, "value-log"),
];

const CLASSES: [(Durability, &str); 3] =
    [(Durability::EveryOperation, "operation"), (Durability::EverySync, "sync"), (Durability::None, "none")];

/// A recorded chip: its subject, its settings, and the contents it must have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Image {
    pub(crate) folder: &'static str,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) subject: String,
    pub(crate) shape: Shape,
    pub(crate) class: Durability,
    pub(crate) ram_bytes: Option<usize>,
    /// Blocks of the chip.
    pub(crate) blocks: u32,
    pub(crate) options: Options,
    pub(crate) seed: u64,
    pub(crate) keys: u64,
    /// Fewest and most operations of the history whose effects may be present.
    pub(crate) shown: (u64, u64),
}

/// The folder of the corpus.
pub(crate) fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus")
}

fn named<T: Copy + PartialEq>(names: &[(T, &'static str)], item: T) -> &'static str {
    names.iter().find(|(known, _)| *known == item).unwrap().1
}

fn item_of<T: Copy>(names: &[(T, &'static str)], name: &str) -> T {
    names.iter().find(|(_, known)| *known == name).unwrap_or_else(|| panic!("'{name}'")).0
}

fn pair(text: &str, between: char) -> (u64, u64) {
    let (one, other) = text.split_once(between).unwrap_or_else(|| panic!("'{text}'"));
    (one.parse().unwrap(), other.parse().unwrap())
}

fn shape_text(shape: Shape) -> String {
    match shape {
        Shape::Fixed(key, value) => format!("fixed:{key}+{value}"),
        Shape::Ascending(key, value) => format!("ascending:{key}+{value}"),
        Shape::Varied(key, value) => format!("varied:{key}+{value}"),
        Shape::Pages(bytes) => format!("pages:{bytes}+0"),
        Shape::Places => String::from("places:8+8"),
    }
}

fn shape_of(text: &str) -> Shape {
    let (name, lengths) = text.split_once(':').unwrap();
    let (key, value) = pair(lengths, '+');
    let (key, value) = (key as usize, value as usize);
    match name {
        "fixed" => Shape::Fixed(key, value),
        "ascending" => Shape::Ascending(key, value),
        "varied" => Shape::Varied(key, value),
        "pages" => Shape::Pages(key),
        "places" => Shape::Places,
        _ => panic!("shape {text}"),
    }
}

impl Image {
    pub(crate) fn line(&self) -> String {
        let Image { name, subject, seed, keys, shown: (least, most), .. } = self;
        let (kind, class) = (named(&KINDS, self.kind), named(&CLASSES, self.class));
        let mut line = format!("{name} {kind}={subject} records={} class={class}", shape_text(self.shape));
        write!(line, " blocks={} seed={seed} keys={keys} holds={least}..{most}", self.blocks).unwrap();
        if let Some(ram) = self.ram_bytes {
            write!(line, " ram={ram}").unwrap();
        }
        self.options.iter().for_each(|(name, value)| write!(line, " set:{name}={value}").unwrap());
        line
    }

    fn of_line(folder: &'static str, line: &str) -> Image {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap().to_string();
        let (kind, subject) = words.next().unwrap().split_once('=').unwrap();
        let mut image = Image {
            folder,
            name,
            kind: item_of(&KINDS, kind),
            subject: subject.to_string(),
            shape: Shape::Places,
            class: Durability::None,
            ram_bytes: None,
            blocks: 0,
            options: Options::default(),
            seed: 0,
            keys: 0,
            shown: (0, 0),
        };
        for word in words {
            let (name, value) = word.split_once('=').unwrap();
            match name {
                "records" => image.shape = shape_of(value),
                "class" => image.class = item_of(&CLASSES, value),
                "seed" => image.seed = value.parse().unwrap(),
                "keys" => image.keys = value.parse().unwrap(),
                "blocks" => image.blocks = value.parse().unwrap(),
                "ram" => image.ram_bytes = Some(value.parse().unwrap()),
                "holds" => {
                    let (least, most) = value.split_once("..").unwrap();
                    image.shown = (least.parse().unwrap(), most.parse().unwrap());
                }
                _ => image.options.set(name.strip_prefix("set:").unwrap(), value),
            }
        }
        image
    }

    /// The settings that it was formatted with, and is mounted with.
    pub(crate) fn settings(&self) -> Settings {
        let record = match (self.kind, self.shape) {
            (Kind::Variable, _) => RecordFormat::variable(12, 16),
            (Kind::ValueLog, _) => super::subject::logged_record(),
            (_, Shape::Fixed(key, value) | Shape::Ascending(key, value)) => {
                RecordFormat::new(key as u8, value as u8)
            }
            _ => RecordFormat::new(8, 8),
        };
        let (durability, options) = (self.class, self.options.clone());
        Settings { record, ram_bytes: self.ram_bytes, durability, options }
    }

    pub(crate) const fn history(&self) -> History {
        History { shape: self.shape, seed: self.seed, keys: self.keys }
    }

    /// Chip for the recording: small, and NOR if the index needs that.
    pub(crate) fn part(&self) -> Part {
        let mut part = catalogue::mlc_64m();
        part.name = "corpus".into();
        part.geometry = Geometry::new(512, 64, 8, self.blocks);
        match self.kind {
            Kind::Index => registry::index(&self.subject).unwrap().suited(part),
            _ => part,
        }
    }

    fn path(&self) -> PathBuf {
        corpus().join(self.folder).join(format!("{}.zst", self.name))
    }

    pub(crate) fn exists(&self) -> bool {
        self.path().exists()
    }

    /// The chip, as it was recorded.
    pub(crate) fn chip(&self) -> SimChip {
        let packed = fs::read(self.path()).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        SimChip::from_image(&zstd::decode_all(&packed[..]).unwrap()).unwrap()
    }

    /// Writes the file of a new image, and its line to the list.
    pub(crate) fn keep(&self, chip: &SimChip) {
        assert!(!self.exists(), "{} stays as it was recorded", self.name);
        let list = corpus().join(self.folder).join(LIST);
        let mut lines = fs::read_to_string(&list).unwrap_or_default();
        writeln!(lines, "{}", self.line()).unwrap();
        fs::write(self.path(), zstd::encode_all(&chip.to_image()[..], 19).unwrap()).unwrap();
        fs::write(list, lines).unwrap();
    }
}

/// Every image of a folder, in the order of its list.
pub(crate) fn images(folder: &'static str) -> Vec<Image> {
    let list = fs::read_to_string(corpus().join(folder).join(LIST)).unwrap_or_default();
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| Image::of_line(folder, line)).collect()
}
