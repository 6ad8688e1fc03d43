//! `nandex advise`: which index to take, as text, a configuration and JSON.

use super::compare::named;
use crate::Status;
use crate::advise_args::Advise;
use crate::output::{self, Target};
use crate::progress::{Progress, stop_on_interrupt};
use anyhow::{Context, Result, bail};
use nandex_lab::advise::{CONFIG_HEAD, advise_with};
use nandex_lab::runner::Control;
use nandex_report::advice;
use std::fs;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn run(args: &Advise) -> Result<Status> {
    let request = args.request()?;
    output::prepare(&args.out)?;
    args.json.as_ref().map_or(Ok(()), Target::prepare)?;
    require_ours(&args.out)?;
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let progress = Progress::new(Arc::clone(&control));
    let found = progress.follow(|| advise_with(&request, &control, &|stage| progress.tell(stage)));
    let found = found.map_err(named)?;
    if control.is_cancelled() {
        bail!("stopped before the answer was there");
    }
    if found.answer.is_some() {
        output::write_file(&args.out, |out| out.write_all(found.config.as_bytes()))?;
    }
    if let Some(target) = &args.json {
        target.write(|out| {
            serde_json::to_writer_pretty(&mut *out, &found)?;
            writeln!(out)
        })?;
    }
    if args.json != Some(Target::Stdout) {
        output::print(&advice::render(&found, output::width()))?;
    }
    if found.answer.is_some() {
        output::tell(&format!("the configuration is in {}", args.out.display()));
    }
    Ok(if found.answer.is_some() { Status::Done } else { Status::Bad })
}

/// Refuses to overwrite a file that is not an answer of this command.
fn require_ours(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    if !text.starts_with(CONFIG_HEAD) {
        bail!("{} is there and not of nandex advise: give another name with --out", path.display());
    }
    Ok(())
}
