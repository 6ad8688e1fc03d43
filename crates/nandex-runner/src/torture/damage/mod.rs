//! Damaged chips: on images that were closed and on images cut anywhere, pages and whole blocks are flipped,
//! zeroed, erased, made unreadable, exchanged and replaced by older versions, and every answer after that is
//! compared with the truth.
//!
//! 1. A subject lives a short life on a small chip, recorded from its format on (`image.rs`).
//! 2. An image is the chip at one end of it: after the first close, after the second, or cut at any physical
//!    operation.
//! 3. Each damage strikes a copy of an image. The copy is mounted, checked, read whole, changed, read,
//!    closed, mounted and read (`trial.rs`), and what was read is compared with the states of the history
//!    (`history.rs`).
//!
//! What is allowed besides the right answer, an error and a refused mount stands in `allowed.rs`, and nowhere
//! else.
//!
//! All of it follows from subject, seed, image and damage, so that four words repeat a finding.

mod allowed;
mod guarantees;
mod history;
mod image;
mod kinds;
mod read;
mod run;
mod subject;
mod trial;

pub use allowed::{EXCEPTIONS, Exception};
pub use guarantees::{rewrite, table};
pub use image::End;
pub use kinds::{Damage, Kind};
pub use run::{Effort, Tell, Totals, replay, run};
pub use subject::every_victim;
pub use trial::Outcome;

use crate::LabError;
use crate::torture::Victim;
use std::fmt;

const NO_BLOW: &str = "none";

/// One or more damages at once. Their text is like `flip:3+zero:40`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blow(pub Vec<Damage>);

impl fmt::Display for Blow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "{NO_BLOW}");
        }
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "{}", texts.join("+"))
    }
}

impl std::str::FromStr for Blow {
    type Err = LabError;

    /// The text "none" is a blow without damage.
    fn from_str(text: &str) -> Result<Blow, LabError> {
        if text == NO_BLOW {
            return Ok(Blow(Vec::new()));
        }
        text.split('+').map(str::parse).collect::<Result<Vec<Damage>, _>>().map(Blow)
    }
}

/// The outcome of a damage that is not an error, a refused mount or the right answer.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The victim of the damage.
    pub victim: Victim,
    /// The seed of the victim's life.
    pub seed: u64,
    /// The end of the life.
    pub end: End,
    /// The damage done.
    pub blow: Blow,
    /// Number of operations that programmed pages after the youngest damaged page was programmed.
    pub age: Option<u64>,
    /// Number of damages that strike an anchor, a checkpoint or a note, from which a mount learns the state
    /// of the chip.
    pub records: usize,
    /// Whether a damaged page is the last one programmed in its block.
    pub ends_a_block: bool,
    /// The outcome of the damage.
    pub outcome: Outcome,
}

impl Finding {
    /// Number of the exception that allows the finding, as in `docs/guarantees.md`; `None` if no exception
    /// does.
    pub fn exception(&self) -> Option<usize> {
        allowed::allowed(&allowed::Hit::of(self), &self.outcome).map(|number| number + 1)
    }

    /// The command that repeats the finding.
    pub fn replay(&self) -> String {
        let (victim, seed, end, blow) = (self.victim, self.seed, self.end, &self.blow);
        format!("nandex torture --damage --replay {victim}:{seed} --image {end} --blow {blow}")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { victim, end, blow, age, outcome, .. } = self;
        write!(f, "! {victim}, {end}, {blow}")?;
        if let Some(age) = age {
            write!(f, " ({age} writes old)")?;
        }
        write!(f, ": {outcome}\n  replay: {}", self.replay())
    }
}
