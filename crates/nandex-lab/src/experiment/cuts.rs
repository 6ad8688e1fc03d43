//! Power cuts as a computed cell.

use super::RunPlan;
use super::results::CellResult;
use crate::LabError;
use crate::runner::Control;

/// The cell of this name: `cuts/INDEX`.
pub(super) fn cell(name: &str, _plan: &RunPlan, _control: &Control) -> Result<CellResult, LabError> {
    let missing = Some(String::from("the power-cut tests are not part of this build"));
    Ok(CellResult { name: name.to_string(), missing, ..CellResult::default() })
}
