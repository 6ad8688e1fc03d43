//! Output of results: to stdout, or to files whose folders are checked before anything is measured.

use anyhow::{Context, Result, bail};
use clap::Args;
use nandex_lab::LabError;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The meaning of the exit codes.
pub(crate) const AFTER_HELP: &str = "\
Results go to stdout, progress and messages to stderr.
Exit codes: 0 done; 1 it worked and found something bad (a run that stopped, a claim not reproduced, something lost,
a broken invariant), or a file could not be written; 2 a request that makes no sense.";

/// Columns of a table that is not written to a terminal.
const WIDTH_DEFAULT: usize = 120;

/// A file, or stdout if the name is `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Stdout,
    File(PathBuf),
}

impl FromStr for Target {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Target, Infallible> {
        Ok(if text == "-" { Target::Stdout } else { Target::File(PathBuf::from(text)) })
    }
}

impl Target {
    /// Refuses a file that cannot be written before anything is measured.
    pub(crate) fn prepare(&self) -> Result<()> {
        match self {
            Target::Stdout => Ok(()),
            Target::File(path) => prepare(path),
        }
    }

    pub(crate) fn write(&self, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        match self {
            Target::Stdout => {
                let mut out = BufWriter::new(io::stdout().lock());
                content(&mut out)?;
                Ok(out.flush()?)
            }
            Target::File(path) => write_file(path, content),
        }
    }
}

/// Refuses a file whose folder does not exist, or that is a folder itself.
pub(crate) fn prepare(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        bail!("cannot write {}: there is no folder {}", path.display(), folder.display());
    }
    if path.is_dir() {
        bail!("cannot write {}: it is a folder", path.display());
    }
    Ok(())
}

/// Writes a file; an error names it.
pub(crate) fn write_file(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        content(&mut out)?;
        out.flush()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Makes and writes the report, if one is asked for.
pub(crate) fn write_report<E: std::error::Error + Send + Sync + 'static>(
    path: Option<&Path>,
    page: impl FnOnce() -> Result<String, E>,
) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let page = page().context("cannot make the report")?;
    write_file(path, |out| out.write_all(page.as_bytes()))
}

pub(crate) fn print(text: &str) -> Result<()> {
    Target::Stdout.write(|out| out.write_all(text.as_bytes()))
}

/// The commit that the program was built from, if it is known. A `+` at its end says that files differed
/// from the commit.
pub(crate) fn commit() -> Option<String> {
    option_env!("NANDEX_COMMIT").map(String::from)
}

/// Prints a line for the user to stderr.
pub(crate) fn tell(text: &str) {
    // Nobody is told when stderr is closed.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Columns of the terminal, or [`WIDTH_DEFAULT`] without one.
pub(crate) fn width() -> usize {
    let terminal = console::Term::stdout();
    terminal
        .size_checked()
        .filter(|_| terminal.is_term())
        .map_or(WIDTH_DEFAULT, |(_, columns)| columns.into())
}

/// The command line in a form that a shell accepts again.
pub(crate) fn command() -> String {
    let words = std::env::args().skip(1).map(|word| quoted(&word));
    std::iter::once("nandex".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Where results go besides the table.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// Write the results as JSON; - for stdout, then without the table.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<Target>,
    /// Write the results as CSV; - for stdout, then without the table.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) csv: Option<Target>,
}

impl Files {
    /// Refuses targets that cannot be written before anything is measured.
    pub(crate) fn prepare(&self) -> Result<()> {
        if self.json == Some(Target::Stdout) && self.csv == Some(Target::Stdout) {
            let reason = "and --json - too: only one of them can go to stdout";
            return Err(LabError::bad_option("--csv", "-", reason).into());
        }
        self.json.iter().chain(&self.csv).try_for_each(Target::prepare)
    }

    /// Writes the files asked for, and then the table unless one of them goes to stdout. Files come first
    /// so that they are complete even if nobody reads the table.
    pub(crate) fn write(
        &self,
        json: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        csv: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        table: impl FnOnce(usize) -> String,
    ) -> Result<()> {
        self.json.as_ref().map_or(Ok(()), |target| target.write(json))?;
        self.csv.as_ref().map_or(Ok(()), |target| target.write(csv))?;
        match [&self.json, &self.csv].contains(&&Some(Target::Stdout)) {
            true => Ok(()),
            false => print(&table(width())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell_when_they_must_be() {
        assert_eq!(quoted("--set"), "--set");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
