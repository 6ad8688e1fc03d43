//! Runs lives by seed. A life that goes wrong is shortened to the fewest steps that still go wrong.

use crate::counts::Counts;
use crate::draw::{self, SetUp, Step};
use crate::engine::Engine;
use crate::in_process::InProcess;
use crate::life::Life;
use crate::process::{Processes, Program};
use crate::sqlite::Sqlite;
use nandex_sqlite::Commits;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Most lives run to shorten a list of steps.
const TRIES: usize = 300;

/// A way to a SQLite.
#[derive(Clone)]
pub enum Way {
    /// A SQLite of this process, on a simulated chip whose power fails at any operation.
    InProcess(Sqlite),
    /// The SQLite of another program, on an image. A cut kills its process.
    Process(Program),
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::InProcess(sqlite) => sqlite.fmt(f),
            Way::Process(program) => write!(f, "SQLite {}, processes killed", program.version()),
        }
    }
}

/// A life that went wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The seed of the life.
    pub seed: u64,
    /// Message about the failure.
    pub what: String,
    set_up: SetUp,
    steps: Vec<Step>,
}

impl Way {
    fn engine(&self, set_up: &SetUp) -> Result<Option<Box<dyn Engine>>, String> {
        Ok(match self {
            Way::InProcess(sqlite) => {
                InProcess::new(*sqlite, set_up)?.map(|engine| Box::new(engine) as Box<dyn Engine>)
            }
            Way::Process(program) => Some(Box::new(Processes::new(program, set_up)?)),
        })
    }

    /// Runs a life with these steps. Returns its counts and the failure, if any.
    fn live_steps(&self, set_up: &SetUp, steps: &[Step]) -> (Counts, Option<String>) {
        let engine = match self.engine(set_up) {
            Ok(Some(engine)) => engine,
            Ok(None) => return (Counts { unfit: 1, ..Counts::default() }, None),
            Err(why) => return (Counts::default(), Some(why)),
        };
        let mut life = Life::new(engine, set_up);
        let lived = catch_unwind(AssertUnwindSafe(|| life.run(steps).err()));
        (life.counts(), lived.unwrap_or_else(|_| Some(String::from("a panic"))))
    }

    /// The life of a seed.
    pub fn live(&self, seed: u64) -> (Counts, Option<Finding>) {
        let (set_up, steps) = draw::life(seed);
        let (counts, what) = self.live_steps(&set_up, &steps);
        (counts, what.map(|what| Finding { seed, what, set_up, steps }))
    }

    /// True if the life of a seed goes wrong on a volume that writes its pages one by one.
    pub fn finds_out(&self, seed: u64) -> bool {
        let (mut set_up, steps) = draw::life(seed);
        set_up.volume.commits = Commits::PageByPage;
        set_up.name += "-unsafe";
        self.live_steps(&set_up, &steps).1.is_some()
    }

    /// The shortest list of steps with which the life of a finding still goes wrong, and the failure, as
    /// text.
    pub fn least(&self, finding: &Finding) -> String {
        let set_up = &finding.set_up;
        let mut steps = finding.steps.clone();
        let (mut tries, mut part) = (0, steps.len().div_ceil(2));
        while part > 0 && tries < TRIES {
            let mut from = 0;
            while from < steps.len() && tries < TRIES {
                let mut fewer = steps.clone();
                fewer.drain(from..(from + part).min(fewer.len()));
                tries += 1;
                match self.live_steps(set_up, &fewer).1 {
                    Some(_) => steps = fewer,
                    None => from += part,
                }
            }
            part /= 2;
        }
        let what = self.live_steps(set_up, &steps).1.unwrap_or_else(|| String::from("it does not return"));
        let lines: Vec<String> = steps.iter().map(|step| format!("  {step:?}")).collect();
        format!("the least of seed {}: {what}\n{}\n{set_up:?}", finding.seed, lines.join("\n"))
    }
}
