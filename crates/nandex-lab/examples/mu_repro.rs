//! Prints the scorecard of the mu-Tree paper: `mu_repro [FOLDER]`, the results of every experiment into
//! FOLDER if given.

#![allow(clippy::print_stdout)]

use nandex_lab::LabError;
use nandex_lab::experiment::{self, Bench, RunPlan, write_folder};
use nandex_lab::repro;
use nandex_lab::runner::Control;
use std::path::PathBuf;

fn main() -> Result<(), LabError> {
    let folder = std::env::args().nth(1).map(PathBuf::from);
    let (plan, control) = (RunPlan::default(), Control::default());
    let mut bench = Bench::new(&plan, &control);
    for experiment in experiment::list() {
        let start = std::time::Instant::now();
        let results = bench.run(experiment)?;
        if let Some(folder) = &folder {
            write_folder(&results, &folder.join(&experiment.definition.name))?;
        }
        println!("== {} ({:.1} s)", experiment.definition.name, start.elapsed().as_secs_f64());
        for row in experiment.claims.iter().map(|claim| repro::row(claim, &results)) {
            println!("{} {}: {}\n    {}", row.id, row.verdict.words(), row.claim, row.note);
            for v in &row.values {
                println!(
                    "    {} {}: paper {:?} measured {:?} {}",
                    v.cell,
                    v.figure,
                    v.paper,
                    v.measured,
                    v.verdict.words()
                );
            }
        }
    }
    Ok(())
}
