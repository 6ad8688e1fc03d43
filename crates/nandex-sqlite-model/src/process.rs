//! A SQLite in a process of its own, on an image; for a cut the process is killed.
//!
//! A request is a line, `open URI`, `close`, `run SQL` or `backup URI SQL`. The answer begins with `in` or
//! `out` of a transaction, and `ok LINES`, `full WORDS` or `no WORDS`; the first column of every row follows.

use crate::draw::SetUp;
use crate::engine::{Cut, Engine, No, Side};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// How to start a program that serves a database.
#[derive(Clone, Debug)]
pub struct Program {
    name: OsString,
    arguments: Vec<OsString>,
    environment: Option<(&'static str, &'static str)>,
    version: String,
}

impl Program {
    /// The python3 that is found first, with the extension; it is tried.
    ///
    /// # Errors
    ///
    /// In words, where there is none, or it cannot load the extension.
    pub fn python(extension: &Path) -> Result<Program, String> {
        // Its own path, as what is found first may be a script.
        let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        let output = asked.map_err(|error| format!("python3: {error}"))?;
        let python = String::from_utf8_lossy(&output.stdout).trim().to_string();
        let extension = std::path::absolute(extension).map_err(|error| error.to_string())?;
        // Python's own library suffices.
        let arguments = ["-S", "-c", include_str!("server.py")].map(OsString::from);
        let arguments = arguments.into_iter().chain([extension.into_os_string()]).collect();
        Program::tried(Program { name: python.into(), arguments, environment: None, version: String::new() })
    }

    /// Runs this program again as a server: it must call [`serve`](crate::serve) with these arguments and
    /// this environment. Starts it once as a trial.
    ///
    /// # Errors
    ///
    /// A message if the trial fails.
    pub fn own(arguments: &[&str], environment: (&'static str, &'static str)) -> Result<Program, String> {
        let name = std::env::current_exe().map_err(|error| error.to_string())?.into_os_string();
        let arguments = arguments.iter().map(OsString::from).collect();
        Program::tried(Program { name, arguments, environment: Some(environment), version: String::new() })
    }

    fn tried(mut self) -> Result<Program, String> {
        self.version = self.start()?.version.clone();
        Ok(self)
    }

    /// Version of the program's SQLite.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Starts the program.
    ///
    /// # Errors
    ///
    /// A message.
    pub fn start(&self) -> Result<Process, String> {
        let mut command = Command::new(&self.name);
        command.args(&self.arguments).envs(self.environment).stdin(Stdio::piped()).stdout(Stdio::piped());
        let name = self.name.display();
        let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{name} has no stdin and stdout"));
        };
        let from = BufReader::new(from);
        let mut process = Process { child, to, from, in_transaction: false, version: String::new() };
        let mut told = String::new();
        // Something else may come first.
        while let Some(line) = process.line() {
            if let Some((_, version)) = line.rsplit_once("ready ") {
                process.version = String::from(version);
                return Ok(process);
            }
            told = line;
        }
        Err(if told.is_empty() { format!("{name} ended") } else { told })
    }
}

/// A process with one database, killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    in_transaction: bool,
    version: String,
}

impl Process {
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(read) if read > 0 => Some(line.trim_end_matches('\n').to_string()),
            _ => None,
        }
    }

    /// Kills the process. Its earlier answers can still be read.
    pub fn kill(&mut self) {
        // It may be gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a request without waiting for the answer.
    pub fn send(&mut self, request: &str) {
        // One that is gone does nothing more either.
        let _ = writeln!(self.to, "{}", request.replace('\n', " "));
    }

    /// Sends a request, and hears the answer.
    ///
    /// # Errors
    ///
    /// Those of [`Process::hear`].
    pub fn ask(&mut self, request: &str) -> Result<Vec<String>, No> {
        self.send(request);
        self.hear()
    }

    /// Hears the answer to the first request that was not answered: the first column of every row.
    ///
    /// # Errors
    ///
    /// SQLite's, and [`No::Off`] where the process is gone.
    pub fn hear(&mut self) -> Result<Vec<String>, No> {
        let head = self.line().ok_or(No::Off)?;
        let mut words = head.splitn(3, ' ');
        let (state, kind, rest) = (words.next(), words.next(), words.next().unwrap_or_default());
        self.in_transaction = state == Some("in");
        match (kind, rest.parse::<usize>()) {
            (Some("ok"), Ok(lines)) => (0..lines).map(|_| self.line().ok_or(No::Off)).collect(),
            (Some("full"), _) => Err(No::Full),
            _ => Err(No::Said(rest.to_string())),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A database in memory in one process, one on a volume in another.
pub(crate) struct Processes {
    program: Program,
    folder: tempfile::TempDir,
    set_up: SetUp,
    plain: Process,
    flash: Option<Process>,
    /// Statements until the process is killed in the middle of one.
    kill_in: Option<u64>,
}

impl Processes {
    pub(crate) fn new(program: &Program, set_up: &SetUp) -> Result<Processes, String> {
        let mut plain = program.start()?;
        plain.ask("open :memory:").map_err(|no| no.to_string())?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let (program, set_up) = (program.clone(), set_up.clone());
        Ok(Processes { program, folder, set_up, plain, flash: None, kill_in: None })
    }

    fn ask(&mut self, side: Side, request: &str) -> Result<Vec<String>, No> {
        if side == Side::Plain {
            return self.plain.ask(request);
        }
        let process = self.flash.as_mut().ok_or(No::Off)?;
        if let Some(left) = &mut self.kill_in {
            if *left == 0 {
                // The kill meets the statement anywhere.
                process.send(request);
                self.kill_in = None;
                self.flash = None;
                return Err(No::Off);
            }
            *left -= 1;
        }
        process.ask(request)
    }
}

impl Engine for Processes {
    fn read(&mut self, side: Side, sql: &str) -> Result<Vec<String>, No> {
        self.ask(side, &format!("run {sql}"))
    }

    fn in_transaction(&mut self, side: Side) -> bool {
        match side {
            Side::Plain => self.plain.in_transaction,
            Side::Flash => self.flash.as_ref().is_some_and(|process| process.in_transaction),
        }
    }

    fn back_up(&mut self, name: &str) -> Result<(), No> {
        let request = format!("backup {} {}", self.uri(name), self.set_up.locking);
        self.ask(Side::Flash, &request).map(drop)
    }

    fn plan_cut(&mut self, cut: Cut) {
        self.kill_in = Some(cut.after % 6);
    }

    fn mount(&mut self, name: &str) -> Result<(), No> {
        match &mut self.flash {
            // The last connection that is closed lets go of the image.
            Some(process) => drop(process.ask("close")?),
            None => self.flash = Some(self.program.start().map_err(No::Said)?),
        }
        let uri = self.uri(name);
        self.ask(Side::Flash, &format!("open {uri}")).map(drop)
    }

    fn uri(&self, name: &str) -> String {
        let geometry = self.set_up.geometry;
        format!(
            "file:{name}?vfs=nandex&device={}&sync=0&size={}K&page_bytes={}&block_pages={}",
            self.folder.path().join("chip.img").display(),
            self.bytes() >> 10,
            geometry.page_bytes,
            geometry.pages_per_block
        )
    }

    fn bytes(&self) -> u64 {
        let geometry = self.set_up.geometry;
        let pages = u64::from(geometry.blocks) * u64::from(geometry.pages_per_block);
        pages * u64::from(geometry.page_bytes)
    }
}
