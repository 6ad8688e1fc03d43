//! Loads an experiment from a user's file or from the program, with values set from outside.
//!
//! The name may be that of a file, of a folder with an `experiment.toml`, or of a built-in experiment; a file
//! comes first. In the same folder there may be `expected.toml` (claims to judge) and `README.md` (notes for
//! the report). Paths of traces and chip files are relative to that folder.

use super::check;
use super::definition::{Experiment, Variant, parse_claims};
use super::locate::{self, line_of, line_of_byte};
use super::{find, set};
use crate::{LabError, input};
use nandex_experiments::FOLDERS;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Name of the variant, if an experiment defines none.
pub(super) const ONLY_VARIANT: &str = "default";

const FILE: &str = "experiment.toml";

/// Largest file that is read, in bytes. The longest of the papers' has 30 KB.
const BYTES_MAX: u64 = 4 << 20;

/// Loads the experiment of this name or file, with values set. An error names its file, line and key.
pub fn load(name: &str, sets: &[(String, String)]) -> Result<Experiment, LabError> {
    match file_of(name)? {
        Some(file) => load_file(&file, name, sets),
        None if sets.is_empty() => find(name).cloned(),
        None => built_in(name, sets),
    }
}

/// The file meant by a name. `None` if it is the name of a built-in experiment.
fn file_of(name: &str) -> Result<Option<PathBuf>, LabError> {
    let path = Path::new(name);
    if path.is_dir() {
        let file = path.join(FILE);
        return match (file.is_file(), find(name)) {
            (true, _) => Ok(Some(file)),
            (false, Ok(_)) => Ok(None),
            (false, Err(_)) => Err(missing(path, "the folder has no experiment.toml")),
        };
    }
    if path.is_file() {
        return Ok(Some(path.to_path_buf()));
    }
    let is_path = name.contains(['/', '\\']) || path.extension().is_some_and(|end| end == "toml");
    if is_path { Err(missing(path, "there is no such file")) } else { Ok(None) }
}

fn missing(path: &Path, reason: &str) -> LabError {
    let (line, key) = (None, String::new());
    LabError::Experiment { file: path.display().to_string(), line, key, reason: reason.to_string() }
}

fn built_in(name: &str, sets: &[(String, String)]) -> Result<Experiment, LabError> {
    let known = find(name)?;
    let is_it = |folder: &&nandex_experiments::Folder| folder.notes.starts_with(&format!("# {name}\n"));
    let text = FOLDERS.iter().find(is_it).map_or("", |folder| folder.definition);
    let mut definition = set::apply(text, sets)?;
    definition.source.called = Some(called(name, sets));
    check::all(&definition).map_err(|fault| fault.error)?;
    Ok(Experiment { definition, ..known.clone() })
}

fn load_file(file: &Path, name: &str, sets: &[(String, String)]) -> Result<Experiment, LabError> {
    let shown = file.display().to_string();
    let text = text_of(file)?;
    let refused = |line: Option<usize>, key: String, reason: String| LabError::Experiment {
        file: shown.clone(),
        line,
        key,
        reason,
    };
    let mut definition = toml::from_str(&text).map_err(|error: toml::de::Error| {
        let line = error.span().map(|span| line_of_byte(&text, span.start));
        let on_it = line.and_then(|line| text.lines().nth(line - 1)).unwrap_or_default();
        refused(line, on_it.trim().to_string(), error.message().trim().to_string())
    })?;
    if !sets.is_empty() {
        definition = set::apply(&text, sets)?;
    }
    if definition.name.is_empty() {
        definition.name = own_name(file);
    }
    if definition.variants.is_empty() && !definition.inputs.is_empty() {
        definition.variants.push(Variant { name: ONLY_VARIANT.to_string(), ..Variant::default() });
    }
    definition.source.folder = Some(file.parent().map_or_else(PathBuf::new, Path::to_path_buf));
    definition.source.called = Some(called(name, sets));
    check::all(&definition)
        .map_err(|fault| refused(line_of(&text, &fault.at), fault.at.join("."), fault.error.to_string()))?;
    let expected = file.with_file_name("expected.toml");
    // Claims that cannot be read are not taken for none.
    let claims = if expected.exists() { parse_claims(&text_of(&expected)?) } else { Ok(Vec::new()) };
    let claims = claims.map_err(|reason| missing(&expected, reason.trim()))?;
    let notes = text_of(&file.with_file_name("README.md")).map_or(Cow::Borrowed(""), Cow::Owned);
    Ok(Experiment { definition, claims, notes })
}

fn text_of(file: &Path) -> Result<String, LabError> {
    let bytes = input::read(file, BYTES_MAX)?;
    input::text(&bytes).map_err(|(line, reason)| LabError::Experiment {
        file: file.display().to_string(),
        line: usize::try_from(line).ok(),
        key: String::new(),
        reason,
    })
}

/// The experiment's default name: the folder of an `experiment.toml`, or the name of any other file.
fn own_name(file: &Path) -> String {
    let named_by = if file.ends_with(FILE) { file.parent() } else { Some(file) };
    let stem = named_by.and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    stem.filter(|stem| !stem.is_empty()).unwrap_or_else(|| String::from("experiment"))
}

/// The arguments of the command line that gave this experiment.
fn called(name: &str, sets: &[(String, String)]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    let quoted = |word: &str| match word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    let sets = sets.iter().map(|(key, value)| format!(" --set {}", quoted(&format!("{key}={value}"))));
    std::iter::once(quoted(name)).chain(sets).collect()
}

/// An error in a definition and its place.
pub(super) struct Fault {
    /// The path of keys to it.
    pub(super) at: locate::Path,
    pub(super) error: LabError,
}
