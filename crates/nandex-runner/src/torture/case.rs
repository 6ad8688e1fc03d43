//! A life written down: chip, settings and steps, carried out again without drawing anything, and read from
//! and written to a small text file.

use super::body::{Body, Flow};
use super::counts::Counts;
use super::fault::Fault;
use super::keys::Keys;
use super::setup::{Looks, Setup};
use super::step::Step;
use super::subject::Victim;
use crate::error::LabError;
use nandex::Geometry;
use nandex::nand::catalogue::mlc_with;
use nandex::ordered::{Durability, RecordFormat};
use nandex_stacks::options::Settings;
use std::fmt;
use std::str::FromStr;

/// The description of a life: chip, settings and steps.
#[derive(Clone, Debug)]
pub struct Case {
    pub(super) setup: Setup,
    pub(super) steps: Vec<Step>,
}

/// Spare bytes of a page if a file does not give them.
const SPARE_BYTES: u32 = 64;

const CLASSES: [(Durability, &str); 3] = [
    (Durability::EveryOperation, "every-operation"),
    (Durability::EverySync, "every-sync"),
    (Durability::None, "none"),
];

impl Case {
    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Runs the life. The error has the fault and the number of steps.
    pub fn run(&self) -> Result<Counts, String> {
        self.play().map_err(|(fault, steps)| format!("{fault}, at step {steps} of {}", self.steps.len()))
    }

    /// Runs the life. A fault comes with the number of steps before it.
    pub(super) fn play(&self) -> Result<Counts, (Fault, usize)> {
        let mut body = Body::born(&self.setup).map_err(|fault| (fault, 0))?;
        for (place, step) in self.steps.iter().enumerate() {
            match body.step(step) {
                Ok(Flow::Goes) => {}
                Ok(Flow::Ends) => break,
                Err(fault) => return Err((fault, place + 1)),
            }
        }
        Ok(body.counts)
    }

    /// The shortest part of the case that still fails in the same way.
    #[must_use]
    pub fn shrunk(&self) -> Case {
        super::shrink::shrunk(self)
    }

    /// Reads a case from text; `file` is the name for errors.
    pub fn read(text: &str, file: &str) -> Result<Case, LabError> {
        let mut reader = Reader::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            reader.line(line).map_err(|reason| LabError::Trace {
                file: file.to_string(),
                place: Some(format!("line {}", number + 1)),
                reason,
            })?;
        }
        let whole = |reason| LabError::Trace { file: file.to_string(), place: None, reason };
        reader.case().map_err(whole)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { victim, part, settings, slots, bad_ppm, bad_seed, keys, looks } = &self.setup;
        let Geometry { page_bytes, pages_per_block, blocks, spare_bytes, .. } = part.geometry;
        writeln!(f, "victim {}", victim.target.name())?;
        write!(f, "chip {page_bytes} {pages_per_block} {blocks}")?;
        match spare_bytes {
            SPARE_BYTES => writeln!(f)?,
            other => writeln!(f, " {other}")?,
        }
        writeln!(f, "record {} {}", settings.record.key_bytes, settings.record.value_bytes)?;
        let class = CLASSES.iter().find(|(class, _)| *class == settings.durability);
        writeln!(f, "class {}", class.map_or("", |(_, name)| name))?;
        if let Some(bytes) = settings.ram_bytes {
            writeln!(f, "ram {bytes}")?;
        }
        for (name, value) in settings.options.iter() {
            writeln!(f, "set {name} {value}")?;
        }
        writeln!(f, "slots {slots}")?;
        if *bad_ppm > 0 {
            writeln!(f, "bad {bad_ppm} {bad_seed}")?;
        }
        if *keys == Keys::Trailing {
            writeln!(f, "keys alike")?;
        }
        if *looks == Looks::All {
            writeln!(f, "look-up all")?;
        }
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

/// The parts of a case that the lines so far gave.
#[derive(Default)]
struct Reader {
    victim: Option<Victim>,
    chip: Option<[u32; 4]>,
    settings: Option<Settings>,
    slots: u32,
    bad: (u32, u64),
    keys: Keys,
    looks: Looks,
    steps: Vec<Step>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        match (first, &rest[..]) {
            ("victim", [name]) => self.victim = Some(name.parse().map_err(|e: LabError| e.to_string())?),
            ("chip", [page, pages, blocks]) => {
                self.chip = Some([number(page)?, number(pages)?, number(blocks)?, SPARE_BYTES]);
            }
            ("chip", [page, pages, blocks, spare]) => {
                self.chip = Some([number(page)?, number(pages)?, number(blocks)?, number(spare)?]);
            }
            ("keys", ["alike"]) => self.keys = Keys::Trailing,
            ("look-up", ["all"]) => self.looks = Looks::All,
            ("record", [key, value]) => {
                self.settings = Some(Settings::new(RecordFormat::new(number(key)?, number(value)?)));
            }
            ("class", [name]) => {
                let class = CLASSES.iter().find(|(_, known)| known == name);
                self.settings()?.durability = class.ok_or_else(|| format!("'{name}' is no class"))?.0;
            }
            ("ram", [bytes]) => self.settings()?.ram_bytes = Some(number(bytes)?),
            ("set", [name, value]) => self.settings()?.options.set(name, value),
            ("slots", [slots]) => self.slots = number(slots)?,
            ("bad", [rate, seed]) => self.bad = (number(rate)?, number(seed)?),
            _ => self.steps.push(line.parse()?),
        }
        Ok(())
    }

    fn settings(&mut self) -> Result<&mut Settings, String> {
        self.settings.as_mut().ok_or_else(|| "the line with the record comes first".to_string())
    }

    fn case(self) -> Result<Case, String> {
        let victim = self.victim.ok_or("no line says who the victim is")?;
        let [page_bytes, pages, blocks, spare_bytes] =
            self.chip.ok_or("no line says what the chip is like")?;
        let settings = self.settings.ok_or("no line says how long records are")?;
        let mut part = mlc_with(page_bytes, pages, blocks);
        part.geometry.spare_bytes = spare_bytes;
        let part = victim.target.suited(part);
        part.validate().map_err(|error| error.to_string())?;
        if self.bad.0 > 1_000_000 || !(2..=1 << 20).contains(&self.slots) {
            return Err("slots are 2 to 1048576, bad blocks up to 1000000 in a million".to_string());
        }
        let ((bad_ppm, bad_seed), keys, looks) = (self.bad, self.keys, self.looks);
        let setup = Setup { victim, part, settings, slots: self.slots, bad_ppm, bad_seed, keys, looks };
        Ok(Case { setup, steps: self.steps })
    }
}

pub(super) fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is no number that fits here"))
}
