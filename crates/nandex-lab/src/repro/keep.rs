//! Keeps results from one call to the next, so that an interrupted reproduction continues.
//!
//! Each experiment has a file with its results and with all that they depend on: the program, the definition
//! and the plan. If one of these differs, the experiment is measured again and the file replaced.

use crate::LabError;
use crate::experiment::{Experiment, ExperimentResults, RunPlan};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of results from earlier calls.
pub(super) struct Keep {
    folder: PathBuf,
    program: String,
    plan: String,
}

#[derive(Deserialize, Serialize)]
struct Kept {
    program: String,
    plan: String,
    results: ExperimentResults,
}

impl Keep {
    pub(super) fn new(folder: &Path, plan: &RunPlan) -> Result<Keep, LabError> {
        fs::create_dir_all(folder).map_err(|error| LabError::io(folder.display(), error))?;
        let plan = format!("smoke {}, seeds {:?}, data {:?}", plan.smoke, plan.seeds, plan.data);
        Ok(Keep { folder: folder.to_path_buf(), program: program(), plan })
    }

    fn path(&self, experiment: &Experiment) -> PathBuf {
        self.folder.join(format!("{}.json", experiment.definition.name))
    }

    /// The kept results of a complete experiment. `None` if they are from another program, definition or
    /// plan, or incomplete.
    pub(super) fn find(&self, experiment: &Experiment) -> Option<ExperimentResults> {
        let bytes = fs::read(self.path(experiment)).ok()?;
        let kept: Kept = serde_json::from_slice(&bytes).ok()?;
        let is_same = kept.program == self.program
            && kept.plan == self.plan
            && kept.results.definition == experiment.definition;
        is_same.then_some(kept.results)
    }

    /// Keeps results. The file is written under another name and renamed, so that it is whole or absent.
    pub(super) fn put(&self, experiment: &Experiment, results: &ExperimentResults) -> Result<(), LabError> {
        let path = self.path(experiment);
        let beside = path.with_extension("part");
        let (program, plan) = (self.program.clone(), self.plan.clone());
        let kept = Kept { program, plan, results: results.clone() };
        let write = || {
            fs::write(&beside, serde_json::to_vec(&kept)?)?;
            fs::rename(&beside, &path)
        };
        write().map_err(|error: std::io::Error| LabError::io(path.display(), error))
    }
}

/// A mark that tells builds of the program apart.
fn program() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let file = std::env::current_exe().and_then(fs::metadata);
    let built = file.map(|file| (file.len(), file.modified().ok()));
    format!("{version} {built:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment;

    #[test]
    fn what_is_kept_comes_back_for_the_same_plan_alone() {
        let folder = tempfile::tempdir().unwrap();
        let plan = RunPlan { smoke: true, ..RunPlan::default() };
        let found = experiment::find("ls-lru-examples").unwrap();
        let results = experiment::run("ls-lru-examples", &plan, &crate::runner::Control::default()).unwrap();
        let keep = Keep::new(folder.path(), &plan).unwrap();
        assert!(keep.find(found).is_none());
        keep.put(found, &results).unwrap();
        let again = keep.find(found).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), serde_json::to_string(&results).unwrap());
        let other = Keep::new(folder.path(), &RunPlan { smoke: false, ..plan.clone() }).unwrap();
        assert!(other.find(found).is_none());
        let path = keep.path(found);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(keep.find(found).is_none(), "a file cut short is taken");
    }
}
