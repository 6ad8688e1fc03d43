//! The costs of finding an index again.

use super::Job;
use super::meter::Reading;
use super::records::Records;
use crate::results::Costs;

/// The costs of mounting the index after a power cut and after a close; `None` if the mount is refused.
pub(super) fn costs(job: &Job<'_>, index: Records<'_>) -> [Option<Costs>; 2] {
    let Ok(Some(chip)) = index.end() else { return [None, None] };
    let mount = || {
        let before = Reading::of(&chip.lock());
        let index = (job.index.mount)(Box::new(chip.clone()), &job.settings).ok()?;
        let after = Reading::of(&chip.lock());
        Some((index, after.since(&before)))
    };
    let Some((mut index, left)) = mount() else { return [None, None] };
    let is_closed = index.close().is_ok();
    drop(index);
    let closed = if is_closed { mount().map(|(_, costs)| costs) } else { None };
    [Some(left), closed]
}
