//! The costs of finding an index again.

use super::Job;
use super::meter::Reading;
use super::records::Records;
use crate::results::Costs;

/// Lets the index go and mounts it from the chip; none where that is refused.
pub(super) fn costs(job: &Job<'_>, index: Records<'_>) -> Option<Costs> {
    let chip = index.end().ok()??;
    let before = Reading::of(&chip.lock());
    (job.index.mount)(Box::new(chip.clone()), &job.settings).ok()?;
    let after = Reading::of(&chip.lock());
    Some(after.since(&before))
}
