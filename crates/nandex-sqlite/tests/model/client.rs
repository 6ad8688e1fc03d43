//! The SQLite of python3 with the extension, on an image; its process is killed for a cut.

use crate::draw::SetUp;
use crate::engine::{Cut, Engine, No, Side};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process with one database.
struct Process {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    in_transaction: bool,
}

fn extension() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let name = if cfg!(target_os = "macos") { "libnandex_sqlite.dylib" } else { "libnandex_sqlite.so" };
    folder.join(name)
}

impl Process {
    fn start(python: &str) -> Result<Process, String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/extension/server.py");
        let mut command = Command::new(python);
        // Its own library suffices.
        command.arg("-S").arg(script).arg(extension()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut process = Process { child, to, from, in_transaction: false };
        let first = process.line().unwrap_or_else(|| String::from("python3 ended"));
        if first == "ready" { Ok(process) } else { Err(first) }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(read) if read > 0 => Some(line.trim_end_matches('\n').to_string()),
            _ => None,
        }
    }

    fn ask(&mut self, request: &str) -> Result<Vec<String>, No> {
        let sent = writeln!(self.to, "{}", request.replace('\n', " "));
        let head = sent.ok().and_then(|()| self.line()).ok_or(No::Off)?;
        let (state, rest) = head.split_once(' ').unwrap();
        let (kind, rest) = rest.split_once(' ').unwrap();
        self.in_transaction = state == "in";
        match kind {
            "ok" => (0..rest.parse::<usize>().unwrap()).map(|_| self.line().ok_or(No::Off)).collect(),
            "full" => Err(No::Full),
            _ => Err(No::Said(rest.to_string())),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The python3 that can, or why there is none. Its own path, as what is found first may be a script.
pub(crate) fn probe() -> Result<String, String> {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let output = asked.map_err(|error| format!("python3: {error}"))?;
    let python = String::from_utf8_lossy(&output.stdout).trim().to_string();
    Process::start(&python)?;
    Ok(python)
}

pub(crate) struct Client {
    python: String,
    folder: tempfile::TempDir,
    set_up: SetUp,
    plain: Process,
    flash: Option<Process>,
    /// Statements until the process is killed in the middle of one.
    kill_in: Option<u64>,
}

impl Client {
    pub(crate) fn new(python: &str, set_up: &SetUp) -> Client {
        let mut plain = Process::start(python).unwrap();
        plain.ask("open :memory:").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let python = String::from(python);
        Client { python, folder, set_up: set_up.clone(), plain, flash: None, kill_in: None }
    }

    fn ask(&mut self, side: Side, request: &str) -> Result<Vec<String>, No> {
        if side == Side::Plain {
            return self.plain.ask(request);
        }
        let process = self.flash.as_mut().ok_or(No::Off)?;
        if let Some(left) = &mut self.kill_in {
            if *left == 0 {
                // The kill meets the statement anywhere.
                writeln!(process.to, "{request}").unwrap();
                self.kill_in = None;
                self.flash = None;
                return Err(No::Off);
            }
            *left -= 1;
        }
        process.ask(request)
    }
}

impl Engine for Client {
    fn run(&mut self, side: Side, sql: &str) -> Result<(), No> {
        self.ask(side, &format!("run {sql}")).map(drop)
    }

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
        let uri = self.uri(name);
        self.ask(Side::Flash, &format!("backup {uri} {}", self.set_up.locking)).map(drop)
    }

    fn plan_cut(&mut self, cut: Cut) {
        self.kill_in = Some(cut.after % 6);
    }

    fn mount(&mut self, name: &str) -> Result<(), No> {
        match &mut self.flash {
            // The last connection that is closed lets go of the image.
            Some(process) => drop(process.ask("close")?),
            None => self.flash = Some(Process::start(&self.python).map_err(No::Said)?),
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
