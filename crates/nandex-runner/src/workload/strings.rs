//! Names as the keys of an index, in the order of their first appearance.
//!
//! `authors.tsv` has lines of a date, a tab and a name, ordered by date. Its personal names may not be
//! copied, so the file is read only if the user has it. Otherwise words of a dictionary are used: as many as
//! the paper has authors, of similar lengths, in a fixed random order. `docs/workloads.md` compares the two.
//!
//! A key has 8 bytes. Names are longer, and half of them share their first 8 bytes with another. The paper
//! does not tell how it makes keys. A *rank* (the position of the name in byte order) preserves the main
//! property of an index on names: neighbours in order share a leaf. A *hash* scatters them.

use crate::data;
use crate::error::LabError;
use crate::input::{self, Lines, WrongLine};
#[cfg(feature = "large-data")]
use nandex::rng::Rng;
use nandex::rng::split_mix;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The bundled dictionary: distinct words in byte order, one per line.
const WORDS_FILE: &str = "data/words.txt.zst";

/// Seed of the order in which the words appear.
#[cfg(feature = "large-data")]
const ORDER_SEED: u64 = 2009;

const AUTHORS: [&str; 2] = ["authors.tsv.zst", "authors.tsv"];

/// The origin of the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The file of authors.
    Authors(PathBuf),
    /// The bundled words.
    Words,
}

impl Source {
    /// The source for the option value `auto`, `authors` or `words`.
    pub(super) fn find(asked: &str, folder: Option<&Path>) -> Result<Source, LabError> {
        let authors = || AUTHORS.map(|file| data::find(file, folder)).into_iter().reduce(Result::or);
        match (asked, authors()) {
            ("words", _) | ("auto", Some(Err(_)) | None) => Ok(Source::Words),
            ("auto" | "authors", Some(Ok(path))) => Ok(Source::Authors(path)),
            ("authors", Some(Err(why))) => Err(LabError::bad_option("source", asked, why)),
            _ => Err(LabError::bad_option("source", asked, "is none of auto, authors, words")),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Source::Authors(_) => "authors",
            Source::Words => "words",
        }
    }

    /// The rank of each name among all names, in order of appearance. The ranks of the words are computed
    /// once, because an experiment asks for them with each input.
    pub(super) fn ranks(&self) -> Result<Vec<u64>, LabError> {
        static OF_WORDS: OnceLock<Vec<u64>> = OnceLock::new();
        let known = OF_WORDS.get().filter(|_| *self == Source::Words);
        if let Some(known) = known {
            return Ok(known.clone());
        }
        let found = ranks(&self.read()?);
        Ok(if *self == Source::Words { OF_WORDS.get_or_init(|| found).clone() } else { found })
    }

    pub(super) fn hashes(&self) -> Result<Vec<u64>, LabError> {
        Ok(hashes(&self.read()?))
    }

    fn read(&self) -> Result<Vec<String>, LabError> {
        match self {
            Source::Authors(path) => authors(path),
            Source::Words => words(),
        }
    }
}

fn authors(path: &Path) -> Result<Vec<String>, LabError> {
    let wrong = |(number, reason): WrongLine| LabError::Trace {
        file: path.display().to_string(),
        place: Some(format!("line {number}")),
        reason,
    };
    let mut lines = Lines::new(input::open(path)?);
    let mut names = Vec::new();
    while let Some((number, line)) = lines.next_line().map_err(wrong)? {
        let name = line.split_once('\t').map(|(_, name)| name.to_string());
        names.push(name.ok_or_else(|| wrong((number, String::from("is not a date, a tab and a name"))))?);
    }
    Ok(names)
}

#[cfg(not(feature = "large-data"))]
fn words() -> Result<Vec<String>, LabError> {
    let why = "is not in this build; name the folder of authors.tsv with NANDEX_DATA";
    Err(LabError::io(WORDS_FILE, std::io::Error::new(std::io::ErrorKind::NotFound, why)))
}

#[cfg(feature = "large-data")]
fn words() -> Result<Vec<String>, LabError> {
    let failed = |error| LabError::io(WORDS_FILE, error);
    let bytes = zstd::stream::decode_all(nandex_data::WORDS).map_err(failed)?;
    let mut words: Vec<String> = String::from_utf8_lossy(&bytes).lines().map(String::from).collect();
    Rng::new(ORDER_SEED).shuffle(&mut words);
    Ok(words)
}

/// The rank of each name in byte order.
fn ranks(names: &[String]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_unstable_by(|&a, &b| names[a].as_bytes().cmp(names[b].as_bytes()));
    let mut ranks = vec![0; names.len()];
    for (rank, place) in order.into_iter().enumerate() {
        ranks[place] = rank as u64;
    }
    ranks
}

fn hashes(names: &[String]) -> Vec<u64> {
    // FNV-1a, stirred so that its weak low bits do not matter.
    let fnv = |name: &String| {
        name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    };
    names.iter().map(|name| split_mix(fnv(name))).collect()
}
