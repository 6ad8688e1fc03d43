//! A server process with the SQLite of its program; `server.py` in Rust.

use crate::sqlite::{Database, Refusal, Sqlite};
use nandex_sqlite::VolumeConfig;
use std::io::{self, BufRead, Write};

/// Executes requests, one a line of stdin, and answers each on stdout. Databases are opened as
/// `file:NAME?vfs=nandex&device=PATH`.
///
/// # Errors
///
/// A message if the VFS cannot be registered or stdout is closed.
pub fn serve(sqlite: Sqlite) -> Result<(), String> {
    let vfs = sqlite.register_for_devices("nandex", VolumeConfig::default());
    let _vfs = vfs.map_err(|error| error.to_string())?;
    let mut out = io::stdout().lock();
    let mut database = None;
    let mut say = |text: String| writeln!(out, "{text}").and_then(|()| out.flush());
    say(format!("ready {}", sqlite.version())).map_err(|error| error.to_string())?;
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let told = match answer(sqlite, &mut database, &line) {
            Ok(rows) => {
                let lines: usize = rows.iter().map(|row| row.matches('\n').count() + 1).sum();
                format!("ok {lines}{}", rows.iter().map(|row| format!("\n{row}")).collect::<String>())
            }
            Err(refusal) => {
                let kind = if refusal.is_full() { "full" } else { "no" };
                format!("{kind} {}", refusal.to_string().replace('\n', " "))
            }
        };
        let is_in = database.as_ref().is_some_and(Database::in_transaction);
        say(format!("{} {told}", if is_in { "in" } else { "out" })).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn answer(sqlite: Sqlite, database: &mut Option<Database>, line: &str) -> Result<Vec<String>, Refusal> {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    match verb {
        "open" => *database = Some(sqlite.open(rest)?),
        "close" => *database = None,
        "backup" => {
            let (uri, first) = rest.split_once(' ').unwrap_or((rest, ""));
            let copy = sqlite.open(uri)?;
            copy.run(first)?;
            if let Some(database) = database {
                database.back_up(&copy)?;
            }
        }
        _ => return database.as_ref().map_or(Ok(Vec::new()), |database| database.read(rest)),
    }
    Ok(Vec::new())
}
